// SPDX-License-Identifier: MIT
// Windows: files.
#include "base/os_windows.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <winioctl.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"

// Bytes of one read or write: below the limits of all systems, and a multiple of every block size.
#define MAX_TRANSFER ((size_t)1 << 30)
// A shorter direct read costs more than it saves.
#define DIRECT_MIN ((size_t)64 << 10)
#define BOUNCE     ((size_t)1 << 20)
#define OUT_BUFFER ((size_t)256 << 10)
// Of offset, size and memory of reads without buffers: the largest sector of common devices.
#define ALIGN ((size_t)4096)
// Length of ".0123abcd.part".
#define TEMP_SUFFIX 14
#define SHARE_ALL   (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

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
        const size_t want = room - done < MAX_TRANSFER ? room - done : MAX_TRANSFER;
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
        const size_t part = in_place ? (n < MAX_TRANSFER ? n : MAX_TRANSFER) & ~(ALIGN - 1) : take;
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

// ---- writing

struct hearth_outfile {
    HANDLE handle;
    bool failed, sparse; // a write failed: the file must not be committed; it has holes
    char *path, *temp;
    uint64_t offset; // bytes written so far
    size_t used;     // bytes in buffer
    char *buffer;    // [OUT_BUFFER]
};

static int write_out(struct hearth_outfile *f, const char *src, size_t n, struct hearth_error *err)
{
    while (n > 0) {
        DWORD put = 0;
        if (!WriteFile(f->handle, src, (DWORD)(n < MAX_TRANSFER ? n : MAX_TRANSFER), &put, NULL)) {
            f->failed = true;
            return hearth_fail_windows(err, GetLastError(), "%s: cannot write (%llu bytes so far)", f->path,
                                       (unsigned long long)f->offset);
        }
        src += put;
        n -= put;
    }
    return HEARTH_OK;
}

static int flush_out(struct hearth_outfile *f, struct hearth_error *err)
{
    const size_t n = f->used;
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

static bool end_at(struct hearth_outfile *f, uint64_t offset)
{
    const LARGE_INTEGER to = {.QuadPart = (LONGLONG)offset};
    return SetFilePointerEx(f->handle, to, NULL, FILE_BEGIN) && SetEndOfFile(f->handle);
}

int hearth_outfile_skip(struct hearth_outfile *f, uint64_t n, struct hearth_error *err)
{
    const int rc = flush_out(f, err);
    DWORD got;
    if (rc)
        return rc;
    if (!f->sparse && n) // where there are no holes, what lies between is written
        (void)DeviceIoControl(f->handle, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &got, NULL);
    f->sparse |= n > 0;
    if (!end_at(f, f->offset + n)) {
        f->failed = true;
        return hearth_fail_windows(err, GetLastError(), "%s: cannot be %llu bytes long", f->path,
                                   (unsigned long long)(f->offset + n));
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
        f->failed |= !end_at(f, offset);
    }
    f->offset = offset;
}

// "BASE.0123abcd.part"
static bool is_temp_of(const char *name, const char *base)
{
    const size_t n = strlen(base);
    return strncmp(name, base, n) == 0 && strlen(name + n) == TEMP_SUFFIX && name[n] == '.' &&
           strspn(name + n + 1, "0123456789abcdef") == 8 && strcmp(name + n + 9, ".part") == 0;
}

// Removes temporary files of writers that were killed. One that lives lets nobody remove its file.
static void remove_stale_temps(const char *path)
{
    const char *base = hearth_path_name(path);
    char *pattern = hearth_calloc(strlen(path) + 2, 1);
    WIN32_FIND_DATAW entry;
    if (!pattern)
        return;
    memcpy(pattern, path, strlen(path));
    strcpy(pattern + strlen(pattern), "*");
    wchar_t *wide = hearth_wide(pattern);
    const HANDLE list = wide ? FindFirstFileW(wide, &entry) : INVALID_HANDLE_VALUE;
    bool more = list != INVALID_HANDLE_VALUE;
    for (; more; more = FindNextFileW(list, &entry)) {
        char *name = hearth_narrow(entry.cFileName);
        char *full = name ? hearth_calloc(strlen(path) + strlen(name) + 1, 1) : NULL;
        if (full && is_temp_of(name, base)) {
            memcpy(full, path, (size_t)(base - path));
            strcpy(full + (base - path), name);
            (void)hearth_path_remove(full);
        }
        free(full);
        free(name);
    }
    if (list != INVALID_HANDLE_VALUE)
        FindClose(list);
    free(wide);
    free(pattern);
}

// Checks the output path now, because commit would fail with the same error hours later.
static int check_out_name(const char *path, struct hearth_error *err)
{
    struct hearth_path at;
    if (!*hearth_path_name(path))
        return hearth_fail(err, HEARTH_E_INVALID, "\"%s\" is not the name of a file: give one to write",
                           path);
    if (hearth_path_look(path, &at) && at.kind != HEARTH_PATH_FILE)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: exists and is not a regular file; give another name",
                           path);
    if (strlen(hearth_path_name(path)) + TEMP_SUFFIX > 255)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: the name is too long, at most %d bytes will do", path,
                           255 - TEMP_SUFFIX);
    return HEARTH_OK;
}

int hearth_outfile_open(struct hearth_outfile **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    int rc = check_out_name(path, err);
    if (rc)
        return rc;
    struct hearth_outfile *f = hearth_calloc(1, sizeof *f);
    if (f) {
        f->handle = INVALID_HANDLE_VALUE;
        f->path = hearth_strndup(path, strlen(path));
        f->temp = hearth_calloc(1, strlen(path) + TEMP_SUFFIX + 1);
        f->buffer = malloc(OUT_BUFFER);
    }
    if (!f || !f->path || !f->temp || !f->buffer) {
        hearth_outfile_close(&f);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
    }
    remove_stale_temps(path);
    snprintf(f->temp, strlen(path) + TEMP_SUFFIX + 1, "%s.%08x.part", path, (unsigned)hearth_random_u64());
    f->handle =
        hearth_windows_open(f->temp, GENERIC_WRITE, FILE_SHARE_READ, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
    if (f->handle == INVALID_HANDLE_VALUE) {
        f->temp[0] = '\0';
        rc = hearth_fail_windows(err, GetLastError(), "%s: cannot create the file", path);
        hearth_outfile_close(&f);
    }
    *out = f;
    return rc;
}

static int put_in_place(struct hearth_outfile *f, struct hearth_error *err)
{
    CloseHandle(f->handle);
    f->handle = INVALID_HANDLE_VALUE;
    wchar_t *from = hearth_wide(f->temp), *to = hearth_wide(f->path);
    const bool moved =
        from && to && MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
    const DWORD error = from && to ? GetLastError() : ERROR_NOT_ENOUGH_MEMORY;
    free(from);
    free(to);
    if (!moved)
        return hearth_fail_windows(err, error, "%s: cannot rename the finished file %s", f->path, f->temp);
    f->temp[0] = '\0';
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
    if (!rc && !FlushFileBuffers(f->handle))
        rc = hearth_fail_windows(err, GetLastError(), "%s: cannot bring the file to disk", f->path);
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
    if (f->handle != INVALID_HANDLE_VALUE)
        CloseHandle(f->handle);
    if (f->temp && f->temp[0])
        (void)hearth_path_remove(f->temp);
    free(f->path);
    free(f->temp);
    free(f->buffer);
    free(f);
    *file = NULL;
}
