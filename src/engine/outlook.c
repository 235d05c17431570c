// SPDX-License-Identifier: MIT
// Searching plans: see outlook.h.
#include "engine/outlook.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/threads.h"
#include "engine/session.h"
#include "model/ffn.h"
#include "model/pack.h"

#define MIB ((uint64_t)1 << 20)
// An exchange: tokens of its prompt, and of its answer.
#define USUAL_PROMPT  512
#define USUAL_PREDICT 256
#define LEAST_UBATCH  8
#define UBATCHES      16
// Plans this close to each other are equal: the model knows no better.
#define SAME 1.005

struct hearth_outlook {
    const struct hearth_model *model;
    struct hearth_outlook_params params;
    struct hearth_sources *sources;
    struct hearth_sources_user users[UBATCHES]; // with each micro-batch
    struct hearth_source_need need;
    uint64_t whole_bytes, least_bytes;
    uint64_t lendable;                // besides what sessions lend
    int ubatch[UBATCHES], n_ubatches; // falling
    struct hearth_activity *activity; // [n_spaces]
    struct hearth_workload workload;
    double united; // neurons that a step computes, over those of one token
};

// ---- opening

// Threads that are asked for, or else as many as the machine has cores.
static int most_threads(const struct hearth_outlook *o)
{
    return hearth_pool_threads_of(o->params.session.n_threads, o->params.probe->cores);
}

// What a session with this micro-batch would take.
static int measure_session(struct hearth_outlook *o, int n_ubatch, struct hearth_sources_user *user,
                           struct hearth_error *err)
{
    struct hearth_session_params p = o->params.session;
    p.n_ubatch = n_ubatch;
    p.n_threads = most_threads(o);
    return hearth_session_measure(user, o->model, &p, err);
}

static int measure_sessions(struct hearth_outlook *o, struct hearth_error *err)
{
    int n = o->params.session.n_ubatch, rc = measure_session(o, n, &o->users[0], err);
    o->ubatch[0] = n;
    for (o->n_ubatches = 1;
         !rc && !o->params.keep_ubatch && o->n_ubatches < UBATCHES && n / 2 >= LEAST_UBATCH;
         o->n_ubatches++) {
        rc = measure_session(o, n /= 2, &o->users[o->n_ubatches], err);
        o->ubatch[o->n_ubatches] = n;
    }
    return rc;
}

// By the repeats that a few of the spaces have, where the file tells them.
static struct hearth_activity_kind kind_of_neurons(const struct hearth_outlook *o)
{
    const struct hearth_budget_params *b = &o->need.params;
    const struct hearth_pack *pack = o->model->pack;
    struct hearth_activity_kind kind = HEARTH_ACTIVITY_NEURONS;
    const float *shares[HEARTH_ACTIVITY_SPACES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < HEARTH_ACTIVITY_SPACES; i++) {
        const struct hearth_budget_space *s = &b->spaces[b->n_spaces * i / HEARTH_ACTIVITY_SPACES];
        if (s->share)
            shares[n++] = s->share;
    }
    if (pack && pack->repeats > 0 && n)
        kind.reuse = hearth_activity_reuse(shares, n, b->spaces[0].n_neurons, (double)pack->repeats);
    return kind;
}

// Shares of a visited space's neurons that a token computes, layer by layer; and how many a step of all
// sequences computes and misses. Spaces without shares are all alike.
static int describe_activity(struct hearth_outlook *o, double *density, struct hearth_error *err)
{
    const struct hearth_budget_params *b = &o->need.params;
    const uint32_t experts = (uint32_t)hearth_ffn_experts(&o->model->hp);
    double of_step = 0, of_token = 0;
    struct hearth_activity one;
    struct hearth_activity_kind kind = HEARTH_ACTIVITY_NEURONS;
    for (int i = 0; i < o->model->hp.n_layer; i++)
        density[i] = kind.density;
    o->united = 1;
    if (!b->n_spaces)
        return HEARTH_OK;
    kind = kind_of_neurons(o);
    o->activity = hearth_calloc(b->n_spaces, sizeof *o->activity);
    if (!o->activity)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to plan the memory budget");
    for (uint32_t i = 0; i < b->n_spaces; i++) {
        const struct hearth_budget_space *s = &b->spaces[i];
        if (i && !s->share && !b->spaces[i - 1].share) {
            o->activity[i] = o->activity[i - 1];
            continue;
        }
        // Of the tokens of a step, those that visit the space together.
        const double tokens = o->params.session.max_seqs, visit = (double)s->visit,
                     visited = 1 - pow(1 - visit, tokens);
        hearth_activity_make(&o->activity[i], s->share, s->n_neurons, &kind, tokens * visit / visited);
        one = o->activity[i];
        if (tokens > 1)
            hearth_activity_make(&one, s->share, s->n_neurons, &kind, 1);
        of_step += visited * o->activity[i].used;
        of_token += visit * one.used;
        if (i % experts == 0)
            density[i / experts] = 0;
        if (s->share)
            density[i / experts] += one.used / s->n_neurons / experts;
        else
            density[i / experts] = kind.density;
    }
    o->united = of_step / of_token;
    return HEARTH_OK;
}

static int n_prompt(const struct hearth_outlook *o)
{
    return o->params.n_prompt > 0 ? o->params.n_prompt : USUAL_PROMPT;
}

static int n_predict(const struct hearth_outlook *o)
{
    return o->params.n_predict > 0 ? o->params.n_predict : USUAL_PREDICT;
}

// Bytes of keys and values in the middle of an exchange's answer, of one sequence.
static double kv_in_use(const struct hearth_outlook *o)
{
    const struct hearth_sources_user *u = &o->users[0];
    const int64_t positions = (int64_t)n_prompt(o) + n_predict(o) / 2;
    return (double)u->kv_bytes / (double)(u->kv_tokens > 0 ? u->kv_tokens : 1) *
           (double)(u->n_ctx < positions ? u->n_ctx : positions);
}

static void describe_work(struct hearth_outlook *o, const double *density)
{
    const double used = hearth_ffn_used(&o->model->hp), n = hearth_ffn_experts(&o->model->hp);
    hearth_workload_make(&o->workload, o->model, o->users[0].sparsity, density);
    o->workload.parts_united = n * (1 - pow(1 - used / n, o->params.session.max_seqs)) / used;
    o->workload.rows_united = o->united;
    o->workload.kv_bytes = kv_in_use(o);
}

static void set_budget(struct hearth_outlook *o, int ubatch)
{
    const uint64_t sessions = (uint64_t)o->model->load.max_sessions;
    o->need.params.workspace = sessions * o->users[ubatch].workspace_bytes;
    o->need.params.lendable = o->lendable + sessions * hearth_sources_lendable_bytes(&o->users[ubatch]);
}

static int find_least(struct hearth_outlook *o, struct hearth_error *err)
{
    struct hearth_budget_floor floor;
    set_budget(o, o->n_ubatches - 1);
    const int rc = hearth_budget_floor(&o->need.params, &floor, err);
    o->least_bytes = rc || floor.bytes < o->whole_bytes ? floor.bytes : o->whole_bytes;
    return rc;
}

static int open_outlook(struct hearth_outlook *o, struct hearth_error *err)
{
    double *density = hearth_calloc((size_t)o->model->hp.n_layer, sizeof *density);
    int rc = density ? measure_sessions(o, err)
                     : hearth_fail(err, HEARTH_E_MEMORY, "no memory to plan the memory budget");
    if (!rc)
        rc = hearth_sources_prepare(&o->sources, o->model, &o->users[0], &o->need, &o->whole_bytes, err);
    if (!rc) {
        o->lendable = o->need.params.lendable -
                      (uint64_t)o->model->load.max_sessions * hearth_sources_lendable_bytes(&o->users[0]);
        rc = describe_activity(o, density, err);
    }
    if (!rc)
        rc = find_least(o, err);
    if (!rc)
        describe_work(o, density);
    free(density);
    return rc;
}

int hearth_outlook_open(struct hearth_outlook **out, const struct hearth_model *model,
                        const struct hearth_outlook_params *params, struct hearth_error *err)
{
    struct hearth_outlook *o = *out = hearth_calloc(1, sizeof *o);
    if (!o)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to plan the memory budget");
    o->model = model;
    o->params = *params;
    const int rc = open_outlook(o, err);
    if (rc)
        hearth_outlook_close(out);
    return rc;
}

void hearth_outlook_close(struct hearth_outlook **outlook)
{
    struct hearth_outlook *o = *outlook;
    *outlook = NULL;
    if (!o)
        return;
    if (o->sources)
        hearth_sources_drop(&o->sources);
    free(o->activity);
    free(o);
}

uint64_t hearth_outlook_least(const struct hearth_outlook *o)
{
    return o->least_bytes;
}

uint64_t hearth_outlook_whole(const struct hearth_outlook *o)
{
    return o->whole_bytes;
}

// ---- searching

static struct hearth_forecast_params forecast_params(const struct hearth_outlook *o,
                                                     const struct hearth_prospect *p)
{
    return (struct hearth_forecast_params){.probe = o->params.probe,
                                           .workload = &o->workload,
                                           .budget = &o->need.params,
                                           .plan = p->kind == HEARTH_FIT_WHOLE ? NULL : &p->plan,
                                           .resident = o->need.resident,
                                           .quota = o->need.quota,
                                           .activity = o->activity,
                                           .lent = p->lent_bytes,
                                           .gap = p->gap,
                                           .threads = p->n_threads,
                                           .tokens = o->params.session.max_seqs,
                                           .look_ahead = p->look_ahead};
}

static double seconds_of(const struct hearth_outlook *o, const struct hearth_prospect *p)
{
    return n_prompt(o) / p->prompt_tokens_per_second + n_predict(o) / p->forecast.tokens_per_second;
}

// Each number up to 8, then ever larger steps, and the most.
static int next_threads(int threads, int most)
{
    const int next = threads + (threads < 8 ? 1 : threads / 4);
    return threads < most && next > most ? most : next;
}

// Threads and looking ahead for a plan of memory: *best becomes what is faster.
static void try_plan(const struct hearth_outlook *o, const struct hearth_prospect *plan,
                     struct hearth_prospect *best)
{
    const int asked = o->params.session.n_threads, most = most_threads(o);
    for (int threads = asked > 0 ? asked : 1; threads <= most; threads = next_threads(threads, most))
        for (int ahead = 1; ahead >= 0; ahead--) {
            if (o->params.keep_look_ahead && o->params.look_ahead != (ahead != 0))
                continue;
            struct hearth_prospect p = *plan;
            p.n_threads = threads;
            p.look_ahead = ahead;
            const struct hearth_forecast_params f = forecast_params(o, &p);
            hearth_forecast(&f, &p.forecast);
            p.prompt_tokens_per_second = hearth_forecast_prompt(&f, p.n_ubatch);
            if (best->kind == HEARTH_FIT_NOT || seconds_of(o, &p) * SAME < seconds_of(o, best))
                *best = p;
        }
}

static double kept_share(const struct hearth_outlook *o, const struct hearth_prospect *prospect)
{
    const struct hearth_budget_params *b = &o->need.params;
    const struct hearth_budget_plan *p = &prospect->plan;
    const double lent = (double)prospect->lent_bytes;
    double all = 0;
    for (uint32_t i = 0; i < b->n_spaces; i++)
        all += b->spaces[i].elsewhere ? 0 : b->spaces[i].n_neurons;
    if (b->n_spaces)
        return all > 0 ? (double)prospect->neurons / all : 1;
    for (uint32_t i = 0; i < b->n_layers - b->n_elsewhere; i++)
        all += b->n_experts ? (double)b->expert_bytes[i] * b->n_experts : (double)b->dense[i];
    if (!b->n_experts)
        all += (b->head_elsewhere && b->head_by_part ? 0 : (double)b->head) + (double)b->embedding;
    const double kept = (double)(b->n_experts ? p->expert_bytes : p->dense_bytes) + lent;
    return kept < all ? kept / all : 1;
}

// While an answer is generated, weights have most of what is set aside for contexts and prompts: layers that
// would stream first, then the head, then the neuron cache, whose quotas grow.
static int lend(struct hearth_outlook *o, struct hearth_prospect *p, struct hearth_error *err)
{
    const struct hearth_budget_params *b = &o->need.params;
    const double used = kv_in_use(o) * o->params.session.max_seqs * o->model->load.max_sessions;
    uint64_t left = used < (double)b->lendable ? b->lendable - (uint64_t)used : 0;
    p->lent_bytes = left;
    p->neurons = p->plan.resident_neurons + p->plan.cold_neurons;
    left -= hearth_budget_lend_dense(b, &p->plan, left);
    if (!p->plan.region_bytes || !left)
        return HEARTH_OK;
    const int rc = hearth_budget_lend(b, &p->plan, o->need.resident, o->need.quota, o->need.quota_most, err);
    p->neurons = p->plan.resident_neurons;
    for (uint32_t i = 0; i < b->n_spaces && !rc; i++) {
        const double more = (double)(o->need.quota_most[i] - o->need.quota[i]);
        o->need.quota[i] += (uint32_t)(more * (double)left / (double)b->lendable);
        p->neurons += o->need.quota[i];
    }
    return rc;
}

// One micro-batch.
static int try_ubatch(struct hearth_outlook *o, int i, uint64_t ram, struct hearth_prospect *best,
                      struct hearth_error *err)
{
    struct hearth_prospect p = {.kind = HEARTH_FIT_STREAMS,
                                .ram = ram,
                                .n_ubatch = o->ubatch[i],
                                .workspace_bytes = o->users[i].workspace_bytes,
                                .kept = 1};
    const uint64_t less = o->users[0].workspace_bytes - o->users[i].workspace_bytes;
    set_budget(o, i);
    if (ram >= o->whole_bytes - less * (uint64_t)o->model->load.max_sessions) {
        p.kind = HEARTH_FIT_WHOLE;
    } else {
        int rc = hearth_budget_plan(&o->need.params, ram, &p.plan, o->need.resident, o->need.quota, err);
        if (rc)
            return rc == HEARTH_E_BUDGET ? HEARTH_OK : rc;
        if (o->need.params.n_spaces)
            p.gap = hearth_forecast_gap(o->params.probe);
        rc = lend(o, &p, err);
        if (rc)
            return rc;
        p.kept = kept_share(o, &p);
    }
    try_plan(o, &p, best);
    return HEARTH_OK;
}

int hearth_outlook_at(struct hearth_outlook *o, uint64_t ram, struct hearth_prospect *out,
                      struct hearth_error *err)
{
    *out = (struct hearth_prospect){.kind = HEARTH_FIT_NOT, .ram = ram};
    int rc = HEARTH_OK;
    for (int i = 0; i < o->n_ubatches && !rc; i++)
        rc = try_ubatch(o, i, ram, out, err);
    return rc;
}

int hearth_outlook_least_for(struct hearth_outlook *o, double speed, struct hearth_prospect *out,
                             struct hearth_error *err)
{
    uint64_t low = (o->least_bytes + MIB - 1) / MIB, high = (o->whole_bytes + MIB - 1) / MIB;
    int rc = hearth_outlook_at(o, high * MIB, out, err);
    if (rc || out->forecast.tokens_per_second < speed) {
        out->kind = HEARTH_FIT_NOT;
        return rc;
    }
    while (low < high && !rc) {
        struct hearth_prospect p;
        const uint64_t middle = low + (high - low) / 2;
        rc = hearth_outlook_at(o, middle * MIB, &p, err);
        if (p.kind != HEARTH_FIT_NOT && p.forecast.tokens_per_second >= speed) {
            high = middle;
            *out = p;
        } else {
            low = middle + 1;
        }
    }
    return rc;
}
