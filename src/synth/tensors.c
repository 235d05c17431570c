// SPDX-License-Identifier: MIT
// The tensors of a synthetic model: their list, types and sizes, and writing their bytes.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "synth/insides.h"

struct list {
    const struct hearth_synth *s;
    struct hearth_synth_tensor *tensors; // NULL: only counting
    size_t n;
    uint32_t layer;
};

static void add(struct list *l, const char *name, enum hearth_synth_fill fill, uint64_t k, uint64_t n,
                float stddev)
{
    if (l->tensors) {
        struct hearth_synth_tensor *t = &l->tensors[l->n];
        const uint64_t x = l->s->p->n_expert;
        const bool each = x && (fill == HEARTH_SYNTH_BUNDLES || strstr(name, "_exps"));
        *t = (struct hearth_synth_tensor){
            .fill = fill, .k = k, .n = n, .x = each ? x : 1, .layer = l->layer, .stddev = stddev};
        if (l->layer < l->s->p->n_layer)
            snprintf(t->name, sizeof t->name, "blk.%u.%s", l->layer, name);
        else
            snprintf(t->name, sizeof t->name, "%s", name);
    }
    l->n++;
}

static void add_norm(struct list *l, const char *name)
{
    const bool layer_norm = l->s->p->arch == HEARTH_SYNTH_OPT || l->s->p->arch == HEARTH_SYNTH_FALCON;
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    add(l, full, HEARTH_SYNTH_ONES, l->s->p->n_embd, 0, 0);
    snprintf(full, sizeof full, "%s.bias", name);
    if (layer_norm)
        add(l, full, HEARTH_SYNTH_ZEROS, l->s->p->n_embd, 0, 0);
}

// Whether all projections have biases.
static bool has_biases(const struct hearth_synth_preset *p)
{
    return p->arch == HEARTH_SYNTH_OPT || p->arch == HEARTH_SYNTH_GPTOSS;
}

// Adds a matrix of random weights, with a bias where the architecture has them.
static void add_random(struct list *l, const char *name, uint64_t k, uint64_t n, float stddev)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    add(l, full, HEARTH_SYNTH_RANDOM, k, n, stddev);
    snprintf(full, sizeof full, "%s.bias", name);
    if (has_biases(l->s->p))
        add(l, full, HEARTH_SYNTH_ZEROS, n, 0, 0);
}

static void add_attention(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    const uint64_t e = p->n_embd, q = (uint64_t)p->n_head * p->head_dim,
                   kv = (uint64_t)p->n_head_kv * p->head_dim;
    const float in = 1 / sqrtf((float)e);
    if (p->arch == HEARTH_SYNTH_FALCON) {
        add_random(l, "attn_qkv", e, q + 2 * kv, in);
    } else {
        add_random(l, "attn_q", e, q, in);
        add_random(l, "attn_k", e, kv, in);
        add_random(l, "attn_v", e, kv, in);
    }
    if (p->arch == HEARTH_SYNTH_QWEN3MOE) {
        add(l, "attn_q_norm.weight", HEARTH_SYNTH_ONES, p->head_dim, 0, 0);
        add(l, "attn_k_norm.weight", HEARTH_SYNTH_ONES, p->head_dim, 0, 0);
    }
    if (p->arch == HEARTH_SYNTH_GPTOSS)
        add(l, "attn_sinks.weight", HEARTH_SYNTH_ZEROS, p->n_head, 0, 0);
    add_random(l, "attn_output", q, e, l->s->gain / sqrtf((float)q));
}

// Adds the feed-forward part of a model whose neurons are all random. Down is scaled for products of a SiLU
// and a normal number, which the weights of experts make smaller.
static void add_random_ffn(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    const char *each = p->n_expert ? "_exps" : "";
    const uint64_t e = p->n_embd, f = p->n_ff;
    const float in = 1 / sqrtf((float)e), out = l->s->gain / sqrtf((float)f) * (p->n_expert ? 4.0f : 1.7f);
    const char *const names[] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++) {
        char name[48];
        snprintf(name, sizeof name, "ffn_%s%s", names[i], each);
        add_random(l, name, i < 2 ? e : f, i < 2 ? f : e, i < 2 ? in : out);
    }
}

static void add_planted_ffn(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    const bool gated = p->arch != HEARTH_SYNTH_OPT && p->arch != HEARTH_SYNTH_FALCON;
    const bool tied = p->planting->up_tie != 0.0f, drift = l->s->params->drift;
    const uint64_t e = p->n_embd, f = p->n_ff, rank = hearth_synth_rank(p, l->layer);
    const struct {
        const char *stem;
        enum hearth_synth_fill fill;
        uint64_t k, n;
        float stddev;
    } parts[] = {
        {gated ? "ffn_gate" : "ffn_up", HEARTH_SYNTH_PLANTED_GATE, e, f, 0},
        {"ffn_up", tied ? HEARTH_SYNTH_PLANTED_UP : HEARTH_SYNTH_RANDOM, e, f, 1 / sqrtf((float)e)},
        {"ffn_down_t", drift ? HEARTH_SYNTH_PLANTED_DOWN : HEARTH_SYNTH_RANDOM, e, f, l->s->down_stddev},
        {"fc1", HEARTH_SYNTH_PLANTED_FC1, e, rank, 0},
        {"fc2", HEARTH_SYNTH_PLANTED_FC2, rank, f, 0}};
    if (p->pack)
        add(l, "ffn_bundles", HEARTH_SYNTH_BUNDLES, l->s->bundle.stride, f, 0);
    for (size_t i = p->pack ? 3 : 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[48];
        snprintf(name, sizeof name, "%s%s.weight", parts[i].stem, p->n_expert ? "_exps" : "");
        if (i != 1 || gated)
            add(l, name, parts[i].fill, parts[i].k, parts[i].n, parts[i].stddev);
        if (i == 0 && p->arch == HEARTH_SYNTH_OPT)
            add(l, "ffn_up.bias", HEARTH_SYNTH_PLANTED_BIAS, f, 0, 0);
        if (i == 2 && p->arch == HEARTH_SYNTH_OPT)
            add(l, "ffn_down_t.bias", HEARTH_SYNTH_ZEROS, e, 0, 0);
    }
}

bool hearth_synth_has_neurons(const struct hearth_synth_preset *p)
{
    return p->planting && p->planting->levels[0].share > 0;
}

size_t hearth_synth_list(const struct hearth_synth *s, struct hearth_synth_tensor *tensors)
{
    const struct hearth_synth_preset *p = s->p;
    struct list list = {.s = s, .tensors = tensors}, *l = &list;
    const uint64_t e = p->n_embd;
    const float random = 1 / sqrtf((float)e);
    l->layer = p->n_layer;
    add(l, "token_embd.weight", p->planting ? HEARTH_SYNTH_EMBEDDING : HEARTH_SYNTH_RANDOM, e, p->n_vocab,
        random);
    if (p->arch == HEARTH_SYNTH_OPT) // the first two rows are padding
        add(l, "position_embd.weight", HEARTH_SYNTH_RANDOM, e, p->n_ctx + 2, 0.1f);
    for (l->layer = 0; l->layer < p->n_layer; l->layer++) {
        add_norm(l, "attn_norm");
        if (p->arch == HEARTH_SYNTH_FALCON)
            add_norm(l, "attn_norm_2");
        add_attention(l);
        if (p->arch != HEARTH_SYNTH_FALCON)
            add_norm(l, p->arch == HEARTH_SYNTH_GPTOSS ? "post_attention_norm" : "ffn_norm");
        if (p->n_expert)
            add(l, "ffn_gate_inp.weight", HEARTH_SYNTH_ROUTER, e, p->n_expert, 0);
        if (p->n_expert && has_biases(p))
            add(l, "ffn_gate_inp.bias", HEARTH_SYNTH_ZEROS, p->n_expert, 0, 0);
        if (hearth_synth_has_neurons(p))
            add_planted_ffn(l);
        else
            add_random_ffn(l);
    }
    add_norm(l, "output_norm");
    add(l, "output.weight", p->planting ? HEARTH_SYNTH_HEAD : HEARTH_SYNTH_RANDOM, e, p->n_vocab, random);
    return l->n;
}

static uint32_t type_of(const struct hearth_synth_tensor *t)
{
    if (t->fill == HEARTH_SYNTH_BUNDLES)
        return HEARTH_TYPE_I8;
    return t->n && t->fill != HEARTH_SYNTH_ROUTER ? HEARTH_TYPE_Q4_0 : HEARTH_TYPE_F32;
}

uint64_t hearth_synth_bytes(const struct hearth_synth_tensor *t)
{
    return hearth_type_bytes(type_of(t), t->k) * (t->n ? t->n : 1) * t->x;
}

int hearth_synth_declare(struct hearth_synth *s, const struct hearth_synth_tensor *t)
{
    const uint64_t ne[3] = {t->k, t->n ? t->n : t->x, t->x};
    s->total += hearth_synth_bytes(t);
    return hearth_gguf_put_tensor(s->w, t->name, type_of(t),
                                  !t->n                                         ? (t->x > 1 ? 2 : 1)
                                  : t->x > 1 || t->fill == HEARTH_SYNTH_BUNDLES ? 3
                                                                                : 2,
                                  ne, s->err);
}

int hearth_synth_write(struct hearth_synth *s, const void *src, size_t n)
{
    int rc = hearth_gguf_write(s->w, src, n, s->err);
    if (rc)
        return rc;
    s->written += n;
    const struct hearth_synth_params *p = s->params;
    if (p->progress && !p->progress(p->progress_arg, s->written, s->total))
        return hearth_fail(s->err, HEARTH_E_INTERRUPTED, "interrupted");
    return HEARTH_OK;
}
