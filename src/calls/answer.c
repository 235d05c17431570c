// SPDX-License-Identifier: MIT
// The states of an answer. Each looks at the text that is held, takes what it is sure of, and says whether it
// got on or needs more.
#include "calls/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "calls/fields.h"
#include "calls/object.h"
#include "calls/scan.h"

enum state {
    START,     // perhaps thoughts begin
    REASONING, // until their tag
    TEXT,      // content, until a call
    OBJECT,    // at the object of a call
    NAME,      // at a call's name
    FIELD,     // at an argument in tags, or behind the last one
    ARGUMENTS, // within arguments
    MARKED,    // within arguments with plain keys and marks round texts
    QUOTED,    // within arguments that are written as a JSON string
    REST,      // behind arguments, within the object
    CALLED,    // behind a call
    HEADER,    // harmony: between messages
    MESSAGE    // harmony: within one
};

enum { MAX_HEADER = 1 << 14, MAX_TAG = HEARTH_CALLS_PART };

struct hearth_answer {
    struct hearth_answer_params p;
    hearth_answer_fn fn;
    void *arg;

    char *text; // [cap] what has not been handed out: [at, n)
    size_t at, n, cap;
    bool ended; // nothing more comes

    enum state state;
    const char *think_end;
    bool fresh;                   // nothing but white space was handed out since the state began
    bool called;                  // behind a call: white space before the next one is none of the content
    struct hearth_call_scan scan; // MARKED: brackets that are open, and whether it is in a text
    const json_t *parameters;     // FIELD: the schema of the function's
    int n_fields;                 // FIELD: arguments so far
    bool failed;                  // there was no memory
    int nest;                     // brackets that are open round the arguments
    int n_calls;
    enum hearth_answer_kind message; // harmony: what the message is
    bool complete;                   // harmony: the arguments are at their end
};

static const struct {
    const char *open, *close;
} thoughts[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought", "<channel|>"},
};
enum { N_THOUGHTS = sizeof thoughts / sizeof *thoughts };

// ---- handing out

static void hand_out(struct hearth_answer *a, enum hearth_answer_kind kind, const char *s, size_t n)
{
    const struct hearth_answer_part part = {kind, kind >= HEARTH_ANSWER_CALL ? a->n_calls - 1 : 0, s, n};
    if (n || kind == HEARTH_ANSWER_CALL_END)
        a->fn(a->arg, &part);
}

// The next n bytes are text of this kind. White space at its end waits for what follows.
static void take_text(struct hearth_answer *a, enum hearth_answer_kind kind, size_t n)
{
    const char *s = a->text + a->at;
    if (a->fresh) {
        const size_t blank = hearth_call_skip(s, n, 0);
        s += blank;
        n -= blank;
        a->at += blank;
        a->fresh = !n;
    }
    hand_out(a, kind, s, n);
    a->at += n;
}

static size_t without_blanks(const char *s, size_t n)
{
    while (n && hearth_call_is_space(s[n - 1]))
        n--;
    return n;
}

static void begin_call(struct hearth_answer *a, const char *name, size_t n)
{
    a->n_calls++;
    hand_out(a, HEARTH_ANSWER_CALL, name, n);
}

// ---- tags

enum match { NO, PERHAPS, YES };

// Whether the text at `at` begins with a tag.
static enum match match(const struct hearth_answer *a, size_t at, const char *tag)
{
    const size_t n = strlen(tag), have = a->n - at;
    if (!n || memcmp(a->text + at, tag, n < have ? n : have) != 0)
        return NO;
    return have >= n ? YES : a->ended ? NO : PERHAPS;
}

// The same with the white space at both ends of a part of the format left out.
static enum match match_part(const struct hearth_answer *a, size_t at, const char *part, size_t *n)
{
    char tag[MAX_TAG];
    const size_t start = hearth_call_skip(part, strlen(part), 0),
                 end = without_blanks(part + start, strlen(part + start));
    memcpy(tag, part + start, end);
    tag[end] = '\0';
    *n = end;
    return match(a, at, tag);
}

// The first place that is or may become a tag; a->n: there is none.
static size_t find_tag(const struct hearth_answer *a, const char *tag, enum match *how)
{
    *how = NO;
    if (!tag[0])
        return a->n;
    for (size_t at = a->at; at < a->n; at++) {
        const char *first = memchr(a->text + at, tag[0], a->n - at);
        if (!first)
            break;
        at = (size_t)(first - a->text);
        if ((*how = match(a, at, tag)))
            return at;
    }
    return a->n;
}

// ---- thoughts and content

static bool at_start(struct hearth_answer *a)
{
    const size_t at = hearth_call_skip(a->text, a->n, a->at);
    if (at == a->n && !a->ended)
        return false;
    for (int i = 0; i < N_THOUGHTS; i++) {
        const enum match how = match(a, at, thoughts[i].open);
        if (how == PERHAPS)
            return false;
        if (how == NO)
            continue;
        a->at = at + strlen(thoughts[i].open);
        a->think_end = thoughts[i].close;
        a->state = REASONING;
        a->fresh = true;
        return true;
    }
    a->state = TEXT;
    return true;
}

static bool at_reasoning(struct hearth_answer *a)
{
    enum match how;
    const size_t tag = find_tag(a, a->think_end, &how);
    take_text(a, HEARTH_ANSWER_REASONING, without_blanks(a->text + a->at, tag - a->at));
    if (how != YES)
        return false;
    a->at = tag + strlen(a->think_end);
    a->state = TEXT;
    a->fresh = true;
    return true;
}

// Where a call without a tag may begin: at the first byte that is no white space.
static bool at_bare_object(const struct hearth_answer *a, size_t *at)
{
    *at = hearth_call_skip(a->text, a->n, a->at);
    return a->fresh && *at < a->n && a->text[*at] == '{';
}

static bool at_text(struct hearth_answer *a)
{
    const struct hearth_call_format *f = a->p.format;
    enum match how = NO;
    size_t at = a->n;
    if (a->p.calls && f->trigger[0]) {
        at = find_tag(a, f->trigger, &how);
    } else if (a->p.calls) {
        static const char python[] = "<|python_tag|>";
        size_t object;
        if (at_bare_object(a, &object)) { // whatever tag may follow
            a->at = object;
            a->state = OBJECT;
            return true;
        }
        at = find_tag(a, python, &how);
    }
    const size_t n = without_blanks(a->text + a->at, at - a->at);
    if (n && a->called)
        a->called = false;
    take_text(a, HEARTH_ANSWER_CONTENT, n);
    if (how != YES) {
        if (a->ended && !a->called && !a->fresh) // white space that no call follows
            take_text(a, HEARTH_ANSWER_CONTENT, a->n - a->at);
        return false;
    }
    a->at = at + (f->trigger[0] ? strlen(f->trigger) : strlen("<|python_tag|>"));
    a->state = CALLED; // before the first call is like behind one
    return true;
}

// ---- calls

// Hands out what a JSON string says, the string being arguments that are written as one. Returns the bytes
// read: all up to the quote that ends it, or to an escape that is not all there.
static size_t hand_out_unquoted(struct hearth_answer *a, const char *s, size_t n, bool *ended)
{
    size_t at = 0;
    *ended = false;
    while (at < n && !*ended) {
        size_t plain = at;
        while (plain < n && s[plain] != '"' && s[plain] != '\\')
            plain++;
        hand_out(a, HEARTH_ANSWER_ARGUMENTS, s + at, plain - at);
        at = plain;
        *ended = at < n && s[at] == '"';
        if (at < n && s[at] == '\\') {
            char text[4];
            size_t n_text;
            const size_t used = hearth_call_unescape(s + at, n - at, text, &n_text);
            if (!used)
                break;
            hand_out(a, HEARTH_ANSWER_ARGUMENTS, text, n_text);
            at += used;
        }
    }
    return at + *ended;
}

// The tag was none: what follows is content.
static bool no_call(struct hearth_answer *a)
{
    a->state = TEXT;
    a->fresh = false;
    return true;
}

static bool is_known(const struct hearth_answer *a, const char *name, size_t n)
{
    bool known = !a->p.names;
    for (size_t i = 0; i < a->p.n_names && !known; i++)
        known = strlen(a->p.names[i]) == n && !memcmp(a->p.names[i], name, n);
    return known;
}

static bool at_object(struct hearth_answer *a)
{
    struct hearth_call_object o;
    const char *s = a->text + a->at;
    const bool bare = !a->p.format->trigger[0];
    const size_t n = a->n - a->at;
    const enum hearth_object_status status = hearth_call_object_read(&o, s, n < MAX_HEADER ? n : MAX_HEADER);
    if (status == HEARTH_OBJECT_PARTIAL && !a->ended && n < MAX_HEADER)
        return false;
    if (status != HEARTH_OBJECT_CALL || (bare && !is_known(a, o.name, o.n_name))) {
        if (!bare)
            return no_call(a);
        take_text(a, HEARTH_ANSWER_CONTENT, 1); // the bracket, so that it is not tried again
        return no_call(a);
    }
    begin_call(a, o.name, o.n_name);
    a->nest = o.nest;
    if (o.n_arguments) {
        bool ended;
        if (o.arguments[0] == '"')
            hand_out_unquoted(a, o.arguments + 1, o.n_arguments - 1, &ended);
        else
            hand_out(a, HEARTH_ANSWER_ARGUMENTS, o.arguments, o.n_arguments);
        a->state = REST;
    } else if (o.none) {
        hand_out(a, HEARTH_ANSWER_ARGUMENTS, "{}", 2);
        a->state = REST;
    } else if (s[o.used] == '"') {
        a->state = QUOTED;
        o.used++;
    } else {
        a->scan = (struct hearth_call_scan){0};
        a->state = ARGUMENTS;
    }
    a->at += o.used;
    return true;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

// ---- calls with arguments in tags

static bool begin_fields(struct hearth_answer *a, size_t name, size_t end)
{
    if (end == a->n && !a->ended)
        return false;
    if (end == name)
        return no_call(a);
    begin_call(a, a->text + name, end - name);
    a->parameters = hearth_call_parameters(a->p.tools, a->text + name, end - name);
    a->n_fields = 0;
    a->at = end;
    a->state = FIELD;
    return true;
}

static void end_fields(struct hearth_answer *a)
{
    hand_out(a, HEARTH_ANSWER_ARGUMENTS, a->n_fields ? "}" : "{}", a->n_fields ? 1 : 2);
    hand_out(a, HEARTH_ANSWER_CALL_END, NULL, 0);
    a->state = CALLED;
    a->called = true;
}

// The place of a part of the format from a place on; SIZE_MAX: it is not there.
static size_t find_part(const struct hearth_answer *a, size_t from, const char *part, size_t *n)
{
    const size_t start = hearth_call_skip(part, strlen(part), 0);
    *n = without_blanks(part + start, strlen(part + start));
    const char *at = from < a->n ? hearth_find_bytes(a->text + from, a->n - from, part + start, *n) : NULL;
    return at ? (size_t)(at - a->text) : SIZE_MAX;
}

static void hand_out_field(struct hearth_answer *a, const char *name, size_t n_name, const char *value,
                           size_t n_value)
{
    char *member = hearth_call_member(a->parameters, name, n_name, value, n_value);
    if (!member) {
        a->failed = true;
        return;
    }
    hand_out(a, HEARTH_ANSWER_ARGUMENTS, a->n_fields ? ", " : "{", a->n_fields ? 2 : 1);
    a->n_fields++;
    hand_out(a, HEARTH_ANSWER_ARGUMENTS, member, strlen(member));
    free(member);
}

// Whether what looks like the end of a value is one. Where the template has it on a line of its own, one within a line is
// the value's text, unless the call goes on behind it.
static enum match ends_value(const struct hearth_answer *a, size_t value, size_t end, size_t n_end)
{
    const struct hearth_call_format *f = a->p.format;
    const char *const parts[] = {f->field, f->end};
    enum match how = NO;
    if (f->field_end[0] != '\n' || end == value || a->text[end - 1] == '\n')
        return YES;
    const size_t at = hearth_call_skip(a->text, a->n, end + n_end);
    if (at == a->n)
        return a->ended ? YES : PERHAPS;
    for (int i = 0; i < 2; i++) {
        size_t n;
        const enum match one = match_part(a, at, parts[i], &n);
        how = one == YES || how == NO ? one : how;
    }
    return how;
}

// An argument is handed out when it is all there, without the line breaks that the template puts round values.
static bool take_field(struct hearth_answer *a, size_t name)
{
    const struct hearth_call_format *f = a->p.format;
    size_t n_middle, n_end;
    const size_t middle = find_part(a, name, f->field_middle, &n_middle);
    if (middle == SIZE_MAX)
        return false;
    size_t value = middle + n_middle, end = find_part(a, value, f->field_end, &n_end);
    enum match how = NO;
    while (end != SIZE_MAX && (how = ends_value(a, value, end, n_end)) == NO)
        end = find_part(a, end + 1, f->field_end, &n_end);
    if (end == SIZE_MAX || how == PERHAPS)
        return false;
    a->at = end + n_end;
    if (value < end && a->text[value] == '\n' && strchr(f->field_middle, '\n'))
        value++;
    if (value < end && a->text[end - 1] == '\n' && f->field_end[0] == '\n')
        end--;
    hand_out_field(a, a->text + name, middle - name, a->text + value, end - value);
    return true;
}

static bool at_field(struct hearth_answer *a)
{
    const struct hearth_call_format *f = a->p.format;
    const char *const parts[] = {f->field, f->end, a->n_fields ? "" : f->between};
    const size_t at = hearth_call_skip(a->text, a->n, a->at);
    if (at == a->n)
        return false;
    for (int i = 0; i < 3; i++) {
        size_t n;
        const enum match how = match_part(a, at, parts[i], &n);
        if (how == PERHAPS)
            return false;
        if (how == NO)
            continue;
        if (i == 0)
            return take_field(a, at + n);
        a->at = at + n;
        if (i == 1)
            end_fields(a);
        return true;
    }
    return no_call(a); // of the call, there is no end
}

// ---- calls with a name in tags

// A name ends with the first byte that cannot be in one. Before the arguments there may be a mark or an id.
static bool at_name(struct hearth_answer *a)
{
    const char *s = a->text;
    const size_t start = hearth_call_skip(s, a->n, a->at);
    size_t end = start;
    while (end < a->n && is_name(s[end]))
        end++;
    if (a->p.format->style == HEARTH_CALLS_FIELDS)
        return begin_fields(a, start, end);
    size_t object = end;
    while (object < a->n && s[object] != '{' && object - end < MAX_TAG)
        object++;
    if (object == a->n && !a->ended)
        return false;
    if (end == start || object == a->n || s[object] != '{')
        return no_call(a);
    static const char prefix[] = "functions.";
    const size_t n_prefix = sizeof prefix - 1;
    const bool prefixed = end - start > n_prefix && !memcmp(s + start, prefix, n_prefix);
    begin_call(a, s + start + (prefixed ? n_prefix : 0), end - start - (prefixed ? n_prefix : 0));
    a->at = object;
    a->nest = 0;
    a->scan = (struct hearth_call_scan){0};
    a->state = a->p.format->style == HEARTH_CALLS_MARKED ? MARKED : ARGUMENTS;
    return true;
}

// ---- arguments with plain keys and marks round texts, which become JSON

// Hands out what a JSON string has in place of a text.
static void hand_out_escaped(struct hearth_answer *a, const char *s, size_t n)
{
    for (size_t from = 0, i = 0; i <= n; i++) {
        if (i < n && s[i] != '"' && s[i] != '\\' && (unsigned char)s[i] >= 0x20)
            continue;
        hand_out(a, HEARTH_ANSWER_ARGUMENTS, s + from, i - from);
        from = i + 1;
        if (i == n)
            break;
        char escape[8];
        const int length = (unsigned char)s[i] < 0x20
                               ? snprintf(escape, sizeof escape, "\\u%04x", (unsigned)s[i])
                               : snprintf(escape, sizeof escape, "\\%c", s[i]);
        hand_out(a, HEARTH_ANSWER_ARGUMENTS, escape, (size_t)length);
    }
}

// Takes a text up to what may be a mark.
static void take_marked_text(struct hearth_answer *a)
{
    size_t n = 1; // what begins here is no mark
    while (a->at + n < a->n && a->text[a->at + n] != a->p.format->mark[0])
        n++;
    hand_out_escaped(a, a->text + a->at, n);
    a->at += n;
}

// Whether JSON has the word as it is: a number, one of three names, a text in quotes.
static bool is_json_word(const char *s, size_t n)
{
    json_t *value = json_loadb(s, n, JSON_DECODE_ANY, NULL);
    json_decref(value);
    return value != NULL;
}

// Takes a key, or a value without marks: up to what cannot be in one. False: it may go on.
static bool take_marked_word(struct hearth_answer *a)
{
    const char *s = a->text + a->at;
    const size_t left = a->n - a->at;
    size_t end = 0;
    enum match how = NO;
    while (end < left && !strchr("{}[],:", s[end]) && !(how = match(a, a->at + end, a->p.format->mark)))
        end++;
    if (how == PERHAPS || end == left)
        return false;
    const size_t n = without_blanks(s, end);
    if (s[end] != ':' && is_json_word(s, n)) {
        hand_out(a, HEARTH_ANSWER_ARGUMENTS, s, n);
    } else {
        hand_out(a, HEARTH_ANSWER_ARGUMENTS, "\"", 1);
        hand_out_escaped(a, s, n);
        hand_out(a, HEARTH_ANSWER_ARGUMENTS, "\"", 1);
    }
    a->at += end;
    return true;
}

static bool at_marked(struct hearth_answer *a)
{
    const char *mark = a->p.format->mark;
    while (a->at < a->n) {
        const enum match how = match(a, a->at, mark);
        const char c = a->text[a->at];
        if (how == PERHAPS)
            return false;
        if (how == YES) {
            hand_out(a, HEARTH_ANSWER_ARGUMENTS, "\"", 1);
            a->scan.in_string = !a->scan.in_string;
            a->at += strlen(mark);
        } else if (a->scan.in_string) {
            take_marked_text(a);
        } else if (hearth_call_is_space(c) || !c) {
            a->at++;
        } else if (!strchr("{}[],:", c)) {
            if (!take_marked_word(a))
                return false;
        } else {
            hand_out(a, HEARTH_ANSWER_ARGUMENTS, &c, 1);
            a->at++;
            a->scan.depth += c == '{' || c == '[';
            a->scan.depth -= c == '}' || c == ']';
            if (!a->scan.depth) {
                a->state = REST;
                return true;
            }
        }
    }
    return false;
}

static bool at_quoted(struct hearth_answer *a)
{
    bool ended;
    a->at += hand_out_unquoted(a, a->text + a->at, a->n - a->at, &ended);
    if (ended)
        a->state = REST;
    return ended;
}

static bool at_arguments(struct hearth_answer *a)
{
    enum hearth_call_step step = HEARTH_CALL_INSIDE;
    size_t end = a->at;
    while (end < a->n && step == HEARTH_CALL_INSIDE)
        step = hearth_call_scan(&a->scan, a->text[end++]);
    end -= step == HEARTH_CALL_BEHIND;
    hand_out(a, HEARTH_ANSWER_ARGUMENTS, a->text + a->at, end - a->at);
    a->at = end;
    if (step == HEARTH_CALL_INSIDE)
        return false;
    a->state = REST;
    return true;
}

// The brackets that are still open, and what else is in them, such as an id; then the tag at the end.
static bool at_rest(struct hearth_answer *a)
{
    while (a->nest) {
        if (a->at == a->n)
            break;
        const char c = a->text[a->at];
        if (c == '}')
            a->nest--;
        if (c != '"') {
            a->at++;
            continue;
        }
        const size_t end = hearth_call_json_end(a->text, a->n, a->at);
        if (!end)
            break;
        a->at = end;
    }
    if (a->nest)
        return false;
    size_t n;
    const size_t at = hearth_call_skip(a->text, a->n, a->at);
    const enum match how =
        at == a->n && !a->ended && a->p.format->end[0] ? PERHAPS : match_part(a, at, a->p.format->end, &n);
    if (how == PERHAPS)
        return false;
    if (how == YES)
        a->at = at + n;
    hand_out(a, HEARTH_ANSWER_CALL_END, NULL, 0);
    a->state = CALLED;
    a->called = true;
    return true;
}

// Behind a call, or behind the tag before the first one: another call, or the end of all.
static bool at_called(struct hearth_answer *a)
{
    const struct hearth_call_format *f = a->p.format;
    const bool object = f->style == HEARTH_CALLS_OBJECT;
    size_t at = a->at, n;
    while (at < a->n && (hearth_call_is_space(a->text[at]) || (object && strchr(",;[]", a->text[at]))))
        at++;
    if (at == a->n && !a->ended)
        return false;
    if (object && at < a->n && a->text[at] == '{') {
        a->at = at;
        a->state = OBJECT;
        a->fresh = !f->trigger[0];
        return true;
    }
    const size_t n_trigger = strlen(f->trigger);
    // What is left of the beginning behind the tag that told of it.
    const char *rest = strncmp(f->begin, f->trigger, n_trigger) ? "" : f->begin + n_trigger;
    const char *const parts[] = {f->begin, f->opening, f->trigger, f->closing, rest};
    for (int i = 0; i < 5; i++) {
        const enum match how = match_part(a, at, parts[i], &n);
        if (how == PERHAPS)
            return false;
        if (how == NO)
            continue;
        a->at = at + n;
        if (i == 3)
            a->state = TEXT;
        else if (!object && (i == 0 || i == 4))
            a->state = NAME;
        return true;
    }
    if (!object && !f->opening[0] && !rest[hearth_call_skip(rest, strlen(rest), 0)] && at < a->n &&
        is_name(a->text[at])) {
        a->at = at;
        a->state = NAME;
        return true;
    }
    if (a->called) // what separates calls, or ends their list, is no content
        a->at = at;
    a->state = TEXT;
    a->fresh = a->called;
    return true;
}

// ---- harmony

static bool header_has(const struct hearth_answer *a, size_t end, const char *what)
{
    return hearth_find_bytes(a->text + a->at, end - a->at, what, strlen(what)) != NULL;
}

// The name of the function that a message is to, if it is to one.
static const char *recipient(const struct hearth_answer *a, size_t end, size_t *n)
{
    static const char to[] = "to=functions.";
    const char *s = hearth_find_bytes(a->text + a->at, end - a->at, to, sizeof to - 1);
    *n = 0;
    if (s)
        for (s += sizeof to - 1; s + *n < a->text + end && is_name(s[*n]);)
            ++*n;
    return s;
}

// "<|start|>assistant<|channel|>NAME to=functions.NAME <|constrain|>json<|message|>", in various orders.
static bool at_header(struct hearth_answer *a)
{
    static const char tag[] = "<|message|>";
    enum match how;
    const size_t end = find_tag(a, tag, &how);
    if (how != YES) {
        if (a->ended)
            a->at = a->n;
        return false;
    }
    size_t n;
    const char *name = recipient(a, end, &n);
    a->message = header_has(a, end, "<|channel|>analysis") ? HEARTH_ANSWER_REASONING : HEARTH_ANSWER_CONTENT;
    if (name && n && a->p.calls) {
        a->message = HEARTH_ANSWER_ARGUMENTS;
        begin_call(a, name, n);
        a->scan = (struct hearth_call_scan){0};
        a->complete = false;
    }
    a->at = end + sizeof tag - 1;
    a->state = MESSAGE;
    return true;
}

// A message goes on until the tag of its end, or of another one's beginning.
static bool at_message(struct hearth_answer *a)
{
    static const char *const tags[] = {"<|end|>", "<|start|>", "<|call|>", "<|return|>", "<|channel|>"};
    enum match how = NO;
    size_t at = a->at, tag = 0;
    for (; at < a->n; at++) {
        for (tag = 0; a->text[at] == '<' && tag < sizeof tags / sizeof *tags; tag++)
            if ((how = match(a, at, tags[tag])))
                break;
        if (how)
            break;
    }
    hand_out(a, a->message, a->text + a->at, at - a->at);
    for (; a->message == HEARTH_ANSWER_ARGUMENTS && !a->complete && a->at < at; a->at++)
        a->complete = hearth_call_scan(&a->scan, a->text[a->at]) == HEARTH_CALL_LAST;
    a->at = at;
    if (how != YES && !a->ended)
        return false;
    if (a->message == HEARTH_ANSWER_ARGUMENTS && a->complete)
        hand_out(a, HEARTH_ANSWER_CALL_END, NULL, 0);
    if (how != YES)
        return false;
    if (tag != 4)
        a->at += strlen(tags[tag]);
    a->state = HEADER;
    return true;
}

// ---- all states

// Runs states until one needs more text.
static void run(struct hearth_answer *a)
{
    static bool (*const states[])(struct hearth_answer *) = {
        [START] = at_start,     [REASONING] = at_reasoning, [TEXT] = at_text,     [OBJECT] = at_object,
        [QUOTED] = at_quoted,   [NAME] = at_name,           [FIELD] = at_field,   [ARGUMENTS] = at_arguments,
        [MARKED] = at_marked,   [REST] = at_rest,           [CALLED] = at_called, [HEADER] = at_header,
        [MESSAGE] = at_message,
    };
    while ((a->at < a->n || a->ended || a->state == REST) && states[a->state](a)) {
    }
    memmove(a->text, a->text + a->at, a->n - a->at);
    a->n -= a->at;
    a->at = 0;
}

int hearth_answer_push(struct hearth_answer *a, const char *text, size_t n, struct hearth_error *err)
{
    if (n > a->cap - a->n) {
        size_t larger;
        char *room = hearth_add_size(a->n, n, &larger) && hearth_mul_size(larger, 2, &larger)
                         ? realloc(a->text, larger)
                         : NULL;
        if (!room)
            return hearth_fail(err, HEARTH_E_MEMORY, "no memory for an answer of %zu bytes", n);
        a->text = room;
        a->cap = larger;
    }
    if (n)
        memcpy(a->text + a->n, text, n);
    a->n += n;
    run(a);
    return a->failed ? hearth_fail(err, HEARTH_E_MEMORY, "no memory for the arguments of a call") : HEARTH_OK;
}

void hearth_answer_finish(struct hearth_answer *a)
{
    a->ended = true;
    run(a);
}

// ---- opening

void hearth_answer_thoughts(const struct hearth_call_format *format, const char **open, const char **close)
{
    const int i = format->style == HEARTH_CALLS_MARKED ? N_THOUGHTS - 1 : 0;
    *open = thoughts[i].open;
    *close = thoughts[i].close;
}

const char *hearth_answer_begun_thoughts(const char *prompt, size_t n)
{
    n = prompt ? without_blanks(prompt, n) : 0;
    for (int i = 0; i < N_THOUGHTS; i++) {
        const size_t tag = strlen(thoughts[i].open);
        if (n >= tag && !memcmp(prompt + n - tag, thoughts[i].open, tag))
            return thoughts[i].close;
    }
    return NULL;
}

int hearth_answer_open(struct hearth_answer **out, const struct hearth_answer_params *params,
                       hearth_answer_fn fn, void *arg, struct hearth_error *err)
{
    struct hearth_answer *a = hearth_calloc(1, sizeof *a);
    *out = a;
    if (a) {
        a->cap = 1024;
        a->text = hearth_calloc(a->cap, 1);
    }
    if (!a || !a->text) {
        hearth_answer_close(out);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for an answer");
    }
    a->p = *params;
    a->fn = fn;
    a->arg = arg;
    a->fresh = params->calls && !params->continued;
    a->state = params->format->style == HEARTH_CALLS_HARMONY ? HEADER : START;
    if (params->continued && a->state == HEADER) {
        a->state = MESSAGE;
        a->message = HEARTH_ANSWER_CONTENT;
    }
    a->think_end = hearth_answer_begun_thoughts(params->prompt, params->n_prompt);
    if (a->think_end && a->state == START) {
        a->state = REASONING;
        a->fresh = true;
    }
    return HEARTH_OK;
}

void hearth_answer_close(struct hearth_answer **answer)
{
    if (!answer || !*answer)
        return;
    free((*answer)->text);
    free(*answer);
    *answer = NULL;
}
