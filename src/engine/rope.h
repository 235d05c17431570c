// SPDX-License-Identifier: MIT
// Rotary positions.
#ifndef HEARTH_ENGINE_ROPE_H
#define HEARTH_ENGINE_ROPE_H

#include "model/model.h"

// Frequencies of the rotation, [n_rot / 2]: `factors` divides them, or is NULL.
void hearth_rope_frequencies(const struct hearth_hparams *hp, const float *factors, float *out);
// The same of layers with a window, where they have a base of their own.
void hearth_rope_window_frequencies(const struct hearth_hparams *hp, float *out);

#endif
