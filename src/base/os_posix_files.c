// SPDX-License-Identifier: MIT
// Linux and other POSIX systems: files.
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/os_posix.h"

// A shorter direct read costs more than it saves.
#define DIRECT_MIN ((size_t)64 << 10)
// Size of the bounce buffer for direct reads whose address does not match the file's alignment. Where it does, a
// block is enough.
#define BOUNCE ((size_t)1 << 20)

// ---- reading

struct hearth_file {
    int fd;
    int direct_fd; // the same file with O_DIRECT; -1: not available
    uint64_t size;
    size_t align_offset, align_memory; // alignment that direct reads need
    atomic_bool no_direct;             // a direct read was refused once
    char *path;
};

// Reads until at least `need` bytes have come, asking for up to `room`. (A direct read asks for
// whole blocks; the last block of the file may be short.) Returns the bytes read, which are fewer
// than `need` only at the end of the file, or -1 with errno.
static int64_t read_some(int fd, char *dst, size_t need, size_t room, uint64_t offset)
{
    size_t done = 0;
    while (done < need) {
        size_t want = room - done < HEARTH_MOST_TRANSFER ? room - done : HEARTH_MOST_TRANSFER;
        ssize_t got = pread(fd, dst + done, want, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

static int check_range(const struct hearth_file *f, size_t n, uint64_t offset, struct hearth_error *err)
{
    if (offset <= f->size && n <= f->size - offset)
        return HEARTH_OK;
    return hearth_fail(
        err, HEARTH_E_FORMAT,
        "%s: the file is truncated: %zu bytes from %llu on are needed, it has %llu; download it again",
        f->path, n, (unsigned long long)offset, (unsigned long long)f->size);
}

static int fail_shrunk(const struct hearth_file *f, struct hearth_error *err)
{
    return hearth_fail(err, HEARTH_E_IO, "%s: the file became shorter while it was being read", f->path);
}

int hearth_file_read(struct hearth_file *f, void *dst, size_t n, uint64_t offset, struct hearth_error *err)
{
    int rc = check_range(f, n, offset, err);
    if (rc)
        return rc;
    int64_t got = read_some(f->fd, dst, n, n, offset);
    if (got < 0)
        return hearth_fail_errno(err, errno, "%s: cannot read %zu bytes at %llu", f->path, n,
                                 (unsigned long long)offset);
    if ((uint64_t)got < n)
        return fail_shrunk(f, err);
    return HEARTH_OK;
}

// The direct reads below return HEARTH_OK, an error, or 1: the caller must then read through the page cache.
static int direct_failed(struct hearth_file *f, uint64_t offset, struct hearth_error *err)
{
    if (errno != EINVAL && errno != EOPNOTSUPP && errno != ENOTSUP)
        return hearth_fail_errno(err, errno, "%s: cannot read at %llu", f->path, (unsigned long long)offset);
    if (!atomic_exchange(&f->no_direct, true))
        hearth_log(HEARTH_LOG_INFO, "%s: direct reads are not possible here; reading through the page cache",
                   f->path);
    return 1;
}

// Reads straight into dst. offset, n and dst are aligned.
static int direct_in_place(struct hearth_file *f, char *dst, size_t n, uint64_t offset,
                           struct hearth_error *err)
{
    int64_t got = read_some(f->direct_fd, dst, n, n, offset);
    if (got < 0)
        return direct_failed(f, offset, err);
    return (uint64_t)got < n ? fail_shrunk(f, err) : HEARTH_OK;
}

struct bounce {
    char *at;
    size_t bytes; // whole blocks
};

static int direct_bounced(struct hearth_file *f, const struct bounce *b, char *dst, size_t n, uint64_t offset,
                          struct hearth_error *err)
{
    while (n > 0) {
        size_t skip = (size_t)(offset & (f->align_offset - 1));
        size_t take = n < b->bytes - skip ? n : b->bytes - skip;
        size_t want = hearth_round_up(skip + take, f->align_offset);
        int64_t got = read_some(f->direct_fd, b->at, skip + take, want, offset - skip);
        if (got < 0)
            return direct_failed(f, offset, err);
        if ((uint64_t)got < skip + take)
            return fail_shrunk(f, err);
        memcpy(dst, b->at + skip, take);
        dst += take;
        offset += take;
        n -= take;
    }
    return HEARTH_OK;
}

// Reads with direct I/O. Head and tail that do not fill whole blocks go through the bounce
// buffer. So does the middle, unless dst happens to be aligned there.
static int read_around_cache(struct hearth_file *f, char *dst, size_t n, uint64_t offset,
                             struct hearth_error *err)
{
    size_t align = f->align_offset;
    size_t head = (size_t)(-offset & (align - 1));
    size_t middle = (n - head) & ~(align - 1);
    const bool in_place = (((size_t)dst + head) & (f->align_memory - 1)) == 0;
    struct bounce b = {.bytes = in_place ? align : BOUNCE};
    b.at = hearth_aligned_alloc(f->align_memory > 4096 ? f->align_memory : 4096, b.bytes);
    if (!b.at)
        return 1;
    int rc;
    if (in_place) {
        rc = direct_bounced(f, &b, dst, head, offset, err);
        if (!rc)
            rc = direct_in_place(f, dst + head, middle, offset + head, err);
        if (!rc)
            rc = direct_bounced(f, &b, dst + head + middle, n - head - middle, offset + head + middle, err);
    } else {
        rc = direct_bounced(f, &b, dst, n, offset, err);
    }
    hearth_aligned_free(b.at);
    return rc;
}

int hearth_file_read_direct(struct hearth_file *f, void *dst, size_t n, uint64_t offset,
                            struct hearth_error *err)
{
    int rc = check_range(f, n, offset, err);
    if (rc)
        return rc;
    if (n >= DIRECT_MIN && f->direct_fd >= 0 && !atomic_load_explicit(&f->no_direct, memory_order_relaxed)) {
        rc = read_around_cache(f, dst, n, offset, err);
        if (rc <= 0)
            return rc;
    }
    rc = hearth_file_read(f, dst, n, offset, err);
#ifdef POSIX_FADV_DONTNEED
    // If direct I/O is not possible, at least drop what was read once from the page cache.
    if (!rc && n >= DIRECT_MIN)
        (void)posix_fadvise(f->fd, (off_t)offset, (off_t)n, POSIX_FADV_DONTNEED);
#endif
    return rc;
}

static void open_direct(struct hearth_file *f)
{
    f->direct_fd = -1;
    f->align_offset = f->align_memory = 4096;
#ifdef O_DIRECT
    f->direct_fd = open(f->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
#endif
#if defined(STATX_DIOALIGN)
    struct statx sx;
    if (f->direct_fd >= 0 && statx(f->direct_fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
        (sx.stx_mask & STATX_DIOALIGN)) {
        size_t o = sx.stx_dio_offset_align, m = sx.stx_dio_mem_align;
        bool sane = o && m && o <= DIRECT_MIN / 2 && m <= BOUNCE && (o & (o - 1)) == 0 && (m & (m - 1)) == 0;
        if (sane) {
            // Devices read whole pages as fast as 512 bytes, and half pages cost an extra copy in
            // some drivers.
            f->align_offset = o > 4096 ? o : 4096;
            f->align_memory = m;
        } else {
            close(f->direct_fd);
            f->direct_fd = -1;
        }
    }
#endif
}

bool hearth_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int hearth_file_open(struct hearth_file **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_file *f = calloc(1, sizeof *f);
    char *copy = hearth_strndup(path, strlen(path));
    if (!f || !copy) {
        free(f);
        free(copy);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to open the file", path);
    }
    f->path = copy;
    f->direct_fd = -1;
    struct stat st;
    int rc = HEARTH_OK;
    // O_NONBLOCK: opening a pipe by mistake must not hang; it has no effect on regular files.
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        rc = hearth_fail_errno(err, errno, "%s: cannot open the file", path);
    else if (!S_ISREG(st.st_mode))
        rc = hearth_fail(err, HEARTH_E_INVALID, "%s: %s, not a regular file", path,
                         S_ISDIR(st.st_mode) ? "this is a folder" : "this is a device or pipe");
    if (rc) {
        hearth_file_close(&f);
        return rc;
    }
    f->size = (uint64_t)st.st_size;
    open_direct(f);
    *out = f;
    return HEARTH_OK;
}

void hearth_file_close(struct hearth_file **file)
{
    struct hearth_file *f = *file;
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->direct_fd >= 0)
        close(f->direct_fd);
    free(f->path);
    free(f);
    *file = NULL;
}

uint64_t hearth_file_size(const struct hearth_file *f)
{
    return f->size;
}

const char *hearth_file_path(const struct hearth_file *f)
{
    return f->path;
}

// ---- writing

bool hearth_posix_write(int fd, const void *src, size_t n)
{
    const char *from = src;
    while (n > 0) {
        const ssize_t put = write(fd, from, n < HEARTH_MOST_TRANSFER ? n : HEARTH_MOST_TRANSFER);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        from += put;
        n -= (size_t)put;
    }
    return true;
}

// ---- folders

char *hearth_posix_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? hearth_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : hearth_strndup(".", 1);
}

uint64_t hearth_disk_free(const char *path)
{
    struct statvfs disk;
    char *folder = hearth_posix_folder(path);
    int rc = folder ? statvfs(folder, &disk) : -1;
    while (rc && folder && errno == ENOENT && strcmp(folder, ".") != 0) { // the folder will be made
        char *above = hearth_posix_folder(folder);
        free(folder);
        folder = above;
        rc = folder ? statvfs(folder, &disk) : -1;
    }
    free(folder);
    return rc ? UINT64_MAX : (uint64_t)disk.f_bavail * disk.f_frsize;
}

int hearth_folder_make(const char *path, struct hearth_error *err)
{
    char *part = hearth_strndup(path, strlen(path));
    struct stat st;
    if (!*path) {
        free(part);
        return hearth_fail(err, HEARTH_E_INVALID, "a folder without a name cannot be made");
    }
    if (!part)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to make the folder", path);
    for (char *at = part + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(part, 0700); // if it is missing afterwards, the last one cannot be made
            *at = '/';
        }
    free(part);
    if (!mkdir(path, 0700) || (errno == EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode)))
        return HEARTH_OK;
    return hearth_fail_errno(err, errno, "%s: cannot make the folder", path);
}

uint64_t hearth_file_device(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_dev : 0;
}
