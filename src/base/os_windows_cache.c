// SPDX-License-Identifier: MIT
// Windows: folders of files that may go at any time.
#include "base/os_windows.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"

#define TEMP_END ".part"
// Between the years 1601 and 1970, in 100 ns.
#define EPOCH UINT64_C(116444736000000000)
// Files that one look at a folder chooses for removal at most.
#define MOST_OLD  256
#define NAME_MOST 768

// ---- writing

static bool write_all(HANDLE handle, const struct hearth_file_piece *parts, int n)
{
    for (int i = 0; i < n; i++) {
        const char *from = parts[i].bytes;
        for (size_t left = parts[i].n; left;) {
            DWORD put = 0;
            if (!WriteFile(handle, from, (DWORD)(left < (1u << 30) ? left : 1u << 30), &put, NULL))
                return false;
            from += put;
            left -= put;
        }
    }
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
    const size_t size = strlen(path) + sizeof ".0123abcd" TEMP_END;
    char *temp = hearth_calloc(1, size);
    if (!temp)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
    snprintf(temp, size, "%s.%08x" TEMP_END, path, (unsigned)hearth_random_u64());
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

struct old_file {
    uint64_t used, bytes;
    char name[NAME_MOST];
};

struct look {
    const char *folder, *suffix;
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

static bool remove_in(const struct look *l, const char *name)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/%s", l->folder, name);
    return n > 0 && (size_t)n < sizeof path && hearth_path_remove(path);
}

static void note(struct look *l, const char *name, uint64_t used, uint64_t bytes)
{
    l->bytes += bytes;
    if (strlen(name) >= NAME_MOST || (l->n == MOST_OLD && used >= l->old[MOST_OLD - 1].used))
        return;
    int at = l->n < MOST_OLD ? l->n++ : MOST_OLD - 1;
    for (; at > 0 && used < l->old[at - 1].used; at--)
        l->old[at] = l->old[at - 1];
    l->old[at] = (struct old_file){.used = used, .bytes = bytes};
    strcpy(l->old[at].name, name);
}

static void look_at(struct look *l, const WIN32_FIND_DATAW *entry)
{
    char *name = hearth_narrow(entry->cFileName);
    if (!name || entry->dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT)) {
        free(name);
        return;
    }
    if (is_temp(name, l->suffix)) // one that is written to cannot be removed
        (void)remove_in(l, name);
    else if (ends_with(name, strlen(name), l->suffix))
        note(l, name,
             (uint64_t)entry->ftLastWriteTime.dwHighDateTime << 32 | entry->ftLastWriteTime.dwLowDateTime,
             (uint64_t)entry->nFileSizeHigh << 32 | entry->nFileSizeLow);
    free(name);
}

static bool look(struct look *l)
{
    char pattern[4096];
    WIN32_FIND_DATAW entry;
    l->bytes = 0;
    l->n = 0;
    const int n = snprintf(pattern, sizeof pattern, "%s/*", l->folder);
    wchar_t *wide = n > 0 && (size_t)n < sizeof pattern ? hearth_wide(pattern) : NULL;
    const HANDLE list = wide ? FindFirstFileW(wide, &entry) : INVALID_HANDLE_VALUE;
    const DWORD error = GetLastError();
    free(wide);
    SetLastError(error);
    if (list == INVALID_HANDLE_VALUE)
        return false;
    do
        look_at(l, &entry);
    while (FindNextFileW(list, &entry));
    FindClose(list);
    return true;
}

// Removes the oldest that were found. False: it is no use to look again.
static bool remove_old(struct look *l, uint64_t most)
{
    bool removed = false;
    for (int i = 0; i < l->n && l->bytes > most; i++) {
        if (!remove_in(l, l->old[i].name))
            continue;
        removed = true;
        l->bytes -= l->old[i].bytes;
    }
    return removed && l->bytes > most;
}

int hearth_folder_trim(const char *path, const char *suffix, uint64_t most, uint64_t *bytes,
                       struct hearth_error *err)
{
    struct look l = {.folder = path, .suffix = suffix};
    bool found;
    *bytes = 0;
    l.old = hearth_calloc(MOST_OLD, sizeof *l.old);
    if (!l.old)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to look through the folder", path);
    do
        found = look(&l);
    while (found && remove_old(&l, most));
    const DWORD error = GetLastError();
    *bytes = l.bytes;
    free(l.old);
    return found ? HEARTH_OK : hearth_fail_windows(err, error, "%s: cannot read the folder", path);
}
