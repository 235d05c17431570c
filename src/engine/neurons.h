// SPDX-License-Identifier: MIT
// Feed-forward parts of a pack of which only some neurons are in memory: a resident prefix of each space in
// matrices, others as bundles in the neuron cache, and the rest read when a token names them. Prompts, which
// use all neurons, read through a space in long pieces.
#ifndef HEARTH_ENGINE_NEURONS_H
#define HEARTH_ENGINE_NEURONS_H

#include <stdatomic.h>

#include "engine/context.h"
#include "engine/runs.h"
#include "engine/sparse_mode.h"
#include "model/pack.h"
#include "plan/budget.h"
#include "sparse/space.h"
#include "store/reader.h"

// A cluster that a pass computes: neurons [at, at + n) of a space, of which mask[t * n + i] names those of
// token t.
struct hearth_neuron_unit {
    uint32_t space, at, n, n_t;
    const uint8_t *mask;
};

// Reads listed and not yet ended, at most; a power of two.
#define HEARTH_NEURON_FLIGHTS 2048
// Rows (tokens, or tokens of an expert) that go through a layer together in a step.
#define HEARTH_SPARSE_ROWS 16

// Neurons [at, at + n) of a space; n 0: none.
struct hearth_neuron_reading {
    uint32_t space;
    size_t at, n;
};

// The state of one pass: see neuron_steps.c.
struct hearth_neuron_pass {
    const struct hearth_neuron_unit *units;
    uint32_t n_units, n_first;
    void (*compute)(void *arg, int unit, int worker);
    void (*first)(void *arg, int task, int worker);
    void (*end_first)(void *arg);
    void *arg;
    // The thread that evaluates:
    uint32_t wave;     // units before this one are computed
    uint32_t frontier; // and of those before this one all neurons are asked for
    uint32_t asked;    // ids of the unit at the frontier that were asked for
    bool looked;       // ahead
    // All threads:
    _Atomic uint32_t n_ready, n_taken,
        n_end; // units ready, taken; how many the wave has in all (UINT32_MAX: not known yet)
    _Atomic uint32_t n_first_taken, n_first_done;
    _Atomic bool held; // nothing is computed before all reads of the wave have ended (HEARTH_OVERLAP_NONE)
};

struct hearth_neurons {
    bool on; // some neurons are not resident: everything below is in use
    const struct hearth_context *c;
    const struct hearth_model *model;
    const struct hearth_runs *runs; // whether a layer's predictor is in memory
    struct hearth_weights *weights; // the session's
    struct hearth_reader *reader;   // of long pieces; the streaming's
    struct hearth_store *store;     // of bundles
    struct hearth_cache *cache;
    const struct hearth_bundle *bundles; // [n_layer] the pack's
    uint32_t n_spaces, n_neurons;        // n_neurons of one space
    uint32_t experts;                    // spaces of a layer
    struct hearth_region lists;          // by space, from the beginning
    struct hearth_budget_space *spaces;  // [n_spaces]
    float *shares;                 // [n_spaces x n_neurons] of a profile, until the cache knows them; or NULL
    uint32_t *resident, *quota;    // [n_spaces]
    uint32_t reserve, chunk_bytes; // of the cache
    float *scores;                 // [n_spaces x n_neurons] the predictors' of the last visit
    struct hearth_region matrices; // resident prefixes
    struct hearth_space *prefixes; // [n_spaces] their matrices; `n` is all neurons

    struct hearth_region tables; // all that follows but the pieces

    // Steps.
    uint8_t *masks;                    // [rows x n_neurons]
    uint32_t *ids;                     // [rows x n_neurons] asked for, unit by unit
    uint32_t *first_id;                // [units + 1] where those of a unit begin
    uint32_t *pending, *ready;         // [units] reads a unit waits for; units in the order they got ready
    struct hearth_neuron_unit *units;  // [units]
    int32_t *unit_of_space;            // [n_spaces] first unit of a space in this pass, or -1
    struct hearth_cache_read *flights; // [n_flights] reads listed
    uint32_t n_flights;                // HEARTH_NEURON_FLIGHTS
    uint32_t *free_flights, n_free;    // numbers of unused ones
    uint32_t *queue, queue_first, queue_end; // ring of those not yet submitted
    struct hearth_neuron_pass pass;
    bool unsettled; // the last wave is to be let go
    // Looking ahead: ids of one space, of which those before ahead_at have been dealt with.
    const uint32_t *ahead;
    uint32_t n_ahead, ahead_at, ahead_space;

    // Prompts: pieces of a space.
    struct hearth_region pieces; // two buffers,
    size_t piece_bytes;          // of so many bytes
    uint32_t piece_neurons;
    int piece_buffer;                     // that holds the last piece handed out
    struct hearth_neuron_reading reading; // what is on its way to the other
    struct hearth_reader_job jobs[2];
    struct hearth_extent *extents[2]; // [max_extents]
    size_t max_extents;
};

// Whether steps can go by neuron with only some of them in memory: packs with predictors.
bool hearth_neurons_can(const struct hearth_model *m, enum hearth_sparsity sparsity);

// What it shares with the session and the rest of the streaming; all outlive it.
struct hearth_neurons_setup {
    const struct hearth_context *c;
    const struct hearth_model *model;
    const struct hearth_runs *runs;
    struct hearth_weights *weights; // to be pointed to resident prefixes
    struct hearth_reader *reader;
    const struct hearth_store_params *store;
};

// Takes what planning needs, where hearth_neurons_can().
int hearth_neurons_open(struct hearth_neurons *n, const struct hearth_neurons_setup *setup,
                        struct hearth_error *err);
void hearth_neurons_close(struct hearth_neurons *n);

// hearth_budget_plan() with the spaces added to `p`.
int hearth_neurons_plan(struct hearth_neurons *n, struct hearth_budget_params *p, uint64_t ram,
                        struct hearth_budget_plan *plan, struct hearth_error *err);

// Allocates what was planned and reads the hottest neurons.
int hearth_neurons_fill(struct hearth_neurons *n, const struct hearth_budget_plan *plan,
                        struct hearth_error *err);

// ---- steps (neuron_steps.c)

// One pass: has compute(arg, unit, worker) called once for each unit, by the session's threads and in any
// order, when all of its neurons are in memory, and before them first(arg, task, worker) for each of n_first
// tasks, which find out what the next layer will want, and end_first(arg) once these are done. Units of one space lie side by side,
// ascending. What is left to do afterwards, the thread that evaluates leaves to the session's next matrix
// product.
void hearth_neurons_run(struct hearth_neurons *n, const struct hearth_neuron_unit *units, uint32_t n_units,
                        void (*compute)(void *arg, int unit, int worker), uint32_t n_first,
                        void (*first)(void *arg, int task, int worker), void (*end_first)(void *arg),
                        void *arg);
// Does now what is left to do.
void hearth_neurons_settle(struct hearth_neurons *n);
// Whether hints at what a layer will want are of use: what tells them is in memory.
bool hearth_neurons_takes_hints(const struct hearth_neurons *n, int layer);
// Of the neurons [first, end) of a space, those that are neither in memory nor on their way; returns how many.
// Any thread.
size_t hearth_neurons_absent(const struct hearth_neurons *n, uint32_t space, size_t first, size_t end,
                             uint32_t *ids);
// The space's next visit will probably want these, which stay the caller's until the next hint: they are read
// when the storage has nothing more urgent to do. Within end_first().
void hearth_neurons_hint(struct hearth_neurons *n, uint32_t space, const uint32_t *ids, uint32_t count);
// The bundle of a neuron behind the resident prefix. While it is asked for; any thread.
const uint8_t *hearth_neurons_bundle(const struct hearth_neurons *n, uint32_t space, uint32_t neuron);

// ---- prompts (neuron_prompts.c)

// Consecutive neurons of a space, in memory: rows of gate, up, down by neuron.
struct hearth_neuron_piece {
    struct hearth_weight gate, up, down_t; // n of each is the piece's
    size_t at, n;                          // first neuron, and how many
};

// The piece of a space that begins at neuron `at`: 0, or where the piece before ended. False at the end, or
// when the evaluation has failed. Pieces are valid until the next call.
bool hearth_neurons_next(struct hearth_neurons *n, uint32_t space, size_t at,
                         struct hearth_neuron_piece *piece);

#endif
