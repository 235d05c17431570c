// SPDX-License-Identifier: MIT
// The tokens of one word at a time, on their way to the caller.
#include <string.h>

#include "base/memory.h"
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
        // Byte-level vocabularies leave bytes out that they do not have: their unknown token is often the end
        // of a text. In the others a run of unknown characters is one "unknown" token, as in SentencePiece.
        e->uncacheable = true;
        if (e->vocab->family == HEARTH_VOCAB_SPM && e->vocab->unk >= 0 && !e->was_unknown) {
            hearth_emit(e, e->vocab->unk);
            e->was_unknown = true;
        }
    }
}

int hearth_encode_word(struct hearth_encoder *e, const char *s, size_t n, hearth_encode_word_fn fn,
                       struct hearth_error *err)
{
    if (!e->cache || n > CACHE_WORD)
        return fn(e, s, n, err);
    uint64_t h = hearth_text_hash(s, n, e->cache_seed);
    struct hearth_word *w = &e->cache[h % CACHE_SLOTS];
    if (w->n == n && w->hash == (uint32_t)(h >> 32) && memcmp(w->s, s, n) == 0) {
        for (uint32_t i = 0; i < w->n_tokens; i++)
            hearth_emit(e, w->tokens[i]);
        return HEARTH_OK;
    }
    e->tap_n = 0;
    e->uncacheable = false;
    int rc = fn(e, s, n, err);
    if (rc == HEARTH_OK && e->tap_n <= TAP && !e->uncacheable) {
        *w = (struct hearth_word){
            .s = s, .n = (uint32_t)n, .hash = (uint32_t)(h >> 32), .n_tokens = (uint32_t)e->tap_n};
        memcpy(w->tokens, e->tap, e->tap_n * sizeof *e->tap);
    }
    return rc;
}

void hearth_word_cache_open(struct hearth_encoder *e, size_t text_bytes)
{
    // Without memory for it, every word is tokenized anew.
    e->cache = text_bytes >= CACHE_MIN_INPUT ? hearth_calloc(CACHE_SLOTS, sizeof *e->cache) : NULL;
    e->cache_seed = e->vocab->by_piece.seed;
}
