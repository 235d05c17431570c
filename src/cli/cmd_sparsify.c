// SPDX-License-Identifier: MIT
// hearth sparsify: makes a model whose neurons are always active one that uses few of them.
#include <stdlib.h>

#include "convert/sparsify.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/fit.h"
#include "cli/next.h"

// Of more neurons many are on where their activation is no line, and that costs more than they give (docs/quality.md).
#define MOST_DENSITY 60.0

static int sparsify(const struct hearth_options *o, const struct hearth_model *model,
                    const hearth_token *tokens, size_t n_tokens)
{
    const int n_ctx = (int)(o->n_ctx > o->n_ubatch ? o->n_ctx : o->n_ubatch);
    const struct hearth_sparsify_params params = {.density = o->density / 100,
                                                  .n_ctx = (int)o->n_ctx,
                                                  .n_samples = (int)o->n_samples,
                                                  .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                                  .n_ubatch = hearth_cli_fit_prompts(model, o, n_ctx),
                                                  .progress = hearth_cli_progress};
    if (o->density > MOST_DENSITY)
        hearth_cli_warn("--density %g: models of more than %g %% lose more than those of 50 %%", o->density,
                        MOST_DENSITY);
    struct hearth_error err = {0};
    hearth_progress_begin(HEARTH_PROGRESS_SHARE, 1, "making it sparse");
    const int rc = hearth_sparsify(model, tokens, n_tokens, &params, o->out, &err);
    hearth_progress_end();
    if (rc)
        return hearth_cli_fail(&err);
    hearth_next_of_sparsify(o);
    return HEARTH_EXIT_OK;
}

int hearth_cmd_sparsify(const struct hearth_options *o)
{
    struct hearth_model *model = NULL;
    hearth_token *tokens = NULL;
    size_t n_tokens = 0;
    int status = hearth_cli_open_to_make(&model, &tokens, &n_tokens, o, "sparsify", "the sparse model");
    if (!status)
        status = sparsify(o, model, tokens, n_tokens);
    free(tokens);
    hearth_model_close(&model);
    return status;
}
