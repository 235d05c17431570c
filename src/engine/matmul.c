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
    struct hearth_aside aside;
};

// The product that the task belongs to: the first whose end is behind it.
static int product_of(const struct job *j, int task)
{
    int low = 0, high = j->n_products - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (task < j->products[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void matmul_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const int at = product_of(j, task);
    const struct hearth_product *p = &j->products[at];
    const struct hearth_weight *w = &p->w;
    const size_t first = (size_t)(at ? task - p[-1].end : task) * p->chunk;
    const size_t n = w->n - first < p->chunk ? w->n - first : p->chunk;
    const struct hearth_kernels *kernels = &j->s->model->kernels;
    hearth_matmul_fn fn = (j->phase == HEARTH_PHASE_STEP ? kernels->step : kernels->prompt)[w->type];
    const struct hearth_operand o = hearth_operand_of(w, j->x, j->s->work.acts, p->first);
    fn(p->out + first, p->out_stride ? p->out_stride : w->n, (const uint8_t *)w->data + first * w->stride,
       w->stride, w->k, n, o.x, o.x_stride, (size_t)p->n, j->s->work.workers[worker].matmul);
}

// The same beside something else, which is task 0.
static void task_or_aside(void *arg, int task, int worker)
{
    const struct job *j = arg;
    if (task)
        matmul_task(arg, task - 1, worker);
    else
        j->aside.fn(j->aside.arg);
}

static void quantize_task(void *arg, int task, int worker)
{
    (void)worker;
    struct job *j = arg;
    j->s->model->kernels.quantize_acts((uint8_t *)j->s->work.acts + (size_t)task * hearth_acts_bytes(j->k),
                                       j->x + (size_t)task * j->k, j->k);
}

// Enough chunks to even out the threads, few enough that the counter they share costs nothing. Many tokens
// are packed anew for every chunk, which 512 rows make up for: with fewer, two chunks a thread must do.
static size_t chunk_rows(size_t n, int n_tokens, int n_threads)
{
    if (n_threads == 1)
        return n;
    size_t parts = (size_t)n_threads * (n_tokens < 3 ? 8 : 4);
    if (n_tokens >= 64 && n / parts < 512)
        parts = n / 512 > (size_t)n_threads * 2 ? n / 512 : (size_t)n_threads * 2;
    size_t rows = (n / parts + 31) / 32 * 32;
    return rows < 32 ? 32 : rows;
}

void hearth_matmul(struct hearth_session *s, enum hearth_phase phase, struct hearth_product *products,
                   int n_products, const float *x, int n_rows)
{
    bool quantize = false;
    int tasks = 0;
    for (int i = 0; i < n_products; i++) {
        struct hearth_product *p = &products[i];
        p->chunk = chunk_rows(p->w.n, p->n, hearth_pool_size(s->pool));
        tasks += (int)((p->w.n + p->chunk - 1) / p->chunk);
        p->end = tasks;
        quantize |= hearth_is_block_type(&p->w);
    }
    struct job j = {s, phase, products, n_products, x, products[0].w.k, s->aside};
    s->aside.fn = NULL;
    if (quantize)
        hearth_run(s, quantize_task, &j, n_rows);
    if (j.aside.fn)
        hearth_run(s, task_or_aside, &j, tasks + 1);
    else
        hearth_run(s, matmul_task, &j, tasks);
}
