// SPDX-License-Identifier: MIT
// hearth plan: plans for a model (plan_model.c), or replays a trace through neuron caches of several sizes.
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/plan_model.h"
#include "plan/chart.h"
#include "plan/simulate.h"

static void print_facts(const struct hearth_trace *t, const struct hearth_sim *s)
{
    char size[32] = "of unknown size";
    if (s->n_bytes)
        hearth_cli_format_bytes(size, sizeof size, s->n_bytes);
    printf("%llu tokens, %u spaces, %llu neurons (%s)\n", (unsigned long long)s->n_tokens,
           hearth_trace_info(t)->n_spaces, (unsigned long long)s->n_neurons, size);
    printf("%s in a visit: %.1f %% of a space's neurons; Jaccard with the last: %.2f\n",
           hearth_trace_info(t)->active ? "active" : "computed", 100 * s->density, s->overlap);
    printf("uses that fall on each space's hottest tenth: %.1f %%\n", 100 * s->top_tenth);
    printf("most that a step needs: %llu neurons, %.1f %% of all\n"
           "hit rates are of the last %llu tokens\n\n",
           (unsigned long long)s->largest_step, 100.0 * (double)s->largest_step / (double)s->n_neurons,
           (unsigned long long)s->n_counted_tokens);
}

#define HEAD "hit rate, cache of"

static int widest_label(const struct hearth_sim *s)
{
    size_t width = sizeof HEAD - 1;
    for (int r = 0; r < s->n_rows; r++)
        width = strlen(s->rows[r].label) > width ? strlen(s->rows[r].label) : width;
    return (int)width;
}

// Sizes [from, to) of the cache.
static void print_part(const struct hearth_sim *s, int label, int from, int to)
{
    static const char dashes[] = "------------------------------------------------------------";
    printf("| %-*s |", label, HEAD);
    for (int i = from; i < to; i++)
        printf(" %5.3g %% |", 100 * s->shares[i]);
    printf("\n| %.*s |", label, dashes);
    for (int i = from; i < to; i++)
        printf(" ------: |");
    for (int r = 0; r < s->n_rows; r++) {
        printf("\n| %-*s |", label, s->rows[r].label);
        for (int i = from; i < to; i++)
            printf(" %5.1f %% |", 100 * s->rows[r].hit[i]);
    }
    printf("\n");
}

// In one piece, or on a terminal in as many below each other as it takes to fit.
static void print_table(const struct hearth_sim *s)
{
    const int label = widest_label(s), columns = hearth_terminal_columns(stdout),
              room = (columns - label - 4) / 10;
    const int n = !columns || room >= s->n_shares ? s->n_shares : room < 1 ? 1 : room;
    for (int from = 0; from < s->n_shares; from += n) {
        if (from)
            printf("\n");
        print_part(s, label, from, from + n < s->n_shares ? from + n : s->n_shares);
    }
}

static json_t *reals(const double *v, int n)
{
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(array, hearth_json_real(v[i]));
    return array;
}

static json_t *row_json(const struct hearth_sim *s, const struct hearth_sim_row *row)
{
    json_t *o = json_pack("{s:s, s:s, s:b, s:o, s:o}", "name", row->name, "label", row->label, "optimum",
                          (int)row->optimum, "hit_rate", reals(row->hit, s->n_shares), "misses_per_token",
                          reals(row->per_token, s->n_shares));
    return o;
}

static json_t *sim_json(const struct hearth_trace *t, const struct hearth_sim *s)
{
    const struct hearth_trace_info *info = hearth_trace_info(t);
    json_t *rows = json_array(), *slots = json_array(), *bytes = json_array();
    for (int r = 0; r < s->n_rows; r++)
        json_array_append_new(rows, row_json(s, &s->rows[r]));
    for (int i = 0; i < s->n_shares; i++) {
        json_array_append_new(slots, json_integer((json_int_t)s->slots[i]));
        json_array_append_new(bytes, s->n_bytes ? json_integer((json_int_t)s->bytes[i]) : json_null());
    }
    return json_pack(
        "{s:o, s:s, s:I, s:I, s:i, s:I, s:o, s:f, s:f, s:f, s:I, s:i, s:i, s:o, s:o, s:o, s:o}", "model",
        hearth_json_string(info->name, strlen(info->name)), "sets", info->active ? "active" : "computed",
        "tokens", (json_int_t)s->n_tokens, "counted_tokens", (json_int_t)s->n_counted_tokens, "spaces",
        (int)info->n_spaces, "neurons", (json_int_t)s->n_neurons, "bytes",
        s->n_bytes ? json_integer((json_int_t)s->n_bytes) : json_null(), "density", s->density, "overlap",
        s->overlap, "top_tenth", s->top_tenth, "largest_step", (json_int_t)s->largest_step, "largest_set",
        (int)s->largest_set, "half_life", (int)s->half_life, "cache_shares", reals(s->shares, s->n_shares),
        "cache_neurons", slots, "cache_bytes", bytes, "policies", rows);
}

static int write_chart(const struct hearth_trace *t, const struct hearth_sim *s, const char *path)
{
    char subtitle[400];
    const char *name = hearth_trace_info(t)->name;
    snprintf(subtitle, sizeof subtitle,
             "%.60s%s%llu tokens, %.1f %% of neurons a visit, overlap of visits %.2f", name,
             name[0] ? ": " : "", (unsigned long long)s->n_tokens, 100 * s->density, s->overlap);
    struct hearth_chart chart = {.title = "Neurons found in memory, by cache policy and size",
                                 .subtitle = subtitle,
                                 .x_label = "size of the cache, share of all neurons",
                                 .y_label = "hit rate",
                                 .n_points = s->n_shares,
                                 .n_series = s->n_rows,
                                 .x = s->shares};
    for (int r = 0; r < s->n_rows; r++)
        chart.series[r] = (struct hearth_chart_series){.label = s->rows[r].label,
                                                       .y = s->rows[r].hit,
                                                       .dashed = s->rows[r].optimum,
                                                       .strong = strcmp(s->rows[r].name, "twospeed") == 0};
    return hearth_cli_chart(&chart, path);
}

static int report(const struct hearth_trace *t, const struct hearth_sim *s, const struct hearth_options *o)
{
    if (o->svg) {
        int status = write_chart(t, s, o->svg);
        if (status)
            return status;
    }
    if (o->json) {
        const int status = hearth_json_answer(sim_json(t, s));
        if (status)
            return status;
    } else {
        print_facts(t, s);
        print_table(s);
    }
    return hearth_cli_stdout_close(HEARTH_EXIT_OK);
}

static int simulate(const struct hearth_options *o)
{
    struct hearth_error err = {0};
    struct hearth_trace *t;
    if (hearth_trace_open(&t, o->simulate, &err))
        return hearth_cli_fail(&err);
    if (hearth_trace_cut_off(t))
        hearth_cli_warn("%s: the trace ends early; its %u complete steps are used", o->simulate,
                        hearth_trace_n_steps(t));
    struct hearth_sim_params params = {
        .warmup = o->warmup / 100, .half_life = (uint32_t)o->half_life, .progress = hearth_cli_progress};
    params.n_shares = o->cache_sizes.n;
    for (int i = 0; i < o->cache_sizes.n; i++)
        params.shares[i] = (double)o->cache_sizes.values[i] / 100;
    hearth_cli_catch_interrupt();
    struct hearth_sim sim;
    hearth_progress_begin(HEARTH_PROGRESS_SHARE, 1, "simulating");
    const int rc = hearth_simulate(t, &params, &sim, &err);
    hearth_progress_end();
    const int status = rc ? hearth_cli_fail(&err) : report(t, &sim, o);
    hearth_trace_close(&t);
    return status;
}

int hearth_cmd_plan(const struct hearth_options *o)
{
    const struct hearth_command *cmd = hearth_command_find("plan");
    if (o->machine && !strcmp(o->machine, "list"))
        return hearth_cli_list_machines();
    if (!o->simulate && !o->model)
        return hearth_cli_usage(cmd, "give a MODEL to plan for, or a trace to replay with --simulate");
    if (o->prompt && o->file)
        return hearth_cli_usage(cmd, "-p and -f exclude each other");
    if (o->simulate && o->model)
        return hearth_cli_usage(cmd, "--simulate takes no MODEL: what it needs is in the trace");
    const int refused = hearth_cli_check_text_out(o, o->svg);
    if (refused)
        return refused;
    return o->simulate ? simulate(o) : hearth_cli_plan_model(o);
}
