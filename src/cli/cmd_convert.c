// SPDX-License-Identifier: MIT
// hearth convert: makes a GGUF of a Hugging Face folder.
#include "convert/convert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/converted.h"
#include "cli/next.h"

// Whether OUT is a file of the folder that is no GGUF: the model itself, by mistake.
static bool is_input(const char *folder, const char *out)
{
    const char *name = hearth_path_name(out), *end = strrchr(name, '.');
    char path[4096];
    if ((end && !strcmp(end, ".gguf")) ||
        snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    return hearth_path_same(path, out);
}

// What is no folder of Hugging Face's, and what to do with it.
static int check_folder(const char *folder)
{
    char path[4096], gguf[256];
    struct hearth_path at;
    if (!hearth_path_look(folder, &at))
        return hearth_cli_error("%s: %s", folder, strerror(errno));
    if (at.kind != HEARTH_PATH_FOLDER)
        return hearth_cli_error(
            "%s is a file: convert wants a folder as on Hugging Face, with config.json and "
            "safetensors files (hearth quantize takes GGUF files)",
            folder);
    const int n = snprintf(path, sizeof path, "%s/config.json", folder);
    if (n >= (int)sizeof path || hearth_path_look(path, &at))
        return HEARTH_EXIT_OK;
    if (hearth_folder_find(folder, ".gguf", gguf, sizeof gguf))
        return hearth_cli_error("%s has no config.json, but %s, which needs no converting: hearth run %s/%s",
                                folder, gguf, folder, gguf);
    return hearth_cli_error(
        "%s has no config.json: convert wants all files of a model as on Hugging Face, that is config.json, the "
        "weights (*.safetensors or pytorch_model*.bin) and the tokenizer's files",
        folder);
}

int hearth_cmd_convert(const struct hearth_options *o)
{
    static const char *const activations[] = {NULL, "silu", "relu", "drelu", "gelu"};
    const struct hearth_recipe *recipe = hearth_recipe_by_name(o->type ? o->type : "F16");
    if (!recipe)
        return hearth_unknown_type("convert", o->type);
    if (is_input(o->model, o->out))
        return hearth_cli_error("%s is a file of the model in %s: give OUT another name", o->out, o->model);
    const int refused = hearth_cli_check_out(o->out);
    if (refused)
        return refused;
    const int wrong = check_folder(o->model);
    if (wrong)
        return wrong;
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
    hearth_report_converted(o->out, &result);
    hearth_next_run(o->out);
    return HEARTH_EXIT_OK;
}
