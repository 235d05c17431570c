// SPDX-License-Identifier: MIT
// Texts generated from the option table: help, man pages, shell completion. All go to standard output.
#include "cli/generate.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/machine.h"
#include "cli/terminal.h"
#include "hearth.h"

#include "convert/recipe.h"
#include "synth/synth.h"

#include "cli/spelling.h"
#include "cli/values.h"
#include "cli/wrap.h"

#define WIDEST 96 // columns of help, at most
#define COLUMN 30 // where descriptions start

static const char program_summary[] = "run language models in GGUF files";

static bool shown(const struct hearth_option *opt, const struct hearth_command *cmd)
{
    return (opt->commands & cmd->bit) && opt->help;
}

static bool takes_value(const struct hearth_option *opt)
{
    return opt->value != NULL;
}

// The group's first option in the table prints the heading: the table lists groups in order of
// first appearance.
static bool group_is_new(const struct hearth_option *opt, const struct hearth_command *cmd)
{
    for (const struct hearth_option *before = hearth_option_table; before != opt; before++)
        if (shown(before, cmd) && !strcmp(before->group, opt->group))
            return false;
    return true;
}

// ---- help

// Columns of help: those of a terminal, within reason.
static size_t width(void)
{
    const int columns = hearth_terminal_width(stdout);
    return columns > WIDEST ? WIDEST : columns <= 2 * COLUMN ? 80 : (size_t)columns;
}

// Prints text and a newline; lines behind the first, which begins at `at`, are indented.
static void print_wrapped(const char *text, size_t indent, size_t at)
{
    char *lines = hearth_wrap(text, width(), indent, at);
    puts(lines ? lines : text);
    free(lines);
}

// The help sentence, then the choices and the default. To be freed; NULL: no memory.
static char *full_help(const struct hearth_option *opt)
{
    char choices[120] = "", def[80] = "";
    const size_t size = strlen(opt->help) + sizeof choices + sizeof def + sizeof " (; )";
    char *out = malloc(size);
    if (!out)
        return NULL;
    if (opt->choices)
        hearth_value_choices(opt->choices, choices, sizeof choices);
    if (opt->def)
        snprintf(def, sizeof def, "default: %s", opt->def);
    if (*choices || *def)
        snprintf(out, size, "%s (%s%s%s)", opt->help, choices, *choices && *def ? "; " : "", def);
    else
        snprintf(out, size, "%s", opt->help);
    return out;
}

static void print_option(const struct hearth_option *opt)
{
    char head[80], *text = full_help(opt);
    snprintf(head, sizeof head, "  %s%s%s", opt->names, takes_value(opt) ? " " : "",
             takes_value(opt) ? opt->value : "");
    size_t n = strlen(head);
    if (n >= COLUMN)
        printf("%s\n%*s", head, COLUMN, "");
    else
        printf("%-*s", COLUMN, head);
    print_wrapped(text ? text : opt->help, COLUMN, COLUMN);
    free(text);
}

void hearth_generate_usage(const struct hearth_command *cmd)
{
    printf("Usage: hearth %s", cmd->name);
    for (const struct hearth_positional *pos = cmd->positionals; pos->name; pos++)
        printf(" %s", pos->name);
    printf(" [options]\n\n");
}

static void help_program(void)
{
    printf("Usage: hearth COMMAND ...\n\nHearth %s: %s.\n\nCommands:\n", hearth_version(), program_summary);
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        printf("  %-16s %s\n", cmd->name, cmd->summary);
    putchar('\n');
    print_wrapped(
        "hearth COMMAND --help shows a command's options, hearth --version the version and the CPU. "
        "Every option can be set by a variable, too: HEARTH_CTX_SIZE=8192 is --ctx-size 8192.\n"
        "Exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted.",
        0, 0);
}

void hearth_generate_examples(const struct hearth_command *cmd)
{
    printf("\nExamples:\n");
    for (const char *line = cmd->example; *line;) {
        size_t n = strcspn(line, "\n");
        printf("  %.*s\n", (int)n, line);
        line += n + (line[n] != '\0');
    }
}

void hearth_generate_help(const struct hearth_command *cmd)
{
    if (!cmd) {
        help_program();
        return;
    }
    hearth_generate_usage(cmd);
    print_wrapped(cmd->description, 0, 0);
    for (const struct hearth_option *group = hearth_option_table; group->names; group++) {
        if (!shown(group, cmd) || !group_is_new(group, cmd))
            continue;
        printf("\n%s:\n", group->group);
        for (const struct hearth_option *opt = group; opt->names; opt++)
            if (shown(opt, cmd) && !strcmp(opt->group, group->group))
                print_option(opt);
    }
    hearth_generate_examples(cmd);
}

// ---- man pages

// Escapes characters that roff would interpret.
static void roff_bytes(const char *text, size_t n)
{
    bool line_start = true;
    for (const char *end = text + n; text < end; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            printf("\\&");
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else
            putchar(*text);
        line_start = *text == '\n';
    }
}

static void roff(const char *text)
{
    roff_bytes(text, strlen(text));
}

static void roff_paragraphs(const char *text)
{
    for (;;) {
        const char *end = strstr(text, "\n\n");
        roff_bytes(text, end ? (size_t)(end - text) : strlen(text));
        putchar('\n');
        if (!end)
            return;
        printf(".PP\n");
        text = end + 2;
    }
}

static void man_head(const char *name)
{
    char title[40];
    size_t i = 0;
    for (; name[i] && i < sizeof title - 1; i++)
        title[i] = (char)toupper((unsigned char)name[i]);
    title[i] = '\0';
    printf(".TH %s 1 \"\" \"Hearth %s\" \"Hearth\"\n", title, hearth_version());
}

static void man_exit_status(void)
{
    printf(".SH EXIT STATUS\n0 on success, 1 on failure, 2 when the command line is wrong, 130 when "
           "interrupted.\n");
}

static void man_environment(void)
{
    printf(
        ".SH ENVIRONMENT\nEvery option can be set by a variable: HEARTH_ and the option's long name in capitals, with _ "
        "for \\-. HEARTH_CTX_SIZE=8192 stands for \\-\\-ctx\\-size 8192, HEARTH_QUIET=1 for \\-\\-quiet. "
        "The command line wins.\n");
}

static void man_program(void)
{
    man_head("hearth");
    printf(".SH NAME\nhearth \\- ");
    roff(program_summary);
    printf("\n.SH SYNOPSIS\n.B hearth\n.I COMMAND\n.RI [ options ]\n.SH COMMANDS\n");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++) {
        printf(".TP\n.BR hearth\\-%s (1)\n", cmd->name);
        roff(cmd->summary);
        putchar('\n');
    }
    printf(".SH OPTIONS\n.TP\n.BR \\-h ,\\  \\-\\-help\nshow help; after a command, its options\n"
           ".TP\n.B \\-\\-version\nshow the version, the CPU and the instruction set in use\n");
    man_environment();
    man_exit_status();
    printf(".SH SEE ALSO\n");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        printf(".BR hearth\\-%s (1)%s\n", cmd->name, cmd[1].name ? "," : "");
}

static void man_options(const struct hearth_command *cmd)
{
    for (const struct hearth_option *group = hearth_option_table; group->names; group++) {
        if (!shown(group, cmd) || !group_is_new(group, cmd))
            continue;
        printf(".SS %s\n", group->group);
        for (const struct hearth_option *opt = group; opt->names; opt++) {
            if (!shown(opt, cmd) || strcmp(opt->group, group->group) != 0)
                continue;
            char *text = full_help(opt);
            printf(".TP\n\\fB");
            roff(opt->names);
            printf("\\fR");
            if (takes_value(opt))
                printf(" \\fI%s\\fR", opt->value);
            putchar('\n');
            roff(text ? text : opt->help);
            free(text);
            printf(".\n");
        }
    }
}

static void man_command(const struct hearth_command *cmd)
{
    char title[60];
    snprintf(title, sizeof title, "hearth-%s", cmd->name);
    man_head(title);
    printf(".SH NAME\nhearth\\-%s \\- ", cmd->name);
    roff(cmd->summary);
    printf("\n.SH SYNOPSIS\n.B hearth %s\n", cmd->name);
    for (const struct hearth_positional *pos = cmd->positionals; pos->name; pos++)
        printf(".I %s\n", pos->name);
    printf(".RI [ options ]\n.SH DESCRIPTION\n");
    roff_paragraphs(cmd->description);
    printf(".SH OPTIONS\n");
    man_options(cmd);
    man_environment();
    man_exit_status();
    printf(".SH EXAMPLES\n.nf\n");
    roff(cmd->example);
    printf("\n.fi\n.SH SEE ALSO\n.BR hearth (1)\n");
}

// ---- shell completion

static bool wants_file(const struct hearth_option *opt)
{
    return opt->value && (!strcmp(opt->value, "FILE") || !strcmp(opt->value, "TRACE"));
}

static void list_machines(char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "list");
    for (const struct hearth_known_machine *m = hearth_known_machines; m->name && used < size; m++)
        used += (size_t)snprintf(out + used, size - used, " %s", m->name);
}

// The words that an option's value may be, separated by blanks. False: it is something else.
static bool list_words(const struct hearth_option *opt, char *out, size_t size)
{
    static const char *const known[][2] = {
        {"--throttle", "ufs4 ufs3 nvme"},
        {"--samplers", "penalties dry top_n_sigma top_k typ_p top_p min_p xtc temperature"}};
    if (hearth_spelling_in(opt->names, "--machine")) {
        list_machines(out, size);
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (hearth_spelling_in(opt->names, known[i][0])) {
            snprintf(out, size, "%s", known[i][1]);
            return true;
        }
    if (!opt->choices)
        return false;
    hearth_value_choices(opt->choices, out, size);
    for (char *c = out; *c; c++)
        if (*c == ',')
            *c = ' ';
    return true;
}

// The argument of a command, counted from 1, that is one of some words, which are printed. 0: there is none.
static int argument_of_words(const struct hearth_command *cmd)
{
    return cmd->bit == HEARTH_CMD_SYNTH                                        ? 1
           : cmd->bit == HEARTH_CMD_QUANTIZE || cmd->bit == HEARTH_CMD_CONVERT ? 3
                                                                               : 0;
}

static void print_argument_words(const struct hearth_command *cmd)
{
    const char *preset;
    const struct hearth_recipe *recipe;
    for (int i = 0; cmd->bit == HEARTH_CMD_SYNTH && (preset = hearth_synth_preset(i, NULL)); i++)
        printf("%s%s", i ? " " : "", preset);
    const bool types = cmd->bit == HEARTH_CMD_QUANTIZE || cmd->bit == HEARTH_CMD_CONVERT;
    for (size_t i = 0; types && (recipe = hearth_recipe_at(i)); i++)
        printf("%s%s", i ? " " : "", recipe->name);
}

static void bash_options(const struct hearth_command *cmd)
{
    char word[HEARTH_SPELLING_MAX];
    printf("    %s)\n        case $prev in\n", cmd->name);
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++) {
        if (!shown(opt, cmd) || !takes_value(opt))
            continue;
        printf("        ");
        const char *separator = "";
        for (const char *list = opt->names; (list = hearth_spelling_next(list, word)); separator = "|")
            printf("%s%s", separator, word);
        char words[120];
        if (list_words(opt, words, sizeof words)) {
            printf(") words='%s' ;;\n", words);
        } else {
            printf(") %s ;;\n", wants_file(opt) ? "files=1" : "return");
        }
    }
    printf("        *) options='");
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        if (shown(opt, cmd))
            for (const char *list = opt->names; (list = hearth_spelling_next(list, word));)
                printf("%s ", word);
    printf("'\n");
    if (argument_of_words(cmd)) {
        printf("            ((COMP_CWORD == %d)) && [[ $cur != -* ]] && words='", argument_of_words(cmd) + 1);
        print_argument_words(cmd);
        printf("'\n");
    }
    if (argument_of_words(cmd) != 1)
        printf("            ((COMP_CWORD == 2)) && models=1\n");
    printf("            ;;\n        esac ;;\n");
}

static void completion_bash(void)
{
    printf("# bash completion of hearth, generated by hearth --generate bash\n"
           "_hearth()\n{\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' options='' "
           "files='' models=''\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        mapfile -t COMPREPLY < <(compgen -W '");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        printf("%s ", cmd->name);
    printf("help --help --version' -- \"$cur\")\n        return\n    fi\n"
           "    case ${COMP_WORDS[1]} in\n");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        bash_options(cmd);
    printf("    help) words='");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        printf("%s ", cmd->name);
    printf("' ;;\n");
    printf("    esac\n"
           "    if [[ $words ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
           "    elif [[ ! $files && $cur == -* ]]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
           "    elif [[ $models ]]; then\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen -f -X '!*.gguf' -- \"$cur\"; compgen -d -- \"$cur\")\n"
           "    else\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
           "    fi\n"
           "}\n"
           "complete -F _hearth hearth\n");
}

// Text within single quotes of zsh's _arguments: brackets and colons would end the description.
static void zsh_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            printf("'\\''");
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void zsh_option(const struct hearth_option *opt)
{
    char word[HEARTH_SPELLING_MAX], choices[120];
    for (const char *list = opt->names; (list = hearth_spelling_next(list, word));) {
        printf("            '%s[", word);
        zsh_text(opt->help);
        putchar(']');
        if (takes_value(opt)) {
            printf(":%s:", opt->value);
            if (list_words(opt, choices, sizeof choices))
                printf("(%s)", choices);
            if (wants_file(opt))
                printf("_files");
        }
        printf("' \\\n");
    }
}

static void completion_zsh(void)
{
    printf("#compdef hearth\n# zsh completion of hearth, generated by hearth --generate zsh\n"
           "_hearth() {\n"
           "    if ((CURRENT == 2)); then\n"
           "        local -a commands=(\n");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        printf("            '%s:%s'\n", cmd->name, cmd->summary);
    printf("        )\n        _describe command commands\n        return\n    fi\n"
           "    local command=${words[2]}\n"
           "    shift words\n    ((CURRENT--))\n"
           "    case $command in\n");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++) {
        printf("    %s)\n        _arguments \\\n", cmd->name);
        for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
            if (shown(opt, cmd))
                zsh_option(opt);
        const int argument = argument_of_words(cmd);
        if (argument > 0) {
            printf("            '%d:%s:(", argument, cmd->positionals[argument - 1].name);
            print_argument_words(cmd);
            printf(")' \\\n");
        }
        if (argument != 1)
            printf("            '1:model:_files -g \"*.gguf\"' \\\n");
        printf("            '*:file:_files' ;;\n");
    }
    printf("    help)\n        _arguments '1:command:(");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        printf("%s ", cmd->name);
    printf(")' ;;\n    esac\n}\n_hearth \"$@\"\n");
}

// Text within single quotes of fish.
static void fish_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
}

static void fish_option(const struct hearth_command *cmd, const struct hearth_option *opt)
{
    char word[HEARTH_SPELLING_MAX], choices[120];
    printf("complete -c hearth -n '__fish_seen_subcommand_from %s'", cmd->name);
    for (const char *list = opt->names; (list = hearth_spelling_next(list, word));) {
        const char *kind = !strncmp(word, "--", 2) ? "-l" : word[2] ? "-o" : "-s";
        printf(" %s %s", kind, word + strspn(word, "-"));
    }
    if (list_words(opt, choices, sizeof choices)) {
        printf(" -x -a '%s'", choices);
    } else if (takes_value(opt)) {
        printf(wants_file(opt) ? " -r -F" : " -x");
    }
    printf(" -d '");
    fish_text(opt->help);
    printf("'\n");
}

static void completion_fish(void)
{
    printf("# fish completion of hearth, generated by hearth --generate fish\n");
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++) {
        printf("complete -c hearth -n __fish_use_subcommand -f -a %s -d '", cmd->name);
        fish_text(cmd->summary);
        printf("'\n");
    }
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++)
        for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
            if (shown(opt, cmd))
                fish_option(cmd, opt);
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++) {
        printf("complete -c hearth -n '__fish_seen_subcommand_from help' -f -a %s\n", cmd->name);
        if (!argument_of_words(cmd))
            continue;
        printf("complete -c hearth -n '__fish_seen_subcommand_from %s' -a '", cmd->name);
        print_argument_words(cmd);
        printf("'\n");
    }
}

bool hearth_generate(const char *what, const char *name)
{
    if (!strcmp(what, "man")) {
        const struct hearth_command *cmd = name ? hearth_command_find(name) : NULL;
        if (name && !cmd)
            return false;
        if (cmd)
            man_command(cmd);
        else
            man_program();
        return true;
    }
    if (name)
        return false;
    if (!strcmp(what, "bash"))
        completion_bash();
    else if (!strcmp(what, "zsh"))
        completion_zsh();
    else if (!strcmp(what, "fish"))
        completion_fish();
    else
        return false;
    return true;
}
