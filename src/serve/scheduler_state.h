// SPDX-License-Identifier: MIT
// The insides of the scheduler: scheduler.c has the thread, queue.c the jobs that wait, batch.c the rows of an
// evaluation, slots.c where jobs go and end.
#ifndef HEARTH_SERVE_SCHEDULER_STATE_H
#define HEARTH_SERVE_SCHEDULER_STATE_H

#include <pthread.h>

#include "serve/prefixes.h"
#include "serve/scheduler.h"

struct hearth_slot {
    struct hearth_job *job; // NULL: idle
    int seq, n_done;        // tokens of the job that the sequence has
    int rows, first_row;    // in this evaluation
    int logits;             // the row of it that gets logits; -1: none
    int passed_over;        // evaluations that had no place for its prompt
};

struct hearth_scheduler {
    const struct hearth_model *model;
    struct hearth_session *session;
    int n_slots, max_waiting, room, max_rows, max_steps;
    struct hearth_slot *slots;
    struct hearth_prefixes *prefixes;
    struct hearth_batch_row *rows; // [max_rows]
    int n_rows, n_prompt_rows;
    double step_ns,
        prompt_token_ns; // of an evaluation of steps alone; of a further row of a prompt. 0: unknown
    pthread_t thread;
    bool joined;

    pthread_mutex_t mutex; // for all below, and for the slots where others than the thread look at them
    pthread_cond_t work, idle;
    struct hearth_job *first, **end; // that wait
    int n_waiting;
    bool evaluating, ending, aborted;
    uint64_t order;
    struct hearth_scheduler_info info;
};

// ---- queue.c: both with the mutex held

// The task's next job waits.
void hearth_queue_next(struct hearth_scheduler *s, struct hearth_task *task);
// Takes the job at *at, which waits, out of the queue; of a task whose jobs wait one by one, the next follows.
struct hearth_job *hearth_queue_take(struct hearth_scheduler *s, struct hearth_job **at);

// ---- slots.c

// Gives waiting jobs to idle slots.
void hearth_slots_fill(struct hearth_scheduler *s);
// Ends jobs that nobody wants any more, whether they wait or not; all of them once the scheduler is aborted.
void hearth_slots_end_unwanted(struct hearth_scheduler *s);
// Ends the slot's job; its prompt is kept.
void hearth_slot_end(struct hearth_scheduler *s, struct hearth_slot *slot, enum hearth_end end,
                     const char *message);
// Makes room in the KV cache: lets go of a prefix, else of a job, which waits again.
void hearth_slots_make_room(struct hearth_scheduler *s);

// ---- batch.c

// Chooses the rows of the next evaluation. False: there are none.
bool hearth_batch_fill(struct hearth_scheduler *s);
// Notes how long an evaluation of these rows took.
void hearth_batch_took(struct hearth_scheduler *s, uint64_t ns);

#endif
