// SPDX-License-Identifier: MIT
// What somebody may have meant who wrote an unknown option or command.
#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "cli/common.h"
#include "cli/llama_options.h"
#include "cli/spelling.h"

// ---- distance

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

// Number of edits (insert, delete, replace, swap neighbours) that turn one word into the other.
static int edit_distance(const char *a, const char *b)
{
    int la = (int)strlen(a), lb = (int)strlen(b);
    if (la >= HEARTH_SPELLING_MAX || lb >= HEARTH_SPELLING_MAX)
        return HEARTH_SPELLING_MAX;
    int d[HEARTH_SPELLING_MAX][HEARTH_SPELLING_MAX];
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

// Of two letters any edit makes another option; beyond that an edit for every three letters is a slip.
static bool is_near(int distance, const char *word)
{
    int letters = (int)strlen(word + strspn(word, "-"));
    return letters > 2 && distance <= letters / 3;
}

bool hearth_suggest_slip(const char *word, const char *meant)
{
    const int distance = edit_distance(word, meant);
    return distance && distance <= 2 && is_near(distance, word);
}

// ---- options

// The options of the command that help shows.
static const struct hearth_option *next_shown(const struct hearth_option *opt,
                                              const struct hearth_command *cmd)
{
    while (opt->names && (!(opt->commands & cmd->bit) || !opt->help))
        opt++;
    return opt->names ? opt : NULL;
}

// Whether one of the spellings begins with the text; `out` becomes it.
static bool begins_with(const char *list, const char *text, char out[HEARTH_SPELLING_MAX])
{
    while ((list = hearth_spelling_next(list, out)))
        if (!strncmp(out, text, strlen(text)))
            return true;
    return false;
}

// An option as people see it in help: "--system-prompt (-sys)".
static size_t put_option(char *out, size_t size, const struct hearth_option *opt, const char *word)
{
    char first[HEARTH_SPELLING_MAX];
    hearth_spelling_next(opt->names, first);
    const int n = strcmp(first, word) != 0 ? snprintf(out, size, "%s (%s)", word, first)
                                           : snprintf(out, size, "%s", word);
    return n > 0 ? (size_t)n : 0;
}

// Lists the options that begin with the text, at most four: "--top-k, --top-p". Returns how many there are.
static int list_completions(const struct hearth_command *cmd, const char *text, char *out, size_t size)
{
    char word[HEARTH_SPELLING_MAX];
    size_t used = 0;
    int n = 0;
    for (const struct hearth_option *opt = hearth_option_table; (opt = next_shown(opt, cmd)); opt++) {
        if (!begins_with(opt->names, text, word) && !begins_with(opt->aliases, text, word))
            continue;
        if (n++ >= 4)
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s", used ? ", " : "");
        used += put_option(out + used, size - used, opt, word);
    }
    return n;
}

static int nearest_in(const char *list, const char *spelling, int best, char out[HEARTH_SPELLING_MAX])
{
    char word[HEARTH_SPELLING_MAX];
    while ((list = hearth_spelling_next(list, word))) {
        int distance = edit_distance(word, spelling);
        if (distance < best) {
            best = distance;
            memcpy(out, word, sizeof word);
        }
    }
    return best;
}

static bool nearest_option(const struct hearth_command *cmd, const char *spelling,
                           char out[HEARTH_SPELLING_MAX])
{
    int best = HEARTH_SPELLING_MAX;
    for (const struct hearth_option *opt = hearth_option_table; (opt = next_shown(opt, cmd)); opt++) {
        best = nearest_in(opt->names, spelling, best, out);
        best = nearest_in(opt->aliases, spelling, best, out);
    }
    return is_near(best, spelling);
}

// The command that has an option of this spelling; NULL: none.
static const struct hearth_command *owner(const char *spelling)
{
    for (const struct hearth_option *opt = hearth_option_table; opt->names; opt++)
        for (const struct hearth_command *cmd = hearth_command_table; opt->help && cmd->name; cmd++)
            if ((opt->commands & cmd->bit) &&
                (hearth_spelling_in(opt->names, spelling) || hearth_spelling_in(opt->aliases, spelling)))
                return cmd;
    return NULL;
}

int hearth_suggest_option(const struct hearth_command *cmd, const char *spelling)
{
    char nearest[HEARTH_SPELLING_MAX] = "", several[9 * HEARTH_SPELLING_MAX] = "";
    const struct hearth_command *other = owner(spelling);
    if (other)
        return hearth_cli_usage(cmd, "%s is an option of hearth %s, not of hearth %s", spelling, other->name,
                                cmd->name);
    const int n = strlen(spelling) > 3 ? list_completions(cmd, spelling, several, sizeof several) : 0;
    if (n && n <= 4)
        return hearth_cli_usage(cmd, "unknown option %s; did you mean %s%s?", spelling,
                                n > 1 ? "one of " : "", several);
    if (nearest_option(cmd, spelling, nearest))
        return hearth_cli_usage(cmd, "unknown option %s; did you mean %s?", spelling, nearest);
    return hearth_cli_usage(cmd, "unknown option %s", spelling);
}

// ---- commands

int hearth_suggest_command(const char *name)
{
    const char *nearest = NULL, *answer = hearth_llama_command(name);
    int best = HEARTH_SPELLING_MAX;
    if (answer)
        return hearth_cli_usage(NULL, "%s: %s", name, answer);
    for (const struct hearth_command *cmd = hearth_command_table; cmd->name; cmd++) {
        int distance = edit_distance(cmd->name, name);
        if (distance < best) {
            best = distance;
            nearest = cmd->name;
        }
    }
    if (name[0] == '-' && owner(name))
        return hearth_cli_usage(NULL, "a command is missing before %s; did you mean hearth %s?", name,
                                owner(name)->name);
    if (nearest &&
        (is_near(best, name) || (best == 1 && strlen(name) > 1))) // no command has less than three letters
        return hearth_cli_usage(NULL, "unknown command %s; did you mean %s?", name, nearest);
    if (hearth_path_readable(name))
        return hearth_cli_usage(NULL, "%s is no command but a file: hearth run FILE or hearth chat FILE",
                                name);
    return hearth_cli_usage(NULL, "unknown command %s", name);
}
