// SPDX-License-Identifier: MIT
// hearth profile: counts how often each neuron of a model is active.
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "convert/profile.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/fit.h"

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static int write_profile(const struct hearth_options *o, const struct hearth_model *model,
                         const hearth_token *tokens, size_t n_tokens)
{
    const struct hearth_profile_params params = {.n_ctx = (int)o->n_ctx,
                                                 .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                                 .sparsity_threshold = (float)o->sparsity_threshold.least,
                                                 .sparsity_share = (float)o->sparsity_threshold.share,
                                                 .progress = hearth_cli_progress};
    struct hearth_profile_result result;
    struct hearth_error err = {0};
    hearth_progress_begin(HEARTH_PROGRESS_TOKENS, (double)n_tokens, "profiling");
    const int rc = hearth_profile(model, tokens, n_tokens, &params, o->out, &result, &err);
    hearth_progress_end();
    if (rc)
        return hearth_cli_fail(&err);
    hearth_cli_info("%" PRIu64
                    " tokens: a single token activates %.1f %% of the neurons, 32 together %.1f %%",
                    result.tokens, 100 * result.active, 100 * result.active_32);
    return HEARTH_EXIT_OK;
}

// As hearth_profile() will open its session.
static void check_fit(const struct hearth_options *o, const struct hearth_model *model, size_t n_tokens)
{
    const size_t longest = n_tokens / HEARTH_PROFILE_SEQS + 1;
    const int n_ctx = (size_t)o->n_ctx < longest ? (int)o->n_ctx : (int)longest;
    struct hearth_session_params params = hearth_cli_session_params(o, n_ctx, HEARTH_PROFILE_SEQS);
    params.n_ubatch = 1;
    params.sparsity = HEARTH_SPARSITY_EXACT;
    hearth_cli_fit(&params, model, o, NULL);
}

int hearth_cmd_profile(const struct hearth_options *o)
{
    const struct hearth_command *cmd = hearth_command_find("profile");
    if (!o->file)
        return hearth_cli_usage(cmd, "-f is missing: which text should be run?");
    if (!o->out)
        return hearth_cli_usage(cmd, "-o is missing: where should the profile go?");
    if (same_file(o->model, o->out) || same_file(o->file, o->out))
        return hearth_cli_error("%s is what the profile is made of: give another name for it", o->out);
    struct hearth_buffer text = {0};
    struct hearth_model *model = NULL;
    hearth_token *tokens = NULL;
    size_t n_tokens = 0;
    int status = hearth_cli_read(o->file, &text);
    hearth_cli_catch_interrupt();
    if (!status)
        hearth_cli_warn_binary(o->file, &text);
    if (!status)
        status = hearth_cli_open_model(&model, o, false);
    if (!status)
        status = hearth_cli_tokenize(model, text.data, text.n, 0, &tokens, &n_tokens);
    free(text.data);
    if (!status)
        check_fit(o, model, n_tokens);
    if (!status)
        status = write_profile(o, model, tokens, n_tokens);
    free(tokens);
    hearth_model_close(&model);
    return status;
}
