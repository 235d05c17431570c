// SPDX-License-Identifier: MIT
// Special tokens in raw text. Longer tokens win over shorter ones wherever they are; then the leftmost wins.
// User-defined tokens are always matched, control and unknown ones only on request. The rules are
// llama.cpp's, but that nothing which looks like a tag is matched in marked text. The search looks only at
// places where some special token could start.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/vocab_impl.h"

struct splitter {
    const struct hearth_vocab *vocab;
    const char *text;
    size_t n;
    bool control;
    const uint8_t *marks; // [n] where it is not 0, no control token and no tag begins or goes on; or NULL
    size_t *places;       // where a special token may start, ascending
    hearth_token *found;  // [n_places] the token that does, or -1
    size_t n_places, cap_places;
    uint8_t *taken; // one bit per byte: part of a match, or of white space that a match swallowed
};

static bool is_taken(const struct splitter *s, size_t i)
{
    return s->taken[i >> 3] >> (i & 7) & 1;
}

static void take(struct splitter *s, size_t i)
{
    s->taken[i >> 3] |= (uint8_t)(1u << (i & 7));
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void accept(struct splitter *s, size_t place, hearth_token t, size_t length)
{
    size_t start = s->places[place], end = start + length;
    s->found[place] = t;
    for (size_t i = start; i < end; i++)
        take(s, i);
    if (s->vocab->flags[t] & HEARTH_TOKEN_LSTRIP) {
        for (size_t i = start; i > 0 && !is_taken(s, i - 1) && is_space(s->text[i - 1]); i--)
            take(s, i - 1);
    }
    if (s->vocab->flags[t] & HEARTH_TOKEN_RSTRIP) {
        for (size_t i = end; i < s->n && !is_taken(s, i) && is_space(s->text[i]); i++)
            take(s, i);
    }
}

static bool is_marked(const struct splitter *s, size_t start, size_t length)
{
    for (size_t i = start; s->marks && i < start + length; i++)
        if (s->marks[i])
            return true;
    return false;
}

// "<|start|>", "<tool_response>", "[INST]": whatever its type in the file, it may structure a chat.
static bool is_tag(const char *s, size_t n)
{
    return n > 2 && ((s[0] == '<' && s[n - 1] == '>') || (s[0] == '[' && s[n - 1] == ']'));
}

static bool may_be(const struct splitter *s, hearth_token t, size_t start, size_t length)
{
    if (s->vocab->type[t] == HEARTH_TOKEN_USER)
        return !is_tag(s->text + start, length) || !is_marked(s, start, length);
    return s->control && !is_marked(s, start, length);
}

static void match_group(struct splitter *s, const struct hearth_special_group *g)
{
    const struct hearth_vocab *v = s->vocab;
    for (size_t k = 0; k < s->n_places; k++) {
        size_t start = s->places[k];
        if (g->length > s->n - start || !g->starts[(uint8_t)s->text[start]])
            continue;
        // Earlier matches are at least as long, so an overlap shows at one of the ends.
        if (is_taken(s, start) || is_taken(s, start + g->length - 1))
            continue;
        hearth_token t = hearth_strtab_find(&v->by_special, s->text + start, g->length);
        if (t >= 0 && may_be(s, t, start, g->length))
            accept(s, k, t, g->length);
    }
}

static bool find_places(struct splitter *s)
{
    const bool *starts = s->control ? s->vocab->special_starts : s->vocab->user_starts;
    for (size_t i = 0; i < s->n; i++) {
        if (!starts[(uint8_t)s->text[i]])
            continue;
        if (s->n_places == s->cap_places) {
            s->cap_places = s->cap_places ? s->cap_places * 2 : 64;
            size_t *places = hearth_reallocarray(s->places, s->cap_places, sizeof *places);
            if (!places)
                return false;
            s->places = places;
        }
        s->places[s->n_places++] = i;
    }
    return true;
}

static bool append(struct hearth_fragment **f, size_t *count, size_t *cap, struct hearth_fragment next)
{
    if (*count == *cap) {
        *cap = *cap ? *cap * 2 : 8;
        struct hearth_fragment *larger = hearth_reallocarray(*f, *cap, sizeof *larger);
        if (!larger)
            return false;
        *f = larger;
    }
    (*f)[(*count)++] = next;
    return true;
}

// Raw text is what no match took. It ends at a match. Swallowed white space always touches a
// match, so it ends raw text too.
static bool collect(const struct splitter *s, struct hearth_fragment **out, size_t *count)
{
    size_t cap = 0, at = 0;
    for (size_t k = 0; k <= s->n_places; k++) {
        if (k < s->n_places && s->found[k] < 0)
            continue;
        size_t end = k < s->n_places ? s->places[k] : s->n;
        size_t start = at, stop = end;
        while (start < stop && s->taken && is_taken(s, start))
            start++;
        while (stop > start && s->taken && is_taken(s, stop - 1))
            stop--;
        if (stop > start && !append(out, count, &cap, (struct hearth_fragment){start, stop - start, -1}))
            return false;
        if (k == s->n_places)
            break;
        size_t length = s->vocab->text[s->found[k]].n;
        if (!append(out, count, &cap, (struct hearth_fragment){end, length, s->found[k]}))
            return false;
        at = end + length;
    }
    return true;
}

static bool search(struct splitter *s)
{
    if (!find_places(s))
        return false;
    if (s->n_places == 0)
        return true;
    s->taken = hearth_calloc(s->n / 8 + 1, 1);
    s->found = hearth_reallocarray(NULL, s->n_places, sizeof *s->found);
    if (!s->taken || !s->found)
        return false;
    for (size_t k = 0; k < s->n_places; k++)
        s->found[k] = -1;
    for (uint32_t g = 0; g < s->vocab->n_groups; g++) {
        if (s->control || s->vocab->groups[g].any_user)
            match_group(s, &s->vocab->groups[g]);
    }
    return true;
}

int hearth_special_split(const struct hearth_vocab *v, const char *text, size_t n, bool control,
                         const uint8_t *marks, struct hearth_fragment **out, size_t *count,
                         struct hearth_error *err)
{
    struct splitter s = {.vocab = v, .text = text, .n = n, .control = control, .marks = marks};
    *out = NULL;
    *count = 0;
    bool ok = search(&s) && collect(&s, out, count);
    free(s.places);
    free(s.found);
    free(s.taken);
    if (ok)
        return HEARTH_OK;
    free(*out);
    *out = NULL;
    return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a text of %zu bytes", n);
}

// ---- building

static int longest_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static bool is_special(const struct hearth_vocab *v, uint32_t id)
{
    return v->text[id].n > 0 && v->text[id].n <= UINT32_MAX &&
           (v->type[id] == HEARTH_TOKEN_CONTROL || v->type[id] == HEARTH_TOKEN_USER ||
            v->type[id] == HEARTH_TOKEN_UNKNOWN);
}

static bool make_groups(struct hearth_vocab *v)
{
    uint32_t *lengths = hearth_calloc(v->n_tokens, sizeof *lengths);
    if (!lengths)
        return false;
    uint32_t n = 0, distinct = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (is_special(v, i))
            lengths[n++] = (uint32_t)v->text[i].n;
    }
    if (n)
        qsort(lengths, n, sizeof *lengths, longest_first);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || lengths[i] != lengths[i - 1])
            lengths[distinct++] = lengths[i];
    }
    free(v->groups);
    v->groups = hearth_calloc(distinct, sizeof *v->groups);
    v->n_groups = v->groups ? distinct : 0;
    for (uint32_t g = 0; g < v->n_groups; g++)
        v->groups[g].length = lengths[g];
    free(lengths);
    return v->groups != NULL;
}

static struct hearth_special_group *group_of(struct hearth_vocab *v, size_t length)
{
    uint32_t lo = 0, hi = v->n_groups;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (v->groups[mid].length >= length)
            lo = mid;
        else
            hi = mid;
    }
    return &v->groups[lo];
}

int hearth_special_build(struct hearth_vocab *v, const char *name, struct hearth_error *err)
{
    uint64_t seed = v->by_piece.seed;
    hearth_strtab_free(&v->by_special);
    v->by_special.keys = v->text;
    v->by_special.seed = seed;
    memset(v->special_starts, 0, sizeof v->special_starts);
    memset(v->user_starts, 0, sizeof v->user_starts);
    bool ok = make_groups(v);
    for (uint32_t i = 0; ok && i < v->n_tokens; i++) {
        if (!is_special(v, i))
            continue;
        ok = hearth_strtab_insert(&v->by_special, (int32_t)i);
        uint8_t first = (uint8_t)v->text[i].s[0];
        struct hearth_special_group *g = group_of(v, v->text[i].n);
        g->starts[first] = true;
        v->special_starts[first] = true;
        if (v->type[i] == HEARTH_TOKEN_USER) {
            g->any_user = true;
            v->user_starts[first] = true;
        }
    }
    return ok ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the special tokens", name);
}
