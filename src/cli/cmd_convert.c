// SPDX-License-Identifier: MIT
// hearth convert: makes a GGUF of a Hugging Face folder.
#include "convert/convert.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/converted.h"

// Whether OUT is a file of the folder that is no GGUF: the model itself, by mistake.
static bool is_input(const char *folder, const char *out)
{
    const char *slash = strrchr(out, '/'), *name = slash ? slash + 1 : out, *end = strrchr(name, '.');
    char path[4096];
    struct stat a, b;
    if ((end && !strcmp(end, ".gguf")) ||
        snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    return !stat(path, &a) && !stat(out, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int hearth_cmd_convert(const struct hearth_options *o)
{
    static const char *const activations[] = {NULL, "silu", "relu", "drelu", "gelu"};
    const struct hearth_recipe *recipe = hearth_recipe_by_name(o->type ? o->type : "F16");
    if (!recipe)
        return hearth_unknown_type("convert", o->type);
    struct stat st;
    if (!stat(o->model, &st) && !S_ISDIR(st.st_mode))
        return hearth_cli_error(
            "%s is a file: convert wants a folder as on Hugging Face, with config.json and "
            "safetensors files (hearth quantize takes GGUF files)",
            o->model);
    if (is_input(o->model, o->out))
        return hearth_cli_error("%s is a file of the model in %s: give OUT another name", o->out, o->model);
    const int refused = hearth_cli_check_out(o->out);
    if (refused)
        return refused;
    const struct hearth_convert_params params = {.recipe = recipe,
                                                 .pure = o->pure,
                                                 .predictors = o->predictors,
                                                 .activation = activations[o->activation],
                                                 .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                                 .progress = hearth_cli_progress};
    struct hearth_quantize_result result;
    struct hearth_error err = {0};
    hearth_cli_catch_interrupt();
    hearth_progress_begin(HEARTH_PROGRESS_SHARE, 1, "converting");
    const int rc = hearth_convert(o->model, o->out, &params, &result, &err);
    hearth_progress_end();
    if (rc)
        return hearth_cli_fail(&err);
    hearth_report_converted(o->out, recipe, &result);
    return HEARTH_EXIT_OK;
}
