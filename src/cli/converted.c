// SPDX-License-Identifier: MIT
// What quantize and convert say in the same words.
#include "cli/converted.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/common.h"
#include "quant/quant.h"

int hearth_unknown_type(const char *command, const char *name)
{
    char known[400] = "";
    size_t used = 0;
    const struct hearth_recipe *r;
    for (size_t i = 0; (r = hearth_recipe_at(i)) && used + strlen(r->name) + 3 < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", r->name);
    return hearth_cli_usage(hearth_command_find(command), "cannot write type %s; one of %s", name, known);
}

void hearth_report_converted(const char *path, const struct hearth_recipe *recipe,
                             const struct hearth_quantize_result *result)
{
    char before[32], after[32], formats[400] = "";
    size_t used = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END && used + 40 < sizeof formats; type++)
        if (result->n_matrices[type])
            used += (size_t)snprintf(
                formats + used, sizeof formats - used, "%" PRIu64 " %s in %s, ", result->n_matrices[type],
                result->n_matrices[type] == 1 ? "matrix" : "matrices", hearth_type_info(type)->name);
    hearth_cli_format_bytes(before, sizeof before, result->bytes_in);
    hearth_cli_format_bytes(after, sizeof after, result->bytes_out);
    hearth_cli_info("%s: %s, from %s: %s%" PRIu64 " tensor%s kept", path, after, before, formats,
                    result->n_kept, result->n_kept == 1 ? "" : "s");
    if (result->n_fallback)
        hearth_cli_info(
            "%" PRIu64
            " %s a format of smaller blocks, or F16: %s rows do not fill the blocks of the one that is usual "
            "for %s in %s",
            result->n_fallback, result->n_fallback == 1 ? "matrix got" : "matrices got",
            result->n_fallback == 1 ? "its" : "their", result->n_fallback == 1 ? "it" : "them", recipe->name);
}
