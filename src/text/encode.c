// SPDX-License-Identifier: MIT
// Tokenizing: split off special tokens, cut the rest into words by the family's rules, merge word by word.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "text/pretok.h"
#include "text/vocab_impl.h"

// Words repeat: a small direct-mapped cache of words and their tokens saves most of the merging.
// It exists for one call.
#define CACHE_SLOTS     4096 // 256 KiB, stays in the L2 cache
#define CACHE_WORD      64   // bytes
#define CACHE_MIN_INPUT 4096 // for shorter texts, clearing it costs more than it saves
#define TAP             (sizeof((struct hearth_encoder *)0)->tap / sizeof(hearth_token))

struct hearth_word {
    const char *s; // in the text being tokenized
    uint32_t n, hash;
    uint32_t n_tokens;
    hearth_token tokens[8];
};

void hearth_emit(struct hearth_encoder *e, hearth_token t)
{
    if (e->n < e->cap)
        e->out[e->n] = t;
    e->n++;
    if (e->tap_n < TAP)
        e->tap[e->tap_n] = t;
    e->tap_n++;
    e->was_unknown = false;
}

void hearth_emit_bytes(struct hearth_encoder *e, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hearth_token t = e->vocab->byte_token[(uint8_t)s[i]];
        if (t >= 0) {
            hearth_emit(e, t);
            continue;
        }
        // Byte-level vocabularies leave bytes out that they do not have: their unknown token is often the end of
        // a text. In the others a run of unknown characters is one "unknown" token, as in SentencePiece.
        e->uncacheable = true;
        if (e->vocab->family == HEARTH_VOCAB_SPM && e->vocab->unk >= 0 && !e->was_unknown) {
            hearth_emit(e, e->vocab->unk);
            e->was_unknown = true;
        }
    }
}

static int encode_new_word(struct hearth_encoder *e, const char *s, size_t n, struct hearth_error *err)
{
    return e->vocab->family == HEARTH_VOCAB_SPM ? hearth_spm_word(e, s, n, err)
                                                : hearth_bpe_word(e, s, n, err);
}

int hearth_encode_word(struct hearth_encoder *e, const char *s, size_t n, struct hearth_error *err)
{
    if (!e->cache || n > CACHE_WORD)
        return encode_new_word(e, s, n, err);
    uint64_t h = hearth_text_hash(s, n, e->cache_seed);
    struct hearth_word *w = &e->cache[h % CACHE_SLOTS];
    if (w->n == n && w->hash == (uint32_t)(h >> 32) && memcmp(w->s, s, n) == 0) {
        for (uint32_t i = 0; i < w->n_tokens; i++)
            hearth_emit(e, w->tokens[i]);
        return HEARTH_OK;
    }
    e->tap_n = 0;
    e->uncacheable = false;
    int rc = encode_new_word(e, s, n, err);
    if (rc == HEARTH_OK && e->tap_n <= TAP && !e->uncacheable) {
        *w = (struct hearth_word){
            .s = s, .n = (uint32_t)n, .hash = (uint32_t)(h >> 32), .n_tokens = (uint32_t)e->tap_n};
        memcpy(w->tokens, e->tap, e->tap_n * sizeof *e->tap);
    }
    return rc;
}

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
    if (len >= CACHE_MIN_INPUT) {
        e->cache = hearth_calloc(CACHE_SLOTS, sizeof *e->cache);
        e->cache_seed = e->vocab->by_piece.seed;
    }
    if (e->vocab->family == HEARTH_VOCAB_SPM) {
        e->buffer = malloc(len + fragments + 1);
        if (!e->buffer)
            return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a text of %zu bytes", len);
    }
    return HEARTH_OK;
}

int64_t hearth_vocab_tokenize(const struct hearth_vocab *v, const char *text, size_t len, int flags,
                              hearth_token *out, size_t cap, struct hearth_error *err)
{
    // Words are addressed with 32 bits.
    if (len > INT32_MAX)
        return hearth_fail(err, HEARTH_E_INVALID, "a text of %zu bytes is too long to tokenize: split it",
                           len);
    struct hearth_fragment *fragments = NULL;
    size_t count = 0;
    int rc = hearth_special_split(v, text, len, flags & HEARTH_TOKENIZE_SPECIAL, &fragments, &count, err);
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
    hearth_pretok_run_free(e.run);
    hearth_merger_free(&e.merger);
    free(e.cache);
    free(e.buffer);
    free(fragments);
    return rc == HEARTH_OK ? (int64_t)e.n : rc;
}
