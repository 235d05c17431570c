// SPDX-License-Identifier: MIT
// What Hearth asks of the operating system, apart from streaming reads (src/store). Implemented in
// os_posix.c.
#ifndef HEARTH_BASE_OS_H
#define HEARTH_BASE_OS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

// ---- files: every error message names the path ----
struct hearth_file;
int hearth_file_open(struct hearth_file **out, const char *path, struct hearth_error *err); // for reading
void hearth_file_close(struct hearth_file **f);
uint64_t hearth_file_size(const struct hearth_file *f);
const char *hearth_file_path(const struct hearth_file *f);
// Reads exactly n bytes at offset or fails. Thread-safe. Retries EINTR and short reads.
int hearth_file_read(struct hearth_file *f, void *dst, size_t n, uint64_t offset, struct hearth_error *err);
// The same around the page cache where the file system allows it (O_DIRECT), for large weights: dst, n and
// offset need no alignment. Falls back to hearth_file_read(). Thread-safe.
int hearth_file_read_direct(struct hearth_file *f, void *dst, size_t n, uint64_t offset,
                            struct hearth_error *err);

// A file being written without a name, or where that is not possible under a temporary one beside `path`; it
// appears under `path` only after a successful commit (fsync, rename, fsync of the folder). Closing without
// commit removes it, and so does the next opening for the same `path` after a crash. Any number of processes
// may write to one `path`: the last to commit wins.
struct hearth_outfile;
int hearth_outfile_open(struct hearth_outfile **out, const char *path, struct hearth_error *err);
int hearth_outfile_write(struct hearth_outfile *f, const void *src, size_t n, struct hearth_error *err);
uint64_t hearth_outfile_offset(const struct hearth_outfile *f);
int hearth_outfile_commit(struct hearth_outfile **f, struct hearth_error *err); // always closes
void hearth_outfile_close(struct hearth_outfile **f);

// ---- memory ----
void *hearth_os_map(size_t size); // zeroed anonymous pages or NULL
void hearth_os_unmap(void *p, size_t size);
void hearth_os_advise_huge(void *p, size_t size);
void hearth_os_discard(void *p, size_t size); // whole pages: their memory goes back, they read as zeros

// ---- machine ----
uint64_t hearth_now_ns(void); // monotonic
uint64_t hearth_random_u64(void);
// Physical cores this process may run on (hwloc where built in), not more than its control group's quota; at
// least 1.
int hearth_cpu_count(void);
uint64_t hearth_memory_total(void); // bytes of RAM
uint64_t hearth_memory_peak(void);  // peak resident set of this process, bytes
// Private memory that this process holds now, bytes; where the system does not tell, its peak resident set.
uint64_t hearth_memory_private(void);
// For programs, first thing: where standard input, output or error is closed, something takes its number on
// which reading (writing) fails. Else the next file opened would: a model read as a prompt, messages written
// into a file.
void hearth_os_guard_standard_files(void);
bool hearth_os_permit_amx(void);     // asks the kernel for AMX tile state; false: not to be had
uint64_t hearth_os_hwcap(int which); // AT_HWCAP (1) or AT_HWCAP2 (2) of the auxiliary vector; 0: unknown

#endif
