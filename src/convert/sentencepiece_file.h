// SPDX-License-Identifier: MIT
// tokenizer.model: a vocabulary that SentencePiece trained, in protocol buffers.
#ifndef HEARTH_CONVERT_SENTENCEPIECE_FILE_H
#define HEARTH_CONVERT_SENTENCEPIECE_FILE_H

#include <stdbool.h>

#include "base/error.h"
#include "gguf/gguf.h"

struct hearth_sentencepiece {
    char *blob; // the file
    uint32_t n;
    struct hearth_str *pieces; // [n], within blob
    float *scores;             // [n]
    int32_t *types;            // [n] enum hearth_token_type, whose numbers are SentencePiece's
    bool add_dummy_prefix;     // a space is put before the text
    bool changes_text;         // the normalizer has rules of its own (such as NFKC)
};

// Reads a file's bytes; `path` is for messages. HEARTH_E_UNSUPPORTED: a vocabulary that is not of type BPE;
// HEARTH_E_FORMAT, HEARTH_E_MEMORY. Keeps `data`, which free() must take, in any case; close *out in any
// case.
int hearth_sentencepiece_parse(struct hearth_sentencepiece *out, const char *path, char *data, size_t n,
                               struct hearth_error *err);
void hearth_sentencepiece_close(struct hearth_sentencepiece *s);

#endif
