// SPDX-License-Identifier: MIT
// Which neuron is in which slot, and the memory of the neuron cache: a region cut into slabs, each cut into
// slots of one size. As quotas and the region's size change, slabs change their slot size or go back to the
// operating system.
#include <assert.h>
#include <string.h>

#include "base/os.h"
#include "base/poison.h"
#include "sparse/cache_internal.h"

static uint32_t slab_of(const struct hearth_cache *c, uint32_t slot)
{
    return slot / c->per_slab;
}

void *hearth_cache_slot_base(const struct hearth_cache *c, uint32_t slot)
{
    if (c->no_memory)
        return NULL;
    uint32_t slab = slab_of(c, slot);
    size_t offset = (size_t)(slot % c->per_slab) * c->classes[c->slabs[slab].size_class].slot_bytes;
    return (uint8_t *)c->region.base + (size_t)slab * c->slab_bytes + offset;
}

static uint64_t class_slabs(const struct hearth_cache *c, const struct hearth_cache_class *k)
{
    uint64_t slots = k->n_cold ? k->quota + c->reserve : 0;
    if (slots > k->n_neurons)
        slots = k->n_neurons;
    return (slots + k->per_slab - 1) / k->per_slab;
}

uint64_t hearth_cache_slabs_needed(const struct hearth_cache *c)
{
    uint64_t slabs = 0;
    for (uint32_t i = 0; i < c->n_classes; i++)
        slabs += class_slabs(c, &c->classes[i]);
    return slabs;
}

// Free slots are poisoned: a bundle's address is good only while the bundle is in the cache.
static void poison_slot(const struct hearth_cache *c, uint32_t slot)
{
    if (!c->no_memory)
        HEARTH_POISON(hearth_cache_slot_base(c, slot),
                      c->classes[c->slabs[slab_of(c, slot)].size_class].slot_bytes);
}

static void unpoison_slot(const struct hearth_cache *c, uint32_t slot)
{
    if (!c->no_memory)
        HEARTH_UNPOISON(hearth_cache_slot_base(c, slot),
                        c->classes[c->slabs[slab_of(c, slot)].size_class].slot_bytes);
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
    assert(&c->classes[c->slabs[slab_of(c, slot)].size_class] == k);
    k->free_head = c->slot_neuron[slot];
    k->n_free--;
    c->slabs[slab_of(c, slot)].n_used++;
    unpoison_slot(c, slot);
    return slot;
}

static void free_slot(struct hearth_cache *c, uint32_t slot)
{
    uint32_t slab = slab_of(c, slot);
    assert(c->slot_space[slot] != HEARTH_CACHE_NONE && c->slabs[slab].n_used > 0);
    poison_slot(c, slot);
    c->slot_space[slot] = HEARTH_CACHE_NONE;
    c->slabs[slab].n_used--;
    if (slab < c->n_slabs && slab != c->emptying)
        push_free(c, &c->classes[c->slabs[slab].size_class], slot);
}

void hearth_cache_evict(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    assert(s->slot[neuron] != HEARTH_CACHE_NONE && c->slot_neuron[s->slot[neuron]] == neuron);
    free_slot(c, s->slot[neuron]);
    s->slot[neuron] = HEARTH_CACHE_NONE;
    // Where its read has failed, others may ask for its state (hearth_cache_state()).
    __atomic_store_n(&s->mark[neuron], (uint8_t)HEARTH_CACHE_ABSENT, __ATOMIC_RELAXED);
    s->n_cached--;
    s->stats.evictions++;
}

void hearth_cache_remove(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    c->policy->remove(s, neuron);
    hearth_cache_evict(c, s, neuron);
    s->stats.evictions--; // not a choice of the policy
}

// Rebuilds the list of the slab's free slots, lowest first.
static void list_slab(struct hearth_cache *c, uint32_t slab)
{
    struct hearth_cache_class *k = &c->classes[c->slabs[slab].size_class];
    for (uint32_t i = k->per_slab; i-- > 0;)
        if (c->slot_space[slab * c->per_slab + i] == HEARTH_CACHE_NONE)
            push_free(c, k, slab * c->per_slab + i);
}

// Free slots of slabs that are being emptied are left out.
void hearth_cache_relist(struct hearth_cache *c)
{
    c->n_unused = 0;
    for (uint32_t i = 0; i < c->n_classes; i++) {
        c->classes[i].free_head = HEARTH_CACHE_NONE;
        c->classes[i].n_free = 0;
    }
    for (uint32_t i = c->n_slabs; i-- > 0;) {
        if (c->slabs[i].size_class == HEARTH_CACHE_NONE)
            c->n_unused++;
        else if (i != c->emptying)
            list_slab(c, i);
    }
}

static void open_slab(struct hearth_cache *c, uint32_t slab, uint32_t size_class)
{
    c->slabs[slab].size_class = size_class;
    c->slabs[slab].held = true;
    c->classes[size_class].n_slabs++;
    c->n_unused--;
    list_slab(c, slab);
}

static bool take_unused_slab(struct hearth_cache *c, uint32_t size_class)
{
    if (c->n_unused == 0)
        return false;
    uint32_t slab = 0;
    while (c->slabs[slab].size_class != HEARTH_CACHE_NONE)
        slab++;
    open_slab(c, slab, size_class);
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

// The emptiest slab of a class in which nothing is pinned or loading.
static uint32_t emptiest_slab(const struct hearth_cache *c, uint32_t size_class)
{
    uint32_t best = HEARTH_CACHE_NONE;
    for (uint32_t i = 0; i < c->n_slabs; i++) {
        const struct hearth_cache_slab *k = &c->slabs[i];
        if (k->size_class != size_class || (best != HEARTH_CACHE_NONE && k->n_used >= c->slabs[best].n_used))
            continue;
        uint32_t j = 0;
        while (j < c->classes[size_class].per_slab && movable(c, i * c->per_slab + j))
            j++;
        if (j == c->classes[size_class].per_slab)
            best = i;
    }
    return best;
}

static void empty_slab(struct hearth_cache *c, uint32_t slab)
{
    struct hearth_cache_class *k = &c->classes[c->slabs[slab].size_class];
    c->emptying = slab; // bundles must not move within this slab
    hearth_cache_relist(c);
    for (uint32_t i = 0; i < k->per_slab; i++)
        if (c->slot_space[slab * c->per_slab + i] != HEARTH_CACHE_NONE)
            move_out(c, slab * c->per_slab + i);
    assert(c->slabs[slab].n_used == 0);
    c->slabs[slab].size_class = HEARTH_CACHE_NONE;
    k->n_slabs--;
    c->emptying = HEARTH_CACHE_NONE;
    hearth_cache_relist(c);
}

// Takes a slab for this class from a class that has more than its quotas and the reserve need.
static bool take_surplus_slab(struct hearth_cache *c, uint32_t size_class)
{
    for (uint32_t i = 0; i < c->n_classes; i++) {
        if (i == size_class || c->classes[i].n_slabs <= class_slabs(c, &c->classes[i]))
            continue;
        uint32_t slab = emptiest_slab(c, i);
        if (slab == HEARTH_CACHE_NONE)
            continue;
        empty_slab(c, slab);
        open_slab(c, slab, size_class);
        return true;
    }
    return false;
}

static uint32_t take_slot(struct hearth_cache *c, uint32_t size_class)
{
    struct hearth_cache_class *k = &c->classes[size_class];
    if (k->free_head == HEARTH_CACHE_NONE && !take_unused_slab(c, size_class))
        (void)take_surplus_slab(c, size_class);
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

// Returns one slab beyond the region's size to the system; false: it is not empty yet.
static bool give_back_slab(struct hearth_cache *c, uint32_t slab, uint32_t *left)
{
    struct hearth_cache_slab *k = &c->slabs[slab];
    uint32_t n_slots = k->n_used ? c->classes[k->size_class].per_slab : 0;
    for (uint32_t i = 0; i < n_slots && *left && k->n_used; i++) {
        uint32_t slot = slab * c->per_slab + i;
        if (c->slot_space[slot] == HEARTH_CACHE_NONE || !movable(c, slot))
            continue;
        struct hearth_cache_class *own = &c->classes[k->size_class];
        if (own->free_head == HEARTH_CACHE_NONE)
            (void)take_unused_slab(c, k->size_class);
        move_out(c, slot);
        --*left;
    }
    if (k->n_used)
        return false;
    if (k->size_class != HEARTH_CACHE_NONE)
        c->classes[k->size_class].n_slabs--;
    k->size_class = HEARTH_CACHE_NONE;
    if (k->held && !c->no_memory)
        hearth_os_discard((uint8_t *)c->region.base + (size_t)slab * c->slab_bytes, c->slab_bytes);
    k->held = false;
    return true;
}

uint64_t hearth_cache_give_back(struct hearth_cache *c, uint32_t *left)
{
    uint64_t bytes = 0;
    for (uint32_t i = c->n_slabs; i < c->max_slabs; i++)
        if ((c->slabs[i].held || c->slabs[i].size_class != HEARTH_CACHE_NONE) && !give_back_slab(c, i, left))
            bytes += c->slab_bytes;
    return bytes;
}
