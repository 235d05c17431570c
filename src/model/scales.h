// SPDX-License-Identifier: MIT
// Scales of whole matrices: beside NVFP4, "X.weight", a file has "X.scale", which its products are multiplied by, one
// number, or one for each expert. Matrices of other formats may have them, too.
#ifndef HEARTH_MODEL_SCALES_H
#define HEARTH_MODEL_SCALES_H

#include "model/model.h"

// Whether the tensor of this name belongs to a bound matrix that may have scales: they are its scales, or those of its
// inputs ("X.input_scale"), which say how programs that compute in FP4 round activations; nothing here needs these.
bool hearth_is_scale(struct hearth_model *m, const char *name);

// Checks and reads the scales of a bound model, whose matrices then point to them; they are kept as long as the model.
// HEARTH_E_FORMAT: a shape or a number is impossible. HEARTH_E_UNSUPPORTED, too.
int hearth_scales_read(struct hearth_model *m, struct hearth_error *err);

#endif
