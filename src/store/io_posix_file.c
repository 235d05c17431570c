// SPDX-License-Identifier: MIT
// Linux and macOS: the file behind a store, opened for direct reads where the file system has them.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "store/backend.h"

// More than any system wants.
#define MOST_ALIGN 65536

#ifdef O_DIRECT
// The alignment that direct reads of the file need. Not every file system reports it; then it is
// the largest block size of common devices.
static uint32_t alignment_of(int fd)
{
    uint32_t align = 4096;
#ifdef STATX_DIOALIGN
    struct statx info;
    memset(&info, 0, sizeof info);
    if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) && (info.stx_mask & STATX_DIOALIGN) &&
        info.stx_dio_offset_align && info.stx_dio_mem_align) {
        align = info.stx_dio_offset_align > info.stx_dio_mem_align ? info.stx_dio_offset_align
                                                                   : info.stx_dio_mem_align;
        align = align < 512 ? 512 : align;
    }
#else
    (void)fd;
#endif
    return align;
}

// Some systems open files so and then refuse to read them: Android with files that applications share.
static bool reads_directly(const struct hearth_io_file *file)
{
    if (file->align > MOST_ALIGN)
        return false;
    void *block = hearth_aligned_alloc(MOST_ALIGN, MOST_ALIGN);
    const bool refused = block && pread((int)file->fd, block, file->align, 0) < 0 &&
                         (errno == EINVAL || errno == EOPNOTSUPP || errno == ENOTSUP);
    hearth_aligned_free(block);
    return !refused;
}
#endif

int hearth_io_file_open(struct hearth_io_file *out, const char *path, bool buffered, struct hearth_error *err)
{
    *out = (struct hearth_io_file){.fd = -1, .align = 1};
#ifdef O_DIRECT
    if (!buffered)
        out->fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (out->fd >= 0) {
        out->align = alignment_of((int)out->fd);
        out->direct = !(out->align & (out->align - 1)) && reads_directly(out);
        if (!out->direct)
            hearth_io_file_close(out);
    }
#endif
    if (out->fd < 0) {
        out->fd = open(path, O_RDONLY | O_CLOEXEC);
        out->align = 1;
    }
#ifdef F_NOCACHE // what is read in whole pages goes around the cache
    if (!buffered && out->fd >= 0 && !fcntl((int)out->fd, F_NOCACHE, 1)) {
        out->align = (uint32_t)hearth_os_page();
        out->direct = true;
    }
#endif
    struct stat info;
    if (out->fd < 0 || fstat((int)out->fd, &info)) {
        const int cause = errno;
        hearth_io_file_close(out);
        return hearth_fail(err, HEARTH_E_IO, "%s: cannot be opened: %s", path, strerror(cause));
    }
    if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
        hearth_io_file_close(out);
        return hearth_fail(err, HEARTH_E_IO, "%s: is not a file", path);
    }
    out->size = (uint64_t)info.st_size;
    return HEARTH_OK;
}

void hearth_io_file_close(struct hearth_io_file *file)
{
    if (file->fd >= 0)
        close((int)file->fd);
    file->fd = -1;
}

void hearth_io_file_forget(const struct hearth_io_file *file, uint64_t offset, uint64_t length)
{
#ifdef POSIX_FADV_DONTNEED
    posix_fadvise((int)file->fd, (off_t)offset, (off_t)length, POSIX_FADV_DONTNEED);
#else
    (void)file, (void)offset, (void)length;
#endif
}
