// SPDX-License-Identifier: MIT
// Norms and activations: near the mathematical function, the same bits at every CPU level, nothing written
// beyond the end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kernels/kernels.h"

enum { MAX_N = 600, CANARY = 16 };

static const size_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 100, 257, 600};
static const enum hearth_activation activations[] = {HEARTH_ACT_SILU, HEARTH_ACT_RELU, HEARTH_ACT_DRELU,
                                                     HEARTH_ACT_GELU};
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static uint32_t state = 1;

static float uniform(float low, float high)
{
    state = state * 1664525u + 1013904223u;
    return low + (high - low) * (float)(state >> 8) / 16777216.0f;
}

// Ordinary values, and at one in eight places one of the awkward ones.
static void fill(float *x, size_t n, bool awkward)
{
    static const float odd[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,   1e-40f, -1e-40f, 13.2f, -13.2f,
                                13.21f, -13.21f, 88.8f,    -88.8f,    3e38f, -3e38f, 1e-20f,  6.0f,  -6.0f};
    for (size_t i = 0; i < n; i++)
        x[i] =
            awkward && state % 8 == 0 ? odd[(size_t)uniform(0, (float)COUNT(odd) - 0.01f)] : uniform(-8, 8);
}

static void guard(float *out)
{
    for (size_t i = 0; i < MAX_N + CANARY; i++)
        out[i] = 12345.0f;
}

// Same bits, but NaN is NaN: its sign and payload are the hardware's.
static void assert_same(const float *a, const float *b)
{
    for (size_t i = 0; i < MAX_N + CANARY; i++)
        if (!(isnan(a[i]) && isnan(b[i])))
            assert_memory_equal(&a[i], &b[i], sizeof *a);
}

static void against_c(const struct hearth_kernels *c, const struct hearth_kernels *v, size_t n, bool awkward)
{
    float x[MAX_N], w[MAX_N], b[MAX_N], want[MAX_N + CANARY], got[MAX_N + CANARY];
    fill(x, n, awkward);
    fill(w, n, awkward);
    fill(b, n, awkward);
    for (int bias = 0; bias < 2; bias++) {
        guard(want);
        guard(got);
        c->layer_norm(want, x, w, bias ? b : NULL, n, 1e-5f);
        v->layer_norm(got, x, w, bias ? b : NULL, n, 1e-5f);
        assert_same(got, want);
    }
    guard(want);
    guard(got);
    c->rms_norm(want, x, w, n, 1e-5f);
    v->rms_norm(got, x, w, n, 1e-5f);
    assert_same(got, want);
    for (size_t a = 0; a < COUNT(activations); a++) {
        guard(want);
        guard(got);
        c->glu(want, x, w, n, activations[a]);
        v->glu(got, x, w, n, activations[a]);
        assert_same(got, want);
        guard(want);
        guard(got);
        memcpy(want, x, n * sizeof *x);
        memcpy(got, x, n * sizeof *x);
        c->activate(want, n, activations[a]);
        v->activate(got, n, activations[a]);
        assert_same(got, want);
    }
}

static void test_levels(void **unused)
{
    (void)unused;
    static const char *const levels[] = {"avx2", "avx512"};
    struct hearth_kernels c;
    hearth_kernels_init(&c, 0);
    for (size_t l = 0; l < COUNT(levels); l++) {
        unsigned flags;
        if (!hearth_cpu_limit(levels[l], &flags))
            continue;
        struct hearth_kernels v;
        hearth_kernels_init(&v, flags);
        for (int round = 0; round < 200; round++)
            for (size_t i = 0; i < COUNT(lengths); i++)
                against_c(&c, &v, lengths[i], round % 2);
    }
}

static void test_gelu(void **unused)
{
    (void)unused;
    double worst[2] = {0, 0};
    for (float x = -13.19f; x < 14.0f; x += 0.00037f) {
        double want = 0.5 * x * erfc(-(double)x / sqrt(2.0)), got = (double)hearth_gelu(x);
        double error = fabs(got - want) / fabs(want);
        worst[x > 0] = error > worst[x > 0] ? error : worst[x > 0];
    }
    print_message("GELU: relative error %.1e left of 0, %.1e right of it\n", worst[0], worst[1]);
    assert_true(worst[0] < 5e-6);
    assert_true(worst[1] < 5e-7);
    assert_true(hearth_gelu(0.0f) == 0.0f && hearth_gelu(-INFINITY) == 0.0f && hearth_gelu(-3e38f) == 0.0f);
    assert_true(hearth_gelu(INFINITY) == INFINITY && hearth_gelu(3e38f) == 3e38f && isnan(hearth_gelu(NAN)));
}

static void test_layer_norm(void **unused)
{
    (void)unused;
    struct hearth_kernels c;
    hearth_kernels_init(&c, 0);
    float x[MAX_N], w[MAX_N], b[MAX_N], out[MAX_N];
    for (size_t l = 0; l < COUNT(lengths); l++) {
        const size_t n = lengths[l];
        fill(x, n, false);
        fill(w, n, false);
        fill(b, n, false);
        double mean = 0, var = 0;
        for (size_t i = 0; i < n; i++)
            mean += (double)x[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        c.layer_norm(out, x, w, b, n, 1e-5f);
        for (size_t i = 0; i < n; i++) {
            double want = ((double)x[i] - mean) / sqrt(var + 1e-5) * (double)w[i] + (double)b[i];
            assert_true(fabs((double)out[i] - want) < 2e-5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels), cmocka_unit_test(test_gelu),
                                       cmocka_unit_test(test_layer_norm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
