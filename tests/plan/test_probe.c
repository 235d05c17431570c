// SPDX-License-Identifier: MIT
// Probes as text: what is printed is read again, what makes no sense is refused by its line; measuring this
// machine gives a probe that makes sense.
#include "check.h"

#include "base/cpu.h"
#include "plan/probe.h"

#define LEAST                                                                                                \
    "name = a phone\ncores = 6\nmemory_gb_s = 43.9\ncore_gb_s = 15\nrequest_us = 3.7\nbyte_ns = 0.27\n"      \
    "sequential_gb_s = 4\nkernel.any.gb_s = 10\nkernel.any.gmac_s = 20\nkernel.any.prompt_gmac_s = 30\n"

static int parse(struct hearth_probe *p, const char *text, struct hearth_error *err)
{
    *err = (struct hearth_error){0};
    return hearth_probe_parse(p, text, strlen(text), err);
}

static void test_least(void **state)
{
    (void)state;
    struct hearth_probe p;
    struct hearth_error err;
    assert_int_equal(parse(&p, LEAST, &err), HEARTH_OK);
    assert_string_equal(p.name, "a phone");
    assert_int_equal(p.cores, 6);
    assert_true(p.memory_gb_s > 43.8 && p.memory_gb_s < 44.0);
    assert_ptr_equal(hearth_probe_kernel_of(&p, HEARTH_TYPE_Q4_0), &p.any);
    assert_int_equal(parse(&p,
                           LEAST "  # a comment\n\nkernel.q4_0.gb_s=1\nkernel.Q4_0.gmac_s = 2 # two\n"
                                 "kernel.Q4_0.prompt_gmac_s = 3\nkernel.Q4_0.rows_gb_s = 4\n"
                                 "ram_bytes = 12000000000\n",
                           &err),
                     HEARTH_OK);
    assert_true(hearth_probe_kernel_of(&p, HEARTH_TYPE_Q4_0)->gmac_s == 2);
    assert_true(p.kernel[HEARTH_TYPE_Q4_0].rows_gb_s == 4 && p.kernel[HEARTH_TYPE_Q4_0].memory_gb_s == 0);
    assert_true(p.ram == UINT64_C(12000000000));
}

static void test_again(void **state)
{
    (void)state;
    struct hearth_probe p, q;
    struct hearth_error err;
    char text[HEARTH_PROBE_TEXT], again[HEARTH_PROBE_TEXT];
    assert_int_equal(parse(&p,
                           LEAST "device = disk 1\nalign_bytes = 4096\ndepth = 32\n"
                                 "kernel.any.memory_gb_s = 30\nkernel.any.rows_gb_s = 20\n",
                           &err),
                     HEARTH_OK);
    hearth_probe_print(&p, text);
    assert_int_equal(parse(&q, text, &err), HEARTH_OK);
    hearth_probe_print(&q, again);
    assert_string_equal(text, again);
    assert_int_equal(q.align, 4096);
    assert_string_equal(q.device, "disk 1");
    assert_true(q.any.memory_gb_s == 30 && q.any.rows_gb_s == 20);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "does not say name"},
        {"name = a\nname = b\n", "line 2 of the probe: name is there twice"},
        {LEAST "colour = red\n", "line 11 of the probe: colour is not known"},
        {LEAST "kernel.Q4_0.gb_s = 1\n", "of each format that it names"},
        {LEAST "kernel.Q9_9.gb_s = 1\n", "is not known"},
        {LEAST "kernel.Q4_0 = 1\n", "is not known"},
        {LEAST "depth = 1.5\n", "whole number"},
        {LEAST "depth = nan\n", "a number from 1 to 65536"},
        {LEAST "device = \n", "device is empty"},
        {LEAST "depth\n", "not \"key = value\""},
        {LEAST "hearth.probe.version = 2\n", "version"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hearth_probe p;
        struct hearth_error err;
        assert_int_equal(parse(&p, cases[i].text, &err), HEARTH_E_FORMAT);
        if (!strstr(err.message, cases[i].message))
            fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].message);
    }
}

// A measurement counts when other programs left it the processors; of two, the better figures do.
static void test_busy(void **state)
{
    (void)state;
    struct hearth_probe p, q;
    struct hearth_error err;
    char text[HEARTH_PROBE_TEXT];
    assert_int_equal(parse(&p, LEAST, &err), HEARTH_OK);
    assert_false(hearth_probe_settled(&p)); // it does not tell
    assert_int_equal(parse(&p, LEAST "cpu_share = 0.97\nmeasured = 1700000000\n", &err), HEARTH_OK);
    assert_true(hearth_probe_settled(&p));
    hearth_probe_print(&p, text);
    assert_int_equal(parse(&q, text, &err), HEARTH_OK);
    assert_true(hearth_probe_settled(&q));
    assert_int_equal(q.measured, 1700000000);
    q.cpu_share = 0.3;
    assert_false(hearth_probe_settled(&q));

    q.memory_gb_s = 4;
    q.core_gb_s = 16;
    q.any.gb_s = 1;
    q.byte_ns = 6.1;
    struct hearth_probe busy = q;
    hearth_probe_improve(&q, &p);
    assert_true(q.memory_gb_s == p.memory_gb_s && q.core_gb_s == 16 && q.any.gb_s == p.any.gb_s);
    assert_true(q.byte_ns == p.byte_ns && q.request_us == p.request_us && hearth_probe_settled(&q));
    hearth_probe_improve(&p, &busy);
    assert_true(p.byte_ns == q.byte_ns && p.memory_gb_s == q.memory_gb_s && p.core_gb_s == 16);
}

// A request costs something, whatever was in the way of the larger reads.
static void test_reads(void **state)
{
    (void)state;
    struct hearth_probe p;
    hearth_probe_fit_reads(&p, 10000, 10000 + 57344);
    assert_true(p.byte_ns == 1 && p.request_us > 1.807 && p.request_us < 1.809);
    hearth_probe_fit_reads(&p, 10000, 9000);
    assert_true(p.byte_ns == 0 && p.request_us == 10);
    hearth_probe_fit_reads(&p, 5000, 400000);
    assert_true(p.request_us > 0.3 && p.byte_ns > 0 && p.byte_ns * 8192 < 5000);
}

// The storage behind a file of a few MiB, and files that a probe comes from.
static void test_measure(void **state)
{
    (void)state;
    const char *path = in_folder("probe"), *file = HEARTH_SOURCE_DIR "/models/hearth-novels-drelu-Q8_0.gguf";
    struct hearth_probe p, q;
    CHECK(hearth_probe_measure(&p, file, hearth_cpu_flags(), &check_error));
    assert_true(p.memory_gb_s > 0 && p.core_gb_s > 0 && p.sequential_gb_s > 0);
    assert_true(p.request_us > 0 && p.depth >= 1);
    assert_true(p.cpu_share > 0 && p.cpu_share <= 1);
    for (uint32_t i = 0; i < HEARTH_TYPE_END; i++) {
        const struct hearth_probe_kernel *k = hearth_probe_kernel_of(&p, i);
        assert_true(k->gb_s > 0 && k->memory_gb_s > 0 && k->rows_gb_s > 0);
    }
    CHECK(hearth_probe_save(&p, path, &check_error));
    CHECK(hearth_probe_load(&q, path, &check_error));
    assert_string_equal(p.name, q.name);
    CHECK(hearth_probe_identify(&q, file, hearth_cpu_flags(), &check_error));
    assert_string_equal(p.name, q.name);
    assert_string_equal(p.device, q.device);
    REFUSED(hearth_probe_load(&q, file, &check_error), HEARTH_E_FORMAT, "too large for a probe");
    REFUSED(hearth_probe_measure(&q, path, hearth_cpu_flags(), &check_error), HEARTH_E_INVALID, "too small");
    assert_true(q.memory_gb_s == 0); // which takes a while
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_least),    cmocka_unit_test(test_again),
                                       cmocka_unit_test(test_refusals), cmocka_unit_test(test_busy),
                                       cmocka_unit_test(test_reads),    cmocka_unit_test(test_measure)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
