// SPDX-License-Identifier: MIT
// Makes a model sparse: see sparsify.h. A text passes the model as it is, layer by layer; of each layer what its neurons
// would give is looked at (sparsify_layer.c), and its new tensors are written before the text goes on.
#include "convert/sparsify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/sparsify_layer.h"
#include "convert/walk.h"
#include "engine/session.h"
#include "gguf/checksums.h"
#include "gguf/gguf.h"
#include "model/arch.h"

#define DEFAULT_CTX     512
#define DEFAULT_SAMPLES 4096
#define COPY_BYTES      ((size_t)4 << 20)
#define NAME_BYTES      64
// Of memory that the stream of all tokens may take where there is no budget.
#define STATE_BYTES (UINT64_C(4) << 30)

struct sparsifier {
    const struct hearth_model *model;
    const struct hearth_sparsify_params *params;
    const char *out;
    struct hearth_error *err;
    struct hearth_walk walk;
    struct hearth_window *windows;
    struct hearth_pool *pool;
    struct hearth_region memory;
    struct hearth_sparsify_layer layer;
    size_t n_seen; // samples of the layer so far
    struct hearth_gguf_writer *w;
    float *row;      // [max(E, F)]
    uint8_t *buffer; // [COPY_BYTES]
};

// ---- samples

static void on_ffn(void *arg, enum hearth_phase phase, int layer, struct hearth_row row, const float *normed,
                   const float *stream)
{
    (void)phase;
    (void)layer;
    (void)stream;
    struct sparsifier *s = arg;
    struct hearth_walk_place place;
    if (hearth_walk_row(&s->walk, row, &place) && s->n_seen < s->layer.s)
        memcpy(s->layer.x + s->n_seen++ * s->layer.e, normed, s->layer.e * sizeof *normed);
}

// ---- the new tensors of a layer, in the order in which they are declared

enum { GATE, BIAS, UP, LINEAR, N_NEW };

static const struct hearth_weight *weight_of(const struct hearth_layer *l, int which)
{
    return which == GATE ? &l->ffn_gate : &l->ffn_up;
}

static uint32_t type_of(const struct sparsifier *s, int layer, int which)
{
    const uint32_t type = weight_of(&s->model->weights.layers[layer], which)->type;
    if (which == BIAS)
        return HEARTH_TYPE_F32;
    if (which != LINEAR && (type == HEARTH_TYPE_F32 || type == HEARTH_TYPE_F16 || type == HEARTH_TYPE_BF16))
        return type;
    return s->layer.e % hearth_type_info(HEARTH_TYPE_Q8_0)->block_elems ? HEARTH_TYPE_F16 : HEARTH_TYPE_Q8_0;
}

static void name_of(int layer, int which, char *name)
{
    static const char *const names[N_NEW] = {"ffn_gate.weight", "ffn_gate.bias", "ffn_up.weight",
                                             "ffn_linear.weight"};
    snprintf(name, NAME_BYTES, "blk.%d.%s", layer, names[which]);
}

static int declare_layer(const struct sparsifier *s, int layer)
{
    int rc = HEARTH_OK;
    for (int which = 0; which < N_NEW && !rc; which++) {
        char name[NAME_BYTES];
        const uint64_t vector[1] = {s->layer.f},
                       matrix[2] = {s->layer.e, which == LINEAR ? s->layer.e : s->layer.f};
        name_of(layer, which, name);
        rc = hearth_gguf_put_tensor(s->w, name, type_of(s, layer, which), which == BIAS ? 1 : 2,
                                    which == BIAS ? vector : matrix, s->err);
    }
    return rc;
}

static int write_row(struct sparsifier *s, uint32_t type, const float *row)
{
    hearth_type_info(type)->encode(row, s->buffer, s->layer.e);
    return hearth_gguf_write(s->w, s->buffer, hearth_type_bytes(type, s->layer.e), s->err);
}

static int write_scaled(struct sparsifier *s, int layer, const struct hearth_weight *w, int which)
{
    const struct hearth_sparsify_layer *l = &s->layer;
    int rc = HEARTH_OK;
    for (size_t j = 0; j < l->f && !rc; j++) {
        const float by = which == GATE ? hearth_sparsify_gate_scale(l, j) : hearth_sparsify_up_scale(l, j);
        hearth_type_info(w->type)->decode((const uint8_t *)w->data + j * w->stride, s->row, l->e);
        for (size_t i = 0; i < l->e; i++)
            s->row[i] *= by;
        rc = write_row(s, type_of(s, layer, which), s->row);
    }
    return rc;
}

static int write_layer(struct sparsifier *s, int layer, const struct hearth_layer *now)
{
    const struct hearth_sparsify_layer *l = &s->layer;
    int rc = write_scaled(s, layer, weight_of(now, GATE), GATE);
    for (size_t j = 0; j < l->f; j++)
        s->row[j] = l->bias[j] * hearth_sparsify_gate_scale(l, j);
    if (!rc)
        rc = hearth_gguf_write(s->w, s->row, l->f * sizeof *s->row, s->err);
    if (!rc)
        rc = write_scaled(s, layer, weight_of(now, UP), UP);
    for (size_t i = 0; i < l->e && !rc; i++)
        rc = write_row(s, type_of(s, layer, LINEAR), l->linear + i * l->e);
    return rc;
}

static int do_layer(struct sparsifier *s, int layer)
{
    int rc = hearth_walk_enter(&s->walk, layer, s->err);
    if (rc)
        return rc;
    s->n_seen = 0;
    rc = hearth_walk_pass(&s->walk, layer, 0, s->walk.n_windows, true, s->err);
    if (!rc) {
        const struct hearth_layer *now = &s->walk.s->context.weights->layers[layer];
        if (hearth_sparsify_layer_fit(&s->layer, &now->ffn_gate, &now->ffn_up, &now->ffn_down, s->n_seen,
                                      s->params->density))
            rc = write_layer(s, layer, now);
        else
            rc = hearth_fail(
                s->err, HEARTH_E_FORMAT,
                "%s: weights of layer %d, or of one before, are not finite numbers: the file is damaged",
                s->model->info.path, layer);
    }
    hearth_walk_leave(&s->walk, layer);
    return rc;
}

// ---- the file

// Whether a tensor of the model is one that is made anew.
static bool is_new(const struct sparsifier *s, const struct hearth_gguf_tensor *t)
{
    char name[NAME_BYTES];
    for (int layer = 0; layer < s->model->hp.n_layer; layer++)
        for (int which = 0; which < N_NEW; which++) {
            name_of(layer, which, name);
            if (!strcmp(t->name.s, name))
                return true;
        }
    return !strcmp(t->name.s, HEARTH_CHECKSUMS_NAME);
}

static int put_metadata(struct sparsifier *s, const char *activation_key)
{
    // What most weights are in then: gates and ups, where their format changes.
    static const char file_type[] = "general.file_type";
    const uint32_t gates = type_of(s, 0, GATE);
    const bool changes = gates != s->model->weights.layers[0].ffn_gate.type;
    const struct hearth_gguf *g = s->model->gguf;
    const char *activation = hearth_activation_name(HEARTH_ACT_JUMP_RELU);
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g) && !rc; i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_kv_at(g, i);
        if (!hearth_gguf_is_layout_key(kv->key) && !hearth_str_is(kv->key, activation_key) &&
            !(changes && hearth_str_is(kv->key, file_type)))
            rc = hearth_gguf_put_kv(s->w, kv, s->err);
    }
    if (!rc && changes) // as GGUF numbers them
        rc = hearth_gguf_put_u32(s->w, file_type, gates == HEARTH_TYPE_F16 ? 1 : 7, s->err);
    return rc ? rc : hearth_gguf_put_str(s->w, activation_key, activation, strlen(activation), s->err);
}

// All metadata, all names, and the data of what stays as it is.
static int begin_file(struct sparsifier *s)
{
    const struct hearth_gguf *g = s->model->gguf;
    char key[NAME_BYTES];
    snprintf(key, sizeof key, "%s.feed_forward.activation", s->model->arch->name);
    int rc = hearth_gguf_writer_open(&s->w, s->out, s->err);
    if (!rc)
        rc = put_metadata(s, key);
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g) && !rc; i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        if (!is_new(s, t))
            rc = hearth_gguf_put_tensor(s->w, t->name.s, t->type, t->n_dims, t->ne, s->err);
    }
    for (int layer = 0; layer < s->model->hp.n_layer && !rc; layer++)
        rc = declare_layer(s, layer);
    if (!rc)
        rc = hearth_gguf_put_checksums(s->w, s->err);
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g) && !rc; i++)
        if (!is_new(s, hearth_gguf_tensor_at(g, i)))
            rc = hearth_gguf_copy(s->w, g, hearth_gguf_tensor_at(g, i), s->buffer, COPY_BYTES, s->err);
    return rc;
}

// ---- entry

static int check_layer(const struct sparsifier *s, int layer)
{
    const struct hearth_layer *l = &s->model->weights.layers[layer];
    if (hearth_has(&l->ffn_gate) && hearth_has(&l->ffn_down) && !hearth_has(&l->ffn_gate_b) &&
        !hearth_has(&l->ffn_up_b) && !hearth_has(&l->pred_fc1))
        return HEARTH_OK;
    return hearth_fail(
        s->err, HEARTH_E_UNSUPPORTED,
        "%s: layer %d has predictors, down by neuron, or biases of gate or up: only models without these can "
        "be made sparse",
        s->model->info.path, layer);
}

static int check_request(const struct sparsifier *s, size_t n_tokens)
{
    const struct hearth_model *m = s->model;
    if (!(s->params->density > 0 && s->params->density < 1))
        return hearth_fail_param(s->err, HEARTH_E_INVALID, "density",
                                 "a density is above 0 and below 100 %%");
    if (m->pack)
        return hearth_fail(s->err, HEARTH_E_INVALID, "%s: this is a pack; take the model that it was made of",
                           m->info.path);
    if (m->n_scales)
        return hearth_fail(
            s->err, HEARTH_E_UNSUPPORTED,
            "%s: matrices have scales beside them (NVFP4), which is not supported here; take the model "
            "in another format",
            m->info.path);
    if (hearth_is_relu(&m->hp))
        return hearth_fail(s->err, HEARTH_E_INVALID, "%s: this model is sparse already: its activation is %s",
                           m->info.path, hearth_activation_name(m->hp.activation));
    if (!hearth_arch_has_field(m->arch, offsetof(struct hearth_layer, ffn_linear)))
        return hearth_fail(
            s->err, HEARTH_E_UNSUPPORTED,
            "%s: models of architecture %s cannot be made sparse: they have no place for the linear "
            "part of neurons that are off",
            m->info.path, m->arch->name);
    if (m->hp.n_expert || !hearth_sparsify_can(m->hp.activation))
        return hearth_fail(
            s->err, HEARTH_E_UNSUPPORTED,
            "%s: a model of architecture %s with activation %s%s cannot be made sparse; models with SiLU or GELU "
            "and a gate, and without experts, can",
            m->info.path, m->arch->name, hearth_activation_name(m->hp.activation),
            m->hp.n_expert ? " and experts" : "");
    if (n_tokens < HEARTH_SPARSIFY_LEAST_TOKENS)
        return hearth_fail(s->err, HEARTH_E_INVALID,
                           "the text has %zu tokens; at least %d are needed, and some thousands are good",
                           n_tokens, HEARTH_SPARSIFY_LEAST_TOKENS);
    int rc = HEARTH_OK;
    for (int i = 0; i < m->hp.n_layer && !rc; i++)
        rc = check_layer(s, i);
    return rc;
}

// Windows that follow one another, from the text's beginning.
static int list_windows(struct sparsifier *s, size_t n_tokens)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const int most = hp->n_pos ? hp->n_pos : 1 << 26,
              asked = s->params->n_ctx > 1 ? s->params->n_ctx : DEFAULT_CTX;
    const int n_ctx = asked < most ? asked : most;
    const size_t room = (size_t)n_ctx - (hearth_token_bos(s->model) >= 0);
    const size_t wanted = s->params->n_samples > 0 ? (size_t)s->params->n_samples : DEFAULT_SAMPLES;
    const size_t n = n_tokens < wanted ? n_tokens : wanted, windows = (n + room - 1) / room;
    s->windows = hearth_calloc(windows, sizeof *s->windows);
    if (!s->windows)
        return hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for the windows of a text");
    for (size_t i = 0; i < windows; i++)
        s->windows[i] = (struct hearth_window){i * room, (int)(n - i * room < room ? n - i * room : room)};
    s->walk.windows = s->windows;
    s->walk.n_windows = windows;
    s->walk.n_ctx = n_ctx;
    s->layer.s = n;
    return HEARTH_OK;
}

static int take_memory(struct sparsifier *s)
{
    struct hearth_arena measure = {0};
    const size_t wide = s->layer.e > s->layer.f ? s->layer.e : s->layer.f;
    bool enough = true;
    int rc = hearth_pool_open(&s->pool, hearth_pool_threads(s->params->n_threads), s->err);
    if (rc)
        return rc;
    s->layer.kernels = &s->model->kernels;
    s->layer.pool = s->pool;
    hearth_sparsify_layer_lay_out(&s->layer, &measure);
    rc = hearth_region_open(&s->memory, measure.used, "making a layer sparse", s->err);
    if (rc)
        return rc;
    memset(s->memory.base, 0, s->memory.size); // so that a budget knows of it
    struct hearth_arena assign = {.base = s->memory.base, .size = s->memory.size};
    hearth_sparsify_layer_lay_out(&s->layer, &assign);
    s->row = hearth_take(wide, sizeof *s->row, &enough);
    s->buffer =
        hearth_take(COPY_BYTES > wide * sizeof(float) ? COPY_BYTES : wide * sizeof(float), 1, &enough);
    return enough ? HEARTH_OK : hearth_fail(s->err, HEARTH_E_MEMORY, "no memory to make a model sparse");
}

static bool on_progress(void *arg, int layer, float share)
{
    const struct sparsifier *s = arg;
    return s->params->progress(s->params->progress_arg, ((float)layer + share) / (float)s->model->hp.n_layer);
}

static int open_walk(struct sparsifier *s)
{
    s->walk.params = hearth_session_params_default();
    s->walk.params.sparsity = HEARTH_SPARSITY_OFF;
    const int rc = hearth_walk_open(&s->walk, s->err);
    if (rc)
        return rc;
    struct hearth_probes *probes = hearth_session_probes(s->walk.s);
    probes->on_ffn = on_ffn;
    probes->on_ffn_arg = s;
    return HEARTH_OK;
}

int hearth_sparsify(const struct hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                    const struct hearth_sparsify_params *params, const char *out, struct hearth_error *err)
{
    struct sparsifier s = {.model = model, .params = params, .out = out, .err = err};
    s.layer.e = (size_t)model->hp.n_embd;
    s.layer.f = (size_t)model->hp.n_ff;
    s.layer.activation = model->hp.activation;
    s.walk = (struct hearth_walk){.model = model,
                                  .tokens = tokens,
                                  .n_threads = params->n_threads,
                                  .n_ubatch = params->n_ubatch,
                                  .beside = out,
                                  .state_bytes = model->load.ram ? 0 : STATE_BYTES,
                                  .progress = params->progress ? on_progress : NULL,
                                  .progress_arg = &s};
    int rc = check_request(&s, n_tokens);
    if (!rc)
        rc = list_windows(&s, n_tokens);
    if (!rc)
        rc = take_memory(&s);
    if (!rc)
        rc = open_walk(&s);
    if (!rc)
        rc = begin_file(&s);
    for (int layer = 0; layer < model->hp.n_layer && !rc; layer++)
        rc = do_layer(&s, layer);
    if (!rc)
        rc = hearth_gguf_finish(&s.w, err);
    hearth_gguf_writer_close(&s.w);
    hearth_walk_close(&s.walk);
    hearth_pool_close(&s.pool);
    hearth_region_close(&s.memory);
    free(s.windows);
    free(s.row);
    free(s.buffer);
    return rc;
}
