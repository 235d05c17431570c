// SPDX-License-Identifier: MIT
// Binding the tensors of a GGUF to the roles of an architecture and bringing their bytes into memory.
#ifndef HEARTH_MODEL_LOAD_H
#define HEARTH_MODEL_LOAD_H

#include "model/arch.h"

// Fills every hearth_weight of m (m->arch, m->hp without n_vocab, m->gguf and m->kernels are set) and
// m->weights. Checks shapes, types and that no tensor is missing or unknown. On failure the caller closes the
// model.
int hearth_model_load(struct hearth_model *m, const struct hearth_model_params *params,
                      struct hearth_error *err);

#endif
