// SPDX-License-Identifier: MIT
// A run's forecast: see forecast.h.
#include "cli/forecast.h"

#include <limits.h>

#include "base/os.h"
#include "cli/common.h"
#include "cli/machine.h"
#include "store/store.h"

// A machine is measured in a budget that has room for so many times what it takes, which is asked in those alone that
// may have it: the answer takes memory.
#define MEASURE_FROM  1.8
#define MEASURE_LEAST ((uint64_t)480 << 20)

static bool has_room_to_measure(uint64_t ram)
{
    return ram >= MEASURE_LEAST && (double)ram >= MEASURE_FROM * (double)hearth_probe_memory();
}

static const char *path_of(const struct hearth_model *model)
{
    return hearth_file_path(hearth_gguf_file(model->gguf, 0));
}

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

// Fewer tokens are no measurement.
#define TOKENS 4

void hearth_cli_forecast_judge(const struct hearth_prospect *forecast, const struct hearth_options *o,
                               const struct hearth_model *model, struct hearth_session *session)
{
    const struct hearth_forecast *f = &forecast->forecast;
    struct hearth_streaming_stats t;
    struct hearth_stats s;
    hearth_session_stats(session, &s, sizeof s);
    hearth_session_streaming_stats(session, &t, sizeof t);
    if (o->throttle || s.step_tokens < TOKENS || !s.step_ns)
        return;
    const double tokens = (double)s.step_tokens, speed = tokens * 1e9 / (double)s.step_ns,
                 bytes = (double)t.step_read_bytes / tokens;
    if (speed > 2 * f->tokens_per_second && bytes >= f->read_bytes / 2 &&
        hearth_cli_machine_forget(o, path_of(model)))
        hearth_cli_info(
            "this was %.1f times as fast as forecast: this machine is measured again the next time",
            speed / f->tokens_per_second);
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
    return !rc && out->kind != HEARTH_FIT_NOT;
}

bool hearth_cli_prospect(struct hearth_prospect *out, const struct hearth_options *o,
                         const struct hearth_model *model, const char *path,
                         const struct hearth_session_params *params, uint64_t ram, size_t n_prompt)
{
    struct hearth_probe probe;
    const enum hearth_measuring when =
        has_room_to_measure(ram) && !o->quiet ? HEARTH_MEASURE_TO_KEEP : HEARTH_MEASURE_NEVER;
    if (hearth_cli_machine(&probe, o, path, when))
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
    return look(out, model, &p, ram);
}

// Why there is none where something streams: nothing that can be trusted is known of this machine.
static void say_missing(const struct hearth_options *o, const char *path)
{
    const char *why = hearth_cli_machine_missing(o, path);
    if (why)
        hearth_cli_info("no forecast: this machine %s; hearth plan MODEL measures it", why);
}

bool hearth_cli_forecast(struct hearth_prospect *out, const struct hearth_options *o,
                         const struct hearth_model *model, const struct hearth_session_params *params,
                         uint64_t ram, size_t n_prompt)
{
    char bytes[32];
    if (!hearth_cli_prospect(out, o, model, path_of(model), params, ram, n_prompt)) {
        say_missing(o, path_of(model));
        return false;
    }
    if (out->kind != HEARTH_FIT_STREAMS)
        return false;
    hearth_cli_format_bytes(bytes, sizeof bytes, (uint64_t)out->forecast.read_bytes);
    hearth_cli_info("forecast: %.2f tok/s, %s read for a token, with a context of %d tokens (-c)",
                    out->forecast.tokens_per_second, bytes, params->n_ctx);
    return true;
}
