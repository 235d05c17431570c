// SPDX-License-Identifier: MIT
// hearth tokenize: text on standard input to token ids on one line.
#include <inttypes.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/common.h"

static int print_ids(const hearth_token *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%" PRId32, i ? " " : "", tokens[i]);
    putchar('\n');
    return HEARTH_EXIT_OK;
}

int hearth_cmd_tokenize(const struct hearth_options *o)
{
    struct hearth_model *model = NULL;
    struct hearth_buffer text = {0};
    hearth_token *tokens = NULL;
    size_t n = 0;
    int flags = (o->no_bos ? 0 : HEARTH_TOKENIZE_BOS) | (o->special ? HEARTH_TOKENIZE_SPECIAL : 0);
    int status = hearth_cli_open_model(&model, o, true);
    if (!status)
        status = hearth_cli_read("-", &text);
    if (!status)
        status = hearth_cli_tokenize(model, text.data, text.n, flags, &tokens, &n);
    if (!status)
        status = print_ids(tokens, n);
    free(tokens);
    free(text.data);
    hearth_model_close(&model);
    return status;
}
