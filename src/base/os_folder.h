// SPDX-License-Identifier: MIT
// What folder_trim.c wants of the system: os_posix_cache.c and os_windows_cache.c have it.
#ifndef HEARTH_BASE_OS_FOLDER_H
#define HEARTH_BASE_OS_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_folder_file {
    const char *name;
    uint64_t used, bytes; // when it was written to, in any unit from any beginning
};
// Calls fn for each file of the folder; links and what is no file are left out.
int hearth_folder_walk(const char *folder, void (*fn)(void *arg, const struct hearth_folder_file *file),
                       void *arg, struct hearth_error *err);
bool hearth_folder_remove(const char *folder, const char *name); // true: it is gone, or was already
// Removes a temporary file, unless its writer lives.
void hearth_folder_remove_stale(const char *folder, const char *name);

#endif
