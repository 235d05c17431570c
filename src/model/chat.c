// SPDX-License-Identifier: MIT
// The public functions about chats: a model's template, renderings, and their tokens.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/params.h"
#include "model/model.h"
#include "text/chat.h"

// ---- templates

static char *token_text(const struct hearth_model *model, hearth_token token)
{
    const struct hearth_str s =
        model && token >= 0 ? hearth_vocab_text(model->vocab, token) : (struct hearth_str){"", 0};
    return hearth_strndup(s.s, s.n);
}

// The template for conversations with tools, where a model has one of its own.
static struct hearth_str tool_template(const struct hearth_model *model)
{
    struct hearth_str text = {NULL, 0};
    hearth_gguf_str(model->gguf, "tokenizer.chat_template.tool_use", false, &text, NULL);
    return text;
}

static int open_sources(struct hearth_chat_template *t, const struct hearth_model *model, const char *source,
                        struct hearth_error *err)
{
    const char *text = source ? source : model ? model->chat_template : NULL;
    if (!text)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s has no chat template: name one of the built-in ones, or give its text",
                           model ? hearth_gguf_path(model->gguf) : "no model is given, which");
    int rc = hearth_jinja_open(&t->plain, text, strlen(text), err);
    if (!rc)
        rc = hearth_chat_probe(t->plain, t->bos, t->eos, &t->plain_can, err);
    if (rc)
        return rc;
    const struct hearth_str tools = source || !model ? (struct hearth_str){NULL, 0} : tool_template(model);
    if (!tools.s)
        return HEARTH_OK;
    struct hearth_error broken = {0};
    rc = hearth_jinja_open(&t->tool_use, tools.s, tools.n, &broken);
    if (rc == HEARTH_E_INVALID) { // the model's chats need not end with it
        hearth_log(HEARTH_LOG_WARNING,
                   "%s: tokenizer.chat_template.tool_use is not used, the main template is: %s",
                   hearth_gguf_path(model->gguf), broken.message);
        return HEARTH_OK;
    }
    if (rc && err)
        *err = broken;
    if (!rc)
        rc = hearth_chat_probe(t->tool_use, t->bos, t->eos, &t->tool_use_can, err);
    return rc;
}

int hearth_chat_template_open(struct hearth_chat_template **out, const struct hearth_model *model,
                              const char *source, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_chat_template *t = hearth_calloc(1, sizeof *t);
    if (t) {
        t->bos = token_text(model, model ? hearth_token_bos(model) : -1);
        t->eos = token_text(model, model ? hearth_token_eos(model) : -1);
    }
    int rc = t && t->bos && t->eos ? HEARTH_OK
                                   : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a chat template");
    if (!rc)
        rc = open_sources(t, model, source, err);
    if (rc)
        hearth_chat_template_close(&t);
    *out = t;
    return rc;
}

void hearth_chat_template_close(struct hearth_chat_template **t)
{
    if (!t || !*t)
        return;
    hearth_jinja_close(&(*t)->plain);
    hearth_jinja_close(&(*t)->tool_use);
    free((*t)->bos);
    free((*t)->eos);
    free(*t);
    *t = NULL;
}

const char *hearth_chat_builtin(const char *name)
{
    for (const struct hearth_chat_named *t = hearth_chat_templates; name && t->name; t++)
        if (!strcmp(t->name, name))
            return t->text;
    return NULL;
}

const char *hearth_chat_builtin_name(size_t i)
{
    for (size_t k = 0; hearth_chat_templates[k].name; k++)
        if (k == i)
            return hearth_chat_templates[k].name;
    return NULL;
}

// ---- rendering

void hearth_chat_params_init(struct hearth_chat_params *params, size_t size)
{
    const struct hearth_chat_params defaults = {
        .size = size, .add_generation_prompt = true, .now = HEARTH_CHAT_NOW};
    hearth_params_init(params, size, &defaults, sizeof defaults);
}

struct rendering {
    const struct hearth_chat_template *t;
    const struct hearth_chat_params *params;
    const struct hearth_chat_abilities *can;
};

static struct jinja_value turns(struct jinja *j, const struct hearth_chat_params *params)
{
    const struct jinja_value list = hearth_jinja_list(j, JINJA_PLAIN);
    for (size_t i = 0; i < params->n_turns; i++) {
        const struct hearth_chat_turn *turn = &params->turns[i];
        const struct jinja_value message = hearth_jinja_dict(j);
        const char *role = turn->role ? turn->role : "", *content = turn->content ? turn->content : "";
        hearth_jinja_set(j, message.u.dict, hearth_jinja_literal(j, "role"),
                         hearth_jinja_copy(j, role, strlen(role), JINJA_DATA));
        hearth_jinja_set(j, message.u.dict, hearth_jinja_literal(j, "content"),
                         hearth_jinja_copy(j, content, strlen(content), JINJA_DATA));
        hearth_jinja_append(j, list.u.list, message);
    }
    return list;
}

// JSON text, or nothing.
static struct jinja_value json_or_none(struct jinja *j, const char *text, const char *what)
{
    return text ? hearth_jinja_read_json(j, text, strlen(text), what, JINJA_DATA) : hearth_jinja_none();
}

static void set(struct jinja *j, struct jinja_dict *variables, const char *name, struct jinja_value v)
{
    hearth_jinja_set(j, variables, hearth_jinja_literal(j, name), v);
}

static void fill(struct jinja *j, struct jinja_dict *variables, void *arg)
{
    const struct rendering *r = arg;
    const struct hearth_chat_params *p = r->params;
    const struct jinja_value messages =
        p->messages ? json_or_none(j, p->messages, "the messages") : turns(j, p);
    const struct jinja_value more = json_or_none(j, p->variables, "the template's variables");
    hearth_chat_adapt(j, messages, r->can);
    set(j, variables, "messages", messages);
    set(j, variables, "tools", json_or_none(j, p->tools, "the tools"));
    set(j, variables, "documents", json_or_none(j, p->documents, "the documents"));
    set(j, variables, "add_generation_prompt", hearth_jinja_bool(p->add_generation_prompt));
    set(j, variables, "bos_token", hearth_jinja_literal(j, r->t->bos));
    set(j, variables, "eos_token", hearth_jinja_literal(j, r->t->eos));
    if (more.type != JINJA_DICT && more.type != JINJA_NONE)
        hearth_jinja_fail_code(j, HEARTH_E_INVALID, "the template's variables are a JSON object");
    for (size_t i = 0; more.type == JINJA_DICT && i < more.u.dict->n; i++)
        hearth_jinja_set(j, variables, more.u.dict->v[i].key, more.u.dict->v[i].value);
}

static size_t input_bytes(const struct hearth_chat_params *p)
{
    const char *const texts[] = {p->messages, p->tools, p->documents, p->variables};
    size_t n = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        n += texts[i] ? strlen(texts[i]) : 0;
    for (size_t i = 0; i < p->n_turns; i++)
        n += p->turns[i].content ? strlen(p->turns[i].content) : 0;
    return n;
}

// Memory for templates: much for what they do, more for long conversations.
static size_t memory_limit(const struct hearth_chat_params *p)
{
    const size_t base = (size_t)128 << 20, n = input_bytes(p);
    size_t more;
    return hearth_mul_size(n, 64, &more) && hearth_add_size(more, base, &more) ? more : SIZE_MAX / 2;
}

int hearth_chat_render(struct hearth_chat_text **out, const struct hearth_chat_template *t,
                       const struct hearth_chat_params *given, struct hearth_error *err)
{
    struct hearth_chat_params params;
    *out = NULL;
    hearth_chat_params_init(&params, sizeof params);
    const int bad = hearth_params_read(&params, sizeof params, given, "hearth_chat_params", err);
    if (bad)
        return bad;
    const bool tools = t->tool_use && params.tools;
    struct rendering r = {t, &params, tools ? &t->tool_use_can : &t->plain_can};
    struct hearth_chat_text *text = hearth_calloc(1, sizeof *text);
    if (!text)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a chat");
    text->j = (struct jinja){.limit = memory_limit(&params), .now = params.now};
    const int rc = hearth_jinja_render(&text->j, tools ? t->tool_use : t->plain, fill, &r, &text->text, err);
    if (rc)
        hearth_chat_text_close(&text);
    *out = text;
    return rc;
}

void hearth_chat_text_close(struct hearth_chat_text **text)
{
    if (!text || !*text)
        return;
    hearth_jinja_free(&(*text)->j);
    free(*text);
    *text = NULL;
}

const char *hearth_chat_text_bytes(const struct hearth_chat_text *text, size_t *n)
{
    *n = text->text->n;
    return text->text->s;
}

void hearth_chat_text_cut(struct hearth_chat_text *text, size_t n)
{
    text->beginning = *text->text;
    text->beginning.n = n;
    text->text = &text->beginning;
}

size_t hearth_chat_text_span(const struct hearth_chat_text *text, size_t at, bool *from_data)
{
    const struct jinja_string *s = text->text;
    size_t end = at;
    *from_data = false;
    if (at >= s->n)
        return 0;
    const uint8_t origin = s->marks ? s->marks[at] : s->origin;
    *from_data = origin == JINJA_DATA;
    while (end < s->n && (s->marks ? s->marks[end] : s->origin) == origin)
        end++;
    return end - at;
}

// ---- tokens

// Whether the vocabulary begins texts with BOS.
static bool wants_bos(const struct hearth_model *model)
{
    hearth_token first = -1;
    const int64_t n = hearth_vocab_tokenize(model->vocab, "", 0, HEARTH_TOKENIZE_BOS, &first, 1, NULL);
    return n > 0 && first == hearth_token_bos(model);
}

static int64_t tokenize(const struct hearth_model *model, const struct jinja_string *s, const uint8_t *marks,
                        hearth_token *out, size_t cap, struct hearth_error *err)
{
    hearth_token first = -1, *to = cap ? out : &first;
    const size_t room = cap ? cap : 1;
    const int64_t n =
        hearth_vocab_tokenize_marked(model->vocab, s->s, s->n, marks, HEARTH_TOKENIZE_SPECIAL, to, room, err);
    if (n < 0)
        return n;
    const bool before = wants_bos(model) && (!n || to[0] != hearth_token_bos(model));
    if (before && cap) {
        const size_t kept = (size_t)n < cap ? (size_t)n : cap - 1;
        memmove(out + 1, out, kept * sizeof *out);
        out[0] = hearth_token_bos(model);
    }
    return n + before;
}

int64_t hearth_chat_tokenize(const struct hearth_model *model, const struct hearth_chat_text *text,
                             hearth_token *out, size_t cap, struct hearth_error *err)
{
    const struct jinja_string *s = text->text;
    if (s->marks || s->origin == JINJA_TEMPLATE)
        return tokenize(model, s, s->marks, out, cap, err);
    uint8_t *marks = malloc(s->n + 1); // all of it is data
    if (!marks)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the tokens of a chat");
    memset(marks, 1, s->n);
    const int64_t n = tokenize(model, s, marks, out, cap, err);
    free(marks);
    return n;
}
