// SPDX-License-Identifier: MIT
// Recurrent layers: see recurrent.h. The order of operations is part of the numeric law (docs/architecture.md).
#include "engine/recurrent.h"

#include <math.h>
#include <string.h>

#include "engine/gates.h"
#include "model/ffn.h"

// Rows of a head's state that one task takes: what they are stays in the first-level cache for all tokens.
#define PART 32
// Channels of the convolution that pass all tokens together, and the most taps.
#define CHANNELS 128
#define TAPS     16
#define NORM_EPS 1e-6f // of queries and keys

struct job {
    struct hearth_recurrent_work *work;
    const struct hearth_batch *batch;
    int layer, index; // of all layers, of the recurrent ones
    int n_parts;      // of a head, or of all channels
};

static bool is_alone(const struct hearth_recurrence *r)
{
    return r->kind == HEARTH_RECURRENCE_CONV;
}

// The i-th token of a sequence of the batch.
static int row_of(const struct job *j, int seq, int i)
{
    return j->batch->sorted[j->batch->firsts[seq] + i];
}

static const struct hearth_state_seq *state_of(const struct job *j, int seq)
{
    return &j->work->states->seqs[j->batch->seqs[seq]];
}

static float *mixed_row(const struct hearth_recurrent_work *w, int row)
{
    return hearth_row_of(w->mixed, row, w->c->hp->recurrence.n_in);
}

static bool given_up(const struct job *j)
{
    return j->batch->n_classes == 1 && hearth_given_up(j->work->c, j->batch->classes[0].phase);
}

// How many numbers say what a token leaves of the heads' states.
static int decays_of(const struct hearth_recurrence *r)
{
    return r->each ? r->n_values : r->n_heads;
}

// ---- the rule

// n rows of a head's state from `first` on: where they are written, and where they are read.
static const float *rows_of_state(const struct job *j, int seq, int head, int first, int n, float **to)
{
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const struct hearth_state_seq *state = state_of(j, seq);
    const size_t width = (size_t)r->state, at = (size_t)(head * r->dim + first) * width;
    *to = hearth_state_heads(w->states, state->to, j->index) + at;
    if (state->from >= 0)
        return hearth_state_heads(w->states, state->from, j->index) + at;
    memset(*to, 0, (size_t)n * width * sizeof **to);
    return *to;
}

// Rows of a head's state, past all tokens of a sequence.
static void delta_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int part = task % j->n_parts, head = task / j->n_parts % r->n_heads,
              seq = task / j->n_parts / r->n_heads;
    const int first = part * PART, n = r->dim - first < PART ? r->dim - first : PART;
    const size_t dim = (size_t)r->dim;
    if (given_up(j))
        return;
    float *to;
    const float *from = rows_of_state(j, seq, head, first, n, &to);
    for (int i = 0; i < j->batch->counts[seq]; i++) {
        const int row = row_of(j, seq, i);
        float *mixed = mixed_row(w, row), *v = mixed + (size_t)(2 * r->n_keys + head) * dim + first;
        const float *q = mixed + (size_t)hearth_key_head_of(r, head) * dim;
        const float *decay = hearth_row_of(w->decay, row, decays_of(r)) + head * (r->each ? r->dim : 1);
        const struct hearth_delta d = {.q = q,
                                       .k = q + (size_t)r->n_keys * dim,
                                       .dim = dim,
                                       .decay = *decay,
                                       .beta = hearth_row_of(w->beta, row, r->n_heads)[head],
                                       .decays = decay};
        (r->each ? w->c->kernels->delta_each : w->c->kernels->delta)(v, to, from, v, (size_t)n, &d);
        from = to;
    }
}

// ---- the convolution

// Some channels' inputs and weights, tap by tap.
struct taps {
    float w[TAPS][CHANNELS], x[TAPS][CHANNELS];
};

// n channels from `channel` on, which lie at element `at` of a row, past all tokens of a sequence. An output
// is the sum of the taps' products from the oldest on, then the bias, each product and each sum rounded.
static void convolve(const struct job *j, int seq, int at, int channel, int n)
{
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const struct hearth_state_seq *state = state_of(j, seq);
    const struct hearth_layer *l = &w->c->weights->layers[j->layer];
    const struct hearth_weight *const parts[] = {&l->rec_conv_q, &l->rec_conv_k, &l->rec_conv_v};
    const bool whole = hearth_has(&l->rec_conv);
    const float *weights = whole ? l->rec_conv.data : parts[channel / r->n_values]->data;
    const float *bias = hearth_vector_of(&l->rec_conv_b);
    const int first = whole ? channel : channel % r->n_values;
    const int kept = r->n_taps - 1, count = j->batch->counts[seq];
    const size_t bytes = (size_t)n * sizeof(float);
    struct taps t;
    for (int i = 0; i < r->n_taps; i++)
        for (int c = 0; c < n; c++)
            t.w[i][c] = weights[(size_t)(first + c) * (size_t)r->n_taps + (size_t)i];
    // Input p of the sequence, counted from the oldest that is kept, lies in x[p % n_taps].
    for (int i = 0; i < kept; i++)
        if (state->from < 0)
            memset(t.x[i], 0, bytes);
        else
            memcpy(t.x[i],
                   hearth_row_of(hearth_state_conv(w->states, state->from, j->index), i, r->n_channels) +
                       channel,
                   bytes);
    for (int p = 0; p < count; p++) {
        float *row = mixed_row(w, row_of(j, seq, p)) + at;
        memcpy(t.x[(p + kept) % r->n_taps], row, bytes);
        for (int i = 0; i < r->n_taps; i++) {
            const float *x = t.x[(p + i) % r->n_taps], *by = t.w[i];
            if (i == 0)
                for (int c = 0; c < n; c++)
                    row[c] = x[c] * by[c];
            else
                for (int c = 0; c < n; c++)
                    row[c] += x[c] * by[c];
        }
        if (bias)
            w->c->kernels->add(row, bias + channel, (size_t)n);
    }
    for (int i = 0; i < kept; i++)
        memcpy(hearth_row_of(hearth_state_conv(w->states, state->to, j->index), i, r->n_channels) + channel,
               t.x[(count + i) % r->n_taps], bytes);
}

// One head's queries, keys or values: convolved, activated, and but for values normed to length 1, of queries
// divided by the root of their dimension besides.
static void convolve_head(const struct job *j, int task)
{
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const struct hearth_kernels *kernels = w->c->kernels;
    const int heads = 2 * r->n_keys + r->n_heads, head = task % heads, seq = task / heads;
    const size_t dim = (size_t)r->dim;
    for (int c = 0; c < r->dim; c += CHANNELS)
        convolve(j, seq, head * r->dim + c, head * r->dim + c, r->dim - c < CHANNELS ? r->dim - c : CHANNELS);
    for (int i = 0; i < j->batch->counts[seq]; i++) {
        float *x = mixed_row(w, row_of(j, seq, i)) + (size_t)head * dim;
        kernels->activate(x, dim, HEARTH_ACT_SILU);
        if (head < 2 * r->n_keys)
            kernels->rms_norm(x, x, head < r->n_keys ? w->norm_q : w->norm_k, dim, NORM_EPS / (float)dim);
    }
}

// Products that a file has for both, apart: those of heads that share keys lie side by side, what is learned first.
static void take_apart(const struct hearth_recurrent_work *w, int row)
{
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int n = r->n_heads, group = n / r->n_keys;
    const float *both = hearth_row_of(w->both, row, 2 * n);
    for (int i = 0; i < n; i++) {
        const int at = i / group * 2 * group + i % group;
        hearth_row_of(w->beta, row, n)[i] = both[at];
        hearth_row_of(w->decay, row, n)[i] = both[at + group];
    }
}

// What of the state stays and what comes in, for each head of a row.
static void weigh_row(const struct job *j, int row)
{
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_layer *l = &w->c->weights->layers[j->layer];
    const int n = w->c->hp->recurrence.n_heads;
    const float *by = hearth_vector_of(&l->rec_decay), *bias = hearth_vector_of(&l->rec_decay_b);
    float *decay = hearth_row_of(w->decay, row, n), *beta = hearth_row_of(w->beta, row, n);
    if (hearth_has(&l->rec_both))
        take_apart(w, row);
    for (int i = 0; i < n; i++) {
        decay[i] = hearth_exp(by[i] * hearth_softplus(decay[i] + bias[i]));
        beta[i] = 1.0f / (1.0f + hearth_exp(-beta[i]));
    }
}

// The same for one head where each key fades at a rate of its own.
static void weigh_head(const struct job *j, int row, int head)
{
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const struct hearth_layer *l = &w->c->weights->layers[j->layer];
    const float by = ((const float *)l->rec_decay.data)[head], *bias = hearth_vector_of(&l->rec_decay_b);
    float *decay = hearth_row_of(w->decay, row, r->n_values), *beta = hearth_row_of(w->beta, row, r->n_heads);
    for (int i = head * r->dim; i < (head + 1) * r->dim; i++)
        decay[i] = hearth_exp(r->floor < 0.0f ? r->floor / (1.0f + hearth_exp(-(by * (decay[i] + bias[i]))))
                                              : by * hearth_softplus(decay[i] + bias[i]));
    beta[head] = 1.0f / (1.0f + hearth_exp(-beta[head]));
}

// A head's inputs, or behind these a row's weights, or those of a head.
static void prepare_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrence *r = &j->work->c->hp->recurrence;
    const int convolutions = j->batch->n_seqs * (2 * r->n_keys + r->n_heads);
    if (given_up(j))
        return;
    if (task < convolutions)
        convolve_head(j, task);
    else if (r->each)
        weigh_head(j, (task - convolutions) / r->n_heads, (task - convolutions) % r->n_heads);
    else
        weigh_row(j, task - convolutions);
}

// ---- a convolution alone

// Some channels past all tokens of a sequence. A row has the gate before, the gate behind, the inputs.
static void conv_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int seq = task / j->n_parts, channel = task % j->n_parts * CHANNELS, width = r->n_channels,
              n = width - channel < CHANNELS ? width - channel : CHANNELS, count = j->batch->counts[seq];
    if (given_up(j))
        return;
    for (int i = 0; i < count; i++) {
        const float *before = mixed_row(w, row_of(j, seq, i)) + channel;
        float *x = mixed_row(w, row_of(j, seq, i)) + 2 * width + channel;
        for (int c = 0; c < n; c++)
            x[c] *= before[c];
    }
    convolve(j, seq, 2 * width + channel, channel, n);
    for (int i = 0; i < count; i++) {
        const int row = row_of(j, seq, i);
        const float *behind = mixed_row(w, row) + width + channel, *x = behind + width;
        float *out = hearth_row_of(w->gate, row, width) + channel;
        for (int c = 0; c < n; c++)
            out[c] = x[c] * behind[c];
    }
}

// ---- a scan. A row has the gates of values, the channels, which are values, keys and queries, and a step for each head.

// A head's keys of a row, its queries behind those of all groups.
static const float *keys_of(const struct hearth_recurrent_work *w, int row, int head)
{
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    return mixed_row(w, row) + 2 * r->n_values + hearth_key_head_of(r, head) * r->state;
}

// What of the state stays and how much comes in, for each head of a row: both by how long the token's step is.
static void step_row(const struct job *j, int row)
{
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const struct hearth_layer *l = &w->c->weights->layers[j->layer];
    const float *by = l->rec_decay.data, *bias = hearth_vector_of(&l->rec_decay_b);
    const float *steps = mixed_row(w, row) + r->n_in - r->n_heads;
    float *decay = hearth_row_of(w->decay, row, r->n_heads), *beta = hearth_row_of(w->beta, row, r->n_heads);
    for (int i = 0; i < r->n_heads; i++) {
        beta[i] = hearth_softplus(steps[i] + bias[i]);
        decay[i] = hearth_exp(by[i] * beta[i]);
    }
}

// Some channels of a sequence, convolved and activated, or behind these a row's steps.
static void prepare_scan_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int parts = (r->n_channels + CHANNELS - 1) / CHANNELS, convolutions = j->batch->n_seqs * parts;
    if (given_up(j))
        return;
    if (task >= convolutions) {
        step_row(j, task - convolutions);
        return;
    }
    const int seq = task / parts, channel = task % parts * CHANNELS, left = r->n_channels - channel,
              n = left < CHANNELS ? left : CHANNELS;
    convolve(j, seq, r->n_values + channel, channel, n);
    for (int i = 0; i < j->batch->counts[seq]; i++)
        w->c->kernels->activate(mixed_row(w, row_of(j, seq, i)) + r->n_values + channel, (size_t)n,
                                HEARTH_ACT_SILU);
}

// Rows of a head's state, past all tokens of a sequence. What goes out has some of the value itself.
static void scan_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const struct hearth_kernels *kernels = w->c->kernels;
    const int part = task % j->n_parts, head = task / j->n_parts % r->n_heads,
              seq = task / j->n_parts / r->n_heads;
    const int first = part * PART, n = r->dim - first < PART ? r->dim - first : PART;
    const float skip = ((const float *)w->c->weights->layers[j->layer].rec_skip.data)[head];
    if (given_up(j))
        return;
    float *to;
    const float *from = rows_of_state(j, seq, head, first, n, &to);
    for (int i = 0; i < j->batch->counts[seq]; i++) {
        const int row = row_of(j, seq, i), at = head * r->dim + first;
        const float *v = mixed_row(w, row) + r->n_values + at, *k = keys_of(w, row, head);
        float *out = hearth_row_of(w->gate, row, r->n_values) + at;
        const struct hearth_delta d = {.q = k + r->n_keys * r->state,
                                       .k = k,
                                       .dim = (size_t)r->state,
                                       .decay = hearth_row_of(w->decay, row, r->n_heads)[head],
                                       .beta = hearth_row_of(w->beta, row, r->n_heads)[head]};
        kernels->scan(out, to, from, v, (size_t)n, &d);
        kernels->scale_add(out, 1.0f, v, skip, (size_t)n);
        from = to;
    }
}

// What heads that share keys give of a row, times its gates, and normed together where there is a norm.
static void gate_scan_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int row = task / r->n_keys, n = r->n_values / r->n_keys, at = task % r->n_keys * n;
    const float *norm = w->c->weights->layers[j->layer].rec_norm.data;
    float *out = hearth_row_of(w->gate, row, r->n_values) + at;
    w->c->kernels->glu(out, mixed_row(w, row) + at, out, (size_t)n, HEARTH_ACT_SILU);
    if (norm)
        w->c->kernels->rms_norm(out, out, norm + at, (size_t)n, w->c->hp->norm_eps);
}

static void scan(struct job *j)
{
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int parts = (r->n_channels + CHANNELS - 1) / CHANNELS;
    hearth_parallel(w->c, prepare_scan_task, j, j->batch->n_seqs * parts + j->batch->n);
    hearth_parallel(w->c, scan_task, j, j->batch->n_seqs * r->n_heads * j->n_parts);
}

// ---- a scan alone. A row has each head's queries, keys and values side by side.

// A head's inputs of a row, activated.
static void activate_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int row = task / r->n_heads, head = task % r->n_heads, width = 3 * r->dim;
    if (!given_up(j))
        w->c->kernels->activate(mixed_row(w, row) + head * width, (size_t)width, HEARTH_ACT_SILU);
}

// What of a head's state stays from one token to the next. Later layers forget less, the last one next to nothing.
static float stays(const struct hearth_recurrent_work *w, int layer, int head)
{
    const double part = 1.0 - (double)layer / (w->c->hp->n_layer - 1) + 1e-5;
    return hearth_exp(-(w->rates[head] * (float)part));
}

// Rows of a head's state, past all tokens of a sequence. What goes out takes the values' place.
static void fixed_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int part = task % j->n_parts, head = task / j->n_parts % r->n_heads,
              seq = task / j->n_parts / r->n_heads;
    const int first = part * PART, n = r->dim - first < PART ? r->dim - first : PART;
    if (given_up(j))
        return;
    float *to;
    const float *from = rows_of_state(j, seq, head, first, n, &to);
    const float decay = stays(w, j->layer, head);
    for (int i = 0; i < j->batch->counts[seq]; i++) {
        float *q = mixed_row(w, row_of(j, seq, i)) + 3 * head * r->dim, *v = q + 2 * r->dim + first;
        const struct hearth_delta d = {
            .q = q, .k = q + r->dim, .dim = (size_t)r->dim, .decay = decay, .beta = 1.0f};
        w->c->kernels->scan(v, to, from, v, (size_t)n, &d);
        from = to;
    }
}

// What all heads give of a row, normed together and times the gates.
static void gate_fixed_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const size_t dim = (size_t)r->dim, n = (size_t)r->n_values;
    float *x = mixed_row(w, task), *gate = hearth_row_of(w->gate, task, r->n_values);
    for (size_t head = 0; head < (size_t)r->n_heads; head++) // to the row's beginning
        memmove(x + head * dim, x + (3 * head + 2) * dim, dim * sizeof *x);
    w->c->kernels->rms_norm(x, x, hearth_vector_of(&w->c->weights->layers[j->layer].rec_norm), n,
                            w->c->hp->norm_eps);
    w->c->kernels->glu(gate, gate, x, n, HEARTH_ACT_SIGMOID);
}

// Each head's output of a row, normed and times its gate.
static void gate_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct job *j = arg;
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const struct hearth_kernels *kernels = w->c->kernels;
    const float *norm = hearth_vector_of(&w->c->weights->layers[j->layer].rec_norm);
    const size_t dim = (size_t)r->dim;
    for (int head = 0; head < r->n_heads; head++) {
        float *x = mixed_row(w, task) + (size_t)(2 * r->n_keys + head) * dim;
        float *gate = hearth_row_of(w->gate, task, r->n_values) + (size_t)head * dim;
        kernels->rms_norm(x, x, norm, dim, w->c->hp->norm_eps);
        kernels->glu(gate, gate, x, dim, r->each || r->sigmoid ? HEARTH_ACT_SIGMOID : HEARTH_ACT_SILU);
    }
}

// ---- inputs that are kept

// Of a row, how many weights come beside what is mixed: of a scan, steps are among that, or there are none.
static int weights_of(const struct hearth_recurrence *r)
{
    const bool scans = r->kind == HEARTH_RECURRENCE_SCAN || r->kind == HEARTH_RECURRENCE_FIXED;
    return scans ? 0 : decays_of(r) + r->n_heads;
}

// A row's inputs, to or from their place.
static void copy_kept(const struct job *j, int row, int place, bool keep)
{
    const struct hearth_recurrent_work *w = j->work;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const int n = weights_of(r), at = j->index * w->max_kept + place, n_decays = n ? n - r->n_heads : 0;
    const bool both = hearth_has(&w->c->weights->layers[j->layer].rec_both);
    float *weights = hearth_row_of(w->kept_weights, at, n);
    const struct {
        float *now, *kept;
        int n;
    } parts[] = {
        {mixed_row(w, row), hearth_row_of(w->kept_mixed, at, r->n_in), r->n_in},
        {hearth_row_of(both ? w->both : w->decay, row, both ? n : n_decays), weights, both ? n : n_decays},
        {hearth_row_of(w->beta, row, r->n_heads), weights + n_decays, both ? 0 : n - n_decays}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].n)
            memcpy(keep ? parts[i].kept : parts[i].now, keep ? parts[i].now : parts[i].kept,
                   (size_t)parts[i].n * sizeof(float));
}

static void keep(const struct job *j)
{
    const struct hearth_batch *b = j->batch;
    for (int i = 0; i < b->n_classes; i++)
        for (int k = 0; k < b->classes[i].n && b->classes[i].phase == HEARTH_PHASE_STEP; k++)
            copy_kept(j, b->classes[i].first + k, k, true);
}

// ---- a layer

static struct job job_of(struct hearth_recurrent_work *w, const struct hearth_batch *b, int layer)
{
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    return (struct job){w, b, layer, hearth_recurrent_before(w->c->hp, layer),
                        is_alone(r) ? (r->n_channels + CHANNELS - 1) / CHANNELS : (r->dim + PART - 1) / PART};
}

// The sequences' states, past the batch's rows.
static void change_states(struct job *j)
{
    struct hearth_recurrent_work *w = j->work;
    const struct hearth_batch *b = j->batch;
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    if (r->kind == HEARTH_RECURRENCE_SCAN) {
        scan(j);
        return;
    }
    if (is_alone(r)) {
        hearth_parallel(w->c, conv_task, j, b->n_seqs * j->n_parts);
        return;
    }
    if (r->kind == HEARTH_RECURRENCE_FIXED) {
        hearth_parallel(w->c, activate_task, j, b->n * r->n_heads);
        hearth_parallel(w->c, fixed_task, j, b->n_seqs * r->n_heads * j->n_parts);
        return;
    }
    hearth_parallel(w->c, prepare_task, j,
                    b->n_seqs * (2 * r->n_keys + r->n_heads) + b->n * (r->each ? r->n_heads : 1));
    hearth_parallel(w->c, delta_task, j, b->n_seqs * r->n_heads * j->n_parts);
}

void hearth_recurrent_mix(struct hearth_recurrent_work *w, const struct hearth_batch *b, int layer)
{
    struct job j = job_of(w, b, layer);
    if (b->keeps)
        keep(&j);
    change_states(&j);
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    if (r->kind == HEARTH_RECURRENCE_SCAN)
        hearth_parallel(w->c, gate_scan_task, &j, b->n * r->n_keys);
    else if (r->kind == HEARTH_RECURRENCE_FIXED)
        hearth_parallel(w->c, gate_fixed_task, &j, b->n);
    else if (!is_alone(r))
        hearth_parallel(w->c, gate_task, &j, b->n);
}

void hearth_recurrent_again(struct hearth_recurrent_work *w, const struct hearth_batch *b, int layer)
{
    struct job j = job_of(w, b, layer);
    for (int row = 0; row < b->n; row++)
        copy_kept(&j, row, b->kept + row, false);
    change_states(&j);
}

// The same in three parts; what is forgotten, and gates, may come in two steps.
static void project_parts(struct hearth_recurrent_work *w, struct hearth_rows rows, int layer, const float *h)
{
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const size_t in = (size_t)r->n_in, values = (size_t)r->n_values;
    float *mixed = mixed_row(w, rows.first), *fade = hearth_row_of(w->low_fade, rows.first, r->dim),
          *gate = hearth_row_of(w->low_gate, rows.first, r->dim);
    struct hearth_product second[] = {
        {.w = l->rec_fade_b, .out = hearth_row_of(w->decay, rows.first, r->n_values), .n = rows.n},
        {.w = l->rec_gate_b, .out = hearth_row_of(w->gate, rows.first, r->n_values), .n = rows.n}};
    struct hearth_product products[] = {
        {.w = l->rec_q, .out = mixed, .n = rows.n, .out_stride = in},
        {.w = l->rec_k, .out = mixed + values, .n = rows.n, .out_stride = in},
        {.w = l->rec_v, .out = mixed + 2 * values, .n = rows.n, .out_stride = in},
        {.w = r->low ? l->rec_fade_a : l->rec_alpha, .out = r->low ? fade : second[0].out, .n = rows.n},
        {.w = r->low ? l->rec_gate_a : l->rec_gate, .out = r->low ? gate : second[1].out, .n = rows.n},
        {.w = l->rec_beta, .out = hearth_row_of(w->beta, rows.first, r->n_heads), .n = rows.n}};
    hearth_matmul(w->matmul, rows.phase, products, 6, h + (size_t)rows.first * (size_t)w->c->hp->n_embd,
                  rows.n);
    if (!r->low)
        return;
    hearth_matmul(w->matmul, rows.phase, &second[0], 1, fade, rows.n);
    hearth_matmul(w->matmul, rows.phase, &second[1], 1, gate, rows.n);
}

void hearth_recurrent_project(struct hearth_recurrent_work *w, struct hearth_rows rows, int layer,
                              const float *h)
{
    if (w->c->hp->recurrence.each) {
        project_parts(w, rows, layer, h);
        return;
    }
    const struct hearth_layer *l = &w->c->weights->layers[layer];
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    struct hearth_product products[] = {
        {.w = l->rec_in, .out = mixed_row(w, rows.first), .n = rows.n},
        {.w = l->rec_gate, .out = hearth_row_of(w->gate, rows.first, r->n_values), .n = rows.n},
        {.w = l->rec_alpha, .out = hearth_row_of(w->decay, rows.first, r->n_heads), .n = rows.n},
        {.w = l->rec_beta, .out = hearth_row_of(w->beta, rows.first, r->n_heads), .n = rows.n}};
    const bool both = hearth_has(&l->rec_both);
    if (both)
        products[2] = (struct hearth_product){
            .w = l->rec_both, .out = hearth_row_of(w->both, rows.first, 2 * r->n_heads), .n = rows.n};
    hearth_matmul(w->matmul, rows.phase, products,
                  r->kind == HEARTH_RECURRENCE_FIXED   ? 2
                  : r->kind != HEARTH_RECURRENCE_DELTA ? 1
                  : both                               ? 3
                                                       : 4,
                  h + (size_t)rows.first * (size_t)w->c->hp->n_embd, rows.n);
}

void hearth_recurrent_output(struct hearth_recurrent_work *w, struct hearth_rows rows, int layer, float *out)
{
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    struct hearth_product product = {.w = w->c->weights->layers[layer].rec_out,
                                     .out = hearth_row_of(out, rows.first, w->c->hp->n_embd),
                                     .n = rows.n};
    hearth_matmul(w->matmul, rows.phase, &product, 1, hearth_row_of(w->gate, rows.first, r->n_values),
                  rows.n);
}

// ---- opening

void hearth_recurrent_lay_out(struct hearth_recurrent_work *w, int max_rows, int max_steps, int max_seqs,
                              struct hearth_arena *a)
{
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    const size_t t = (size_t)max_rows, steps = (size_t)max_steps, f32 = sizeof(float);
    const size_t heads = (size_t)r->n_heads, dim = (size_t)r->dim, out = (size_t)r->n_values;
    if (!r->n_layers)
        return;
    w->mixed = hearth_arena_take_rows(a, t, steps, (size_t)r->n_in * f32);
    w->gate = hearth_arena_take_rows(a, t, steps, out * f32);
    const bool fixed = r->kind == HEARTH_RECURRENCE_FIXED, weighs = heads && !fixed;
    w->decay = hearth_arena_take_rows(a, weighs ? t : 0, steps, (size_t)decays_of(r) * f32);
    w->low_fade = hearth_arena_take_rows(a, r->low ? t : 0, steps, dim * f32);
    w->low_gate = hearth_arena_take_rows(a, r->low ? t : 0, steps, dim * f32);
    w->beta = hearth_arena_take_rows(a, weighs ? t : 0, steps, heads * f32);
    w->both = hearth_arena_take_rows(a, r->grouped && r->kind == HEARTH_RECURRENCE_DELTA ? t : 0, steps,
                                     2 * heads * f32);
    w->max_kept = max_steps > max_seqs ? max_steps : 0;
    const size_t kept = (size_t)w->max_kept * (size_t)r->n_layers;
    w->kept_mixed = hearth_arena_take(a, kept, (size_t)r->n_in * f32);
    w->kept_weights = hearth_arena_take(a, kept, (size_t)weights_of(r) * f32);
    w->norm_q = hearth_arena_take(a, dim, f32);
    w->norm_k = hearth_arena_take(a, dim, f32);
    w->rates = hearth_arena_take(a, fixed ? heads : 0, f32);
}

// RMSNorm divides by the root of the mean of squares; the length is wanted.
void hearth_recurrent_init(struct hearth_recurrent_work *w)
{
    const struct hearth_recurrence *r = &w->c->hp->recurrence;
    for (int i = 0; r->n_layers && i < r->dim; i++) {
        w->norm_q[i] = (float)(1.0 / r->dim);
        w->norm_k[i] = (float)(1.0 / sqrt(r->dim));
    }
    for (int i = 0; r->kind == HEARTH_RECURRENCE_FIXED && i < r->n_heads; i++)
        w->rates[i] = (float)exp2(-8.0 * (i + 1) / r->n_heads);
}
