// SPDX-License-Identifier: MIT
// Windows: files that are being written.
#include "base/os_windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <winioctl.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/os_out.h"
#include "base/temp_name.h"

bool hearth_os_out_put(struct hearth_outfile *f, const char *src, size_t n)
{
    return hearth_windows_write((HANDLE)f->file, src, n);
}

bool hearth_os_out_end_at(struct hearth_outfile *f, uint64_t offset)
{
    const LARGE_INTEGER to = {.QuadPart = (LONGLONG)offset};
    const HANDLE handle = (HANDLE)f->file;
    DWORD got;
    if (f->sparse) // where there are no holes, what lies between is written
        (void)DeviceIoControl(handle, FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &got, NULL);
    return SetFilePointerEx(handle, to, NULL, FILE_BEGIN) && SetEndOfFile(handle);
}

bool hearth_os_out_sync(struct hearth_outfile *f)
{
    return FlushFileBuffers((HANDLE)f->file);
}

int hearth_os_out_fail(const struct hearth_outfile *f, struct hearth_error *err, const char *what)
{
    return hearth_fail_windows(err, GetLastError(), "%s: %s (%llu bytes so far)", f->path, what,
                               (unsigned long long)f->offset);
}

// ---- opening

// The system follows links by itself.
char *hearth_os_out_target(const char *path)
{
    errno = ENOMEM;
    return hearth_strndup(path, strlen(path));
}

// Removes temporary files of writers that were killed. One that lives lets nobody remove its file.
static void remove_stale_temps(const char *path)
{
    const char *base = hearth_path_name(path);
    const size_t n = strlen(base);
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
        if (full && hearth_temp_name_length(name) == n && !memcmp(name, base, n)) {
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

int hearth_os_out_create(struct hearth_outfile *f, struct hearth_error *err)
{
    remove_stale_temps(f->path);
    hearth_temp_name(f->temp, f->path);
    const HANDLE handle =
        hearth_windows_open(f->temp, GENERIC_WRITE, FILE_SHARE_READ, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
    f->file = (intptr_t)handle;
    if (handle != INVALID_HANDLE_VALUE)
        return HEARTH_OK;
    const DWORD error = GetLastError();
    f->temp[0] = '\0';
    return hearth_fail_windows(err, error, "%s: cannot create the file", f->path);
}

// ---- closing

int hearth_os_out_place(struct hearth_outfile *f, struct hearth_error *err)
{
    CloseHandle((HANDLE)f->file);
    f->file = -1;
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

void hearth_os_out_drop(struct hearth_outfile *f)
{
    if (f->file != -1)
        CloseHandle((HANDLE)f->file);
    if (f->temp[0])
        (void)hearth_path_remove(f->temp);
}
