// SPDX-License-Identifier: MIT
// Running out of memory. The linker sends the library's allocations through the functions below (--wrap),
// which fail the n-th one, for every n until the call succeeds. Leaks on the way are LeakSanitizer's
// business.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"
#include "gguf/gguf.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static bool armed, forever;
static long countdown; // allocations that still succeed
static long failures;

static bool fails(void)
{
    if (!armed || countdown-- > 0)
        return false;
    if (countdown < -1 && !forever) // only the n-th
        return false;
    failures++;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(align, n);
}

static struct hearth_error err;
static char folder[256], in_path[512], out_path[512];

// Calls until no allocation fails any more. Returns how many calls failed.
static int exhaust(int (*call)(void))
{
    int n_failed = 0;
    for (int mode = 0; mode < 2; mode++)
        for (long n = 0;; n++) {
            assert_true(n < 10000);
            err = (struct hearth_error){0};
            failures = 0;
            countdown = n;
            forever = mode == 1;
            armed = true;
            int rc = call();
            armed = false;
            if (rc) {
                assert_int_equal(rc, HEARTH_E_MEMORY);
                assert_int_equal(err.code, HEARTH_E_MEMORY);
                assert_true(strlen(err.message) > 0 && failures > 0);
                n_failed++;
            }
            if (failures == 0)
                break;
        }
    return n_failed;
}

static int open_and_close(void)
{
    struct hearth_gguf *g;
    int rc = hearth_gguf_open(&g, in_path, &err);
    assert_true(!rc == !!g);
    if (g)
        assert_int_equal(hearth_gguf_n_tensors(g), 70);
    hearth_gguf_close(&g);
    return rc;
}

static int write_file(void)
{
    struct hearth_gguf_writer *w;
    int rc = hearth_gguf_writer_open(&w, out_path, &err);
    if (rc)
        return rc;
    static const struct hearth_str words[] = {{"a", 1}, {"b", 1}};
    uint64_t ne[1] = {8};
    static char text[10000];
    if (!rc)
        rc = hearth_gguf_put_str(w, "text", text, sizeof text, &err);
    if (!rc)
        rc = hearth_gguf_put_strings(w, "words", words, 2, &err);
    for (int i = 0; i < 70 && !rc; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        rc = hearth_gguf_put_u32(w, name, 1, &err);
        if (!rc)
            rc = hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I8, 1, ne, &err);
    }
    for (int i = 0; i < 70 && !rc; i++)
        rc = hearth_gguf_write(w, "12345678", 8, &err);
    if (rc) {
        hearth_gguf_writer_close(&w);
        assert_int_equal(access(out_path, F_OK), -1);
        return rc;
    }
    rc = hearth_gguf_finish(&w, &err);
    armed = false;
    assert_int_equal(access(out_path, F_OK), rc ? -1 : 0);
    if (!rc)
        rename(out_path, in_path);
    return rc;
}

static int pool_open_and_close(void)
{
    struct hearth_pool *pool;
    int rc = hearth_pool_open(&pool, 1, &err);
    assert_true(!rc == !!pool);
    hearth_pool_close(&pool);
    return rc;
}

static uint8_t buffer[200000];

static int read_direct(void)
{
    struct hearth_file *f;
    int rc = hearth_file_open(&f, in_path, &err);
    if (rc)
        return rc;
    size_t n = (size_t)hearth_file_size(f);
    memset(buffer, 0, sizeof buffer);
    rc = hearth_file_read_direct(f, buffer, n, 0, &err); // without a bounce buffer it reads the ordinary way
    assert_memory_equal(buffer, "GGUF", 4);
    hearth_file_close(&f);
    return rc;
}

static void test_writer(void **state)
{
    (void)state;
    assert_true(exhaust(write_file) > 10);
}

static void test_reader(void **state)
{
    (void)state;
    assert_true(exhaust(open_and_close) > 10);
}

static void test_files_and_threads(void **state)
{
    (void)state;
    assert_true(exhaust(pool_open_and_close) >= 2);
    FILE *f = fopen(in_path, "ab");
    for (int i = 0; i < 150000; i++)
        putc(0, f);
    fclose(f);
    assert_true(exhaust(read_direct) >= 2);
}

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/hearth-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(in_path, sizeof in_path, "%s/in.gguf", folder);
    snprintf(out_path, sizeof out_path, "%s/out.gguf", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    remove(in_path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer), // its file is what the others read
        cmocka_unit_test(test_reader),
        cmocka_unit_test(test_files_and_threads),
    };
    return cmocka_run_group_tests_name("alloc", tests, make_folder, remove_folder);
}
