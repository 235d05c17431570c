// SPDX-License-Identifier: MIT
// The statistics of a run.
#include "cli/run_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "cli/common.h"
#include "cli/json.h"

bool hearth_run_stats_add(struct hearth_run_stats *s, struct hearth_session *session, int texts, int rows,
                          uint64_t ns)
{
    struct hearth_streaming_stats t;
    if (s->n_steps == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 1024;
        struct hearth_run_step *grown = hearth_reallocarray(s->steps, cap, sizeof *grown);
        if (!grown)
            return false;
        s->steps = grown;
        s->cap = cap;
    }
    hearth_session_streaming_stats(session, &t, sizeof t);
    s->step_tokens += (uint64_t)rows;
    s->steps[s->n_steps++] = (struct hearth_run_step){
        .ns = ns * (uint64_t)texts / (uint64_t)rows, .tokens = s->step_tokens, .bytes = t.step_read_bytes};
    return true;
}

void hearth_run_stats_take(struct hearth_run_stats *s, const struct hearth_model *model,
                           struct hearth_session *session)
{
    s->model = hearth_model_info(model);
    hearth_session_stats(session, &s->session, sizeof s->session);
    hearth_session_kv_stats(session, &s->kv, sizeof s->kv);
    hearth_session_streaming_stats(session, &s->streaming, sizeof s->streaming);
    s->n_devices = hearth_session_device_stats_at(session, 0, &s->devices[0], sizeof s->devices[0]);
    for (int i = 1; i < s->n_devices; i++)
        hearth_session_device_stats_at(session, i, &s->devices[i], sizeof s->devices[i]);
}

void hearth_run_stats_free(struct hearth_run_stats *s)
{
    free(s->steps);
    s->steps = NULL;
    s->n_steps = s->cap = 0;
}

static double per_second(uint64_t n, uint64_t ns)
{
    return ns ? (double)n * 1e9 / (double)ns : 0;
}

// Bytes of weights streamed per second while generating, in GB (1e9).
static double gb_per_second(const struct hearth_run_stats *s)
{
    const struct hearth_stats *e = &s->session;
    const uint64_t by_neuron = e->predictor_bytes + e->gate_bytes + e->up_bytes + e->down_bytes;
    return per_second(e->steps * e->weight_bytes_per_step + by_neuron, e->step_ns) / 1e9;
}

// Time of steps, and of a small model that guesses.
static uint64_t generating_ns(const struct hearth_run_stats *s)
{
    return s->session.step_ns + s->pace->drafter_ns;
}

static double share(uint64_t n, uint64_t of)
{
    return of ? (double)n / (double)of : 0;
}

// Requests of steps for neurons or experts, resident ones not counted.
static uint64_t asked(const struct hearth_streaming_stats *t)
{
    return t->neuron_hits + t->neuron_late_hits + t->neuron_misses + t->expert_hits + t->expert_misses;
}

// Share of the requests whose neuron or expert was in memory or in flight.
static double hit_rate(const struct hearth_streaming_stats *t)
{
    return share(t->neuron_hits + t->neuron_late_hits + t->expert_hits, asked(t));
}

static double read_per_token(const struct hearth_run_stats *s)
{
    return share(s->streaming.step_read_bytes, s->step_tokens);
}

// The step that ends the first half of the tokens, while steps are in their order; there is one at least.
static struct hearth_run_step *half_of(const struct hearth_run_stats *s)
{
    struct hearth_run_step *half = s->steps;
    while (2 * half->tokens < s->steps[s->n_steps - 1].tokens)
        half++;
    return half;
}

// The same of the second half of the tokens; of the first one, part is what fills the cache.
static double read_late(const struct hearth_run_stats *s)
{
    if (!s->n_steps)
        return 0;
    const struct hearth_run_step *last = &s->steps[s->n_steps - 1], *half = half_of(s);
    return half < last ? share(last->bytes - half->bytes, last->tokens - half->tokens) : read_per_token(s);
}

// So many times as much are told apart.
#define MORE 1.2
// Fewer tokens do not tell what each reads once the cache has filled.
#define FEW 16

bool hearth_run_stats_fills(const struct hearth_streaming_stats *t, uint64_t tokens,
                            const struct hearth_prospect *forecast)
{
    return forecast && asked(t) && tokens && tokens < FEW &&
           share(t->step_read_bytes, tokens) > MORE * forecast->forecast.read_bytes;
}

// What of the bytes of a token filled the cache: "", or words that follow them.
static void describe_filling(const struct hearth_run_stats *s, char *out, size_t size)
{
    const double late = read_late(s);
    const uint64_t tokens = s->step_tokens;
    const bool falls = asked(&s->streaming) && read_per_token(s) > MORE * late;
    char bytes[32];
    *out = '\0';
    if (hearth_run_stats_fills(&s->streaming, tokens, s->forecast) || (falls && tokens < FEW)) {
        snprintf(out, size, HEARTH_FILLS);
    } else if (falls) {
        hearth_cli_format_bytes(bytes, sizeof bytes, (uint64_t)late);
        snprintf(out, size, ", %s once the cache had filled", bytes);
    }
}

// Whether it was stopped before all of the prompt was evaluated.
static bool ended_in_prompt(const struct hearth_run_stats *s)
{
    return s->session.prompt_tokens < s->n_prompt;
}

// "6.1 MiB for a token, 4.0 MiB once the cache had filled; waited for storage 12 % of the time; ", or the same
// of as much of the prompt as there was.
static void describe_reads(const struct hearth_run_stats *s, char *out, size_t size)
{
    const struct hearth_stats *e = &s->session;
    const struct hearth_streaming_stats *t = &s->streaming;
    const bool in_prompt = ended_in_prompt(s);
    char bytes[32], filling[80] = "";
    *out = '\0';
    if (!in_prompt && !s->step_tokens)
        return;
    hearth_cli_format_bytes(bytes, sizeof bytes,
                            in_prompt ? t->prompt_read_bytes : (uint64_t)read_per_token(s));
    if (!in_prompt && !s->forecast) // else it stands beside that
        describe_filling(s, filling, sizeof filling);
    snprintf(out, size, "%s%s%s; waited for storage %.0f %% of the time; ", bytes,
             in_prompt ? "" : " for a token", filling,
             100 * (in_prompt ? share(t->prompt_wait_ns, e->prompt_ns) : share(t->step_wait_ns, e->step_ns)));
}

// Of experts it is not counted apart which were still on their way.
static void describe_cache(const struct hearth_streaming_stats *t, char *out, size_t size)
{
    if (t->experts && asked(t))
        snprintf(out, size, "%.1f %% of the experts asked for were in the cache or on their way; ",
                 100 * hit_rate(t));
    else if (asked(t))
        snprintf(out, size, "of the neurons asked for %.1f %% were in the cache, %.1f %% on their way; ",
                 100 * share(t->neuron_hits, asked(t)), 100 * share(t->neuron_late_hits, asked(t)));
}

static void print_streaming(const struct hearth_run_stats *s)
{
    const struct hearth_streaming_stats *t = &s->streaming;
    char read[200], cache[100] = "", memory[80];
    describe_reads(s, read, sizeof read);
    describe_cache(t, cache, sizeof cache);
    hearth_cli_format_memory(memory, sizeof memory);
    hearth_cli_info("read by %s: %s%s%s", t->io, read, cache, memory);
}

// What was forecast, and in parentheses what came of it.
static void print_forecast(const struct hearth_run_stats *s)
{
    const struct hearth_streaming_stats *t = &s->streaming;
    const struct hearth_forecast *f = &s->forecast->forecast;
    char reads[60] = ""; // of hits it is not known which were read ahead
    char forecast[32], measured[32], filling[80];
    hearth_cli_format_bytes(forecast, sizeof forecast, (uint64_t)f->read_bytes);
    hearth_cli_format_bytes(measured, sizeof measured, (uint64_t)read_per_token(s));
    describe_filling(s, filling, sizeof filling);
    if (f->reads > 0)
        snprintf(reads, sizeof reads, " in %.0f reads (%.0f)", f->reads,
                 share(t->step_reads, s->step_tokens));
    hearth_cli_info("forecast (and measured): %.2f tok/s (%.2f), %s for a token (%s%s)%s",
                    f->tokens_per_second, per_second(s->step_tokens, generating_ns(s)), forecast, measured,
                    filling, reads);
}

// "1 token", "27 tokens, 9.78 tok/s": what took no time has no speed.
static void describe(char *out, size_t size, uint64_t n, uint64_t evaluated, uint64_t ns)
{
    char speed[40] = "";
    if (evaluated && ns)
        snprintf(speed, sizeof speed, ", %.2f tok/s", per_second(evaluated, ns));
    snprintf(out, size, "%llu token%s%s", (unsigned long long)n, n == 1 ? "" : "s", speed);
}

static void print_speeds(const struct hearth_run_stats *s)
{
    const struct hearth_stats *e = &s->session;
    char prompt[80], generated[80], guessed[60] = "", seed[40] = "";
    describe(prompt, sizeof prompt, e->prompt_tokens, e->prompt_tokens, e->prompt_ns);
    describe(generated, sizeof generated, s->generated, s->step_tokens, generating_ns(s));
    if (s->pace->guesses)
        snprintf(guessed, sizeof guessed, ", %llu of %llu drafted tokens accepted",
                 (unsigned long long)s->pace->hits_in_step, (unsigned long long)s->pace->guesses);
    if (s->random && s->n_sequences > 1)
        snprintf(seed, sizeof seed, "; seeds from %u on", s->seed);
    else if (s->random)
        snprintf(seed, sizeof seed, "; seed %u", s->seed);
    if (ended_in_prompt(s))
        hearth_cli_info("stopped in the prompt, after %llu of %llu tokens and %.1f s%s",
                        (unsigned long long)e->prompt_tokens, (unsigned long long)s->n_prompt,
                        (double)e->prompt_ns / 1e9, prompt + strcspn(prompt, ","));
    else
        hearth_cli_info("prompt %s; generated %s%s%s", prompt, generated, guessed, s->generated ? seed : "");
}

// Nobody asks about less.
#define LONG_NS 1000000000

void hearth_run_stats_loading(uint64_t load_ns, uint64_t measure_ns)
{
    char of[64] = "";
    if (load_ns < LONG_NS || hearth_terminal_columns(stderr)) // which has seen it
        return;
    if (measure_ns >= LONG_NS / 10)
        snprintf(of, sizeof of, ", of which measuring this machine %.1f s", (double)measure_ns / 1e9);
    hearth_cli_info("loading took %.1f s%s", (double)load_ns / 1e9, of);
}

void hearth_run_stats_print(const struct hearth_run_stats *s)
{
    hearth_run_stats_loading(s->load_ns, s->measure_ns);
    print_speeds(s);
    if (s->verbose && s->session.steps)
        hearth_cli_info("%.1f GB/s of weights while generating", gb_per_second(s));
    if (s->streaming.io && s->session.prompt_ns)
        print_streaming(s);
    if (s->streaming.io && s->step_tokens && s->forecast)
        print_forecast(s);
}

static int compare(const void *a, const void *b)
{
    const struct hearth_run_step *x = a, *y = b;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

// Nearest-rank percentile of n sorted step times, in milliseconds; null without any.
static json_t *percentile(const struct hearth_run_step *sorted, size_t n, size_t p)
{
    if (!n)
        return json_null();
    const size_t rank = (n * p + 99) / 100;
    return json_real((double)sorted[rank - 1].ns / 1e6);
}

// The median of the second half, which it sorts; null where there is none.
static json_t *late_median(struct hearth_run_stats *s)
{
    if (!s->n_steps)
        return json_null();
    struct hearth_run_step *first = half_of(s) + 1;
    const size_t n = (size_t)(s->steps + s->n_steps - first);
    qsort(first, n, sizeof *first, compare);
    return percentile(first, n, 50);
}

static json_t *rate(uint64_t n, uint64_t ns)
{
    return n && ns ? json_real(per_second(n, ns)) : json_null();
}

static const char *stop_name(enum hearth_stop stop)
{
    static const char *const names[] = {"none",        "eos",   "length", "context",
                                        "interrupted", "cache", "grammar"};
    return names[stop];
}

// JSON null if all weights are in memory.
static json_t *streaming_json(const struct hearth_run_stats *s)
{
    const struct hearth_stats *e = &s->session;
    const struct hearth_streaming_stats *t = &s->streaming;
    if (!t->io)
        return json_null();
    return json_pack(
        "{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:o, s:o, s:o, "
        "s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
        "io", t->io, "direct", (int)t->direct, //
        "planned_bytes", (json_int_t)t->planned_bytes, "dense_bytes", (json_int_t)t->dense_bytes,
        "dense_read_bytes_per_step", (json_int_t)t->dense_read_bytes, "neurons", (json_int_t)t->neurons,
        "neurons_resident", (json_int_t)t->neurons_resident, "neurons_cached", (json_int_t)t->neurons_cached,
        "neuron_bytes", (json_int_t)t->neuron_bytes, "resident_bytes", (json_int_t)t->resident_bytes,
        "cache_bytes", (json_int_t)t->cache_bytes, "lent_bytes", (json_int_t)t->lent_bytes, //
        "prompt_reads", (json_int_t)t->prompt_reads, "prompt_read_bytes",
        (json_int_t)t->prompt_read_bytes, //
        "prompt_read_bytes_per_token",
        e->prompt_tokens ? json_real(share(t->prompt_read_bytes, e->prompt_tokens)) : json_null(), //
        "prompt_wait_share", e->prompt_ns ? json_real(share(t->prompt_wait_ns, e->prompt_ns)) : json_null(),
        "reads", (json_int_t)t->step_reads, "read_bytes", (json_int_t)t->step_read_bytes, //
        "read_bytes_per_token",
        s->step_tokens ? json_real(read_per_token(s)) : json_null(),                     //
        "late_read_bytes_per_token", s->n_steps ? json_real(read_late(s)) : json_null(), //
        "wait_share", e->step_ns ? json_real(share(t->step_wait_ns, e->step_ns)) : json_null(),
        "neurons_asked_resident", (json_int_t)t->neuron_resident_hits, //
        "neurons_asked_cached", (json_int_t)(t->neuron_hits + t->neuron_late_hits), "neurons_asked_read",
        (json_int_t)t->neuron_misses, "read_retries", (json_int_t)t->read_retries, //
        "experts", (json_int_t)t->experts, "experts_cached", (json_int_t)t->experts_cached, "expert_bytes",
        (json_int_t)t->expert_bytes, "experts_asked_cached", (json_int_t)t->expert_hits, "experts_asked_read",
        (json_int_t)t->expert_misses, "experts_read_ahead", (json_int_t)t->experts_ahead,
        "experts_ahead_used", (json_int_t)t->experts_ahead_used, //
        "steps_guessed_early", (json_int_t)t->steps_guessed_early, "steps_guessed_late",
        (json_int_t)t->steps_guessed_late, "steps_not_guessed", (json_int_t)t->steps_not_guessed, //
        "hit_rate", asked(t) ? json_real(hit_rate(t)) : json_null());
}

// JSON null if there is none.
static json_t *device_json(const struct hearth_device_stats *d)
{
    if (!d->name)
        return json_null();
    return json_pack(
        "{s:o, s:b, s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name",
        hearth_json_string(d->name, strlen(d->name)), "works", d->works, "first_layer", d->first_layer,
        "layers", d->layers, "attention", d->attention, "head", d->head, "neurons", (json_int_t)d->neurons,
        "bytes", (json_int_t)d->bytes, "tokens", (json_int_t)d->tokens, "kernels", (json_int_t)d->runs,
        "bytes_up", (json_int_t)d->bytes_up, "bytes_down", (json_int_t)d->bytes_down, "experts",
        (json_int_t)d->experts, "expert_rows", (json_int_t)d->expert_rows, "through", (json_int_t)d->through);
}

static json_t *devices_json(const struct hearth_run_stats *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->n_devices; i++)
        json_array_append_new(list, device_json(&s->devices[i]));
    return list;
}

// JSON null if there is none.
static json_t *forecast_json(const struct hearth_run_stats *s)
{
    if (!s->forecast)
        return json_null();
    const struct hearth_forecast *f = &s->forecast->forecast;
    return json_pack("{s:f, s:f, s:f, s:o}", "tokens_per_second", f->tokens_per_second,
                     "read_bytes_per_token", f->read_bytes, "reads_per_token", f->reads, "hit_rate",
                     f->hit_rate >= 0 ? json_real(f->hit_rate) : json_null());
}

void hearth_run_stats_json(struct hearth_run_stats *s)
{
    hearth_terminal_message();             // the line is one of its own
    json_t *streaming = streaming_json(s); // for which steps are in their order
    if (json_is_object(streaming))
        json_object_set_new(streaming, "late_ms_per_token_p50", late_median(s));
    if (s->n_steps)
        qsort(s->steps, s->n_steps, sizeof *s->steps, compare);
    const struct hearth_stats *e = &s->session;
    json_t *root =
        json_pack("{s:o, s:i, s:I, s:I, s:I, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:I, "
                  "s:I, s:I, s:I, s:I, s:I, "
                  "s:I, s:I, s:I, s:I, s:I, s:I}",                                       //
                  "model", hearth_json_string(s->model->type, strlen(s->model->type)),   //
                  "threads", s->n_threads,                                               //
                  "prompt_tokens", (json_int_t)e->prompt_tokens,                         //
                  "generated_tokens", (json_int_t)s->generated,                          //
                  "seed", (json_int_t)s->seed,                                           //
                  "sequences", s->n_sequences,                                           //
                  "stop", stop_name(s->stop),                                            //
                  "prompt_tokens_per_second", rate(e->prompt_tokens, e->prompt_ns),      //
                  "tokens_per_second", rate(s->step_tokens, generating_ns(s)),           //
                  "ms_per_token_p50", percentile(s->steps, s->n_steps, 50),              //
                  "ms_per_token_p90", percentile(s->steps, s->n_steps, 90),              //
                  "ms_per_token_p99", percentile(s->steps, s->n_steps, 99),              //
                  "gb_per_second", e->steps ? json_real(gb_per_second(s)) : json_null(), //
                  "load_ms", (double)s->load_ns / 1e6,                                   //
                  "measure_ms", (double)s->measure_ns / 1e6,                             //
                  "weight_bytes_per_step", (json_int_t)e->weight_bytes_per_step,         //
                  "predictor_bytes", (json_int_t)e->predictor_bytes, "gate_bytes", (json_int_t)e->gate_bytes,
                  "up_bytes", (json_int_t)e->up_bytes, "down_bytes", (json_int_t)e->down_bytes,
                  "memory_bytes", (json_int_t)e->memory_bytes, //
                  "kv_pages", (json_int_t)s->kv.pages, "kv_pages_used", (json_int_t)s->kv.pages_used,
                  "kv_pages_shared", (json_int_t)s->kv.pages_shared, "kv_bytes", (json_int_t)e->kv_bytes, //
                  "memory_peak_bytes", (json_int_t)hearth_memory_peak(), "memory_program_bytes",
                  (json_int_t)hearth_memory_files());
    if (root)
        json_object_set_new(root, "streaming", streaming);
    else
        json_decref(streaming);
    if (root) {
        json_object_set_new(root, "draft_tokens", json_integer((json_int_t)s->pace->guesses));
        json_object_set_new(root, "draft_tokens_accepted", json_integer((json_int_t)s->pace->hits_in_step));
    }
    if (root)
        json_object_set_new(root, "device", device_json(&s->devices[0]));
    if (root)
        json_object_set_new(root, "devices", devices_json(s));
    if (root)
        json_object_set_new(root, "forecast", forecast_json(s));
    if (root && s->best >= 0) {
        json_object_set_new(root, "best_sequence", json_integer(s->best + 1));
        json_object_set_new(root, "best_mean_log_probability", hearth_json_real(s->best_log_prob));
    }
    if (!hearth_json_print(root, stderr, false))
        hearth_cli_error("no memory for the statistics");
}
