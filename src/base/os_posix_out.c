// SPDX-License-Identifier: MIT
// Linux and other POSIX systems: files that are being written.
#include "base/os_out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/os_posix.h"
#include "base/temp_name.h"

bool hearth_os_out_put(struct hearth_outfile *f, const char *src, size_t n)
{
    return hearth_posix_write((int)f->file, src, n);
}

bool hearth_os_out_end_at(struct hearth_outfile *f, uint64_t offset)
{
    return !ftruncate((int)f->file, (off_t)offset) && lseek((int)f->file, (off_t)offset, SEEK_SET) >= 0;
}

bool hearth_os_out_sync(struct hearth_outfile *f)
{
    return !fsync((int)f->file);
}

int hearth_os_out_fail(const struct hearth_outfile *f, struct hearth_error *err, const char *what)
{
    return hearth_fail_errno(err, errno, "%s: %s (%llu bytes so far)", f->path, what,
                             (unsigned long long)f->offset);
}

// ---- opening

// Links to follow before one is taken for a circle.
#define MOST_LINKS 40

char *hearth_os_out_target(const char *path)
{
    char target[PATH_MAX];
    errno = ENOMEM; // not every allocator says so
    char *at = hearth_strndup(path, strlen(path));
    for (int i = 0; at; i++) {
        const ssize_t n = readlink(at, target, sizeof target - 1);
        if (n < 0)
            return at;
        target[n] = '\0';
        const char *slash = *target == '/' ? NULL : strrchr(at, '/');
        const size_t folder = slash ? (size_t)(slash - at) + 1 : 0;
        char *next = i < MOST_LINKS ? malloc(folder + (size_t)n + 1) : NULL;
        if (next) {
            memcpy(next, at, folder);
            memcpy(next + folder, target, (size_t)n + 1);
        }
        free(at);
        at = next;
        errno = i < MOST_LINKS ? ENOMEM : ELOOP;
    }
    return NULL;
}

// Removes the temporary file of a writer that was killed. A live writer holds a lock on its file,
// so a file that can be locked has no writer.
static void remove_if_stale(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    if (fd >= 0)
        close(fd);
}

static void remove_stale_temps(const char *path)
{
    const char *base = hearth_path_name(path);
    const size_t n = strlen(base);
    char *folder = hearth_posix_folder(path);
    DIR *d = folder ? opendir(folder) : NULL;
    free(folder);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        if (hearth_temp_name_length(e->d_name) == n && !memcmp(e->d_name, base, n))
            remove_if_stale(dirfd(d), e->d_name);
    closedir(d);
}

// Opens a file without a name, which needs no cleaning up after a crash. -1: the file system has none.
static int open_unnamed(const char *path)
{
    int fd = -1;
#ifdef O_TMPFILE
    if (getenv("ANDROID_ROOT")) // its rules let programs give no file a second name
        return -1;
    char *folder = hearth_posix_folder(path), link[40];
    fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    free(folder);
    // In the end it gets its name through /proc.
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fd >= 0 && access(link, F_OK) != 0) {
        close(fd);
        return -1;
    }
    if (fd >= 0)
        (void)flock(fd, LOCK_EX | LOCK_NB);
#else
    (void)path;
#endif
    return fd;
}

// Creates f->temp and locks it. Before it is locked, another process may remove it as stale; then
// it tries again.
static int open_named(struct hearth_outfile *f, struct hearth_error *err)
{
    for (int i = 0; i < 10; i++) {
        hearth_temp_name(f->temp, f->path);
        const int fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0) {
            f->temp[0] = '\0';
            return hearth_fail_errno(err, errno, "%s: cannot create the file", f->path);
        }
        struct stat st;
        bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && fstat(fd, &st) == 0 && st.st_nlink > 0) {
            f->file = fd;
            return HEARTH_OK;
        }
        close(fd);
        (void)unlink(f->temp);
    }
    f->temp[0] = '\0';
    return hearth_fail(err, HEARTH_E_IO, "%s: temporary files beside it disappear", f->path);
}

int hearth_os_out_create(struct hearth_outfile *f, struct hearth_error *err)
{
    remove_stale_temps(f->path);
    f->file = open_unnamed(f->path);
    return f->file < 0 ? open_named(f, err) : HEARTH_OK;
}

// ---- closing

// A rename is on disk only when its folder is. Some file systems cannot sync a folder; this is no error.
static void sync_folder(const char *path)
{
    char *folder = hearth_posix_folder(path);
    if (!folder)
        return;
    int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

// Gives the finished file its temporary name, if it has none, and then renames it to the final
// one. (Linking cannot replace an old file, renaming can.)
int hearth_os_out_place(struct hearth_outfile *f, struct hearth_error *err)
{
    if (!f->temp[0]) {
        char link[40];
        snprintf(link, sizeof link, "/proc/self/fd/%d", (int)f->file);
        hearth_temp_name(f->temp, f->path);
        if (linkat(AT_FDCWD, link, AT_FDCWD, f->temp, AT_SYMLINK_FOLLOW) != 0) {
            f->temp[0] = '\0';
            return hearth_fail_errno(err, errno, "%s: cannot name the finished file", f->path);
        }
    }
    if (rename(f->temp, f->path) != 0)
        return hearth_fail_errno(err, errno, "%s: cannot rename the finished file %s", f->path, f->temp);
    f->temp[0] = '\0';
    sync_folder(f->path);
    return HEARTH_OK;
}

void hearth_os_out_drop(struct hearth_outfile *f)
{
    if (f->file >= 0)
        close((int)f->file);
    if (f->temp[0])
        (void)unlink(f->temp);
}
