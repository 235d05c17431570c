// SPDX-License-Identifier: MIT
// The neuron cache: checks its parameters, sizes and lays out its tables, opens and closes.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/poison.h"
#include "sparse/cache_internal.h"

#define MAX_SPACES  (1u << 24)
#define MAX_NEURONS (1u << 30)
#define MAX_BUNDLE  (1u << 28)
#define MIN_SLAB    65536u
#define MAX_SLAB    (1u << 30)
#define MAX_ALIGN   65536u

static bool power_of_two(uint64_t n)
{
    return n && !(n & (n - 1));
}

uint32_t hearth_cache_slot_bytes(uint32_t bundle_bytes, uint64_t file_offset, uint32_t align)
{
    if (align <= 64) // copied in, or any address will do: align to a cache line
        return (uint32_t)hearth_round_up(bundle_bytes, 64);
    uint64_t common = bundle_bytes | file_offset | align; // its lowest bit divides every bundle's offset
    uint64_t slack = align - (common & (~common + 1));
    return (uint32_t)hearth_round_up(bundle_bytes + slack, align);
}

static int check(const struct hearth_cache_params *p, struct hearth_error *err)
{
    uint32_t slab = p->slab_bytes ? p->slab_bytes : HEARTH_CACHE_SLAB;
    if (!p->n_spaces || p->n_spaces > MAX_SPACES || !power_of_two(p->align) || p->align > MAX_ALIGN ||
        !power_of_two(slab) || slab < MIN_SLAB || slab > MAX_SLAB)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "the neuron cache: %u spaces, alignment %u, slabs of %u bytes", p->n_spaces,
                           p->align, slab);
    for (uint32_t i = 0; i < p->n_spaces; i++) {
        const struct hearth_cache_space_params *s = &p->spaces[i];
        if (!s->n_neurons || s->n_neurons > MAX_NEURONS || s->resident > s->n_neurons || !s->bundle_bytes ||
            s->bundle_bytes > MAX_BUNDLE || s->file_offset > (UINT64_C(1) << 60) ||
            hearth_cache_slot_bytes(s->bundle_bytes, s->file_offset, p->align) > slab)
            return hearth_fail(err, HEARTH_E_INVALID,
                               "the neuron cache: space %u has %u neurons of %u bytes, %u of them resident",
                               i, s->n_neurons, s->bundle_bytes, s->resident);
    }
    return HEARTH_OK;
}

static uint32_t find_class(const struct hearth_cache *c, uint32_t slot_bytes)
{
    uint32_t i = 0;
    while (i < c->n_classes && c->classes[i].slot_bytes != slot_bytes)
        i++;
    return i;
}

// Makes the size classes; `classes` has room for one per space.
static void make_classes(struct hearth_cache *c, const struct hearth_cache_params *p)
{
    c->n_classes = 0;
    c->per_slab = 0;
    for (uint32_t i = 0; i < p->n_spaces; i++) {
        const struct hearth_cache_space_params *s = &p->spaces[i];
        uint32_t slot_bytes = hearth_cache_slot_bytes(s->bundle_bytes, s->file_offset, p->align);
        uint32_t k = find_class(c, slot_bytes);
        if (k == c->n_classes) {
            c->classes[c->n_classes++] = (struct hearth_cache_class){.slot_bytes = slot_bytes,
                                                                     .per_slab = c->slab_bytes / slot_bytes,
                                                                     .free_head = HEARTH_CACHE_NONE};
            if (c->classes[k].per_slab > c->per_slab)
                c->per_slab = c->classes[k].per_slab;
        }
        c->classes[k].quota += s->quota < s->n_neurons ? s->quota : s->n_neurons;
        c->classes[k].n_neurons += s->n_neurons;
        c->classes[k].n_cold += s->resident < s->n_neurons;
    }
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// That would hold all neurons.
static uint64_t all_slabs(const struct hearth_cache *c)
{
    uint64_t slabs = 0;
    for (uint32_t i = 0; i < c->n_classes; i++)
        slabs += (c->classes[i].n_neurons + c->classes[i].per_slab - 1) / c->classes[i].per_slab;
    return slabs;
}

// Sets everything that follows from the parameters and needs no memory of its own. c->classes is allocated.
static int settle_sizes(struct hearth_cache *c, const struct hearth_cache_params *p, struct hearth_error *err)
{
    c->policy = p->policy ? p->policy : hearth_cache_policy_at(0);
    c->half_life = p->half_life ? p->half_life : HEARTH_CACHE_HALF_LIFE;
    c->n_spaces = p->n_spaces;
    c->align = p->align;
    c->reserve = p->reserve;
    c->no_memory = p->no_memory;
    c->slab_bytes = p->slab_bytes ? p->slab_bytes : HEARTH_CACHE_SLAB;
    make_classes(c, p);
    uint64_t needed = hearth_cache_slabs_needed(c);
    uint64_t slabs = p->bytes ? p->bytes / c->slab_bytes : needed;
    uint64_t most = p->max_bytes / c->slab_bytes;
    most = most > slabs ? most : slabs;
    most += min_u64(p->growth / c->slab_bytes, all_slabs(c) > most ? all_slabs(c) - most : 0);
    if (slabs < needed)
        return hearth_fail(err, HEARTH_E_BUDGET,
                           "the neuron cache has %llu bytes, but its quotas and reserve take %llu",
                           (unsigned long long)p->bytes, (unsigned long long)needed * c->slab_bytes);
    if (most * c->per_slab >= HEARTH_CACHE_NONE)
        return hearth_fail(err, HEARTH_E_INVALID, "the neuron cache: %llu slabs are too many",
                           (unsigned long long)most);
    c->n_slabs = (uint32_t)slabs;
    c->max_slabs = (uint32_t)most;
    return HEARTH_OK;
}

// Lays out all tables in one arena: once to measure (a->base == NULL), once to assign.
static void lay_out(struct hearth_cache *c, const struct hearth_cache_params *p, struct hearth_arena *a)
{
    struct hearth_cache_space *spaces = hearth_arena_take(a, p->n_spaces, sizeof *spaces);
    size_t n_slots = (size_t)c->max_slabs * c->per_slab;
    uint32_t widest = 0;
    c->slabs = hearth_arena_take(a, c->max_slabs, sizeof *c->slabs);
    c->slot_space = hearth_arena_take(a, n_slots, sizeof *c->slot_space);
    c->slot_neuron = hearth_arena_take(a, n_slots, sizeof *c->slot_neuron);
    c->log_table = hearth_arena_take(a, HEARTH_CACHE_LOG_TABLE, sizeof *c->log_table);
    for (uint32_t i = 0; i < p->n_spaces; i++) {
        uint32_t n = p->spaces[i].n_neurons;
        struct hearth_cache_space s = {
            .slot = hearth_arena_take(a, n, sizeof *s.slot),
            .mark = hearth_arena_take(a, n, sizeof *s.mark),
            .history = hearth_arena_take(a, (size_t)n * c->policy->words, sizeof *s.history),
            .queue = hearth_arena_take(a, (size_t)n * c->policy->queues, sizeof *s.queue),
        };
        if (spaces)
            spaces[i] = s;
        widest = n > widest ? n : widest;
    }
    c->scratch = hearth_arena_take(a, c->policy->queues ? 0 : widest, sizeof *c->scratch);
    c->spaces = spaces;
}

static void fill_tables(struct hearth_cache *c, const struct hearth_cache_params *p)
{
    for (uint32_t i = 0; i < p->n_spaces; i++) {
        const struct hearth_cache_space_params *from = &p->spaces[i];
        struct hearth_cache_space *s = &c->spaces[i];
        s->n_neurons = from->n_neurons;
        s->resident = from->resident;
        s->quota = from->quota < from->n_neurons ? from->quota : from->n_neurons;
        s->stride = from->bundle_bytes;
        s->file_offset = from->file_offset;
        s->size_class =
            find_class(c, hearth_cache_slot_bytes(from->bundle_bytes, from->file_offset, p->align));
        memset(s->slot, 0xFF, s->n_neurons * sizeof *s->slot);
    }
    for (uint32_t i = 0; i < c->max_slabs; i++)
        c->slabs[i].size_class = HEARTH_CACHE_NONE;
    memset(c->slot_space, 0xFF, (size_t)c->max_slabs * c->per_slab * sizeof *c->slot_space);
    for (int i = 0; i < HEARTH_CACHE_LOG_TABLE; i++) {
        double d = (double)(i * HEARTH_CACHE_LOG_STEP) / HEARTH_CACHE_LOG_UNITS;
        c->log_table[i] = (uint16_t)lrint(HEARTH_CACHE_LOG_UNITS * log2(1 + exp2(-d)));
    }
    c->emptying = HEARTH_CACHE_NONE;
    hearth_cache_relist(c);
}

// Checks the parameters, makes classes and sizes. `tables` becomes the bytes of all tables.
static int prepare(struct hearth_cache *c, const struct hearth_cache_params *p, size_t *tables,
                   struct hearth_error *err)
{
    int rc = check(p, err);
    if (rc)
        return rc;
    c->classes = hearth_calloc(p->n_spaces, sizeof *c->classes);
    if (!c->classes)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the neuron cache's tables");
    rc = settle_sizes(c, p, err);
    if (rc)
        return rc;
    struct hearth_arena measure = {0};
    lay_out(c, p, &measure);
    *tables = measure.used;
    return HEARTH_OK;
}

int hearth_cache_measure(const struct hearth_cache_params *params, struct hearth_cache_sizes *out,
                         struct hearth_error *err)
{
    struct hearth_cache c = {0};
    size_t tables = 0;
    int rc = prepare(&c, params, &tables, err);
    if (!rc)
        *out = (struct hearth_cache_sizes){.region_bytes = hearth_cache_slabs_needed(&c) * c.slab_bytes,
                                           .table_bytes = tables};
    free(c.classes);
    return rc;
}

int hearth_cache_open(struct hearth_cache **out, const struct hearth_cache_params *params,
                      struct hearth_error *err)
{
    *out = NULL;
    struct hearth_cache *c = hearth_calloc(1, sizeof *c);
    if (!c)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the neuron cache");
    size_t tables = 0;
    int rc = prepare(c, params, &tables, err);
    if (!rc)
        rc = hearth_region_open(&c->tables, tables, "the neuron cache's tables", err);
    if (!rc && !c->no_memory)
        rc = hearth_region_open(&c->region, (size_t)c->max_slabs * c->slab_bytes, "the neuron cache", err);
    if (rc) {
        hearth_cache_close(&c);
        return rc;
    }
    struct hearth_arena arena = {.base = c->tables.base, .size = c->tables.size};
    lay_out(c, params, &arena);
    fill_tables(c, params);
    if (!c->no_memory)
        HEARTH_POISON(c->region.base, c->region.size); // no slot is taken yet
    *out = c;
    return HEARTH_OK;
}

void hearth_cache_close(struct hearth_cache **cache)
{
    struct hearth_cache *c = *cache;
    *cache = NULL;
    if (!c)
        return;
    hearth_region_close(&c->region);
    hearth_region_close(&c->tables);
    free(c->classes);
    free(c);
}
