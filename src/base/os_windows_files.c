// SPDX-License-Identifier: MIT
// Windows: files.
#include "base/os_windows.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"

// A shorter direct read costs more than it saves.
#define DIRECT_MIN ((size_t)64 << 10)
#define BOUNCE     ((size_t)1 << 20)
// Of offset, size and memory of reads without buffers: the largest sector of common devices.
#define ALIGN     ((size_t)4096)
#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

OVERLAPPED hearth_windows_at(uint64_t offset)
{
    return (OVERLAPPED){.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
}

// ---- reading

struct hearth_file {
    HANDLE handle, direct; // direct: the same file without buffers; INVALID_HANDLE_VALUE: not available
    uint64_t size;
    atomic_bool no_direct; // a direct read was refused once
    char *path;
};

// Reads until at least `need` bytes have come, asking for up to `room`. Returns the bytes read, which are fewer than
// `need` only at the end of the file, or -1 and the reason in GetLastError().
static int64_t read_some(HANDLE handle, char *dst, size_t need, size_t room, uint64_t offset)
{
    size_t done = 0;
    while (done < need) {
        const size_t want = room - done < HEARTH_MOST_TRANSFER ? room - done : HEARTH_MOST_TRANSFER;
        OVERLAPPED at = hearth_windows_at(offset + done);
        DWORD got = 0;
        if (!ReadFile(handle, dst + done, (DWORD)want, &got, &at) && GetLastError() != ERROR_HANDLE_EOF)
            return -1;
        if (!got)
            break;
        done += got;
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

static int finish_read(const struct hearth_file *f, int64_t got, size_t n, uint64_t offset,
                       struct hearth_error *err)
{
    if (got < 0)
        return hearth_fail_windows(err, GetLastError(), "%s: cannot read %zu bytes at %llu", f->path, n,
                                   (unsigned long long)offset);
    if ((uint64_t)got < n)
        return hearth_fail(err, HEARTH_E_IO, "%s: the file became shorter while it was being read", f->path);
    return HEARTH_OK;
}

int hearth_file_read(struct hearth_file *f, void *dst, size_t n, uint64_t offset, struct hearth_error *err)
{
    const int rc = check_range(f, n, offset, err);
    return rc ? rc : finish_read(f, read_some(f->handle, dst, n, n, offset), n, offset, err);
}

// Reads whole sectors into memory of its own. Returns HEARTH_OK, an error, or 1: to be read through the cache.
static int read_around_cache(struct hearth_file *f, char *dst, size_t n, uint64_t offset,
                             struct hearth_error *err)
{
    char *bounce = hearth_aligned_alloc(ALIGN, BOUNCE);
    int rc = bounce ? HEARTH_OK : 1;
    while (n > 0 && !rc) {
        const size_t skip = (size_t)(offset & (ALIGN - 1)), take = n < BOUNCE - skip ? n : BOUNCE - skip;
        const bool in_place = !skip && take >= ALIGN && ((uintptr_t)dst & (ALIGN - 1)) == 0;
        const size_t part =
            in_place ? (n < HEARTH_MOST_TRANSFER ? n : HEARTH_MOST_TRANSFER) & ~(ALIGN - 1) : take;
        const size_t want = in_place ? part : hearth_round_up(skip + part, ALIGN);
        const int64_t got = read_some(f->direct, in_place ? dst : bounce, skip + part, want, offset - skip);
        if (got < 0 && GetLastError() == ERROR_INVALID_PARAMETER) {
            if (!atomic_exchange(&f->no_direct, true))
                hearth_log(HEARTH_LOG_INFO,
                           "%s: direct reads are not possible here; reading through the page cache", f->path);
            rc = 1;
            break;
        }
        rc = finish_read(f, got, skip + part, offset - skip, err);
        if (!rc && !in_place)
            memcpy(dst, bounce + skip, part);
        dst += part;
        offset += part;
        n -= part;
    }
    if (bounce)
        hearth_aligned_free(bounce);
    return rc;
}

int hearth_file_read_direct(struct hearth_file *f, void *dst, size_t n, uint64_t offset,
                            struct hearth_error *err)
{
    int rc = check_range(f, n, offset, err);
    if (rc)
        return rc;
    if (n >= DIRECT_MIN && f->direct != INVALID_HANDLE_VALUE &&
        !atomic_load_explicit(&f->no_direct, memory_order_relaxed)) {
        rc = read_around_cache(f, dst, n, offset, err);
        if (rc <= 0)
            return rc;
    }
    return hearth_file_read(f, dst, n, offset, err);
}

bool hearth_file_exists(const char *path)
{
    struct hearth_path at;
    return hearth_path_look(path, &at) && at.kind == HEARTH_PATH_FILE;
}

int hearth_file_open(struct hearth_file **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_file *f = hearth_calloc(1, sizeof *f);
    char *copy = hearth_strndup(path, strlen(path));
    if (!f || !copy) {
        free(f);
        free(copy);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to open the file", path);
    }
    f->path = copy;
    f->direct = INVALID_HANDLE_VALUE;
    struct hearth_path at;
    int rc = HEARTH_OK;
    f->handle = hearth_windows_open(path, GENERIC_READ, SHARE_ALL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (f->handle == INVALID_HANDLE_VALUE || !hearth_windows_look(f->handle, &at))
        rc = hearth_fail_windows(err, GetLastError(), "%s: cannot open the file", path);
    else if (at.kind != HEARTH_PATH_FILE)
        rc = hearth_fail(err, HEARTH_E_INVALID, "%s: %s, not a regular file", path,
                         at.kind == HEARTH_PATH_FOLDER ? "this is a folder" : "this is a device or pipe");
    if (rc) {
        hearth_file_close(&f);
        return rc;
    }
    f->size = at.size;
    f->direct = hearth_windows_open(path, GENERIC_READ, SHARE_ALL, OPEN_EXISTING, FILE_FLAG_NO_BUFFERING);
    *out = f;
    return HEARTH_OK;
}

void hearth_file_close(struct hearth_file **file)
{
    struct hearth_file *f = *file;
    if (!f)
        return;
    if (f->handle != INVALID_HANDLE_VALUE)
        CloseHandle(f->handle);
    if (f->direct != INVALID_HANDLE_VALUE)
        CloseHandle(f->direct);
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

bool hearth_windows_write(HANDLE handle, const void *src, size_t n)
{
    const char *from = src;
    while (n > 0) {
        DWORD put = 0;
        const DWORD most = (DWORD)(n < HEARTH_MOST_TRANSFER ? n : HEARTH_MOST_TRANSFER);
        if (!WriteFile(handle, from, most, &put, NULL))
            return false;
        from += put;
        n -= put;
    }
    return true;
}
