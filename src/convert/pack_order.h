// SPDX-License-Identifier: MIT
// In which order a pack has a space's neurons: by how often they are active, or those of PowerInfer's GPU index first. Such
// an index is the file X.generated.gpuidx beside a model X, and says which neurons of each layer that program had on a
// GPU: those that were active most often in the counts that it was made of.
#ifndef HEARTH_CONVERT_PACK_ORDER_H
#define HEARTH_CONVERT_PACK_ORDER_H

#include "gguf/gguf.h"

// By falling counts [n]; of equal ones the lower number first. keys [n]: scratch. Returns how many leading neurons are
// nearly always active, of so many visits.
uint32_t hearth_pack_by_counts(const int32_t *counts, int32_t visits, uint32_t n, uint64_t *keys,
                               int32_t *order);

// *out is NULL where the file is no index, or cannot be opened as a GGUF. HEARTH_E_INVALID: it is of a model with another
// number of layers. The caller closes it.
int hearth_gpu_index_open(struct hearth_gguf **out, const char *path, uint32_t n_layer,
                          struct hearth_error *err);
// order [n]: a layer's neurons, those of the index first, each part in ascending order. HEARTH_E_INVALID: the layer has
// another number of neurons there; HEARTH_E_IO, HEARTH_E_MEMORY. Errors name the file.
int hearth_gpu_index_order(const struct hearth_gguf *index, uint32_t layer, uint32_t n, int32_t *order,
                           struct hearth_error *err);

#endif
