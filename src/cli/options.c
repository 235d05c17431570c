// SPDX-License-Identifier: MIT
// Parses the command line by the option table. Messages say what would have been right.
#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/help.h"

const char *hearth_spelling_next(const char *list, char out[40])
{
    while (list && (*list == ' ' || *list == ','))
        list++;
    if (!list || !*list)
        return NULL;
    size_t n = strcspn(list, ", ");
    size_t kept = n < 39 ? n : 39;
    memcpy(out, list, kept);
    out[kept] = '\0';
    return list + n;
}

// ---- suggestions

#define DISTANCE_MAX 40

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

// Number of edits (insert, delete, replace, swap neighbours) that turn one word into the other.
static int edit_distance(const char *a, const char *b)
{
    int la = (int)strlen(a), lb = (int)strlen(b);
    if (la >= DISTANCE_MAX || lb >= DISTANCE_MAX)
        return DISTANCE_MAX;
    int d[DISTANCE_MAX][DISTANCE_MAX];
    for (int i = 0; i <= la; i++)
        d[i][0] = i;
    for (int j = 0; j <= lb; j++)
        d[0][j] = j;
    for (int i = 1; i <= la; i++)
        for (int j = 1; j <= lb; j++) {
            int cost = a[i - 1] != b[j - 1];
            d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    return d[la][lb];
}

static bool is_near(int distance, const char *word)
{
    size_t letters = strlen(word + strspn(word, "-"));
    return distance <= 1 + (int)letters / 4 && (size_t)distance < letters;
}

static bool lists_spelling(const char *list, const char *spelling)
{
    char word[40];
    while ((list = hearth_spelling_next(list, word)))
        if (!strcmp(word, spelling))
            return true;
    return false;
}

static const struct hearth_option *find_option(unsigned commands, const char *spelling)
{
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        if ((opt->commands & commands) &&
            (lists_spelling(opt->names, spelling) || lists_spelling(opt->aliases, spelling)))
            return opt;
    return NULL;
}

const char *hearth_option_for(const struct hearth_command *cmd, const char *param)
{
    static const struct {
        const char *param, *option;
    } table[] = {{"n_ctx", "-c"},
                 {"max_seqs", "-np"},
                 {"max_seqs", "-npl"},
                 {"kv_tokens", "--kv-size"},
                 {"n_ubatch", "-ub"},
                 {"n_threads", "-t"},
                 {"type_k", "-ctk"},
                 {"type_v", "-ctv"},
                 {"sparsity", "--sparsity"},
                 {"predict_threshold", "--predict-threshold"},
                 {"sparsity_threshold", "--sparsity-threshold"},
                 {"sparsity_share", "--sparsity-threshold"},
                 {"cpu", "--cpu"},
                 {"ram", "--ram"},
                 {"io", "--io"},
                 {"throttle", "--throttle"},
                 {"overlap", "--overlap"},
                 {"dynatemp_exponent", "--dynatemp-exp"},
                 {"repeat_penalty", "--repeat-penalty"},
                 {"repeat_last_n", "--repeat-last-n"},
                 {"dry_penalty_last_n", "--dry-penalty-last-n"},
                 {"dry_allowed_length", "--dry-allowed-length"},
                 {"mirostat", "--mirostat"},
                 {"logit_biases", "-l"},
                 {"samplers", "--samplers"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].param, param) && find_option(cmd->bit, table[i].option))
            return table[i].option;
    return NULL;
}

static int nearest_in(const char *list, const char *spelling, int best, char out[40])
{
    char word[40];
    while ((list = hearth_spelling_next(list, word))) {
        int distance = edit_distance(word, spelling);
        if (distance < best) {
            best = distance;
            memcpy(out, word, sizeof word);
        }
    }
    return best;
}

static int unknown_option(const struct hearth_command *cmd, const char *spelling)
{
    char nearest[40] = "";
    int best = DISTANCE_MAX;
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        if ((opt->commands & cmd->bit) && opt->help) {
            best = nearest_in(opt->names, spelling, best, nearest);
            best = nearest_in(opt->aliases, spelling, best, nearest);
        }
    const struct hearth_option *elsewhere = find_option(HEARTH_CMD_ALL, spelling);
    if (elsewhere && elsewhere->help) {
        for (const struct hearth_command *other = hearth_command_table; other->name; other++)
            if (elsewhere->commands & other->bit)
                return hearth_cli_usage(cmd, "%s is an option of hearth %s, not of hearth %s", spelling,
                                        other->name, cmd->name);
    }
    if (is_near(best, spelling))
        return hearth_cli_usage(cmd, "unknown option %s; did you mean %s?", spelling, nearest);
    return hearth_cli_usage(cmd, "unknown option %s", spelling);
}

const char *hearth_command_nearest(const char *name)
{
    const char *nearest = NULL;
    int best = DISTANCE_MAX;
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++) {
        int distance = edit_distance(cmd->name, name);
        if (distance < best) {
            best = distance;
            nearest = cmd->name;
        }
    }
    return nearest && is_near(best, name) ? nearest : NULL;
}

const struct hearth_command *hearth_command_find(const char *name)
{
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        if (!strcmp(cmd->name, name))
            return cmd;
    return NULL;
}

// ---- values

static bool parse_int(const char *text, const char **end, int64_t *out)
{
    char *stop;
    errno = 0;
    long long v = strtoll(text, &stop, 10);
    if (stop == text || errno || *text == ' ')
        return false;
    *end = stop;
    *out = v;
    return true;
}

static bool parse_float(const char *text, const char **end, double *out)
{
    char *stop;
    *out = strtod(text, &stop);
    if (stop == text || !isfinite(*out) || *text == ' ')
        return false;
    *end = stop;
    return true;
}

// "all", "auto".
static bool parse_word_for_budget(const char *text, uint64_t *out)
{
    *out = strcmp(text, "all") ? 0 : HEARTH_BUDGET_ALL;
    return !strcmp(text, "all") || !strcmp(text, "auto");
}

// "4096", "64K", "1.5G".
static bool parse_size(const char *text, uint64_t *out)
{
    const char *end;
    double v;
    if (!parse_float(text, &end, &v) || v < 0 || strchr(text, 'x') || strchr(text, 'X'))
        return false;
    double unit = 1;
    if (*end == 'K' || *end == 'k')
        unit = 1024;
    else if (*end == 'M' || *end == 'm')
        unit = 1024.0 * 1024;
    else if (*end == 'G' || *end == 'g')
        unit = 1024.0 * 1024 * 1024;
    end += unit > 1;
    if (*end || v * unit >= 9.0e18)
        return false;
    *out = (uint64_t)(v * unit);
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

static bool in_range(const struct hearth_option *opt, double v)
{
    return v >= opt->min && v <= opt->max;
}

static bool parse_list(const struct hearth_option *opt, const char *text, struct hearth_int_list *out)
{
    out->n = 0;
    for (;;) {
        int64_t v;
        if (out->n == HEARTH_INT_LIST_MAX || !parse_int(text, &text, &v) || !in_range(opt, (double)v))
            return false;
        out->values[out->n++] = v;
        if (!*text)
            return true;
        if (*text++ != ',')
            return false;
    }
}

// Describes the values that an option accepts, for messages: "a whole number from 1 to 256".
static void describe_value(const struct hearth_option *opt, char *out, size_t size)
{
    char max[40] = "";
    if (opt->max < 2147483647.0)
        snprintf(max, sizeof max, " to %.10g", opt->max);
    switch (opt->kind) {
    case HEARTH_OPTION_INT:
        snprintf(out, size, "a whole number from %.10g%s", opt->min,
                 opt->max == 4294967295.0 ? " to 4294967295" : max);
        break;
    case HEARTH_OPTION_FLOAT:
        snprintf(out, size, "a number from %.10g%s", opt->min, max);
        break;
    case HEARTH_OPTION_MAGNITUDE:
        snprintf(out, size, "a number from 0, or a share such as 40%%");
        break;
    case HEARTH_OPTION_SIZE:
        snprintf(out, size, "a size such as 4096, 512M or 2G, from %.10g to %.10gG", opt->min,
                 opt->max / 1073741824.0);
        break;
    case HEARTH_OPTION_BUDGET:
        snprintf(out, size, "a size such as 512M or 2G, all, or auto");
        break;
    case HEARTH_OPTION_INT_LIST:
        snprintf(out, size, "at most %d whole numbers from %.10g%s, separated by commas", HEARTH_INT_LIST_MAX,
                 opt->min, max);
        break;
    case HEARTH_OPTION_STRING_LIST:
        snprintf(out, size, "given at most %d times", HEARTH_STRING_LIST_MAX);
        break;
    case HEARTH_OPTION_ENUM: {
        snprintf(out, size, "one of ");
        size_t used = strlen(out);
        for (const char *c = opt->choices; *c && used + 3 < size; c++) {
            if (*c == '|') {
                out[used++] = ',';
                out[used++] = ' ';
            } else {
                out[used++] = *c;
            }
        }
        out[used] = '\0';
        break;
    }
    default:
        snprintf(out, size, "a value");
        break;
    }
}

// Stores the value. False: the text is not a value of this option.
static bool set_value(const struct hearth_option *opt, const char *text, struct hearth_options *o)
{
    void *field = (char *)o + opt->offset;
    const char *end;
    int64_t i;
    double f;
    uint64_t size;
    switch (opt->kind) {
    case HEARTH_OPTION_INT:
        if (!parse_int(text, &end, &i) || *end || !in_range(opt, (double)i))
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
    case HEARTH_OPTION_BUDGET:
        if (parse_word_for_budget(text, &size)) {
            memcpy(field, &size, sizeof size);
            return true;
        }
        // fallthrough
    case HEARTH_OPTION_SIZE:
        if (!parse_size(text, &size) || !in_range(opt, (double)size))
            return false;
        memcpy(field, &size, sizeof size);
        return true;
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
    case HEARTH_OPTION_INT_LIST: {
        struct hearth_int_list list;
        if (!parse_list(opt, text, &list))
            return false;
        memcpy(field, &list, sizeof list);
        return true;
    }
    default:
        return false;
    }
}

// ---- arguments

struct parser {
    const struct hearth_command *cmd;
    struct hearth_options *o;
    int argc, at;
    char **argv;
};

static void set_defaults(const struct hearth_command *cmd, struct hearth_options *o)
{
    memset(o, 0, sizeof *o);
    o->n_ctx = -1;
    o->predict_threshold = (double)NAN;
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        if ((opt->commands & cmd->bit) && opt->def)
            set_value(opt, opt->def, o);
}

// Whether the text looks like the value of an ignored flag of llama.cpp. The value may be missing
// (older spellings of -fa).
static bool looks_like_ignored_value(const char *text)
{
    return strspn(text, "-0123456789") == strlen(text) || !strcmp(text, "on") || !strcmp(text, "off") ||
           !strcmp(text, "auto") || !strcmp(text, "all");
}

static int take_value(struct parser *p, const struct hearth_option *opt, const char *spelling,
                      const char *attached)
{
    const char *value = attached;
    if (!value && p->at < p->argc)
        value = p->argv[p->at++];
    char wanted[160];
    describe_value(opt, wanted, sizeof wanted);
    if (!value)
        return hearth_cli_usage(p->cmd, "%s needs %s", spelling, wanted);
    if (!set_value(opt, value, p->o))
        return hearth_cli_usage(p->cmd, "%s %s: must be %s", spelling, value, wanted);
    return -1;
}

static int take_option(struct parser *p, const char *arg)
{
    char spelling[80];
    const char *attached = NULL;
    const struct hearth_option *opt = find_option(p->cmd->bit, arg);
    size_t n = strcspn(arg, "=");
    if (!opt && arg[n] && n < sizeof spelling) {
        memcpy(spelling, arg, n);
        spelling[n] = '\0';
        attached = arg + n + 1;
        opt = find_option(p->cmd->bit, spelling);
        arg = spelling;
    }
    if (!opt)
        return unknown_option(p->cmd, arg);

    switch (opt->kind) {
    case HEARTH_OPTION_FLAG:
    case HEARTH_OPTION_FLAG_OFF: {
        if (attached)
            return hearth_cli_usage(p->cmd, "%s takes no value", arg);
        bool on = opt->kind == HEARTH_OPTION_FLAG;
        memcpy((char *)p->o + opt->offset, &on, sizeof on);
        return -1;
    }
    case HEARTH_OPTION_HELP:
        hearth_help(p->cmd, p->at < p->argc ? p->argv[p->at] : NULL);
        return HEARTH_EXIT_OK;
    case HEARTH_OPTION_IGNORED_VALUE:
        if (!attached && p->at < p->argc && looks_like_ignored_value(p->argv[p->at]))
            p->at++;
        hearth_cli_warn("%s has no meaning here and is ignored", arg);
        return -1;
    case HEARTH_OPTION_IGNORED:
        hearth_cli_warn("%s has no meaning here and is ignored", arg);
        return -1;
    default:
        return take_value(p, opt, arg, attached);
    }
}

static const char **positional_field(struct hearth_options *o, const struct hearth_positional *pos)
{
    return (const char **)(void *)((char *)o + pos->offset);
}

static int take_positional(struct parser *p, const char *arg)
{
    for (const struct hearth_positional *pos = p->cmd->positionals; pos->name; pos++) {
        const char **field = positional_field(p->o, pos);
        if (!*field) {
            *field = arg;
            return -1;
        }
    }
    return hearth_cli_usage(p->cmd, "unexpected argument \"%s\"", arg);
}

int hearth_options_parse(const struct hearth_command *cmd, int argc, char **argv, struct hearth_options *o)
{
    struct parser p = {.cmd = cmd, .o = o, .argc = argc, .argv = argv};
    set_defaults(cmd, o);
    bool options_end = false;
    while (p.at < argc) {
        const char *arg = argv[p.at++];
        int rc = -1;
        if (!options_end && !strcmp(arg, "--"))
            options_end = true;
        else if (!options_end && arg[0] == '-' && arg[1])
            rc = take_option(&p, arg);
        else
            rc = take_positional(&p, arg);
        if (rc >= 0)
            return rc;
    }
    for (const struct hearth_positional *pos = cmd->positionals; pos->name; pos++)
        if (pos->name[0] != '[' && !*positional_field(o, pos))
            return hearth_cli_usage(cmd, "%s is missing", pos->name);
    return -1;
}
