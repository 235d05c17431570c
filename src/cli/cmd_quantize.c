// SPDX-License-Identifier: MIT
// hearth quantize: rewrites a model in other number formats.
#include "convert/quantize.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/converted.h"
#include "cli/next.h"

int hearth_cmd_quantize(const struct hearth_options *o)
{
    const struct hearth_recipe *recipe = hearth_recipe_by_name(o->type);
    if (!recipe)
        return hearth_unknown_type("quantize", o->type);
    if (hearth_path_same(o->model, o->out))
        return hearth_cli_error("%s and %s are the same file", o->model, o->out);
    const int refused = hearth_cli_check_out(o->out);
    if (refused)
        return refused;

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
    hearth_report_converted(o->out, &result);
    if (!result.n_changed)
        hearth_cli_info("no matrix has changed: %s was in these formats already", o->model);
    if (result.n_again && result.bytes_out > result.bytes_in)
        hearth_cli_warn("%s is larger than %s and no better, which was quantised already", o->out, o->model);
    else
        hearth_next_run(o->out);
    return HEARTH_EXIT_OK;
}
