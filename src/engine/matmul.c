// SPDX-License-Identifier: MIT
// Weight matrices times a batch of tokens: rows are cut into chunks that the threads take one by one. How
// they are cut does not matter to the result (src/kernels/kernels.h), so chunks follow speed alone.
#include "engine/matmul.h"

struct job {
    struct hearth_session *s;
    enum hearth_phase phase;
    const struct hearth_product *products;
    int n_products;
    const float *x;
    size_t k;
    int n_tokens;
    size_t chunk[4]; // rows of a task, by product
    int end[4];      // first task number after the product's own
};

static bool is_block_type(const struct hearth_weight *w)
{
    return hearth_type_info(w->type)->unit_elems != 0;
}

static void matmul_task(void *arg, int task, int worker)
{
    struct job *j = arg;
    int p = 0;
    while (task >= j->end[p])
        p++;
    if (p)
        task -= j->end[p - 1];

    const struct hearth_weight *w = j->products[p].w;
    size_t first = (size_t)task * j->chunk[p];
    size_t n = w->n - first < j->chunk[p] ? w->n - first : j->chunk[p];
    const struct hearth_kernels *kernels = &j->s->model->kernels;
    hearth_matmul_fn fn = (j->phase == HEARTH_PHASE_STEP ? kernels->step : kernels->prompt)[w->type];
    bool block = is_block_type(w);
    fn(j->products[p].out + first, w->n, (const uint8_t *)w->data + first * w->stride, w->stride, w->k, n,
       block ? j->s->work.acts : (const void *)j->x, block ? hearth_acts_bytes(w->k) : w->k * sizeof(float),
       (size_t)j->n_tokens, j->s->work.workers[worker].matmul);
}

static void quantize_task(void *arg, int task, int worker)
{
    (void)worker;
    struct job *j = arg;
    j->s->model->kernels.quantize_acts((uint8_t *)j->s->work.acts + (size_t)task * hearth_acts_bytes(j->k),
                                       j->x + (size_t)task * j->k, j->k);
}

// Enough chunks to even out the threads, few enough that the counter they share costs nothing.
static size_t chunk_rows(size_t n, int n_threads)
{
    if (n_threads == 1)
        return n;
    size_t rows = (n / ((size_t)n_threads * 8) + 31) / 32 * 32;
    return rows < 32 ? 32 : rows;
}

void hearth_matmul(struct hearth_session *s, enum hearth_phase phase, const struct hearth_product *products,
                   int n_products, const float *x, int n_tokens)
{
    struct job j = {.s = s,
                    .phase = phase,
                    .products = products,
                    .n_products = n_products,
                    .x = x,
                    .k = products[0].w->k,
                    .n_tokens = n_tokens};
    bool quantize = false;
    int tasks = 0;
    for (int p = 0; p < n_products; p++) {
        const struct hearth_weight *w = products[p].w;
        j.chunk[p] = chunk_rows(w->n, hearth_pool_size(s->pool));
        tasks += (int)((w->n + j.chunk[p] - 1) / j.chunk[p]);
        j.end[p] = tasks;
        quantize |= is_block_type(w);
    }
    if (quantize)
        hearth_run(s, quantize_task, &j, n_tokens);
    hearth_run(s, matmul_task, &j, tasks);
}
