// SPDX-License-Identifier: MIT
// Windows: paths and folders.
#include "base/os_windows.h"

#include <aclapi.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

HANDLE hearth_windows_open(const char *path, DWORD access, DWORD share, DWORD how, DWORD flags)
{
    wchar_t *wide = hearth_wide(path);
    if (!wide) {
        SetLastError(errno == ENOMEM ? ERROR_NOT_ENOUGH_MEMORY : ERROR_INVALID_NAME);
        return INVALID_HANDLE_VALUE;
    }
    const HANDLE handle = CreateFileW(wide, access, share, NULL, how, flags, NULL);
    const DWORD error = GetLastError();
    free(wide);
    SetLastError(error);
    return handle;
}

size_t hearth_windows_folder_length(const char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] != '/' && path[n - 1] != '\\' && path[n - 1] != ':')
        n--;
    return n;
}

const char *hearth_path_name(const char *path)
{
    return path + hearth_windows_folder_length(path);
}

// ---- what is there

// Whether the list lets nobody write but this user, the system and its administrators.
static bool only_for(PACL list, PSID user)
{
    const DWORD writes =
        FILE_WRITE_DATA | FILE_APPEND_DATA | DELETE | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE | GENERIC_ALL;
    BYTE kept[2][SECURITY_MAX_SID_SIZE];
    const WELL_KNOWN_SID_TYPE kinds[2] = {WinLocalSystemSid, WinBuiltinAdministratorsSid};
    for (int i = 0; i < 2; i++) {
        DWORD size = sizeof kept[i];
        if (!CreateWellKnownSid(kinds[i], NULL, kept[i], &size))
            return false;
    }
    if (!list) // no list: all may do all
        return false;
    for (DWORD i = 0; i < list->AceCount; i++) {
        ACCESS_ALLOWED_ACE *entry;
        if (!GetAce(list, i, (void **)&entry))
            return false;
        PSID who = &entry->SidStart;
        if (entry->Header.AceType == ACCESS_ALLOWED_ACE_TYPE &&
            !(entry->Header.AceFlags & INHERIT_ONLY_ACE) && entry->Mask & writes && !EqualSid(who, user) &&
            !EqualSid(who, kept[0]) && !EqualSid(who, kept[1]))
            return false;
    }
    return true;
}

static bool is_own(HANDLE handle)
{
    PACL list = NULL;
    PSID owner = NULL;
    PSECURITY_DESCRIPTOR all = NULL;
    HANDLE token = NULL;
    _Alignas(TOKEN_USER) BYTE user[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    DWORD size = sizeof user;
    bool own = false;
    if (OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token) &&
        GetTokenInformation(token, TokenUser, user, size, &size) &&
        !GetSecurityInfo(handle, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                         &owner, NULL, &list, NULL, &all))
        own = only_for(list, ((const TOKEN_USER *)(const void *)user)->User.Sid);
    LocalFree(all);
    if (token)
        CloseHandle(token);
    return own;
}

bool hearth_windows_look(HANDLE handle, struct hearth_path *out)
{
    BY_HANDLE_FILE_INFORMATION info;
    *out = (struct hearth_path){0};
    switch (GetFileType(handle)) {
    case FILE_TYPE_DISK:
        if (!GetFileInformationByHandle(handle, &info))
            return false;
        out->kind = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? HEARTH_PATH_FOLDER : HEARTH_PATH_FILE;
        out->size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
        out->device = info.dwVolumeSerialNumber;
        out->number = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
        out->own = is_own(handle);
        return true;
    case FILE_TYPE_PIPE:
        out->kind = HEARTH_PATH_PIPE;
        return true;
    case FILE_TYPE_CHAR:
        out->kind = HEARTH_PATH_OTHER;
        return true;
    default:
        return false;
    }
}

bool hearth_path_look(const char *path, struct hearth_path *out)
{
    const HANDLE handle = hearth_windows_open(path, READ_CONTROL | FILE_READ_ATTRIBUTES, SHARE_ALL,
                                              OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    *out = (struct hearth_path){0};
    const bool there = handle != INVALID_HANDLE_VALUE && hearth_windows_look(handle, out);
    if (!there)
        hearth_windows_set_errno(GetLastError());
    if (handle != INVALID_HANDLE_VALUE)
        CloseHandle(handle);
    return there;
}

bool hearth_stream_look(int descriptor, struct hearth_path *out)
{
    *out = (struct hearth_path){0};
    const intptr_t handle = _get_osfhandle(descriptor);
    return handle != -1 && handle != -2 && hearth_windows_look((HANDLE)handle, out);
}

bool hearth_path_same(const char *a, const char *b)
{
    struct hearth_path at, bt;
    return hearth_path_look(a, &at) && hearth_path_look(b, &bt) && at.device == bt.device &&
           at.number == bt.number;
}

bool hearth_path_readable(const char *path)
{
    const HANDLE handle =
        hearth_windows_open(path, GENERIC_READ, SHARE_ALL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (handle != INVALID_HANDLE_VALUE)
        CloseHandle(handle);
    return handle != INVALID_HANDLE_VALUE;
}

bool hearth_folder_writable(const char *path)
{
    const HANDLE handle =
        hearth_windows_open(path, FILE_ADD_FILE, SHARE_ALL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (handle != INVALID_HANDLE_VALUE)
        CloseHandle(handle);
    return handle != INVALID_HANDLE_VALUE;
}

bool hearth_path_remove(const char *path)
{
    wchar_t *wide = hearth_wide(path);
    const DWORD kind = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    const bool is_folder = kind != INVALID_FILE_ATTRIBUTES && kind & FILE_ATTRIBUTE_DIRECTORY;
    const bool removed = wide && (is_folder ? RemoveDirectoryW(wide) : DeleteFileW(wide));
    if (wide && !removed)
        hearth_windows_set_errno(GetLastError());
    free(wide);
    return removed;
}

// The user's folders are his alone, and what is made in them inherits that.
bool hearth_path_make_own(const char *path)
{
    const HANDLE handle = hearth_windows_open(path, GENERIC_WRITE, 0, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
    if (handle != INVALID_HANDLE_VALUE)
        CloseHandle(handle);
    return handle != INVALID_HANDLE_VALUE;
}

bool hearth_path_ensure(const char *path)
{
    const HANDLE handle =
        hearth_windows_open(path, FILE_APPEND_DATA, SHARE_ALL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL);
    if (handle == INVALID_HANDLE_VALUE) {
        hearth_windows_set_errno(GetLastError());
        return false;
    }
    CloseHandle(handle);
    return true;
}

bool hearth_folder_find(const char *path, const char *suffix, char *name, size_t size)
{
    char pattern[4096];
    WIN32_FIND_DATAW entry;
    bool found = false;
    const int n = snprintf(pattern, sizeof pattern, "%s/*", path);
    wchar_t *wide = n > 0 && (size_t)n < sizeof pattern ? hearth_wide(pattern) : NULL;
    const HANDLE list = wide ? FindFirstFileW(wide, &entry) : INVALID_HANDLE_VALUE;
    bool more = list != INVALID_HANDLE_VALUE;
    for (const size_t k = strlen(suffix); more && !found; more = FindNextFileW(list, &entry)) {
        char *narrow = hearth_narrow(entry.cFileName);
        const size_t length = narrow ? strlen(narrow) : 0;
        found = length > k && length < size && !strcmp(narrow + length - k, suffix);
        if (found)
            memcpy(name, narrow, length + 1);
        free(narrow);
    }
    if (list != INVALID_HANDLE_VALUE)
        FindClose(list);
    free(wide);
    return found;
}

FILE *hearth_file_stream(const char *path, const char *mode)
{
    const bool writes = mode[0] == 'w';
    const HANDLE handle = hearth_windows_open(path, writes ? GENERIC_WRITE : GENERIC_READ, SHARE_ALL,
                                              writes ? CREATE_ALWAYS : OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL);
    if (handle == INVALID_HANDLE_VALUE) {
        hearth_windows_set_errno(GetLastError());
        return NULL;
    }
    const int fd = _open_osfhandle((intptr_t)handle, _O_BINARY | (writes ? _O_WRONLY : _O_RDONLY));
    FILE *f = fd < 0 ? NULL : _fdopen(fd, mode);
    if (fd < 0)
        CloseHandle(handle);
    else if (!f)
        _close(fd);
    return f;
}

FILE *hearth_text_stream(struct hearth_text_stream *t)
{
    wchar_t folder[MAX_PATH + 1], path[MAX_PATH + 1];
    *t = (struct hearth_text_stream){0};
    if (GetTempPathW(MAX_PATH, folder) && GetTempFileNameW(folder, L"hth", 0, path))
        t->to = _wfopen(path, L"w+bTD"); // kept in memory where there is room, and removed with the stream
    return t->to;
}

bool hearth_text_stream_end(struct hearth_text_stream *t)
{
    const long n = fflush(t->to) ? -1 : ftell(t->to);
    t->text = n < 0 ? NULL : hearth_calloc((size_t)n + 1, 1);
    bool ok = t->text && !fseek(t->to, 0, SEEK_SET);
    ok = ok && fread(t->text, 1, (size_t)n, t->to) == (size_t)n;
    fclose(t->to);
    t->n = ok ? (size_t)n : 0;
    return ok;
}

// ---- the user's folders

static bool from_variable(const char *name, const char *below, char *out, size_t size)
{
    const char *folder = hearth_os_variable(name);
    const int n = folder && *folder ? snprintf(out, size, "%s%s", folder, below) : -1;
    return n > 0 && (size_t)n < size;
}

bool hearth_user_folder(char *out, size_t size)
{
    return from_variable("USERPROFILE", "", out, size);
}

bool hearth_user_cache_folder(char *out, size_t size)
{
    return from_variable("XDG_CACHE_HOME", "/hearth", out, size) ||
           from_variable("LOCALAPPDATA", "/hearth", out, size);
}

// ---- folders

uint64_t hearth_disk_free(const char *path)
{
    char *folder = hearth_strndup(path, strlen(path));
    ULARGE_INTEGER left;
    BOOL known = FALSE;
    while (folder && !known) { // those that are missing will be made
        size_t n = hearth_windows_folder_length(folder);
        const bool last = n == 0;
        memcpy(folder + n, "", 1);
        wchar_t *wide = hearth_wide(last ? "." : folder);
        known = wide && GetDiskFreeSpaceExW(wide, &left, NULL, NULL);
        free(wide);
        if (last || folder[n - 1] == ':')
            break;
        folder[n - 1] = '\0';
    }
    free(folder);
    return known ? left.QuadPart : UINT64_MAX;
}

static bool make_folder(const char *path)
{
    wchar_t *wide = hearth_wide(path);
    const bool made = wide && (CreateDirectoryW(wide, NULL) || GetLastError() == ERROR_ALREADY_EXISTS);
    const DWORD error = GetLastError();
    free(wide);
    SetLastError(error);
    return made;
}

int hearth_folder_make(const char *path, struct hearth_error *err)
{
    char *part = hearth_strndup(path, strlen(path));
    struct hearth_path at;
    if (!*path) {
        free(part);
        return hearth_fail(err, HEARTH_E_INVALID, "a folder without a name cannot be made");
    }
    if (!part)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to make the folder", path);
    for (char *c = part + 1; *c; c++)
        if (*c == '/' || *c == '\\') {
            const char separator = *c;
            *c = '\0';
            (void)make_folder(part); // if it is missing afterwards, the last one cannot be made
            *c = separator;
        }
    free(part);
    const bool made = make_folder(path);
    const DWORD error = GetLastError();
    if (made && hearth_path_look(path, &at) && at.kind == HEARTH_PATH_FOLDER)
        return HEARTH_OK;
    return hearth_fail_windows(err, error, "%s: cannot make the folder", path);
}

uint64_t hearth_file_device(const char *path)
{
    struct hearth_path at;
    return hearth_path_look(path, &at) ? at.device : 0;
}

bool hearth_folder_is_own(const char *path)
{
    struct hearth_path at;
    return hearth_path_look(path, &at) && at.kind == HEARTH_PATH_FOLDER && at.own;
}

uint64_t hearth_file_stamp(const char *path)
{
    wchar_t *wide = hearth_wide(path);
    WIN32_FILE_ATTRIBUTE_DATA info;
    const bool there = wide && GetFileAttributesExW(wide, GetFileExInfoStandard, &info);
    free(wide);
    if (!there)
        return 0;
    const uint64_t size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
    const uint64_t written =
        (uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime;
    return size * 0x9e3779b97f4a7c15u ^ written * 1000000007u ^ 1;
}
