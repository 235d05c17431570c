// SPDX-License-Identifier: MIT
// See drafts.h.
#include "cli/drafts.h"

#include "cli/common.h"
#include "cli/extent.h"

int hearth_cli_drafts(const struct hearth_options *o, const struct hearth_model *model)
{
    return o->trace ? 0 : hearth_draft_most(model, (int)o->draft_max); // a trace has the text's tokens alone
}

// The options as they are for a small model beside the one that they are about.
static struct hearth_options options_of(const struct hearth_options *o)
{
    struct hearth_options own = *o;
    own.model = o->model_draft;
    own.ram.bytes = 0;
    own.device = "none";
    own.lora.n = own.lora_scaled.n = own.override_kv.n = 0;
    own.verify = false;
    own.kv_size = 0;
    return own;
}

int hearth_cli_open_drafter(struct hearth_cli_drafter *d, struct hearth_options *o, int n_texts)
{
    struct hearth_error err = {0};
    struct hearth_stats stats;
    if (!o->model_draft || !o->draft_max || o->trace)
        return HEARTH_EXIT_OK;
    const struct hearth_options own = options_of(o);
    if (hearth_cli_open_model_at(&d->model, own.model, &own, false, &err))
        return hearth_cli_fail(&err);
    struct hearth_session_params params =
        hearth_cli_session_params(&own, hearth_cli_context(&own, hearth_model_info(d->model)), n_texts);
    params.max_steps = n_texts + HEARTH_DRAFT_MOST + 1;
    if (hearth_session_open(&d->session, d->model, &params, &err))
        return hearth_cli_fail(&err);
    // The rest of what it takes is there already, and counts in the model's budget by itself.
    hearth_session_stats(d->session, &stats, sizeof stats);
    o->aside = stats.kv_bytes;
    return HEARTH_EXIT_OK;
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
            "and there are none with a device, recurrent layers or --ram min)");
}

void hearth_cli_close_drafter(struct hearth_cli_drafter *d)
{
    hearth_drafter_close(&d->drafter);
    hearth_session_close(&d->session);
    hearth_model_close(&d->model);
}
