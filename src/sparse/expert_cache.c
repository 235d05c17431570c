// SPDX-License-Identifier: MIT
// The expert cache; see expert_cache.h. A layer has some tens or hundreds of experts and an expert is
// megabytes, so a pass over all experts of a layer costs nothing beside a read.
#include "sparse/expert_cache.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/os.h"

#define NONE       UINT32_MAX
#define COMMON     (1u << 31) // in `slot`: one of the common slots
#define SLOW       32         // tokens after which a use counts half
#define FAST       2          // the same for the second speed
#define FAST_SHARE 0.3f       // weight of the second speed beside the first
#define MAX_PLACES (1u << 24) // experts of all layers

struct layer {
    uint32_t quota, n_cached;
    uint32_t *slot;     // [n_experts], or NONE
    uint32_t *held;     // [n_experts] the expert in each of the layer's own slots, or NONE
    bool *asked;        // [n_experts]
    float *slow, *fast; // [n_experts] shares of recent tokens
};

struct hearth_expert_cache {
    uint32_t n_layers, n_experts, n_common, n_free;
    struct layer *layers;  // [n_layers]
    uint32_t *free_common; // [n_common] the first n_free are free
    void *tables;
};

// ---- a visit

static void average(float *shares, const int *counts, uint32_t n, int n_tokens, int half_life)
{
    const float stays = exp2f(-(float)n_tokens / (float)half_life);
    for (uint32_t i = 0; i < n; i++)
        shares[i] = shares[i] * stays + (float)counts[i] / (float)n_tokens * (1 - stays);
}

void hearth_expert_cache_visit(struct hearth_expert_cache *c, uint32_t layer, const int *counts, int n_tokens)
{
    struct layer *l = &c->layers[layer];
    average(l->slow, counts, c->n_experts, n_tokens, SLOW);
    average(l->fast, counts, c->n_experts, n_tokens, FAST);
}

static float worth_of(const struct layer *l, uint32_t expert)
{
    return l->slow[expert] + FAST_SHARE * l->fast[expert];
}

// Finds one of the layer's own slots for an expert of this worth: a free one, or that of the
// expert of least worth, if that is less and no request holds it. Or NONE.
static uint32_t find_slot(const struct layer *l, float worth)
{
    uint32_t worst = NONE;
    for (uint32_t i = 0; i < l->quota; i++) {
        const uint32_t held = l->held[i];
        if (held == NONE)
            return i;
        if (!l->asked[held] && (worst == NONE || worth_of(l, held) < worth_of(l, l->held[worst])))
            worst = i;
    }
    return worst != NONE && worth_of(l, l->held[worst]) < worth ? worst : NONE;
}

static struct hearth_expert_slot slot_of(const struct layer *l, uint32_t expert)
{
    return (struct hearth_expert_slot){.common = (l->slot[expert] & COMMON) != 0,
                                       .number = l->slot[expert] & ~COMMON};
}

// Puts an expert in one of the layer's own slots, whoever is there.
static void put(struct layer *l, uint32_t expert, uint32_t own)
{
    if (l->held[own] == NONE)
        l->n_cached++;
    else
        l->slot[l->held[own]] = NONE; // which nobody has asked for: find_slot()
    l->held[own] = expert;
    l->slot[expert] = own;
}

// Gives an absent expert of this worth a slot. False: there is none.
static bool let_in(struct hearth_expert_cache *c, struct layer *l, uint32_t expert, float worth)
{
    const uint32_t own = find_slot(l, worth);
    if (own != NONE)
        put(l, expert, own);
    else if (c->n_free)
        l->slot[expert] = COMMON | c->free_common[--c->n_free];
    else
        return false;
    return true;
}

enum hearth_expert_request hearth_expert_cache_request(struct hearth_expert_cache *c, uint32_t layer,
                                                       uint32_t expert, struct hearth_expert_slot *slot)
{
    struct layer *l = &c->layers[layer];
    const bool present = l->slot[expert] != NONE;
    if (!present && !let_in(c, l, expert, worth_of(l, expert)))
        return HEARTH_EXPERT_NO_ROOM;
    assert(present || l->n_cached <= l->quota);
    l->asked[expert] = true;
    *slot = slot_of(l, expert);
    return present ? HEARTH_EXPERT_PRESENT : HEARTH_EXPERT_ABSENT;
}

enum hearth_expert_request hearth_expert_cache_ask_ahead(struct hearth_expert_cache *c, uint32_t layer,
                                                         uint32_t expert, bool may_evict,
                                                         struct hearth_expert_slot *slot)
{
    struct layer *l = &c->layers[layer];
    if (l->slot[expert] != NONE)
        return HEARTH_EXPERT_PRESENT;
    // The worth that a use by every token would add.
    const float more = (1 - exp2f(-1.0f / SLOW)) + FAST_SHARE * (1 - exp2f(-1.0f / FAST));
    if (!let_in(c, l, expert, may_evict ? worth_of(l, expert) + more : -1))
        return HEARTH_EXPERT_NO_ROOM;
    l->asked[expert] = true;
    *slot = slot_of(l, expert);
    return HEARTH_EXPERT_ABSENT;
}

void hearth_expert_cache_release(struct hearth_expert_cache *c, uint32_t layer, uint32_t expert, bool there)
{
    struct layer *l = &c->layers[layer];
    const uint32_t slot = l->slot[expert];
    assert(slot != NONE);
    l->asked[expert] = false;
    if (slot & COMMON) {
        assert(c->n_free < c->n_common);
        c->free_common[c->n_free++] = slot & ~COMMON;
        l->slot[expert] = NONE;
    } else if (!there) {
        assert(l->held[slot] == expert && l->n_cached > 0);
        l->held[slot] = NONE;
        l->slot[expert] = NONE;
        l->n_cached--;
    }
}

bool hearth_expert_cache_has(const struct hearth_expert_cache *c, uint32_t layer, uint32_t expert)
{
    return c->layers[layer].slot[expert] != NONE;
}

// ---- between visits

void hearth_expert_cache_add_slot(struct hearth_expert_cache *c, uint32_t layer)
{
    struct layer *l = &c->layers[layer];
    assert(l->quota < c->n_experts && l->held[l->quota] == NONE);
    l->quota++;
}

bool hearth_expert_cache_drop_slot(struct hearth_expert_cache *c, uint32_t layer, uint32_t *to)
{
    struct layer *l = &c->layers[layer];
    assert(l->quota > 0);
    const uint32_t last = --l->quota, expert = l->held[last];
    if (expert == NONE)
        return false;
    assert(!l->asked[expert]);
    l->held[last] = NONE;
    l->slot[expert] = NONE;
    l->n_cached--;
    *to = find_slot(l, worth_of(l, expert));
    if (*to == NONE)
        return false;
    put(l, expert, *to);
    return true;
}

// ---- statistics

uint32_t hearth_expert_cache_quota(const struct hearth_expert_cache *c, uint32_t layer)
{
    return c->layers[layer].quota;
}

uint32_t hearth_expert_cache_n_cached(const struct hearth_expert_cache *c, uint32_t layer)
{
    return c->layers[layer].n_cached;
}

float hearth_expert_cache_worth(const struct hearth_expert_cache *c, uint32_t layer, uint32_t expert)
{
    return worth_of(&c->layers[layer], expert);
}

// ---- opening

// Called twice: to measure, then to assign.
static void lay_out(struct hearth_expert_cache *c, struct hearth_arena *a)
{
    const size_t n = c->n_experts;
    c->layers = hearth_arena_take(a, c->n_layers, sizeof *c->layers);
    c->free_common = hearth_arena_take(a, c->n_common, sizeof *c->free_common);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        const struct layer l = {.slot = hearth_arena_take(a, n, sizeof *l.slot),
                                .held = hearth_arena_take(a, n, sizeof *l.held),
                                .asked = hearth_arena_take(a, n, sizeof *l.asked),
                                .slow = hearth_arena_take(a, n, sizeof *l.slow),
                                .fast = hearth_arena_take(a, n, sizeof *l.fast)};
        if (c->layers)
            c->layers[i] = l;
    }
}

uint64_t hearth_expert_cache_table_bytes(uint32_t n_layers, uint32_t n_experts)
{
    struct hearth_expert_cache c = {.n_layers = n_layers, .n_experts = n_experts, .n_common = n_experts + 1};
    struct hearth_arena measure = {0};
    lay_out(&c, &measure);
    return sizeof c + measure.used;
}

static int check(const struct hearth_expert_cache_params *p, struct hearth_error *err)
{
    bool ok = p->n_layers && p->n_experts && p->n_experts <= MAX_PLACES && p->n_common <= MAX_PLACES &&
              p->n_layers <= MAX_PLACES / p->n_experts;
    for (uint32_t i = 0; ok && i < p->n_layers; i++)
        ok = p->quota[i] <= p->n_experts && (p->n_common || p->quota[i] == p->n_experts);
    if (!ok)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "the expert cache: %u layers of %u experts, %u common slots", p->n_layers,
                           p->n_experts, p->n_common);
    return HEARTH_OK;
}

int hearth_expert_cache_open(struct hearth_expert_cache **out,
                             const struct hearth_expert_cache_params *params, struct hearth_error *err)
{
    *out = NULL;
    const int rc = check(params, err);
    if (rc)
        return rc;
    struct hearth_expert_cache *c = hearth_calloc(1, sizeof *c);
    if (!c)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the expert cache's tables");
    *c = (struct hearth_expert_cache){
        .n_layers = params->n_layers, .n_experts = params->n_experts, .n_common = params->n_common};
    struct hearth_arena measure = {0};
    lay_out(c, &measure);
    c->tables = hearth_aligned_alloc(64, measure.used);
    if (!c->tables) {
        free(c);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the expert cache's tables");
    }
    struct hearth_arena assign = {.base = c->tables, .size = measure.used};
    lay_out(c, &assign);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        struct layer *l = &c->layers[i];
        l->quota = params->quota[i];
        for (uint32_t e = 0; e < c->n_experts; e++) {
            l->slot[e] = l->held[e] = NONE;
            l->asked[e] = false;
            l->slow[e] = l->fast[e] = 0;
        }
    }
    for (uint32_t i = 0; i < c->n_common; i++)
        c->free_common[i] = c->n_common - 1 - i;
    c->n_free = c->n_common;
    *out = c;
    return HEARTH_OK;
}

void hearth_expert_cache_close(struct hearth_expert_cache **cache)
{
    struct hearth_expert_cache *c = *cache;
    *cache = NULL;
    if (!c)
        return;
    hearth_aligned_free(c->tables);
    free(c);
}
