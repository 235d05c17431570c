// SPDX-License-Identifier: MIT
// Messages from standard input: lines, or several of them.
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"

#define FENCE "\"\"\""

enum line { LINE_READ, LINE_INTERRUPTED, LINE_END };

static enum line read_edited(const struct chat *c, const char *prompt, struct hearth_buffer *out)
{
    const int read = hearth_chat_edit_line(c->editor, prompt, out);
    if (read < 0)
        hearth_cli_error("no memory for the message");
    if (read <= 0) // nobody pressed Enter
        hearth_terminal_text("\n", 1);
    if (read <= 0)
        fflush(stdout);
    return hearth_cli_take_interrupt() ? LINE_INTERRUPTED : read > 0 ? LINE_READ : LINE_END;
}

// Adds a line, without its newline.
static enum line read_line(const struct chat *c, const char *prompt, struct hearth_buffer *out)
{
    char byte;
    int came;
    bool ok = true, some = false;
    if (c->editor)
        return read_edited(c, prompt, out);
    if (c->terminal) {
        hearth_terminal_text(prompt, strlen(prompt));
        fflush(stdout);
    }
    const size_t before = out->n;
    while (ok && (came = hearth_console_byte(&byte, hearth_cli_interrupted)) > 0 && byte != '\n') {
        some = true;
        ok = hearth_buffer_add(out, &byte, 1);
    }
    const bool read = ok && came >= 0 && (came > 0 || some);
    if (ok && out->n > before && out->data[out->n - 1] == '\r')
        out->n--;
    if (c->terminal) // what was typed ended in a newline
        hearth_terminal_text("\n", !read);
    if (hearth_cli_take_interrupt()) {
        out->n = before;
        return LINE_INTERRUPTED;
    }
    if (!ok)
        hearth_cli_error("no memory for the message");
    return read ? LINE_READ : LINE_END;
}

static bool ends_with(const struct hearth_buffer *b, const char *end)
{
    const size_t n = strlen(end);
    return b->n >= n && !memcmp(b->data + b->n - n, end, n);
}

// Further lines up to one that ends with the fence.
static enum line read_fenced(const struct chat *c, struct hearth_buffer *text)
{
    enum line line = LINE_READ;
    memmove(text->data, text->data + strlen(FENCE), text->n - strlen(FENCE));
    text->n -= strlen(FENCE);
    while (line == LINE_READ && !ends_with(text, FENCE)) {
        if (text->n && !hearth_buffer_add(text, "\n", 1))
            return LINE_END;
        line = read_line(c, "... ", text);
    }
    if (ends_with(text, FENCE))
        text->n -= strlen(FENCE);
    if (text->n && text->data[text->n - 1] == '\n')
        text->n--;
    return line;
}

static enum line read_continued(const struct chat *c, struct hearth_buffer *text)
{
    enum line line = LINE_READ;
    while (line == LINE_READ && ends_with(text, "\\")) {
        text->data[text->n - 1] = '\n';
        line = read_line(c, "... ", text);
    }
    return line;
}

// -mli: up to an empty line.
static enum line read_paragraph(const struct chat *c, struct hearth_buffer *text)
{
    enum line line = LINE_READ;
    size_t before = 0;
    while (line == LINE_READ && text->n > before) {
        before = text->n + 1;
        if (!hearth_buffer_add(text, "\n", 1))
            return LINE_END;
        line = read_line(c, "... ", text);
    }
    while (text->n && text->data[text->n - 1] == '\n')
        text->n--;
    return line;
}

enum chat_input hearth_chat_read(struct chat *c, struct hearth_buffer *text)
{
    text->n = 0;
    hearth_console_catch_input(true);
    enum line line = read_line(c, "> ", text);
    const bool command = text->n && text->data[0] == '/' && !(text->n > 1 && text->data[1] == '/');
    if (line == LINE_READ && text->n >= strlen(FENCE) && !memcmp(text->data, FENCE, strlen(FENCE)))
        line = read_fenced(c, text);
    else if (line == LINE_READ && c->o.multiline && !command)
        line = read_paragraph(c, text);
    else if (line == LINE_READ)
        line = read_continued(c, text);
    hearth_console_catch_input(false);
    // Ctrl-C ends what is being written to the terminal, too: no more than a part of a prompt.
    if (line == LINE_INTERRUPTED || hearth_cli_interrupted())
        clearerr(stdout);
    if (line == LINE_INTERRUPTED)
        return CHAT_INTERRUPTED;
    if (line == LINE_END && !text->n)
        return CHAT_END;
    if (command)
        return hearth_buffer_add(text, "", 1) ? CHAT_COMMAND : CHAT_END;
    if (text->n > 1 && text->data[0] == '/') // "//" begins a message with one
        memmove(text->data, text->data + 1, --text->n);
    return CHAT_MESSAGE;
}
