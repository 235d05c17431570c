// SPDX-License-Identifier: MIT
// hearth synth: a synthetic model of a known shape.
#include <stdio.h>
#include <string.h>

#include "synth/synth.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/next.h"

static int unknown_preset(const char *name)
{
    char known[1000] = "";
    size_t used = 0;
    const char *preset;
    for (int i = 0; (preset = hearth_synth_preset(i, NULL)) != NULL; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", preset);
    return hearth_cli_usage(hearth_command_find("synth"), "there is no preset %s; one of %s", name, known);
}

static bool on_progress(void *arg, uint64_t done, uint64_t total)
{
    (void)arg;
    hearth_progress_total((double)total);
    hearth_progress_set((double)done);
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
    const int refused = hearth_cli_check_out(o->out);
    if (refused)
        return refused;
    struct hearth_synth_params params = {.seed = 1,
                                         .progress = on_progress,
                                         .shape = o->shape,
                                         .early_predictors = o->early_predictors,
                                         .drift = o->drift};
    struct hearth_error err = {0};
    hearth_cli_catch_interrupt();
    hearth_progress_begin(HEARTH_PROGRESS_BYTES, 0, "writing");
    const int rc = hearth_synth(preset, o->out, &params, &err);
    hearth_progress_end();
    if (rc)
        return hearth_cli_fail(&err);
    if (o->shape)
        hearth_next_of_pack(o->out);
    else
        hearth_next_run(o->out);
    return HEARTH_EXIT_OK;
}
