// SPDX-License-Identifier: MIT
// Tokenizing: split off special tokens, cut the rest into words by the family's rules, merge word by word.
#include <stdlib.h>

#include "text/pretok.h"
#include "text/vocab_impl.h"

static int encode_fragments(struct hearth_encoder *e, const char *text, const struct hearth_fragment *f,
                            size_t count, struct hearth_error *err)
{
    bool after_special = true; // the start of a text counts as one
    for (size_t i = 0; i < count; i++) {
        if (f[i].token >= 0) {
            hearth_emit(e, f[i].token);
            after_special = true;
            continue;
        }
        const char *s = text + f[i].start;
        int rc = e->vocab->family == HEARTH_VOCAB_SPM
                     ? hearth_spm_encode(e, s, f[i].length, after_special && e->vocab->add_space_prefix, err)
                     : hearth_bpe_encode(e, s, f[i].length, err);
        if (rc != HEARTH_OK)
            return rc;
        after_special = false;
    }
    return HEARTH_OK;
}

static int prepare(struct hearth_encoder *e, size_t len, size_t fragments, struct hearth_error *err)
{
    hearth_word_cache_open(e, len);
    if (e->vocab->family == HEARTH_VOCAB_SPM) {
        e->buffer = malloc(len + fragments + 1);
        if (!e->buffer)
            return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a text of %zu bytes", len);
    }
    return HEARTH_OK;
}

int64_t hearth_vocab_tokenize_marked(const struct hearth_vocab *v, const char *text, size_t len,
                                     const uint8_t *marks, int flags, hearth_token *out, size_t cap,
                                     struct hearth_error *err)
{
    // Words are addressed with 32 bits.
    if (len > INT32_MAX)
        return hearth_fail(err, HEARTH_E_INVALID, "a text of %zu bytes is too long to tokenize: split it",
                           len);
    struct hearth_fragment *fragments = NULL;
    size_t count = 0;
    int rc =
        hearth_special_split(v, text, len, flags & HEARTH_TOKENIZE_SPECIAL, marks, &fragments, &count, err);
    if (rc != HEARTH_OK)
        return rc;
    struct hearth_encoder e = {.vocab = v, .out = out, .cap = cap};
    rc = prepare(&e, len, count, err);
    if (rc == HEARTH_OK) {
        if ((flags & HEARTH_TOKENIZE_BOS) && v->add_bos)
            hearth_emit(&e, v->bos);
        rc = encode_fragments(&e, text, fragments, count, err);
        if ((flags & HEARTH_TOKENIZE_BOS) && v->add_eos)
            hearth_emit(&e, v->eos);
    }
    hearth_pretok_state_free(e.state);
    hearth_merger_free(&e.merger);
    free(e.cache);
    free(e.buffer);
    free(fragments);
    return rc == HEARTH_OK ? (int64_t)e.n : rc;
}

int64_t hearth_vocab_tokenize(const struct hearth_vocab *v, const char *text, size_t len, int flags,
                              hearth_token *out, size_t cap, struct hearth_error *err)
{
    return hearth_vocab_tokenize_marked(v, text, len, NULL, flags, out, cap, err);
}
