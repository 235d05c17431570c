// SPDX-License-Identifier: MIT
// Names for content, and folders of files that may go at any time: SHA-256; files that appear whole, for this
// user alone; the oldest go first; what others have there stays.
#include "check.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/os.h"
#include "base/sha256.h"

static struct hearth_error err;

// ---- SHA-256

static void check_hash(const char *text, size_t times, const char *want)
{
    struct hearth_sha256 h;
    uint8_t hash[HEARTH_SHA256_BYTES];
    char hex[2 * HEARTH_SHA256_BYTES + 1];
    hearth_sha256_begin(&h);
    for (size_t i = 0; i < times; i++)
        hearth_sha256_add(&h, text, strlen(text));
    hearth_sha256_end(&h, hash);
    for (size_t i = 0; i < sizeof hash; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(hex, want);
}

static void test_sha256(void **state)
{
    (void)state;
    // The examples of FIPS 180-4.
    check_hash("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hash("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_hash("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// ---- files

static void put(const char *name, const char *text, int age)
{
    const char *path = in_folder(name);
    const struct hearth_file_piece pieces[] = {{text, strlen(text)}, {"", 0}, {text, strlen(text)}};
    const struct timespec times[] = {{time(NULL) - age, 0}, {time(NULL) - age, 0}};
    OK(hearth_cache_file_put(path, pieces, 3, &err));
    if (age)
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void test_put(void **state)
{
    (void)state;
    struct stat st;
    char text[16] = "";
    umask(0);
    put("one.cache", "abc", 0);
    FILE *f = fopen(in_folder("one.cache"), "rb");
    assert_true(f && fread(text, 1, sizeof text, f) == 6);
    fclose(f);
    assert_memory_equal(text, "abcabc", 6);
    assert_int_equal(stat(in_folder("one.cache"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    put("one.cache", "abc", 0); // there is one: all is well
    assert_int_equal(count_files(), 1);
    REFUSED(hearth_cache_file_put(in_folder("missing/one.cache"), NULL, 0, &check_error), HEARTH_E_IO,
            "missing/one.cache");
    assert_int_equal(empty_folder(), 1);
}

static void test_touch(void **state)
{
    (void)state;
    struct stat st;
    put("old.cache", "abc", 1000);
    assert_true(hearth_cache_file_touch(in_folder("old.cache"), 1234567890123456789u));
    assert_int_equal(stat(in_folder("old.cache"), &st), 0);
    assert_int_equal(st.st_mtim.tv_sec, 1234567890);
    assert_int_equal(st.st_mtim.tv_nsec, 123456789);
    assert_false(hearth_cache_file_touch(in_folder("none.cache"), 0));
    hearth_cache_file_remove(in_folder("old.cache"));
    hearth_cache_file_remove(in_folder("old.cache"));
    assert_int_equal(empty_folder(), 0);
}

static bool there(const char *name)
{
    return hearth_file_exists(in_folder(name));
}

static void test_trim(void **state)
{
    (void)state;
    uint64_t bytes;
    char name[32];
    for (int i = 0; i < 600; i++) { // more than one look chooses
        snprintf(name, sizeof name, "%03d.cache", i);
        put(name, "abcde", 100000 - i);
    }
    put("notes.txt", "a text of somebody else", 1000000);
    put("old.other", "abcde", 1000000);
    OK(hearth_folder_trim(folder, ".cache", 6000, &bytes, &err));
    assert_int_equal(bytes, 6000);
    assert_int_equal(count_files(), 602);
    OK(hearth_folder_trim(folder, ".cache", 5999, &bytes, &err));
    assert_int_equal(bytes, 5990);
    assert_false(there("000.cache"));
    assert_true(there("001.cache"));
    OK(hearth_folder_trim(folder, ".cache", 15, &bytes, &err));
    assert_int_equal(bytes, 10);
    assert_true(there("599.cache") && there("notes.txt") && there("old.other"));
    OK(hearth_folder_trim(folder, ".cache", 0, &bytes, &err));
    assert_int_equal(bytes, 0);
    assert_int_equal(empty_folder(), 2);
    REFUSED(hearth_folder_trim(in_folder("missing"), ".cache", 0, &bytes, &check_error), HEARTH_E_IO,
            "missing");
}

// What killed writers left goes, and what is being written stays.
static void test_stale(void **state)
{
    (void)state;
    uint64_t bytes;
    put("a.cache.0123abcd.part", "left", 1000);
    put("b.cache.0123abcd.part", "just begun", 0);
    put("c.cache.0123abcd.part", "slow", 1000);
    put("notes.0123abcd.part", "of somebody else", 1000);
    put("d.cache.0123.part", "of somebody else", 1000);
    const int fd = open(in_folder("c.cache.0123abcd.part"), O_RDONLY);
    assert_true(fd >= 0 && !flock(fd, LOCK_EX));
    OK(hearth_folder_trim(folder, ".cache", 1000, &bytes, &err));
    assert_int_equal(bytes, 0);
    assert_false(there("a.cache.0123abcd.part"));
    close(fd);
    assert_int_equal(empty_folder(), 4);
}

// ---- folders

static void test_own(void **state)
{
    (void)state;
    assert_true(hearth_folder_is_own(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    assert_true(hearth_folder_is_own(folder));
    assert_int_equal(chmod(folder, 0777), 0);
    assert_false(hearth_folder_is_own(folder));
    assert_int_equal(chmod(folder, 0770), 0);
    assert_false(hearth_folder_is_own(folder));
    assert_int_equal(chmod(folder, 0700), 0);
    assert_false(hearth_folder_is_own(in_folder("missing")));
    put("file", "abc", 0);
    assert_false(hearth_folder_is_own(in_folder("file")));

    const uint64_t stamp = hearth_file_stamp(in_folder("file"));
    assert_true(stamp && stamp == hearth_file_stamp(in_folder("file")));
    put("old", "abc", 1000);
    assert_int_not_equal(hearth_file_stamp(in_folder("old")), stamp);
    assert_int_equal(hearth_file_stamp(in_folder("missing")), 0);
    empty_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256), cmocka_unit_test(test_put),   cmocka_unit_test(test_touch),
        cmocka_unit_test(test_trim),   cmocka_unit_test(test_stale), cmocka_unit_test(test_own),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
