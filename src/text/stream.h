// SPDX-License-Identifier: MIT
// Tokens to text as they come: bytes are held back until they form whole UTF-8 characters.
#ifndef HEARTH_TEXT_STREAM_H
#define HEARTH_TEXT_STREAM_H

#include "text/vocab.h"

struct hearth_utf8_stream;

// The first token's leading space is dropped where the vocabulary adds one (SentencePiece), as llama.cpp does
// when detokenizing from the start; `mid_text` keeps it (a continuation of a prompt).
int hearth_utf8_stream_open(struct hearth_utf8_stream **out, const struct hearth_vocab *v, bool special,
                            bool mid_text, struct hearth_error *err);
void hearth_utf8_stream_close(struct hearth_utf8_stream **s);
size_t hearth_utf8_stream_push(struct hearth_utf8_stream *s, hearth_token t, const char **text);
size_t hearth_utf8_stream_flush(struct hearth_utf8_stream *s, const char **text);

#endif
