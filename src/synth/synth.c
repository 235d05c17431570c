// SPDX-License-Identifier: MIT
// Synthetic models: the file, its metadata, and the source of each tensor's numbers.
#include "synth/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/threads.h"
#include "synth/insides.h"

const char *hearth_synth_preset(int i, const char **what)
{
    const struct hearth_synth_preset *p = hearth_synth_preset_at(i);
    if (p && what)
        *what = p->what;
    return p ? p->name : NULL;
}

// ---- numbers of tensors

static int write_vector(struct hearth_synth *s, const struct hearth_synth_tensor *t)
{
    float *v = (float *)(void *)s->buffer;
    for (uint64_t i = 0; i < t->k; i++)
        v[i] = t->fill == HEARTH_SYNTH_ONES     ? 1.0f
               : t->fill == HEARTH_SYNTH_SAME   ? t->stddev
               : t->fill == HEARTH_SYNTH_TURNS  ? (i < t->k / 4 ? 1.0f : 1e30f)
               : t->fill == HEARTH_SYNTH_DECAYS ? -0.02f - 0.5f * (float)i / (float)t->k
                                                : 0.0f;
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < t->x && !rc; i++)
        rc = hearth_synth_write(s, v, (size_t)t->k * sizeof *v);
    return rc;
}

// A channel's taps: the token's own, and less of those before it.
static int write_taps(struct hearth_synth *s, const struct hearth_synth_tensor *t)
{
    float *v = (float *)(void *)s->buffer;
    for (uint64_t i = 0; i < t->k; i++)
        v[i] = i + 1 < t->k ? 0.25f : 1.0f;
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < t->n && !rc; i++)
        rc = hearth_synth_write(s, v, (size_t)t->k * sizeof *v);
    return rc;
}

struct random_job {
    const struct hearth_synth *s;
    const struct hearth_synth_tensor *t;
    uint64_t stream, first; // first block in the buffer
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
    hearth_synth_q4_0(&rng, j->s->buffer + at * 18, left < RANDOM_TASK ? left : RANDOM_TASK, j->t->stddev);
}

static int write_random(struct hearth_synth *s, const struct hearth_synth_tensor *t, uint64_t stream)
{
    const uint64_t n_blocks = t->k / 32 * t->n * t->x;
    const size_t most = HEARTH_SYNTH_BUFFER / 18 / RANDOM_TASK * RANDOM_TASK;
    int rc = HEARTH_OK;
    for (uint64_t at = 0; at < n_blocks && !rc; at += most) {
        struct random_job j = {s, t, stream, at, n_blocks - at < most ? (size_t)(n_blocks - at) : most};
        hearth_pool_run(s->pool, random_task, &j, (int)((j.n_blocks + RANDOM_TASK - 1) / RANDOM_TASK));
        rc = hearth_synth_write(s, s->buffer, j.n_blocks * 18);
    }
    return rc;
}

static int write_tensor(struct hearth_synth *s, struct hearth_synth_planted *p,
                        const struct hearth_synth_tensor *t, uint64_t stream)
{
    switch (t->fill) {
    case HEARTH_SYNTH_ONES:
    case HEARTH_SYNTH_ZEROS:
    case HEARTH_SYNTH_DECAYS:
    case HEARTH_SYNTH_SAME:
    case HEARTH_SYNTH_TURNS:
        return write_vector(s, t);
    case HEARTH_SYNTH_TAPS:
        return write_taps(s, t);
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

// ---- profiles of packs

// What is planted, as if so many tokens had been counted.
#define PROFILE_TOKENS 1000000
// Planted neurons' sets overlap by 0.34 (Jaccard) from token to token, so that half of a set was active
// before; by 0.15 where the stream drifts.
#define PROFILE_REPEATS       0.51f
#define PROFILE_REPEATS_DRIFT 0.26f

static uint64_t spaces_of_layer(const struct hearth_synth *s)
{
    return s->p->n_expert ? s->p->n_expert : 1;
}

static int declare_profile(struct hearth_synth *s)
{
    static const uint32_t one = 1;
    const uint64_t counts[3] = {s->p->n_ff, spaces_of_layer(s), 1}, visits[2] = {spaces_of_layer(s), 1};
    char name[64];
    int rc = HEARTH_OK;
    for (uint32_t i = 0; i < s->p->n_layer && !rc; i++) {
        snprintf(name, sizeof name, "blk.%u.ffn_counts", i);
        rc = hearth_gguf_put_tensor(s->w, name, HEARTH_TYPE_I32, 3, counts, s->err);
        snprintf(name, sizeof name, "blk.%u.ffn_visits", i);
        if (!rc)
            rc = hearth_gguf_put_tensor(s->w, name, HEARTH_TYPE_I32, 2, visits, s->err);
    }
    if (!rc)
        rc = hearth_gguf_put_array(s->w, "hearth.pack.batches", HEARTH_GGUF_U32, &one, 1, s->err);
    if (!rc)
        rc = hearth_gguf_put_f32(s->w, "hearth.pack.repeats",
                                 s->params->drift ? PROFILE_REPEATS_DRIFT : PROFILE_REPEATS, s->err);
    return rc ? rc : hearth_gguf_put_u64(s->w, "hearth.pack.profile_tokens", PROFILE_TOKENS, s->err);
}

static int write_profile(struct hearth_synth *s)
{
    const size_t n_ff = s->p->n_ff;
    const uint64_t spaces = spaces_of_layer(s);
    const int32_t visits =
        s->p->n_expert ? (int32_t)(PROFILE_TOKENS * (uint64_t)s->p->n_used / s->p->n_expert) : PROFILE_TOKENS;
    int32_t *counts = hearth_calloc(n_ff, sizeof *counts);
    if (!counts)
        return hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    for (size_t j = 0; j < n_ff; j++) // the chance that a normal number with this threshold is positive
        counts[j] = (int32_t)(0.5 * erfc(-(double)s->threshold[j] / sqrt(2.0)) * visits);
    int rc = HEARTH_OK;
    for (uint32_t i = 0; i < s->p->n_layer && !rc; i++) {
        for (uint64_t e = 0; e < spaces && !rc; e++)
            rc = hearth_gguf_write(s->w, counts, n_ff * sizeof *counts, s->err);
        for (uint64_t e = 0; e < spaces && !rc; e++)
            rc = hearth_gguf_write(s->w, &visits, sizeof visits, s->err);
    }
    free(counts);
    return rc;
}

// ---- shapes

// A preset whose neurons are planted, as a pack.
static void make_shape(struct hearth_synth_preset *p)
{
    if (!hearth_synth_has_neurons(p) || p->arch == HEARTH_SYNTH_OPT) // biases are in no pack of ours
        return;
    p->pack = true;
    p->pwri = false;
    if (!p->activation)
        p->activation = p->arch == HEARTH_SYNTH_BAMBOO ? "drelu" : "relu";
}

static int write_shape(struct hearth_synth *s, const struct hearth_synth_tensor *tensors, size_t n)
{
    int rc = HEARTH_OK;
    for (size_t i = 0; i < n && !rc; i++) // norms and biases are read when a model opens
        rc = tensors[i].n ? hearth_gguf_skip(s->w, hearth_synth_bytes(&tensors[i]), s->err)
                          : write_vector(s, &tensors[i]);
    return rc;
}

// ---- metadata

// What layers of two kinds have, and which is of which.
static int put_kinds(struct hearth_synth *s)
{
    const struct hearth_synth_preset *p = s->p;
    const struct hearth_synth_kinds *k = &p->kinds;
    uint8_t windowed[256];
    uint32_t heads[256], neurons[256];
    for (uint32_t i = 0; i < p->n_layer; i++) {
        windowed[i] = hearth_synth_is_windowed(p, i);
        heads[i] = windowed[i] ? p->n_head_kv : k->n_head_kv;
        neurons[i] = hearth_synth_neurons(p, i);
    }
    int rc = hearth_gguf_put_array(s->w, "gemma4.attention.sliding_window_pattern", HEARTH_GGUF_BOOL,
                                   windowed, p->n_layer, s->err);
    if (!rc)
        rc = hearth_gguf_put_array(s->w, "gemma4.attention.head_count_kv", HEARTH_GGUF_I32, heads, p->n_layer,
                                   s->err);
    if (!rc)
        rc = hearth_gguf_put_array(s->w, "gemma4.feed_forward_length", HEARTH_GGUF_I32, neurons, p->n_layer,
                                   s->err);
    if (!rc) // llama.cpp wants to know of 0, too
        rc = hearth_gguf_put_u32(s->w, "gemma4.embedding_length_per_layer_input", k->n_embd_layer, s->err);
    if (!rc)
        rc = hearth_gguf_put_f32(s->w, "gemma4.rope.freq_base_swa", 1e4f, s->err);
    return rc ? rc : hearth_gguf_put_f32(s->w, "gemma4.final_logit_softcapping", 30.0f, s->err);
}

// How many pairs of a head turn with a picture's time, row and column: of texts these are the same, but
// llama.cpp wants to know.
static int put_sections(struct hearth_synth *s, const char *arch)
{
    char key[64];
    const int32_t pairs = (int32_t)s->p->n_rot / 2;
    const int32_t sections[4] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3};
    snprintf(key, sizeof key, "%s.rope.dimension_sections", arch);
    return hearth_gguf_put_array(s->w, key, HEARTH_GGUF_I32, sections, 4, s->err);
}

// Several streams: which layers choose positions, and how n-grams become rows of the table.
static int put_streams(struct hearth_synth *s)
{
    const struct hearth_synth_preset *p = s->p;
    const struct hearth_synth_streams *t = &p->streams;
    static const uint64_t by[HEARTH_SYNTH_GRAM_SIZE] = {24680135791357, 13579246802469, 98765432123457};
    static const uint32_t layer = HEARTH_SYNTH_GRAM_LAYER;
    uint64_t first[64], count[64];
    uint32_t blocks[256];
    const uint32_t n = (HEARTH_SYNTH_GRAM_SIZE - 1) * t->gram_heads;
    for (uint32_t i = 0; i < p->n_layer; i++)
        blocks[i] = (i + 1) % p->attends ? 0 : t->block;
    for (uint32_t i = 0; i < n; i++) {
        count[i] = t->gram_rows / n;
        first[i] = i * count[i];
    }
    const struct {
        const char *key;
        enum hearth_gguf_type type;
        const void *numbers;
        uint32_t n;
    } arrays[] = {{"qwen4exp.attention.compress_ratios", HEARTH_GGUF_U32, blocks, p->n_layer},
                  {"qwen4exp.ple.layers", HEARTH_GGUF_U32, &layer, 1},
                  {"qwen4exp.ple.layer_multipliers", HEARTH_GGUF_U64, by, HEARTH_SYNTH_GRAM_SIZE},
                  {"qwen4exp.ple.head_offsets", HEARTH_GGUF_U64, first, n},
                  {"qwen4exp.ple.head_vocab_sizes", HEARTH_GGUF_U64, count, n}};
    int rc = HEARTH_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && !rc; i++)
        rc = hearth_gguf_put_array(s->w, arrays[i].key, arrays[i].type, arrays[i].numbers, arrays[i].n,
                                   s->err);
    return rc;
}

// Which layers choose positions, where others share what these chose.
static int put_choosing(struct hearth_synth *s, const char *arch)
{
    bool chooses[256];
    char key[64];
    for (uint32_t i = 0; i < s->p->n_layer; i++)
        chooses[i] = hearth_synth_chooses(&s->p->latent, i);
    snprintf(key, sizeof key, "%s.attention.indexer.types", arch);
    return hearth_gguf_put_array(s->w, key, HEARTH_GGUF_BOOL, chooses, s->p->n_layer, s->err);
}

static int put_metadata(struct hearth_synth *s)
{
    static const char *const names[] = {"llama",    "bamboo",   "opt",        "falcon",
                                        "qwen3moe", "gpt-oss",  "qwen35moe",  "deepseek2",
                                        "gemma4",   "qwen4exp", "deepseek32", "glm-dsa"};
    const struct hearth_synth_preset *p = s->p;
    const struct hearth_synth_kinds *k = &p->kinds;
    const uint32_t head = k->interval ? k->head_dim : p->head_dim;
    const char *arch = names[p->arch];
    const bool layer_norm = p->arch == HEARTH_SYNTH_OPT || p->arch == HEARTH_SYNTH_FALCON;
    const struct {
        const char *key;
        uint32_t value; // 0: left out
    } numbers[] = {{"context_length", p->n_ctx},
                   {"embedding_length", p->n_embd},
                   {"block_count", p->n_layer},
                   {"feed_forward_length", k->interval      ? 0
                                           : p->latent.rank ? p->latent.n_ff_dense
                                                            : p->n_ff},
                   {"attention.head_count", p->n_head},
                   {"attention.head_count_kv", k->interval ? 0 : p->n_head_kv},
                   {"attention.key_length", head},
                   {"attention.value_length", p->latent.rank ? p->latent.rank : head},
                   {"attention.key_length_swa", k->interval ? p->head_dim : 0},
                   {"attention.value_length_swa", k->interval ? p->head_dim : 0},
                   {"attention.shared_kv_layers", k->borrowing},
                   {"rope.dimension_count_swa", k->interval ? p->head_dim : 0},
                   {"attention.key_length_mla", p->latent.still + p->latent.n_rot},
                   {"attention.value_length_mla", p->latent.value},
                   {"attention.kv_lora_rank", p->latent.rank},
                   {"attention.q_lora_rank", p->latent.q_rank},
                   {"leading_dense_block_count", hearth_synth_dense(&p->latent)},
                   {"expert_shared_count", p->latent.n_shared},
                   {"expert_gating_func", !p->latent.rank     ? 0
                                          : p->latent.sigmoid ? 2
                                                              : 1},
                   {"rope.dimension_count", p->rope_theta <= 0 ? 0
                                            : p->latent.rank   ? p->latent.n_rot
                                            : p->n_rot         ? p->n_rot
                                                               : head},
                   {"expert_count", p->n_expert},
                   {"expert_used_count", p->n_used},
                   {"expert_feed_forward_length", p->n_expert ? p->n_ff : 0},
                   {"expert_shared_feed_forward_length", p->n_shared},
                   {"full_attention_interval", p->attends},
                   {"ssm.conv_kernel", p->attends ? HEARTH_SYNTH_TAP_COUNT : 0},
                   {"ssm.state_size", p->rec_dim},
                   {"ssm.group_count", p->rec_keys},
                   {"ssm.time_step_rank", p->rec_heads},
                   {"ssm.inner_size", p->rec_heads * p->rec_dim},
                   {"hyper_connection.count", p->streams.n},
                   {"hyper_connection.low_rank", p->streams.rank},
                   {"attention.indexer.head_count", p->streams.choosers + p->latent.choosers},
                   {"attention.indexer.key_length", p->streams.chooser + p->latent.chooser},
                   {"attention.indexer.top_k", p->streams.chosen + p->latent.chosen},
                   {"ple.ngram_size", p->streams.gram_rows ? HEARTH_SYNTH_GRAM_SIZE : 0},
                   {"ple.heads_per_ngram", p->streams.gram_heads},
                   {"ple.conv_kernel", p->streams.gram_rows ? HEARTH_SYNTH_TAP_COUNT : 0},
                   {"ple.eos_token_id", p->streams.gram_rows ? 2 : 0},
                   {"embedding_length_per_layer_input", p->streams.gram_dim},
                   {"attention.sliding_window", p->window},
                   {"rope.scaling.original_context_length", p->n_ctx_orig},
                   {"vocab_size", p->n_vocab}};
    char title[96], key[96];
    const char *kind = s->params->drift ? "synthetic weights, drifting" : "synthetic weights";
    snprintf(title, sizeof title, "%s (%s)", p->name, s->params->shape ? "shape alone" : kind);
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
    if (!rc && k->interval)
        rc = put_kinds(s);
    if (!rc && hearth_synth_is_qwen35(p))
        rc = put_sections(s, arch);
    if (!rc && p->streams.n)
        rc = put_streams(s);
    if (!rc && p->latent.choosing)
        rc = put_choosing(s, arch);
    snprintf(key, sizeof key, "%s.attention.layer_norm_%sepsilon", arch, layer_norm ? "" : "rms_");
    if (!rc)
        rc = hearth_gguf_put_f32(s->w, key, 1e-5f, s->err);
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    if (!rc && p->rope_theta > 0)
        rc = hearth_gguf_put_f32(s->w, key, p->rope_theta, s->err);
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch);
    if (!rc && p->n_ctx_orig)
        rc = hearth_gguf_put_str(s->w, key, "yarn", 4, s->err);
    snprintf(key, sizeof key, "%s.rope.scaling.factor", arch);
    if (!rc && p->n_ctx_orig)
        rc = hearth_gguf_put_f32(s->w, key, 32.0f, s->err);
    snprintf(key, sizeof key, "%s.feed_forward.activation", arch);
    if (!rc && p->activation)
        rc = hearth_gguf_put_str(s->w, key, p->activation, strlen(p->activation), s->err);
    if (!rc && p->rank && !p->pack)
        rc = hearth_gguf_put_f32(s->w, "powerinfer.sparse_threshold", 0.0f, s->err);
    if (!rc && s->params->early_predictors && !p->pack)
        rc = hearth_gguf_put_str(s->w, "hearth.pack.predictor_input", "previous", 8, s->err);
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
        rc = hearth_synth_declare(s, &tensors[i]);
    if (!rc && s->p->pack)
        rc = declare_profile(s);
    if (!rc && s->p->pack && !s->params->shape)
        rc = hearth_gguf_put_checksums(s->w, s->err);
    if (!rc && hearth_synth_has_neurons(s->p) && !s->params->shape)
        rc = hearth_synth_planted_open(&planted, s, tensors, n);
    for (size_t i = 0; i < n && !rc && !s->params->shape; i++)
        rc = write_tensor(s, planted, &tensors[i], i);
    if (!rc && s->params->shape)
        rc = write_shape(s, tensors, n);
    if (!rc && s->p->pack)
        rc = write_profile(s);
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
    if (params->early_predictors && !s.p->rank)
        return hearth_fail(err, HEARTH_E_INVALID, "%s has no predictors", name);
    if (params->drift && !hearth_synth_has_neurons(s.p))
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%s has no planted neurons, whose stream could drift: leave out --drift", name);
    struct hearth_synth_preset shape = *s.p;
    if (params->shape) {
        make_shape(&shape);
        s.p = &shape;
    }
    hearth_kernels_init(&s.kernels, hearth_cpu_flags());
    int rc = hearth_pool_open(&s.pool, hearth_pool_threads(params->n_threads), err);
    if (!rc)
        rc = hearth_synth_open_stream(&s);
    const size_t n = hearth_synth_list(&s, NULL);
    s.buffer = malloc(HEARTH_SYNTH_BUFFER);
    struct hearth_synth_tensor *tensors = hearth_calloc(n, sizeof *tensors);
    if (!rc && (!s.buffer || !tensors))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for a model");
    if (!rc) {
        hearth_synth_list(&s, tensors);
        rc = write_model(&s, out, tensors, n);
    }
    free(tensors);
    free(s.buffer);
    hearth_synth_free_stream(&s);
    hearth_pool_close(&s.pool);
    return rc;
}
