// SPDX-License-Identifier: MIT
// The texts of a model's tokens, and a tree of them: tokens that begin alike are tried together.
#ifndef HEARTH_GRAMMAR_PIECES_H
#define HEARTH_GRAMMAR_PIECES_H

#include <stdint.h>

#include "hearth.h"

// The nodes come parent first. What is below a node lies behind it, up to `end`.
struct hearth_piece_node {
    uint32_t end;
    hearth_token token; // that ends here; -1: none. Others of the same text: hearth_pieces.same
    uint16_t depth;     // bytes before this one
    uint8_t byte;
};

struct hearth_pieces {
    int n_tokens;
    uint32_t *first;    // [n_tokens + 1] token t's text is bytes[first[t]..first[t + 1])
    char *bytes;        // control tokens and those that end a generation have no text
    hearth_token *same; // [n_tokens] another token of the same text; -1: none
    uint64_t *ends;     // [n_words] bits: tokens that end a generation
    uint32_t n_words;   // of a set of tokens
    struct hearth_piece_node *nodes;
    uint32_t n_nodes;
    uint32_t longest; // bytes
};

// HEARTH_E_MEMORY. Call hearth_pieces_close() in any case.
int hearth_pieces_open(struct hearth_pieces *p, const struct hearth_model *model, struct hearth_error *err);
void hearth_pieces_close(struct hearth_pieces *p);

#endif
