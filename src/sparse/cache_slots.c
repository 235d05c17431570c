// SPDX-License-Identifier: MIT
// Which neuron is in which slot, and the memory of the neuron cache: a region cut into chunks, each cut into
// slots of one size. As quotas and the region's size change, chunks change their slot size or go back to the
// operating system.
#include <assert.h>
#include <string.h>

#include "base/os.h"
#include "base/poison.h"
#include "sparse/cache_internal.h"

static uint32_t chunk_of(const struct hearth_cache *c, uint32_t slot)
{
    return slot / c->per_chunk;
}

void *hearth_cache_slot_base(const struct hearth_cache *c, uint32_t slot)
{
    if (c->no_memory)
        return NULL;
    uint32_t chunk = chunk_of(c, slot);
    size_t offset = (size_t)(slot % c->per_chunk) * c->classes[c->chunks[chunk].size_class].slot_bytes;
    return (uint8_t *)c->region.base + (size_t)chunk * c->chunk_bytes + offset;
}

static uint64_t class_chunks(const struct hearth_cache *c, const struct hearth_cache_class *k)
{
    uint64_t slots = k->n_cold ? k->quota + c->reserve : 0;
    if (slots > k->n_neurons)
        slots = k->n_neurons;
    return (slots + k->per_chunk - 1) / k->per_chunk;
}

uint64_t hearth_cache_chunks_needed(const struct hearth_cache *c)
{
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < c->n_classes; i++)
        chunks += class_chunks(c, &c->classes[i]);
    return chunks;
}

// Free slots are poisoned: a bundle's address is good only while the bundle is in the cache.
static void poison_slot(const struct hearth_cache *c, uint32_t slot)
{
    if (!c->no_memory)
        HEARTH_POISON(hearth_cache_slot_base(c, slot),
                      c->classes[c->chunks[chunk_of(c, slot)].size_class].slot_bytes);
}

static void unpoison_slot(const struct hearth_cache *c, uint32_t slot)
{
    if (!c->no_memory)
        HEARTH_UNPOISON(hearth_cache_slot_base(c, slot),
                        c->classes[c->chunks[chunk_of(c, slot)].size_class].slot_bytes);
}

static void push_free(struct hearth_cache *c, struct hearth_cache_class *k, uint32_t slot)
{
    c->slot_neuron[slot] = k->free_head;
    k->free_head = slot;
    k->n_free++;
}

static uint32_t pop_free(struct hearth_cache *c, struct hearth_cache_class *k)
{
    uint32_t slot = k->free_head;
    assert((slot == HEARTH_CACHE_NONE) == (k->n_free == 0));
    if (slot == HEARTH_CACHE_NONE)
        return slot;
    assert(&c->classes[c->chunks[chunk_of(c, slot)].size_class] == k);
    k->free_head = c->slot_neuron[slot];
    k->n_free--;
    c->chunks[chunk_of(c, slot)].n_used++;
    unpoison_slot(c, slot);
    return slot;
}

static void free_slot(struct hearth_cache *c, uint32_t slot)
{
    uint32_t chunk = chunk_of(c, slot);
    assert(c->slot_space[slot] != HEARTH_CACHE_NONE && c->chunks[chunk].n_used > 0);
    poison_slot(c, slot);
    c->slot_space[slot] = HEARTH_CACHE_NONE;
    c->chunks[chunk].n_used--;
    if (chunk < c->n_chunks && chunk != c->emptying)
        push_free(c, &c->classes[c->chunks[chunk].size_class], slot);
}

void hearth_cache_evict(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    assert(s->slot[neuron] != HEARTH_CACHE_NONE && c->slot_neuron[s->slot[neuron]] == neuron);
    free_slot(c, s->slot[neuron]);
    s->slot[neuron] = HEARTH_CACHE_NONE;
    s->mark[neuron] = HEARTH_CACHE_ABSENT;
    s->n_cached--;
    s->stats.evictions++;
}

void hearth_cache_remove(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    c->policy->remove(s, neuron);
    hearth_cache_evict(c, s, neuron);
    s->stats.evictions--; // not a choice of the policy
}

// Rebuilds the list of the chunk's free slots, lowest first.
static void list_chunk(struct hearth_cache *c, uint32_t chunk)
{
    struct hearth_cache_class *k = &c->classes[c->chunks[chunk].size_class];
    for (uint32_t i = k->per_chunk; i-- > 0;)
        if (c->slot_space[chunk * c->per_chunk + i] == HEARTH_CACHE_NONE)
            push_free(c, k, chunk * c->per_chunk + i);
}

// Free slots of chunks that are being emptied are left out.
void hearth_cache_relist(struct hearth_cache *c)
{
    c->n_unused = 0;
    for (uint32_t i = 0; i < c->n_classes; i++) {
        c->classes[i].free_head = HEARTH_CACHE_NONE;
        c->classes[i].n_free = 0;
    }
    for (uint32_t i = c->n_chunks; i-- > 0;) {
        if (c->chunks[i].size_class == HEARTH_CACHE_NONE)
            c->n_unused++;
        else if (i != c->emptying)
            list_chunk(c, i);
    }
}

static void open_chunk(struct hearth_cache *c, uint32_t chunk, uint32_t size_class)
{
    c->chunks[chunk].size_class = size_class;
    c->chunks[chunk].held = true;
    c->classes[size_class].n_chunks++;
    c->n_unused--;
    list_chunk(c, chunk);
}

static bool take_unused_chunk(struct hearth_cache *c, uint32_t size_class)
{
    if (c->n_unused == 0)
        return false;
    uint32_t chunk = 0;
    while (c->chunks[chunk].size_class != HEARTH_CACHE_NONE)
        chunk++;
    open_chunk(c, chunk, size_class);
    return true;
}

static bool movable(const struct hearth_cache *c, uint32_t slot)
{
    uint32_t space = c->slot_space[slot];
    return space == HEARTH_CACHE_NONE || hearth_cache_evictable(&c->spaces[space], c->slot_neuron[slot]);
}

// Moves a bundle to another free slot of its class or, where there is none, drops it.
static void move_out(struct hearth_cache *c, uint32_t slot)
{
    struct hearth_cache_space *s = &c->spaces[c->slot_space[slot]];
    uint32_t neuron = c->slot_neuron[slot];
    uint32_t to = pop_free(c, &c->classes[s->size_class]);
    if (to == HEARTH_CACHE_NONE) {
        hearth_cache_remove(c, s, neuron);
        s->stats.evictions++;
        return;
    }
    if (!c->no_memory)
        memcpy(hearth_cache_slot_base(c, to), hearth_cache_slot_base(c, slot),
               c->classes[s->size_class].slot_bytes);
    c->slot_space[to] = c->slot_space[slot];
    c->slot_neuron[to] = neuron;
    s->slot[neuron] = to;
    free_slot(c, slot);
}

// The emptiest chunk of a class in which nothing is pinned or loading.
static uint32_t emptiest_chunk(const struct hearth_cache *c, uint32_t size_class)
{
    uint32_t best = HEARTH_CACHE_NONE;
    for (uint32_t i = 0; i < c->n_chunks; i++) {
        const struct hearth_cache_chunk *k = &c->chunks[i];
        if (k->size_class != size_class || (best != HEARTH_CACHE_NONE && k->n_used >= c->chunks[best].n_used))
            continue;
        uint32_t j = 0;
        while (j < c->classes[size_class].per_chunk && movable(c, i * c->per_chunk + j))
            j++;
        if (j == c->classes[size_class].per_chunk)
            best = i;
    }
    return best;
}

static void empty_chunk(struct hearth_cache *c, uint32_t chunk)
{
    struct hearth_cache_class *k = &c->classes[c->chunks[chunk].size_class];
    c->emptying = chunk; // bundles must not move within this chunk
    hearth_cache_relist(c);
    for (uint32_t i = 0; i < k->per_chunk; i++)
        if (c->slot_space[chunk * c->per_chunk + i] != HEARTH_CACHE_NONE)
            move_out(c, chunk * c->per_chunk + i);
    assert(c->chunks[chunk].n_used == 0);
    c->chunks[chunk].size_class = HEARTH_CACHE_NONE;
    k->n_chunks--;
    c->emptying = HEARTH_CACHE_NONE;
    hearth_cache_relist(c);
}

// Takes a chunk for this class from a class that has more than its quotas and the reserve need.
static bool take_surplus_chunk(struct hearth_cache *c, uint32_t size_class)
{
    for (uint32_t i = 0; i < c->n_classes; i++) {
        if (i == size_class || c->classes[i].n_chunks <= class_chunks(c, &c->classes[i]))
            continue;
        uint32_t chunk = emptiest_chunk(c, i);
        if (chunk == HEARTH_CACHE_NONE)
            continue;
        empty_chunk(c, chunk);
        open_chunk(c, chunk, size_class);
        return true;
    }
    return false;
}

static uint32_t take_slot(struct hearth_cache *c, uint32_t size_class)
{
    struct hearth_cache_class *k = &c->classes[size_class];
    if (k->free_head == HEARTH_CACHE_NONE && !take_unused_chunk(c, size_class))
        (void)take_surplus_chunk(c, size_class);
    return pop_free(c, k);
}

bool hearth_cache_insert(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    assert(s->slot[neuron] == HEARTH_CACHE_NONE && s->mark[neuron] == HEARTH_CACHE_ABSENT);
    uint32_t slot = take_slot(c, s->size_class);
    if (slot == HEARTH_CACHE_NONE)
        return false;
    assert(c->slot_space[slot] == HEARTH_CACHE_NONE);
    c->slot_space[slot] = (uint32_t)(s - c->spaces);
    c->slot_neuron[slot] = neuron;
    s->slot[neuron] = slot;
    s->mark[neuron] = HEARTH_CACHE_LOADING;
    s->n_cached++;
    c->policy->insert(s, neuron);
    return true;
}

// Returns one chunk beyond the region's size to the system; false: it is not empty yet.
static bool give_back_chunk(struct hearth_cache *c, uint32_t chunk, uint32_t *left)
{
    struct hearth_cache_chunk *k = &c->chunks[chunk];
    uint32_t n_slots = k->n_used ? c->classes[k->size_class].per_chunk : 0;
    for (uint32_t i = 0; i < n_slots && *left && k->n_used; i++) {
        uint32_t slot = chunk * c->per_chunk + i;
        if (c->slot_space[slot] == HEARTH_CACHE_NONE || !movable(c, slot))
            continue;
        struct hearth_cache_class *own = &c->classes[k->size_class];
        if (own->free_head == HEARTH_CACHE_NONE)
            (void)take_unused_chunk(c, k->size_class);
        move_out(c, slot);
        --*left;
    }
    if (k->n_used)
        return false;
    if (k->size_class != HEARTH_CACHE_NONE)
        c->classes[k->size_class].n_chunks--;
    k->size_class = HEARTH_CACHE_NONE;
    if (k->held && !c->no_memory)
        hearth_os_discard((uint8_t *)c->region.base + (size_t)chunk * c->chunk_bytes, c->chunk_bytes);
    k->held = false;
    return true;
}

uint64_t hearth_cache_give_back(struct hearth_cache *c, uint32_t *left)
{
    uint64_t bytes = 0;
    for (uint32_t i = c->n_chunks; i < c->max_chunks; i++)
        if ((c->chunks[i].held || c->chunks[i].size_class != HEARTH_CACHE_NONE) &&
            !give_back_chunk(c, i, left))
            bytes += c->chunk_bytes;
    return bytes;
}
