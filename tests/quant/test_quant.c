// SPDX-License-Identifier: MIT
// Number formats against the reference's own results (tests/golden/quant, described in
// tests/golden/README.md), against vectors small enough to check by hand, and against each other.
#include "check.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "quant/quant.h"

// ---- golden files

struct golden {
    uint32_t type, elems, bytes, n, n_odd; // blocks: n with ordinary scales, then n_odd with odd ones
    uint8_t *raw;                          // [n + n_odd][bytes]
    float *values;                         // [n + n_odd][elems]
    uint8_t *file;
};

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool golden_open(struct golden *g, const char *name, const char *suffix)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/quant/%s.%s", HEARTH_SOURCE_DIR, name, suffix);
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    g->file = malloc(size);
    assert_int_equal(fread(g->file, 1, size, f), size);
    fclose(f);
    bool decode = strcmp(suffix, "decode") == 0;
    assert_memory_equal(g->file, decode ? "HGLQ" : "HGLE", 4);
    assert_int_equal(load_u32(g->file + 4), 1);
    g->type = load_u32(g->file + 8);
    g->elems = load_u32(g->file + 12);
    g->bytes = load_u32(g->file + 16);
    g->n = load_u32(g->file + 20);
    g->n_odd = load_u32(g->file + 24);
    size_t blocks = (size_t)g->n + g->n_odd;
    assert_int_equal(size, 28 + blocks * (g->bytes + 4 * (size_t)g->elems));
    size_t raw_at = decode ? 28 : 28 + blocks * g->elems * 4,
           values_at = decode ? 28 + blocks * g->bytes : 28;
    g->raw = g->file + raw_at;
    g->values = malloc(blocks * g->elems * sizeof(float));
    memcpy(g->values, g->file + values_at, blocks * g->elems * sizeof(float));
    return true;
}

static void golden_close(struct golden *g)
{
    free(g->file);
    free(g->values);
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_number(float a, float b)
{
    return isnan(a) ? isnan(b) : same_bits(a, b);
}

static void check_decode(const struct hearth_type_info *info, const struct golden *g)
{
    size_t ordinary = (size_t)g->n * g->elems, all = ordinary + (size_t)g->n_odd * g->elems;
    float *out = malloc(all * sizeof *out);
    // The reference's file puts the blocks at an odd address at least half of the time; one more byte covers
    // the rest.
    for (size_t shift = 0; shift < 2; shift++) {
        size_t raw_bytes = ((size_t)g->n + g->n_odd) * g->bytes;
        uint8_t *moved = malloc(raw_bytes + shift);
        memcpy(moved + shift, g->raw, raw_bytes);
        info->decode(moved + shift, out, all);
        free(moved);
        for (size_t i = 0; i < all; i++) {
            bool ok = i < ordinary ? same_bits(out[i], g->values[i]) : same_number(out[i], g->values[i]);
            if (!ok)
                fail_msg("%s: element %zu of block %zu is %a, the reference has %a", info->name, i % g->elems,
                         i / g->elems, (double)out[i], (double)g->values[i]);
        }
    }
    free(out);
}

static void check_encode(const struct hearth_type_info *info, const struct golden *g)
{
    size_t blocks = (size_t)g->n + g->n_odd;
    uint8_t *out = malloc(blocks * g->bytes);
    info->encode(g->values, out, blocks * g->elems);
    for (size_t i = 0; i < (size_t)g->n * g->bytes; i++)
        if (out[i] != g->raw[i])
            fail_msg("%s: byte %zu of block %zu is %02x, the reference has %02x (first element %a)",
                     info->name, i % g->bytes, i / g->bytes, out[i], g->raw[i],
                     (double)g->values[i / g->bytes * g->elems]);
    free(out);
}

static const char *const decoded_types[] = {
    "F16",    "BF16",  "Q4_0",    "Q4_1",   "Q5_0",   "Q5_1",  "Q8_0",  "Q2_K",  "Q3_K",
    "Q4_K",   "Q5_K",  "Q6_K",    "IQ4_NL", "IQ4_XS", "MXFP4", "IQ1_S", "IQ1_M", "IQ2_XXS",
    "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",  "TQ1_0",  "TQ2_0", "Q1_0",  "Q2_0",  "NVFP4"};
static const char *const exact_types[] = {"F16",  "BF16",  "Q4_0",  "Q4_1", "Q5_0", "Q5_1",
                                          "Q8_0", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_decode_matches_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(decoded_types); i++) {
        int type = hearth_type_by_name(decoded_types[i]);
        const struct hearth_type_info *info = hearth_type_info((uint32_t)type);
        struct golden g;
        assert_non_null(info);
        assert_true(golden_open(&g, info->name, "decode"));
        assert_int_equal(g.type, type);
        assert_int_equal(g.elems, info->block_elems);
        assert_int_equal(g.bytes, info->block_bytes);
        assert_true(g.n > 10);
        check_decode(info, &g);
        golden_close(&g);
    }
}

static void test_encode_matches_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(exact_types); i++) {
        int type = hearth_type_by_name(exact_types[i]);
        const struct hearth_type_info *info = hearth_type_info((uint32_t)type);
        struct golden g;
        assert_true(golden_open(&g, info->name, "encode"));
        assert_int_equal(g.type, type);
        assert_true(g.n > 10);
        check_encode(info, &g);
        golden_close(&g);
    }
}

// ---- half and bfloat16, exhaustively

static void test_f16_all(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = hearth_f16_to_f32((uint16_t)h);
        uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
        if (exponent == 31 && mantissa) {
            assert_true(isnan(f));
            assert_int_equal(hearth_f32_to_f16(f), h | 0x200);
            continue;
        }
        double want = exponent == 31 ? (double)INFINITY
                      : exponent     ? ldexp(1024 + (double)mantissa, (int)exponent - 25)
                                     : ldexp((double)mantissa, -24);
        assert_true((double)f == (h & 0x8000 ? -want : want) && !signbit(f) == !(h & 0x8000));
        assert_int_equal(hearth_f32_to_f16(f), h);
    }
}

// Between two neighbours: just below the middle goes down, just above goes up, the middle goes to the even
// one.
static void test_f16_rounding(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float low = hearth_f16_to_f32((uint16_t)h);
        float high =
            h == 0x7bff ? 65536.0f : hearth_f16_to_f32((uint16_t)(h + 1)); // the next step, were there one
        float middle = 0.5f * (low + high);
        assert_int_equal(hearth_f32_to_f16(nextafterf(middle, 0.0f)), h);
        assert_int_equal(hearth_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(hearth_f32_to_f16(middle), h + (h & 1));
        assert_int_equal(hearth_f32_to_f16(-middle), (h + (h & 1)) | 0x8000);
    }
    assert_int_equal(hearth_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(hearth_f32_to_f16(1e-30f), 0);
    assert_int_equal(hearth_f32_to_f16(-1e-30f), 0x8000);
}

static void test_bf16_all(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = hearth_bf16_to_f32((uint16_t)h);
        if (isnan(f)) {
            assert_int_equal(hearth_f32_to_bf16(f), h | 0x40);
            continue;
        }
        assert_int_equal(hearth_f32_to_bf16(f), h);
        if ((h & 0x7fff) >= 0x7f7f)
            continue;
        float next = hearth_bf16_to_f32((uint16_t)(h + 1)), middle = f + (next - f) * 0.5f;
        assert_int_equal(hearth_f32_to_bf16(middle), h + (h & 1));
        assert_int_equal(hearth_f32_to_bf16(nextafterf(middle, f)), h);
        assert_int_equal(hearth_f32_to_bf16(nextafterf(middle, next)), h + 1);
    }
}

// ---- by hand

// One block each, worked out on paper from the layout: they hold even where the golden files are wrong.
static void test_small_blocks(void **state)
{
    (void)state;
    float out[256];
    uint8_t q4_0[18] = {0x00, 0x38, [2] = 0xf0, [17] = 0x29}; // d = 0.5
    hearth_type_info(HEARTH_TYPE_Q4_0)->decode(q4_0, out, 32);
    assert_true(out[0] == -4.0f && out[16] == 3.5f && out[15] == 0.5f && out[31] == -3.0f && out[1] == -4.0f);

    uint8_t q5_1[24] = {0x00, 0x3c, 0x00, 0xc0, [4] = 0x01, [7] = 0x80, [8] = 0x21}; // d = 1, m = -2
    hearth_type_info(HEARTH_TYPE_Q5_1)->decode(q5_1, out, 32);
    assert_true(out[0] == 15.0f && out[16] == 0.0f && out[31] == 14.0f && out[1] == -2.0f);

    uint8_t q4_k[144] = {0x00, 0x3c, 0x00, 0x38}; // d = 1, dmin = 0.5
    q4_k[4 + 0] = 0xc3;                           // scale 0 = 3; upper bits 3 of scale 4
    q4_k[4 + 4] = 0x44;                           // minimum 0 = 4; upper bits 1 of minimum 4
    q4_k[4 + 8] = 0x25;                           // scale 4 = 5 + 48, minimum 4 = 2 + 16
    q4_k[16] = 0x97;
    q4_k[16 + 64] = 0x0f;
    hearth_type_info(HEARTH_TYPE_Q4_K)->decode(q4_k, out, 256);
    assert_true(out[0] == 19.0f && out[1] == -2.0f && out[32] == 0.0f);
    assert_true(out[128] == 53.0f * 15.0f - 9.0f && out[129] == -9.0f);

    uint8_t q6_k[210] = {[0] = 0x5a, [128] = 0x31, [192] = 0x02, [196] = 0xff, [208] = 0x00, [209] = 0x3c};
    hearth_type_info(HEARTH_TYPE_Q6_K)->decode(q6_k, out, 256);
    assert_true(out[0] == 2.0f * (0x1a - 32) && out[64] == -1.0f * (0x35 - 32) && out[1] == -64.0f);

    uint8_t mxfp4[17] = {128, 0xf7}; // 2^1
    hearth_type_info(HEARTH_TYPE_MXFP4)->decode(mxfp4, out, 32);
    assert_true(out[0] == 12.0f && out[16] == -12.0f && out[1] == 0.0f);

    // Scales 1, the least, none and the largest.
    uint8_t nvfp4[36] = {0x38, 0x01, 0x7f, 0x7e, [4] = 0x7a, [12] = 0x01, [20] = 0x77, [35] = 0x90};
    hearth_type_info(HEARTH_TYPE_NVFP4)->decode(nvfp4, out, 64);
    assert_true(out[0] == -1.0f && out[8] == 6.0f && out[16] == 0x1p-10f && out[32] == 0.0f);
    assert_true(out[40] == 0.0f && out[63] == -224.0f && out[1] == 0.0f);

    uint8_t tq1_0[54] = {
        [0] = 128, [47] = 255, [51] = 171, [53] = 0x40}; // d = 2; a byte is a fraction of 256
    hearth_type_info(HEARTH_TYPE_TQ1_0)->decode(tq1_0, out, 256);
    assert_true(out[0] == 0.0f && out[32] == 0.0f && out[1] == -2.0f && out[175] == 2.0f && out[239] == 2.0f);
    assert_true(out[243] == 2.0f && out[247] == -2.0f);

    uint8_t q1_0[18] = {0x00, 0xbc, 0x05, [17] = 0x80}; // d = -1
    hearth_type_info(HEARTH_TYPE_Q1_0)->decode(q1_0, out, 128);
    assert_true(out[0] == -1.0f && out[1] == 1.0f && out[2] == -1.0f && out[127] == -1.0f &&
                out[126] == 1.0f);
}

// ---- properties

static uint64_t random_state = 88172645463325252u;

static uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

static float random_normal(void)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (float)(random_u32() >> 8) * 0x1p-24f;
    return sum - 6.0f;
}

// scale * q - min, exactly as the header promises, and |q| <= 128 is what the integer kernels rely on.
static void test_unpack_agrees_with_decode(void **state)
{
    (void)state;
    enum { BLOCKS = 64 };
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const struct hearth_type_info *info = hearth_type_info(type);
        if (!info || !info->unpack)
            continue;
        size_t n = (size_t)BLOCKS * info->block_elems, units = n / info->unit_elems;
        uint8_t *raw = malloc((size_t)BLOCKS * info->block_bytes);
        float *out = malloc(n * sizeof *out), *scale = malloc(units * sizeof *scale),
              *min = malloc(units * sizeof *min);
        int8_t *q = malloc(n);
        for (size_t i = 0; i < (size_t)BLOCKS * info->block_bytes; i++)
            raw[i] = (uint8_t)random_u32();
        for (size_t u = 0; u < units; u++)
            min[u] = 12345.0f;
        info->decode(raw, out, n);
        info->unpack(raw, q, scale, min, n);
        for (size_t i = 0; i < n; i++) {
            size_t u = i / info->unit_elems;
            float want = scale[u] * (float)q[i];
            if (info->has_min)
                want -= min[u];
            else
                assert_true(min[u] == 12345.0f);
            if (!same_number(out[i], want))
                fail_msg("%s: element %zu: %a decoded, %a unpacked", info->name, i, (double)out[i],
                         (double)want);
        }
        free(raw);
        free(out);
        free(scale);
        free(min);
        free(q);
    }
}

// Encoding what was decoded gives the same values back where the format can express its own values again.
static void test_encode_is_idempotent(void **state)
{
    (void)state;
    static const char *const names[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_0"};
    enum { N = 32 * 256 };
    float *x = malloc(N * sizeof *x), *once = malloc(N * sizeof *x), *twice = malloc(N * sizeof *x);
    uint8_t *bytes = malloc(N * 4);
    for (size_t t = 0; t < COUNT(names); t++) {
        const struct hearth_type_info *info = hearth_type_info((uint32_t)hearth_type_by_name(names[t]));
        for (size_t i = 0; i < N; i++)
            x[i] = random_normal() * 0.02f;
        info->encode(x, bytes, N);
        info->decode(bytes, once, N);
        info->encode(once, bytes, N);
        info->decode(bytes, twice, N);
        for (size_t i = 0; i < N; i++)
            assert_true(fabsf(once[i] - twice[i]) <= 1e-3f * fabsf(once[i]));
    }
    free(x);
    free(once);
    free(twice);
    free(bytes);
}

// What an element may be off by: half a step of its unit, or a whole one beyond the far end of a symmetric
// format, and up to 127 times the rounding of the f16 scale. IQ4_NL's values are up to 24 apart.
static void test_encode_error_bounds(void **state)
{
    (void)state;
    enum { N = 256 * 64 };
    float *x = malloc(N * sizeof *x), *out = malloc(N * sizeof *x), *scale = malloc(N * sizeof *x);
    float *min = malloc(N * sizeof *x);
    int8_t *q = malloc(N);
    uint8_t *bytes = malloc(N * 4);
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const struct hearth_type_info *info = hearth_type_info(type);
        if (!info || !info->encode || info->block_elems != 32)
            continue;
        for (size_t i = 0; i < N; i++)
            x[i] = random_normal();
        info->encode(x, bytes, N);
        info->decode(bytes, out, N);
        info->unpack(bytes, q, scale, min, N);
        for (size_t i = 0; i < N; i++) {
            float step = fabsf(scale[i / info->unit_elems]);
            bool symmetric = !info->has_min && type != HEARTH_TYPE_Q8_0;
            float steps = type == HEARTH_TYPE_IQ4_NL ? 14.0f : symmetric ? 1.07f : 0.57f;
            assert_true(fabsf(x[i] - out[i]) <= step * steps);
        }
    }
    free(x);
    free(out);
    free(scale);
    free(min);
    free(q);
    free(bytes);
}

static double relative_rmse(const float *x, const float *y, size_t n)
{
    double error = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        total += (double)x[i] * (double)x[i];
    }
    return sqrt(error / total);
}

// Our search is our own; what it finds must be at least about as good as what the reference's finds.
static void test_k_encoders_match_the_references_error(void **state)
{
    (void)state;
    static const char *const names[] = {"Q4_K", "Q5_K", "Q6_K"};
    for (size_t t = 0; t < COUNT(names); t++) {
        const struct hearth_type_info *info = hearth_type_info((uint32_t)hearth_type_by_name(names[t]));
        struct golden g;
        assert_true(golden_open(&g, names[t], "encode"));
        size_t n = (size_t)g.n * g.elems;
        float *ours = malloc(n * sizeof *ours), *reference = malloc(n * sizeof *reference);
        uint8_t *bytes = malloc((size_t)g.n * g.bytes);
        info->encode(g.values, bytes, n);
        info->decode(bytes, ours, n);
        info->decode(g.raw, reference, n);
        double a = relative_rmse(g.values, ours, n), b = relative_rmse(g.values, reference, n);
        if (!(a <= 1.0 * b))
            fail_msg("%s: relative RMSE %.5f, the reference has %.5f", names[t], a, b);
        free(ours);
        free(reference);
        free(bytes);
        golden_close(&g);
    }
}

// Relative RMSE on normally distributed weights, a little above what the encoders reach.
static void test_other_encoders_error(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        double limit;
    } cases[] = {{HEARTH_TYPE_Q2_K, 0.275},  {HEARTH_TYPE_Q3_K, 0.148},  {HEARTH_TYPE_Q4_K, 0.0715},
                 {HEARTH_TYPE_Q5_K, 0.0355}, {HEARTH_TYPE_Q6_K, 0.0172}, {HEARTH_TYPE_IQ4_NL, 0.0755}};
    enum { N = 256 * 64 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    uint8_t *bytes = malloc(N);
    // From weights as small as half precision can scale to weights as large.
    static const float magnitudes[] = {0.02f, 1.0f, 1000.0f, 0.002f};
    for (size_t t = 0; t < COUNT(cases); t++)
        for (size_t m = 0; m < COUNT(magnitudes); m++) {
            const struct hearth_type_info *info = hearth_type_info(cases[t].type);
            for (size_t i = 0; i < N; i++)
                x[i] = magnitudes[m] * random_normal();
            info->encode(x, bytes, N);
            info->decode(bytes, y, N);
            double e = relative_rmse(x, y, N);
            if (!(e < cases[t].limit))
                fail_msg("%s: relative RMSE %.5f at magnitude %g", info->name, e, (double)magnitudes[m]);
        }
    free(x);
    free(y);
    free(bytes);
}

// Anything in, no undefined behaviour (the sanitisers watch) and finite neighbours stay finite.
static void test_encode_survives_anything(void **state)
{
    (void)state;
    enum { N = 512 };
    float x[N], out[N];
    uint8_t bytes[N * 4];
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const struct hearth_type_info *info = hearth_type_info(type);
        if (!info || !info->encode)
            continue;
        for (int round = 0; round < 200; round++) {
            for (size_t i = 0; i < N; i++) {
                uint32_t bits = random_u32();
                memcpy(&x[i], &bits, sizeof bits);
                if (i >= 256)
                    x[i] = random_normal();
            }
            info->encode(x, bytes, N);
            info->decode(bytes, out, N);
            for (size_t i = 256; i < N; i++)
                assert_true(isfinite(out[i]));
        }
        // In formats with small blocks, one with an infinite element does not look sound.
        x[5] = INFINITY;
        info->encode(x, bytes, N);
        info->decode(bytes, out, N);
        if (info->block_elems <= 32 && out[5] == 0.0f)
            fail_msg("%s: an infinite weight becomes 0", info->name);
        memset(x, 0, sizeof x);
        info->encode(x, bytes, N);
        info->decode(bytes, out, N);
        for (size_t i = 0; i < N; i++)
            assert_true(out[i] == 0.0f);
    }
}

// Numbers of any size and sign, and blocks that are all zeros or all alike. The last test: nothing gives a CPU its
// instructions back.
static void test_encode_without_vectors(void **state)
{
    (void)state;
    enum { BLOCKS = 200, N = BLOCKS * 256 };
    static const uint32_t types[] = {HEARTH_TYPE_Q2_K, HEARTH_TYPE_Q3_K, HEARTH_TYPE_Q4_K, HEARTH_TYPE_Q5_K,
                                     HEARTH_TYPE_Q6_K};
    enum { N_TYPES = sizeof types / sizeof types[0] };
    float *x = malloc(N * sizeof *x);
    uint8_t *encoded[N_TYPES];
    for (size_t i = 0; i < N; i++) {
        const size_t block = i / 256;
        x[i] = block % 8 == 6 ? (float)(block % 16 == 6) : ldexpf(random_normal(), (int)(block % 40) - 20);
        if (block % 8 == 7)
            x[i] = i % 32 ? fabsf(x[i]) : -100.0f * x[i];
    }
    for (size_t t = 0; t < N_TYPES; t++) {
        encoded[t] = malloc(hearth_type_bytes(types[t], N));
        hearth_type_info(types[t])->encode(x, encoded[t], N);
    }
    hearth_cpu_distrust(~0u);
    for (size_t t = 0; t < N_TYPES; t++) {
        uint8_t *plain = malloc(hearth_type_bytes(types[t], N));
        hearth_type_info(types[t])->encode(x, plain, N);
        assert_memory_equal(plain, encoded[t], hearth_type_bytes(types[t], N));
        free(plain);
        free(encoded[t]);
    }
    free(x);
}

static void test_table(void **state)
{
    (void)state;
    assert_int_equal(hearth_type_by_name("q4_k"), HEARTH_TYPE_Q4_K);
    assert_int_equal(hearth_type_by_name("Iq4_nL"), HEARTH_TYPE_IQ4_NL);
    assert_int_equal(hearth_type_by_name("q4"), -1);
    assert_int_equal(hearth_type_by_name("q4_kk"), -1);
    assert_int_equal(hearth_type_by_name(""), -1);
    assert_null(hearth_type_info(4));
    assert_null(hearth_type_info(HEARTH_TYPE_END));
    assert_null(hearth_type_info(UINT32_MAX));
    assert_int_equal(hearth_type_bytes(HEARTH_TYPE_Q4_0, 64), 36);
    assert_int_equal(hearth_type_bytes(HEARTH_TYPE_Q4_0, 33), 0);
    assert_int_equal(hearth_type_bytes(HEARTH_TYPE_Q4_0, 0), 0);
    assert_int_equal(hearth_type_bytes(5, 32), 0);
    assert_true(hearth_type_bytes(HEARTH_TYPE_F64, UINT64_MAX) == SIZE_MAX);
    assert_true(hearth_type_bytes(HEARTH_TYPE_F32, UINT64_MAX / 4 + 1) == SIZE_MAX);
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const struct hearth_type_info *info = hearth_type_info(type);
        if (!info)
            continue;
        assert_int_equal(hearth_type_by_name(info->name), type);
        assert_true(info->block_elems > 0 && info->block_elems <= 256 && info->block_bytes > 0);
        assert_true(!info->unpack == !info->unit_elems);
        if (info->unit_elems)
            assert_true(info->decode && info->block_elems % info->unit_elems == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_matches_reference),
        cmocka_unit_test(test_encode_matches_reference),
        cmocka_unit_test(test_f16_all),
        cmocka_unit_test(test_f16_rounding),
        cmocka_unit_test(test_bf16_all),
        cmocka_unit_test(test_small_blocks),
        cmocka_unit_test(test_unpack_agrees_with_decode),
        cmocka_unit_test(test_encode_is_idempotent),
        cmocka_unit_test(test_encode_error_bounds),
        cmocka_unit_test(test_k_encoders_match_the_references_error),
        cmocka_unit_test(test_other_encoders_error),
        cmocka_unit_test(test_encode_survives_anything),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_encode_without_vectors),
    };
    return cmocka_run_group_tests_name("quant", tests, NULL, NULL);
}
