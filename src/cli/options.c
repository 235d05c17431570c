// SPDX-License-Identifier: MIT
// Parses the command line by the option table. Messages say what would have been right.
#include "cli/options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/os.h"
#include "cli/common.h"
#include "cli/help.h"
#include "cli/llama_options.h"
#include "cli/spelling.h"
#include "cli/suggest.h"
#include "cli/unused.h"
#include "cli/values.h"
#include "convert/recipe.h"

static const struct hearth_option *find_option(unsigned commands, const char *spelling)
{
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        if ((opt->commands & commands) &&
            (hearth_spelling_in(opt->names, spelling) || hearth_spelling_in(opt->aliases, spelling)))
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
                 {"overrides", "--override-kv"},
                 {"down", "--down"},
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

const struct hearth_command *hearth_command_find(const char *name)
{
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        if (!strcmp(cmd->name, name))
            return cmd;
    return NULL;
}

// ---- options

struct parser {
    const struct hearth_command *cmd;
    struct hearth_options *o;
    int argc, at;
    char **argv;
    bool given[sizeof(struct hearth_options)]; // by offset of the field: has the command line set it?
    struct hearth_buffer ignored;              // options of llama.cpp that change nothing here, with commas
};

static void set_defaults(const struct hearth_command *cmd, struct hearth_options *o)
{
    memset(o, 0, sizeof *o);
    o->n_ctx = -1;
    o->predict_threshold = (double)NAN;
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        if ((opt->commands & cmd->bit) && opt->def)
            hearth_value_set(opt, opt->def, o);
}

static void set_flag(const struct hearth_option *opt, struct hearth_options *o)
{
    const bool on = true;
    memcpy((char *)o + opt->offset, &on, sizeof on);
}

// `written` is what precedes the value: "--temp " or "HEARTH_TEMP=".
static int set_or_complain(const struct parser *p, const struct hearth_option *opt, const char *written,
                           const char *value)
{
    char wanted[300];
    if (hearth_value_set(opt, value, p->o))
        return -1;
    hearth_value_complain(opt, value, wanted, sizeof wanted);
    return hearth_cli_usage(p->cmd, "%s%s: %s", written, value, wanted);
}

static int take_value(struct parser *p, const struct hearth_option *opt, const char *spelling,
                      const char *attached)
{
    const char *value = attached;
    char written[HEARTH_SPELLING_MAX + 2];
    if (!value && p->at < p->argc)
        value = p->argv[p->at++];
    if (!value) {
        char wanted[300];
        hearth_value_describe(opt, wanted, sizeof wanted);
        return hearth_cli_usage(p->cmd, "%s needs %s", spelling, wanted);
    }
    if (opt->offset == offsetof(struct hearth_options, model) && p->o->model &&
        strcmp(p->o->model, value) != 0)
        return hearth_cli_usage(p->cmd, "two models are given, %s and %s", p->o->model, value);
    if (!p->given[opt->offset])
        hearth_value_clear(opt, p->o);
    p->given[opt->offset] = true;
    snprintf(written, sizeof written, "%s ", spelling);
    return set_or_complain(p, opt, written, value);
}

static bool is_one_of(const char *words, const char *text)
{
    char word[HEARTH_SPELLING_MAX];
    while ((words = hearth_spelling_next(words, word)))
        if (!strcasecmp(word, text))
            return true;
    return false;
}

// Whether the text is a value of an option of llama.cpp whose value may be missing: a word or several, such
// as "on,off".
static bool looks_like_value(const char *text)
{
    for (;;) {
        char word[12];
        const size_t n = strcspn(text, ",");
        if (n >= sizeof word)
            return false;
        memcpy(word, text, n);
        word[n] = '\0';
        if (!is_one_of("on off auto enabled disabled true false 0 1 -1", word))
            return false;
        if (!text[n])
            return true;
        text += n + 1;
    }
}

static int take_llama_option(struct parser *p, const struct hearth_llama_option *opt, const char *spelling,
                             bool attached)
{
    if (opt->answer && *opt->answer)
        return hearth_cli_usage(p->cmd, "%s: %s", spelling, opt->answer);
    if (!attached && p->at < p->argc &&
        (opt->value == HEARTH_LLAMA_VALUE ||
         (opt->value == HEARTH_LLAMA_MAYBE && looks_like_value(p->argv[p->at]))))
        p->at++;
    if (opt->answer)
        return -1;
    hearth_buffer_add(&p->ignored, ", ", p->ignored.n ? 2 : 0);
    hearth_buffer_add(&p->ignored, spelling, strlen(spelling));
    return -1;
}

// The option before any '='. As in llama.cpp, _ stands for - in long ones. False: none is that long.
static bool spell(const char *arg, char out[HEARTH_SPELLING_MAX])
{
    const size_t n = strcspn(arg, "=");
    if (n >= HEARTH_SPELLING_MAX)
        return false;
    memcpy(out, arg, n);
    out[n] = '\0';
    for (char *c = out; !strncmp(out, "--", 2) && (c = strchr(c, '_'));)
        *c = '-';
    return true;
}

static int take_option(struct parser *p, const char *arg)
{
    char spelling[HEARTH_SPELLING_MAX];
    const char *attached = strchr(arg, '=');
    if (!spell(arg, spelling))
        return hearth_suggest_option(p->cmd, arg);
    arg = spelling;
    attached = attached ? attached + 1 : NULL;
    const struct hearth_option *opt = find_option(p->cmd->bit, arg);
    if (!opt) {
        const struct hearth_llama_option *llama = hearth_llama_option_find(p->cmd->bit, arg);
        return llama ? take_llama_option(p, llama, arg, attached != NULL)
                     : hearth_suggest_option(p->cmd, arg);
    }

    switch (opt->kind) {
    case HEARTH_OPTION_FLAG:
        if (attached)
            return hearth_cli_usage(p->cmd, "%s takes no value", arg);
        p->given[opt->offset] = true;
        set_flag(opt, p->o);
        return -1;
    case HEARTH_OPTION_HELP:
        hearth_help(p->cmd, p->at < p->argc ? p->argv[p->at] : NULL);
        return HEARTH_EXIT_OK;
    case HEARTH_OPTION_VERSION:
        hearth_cli_print_version();
        return HEARTH_EXIT_OK;
    default:
        return take_value(p, opt, arg, attached);
    }
}

// ---- environment

// The variable of an option: HEARTH_CTX_SIZE for --ctx-size.
static void variable_of(const struct hearth_option *opt, char out[HEARTH_SPELLING_MAX + 8])
{
    char name[HEARTH_SPELLING_MAX];
    hearth_spelling_long(opt->names, name);
    size_t n = (size_t)snprintf(out, HEARTH_SPELLING_MAX + 8, "HEARTH_%s", name + strspn(name, "-"));
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(out[i] == '-' ? '_' : toupper((unsigned char)out[i]));
}

static int take_variable(struct parser *p, const struct hearth_option *opt, const char *name,
                         const char *value)
{
    char written[HEARTH_SPELLING_MAX + 10];
    if (opt->kind == HEARTH_OPTION_FLAG) {
        const bool on = is_one_of("1 true on yes", value);
        if (!on && !is_one_of("0 false off no", value))
            return hearth_cli_usage(p->cmd, "%s=%s: must be 1 or 0", name, value);
        if (on)
            set_flag(opt, p->o);
        return -1;
    }
    hearth_value_clear(opt, p->o);
    p->given[opt->offset] = true; // of HEARTH_PROMPT and HEARTH_FILE the first one counts
    snprintf(written, sizeof written, "%s=", name);
    return set_or_complain(p, opt, written, value);
}

// Not the option that names a file to write: a variable that is set for good would overwrite it each time.
static bool has_variable(const struct hearth_option *opt)
{
    return opt->kind != HEARTH_OPTION_HELP && opt->kind != HEARTH_OPTION_VERSION &&
           opt->offset != offsetof(struct hearth_options, out);
}

// The command line wins over variables; a prompt of any kind over HEARTH_PROMPT and HEARTH_FILE.
static bool is_settled(const struct parser *p, const struct hearth_option *opt)
{
    const size_t prompt = offsetof(struct hearth_options, prompt),
                 file = offsetof(struct hearth_options, file);
    if (opt->offset == prompt || opt->offset == file)
        return p->given[prompt] || p->given[file];
    return p->given[opt->offset];
}

// Variables that no option has, but that look like one of an option: a slip, which nobody would notice.
static void warn_of_slips(void)
{
    char name[HEARTH_SPELLING_MAX + 8], value[HEARTH_SPELLING_MAX + 8];
    for (char *const *variable = hearth_os_environment(); *variable; variable++) {
        const size_t n = strcspn(*variable, "=");
        const struct hearth_option *opt = hearth_option_table, *near = NULL;
        if (strncmp(*variable, "HEARTH_", 7) || n >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)n, *variable);
        for (; opt->names; opt++) {
            variable_of(opt, value);
            if (!strcmp(name, value))
                break;
            if (!near && has_variable(opt) && hearth_suggest_slip(name + 7, value + 7))
                near = opt;
        }
        if (opt->names || !near)
            continue;
        variable_of(near, value);
        hearth_cli_warn("the environment has %s, which is no option's; did you mean %s?", name, value);
    }
}

static int take_environment(struct parser *p)
{
    char name[HEARTH_SPELLING_MAX + 8];
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++) {
        if (!(opt->commands & p->cmd->bit) || !has_variable(opt) || is_settled(p, opt))
            continue;
        variable_of(opt, name);
        const char *value = hearth_os_variable(name);
        const int rc = value && *value ? take_variable(p, opt, name, value) : -1;
        if (rc >= 0)
            return rc;
    }
    return -1;
}

// ---- arguments

static bool is_repeated(const struct hearth_positional *pos)
{
    return strstr(pos->name, "...") != NULL;
}

// Commands whose -p gives a text.
#define WITH_PROMPT (HEARTH_CMD_RUN | HEARTH_CMD_CHAT | HEARTH_CMD_TOKENIZE | HEARTH_CMD_EMBED)

static int unexpected(const struct parser *p, const char *arg)
{
    size_t n = strlen(arg);
    if (p->o->model && n > 5 && !strcmp(arg + n - 5, ".gguf"))
        return hearth_cli_usage(p->cmd, "unexpected argument \"%s\": the model is %s%s", arg, p->o->model,
                                p->cmd->bit & WITH_PROMPT ? " (is it the prompt? use -p)" : "");
    if (p->cmd->bit == HEARTH_CMD_RUN && p->given[offsetof(struct hearth_options, file)])
        return hearth_cli_usage(p->cmd, "unexpected argument \"%s\": the prompt is in %s", arg, p->o->file);
    if (p->cmd->bit == HEARTH_CMD_RUN)
        return hearth_cli_usage(p->cmd, "unexpected argument \"%s\": the prompt is one argument, in quotes",
                                arg);
    if (p->cmd->bit == HEARTH_CMD_CHAT)
        return hearth_cli_usage(p->cmd, "unexpected argument \"%s\": -p gives the first message, in quotes",
                                arg);
    if (p->cmd->bit == HEARTH_CMD_DETOKENIZE)
        return hearth_cli_usage(p->cmd, "unexpected argument \"%s\": ids come from standard input", arg);
    if (p->cmd->bit & (HEARTH_CMD_PERPLEXITY | HEARTH_CMD_PROFILE))
        return hearth_cli_usage(p->cmd, "unexpected argument \"%s\": -f %s gives the text", arg, arg);
    if (p->cmd->bit == HEARTH_CMD_QUANTIZE && strspn(arg, "0123456789") == n)
        return hearth_cli_usage(p->cmd, "unexpected argument \"%s\": -t %s sets the number of threads", arg,
                                arg);
    return hearth_cli_usage(p->cmd, "unexpected argument \"%s\"", arg);
}

static int take_positional(struct parser *p, const char *arg)
{
    for (const struct hearth_positional *pos = p->cmd->positionals; pos->name; pos++) {
        char *field = (char *)p->o + pos->offset;
        if (is_repeated(pos)) {
            struct hearth_string_list *list = (struct hearth_string_list *)(void *)field;
            if (list->n == HEARTH_STRING_LIST_MAX)
                break;
            list->values[list->n++] = arg;
        } else if (p->given[pos->offset]) {
            continue;
        } else if (pos->offset == offsetof(struct hearth_options, prompt) &&
                   (p->given[offsetof(struct hearth_options, file)] ||
                    (strlen(arg) > 5 && !strcmp(arg + strlen(arg) - 5, ".gguf")))) {
            break;
        } else {
            memcpy(field, &arg, sizeof arg);
        }
        p->given[pos->offset] = true;
        return -1;
    }
    return unexpected(p, arg);
}

static bool is_missing(const struct parser *p, const struct hearth_positional *pos)
{
    const char *field = (const char *)p->o + pos->offset;
    if (pos->name[0] == '[')
        return false;
    if (is_repeated(pos))
        return !((const struct hearth_string_list *)(const void *)field)->n;
    return !*(const char *const *)(const void *)field;
}

static int missing(const struct hearth_command *cmd, const struct hearth_positional *pos,
                   const struct hearth_options *o)
{
    // llama-quantize makes up the name of the file if it is left out.
    if (cmd->bit == HEARTH_CMD_QUANTIZE && o->out && hearth_recipe_by_name(o->out))
        return hearth_cli_usage(cmd, "OUT is missing: hearth quantize %s OUT %s", o->model, o->out);
    char usage[80] = "";
    size_t used = 0;
    for (const struct hearth_positional *p = cmd->positionals; p->name && used < sizeof usage; p++)
        used += (size_t)snprintf(usage + used, sizeof usage - used, " %s", p->name);
    const bool is_type = pos->offset == offsetof(struct hearth_options, type);
    return hearth_cli_usage(cmd, "%.*s is missing: hearth %s%s%s", (int)strcspn(pos->name, "."), pos->name,
                            cmd->name, usage, is_type ? ", where TYPE is one such as Q8_0 or Q4_K_M" : "");
}

int hearth_options_parse(const struct hearth_command *cmd, int argc, char **argv, struct hearth_options *o)
{
    struct parser p = {.cmd = cmd, .o = o, .argc = argc, .argv = argv};
    set_defaults(cmd, o);
    bool options_end = false;
    int rc = -1;
    while (p.at < argc && rc < 0) {
        const char *arg = argv[p.at++];
        if (!options_end && !strcmp(arg, "--"))
            options_end = true;
        else if (!options_end && arg[0] == '-' && arg[1])
            rc = take_option(&p, arg);
        else
            rc = take_positional(&p, arg);
    }
    bool given[sizeof p.given]; // a variable that is set for good may well change nothing
    memcpy(given, p.given, sizeof given);
    if (rc < 0)
        warn_of_slips();
    if (rc < 0)
        rc = take_environment(&p);
    for (const struct hearth_positional *pos = cmd->positionals; pos->name && rc < 0; pos++)
        if (is_missing(&p, pos))
            rc = missing(cmd, pos, o);
    if (rc < 0 && p.ignored.n && !o->quiet)
        hearth_cli_info("without effect here: %.*s", (int)p.ignored.n, p.ignored.data);
    if (rc < 0 && !o->quiet)
        hearth_unused_note(cmd, o, given);
    free(p.ignored.data);
    return rc;
}
