// SPDX-License-Identifier: MIT
// From the options to a grammar's text.
#include "cli/constraint.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "schema/schema.h"

static int add_schema(const struct hearth_buffer *json, struct hearth_buffer *gbnf)
{
    struct hearth_error err = {0};
    char *text;
    if (hearth_schema_to_gbnf(&text, json->data, json->n, &err))
        return hearth_cli_fail(&err);
    const bool added = hearth_buffer_add(gbnf, text, strlen(text));
    free(text);
    return added ? HEARTH_EXIT_OK : hearth_cli_error("no memory for the grammar");
}

int hearth_cli_read_constraint(const struct hearth_options *o, const struct hearth_command *cmd,
                               struct hearth_buffer *gbnf)
{
    const char *const given[] = {o->grammar, o->grammar_file, o->json_schema, o->json_schema_file};
    struct hearth_buffer text = {0};
    int which = -1;
    for (int i = 0; i < 4; i++) {
        if (given[i] && which >= 0)
            return hearth_cli_usage(cmd, "--grammar, --grammar-file, -j and -jf exclude each other");
        which = given[i] ? i : which;
    }
    if (which < 0)
        return HEARTH_EXIT_OK;
    int status = HEARTH_EXIT_OK;
    if (which % 2)
        status = hearth_cli_read(given[which], &text);
    else if (!hearth_buffer_add(&text, given[which], strlen(given[which])))
        status = hearth_cli_error("no memory for the grammar");
    if (!status && which >= 2) {
        status = add_schema(&text, gbnf);
        if (status && which == 2 && hearth_path_readable(given[which]))
            hearth_cli_info("%s is a file: -jf reads the schema from one", given[which]);
    } else if (!status) {
        *gbnf = text;
        return HEARTH_EXIT_OK;
    }
    free(text.data);
    return status;
}
