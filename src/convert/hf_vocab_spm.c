// SPDX-License-Identifier: MIT
// A vocabulary from tokenizer.model, and what other files add to it.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "convert/hf_vocab.h"

int hearth_hf_vocab_from_spm(struct hearth_hf_vocab *v, const char *path, struct hearth_error *err)
{
    const struct hearth_sentencepiece *s = &v->spm;
    v->model = "llama";
    v->pre = "default";
    int rc = hearth_hf_vocab_reserve(v, true, err);
    if (rc)
        return rc;
    if (s->changes_text)
        hearth_log(
            HEARTH_LOG_WARNING,
            "%s: its rules for changing a text first (such as NFKC) have no place in a GGUF: texts with unusual "
            "characters may get other ids",
            path);
    if (s->n > v->n)
        hearth_log(HEARTH_LOG_WARNING, "%s: %u tokens, but the model has only %u: the last ones are left out",
                   path, s->n, v->n);
    const uint32_t n = s->n < v->n ? s->n : v->n;
    memcpy(v->tokens, s->pieces, n * sizeof *v->tokens);
    memcpy(v->scores, s->scores, n * sizeof *v->scores);
    memcpy(v->types, s->types, n * sizeof *v->types);
    // As llama.cpp's converter has it: those of the added tokens alone, which have spaces as texts have them.
    for (uint32_t i = 0; i < n; i++)
        if (v->types[i] == HEARTH_TOKEN_USER)
            v->types[i] = HEARTH_TOKEN_NORMAL;
    if (!s->add_dummy_prefix)
        v->add_space_prefix = 0;
    return hearth_hf_vocab_add_sides(v, err);
}
