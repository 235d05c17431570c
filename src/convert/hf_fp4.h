// SPDX-License-Identifier: MIT
// Checkpoints whose matrices are in NVFP4: numbers of four bits (E2M1), two in a byte, of which 16 have a scale in F8_E4M3,
// and all together one in F32. They stay in it.
#ifndef HEARTH_CONVERT_HF_FP4_H
#define HEARTH_CONVERT_HF_FP4_H

#include "convert/hf_tensors.h"

// Whether a tensor has such numbers: [rows][columns / 2] bytes.
bool hearth_hf_is_fp4(const struct hearth_hf_model *m, const struct hearth_source_tensor *t);

// Finds the scales of a matrix, [rows][columns / 16], and checks that they fit. HEARTH_E_FORMAT.
int hearth_hf_fp4_find(const struct hearth_hf_model *m, const struct hearth_checkpoint *c,
                       const struct hearth_source_tensor *t, const struct hearth_source_tensor **scales,
                       struct hearth_error *err);

// Reads the scale of the whole matrix; 1 where there is none. *from becomes its tensor, or stays NULL. HEARTH_E_FORMAT,
// HEARTH_E_IO.
int hearth_hf_fp4_scale(const struct hearth_hf_model *m, const struct hearth_checkpoint *c,
                        const struct hearth_source_tensor *t, const struct hearth_source_tensor **from,
                        float *scale, struct hearth_error *err);

// A row of n blocks of 64 numbers as a GGUF has it, 36 bytes each, of 32 n bytes and 4 n scales.
void hearth_hf_fp4_pack(const uint8_t *numbers, const uint8_t *scales, uint8_t *to, size_t n);

#endif
