// SPDX-License-Identifier: MIT
// hearth plan MODEL: see plan_model.h.
#include "cli/plan_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/free_memory.h"
#include "base/threads.h"
#include "cli/common.h"
#include "cli/extent.h"
#include "cli/fit.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/pack_cache.h"
#include "cli/plan_device.h"
#include "cli/wrap.h"
#include "engine/outlook.h"
#include "model/model.h"
#include "model/pack.h"
#include "plan/chart.h"

#define MIB     ((uint64_t)1 << 20)
#define GIB     ((uint64_t)1 << 30)
#define BUDGETS 24 // of speed against memory

struct planning {
    const struct hearth_options *o;
    struct hearth_model *own;         // the file that was given
    struct hearth_cli_pack pack;      // of it
    const struct hearth_model *model; // which of both is planned for
    struct hearth_session_params session;
    struct hearth_probe probe;
    struct hearth_outlook *outlook, *packed; // of `model`; of a pack that run would make
    struct hearth_error err;
    struct hearth_prospect at;        // the budget that was asked for
    struct hearth_placement device;   // with it
    struct hearth_prospect at_packed; // the same with `packed`; HEARTH_FIT_NOT: nothing to tell
    bool any_is_fast;                 // every budget that the model runs in has the speed of --min-speed
    struct hearth_prospect curve[BUDGETS];
    size_t n_prompt;   // tokens of the prompt of -p or -f; 0: none was given
    int n_curve, knee; // knee: a point from which on more memory brings much less than before; -1: none
};

// ---- text

// A budget as --ram takes it: "2503M", "20.1G"; not less than `bytes`.
static void format_budget(char *out, size_t size, uint64_t bytes)
{
    if (bytes < 10240 * MIB)
        snprintf(out, size, "%" PRIu64 "M", (bytes + MIB - 1) / MIB);
    else
        snprintf(out, size, "%.1fG", ceil((double)bytes / (double)GIB * 10) / 10);
}

// What can be done about figures of this machine that look wrong: of one that a file describes, nothing.
static void say_measured(char *out, size_t size, const struct planning *g)
{
    char when[32];
    hearth_cli_machine_when(&g->probe, when, sizeof when);
    *out = '\0';
    if (!g->o->machine && *when)
        snprintf(out, size, "measured on %s%s; --measure measures again", when,
                 hearth_probe_settled(&g->probe) ? "" : " while others used it");
}

static void print_machine(const struct planning *g)
{
    const struct hearth_probe *p = &g->probe;
    char measured[128];
    printf("%s: %d cores, %.1f GB/s of memory\n", p->name, p->cores, p->memory_gb_s);
    printf("  storage: %.1f us a read and %.2f ns a byte; %.2f GB/s in order; %d at a time\n", p->request_us,
           p->byte_ns, p->sequential_gb_s, p->depth);
    say_measured(measured, sizeof measured, g);
    if (*measured)
        printf("  %s\n", measured);
}

// A part of a plan, in 80 columns.
static void print_wrapped(const char *text)
{
    char *lines = hearth_wrap(text, 80, 2, 2);
    printf("  %s\n", lines ? lines : text);
    free(lines);
}

static const char *what_streams(const struct planning *g)
{
    return g->at.plan.common_experts || (g->model->hp.n_expert && !g->model->pack) ? "experts" : "neurons";
}

static void print_reading(const struct planning *g)
{
    const struct hearth_prospect *p = &g->at;
    const struct hearth_forecast *f = &p->forecast;
    char bytes[32];
    hearth_cli_format_bytes(bytes, sizeof bytes, (uint64_t)f->read_bytes);
    printf("  reads for a token: %s", bytes);
    if (f->reads > 0)
        printf(" in %.0f reads", f->reads);
    if (f->hit_rate >= 0)
        printf("\n  in the cache: %.1f %% of the %s asked for", 100 * f->hit_rate, what_streams(g));
    printf("\n  a step: %.1f ms of computing, %.1f ms of storage", 1e3 * f->compute_s, 1e3 * f->storage_s);
    if (f->hidden_s >= 0.05e-3)
        printf(", %.1f ms of it at once", 1e3 * f->hidden_s);
    printf("\n");
}

static void print_choices(const struct planning *g)
{
    const struct hearth_prospect *p = &g->at;
    char workspace[32], lent[32];
    hearth_cli_format_bytes(workspace, sizeof workspace, p->workspace_bytes);
    hearth_cli_format_bytes(lent, sizeof lent, p->lent_bytes);
    printf("  in memory: %.1f %%", 100 * p->kept);
    if (p->plan.resident_neurons && !p->plan.all_resident)
        printf(", of %" PRIu64 " neurons %" PRIu64 " always", p->neurons, p->plan.resident_neurons);
    if (p->kind == HEARTH_FIT_STREAMS && !p->plan.dense_streams)
        printf(", all dense weights");
    printf("\n  micro-batches of %d (%s), %d thread%s, looking ahead %s", p->n_ubatch, workspace,
           p->n_threads, p->n_threads == 1 ? "" : "s", p->look_ahead ? "on" : "off");
    if (p->gap)
        printf("\n  reads may go over gaps of %.1f KiB", p->gap / 1024.0);
    printf("\n");
    if (p->lent_bytes)
        printf("  of the memory set aside for context and prompts, weights use %s now\n", lent);
}

// Why whole layers stream; or neurons in the model's own order: which of them are worth memory is not known.
static void print_hint(const struct planning *g)
{
    const struct hearth_pack *pack = g->model->pack;
    const char *hint =
        g->at.kind == HEARTH_FIT_STREAMS ? hearth_cli_whole_layers(g->model, &g->session) : NULL;
    if (hint)
        print_wrapped(hint);
    else if (pack && !pack->n_batches && g->at.neurons)
        printf("  this pack has no profile: with one, the neurons that are active most stay in\n"
               "  memory (hearth profile MODEL -f TEXT -o FILE, then hearth pack --profile FILE)\n");
}

#define PACKED 1600 // characters of what follows

// What a pack would bring that hearth run would make.
static void say_packed(const struct planning *g, char out[PACKED])
{
    const struct hearth_prospect *p = &g->at_packed;
    char ram[32], read[32], bytes[32];
    format_budget(ram, sizeof ram, p->ram);
    hearth_cli_format_bytes(read, sizeof read, (uint64_t)p->forecast.read_bytes);
    hearth_cli_format_bytes(bytes, sizeof bytes, g->pack.bytes);
    const int n = snprintf(out, PACKED,
                           "packed, with %s it would run at about %.2f tok/s and read %s for a token: ", ram,
                           p->forecast.tokens_per_second, read);
    if (g->pack.same_logits)
        snprintf(
            out + n, PACKED - (size_t)n,
            "hearth run offers to make the pack in %s, and makes it with --pack auto (%s" HEARTH_PACK_ELSEWHERE
            ")",
            g->pack.folder, bytes);
    else
        snprintf(out + n, PACKED - (size_t)n,
                 "hearth pack makes the pack, which gives slightly other logits (%s)", bytes);
}

static void print_packed(const struct planning *g)
{
    char text[PACKED];
    if (g->at_packed.kind == HEARTH_FIT_NOT)
        return;
    say_packed(g, text);
    print_wrapped(text);
}

static void print_next(struct planning *g)
{
    struct hearth_prospect next;
    const uint64_t whole = hearth_outlook_whole(g->outlook);
    char all[32];
    if (g->at.kind == HEARTH_FIT_WHOLE)
        return;
    format_budget(all, sizeof all, whole);
    if (g->at.ram + GIB < whole && !hearth_outlook_at(g->outlook, g->at.ram + GIB, &next, &g->err) &&
        next.kind != HEARTH_FIT_NOT)
        printf("  with a gigabyte more: %.2f tok/s\n", next.forecast.tokens_per_second);
    if (!hearth_outlook_at(g->outlook, whole, &next, &g->err) && next.kind != HEARTH_FIT_NOT)
        printf("  with all weights in memory (--ram %s): %.2f tok/s\n", all, next.forecast.tokens_per_second);
}

static void print_plan(struct planning *g)
{
    const struct hearth_prospect *p = &g->at;
    char ram[32];
    format_budget(ram, sizeof ram, p->ram);
    print_machine(g);
    printf("with %s of memory: %.2f tok/s, prompts of %d tokens or more %.1f tok/s\n", ram,
           p->forecast.tokens_per_second, p->n_ubatch, p->prompt_tokens_per_second);
    if (g->any_is_fast)
        printf("  any memory that the model runs in gives %.4g tok/s or more: %s is the least\n"
               "  for a context of %d tokens (-c)\n",
               g->o->min_speed, ram, g->session.n_ctx);
    else
        printf("  %s a context of %d tokens (-c)\n",
               p->ram <= hearth_outlook_least(g->outlook) ? "this is the least for" : "with",
               g->session.n_ctx);
    if (p->kind == HEARTH_FIT_STREAMS)
        print_reading(g);
    print_choices(g);
    hearth_cli_print_placement(&g->device, g->model);
    print_next(g);
    print_packed(g);
    print_hint(g);
}

// ---- speed against memory

// Tokens a second that a byte brings between two points.
static double slope(const struct hearth_prospect *from, const struct hearth_prospect *to)
{
    return (to->forecast.tokens_per_second - from->forecast.tokens_per_second) /
           (double)(to->ram - from->ram);
}

// Where the slope falls most, by a third at least; what comes when all weights are in memory is no knee.
static int find_knee(const struct planning *g)
{
    enum { REACH = 3 }; // points that a slope is taken over
    const struct hearth_prospect *c = g->curve;
    int knee = -1;
    double most = 0;
    for (int i = REACH; i + REACH < g->n_curve && c[i + REACH].kept < 1; i++) {
        const double before = slope(&c[i - REACH], &c[i]), after = slope(&c[i], &c[i + REACH]);
        if (before - after > most && after < before * 2 / 3) {
            most = before - after;
            knee = i;
        }
    }
    return knee;
}

// Budgets from the smallest to that of all weights, evenly by their logarithm from where anything streams.
static int draw_curve(struct planning *g)
{
    const uint64_t least = (hearth_outlook_least(g->outlook) + MIB - 1) / MIB,
                   whole = (hearth_outlook_whole(g->outlook) + MIB - 1) / MIB;
    for (int i = 0; i < BUDGETS; i++) {
        const double part = (double)i / (BUDGETS - 1);
        const uint64_t ram = least + (uint64_t)llround((double)(whole - least) * part);
        struct hearth_prospect *p = &g->curve[g->n_curve];
        if (hearth_outlook_at(g->outlook, ram * MIB, p, &g->err))
            return hearth_cli_fail(&g->err);
        const bool new = !g->n_curve || p->ram > p[-1].ram;
        g->n_curve += p->kind != HEARTH_FIT_NOT && new;
    }
    g->knee = find_knee(g);
    return HEARTH_EXIT_OK;
}

// Steps of memory that the table tells the worth of: of the range, a fourth at most.
static const struct unit {
    uint64_t bytes;
    const char *name;
} units[] = {{GIB, "+1G"}, {100 * MIB, "+100M"}, {10 * MIB, "+10M"}, {MIB, "+1M"}};

static const struct unit *unit_of(const struct planning *g)
{
    const uint64_t range = g->curve[g->n_curve - 1].ram - g->curve[0].ram;
    size_t i = 0;
    while (i + 1 < sizeof units / sizeof *units && units[i].bytes > range / 4)
        i++;
    return &units[i];
}

// Tokens a second that so much more memory would bring at point i: from it to the next ones.
static double brings(const struct planning *g, int i, uint64_t bytes)
{
    const struct hearth_prospect *c = g->curve, *p = &c[i];
    int next = i;
    while (next + 1 < g->n_curve && c[next].ram < p->ram + bytes)
        next++;
    if (next == i)
        return 0;
    const double over = (double)(c[next].ram - p->ram) / (double)bytes;
    return (c[next].forecast.tokens_per_second - p->forecast.tokens_per_second) / fmax(over, 1);
}

// With a sign, where it is not rounded to nothing.
static void format_change(char *out, size_t size, double x, int digits)
{
    const bool is_none = fabs(x) < 0.5 * pow(10, -digits);
    if (is_none)
        snprintf(out, size, "%.*f", digits, 0.0);
    else
        snprintf(out, size, "%+.*f", digits, x);
}

static const char *what_is_kept(const struct planning *g)
{
    return g->curve[0].neurons ? "neurons" : g->model->hp.n_expert ? "experts" : "weights";
}

// Digits behind the point that a column has, whose smallest number is this.
static int digits_of(double least)
{
    return least < 10 ? 2 : least < 100 ? 1 : 0;
}

// Once all weights are in memory, only the first and the last of the budgets are of interest.
static bool is_told(const struct planning *g, int i)
{
    return !i || i + 1 == g->n_curve || g->curve[i - 1].kept < 1;
}

// Fits a terminal of 80 columns.
static void print_curve(const struct planning *g)
{
    const struct unit *unit = unit_of(g);
    double least = INFINITY, least_prompt = INFINITY;
    for (int i = 0; i < g->n_curve; i++) {
        least = fmin(least, g->curve[i].forecast.tokens_per_second);
        least_prompt = fmin(least_prompt, g->curve[i].prompt_tokens_per_second);
    }
    const int digits = digits_of(least), prompt_digits = digits_of(least_prompt);
    printf("\n|  --ram |  tok/s | %6s | prompt |  -ub | kept%% | hits%% | MiB/tok | reads |\n"
           "| -----: | -----: | -----: | -----: | ---: | ----: | ----: | ------: | ----: |\n",
           unit->name);
    for (int i = 0; i < g->n_curve; i++) {
        const struct hearth_prospect *p = &g->curve[i];
        char ram[32], more[32], hits[32] = "", reads[32] = "";
        if (!is_told(g, i))
            continue;
        format_budget(ram, sizeof ram, p->ram);
        format_change(more, sizeof more, brings(g, i, unit->bytes), digits);
        if (p->forecast.hit_rate >= 0)
            snprintf(hits, sizeof hits, "%.1f", 100 * p->forecast.hit_rate);
        if (p->forecast.reads > 0) // whole layers are not counted
            snprintf(reads, sizeof reads, "%.0f", p->forecast.reads);
        printf("| %6s | %6.*f | %6s | %6.*f | %4d | %5.1f | %5s | %7.2f | %5s |%s\n", ram, digits,
               p->forecast.tokens_per_second, more, prompt_digits, p->prompt_tokens_per_second, p->n_ubatch,
               100 * p->kept, hits, p->forecast.read_bytes / (double)MIB, reads, i == g->knee ? "*" : "");
    }
    if (g->knee >= 0)
        printf("*: the knee; from here on more memory brings less than before\n");
    printf("the first is the least that the model runs with, for a context of %d tokens\n"
           "tok/s: generated tokens a second; %s: what so much more memory adds to them\n"
           "prompt: a prompt's tokens a second, -ub of them at a time; where it falls, a\n"
           "  smaller -ub leaves memory to weights, and prompt and answer together gain\n"
           "kept%%: %s in memory, of all; hits%%: of those asked for, in memory already\n"
           "MiB/tok, reads: read from the file for a generated token\n",
           g->session.n_ctx, unit->name, what_is_kept(g));
}

static int write_chart(const struct planning *g)
{
    double x[BUDGETS], y[BUDGETS], whole[BUDGETS], most = 0;
    char subtitle[300], knee[64] = "";
    const double all = g->curve[g->n_curve - 1].forecast.tokens_per_second;
    const bool in_gib = g->curve[g->n_curve - 1].ram >= 2 * GIB;
    for (int i = 0; i < g->n_curve; i++) {
        x[i] = (double)g->curve[i].ram / (double)(in_gib ? GIB : MIB);
        y[i] = g->curve[i].forecast.tokens_per_second;
        whole[i] = all;
        most = fmax(most, y[i]);
    }
    if (g->knee >= 0)
        snprintf(knee, sizeof knee, in_gib ? "%.1f tok/s at %.2f GiB" : "%.1f tok/s at %.0f MiB", y[g->knee],
                 x[g->knee]);
    snprintf(subtitle, sizeof subtitle, "%.100s on %.100s; forecast", hearth_model_info(g->model)->name,
             g->probe.name);
    const struct hearth_chart chart = {
        .title = "Speed against memory",
        .subtitle = subtitle,
        .x_label = in_gib ? "memory, GiB" : "memory, MiB",
        .y_label = "tokens a second",
        .n_points = g->n_curve,
        .n_series = 2,
        .x = x,
        .numbers = true,
        .y_scale = 1,
        .y_most = most,
        .mark = g->knee,
        .mark_label = g->knee >= 0 ? knee : NULL,
        .series = {{.label = "with this memory", .y = y, .strong = true},
                   {.label = "all weights in memory", .y = whole, .dashed = true}}};
    return hearth_cli_chart(&chart, g->o->svg);
}

// ---- JSON

static json_t *prospect_json(const struct hearth_prospect *p)
{
    const struct hearth_forecast *f = &p->forecast;
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:i, s:i, s:b, s:i, s:I, s:I, s:I, s:I}",
                     "ram_bytes", (json_int_t)p->ram, "tokens_per_second", f->tokens_per_second,
                     "prompt_tokens_per_second", p->prompt_tokens_per_second, "read_bytes_per_token",
                     f->read_bytes, "reads_per_token", f->reads, "hit_rate",
                     f->hit_rate >= 0 ? json_real(f->hit_rate) : json_null(), "compute_ms_per_step",
                     1e3 * f->compute_s, "storage_ms_per_step", 1e3 * f->storage_s, "in_memory", p->kept,
                     "n_ubatch", p->n_ubatch, "threads", p->n_threads, "look_ahead", (int)p->look_ahead,
                     "read_gap", (int)p->gap, "neurons_resident", (json_int_t)p->plan.resident_neurons,
                     "neurons_cached", (json_int_t)p->plan.cold_neurons, "workspace_bytes",
                     (json_int_t)p->workspace_bytes, "lent_bytes", (json_int_t)p->lent_bytes);
}

static int print_json(const struct planning *g)
{
    json_t *root = prospect_json(&g->at), *curve = json_array();
    for (int i = 0; i < g->n_curve; i++)
        json_array_append_new(curve, prospect_json(&g->curve[i]));
    json_object_set_new(root, "machine", hearth_json_string(g->probe.name, strlen(g->probe.name)));
    json_object_set_new(root, "device", hearth_cli_placement_json(&g->device));
    json_object_set_new(root, "n_ctx", json_integer(g->session.n_ctx));
    json_object_set_new(root, "least_bytes", json_integer((json_int_t)hearth_outlook_least(g->outlook)));
    json_object_set_new(root, "whole_bytes", json_integer((json_int_t)hearth_outlook_whole(g->outlook)));
    json_object_set_new(root, "pack",
                        g->pack.there ? hearth_json_string(g->pack.path, strlen(g->pack.path)) : json_null());
    json_object_set_new(root, "packed",
                        g->at_packed.kind == HEARTH_FIT_NOT ? json_null() : prospect_json(&g->at_packed));
    if (g->n_curve)
        json_object_set_new(root, "budgets", curve);
    else
        json_decref(curve);
    return hearth_json_print(root, stdout, true) ? HEARTH_EXIT_OK : hearth_cli_error("cannot print the JSON");
}

// ---- planning

// A plan for another machine may have any memory.
static void warn_of_size(const struct planning *g)
{
    const uint64_t has = g->o->machine || g->o->sim_ram ? 0 : hearth_memory_limit("");
    char all[32], planned[32];
    hearth_cli_format_bytes(all, sizeof all, has);
    hearth_cli_format_bytes(planned, sizeof planned, g->at.ram);
    if (has && g->at.ram > has)
        hearth_cli_warn("this machine, or its control group, has %s of memory, less than the %s of this plan",
                        all, planned);
}

// The budget: asked for, or what the machine has to give.
static int find_budget(struct planning *g, const struct hearth_session_params *params, uint64_t *ram)
{
    const struct hearth_options *o = g->o;
    const uint64_t whole = hearth_outlook_whole(g->outlook);
    *ram = o->ram.bytes == HEARTH_BUDGET_ALL   ? whole
           : o->ram.bytes == HEARTH_BUDGET_MIN ? hearth_outlook_least(g->outlook)
                                               : o->ram.bytes;
    if (!*ram && o->sim_ram)
        *ram = o->sim_ram;
    if (!*ram && o->machine && g->probe.ram)
        *ram = g->probe.ram;
    if (*ram)
        return HEARTH_EXIT_OK;
    struct hearth_fit fit;
    if (hearth_model_fit(g->model, params, HEARTH_RAM_FIT, &fit, sizeof fit, &g->err))
        return hearth_cli_fail(&g->err);
    *ram = fit.kind == HEARTH_FIT_WHOLE ? whole : fit.ram;
    return HEARTH_EXIT_OK;
}

// What is asked for may have been read off a plan, whose speeds have four digits.
#define ROUNDED 0.9995
// Speeds this close to the best one are as good.
#define AS_GOOD 0.99

static int refuse_speed(struct planning *g, double best)
{
    struct hearth_prospect p;
    char measured[128], ram[32];
    if (hearth_outlook_least_for(g->outlook, best * AS_GOOD, &p, &g->err))
        return hearth_cli_fail(&g->err);
    say_measured(measured, sizeof measured, g);
    format_budget(ram, sizeof ram, p.kind == HEARTH_FIT_NOT ? hearth_outlook_whole(g->outlook) : p.ram);
    return hearth_cli_error("%.4g tok/s are out of reach here: %.2f tok/s is the most, with --ram %s%s%s%s",
                            g->o->min_speed, p.kind == HEARTH_FIT_NOT ? best : p.forecast.tokens_per_second,
                            ram, *measured ? " (this machine as " : "", measured, *measured ? ")" : "");
}

// Whether a context of n tokens fits a budget.
static bool context_fits(const struct planning *g, const struct hearth_session_params *params, int n,
                         uint64_t ram)
{
    struct hearth_outlook_params smaller = {.session = *params, .probe = &g->probe};
    struct hearth_outlook *outlook;
    smaller.session.n_ctx = n;
    if (hearth_outlook_open(&outlook, g->model, &smaller, NULL))
        return false;
    const bool fits = hearth_outlook_least(outlook) <= ram;
    hearth_outlook_close(&outlook);
    return fits;
}

// The largest context that fits a budget, in whole pages, where n_ctx does not. 0: there is none.
#define PAGE 64
static int largest_context(const struct planning *g, const struct hearth_session_params *params, uint64_t ram)
{
    int fits = 0, too_large = (params->n_ctx + PAGE - 1) / PAGE;
    while (fits + 1 < too_large) {
        const int middle = fits + (too_large - fits) / 2;
        if (context_fits(g, params, middle * PAGE, ram))
            fits = middle;
        else
            too_large = middle;
    }
    return fits * PAGE;
}

// "--ram 36M, or a context of 512 tokens (-c 512)": what to do about a budget that is too small.
static int refuse_budget(const struct planning *g, const struct hearth_session_params *params, uint64_t ram)
{
    char least[32], seqs[64] = "", smaller[80] = " (a smaller context is not enough)";
    const int n_ctx = largest_context(g, params, ram);
    format_budget(least, sizeof least, hearth_outlook_least(g->outlook));
    if (params->max_seqs > 1)
        snprintf(seqs, sizeof seqs, " for each of %d sequences (-np)", params->max_seqs);
    if (n_ctx)
        snprintf(smaller, sizeof smaller, ", or a context of %d tokens (-c %d)", n_ctx, n_ctx);
    return hearth_cli_error("%s needs %s of memory at least with a context of %d tokens%s: --ram %s%s",
                            g->o->model, least, params->n_ctx, seqs, least, smaller);
}

static int choose_at(struct planning *g, const struct hearth_session_params *params)
{
    uint64_t ram = 0;
    const int status = find_budget(g, params, &ram);
    if (status)
        return status;
    if (hearth_outlook_at(g->outlook, ram, &g->at, &g->err))
        return hearth_cli_fail(&g->err);
    return g->at.kind != HEARTH_FIT_NOT ? HEARTH_EXIT_OK : refuse_budget(g, params, ram);
}

// The smallest budget for a speed; --ram is the most that it may be.
static int choose_for_speed(struct planning *g, const struct hearth_session_params *params)
{
    const struct hearth_options *o = g->o;
    struct hearth_prospect p;
    char needed[32], given[32];
    const double wanted = o->min_speed * ROUNDED;
    if (hearth_outlook_least_for(g->outlook, wanted, &p, &g->err))
        return hearth_cli_fail(&g->err);
    if (p.kind == HEARTH_FIT_NOT)
        return refuse_speed(g, p.forecast.tokens_per_second);
    if (o->ram.bytes) {
        const int status = choose_at(g, params);
        if (status)
            return status;
        format_budget(needed, sizeof needed, p.ram);
        format_budget(given, sizeof given, g->at.ram);
        if (p.ram > g->at.ram && g->at.forecast.tokens_per_second < wanted)
            return hearth_cli_error("%.4g tok/s take --ram %s: with --ram %s it is %.2f tok/s", o->min_speed,
                                    needed, given, g->at.forecast.tokens_per_second);
    }
    g->at = p;
    g->any_is_fast = !hearth_outlook_at(g->outlook, hearth_outlook_least(g->outlook), &p, &g->err) &&
                     p.kind != HEARTH_FIT_NOT && p.forecast.tokens_per_second >= wanted;
    return HEARTH_EXIT_OK;
}

static int choose(struct planning *g, const struct hearth_session_params *params)
{
    return g->o->min_speed > 0 ? choose_for_speed(g, params) : choose_at(g, params);
}

// ---- a pack of the model

// The budget at which the model and its pack are held against each other. 0: the least of each.
static int find_common_budget(struct planning *g, const struct hearth_session_params *params, uint64_t *ram)
{
    const struct hearth_options *o = g->o;
    *ram = 0;
    return o->ram.bytes == HEARTH_BUDGET_MIN || o->min_speed > 0 ? HEARTH_EXIT_OK
                                                                 : find_budget(g, params, ram);
}

static bool look_at(struct planning *g, struct hearth_outlook *o, uint64_t ram, struct hearth_prospect *out)
{
    return !hearth_outlook_at(o, ram ? ram : hearth_outlook_least(o), out, &g->err);
}

// Whether the pack has the speed of --min-speed in less memory.
static bool pack_needs_less(struct planning *g)
{
    const double wanted = g->o->min_speed * ROUNDED;
    struct hearth_prospect with, without;
    return !hearth_outlook_least_for(g->packed, wanted, &with, &g->err) &&
           !hearth_outlook_least_for(g->outlook, wanted, &without, &g->err) && with.kind != HEARTH_FIT_NOT &&
           (without.kind == HEARTH_FIT_NOT || with.ram < without.ram);
}

// As hearth run decides: a pack that is there is used where it reads less, one that is not is made for more.
static bool pack_gains(struct planning *g, const struct hearth_prospect *without, uint64_t ram)
{
    struct hearth_prospect with;
    const double gain = g->pack.there ? 1 : HEARTH_PACK_LEAST_GAIN;
    if (g->o->min_speed > 0)
        return pack_needs_less(g);
    if (!look_at(g, g->packed, ram, &with) || with.kind == HEARTH_FIT_NOT)
        return false;
    return without->kind == HEARTH_FIT_NOT || without->forecast.read_bytes >= gain * with.forecast.read_bytes;
}

static void drop_pack(struct planning *g)
{
    hearth_outlook_close(&g->packed);
    hearth_cli_pack_close(&g->pack);
}

static void plan_for_pack(struct planning *g)
{
    char bytes[32];
    hearth_outlook_close(&g->outlook);
    g->outlook = g->packed;
    g->packed = NULL;
    g->model = g->pack.model;
    hearth_cli_format_bytes(bytes, sizeof bytes, g->pack.bytes);
    if (g->pack.there)
        hearth_cli_info(
            "planned for a pack of the model, %s, as hearth run uses it (--pack never: for the model itself)",
            g->pack.path);
    else
        hearth_cli_info(
            "planned for a pack of the model that is not there yet: hearth run --pack auto writes it to %s, "
            "once (%s" HEARTH_PACK_ELSEWHERE ")",
            g->pack.folder, bytes);
}

// How the model and its pack are opened: what a budget decides is only asked about, except what it leaves to a device, and
// threads that read are those of the machine.
static struct hearth_options opening(const struct planning *g)
{
    struct hearth_options open = *g->o;
    if (!open.device && !open.gpu_layers && !open.vram.n)
        open.ram.bytes = 0;
    if (open.machine)
        open.n_threads = hearth_pool_threads_of((int)open.n_threads, g->probe.cores);
    return open;
}

// Puts the pack that hearth run would use in the model's place. One that it would make is looked at, too.
static int consider_pack(struct planning *g, const struct hearth_outlook_params *params)
{
    const struct hearth_options open = opening(g);
    struct hearth_prospect without;
    uint64_t ram;
    const int status = find_common_budget(g, &params->session, &ram);
    if (status)
        return status;
    if (!look_at(g, g->outlook, ram, &without) || without.kind == HEARTH_FIT_WHOLE) {
        drop_pack(g);
        return HEARTH_EXIT_OK;
    }
    if (!g->pack.model) {
        hearth_cli_catch_interrupt(); // so that Ctrl-C leaves no file
        hearth_cli_sketch_pack(&g->pack, g->own, &open);
    }
    if (!g->pack.model)
        return HEARTH_EXIT_OK;
    if (hearth_outlook_open(&g->packed, g->pack.model, params, &g->err) || !pack_gains(g, &without, ram))
        drop_pack(g);
    else if (g->pack.there || (g->o->pack == HEARTH_PACK_AUTO && g->pack.same_logits))
        plan_for_pack(g);
    return HEARTH_EXIT_OK;
}

// What the pack would give with the same budget; for a speed, the smallest budget.
static void look_at_packed(struct planning *g, int status, const struct hearth_session_params *params)
{
    const struct hearth_options *o = g->o;
    uint64_t ram = 0;
    g->at_packed.kind = HEARTH_FIT_NOT;
    if (!g->packed)
        return;
    const bool found =
        o->min_speed > 0
            ? !hearth_outlook_least_for(g->packed, o->min_speed * ROUNDED, &g->at_packed, &g->err)
        : status == HEARTH_EXIT_OK
            ? look_at(g, g->packed, g->at.ram, &g->at_packed)
            : !find_common_budget(g, params, &ram) && look_at(g, g->packed, ram, &g->at_packed);
    if (!found)
        g->at_packed.kind = HEARTH_FIT_NOT;
}

static int report(struct planning *g)
{
    int status = g->o->explain || g->o->svg ? draw_curve(g) : HEARTH_EXIT_OK;
    if (!status && g->o->svg)
        status = write_chart(g);
    if (status)
        return status;
    warn_of_size(g);
    if (g->o->json)
        return print_json(g);
    print_plan(g);
    if (g->o->explain)
        print_curve(g);
    return HEARTH_EXIT_OK;
}

// The device's part, with the micro-batches of the plan.
static int place_and_report(struct planning *g)
{
    struct hearth_session_params params = g->session;
    params.n_ubatch = g->at.n_ubatch;
    const int status = hearth_cli_place(&g->device, g->model, &params);
    return status ? status : report(g);
}

static int count_prompt(struct planning *g)
{
    struct hearth_buffer text = {0};
    hearth_token *tokens = NULL;
    int status = hearth_cli_read_prompt(g->o, &text);
    if (!status && text.n)
        status = hearth_cli_tokenize(g->own, text.data, text.n, HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL,
                                     &tokens, &g->n_prompt);
    if (!g->n_prompt && (g->o->prompt || g->o->file))
        g->n_prompt = 1; // an empty one is the token that texts begin with
    free(tokens);
    free(text.data);
    return status;
}

// The session that is planned for: that of hearth run where its prompt is given.
static int choose_session(struct planning *g)
{
    const struct hearth_options *o = g->o;
    const struct hearth_model_info *info = hearth_model_info(g->own);
    const int status = count_prompt(g);
    if (status)
        return status;
    g->session = hearth_cli_params_of(o, info, g->n_prompt, o->n_parallel > 0 ? (int)o->n_parallel : 1);
    if (g->n_prompt && !o->machine)
        g->session.n_threads = hearth_cli_threads(o);
    if (g->n_prompt > (size_t)g->session.n_ctx)
        return hearth_cli_error("the prompt has %zu tokens but the context only %d: use a larger -c",
                                g->n_prompt, g->session.n_ctx);
    if (g->session.n_ctx > info->n_ctx_train)
        hearth_cli_warn("the model was trained for %d tokens of context; beyond that its text degrades",
                        info->n_ctx_train);
    return HEARTH_EXIT_OK;
}

static int plan(struct planning *g)
{
    const bool as_run = g->n_prompt != 0;
    const struct hearth_outlook_params params = {.session = g->session,
                                                 .probe = &g->probe,
                                                 .n_prompt = (int)g->n_prompt,
                                                 .n_predict = g->o->n_predict > 0 ? (int)g->o->n_predict : 0,
                                                 .keep_ubatch = as_run,
                                                 .keep_look_ahead = as_run,
                                                 .look_ahead = as_run};
    char text[PACKED];
    hearth_cli_warn_threshold(g->model, &g->session);
    if (hearth_outlook_open(&g->outlook, g->model, &params, &g->err))
        return hearth_cli_fail(&g->err);
    int status = consider_pack(g, &params);
    if (status)
        return status;
    status = choose(g, &params.session);
    look_at_packed(g, status, &params.session);
    if (!status)
        return place_and_report(g);
    if (g->at_packed.kind != HEARTH_FIT_NOT) {
        say_packed(g, text);
        hearth_cli_info("%s", text);
    }
    return status;
}

static int open_and_plan(struct planning *g)
{
    const struct hearth_options *o = g->o;
    int status = hearth_cli_check_placed(o);
    if (!status && o->machine)
        status = hearth_cli_machine(&g->probe, o, o->model, HEARTH_MEASURE_NOW);
    const struct hearth_options open = opening(g);
    if (!status)
        status = hearth_cli_open_model(&g->own, &open, false);
    if (status)
        return status;
    g->model = g->own;
    hearth_cli_find_pack(&g->pack, g->own, &open);
    if (!o->machine) // whose storage is the pack's, where there is one
        status =
            hearth_cli_machine(&g->probe, o, g->pack.there ? g->pack.path : o->model, HEARTH_MEASURE_NOW);
    if (status)
        return status;
    status = choose_session(g);
    return status ? status : plan(g);
}

int hearth_cli_plan_model(const struct hearth_options *o)
{
    struct planning g = {.o = o, .knee = -1, .at_packed = {.kind = HEARTH_FIT_NOT}};
    const int status = open_and_plan(&g);
    hearth_outlook_close(&g.outlook);
    drop_pack(&g);
    hearth_model_close(&g.own);
    if (hearth_cli_interrupted())
        return HEARTH_EXIT_INTERRUPTED;
    return status ? status : hearth_cli_stdout_close(HEARTH_EXIT_OK);
}
