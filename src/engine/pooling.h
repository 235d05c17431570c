// SPDX-License-Identifier: MIT
// Pooling: the hidden states of a text's tokens become its embedding. They are added up token by token, from the
// first to the last, in double precision, so nothing depends on which of them came together.
#ifndef HEARTH_ENGINE_POOLING_H
#define HEARTH_ENGINE_POOLING_H

#include "hearth.h"

// E = n_embd.
struct hearth_pooler {
    enum hearth_pooling pooling;
    int n_embd, n; // n: tokens of the text
    double *sum;   // [E] of those so far; only for HEARTH_POOLING_MEAN
    float *out;    // [E]; with HEARTH_POOLING_NONE [n x E]
};

// Whether the hidden state of the text's token `index` is wanted.
static inline bool hearth_pooler_wants(const struct hearth_pooler *p, int index)
{
    return p->pooling == HEARTH_POOLING_CLS    ? index == 0
           : p->pooling == HEARTH_POOLING_LAST ? index + 1 == p->n
                                               : true;
}

// Adds a token's state [E], which is wanted. Those of a text come in order; the first one begins it anew.
void hearth_pooler_add(struct hearth_pooler *p, int index, const float *state);
// All are there: `out` is complete, each row with the norm 1 in the sense of hearth_embedding_normalize().
void hearth_pooler_end(struct hearth_pooler *p, int norm);

#endif
