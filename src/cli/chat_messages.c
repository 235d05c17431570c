// SPDX-License-Identifier: MIT
// The messages of a chat: added, forgotten, saved and loaded.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "cli/chat.h"
#include "cli/json.h"

void hearth_chat_name_file(struct chat *c, const char *path)
{
    char *copy = hearth_strndup(path, strlen(path));
    free(c->file);
    c->file = copy;
}

bool hearth_chat_add(struct chat *c, const char *role, const char *text, size_t n)
{
    json_t *message = json_object();
    return message && !json_object_set_new(message, "role", json_string(role)) &&
           !json_object_set_new(message, "content", hearth_json_string(text, n)) &&
           !json_array_append_new(c->messages, message);
}

int hearth_chat_settle(struct chat *c, json_t *before, int status)
{
    if (status && before) {
        json_t *failed = c->messages;
        c->messages = before;
        before = failed;
    }
    json_decref(before);
    return status;
}

const char *hearth_chat_role(const struct chat *c, size_t i)
{
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
    return role ? role : "";
}

static bool is(const struct chat *c, size_t i, const char *role)
{
    return !strcmp(hearth_chat_role(c, i), role);
}

bool hearth_chat_set_system(struct chat *c, const char *text, size_t n)
{
    if (is(c, 0, "system"))
        json_array_remove(c->messages, 0);
    if (!text)
        return true;
    json_t *message = json_object();
    return message && !json_object_set_new(message, "role", json_string("system")) &&
           !json_object_set_new(message, "content", hearth_json_string(text, n)) &&
           !json_array_insert_new(c->messages, 0, message);
}

bool hearth_chat_forget_oldest(struct chat *c)
{
    const size_t first = is(c, 0, "system"), n = json_array_size(c->messages);
    size_t next = first + 1;
    while (next < n && !is(c, next, "user"))
        next++;
    if (next >= n)
        return false;
    for (size_t i = first; i < next; i++)
        json_array_remove(c->messages, first);
    return true;
}

bool hearth_chat_rewind(struct chat *c)
{
    size_t n = json_array_size(c->messages);
    while (n && !is(c, n - 1, "user"))
        n--;
    if (!n)
        return false;
    while (json_array_size(c->messages) > n)
        json_array_remove(c->messages, n);
    return true;
}

bool hearth_chat_write(const struct chat *c, const char *path)
{
    struct hearth_error err = {0};
    json_t *all = json_pack("{s:O, s:I}", "messages", c->messages, "answers", (json_int_t)c->answers);
    char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    struct hearth_buffer file = {0};
    int status = HEARTH_EXIT_OK;
    if (!text || !hearth_buffer_add(&file, text, strlen(text)) || !hearth_buffer_add(&file, "\n", 1))
        status = hearth_cli_error("%s: no memory for the messages", path);
    else if (hearth_outfile_save(path, file.data, file.n, &err))
        status = hearth_cli_fail(&err);
    json_decref(all);
    free(text);
    free(file.data);
    return !status;
}

void hearth_chat_say_written(const struct chat *c, const char *path)
{
    hearth_cli_info("%zu messages are in %s", json_array_size(c->messages), path);
}

static bool are_messages(const json_t *messages)
{
    size_t i;
    json_t *m;
    json_array_foreach(messages, i, m) if (!json_is_string(json_object_get(m, "role"))) return false;
    return json_is_array(messages);
}

// How many answers there were, which the next one's seed follows from; files of others do not say it.
static uint32_t count_answers(const struct chat *c, const json_t *all)
{
    const json_t *given = json_object_get(all, "answers");
    const json_int_t n = json_integer_value(given);
    uint32_t seen = 0;
    for (size_t i = 0; i < json_array_size(c->messages); i++)
        seen += is(c, i, "assistant");
    return given && n >= 0 && n <= UINT32_MAX ? (uint32_t)n : seen;
}

bool hearth_chat_load(struct chat *c, const char *path)
{
    json_error_t error;
    FILE *f = hearth_file_stream(path, "rb");
    if (!f) {
        hearth_cli_error("cannot open %s: %s", path, strerror(errno));
        return false;
    }
    json_t *all = json_loadf(f, 0, &error);
    fclose(f);
    json_t *messages = json_is_object(all) ? json_object_get(all, "messages") : all;
    const bool ok = messages && are_messages(messages);
    if (ok) {
        json_decref(c->messages);
        c->messages = json_incref(messages);
        c->answers = count_answers(c, all);
        hearth_cli_info("%zu messages from %s", json_array_size(messages), path);
    } else {
        hearth_cli_error("%s is no chat that /save or --save wrote: %s", path,
                         all ? "it has no messages" : error.text);
    }
    json_decref(all);
    return ok;
}
