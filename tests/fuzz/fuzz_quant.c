// SPDX-License-Identifier: MIT
// Fuzz target: any bytes as blocks of any format, and any floats into any encoder. Byte 0 chooses the format,
// byte 1 what is done.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ELEMS = 2048 };

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static void *copy_of(const void *src, size_t n)
{
    // Exactly as long as it may be, so that AddressSanitizer sees every byte too far.
    void *p = malloc(n ? n : 1);
    CHECK(p);
    memcpy(p, src, n);
    return p;
}

static void decode_and_unpack(const struct hearth_type_info *info, const uint8_t *data, size_t n)
{
    uint8_t *raw = copy_of(data, n / info->block_elems * info->block_bytes);
    float *out = malloc(n * sizeof *out + 1);
    CHECK(out);
    info->decode(raw, out, n);
    if (info->unpack) {
        size_t units = n / info->unit_elems;
        int8_t *q = malloc(n + 1);
        float *scale = malloc(units * sizeof *scale + 1), *min = malloc(units * sizeof *min + 1);
        CHECK(q && scale && min);
        info->unpack(raw, q, scale, min, n);
        for (size_t i = 0; i < n; i++) {
            float want = scale[i / info->unit_elems] * (float)q[i];
            if (info->has_min)
                want -= min[i / info->unit_elems];
            CHECK(isnan(want) ? isnan(out[i]) : memcmp(&want, &out[i], sizeof want) == 0);
        }
        free(q);
        free(scale);
        free(min);
    }
    free(raw);
    free(out);
}

static void encode(const struct hearth_type_info *info, const uint8_t *data, size_t n)
{
    float *x = copy_of(data, n * sizeof *x), *back = malloc(n * sizeof *back + 1);
    uint8_t *raw = malloc(n / info->block_elems * info->block_bytes + 1);
    CHECK(raw && back);
    bool small = true;
    for (size_t i = 0; i < n; i++)
        small = small && fabsf(x[i]) < 60000.0f; // false for NaN, too
    info->encode(x, raw, n);
    info->decode(raw, back, n);
    for (size_t i = 0; i < n && small; i++)
        CHECK(isfinite(back[i]));
    free(x);
    free(raw);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct hearth_type_info *info = hearth_type_info(data[0] % HEARTH_TYPE_END);
    if (!info || !info->decode)
        return 0;
    if (data[1] % 2 == 0) {
        size_t blocks = (size - 2) / info->block_bytes, most = MAX_ELEMS / info->block_elems;
        decode_and_unpack(info, data + 2, (blocks < most ? blocks : most) * info->block_elems);
    } else if (info->encode) {
        size_t blocks = (size - 2) / (4 * (size_t)info->block_elems), most = MAX_ELEMS / info->block_elems;
        encode(info, data + 2, (blocks < most ? blocks : most) * info->block_elems);
    }
    return 0;
}
