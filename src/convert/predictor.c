// SPDX-License-Identifier: MIT
// Fitting a predictor: see predictor.h. A rank is trained, at last as what rounding makes of it, and tried on samples
// that it was not trained on: the threshold is the highest that finds enough of them. Then the next rank, while
// the bytes for a token become fewer.
#include "convert/predictor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE   3e-3
#define WARMUP 50
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

size_t hearth_predictor_bytes(size_t e, size_t rank, size_t f)
{
    return (size_t)(hearth_type_bytes(HEARTH_PREDICTOR_TYPE, e) * rank +
                    hearth_type_bytes(HEARTH_PREDICTOR_TYPE, rank) * f);
}

struct fitting {
    struct hearth_net *net;
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
    size_t k, stride;
    float scale;
};

static void round_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct hearth_type_info *type = hearth_type_info(HEARTH_PREDICTOR_TYPE);
    const struct rounding *j = arg;
    float *from = j->from + (size_t)task * j->k;
    if (!j->to) // the last time that it is needed
        for (size_t i = 0; i < j->k; i++)
            from[i] *= j->scale;
    type->encode(from, j->bytes + (size_t)task * j->stride, j->k);
    if (j->to)
        type->decode(j->bytes + (size_t)task * j->stride, j->to + (size_t)task * j->k, j->k);
}

static void round_to(const struct fitting *f, float *from, float *to, void *bytes, size_t k, size_t n,
                     float scale)
{
    struct rounding j = {from, to, bytes, k, (size_t)hearth_type_bytes(HEARTH_PREDICTOR_TYPE, k), scale};
    hearth_pool_run(f->net->pool, round_task, &j, (int)n);
}

// What becomes of the net's weights lies where their gradients will be.
static void round_net(const struct fitting *f)
{
    struct hearth_net *n = f->net;
    round_to(f, n->w1, n->g1, f->bytes, n->e, n->r, 1);
    round_to(f, n->w2, n->g2, f->bytes, n->r, n->f, 1);
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

static int train(struct fitting *f)
{
    struct hearth_net *net = f->net;
    const size_t n = f->samples->n_train, rows = net->b < n ? net->b : n;
    const uint64_t steps = f->params->steps, rounded = steps - (uint64_t)((double)steps * ROUNDED);
    uint64_t state = f->params->seed;
    double price = f->first_price;
    size_t at = n;
    int rc = HEARTH_OK;
    hearth_net_reset(net, next_random(&state));
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
            hearth_net_weigh(net, price);
            hearth_net_train(net, is_rounded ? net->g1 : net->w1, is_rounded ? net->g2 : net->w2, rows,
                             rate_at(step, steps));
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

// The net's weights, scaled so that inputs are taken as they are and the threshold is 1. They are gone then.
static void keep(struct fitting *f, struct hearth_predictor *out, float threshold)
{
    struct hearth_net *n = f->net;
    round_to(f, n->w1, NULL, out->fc1, n->e, n->r, f->scale);
    round_to(f, n->w2, NULL, out->fc2, n->r, n->f, 1 / threshold);
}

// Trains a rank and tries it, rounded; where it is the best so far, which *better tells, it goes to *out.
static int try_rank(struct fitting *f, size_t rank, struct hearth_predictor *out, bool *better)
{
    struct hearth_net *n = f->net;
    const struct hearth_predictor_params *p = f->params;
    float recall, chosen;
    *better = false;
    n->r = rank;
    int rc = train(f);
    if (!rc) {
        round_net(f);
        rc = count_outputs(f);
    }
    if (rc)
        return rc;
    const float threshold = find_threshold(f, &recall, &chosen);
    const double cost =
        (double)hearth_predictor_bytes(n->e, rank, n->f) + (double)chosen * (double)n->f * p->neuron_bytes;
    const bool enough = recall >= p->recall, had = out->recall >= p->recall;
    *better = !out->rank || (enough && !had) ||
              (enough == had && (enough ? cost < GAIN * out->cost : recall > out->recall));
    if (!*better)
        return HEARTH_OK;
    out->rank = rank;
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
    const size_t most = params->ranks[params->n_ranks - 1];
    f.bytes = hearth_calloc(most, (net->e > net->f ? net->e : net->f) * sizeof(float));
    int rc = f.order && f.mass && f.count && f.bytes
                 ? look_at(&f)
                 : hearth_fail(err, HEARTH_E_MEMORY, "no memory to fit a predictor");
    out->rank = 0;
    out->active = 0;
    bool better = true;
    for (int i = 0; i < params->n_ranks && !rc && better; i++)
        rc = try_rank(&f, params->ranks[i], out, &better);
    if (!rc && samples->n_held)
        out->active = (float)((double)f.all_active / ((double)samples->n_held * (double)net->f));
    free(f.order);
    free(f.mass);
    free(f.count);
    free(f.bytes);
    return rc;
}

// ---- nothing to learn from

// Units come in pairs, of which one hears what the other one does not; every neuron hears all units.
int hearth_predictor_name_all(struct hearth_predictor *out, size_t e, size_t f, struct hearth_error *err)
{
    const struct hearth_type_info *type = hearth_type_info(HEARTH_PREDICTOR_TYPE);
    const size_t fc1 = (size_t)hearth_type_bytes(HEARTH_PREDICTOR_TYPE, e),
                 fc2 = (size_t)hearth_type_bytes(HEARTH_PREDICTOR_TYPE, out->rank);
    float *row = hearth_calloc(e > out->rank ? e : out->rank, sizeof *row);
    if (!row)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to make a predictor");
    uint64_t state = 0;
    for (size_t unit = 0; unit < out->rank; unit += 2) {
        uint8_t *to = (uint8_t *)out->fc1 + unit * fc1;
        for (size_t i = 0; i < e; i++)
            row[i] = next_random(&state) & 1 ? 1.0f : -1.0f;
        type->encode(row, to, e);
        for (size_t i = 0; i < e; i++)
            row[i] = -row[i];
        type->encode(row, to + fc1, e);
    }
    for (size_t i = 0; i < out->rank; i++)
        row[i] = LOUD;
    for (size_t j = 0; j < f; j++)
        type->encode(row, (uint8_t *)out->fc2 + j * fc2, out->rank);
    free(row);
    out->recall = out->chosen = 1;
    out->active = 0;
    return HEARTH_OK;
}
