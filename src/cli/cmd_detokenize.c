// SPDX-License-Identifier: MIT
// hearth detokenize: token ids on standard input to text.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"

static const char separators[] = " \t\r\n,[]";

// Prints the text of every id.
static int print_text(struct hearth_stream *stream, const char *ids, int n_vocab)
{
    const char *text;
    size_t n;
    for (;;) {
        ids += strspn(ids, separators);
        if (!*ids)
            break;
        char *end;
        errno = 0;
        long id = strtol(ids, &end, 10);
        if (end == ids || (*end && !strchr(separators, *end)))
            return hearth_cli_error("\"%.*s\" is not a token id", (int)strcspn(ids, separators), ids);
        if (errno || id < 0 || id >= n_vocab)
            return hearth_cli_error("token %.*s is outside the vocabulary of %d", (int)(end - ids), ids,
                                    n_vocab);
        n = hearth_stream_push(stream, (hearth_token)id, &text);
        hearth_terminal_text(text, n);
        ids = end;
    }
    n = hearth_stream_flush(stream, &text);
    hearth_terminal_text(text, n);
    return HEARTH_EXIT_OK;
}

int hearth_cmd_detokenize(const struct hearth_options *o)
{
    struct hearth_model *model = NULL;
    struct hearth_stream *stream = NULL;
    struct hearth_buffer ids = {0};
    struct hearth_error err = {0};
    int status = hearth_cli_open_model(&model, o, true);
    if (!status)
        status = hearth_cli_read("-", &ids);
    if (!status && memchr(ids.data ? ids.data : "", 0, ids.n))
        status = hearth_cli_error("standard input holds a zero byte where token ids are expected");
    if (!status && !hearth_buffer_add(&ids, "", 1))
        status = hearth_cli_error("no memory for the token ids");
    if (!status && hearth_stream_open(&stream, model, o->special, false, &err))
        status = hearth_cli_fail(&err);
    if (!status)
        status = print_text(stream, ids.data, hearth_model_info(model)->n_vocab);
    if (!status && hearth_console_is_terminal(1)) // elsewhere the text is to the byte that of the ids
        hearth_terminal_end_text();
    hearth_stream_close(&stream);
    free(ids.data);
    hearth_model_close(&model);
    return status;
}
