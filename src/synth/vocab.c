// SPDX-License-Identifier: MIT
// The vocabulary of synthetic models.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "synth/insides.h"

enum { WORD = 24 };

// Made-up words, all different: base-20 numbers in pronounceable syllables. Every other one has a
// leading space.
static void word(char *dst, size_t size, uint32_t i)
{
    static const char consonants[] = "bcdfghjklmnprstvwxyz", vowels[] = "aeiou";
    size_t n = 0;
    if (i % 2)
        n += (size_t)snprintf(dst, size, "\xe2\x96\x81");
    i /= 2;
    do {
        dst[n++] = consonants[i % 20];
        i /= 20;
        dst[n++] = vowels[i % 5];
        i /= 5;
    } while (i && n + 3 < size);
    dst[n] = '\0';
}

int hearth_synth_put_vocabulary(struct hearth_synth *s)
{
    const uint32_t n = s->p->n_vocab, first = HEARTH_SYNTH_FIRST_WORD;
    char(*text)[WORD] = hearth_calloc(n, sizeof *text);
    struct hearth_str *strings = hearth_calloc(n, sizeof *strings);
    float *scores = hearth_calloc(n, sizeof *scores);
    int32_t *types = hearth_calloc(n, sizeof *types);
    int rc = text && strings && scores && types
                 ? HEARTH_OK
                 : hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a vocabulary");
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    for (uint32_t i = 0; i < n && !rc; i++) {
        types[i] = i == 0 ? 2 : i < 3 ? 3 : i < first ? 6 : 1;
        scores[i] = i < first ? 0.0f : -(float)(i - first);
        if (i < 3)
            snprintf(text[i], WORD, "%s", special[i]);
        else if (i < first)
            snprintf(text[i], WORD, "<0x%02X>", i - 3);
        else
            word(text[i], WORD, i - first);
        strings[i] = (struct hearth_str){text[i], strlen(text[i])};
    }
    struct hearth_gguf_writer *w = s->w;
    if (!rc)
        rc = hearth_gguf_put_str(w, "tokenizer.ggml.model", "llama", 5, s->err);
    if (!rc)
        rc = hearth_gguf_put_str(w, "tokenizer.ggml.pre", "default", 7, s->err);
    if (!rc)
        rc = hearth_gguf_put_strings(w, "tokenizer.ggml.tokens", strings, n, s->err);
    if (!rc)
        rc = hearth_gguf_put_array(w, "tokenizer.ggml.scores", HEARTH_GGUF_F32, scores, n, s->err);
    if (!rc)
        rc = hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_I32, types, n, s->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0, s->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1, s->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2, s->err);
    free(text);
    free(strings);
    free(scores);
    free(types);
    return rc;
}
