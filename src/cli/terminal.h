// SPDX-License-Identifier: MIT
// What is seen on the terminal: one progress line at a time, which is gone before anything else is written,
// and messages that never stick to the text before them, wherever standard output and standard error go.
#ifndef HEARTH_CLI_TERMINAL_H
#define HEARTH_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

// Columns of the terminal behind the stream (stdout or stderr); 0: it is no terminal.
int hearth_terminal_columns(FILE *stream);
// The same for text that is wrapped in any case; 80 where there is no terminal.
int hearth_terminal_width(FILE *stream);

// ---- progress, on standard error if that is a terminal

enum hearth_progress_unit {
    HEARTH_PROGRESS_SHARE,  // no rate
    HEARTH_PROGRESS_TOKENS, // the line has their number, and the rate in tok/s
    HEARTH_PROGRESS_BYTES   // the rate is in MB/s or GB/s
};

// Off with --quiet.
void hearth_progress_switch(bool on);

// Something begins that takes `total` units, such as "loading": the line appears once it has taken a moment.
// What was shown before is removed.
void hearth_progress_begin(enum hearth_progress_unit unit, double total, const char *fmt, ...)
    HEARTH_PRINTF(3, 4);
// So many units are done, or such a share of them. A thread draws it ten times a second, if it has changed.
void hearth_progress_set(double done);
void hearth_progress_share(double share);
// How many there are in all, where that was not known.
void hearth_progress_total(double total);
// Another name for what goes on, with the next drawing.
void hearth_progress_name(const char *fmt, ...) HEARTH_PRINTF(1, 2);
// It has ended. Removes the line.
void hearth_progress_end(void);

// ---- what is written beside it

// To be called before anything goes to standard error but by the functions above, and before tables and such
// go to standard output: removes the progress line, flushes standard output, and ends a line of text that
// both streams would share.
void hearth_terminal_message(void);

// Adds to a line of values on standard error that the next message ends.
void hearth_terminal_value(const char *fmt, ...) HEARTH_PRINTF(1, 2);

// Writes generated text to standard output, which is not flushed. False: it failed.
bool hearth_terminal_text(const char *text, size_t n);
// The text has ended: a newline, if its last line has none.
void hearth_terminal_end_text(void);

// Whether text that goes to standard output now may show on the terminal that standard error is.
bool hearth_terminal_shows_text(void);

// For signal handlers: removes the progress line.
void hearth_terminal_clear_at_once(void);

// Somebody edits a line; what is printed is dimmed. Then the terminal is not as it was.
void hearth_terminal_editing(bool on);
void hearth_terminal_dimmed(bool on);
// For signal handlers, just before the end: the terminal becomes what it was.
void hearth_terminal_give_back_at_once(void);

#endif
