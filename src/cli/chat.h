// SPDX-License-Identifier: MIT
// hearth chat: a conversation with a model.
#ifndef HEARTH_CLI_CHAT_H
#define HEARTH_CLI_CHAT_H

#include <jansson.h>

#include "cli/common.h"
#include "cli/drafts.h"
#include "cli/run_stats.h"
#include "engine/outlook.h"
#include "hearth.h"

struct chat {
    struct hearth_options o; // /set changes them
    struct hearth_model *model;
    struct hearth_session *session;
    struct hearth_chat_template *template;
    struct hearth_buffer gbnf;      // of each answer, if there is one
    struct hearth_grammar *grammar; // NULL: there is none
    json_t *messages, *variables;   // an array, and an object for the template
    struct hearth_buffer answer;    // that is being generated
    struct hearth_drafted tokens;   // the sequence's, and the one behind them
    struct hearth_pace pace;
    struct hearth_cli_drafter drafter;
    // Tokens that the sequence holds as parts of a prompt. An answer's own tokens follow them there,
    // evaluated one by one as steps: these are evaluated again when the answer becomes part of a prompt, so
    // that no text depends on whether something was kept.
    hearth_token *prompt;
    size_t n_prompt;
    struct chat_editor *editor; // NULL: lines come as they are
    bool terminal;              // somebody types
    bool dims;                  // thoughts are dimmed
    bool limited;               // how long answers may be was typed, not given with the command
    bool stopped;               // the last answer, by Ctrl-C
    bool unsaved, saved;        // an answer is not in the file of --save yet; there is such a file
    char *file;                 // what /save without a name writes: that named last; NULL: none was
    uint32_t answers;
    struct {
        uint64_t prompt, kept, answer, prompt_ns, answer_ns;
    } last, all;
    struct hearth_run_stats stats; // of all answers, for --stats
    bool has_seed;                 // stats has the first answer's
    bool has_forecast;             // weights stream, and the machine was measured
    struct hearth_prospect forecast;
    struct {
        uint64_t tokens, bytes, wait_ns, ns;
    } read_before; // the last answer: tokens generated, what was read for them
};

// ---- chat_answer.c

// Answers the messages so far, and adds the answer to them; forgets the oldest ones if that was asked for and
// has to be. On failure prints it, and returns an exit status: see hearth_chat_settle().
int hearth_chat_answer(struct chat *c);
// Prints tokens and speeds of the last answer, or of all.
void hearth_chat_report(const struct chat *c, bool all);
// For the session's progress: sets the progress line.
bool hearth_chat_progress(void *arg, float share);

// ---- chat_input.c

enum chat_input { CHAT_MESSAGE, CHAT_COMMAND, CHAT_INTERRUPTED, CHAT_END };
// Reads a message, or a line that begins with '/', into `text`, which is emptied first.
enum chat_input hearth_chat_read(struct chat *c, struct hearth_buffer *text);

// ---- chat_edit.c

// Edits lines on a terminal. NULL: that is not possible here, or not built in.
struct chat_editor *hearth_chat_edit_open(void);
// Adds a line that is edited, without its newline. 1: it is there; 0: the end, or Ctrl-C; -1: no memory.
int hearth_chat_edit_line(struct chat_editor *e, const char *prompt, struct hearth_buffer *out);
// Saves the history and gives the terminal back.
void hearth_chat_edit_close(struct chat_editor **e);

// ---- chat_messages.c

// Sets c->file to a copy of the name.
void hearth_chat_name_file(struct chat *c, const char *path);
// After an attempt to answer: with a status that is not 0 the messages are those of `before` again, a shallow
// copy of them. Takes `before`, which may be NULL. Returns the status.
int hearth_chat_settle(struct chat *c, json_t *before, int status);
// Adds a message. False: no memory.
bool hearth_chat_add(struct chat *c, const char *role, const char *text, size_t n);
const char *hearth_chat_role(const struct chat *c, size_t i); // "" where there is none
// Sets or removes (NULL) the message of the system.
bool hearth_chat_set_system(struct chat *c, const char *text, size_t n);
// Forgets the oldest message of the user and what follows it up to the next one. False: there is only one.
bool hearth_chat_forget_oldest(struct chat *c);
// Removes what follows the last message of the user. False: there is none.
bool hearth_chat_rewind(struct chat *c);
// Write and read all messages. False: a message has said why not.
bool hearth_chat_write(const struct chat *c, const char *path);
bool hearth_chat_load(struct chat *c, const char *path);
// Says how many there are in the file that was written.
void hearth_chat_say_written(const struct chat *c, const char *path);

// ---- chat_commands.c

// Does what a line such as "/clear" says. *leaves: the chat is over. Returns an exit status.
int hearth_chat_command(struct chat *c, char *line, bool *leaves);

#endif
