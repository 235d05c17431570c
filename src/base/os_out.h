// SPDX-License-Identifier: MIT
// What outfile.c wants of the system: os_posix_out.c and os_windows_out.c have it.
#ifndef HEARTH_BASE_OS_OUT_H
#define HEARTH_BASE_OS_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hearth_outfile {
    intptr_t file;       // the system's descriptor or handle; -1: none
    bool failed, sparse; // a write failed: the file must not be committed; it has holes
    char *path, *temp;   // temp: [strlen(path) + HEARTH_TEMP_SUFFIX + 1], empty while the file has no name
    uint64_t offset;     // bytes written so far
    size_t used;         // bytes in buffer
    char *buffer;
};

// The file that a path stands for, through links, which may lead to where nothing is yet; the caller frees it.
// NULL, and errno: ENOMEM, or what is wrong with the links.
char *hearth_os_out_target(const char *path);
// Opens f->file for f->path, and removes what killed writers to that path left.
int hearth_os_out_create(struct hearth_outfile *f, struct hearth_error *err);
// Renames the finished file to f->path.
int hearth_os_out_place(struct hearth_outfile *f, struct hearth_error *err);
// Closes f->file, and removes f->temp where it is named.
void hearth_os_out_drop(struct hearth_outfile *f);

// Those that follow return false where the system refuses; hearth_os_out_fail() says why.
bool hearth_os_out_put(struct hearth_outfile *f, const char *src, size_t n);
// The file is so long, and what is written next comes there. What was not written reads as zeros, and should take no room.
bool hearth_os_out_end_at(struct hearth_outfile *f, uint64_t offset);
bool hearth_os_out_sync(struct hearth_outfile *f);
// "PATH: WHAT (N bytes so far): the system's reason". Returns the error.
int hearth_os_out_fail(const struct hearth_outfile *f, struct hearth_error *err, const char *what);

#endif
