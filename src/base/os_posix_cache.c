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
#include "base/os_folder.h"
#include "base/os_posix.h"
#include "base/temp_name.h"

// A temporary file that was written to so few seconds ago may be one that its writer has not locked yet.
#define RECENT 60

#if defined(__APPLE__)
#define WRITTEN(st) ((st)->st_mtimespec)
#else
#define WRITTEN(st) ((st)->st_mtim)
#endif

// ---- writing

// A file in the folder of `path` that is gone if it gets no name. -1: the file system has none.
static int open_unnamed(const char *path)
{
    int fd = -1;
#ifdef O_TMPFILE
    char *folder = hearth_posix_folder(path);
    fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
    free(folder);
#else
    (void)path;
#endif
    return fd;
}

static int write_all(int fd, const struct hearth_file_piece *parts, int n)
{
    for (int i = 0; i < n; i++)
        if (!hearth_posix_write(fd, parts[i].bytes, parts[i].n))
            return errno;
    return 0;
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
    int error = write_all(fd, parts, n);
    if (!error)
        error = name_it(fd, path);
    close(fd);
    return error;
}

// The same with a temporary name. Its lock says that its writer lives.
static int put_named(const char *path, char *temp, const struct hearth_file_piece *parts, int n)
{
    hearth_temp_name(temp, path);
    const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    (void)flock(fd, LOCK_EX | LOCK_NB);
    int error = write_all(fd, parts, n);
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
    const int fd = open_unnamed(path);
    int error = fd < 0 ? ENOENT : put_unnamed(fd, path, parts, n);
    // Also where there is no /proc to name it with, or where that is forbidden (Android).
    if (fd < 0 || error == ENOENT || error == EACCES || error == EPERM) {
        char *temp = hearth_calloc(1, strlen(path) + HEARTH_TEMP_SUFFIX + 1);
        if (!temp)
            return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
        error = put_named(path, temp, parts, n);
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

static bool join(char *path, const char *folder, const char *name)
{
    const int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return n > 0 && n < PATH_MAX;
}

int hearth_folder_walk(const char *folder, void (*fn)(void *arg, const struct hearth_folder_file *file),
                       void *arg, struct hearth_error *err)
{
    struct stat st;
    DIR *d = opendir(folder);
    if (!d)
        return hearth_fail_errno(err, errno, "%s: cannot read the folder", folder);
    for (struct dirent *e; (e = readdir(d));)
        if (!fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode)) {
            const uint64_t used =
                (uint64_t)WRITTEN(&st).tv_sec * 1000000000u + (uint64_t)WRITTEN(&st).tv_nsec;
            fn(arg, &(struct hearth_folder_file){e->d_name, used, (uint64_t)st.st_size});
        }
    closedir(d);
    return HEARTH_OK;
}

bool hearth_folder_remove(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return join(path, folder, name) && (!unlink(path) || errno == ENOENT);
}

// A writer that lives holds a lock on its file.
void hearth_folder_remove_stale(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    const int fd = join(path, folder, name) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : -1;
    if (fd >= 0 && !fstat(fd, &st) && time(NULL) - st.st_mtime > RECENT && !flock(fd, LOCK_EX | LOCK_NB))
        (void)unlink(path);
    if (fd >= 0)
        close(fd);
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
