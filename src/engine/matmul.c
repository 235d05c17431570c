// SPDX-License-Identifier: MIT
// Weight matrices times a batch of tokens: rows are cut into chunks that the threads take one by one. How
// they are cut does not matter to the result (src/kernels/kernels.h), so chunks follow speed alone.
#include "engine/matmul.h"

#include <string.h>

#include "base/poison.h"
#include "engine/adapt.h"

struct job {
    struct hearth_matmul_work *work;
    enum hearth_phase phase;
    const struct hearth_product *products;
    int n_products;
    const float *x;
    size_t k;
    struct hearth_deferred deferred;
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

// Some elements of each token's output.
static void multiply(float *out, size_t stride, size_t n, size_t n_tokens, float scale)
{
    for (size_t t = 0; t < n_tokens; t++, out += stride)
        for (size_t r = 0; r < n; r++)
            out[r] *= scale;
}

static void matmul_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    if (hearth_given_up(j->work->c, j->phase))
        return;
    const int at = product_of(j, task);
    const struct hearth_product *p = &j->products[at];
    const struct hearth_weight *w = &p->w;
    const size_t first = (size_t)(at ? task - p[-1].end : task) * p->chunk;
    const size_t n = w->n - first < p->chunk ? w->n - first : p->chunk;
    const struct hearth_kernels *kernels = j->work->c->kernels;
    hearth_matmul_fn fn = (j->phase == HEARTH_PHASE_STEP ? kernels->step : kernels->prompt)[w->type];
    const struct hearth_operand o = hearth_operand_of(w, j->x, j->work->acts, p->first);
    HEARTH_ABOUT_TO_READ((const uint8_t *)w->data + first * w->stride, n, w->stride,
                         hearth_type_bytes(w->type, w->k));
    fn(p->out + first, p->out_stride ? p->out_stride : w->n, (const uint8_t *)w->data + first * w->stride,
       w->stride, w->k, n, o.x, o.x_stride, (size_t)p->n, j->work->scratch[worker]);
    if (w->scales)
        multiply(p->out + first, p->out_stride ? p->out_stride : w->n, n, (size_t)p->n, *w->scales);
}

// The same beside something else, which is task 0.
static void task_or_deferred(void *arg, int task, int worker)
{
    const struct job *j = arg;
    if (task)
        matmul_task(arg, task - 1, worker);
    else
        j->deferred.fn(j->deferred.arg);
}

static void quantize_task(void *arg, int task, int worker)
{
    (void)worker;
    struct job *j = arg;
    j->work->c->kernels->quantize_acts(j->work->acts + (size_t)task * hearth_acts_bytes(j->k),
                                       j->x + (size_t)task * j->k, j->k);
}

// Bytes of weights that a chunk has at least, where that leaves no thread without one: until its first bytes have
// come from memory and its activations are prepared, a thread waits for a microsecond.
#define LEAST_BYTES ((size_t)128 << 10)

// Enough chunks to even out the threads, few enough that what each one costs does not count. Many tokens
// are packed anew for every chunk, which 512 rows make up for: with fewer, two chunks a thread must do.
// `later`: rows times tokens of products that come after. While they are many, chunks may be large: where a
// thread goes on from row to row, the next ones are on their way.
static size_t chunk_rows(size_t n, size_t row_bytes, int n_tokens, size_t later, int n_threads)
{
    if (n_threads == 1)
        return n;
    size_t parts = (size_t)n_threads * (n_tokens < 3 ? 8 : 4);
    const size_t most = n * row_bytes / LEAST_BYTES;
    if (parts > most) // a chunk for each thread, or as many for all
        parts = most > (size_t)n_threads ? most / (size_t)n_threads * (size_t)n_threads : (size_t)n_threads;
    if (n_tokens >= 64 && n / parts < 512)
        parts = n / 512 > (size_t)n_threads * 2 ? n / 512 : (size_t)n_threads * 2;
    const size_t wanted = n_tokens ? later / ((size_t)n_tokens * (size_t)n_threads * 2) : 0;
    if (n / parts < wanted)
        parts = (n + wanted - 1) / wanted;
    const size_t step = n_tokens < 3 ? 8 : 32;
    const size_t rows = ((n + parts - 1) / parts + step - 1) / step * step;
    return rows < 32 ? 32 : rows;
}

void hearth_matmul(struct hearth_matmul_work *work, enum hearth_phase phase, struct hearth_product *products,
                   int n_products, const float *x, int n_rows)
{
    const struct hearth_context *c = work->c;
    bool quantize = false;
    int tasks = 0;
    size_t later = 0;
    for (int i = 0; i < n_products; i++)
        later += products[i].w.n * (size_t)products[i].n;
    for (int i = 0; i < n_products; i++) {
        struct hearth_product *p = &products[i];
        later -= p->w.n * (size_t)p->n;
        p->chunk =
            chunk_rows(p->w.n, hearth_type_bytes(p->w.type, p->w.k), p->n, later, hearth_pool_size(c->pool));
        tasks += (int)((p->w.n + p->chunk - 1) / p->chunk);
        p->end = tasks;
        quantize |= hearth_is_block_type(&p->w);
    }
    struct job j = {work, phase, products, n_products, x, products[0].w.k, *c->deferred};
    c->deferred->fn = NULL;
    if (quantize)
        hearth_parallel(c, quantize_task, &j, n_rows);
    if (j.deferred.fn)
        hearth_parallel(c, task_or_deferred, &j, tasks + 1);
    else
        hearth_parallel(c, matmul_task, &j, tasks);
    if (work->low)
        hearth_adapt(work, phase, products, n_products, x);
}

// ---- prompts through down stored by neuron: columns are cut into chunks

struct down_job {
    struct hearth_matmul_work *work;
    const struct hearth_product *products;
    const float *act;
    size_t act_stride;
    bool add;
};

static void down_task(void *arg, int task, int worker)
{
    const struct down_job *j = arg;
    if (hearth_given_up(j->work->c, HEARTH_PHASE_PROMPT))
        return;
    const struct hearth_product *p = j->products;
    int start = 0;
    for (; task >= p->end; p++)
        start = p->end;
    const struct hearth_weight *w = &p->w;
    const size_t first = (size_t)(task - start) * p->chunk;
    const size_t n = w->k - first < p->chunk ? w->k - first : p->chunk;
    for (int t = 0; !j->add && t < p->n; t++)
        memset(p->out + first + (size_t)t * w->k, 0, n * sizeof(float));
    HEARTH_ABOUT_TO_READ(w->data, w->n, w->stride, hearth_type_bytes(w->type, w->k));
    j->work->c->kernels->prompt_t[w->type](p->out + first, w->k, w->data, w->stride, first, n, w->n,
                                           j->act + (size_t)p->first * j->act_stride, j->act_stride,
                                           (size_t)p->n, j->work->scratch[worker]);
}

void hearth_prompt_down(struct hearth_matmul_work *work, struct hearth_product *products, int n_products,
                        const float *act, size_t act_stride, bool add)
{
    int tasks = 0;
    for (int i = 0; i < n_products; i++) {
        struct hearth_product *p = &products[i];
        p->chunk = HEARTH_COLUMNS;
        tasks += (int)((p->w.k + p->chunk - 1) / p->chunk);
        p->end = tasks;
    }
    struct down_job j = {work, products, act, act_stride, add};
    hearth_parallel(work->c, down_task, &j, tasks);
}

// ---- opening

void hearth_matmul_lay_out(struct hearth_matmul_work *w, const struct hearth_matmul_sizes *sizes,
                           struct hearth_arena *a)
{
    const size_t n = (size_t)hearth_pool_size(w->c->pool);
    w->acts = hearth_arena_take_rows(a, sizes->rows, sizes->often, sizes->row_bytes);
    w->scratch = hearth_arena_take(a, n, sizeof *w->scratch);
    for (size_t i = 0; i < n; i++) {
        void *scratch = hearth_arena_take(a, 1, hearth_kernels_scratch(w->c->kernels, sizes->longest));
        if (w->scratch)
            w->scratch[i] = scratch;
    }
    if (!sizes->most_ranks)
        return;
    w->low = hearth_arena_take_rows(a, sizes->rows, sizes->often, sizes->low * sizeof *w->low);
    w->part = hearth_arena_take(a, n, sizeof *w->part);
    for (size_t i = 0; i < n; i++) {
        float *part = hearth_arena_take(a, 1, hearth_adapt_part_bytes(sizes->most_ranks));
        if (w->part)
            w->part[i] = part;
    }
}
