// SPDX-License-Identifier: MIT
// The methods of Python's strings that templates may call.
#include <string.h>

#include "text/jinja.h"

typedef struct jinja_value value;

static const struct jinja_string *optional(struct jinja *j, const value *v)
{
    return v->type == JINJA_MISSING || v->type == JINJA_NONE ? NULL : hearth_jinja_string_of(j, v);
}

// ---- splitting

static void split_blanks(struct jinja *j, const struct jinja_string *s, int64_t most, struct jinja_list *out)
{
    size_t at = 0, n;
    for (;; most--) {
        while (at < s->n && hearth_jinja_is_space(hearth_jinja_character(s, at, &n)))
            at += n;
        if (at == s->n)
            return;
        if (!most) {
            hearth_jinja_append(j, out, hearth_jinja_part(j, s, at, s->n - at));
            return;
        }
        const size_t start = at;
        while (at < s->n && !hearth_jinja_is_space(hearth_jinja_character(s, at, &n)))
            at += n;
        hearth_jinja_append(j, out, hearth_jinja_part(j, s, start, at - start));
    }
}

static void split_at(struct jinja *j, const struct jinja_string *s, const struct jinja_string *sep,
                     int64_t most, struct jinja_list *out)
{
    size_t start = 0;
    for (; most; most--) {
        const size_t at = hearth_jinja_search(j, s, sep, start);
        if (at == SIZE_MAX)
            break;
        hearth_jinja_append(j, out, hearth_jinja_part(j, s, start, at - start));
        start = at + sep->n;
    }
    hearth_jinja_append(j, out, hearth_jinja_part(j, s, start, s->n - start));
}

static void reverse(struct jinja_list *list)
{
    for (size_t i = 0; i < list->n / 2; i++) {
        const value v = list->v[i];
        list->v[i] = list->v[list->n - 1 - i];
        list->v[list->n - 1 - i] = v;
    }
}

// The last parts first.
static void split_back(struct jinja *j, const struct jinja_string *s, const struct jinja_string *sep,
                       int64_t most, struct jinja_list *out)
{
    size_t end = s->n;
    for (; most; most--) {
        hearth_jinja_work(j, end / 8);
        const size_t at = hearth_jinja_search_last(j, s, sep, end);
        if (at == SIZE_MAX)
            break;
        hearth_jinja_append(j, out, hearth_jinja_part(j, s, at + sep->n, end - at - sep->n));
        end = at;
    }
    hearth_jinja_append(j, out, hearth_jinja_part(j, s, 0, end));
    reverse(out);
}

// From the end, words of a text that blanks separate.
static void split_blanks_back(struct jinja *j, const struct jinja_string *s, int64_t most,
                              struct jinja_list *out)
{
    value all = hearth_jinja_list(j, JINJA_PLAIN);
    split_blanks(j, s, -1, all.u.list);
    const size_t n = all.u.list->n, keep = most < 0 || (size_t)most >= n ? n : (size_t)most;
    if (keep < n) {
        const struct jinja_string *last = all.u.list->v[n - keep - 1].u.s;
        hearth_jinja_append(j, out, hearth_jinja_part(j, s, 0, (size_t)(last->s + last->n - s->s)));
    }
    for (size_t i = n - keep; i < n; i++)
        hearth_jinja_append(j, out, all.u.list->v[i]);
}

static value split_with(struct jinja *j, const value *self, const struct jinja_args *args, bool back)
{
    value a[2];
    hearth_jinja_bind(j, "split()", args, "sep maxsplit", 0, a);
    const struct jinja_string *s = self->u.s, *sep = optional(j, &a[0]);
    const int64_t most = hearth_jinja_int_or(j, &a[1], -1);
    const value out = hearth_jinja_list(j, JINJA_PLAIN);
    hearth_jinja_work(j, s->n / 8);
    if (sep && !sep->n)
        hearth_jinja_fail(j, "empty separator");
    if (sep && back)
        split_back(j, s, sep, most, out.u.list);
    else if (sep)
        split_at(j, s, sep, most, out.u.list);
    else if (back)
        split_blanks_back(j, s, most, out.u.list);
    else
        split_blanks(j, s, most, out.u.list);
    return out;
}

static value split(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return split_with(j, self, args, false);
}

static value rsplit(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return split_with(j, self, args, true);
}

static bool ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static value splitlines(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value keep;
    hearth_jinja_bind(j, "splitlines()", args, "keepends", 0, &keep);
    const struct jinja_string *s = self->u.s;
    const value out = hearth_jinja_list(j, JINJA_PLAIN);
    size_t start = 0, n;
    for (size_t i = 0; i < s->n; i += n) {
        if (!ends_line(hearth_jinja_character(s, i, &n)))
            continue;
        if (s->s[i] == '\r' && i + 1 < s->n && s->s[i + 1] == '\n')
            n = 2;
        const size_t end = hearth_jinja_bool_or(&keep, false) ? i + n : i;
        hearth_jinja_append(j, out.u.list, hearth_jinja_part(j, s, start, end - start));
        start = i + n;
    }
    if (start < s->n)
        hearth_jinja_append(j, out.u.list, hearth_jinja_part(j, s, start, s->n - start));
    return out;
}

static value partition_with(struct jinja *j, const value *self, const struct jinja_args *args, bool back)
{
    value a;
    hearth_jinja_bind(j, "partition()", args, "sep", 1, &a);
    const struct jinja_string *s = self->u.s, *sep = hearth_jinja_string_of(j, &a);
    if (!sep->n)
        hearth_jinja_fail(j, "empty separator");
    const size_t at = back ? hearth_jinja_search_last(j, s, sep, s->n) : hearth_jinja_search(j, s, sep, 0);
    const value out = hearth_jinja_list(j, JINJA_TUPLE), nothing = hearth_jinja_literal(j, "");
    hearth_jinja_work(j, s->n / 8);
    if (at == SIZE_MAX) {
        hearth_jinja_append(j, out.u.list, back ? nothing : *self);
        hearth_jinja_append(j, out.u.list, nothing);
        hearth_jinja_append(j, out.u.list, back ? *self : nothing);
        return out;
    }
    hearth_jinja_append(j, out.u.list, hearth_jinja_part(j, s, 0, at));
    hearth_jinja_append(j, out.u.list, hearth_jinja_part(j, s, at, sep->n));
    hearth_jinja_append(j, out.u.list, hearth_jinja_part(j, s, at + sep->n, s->n - at - sep->n));
    return out;
}

static value partition(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return partition_with(j, self, args, false);
}

static value rpartition(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return partition_with(j, self, args, true);
}

// ---- the ends

static value strip_with(struct jinja *j, const value *self, const struct jinja_args *args, bool left,
                        bool right)
{
    value chars;
    hearth_jinja_bind(j, "strip()", args, "chars", 0, &chars);
    return hearth_jinja_strip(j, self->u.s, optional(j, &chars), left, right);
}

static value strip(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return strip_with(j, self, args, true, true);
}

static value lstrip(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return strip_with(j, self, args, true, false);
}

static value rstrip(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return strip_with(j, self, args, false, true);
}

static bool has_end(const struct jinja_string *s, const struct jinja_string *end, bool left)
{
    return end->n <= s->n && !memcmp(left ? s->s : s->s + s->n - end->n, end->s, end->n);
}

// The characters [start, end) of a string, as the arguments of many methods say.
static struct jinja_string window(struct jinja *j, const struct jinja_string *s, const value *start,
                                  const value *end)
{
    const value self = {.type = JINJA_STRING, .u.s = s}, none = hearth_jinja_none();
    if (start->type == JINJA_MISSING && end->type == JINJA_MISSING)
        return *s;
    return *hearth_jinja_slice(j, &self, start, end, &none).u.s;
}

static value has_end_with(struct jinja *j, const value *self, const struct jinja_args *args, bool left)
{
    value a[3];
    hearth_jinja_bind(j, left ? "startswith()" : "endswith()", args, "prefix start end", 1, a);
    const struct jinja_string s = window(j, self->u.s, &a[1], &a[2]);
    if (a[0].type != JINJA_LIST)
        return hearth_jinja_bool(has_end(&s, hearth_jinja_string_of(j, &a[0]), left));
    for (size_t i = 0; i < a[0].u.list->n; i++)
        if (has_end(&s, hearth_jinja_string_of(j, &a[0].u.list->v[i]), left))
            return hearth_jinja_bool(true);
    return hearth_jinja_bool(false);
}

static value startswith(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return has_end_with(j, self, args, true);
}

static value endswith(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return has_end_with(j, self, args, false);
}

static value removeprefix(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a;
    hearth_jinja_bind(j, "removeprefix()", args, "prefix", 1, &a);
    const struct jinja_string *s = self->u.s, *end = hearth_jinja_string_of(j, &a);
    return has_end(s, end, true) ? hearth_jinja_part(j, s, end->n, s->n - end->n) : *self;
}

static value removesuffix(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a;
    hearth_jinja_bind(j, "removesuffix()", args, "suffix", 1, &a);
    const struct jinja_string *s = self->u.s, *end = hearth_jinja_string_of(j, &a);
    return has_end(s, end, false) ? hearth_jinja_part(j, s, 0, s->n - end->n) : *self;
}

// ---- places

static value find_with(struct jinja *j, const value *self, const struct jinja_args *args, bool back,
                       bool must)
{
    value a[3];
    hearth_jinja_bind(j, "find()", args, "sub start end", 1, a);
    const struct jinja_string s = window(j, self->u.s, &a[1], &a[2]),
                              *text = hearth_jinja_string_of(j, &a[0]);
    const size_t at = back ? hearth_jinja_search_last(j, &s, text, s.n) : hearth_jinja_search(j, &s, text, 0);
    hearth_jinja_work(j, s.n / 8);
    if (at == SIZE_MAX && must)
        hearth_jinja_fail(j, "substring not found");
    if (at == SIZE_MAX)
        return hearth_jinja_int(-1);
    const struct jinja_string before = {.s = self->u.s->s, .n = (size_t)(s.s - self->u.s->s) + at};
    return hearth_jinja_int((int64_t)hearth_jinja_length(&before));
}

static value find(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return find_with(j, self, args, false, false);
}

static value rfind(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return find_with(j, self, args, true, false);
}

static value index_of(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return find_with(j, self, args, false, true);
}

static value rindex_of(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return find_with(j, self, args, true, true);
}

static value count(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[3];
    hearth_jinja_bind(j, "count()", args, "sub start end", 1, a);
    const struct jinja_string s = window(j, self->u.s, &a[1], &a[2]),
                              *text = hearth_jinja_string_of(j, &a[0]);
    int64_t n = 0;
    hearth_jinja_work(j, s.n / 8);
    if (!text->n)
        return hearth_jinja_int((int64_t)hearth_jinja_length(&s) + 1);
    for (size_t at = 0; (at = hearth_jinja_search(j, &s, text, at)) != SIZE_MAX; at += text->n)
        n++;
    return hearth_jinja_int(n);
}

// ---- other texts

static value replace_empty(struct jinja *j, const struct jinja_string *s, const struct jinja_string *with,
                           int64_t most)
{
    struct jinja_builder b = {.j = j};
    size_t n;
    for (size_t at = 0; at < s->n; at += n, most--) {
        if (most)
            hearth_jinja_put_string(&b, with);
        hearth_jinja_character(s, at, &n);
        hearth_jinja_put_part(&b, s, at, n);
        if (!most)
            most++;
    }
    if (most)
        hearth_jinja_put_string(&b, with);
    return hearth_jinja_built(&b);
}

static value replace(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a[3];
    hearth_jinja_bind(j, "replace()", args, "old new count", 2, a);
    const struct jinja_string *s = self->u.s, *old = hearth_jinja_string_of(j, &a[0]),
                              *with = hearth_jinja_string_of(j, &a[1]);
    int64_t most = a[2].type == JINJA_NONE ? -1 : hearth_jinja_int_or(j, &a[2], -1);
    struct jinja_builder b = {.j = j};
    size_t start = 0;
    if (!old->n)
        return replace_empty(j, s, with, most);
    hearth_jinja_work(j, s->n / 8);
    for (; most; most--) {
        const size_t at = hearth_jinja_search(j, s, old, start);
        if (at == SIZE_MAX)
            break;
        hearth_jinja_put_part(&b, s, start, at - start);
        hearth_jinja_put_string(&b, with);
        hearth_jinja_work(j, 1);
        start = at + old->n;
    }
    if (!start)
        return *self;
    hearth_jinja_put_part(&b, s, start, s->n - start);
    return hearth_jinja_built(&b);
}

static value join(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a;
    hearth_jinja_bind(j, "join()", args, "iterable", 1, &a);
    const struct jinja_list *items = hearth_jinja_items(j, &a);
    struct jinja_builder b = {.j = j};
    for (size_t i = 0; i < items->n; i++) {
        if (i)
            hearth_jinja_put_string(&b, self->u.s);
        if (items->v[i].type != JINJA_STRING)
            hearth_jinja_fail(j, "sequence item %zu: expected str instance, %s found", i,
                              hearth_jinja_type(&items->v[i]));
        hearth_jinja_put_string(&b, items->v[i].u.s);
    }
    return hearth_jinja_built(&b);
}

static value upper(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "upper()", args, "", 0, NULL);
    return hearth_jinja_case(j, self->u.s, JINJA_UPPER);
}

static value lower(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "lower()", args, "", 0, NULL);
    return hearth_jinja_case(j, self->u.s, JINJA_LOWER);
}

static value title(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "title()", args, "", 0, NULL);
    return hearth_jinja_case(j, self->u.s, JINJA_TITLE);
}

static value capitalize(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "capitalize()", args, "", 0, NULL);
    return hearth_jinja_case(j, self->u.s, JINJA_CAPITALIZE);
}

static value swapcase(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "swapcase()", args, "", 0, NULL);
    return hearth_jinja_case(j, self->u.s, JINJA_SWAP);
}

static value format(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return hearth_jinja_format(j, self->u.s, args);
}

// Filled up to a width, `before` and `after` of what is missing for each.
static value fill(struct jinja *j, const value *self, const struct jinja_args *args, int sides)
{
    value a[2];
    hearth_jinja_bind(j, "ljust(), rjust() and center()", args, "width fillchar", 1, a);
    const int64_t n = (int64_t)hearth_jinja_length(self->u.s), width = hearth_jinja_int_or(j, &a[0], 0);
    const value blank = hearth_jinja_literal(j, " ");
    const struct jinja_string *c = a[1].type == JINJA_MISSING ? blank.u.s : hearth_jinja_string_of(j, &a[1]);
    if (hearth_jinja_length(c) != 1)
        hearth_jinja_fail(j, "the fill character must be exactly one character long");
    if (width <= n)
        return *self;
    const int64_t missing = width - n;
    // Python puts the odd one to the left when the width is odd
    const int64_t before = sides == 0 ? 0 : sides == 1 ? missing : missing / 2 + (missing & width & 1);
    struct jinja_builder b = {.j = j};
    for (int64_t i = 0; i < missing; i++) {
        if (i == before)
            hearth_jinja_put_string(&b, self->u.s);
        hearth_jinja_put_string(&b, c);
        hearth_jinja_work(j, 1);
    }
    if (before == missing)
        hearth_jinja_put_string(&b, self->u.s);
    return hearth_jinja_built(&b);
}

static value ljust(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return fill(j, self, args, 0);
}

static value rjust(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return fill(j, self, args, 1);
}

static value center(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return fill(j, self, args, 2);
}

static value zfill(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value a;
    hearth_jinja_bind(j, "zfill()", args, "width", 1, &a);
    const struct jinja_string *s = self->u.s;
    const size_t sign = s->n && (s->s[0] == '-' || s->s[0] == '+');
    struct jinja_builder b = {.j = j};
    hearth_jinja_put_part(&b, s, 0, sign);
    for (int64_t i = (int64_t)hearth_jinja_length(s); i < hearth_jinja_int_or(j, &a, 0); i++) {
        hearth_jinja_put_literal(&b, "0");
        hearth_jinja_work(j, 1);
    }
    hearth_jinja_put_part(&b, s, sign, s->n - sign);
    return hearth_jinja_built(&b);
}

// ---- questions

enum { DIGIT, ALPHA, ALNUM, SPACE, UPPER, LOWER };

static bool is_kind(uint32_t c, int kind)
{
    const bool digit = c >= '0' && c <= '9';
    switch (kind) {
    case DIGIT:
        return digit;
    case ALPHA:
        return hearth_jinja_is_letter(c);
    case ALNUM:
        return digit || hearth_jinja_is_letter(c);
    default:
        return hearth_jinja_is_space(c);
    }
}

static value all_are(const value *self, int kind)
{
    size_t n;
    for (size_t i = 0; i < self->u.s->n; i += n)
        if (!is_kind(hearth_jinja_character(self->u.s, i, &n), kind))
            return hearth_jinja_bool(false);
    return hearth_jinja_bool(self->u.s->n > 0);
}

static value case_is(const value *self, bool upper_case)
{
    bool any = false;
    size_t n;
    for (size_t i = 0; i < self->u.s->n; i += n) {
        const uint32_t c = hearth_jinja_character(self->u.s, i, &n);
        const bool is_upper = hearth_jinja_lower(c) != c, is_lower = hearth_jinja_upper(c) != c;
        if (upper_case ? is_lower : is_upper)
            return hearth_jinja_bool(false);
        any |= upper_case ? is_upper : is_lower;
    }
    return hearth_jinja_bool(any);
}

#define QUESTION(name, answer)                                                                               \
    static value name(struct jinja *j, const value *self, const struct jinja_args *args)                     \
    {                                                                                                        \
        hearth_jinja_bind(j, #name "()", args, "", 0, NULL);                                                 \
        hearth_jinja_work(j, self->u.s->n / 16);                                                             \
        return answer;                                                                                       \
    }
QUESTION(isdigit_, all_are(self, DIGIT))
QUESTION(isalpha_, all_are(self, ALPHA))
QUESTION(isalnum_, all_are(self, ALNUM))
QUESTION(isspace_, all_are(self, SPACE))
QUESTION(isupper_, case_is(self, true))
QUESTION(islower_, case_is(self, false))

jinja_fn hearth_jinja_string_method(const struct jinja_string *name)
{
    static const struct jinja_named table[] = {
        {"split", split},
        {"strip", strip},
        {"lstrip", lstrip},
        {"rstrip", rstrip},
        {"startswith", startswith},
        {"endswith", endswith},
        {"replace", replace},
        {"upper", upper},
        {"lower", lower},
        {"title", title},
        {"capitalize", capitalize},
        {"join", join},
        {"format", format},
        {"find", find},
        {"rfind", rfind},
        {"index", index_of},
        {"rindex", rindex_of},
        {"count", count},
        {"rsplit", rsplit},
        {"splitlines", splitlines},
        {"partition", partition},
        {"rpartition", rpartition},
        {"removeprefix", removeprefix},
        {"removesuffix", removesuffix},
        {"casefold", lower},
        {"swapcase", swapcase},
        {"ljust", ljust},
        {"rjust", rjust},
        {"center", center},
        {"zfill", zfill},
        {"isdigit", isdigit_},
        {"isdecimal", isdigit_},
        {"isnumeric", isdigit_},
        {"isalpha", isalpha_},
        {"isalnum", isalnum_},
        {"isspace", isspace_},
        {"isupper", isupper_},
        {"islower", islower_},
    };
    return hearth_jinja_named(table, sizeof table / sizeof table[0], name);
}
