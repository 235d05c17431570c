// SPDX-License-Identifier: MIT
// Positions of one vector: see one_vector.h. The order of operations is part of the numeric law (docs/architecture.md).
#include "engine/one_vector.h"

#include <string.h>

#include "model/ffn.h"

#define MOST_GROUPS 256

struct job {
    struct hearth_one_vector_work *work;
    struct hearth_rows rows;
    int layer;
    const float *out, *cos_sin;
    float *grouped;
};

static int width_of(const struct hearth_hparams *hp)
{
    return hp->n_head * hp->head_dim;
}

// Rotates the last elements of n vectors.
static void turn(const struct hearth_context *c, float *x, int n, const float *cos_sin)
{
    c->kernels->rope(x + c->hp->head_dim - c->hp->n_rot, cos_sin, (size_t)n, (size_t)c->hp->head_dim,
                     (size_t)c->hp->n_rot, c->hp->positions == HEARTH_POS_ROPE_NEOX);
}

struct hearth_product hearth_one_vector_first(const struct hearth_one_vector_work *w, struct hearth_rows rows,
                                              int layer)
{
    return (struct hearth_product){.w = w->c->weights->layers[layer].attn_q_a,
                                   .out = hearth_row_of(w->low, rows.first, w->c->hp->latent.q_rank),
                                   .n = rows.n};
}

static void norm_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_context *c = j->work->c;
    float *low = hearth_row_of(j->work->low, j->rows.first + task, c->hp->latent.q_rank);
    c->kernels->rms_norm(low, low, hearth_vector_of(&c->weights->layers[j->layer].attn_q_a_norm),
                         (size_t)c->hp->latent.q_rank, c->hp->norm_eps);
}

void hearth_one_vector_second(struct hearth_one_vector_work *w, struct hearth_rows rows, int layer, float *q,
                              struct hearth_product *products, int more)
{
    struct job j = {.work = w, .rows = rows, .layer = layer};
    hearth_parallel(w->c, norm_task, &j, rows.n);
    products[0] = (struct hearth_product){.w = w->c->weights->layers[layer].attn_q_up,
                                          .out = hearth_row_of(q, rows.first, width_of(w->c->hp)),
                                          .n = rows.n};
    hearth_matmul(w->matmul, rows.phase, products, 1 + more,
                  hearth_row_of(w->low, rows.first, w->c->hp->latent.q_rank), rows.n);
}

void hearth_one_vector_place(const struct hearth_one_vector_work *w, int layer, float *q, float *k,
                             const float *cos_sin)
{
    const struct hearth_context *c = w->c;
    const size_t dim = (size_t)c->hp->head_dim;
    for (int i = 0; i < c->hp->n_head; i++) {
        float *head = hearth_row_of(q, i, c->hp->head_dim);
        c->kernels->rms_norm(head, head, w->ones, dim, c->hp->norm_eps);
    }
    c->kernels->rms_norm(k, k, hearth_vector_of(&c->weights->layers[layer].attn_k_norm), dim,
                         c->hp->norm_eps);
    turn(c, q, c->hp->n_head, cos_sin);
    turn(c, k, 1, cos_sin);
}

// A row's heads, rotated back, to where their groups are.
static void back_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_context *c = j->work->c;
    const int row = j->rows.first + task, groups = c->hp->out_groups, half = c->hp->n_rot / 2,
              each = width_of(c->hp) / groups;
    const float *cos_sin = j->cos_sin + (size_t)task * (size_t)c->hp->n_rot,
                *out = j->out + (size_t)row * (size_t)width_of(c->hp);
    float *turned = j->work->turned[worker];
    memcpy(turned, cos_sin, (size_t)half * sizeof *turned);
    for (int i = half; i < 2 * half; i++)
        turned[i] = -cos_sin[i];
    for (int g = 0; g < groups; g++) {
        float *to = hearth_row_of(j->grouped, g * j->rows.n + task, each);
        memcpy(to, out + (size_t)g * (size_t)each, (size_t)each * sizeof *to);
        turn(c, to, each / c->hp->head_dim, turned);
    }
}

// Rows of the input are those of all groups, group by group.
void hearth_one_vector_narrow(struct hearth_one_vector_work *w, struct hearth_rows rows, int layer,
                              const float *out, float *q, const float *cos_sin)
{
    const struct hearth_hparams *hp = w->c->hp;
    const struct hearth_weight *all = &w->c->weights->layers[layer].attn_out_a;
    const size_t rank = (size_t)hp->out_rank, width = (size_t)hp->out_groups * rank;
    struct hearth_product products[MOST_GROUPS];
    struct job j = {w,
                    rows,
                    layer,
                    out,
                    cos_sin + (size_t)rows.first * (size_t)hp->n_rot,
                    hearth_row_of(q, rows.first, width_of(hp))};
    hearth_parallel(w->c, back_task, &j, rows.n);
    for (int g = 0; g < hp->out_groups; g++) {
        const size_t first = (size_t)g * rank;
        products[g] = (struct hearth_product){.w = *all,
                                              .out = hearth_row_of(w->narrow, rows.first, (int)width) + first,
                                              .first = g * rows.n,
                                              .n = rows.n,
                                              .out_stride = width,
                                              .row = first};
        products[g].w.n = rank;
        products[g].w.data = (const uint8_t *)all->data + first * all->stride;
    }
    hearth_matmul(w->matmul, rows.phase, products, hp->out_groups, j.grouped, hp->out_groups * rows.n);
}

void hearth_one_vector_lay_out(struct hearth_one_vector_work *w, int max_rows, int max_steps,
                               struct hearth_arena *a)
{
    const struct hearth_hparams *hp = w->c->hp;
    const size_t t = (size_t)max_rows, steps = (size_t)max_steps, f32 = sizeof(float);
    const int n_workers = hearth_pool_size(w->c->pool);
    if (!hp->one_vector)
        return;
    w->low = hearth_arena_take_rows(a, t, steps, (size_t)hp->latent.q_rank * f32);
    w->narrow = hearth_arena_take_rows(a, t, steps, (size_t)hp->out_groups * (size_t)hp->out_rank * f32);
    w->turned = hearth_arena_take(a, (size_t)n_workers, sizeof *w->turned);
    for (int i = 0; i < n_workers; i++) {
        float *turned = hearth_arena_take(a, (size_t)hp->n_rot, f32);
        if (w->turned)
            w->turned[i] = turned;
    }
}
