// SPDX-License-Identifier: MIT
// Binding: finds the tensor of each role, checks its shape and type, and gives its bytes an offset in the
// image. The image is the memory that holds all weights one after the other.
#include "model/load.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/checksums.h"
#include "model/ffn.h"
#include "model/nextn.h"
#include "model/pack.h"
#include "model/scales.h"

// The least alignment of tensors in memory; GGUF's own default.
#define ALIGNED 32

#define MAX_RANK (1u << 20) // of a predictor

struct loader {
    struct hearth_model *model;
    size_t cap_items;
    int layer;         // the layer that is being bound; -1: tensors of no layer
    uint64_t n_params; // elements of all bound tensors
    struct hearth_error *err;
};

// The number that a layer has in the file.
static int in_file(const struct loader *l, int layer)
{
    return l->model->first_layer + layer;
}

// layer: that the tensor is of, or -1.
static uint64_t dim_value(const struct hearth_hparams *hp, enum hearth_dim dim, int layer)
{
    const bool windowed = layer >= 0 && hearth_window_of(hp, layer);
    const uint64_t head = (uint64_t)(windowed ? hp->head_dim_window : hp->head_dim),
                   heads = (uint64_t)(windowed ? hp->n_head_window : hp->n_head), q = heads * head,
                   heads_kv = (uint64_t)(layer >= 0 ? hearth_n_head_kv_of(hp, layer) : hp->n_head_kv),
                   kv = heads_kv * head, value = (uint64_t)(windowed ? hp->value_dim_window : hp->value_dim);
    switch (dim) {
    case HEARTH_DIM_NONE:
        return 1;
    case HEARTH_DIM_EMBD:
        return (uint64_t)hp->n_embd;
    case HEARTH_DIM_EMBD_TWICE:
        return 2 * (uint64_t)hp->n_embd;
    case HEARTH_DIM_FF:
        return (uint64_t)(layer < 0 ? hp->n_ff : hearth_n_ff_of(hp, layer));
    case HEARTH_DIM_FF_EXP:
        return (uint64_t)hp->n_ff_exp;
    case HEARTH_DIM_FF_EXP_TWICE:
        return 2 * (uint64_t)hp->n_ff_exp;
    case HEARTH_DIM_FF_TWICE:
        return 2 * (uint64_t)hp->n_ff;
    case HEARTH_DIM_FF_SHARED:
        return (uint64_t)hp->n_ff_shared;
    case HEARTH_DIM_HEADS:
        return heads;
    case HEARTH_DIM_HEADS_KV:
        return (uint64_t)hearth_n_head_kv_of(hp, layer);
    case HEARTH_DIM_HEADS_OR_Q:
    case HEARTH_DIM_Q:
        return q;
    case HEARTH_DIM_KV:
        return kv;
    case HEARTH_DIM_V:
        return heads_kv * value;
    case HEARTH_DIM_O:
        return heads * value;
    case HEARTH_DIM_QKV:
        return q + kv + heads_kv * value;
    case HEARTH_DIM_HEAD:
        return head;
    case HEARTH_DIM_VOCAB:
        return (uint64_t)hp->n_vocab;
    case HEARTH_DIM_ROT2:
        return (uint64_t)hp->n_rot / 2;
    case HEARTH_DIM_HEAD2:
        return head / 2;
    case HEARTH_DIM_EXPERTS:
        return (uint64_t)hp->n_expert;
    case HEARTH_DIM_POS:
        return (uint64_t)hp->n_pos + (uint64_t)hp->pos_offset;
    case HEARTH_DIM_Q_RANK:
        return (uint64_t)hp->latent.q_rank;
    case HEARTH_DIM_LATENT:
        return (uint64_t)hp->latent.rank;
    case HEARTH_DIM_LATENT_KEY:
        return head;
    case HEARTH_DIM_STILL:
        return (uint64_t)hp->latent.still;
    case HEARTH_DIM_HEADS_QUERY:
        return (uint64_t)hp->n_head * (uint64_t)(hp->latent.still + hp->n_rot);
    case HEARTH_DIM_HEADS_BOTH:
        return (uint64_t)hp->n_head * (uint64_t)(hp->latent.still + hp->latent.value);
    case HEARTH_DIM_HEADS_VALUE:
        return (uint64_t)hp->n_head * (uint64_t)hp->latent.value;
    case HEARTH_DIM_VALUE:
        return (uint64_t)hp->latent.value;
    case HEARTH_DIM_ONE:
        return 1;
    case HEARTH_DIM_EMBD_LAYER:
        return (uint64_t)hp->n_embd_layer;
    case HEARTH_DIM_EMBD_LAYERS:
        return (uint64_t)hp->n_embd_layer * (uint64_t)hp->n_layer;
    case HEARTH_DIM_Q_TWICE:
        return 2 * q;
    case HEARTH_DIM_REC_IN:
        return (uint64_t)hp->recurrence.n_in;
    case HEARTH_DIM_REC_CHANNELS:
        return (uint64_t)hp->recurrence.n_channels;
    case HEARTH_DIM_REC_TAPS:
        return (uint64_t)hp->recurrence.n_taps;
    case HEARTH_DIM_REC_VALUES:
        return (uint64_t)hp->recurrence.n_values;
    case HEARTH_DIM_REC_HEADS:
        return (uint64_t)hp->recurrence.n_heads;
    case HEARTH_DIM_REC_HEADS_TWICE:
        return 2 * (uint64_t)hp->recurrence.n_heads;
    case HEARTH_DIM_REC_HEAD:
        return (uint64_t)hp->recurrence.dim;
    case HEARTH_DIM_REC_GROUPS:
        return (uint64_t)hp->recurrence.n_keys;
    case HEARTH_DIM_REC_GROUP:
        return (uint64_t)(hp->recurrence.n_keys ? hp->recurrence.n_values / hp->recurrence.n_keys : 0);
    case HEARTH_DIM_EMBD_EXP:
        return (uint64_t)hearth_ffn_width(hp);
    case HEARTH_DIM_STREAMS:
        return (uint64_t)hearth_stream_width(hp);
    case HEARTH_DIM_STREAM_COUNT:
        return (uint64_t)hp->streams.n;
    case HEARTH_DIM_STREAM_SQUARE:
        return (uint64_t)hp->streams.n * (uint64_t)hp->streams.n;
    case HEARTH_DIM_MIX_RANK:
        return (uint64_t)hp->streams.rank;
    case HEARTH_DIM_MIX:
        return (uint64_t)(2 + (hp->streams.rounds ? hp->streams.n : 0)) * (uint64_t)hp->streams.n;
    case HEARTH_DIM_MIX_KINDS:
        return hp->streams.rounds ? 3 : 2;
    case HEARTH_DIM_OUT_GROUP:
        return hp->out_groups ? q / (uint64_t)hp->out_groups : 0;
    case HEARTH_DIM_OUT_LOW:
        return (uint64_t)hp->out_groups * (uint64_t)hp->out_rank;
    case HEARTH_DIM_BLEND:
        return head << hearth_blend_overlaps(hp, layer);
    case HEARTH_DIM_BLOCK:
        return hp->blender.block[layer];
    case HEARTH_DIM_CHOOSER_TWICE:
        return 2 * (uint64_t)hp->chooser.dim;
    case HEARTH_DIM_EXPERTS_USED:
        return (uint64_t)hp->n_expert_used;
    case HEARTH_DIM_CHOOSER:
        return (uint64_t)hp->chooser.dim;
    case HEARTH_DIM_CHOOSER_Q:
        return (uint64_t)hp->chooser.dim * (uint64_t)hp->chooser.n_heads;
    case HEARTH_DIM_CHOOSER_HEADS:
        return (uint64_t)hp->chooser.n_heads;
    case HEARTH_DIM_GRAM:
        return (uint64_t)hp->grams.dim;
    case HEARTH_DIM_GRAMS:
        return (uint64_t)hp->grams.dim * (uint64_t)hp->grams.n;
    case HEARTH_DIM_GRAM_ROWS:
        return (uint64_t)hp->grams.rows;
    case HEARTH_DIM_GRAM_TAPS:
        return (uint64_t)hp->grams.n_taps;
    case HEARTH_DIM_RANK:
        break;
    }
    return 0;
}

// The types that have kernels: "F32, F16, ...".
static void list_types(const struct hearth_kernels *kernels, char *out, size_t size)
{
    size_t at = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END && at < size; type++)
        if (kernels->step[type])
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", hearth_type_info(type)->name);
}

// Whether it is kept as f32.
static bool is_vector(const struct hearth_binding *b)
{
    return b->n == HEARTH_DIM_NONE || b->need == HEARTH_EACH_VECTOR || b->need == HEARTH_RECURS_F32 ||
           b->need == HEARTH_RECURS_MAYBE || b->need == HEARTH_RECURS_TAPS || b->need == HEARTH_GRAMS_F32 ||
           b->need == HEARTH_OPTIONAL_F32 || b->need == HEARTH_ALWAYS_F32 || b->need == HEARTH_BLENDS_F32 ||
           b->need == HEARTH_BLENDS_BEST_F32;
}

// Whether there are kernels for the tensor t in this type.
static int check_type(struct loader *l, const struct hearth_gguf_tensor *t, uint32_t type, bool vector)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const struct hearth_kernels *kernels = &l->model->kernels;
    if (vector ? info->decode != NULL : kernels->step[type] && kernels->prompt[type])
        return HEARTH_OK;
    char known[256];
    list_types(kernels, known, sizeof known);
    const bool quantised = info->block_elems > 1;
    return hearth_fail(
        l->err, HEARTH_E_UNSUPPORTED, "%s: tensor %s has type %s, which is not supported; supported: %s%s",
        hearth_gguf_path(l->model->gguf), t->name.s, info->name, known,
        quantised ? ". Take another file of the model, such as Q4_K_M, or the smaller Q2_K" : "");
}

// Checks shape and type; n_matrices is the expected ne[2].
static int check_tensor(struct loader *l, const struct hearth_gguf_tensor *t, const struct hearth_binding *b,
                        int n_matrices)
{
    const struct hearth_hparams *hp = &l->model->hp;
    const char *path = hearth_gguf_path(l->model->gguf);
    // Any rank will do here; check_predictors() compares fc1 and fc2.
    const bool free_k = b->k == HEARTH_DIM_RANK && t->ne[0] <= MAX_RANK;
    const bool free_n = (b->n == HEARTH_DIM_RANK && t->ne[1] <= MAX_RANK) ||
                        (b->n == HEARTH_DIM_GRAM_ROWS && t->ne[1] >= hp->grams.rows && t->ne[1] <= INT32_MAX);
    const bool by_head =
        b->n == HEARTH_DIM_HEADS_OR_Q && t->ne[1] == dim_value(hp, HEARTH_DIM_HEADS, l->layer);
    const uint64_t k = free_k ? t->ne[0] : dim_value(hp, b->k, l->layer),
                   n = free_n || by_head ? t->ne[1] : dim_value(hp, b->n, l->layer);
    const uint64_t x = (uint64_t)n_matrices;
    const bool taps = b->need == HEARTH_RECURS_TAPS && t->ne[1] == 1 && t->ne[2] == n;
    if (t->ne[0] != k || t->ne[3] != 1 || (!taps && (t->ne[1] != n || t->ne[2] != x)))
        return hearth_fail(
            l->err, HEARTH_E_FORMAT,
            "%s: tensor %s is %llu x %llu x %llu where the hyper-parameters say %llu x %llu x %llu: "
            "the file is damaged or was converted wrongly",
            path, t->name.s, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
            (unsigned long long)t->ne[2], (unsigned long long)k, (unsigned long long)n,
            (unsigned long long)x);

    if (b->need == HEARTH_BY_TOKEN && t->type != HEARTH_TYPE_I32)
        return hearth_fail(l->err, HEARTH_E_UNSUPPORTED,
                           "%s: tensor %s has type %s where whole numbers (I32) are supported", path,
                           t->name.s, hearth_type_info(t->type)->name);
    return b->need == HEARTH_BY_TOKEN ? HEARTH_OK : check_type(l, t, t->type, is_vector(b));
}

// Reserves `bytes` of the image for t.
static int reserve(struct loader *l, const struct hearth_gguf_tensor *t, uint64_t bytes, size_t *offset)
{
    size_t *end = &l->model->image_bytes;
    if (*end > SIZE_MAX / 2 || bytes > SIZE_MAX / 2)
        return hearth_fail(l->err, HEARTH_E_FORMAT, "%s: tensors add up to more than can be addressed",
                           hearth_gguf_path(l->model->gguf));
    // Offsets in image and file are equal modulo a page, so that direct reads need no copy. (A region starts
    // on a page.) A file may have unaligned tensors; in memory they are aligned.
    *end += (size_t)((t->offset % ALIGNED ? 0 : t->offset) - *end) % HEARTH_IMAGE_PAGE;
    *offset = *end;
    *end += (size_t)bytes;
    return HEARTH_OK;
}

static int add_item(struct loader *l, struct hearth_item item)
{
    struct hearth_model *m = l->model;
    if (m->n_items == l->cap_items) {
        size_t cap = l->cap_items ? 2 * l->cap_items : 256;
        struct hearth_item *grown = hearth_reallocarray(m->items, cap, sizeof *grown);
        if (!grown)
            return hearth_fail(l->err, HEARTH_E_MEMORY, "no memory for the tensor list");
        m->items = grown;
        l->cap_items = cap;
    }
    item.layer = l->layer;
    m->items[m->n_items++] = item;
    if (!item.bundle)
        l->n_params += item.tensor->ne[0] * item.tensor->ne[1] * item.tensor->ne[2];
    return HEARTH_OK;
}

// Fills w for the shape of t, which is the item numbered so. The matrices of heads become one.
static void set_weight(struct hearth_weight *w, const struct hearth_gguf_tensor *t,
                       const struct hearth_binding *b, size_t item)
{
    w->type = is_vector(b) ? HEARTH_TYPE_F32 : t->type;
    w->k = (size_t)t->ne[0];
    const bool whole =
        b->need == HEARTH_EACH_HEAD || b->need == HEARTH_EACH_STREAM || b->need == HEARTH_RECURS_TAPS;
    w->n = (size_t)(whole ? t->ne[1] * t->ne[2] : t->ne[1]);
    w->stride = hearth_type_bytes(w->type, w->k);
    w->item = (int32_t)item;
}

static int missing(struct loader *l, const char *name)
{
    return hearth_fail(l->err, HEARTH_E_FORMAT, "%s: tensor %s is missing: the file is incomplete",
                       hearth_gguf_path(l->model->gguf), name);
}

// Whether a binding is one of the experts' own matrices, not of their predictors.
static bool is_of_experts(const struct hearth_binding *b)
{
    return hearth_need_is_each(b->need) && b->k != HEARTH_DIM_RANK && b->n != HEARTH_DIM_RANK;
}

// Binds one tensor that holds a matrix, a vector, or the matrices of all experts.
static int bind_tensor(struct loader *l, const struct hearth_gguf_tensor *t, const struct hearth_binding *b,
                       struct hearth_weight *w)
{
    const bool vector = is_vector(b), to_f32 = vector && t->type != HEARTH_TYPE_F32;
    size_t offset = 0;
    int rc = check_tensor(l, t, b,
                          hearth_need_is_each(b->need)    ? l->model->hp.n_expert
                          : b->need == HEARTH_EACH_HEAD   ? l->model->hp.n_head
                          : b->need == HEARTH_EACH_STREAM ? l->model->hp.streams.n - 1
                                                          : 1);
    const uint64_t bytes =
        to_f32 && !rc ? hearth_type_bytes(HEARTH_TYPE_F32, t->ne[0]) * t->ne[1] * t->ne[2] : t->bytes;
    if (!rc)
        rc = reserve(l, t, bytes, &offset);
    if (!rc)
        rc = add_item(l, (struct hearth_item){.tensor = t,
                                              .offset = offset,
                                              .bytes = (size_t)bytes,
                                              .vector = vector,
                                              .to_f32 = to_f32,
                                              .of_experts = is_of_experts(b)});
    if (!rc)
        set_weight(w, t, b, l->model->n_items - 1);
    return rc;
}

// Binds experts with a tensor each, as in files from before 2024: "blk.0.ffn_up.3.weight" is what later files
// have as a slice of "blk.0.ffn_up_exps.weight". In memory both have the same layout.
static int bind_single_experts(struct loader *l, const char *joint, int layer, const struct hearth_binding *b,
                               struct hearth_weight *w)
{
    const struct hearth_model *m = l->model;
    const int stem = (int)(strstr(b->name, "_exps") - b->name);
    size_t offset = 0;
    for (int e = 0; e < m->hp.n_expert; e++) {
        char name[96];
        snprintf(name, sizeof name, "blk.%d.%.*s.%d.weight", in_file(l, layer), stem, b->name, e);
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor(m->gguf, name);
        if (!t)
            return missing(l, e ? name : joint);
        int rc = check_tensor(l, t, b, 1);
        if (!rc && e && t->type != w->type)
            rc = hearth_fail(l->err, HEARTH_E_UNSUPPORTED,
                             "%s: tensor %s has another type than expert 0's, which is not supported",
                             hearth_gguf_path(m->gguf), name);
        if (!rc && !e) // all experts have the size of the first
            rc = reserve(l, t,
                         t->bytes < SIZE_MAX / HEARTH_MAX_EXPERTS ? t->bytes * (uint64_t)m->hp.n_expert
                                                                  : SIZE_MAX,
                         &offset);
        if (!rc)
            rc = add_item(l, (struct hearth_item){.tensor = t,
                                                  .offset = offset + (size_t)e * (size_t)t->bytes,
                                                  .bytes = (size_t)t->bytes,
                                                  .of_experts = true});
        if (rc)
            return rc;
        if (!e)
            set_weight(w, t, b, m->n_items - 1);
    }
    return HEARTH_OK;
}

// Whether models with these hyper-parameters have the binding at all, in this layer.
static bool applies(const struct hearth_binding *b, const struct hearth_hparams *hp, int layer)
{
    const bool experts = hearth_has_experts(hp, layer);
    switch (b->need) {
    case HEARTH_DENSE:
    case HEARTH_MAYBE_DENSE:
        return hp->n_expert == 0 && hearth_feeds(hp, layer);
    case HEARTH_LEADING:
        return !experts && hearth_feeds(hp, layer);
    case HEARTH_SHARED:
        return experts && hp->n_ff_shared;
    case HEARTH_EXPERTS:
    case HEARTH_EACH_VECTOR:
    case HEARTH_EACH_EXPERT:
    case HEARTH_MAYBE_EACH:
        return experts;
    case HEARTH_WHOLE_Q:
        return !hp->latent.q_rank && hearth_attends(hp, layer);
    case HEARTH_TWO_STEP_Q:
        return hp->latent.q_rank && hearth_attends(hp, layer);
    case HEARTH_JOINT:
        return hp->latent.joint && hearth_attends(hp, layer);
    case HEARTH_EACH_HEAD:
        return !hp->latent.joint && hearth_attends(hp, layer);
    case HEARTH_ATTENDS:
        return hearth_attends(hp, layer);
    case HEARTH_CHOOSES:
        return hearth_chooses(hp, layer);
    case HEARTH_MIXES:
        return hearth_mixes(hp, layer);
    case HEARTH_FEEDS:
        return hearth_feeds(hp, layer);
    case HEARTH_SMALL_EXPERTS:
        return experts && hp->n_embd_exp;
    case HEARTH_RECURS:
    case HEARTH_RECURS_F32:
    case HEARTH_RECURS_MAYBE:
    case HEARTH_RECURS_TAPS:
        return hearth_is_recurrent(hp, layer);
    case HEARTH_OWN_KEYS:
    case HEARTH_OWN_VALUES:
        return hearth_keys_of(hp, layer) == layer;
    case HEARTH_GRAMS:
    case HEARTH_GRAMS_F32:
        return hp->grams.size && (layer < 0 || layer == hp->grams.layer);
    case HEARTH_BLENDS:
    case HEARTH_BLENDS_F32:
        return hp->blender.block[layer] != 0;
    case HEARTH_BLENDS_BEST:
    case HEARTH_BLENDS_BEST_F32:
        return hearth_blend_overlaps(hp, layer);
    case HEARTH_BY_TOKEN:
        return experts && hearth_is_by_token(hp, layer);
    case HEARTH_BY_SCORE:
        return experts && !hearth_is_by_token(hp, layer);
    case HEARTH_TOKEN_GIVES:
        return hp->n_embd_layer != 0;
    case HEARTH_SERIES:
        return !hp->parallel;
    case HEARTH_ALWAYS:
    case HEARTH_ALWAYS_F32:
    case HEARTH_EACH_STREAM:
    case HEARTH_OPTIONAL:
    case HEARTH_OPTIONAL_F32:
        break;
    case HEARTH_FUSED:
    case HEARTH_MAYBE_FUSED:
        return !hp->uneven || hearth_attends(hp, layer);
    }
    return true;
}

// Whether this is ffn_down and the layer's down is stored by neuron (ffn_down_t) instead.
static bool has_down_by_neuron(const struct loader *l, int layer, const struct hearth_binding *b)
{
    const bool down = b->field == offsetof(struct hearth_layer, ffn_down) && b->k == HEARTH_DIM_FF;
    const bool each = b->field == offsetof(struct hearth_layer, ffn_down_exps) && b->k == HEARTH_DIM_FF_EXP;
    char name[96];
    snprintf(name, sizeof name, "blk.%d.ffn_down_t%s.weight", in_file(l, layer), each ? "_exps" : "");
    return (down || each) && hearth_gguf_tensor(l->model->gguf, name);
}

static bool has_tensor(const struct loader *l, int layer, const char *of_layer)
{
    char name[96];
    snprintf(name, sizeof name, "blk.%d.%s", in_file(l, layer), of_layer);
    return hearth_gguf_tensor(l->model->gguf, name);
}

// Whether the layer has in one tensor what this is a part of: gate and up of experts, or queries, keys and values. Biases
// of these may be apart where the matrices are in one, not the other way round.
static bool is_fused(const struct loader *l, int layer, const struct hearth_binding *b)
{
    static const struct {
        size_t part, whole;
        const char *name;
    } fused[] = {
#define PART(part, whole, name)                                                                              \
    {offsetof(struct hearth_layer, part), offsetof(struct hearth_layer, whole), name}
        PART(ffn_gate_exps, ffn_gate_up_exps, "ffn_gate_up_exps.weight"),
        PART(ffn_up_exps, ffn_gate_up_exps, "ffn_gate_up_exps.weight"),
        PART(attn_q, attn_qkv, "attn_qkv.weight"),
        PART(attn_k, attn_qkv, "attn_qkv.weight"),
        PART(attn_v, attn_qkv, "attn_qkv.weight"),
        PART(attn_q_b, attn_qkv_b, "attn_qkv.bias"),
        PART(attn_k_b, attn_qkv_b, "attn_qkv.bias"),
        PART(attn_v_b, attn_qkv_b, "attn_qkv.bias"),
#undef PART
    };
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
        if (l->layer >= 0 && b->field == fused[i].part &&
            hearth_arch_has_field(l->model->arch, fused[i].whole) && has_tensor(l, layer, fused[i].name))
            return b->n != HEARTH_DIM_NONE || has_tensor(l, layer, "attn_qkv.weight");
    return false;
}

// Whether the layer has it in another tensor; or has none, as its queries, keys and values are not in one.
static bool is_elsewhere(const struct loader *l, int layer, const struct hearth_binding *b)
{
    if (b->need != HEARTH_FUSED && b->need != HEARTH_MAYBE_FUSED)
        return is_fused(l, layer, b);
    return !has_tensor(l, layer, "attn_qkv.weight");
}

// Finds an optional tensor of all experts. Packs name predictors alike with and without experts.
static const struct hearth_gguf_tensor *find_maybe_each(const struct loader *l, int layer,
                                                        const struct hearth_binding *b)
{
    const int stem = (int)(strstr(b->name, "_exps") - b->name);
    char name[96];
    snprintf(name, sizeof name, "blk.%d.%.*s.weight", in_file(l, layer), stem, b->name);
    return hearth_gguf_tensor(l->model->gguf, name);
}

// Finds the bias of down: PowerInfer's files name it after the matrix.
static const struct hearth_gguf_tensor *find_down_bias(const struct loader *l, int layer)
{
    char name[96];
    snprintf(name, sizeof name, "blk.%d.ffn_down_t.bias", in_file(l, layer));
    return hearth_gguf_tensor(l->model->gguf, name);
}

// Where a pack has a binding: a part of the layer's bundles; HEARTH_PARTS: nowhere, because down is stored by
// neuron; -1: in an ordinary tensor.
static int part_of(const struct loader *l, const struct hearth_binding *b)
{
    static const struct {
        size_t field;
        int part;
    } parts[] = {{offsetof(struct hearth_layer, ffn_gate), HEARTH_PART_GATE},
                 {offsetof(struct hearth_layer, ffn_gate_exps), HEARTH_PART_GATE},
                 {offsetof(struct hearth_layer, ffn_up), HEARTH_PART_UP},
                 {offsetof(struct hearth_layer, ffn_up_exps), HEARTH_PART_UP},
                 {offsetof(struct hearth_layer, ffn_down_t), HEARTH_PART_DOWN},
                 {offsetof(struct hearth_layer, ffn_down_t_exps), HEARTH_PART_DOWN},
                 {offsetof(struct hearth_layer, ffn_down), HEARTH_PARTS},
                 {offsetof(struct hearth_layer, ffn_down_exps), HEARTH_PARTS}};
    for (size_t i = 0; l->model->pack && i < sizeof parts / sizeof *parts; i++)
        if (parts[i].field == b->field)
            return parts[i].part == HEARTH_PART_GATE && l->model->pack->gates_apart ? -1 : parts[i].part;
    return -1;
}

// Binds a part of the layer's bundles, which becomes a matrix (of each expert).
static int bind_part(struct loader *l, int layer, int part, struct hearth_weight *w)
{
    const struct hearth_pack *p = l->model->pack;
    const struct hearth_bundle *b = &p->layers[layer];
    if (!b->bytes[part])
        return hearth_fail(l->err, HEARTH_E_FORMAT, "%s: the pack has no gate, which architecture %s needs",
                           hearth_gguf_path(l->model->gguf), l->model->arch->name);
    size_t offset = 0;
    int rc = check_type(l, b->tensor, b->type[part], false);
    // b->tensor lies in the file, so this product fits: it is less than the tensor's bytes.
    if (!rc)
        rc = reserve(l, b->tensor, (uint64_t)b->bytes[part] * b->n * p->n_expert, &offset);
    if (rc)
        return rc;
    *w = (struct hearth_weight){.type = b->type[part],
                                .k = p->n_embd,
                                .n = b->n,
                                .stride = b->bytes[part],
                                .at = offset}; // the item comes with the layer's bundles
    l->n_params += (uint64_t)p->n_embd * b->n * p->n_expert;
    return HEARTH_OK;
}

// Binds what files have as one matrix and bundles have apart: gate and up.
static int bind_halves(struct loader *l, int layer)
{
    struct hearth_layer *to = &l->model->weights.layers[layer];
    const int rc = bind_part(l, layer, HEARTH_PART_GATE, &to->ffn_gate);
    return rc ? rc : bind_part(l, layer, HEARTH_PART_UP, &to->ffn_up);
}

static int bind(struct loader *l, const char *name, int layer, const struct hearth_binding *b,
                struct hearth_weight *w)
{
    if (!applies(b, &l->model->hp, layer) || is_elsewhere(l, layer, b))
        return HEARTH_OK;
    // Fields of layers only: those of the model have offsets of their own.
    const int part = strncmp(name, "blk.", 4) ? -1 : part_of(l, b);
    if (l->model->pack && b->n == HEARTH_DIM_FF_TWICE)
        return bind_halves(l, layer);
    if (part >= 0)
        return part < HEARTH_PARTS ? bind_part(l, layer, part, w) : HEARTH_OK;
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(l->model->gguf, name);
    if (!t && b->need == HEARTH_MAYBE_EACH)
        t = find_maybe_each(l, layer, b);
    if (!t && b->field == offsetof(struct hearth_layer, ffn_down_b) && b->k == HEARTH_DIM_EMBD)
        t = find_down_bias(l, layer);
    if (has_down_by_neuron(l, layer, b)) {
        if (!t)
            return HEARTH_OK;
        return hearth_fail(l->err, HEARTH_E_UNSUPPORTED,
                           "%s: layer %d has both %s and the same by neuron (ffn_down_t); one must go",
                           hearth_gguf_path(l->model->gguf), layer, b->name);
    }
    if (t)
        return bind_tensor(l, t, b, w);
    if (b->need == HEARTH_EACH_EXPERT)
        return bind_single_experts(l, name, layer, b, w);
    const bool optional = b->need == HEARTH_OPTIONAL || b->need == HEARTH_OPTIONAL_F32 ||
                          b->need == HEARTH_MAYBE_FUSED || b->need == HEARTH_RECURS_MAYBE ||
                          b->need == HEARTH_MAYBE_DENSE || b->need == HEARTH_MAYBE_EACH ||
                          (b->need == HEARTH_OWN_VALUES && !hearth_window_of(&l->model->hp, layer));
    return optional ? HEARTH_OK : missing(l, name);
}

static struct hearth_weight *field_of(void *base, size_t offset)
{
    return (struct hearth_weight *)(void *)((char *)base + offset);
}

static int bind_all(struct loader *l)
{
    struct hearth_model *m = l->model;
    l->layer = -1;
    for (const struct hearth_binding *b = m->hp.nextn ? hearth_nextn_globals : m->arch->globals; b->name;
         b++) {
        char name[96];
        if (hearth_nextn_owns(b))
            snprintf(name, sizeof name, "blk.%d.%s", in_file(l, 0), b->name);
        else
            snprintf(name, sizeof name, "%s", b->name);
        int rc = bind(l, name, -1, b, field_of(&m->weights, b->field));
        if (rc)
            return rc;
    }
    for (int i = 0; i < m->hp.n_layer; i++)
        for (const struct hearth_binding *b = m->arch->layer; b->name; b++) {
            char name[96];
            snprintf(name, sizeof name, "blk.%d.%s", in_file(l, i), b->name);
            l->layer = i;
            int rc = bind(l, name, i, b, field_of(&m->weights.layers[i], b->field));
            if (rc)
                return rc;
        }
    return HEARTH_OK;
}

// Whether it is of a layer behind the model's own.
static bool is_extra(const struct hearth_model *m, const char *name)
{
    for (int i = m->hp.n_layer; i < m->hp.n_layer + m->hp.n_extra; i++) {
        char start[32];
        const int n = snprintf(start, sizeof start, "blk.%d.", i);
        if (!strncmp(name, start, (size_t)n))
            return true;
    }
    return false;
}

// Whether it is a part of a matrix that the file has whole, too, or the other way round.
static bool is_twice(const struct hearth_model *m, const char *name)
{
    if (!m->hp.latent.joint)
        return m->hp.latent.rank && strstr(name, ".attn_kv_b.");
    return strstr(name, ".attn_k_b.") || strstr(name, ".attn_v_b.");
}

// Whether it makes keys or values of a layer that attends to those of an earlier one: checkpoints have such
// tensors, too, which nothing uses.
static bool is_spare(const struct hearth_model *m, const char *name)
{
    for (int i = m->hp.n_layer - m->hp.n_borrowing; i < m->hp.n_layer; i++) {
        char start[32];
        const int n = snprintf(start, sizeof start, "blk.%d.attn_", i);
        if (!strncmp(name, start, (size_t)n) &&
            (!strcmp(name + n, "k.weight") || !strcmp(name + n, "v.weight") ||
             !strcmp(name + n, "k_norm.weight")))
            return true;
    }
    return false;
}

// Refuses files with tensors that the architecture does not know: without them the results would differ from
// the model's. Tables that old converters wrote and no program reads are accepted.
static int check_unknown(struct loader *l)
{
    struct hearth_model *m = l->model;
    const uint64_t n = hearth_gguf_n_tensors(m->gguf);
    const struct hearth_gguf_tensor *first = hearth_gguf_tensor_at(m->gguf, 0);
    bool *bound = hearth_calloc((size_t)n, sizeof *bound);
    if (!bound)
        return hearth_fail(l->err, HEARTH_E_MEMORY, "no memory for the tensor list");
    for (size_t i = 0; i < l->model->n_items; i++)
        bound[l->model->items[i].tensor - first] = true;
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < n && !rc; i++) {
        const char *name = first[i].name.s;
        const bool passes = is_extra(m, name) || is_twice(m, name) || is_spare(m, name) ||
                            (m->arch->blends && strstr(name, ".exp_probs_b_vl.")) || // of images
                            strstr(name, "attn_rot_embd") || strstr(name, "rotary_emb.inv_freq") ||
                            !strcmp(name, HEARTH_CHECKSUMS_NAME) || hearth_is_scale(m, name) ||
                            (m->pack && hearth_pack_owns(&first[i]));
        if (!bound[i] && !passes)
            rc = hearth_fail(
                l->err, HEARTH_E_UNSUPPORTED,
                "%s: tensor %.80s is not known for architecture %s: the model needs something this "
                "build does not do",
                hearth_gguf_path(m->gguf), name, m->arch->name);
    }
    free(bound);
    return rc;
}

// Checks that each predictor has both of its matrices, and that they fit together.
static int check_predictors(struct loader *l)
{
    struct hearth_model *m = l->model;
    for (int i = 0; i < m->hp.n_layer; i++) {
        const struct hearth_layer *layer = &m->weights.layers[i];
        const struct hearth_weight *fc1 = m->hp.n_expert ? &layer->pred_fc1_exps : &layer->pred_fc1;
        const struct hearth_weight *fc2 = m->hp.n_expert ? &layer->pred_fc2_exps : &layer->pred_fc2;
        const char *each = m->hp.n_expert ? "_exps" : "";
        if (hearth_has(fc1) != hearth_has(fc2) || (fc1->n != fc2->k && fc1->n + fc1->k != fc2->k))
            return hearth_fail(
                l->err, HEARTH_E_FORMAT,
                "%s: of the predictor blk.%d.fc1%s.weight, blk.%d.fc2%s.weight one is missing, "
                "or they do not fit together",
                hearth_gguf_path(m->gguf), i, each, i, each);
        m->hp.has_predictors |= hearth_has(fc1);
        m->hp.has_linear |= hearth_has(&layer->ffn_linear);
    }
    return HEARTH_OK;
}

// A bias that decides about experts, too, goes with scores that do not depend on one another, or with all of a softmax.
static int check_choices(const struct loader *l)
{
    const struct hearth_model *m = l->model;
    for (int i = 0; i < m->hp.n_layer; i++)
        if (hearth_has(&m->weights.layers[i].ffn_choice_b) && !m->hp.softmax_choice &&
            m->hp.expert_gating == HEARTH_GATING_SOFTMAX)
            return hearth_fail(
                l->err, HEARTH_E_UNSUPPORTED,
                "%s: experts chosen by a bias and softmax are not supported for architecture %s",
                hearth_gguf_path(m->gguf), m->arch->name);
    return HEARTH_OK;
}

// Finds an array with a number per space. *found is NULL if there is none.
static int find_spaces(struct loader *l, const char *key, const struct hearth_gguf_kv **found)
{
    const struct hearth_hparams *hp = &l->model->hp;
    const size_t n = (size_t)hp->n_layer * (size_t)(hp->n_expert ? hp->n_expert : 1);
    const struct hearth_gguf_kv *kv = hearth_gguf_find(l->model->gguf, key);
    if (kv && (kv->type != HEARTH_GGUF_ARRAY || kv->strings || kv->count != n))
        return hearth_fail(l->err, HEARTH_E_FORMAT, "%s: %s must be an array of %zu numbers, one per space",
                           hearth_gguf_path(l->model->gguf), key, n);
    *found = kv;
    return HEARTH_OK;
}

bool hearth_are_magnitudes(const struct hearth_gguf_kv *kv, int n_layer)
{
    const uint64_t n = (uint64_t)n_layer * HEARTH_MAGNITUDES;
    bool fits = kv->type == HEARTH_GGUF_ARRAY && kv->element == HEARTH_GGUF_F32 && kv->count == n;
    double last = 0;
    for (uint64_t i = 0; fits && i < n; i++) {
        const double x = hearth_gguf_kv_f64(kv, i);
        fits = x <= (double)FLT_MAX && x >= (i % HEARTH_MAGNITUDES ? last : 0);
        last = x;
    }
    return fits;
}

static int read_magnitudes(struct loader *l)
{
    struct hearth_model *m = l->model;
    const size_t n = (size_t)m->hp.n_layer * HEARTH_MAGNITUDES;
    const struct hearth_gguf_kv *kv = hearth_gguf_find(m->gguf, "hearth.pack.magnitudes");
    if (!kv)
        return HEARTH_OK;
    if (!hearth_are_magnitudes(kv, m->hp.n_layer))
        return hearth_fail(l->err, HEARTH_E_FORMAT,
                           "%s: hearth.pack.magnitudes must be an array of %d ascending numbers for each "
                           "layer; the pack is damaged: make it again with hearth pack",
                           hearth_gguf_path(m->gguf), HEARTH_MAGNITUDES);
    m->magnitudes = hearth_calloc(n, sizeof *m->magnitudes);
    if (!m->magnitudes)
        return hearth_fail(l->err, HEARTH_E_MEMORY, "no memory for the list of magnitudes");
    for (size_t i = 0; i < n; i++)
        m->magnitudes[i] = (float)hearth_gguf_kv_f64(kv, i);
    return HEARTH_OK;
}

static int read_spaces(struct loader *l)
{
    struct hearth_model *m = l->model;
    const uint64_t experts = m->hp.n_expert ? (uint64_t)m->hp.n_expert : 1;
    const struct hearth_gguf_kv *always = NULL, *crossover = NULL;
    int rc = find_spaces(l, "hearth.pack.always", &always);
    if (!rc)
        rc = find_spaces(l, "hearth.pack.crossover", &crossover);
    if (rc)
        return rc;
    m->always = always ? hearth_calloc((size_t)always->count, sizeof *m->always) : NULL;
    m->crossover = crossover ? hearth_calloc((size_t)crossover->count, sizeof *m->crossover) : NULL;
    if ((always && !m->always) || (crossover && !m->crossover))
        return hearth_fail(l->err, HEARTH_E_MEMORY, "no memory for the list of spaces");
    for (uint64_t i = 0; always && i < always->count; i++) {
        const int64_t n = hearth_gguf_kv_i64(always, i);
        const int64_t f = hearth_ffn_neurons_of(&m->hp, (int)(i / experts));
        if (n < 0 || n > f)
            return hearth_fail(l->err, HEARTH_E_FORMAT,
                               "%s: hearth.pack.always says %lld of %lld neurons in space %llu",
                               hearth_gguf_path(m->gguf), (long long)n, (long long)f, (unsigned long long)i);
        m->always[i] = (uint32_t)n;
    }
    for (uint64_t i = 0; crossover && i < crossover->count; i++)
        m->crossover[i] = (float)hearth_gguf_kv_f64(crossover, i);
    return read_magnitudes(l);
}

// ---- packs

static int check_pack(struct loader *l)
{
    const struct hearth_hparams *hp = &l->model->hp;
    const struct hearth_pack *p = l->model->pack;
    const uint32_t n_expert = hp->n_expert ? (uint32_t)hp->n_expert : 1;
    const uint32_t n_ff = (uint32_t)hearth_ffn_neurons(hp);
    bool fits = p->n_layer == (uint32_t)hp->n_layer && p->n_embd == (uint32_t)hp->n_embd &&
                p->n_expert == n_expert && p->widths == hearth_widths_differ(hp);
    for (uint32_t i = 0; i < p->n_layer && fits; i++)
        fits = p->layers[i].n == (uint32_t)hearth_ffn_neurons_of(hp, (int)i);
    if (fits)
        return HEARTH_OK;
    return hearth_fail(
        l->err, HEARTH_E_FORMAT,
        "%s: the bundles are of %u layers, %u neurons and %u experts where the hyper-parameters "
        "say %d, %u and %u: the pack is damaged",
        hearth_gguf_path(l->model->gguf), p->n_layer, p->n_ff, p->n_expert, hp->n_layer, n_ff, n_expert);
}

// Adds the bundles of each layer, whose rows become matrices. Checks the orders too, although nothing needs
// them once the weights are in memory.
static int add_bundles(struct loader *l)
{
    const struct hearth_model *m = l->model;
    const struct hearth_pack *p = m->pack;
    int32_t *order = hearth_calloc(p->n_ff, sizeof *order);
    int rc = order ? HEARTH_OK : hearth_fail(l->err, HEARTH_E_MEMORY, "no memory for an order of neurons");
    for (uint32_t i = 0; i < p->n_layer && !rc; i++) {
        struct hearth_layer *layer = &m->weights.layers[i];
        const bool exps = m->hp.n_expert != 0;
        l->layer = (int)i;
        struct hearth_weight *const parts[HEARTH_PARTS] = {
            exps ? &layer->ffn_gate_exps : &layer->ffn_gate, exps ? &layer->ffn_up_exps : &layer->ffn_up,
            exps ? &layer->ffn_down_t_exps : &layer->ffn_down_t};
        struct hearth_item item = {.tensor = p->layers[i].tensor, .bundle = &p->layers[i]};
        for (int part = p->gates_apart ? HEARTH_PART_UP : HEARTH_PART_GATE; part < HEARTH_PARTS && !rc;
             part++) {
            if (hearth_has(parts[part]) != (p->layers[i].bytes[part] != 0))
                rc =
                    hearth_fail(l->err, HEARTH_E_FORMAT,
                                "%s: the bundles do not have what architecture %s needs: the pack is damaged",
                                hearth_gguf_path(m->gguf), m->arch->name);
            item.parts[part] = parts[part]->at;
            parts[part]->item = (int32_t)m->n_items;
        }
        // The bundles have no range of their own in the image: their parts have.
        if (!rc)
            rc = add_item(l, item);
        for (uint32_t e = 0; e < p->n_expert && !rc && hearth_pack_tensor(p, i, "ffn_order"); e++)
            rc = hearth_pack_order(p, i, e, order, l->err);
    }
    free(order);
    return rc;
}

// Weights that are rows of other weights, or other names for them.
static void share(struct hearth_model *m)
{
    if (hearth_has(&m->weights.nextn_norm))
        m->weights.output_norm = m->weights.nextn_norm;
    if (!hearth_has(&m->weights.output))
        m->weights.output = m->weights.token_embd;
    for (int i = 0; i < m->hp.n_layer; i++) {
        struct hearth_layer *l = &m->weights.layers[i];
        if (!hearth_has(&l->attn_norm)) { // both branches of a parallel layer share one norm
            l->attn_norm = l->ffn_norm;
            l->attn_norm_b = l->ffn_norm_b;
        } else if (m->hp.parallel && !hearth_has(&l->ffn_norm)) {
            l->ffn_norm = l->attn_norm;
            l->ffn_norm_b = l->attn_norm_b;
        }
        if (hearth_has(&l->ffn_gate_up)) {
            l->ffn_gate = l->ffn_up = l->ffn_gate_up;
            l->ffn_gate.n = l->ffn_up.n = l->ffn_gate_up.n / 2;
            l->ffn_up.at = l->ffn_gate.n * l->ffn_gate_up.stride;
        }
        if (hearth_has(&l->ffn_gate_up_exps)) {
            const struct hearth_weight *both = &l->ffn_gate_up_exps;
            l->ffn_gate_exps = l->ffn_up_exps = *both;
            l->ffn_gate_exps.n = l->ffn_up_exps.n = both->n / 2;
            l->ffn_gate_exps.apart = l->ffn_up_exps.apart = both->n * both->stride;
            l->ffn_up_exps.at = both->n / 2 * both->stride;
        }
        if (!hearth_has(&l->attn_qkv))
            continue;
        const size_t q = (size_t)dim_value(&m->hp, HEARTH_DIM_Q, i),
                     kv = (size_t)dim_value(&m->hp, HEARTH_DIM_KV, i),
                     v = (size_t)dim_value(&m->hp, HEARTH_DIM_V, i);
        l->attn_q = l->attn_k = l->attn_v = l->attn_qkv;
        l->attn_q.n = q;
        l->attn_k.n = kv;
        l->attn_v.n = v;
        l->attn_k.at = q * l->attn_qkv.stride;
        l->attn_v.at = (q + kv) * l->attn_qkv.stride;
        if (!hearth_has(&l->attn_qkv_b))
            continue;
        l->attn_q_b = l->attn_k_b = l->attn_v_b = l->attn_qkv_b;
        l->attn_q_b.k = q;
        l->attn_k_b.k = kv;
        l->attn_v_b.k = v;
        l->attn_k_b.at = q * sizeof(float);
        l->attn_v_b.at = (q + kv) * sizeof(float);
    }
}

int hearth_model_bind(struct hearth_model *m, struct hearth_error *err)
{
    struct loader l = {.model = m, .err = err};
    int rc = m->pack ? check_pack(&l) : HEARTH_OK;
    if (!rc)
        rc = bind_all(&l);
    if (!rc && m->pack)
        rc = add_bundles(&l);
    if (!rc && !m->hp.nextn)
        rc = check_unknown(&l);
    if (!rc)
        rc = check_predictors(&l);
    if (!rc)
        rc = check_choices(&l);
    if (!rc)
        rc = read_spaces(&l);
    if (!rc)
        share(m);
    m->info.n_params = l.n_params;
    return rc;
}
