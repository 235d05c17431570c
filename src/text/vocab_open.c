// SPDX-License-Identifier: MIT
// A vocabulary from the metadata of a GGUF. Source: the GGUF specification, section "Tokenizer"; defaults for
// absent keys are llama.cpp's.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "text/pretok.h"
#include "text/vocab_impl.h"

#define KEY(name) "tokenizer.ggml." name

// The spec read from a file, and the arrays made for it.
struct reading {
    const struct hearth_gguf *g;
    struct hearth_error *err;
    struct hearth_vocab_spec spec;
    char *model, *pre;
    float *scores;
    int32_t *types;
    struct hearth_pretok_traits traits;
};

static const char *path_of(const struct reading *r)
{
    return hearth_gguf_path(r->g);
}

static int read_string(struct reading *r, const char *key, bool required, char **out)
{
    struct hearth_str s = {"", 0};
    int rc = hearth_gguf_str(r->g, key, required, &s, r->err);
    if (rc != HEARTH_OK)
        return rc;
    *out = hearth_strndup(s.s, s.n);
    return *out ? HEARTH_OK : hearth_fail(r->err, HEARTH_E_MEMORY, "%s: no memory for %s", path_of(r), key);
}

// Reads an array of strings, in place.
static int read_strings(struct reading *r, const char *key, const struct hearth_str **out, uint32_t *n)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, key);
    if (!kv)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is missing: the file has no usable vocabulary",
                           path_of(r), key);
    if (kv->type != HEARTH_GGUF_ARRAY || kv->element != HEARTH_GGUF_STRING || kv->count > INT32_MAX)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s should be an array of strings", path_of(r), key);
    *out = kv->strings;
    *n = (uint32_t)kv->count;
    return HEARTH_OK;
}

// Finds an array of numbers with one entry per token; NULL when the key is absent.
static int find_numbers(struct reading *r, const char *key, const struct hearth_gguf_kv **out)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, key);
    *out = kv;
    if (!kv)
        return HEARTH_OK;
    if (kv->type != HEARTH_GGUF_ARRAY || kv->element == HEARTH_GGUF_STRING ||
        kv->element == HEARTH_GGUF_ARRAY)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s should be an array of numbers", path_of(r), key);
    if (kv->count < r->spec.n_tokens)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s has %llu entries for %u tokens", path_of(r), key,
                           (unsigned long long)kv->count, r->spec.n_tokens);
    return HEARTH_OK;
}

static int read_scores(struct reading *r)
{
    const struct hearth_gguf_kv *kv;
    int rc = find_numbers(r, KEY("scores"), &kv);
    if (rc != HEARTH_OK || !kv)
        return rc;
    r->scores = hearth_calloc(r->spec.n_tokens, sizeof *r->scores);
    if (!r->scores)
        return hearth_fail(r->err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary's scores", path_of(r));
    for (uint32_t i = 0; i < r->spec.n_tokens; i++)
        r->scores[i] = (float)hearth_gguf_kv_f64(kv, i);
    r->spec.scores = r->scores;
    return HEARTH_OK;
}

static int read_types(struct reading *r)
{
    const struct hearth_gguf_kv *kv;
    int rc = find_numbers(r, KEY("token_type"), &kv);
    if (rc != HEARTH_OK || !kv)
        return rc;
    if (kv->element == HEARTH_GGUF_F32 || kv->element == HEARTH_GGUF_F64)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s should be an array of integers", path_of(r),
                           KEY("token_type"));
    r->types = hearth_calloc(r->spec.n_tokens, sizeof *r->types);
    if (!r->types)
        return hearth_fail(r->err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary's token types",
                           path_of(r));
    for (uint32_t i = 0; i < r->spec.n_tokens; i++) {
        int64_t type = hearth_gguf_kv_i64(kv, i);
        r->types[i] = type < 0 || type > HEARTH_TOKEN_BYTE ? -1 : (int32_t)type;
    }
    r->spec.types = r->types;
    return HEARTH_OK;
}

// Reads a token id: the file's if it is valid, else the family's default, else none.
static int read_id(struct reading *r, const char *key, int32_t *id)
{
    if (*id >= 0 && (uint32_t)*id >= r->spec.n_tokens)
        *id = -1;
    if (!hearth_gguf_find(r->g, key))
        return HEARTH_OK;
    uint32_t value = UINT32_MAX;
    // Some converters write -1 for "none", which no unsigned number can hold: that is no error.
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, key);
    if (kv->type == HEARTH_GGUF_I32 && hearth_gguf_kv_i64(kv, 0) == -1) {
        *id = -1;
        return HEARTH_OK;
    }
    int rc = hearth_gguf_u32(r->g, key, false, &value, r->err);
    if (rc == HEARTH_OK && value < r->spec.n_tokens)
        *id = (int32_t)value;
    return rc;
}

static bool is_gemma4(const struct reading *r)
{
    return strcmp(r->model, "gemma4") == 0;
}

static void set_defaults(struct reading *r)
{
    struct hearth_vocab_spec *s = &r->spec;
    const bool spm = strcmp(r->model, "llama") == 0, none = is_gemma4(r);
    s->bos = none ? -1 : spm ? 1 : 11;
    s->eos = none ? -1 : spm ? 2 : 11;
    s->unk = spm ? 0 : -1;
    s->eot = s->pad = -1;
    s->add_bos = s->add_space_prefix = spm;
    if (!spm && !none) {
        hearth_pretok_traits(r->pre, &r->traits);
        s->add_bos = r->traits.add_bos;
        if (r->traits.no_bos)
            s->bos = -1;
    }
}

static int read_ids(struct reading *r)
{
    struct hearth_vocab_spec *s = &r->spec;
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {
        {KEY("bos_token_id"), &s->bos},     {KEY("eos_token_id"), &s->eos},
        {KEY("eot_token_id"), &s->eot},     {KEY("unknown_token_id"), &s->unk},
        {KEY("padding_token_id"), &s->pad},
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int rc = read_id(r, ids[i].key, ids[i].id);
        if (rc != HEARTH_OK)
            return rc;
    }
    return HEARTH_OK;
}

static int read_flags(struct reading *r)
{
    int rc = hearth_gguf_bool(r->g, KEY("add_bos_token"), false, &r->spec.add_bos, r->err);
    if (rc == HEARTH_OK)
        rc = hearth_gguf_bool(r->g, KEY("add_eos_token"), false, &r->spec.add_eos, r->err);
    if (rc == HEARTH_OK)
        rc = hearth_gguf_bool(r->g, KEY("add_space_prefix"), false, &r->spec.add_space_prefix, r->err);
    return rc;
}

static int read_spec(struct reading *r)
{
    int rc = read_string(r, KEY("model"), true, &r->model);
    if (rc == HEARTH_OK)
        rc = read_string(r, KEY("pre"), false, &r->pre);
    if (rc == HEARTH_OK)
        rc = read_strings(r, KEY("tokens"), &r->spec.tokens, &r->spec.n_tokens);
    if (rc != HEARTH_OK)
        return rc;
    r->spec.model = r->model;
    r->spec.pre = r->pre;
    set_defaults(r);
    if (strcmp(r->model, "gpt2") == 0 && !*r->pre)
        hearth_log(
            HEARTH_LOG_WARNING,
            "%s does not say how words are cut (tokenizer.ggml.pre is missing): \"default\" is assumed, and "
            "ids may be others than those that the model was trained with; a newer file of the model says it",
            path_of(r));
    rc = read_scores(r);
    if (rc == HEARTH_OK)
        rc = read_types(r);
    if (rc == HEARTH_OK && (strcmp(r->model, "gpt2") == 0 || is_gemma4(r)))
        rc = read_strings(r, KEY("merges"), &r->spec.merges, &r->spec.n_merges);
    if (rc == HEARTH_OK)
        rc = read_ids(r);
    if (rc == HEARTH_OK)
        rc = read_flags(r);
    r->spec.add_bos |= is_gemma4(r); // early files say that there is none, and their models want one
    return rc;
}

// Marks further end-of-generation tokens that only some files name.
static int mark_more_ends(struct reading *r, struct hearth_vocab *v)
{
    static const char *const keys[] = {KEY("eom_token_id"), KEY("fim_pad_token_id"), KEY("fim_rep_token_id"),
                                       KEY("fim_sep_token_id")};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t id = -1;
        int rc = read_id(r, keys[i], &id);
        if (rc != HEARTH_OK)
            return rc;
        if (id >= 0)
            v->flags[id] |= HEARTH_TOKEN_EOG;
    }
    return HEARTH_OK;
}

// Ids that the vocabulary does not have are passed over, as llama.cpp does it.
static int mark_suppressed(struct reading *r, struct hearth_vocab *v)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, KEY("suppress_tokens"));
    if (!kv)
        return HEARTH_OK;
    if (kv->type != HEARTH_GGUF_ARRAY || (kv->element != HEARTH_GGUF_I32 && kv->element != HEARTH_GGUF_U32))
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s should be an array of integers", path_of(r),
                           KEY("suppress_tokens"));
    for (uint64_t i = 0; i < kv->count; i++) {
        const int64_t id = hearth_gguf_kv_i64(kv, i);
        if (id >= 0 && id < v->n_tokens)
            v->flags[id] |= HEARTH_TOKEN_NEVER;
    }
    return HEARTH_OK;
}

static bool contains_ignoring_case(struct hearth_str s, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= s.n; i++) {
        size_t j = 0;
        while (j < n && (s.s[i + j] >= 'A' && s.s[i + j] <= 'Z' ? s.s[i + j] + 32 : s.s[i + j]) == what[j])
            j++;
        if (j == n)
            return true;
    }
    return false;
}

static bool is_text(const struct hearth_vocab *v, uint32_t id, const char *text)
{
    size_t n = strlen(text);
    return v->text[id].n == n && memcmp(v->text[id].s, text, n) == 0;
}

// Sets the white space that special tokens swallow. GGUF does not record it; for some models it is known.
static int set_strips(struct reading *r, struct hearth_vocab *v)
{
    struct hearth_str name = {"", 0};
    int rc = hearth_gguf_str(r->g, "general.name", false, &name, r->err);
    if (rc != HEARTH_OK)
        return rc;
    bool phi3 = contains_ignoring_case(name, "phi-3") || contains_ignoring_case(name, "phi3");
    bool jina = strcmp(v->pre, "jina-v2-de") == 0 || strcmp(v->pre, "jina-v2-es") == 0 ||
                strcmp(v->pre, "jina-v2-code") == 0;
    bool bert = contains_ignoring_case(name, "modern-bert");
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if ((jina && is_text(v, i, "<mask>")) || (bert && is_text(v, i, "[MASK]")))
            v->flags[i] |= HEARTH_TOKEN_LSTRIP;
        if (phi3 && (v->type[i] == HEARTH_TOKEN_CONTROL || v->type[i] == HEARTH_TOKEN_USER) &&
            !is_text(v, i, "<unk>") && !is_text(v, i, "<s>") && !is_text(v, i, "<|endoftext|>"))
            v->flags[i] |= HEARTH_TOKEN_RSTRIP;
    }
    return HEARTH_OK;
}

int hearth_vocab_open(struct hearth_vocab **out, const struct hearth_gguf *g, struct hearth_error *err)
{
    *out = NULL;
    struct reading r = {.g = g, .err = err};
    int rc = read_spec(&r);
    if (rc == HEARTH_OK)
        rc = hearth_vocab_create(out, &r.spec, path_of(&r), err);
    if (rc == HEARTH_OK)
        rc = mark_more_ends(&r, *out);
    if (rc == HEARTH_OK)
        rc = mark_suppressed(&r, *out);
    if (rc == HEARTH_OK)
        rc = set_strips(&r, *out);
    if (rc != HEARTH_OK)
        hearth_vocab_close(out);
    free(r.model);
    free(r.pre);
    free(r.scores);
    free(r.types);
    return rc;
}
