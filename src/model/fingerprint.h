// SPDX-License-Identifier: MIT
// Fingerprints tell models apart. They are for files that fit one model only.
#ifndef HEARTH_MODEL_FINGERPRINT_H
#define HEARTH_MODEL_FINGERPRINT_H

#include "model/model.h"

// A hash of the model: of all metadata, of the tensors' names, formats and shapes, and of a sample of the
// weights. The sample is a few KiB of each tensor, of at most 1,024 tensors: any training changes it. For a
// pack, its checksums take the place of the sample; they cover every weight. The path of the file does not
// matter; adapters and their scales do, and overrides of metadata. Reads the file, which takes milliseconds. Thread-safe.
int hearth_model_fingerprint(const struct hearth_model *m, uint64_t *out, struct hearth_error *err);

// A number of the model that is the same for all its number formats: a checksum of its norms, which
// quantisers leave as they are. Two models of one shape differ in it, unless the norms were not trained
// between them: an adapter that was merged leaves them alone. Reads the norms.
int hearth_norms_fingerprint(const struct hearth_gguf *g, uint32_t *out, struct hearth_error *err);

#endif
