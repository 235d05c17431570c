// SPDX-License-Identifier: MIT
// Byte-level BPE ("gpt2" in GGUF). The pre-tokenizer cuts a text into words. Within a word, the
// neighbouring pair that comes first in the list of merges merges first. Files write bytes in
// GPT-2's alphabet; this code works on bytes.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/bytes.h"
#include "text/pretok.h"
#include "text/unicode.h"
#include "text/vocab_impl.h"

static void pair_rank(const void *arg, const char *word, struct hearth_symbol *left,
                      const struct hearth_symbol *right)
{
    const struct hearth_vocab *v = arg;
    (void)word;
    const struct hearth_pairtab_slot *slot = hearth_pairtab_find(&v->merges, left->id, right->id);
    left->rank = slot ? slot->rank : HEARTH_NO_RANK;
    left->merged = slot ? slot->merged : -1;
}

static int encode_word(struct hearth_encoder *e, const char *s, size_t n, struct hearth_error *err)
{
    const struct hearth_vocab *v = e->vocab;
    if (v->ignore_merges && n <= v->max_piece) {
        int32_t id = hearth_strtab_find(&v->by_piece, s, n);
        if (id >= 0 && (uint32_t)id < v->n_tokens) {
            hearth_emit(e, id);
            return HEARTH_OK;
        }
    }
    if (!hearth_merger_reserve(&e->merger, n))
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a word of %zu bytes", n);
    struct hearth_symbol *symbols = e->merger.symbols;
    for (size_t i = 0; i < n; i++)
        symbols[i] =
            (struct hearth_symbol){.start = (uint32_t)i, .length = 1, .id = v->byte_symbol[(uint8_t)s[i]]};
    size_t count;
    if (!hearth_merge(&e->merger, s, n, pair_rank, v, &count))
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a word of %zu bytes", n);
    for (size_t i = 0; i < count; i++) {
        if ((uint32_t)symbols[i].id < v->n_tokens)
            hearth_emit(e, symbols[i].id);
        else
            hearth_emit_bytes(e, s + symbols[i].start, symbols[i].length);
    }
    return HEARTH_OK;
}

// A word of the pre-tokenizer.
static int encode_pretok(void *arg, const char *s, size_t n, struct hearth_error *err)
{
    return hearth_encode_word(arg, s, n, encode_word, err);
}

int hearth_bpe_encode(struct hearth_encoder *e, const char *s, size_t n, struct hearth_error *err)
{
    while (n) {
        size_t good = hearth_utf8_span(s, n);
        int rc = good ? hearth_pretok_split(e->vocab->pretok, &e->state, s, good, encode_pretok, e, err)
                      : HEARTH_OK;
        if (rc != HEARTH_OK)
            return rc;
        s += good;
        n -= good;
        // No expression matches bytes that are not UTF-8: a run of them is a word.
        size_t bad = 0;
        while (bad < n && hearth_utf8_decode(s + bad, n - bad, NULL) == 0)
            bad++;
        if (bad && (rc = hearth_encode_word(e, s, bad, encode_word, err)) != HEARTH_OK)
            return rc;
        s += bad;
        n -= bad;
    }
    return HEARTH_OK;
}

// ---- building

// Strings that merges mention but no token has become symbols of their own. They are stored in
// one growing list.
struct builder {
    struct hearth_vocab *v;
    const char *name;
    struct hearth_error *err;
    uint32_t cap_symbols;
    char *extra; // next free byte of extra_blob
};

static int no_memory(const struct builder *b)
{
    return hearth_fail(b->err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary's merges", b->name);
}

// Whether plain text can produce this token. Merging never produces a control token.
static bool matches_text(const struct hearth_vocab *v, uint32_t id)
{
    return v->piece[id].n > 0 && v->type[id] != HEARTH_TOKEN_CONTROL && v->type[id] != HEARTH_TOKEN_UNKNOWN;
}

// Makes the pieces. Normal tokens written in the alphabet are decoded to bytes. All others are copied
// verbatim and never matched, because text cannot produce them.
static int make_pieces(struct builder *b)
{
    struct hearth_vocab *v = b->v;
    size_t total = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++)
        total += v->text[i].n;
    v->piece_blob = malloc(total + 1);
    if (!v->piece_blob)
        return no_memory(b);
    char *p = v->piece_blob;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        struct hearth_str text = v->text[i];
        bool plain = v->type[i] == HEARTH_TOKEN_NORMAL || v->type[i] == HEARTH_TOKEN_UNUSED ||
                     v->type[i] == HEARTH_TOKEN_BYTE;
        ptrdiff_t decoded = plain ? hearth_bytes_decode(text.s, text.n, p) : -1;
        size_t n = decoded >= 0 ? (size_t)decoded : text.n;
        if (decoded < 0 && n)
            memcpy(p, text.s, n);
        v->piece[i] = (struct hearth_str){p, n};
        p += n;
        if (decoded > 0 && matches_text(v, i) && !hearth_strtab_insert(&v->by_piece, (int32_t)i))
            return no_memory(b);
    }
    return HEARTH_OK;
}

// The id of the symbol s[0..n), which must stay valid; makes the symbol if there is none. -1: no memory.
static int32_t intern(struct builder *b, const char *s, size_t n)
{
    struct hearth_vocab *v = b->v;
    int32_t id = hearth_strtab_find(&v->by_piece, s, n);
    if (id >= 0)
        return id;
    if (v->n_symbols == b->cap_symbols) {
        uint32_t cap = b->cap_symbols + b->cap_symbols / 4 + 1024;
        struct hearth_str *piece = hearth_reallocarray(v->piece, cap, sizeof *piece);
        if (!piece)
            return -1;
        v->piece = piece;
        v->by_piece.keys = piece;
        b->cap_symbols = cap;
    }
    memcpy(b->extra, s, n);
    id = (int32_t)v->n_symbols;
    v->piece[v->n_symbols++] = (struct hearth_str){b->extra, n};
    b->extra += n;
    return hearth_strtab_insert(&v->by_piece, id) ? id : -1;
}

// Adds the merge "left right" of this rank. `scratch` has room for the merged bytes.
static int add_merge(struct builder *b, struct hearth_str merge, uint32_t rank, char *scratch)
{
    // The alphabet has no space, so the only space separates the two sides. A merge may itself
    // start with a space, so the search begins after the first byte.
    const char *space = merge.n > 1 ? memchr(merge.s + 1, ' ', merge.n - 1) : NULL;
    if (!space || space == merge.s + merge.n - 1)
        return hearth_fail(b->err, HEARTH_E_FORMAT, "%s: merge %u is not of the form \"left right\"", b->name,
                           rank);
    size_t left_n = (size_t)(space - merge.s);
    ptrdiff_t l = hearth_bytes_decode(merge.s, left_n, scratch);
    ptrdiff_t r = l < 0 ? -1 : hearth_bytes_decode(space + 1, merge.n - left_n - 1, scratch + l);
    if (l < 0 || r < 0)
        return HEARTH_OK; // outside the alphabet: no text produces it
    int32_t left = intern(b, scratch, (size_t)l), right = left < 0 ? -1 : intern(b, scratch + l, (size_t)r);
    int32_t merged = right < 0 ? -1 : intern(b, scratch, (size_t)(l + r));
    if (merged < 0)
        return no_memory(b);
    hearth_pairtab_insert(&b->v->merges, left, right, rank, merged);
    return HEARTH_OK;
}

static int add_merges(struct builder *b, const struct hearth_vocab_spec *spec)
{
    size_t total = 256, longest = 1;
    for (uint32_t i = 0; i < spec->n_merges; i++) {
        size_t n = spec->merges[i].n;
        if (n > longest)
            longest = n;
        // Each merge can make three new strings: both sides and the union.
        if (n > INT32_MAX || !hearth_add_size(total, 2 * n, &total))
            return hearth_fail(b->err, HEARTH_E_FORMAT, "%s: merge %u is %zu bytes long", b->name, i, n);
    }
    b->v->extra_blob = malloc(total);
    char *scratch = malloc(longest);
    if (!b->v->extra_blob || !scratch || !hearth_pairtab_reserve(&b->v->merges, spec->n_merges)) {
        free(scratch);
        return no_memory(b);
    }
    b->extra = b->v->extra_blob;
    b->v->merges.seed = b->v->by_piece.seed;
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        b->v->byte_token[byte] = hearth_strtab_find(&b->v->by_piece, &c, 1);
    }
    int rc = HEARTH_OK;
    for (int byte = 0; rc == HEARTH_OK && byte < 256; byte++) {
        char c = (char)byte;
        b->v->byte_symbol[byte] = intern(b, &c, 1);
        rc = b->v->byte_symbol[byte] < 0 ? no_memory(b) : HEARTH_OK;
    }
    for (uint32_t i = 0; rc == HEARTH_OK && i < spec->n_merges; i++)
        rc = add_merge(b, spec->merges[i], i, scratch);
    free(scratch);
    return rc;
}

int hearth_bpe_build(struct hearth_vocab *v, const struct hearth_vocab_spec *spec, const char *name,
                     struct hearth_error *err)
{
    struct builder b = {.v = v, .name = name, .err = err, .cap_symbols = v->n_tokens};
    struct hearth_pretok_traits traits;
    int rc = hearth_pretok_open(&v->pretok, v->pre, name, err);
    if (rc != HEARTH_OK)
        return rc;
    hearth_pretok_traits(v->pre, &traits);
    v->ignore_merges = traits.ignore_merges;
    if (!hearth_strtab_reserve(&v->by_piece, v->n_tokens))
        return no_memory(&b);
    rc = make_pieces(&b);
    if (rc == HEARTH_OK)
        rc = add_merges(&b, spec);
    return rc;
}
