// SPDX-License-Identifier: MIT
// The layer behind a model's own that guesses one token ahead of it (multi-token prediction: arXiv 2412.19437, section
// 2.2), as a model of one layer, for drafts. Of a token and of the model's state before it, which is what its last norm
// gives, it makes its own state; of that, the model's head makes logits of what follows the token. What it gives may take
// the state's place, to guess another one.
#ifndef HEARTH_MODEL_NEXTN_H
#define HEARTH_MODEL_NEXTN_H

#include "model/arch.h"

// What such a model has besides a layer of its architecture: names begin with the layer's, if hearth_nextn_owns().
extern const struct hearth_binding hearth_nextn_globals[];
bool hearth_nextn_owns(const struct hearth_binding *b);

// Whether the model's file has such a layer, and its architecture's can be computed. Packs have none.
bool hearth_nextn_is_in(const struct hearth_model *m);

// Makes of the hyper-parameters of the whole model those of the layer alone.
void hearth_nextn_become(struct hearth_model *m);

// Opens it. It has no vocabulary, no embeddings and no head: these are the model's (the file may have copies of them for the
// layer, which are not used). All of its weights are in memory. *out is NULL where the file has no such layer, or its weights
// take more than `most` bytes. params: as of the model; adapters and a budget do not matter. The errors of
// hearth_model_open().
int hearth_nextn_open(struct hearth_model **out, const char *path, const struct hearth_model_params *params,
                      uint64_t most, struct hearth_error *err);

#endif
