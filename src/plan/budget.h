// SPDX-License-Identifier: MIT
// Spends a memory budget (`--ram`). These are pure functions of sizes: they open nothing and
// allocate nothing for the model.
//
// The order is: memory that is needed in any case; one token's working set of neurons; the dense weights
// (attention, predictors, head), which every token reads whole, layer by layer from the first, while the
// other layers stream through two buffers one layer ahead; then neurons, those with the most activity per
// byte first, in all spaces alike, or experts, the same number in each layer; last the embedding, of which a
// token reads one row. Among the neurons that are kept, the leading ones that are active in at least every
// second visit are resident in matrices. The rest is the quota of the neuron cache.
#ifndef HEARTH_PLAN_BUDGET_H
#define HEARTH_PLAN_BUDGET_H

#include "sparse/cache.h"

#define HEARTH_BUDGET_HOT     0.5f  // neurons active in at least this share of visits are resident
#define HEARTH_BUDGET_DENSITY 0.15f // share of a space's neurons that a visit computes, without a profile

struct hearth_budget_space {
    uint32_t n_neurons;    // F
    uint32_t bundle_bytes; // stride in the file
    uint32_t row_bytes;    // bytes of a neuron's gate, up and down rows in matrices
    uint64_t file_offset;  // file offset of bundle 0
    float visit;           // share of tokens that visit the space: 1, or how often the expert is chosen
    const float *share;    // [F] share of those visits in which a neuron is computed; NULL: unknown
    bool elsewhere;        // a device computes it: nothing of it is kept in memory
};

struct hearth_budget_params {
    uint64_t kv, workspace, io, norms; // always in memory
    uint64_t lendable;                 // of these: the neuron cache has the memory while it is not used
    uint64_t embedding, head;          // bytes; head 0: it is the embedding, which is then read whole
    bool embedding_by_row;             // the engine can read its rows one by one from the file
    bool head_by_part;                 // the engine can stream the head through the layer buffers
    uint64_t head_part;                // then bytes of a part of it
    bool head_first;                   // and comes into memory before layers: a step needs it more than once
    // What a device computes: the last n_elsewhere of the layers, and the head, if it can stream. None of it is kept in
    // memory, but there is what streaming it takes, for a device may fail.
    uint32_t n_elsewhere;
    bool head_elsewhere;
    uint32_t n_layers;
    const uint64_t *dense; // [n_layers] bytes of a layer outside its spaces: attention, predictors, routers
    // Experts that stream one by one. n_experts is 0 without experts, or when they are spaces or
    // part of `dense`.
    uint32_t n_experts;           // of a layer
    uint32_t common_experts;      // slots that a step needs: for one token's experts, and one in flight
    const uint64_t *expert_bytes; // [n_layers] bytes of one expert of the layer; layers in the
                                  // order of `dense`
    uint32_t n_spaces;            // 0: nothing streams by neuron, the feed-forward parts are in `dense`
    const struct hearth_budget_space *spaces;
    uint32_t batch;         // most tokens in a step, at least 1: the sets of its tokens unite
    uint32_t least_reserve; // of the neuron cache, in bundles
    // Same as in hearth_cache_params.
    const struct hearth_cache_policy *policy;
    uint32_t align, slab_bytes;
};

// The smallest budget, and its parts.
struct hearth_budget_floor {
    uint64_t bytes;  // the sum
    uint64_t always; // memory needed in any case, without the KV cache
    uint64_t kv;
    uint64_t layer_buffers; // two of the largest layer, or all layers if that is less and none is elsewhere
    uint64_t working_set;   // one token's neurons, the reserve and the cache's tables; or one token's experts
};

struct hearth_budget_plan {
    uint64_t bytes; // bytes of this plan: never above the budget
    struct hearth_budget_floor floor;
    uint32_t dense_layers; // the first dense_layers layers have their dense weights in memory
    bool head_in_memory, embedding_in_memory;
    uint64_t dense_bytes;    // dense weights in memory, head and embedding included
    uint64_t layer_buffers;  // 0: nothing dense streams, nor will
    bool dense_streams;      // as long as no device fails
    uint64_t resident_bytes; // of resident prefixes
    uint64_t region_bytes;   // of the neuron cache
    uint64_t table_bytes;
    uint64_t resident_neurons, cold_neurons; // sums of the two arrays
    uint32_t reserve;                        // for the neuron cache; 0: there is none
    bool all_resident;                       // every neuron is: no cache
    // Number of slots for experts in each layer that no device has; the first `more_experts` layers have one more.
    // If all experts have a slot, there are no common slots; a device's layers have these alone.
    uint32_t layer_experts, more_experts, common_experts;
    uint64_t expert_bytes; // of all slots
};

// Computes the floor. HEARTH_E_INVALID: the sizes make no sense. HEARTH_E_MEMORY.
int hearth_budget_floor(const struct hearth_budget_params *p, struct hearth_budget_floor *out,
                        struct hearth_error *err);

// Spends `budget` bytes. The caller provides resident[n_spaces] and quota[n_spaces]. HEARTH_E_BUDGET: the
// budget is below the floor; the message names the smallest budget. Errors of hearth_budget_floor() too.
int hearth_budget_plan(const struct hearth_budget_params *p, uint64_t budget, struct hearth_budget_plan *out,
                       uint32_t *resident, uint32_t *quota, struct hearth_error *err);

// Of `lent` bytes, what dense weights use that would stream by this plan: layers in their order, as many as fit,
// then parts of the head.
uint64_t hearth_budget_lend_dense(const struct hearth_budget_params *p, const struct hearth_budget_plan *plan,
                                  uint64_t lent);

// What the neuron cache can keep beside this plan's residents while all of p->lendable is lent to it:
// most[n_spaces], nowhere less than the plan's quota. Where a part is lent, anything in proportion between
// the two fits, but for a slab of the cache for each size of slots. Errors as above.
int hearth_budget_lend(const struct hearth_budget_params *p, const struct hearth_budget_plan *plan,
                       const uint32_t *resident, const uint32_t *quota, uint32_t *most,
                       struct hearth_error *err);

// Bytes that a generated token reads from the file under this plan: dense weights that stream; experts that
// have no slot, if all are used alike; neurons that are not kept, as often as they are active.
uint64_t hearth_budget_token_bytes(const struct hearth_budget_params *p,
                                   const struct hearth_budget_plan *plan, const uint32_t *resident,
                                   const uint32_t *quota);

#endif
