// SPDX-License-Identifier: MIT
// The parts of an answer in a chat.
#include "serve/parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "schema/json_string.h"

static struct hearth_part *add_part(struct hearth_parts *parts, enum hearth_part_kind kind)
{
    struct hearth_part *grown = hearth_reallocarray(parts->items, (size_t)parts->n + 1, sizeof *grown);
    if (!grown) {
        parts->failed = true;
        return NULL;
    }
    parts->items = grown;
    grown[parts->n] = (struct hearth_part){.kind = kind};
    return &grown[parts->n++];
}

// Text goes to the last part if it is of the kind, else to a new one.
static void put_text(struct hearth_parts *parts, enum hearth_part_kind kind, const char *text, size_t n)
{
    struct hearth_part *part = parts->n ? &parts->items[parts->n - 1] : NULL;
    const bool starts = !part || part->kind != kind;
    if (starts)
        part = add_part(parts, kind);
    if (!part)
        return;
    hearth_out_add(&part->text, text, n);
    parts->failed |= part->text.failed;
    parts->fn(parts->arg, part, starts, text, n);
}

static void start_call(struct hearth_parts *parts, const struct hearth_answer_part *from)
{
    struct hearth_part *part = add_part(parts, HEARTH_PART_CALL);
    if (!part)
        return;
    json_t *name = hearth_json_string(from->text, from->n); // the model may write what is no UTF-8
    part->call = parts->n_calls++;
    part->name = name ? hearth_strndup(json_string_value(name), json_string_length(name)) : NULL;
    json_decref(name);
    if (parts->short_ids)
        snprintf(part->id, sizeof part->id, "%.6s%03d", parts->id, part->call % 1000);
    else
        snprintf(part->id, sizeof part->id, "call_%s%03d", parts->id, part->call % 1000);
    parts->failed |= !part->name;
    if (part->name)
        parts->fn(parts->arg, part, true, "", 0);
}

static void on_part(void *arg, const struct hearth_answer_part *part)
{
    struct hearth_parts *parts = arg;
    if (parts->failed)
        return;
    switch (part->kind) {
    case HEARTH_ANSWER_CONTENT:
        put_text(parts, HEARTH_PART_TEXT, part->text, part->n);
        break;
    case HEARTH_ANSWER_REASONING:
        put_text(parts, HEARTH_PART_REASONING, part->text, part->n);
        break;
    case HEARTH_ANSWER_CALL:
        start_call(parts, part);
        break;
    case HEARTH_ANSWER_ARGUMENTS:
        put_text(parts, HEARTH_PART_CALL, part->text, part->n);
        break;
    case HEARTH_ANSWER_CALL_END:
        break;
    }
}

void hearth_parts_open(struct hearth_parts *parts, const struct hearth_answer_params *params, const char *id,
                       hearth_part_fn fn, void *arg)
{
    struct hearth_error err;
    *parts = (struct hearth_parts){.id = id, .short_ids = params->format->call_ids, .fn = fn, .arg = arg};
    parts->failed = hearth_answer_open(&parts->answer, params, on_part, parts, &err) != 0;
}

void hearth_parts_add(struct hearth_parts *parts, const char *text, size_t n)
{
    struct hearth_error err;
    if (!parts->failed && n && hearth_answer_push(parts->answer, text, n, &err))
        parts->failed = true;
}

void hearth_parts_end(struct hearth_parts *parts)
{
    if (!parts->failed)
        hearth_answer_finish(parts->answer);
}

void hearth_parts_free(struct hearth_parts *parts)
{
    for (int i = 0; i < parts->n; i++) {
        hearth_out_free(&parts->items[i].text);
        free(parts->items[i].name);
    }
    free(parts->items);
    hearth_answer_close(&parts->answer);
    *parts = (struct hearth_parts){0};
}
