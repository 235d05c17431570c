// SPDX-License-Identifier: MIT
// What the address sanitizer is told beyond malloc: whoever runs over a piece of an arena, or holds on to a
// bundle that the neuron cache has let go, dies of it. Skipped in builds without that sanitizer.
#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "base/memory.h"
#include "base/poison.h"
#include "sparse/cache.h"

// Whether a process that writes there, and does nothing else, is ended for it.
static bool is_deadly(volatile uint8_t *p)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO); // the sanitizer's report
        *p = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void need_sanitizer(void)
{
    if (!HEARTH_RED_ZONE)
        skip();
}

static void test_arena(void **state)
{
    (void)state;
    need_sanitizer();
    struct hearth_region region;
    CHECK(hearth_region_open(&region, 65536, "a test", &check_error));
    struct hearth_arena a = {.base = region.base, .size = region.size};
    uint8_t *first = hearth_arena_take(&a, 100, 1), *second = hearth_arena_take(&a, 1, 1);
    assert_false(is_deadly(first));
    assert_false(is_deadly(first + 127)); // pieces are whole cache lines, which kernels may fill
    assert_true(is_deadly(first + 128));
    assert_true(is_deadly(second - 1));
    assert_false(is_deadly(second));
    // Another arena over the same memory has its zones elsewhere.
    struct hearth_arena b = {.base = region.base, .size = region.size};
    uint8_t *all = hearth_arena_take(&b, 1024, 1);
    assert_false(is_deadly(all + 128));
    assert_true(is_deadly(all + 1024));
    uint8_t *base = region.base;
    hearth_region_close(&region);
    CHECK(hearth_region_open(&region, 65536, "a test", &check_error));
    if (region.base == base)
        assert_false(is_deadly(base + 1024));
    hearth_region_close(&region);
}

static void test_cache(void **state)
{
    (void)state;
    need_sanitizer();
    const struct hearth_cache_space_params space = {.n_neurons = 8, .bundle_bytes = 100, .quota = 1};
    const struct hearth_cache_params params = {
        .n_spaces = 1, .spaces = &space, .align = 1, .reserve = 2, .slab_bytes = 65536};
    struct hearth_cache *c = NULL;
    CHECK(hearth_cache_open(&c, &params, &check_error));
    size_t bytes;
    uint8_t *region = hearth_cache_region(c, &bytes);
    assert_true(is_deadly(region)); // nothing is there yet

    struct hearth_cache_read reads[2];
    const uint32_t ids[] = {3, 5};
    uint32_t n_reads;
    hearth_cache_step(c);
    assert_int_equal(hearth_cache_request(c, 0, ids, 2, reads, 2, &n_reads), 2);
    assert_int_equal(n_reads, 2);
    uint8_t *bundles[2];
    for (int i = 0; i < 2; i++) {
        assert_false(is_deadly(reads[i].dst)); // the storage writes there
        hearth_cache_done(c, &reads[i], true);
        bundles[i] = hearth_cache_bundle(c, 0, ids[i]);
        assert_false(is_deadly(bundles[i] + 99));
    }
    hearth_cache_release(c, 0, ids, 2); // which leaves one
    const bool kept = hearth_cache_state(c, 0, ids[1]) == HEARTH_CACHE_PRESENT;
    assert_int_equal(hearth_cache_n_cached(c, 0), 1);
    assert_false(is_deadly(bundles[kept]));
    assert_true(is_deadly(bundles[!kept]));
    hearth_cache_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arena), cmocka_unit_test(test_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
