// SPDX-License-Identifier: MIT
// Editing of the lines of a chat, with a history that is kept in a file, by libedit. Without it, and where
// the terminal cannot do it, lines are read as the terminal gives them.
#include "cli/chat.h"

#ifdef HEARTH_HAVE_LIBEDIT
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/memory.h"
#include "base/os.h"

#define HISTORY_LINES 1000

struct chat_editor {
    EditLine *edit;
    History *history;
    const char *prompt;
    char file[512]; // of the history; "": none
};

static char *prompt_of(EditLine *edit)
{
    static char text[16];
    struct chat_editor *e = NULL;
    el_get(edit, EL_CLIENTDATA, &e);
    snprintf(text, sizeof text, "%s", e ? e->prompt : "");
    return text;
}

// A character, 0 at the end and when Ctrl-C came.
static int read_character(EditLine *edit, wchar_t *out)
{
    mbstate_t state = {0};
    char byte;
    (void)edit;
    for (;;) {
        if (hearth_console_byte(&byte, hearth_cli_interrupted) <= 0)
            return 0;
        const size_t length = mbrtowc(out, &byte, 1, &state);
        if (length == (size_t)-2)
            continue;
        if (length != (size_t)-1)
            return 1;
        memset(&state, 0, sizeof state); // no character: it is left out
    }
}

static void name_file(struct chat_editor *e)
{
    char home[sizeof e->file - sizeof "/.hearth_history"];
    if (hearth_user_folder(home, sizeof home))
        snprintf(e->file, sizeof e->file, "%s/.hearth_history", home);
}

struct chat_editor *hearth_chat_edit_open(void)
{
    const char *term = getenv("TERM");
    HistEvent event;
    if (!term || !*term || !strcmp(term, "dumb") || !hearth_console_is_terminal(0) ||
        !hearth_console_is_terminal(1))
        return NULL;
    struct chat_editor *e = hearth_calloc(1, sizeof *e);
    if (!e)
        return NULL;
    setlocale(LC_CTYPE, ""); // for characters of several bytes
    e->prompt = "";
    hearth_console_keep();
    e->edit = el_init("hearth", stdin, stdout, stderr);
    e->history = history_init();
    if (!e->edit || !e->history) {
        hearth_chat_edit_close(&e);
        return NULL;
    }
    name_file(e);
    history(e->history, &event, H_SETSIZE, HISTORY_LINES);
    history(e->history, &event, H_SETUNIQUE, 1);
    if (*e->file)
        history(e->history, &event, H_LOAD, e->file);
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_PROMPT, prompt_of);
    el_set(e->edit, EL_EDITOR, "emacs");
    el_set(e->edit, EL_HIST, history, e->history);
    el_set(e->edit, EL_GETCFN, read_character);
    el_source(e->edit, NULL);
    return e;
}

int hearth_chat_edit_line(struct chat_editor *e, const char *prompt, struct hearth_buffer *out)
{
    HistEvent event;
    int n = 0;
    e->prompt = prompt;
    hearth_terminal_editing(true);
    const char *line = el_gets(e->edit, &n);
    hearth_terminal_editing(false);
    if (!line || n <= 0)
        return 0;
    if (n > 1)
        history(e->history, &event, H_ENTER, line);
    return hearth_buffer_add(out, line, (size_t)n - (line[n - 1] == '\n')) ? 1 : -1;
}

// The file is for its owner alone.
static void save(struct chat_editor *e)
{
    HistEvent event;
    const bool there = *e->file && hearth_path_ensure(e->file);
    if (!there && *e->file && errno == ENOENT)
        hearth_cli_warn("%s is a link to where no file can be: what was typed is not kept", e->file);
    if (!there)
        return;
    history(e->history, &event, H_SAVE, e->file);
}

void hearth_chat_edit_close(struct chat_editor **e)
{
    if (!*e)
        return;
    if ((*e)->history) {
        save(*e);
        history_end((*e)->history);
    }
    if ((*e)->edit)
        el_end((*e)->edit);
    free(*e);
    *e = NULL;
}

#else

struct chat_editor *hearth_chat_edit_open(void)
{
    return NULL;
}

int hearth_chat_edit_line(struct chat_editor *e, const char *prompt, struct hearth_buffer *out)
{
    (void)e;
    (void)prompt;
    (void)out;
    return 0;
}

void hearth_chat_edit_close(struct chat_editor **e)
{
    *e = NULL;
}

#endif
