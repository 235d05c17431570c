// SPDX-License-Identifier: MIT
// Compiled into a second llama-bench that computes on the weights as the file has them, so that a mapped file
// really stays mapped: llama.cpp otherwise keeps a rearranged copy of Q4_0 weights in memory (its option
// --no-repack, which llama-bench lacks).
#include "llama.h"

static inline llama_model_params hearth_bench_mapped_params()
{
    llama_model_params params = llama_model_default_params();
    params.use_extra_bufts = false;
    return params;
}
#define llama_model_default_params hearth_bench_mapped_params
