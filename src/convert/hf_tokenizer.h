// SPDX-License-Identifier: MIT
// The vocabulary of a Hugging Face folder, as a GGUF has it.
#ifndef HEARTH_CONVERT_HF_TOKENIZER_H
#define HEARTH_CONVERT_HF_TOKENIZER_H

#include "convert/hf_model.h"

// Reads tokenizer.model or tokenizer.json, and what tokenizer_config.json, added_tokens.json,
// generation_config.json and chat templates add, and writes the keys tokenizer.*. HEARTH_E_UNSUPPORTED: a
// tokenizer that Hearth does not have, by name; HEARTH_E_FORMAT, HEARTH_E_IO, HEARTH_E_MEMORY.
int hearth_hf_tokenizer_put(const struct hearth_hf_model *m, struct hearth_gguf_writer *w,
                            struct hearth_error *err);
// How many tokens tokenizer.json has of itself, without those that were added; 0: there is no such file.
int hearth_hf_tokenizer_own(const struct hearth_hf_model *m, uint32_t *n, struct hearth_error *err);

#endif
