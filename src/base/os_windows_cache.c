// SPDX-License-Identifier: MIT
// Windows: folders of files that may go at any time.
#include "base/os_windows.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/os_folder.h"
#include "base/temp_name.h"

// Between the years 1601 and 1970, in 100 ns.
#define EPOCH     UINT64_C(116444736000000000)
#define PATH_MOST 4096

// ---- writing

static bool write_all(HANDLE handle, const struct hearth_file_piece *parts, int n)
{
    for (int i = 0; i < n; i++)
        if (!hearth_windows_write(handle, parts[i].bytes, parts[i].n))
            return false;
    return true;
}

static bool move(const char *from, const char *to)
{
    wchar_t *a = hearth_wide(from), *b = hearth_wide(to);
    const bool moved = a && b && MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING);
    const DWORD error = a && b ? GetLastError() : ERROR_NOT_ENOUGH_MEMORY;
    free(a);
    free(b);
    SetLastError(error);
    return moved;
}

int hearth_cache_file_put(const char *path, const struct hearth_file_piece *parts, int n,
                          struct hearth_error *err)
{
    char *temp = hearth_calloc(1, strlen(path) + HEARTH_TEMP_SUFFIX + 1);
    if (!temp)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
    hearth_temp_name(temp, path);
    const HANDLE handle = hearth_windows_open(temp, GENERIC_WRITE, 0, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
    const bool opened = handle != INVALID_HANDLE_VALUE;
    bool ok = opened && write_all(handle, parts, n);
    DWORD error = ok ? 0 : GetLastError();
    if (opened)
        CloseHandle(handle);
    struct hearth_path at;
    // A file that somebody reads cannot be replaced; it is as good.
    if (ok && !move(temp, path) && !hearth_path_look(path, &at)) {
        error = GetLastError();
        ok = false;
    }
    (void)hearth_path_remove(temp);
    free(temp);
    return ok ? HEARTH_OK : hearth_fail_windows(err, error, "%s: cannot write the file", path);
}

bool hearth_cache_file_touch(const char *path, uint64_t ns)
{
    const uint64_t time = ns / 100 + EPOCH;
    const FILETIME when = {.dwLowDateTime = (DWORD)time, .dwHighDateTime = (DWORD)(time >> 32)};
    const HANDLE handle = hearth_windows_open(path, FILE_WRITE_ATTRIBUTES,
                                              FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                              OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL);
    if (handle == INVALID_HANDLE_VALUE)
        return false;
    const bool done = SetFileTime(handle, NULL, &when, &when);
    CloseHandle(handle);
    return done;
}

void hearth_cache_file_remove(const char *path)
{
    (void)hearth_path_remove(path);
}

// ---- keeping a folder small

static bool join(char *path, const char *folder, const char *name)
{
    const int n = snprintf(path, PATH_MOST, "%s/%s", folder, name);
    return n > 0 && n < PATH_MOST;
}

static void tell(const WIN32_FIND_DATAW *entry, void (*fn)(void *arg, const struct hearth_folder_file *file),
                 void *arg)
{
    const DWORD others = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT;
    char *name = entry->dwFileAttributes & others ? NULL : hearth_narrow(entry->cFileName);
    const FILETIME *written = &entry->ftLastWriteTime;
    const struct hearth_folder_file file = {
        .name = name,
        .used = (uint64_t)written->dwHighDateTime << 32 | written->dwLowDateTime,
        .bytes = (uint64_t)entry->nFileSizeHigh << 32 | entry->nFileSizeLow};
    if (name)
        fn(arg, &file);
    free(name);
}

int hearth_folder_walk(const char *folder, void (*fn)(void *arg, const struct hearth_folder_file *file),
                       void *arg, struct hearth_error *err)
{
    char pattern[PATH_MOST];
    WIN32_FIND_DATAW entry;
    wchar_t *wide = join(pattern, folder, "*") ? hearth_wide(pattern) : NULL;
    const HANDLE list = wide ? FindFirstFileW(wide, &entry) : INVALID_HANDLE_VALUE;
    const DWORD error = GetLastError();
    free(wide);
    if (list == INVALID_HANDLE_VALUE)
        return hearth_fail_windows(err, error, "%s: cannot read the folder", folder);
    do
        tell(&entry, fn, arg);
    while (FindNextFileW(list, &entry));
    FindClose(list);
    return HEARTH_OK;
}

bool hearth_folder_remove(const char *folder, const char *name)
{
    char path[PATH_MOST];
    return join(path, folder, name) && hearth_path_remove(path);
}

// One that is written to cannot be removed.
void hearth_folder_remove_stale(const char *folder, const char *name)
{
    (void)hearth_folder_remove(folder, name);
}
