// SPDX-License-Identifier: MIT
// What the parts of the neuron cache share: cache.c (steps), cache_slots.c (memory), cache_policy.c
// (choices), cache_warm.c (start).
#ifndef HEARTH_SPARSE_CACHE_INTERNAL_H
#define HEARTH_SPARSE_CACHE_INTERNAL_H

#include "base/memory.h"
#include "sparse/cache.h"

#define HEARTH_CACHE_NONE UINT32_MAX

// mark[neuron]: the state in the low two bits, pins above.
#define HEARTH_CACHE_STATE_BITS 3u
#define HEARTH_CACHE_PIN        4u

struct hearth_cache_space {
    uint32_t n_neurons, resident, quota;
    uint32_t stride;      // of bundles in the file
    uint64_t file_offset; // of bundle 0
    uint32_t size_class;
    uint32_t now;              // visits so far
    const float *scores;       // [F] of the last visit, or NULL
    uint64_t last_step;        // in which it was visited
    uint32_t n_cached;         // neurons with a slot
    uint32_t *slot;            // [F] slot of a neuron, HEARTH_CACHE_NONE: absent
    uint8_t *mark;             // [F], zeros up to a multiple of 64
    uint32_t *history;         // [F * policy->words]
    uint32_t *queue;           // [F * policy->queues] (S3-FIFO)
    uint32_t head[3], tail[3]; // of queues: counters that only grow
    struct hearth_cache_stats stats;
};

// How a policy works. History words start as zeros.
struct hearth_cache_policy {
    const char *name;
    uint32_t words;  // uint32_t of history for each neuron
    uint32_t queues; // uint32_t of queues for each neuron
    // A neuron was asked for; before insert when it is absent.
    void (*touch)(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron);
    // A neuron got a slot, lost it to trim's choice (called by trim itself where needed) or to something
    // else.
    void (*insert)(struct hearth_cache_space *s, uint32_t neuron);
    void (*remove)(struct hearth_cache_space *s, uint32_t neuron);
    // Evicts (hearth_cache_evict) up to n neurons, none that is pinned or loading.
    void (*trim)(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t n);
    // Starts from a profile; may be NULL.
    void (*seed)(const struct hearth_cache *c, struct hearth_cache_space *s, const float *share);
};

struct hearth_cache_chunk {
    uint32_t size_class; // HEARTH_CACHE_NONE: unused
    uint32_t n_used;     // slots
    bool held;           // its memory has been touched since it was last given back
};

struct hearth_cache_class {
    uint32_t slot_bytes, per_chunk;
    uint32_t free_head; // list through slot_neuron[]
    uint32_t n_free, n_chunks;
    uint64_t quota;     // of its spaces together
    uint64_t n_neurons; // of its spaces together
    uint32_t n_cold;    // spaces that are not wholly resident
};

#define HEARTH_CACHE_LOG_STEP  4 // resolution of the table below
#define HEARTH_CACHE_LOG_UNITS 1024
#define HEARTH_CACHE_LOG_TABLE (11 * HEARTH_CACHE_LOG_UNITS / HEARTH_CACHE_LOG_STEP)

struct hearth_cache {
    const struct hearth_cache_policy *policy;
    uint32_t half_life, n_spaces, n_classes, align, reserve;
    struct hearth_cache_space *spaces;  // [n_spaces]
    struct hearth_cache_class *classes; // [n_classes]
    struct hearth_cache_chunk *chunks;  // [max_chunks]
    uint32_t chunk_bytes, n_chunks, max_chunks,
        n_unused;          // chunks [n_chunks, max_chunks) are to be given back
    uint32_t emptying;     // the chunk that is being emptied for another size, or NONE
    uint32_t per_chunk;    // slot id = chunk * per_chunk + number in the chunk
    uint32_t *slot_space;  // [max_chunks * per_chunk] owner, or NONE when free
    uint32_t *slot_neuron; // its neuron, or the next free slot
    uint64_t *scratch;     // [largest F]
    uint16_t *log_table;   // [HEARTH_CACHE_LOG_TABLE]: units * log2(1 + 2^-d)
    uint64_t step;
    bool no_memory;
    struct hearth_region tables, region;
};

// ---- cache.c ----
// Takes the slot from a neuron that is present and not pinned; the policy's bookkeeping is the caller's.
void hearth_cache_evict(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron);
static inline bool hearth_cache_evictable(const struct hearth_cache_space *s, uint32_t neuron)
{
    return s->mark[neuron] == HEARTH_CACHE_PRESENT;
}
// Gives an absent neuron a free slot, in state LOADING; false when none is free.
bool hearth_cache_insert(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron);
// The same, the other way; drops pins.
void hearth_cache_remove(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron);

// ---- cache_slots.c ----
// Chunks that quotas and reserve take in all.
uint64_t hearth_cache_chunks_needed(const struct hearth_cache *c);
// HEARTH_CACHE_NONE when the class has no free slot and can get no chunk.
uint32_t hearth_cache_take_slot(struct hearth_cache *c, uint32_t size_class);
void hearth_cache_free_slot(struct hearth_cache *c, uint32_t slot);
void *hearth_cache_slot_base(const struct hearth_cache *c, uint32_t slot); // NULL without memory
// Lists free slots and unused chunks anew, after n_chunks has changed.
void hearth_cache_relist(struct hearth_cache *c);
// Empties chunks beyond n_chunks and gives their memory back, moving or dropping at most *left bundles (of
// which it counts down). Returns the bytes still held there.
uint64_t hearth_cache_give_back(struct hearth_cache *c, uint32_t *left);

#endif
