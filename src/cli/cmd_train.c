// SPDX-License-Identifier: MIT
// hearth train-predictors: gives a model predictors.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/pack.h"
#include "convert/train.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/fit.h"
#include "cli/next.h"

struct named {
    double sum; // shares of the neurons that predictors name
    int n;
};

static void say_layer(void *arg, const struct hearth_train_layer *l)
{
    struct named *named = arg;
    named->sum += (double)l->chosen;
    named->n++;
    if (l->kept)
        hearth_cli_info("layer %d: finished before", l->layer);
    else
        hearth_cli_info(
            "layer %d: %srank %" PRIu32 " (%.1f %% of the bytes) names %.1f %% of the neurons, %.1f %% "
            "are active, and finds %.2f %% of what they give; %.0f s for the text, %.0f s of training",
            l->layer, l->wide ? "signs and " : "", l->rank, 100 * (double)l->bytes, 100 * (double)l->chosen,
            100 * (double)l->active, 100 * (double)l->recall, l->walk_s, l->train_s);
    hearth_progress_name("training, layer %d", l->layer + 1);
}

// As training will open its session. Returns the micro-batch that there is room for.
static int check_fit(const struct hearth_options *o, const struct hearth_model *model)
{
    const int n_ctx = (int)(o->n_ctx > o->n_ubatch ? o->n_ctx : o->n_ubatch);
    return hearth_cli_fit_prompts(model, o, n_ctx);
}

static int train(const struct hearth_options *o, const struct hearth_model *model, const hearth_token *tokens,
                 size_t n_tokens)
{
    struct named named = {0};
    const struct hearth_train_params params = {.n_ctx = (int)o->n_ctx,
                                               .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                               .n_ubatch = check_fit(o, model),
                                               .recall = (float)(o->recall / 100),
                                               .share = (float)(o->predictor_share / 100),
                                               .steps = (int)o->train_steps,
                                               .seed = (uint64_t)o->seed,
                                               .early = o->early_predictors,
                                               .form = (enum hearth_predictor_form)o->predictor_form,
                                               .sparsity_threshold = (float)o->sparsity_threshold.least,
                                               .sparsity_share = (float)o->sparsity_threshold.share,
                                               .progress = hearth_cli_progress,
                                               .on_layer = say_layer,
                                               .on_layer_arg = &named};
    struct hearth_error err = {0};
    hearth_progress_begin(HEARTH_PROGRESS_TOKENS, (double)n_tokens, "training, layer 0");
    const int rc = hearth_train_predictors(model, tokens, n_tokens, &params, o->out, &err);
    hearth_progress_end();
    if (rc == HEARTH_E_INTERRUPTED)
        hearth_cli_info("finished layers are in %s.layers: the same command goes on there", o->out);
    if (rc)
        return hearth_cli_fail(&err);
    if (named.n && named.sum > HEARTH_NEARLY_ALL * named.n)
        hearth_cli_warn(
            "the predictors name %.0f %% of the neurons for a token, so a pack gains nothing and may be slower than "
            "the model itself where it is read from the file: more text, more --steps or a smaller --recall may "
            "help",
            100 * named.sum / named.n);
    hearth_next_measure(o);
    hearth_next_of_training(o);
    return HEARTH_EXIT_OK;
}

int hearth_cmd_train(const struct hearth_options *o)
{
    struct hearth_model *model = NULL;
    hearth_token *tokens = NULL;
    size_t n_tokens = 0;
    int status = hearth_cli_open_to_make(&model, &tokens, &n_tokens, o, "train-predictors",
                                         "the model with predictors");
    if (!status)
        status = train(o, model, tokens, n_tokens);
    free(tokens);
    hearth_model_close(&model);
    return status;
}
