// SPDX-License-Identifier: MIT
// JSON output: additions to jansson.
#include <math.h>
#include <stdbool.h>

#include "cli/common.h"
#include "cli/json.h"

json_t *hearth_json_real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

bool hearth_json_print(json_t *value, FILE *to, bool indented)
{
    if (!value)
        return false;
    int rc = json_dumpf(value, to, (indented ? JSON_INDENT(2) : JSON_COMPACT) | JSON_REAL_PRECISION(9));
    json_decref(value);
    return rc == 0 && fputc('\n', to) != EOF;
}

int hearth_json_answer(json_t *value)
{
    return hearth_json_print(value, stdout, true)
               ? HEARTH_EXIT_OK
               : hearth_cli_error("cannot write JSON: out of memory or disk full");
}
