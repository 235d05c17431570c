// SPDX-License-Identifier: MIT
// Residual streams: see streams.h. The order of operations is part of the numeric law (docs/architecture.md).
#include "engine/streams.h"

#include <string.h>

#include "model/ffn.h"

struct job {
    struct hearth_streams_work *work;
    const struct hearth_mixer *mixer;
    struct hearth_rows rows;
    const float *x;
    const int *from;
    float *h;
};

static int count_of(const struct hearth_streams_work *w)
{
    return w->c->hp->streams.n;
}

static float *wide_row(const struct hearth_streams_work *w, float *base, int row)
{
    return hearth_row_of(base, row, hearth_stream_width(w->c->hp));
}

// A row's streams, normed, and their mean before that.
static void norm_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_streams_work *w = j->work;
    const struct hearth_hparams *hp = w->c->hp;
    const size_t width = (size_t)hp->n_embd, row = (size_t)(j->rows.first + task);
    const float *x = j->x + (j->from ? (size_t)j->from[row] : row) * (size_t)hearth_stream_width(hp),
                *by = hearth_vector_of(j->mixer->norm);
    float *normed = wide_row(w, w->normed, (int)row), *mean = hearth_row_of(w->mean, (int)row, hp->n_embd);
    memcpy(mean, x, width * sizeof *mean);
    for (size_t g = 0; g < (size_t)count_of(w); g++) {
        w->c->kernels->rms_norm(normed + g * width, x + g * width, by + g * width, width, hp->norm_eps);
        if (g)
            w->c->kernels->add(mean, x + g * width, width);
    }
}

static void low_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_streams_work *w = j->work;
    const int rank = w->c->hp->streams.rank;
    float *low = hearth_row_of(w->low, j->rows.first + task, rank);
    const float by = 1.0f / (float)count_of(w);
    for (int i = 0; i < rank; i++)
        low[i] *= by;
    w->c->kernels->activate(low, (size_t)rank, HEARTH_ACT_SILU);
}

// What a row's gates leave of its streams, in ascending order, times 1 / G; and the weights of what comes back.
static void mix_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_streams_work *w = j->work;
    const int row = j->rows.first + task, n = count_of(w), width = w->c->hp->n_embd;
    const float by = 1.0f / (float)n;
    float *normed = wide_row(w, w->normed, row), *gates = wide_row(w, w->gates, row),
          *h = hearth_row_of(j->h, row, width), *inject = hearth_row_of(w->inject, row, n);
    w->c->kernels->glu(normed, gates, normed, (size_t)hearth_stream_width(w->c->hp), HEARTH_ACT_SIGMOID);
    memcpy(h, normed, (size_t)width * sizeof *h);
    for (int g = 1; g < n; g++)
        w->c->kernels->add(h, hearth_row_of(normed, g, width), (size_t)width);
    for (int i = 0; i < width; i++)
        h[i] *= by;
    for (int g = 0; g < n && j->mixer->inject; g++)
        inject[g] = 2.0f / (1.0f + hearth_exp(-(inject[g] * by)));
}

void hearth_streams_mix(struct hearth_streams_work *w, struct hearth_rows rows,
                        const struct hearth_mixer *mixer, const float *x, const int *from, float *h)
{
    struct job j = {w, mixer, rows, x, from, h};
    float *low = hearth_row_of(w->low, rows.first, w->c->hp->streams.rank);
    struct hearth_product down[2] = {{.w = *mixer->down, .out = low, .n = rows.n}};
    struct hearth_product up = {.w = *mixer->up, .out = wide_row(w, w->gates, rows.first), .n = rows.n};
    if (mixer->inject)
        down[1] = (struct hearth_product){
            .w = *mixer->inject, .out = hearth_row_of(w->inject, rows.first, count_of(w)), .n = rows.n};
    hearth_parallel(w->c, norm_task, &j, rows.n);
    hearth_matmul(w->matmul, rows.phase, down, mixer->inject ? 2 : 1, wide_row(w, w->normed, rows.first),
                  rows.n);
    hearth_parallel(w->c, low_task, &j, rows.n);
    hearth_matmul(w->matmul, rows.phase, &up, 1, low, rows.n);
    hearth_parallel(w->c, mix_task, &j, rows.n);
}

void hearth_streams_add(const struct hearth_streams_work *w, int row, const float *out, float *x)
{
    const int width = w->c->hp->n_embd;
    const float *inject = hearth_row_of(w->inject, row, count_of(w));
    for (int g = 0; g < count_of(w); g++)
        w->c->kernels->scale_add(hearth_row_of(x, g, width), 1.0f, out, inject[g], (size_t)width);
}

void hearth_streams_begin(const struct hearth_hparams *hp, float *x)
{
    for (int g = 1; g < hp->streams.n; g++)
        memcpy(hearth_row_of(x, g, hp->n_embd), x, (size_t)hp->n_embd * sizeof *x);
}

void hearth_streams_lay_out(struct hearth_streams_work *w, int max_rows, int max_steps,
                            struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const size_t n = (size_t)hp->streams.n, t = n ? (size_t)max_rows : 0, steps = (size_t)max_steps,
                 f32 = sizeof(float), wide = (size_t)hearth_stream_width(hp) * f32;
    w->normed = hearth_arena_take_rows(a, t, steps, wide);
    w->low = hearth_arena_take_rows(a, t, steps, (size_t)hp->streams.rank * f32);
    w->gates = hearth_arena_take_rows(a, t, steps, wide);
    w->inject = hearth_arena_take_rows(a, t, steps, n * f32);
    w->mean = hearth_arena_take_rows(a, t, steps, (size_t)hp->n_embd * f32);
}
