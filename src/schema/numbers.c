// SPDX-License-Identifier: MIT
// Numbers between bounds, as patterns of digits.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schema/insides.h"

// Digits that numbers without a bound may have before and behind the point.
#define DIGITS "15"

// ---- ranges of digits

// Whether s[0..n) is all `digit`.
static bool all(const char *s, int n, char digit)
{
    for (int i = 0; i < n; i++)
        if (s[i] != digit)
            return false;
    return true;
}

static void add_any_digits(struct hearth_text *t, int n)
{
    if (n == 1)
        hearth_text_add(t, " [0-9]");
    else if (n > 1)
        hearth_text_format(t, " [0-9]{%d}", n);
}

// Numbers of n digits from lo to hi.
static void add_same_length(struct hearth_text *t, const char *lo, const char *hi, int n)
{
    int same = 0;
    while (same < n && lo[same] == hi[same])
        same++;
    if (same)
        hearth_text_format(t, " \"%.*s\"", same, lo);
    if (same == n)
        return;
    lo += same;
    hi += same;
    n -= same;
    // The first digit of lo with what is not below the rest of lo, digits between, that of hi.
    const bool low_all = all(lo + 1, n - 1, '0'), high_all = all(hi + 1, n - 1, '9');
    const char from = (char)(low_all ? lo[0] : lo[0] + 1), to = (char)(high_all ? hi[0] : hi[0] - 1);
    char nines[24], zeros[24];
    memset(nines, '9', sizeof nines);
    memset(zeros, '0', sizeof zeros);
    const char *bar = "";
    hearth_text_add(t, " (");
    if (!low_all) {
        hearth_text_format(t, "\"%c\"", lo[0]);
        add_same_length(t, lo + 1, nines, n - 1);
        bar = " | ";
    }
    if (from <= to) {
        hearth_text_format(t, from == to ? "%s[%c]" : "%s[%c-%c]", bar, from, to);
        add_any_digits(t, n - 1);
        bar = " | ";
    }
    if (!high_all) {
        hearth_text_format(t, "%s\"%c\"", bar, hi[0]);
        add_same_length(t, zeros, hi + 1, n - 1);
    }
    hearth_text_add(t, ")");
}

// Numbers from lo to hi, without a sign; hi UINT64_MAX: no end.
static void add_range(struct hearth_text *t, uint64_t lo, uint64_t hi)
{
    char first[24], last[24];
    const char *bar = "";
    hearth_text_add(t, " (");
    for (;;) {
        // One length of numbers at a time.
        const int n = snprintf(first, sizeof first, "%llu", (unsigned long long)lo);
        if (hi == UINT64_MAX && n >= atoi(DIGITS)) {
            hearth_text_add(t, bar);
            memset(last, '9', (size_t)n);
            add_same_length(t, first, last, n);
            break;
        }
        uint64_t end = 9;
        for (int i = 1; i < n; i++)
            end = end > (UINT64_MAX - 9) / 10 ? UINT64_MAX : end * 10 + 9;
        end = end < hi ? end : hi;
        snprintf(last, sizeof last, "%llu", (unsigned long long)end);
        hearth_text_add(t, bar);
        add_same_length(t, first, last, n);
        bar = " |";
        if (end == hi)
            break;
        lo = end + 1;
    }
    hearth_text_add(t, ")");
}

// ---- bounds

struct bound {
    bool is, excluded;
    double value;
};

static int read_bound(struct hearth_conversion *c, const json_t *schema, const char *name, bool excludes,
                      int sign, struct bound *b)
{
    const json_t *v = json_object_get(schema, name);
    if (!v || (excludes && json_is_false(v)))
        return HEARTH_OK;
    if (json_is_boolean(v)) // draft 4: it says of minimum or maximum that it is excluded
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "%s is a number now, not true", name);
    if (!json_is_number(v))
        return hearth_schema_fail(c, HEARTH_E_FORMAT, "%s must be a number", name);
    const double value = json_number_value(v);
    if (!(fabs(value) <= 999999999999999.0))
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "%s of more than 15 digits", name);
    // The narrower of two counts; at equal ones the one that excludes.
    if (!b->is || value * sign > b->value * sign || (value == b->value && excludes))
        *b = (struct bound){true, excludes, value};
    return HEARTH_OK;
}

static int read_bounds(struct hearth_conversion *c, const json_t *schema, struct bound *lo, struct bound *hi)
{
    int rc = read_bound(c, schema, "minimum", false, 1, lo);
    if (!rc)
        rc = read_bound(c, schema, "exclusiveMinimum", true, 1, lo);
    if (!rc)
        rc = read_bound(c, schema, "maximum", false, -1, hi);
    if (!rc)
        rc = read_bound(c, schema, "exclusiveMaximum", true, -1, hi);
    return rc;
}

static int nothing_fits(struct hearth_conversion *c)
{
    return hearth_schema_fail(c, HEARTH_E_INVALID, "no number is between minimum and maximum");
}

// ---- integers

static int add_integer(struct hearth_conversion *c, struct bound lo, struct bound hi, struct hearth_text *out)
{
    const double least = lo.excluded ? floor(lo.value) + 1 : ceil(lo.value),
                 most = hi.excluded ? ceil(hi.value) - 1 : floor(hi.value);
    if (lo.is && hi.is && least > most)
        return nothing_fits(c);
    const bool negative = !lo.is || least < 0, positive = !hi.is || most >= 0;
    hearth_text_add(out, "(");
    if (negative) {
        hearth_text_add(out, "\"-\"");
        add_range(out, hi.is && most < 0 ? (uint64_t)-most : 1, lo.is ? (uint64_t)-least : UINT64_MAX);
    }
    if (negative && positive)
        hearth_text_add(out, " |");
    if (positive)
        add_range(out, lo.is && least > 0 ? (uint64_t)least : 0, hi.is ? (uint64_t)most : UINT64_MAX);
    hearth_text_add(out, ")");
    return HEARTH_OK;
}

// ---- numbers with a point

// Numbers without a sign from a to b, whole ones; b UINT64_MAX: no end.
static void add_decimals(struct hearth_text *out, uint64_t a, bool without_a, uint64_t b, bool without_b)
{
    const char *bar = "";
    hearth_text_add(out, " (");
    if (without_a && a < b) {
        hearth_text_format(out, "\"%llu.\" [0-9]{0,14} [1-9]", (unsigned long long)a);
        bar = " | ";
    }
    const uint64_t first = a + without_a;
    if (first < b) {
        hearth_text_add(out, bar);
        add_range(out, first, b == UINT64_MAX ? b : b - 1);
        hearth_text_add(out, " (\".\" [0-9]{1," DIGITS "})?");
        bar = " | ";
    }
    if (b != UINT64_MAX && !without_b && !(without_a && a == b))
        hearth_text_format(out, "%s\"%llu\" (\".\" \"0\"{1," DIGITS "})?", bar, (unsigned long long)b);
    hearth_text_add(out, ")");
}

static int add_number(struct hearth_conversion *c, struct bound lo, struct bound hi, struct hearth_text *out)
{
    if ((lo.is && lo.value != floor(lo.value)) || (hi.is && hi.value != floor(hi.value)))
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED,
                                  "minimum and maximum of numbers must be whole numbers");
    if (lo.is && hi.is && (lo.value > hi.value || (lo.value == hi.value && (lo.excluded || hi.excluded))))
        return nothing_fits(c);
    const bool negative = !lo.is || lo.value < 0,
               positive = !hi.is || hi.value > 0 || (hi.value == 0 && !hi.excluded);
    hearth_text_add(out, "(");
    if (negative) {
        // From the nearer to 0 to the farther.
        const bool below = hi.is && hi.value < 0;
        hearth_text_add(out, "\"-\"");
        add_decimals(out, below ? (uint64_t)-hi.value : 0, below ? hi.excluded : true,
                     lo.is ? (uint64_t)-lo.value : UINT64_MAX, lo.excluded);
    }
    if (negative && positive)
        hearth_text_add(out, " |");
    if (positive) {
        const bool above = lo.is && lo.value >= 0;
        add_decimals(out, above ? (uint64_t)lo.value : 0, above && lo.excluded,
                     hi.is ? (uint64_t)hi.value : UINT64_MAX, hi.excluded);
    }
    hearth_text_add(out, ")");
    return HEARTH_OK;
}

int hearth_schema_number(struct hearth_conversion *c, const json_t *schema, bool whole,
                         struct hearth_text *out)
{
    struct bound lo = {0}, hi = {0};
    const int rc = read_bounds(c, schema, &lo, &hi);
    if (rc)
        return rc;
    if (!lo.is && !hi.is) {
        hearth_text_add(out, whole ? "integer" : "number");
        return HEARTH_OK;
    }
    return whole ? add_integer(c, lo, hi, out) : add_number(c, lo, hi, out);
}
