// SPDX-License-Identifier: MIT
// Weights on their way to a device: units of block formats as integers, scales and minima.
#include "accel/weight.h"

#include <stdlib.h>
#include <string.h>

#include "accel/insides.h"
#include "accel/operations.h"
#include "base/memory.h"

// Elements that are converted at a time, at least: whole rows.
#define PIECE (1u << 20)

struct hearth_accel_form hearth_accel_form_of(uint32_t type)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    struct hearth_accel_form f = {.plain = -1};
    if (!info || !info->decode)
        return f;
    if (!info->unpack) {
        f.plain = type == HEARTH_TYPE_F32    ? 0
                  : type == HEARTH_TYPE_F16  ? 1
                  : type == HEARTH_TYPE_BF16 ? 2
                                             : -1;
        return f;
    }
    f.bits = 8;
    f.unit = info->unit_elems;
    f.has_min = info->has_min != 0;
    switch (type) {
    case HEARTH_TYPE_Q4_0:
        f.base = -8;
        f.bits = 4;
        f.scales_half = true;
        break;
    case HEARTH_TYPE_Q4_1:
        f.bits = 4;
        f.scales_half = true;
        break;
    case HEARTH_TYPE_Q5_0:
    case HEARTH_TYPE_Q5_1:
    case HEARTH_TYPE_Q8_0:
    case HEARTH_TYPE_IQ4_NL:
        f.scales_half = true;
        break;
    case HEARTH_TYPE_TQ1_0:
    case HEARTH_TYPE_TQ2_0:
    case HEARTH_TYPE_Q1_0:
    case HEARTH_TYPE_Q2_0:
        f.base = -1;
        f.bits = 4;
        f.scales_half = true;
        break;
    case HEARTH_TYPE_Q3_K:
        f.base = -4;
        f.bits = 4;
        break;
    case HEARTH_TYPE_Q2_K:
    case HEARTH_TYPE_Q4_K:
        f.bits = 4;
        break;
    default:
        break;
    }
    return f;
}

bool hearth_accel_weight_parts(uint32_t type, size_t k, size_t n, size_t bytes[HEARTH_ACCEL_WEIGHT_PARTS])
{
    const struct hearth_accel_form f = hearth_accel_form_of(type);
    const bool units = f.bits && k % f.unit == 0, plain = f.plain >= 0 && !f.bits;
    bytes[0] = units ? n * (k / 8 * (size_t)f.bits) : plain ? n * k * (f.plain ? 2u : 4u) : 0;
    bytes[1] = units ? n * (k / f.unit) * (f.scales_half ? 2u : 4u) : 0;
    bytes[2] = units && f.has_min ? bytes[1] : 0;
    return units || plain;
}

size_t hearth_accel_weight_bytes(uint32_t type, size_t k, size_t n)
{
    size_t bytes[HEARTH_ACCEL_WEIGHT_PARTS];
    hearth_accel_weight_parts(type, k, n, bytes);
    return bytes[0] + bytes[1] + bytes[2];
}

// One unit of integers: bytes, or two of them in a byte.
static void put_unit(uint8_t *to, const int8_t *q, const struct hearth_accel_form *f)
{
    const size_t half = f->unit / 2;
    if (f->bits == 8) {
        memcpy(to, q, f->unit);
        return;
    }
    for (size_t i = 0; i < half; i++)
        to[i] = (uint8_t)((q[i] - f->base) | (q[half + i] - f->base) << 4);
}

static void put_scale(uint8_t *to, size_t at, float x, const struct hearth_accel_form *f)
{
    const uint16_t h = hearth_f32_to_f16(x);
    if (f->scales_half)
        memcpy(to + 2 * at, &h, sizeof h);
    else
        memcpy(to + 4 * at, &x, sizeof x);
}

// Some rows, converted.
struct piece {
    int8_t *integers; // [k]
    float *scale, *min;
    uint8_t *q, *scales, *minima;
};

static void convert_row(const struct piece *p, size_t row, uint32_t type, size_t k, const void *data)
{
    const struct hearth_accel_form f = hearth_accel_form_of(type);
    const size_t units = k / f.unit;
    hearth_type_info(type)->unpack(data, p->integers, p->scale, p->min, k);
    for (size_t u = 0; u < units; u++) {
        const size_t at = row * units + u;
        put_unit(p->q + at * f.unit * (size_t)f.bits / 8, p->integers + u * f.unit, &f);
        put_scale(p->scales, at, p->scale[u], &f);
        if (f.has_min)
            put_scale(p->minima, at, p->min[u], &f);
    }
}

// ---- piece by piece

size_t hearth_accel_convert_scratch(size_t k)
{
    return k + k / 16 * 2 * sizeof(float); // of the smallest units
}

// Where q, scales and minima of a piece begin, and the bytes of a row of each.
struct parts {
    size_t at[HEARTH_ACCEL_WEIGHT_PARTS], row[HEARTH_ACCEL_WEIGHT_PARTS];
};

static struct parts parts_of(uint32_t type, size_t k, size_t rows)
{
    struct parts p = {{0}, {0}};
    hearth_accel_weight_parts(type, k, 1, p.row);
    p.at[1] = rows * p.row[0];
    p.at[2] = rows * (p.row[0] + p.row[1]);
    return p;
}

void hearth_accel_weight_convert(uint32_t type, size_t k, void *piece, size_t rows, size_t row,
                                 const void *data, void *scratch)
{
    const struct hearth_accel_form f = hearth_accel_form_of(type);
    const struct parts at = parts_of(type, k, rows);
    uint8_t *to = piece;
    if (!f.bits) {
        memcpy(to + row * at.row[0], data, at.row[0]);
        return;
    }
    float *scale = scratch, *min = scale + k / f.unit;
    const struct piece p = {.integers = (int8_t *)(min + k / f.unit),
                            .scale = scale,
                            .min = min,
                            .q = to,
                            .scales = to + at.at[1],
                            .minima = to + at.at[2]};
    convert_row(&p, row, type, k, data);
}

// ---- bringing them there

// Memory of the host's, kept for what is brought next: an evaluation that brings an expert takes none.
static uint8_t *keep_scratch(struct hearth_accel *a, size_t bytes)
{
    if (bytes > a->scratch_bytes) {
        uint8_t *larger = hearth_calloc(1, bytes);
        if (!larger)
            return NULL;
        free(a->scratch);
        a->scratch = larger;
        a->scratch_bytes = bytes;
    }
    return a->scratch;
}

static int convert_and_put(struct hearth_accel *a, const struct hearth_accel_weight *w, size_t first,
                           size_t n, const uint8_t *data, size_t stride, struct hearth_error *err)
{
    const size_t most = w->k < PIECE ? PIECE / w->k : 1, rows = most < n ? most : n;
    const size_t one = hearth_round_up(hearth_accel_convert_scratch(w->k), 64);
    const struct parts at = parts_of(w->type, w->k, rows);
    const struct hearth_accel_memory *const to[] = {&w->q, &w->scales, &w->minima};
    uint8_t *scratch = keep_scratch(a, one + rows * hearth_accel_weight_bytes(w->type, w->k, 1));
    if (!scratch)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to convert weights for a device");
    uint8_t *piece = scratch + one;
    for (size_t row = 0; row < n && !hearth_accel_has_failed(a); row += rows) {
        const size_t count = n - row < rows ? n - row : rows;
        for (size_t r = 0; r < count; r++)
            hearth_accel_weight_convert(w->type, w->k, piece, rows, r, data + (row + r) * stride, scratch);
        for (int i = 0; i < HEARTH_ACCEL_WEIGHT_PARTS; i++)
            if (at.row[i])
                hearth_accel_write(a, to[i], (first + row) * at.row[i], piece + at.at[i], count * at.row[i]);
    }
    return HEARTH_OK;
}

int hearth_accel_weight_begin(struct hearth_accel *a, struct hearth_accel_weight *w, uint32_t type, size_t k,
                              size_t n, struct hearth_error *err)
{
    size_t bytes[HEARTH_ACCEL_WEIGHT_PARTS];
    *w = (struct hearth_accel_weight){.type = type, .k = k, .n = n};
    if (!n || !hearth_accel_weight_parts(type, k, n, bytes))
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "devices do not know weights of type %u with rows of %zu", (unsigned)type, k);
    w->q = hearth_accel_alloc(a, bytes[0]);
    if (bytes[1])
        w->scales = hearth_accel_alloc(a, bytes[1]);
    if (bytes[2])
        w->minima = hearth_accel_alloc(a, bytes[2]);
    return HEARTH_OK;
}

int hearth_accel_weight_put(struct hearth_accel *a, const struct hearth_accel_weight *w, size_t first,
                            size_t n, const void *data, size_t stride, struct hearth_error *err)
{
    if (hearth_accel_has_failed(a) || !n)
        return HEARTH_OK;
    if (hearth_accel_form_of(w->type).bits)
        return convert_and_put(a, w, first, n, data, stride, err);
    const size_t row = hearth_type_bytes(w->type, w->k);
    if (stride == row) {
        hearth_accel_write(a, &w->q, first * row, data, n * row);
        return HEARTH_OK;
    }
    for (size_t r = 0; r < n && !hearth_accel_has_failed(a); r++)
        hearth_accel_write(a, &w->q, (first + r) * row, (const uint8_t *)data + r * stride, row);
    return HEARTH_OK;
}

int hearth_accel_weight_open(struct hearth_accel *a, struct hearth_accel_weight *w, uint32_t type, size_t k,
                             size_t n, const void *data, size_t stride, struct hearth_error *err)
{
    const int rc = hearth_accel_weight_begin(a, w, type, k, n, err);
    return rc ? rc : hearth_accel_weight_put(a, w, 0, n, data, stride, err);
}

void hearth_accel_weight_begin_put(struct hearth_accel *a, const struct hearth_accel_weight *w, size_t first,
                                   size_t n, const void *piece, size_t rows,
                                   void *events[HEARTH_ACCEL_PUT_EVENTS])
{
    const struct parts at = parts_of(w->type, w->k, rows);
    const struct hearth_accel_memory *const to[] = {&w->q, &w->scales, &w->minima};
    for (int i = 0; i < HEARTH_ACCEL_PUT_EVENTS; i++)
        events[i] = hearth_accel_begin_write(a, to[i], first * at.row[i], (const uint8_t *)piece + at.at[i],
                                             n * at.row[i]);
}

void hearth_accel_weight_close(struct hearth_accel *a, struct hearth_accel_weight *w)
{
    hearth_accel_free(a, &w->q);
    hearth_accel_free(a, &w->scales);
    hearth_accel_free(a, &w->minima);
    *w = (struct hearth_accel_weight){0};
}
