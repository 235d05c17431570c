// SPDX-License-Identifier: MIT
// hearth synth: a synthetic model of a known shape.
#include <stdio.h>
#include <string.h>

#include "synth/synth.h"
#include "cli/commands.h"
#include "cli/common.h"

static int unknown_preset(const char *name)
{
    char known[1000] = "";
    size_t used = 0;
    const char *preset;
    for (int i = 0; (preset = hearth_synth_preset(i, NULL)) != NULL; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", preset);
    return hearth_cli_usage(hearth_command_find("synth"), "there is no preset %s; one of %s", name, known);
}

static bool on_progress(void *arg, float share)
{
    hearth_cli_progress(arg, share);
    return !hearth_cli_interrupted();
}

static int list_presets(void)
{
    const char *preset, *what;
    for (int i = 0; (preset = hearth_synth_preset(i, &what)) != NULL; i++)
        printf("%-24s %s\n", preset, what);
    return HEARTH_EXIT_OK;
}

int hearth_cmd_synth(const struct hearth_options *o)
{
    const char *preset;
    if (!strcmp(o->preset, "list") && !o->out)
        return list_presets();
    int i = 0;
    while ((preset = hearth_synth_preset(i, NULL)) != NULL && strcmp(preset, o->preset) != 0)
        i++;
    if (!preset)
        return unknown_preset(o->preset);
    if (!o->out)
        return hearth_cli_usage(hearth_command_find("synth"), "OUT is missing");
    static char label[] = "writing";
    struct hearth_synth_params params = {.seed = 1, .progress = on_progress, .progress_arg = label};
    struct hearth_error err = {0};
    hearth_cli_catch_interrupt();
    if (hearth_synth(preset, o->out, &params, &err))
        return hearth_cli_fail(&err);
    return HEARTH_EXIT_OK;
}
