// SPDX-License-Identifier: MIT
// Internals of the neuron cache, shared by cache.c (steps), cache_policy.c (choices), cache_slots.c (slots
// and their memory), cache_open.c and cache_warm.c (start).
#ifndef HEARTH_SPARSE_CACHE_INTERNAL_H
#define HEARTH_SPARSE_CACHE_INTERNAL_H

#include "base/memory.h"
#include "sparse/cache.h"

#define HEARTH_CACHE_NONE UINT32_MAX

// mark[neuron] has the state in its low two bits and the number of pins above.
#define HEARTH_CACHE_STATE_BITS 3u
#define HEARTH_CACHE_PIN        4u

struct hearth_cache_space {
    uint32_t n_neurons, resident, quota;
    uint32_t stride;      // of bundles in the file
    uint64_t file_offset; // file offset of bundle 0
    uint32_t size_class;
    uint32_t now;              // visits so far, less those that `age` has taken off
    const float *scores;       // [F] of the last visit, or NULL
    uint64_t last_step;        // step of the last visit
    uint32_t n_cached;         // neurons with a slot
    uint32_t *slot;            // [F] slot of a neuron; HEARTH_CACHE_NONE: absent
    uint8_t *mark;             // [F], then zeros up to a multiple of 64
    uint32_t *history;         // [F * policy->words]
    uint32_t *queue;           // [F * policy->queues] (S3-FIFO)
    uint32_t head[3], tail[3]; // ends of the queues: counters that only grow
    struct hearth_cache_stats stats;
};

// The functions of a policy. History words start as zeros.
struct hearth_cache_policy {
    const char *name;
    uint32_t words;  // uint32_t of history for each neuron
    uint32_t queues; // uint32_t of queues for each neuron
    // A neuron was requested. If it is absent, touch comes before insert.
    void (*touch)(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron);
    // insert: a neuron got a slot. remove: it lost its slot, by the choice of trim (which calls
    // this itself where needed) or otherwise.
    void (*insert)(struct hearth_cache_space *s, uint32_t neuron);
    void (*remove)(struct hearth_cache_space *s, uint32_t neuron);
    // Evicts (hearth_cache_evict) up to n neurons that are neither pinned nor loading.
    void (*trim)(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t n);
    // Starts the history from a profile; may be NULL.
    void (*seed)(const struct hearth_cache *c, struct hearth_cache_space *s, const float *share);
    // Takes so many visits off `now` and off the history, every HEARTH_CACHE_AGE of them; may be NULL.
    void (*age)(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t visits);
};

struct hearth_cache_slab {
    uint32_t size_class; // HEARTH_CACHE_NONE: unused
    uint32_t n_used;     // slots
    bool held;           // its memory has been touched since it was last returned to the system
};

struct hearth_cache_class {
    uint32_t slot_bytes, per_slab;
    uint32_t free_head; // list through slot_neuron[]
    uint32_t n_free, n_slabs;
    uint64_t quota;     // sum over its spaces
    uint64_t n_neurons; // sum over its spaces
    uint32_t n_cold;    // number of its spaces that are not wholly resident
};

#define HEARTH_CACHE_AGE       (1u << 20) // times of this many visits, and as many again, fit into words
#define HEARTH_CACHE_LOG_STEP  4          // resolution of the table below
#define HEARTH_CACHE_LOG_UNITS 1024
#define HEARTH_CACHE_LOG_TABLE (11 * HEARTH_CACHE_LOG_UNITS / HEARTH_CACHE_LOG_STEP)

struct hearth_cache {
    const struct hearth_cache_policy *policy;
    uint32_t half_life, n_spaces, n_classes, align, reserve;
    struct hearth_cache_space *spaces;  // [n_spaces]
    struct hearth_cache_class *classes; // [n_classes]
    struct hearth_cache_slab *slabs;    // [max_slabs]
    uint32_t slab_bytes, n_slabs, max_slabs,
        n_unused;          // slabs [n_slabs, max_slabs) are to be returned
    uint32_t emptying;     // the slab being emptied for another size, or NONE
    uint32_t per_slab;     // slot id = slab * per_slab + number in the slab
    uint32_t *slot_space;  // [max_slabs * per_slab] the space that owns the slot; NONE: free
    uint32_t *slot_neuron; // the neuron in the slot, or the next free slot
    uint64_t *scratch;     // [largest F]
    uint16_t *log_table;   // [HEARTH_CACHE_LOG_TABLE]: units * log2(1 + 2^-d)
    uint64_t step;
    bool no_memory;
    struct hearth_region tables, region;
};

// ---- cache_slots.c
// Takes the slot from a neuron that is present and not pinned. The caller updates the policy's state.
void hearth_cache_evict(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron);
static inline bool hearth_cache_evictable(const struct hearth_cache_space *s, uint32_t neuron)
{
    return s->mark[neuron] == HEARTH_CACHE_PRESENT;
}
// Gives an absent neuron a free slot, in state LOADING; false when none is free.
bool hearth_cache_insert(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron);
// The reverse: the neuron loses its slot and its pins.
void hearth_cache_remove(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron);
// Number of slabs that all quotas and the reserve need.
uint64_t hearth_cache_slabs_needed(const struct hearth_cache *c);
void *hearth_cache_slot_base(const struct hearth_cache *c, uint32_t slot); // NULL without memory
// Rebuilds the lists of free slots and unused slabs, after n_slabs has changed.
void hearth_cache_relist(struct hearth_cache *c);
// Empties the slabs beyond n_slabs and returns their memory to the system. Moves or drops at most *left
// bundles and counts *left down. Returns the bytes still held there.
uint64_t hearth_cache_give_back(struct hearth_cache *c, uint32_t *left);

#endif
