// SPDX-License-Identifier: MIT
// What requests say in chats.
#include "serve/conversation.h"

#include <string.h>

#include "serve/fields.h"

static bool is_role(const json_t *message, const char *role)
{
    const char *is = json_string_value(json_object_get(message, "role"));
    return is && !strcmp(is, role);
}

// ---- contents

static bool is_content(const json_t *content)
{
    json_t *part;
    size_t i;
    json_array_foreach(content, i, part) if (!json_is_string(json_object_get(part, "text"))) return false;
    return !content || json_is_null(content) || json_is_string(content) || json_is_array(content);
}

bool hearth_conversation_settle(struct hearth_exchange *x, json_t *messages)
{
    json_t *message;
    size_t i;
    if (!json_is_array(messages) || !json_array_size(messages)) {
        hearth_exchange_error(x, 400, "messages", "messages: an array of messages is wanted");
        return false;
    }
    json_array_foreach(messages, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        if (!json_is_string(json_object_get(message, "role")) || !is_content(content)) {
            hearth_exchange_error(x, 400, "messages",
                                  "messages: each wants a role, and as its content a text or parts of text "
                                  "(models here read no images and no sound); number %zu has something else",
                                  i);
            return false;
        }
        // Messages of the model that only call tools may come without: templates want a text.
        if (!content || json_is_null(content))
            json_object_set_new(message, "content", json_string(""));
        if (!x->server->knows_developer && is_role(message, "developer"))
            json_object_set_new(message, "role", json_string("system"));
    }
    return true;
}

// ---- answers that are begun

static json_t *join(const json_t *content)
{
    struct hearth_out text = {0};
    json_t *part;
    size_t i;
    if (json_is_string(content))
        return json_incref((json_t *)(uintptr_t)content);
    json_array_foreach(content, i, part)
    {
        const json_t *one = json_object_get(part, "text");
        hearth_out_add(&text, json_string_value(one), json_string_length(one));
    }
    json_t *joined = hearth_exchange_string(&text);
    hearth_out_free(&text);
    return joined;
}

json_t *hearth_conversation_unfinished(json_t *messages)
{
    const size_t n = json_array_size(messages);
    json_t *last = n ? json_array_get(messages, n - 1) : NULL;
    if (n < 2 || !is_role(last, "assistant") || json_array_size(json_object_get(last, "tool_calls")))
        return NULL;
    json_t *text = join(json_object_get(last, "content"));
    if (json_string_length(text)) {
        json_object_set(last, "content", text);
        return text;
    }
    json_decref(text);
    if (!json_object_get(last, "reasoning_content"))
        json_array_remove(messages, n - 1);
    return NULL;
}

// ---- variables

static void set_effort(json_t *all, const json_t *effort)
{
    if (json_is_string(effort) && !strcmp(json_string_value(effort), "none"))
        json_object_set_new(all, "enable_thinking", json_false());
    else if (json_is_string(effort))
        json_object_set(all, "reasoning_effort", (json_t *)(uintptr_t)effort);
}

// OpenAI's chat completions have "reasoning_effort", its responses "reasoning", Anthropic's messages "thinking".
static void set_thinking(const struct hearth_exchange *x, json_t *all)
{
    const char *thinking = json_string_value(json_object_get(json_object_get(x->body, "thinking"), "type"));
    set_effort(all, json_object_get(x->body, "reasoning_effort"));
    set_effort(all, json_object_get(json_object_get(x->body, "reasoning"), "effort"));
    if (thinking)
        json_object_set_new(all, "enable_thinking", json_boolean(strcmp(thinking, "disabled")));
}

json_t *hearth_conversation_variables(struct hearth_exchange *x)
{
    static const char *const reserved[] = {"messages", "tools", "add_generation_prompt"};
    const char *usual = x->server->served.template_variables;
    json_t *given = hearth_request_field(x, "chat_template_kwargs");
    bool ok = !given || json_is_object(given);
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        ok = ok && !json_object_get(given, reserved[i]);
    if (!ok) {
        hearth_exchange_error(
            x, 400, "chat_template_kwargs",
            "chat_template_kwargs: an object without messages, tools and add_generation_prompt is wanted");
        return NULL;
    }
    json_t *all = usual ? json_loads(usual, 0, NULL) : json_object();
    if (!all) {
        hearth_exchange_error(x, 500, NULL, "out of memory");
        return NULL;
    }
    set_thinking(x, all);
    if (given)
        json_object_update(all, given);
    // A grammar is about the whole answer, so there is no room for thoughts before it.
    if (json_string_length(hearth_request_field(x, "grammar")) && !json_object_get(all, "enable_thinking"))
        json_object_set_new(all, "enable_thinking", json_false());
    return all;
}

// ---- what a template knows

static struct hearth_chat_text *render_role(const struct hearth_chat_template *chat, const char *role)
{
    const struct hearth_chat_turn turns[] = {{role, "needle"}, {"user", "hi"}};
    struct hearth_chat_params params = hearth_chat_params_default();
    struct hearth_chat_text *text = NULL;
    struct hearth_error err;
    params.turns = turns;
    params.n_turns = 2;
    return hearth_chat_render(&text, chat, &params, &err) ? NULL : text;
}

bool hearth_conversation_knows_developer(const struct hearth_chat_template *chat)
{
    struct hearth_chat_text *known = render_role(chat, "developer"),
                            *unknown = render_role(chat, "developex");
    size_t n = 0, m = 0;
    const char *a = known ? hearth_chat_text_bytes(known, &n) : NULL;
    const char *b = unknown ? hearth_chat_text_bytes(unknown, &m) : NULL;
    bool alike = a && b && n == m;
    for (size_t i = 0; i < n && alike; i++)
        alike = a[i] == b[i] || (a[i] == 'r' && b[i] == 'x'); // where the role is written out
    hearth_chat_text_close(&known);
    hearth_chat_text_close(&unknown);
    return a && !alike;
}
