// SPDX-License-Identifier: MIT
// Pre-tokenizers of byte-level vocabularies cut a text into words; BPE merges within a word. A
// pre-tokenizer is a list of regular expressions. Each expression cuts every part that the
// previous one left into its matches and the text between them.
#ifndef HEARTH_TEXT_PRETOK_H
#define HEARTH_TEXT_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct hearth_pretok;
struct hearth_pretok_state;

// Properties that a pre-tokenizer's name implies besides its expressions (llama.cpp's defaults).
struct hearth_pretok_traits {
    bool ignore_merges; // a word that is a token is taken whole
    bool add_bos;
    bool no_bos; // there is no BOS unless the file names one
};

// Looks up the traits of a name. NULL and "" mean "default". False: the name is unknown.
bool hearth_pretok_traits(const char *pre, struct hearth_pretok_traits *out);

// The i-th known name, or NULL after the last.
const char *hearth_pretok_name(size_t i);

// Compiles the expressions of `pre`. Messages start with `name` (a path). HEARTH_E_UNSUPPORTED: `pre` is
// unknown. The result never changes, so any number of threads may use it.
int hearth_pretok_open(struct hearth_pretok **out, const char *pre, const char *name,
                       struct hearth_error *err);
// For tests: interprets the expressions from now on, as on systems that refuse just-in-time
// compilation. Call it before the first use.
void hearth_pretok_interpret(struct hearth_pretok *p);
void hearth_pretok_close(struct hearth_pretok **p);

// Called with each word in order. Any result but 0 stops the split and is returned.
typedef int (*hearth_word_fn)(void *arg, const char *s, size_t n, struct hearth_error *err);

// Cuts s[0..n), which must be well-formed UTF-8, into words. Their concatenation is the text. *state is the
// matching state of one thread: NULL at first, made on first use, freed by hearth_pretok_state_free().
int hearth_pretok_split(const struct hearth_pretok *p, struct hearth_pretok_state **state, const char *s,
                        size_t n, hearth_word_fn word, void *arg, struct hearth_error *err);
void hearth_pretok_state_free(struct hearth_pretok_state *state);

#endif
