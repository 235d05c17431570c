// SPDX-License-Identifier: MIT
// Experts that stream: see expert_stream.h.
//
// All experts that a layer needs are asked for as far as there are places, so their reads are in flight while
// those that are present are computed; then each is computed once it has landed, and its place, if it is a
// common one, goes to the next that waits for one.
#include "engine/expert_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/runs.h"
#include "sparse/expert_cache.h"

// Rows of experts' inputs that are computed together, where there are so many: then places are let go.
#define GROUP_ROWS 64

// ---- a layer

static const struct hearth_gguf_tensor *tensor_of(const struct hearth_expert_part *p, uint32_t expert)
{
    return p->item[p->single ? expert : 0].tensor;
}

static uint64_t offset_of(const struct hearth_expert_part *p, uint32_t expert)
{
    return tensor_of(p, expert)->offset + (p->single ? 0 : expert * p->bytes);
}

static uint64_t page_of(const struct hearth_expert_stream *x)
{
    const uint32_t align = hearth_reader_align(x->reader);
    return align > HEARTH_IMAGE_PAGE ? align : HEARTH_IMAGE_PAGE;
}

static struct hearth_expert_visit *visits_of(const struct hearth_expert_stream *x, uint32_t layer)
{
    return x->visits + layer % 2 * x->n_experts;
}

static void start_reading(struct hearth_expert_stream *x, uint32_t layer, uint32_t expert)
{
    const struct hearth_expert_layer *l = &x->layers[layer];
    struct hearth_expert_visit *v = &visits_of(x, layer)[expert];
    for (int part = 0; part < HEARTH_EXPERT_PARTS; part++) {
        const struct hearth_expert_part *p = &l->parts[part];
        v->extents[part] = hearth_extent_of(tensor_of(p, expert)->part, offset_of(p, expert), p->bytes,
                                            page_of(x), v->place + p->at);
    }
    v->job = (struct hearth_reader_job){.extents = v->extents, .n = HEARTH_EXPERT_PARTS};
    hearth_reader_start(x->reader, &v->job);
}

static uint8_t *address_of(const struct hearth_expert_stream *x, uint32_t layer,
                           const struct hearth_expert_place *place)
{
    const struct hearth_expert_layer *l = &x->layers[layer];
    return place->common ? x->common + place->number * x->common_bytes
                         : l->places + place->number * l->place_bytes;
}

// Lets go of what was read ahead and is not claimed, in one half of the visits: what is over, or all.
static void drop_ahead(struct hearth_expert_stream *x, uint32_t half, bool all)
{
    const uint32_t layer = x->ahead_layer[half];
    for (uint32_t e = 0; e < x->n_experts && x->n_ahead[half]; e++) {
        struct hearth_expert_visit *v = &x->visits[half * x->n_experts + e];
        if (!v->ahead || !(all || hearth_reader_is_over(x->reader, &v->job)))
            continue;
        v->ahead = false;
        x->n_ahead[half]--;
        hearth_expert_cache_release(x->cache, layer, e, !hearth_reader_wait(x->reader, &v->job, NULL));
    }
}

// Reads what the next layer will probably want, as far as there are places.
static void ask_ahead(struct hearth_expert_stream *x)
{
    const uint32_t layer = x->layer + 1;
    for (; x->guess_at < x->n_guess; x->guess_at++) {
        const uint32_t expert = (uint32_t)x->guess[x->guess_at];
        struct hearth_expert_visit *v = &visits_of(x, layer)[expert];
        struct hearth_expert_place place;
        const enum hearth_expert_request got =
            hearth_expert_cache_ask_ahead(x->cache, layer, expert, x->in_step, &place);
        if (got == HEARTH_EXPERT_NO_ROOM)
            return;
        if (got == HEARTH_EXPERT_PRESENT)
            continue;
        v->place = address_of(x, layer, &place);
        v->ahead = true;
        x->n_ahead[layer % 2]++;
        x->ahead_layer[layer % 2] = layer;
        x->read_ahead += x->in_step;
        start_reading(x, layer, expert);
    }
}

// Asks for as many more of the layer's experts as there is room for, and then for the next one's.
static void ask(struct hearth_expert_stream *x)
{
    for (; x->n_asked < x->n_used; x->n_asked++) {
        const uint32_t expert = (uint32_t)x->order[x->n_asked];
        struct hearth_expert_visit *v = &visits_of(x, x->layer)[expert];
        struct hearth_expert_place place;
        enum hearth_expert_request got = hearth_expert_cache_request(x->cache, x->layer, expert, &place);
        if (got == HEARTH_EXPERT_NO_ROOM && x->n_ahead[x->layer % 2]) {
            drop_ahead(x, x->layer % 2, true); // in vain, perhaps, and places are needed
            got = hearth_expert_cache_request(x->cache, x->layer, expert, &place);
        }
        if (got == HEARTH_EXPERT_NO_ROOM)
            return;
        v->done = false;
        if (v->ahead) {
            v->ahead = false;
            v->reading = true;
            x->n_ahead[x->layer % 2]--;
            x->ahead_used += x->in_step;
            continue;
        }
        v->place = address_of(x, x->layer, &place);
        v->reading = got == HEARTH_EXPERT_ABSENT;
        if (v->reading)
            start_reading(x, x->layer, expert);
    }
    ask_ahead(x);
}

// Puts those that are in memory, or on their way, to the front. Returns how many.
static int present_first(struct hearth_expert_stream *x, int *order, int n)
{
    int n_present = 0;
    for (int i = 0; i < n; i++) {
        const int expert = order[i];
        if (!hearth_expert_cache_has(x->cache, x->layer, (uint32_t)expert))
            continue;
        if (!x->c->probes->on_marks) { // traces go by number
            memmove(order + n_present + 1, order + n_present, (size_t)(i - n_present) * sizeof *order);
            order[n_present] = expert;
        }
        n_present++;
    }
    return n_present;
}

void hearth_expert_stream_begin(struct hearth_expert_stream *x, enum hearth_phase phase, int layer,
                                const int *counts, int n_tokens, int *order, int n)
{
    // What was read in vain for the layer before, or for one that an evaluation did not get to.
    x->layer = (uint32_t)layer;
    drop_ahead(x, (x->layer + 1) % 2, true);
    if (x->ahead_layer[x->layer % 2] != x->layer)
        drop_ahead(x, x->layer % 2, true);
    x->in_step = phase == HEARTH_PHASE_STEP;
    x->order = order;
    x->n_used = n;
    x->n_asked = x->n_guess = x->guess_at = 0;
    hearth_expert_cache_visit(x->cache, x->layer, counts, n_tokens);
    if (x->in_step) {
        const int n_present = present_first(x, order, n);
        x->asked_cached += (uint64_t)n_present;
        x->asked_read += (uint64_t)(n - n_present);
    }
    ask(x);
}

// Guesses that are needed to judge them.
#define TRIALS 256

bool hearth_expert_stream_looks_ahead(const struct hearth_expert_stream *x)
{
    const struct hearth_runs *r = x->runs;
    const bool right = x->read_ahead < TRIALS || 4 * x->ahead_used >= 3 * x->read_ahead;
    return x->model->load.overlap == HEARTH_OVERLAP_ALL && x->layer + 1 < x->n_layers &&
           r->runs[x->layer + 1].resident && (right || !x->in_step);
}

void hearth_expert_stream_guess(struct hearth_expert_stream *x, int expert)
{
    if (hearth_expert_cache_has(x->cache, x->layer + 1, (uint32_t)expert))
        return;
    for (int i = 0; i < x->n_guess; i++)
        if (x->guess[i] == expert)
            return;
    x->guess[x->n_guess++] = expert;
}

static bool is_ready(const struct hearth_expert_stream *x, const struct hearth_expert_visit *v)
{
    return !v->reading || hearth_reader_is_over(x->reader, &v->job);
}

static struct hearth_expert_visit *visit_of(const struct hearth_expert_stream *x, int i)
{
    return &visits_of(x, x->layer)[x->order[i]];
}

// The first of those asked for that is not computed yet and that had best be: one that is ready, else the
// one whose read began first.
static int choose_next(const struct hearth_expert_stream *x)
{
    int waiting = -1;
    for (int i = 0; i < x->n_asked; i++) {
        const struct hearth_expert_visit *v = visit_of(x, i);
        if (v->done)
            continue;
        if (x->c->probes->on_marks || is_ready(x, v))
            return i;
        waiting = waiting < 0 ? i : waiting;
    }
    return waiting;
}

// Waits for unit i, takes those behind it that are ready too, and points them to where they are. Returns the
// end of the group; i: the evaluation has failed.
static int gather_group(struct hearth_expert_stream *x, struct hearth_expert_unit *units, int i)
{
    const struct hearth_expert_layer *l = &x->layers[x->layer];
    const uint64_t mask = page_of(x) - 1;
    int rows = 0, end = i;
    while (end < x->n_asked && (end == i || rows + units[end].n <= GROUP_ROWS)) {
        struct hearth_expert_visit *v = visit_of(x, end);
        if (v->done || (end > i && !is_ready(x, v)))
            break;
        struct hearth_error err = {0};
        int rc = v->reading ? hearth_reader_wait(x->reader, &v->job, &err) : HEARTH_OK;
        if (rc) { // it may have been read ahead, long ago
            start_reading(x, x->layer, (uint32_t)units[end].expert);
            rc = hearth_reader_wait(x->reader, &v->job, &err);
        }
        if (rc) {
            hearth_fault_raise(x->c->fault, &err);
            return i;
        }
        struct hearth_weight *const weights[] = {&units[end].gate, &units[end].up, &units[end].down};
        for (int part = 0; part < HEARTH_EXPERT_PARTS; part++) {
            const struct hearth_expert_part *p = &l->parts[part];
            weights[part]->data = v->place + p->at + (offset_of(p, (uint32_t)units[end].expert) & mask);
        }
        rows += units[end++].n;
    }
    return end;
}

// What was asked for and not computed, because the evaluation has failed.
static void give_up(struct hearth_expert_stream *x)
{
    drop_ahead(x, 0, true);
    drop_ahead(x, 1, true);
    for (int i = 0; i < x->n_asked; i++) {
        struct hearth_expert_visit *v = visit_of(x, i);
        if (!v->done)
            hearth_expert_cache_release(x->cache, x->layer, (uint32_t)x->order[i],
                                        !v->reading || !hearth_reader_wait(x->reader, &v->job, NULL));
    }
}

void hearth_expert_stream_run(struct hearth_expert_stream *x, struct hearth_expert_unit *units,
                              void (*compute)(void *arg, const struct hearth_expert_unit *units, int n),
                              void *arg)
{
    for (int left = x->n_used; left;) {
        ask(x);
        const bool stop = !x->in_step && hearth_fault_look(x->c->fault); // a prompt's experts are many bytes
        const int i = choose_next(x), end = stop ? i : gather_group(x, units, i);
        if (end == i) {
            give_up(x);
            return;
        }
        compute(arg, units + i, end - i);
        for (int k = i; k < end; k++) {
            visit_of(x, k)->done = true;
            hearth_expert_cache_release(x->cache, x->layer, (uint32_t)x->order[k], true);
        }
        left -= end - i;
    }
    drop_ahead(x, x->layer % 2, false);
    ask(x);
}

// ---- opening

bool hearth_expert_stream_can(const struct hearth_model *m)
{
    return m->hp.n_expert && !m->pack;
}

// Where a layer's experts are, and how much memory a place for one takes.
static int find_layer(struct hearth_expert_stream *x, int layer, struct hearth_error *err)
{
    const struct hearth_model *m = x->model;
    const struct hearth_layer *w = &m->weights.layers[layer];
    const struct hearth_weight *const weights[] = {&w->ffn_gate_exps, &w->ffn_up_exps,
                                                   hearth_has(&w->ffn_down_t_exps) ? &w->ffn_down_t_exps
                                                                                   : &w->ffn_down_exps};
    struct hearth_expert_layer *l = &x->layers[layer];
    const uint64_t mask = page_of(x) - 1;
    for (int part = 0; part < HEARTH_EXPERT_PARTS; part++) {
        struct hearth_expert_part *p = &l->parts[part];
        p->item = hearth_item_of(m, weights[part]);
        if (!hearth_has(weights[part]) || !p->item->of_experts)
            return hearth_fail(err, HEARTH_E_INVALID, "%s: layer %d has no experts", m->info.path, layer);
        p->bytes = (uint64_t)weights[part]->n * weights[part]->stride;
        p->single = p->item->tensor->ne[2] == 1 && x->n_experts > 1;
        p->at = l->place_bytes;
        uint64_t most = 0;
        for (uint32_t e = 0; e < x->n_experts; e++) {
            const uint64_t bytes = (offset_of(p, e) & mask) + p->bytes;
            most = bytes > most ? bytes : most;
        }
        l->place_bytes += (size_t)((most + mask) & ~mask);
    }
    x->common_bytes = l->place_bytes > x->common_bytes ? l->place_bytes : x->common_bytes;
    return HEARTH_OK;
}

int hearth_expert_stream_open(struct hearth_expert_stream *x, const struct hearth_context *c,
                              const struct hearth_model *m, const struct hearth_runs *runs,
                              struct hearth_reader *reader, struct hearth_error *err)
{
    const struct hearth_hparams *hp = &m->hp;
    *x = (struct hearth_expert_stream){.c = c, .model = m, .runs = runs, .reader = reader};
    if (!hearth_expert_stream_can(m))
        return HEARTH_OK;
    x->n_layers = (uint32_t)hp->n_layer;
    x->n_experts = (uint32_t)hp->n_expert;
    x->layers = hearth_calloc(x->n_layers, sizeof *x->layers);
    x->quota = hearth_calloc(x->n_layers, sizeof *x->quota);
    x->expert_bytes = hearth_calloc(x->n_layers, sizeof *x->expert_bytes);
    x->visits = hearth_calloc(2 * (size_t)x->n_experts, sizeof *x->visits);
    x->guess = hearth_calloc(x->n_experts, sizeof *x->guess);
    if (!x->layers || !x->quota || !x->expert_bytes || !x->visits || !x->guess)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of experts");
    int rc = HEARTH_OK;
    for (int i = 0; i < hp->n_layer && !rc; i++)
        rc = find_layer(x, i, err);
    x->on = !rc;
    return rc;
}

void hearth_expert_stream_plan(struct hearth_expert_stream *x, struct hearth_budget_params *p,
                               const int *order)
{
    if (!x->on)
        return;
    for (uint32_t i = 0; i < x->n_layers; i++)
        x->expert_bytes[i] = x->layers[order[i]].place_bytes;
    p->n_experts = x->n_experts;
    p->common_experts = (uint32_t)x->model->hp.n_expert_used + 1;
    p->expert_bytes = x->expert_bytes;
    p->io += hearth_expert_cache_table_bytes(x->n_layers, x->n_experts) +
             x->n_layers * (sizeof *x->layers + sizeof *x->quota + sizeof *x->expert_bytes) +
             x->n_experts * (2 * sizeof *x->visits + sizeof *x->guess);
}

int hearth_expert_stream_fill(struct hearth_expert_stream *x, const struct hearth_budget_plan *plan,
                              const int *order, struct hearth_error *err)
{
    if (!x->on)
        return HEARTH_OK;
    for (uint32_t i = 0; i < x->n_layers; i++)
        x->quota[order[i]] = plan->layer_experts + (i < plan->more_experts);
    int rc = hearth_region_open(&x->region, (size_t)plan->expert_bytes, "the experts", err);
    if (rc)
        return rc;
    uint8_t *at = x->region.base;
    for (uint32_t i = 0; i < x->n_layers; i++) {
        x->layers[i].places = at;
        at += x->quota[i] * x->layers[i].place_bytes;
    }
    x->common = at;
    return hearth_expert_cache_open(&x->cache,
                                    &(struct hearth_expert_cache_params){.n_layers = x->n_layers,
                                                                         .n_experts = x->n_experts,
                                                                         .quota = x->quota,
                                                                         .n_common = plan->common_experts},
                                    err);
}

void hearth_expert_stream_close(struct hearth_expert_stream *x)
{
    hearth_expert_cache_close(&x->cache);
    hearth_region_close(&x->region);
    free(x->layers);
    free(x->quota);
    free(x->expert_bytes);
    free(x->visits);
    free(x->guess);
    *x = (struct hearth_expert_stream){0};
}
