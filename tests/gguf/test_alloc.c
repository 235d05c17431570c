// SPDX-License-Identifier: MIT
// Running out of memory in the lower rooms: files, threads, GGUF.
#include "failing_alloc.h"

#include <stdio.h>
#include <unistd.h>

#include "base/os.h"
#include "base/threads.h"
#include "gguf/gguf.h"

static char in_path[512], out_path[512];

static int open_and_close(void)
{
    struct hearth_gguf *g;
    int rc = hearth_gguf_open(&g, in_path, &alloc_error);
    assert_true(!rc == !!g);
    if (g)
        assert_int_equal(hearth_gguf_n_tensors(g), 70);
    hearth_gguf_close(&g);
    return rc;
}

static int write_file(void)
{
    struct hearth_gguf_writer *w;
    int rc = hearth_gguf_writer_open(&w, out_path, &alloc_error);
    if (rc)
        return rc;
    static const struct hearth_str words[] = {{"a", 1}, {"b", 1}};
    uint64_t ne[1] = {8};
    static char text[10000];
    if (!rc)
        rc = hearth_gguf_put_str(w, "text", text, sizeof text, &alloc_error);
    if (!rc)
        rc = hearth_gguf_put_strings(w, "words", words, 2, &alloc_error);
    for (int i = 0; i < 70 && !rc; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        rc = hearth_gguf_put_u32(w, name, 1, &alloc_error);
        if (!rc)
            rc = hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I8, 1, ne, &alloc_error);
    }
    for (int i = 0; i < 70 && !rc; i++)
        rc = hearth_gguf_write(w, "12345678", 8, &alloc_error);
    if (rc) {
        hearth_gguf_writer_close(&w);
        assert_int_equal(access(out_path, F_OK), -1);
        return rc;
    }
    rc = hearth_gguf_finish(&w, &alloc_error);
    armed = false;
    assert_int_equal(access(out_path, F_OK), rc ? -1 : 0);
    if (!rc)
        rename(out_path, in_path);
    return rc;
}

static int pool_open_and_close(void)
{
    struct hearth_pool *pool;
    int rc = hearth_pool_open(&pool, 1, &alloc_error);
    assert_true(!rc == !!pool);
    hearth_pool_close(&pool);
    return rc;
}

static uint8_t buffer[200000];

static int read_direct(void)
{
    struct hearth_file *f;
    int rc = hearth_file_open(&f, in_path, &alloc_error);
    if (rc)
        return rc;
    size_t n = (size_t)hearth_file_size(f);
    memset(buffer, 0, sizeof buffer);
    rc = hearth_file_read_direct(f, buffer, n, 0,
                                 &alloc_error); // without a bounce buffer it reads the ordinary way
    assert_memory_equal(buffer, "GGUF", 4);
    hearth_file_close(&f);
    return rc;
}

static void test_writer(void **state)
{
    (void)state;
    assert_true(exhaust_memory(write_file) > 10);
}

static void test_reader(void **state)
{
    (void)state;
    assert_true(exhaust_memory(open_and_close) > 10);
}

static void test_files_and_threads(void **state)
{
    (void)state;
    assert_true(exhaust_memory(pool_open_and_close) >= 2);
    FILE *f = fopen(in_path, "ab");
    for (int i = 0; i < 150000; i++)
        putc(0, f);
    fclose(f);
    assert_true(exhaust_memory(read_direct) >= 2);
}

static int set_up(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(in_path, sizeof in_path, "%s", in_folder("in.gguf"));
    snprintf(out_path, sizeof out_path, "%s", in_folder("out.gguf"));
    return 0;
}

// Also a check that no other file is left.
static int tear_down(void **state)
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
    return cmocka_run_group_tests_name("alloc", tests, set_up, tear_down);
}
