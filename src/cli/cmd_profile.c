// SPDX-License-Identifier: MIT
// hearth profile: counts how often each neuron of a model is active.
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "convert/profile.h"
#include "convert/train.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/fit.h"
#include "cli/next.h"
#include "model/arch.h"
#include "model/model.h"
#include "plan/chart.h"

// ---- what the profile says

#define POINTS HEARTH_CHART_POINTS

struct summary {
    const struct hearth_profile *profile;
    uint32_t n;                          // layers that are counted
    struct hearth_profile_layer *layers; // [n]
};

static void print_layer(const char *name, const struct hearth_profile_layer *l)
{
    fprintf(stderr, "%5s %6.1f %6.1f %6.1f %7.1f %6.1f %6.1f %6.1f %6.1f %7.1f %9.3g\n", name,
            100 * l->active[0], 100 * l->active[3], 100 * l->active[5], 100 * l->repeats,
            100 * l->coverage[0], 100 * l->coverage[1], 100 * l->coverage[2], 100 * l->coverage[3],
            100 * l->never, l->mean);
}

static struct hearth_profile_layer mean_of(const struct summary *s)
{
    struct hearth_profile_layer sum = {0};
    const double n = s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct hearth_profile_layer *l = &s->layers[i];
        for (int b = 0; b < HEARTH_PROFILE_BATCHES; b++)
            sum.active[b] += l->active[b] / n;
        for (int c = 0; c < HEARTH_PROFILE_COVERAGES; c++)
            sum.coverage[c] += l->coverage[c] / n;
        sum.never += l->never / n;
        sum.repeats += l->repeats / n;
        sum.mean += l->mean / n;
    }
    return sum;
}

static void print_summary(const struct summary *s)
{
    fprintf(stderr, "      active %% of neurons,  active  neurons that have ... %% of    never     mean\n"
                    "layer  1 tok  8 tok 32 tok   again     50     80     95     99  active magnitude\n");
    for (uint32_t i = 0; i < s->n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%" PRIu32, s->layers[i].layer);
        print_layer(name, &s->layers[i]);
    }
    const struct hearth_profile_layer mean = mean_of(s);
    print_layer("mean", &mean);
    if (s->n < s->profile->n_layer)
        fprintf(stderr, "layers that are not here have no %s\n",
                s->profile->n_expert > 1 ? "experts" : "feed-forward part");
}

// Of many layers, some.
static int write_chart(const struct summary *s, const char *path)
{
    static const struct {
        const char *label;
        bool dashed;
    } lines[] = {{"active for a token", false},      {"active for one of 8", false},
                 {"active for one of 32", false},    {"active again at the next token", true},
                 {"have 80 % of activations", true}, {"have 95 % of activations", true}};
    enum { LINES = sizeof lines / sizeof *lines };
    double x[POINTS], y[LINES][POINTS];
    char subtitle[300];
    const int n = s->n < POINTS ? (int)s->n : POINTS;
    for (int i = 0; i < n; i++) {
        const uint32_t at = n > 1 ? (uint32_t)((uint64_t)i * (s->n - 1) / (uint64_t)(n - 1)) : 0;
        const struct hearth_profile_layer *l = &s->layers[at];
        const double values[LINES] = {l->active[0], l->active[3],   l->active[5],
                                      l->repeats,   l->coverage[1], l->coverage[2]};
        x[i] = l->layer;
        for (int k = 0; k < LINES; k++)
            y[k][i] = values[k];
    }
    snprintf(subtitle, sizeof subtitle,
             "%" PRIu64 " tokens, %" PRIu32 " layers of %" PRIu32 " x %" PRIu32 " neurons",
             s->profile->tokens, s->n, s->profile->n_expert, s->profile->n_ff);
    struct hearth_chart chart = {.title = "Active neurons, layer by layer",
                                 .subtitle = subtitle,
                                 .x_label = "layer",
                                 .y_label = "share of a layer's neurons, %",
                                 .n_points = n,
                                 .n_series = LINES,
                                 .x = x,
                                 .numbers = true,
                                 .y_scale = 100,
                                 .y_most = 1};
    for (int k = 0; k < LINES; k++)
        chart.series[k] = (struct hearth_chart_series){
            .label = lines[k].label, .y = y[k], .dashed = lines[k].dashed, .strong = k == 0};
    return hearth_cli_chart(&chart, path);
}

static int summarise(const struct hearth_options *o)
{
    struct hearth_profile *p = NULL;
    struct hearth_error err = {0};
    if (hearth_profile_open(&p, o->out, &err))
        return hearth_cli_fail(&err);
    struct summary s = {.profile = p, .layers = calloc(p->n_layer, sizeof *s.layers)};
    int rc = s.layers ? HEARTH_OK : hearth_fail(&err, HEARTH_E_MEMORY, "no memory for a summary");
    for (uint32_t i = 0; i < p->n_layer && !rc; i++) {
        rc = hearth_profile_summarise(p, i, &s.layers[s.n], &err);
        s.n += !rc && s.layers[s.n].used;
    }
    int status = rc ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
    if (!status && !o->quiet)
        print_summary(&s);
    if (!status && o->svg && s.n > 1)
        status = write_chart(&s, o->svg);
    free(s.layers);
    hearth_profile_close(&p);
    return status;
}

// ---- making it

static int write_profile(const struct hearth_options *o, const struct hearth_model *model,
                         const hearth_token *tokens, size_t n_tokens, int n_ubatch)
{
    const struct hearth_profile_params params = {.n_ctx = (int)o->n_ctx,
                                                 .n_threads = o->n_threads > 0 ? (int)o->n_threads : 0,
                                                 .sparsity_threshold = (float)o->sparsity_threshold.least,
                                                 .sparsity_share = (float)o->sparsity_threshold.share,
                                                 .n_ubatch = n_ubatch,
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

// As hearth_profile() will open its session. Returns the micro-batch that there is room for.
static int check_fit(const struct hearth_options *o, const struct hearth_model *model, size_t n_tokens)
{
    const size_t longest = n_tokens / HEARTH_PROFILE_SEQS + 1;
    const int64_t window = (size_t)o->n_ctx < longest ? o->n_ctx : (int64_t)longest;
    const int n_ctx = (int)(window > o->n_ubatch ? window : o->n_ubatch);
    return hearth_cli_fit_prompts(model, o, n_ctx);
}

// Whether a pack with its gates apart is next: where it needs no predictors, or where a text for a threshold is
// too short to train any.
static bool gates_say(const struct hearth_options *o, const struct hearth_model *m, size_t n_tokens)
{
    const bool has_gates =
        !m->hp.n_expert && hearth_arch_has_field(m->arch, offsetof(struct hearth_layer, ffn_gate));
    return has_gates && (hearth_is_relu(&m->hp) ||
                         hearth_train_windows(m, (int)o->n_ctx, n_tokens) < HEARTH_TRAIN_LEAST_WINDOWS);
}

int hearth_cmd_profile(const struct hearth_options *o)
{
    struct hearth_model *model = NULL;
    hearth_token *tokens = NULL;
    size_t n_tokens = 0;
    int status = hearth_cli_check_text_out(o, o->svg);
    if (!status)
        status = hearth_cli_open_to_make(&model, &tokens, &n_tokens, o, "profile", "the profile");
    if (!status)
        status = write_profile(o, model, tokens, n_tokens, check_fit(o, model, n_tokens));
    if (!status)
        status = summarise(o);
    if (!status)
        hearth_next_of_profile(o, model->hp.has_predictors, gates_say(o, model, n_tokens));
    free(tokens);
    hearth_model_close(&model);
    return status;
}
