// SPDX-License-Identifier: MIT
// Prompts as requests give them.
#include "serve/prompts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "calls/grammar.h"
#include "calls/history.h"
#include "serve/conversation.h"
#include "text/chat.h"

// Prompts of one request, as many as OpenAI takes.
#define MOST_PROMPTS 2048
// Bytes from which on texts are cut into tokens one after the other.
#define LONG_TEXT 1048576

void hearth_prompt_free(struct hearth_prompt *prompt)
{
    free(prompt->tokens);
    *prompt = (struct hearth_prompt){0};
}

void hearth_prompt_list_free(struct hearth_prompt_list *list)
{
    for (int i = 0; i < list->n; i++)
        hearth_prompt_free(&list->items[i]);
    free(list->items);
    *list = (struct hearth_prompt_list){0};
}

// ---- texts

// After cutting a text into n tokens, with room for `cap`.
static bool settle(struct hearth_exchange *x, struct hearth_prompt *prompt, int64_t n, size_t cap,
                   const struct hearth_error *err)
{
    if (n >= 0 && (uint64_t)n <= cap && n < INT32_MAX) {
        hearth_token *fit = hearth_reallocarray(prompt->tokens, (size_t)n + 1, sizeof *fit);
        prompt->tokens = fit ? fit : prompt->tokens;
        prompt->n = (int)n;
        return true;
    }
    hearth_prompt_free(prompt);
    hearth_exchange_error(x, err->code == HEARTH_E_INVALID ? 400 : 500, NULL, "%s",
                          err->code ? err->message : "out of memory");
    return false;
}

// Cutting takes seventy bytes of memory for one of a text without blanks, so long texts take turns.
static void begin_cutting(struct hearth_exchange *x, size_t n)
{
    if (n >= LONG_TEXT)
        pthread_mutex_lock(&x->server->cutting);
}

static void end_cutting(struct hearth_exchange *x, size_t n)
{
    if (n >= LONG_TEXT)
        pthread_mutex_unlock(&x->server->cutting);
}

static int64_t cut(struct hearth_exchange *x, const char *text, size_t n, int flags,
                   struct hearth_prompt *prompt, size_t cap, struct hearth_error *err)
{
    hearth_token *grown = hearth_reallocarray(prompt->tokens, cap, sizeof *grown);
    if (!grown)
        return HEARTH_E_MEMORY;
    prompt->tokens = grown;
    return hearth_tokenize(x->server->served.model, text, n, flags, grown, cap, err);
}

bool hearth_prompt_tokenize(struct hearth_exchange *x, const char *text, size_t n, int flags,
                            struct hearth_prompt *prompt)
{
    struct hearth_error err = {0};
    size_t cap = n + 16; // a token is rarely shorter than a byte
    begin_cutting(x, n);
    int64_t count = cut(x, text, n, flags, prompt, cap, &err);
    if (count > 0 && (uint64_t)count > cap) {
        cap = (size_t)count;
        count = cut(x, text, n, flags, prompt, cap, &err);
    }
    end_cutting(x, n);
    return settle(x, prompt, count, cap, &err);
}

bool hearth_prompt_may_fit(struct hearth_exchange *x, const char *name, size_t n)
{
    const int room = hearth_scheduler_room(x->server->scheduler);
    if (x->counts && n > HEARTH_MOST_CUT) {
        hearth_exchange_error(x, 400, name,
                              "%s: %zu bytes are more than the %d that are cut into tokens at once", name, n,
                              HEARTH_MOST_CUT);
        return false;
    }
    if (x->counts || n / x->server->token_bytes < (size_t)room)
        return true;
    char what[64];
    snprintf(what, sizeof what, "a text of %zu bytes", n);
    hearth_exchange_too_long(x, name, what, n / x->server->token_bytes, false, room - 1);
    return false;
}

static bool append(struct hearth_prompt *prompt, const hearth_token *tokens, int n)
{
    hearth_token *grown =
        hearth_reallocarray(prompt->tokens, (size_t)prompt->n + (size_t)n + 1, sizeof *prompt->tokens);
    if (!grown)
        return false;
    prompt->tokens = grown;
    for (int i = 0; i < n; i++)
        grown[prompt->n++] = tokens[i];
    return true;
}

static bool refuse(struct hearth_exchange *x, const char *name)
{
    hearth_exchange_error(x, 400, name, "%s: a text, an array of tokens, or up to %d of such are wanted",
                          name, MOST_PROMPTS);
    return false;
}

static bool add_token(struct hearth_exchange *x, const char *name, const json_t *value,
                      struct hearth_prompt *prompt)
{
    const json_int_t id = json_integer_value(value);
    const hearth_token token = (hearth_token)id;
    if (id < 0 || id >= hearth_model_info(x->server->served.model)->n_vocab) {
        hearth_exchange_error(x, 400, name, "%s: there is no token %lld", name, (long long)id);
        return false;
    }
    if (append(prompt, &token, 1))
        return true;
    hearth_exchange_error(x, 500, NULL, "out of memory");
    return false;
}

// A text, or tokens and texts one after the other.
static bool read_one(struct hearth_exchange *x, const char *name, const json_t *value,
                     struct hearth_prompt *prompt)
{
    const int flags = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL;
    json_t *item;
    size_t i;
    if (json_is_string(value))
        return hearth_prompt_may_fit(x, name, json_string_length(value)) &&
               hearth_prompt_tokenize(x, json_string_value(value), json_string_length(value), flags, prompt);
    json_array_foreach(value, i, item)
    {
        struct hearth_prompt more = {0};
        if (json_is_integer(item) && !add_token(x, name, item, prompt))
            return false;
        if (!json_is_string(item))
            continue;
        if (!hearth_prompt_may_fit(x, name, json_string_length(item)) ||
            !hearth_prompt_tokenize(x, json_string_value(item), json_string_length(item),
                                    i ? HEARTH_TOKENIZE_SPECIAL : flags, &more))
            return false;
        const bool ok = append(prompt, more.tokens, more.n);
        hearth_prompt_free(&more);
        if (!ok) {
            hearth_exchange_error(x, 500, NULL, "out of memory");
            return false;
        }
    }
    return true;
}

// Whether an array is one prompt: it has a token, and else tokens and texts.
static bool is_mixed(const json_t *value)
{
    bool token = false;
    json_t *item;
    size_t i;
    json_array_foreach(value, i, item)
    {
        if (!json_is_integer(item) && !json_is_string(item))
            return false;
        token |= json_is_integer(item);
    }
    return token;
}

bool hearth_prompt_read(struct hearth_exchange *x, const char *name, struct hearth_prompt_list *list)
{
    const json_t *value = json_object_get(x->body, name);
    const bool several = json_is_array(value) && !is_mixed(value);
    const size_t n = several ? json_array_size(value) : 1;
    if (!(json_is_string(value) || json_is_array(value)) || !n || n > MOST_PROMPTS)
        return refuse(x, name);
    list->items = hearth_calloc(n, sizeof *list->items);
    if (!list->items) {
        hearth_exchange_error(x, 500, NULL, "out of memory");
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *one = several ? json_array_get(value, i) : value;
        if (!json_is_string(one) && !is_mixed(one))
            return refuse(x, name);
        list->n++;
        if (!read_one(x, name, one, &list->items[i]))
            return false;
    }
    return true;
}

bool hearth_prompt_text(const struct hearth_model *model, const hearth_token *tokens, int n,
                        struct hearth_out *out)
{
    struct hearth_stream *stream = NULL;
    struct hearth_error err;
    const char *text;
    size_t bytes;
    if (hearth_stream_open(&stream, model, true, false, &err))
        return false;
    for (int i = 0; i < n; i++) {
        bytes = hearth_stream_push(stream, tokens[i], &text);
        hearth_out_add(out, text, bytes);
    }
    bytes = hearth_stream_flush(stream, &text);
    hearth_out_add(out, text, bytes);
    hearth_stream_close(&stream);
    return !out->failed;
}

// ---- chats

// `ends`: with the beginning of an answer.
static struct hearth_chat_text *render(struct hearth_exchange *x, const json_t *messages, const json_t *tools,
                                       json_t *variables, bool ends)
{
    struct hearth_error err = {0};
    struct hearth_chat_text *text = NULL;
    struct hearth_chat_params params = hearth_chat_params_default();
    json_t *known = hearth_call_messages(&x->server->calls, messages, tools);
    char *texts[] = {known ? json_dumps(known, 0) : NULL, tools ? json_dumps(tools, 0) : NULL,
                     json_dumps(variables, 0)};
    json_decref(known);
    params.messages = texts[0];
    params.tools = texts[1];
    params.variables = texts[2];
    params.add_generation_prompt = ends;
    if (!texts[0] || !texts[2])
        hearth_exchange_error(x, 500, NULL, "out of memory");
    else if (hearth_chat_render(&text, x->server->served.chat, &params, &err))
        hearth_exchange_error(x, err.code == HEARTH_E_INVALID ? 400 : 500, "messages", "%s", err.message);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    return text;
}

static struct hearth_chat_text *render_with(struct hearth_exchange *x, json_t *messages, const json_t *tools,
                                            json_t *variables, const json_t *content, const char *more)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    struct hearth_out text = {0};
    hearth_out_add(&text, json_string_value(content), json_string_length(content));
    hearth_out_text(&text, more);
    json_object_set_new(last, "content", hearth_exchange_string(&text));
    hearth_out_free(&text);
    return render(x, messages, tools, variables, false);
}

// A chat whose last message ends with `content`, up to that end: two renderings that go on in different ways
// there show where it is.
static struct hearth_chat_text *render_unfinished(struct hearth_exchange *x, json_t *messages,
                                                  const json_t *tools, json_t *variables,
                                                  const json_t *content)
{
    size_t n = 0, m = 0, common = 0;
    struct hearth_chat_text *text = render_with(x, messages, tools, variables, content, "a"),
                            *other = text ? render_with(x, messages, tools, variables, content, "b") : NULL;
    const char *a = text ? hearth_chat_text_bytes(text, &n) : NULL;
    const char *b = other ? hearth_chat_text_bytes(other, &m) : NULL;
    while (common < n && common < m && a[common] == b[common])
        common++;
    const bool shown = other && common < n && common < m;
    if (shown)
        hearth_chat_text_cut(text, common);
    else if (other)
        hearth_exchange_error(x, 400, "messages",
                              "messages: the template does not show the last message of the assistant, which "
                              "the answer should continue");
    hearth_chat_text_close(&other);
    if (!shown)
        hearth_chat_text_close(&text);
    return text;
}

struct hearth_chat_text *hearth_prompt_render(struct hearth_exchange *x, json_t *messages, json_t *tools)
{
    if (!hearth_conversation_settle(x, messages))
        return NULL;
    json_t *variables = hearth_conversation_variables(x);
    if (!variables)
        return NULL;
    json_t *begun = x->continues ? hearth_conversation_unfinished(messages) : NULL;
    struct hearth_chat_text *text = begun ? render_unfinished(x, messages, tools, variables, begun)
                                          : render(x, messages, tools, variables, true);
    x->continued = begun != NULL;
    json_decref(begun);
    json_decref(variables);
    return text;
}

static bool tokenize_chat(struct hearth_exchange *x, const struct hearth_chat_text *text,
                          struct hearth_prompt *prompt)
{
    struct hearth_error err = {0};
    const struct hearth_model *model = x->server->served.model;
    size_t bytes;
    hearth_chat_text_bytes(text, &bytes);
    if (!hearth_prompt_may_fit(x, "messages", bytes))
        return false;
    const size_t cap = bytes + 16; // a token is rarely shorter than a byte
    prompt->tokens = hearth_calloc(cap, sizeof *prompt->tokens);
    begin_cutting(x, bytes);
    const int64_t n =
        prompt->tokens ? hearth_chat_tokenize(model, text, prompt->tokens, cap, &err) : HEARTH_E_MEMORY;
    end_cutting(x, bytes);
    return settle(x, prompt, n, cap, &err);
}

// "tool_choice": a word, or an object with a type and, for one tool, its name. False: nothing may be called.
static bool take_tool_choice(struct hearth_exchange *x)
{
    const json_t *choice = json_object_get(x->body, "tool_choice");
    const char *how = json_string_value(json_is_object(choice) ? json_object_get(choice, "type") : choice);
    const json_t *function = json_object_get(choice, "function");
    x->one_call = json_is_false(json_object_get(x->body, "parallel_tool_calls")) ||
                  json_is_true(json_object_get(choice, "disable_parallel_tool_use"));
    x->only_tool = json_string_value(json_object_get(function ? function : choice, "name"));
    x->must_call = x->only_tool || (how && (!strcmp(how, "required") || !strcmp(how, "any")));
    return !how || strcmp(how, "none") != 0;
}

// The tools that the model may call, with their names.
static bool keep_tools(struct hearth_exchange *x, json_t *tools)
{
    json_t *tool;
    size_t i;
    if (!take_tool_choice(x))
        return true;
    if (x->must_call && !json_array_size(tools))
        hearth_exchange_error(x, 400, "tool_choice", "tool_choice: there are no tools");
    if (!json_array_size(tools))
        return !x->finished;
    x->tools = json_incref(tools);
    x->tool_names = hearth_calloc(json_array_size(tools), sizeof *x->tool_names);
    json_array_foreach(tools, i, tool)
    {
        const char *name = json_string_value(json_object_get(hearth_call_function(tool), "name"));
        if (!name || !x->tool_names) {
            hearth_exchange_error(x, name ? 500 : 400, "tools", "tools: %s",
                                  name ? "out of memory" : "functions with names are wanted");
            return false;
        }
        x->tool_names[x->n_tool_names++] = name;
    }
    return true;
}

// What the prompt's end says of the answer: whether it begins with thoughts.
static void keep_end(struct hearth_exchange *x, const struct hearth_chat_text *text)
{
    const size_t most = 256;
    size_t n;
    const char *bytes = hearth_chat_text_bytes(text, &n);
    hearth_out_add(&x->prompt_end, bytes + (n > most ? n - most : 0), n > most ? most : n);
}

bool hearth_prompt_chat(struct hearth_exchange *x, json_t *messages, json_t *tools,
                        struct hearth_prompt *prompt)
{
    struct hearth_chat_text *text = NULL;
    x->chat = true;
    if (keep_tools(x, tools))
        text = hearth_prompt_render(x, messages, x->tools);
    const bool ok = text && tokenize_chat(x, text, prompt);
    if (ok)
        keep_end(x, text);
    hearth_chat_text_close(&text);
    return ok;
}
