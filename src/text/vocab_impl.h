// SPDX-License-Identifier: MIT
// Internals of a vocabulary, for the files of this room only.
#ifndef HEARTH_TEXT_VOCAB_IMPL_H
#define HEARTH_TEXT_VOCAB_IMPL_H

#include "base/error.h"
#include "text/merge.h"
#include "text/table.h"
#include "text/vocab.h"

struct hearth_pretok;

enum hearth_vocab_family { HEARTH_VOCAB_SPM, HEARTH_VOCAB_BPE };

// Flags of a token besides its type.
enum {
    HEARTH_TOKEN_EOG = 1,    // ends a generation
    HEARTH_TOKEN_LSTRIP = 2, // as a special token, swallows white space on its left
    HEARTH_TOKEN_RSTRIP = 4, // ... on its right
    HEARTH_TOKEN_NEVER = 8,  // is not to be chosen
};

// A special token. Entries are in the order of the bytes of their texts; -1: there is no such entry.
struct hearth_special {
    hearth_token id;
    int32_t shorter; // the longest other token that this one begins with
    int32_t far;     // that, or one that is many steps of `shorter` away
    int32_t user;    // of it and those that it begins with, the longest that is user-defined
    uint32_t depth;  // steps of `shorter` to the shortest
};

struct hearth_vocab {
    enum hearth_vocab_family family;
    char *pre;
    uint32_t n_tokens;
    hearth_token bos, eos, eot, unk;
    bool add_bos, add_eos, add_space_prefix;

    // Symbols are the tokens and, after them, strings that merges mention but no token has.
    // `text` is the string in the file. `piece` is the bytes that the symbol represents: they are
    // matched against text and written to it.
    struct hearth_str *text;  // [n_tokens]
    struct hearth_str *piece; // [n_symbols]
    uint8_t *type;            // [n_tokens] enum hearth_token_type
    uint8_t *flags;           // [n_tokens]
    uint32_t n_symbols;
    char *text_blob, *piece_blob, *extra_blob;
    size_t max_piece; // bytes of the longest piece of a token

    struct hearth_strtab by_piece; // tokens that plain text can produce (and extra symbols)
    hearth_token byte_token[256];  // -1: none

    // SentencePiece
    uint32_t *rank;        // [n_tokens] order of the scores: 0 is the best, equal scores have equal ranks
    bool joins_space[256]; // some token holds a space right after a character that ends in this byte
    bool by_merges;        // `merges` says what merges, not the scores

    // byte-level BPE
    int32_t byte_symbol[256];
    struct hearth_pairtab merges;
    struct hearth_pretok *pretok;
    bool ignore_merges; // a word that is a token is taken whole

    // special tokens
    struct hearth_special *specials; // no two have the same text
    uint32_t n_specials;
    bool special_starts[256], user_starts[256];
};

// One call of tokenize: where tokens go, and scratch memory.
struct hearth_encoder {
    const struct hearth_vocab *vocab;
    hearth_token *out;
    size_t cap, n;
    bool was_unknown; // the last token stands for an unknown character (a run of them gives one token)

    struct hearth_merger merger;
    struct hearth_word *cache; // words seen before in this call; NULL for short texts
    uint64_t cache_seed;
    hearth_token tap[8]; // the first tokens of the current word, for the cache
    size_t tap_n;
    bool uncacheable;

    char *buffer; // SentencePiece: fragments with their space prefix
    size_t buffer_n;
    struct hearth_pretok_state *state; // BPE: of matching
};

// A part of a text, split at special tokens.
struct hearth_fragment {
    size_t start, length;
    hearth_token token; // >= 0: this special token; -1: raw text
};

// ---- words.c
void hearth_emit(struct hearth_encoder *e, hearth_token t);
// Emits the bytes of a symbol that is not a token: as byte tokens; where the vocabulary has none, as
// "unknown" or, in a byte-level one, not at all.
void hearth_emit_bytes(struct hearth_encoder *e, const char *s, size_t n);
// Emits the tokens of one word. No merge crosses its ends.
typedef int (*hearth_encode_word_fn)(struct hearth_encoder *e, const char *s, size_t n,
                                     struct hearth_error *err);
// The same by the family's function `fn`, or from the cache.
int hearth_encode_word(struct hearth_encoder *e, const char *s, size_t n, hearth_encode_word_fn fn,
                       struct hearth_error *err);
// Opens e->cache for a text of this size. The caller frees it.
void hearth_word_cache_open(struct hearth_encoder *e, size_t text_bytes);

// ---- spm.c
int hearth_spm_build(struct hearth_vocab *v, const struct hearth_vocab_spec *spec, const char *name,
                     struct hearth_error *err);
int hearth_spm_encode(struct hearth_encoder *e, const char *s, size_t n, bool space_prefix,
                      struct hearth_error *err);

// ---- bpe.c
int hearth_bpe_build(struct hearth_vocab *v, const struct hearth_vocab_spec *spec, const char *name,
                     struct hearth_error *err);
int hearth_bpe_encode(struct hearth_encoder *e, const char *s, size_t n, struct hearth_error *err);

// ---- eog.c
// Marks tokens that end a generation by their names, and corrects the types of well-known control tokens.
void hearth_vocab_mark_names(struct hearth_vocab *v);
// The token that ends a turn, of those that end a generation; -1: none is known.
hearth_token hearth_vocab_find_eot(const struct hearth_vocab *v);

// ---- special.c
// (Re)builds the special-token index from types and flags.
int hearth_special_build(struct hearth_vocab *v, const char *name, struct hearth_error *err);
// Splits text[0..n) at special tokens. `control` matches control tokens too, but not where `marks` (NULL:
// nowhere) is not 0. The caller frees *out.
int hearth_special_split(const struct hearth_vocab *v, const char *text, size_t n, bool control,
                         const uint8_t *marks, struct hearth_fragment **out, size_t *count,
                         struct hearth_error *err);

#endif
