// SPDX-License-Identifier: MIT
// Windows: texts in UTF-16, errors, arguments and environment.
#include "base/os_windows.h"

#include <errno.h>
#include <shellapi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

wchar_t *hearth_wide(const char *text)
{
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = n > 0 ? calloc((size_t)n, sizeof *wide) : NULL;
    if (wide)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, n);
    else
        errno = n > 0 ? ENOMEM : EILSEQ;
    return wide;
}

char *hearth_narrow(const wchar_t *text)
{
    const int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *narrow = n > 0 ? calloc((size_t)n, 1) : NULL;
    if (narrow)
        WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, n, NULL, NULL);
    else
        errno = n > 0 ? ENOMEM : EILSEQ;
    return narrow;
}

// ---- errors

void hearth_windows_error_text(DWORD error, char *out, size_t size)
{
    wchar_t wide[256] = L"";
    const DWORD how =
        FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK;
    DWORD n = FormatMessageW(how, NULL, error, 0, wide, sizeof wide / sizeof *wide, NULL);
    while (n && (wide[n - 1] == L' ' || wide[n - 1] == L'.'))
        wide[--n] = 0;
    char *text = n ? hearth_narrow(wide) : NULL;
    if (text)
        snprintf(out, size, "%s", text);
    else
        snprintf(out, size, "error %lu", (unsigned long)error);
    free(text);
}

int hearth_fail_windows(struct hearth_error *err, DWORD error, const char *fmt, ...)
{
    char what[1024], why[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    hearth_windows_error_text(error, why, sizeof why);
    return hearth_fail(err, HEARTH_E_IO, "%s: %s", what, why);
}

void hearth_windows_set_errno(DWORD error)
{
    static const struct {
        DWORD error;
        int number;
    } known[] = {{ERROR_FILE_NOT_FOUND, ENOENT},      {ERROR_PATH_NOT_FOUND, ENOENT},
                 {ERROR_INVALID_NAME, ENOENT},        {ERROR_BAD_PATHNAME, ENOENT},
                 {ERROR_ACCESS_DENIED, EACCES},       {ERROR_SHARING_VIOLATION, EACCES},
                 {ERROR_FILE_EXISTS, EEXIST},         {ERROR_ALREADY_EXISTS, EEXIST},
                 {ERROR_DISK_FULL, ENOSPC},           {ERROR_HANDLE_DISK_FULL, ENOSPC},
                 {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},   {ERROR_OUTOFMEMORY, ENOMEM},
                 {ERROR_NO_SYSTEM_RESOURCES, EAGAIN}, {ERROR_INVALID_PARAMETER, EINVAL}};
    errno = EIO;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error)
            errno = known[i].number;
}

void hearth_os_error_text(int errno_value, char *out, size_t size)
{
    if (strerror_s(out, size, errno_value))
        snprintf(out, size, "error %d", errno_value);
}

// ---- arguments and environment

void hearth_os_arguments(int *argc, char ***argv)
{
    int n = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **narrow = wide ? calloc((size_t)n + 1, sizeof *narrow) : NULL;
    bool ok = narrow != NULL;
    for (int i = 0; ok && i < n; i++)
        ok = (narrow[i] = hearth_narrow(wide[i])) != NULL;
    LocalFree(wide);
    if (!ok) // what main() got will do where it is ASCII
        return;
    *argc = n;
    *argv = narrow;
}

static char **read_environment(void)
{
    wchar_t *all = GetEnvironmentStringsW();
    size_t n = 0;
    for (const wchar_t *at = all; at && *at; at += wcslen(at) + 1)
        n++;
    char **list = calloc(n + 1, sizeof *list);
    size_t i = 0;
    for (const wchar_t *at = all; list && at && *at; at += wcslen(at) + 1)
        if ((list[i] = hearth_narrow(at)))
            i++;
    FreeEnvironmentStringsW(all);
    return list;
}

char **hearth_os_environment(void)
{
    static char **list, *none[] = {NULL}; // only the main thread asks
    if (!list)
        list = read_environment();
    return list ? list : none;
}

const char *hearth_os_variable(const char *name)
{
    const size_t n = strlen(name);
    for (char **at = hearth_os_environment(); *at; at++)
        if (!_strnicmp(*at, name, n) && (*at)[n] == '=')
            return *at + n + 1;
    return NULL;
}
