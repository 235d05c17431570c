// SPDX-License-Identifier: MIT
// The scheduler: one thread that owns the session and does the jobs of all tasks together. Each evaluation
// has a token of every text that is being generated, and a part of the prompts that are not evaluated yet.
// What comes of a job does not depend on the others: a token's logits depend on those before it and their
// phases alone, and each job has a sampler of its own.
#ifndef HEARTH_SERVE_SCHEDULER_H
#define HEARTH_SERVE_SCHEDULER_H

#include "serve/task.h"

struct hearth_scheduler;

struct hearth_scheduler_params {
    const struct hearth_model *model;
    struct hearth_session *session; // the scheduler's from now on
    int n_slots;                    // jobs that are done at once
    int max_waiting;                // jobs that wait besides
    int n_guesses;                  // tokens that are guessed ahead for each, at most
    struct hearth_drafter *drafter; // that guesses for n_slots texts, the scheduler's from now on; NULL: none
    const char *prefix_folder;      // where prompts are kept on disk, too; NULL: nowhere
    uint64_t prefix_bytes;          // of it at most
    bool saves_slots;               // hearth_scheduler_act() will be called
};

// Sequences that a session needs for so many slots: some are for what is kept of former prompts, one for what
// is being written to disk, one for a slot that is saved.
int hearth_scheduler_sequences(int n_slots, bool on_disk, bool saves_slots);

// Errors: HEARTH_E_MEMORY, HEARTH_E_IO (no thread).
int hearth_scheduler_open(struct hearth_scheduler **out, const struct hearth_scheduler_params *params,
                          struct hearth_error *err);

enum hearth_submission { HEARTH_SUBMITTED, HEARTH_SUBMISSION_FULL, HEARTH_SUBMISSION_ENDING };
// Has the task's jobs done. Each prompt has at least one token and leaves room for another, or
// with an embedding for none.
enum hearth_submission hearth_scheduler_submit(struct hearth_scheduler *s, struct hearth_task *task);
// Nobody wants the task any more: its jobs end as soon as the evaluation that runs, which ends at once if
// this task has a large part in it.
void hearth_scheduler_cancel(struct hearth_scheduler *s, struct hearth_task *task);

// Jobs that there can be at once, at work and waiting.
int hearth_scheduler_most_jobs(const struct hearth_scheduler *s);
// Whether so many jobs would be taken now. Threads: any.
bool hearth_scheduler_has_room(struct hearth_scheduler *s, int n_jobs);
// Tokens that a job can have in all.
int hearth_scheduler_room(const struct hearth_scheduler *s);

// From now on no tasks are taken, and those that wait end.
void hearth_scheduler_refuse(struct hearth_scheduler *s);
// Waits until all jobs have ended, for so long at most. Returns whether they have.
bool hearth_scheduler_await(struct hearth_scheduler *s, uint64_t ns);
// Ends all jobs at once, and the thread.
void hearth_scheduler_end(struct hearth_scheduler *s);
void hearth_scheduler_close(struct hearth_scheduler **s); // ends it, if it has not

// ---- prompts in files

enum hearth_slot_action { HEARTH_SLOT_SAVE, HEARTH_SLOT_RESTORE, HEARTH_SLOT_ERASE };
enum hearth_slot_outcome { HEARTH_SLOT_WAITS, HEARTH_SLOT_DONE, HEARTH_SLOT_BUSY, HEARTH_SLOT_FAILED };

// What is to be done with what is kept of a slot's last prompt: it is written to a file (docs/kv-file.md),
// comes from one, or is let go of, as far as no other prompt has it.
struct hearth_slot_errand {
    int slot;
    enum hearth_slot_action action;
    const char *path; // of the file
    // What came of it.
    int n_tokens;
    uint64_t n_bytes, ns;
    // The scheduler's.
    enum hearth_slot_outcome outcome;
    struct hearth_error *err;
    struct hearth_slot_errand *next;
};

// Waits until it is done, between two evaluations. HEARTH_SLOT_BUSY: the slot is at work, there are too many
// such errands, or the server ends; HEARTH_SLOT_FAILED: err says why, as hearth_seq_save() and
// hearth_seq_load() do. Threads: any.
enum hearth_slot_outcome hearth_scheduler_act(struct hearth_scheduler *s, struct hearth_slot_errand *errand,
                                              struct hearth_error *err);

// ---- what it does now

enum hearth_slot_state { HEARTH_SLOT_IDLE, HEARTH_SLOT_PROMPT, HEARTH_SLOT_GENERATING };

struct hearth_slot_info {
    enum hearth_slot_state state;
    uint64_t order; // number of the job
    int n_prompt, n_done, n_generated;
};

struct hearth_scheduler_info {
    int n_slots, n_busy, n_waiting, n_prefixes;
    uint64_t prompt_tokens, cached_tokens, generated_tokens, jobs; // since the start
    uint64_t restored_tokens, written_blocks;                      // of cached_tokens, from disk; to disk
    uint64_t prompt_ns, generate_ns;                               // sums of the jobs' own times
    uint64_t evaluations, busy_sum; // busy_sum / evaluations: busy slots at a time
    uint64_t preempted;             // jobs that had to make room for others, and began again
    struct hearth_streaming_stats streaming;
    struct hearth_kv_stats kv;
};

// `slots`: of n_slots; may be NULL. Threads: any.
void hearth_scheduler_look(struct hearth_scheduler *s, struct hearth_scheduler_info *info,
                           struct hearth_slot_info *slots);

#endif
