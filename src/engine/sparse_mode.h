// SPDX-License-Identifier: MIT
// Whether the steps of a layer go by neuron, and which neurons they may leave out.
#ifndef HEARTH_ENGINE_SPARSE_MODE_H
#define HEARTH_ENGINE_SPARSE_MODE_H

#include "model/model.h"

struct hearth_sparse_mode {
    enum hearth_sparsity sparsity; // never AUTO
    float predict_threshold, sparsity_threshold;
    float *thresholds; // [layers] in place of sparsity_threshold, which is above 0 then; or NULL
};

// What the options and the file make of params->sparsity. HEARTH_E_INVALID, HEARTH_E_MEMORY.
int hearth_sparse_mode_choose(struct hearth_sparse_mode *mode, const struct hearth_model *m,
                              const struct hearth_session_params *params, struct hearth_error *err);
void hearth_sparse_mode_close(struct hearth_sparse_mode *mode);

// Below which magnitude of its activated gate a neuron of the layer is left out; 0: none is.
static inline float hearth_sparse_mode_threshold(const struct hearth_sparse_mode *mode, int layer)
{
    return mode->thresholds ? mode->thresholds[layer] : mode->sparsity_threshold;
}

// The widest inner layer of the predictors in use, or 0.
size_t hearth_sparse_mode_inner(const struct hearth_sparse_mode *mode, const struct hearth_model *m);

// Whether steps of this layer go by neuron; of any layer of the model.
bool hearth_sparse_mode_layer(const struct hearth_sparse_mode *mode, const struct hearth_hparams *hp,
                              const struct hearth_layer *layer);
bool hearth_sparse_mode_any(const struct hearth_sparse_mode *mode, const struct hearth_model *m);

#endif
