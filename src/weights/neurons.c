// SPDX-License-Identifier: MIT
// Single neurons of a pack: opening, planning, and the first filling of memory.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "model/ffn.h"
#include "model/load.h"
#include "weights/neuron_chunks.h"
#include "weights/neuron_reads.h"
#include "weights/neuron_steps.h"
#include "weights/tests.h"

// Bundles in flight: enough for the storage to be busy, whatever one token wants of a layer.
#define DEPTH 256
// A chunk of a space, of which prompts hold two, and the warm start.
#define CHUNK_BYTES ((size_t)16 << 20)
// By which share quotas approach the plan's while they do not fit.
#define STEP (1.0 / 64)

// ---- hot path

static bool moves(const void *state)
{
    return ((const struct hearth_neurons *)state)->on;
}

static void request(void *state, const struct hearth_request *r)
{
    struct hearth_neurons *n = state;
    if (r->wants[0].ids) {
        hearth_neuron_chunks_end(n);
        hearth_neuron_steps_request(n, r);
    } else {
        hearth_neuron_steps_settle(n);
        hearth_neuron_chunks_request(n, r);
    }
    n->by_ids = r->wants[0].ids != NULL;
}

static struct hearth_want *next(void *state, int worker, uint32_t *count, bool *wait)
{
    struct hearth_neurons *n = state;
    if (n->by_ids)
        return hearth_neuron_steps_next(n, worker, count, wait);
    *wait = false;
    return hearth_neuron_chunks_next(n, count);
}

static bool more(void *state)
{
    return hearth_neuron_steps_more(state);
}

static void settle(void *state)
{
    hearth_neuron_steps_settle(state);
}

static void locate(const void *state, const struct hearth_want *want, const uint8_t **bundles)
{
    const struct hearth_neurons *n = state;
    for (uint32_t i = 0; i < want->n_ids; i++)
        if (want->ids[i] >= n->resident[want->space])
            bundles[want->ids[i] - want->at] = hearth_cache_bundle(n->cache, want->space, want->ids[i]);
}

static struct hearth_space space(const void *state, uint32_t number)
{
    const struct hearth_neurons *n = state;
    struct hearth_space out = n->prefixes[number];
    if (n->setup.model->pack->gates_apart)
        out.gate = n->setup.weights->layers[number].ffn_gate; // of the layer's stage
    return out;
}

static float *scores(void *state, uint32_t number)
{
    struct hearth_neurons *n = state;
    return n->scores + (size_t)number * n->n_neurons;
}

// Late ones are asked for where there were no early ones.
static bool takes_hints(const void *state, int layer, enum hearth_phase phase, enum hearth_guess_when when)
{
    (void)layer;
    (void)phase;
    const struct hearth_neurons *n = state;
    return n->guessing.when <= when;
}

static size_t absent(const void *state, uint32_t number, size_t first, size_t end, uint32_t *ids)
{
    const struct hearth_neurons *n = state;
    const size_t resident = n->resident[number];
    size_t count = 0;
    for (size_t j = first > resident ? first : resident; j < end; j++) {
        ids[count] = (uint32_t)j;
        count += hearth_cache_state(n->cache, number, (uint32_t)j) == HEARTH_CACHE_ABSENT;
    }
    return count;
}

// Where a prompt of the same evaluation is about to read all of a space, nothing else reads.
static void hint(void *state, const struct hearth_hint *hints, uint32_t count)
{
    struct hearth_neurons *n = state;
    if (!n->setup.now->mixed)
        hearth_neuron_steps_hint(n, hints, count);
    else if (count == 1)
        hearth_neuron_chunks_hint(n, hints->space, hints->ids, hints->n);
}

// ---- planning

// Packs that say which neurons a step needs: with predictors, or with gates apart.
static bool can(const struct hearth_model *m, enum hearth_sparsity sparsity)
{
    if (m->pack && m->pack->gates_apart && sparsity == HEARTH_SPARSITY_EXACT)
        return true;
    if (!m->pack || sparsity != HEARTH_SPARSITY_PREDICT)
        return false;
    for (int i = 0; i < m->hp.n_layer; i++) {
        const struct hearth_ffn f = hearth_ffn_of(&m->hp, &m->weights.layers[i]);
        if (!hearth_has(f.fc2) || !hearth_has(f.down_t))
            return false;
    }
    return true;
}

// ---- lending

// Sets all quotas to a share of the way from the plan's to what the cache could hold with all that may be
// lent. False: the region does not hold them.
static bool set_quotas(struct hearth_neurons *n, double share)
{
    bool fit = true;
    for (uint32_t i = 0; i < n->n_spaces; i++) {
        const uint32_t more = (uint32_t)((double)(n->quota_most[i] - n->quota[i]) * share);
        fit &= !hearth_cache_set_quota(n->cache, i, n->quota[i] + more, NULL);
    }
    return fit;
}

// Brings the cache to the plan's size and so many bytes more.
static void resize(struct hearth_neurons *n, uint64_t more)
{
    const uint64_t most = hearth_cache_max_bytes(n->cache) - n->region_bytes;
    more = more < most ? more : most;
    if (more == n->lent)
        return;
    const uint64_t bytes = n->region_bytes + more, waste = hearth_cache_waste(n->cache);
    hearth_neuron_steps_finish(n); // whatever was on its way has landed
    if (more > n->lent)
        (void)hearth_cache_set_bytes(n->cache, bytes, NULL);
    double share = more == most ? 1 : more > waste ? (double)(more - waste) / (double)most : 0;
    while (!set_quotas(n, share) || hearth_cache_set_bytes(n->cache, bytes, NULL)) {
        assert(share > 0); // the plan's quotas fit the plan's region
        if (share <= 0)
            break;
        share = share > STEP ? share - STEP : 0;
    }
    const uint64_t left = hearth_cache_settle(n->cache, UINT32_MAX);
    assert(!left);
    (void)left;
    n->lent = more;
}

static void lend(void *state, uint64_t bytes, bool prompts)
{
    struct hearth_neurons *n = state;
    if (!n->on)
        return;
    if (!prompts && n->prompted) {
        hearth_neuron_chunks_finish(n);
        hearth_os_discard(n->buffers.base, n->buffers.size);
    }
    n->prompted = prompts;
    resize(n, bytes + (prompts ? 0 : hearth_region_bytes(n->buffers.size)));
}

// ---- memory
//
// What a region holds is written down once, in a function that runs twice: to measure (arena without memory),
// for the plan as well, and to assign.

typedef void (*lay_out_fn)(struct hearth_neurons *n, struct hearth_arena *a);

// What planning needs.
static void lay_out_lists(struct hearth_neurons *n, struct hearth_arena *a)
{
    n->spaces = hearth_arena_take(a, n->n_spaces, sizeof *n->spaces);
    n->resident = hearth_arena_take(a, n->n_spaces, sizeof *n->resident);
    n->quota = hearth_arena_take(a, n->n_spaces, sizeof *n->quota);
    n->quota_most = hearth_arena_take(a, n->n_spaces, sizeof *n->quota_most);
    n->prefixes = hearth_arena_take(a, n->n_spaces, sizeof *n->prefixes);
}

// What steps and prompts use.
static void lay_out_tables(struct hearth_neurons *n, struct hearth_arena *a)
{
    const size_t wants = HEARTH_NEURON_WANTS(n);
    for (int k = 0; k < 2; k++)
        n->extents[k] = hearth_arena_take(a, n->max_extents, sizeof *n->extents[k]);
    n->pending = hearth_arena_take(a, wants, sizeof *n->pending);
    n->ready = hearth_arena_take(a, wants, sizeof *n->ready);
    n->want_of_space = hearth_arena_take(a, n->n_spaces, sizeof *n->want_of_space);
    n->let_go = hearth_arena_take(a, n->n_neurons, sizeof *n->let_go);
    n->flights = hearth_arena_take(a, n->n_flights, sizeof *n->flights);
    n->free_flights = hearth_arena_take(a, n->n_flights, sizeof *n->free_flights);
    n->queue = hearth_arena_take(a, n->n_flights, sizeof *n->queue);
    n->alone = hearth_arena_take(a, n->n_flights, sizeof *n->alone);
    n->groups = hearth_arena_take(a, HEARTH_NEURON_GROUPS, sizeof *n->groups);
    n->free_groups = hearth_arena_take(a, HEARTH_NEURON_GROUPS, sizeof *n->free_groups);
    n->scores = hearth_arena_take(a, n->n_spaces, n->n_neurons * sizeof *n->scores);
}

// The prefixes' matrices, part by part and expert by expert: where all neurons of a layer are resident, they
// lie as the engine wants them of a model in memory.
static void lay_out_prefixes(struct hearth_neurons *n, struct hearth_arena *a)
{
    const struct hearth_model *m = n->setup.model;
    const uint32_t experts = n->experts, e = m->pack->n_embd;
    for (uint32_t layer = 0; layer < m->pack->n_layer; layer++) {
        const struct hearth_bundle *b = &m->pack->layers[layer];
        for (int part = 0; part < HEARTH_PARTS; part++) {
            size_t rows = 0;
            for (uint32_t k = 0; k < experts; k++)
                rows += n->resident[layer * experts + k];
            uint8_t *base = hearth_arena_take(a, rows, b->bytes[part]);
            for (uint32_t k = 0; k < experts && b->bytes[part]; k++) {
                struct hearth_space *space = &n->prefixes[layer * experts + k];
                struct hearth_weight *parts[HEARTH_PARTS] = {&space->gate, &space->up, &space->down_t};
                *parts[part] = (struct hearth_weight){
                    .data = base, .type = b->type[part], .k = e, .n = b->n, .stride = b->bytes[part]};
                space->n = b->n;
                space->resident = n->resident[layer * experts + k];
                if (base)
                    base += space->resident * b->bytes[part];
            }
        }
    }
}

static size_t measure(struct hearth_neurons *n, lay_out_fn lay_out)
{
    struct hearth_arena a = {0};
    lay_out(n, &a);
    return a.used;
}

static int open_region(struct hearth_neurons *n, struct hearth_region *region, lay_out_fn lay_out,
                       const char *what, struct hearth_error *err)
{
    const int rc = hearth_region_open(region, measure(n, lay_out), what, err);
    struct hearth_arena assign = {.base = region->base, .size = region->size};
    if (!rc)
        lay_out(n, &assign);
    return rc;
}

// How often the layer's spaces are visited and its neurons active, where the pack says. Experts that no
// profile knows are used evenly.
static int read_profile(struct hearth_neurons *n, int layer, int32_t *counts, int32_t *visits,
                        struct hearth_error *err)
{
    const struct hearth_model *m = n->setup.model;
    const uint32_t experts = n->experts;
    const uint32_t neurons = m->pack->layers[layer].n;
    const struct hearth_gguf_tensor *c = hearth_pack_tensor(m->pack, (uint32_t)layer, "ffn_counts");
    const struct hearth_gguf_tensor *v = hearth_pack_tensor(m->pack, (uint32_t)layer, "ffn_visits");
    const float even = m->hp.n_expert ? (float)m->hp.n_expert_used / (float)m->hp.n_expert : 1.0f;
    struct hearth_budget_space *spaces = &n->spaces[(uint32_t)layer * experts];
    for (uint32_t e = 0; e < experts; e++)
        spaces[e].visit = even;
    if (!c || !v || !n->shares)
        return HEARTH_OK;
    // Of the first batch size, a single token.
    int rc = hearth_gguf_read(m->gguf, c, counts, 0, (size_t)neurons * experts * sizeof *counts, err);
    if (!rc)
        rc = hearth_gguf_read(m->gguf, v, visits, 0, experts * sizeof *visits, err);
    if (rc)
        return rc;
    int64_t total = 0;
    for (uint32_t e = 0; e < experts; e++)
        total += visits[e];
    for (uint32_t e = 0; e < experts; e++) {
        float *shares = n->shares + ((size_t)layer * experts + e) * n->n_neurons;
        const int32_t visited = visits[e] > 1 ? visits[e] : 1;
        for (uint32_t j = 0; j < neurons; j++) {
            const float share = (float)counts[(size_t)e * neurons + j] / (float)visited;
            shares[j] = share < 1.0f ? share : 1.0f;
        }
        spaces[e].share = shares;
        // An expert that the profile never saw is as good as none, but may come up.
        const float share = (float)visits[e] * (float)m->hp.n_expert_used / (float)(total > 0 ? total : 1);
        if (m->hp.n_expert)
            spaces[e].visit = share > 0.001f ? share < 1.0f ? share : 1.0f : 0.001f;
    }
    return HEARTH_OK;
}

static int describe_spaces(struct hearth_neurons *n, struct hearth_error *err)
{
    const struct hearth_model *m = n->setup.model;
    const uint32_t experts = n->experts;
    int32_t *counts = hearth_calloc((size_t)n->n_neurons * experts, sizeof *counts);
    int32_t *visits = hearth_calloc(experts, sizeof *visits);
    int rc = counts && visits ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a profile");
    for (int layer = 0; layer < m->hp.n_layer && !rc; layer++) {
        const struct hearth_bundle *b = &m->pack->layers[layer];
        for (uint32_t e = 0; e < experts; e++)
            n->spaces[(uint32_t)layer * experts + e] = (struct hearth_budget_space){
                .n_neurons = b->n,
                .bundle_bytes = (uint32_t)b->stride,
                .row_bytes = (uint32_t)(b->bytes[0] + b->bytes[1] + b->bytes[2]),
                .file_offset = b->tensor->offset + (uint64_t)e * b->n * b->stride};
        rc = read_profile(n, layer, counts, visits, err);
    }
    free(counts);
    free(visits);
    return rc;
}

static int need(void *state, struct hearth_source_need *out, struct hearth_error *err)
{
    struct hearth_neurons *n = state;
    struct hearth_budget_params *p = &out->params;
    const size_t tables = measure(n, lay_out_tables);
    if (tables == SIZE_MAX)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: %u neurons in %u spaces are too many",
                           n->setup.model->info.path, n->n_neurons, n->n_spaces);
    p->n_spaces = n->n_spaces;
    p->spaces = n->spaces;
    const uint32_t here = (uint32_t)n->setup.model->hp.n_layer - p->n_elsewhere;
    for (uint32_t i = 0; i < n->n_spaces; i++)
        n->spaces[i].elsewhere = i / n->experts >= here;
    p->align = hearth_store_align(n->store);
    p->slab_bytes = n->slab_bytes;
    p->lendable += hearth_region_bytes(2 * n->buffer_bytes);
    n->lendable = p->lendable;
    p->io += hearth_region_bytes(HEARTH_NEURON_GROUPS * n->group_bytes) +
             hearth_region_bytes(2 * n->buffer_bytes) + hearth_region_bytes(tables) +
             hearth_region_bytes(n->lists.size) +
             (n->shares ? (uint64_t)n->n_spaces * n->n_neurons * sizeof *n->shares : 0); // while opening
    // A request goes on as long as one cluster at a time fits.
    p->least_reserve = (uint32_t)hearth_largest_cluster(&n->setup.model->hp);
    out->resident = n->resident;
    out->quota = n->quota;
    out->quota_most = n->quota_most;
    return HEARTH_OK;
}

static int open_neurons(void **state, const struct hearth_source_setup *setup, struct hearth_error *err)
{
    const struct hearth_model *m = setup->model;
    struct hearth_neurons *n = *state = hearth_calloc(1, sizeof *n);
    if (!n)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of spaces");
    n->setup = *setup;
    n->n_neurons = m->pack->n_ff;
    n->bundles = m->pack->layers;
    n->experts = m->pack->n_expert;
    size_t stride = 0;
    for (int i = 0; i < m->hp.n_layer; i++)
        stride = m->pack->layers[i].stride > stride ? m->pack->layers[i].stride : stride;
    const size_t align = hearth_reader_align(setup->reader), unit = align > 4096 ? align : 4096;
    const struct hearth_weights_tests *tests = m->load.tests;
    const size_t chunk = tests && tests->piece_bytes ? tests->piece_bytes : CHUNK_BYTES;
    const size_t most = chunk / stride ? chunk / stride : 1;
    n->slab_bytes = tests ? tests->slab_bytes : 0;
    n->n_flights = tests && tests->flights ? tests->flights : HEARTH_NEURON_FLIGHTS;
    n->chunk_neurons = most < n->n_neurons ? (uint32_t)most : n->n_neurons;
    n->buffer_bytes = hearth_round_up(n->chunk_neurons * stride + 2 * align, unit);
    n->group_bytes = hearth_round_up(HEARTH_READ_GROUP * stride + align, unit);
    n->max_extents = n->buffer_bytes / HEARTH_READER_GAP + 2;
    n->n_spaces = (uint32_t)m->hp.n_layer * n->experts;
    int rc = open_region(n, &n->lists, lay_out_lists, "the list of spaces", err);
    if (rc)
        return rc;
    n->shares =
        m->pack->n_batches ? hearth_calloc((size_t)n->n_spaces * n->n_neurons, sizeof *n->shares) : NULL;
    if (m->pack->n_batches && !n->shares)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a profile");
    struct hearth_store_params p = *setup->store;
    p.depth = DEPTH;
    rc = hearth_store_open(&n->store, hearth_gguf_path(m->gguf), &p, err);
    n->gap = rc ? 0 : hearth_store_gap(n->store);
    if (!rc)
        rc = describe_spaces(n, err);
    return rc;
}

// ---- filling

// Points a layer's weights to its prefixes: those of expert 0, behind which the others lie when all neurons
// are resident; else nobody looks there.
static void point_layers(struct hearth_neurons *n)
{
    const struct hearth_model *m = n->setup.model;
    for (int i = 0; i < m->hp.n_layer; i++) {
        struct hearth_layer *l = &n->setup.weights->layers[i];
        const struct hearth_space *first = &n->prefixes[(uint32_t)i * n->experts];
        const bool exps = m->hp.n_expert != 0;
        if (!m->pack->gates_apart)
            *(exps ? &l->ffn_gate_exps : &l->ffn_gate) = first->gate;
        *(exps ? &l->ffn_up_exps : &l->ffn_up) = first->up;
        *(exps ? &l->ffn_down_t_exps : &l->ffn_down_t) = first->down_t;
    }
}

static int open_cache(struct hearth_neurons *n, const struct hearth_budget_plan *plan,
                      struct hearth_error *err)
{
    struct hearth_cache_space_params *spaces = hearth_calloc(n->n_spaces, sizeof *spaces);
    if (!spaces)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the neuron cache");
    for (uint32_t i = 0; i < n->n_spaces; i++)
        spaces[i] = (struct hearth_cache_space_params){.n_neurons = n->spaces[i].n_neurons,
                                                       .bundle_bytes = n->spaces[i].bundle_bytes,
                                                       .file_offset = n->spaces[i].file_offset,
                                                       .resident = n->resident[i],
                                                       .quota = n->quota[i]};
    int rc = hearth_cache_open(&n->cache,
                               &(struct hearth_cache_params){.n_spaces = n->n_spaces,
                                                             .spaces = spaces,
                                                             .align = hearth_store_align(n->store),
                                                             .reserve = plan->reserve,
                                                             .slab_bytes = n->slab_bytes,
                                                             .bytes = plan->region_bytes,
                                                             .growth = n->lendable},
                               err);
    free(spaces);
    for (uint32_t i = 0; i < n->n_spaces && n->shares && !rc; i++)
        hearth_cache_seed(n->cache, i, n->spaces[i].share);
    return rc;
}

// Copies what a range brought to where it is to stay.
static void keep(struct hearth_neurons *n, const struct hearth_cache_range *range, const uint8_t *bundles)
{
    const struct hearth_bundle *b = &n->bundles[range->space / n->experts];
    const struct hearth_space *space = &n->prefixes[range->space];
    if (range->first < space->resident) {
        const size_t left = space->resident - range->first, count = left < range->n ? left : range->n;
        uint8_t *to[HEARTH_PARTS] = {NULL};
        const struct hearth_weight *parts[HEARTH_PARTS] = {&space->gate, &space->up, &space->down_t};
        for (int part = 0; part < HEARTH_PARTS; part++)
            if (b->bytes[part])
                to[part] = (uint8_t *)(uintptr_t)hearth_space_row(parts[part], range->first);
        hearth_bundles_unpack(b, bundles, count, to);
    }
    for (uint32_t i = 0; i < range->n && n->cache; i++) {
        const uint32_t neuron = range->first + i;
        if (neuron < space->resident ||
            hearth_cache_state(n->cache, range->space, neuron) != HEARTH_CACHE_LOADING)
            continue;
        memcpy(hearth_cache_bundle(n->cache, range->space, neuron), bundles + i * b->stride, b->stride);
        hearth_cache_done(n->cache, &(struct hearth_cache_read){.space = range->space, .neuron = neuron},
                          true);
    }
}

// Without a cache, all neurons are resident: the same list made by hand.
static int list_all(struct hearth_neurons *n, struct hearth_cache_range **ranges, size_t *n_ranges,
                    struct hearth_error *err)
{
    const size_t each = (n->n_neurons + n->chunk_neurons - 1) / n->chunk_neurons;
    *ranges = hearth_calloc(n->n_spaces * each, sizeof **ranges);
    if (!*ranges)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to read the neurons");
    *n_ranges = 0;
    for (uint32_t i = 0; i < n->n_spaces; i++)
        for (uint32_t at = 0; at < n->spaces[i].n_neurons; at += n->chunk_neurons) {
            const uint32_t left = n->spaces[i].n_neurons - at,
                           count = left < n->chunk_neurons ? left : n->chunk_neurons;
            const uint64_t stride = n->spaces[i].bundle_bytes;
            (*ranges)[(*n_ranges)++] =
                (struct hearth_cache_range){.offset = n->spaces[i].file_offset + at * stride,
                                            .length = count * stride,
                                            .space = i,
                                            .first = at,
                                            .n = count};
        }
    return HEARTH_OK;
}

// What is to be read in the beginning.
static int list_ranges(struct hearth_neurons *n, struct hearth_cache_range **ranges, size_t *n_ranges,
                       struct hearth_error *err)
{
    if (!n->cache)
        return list_all(n, ranges, n_ranges, err);
    const float **shares = hearth_calloc(n->n_spaces, sizeof *shares);
    if (!shares)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to read the neurons");
    for (uint32_t i = 0; i < n->n_spaces; i++)
        shares[i] = n->spaces[i].share;
    const int rc = hearth_cache_warm_start(n->cache, shares, true,
                                           n->buffer_bytes - 2 * hearth_reader_align(n->setup.reader),
                                           HEARTH_READER_GAP, ranges, n_ranges, err);
    free(shares);
    return rc;
}

static int take_memory(struct hearth_neurons *n, const struct hearth_budget_plan *plan,
                       struct hearth_error *err)
{
    int rc = open_region(n, &n->tables, lay_out_tables, "steps by neuron", err);
    if (!rc)
        rc = open_region(n, &n->matrices, lay_out_prefixes, "neurons that stay in memory", err);
    if (!rc)
        rc = hearth_region_open(&n->buffers, 2 * n->buffer_bytes, "chunks of the feed-forward parts", err);
    if (!rc)
        rc = hearth_region_open(&n->staging, HEARTH_NEURON_GROUPS * n->group_bytes, "reading neurons", err);
    if (rc)
        return rc;
    point_layers(n);
    hearth_neuron_reads_begin(n);
    hearth_neuron_steps_begin(n);
    hearth_neuron_chunks_begin(n);
    return n->on ? open_cache(n, plan, err) : HEARTH_OK;
}

static int fill(void *state, const struct hearth_budget_plan *plan, struct hearth_error *err)
{
    struct hearth_neurons *n = state;
    n->on = n->prompted = !plan->all_resident;
    n->reserve = plan->reserve;
    n->region_bytes = plan->region_bytes;
    n->resident_neurons = plan->resident_neurons;
    struct hearth_cache_range *ranges = NULL;
    size_t n_ranges = 0;
    int rc = take_memory(n, plan, err);
    if (!rc)
        rc = list_ranges(n, &ranges, &n_ranges, err);
    if (!rc)
        rc = hearth_neuron_chunks_read(n, ranges, n_ranges, keep, err);
    free(ranges);
    free(n->shares); // the cache has its own now
    n->shares = NULL;
    for (uint32_t i = 0; i < n->n_spaces; i++)
        n->spaces[i].share = NULL;
    if (!rc && !n->on) { // else reads may still be under way
        hearth_region_close(&n->buffers);
        hearth_region_close(&n->staging);
        hearth_region_close(&n->tables);
    }
    size_t size = 0;
    void *region = n->cache ? hearth_cache_region(n->cache, &size) : NULL;
    if (!rc && region) { // what is lent cannot go back while it is registered
        hearth_store_register(n->store, n->staging.base, n->staging.size);
        hearth_store_register(n->store, region, (size_t)hearth_cache_bytes(n->cache));
    }
    return rc;
}

static void close_neurons(void **state)
{
    struct hearth_neurons *n = *state;
    if (n) {
        hearth_store_close(&n->store); // reads in flight end here
        hearth_cache_close(&n->cache);
        hearth_region_close(&n->matrices);
        hearth_region_close(&n->buffers);
        hearth_region_close(&n->staging);
        hearth_region_close(&n->tables);
        hearth_region_close(&n->lists);
        free(n->shares);
    }
    free(n);
    *state = NULL;
}

// ---- figures

static void reads(const void *state, struct hearth_store_stats *sum)
{
    const struct hearth_neurons *n = state;
    const struct hearth_store_stats s = hearth_store_stats(n->store);
    sum->reads += s.reads;
    sum->bytes += s.bytes;
    sum->wait_ns += s.wait_ns;
    sum->retries += s.retries;
}

static void stats(const void *state, struct hearth_streaming_stats *out)
{
    const struct hearth_neurons *n = state;
    for (uint32_t i = 0; i < n->n_spaces; i++) {
        out->neurons += n->spaces[i].n_neurons;
        out->neuron_bytes += (uint64_t)n->spaces[i].n_neurons * n->spaces[i].bundle_bytes;
    }
    out->neurons_resident = n->resident_neurons;
    out->resident_bytes = n->matrices.size;
    if (!n->cache)
        return;
    const struct hearth_cache_stats c = hearth_cache_stats(n->cache);
    for (uint32_t i = 0; i < n->n_spaces; i++)
        out->neurons_cached += hearth_cache_quota(n->cache, i);
    out->cache_bytes += hearth_cache_bytes(n->cache) + hearth_cache_table_bytes(n->cache);
    out->lent_bytes += n->lent;
    out->neuron_resident_hits = c.resident;
    out->neuron_hits = c.hits;
    out->neuron_late_hits = c.late_hits;
    out->neuron_misses = c.misses;
    out->steps_guessed_early = n->guessing.steps[HEARTH_GUESS_EARLY];
    out->steps_guessed_late = n->guessing.steps[HEARTH_GUESS_LATE];
    out->steps_not_guessed = n->guessing.steps[HEARTH_GUESS_NEVER];
}

static uint64_t memory(const void *state)
{
    const struct hearth_neurons *n = state;
    // Without what is lent, which changes while others ask.
    return n->matrices.size + n->buffers.size + n->staging.size + n->region_bytes +
           (n->cache ? hearth_cache_table_bytes(n->cache) : 0);
}

const struct hearth_source_ops hearth_neurons_source = {.name = "neurons",
                                                        .can = can,
                                                        .open = open_neurons,
                                                        .need = need,
                                                        .fill = fill,
                                                        .close = close_neurons,
                                                        .moves = moves,
                                                        .gives_neurons = true,
                                                        .request = request,
                                                        .next = next,
                                                        .more = more,
                                                        .locate = locate,
                                                        .space = space,
                                                        .scores = scores,
                                                        .settle = settle,
                                                        .takes_hints = takes_hints,
                                                        .absent = absent,
                                                        .hint = hint,
                                                        .lend = lend,
                                                        .reads = reads,
                                                        .stats = stats,
                                                        .memory = memory};
