// SPDX-License-Identifier: MIT
// Experts on a device: see device_experts.h.
#include "engine/device_experts.h"

#include <stdlib.h>

#include "base/memory.h"
#include "engine/session.h"
#include "model/ffn.h"
#include "model/load.h"

// ---- matrices

static bool is_streamed_bundle(const struct hearth_session *s, const struct hearth_weight *w)
{
    return s->model->load.ram && hearth_item_of(s->model, w)->bundle;
}

uint64_t hearth_device_experts_bytes(const struct hearth_session *s, int layer, uint64_t *largest)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_layer *l = &s->model->weights.layers[layer];
    const struct hearth_weight *const parts[] = {&l->ffn_gate_exps, &l->ffn_up_exps, &l->ffn_down_exps};
    uint64_t bytes = 2 * (uint64_t)hp->n_ff_exp * sizeof(float);
    if (!hearth_has_experts(hp, layer) || hp->n_embd_exp || hearth_has(&l->ffn_down_t_exps) ||
        hearth_limit_of(hp, layer, true).at > 0 || hearth_sparse_mode_layer(&s->mode, hp, l))
        return 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!hearth_has(parts[i]))
            continue;
        const uint64_t own = hearth_accel_weight_bytes(parts[i]->type, parts[i]->k, parts[i]->n);
        if (!own || parts[i]->change || is_streamed_bundle(s, parts[i]))
            return 0;
        bytes += own;
        *largest = own > *largest ? own : *largest;
    }
    return bytes;
}

void hearth_device_experts_close(struct hearth_accel *a, struct hearth_device_experts *x)
{
    struct hearth_accel_weight *const parts[] = {&x->gate, &x->up, &x->down, &x->gate_b, &x->up_b};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hearth_accel_weight_close(a, parts[i]);
}

// ---- rows

static size_t wider(const struct hearth_hparams *hp)
{
    return (size_t)(hp->n_embd > hp->n_ff_exp ? hp->n_embd : hp->n_ff_exp);
}

uint64_t hearth_expert_rows_bytes(const struct hearth_session *s)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const uint64_t factors = s->model->n_scales ? HEARTH_EXPERT_FACTORS * sizeof(float) : 0;
    return factors + ((uint64_t)hp->n_embd + (uint64_t)hp->n_ff_exp) * 2 * sizeof(float) +
           hearth_acts_bytes(wider(hp)) + sizeof(struct hearth_accel_tile) + sizeof(int32_t);
}

int hearth_expert_rows_open(struct hearth_expert_rows *r, struct hearth_accel *a,
                            const struct hearth_session *s, struct hearth_error *err)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const size_t f32 = sizeof(float), embd = (size_t)hp->n_embd * f32, width = (size_t)hp->n_ff_exp * f32;
    const size_t n = r->cap;
    r->x = hearth_accel_alloc(a, n * embd);
    r->acts = hearth_accel_alloc(a, n * hearth_acts_bytes(wider(hp)));
    r->gate = hearth_accel_alloc(a, n * width);
    r->up = hearth_accel_alloc(a, n * width);
    r->out = hearth_accel_alloc(a, n * embd);
    r->tiles = hearth_accel_alloc(a, n * sizeof *r->tile_list);
    r->which = hearth_accel_alloc(a, n * sizeof *r->which_list);
    r->tile_list = hearth_calloc(n ? n : 1, sizeof *r->tile_list);
    r->which_list = hearth_calloc(n ? n : 1, sizeof *r->which_list);
    r->got = hearth_accel_alloc_host(a, n ? n * embd : 1);
    for (int i = 0; i < HEARTH_EXPERT_FACTORS && s->model->n_scales; i++) {
        r->factors[i] = hearth_accel_alloc(a, n * f32);
        r->factor_lists[i] = hearth_calloc(n ? n : 1, f32);
        if (!r->factor_lists[i])
            return hearth_fail(err, HEARTH_E_MEMORY, "no memory for experts on a device");
    }
    return r->tile_list && r->which_list && r->got
               ? HEARTH_OK
               : hearth_fail(err, HEARTH_E_MEMORY, "no memory for experts on a device");
}

void hearth_expert_rows_close(struct hearth_expert_rows *r, struct hearth_accel *a)
{
    struct hearth_accel_memory *const memory[] = {&r->x,   &r->acts,  &r->gate, &r->up,
                                                  &r->out, &r->tiles, &r->which};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        hearth_accel_free(a, memory[i]);
    free(r->tile_list);
    free(r->which_list);
    for (int i = 0; i < HEARTH_EXPERT_FACTORS; i++) {
        hearth_accel_free(a, &r->factors[i]);
        free(r->factor_lists[i]);
    }
    hearth_accel_free_host(a, r->got);
}

void hearth_expert_rows_add(struct hearth_expert_rows *r, bool is_prompt, int place, int n,
                            const struct hearth_layer *l, int expert)
{
    const float *const scales[HEARTH_EXPERT_FACTORS] = {l->ffn_gate_exps.scales, l->ffn_up_exps.scales,
                                                        l->ffn_down_exps.scales};
    for (int k = 0; k < HEARTH_EXPERT_FACTORS && r->factor_lists[k]; k++)
        for (int i = 0; i < n; i++)
            r->factor_lists[k][r->n + (size_t)i] = scales[k] ? scales[k][expert] : 1.0f;
    const int most = is_prompt ? HEARTH_ACCEL_PROMPT_TILE : HEARTH_ACCEL_STEP_TILE;
    for (int at = 0; at < n; at += most)
        r->tile_list[r->n_tiles++] = (struct hearth_accel_tile){
            .first = (int32_t)r->n + at, .n = n - at < most ? n - at : most, .matrix = place};
    for (int i = 0; i < n; i++)
        r->which_list[r->n++] = place;
}

// The products of one kind, times the scales of their matrices.
static void multiply(struct hearth_expert_rows *r, struct hearth_accel *a, bool is_prompt,
                     const struct hearth_accel_memory *out, const struct hearth_accel_weight *w, size_t width,
                     struct hearth_accel_input in, int kind)
{
    hearth_accel_products_of(a, is_prompt, out, w, width, in, &r->tiles, r->n_tiles);
    if (r->factor_lists[kind])
        hearth_accel_scale_rows(a, out, &r->factors[kind], width, r->n);
}

void hearth_expert_rows_begin(struct hearth_expert_rows *r, struct hearth_accel *a,
                              const struct hearth_hparams *hp, const struct hearth_device_experts *x,
                              bool is_prompt)
{
    const size_t n = r->n, embd = (size_t)hp->n_embd, width = (size_t)hp->n_ff_exp;
    const bool gated = x->gate.n != 0;
    const struct hearth_accel_input in = {&r->x, &r->acts}, act = {&r->gate, &r->acts};
    hearth_accel_quantize(a, &r->acts, &r->x, embd, n);
    multiply(r, a, is_prompt, &r->gate, gated ? &x->gate : &x->up, width, in, gated ? 0 : 1);
    hearth_accel_add_bias_of(a, &r->gate, gated ? &x->gate_b : &x->up_b, &r->which, n);
    if (gated) {
        multiply(r, a, is_prompt, &r->up, &x->up, width, in, 1);
        hearth_accel_add_bias_of(a, &r->up, &x->up_b, &r->which, n);
    }
    hearth_accel_activate_quantize(a, &r->gate, gated ? &r->up : NULL, &r->acts, hp->activation, width, n);
    multiply(r, a, is_prompt, &r->out, &x->down, embd, act, 2);
    r->event = hearth_accel_begin_read(a, &r->out, 0, r->got, n * embd * sizeof *r->got);
    hearth_accel_flush(a);
}
