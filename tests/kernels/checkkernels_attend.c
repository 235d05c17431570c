// SPDX-License-Identifier: MIT
// checkkernels: attention past tiles, against the kernels whose bits it is to give.
#include "checkkernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TILES 3

// Keys or values of a few tiles, in guarded memory.
struct side {
    uint32_t type;
    size_t row;
    uint8_t *tile[TILES];
};

struct shape {
    size_t dim, n, rows[TILES];
    float scale;
};

// What n queries have after some tiles.
struct state {
    float out[HEARTH_ATTEND_QUERIES * HEARTH_ATTEND_MAX_DIM], max[HEARTH_ATTEND_QUERIES],
        sum[HEARTH_ATTEND_QUERIES];
};

static struct side make_side(uint32_t type, const struct shape *shape)
{
    struct side side = {.type = type, .row = hearth_type_bytes(type, shape->dim)};
    for (size_t t = 0; t < TILES; t++) {
        side.tile[t] = check_guarded(shape->rows[t] * side.row, check_below(2));
        check_fill_weights(type, side.tile[t], side.row, shape->dim, shape->rows[t]);
        // Of a size that keys and values have.
        float value[HEARTH_ATTEND_MAX_DIM];
        for (size_t r = 0; r < shape->rows[t]; r++) {
            uint8_t *row = side.tile[t] + r * side.row;
            hearth_type_info(type)->decode(row, value, shape->dim);
            float largest = 1;
            for (size_t i = 0; i < shape->dim; i++)
                largest = fmaxf(largest, fabsf(value[i]));
            for (size_t i = 0; i < shape->dim; i++)
                value[i] = 4 * value[i] / largest;
            hearth_type_info(type)->encode(value, row, shape->dim);
        }
    }
    return side;
}

// From the C reference's kernels, one query at a time.
static void reference(struct state *to, const struct shape *shape, const struct side *keys,
                      const struct side *values, const void *q, size_t q_stride, void *scratch)
{
    const struct hearth_kernels *k = &check_levels[0].k;
    for (size_t i = 0; i < shape->n; i++)
        for (size_t t = 0; t < TILES; t++) {
            float s[HEARTH_ATTEND_ROWS], sum, tile[HEARTH_ATTEND_MAX_DIM] = {0},
                                              *out = to->out + i * shape->dim;
            k->step[keys->type](s, HEARTH_ATTEND_ROWS, keys->tile[t], keys->row, shape->dim, shape->rows[t],
                                (const uint8_t *)q + i * q_stride, q_stride, 1, scratch);
            const float max = k->softmax_tile(s, shape->rows[t], shape->scale, &sum);
            k->axpy[values->type](tile, values->tile[t], values->row, shape->dim, shape->rows[t], s);
            if (!t) {
                memcpy(out, tile, shape->dim * sizeof *out);
                to->max[i] = max;
                to->sum[i] = sum;
                continue;
            }
            const float top = to->max[i] > max ? to->max[i] : max;
            const float a = hearth_exp(to->max[i] - top), b = hearth_exp(max - top);
            k->scale_add(out, a, tile, b, shape->dim);
            to->sum[i] = fmaf(sum, b, to->sum[i] * a);
            to->max[i] = top;
        }
}

static void check_one(const struct shape *shape, uint32_t type_k, uint32_t type_v)
{
    const struct side keys = make_side(type_k, shape), values = make_side(type_v, shape);
    const bool blocks = hearth_type_info(type_k)->unit_elems != 0;
    const size_t q_stride = blocks ? hearth_acts_bytes(shape->dim) : shape->dim * sizeof(float);
    uint8_t *q = check_guarded(shape->n * q_stride, false);
    for (size_t i = 0; i < shape->n; i++) {
        float *x = malloc(shape->dim * sizeof *x);
        check_fill(x, shape->dim);
        for (size_t j = 0; j < shape->dim; j++) // scores stay finite
            x[j] = fmaxf(-100, fminf(100, x[j]));
        if (blocks)
            check_levels[0].k.quantize_acts(q + i * q_stride, x, shape->dim);
        else
            memcpy(q + i * q_stride, x, q_stride);
        free(x);
    }
    void *scratch = hearth_aligned_alloc(64, check_scratch(shape->dim));
    struct state *want = calloc(1, sizeof *want);
    reference(want, shape, &keys, &values, q, q_stride, scratch);
    for (int l = 1; l < check_n_levels; l++) {
        const struct hearth_kernels *k = &check_levels[l].k;
        if (!k->attend_scores[type_k] || !k->attend_values[type_v])
            continue;
        // Guards: nothing is written behind what belongs to n queries.
        float *out = check_guarded(shape->n * shape->dim * sizeof *out, false);
        float *max = check_guarded(shape->n * sizeof *max, false),
              *sum = check_guarded(shape->n * sizeof *sum, false);
        float *tile_max = check_guarded(shape->n * sizeof *tile_max, false);
        float *s = check_guarded(HEARTH_ATTEND_ROWS * HEARTH_ATTEND_QUERIES * sizeof *s, check_below(2));
        for (size_t t = 0; t < TILES; t++) {
            const struct hearth_tile tile_k = {keys.tile[t], keys.row, shape->rows[t], shape->dim,
                                               t + 1 < TILES ? values.tile[t] : NULL};
            const struct hearth_tile tile_v = {values.tile[t], values.row, shape->rows[t], shape->dim,
                                               t + 1 < TILES ? keys.tile[t + 1] : NULL};
            k->attend_scores[type_k](s, tile_max, &tile_k, q, q_stride, shape->n, shape->scale);
            k->attend_values[type_v](out, max, sum, t == 0, s, tile_max, &tile_v, shape->n);
        }
        char what[64];
        snprintf(what, sizeof what, "attention %s %s, %zu of %zu", hearth_type_info(type_k)->name,
                 hearth_type_info(type_v)->name, shape->n, shape->dim);
        check_same(what, check_levels[l].name, sum, want->sum, shape->n);
        check_same(what, check_levels[l].name, out, want->out, shape->n * shape->dim);
        for (size_t i = 0; i < shape->n; i++)
            if (max[i] != want->max[i])
                check_fail("%s: %s gives a maximum of %.9g, the reference %.9g", what, check_levels[l].name,
                           (double)max[i], (double)want->max[i]);
    }
    free(want);
    hearth_aligned_free(scratch);
    check_free_all();
}

void check_attend(int rounds)
{
    static const uint32_t types[] = {HEARTH_TYPE_F32, HEARTH_TYPE_F16, HEARTH_TYPE_Q8_0};
    for (int r = 0; r < rounds; r++)
        for (size_t k = 0; k < 3; k++)
            for (size_t v = 0; v < 3; v++) {
                const size_t most =
                    types[k] == HEARTH_TYPE_Q8_0 ? HEARTH_ATTEND_MAX_BLOCKS : HEARTH_ATTEND_MAX_DIM;
                struct shape shape = {.dim = HEARTH_ATTEND_DIM *
                                             (1 + check_below(check_below(4) ? 8 : most / HEARTH_ATTEND_DIM)),
                                      .n = 1 + check_below(HEARTH_ATTEND_QUERIES)};
                for (size_t t = 0; t < TILES; t++)
                    shape.rows[t] = check_below(3) ? HEARTH_ATTEND_ROWS : 1 + check_below(HEARTH_ATTEND_ROWS);
                // Ordinary weights, and many that are 0.
                shape.scale = check_below(3) ? 1 / sqrtf((float)shape.dim) : 1.0f;
                check_one(&shape, types[k], types[v]);
            }
    printf("attention: tiles of F32, F16 and Q8_0 keys and values, %d shapes each\n", rounds);
}
