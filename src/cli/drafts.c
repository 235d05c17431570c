// SPDX-License-Identifier: MIT
// See drafts.h.
#include "cli/drafts.h"

#include <math.h>

#include "base/log.h"
#include "cli/common.h"
#include "cli/extent.h"
#include "model/nextn.h"

int hearth_cli_drafts(const struct hearth_options *o)
{
    if (o->trace) // which has the text's tokens alone
        return 0;
    return o->draft_max < HEARTH_DRAFT_MOST ? (int)o->draft_max : HEARTH_DRAFT_MOST;
}

int hearth_cli_step_room(const struct hearth_drafted *text, const struct hearth_session *session,
                         const struct hearth_options *o, int64_t generated, int n_guesses)
{
    int64_t room = hearth_session_n_ctx(session) - text->n + 1;
    if (o->n_predict > 0 && o->n_predict - generated < room)
        room = o->n_predict - generated;
    return (int)(room < n_guesses + 1 ? room : n_guesses + 1);
}

// Positions of its KV cache, unless -c or --kv-size want more: texts that do not fit go on without guesses.
#define USUAL_KV 16384

// The options as they are for what drafts, from this file, beside the model that they are about.
static struct hearth_options options_of(const struct hearth_options *o, const char *path)
{
    struct hearth_options own = *o;
    own.model = path;
    own.ram.bytes = HEARTH_BUDGET_ALL;
    own.device = "none";
    own.lora.n = own.lora_scaled.n = 0;
    if (path != o->model)
        own.override_kv.n = 0;
    own.verify = false;
    own.sparsity = HEARTH_SPARSITY_AUTO;
    own.predict_threshold = NAN;
    own.sparsity_threshold.least = own.sparsity_threshold.share = 0;
    own.type_k = own.type_v = HEARTH_KV_F16;
    return own;
}

static struct hearth_session_params params_of(const struct hearth_options *own,
                                              const struct hearth_model_info *info, int n_texts)
{
    int n_ctx = hearth_cli_context(own, info);
    if (info->n_ctx_train > 0 && n_ctx > info->n_ctx_train)
        n_ctx = info->n_ctx_train;
    struct hearth_session_params params = hearth_cli_session_params(own, n_ctx, n_texts);
    const int64_t all = (int64_t)n_ctx * n_texts, most = n_ctx > USUAL_KV ? n_ctx : USUAL_KV;
    if (!params.kv_tokens && all > most)
        params.kv_tokens = (int)most;
    params.max_steps = n_texts > HEARTH_DRAFTER_STEPS ? n_texts : HEARTH_DRAFTER_STEPS;
    return params;
}

// Ctrl-C ends what it does; the large model's session hears of it by itself.
static bool goes_on(void *arg, float share)
{
    (void)arg;
    (void)share;
    return !hearth_cli_interrupted();
}

// What of --ram a drafter's session takes, whose memory is not touched yet. Weights are in memory by now, and count by
// themselves.
static uint64_t session_bytes(const struct hearth_cli_drafter *d)
{
    struct hearth_stats stats;
    hearth_session_stats(d->session, &stats, sizeof stats);
    const uint64_t weights = d->model->image_bytes, all = stats.memory_bytes;
    return all > weights + stats.kv_bytes ? all - weights : stats.kv_bytes;
}

static int set_aside(struct hearth_options *o, const struct hearth_cli_drafter *d)
{
    o->aside = session_bytes(d);
    const uint64_t ram = hearth_options_ram(o);
    char bytes[32];
    if (!ram || ram >= HEARTH_RAM_LEAST || ram > o->aside)
        return HEARTH_EXIT_OK;
    hearth_cli_format_bytes(bytes, sizeof bytes, o->aside);
    return hearth_cli_error(
        "the KV cache and buffers of --model-draft take %s, all of --ram: give more, or a smaller -c", bytes);
}

int hearth_cli_open_drafter(struct hearth_cli_drafter *d, struct hearth_options *o, int n_texts)
{
    struct hearth_error err = {0};
    if (!o->model_draft || !o->draft_max || o->trace)
        return HEARTH_EXIT_OK;
    const struct hearth_options own = options_of(o, o->model_draft);
    if (hearth_cli_open_model_at(&d->model, own.model, &own, false, &err))
        return hearth_cli_fail(&err);
    struct hearth_session_params params = params_of(&own, hearth_model_info(d->model), n_texts);
    params.progress = goes_on;
    if (hearth_session_open(&d->session, d->model, &params, &err))
        return hearth_cli_fail(&err);
    return set_aside(o, d);
}

// ---- the layer of the model's own file

// Positions that it knows of a text, at most: it begins anew where they are full.
#define NEXTN_CTX 8192
// It takes no more than this share of the memory: it is to make a model faster that fits, or that streams, not to take its
// place.
#define NEXTN_SHARE 8

static struct hearth_session_params nextn_params(const struct hearth_options *own, int n_ctx, int n_texts)
{
    const int least = HEARTH_DRAFTER_TAIL + HEARTH_DRAFTER_STEPS;
    n_ctx = n_ctx > NEXTN_CTX ? NEXTN_CTX : n_ctx > least ? n_ctx : least;
    struct hearth_session_params params = hearth_cli_session_params(own, n_ctx, n_texts);
    params.kv_tokens = (int64_t)n_ctx * n_texts > USUAL_KV ? USUAL_KV : 0;
    params.n_ubatch = HEARTH_DRAFTER_UBATCH;
    params.max_steps = HEARTH_DRAFTER_STEPS;
    params.progress = goes_on;
    return params;
}

// Opens it with a session. False: there is none, or not the memory for it, of which there is so much for all.
static bool open_nextn(struct hearth_cli_drafter *d, const struct hearth_model *model,
                       const struct hearth_options *o, int n_ctx, int n_texts, uint64_t memory)
{
    struct hearth_error err = {0};
    const struct hearth_options own = options_of(o, model->info.path);
    const struct hearth_session_params params = nextn_params(&own, n_ctx, n_texts);
    d->nextn = true;
    if (hearth_cli_open_nextn(&d->model, own.model, &own, memory / NEXTN_SHARE, &err) || !d->model ||
        hearth_session_open(&d->session, d->model, &params, &err))
        return false;
    d->aside = session_bytes(d) + hearth_drafter_nextn_bytes(d->session, model->hp.n_embd, n_texts);
    return d->aside <= memory / NEXTN_SHARE;
}

void hearth_cli_fit_drafter(struct hearth_cli_drafter *d, struct hearth_model *model,
                            const struct hearth_options *o, const struct hearth_session_params *params,
                            int n_texts, struct hearth_fit *fit)
{
    struct hearth_error err = {0};
    struct hearth_fit with;
    if (d->model || !params->max_steps || !hearth_cli_drafts(o) || params->device ||
        fit->kind == HEARTH_FIT_NOT || !hearth_nextn_is_in(model))
        return;
    bool stays = open_nextn(d, model, o, params->n_ctx, n_texts, fit->ram);
    if (stays) {
        hearth_model_set_aside(model, d->aside);
        stays = !hearth_model_fit(model, params, 0, &with, sizeof with, &err) && with.kind == fit->kind;
    }
    if (stays) {
        *fit = with;
        return;
    }
    hearth_model_set_aside(model, 0);
    hearth_cli_close_drafter(d);
}

// ---- both

int hearth_cli_attach_drafter(struct hearth_cli_drafter *d, const struct hearth_model *main, int n_texts)
{
    struct hearth_error err = {0};
    if (d->model && hearth_drafter_open(&d->drafter, d->model, d->session, main, n_texts, &err))
        return hearth_cli_fail(&err);
    return HEARTH_EXIT_OK;
}

void hearth_cli_use_drafter(struct hearth_cli_drafter *d, struct hearth_session *session, int n_texts,
                            bool guesses)
{
    struct hearth_error err = {0};
    if (d->nextn &&
        (!guesses || hearth_drafter_open_nextn(&d->drafter, d->model, d->session, session, n_texts, &err))) {
        hearth_log(HEARTH_LOG_DEBUG, "the layer for guesses drafts nothing: %s",
                   guesses ? err.message : "there are none");
        hearth_cli_close_drafter(d);
    }
    if (d->drafter && d->nextn)
        hearth_log(HEARTH_LOG_DEBUG, "the layer for guesses drafts: %.1f MiB of weights, %.1f MiB besides",
                   (double)d->model->image_bytes / (1 << 20), (double)d->aside / (1 << 20));
    if (d->model && !d->nextn && !guesses)
        hearth_cli_info(
            "without effect here: --model-draft (drafts do not pay while neurons or experts come from the file, "
            "and there are none with a device, --ram min, or many texts)");
}

void hearth_cli_close_drafter(struct hearth_cli_drafter *d)
{
    hearth_drafter_close(&d->drafter);
    hearth_session_close(&d->session);
    hearth_model_close(&d->model);
    *d = (struct hearth_cli_drafter){0};
}
