// SPDX-License-Identifier: MIT
// See drafts.h.
#include "cli/drafts.h"

#include <math.h>

#include "cli/common.h"
#include "cli/extent.h"

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

// The options as they are for a small model beside the one that they are about.
static struct hearth_options options_of(const struct hearth_options *o)
{
    struct hearth_options own = *o;
    own.model = o->model_draft;
    own.ram.bytes = HEARTH_BUDGET_ALL;
    own.device = "none";
    own.lora.n = own.lora_scaled.n = own.override_kv.n = 0;
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

// What of --ram the large model is to leave it. Weights are in memory by now, and count by themselves; other memory is not
// touched yet.
static int set_aside(struct hearth_options *o, const struct hearth_cli_drafter *d)
{
    struct hearth_stats stats;
    hearth_session_stats(d->session, &stats, sizeof stats);
    const uint64_t weights = hearth_model_info(d->model)->n_bytes, all = stats.memory_bytes;
    o->aside = all > weights + stats.kv_bytes ? all - weights : stats.kv_bytes;
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
    const struct hearth_options own = options_of(o);
    if (hearth_cli_open_model_at(&d->model, own.model, &own, false, &err))
        return hearth_cli_fail(&err);
    struct hearth_session_params params = params_of(&own, hearth_model_info(d->model), n_texts);
    params.progress = goes_on;
    if (hearth_session_open(&d->session, d->model, &params, &err))
        return hearth_cli_fail(&err);
    return set_aside(o, d);
}

int hearth_cli_attach_drafter(struct hearth_cli_drafter *d, const struct hearth_model *main, int n_texts)
{
    struct hearth_error err = {0};
    if (d->model && hearth_drafter_open(&d->drafter, d->model, d->session, main, n_texts, &err))
        return hearth_cli_fail(&err);
    return HEARTH_EXIT_OK;
}

void hearth_cli_note_drafter(const struct hearth_cli_drafter *d, bool guesses)
{
    if (d->model && !guesses)
        hearth_cli_info(
            "without effect here: --model-draft (drafts do not pay while neurons or experts come from the file, "
            "and there are none with a device, recurrent layers, --ram min, or many texts)");
}

void hearth_cli_close_drafter(struct hearth_cli_drafter *d)
{
    hearth_drafter_close(&d->drafter);
    hearth_session_close(&d->session);
    hearth_model_close(&d->model);
}
