// SPDX-License-Identifier: MIT
// What the program asks of the system's terminal and signals: console_posix.c and console_windows.c.
#ifndef HEARTH_CLI_CONSOLE_H
#define HEARTH_CLI_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// ---- the standard streams: 0 is input, 1 output, 2 error

// The program begins: text is UTF-8, byte for byte, and a write that is refused is an error and no signal.
void hearth_console_begin(void);
bool hearth_console_is_terminal(int stream);
int hearth_console_columns(int stream); // 0: it is no terminal
// Whether standard output and standard error go to the same place.
bool hearth_console_same_place(void);
// Bytes that nobody has taken yet from the pipe that standard output is; 0: none, or it is no pipe.
size_t hearth_console_unread(void);
// Writes at once. For signal handlers, too.
void hearth_console_put(int stream, const char *bytes, size_t n);
// Whether there is a file or a pipe with something in it that nobody has read.
bool hearth_console_has_input(void);
// Whether standard input has something to read, or an end, within that time.
bool hearth_console_waits(int ms);
// Whether this program is the one that somebody at the terminal talks to.
bool hearth_console_is_in_front(void);
// One byte of standard input, which nothing else reads. 1: it is there; 0: the end; -1: `interrupted` says that Ctrl-C
// came, before this was called or while it waited.
int hearth_console_byte(char *out, bool (*interrupted)(void));

// ---- the terminal as it was

// Keeps what the terminal is like, to give it back.
void hearth_console_keep(void);
// For signal handlers: the terminal becomes what it was.
void hearth_console_give_back(void);

// ---- signals

// From now on Ctrl-C, and what asks a program to end, call `interrupt`, from a signal handler or a thread of the
// system's. It returns false when the program is to end at once, which then happens with a clean terminal (terminal.h).
void hearth_console_catch(bool (*interrupt)(void));
// Input is read: what waits for it ends with Ctrl-C. Needs hearth_console_catch().
void hearth_console_catch_input(bool on);
// Ctrl-C, and what asks a program to end, call `stop` alone, each time; a client that has gone is no signal.
void hearth_console_catch_for_server(void (*stop)(void));

#endif
