// SPDX-License-Identifier: MIT
// Questions: see ask.h.
#include "cli/ask.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/common.h"
#include "cli/wrap.h"

#define QUESTION 2000 // with a path

bool hearth_can_ask(void)
{
    return hearth_console_is_terminal(0) && hearth_console_is_terminal(1) && hearth_console_is_terminal(2) &&
           hearth_console_is_in_front();
}

// A line of standard input, without its end and what it has beyond `size`. False: there is none, or Ctrl-C.
static bool read_line(char *out, size_t size)
{
    size_t n = 0;
    char c;
    int came;
    while ((came = hearth_console_byte(&c, hearth_cli_interrupted)) > 0 && c != '\n')
        if (n + 1 < size && c != '\r')
            out[n++] = c;
    if (came <= 0)
        return false;
    out[n] = '\0';
    return true;
}

static void print_question(const char *again, const char *question)
{
    char whole[QUESTION + 100];
    snprintf(whole, sizeof whole, "hearth: %s%s [Y/n] ", again, question);
    char *lines = hearth_wrap(whole, (size_t)hearth_terminal_width(stderr), 2, 0);
    fputs(lines ? lines : whole, stderr);
    fflush(stderr);
    free(lines);
}

enum hearth_answer hearth_ask(const char *fmt, ...)
{
    char question[QUESTION], line[16];
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
