// SPDX-License-Identifier: MIT
// Files that are read and files that are written: base/os.h.
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/os.h"

static struct hearth_error err;

static uint8_t pattern(uint64_t i)
{
    return (uint8_t)((i * 2654435761u) >> 13);
}

static void make_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < size; i++)
        putc(pattern(i), f);
    assert_int_equal(fclose(f), 0);
}

// ---- reading

static void check_read(struct hearth_file *f, uint8_t *buffer, size_t n, uint64_t offset, bool direct)
{
    buffer[n] = 0x5a;
    int rc = direct ? hearth_file_read_direct(f, buffer, n, offset, &err)
                    : hearth_file_read(f, buffer, n, offset, &err);
    if (rc)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < n; i++)
        if (buffer[i] != pattern(offset + i))
            fail_msg("byte %zu of %zu at %llu (direct %d) is wrong", i, n, (unsigned long long)offset,
                     direct);
    assert_int_equal(buffer[n], 0x5a);
}

static void check_file(const char *path)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 65536, 200000, ((size_t)3 << 20) + 123};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t size = sizes[s];
        make_file(path, size);
        struct hearth_file *f;
        assert_int_equal(hearth_file_open(&f, path, &err), 0);
        assert_int_equal(hearth_file_size(f), size);
        assert_string_equal(hearth_file_path(f), path);
        uint8_t *buffer = aligned_alloc(4096, hearth_round_up(size + 8192, 4096));
        for (int direct = 0; direct < 2; direct++) {
            check_read(f, buffer, size, 0, direct);
            check_read(f, buffer + 1, size, 0, direct);
            check_read(f, buffer, 0, size, direct);
            for (size_t cut = 1; cut <= size; cut = cut * 5 + 1) {
                check_read(f, buffer, size - cut, cut, direct);
                check_read(f, buffer + 4096 - cut % 4096, size - cut, cut,
                           direct); // as aligned as the file is
                check_read(f, buffer + 3, size - cut, 0, direct);
            }
        }
        // Beyond the end, near the end, and where the sum overflows.
        for (int direct = 0; direct < 2; direct++) {
            int (*read)(struct hearth_file *, void *, size_t, uint64_t, struct hearth_error *) =
                direct ? hearth_file_read_direct : hearth_file_read;
            assert_int_equal(read(f, buffer, size + 1, 0, &err), HEARTH_E_FORMAT);
            assert_int_equal(read(f, buffer, 1, size, &err), HEARTH_E_FORMAT);
            assert_int_equal(read(f, buffer, 10, UINT64_MAX - 4, &err), HEARTH_E_FORMAT);
            assert_non_null(strstr(err.message, path));
            assert_non_null(strstr(err.message, "truncated"));
        }
        free(buffer);
        hearth_file_close(&f);
        assert_null(f);
        hearth_file_close(&f);
    }
    remove(path);
}

static void test_file_reads(void **state)
{
    (void)state;
    check_file(in_folder("data"));
    // Another file system, usually one in memory, where direct reads may be refused.
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/hearth-test-%d", (int)getpid());
    if (access("/dev/shm", W_OK) == 0)
        check_file(path);
}

static void test_file_shrinks(void **state)
{
    (void)state;
    const char *path = in_folder("shrinks");
    make_file(path, 300000);
    struct hearth_file *f;
    assert_int_equal(hearth_file_open(&f, path, &err), 0);
    assert_int_equal(truncate(path, 100000), 0);
    uint8_t *buffer = malloc(300000);
    assert_int_equal(hearth_file_read(f, buffer, 300000, 0, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(hearth_file_read_direct(f, buffer, 300000, 0, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "shorter"));
    check_read(f, buffer, 100000 - 1, 0, true);
    free(buffer);
    hearth_file_close(&f);
    empty_folder();
}

static void check_open_fails(const char *path, int code, const char *words)
{
    struct hearth_file *f = (void *)&err;
    assert_int_equal(hearth_file_open(&f, path, &err), code);
    assert_null(f);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, words));
}

static void test_file_open_failures(void **state)
{
    (void)state;
    check_open_fails(in_folder("absent"), HEARTH_E_IO, "No such file");
    check_open_fails(folder, HEARTH_E_INVALID, "folder");
    check_open_fails("/dev/null", HEARTH_E_INVALID, "device");
    const char *pipe_path = in_folder("pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    check_open_fails(pipe_path, HEARTH_E_INVALID, "pipe"); // and does not hang
    empty_folder();
}

// ---- writing

static void check_content(const char *path, const char *text)
{
    char buffer[64] = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(buffer, 1, sizeof buffer - 1, f);
    fclose(f);
    assert_int_equal(n, strlen(text));
    assert_string_equal(buffer, text);
}

static void test_outfile(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("out"));
    struct hearth_outfile *f;

    // Nothing under the name until the commit; nothing at all after closing without one.
    assert_int_equal(hearth_outfile_open(&f, path, &err), 0);
    assert_int_equal(hearth_outfile_write(f, "first", 5, &err), 0);
    assert_int_equal(hearth_outfile_offset(f), 5);
    assert_int_equal(access(path, F_OK), -1);
    hearth_outfile_close(&f);
    assert_null(f);
    assert_int_equal(empty_folder(), 0);
    hearth_outfile_close(&f);

    assert_int_equal(hearth_outfile_open(&f, path, &err), 0);
    assert_int_equal(hearth_outfile_write(f, "second", 6, &err), 0);
    assert_int_equal(hearth_outfile_commit(&f, &err), 0);
    assert_null(f);
    check_content(path, "second");

    // The old content stays until the new one is complete, also when another writer comes by.
    struct hearth_outfile *other;
    assert_int_equal(hearth_outfile_open(&f, path, &err), 0);
    assert_int_equal(hearth_outfile_open(&other, path, &err), 0);
    assert_int_equal(hearth_outfile_write(f, "third", 5, &err), 0);
    assert_int_equal(hearth_outfile_write(other, "4th", 3, &err), 0);
    check_content(path, "second");
    assert_int_equal(hearth_outfile_commit(&f, &err), 0);
    check_content(path, "third");
    hearth_outfile_close(&other);
    check_content(path, "third");
    assert_int_equal(empty_folder(), 1);
}

// A link stays one, and what it leads to is written, whether or not it was there.
static void test_outfile_links(void **state)
{
    (void)state;
    char link[512], far[512], none[512], circle[512];
    struct stat st;
    snprintf(link, sizeof link, "%s", in_folder("link"));
    snprintf(far, sizeof far, "%s", in_folder("far"));
    snprintf(none, sizeof none, "%s", in_folder("none"));
    snprintf(circle, sizeof circle, "%s", in_folder("circle"));
    assert_int_equal(symlink("file", link) | symlink(link, far), 0);
    assert_int_equal(symlink("nowhere/file", none) | symlink("circle", circle), 0);
    assert_int_equal(hearth_outfile_save(link, "one", 3, &err), HEARTH_OK); // it leads to nothing yet
    check_content(in_folder("file"), "one");
    assert_int_equal(hearth_outfile_save(far, "two", 3, &err), HEARTH_OK);
    check_content(in_folder("file"), "two");
    assert_true(!lstat(link, &st) && S_ISLNK(st.st_mode) && !lstat(far, &st) && S_ISLNK(st.st_mode));
    assert_int_not_equal(hearth_outfile_save(circle, "a", 1, &err), HEARTH_OK);
    assert_int_not_equal(hearth_outfile_save(none, "a", 1, &err), HEARTH_OK);
    assert_non_null(strstr(err.message, "nowhere/file"));
    assert_int_equal(symlink("/dev/null", in_folder("device")), 0);
    assert_int_not_equal(hearth_outfile_save(in_folder("device"), "a", 1, &err), HEARTH_OK);
    assert_non_null(strstr(err.message, "device: exists and is not a regular file"));
    assert_int_equal(empty_folder(), 6);
}

// Zeros that take no room, behind what was written and before what comes, and at the end.
static void test_outfile_skip(void **state)
{
    (void)state;
    const uint64_t zeros = (uint64_t)64 << 20;
    const char *path = in_folder("long");
    char ends[6] = {0};
    struct hearth_outfile *f;
    struct hearth_file *in;
    struct stat st;
    assert_int_equal(hearth_outfile_open(&f, path, &err), 0);
    assert_int_equal(hearth_outfile_write(f, "abc", 3, &err), 0);
    assert_int_equal(hearth_outfile_skip(f, zeros, &err), 0);
    assert_int_equal(hearth_outfile_offset(f), 3 + zeros);
    assert_int_equal(hearth_outfile_write(f, "xyz", 3, &err), 0);
    assert_int_equal(hearth_outfile_skip(f, 2, &err), 0);
    assert_int_equal(hearth_outfile_commit(&f, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_blocks * 512 < (1 << 20));
    assert_int_equal(hearth_file_open(&in, path, &err), 0);
    assert_int_equal(hearth_file_size(in), 8 + zeros);
    assert_int_equal(hearth_file_read(in, ends, 5, 0, &err), 0);
    assert_memory_equal(ends, "abc\0\0", 5);
    assert_int_equal(hearth_file_read(in, ends, 5, 1 + zeros, &err), 0);
    assert_memory_equal(ends, "\0\0xyz", 5);
    assert_int_equal(hearth_file_read(in, ends, 3, 5 + zeros, &err), 0);
    assert_memory_equal(ends, "z\0\0", 3);
    hearth_file_close(&in);
    assert_int_equal(empty_folder(), 1);
}

static void test_folders(void **state)
{
    (void)state;
    char path[512], below[600], deep[700];
    snprintf(path, sizeof path, "%s", in_folder("folder"));
    snprintf(below, sizeof below, "%s/below", path);
    snprintf(deep, sizeof deep, "%s/it/file", below);
    const uint64_t room = hearth_disk_free(path);
    assert_true(room > 0 && room < UINT64_MAX);
    assert_true(hearth_disk_free(deep) < UINT64_MAX); // of the disk where it would be
    assert_int_equal(hearth_folder_make(below, &err), 0);
    assert_int_equal(hearth_folder_make(below, &err), 0);
    assert_int_equal(access(below, X_OK), 0);
    assert_true(hearth_file_device(below) == hearth_file_device(folder));
    assert_true(hearth_file_device(deep) == 0); // nothing is there
    snprintf(deep, sizeof deep, "%s/file", below);
    make_file(deep, 1);
    assert_int_equal(hearth_folder_make(deep, &err), HEARTH_E_IO);
    snprintf(deep, sizeof deep, "%s/file/folder", below);
    assert_int_equal(hearth_folder_make(deep, &err), HEARTH_E_IO);
    assert_non_null(strstr(err.message, "cannot make the folder"));
    snprintf(deep, sizeof deep, "%s/file", below);
    unlink(deep);
    rmdir(below);
    rmdir(path);
}

// Pieces below, at and above the size of the internal buffer arrive in order.
static void test_outfile_large(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 4096, 262143, 262144, 262145, 1000000, 3, 262144};
    const char *path = in_folder("large");
    uint8_t *source = malloc(1000000);
    struct hearth_outfile *f;
    uint64_t total = 0;
    assert_int_equal(hearth_outfile_open(&f, path, &err), 0);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        for (size_t j = 0; j < pieces[i]; j++)
            source[j] = pattern(total + j);
        assert_int_equal(hearth_outfile_write(f, source, pieces[i], &err), 0);
        total += pieces[i];
        assert_int_equal(hearth_outfile_offset(f), total);
    }
    assert_int_equal(hearth_outfile_commit(&f, &err), 0);
    free(source);
    struct hearth_file *in;
    assert_int_equal(hearth_file_open(&in, path, &err), 0);
    assert_int_equal(hearth_file_size(in), total);
    uint8_t *buffer = malloc((size_t)total + 1);
    check_read(in, buffer, (size_t)total, 0, false);
    free(buffer);
    hearth_file_close(&in);
    assert_int_equal(empty_folder(), 1);
}

// A full disk, played by a limit on file size: the error is told, the old file stays, nothing is left behind.
static void test_outfile_full(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("full"));
    make_file(path, 10);
    struct rlimit before, small = {.rlim_cur = 1 << 20};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint8_t *block = calloc(1, 300000);
    struct hearth_outfile *f;
    assert_int_equal(hearth_outfile_open(&f, path, &err), 0);
    int rc = 0;
    for (int i = 0; i < 10 && !rc; i++)
        rc = hearth_outfile_write(f, block, 300000, &err);
    assert_int_equal(rc, HEARTH_E_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(hearth_outfile_commit(&f, &err), HEARTH_E_IO);
    assert_null(f);

    // Again, with the failure in the last flush.
    assert_int_equal(hearth_outfile_open(&f, path, &err), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(hearth_outfile_write(f, block, 110000, &err) == 0 || i > 8, 1);
    assert_int_equal(hearth_outfile_commit(&f, &err), HEARTH_E_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    free(block);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 10);
    assert_int_equal(empty_folder(), 1);
}

// ---- file systems without nameless files, played by an open() that refuses them (see CMakeLists.txt)

static bool no_nameless;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

static bool refused(int flags)
{
    if (!no_nameless || (flags & O_TMPFILE) != O_TMPFILE)
        return false;
    errno = EOPNOTSUPP;
    return true;
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return refused(flags) ? -1 : __real_open(path, flags, mode);
}

#ifdef __GLIBC__ // whose open() has this name with 64-bit offsets; other C libraries have no such name
int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return refused(flags) ? -1 : __real_open64(path, flags, mode);
}
#endif

// What a killed writer left behind goes away when the same file is written again; what a living one is
// writing stays.
static void test_outfile_stale(void **state)
{
    (void)state;
    char path[512], name[600];
    snprintf(path, sizeof path, "%s", in_folder("stale"));
    const char *const others[] = {".0123abcd", ".0123abcd.party", ".0123abcx.part", ".123abcd.part",
                                  "2.01234567.part"};
    const int n_others = (int)(sizeof others / sizeof *others);
    for (int named = 0; named < 2; named++) {
        no_nameless = named;
        struct hearth_outfile *f, *living;
        make_file(path, 3);
        for (int i = 0; i < n_others; i++) {
            snprintf(name, sizeof name, "%s%s", path, others[i]);
            make_file(name, 1);
        }
        snprintf(name, sizeof name, "%s.0123abcd.part", path);
        make_file(name, 100);
        assert_int_equal(hearth_outfile_open(&living, path, &err), 0);
        assert_int_equal(access(name, F_OK), -1);
        assert_int_equal(hearth_outfile_write(living, "long", 4, &err), 0);
        make_file(name, 100);
        assert_int_equal(hearth_outfile_open(&f, path, &err), 0);
        assert_int_equal(access(name, F_OK), -1);
        assert_int_equal(hearth_outfile_write(f, "live", 4, &err), 0);
        assert_int_equal(hearth_outfile_commit(&f, &err), 0);
        check_content(path, "live");
        assert_int_equal(hearth_outfile_commit(&living, &err), 0);
        check_content(path, "long");
        assert_int_equal(empty_folder(), 1 + n_others);
    }
    test_outfile(state);
    test_outfile_full(state);
    no_nameless = false;
}

static void test_outfile_failures(void **state)
{
    (void)state;
    struct hearth_outfile *f;
    assert_int_equal(hearth_outfile_open(&f, in_folder("no/such/folder"), &err), HEARTH_E_IO);
    assert_null(f);
    assert_int_equal(hearth_outfile_open(&f, folder, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_outfile_open(&f, "/dev/null", &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_outfile_open(&f, "", &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_outfile_open(&f, in_folder("new/"), &err), HEARTH_E_INVALID);
    char longer[256] = "";
    memset(longer, 'y', sizeof longer - 1);
    assert_int_equal(hearth_outfile_open(&f, in_folder(longer), &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "too long"));
    assert_null(f);
    assert_int_equal(empty_folder(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_reads),
        cmocka_unit_test(test_file_shrinks),
        cmocka_unit_test(test_file_open_failures),
        cmocka_unit_test(test_outfile),
        cmocka_unit_test(test_outfile_links),
        cmocka_unit_test(test_outfile_skip),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_outfile_large),
        cmocka_unit_test(test_outfile_full),
        cmocka_unit_test(test_outfile_stale),
        cmocka_unit_test(test_outfile_failures),
    };
    return cmocka_run_group_tests_name("files", tests, make_folder, remove_folder);
}
