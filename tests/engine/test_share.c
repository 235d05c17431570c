// SPDX-License-Identifier: MIT
// Sharing steps between a device and the CPU: with sides of any speed, each number of rows comes to a share whose steps
// are as fast as those of any fixed one, and stays there; also as the number of rows shrinks, and as speeds change.
#include "check.h"

#include <math.h>

#include "engine/share.h"

// Times of a step: the device's has a part that does not depend on its share; the CPU has the rest.
struct sides {
    double fixed, device, cpu; // ns for one row with all the work
    double per_row;            // how much more each further row takes: 0 none, 1 as much
};

static double time_of(const struct sides *x, int share, int rows, double *wait)
{
    const double more = 1 + x->per_row * (rows - 1), part = (double)share / HEARTH_SHARE_ALL;
    const double device = share ? x->fixed + x->device * part * more : 0, cpu = x->cpu * (1 - part) * more;
    *wait = device > cpu ? device - cpu : 0;
    return device > cpu ? device : cpu;
}

static double best_of(const struct sides *x, int rows)
{
    double best = INFINITY, wait;
    for (int share = 0; share <= HEARTH_SHARE_ALL; share++)
        best = fmin(best, time_of(x, share, rows, &wait));
    return best;
}

// Time of n steps. `noise`: of single steps, a share.
static double run(struct hearth_share *s, const struct sides *x, int rows, int n, double noise)
{
    static uint32_t seed = 1;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double wait;
        seed = seed * 1664525u + 1013904223u;
        const double by = 1 + noise * ((double)(seed >> 8) / (1 << 23) - 1);
        const double t = by * time_of(x, hearth_share_of(s, rows), rows, &wait);
        s->all_ns = (uint64_t)t;
        s->wait_ns = (uint64_t)(wait * by);
        hearth_share_note(s, rows);
        sum += t;
    }
    return sum;
}

static const struct sides all_sides[] = {
    {1e5, 1e6, 1e7, 0.5}, // a fast device
    {1e5, 1e7, 1e7, 0.1}, // as fast as the CPU
    {1e5, 5e7, 1e7, 1.0}, // slower
    {2e7, 1e6, 1e7, 0.5}, // one that takes long to begin: better without it
    {4e6, 2e6, 1e7, 0.8}, // one that takes long, but not too long
    {1e3, 1e3, 1e7, 0.5}, // one that takes no time
};

// Best of 4, whose sequences end one after the other.
static void test_shrinking(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all_sides / sizeof *all_sides; i++)
        for (int noisy = 0; noisy < 2; noisy++) {
            const struct sides *x = &all_sides[i];
            struct hearth_share s;
            hearth_share_init(&s);
            for (int rows = 4; rows >= 1; rows--) {
                run(&s, x, rows, 200, 0.1 * noisy); // until it is known
                const double mean = run(&s, x, rows, 400, 0.1 * noisy) / 400, best = best_of(x, rows);
                if (mean > best * (noisy ? 1.10 : 1.05))
                    fail_msg("sides %zu, %d rows: %.3g ns for a step, with the best share %.3g", i, rows,
                             mean, best);
            }
            // And again, as all is known.
            for (int rows = 4; rows >= 1; rows--) {
                const double mean = run(&s, x, rows, 2000, 0.1 * noisy) / 2000, best = best_of(x, rows);
                if (mean > best * (noisy ? 1.05 : 1.03))
                    fail_msg("sides %zu, %d rows again: %.3g ns, with the best share %.3g", i, rows, mean,
                             best);
            }
        }
}

// One that slows down, and gets fast again.
static void test_change(void **state)
{
    (void)state;
    struct hearth_share s;
    hearth_share_init(&s);
    struct sides x = {1e5, 1e6, 1e7, 0.5};
    for (int round = 0; round < 4; round++) {
        x.device = round % 2 ? 4e7 : 1e6;
        run(&s, &x, 1, 1500, 0.05);
        const double mean = run(&s, &x, 1, 200, 0.05) / 200;
        assert_true(mean <= best_of(&x, 1) * 1.08);
    }
}

// A share that somebody asked for stays, whatever steps take.
static void test_fixed(void **state)
{
    (void)state;
    for (int share = 0; share <= HEARTH_SHARE_ALL; share += HEARTH_SHARE_ALL / 4) {
        struct hearth_share s;
        hearth_share_init(&s);
        hearth_share_fix(&s, share);
        for (size_t i = 0; i < sizeof all_sides / sizeof *all_sides; i++)
            for (int rows = 1; rows <= 4; rows++) {
                run(&s, &all_sides[i], rows, 300, 0);
                assert_int_equal(hearth_share_of(&s, rows), share);
            }
        hearth_share_fix(&s, HEARTH_SHARE_BY_TIME);
        run(&s, &all_sides[3], 1, 2000, 0);
        assert_int_equal(hearth_share_of(&s, 1), 0);
    }
}

static void test_parts(void **state)
{
    (void)state;
    for (size_t n = 0; n < 100; n++) {
        assert_int_equal(hearth_share_part(0, n), 0);
        assert_int_equal(hearth_share_part(HEARTH_SHARE_ALL, n), n);
        for (int share = 1; share <= HEARTH_SHARE_ALL; share++)
            assert_true(hearth_share_part(share, n) >= hearth_share_part(share - 1, n));
    }
    struct hearth_share s;
    hearth_share_init(&s);
    hearth_share_note(&s, 1); // nothing was shared, so nothing is known
    assert_int_equal(hearth_share_of(&s, 1), HEARTH_SHARE_ALL);
    run(&s, &all_sides[3], 1, 2000, 0);
    assert_int_equal(hearth_share_of(&s, 1), 0);
    run(&s, &all_sides[2], 1 << 30, 2000, 0); // more rows than classes
    assert_int_equal(s.classes[HEARTH_SHARE_CLASSES - 1].best, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shrinking),
        cmocka_unit_test(test_change),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
