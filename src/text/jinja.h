// SPDX-License-Identifier: MIT
// The values of the template language Jinja, as Python's Jinja2 has them, and the memory they live in.
// Strings know of each byte whether the template wrote it or it came with the data, through all that is done
// with them.
//
// Errors leave by longjmp: hearth_jinja_fail() never returns. All memory is in one arena, so nothing is lost.
#ifndef HEARTH_TEXT_JINJA_H
#define HEARTH_TEXT_JINJA_H

#include <setjmp.h>

#include "base/error.h"

// Limits of what templates may do, whatever they are.
#define JINJA_MAX_DEPTH 220    // expressions, blocks and calls within each other
#define JINJA_MAX_RANGE 100000 // as in Jinja2's sandbox

enum jinja_type {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST, // and all that is iterated like one: enum jinja_sequence
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION, // a function, or a method with its object
    JINJA_CYCLER,
    JINJA_JOINER,
    JINJA_MISSING // an argument that was not given
};

// What a list is in Python: they print, compare and count differently.
enum jinja_sequence { JINJA_PLAIN, JINJA_TUPLE, JINJA_RANGE, JINJA_VIEW, JINJA_GENERATOR };

// Where bytes come from.
enum jinja_origin { JINJA_TEMPLATE = 0, JINJA_DATA = 1 };

struct jinja_string {
    const char *s;
    size_t n;
    const uint8_t *marks; // [n] the origin of each byte; NULL: all are of `origin`
    uint8_t origin;
    bool
        markup; // went through the filter safe or escape: other strings are escaped when they are added to it
};

struct jinja;
struct jinja_value;
struct jinja_args;
typedef struct jinja_value (*jinja_fn)(struct jinja *j, const struct jinja_value *self,
                                       const struct jinja_args *args);

struct jinja_value {
    uint8_t type;  // enum jinja_type
    uint8_t owner; // JINJA_UNDEFINED: the type of what lacks the attribute, or JINJA_MISSING
    union {
        bool b;
        int64_t i;
        double f;
        const struct jinja_string *s; // JINJA_UNDEFINED: its name, or NULL
        struct jinja_list *list;
        struct jinja_dict *dict; // JINJA_NAMESPACE, too
        struct jinja_loop *loop;
        struct jinja_macro *macro;
        struct jinja_function *function;
        struct jinja_cycler *cycler; // JINJA_JOINER, too
    } u;
};

struct jinja_list {
    struct jinja_value *v;
    size_t n, cap;
    uint8_t kind;     // enum jinja_sequence
    bool spent;       // a generator that has been iterated over
    const char *name; // views and generators: how they print
    int64_t range[3]; // start, stop, step
};

struct jinja_entry {
    struct jinja_value key, value;
    uint64_t hash;
};

struct jinja_dict {
    struct jinja_entry *v; // in the order in which keys were added
    size_t n, cap;
};

struct jinja_function {
    const char *name;
    jinja_fn fn;
    struct jinja_value self;
};

struct jinja_cycler {
    struct jinja_value items; // JINJA_LIST; of a joiner: its separator
    size_t at;
};

struct jinja_loop {
    struct jinja_list *items;
    size_t index;
    struct jinja_value changed; // the values of the last call of loop.changed()
    int depth;
};

struct jinja_args {
    const struct jinja_value *v;
    size_t n;
    const struct jinja_string *const *names; // of the keyword arguments
    const struct jinja_value *kw;
    size_t n_kw;
};

// What lower files need from higher ones.
struct jinja_calls {
    struct jinja_value (*filter)(struct jinja *j, const struct jinja_string *name, struct jinja_value v,
                                 const struct jinja_args *args);
    bool (*test)(struct jinja *j, const struct jinja_string *name, struct jinja_value v,
                 const struct jinja_args *args);
    struct jinja_value (*call)(struct jinja *j, struct jinja_value callee, const struct jinja_args *args);
    jinja_fn (*method)(const struct jinja_value *v, const struct jinja_string *name); // NULL: it has none
};

// A template that is being parsed or rendered.
struct jinja {
    struct jinja_chunk *chunks; // the newest first
    size_t used, limit;         // bytes of memory
    jmp_buf failed;
    int code; // of the failure
    struct hearth_error *err;
    int line;  // that is at work
    int depth; // of what is within each other now
    uint64_t steps, max_steps;
    const struct jinja_calls *calls;
    int64_t now; // Unix time of strftime_now(); INT64_MIN: when it is called
    // While rendering:
    struct jinja_frame *frame;    // the innermost one
    struct jinja_dict *variables; // that the caller gave
    const struct jinja_names *names;
    struct jinja_value input; // of the filters that end a block
    int loops;                // within each other
};

// Variables of a loop's round, a macro or a block, by interned names.
struct jinja_variable {
    const struct jinja_string *name;
    struct jinja_value value;
};
struct jinja_frame {
    struct jinja_frame *parent;
    struct jinja_variable *v;
    size_t n, cap;
    bool kept; // a macro may still look into it
};

struct jinja_macro {
    const struct jinja_node *node;
    struct jinja_frame *frame; // where it was defined
};

// ---- jinja_value.c: memory, strings, lists, dicts

// Fails with the line at work before the message. Never returns.
_Noreturn void hearth_jinja_fail(struct jinja *j, const char *fmt, ...) HEARTH_PRINTF(2, 3);
// Fails with a code of its own and nothing before the message. Never returns.
_Noreturn void hearth_jinja_fail_code(struct jinja *j, int code, const char *fmt, ...) HEARTH_PRINTF(3, 4);
// n bytes, which are not set. Valid until hearth_jinja_free().
void *hearth_jinja_alloc(struct jinja *j, size_t n);
void *hearth_jinja_array(struct jinja *j, size_t n, size_t size);
void hearth_jinja_free(struct jinja *j);
// Counts work; fails when there has been too much of it.
void hearth_jinja_work(struct jinja *j, size_t n);
// The same for looking at n bytes so many times.
void hearth_jinja_work_on(struct jinja *j, size_t n, size_t times);
void hearth_jinja_enter(struct jinja *j);
static inline void hearth_jinja_leave(struct jinja *j)
{
    j->depth--;
}

static inline struct jinja_value hearth_jinja_none(void)
{
    return (struct jinja_value){.type = JINJA_NONE};
}
static inline struct jinja_value hearth_jinja_missing(void)
{
    return (struct jinja_value){.type = JINJA_MISSING};
}
static inline struct jinja_value hearth_jinja_bool(bool b)
{
    return (struct jinja_value){.type = JINJA_BOOL, .u.b = b};
}
static inline struct jinja_value hearth_jinja_int(int64_t i)
{
    return (struct jinja_value){.type = JINJA_INT, .u.i = i};
}
static inline struct jinja_value hearth_jinja_float(double f)
{
    return (struct jinja_value){.type = JINJA_FLOAT, .u.f = f};
}
static inline bool hearth_jinja_is_text(const struct jinja_string *s, const char *text)
{
    return s->n == __builtin_strlen(text) && !__builtin_memcmp(s->s, text, s->n);
}

struct jinja_value hearth_jinja_undefined(const struct jinja_string *name, enum jinja_type owner);
// Of bytes that stay where they are, or are copied.
struct jinja_value hearth_jinja_string(struct jinja *j, const char *s, size_t n, enum jinja_origin origin);
struct jinja_value hearth_jinja_copy(struct jinja *j, const char *s, size_t n, enum jinja_origin origin);
struct jinja_value hearth_jinja_literal(struct jinja *j, const char *s);
// Bytes [start, start + n) of a string.
struct jinja_value hearth_jinja_part(struct jinja *j, const struct jinja_string *s, size_t start, size_t n);

struct jinja_value hearth_jinja_list(struct jinja *j, enum jinja_sequence kind);
void hearth_jinja_append(struct jinja *j, struct jinja_list *list, struct jinja_value v);
struct jinja_value hearth_jinja_dict(struct jinja *j);
// The value of a key; NULL: none. Fails when the key cannot be one.
struct jinja_value *hearth_jinja_find(struct jinja *j, const struct jinja_dict *dict, struct jinja_value key);
struct jinja_value *hearth_jinja_find_text(struct jinja *j, const struct jinja_dict *dict, const char *key);
void hearth_jinja_set(struct jinja *j, struct jinja_dict *dict, struct jinja_value key,
                      struct jinja_value value);
struct jinja_value hearth_jinja_function(struct jinja *j, const char *name, jinja_fn fn,
                                         const struct jinja_value *self);

// A string that grows. Set .j.
struct jinja_builder {
    struct jinja *j;
    char *s;
    uint8_t *marks;
    size_t n, cap;
    uint8_t origin;
    bool markup;
};
void hearth_jinja_put(struct jinja_builder *b, const char *s, size_t n, enum jinja_origin origin);
void hearth_jinja_put_literal(struct jinja_builder *b, const char *s);
void hearth_jinja_put_string(struct jinja_builder *b, const struct jinja_string *s);
// Bytes [start, start + n) of a string.
void hearth_jinja_put_part(struct jinja_builder *b, const struct jinja_string *s, size_t start, size_t n);
struct jinja_value hearth_jinja_built(struct jinja_builder *b);

// Python's name of a value's type: "str", "dict".
const char *hearth_jinja_type(const struct jinja_value *v);
bool hearth_jinja_true(const struct jinja_value *v);
bool hearth_jinja_equal(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b);
// Below, equal, above: -1, 0, 1. Fails when Python does not order them.
int hearth_jinja_compare(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b,
                         const char *op);
// Fails with the words for an undefined value that is used.
_Noreturn void hearth_jinja_fail_undefined(struct jinja *j, const struct jinja_value *v);

// Puts the arguments in the order of `names`, which are separated by blanks; those not given are
// JINJA_MISSING. The first `required` ones must be there.
void hearth_jinja_bind(struct jinja *j, const char *who, const struct jinja_args *args, const char *names,
                       size_t required, struct jinja_value *out);
// Of a bound argument, its number or string, or a default when it is missing. They fail when it is of another
// type.
int64_t hearth_jinja_int_or(struct jinja *j, const struct jinja_value *v, int64_t def);
bool hearth_jinja_bool_or(const struct jinja_value *v, bool def);
const struct jinja_string *hearth_jinja_string_of(struct jinja *j, const struct jinja_value *v);

// ---- jinja_unicode.c: characters

// The character at s[at], of n bytes; a byte that is no UTF-8 counts as one.
uint32_t hearth_jinja_character(const struct jinja_string *s, size_t at, size_t *n);
size_t hearth_jinja_length(const struct jinja_string *s); // characters
// The byte at which the i-th character begins, at most s->n.
size_t hearth_jinja_offset(const struct jinja_string *s, size_t i);
bool hearth_jinja_is_space(uint32_t c);
bool hearth_jinja_is_letter(uint32_t c);
bool hearth_jinja_is_printable(uint32_t c);
uint32_t hearth_jinja_upper(uint32_t c);
uint32_t hearth_jinja_lower(uint32_t c);
enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_CAPITALIZE, JINJA_TITLE, JINJA_SWAP, JINJA_WORDS };
// TITLE is Python's str.title(), WORDS is Jinja's filter.
struct jinja_value hearth_jinja_case(struct jinja *j, const struct jinja_string *s, enum jinja_case how);
// Without white space, or the characters of `chars`, at the ends.
struct jinja_value hearth_jinja_strip(struct jinja *j, const struct jinja_string *s,
                                      const struct jinja_string *chars, bool left, bool right);
// The first place at or after `from` of a text in a string, or the last; SIZE_MAX: none.
size_t hearth_jinja_search(struct jinja *j, const struct jinja_string *s, const struct jinja_string *text,
                           size_t from);
size_t hearth_jinja_search_last(struct jinja *j, const struct jinja_string *s,
                                const struct jinja_string *text, size_t end);

// Adds a string with & < > ' " written as in HTML.
void hearth_jinja_put_escaped(struct jinja_builder *b, const struct jinja_string *s);
// The number that a whole string is, as int() and float() read it.
bool hearth_jinja_parse_int(const struct jinja_string *s, int base, int64_t *out);
bool hearth_jinja_parse_float(const struct jinja_string *s, double *out);

// ---- jinja_print.c: values as text

// str() of Python.
struct jinja_value hearth_jinja_str(struct jinja *j, const struct jinja_value *v);
void hearth_jinja_print(struct jinja_builder *b, const struct jinja_value *v);
// Shortest digits that give the number back, as Python writes them.
void hearth_jinja_put_float(struct jinja_builder *b, double f);
// The operator % of strings; `names` may be NULL.
struct jinja_value hearth_jinja_percent(struct jinja *j, const struct jinja_string *format,
                                        const struct jinja_value *v);
// str.format()
struct jinja_value hearth_jinja_format(struct jinja *j, const struct jinja_string *format,
                                       const struct jinja_args *args);

// ---- jinja_json.c

// Reads a JSON text; its strings are of the given origin. `what` names it in messages.
struct jinja_value hearth_jinja_read_json(struct jinja *j, const char *text, size_t n, const char *what,
                                          enum jinja_origin origin);
// json.dumps() of Python. `indent` NULL: one line.
struct jinja_value hearth_jinja_dumps(struct jinja *j, const struct jinja_value *v, bool ascii,
                                      bool sort_keys, const struct jinja_string *indent,
                                      const struct jinja_string *comma, const struct jinja_string *colon);

// ---- jinja_access.c: iteration, indices, attributes

// The items of what can be iterated over, as a list that nobody else changes. A generator is spent then.
struct jinja_list *hearth_jinja_items(struct jinja *j, const struct jinja_value *v);
// len(); false: it has none.
bool hearth_jinja_count(const struct jinja_value *v, int64_t *n);
// v.name, v[key] and v[start:stop:step] as Jinja2 looks them up; undefined when there is none.
struct jinja_value hearth_jinja_attribute(struct jinja *j, const struct jinja_value *v,
                                          const struct jinja_string *name);
struct jinja_value hearth_jinja_item(struct jinja *j, const struct jinja_value *v,
                                     const struct jinja_value *key);
struct jinja_value hearth_jinja_slice(struct jinja *j, const struct jinja_value *v,
                                      const struct jinja_value *start, const struct jinja_value *stop,
                                      const struct jinja_value *step);
// The operator in.
bool hearth_jinja_contains(struct jinja *j, const struct jinja_value *v, const struct jinja_value *item);
// A number or a path such as "a.b.0", as the argument `attribute` of filters.
struct jinja_value hearth_jinja_path(struct jinja *j, const struct jinja_value *v,
                                     const struct jinja_value *path);

// ---- jinja_operators.c: Python's operators for numbers, strings and lists

enum jinja_operator {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_FLOOR_DIVIDE,
    JINJA_MODULO,
    JINJA_POWER
};
struct jinja_value hearth_jinja_operate(struct jinja *j, enum jinja_operator op, const struct jinja_value *a,
                                        const struct jinja_value *b);
struct jinja_value hearth_jinja_negate(struct jinja *j, const struct jinja_value *v);

// ---- tables of names

struct jinja_named {
    const char *name;
    jinja_fn fn;
};
// NULL: there is none of this name.
jinja_fn hearth_jinja_string_method(const struct jinja_string *name);                       // jinja_strings.c
jinja_fn hearth_jinja_method(const struct jinja_value *v, const struct jinja_string *name); // jinja_methods.c
jinja_fn hearth_jinja_filter(const struct jinja_string *name);                              // jinja_filters.c
jinja_fn hearth_jinja_list_filter(const struct jinja_string *name);                         // jinja_lists.c
jinja_fn hearth_jinja_test(const struct jinja_string *name);                                // jinja_tests.c
const struct jinja_named *hearth_jinja_globals(size_t *n);                                  // jinja_globals.c
jinja_fn hearth_jinja_named(const struct jinja_named *table, size_t n, const struct jinja_string *name);

#endif
