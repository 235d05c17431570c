// SPDX-License-Identifier: MIT
// Fitting a predictor: see predictor.h. A rank is trained, at last as what rounding makes of it, and tried on samples
// that it was not trained on: the threshold is the highest that finds enough of them. Then the next rank, while
// the bytes for a token become fewer.
#include "convert/predictor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/temp_name.h"

#define RATE   3e-3
#define WARMUP 50
// The narrowest rank, and the step from one to the next.
#define LEAST_RANK 32
// The last part of the steps is trained as rounded.
#define ROUNDED 0.1
// The price of a neuron (net.h): of the usual magnitude, to begin with; how fast it follows what is found; from
// which step, as what networks find before says nothing.
#define FIRST_PRICE (1.0 / 16)
#define PACE        1.4
#define MOST_MISSED 0.02
#define LEAST_PRICE 1e-3 // of the first one: where all is to be found, none is low enough
#define SETTLED     100
#define BINS        4096
#define BIN_SIZE    256.0f // bins for 1 of an output
// Of predictors that name all: outputs are far above the threshold.
#define LOUD 1024.0f
// A larger predictor has to save so much.
#define GAIN 0.99

bool hearth_predictor_can(size_t e)
{
    return e % hearth_type_info(HEARTH_PREDICTOR_TYPE)->block_elems == 0;
}

bool hearth_predictor_is_name(const char *name)
{
    static const char *const ends[] = {".fc1.weight", ".fc2.weight", ".fc1_exps.weight", ".fc2_exps.weight"};
    bool is = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        is |= hearth_name_ends_with(name, strlen(name), ends[i]);
    return is;
}

size_t hearth_predictor_matrix_bytes(struct hearth_predictor_shape shape, int matrix, size_t e, size_t f)
{
    return (size_t)hearth_type_bytes(hearth_predictor_type(shape, matrix),
                                     hearth_predictor_k(shape, matrix, e)) *
           hearth_predictor_n(shape, matrix, f);
}

size_t hearth_predictor_bytes(struct hearth_predictor_shape shape, size_t e, size_t f)
{
    return hearth_predictor_matrix_bytes(shape, 1, e, f) + hearth_predictor_matrix_bytes(shape, 2, e, f);
}

size_t hearth_predictor_most_bytes(const struct hearth_predictor_shape *shapes, int n, size_t e, size_t f)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        const size_t bytes = hearth_predictor_bytes(shapes[i], e, f);
        most = bytes > most ? bytes : most;
    }
    return most;
}

// The largest rank that bytes allow: of those that are `least` and some times `step` more. 0: none.
static size_t largest_rank(size_t e, size_t f, double most, bool wide, size_t least, size_t step)
{
    size_t rank = 0;
    for (size_t next = least;
         (double)hearth_predictor_bytes((struct hearth_predictor_shape){next, wide}, e, f) <= most;
         next += step)
        rank = next;
    return rank;
}

// Narrow ones have ranks from an eighth of the largest on, each twice the one before. Wide ones have as many inner units as
// make a row whole blocks; or, where there is room, as many as there may be.
int hearth_predictor_list(size_t e, size_t f, double most, bool narrow, bool wide,
                          struct hearth_predictor_shape *shapes)
{
    const size_t block = hearth_type_info(HEARTH_PREDICTOR_SIGN_TYPE)->block_elems, first = block - e % block;
    const size_t widest = wide ? largest_rank(e, f, most, true, first, block) : 0;
    int n = 0;
    if (narrow) {
        const size_t found = largest_rank(e, f, most, false, LEAST_RANK, LEAST_RANK);
        const size_t largest = found ? found : LEAST_RANK, eighth = largest / 8 / LEAST_RANK * LEAST_RANK;
        for (size_t rank = eighth ? eighth : LEAST_RANK; rank < largest; rank *= 2)
            shapes[n++] = (struct hearth_predictor_shape){rank, false};
        shapes[n++] = (struct hearth_predictor_shape){largest, false};
    }
    if (widest || !narrow)
        shapes[n++] = (struct hearth_predictor_shape){first, true};
    if (widest > first)
        shapes[n++] = (struct hearth_predictor_shape){widest, true};
    return n;
}

static struct hearth_net_shape net_shape(struct hearth_predictor_shape shape)
{
    return (struct hearth_net_shape){
        shape.rank, shape.wide ? hearth_type_info(HEARTH_PREDICTOR_SIGN_TYPE)->block_elems : 0};
}

void hearth_predictor_size_net(struct hearth_net *net, const struct hearth_predictor_shape *shapes, int n)
{
    for (int i = 0; i < n; i++) {
        struct hearth_net_shape *most = shapes[i].wide ? &net->wide : &net->narrow;
        if (shapes[i].rank > most->r)
            *most = net_shape(shapes[i]);
    }
}

struct fitting {
    struct hearth_net *net;
    struct hearth_predictor_shape shape; // that is being tried
    const struct hearth_samples *samples;
    const struct hearth_predictor_params *params;
    float scale;            // of inputs, so that they are about 1
    uint32_t *order;        // [n_train]
    double first_price;     // of a neuron
    uint8_t *bytes;         // weights in the number format
    uint64_t *mass, *count; // [workers][BINS] by output
    uint64_t all_mass, all_active;
    int rc; // of reading
    struct hearth_error *err;
};

// ---- batches

struct batch {
    struct fitting *f;
    const struct hearth_sample *samples;
    const uint32_t *order; // NULL: as they are
    size_t first;
    _Atomic int rc;
};

static void load_task(void *arg, int task, int worker)
{
    (void)worker;
    struct batch *b = arg;
    const struct hearth_net *n = b->f->net;
    const size_t row = (size_t)task, at = b->first + row;
    const struct hearth_sample s = b->samples[b->order ? b->order[at] : at];
    float *x = n->x + row * n->e;
    struct hearth_error err;
    int rc = hearth_row_store_read(b->f->samples->inputs, s.input, 1, x, &err);
    if (!rc)
        rc = hearth_row_store_read(b->f->samples->targets, s.target, 1, n->codes + row * n->f, &err);
    if (rc)
        b->rc = rc;
    for (size_t i = 0; i < n->e; i++)
        x[i] *= b->f->scale;
}

static int load(struct fitting *f, const struct hearth_sample *samples, const uint32_t *order, size_t first,
                size_t n)
{
    struct batch b = {.f = f, .samples = samples, .order = order, .first = first};
    hearth_pool_run(f->net->pool, load_task, &b, (int)n);
    return b.rc ? hearth_fail(f->err, HEARTH_E_IO, "cannot read samples from a scratch file") : HEARTH_OK;
}

// ---- rounding

struct rounding {
    float *from, *to; // rows of k; `to` may be NULL
    uint8_t *bytes;   // the same in the number format
    const struct hearth_type_info *type;
    size_t k, stride;
    float scale;
};

static void round_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct rounding *j = arg;
    float *from = j->from + (size_t)task * j->k;
    if (!j->to) // the last time that it is needed
        for (size_t i = 0; i < j->k; i++)
            from[i] *= j->scale;
    j->type->encode(from, j->bytes + (size_t)task * j->stride, j->k);
    if (j->to)
        j->type->decode(j->bytes + (size_t)task * j->stride, j->to + (size_t)task * j->k, j->k);
}

static void round_to(const struct fitting *f, int matrix, float *from, float *to, void *bytes, float scale)
{
    const uint32_t type = hearth_predictor_type(f->shape, matrix);
    const size_t k = hearth_predictor_k(f->shape, matrix, f->net->e);
    struct rounding j = {from, to, bytes, hearth_type_info(type), k, (size_t)hearth_type_bytes(type, k),
                         scale};
    hearth_pool_run(f->net->pool, round_task, &j, (int)hearth_predictor_n(f->shape, matrix, f->net->f));
}

// The second matrix as it is while it is not rounded: of a wide network signs, where gradients will be.
static float *second_of(const struct fitting *f)
{
    if (!f->shape.wide)
        return f->net->w2;
    hearth_net_sign(f->net, f->net->g2);
    return f->net->g2;
}

// What becomes of the net's weights lies where their gradients will be.
static void round_net(const struct fitting *f)
{
    struct hearth_net *n = f->net;
    round_to(f, 1, n->w1, n->g1, f->bytes, 1);
    round_to(f, 2, second_of(f), n->g2, f->bytes, 1);
}

// ---- training

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void shuffle(uint32_t *order, size_t n, uint64_t *state)
{
    for (size_t i = n; i > 1; i--) {
        const size_t k = (size_t)(next_random(state) % i);
        const uint32_t kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}

static float rate_at(uint64_t step, uint64_t steps)
{
    const double up = step < WARMUP ? (double)(step + 1) / WARMUP : 1, x = (double)step / (double)steps;
    return (float)(RATE * up * (1 - 0.99 * x * x * (3 - 2 * x)));
}

// Weighs magnitudes so that what is above the bias is as much as there is to find.
static double price_after(const struct fitting *f, double price)
{
    const struct hearth_net *n = f->net;
    const double recall = (double)f->params->recall, least = LEAST_PRICE * f->first_price;
    const double surplus = n->mass ? (double)n->found / (double)n->mass - recall : 0;
    const double step = surplus < -MOST_MISSED ? -MOST_MISSED : surplus > MOST_MISSED ? MOST_MISSED : surplus;
    const double next = price * (1 + PACE * step);
    return next > least ? next : least;
}

// Of a wide network, what fc2 has for inputs begins as the gate's signs.
static int begin_with_gate(struct fitting *f)
{
    struct hearth_net *n = f->net;
    int rc = HEARTH_OK;
    for (size_t j = 0; j < n->f && !rc; j++)
        rc = f->params->gate(f->params->gate_arg, j, n->w2 + j * n->k, f->err);
    if (!rc)
        hearth_net_level(n);
    return rc;
}

static int train(struct fitting *f)
{
    struct hearth_net *net = f->net;
    const size_t n = f->samples->n_train, rows = net->b < n ? net->b : n;
    const uint64_t steps = f->params->steps, rounded = steps - (uint64_t)((double)steps * ROUNDED);
    uint64_t state = f->params->seed;
    double price = f->first_price;
    size_t at = n;
    hearth_net_reset(net, net_shape(f->shape), next_random(&state));
    int rc = f->shape.wide ? begin_with_gate(f) : HEARTH_OK;
    for (size_t i = 0; i < n; i++)
        f->order[i] = (uint32_t)i;
    for (uint64_t step = 0; step < steps && !rc; step++) {
        if (at + rows > n) {
            shuffle(f->order, n, &state);
            at = 0;
        }
        rc = load(f, f->samples->train, f->order, at, rows);
        at += rows;
        if (!rc) {
            const bool is_rounded = step >= rounded;
            if (is_rounded)
                round_net(f);
            const float *w1 = is_rounded ? net->g1 : net->w1, *w2 = is_rounded ? net->g2 : second_of(f);
            hearth_net_weigh(net, price);
            hearth_net_train(net, w1, w2, rows, rate_at(step, steps));
            price = step < SETTLED ? price : price_after(f, price);
        }
        if (!rc && f->params->progress && !f->params->progress(f->params->progress_arg))
            rc = hearth_fail(f->err, HEARTH_E_INTERRUPTED, "stopped on request");
    }
    return rc;
}

// ---- trying

static void count_task(void *arg, int task, int worker)
{
    struct fitting *f = arg;
    const struct hearth_net *n = f->net;
    const float *p = n->p + (size_t)task * n->f;
    const uint8_t *codes = n->codes + (size_t)task * n->f;
    uint64_t *mass = f->mass + (size_t)worker * BINS, *count = f->count + (size_t)worker * BINS;
    for (size_t j = 0; j < n->f; j++) {
        const float x = p[j] * BIN_SIZE;
        const size_t bin = !(x > 0.0f) ? 0 : x >= (float)(BINS - 1) ? BINS - 1 : (size_t)x;
        mass[bin] += hearth_code_mass(codes[j]);
        count[bin]++;
    }
}

// Sums are of whole numbers, so the order in which threads count is nothing.
static int count_outputs(struct fitting *f)
{
    const size_t workers = (size_t)hearth_pool_size(f->net->pool), n = f->samples->n_held;
    int rc = HEARTH_OK;
    memset(f->mass, 0, workers * BINS * sizeof *f->mass);
    memset(f->count, 0, workers * BINS * sizeof *f->count);
    for (size_t at = 0; at < n && !rc; at += f->net->b) {
        const size_t rows = n - at < f->net->b ? n - at : f->net->b;
        rc = load(f, f->samples->held, NULL, at, rows);
        if (rc)
            return rc;
        hearth_net_forward(f->net, f->net->g1, f->net->g2, rows);
        hearth_pool_run(f->net->pool, count_task, f, (int)rows);
    }
    for (size_t w = 1; w < workers; w++)
        for (size_t i = 0; i < BINS; i++) {
            f->mass[i] += f->mass[w * BINS + i];
            f->count[i] += f->count[w * BINS + i];
        }
    return rc;
}

// The highest threshold, above 0, that finds enough; *recall and *chosen are what it finds.
static float find_threshold(const struct fitting *f, float *recall, float *chosen)
{
    const double all = (double)f->all_mass, neurons = (double)f->samples->n_held * (double)f->net->f;
    uint64_t mass = 0, count = 0;
    size_t bin = BINS;
    while (bin > 1 && (double)mass < (double)f->params->recall * all) {
        bin--;
        mass += f->mass[bin];
        count += f->count[bin];
    }
    *recall = all > 0 ? (float)((double)mass / all) : 1;
    *chosen = neurons > 0 ? (float)((double)count / neurons) : 0;
    return (float)(bin < BINS ? bin : BINS - 1) / BIN_SIZE;
}

// The net's weights, scaled so that inputs are taken as they are and the threshold is 1. They are gone then. Of a wide
// network fc2 scales both what comes in and what the inner units give.
static void keep(struct fitting *f, struct hearth_predictor *out, float threshold)
{
    struct hearth_net *n = f->net;
    const bool wide = f->shape.wide;
    round_to(f, 1, n->w1, NULL, out->fc1, wide ? 1 : f->scale);
    round_to(f, 2, second_of(f), NULL, out->fc2, (wide ? f->scale : 1) / threshold);
}

// Trains a shape and tries it, rounded; where it is the best so far, which *better tells, it goes to *out.
static int try_shape(struct fitting *f, struct hearth_predictor_shape shape, struct hearth_predictor *out,
                     bool *better)
{
    struct hearth_net *n = f->net;
    const struct hearth_predictor_params *p = f->params;
    float recall, chosen;
    *better = false;
    f->shape = shape;
    int rc = train(f);
    if (!rc) {
        round_net(f);
        rc = count_outputs(f);
    }
    if (rc)
        return rc;
    const float threshold = find_threshold(f, &recall, &chosen);
    const double cost =
        (double)hearth_predictor_bytes(shape, n->e, n->f) + (double)chosen * (double)n->f * p->neuron_bytes;
    const bool enough = recall >= p->recall, had = out->recall >= p->recall;
    *better = !out->shape.rank || (enough && !had) ||
              (enough == had && (enough ? cost < GAIN * out->cost : recall > out->recall));
    if (!*better)
        return HEARTH_OK;
    out->shape = shape;
    out->recall = recall;
    out->chosen = chosen;
    out->cost = cost;
    keep(f, out, threshold);
    return HEARTH_OK;
}

// ---- all

// The inputs' size, the usual magnitude of an activation, and what there is to find.
static int look_at(struct fitting *f)
{
    struct hearth_net *net = f->net;
    const struct hearth_samples *s = f->samples;
    double squares = 0, codes = 0;
    uint64_t n_codes = 0;
    int rc = HEARTH_OK;
    f->scale = 1;
    const size_t n = s->n_train < net->b ? s->n_train : net->b;
    rc = load(f, s->train, NULL, 0, n);
    for (size_t i = 0; i < n * net->e && !rc; i++)
        squares += (double)net->x[i] * (double)net->x[i];
    for (size_t i = 0; i < n * net->f && !rc; i++) {
        codes += net->codes[i];
        n_codes += net->codes[i] > 0;
    }
    const double mean = squares / (double)(n * net->e);
    f->first_price =
        FIRST_PRICE * (double)hearth_code_mass((uint8_t)(n_codes ? codes / (double)n_codes : 128));
    for (size_t at = 0; at < s->n_held && !rc; at += net->b) {
        const size_t rows = s->n_held - at < net->b ? s->n_held - at : net->b;
        rc = load(f, s->held, NULL, at, rows);
        for (size_t i = 0; i < rows * net->f && !rc; i++) {
            f->all_mass += hearth_code_mass(net->codes[i]);
            f->all_active += net->codes[i] > 0;
        }
    }
    f->scale = mean > 0 && isfinite(mean) ? (float)(1 / sqrt(mean)) : 1;
    return rc;
}

int hearth_predictor_fit(struct hearth_net *net, const struct hearth_samples *samples,
                         const struct hearth_predictor_params *params, struct hearth_predictor *out,
                         struct hearth_error *err)
{
    const size_t workers = (size_t)hearth_pool_size(net->pool);
    struct fitting f = {.net = net, .samples = samples, .params = params, .err = err};
    f.order = hearth_calloc(samples->n_train, sizeof *f.order);
    f.mass = hearth_calloc(workers * BINS, sizeof *f.mass);
    f.count = hearth_calloc(workers * BINS, sizeof *f.count);
    f.bytes = hearth_calloc(hearth_predictor_most_bytes(params->shapes, params->n_shapes, net->e, net->f), 1);
    int rc = f.order && f.mass && f.count && f.bytes
                 ? look_at(&f)
                 : hearth_fail(err, HEARTH_E_MEMORY, "no memory to fit a predictor");
    out->shape.rank = 0;
    out->active = 0;
    bool better = true;
    for (int i = 0; i < params->n_shapes && !rc; i++)
        if (better || (params->shapes[i].wide && !params->shapes[i - 1].wide))
            rc = try_shape(&f, params->shapes[i], out, &better);
    if (!rc && samples->n_held)
        out->active = (float)((double)f.all_active / ((double)samples->n_held * (double)net->f));
    free(f.order);
    free(f.mass);
    free(f.count);
    free(f.bytes);
    return rc;
}

// ---- nothing to learn from

// Units come in pairs, of which one hears what the other one does not; every neuron hears all units. Of a wide one, units
// are so loud that what comes in cannot outdo them.
int hearth_predictor_name_all(struct hearth_predictor *out, size_t e, size_t f, struct hearth_error *err)
{
    const struct hearth_type_info *first = hearth_type_info(hearth_predictor_type(out->shape, 1)),
                                  *second = hearth_type_info(hearth_predictor_type(out->shape, 2));
    const size_t rank = out->shape.rank, k = hearth_predictor_k(out->shape, 2, e);
    const size_t fc1 = hearth_predictor_matrix_bytes(out->shape, 1, e, f) / rank,
                 fc2 = hearth_predictor_matrix_bytes(out->shape, 2, e, f) / f;
    const float loud = out->shape.wide ? LOUD : 1;
    float *row = hearth_calloc(e > k ? e : k, sizeof *row);
    if (!row)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to make a predictor");
    uint64_t state = 0;
    for (size_t unit = 0; unit < rank; unit += 2) {
        uint8_t *to = (uint8_t *)out->fc1 + unit * fc1;
        for (size_t i = 0; i < e; i++)
            row[i] = next_random(&state) & 1 ? loud : -loud;
        first->encode(row, to, e);
        for (size_t i = 0; i < e; i++)
            row[i] = -row[i];
        first->encode(row, to + fc1, e);
    }
    for (size_t i = 0; i < k; i++)
        row[i] = LOUD;
    for (size_t j = 0; j < f; j++)
        second->encode(row, (uint8_t *)out->fc2 + j * fc2, k);
    free(row);
    out->recall = out->chosen = 1;
    out->active = 0;
    return HEARTH_OK;
}
