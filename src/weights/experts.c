// SPDX-License-Identifier: MIT
// Experts that are not all in memory: a layer reads those of its experts that the expert cache does not have,
// straight from where the file has their matrices, while those that it has are computed.
//
// All experts that a layer needs are asked for as far as there are slots, so their reads are in flight while
// those that are present are computed; then each is computed once it has landed, and its slot, if it is a
// common one, goes to the next that waits for one.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "model/load.h"
#include "sparse/expert_cache.h"
#include "weights/source.h"

// Rows of experts' inputs that are handed out together, where there are so many: then slots are let go.
#define GROUP_ROWS 64

#define EXPERT_PARTS 3 // gate, up, down; experts without a gate have nothing in its place

// One of the matrices that the experts of a layer consist of.
struct expert_part {
    const struct hearth_item
        *item; // of all experts; or, with a tensor each, of expert 0: the others follow it
    bool single;
    uint64_t bytes;        // of one expert
    uint64_t first, apart; // in a tensor of all: where expert 0's begin, and from one's to the next's
    size_t at;             // in a slot
};

// The experts of one layer.
struct expert_layer {
    struct expert_part parts[EXPERT_PARTS];
    size_t slot_bytes;
    uint8_t *slots; // its own; slot_bytes apart
    uint32_t half;  // of the visits: layers with experts take turns
};

// Where an expert of a layer that is being computed, or read ahead, is.
struct visit {
    struct hearth_reader_job job;
    struct hearth_extent extents[EXPERT_PARTS];
    uint8_t *slot;
    bool reading, done;
    bool ahead; // asked for before its layer's visit, which has not claimed it
};

struct experts_state {
    struct hearth_source_setup setup;
    uint32_t n_layers, n_experts;
    uint32_t n_here;             // of the layers in the order of stages, those that no device has
    struct expert_layer *layers; // [n_layers]
    struct hearth_expert_cache *cache;
    struct hearth_region region; // the layers' slots and the common ones
    uint8_t *common;             // common_bytes apart
    size_t common_bytes;
    const int *order_of_layers; // the plan's
    uint32_t *quota;            // [n_layers] slots of their own, but for
    struct hearth_region more;  // places that are lent, common_bytes apart: the first n_lent of most_lent
    uint32_t n_lent, most_lent;
    uint64_t lendable;
    uint32_t *lent_to; // [n_layers x n_experts] a place's layer
    uint32_t
        *place_of; // [n_layers x n_experts] the place of a layer's first slot behind its quota, and so on
    struct visit *visits;      // [2 n_experts] of a layer and of the next that has experts
    uint32_t layer;            // that is being visited
    struct hearth_want *wants; // the caller's,
    int *order, *counts;       // [n_experts] their experts, and rows of each
    int n_used, n_asked;       // the first n_asked of n_used are asked for
    int left;                  // not yet computed
    // Of the next layer: what it will probably want.
    int *guess;              // [n_experts]
    int n_guess, guess_at;   // those before guess_at are dealt with
    uint32_t n_ahead[2];     // visits with `ahead`, in either half,
    uint32_t ahead_layer[2]; // and the layer they are of
    bool in_step;
    uint64_t asked_cached, asked_read; // by steps so far
    uint64_t read_ahead, ahead_used;   // the same: experts read ahead, and those of them that were wanted
    uint64_t *expert_bytes;            // [n_layers] for planning: of a slot, layers in the order of stages
};

// ---- a layer

static const struct hearth_gguf_tensor *tensor_of(const struct expert_part *p, uint32_t expert)
{
    return p->item[p->single ? expert : 0].tensor;
}

static uint64_t offset_of(const struct expert_part *p, uint32_t expert)
{
    return tensor_of(p, expert)->offset + (p->single ? 0 : p->first + expert * p->apart);
}

static uint64_t page_of(const struct experts_state *x)
{
    const uint32_t align = hearth_reader_align(x->setup.reader);
    return align > HEARTH_IMAGE_PAGE ? align : HEARTH_IMAGE_PAGE;
}

static uint32_t half_of(const struct experts_state *x, uint32_t layer)
{
    return x->layers[layer].half;
}

static struct visit *visits_of(const struct experts_state *x, uint32_t layer)
{
    return x->visits + half_of(x, layer) * x->n_experts;
}

// The layer whose experts are read ahead.
static uint32_t next_layer(const struct experts_state *x)
{
    return (uint32_t)hearth_experts_behind(&x->setup.model->hp, (int)x->layer);
}

static void start_reading(struct experts_state *x, uint32_t layer, uint32_t expert)
{
    const struct expert_layer *l = &x->layers[layer];
    struct visit *v = &visits_of(x, layer)[expert];
    uint32_t n = 0;
    for (int part = 0; part < EXPERT_PARTS; part++) {
        const struct expert_part *p = &l->parts[part];
        if (p->bytes)
            v->extents[n++] = hearth_extent_of(tensor_of(p, expert)->shard, offset_of(p, expert), p->bytes,
                                               page_of(x), v->slot + p->at);
    }
    v->job = (struct hearth_reader_job){.extents = v->extents, .n = n};
    hearth_reader_start(x->setup.reader, &v->job);
}

static uint8_t *address_of(const struct experts_state *x, uint32_t layer,
                           const struct hearth_expert_slot *slot)
{
    const struct expert_layer *l = &x->layers[layer];
    if (slot->common)
        return x->common + slot->number * x->common_bytes;
    if (slot->number < x->quota[layer])
        return l->slots + slot->number * l->slot_bytes;
    const size_t place = x->place_of[layer * x->n_experts + slot->number - x->quota[layer]];
    assert(place < x->most_lent && x->lent_to[place] == layer); // such slots are given with their places
    return (uint8_t *)x->more.base + place * x->common_bytes;
}

// Lets go of what was read ahead and is not claimed, in one half of the visits: what is over, or all.
static void drop_ahead(struct experts_state *x, uint32_t half, bool all)
{
    const uint32_t layer = x->ahead_layer[half];
    for (uint32_t e = 0; e < x->n_experts && x->n_ahead[half]; e++) {
        struct visit *v = &x->visits[half * x->n_experts + e];
        if (!v->ahead || !(all || hearth_reader_is_over(x->setup.reader, &v->job)))
            continue;
        v->ahead = false;
        x->n_ahead[half]--;
        hearth_expert_cache_release(x->cache, layer, e, !hearth_reader_wait(x->setup.reader, &v->job, NULL));
    }
}

// Reads what the next layer will probably want, as far as there are slots.
static void ask_ahead(struct experts_state *x)
{
    if (x->guess_at == x->n_guess)
        return;
    const uint32_t layer = next_layer(x);
    for (; x->guess_at < x->n_guess; x->guess_at++) {
        const uint32_t expert = (uint32_t)x->guess[x->guess_at];
        struct visit *v = &visits_of(x, layer)[expert];
        struct hearth_expert_slot slot;
        const enum hearth_expert_request got =
            hearth_expert_cache_ask_ahead(x->cache, layer, expert, x->in_step, &slot);
        if (got == HEARTH_EXPERT_NO_ROOM)
            return;
        if (got == HEARTH_EXPERT_PRESENT)
            continue;
        v->slot = address_of(x, layer, &slot);
        v->ahead = true;
        x->n_ahead[half_of(x, layer)]++;
        x->ahead_layer[half_of(x, layer)] = layer;
        x->read_ahead += x->in_step;
        start_reading(x, layer, expert);
    }
}

// Asks for as many more of the layer's experts as there is room for, and then for the next one's.
static void ask(struct experts_state *x)
{
    for (; x->n_asked < x->n_used; x->n_asked++) {
        const uint32_t expert = (uint32_t)x->order[x->n_asked];
        struct visit *v = &visits_of(x, x->layer)[expert];
        struct hearth_expert_slot slot;
        enum hearth_expert_request got = hearth_expert_cache_request(x->cache, x->layer, expert, &slot);
        if (got == HEARTH_EXPERT_NO_ROOM && x->n_ahead[half_of(x, x->layer)]) {
            drop_ahead(x, half_of(x, x->layer), true); // in vain, perhaps, and slots are needed
            got = hearth_expert_cache_request(x->cache, x->layer, expert, &slot);
        }
        if (got == HEARTH_EXPERT_NO_ROOM)
            return;
        v->done = false;
        if (v->ahead) {
            v->ahead = false;
            v->reading = true;
            x->n_ahead[half_of(x, x->layer)]--;
            x->ahead_used += x->in_step;
            continue;
        }
        v->slot = address_of(x, x->layer, &slot);
        v->reading = got == HEARTH_EXPERT_ABSENT;
        if (v->reading)
            start_reading(x, x->layer, expert);
    }
    ask_ahead(x);
}

// Puts the wants of those that are in memory, or on their way, to the front. Returns how many.
static int present_first(struct experts_state *x)
{
    struct hearth_want *const wants = x->wants;
    int n_present = 0;
    for (int i = 0; i < x->n_used; i++) {
        const int expert = x->order[i];
        if (!hearth_expert_cache_has(x->cache, x->layer, (uint32_t)expert))
            continue;
        if (!x->setup.now->in_order) {
            const struct hearth_want want = wants[i];
            const size_t n_absent = (size_t)(i - n_present);
            memmove(x->order + n_present + 1, x->order + n_present, n_absent * sizeof *x->order);
            memmove(wants + n_present + 1, wants + n_present, n_absent * sizeof *wants);
            x->order[n_present] = expert;
            wants[n_present] = want;
        }
        n_present++;
    }
    return n_present;
}

// In what order the wants are, and had best be computed.
static void order_wants(struct experts_state *x, const struct hearth_request *r)
{
    const uint32_t first = (uint32_t)r->layer * x->n_experts;
    memset(x->counts, 0, x->n_experts * sizeof *x->counts);
    for (uint32_t i = 0; i < r->n; i++) {
        x->order[i] = (int)(r->wants[i].space - first);
        x->counts[x->order[i]] = r->wants[i].n_rows;
    }
    hearth_expert_cache_visit(x->cache, x->layer, x->counts, r->n_tokens);
    if (!x->in_step)
        return;
    const int n_present = present_first(x);
    x->asked_cached += (uint64_t)n_present;
    x->asked_read += (uint64_t)(x->n_used - n_present);
}

static void request(void *state, const struct hearth_request *r)
{
    struct experts_state *x = state;
    // What was read in vain for the layer before, or for one that an evaluation did not get to.
    x->layer = (uint32_t)r->layer;
    const uint32_t half = half_of(x, x->layer);
    drop_ahead(x, !half, true);
    if (x->ahead_layer[half] != x->layer)
        drop_ahead(x, half, true);
    x->in_step = r->phase == HEARTH_PHASE_STEP;
    x->wants = r->wants;
    x->n_used = x->left = (int)r->n;
    x->n_asked = x->n_guess = x->guess_at = 0;
    order_wants(x, r);
    ask(x);
}

// Guesses that are needed to judge them.
#define TRIALS 256

static bool takes_hints(const void *state, int layer, enum hearth_phase phase, enum hearth_guess_when when)
{
    (void)layer;
    (void)when;
    const struct experts_state *x = state;
    const bool right = x->read_ahead < TRIALS || 4 * x->ahead_used >= 3 * x->read_ahead;
    return x->setup.model->load.overlap == HEARTH_OVERLAP_ALL && (right || phase == HEARTH_PHASE_PROMPT);
}

static void guess(struct experts_state *x, int expert)
{
    if (hearth_expert_cache_has(x->cache, next_layer(x), (uint32_t)expert))
        return;
    for (int i = 0; i < x->n_guess; i++)
        if (x->guess[i] == expert)
            return;
    x->guess[x->n_guess++] = expert;
}

// Read once all that this layer wants is on its way.
static void hint(void *state, const struct hearth_hint *hints, uint32_t n)
{
    struct experts_state *x = state;
    for (uint32_t i = 0; i < n; i++)
        guess(x, (int)(hints[i].space % (uint32_t)x->n_experts));
}

static bool is_ready(const struct experts_state *x, const struct visit *v)
{
    return !v->reading || hearth_reader_is_over(x->setup.reader, &v->job);
}

static struct visit *visit_of(const struct experts_state *x, int i)
{
    return &visits_of(x, x->layer)[x->order[i]];
}

// The first of those asked for that is not computed yet and that had best be: one that is ready, else the
// one whose read began first.
static int choose_next(const struct experts_state *x)
{
    int waiting = -1;
    for (int i = 0; i < x->n_asked; i++) {
        const struct visit *v = visit_of(x, i);
        if (v->done)
            continue;
        if (x->setup.now->in_order || is_ready(x, v))
            return i;
        waiting = waiting < 0 ? i : waiting;
    }
    return waiting;
}

// Points a want's matrices to where they are.
static void point_want(const struct experts_state *x, struct hearth_want *want, int expert,
                       const uint8_t *slot)
{
    const struct hearth_layer *l = &x->setup.weights->layers[x->layer];
    const uint64_t mask = page_of(x) - 1;
    want->from = want->at;
    want->count = want->n;
    want->gate = hearth_expert(&l->ffn_gate_exps, expert);
    want->up = hearth_expert(&l->ffn_up_exps, expert);
    want->down =
        hearth_expert(hearth_has(&l->ffn_down_t_exps) ? &l->ffn_down_t_exps : &l->ffn_down_exps, expert);
    struct hearth_weight *const weights[] = {&want->gate, &want->up, &want->down};
    for (int part = 0; part < EXPERT_PARTS; part++) {
        const struct expert_part *p = &x->layers[x->layer].parts[part];
        if (p->bytes)
            weights[part]->data = slot + p->at + (offset_of(p, (uint32_t)expert) & mask);
    }
}

static bool is_to_stop(void *arg)
{
    const struct experts_state *x = arg;
    return hearth_source_is_to_stop(&x->setup, 1);
}

static int await(struct experts_state *x, struct visit *v, struct hearth_error *err)
{
    return hearth_reader_wait_or_stop(x->setup.reader, &v->job, (struct hearth_reader_stop){is_to_stop, x},
                                      err);
}

// Waits for want i and takes those behind it that are ready, too. Returns the end of the group; i: the
// evaluation has failed.
static int gather_group(struct experts_state *x, int i)
{
    int rows = 0, end = i;
    while (end < x->n_asked && (end == i || rows + x->wants[end].n_rows <= GROUP_ROWS)) {
        struct visit *v = visit_of(x, end);
        if (v->done || (end > i && !is_ready(x, v)))
            break;
        struct hearth_error err = {0};
        int rc = v->reading ? await(x, v, &err) : HEARTH_OK;
        if (rc && rc != HEARTH_E_INTERRUPTED) { // it may have been read ahead, long ago
            start_reading(x, x->layer, (uint32_t)x->order[end]);
            rc = await(x, v, &err);
        }
        if (rc) {
            hearth_fault_stop(x->setup.now->fault, &err);
            return i;
        }
        point_want(x, &x->wants[end], x->order[end], v->slot);
        rows += x->wants[end++].n_rows;
    }
    return end;
}

// What was asked for and not computed, because the evaluation has failed. What is on its way counts as read
// ahead.
static void give_up(struct experts_state *x)
{
    const uint32_t half = half_of(x, x->layer);
    drop_ahead(x, 0, false);
    drop_ahead(x, 1, false);
    x->ahead_layer[half] = x->layer;
    for (int i = 0; i < x->n_asked; i++) {
        struct visit *v = visit_of(x, i);
        const bool coming = !v->done && !is_ready(x, v);
        v->ahead |= coming;
        x->n_ahead[half] += coming;
        x->read_ahead += coming && x->in_step;
        if (!v->done && !coming)
            hearth_expert_cache_release(x->cache, x->layer, (uint32_t)x->order[i],
                                        !v->reading || !hearth_reader_wait(x->setup.reader, &v->job, NULL));
    }
    x->left = 0;
}

static struct hearth_want *next(void *state, int worker, uint32_t *n, bool *wait)
{
    (void)worker;
    struct experts_state *x = state;
    *wait = false;
    *n = 0;
    if (!x->left)
        return NULL;
    ask(x);
    const bool stop = !x->in_step && hearth_fault_look(x->setup.now->fault); // a prompt's are many bytes
    const int i = choose_next(x), end = stop ? i : gather_group(x, i);
    *n = (uint32_t)(end - i);
    if (*n)
        return x->wants + i;
    give_up(x);
    return NULL;
}

static void done(void *state, struct hearth_want *wants, uint32_t n)
{
    struct experts_state *x = state;
    const int first = (int)(wants - x->wants), end = first + (int)n;
    for (int i = first; i < end; i++) {
        visit_of(x, i)->done = true;
        hearth_expert_cache_release(x->cache, x->layer, (uint32_t)x->order[i], true);
    }
    x->left -= (int)n;
    if (x->left)
        return;
    drop_ahead(x, half_of(x, x->layer), false);
    ask(x);
}

static bool moves(const void *state)
{
    (void)state;
    return true;
}

// ---- lending

// The layers' slots behind their quotas lie in places of one region, one of each layer after the other: so
// the first few places are the same number of slots for each. Their memory is a prefix of the region.
static uint64_t bytes_of_places(const struct experts_state *x, uint32_t n)
{
    return hearth_region_bytes_of(&x->more, n * x->common_bytes);
}

// Takes the last place from its layer.
static void take_back(struct experts_state *x)
{
    const uint32_t place = --x->n_lent, layer = x->lent_to[place];
    struct hearth_expert_slot slot = {0};
    if (hearth_expert_cache_drop_slot(x->cache, layer, &slot.number))
        memcpy(address_of(x, layer, &slot), (uint8_t *)x->more.base + place * x->common_bytes,
               x->layers[layer].slot_bytes);
}

static void lend(void *state, uint64_t bytes, bool prompts)
{
    (void)prompts;
    struct experts_state *x = state;
    const uint64_t before = bytes_of_places(x, x->n_lent);
    uint32_t n = bytes / x->common_bytes < x->most_lent ? (uint32_t)(bytes / x->common_bytes) : x->most_lent;
    while (n && bytes_of_places(x, n) > bytes)
        n--;
    if (n == x->n_lent)
        return;
    for (uint32_t half = 0; half < 2; half++)
        drop_ahead(x, half, true);
    for (; x->n_lent < n; x->n_lent++)
        hearth_expert_cache_add_slot(x->cache, x->lent_to[x->n_lent]);
    while (x->n_lent > n)
        take_back(x);
    const uint64_t now = bytes_of_places(x, n);
    if (now < before)
        hearth_os_discard((uint8_t *)x->more.base + now, (size_t)(before - now));
}

// Which layers get the places, should there be memory.
static int open_places(struct experts_state *x, const struct hearth_budget_plan *plan,
                       struct hearth_error *err)
{
    if (!plan->common_experts) // all experts are in memory
        return HEARTH_OK;
    x->lent_to = hearth_calloc((size_t)x->n_layers * x->n_experts, sizeof *x->lent_to);
    x->place_of = hearth_calloc((size_t)x->n_layers * x->n_experts, sizeof *x->place_of);
    if (!x->lent_to || !x->place_of)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of experts");
    const uint64_t most = x->lendable / x->common_bytes;
    for (uint32_t slots = plan->layer_experts; slots < x->n_experts && x->most_lent < most; slots++)
        for (uint32_t i = 0; i < x->n_here && x->most_lent < most; i++) {
            const uint32_t layer = (uint32_t)x->order_of_layers[i];
            if (x->quota[layer] > slots) // one of those with one more
                continue;
            if (!x->layers[layer].slot_bytes) // one without experts
                continue;
            x->place_of[layer * x->n_experts + slots - x->quota[layer]] = x->most_lent;
            x->lent_to[x->most_lent++] = layer;
        }
    return hearth_region_open(&x->more, x->most_lent * x->common_bytes, "the experts", err);
}

// ---- opening

// Where a layer's experts are, and how much memory a slot for one takes.
static int find_layer(struct experts_state *x, int layer, struct hearth_error *err)
{
    const struct hearth_model *m = x->setup.model;
    const struct hearth_layer *w = &m->weights.layers[layer];
    const struct hearth_weight *const weights[] = {&w->ffn_gate_exps, &w->ffn_up_exps,
                                                   hearth_has(&w->ffn_down_t_exps) ? &w->ffn_down_t_exps
                                                                                   : &w->ffn_down_exps};
    struct expert_layer *l = &x->layers[layer];
    const uint64_t mask = page_of(x) - 1;
    for (int part = 0; part < EXPERT_PARTS; part++) {
        struct expert_part *p = &l->parts[part];
        if (part == 0 && !hearth_has(weights[part]))
            continue;
        p->item = hearth_item_of(m, weights[part]);
        if (!hearth_has(weights[part]) || !p->item->of_experts)
            return hearth_fail(err, HEARTH_E_INVALID, "%s: layer %d has no experts", m->info.path, layer);
        p->bytes = (uint64_t)weights[part]->n * weights[part]->stride;
        p->single = p->item->tensor->ne[2] == 1 && x->n_experts > 1;
        p->first = weights[part]->at;
        p->apart = hearth_expert_stride(weights[part]);
        p->at = l->slot_bytes;
        uint64_t most = 0;
        for (uint32_t e = 0; e < x->n_experts; e++) {
            const uint64_t bytes = (offset_of(p, e) & mask) + p->bytes;
            most = bytes > most ? bytes : most;
        }
        l->slot_bytes += (size_t)((most + mask) & ~mask);
    }
    x->common_bytes = l->slot_bytes > x->common_bytes ? l->slot_bytes : x->common_bytes;
    return HEARTH_OK;
}

// Those of any model, but of packs.
static bool can(const struct hearth_model *m, enum hearth_sparsity sparsity)
{
    (void)sparsity;
    return m->hp.n_expert && !m->pack;
}

static int open_experts(void **state, const struct hearth_source_setup *setup, struct hearth_error *err)
{
    const struct hearth_hparams *hp = &setup->model->hp;
    struct experts_state *x = *state = hearth_calloc(1, sizeof *x);
    if (!x)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of experts");
    x->setup = *setup;
    x->n_layers = (uint32_t)hp->n_layer;
    x->n_experts = (uint32_t)hp->n_expert;
    x->layers = hearth_calloc(x->n_layers, sizeof *x->layers);
    x->quota = hearth_calloc(x->n_layers, sizeof *x->quota);
    x->expert_bytes = hearth_calloc(x->n_layers, sizeof *x->expert_bytes);
    x->visits = hearth_calloc(2 * (size_t)x->n_experts, sizeof *x->visits);
    x->guess = hearth_calloc(x->n_experts, sizeof *x->guess);
    x->order = hearth_calloc(x->n_experts, sizeof *x->order);
    x->counts = hearth_calloc(x->n_experts, sizeof *x->counts);
    if (!x->layers || !x->quota || !x->expert_bytes || !x->visits || !x->guess || !x->order || !x->counts)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of experts");
    int rc = HEARTH_OK;
    uint32_t half = 0;
    for (int i = 0; i < hp->n_layer && !rc; i++) {
        if (!hearth_has_experts(hp, i))
            continue;
        x->layers[i].half = half = !half;
        rc = find_layer(x, i, err);
    }
    return rc;
}

static int need(void *state, struct hearth_source_need *n, struct hearth_error *err)
{
    (void)err;
    struct experts_state *x = state;
    struct hearth_budget_params *p = &n->params;
    x->order_of_layers = n->order;
    for (uint32_t i = 0; i < x->n_layers; i++)
        x->expert_bytes[i] = x->layers[n->order[i]].slot_bytes;
    x->lendable = p->lendable;
    x->n_here = x->n_layers - p->n_elsewhere;
    p->n_experts = x->n_experts;
    p->common_experts = (uint32_t)x->setup.model->hp.n_expert_used + 1;
    p->expert_bytes = x->expert_bytes;
    p->io += hearth_expert_cache_table_bytes(x->n_layers, x->n_experts) +
             x->n_layers * (sizeof *x->layers + sizeof *x->quota + sizeof *x->expert_bytes) +
             (uint64_t)x->n_layers * x->n_experts * (sizeof *x->lent_to + sizeof *x->place_of) +
             x->n_experts * (2 * sizeof *x->visits + sizeof *x->guess + sizeof *x->order + sizeof *x->counts);
    return HEARTH_OK;
}

static int fill(void *state, const struct hearth_budget_plan *plan, struct hearth_error *err)
{
    struct experts_state *x = state;
    for (uint32_t i = 0; i < x->n_here; i++)
        x->quota[x->order_of_layers[i]] = plan->layer_experts + (i < plan->more_experts);
    int rc = hearth_region_open(&x->region, (size_t)plan->expert_bytes, "the experts", err);
    if (rc)
        return rc;
    uint8_t *at = x->region.base;
    for (uint32_t i = 0; i < x->n_layers; i++) {
        x->layers[i].slots = at;
        at += x->quota[i] * x->layers[i].slot_bytes;
    }
    x->common = at;
    rc = open_places(x, plan, err);
    if (rc)
        return rc;
    return hearth_expert_cache_open(&x->cache,
                                    &(struct hearth_expert_cache_params){.n_layers = x->n_layers,
                                                                         .n_experts = x->n_experts,
                                                                         .quota = x->quota,
                                                                         .n_common = plan->common_experts},
                                    err);
}

static void close_experts(void **state)
{
    struct experts_state *x = *state;
    if (x) {
        hearth_expert_cache_close(&x->cache);
        hearth_region_close(&x->region);
        hearth_region_close(&x->more);
        free(x->lent_to);
        free(x->place_of);
        free(x->layers);
        free(x->quota);
        free(x->expert_bytes);
        free(x->visits);
        free(x->guess);
        free(x->order);
        free(x->counts);
    }
    free(x);
    *state = NULL;
}

// ---- figures

static void stats(const void *state, struct hearth_streaming_stats *out)
{
    const struct experts_state *x = state;
    for (uint32_t i = 0; i < x->n_layers; i++) {
        if (!x->layers[i].slot_bytes) // the layer has none
            continue;
        for (int part = 0; part < EXPERT_PARTS; part++)
            out->expert_bytes += x->n_experts * x->layers[i].parts[part].bytes;
        out->experts_cached += hearth_expert_cache_quota(x->cache, i);
        out->experts += x->n_experts;
    }
    out->lent_bytes += bytes_of_places(x, x->n_lent);
    out->cache_bytes += x->region.size + bytes_of_places(x, x->n_lent);
    out->expert_hits = x->asked_cached;
    out->expert_misses = x->asked_read;
    out->experts_ahead = x->read_ahead;
    out->experts_ahead_used = x->ahead_used;
}

static uint64_t memory(const void *state)
{
    const struct experts_state *x = state;
    return x->region.size;
}

const struct hearth_source_ops hearth_experts_source = {.name = "experts",
                                                        .can = can,
                                                        .open = open_experts,
                                                        .need = need,
                                                        .fill = fill,
                                                        .close = close_experts,
                                                        .moves = moves,
                                                        .request = request,
                                                        .next = next,
                                                        .done = done,
                                                        .takes_hints = takes_hints,
                                                        .hint = hint,
                                                        .lend = lend,
                                                        .stats = stats,
                                                        .memory = memory};
