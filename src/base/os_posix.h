// SPDX-License-Identifier: MIT
// What the files for Linux and other POSIX systems share.
#ifndef HEARTH_BASE_OS_POSIX_H
#define HEARTH_BASE_OS_POSIX_H

#include <stdbool.h>
#include <stddef.h>

// Bytes of one read() or write(): below the limits of all systems, and a multiple of every block size.
#define HEARTH_MOST_TRANSFER ((size_t)1 << 30)

// Writes all of it. False, and errno: it failed.
bool hearth_posix_write(int fd, const void *src, size_t n);
// The folder of a path; the caller frees it. NULL: no memory.
char *hearth_posix_folder(const char *path);

#endif
