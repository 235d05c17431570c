// SPDX-License-Identifier: MIT
// Shared by the sub-commands: messages, reading input, opening models, stopping on Ctrl-C.
#ifndef HEARTH_CLI_COMMON_H
#define HEARTH_CLI_COMMON_H

#include <stdio.h>

#include "base/error.h"
#include "cli/options.h"
#include "cli/console.h"
#include "cli/terminal.h"

// ---- messages, all on standard error as "hearth: ..."

// From now on messages about parameters name this command's options.
void hearth_cli_set_command(const struct hearth_command *cmd);
// Installs the sink of the library's log. `quiet` keeps warnings only, `verbose` adds details.
void hearth_cli_log_init(bool quiet, bool verbose);
void hearth_cli_warn(const char *fmt, ...) HEARTH_PRINTF(1, 2);
void hearth_cli_info(const char *fmt, ...) HEARTH_PRINTF(1, 2); // not with --quiet
// "hearth: next: hearth run ...": what to do next, in one piece to be copied. Not with --quiet.
void hearth_cli_next(const char *fmt, ...) HEARTH_PRINTF(1, 2);
// Prints "hearth: error: ..." and returns HEARTH_EXIT_FAILURE.
int hearth_cli_error(const char *fmt, ...) HEARTH_PRINTF(1, 2);
// The same for an error of the library, with the option that sets the parameter it is about. If it is
// HEARTH_E_INTERRUPTED, prints nothing and returns HEARTH_EXIT_INTERRUPTED.
int hearth_cli_fail(const struct hearth_error *err);
// Prints a usage error with a hint at the help of `cmd` (may be NULL) and returns HEARTH_EXIT_USAGE.
int hearth_cli_usage(const struct hearth_command *cmd, const char *fmt, ...) HEARTH_PRINTF(2, 3);
// Prints program, version and CPU to standard output.
void hearth_cli_print_version(void);

// ---- stopping

// From now on the first Ctrl-C (or SIGTERM) only sets a flag, and cancels what the session below evaluates.
// The next one kills the program. However it ends or stops, no progress line stays on the terminal.
void hearth_cli_catch_interrupt(void);
// The session that Ctrl-C cancels, from its opening until just before it is closed (NULL). If Ctrl-C came
// before, it is cancelled now.
void hearth_cli_cancel_on_interrupt(struct hearth_session *session);
bool hearth_cli_interrupted(void);
// Forgets that Ctrl-C came, so that the next one is the first again. Returns whether one did.
bool hearth_cli_take_interrupt(void);
// For the library's `progress` callbacks: sets the progress line, and returns false after Ctrl-C.
bool hearth_cli_progress(void *arg, float share);
// Begins a progress line of something that goes through the model file at `path`.
void hearth_cli_progress_of_file(const char *path, const char *what);

// ---- input and output

// A growing buffer. Zeros at first; the caller frees data with free().
struct hearth_buffer {
    char *data;
    size_t n, cap;
};
// False when out of memory.
bool hearth_buffer_add(struct hearth_buffer *b, const void *src, size_t n);

// Appends a whole file, or standard input if path is "-". Prints any error and returns an exit status.
int hearth_cli_read(const char *path, struct hearth_buffer *out);
// Length of the character at the start of text[0..n) if a terminal shows it as it is; else 0.
size_t hearth_cli_character(const char *text, size_t n);
// Warns if what was read from `path` looks like anything but text: a model, an archive.
void hearth_cli_warn_binary(const char *path, const struct hearth_buffer *text);
// Whether standard input is a file, a pipe or a socket: something that is there to be read.
bool hearth_cli_stdin_is_piped(void);
// Says the message if standard input has nothing to read for half a second: somebody may be waiting in vain.
void hearth_cli_await_stdin(const char *message);
// Whether a model or a profile may be written to `path`: nothing is there, or a GGUF file (PowerInfer's,
// too), or nothing that could be lost. Says why not, and returns an exit status.
int hearth_cli_check_out(const char *path);
// Whether something that is no model may be written to `path` (NULL: nothing is): not to a file that this command
// reads, nor to any GGUF file. Says why not, and returns an exit status.
int hearth_cli_check_text_out(const struct hearth_options *o, const char *path);
// Flushes standard output at the end of a command. Returns `status`, or the status of an error
// that it printed.
int hearth_cli_stdout_close(int status);

// Replaces \n, \t, \\, \xHH, ... by their characters, in place. Returns the new length.
size_t hearth_cli_unescape(char *text, size_t n);
// Whether that is wanted: of a text on the command line unless told not to, as in llama.cpp, of others only
// if told to.
bool hearth_cli_unescapes(const struct hearth_options *o);

// "3.83 GiB", "12.0 MiB".
void hearth_cli_format_bytes(char *out, size_t size, uint64_t bytes);
// "812 MiB of memory at most, and 7 MiB of the program itself": the first is what --ram bounds, so far.
void hearth_cli_format_memory(char *out, size_t size);
// "7.24 B", "41.8 M": a number of parameters.
void hearth_cli_format_count(char *out, size_t size, uint64_t n);

struct hearth_chart;
// Writes a chart and says so. Prints any error and returns an exit status.
int hearth_cli_chart(const struct hearth_chart *chart, const char *path);

// ---- models

// Opens o->model and shows progress. Prints any error and returns an exit status.
int hearth_cli_open_model(struct hearth_model **out, const struct hearth_options *o, bool vocab_only);
// The same for o, but with the model at `path`, and without printing errors. Returns a code of hearth.h.
int hearth_cli_open_model_at(struct hearth_model **out, const char *path, const struct hearth_options *o,
                             bool vocab_only, struct hearth_error *err);
// The layer of the model's file that guesses ahead: hearth_nextn_open().
int hearth_cli_open_nextn(struct hearth_model **out, const char *path, const struct hearth_options *o,
                          uint64_t most, struct hearth_error *err);
// Opens a session, which loads if the model has a budget, and shows progress. From then on Ctrl-C cancels it.
// Prints any error and returns an exit status.
int hearth_cli_open_session(struct hearth_session **out, const struct hearth_model *model,
                            const struct hearth_session_params *params);
// Says which options about reading weights change nothing, because the session has them all in memory.
void hearth_cli_note_unused(const struct hearth_options *o, struct hearth_session *session);
// Number of threads of a session with these options.
int hearth_cli_threads(const struct hearth_options *o);
// For commands that work on a text: reads --file, which is freed by the caller in any case, and opens the
// model. Both print any error and return an exit status.
int hearth_cli_open_with_text(struct hearth_model **model, struct hearth_buffer *text,
                              const struct hearth_options *o);
// For commands that make a file of a model and a text: refuses to go on without --file or -o, or where -o
// would replace one of them; then the same with the text's tokens in its place, a new array. name: the
// command's; made: what goes to -o, such as "the profile".
int hearth_cli_open_to_make(struct hearth_model **model, hearth_token **tokens, size_t *n_tokens,
                            const struct hearth_options *o, const char *name, const char *made);
// Tokens of a text as a new array; the caller frees it. Prints any error and returns an exit status.
int hearth_cli_tokenize(const struct hearth_model *model, const char *text, size_t n, int flags,
                        hearth_token **tokens, size_t *n_tokens);
// Session parameters for these options. n_ctx as in hearth_session_params.
struct hearth_session_params hearth_cli_session_params(const struct hearth_options *o, int n_ctx,
                                                       int max_seqs);

// What --pooling says, or else the model.
enum hearth_pooling hearth_cli_pooling(const struct hearth_options *o, const struct hearth_model *model);

// Completes the session's trace, if there is one, unless `status` is that of a failure. Returns
// the new status.
int hearth_cli_end_trace(struct hearth_session *session, int status);
// Natural logarithm of the probability that the logits give to a token.
double hearth_cli_log_prob(const float *logits, int n_vocab, hearth_token token);

#endif
