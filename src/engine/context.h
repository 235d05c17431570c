// SPDX-License-Identifier: MIT
// What computing may know of a session: the model's sizes and kernels, weights, threads, where the tokens of
// the batch stand, whom to tell what happens. Each file that computes has a workspace of its own besides.
#ifndef HEARTH_ENGINE_CONTEXT_H
#define HEARTH_ENGINE_CONTEXT_H

#include "base/fault.h"
#include "base/threads.h"
#include "model/model.h"

// Where one token of a batch stands.
struct hearth_row {
    int seq, pos;
};

// Tokens [first, first + n) of a batch, all of one numeric class. Those of a sequence lie side by side, at
// rising positions.
struct hearth_rows {
    int first, n;
    enum hearth_phase phase;
};

// For tests, profiles and traces: callbacks on the thread that evaluates, layer by layer; each may be NULL.
struct hearth_probes {
    // The experts of each row and their weights, [n], ascending.
    void (*on_experts)(void *arg, int layer, struct hearth_row row, const int *ids, const float *weights,
                       int n);
    void *on_experts_arg;
    // Each row's input of a feed-forward part (normed [E]) and the stream before its norm [E], before the
    // experts are chosen.
    void (*on_ffn)(void *arg, enum hearth_phase phase, int layer, struct hearth_row row, const float *normed,
                   const float *stream);
    void *on_ffn_arg;
    // What goes down, act [F] of one space, for each row; with experts once for each of a row's experts (else
    // expert is 0).
    void (*on_neurons)(void *arg, int layer, int expert, struct hearth_row row, const float *act);
    void *on_neurons_arg;
    // The same of the activated gates [F] (without a gate: activated up), in prompts and in steps with a
    // sparsity threshold, which they decide.
    void (*on_gates)(void *arg, int layer, int expert, struct hearth_row row, const float *gates);
    void *on_gates_arg;
    // The neurons that a step needs of an expert's space, experts ascending: bytes of 0 or 1, [F] of marks
    // [max(1, X) x F], to be cleared. Both or none are set. Clusters are marked by any thread.
    void (*on_marks)(void *arg, int layer, int expert, uint8_t *marks);
    void *on_marks_arg;
    uint8_t *marks;
};

// Whether somebody wants to see what single neurons give.
static inline bool hearth_probes_see_neurons(const struct hearth_probes *p)
{
    return p->on_neurons || p->on_gates || p->on_marks;
}

// Of an open session, for the rooms above and for tests: between evaluations, callbacks may be set in it.
struct hearth_probes *hearth_session_probes(struct hearth_session *session);

// Something to be done beside the next matrix product, by whichever thread comes to it first.
struct hearth_deferred {
    void (*fn)(void *arg); // NULL: nothing
    void *arg;
};

struct hearth_context {
    const struct hearth_hparams *hp;
    const struct hearth_kernels *kernels;
    const char *path;                     // of the model's file, for messages
    const struct hearth_xielu *xielu;     // as in struct hearth_model
    const struct hearth_weights *weights; // a layer's are in memory while it is computed
    struct hearth_pool *pool;
    struct hearth_fault *fault;
    struct hearth_deferred *deferred;
    const struct hearth_probes *probes;
    const struct hearth_row *rows; // [T] of the batch
    const int *tokens;             // [T] the same
    // [n_layer] which layers are computed elsewhere in this evaluation, so that nothing is to be read ahead for them;
    // NULL: none.
    const bool *elsewhere;
    bool looks_after; // what is computed now is followed by hearth_fault_look(), before anybody uses it
};

// Whether there is such a layer, and the CPU computes it.
static inline bool hearth_is_here(const struct hearth_context *c, int layer)
{
    return layer < c->hp->n_layer && !(c->elsewhere && c->elsewhere[layer]);
}

// Whether a task of a prompt may be left out, because the evaluation ends before anybody uses its result. One
// layer of a long prompt can take seconds.
static inline bool hearth_given_up(const struct hearth_context *c, enum hearth_phase phase)
{
    return phase == HEARTH_PHASE_PROMPT && c->looks_after && hearth_fault_is_near(c->fault);
}

// Row i of a matrix of rows of `width` floats.
static inline float *hearth_row_of(float *base, int i, int width)
{
    return base + (size_t)i * (size_t)width;
}

// Runs a task list on the session's threads; a single task runs at once on the calling thread.
static inline void hearth_parallel(const struct hearth_context *c, hearth_task_fn fn, void *arg, int n_tasks)
{
    if (n_tasks == 1)
        fn(arg, 0, 0);
    else
        hearth_pool_run(c->pool, fn, arg, n_tasks);
}

#endif
