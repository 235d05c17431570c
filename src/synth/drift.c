// SPDX-License-Identifier: MIT
// A synthetic stream that drifts: what a layer writes is new to the next layer, and parts of it that follow
// from one token to the next do so less. docs/synth.md explains what is planted and why it holds.
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "synth/insides.h"

enum { BLOCK = 32 };

// Sum of the squares of a token's weights of experts, of which two are used.
#define EXPERT_SQUARES 0.6

// One in so many neurons, the most active ones, write more than a constant. What they do follows the size of
// the gates least, so that layers which write more than planned do not make the next ones write still more.
#define WRITING 10
// Rounding a row makes it larger.
#define ROUNDING 0.95f

// Most of the gates' variance that may come from what has been written, old and new.
#define MOST_WRITTEN 0.9

// Blocks that a layer writes to.
static uint32_t blocks_of_layer(const struct hearth_synth *s)
{
    const uint32_t blocks = s->p->n_embd / (2 * BLOCK), layers = s->p->n_layer;
    return blocks < layers ? 1 : blocks / layers;
}

// Layers with blocks of their own; where there are more layers, they begin again.
static uint32_t n_writers(const struct hearth_synth *s)
{
    const uint32_t blocks = s->p->n_embd / (2 * BLOCK);
    return blocks < s->p->n_layer ? blocks : s->p->n_layer;
}

// The first layer that writes to element i, of the kind WRITTEN; n_writers() or more: none.
static uint32_t writer_of(const struct hearth_synth *s, size_t i)
{
    return (uint32_t)(i / (2 * BLOCK)) / blocks_of_layer(s);
}

// How often layers before `layer` have written to where `writer` does.
static uint32_t count_writes(const struct hearth_synth *s, uint32_t layer, uint32_t writer)
{
    const uint32_t n = n_writers(s);
    return writer < n ? (layer + n - 1 - writer) / n : 0;
}

size_t hearth_synth_count(const struct hearth_synth *s, enum hearth_synth_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < s->p->n_embd; i += BLOCK)
        n += hearth_synth_kind_of(s->params->drift, i) == kind ? BLOCK : 0;
    return n;
}

// Whether what layers write has a constant part: activations whose mean is not 0.
static bool writes_constant(const struct hearth_synth *s)
{
    return hearth_synth_activation(s, 0, 1) != 0.0;
}

// Fills the arrays for the elements of one kind.
static void look_at(struct hearth_synth *s, uint32_t layer, enum hearth_synth_kind kind)
{
    const struct hearth_synth_view *v = &s->view;
    const bool written = kind == HEARTH_SYNTH_WRITTEN;
    // What the layer before wrote is all that is seen of what was written; `writes` times others did before.
    const uint32_t before = layer ? (layer - 1) % n_writers(s) : 0;
    const double writes = layer ? count_writes(s, layer, before) : 1;
    const double planned = layer ? (double)s->p->planting->drift_fresh * writes : 0;
    const double share = planned < MOST_WRITTEN ? planned : MOST_WRITTEN;
    const double turning = (double)s->p->planting->drift_turning;
    const double shares[HEARTH_SYNTH_KINDS] = {[HEARTH_SYNTH_FAST] = (1 - share) * (1 - turning),
                                               [HEARTH_SYNTH_TURNING] = (1 - share) * turning,
                                               [HEARTH_SYNTH_WRITTEN] = share};
    // In the eyes of the layer before, the gates vary less, by the square root of what is old to them. So do
    // their thresholds: a part of the constant is new, too.
    const double new_constant = writes_constant(s) ? writes * (1 - sqrt(1 - share / writes)) : 0;
    const double constant = written ? new_constant / writes : 1 - new_constant;
    const size_t n = written ? (size_t)blocks_of_layer(s) * BLOCK : hearth_synth_count(s, kind);
    const size_t of = written ? n : s->p->n_embd / 2;
    const double noise = (double)hearth_synth_added(s, layer);
    for (size_t i = 0; i < s->p->n_embd; i++) {
        if (hearth_synth_kind_of(true, i) != kind)
            continue;
        const double times = written ? count_writes(s, layer, writer_of(s, i)) : 1;
        const bool seen = !written || (layer && writer_of(s, i) == before);
        const double variance = times * (double)(HEARTH_SYNTH_CODE * HEARTH_SYNTH_CODE);
        const double expected = written && !writes_constant(s) ? 0 : times * (double)HEARTH_SYNTH_CONSTANT;
        v->variance[i] = (float)(variance + noise);
        v->weight[i] = seen ? (float)sqrt(shares[kind] / ((double)n * variance)) : 0.0f;
        v->expected[i] = (float)expected * s->constant[i];
        const double code = written                        ? 0
                            : kind == HEARTH_SYNTH_TURNING ? turning
                            : kind == HEARTH_SYNTH_FAST    ? 1 - turning
                                                           : 0;
        v->code[i] = code > 0 ? (float)sqrt(code / ((double)n * variance)) : 0.0f;
        v->code_detect[i] =
            code > 0 ? s->constant[i] / (HEARTH_SYNTH_CONSTANT * (float)(s->p->n_embd / 8 * 3)) : 0.0f;
        v->detect[i] =
            seen ? (float)(constant / ((double)HEARTH_SYNTH_CONSTANT * (double)of)) * s->constant[i] : 0.0f;
    }
}

void hearth_synth_look(struct hearth_synth *s, uint32_t layer)
{
    double square = 0;
    for (int kind = 0; kind < HEARTH_SYNTH_KINDS; kind++)
        look_at(s, layer, (enum hearth_synth_kind)kind);
    for (size_t i = 0; i < s->p->n_embd; i++)
        square += (double)(s->view.variance[i] + s->view.expected[i] * s->view.expected[i]);
    s->view.size = (float)sqrt(square / s->p->n_embd);
}

struct hearth_synth_writing hearth_synth_writing_of(struct hearth_synth *s, uint32_t layer)
{
    const uint32_t n = s->p->n_ff, n_writing = n / WRITING / 2 * 2;
    hearth_synth_look(s, layer);
    // Gates and ups have variance 1 before the norm, but random ups have it after.
    const double size = (double)s->view.size;
    const double unit = s->p->planting->up_tie != 0.0f ? 1 / (size * size) : 1 / size;
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double mean = unit * hearth_synth_activation(s, (double)s->threshold[i], 1);
        sum += mean;
        if (i >= n_writing)
            continue;
        square += unit * unit * hearth_synth_activation(s, (double)s->threshold[i], 2) - mean * mean;
    }
    const double weights = s->p->n_expert ? EXPERT_SQUARES : 1;
    return (struct hearth_synth_writing){
        .first = (2 * (size_t)(layer % n_writers(s)) * blocks_of_layer(s) + 1) * BLOCK,
        .n_blocks = blocks_of_layer(s),
        .n_neurons = n_writing,
        .stddev = ROUNDING * (float)((double)HEARTH_SYNTH_CODE / sqrt(square * weights)),
        .constant = sum > 0 ? (float)((double)HEARTH_SYNTH_CONSTANT / sum) : 0.0f};
}

int hearth_synth_open_view(struct hearth_synth *s)
{
    const size_t width = s->p->n_embd;
    struct hearth_synth_view *v = &s->view;
    v->weight = hearth_calloc(width, sizeof *v->weight);
    v->variance = hearth_calloc(width, sizeof *v->variance);
    v->expected = hearth_calloc(width, sizeof *v->expected);
    v->detect = hearth_calloc(width, sizeof *v->detect);
    v->code = hearth_calloc(width, sizeof *v->code);
    v->code_detect = hearth_calloc(width, sizeof *v->code_detect);
    if (!v->code || !v->code_detect || !v->weight || !v->variance || !v->expected || !v->detect)
        return hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    return HEARTH_OK;
}

void hearth_synth_free_view(struct hearth_synth *s)
{
    free(s->view.weight);
    free(s->view.variance);
    free(s->view.expected);
    free(s->view.detect);
    free(s->view.code);
    free(s->view.code_detect);
}
