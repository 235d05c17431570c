// SPDX-License-Identifier: MIT
// The insides of the scheduler: scheduler.c has the thread, queue.c the jobs that wait, batch.c the rows of an
// evaluation, slots.c where jobs go and end, disk.c what comes from disk and goes there, saved.c slots' prompts in files.
#ifndef HEARTH_SERVE_SCHEDULER_STATE_H
#define HEARTH_SERVE_SCHEDULER_STATE_H

#include <pthread.h>

#include "draft/draft.h"
#include "serve/prefix_files.h"
#include "serve/prefixes.h"
#include "serve/scheduler.h"

struct hearth_slot {
    struct hearth_job *job;       // NULL: idle
    struct hearth_slot_info last; // of the job before, whose counts are told until the next one's
    int seq, n_done;              // tokens of the job that the sequence has
    int rows, first_row;          // in this evaluation
    int logits;                   // the row of it that gets logits, and guesses follow; -1: none
    struct hearth_draft draft;    // what may follow the job's tokens
    bool counts;                  // what was there of its prompt is not counted yet
    bool restores;                // its prompt comes from disk for now
    struct hearth_block_key key;  // of the last block of n_done tokens, then
    int n_offered;                // blocks that were handed to the writer
};

// A prompt that ended in a slot.
struct hearth_last {
    hearth_token *tokens;
    int n;
};

struct hearth_scheduler {
    const struct hearth_model *model;
    struct hearth_session *session;
    int n_slots, max_waiting, room, max_rows, max_steps, n_guesses;
    struct hearth_pace pace;
    bool guesses_wait; // there was no room for them: the next evaluation has none
    struct hearth_slot *slots;
    struct hearth_last *lasts; // [n_slots]; NULL: nobody asks for them
    struct hearth_prefixes *prefixes;
    struct hearth_prefix_files *files;   // NULL: prompts are kept in memory alone
    double block_read_ns, block_cost_ns; // of a block from disk; of computing one, as files say. 0: unknown
    struct hearth_batch_row *rows;       // [max_rows]
    int n_rows, n_prompt_rows;
    uint64_t n_turns; // evaluations with parts of prompts
    double step_ns,
        prompt_token_ns; // of an evaluation of steps alone; of a further row of a prompt. 0: unknown
    pthread_t thread;
    bool joined;

    pthread_mutex_t mutex; // for all below, and for the slots where others than the thread look at them
    pthread_cond_t work, idle, acted;
    struct hearth_job *first, **end; // that wait
    int n_waiting;
    bool evaluating, ending, aborted;
    bool written; // the writer of files is idle again
    struct hearth_slot_errand *errands;
    int n_errands;
    uint64_t order;
    struct hearth_scheduler_info info;
};

// ---- queue.c: both with the mutex held

// The task's next job waits.
void hearth_queue_next(struct hearth_scheduler *s, struct hearth_task *task);
// Takes the job at *at, which waits, out of the queue; of a task whose jobs wait one by one, the next
// follows.
struct hearth_job *hearth_queue_take(struct hearth_scheduler *s, struct hearth_job **at);

// ---- slots.c

// Gives waiting jobs to idle slots.
void hearth_slots_fill(struct hearth_scheduler *s);
// Counts what was there of the prompts that are about to be evaluated.
void hearth_slots_count_cached(struct hearth_scheduler *s);
// Ends jobs that nobody wants any more, whether they wait or not; all of them once the scheduler is aborted.
void hearth_slots_end_unwanted(struct hearth_scheduler *s);
// What a slot that is at work does. With the mutex held.
struct hearth_slot_info hearth_slot_look(const struct hearth_slot *slot);
// Ends the slot's job; its prompt is kept.
void hearth_slot_end(struct hearth_scheduler *s, struct hearth_slot *slot, enum hearth_end end,
                     const char *message);
// Makes room in the KV cache: lets go of a prefix, else of a job, which waits again.
void hearth_slots_make_room(struct hearth_scheduler *s);

// ---- disk.c

// A folder that does not serve leads to a warning.
void hearth_disk_open(struct hearth_scheduler *s, const char *folder, uint64_t most);
// Whether the block after `done` tokens of the job's prompt, which are whole blocks, is worth reading from
// disk.
bool hearth_disk_goes_on(struct hearth_scheduler *s, const struct hearth_job *job, int done);
// From now on the slot's prompt comes from disk, as far as that goes.
void hearth_disk_begin(struct hearth_scheduler *s, struct hearth_slot *slot);
// Reads for a while.
void hearth_disk_restore(struct hearth_scheduler *s);
// Gives the writer something to do, if it is idle.
void hearth_disk_offer(struct hearth_scheduler *s);
// At the end, in any thread: writes what is left, for some seconds at most.
void hearth_disk_finish(struct hearth_scheduler *s);

// ---- saved.c

// Notes the prompt that ended in a slot.
void hearth_saved_note(struct hearth_scheduler *s, int slot, const hearth_token *tokens, int n);
// Does the errands that wait.
void hearth_saved_act(struct hearth_scheduler *s);
void hearth_saved_close(struct hearth_scheduler *s);

// ---- batch.c

// Chooses the rows of the next evaluation. False: there are none.
bool hearth_batch_fill(struct hearth_scheduler *s);
// Whether guesses are among them.
bool hearth_batch_guesses(const struct hearth_scheduler *s);
// Notes how long an evaluation of these rows took.
void hearth_batch_took(struct hearth_scheduler *s, uint64_t ns);

// A mean of what was measured, in which the newest counts most; 0: nothing was yet.
static inline void hearth_average(double *mean, double value)
{
    *mean = *mean > 0 ? 0.8 * *mean + 0.2 * value : value;
}

#endif
