// SPDX-License-Identifier: MIT
// The program: finds the sub-command, parses its options, runs it.
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "cli/common.h"
#include "cli/generate.h"
#include "cli/help.h"
#include "cli/suggest.h"

static int help(const char *name, const char *how)
{
    const struct hearth_command *cmd = NULL;
    if (name && strcmp(name, "all") != 0 && !(cmd = hearth_command_find(name)))
        return hearth_suggest_command(name);
    hearth_help(cmd, how);
    return hearth_cli_stdout_close(HEARTH_EXIT_OK);
}

// For the build: generates man pages and completions.
static int generate(int argc, char **argv)
{
    if (argc < 1 || argc > 2 || !hearth_generate(argv[0], argc > 1 ? argv[1] : NULL))
        return hearth_cli_usage(NULL, "--generate takes man [COMMAND], bash, zsh or fish");
    return hearth_cli_stdout_close(HEARTH_EXIT_OK);
}

int main(int argc, char **argv)
{
    hearth_os_guard_standard_files();
    hearth_console_begin();
    hearth_os_arguments(&argc, &argv);
    hearth_cli_log_init(false, false);
    if (argc < 2) {
        hearth_cli_error("a command is missing");
        hearth_help(NULL, NULL);
        return hearth_cli_stdout_close(HEARTH_EXIT_USAGE);
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
        return help(argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
    if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "-v") ||
        !strcmp(name, "version")) {
        hearth_cli_print_version();
        return hearth_cli_stdout_close(HEARTH_EXIT_OK);
    }
    if (!strcmp(name, "--generate"))
        return generate(argc - 2, argv + 2);

    const struct hearth_command *cmd = hearth_command_find(name);
    if (!cmd)
        return hearth_suggest_command(name);
    struct hearth_options o;
    int status = hearth_options_parse(cmd, argc - 2, argv + 2, &o);
    if (status >= 0)
        return hearth_cli_stdout_close(status);
    hearth_cli_set_command(cmd);
    hearth_cli_log_init(o.quiet, o.verbose);
    return hearth_cli_stdout_close(cmd->run(&o));
}
