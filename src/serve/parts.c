// SPDX-License-Identifier: MIT
// The parts of an answer in a chat.
#include "serve/parts.h"

#include <stdlib.h>

#include "base/memory.h"

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
static void put(struct hearth_parts *parts, enum hearth_part_kind kind, const char *text, size_t n,
                hearth_part_fn fn, void *arg)
{
    struct hearth_part *part = parts->n ? &parts->items[parts->n - 1] : NULL;
    const bool starts = !part || part->kind != kind;
    if (!n)
        return;
    if (starts)
        part = add_part(parts, kind);
    if (!part)
        return;
    hearth_out_add(&part->text, text, n);
    fn(arg, part, starts, text, n);
}

void hearth_parts_add(struct hearth_parts *parts, const char *text, size_t n, bool ends, hearth_part_fn fn,
                      void *arg)
{
    (void)ends;
    put(parts, HEARTH_PART_TEXT, text, n, fn, arg);
}

void hearth_parts_free(struct hearth_parts *parts)
{
    for (int i = 0; i < parts->n; i++) {
        hearth_out_free(&parts->items[i].text);
        free(parts->items[i].name);
    }
    free(parts->items);
    *parts = (struct hearth_parts){0};
}

const struct hearth_part *hearth_parts_find(const struct hearth_parts *parts, enum hearth_part_kind kind)
{
    for (int i = 0; i < parts->n; i++)
        if (parts->items[i].kind == kind)
            return &parts->items[i];
    return NULL;
}
