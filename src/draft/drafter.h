// SPDX-License-Identifier: MIT
// What drafter.c and nextn.c share.
#ifndef HEARTH_DRAFT_DRAFTER_H
#define HEARTH_DRAFT_DRAFTER_H

#include "draft/draft.h"

struct hearth_drafter {
    struct hearth_session *session;
    int *seqs;                    // [n_texts] each text's sequence in it; -1: none
    hearth_token *tokens;         // [n_ctx] of such a sequence, while it is compared
    int n_texts, n_vocab, n_main; // tokens of its vocabulary, and of the main model's
    double token_ns;              // that a guess takes; 0: unknown
    uint64_t spent_ns;            // for the guesses of the next step
    double gained, ns;            // of the last rounds: tokens that came of them, and what they took
    int rounds;
    struct hearth_retry retry;
    bool failed; // something went wrong: the texts go on without

    // Of a layer that guesses ahead.
    struct hearth_session *main; // the model's session; NULL: it is a small model
    int n_embd;
    int *from;    // [n_texts] the place in the text of the first token that its sequence has
    int *sure;    // [n_texts] tokens of the sequence whose states before them are the model's, not guesses
    float *embds; // [HEARTH_DRAFTER_UBATCH x E]
    const float **states; // [HEARTH_DRAFTER_UBATCH]
    float *state;         // [E] that it gave last
};

// For hearth_drafter_open_nextn(), and the opposite.
int hearth_nextn_begin(struct hearth_drafter *d, struct hearth_session *main, int n_embd, int n_texts,
                       struct hearth_error *err);
void hearth_nextn_end(struct hearth_drafter *d);

// Brings its sequence of a text to the text's end, with the model's states. *logits becomes what follows; NULL: they are not
// known. The errors of hearth_evaluate().
int hearth_nextn_catch_up(struct hearth_drafter *d, const struct hearth_draft_text *text,
                          const float **logits, struct hearth_error *err);
// The same behind a further token, a guess, with its own state before that.
int hearth_nextn_append(struct hearth_drafter *d, int seq, hearth_token token, const float **logits,
                        struct hearth_error *err);

#endif
