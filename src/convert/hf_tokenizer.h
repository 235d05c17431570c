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

#endif
