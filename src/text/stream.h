// SPDX-License-Identifier: MIT
// Turns tokens into text as they come. Bytes are held back until they form whole UTF-8 characters.
#ifndef HEARTH_TEXT_STREAM_H
#define HEARTH_TEXT_STREAM_H

#include "text/vocab.h"

struct hearth_utf8_stream;

// Opens a stream. Where the vocabulary adds a leading space (SentencePiece), the first token's
// space is dropped, as in llama.cpp when it detokenizes from the start; `mid_text` keeps it (the
// text continues a prompt). `special` also renders control tokens. The vocabulary must outlive
// the stream. HEARTH_E_MEMORY. One thread at a time.
int hearth_utf8_stream_open(struct hearth_utf8_stream **out, const struct hearth_vocab *v, bool special,
                            bool mid_text, struct hearth_error *err);
void hearth_utf8_stream_close(struct hearth_utf8_stream **s);
// Both return the length of the text at *text, which is valid until the next call. push: text that is
// complete after this token. flush: the bytes still held back at the end.
size_t hearth_utf8_stream_push(struct hearth_utf8_stream *s, hearth_token t, const char **text);
size_t hearth_utf8_stream_flush(struct hearth_utf8_stream *s, const char **text);

#endif
