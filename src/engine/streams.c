// SPDX-License-Identifier: MIT
// Residual streams: see streams.h. The order of operations is part of the numeric law (docs/architecture.md).
#include "engine/streams.h"

#include <math.h>
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

// ---- all streams weigh

#define MOST_STREAMS 16
// Elements of all streams that are mixed together.
#define ELEMENTS 256

static int mixes_of(const struct hearth_streams_work *w)
{
    return (2 + (w->c->hp->streams.rounds ? count_of(w) : 0)) * count_of(w);
}

static void norm_all_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_streams_work *w = j->work;
    const int row = j->rows.first + task, width = hearth_stream_width(w->c->hp);
    const float *x = j->x + (size_t)(j->from ? j->from[row] : row) * (size_t)width;
    w->c->kernels->rms_norm(wide_row(w, w->normed, row), x, w->ones, (size_t)width, w->c->hp->norm_eps);
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + hearth_exp(-x));
}

// What streams give one another, m [n x n]: the softmax of each row, balanced.
static void balance(float *m, int n, int rounds, float eps)
{
    for (int s = 0; s < n; s++) {
        float *row = m + (size_t)s * (size_t)n, most = row[0], sum = 0;
        for (int d = 1; d < n; d++)
            most = row[d] > most ? row[d] : most;
        for (int d = 0; d < n; d++) {
            row[d] = hearth_exp(row[d] - most);
            sum += row[d];
        }
        for (int d = 0; d < n; d++)
            row[d] = row[d] / sum + eps;
    }
    for (int k = 0; k < 2 * rounds - 1; k++) { // columns and rows by turns
        const int along = k % 2 ? 1 : n, across = k % 2 ? n : 1;
        for (int i = 0; i < n; i++) {
            float *line = m + (size_t)i * (size_t)across, sum = 0;
            for (int e = 0; e < n; e++)
                sum += line[e * along];
            for (int e = 0; e < n; e++)
                line[e * along] /= sum + eps;
        }
    }
}

// A row's weights, and what is read of its streams.
static void read_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_streams_work *w = j->work;
    const struct hearth_hparams *hp = w->c->hp;
    const int row = j->rows.first + task, n = count_of(w), width = hp->n_embd;
    const float *base = hearth_vector_of(j->mixer->base), *scale = hearth_vector_of(j->mixer->scale),
                *x = j->x + (size_t)(j->from ? j->from[row] : row) * (size_t)hearth_stream_width(hp);
    float *mixes = hearth_row_of(w->mixes, row, j->mixer->last ? n : mixes_of(w)),
          *mean = hearth_row_of(w->mean, row, width);
    for (int i = 0; i < (j->mixer->last ? n : mixes_of(w)); i++)
        mixes[i] = fmaf(mixes[i], scale[i / n < 2 ? i / n : 2], base[i]);
    memset(mean, 0, (size_t)width * sizeof *mean);
    for (int g = 0; g < n; g++)
        w->c->kernels->scale_add(mean, 1.0f, x + (size_t)g * (size_t)width,
                                 sigmoid(mixes[g]) + hp->streams.eps, (size_t)width);
    w->c->kernels->rms_norm(hearth_row_of(j->h, row, width), mean, hearth_vector_of(j->mixer->norm),
                            (size_t)width, hp->norm_eps);
    if (j->mixer->last)
        return;
    for (int g = n; g < 2 * n; g++)
        mixes[g] = hp->streams.back * sigmoid(mixes[g]) + hp->streams.back_eps;
    if (hp->streams.rounds)
        balance(mixes + 2 * n, n, hp->streams.rounds, hp->streams.eps);
}

static void mix_joint(struct hearth_streams_work *w, struct job *j)
{
    const struct hearth_rows rows = j->rows;
    struct hearth_product fn = {
        .w = *j->mixer->fn,
        .out = hearth_row_of(w->mixes, rows.first, j->mixer->last ? count_of(w) : mixes_of(w)),
        .n = rows.n};
    hearth_parallel(w->c, norm_all_task, j, rows.n);
    hearth_matmul(w->matmul, rows.phase, &fn, 1, wide_row(w, w->normed, rows.first), rows.n);
    hearth_parallel(w->c, read_task, j, rows.n);
}

// Some elements at a time, whose streams are all read before one is written.
static void add_balanced(const struct hearth_streams_work *w, int row, const float *out, float *x)
{
    const struct hearth_kernels *kernels = w->c->kernels;
    const int n = count_of(w), width = w->c->hp->n_embd;
    const float *back = hearth_row_of(w->mixes, row, mixes_of(w)) + n, *give = back + n;
    float old[MOST_STREAMS][ELEMENTS];
    for (int at = 0; at < width; at += ELEMENTS) {
        const size_t count = (size_t)(width - at < ELEMENTS ? width - at : ELEMENTS),
                     bytes = count * sizeof *x;
        for (int s = 0; s < n; s++)
            memcpy(old[s], hearth_row_of(x, s, width) + at, bytes);
        for (int d = 0; d < n; d++) {
            float *to = hearth_row_of(x, d, width) + at;
            memset(to, 0, bytes);
            kernels->scale_add(to, 1.0f, out + at, back[d], count);
            for (int s = 0; s < n; s++)
                kernels->scale_add(to, 1.0f, old[s], give[s * n + d], count);
        }
    }
}

void hearth_streams_mix(struct hearth_streams_work *w, struct hearth_rows rows,
                        const struct hearth_mixer *mixer, const float *x, const int *from, float *h)
{
    struct job j = {w, mixer, rows, x, from, h};
    if (w->c->hp->streams.joint) {
        mix_joint(w, &j);
        return;
    }
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
    const float *inject = w->c->hp->streams.joint ? hearth_row_of(w->mixes, row, mixes_of(w)) + count_of(w)
                                                  : hearth_row_of(w->inject, row, count_of(w));
    if (w->c->hp->streams.rounds) {
        add_balanced(w, row, out, x);
        return;
    }
    for (int g = 0; g < count_of(w); g++)
        w->c->kernels->scale_add(hearth_row_of(x, g, width), 1.0f, out, inject[g], (size_t)width);
}

void hearth_streams_init(struct hearth_streams_work *w)
{
    for (int i = 0; w->c->hp->streams.joint && i < hearth_stream_width(w->c->hp); i++)
        w->ones[i] = 1.0f;
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
    const size_t n = hp->streams.predicts ? 0 : (size_t)hp->streams.n, t = n ? (size_t)max_rows : 0,
                 steps = (size_t)max_steps, f32 = sizeof(float), wide = (size_t)hearth_stream_width(hp) * f32;
    w->normed = hearth_arena_take_rows(a, t, steps, wide);
    const bool joint = hp->streams.joint;
    const size_t few = joint ? 0 : t, mixes = joint ? t : 0;
    w->low = hearth_arena_take_rows(a, few, steps, (size_t)hp->streams.rank * f32);
    w->gates = hearth_arena_take_rows(a, few, steps, wide);
    w->inject = hearth_arena_take_rows(a, few, steps, n * f32);
    w->mixes = hearth_arena_take_rows(a, mixes, steps, (2 + n) * n * f32);
    w->ones = hearth_arena_take(a, joint ? 1 : 0, wide);
    w->mean = hearth_arena_take_rows(a, t, steps, (size_t)hp->n_embd * f32);
}
