// SPDX-License-Identifier: MIT
// Linux and other POSIX systems: files.
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"

// Bytes of one read() or write(): below the limits of all systems, and a multiple of every block size.
#define MAX_TRANSFER ((size_t)1 << 30)
// A shorter direct read costs more than it saves.
#define DIRECT_MIN ((size_t)64 << 10)
// Size of the bounce buffer for direct reads whose address does not match the file's alignment.
#define BOUNCE     ((size_t)1 << 20)
#define OUT_BUFFER ((size_t)256 << 10)
// Length of ".0123abcd.part".
#define TEMP_SUFFIX 14

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
        size_t want = room - done < MAX_TRANSFER ? room - done : MAX_TRANSFER;
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

static int direct_bounced(struct hearth_file *f, char *bounce, char *dst, size_t n, uint64_t offset,
                          struct hearth_error *err)
{
    while (n > 0) {
        size_t skip = (size_t)(offset & (f->align_offset - 1));
        size_t take = n < BOUNCE - skip ? n : BOUNCE - skip;
        size_t want = hearth_round_up(skip + take, f->align_offset);
        int64_t got = read_some(f->direct_fd, bounce, skip + take, want, offset - skip);
        if (got < 0)
            return direct_failed(f, offset, err);
        if ((uint64_t)got < skip + take)
            return fail_shrunk(f, err);
        memcpy(dst, bounce + skip, take);
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
    char *bounce = hearth_aligned_alloc(f->align_memory > 4096 ? f->align_memory : 4096, BOUNCE);
    if (!bounce)
        return 1;
    int rc;
    if ((((size_t)dst + head) & (f->align_memory - 1)) == 0) {
        rc = direct_bounced(f, bounce, dst, head, offset, err);
        if (!rc)
            rc = direct_in_place(f, dst + head, middle, offset + head, err);
        if (!rc)
            rc = direct_bounced(f, bounce, dst + head + middle, n - head - middle, offset + head + middle,
                                err);
    } else {
        rc = direct_bounced(f, bounce, dst, n, offset, err);
    }
    hearth_aligned_free(bounce);
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

struct hearth_outfile {
    int fd;
    bool failed;       // a write failed: the file must not be committed
    char *path, *temp; // temp is empty while the file has no name
    uint64_t offset;   // bytes written so far
    size_t used;       // bytes in buffer
    char *buffer;      // [OUT_BUFFER]
};

static int write_out(struct hearth_outfile *f, const char *src, size_t n, struct hearth_error *err)
{
    while (n > 0) {
        ssize_t put = write(f->fd, src, n < MAX_TRANSFER ? n : MAX_TRANSFER);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            f->failed = true;
            return hearth_fail_errno(err, errno, "%s: cannot write (%llu bytes so far)", f->path,
                                     (unsigned long long)f->offset);
        }
        src += put;
        n -= (size_t)put;
    }
    return HEARTH_OK;
}

static int flush_out(struct hearth_outfile *f, struct hearth_error *err)
{
    size_t n = f->used;
    f->used = 0;
    return write_out(f, f->buffer, n, err);
}

int hearth_outfile_write(struct hearth_outfile *f, const void *src, size_t n, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    if (n > OUT_BUFFER - f->used)
        rc = flush_out(f, err);
    if (rc)
        return rc;
    if (n >= OUT_BUFFER) {
        rc = write_out(f, src, n, err);
    } else if (n > 0) {
        memcpy(f->buffer + f->used, src, n);
        f->used += n;
    }
    if (!rc)
        f->offset += n;
    return rc;
}

int hearth_outfile_skip(struct hearth_outfile *f, uint64_t n, struct hearth_error *err)
{
    const int rc = flush_out(f, err);
    if (rc)
        return rc;
    const off_t to = (off_t)(f->offset + n);
    if (ftruncate(f->fd, to) || lseek(f->fd, to, SEEK_SET) < 0) {
        f->failed = true;
        return hearth_fail_errno(err, errno, "%s: cannot be %llu bytes long", f->path,
                                 (unsigned long long)to);
    }
    f->offset += n;
    return HEARTH_OK;
}

uint64_t hearth_outfile_offset(const struct hearth_outfile *f)
{
    return f->offset;
}

void hearth_outfile_cut(struct hearth_outfile *f, uint64_t offset)
{
    const uint64_t in_file = f->offset - f->used;
    if (offset >= in_file) {
        f->used = (size_t)(offset - in_file);
    } else {
        f->used = 0;
        if (ftruncate(f->fd, (off_t)offset) || lseek(f->fd, (off_t)offset, SEEK_SET) < 0)
            f->failed = true;
    }
    f->offset = offset;
}

// Links to follow before one is taken for a circle.
#define MOST_LINKS 40

// The file that a path stands for, through links, which may lead to where nothing is yet; the caller frees it.
// NULL: no memory, or too many links; errno says which.
static char *follow_links(const char *path)
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

static int outfile_alloc(struct hearth_outfile **out, const char *path)
{
    struct hearth_outfile *f = calloc(1, sizeof *f);
    if (!f)
        return HEARTH_E_MEMORY;
    f->fd = -1;
    f->path = hearth_strndup(path, strlen(path));
    f->temp = calloc(1, strlen(path) + TEMP_SUFFIX + 1);
    f->buffer = malloc(OUT_BUFFER);
    if (!f->path || !f->temp || !f->buffer) {
        hearth_outfile_close(&f);
        return HEARTH_E_MEMORY;
    }
    *out = f;
    return HEARTH_OK;
}

// The folder of a path; the caller frees it. NULL: no memory.
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? hearth_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : hearth_strndup(".", 1);
}

static void name_temp(struct hearth_outfile *f)
{
    snprintf(f->temp, strlen(f->path) + TEMP_SUFFIX + 1, "%s.%08x.part", f->path,
             (unsigned)hearth_random_u64());
}

// "BASE.0123abcd.part"
static bool is_temp_of(const char *name, const char *base)
{
    const size_t n = strlen(base);
    return strncmp(name, base, n) == 0 && strlen(name + n) == TEMP_SUFFIX && name[n] == '.' &&
           strspn(name + n + 1, "0123456789abcdef") == 8 && strcmp(name + n + 9, ".part") == 0;
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
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *folder = folder_of(path);
    DIR *d = folder ? opendir(folder) : NULL;
    free(folder);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        if (is_temp_of(e->d_name, base))
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
    char *folder = folder_of(path), link[40];
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
        name_temp(f);
        f->fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0) {
            f->temp[0] = '\0';
            return hearth_fail_errno(err, errno, "%s: cannot create the file", f->path);
        }
        struct stat st;
        bool taken = flock(f->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && fstat(f->fd, &st) == 0 && st.st_nlink > 0)
            return HEARTH_OK;
        close(f->fd);
        (void)unlink(f->temp);
        f->fd = -1;
    }
    f->temp[0] = '\0';
    return hearth_fail(err, HEARTH_E_IO, "%s: temporary files beside it disappear", f->path);
}

// Checks the output path now, because commit would fail with the same error hours later.
static int check_out_name(const char *path, struct hearth_error *err)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    struct stat st;
    // The final rename would replace a device such as /dev/null with a file.
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return hearth_fail(err, HEARTH_E_INVALID, "%s: exists and is not a regular file; give another name",
                           path);
    if (!*base)
        return hearth_fail(err, HEARTH_E_INVALID, "\"%s\" is not the name of a file: give one to write",
                           path);
    if (strlen(base) + TEMP_SUFFIX > NAME_MAX)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: the name is too long, at most %d bytes will do", path,
                           NAME_MAX - TEMP_SUFFIX);
    return HEARTH_OK;
}

static int open_out(struct hearth_outfile **out, const char *path, struct hearth_error *err)
{
    int rc = check_out_name(path, err);
    if (rc)
        return rc;
    struct hearth_outfile *f;
    if (outfile_alloc(&f, path))
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
    remove_stale_temps(path);
    f->fd = open_unnamed(path);
    if (f->fd < 0)
        rc = open_named(f, err);
    if (rc)
        hearth_outfile_close(&f);
    *out = f;
    return rc;
}

// A rename to a link would put the file in the link's place. What is wrong with what a link such as /dev/stdout leads
// to is told by the name that was given.
int hearth_outfile_open(struct hearth_outfile **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    int rc = check_out_name(path, err);
    if (rc)
        return rc;
    char *file = follow_links(path);
    if (!file && errno == ENOMEM)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
    if (!file)
        return hearth_fail_errno(err, errno, "%s: cannot write the file", path);
    rc = open_out(out, file, err);
    free(file);
    return rc;
}

// A rename is on disk only when its folder is. Some file systems cannot sync a folder; this is no error.
static void sync_folder(const char *path)
{
    char *folder = folder_of(path);
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
static int put_in_place(struct hearth_outfile *f, struct hearth_error *err)
{
    if (!f->temp[0]) {
        char link[40];
        snprintf(link, sizeof link, "/proc/self/fd/%d", f->fd);
        name_temp(f);
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

int hearth_outfile_commit(struct hearth_outfile **file, struct hearth_error *err)
{
    struct hearth_outfile *f = *file;
    int rc = HEARTH_OK;
    if (f->failed)
        rc = hearth_fail(err, HEARTH_E_IO, "%s: not kept, because a write failed", f->path);
    if (!rc)
        rc = flush_out(f, err);
    if (!rc && fsync(f->fd) != 0)
        rc = hearth_fail_errno(err, errno, "%s: cannot bring the file to disk", f->path);
    if (!rc)
        rc = put_in_place(f, err);
    hearth_outfile_close(file);
    return rc;
}

int hearth_outfile_save(const char *path, const void *src, size_t n, struct hearth_error *err)
{
    struct hearth_outfile *f;
    int rc = hearth_outfile_open(&f, path, err);
    if (!rc)
        rc = hearth_outfile_write(f, src, n, err);
    if (!rc)
        rc = hearth_outfile_commit(&f, err);
    hearth_outfile_close(&f);
    return rc;
}

void hearth_outfile_close(struct hearth_outfile **file)
{
    struct hearth_outfile *f = *file;
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->temp && f->temp[0])
        (void)unlink(f->temp);
    free(f->path);
    free(f->temp);
    free(f->buffer);
    free(f);
    *file = NULL;
}

// ---- folders

uint64_t hearth_disk_free(const char *path)
{
    struct statvfs disk;
    char *folder = folder_of(path);
    int rc = folder ? statvfs(folder, &disk) : -1;
    while (rc && folder && errno == ENOENT && strcmp(folder, ".") != 0) { // the folder will be made
        char *above = folder_of(folder);
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
