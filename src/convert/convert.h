// SPDX-License-Identifier: MIT
// Makes a GGUF of a Hugging Face folder: config.json, safetensors (or PyTorch's files) and the tokenizer's
// files.
#ifndef HEARTH_CONVERT_CONVERT_H
#define HEARTH_CONVERT_CONVERT_H

#include "convert/quantize.h"

struct hearth_convert_params {
    const struct hearth_recipe *recipe;
    bool pure;                                // all matrices in the recipe's format
    const char *predictors;                   // folder of PowerInfer's model_0.pt, ...; NULL: none
    const char *activation;                   // in place of what config.json says; NULL: that
    int n_threads;                            // 0: one per physical core
    bool (*progress)(void *arg, float share); // called now and then with 0..1; false stops. May be NULL
    void *progress_arg;
};

// Reads the folder and writes `out`, which appears only when complete: the tensors, keys and vocabulary that
// llama.cpp's converter writes for the same folder, in the formats that the recipe chooses (docs/convert.md).
// Models with predictors become PowerInfer's files, or, where that has no such architecture, GGUFs with the
// same tensors. Takes less than 512 MiB of memory, whatever the model's size. *result may be NULL.
// HEARTH_E_UNSUPPORTED: a model, a tokenizer or a file that cannot be converted, by name; HEARTH_E_FORMAT:
// files that are damaged or do not fit each other; HEARTH_E_INVALID: no model there; HEARTH_E_IO,
// HEARTH_E_MEMORY, HEARTH_E_INTERRUPTED.
int hearth_convert(const char *folder, const char *out, const struct hearth_convert_params *params,
                   struct hearth_quantize_result *result, struct hearth_error *err);

#endif
