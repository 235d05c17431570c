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

// Which matrix has another format than the recipe's, and why; of several the first, and how many more there are.
static void report_fallback(const struct hearth_quantize_result *result)
{
    const struct hearth_fallback *first = &result->fallback;
    const uint64_t more = result->n_fallback - 1;
    char others[64] = "";
    if (more)
        snprintf(others, sizeof others, "; %" PRIu64 " more %s like it", more,
                 more == 1 ? "matrix is" : "matrices are");
    hearth_cli_info("%s is in %s, not %s: its rows of %" PRIu64 " are no multiple of %s's blocks of %d%s",
                    first->name, hearth_type_info(first->type)->name, hearth_type_info(first->wanted)->name,
                    first->n, hearth_type_info(first->wanted)->name,
                    (int)hearth_type_info(first->wanted)->block_elems, others);
}

void hearth_report_converted(const char *path, const struct hearth_quantize_result *result)
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
        report_fallback(result);
}
