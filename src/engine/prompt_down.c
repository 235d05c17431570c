// SPDX-License-Identifier: MIT
// Prompts through down stored by neuron: columns are cut into chunks that the threads take one by one.
#include "engine/matmul.h"
#include "engine/sparse.h"

#include <string.h>

struct job {
    struct hearth_session *s;
    const struct hearth_product *products;
    int n_products;
    const float *act;
    size_t act_stride;
    bool add;
};

static void down_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_product *p = j->products;
    int start = 0;
    for (; task >= p->end; p++)
        start = p->end;
    const struct hearth_weight *w = &p->w;
    const size_t first = (size_t)(task - start) * p->chunk;
    const size_t n = w->k - first < p->chunk ? w->k - first : p->chunk;
    for (int t = 0; !j->add && t < p->n; t++)
        memset(p->out + first + (size_t)t * w->k, 0, n * sizeof(float));
    j->s->model->kernels.prompt_t[w->type](p->out + first, w->k, w->data, w->stride, first, n, w->n,
                                           j->act + (size_t)p->first * j->act_stride, j->act_stride,
                                           (size_t)p->n, j->s->work.workers[worker].matmul);
}

void hearth_prompt_down(struct hearth_session *s, struct hearth_product *products, int n_products,
                        const float *act, size_t act_stride, bool add)
{
    int tasks = 0;
    for (int i = 0; i < n_products; i++) {
        struct hearth_product *p = &products[i];
        p->chunk = HEARTH_COLUMNS;
        tasks += (int)((p->w.k + p->chunk - 1) / p->chunk);
        p->end = tasks;
    }
    struct job j = {s, products, n_products, act, act_stride, add};
    hearth_run(s, down_task, &j, tasks);
}
