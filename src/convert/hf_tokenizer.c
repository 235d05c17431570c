// SPDX-License-Identifier: MIT
// The vocabulary of a Hugging Face folder: finds out which files it has, and writes what they say.
#include "convert/hf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "convert/hf_vocab.h"

#define MAX_SPM ((uint64_t)256 << 20)

// ---- building

struct hearth_str hearth_hf_vocab_join(struct hearth_hf_vocab *v, struct hearth_str a, struct hearth_str b)
{
    if (v->n_made == v->cap_made) {
        const size_t cap = v->cap_made ? 2 * v->cap_made : 256;
        char **made = hearth_reallocarray(v->made, cap, sizeof *made);
        if (!made)
            return (struct hearth_str){NULL, 0};
        v->made = made;
        v->cap_made = cap;
    }
    char *s = malloc(a.n + b.n + 1);
    if (!s)
        return (struct hearth_str){NULL, 0};
    memcpy(s, a.s, a.n);
    memcpy(s + a.n, b.s, b.n);
    s[a.n + b.n] = '\0';
    v->made[v->n_made++] = s;
    return (struct hearth_str){s, a.n + b.n};
}

int hearth_hf_vocab_reserve(struct hearth_hf_vocab *v, bool scores, struct hearth_error *err)
{
    v->n = v->m->n_vocab;
    v->tokens = hearth_calloc(v->n, sizeof *v->tokens);
    v->types = hearth_calloc(v->n, sizeof *v->types);
    v->scores = scores ? hearth_calloc(v->n, sizeof *v->scores) : NULL;
    if (!v->tokens || !v->types || (scores && !v->scores))
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", v->m->folder);
    for (uint32_t i = 0; i < v->n; i++) {
        v->types[i] = HEARTH_TOKEN_UNUSED;
        if (scores)
            v->scores[i] = -10000.0f;
    }
    return HEARTH_OK;
}

static bool begins(struct hearth_str s, const char *text)
{
    return s.n >= strlen(text) && !memcmp(s.s, text, strlen(text));
}

static bool ends(struct hearth_str s, const char *text)
{
    const size_t n = strlen(text);
    return s.n >= n && !memcmp(s.s + s.n - n, text, n);
}

static bool is(struct hearth_str s, const char *text)
{
    return s.n == strlen(text) && begins(s, text);
}

// Some files say of control tokens that they are not special.
static bool looks_special(struct hearth_str s)
{
    return is(s, "<pad>") || is(s, "<mask>") || is(s, "<2mass>") || is(s, "[@BOS@]") ||
           (begins(s, "<|") && ends(s, "|>")) || (begins(s, "<\xEF\xBD\x9C") && ends(s, "\xEF\xBD\x9C>")) ||
           (begins(s, "<unused") && ends(s, ">"));
}

// In tokens that people define, the mark for a space is a space.
static struct hearth_str with_spaces(struct hearth_hf_vocab *v, struct hearth_str s)
{
    static const char mark[] = "\xE2\x96\x81";
    const struct hearth_str made = hearth_hf_vocab_join(v, s, (struct hearth_str){"", 0});
    if (!made.s)
        return made;
    char *text = v->made[v->n_made - 1];
    size_t to = 0;
    for (size_t i = 0; i < s.n;) {
        const bool found = s.n - i >= 3 && !memcmp(s.s + i, mark, 3);
        text[to++] = found ? ' ' : s.s[i];
        i += found ? 3 : 1;
    }
    text[to] = '\0';
    return (struct hearth_str){text, to};
}

int hearth_hf_vocab_add(struct hearth_hf_vocab *v, const struct hearth_json_file *file, json_int_t id,
                        struct hearth_str text, bool special, float score, struct hearth_error *err)
{
    if (id < 0 || id >= (json_int_t)v->n) {
        hearth_log(HEARTH_LOG_WARNING, "%s: token %lld (%.*s) is left out: the model has %u tokens",
                   file->path, (long long)id, (int)(text.n > 40 ? 40 : text.n), text.s, v->n);
        return HEARTH_OK;
    }
    special = special || looks_special(text);
    v->tokens[id] = special ? text : with_spaces(v, text);
    if (!v->tokens[id].s)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", file->path);
    v->types[id] = special ? HEARTH_TOKEN_CONTROL : HEARTH_TOKEN_USER;
    if (v->scores)
        v->scores[id] = score;
    return HEARTH_OK;
}

int32_t hearth_hf_vocab_find(const struct hearth_hf_vocab *v, struct hearth_str text)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->tokens[i].n == text.n && v->types[i] != HEARTH_TOKEN_UNUSED && text.n &&
            !memcmp(v->tokens[i].s, text.s, text.n))
            return (int32_t)i;
    return -1;
}

// Ids that no file gives a text, as embeddings are often longer than vocabularies.
static int name_unused(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    char name[32];
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->tokens[i].s)
            continue;
        const int n = snprintf(name, sizeof name, "[PAD%u]", i);
        v->tokens[i] =
            hearth_hf_vocab_join(v, (struct hearth_str){name, (size_t)n}, (struct hearth_str){"", 0});
        if (!v->tokens[i].s)
            return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", v->m->folder);
    }
    return HEARTH_OK;
}

// ---- files

static int read_spm(struct hearth_hf_vocab *v, const char *path, struct hearth_error *err)
{
    struct hearth_file *f;
    int rc = hearth_file_open(&f, path, err);
    if (rc)
        return rc;
    const uint64_t n = hearth_file_size(f);
    char *data = n <= MAX_SPM ? malloc((size_t)n + 1) : NULL;
    rc = data ? hearth_file_read(f, data, (size_t)n, 0, err)
              : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the file", path);
    hearth_file_close(&f);
    if (rc) {
        free(data);
        return rc;
    }
    rc = hearth_sentencepiece_parse(&v->spm, path, data, (size_t)n, err);
    return rc ? rc : hearth_hf_vocab_from_spm(v, path, err);
}

static bool exists(const struct hearth_hf_vocab *v, const char *name, char path[4200])
{
    snprintf(path, 4200, "%s/%s", v->m->folder, name);
    return hearth_file_exists(path);
}

static int open_sides(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    const char *folder = v->m->folder;
    int rc = hearth_json_file_open(&v->tokenizer, folder, "tokenizer.json", false, err);
    if (!rc)
        rc = hearth_json_file_open(&v->config, folder, "tokenizer_config.json", false, err);
    if (!rc)
        rc = hearth_json_file_open(&v->added, folder, "added_tokens.json", false, err);
    return rc ? rc : hearth_json_file_open(&v->generation, folder, "generation_config.json", false, err);
}

static int read_vocab(struct hearth_hf_vocab *v, struct hearth_error *err)
{
    char path[4200];
    const bool may_be_spm =
        strcmp(v->m->family->arch, "falcon") != 0 && strcmp(v->m->family->arch, "opt") != 0;
    int rc = open_sides(v, err);
    if (rc)
        return rc;
    if (may_be_spm && exists(v, "tokenizer.model", path))
        rc = read_spm(v, path, err);
    else if (v->tokenizer.root)
        rc = hearth_hf_vocab_from_json(v, err);
    else if (exists(v, "vocab.json", path) && exists(v, "merges.txt", path))
        rc = hearth_hf_vocab_from_lists(v, err);
    else
        rc = hearth_fail(err, HEARTH_E_INVALID,
                         "%s: no tokenizer here: neither tokenizer.json nor tokenizer.model", v->m->folder);
    if (!rc)
        rc = name_unused(v, err);
    return rc ? rc : hearth_hf_special_read(v, err);
}

static int put(const struct hearth_hf_vocab *v, struct hearth_gguf_writer *w, struct hearth_error *err)
{
    int rc = hearth_gguf_put_str(w, "tokenizer.ggml.model", v->model, strlen(v->model), err);
    if (!rc)
        rc = hearth_gguf_put_str(w, "tokenizer.ggml.pre", v->pre, strlen(v->pre), err);
    if (!rc)
        rc = hearth_gguf_put_strings(w, "tokenizer.ggml.tokens", v->tokens, v->n, err);
    if (!rc && v->scores)
        rc = hearth_gguf_put_array(w, "tokenizer.ggml.scores", HEARTH_GGUF_F32, v->scores, v->n, err);
    if (!rc)
        rc = hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_I32, v->types, v->n, err);
    if (!rc && v->merges)
        rc = hearth_gguf_put_strings(w, "tokenizer.ggml.merges", v->merges, v->n_merges, err);
    return rc ? rc : hearth_hf_special_put(v, w, err);
}

void hearth_hf_vocab_free(struct hearth_hf_vocab *v)
{
    hearth_json_file_close(&v->tokenizer);
    hearth_json_file_close(&v->config);
    hearth_json_file_close(&v->added);
    hearth_json_file_close(&v->generation);
    hearth_sentencepiece_close(&v->spm);
    for (size_t i = 0; i < v->n_made; i++)
        free(v->made[i]);
    free(v->made);
    free(v->tokens);
    free(v->scores);
    free(v->types);
    free(v->merges);
}

int hearth_hf_tokenizer_put(const struct hearth_hf_model *m, struct hearth_gguf_writer *w,
                            struct hearth_error *err)
{
    struct hearth_hf_vocab v = {.m = m, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1};
    int rc = read_vocab(&v, err);
    if (!rc)
        rc = put(&v, w, err);
    hearth_hf_vocab_free(&v);
    return rc;
}
