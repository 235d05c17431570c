// SPDX-License-Identifier: MIT
// Turns tokens into text as they come. A token may end inside a character (byte tokens always
// do): those bytes wait for the next token. Ill-formed bytes are passed on unchanged, as soon as
// they can no longer become a character.
#include "text/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/unicode.h"
#include "text/vocab_impl.h"

struct hearth_utf8_stream {
    const struct hearth_vocab *vocab;
    bool special;
    bool at_start; // the next text is the first one: it loses the space that tokenizing added
    size_t shown;  // bytes of `buffer` given out by the last call
    size_t held;   // bytes of `buffer`, including those given out
    char *buffer;  // the longest piece and three bytes held back
};

static void drop_shown(struct hearth_utf8_stream *s)
{
    assert(s->shown <= s->held && s->held - s->shown <= 3);
    memmove(s->buffer, s->buffer + s->shown, s->held - s->shown);
    s->held -= s->shown;
    s->shown = 0;
}

size_t hearth_utf8_stream_push(struct hearth_utf8_stream *s, hearth_token t, const char **text)
{
    drop_shown(s);
    char *end = s->buffer + s->held;
    size_t n = hearth_vocab_bytes(s->vocab, t, s->special, end, s->vocab->max_piece);
    if (n && s->at_start) {
        s->at_start = false;
        if (end[0] == ' ')
            memmove(end, end + 1, --n);
    }
    assert(n <= s->vocab->max_piece);
    s->held += n;
    s->shown = s->held - hearth_utf8_pending(s->buffer, s->held);
    *text = s->buffer;
    return s->shown;
}

size_t hearth_utf8_stream_flush(struct hearth_utf8_stream *s, const char **text)
{
    drop_shown(s);
    s->shown = s->held;
    *text = s->buffer;
    return s->shown;
}

int hearth_utf8_stream_open(struct hearth_utf8_stream **out, const struct hearth_vocab *v, bool special,
                            bool mid_text, struct hearth_error *err)
{
    struct hearth_utf8_stream *s = hearth_calloc(1, sizeof *s);
    if (s)
        s->buffer = malloc(v->max_piece + 4);
    if (!s || !s->buffer) {
        free(s);
        *out = NULL;
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a text stream");
    }
    s->vocab = v;
    s->special = special;
    s->at_start = v->add_space_prefix && !mid_text;
    *out = s;
    return HEARTH_OK;
}

void hearth_utf8_stream_close(struct hearth_utf8_stream **s)
{
    if (!*s)
        return;
    free((*s)->buffer);
    free(*s);
    *s = NULL;
}
