// SPDX-License-Identifier: MIT
// hearth bench: llama-bench's table of prompt and generation speed, beside the memory's bandwidth.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/bench_names.h"
#include "cli/bench_output.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/devices.h"
#include "cli/fit.h"
#include "cli/json.h"
#include "plan/roof.h"

struct bench {
    const struct hearth_options *o;
    struct hearth_model *model;
    struct hearth_session *session;
    const struct hearth_model_info *info;
    struct hearth_sampler *sampler;
    hearth_token *tokens;       // [longest prompt, generation or number of sequences]
    uint64_t *samples;          // [repetitions] nanoseconds
    struct hearth_roof roof;    // has samples if the roof is measured
    bool roof_beside;           // the roof is measured around every repetition; else only once before
    struct hearth_stats before; // statistics before the repetitions of the test
    int context;                // a sequence of o->depth tokens from which tests start; -1: none
    struct hearth_bench_output *output;
    bool wide;         // the table
    bool compared;     // a row of it was compared with the roof
    const char *label; // of the model in it
    struct {
        double before, call; // units of progress done before a call that evaluates, and of this call
    } progress;
};

// A line of the table: a prompt of n_prompt tokens, n_gen steps of n_seqs sequences, or a prompt and the
// steps after it.
struct test {
    int n_prompt, n_gen, n_seqs;
};

// ---- progress

static bool on_progress(void *arg, float share)
{
    const struct bench *b = arg;
    hearth_progress_set(b->progress.before + (double)share * b->progress.call);
    return !hearth_cli_interrupted();
}

// What comes takes so many units; 0: nobody knows.
static void begin(struct bench *b, double units)
{
    b->progress.before = b->progress.call = 0;
    hearth_progress_begin(HEARTH_PROGRESS_SHARE, units, "bench");
}

// The next call that evaluates is so many units of progress.
static void next_call(struct bench *b, double units)
{
    b->progress.before += b->progress.call;
    b->progress.call = units;
}

// ---- running

static int start_sequence(struct bench *b, struct hearth_error *err)
{
    return b->context < 0 ? hearth_seq_new(b->session, err)
                          : hearth_seq_fork(b->session, b->context, (int)b->o->depth, err);
}

// *ns becomes the time of the evaluation.
static int run_prompt(struct bench *b, int n, uint64_t *ns, struct hearth_error *err)
{
    int seq = start_sequence(b, err);
    if (seq < 0)
        return seq;
    next_call(b, 1);
    const uint64_t start = hearth_now_ns();
    int rc = hearth_prompt(b->session, seq, b->tokens, n, NULL, NULL, err);
    *ns = hearth_now_ns() - start;
    hearth_seq_free(b->session, seq);
    return rc;
}

// The sequences start with different tokens and continue with the model's own output, because the tokens
// decide which neurons and experts a sparse model uses. Sampling is not timed.
static int run_steps(struct bench *b, int n_steps, int n_seqs, uint64_t *ns, struct hearth_error *err)
{
    int seqs[256], n_open = 0, rc = HEARTH_OK;
    hearth_token tokens[256];
    *ns = 0;
    while (n_open < n_seqs && !rc) {
        int seq = start_sequence(b, err);
        if (seq < 0)
            rc = seq;
        else
            seqs[n_open++] = seq;
    }
    for (int i = 0; i < n_steps && !rc; i++) {
        for (int k = 0; k < n_seqs; k++)
            tokens[k] = i ? hearth_sample(b->sampler, hearth_logits(b->session, k)) : b->tokens[k];
        next_call(b, 1.0 / n_steps);
        const uint64_t start = hearth_now_ns();
        rc = hearth_step(b->session, seqs, tokens, n_seqs, err);
        *ns += hearth_now_ns() - start;
    }
    for (int k = 0; k < n_open; k++)
        hearth_seq_free(b->session, seqs[k]);
    return rc;
}

// A prompt, and what one sequence goes on with.
static int run_both(struct bench *b, int n_prompt, int n_gen, uint64_t *ns, struct hearth_error *err)
{
    int seq = start_sequence(b, err);
    if (seq < 0)
        return seq;
    const double token_units = 1.0 / (n_prompt + n_gen);
    next_call(b, n_prompt * token_units);
    uint64_t start = hearth_now_ns();
    int rc = hearth_prompt(b->session, seq, b->tokens, n_prompt, NULL, NULL, err);
    *ns = hearth_now_ns() - start;
    for (int i = 0; i < n_gen && !rc; i++) {
        const hearth_token token = hearth_sample(b->sampler, hearth_logits(b->session, 0));
        next_call(b, token_units);
        start = hearth_now_ns();
        rc = hearth_step(b->session, &seq, &token, 1, err);
        *ns += hearth_now_ns() - start;
    }
    hearth_seq_free(b->session, seq);
    return rc;
}

static int run_once(struct bench *b, const struct test *t, int n_prompt, int n_gen, uint64_t *ns,
                    struct hearth_error *err)
{
    if (t->n_prompt && t->n_gen)
        return run_both(b, n_prompt, n_gen, ns, err);
    return t->n_prompt ? run_prompt(b, n_prompt, ns, err) : run_steps(b, n_gen, t->n_seqs, ns, err);
}

// On shared machines the memory's speed varies, so the roof of steps is measured between them.
static void measure_roof(struct bench *b, const struct test *t)
{
    if (b->roof_beside && t->n_gen && !t->n_prompt)
        hearth_roof_measure(&b->roof);
}

static void test_name(const struct bench *b, const struct test *t, char *out, size_t size)
{
    char depth[24] = "", seqs[16] = "";
    if (b->o->depth)
        snprintf(depth, sizeof depth, " @ d%d", (int)b->o->depth);
    if (t->n_seqs > 1)
        snprintf(seqs, sizeof seqs, " x%d", t->n_seqs);
    if (t->n_prompt && t->n_gen)
        snprintf(out, size, "pp%d+tg%d%s", t->n_prompt, t->n_gen, depth);
    else
        snprintf(out, size, "%s%d%s%s", t->n_prompt ? "pp" : "tg", t->n_prompt ? t->n_prompt : t->n_gen, seqs,
                 depth);
}

// A short warm-up, then the repetitions.
static int measure(struct bench *b, const struct test *t)
{
    struct hearth_error err = {0};
    char name[60];
    test_name(b, t, name, sizeof name);
    begin(b, 0);
    hearth_progress_name("%s, warming up", name);
    int warm_up = t->n_prompt < b->o->n_ubatch ? t->n_prompt : (int)b->o->n_ubatch;
    uint64_t warm_up_ns;
    int rc = run_once(b, t, warm_up, 1, &warm_up_ns, &err);
    measure_roof(b, t);
    begin(b, (double)b->o->repetitions);
    for (int i = 0; i < b->o->repetitions && !rc; i++) {
        hearth_progress_name("%s, run %d of %d", name, i + 1, (int)b->o->repetitions);
        rc = run_once(b, t, t->n_prompt, t->n_gen, &b->samples[i], &err);
        measure_roof(b, t);
        if (hearth_cli_interrupted())
            return HEARTH_EXIT_INTERRUPTED;
    }
    hearth_progress_end();
    return rc ? hearth_cli_fail(&err) : HEARTH_EXIT_OK;
}

// ---- results

// Bytes of weights that a test's steps read: where single neurons are computed, and the rest.
struct bytes {
    double predictor, gate, up, down, rest;
};

struct summary {
    double ns, ns_dev, speed, speed_dev; // means and sample standard deviations; speed in tokens per second
    struct bytes bytes;
    double gb_per_second; // speed of reading weights; 0 for prompts, which use each weight many
                          // times per read
    double roof;          // GB/s, 0: not measured
};

static double deviation(double sum, double squares, double n)
{
    if (n < 2)
        return 0;
    double variance = (squares - sum * sum / n) / (n - 1);
    return variance > 0 ? sqrt(variance) : 0;
}

static int n_tokens(const struct test *t)
{
    return t->n_prompt + t->n_gen * t->n_seqs;
}

static double sample_speed(const struct bench *b, const struct test *t, int64_t i)
{
    return b->samples[i] ? n_tokens(t) * 1e9 / (double)b->samples[i] : 0;
}

// first_roof: the first of the test's samples of the roof.
static struct summary summarize(const struct bench *b, const struct test *t, size_t first_roof)
{
    double ns = 0, ns2 = 0, speed = 0, speed2 = 0, n = (double)b->o->repetitions;
    for (int64_t i = 0; i < b->o->repetitions; i++) {
        double sample = (double)b->samples[i], rate = sample_speed(b, t, i);
        ns += sample;
        ns2 += sample * sample;
        speed += rate;
        speed2 += rate * rate;
    }
    struct hearth_stats stats;
    hearth_session_stats(b->session, &stats, sizeof stats);
    struct summary s = {.ns = ns / n,
                        .ns_dev = deviation(ns, ns2, n),
                        .speed = speed / n,
                        .roof = hearth_roof_since(&b->roof, first_roof < b->roof.n ? first_roof : 0),
                        .speed_dev = deviation(speed, speed2, n)};
    // Bytes per repetition.
    s.bytes = (struct bytes){(double)(stats.predictor_bytes - b->before.predictor_bytes) / n,
                             (double)(stats.gate_bytes - b->before.gate_bytes) / n,
                             (double)(stats.up_bytes - b->before.up_bytes) / n,
                             (double)(stats.down_bytes - b->before.down_bytes) / n,
                             (double)stats.weight_bytes_per_step * t->n_gen};
    if (t->n_gen && !t->n_prompt && s.ns > 0)
        s.gb_per_second =
            (s.bytes.predictor + s.bytes.gate + s.bytes.up + s.bytes.down + s.bytes.rest) / s.ns;
    return s;
}

static const char *const kv_types[] = {"f16", "f32", "q8_0"};

// What lists give several values, beside the model and the threads: columns of a wide table, words above a
// narrow one.
struct variable {
    const char *name;
    char value[16];
};
#define VARIABLES_MAX 3

static int list_variables(const struct hearth_options *o, struct variable out[VARIABLES_MAX])
{
    int n = 0;
    if (o->bench_ubatch.n > 1) {
        out[n].name = "n_ubatch";
        snprintf(out[n++].value, sizeof out->value, "%d", (int)o->n_ubatch);
    }
    if (o->bench_type_k.n > 1) {
        out[n].name = "type_k";
        snprintf(out[n++].value, sizeof out->value, "%s", kv_types[o->type_k]);
    }
    if (o->bench_type_v.n > 1) {
        out[n].name = "type_v";
        snprintf(out[n++].value, sizeof out->value, "%s", kv_types[o->type_v]);
    }
    return n;
}

// llama-bench's table is wide: on a terminal that is narrower, what all rows have in common stands above
// them.
#define WIDE     133 // columns, without "of roof", which takes ROOF, and what varies, VARIABLE each
#define ROOF     10
#define VARIABLE 11

static bool is_wide(const struct bench *b)
{
    const int columns = hearth_terminal_columns(stdout);
    struct variable variables[VARIABLES_MAX];
    return !columns || columns >= WIDE + (b->roof.n ? ROOF : 0) + list_variables(b->o, variables) * VARIABLE;
}

static void format_model(const struct bench *b, char size[32], char params[32])
{
    hearth_cli_format_bytes(size, 32, b->info->n_bytes);
    hearth_cli_format_count(params, 32, b->info->n_params);
}

static void print_head(const struct bench *b)
{
    char size[32], params[32], backends[64];
    struct variable variables[VARIABLES_MAX];
    const int n_variables = list_variables(b->o, variables);
    format_model(b, size, params);
    if (b->wide) {
        printf("| %-30s | %10s | %10s | %-10s | %7s ", "model", "size", "params", "backend", "threads");
        for (int i = 0; i < n_variables; i++)
            printf("| %8s ", variables[i].name);
    } else {
        hearth_cli_backends(b->session, backends, sizeof backends);
        printf("%s, %s, %s parameters, %s, %d threads", b->label, size, params, backends,
               hearth_cli_threads(b->o));
        for (int i = 0; i < n_variables; i++)
            printf(", %s %s", variables[i].name, variables[i].value);
        printf("\n\n");
    }
    printf("| %15s | %20s | %6s |%s\n", "test", "t/s", "GB/s", b->roof.n ? " of roof |" : "");
    if (b->wide) {
        printf("| ------------------------------ | ---------: | ---------: | ---------- | ------: ");
        for (int i = 0; i < n_variables; i++)
            printf("| -------: ");
    }
    printf("| --------------: | -------------------: | -----: |%s\n", b->roof.n ? " ------: |" : "");
    fflush(stdout);
}

static void print_row(const struct bench *b, const struct test *t, const struct summary *s)
{
    char size[32], params[32], name[40], speed[64], rate[32] = "", backends[64];
    format_model(b, size, params);
    test_name(b, t, name, sizeof name);
    snprintf(speed, sizeof speed, "%.2f ± %.2f", s->speed, s->speed_dev);
    if (s->gb_per_second > 0)
        snprintf(rate, sizeof rate, "%.2f", s->gb_per_second);
    if (b->wide) {
        hearth_cli_backends(b->session, backends, sizeof backends);
        printf("| %-30s | %10s | %10s | %-10s | %7d ", b->label, size, params, backends,
               hearth_cli_threads(b->o));
        struct variable variables[VARIABLES_MAX];
        const int n_variables = list_variables(b->o, variables);
        for (int i = 0; i < n_variables; i++)
            printf("| %8s ", variables[i].value);
    }
    // The sign ± takes two bytes but one column.
    printf("| %15s | %21s | %6s |", name, speed, rate);
    if (s->roof > 0 && s->gb_per_second > 0)
        printf(" %5.0f %% |", 100 * s->gb_per_second / s->roof);
    else if (s->roof > 0)
        printf("         |");
    putchar('\n');
    fflush(stdout);
}

static json_t *json_samples(const struct bench *b, const struct test *t, bool speed)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < b->o->repetitions; i++)
        json_array_append_new(list, speed ? json_real(sample_speed(b, t, i))
                                          : json_integer((json_int_t)b->samples[i]));
    return list;
}

static json_t *json_bytes(const struct bytes *b, int n_steps)
{
    const struct {
        const char *name;
        double bytes;
    } kinds[] = {
        {"predictor", b->predictor}, {"gate", b->gate}, {"up", b->up}, {"down", b->down}, {"rest", b->rest}};
    json_t *list = json_object();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        json_object_set_new(list, kinds[i].name, json_integer((json_int_t)llround(kinds[i].bytes / n_steps)));
    return list;
}

// Names as in llama-bench -o json where the meaning is the same.
static json_t *json_row(const struct bench *b, const struct test *t, const struct summary *s)
{
    const struct hearth_model_info *m = b->info;
    char now[40], backends[64];
    struct tm utc = {0};
    hearth_cli_backends(b->session, backends, sizeof backends);
    (void)hearth_calendar((int64_t)time(NULL), false, &utc);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:I, s:I, s:s, s:s, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:s, s:I, s:I, s:f, "
        "s:f, s:o, s:o, s:o, s:o, s:i, s:o}",
        "build", hearth_version(), "cpu_info", hearth_cpu_brand(), "model_filename",
        hearth_json_string(m->path, strlen(m->path)), "model_type",
        hearth_json_string(m->type, strlen(m->type)), "model_size", (json_int_t)m->n_bytes, "model_n_params",
        (json_int_t)m->n_params, "backends", backends, "cpu_level",
        b->o->cpu ? hearth_options_cpu(b->o) : hearth_cpu_level_name(hearth_cpu_flags()), "n_threads",
        hearth_cli_threads(b->o), "n_ubatch", (int)b->o->n_ubatch, "type_k", kv_types[b->o->type_k], "type_v",
        kv_types[b->o->type_v], "n_prompt", t->n_prompt, "n_gen", t->n_gen, "n_sequences",
        t->n_prompt ? 1 : t->n_seqs, "test_time", now, "avg_ns", (json_int_t)llround(s->ns), "stddev_ns",
        (json_int_t)llround(s->ns_dev), "avg_ts", s->speed, "stddev_ts", s->speed_dev, "samples_ns",
        json_samples(b, t, false), "samples_ts", json_samples(b, t, true), "gb_per_second",
        s->gb_per_second > 0 ? json_real(s->gb_per_second) : json_null(), "roof_gb_per_second",
        s->roof > 0 ? json_real(s->roof) : json_null(), "n_depth", (int)b->o->depth, "bytes_per_step",
        t->n_gen && !t->n_prompt ? json_bytes(&s->bytes, t->n_gen) : json_null());
}

static int run_test(struct bench *b, struct test t)
{
    const size_t first_roof = b->roof.n;
    int status = measure(b, &t);
    if (status)
        return status;
    struct summary s = summarize(b, &t, first_roof);
    hearth_terminal_message();
    if (b->o->output == HEARTH_OUTPUT_MD) {
        print_row(b, &t, &s);
        if (s.roof > 0 && s.gb_per_second > 0) {
            hearth_bench_output_roof(b->output, hearth_cli_threads(b->o), s.roof);
            b->compared = true;
        }
        return HEARTH_EXIT_OK;
    }
    return hearth_bench_output_add(b->output, json_row(b, &t, &s));
}

// "512,128": a prompt and what follows it.
static bool parse_pair(const char *text, struct test *t)
{
    char rest;
    return sscanf(text, "%7d,%7d%c", &t->n_prompt, &t->n_gen, &rest) == 2 && t->n_prompt > 0 && t->n_gen > 0;
}

static int run_all(struct bench *b)
{
    const struct hearth_options *o = b->o;
    int status = HEARTH_EXIT_OK;
    for (int i = 0; i < o->bench_prompt.n && !status; i++)
        if (o->bench_prompt.values[i])
            status = run_test(b, (struct test){(int)o->bench_prompt.values[i], 0, 1});
    for (int i = 0; i < o->bench_gen.n; i++)
        for (int k = 0; k < o->bench_parallel.n && !status; k++)
            if (o->bench_gen.values[i])
                status = run_test(
                    b, (struct test){0, (int)o->bench_gen.values[i], (int)o->bench_parallel.values[k]});
    struct test both = {.n_seqs = 1};
    for (int i = 0; i < o->bench_pg.n && !status; i++) {
        parse_pair(o->bench_pg.values[i], &both);
        status = run_test(b, both);
    }
    return status;
}

// ---- setting up

static int largest(const struct hearth_int_list *list)
{
    int64_t max = 0;
    for (int i = 0; i < list->n; i++)
        if (list->values[i] > max)
            max = list->values[i];
    return (int)max;
}

// Makes prompts, and the tokens that sequences start with: random ones; the first is BOS.
static int make_tokens(struct bench *b, int n)
{
    b->tokens = hearth_calloc((size_t)n, sizeof *b->tokens);
    b->samples = hearth_calloc((size_t)b->o->repetitions, sizeof *b->samples);
    if (!b->tokens || !b->samples)
        return hearth_cli_error("no memory for %d tokens", n);
    uint32_t state = 1;
    for (int i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        b->tokens[i] = (hearth_token)((state >> 8) % (uint32_t)b->info->n_vocab);
    }
    hearth_token bos = hearth_token_bos(b->model);
    if (bos >= 0)
        b->tokens[0] = bos;
    return HEARTH_EXIT_OK;
}

static int begin_roof(struct bench *b)
{
    const struct hearth_options *o = b->o;
    const size_t most =
        1 + (size_t)o->bench_gen.n * (size_t)o->bench_parallel.n * ((size_t)o->repetitions + 1);
    struct hearth_error err = {0};
    if (!o->roof_bytes)
        return HEARTH_EXIT_OK;
    if (hearth_roof_open(&b->roof, (size_t)o->roof_bytes, hearth_cli_threads(o), most, &err))
        return hearth_cli_fail(&err);
    hearth_roof_measure(&b->roof);
    return HEARTH_EXIT_OK;
}

// The roof is measured once it is known that the model runs at all. Its memory stays where there is no budget
// and all weights fit beside it; on top of a budget it would be too much.
static int fit_and_measure_roof(struct bench *b, struct hearth_session_params *params)
{
    const struct hearth_options *o = b->o;
    const bool budget = o->ram.bytes && o->ram.bytes != HEARTH_BUDGET_ALL;
    struct hearth_fit fit;
    struct hearth_error err = {0};
    int status = HEARTH_EXIT_OK;
    const bool before = !budget && !hearth_model_fit(b->model, params, 0, &fit, sizeof fit, &err) &&
                        fit.kind != HEARTH_FIT_NOT;
    if (before)
        status = begin_roof(b);
    if (before && fit.kind != HEARTH_FIT_WHOLE) // what it holds is free for the model
        hearth_roof_stop(&b->roof);
    if (!status)
        status = hearth_cli_fit_or_pack(params, &b->model, o, &fit);
    b->roof_beside = before && b->roof.pool && fit.kind == HEARTH_FIT_WHOLE;
    if (!status && !before && fit.kind != HEARTH_FIT_NOT)
        status = begin_roof(b);
    if (!b->roof_beside)
        hearth_roof_stop(&b->roof);
    return status;
}

static int set_up(struct bench *b)
{
    const struct hearth_options *o = b->o;
    struct hearth_error err = {0};
    int n_prompt = largest(&o->bench_prompt), n_gen = largest(&o->bench_gen);
    int longest = n_prompt > n_gen ? n_prompt : n_gen;
    for (int i = 0; i < o->bench_pg.n; i++) {
        struct test both = {0};
        if (!parse_pair(o->bench_pg.values[i], &both))
            return hearth_cli_usage(hearth_command_find("bench"),
                                    "-pg %s: must be two numbers such as 512,128", o->bench_pg.values[i]);
        if (both.n_prompt + both.n_gen > longest)
            longest = both.n_prompt + both.n_gen;
    }
    if (!longest)
        return hearth_cli_usage(hearth_command_find("bench"), "nothing to measure: -p and -n are both 0");
    int status = hearth_cli_open_model(&b->model, o, false);
    if (status)
        return status;
    const int n_seqs = n_gen ? largest(&o->bench_parallel) : 1, depth = (int)o->depth;
    struct hearth_session_params params = hearth_cli_session_params(o, longest + depth, n_seqs + (depth > 0));
    struct hearth_sampler_params sampling = hearth_sampler_params_default();
    sampling.seed = 1;
    status = fit_and_measure_roof(b, &params);
    if (status)
        return status;
    b->info = hearth_model_info(b->model);
    params.progress = on_progress;
    params.progress_arg = b;
    status = hearth_cli_open_session(&b->session, b->model, &params);
    if (status)
        return status;
    if (hearth_sampler_open(&b->sampler, b->info->n_vocab, &sampling, &err) ||
        (o->trace && hearth_session_trace(b->session, o->trace, &err)))
        return hearth_cli_fail(&err);
    hearth_cli_note_unused(o, b->session);
    const int most = longest > depth ? longest : depth;
    status = make_tokens(b, most > n_seqs ? most : n_seqs);
    if (status || !depth)
        return status;
    b->context = hearth_seq_new(b->session, &err);
    begin(b, 1);
    hearth_progress_name("context of %d tokens", depth);
    next_call(b, 1);
    if (b->context < 0 || hearth_prompt(b->session, b->context, b->tokens, depth, NULL, NULL, &err))
        return hearth_cli_fail(&err);
    hearth_progress_end();
    return HEARTH_EXIT_OK;
}

// A wide table has one head. What stands above a narrow one holds for all its rows.
static void begin_table(const struct bench *b, const struct hearth_options *before)
{
    if (!before)
        print_head(b);
    else if (!b->wide && (before->model != b->o->model || before->n_threads != b->o->n_threads ||
                          before->n_ubatch != b->o->n_ubatch || before->type_k != b->o->type_k ||
                          before->type_v != b->o->type_v)) {
        putchar('\n');
        print_head(b);
    }
}

// Measures one combination of what lists give; `before` is the one before it, or NULL.
static int bench_one(const struct hearth_options *o, const struct hearth_options *before,
                     enum hearth_bench_names names, struct hearth_bench_output *output)
{
    struct bench b = {.o = o, .context = -1, .output = output};
    int status = set_up(&b);
    if (!status) {
        b.label = names == HEARTH_BENCH_BY_TYPE   ? b.info->type
                  : names == HEARTH_BENCH_BY_FILE ? hearth_path_name(o->model)
                                                  : o->model;
        b.wide = is_wide(&b);
        hearth_terminal_message();
        if (o->output == HEARTH_OUTPUT_MD)
            begin_table(&b, before);
        status = run_all(&b);
        hearth_progress_end();
        status = hearth_cli_end_trace(b.session, status);
        if (!b.compared)
            hearth_bench_output_roof(output, hearth_cli_threads(o), hearth_roof_since(&b.roof, 0));
    }
    free(b.tokens);
    free(b.samples);
    hearth_roof_close(&b.roof);
    hearth_sampler_close(&b.sampler);
    hearth_cli_cancel_on_interrupt(NULL);
    hearth_session_close(&b.session);
    hearth_model_close(&b.model);
    return status;
}

// Combination i of all that lists give; false: there are no more. The models come last, so that each is done
// with before the next one.
static bool combination(const struct hearth_options *o, int i, struct hearth_options *one)
{
    const struct {
        const struct hearth_int_list *list;
        int64_t *value;
        int *choice;
    } lists[] = {{&o->bench_depth, &one->depth, NULL},
                 {&o->bench_type_v, NULL, &one->type_v},
                 {&o->bench_type_k, NULL, &one->type_k},
                 {&o->bench_ubatch, &one->n_ubatch, NULL},
                 {&o->bench_threads, &one->n_threads, NULL}};
    *one = *o;
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        const int64_t value = lists[k].list->values[i % lists[k].list->n];
        i /= lists[k].list->n;
        if (lists[k].value)
            *lists[k].value = value;
        else
            *lists[k].choice = (int)value;
    }
    one->model = i < o->models.n ? o->models.values[i] : NULL;
    return one->model;
}

int hearth_cmd_bench(const struct hearth_options *o)
{
    struct hearth_bench_output output = {.format = o->output};
    struct hearth_options one, before;
    int status = hearth_cli_check_text_out(o, o->trace);
    if (o->trace && combination(o, 1, &one))
        return hearth_cli_usage(hearth_command_find("bench"),
                                "--trace is for one model and one value of each option");
    const enum hearth_bench_names names =
        o->output == HEARTH_OUTPUT_MD ? hearth_bench_names_choose(&o->models) : HEARTH_BENCH_BY_TYPE;
    hearth_cli_catch_interrupt();
    for (int i = 0; !status && combination(o, i, &one); i++) {
        status = bench_one(&one, i ? &before : NULL, names, &output);
        before = one;
    }
    const int ended = hearth_bench_output_end(&output);
    status = status ? status : ended;
    hearth_bench_output_free(&output);
    return status;
}
