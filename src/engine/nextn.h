// SPDX-License-Identifier: MIT
// Guesses of the layer that a model's file has for them (model/nextn.h). The layer has a session of its own. Of the model's
// session it needs states of the last positions (tail.h), embeddings, and the head, which it shares.
#ifndef HEARTH_ENGINE_NEXTN_H
#define HEARTH_ENGINE_NEXTN_H

#include "engine/session.h"

// ---- of the model's session

// Writes the embeddings of n tokens, which are in the vocabulary, to out [n x E]. Fails as hearth_evaluate().
int hearth_nextn_embed(struct hearth_session *s, const hearth_token *tokens, int n, float *out,
                       struct hearth_error *err);

// Logits [V] that the model's head makes of a state [E], as a step's; valid until the next call or evaluation, as those of
// the last evaluation are no more. Fails as hearth_evaluate().
int hearth_nextn_head(struct hearth_session *s, const float *state, const float **logits,
                      struct hearth_error *err);

// ---- of the layer's session

// hearth_evaluate() of rows[n] which want no logits: row i has embds + i * E as its token's embedding, and states[i] [E] as
// the state before it. hearth_embedding() then gives their states.
int hearth_nextn_evaluate(struct hearth_session *s, const struct hearth_batch_row *rows, int n,
                          const float *embds, const float *const *states, struct hearth_error *err);

#endif
