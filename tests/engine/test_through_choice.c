// SPDX-License-Identifier: MIT
// Whether prompts go through a device: with sides of any speed, each number of rows comes to the faster one after few
// evaluations, stays there, and comes back where speeds change.
#include "check.h"

#include "engine/through_choice.h"

enum { LAYERS = 30 };

// ns of a layer: the CPU's for a row, the device's for copies and for a row.
struct sides {
    double cpu, copy, row;
};

static double device_of(const struct sides *x, int rows)
{
    const double computed = x->row * rows;
    return computed > x->copy ? computed : x->copy;
}

// Time of n evaluations; *through: how many of them went to the device.
static double run(struct hearth_through_choice *c, const struct sides *x, int rows, int n, int *through)
{
    double sum = 0;
    *through = 0;
    for (int i = 0; i < n; i++) {
        const int from = hearth_through_choice_of(c, rows, LAYERS);
        const double cpu = x->cpu * rows * from, device = device_of(x, rows) * (LAYERS - from);
        assert_in_range(from, 0, LAYERS);
        if (from)
            hearth_through_choice_note(c, rows, false, from, (uint64_t)cpu);
        if (from < LAYERS)
            hearth_through_choice_note(c, rows, true, LAYERS - from, (uint64_t)device);
        *through += from < LAYERS;
        sum += cpu + device;
    }
    return sum;
}

static double best_of(const struct sides *x, int rows)
{
    const double cpu = x->cpu * rows, device = device_of(x, rows);
    return LAYERS * (device < cpu ? device : cpu);
}

static void test_sides(void **state)
{
    (void)state;
    static const struct sides all[] = {
        {1e6, 5e6, 1e4},  // a GPU
        {1e6, 2e8, 1e5},  // far away: only many rows are worth the way
        {1e5, 1e9, 1e5},  // too far
        {1e6, 1e5, 2e6},  // slower than the CPU
        {1e6, 1e5, 99e4}, // as fast
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int rows = HEARTH_THROUGH_ROWS; rows <= 4096; rows *= 2) {
            struct hearth_through_choice c;
            int through;
            hearth_through_choice_init(&c);
            run(&c, &all[i], rows, 1, &through);
            assert_int_equal(through, 1); // nothing is known, so it is tried
            const double t = run(&c, &all[i], rows, 1000, &through);
            assert_true(t <= best_of(&all[i], rows) * 1000 * 1.03);
        }
}

// What few rows took tells what more of them take at least: no trial is lost on that.
static void test_bound(void **state)
{
    (void)state;
    const struct sides far = {1e5, 1e9, 1e2};
    struct hearth_through_choice c;
    int through;
    hearth_through_choice_init(&c);
    run(&c, &far, 64, 1, &through);
    assert_int_equal(through, 1);
    for (int rows = 128; rows <= 8192; rows *= 2) {
        run(&c, &far, rows, 1, &through);
        assert_int_equal(through, 0);
    }
    run(&c, &far, 32768, 1, &through); // where it may be worth the way
    assert_int_equal(through, 1);
}

static void test_few_rows(void **state)
{
    (void)state;
    struct hearth_through_choice c;
    int through;
    hearth_through_choice_init(&c);
    const struct sides gpu = {1e6, 1, 1};
    run(&c, &gpu, HEARTH_THROUGH_ROWS - 1, 100, &through);
    assert_int_equal(through, 0);
    assert_int_equal(hearth_through_choice_of(&c, 512, 0), 0); // no layer is the CPU's
    // One layer alone: the CPU tells its time with all of it.
    assert_int_equal(hearth_through_choice_of(&c, 512, 1), 1);
    hearth_through_choice_note(&c, 512, false, 1, 1000000);
    assert_int_equal(hearth_through_choice_of(&c, 512, 1), 0);
}

static void test_changes(void **state)
{
    (void)state;
    const struct sides fast = {1e6, 5e6, 1e4}, busy = {1e6, 5e9, 1e4};
    struct hearth_through_choice c;
    int through;
    hearth_through_choice_init(&c);
    run(&c, &fast, 512, 100, &through);
    assert_int_equal(through, 100);
    run(&c, &busy, 512, 20, &through);
    assert_true(through <= 3);
    run(&c, &fast, 512, 2000, &through);
    run(&c, &fast, 512, 100, &through);
    assert_int_equal(through, 100);
}

// One that had bad luck the first time is tried again, and stays then.
static void test_slow_start(void **state)
{
    (void)state;
    const struct sides first = {1e6, 1e9, 1e4}, then = {1e6, 5e6, 1e4};
    struct hearth_through_choice c;
    int through;
    hearth_through_choice_init(&c);
    run(&c, &first, 512, 1, &through);
    run(&c, &then, 512, 200, &through);
    assert_in_range(through, 50, 199);
    run(&c, &then, 512, 100, &through);
    assert_int_equal(through, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sides),   cmocka_unit_test(test_bound),      cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_changes), cmocka_unit_test(test_slow_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
