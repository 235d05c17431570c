// SPDX-License-Identifier: MIT
// What can be typed in a chat besides messages.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"

static const char help_text[] =
    "/regen             answer the last message again\n"
    "/edit TEXT         put TEXT in the place of the last message, and answer it\n"
    "/clear             forget all messages but the system's\n"
    "/drop              forget the oldest message and its answer\n"
    "/system TEXT       tell the model how to answer; without TEXT, tell it nothing\n"
    "/set NAME VALUE    temp, top-k, top-p, min-p, seed, predict; think on or off;\n"
    "                   without NAME, show them\n"
    "/save FILE         write the messages to FILE, as JSON; without FILE, to the one\n"
    "                   that was named last\n"
    "/load FILE         go on with the messages in FILE\n"
    "/stats             tokens and speeds of the whole chat\n"
    "/exit              leave; so do /quit, /bye, Ctrl-D, and Ctrl-C twice\n"
    "\"\"\"                begins and ends a message of several lines;\n"
    "                   \\ at the end of a line continues it\n"
    "//                 begins a message with a /\n";

static int want_text(const char *name)
{
    hearth_cli_warn("%s wants something behind it: /help", name);
    return HEARTH_EXIT_OK;
}

static int answer_again(struct chat *c)
{
    json_t *before = json_copy(c->messages);
    if (before && hearth_chat_rewind(c))
        return hearth_chat_settle(c, before, hearth_chat_answer(c));
    if (before)
        hearth_cli_warn("there is no message to answer");
    return hearth_chat_settle(c, before,
                              before ? HEARTH_EXIT_OK : hearth_cli_error("no memory for the messages"));
}

static int edit(struct chat *c, const char *text)
{
    if (!*text)
        return want_text("/edit");
    json_t *before = json_copy(c->messages);
    if (before && hearth_chat_rewind(c))
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
    if (!before || !hearth_chat_add(c, "user", text, strlen(text)))
        return hearth_chat_settle(c, before, hearth_cli_error("no memory for the message"));
    return hearth_chat_settle(c, before, hearth_chat_answer(c));
}

// ---- settings

static void show_settings(const struct chat *c)
{
    hearth_cli_info("temp %g, top-k %lld, top-p %g, min-p %g, seed %lld, predict %lld", c->o.temp,
                    (long long)c->o.top_k, c->o.top_p, c->o.min_p, (long long)c->o.seed,
                    (long long)c->o.n_predict);
}

static bool set_number(struct chat *c, const char *name, double v)
{
    const bool whole = floor(v) == v;
    if (!strcmp(name, "temp") && v >= 0 && v <= 100)
        c->o.temp = v;
    else if (!strcmp(name, "top-p") && v >= 0 && v <= 1)
        c->o.top_p = v;
    else if (!strcmp(name, "min-p") && v >= 0 && v <= 1)
        c->o.min_p = v;
    else if (!strcmp(name, "top-k") && whole && v >= 0 && v < 2e9)
        c->o.top_k = (int64_t)v;
    else if (!strcmp(name, "seed") && whole && v >= -1 && v <= UINT32_MAX)
        c->o.seed = (int64_t)v;
    else if (!strcmp(name, "predict") && whole && v >= -1 && v < 2e9)
        c->o.n_predict = (int64_t)v, c->limited = true;
    else
        return false;
    return true;
}

// What /set can set, and to what.
static void complain(const char *name, const char *value)
{
    static const char *const settings[][2] = {{"temp", "a number from 0 to 100"},
                                              {"top-k", "a whole number from 0"},
                                              {"top-p", "a number from 0 to 1"},
                                              {"min-p", "a number from 0 to 1"},
                                              {"seed", "a whole number from -1"},
                                              {"predict", "a whole number from -1"},
                                              {"think", "on or off"}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (!strcmp(settings[i][0], name)) {
            hearth_cli_warn("/set %s%s%s: must be %s", name, *value ? " " : "", value, settings[i][1]);
            return;
        }
    hearth_cli_warn("/set %s: no such setting; there are temp, top-k, top-p, min-p, seed, predict, think",
                    name);
}

static int set(struct chat *c, char *text)
{
    char *end;
    char *value = text + strcspn(text, " ");
    if (!*text) {
        show_settings(c);
        return HEARTH_EXIT_OK;
    }
    if (*value)
        *value++ = '\0';
    value += strspn(value, " ");
    if (!strcmp(text, "think") && (!strcmp(value, "on") || !strcmp(value, "off"))) {
        json_object_set_new(c->variables, "enable_thinking", json_boolean(!strcmp(value, "on")));
        return HEARTH_EXIT_OK;
    }
    errno = 0;
    const double v = strtod(value, &end);
    if (errno || end == value || *end || !set_number(c, text, v))
        complain(text, value);
    else
        show_settings(c);
    return HEARTH_EXIT_OK;
}

// ---- files

static int want_file(const char *name)
{
    hearth_cli_warn("%s wants the name of a file: %s FILE", name, name);
    return HEARTH_EXIT_OK;
}

static int save(struct chat *c, const char *path)
{
    const char *file = *path ? path : c->file;
    if (!file)
        return want_file("/save");
    if (hearth_cli_check_text_out(&c->o, file) || !hearth_chat_write(c, file))
        return HEARTH_EXIT_FAILURE;
    hearth_chat_say_written(c, file);
    if (*path)
        hearth_chat_name_file(c, path);
    return HEARTH_EXIT_OK;
}

static int load(struct chat *c, const char *path)
{
    if (!*path)
        return want_file("/load");
    if (!hearth_chat_load(c, path))
        return HEARTH_EXIT_FAILURE;
    hearth_chat_name_file(c, path);
    return HEARTH_EXIT_OK;
}

// ---- all of them

static int clear(struct chat *c)
{
    const size_t first = !strcmp(hearth_chat_role(c, 0), "system");
    while (json_array_size(c->messages) > first)
        json_array_remove(c->messages, first);
    return HEARTH_EXIT_OK;
}

static bool is_one_of(const char *name, const char *words)
{
    const size_t n = strlen(name);
    for (const char *at = words; (at = strstr(at, name)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

int hearth_chat_command(struct chat *c, char *line, bool *leaves)
{
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = '\0';
    rest += strspn(rest, " ");
    *leaves = false;
    if (is_one_of(line, "/exit /quit /bye /q")) {
        *leaves = true;
    } else if (is_one_of(line, "/help /?")) {
        hearth_terminal_message();
        fputs(help_text, stderr);
    } else if (is_one_of(line, "/regen /retry")) {
        return answer_again(c);
    } else if (!strcmp(line, "/edit")) {
        return edit(c, rest);
    } else if (!strcmp(line, "/clear")) {
        return clear(c);
    } else if (!strcmp(line, "/drop")) {
        if (!hearth_chat_forget_oldest(c))
            hearth_cli_warn("there is only one message: /clear forgets it, too");
    } else if (!strcmp(line, "/system")) {
        if (!hearth_chat_set_system(c, *rest ? rest : NULL, strlen(rest)))
            return hearth_cli_error("no memory for the message");
    } else if (!strcmp(line, "/set")) {
        return set(c, rest);
    } else if (!strcmp(line, "/save")) {
        return save(c, rest);
    } else if (!strcmp(line, "/load")) {
        return load(c, rest);
    } else if (!strcmp(line, "/stats")) {
        hearth_chat_report(c, true);
    } else {
        hearth_cli_warn("%s: no such command; /help lists them, and // begins a message with a /", line);
    }
    return HEARTH_EXIT_OK;
}
