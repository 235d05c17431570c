// SPDX-License-Identifier: MIT
// Special tokens in raw text. Longer tokens win over shorter ones wherever they are; then the leftmost wins.
// User-defined tokens are always matched, control and unknown ones only on request. The rules are
// llama.cpp's, but that nothing which looks like a tag is matched in marked text. Of each place the longest token is
// found first, and shorter ones only where that cannot be; so the work hardly grows with the tokens' number and length.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/vocab_impl.h"

// Where a special token may start.
struct place {
    size_t at, clear;   // bytes from there on without marks
    int32_t entry;      // the longest token of the vocabulary's specials that may be there yet
    hearth_token found; // the token that is there, or -1
};

struct splitter {
    const struct hearth_vocab *vocab;
    const char *text;
    size_t n;
    bool control;
    const uint8_t *marks; // [n] where it is not 0, no control token and no tag begins or goes on; or NULL
    struct place *places; // ascending
    size_t n_places, cap_places;
    size_t *queue; // [n_queue] places, a heap: the longest token first, then the leftmost
    size_t n_queue;
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

static void accept(struct splitter *s, struct place *place)
{
    const hearth_token t = s->vocab->specials[place->entry].id;
    size_t start = place->at, end = start + s->vocab->text[t].n;
    place->found = t;
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

// "<|start|>", "<tool_response>", "[INST]": whatever its type in the file, it may structure a chat.
static bool is_tag(const char *s, size_t n)
{
    return n > 2 && ((s[0] == '<' && s[n - 1] == '>') || (s[0] == '[' && s[n - 1] == ']'));
}

// The longest token, of an entry and those that it begins with, that may be at the place; -1: none.
static int32_t longest_allowed(const struct splitter *s, const struct place *p, int32_t entry)
{
    const struct hearth_special *all = s->vocab->specials;
    for (; entry >= 0; entry = all[entry].shorter) {
        entry = s->control && p->clear ? entry : all[entry].user;
        if (entry < 0)
            break;
        const size_t length = s->vocab->text[all[entry].id].n;
        const bool user = s->vocab->type[all[entry].id] == HEARTH_TOKEN_USER;
        if (length <= p->clear || (user && !is_tag(s->text + p->at, length)))
            return entry;
    }
    return -1;
}

static size_t common(const char *a, size_t n_a, const char *b, size_t n_b)
{
    enum { STRIDE = 64 };
    const size_t n = n_a < n_b ? n_a : n_b;
    size_t same = 0;
    while (n - same > STRIDE && !memcmp(a + same, b + same, STRIDE))
        same += STRIDE;
    while (same < n && a[same] == b[same])
        same++;
    return same;
}

// The longest special token at the beginning of a text; -1: none. The last one that is not behind the text in order
// begins with it, as all between would.
static int32_t longest_at(const struct hearth_vocab *v, const char *text, size_t n)
{
    const struct hearth_special *all = v->specials;
    int32_t lo = -1, hi = (int32_t)v->n_specials;
    size_t same_lo = 0;
    while (hi - lo > 1) {
        const int32_t mid = lo + (hi - lo) / 2;
        const struct hearth_str *t = &v->text[all[mid].id];
        const size_t same = common(t->s, t->n, text, n);
        if (same == t->n || (same < n && (uint8_t)t->s[same] < (uint8_t)text[same])) {
            lo = mid;
            same_lo = same;
        } else {
            hi = mid;
        }
    }
    while (lo >= 0 && v->text[all[lo].id].n > same_lo) {
        const int32_t far = all[lo].far;
        lo = far >= 0 && v->text[all[far].id].n > same_lo ? far : all[lo].shorter;
    }
    return lo;
}

static bool add_place(struct splitter *s, struct place p)
{
    if (s->n_places == s->cap_places) {
        s->cap_places = s->cap_places ? s->cap_places * 2 : 64;
        struct place *places = hearth_reallocarray(s->places, s->cap_places, sizeof *places);
        if (!places)
            return false;
        s->places = places;
    }
    s->places[s->n_places++] = p;
    return true;
}

static bool find_places(struct splitter *s)
{
    const bool *starts = s->control ? s->vocab->special_starts : s->vocab->user_starts;
    size_t mark = s->marks ? 0 : s->n; // the first one from i on
    for (size_t i = 0; i < s->n; i++) {
        if (!starts[(uint8_t)s->text[i]])
            continue;
        mark = mark < i ? i : mark;
        while (mark < s->n && !s->marks[mark])
            mark++;
        struct place p = {i, mark == s->n ? SIZE_MAX : mark - i, -1, -1};
        p.entry = longest_allowed(s, &p, longest_at(s->vocab, s->text + i, s->n - i));
        if (p.entry >= 0 && !add_place(s, p))
            return false;
    }
    return true;
}

// ---- the longest first

static bool is_before(const struct splitter *s, size_t a, size_t b)
{
    const struct hearth_special *all = s->vocab->specials;
    const size_t x = s->vocab->text[all[s->places[a].entry].id].n;
    const size_t y = s->vocab->text[all[s->places[b].entry].id].n;
    return x != y ? x > y : a < b;
}

// Moves the item at i of the heap down to where it belongs.
static void sink(struct splitter *s, size_t i)
{
    const size_t item = s->queue[i];
    for (size_t child; (child = 2 * i + 1) < s->n_queue; i = child) {
        child += child + 1 < s->n_queue && is_before(s, s->queue[child + 1], s->queue[child]);
        if (is_before(s, item, s->queue[child]))
            break;
        s->queue[i] = s->queue[child];
    }
    s->queue[i] = item;
}

static void match_all(struct splitter *s)
{
    s->n_queue = s->n_places;
    for (size_t i = 0; i < s->n_places; i++)
        s->queue[i] = i;
    for (size_t i = s->n_queue / 2; i-- > 0;)
        sink(s, i);
    while (s->n_queue) {
        struct place *p = &s->places[s->queue[0]];
        const struct hearth_special *special = &s->vocab->specials[p->entry];
        const size_t end = p->at + s->vocab->text[special->id].n;
        // Earlier matches are at least as long, so an overlap shows at one of the ends.
        if (is_taken(s, p->at))
            p->entry = -1;
        else if (is_taken(s, end - 1))
            p->entry = longest_allowed(s, p, special->shorter);
        else
            accept(s, p);
        if (p->entry < 0 || p->found >= 0)
            s->queue[0] = s->queue[--s->n_queue];
        if (s->n_queue)
            sink(s, 0);
    }
}

// ---- the parts

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
        if (k < s->n_places && s->places[k].found < 0)
            continue;
        size_t end = k < s->n_places ? s->places[k].at : s->n;
        size_t start = at, stop = end;
        while (start < stop && s->taken && is_taken(s, start))
            start++;
        while (stop > start && s->taken && is_taken(s, stop - 1))
            stop--;
        if (stop > start && !append(out, count, &cap, (struct hearth_fragment){start, stop - start, -1}))
            return false;
        if (k == s->n_places)
            break;
        const hearth_token found = s->places[k].found;
        size_t length = s->vocab->text[found].n;
        if (!append(out, count, &cap, (struct hearth_fragment){end, length, found}))
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
    s->queue = hearth_reallocarray(NULL, s->n_places, sizeof *s->queue);
    if (!s->taken || !s->queue)
        return false;
    match_all(s);
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
    free(s.queue);
    free(s.taken);
    if (ok)
        return HEARTH_OK;
    free(*out);
    *out = NULL;
    return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a text of %zu bytes", n);
}

// ---- building

static bool is_special(const struct hearth_vocab *v, uint32_t id)
{
    return v->text[id].n > 0 && v->text[id].n <= UINT32_MAX &&
           (v->type[id] == HEARTH_TOKEN_CONTROL || v->type[id] == HEARTH_TOKEN_USER ||
            v->type[id] == HEARTH_TOKEN_UNKNOWN);
}

struct named {
    struct hearth_str text;
    hearth_token id;
};

static int by_text(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    const size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
    const int c = memcmp(x->text.s, y->text.s, n);
    if (c || x->text.n != y->text.n)
        return c ? c : x->text.n < y->text.n ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static bool begins(const struct hearth_str *s, const struct hearth_str *with)
{
    return s->n >= with->n && !memcmp(s->s, with->s, with->n);
}

// Adds a token behind all others in order, of which `last` is the last one.
static void link_special(struct hearth_vocab *v, const struct named *token)
{
    struct hearth_special *all = v->specials;
    const int32_t own = (int32_t)v->n_specials++;
    int32_t shorter = own - 1;
    while (shorter >= 0 && !begins(&token->text, &v->text[all[shorter].id]))
        shorter = all[shorter].shorter;
    const int32_t far = shorter >= 0 ? all[shorter].far : -1;
    const uint32_t depth = shorter >= 0 ? all[shorter].depth + 1 : 0;
    // Steps to shorter ones double where two of the same size follow each other.
    const bool doubles = far >= 0 && all[far].far >= 0 &&
                         all[shorter].depth - all[far].depth == all[far].depth - all[all[far].far].depth;
    const bool user = v->type[token->id] == HEARTH_TOKEN_USER;
    all[own] = (struct hearth_special){.id = token->id,
                                       .shorter = shorter,
                                       .far = doubles ? all[far].far : shorter,
                                       .user = user           ? own
                                               : shorter >= 0 ? all[shorter].user
                                                              : -1,
                                       .depth = depth};
}

// Of tokens with the same text the first one counts.
static bool list_specials(struct hearth_vocab *v)
{
    struct named *list = hearth_calloc(v->n_tokens, sizeof *list);
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_tokens && list; i++)
        if (is_special(v, i))
            list[n++] = (struct named){v->text[i], (hearth_token)i};
    free(v->specials);
    v->n_specials = 0;
    v->specials = list ? hearth_calloc(n, sizeof *v->specials) : NULL;
    if (v->specials && n)
        qsort(list, n, sizeof *list, by_text);
    for (uint32_t i = 0; i < n && v->specials; i++)
        if (!i || list[i].text.n != list[i - 1].text.n || !begins(&list[i].text, &list[i - 1].text))
            link_special(v, &list[i]);
    free(list);
    return v->specials != NULL;
}

int hearth_special_build(struct hearth_vocab *v, const char *name, struct hearth_error *err)
{
    memset(v->special_starts, 0, sizeof v->special_starts);
    memset(v->user_starts, 0, sizeof v->user_starts);
    if (!list_specials(v))
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the special tokens", name);
    for (uint32_t i = 0; i < v->n_specials; i++) {
        const hearth_token t = v->specials[i].id;
        const uint8_t first = (uint8_t)v->text[t].s[0];
        v->special_starts[first] = true;
        v->user_starts[first] |= v->type[t] == HEARTH_TOKEN_USER;
    }
    return HEARTH_OK;
}
