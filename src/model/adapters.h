// SPDX-License-Identifier: MIT
// Adapters ("LoRA: Low-Rank Adaptation of Large Language Models", arXiv 2106.09685) that are applied to a
// model's matrices while it runs: struct hearth_change.
//
// An adapter is a GGUF whose general.type is "adapter" and adapter.type "lora". For a matrix NAME of the model
// it has NAME.lora_a and NAME.lora_b; with adapter.lora.alpha the scale is scale * alpha / rank.
#ifndef HEARTH_MODEL_ADAPTERS_H
#define HEARTH_MODEL_ADAPTERS_H

#include "model/model.h"

struct hearth_adapters;

// Reads n adapters and lets the weights of m, which is bound, know their changes; those of the first come
// first. An adapter with a scale of 0 is checked and left out. m->adapters is the model's to close, after a
// failure too. HEARTH_E_INVALID (a scale), HEARTH_E_FORMAT, HEARTH_E_UNSUPPORTED (it changes what cannot be
// changed here), HEARTH_E_MEMORY (also: less is free), HEARTH_E_IO.
int hearth_adapters_open(struct hearth_model *m, const struct hearth_adapter *adapters, size_t n,
                         struct hearth_error *err);
void hearth_adapters_close(struct hearth_adapters **a);

// All of these take NULL for no adapters.
uint64_t hearth_adapters_memory(const struct hearth_adapters *a);   // bytes that they take
uint32_t hearth_adapters_crc(const struct hearth_adapters *a);      // of their numbers and scales
size_t hearth_adapters_most_ranks(const struct hearth_adapters *a); // of all changes of one matrix together

#endif
