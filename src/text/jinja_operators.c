// SPDX-License-Identifier: MIT
// Python's operators. Integers have 64 bits; what Python would go on with in more is an error.
#include <math.h>
#include <string.h>

#include "text/jinja.h"

static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

static bool is_whole(const struct jinja_value *v)
{
    return v->type == JINJA_INT || v->type == JINJA_BOOL;
}

static int64_t whole(const struct jinja_value *v)
{
    return v->type == JINJA_BOOL ? v->u.b : v->u.i;
}

static double real(const struct jinja_value *v)
{
    return v->type == JINJA_FLOAT ? v->u.f : (double)whole(v);
}

_Noreturn static void too_large(struct jinja *j)
{
    hearth_jinja_fail(j, "an integer beyond 64 bits");
}

static int64_t floor_divide(struct jinja *j, int64_t a, int64_t b)
{
    if (b == -1) {
        if (a == INT64_MIN)
            too_large(j);
        return -a;
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t modulo(int64_t a, int64_t b)
{
    if (b == -1)
        return 0;
    const int64_t r = a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}

static struct jinja_value power(struct jinja *j, int64_t a, int64_t b)
{
    int64_t result = 1;
    if (b < 0) {
        if (!a)
            hearth_jinja_fail(j, "0.0 cannot be raised to a negative power");
        return hearth_jinja_float(pow((double)a, (double)b));
    }
    if (a == 0 || a == 1)
        return hearth_jinja_int(b ? a : 1);
    if (a == -1)
        return hearth_jinja_int(b % 2 ? -1 : 1);
    for (; b; b--)
        if (__builtin_mul_overflow(result, a, &result))
            too_large(j);
    return hearth_jinja_int(result);
}

static struct jinja_value operate_whole(struct jinja *j, enum jinja_operator op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    if (!b && (op == JINJA_DIVIDE || op == JINJA_FLOOR_DIVIDE || op == JINJA_MODULO))
        hearth_jinja_fail(j, "division by zero");
    switch (op) {
    case JINJA_ADD:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case JINJA_SUBTRACT:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case JINJA_MULTIPLY:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    case JINJA_DIVIDE:
        return hearth_jinja_float((double)a / (double)b);
    case JINJA_FLOOR_DIVIDE:
        result = floor_divide(j, a, b);
        break;
    case JINJA_MODULO:
        result = modulo(a, b);
        break;
    case JINJA_POWER:
        return power(j, a, b);
    }
    if (overflow)
        too_large(j);
    return hearth_jinja_int(result);
}

static double real_modulo(double a, double b)
{
    const double r = fmod(a, b);
    if (r == 0)
        return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static double real_floor_divide(double a, double b)
{
    const double r = real_modulo(a, b), quotient = (a - r) / b;
    const double down = floor(quotient);
    return quotient - down > 0.5 ? down + 1 : down;
}

static struct jinja_value operate_real(struct jinja *j, enum jinja_operator op, double a, double b)
{
    if (b == 0 && (op == JINJA_DIVIDE || op == JINJA_FLOOR_DIVIDE || op == JINJA_MODULO))
        hearth_jinja_fail(j, "division by zero");
    switch (op) {
    case JINJA_ADD:
        return hearth_jinja_float(a + b);
    case JINJA_SUBTRACT:
        return hearth_jinja_float(a - b);
    case JINJA_MULTIPLY:
        return hearth_jinja_float(a * b);
    case JINJA_DIVIDE:
        return hearth_jinja_float(a / b);
    case JINJA_FLOOR_DIVIDE:
        return hearth_jinja_float(real_floor_divide(a, b));
    case JINJA_MODULO:
        return hearth_jinja_float(real_modulo(a, b));
    default:
        if (a < 0 && floor(b) != b)
            hearth_jinja_fail(j, "a root of a negative number");
        return hearth_jinja_float(pow(a, b));
    }
}

static struct jinja_value repeat(struct jinja *j, const struct jinja_value *v, int64_t n)
{
    if (v->type == JINJA_STRING) {
        struct jinja_builder b = {.j = j};
        if (!v->u.s->n)
            return *v;
        for (; n > 0; n--) {
            hearth_jinja_put_string(&b, v->u.s);
            hearth_jinja_work(j, 1);
        }
        return hearth_jinja_built(&b);
    }
    const struct jinja_value out = hearth_jinja_list(j, v->u.list->kind);
    const size_t length = v->u.list->n;
    for (; n > 0 && length; n--)
        for (size_t i = 0; i < length; i++)
            hearth_jinja_append(j, out.u.list, v->u.list->v[i]);
    return out;
}

static bool repeats(const struct jinja_value *v)
{
    return v->type == JINJA_STRING || (v->type == JINJA_LIST && v->u.list->kind <= JINJA_TUPLE);
}

static struct jinja_value add_strings(struct jinja *j, const struct jinja_string *a,
                                      const struct jinja_string *b)
{
    struct jinja_builder sum = {.j = j, .markup = a->markup || b->markup};
    if (sum.markup && !a->markup)
        hearth_jinja_put_escaped(&sum, a);
    else
        hearth_jinja_put_string(&sum, a);
    if (sum.markup && !b->markup)
        hearth_jinja_put_escaped(&sum, b);
    else
        hearth_jinja_put_string(&sum, b);
    return hearth_jinja_built(&sum);
}

static struct jinja_value add_lists(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b)
{
    const struct jinja_value sum = hearth_jinja_list(j, a->kind);
    for (size_t i = 0; i < a->n; i++)
        hearth_jinja_append(j, sum.u.list, a->v[i]);
    for (size_t i = 0; i < b->n; i++)
        hearth_jinja_append(j, sum.u.list, b->v[i]);
    return sum;
}

struct jinja_value hearth_jinja_operate(struct jinja *j, enum jinja_operator op, const struct jinja_value *a,
                                        const struct jinja_value *b)
{
    const bool numbers = (is_whole(a) || a->type == JINJA_FLOAT) && (is_whole(b) || b->type == JINJA_FLOAT);
    if (a->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, a);
    if (op == JINJA_MODULO && a->type == JINJA_STRING)
        return hearth_jinja_percent(j, a->u.s, b);
    if (b->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, b);
    if (is_whole(a) && is_whole(b))
        return operate_whole(j, op, whole(a), whole(b));
    if (numbers)
        return operate_real(j, op, real(a), real(b));
    if (op == JINJA_ADD && a->type == JINJA_STRING && b->type == JINJA_STRING)
        return add_strings(j, a->u.s, b->u.s);
    if (op == JINJA_ADD && a->type == JINJA_LIST && b->type == JINJA_LIST && repeats(a) &&
        a->u.list->kind == b->u.list->kind)
        return add_lists(j, a->u.list, b->u.list);
    if (op == JINJA_MULTIPLY && repeats(a) && is_whole(b))
        return repeat(j, a, whole(b));
    if (op == JINJA_MULTIPLY && repeats(b) && is_whole(a))
        return repeat(j, b, whole(a));
    hearth_jinja_fail(j, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op], hearth_jinja_type(a),
                      hearth_jinja_type(b));
}

struct jinja_value hearth_jinja_negate(struct jinja *j, const struct jinja_value *v)
{
    if (v->type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, v);
    if (v->type == JINJA_FLOAT)
        return hearth_jinja_float(-v->u.f);
    if (!is_whole(v))
        hearth_jinja_fail(j, "bad operand type for unary -: '%s'", hearth_jinja_type(v));
    if (whole(v) == INT64_MIN)
        too_large(j);
    return hearth_jinja_int(-whole(v));
}
