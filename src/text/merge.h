// SPDX-License-Identifier: MIT
// Pair merging, the heart of both tokenizer families: of all neighbouring symbols of a word, the pair with
// the lowest rank (the leftmost of equals) becomes one symbol, until no pair merges.
#ifndef HEARTH_TEXT_MERGE_H
#define HEARTH_TEXT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEARTH_NO_RANK UINT32_MAX

struct hearth_symbol {
    uint32_t start, length; // bytes within the word; length 0: swallowed by its left neighbour
    int32_t id;             // -1: a character that is not a token
    uint32_t rank;          // rank of merging with the right neighbour, or HEARTH_NO_RANK
    int32_t merged;         // id of the merged symbol
    uint32_t prev, next;    // neighbours in a long word; UINT32_MAX: none
};

struct hearth_candidate;

// Scratch memory of one thread, reused from word to word. Zero-initialised; freed with hearth_merger_free().
struct hearth_merger {
    struct hearth_symbol *symbols; // of the current word
    size_t cap;
    struct hearth_candidate *heap;
    size_t heap_n, heap_cap;
};

// Fills left->rank and left->merged for the pair (left, right) of the word at `word`.
typedef void (*hearth_pair_fn)(const void *arg, const char *word, struct hearth_symbol *left,
                               const struct hearth_symbol *right);

// Makes room for n symbols at m->symbols. False: no memory (or n does not fit 32 bits).
bool hearth_merger_reserve(struct hearth_merger *m, size_t n);
// Merges m->symbols[0..n), whose start, length and id the caller has filled. The result is
// m->symbols[0..*left), in order. O(n log n). False: no memory.
bool hearth_merge(struct hearth_merger *m, const char *word, size_t n, hearth_pair_fn pair, const void *arg,
                  size_t *left);
void hearth_merger_free(struct hearth_merger *m);

#endif
