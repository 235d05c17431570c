// SPDX-License-Identifier: MIT
// hearth synth: a synthetic model of a known shape.
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/next.h"
#include "synth/synth.h"

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

static void report(const char *out)
{
    struct hearth_path at;
    char size[32];
    if (!hearth_path_look(out, &at))
        return;
    hearth_cli_format_bytes(size, sizeof size, at.size);
    hearth_cli_info("%s: %s", out, size);
}

// Where the model goes: OUT, or else PRESET.gguf here, which then replaces nothing. NULL: it may not, and *status says so.
static const char *choose_out(const struct hearth_options *o, char *own, size_t size, int *status)
{
    struct hearth_path at;
    *status = HEARTH_EXIT_OK;
    if (o->out) {
        *status = hearth_cli_check_out(o->out);
        return *status ? NULL : o->out;
    }
    snprintf(own, size, "%s.gguf", o->preset);
    if (!hearth_path_look(own, &at))
        return own;
    *status = hearth_cli_error("%s is there: to write it anew, hearth synth %s %s", own, o->preset, own);
    return NULL;
}

int hearth_cmd_synth(const struct hearth_options *o)
{
    const char *preset;
    char own[128];
    int status;
    if (!strcmp(o->preset, "list") && !o->out)
        return list_presets();
    int i = 0;
    while ((preset = hearth_synth_preset(i, NULL)) != NULL && strcmp(preset, o->preset) != 0)
        i++;
    if (!preset)
        return unknown_preset(o->preset);
    const char *out = choose_out(o, own, sizeof own, &status);
    if (!out)
        return status;
    struct hearth_synth_params params = {.seed = 1,
                                         .progress = on_progress,
                                         .shape = o->shape,
                                         .early_predictors = o->early_predictors,
                                         .drift = o->drift};
    struct hearth_error err = {0};
    hearth_cli_catch_interrupt();
    hearth_progress_begin(HEARTH_PROGRESS_BYTES, 0, "writing");
    const int rc = hearth_synth(preset, out, &params, &err);
    hearth_progress_end();
    if (rc)
        return hearth_cli_fail(&err);
    report(out);
    if (o->shape)
        hearth_next_of_pack(out);
    else
        hearth_next_run(out);
    return HEARTH_EXIT_OK;
}
