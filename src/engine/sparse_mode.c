// SPDX-License-Identifier: MIT
// Whether steps go by neuron: see sparse_mode.h.
#include "engine/sparse_mode.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "model/ffn.h"

bool hearth_sparse_mode_layer(const struct hearth_sparse_mode *mode, const struct hearth_hparams *hp,
                              const struct hearth_layer *layer)
{
    const struct hearth_ffn f = hearth_ffn_of(hp, layer);
    // Without a gate and with down in one piece there is nothing to leave out but what a predictor names.
    const bool predicted = mode->sparsity == HEARTH_SPARSITY_PREDICT && hearth_has(f.fc1);
    if (hp->cuts_gates ||
        hearth_has(&layer->ffn_inner_norm)) // all gates count in what is cut, or in the norm
        return false;
    if (hearth_ffn_is_changed(&f) || hearth_ffn_is_scaled(&f)) // adapters and scales are of whole products
        return false;
    return hearth_has(f.down_t) || predicted || (hearth_has(f.gate) && mode->sparsity != HEARTH_SPARSITY_OFF);
}

bool hearth_sparse_mode_any(const struct hearth_sparse_mode *mode, const struct hearth_model *m)
{
    for (int i = 0; i < m->hp.n_layer; i++)
        if (hearth_sparse_mode_layer(mode, &m->hp, &m->weights.layers[i]))
            return true;
    return false;
}

size_t hearth_sparse_mode_inner(const struct hearth_sparse_mode *mode, const struct hearth_model *m)
{
    size_t inner = 0;
    for (int i = 0; i < m->hp.n_layer && mode->sparsity == HEARTH_SPARSITY_PREDICT; i++) {
        const size_t k = hearth_ffn_of(&m->hp, &m->weights.layers[i]).fc2->k;
        inner = k > inner ? k : inner;
    }
    return inner;
}

// ---- choosing

static int set_share(struct hearth_sparse_mode *mode, const struct hearth_model *m, float share,
                     struct hearth_error *err)
{
    if (!m->magnitudes)
        return hearth_fail_param(
            err, HEARTH_E_INVALID, "sparsity_share",
            "%s does not say how large its activations are, from which a share such as 40%% follows: hearth "
            "profile --sparsity-threshold 40%% counts them, and hearth pack --profile puts them into a pack of "
            "a model outside the ReLU family; or give a threshold as a number",
            m->info.path);
    mode->thresholds = hearth_calloc((size_t)m->hp.n_layer, sizeof *mode->thresholds);
    if (!mode->thresholds)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a session");
    for (int i = 0; i < m->hp.n_layer; i++)
        mode->thresholds[i] =
            hearth_magnitude_at(m->magnitudes + (size_t)i * HEARTH_MAGNITUDES, (double)share);
    return HEARTH_OK;
}

int hearth_sparse_mode_choose(struct hearth_sparse_mode *mode, const struct hearth_model *m,
                              const struct hearth_session_params *params, struct hearth_error *err)
{
    const float share = params->sparsity_share;
    // By share or by number, it is a threshold; with a share what counts is mode->thresholds.
    const float magnitude = share > 0.0f ? FLT_MIN : params->sparsity_threshold;
    *mode = (struct hearth_sparse_mode){.sparsity = params->sparsity, .sparsity_threshold = magnitude};
    mode->predict_threshold =
        isnan(params->predict_threshold) ? m->hp.predict_threshold : params->predict_threshold;
    if (!(magnitude >= 0.0f && magnitude < INFINITY))
        return hearth_fail_param(err, HEARTH_E_INVALID, "sparsity_threshold",
                                 "sparsity_threshold must be 0 or a positive number");
    if (!(share >= 0.0f && share < 1.0f))
        return hearth_fail_param(err, HEARTH_E_INVALID, "sparsity_share",
                                 "sparsity_share must be at least 0 and below 1");
    if (mode->sparsity == HEARTH_SPARSITY_PREDICT && !m->hp.has_predictors)
        return hearth_fail_param(err, HEARTH_E_INVALID, "sparsity",
                                 "%s has no predictors: use sparsity auto, exact or off", m->info.path);
    if (magnitude > 0.0f &&
        (mode->sparsity == HEARTH_SPARSITY_OFF || mode->sparsity == HEARTH_SPARSITY_PREDICT))
        return hearth_fail_param(err, HEARTH_E_INVALID, "sparsity",
                                 "a sparsity threshold goes with sparsity auto or exact only");
    if (mode->sparsity == HEARTH_SPARSITY_AUTO)
        mode->sparsity = magnitude > 0.0f       ? HEARTH_SPARSITY_EXACT
                         : m->hp.has_predictors ? HEARTH_SPARSITY_PREDICT
                                                : HEARTH_SPARSITY_EXACT;
    if (mode->sparsity == HEARTH_SPARSITY_EXACT && !hearth_is_relu(&m->hp) && magnitude <= 0.0f)
        mode->sparsity = HEARTH_SPARSITY_OFF;
    return share > 0.0f ? set_share(mode, m, share, err) : HEARTH_OK;
}

void hearth_sparse_mode_close(struct hearth_sparse_mode *mode)
{
    free(mode->thresholds);
    mode->thresholds = NULL;
}
