// SPDX-License-Identifier: MIT
// A task: the texts that one request asks for. Its jobs, one a text, are done by the scheduler, in its
// thread; their texts come as pieces to whoever answers the request, in another thread.
#ifndef HEARTH_SERVE_TASK_H
#define HEARTH_SERVE_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/pooling.h"
#include "hearth.h"
#include "serve/out.h"

enum hearth_end {
    HEARTH_END_NONE,      // not yet
    HEARTH_END_EOS,       // the model ended its text
    HEARTH_END_STOP,      // a text to stop at came
    HEARTH_END_LENGTH,    // as many tokens as wanted, or the context is full
    HEARTH_END_EMBEDDED,  // the embedding of its prompt is there, and nothing else was wanted
    HEARTH_END_CANCELLED, // nobody wants it any more
    HEARTH_END_FAILED     // see the message
};

// How a job went. Times in nanoseconds.
struct hearth_job_stats {
    int n_prompt, n_cached, n_generated; // tokens; n_cached of n_prompt were there already
    int n_guessed, n_came_true;          // tokens that were guessed and checked; of these
    int slot;                            // where it is, or was last
    uint64_t prompt_ns, generate_ns;
};

// Most likely tokens that can be told with each.
#define HEARTH_PROBS_MAX 20

struct hearth_prob {
    hearth_token token;
    float log_prob; // natural
};

// What comes of a job with a token, or at its end.
struct hearth_piece {
    struct hearth_piece *next;
    int job;
    bool has_token;
    hearth_token token; // the text of which may come with a later piece
    float log_prob;     // of the token; with `probs` wanted
    struct hearth_prob *probs;
    int n_probs; // the most likely tokens, best first
    enum hearth_end end;
    struct hearth_job_stats stats; // so far; times with the end alone
    const char *stop;              // HEARTH_END_STOP: which of the task's texts
    const char *message;           // HEARTH_END_FAILED
    const char *text;
    size_t n_text;
};

struct hearth_task;

struct hearth_job {
    struct hearth_task *task;
    int index;            // in the task
    hearth_token *tokens; // the prompt's, then the generated ones
    int n_tokens, cap, n_prompt;
    int n_predict; // tokens to generate at most; -1: until the context is full
    int slot;      // that it wants; -1: any
    int n_probs;   // most likely tokens to tell with each; -1: none, not even the token's own probability
    bool ignore_eos;
    struct hearth_sampler *sampler;
    struct hearth_stream *stream;
    struct hearth_pooler pooler; // its `out` is there where the prompt's embedding is wanted, and no text

    // The scheduler's.
    struct hearth_job *next;
    const char *stop;       // the text that it stopped at
    struct hearth_out held; // text that may be the beginning of one to stop at
    struct hearth_job_stats stats;
    uint64_t submitted_ns, started_ns, first_ns, order;
};

struct hearth_task {
    struct hearth_job *jobs;
    int n_jobs;
    char **stops; // texts that end a job, and are no part of its text
    int n_stops;
    bool streams; // each piece is wanted at once; else all at the end
    // Its jobs wait one after the other: each is submitted when the one before begins. So others that wait
    // take turns with them, however many there are.
    bool one_by_one;
    int n_submitted; // the scheduler's
    // What its samplers use, and what gives it back when they are closed.
    struct hearth_grammar *grammar;
    struct hearth_constraints *constraints;
    atomic_bool cancelled;
};

// A task with so many jobs, all zero but `task` and `index`. NULL: no memory. Two hold it: who opens it, and
// from its submission to the end of its last job the scheduler.
struct hearth_task *hearth_task_open(int n_jobs);
void hearth_task_hold(struct hearth_task *task);
void hearth_task_drop(struct hearth_task *task);

// ---- the answering side

// The next piece, to be freed with hearth_piece_free(); NULL: there is none yet, or *ended.
struct hearth_piece *hearth_task_take(struct hearth_task *task, bool *ended);
void hearth_piece_free(struct hearth_piece *piece);

// Unless there is something to take: calls sleep(arg), and wake(arg) when there is, once. Both run with the
// task locked, wake() in another thread. Without `streams`, only the end of all jobs is something. False:
// there is something to take.
bool hearth_task_sleep(struct hearth_task *task, void (*sleep)(void *arg), void (*wake)(void *arg),
                       void *arg);
// Wakes a sleeper although nothing is there.
void hearth_task_nudge(struct hearth_task *task);
// From now on nobody is woken: `arg` may go.
void hearth_task_forget(struct hearth_task *task);

// ---- the scheduler's side

// Hands a piece over. `probs` and `text` are copied; NULL is no piece, for want of memory: the job's text
// then lacks it, and ends as a failure.
void hearth_task_put(struct hearth_task *task, const struct hearth_piece *piece);

#endif
