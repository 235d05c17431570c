// SPDX-License-Identifier: MIT
// A token's heads between projection and use.
#include "engine/heads.h"

#include <math.h>

#include "engine/session.h"

void hearth_heads_norm(const struct hearth_session *s, float *x, int n_heads, int dim, const float *weights)
{
    for (int i = 0; i < n_heads; i++) {
        float *head = hearth_row_of(x, i, dim);
        s->model->kernels.rms_norm(head, head, weights, (size_t)dim, s->model->hp.norm_eps);
    }
}

// The norm of a token's queries or keys: of each head, maybe with weights of its own, or of all together.
static void norm_all(const struct hearth_session *s, float *x, int n_heads, int dim,
                     const struct hearth_weight *w)
{
    const struct hearth_kernels *kernels = &s->model->kernels;
    const float eps = s->model->hp.norm_eps;
    if (!w->data)
        return;
    for (int i = 0; i < (w->k == (size_t)dim ? n_heads : 1); i++) {
        float *head = hearth_row_of(x, i, dim);
        const float *weights = hearth_bias_of(w, w->n > 1 ? i : 0);
        if (s->model->hp.layer_norm)
            kernels->layer_norm(head, head, weights, NULL, w->k, eps);
        else
            kernels->rms_norm(head, head, weights, w->k, eps);
    }
}

void hearth_heads_limit(const struct hearth_hparams *hp, float *x, int n)
{
    for (int i = 0; hp->qkv_limit > 0 && i < n; i++)
        x[i] = fminf(fmaxf(x[i], -hp->qkv_limit), hp->qkv_limit);
}

void hearth_heads_prepare(const struct hearth_session *s, int layer, float *x, int n_heads,
                          const struct hearth_weight *bias, const struct hearth_weight *head_norm,
                          const float *cos_sin)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_kernels *kernels = &s->model->kernels;
    const int dim = hearth_head_dim_of(hp, layer);
    if (bias->data)
        kernels->add(x, hearth_vector_of(bias), bias->k);
    hearth_heads_limit(hp, x, n_heads * dim);
    if (!hp->norm_behind)
        norm_all(s, x, n_heads, dim, head_norm);
    if (cos_sin)
        kernels->rope(x, cos_sin, (size_t)n_heads, (size_t)dim, (size_t)hearth_n_rot_of(hp, layer),
                      hp->positions == HEARTH_POS_ROPE_NEOX);
    if (hp->norm_behind)
        norm_all(s, x, n_heads, dim, head_norm);
    if (hp->unit_heads && cos_sin)
        hearth_heads_norm(s, x, n_heads, dim, s->work.ones);
}

bool hearth_heads_do_grow(const struct hearth_hparams *hp, int layer)
{
    return hp->q_growth != 0.0f && !(hp->q_growth_still && hearth_rotates(hp, layer));
}

float hearth_heads_growth(const struct hearth_hparams *hp, int pos)
{
    const int steps = (pos + hp->q_growth_still) / hp->q_growth_step;
    return steps ? (float)(1.0 + (double)hp->q_growth * log1p((double)steps)) : 1.0f;
}

void hearth_heads_grow(const struct hearth_hparams *hp, int layer, int pos, float *q, int n)
{
    const float by = hearth_heads_do_grow(hp, layer) ? hearth_heads_growth(hp, pos) : 1.0f;
    for (int i = 0; i < n && by != 1.0f; i++)
        q[i] *= by;
}
