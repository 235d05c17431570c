// SPDX-License-Identifier: MIT
// SentencePiece-style BPE. Spaces belong to words. The pair whose union has the best score merges first ("llama" in
// GGUF), or the one that comes first in a list of merges ("gemma4"). Characters without a token are spelled in byte
// tokens. Source: the SentencePiece BPE model.
//
// Files write a space as U+2581. This code keeps text and pieces with plain spaces. U+2581 in a text becomes
// a space too: the two could not be told apart anyway.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/unicode.h"
#include "text/vocab_impl.h"

#define SPACE_MARK   "\xE2\x96\x81" // U+2581
#define SPACE_MARK_N 3

static void pair_rank(const void *arg, const char *word, struct hearth_symbol *left,
                      const struct hearth_symbol *right)
{
    const struct hearth_vocab *v = arg;
    size_t n = (size_t)left->length + right->length;
    int32_t id = n <= v->max_piece ? hearth_strtab_find(&v->by_piece, word + left->start, n) : -1;
    left->rank = id >= 0 ? v->rank[id] : HEARTH_NO_RANK;
    left->merged = id;
}

static void pair_merge(const void *arg, const char *word, struct hearth_symbol *left,
                       const struct hearth_symbol *right)
{
    const struct hearth_vocab *v = arg;
    (void)word;
    const bool tokens = left->id >= 0 && right->id >= 0;
    const struct hearth_pairtab_slot *slot =
        tokens ? hearth_pairtab_find(&v->merges, left->id, right->id) : NULL;
    left->rank = slot ? slot->rank : HEARTH_NO_RANK;
    left->merged = slot ? slot->merged : -1;
}

static int encode_word(struct hearth_encoder *e, const char *s, size_t n, struct hearth_error *err)
{
    const struct hearth_vocab *v = e->vocab;
    if (!hearth_merger_reserve(&e->merger, n))
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a word of %zu bytes", n);
    struct hearth_symbol *symbols = e->merger.symbols;
    size_t count = 0;
    for (size_t i = 0; i < n;) {
        size_t length = hearth_utf8_decode(s + i, n - i, NULL);
        if (length == 0)
            length = 1; // an ill-formed byte: a symbol of its own
        symbols[count++] = (struct hearth_symbol){.start = (uint32_t)i,
                                                  .length = (uint32_t)length,
                                                  .id = hearth_strtab_find(&v->by_piece, s + i, length)};
        i += length;
    }
    if (!hearth_merge(&e->merger, s, count, v->by_merges ? pair_merge : pair_rank, v, &count))
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a word of %zu bytes", n);
    for (size_t i = 0; i < count; i++) {
        if (symbols[i].id >= 0)
            hearth_emit(e, symbols[i].id);
        else
            hearth_emit_bytes(e, s + symbols[i].start, symbols[i].length);
    }
    return HEARTH_OK;
}

// Copies s[0..n) with U+2581 as a space. Returns the new length.
static size_t copy_unmarked(char *dst, const char *s, size_t n)
{
    size_t written = 0;
    while (n) {
        const char *mark = hearth_find_bytes(s, n, SPACE_MARK, SPACE_MARK_N);
        size_t plain = mark ? (size_t)(mark - s) : n;
        memcpy(dst + written, s, plain);
        written += plain;
        if (!mark)
            break;
        dst[written++] = ' ';
        s += plain + SPACE_MARK_N;
        n -= plain + SPACE_MARK_N;
    }
    return written;
}

int hearth_spm_encode(struct hearth_encoder *e, const char *s, size_t n, bool space_prefix,
                      struct hearth_error *err)
{
    // During the call words are remembered by address, so every fragment has its own part of the buffer.
    char *text = e->buffer + e->buffer_n;
    size_t length = 0;
    if (space_prefix)
        text[length++] = ' ';
    length += copy_unmarked(text + length, s, n);
    e->buffer_n += length;
    // If no token continues across a space, the space starts a word: nothing can merge over it.
    for (size_t start = 0; start < length;) {
        size_t end = start + 1;
        while (end < length && (text[end] != ' ' || e->vocab->joins_space[(uint8_t)text[end - 1]]))
            end++;
        int rc = hearth_encode_word(e, text + start, end - start, encode_word, err);
        if (rc != HEARTH_OK)
            return rc;
        start = end;
    }
    return HEARTH_OK;
}

// ---- building

struct scored {
    float score;
    uint32_t id;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

static int rank_by_score(struct hearth_vocab *v, const float *scores, const char *name,
                         struct hearth_error *err)
{
    v->rank = hearth_calloc(v->n_tokens, sizeof *v->rank);
    struct scored *sorted = hearth_calloc(v->n_tokens, sizeof *sorted);
    if (!v->rank || !sorted) {
        free(sorted);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary's scores", name);
    }
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        float score = scores ? scores[i] : 0.0f;
        sorted[i] = (struct scored){isnan(score) ? -INFINITY : score, i}; // an order needs comparable values
    }
    qsort(sorted, v->n_tokens, sizeof *sorted, by_score);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (i > 0 && sorted[i].score < sorted[i - 1].score)
            rank = i;
        v->rank[sorted[i].id] = rank;
    }
    free(sorted);
    return HEARTH_OK;
}

// Whether plain text can produce this token. Text never produces control tokens, and byte tokens
// only as a fallback.
static bool matches_text(const struct hearth_vocab *v, uint32_t id)
{
    return v->text[id].n > 0 && v->type[id] != HEARTH_TOKEN_CONTROL && v->type[id] != HEARTH_TOKEN_UNKNOWN &&
           v->type[id] != HEARTH_TOKEN_BYTE;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The byte of a token written "<0x0A>", or -1.
static int byte_value(struct hearth_str s)
{
    if (s.n != 6 || memcmp(s.s, "<0x", 3) != 0 || s.s[5] != '>')
        return -1;
    int high = hex_digit(s.s[3]), low = hex_digit(s.s[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

// Makes the pieces: the bytes of each token. Only normal tokens have marked spaces; others are verbatim.
static int make_pieces(struct hearth_vocab *v, const char *name, struct hearth_error *err)
{
    size_t total = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++)
        total += v->text[i].n;
    v->piece_blob = malloc(total + 1);
    if (!v->piece_blob)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary's pieces", name);
    char *p = v->piece_blob;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        struct hearth_str text = v->text[i];
        int byte = v->type[i] == HEARTH_TOKEN_BYTE ? byte_value(text) : -1;
        size_t n = text.n;
        if (byte >= 0) {
            *p = (char)byte;
            n = 1;
        } else if (v->type[i] == HEARTH_TOKEN_NORMAL || v->type[i] == HEARTH_TOKEN_UNUSED) {
            n = copy_unmarked(p, text.s, text.n);
        } else if (n) {
            memcpy(p, text.s, n);
        }
        v->piece[i] = (struct hearth_str){p, n};
        p += n;
    }
    return HEARTH_OK;
}

static void find_bytes(struct hearth_vocab *v)
{
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        int byte = byte_value(v->text[i]);
        if (byte >= 0 && (v->byte_token[byte] < 0 || v->type[i] == HEARTH_TOKEN_BYTE))
            v->byte_token[byte] = (hearth_token)i;
    }
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        if (v->byte_token[byte] < 0)
            v->byte_token[byte] = hearth_strtab_find(&v->by_piece, &c, 1);
    }
}

// The list of merges, of pairs of tokens whose union is one.
static int add_merges(struct hearth_vocab *v, const struct hearth_vocab_spec *spec, const char *name,
                      struct hearth_error *err)
{
    size_t longest = 1;
    for (uint32_t i = 0; i < spec->n_merges; i++)
        longest = spec->merges[i].n > longest ? spec->merges[i].n : longest;
    char *both = malloc(longest);
    v->merges.seed = v->by_piece.seed;
    int rc = both && hearth_pairtab_reserve(&v->merges, spec->n_merges)
                 ? HEARTH_OK
                 : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary's merges", name);
    for (uint32_t i = 0; i < spec->n_merges && !rc; i++) {
        const struct hearth_str merge = spec->merges[i];
        const char *space = merge.n > 1 ? memchr(merge.s + 1, ' ', merge.n - 1) : NULL;
        if (!space || space == merge.s + merge.n - 1) {
            rc = hearth_fail(err, HEARTH_E_FORMAT, "%s: merge %u is not of the form \"left right\"", name, i);
            break;
        }
        const size_t left_n = copy_unmarked(both, merge.s, (size_t)(space - merge.s));
        const size_t right_n =
            copy_unmarked(both + left_n, space + 1, (size_t)(merge.s + merge.n - space - 1));
        const int32_t left = hearth_strtab_find(&v->by_piece, both, left_n),
                      right = hearth_strtab_find(&v->by_piece, both + left_n, right_n),
                      merged = hearth_strtab_find(&v->by_piece, both, left_n + right_n);
        if (left >= 0 && right >= 0 && merged >= 0)
            hearth_pairtab_insert(&v->merges, left, right, i, merged);
    }
    free(both);
    return rc;
}

int hearth_spm_build(struct hearth_vocab *v, const struct hearth_vocab_spec *spec, const char *name,
                     struct hearth_error *err)
{
    int rc = make_pieces(v, name, err);
    if (rc == HEARTH_OK && !v->by_merges)
        rc = rank_by_score(v, spec->scores, name, err);
    if (rc != HEARTH_OK)
        return rc;
    if (!hearth_strtab_reserve(&v->by_piece, v->n_tokens))
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary's index", name);
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        // A plain space in the file's own text is not a marked space: SentencePiece never produces it.
        if (!matches_text(v, i) || memchr(v->text[i].s, ' ', v->text[i].n))
            continue;
        if (!hearth_strtab_insert(&v->by_piece, (int32_t)i))
            return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the vocabulary's index", name);
        for (size_t j = 1; j < v->piece[i].n; j++) {
            if (v->piece[i].s[j] == ' ')
                v->joins_space[(uint8_t)v->piece[i].s[j - 1]] = true;
        }
    }
    find_bytes(v);
    return v->by_merges ? add_merges(v, spec, name, err) : HEARTH_OK;
}
