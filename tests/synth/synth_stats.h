// SPDX-License-Identifier: MIT
// Test support: which neurons and experts a model really uses while it generates. Gates, ups and predictors
// are computed here, all of them, from the inputs of the feed-forward parts: what the engine itself leaves
// out does not matter.
#ifndef HEARTH_TESTS_SYNTH_STATS_H
#define HEARTH_TESTS_SYNTH_STATS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "engine/session.h"
#include "model/model.h"

enum { STATS_SEQS = 32, STATS_EXPERTS = 1024 };

// What is known of one layer's spaces; all fractions are of neurons unless they say otherwise.
struct stats_layer {
    double gate, active, predicted; // gate > 0; f(gate) * g(up) != 0; named by the predictor
    double missed, idle;            // active but not predicted, of the active; predicted but not, of those
    double top20, top50;            // share of activations that the most active fifth (half) of neurons have
    double first20;                 // the same of the first fifth, as neurons are numbered
    double found;   // active, and the layer's predictor (without one: gates and ups) says so of the layer
                    // before's input, of the active
    double in_vain; // not active, but it says so, of those of which it does
    double jaccard; // of a sequence's sets of active neurons in consecutive tokens
    double in_union, union_predicted; // in any of the batch's sets of active (predicted) neurons
    double first_repeats;             // share of tokens whose first-choice expert is the last token's
    double expert_hits;               // share of experts found by LRU over a quarter of them, per sequence
    double expert_top;                // share of choices that the most popular quarter of experts has
};

// Running sums of one layer.
struct stats_sums {
    uint32_t *counts; // [X * F] times active
    uint64_t *visits; // [X] tokens
    uint8_t *last;    // [STATS_SEQS][F] the last token's set, of its first expert
    int last_expert[STATS_SEQS];
    uint8_t *any, *any_predicted; // [X * F] in this step
    uint64_t gate, active, predicted, missed, idle, neurons;
    uint64_t guessed, found, wanted; // of layers without experts
    double jaccard, in_union, in_union_predicted;
    uint64_t n_jaccard, n_union;
    int first[STATS_SEQS];
    uint64_t repeats, n_repeats, hits, n_hits;
    int *lru;         // [STATS_SEQS][X / 4] newest first, -1: empty
    uint64_t *chosen; // [X]
};

struct stats {
    const struct hearth_model *m;
    struct hearth_session *s;
    struct stats_sums *layers;
    size_t n_experts, n_ff; // X (at least 1), F
    float *normed, *stream; // [STATS_SEQS][E] of the layer at hand
    float *before; // [STATS_SEQS][E] what predictors see, of the layer before; of the first layer its own
    float *gate, *up, *predicted, *rank, *guess;
    void *acts, *scratch;
    bool neurons; // measure them, not only experts
    int every;    // only in each so-manieth layer; 1: in all
};

static inline void *stats_alloc(size_t n, size_t size)
{
    void *p = hearth_aligned_alloc(64, (n * size + 63) / 64 * 64);
    if (!p)
        abort();
    return memset(p, 0, (n * size + 63) / 64 * 64);
}

static inline void stats_product(struct stats *st, const struct hearth_weight *w, const float *x, float *out)
{
    const bool block = hearth_type_info(w->type)->unit_elems != 0;
    if (block)
        st->m->kernels.quantize_acts(st->acts, x, w->k);
    st->m->kernels.step[w->type](out, w->n, w->data, w->stride, w->k, w->n,
                                 block ? st->acts : (const void *)x, 0, 1, st->scratch);
}

static inline const struct hearth_weight *stats_pick(const struct stats *st,
                                                     const struct hearth_weight *dense,
                                                     const struct hearth_weight *each, int expert,
                                                     struct hearth_weight *space)
{
    const struct hearth_weight *from = st->m->hp.n_expert ? each : dense;
    *space = *from;
    if (from->data && st->m->hp.n_expert)
        *space = hearth_expert(from, expert);
    return space;
}

// What the predictor says of the input `seen`: one number a neuron. False: there is no predictor.
static inline bool stats_predict(struct stats *st, int layer, int expert, const float *seen, float *out)
{
    const struct hearth_layer *l = &st->m->weights.layers[layer];
    struct hearth_weight w;
    if (!stats_pick(st, &l->pred_fc1, &l->pred_fc1_exps, expert, &w)->data)
        return false;
    stats_product(st, &w, seen, st->rank);
    st->m->kernels.activate(st->rank, w.n, HEARTH_ACT_RELU);
    stats_product(st, stats_pick(st, &l->pred_fc2, &l->pred_fc2_exps, expert, &w), st->rank, out);
    return true;
}

// Counts what looking ahead would have found of the token's active neurons.
static inline void stats_look_ahead(struct stats *st, int layer, int seq, const uint8_t *active)
{
    struct stats_sums *sums = &st->layers[layer];
    const float *before = st->before + (size_t)seq * (size_t)st->m->hp.n_embd;
    if (layer == 0)
        return;
    const bool predictor = stats_predict(st, layer, 0, before, st->guess);
    const bool drelu = st->m->hp.activation == HEARTH_ACT_DRELU;
    if (!predictor) {
        stats_product(st, &st->m->weights.layers[layer].ffn_gate, before, st->guess);
        stats_product(st, &st->m->weights.layers[layer].ffn_up, before, st->up);
    }
    for (size_t j = 0; j < st->n_ff; j++) {
        const bool guessed = predictor ? st->guess[j] >= st->m->hp.predict_threshold
                                       : st->guess[j] > 0 && (!drelu || st->up[j] > 0);
        sums->guessed += guessed;
        sums->found += guessed && active[j];
        sums->wanted += active[j];
    }
}

// The token of `seq` in one space. `slot`: where its set is kept; `mate`: and is to be compared with the one
// that is there.
static inline void stats_space(struct stats *st, int layer, int expert, int seq, int slot, bool mate)
{
    const struct hearth_layer *l = &st->m->weights.layers[layer];
    struct stats_sums *sums = &st->layers[layer];
    struct hearth_weight w;
    const float *x = st->normed + (size_t)seq * (size_t)st->m->hp.n_embd;
    const enum hearth_predictor_input input = st->m->hp.predictor_input;
    const float *seen = (input == HEARTH_PREDICTOR_NORMED     ? st->normed
                         : input == HEARTH_PREDICTOR_PREVIOUS ? st->before
                                                              : st->stream) +
                        (size_t)seq * (size_t)st->m->hp.n_embd;
    const size_t f = st->n_ff, at = (size_t)expert * f;
    const bool gated = l->ffn_gate.data || l->ffn_gate_exps.data;
    const bool drelu = st->m->hp.activation == HEARTH_ACT_DRELU;
    stats_product(st, stats_pick(st, gated ? &l->ffn_gate : &l->ffn_up, &l->ffn_gate_exps, expert, &w), x,
                  st->gate);
    if (!gated && l->ffn_up_b.data)
        st->m->kernels.add(st->gate, l->ffn_up_b.data, f);
    if (gated)
        stats_product(st, stats_pick(st, &l->ffn_up, &l->ffn_up_exps, expert, &w), x, st->up);
    const bool predictor = stats_predict(st, layer, expert, seen, st->predicted);
    uint8_t *last = sums->last + (size_t)slot * f;
    uint64_t both = 0, either = 0;
    for (size_t j = 0; j < f; j++) {
        const bool on = st->gate[j] > 0, active = on && (!drelu || st->up[j] > 0);
        const bool predicted = predictor ? st->predicted[j] >= st->m->hp.predict_threshold : on;
        sums->gate += on;
        sums->active += active;
        sums->predicted += predicted;
        sums->missed += active && !predicted;
        sums->idle += predicted && !active;
        sums->counts[at + j] += active;
        sums->any[at + j] |= active;
        sums->any_predicted[at + j] |= predicted;
        both += active && last[j];
        either += active || last[j];
        last[j] = active;
    }
    if (mate && either) {
        sums->jaccard += (double)both / (double)either;
        sums->n_jaccard++;
    }
    sums->neurons += f;
    sums->visits[expert]++;
}

static inline void stats_on_ffn(void *arg, enum hearth_phase phase, int layer, struct hearth_row row,
                                const float *normed, const float *stream)
{
    struct stats *st = arg;
    const size_t width = (size_t)st->m->hp.n_embd, at = (size_t)row.seq * width;
    if (phase != HEARTH_PHASE_STEP)
        return;
    const float *last = st->m->hp.predictor_input == HEARTH_PREDICTOR_STREAM ? st->stream : st->normed;
    memcpy(st->before + at, layer ? last + at : normed, width * sizeof *normed);
    memcpy(st->normed + at, normed, width * sizeof *normed);
    memcpy(st->stream + at, stream, width * sizeof *stream);
    if (!st->m->hp.n_expert && layer % st->every == 0) {
        const bool mate = st->layers[layer].last_expert[row.seq] == 0;
        st->layers[layer].last_expert[row.seq] = 0;
        stats_space(st, layer, 0, row.seq, row.seq, mate);
        if (st->neurons)
            stats_look_ahead(st, layer, row.seq, st->layers[layer].last + (size_t)row.seq * st->n_ff);
    }
}

static inline void stats_lru(struct stats *st, struct stats_sums *sums, int seq, int expert)
{
    const size_t size = st->n_experts / 4;
    int *lru = sums->lru + (size_t)seq * size;
    size_t at = 0;
    while (at + 1 < size && lru[at] != expert)
        at++;
    if (lru[size - 1] >= 0) { // else still cold
        sums->hits += lru[at] == expert;
        sums->n_hits++;
    }
    memmove(lru + 1, lru, at * sizeof *lru);
    lru[0] = expert;
}

static inline void stats_on_experts(void *arg, int layer, struct hearth_row row, const int *ids,
                                    const float *weights, int n)
{
    struct stats *st = arg;
    struct stats_sums *sums = &st->layers[layer];
    int best = 0;
    for (int i = 0; i < n; i++)
        best = weights[i] > weights[best] ? i : best;
    if (sums->first[row.seq] >= 0) {
        sums->repeats += sums->first[row.seq] == ids[best];
        sums->n_repeats++;
    }
    sums->first[row.seq] = ids[best];
    for (int i = 0; i < n; i++) {
        sums->chosen[ids[i]]++;
        stats_lru(st, sums, row.seq, ids[i]);
    }
    if (!st->neurons || layer % st->every)
        return;
    const bool mate = sums->last_expert[row.seq] == ids[best];
    sums->last_expert[row.seq] = ids[best];
    for (int i = 0; i < n; i++)
        if (i != best)
            stats_space(st, layer, ids[i], row.seq, STATS_SEQS, false);
    stats_space(st, layer, ids[best], row.seq, row.seq, mate);
}

// Calls for a session of up to STATS_SEQS sequences, which must outlive this.
static inline void stats_open(struct stats *st, struct hearth_session *s)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const size_t width = (size_t)hp->n_embd;
    *st = (struct stats){.m = s->model, .s = s, .every = 1};
    st->n_experts = hp->n_expert ? (size_t)hp->n_expert : 1;
    st->n_ff = (size_t)(hp->n_expert ? hp->n_ff_exp : hp->n_ff);
    st->neurons = hearth_is_relu(hp);
    size_t rank = 1;
    st->layers = stats_alloc((size_t)hp->n_layer, sizeof *st->layers);
    for (int i = 0; i < hp->n_layer; i++) {
        struct stats_sums *sums = &st->layers[i];
        const struct hearth_layer *l = &s->model->weights.layers[i];
        const size_t n = (hp->n_expert ? l->pred_fc1_exps : l->pred_fc1).n;
        rank = n > rank ? n : rank;
        sums->counts = stats_alloc(st->n_experts * st->n_ff, sizeof *sums->counts);
        sums->visits = stats_alloc(st->n_experts, sizeof *sums->visits);
        sums->last = stats_alloc((STATS_SEQS + 1) * st->n_ff, 1);
        sums->any = stats_alloc(st->n_experts * st->n_ff, 1);
        sums->any_predicted = stats_alloc(st->n_experts * st->n_ff, 1);
        sums->lru = stats_alloc((st->n_experts / 4 + 1) * STATS_SEQS, sizeof *sums->lru);
        sums->chosen = stats_alloc(st->n_experts, sizeof *sums->chosen);
        memset(sums->lru, 0xff, (st->n_experts / 4 + 1) * STATS_SEQS * sizeof *sums->lru);
        memset(sums->first, 0xff, sizeof sums->first);
        memset(sums->last_expert, 0xff, sizeof sums->last_expert);
    }
    const size_t widest = width > rank ? width : rank;
    st->normed = stats_alloc((STATS_SEQS + 1) * width, sizeof(float));
    st->stream = stats_alloc((STATS_SEQS + 1) * width, sizeof(float));
    st->before = stats_alloc((STATS_SEQS + 1) * width, sizeof(float));
    st->gate = stats_alloc(st->n_ff, sizeof(float));
    st->guess = stats_alloc(st->n_ff, sizeof(float));
    st->up = stats_alloc(st->n_ff, sizeof(float));
    st->predicted = stats_alloc(st->n_ff, sizeof(float));
    st->rank = stats_alloc(rank, sizeof(float));
    st->acts = stats_alloc(hearth_acts_bytes(widest), 1);
    st->scratch = stats_alloc(hearth_kernels_scratch(&s->model->kernels, widest), 1);
    hearth_session_probes(s)->on_ffn = stats_on_ffn;
    hearth_session_probes(s)->on_ffn_arg = st;
    hearth_session_probes(s)->on_experts = stats_on_experts;
    hearth_session_probes(s)->on_experts_arg = st;
}

static inline void stats_close(struct stats *st)
{
    for (int i = 0; i < st->m->hp.n_layer; i++) {
        struct stats_sums *sums = &st->layers[i];
        hearth_aligned_free(sums->counts);
        hearth_aligned_free(sums->visits);
        hearth_aligned_free(sums->last);
        hearth_aligned_free(sums->any);
        hearth_aligned_free(sums->any_predicted);
        hearth_aligned_free(sums->lru);
        hearth_aligned_free(sums->chosen);
    }
    hearth_aligned_free(st->layers);
    hearth_aligned_free(st->normed);
    hearth_aligned_free(st->stream);
    hearth_aligned_free(st->before);
    hearth_aligned_free(st->guess);
    hearth_aligned_free(st->gate);
    hearth_aligned_free(st->up);
    hearth_aligned_free(st->predicted);
    hearth_aligned_free(st->rank);
    hearth_aligned_free(st->acts);
    hearth_aligned_free(st->scratch);
    hearth_session_probes(st->s)->on_ffn = NULL;
    hearth_session_probes(st->s)->on_experts = NULL;
}

// After each step of a batch.
static inline void stats_end_step(struct stats *st)
{
    const size_t n = st->n_experts * st->n_ff;
    for (int i = 0; i < st->m->hp.n_layer && st->neurons; i++) {
        struct stats_sums *sums = &st->layers[i];
        size_t any = 0, predicted = 0;
        for (size_t j = 0; j < n; j++) {
            any += sums->any[j];
            predicted += sums->any_predicted[j];
        }
        sums->in_union += (double)any / (double)n;
        sums->in_union_predicted += (double)predicted / (double)n;
        sums->n_union++;
        memset(sums->any, 0, n);
        memset(sums->any_predicted, 0, n);
    }
}

static inline int stats_falling(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// The share that the first `part` of n numbers has in their sum.
static inline double stats_top(const double *x, size_t n, double part)
{
    double sum = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        top += (double)i < part * (double)n ? x[i] : 0;
    }
    return sum > 0 ? top / sum : 0;
}

static inline struct stats_layer stats_of(const struct stats *st, int layer)
{
    const struct stats_sums *sums = &st->layers[layer];
    const double n = sums->neurons ? (double)sums->neurons : 1;
    struct stats_layer out = {
        .gate = (double)sums->gate / n,
        .active = (double)sums->active / n,
        .predicted = (double)sums->predicted / n,
        .missed = sums->active ? (double)sums->missed / (double)sums->active : 0,
        .idle = sums->predicted ? (double)sums->idle / (double)sums->predicted : 0,
        .found = sums->wanted ? (double)sums->found / (double)sums->wanted : 0,
        .in_vain = sums->guessed ? 1 - (double)sums->found / (double)sums->guessed : 0,
        .jaccard = sums->n_jaccard ? sums->jaccard / (double)sums->n_jaccard : 0,
        .in_union = sums->n_union ? sums->in_union / (double)sums->n_union : 0,
        .union_predicted = sums->n_union ? sums->in_union_predicted / (double)sums->n_union : 0,
        .first_repeats = sums->n_repeats ? (double)sums->repeats / (double)sums->n_repeats : 0,
        .expert_hits = sums->n_hits ? (double)sums->hits / (double)sums->n_hits : 0};
    const size_t most = st->n_ff > st->n_experts ? st->n_ff : st->n_experts;
    double *sorted = stats_alloc(most, sizeof *sorted);
    size_t visited = 0;
    for (size_t x = 0; x < st->n_experts; x++) {
        for (size_t j = 0; j < st->n_ff; j++)
            sorted[j] = sums->counts[x * st->n_ff + j];
        out.first20 += stats_top(sorted, st->n_ff, 0.2);
        qsort(sorted, st->n_ff, sizeof *sorted, stats_falling);
        out.top20 += stats_top(sorted, st->n_ff, 0.2);
        out.top50 += stats_top(sorted, st->n_ff, 0.5);
        visited += sums->visits[x] > 0;
    }
    out.first20 /= visited ? (double)visited : 1;
    out.top20 /= visited ? (double)visited : 1;
    out.top50 /= visited ? (double)visited : 1;
    for (size_t x = 0; x < st->n_experts; x++)
        sorted[x] = (double)sums->chosen[x];
    qsort(sorted, st->n_experts, sizeof *sorted, stats_falling);
    out.expert_top = stats_top(sorted, st->n_experts, 0.25);
    hearth_aligned_free(sorted);
    return out;
}

// Generates n_steps tokens of n_seqs sequences that start from different words; temp <= 0: greedy. Returns
// the number of different tokens that the first sequence made in the second half, or a negative code.
static inline int stats_generate(struct stats *st, int n_seqs, int n_steps, float temp,
                                 struct hearth_error *err)
{
    const int n_vocab = st->m->hp.n_vocab, first_word = 259;
    struct hearth_sampler *samplers[STATS_SEQS] = {NULL};
    hearth_token tokens[STATS_SEQS];
    int seqs[STATS_SEQS], rc = 0, different = 0;
    uint8_t *seen = stats_alloc((size_t)n_vocab, 1);
    for (int i = 0; i < n_seqs && rc >= 0; i++) {
        struct hearth_sampler_params p = hearth_sampler_params_default();
        p.seed = 1 + (uint32_t)i;
        p.temp = temp;
        rc = hearth_sampler_open(&samplers[i], n_vocab, &p, err);
        if (rc >= 0)
            rc = seqs[i] = hearth_seq_new(st->s, err);
        tokens[i] = first_word + (int)((double)(n_vocab - first_word) * (i + 0.5) / n_seqs);
    }
    for (int step = 0; step < n_steps && rc >= 0; step++) {
        rc = hearth_step(st->s, seqs, tokens, n_seqs, err);
        stats_end_step(st);
        for (int i = 0; i < n_seqs && rc >= 0; i++) {
            tokens[i] = hearth_sample(samplers[i], hearth_logits(st->s, i));
            hearth_sampler_accept(samplers[i], tokens[i]);
        }
        if (step >= n_steps / 2 && !seen[tokens[0]]) {
            seen[tokens[0]] = 1;
            different++;
        }
    }
    for (int i = 0; i < n_seqs; i++) {
        hearth_sampler_close(&samplers[i]);
        if (rc >= 0)
            hearth_seq_free(st->s, seqs[i]);
    }
    hearth_aligned_free(seen);
    return rc < 0 ? rc : different;
}

#endif
