// SPDX-License-Identifier: MIT
// The tests of Jinja: what may follow `is`.
#include <string.h>

#include "text/jinja.h"

typedef struct jinja_value value;

#define TEST(name, answer)                                                                                   \
    static value name(struct jinja *j, const value *self, const struct jinja_args *args)                     \
    {                                                                                                        \
        hearth_jinja_bind(j, "the test", args, "", 0, NULL);                                                 \
        return hearth_jinja_bool(answer);                                                                    \
    }

static bool is_whole(const value *v)
{
    return v->type == JINJA_INT || v->type == JINJA_BOOL;
}

static bool is_iterable(const value *v)
{
    return v->type == JINJA_UNDEFINED || v->type == JINJA_STRING || v->type == JINJA_LIST ||
           v->type == JINJA_DICT;
}

static bool is_sequence(const value *v)
{
    return is_iterable(v) && !(v->type == JINJA_LIST && v->u.list->kind > JINJA_RANGE);
}

static bool is_function(const value *v)
{
    return v->type == JINJA_FUNCTION || v->type == JINJA_MACRO || v->type == JINJA_CYCLER ||
           v->type == JINJA_JOINER || v->type == JINJA_LOOP;
}

static bool has_case(struct jinja *j, const value *v, const char *method)
{
    const struct jinja_string name = {.s = method, .n = strlen(method)};
    const struct jinja_args none = {0};
    const value s = hearth_jinja_str(j, v), answer = hearth_jinja_string_method(&name)(j, &s, &none);
    return answer.u.b;
}

TEST(defined, self->type != JINJA_UNDEFINED)
TEST(undefined, self->type == JINJA_UNDEFINED)
TEST(none, self->type == JINJA_NONE)
TEST(boolean, self->type == JINJA_BOOL)
TEST(is_true, self->type == JINJA_BOOL && self->u.b)
TEST(is_false, self->type == JINJA_BOOL && !self->u.b)
TEST(integer, self->type == JINJA_INT)
TEST(is_float, self->type == JINJA_FLOAT)
TEST(number, is_whole(self) || self->type == JINJA_FLOAT)
TEST(string, self->type == JINJA_STRING)
TEST(mapping, self->type == JINJA_DICT)
TEST(iterable, is_iterable(self))
TEST(sequence, is_sequence(self))
TEST(callable, is_function(self))
TEST(lower, has_case(j, self, "islower"))
TEST(upper, has_case(j, self, "isupper"))
TEST(escaped, self->type == JINJA_STRING && self->u.s->markup)

static value remainder_is(struct jinja *j, const value *self, int64_t by, int64_t is)
{
    const value divisor = hearth_jinja_int(by), rest = hearth_jinja_operate(j, JINJA_MODULO, self, &divisor);
    const value wanted = hearth_jinja_int(is);
    return hearth_jinja_bool(hearth_jinja_equal(j, &rest, &wanted));
}

static value odd(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "odd", args, "", 0, NULL);
    return remainder_is(j, self, 2, 1);
}

static value even(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "even", args, "", 0, NULL);
    return remainder_is(j, self, 2, 0);
}

static value divisibleby(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value by;
    hearth_jinja_bind(j, "divisibleby", args, "num", 1, &by);
    return remainder_is(j, self, hearth_jinja_int_or(j, &by, 1), 0);
}

static value equal(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value other;
    hearth_jinja_bind(j, "eq", args, "other", 1, &other);
    return hearth_jinja_bool(hearth_jinja_equal(j, self, &other));
}

static value unequal(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value other;
    hearth_jinja_bind(j, "ne", args, "other", 1, &other);
    return hearth_jinja_bool(!hearth_jinja_equal(j, self, &other));
}

static int order(struct jinja *j, const value *self, const struct jinja_args *args, const char *op)
{
    value other;
    hearth_jinja_bind(j, op, args, "other", 1, &other);
    return hearth_jinja_compare(j, self, &other, op);
}

static value below(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return hearth_jinja_bool(order(j, self, args, "<") == -1);
}

static value at_most(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return hearth_jinja_bool(order(j, self, args, "<=") <= 0);
}

static value above(struct jinja *j, const value *self, const struct jinja_args *args)
{
    return hearth_jinja_bool(order(j, self, args, ">") == 1);
}

static value at_least(struct jinja *j, const value *self, const struct jinja_args *args)
{
    const int c = order(j, self, args, ">=");
    return hearth_jinja_bool(c == 0 || c == 1);
}

static value in(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value seq;
    hearth_jinja_bind(j, "in", args, "seq", 1, &seq);
    return hearth_jinja_bool(hearth_jinja_contains(j, &seq, self));
}

// Identity: the same object. Small values of one type are one.
static value sameas(struct jinja *j, const value *self, const struct jinja_args *args)
{
    value other;
    hearth_jinja_bind(j, "sameas", args, "other", 1, &other);
    if (self->type != other.type)
        return hearth_jinja_bool(false);
    if (self->type <= JINJA_STRING)
        return hearth_jinja_bool(hearth_jinja_equal(j, self, &other));
    return hearth_jinja_bool(self->u.dict == other.u.dict);
}

static value is_filter(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "filter", args, "", 0, NULL);
    const struct jinja_string *name = hearth_jinja_string_of(j, self);
    return hearth_jinja_bool(hearth_jinja_filter(name) || hearth_jinja_list_filter(name));
}

static value is_test(struct jinja *j, const value *self, const struct jinja_args *args)
{
    hearth_jinja_bind(j, "test", args, "", 0, NULL);
    return hearth_jinja_bool(hearth_jinja_test(hearth_jinja_string_of(j, self)));
}

jinja_fn hearth_jinja_test(const struct jinja_string *name)
{
    static const struct jinja_named table[] = {
        {"defined", defined},   {"undefined", undefined},
        {"none", none},         {"string", string},
        {"mapping", mapping},   {"iterable", iterable},
        {"sequence", sequence}, {"boolean", boolean},
        {"true", is_true},      {"false", is_false},
        {"integer", integer},   {"float", is_float},
        {"number", number},     {"callable", callable},
        {"lower", lower},       {"upper", upper},
        {"escaped", escaped},   {"odd", odd},
        {"even", even},         {"divisibleby", divisibleby},
        {"eq", equal},          {"equalto", equal},
        {"==", equal},          {"ne", unequal},
        {"!=", unequal},        {"lt", below},
        {"lessthan", below},    {"<", below},
        {"le", at_most},        {"<=", at_most},
        {"gt", above},          {"greaterthan", above},
        {">", above},           {"ge", at_least},
        {">=", at_least},       {"in", in},
        {"sameas", sameas},     {"filter", is_filter},
        {"test", is_test},
    };
    return hearth_jinja_named(table, sizeof table / sizeof table[0], name);
}
