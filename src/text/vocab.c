// SPDX-License-Identifier: MIT
// A vocabulary: construction and accessors.
#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "text/pretok.h"
#include "text/vocab_impl.h"

size_t hearth_vocab_bytes(const struct hearth_vocab *v, hearth_token t, bool special, char *out, size_t cap)
{
    if (t < 0 || (uint32_t)t >= v->n_tokens)
        return 0;
    if (!special && (v->type[t] == HEARTH_TOKEN_CONTROL || v->type[t] == HEARTH_TOKEN_UNKNOWN))
        return 0;
    size_t n = v->piece[t].n < cap ? v->piece[t].n : cap;
    if (n)
        memcpy(out, v->piece[t].s, n);
    return v->piece[t].n;
}

uint32_t hearth_vocab_size(const struct hearth_vocab *v)
{
    return v->n_tokens;
}

const char *hearth_vocab_model(const struct hearth_vocab *v)
{
    return v->by_merges ? "gemma4" : v->family == HEARTH_VOCAB_SPM ? "llama" : "gpt2";
}

const char *hearth_vocab_pre(const struct hearth_vocab *v)
{
    return v->pre;
}

hearth_token hearth_vocab_bos(const struct hearth_vocab *v)
{
    return v->bos;
}

hearth_token hearth_vocab_eos(const struct hearth_vocab *v)
{
    return v->eos;
}

hearth_token hearth_vocab_eot(const struct hearth_vocab *v)
{
    return v->eot;
}

bool hearth_vocab_is_eog(const struct hearth_vocab *v, hearth_token t)
{
    return t >= 0 && (uint32_t)t < v->n_tokens && (v->flags[t] & HEARTH_TOKEN_EOG);
}

bool hearth_vocab_is_suppressed(const struct hearth_vocab *v, hearth_token t)
{
    return t >= 0 && (uint32_t)t < v->n_tokens && (v->flags[t] & HEARTH_TOKEN_NEVER);
}

struct hearth_str hearth_vocab_text(const struct hearth_vocab *v, hearth_token t)
{
    return t >= 0 && (uint32_t)t < v->n_tokens ? v->text[t] : (struct hearth_str){"", 0};
}

enum hearth_token_type hearth_vocab_type(const struct hearth_vocab *v, hearth_token t)
{
    return t >= 0 && (uint32_t)t < v->n_tokens ? (enum hearth_token_type)v->type[t] : HEARTH_TOKEN_UNUSED;
}

// ---- construction

static int check_id(int32_t id, uint32_t n_tokens, const char *what, const char *name,
                    struct hearth_error *err)
{
    if (id < -1 || (id >= 0 && (uint32_t)id >= n_tokens))
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: the %s token is %d, but there are %u tokens", name,
                           what, id, n_tokens);
    return HEARTH_OK;
}

static int check_spec(const struct hearth_vocab_spec *spec, const char *name, struct hearth_error *err)
{
    if (spec->n_tokens == 0 || spec->n_tokens > INT32_MAX / 8)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: a vocabulary of %u tokens", name, spec->n_tokens);
    if (spec->n_merges > INT32_MAX / 8)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: a vocabulary of %u merges", name, spec->n_merges);
    int32_t ids[] = {spec->bos, spec->eos, spec->eot, spec->unk, spec->pad};
    const char *what[] = {"BOS", "EOS", "EOT", "unknown", "padding"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int rc = check_id(ids[i], spec->n_tokens, what[i], name, err);
        if (rc != HEARTH_OK)
            return rc;
    }
    return HEARTH_OK;
}

static int copy_texts(struct hearth_vocab *v, const struct hearth_vocab_spec *spec, const char *name,
                      struct hearth_error *err)
{
    size_t total = 0;
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        if (!hearth_add_size(total, spec->tokens[i].n, &total) || total > INT32_MAX)
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: the vocabulary's tokens are longer than 2 GiB",
                               name);
    }
    v->text_blob = malloc(total + 1);
    v->text = hearth_calloc(spec->n_tokens, sizeof *v->text);
    v->piece = hearth_calloc(spec->n_tokens, sizeof *v->piece);
    v->type = hearth_calloc(spec->n_tokens, 1);
    v->flags = hearth_calloc(spec->n_tokens, 1);
    if (!v->text_blob || !v->text || !v->piece || !v->type || !v->flags)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for a vocabulary of %u tokens", name,
                           spec->n_tokens);
    char *p = v->text_blob;
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        size_t n = spec->tokens[i].n;
        if (n)
            memcpy(p, spec->tokens[i].s, n);
        v->text[i] = (struct hearth_str){p, n};
        p += n;
    }
    return HEARTH_OK;
}

static int copy_types(struct hearth_vocab *v, const struct hearth_vocab_spec *spec, const char *name,
                      struct hearth_error *err)
{
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        int32_t type = spec->types ? spec->types[i] : HEARTH_TOKEN_NORMAL;
        if (type < 0 || type > HEARTH_TOKEN_BYTE)
            return hearth_fail(err, HEARTH_E_FORMAT, "%s: token %u is of type %d; types are 0 to 6", name, i,
                               type);
        v->type[i] = type ? (uint8_t)type : HEARTH_TOKEN_NORMAL; // 0: "undefined"
    }
    return HEARTH_OK;
}

static void mark_ends(struct hearth_vocab *v, const struct hearth_vocab_spec *spec)
{
    hearth_vocab_mark_names(v);
    if (spec->eos >= 0)
        v->flags[spec->eos] |= HEARTH_TOKEN_EOG;
    if (spec->eot >= 0)
        v->flags[spec->eot] |= HEARTH_TOKEN_EOG;
    v->eot = spec->eot >= 0 ? spec->eot : hearth_vocab_find_eot(v);
}

static int build(struct hearth_vocab *v, const struct hearth_vocab_spec *spec, const char *name,
                 struct hearth_error *err)
{
    int rc = copy_texts(v, spec, name, err);
    if (rc == HEARTH_OK)
        rc = copy_types(v, spec, name, err);
    if (rc != HEARTH_OK)
        return rc;
    v->pre = hearth_strndup(spec->pre ? spec->pre : "", spec->pre ? strlen(spec->pre) : 0);
    if (!v->pre)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", name);
    mark_ends(v, spec);
    v->by_piece.keys = v->piece;
    v->by_piece.seed = hearth_random_u64();
    rc = v->family == HEARTH_VOCAB_SPM ? hearth_spm_build(v, spec, name, err)
                                       : hearth_bpe_build(v, spec, name, err);
    if (rc != HEARTH_OK)
        return rc;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (v->piece[i].n > v->max_piece)
            v->max_piece = v->piece[i].n;
    }
    return hearth_special_build(v, name, err);
}

int hearth_vocab_create(struct hearth_vocab **out, const struct hearth_vocab_spec *spec, const char *name,
                        struct hearth_error *err)
{
    *out = NULL;
    bool by_merges = spec->model && strcmp(spec->model, "gemma4") == 0;
    bool spm = by_merges || (spec->model && strcmp(spec->model, "llama") == 0);
    if (!spm && (!spec->model || strcmp(spec->model, "gpt2") != 0))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: tokenizer \"%s\" is not supported (\"llama\", \"gemma4\" and \"gpt2\" are)",
                           name, spec->model ? spec->model : "");
    int rc = check_spec(spec, name, err);
    if (rc != HEARTH_OK)
        return rc;
    struct hearth_vocab *v = hearth_calloc(1, sizeof *v);
    if (!v)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary", name);
    v->family = spm ? HEARTH_VOCAB_SPM : HEARTH_VOCAB_BPE;
    v->by_merges = by_merges;
    v->n_tokens = v->n_symbols = spec->n_tokens;
    v->bos = spec->bos;
    v->eos = spec->eos;
    v->unk = spec->unk;
    v->add_bos = spec->add_bos && spec->bos >= 0;
    v->add_eos = spec->add_eos && spec->eos >= 0;
    v->add_space_prefix = spec->add_space_prefix;
    for (int i = 0; i < 256; i++)
        v->byte_token[i] = -1;
    rc = build(v, spec, name, err);
    if (rc != HEARTH_OK)
        hearth_vocab_close(&v);
    *out = v;
    return rc;
}

uint64_t hearth_vocab_memory(const struct hearth_vocab *v)
{
    uint64_t bytes = sizeof *v + v->n_tokens * (sizeof *v->text + sizeof *v->type + sizeof *v->flags) +
                     v->n_symbols * sizeof *v->piece + v->n_specials * sizeof *v->specials +
                     (v->rank ? v->n_tokens * sizeof *v->rank : 0);
    for (uint32_t i = 0; i < v->n_tokens; i++)
        bytes += 2 * v->text[i].n; // and its piece
    for (uint32_t i = v->n_tokens; i < v->n_symbols; i++)
        bytes += v->piece[i].n;
    return bytes + hearth_strtab_memory(&v->by_piece) + hearth_pairtab_memory(&v->merges);
}

void hearth_vocab_close(struct hearth_vocab **v)
{
    if (!*v)
        return;
    hearth_strtab_free(&(*v)->by_piece);
    hearth_pairtab_free(&(*v)->merges);
    hearth_pretok_close(&(*v)->pretok);
    free((*v)->specials);
    free((*v)->rank);
    free((*v)->text_blob);
    free((*v)->piece_blob);
    free((*v)->extra_blob);
    free((*v)->text);
    free((*v)->piece);
    free((*v)->type);
    free((*v)->flags);
    free((*v)->pre);
    free(*v);
    *v = NULL;
}
