// SPDX-License-Identifier: MIT
// Rotary positions.
#ifndef HEARTH_ENGINE_ROPE_H
#define HEARTH_ENGINE_ROPE_H

#include "model/model.h"

// Frequencies of the rotation, [n_rot / 2]: `factors` divides them, or is NULL.
void hearth_rope_frequencies(const struct hearth_hparams *hp, const float *factors, float *out);
// The same of layers with a window, where they have a base of their own.
void hearth_rope_window_frequencies(const struct hearth_hparams *hp, float *out);

// A position as a rotation: n_rot / 2 cosines, then sines, times `by`. The angle is the f32 product of position and
// frequency, as in the reference implementations that models are trained with.
void hearth_rope_turn(float *cos_sin, const float *inv_freq, int n_rot, int pos, float by);

#endif
