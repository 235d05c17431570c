// SPDX-License-Identifier: MIT
// What the files for Windows share: its API takes UTF-16 and has numbers of its own for errors.
#ifndef HEARTH_BASE_OS_WINDOWS_H
#define HEARTH_BASE_OS_WINDOWS_H

// Windows 10: what is not in all of its releases is looked up when it is wanted.
#include <stdbool.h>
#include <stddef.h>
#include <windows.h>

#include "base/error.h"

// The text in UTF-16 or in UTF-8, to be freed with free(). NULL: no memory, or not of that form; errno is set.
wchar_t *hearth_wide(const char *text);
char *hearth_narrow(const wchar_t *text);

// What the system calls an error, in `out`.
void hearth_windows_error_text(DWORD error, char *out, size_t size);
// As hearth_fail_errno(), with what GetLastError() returned.
int hearth_fail_windows(struct hearth_error *err, DWORD error, const char *fmt, ...) HEARTH_PRINTF(3, 4);
// Sets errno to what is closest.
void hearth_windows_set_errno(DWORD error);

// CreateFileW() with a path in UTF-8; INVALID_HANDLE_VALUE, and the reason in GetLastError(): it failed.
HANDLE hearth_windows_open(const char *path, DWORD access, DWORD share, DWORD how, DWORD flags);
// Bytes of one read or write: below the limits of all systems, and a multiple of every block size.
#define HEARTH_MOST_TRANSFER ((size_t)1 << 30)
// Writes all of it. False, and the reason in GetLastError(): it failed.
bool hearth_windows_write(HANDLE handle, const void *src, size_t n);
// What the handle refers to.
struct hearth_path;
bool hearth_windows_look(HANDLE handle, struct hearth_path *out);
// Where the path's last part begins.
size_t hearth_windows_folder_length(const char *path);
// The offset of a read or write.
OVERLAPPED hearth_windows_at(uint64_t offset);

#endif
