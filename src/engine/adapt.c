// SPDX-License-Identifier: MIT
// Adapters: two thin products beside each that they change. How their tasks are cut changes no bit: each element
// is a canonical sum (kernels/kernels.h), and then one fma for each adapter.
#include "engine/adapt.h"

#include "base/poison.h"

#define TOKENS 16  // of a task
#define ROWS   256 // of B that one task takes

struct job {
    struct hearth_matmul_work *work;
    enum hearth_phase phase;
    const struct hearth_product *products;
    const float *x;
};

size_t hearth_adapt_part_bytes(size_t most_ranks)
{
    return (TOKENS * ROWS + most_ranks) * sizeof(float);
}

static size_t ranks_of(const struct hearth_product *p)
{
    size_t ranks = 0;
    for (const struct hearth_change *c = p->w.change; c; c = c->next)
        ranks += c->b.k;
    return ranks;
}

// out[t] = rows [first, first + n) of w times x[t]; strides in floats.
struct thin {
    const struct hearth_weight *w;
    size_t first, n;
    float *out;
    size_t out_stride;
    const float *x;
    size_t x_stride, n_tokens;
};

static void multiply(const struct hearth_matmul_work *work, enum hearth_phase phase, const struct thin *m,
                     int worker)
{
    const struct hearth_kernels *kernels = work->c->kernels;
    const uint8_t *rows = (const uint8_t *)m->w->data + m->first * m->w->stride;
    HEARTH_ABOUT_TO_READ(rows, m->n, m->w->stride, hearth_type_bytes(m->w->type, m->w->k));
    (phase == HEARTH_PHASE_STEP ? kernels->step : kernels->prompt)[m->w->type](
        m->out, m->out_stride, rows, m->w->stride, m->w->k, m->n, m->x, m->x_stride * sizeof *m->x,
        m->n_tokens, work->scratch[worker]);
}

// The matrix of one expert, whose row `row` is for the product's first one.
static struct hearth_weight matrix_of(const struct hearth_weight *all, const struct hearth_product *p)
{
    return hearth_expert(all, p->expert);
}

// Which product a task belongs to, which of its parts, and which tokens. *low: where its rows of work.low
// begin.
struct place {
    const struct hearth_product *p;
    size_t part, token, n_tokens;
    float *low; // of the first of these tokens, `ranks` apart
    size_t ranks;
};

static struct place place_of(const struct job *j, int task)
{
    const struct hearth_product *p = j->products;
    float *low = j->work->low;
    int start = 0;
    for (; task >= p->end; p++) {
        start = p->end;
        low += ranks_of(p) * (size_t)p->n;
    }
    const size_t blocks = ((size_t)p->n + TOKENS - 1) / TOKENS, at = (size_t)(task - start);
    const size_t token = at % blocks * TOKENS, left = (size_t)p->n - token, ranks = ranks_of(p);
    return (struct place){.p = p,
                          .part = at / blocks,
                          .token = token,
                          .n_tokens = left < TOKENS ? left : TOKENS,
                          .low = low + token * ranks,
                          .ranks = ranks};
}

// low = A x, the changes' side by side
static void low_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    if (hearth_given_up(j->work->c, j->phase))
        return;
    const struct place at = place_of(j, task);
    float *low = at.low;
    for (const struct hearth_change *c = at.p->w.change; c; c = c->next) {
        const struct hearth_weight a = matrix_of(&c->a, at.p);
        const struct thin m = {.w = &a,
                               .n = a.n,
                               .out = low,
                               .out_stride = at.ranks,
                               .x = j->x + ((size_t)at.p->first + at.token) * a.k,
                               .x_stride = a.k,
                               .n_tokens = at.n_tokens};
        multiply(j->work, j->phase, &m, worker);
        low += a.n;
    }
}

// out += scale * B low, some rows of it
static void high_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    if (hearth_given_up(j->work->c, j->phase))
        return;
    const struct place at = place_of(j, task);
    const struct hearth_product *p = at.p;
    const size_t first = at.part * ROWS, n = p->w.n - first < ROWS ? p->w.n - first : ROWS;
    const size_t stride = p->out_stride ? p->out_stride : p->w.n;
    const float *low = at.low;
    for (const struct hearth_change *c = p->w.change; c; c = c->next) {
        const struct hearth_weight b = matrix_of(&c->b, p);
        const struct thin m = {.w = &b,
                               .first = p->row + first,
                               .n = n,
                               .out = j->work->part[worker],
                               .out_stride = n,
                               .x = low,
                               .x_stride = at.ranks,
                               .n_tokens = at.n_tokens};
        multiply(j->work, j->phase, &m, worker);
        for (size_t t = 0; t < at.n_tokens; t++)
            j->work->c->kernels->scale_add(p->out + (at.token + t) * stride + first, 1.0f, m.out + t * n,
                                           c->scale, n);
        low += b.k;
    }
}

// Numbers the tasks of products, each of which has so many parts of its rows. Returns how many there are.
static int number(struct hearth_product *products, int n, size_t part_rows)
{
    size_t tasks = 0;
    for (int i = 0; i < n; i++) {
        struct hearth_product *p = &products[i];
        const size_t parts = part_rows ? (p->w.n + part_rows - 1) / part_rows : 1;
        if (p->w.change)
            tasks += parts * (((size_t)p->n + TOKENS - 1) / TOKENS);
        p->end = (int)tasks;
    }
    return (int)tasks;
}

void hearth_adapt(struct hearth_matmul_work *work, enum hearth_phase phase, struct hearth_product *products,
                  int n_products, const float *x)
{
    struct job j = {work, phase, products, x};
    const int n = number(products, n_products, 0);
    if (!n)
        return;
    hearth_parallel(work->c, low_task, &j, n);
    hearth_parallel(work->c, high_task, &j, number(products, n_products, ROWS));
}

void hearth_adapt_embedding(const struct hearth_matmul_work *work, int token, int worker, float *x)
{
    const struct hearth_context *context = work->c;
    for (const struct hearth_change *c = context->weights->token_embd.change; c; c = c->next) {
        float *part = work->part[worker], *low = part + TOKENS * ROWS;
        const uint8_t *row = (const uint8_t *)c->a.data + (size_t)token * c->a.stride;
        hearth_type_info(c->a.type)->decode(row, low, c->a.k);
        for (size_t first = 0; first < c->b.n; first += ROWS) {
            const size_t n = c->b.n - first < ROWS ? c->b.n - first : ROWS;
            const struct thin m = {.w = &c->b,
                                   .first = first,
                                   .n = n,
                                   .out = part,
                                   .out_stride = n,
                                   .x = low,
                                   .x_stride = c->b.k,
                                   .n_tokens = 1};
            multiply(work, HEARTH_PHASE_STEP, &m, worker);
            context->kernels->scale_add(x + first, 1.0f, part, c->scale, n);
        }
    }
}
