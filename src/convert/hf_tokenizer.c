// SPDX-License-Identifier: MIT
// The vocabulary of a Hugging Face folder: finds out which files it has, and writes what they say.
#include "convert/hf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "convert/hf_vocab.h"

#define MAX_SPM ((uint64_t)256 << 20)

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
    const char *arch = v->m->family->arch;
    int rc = open_sides(v, err);
    if (rc)
        return rc;
    const bool may_be_spm = strcmp(arch, "falcon") != 0 && strcmp(arch, "opt") != 0 &&
                            !(v->tokenizer.root && !strcmp(arch, "gemma4"));
    if (may_be_spm && exists(v, "tokenizer.model", path))
        rc = read_spm(v, path, err);
    else if (v->tokenizer.root)
        rc = hearth_hf_vocab_from_json(v, err);
    else if (exists(v, "tiktoken.model", path))
        rc = hearth_hf_vocab_from_tiktoken(v, path, err);
    else if (exists(v, "vocab.json", path) && exists(v, "merges.txt", path))
        rc = hearth_hf_vocab_from_lists(v, err);
    else
        rc = hearth_fail(
            err, HEARTH_E_INVALID,
            "%s: no tokenizer here: neither tokenizer.json nor tokenizer.model nor tiktoken.model",
            v->m->folder);
    if (!rc)
        rc = name_unused(v, err);
    return rc ? rc : hearth_hf_special_read(v, err);
}

static int put(const struct hearth_hf_vocab *v, struct hearth_gguf_writer *w, struct hearth_error *err)
{
    int rc = hearth_gguf_put_str(w, "tokenizer.ggml.model", v->model, strlen(v->model), err);
    if (!rc && v->pre)
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

int hearth_hf_tokenizer_own(const struct hearth_hf_model *m, uint32_t *n, struct hearth_error *err)
{
    struct hearth_json_file file;
    const int rc = hearth_json_file_open(&file, m->folder, "tokenizer.json", false, err);
    const json_t *vocab = json_object_get(json_object_get(file.root, "model"), "vocab");
    *n = (uint32_t)json_object_size(vocab);
    hearth_json_file_close(&file);
    return rc;
}
