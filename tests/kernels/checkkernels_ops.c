// SPDX-License-Identifier: MIT
// checkkernels: the checks. Each draws shapes and inputs at random, runs the reference and every variant on
// guarded memory, and compares bits; the reference itself is compared with double precision.
#include "checkkernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(HEARTH_TILES_MODEL)
#include "kernels/x86/variants_x86.h"
#endif

static const uint32_t types[] = {
    HEARTH_TYPE_F32,   HEARTH_TYPE_F16,     HEARTH_TYPE_BF16,  HEARTH_TYPE_Q4_0,    HEARTH_TYPE_Q4_1,
    HEARTH_TYPE_Q5_0,  HEARTH_TYPE_Q5_1,    HEARTH_TYPE_Q8_0,  HEARTH_TYPE_Q2_K,    HEARTH_TYPE_Q3_K,
    HEARTH_TYPE_Q4_K,  HEARTH_TYPE_Q5_K,    HEARTH_TYPE_Q6_K,  HEARTH_TYPE_IQ4_NL,  HEARTH_TYPE_IQ4_XS,
    HEARTH_TYPE_MXFP4, HEARTH_TYPE_IQ1_S,   HEARTH_TYPE_IQ1_M, HEARTH_TYPE_IQ2_XXS, HEARTH_TYPE_IQ2_XS,
    HEARTH_TYPE_IQ2_S, HEARTH_TYPE_IQ3_XXS, HEARTH_TYPE_IQ3_S, HEARTH_TYPE_TQ1_0,   HEARTH_TYPE_TQ2_0,
    HEARTH_TYPE_Q1_0,  HEARTH_TYPE_Q2_0,    HEARTH_TYPE_NVFP4};
#define N_TYPES (sizeof types / sizeof types[0])

// ---- exp

void check_exp(void)
{
    double worst = 0;
    for (int i = 0; i < 2000000; i++) {
        uint32_t bits = check_random();
        float x;
        memcpy(&x, &bits, sizeof x);
        if (i % 4) // most of them where it matters
            x = ((float)bits / 4294967296.0f - 0.5f) * 180.0f;
        float y = hearth_exp(x);
        double want = exp((double)x);
        if (isnan(x) ? !isnan(y) : x > 88.7f ? y != INFINITY : x < -87.3f ? y != 0 : false)
            check_fail("exp(%.9g) = %.9g", (double)x, (double)y);
        if (!(x > -87.3f && x < 88.7f))
            continue;
        double error = fabs((double)y / want - 1);
        worst = error > worst ? error : worst;
    }
    printf("exp: relative error at most %.2e\n", worst);
    if (worst >= 2e-7)
        check_fail("exp: relative error %.3e", worst);
}

// ---- matrix products

struct shape {
    uint32_t type;
    size_t k, rows, tokens, w_stride, x_stride, out_stride;
    bool block;
};

static struct shape draw_shape(uint32_t type)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    struct shape s = {.type = type, .block = info->unit_elems != 0};
    s.k = s.block ? info->block_elems * (1 + check_below(info->block_elems == 32 ? 72 : 9))
                  : 1 + check_below(700);
    s.rows = 1 + check_below(check_below(3) ? 20 : 70);
    s.tokens = 1 + check_below(check_below(3) ? 6 : 40);
    if (s.block && !check_below(16)) { // a row that is longer than the caches like
        s.k = (8192 + check_below(12288)) / info->block_elems * info->block_elems;
        s.rows = 1 + check_below(60);
        s.tokens = 1 + check_below(2);
    }
    s.w_stride = hearth_type_bytes(type, s.k) + (check_below(2) ? 0 : 2 * check_below(40));
    s.x_stride = s.block ? hearth_acts_bytes(s.k) : (s.k + check_below(5)) * sizeof(float);
    s.out_stride = s.rows + check_below(9);
    return s;
}

// The reference against double precision: what the activations stand for, times the decoded weights.
static void check_reference(const struct shape *s, bool step, const uint8_t *w, const uint8_t *x,
                            const float *out, const char *name)
{
    const bool both = step || hearth_prompt_planes(s->type) == 2;
    float *row = malloc(s->k * sizeof *row);
    for (size_t r = 0; r < s->rows; r++) {
        hearth_type_info(s->type)->decode(w + r * s->w_stride, row, s->k);
        for (size_t t = 0; t < s->tokens; t++) {
            const uint8_t *token = x + t * s->x_stride;
            struct hearth_acts a = hearth_acts_view(token, s->k);
            double dot = 0, size = 0;
            for (size_t i = 0; i < s->k; i++) {
                float plain = 0;
                if (!s->block)
                    memcpy(&plain, token + i * sizeof plain, sizeof plain);
                double v =
                    s->block ? (double)a.d[i / 32] * (128 * a.hi[i] + (both ? a.lo[i] : 0)) : (double)plain;
                dot += (double)row[i] * v;
                size += fabs((double)row[i] * v);
            }
            // Formats with a minimum cancel: scale * q and min may each be far larger than the weight.
            double allowed = (hearth_type_info(s->type)->has_min ? 1e-3 : 3e-6) * size + 1e-30;
            if (!(fabs((double)out[t * s->out_stride + r] - dot) <= allowed)) {
                check_fail("%s: the reference gives %.9g, double precision %.9g (k %zu)", name,
                           (double)out[t * s->out_stride + r], dot, s->k);
                free(row);
                return;
            }
        }
    }
    free(row);
}

static void check_one_matmul(const struct shape *shape, bool step)
{
    const struct shape s = *shape;
    const uint32_t type = s.type;
    const bool at_start = !check_below(4);
    const size_t w_bytes = (s.rows - 1) * s.w_stride + hearth_type_bytes(type, s.k);
    const size_t out_n = (s.tokens - 1) * s.out_stride + s.rows;
    uint8_t *w = check_guarded(w_bytes, at_start);
    check_fill_weights(type, w, s.w_stride, s.k, s.rows);

    uint8_t *x;
    if (s.block) {
        x = check_guarded(s.x_stride * s.tokens, false); // aligned, being a multiple of 64
        float *plain = malloc(s.k * sizeof *plain);
        for (size_t t = 0; t < s.tokens; t++) {
            check_fill(plain, s.k);
            check_levels[0].k.quantize_acts(x + t * s.x_stride, plain, s.k);
        }
        free(plain);
    } else {
        x = check_guarded((s.tokens - 1) * s.x_stride + s.k * sizeof(float), at_start);
        for (size_t t = 0; t < s.tokens; t++)
            check_fill((float *)(void *)(x + t * s.x_stride), s.k);
    }
#if defined(HEARTH_TILES_MODEL)
    hearth_kernels_walk_avx512((enum hearth_row_walk)check_below(3)); // whatever this CPU would have
#endif
    float *want = NULL;
    void *scratch = check_guarded(check_scratch(s.k), false);
    char name[96];
    snprintf(name, sizeof name, "%s %s k %zu rows %zu tokens %zu stride %zu", step ? "step" : "prompt",
             hearth_type_info(type)->name, s.k, s.rows, s.tokens, s.w_stride);
    for (int l = 0; l < check_n_levels; l++) {
        hearth_matmul_fn fn = (step ? check_levels[l].k.step : check_levels[l].k.prompt)[type];
        if (!fn) {
            check_fail("%s: no kernel", name);
            continue;
        }
        float *out = check_guarded(out_n * sizeof *out, false);
        for (size_t i = 0; i < out_n; i++)
            out[i] = -7.0f;
        memset(scratch, CHECK_CANARY, check_scratch(s.k)); // which no sum may begin with
        fn(out, s.out_stride, w, s.w_stride, s.k, s.rows, x, s.x_stride, s.tokens, scratch);
        for (size_t i = 0; i < out_n; i++)
            if (i % s.out_stride >= s.rows && out[i] != -7.0f)
                check_fail("%s: %s writes between rows of outputs", name, check_levels[l].name);
        if (!want) {
            want = out;
            check_reference(&s, step, w, x, out, name);
        } else {
            check_same(name, check_levels[l].name, out, want, out_n);
        }
    }
    check_free_all();
}

// A step of so many tokens with rows of k elements, and numbers of rows on both sides of what kernels take together.
static void check_edge(uint32_t type, size_t tokens, size_t k)
{
    static const size_t rows[] = {1, 15, 16, 17, 31, 32, 33, 47, 49};
    const size_t n_rows = sizeof rows / sizeof rows[0];
    struct shape s = draw_shape(type);
    s.k = k;
    s.tokens = tokens;
    s.rows = rows[(tokens + check_below(2)) % n_rows];
    s.w_stride = hearth_type_bytes(type, s.k) + (tokens % 2 ? 0 : 2 * check_below(40));
    s.x_stride = s.block ? hearth_acts_bytes(s.k) : s.k * sizeof(float);
    s.out_stride = s.rows + check_below(9);
    check_one_matmul(&s, true);
}

// Every number of tokens up to where kernels begin anew, with rows long enough for all ways of computing
// them, which end anywhere in a group of units, and with short ones, whose ends go together. Or every third
// number, not the same for each format.
static void check_edges(uint32_t type, size_t every)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t block = info->unit_elems ? info->block_elems : 1;
    for (size_t tokens = 1 + type % every; tokens <= 34; tokens += every) {
        // So long now and then that the scratch is all these kernels', and full.
        check_edge(type, tokens, tokens % 8 ? 1024 + block * check_below(block == 256 ? 4 : 17) : 9216);
        check_edge(type, tokens, block * (1 + check_below(1023 / block)));
    }
    check_edge(type, 6, 9216);
}

void check_matmul(int rounds)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        check_edges(types[i], rounds > 1 ? 1 : 3);
        for (int r = 0; r < rounds; r++) {
            const struct shape s = draw_shape(types[i]);
            check_one_matmul(&s, r % 3 != 0);
        }
    }
    printf("matmul: %zu formats, %d shapes each, steps of 1 to 34 tokens\n", N_TYPES, rounds);
}

// ---- axpy

static void check_one_axpy(uint32_t type)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t n = info->unit_elems ? info->block_elems * (1 + check_below(5)) : 1 + check_below(200);
    const size_t rows = 1 + check_below(70), stride = hearth_type_bytes(type, n) + 2 * check_below(10);
    uint8_t *w = check_guarded((rows - 1) * stride + hearth_type_bytes(type, n), !check_below(4));
    check_fill_weights(type, w, stride, n, rows);
    float *p = check_guarded(rows * sizeof *p, false), *start = malloc(n * sizeof *start), *want = NULL;
    check_fill(start, n);
    for (size_t r = 0; r < rows; r++)
        p[r] = check_below(4) ? (float)check_random() / 4294967296.0f : 0.0f;
    char name[64];
    snprintf(name, sizeof name, "axpy %s n %zu rows %zu", info->name, n, rows);
    for (int l = 0; l < check_n_levels; l++) {
        float *out = check_guarded(n * sizeof *out, false);
        memcpy(out, start, n * sizeof *out);
        check_levels[l].k.axpy[type](out, w, stride, n, rows, p);
        if (want) {
            check_same(name, check_levels[l].name, out, want, n);
            continue;
        }
        want = out;
        float *row = malloc(n * sizeof *row);
        double *sum = calloc(n, sizeof *sum), *size = calloc(n, sizeof *size);
        for (size_t r = 0; r < rows; r++) {
            info->decode(w + r * stride, row, n);
            for (size_t i = 0; i < n; i++) {
                sum[i] += (double)p[r] * (double)row[i];
                size[i] += fabs((double)p[r] * (double)row[i]) + (info->has_min ? 1000.0 : 0.0);
            }
        }
        for (size_t i = 0; i < n; i++)
            if (!(fabs((double)out[i] - (double)start[i] - sum[i]) <=
                  1e-5 * (size[i] + fabs((double)start[i])) + 1e-30)) {
                check_fail("%s: the reference gives %.9g, double precision %.9g", name, (double)out[i],
                           (double)start[i] + sum[i]);
                break;
            }
        free(row);
        free(sum);
        free(size);
    }
    free(start);
    check_free_all();
}

void check_axpy(int rounds)
{
    for (size_t i = 0; i < N_TYPES; i++)
        for (int r = 0; r < rounds / 3 + 1; r++)
            check_one_axpy(types[i]);
    printf("axpy: %zu formats, %d shapes each\n", N_TYPES, rounds / 3 + 1);
}

// ---- vector operations

// Guarded copy of x.
static float *copy(const float *x, size_t n)
{
    float *c = check_guarded(n * sizeof *c, false);
    memcpy(c, x, n * sizeof *c);
    return c;
}

static void close_to(const char *what, size_t i, float got, double want, double allowed)
{
    if (!(fabs((double)got - want) <= allowed))
        check_fail("%s: the reference gives %.9g at %zu, double precision %.9g", what, (double)got, i, want);
}

static void check_quantize(const float *x, size_t n)
{
    const size_t bytes = hearth_acts_bytes(n);
    uint8_t *want = NULL;
    for (int l = 0; l < check_n_levels; l++) {
        uint8_t *block = check_guarded(bytes, false);
        check_levels[l].k.quantize_acts(block, copy(x, n), n);
        if (want) {
            if (memcmp(block, want, bytes) != 0)
                check_fail("quantize_acts: %s differs from the reference (k %zu)", check_levels[l].name, n);
            continue;
        }
        want = block;
        struct hearth_acts a = hearth_acts_view(block, n);
        for (size_t u = 0; u < hearth_acts_padded(n) / 16; u++) {
            int32_t sum = 0, bias = 0;
            for (size_t i = 16 * u; i < 16 * u + 16; i++) {
                int32_t q = 128 * a.hi[i] + a.lo[i];
                sum += q;
                bias -= 128 * a.hi[i];
                if (i < n)
                    close_to("quantize_acts", i, a.d[i / 32] * (float)q, (double)x[i],
                             0.503 * (double)a.d[i / 32] + 5e-35);
                else if (q)
                    check_fail("quantize_acts: padding is not zero");
            }
            if (sum != a.sum[u] || bias != a.bias[u])
                check_fail("quantize_acts: sums %d and %d are not %d and %d", a.sum[u], a.bias[u], sum, bias);
        }
    }
}

static void check_norm(const float *x, const float *w, size_t n)
{
    float *want = NULL;
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    double scale = 1 / sqrt(squares / (double)n + 1e-5);
    for (int l = 0; l < check_n_levels; l++) {
        float *out = copy(x, n);
        check_levels[l].k.rms_norm(out, out, copy(w, n), n, 1e-5f);
        if (want)
            check_same("rms_norm", check_levels[l].name, out, want, n);
        else
            for (size_t i = 0; i < n; i++)
                close_to("rms_norm", i, out[i], (double)x[i] * scale * (double)w[i],
                         1e-5 * fabs((double)x[i] * scale * (double)w[i]) + 3e-45 * fabs((double)w[i]) +
                             1e-37);
        want = want ? want : out;
    }
}

// Deviations from the mean lose what the mean is larger than they are.
static void check_layer_norm(const float *x, const float *w, const float *b, size_t n)
{
    float *want[2] = {NULL, NULL};
    double mean = 0, var = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        mean += (double)x[i] / (double)n;
        largest = fmax(largest, fabs((double)x[i]));
    }
    for (size_t i = 0; i < n; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    const double scale = 1 / sqrt(var + 1e-5);
    for (int l = 0; l < check_n_levels; l++)
        for (int bias = 0; bias < 2; bias++) {
            float *out = copy(x, n);
            check_levels[l].k.layer_norm(out, out, copy(w, n), bias ? copy(b, n) : NULL, n, 1e-5f);
            if (want[bias]) {
                check_same("layer_norm", check_levels[l].name, out, want[bias], n);
                continue;
            }
            want[bias] = out;
            for (size_t i = 0; i < n; i++) {
                const double normed = ((double)x[i] - mean) * scale, add = bias ? (double)b[i] : 0;
                close_to("layer_norm", i, out[i], normed * (double)w[i] + add,
                         (1e-5 * fabs(normed) + 3e-6 * largest * scale + 3e-45) * fabs((double)w[i]) +
                             1e-7 * fabs(add) + 1e-37);
            }
        }
}

// What an activation gives, and how far from it a kernel may be.
static double activated(enum hearth_activation act, double x, double *within)
{
    double slope;
    *within = 2e-6 * fabs(x);
    switch (act) {
    case HEARTH_ACT_SILU: // where exp overflows, 0 instead of a number of no weight
        *within += x < -80 ? 1e-30 : 0;
        return x / (1 + exp(-x));
    case HEARTH_ACT_GELU: // 0 from -13.2 down
        *within = 5e-6 * fabs(0.5 * x * erfc(-x * 0.70710678118654752)) + 1e-37;
        return x < -13.2 ? 0 : 0.5 * x * erfc(-x * 0.70710678118654752);
    case HEARTH_ACT_GELU_TANH: // a rounding of what goes into exp counts as often as that is large
        slope = 0.7978845608028654 * (x + 0.044715 * x * x * x);
        *within =
            (2e-6 + 3e-7 * fabs(slope)) * fabs(x / (1 + exp(-2 * slope))) + (2 * slope < -80 ? 1e-30 : 0);
        return x / (1 + exp(-2 * slope));
    case HEARTH_ACT_SWIGLU_CLAMPED:
        x = x > 7 ? 7 : x;
        *within = (2e-6 + 3e-7 * fabs(x)) * fabs(x) + (x < -45 ? 1e-30 : 0);
        return x / (1 + exp(-1.702 * x));
    case HEARTH_ACT_SIGMOID:
        *within = (2e-6 + 3e-7 * fabs(x)) / (1 + exp(-x)) + (x < -80 ? 1e-30 : 0);
        return 1 / (1 + exp(-x));
    case HEARTH_ACT_JUMP_RELU:
        *within += 2e-6;
        return x > 0 ? x + 1 : 0;
    case HEARTH_ACT_RELU_SQUARED:
        *within = 2e-7 * x * x;
        return x > 0 ? x * x : 0;
    case HEARTH_ACT_RELU:
    case HEARTH_ACT_DRELU:
        break;
    }
    return x > 0 ? x : 0;
}

static void check_activate(const float *x, size_t n)
{
    for (enum hearth_activation act = HEARTH_ACT_SILU; act < HEARTH_ACTS_END; act++) {
        float *want = NULL;
        for (int l = 0; l < check_n_levels; l++) {
            float *out = copy(x, n);
            check_levels[l].k.activate(out, n, act);
            if (want)
                check_same("activate", check_levels[l].name, out, want, n);
            want = want ? want : out;
        }
        for (size_t i = 0; i < n; i++) {
            double within, value = activated(act, (double)x[i], &within);
            close_to("activate", i, want[i], value, within + 1e-37);
        }
    }
}

// Infinities, NaN and the borders of the functions: all levels alike, and of the right kind.
static void check_activate_borders(void)
{
    const float x[] = {INFINITY, -INFINITY, NAN,   0.0f,   -0.0f,  13.2f,   -13.2f, 13.2001f, -13.2001f,
                       88.8f,    -88.8f,    3e38f, -3e38f, 1e-40f, -1e-40f, 1e-20f, -1e-20f};
    const size_t n = sizeof x / sizeof x[0];
    for (enum hearth_activation act = HEARTH_ACT_SILU; act < HEARTH_ACTS_END; act++) {
        float *want = NULL;
        for (int l = 0; l < check_n_levels; l++) {
            float *out = copy(x, n);
            check_levels[l].k.activate(out, n, act);
            want = want ? want : out;
            for (size_t i = 0; i < n; i++)
                if (!(isnan(out[i]) && isnan(want[i])))
                    check_same("activate at a border", check_levels[l].name, out + i, want + i, 1);
            const bool clamped = act == HEARTH_ACT_SWIGLU_CLAMPED || act == HEARTH_ACT_SIGMOID;
            const float large = act == HEARTH_ACT_RELU_SQUARED ? INFINITY : 3e38f;
            if (out[0] != (clamped ? want[0] : INFINITY) || out[11] != (clamped ? want[0] : large) ||
                (act == HEARTH_ACT_GELU && !isnan(out[2])))
                check_fail("activate: %s gives %g, %g, %g for inf, 3e38, NaN", check_levels[l].name,
                           (double)out[0], (double)out[11], (double)out[2]);
        }
    }
    for (float at = -13.19f; at < 14.0f; at += 0.0037f) {
        double within, value = activated(HEARTH_ACT_GELU, (double)at, &within);
        close_to("gelu", 0, hearth_gelu(at), value, at < 0 ? within : 5e-7 * value);
    }
}

static void check_glu(const float *gate, const float *up, size_t n)
{
    for (enum hearth_activation act = HEARTH_ACT_SILU; act < HEARTH_ACTS_END; act++) {
        float *want = NULL;
        for (int l = 0; l < check_n_levels; l++) {
            float *out = copy(gate, n);
            check_levels[l].k.glu(out, out, copy(up, n), n, act);
            if (want) {
                check_same("glu", check_levels[l].name, out, want, n);
                continue;
            }
            want = out;
            for (size_t i = 0; i < n; i++) {
                double g = (double)gate[i], u = (double)up[i];
                double within;
                g = activated(act, g, &within);
                u = act == HEARTH_ACT_DRELU && u < 0 ? 0 : u;
                u = act == HEARTH_ACT_SWIGLU_CLAMPED ? fmin(fmax(u, -7), 7) + 1 : u;
                // Where exp overflows, it is 0 instead of a number of no weight.
                const bool overflows = act == HEARTH_ACT_SILU || act >= HEARTH_ACT_GELU_TANH;
                if (overflows && gate[i] < (act == HEARTH_ACT_SILU ? -80 : -5))
                    continue;
                // A denormal g is rounded to a multiple of 1.4e-45 before it meets u.
                close_to("glu", i, out[i], g * u, 5e-6 * fabs(g * u) + 3e-45 * fabs(u) + 1e-37);
            }
        }
    }
}

static void check_rope(void)
{
    const size_t heads = 1 + check_below(5), dim = 2 * (1 + check_below(70)), n = heads * dim;
    const size_t rot = 2 * (1 + check_below(dim / 2));
    float *x = malloc(n * sizeof *x), table[256];
    check_fill(x, n);
    for (size_t i = 0; i < rot / 2; i++) {
        float angle = (float)check_random() / 1e6f;
        table[i] = cosf(angle);
        table[rot / 2 + i] = sinf(angle);
    }
    for (int neox = 0; neox < 2; neox++) {
        float *want = NULL;
        for (int l = 0; l < check_n_levels; l++) {
            float *out = copy(x, n);
            check_levels[l].k.rope(out, copy(table, rot), heads, dim, rot, neox != 0);
            if (want) {
                check_same("rope", check_levels[l].name, out, want, n);
                continue;
            }
            want = out;
            for (size_t i = 0; i < n; i++) {
                const size_t at = i % dim, pair = neox ? at % (rot / 2) : at / 2;
                const bool second = neox ? at >= rot / 2 : at % 2;
                const size_t other = second ? i - (neox ? rot / 2 : 1) : i + (neox ? rot / 2 : 1);
                double v = (double)x[i];
                if (at < rot)
                    v = (double)x[i] * (double)table[pair] +
                        (second ? 1 : -1) * (double)x[other] * (double)table[rot / 2 + pair];
                double size = at < rot ? fabs((double)x[i]) + fabs((double)x[other]) : 0;
                close_to("rope", i, out[i], v, 3e-7 * size + 1e-37);
            }
        }
    }
    free(x);
}

static void check_softmax(const float *x, size_t n)
{
    float *want = NULL, want_sum = 0, want_max = 0;
    const float scale = 0.1f;
    n = n < 512 ? n : 512;
    for (int l = 0; l < check_n_levels; l++) {
        float *out = copy(x, n), sum;
        float max = check_levels[l].k.softmax_tile(out, n, scale, &sum);
        if (want) {
            check_same("softmax_tile", check_levels[l].name, out, want, n);
            check_same("softmax_tile's sum", check_levels[l].name, &sum, &want_sum, 1);
            if (max != want_max)
                check_fail("softmax_tile: %s gives the maximum %g, not %g", check_levels[l].name, (double)max,
                           (double)want_max);
            continue;
        }
        want = out;
        want_sum = sum;
        want_max = max;
        double total = 0;
        for (size_t i = 0; i < n; i++) {
            // The argument is rounded twice before exp, which magnifies that by its size.
            double argument = (double)x[i] * (double)scale - (double)max, e = exp(argument);
            total += e;
            close_to("softmax_tile", i, out[i], e,
                     (3e-7 + 3e-7 * (fabs((double)x[i]) + fabs((double)max))) * e + 1.3e-38);
        }
        close_to("softmax_tile's sum", 0, sum, total, (1e-6 + 3e-7 * 2 * fabs((double)max)) * total);
    }
}

static void check_add_and_scale(const float *x, const float *y, size_t n)
{
    float *want_add = NULL, *want_scale = NULL;
    for (int l = 0; l < check_n_levels; l++) {
        float *added = copy(x, n), *scaled = copy(x, n);
        check_levels[l].k.add(added, copy(y, n), n);
        check_levels[l].k.scale_add(scaled, 0.7f, copy(y, n), -1.3f, n);
        if (want_add) {
            check_same("add", check_levels[l].name, added, want_add, n);
            check_same("scale_add", check_levels[l].name, scaled, want_scale, n);
            continue;
        }
        want_add = added;
        want_scale = scaled;
        for (size_t i = 0; i < n; i++) {
            double size = fabs((double)x[i]) + fabs((double)y[i]);
            close_to("add", i, added[i], (double)x[i] + (double)y[i], 1e-7 * size + 1e-44);
            close_to("scale_add", i, scaled[i], (double)x[i] * (double)0.7f + (double)y[i] * (double)-1.3f,
                     3e-7 * size + 1e-44);
        }
    }
}

// A token past some rows of a state, in place or not, against double precision.
enum rule { RULE_DELTA, RULE_EACH, RULE_SCAN, RULES };

// How much of the keys a row of a head's state becomes more by, and what stays of it, in `kept`.
static double change_of(const float *row, float v, const struct hearth_delta *d, enum rule rule, double *kept)
{
    double s = 0;
    for (size_t i = 0; i < d->dim; i++) {
        kept[i] = (double)row[i] * (double)(rule == RULE_EACH ? d->decays[i] : d->decay);
        s += kept[i] * (double)d->k[i];
    }
    return (double)d->beta * ((double)v - (rule == RULE_SCAN ? 0 : s));
}

static void check_rule(enum rule rule)
{
    static const char *const names[] = {"delta", "delta_each", "scan"};
    const size_t dim = 16 * (1 + check_below(10)), n = 1 + check_below(9), rows = n < dim ? n : dim;
    float *from = malloc(dim * n * sizeof *from), *q = malloc(4 * dim * sizeof *q), *want = NULL;
    double *kept = malloc(dim * sizeof *kept);
    for (size_t i = 0; i < dim * n; i++)
        from[i] = (float)check_below(2001) / 1000.0f - 1.0f;
    for (size_t i = 0; i < 4 * dim; i++)
        q[i] = i < 3 * dim ? (float)check_below(2001) / 1000.0f - 1.0f : (float)check_below(1001) / 1000.0f;
    const float *k = q + dim, *v = k + dim;
    const struct hearth_delta d = {.q = copy(q, dim),
                                   .k = copy(k, dim),
                                   .dim = dim,
                                   .decay = (float)check_below(1001) / 1000.0f,
                                   .beta = (float)check_below(1001) / 1000.0f,
                                   .decays = copy(v + dim, dim)};
    for (int l = 0; l < check_n_levels; l++)
        for (int in_place = 0; in_place < 2; in_place++) {
            // The state, then the outputs.
            const struct hearth_kernels *kernels = &check_levels[l].k;
            float *to = copy(from, dim * n), *out = copy(v, rows);
            (rule == RULE_DELTA  ? kernels->delta
             : rule == RULE_EACH ? kernels->delta_each
                                 : kernels->scan)(out, to, in_place ? to : copy(from, dim * n),
                                                  in_place ? out : copy(v, rows), rows, &d);
            float *all = malloc((dim * n + rows) * sizeof *all);
            memcpy(all, to, dim * n * sizeof *all);
            memcpy(all + dim * n, out, rows * sizeof *all);
            if (want)
                check_same(names[rule], check_levels[l].name, all, want, dim * rows + rows);
            else
                want = copy(all, dim * n + rows);
            free(all);
        }
    for (size_t r = 0; r < rows; r++) {
        double o = 0;
        const double change = change_of(from + r * dim, v[r], &d, rule, kept);
        for (size_t i = 0; i < dim; i++) {
            const double to = kept[i] + (double)k[i] * change;
            close_to("a rule's state", r * dim + i, want[r * dim + i], to, 1e-5 * (1 + fabs(change)));
            o += to * (double)q[i];
        }
        close_to(names[rule], r, want[dim * n + r], o, 2e-5 * (double)dim);
    }
    free(from);
    free(q);
    free(kept);
}

void check_vector(int rounds)
{
    for (int r = 0; r < rounds; r++) {
        const size_t n = 1 + check_below(r % 5 ? 130 : 3000);
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
        check_fill(x, n);
        check_fill(y, n);
        check_quantize(x, n);
        check_free_all();
        for (size_t i = 0; i < n; i++) // squares of huge ones overflow, which is not what is checked here
            x[i] = fabsf(x[i]) > 1e10f ? 1e10f : x[i];
        check_norm(x, y, n);
        check_free_all();
        check_layer_norm(x, y, y, n);
        check_free_all();
        check_activate(x, n);
        check_free_all();
        check_glu(x, y, n);
        check_free_all();
        for (size_t i = 0; i < n; i++)
            x[i] = fabsf(x[i]) > 300.0f ? 300.0f : x[i];
        check_softmax(x, n);
        check_free_all();
        check_add_and_scale(x, y, n);
        check_free_all();
        check_rope();
        check_free_all();
        for (enum rule rule = RULE_DELTA; rule < RULES; rule++) {
            check_rule(rule);
            check_free_all();
        }
        free(x);
        free(y);
    }
    check_activate_borders();
    check_free_all();
    printf(
        "vector: quantize_acts, norms, activations, glu, rope, softmax_tile, add, scale_add, delta, delta_each, scan: %d shapes "
        "each\n",
        rounds);
}
