// SPDX-License-Identifier: MIT
// Insides of the source of neurons (neurons.c, neuron_steps.c, neuron_chunks.c): feed-forward parts of a pack
// of which only some neurons are in memory. A prefix of each space is resident in matrices, others are
// bundles in the neuron cache, and the rest is read when a token names it. Prompts, which use all neurons, go
// through a space in chunks.
#ifndef HEARTH_WEIGHTS_NEURON_STATE_H
#define HEARTH_WEIGHTS_NEURON_STATE_H

#include <stdatomic.h>

#include "model/pack.h"
#include "sparse/cache.h"
#include "store/store.h"
#include "weights/ahead.h"
#include "weights/guessing.h"
#include "weights/source.h"

// Reads listed and not yet ended, at most; a power of two.
#define HEARTH_NEURON_FLIGHTS 2048

// Reads of several bundles (HEARTH_READ_GROUP at most) in flight, at most.
#define HEARTH_NEURON_GROUPS 64

// Bundles that are being read together to a staging buffer: see neuron_reads.c.
struct hearth_neuron_group {
    uint32_t n, flights[HEARTH_READ_GROUP]; // in the order of the file
};

// The state of a step's request: see neuron_steps.c.
struct hearth_neuron_pass {
    struct hearth_want *wants;
    uint32_t n_wants;
    // The thread that evaluates:
    uint32_t wave;     // wants before this one were handed out in waves before
    uint32_t frontier; // and of those before this one all neurons are asked for
    uint32_t asked;    // ids of the want at the frontier that were asked for
    // All threads:
    _Atomic uint32_t n_ready, n_taken,
        n_end;         // wants ready, taken; how many the wave has in all (UINT32_MAX: not known yet)
    _Atomic bool held; // nothing is handed out before all reads of the wave have ended (HEARTH_OVERLAP_NONE)
};

struct hearth_neurons {
    struct hearth_source_setup setup;
    bool on;                             // some neurons are not resident
    struct hearth_store *store;          // of bundles
    struct hearth_cache *cache;          // NULL: all are resident
    const struct hearth_bundle *bundles; // [n_layer] the pack's
    uint32_t n_spaces, n_neurons;        // n_neurons of the largest space
    uint32_t experts;                    // spaces of a layer
    struct hearth_region lists;          // by space, from the beginning
    struct hearth_budget_space *spaces;  // [n_spaces]
    float *shares;                // [n_spaces x n_neurons] of a profile, until the cache knows them; or NULL
    uint32_t *resident, *quota;   // [n_spaces] the plan's; of the cache,
    uint32_t *quota_most;         // [n_spaces] and with all that may be lent
    uint32_t reserve, slab_bytes; // of the cache
    uint64_t region_bytes, lendable, lent; // of the cache: the plan's; what it may have more, and has now
    bool prompted;                         // the buffers for prompts have their memory
    float *scores;                         // [n_spaces x n_neurons] the predictors' of the last visit
    struct hearth_region matrices;         // resident prefixes
    struct hearth_space *prefixes;         // [n_spaces] their matrices; `n` is all neurons
    uint64_t resident_neurons;             // the plan's

    struct hearth_region tables; // all that follows but the chunks' buffers

    // Steps.
    uint32_t *pending, *ready;         // [wants] reads a want waits for; wants in the order they got ready
    int32_t *want_of_space;            // [n_spaces] first want of a space in this request, or -1
    uint32_t *let_go;                  // [n_neurons]
    struct hearth_cache_read *flights; // [n_flights] reads listed
    uint32_t n_flights;                // HEARTH_NEURON_FLIGHTS
    uint32_t *free_flights, n_free;    // numbers of unused ones
    struct hearth_read_done failed;    // the last read that failed
    uint32_t *queue, queue_first, queue_end; // ring of those not yet submitted
    bool *alone;                             // [n_flights] to be read without others
    uint64_t gap;                            // bytes that are read over rather than making two reads
    struct hearth_neuron_group *groups;      // [HEARTH_NEURON_GROUPS]
    uint32_t *free_groups, n_free_groups;    // numbers of unused ones
    struct hearth_region staging;            // a buffer of group_bytes for each
    size_t group_bytes;
    struct hearth_neuron_pass pass;
    bool unsettled;                             // the last wave is to be let go
    struct hearth_hint hints[HEARTH_STEP_ROWS]; // of which those before hint_at are dealt with, and of that
    uint32_t n_hints, hint_at, hinted;          // one the first so many ids
    struct hearth_guessing guessing;

    // Prompts: chunks of a space.
    struct hearth_region buffers; // two,
    size_t buffer_bytes;          // of so many bytes
    uint32_t chunk_neurons;
    struct hearth_ahead chunks;       // keyed by space * n_neurons + first neuron
    struct hearth_extent *extents[2]; // [max_extents]
    size_t max_extents;
    uint64_t in_use;      // key of the chunk that was handed out last, or HEARTH_AHEAD_NONE
    const uint32_t *keep; // hints: ids of one space, kept as chunks come along; those before keep_at were
    uint32_t n_keep, keep_at, keep_space;
    bool by_ids; // the request is a step's
    struct hearth_request request;
    uint32_t want;                         // that is being handed out,
    size_t next;                           // from this neuron on
    const struct hearth_cache_range *warm; // of the warm start, while chunks are its ranges
    float loaded;                          // share of these that were loaded
};

// Slots of the reserve that what is read ahead leaves to what a step asks for.
#define HEARTH_NEURON_KEEP_FREE(n) ((n)->reserve / 2)

// Wants of a step's request, at most.
#define HEARTH_NEURON_WANTS(n) (HEARTH_STEP_ROWS * hearth_most_clusters(&(n)->setup.model->hp))

#endif
