// SPDX-License-Identifier: MIT
// See drafts.h.
#include "cli/drafts.h"

#include <math.h>
#include <string.h>

#include "base/free_memory.h"
#include "base/log.h"
#include "cli/common.h"
#include "cli/extent.h"
#include "engine/tail.h"

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

// What of --ram the model is to leave its drafter. Weights are in memory by now, and count by themselves; other memory is
// not touched yet.
static void set_aside(struct hearth_options *o, const struct hearth_cli_drafter *d)
{
    struct hearth_stats stats;
    hearth_session_stats(d->session, &stats, sizeof stats);
    const uint64_t weights = d->model->image_bytes, all = stats.memory_bytes;
    o->aside = all > weights + stats.kv_bytes ? all - weights : stats.kv_bytes;
}

static int check_room(const struct hearth_options *o)
{
    const uint64_t ram = hearth_options_ram(o);
    char bytes[32];
    if (!ram || ram >= HEARTH_RAM_LEAST || ram > o->aside)
        return HEARTH_EXIT_OK;
    hearth_cli_format_bytes(bytes, sizeof bytes, o->aside);
    return hearth_cli_error(
        "the KV cache and buffers of --model-draft take %s, all of --ram: give more, or a smaller -c", bytes);
}

// Positions that the layer knows of a text, at most: it begins anew where they are full.
#define NEXTN_CTX 8192

static struct hearth_session_params nextn_params(const struct hearth_options *own,
                                                 const struct hearth_model_info *info, int n_texts)
{
    const int n_ctx = hearth_cli_context(own, info), least = HEARTH_DRAFTER_TAIL + HEARTH_DRAFTER_STEPS;
    struct hearth_session_params params = hearth_cli_session_params(own,
                                                                    n_ctx > NEXTN_CTX ? NEXTN_CTX
                                                                    : n_ctx > least   ? n_ctx
                                                                                      : least,
                                                                    n_texts);
    params.kv_tokens = 0;
    params.n_ubatch = HEARTH_DRAFTER_UBATCH;
    params.max_steps = HEARTH_DRAFTER_STEPS;
    return params;
}

// The layer of the model's own file, if it has one. Nothing is amiss where it has none, or there is no room.
static int open_nextn(struct hearth_cli_drafter *d, struct hearth_options *o, int n_texts)
{
    struct hearth_error err = {0};
    const struct hearth_options own = options_of(o, o->model);
    const uint64_t ram = hearth_options_ram(o);
    const uint64_t memory = ram && ram < HEARTH_RAM_LEAST ? ram : hearth_free_memory("", true).bytes;
    if (o->device && strcmp(o->device, "none") != 0)
        return HEARTH_EXIT_OK;
    if (ram == HEARTH_RAM_LEAST || hearth_cli_open_nextn(&d->model, &own, memory, &err) || !d->model)
        return HEARTH_EXIT_OK; // what is wrong with the file is said when the model opens
    struct hearth_session_params params = nextn_params(&own, hearth_model_info(d->model), n_texts);
    params.progress = goes_on;
    d->nextn = true;
    if (hearth_session_open(&d->session, d->model, &params, &err))
        return hearth_cli_fail(&err);
    set_aside(o, d);
    o->aside += hearth_tail_bytes(hearth_model_info(d->model)->n_embd, n_texts, HEARTH_DRAFTER_TAIL);
    d->aside = o->aside;
    if (o->aside <= memory / 8)
        return HEARTH_EXIT_OK;
    o->aside = 0;
    hearth_cli_close_drafter(d);
    return HEARTH_EXIT_OK;
}

int hearth_cli_open_drafter(struct hearth_cli_drafter *d, struct hearth_options *o, int n_texts)
{
    struct hearth_error err = {0};
    if (!o->draft_max || o->trace)
        return HEARTH_EXIT_OK;
    if (!o->model_draft)
        return open_nextn(d, o, n_texts);
    const struct hearth_options own = options_of(o, o->model_draft);
    if (hearth_cli_open_model_at(&d->model, own.model, &own, false, &err))
        return hearth_cli_fail(&err);
    struct hearth_session_params params = params_of(&own, hearth_model_info(d->model), n_texts);
    params.progress = goes_on;
    if (hearth_session_open(&d->session, d->model, &params, &err))
        return hearth_cli_fail(&err);
    set_aside(o, d);
    return check_room(o);
}

int hearth_cli_attach_drafter(struct hearth_cli_drafter *d, const struct hearth_model *main, int n_texts)
{
    struct hearth_error err = {0};
    if (d->model && !d->nextn && hearth_drafter_open(&d->drafter, d->model, d->session, main, n_texts, &err))
        return hearth_cli_fail(&err);
    return HEARTH_EXIT_OK;
}

int hearth_cli_use_drafter(struct hearth_cli_drafter *d, struct hearth_session *session, int n_texts,
                           bool guesses)
{
    struct hearth_error err = {0};
    if (d->nextn && guesses &&
        hearth_drafter_open_nextn(&d->drafter, d->model, d->session, session, n_texts, &err))
        return hearth_cli_fail(&err);
    if (d->drafter && d->nextn)
        hearth_log(HEARTH_LOG_DEBUG, "the layer for guesses drafts: %.1f MiB of weights, %.1f MiB besides",
                   (double)d->model->image_bytes / (1 << 20), (double)d->aside / (1 << 20));
    if (d->model && !d->nextn && !guesses)
        hearth_cli_info(
            "without effect here: --model-draft (drafts do not pay while neurons or experts come from the file, "
            "and there are none with a device, --ram min, or many texts)");
    return HEARTH_EXIT_OK;
}

void hearth_cli_close_drafter(struct hearth_cli_drafter *d)
{
    hearth_drafter_close(&d->drafter);
    hearth_session_close(&d->session);
    hearth_model_close(&d->model);
}
