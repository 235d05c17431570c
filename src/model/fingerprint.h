// SPDX-License-Identifier: MIT
// Telling models apart, for files that only make sense with the model they were made with.
#ifndef HEARTH_MODEL_FINGERPRINT_H
#define HEARTH_MODEL_FINGERPRINT_H

#include "model/model.h"

// A number of the model's file: of all its metadata, of its tensors' names, formats and shapes, and of its
// weights. Of these a sample is read, a few KiB of each tensor (of at most 1,024 tensors), which any training
// changes; of a pack, the checksums, which cover every weight. The same wherever the file lies. Reads the file:
// milliseconds. Thread-safe.
int hearth_model_fingerprint(const struct hearth_model *m, uint64_t *out, struct hearth_error *err);

// A number of the model that is the same for all its number formats: a checksum of its norms, which quantisers leave
// as they are. Two models of one shape differ in it, unless their norms were never trained. Reads the norms.
int hearth_norms_fingerprint(const struct hearth_gguf *g, uint32_t *out, struct hearth_error *err);

#endif
