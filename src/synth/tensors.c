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
        const bool heads = !strcmp(name, "attn_k_b.weight") || !strcmp(name, "attn_v_b.weight");
        *t = (struct hearth_synth_tensor){.fill = fill,
                                          .k = k,
                                          .n = n,
                                          .x = heads  ? l->s->p->n_head
                                               : each ? x
                                                      : 1,
                                          .layer = l->layer,
                                          .stddev = stddev};
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

// A number for each expert, in one vector.
static void add_vector_of_experts(struct list *l, const char *name)
{
    add(l, name, HEARTH_SYNTH_ONES, l->s->p->n_expert, 0, 0);
    if (l->tensors)
        l->tensors[l->n - 1].x = 1;
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

static void add_latent_attention(struct list *l)
{
    const struct hearth_synth_latent *a = &l->s->p->latent;
    const uint64_t e = l->s->p->n_embd, heads = l->s->p->n_head, query = heads * (a->still + a->n_rot);
    const float in = 1 / sqrtf((float)e), from_latent = 1 / sqrtf((float)a->rank);
    if (a->q_rank) {
        add_random(l, "attn_q_a", e, a->q_rank, in);
        add(l, "attn_q_a_norm.weight", HEARTH_SYNTH_ONES, a->q_rank, 0, 0);
        add_random(l, "attn_q_b", a->q_rank, query, 1 / sqrtf((float)a->q_rank));
    } else {
        add_random(l, "attn_q", e, query, in);
    }
    if (hearth_synth_chooses(a, l->layer)) {
        add_random(l, "indexer.attn_q_b", a->q_rank, (uint64_t)a->choosers * a->chooser,
                   1 / sqrtf((float)a->q_rank));
        add_random(l, "indexer.attn_k", e, a->chooser, in);
        add(l, "indexer.k_norm.weight", HEARTH_SYNTH_ONES, a->chooser, 0, 0);
        add(l, "indexer.k_norm.bias", HEARTH_SYNTH_ZEROS, a->chooser, 0, 0);
        add_random(l, "indexer.proj", e, a->choosers, in);
    }
    add_random(l, "attn_kv_a_mqa", e, a->rank + a->n_rot, in);
    add(l, "attn_kv_a_norm.weight", HEARTH_SYNTH_ONES, a->rank, 0, 0);
    add_random(l, "attn_k_b", a->still, a->rank, from_latent);
    add_random(l, "attn_v_b", a->rank, a->value, from_latent);
    add_random(l, "attn_output", heads * a->value, e, l->s->gain / sqrtf((float)(heads * a->value)));
}

static void add_attention(struct list *l)
{
    if (l->s->p->latent.rank) {
        add_latent_attention(l);
        return;
    }
    const struct hearth_synth_preset *p = l->s->p;
    const uint64_t e = p->n_embd, q = (uint64_t)p->n_head * p->head_dim,
                   kv = (uint64_t)p->n_head_kv * p->head_dim;
    const float in = 1 / sqrtf((float)e);
    if (p->arch == HEARTH_SYNTH_FALCON) {
        add_random(l, "attn_qkv", e, q + 2 * kv, in);
    } else {
        add_random(l, "attn_q", e, hearth_synth_is_qwen35(p) ? 2 * q : q, in); // and its gate
        add_random(l, "attn_k", e, kv, in);
        add_random(l, "attn_v", e, kv, in);
    }
    if (p->arch == HEARTH_SYNTH_QWEN3MOE || hearth_synth_is_qwen35(p)) {
        add(l, "attn_q_norm.weight", HEARTH_SYNTH_ONES, p->head_dim, 0, 0);
        add(l, "attn_k_norm.weight", HEARTH_SYNTH_ONES, p->head_dim, 0, 0);
    }
    if (p->arch == HEARTH_SYNTH_GPTOSS)
        add(l, "attn_sinks.weight", HEARTH_SYNTH_ZEROS, p->n_head, 0, 0);
    add_random(l, "attn_output", q, e, l->s->gain / sqrtf((float)q));
}

// Heads' norms have no part in the scale of scores, so those of queries have all of it.
static void add_attention_of_kind(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    const struct hearth_synth_kinds *k = &p->kinds;
    const bool windowed = hearth_synth_is_windowed(p, l->layer);
    const uint64_t e = p->n_embd, head = windowed ? p->head_dim : k->head_dim, q = p->n_head * head,
                   kv = (windowed ? p->n_head_kv : k->n_head_kv) * head;
    const float in = 1 / sqrtf((float)e);
    add_random(l, "attn_q", e, q, in);
    add(l, "attn_q_norm.weight", HEARTH_SYNTH_SAME, head, 0, 1 / sqrtf((float)head));
    if (!hearth_synth_borrows(p, l->layer)) {
        add_random(l, "attn_k", e, kv, in);
        add(l, "attn_k_norm.weight", HEARTH_SYNTH_ONES, head, 0, 0);
        if (windowed || !k->keys_are_values)
            add_random(l, "attn_v", e, kv, in);
    }
    add_random(l, "attn_output", q, e, 1 / sqrtf((float)q));
}

// What mixes streams at one place. Its gates are nearly a half, which the norm makes good, and each stream gets nearly
// what there is to add: so the streams stay alike, and are what a single one would be.
static void add_mixer(struct list *l, const char *place, bool injects)
{
    const struct hearth_synth_streams *s = &l->s->p->streams;
    const uint64_t wide = (uint64_t)s->n * l->s->p->n_embd;
    const float in = 1 / sqrtf((float)wide);
    char name[48];
    snprintf(name, sizeof name, "%s_norm.weight", place);
    add(l, name, HEARTH_SYNTH_SAME, wide, 0, 2.0f);
    snprintf(name, sizeof name, "%s_down", place);
    add_random(l, name, wide, s->rank, in);
    snprintf(name, sizeof name, "%s_up", place);
    add_random(l, name, s->rank, wide, 0.01f);
    snprintf(name, sizeof name, "%s_inject", place);
    if (injects)
        add_random(l, name, wide, s->n, 0.01f * in);
}

// What chooses the positions that a layer attends to.
static void add_chooser(struct list *l)
{
    const struct hearth_synth_streams *s = &l->s->p->streams;
    const uint64_t e = l->s->p->n_embd;
    const float in = 1 / sqrtf((float)e);
    add_random(l, "indexer.q_proj", e, (uint64_t)s->choosers * s->chooser, in);
    add_random(l, "indexer.k_proj", e, s->chooser, in);
    add(l, "indexer.q_norm.weight", HEARTH_SYNTH_ONES, s->chooser, 0, 0);
    add(l, "indexer.k_norm.weight", HEARTH_SYNTH_ONES, s->chooser, 0, 0);
}

// What n-grams add to the streams: little.
static void add_grams(struct list *l)
{
    const struct hearth_synth_streams *s = &l->s->p->streams;
    const uint64_t e = l->s->p->n_embd, wide = s->n * e,
                   rows = (uint64_t)(HEARTH_SYNTH_GRAM_SIZE - 1) * s->gram_heads * s->gram_dim;
    const float in = 1 / sqrtf((float)rows);
    add_random(l, "ple_key", rows, wide, in);
    add_random(l, "ple_value", rows, e, 0.05f * in);
    add(l, "ple_norm_key.weight", HEARTH_SYNTH_ONES, wide, 0, 0);
    add(l, "ple_norm_query.weight", HEARTH_SYNTH_ONES, wide, 0, 0);
    add(l, "ple_norm_conv.weight", HEARTH_SYNTH_SAME, wide, 0, 0.05f);
    add(l, "ple_conv1d.weight", HEARTH_SYNTH_TAPS, HEARTH_SYNTH_TAP_COUNT, wide, 0);
}

// A layer that is recurrent.
static void add_recurrence(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    const uint64_t e = p->n_embd, values = (uint64_t)p->rec_heads * p->rec_dim,
                   channels = values + 2 * (uint64_t)p->rec_keys * p->rec_dim;
    const float in = 1 / sqrtf((float)e);
    add_random(l, "attn_qkv", e, channels, in);
    add_random(l, "attn_gate", e, values, in);
    add_random(l, "ssm_beta", e, p->rec_heads, in);
    add_random(l, "ssm_alpha", e, p->rec_heads, in);
    add(l, "ssm_conv1d.weight", HEARTH_SYNTH_TAPS, HEARTH_SYNTH_TAP_COUNT, channels, 0);
    add(l, "ssm_a", HEARTH_SYNTH_DECAYS, p->rec_heads, 0, 0);
    add(l, "ssm_dt.bias", HEARTH_SYNTH_ZEROS, p->rec_heads, 0, 0);
    add(l, "ssm_norm.weight", HEARTH_SYNTH_ONES, p->rec_dim, 0, 0);
    add_random(l, "ssm_out", values, e, l->s->gain / sqrtf((float)values));
}

// Gate, up and down of f neurons. Down is scaled for products of a SiLU and a normal number, which the
// weights of experts make smaller.
static void add_random_part(struct list *l, const char *kind, uint64_t f, float scale)
{
    const uint64_t e = l->s->p->n_embd;
    const float in = 1 / sqrtf((float)e), out = l->s->gain / sqrtf((float)f) * scale;
    const char *const names[] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++) {
        char name[48];
        snprintf(name, sizeof name, "ffn_%s%s", names[i], kind);
        add_random(l, name, i < 2 ? e : f, i < 2 ? f : e, i < 2 ? in : out);
    }
}

// The expert that all tokens use.
static void add_shared(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    add(l, "ffn_gate_inp_shexp.weight", HEARTH_SYNTH_ZEROS, p->n_embd, 0, 0);
    add_random_part(l, "_shexp", p->n_shared, 1.0f);
}

// Adds the feed-forward part of a model whose neurons are all random.
static void add_random_ffn(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    add_random_part(l, p->n_expert ? "_exps" : "", p->n_ff, p->n_expert ? 4.0f : 1.7f);
    if (p->latent.n_shared)
        add_random_part(l, "_shexp", (uint64_t)p->latent.n_shared * p->n_ff, 1.7f);
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

// Norms behind attention and the feed-forward part decide how much these add, whatever comes out of them.
// Embeddings are multiplied by the root of their width.
static float added_by_norm(const struct hearth_synth *s)
{
    return s->p->planting ? s->gain * sqrtf((float)s->p->n_embd) : s->gain;
}

// A layer of one of two kinds.
static void add_layer_of_kind(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    const uint64_t e = p->n_embd, given = p->kinds.n_embd_layer;
    const float in = 1 / sqrtf((float)e), adds = added_by_norm(l->s);
    add_norm(l, "attn_norm");
    add_attention_of_kind(l);
    add(l, "post_attention_norm.weight", HEARTH_SYNTH_SAME, e, 0, adds * sqrtf(0.5f)); // as sizes.c has it
    add_norm(l, "ffn_norm");
    add_random_part(l, "", hearth_synth_neurons(p, l->layer), 1.7f);
    if (p->n_expert) { // the router's products are divided by the root of the width, which its norm makes good
        add_norm(l, "post_ffw_norm_1");
        add_norm(l, "pre_ffw_norm_2");
        add_norm(l, "post_ffw_norm_2");
        add(l, "ffn_gate_inp.weight", HEARTH_SYNTH_ROUTER, e, p->n_expert, 0);
        add(l, "ffn_gate_inp.scale", HEARTH_SYNTH_SAME, e, 0, sqrtf((float)e));
        add(l, "ffn_gate_up_exps.weight", HEARTH_SYNTH_RANDOM, e, 2 * (uint64_t)p->n_ff, in);
        add(l, "ffn_down_exps.weight", HEARTH_SYNTH_RANDOM, p->n_ff, e, 1 / sqrtf((float)p->n_ff));
        add_vector_of_experts(l, "ffn_down_exps.scale");
    }
    add(l, "post_ffw_norm.weight", HEARTH_SYNTH_SAME, e, 0, adds);
    if (given) {
        add_random(l, "inp_gate", e, given, in);
        add_random(l, "proj", given, e, 1 / sqrtf((float)given));
        add(l, "post_norm.weight", HEARTH_SYNTH_SAME, e, 0, adds);
    }
    add(l, "layer_output_scale.weight", HEARTH_SYNTH_ONES, 1, 0, 0);
}

// What the model has beside its layers: frequencies, and what tokens give each layer.
static void add_globals_of_kinds(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    const uint64_t e = p->n_embd, given = p->kinds.n_embd_layer;
    add(l, "rope_freqs.weight", HEARTH_SYNTH_TURNS, p->kinds.head_dim / 2, 0, 0);
    if (!given)
        return;
    add(l, "per_layer_token_embd.weight", HEARTH_SYNTH_RANDOM, given * p->n_layer, p->n_vocab,
        1 / sqrtf((float)given));
    add(l, "per_layer_model_proj.weight", HEARTH_SYNTH_RANDOM, e, given * p->n_layer, 1 / sqrtf((float)e));
    add(l, "per_layer_proj_norm.weight", HEARTH_SYNTH_ONES, given, 0, 0);
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
    if (p->kinds.interval)
        add_globals_of_kinds(l);
    for (l->layer = 0; l->layer < p->n_layer; l->layer++) {
        if (p->kinds.interval) {
            add_layer_of_kind(l);
            continue;
        }
        if (p->streams.n)
            add_mixer(l, "hc_attn", true);
        else
            add_norm(l, "attn_norm");
        if (p->arch == HEARTH_SYNTH_FALCON)
            add_norm(l, "attn_norm_2");
        if (p->streams.gram_rows && l->layer == HEARTH_SYNTH_GRAM_LAYER)
            add_grams(l);
        if (p->attends && (l->layer + 1) % p->attends)
            add_recurrence(l);
        else
            add_attention(l);
        if (p->streams.block && (l->layer + 1) % p->attends == 0)
            add_chooser(l);
        if (p->streams.n)
            add_mixer(l, "hc_ffn", true);
        else if (p->arch != HEARTH_SYNTH_FALCON)
            add_norm(l, p->arch == HEARTH_SYNTH_GPTOSS || p->arch == HEARTH_SYNTH_QWEN35MOE
                            ? "post_attention_norm"
                            : "ffn_norm");
        if (l->layer < hearth_synth_dense(&p->latent)) {
            add_random_part(l, "", p->latent.n_ff_dense, 1.7f);
            continue;
        }
        if (p->n_expert)
            add(l, "ffn_gate_inp.weight", HEARTH_SYNTH_ROUTER, e, p->n_expert, 0);
        if (p->latent.sigmoid)
            add(l, "exp_probs_b.bias", HEARTH_SYNTH_ZEROS, p->n_expert, 0, 0);
        if (p->n_expert && has_biases(p))
            add(l, "ffn_gate_inp.bias", HEARTH_SYNTH_ZEROS, p->n_expert, 0, 0);
        if (hearth_synth_has_neurons(p))
            add_planted_ffn(l);
        else
            add_random_ffn(l);
        if (p->n_shared)
            add_shared(l);
    }
    if (p->streams.n)
        add_mixer(l, "output_hc", false);
    else
        add_norm(l, "output_norm");
    if (p->streams.gram_rows)
        add(l, "per_layer_token_embd.weight", HEARTH_SYNTH_RANDOM, p->streams.gram_dim, p->streams.gram_rows,
            1.0f);
    if (p->kinds.interval && !p->planting) // the head is the embedding
        return l->n;
    add(l, "output.weight", p->planting ? HEARTH_SYNTH_HEAD : HEARTH_SYNTH_RANDOM, e, p->n_vocab, random);
    return l->n;
}

static uint32_t type_of(const struct hearth_synth_tensor *t)
{
    if (t->fill == HEARTH_SYNTH_BUNDLES)
        return HEARTH_TYPE_I8;
    const bool plain = t->fill == HEARTH_SYNTH_ROUTER || t->fill == HEARTH_SYNTH_TAPS;
    return t->n && !plain ? HEARTH_TYPE_Q4_0 : HEARTH_TYPE_F32;
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
