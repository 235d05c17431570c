// SPDX-License-Identifier: MIT
// The values of options: from text to fields of struct hearth_options.
#include "cli/values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/free_memory.h"

static bool parse_int(const char *text, const char **end, int64_t *out)
{
    char *stop;
    errno = 0;
    long long v = strtoll(text, &stop, 10);
    if (stop == text || errno || isspace((unsigned char)*text))
        return false;
    *end = stop;
    *out = v;
    return true;
}

// "4096", "128k", "1m": 1024 and its square.
static bool parse_tokens(const char *text, const char **end, int64_t *out)
{
    if (!parse_int(text, end, out))
        return false;
    const char *unit = **end ? strchr("km", tolower((unsigned char)**end)) : NULL;
    const int64_t times = !unit ? 1 : *unit == 'k' ? 1 << 10 : 1 << 20;
    *end += unit != NULL;
    return !__builtin_mul_overflow(*out, times, out);
}

static bool parse_float(const char *text, const char **end, double *out)
{
    char *stop;
    *out = strtod(text, &stop);
    if (stop == text || !isfinite(*out) || isspace((unsigned char)*text) || strpbrk(text, "xX"))
        return false;
    *end = stop;
    return true;
}

static bool in_range(const struct hearth_option *opt, double v)
{
    return v >= opt->min && v <= opt->max;
}

// "4096", "64K", "1.5G", "4GB", "4GiB": powers of 1024 all, as for Docker. *has_unit: it is more than a
// number.
static bool parse_size(const char *text, uint64_t *out, bool *has_unit)
{
    static const char units[] = "kmgt";
    const char *end;
    double v;
    if (!parse_float(text, &end, &v) || v < 0)
        return false;
    end += *end == ' ';
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    for (const char *u = units; unit && u <= unit; u++)
        v *= 1024;
    end += unit != NULL;
    *has_unit = unit || *end;
    if (*end && strcasecmp(end, "b") != 0 && (!unit || strcasecmp(end, "ib") != 0))
        return false;
    if (v >= 9.0e18)
        return false;
    *out = (uint64_t)v;
    return true;
}

// "80%" of this machine's memory, or of what control groups leave of it.
static bool parse_share_of_memory(const char *text, struct hearth_ram *out)
{
    const char *end;
    double v;
    if (!parse_float(text, &end, &v) || v <= 0 || v > 100 || strcmp(end, "%") != 0)
        return false;
    *out = (struct hearth_ram){(uint64_t)(v / 100 * (double)hearth_memory_limit("")), v};
    return true;
}

// A number below this, without a unit, is not meant in bytes.
#define LEAST_BYTES 65536

static bool parse_word_for_budget(const char *text, uint64_t *out)
{
    static const struct {
        const char *word;
        uint64_t bytes;
    } words[] = {{"auto", 0}, {"all", HEARTH_BUDGET_ALL}, {"min", HEARTH_BUDGET_MIN}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i].word)) {
            *out = words[i].bytes;
            return true;
        }
    return false;
}

static bool parse_size_in_range(const struct hearth_option *opt, const char *text, uint64_t *out)
{
    bool has_unit;
    return parse_size(text, out, &has_unit) && in_range(opt, (double)*out) &&
           (!*out || *out >= LEAST_BYTES || has_unit);
}

static bool set_size(const struct hearth_option *opt, const char *text, void *field)
{
    uint64_t size;
    if (!parse_size_in_range(opt, text, &size))
        return false;
    memcpy(field, &size, sizeof size);
    return true;
}

static bool set_sizes(const struct hearth_option *opt, const char *text, struct hearth_size_list *out)
{
    for (out->n = 0;;) {
        char word[40];
        const size_t n = strcspn(text, ",");
        if (out->n == HEARTH_DEVICES_MOST || n >= sizeof word)
            return false;
        memcpy(word, text, n);
        word[n] = '\0';
        if (!parse_size_in_range(opt, word, &out->values[out->n++]))
            return false;
        if (!text[n])
            return true;
        text += n + 1;
    }
}

static bool set_shares(const struct hearth_option *opt, const char *text, struct hearth_share_list *out)
{
    for (out->n = 0;;) {
        double v;
        if (out->n == HEARTH_DEVICES_MOST || !parse_float(text, &text, &v) || !in_range(opt, v))
            return false;
        out->values[out->n++] = (float)v;
        if (!*text)
            return true;
        if (*text != ',' && *text != '/')
            return false;
        text++;
    }
}

static bool set_budget(const struct hearth_option *opt, const char *text, void *field)
{
    struct hearth_ram ram = {0};
    if (!parse_word_for_budget(text, &ram.bytes) && !parse_share_of_memory(text, &ram) &&
        !parse_size_in_range(opt, text, &ram.bytes))
        return false;
    memcpy(field, &ram, sizeof ram);
    return true;
}

static bool parse_choice(const char *choices, const char *text, int *out)
{
    for (int i = 0; choices; i++) {
        size_t n = strcspn(choices, "|");
        if (strlen(text) == n && !strncmp(choices, text, n)) {
            *out = i;
            return true;
        }
        choices = choices[n] ? choices + n + 1 : NULL;
    }
    return false;
}

static bool parse_list(const struct hearth_option *opt, const char *text, struct hearth_int_list *out)
{
    for (;;) {
        int64_t v;
        const bool is_int = opt->kind == HEARTH_OPTION_TOKENS_LIST ? parse_tokens(text, &text, &v)
                                                                   : parse_int(text, &text, &v);
        if (out->n == HEARTH_INT_LIST_MAX || !is_int || !in_range(opt, (double)v))
            return false;
        out->values[out->n++] = v;
        if (!*text)
            return true;
        if (*text++ != ',')
            return false;
    }
}

// Like parse_list(), of words among the choices; the list gets their indices.
static bool parse_choices(const struct hearth_option *opt, const char *text, struct hearth_int_list *out)
{
    for (;;) {
        char word[40];
        int choice;
        const size_t n = strcspn(text, ",");
        if (out->n == HEARTH_INT_LIST_MAX || n >= sizeof word)
            return false;
        memcpy(word, text, n);
        word[n] = '\0';
        if (!parse_choice(opt->choices, word, &choice))
            return false;
        out->values[out->n++] = choice;
        if (!text[n])
            return true;
        text += n + 1;
    }
}

bool hearth_value_set(const struct hearth_option *opt, const char *text, struct hearth_options *o)
{
    void *field = (char *)o + opt->offset;
    const char *end;
    int64_t i;
    double f;
    switch (opt->kind) {
    case HEARTH_OPTION_INT:
    case HEARTH_OPTION_TOKENS:
        if (!(opt->kind == HEARTH_OPTION_INT ? parse_int : parse_tokens)(text, &end, &i) || *end ||
            !in_range(opt, (double)i))
            return false;
        memcpy(field, &i, sizeof i);
        return true;
    case HEARTH_OPTION_FLOAT:
        if (!parse_float(text, &end, &f) || *end || !in_range(opt, f))
            return false;
        memcpy(field, &f, sizeof f);
        return true;
    case HEARTH_OPTION_MAGNITUDE: {
        if (!parse_float(text, &end, &f) || !in_range(opt, f))
            return false;
        const bool share = *end == '%';
        if (end[share] || (share && f >= 100))
            return false;
        const struct hearth_magnitude magnitude = {share ? 0 : f, share ? f / 100 : 0};
        memcpy(field, &magnitude, sizeof magnitude);
        return true;
    }
    case HEARTH_OPTION_SIZE:
        return set_size(opt, text, field);
    case HEARTH_OPTION_SIZE_LIST:
        return set_sizes(opt, text, field);
    case HEARTH_OPTION_SHARE_LIST:
        return set_shares(opt, text, field);
    case HEARTH_OPTION_BUDGET:
        return set_budget(opt, text, field);
    case HEARTH_OPTION_STRING:
        memcpy(field, &text, sizeof text);
        return true;
    case HEARTH_OPTION_STRING_LIST: {
        struct hearth_string_list *list = field;
        if (list->n == HEARTH_STRING_LIST_MAX)
            return false;
        list->values[list->n++] = text;
        return true;
    }
    case HEARTH_OPTION_ENUM: {
        int choice;
        if (!parse_choice(opt->choices, text, &choice))
            return false;
        memcpy(field, &choice, sizeof choice);
        return true;
    }
    case HEARTH_OPTION_INT_LIST:
    case HEARTH_OPTION_TOKENS_LIST:
        return parse_list(opt, text, field);
    case HEARTH_OPTION_ENUM_LIST:
        return parse_choices(opt, text, field);
    default:
        return false;
    }
}

void hearth_value_clear(const struct hearth_option *opt, struct hearth_options *o)
{
    void *field = (char *)o + opt->offset;
    if (opt->kind == HEARTH_OPTION_INT_LIST || opt->kind == HEARTH_OPTION_TOKENS_LIST ||
        opt->kind == HEARTH_OPTION_ENUM_LIST)
        ((struct hearth_int_list *)field)->n = 0;
    if (opt->kind == HEARTH_OPTION_SIZE_LIST)
        ((struct hearth_size_list *)field)->n = 0;
    if (opt->kind == HEARTH_OPTION_SHARE_LIST)
        ((struct hearth_share_list *)field)->n = 0;
}

// ---- messages

void hearth_value_choices(const char *choices, char *out, size_t size)
{
    size_t used = 0;
    for (; *choices && used + 3 < size; choices++) {
        if (*choices == '|')
            out[used++] = ',';
        out[used++] = *choices == '|' ? ' ' : *choices;
    }
    out[used] = '\0';
}

void hearth_value_describe(const struct hearth_option *opt, char *out, size_t size)
{
    char max[40] = "", choices[200] = "";
    if (opt->max != 2147483647.0) // all that fits is no limit worth words
        snprintf(max, sizeof max, " to %.10g", opt->max);
    if (opt->choices)
        hearth_value_choices(opt->choices, choices, sizeof choices);
    switch (opt->kind) {
    case HEARTH_OPTION_INT:
    case HEARTH_OPTION_TOKENS:
        snprintf(out, size, "a whole number from %.10g%s%s", opt->min, max,
                 opt->kind == HEARTH_OPTION_TOKENS ? ", such as 4096 or 8k" : "");
        break;
    case HEARTH_OPTION_FLOAT:
        snprintf(out, size, "a number from %.10g%s", opt->min, max);
        break;
    case HEARTH_OPTION_MAGNITUDE:
        snprintf(out, size, "a number from 0, or a share such as 40%%");
        break;
    case HEARTH_OPTION_SIZE:
        snprintf(out, size, "a size such as 512M or 2G");
        break;
    case HEARTH_OPTION_SIZE_LIST:
        snprintf(out, size, "a size such as 512M or 2G, or at most %d of them, separated by commas",
                 HEARTH_DEVICES_MOST);
        break;
    case HEARTH_OPTION_SHARE_LIST:
        snprintf(out, size, "at most %d numbers from %.10g, separated by commas", HEARTH_DEVICES_MOST,
                 opt->min);
        break;
    case HEARTH_OPTION_BUDGET:
        snprintf(
            out, size,
            "a size such as 900M or 4G, a share of this machine's memory such as 80%%, min, all, or auto");
        break;
    case HEARTH_OPTION_INT_LIST:
    case HEARTH_OPTION_TOKENS_LIST:
        snprintf(out, size, "at most %d whole numbers from %.10g%s, separated by commas", HEARTH_INT_LIST_MAX,
                 opt->min, max);
        break;
    case HEARTH_OPTION_STRING_LIST:
        snprintf(out, size, "given at most %d times", HEARTH_STRING_LIST_MAX);
        break;
    case HEARTH_OPTION_ENUM:
        snprintf(out, size, "one of %s", choices);
        break;
    case HEARTH_OPTION_ENUM_LIST:
        snprintf(out, size, "of %s, separated by commas", choices);
        break;
    default:
        snprintf(out, size, "a value");
        break;
    }
}

void hearth_value_complain(const struct hearth_option *opt, const char *text, char *out, size_t size)
{
    const bool is_size = opt->kind == HEARTH_OPTION_SIZE || opt->kind == HEARTH_OPTION_SIZE_LIST ||
                         opt->kind == HEARTH_OPTION_BUDGET;
    uint64_t bytes;
    bool has_unit;
    if (is_size && parse_size(text, &bytes, &has_unit) && !has_unit && bytes < LEAST_BYTES)
        snprintf(out, size, "that would be bytes; did you mean %sG or %sM?", text, text);
    else {
        snprintf(out, size, "must be ");
        hearth_value_describe(opt, out + strlen(out), size - strlen(out));
        if (opt->kind == HEARTH_OPTION_BUDGET && opt->commands == HEARTH_CMD_PLAN && strchr(text, ','))
            snprintf(out + strlen(out), size - strlen(out), "; --explain shows the speed with all sizes");
    }
}
