// SPDX-License-Identifier: MIT
// Numbers and memory of a case of operations_check.h: what the files that have cases share.
#ifndef HEARTH_ACCEL_CHECK_CASE_H
#define HEARTH_ACCEL_CHECK_CASE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/operations_check.h"
#include "base/memory.h"

static inline float random_number(struct hearth_check *c)
{
    c->seed = c->seed * 1664525u + 1013904223u;
    return (float)(c->seed >> 8) / 8388608.0f - 1.0f;
}

static inline void *take(struct hearth_check *c, size_t bytes)
{
    void *p = NULL;
    if (c->n_taken < (int)(sizeof c->taken / sizeof *c->taken))
        p = hearth_calloc(bytes ? bytes : 1, 1);
    if (p)
        c->taken[c->n_taken++] = p;
    else
        c->no_memory = true;
    return p;
}

static inline float *numbers(struct hearth_check *c, size_t n)
{
    float *x = take(c, n * sizeof *x);
    for (size_t i = 0; x && i < n; i++)
        x[i] = random_number(c) * 2.0f;
    return x;
}

static inline const struct hearth_accel_memory *place(struct hearth_check *c, const void *from, size_t bytes)
{
    struct hearth_accel_memory *m = &c->memory[c->n_memory++];
    *m = hearth_accel_alloc(c->a, bytes);
    if (from)
        hearth_accel_write(c->a, m, 0, from, bytes);
    return m;
}

static inline void begin_case(struct hearth_check *c)
{
    for (int i = 0; i < c->n_memory; i++)
        hearth_accel_free(c->a, &c->memory[i]);
    for (int i = 0; i < c->n_taken; i++)
        free(c->taken[i]);
    c->n_memory = c->n_taken = 0;
}

// What the device has there beside what the reference says. Two that are not numbers are equal.
static inline void compare(struct hearth_check *c, const char *what, const struct hearth_accel_memory *m,
                           const float *right, size_t n)
{
    float *got = take(c, n * sizeof *got);
    if (!got)
        return;
    hearth_accel_read(c->a, m, 0, got, n * sizeof *got);
    for (size_t i = 0; i < n && !c->differs[0] && !hearth_accel_has_failed(c->a); i++)
        if (memcmp(&got[i], &right[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(right[i])))
            snprintf(c->differs, sizeof c->differs, "%s: %a where %a is right (number %zu)", what,
                     (double)got[i], (double)right[i], i);
}

static inline void compare_bytes(struct hearth_check *c, const char *what,
                                 const struct hearth_accel_memory *m, const void *right, size_t n)
{
    uint8_t *got = take(c, n);
    if (!got)
        return;
    hearth_accel_read(c->a, m, 0, got, n);
    const uint8_t *bytes = right;
    for (size_t i = 0; i < n && !c->differs[0] && !hearth_accel_has_failed(c->a); i++)
        if (got[i] != bytes[i])
            snprintf(c->differs, sizeof c->differs, "%s: byte %zu is %d, not %d", what, i, got[i], bytes[i]);
}

// Random rows of a format: encoded where it can be written, else random bytes whose scales are small halfs.
static inline uint8_t *random_rows(struct hearth_check *c, uint32_t type, size_t k, size_t n)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t row = hearth_type_bytes(type, k);
    uint8_t *rows = take(c, row * n);
    float *x = take(c, k * sizeof *x);
    for (size_t r = 0; rows && x && r < n; r++) {
        for (size_t i = 0; i < k; i++)
            x[i] = random_number(c);
        if (info->encode) {
            info->encode(x, rows + r * row, k);
            continue;
        }
        for (size_t i = 0; i < row; i++)
            rows[r * row + i] = (uint8_t)(random_number(c) * 127.0f + 128.0f);
        // Wherever the format has its scale: no infinity, no NaN.
        for (size_t i = 1; i < row; i += 2)
            rows[r * row + i] &= 0x3f;
        for (size_t i = 0; i < row; i += 2)
            rows[r * row + i] &= 0x3f;
    }
    return rows && x ? rows : NULL;
}

static inline const char *label(struct hearth_check *c, const char *what, uint32_t type)
{
    char *text = take(c, 64);
    if (text)
        snprintf(text, 64, "%s of %s", what, hearth_type_info(type)->name);
    return text ? text : what;
}

static inline struct hearth_accel_weight vector_of(struct hearth_check *c, const float *x, size_t n)
{
    const struct hearth_accel_memory *m = place(c, x, n * sizeof *x);
    return (struct hearth_accel_weight){.q = *m, .type = HEARTH_TYPE_F32, .k = n, .n = 1};
}

// experts_check.c: a few cases of each operation, when a device is opened.
void hearth_check_some_experts(struct hearth_check *c);

#endif
