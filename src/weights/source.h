// SPDX-License-Identifier: MIT
// Where weights are while they are computed: the one interface of all sources. A source is a file here and a
// line in open.c.
//
// Dense weights come by stages: stage i is layer i, and those from n_layer on are parts of the head's rows.
// Feed-forward parts come by wants: the caller lists what it needs of a layer, and the source hands it out as
// it gets into memory, in any order and, where memory is short, chunk by chunk. Which token wants what stays
// with the caller.
//
// One thread, the one that evaluates, calls, where nothing else is said. A source that moves weights serves
// one evaluation at a time; one that does not, any number of them at once.
#ifndef HEARTH_WEIGHTS_SOURCE_H
#define HEARTH_WEIGHTS_SOURCE_H

#include "base/fault.h"
#include "base/threads.h"
#include "model/model.h"
#include "plan/budget.h"
#include "sparse/space.h"
#include "store/reader.h"

// The evaluation that is going on.
struct hearth_evaluation {
    struct hearth_pool *pool;
    struct hearth_fault *fault; // raised by sources when a read fails; then wants are not handed out any more
    bool mixed;                 // it has rows of both classes: of a layer, those of prompts come first
    bool in_order;              // whether wants are to be handed out as they were listed
};

// Spaces that a request with ids names at most: rows (tokens, or tokens of an expert) that go through a layer
// together.
#define HEARTH_STEP_ROWS 16

// What is waited for and summed together: neurons [at, at + n) of a space.
struct hearth_want {
    // The caller's.
    uint32_t space;      // layer * max(1, X) + expert
    uint32_t at, n;      // neurons
    const uint32_t *ids; // [n_ids] those of them that some token needs, ascending; NULL: all
    uint32_t n_ids;
    int n_rows; // tokens that it is for
    int first;  // the caller's own

    // The source's, from next() to done(), where ids is NULL: neurons [from, from + count) are in memory,
    // with these rows; down by neuron where the model has it so, else whole.
    uint32_t from, count;
    struct hearth_weight gate, up, down;
};

// When a step guesses what a layer will want.
enum hearth_guess_when {
    HEARTH_GUESS_EARLY, // while the layer before is computed
    HEARTH_GUESS_LATE,  // before the layer's own attention
    HEARTH_GUESS_NEVER,
};

// What will probably be wanted of a space.
struct hearth_hint {
    uint32_t space;
    const uint32_t *ids; // [n] ascending, which stay as they are until the next request with ids; NULL: all
    uint32_t n;
};

struct hearth_request {
    enum hearth_phase phase;
    int layer, n_tokens;
    struct hearth_want *wants; // those of one space side by side, ascending; the caller's until all are done
    uint32_t n;
};

// What a source is opened with; all of it outlives the source.
struct hearth_source_setup {
    const struct hearth_model *model;
    struct hearth_weights *weights; // as binding left them, to be pointed to memory
    const struct hearth_evaluation *now;
    struct hearth_reader *reader; // NULL: nothing streams
    const struct hearth_store_params *store;
    bool whole; // stages have the feed-forward parts, too
};

// For hearth_reader_wait_or_stop(): whether the evaluation is to be given up or, where none is going on yet,
// loading.
static inline bool hearth_source_is_to_stop(const struct hearth_source_setup *setup, float loaded)
{
    const struct hearth_load_options *load = &setup->model->load;
    if (setup->now->fault)
        return hearth_fault_is_near(setup->now->fault);
    return load->progress && !load->progress(load->progress_arg, loaded);
}

// What is to be planned; each source adds itself.
struct hearth_source_need {
    struct hearth_budget_params params;
    const int *order; // [n_layer] in which the stages become resident as the budget grows
    uint32_t *resident, *quota, *quota_most; // [n_spaces] results for the spaces
};

// All but name, open and close may be NULL: there is nothing to do. One that gives feed-forward parts has
// request(); one that gives neurons, all that is said of ids.
struct hearth_source_ops {
    const char *name;
    // Whether it can give feed-forward parts of this model to sessions that go by neuron so.
    bool (*can)(const struct hearth_model *m, enum hearth_sparsity sparsity);
    // HEARTH_E_MEMORY and others; close() follows in any case, if *state is not NULL.
    int (*open)(void **state, const struct hearth_source_setup *setup, struct hearth_error *err);
    int (*need)(void *state, struct hearth_source_need *need, struct hearth_error *err);
    // Takes the memory that was planned, and reads what stays there.
    int (*fill)(void *state, const struct hearth_budget_plan *plan, struct hearth_error *err);
    void (*close)(void **state); // no read is in flight any more

    // Waits until the stage is in memory, points the weights there, and begins to read what comes after it.
    // HEARTH_E_INTERRUPTED: somebody wants the evaluation to end.
    int (*acquire)(void *state, int stage, struct hearth_error *err);
    void (*release)(void *state, int stage);         // after its last use before others
    bool (*has_stage)(const void *state, int stage); // whether it is always in memory
    // These layers [n_layer] (NULL: none), and with `head` its parts, will not be acquired in this evaluation, as far as
    // the table says whenever somebody looks.
    void (*skip)(void *state, const bool *layers, bool head);
    // A token's row in a table (of embeddings, if their rows come from the file); scratch: of the table's row. Any
    // thread.
    bool (*embeds)(const void *state);
    void (*embed)(const void *state, const struct hearth_weight *table, int token, uint8_t *scratch,
                  float *out);

    // Whether there is anything to wait for; false: all feed-forward parts are where the weights point to.
    // NULL: there is not, but the source is needed all the same.
    bool (*moves)(const void *state);
    // Whether steps ask for single neurons, by ids.
    bool gives_neurons;
    // Begins to read what is missing. May change the order of wants without ids. Where next() is NULL, all of
    // them are in memory when it returns.
    void (*request)(void *state, const struct hearth_request *request);
    // *n wants side by side that are in memory, with ids 1; NULL: there is none, now (*wait) or any more. A
    // want without ids comes several times where memory holds but a chunk of it, ascending. Without ids, only
    // the thread that evaluates calls, and it is made to wait; with ids all threads call (worker 0 is the one
    // that evaluates) until *wait is false.
    struct hearth_want *(*next)(void *state, int worker, uint32_t *n, bool *wait);
    void (*done)(void *state, struct hearth_want *wants, uint32_t n); // without ids: they are computed
    // With ids, once all threads have come back from next(): whether it begins anew, with those wants for
    // which there was no room.
    bool (*more)(void *state);
    // With ids: bundles[id - at] of all ids that are not resident. Any thread.
    void (*locate)(const void *state, const struct hearth_want *want, const uint8_t **bundles);
    // With ids: the space's resident neurons.
    struct hearth_space (*space)(const void *state, uint32_t space);
    // With ids: where the caller leaves the predictor's score of each neuron, [F], in the evaluation. Any
    // thread.
    float *(*scores)(void *state, uint32_t space);
    void (*settle)(void *state); // what is left to do after the last want; any thread, beside other work

    // Whether hints at the layer's wants are of use in this phase, and in steps, of those made then.
    bool (*takes_hints)(const void *state, int layer, enum hearth_phase phase, enum hearth_guess_when when);
    // Of neurons [first, end) of a space, those that are neither in memory nor on their way. Any thread.
    size_t (*absent)(const void *state, uint32_t space, size_t first, size_t end, uint32_t *ids);
    // These spaces, HEARTH_STEP_ROWS at most, will probably be wanted next, and are read when there is nothing
    // more urgent to do. With ids, they take the place of those of an earlier hint.
    void (*hint)(void *state, const struct hearth_hint *hints, uint32_t n);

    // How much of so many bytes it would use if they were lent to it. Of sources of stages only.
    uint64_t (*takes)(const void *state, uint64_t bytes);
    // Between evaluations: from now on the source has `bytes` more than the plan gave it, and must be down to
    // that when this returns. `prompts`: those of a prompt may follow; else what only these need is lent,
    // too.
    void (*lend)(void *state, uint64_t bytes, bool prompts);

    void (*reads)(const void *state, struct hearth_store_stats *sum);     // adds its own
    void (*stats)(const void *state, struct hearth_streaming_stats *out); // the same
    uint64_t (*memory)(const void *state); // bytes held, without what is lent; any thread
};

// One that is open.
struct hearth_source {
    const struct hearth_source_ops *ops;
    void *state;
};

extern const struct hearth_source_ops hearth_memory_source;  // memory.c: all weights
extern const struct hearth_source_ops hearth_layers_source;  // layers.c: stages
extern const struct hearth_source_ops hearth_experts_source; // experts.c: experts one by one
extern const struct hearth_source_ops hearth_neurons_source; // neurons.c: neurons of a pack

#endif
