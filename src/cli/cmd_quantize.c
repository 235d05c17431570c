// SPDX-License-Identifier: MIT
// hearth quantize: rewrites a model in other number formats.
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "convert/quantize.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "quant/quant.h"

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static int unknown_type(const char *name)
{
    char known[400] = "";
    size_t used = 0;
    const struct hearth_recipe *r;
    for (size_t i = 0; (r = hearth_recipe_at(i)) && used + strlen(r->name) + 3 < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", r->name);
    return hearth_cli_usage(hearth_command_find("quantize"), "cannot write type %s; one of %s", name, known);
}

static void report(const char *path, const struct hearth_recipe *recipe,
                   const struct hearth_quantize_result *result)
{
    char before[32], after[32], formats[400] = "";
    size_t used = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END && used + 40 < sizeof formats; type++)
        if (result->n_matrices[type])
            used += (size_t)snprintf(formats + used, sizeof formats - used, "%" PRIu64 " matrices in %s, ",
                                     result->n_matrices[type], hearth_type_info(type)->name);
    hearth_cli_format_bytes(before, sizeof before, result->bytes_in);
    hearth_cli_format_bytes(after, sizeof after, result->bytes_out);
    hearth_cli_info("%s: %s, from %s: %s%" PRIu64 " tensors kept", path, after, before, formats,
                    result->n_kept);
    if (result->n_fallback)
        hearth_cli_info(
            "%" PRIu64
            " matrices got a format of smaller blocks, or F16: their rows are no multiple of %d numbers",
            result->n_fallback, (int)hearth_type_info(recipe->type)->block_elems);
}

int hearth_cmd_quantize(const struct hearth_options *o)
{
    const struct hearth_recipe *recipe = hearth_recipe_by_name(o->type);
    if (!recipe)
        return unknown_type(o->type);
    if (same_file(o->model, o->out))
        return hearth_cli_error("%s and %s are the same file", o->model, o->out);

    struct hearth_quantize_params params = {.recipe = recipe,
                                            .pure = o->pure,
                                            .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                            .progress = hearth_cli_progress};
    struct hearth_quantize_result result;
    struct hearth_error err = {0};
    hearth_cli_catch_interrupt();
    hearth_cli_progress_of_file(o->model, "converting");
    const int rc = hearth_quantize(o->model, o->out, &params, &result, &err);
    hearth_progress_end();
    if (rc)
        return hearth_cli_fail(&err);
    report(o->out, recipe, &result);
    return HEARTH_EXIT_OK;
}
