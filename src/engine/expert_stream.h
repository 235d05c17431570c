// SPDX-License-Identifier: MIT
// Experts that are not all in memory: a token's layer reads those of its experts that the expert cache does
// not have, straight from where the file has their matrices, while those that it has are computed.
#ifndef HEARTH_ENGINE_EXPERT_STREAM_H
#define HEARTH_ENGINE_EXPERT_STREAM_H

#include "engine/context.h"
#include "model/load.h"
#include "plan/budget.h"
#include "store/reader.h"

struct hearth_expert_cache;
struct hearth_runs;

#define HEARTH_EXPERT_PARTS 3 // gate, up, down

// One of the matrices that the experts of a layer consist of.
struct hearth_expert_part {
    const struct hearth_item
        *item; // of all experts; or, with a tensor each, of expert 0: the others follow it
    bool single;
    uint64_t bytes; // of one expert
    size_t at;      // in a place
};

// The experts of one layer.
struct hearth_expert_layer {
    struct hearth_expert_part parts[HEARTH_EXPERT_PARTS];
    size_t place_bytes;
    uint8_t *places; // its own; place_bytes apart
};

// Where an expert of a layer that is being computed, or read ahead, is.
struct hearth_expert_visit {
    struct hearth_reader_job job;
    struct hearth_extent extents[HEARTH_EXPERT_PARTS];
    uint8_t *place;
    bool reading, done;
    bool ahead; // asked for before its layer's visit, which has not claimed it
};

// An expert and the rows of its tokens: slots [first, first + n).
struct hearth_expert_unit {
    int expert, first, n;
    struct hearth_weight gate, up, down; // down by neuron where the model has it so
};

struct hearth_expert_stream {
    bool on; // everything below is in use
    const struct hearth_context *c;
    const struct hearth_model *model;
    const struct hearth_runs *runs; // whether a layer's router is in memory
    struct hearth_reader *reader;   // the streaming's
    uint32_t n_layers, n_experts;
    struct hearth_expert_layer *layers; // [n_layers]
    struct hearth_expert_cache *cache;
    struct hearth_region region; // the layers' places and the common ones
    uint8_t *common;             // common_bytes apart
    size_t common_bytes;
    uint32_t *quota;                    // [n_layers] places of their own
    struct hearth_expert_visit *visits; // [n_experts]
    uint32_t layer;                     // that is being visited
    const int *order;                   // its experts: the first n_asked of n_used are asked for
    int n_used, n_asked;
    // Of the next layer: what it will probably want.
    int *guess;              // [n_experts]
    int n_guess, guess_at;   // those before guess_at are dealt with
    uint32_t n_ahead[2];     // visits with `ahead`, in either half,
    uint32_t ahead_layer[2]; // and the layer they are of
    bool in_step;
    uint64_t asked_cached, asked_read; // by steps so far
    uint64_t read_ahead, ahead_used;   // the same: experts read ahead, and those of them that were wanted
    uint64_t *expert_bytes;            // [n_layers] for planning: of a place, layers in the order of the runs
};

// Whether experts can stream one by one: those of any model with experts, but of packs.
bool hearth_expert_stream_can(const struct hearth_model *m);

// Finds the experts in the file; nothing where hearth_expert_stream_can() says no. HEARTH_E_MEMORY.
int hearth_expert_stream_open(struct hearth_expert_stream *x, const struct hearth_context *c,
                              const struct hearth_model *m, const struct hearth_runs *runs,
                              struct hearth_reader *reader, struct hearth_error *err);
void hearth_expert_stream_close(struct hearth_expert_stream *x); // the reader is closed before

// Adds the experts to what is to be planned; `order` [n_layer] is the runs'.
void hearth_expert_stream_plan(struct hearth_expert_stream *x, struct hearth_budget_params *p,
                               const int *order);
// Takes the memory that was planned.
int hearth_expert_stream_fill(struct hearth_expert_stream *x, const struct hearth_budget_plan *plan,
                              const int *order, struct hearth_error *err);

// Whether a guess at the next layer's experts is of use: there is one, its router is in memory, and guesses
// have been right.
bool hearth_expert_stream_looks_ahead(const struct hearth_expert_stream *x);
// The next layer will probably want this expert: it is read once all that this layer wants is on its way.
// Between begin and run.
void hearth_expert_stream_guess(struct hearth_expert_stream *x, int expert);

// Begins a layer, whose experts order[n] (ascending) are used by counts[n_experts] of n_tokens: the first
// reads start, and the experts are put into the order in which they had best be computed. `order` is the
// caller's, until the layer is computed.
void hearth_expert_stream_begin(struct hearth_expert_stream *x, enum hearth_phase phase, int layer,
                                const int *counts, int n_tokens, int *order, int n);
// Has compute(arg, units, n) called with all of units[], which are in the order above, in a few pieces of
// consecutive ones and in any order of pieces, when they are in memory: gate, up and down are pointed there.
// When the evaluation fails, for some units it is not.
void hearth_expert_stream_run(struct hearth_expert_stream *x, struct hearth_expert_unit *units,
                              void (*compute)(void *arg, const struct hearth_expert_unit *units, int n),
                              void *arg);

#endif
