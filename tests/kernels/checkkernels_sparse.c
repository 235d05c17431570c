// SPDX-License-Identifier: MIT
// checkkernels: products of picked rows and with matrices stored by neuron, every variant against the
// reference, and the reference against the kernels it is defined by and double precision. Rows lie apart,
// each guarded.
#include "checkkernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL 6  // rows that lie apart
#define LIST 70 // places in a list

// A list of up to LIST rows of n elements, with repetition, and their weights.
struct list {
    size_t n;
    const void *rows[LIST];
    float p[LIST];
};

static void make_list(struct list *l, uint32_t type, size_t n)
{
    uint8_t *pool[POOL];
    const size_t bytes = hearth_type_bytes(type, n);
    for (int i = 0; i < POOL; i++) {
        pool[i] = check_guarded(bytes, !check_below(4));
        check_fill_weights(type, pool[i], bytes, n, 1);
    }
    l->n = 1 + check_below(check_below(3) ? 9 : LIST);
    for (size_t i = 0; i < l->n; i++) {
        l->rows[i] = pool[check_below(POOL)];
        l->p[i] = check_below(4) ? (float)check_random() / 2147483648.0f - 1.0f : 0.0f;
    }
}

static size_t length_of(const struct hearth_type_info *info)
{
    if (!info->unit_elems)
        return 1 + check_below(200);
    return info->block_elems * (1 + check_below(info->block_elems == 32 ? 40 : 5));
}

static void check_dot_rows(uint32_t type)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t k = length_of(info), tokens = 1 + check_below(check_below(2) ? 2 : 19);
    struct list l;
    make_list(&l, type, k);
    float *x = malloc(k * sizeof *x);
    const size_t x_stride = info->unit_elems ? hearth_acts_bytes(k) : k * sizeof *x;
    uint8_t *acts = hearth_aligned_alloc(64, (tokens * x_stride + 63) / 64 * 64);
    for (size_t t = 0; t < tokens; t++) {
        check_fill(x, k);
        for (size_t i = 0; i < k; i++)
            x[i] = fabsf(x[i]) > 1e10f ? 1e10f : x[i];
        if (info->unit_elems)
            check_levels[0].k.quantize_acts(acts + t * x_stride, x, k);
        else
            memcpy(acts + t * x_stride, x, x_stride);
    }
    char name[64];
    snprintf(name, sizeof name, "dot_rows %s k %zu rows %zu tokens %zu", info->name, k, l.n, tokens);
    float *want = malloc(l.n * tokens * sizeof *want);
    const size_t scratch_bytes = check_scratch(k);
    void *scratch = hearth_aligned_alloc(64, scratch_bytes);
    for (size_t i = 0; i < l.n; i++)
        check_levels[0].k.step[type](want + i, l.n, l.rows[i], 0, k, 1, acts, x_stride, tokens, scratch);
    for (int level = 0; level < check_n_levels; level++) {
        float *out = check_guarded(l.n * tokens * sizeof *out, false);
        check_levels[level].k.dot_rows[type](out, l.rows, l.n, k, acts, x_stride, tokens, scratch);
        check_same(name, check_levels[level].name, out, want, l.n * tokens);
    }
    hearth_aligned_free(scratch);
    free(want);
    hearth_aligned_free(acts);
    free(x);
    check_free_all();
}

static void check_axpy_rows(uint32_t type)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t n = length_of(info);
    struct list l;
    make_list(&l, type, n);
    float *start = malloc(n * sizeof *start), *want = malloc(n * sizeof *want);
    check_fill(start, n);
    memcpy(want, start, n * sizeof *want);
    for (size_t i = 0; i < l.n; i++)
        check_levels[0].k.axpy[type](want, l.rows[i], 0, n, 1, &l.p[i]);
    char name[64];
    snprintf(name, sizeof name, "axpy_rows %s n %zu rows %zu", info->name, n, l.n);
    for (int level = 0; level < check_n_levels; level++) {
        float *out = check_guarded(n * sizeof *out, false);
        memcpy(out, start, n * sizeof *out);
        check_levels[level].k.axpy_rows[type](out, l.rows, l.n, n, l.p);
        check_same(name, check_levels[level].name, out, want, n);
    }
    free(start);
    free(want);
    check_free_all();
}

// The reference in double precision.
static void check_prompt_sums(const char *name, const float *out, const uint8_t *w, size_t stride,
                              uint32_t type, size_t width, size_t first, size_t n, size_t rows,
                              const float *p)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    float *row = malloc(width * sizeof *row);
    double *sum = calloc(n, sizeof *sum), *size = calloc(n, sizeof *size);
    for (size_t r = 0; r < rows; r++) {
        info->decode(w + r * stride, row, width);
        for (size_t i = 0; i < n; i++) {
            sum[i] += (double)p[r] * (double)row[first + i];
            size[i] += fabs((double)p[r] * (double)row[first + i]);
        }
    }
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)out[i] - sum[i]) <= 1e-5 * size[i] + 1e-30)) {
            check_fail("%s: the reference gives %.9g, double precision %.9g", name, (double)out[i], sum[i]);
            break;
        }
    free(row);
    free(sum);
    free(size);
}

static void check_prompt_t(uint32_t type)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t width = length_of(info), rows = 1 + check_below(check_below(3) ? 40 : 700);
    const size_t tokens = 1 + check_below(12), stride = hearth_type_bytes(type, width) + 2 * check_below(9);
    const size_t first = check_below(width / HEARTH_COLUMNS + 1) * HEARTH_COLUMNS % width;
    const size_t blocks = (width - first) / info->block_elems;
    const size_t n = (1 + check_below(blocks)) * info->block_elems;
    const size_t out_stride = n + check_below(5), p_stride = rows + check_below(5);
    uint8_t *w = check_guarded((rows - 1) * stride + hearth_type_bytes(type, width), !check_below(4));
    check_fill_weights(type, w, stride, width, rows);
    float *p = check_guarded(((tokens - 1) * p_stride + rows) * sizeof *p, false), *want = NULL;
    const size_t idle = check_below(3); // tokens all of whose neurons count, most, few
    for (size_t i = 0; i < (tokens - 1) * p_stride + rows; i++)
        p[i] = check_below(8) < 4 * idle ? 0.0f : (float)check_random() / 2147483648.0f - 1.0f;
    void *scratch = check_guarded(check_scratch(rows), false);
    char name[96];
    snprintf(name, sizeof name, "prompt_t %s width %zu first %zu n %zu rows %zu tokens %zu", info->name,
             width, first, n, rows, tokens);
    for (int level = 0; level < check_n_levels; level++) {
        const size_t size = ((tokens - 1) * out_stride + n) * sizeof(float);
        float *out = memset(check_guarded(size, false), 0, size);
        const size_t piece = check_below(rows + 1); // the rows may come in two pieces
        check_levels[level].k.prompt_t[type](out, out_stride, w, stride, first, n, piece, p, p_stride, tokens,
                                             scratch);
        check_levels[level].k.prompt_t[type](out, out_stride, w + piece * stride, stride, first, n,
                                             rows - piece, p + piece, p_stride, tokens, scratch);
        for (size_t t = 0; t < tokens; t++)
            if (want)
                check_same(name, check_levels[level].name, out + t * out_stride, want + t * out_stride, n);
            else
                check_prompt_sums(name, out + t * out_stride, w, stride, type, width, first, n, rows,
                                  p + t * p_stride);
        want = want ? want : out;
    }
    check_free_all();
}

void check_sparse(int rounds)
{
    int formats = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        if (!hearth_type_info(type) || !hearth_type_info(type)->decode)
            continue;
        if (!check_levels[0].k.dot_rows[type]) {
            check_fail("there is no dot_rows for %s", hearth_type_info(type)->name);
            continue;
        }
        formats++;
        for (int r = 0; r < rounds / 2 + 1; r++) {
            check_dot_rows(type);
            check_axpy_rows(type);
            if (r % 3 == 0)
                check_prompt_t(type);
        }
    }
    printf("by neuron: dot_rows, axpy_rows, prompt_t: %d formats, %d shapes each\n", formats, rounds / 2 + 1);
}
