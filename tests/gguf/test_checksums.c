// SPDX-License-Identifier: MIT
// Checksums in a GGUF: what the writer puts in, a change of any byte is found and named, files whose
// checksums do not fit are refused.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/checksums.h"

static struct hearth_error err;
static char path[300];

// A file with tensors of these many bytes.
static void make(const uint64_t *sizes, int n, size_t piece)
{
    struct hearth_gguf_writer *w;
    uint8_t *bytes = malloc(piece);
    uint32_t state = 1;
    OK(hearth_gguf_writer_open(&w, path, &err));
    OK(hearth_gguf_put_u32(w, "general.alignment", 4096, &err));
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        OK(hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I8, 1, &sizes[i], &err));
    }
    OK(hearth_gguf_put_checksums(w, &err));
    const uint64_t one = 1;
    assert_int_equal(hearth_gguf_put_tensor(w, "late", HEARTH_TYPE_I8, 1, &one, &err), HEARTH_E_INVALID);
    for (int i = 0; i < n; i++)
        for (uint64_t at = 0; at < sizes[i]; at += piece) {
            const size_t now = sizes[i] - at < piece ? (size_t)(sizes[i] - at) : piece;
            for (size_t j = 0; j < now; j++)
                bytes[j] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
            OK(hearth_gguf_write(w, bytes, now, &err));
        }
    if (n)
        assert_int_equal(hearth_gguf_write(w, bytes, 1, &err), HEARTH_E_INVALID);
    OK(hearth_gguf_finish(&w, &err));
    free(bytes);
}

static int verify(int n_threads)
{
    struct hearth_gguf *g;
    struct hearth_checksums *c;
    err = (struct hearth_error){0};
    int rc = hearth_gguf_open(&g, path, &err);
    if (rc)
        return rc;
    rc = hearth_checksums_open(&c, g, &err);
    assert_true(!rc == !!c);
    if (!rc)
        rc = hearth_checksums_verify(c, n_threads, NULL, NULL, &err);
    hearth_checksums_close(&c);
    hearth_gguf_close(&g);
    return rc;
}

static void flip(uint64_t at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, (long)at, SEEK_SET);
    int byte = fgetc(f);
    fseek(f, (long)at, SEEK_SET);
    fputc(byte ^ 4, f);
    fclose(f);
}

static void test_found(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {5, (1 << 20) - 4096, 3 << 20, 70000};
    static const size_t pieces[] = {1 << 22, 4096, 65537};
    for (size_t i = 0; i < 3; i++) {
        make(sizes, 4, pieces[i]);
        OK(verify(1 + (int)i));
    }
    // Of every tensor, of the padding, of a key's name, of the checksums themselves.
    struct hearth_gguf *g;
    OK(hearth_gguf_open(&g, path, &err));
    const uint64_t places[] = {hearth_gguf_tensor(g, "t0")->offset,
                               hearth_gguf_tensor(g, "t0")->offset + 100,
                               hearth_gguf_tensor(g, "t1")->offset + 1,
                               hearth_gguf_tensor(g, "t2")->offset + (2 << 20),
                               hearth_gguf_tensor(g, "t3")->offset + 69999,
                               hearth_gguf_tensor(g, HEARTH_CHECKSUMS_NAME)->offset + 1};
    static const char *const names[] = {"(from t0)", "(from t0)", "(from t0)",
                                        "(from t2)", "(from t3)", "(metadata)"};
    hearth_gguf_close(&g);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        flip(places[i]);
        assert_int_equal(verify(2), HEARTH_E_FORMAT);
        assert_non_null(strstr(err.message, names[i]));
        assert_non_null(strstr(err.message, path));
        flip(places[i]);
    }
    flip(4000); // padding behind the tensor table
    assert_int_equal(verify(2), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "(metadata)"));
    flip(4000);
    OK(verify(2));
}

static void test_blocks_one_by_one(void **state)
{
    (void)state;
    const uint64_t size = (2 << 20) + 10000;
    struct hearth_gguf *g;
    struct hearth_checksums *c;
    uint64_t from, n;
    make(&size, 1, 1000000);
    OK(hearth_gguf_open(&g, path, &err));
    OK(hearth_checksums_open(&c, g, &err));
    assert_int_equal(hearth_checksums_n(c), 4);
    uint8_t *bytes = malloc(HEARTH_CHECKSUMS_BLOCK);
    for (uint64_t i = 0; i < 4; i++) {
        hearth_checksums_range(c, i, &from, &n);
        assert_int_equal(from, i ? 4096 + (i - 1) * HEARTH_CHECKSUMS_BLOCK : 0);
        assert_int_equal(n, i == 0 ? 4096 : i < 3 ? HEARTH_CHECKSUMS_BLOCK : 12288);
        OK(hearth_file_read(hearth_gguf_file(g, 0), bytes, (size_t)n, from, &err));
        OK(hearth_checksums_check(c, i, bytes, &err));
        bytes[n - 1] ^= 1;
        assert_int_equal(hearth_checksums_check(c, i, bytes, &err), HEARTH_E_FORMAT);
    }
    free(bytes);
    hearth_checksums_close(&c);
    hearth_gguf_close(&g);
}

static bool stop(void *arg, float share)
{
    (void)arg;
    assert_true(share > 0 && share <= 1);
    return false;
}

static void test_other_files(void **state)
{
    (void)state;
    struct hearth_gguf_writer *w;
    struct hearth_gguf *g;
    struct hearth_checksums *c;
    uint8_t zeros[64] = {0};
    const uint64_t n = 8, two = 2;
    // No tensors but the checksums: the header is what is checked.
    make(NULL, 0, 1);
    OK(verify(1));
    OK(hearth_gguf_open(&g, path, &err));
    OK(hearth_checksums_open(&c, g, &err));
    assert_int_equal(hearth_checksums_n(c), 1);
    assert_int_equal(hearth_checksums_verify(c, 1, stop, NULL, &err), HEARTH_E_INTERRUPTED);
    uint32_t crc, again;
    OK(hearth_gguf_header_crc(g, &crc, &err));
    hearth_checksums_close(&c);
    hearth_gguf_close(&g);
    // None.
    OK(hearth_gguf_writer_open(&w, path, &err));
    OK(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_F32, 1, &n, &err));
    OK(hearth_gguf_write(w, zeros, 32, &err));
    OK(hearth_gguf_finish(&w, &err));
    OK(hearth_gguf_open(&g, path, &err));
    OK(hearth_checksums_open(&c, g, &err));
    assert_null(c);
    OK(hearth_gguf_header_crc(g, &again, &err));
    assert_int_not_equal(crc, again);
    hearth_gguf_close(&g);
    // Of another file: too few, not last, of another type.
    for (int i = 0; i < 3; i++) {
        const uint32_t type = i == 2 ? HEARTH_TYPE_F32 : HEARTH_TYPE_I32;
        OK(hearth_gguf_writer_open(&w, path, &err));
        if (i != 1)
            OK(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_F32, 1, &n, &err));
        OK(hearth_gguf_put_tensor(w, HEARTH_CHECKSUMS_NAME, type, 1, i ? &two : &n, &err));
        if (i == 1)
            OK(hearth_gguf_put_tensor(w, "t", HEARTH_TYPE_F32, 1, &n, &err));
        OK(hearth_gguf_write(w, zeros, i ? 40 : 64, &err));
        OK(hearth_gguf_finish(&w, &err));
        assert_int_equal(verify(1), HEARTH_E_FORMAT);
        assert_non_null(strstr(err.message, "does not belong"));
    }
}

static int make_path(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(path, sizeof path, "%s", in_folder("model.gguf"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_blocks_one_by_one),
        cmocka_unit_test(test_other_files),
    };
    return cmocka_run_group_tests(tests, make_path, remove_folder);
}
