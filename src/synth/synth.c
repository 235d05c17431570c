// SPDX-License-Identifier: MIT
// Synthetic models: metadata, the list of tensors, and the source of each tensor's numbers.
#include "synth/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/os.h"
#include "synth/insides.h"

const char *hearth_synth_preset(int i, const char **what)
{
    const struct hearth_synth_preset *p = hearth_synth_preset_at(i);
    if (p && what)
        *what = p->what;
    return p ? p->name : NULL;
}

// ---- tensors

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

// Adds a matrix of random weights, with a bias where the architecture has them.
static void add_random(struct list *l, const char *name, uint64_t k, uint64_t n, float stddev)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    add(l, full, HEARTH_SYNTH_RANDOM, k, n, stddev);
    snprintf(full, sizeof full, "%s.bias", name);
    if (l->s->p->arch == HEARTH_SYNTH_OPT)
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
    const bool tied = p->planting->up_tie != 0.0f;
    const uint64_t e = p->n_embd, f = p->n_ff, rank = hearth_synth_rank(p, l->layer);
    const struct {
        const char *stem;
        enum hearth_synth_fill fill;
        uint64_t k, n;
        float stddev;
    } parts[] = {{gated ? "ffn_gate" : "ffn_up", HEARTH_SYNTH_PLANTED_GATE, e, f, 0},
                 {"ffn_up", tied ? HEARTH_SYNTH_PLANTED_UP : HEARTH_SYNTH_RANDOM, e, f, 1 / sqrtf((float)e)},
                 {"ffn_down_t", HEARTH_SYNTH_RANDOM, e, f, l->s->down_stddev},
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

static void list_tensors(struct list *l)
{
    const struct hearth_synth_preset *p = l->s->p;
    const uint64_t e = p->n_embd;
    const float random = 1 / sqrtf((float)e);
    l->n = 0;
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
            add_norm(l, "ffn_norm");
        if (p->n_expert)
            add(l, "ffn_gate_inp.weight", HEARTH_SYNTH_ROUTER, e, p->n_expert, 0);
        if (hearth_synth_has_neurons(p))
            add_planted_ffn(l);
        else
            add_random_ffn(l);
    }
    add_norm(l, "output_norm");
    add(l, "output.weight", p->planting ? HEARTH_SYNTH_HEAD : HEARTH_SYNTH_RANDOM, e, p->n_vocab, random);
}

uint32_t hearth_synth_type(const struct hearth_synth_tensor *t)
{
    if (t->fill == HEARTH_SYNTH_BUNDLES)
        return HEARTH_TYPE_I8;
    return t->n && t->fill != HEARTH_SYNTH_ROUTER ? HEARTH_TYPE_Q4_0 : HEARTH_TYPE_F32;
}

uint64_t hearth_synth_bytes(const struct hearth_synth_tensor *t)
{
    return hearth_type_bytes(hearth_synth_type(t), t->k) * (t->n ? t->n : 1) * t->x;
}

static int declare(struct hearth_synth *s, const struct hearth_synth_tensor *t)
{
    const uint64_t ne[3] = {t->k, t->n, t->x};
    s->total += hearth_synth_bytes(t);
    return hearth_gguf_put_tensor(s->w, t->name, hearth_synth_type(t),
                                  !t->n                                         ? 1
                                  : t->x > 1 || t->fill == HEARTH_SYNTH_BUNDLES ? 3
                                                                                : 2,
                                  ne, s->err);
}

// ---- numbers of tensors

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

static int write_vector(struct hearth_synth *s, const struct hearth_synth_tensor *t)
{
    float *v = (float *)(void *)s->chunk;
    for (uint64_t i = 0; i < t->k; i++)
        v[i] = t->fill == HEARTH_SYNTH_ONES ? 1.0f : 0.0f;
    return hearth_synth_write(s, v, (size_t)t->k * sizeof *v);
}

struct random_job {
    const struct hearth_synth *s;
    const struct hearth_synth_tensor *t;
    uint64_t stream, first; // first block of the chunk
    size_t n_blocks;
};

#define RANDOM_TASK 8192 // blocks of 32

static void random_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct random_job *j = arg;
    const size_t at = (size_t)task * RANDOM_TASK, left = j->n_blocks - at;
    struct hearth_synth_rng rng =
        hearth_synth_rng(j->s->params->seed, j->stream, (j->first + at) / RANDOM_TASK);
    hearth_synth_q4_0(&rng, j->s->chunk + at * 18, left < RANDOM_TASK ? left : RANDOM_TASK, j->t->stddev);
}

static int write_random(struct hearth_synth *s, const struct hearth_synth_tensor *t, uint64_t stream)
{
    const uint64_t n_blocks = t->k / 32 * t->n * t->x;
    const size_t most = HEARTH_SYNTH_CHUNK / 18 / RANDOM_TASK * RANDOM_TASK;
    int rc = HEARTH_OK;
    for (uint64_t at = 0; at < n_blocks && !rc; at += most) {
        struct random_job j = {s, t, stream, at, n_blocks - at < most ? (size_t)(n_blocks - at) : most};
        hearth_pool_run(s->pool, random_task, &j, (int)((j.n_blocks + RANDOM_TASK - 1) / RANDOM_TASK));
        rc = hearth_synth_write(s, s->chunk, j.n_blocks * 18);
    }
    return rc;
}

static int write_tensor(struct hearth_synth *s, struct hearth_synth_planted *p,
                        const struct hearth_synth_tensor *t, uint64_t stream)
{
    switch (t->fill) {
    case HEARTH_SYNTH_ONES:
    case HEARTH_SYNTH_ZEROS:
        return write_vector(s, t);
    case HEARTH_SYNTH_RANDOM:
        return write_random(s, t, stream);
    case HEARTH_SYNTH_EMBEDDING:
        return hearth_synth_write_embedding(s);
    case HEARTH_SYNTH_HEAD:
        return hearth_synth_write_head(s);
    case HEARTH_SYNTH_ROUTER:
        return hearth_synth_write_router(s, t->layer);
    default:
        return hearth_synth_planted_write(p, t, stream);
    }
}

// ---- metadata

static int put_metadata(struct hearth_synth *s)
{
    static const char *const names[] = {"llama", "bamboo", "opt", "falcon", "qwen3moe"};
    const struct hearth_synth_preset *p = s->p;
    const char *arch = names[p->arch];
    const bool layer_norm = p->arch == HEARTH_SYNTH_OPT || p->arch == HEARTH_SYNTH_FALCON;
    const struct {
        const char *key;
        uint32_t value; // 0: left out
    } numbers[] = {{"context_length", p->n_ctx},
                   {"embedding_length", p->n_embd},
                   {"block_count", p->n_layer},
                   {"feed_forward_length", p->n_ff},
                   {"attention.head_count", p->n_head},
                   {"attention.head_count_kv", p->n_head_kv},
                   {"attention.key_length", p->head_dim},
                   {"attention.value_length", p->head_dim},
                   {"rope.dimension_count", p->rope_theta > 0 ? p->head_dim : 0},
                   {"expert_count", p->n_expert},
                   {"expert_used_count", p->n_used},
                   {"expert_feed_forward_length", p->n_expert ? p->n_ff : 0},
                   {"vocab_size", p->n_vocab}};
    char title[96], key[96];
    snprintf(title, sizeof title, "%s (synthetic weights)", p->name);
    int rc = hearth_gguf_put_str(s->w, "general.architecture", arch, strlen(arch), s->err);
    if (!rc)
        rc = hearth_gguf_put_str(s->w, "general.name", title, strlen(title), s->err);
    if (!rc)
        rc = hearth_gguf_put_u32(s->w, "general.file_type", 2, s->err); // mostly Q4_0
    if (!rc)
        rc = hearth_gguf_put_u32(s->w, "general.quantization_version", 2, s->err);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !rc; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, numbers[i].key);
        if (numbers[i].value)
            rc = hearth_gguf_put_u32(s->w, key, numbers[i].value, s->err);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_%sepsilon", arch, layer_norm ? "" : "rms_");
    if (!rc)
        rc = hearth_gguf_put_f32(s->w, key, 1e-5f, s->err);
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    if (!rc && p->rope_theta > 0)
        rc = hearth_gguf_put_f32(s->w, key, p->rope_theta, s->err);
    snprintf(key, sizeof key, "%s.feed_forward.activation", arch);
    if (!rc && p->activation)
        rc = hearth_gguf_put_str(s->w, key, p->activation, strlen(p->activation), s->err);
    if (!rc && p->rank && !p->pack)
        rc = hearth_gguf_put_f32(s->w, "powerinfer.sparse_threshold", 0.0f, s->err);
    return rc ? rc : hearth_synth_put_vocabulary(s);
}

// ---- the file

static int write_model(struct hearth_synth *s, const char *path, const struct hearth_synth_tensor *tensors,
                       size_t n)
{
    struct hearth_synth_planted *planted = NULL;
    int rc = hearth_gguf_writer_open(&s->w, path, s->err);
    if (!rc && s->p->pwri)
        hearth_gguf_writer_set_pwri(s->w);
    if (!rc)
        rc = put_metadata(s);
    if (!rc && s->p->pack)
        rc = hearth_synth_put_pack_keys(s);
    for (size_t i = 0; i < n && !rc; i++)
        rc = declare(s, &tensors[i]);
    if (!rc && s->p->pack)
        rc = hearth_gguf_put_checksums(s->w, s->err);
    if (!rc && hearth_synth_has_neurons(s->p))
        rc = hearth_synth_planted_open(&planted, s, tensors, n);
    for (size_t i = 0; i < n && !rc; i++)
        rc = write_tensor(s, planted, &tensors[i], i);
    if (!rc)
        rc = hearth_gguf_finish(&s->w, s->err);
    hearth_gguf_writer_close(&s->w);
    hearth_synth_planted_close(&planted);
    return rc;
}

int hearth_synth(const char *name, const char *out, const struct hearth_synth_params *params,
                 struct hearth_error *err)
{
    struct hearth_synth s = {.params = params, .err = err};
    for (int i = 0; (s.p = hearth_synth_preset_at(i)) != NULL && strcmp(s.p->name, name) != 0; i++)
        ;
    if (!s.p)
        return hearth_fail(err, HEARTH_E_INVALID, "there is no preset \"%s\"", name);
    hearth_kernels_init(&s.kernels, hearth_cpu_flags());
    int rc = hearth_pool_open(&s.pool, params->n_threads > 0 ? params->n_threads : hearth_cpu_count(), err);
    if (!rc)
        rc = hearth_synth_open_stream(&s);
    struct list l = {.s = &s};
    list_tensors(&l);
    s.chunk = malloc(HEARTH_SYNTH_CHUNK);
    l.tensors = hearth_calloc(l.n, sizeof *l.tensors);
    if (!rc && (!s.chunk || !l.tensors))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for a model");
    if (!rc) {
        list_tensors(&l);
        rc = write_model(&s, out, l.tensors, l.n);
    }
    free(l.tensors);
    free(s.chunk);
    hearth_synth_free_stream(&s);
    hearth_pool_close(&s.pool);
    return rc;
}
