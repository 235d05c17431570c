// SPDX-License-Identifier: MIT
// Pre-tokenizers of byte-level vocabularies: how a text is cut into the words within which BPE merges. Each
// is a list of regular expressions; an expression cuts every piece left by the one before into its matches
// and what lies between.
#ifndef HEARTH_TEXT_PRETOK_H
#define HEARTH_TEXT_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct hearth_pretok;
struct hearth_pretok_run;

// What a vocabulary's pre-tokenizer name implies besides the expressions (llama.cpp's defaults).
struct hearth_pretok_traits {
    bool ignore_merges; // a word that is a token is taken whole
    bool add_bos;
    bool no_bos; // there is no BOS unless the file names one
};

// False: the name is not known. NULL and "" are "default".
bool hearth_pretok_traits(const char *pre, struct hearth_pretok_traits *out);

// The i-th known name, or NULL after the last.
const char *hearth_pretok_name(size_t i);

// Compiles the expressions of `pre`. Errors start with `name` (a path); an unknown `pre` is
// HEARTH_E_UNSUPPORTED. The result is immutable: thread-safe.
int hearth_pretok_open(struct hearth_pretok **out, const char *pre, const char *name,
                       struct hearth_error *err);
// Interprets the expressions from now on, as where the system refuses just-in-time compilation. Before first
// use.
void hearth_pretok_interpret(struct hearth_pretok *p);
void hearth_pretok_close(struct hearth_pretok **p);

// Called with each word in order; anything but 0 stops and is returned.
typedef int (*hearth_word_fn)(void *arg, const char *s, size_t n, struct hearth_error *err);

// Cuts s[0..n), which must be well-formed UTF-8, into words. Their concatenation is the text. *run is
// matching state of one thread, made on first use and freed by hearth_pretok_run_free().
int hearth_pretok_split(const struct hearth_pretok *p, struct hearth_pretok_run **run, const char *s,
                        size_t n, hearth_word_fn word, void *arg, struct hearth_error *err);
void hearth_pretok_run_free(struct hearth_pretok_run *run);

#endif
