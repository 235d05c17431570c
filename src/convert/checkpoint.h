// SPDX-License-Identifier: MIT
// The weights of a Hugging Face folder: model.safetensors, the shards that model.safetensors.index.json
// names, or the same in PyTorch's format (pytorch_model.bin); and predictors beside them.
#ifndef HEARTH_CONVERT_CHECKPOINT_H
#define HEARTH_CONVERT_CHECKPOINT_H

#include "convert/source_tensor.h"

struct hearth_checkpoint;

// Opens all files and reads their tables. HEARTH_E_FORMAT: damaged files, a tensor in two of them, shards
// that the index does not agree with. HEARTH_E_INVALID: no weights there. HEARTH_E_UNSUPPORTED, HEARTH_E_IO,
// HEARTH_E_MEMORY. The result never changes but for added predictors, and is the caller's to close.
int hearth_checkpoint_open(struct hearth_checkpoint **out, const char *folder, struct hearth_error *err);
// Adds the tensors of PowerInfer's predictors, folder/model_0.pt to model_{n_layers - 1}.pt, as
// "predictor.LAYER.NAME".
int hearth_checkpoint_add_predictors(struct hearth_checkpoint *c, const char *folder, uint32_t n_layers,
                                     struct hearth_error *err);
void hearth_checkpoint_close(struct hearth_checkpoint **c);

size_t hearth_checkpoint_n_tensors(const struct hearth_checkpoint *c);
// In the order of their names.
const struct hearth_source_tensor *hearth_checkpoint_at(const struct hearth_checkpoint *c, size_t i);
const struct hearth_source_tensor *hearth_checkpoint_find(const struct hearth_checkpoint *c,
                                                          const char *name);
// The index of a tensor that was found here.
size_t hearth_checkpoint_index(const struct hearth_checkpoint *c, const struct hearth_source_tensor *t);

#endif
