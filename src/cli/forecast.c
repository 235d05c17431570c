// SPDX-License-Identifier: MIT
// A run's forecast: see forecast.h.
#include "cli/forecast.h"

#include <limits.h>

#include "base/os.h"
#include "cli/common.h"
#include "cli/machine.h"
#include "store/store.h"

// The smallest budget in which a machine is measured, which takes nearly that much memory for a second.
#define MEASURE_FROM ((uint64_t)512 << 20)

// Storage that is emulated is no faster than this.
static void throttle(struct hearth_probe *p, const char *text)
{
    struct hearth_throttle t;
    if (!text || hearth_throttle_parse(&t, text, NULL))
        return;
    if (t.iops > 0 && p->request_us < 1e6 / t.iops)
        p->request_us = 1e6 / t.iops;
    if (t.mbps > 0 && p->byte_ns < 1e3 / t.mbps)
        p->byte_ns = 1e3 / t.mbps;
    if (t.mbps > 0 && p->sequential_gb_s > t.mbps / 1e3)
        p->sequential_gb_s = t.mbps / 1e3;
}

static bool look(struct hearth_prospect *out, const struct hearth_model *model,
                 const struct hearth_outlook_params *params, uint64_t ram)
{
    struct hearth_outlook *outlook;
    if (hearth_outlook_open(&outlook, model, params, NULL))
        return false;
    const int rc = hearth_outlook_at(outlook, ram, out, NULL);
    hearth_outlook_close(&outlook);
    hearth_memory_trim(); // the budget is the session's
    return !rc && out->kind == HEARTH_FIT_STREAMS;
}

bool hearth_cli_forecast(struct hearth_prospect *out, const struct hearth_options *o,
                         const struct hearth_model *model, const struct hearth_session_params *params,
                         uint64_t ram, size_t n_prompt)
{
    struct hearth_probe probe;
    const enum hearth_measuring when =
        ram >= MEASURE_FROM && !o->quiet ? HEARTH_MEASURE_TO_KEEP : HEARTH_MEASURE_NEVER;
    if (hearth_cli_machine(&probe, o, hearth_file_path(hearth_gguf_file(model->gguf, 0)), when))
        return false;
    throttle(&probe, o->throttle);
    struct hearth_session_params session = *params;
    session.n_threads = hearth_cli_threads(o);
    const struct hearth_outlook_params p = {
        .session = session,
        .probe = &probe,
        .n_prompt = n_prompt < INT_MAX ? (int)n_prompt : INT_MAX,
        .n_predict = o->n_predict > 0 && o->n_predict < INT_MAX ? (int)o->n_predict : 0,
        .keep_ubatch = true,
        .keep_look_ahead = true,
        .look_ahead = o->overlap == HEARTH_OVERLAP_ALL};
    if (!look(out, model, &p, ram))
        return false;
    hearth_cli_info("forecast: %.2f tok/s, %.2f MB read for a token", out->forecast.tokens_per_second,
                    out->forecast.read_bytes / 1e6);
    return true;
}
