// SPDX-License-Identifier: MIT
// What a memory budget (`--ram`) is spent on. Pure functions of sizes: nothing is opened or allocated for the
// model.
//
// The order: what must be in memory; one token's working set of neurons; the dense weights (attention,
// predictors, head), which every token reads whole, layer by layer from the first, the others going through
// two buffers one layer ahead; then neurons, hottest per byte first, in all spaces alike, or experts, as many
// in each layer; the embedding, of which a token reads one row, last. Of the neurons kept, the leading ones
// that are active in every second visit or more are resident in matrices, and the rest is the quota of the
// neuron cache.
#ifndef HEARTH_PLAN_BUDGET_H
#define HEARTH_PLAN_BUDGET_H

#include "sparse/cache.h"

#define HEARTH_BUDGET_HOT     0.5f  // share of visits from which on a neuron is resident
#define HEARTH_BUDGET_DENSITY 0.15f // share of a space's neurons that a visit takes, where no profile says

struct hearth_budget_space {
    uint32_t n_neurons;    // F
    uint32_t bundle_bytes; // stride in the file
    uint32_t row_bytes;    // gate, up and down rows of a neuron in matrices
    uint64_t file_offset;  // of bundle 0
    float visit;           // share of tokens that visit the space: 1, or for an expert how often it is chosen
    const float *share;    // [F] share of those visits in which a neuron is computed; NULL: not known
};

struct hearth_budget_params {
    uint64_t kv, workspace, io, norms; // always in memory
    uint64_t embedding, head;          // head 0: it is the embedding, which then is read whole
    bool embedding_by_row;             // the engine can read its rows one by one from the file
    bool head_by_part;                 // the engine can stream the head through the layer buffers
    uint32_t n_layers;
    const uint64_t *dense; // [n_layers] bytes of a layer outside its spaces: attention, predictors, routers
    // Experts that stream one by one; n_experts 0: there are none, or they are spaces, or part of `dense`.
    uint32_t n_experts;           // of a layer
    uint32_t common_experts;      // that a step must have room for: one token's, and one on its way
    const uint64_t *expert_bytes; // [n_layers] of one expert of the layer, layers in the order of `dense`
    uint32_t n_spaces;            // 0: nothing streams by neuron, all of the feed-forward parts is in `dense`
    const struct hearth_budget_space *spaces;
    uint32_t batch;         // tokens in a step at most: their sets unite; at least 1
    uint32_t least_reserve; // of the neuron cache, in bundles
    // As in hearth_cache_params.
    const struct hearth_cache_policy *policy;
    uint32_t align, chunk_bytes;
};

// The smallest budget, and what it is made of.
struct hearth_budget_floor {
    uint64_t bytes;  // all of it
    uint64_t always; // what must be in memory, the KV cache left out
    uint64_t kv;
    uint64_t layer_buffers; // two of the largest layer, or all layers where that is less
    uint64_t working_set;   // one token's neurons and the reserve, with the cache's tables; or its experts
};

struct hearth_budget_plan {
    uint64_t bytes; // what this plan takes: never above the budget
    struct hearth_budget_floor floor;
    uint32_t dense_layers; // the first so many have their dense weights in memory
    bool head_in_memory, embedding_in_memory;
    uint64_t dense_bytes;    // dense weights in memory, head and embedding included
    uint64_t layer_buffers;  // 0: nothing dense streams
    uint64_t resident_bytes; // of resident prefixes
    uint64_t region_bytes;   // of the neuron cache
    uint64_t table_bytes;
    uint64_t resident_neurons, cold_neurons; // sums of the two arrays
    uint32_t reserve;                        // for the neuron cache; 0: there is none
    bool all_resident;                       // every neuron is: no cache
    // Places of each layer for experts; the first `more_experts` layers have one more. Where all experts have
    // one, there are no common ones.
    uint32_t layer_experts, more_experts, common_experts;
    uint64_t expert_bytes; // of all places
};

// The floor. HEARTH_E_INVALID when the sizes make no sense, HEARTH_E_MEMORY.
int hearth_budget_floor(const struct hearth_budget_params *p, struct hearth_budget_floor *out,
                        struct hearth_error *err);

// Spends `budget` bytes; resident[n_spaces] and quota[n_spaces] are the caller's. HEARTH_E_BUDGET below the
// floor: the message names the smallest budget.
int hearth_budget_plan(const struct hearth_budget_params *p, uint64_t budget, struct hearth_budget_plan *out,
                       uint32_t *resident, uint32_t *quota, struct hearth_error *err);

#endif
