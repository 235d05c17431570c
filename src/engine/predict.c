// SPDX-License-Identifier: MIT
// Several residual streams of which one is computed: see predict.h.
#include "engine/predict.h"

#include <math.h>
#include <string.h>

#include "engine/gates.h"
#include "model/ffn.h"

#define MOST_STREAMS 16
// Elements of all streams that are mixed together.
#define ELEMENTS 256
// The least mean of squares that a stream is divided by the root of.
#define LEAST 1e-5

struct job {
    struct hearth_predict_work *work;
    const struct hearth_layer *layer;
    struct hearth_rows rows;
    float *x;        // [T x G E]
    const float *in; // the same where it is only read
    float *h;        // [T x E]
    const int *from; // rows of `in`, where that is not the row of h; or NULL
    int stream;
};

static int count_of(const struct hearth_predict_work *w)
{
    return w->c->hp->streams.n;
}

static float *row_of(const struct hearth_predict_work *w, float *base, int row)
{
    return hearth_row_of(base, row, w->c->hp->n_embd);
}

// One stream of a row of x.
static float *stream_of(const struct hearth_predict_work *w, float *x, int row, int stream)
{
    return hearth_row_of(x, row * count_of(w) + stream, w->c->hp->n_embd);
}

static void norm_row(const struct hearth_predict_work *w, float *out, const float *x,
                     const struct hearth_weight *by)
{
    const struct hearth_hparams *hp = w->c->hp;
    w->c->kernels->rms_norm(out, x, hearth_vector_of(by), (size_t)hp->n_embd, hp->norm_eps);
}

static void scale(float *x, int n, float by)
{
    for (int i = 0; i < n; i++)
        x[i] *= by;
}

// The mean of squares; sums are of f64.
static double size_of(const float *x, int n)
{
    double sums[8] = {0};
    for (int i = 0; i < n; i++)
        sums[i % 8] += (double)x[i] * (double)x[i];
    return hearth_sum_eight(sums) / (double)n;
}

// What makes x as long as a row of that size.
static float length(double size, const float *x, int n)
{
    const double own = size_of(x, n);
    return (float)(sqrt(size) / sqrt(own > LEAST ? own : LEAST));
}

// ---- the first layer's input

static void begin_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const int row = j->rows.first + task, width = w->c->hp->n_embd;
    const double size = size_of(stream_of(w, j->x, row, 0), width);
    for (int g = 1; g < count_of(w); g++) {
        float *own = stream_of(w, j->x, row, g);
        scale(own, width, length(size, own, width));
    }
}

void hearth_predict_begin(struct hearth_predict_work *w, struct hearth_rows rows, const float *embds,
                          float *x)
{
    const size_t width = (size_t)w->c->hp->n_embd;
    struct job j = {.work = w, .rows = rows, .x = x};
    struct hearth_product product = {.w = w->c->weights->streams_in,
                                     .out = stream_of(w, x, rows.first, 1),
                                     .n = rows.n,
                                     .out_stride = (size_t)count_of(w) * width};
    hearth_matmul(w->matmul, rows.phase, &product, 1, embds + (size_t)rows.first * width, rows.n);
    hearth_parallel(w->c, begin_task, &j, rows.n);
}

// ---- around a layer

static void score_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const int row = j->rows.first + task;
    const float *x = j->x ? stream_of(w, j->x, row, w->c->hp->streams.active) : row_of(w, w->now, row);
    norm_row(w, row_of(w, w->normed, row), x, &j->layer->predict_norm);
}

// Scores of the active streams of x, or of `now` where x is NULL; not yet within -1 .. 1.
static void score(struct job *j)
{
    struct hearth_predict_work *w = j->work;
    struct hearth_product product = {.w = j->layer->predict_router,
                                     .out = hearth_row_of(w->scores, j->rows.first, count_of(w)),
                                     .n = j->rows.n};
    hearth_parallel(w->c, score_task, j, j->rows.n);
    hearth_matmul(w->matmul, j->rows.phase, &product, 1, row_of(w, w->normed, j->rows.first), j->rows.n);
}

// A row's scores within -1 .. 1, times n rows of weights, each plus `more`.
static void weigh(const struct hearth_predict_work *w, int row, const struct hearth_weight *by, int n,
                  float more, float *out)
{
    const int streams = count_of(w);
    const float *weights = hearth_vector_of(by);
    float *scores = hearth_row_of(w->scores, row, streams);
    hearth_soft_cap(w->c->kernels, scores, (size_t)streams, 1.0f / (float)w->c->hp->n_embd, 1.0f);
    for (int i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int k = 0; k < streams; k++)
            sum = fmaf(weights[i * streams + k], scores[k], sum);
        out[i] = sum + more;
    }
}

static void predict_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const int row = j->rows.first + task, n = count_of(w), width = w->c->hp->n_embd;
    float by[MOST_STREAMS * MOST_STREAMS], old[MOST_STREAMS][ELEMENTS];
    weigh(w, row, &j->layer->predict_by, n * n, 0.0f, by);
    for (int at = 0; at < width; at += ELEMENTS) { // streams are all read before one is written
        const size_t count = (size_t)(width - at < ELEMENTS ? width - at : ELEMENTS);
        for (int s = 0; s < n; s++)
            memcpy(old[s], stream_of(w, j->x, row, s) + at, count * sizeof *old[s]);
        for (int d = 0; d < n; d++)
            for (int s = 0; s < n; s++)
                w->c->kernels->scale_add(stream_of(w, j->x, row, d) + at, 1.0f, old[s], by[d * n + s], count);
    }
    norm_row(w, row_of(w, j->h, row), stream_of(w, j->x, row, w->c->hp->streams.active),
             &j->layer->attn_norm);
}

static void past_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    float *past = row_of(w, w->past, j->rows.first + task);
    norm_row(w, past, past, &j->layer->past_norm);
    w->c->kernels->add(past, row_of(w, j->h, j->rows.first + task), (size_t)w->c->hp->n_embd);
}

void hearth_predict(struct hearth_predict_work *w, struct hearth_rows rows, int layer, float *x, float *h)
{
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    struct job j = {.work = w, .layer = l, .rows = rows, .x = x, .h = h};
    float *low = hearth_row_of(w->low, rows.first, w->c->hp->streams.rank);
    struct hearth_product in = {.w = l->past_in, .out = low, .n = rows.n},
                          out = {.w = l->past_out, .out = row_of(w, w->past, rows.first), .n = rows.n};
    score(&j);
    hearth_parallel(w->c, predict_task, &j, rows.n);
    hearth_matmul(w->matmul, rows.phase, &in, 1, row_of(w, h, rows.first), rows.n);
    hearth_matmul(w->matmul, rows.phase, &out, 1, low, rows.n);
    hearth_parallel(w->c, past_task, &j, rows.n);
}

static void go_on_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const int row = j->rows.first + task, width = w->c->hp->n_embd;
    const float *active = j->in + (size_t)(row * count_of(w) + w->c->hp->streams.active) * (size_t)width;
    float *h = row_of(w, j->h, row), *now = row_of(w, w->now, row);
    norm_row(w, h, h, &j->layer->attn_post_norm);
    memcpy(now, active, (size_t)width * sizeof *now);
    w->c->kernels->add(now, h, (size_t)width);
    w->c->kernels->add(now, row_of(w, w->past, row), (size_t)width);
    scale(now, width, sqrtf(0.5f));
    norm_row(w, h, now, &j->layer->ffn_norm);
}

void hearth_predict_go_on(struct hearth_predict_work *w, struct hearth_rows rows, int layer, const float *x,
                          float *h)
{
    struct job j = {.work = w, .layer = &w->c->weights->layers[layer], .rows = rows, .in = x, .h = h};
    hearth_parallel(w->c, go_on_task, &j, rows.n);
}

static void now_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const int row = j->rows.first + task;
    float *h = row_of(w, j->h, row);
    norm_row(w, h, h, &j->layer->ffn_post_norm);
    w->c->kernels->add(row_of(w, w->now, row), h, (size_t)w->c->hp->n_embd);
}

static void correct_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const int row = j->rows.first + task, n = count_of(w), width = w->c->hp->n_embd;
    const float *scales = hearth_vector_of(&j->layer->correct_scale);
    float by[MOST_STREAMS], *now = row_of(w, w->now, row), *h = row_of(w, j->h, row),
                            *active = stream_of(w, j->x, row, w->c->hp->streams.active);
    weigh(w, row, &j->layer->correct_by, n, 1.0f, by);
    w->c->kernels->scale_add(now, 1.0f, active, -1.0f, (size_t)width);
    for (int s = 0; s < n; s++)
        w->c->kernels->scale_add(stream_of(w, j->x, row, s), 1.0f, now, by[s], (size_t)width);
    for (int i = 0; i < width; i++)
        h[i] = active[i] * scales[i];
}

void hearth_predict_correct(struct hearth_predict_work *w, struct hearth_rows rows, int layer, float *x,
                            float *h)
{
    struct job j = {.work = w, .layer = &w->c->weights->layers[layer], .rows = rows, .h = h};
    hearth_parallel(w->c, now_task, &j, rows.n);
    score(&j);
    j.x = x;
    hearth_parallel(w->c, correct_task, &j, rows.n);
}

static void take_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const int row = j->rows.first + task;
    float *given = row_of(w, j->h, row);
    norm_row(w, given, given, &j->layer->token_post_norm);
    for (int s = 1; s < count_of(w); s++)
        w->c->kernels->add(stream_of(w, j->x, row, s), given, (size_t)w->c->hp->n_embd);
}

void hearth_predict_take(struct hearth_predict_work *w, struct hearth_rows rows, int layer, float *given,
                         float *x)
{
    struct job j = {.work = w, .layer = &w->c->weights->layers[layer], .rows = rows, .x = x, .h = given};
    hearth_parallel(w->c, take_task, &j, rows.n);
}

// ---- before the head

static const float *end_of(const struct job *j, int row, int stream)
{
    const int n = count_of(j->work), width = j->work->c->hp->n_embd;
    return j->in + (size_t)((j->from ? j->from[row] : row) * n + stream) * (size_t)width;
}

static void gather_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const size_t bytes = (size_t)w->c->hp->n_embd * sizeof(float);
    memcpy(row_of(w, w->ends, task), end_of(j, task, j->stream), bytes);
    if (j->stream == 1)
        memcpy(row_of(w, j->h, task), end_of(j, task, 0), bytes);
}

static void add_end_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_predict_work *w = j->work;
    const int width = w->c->hp->n_embd;
    const float *made = row_of(w, w->made, task);
    float *h = row_of(w, j->h, task);
    w->c->kernels->scale_add(h, 1.0f, made, length(size_of(end_of(j, task, 0), width), made, width),
                             (size_t)width);
    if (j->stream < count_of(w) - 1)
        return;
    scale(h, width, 1.0f / (float)count_of(w));
    norm_row(w, h, h, &w->c->weights->output_norm);
}

void hearth_predict_end(struct hearth_predict_work *w, const int *wanted, int n, const float *x, float *h)
{
    const size_t width = (size_t)w->c->hp->n_embd;
    struct job j = {.work = w, .in = x, .h = h, .from = wanted};
    for (j.stream = 1; j.stream < count_of(w); j.stream++) {
        struct hearth_product product = {.w = w->c->weights->streams_out, .out = w->made, .n = n};
        const size_t before = (size_t)(j.stream - 1) * width;
        product.w.data = (const uint8_t *)product.w.data + before * product.w.stride;
        product.w.n = width;
        hearth_parallel(w->c, gather_task, &j, n);
        // Wanted rows of both classes are not apart.
        hearth_matmul(w->matmul, HEARTH_PHASE_STEP, &product, 1, w->ends, n);
        hearth_parallel(w->c, add_end_task, &j, n);
    }
}

// ---- opening

void hearth_predict_lay_out(struct hearth_predict_work *w, int max_rows, int max_steps,
                            struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const size_t t = hp->streams.predicts ? (size_t)max_rows : 0, steps = (size_t)max_steps,
                 f32 = sizeof(float), wide = (size_t)hp->n_embd * f32;
    w->now = hearth_arena_take_rows(a, t, steps, wide);
    w->normed = hearth_arena_take_rows(a, t, steps, wide);
    w->scores = hearth_arena_take_rows(a, t, steps, (size_t)hp->streams.n * f32);
    w->low = hearth_arena_take_rows(a, t, steps, (size_t)hp->streams.rank * f32);
    w->past = hearth_arena_take_rows(a, t, steps, wide);
    w->ends = w->normed; // after the layers
    w->made = w->past;
}
