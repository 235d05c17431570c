// SPDX-License-Identifier: MIT
// Samplers: what each one keeps, that draws follow the probabilities, that seeds repeat.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hearth.h"

enum { N = 8 };
// softmax: 0.42, 0.25, 0.15, 0.09, 0.06, 0.02, 0.004, 0.001 roughly, out of order on purpose
static const float logits[N] = {1.0f, 3.0f, 2.5f, 0.0f, 2.0f, 1.5f, -2.0f, -3.0f};

static struct hearth_sampler *open(struct hearth_sampler_params p)
{
    struct hearth_sampler *s = NULL;
    struct hearth_error err = {0};
    if (hearth_sampler_open(&s, N, &p, &err))
        fail_msg("%s", err.message);
    return s;
}

// No truncation, no penalties.
static struct hearth_sampler_params plain(uint32_t seed)
{
    struct hearth_sampler_params p = hearth_sampler_params_default();
    p.seed = seed;
    p.temp = 1.0f;
    p.top_k = 0;
    p.top_p = 1.0f;
    p.min_p = 0.0f;
    return p;
}

static void count(struct hearth_sampler_params p, int draws, int counts[N])
{
    struct hearth_sampler *s = open(p);
    memset(counts, 0, N * sizeof *counts);
    for (int i = 0; i < draws; i++)
        counts[hearth_sample(s, logits)]++;
    hearth_sampler_close(&s);
    assert_null(s);
}

// Draws agree with softmax(logits / temp) over the kept tokens (a chi-square test with a generous bound).
static void check_distribution(struct hearth_sampler_params p, const int *kept, int n_kept)
{
    enum { DRAWS = 40000 };
    int counts[N];
    count(p, DRAWS, counts);
    double sum = 0, chi2 = 0;
    for (int i = 0; i < n_kept; i++)
        sum += exp((double)(logits[kept[i]] / p.temp));
    for (int i = 0; i < n_kept; i++) {
        double want = DRAWS * exp((double)(logits[kept[i]] / p.temp)) / sum;
        chi2 += (counts[kept[i]] - want) * (counts[kept[i]] - want) / want;
        counts[kept[i]] = 0;
    }
    assert_true(chi2 < 35); // 7 degrees of freedom: exceeded once in 100,000 runs, and the seed is fixed
    for (int i = 0; i < N; i++)
        assert_int_equal(counts[i], 0);
}

static void test_plain(void **state)
{
    (void)state;
    check_distribution(plain(1), (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    struct hearth_sampler_params p = plain(2);
    p.temp = 0.5f;
    check_distribution(p, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    p.temp = 3.0f;
    check_distribution(p, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
}

static void test_truncation(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(3);
    p.top_k = 3;
    check_distribution(p, (int[]){1, 2, 4}, 3);
    p.top_k = 1;
    check_distribution(p, (int[]){1}, 1);

    p = plain(4);
    p.top_p = 0.6f; // 0.39 + 0.24 reach 0.63
    check_distribution(p, (int[]){1, 2}, 2);
    p.top_p = 0.0f; // always at least one
    check_distribution(p, (int[]){1}, 1);

    p = plain(5);
    p.min_p = 0.2f; // e^-1.5 = 0.223 stays, e^-2 = 0.135 goes
    check_distribution(p, (int[]){1, 2, 4, 5}, 4);

    // Truncation looks at the probabilities before the temperature.
    p.temp = 10.0f;
    check_distribution(p, (int[]){1, 2, 4, 5}, 4);

    p = plain(6); // top-p acts on what top-k left: 0.51, 0.31, 0.19
    p.top_k = 3;
    p.top_p = 0.8f;
    check_distribution(p, (int[]){1, 2}, 2);
}

static void test_greedy(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(7);
    p.temp = 0;
    struct hearth_sampler *s = open(p);
    assert_int_equal(hearth_sample(s, logits), 1);
    const float ties[N] = {1, 2, 2, 2, 0, 0, 0, 0};
    assert_int_equal(hearth_sample(s, ties), 1);
    const float nans[N] = {NAN, -5, NAN, -4, NAN, NAN, NAN, NAN};
    assert_int_equal(hearth_sample(s, nans), 3);
    hearth_sampler_close(&s);
}

static void test_penalties(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(8);
    p.temp = 0;
    p.repeat_penalty = 1.25f; // 3.0 -> 2.4, below 2.5
    p.repeat_last_n = 2;
    struct hearth_sampler *s = open(p);
    assert_int_equal(hearth_sample(s, logits), 1);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, logits), 2);
    hearth_sampler_accept(s, 2); // now 2.4 and 2.0: token 1 leads again
    assert_int_equal(hearth_sample(s, logits), 1);
    hearth_sampler_accept(s, 7);
    hearth_sampler_accept(s, 7); // both have left the window
    assert_int_equal(hearth_sample(s, logits), 1);
    hearth_sampler_close(&s);

    p.repeat_penalty = 1.0f;
    p.frequency_penalty = 0.3f; // two occurrences: 3.0 - 0.6 = 2.4
    p.repeat_last_n = -1;
    s = open(p);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, logits), 1);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, logits), 2);
    hearth_sampler_close(&s);

    p.frequency_penalty = 0;
    p.presence_penalty = 0.6f;
    s = open(p);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, logits), 2);
    hearth_sampler_close(&s);

    // A negative logit is pushed down by the repeat penalty, not up.
    const float negative[N] = {-9, -1, -1.1f, -9, -9, -9, -9, -9};
    p.presence_penalty = 0;
    p.repeat_penalty = 1.5f;
    s = open(p);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, negative), 2);
    hearth_sampler_close(&s);
}

static void test_seeds(void **state)
{
    (void)state;
    struct hearth_sampler *a = open(plain(42)), *b = open(plain(42)), *c = open(plain(43)),
                          *d = open(plain(UINT32_MAX));
    int same_c = 0;
    for (int i = 0; i < 200; i++) {
        hearth_token t = hearth_sample(a, logits);
        assert_int_equal(hearth_sample(b, logits), t);
        same_c += hearth_sample(c, logits) == t;
    }
    assert_true(same_c < 120); // sum of squared probabilities is 0.25
    assert_int_equal(hearth_sampler_seed(a), 42);
    assert_true(hearth_sampler_seed(d) != UINT32_MAX);
    hearth_sampler_close(&a);
    hearth_sampler_close(&b);
    hearth_sampler_close(&c);
    hearth_sampler_close(&d);
}

static void test_bad_params(void **state)
{
    (void)state;
    struct hearth_sampler *s = NULL;
    struct hearth_error err = {0};
    struct hearth_sampler_params p = plain(1);
    p.repeat_penalty = 0;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    p = plain(1);
    p.temp = NAN;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    p = plain(1);
    p.repeat_last_n = -2;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_sampler_open(&s, 0, NULL, &err), HEARTH_E_INVALID);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_greedy), cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_seeds),  cmocka_unit_test(test_bad_params),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
