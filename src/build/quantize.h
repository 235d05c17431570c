// SPDX-License-Identifier: MIT
// Rewriting a model in another number format.
#ifndef HEARTH_BUILD_QUANTIZE_H
#define HEARTH_BUILD_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_quantize_params {
    uint32_t type;                            // enum hearth_type with an encoder
    int n_threads;                            // 0: one per physical core
    bool (*progress)(void *arg, float share); // called now and then, 0..1; returning false stops. May be NULL
    void *progress_arg;
};

struct hearth_quantize_result {
    uint64_t bytes_in, bytes_out; // of tensor data
    uint64_t n_converted;         // matrices now in `type`
    uint64_t n_other;             // matrices whose rows do not fit its blocks: now in Q8_0 or F16
    uint64_t n_kept;              // vectors, routers and number formats that cannot be decoded: copied
};

// Reads the GGUF at `in` (all parts of a split one) and writes `out`, which appears only when complete. Every
// matrix named "*.weight" is converted row by row, but for expert routers (ffn_gate_inp); metadata is copied
// and general.file_type set. Memory use is a few rows. *result may be NULL.
int hearth_quantize(const char *in, const char *out, const struct hearth_quantize_params *params,
                    struct hearth_quantize_result *result, struct hearth_error *err);

#endif
