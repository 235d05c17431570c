// SPDX-License-Identifier: MIT
// One evaluation: embed, the layers one after the other, final norm and head.
#include <math.h>

#include "engine/matmul.h"
#include "engine/session.h"
#include "engine/streaming.h"

struct job {
    struct hearth_session *s;
    int layer;
};

struct norm_job {
    struct hearth_session *s;
    const struct hearth_weight *w, *b;
    int first; // row of x that task 0 stands for
};

// h = norm(x)
static void norm_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct norm_job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const struct hearth_kernels *kernels = &j->s->model->kernels;
    float *h = hearth_row_of(j->s->work.h, task, hp->n_embd);
    const float *x = hearth_row_of(j->s->work.x, j->first + task, hp->n_embd);
    if (hp->layer_norm)
        kernels->layer_norm(h, x, j->w->data, j->b->data, (size_t)hp->n_embd, hp->norm_eps);
    else
        kernels->rms_norm(h, x, j->w->data, (size_t)hp->n_embd, hp->norm_eps);
}

static void norm(struct hearth_session *s, const struct hearth_weight *w, const struct hearth_weight *b,
                 int first, int n)
{
    struct norm_job j = {s, w, b, first};
    hearth_run(s, norm_task, &j, n);
}

struct add_job {
    struct hearth_session *s;
    float *branch; // [n x E]
    const struct hearth_weight *bias;
};

// x += branch + bias
static void add_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct add_job *j = arg;
    const struct hearth_kernels *kernels = &j->s->model->kernels;
    const int width = j->s->model->hp.n_embd;
    float *branch = hearth_row_of(j->branch, task, width);
    if (j->bias->data)
        kernels->add(branch, j->bias->data, (size_t)width);
    kernels->add(hearth_row_of(j->s->work.x, task, width), branch, (size_t)width);
}

static void add(struct hearth_session *s, float *branch, const struct hearth_weight *bias, int n)
{
    struct add_job j = {s, branch, bias};
    hearth_run(s, add_task, &j, n);
}

// What happens to a token's queries, or its keys, between projection and use: bias, norm of each head,
// rotation.
static void prepare_heads(const struct hearth_session *s, float *x, int n_heads,
                          const struct hearth_weight *bias, const struct hearth_weight *head_norm,
                          const float *cos_sin)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_kernels *kernels = &s->model->kernels;
    const size_t dim = (size_t)hp->head_dim;
    if (bias->data)
        kernels->add(x, bias->data, bias->k);
    if (head_norm->data)
        for (int i = 0; i < n_heads; i++) {
            float *head = hearth_row_of(x, i, hp->head_dim);
            kernels->rms_norm(head, head, head_norm->data, dim, hp->norm_eps);
        }
    if (hp->positions != HEARTH_POS_LEARNED)
        kernels->rope(x, cos_sin, (size_t)n_heads, dim, (size_t)hp->n_rot,
                      hp->positions == HEARTH_POS_ROPE_NEOX);
}

// Makes one token's queries, keys and values ready and stores its keys and values.
static void store_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *w = &s->weights.layers[j->layer];
    const struct hearth_kv *kv = &s->kv;
    const size_t dim = (size_t)hp->head_dim;
    const struct hearth_row at = s->work.rows[task];
    float *k = hearth_row_of(s->work.k, task, hp->n_head_kv * hp->head_dim);
    float *v = hearth_row_of(s->work.v, task, hp->n_head_kv * hp->head_dim);
    const float *cos_sin = hearth_row_of(s->work.cos_sin, task, hp->n_rot);

    prepare_heads(s, hearth_row_of(s->work.q, task, hp->n_head * hp->head_dim), hp->n_head, &w->attn_q_b,
                  &w->attn_q_norm, cos_sin);
    prepare_heads(s, k, hp->n_head_kv, &w->attn_k_b, &w->attn_k_norm, cos_sin);
    if (w->attn_v_b.data)
        s->model->kernels.add(v, w->attn_v_b.data, w->attn_v_b.k);
    const int page = kv->seqs[at.seq].pages[at.pos / HEARTH_KV_TILE], slot = at.pos % HEARTH_KV_TILE;
    uint8_t *bytes = hearth_kv_pin(kv, page);
    for (int g = 0; g < hp->n_head_kv; g++) {
        hearth_type_info(kv->type_k)
            ->encode(k + (size_t)g * dim, hearth_kv_key(kv, bytes, j->layer, g, slot), dim);
        hearth_type_info(kv->type_v)
            ->encode(v + (size_t)g * dim, hearth_kv_value(kv, bytes, j->layer, g, slot), dim);
    }
    hearth_kv_unpin(kv, page);
}

// Attention of the normed input h; without the bias of attn_out, which add() adds.
static void attention(struct hearth_session *s, enum hearth_phase phase, int layer, float *out, int n)
{
    const struct hearth_layer *w = &s->weights.layers[layer];
    struct hearth_product qkv[] = {{.w = w->attn_q, .out = s->work.q, .n = n},
                                   {.w = w->attn_k, .out = s->work.k, .n = n},
                                   {.w = w->attn_v, .out = s->work.v, .n = n}};
    hearth_matmul(s, phase, qkv, 3, s->work.h, n);
    struct job j = {.s = s, .layer = layer};
    hearth_run(s, store_task, &j, n);
    hearth_attention(s, phase, layer, n);
    struct hearth_product product = {.w = w->attn_out, .out = out, .n = n};
    hearth_matmul(s, phase, &product, 1, s->work.att, n);
}

// x += attention(norm(x)); x += ffn(norm(x))
static void layer_in_series(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    const struct hearth_layer *w = &s->weights.layers[layer];
    norm(s, &w->attn_norm, &w->attn_norm_b, 0, n);
    attention(s, phase, layer, s->work.h, n);
    add(s, s->work.h, &w->attn_out_b, n);
    norm(s, &w->ffn_norm, &w->ffn_norm_b, 0, n);
    hearth_ffn(s, phase, layer, n);
    add(s, s->work.h, &w->ffn_down_b, n);
}

// x += attention(norm(x)) + ffn(norm(x))
static void layer_in_parallel(struct hearth_session *s, enum hearth_phase phase, int layer, int n)
{
    const struct hearth_layer *w = &s->weights.layers[layer];
    norm(s, &w->attn_norm, &w->attn_norm_b, 0, n);
    attention(s, phase, layer, s->work.branch, n);
    if (w->ffn_norm.data != w->attn_norm.data) // else h still is what the feed-forward part wants
        norm(s, &w->ffn_norm, &w->ffn_norm_b, 0, n);
    hearth_ffn(s, phase, layer, n);
    add(s, s->work.branch, &w->attn_out_b, n);
    add(s, s->work.h, &w->ffn_down_b, n);
}

// Row `i` of an embedding table.
static void embed(const struct hearth_weight *table, int i, float *out)
{
    hearth_type_info(table->type)
        ->decode((const uint8_t *)table->data + (size_t)i * table->stride, out, table->k);
}

// One token's input: its embedding and its position, as a vector to add or as a rotation (cosines, then
// sines). The angle is the f32 product of position and frequency, as in the reference implementations that
// models are trained with.
static void embed_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const int pos = s->work.rows[task].pos;
    float *x = hearth_row_of(s->work.x, task, hp->n_embd);
    if (s->streaming && s->streaming->embedding)
        hearth_streaming_embed(s, s->work.tokens[task], worker, x);
    else
        embed(&s->weights.token_embd, s->work.tokens[task], x);
    if (hp->positions == HEARTH_POS_LEARNED) {
        float *h = hearth_row_of(s->work.h, task, hp->n_embd);
        embed(&s->weights.position_embd, pos + hp->pos_offset, h);
        s->model->kernels.add(x, h, (size_t)hp->n_embd);
        return;
    }
    float *cos_sin = hearth_row_of(s->work.cos_sin, task, hp->n_rot);
    for (int i = 0; i < hp->n_rot / 2; i++) {
        float angle = (float)pos * s->work.inv_freq[i];
        cos_sin[i] = (float)cos((double)angle) * hp->rope_attn;
        cos_sin[hp->n_rot / 2 + i] = (float)sin((double)angle) * hp->rope_attn;
    }
}

int hearth_forward(struct hearth_session *s, enum hearth_phase phase, int n, struct hearth_error *err)
{
    struct job j = {.s = s};
    hearth_run(s, embed_task, &j, n);
    for (int layer = 0; layer < s->model->hp.n_layer; layer++) {
        if (hearth_streaming_begin(s, layer))
            break;
        if (s->model->hp.parallel)
            layer_in_parallel(s, phase, layer, n);
        else
            layer_in_series(s, phase, layer, n);
        hearth_streaming_end(s, layer);
    }
    return hearth_fault_take(&s->fault, err);
}

int hearth_forward_logits(struct hearth_session *s, enum hearth_phase phase, int first, int n,
                          struct hearth_error *err)
{
    norm(s, &s->weights.output_norm, &s->weights.output_norm_b, first, n);
    // In one piece, unless the head streams.
    size_t row = 0;
    for (int part = s->model->hp.n_layer; row < (size_t)s->model->hp.n_vocab; part++) {
        if (hearth_streaming_begin(s, part))
            break;
        struct hearth_product product = {.w = s->weights.output,
                                         .out = s->work.logits + row,
                                         .n = n,
                                         .out_stride = (size_t)s->model->hp.n_vocab};
        hearth_matmul(s, phase, &product, 1, s->work.h, n);
        hearth_streaming_end(s, part);
        row += s->weights.output.n;
    }
    return hearth_fault_take(&s->fault, err);
}
