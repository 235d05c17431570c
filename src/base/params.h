// SPDX-License-Identifier: MIT
// Structs of hearth.h that may have been laid out by an older or newer header than ours. Those with
// parameters begin with a size_t that says how many bytes the caller's has; for others the caller passes it.
#ifndef HEARTH_BASE_PARAMS_H
#define HEARTH_BASE_PARAMS_H

#include <stddef.h>

#include "base/error.h"

// Fills the caller's struct of `size` bytes from `defaults`, which has `known` bytes; what we do not know of
// it becomes zero. Nothing happens when `size` bytes do not even hold the size.
void hearth_params_init(void *params, size_t size, const void *defaults, size_t known);

// Puts the caller's struct over the defaults in `out`, which has `known` bytes; what the caller's lacks keeps
// its default. NULL changes nothing. HEARTH_E_INVALID when it is larger than ours or its size makes no sense;
// `type` is its name, such as "hearth_model_params".
int hearth_params_read(void *out, size_t known, const void *params, const char *type,
                       struct hearth_error *err);

// Whether the caller's `size` of a struct that does not begin with it makes sense, whose first release had
// `least` bytes, and which has `known` ones. HEARTH_E_INVALID.
int hearth_params_check_size(size_t size, size_t least, size_t known, const char *type,
                             struct hearth_error *err);

// Fills the caller's struct of `size` bytes, which need not begin with it, from `from`, which has `known`
// bytes; what we do not know of it becomes zero.
void hearth_params_write(void *out, size_t size, const void *from, size_t known);

#endif
