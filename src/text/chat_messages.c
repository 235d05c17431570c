// SPDX-License-Identifier: MIT
// Messages as the OpenAI API has them are not what every template understands. Those that are not are brought
// into the form that it does understand, which is found out by rendering short conversations and looking at
// what comes out.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/chat.h"

typedef struct jinja_value value;

static value *field(struct jinja *j, const value *message, const char *name)
{
    return message->type == JINJA_DICT ? hearth_jinja_find_text(j, message->u.dict, name) : NULL;
}

static bool field_is(struct jinja *j, const value *message, const char *name, const char *text)
{
    const value *v = field(j, message, name);
    return v && v->type == JINJA_STRING && hearth_jinja_is_text(v->u.s, text);
}

// ---- content

// A list of parts as one text; parts that are no text stay out of it, so there must be none.
static bool join_parts(struct jinja *j, value *content)
{
    struct jinja_builder b = {.j = j};
    for (size_t i = 0; i < content->u.list->n; i++) {
        const value *part = &content->u.list->v[i], *text = field(j, part, "text");
        if (!text || text->type != JINJA_STRING)
            return false;
        hearth_jinja_put_string(&b, text->u.s);
    }
    *content = hearth_jinja_built(&b);
    return true;
}

static void split_text(struct jinja *j, value *content)
{
    const value parts = hearth_jinja_list(j, JINJA_PLAIN), part = hearth_jinja_dict(j);
    hearth_jinja_set(j, part.u.dict, hearth_jinja_literal(j, "type"), hearth_jinja_literal(j, "text"));
    hearth_jinja_set(j, part.u.dict, hearth_jinja_literal(j, "text"), *content);
    hearth_jinja_append(j, parts.u.list, part);
    *content = parts;
}

static void adapt_content(struct jinja *j, const value *message, const struct hearth_chat_abilities *can)
{
    value *content = field(j, message, "content");
    if (!content)
        return;
    if (content->type == JINJA_LIST && !can->parts && can->texts)
        join_parts(j, content);
    else if (content->type == JINJA_STRING && !can->texts && can->parts)
        split_text(j, content);
}

// ---- tool calls

static void adapt_calls(struct jinja *j, const value *message, const struct hearth_chat_abilities *can)
{
    const value *calls = field(j, message, "tool_calls");
    for (size_t i = 0; calls && calls->type == JINJA_LIST && i < calls->u.list->n; i++) {
        const value *call = &calls->u.list->v[i], *function = field(j, call, "function");
        value *arguments = function ? field(j, function, "arguments") : NULL;
        const value comma = hearth_jinja_literal(j, ", "), colon = hearth_jinja_literal(j, ": ");
        if (!arguments)
            continue;
        if (!can->call_texts && arguments->type == JINJA_STRING && arguments->u.s->n)
            *arguments = hearth_jinja_read_json(j, arguments->u.s->s, arguments->u.s->n,
                                                "the arguments of a tool call", JINJA_DATA);
        else if (can->call_texts && !can->call_objects && arguments->type == JINJA_DICT)
            *arguments = hearth_jinja_dumps(j, arguments, false, false, NULL, comma.u.s, colon.u.s);
    }
}

// ---- the role system

// Whether the content is a text, or has become one.
static bool is_one_text(struct jinja *j, value *content)
{
    return content &&
           (content->type == JINJA_STRING || (content->type == JINJA_LIST && join_parts(j, content)));
}

// Where a template refuses it, its text begins the next message.
static void merge_system(struct jinja *j, struct jinja_list *messages)
{
    if (!messages->n || !field_is(j, &messages->v[0], "role", "system"))
        return;
    value *system = field(j, &messages->v[0], "content"),
          *next = messages->n > 1 ? field(j, &messages->v[1], "content") : NULL;
    if (!next) {
        hearth_jinja_set(j, messages->v[0].u.dict, hearth_jinja_literal(j, "role"),
                         hearth_jinja_literal(j, "user"));
        return;
    }
    if (!is_one_text(j, system) || !is_one_text(j, next))
        return;
    struct jinja_builder b = {.j = j};
    hearth_jinja_put_string(&b, system->u.s);
    hearth_jinja_put_literal(&b, "\n\n");
    hearth_jinja_put_string(&b, next->u.s);
    *next = hearth_jinja_built(&b);
    memmove(messages->v, messages->v + 1, --messages->n * sizeof *messages->v);
}

// A known role is no data: templates make control tokens of it ('<|' + message['role'] + '|>').
static void know_role(struct jinja *j, const value *message)
{
    static const char *const roles[] = {"system",   "user",    "assistant", "tool",       "developer",
                                        "function", "ipython", "model",     "observation"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (field_is(j, message, "role", roles[i]))
            *field(j, message, "role") = hearth_jinja_literal(j, roles[i]);
}

void hearth_chat_adapt(struct jinja *j, value messages, const struct hearth_chat_abilities *can)
{
    if (messages.type != JINJA_LIST)
        hearth_jinja_fail_code(j, HEARTH_E_INVALID, "the messages of a chat are a JSON array");
    if (!can->system)
        merge_system(j, messages.u.list);
    for (size_t i = 0; i < messages.u.list->n; i++) {
        if (messages.u.list->v[i].type != JINJA_DICT)
            hearth_jinja_fail_code(j, HEARTH_E_INVALID, "each message of a chat is a JSON object");
        know_role(j, &messages.u.list->v[i]);
        adapt_content(j, &messages.u.list->v[i], can);
        adapt_calls(j, &messages.u.list->v[i], can);
    }
}

// ---- finding out

struct probe {
    const char *messages, *bos, *eos;
    struct hearth_error *err;
    int failed; // there was no memory: what was found out means nothing
};

static void fill_probe(struct jinja *j, struct jinja_dict *variables, void *arg)
{
    const struct probe *p = arg;
    const char *const names[] = {"tools", "documents"};
    hearth_jinja_set(j, variables, hearth_jinja_literal(j, "messages"),
                     hearth_jinja_read_json(j, p->messages, strlen(p->messages), "a probe", JINJA_DATA));
    for (size_t i = 0; i < 2; i++)
        hearth_jinja_set(j, variables, hearth_jinja_literal(j, names[i]), hearth_jinja_none());
    hearth_jinja_set(j, variables, hearth_jinja_literal(j, "add_generation_prompt"),
                     hearth_jinja_bool(false));
    hearth_jinja_set(j, variables, hearth_jinja_literal(j, "bos_token"), hearth_jinja_literal(j, p->bos));
    hearth_jinja_set(j, variables, hearth_jinja_literal(j, "eos_token"), hearth_jinja_literal(j, p->eos));
}

// Whether these messages give a text with `with` and without `without`, which may be NULL.
static bool gives(const struct hearth_jinja *t, struct probe *p, const char *messages, const char *with,
                  const char *without)
{
    struct jinja j = {.limit = (size_t)16 << 20, .now = 0};
    const struct jinja_string *out;
    struct hearth_error err;
    p->messages = messages;
    const int rc = hearth_jinja_render(&j, t, fill_probe, p, &out, &err);
    bool yes = !rc;
    if (rc == HEARTH_E_MEMORY)
        p->failed = hearth_fail(p->err, rc, "%s", err.message);
    yes = yes && hearth_find_bytes(out->s, out->n, with, strlen(with)) &&
          !(without && hearth_find_bytes(out->s, out->n, without, strlen(without)));
    hearth_jinja_free(&j);
    return yes;
}

#define USER(content) "{\"role\":\"user\",\"content\":" content "}"
#define CALL(arguments)                                                                                      \
    "[" USER("\"hi\"") ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call00001\","    \
                       "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}]}]"

int hearth_chat_probe(const struct hearth_jinja *t, const char *bos, const char *eos,
                      struct hearth_chat_abilities *can, struct hearth_error *err)
{
    struct probe p = {NULL, bos, eos, err, HEARTH_OK};
    const char *const text = "[" USER("\"needle\"") "]";
    const char *const parts = "[" USER("[{\"type\":\"text\",\"text\":\"needle\"}]") "]";
    const char *const system = "[{\"role\":\"system\",\"content\":\"needle\"}," USER("\"hi\"") "]";
    const char *const system_parts =
        "[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"needle\"}]}," USER(
            "[{\"type\":\"text\",\"text\":\"hi\"}]") "]";
    can->texts = gives(t, &p, text, "needle", NULL);
    can->parts = gives(t, &p, parts, "needle", "type");
    // Python's quotes show that an object is printed as it is
    can->call_objects = gives(t, &p, CALL("{\"needle\":\"thread\"}"), "needle", "'needle'");
    can->call_texts =
        gives(t, &p, CALL("\"{\\\"needle\\\": \\\"thread\\\"}\""), "{\"needle\": \"thread\"}", NULL);
    can->system = gives(t, &p, can->texts ? system : system_parts, "needle", NULL);
    if (!can->texts && !can->parts) // it cannot be told: messages stay as they are
        can->texts = can->parts = can->system = true;
    return p.failed;
}
