// SPDX-License-Identifier: MIT
// One evaluation: embed, the layers one after the other, final norm and head.
#include <math.h>

#include "engine/matmul.h"
#include "engine/session.h"

struct job {
    struct hearth_session *s;
    int layer;
    int first; // row of x that task 0 stands for
    const struct hearth_weight *norm;
};

static float *row(float *base, int i, int width)
{
    return base + (size_t)i * (size_t)width;
}

static void norm_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    int width = s->model->hp.n_embd;
    s->model->kernels.rms_norm(row(s->work.h, task, width), row(s->work.x, j->first + task, width),
                               j->norm->data, (size_t)width, s->model->hp.norm_eps);
}

// Rotates one token's queries and keys and stores its keys and values.
static void rope_store_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_kernels *kernels = &s->model->kernels;
    const struct hearth_kv *kv = &s->kv;
    const size_t dim = (size_t)hp->head_dim;
    const struct hearth_row at = s->work.rows[task];
    float *k = row(s->work.k, task, hp->n_head_kv * hp->head_dim);
    float *v = row(s->work.v, task, hp->n_head_kv * hp->head_dim);
    const float *cos_sin = row(s->work.cos_sin, task, hp->n_rot);

    kernels->rope(row(s->work.q, task, hp->n_head * hp->head_dim), cos_sin, (size_t)hp->n_head, dim,
                  (size_t)hp->n_rot, hp->rope_neox);
    kernels->rope(k, cos_sin, (size_t)hp->n_head_kv, dim, (size_t)hp->n_rot, hp->rope_neox);
    int page = kv->seqs[at.seq].pages[at.pos / HEARTH_KV_TILE];
    size_t slot = (size_t)(at.pos % HEARTH_KV_TILE);
    for (int g = 0; g < hp->n_head_kv; g++) {
        hearth_type_info(kv->type_k)
            ->encode(k + (size_t)g * dim, hearth_kv_keys(kv, page, j->layer, g) + slot * kv->row_k, dim);
        hearth_type_info(kv->type_v)
            ->encode(v + (size_t)g * dim, hearth_kv_values(kv, page, j->layer, g) + slot * kv->row_v, dim);
    }
}

static void glu_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    int width = s->model->hp.n_ff;
    float *gate = row(s->work.gate, task, width);
    s->model->kernels.glu(gate, gate, row(s->work.up, task, width), (size_t)width, s->model->hp.activation);
}

// x += y, where a product of the layer left y in h
static void add_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    int width = j->s->model->hp.n_embd;
    j->s->model->kernels.add(row(j->s->work.x, task, width), row(j->s->work.h, task, width), (size_t)width);
}

static void attention_block(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    const struct hearth_layer *w = &s->model->layers[layer];
    struct job j = {.s = s, .layer = layer, .norm = &w->attn_norm};
    hearth_run(s, norm_task, &j, n);
    struct hearth_product qkv[] = {{&w->attn_q, s->work.q}, {&w->attn_k, s->work.k}, {&w->attn_v, s->work.v}};
    hearth_matmul(s, phase, qkv, 3, s->work.h, n);
    hearth_run(s, rope_store_task, &j, n);
    hearth_attention(s, phase, layer, n);
    struct hearth_product out = {&w->attn_out, s->work.h};
    hearth_matmul(s, phase, &out, 1, s->work.att, n);
    hearth_run(s, add_task, &j, n);
}

static void ffn_block(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    const struct hearth_layer *w = &s->model->layers[layer];
    struct job j = {.s = s, .layer = layer, .norm = &w->ffn_norm};
    hearth_run(s, norm_task, &j, n);
    struct hearth_product gate_up[] = {{&w->ffn_gate, s->work.gate}, {&w->ffn_up, s->work.up}};
    hearth_matmul(s, phase, gate_up, 2, s->work.h, n);
    hearth_run(s, glu_task, &j, n);
    struct hearth_product down = {&w->ffn_down, s->work.h};
    hearth_matmul(s, phase, &down, 1, s->work.gate, n);
    hearth_run(s, add_task, &j, n);
}

// Embeds one token and computes its rotation: cosines, then sines. The angle is the f32 product of position
// and frequency, as in the reference implementations that models are trained with.
static void embed_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_weight *e = &s->model->token_embd;
    hearth_type_info(e->type)->decode((const uint8_t *)e->data + (size_t)s->work.tokens[task] * e->stride,
                                      row(s->work.x, task, hp->n_embd), (size_t)hp->n_embd);
    float *cos_sin = row(s->work.cos_sin, task, hp->n_rot);
    for (int i = 0; i < hp->n_rot / 2; i++) {
        float angle = (float)s->work.rows[task].pos * s->work.inv_freq[i];
        cos_sin[i] = (float)cos((double)angle);
        cos_sin[hp->n_rot / 2 + i] = (float)sin((double)angle);
    }
}

void hearth_forward(struct hearth_session *s, enum hearth_phase phase, int n)
{
    struct job j = {.s = s};
    hearth_run(s, embed_task, &j, n);
    for (int layer = 0; layer < s->model->hp.n_layer; layer++) {
        attention_block(s, phase, layer, n);
        ffn_block(s, phase, layer, n);
    }
}

void hearth_forward_logits(struct hearth_session *s, enum hearth_phase phase, int first, int n)
{
    struct job j = {.s = s, .first = first, .norm = &s->model->output_norm};
    hearth_run(s, norm_task, &j, n);
    struct hearth_product head = {&s->model->output, s->work.logits};
    hearth_matmul(s, phase, &head, 1, s->work.h, n);
}
