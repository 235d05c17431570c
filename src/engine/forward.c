// SPDX-License-Identifier: MIT
// One evaluation: embed, the layers one after the other, final norm and head.
#include <math.h>
#include <string.h>

#include "engine/adapt.h"
#include "engine/gates.h"
#include "engine/heads.h"
#include "engine/offload.h"
#include "engine/rope.h"
#include "model/ffn.h"

struct job {
    struct hearth_session *s;
    struct hearth_rows rows;
    int layer;
};

struct norm_job {
    const struct hearth_context *c;
    const struct hearth_weight *w, *b;
    const float *x;    // [T x E]
    float *h;          // [T x E]
    int first;         // row that task 0 stands for
    const int *from;   // rows of x, where that is not the row of h; or NULL
    float *stream;     // x where it becomes h times a number, which is what parts add to; or NULL
    const float *ones; // weights where the model's norms have none, or NULL
};

// h = norm(x); and maybe x = h times a number
static void norm_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct norm_job *j = arg;
    const struct hearth_hparams *hp = j->c->hp;
    const size_t width = (size_t)hp->n_embd;
    const int row = j->first + task;
    float *h = hearth_row_of(j->h, row, hp->n_embd);
    const float *x = j->x + (size_t)(j->from ? j->from[row] : row) * width;
    if (j->ones)
        j->c->kernels->layer_norm(h, x, j->ones, NULL, width, hp->norm_eps);
    else if (!j->w->data) // what comes behind reads the stream itself
        memcpy(h, x, width * sizeof *h);
    else if (hp->layer_norm)
        j->c->kernels->layer_norm(h, x, hearth_vector_of(j->w), hearth_vector_of(j->b), width, hp->norm_eps);
    else
        j->c->kernels->rms_norm(h, x, hearth_vector_of(j->w), width, hp->norm_eps);
    if (!j->stream)
        return;
    float *stream = hearth_row_of(j->stream, row, hp->n_embd);
    for (size_t i = 0; i < width; i++)
        stream[i] = h[i] * hp->normed_scale;
}

// Rows of x, normed, to the same rows of h.
static void norm(struct hearth_session *s, const struct hearth_weight *w, const struct hearth_weight *b,
                 struct hearth_rows rows)
{
    struct norm_job j = {.c = &s->context,
                         .w = w,
                         .b = b,
                         .x = s->work.x,
                         .h = s->work.h,
                         .first = rows.first,
                         .stream = s->model->hp.normed_scale > 0.0f ? s->work.x : NULL,
                         .ones = s->model->hp.unit_norms ? s->work.ones : NULL};
    hearth_parallel(&s->context, norm_task, &j, rows.n);
}

// What attention reads of these rows, to h.
static void enter_attention(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    const struct hearth_mixer mixer = {.norm = &w->attn_norm,
                                       .down = &w->attn_mix_down,
                                       .up = &w->attn_mix_up,
                                       .inject = &w->attn_inject,
                                       .fn = &w->attn_mix,
                                       .base = &w->attn_mix_b,
                                       .scale = &w->attn_mix_scale};
    if (s->model->hp.streams.predicts)
        hearth_predict(&s->work.predict, rows, layer, s->work.x, s->work.h);
    else if (s->model->hp.streams.n)
        hearth_streams_mix(&s->work.streams, rows, &mixer, s->work.x, NULL, s->work.h);
    else
        norm(s, &w->attn_norm, &w->attn_norm_b, rows);
}

// What the feed-forward part reads.
static void enter_ffn(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    const struct hearth_mixer mixer = {.norm = &w->ffn_norm,
                                       .down = &w->ffn_mix_down,
                                       .up = &w->ffn_mix_up,
                                       .inject = &w->ffn_inject,
                                       .fn = &w->ffn_mix,
                                       .base = &w->ffn_mix_b,
                                       .scale = &w->ffn_mix_scale};
    if (s->model->hp.streams.n)
        hearth_streams_mix(&s->work.streams, rows, &mixer, s->work.x, NULL, s->work.h);
    else
        norm(s, &w->ffn_norm, &w->ffn_norm_b, rows);
}

struct add_job {
    struct hearth_session *s;
    struct hearth_rows rows;
    float *branch; // [T x E]
    const struct hearth_weight *bias, *post_norm;
    const struct hearth_weight *output_scale; // or NULL
};

// x += scale * (branch + bias), or scale * norm(branch + bias); and all of it times the layer's own scale
static void add_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct add_job *j = arg;
    const struct hearth_kernels *kernels = &j->s->model->kernels;
    const int width = j->s->model->hp.n_embd, row = j->rows.first + task;
    float *branch = hearth_row_of(j->branch, row, width);
    if (j->bias->data)
        kernels->add(branch, hearth_vector_of(j->bias), (size_t)width);
    if (j->post_norm->data)
        kernels->rms_norm(branch, branch, hearth_vector_of(j->post_norm), (size_t)width,
                          j->s->model->hp.post_norm_eps);
    if (j->s->model->hp.streams.n)
        hearth_streams_add(&j->s->work.streams, row, branch,
                           hearth_row_of(j->s->work.x, row, hearth_stream_width(&j->s->model->hp)));
    else if (j->s->model->hp.residual_scale != 1.0f)
        kernels->scale_add(hearth_row_of(j->s->work.x, row, width), 1.0f, branch,
                           j->s->model->hp.residual_scale, (size_t)width);
    else
        kernels->add(hearth_row_of(j->s->work.x, row, width), branch, (size_t)width);
    if (!j->output_scale || !j->output_scale->data)
        return;
    const float by = *hearth_vector_of(j->output_scale);
    float *x = hearth_row_of(j->s->work.x, row, width);
    for (int i = 0; i < width; i++)
        x[i] *= by;
}

static void add(struct hearth_session *s, float *branch, const struct hearth_weight *bias,
                const struct hearth_weight *post_norm, const struct hearth_weight *output_scale,
                struct hearth_rows rows)
{
    struct add_job j = {s, rows, branch, bias, post_norm, output_scale};
    hearth_parallel(&s->context, add_task, &j, rows.n);
}

// Cosines and sines of a token's position in a layer; NULL: nothing rotates.
static const float *rotation_of(const struct hearth_session *s, int layer, int row)
{
    const struct hearth_hparams *hp = &s->model->hp;
    if (!hearth_rotates(hp, layer))
        return NULL;
    if (hearth_rotates_apart(hp, layer))
        return hearth_row_of(s->work.cos_sin_window, row, hp->n_rot_window);
    return hearth_row_of(s->work.cos_sin, row, hp->n_rot);
}

// Stores a token's keys and values; with latent attention these are beginnings of those.
static void store(struct hearth_session *s, int layer, int row, const float *k, const float *v)
{
    const struct hearth_kv *kv = &s->kv;
    const struct hearth_row at = s->batch.rows[row];
    if (s->batch.again) // they are there, and others may have the page
        return;
    const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, layer);
    const size_t dim = (size_t)heads->dim, value = (size_t)heads->value;
    const int page = kv->seqs[at.seq].pages[at.pos / HEARTH_KV_TILE], slot = at.pos % HEARTH_KV_TILE;
    uint8_t *bytes = hearth_kv_pin(kv, page);
    for (int g = 0; g < heads->n; g++) {
        hearth_type_info(kv->type_k)
            ->encode(k + (size_t)g * dim, hearth_kv_key(kv, bytes, layer, g, slot), dim);
        if (!kv->latent)
            hearth_type_info(kv->type_v)
                ->encode(v + (size_t)g * value, hearth_kv_value(kv, bytes, layer, g, slot), value);
    }
    hearth_kv_unpin(kv, page);
}

// Makes one token's queries, keys and values ready and stores its keys and values.
static void store_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *w = &s->context.weights->layers[j->layer];
    const int row = j->rows.first + task, head_dim = hearth_head_dim_of(hp, j->layer);
    const int n_head_kv = hearth_n_head_kv_of(hp, j->layer), n_kv = n_head_kv * head_dim;
    const size_t dim = (size_t)head_dim;
    const int n_head = hearth_n_head_of(hp, j->layer);
    float *k = hearth_row_of(s->work.attention.k, row, n_kv);
    const int n_v = n_head_kv * hearth_value_dim_of(hp, j->layer);
    float *v = hearth_row_of(s->work.attention.v, row, n_v);
    float *q = hearth_row_of(s->work.attention.q, row, n_head * head_dim);
    const float *cos_sin = rotation_of(s, j->layer, row);
    const float *q_gate = hearth_row_of(s->work.q_gate, row, 2 * hp->n_head * hp->head_dim);
    for (int i = 0; hp->attn_gated && i < hp->n_head; i++)
        memcpy(q + (size_t)i * dim, q_gate + 2 * (size_t)i * dim, dim * sizeof *q);

    hearth_heads_prepare(s, j->layer, q, n_head, &w->attn_q_b, &w->attn_q_norm, cos_sin);
    hearth_heads_grow(hp, j->layer, s->batch.rows[row].pos, q, n_head * head_dim);
    if (hearth_keys_of(hp, j->layer) != j->layer)
        return;
    if (!hearth_has(&w->attn_v))
        memcpy(v, k, (size_t)n_v * sizeof *v);
    hearth_heads_prepare(s, j->layer, k, n_head_kv, &w->attn_k_b, &w->attn_k_norm, cos_sin);
    if (w->attn_v_b.data)
        s->model->kernels.add(v, w->attn_v_b.data, w->attn_v_b.k);
    hearth_heads_limit(hp, v, n_v);
    for (int i = 0; hp->value_scale != 1.0f && i < n_v; i++)
        v[i] *= hp->value_scale;
    if (hp->value_norm)
        hearth_heads_norm(s, v, n_head_kv, head_dim, s->work.ones);
    store(s, j->layer, row, k, v);
}

// Stores one token's latent vector and rotating key; its queries' rotating parts are made ready.
static void store_latent_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const int row = j->rows.first + task, dim = s->model->hp.head_dim;
    float *k = hearth_row_of(s->work.attention.k, row, dim);
    const int width = s->model->hp.n_head * (s->model->hp.latent.still + s->model->hp.n_rot);
    hearth_latent_place(&s->work.latent, row, j->layer, k, rotation_of(s, j->layer, row));
    hearth_heads_grow(&s->model->hp, j->layer, s->batch.rows[row].pos,
                      hearth_row_of(s->work.latent.heads, row, width), width);
    store(s, j->layer, row, k, NULL);
}

// Stores one token's vector; its queries are made ready.
static void store_one_vector_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const int row = j->rows.first + task, dim = s->model->hp.head_dim;
    float *k = hearth_row_of(s->work.attention.k, row, dim);
    hearth_one_vector_place(&s->work.one_vector, j->layer,
                            hearth_row_of(s->work.attention.q, row, s->model->hp.n_head * dim), k,
                            rotation_of(s, j->layer, row));
    store(s, j->layer, row, k, NULL);
}

// The same as project() where positions have one vector.
static void project_one_vector(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    struct hearth_product products[2 + HEARTH_BLEND_PRODUCTS];
    enter_attention(s, rows, layer);
    products[0] = (struct hearth_product){.w = s->context.weights->layers[layer].attn_k,
                                          .out = hearth_row_of(s->work.attention.k, rows.first, hp->head_dim),
                                          .n = rows.n};
    products[1] = hearth_one_vector_first(&s->work.one_vector, rows, layer);
    const int n = 2 + hearth_blend_products(&s->work.blend, rows, layer, products + 2);
    hearth_matmul(&s->work.matmul, rows.phase, products, n, hearth_row_of(s->work.h, rows.first, hp->n_embd),
                  rows.n);
    const int more = hearth_blend_low_products(&s->work.blend, rows, layer, products + 1);
    hearth_one_vector_second(&s->work.one_vector, rows, layer, s->work.attention.q, products, more);
    struct job j = {s, rows, layer};
    hearth_parallel(&s->context, store_one_vector_task, &j, rows.n);
}

// What the layer's attn_gate makes of the input; it has one.
static struct hearth_product gate_product(const struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_weight *w = &s->context.weights->layers[layer].attn_gate;
    return (struct hearth_product){
        .w = *w, .out = hearth_row_of(s->work.gate, rows.first, (int)w->n), .n = rows.n};
}

// The same as project() with latent attention.
static void project_latent(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    const struct hearth_hparams *hp = &s->model->hp;
    enter_attention(s, rows, layer);
    struct hearth_product products[5] = {
        {.w = w->attn_kv_a, .out = hearth_row_of(s->work.attention.k, rows.first, hp->head_dim), .n = rows.n},
        hearth_latent_first(&s->work.latent, rows, layer)};
    int n = 2 + hearth_choose_products(&s->work.choose, rows, layer, products + 2);
    if (hearth_has(&w->attn_gate))
        products[n++] = gate_product(s, rows, layer);
    hearth_matmul(&s->work.matmul, rows.phase, products, n, hearth_row_of(s->work.h, rows.first, hp->n_embd),
                  rows.n);
    const int low = hearth_choose_low_products(&s->work.choose, rows, layer, products);
    hearth_latent_second(&s->work.latent, rows, layer, products, low);
    struct job j = {s, rows, layer};
    hearth_parallel(&s->context, store_latent_task, &j, rows.n);
    hearth_latent_queries(&s->work.latent, rows, layer, s->work.attention.q);
}

// Queries, keys and values of the normed input h. Those of all classes are stored before any row attends: a
// sequence may have rows of both.
static void project(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    const struct hearth_hparams *hp = &s->model->hp;
    struct hearth_attention_work *work = &s->work.attention;
    const int dim = hearth_head_dim_of(hp, layer);
    const int q = hearth_n_head_of(hp, layer) * dim, kv = hearth_n_head_kv_of(hp, layer) * dim;
    int n = hearth_keys_of(hp, layer) != layer ? 1 : hearth_has(&w->attn_v) ? 3 : 2;
    struct hearth_product qkv[6] = {
        {.w = w->attn_q,
         .out = hp->attn_gated ? hearth_row_of(s->work.q_gate, rows.first, 2 * q)
                               : hearth_row_of(work->q, rows.first, q),
         .n = rows.n},
        {.w = w->attn_k, .out = hearth_row_of(work->k, rows.first, kv), .n = rows.n},
        {.w = w->attn_v,
         .out = hearth_row_of(work->v, rows.first,
                              hearth_n_head_kv_of(hp, layer) * hearth_value_dim_of(hp, layer)),
         .n = rows.n}};
    if (hearth_has(&w->attn_gate))
        qkv[n++] = gate_product(s, rows, layer);
    enter_attention(s, rows, layer);
    n += hearth_choose_products(&s->work.choose, rows, layer, qkv + n);
    hearth_matmul(&s->work.matmul, rows.phase, qkv, n, hearth_row_of(s->work.h, rows.first, hp->n_embd),
                  rows.n);
    struct job j = {s, rows, layer};
    hearth_parallel(&s->context, store_task, &j, rows.n);
}

// A row of attention's output, each element times the sigmoid of its gate.
static void gate_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const size_t dim = (size_t)hp->head_dim;
    const int row = j->rows.first + task;
    float *out = hearth_row_of(j->s->work.attention.out, row, hp->n_head * hp->head_dim);
    const float *q_gate = hearth_row_of(j->s->work.q_gate, row, 2 * hp->n_head * hp->head_dim);
    for (size_t i = 0; i < (size_t)hp->n_head; i++)
        j->s->model->kernels.glu(out + i * dim, q_gate + (2 * i + 1) * dim, out + i * dim, dim,
                                 HEARTH_ACT_SIGMOID);
}

// The same of layers with an attn_gate: a gate for each element, or for each head.
static void gate_apart_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const int heads = hearth_n_head_of(hp, j->layer),
              dim = hp->latent.rank ? hp->latent.value : hearth_value_dim_of(hp, j->layer),
              row = j->rows.first + task, n = (int)j->s->context.weights->layers[j->layer].attn_gate.n;
    float *out =
        hearth_row_of(hp->latent.rank ? j->s->work.latent.heads : j->s->work.attention.out, row, heads * dim);
    float *gate = hearth_row_of(j->s->work.gate, row, n);
    const int each = heads * dim / n;
    hearth_open_gates(&j->s->model->kernels, gate, (size_t)n, hp->gates_softplus);
    for (int i = 0; i < heads * dim; i++)
        out[i] *= gate[i / each];
}

// The norm of a row of attention's output, in place.
static void norm_inner_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_weight *w = &j->s->context.weights->layers[j->layer].attn_inner_norm;
    float *out = hearth_row_of(j->s->work.attention.out, j->rows.first + task, (int)w->k);
    j->s->model->kernels.rms_norm(out, out, hearth_vector_of(w), w->k, j->s->model->hp.norm_eps);
}

// Attention to the same rows of out [T x E]; without the bias of attn_out, which add() adds.
static void attend(struct hearth_session *s, struct hearth_rows rows, int layer, float *out)
{
    const struct hearth_hparams *hp = &s->model->hp;
    struct hearth_attention_work *work = &s->work.attention;
    const bool latent = hp->latent.rank != 0;
    const int width =
        hearth_n_head_of(hp, layer) * (latent ? hp->latent.value : hearth_value_dim_of(hp, layer));
    hearth_attention(work, rows, layer);
    if (latent)
        hearth_latent_values(&s->work.latent, rows, layer, work->out);
    struct job j = {s, rows, layer};
    if (hp->attn_gated)
        hearth_parallel(&s->context, gate_task, &j, rows.n);
    if (hearth_has(&s->context.weights->layers[layer].attn_gate))
        hearth_parallel(&s->context, gate_apart_task, &j, rows.n);
    if (hearth_has(&s->context.weights->layers[layer].attn_inner_norm))
        hearth_parallel(&s->context, norm_inner_task, &j, rows.n);
    if (hp->one_vector)
        hearth_one_vector_narrow(&s->work.one_vector, rows, layer, work->out, work->q,
                                 rotation_of(s, layer, 0));
    struct hearth_product product = {.w = s->context.weights->layers[layer].attn_out,
                                     .out = hearth_row_of(out, rows.first, hp->n_embd),
                                     .n = rows.n};
    hearth_matmul(&s->work.matmul, rows.phase, &product, 1,
                  hearth_row_of(latent           ? s->work.latent.heads
                                : hp->one_vector ? s->work.one_vector.narrow
                                                 : work->out,
                                rows.first, hp->one_vector ? hp->out_groups * hp->out_rank : width),
                  rows.n);
}

// x += attention(norm(x)); h = norm(x)
static void attend_in_series(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    attend(s, rows, layer, s->work.h);
    if (s->model->hp.streams.predicts) {
        hearth_predict_go_on(&s->work.predict, rows, layer, s->work.x, s->work.h);
        return;
    }
    add(s, s->work.h, &w->attn_out_b, &w->attn_post_norm, NULL, rows);
    if (hearth_feeds(&s->model->hp, layer))
        enter_ffn(s, rows, layer);
}

// branch = attention(norm(x)); h = norm(x)
static void attend_in_parallel(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    attend(s, rows, layer, s->work.branch);
    if (w->ffn_norm.data != w->attn_norm.data) // else h still is what the feed-forward part wants
        norm(s, &w->ffn_norm, &w->ffn_norm_b, rows);
}

// The same on a device, if it has the layer's attention, and can.
static bool attend_elsewhere(struct hearth_session *s, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    if (!hearth_offload_attend(s->offload, layer))
        return false;
    for (int i = 0; i < s->batch.n_classes; i++)
        norm(s, &w->ffn_norm, &w->ffn_norm_b, s->batch.classes[i]);
    return true;
}

// x += recurrence(norm(x)); h = norm(x)
static void recur(struct hearth_session *s, int layer)
{
    const struct hearth_batch *b = &s->batch;
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    struct hearth_recurrent_work *work = &s->work.recurrent;
    for (int i = 0; i < b->n_classes; i++) {
        enter_attention(s, b->classes[i], layer);
        hearth_recurrent_project(work, b->classes[i], layer, s->work.h);
    }
    hearth_recurrent_mix(work, b, layer);
    for (int i = 0; i < b->n_classes; i++) {
        hearth_recurrent_output(work, b->classes[i], layer, s->work.h);
        add(s, s->work.h, &w->attn_out_b, &w->attn_post_norm, NULL, b->classes[i]);
        if (hearth_feeds(&s->model->hp, layer))
            enter_ffn(s, b->classes[i], layer);
    }
}

// x += recurrence(norm(x)) + attention(norm(x)); h = norm(x)
static void recur_and_attend(struct hearth_session *s, int layer)
{
    const struct hearth_batch *b = &s->batch;
    struct hearth_recurrent_work *work = &s->work.recurrent;
    static const struct hearth_weight none;
    for (int i = 0; i < b->n_classes; i++) {
        project(s, b->classes[i], layer);
        hearth_recurrent_project(work, b->classes[i], layer, s->work.h);
    }
    hearth_recurrent_mix(work, b, layer);
    for (int i = 0; i < b->n_classes; i++) {
        hearth_recurrent_output(work, b->classes[i], layer, s->work.branch);
        add(s, s->work.branch, &none, &none, NULL, b->classes[i]);
        attend_in_series(s, b->classes[i], layer);
    }
}

// What a row's token gives the layer, times the activated gate.
static void token_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const int n = hp->n_embd_layer, row = j->rows.first + task;
    float *gate = hearth_row_of(j->s->work.token_gate, row, n);
    const float *given =
        hearth_row_of(j->s->work.token_layers, row, n * hp->n_layer) + (size_t)j->layer * (size_t)n;
    j->s->model->kernels.glu(gate, gate, given, (size_t)n, hp->activation);
}

// x = (x + norm(out(activated(gate(x)) * what tokens give the layer))) * the layer's scale
static void take_from_tokens(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    const int n_embd = s->model->hp.n_embd;
    float *gate = hearth_row_of(s->work.token_gate, rows.first, s->model->hp.n_embd_layer);
    struct hearth_product in = {.w = w->token_gate, .out = gate, .n = rows.n},
                          out = {.w = w->token_out,
                                 .out = hearth_row_of(s->work.h, rows.first, n_embd),
                                 .n = rows.n};
    struct job j = {s, rows, layer};
    static const struct hearth_weight no_bias;
    const bool predicts = s->model->hp.streams.predicts;
    hearth_matmul(&s->work.matmul, rows.phase, &in, 1,
                  hearth_row_of(predicts ? s->work.h : s->work.x, rows.first, n_embd), rows.n);
    hearth_parallel(&s->context, token_task, &j, rows.n);
    hearth_matmul(&s->work.matmul, rows.phase, &out, 1, gate, rows.n);
    if (predicts)
        hearth_predict_take(&s->work.predict, rows, layer, s->work.h, s->work.x);
    else
        add(s, s->work.h, &no_bias, &w->token_post_norm, &w->output_scale, rows);
}

// x += attn_out(norm(x)); h = norm(x)
static void multiply(struct hearth_session *s, struct hearth_rows rows, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    const int width = s->model->hp.n_embd; // as large as all queries
    struct hearth_product product = {
        .w = w->attn_out, .out = hearth_row_of(s->work.attention.out, rows.first, width), .n = rows.n};
    enter_attention(s, rows, layer);
    hearth_matmul(&s->work.matmul, rows.phase, &product, 1, hearth_row_of(s->work.h, rows.first, width),
                  rows.n);
    add(s, s->work.attention.out, &w->attn_out_b, &w->attn_post_norm, NULL, rows);
    if (hearth_feeds(&s->model->hp, layer))
        enter_ffn(s, rows, layer);
}

// What tokens learn of one another: x += attention(norm(x)), or the same of a recurrence; h = norm(x).
static void mix(struct hearth_session *s, int layer)
{
    const struct hearth_batch *b = &s->batch;
    const bool parallel = s->model->hp.parallel, recurrent = hearth_is_recurrent(&s->model->hp, layer);
    if (s->model->hp.grams.size && layer == s->model->hp.grams.layer)
        hearth_grams_add(&s->work.grams, b, s->work.x);
    if (recurrent)
        (s->model->hp.recurrence.beside ? recur_and_attend : recur)(s, layer);
    const bool linear = hearth_is_linear(&s->model->hp, layer);
    for (int i = 0; i < b->n_classes && linear; i++)
        multiply(s, b->classes[i], layer);
    const bool done = recurrent || linear || attend_elsewhere(s, layer);
    for (int i = 0; i < b->n_classes && !done; i++)
        (s->model->hp.latent.rank  ? project_latent
         : s->model->hp.one_vector ? project_one_vector
                                   : project)(s, b->classes[i], layer);
    if (hearth_chooses(&s->model->hp, layer) && !done)
        hearth_choose(&s->work.choose, b, layer, s->work.cos_sin);
    if (s->model->hp.blender.n_layers && !done)
        hearth_blend(&s->work.blend, b, layer, s->work.cos_sin);
    for (int i = 0; i < b->n_classes && !done; i++)
        (parallel ? attend_in_parallel : attend_in_series)(s, b->classes[i], layer);
}

// x += ffn(h), to which attention is added in a parallel layer.
static void feed(struct hearth_session *s, int layer)
{
    const struct hearth_batch *b = &s->batch;
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    const struct hearth_rows all = {.n = b->n};
    for (int i = 0; i < b->n_classes && !hearth_mixes(&s->model->hp, layer); i++)
        norm(s, &w->ffn_norm, &w->ffn_norm_b, b->classes[i]);
    hearth_ffn(&s->work.ffn, b->classes, b->n_classes, layer, s->work.h,
               s->model->hp.streams.predicts ? s->work.predict.now
               : s->model->hp.streams.n      ? s->work.streams.mean
                                             : s->work.x);
    if (s->model->hp.parallel)
        add(s, s->work.branch, &w->attn_out_b, &w->attn_post_norm, NULL, all);
    const bool gives = s->model->hp.n_embd_layer != 0;
    for (int i = 0; i < b->n_classes && s->model->hp.streams.predicts; i++)
        hearth_predict_correct(&s->work.predict, b->classes[i], layer, s->work.x, s->work.h);
    if (!s->model->hp.streams.predicts)
        add(s, s->work.h, &w->ffn_down_b, &w->ffn_post_norm, gives ? NULL : &w->output_scale, all);
    for (int i = 0; i < b->n_classes && gives; i++)
        take_from_tokens(s, b->classes[i], layer);
}

// x += attention(norm(x)), then x += ffn(norm(x)); or x += attention(norm(x)) + ffn(norm(x)); or one of the two.
void hearth_forward_layer(struct hearth_session *s, int layer)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_batch *b = &s->batch;
    if (hp->early_router)
        for (int i = 0; i < b->n_classes; i++)
            hearth_moe_choose(&s->work.ffn.moe, b->classes[i], layer, s->work.x, s->work.x);
    if (hearth_mixes(hp, layer))
        mix(s, layer);
    if (hearth_feeds(hp, layer))
        feed(s, layer);
}

// Row `i` of an embedding table.
static void embed(const struct hearth_weight *table, int i, float *out)
{
    hearth_type_info(table->type)
        ->decode((const uint8_t *)table->data + (size_t)i * table->stride, out, table->k);
}

// A token in a table of which the file is asked.
static void embed_from_file(struct hearth_session *s, const struct hearth_weight *table, int token,
                            int worker, float *out)
{
    const struct hearth_source *stages = &s->sources->stages;
    stages->ops->embed(stages->state, table, token, s->work.embedding_row[worker], out);
}

void hearth_forward_embed_token(struct hearth_session *s, int token, int worker, float *out)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_weight *table = &s->context.weights->token_embd;
    if (hearth_sources_embed_by_row(s->sources))
        embed_from_file(s, table, token, worker, out);
    else
        embed(table, token, out);
    hearth_adapt_embedding(&s->work.matmul, token, worker, out);
    for (int i = 0; hp->embd_scale != 1.0f && i < hp->n_embd; i++)
        out[i] *= hp->embd_scale;
}

// One token's embedding, and its position where that is a vector to add.
static void embed_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const int row = task;
    float *x = hearth_row_of(s->work.x, row, hearth_stream_width(hp));
    hearth_forward_embed_token(s, s->batch.tokens[row], worker, x);
    if (hp->positions == HEARTH_POS_LEARNED) {
        float *h = hearth_row_of(s->work.h, row, hp->n_embd);
        embed(&s->context.weights->position_embd, s->batch.rows[row].pos + hp->pos_offset, h);
        s->model->kernels.add(x, h, (size_t)hp->n_embd);
    }
    const struct hearth_weights *w = s->context.weights;
    if (w->token_norm.data)
        s->model->kernels.layer_norm(x, x, hearth_vector_of(&w->token_norm),
                                     hearth_vector_of(&w->token_norm_b), (size_t)hp->n_embd, hp->norm_eps);
    if (hp->embd_unit)
        s->model->kernels.rms_norm(x, x, s->work.ones, (size_t)hp->n_embd, hp->norm_eps);
    if (hp->streams.predicts) // the others are made of it
        memcpy(hearth_row_of(s->work.h, row, hp->n_embd), x, (size_t)hp->n_embd * sizeof *x);
    else
        hearth_streams_begin(hp, x);
}

// One token's position as a rotation, or two, where windows have their own.
static void place_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const int pos = s->batch.rows[task].pos;
    hearth_rope_turn(hearth_row_of(s->work.cos_sin, task, hp->n_rot), s->work.inv_freq, hp->n_rot, pos,
                     hp->rope_attn);
    if (hp->rope_theta_window > 0)
        hearth_rope_turn(hearth_row_of(s->work.cos_sin_window, task, hp->n_rot_window),
                         s->work.inv_freq_window, hp->n_rot_window, pos, 1.0f);
}

// What one row's token gives all layers: its row of the table and the projection of its embedding, normed for each
// layer, times the root of their size and divided by the root of 2.
static void token_layers_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    struct hearth_session *s = j->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_weights *w = s->context.weights;
    const int n = hp->n_embd_layer, all = n * hp->n_layer, row = task;
    float *given = hearth_row_of(s->work.token_layers, row, all), *own = s->work.token_row[worker];
    const float by = 1.0f / sqrtf((float)hp->n_embd), root = sqrtf((float)n), half = sqrtf(0.5f);
    if (w->token_layers.data)
        embed(&w->token_layers, s->batch.tokens[row], own);
    else
        embed_from_file(s, &w->token_layers, s->batch.tokens[row], worker, own);
    for (int i = 0; i < all; i++)
        given[i] *= by;
    hearth_heads_norm(s, given, hp->n_layer, n, hearth_vector_of(&w->token_layers_norm));
    for (int i = 0; i < all; i++)
        given[i] = fmaf(own[i], root, given[i]) * half;
}

// Once the rows' embeddings are there: what their tokens give each layer, and streams that are made of them.
static void give_layers(struct hearth_session *s)
{
    const int n_embd = s->model->hp.n_embd, all = s->model->hp.n_embd_layer * s->model->hp.n_layer;
    struct job j = {.s = s};
    if (!all)
        return;
    for (int i = 0; i < s->batch.n_classes; i++) {
        const struct hearth_rows rows = s->batch.classes[i];
        struct hearth_product in = {.w = s->context.weights->token_layers_in,
                                    .out = hearth_row_of(s->work.token_layers, rows.first, all),
                                    .n = rows.n};
        const bool predicts = s->model->hp.streams.predicts;
        hearth_matmul(&s->work.matmul, rows.phase, &in, 1,
                      hearth_row_of(predicts ? s->work.h : s->work.x, rows.first, n_embd), rows.n);
        if (predicts)
            hearth_predict_begin(&s->work.predict, rows, s->work.h, s->work.x);
    }
    hearth_parallel(&s->context, token_layers_task, &j, s->batch.n);
}

void hearth_forward_embed(struct hearth_session *s)
{
    struct job j = {.s = s};
    hearth_parallel(&s->context, embed_task, &j, s->batch.n);
    give_layers(s);
}

void hearth_forward_place(struct hearth_session *s)
{
    struct job j = {.s = s};
    if (hearth_has_rotation(&s->model->hp))
        hearth_parallel(&s->context, place_task, &j, s->batch.n);
}

// A token's input to the first layer, all of it.
static void input_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    embed_task(arg, task, worker);
    if (hearth_has_rotation(&j->s->model->hp))
        place_task(arg, task, worker);
}

// Before layer i, or a chunk of the head: true when the evaluation is to be given up.
static bool begin(struct hearth_session *s, int i)
{
    return hearth_fault_look(&s->fault) || hearth_sources_acquire(s->sources, i);
}

// After `layers` layers of the evaluation: tells who asked to be told.
static void report(struct hearth_session *s, int layers)
{
    const struct hearth_session_progress *p = &s->progress;
    if (!p->fn)
        return;
    const double done = p->before + p->rows * ((double)layers / s->model->hp.n_layer);
    if (!p->fn(p->arg, (float)(done / p->all)))
        hearth_fault_cancel(&s->fault);
}

// Neurons that are guessed late: from the stream before their attention, to be read during it. No layer has looked ahead
// for the first one, nor for one behind a device's, nor for one whose predictor has only come into memory now.
static void look_late(struct hearth_session *s, int layer)
{
    const struct hearth_layer *w = &s->context.weights->layers[layer];
    for (int i = 0; i < s->batch.n_classes; i++) {
        const struct hearth_rows rows = s->batch.classes[i];
        if (s->model->hp.streams.n || !hearth_ffn_looks(&s->work.ffn, rows, layer))
            continue;
        norm(s, &w->ffn_norm, &w->ffn_norm_b, rows);
        hearth_ffn_look(&s->work.ffn, rows, layer, s->work.h, s->work.x);
    }
}

// Tells the sources what devices compute, as it is now.
static void skip_elsewhere(struct hearth_session *s)
{
    hearth_sources_skip(s->sources, s->context.elsewhere, hearth_offload_has_head(s->offload));
}

// The layers of the device that has this one, if it can. Returns the first one behind them; this one where the CPU is to
// compute it, or the evaluation is given up.
static int run_elsewhere(struct hearth_session *s, int layer)
{
    if (hearth_fault_look(&s->fault))
        return layer;
    const int end = hearth_offload_run(s->offload, layer);
    if (end == layer) {
        skip_elsewhere(s);
        return layer;
    }
    s->work.ffn.sparse.known = -1; // nobody has asked for the layer behind
    report(s, end);
    return end;
}

// Of a layer that guesses ahead: both halves of one row's input, each normed.
static void pair_task(void *arg, int task, int worker)
{
    (void)worker;
    struct hearth_session *s = ((struct job *)arg)->s;
    const struct hearth_weights *w = s->context.weights;
    const size_t e = (size_t)s->model->hp.n_embd;
    float *pair = s->work.nextn_pair + 2 * e * (size_t)s->batch.order[task];
    s->context.kernels->rms_norm(pair, s->nextn.embds + e * (size_t)task,
                                 hearth_vector_of(&w->nextn_embd_norm), e, s->model->hp.norm_eps);
    s->context.kernels->rms_norm(pair + e, s->nextn.states[task], hearth_vector_of(&w->nextn_state_norm), e,
                                 s->model->hp.norm_eps);
}

// The batch's input to it.
static void enter_nextn(struct hearth_session *s)
{
    struct job j = {.s = s};
    const int e = s->model->hp.n_embd;
    hearth_parallel(&s->context, pair_task, &j, s->batch.n);
    for (int i = 0; i < s->batch.n_classes; i++) {
        const struct hearth_rows rows = s->batch.classes[i];
        struct hearth_product in = {
            .w = s->context.weights->nextn_in, .out = hearth_row_of(s->work.x, rows.first, e), .n = rows.n};
        hearth_matmul(&s->work.matmul, rows.phase, &in, 1,
                      hearth_row_of(s->work.nextn_pair, rows.first, 2 * e), rows.n);
    }
}

int hearth_forward(struct hearth_session *s, struct hearth_error *err)
{
    const int n_layer = s->model->hp.n_layer;
    struct job j = {.s = s};
    if (s->model->hp.nextn) {
        hearth_forward_place(s);
        enter_nextn(s);
    } else {
        hearth_parallel(&s->context, input_task, &j, s->batch.n);
        give_layers(s);
    }
    s->context.looks_after = true;
    int from = n_layer; // the layer with which a device takes the batch, before its own ones, too
    if (s->offload) {
        s->context.elsewhere = hearth_offload_begin(s->offload);
        from = s->offload->from;
        skip_elsewhere(s);
    }
    for (int layer = 0; layer < n_layer;) {
        const bool is_here = layer != from && hearth_is_here(&s->context, layer);
        const int end = is_here ? layer : run_elsewhere(s, layer);
        if (end > layer) {
            layer = end;
            continue;
        }
        if (hearth_fault_is_raised(&s->fault) || begin(s, layer))
            break;
        look_late(s, layer);
        hearth_forward_layer(s, layer);
        hearth_sources_release(s->sources, layer);
        report(s, ++layer);
    }
    s->context.looks_after = false;
    if (s->offload && !hearth_fault_is_near(&s->fault))
        hearth_offload_end(s->offload);
    if (hearth_batch_count(&s->batch, HEARTH_PHASE_STEP) < s->batch.n)
        hearth_fault_look(&s->fault);
    return hearth_fault_take(&s->fault, err);
}

int hearth_forward_states(struct hearth_session *s, struct hearth_error *err)
{
    for (int layer = 0; layer < s->model->hp.n_layer && !hearth_fault_is_raised(&s->fault); layer++)
        if (hearth_is_recurrent(&s->model->hp, layer))
            hearth_recurrent_again(&s->work.recurrent, &s->batch, layer);
    if (s->model->hp.grams.size)
        hearth_grams_again(&s->work.grams, &s->batch);
    for (int layer = 0; layer < s->model->hp.n_layer; layer++)
        if (s->model->hp.blender.block[layer])
            hearth_blend_again(&s->work.blend, &s->batch, layer);
    return hearth_fault_take(&s->fault, err);
}

// Rows of the head that are in memory now, for all rows that are wanted: logits [n][V] from element `at` on.
static void compute_head(struct hearth_session *s, const struct hearth_rows *classes, int n_classes,
                         size_t at)
{
    const size_t n_vocab = (size_t)s->model->hp.n_vocab;
    for (int i = 0; i < n_classes; i++) {
        const struct hearth_rows rows = classes[i];
        struct hearth_product product = {.w = s->context.weights->output,
                                         .out = s->work.logits + (size_t)rows.first * n_vocab + at,
                                         .n = rows.n,
                                         .out_stride = n_vocab,
                                         .row = at};
        hearth_matmul(&s->work.matmul, rows.phase, &product, 1,
                      hearth_row_of(s->work.h, rows.first, s->model->hp.n_embd), rows.n);
    }
}

// One row of logits plus its biases, times the model's scale.
static void scale_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const int n_vocab = j->s->model->hp.n_vocab;
    const struct hearth_weight *bias = &j->s->context.weights->output_b;
    float *logits = hearth_row_of(j->s->work.logits, task, n_vocab);
    if (bias->data)
        j->s->model->kernels.add(logits, hearth_vector_of(bias), (size_t)n_vocab);
    for (int i = 0; j->s->model->hp.logit_scale != 1.0f && i < n_vocab; i++)
        logits[i] *= j->s->model->hp.logit_scale;
}

// Logits that one task caps.
#define CAP_CHUNK 16384

struct cap_job {
    struct hearth_session *s;
    int n_chunks; // of a row
};

static void cap_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct cap_job *j = arg;
    const struct hearth_hparams *hp = &j->s->model->hp;
    const int at = task % j->n_chunks * CAP_CHUNK, left = hp->n_vocab - at;
    const int n = left < CAP_CHUNK ? left : CAP_CHUNK;
    float *x = hearth_row_of(j->s->work.logits, task / j->n_chunks, hp->n_vocab) + at;
    hearth_soft_cap(&j->s->model->kernels, x, (size_t)n, 1.0f, hp->logit_cap);
}

void hearth_forward_norm(struct hearth_session *s, const int *wanted, int n)
{
    const struct hearth_weights *w = s->context.weights;
    const struct hearth_mixer mixer = {.norm = &w->output_norm,
                                       .down = &w->output_mix_down,
                                       .up = &w->output_mix_up,
                                       .fn = &w->output_mix,
                                       .base = &w->output_mix_b,
                                       .scale = &w->output_mix_scale,
                                       .last = true};
    if (s->model->hp.streams.predicts) {
        hearth_predict_end(&s->work.predict, wanted, n, s->work.x, s->work.h);
        return;
    }
    if (s->model->hp.streams.n) { // wanted rows of both classes are not apart
        hearth_streams_mix(&s->work.streams, (struct hearth_rows){0, n, HEARTH_PHASE_STEP}, &mixer, s->work.x,
                           wanted, s->work.h);
        return;
    }
    struct norm_job j = {.c = &s->context,
                         .w = &s->context.weights->output_norm,
                         .b = &s->context.weights->output_norm_b,
                         .x = s->work.x,
                         .h = s->work.h,
                         .from = wanted,
                         .ones = s->model->hp.unit_norms ? s->work.ones : NULL};
    hearth_parallel(&s->context, norm_task, &j, n);
}

// Whether a device has computed the head.
static bool head_elsewhere(struct hearth_session *s, const struct hearth_rows *classes, int n_classes)
{
    if (s->offload) // rows may come from an evaluation before
        skip_elsewhere(s);
    bool done = s->offload && !hearth_fault_look(&s->fault);
    for (int i = 0; i < n_classes && done; i++)
        done = hearth_offload_head(s->offload, classes[i].phase == HEARTH_PHASE_PROMPT,
                                   hearth_row_of(s->work.h, classes[i].first, s->model->hp.n_embd),
                                   hearth_row_of(s->work.logits, classes[i].first, s->model->hp.n_vocab),
                                   classes[i].n);
    if (s->offload && !done)
        skip_elsewhere(s);
    return done;
}

int hearth_forward_head(struct hearth_session *s, const struct hearth_rows *classes, int n_classes,
                        struct hearth_error *err)
{
    int n = 0;
    for (int i = 0; i < n_classes; i++)
        n += classes[i].n;
    // In one piece, unless the head streams.
    size_t at = head_elsewhere(s, classes, n_classes) ? (size_t)s->model->hp.n_vocab : 0;
    for (int part = s->model->hp.n_layer; at < (size_t)s->model->hp.n_vocab; part++) {
        if (begin(s, part))
            break;
        compute_head(s, classes, n_classes, at);
        hearth_sources_release(s->sources, part);
        at += s->context.weights->output.n;
    }
    struct job scale = {.s = s};
    if (s->model->hp.logit_scale != 1.0f || s->context.weights->output_b.data)
        hearth_parallel(&s->context, scale_task, &scale, n);
    struct cap_job cap = {s, (s->model->hp.n_vocab + CAP_CHUNK - 1) / CAP_CHUNK};
    if (s->model->hp.logit_cap > 0)
        hearth_parallel(&s->context, cap_task, &cap, n * cap.n_chunks);
    return hearth_fault_take(&s->fault, err);
}
