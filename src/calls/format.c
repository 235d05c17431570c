// SPDX-License-Identifier: MIT
// Renders a question, an answer, one call and two calls, and compares what comes out.
#include "calls/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "calls/scan.h"

#define TOOL(name)                                                                                           \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"description\":\"probe_description\","      \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"probe_key\":{\"type\":\"string\","                \
    "\"description\":\"a key\"},\"probe_last\":{\"type\":\"string\",\"description\":\"another\"}},"          \
    "\"required\":[\"probe_key\"]}}}"
#define USER "{\"role\":\"user\",\"content\":\"probe_question\"}"
#define CALL(id, name, value)                                                                                \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                                \
    "\",\"arguments\":{\"probe_key\":\"" value "\",\"probe_last\":\"" value "_2\"}}}"
#define CALLS(content, calls)                                                                                \
    USER ",{\"role\":\"assistant\",\"content\":" content ",\"tool_calls\":[" calls "]}"

#define TOOLS  "[" TOOL("probe_name") "," TOOL("other_name") "]"
#define FIRST  CALL("probe0001", "probe_name", "probe_value")
#define SECOND CALL("other0002", "other_name", "other_value")

// A rendering of probes; `n` 0: there is none.
struct text {
    struct hearth_chat_text *rendering;
    const char *s;
    size_t n;
};

struct probes {
    const struct hearth_chat_template *t;
    struct text question, answer, one, two, result;
    struct hearth_error *err;
    int failed;
};

static void render(struct probes *p, struct text *out, const char *messages, bool question)
{
    struct hearth_chat_params params = hearth_chat_params_default();
    struct hearth_error err = {0};
    params.messages = messages;
    params.tools = TOOLS;
    params.add_generation_prompt = question;
    params.now = 0;
    const int rc = hearth_chat_render(&out->rendering, p->t, &params, &err);
    if (rc == HEARTH_E_MEMORY)
        p->failed = hearth_fail(p->err, rc, "%s", err.message);
    if (!rc)
        out->s = hearth_chat_text_bytes(out->rendering, &out->n);
}

static void drop(struct text *t)
{
    hearth_chat_text_close(&t->rendering);
    *t = (struct text){0};
}

static const char *find(const struct text *t, size_t from, const char *what)
{
    return t->n > from ? hearth_find_bytes(t->s + from, t->n - from, what, strlen(what)) : NULL;
}

// With an empty content or, where the template does not like that, with none.
static void render_calls(struct probes *p, struct text *out, const char *with_empty, const char *with_none)
{
    render(p, out, with_empty, false);
    if (!find(out, 0, "probe_value")) {
        drop(out);
        render(p, out, with_none, false);
    }
}

static void render_all(struct probes *p)
{
    render(p, &p->question, "[" USER "]", true);
    render(p, &p->answer, "[" USER ",{\"role\":\"assistant\",\"content\":\"probe_answer\"}]", false);
    render_calls(p, &p->one, "[" CALLS("\"\"", FIRST) "]", "[" CALLS("null", FIRST) "]");
    render_calls(p, &p->two, "[" CALLS("\"\"", FIRST "," SECOND) "]",
                 "[" CALLS("null", FIRST "," SECOND) "]");
    render(p, &p->result,
           "[" CALLS("\"\"", FIRST) ",{\"role\":\"tool\",\"tool_call_id\":\"probe0001\",\"name\":"
                                    "\"probe_name\",\"content\":\"probe_result\"}]",
           true);
}

// ---- the part of a rendering that the model writes

// Whether s[at] is within a tag such as <name> or [NAME].
static bool in_tag(const char *s, size_t n, size_t at)
{
    size_t open = at;
    while (open > 0 && s[open - 1] != '<' && s[open - 1] != '[') {
        const char c = s[--open];
        if (c == '>' || c == ']' || c == '{' || c == '"' || hearth_call_is_space(c))
            return false;
    }
    if (!open)
        return false;
    const char close = s[open - 1] == '<' ? '>' : ']';
    for (size_t i = at; i < n; i++) {
        if (s[i] == close)
            return true;
        if (s[i] == '"' || s[i] == '{' || hearth_call_is_space(s[i]))
            return false;
    }
    return false;
}

// Where the answer with calls begins, which has `name` in it: behind the end of the question's prompt.
static size_t answer_start(const struct text *question, const struct text *t, size_t name)
{
    const size_t tail = question->n < 16 ? question->n : 16;
    for (size_t at = name; tail && at >= tail; at--)
        if (!memcmp(t->s + at - tail, question->s + question->n - tail, tail))
            return at;
    size_t at = 0;
    while (at < name && at < question->n && t->s[at] == question->s[at])
        at++;
    while (at > 0 && in_tag(t->s, t->n, at))
        at--;
    return at;
}

// Behind what the template writes as thoughts.
static size_t skip_thoughts(const struct text *t, size_t from, size_t name)
{
    static const char close[] = "</think>";
    for (const char *s; (s = find(t, from, close)) && s < t->s + name;)
        from = (size_t)(s - t->s) + sizeof close - 1;
    while (from < name && hearth_call_is_space(t->s[from]))
        from++;
    return from;
}

// ---- one call in it

// A call: bytes [start, end), name and arguments within.
struct item {
    size_t start, end, name, arguments, arguments_end;
    bool object, fields;
    size_t mark, n_mark; // what is on both sides of a text; 0: nothing
};

static size_t place(const struct text *t, size_t from, const char *what)
{
    const char *at = find(t, from, what);
    return at ? (size_t)(at - t->s) : t->n;
}

// Arguments that are no JSON object: each name and each value is somewhere behind the function's name.
static bool find_fields(const struct text *t, size_t from, const char *name, const char *value,
                        struct item *out)
{
    const size_t named = place(t, from, name), key = place(t, named, "probe_key"),
                 first = place(t, key, value), last_key = place(t, first, "probe_last"),
                 last = place(t, last_key, value);
    *out = (struct item){
        .start = named, .name = named, .arguments = key, .end = last + strlen(value) + 2, .fields = true};
    out->arguments_end = out->end;
    return last < t->n && out->end <= t->n;
}

// Arguments that are an object, but for plain keys and marks round texts, right behind the function's name.
static bool find_marked(const struct text *t, size_t from, const char *name, const char *value,
                        struct item *out)
{
    static const char open[] = "{probe_key:";
    const size_t n_open = sizeof open - 1, n_value = strlen(value), named = place(t, from, name),
                 at = named + strlen(name), mark = at + n_open, first = place(t, mark, value),
                 n_mark = first - mark;
    if (at + n_open >= t->n || memcmp(t->s + at, open, n_open) != 0 || first >= t->n || !n_mark ||
        n_mark >= HEARTH_CALLS_PART)
        return false;
    const size_t last = place(t, first + n_value, value), close = last + n_value + 2 + n_mark;
    if (close >= t->n || t->s[close] != '}' || memcmp(t->s + first + n_value, t->s + mark, n_mark) != 0)
        return false;
    *out = (struct item){.start = named,
                         .end = close + 1,
                         .name = named,
                         .arguments = at,
                         .arguments_end = close + 1,
                         .mark = mark,
                         .n_mark = n_mark};
    return true;
}

static bool find_item(const struct text *t, size_t from, const char *name, const char *id, const char *value,
                      struct item *out)
{
    const char *named = find(t, from, name), *key = find(t, from, "\"probe_key\"");
    *out = (struct item){0};
    if (!key)
        return find_marked(t, from, name, value, out) || find_fields(t, from, name, value, out);
    while (key && !hearth_find_bytes(key, (size_t)(t->s + t->n - key), value, strlen(value)))
        key = NULL;
    if (!key)
        return false;
    // The arguments of this call are those that have its value.
    for (const char *next = key;
         next && next < (const char *)hearth_find_bytes(t->s, t->n, value, strlen(value));) {
        key = next;
        next = find(t, (size_t)(next - t->s) + 1, "\"probe_key\"");
    }
    size_t at = (size_t)(key - t->s);
    while (at > from && t->s[at] != '{')
        at--;
    if (t->s[at] != '{')
        return false;
    out->arguments = at;
    out->arguments_end = hearth_call_json_end(t->s, t->n, at);
    if (!out->arguments_end)
        return false;
    // Templates that write the id in the place of the name.
    if (!named || (size_t)(named - t->s) > out->arguments_end + 64)
        named = find(t, from, id);
    if (!named)
        return false;
    out->name = (size_t)(named - t->s);
    out->object = out->fields = false;
    for (size_t i = from; i < at && i < out->name && !out->object; i++) {
        const size_t end = t->s[i] == '{' ? hearth_call_json_end(t->s, t->n, i) : 0;
        out->object = end > out->name && end >= out->arguments_end;
        out->start = i;
        out->end = end;
    }
    if (!out->object) {
        out->start = out->name;
        out->end = out->arguments_end;
    }
    return out->object || out->name < out->arguments;
}

// ---- the pieces

static void set_part(char *part, const char *s, size_t n)
{
    if (n >= HEARTH_CALLS_PART)
        n = 0;
    memcpy(part, s, n);
    part[n] = '\0';
}

// What follows the text of an answer: the end of a turn.
static void find_turn_end(const struct probes *p, const char **s, size_t *n)
{
    static const char answer[] = "probe_answer";
    const char *at = find(&p->answer, 0, answer);
    *s = at ? at + sizeof answer - 1 : "";
    *n = at ? (size_t)(p->answer.s + p->answer.n - *s) : 0;
    while (*n && hearth_call_is_space(**s)) {
        ++*s;
        --*n;
    }
    while (*n && hearth_call_is_space((*s)[*n - 1]))
        --*n;
}

static void object_parts(struct hearth_call_format *f, const struct text *t, const struct item *item)
{
    f->arguments_first = item->arguments < item->name;
    f->call_ids = hearth_find_bytes(t->s + item->start, item->end - item->start, "probe0001", 9) != NULL;
    size_t end = item->arguments;
    while (end > item->start && t->s[end - 1] != '"')
        end--;
    size_t start = end ? end - 1 : 0;
    while (start > item->start && t->s[start - 1] != '"')
        start--;
    set_part(f->arguments_key, t->s + start, end > start ? end - 1 - start : 0);
}

static void named_parts(struct hearth_call_format *f, const struct text *t, const struct item *item)
{
    size_t at = item->name;
    f->numbered = !memcmp(t->s + at, "probe0001", 9);
    at += f->numbered ? 9 : strlen("probe_name");
    set_part(f->between, t->s + at, item->arguments - at);
}

// How many bytes two texts have in common at their ends, without a part of a tag.
static size_t common_end(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n_a - 1 - n] == b[n_b - 1 - n])
        n++;
    while (n && in_tag(a, n_a, n_a - n))
        n--;
    return n;
}

// What is between two places, to be a part.
static void part_between(char *part, const struct text *t, size_t from, size_t to)
{
    set_part(part, t->s + from, to > from ? to - from : 0);
}

// Behind the first value, up to the second name, come the end of a field and the beginning of one. The latter
// is what is also before the first name.
static void field_parts(struct hearth_call_format *f, const struct text *t, const struct item *item)
{
    const size_t name_end = item->name + strlen("probe_name"), key = item->arguments,
                 key_end = key + strlen("probe_key"), value = place(t, key_end, "probe_value"),
                 value_end = value + strlen("probe_value"), last = place(t, value_end, "probe_last");
    size_t field = common_end(t->s + name_end, key - name_end, t->s + value_end, last - value_end);
    while (field && t->s[key - field] == '>') // it ends another tag
        field--;
    part_between(f->between, t, name_end, key - field);
    part_between(f->field, t, key - field, key);
    part_between(f->field_middle, t, key_end, value);
    part_between(f->field_end, t, value_end, last - field);
    if (!f->field[0] || !f->field_middle[0] || !f->field_end[0])
        f->calls = false;
}

static size_t common_start(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    while (n && (in_tag(a, n_a, n) || in_tag(b, n_b, n)))
        n--;
    return n;
}

// Of two tags in a row before a call, the first one is for all calls. Its counterpart is taken to have "end"
// in the place of "begin". (DeepSeek's templates: they render one call well, several not.)
static void split_tags(struct hearth_call_format *f)
{
    const char *close = f->begin[0] == '<' ? strchr(f->begin, '>') : NULL, *word;
    if (!close || close[1] != '<')
        return;
    const size_t n = (size_t)(close - f->begin) + 1;
    set_part(f->opening, f->begin, n);
    memmove(f->begin, f->begin + n, sizeof f->begin - n);
    word = strstr(f->opening, "begin");
    if (!word)
        return;
    set_part(f->closing, f->opening, (size_t)(word - f->opening));
    strcat(f->closing, "end");
    strcat(f->closing, word + strlen("begin"));
    strcpy(f->separator, "\n");
    f->parallel = true;
}

// Takes away what a part begins with.
static void drop_start(char *part, const char *start)
{
    const size_t n = strlen(start);
    if (!strncmp(part, start, n))
        memmove(part, part + n, HEARTH_CALLS_PART - n);
}

// Splits what is before, between and behind calls. Without a second call, all of it belongs to the one.
static void split(struct hearth_call_format *f, const char *before, size_t n_before, const char *middle,
                  size_t n_middle, const char *behind, size_t n_behind)
{
    if (!f->parallel) {
        set_part(f->begin, before, n_before);
        set_part(f->end, behind, n_behind);
        split_tags(f);
        return;
    }
    const size_t begin = common_end(before, n_before, middle, n_middle);
    set_part(f->begin, before + n_before - begin, begin);
    set_part(f->opening, before, n_before - begin);
    n_middle -= begin;
    const size_t end = common_start(middle, n_middle, behind, n_behind);
    set_part(f->end, middle, end);
    set_part(f->separator, middle + end, n_middle - end);
    set_part(f->closing, behind + end, n_behind - end);
    if (!f->begin[0] && !f->closing[0] && f->end[0]) { // a tag that the template writes once for all
        memcpy(f->begin, f->opening, sizeof f->begin);
        f->opening[0] = '\0';
    }
}

// The first tag of a text that is a tag at its beginning; else all of it, but for the list that it opens.
static void set_trigger(char *trigger, const char *s)
{
    while (hearth_call_is_space(*s))
        s++;
    size_t n = strlen(s);
    const char *close = *s == '<' ? strchr(s, '>') : *s == '[' && s[1] >= 'A' ? strchr(s, ']') : NULL;
    if (close)
        n = (size_t)(close - s) + 1;
    while (n && (hearth_call_is_space(s[n - 1]) || (s[n - 1] == '[' && !close)))
        n--;
    set_part(trigger, s, n);
}

static void read_probes(struct hearth_call_format *f, const struct probes *p)
{
    struct item one, first, second;
    const char *named = find(&p->one, 0, "probe_value");
    if (!named)
        return;
    const size_t value = (size_t)(named - p->one.s);
    size_t from = answer_start(&p->question, &p->one, value);
    from = skip_thoughts(&p->one, from, value);
    if (!find_item(&p->one, from, "probe_name", "probe0001", "probe_value", &one))
        return;
    f->calls = true;
    f->style = one.object   ? HEARTH_CALLS_OBJECT
               : one.fields ? HEARTH_CALLS_FIELDS
               : one.n_mark ? HEARTH_CALLS_MARKED
                            : HEARTH_CALLS_NAMED;
    set_part(f->mark, p->one.s + one.mark, one.n_mark);
    if (one.object)
        object_parts(f, &p->one, &one);
    else if (one.fields)
        field_parts(f, &p->one, &one);
    else
        named_parts(f, &p->one, &one);

    const char *turn_end, *behind = p->one.s + one.end;
    size_t n_turn_end, n_behind = p->one.n - one.end;
    find_turn_end(p, &turn_end, &n_turn_end);
    const char *cut = n_turn_end ? hearth_find_bytes(behind, n_behind, turn_end, n_turn_end) : NULL;
    n_behind = cut ? (size_t)(cut - behind) : n_behind;

    const char *other = find(&p->two, 0, "other_value");
    const char *value_two = find(&p->two, 0, "probe_value");
    const size_t start = value_two ? answer_start(&p->question, &p->two, (size_t)(value_two - p->two.s)) : 0;
    f->parallel = other && value_two &&
                  find_item(&p->two, start, "probe_name", "probe0001", "probe_value", &first) &&
                  find_item(&p->two, first.end, "other_name", "other0002", "other_value", &second);
    split(f, p->one.s + from, one.start - from, f->parallel ? p->two.s + first.end : NULL,
          f->parallel ? second.start - first.end : 0, behind, n_behind);
    if (one.fields)
        drop_start(f->end, f->field_end);
    if (one.n_mark) // behind the last call its result is waited for, which ends the answer
        f->closing[0] = '\0';
}

// ---- formats that are known

static void use_ours(struct hearth_call_format *f)
{
    f->style = HEARTH_CALLS_OBJECT;
    f->parallel = true;
    strcpy(f->begin, "<tool_call>\n");
    strcpy(f->end, "\n</tool_call>");
    strcpy(f->separator, "\n");
    strcpy(f->arguments_key, "arguments");
}

static bool is_harmony(const struct probes *p)
{
    const struct text *t = p->one.n ? &p->one : &p->answer;
    return find(t, 0, "<|channel|>") && find(t, 0, "<|message|>");
}

int hearth_call_format_find(struct hearth_call_format *f, const struct hearth_chat_template *t,
                            struct hearth_error *err)
{
    struct probes p = {.t = t, .err = err};
    *f = (struct hearth_call_format){0};
    render_all(&p);
    f->tools = find(&p.question, 0, "probe_description") != NULL;
    f->results = find(&p.result, 0, "probe_result") != NULL;
    read_probes(f, &p);
    if (is_harmony(&p)) {
        *f = (struct hearth_call_format){
            .style = HEARTH_CALLS_HARMONY, .calls = f->calls, .tools = f->tools, .results = f->results};
    } else {
        if (!f->calls)
            use_ours(f);
        set_trigger(f->trigger, f->opening[0] ? f->opening : f->begin);
    }
    drop(&p.question);
    drop(&p.answer);
    drop(&p.one);
    drop(&p.two);
    drop(&p.result);
    return p.failed;
}
