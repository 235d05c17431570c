// SPDX-License-Identifier: MIT
// Traces: round trips in both forms, files cut off at every byte, damaged ones.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "sparse/trace.h"

static const struct hearth_trace_space spaces[] = {
    {0, 0, 100, 7168}, {1, 0, 13, 512}, {1, HEARTH_TRACE_SHARED, 1, 0}};
static const struct hearth_trace_info info = {"a model", true, 3, spaces};

static char path[300];

static int make_path(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(path, sizeof path, "%s", in_folder("file"));
    return 0;
}

// Steps: {space 0: 3 99; space 1: all 13}, {space 1: none}, {space 0: every even; space 2: 0}.
static void write_example(void)
{
    struct hearth_error err = {0};
    struct hearth_trace_writer *w;
    uint32_t all[13], even[50];
    for (uint32_t i = 0; i < 13; i++)
        all[i] = i;
    for (uint32_t i = 0; i < 50; i++)
        even[i] = 2 * i;
    assert_int_equal(hearth_trace_writer_open(&w, path, &info, &err), 0);
    assert_int_equal(hearth_trace_step(w, 1, &err), 0);
    assert_int_equal(hearth_trace_set(w, 0, (const uint32_t[]){3, 99}, 2, &err), 0);
    assert_int_equal(hearth_trace_set(w, 1, all, 13, &err), 0);
    assert_int_equal(hearth_trace_step(w, 300, &err), 0);
    assert_int_equal(hearth_trace_set(w, 1, NULL, 0, &err), 0);
    assert_int_equal(hearth_trace_step(w, 2, &err), 0);
    assert_int_equal(hearth_trace_set(w, 0, even, 50, &err), 0);
    assert_int_equal(hearth_trace_set(w, 2, (const uint32_t[]){0}, 1, &err), 0);
    assert_int_equal(hearth_trace_writer_commit(&w, &err), 0);
    assert_null(w);
}

static uint8_t *read_example(size_t *n)
{
    struct hearth_error err = {0};
    struct hearth_file *f;
    assert_int_equal(hearth_file_open(&f, path, &err), 0);
    *n = (size_t)hearth_file_size(f);
    uint8_t *data = malloc(*n + 1);
    assert_non_null(data);
    assert_int_equal(hearth_file_read(f, data, *n, 0, &err), 0);
    hearth_file_close(&f);
    return data;
}

static void round_trip(void **state)
{
    (void)state;
    write_example();
    struct hearth_error err = {0};
    struct hearth_trace *t;
    assert_int_equal(hearth_trace_open(&t, path, &err), 0);
    const struct hearth_trace_info *got = hearth_trace_info(t);
    assert_string_equal(got->name, "a model");
    assert_true(got->active);
    assert_int_equal(got->n_spaces, 3);
    assert_memory_equal(got->spaces, spaces, sizeof spaces);
    assert_false(hearth_trace_cut_off(t));
    assert_int_equal(hearth_trace_n_steps(t), 3);
    assert_int_equal(hearth_trace_n_sets(t), 5);
    assert_int_equal(hearth_trace_n_tokens(t), 303);
    assert_int_equal(hearth_trace_n_ids(t), 2 + 13 + 0 + 50 + 1);
    uint64_t first;
    uint32_t n, ids[100];
    assert_int_equal(hearth_trace_step_at(t, 0, &first, &n), 1);
    assert_int_equal(first, 0);
    assert_int_equal(n, 2);
    assert_int_equal(hearth_trace_set_at(t, 0, &n), 0);
    assert_int_equal(n, 2);
    hearth_trace_ids(t, 0, ids);
    assert_int_equal(ids[0], 3);
    assert_int_equal(ids[1], 99);
    assert_int_equal(hearth_trace_set_at(t, 1, &n), 1);
    assert_int_equal(n, 13);
    hearth_trace_ids(t, 1, ids);
    for (uint32_t i = 0; i < 13; i++)
        assert_int_equal(ids[i], i);
    assert_int_equal(hearth_trace_step_at(t, 1, &first, &n), 300);
    assert_int_equal(n, 1);
    assert_int_equal(hearth_trace_set_at(t, first, &n), 1);
    assert_int_equal(n, 0);
    assert_int_equal(hearth_trace_step_at(t, 2, &first, &n), 2);
    assert_int_equal(first, 3);
    assert_int_equal(n, 2);
    assert_int_equal(hearth_trace_set_at(t, 3, &n), 0);
    assert_int_equal(n, 50);
    hearth_trace_ids(t, 3, ids);
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(ids[i], 2 * i);
    hearth_trace_close(&t);
    assert_null(t);
}

// However much of the file is left, its complete steps are read and nothing else.
static void cut_off_anywhere(void **state)
{
    (void)state;
    write_example();
    size_t n;
    uint8_t *data = read_example(&n);
    struct hearth_trace *t;
    struct hearth_error err;
    size_t records = 24 + 7 + 3 * 16;
    // step record 2 bytes; sets: 1+1+1+2 and 1+1+1+2; step 3; set 3; step 2; bitmap 1+1+1+13, set 4; end 1
    const size_t second = records + 2 + 5 + 5, third = second + 3 + 3;
    for (size_t left = 0; left <= n; left++) {
        int rc = hearth_trace_open_memory(&t, data, left, "example", &err);
        if (left < records) {
            assert_int_equal(rc, HEARTH_E_FORMAT);
            assert_null(t);
            continue;
        }
        assert_int_equal(rc, 0);
        uint32_t want = left == n ? 3 : left > third ? 2 : left > second ? 1 : 0;
        assert_int_equal(hearth_trace_n_steps(t), want);
        assert_int_equal(hearth_trace_n_sets(t), want == 3 ? 5 : want == 2 ? 3 : want == 1 ? 2 : 0);
        assert_true(hearth_trace_cut_off(t) == (left < n));
        hearth_trace_close(&t);
    }
    assert_int_equal(n, third + 2 + 16 + 4 + 1);
    data[n] = 0;
    assert_int_equal(hearth_trace_open_memory(&t, data, n + 1, "example", &err), HEARTH_E_FORMAT);
    free(data);
}

// One byte of the example changed at `at`: must be refused with these words.
static void refused(const uint8_t *data, size_t n, size_t at, uint8_t value, const char *words)
{
    uint8_t *copy = malloc(n);
    assert_non_null(copy);
    memcpy(copy, data, n);
    copy[at] = value;
    struct hearth_trace *t;
    struct hearth_error err = {0};
    assert_int_not_equal(hearth_trace_open_memory(&t, copy, n, "bad.htrace", &err), 0);
    assert_non_null(strstr(err.message, "bad.htrace: "));
    if (!strstr(err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    free(copy);
}

static void damage(void **state)
{
    (void)state;
    write_example();
    size_t n;
    uint8_t *data = read_example(&n);
    size_t records = 24 + 7 + 3 * 16;
    refused(data, n, 0, 'h', "not a trace");
    refused(data, n, 8, 2, "version 2");
    refused(data, n, 12, 0, "number of spaces");
    refused(data, n, 15, 1, "within its header");
    refused(data, n, 21, 2, "within its header");
    refused(data, n, 31 + 8, 0, "number of neurons");
    refused(data, n, 31 + 11, 1, "number of neurons");
    refused(data, n, 31, 2, "not ascending");
    refused(data, n, records, 9, "no known kind");
    refused(data, n, records, 2, "before the first step");
    refused(data, n, records + 1, 0, "number of tokens");
    refused(data, n, records + 3, 3, "out of order");
    refused(data, n, records + 7, 4, "no known kind"); // where the second set begins
    refused(data, n, records + 6, 96, "id is out of range");
    refused(data, n, records + 4, 101, "larger than its space");
    refused(data, n, records + 8, 0, "out of order");           // the second set claims the first's space
    refused(data, n, records + 11, 0x3F, "id is out of range"); // bit 13 of 13 neurons
    refused(data, n, records + 11, 0x0F, "does not have the bits");
    free(data);
    struct hearth_trace *t;
    struct hearth_error err = {0};
    assert_int_equal(hearth_trace_open(&t, "/nonexistent/trace", &err), HEARTH_E_IO);
}

static void writer_refuses_nonsense(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    struct hearth_trace_writer *w;
    struct hearth_trace_info bad = info;
    bad.n_spaces = 0;
    assert_int_equal(hearth_trace_writer_open(&w, path, &bad, &err), HEARTH_E_INVALID);
    struct hearth_trace_space twice[] = {{0, 0, 4, 0}, {0, 0, 4, 0}};
    bad = (struct hearth_trace_info){NULL, false, 2, twice};
    assert_int_equal(hearth_trace_writer_open(&w, path, &bad, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_trace_writer_open(&w, path, &info, &err), 0);
    assert_int_equal(hearth_trace_set(w, 0, NULL, 0, &err), HEARTH_E_INVALID); // no step yet
    assert_int_equal(hearth_trace_step(w, 0, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_trace_step(w, 65536, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_trace_step(w, 1, &err), 0);
    assert_int_equal(hearth_trace_set(w, 1, (const uint32_t[]){1, 1}, 2, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_trace_set(w, 1, (const uint32_t[]){13}, 1, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_trace_set(w, 1, (const uint32_t[]){12}, 1, &err), 0);
    assert_int_equal(hearth_trace_set(w, 0, NULL, 0, &err), HEARTH_E_INVALID); // behind
    assert_int_equal(hearth_trace_set(w, 3, NULL, 0, &err), HEARTH_E_INVALID); // no such space
    hearth_trace_writer_close(&w);
    assert_int_not_equal(access(path, F_OK), 0); // not committed: no file
}

// Sets of every density come back as they were; the file stays below its bound.
static void densities(void **state)
{
    (void)state;
    const uint32_t n_neurons = 2048;
    struct hearth_trace_space one = {0, 0, n_neurons, 0};
    struct hearth_trace_info small = {NULL, false, 1, &one};
    struct hearth_error err = {0};
    struct hearth_trace_writer *w;
    uint32_t ids[2048], back[2048], seed = 7;
    assert_int_equal(hearth_trace_writer_open(&w, path, &small, &err), 0);
    for (int round = 0; round < 2; round++) {
        struct hearth_trace *t = NULL;
        if (round == 1) {
            assert_int_equal(hearth_trace_writer_commit(&w, &err), 0);
            assert_int_equal(hearth_trace_open(&t, path, &err), 0);
            seed = 7;
        }
        for (uint32_t step = 0; step < 64; step++) {
            uint32_t n = 0;
            for (uint32_t i = 0; i < n_neurons; i++) {
                seed = seed * 1664525u + 1013904223u;
                if (seed >> 26 <= step)
                    ids[n++] = i;
            }
            if (round == 0) {
                assert_int_equal(hearth_trace_step(w, 1, &err), 0);
                assert_int_equal(hearth_trace_set(w, 0, ids, n, &err), 0);
                continue;
            }
            uint32_t n_back;
            assert_int_equal(hearth_trace_set_at(t, step, &n_back), 0);
            assert_int_equal(n_back, n);
            hearth_trace_ids(t, step, back);
            assert_memory_equal(back, ids, n * sizeof *ids);
        }
        if (t)
            hearth_trace_close(&t);
    }
    struct hearth_file *f;
    assert_int_equal(hearth_file_open(&f, path, &err), 0);
    assert_true(hearth_file_size(f) < 64 * (n_neurons / 8 + 8) + 64);
    hearth_file_close(&f);
}

// Steps that are taken back, short ones and ones longer than any buffer, leave no trace.
static void dropped_steps(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    const struct hearth_trace_space large[] = {{0, 0, N, 1}, {1, 0, N, 1}, {2, 0, N, 1}, {3, 0, N, 1}};
    const struct hearth_trace_info four = {"dropped", false, 4, large};
    uint32_t *even = malloc(N / 2 * sizeof *even), back[2];
    assert_non_null(even);
    for (uint32_t i = 0; i < N / 2; i++)
        even[i] = 2 * i;
    struct hearth_error err = {0};
    struct hearth_trace_writer *w;
    assert_int_equal(hearth_trace_writer_open(&w, path, &four, &err), 0);
    hearth_trace_drop_step(w); // there is none
    for (uint32_t step = 0; step < 3; step++) {
        assert_int_equal(hearth_trace_step(w, 1, &err), 0);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(hearth_trace_set(w, i, even, step == 1 ? 3 : N / 2, &err), 0);
        hearth_trace_drop_step(w);
        assert_int_equal(hearth_trace_set(w, 0, even, 1, &err), HEARTH_E_INVALID); // of no step
        assert_int_equal(hearth_trace_step(w, 7, &err), 0);
        assert_int_equal(hearth_trace_set(w, 0, &step, 1, &err), 0);
    }
    assert_int_equal(hearth_trace_writer_commit(&w, &err), 0);
    struct hearth_trace *t = NULL;
    assert_int_equal(hearth_trace_open(&t, path, &err), 0);
    assert_int_equal(hearth_trace_n_steps(t), 3);
    assert_int_equal(hearth_trace_n_ids(t), 3);
    for (uint32_t step = 0; step < 3; step++) {
        hearth_trace_ids(t, step, back);
        assert_int_equal(back[0], step);
    }
    hearth_trace_close(&t);
    free(even);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(cut_off_anywhere, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(damage, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(writer_refuses_nonsense, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(densities, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(dropped_steps, make_path, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
