// SPDX-License-Identifier: MIT
// hearth quantize: rewrites a model in other number formats.
#include "convert/quantize.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/converted.h"
#include "cli/next.h"

// The formats of --tensor-type.
static int read_wishes(const struct hearth_options *o, struct hearth_recipe_wish *wishes)
{
    for (int i = 0; i < o->tensor_types.n; i++) {
        const char *text = o->tensor_types.values[i], *equals = strrchr(text, '=');
        if (!equals || equals == text)
            return hearth_cli_usage(hearth_command_find("quantize"),
                                    "--tensor-type %s: NAME=TYPE, such as attn_v=Q8_0", text);
        const struct hearth_recipe *recipe = hearth_recipe_by_name(equals + 1);
        if (!recipe)
            return hearth_unknown_type("quantize", equals + 1);
        wishes[i] = (struct hearth_recipe_wish){text, (size_t)(equals - text), recipe->type};
    }
    return HEARTH_EXIT_OK;
}

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

    struct hearth_recipe_wish wishes[HEARTH_STRING_LIST_MAX];
    const int bad = read_wishes(o, wishes);
    if (bad)
        return bad;
    struct hearth_quantize_params params = {.recipe = recipe,
                                            .pure = o->pure,
                                            .wishes = wishes,
                                            .n_wishes = (size_t)o->tensor_types.n,
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
