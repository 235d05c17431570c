// SPDX-License-Identifier: MIT
// One layer: see sparsify_layer.h. A neuron gives a(gate) * up, a being SiLU or GELU. Where a(gate) is near a constant c
// of the neuron, it gives c * up, which is linear in the layer's input, and all those shares together are one matrix, down
// diag(c) up. What it gives beyond that matters only where a(gate) is well above c; from there on it is nearly a line of
// the gate.
#include "convert/sparsify_layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Rows of weights that one task takes.
#define ROWS 32
// c is of the samples for which a neuron is off, and which those are depends on c.
#define ROUNDS 6
// Samples of a neuron that say how high it has to be.
#define HEIGHTS ((size_t)64)
// A neuron that is on for fewer samples gets a line that most have.
#define FEW         20
#define USUAL_SLOPE 0.9
#define LEAST_SLOPE 0.2
#define MOST_SLOPE  1.5
#define LEAST_STEP  0.02 // of p

// Where an activation is lowest, and how low.
static const struct lowest {
    float at, is;
} lowest[HEARTH_ACTS_END] = {[HEARTH_ACT_SILU] = {-1.2784645f, -0.2784645f},
                             [HEARTH_ACT_GELU] = {-0.7517916f, -0.1699713f},
                             [HEARTH_ACT_GELU_TANH] = {-0.7524614f, -0.1700411f}};

bool hearth_sparsify_can(enum hearth_activation activation)
{
    return lowest[activation].at < 0;
}

// ---- gate and up of all samples

struct product {
    const struct hearth_sparsify_layer *l;
    const struct hearth_weight *w; // [F x E]
    float *out;                    // [F x S]
    size_t n;                      // samples
};

// Of a worker's own memory: rows of weights, decoded; then a neuron's activated gates.
static size_t row_floats(const struct hearth_sparsify_layer *l)
{
    return ROWS * (l->e > l->f ? l->e : l->f);
}

static size_t worker_floats(const struct hearth_sparsify_layer *l)
{
    return row_floats(l) + l->s;
}

static void *scratch_of(const struct hearth_sparsify_layer *l, float *floats)
{
    return (uint8_t *)floats + hearth_round_up(worker_floats(l) * sizeof(float), 64);
}

// The samples are the matrix, the rows of weights are what it is multiplied with: so a neuron's samples lie side by
// side.
static void product_task(void *arg, int task, int worker)
{
    const struct product *j = arg;
    const struct hearth_sparsify_layer *l = j->l;
    const size_t first = (size_t)task * ROWS, left = l->f - first, rows = left < ROWS ? left : ROWS;
    float *decoded = l->worker[worker];
    for (size_t r = 0; r < rows; r++)
        hearth_type_info(j->w->type)
            ->decode((const uint8_t *)j->w->data + (first + r) * j->w->stride, decoded + r * l->e, l->e);
    l->kernels->prompt[HEARTH_TYPE_F32](j->out + first * l->s, l->s, l->x, l->e * sizeof(float), l->e, j->n,
                                        decoded, l->e * sizeof(float), rows, scratch_of(l, decoded));
}

static void product(const struct hearth_sparsify_layer *l, const struct hearth_weight *w, float *out,
                    size_t n)
{
    struct product j = {l, w, out, n};
    hearth_pool_run(l->pool, product_task, &j, (int)((l->f + ROWS - 1) / ROWS));
}

// ---- which samples have a neuron on

struct round {
    const struct hearth_sparsify_layer *l;
    size_t n;
    bool first;   // all samples count as off
    float height; // above c; from there on a neuron is on
};

// The activated gates of a neuron's first n samples, in the worker's own memory.
static const float *activated_of(const struct hearth_sparsify_layer *l, size_t neuron, size_t n, int worker)
{
    float *z = (float *)l->worker[worker] + row_floats(l);
    memcpy(z, l->gate + neuron * l->s, n * sizeof *z);
    l->kernels->activate(z, n, l->activation);
    return z;
}

// How far an activated gate z is above c. Left of its lowest point it rises again, to 0: a neuron is never on there.
static float height_above(const struct hearth_sparsify_layer *l, float gate, float z, float c)
{
    const struct lowest *low = &lowest[l->activation];
    return (gate > low->at ? z : low->is) - c;
}

// c of a neuron, anew; samples count by the square of up, since that is what an error is multiplied with.
static void constant_task(void *arg, int task, int worker)
{
    const struct round *r = arg;
    const struct hearth_sparsify_layer *l = r->l;
    const size_t j = (size_t)task;
    const float *gate = l->gate + j * l->s, *up = l->up + j * l->s;
    const float *z = activated_of(l, j, r->n, worker);
    double sum = 0, weight = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (!r->first && height_above(l, gate[i], z[i], l->c[j]) > r->height)
            continue;
        const double w = (double)up[i] * (double)up[i];
        sum += w * (double)z[i];
        weight += w;
    }
    l->c[j] = weight != 0 ? (float)(sum / weight) : 0; // not a number: see hearth_sparsify_layer_fit()
    for (size_t i = 0; i < l->n_heights; i++) {
        const size_t at = i * r->n / l->n_heights;
        l->heights[j * l->n_heights + i] = height_above(l, gate[at], z[at], l->c[j]);
    }
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Above which that share of the heights lies; not less than where lines begin: a curve left of that is no line.
static float height_of(const struct hearth_sparsify_layer *l, double density)
{
    const size_t n = l->f * l->n_heights, at = (size_t)((1 - density) * (double)n);
    qsort(l->heights, n, sizeof *l->heights, by_size);
    const float height = l->heights[at < n ? at : n - 1];
    return height > LEAST_STEP ? height : (float)LEAST_STEP;
}

// ---- lines

// The gate right of the lowest point whose activation is z.
static double gate_of(const struct hearth_sparsify_layer *l, double z)
{
    double low = (double)lowest[l->activation].at, high = 1e4;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        float x = (float)middle;
        l->kernels->activate(&x, 1, l->activation);
        if ((double)x < z)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static double between(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

// A neuron's line, by least squares over the samples for which it is on.
static void line_task(void *arg, int task, int worker)
{
    const struct round *r = arg;
    const struct hearth_sparsify_layer *l = r->l;
    const size_t j = (size_t)task;
    const float *gate = l->gate + j * l->s, *up = l->up + j * l->s;
    const float *z = activated_of(l, j, r->n, worker);
    const double bias = -gate_of(l, (double)l->c[j] + (double)r->height);
    double n = 0, sum = 0, x_sum = 0, z_sum = 0, xx = 0, xz = 0;
    for (size_t i = 0; i < r->n; i++) {
        const double x = (double)gate[i] + bias, y = (double)z[i] - (double)l->c[j];
        const double w = (double)up[i] * (double)up[i];
        if (x <= 0)
            continue;
        n++;
        sum += w;
        x_sum += w * x;
        z_sum += w * y;
        xx += w * x * x;
        xz += w * x * y;
    }
    l->bias[j] = (float)bias;
    l->slope[j] = (float)USUAL_SLOPE;
    l->p[j] = r->height;
    if (n < FEW || !(sum > 0))
        return;
    const double x_mean = x_sum / sum, z_mean = z_sum / sum, x_square = xx / sum, product = xz / sum;
    double slope = (product - x_mean * z_mean + 1e-3 * USUAL_SLOPE) / (x_square - x_mean * x_mean + 1e-3);
    slope = between(slope, LEAST_SLOPE, MOST_SLOPE);
    double p = z_mean - slope * x_mean;
    if (p < LEAST_STEP) { // the best line through that
        p = LEAST_STEP;
        slope =
            between((product - p * x_mean + 1e-3 * USUAL_SLOPE) / (x_square + 1e-3), LEAST_SLOPE, MOST_SLOPE);
    }
    l->slope[j] = (float)slope;
    l->p[j] = (float)p;
}

// ---- what all neurons give when they are off

struct linear {
    const struct hearth_sparsify_layer *l;
    const struct hearth_weight *up, *down;
};

static void linear_task(void *arg, int task, int worker)
{
    const struct linear *j = arg;
    const struct hearth_sparsify_layer *l = j->l;
    const size_t first = (size_t)task * ROWS, left = l->e - first, rows = left < ROWS ? left : ROWS;
    float *p = l->worker[worker], *out = l->linear + first * l->e;
    memset(out, 0, rows * l->e * sizeof *out);
    for (size_t r = 0; r < rows; r++) {
        hearth_type_info(j->down->type)
            ->decode((const uint8_t *)j->down->data + (first + r) * j->down->stride, p + r * l->f, l->f);
        for (size_t i = 0; i < l->f; i++)
            p[r * l->f + i] *= l->c[i];
    }
    for (size_t at = 0; at < l->e; at += HEARTH_COLUMNS)
        l->kernels->prompt_t[j->up->type](out + at, l->e, j->up->data, j->up->stride, at,
                                          l->e - at < HEARTH_COLUMNS ? l->e - at : HEARTH_COLUMNS, l->f, p,
                                          l->f, rows, scratch_of(l, l->worker[worker]));
}

// ---- the whole

static bool are_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite = finite && isfinite(x[i]);
    return finite;
}

bool hearth_sparsify_layer_fit(struct hearth_sparsify_layer *l, const struct hearth_weight *gate,
                               const struct hearth_weight *up, const struct hearth_weight *down,
                               size_t n_samples, double density)
{
    struct round r = {.l = l, .n = n_samples, .first = true};
    struct linear linear = {l, up, down};
    l->n_heights = n_samples < HEIGHTS ? n_samples : HEIGHTS;
    product(l, gate, l->gate, n_samples);
    product(l, up, l->up, n_samples);
    for (int i = 0; i <= ROUNDS; i++) {
        hearth_pool_run(l->pool, constant_task, &r, (int)l->f);
        if (!are_finite(l->c, l->f) || !are_finite(l->heights, l->f * l->n_heights))
            return false;
        if (i < ROUNDS)
            r.height = height_of(l, density);
        r.first = false;
    }
    hearth_pool_run(l->pool, line_task, &r, (int)l->f);
    hearth_pool_run(l->pool, linear_task, &linear, (int)((l->e + ROWS - 1) / ROWS));
    return are_finite(l->linear, l->e * l->e);
}

void hearth_sparsify_layer_lay_out(struct hearth_sparsify_layer *l, struct hearth_arena *a)
{
    const size_t f32 = sizeof(float), workers = (size_t)hearth_pool_size(l->pool);
    l->x = hearth_arena_take(a, l->s, l->e * f32);
    l->gate = hearth_arena_take(a, l->f, l->s * f32);
    l->up = hearth_arena_take(a, l->f, l->s * f32);
    l->c = hearth_arena_take(a, l->f, f32);
    l->bias = hearth_arena_take(a, l->f, f32);
    l->slope = hearth_arena_take(a, l->f, f32);
    l->p = hearth_arena_take(a, l->f, f32);
    l->heights = hearth_arena_take(a, l->f, HEIGHTS * f32);
    l->linear = hearth_arena_take(a, l->e, l->e * f32);
    l->worker = hearth_arena_take(a, workers, sizeof *l->worker);
    for (size_t i = 0; i < workers; i++) {
        void *memory = hearth_arena_take(a,
                                         hearth_round_up(worker_floats(l) * f32, 64) +
                                             hearth_kernels_scratch(l->kernels, l->e > l->f ? l->e : l->f),
                                         1);
        if (l->worker)
            l->worker[i] = memory;
    }
}
