// SPDX-License-Identifier: MIT
// Whether a model fits into memory: see fit.h.
#include "cli/fit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/drafts.h"
#include "cli/pack_cache.h"
#include "engine/states.h"
#include "model/model.h"
#include "model/pack.h"

#define MIB ((uint64_t)1 << 20)
// Tokens of a page of the KV cache.
#define PAGE 64
// Smaller micro-batches make prompts much slower, where each of them reads all weights.
#define LEAST_UBATCH 64
// And smaller ones than this no longer save memory.
#define FEWEST 8
// Of -ub, when nobody says.
#define USUAL_UBATCH 512

// A budget as --ram takes it: "2503M", "20.1G"; not more than `bytes`.
static void format_budget(char *out, size_t size, uint64_t bytes)
{
    if (bytes < 10240 * MIB)
        snprintf(out, size, "%" PRIu64 "M", bytes / MIB);
    else
        snprintf(out, size, "%" PRIu64 ".%" PRIu64 "G", bytes / (1024 * MIB),
                 bytes % (1024 * MIB) * 10 / (1024 * MIB));
}

// The smallest budget, for which no rounding leaves too little: "6.94M".
static void format_least(char *out, size_t size, uint64_t bytes)
{
    const bool large = bytes >= 1024 * MIB;
    const double unit = (double)MIB * (large ? 1024 : 1);
    snprintf(out, size, "%.2f%c", ceil((double)bytes / unit * 100) / 100, large ? 'G' : 'M');
}

// What a budget that was not given in bytes came to.
static void say_ram(const struct hearth_options *o, const struct hearth_fit *fit)
{
    char budget[32];
    if (o->ram.percent > 0) {
        format_budget(budget, sizeof budget, o->ram.bytes);
        hearth_cli_info("--ram %.10g%% is %s", o->ram.percent, budget);
    } else if (o->ram.bytes == HEARTH_BUDGET_MIN && fit->kind != HEARTH_FIT_NOT) {
        format_least(budget, sizeof budget, fit->ram);
        hearth_cli_info("--ram min is %s", budget);
    }
}

static void say_budget(const struct hearth_fit *fit)
{
    char weights[32], room[32], budget[32], read[32], of[64] = "";
    hearth_cli_format_bytes(weights, sizeof weights, fit->weight_bytes);
    hearth_cli_format_bytes(room, sizeof room, fit->free_bytes);
    hearth_cli_format_bytes(read, sizeof read, fit->token_bytes);
    format_budget(budget, sizeof budget, fit->ram);
    if (strcmp(fit->free_what, "memory") != 0)
        snprintf(of, sizeof of, " (%s)", fit->free_what);
    hearth_cli_info(
        "%s of weights, %s free%s: running with --ram %s, which reads %s for a token (--ram all: load "
        "everything)",
        weights, room, of, budget, read);
}

static bool has_threshold(const struct hearth_session_params *params)
{
    return params->sparsity_threshold > 0 || params->sparsity_share > 0;
}

const char *hearth_cli_whole_layers(const struct hearth_model *model,
                                    const struct hearth_session_params *params)
{
    if (!model->pack)
        return NULL;
    const bool by_gates = model->pack->gates_apart && (hearth_is_relu(&model->hp) || has_threshold(params));
    if (!model->hp.has_predictors && model->pack->gates_apart && !by_gates)
        return "this pack streams whole layers: its gates say which neurons to read with "
               "--sparsity-threshold only (such as 40%, which changes the text)";
    if (!model->hp.has_predictors && !by_gates)
        return "this pack has no predictors and streams whole layers: the model that it was made of needs "
               "fewer reads";
    if (params->sparsity == HEARTH_SPARSITY_OFF)
        return "--sparsity off reads whole layers of this pack; auto reads single neurons";
    if (params->sparsity == HEARTH_SPARSITY_EXACT && !by_gates)
        return "--sparsity exact reads whole layers of this pack; auto reads single neurons";
    return NULL;
}

void hearth_cli_warn_threshold(const struct hearth_model *model, const struct hearth_session_params *params)
{
    if (model->hp.has_predictors && params->sparsity == HEARTH_SPARSITY_AUTO && has_threshold(params))
        hearth_cli_warn("with --sparsity-threshold the model's predictors are not used: without it, they say "
                        "which neurons are computed and read");
}

// What makes a model that streams faster.
static void say_hints(const struct hearth_fit *fit, const struct hearth_model *model,
                      const struct hearth_options *o, const struct hearth_session_params *params)
{
    const char *hint = hearth_cli_whole_layers(model, params);
    char kv[32];
    hearth_cli_format_bytes(kv, sizeof kv, fit->kv_bytes);
    if (hint)
        hearth_cli_info("%s", hint);
    else if (model->pack && !model->pack->n_batches)
        hearth_cli_info(HEARTH_NO_PROFILE);
    if (o->n_parallel && !o->kv_size && fit->kv_bytes > fit->ram / 4) // of run
        hearth_cli_info("a text of %d tokens takes %s from the weights: a smaller -c bounds that",
                        params->n_ctx, kv);
}

// Less room for tokens, so that the rest of the model has what it needs at least. False: that is not the
// remedy.
static bool shrink_cache(struct hearth_session_params *params, const struct hearth_fit *fit)
{
    const uint64_t seqs = (uint64_t)params->max_seqs, over = fit->least_bytes - fit->ram + 2 * MIB;
    const uint64_t tokens = params->kv_tokens ? (uint64_t)params->kv_tokens
                                              : seqs * (((uint64_t)params->n_ctx + PAGE - 1) / PAGE * PAGE);
    if (!tokens || over >= fit->kv_bytes)
        return false;
    const uint64_t left = (uint64_t)((double)tokens * (double)(fit->kv_bytes - over) / (double)fit->kv_bytes);
    if (left < (seqs + 1) * PAGE || left >= tokens)
        return false;
    params->kv_tokens = (int)(left / PAGE * PAGE);
    return true;
}

static bool try(const struct hearth_session_params *params, const struct hearth_model *model,
                struct hearth_fit *fit)
{
    struct hearth_error err = {0};
    if (hearth_model_fit(model, params, 0, fit, sizeof *fit, &err)) {
        *fit = (struct hearth_fit){.kind = HEARTH_FIT_NOT};
        return false;
    }
    return true;
}

// What was not asked for and takes memory becomes smaller, until the model runs at all: first micro-batches,
// which costs nothing but speed, then the KV cache.
static void make_room(struct hearth_session_params *params, const struct hearth_model *model,
                      const struct hearth_options *o, struct hearth_fit *fit)
{
    const int asked = params->n_ubatch;
    bool tried = true;
    while (tried && fit->kind == HEARTH_FIT_NOT && params->n_ubatch > LEAST_UBATCH) {
        params->n_ubatch /= 2;
        tried = try(params, model, fit);
    }
    if (params->n_ubatch < asked && tried)
        hearth_cli_info("memory has room for micro-batches of %d tokens", params->n_ubatch);
    if (tried && fit->kind == HEARTH_FIT_NOT && !o->kv_size && shrink_cache(params, fit)) {
        hearth_cli_info("memory has room for %d tokens of context", params->kv_tokens);
        (void)try(params, model, fit);
    }
}

// Room for guesses in the session's steps, where it changes nothing else. Rows of a step share whole layers that are
// read, but experts and neurons hardly.
static void fit_drafts(struct hearth_session_params *params, const struct hearth_model *model,
                       const struct hearth_options *o, struct hearth_fit *fit)
{
    struct hearth_session_params more = *params;
    struct hearth_fit with;
    const int texts = o->n_parallel > 0 ? (int)o->n_parallel : 1, guesses = hearth_cli_drafts(o);
    const bool by_parts = model->pack || model->hp.n_expert;
    // With a device the plan has each of its bytes.
    if (!guesses || params->device || o->ram.bytes == HEARTH_BUDGET_MIN ||
        texts + guesses > HEARTH_DRAFT_ROWS || fit->kind == HEARTH_FIT_NOT ||
        (fit->kind == HEARTH_FIT_STREAMS && by_parts))
        return;
    more.max_steps = texts + guesses;
    if (hearth_has_states(&model->hp)) // for each text the state before its guesses
        more.max_states =
            texts + (params->max_states ? params->max_states : hearth_states_usual(params->max_seqs));
    if (try(&more, model, &with) && with.kind == fit->kind) {
        *params = more;
        *fit = with;
    }
}

// A step reads so little less that it is no gain.
#define SAME 0.99

void hearth_cli_fit_ubatch(struct hearth_session_params *params, const struct hearth_model *model,
                           const struct hearth_options *o)
{
    struct hearth_session_params smaller = *params;
    struct hearth_fit now, then;
    if (params->n_ubatch != USUAL_UBATCH || !try(params, model, &now))
        return;
    if (o->ram.bytes == HEARTH_BUDGET_MIN && now.kind != HEARTH_FIT_WHOLE)
        params->n_ubatch = FEWEST;
    if (o->ram.bytes == HEARTH_BUDGET_MIN)
        return;
    while (now.kind != HEARTH_FIT_WHOLE &&
           smaller.n_ubatch > (now.kind == HEARTH_FIT_NOT ? FEWEST : LEAST_UBATCH)) {
        smaller.n_ubatch /= 2;
        if (!try(&smaller, model, &then))
            return;
        if (now.kind == HEARTH_FIT_NOT || then.kind == HEARTH_FIT_WHOLE ||
            (double)then.token_bytes < SAME * (double)now.token_bytes) {
            *params = smaller;
            now = then;
        }
    }
}

void hearth_cli_fit(struct hearth_session_params *params, const struct hearth_model *model,
                    const struct hearth_options *o, struct hearth_fit *out)
{
    struct hearth_fit fit;
    const bool tried = try(params, model, &fit);
    hearth_cli_warn_threshold(model, params);
    if (tried && fit.kind == HEARTH_FIT_NOT && (!o->ram.bytes || fit.ram + o->aside < o->ram.bytes))
        make_room(params, model, o, &fit);
    if (tried)
        fit_drafts(params, model, o, &fit);
    if (tried)
        say_ram(o, &fit);
    if (fit.kind == HEARTH_FIT_STREAMS) {
        if (!o->ram.bytes)
            say_budget(&fit);
        if (hearth_terminal_columns(stderr) || o->verbose)
            say_hints(&fit, model, o, params);
    }
    if (out)
        *out = fit;
}

int hearth_cli_fit_prompts(const struct hearth_model *model, const struct hearth_options *o, int n_ctx)
{
    struct hearth_session_params params = hearth_cli_session_params(o, n_ctx, 1);
    params.sparsity = HEARTH_SPARSITY_OFF;
    hearth_cli_fit(&params, model, o, NULL);
    return params.n_ubatch;
}

int hearth_cli_fit_or_pack(struct hearth_session_params *params, struct hearth_model **model,
                           const struct hearth_options *o, struct hearth_fit *out)
{
    struct hearth_fit fit;
    if (try(params, *model, &fit) && fit.kind != HEARTH_FIT_WHOLE) {
        const int status = hearth_cli_use_pack(model, params, o, &fit);
        if (status)
            return status;
    }
    hearth_cli_fit(params, *model, o, out);
    return HEARTH_EXIT_OK;
}
