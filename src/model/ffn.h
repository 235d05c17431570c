// SPDX-License-Identifier: MIT
// One view of all feed-forward parts: a dense one is a single expert.
#ifndef HEARTH_MODEL_FFN_H
#define HEARTH_MODEL_FFN_H

#include "base/poison.h"
#include "model/model.h"

// Experts of a layer, at least 1.
static inline int hearth_ffn_experts(const struct hearth_hparams *hp)
{
    return hp->n_expert ? hp->n_expert : 1;
}

// Neurons of a layer, or of one of its experts; the most that a layer has, and one layer's.
static inline int hearth_ffn_neurons(const struct hearth_hparams *hp)
{
    return hp->n_expert ? hp->n_ff_exp : hp->n_ff;
}
static inline int hearth_ffn_neurons_of(const struct hearth_hparams *hp, int layer)
{
    return hp->n_expert ? hp->n_ff_exp : hearth_n_ff_of(hp, layer);
}

// Experts that one token uses.
static inline int hearth_ffn_used(const struct hearth_hparams *hp)
{
    return hp->n_expert ? hp->n_expert_used : 1;
}

// Elements that a token's feed-forward part, or each of its experts, reads and gives.
static inline int hearth_ffn_width(const struct hearth_hparams *hp)
{
    return hp->n_embd_exp ? hp->n_embd_exp : hp->n_embd;
}

// The widest part of a model with experts that all tokens go through; 0: there is none.
static inline size_t hearth_ffn_shared(const struct hearth_hparams *hp)
{
    const int dense = hp->n_expert ? hp->n_ff : 0;
    return (size_t)(dense > hp->n_ff_shared ? dense : hp->n_ff_shared);
}

// The matrices of a layer's feed-forward part, for all of its experts. hearth_expert() gives those of one
// expert (0 in a dense layer).
struct hearth_ffn {
    const struct hearth_weight *gate, *up;     // [F x E]
    const struct hearth_weight *down;          // [E x F]
    const struct hearth_weight *down_t;        // [F x E] down stored by neuron, in its place
    const struct hearth_weight *fc1, *fc2;     // the predictor: [R x E] [F x R] or [F x (E + R)]
    const struct hearth_weight *gate_b, *up_b; // [F]
};

static inline struct hearth_ffn hearth_ffn_of(const struct hearth_hparams *hp, const struct hearth_layer *l)
{
    if (hp->n_expert)
        return (struct hearth_ffn){&l->ffn_gate_exps,   &l->ffn_up_exps,   &l->ffn_down_exps,
                                   &l->ffn_down_t_exps, &l->pred_fc1_exps, &l->pred_fc2_exps,
                                   &l->ffn_gate_exps_b, &l->ffn_up_exps_b};
    return (struct hearth_ffn){&l->ffn_gate, &l->ffn_up,   &l->ffn_down,   &l->ffn_down_t,
                               &l->pred_fc1, &l->pred_fc2, &l->ffn_gate_b, &l->ffn_up_b};
}

// Whether adapters change a matrix of it.
static inline bool hearth_ffn_is_changed(const struct hearth_ffn *f)
{
    return f->gate->change || f->up->change || f->down->change;
}

// Whether a matrix of it has scales.
static inline bool hearth_ffn_is_scaled(const struct hearth_ffn *f)
{
    return f->gate->scales || f->up->scales || f->down->scales;
}

// The bias of one expert, of those of all, for kernels to read; NULL: there is none.
static inline const float *hearth_bias_of(const struct hearth_weight *all, int expert)
{
    if (!all->data)
        return NULL;
    const float *bias = (const float *)all->data + (size_t)expert * all->k;
    HEARTH_ABOUT_TO_READ(bias, 1, 0, all->k * sizeof *bias);
    return bias;
}

// A norm's weights, or the one bias of a layer, likewise.
static inline const float *hearth_vector_of(const struct hearth_weight *w)
{
    return hearth_bias_of(w, 0);
}

#endif
