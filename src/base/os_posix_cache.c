// SPDX-License-Identifier: MIT
// Linux and other POSIX systems: folders of files that may go at any time.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/os.h"

// Bytes of one write(): below the limits of all systems.
#define MAX_TRANSFER ((size_t)1 << 30)
// A temporary file that was written to so few seconds ago may be one that its writer has not locked yet.
#define RECENT 60
// Files that one look at a folder chooses for removal at most.
#define MOST_OLD 256
#define TEMP_END ".part"

#if defined(__APPLE__)
#define WRITTEN(st) ((st)->st_mtimespec)
#else
#define WRITTEN(st) ((st)->st_mtim)
#endif

// ---- writing

static int write_all(int fd, const struct hearth_file_piece *part)
{
    const char *from = part->bytes;
    for (size_t left = part->n; left;) {
        const ssize_t put = write(fd, from, left < MAX_TRANSFER ? left : MAX_TRANSFER);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        from += put;
        left -= (size_t)put;
    }
    return 0;
}

// A file in the folder of `path` that is gone if it gets no name. -1: the file system has none.
static int open_unnamed(const char *path)
{
    int fd = -1;
#ifdef O_TMPFILE
    const char *slash = strrchr(path, '/');
    char *folder = slash ? hearth_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : NULL;
    fd = open(folder ? folder : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    free(folder);
#else
    (void)path;
#endif
    return fd;
}

// Gives it its name. Where another was faster, that one stays.
static int name_it(int fd, const char *path)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return !linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) || errno == EEXIST ? 0 : errno;
}

static int put_unnamed(int fd, const char *path, const struct hearth_file_piece *parts, int n)
{
    int error = 0;
    for (int i = 0; i < n && !error; i++)
        error = write_all(fd, &parts[i]);
    if (!error)
        error = name_it(fd, path);
    close(fd);
    return error;
}

// The same with a temporary name. Its lock says that its writer lives.
static int put_named(const char *path, char *temp, size_t size, const struct hearth_file_piece *parts, int n)
{
    snprintf(temp, size, "%s.%08x" TEMP_END, path, (unsigned)hearth_random_u64());
    const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    (void)flock(fd, LOCK_EX | LOCK_NB);
    int error = 0;
    for (int i = 0; i < n && !error; i++)
        error = write_all(fd, &parts[i]);
    if (close(fd) && !error)
        error = errno;
    if (!error && rename(temp, path))
        error = errno;
    if (error)
        (void)unlink(temp);
    return error;
}

int hearth_cache_file_put(const char *path, const struct hearth_file_piece *parts, int n,
                          struct hearth_error *err)
{
    const size_t size = strlen(path) + sizeof ".0123abcd" TEMP_END;
    const int fd = open_unnamed(path);
    int error = fd < 0 ? ENOENT : put_unnamed(fd, path, parts, n);
    // Also where there is no /proc to name it with, or where that is forbidden (Android).
    if (fd < 0 || error == ENOENT || error == EACCES || error == EPERM) {
        char *temp = hearth_calloc(1, size);
        if (!temp)
            return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
        error = put_named(path, temp, size, parts, n);
        free(temp);
    }
    return error ? hearth_fail_errno(err, error, "%s: cannot write the file", path) : HEARTH_OK;
}

bool hearth_cache_file_touch(const char *path, uint64_t ns)
{
    const struct timespec when = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    const struct timespec times[] = {when, when};
    return !utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

void hearth_cache_file_remove(const char *path)
{
    (void)unlink(path);
}

// ---- keeping a folder small

struct old_file {
    struct timespec used;
    uint64_t bytes;
    char name[NAME_MAX + 1];
};

struct look {
    int folder;
    const char *suffix;
    uint64_t bytes;       // of all files
    int n;                // of those that were not used for longest
    struct old_file *old; // [MOST_OLD], the oldest first
};

static bool ends_with(const char *name, size_t n, const char *end)
{
    const size_t k = strlen(end);
    return n > k && !memcmp(name + n - k, end, k);
}

// "NAME" + suffix + ".0123abcd.part"
static bool is_temp(const char *name, const char *suffix)
{
    const size_t n = strlen(name), k = sizeof ".0123abcd" TEMP_END - 1;
    return ends_with(name, n, TEMP_END) && n > k && name[n - k] == '.' &&
           strspn(name + n - k + 1, "0123456789abcdef") == 8 && ends_with(name, n - k, suffix);
}

// A writer that lives holds a lock on its file.
static void remove_if_stale(const struct look *l, const char *name, const struct stat *st)
{
    if (time(NULL) - st->st_mtime <= RECENT)
        return;
    const int fd = openat(l->folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        (void)unlinkat(l->folder, name, 0);
    if (fd >= 0)
        close(fd);
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void note(struct look *l, const char *name, const struct stat *st)
{
    l->bytes += (uint64_t)st->st_size;
    if (l->n == MOST_OLD && !is_older(&WRITTEN(st), &l->old[MOST_OLD - 1].used))
        return;
    int at = l->n < MOST_OLD ? l->n++ : MOST_OLD - 1;
    for (; at > 0 && is_older(&WRITTEN(st), &l->old[at - 1].used); at--)
        l->old[at] = l->old[at - 1];
    l->old[at] = (struct old_file){.used = WRITTEN(st), .bytes = (uint64_t)st->st_size};
    snprintf(l->old[at].name, sizeof l->old[at].name, "%s", name);
}

static void look(struct look *l, DIR *d)
{
    struct stat st;
    l->bytes = 0;
    l->n = 0;
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d));) {
        const bool temp = is_temp(e->d_name, l->suffix);
        if (!temp && !ends_with(e->d_name, strlen(e->d_name), l->suffix))
            continue;
        if (fstatat(l->folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        if (temp)
            remove_if_stale(l, e->d_name, &st);
        else
            note(l, e->d_name, &st);
    }
}

// Removes the oldest that were found. False: it is no use to look again.
static bool remove_old(struct look *l, uint64_t most)
{
    bool removed = false;
    for (int i = 0; i < l->n && l->bytes > most; i++) {
        if (unlinkat(l->folder, l->old[i].name, 0) && errno != ENOENT)
            continue;
        removed = true;
        l->bytes -= l->old[i].bytes;
    }
    return removed && l->bytes > most;
}

int hearth_folder_trim(const char *path, const char *suffix, uint64_t most, uint64_t *bytes,
                       struct hearth_error *err)
{
    *bytes = 0;
    DIR *d = opendir(path);
    if (!d)
        return hearth_fail_errno(err, errno, "%s: cannot read the folder", path);
    struct look l = {.folder = dirfd(d), .suffix = suffix};
    l.old = hearth_calloc(MOST_OLD, sizeof *l.old);
    if (!l.old) {
        closedir(d);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to look through the folder", path);
    }
    do
        look(&l, d);
    while (remove_old(&l, most));
    *bytes = l.bytes;
    free(l.old);
    closedir(d);
    return HEARTH_OK;
}

// ---- who may write

bool hearth_folder_is_own(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

uint64_t hearth_file_stamp(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return 0;
    return (uint64_t)st.st_size * 0x9e3779b97f4a7c15u ^ (uint64_t)WRITTEN(&st).tv_sec * 1000000007u ^
           (uint64_t)WRITTEN(&st).tv_nsec << 1 ^ 1;
}
