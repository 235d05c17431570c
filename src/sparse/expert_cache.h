// SPDX-License-Identifier: MIT
// The expert cache: which experts of a model larger than memory are in memory, and where.
//
// A place is memory for one expert. Each layer has places of its own (its quota), in which experts stay from
// one visit to the next. A few more are common to all layers: there an expert that is not worth a place of
// its layer is while it is computed. So a read never waits for anything but a place, and an expert that is
// seldom used costs no better one its place.
//
// An expert's worth is the share of recent tokens that used it, averaged at two speeds: over some 46 tokens
// and, weighted, over some 3 (decays of a half in 32 and in 2), as in the neuron cache (docs/streaming.md).
// Experts that are not in memory have theirs too.
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
    const uint32_t *quota;        // [n_layers] places of its own; copied
    uint32_t n_common;            // at least 1, unless every layer has a place for each expert
};

// HEARTH_E_INVALID, HEARTH_E_MEMORY.
int hearth_expert_cache_open(struct hearth_expert_cache **out,
                             const struct hearth_expert_cache_params *params, struct hearth_error *err);
void hearth_expert_cache_close(struct hearth_expert_cache **c);
// Memory that such a cache takes.
uint64_t hearth_expert_cache_table_bytes(uint32_t n_layers, uint32_t n_experts);

// ---- a visit of a layer

// Begins it: so many of n_tokens use each expert, counts[n_experts].
void hearth_expert_cache_visit(struct hearth_expert_cache *c, uint32_t layer, const int *counts,
                               int n_tokens);

// Where an expert is, or is to be.
struct hearth_expert_place {
    bool common;
    uint32_t number; // among the layer's places, or among the common ones
};

enum hearth_expert_request {
    HEARTH_EXPERT_PRESENT,
    HEARTH_EXPERT_ABSENT, // it has a place now: read it there
    HEARTH_EXPERT_NO_ROOM // others must be released first; when none is asked for, this does not happen
};

// Asks for an expert, which stays where it is until it is released. One that was asked for ahead is present.
enum hearth_expert_request hearth_expert_cache_request(struct hearth_expert_cache *c, uint32_t layer,
                                                       uint32_t expert, struct hearth_expert_place *place);

// The same before the layer's visit, for an expert that will probably be used in it: what is asked for stays
// until it is released, by the visit or in vain. `may_evict`: at the cost of one that is worth less than it
// will be once it is used. HEARTH_EXPERT_PRESENT: it is there already, and was not asked for.
enum hearth_expert_request hearth_expert_cache_ask_ahead(struct hearth_expert_cache *c, uint32_t layer,
                                                         uint32_t expert, bool may_evict,
                                                         struct hearth_expert_place *place);

// Lets go of an expert that was asked for. `there`: its bytes are; else, and in a common place, it is
// forgotten.
void hearth_expert_cache_release(struct hearth_expert_cache *c, uint32_t layer, uint32_t expert, bool there);

// Whether an expert is in memory, or a read that was asked for is on its way.
bool hearth_expert_cache_has(const struct hearth_expert_cache *c, uint32_t layer, uint32_t expert);

// ---- figures

uint32_t hearth_expert_cache_n_cached(const struct hearth_expert_cache *c, uint32_t layer); // in own places
// The share of recent tokens that used it, as above: comparable within a layer.
float hearth_expert_cache_worth(const struct hearth_expert_cache *c, uint32_t layer, uint32_t expert);

#endif
