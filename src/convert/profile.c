// SPDX-License-Identifier: MIT
// Makes a profile. 32 parts of a text go through a layer of the model, window by window; what each token
// activates is kept as bits until all parts have passed the window. Then the parts are looked at side by side,
// position by position: so the tokens of a group have as little to do with each other as those of 32 users. A
// neuron's 32 bits of a position say for which parts it was active. For groups of 2, 4, ... the bits of a
// group are or-ed. Then the next window, and after the last one the next layer.
#include "convert/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "convert/magnitudes.h"
#include "convert/profiler.h"
#include "model/arch.h"
#include "model/ffn.h"

#define SEQS        HEARTH_PROFILE_SEQS
#define BATCHES     HEARTH_PROFILE_BATCHES
#define SAMPLE      HEARTH_PROFILE_SAMPLE
#define DEFAULT_CTX 512
// Of memory that the stream of all tokens may take where there is no budget.
#define STATE_BYTES (UINT64_C(4) << 30)

// ---- one token

// A place for what a token has active in a space; NULL: it is not counted. *expert's place among the token's.
static uint64_t *take_place(struct hearth_profiler *p, int expert, struct hearth_row row)
{
    struct hearth_walk_place place;
    if (!hearth_walk_row(&p->walk, row, &place))
        return NULL;
    const size_t at = (size_t)place.token * SEQS + place.window - p->stretch, used = p->n_spaces[at]++;
    p->experts[at * p->n_used + used] = expert;
    return p->active + (at * p->n_used + used) * p->n_words;
}

// Some tokens of each space stay in the sample: every one that was there has the same chance, and which ones
// stay follows from their number alone.
static void sample(struct hearth_profiler *p, size_t expert, const uint64_t *active)
{
    const uint64_t n = p->uses[expert]++;
    uint64_t at = n;
    if (n >= SAMPLE) {
        uint64_t z = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        at = (z ^ z >> 31) % (n + 1);
    }
    if (at < SAMPLE)
        memcpy(p->sample + (expert * SAMPLE + at) * p->sample_bytes, active, p->sample_bytes);
}

static void on_neurons(void *arg, int layer, int expert, struct hearth_row row, const float *act)
{
    (void)layer;
    struct hearth_profiler *p = arg;
    uint64_t *active = take_place(p, expert, row);
    if (!active)
        return;
    double *sums = p->sums + (size_t)expert * p->n_ff;
    for (size_t j = 0; j < p->width; j++) {
        active[j / 64] |= (uint64_t)(act[j] != 0.0f) << j % 64;
        sums[j] += (double)fabsf(act[j]);
    }
    sample(p, (size_t)expert, active);
}

static void on_gates(void *arg, int layer, int expert, struct hearth_row row, const float *gates)
{
    (void)layer;
    struct hearth_profiler *p = arg;
    struct hearth_walk_place place;
    if (!hearth_walk_row(&p->walk, row, &place))
        return;
    if (p->sizing || !(p->params->sparsity_share > 0))
        hearth_magnitudes_count(p->sizes, gates, p->width);
    if (p->sizing)
        return;
    uint64_t *active = take_place(p, expert, row);
    double *sums = p->sums + (size_t)expert * p->n_ff;
    for (size_t j = 0; j < p->width; j++) {
        const bool is = !(fabsf(gates[j]) < p->least);
        active[j / 64] |= (uint64_t)is << j % 64;
        sums[j] += is ? (double)fabsf(gates[j]) : 0;
    }
    sample(p, (size_t)expert, active);
}

// ---- counting

// The lowest bit of every group of 1 << batch sequences.
static uint32_t groups_of(int batch)
{
    static const uint32_t lowest[BATCHES] = {0xffffffffu, 0x55555555u, 0x11111111u,
                                             0x01010101u, 0x00010001u, 1};
    return lowest[batch];
}

static int32_t count_bits(uint32_t x)
{
    return (int32_t)__builtin_popcount(x);
}

// Counts the groups with a bit in `mask`, in counters that are `stride` apart.
static void add_groups(uint32_t mask, int32_t *counters, size_t stride)
{
    for (int batch = 0; batch < BATCHES; batch++) {
        counters[(size_t)batch * stride] += count_bits(mask & groups_of(batch));
        if (batch + 1 < BATCHES)
            mask |= mask >> (1u << batch);
    }
}

// Compares a space's active neurons with those of the same parts' visits before.
static void compare_visits(struct hearth_profiler *p, size_t space, const uint32_t *masks, uint32_t visited)
{
    uint32_t *before = p->before + space * p->n_ff;
    const uint32_t seen = p->seen[space] & visited;
    uint64_t again = 0, compared = 0;
    for (size_t j = 0; j < p->n_ff; j++) {
        again += (uint64_t)count_bits(masks[j] & before[j] & seen);
        compared += (uint64_t)count_bits(masks[j] & seen);
        before[j] = (before[j] & ~visited) | masks[j];
    }
    p->again += again;
    p->compared += compared;
    p->seen[space] |= visited;
}

// What the parts have active at a position, by neuron.
static void turn_bits(struct hearth_profiler *p, size_t position)
{
    for (size_t part = 0; part < SEQS; part++) {
        const size_t at = position * SEQS + part;
        for (size_t used = 0; used < p->n_spaces[at]; used++) {
            const size_t expert = (size_t)p->experts[at * p->n_used + used];
            const uint64_t *active = p->active + (at * p->n_used + used) * p->n_words;
            uint32_t *masks = p->masks + expert * p->n_ff;
            p->visited[expert] |= 1u << part;
            for (size_t word = 0; word < p->n_words; word++)
                for (uint64_t bits = active[word]; bits; bits &= bits - 1)
                    masks[word * 64 + (size_t)__builtin_ctzll(bits)] |= 1u << part;
        }
    }
}

static void count_position(struct hearth_profiler *p, size_t position)
{
    const size_t spaces = p->n_expert, f = p->n_ff, first = p->layer * BATCHES * spaces;
    turn_bits(p, position);
    for (size_t e = 0; e < spaces; e++) {
        if (!p->visited[e])
            continue;
        int32_t *counts = p->counts + (first + e) * f;
        uint32_t *masks = p->masks + e * f;
        add_groups(p->visited[e], p->visits + first + e, spaces);
        for (size_t j = 0; j < f; j++)
            if (masks[j])
                add_groups(masks[j], counts + j, spaces * f);
        compare_visits(p, e, masks, p->visited[e]);
        memset(masks, 0, f * sizeof *masks);
        p->visited[e] = 0;
    }
}

// All parts have passed the window.
static void count_stretch(struct hearth_profiler *p)
{
    const int n = p->windows[p->stretch].n, first = p->walk.bos ? 0 : 1;
    memset(p->seen, 0, p->n_expert * sizeof *p->seen);
    for (int i = first; i < n; i++)
        count_position(p, (size_t)i);
    p->counted += p->layer ? 0 : (uint64_t)(n - first) * SEQS;
}

// ---- one layer

static int pass_stretches(struct hearth_profiler *p, bool keep)
{
    int rc = HEARTH_OK;
    for (size_t at = 0; at < p->walk.n_windows && !rc; at += SEQS) {
        const size_t tokens = (size_t)p->windows[at].n * SEQS;
        p->stretch = at;
        memset(p->n_spaces, 0, tokens);
        memset(p->active, 0, tokens * p->n_used * p->n_words * sizeof *p->active);
        rc = hearth_walk_pass(&p->walk, (int)p->layer, at, at + SEQS, keep, p->err);
        if (!rc && keep)
            count_stretch(p);
    }
    return rc;
}

static void begin_layer(struct hearth_profiler *p)
{
    const size_t neurons = p->n_expert * p->n_ff;
    p->again = p->compared = 0;
    p->width = (size_t)hearth_ffn_neurons_of(&p->model->hp, (int)p->layer);
    memset(p->sums, 0, neurons * sizeof *p->sums);
    memset(p->uses, 0, p->n_expert * sizeof *p->uses);
    memset(p->sample, 0, p->n_expert * SAMPLE * p->sample_bytes);
    memset(p->before, 0, neurons * sizeof *p->before);
    if (p->by_gates)
        memset(p->sizes, 0, HEARTH_MAGNITUDE_BINS * sizeof *p->sizes);
}

static int end_layer(struct hearth_profiler *p)
{
    const size_t neurons = p->n_expert * p->n_ff;
    const int32_t *counts = p->counts + p->layer * BATCHES * neurons;
    for (size_t j = 0; j < neurons; j++)
        p->means[p->layer * neurons + j] = counts[j] ? (float)(p->sums[j] / counts[j]) : 0;
    p->repeats[p->layer] = p->compared ? (float)((double)p->again / (double)p->compared) : 0;
    p->all_again += p->again;
    p->all_compared += p->compared;
    return hearth_row_store_write(&p->samples, p->layer * p->n_expert * SAMPLE, p->n_expert * SAMPLE,
                                  p->sample, p->err);
}

// Twice where a share decides what counts: first to learn what is below it.
static int profile_layer(struct hearth_profiler *p)
{
    const struct hearth_profile_params *params = p->params;
    float *percentiles = p->by_gates ? p->magnitudes + p->layer * HEARTH_MAGNITUDES : NULL;
    int rc = hearth_walk_enter(&p->walk, (int)p->layer, p->err);
    if (rc)
        return rc;
    begin_layer(p);
    p->least = params->sparsity_threshold;
    if (params->sparsity_share > 0) {
        p->sizing = true;
        rc = pass_stretches(p, false);
        p->sizing = false;
        hearth_magnitudes_measure(p->sizes, percentiles);
        p->least = hearth_magnitude_at(percentiles, (double)params->sparsity_share);
    }
    if (!rc)
        rc = pass_stretches(p, true);
    if (p->by_gates && !(params->sparsity_share > 0))
        hearth_magnitudes_measure(p->sizes, percentiles);
    hearth_walk_leave(&p->walk, (int)p->layer);
    return rc ? rc : end_layer(p);
}

// ---- entry

// Mean share of active neurons in visited spaces, for groups of this size.
static double mean_share(const struct hearth_profiler *p, int batch)
{
    double active = 0, all = 0;
    for (size_t layer = 0; layer < p->n_layer; layer++)
        for (size_t e = 0; e < p->n_expert; e++) {
            const size_t space = (layer * BATCHES + (size_t)batch) * p->n_expert + e;
            for (size_t j = 0; j < p->n_ff; j++)
                active += p->counts[space * p->n_ff + j];
            all += (double)p->visits[space] * hearth_ffn_neurons_of(&p->model->hp, (int)layer);
        }
    return all > 0 ? active / all : 0;
}

static int check_request(struct hearth_profiler *p, size_t n_tokens,
                         const struct hearth_profile_params *params)
{
    const struct hearth_model *m = p->model;
    if (!(params->sparsity_share >= 0 && params->sparsity_share < 1) ||
        (params->sparsity_share > 0 && hearth_is_relu(&m->hp)))
        return hearth_fail_param(
            p->err, HEARTH_E_INVALID, "sparsity_share",
            "%s: a share of neurons to leave out is below 100 %% and for models outside the ReLU "
            "family, whose activations say themselves what is left out",
            m->info.path);
    if (!hearth_is_relu(&m->hp) && !(params->sparsity_threshold > 0) && !(params->sparsity_share > 0))
        return hearth_fail_param(
            p->err, HEARTH_E_INVALID, "sparsity_share",
            "%s: with this model's activation every neuron is always active: a threshold has to say which "
            "ones are left out, for instance 40%%",
            m->info.path);
    if (hearth_ffn_used(&m->hp) > UINT8_MAX)
        return hearth_fail(p->err, HEARTH_E_UNSUPPORTED,
                           "%s: a token uses %d experts, %d at most are supported here", m->info.path,
                           hearth_ffn_used(&m->hp), UINT8_MAX);
    if (m->pack)
        return hearth_fail(p->err, HEARTH_E_INVALID,
                           "%s: this is a pack; make the profile with the model that it was made of",
                           m->info.path);
    if (m->hp.n_pos == 1)
        return hearth_fail(p->err, HEARTH_E_UNSUPPORTED,
                           "%s: the model knows one position; a profile takes windows of two tokens or more",
                           m->info.path);
    if (n_tokens < 2 * SEQS)
        return hearth_fail(
            p->err, HEARTH_E_INVALID,
            "the text has %zu tokens; a profile needs at least %d, and is good from some ten thousand on",
            n_tokens, 2 * SEQS);
    if (n_tokens > INT32_MAX)
        return hearth_fail(p->err, HEARTH_E_INVALID, "a text of %zu tokens is too long for one profile",
                           n_tokens);
    return HEARTH_OK;
}

static bool on_progress(void *arg, int layer, float done)
{
    const struct hearth_profiler *p = arg;
    const float passes = p->params->sparsity_share > 0 ? 2 : 1, before = passes > 1 && !p->sizing ? 1 : 0;
    const float all = ((float)layer + (before + done) / passes) / (float)p->n_layer;
    return p->params->progress(p->params->progress_arg, all);
}

static int list_windows(struct hearth_profiler *p, uint64_t part, int room)
{
    const size_t n = (size_t)((part + (uint64_t)room - 1) / (uint64_t)room);
    p->windows = hearth_calloc(n * SEQS, sizeof *p->windows);
    if (!p->windows)
        return hearth_fail(p->err, HEARTH_E_MEMORY, "no memory for the windows of a text");
    for (size_t i = 0; i < n; i++)
        for (size_t seq = 0; seq < SEQS; seq++) {
            const uint64_t at = (uint64_t)i * (uint64_t)room, left = part - at;
            p->windows[i * SEQS + seq] = (struct hearth_window){
                (uint64_t)seq * part + at, (int)(left < (uint64_t)room ? left : (uint64_t)room)};
        }
    p->walk.windows = p->windows;
    p->walk.n_windows = n * SEQS;
    return HEARTH_OK;
}

// The longest window: of as many tokens as were asked for, as there are, and as the model has positions.
static int window_of(const struct hearth_profiler *p, uint64_t part)
{
    const int most = p->model->hp.n_pos ? p->model->hp.n_pos : 1 << 26; // learned positions limit the context
    int n = p->params->n_ctx > 1 ? p->params->n_ctx : DEFAULT_CTX;
    if ((uint64_t)n > part + 1) // no window is longer
        n = (int)part + 1;
    return n < most ? n : most;
}

// Before the session is opened, so that a budget knows of it.
static int take_memory(struct hearth_profiler *p, const char *out)
{
    const size_t x = p->n_expert, f = p->n_ff, spaces = p->n_layer * BATCHES * x;
    const size_t tokens = (size_t)p->walk.n_ctx * SEQS;
    bool enough = true;
    p->active = hearth_take(tokens * p->n_used, p->n_words * sizeof *p->active, &enough);
    p->experts = hearth_take(tokens, p->n_used * sizeof *p->experts, &enough);
    p->n_spaces = hearth_take(tokens, 1, &enough);
    p->masks = hearth_take(x, f * sizeof *p->masks, &enough);
    p->visited = hearth_take(x, sizeof *p->visited, &enough);
    p->before = hearth_take(x, f * sizeof *p->before, &enough);
    p->seen = hearth_take(x, sizeof *p->seen, &enough);
    p->sums = hearth_take(x, f * sizeof *p->sums, &enough);
    p->uses = hearth_take(x, sizeof *p->uses, &enough);
    p->sample = hearth_take(x * SAMPLE, p->sample_bytes, &enough);
    p->counts = hearth_take(spaces, f * sizeof *p->counts, &enough);
    p->visits = hearth_take(spaces, sizeof *p->visits, &enough);
    p->means = hearth_take(p->n_layer * x, f * sizeof *p->means, &enough);
    p->repeats = hearth_take(p->n_layer, sizeof *p->repeats, &enough);
    if (p->by_gates) {
        p->sizes = hearth_take(HEARTH_MAGNITUDE_BINS, sizeof *p->sizes, &enough);
        p->magnitudes = hearth_take(p->n_layer, HEARTH_MAGNITUDES * sizeof *p->magnitudes, &enough);
    }
    if (!enough)
        return hearth_fail(p->err, HEARTH_E_MEMORY, "no memory for the counts of a profile");
    return hearth_row_store_open(&p->samples, p->sample_bytes, p->n_layer * x * SAMPLE, p->walk.state_bytes,
                                 out, p->err);
}

static int open_walk(struct hearth_profiler *p)
{
    struct hearth_walk *w = &p->walk;
    w->params = hearth_session_params_default();
    w->params.sparsity = HEARTH_SPARSITY_OFF;
    const int rc = hearth_walk_open(w, p->err);
    if (rc)
        return rc;
    struct hearth_probes *probes = hearth_session_probes(w->s);
    if (p->by_gates) {
        probes->on_gates = on_gates;
        probes->on_gates_arg = p;
    } else {
        probes->on_neurons = on_neurons;
        probes->on_neurons_arg = p;
    }
    return HEARTH_OK;
}

static void close_profiler(struct hearth_profiler *p)
{
    void *memory[] = {p->windows, p->active, p->experts, p->n_spaces, p->masks,     p->visited,
                      p->before,  p->seen,   p->sums,    p->uses,     p->sample,    p->counts,
                      p->visits,  p->means,  p->repeats, p->sizes,    p->magnitudes};
    hearth_walk_close(&p->walk);
    hearth_row_store_close(&p->samples);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
}

int hearth_profile(const struct hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                   const struct hearth_profile_params *params, const char *out,
                   struct hearth_profile_result *result, struct hearth_error *err)
{
    struct hearth_profiler p = {.model = model, .params = params, .err = err};
    int rc = check_request(&p, n_tokens, params);
    if (rc)
        return rc;
    const struct hearth_hparams *hp = &model->hp;
    const uint64_t part = n_tokens / SEQS;
    p.by_gates = !hearth_is_relu(&model->hp);
    p.n_layer = (size_t)hp->n_layer;
    p.n_expert = (size_t)hearth_ffn_experts(hp);
    p.n_ff = (size_t)hearth_ffn_neurons(hp);
    p.n_used = (size_t)hearth_ffn_used(hp);
    p.n_words = (p.n_ff + 63) / 64;
    p.sample_bytes = (p.n_ff + 7) / 8;
    p.walk = (struct hearth_walk){.model = model,
                                  .tokens = tokens,
                                  .n_ctx = window_of(&p, part),
                                  .n_threads = params->n_threads,
                                  .n_ubatch = params->n_ubatch,
                                  .beside = out,
                                  .state_bytes = model->load.ram ? 0 : STATE_BYTES,
                                  .progress = params->progress ? on_progress : NULL,
                                  .progress_arg = &p};
    rc = list_windows(&p, part, p.walk.n_ctx - (hearth_token_bos(model) >= 0));
    if (!rc)
        rc = take_memory(&p, out);
    if (!rc)
        rc = open_walk(&p);
    for (; p.layer < p.n_layer && !rc; p.layer++)
        rc = profile_layer(&p);
    if (!rc)
        rc = hearth_profiler_write(&p, out);
    if (!rc && result)
        *result = (struct hearth_profile_result){p.counted, mean_share(&p, 0), mean_share(&p, BATCHES - 1)};
    close_profiler(&p);
    return rc;
}
