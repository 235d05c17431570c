// SPDX-License-Identifier: MIT
// A text without a tag in it is followed as by Knuth, Morris and Pratt: rule k has read k characters of it.
#include "calls/tags.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "calls/format.h"

// ---- control tokens

static bool add_tag(struct hearth_call_tags *tags, const char *s, size_t n, hearth_token token)
{
    if (tags->n == tags->cap) {
        const size_t larger = tags->cap ? tags->cap * 2 : 64;
        struct hearth_call_tag *v = hearth_reallocarray(tags->v, larger, sizeof *v);
        if (!v)
            return false;
        tags->v = v;
        tags->cap = larger;
    }
    char *text = hearth_strndup(s, n);
    if (!text)
        return false;
    tags->v[tags->n++] = (struct hearth_call_tag){text, n, token};
    return true;
}

int hearth_call_tags_find(struct hearth_call_tags *tags, const struct hearth_model *model,
                          struct hearth_error *err)
{
    static const char think[] = "<think>", channel[] = "<|channel>";
    *tags = (struct hearth_call_tags){.thinks = !model, .channels = !model};
    const hearth_token n_tokens = model ? hearth_model_info(model)->n_vocab : 0;
    for (hearth_token t = 0; t < n_tokens; t++) {
        char text[HEARTH_CALLS_PART];
        const size_t n = hearth_token_bytes(model, t, true, text, sizeof text);
        if (n < 2 || n >= sizeof text || (text[0] != '<' && text[0] != '['))
            continue;
        tags->thinks |= n == sizeof think - 1 && !memcmp(text, think, n);
        tags->channels |= n == sizeof channel - 1 && !memcmp(text, channel, n);
        if (!hearth_token_bytes(model, t, false, NULL, 0) && !add_tag(tags, text, n, t))
            return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the names of control tokens");
    }
    return HEARTH_OK;
}

void hearth_call_tags_free(struct hearth_call_tags *tags)
{
    for (size_t i = 0; i < tags->n; i++)
        free(tags->v[i].text);
    free(tags->v);
    *tags = (struct hearth_call_tags){0};
}

// The longest one that a text begins with; NULL: none.
static const struct hearth_call_tag *tag_at(const struct hearth_call_tags *tags, const char *s, size_t n)
{
    const struct hearth_call_tag *best = NULL;
    for (size_t i = 0; i < tags->n; i++) {
        const struct hearth_call_tag *tag = &tags->v[i];
        if (tag->n <= n && !memcmp(tag->text, s, tag->n) && (!best || tag->n > best->n))
            best = tag;
    }
    return best;
}

void hearth_call_add_literal(struct hearth_text *t, const struct hearth_call_tags *tags, const char *s,
                             size_t n)
{
    size_t from = 0;
    for (size_t at = 0; at < n;) {
        const struct hearth_call_tag *tag = tag_at(tags, s + at, n - at);
        if (!tag) {
            at++;
            continue;
        }
        if (at > from)
            hearth_text_quote(t, s + from, at - from);
        hearth_text_format(t, " <[%d]> ", tag->token);
        at += tag->n;
        from = at;
    }
    if (n > from || !n)
        hearth_text_quote(t, s + from, n - from);
    hearth_text_add(t, " ");
}

// ---- free text

enum { MAX_CHARS = HEARTH_CALLS_PART };

// The characters of valid UTF-8.
static size_t decode(const char *s, uint32_t *out)
{
    size_t n = 0;
    while (*s && n < MAX_CHARS) {
        uint32_t c = (unsigned char)*s++;
        int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
        c &= more ? 0x3Fu >> more : 0x7Fu;
        for (; more && *s; more--)
            c = c << 6 | ((unsigned char)*s++ & 0x3Fu);
        out[n++] = c;
    }
    return n;
}

// How many characters of the tag the last ones of tag[0..k) and c are.
static size_t follow(const uint32_t *tag, size_t k, uint32_t c)
{
    for (size_t keep = k + 1; keep > 0; keep--)
        if (tag[keep - 1] == c && !memcmp(tag, tag + k - (keep - 1), (keep - 1) * sizeof *tag))
            return keep;
    return 0;
}

static bool seen_before(const uint32_t *tag, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (tag[k] == tag[i])
            return true;
    return false;
}

static void add_class(struct hearth_text *t, const char *open, uint32_t c)
{
    hearth_text_add(t, open);
    hearth_text_char(t, c);
    hearth_text_add(t, "]");
}

// The rule of having read k characters.
static void add_step(struct hearth_text *t, const char *name, const uint32_t *tag, size_t n, size_t k,
                     const char *next, bool may_end)
{
    hearth_text_format(t, "%s%zu ::= %s", name, k, may_end ? "\"\" | " : "");
    for (size_t i = 0; i < n; i++) {
        const size_t to = seen_before(tag, i) ? 0 : follow(tag, k, tag[i]);
        if (!to)
            continue;
        add_class(t, "[", tag[i]);
        if (to == n)
            hearth_text_format(t, " %s | ", next);
        else
            hearth_text_format(t, " %s%zu | ", name, to);
    }
    hearth_text_add(t, "[^");
    for (size_t i = 0; i < n; i++)
        if (!seen_before(tag, i) && follow(tag, k, tag[i]))
            hearth_text_char(t, tag[i]);
    hearth_text_format(t, "] %s0\n", name);
}

void hearth_call_add_until(struct hearth_text *t, const struct hearth_call_tags *tags, const char *name,
                           const char *tag, const char *next, bool may_end)
{
    const struct hearth_call_tag *token = tag_at(tags, tag, strlen(tag));
    if (token && token->n == strlen(tag)) {
        hearth_text_format(t, "%s0 ::= .* (<[%d]> %s)%s\n", name, token->token, next, may_end ? "?" : "");
        return;
    }
    uint32_t chars[MAX_CHARS];
    const size_t n = decode(tag, chars);
    for (size_t k = 0; k < n; k++)
        add_step(t, name, chars, n, k, next, may_end);
}

void hearth_call_add_unlike(struct hearth_text *t, const char *name, const char *start)
{
    for (size_t k = 0; start[k]; k++) {
        const uint32_t c = (unsigned char)start[k];
        hearth_text_format(t, "%s%zu ::= (", name, k);
        add_class(t, "[^", c);
        hearth_text_add(t, " .*");
        if (start[k + 1]) {
            add_class(t, " | [", c);
            hearth_text_format(t, " %s%zu", name, k + 1);
        }
        hearth_text_add(t, ")?\n");
    }
}
