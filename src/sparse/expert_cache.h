// SPDX-License-Identifier: MIT
// The expert cache: decides which experts of a model larger than memory are in memory, and where.
//
// A slot is memory for one expert. Each layer has slots of its own (its quota), in
// which experts stay from one visit to the next. A few more slots are common to all layers: an expert not
// worth caching is computed from a common slot and then dropped. So a read never waits for anything but a
// slot, and an expert that is seldom used displaces no better one.
//
// An expert's worth is the share of recent tokens that used it, averaged at two speeds: over some
// 46 tokens and, weighted, over some 3 (decays of a half in 32 and in 2), as in the neuron cache
// (docs/streaming.md). Experts that are not in memory have a worth too.
//
// One thread calls. Nothing is allocated after opening. The same calls make the same choices.
#ifndef HEARTH_SPARSE_EXPERT_CACHE_H
#define HEARTH_SPARSE_EXPERT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_expert_cache;

struct hearth_expert_cache_params {
    uint32_t n_layers, n_experts; // of each layer
    const uint32_t *quota;        // [n_layers] number of the layer's own slots; copied
    uint32_t n_common; // number of common slots: at least 1, unless every layer has a slot for each expert
};

// Opens a cache; it is the caller's to close. HEARTH_E_INVALID, HEARTH_E_MEMORY.
int hearth_expert_cache_open(struct hearth_expert_cache **out,
                             const struct hearth_expert_cache_params *params, struct hearth_error *err);
void hearth_expert_cache_close(struct hearth_expert_cache **c);
// Bytes of memory of such a cache.
uint64_t hearth_expert_cache_table_bytes(uint32_t n_layers, uint32_t n_experts);

// ---- a visit of a layer

// Begins the visit: counts[e] of n_tokens tokens use expert e, for each of n_experts.
void hearth_expert_cache_visit(struct hearth_expert_cache *c, uint32_t layer, const int *counts,
                               int n_tokens);

// The slot of an expert.
struct hearth_expert_slot {
    bool common;
    uint32_t number; // index among the layer's own slots, or among the common ones
};

enum hearth_expert_request {
    HEARTH_EXPERT_PRESENT,
    HEARTH_EXPERT_ABSENT, // it has a slot now: read it there
    HEARTH_EXPERT_NO_ROOM // no slot is free: release others first. Never happens when no expert
                          // is held by a request
};

// Requests an expert, which keeps its slot until it is released. An expert requested ahead counts as present.
enum hearth_expert_request hearth_expert_cache_request(struct hearth_expert_cache *c, uint32_t layer,
                                                       uint32_t expert, struct hearth_expert_slot *slot);

// Requests an expert ahead of the layer's visit, because it will probably be used. It keeps its slot until it
// is released, whether the visit wanted it or not. `may_evict`: it may replace an expert that is worth less
// than it will be after its use. HEARTH_EXPERT_PRESENT: it is in memory already, and is not held.
enum hearth_expert_request hearth_expert_cache_ask_ahead(struct hearth_expert_cache *c, uint32_t layer,
                                                         uint32_t expert, bool may_evict,
                                                         struct hearth_expert_slot *slot);

// Releases a requested expert. `there`: its bytes are in memory. Otherwise, or in a common slot,
// it is dropped.
void hearth_expert_cache_release(struct hearth_expert_cache *c, uint32_t layer, uint32_t expert, bool there);

// Whether an expert is in memory, or a requested read of it is in flight.
bool hearth_expert_cache_has(const struct hearth_expert_cache *c, uint32_t layer, uint32_t expert);

// ---- between visits: no request holds an expert

// Gives a layer one more slot of its own, behind the others; it has fewer than n_experts.
void hearth_expert_cache_add_slot(struct hearth_expert_cache *c, uint32_t layer);
// Takes away a layer's last own slot. Returns whether its expert is worth another one, in which it counts as
// present from now on: copy its bytes to slot *to.
bool hearth_expert_cache_drop_slot(struct hearth_expert_cache *c, uint32_t layer, uint32_t *to);

// ---- statistics

uint32_t hearth_expert_cache_quota(const struct hearth_expert_cache *c, uint32_t layer); // own slots
// For tests: experts in the layer's own slots; the worth of an expert, as above, comparable within a layer.
uint32_t hearth_expert_cache_n_cached(const struct hearth_expert_cache *c, uint32_t layer);
float hearth_expert_cache_worth(const struct hearth_expert_cache *c, uint32_t layer, uint32_t expert);

#endif
