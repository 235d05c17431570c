// SPDX-License-Identifier: MIT
// When steps guess: the fastest way is found by trying, slow ones are given up soon, and what has changed is found out.
#include "check.h"

#include "weights/guessing.h"

enum { LAYERS = 3 };

static uint64_t now;

// A step of so many tokens, in which each layer takes took[way] ns, and every fifth step three times as long.
static void step(struct hearth_guessing *g, const uint64_t *took, int n_tokens, bool alone)
{
    static int n_steps;
    const uint64_t layer = took[g->when] * (++n_steps % 5 ? 1 : 3);
    for (int i = 0; i < LAYERS; i++, now += layer)
        hearth_guessing_request(g, i, n_tokens, alone, now + 1);
}

static void steps(struct hearth_guessing *g, int n, const uint64_t *took)
{
    for (int i = 0; i < n; i++)
        step(g, took, 1, true);
}

static struct hearth_guessing all_ways(void)
{
    struct hearth_guessing g;
    hearth_guessing_begin(&g, true, true, true);
    return g;
}

static void test_fastest_is_found(void **state)
{
    (void)state;
    for (int fastest = 0; fastest < HEARTH_GUESSING_WAYS; fastest++) {
        uint64_t took[HEARTH_GUESSING_WAYS] = {1000, 1000, 1000};
        took[fastest] = 900;
        struct hearth_guessing g = all_ways();
        assert_int_equal(g.when, HEARTH_GUESS_EARLY);
        steps(&g, 3 * HEARTH_GUESSING_ROUNDS + 1, took);
        for (int i = 0; i < 100; i++, steps(&g, 1, took))
            assert_int_equal(g.when, fastest);
        assert_true(g.steps[fastest] >= 100);
    }
}

static void test_slow_ones_go_soon(void **state)
{
    (void)state;
    struct hearth_guessing g = all_ways();
    steps(&g, 100, (uint64_t[]){1000, 2000, 3000});
    assert_int_equal(g.steps[HEARTH_GUESS_LATE], 3);
    assert_int_equal(g.steps[HEARTH_GUESS_NEVER], 3);
    assert_int_equal(g.when, HEARTH_GUESS_EARLY);
}

// All alike: one is left, and nothing is written beyond the rounds.
static void test_equal_ways(void **state)
{
    (void)state;
    struct hearth_guessing g = all_ways();
    for (int i = 0; i < 1000; i++)
        for (int layer = 0; layer < LAYERS; layer++)
            hearth_guessing_request(&g, layer, 1, true, now += 1000);
    assert_int_equal(g.rounds, HEARTH_GUESSING_ROUNDS);
    assert_int_equal(g.when, HEARTH_GUESS_EARLY);
}

static void test_change_is_found(void **state)
{
    (void)state;
    struct hearth_guessing g = all_ways();
    steps(&g, 100, (uint64_t[]){1000, 1500, 2000});
    assert_int_equal(g.when, HEARTH_GUESS_EARLY);
    steps(&g, 1100, (uint64_t[]){2000, 1500, 1000});
    assert_int_equal(g.when, HEARTH_GUESS_NEVER);
}

// Ways that are not there are not tried.
static void test_few_ways(void **state)
{
    (void)state;
    struct hearth_guessing g;
    hearth_guessing_begin(&g, true, false, true);
    steps(&g, 2000, (uint64_t[]){2000, 1, 1000});
    assert_int_equal(g.steps[HEARTH_GUESS_LATE], 0);
    assert_int_equal(g.when, HEARTH_GUESS_NEVER);
    hearth_guessing_begin(&g, true, false, false);
    steps(&g, 2000, (uint64_t[]){2000, 1, 1});
    assert_int_equal(g.steps[HEARTH_GUESS_EARLY], 1999); // the first one tells how many layers there are
    hearth_guessing_begin(&g, false, false, true);
    steps(&g, 2000, (uint64_t[]){1, 1, 1000});
    assert_int_equal(g.when, HEARTH_GUESS_NEVER);
}

// A layer that asks several times is a part of its step.
static void test_layers_that_ask_twice(void **state)
{
    (void)state;
    struct hearth_guessing g = all_ways();
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < 2 * LAYERS; k++)
            hearth_guessing_request(&g, k / 2, 1, true, now += g.when == HEARTH_GUESS_LATE ? 1000 : 2000);
    assert_int_equal(g.when, HEARTH_GUESS_LATE);
    assert_int_equal(g.steps[HEARTH_GUESS_EARLY] + g.steps[HEARTH_GUESS_LATE] + g.steps[HEARTH_GUESS_NEVER],
                     99);
}

// Steps beside a prompt, and those of other numbers of tokens, are not compared with the rest.
static void test_other_steps(void **state)
{
    (void)state;
    struct hearth_guessing g = all_ways();
    for (int i = 0; i < 40; i++) {
        const int rounds = g.rounds;
        const enum hearth_guess_when when = g.when;
        step(&g, (uint64_t[]){1, 1, 1}, 1, false);
        assert_int_equal(g.when, when);
        assert_int_equal(g.rounds, rounds);
    }
    for (int i = 0; i < 200; i++)
        step(&g, (uint64_t[]){3000, 1000, 2000}, 4, true);
    assert_int_equal(g.when, HEARTH_GUESS_LATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fastest_is_found),
        cmocka_unit_test(test_slow_ones_go_soon),
        cmocka_unit_test(test_equal_ways),
        cmocka_unit_test(test_change_is_found),
        cmocka_unit_test(test_few_ways),
        cmocka_unit_test(test_other_steps),
        cmocka_unit_test(test_layers_that_ask_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
