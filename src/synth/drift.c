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

static uint32_t blocks_of_layer(const struct hearth_synth *s)
{
    return s->p->n_embd / (2 * BLOCK) / s->p->n_layer;
}

// The layer that writes to element i, of the kind WRITTEN; n_layer or more: none.
static uint32_t writer_of(const struct hearth_synth *s, size_t i)
{
    return (uint32_t)(i / (2 * BLOCK)) / blocks_of_layer(s);
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

// The share of the gates' variance in a layer that comes from elements of a kind.
static double share_of(const struct hearth_synth *s, uint32_t layer, enum hearth_synth_kind kind)
{
    const double fresh = layer ? (double)s->p->planting->drift_fresh : 0;
    const double turning = (double)s->p->planting->drift_turning;
    const double shares[HEARTH_SYNTH_KINDS] = {[HEARTH_SYNTH_FAST] = (1 - fresh) * (1 - turning),
                                               [HEARTH_SYNTH_TURNING] = (1 - fresh) * turning,
                                               [HEARTH_SYNTH_WRITTEN] = fresh};
    return shares[kind];
}

// Fills the arrays for the elements of one kind, of which n come from the layer's own input.
static void look_at(struct hearth_synth *s, uint32_t layer, enum hearth_synth_kind kind, size_t n)
{
    const struct hearth_synth_view *v = &s->view;
    const double fresh = layer && writes_constant(s) ? (double)s->p->planting->drift_fresh : 0;
    // The next layer's gates vary less in this layer's eyes, by sqrt(1 - fresh). So do their thresholds: a
    // part of the constant is new, too.
    const double constant = kind == HEARTH_SYNTH_WRITTEN ? 1 - sqrt(1 - fresh) : sqrt(1 - fresh);
    const size_t code = s->p->n_embd / 2, of = kind == HEARTH_SYNTH_WRITTEN ? n : code;
    const double noise = (double)hearth_synth_added(s, layer);
    for (size_t i = 0; i < s->p->n_embd; i++) {
        if (hearth_synth_kind_of(true, i) != kind)
            continue;
        const bool there = kind != HEARTH_SYNTH_WRITTEN || writer_of(s, i) < layer;
        const bool seen = kind != HEARTH_SYNTH_WRITTEN || (layer && writer_of(s, i) == layer - 1);
        const bool constant_there = there && (kind != HEARTH_SYNTH_WRITTEN || writes_constant(s));
        const double variance = there ? (double)(HEARTH_SYNTH_CODE * HEARTH_SYNTH_CODE) : 0;
        v->variance[i] = (float)(variance + noise);
        v->weight[i] = seen ? (float)sqrt(share_of(s, layer, kind) / ((double)n * variance)) : 0.0f;
        v->expected[i] = constant_there ? HEARTH_SYNTH_CONSTANT * s->constant[i] : 0.0f;
        v->detect[i] = seen ? (float)constant / (HEARTH_SYNTH_CONSTANT * (float)of) * s->constant[i] : 0.0f;
    }
}

void hearth_synth_look(struct hearth_synth *s, uint32_t layer)
{
    double square = 0;
    for (int kind = 0; kind < HEARTH_SYNTH_KINDS; kind++)
        look_at(s, layer, (enum hearth_synth_kind)kind,
                kind == HEARTH_SYNTH_WRITTEN ? (size_t)blocks_of_layer(s) * BLOCK
                                             : hearth_synth_count(s, (enum hearth_synth_kind)kind));
    for (size_t i = 0; i < s->p->n_embd; i++)
        square += (double)(s->view.variance[i] + s->view.expected[i] * s->view.expected[i]);
    s->view.size = (float)sqrt(square / s->p->n_embd);
}

struct hearth_synth_writing hearth_synth_writing_of(struct hearth_synth *s, uint32_t layer)
{
    const uint32_t n = s->p->n_ff;
    hearth_synth_look(s, layer);
    // Gates and ups have variance 1 before the norm, but random ups have it after.
    const double size = (double)s->view.size;
    const double unit = s->p->planting->up_tie != 0.0f ? 1 / (size * size) : 1 / size;
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double mean = unit * hearth_synth_activation(s, (double)s->threshold[i], 1);
        sum += mean;
        square += unit * unit * hearth_synth_activation(s, (double)s->threshold[i], 2) - mean * mean;
    }
    const double weights = s->p->n_expert ? EXPERT_SQUARES : 1;
    return (struct hearth_synth_writing){
        .first = (2 * (size_t)layer * blocks_of_layer(s) + 1) * BLOCK,
        .n_blocks = blocks_of_layer(s),
        .stddev = (float)((double)HEARTH_SYNTH_CODE / sqrt(square * weights)),
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
    if (!v->weight || !v->variance || !v->expected || !v->detect)
        return hearth_fail(s->err, HEARTH_E_MEMORY, "no memory for a model");
    return HEARTH_OK;
}

void hearth_synth_free_view(struct hearth_synth *s)
{
    free(s->view.weight);
    free(s->view.variance);
    free(s->view.expected);
    free(s->view.detect);
}
