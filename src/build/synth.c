// SPDX-License-Identifier: MIT
// Synthetic models: presets, metadata, vocabulary, and random weights drawn directly in their block format.
#include "build/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "gguf/gguf.h"

// Bytes of weights made at a time.
#define CHUNK ((size_t)4 << 20)

struct preset {
    const char *name, *what;
    uint32_t n_vocab, n_ctx, n_embd, n_ff, n_layer, n_head, n_head_kv;
    float rope_theta;
    uint32_t type;      // of all matrices
    uint32_t file_type; // general.file_type for it
};

static const struct preset presets[] = {
    {"mistral-7b-dense", "Mistral 7B in Q4_0: 7.24 billion weights, 3.8 GiB", 32000, 32768, 4096, 14336, 32,
     32, 8, 1000000.0f, HEARTH_TYPE_Q4_0, 2},
    {"tiny-dense", "the same layout, small, for tests: 3.5 million weights, 2 MiB", 512, 2048, 256, 896, 4, 8,
     2, 10000.0f, HEARTH_TYPE_Q4_0, 2},
};

const char *hearth_synth_preset(int i, const char **what)
{
    if (i < 0 || (size_t)i >= sizeof presets / sizeof presets[0])
        return NULL;
    if (what)
        *what = presets[i].what;
    return presets[i].name;
}

// ---- random weights
// ------------------------------------------------------------------------------------------

// xoshiro256**, one stream a tensor.
struct rng {
    uint64_t s[4];
};

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static struct rng rng_for(uint64_t seed, uint64_t stream)
{
    struct rng r;
    uint64_t x = seed ^ stream * 0xD1342543DE82EF95u;
    for (int i = 0; i < 4; i++)
        r.s[i] = splitmix(&x);
    return r;
}

static uint64_t next(struct rng *r)
{
    uint64_t *s = r->s, x = s[1] * 5, result = (x << 7 | x >> 57) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return result;
}

// Sixteen nibbles, each the sum of two uniform 3-bit numbers and one bit: bell-shaped over 0..15 with
// mean 7.5 and variance 2 * 63 / 12 + 1 / 4.
static uint64_t bell_nibbles(struct rng *r)
{
    const uint64_t three = 0x7777777777777777u, one = 0x1111111111111111u;
    return (next(r) & three) + (next(r) & three) + (next(r) & one);
}
#define BELL_STDDEV 3.2787f

// Q4_0 blocks whose weights have the given standard deviation. The sign of the scale alternates at random,
// which centres what the format's range of -8..7 leaves off-centre.
static void fill_q4_0(struct rng *r, uint8_t *dst, size_t bytes, float stddev)
{
    const uint16_t d = hearth_f32_to_f16(stddev / BELL_STDDEV);
    uint64_t signs = 0;
    for (size_t i = 0; i < bytes / 18; i++, dst += 18) {
        if (i % 64 == 0)
            signs = next(r);
        uint16_t scale = (uint16_t)(d | (signs >> i % 64 & 1) << 15);
        uint64_t q[2] = {bell_nibbles(r), bell_nibbles(r)};
        memcpy(dst, &scale, 2);
        memcpy(dst + 2, q, 16);
    }
}

// ---- writing
// -------------------------------------------------------------------------------------------------

struct synth {
    const struct preset *p;
    const struct hearth_synth_params *params;
    struct hearth_gguf_writer *w;
    uint8_t *chunk; // [CHUNK]
    uint64_t written, total;
    uint64_t stream; // number of the current tensor
    struct hearth_error *err;
};

// Calls `each` for every tensor of the model in file order: a vector when n == 0.
typedef int (*tensor_fn)(struct synth *s, const char *name, uint64_t k, uint64_t n);

static int for_tensors(struct synth *s, tensor_fn each)
{
    const struct preset *p = s->p;
    const uint64_t e = p->n_embd, f = p->n_ff, kv = e / p->n_head * p->n_head_kv;
    const struct {
        const char *name;
        uint64_t k, n;
    } layer[] = {{"attn_norm", e, 0}, {"attn_q", e, e},      {"attn_k", e, kv},
                 {"attn_v", e, kv},   {"attn_output", e, e}, {"ffn_norm", e, 0},
                 {"ffn_gate", e, f},  {"ffn_up", e, f},      {"ffn_down", f, e}};
    int rc = each(s, "token_embd.weight", e, p->n_vocab);
    for (uint32_t i = 0; i < p->n_layer && !rc; i++)
        for (size_t t = 0; t < sizeof layer / sizeof layer[0] && !rc; t++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s.weight", i, layer[t].name);
            rc = each(s, name, layer[t].k, layer[t].n);
        }
    if (!rc)
        rc = each(s, "output_norm.weight", e, 0);
    return rc ? rc : each(s, "output.weight", e, p->n_vocab);
}

static int declare(struct synth *s, const char *name, uint64_t k, uint64_t n)
{
    uint32_t type = n ? s->p->type : HEARTH_TYPE_F32;
    const uint64_t ne[2] = {k, n};
    s->total += hearth_type_bytes(type, k) * (n ? n : 1);
    return hearth_gguf_put_tensor(s->w, name, type, n ? 2 : 1, ne, s->err);
}

// Residual branches are scaled down by depth, as trained models' are, so that the stream does not grow.
static float stddev_of(const struct synth *s, const char *name, uint64_t k)
{
    float stddev = 1.0f / sqrtf((float)k);
    if (strstr(name, "attn_output") || strstr(name, "ffn_down"))
        stddev /= sqrtf(2.0f * (float)s->p->n_layer);
    return stddev;
}

static int write_tensor(struct synth *s, const char *name, uint64_t k, uint64_t n)
{
    struct rng r = rng_for(s->params->seed, ++s->stream);
    if (!n) {
        float *ones = (float *)(void *)s->chunk;
        for (uint64_t i = 0; i < k; i++)
            ones[i] = 1.0f;
        s->written += k * sizeof *ones;
        return hearth_gguf_write(s->w, ones, (size_t)k * sizeof *ones, s->err);
    }
    const size_t row = hearth_type_bytes(s->p->type, k), rows = CHUNK / row;
    for (uint64_t at = 0; at < n; at += rows) {
        const size_t bytes = row * (size_t)(n - at < rows ? n - at : rows);
        fill_q4_0(&r, s->chunk, bytes, stddev_of(s, name, k));
        int rc = hearth_gguf_write(s->w, s->chunk, bytes, s->err);
        if (rc)
            return rc;
        s->written += bytes;
        if (s->params->progress &&
            !s->params->progress(s->params->progress_arg, (float)s->written / (float)s->total))
            return hearth_fail(s->err, HEARTH_E_INTERRUPTED, "interrupted");
    }
    return HEARTH_OK;
}

// Made-up words, all different: base-20 numbers in pronounceable syllables, every other one with a leading
// space.
static void word(char *dst, size_t size, uint32_t i)
{
    static const char consonants[] = "bcdfghjklmnprstvwxyz", vowels[] = "aeiou";
    size_t n = 0;
    if (i % 2)
        n += (size_t)snprintf(dst, size, "\xe2\x96\x81");
    i /= 2;
    do {
        dst[n++] = consonants[i % 20];
        i /= 20;
        dst[n++] = vowels[i % 5];
        i /= 5;
    } while (i && n + 3 < size);
    dst[n] = '\0';
}

static int put_vocabulary(struct synth *s)
{
    enum { FIRST_WORD = 259, WORD = 24 };
    const uint32_t n = s->p->n_vocab;
    char(*text)[WORD] = hearth_calloc(n, sizeof *text);
    struct hearth_str *strings = hearth_calloc(n, sizeof *strings);
    float *scores = hearth_calloc(n, sizeof *scores);
    int32_t *types = hearth_calloc(n, sizeof *types);
    int rc = text && strings && scores && types
                 ? HEARTH_OK
                 : hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a vocabulary");
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    for (uint32_t i = 0; i < n && !rc; i++) {
        types[i] = i == 0 ? 2 : i < 3 ? 3 : i < FIRST_WORD ? 6 : 1;
        scores[i] = i < FIRST_WORD ? 0.0f : -(float)(i - FIRST_WORD);
        if (i < 3)
            snprintf(text[i], WORD, "%s", special[i]);
        else if (i < FIRST_WORD)
            snprintf(text[i], WORD, "<0x%02X>", i - 3);
        else
            word(text[i], WORD, i - FIRST_WORD);
        strings[i] = (struct hearth_str){text[i], strlen(text[i])};
    }
    struct hearth_gguf_writer *w = s->w;
    if (!rc)
        rc = hearth_gguf_put_str(w, "tokenizer.ggml.model", "llama", 5, s->err);
    if (!rc)
        rc = hearth_gguf_put_str(w, "tokenizer.ggml.pre", "default", 7, s->err);
    if (!rc)
        rc = hearth_gguf_put_strings(w, "tokenizer.ggml.tokens", strings, n, s->err);
    if (!rc)
        rc = hearth_gguf_put_array(w, "tokenizer.ggml.scores", HEARTH_GGUF_F32, scores, n, s->err);
    if (!rc)
        rc = hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_I32, types, n, s->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0, s->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1, s->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2, s->err);
    free(text);
    free(strings);
    free(scores);
    free(types);
    return rc;
}

static int put_metadata(struct synth *s)
{
    const struct preset *p = s->p;
    struct hearth_gguf_writer *w = s->w;
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"general.file_type", p->file_type},
                   {"general.quantization_version", 2},
                   {"llama.context_length", p->n_ctx},
                   {"llama.embedding_length", p->n_embd},
                   {"llama.block_count", p->n_layer},
                   {"llama.feed_forward_length", p->n_ff},
                   {"llama.attention.head_count", p->n_head},
                   {"llama.attention.head_count_kv", p->n_head_kv},
                   {"llama.rope.dimension_count", p->n_embd / p->n_head},
                   {"llama.vocab_size", p->n_vocab}};
    char title[96];
    snprintf(title, sizeof title, "%s (synthetic weights)", p->name);
    int rc = hearth_gguf_put_str(w, "general.architecture", "llama", 5, s->err);
    if (!rc)
        rc = hearth_gguf_put_str(w, "general.name", title, strlen(title), s->err);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !rc; i++)
        rc = hearth_gguf_put_u32(w, numbers[i].key, numbers[i].value, s->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f, s->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, "llama.rope.freq_base", p->rope_theta, s->err);
    return rc ? rc : put_vocabulary(s);
}

int hearth_synth(const char *name, const char *out, const struct hearth_synth_params *params,
                 struct hearth_error *err)
{
    struct synth s = {.params = params, .err = err};
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (!strcmp(presets[i].name, name))
            s.p = &presets[i];
    if (!s.p)
        return hearth_fail(err, HEARTH_E_INVALID, "there is no preset \"%s\"", name);
    s.chunk = malloc(CHUNK);
    if (!s.chunk)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a model");
    int rc = hearth_gguf_writer_open(&s.w, out, err);
    if (!rc)
        rc = put_metadata(&s);
    if (!rc)
        rc = for_tensors(&s, declare);
    if (!rc)
        rc = for_tensors(&s, write_tensor);
    if (!rc)
        rc = hearth_gguf_finish(&s.w, err);
    hearth_gguf_writer_close(&s.w);
    free(s.chunk);
    return rc;
}
