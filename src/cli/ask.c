// SPDX-License-Identifier: MIT
// Questions: see ask.h.
#include "cli/ask.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/common.h"
#include "cli/wrap.h"

// How often somebody who waits for an answer looks whether Ctrl-C came.
#define LOOK_MS 100

bool hearth_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) &&
           tcgetpgrp(STDIN_FILENO) == getpgrp();
}

// A line of standard input, without its end and what it has beyond `size`. False: there is none, or Ctrl-C.
static bool read_line(char *out, size_t size)
{
    size_t n = 0;
    for (;;) {
        // A read would begin anew after Ctrl-C, which may also come just before it.
        struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
        char c;
        const int ready = poll(&fd, 1, LOOK_MS);
        if (hearth_cli_interrupted() || (ready < 0 && errno != EINTR))
            return false;
        if (ready <= 0)
            continue;
        if (read(STDIN_FILENO, &c, 1) != 1)
            return false;
        if (c == '\n')
            break;
        if (n + 1 < size)
            out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static void print_question(const char *again, const char *question)
{
    char whole[700];
    snprintf(whole, sizeof whole, "hearth: %s%s [Y/n] ", again, question);
    char *lines = hearth_wrap(whole, (size_t)hearth_terminal_width(stderr), 2, 0);
    fputs(lines ? lines : whole, stderr);
    fflush(stderr);
    free(lines);
}

enum hearth_answer hearth_ask(const char *fmt, ...)
{
    char question[600], line[16];
    va_list args;
    va_start(args, fmt);
    vsnprintf(question, sizeof question, fmt, args);
    va_end(args);
    hearth_terminal_message();
    for (const char *again = "";; again = "yes or no? ") {
        print_question(again, question);
        if (!read_line(line, sizeof line)) {
            fputc('\n', stderr);
            return hearth_cli_interrupted() ? HEARTH_ANSWER_INTERRUPTED : HEARTH_ANSWER_NONE;
        }
        if (!*line || !strcasecmp(line, "y") || !strcasecmp(line, "yes"))
            return HEARTH_ANSWER_YES;
        if (!strcasecmp(line, "n") || !strcasecmp(line, "no"))
            return HEARTH_ANSWER_NO;
    }
}
