// SPDX-License-Identifier: MIT
// Sessions whose weights need not fit into memory: the budget is planned, spent, and what it buys is read.
#include "engine/streaming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/os.h"
#include "base/threads.h"

// For what a program allocates beside the session: samplers, text, statistics; and the edges of regions.
#define SLACK ((uint64_t)6 << 20)
#define MIB   ((uint64_t)1 << 20)

// ---- hot path

bool hearth_streaming_begin(struct hearth_streaming *f, int i)
{
    struct hearth_error err = {0};
    if (!f)
        return false;
    struct hearth_fault *fault = f->setup.c->fault;
    if (f->runs.n && !hearth_fault_is_raised(fault) && hearth_runs_begin(&f->runs, i, f->setup.weights, &err))
        hearth_fault_raise(fault, &err);
    return hearth_fault_is_raised(fault);
}

void hearth_streaming_end(struct hearth_streaming *f, int i)
{
    if (f && f->runs.n)
        hearth_runs_end(&f->runs, i);
}

void hearth_streaming_embed(const struct hearth_streaming *f, int token, uint8_t *scratch, float *out)
{
    const struct hearth_weight *w = &f->setup.weights->token_embd;
    struct hearth_error err = {0};
    if (hearth_gguf_read(f->setup.model->gguf, f->embedding->tensor, scratch, (uint64_t)token * w->stride,
                         w->stride, &err))
        hearth_fault_raise(f->setup.c->fault, &err);
    else
        hearth_type_info(w->type)->decode(scratch, out, w->k);
}

// ---- sizes

// Whether the item is in memory whatever the budget: norms, biases, tables of positions.
static bool is_fixed(const struct hearth_model *m, const struct hearth_item *item)
{
    const struct hearth_weight *positions = &m->weights.position_embd;
    return item->vector || (hearth_has(positions) && item == hearth_item_of(m, positions));
}

static bool is_tied(const struct hearth_model *m)
{
    return m->weights.output.item == m->weights.token_embd.item;
}

static uint64_t fixed_bytes(const struct hearth_model *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n_items; i++)
        if (is_fixed(m, &m->items[i]))
            bytes += hearth_round_up(m->items[i].bytes, 64) + 64;
    return bytes;
}

// What the process holds already, apart from the session's regions, which are not written to yet.
static uint64_t process_bytes(const struct hearth_model *m)
{
    if (m->load.tests && m->load.tests->weights_only)
        return 0;
    return hearth_memory_private() / MIB * MIB + MIB + SLACK;
}

// ---- planning

// What planning and filling share; arrays are [n_layer].
struct opening {
    struct hearth_streaming *f;
    struct hearth_store_params store;
    struct hearth_throttle throttle;
    uint64_t *dense;
    struct hearth_target *targets; // [n_items] to be read in one pass
    size_t n_targets;
};

static double mib(uint64_t bytes)
{
    return (double)bytes / (double)MIB;
}

static uint64_t head_bytes(const struct hearth_runs *r)
{
    uint64_t bytes = 0;
    for (int i = r->n_layer; i < r->n; i++)
        bytes += r->runs[i].bytes;
    return bytes;
}

// What a session takes of which all weights are in memory.
static uint64_t bytes_of_all(const struct hearth_streaming_setup *s)
{
    return hearth_region_bytes(s->kv_bytes) + hearth_region_bytes(s->workspace_bytes) +
           process_bytes(s->model) + hearth_region_bytes(s->model->image_bytes);
}

// Names the smallest budget. What the process holds varies a little from one start to the next.
static int refuse(const struct hearth_streaming *streaming, struct hearth_error *err)
{
    const struct hearth_model *m = streaming->setup.model;
    const struct hearth_budget_floor *f = &streaming->plan.floor;
    const uint64_t all = bytes_of_all(&streaming->setup), least = f->bytes < all ? f->bytes : all;
    const uint64_t named = m->load.tests ? least : hearth_round_up(least, MIB) + MIB;
    char parts[200] = "all of its weights";
    if (least == f->bytes)
        snprintf(parts, sizeof parts,
                 "%.1f MiB for what is always in memory, %.1f for the KV cache (-c makes it smaller), %.1f "
                 "for two layers, %.1f for the %s of one token",
                 mib(f->always), mib(f->kv), mib(f->layer_buffers), mib(f->working_set),
                 streaming->experts.on ? "experts" : "neurons");
    return hearth_fail(err, HEARTH_E_BUDGET,
                       "--ram %llu is too small for %s: it needs at least %llu bytes (--ram %lluM): %s",
                       (unsigned long long)m->load.ram, m->info.path, (unsigned long long)named,
                       (unsigned long long)(named + MIB - 1) / MIB, parts);
}

static int make_plan(struct opening *o, struct hearth_error *err)
{
    struct hearth_streaming *f = o->f;
    const struct hearth_model *m = f->setup.model;
    const struct hearth_runs *r = &f->runs;
    const int n_layer = m->hp.n_layer;
    for (int i = 0; i < n_layer; i++)
        o->dense[i] = r->runs[r->order[i]].bytes;
    struct hearth_budget_params p = {.kv = hearth_region_bytes(f->setup.kv_bytes),
                                     .workspace = hearth_region_bytes(f->setup.workspace_bytes),
                                     .norms = fixed_bytes(m) + process_bytes(m),
                                     .embedding =
                                         is_tied(m) ? 0 : hearth_item_of(m, &m->weights.token_embd)->bytes,
                                     .head = head_bytes(r),
                                     .embedding_by_row = true,
                                     .head_by_part = true,
                                     .n_layers = (uint32_t)n_layer,
                                     .dense = o->dense,
                                     .batch = (uint32_t)f->setup.max_steps};
    hearth_expert_stream_plan(&f->experts, &p, r->order);
    const int rc = hearth_neurons_plan(&f->neurons, &p, m->load.ram, &f->plan, err);
    return rc == HEARTH_E_BUDGET ? refuse(f, err) : rc;
}

static void tell_plan(const struct opening *o)
{
    const struct hearth_budget_plan *p = &o->f->plan;
    hearth_log(
        HEARTH_LOG_DEBUG,
        "plan: %llu of %llu bytes; dense %llu in memory (%u layers%s), layer buffers %llu; resident "
        "neurons %llu (%llu bytes), cached %llu (%llu bytes, reserve %u); experts of a layer %u, of %u "
        "layers one more, %u common (%llu bytes)",
        (unsigned long long)p->bytes, (unsigned long long)o->f->setup.model->load.ram,
        (unsigned long long)p->dense_bytes, p->dense_layers, p->head_in_memory ? ", head" : "",
        (unsigned long long)p->layer_buffers, (unsigned long long)p->resident_neurons,
        (unsigned long long)p->resident_bytes, (unsigned long long)p->cold_neurons,
        (unsigned long long)p->region_bytes, p->reserve, p->layer_experts, p->more_experts, p->common_experts,
        (unsigned long long)p->expert_bytes);
}

// ---- filling

static void add_target(struct opening *o, const struct hearth_item *item, uint8_t *to)
{
    o->targets[o->n_targets++] = (struct hearth_target){.item = item, .to = to};
}

// Points those of n weights that the item holds to where it is.
static void point_weights(const struct hearth_model *m, struct hearth_weight *w, size_t n,
                          const struct hearth_target *target)
{
    for (size_t k = 0; k < n; k++)
        if (hearth_has(&w[k]) && hearth_item_of(m, &w[k]) == target->item)
            w[k].data = target->to + w[k].at;
}

static void point_item(const struct hearth_model *m, struct hearth_weights *w,
                       const struct hearth_target *target)
{
    const int layer = target->item->layer;
    if (layer < 0)
        point_weights(m, hearth_global_weights(w), HEARTH_GLOBAL_WEIGHTS, target);
    else
        point_weights(m, hearth_layer_weights(&w->layers[layer]), HEARTH_LAYER_WEIGHTS, target);
}

static uint8_t *take(struct hearth_region *region, size_t *used, size_t bytes, size_t align)
{
    *used = hearth_round_up(*used, align);
    uint8_t *p = (uint8_t *)region->base + *used;
    *used += bytes;
    return p;
}

// Which runs stay in memory.
static void choose_resident(struct hearth_streaming *f)
{
    struct hearth_runs *r = &f->runs;
    for (uint32_t i = 0; i < f->plan.dense_layers; i++)
        r->runs[r->order[i]].resident = true;
    for (int i = r->n_layer; i < r->n; i++)
        r->runs[i].resident = f->plan.head_in_memory;
}

static size_t resident_bytes(const struct hearth_streaming *f)
{
    size_t bytes = 0;
    for (int i = 0; i < f->runs.n; i++)
        if (f->runs.runs[i].resident)
            bytes += f->runs.runs[i].bytes;
    return bytes;
}

// A resident run is read as one that streams is: to the same places, by the same thread.
static int read_resident_runs(struct hearth_streaming *f, struct hearth_error *err)
{
    struct hearth_runs *r = &f->runs;
    const struct hearth_load_options *load = &f->setup.model->load;
    int rc = HEARTH_OK;
    for (int i = 0; i < r->n && !rc; i++) {
        struct hearth_run *run = &r->runs[i];
        if (!run->resident)
            continue;
        for (size_t k = 0; k < run->n_extents; k++)
            run->extents[k].dst = run->base + run->extent_at[k];
        struct hearth_reader_job job = {.extents = run->extents, .n = run->n_extents};
        hearth_reader_start(r->reader, &job);
        rc = hearth_reader_wait(r->reader, &job, err);
        hearth_run_point(r, i, f->setup.weights, run->base);
        if (!rc && load->progress && !load->progress(load->progress_arg, (float)(i + 1) / (float)r->n))
            rc = hearth_fail(err, HEARTH_E_INTERRUPTED, "loading was interrupted");
    }
    return rc;
}

static int fill(struct opening *o, struct hearth_error *err)
{
    struct hearth_streaming *f = o->f;
    const struct hearth_model *m = f->setup.model;
    struct hearth_weights *weights = f->setup.weights;
    struct hearth_runs *r = &f->runs;
    choose_resident(f);
    const struct hearth_item *embedding = hearth_item_of(m, &m->weights.token_embd);
    // A tied head serves for both, if it is in one piece.
    const bool head_is_embedding = is_tied(m) && f->plan.head_in_memory && r->n == r->n_layer + 1;
    const bool table = f->plan.embedding_in_memory && !is_tied(m);
    if (!table && !head_is_embedding)
        f->embedding = embedding;

    const size_t page = HEARTH_IMAGE_PAGE;
    const size_t bytes =
        resident_bytes(f) + (size_t)fixed_bytes(m) + (table ? embedding->bytes + 2 * page : 0) + page;
    int rc = hearth_region_open(&f->fixed, bytes, "the weights that stay in memory", err);
    if (!rc && f->plan.layer_buffers)
        rc = hearth_region_open(&f->buffers, (size_t)f->plan.layer_buffers, "the weights of two layers", err);
    if (rc)
        return rc;
    if (f->plan.layer_buffers) {
        r->buffers[0] = f->buffers.base;
        r->buffers[1] = r->buffers[0] + f->plan.layer_buffers / 2;
    }
    size_t used = 0;
    for (int i = 0; i < r->n; i++)
        if (r->runs[i].resident)
            r->runs[i].base = take(&f->fixed, &used, r->runs[i].bytes, page);
    if (table) {
        used = hearth_round_up(used, page) + embedding->tensor->offset % page;
        add_target(o, embedding, take(&f->fixed, &used, embedding->bytes, 1));
    }
    for (size_t i = 0; i < m->n_items; i++)
        if (is_fixed(m, &m->items[i]))
            add_target(o, &m->items[i], take(&f->fixed, &used, m->items[i].bytes, 64));
    for (size_t i = 0; i < o->n_targets; i++)
        point_item(m, weights, &o->targets[i]);
    rc = hearth_targets_read(m, o->targets, o->n_targets, err);
    if (!rc)
        rc = read_resident_runs(f, err);
    if (!rc && head_is_embedding)
        weights->token_embd.data = weights->output.data;
    return rc;
}

// ---- opening

static int read_store_params(const struct hearth_model *m, struct hearth_store_params *p,
                             struct hearth_throttle *throttle, struct hearth_error *err)
{
    static const char *const names[] = {"auto", "uring", "pread"};
    *p = (struct hearth_store_params){.faults = m->load.tests ? m->load.tests->faults : NULL};
    size_t i = 0;
    while (i < sizeof names / sizeof *names && strcmp(names[i], m->load.io))
        i++;
    if (i == sizeof names / sizeof *names)
        return hearth_fail(err, HEARTH_E_INVALID, "there is no io \"%s\": use auto, uring or pread",
                           m->load.io);
    p->io = (enum hearth_io)i;
    if (!*m->load.throttle)
        return HEARTH_OK;
    p->throttle = throttle;
    return hearth_throttle_parse(throttle, m->load.throttle, err);
}

static int open_reader(struct hearth_reader **out, const struct hearth_model *m,
                       const struct hearth_store_params *params, struct hearth_error *err)
{
    const uint32_t n = hearth_gguf_n_parts(m->gguf);
    const char **paths = hearth_calloc(n, sizeof *paths);
    if (!paths)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for reading");
    for (uint32_t i = 0; i < n; i++)
        paths[i] = hearth_file_path(hearth_gguf_file(m->gguf, i));
    const int rc = hearth_reader_open(out, paths, n, params, err);
    free(paths);
    return rc;
}

// Bundles that are part of a run stay bundles: the rows of a matrix are then as far apart as they.
static void use_bundles_as_matrices(const struct hearth_model *m, struct hearth_weights *weights)
{
    for (int i = 0; i < m->hp.n_layer; i++) {
        struct hearth_layer *l = &weights->layers[i];
        struct hearth_weight *const parts[] = {&l->ffn_gate,      &l->ffn_up,      &l->ffn_down_t,
                                               &l->ffn_gate_exps, &l->ffn_up_exps, &l->ffn_down_t_exps};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            if (hearth_has(parts[k]))
                parts[k]->stride = m->pack->layers[i].stride;
    }
}

static int open_streams(struct opening *o, struct hearth_error *err)
{
    struct hearth_streaming *f = o->f;
    const struct hearth_streaming_setup *s = &f->setup;
    const struct hearth_model *m = s->model;
    const bool neurons = hearth_neurons_can(m, s->sparsity),
               in_parts = neurons || hearth_expert_stream_can(m);
    if (m->pack && !in_parts)
        use_bundles_as_matrices(m, s->weights);
    struct hearth_reader *reader = NULL;
    int rc = open_reader(&reader, m, &o->store, err);
    if (!rc)
        rc = hearth_runs_open(&f->runs, m, !in_parts, hearth_reader_align(reader), err);
    f->runs.reader = reader;
    if (!rc && neurons)
        rc = hearth_neurons_open(&f->neurons,
                                 &(struct hearth_neurons_setup){.c = s->c,
                                                                .model = m,
                                                                .runs = &f->runs,
                                                                .weights = s->weights,
                                                                .reader = reader,
                                                                .store = &o->store},
                                 err);
    if (!rc)
        rc = hearth_expert_stream_open(&f->experts, s->c, m, &f->runs, reader, err);
    if (!rc)
        rc = make_plan(o, err);
    if (!rc)
        tell_plan(o);
    if (!rc)
        rc = fill(o, err);
    if (!rc)
        rc = hearth_neurons_fill(&f->neurons, &f->plan, err);
    if (!rc)
        rc = hearth_expert_stream_fill(&f->experts, &f->plan, f->runs.order, err);
    if (!rc) { // what was read so far is not a prompt's
        hearth_streaming_counted(f, HEARTH_PHASE_PROMPT);
        f->phases[HEARTH_PHASE_PROMPT] = (struct hearth_streaming_count){0};
    }
    return rc;
}

// Whether all weights fit, so that nothing is to be planned.
static bool fits(const struct hearth_streaming_setup *s)
{
    const struct hearth_model *m = s->model;
    if (m->load.tests && m->load.tests->always)
        return false;
    return m->load.ram >= bytes_of_all(s);
}

int hearth_streaming_open(struct hearth_streaming **out, const struct hearth_streaming_setup *setup,
                          struct hearth_error *err)
{
    const struct hearth_model *m = setup->model;
    const size_t n_layer = (size_t)m->hp.n_layer;
    *out = NULL;
    if (!m->load.ram)
        return HEARTH_OK;
    struct hearth_streaming *f = hearth_calloc(1, sizeof *f);
    struct hearth_layer *layers = hearth_calloc(n_layer, sizeof *layers);
    struct opening o = {.f = f};
    o.dense = hearth_calloc(n_layer, sizeof *o.dense);
    o.targets = hearth_calloc(m->n_items, sizeof *o.targets);
    int rc = HEARTH_OK;
    if (!f || !layers || !o.dense || !o.targets) {
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for %zu layers", n_layer);
        free(f);
        free(layers);
    } else {
        memcpy(layers, m->weights.layers, n_layer * sizeof *layers);
        setup->weights->layers = layers;
        f->setup = *setup;
        f->layers = layers;
        *out = f;
        rc = read_store_params(m, &o.store, &o.throttle, err);
    }
    if (!rc)
        rc = fits(setup) ? hearth_image_load(m, &f->image, setup->weights, err) : open_streams(&o, err);
    free(o.dense);
    free(o.targets);
    return rc;
}

void hearth_streaming_close(struct hearth_streaming **streaming)
{
    struct hearth_streaming *f = *streaming;
    if (!f)
        return;
    hearth_runs_close(&f->runs); // reads in flight end here: memory goes afterwards
    hearth_neurons_close(&f->neurons);
    hearth_expert_stream_close(&f->experts);
    hearth_region_close(&f->image);
    hearth_region_close(&f->fixed);
    hearth_region_close(&f->buffers);
    free(f->layers);
    free(f);
    *streaming = NULL;
}
