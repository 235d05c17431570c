// SPDX-License-Identifier: MIT
// Paths, files and streams as all systems have them: names in UTF-8, folders, what a path leads to.
#include "check.h"

#include <errno.h>
#include <time.h>

#include "base/memory.h"
#include "base/os.h"

static const char strange[] = "\xc3\xa4\xe2\x82\xac \xf0\x9f\x94\xa5.bin"; // two, three and four bytes

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(hearth_path_name("a/b/c.gguf"), "c.gguf");
    assert_string_equal(hearth_path_name("c.gguf"), "c.gguf");
    assert_string_equal(hearth_path_name("a/"), "");
}

static void test_kinds(void **state)
{
    (void)state;
    struct hearth_path at, same;
    const char *path = in_folder(strange);
    assert_false(hearth_path_look(path, &at));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(at.kind, HEARTH_PATH_NONE);
    CHECK(hearth_outfile_save(path, "fire", 4, &check_error));
    assert_true(hearth_path_look(path, &at));
    assert_int_equal(at.kind, HEARTH_PATH_FILE);
    assert_int_equal(at.size, 4);
    assert_true(hearth_path_readable(path));
    assert_true(hearth_file_exists(path));
    assert_true(hearth_path_same(path, path));
    assert_true(hearth_path_look(folder, &same));
    assert_int_equal(same.kind, HEARTH_PATH_FOLDER);
    assert_int_equal(same.device, at.device);
    assert_true(hearth_folder_writable(folder));
    assert_false(hearth_path_same(path, folder));
    assert_true(hearth_path_remove(path));
    assert_false(hearth_path_remove(path));
    assert_false(hearth_path_readable(path));
}

static void test_streams(void **state)
{
    (void)state;
    char line[16];
    const char *path = in_folder(strange);
    FILE *f = hearth_file_stream(path, "wb");
    assert_non_null(f);
    assert_int_equal(fputs("one\ntwo\n", f) < 0, 0);
    assert_int_equal(fclose(f), 0);
    f = hearth_file_stream(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(line, 1, sizeof line, f), 8); // no line ends that nobody wrote
    fclose(f);
    assert_memory_equal(line, "one\ntwo\n", 8);
    assert_true(hearth_path_remove(path));
    assert_null(hearth_file_stream(path, "rb"));
    assert_int_equal(errno, ENOENT);

    struct hearth_text_stream text;
    assert_non_null(hearth_text_stream(&text));
    for (int i = 0; i < 5000; i++)
        fprintf(text.to, "%d\n", i % 10);
    assert_true(hearth_text_stream_end(&text));
    assert_int_equal(text.n, 10000);
    assert_memory_equal(text.text, "0\n1\n2\n3\n", 8);
    assert_int_equal(text.text[text.n], 0);
    free(text.text);
}

static void test_folders(void **state)
{
    (void)state;
    char name[64];
    assert_false(hearth_folder_find(folder, ".bin", name, sizeof name));
    const char *path = in_folder(strange);
    assert_true(hearth_path_make_own(path));
    assert_false(hearth_path_make_own(path)); // it is there
    assert_true(hearth_folder_find(folder, ".bin", name, sizeof name));
    assert_string_equal(name, strange);
    assert_false(hearth_folder_find(folder, ".bin", name, 4)); // no room
    assert_true(hearth_path_remove(path));
    CHECK(hearth_folder_make(in_folder("a/b"), &check_error));
    CHECK(hearth_folder_make(in_folder("a/b"), &check_error));
    assert_true(hearth_disk_free(in_folder("a/b/c/d")) > 0);
    assert_false(hearth_path_remove(in_folder("a"))); // it is not empty
    assert_true(hearth_path_remove(in_folder("a/b")));
    assert_true(hearth_path_remove(in_folder("a")));
    CHECK(hearth_folder_make(in_folder(strange), &check_error));
    assert_true(hearth_path_remove(in_folder(strange)));
    assert_false(hearth_path_remove(in_folder(strange)));
    REFUSED(hearth_folder_make("", &check_error), HEARTH_E_INVALID, "without a name");
}

// What is written, cut, left out and read again, around the cache, too.
static void test_files(void **state)
{
    (void)state;
    enum { N = 300001 };
    uint8_t *bytes = malloc(N), *got = malloc(N);
    struct hearth_outfile *out;
    struct hearth_file *f;
    assert_non_null(bytes);
    assert_non_null(got);
    for (int i = 0; i < N; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    const char *path = in_folder(strange);
    CHECK(hearth_outfile_open(&out, path, &check_error));
    CHECK(hearth_outfile_write(out, bytes, 1000, &check_error));
    CHECK(hearth_outfile_write(out, bytes, N - 1000, &check_error));
    hearth_outfile_cut(out, 1000);
    CHECK(hearth_outfile_skip(out, 5000, &check_error));
    CHECK(hearth_outfile_write(out, bytes + 6000, N - 6000, &check_error));
    assert_int_equal(hearth_outfile_offset(out), N);
    assert_false(hearth_file_exists(path)); // not before it is whole
    CHECK(hearth_outfile_commit(&out, &check_error));
    memset(bytes + 1000, 0, 5000);
    CHECK(hearth_file_open(&f, path, &check_error));
    assert_int_equal(hearth_file_size(f), N);
    CHECK(hearth_file_read(f, got, N - 3, 3, &check_error));
    assert_memory_equal(got, bytes + 3, N - 3);
    CHECK(hearth_file_read_direct(f, got + 1, N - 5, 5, &check_error));
    assert_memory_equal(got + 1, bytes + 5, N - 5);
    REFUSED(hearth_file_read(f, got, 2, N - 1, &check_error), HEARTH_E_FORMAT, "truncated");
    hearth_file_close(&f);
    assert_int_equal(count_files(), 1); // nothing temporary is left
    assert_true(hearth_file_stamp(path) != 0);
    assert_true(hearth_path_remove(path));
    REFUSED(hearth_file_open(&f, path, &check_error), HEARTH_E_IO, strange);
    REFUSED(hearth_file_open(&f, folder, &check_error), HEARTH_E_INVALID, "folder");
    free(bytes);
    free(got);
}

static void test_cache_and_scratch(void **state)
{
    (void)state;
    const struct hearth_file_piece parts[] = {{"ab", 2}, {"c", 1}};
    uint64_t bytes = 0;
    char got[4] = "xxx";
    struct hearth_scratch *s;
    CHECK(hearth_cache_file_put(in_folder("1.kept"), parts, 2, &check_error));
    CHECK(hearth_cache_file_put(in_folder("2.kept"), parts, 2, &check_error));
    CHECK(hearth_cache_file_put(in_folder("3.other"), parts, 2, &check_error));
    assert_true(hearth_cache_file_touch(in_folder("1.kept"), UINT64_C(2000000000) * 1000000000u));
    assert_true(hearth_cache_file_touch(in_folder("2.kept"), UINT64_C(1000000000) * 1000000000u));
    CHECK(hearth_folder_trim(folder, ".kept", 5, &bytes, &check_error));
    assert_int_equal(bytes, 3);
    assert_true(hearth_file_exists(in_folder("1.kept")));
    assert_false(hearth_file_exists(in_folder("2.kept"))); // it was not used for longer
    assert_true(hearth_file_exists(in_folder("3.other")));
    empty_folder();
    CHECK(hearth_scratch_open(&s, in_folder("beside"), &check_error));
    CHECK(hearth_scratch_write(s, "z", 1, 100000, &check_error));
    CHECK(hearth_scratch_read(s, got, 3, 99999, &check_error));
    assert_memory_equal(got, "\0z\0", 3);
    hearth_scratch_close(&s);
    assert_int_equal(count_files(), 0);
}

static void test_the_rest(void **state)
{
    (void)state;
    struct tm tm;
    char text[64];
    assert_true(hearth_calendar(86400 * 365, false, &tm));
    assert_int_equal(tm.tm_year, 71);
    assert_int_equal(tm.tm_mon, 0);
    const uint64_t start = hearth_now_ns();
    hearth_sleep_ns(3000000);
    assert_true(hearth_now_ns() - start >= 2900000);
    hearth_os_error_text(ENOENT, text, sizeof text);
    assert_true(strlen(text) > 3);
    assert_non_null(hearth_os_variable("PATH"));
    assert_null(hearth_os_variable("HEARTH_HAS_NO_SUCH_VARIABLE"));
    assert_non_null(hearth_os_environment()[0]);
    assert_true(hearth_print_number(text, sizeof text, 'f', 2, 1.25) == 4 && !strcmp(text, "1.25"));
    void *p = hearth_aligned_alloc(4096, 8192);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 4096, 0);
    hearth_aligned_free(p);
    assert_string_equal(hearth_find_bytes("abcabd", 6, "abd", 3), "abd");
    assert_null(hearth_find_bytes("abcab", 5, "abd", 3));
    assert_null(hearth_find_bytes("ab", 2, "abd", 3));
    assert_null(hearth_os_library("hearth-has-no-such-library"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_streams),  cmocka_unit_test(test_folders),
        cmocka_unit_test(test_files),    cmocka_unit_test(test_cache_and_scratch),
        cmocka_unit_test(test_the_rest),
    };
    return cmocka_run_group_tests_name("paths", tests, make_folder, remove_folder);
}
