// SPDX-License-Identifier: MIT
// hearth profile: counts how often each neuron of a model is active.
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "convert/profile.h"
#include "cli/commands.h"
#include "cli/common.h"

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static bool on_progress(void *arg, float share)
{
    hearth_cli_progress(arg, share);
    return !hearth_cli_interrupted();
}

static int write_profile(const struct hearth_options *o, const struct hearth_model *model,
                         const hearth_token *tokens, size_t n_tokens)
{
    static char label[] = "profiling";
    const struct hearth_profile_params params = {.n_ctx = (int)o->n_ctx,
                                                 .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                                 .sparsity_threshold = (float)o->sparsity_threshold.least,
                                                 .sparsity_share = (float)o->sparsity_threshold.share,
                                                 .progress = on_progress,
                                                 .progress_arg = label};
    struct hearth_profile_result result;
    struct hearth_error err = {0};
    if (hearth_profile(model, tokens, n_tokens, &params, o->out, &result, &err))
        return hearth_cli_fail(&err);
    hearth_cli_info("%" PRIu64 " tokens: one makes %.1f %% of the neurons active, 32 together %.1f %%",
                    result.tokens, 100 * result.active, 100 * result.active_32);
    return HEARTH_EXIT_OK;
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
    hearth_cli_catch_interrupt();
    int status = hearth_cli_read(o->file, &text);
    if (!status)
        hearth_cli_warn_binary(o->file, &text);
    if (!status)
        status = hearth_cli_open_model(&model, o, false);
    if (!status)
        status = hearth_cli_tokenize(model, text.data, text.n, 0, &tokens, &n_tokens);
    free(text.data);
    if (!status)
        status = write_profile(o, model, tokens, n_tokens);
    free(tokens);
    hearth_model_close(&model);
    return status;
}
