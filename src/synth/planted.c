// SPDX-License-Identifier: MIT
// The tensors of a synthetic model that consist of planted spaces: as matrices, or as a pack's bundles.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/pack.h"
#include "synth/insides.h"

struct hearth_synth_planted {
    struct hearth_synth *s;
    struct hearth_synth_maker *maker;
    // By fill, or NULL: the matrices of a layer's spaces, one after the other. In a pack, gates
    // and ups are those of the current expert only.
    uint8_t *parts[HEARTH_SYNTH_FILLS];
    uint32_t layer; // the layer of the parts
};

static uint32_t n_spaces(const struct hearth_synth *s)
{
    return s->p->n_expert ? s->p->n_expert : 1;
}

static size_t matrix_bytes(const struct hearth_synth *s)
{
    return hearth_type_bytes(HEARTH_TYPE_Q4_0, s->p->n_embd) * s->p->n_ff;
}

static void make_space(struct hearth_synth_planted *p, uint32_t layer, uint32_t expert)
{
    const struct hearth_synth *s = p->s;
    const size_t rank = hearth_synth_rank(s->p, layer), x = s->p->pack ? 0 : expert;
    const size_t fc1 = hearth_type_bytes(HEARTH_TYPE_Q4_0, s->p->n_embd) * rank;
    const size_t fc2 = hearth_type_bytes(HEARTH_TYPE_Q4_0, rank) * s->p->n_ff;
    uint8_t *up = p->parts[HEARTH_SYNTH_PLANTED_UP], *down = p->parts[HEARTH_SYNTH_PLANTED_DOWN];
    const struct hearth_synth_space space = {.gate =
                                                 p->parts[HEARTH_SYNTH_PLANTED_GATE] + x * matrix_bytes(s),
                                             .up = up ? up + x * matrix_bytes(s) : NULL,
                                             .bias = (float *)(void *)p->parts[HEARTH_SYNTH_PLANTED_BIAS],
                                             .fc1 = p->parts[HEARTH_SYNTH_PLANTED_FC1] + expert * fc1,
                                             .fc2 = p->parts[HEARTH_SYNTH_PLANTED_FC2] + expert * fc2,
                                             .down = down ? down + x * matrix_bytes(s) : NULL};
    hearth_synth_make_space(p->maker, layer, expert, s->p->pack, &space);
    p->layer = layer;
}

// ---- bundles

enum { ROWS = 64 }; // rows that one task makes

struct bundle_job {
    const struct hearth_synth_planted *p;
    uint64_t stream;
    uint64_t task;     // number of the first task, counted over the tensor
    uint32_t first, n; // neurons of the current expert
};

static void make_bundles(void *arg, int task, int worker)
{
    (void)worker;
    const struct bundle_job *w = arg;
    const struct hearth_synth *s = w->p->s;
    const struct hearth_bundle *b = &s->bundle;
    const uint32_t at = (uint32_t)task * ROWS, left = w->n - at, n = left < ROWS ? left : ROWS;
    const uint8_t *gate = w->p->parts[HEARTH_SYNTH_PLANTED_GATE], *up = w->p->parts[HEARTH_SYNTH_PLANTED_UP];
    const uint8_t *down = w->p->parts[HEARTH_SYNTH_PLANTED_DOWN];
    struct hearth_synth_rng rng = hearth_synth_rng(s->params->seed, w->stream, w->task + (uint64_t)task);
    for (uint32_t i = at; i < at + n; i++) {
        uint8_t *bundle = s->buffer + i * b->stride;
        const size_t row = b->bytes[HEARTH_PART_UP], from = (w->first + i) * row;
        memset(bundle, 0, b->stride);
        memcpy(bundle + b->at[HEARTH_PART_GATE], gate + from, row);
        memcpy(bundle + b->at[HEARTH_PART_UP], up + from, row);
        if (down)
            memcpy(bundle + b->at[HEARTH_PART_DOWN], down + from, row);
        else
            hearth_synth_q4_0(&rng, bundle + b->at[HEARTH_PART_DOWN], s->p->n_embd / 32, s->down_stddev);
    }
}

static int write_bundles(struct hearth_synth_planted *p, const struct hearth_synth_tensor *t, uint64_t stream)
{
    struct hearth_synth *s = p->s;
    const uint32_t f = s->p->n_ff, most = (uint32_t)(HEARTH_SYNTH_BUFFER / s->bundle.stride) / ROWS * ROWS;
    struct bundle_job w = {.p = p, .stream = stream};
    int rc = HEARTH_OK;
    for (uint32_t x = 0; x < n_spaces(s) && !rc; x++) {
        make_space(p, t->layer, x);
        for (w.first = 0; w.first < f && !rc; w.first += w.n) {
            w.n = f - w.first < most ? f - w.first : most;
            const uint32_t n_tasks = (w.n + ROWS - 1) / ROWS;
            hearth_pool_run(s->pool, make_bundles, &w, (int)n_tasks);
            w.task += n_tasks;
            rc = hearth_synth_write(s, s->buffer, w.n * s->bundle.stride);
        }
    }
    return rc;
}

int hearth_synth_put_pack_keys(struct hearth_synth *s)
{
    const uint32_t n_layer = s->p->n_layer, n = n_layer * n_spaces(s);
    struct hearth_bundle *layers = hearth_calloc(n_layer, sizeof *layers);
    uint32_t *always = hearth_calloc(n, sizeof *always), hot = 0;
    int rc = layers && always ? HEARTH_OK : hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    // Neurons that are active for half of the tokens need no predictor.
    while (hot < s->p->n_ff && s->threshold[hot] >= 0)
        hot++;
    for (uint32_t i = 0; i < n && !rc; i++)
        always[i] = hot;
    for (uint32_t i = 0; i < n_layer && !rc; i++)
        layers[i] = s->bundle;
    const struct hearth_pack_facts facts = {.n_layer = n_layer,
                                            .n_expert = n_spaces(s),
                                            .layers = layers,
                                            .always = always,
                                            .predictor_input =
                                                s->params->early_predictors ? "previous" : "normed"};
    if (!rc)
        rc = hearth_pack_put_keys(s->w, &facts, s->err);
    free(layers);
    free(always);
    return rc;
}

// ---- any of these tensors

int hearth_synth_planted_open(struct hearth_synth_planted **out, struct hearth_synth *s,
                              const struct hearth_synth_tensor *tensors, size_t n)
{
    uint64_t bytes[HEARTH_SYNTH_FILLS] = {0};
    struct hearth_synth_planted *p = *out = hearth_calloc(1, sizeof *p);
    if (!p)
        return hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    p->s = s;
    p->layer = s->p->n_layer;
    for (size_t i = 0; i < n; i++) {
        const enum hearth_synth_fill fill = tensors[i].fill;
        if (fill == HEARTH_SYNTH_BUNDLES)
            bytes[HEARTH_SYNTH_PLANTED_GATE] = bytes[HEARTH_SYNTH_PLANTED_UP] =
                bytes[HEARTH_SYNTH_PLANTED_DOWN] = matrix_bytes(s);
        else if (fill >= HEARTH_SYNTH_PLANTED_GATE && hearth_synth_bytes(&tensors[i]) > bytes[fill])
            bytes[fill] = hearth_synth_bytes(&tensors[i]);
    }
    if (!s->params->drift)
        bytes[HEARTH_SYNTH_PLANTED_DOWN] = 0;
    int rc = hearth_synth_maker_open(&p->maker, s);
    for (int i = 0; i < HEARTH_SYNTH_FILLS && !rc; i++)
        if (bytes[i] && !(p->parts[i] = malloc((size_t)bytes[i])))
            rc = hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a layer's matrices");
    return rc;
}

void hearth_synth_planted_close(struct hearth_synth_planted **p)
{
    if (!*p)
        return;
    hearth_synth_maker_close(&(*p)->maker);
    for (int i = 0; i < HEARTH_SYNTH_FILLS; i++)
        free((*p)->parts[i]);
    free(*p);
    *p = NULL;
}

int hearth_synth_planted_write(struct hearth_synth_planted *p, const struct hearth_synth_tensor *t,
                               uint64_t stream)
{
    if (t->fill == HEARTH_SYNTH_BUNDLES)
        return write_bundles(p, t, stream);
    if (p->layer != t->layer)
        for (uint32_t x = 0; x < n_spaces(p->s); x++)
            make_space(p, t->layer, x);
    return hearth_synth_write(p->s, p->parts[t->fill], (size_t)hearth_synth_bytes(t));
}
