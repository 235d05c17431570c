// SPDX-License-Identifier: MIT
// Neurons that stream: opening, planning, and the first filling of memory.
#include "engine/neurons.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/streaming_tests.h"
#include "model/ffn.h"
#include "sparse/cache.h"

// Bundles in flight: enough for the storage to be busy, whatever one token wants of a layer.
#define DEPTH 256
// A piece of a space, of which prompts hold two, and the warm start.
#define PIECE_BYTES ((size_t)16 << 20)

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
    n->prefixes = hearth_arena_take(a, n->n_spaces, sizeof *n->prefixes);
}

// What steps and prompts use.
static void lay_out_tables(struct hearth_neurons *n, struct hearth_arena *a)
{
    const size_t rows = HEARTH_SPARSE_ROWS;
    const size_t units = rows * hearth_cluster_count(n->n_neurons);
    for (int k = 0; k < 2; k++)
        n->extents[k] = hearth_arena_take(a, n->max_extents, sizeof *n->extents[k]);
    n->masks = hearth_arena_take(a, rows, n->n_neurons);
    n->ids = hearth_arena_take(a, rows * n->n_neurons, sizeof *n->ids);
    n->first_id = hearth_arena_take(a, units + 1, sizeof *n->first_id);
    n->pending = hearth_arena_take(a, units, sizeof *n->pending);
    n->ready = hearth_arena_take(a, units, sizeof *n->ready);
    n->units = hearth_arena_take(a, units, sizeof *n->units);
    n->unit_of_space = hearth_arena_take(a, n->n_spaces, sizeof *n->unit_of_space);
    n->flights = hearth_arena_take(a, n->n_flights, sizeof *n->flights);
    n->free_flights = hearth_arena_take(a, n->n_flights, sizeof *n->free_flights);
    n->queue = hearth_arena_take(a, n->n_flights, sizeof *n->queue);
    n->scores = hearth_arena_take(a, n->n_spaces, n->n_neurons * sizeof *n->scores);
}

// The prefixes' matrices, part by part and expert by expert: where all neurons of a layer are resident, they
// lie as the engine wants them of a model in memory.
static void lay_out_prefixes(struct hearth_neurons *n, struct hearth_arena *a)
{
    const struct hearth_model *m = n->model;
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
                    .data = base, .type = b->type[part], .k = e, .n = n->n_neurons, .stride = b->bytes[part]};
                space->n = n->n_neurons;
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

// ---- planning

bool hearth_neurons_can(const struct hearth_model *m, enum hearth_sparsity sparsity)
{
    if (!m->pack || sparsity != HEARTH_SPARSITY_PREDICT)
        return false;
    for (int i = 0; i < m->hp.n_layer; i++) {
        const struct hearth_ffn f = hearth_ffn_of(&m->hp, &m->weights.layers[i]);
        if (!hearth_has(f.fc2) || !hearth_has(f.down_t))
            return false;
    }
    return true;
}

// How often the layer's spaces are visited and its neurons active, where the pack says. Experts that no
// profile knows are used evenly.
static int read_profile(struct hearth_neurons *n, int layer, int32_t *counts, int32_t *visits,
                        struct hearth_error *err)
{
    const struct hearth_model *m = n->model;
    const uint32_t experts = n->experts;
    const struct hearth_gguf_tensor *c = hearth_pack_tensor(m->pack, (uint32_t)layer, "ffn_counts");
    const struct hearth_gguf_tensor *v = hearth_pack_tensor(m->pack, (uint32_t)layer, "ffn_visits");
    const float even = m->hp.n_expert ? (float)m->hp.n_expert_used / (float)m->hp.n_expert : 1.0f;
    struct hearth_budget_space *spaces = &n->spaces[(uint32_t)layer * experts];
    for (uint32_t e = 0; e < experts; e++)
        spaces[e].visit = even;
    if (!c || !v || !n->shares)
        return HEARTH_OK;
    // Of the first batch size, a single token.
    int rc = hearth_gguf_read(m->gguf, c, counts, 0, (size_t)n->n_neurons * experts * sizeof *counts, err);
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
        for (uint32_t j = 0; j < n->n_neurons; j++) {
            const float share = (float)counts[(size_t)e * n->n_neurons + j] / (float)visited;
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
    const struct hearth_model *m = n->model;
    const uint32_t experts = n->experts;
    int32_t *counts = hearth_calloc((size_t)n->n_neurons * experts, sizeof *counts);
    int32_t *visits = hearth_calloc(experts, sizeof *visits);
    int rc = counts && visits ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a profile");
    for (int layer = 0; layer < m->hp.n_layer && !rc; layer++) {
        const struct hearth_bundle *b = &m->pack->layers[layer];
        for (uint32_t e = 0; e < experts; e++)
            n->spaces[(uint32_t)layer * experts + e] = (struct hearth_budget_space){
                .n_neurons = n->n_neurons,
                .bundle_bytes = (uint32_t)b->stride,
                .row_bytes = (uint32_t)(b->bytes[0] + b->bytes[1] + b->bytes[2]),
                .file_offset = b->tensor->offset + (uint64_t)e * n->n_neurons * b->stride};
        rc = read_profile(n, layer, counts, visits, err);
    }
    free(counts);
    free(visits);
    return rc;
}

int hearth_neurons_plan(struct hearth_neurons *n, struct hearth_budget_params *p, uint64_t ram,
                        struct hearth_budget_plan *plan, struct hearth_error *err)
{
    if (n->n_spaces) {
        const size_t tables = measure(n, lay_out_tables);
        if (tables == SIZE_MAX)
            return hearth_fail(err, HEARTH_E_MEMORY, "%s: %u neurons in %u spaces are too many",
                               n->model->info.path, n->n_neurons, n->n_spaces);
        p->n_spaces = n->n_spaces;
        p->spaces = n->spaces;
        p->align = hearth_store_align(n->store);
        p->chunk_bytes = n->chunk_bytes;
        p->io += hearth_region_bytes(2 * n->piece_bytes) + hearth_region_bytes(tables) +
                 hearth_region_bytes(n->lists.size);
        // A pass goes on as long as one cluster at a time fits.
        p->least_reserve = (uint32_t)hearth_cluster_size(n->n_neurons);
    }
    int rc = hearth_budget_plan(p, ram, plan, n->resident, n->quota, err);
    n->on = !rc && n->n_spaces && !plan->all_resident;
    n->reserve = plan->reserve;
    return rc;
}

int hearth_neurons_open(struct hearth_neurons *n, const struct hearth_neurons_setup *setup,
                        struct hearth_error *err)
{
    const struct hearth_model *m = setup->model;
    *n = (struct hearth_neurons){
        .c = setup->c, .model = m, .runs = setup->runs, .weights = setup->weights, .reader = setup->reader};
    n->n_neurons = m->pack->n_ff;
    n->bundles = m->pack->layers;
    n->experts = m->pack->n_expert;
    size_t stride = 0;
    for (int i = 0; i < m->hp.n_layer; i++)
        stride = m->pack->layers[i].stride > stride ? m->pack->layers[i].stride : stride;
    const uint32_t align = hearth_reader_align(n->reader);
    const struct hearth_streaming_tests *tests = m->load.tests;
    const size_t piece = tests && tests->piece_bytes ? tests->piece_bytes : PIECE_BYTES;
    const size_t most = piece / stride ? piece / stride : 1;
    n->chunk_bytes = tests ? tests->chunk_bytes : 0;
    n->n_flights = tests && tests->flights ? tests->flights : HEARTH_NEURON_FLIGHTS;
    n->piece_neurons = most < n->n_neurons ? (uint32_t)most : n->n_neurons;
    n->piece_bytes = hearth_round_up(n->piece_neurons * stride + 2 * align, 4096);
    n->max_extents = n->piece_bytes / HEARTH_READER_GAP + 2;
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
    if (!rc)
        rc = describe_spaces(n, err);
    return rc;
}

// ---- filling

// Points a layer's weights to its prefixes: those of expert 0, behind which the others lie when all neurons
// are resident; else nobody looks there.
static void point_layers(struct hearth_neurons *n)
{
    const struct hearth_model *m = n->model;
    for (int i = 0; i < m->hp.n_layer; i++) {
        struct hearth_layer *l = &n->weights->layers[i];
        const struct hearth_space *first = &n->prefixes[(uint32_t)i * n->experts];
        const bool exps = m->hp.n_expert != 0;
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
        spaces[i] = (struct hearth_cache_space_params){.n_neurons = n->n_neurons,
                                                       .bundle_bytes = n->spaces[i].bundle_bytes,
                                                       .file_offset = n->spaces[i].file_offset,
                                                       .resident = n->resident[i],
                                                       .quota = n->quota[i]};
    int rc = hearth_cache_open(&n->cache,
                               &(struct hearth_cache_params){.n_spaces = n->n_spaces,
                                                             .spaces = spaces,
                                                             .align = hearth_store_align(n->store),
                                                             .reserve = plan->reserve,
                                                             .chunk_bytes = n->chunk_bytes,
                                                             .bytes = plan->region_bytes},
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
        hearth_bundles_take_apart(b, bundles, count, to);
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
    const size_t each = (n->n_neurons + n->piece_neurons - 1) / n->piece_neurons;
    *ranges = hearth_calloc(n->n_spaces * each, sizeof **ranges);
    if (!*ranges)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to read the neurons");
    *n_ranges = 0;
    for (uint32_t i = 0; i < n->n_spaces; i++)
        for (uint32_t at = 0; at < n->n_neurons; at += n->piece_neurons) {
            const uint32_t left = n->n_neurons - at,
                           count = left < n->piece_neurons ? left : n->piece_neurons;
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

static struct hearth_extent extent_of(const struct hearth_neurons *n, const struct hearth_cache_range *r,
                                      int buffer)
{
    return hearth_extent_of(0, r->offset, r->length, hearth_reader_align(n->reader),
                            (uint8_t *)n->pieces.base + (size_t)buffer * n->piece_bytes);
}

// Reads ranges one ahead of copying them.
static int read_ranges(struct hearth_neurons *n, const struct hearth_cache_range *ranges, size_t n_ranges,
                       struct hearth_error *err)
{
    const struct hearth_load_options *load = &n->model->load;
    int rc = HEARTH_OK;
    for (size_t i = 0; i <= n_ranges; i++) {
        if (i < n_ranges && !rc) {
            n->extents[i % 2][0] = extent_of(n, &ranges[i], (int)(i % 2));
            n->jobs[i % 2].extents = n->extents[i % 2];
            n->jobs[i % 2].n = 1;
            hearth_reader_start(n->reader, &n->jobs[i % 2]);
        }
        if (!i)
            continue;
        const size_t last = (i - 1) % 2;
        const int failed = hearth_reader_wait(n->reader, &n->jobs[last], rc ? NULL : err);
        rc = rc ? rc : failed;
        const struct hearth_extent *e = &n->extents[last][0];
        if (!rc)
            keep(n, &ranges[i - 1], (const uint8_t *)e->dst + (ranges[i - 1].offset - e->offset));
        if (!rc && load->progress && !load->progress(load->progress_arg, (float)i / (float)n_ranges))
            rc = hearth_fail(err, HEARTH_E_INTERRUPTED, "loading was interrupted");
    }
    return rc;
}

static void begin_steps(struct hearth_neurons *n)
{
    for (uint32_t i = 0; i < n->n_flights; i++)
        n->free_flights[i] = i;
    n->n_free = n->n_flights;
    for (uint32_t i = 0; i < n->n_spaces; i++)
        n->unit_of_space[i] = -1;
}

int hearth_neurons_fill(struct hearth_neurons *n, const struct hearth_budget_plan *plan,
                        struct hearth_error *err)
{
    if (!n->n_spaces)
        return HEARTH_OK;
    struct hearth_cache_range *ranges = NULL;
    size_t n_ranges = 0;
    int rc = open_region(n, &n->tables, lay_out_tables, "steps by neuron", err);
    if (!rc)
        rc = open_region(n, &n->matrices, lay_out_prefixes, "neurons that stay in memory", err);
    if (!rc)
        rc = hearth_region_open(&n->pieces, 2 * n->piece_bytes, "pieces of the feed-forward parts", err);
    if (!rc) {
        point_layers(n);
        begin_steps(n);
    }
    if (!rc && n->on)
        rc = open_cache(n, plan, err);
    const float **shares = hearth_calloc(n->n_spaces, sizeof *shares);
    for (uint32_t i = 0; shares && i < n->n_spaces; i++)
        shares[i] = n->spaces[i].share;
    if (!rc && !shares)
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory to read the neurons");
    if (!rc)
        rc = n->on ? hearth_cache_warm_start(n->cache, shares, true,
                                             n->piece_bytes - 2 * hearth_reader_align(n->reader),
                                             HEARTH_READER_GAP, &ranges, &n_ranges, err)
                   : list_all(n, &ranges, &n_ranges, err);
    if (!rc)
        rc = read_ranges(n, ranges, n_ranges, err);
    free(shares);
    free(ranges);
    free(n->shares); // the cache has its own now
    n->shares = NULL;
    for (uint32_t i = 0; i < n->n_spaces; i++)
        n->spaces[i].share = NULL;
    if (!n->on) {
        hearth_region_close(&n->pieces);
        hearth_region_close(&n->tables);
    }
    size_t size = 0;
    void *region = n->cache ? hearth_cache_region(n->cache, &size) : NULL;
    if (!rc && region)
        hearth_store_register(n->store, region, size);
    return rc;
}

void hearth_neurons_close(struct hearth_neurons *n)
{
    hearth_store_close(&n->store); // reads in flight end here
    hearth_cache_close(&n->cache);
    hearth_region_close(&n->matrices);
    hearth_region_close(&n->pieces);
    hearth_region_close(&n->tables);
    hearth_region_close(&n->lists);
    free(n->shares);
    *n = (struct hearth_neurons){0};
}
