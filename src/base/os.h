// SPDX-License-Identifier: MIT
// Services of the operating system, apart from streaming reads (src/store). The files os_SYSTEM*.c implement them:
// os_posix*.c for all systems but Windows, os_linux*.c, os_macos*.c and os_windows*.c for one. CMakeLists.txt chooses.
#ifndef HEARTH_BASE_OS_H
#define HEARTH_BASE_OS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

// ---- files: every error message names the path
struct hearth_file;
int hearth_file_open(struct hearth_file **out, const char *path, struct hearth_error *err); // for reading
void hearth_file_close(struct hearth_file **f);
bool hearth_file_exists(const char *path); // as a regular file, or as a link to one
uint64_t hearth_file_size(const struct hearth_file *f);
const char *hearth_file_path(const struct hearth_file *f);
// Reads exactly n bytes at offset, or fails. Retries EINTR and short reads. Thread-safe.
int hearth_file_read(struct hearth_file *f, void *dst, size_t n, uint64_t offset, struct hearth_error *err);
// The same with direct I/O (O_DIRECT), which bypasses the page cache, for large weights. dst, n and offset
// need no alignment. Uses hearth_file_read() where the file system does not allow it. Thread-safe.
int hearth_file_read_direct(struct hearth_file *f, void *dst, size_t n, uint64_t offset,
                            struct hearth_error *err);

// A file that is being written. It has no name or, where that is not possible, a temporary one beside `path`.
// Only a successful commit (fsync, rename, fsync of the folder) makes it appear under `path`. Closing without
// commit removes it. After a crash, the next writer to open the same `path` removes it. Any number of
// processes may write to one `path`: the last to commit wins. Where `path` is a link, all that is said of it goes
// for the file that the link leads to, which need not be there.
struct hearth_outfile;
int hearth_outfile_open(struct hearth_outfile **out, const char *path, struct hearth_error *err);
int hearth_outfile_write(struct hearth_outfile *f, const void *src, size_t n, struct hearth_error *err);
// Goes on n bytes later. What lies between reads as zeros, and takes no room on disk where the file system
// has holes.
int hearth_outfile_skip(struct hearth_outfile *f, uint64_t n, struct hearth_error *err);
uint64_t hearth_outfile_offset(const struct hearth_outfile *f);
// Takes back what was written from `offset` on. Where the system refuses, the commit will fail.
void hearth_outfile_cut(struct hearth_outfile *f, uint64_t offset);
int hearth_outfile_commit(struct hearth_outfile **f, struct hearth_error *err); // always closes
void hearth_outfile_close(struct hearth_outfile **f);
// All of that for n bytes: the file at `path` is them, or as it was.
int hearth_outfile_save(const char *path, const void *src, size_t n, struct hearth_error *err);

// A file without a name in the folder of `beside`, for what memory has no room for; it is gone with the
// process. What was never written reads as zeros. Errors name the folder. Thread-safe but for closing.
struct hearth_scratch;
int hearth_scratch_open(struct hearth_scratch **out, const char *beside, struct hearth_error *err);
void hearth_scratch_close(struct hearth_scratch **s);
int hearth_scratch_write(struct hearth_scratch *s, const void *src, size_t n, uint64_t offset,
                         struct hearth_error *err);
int hearth_scratch_read(struct hearth_scratch *s, void *dst, size_t n, uint64_t offset,
                        struct hearth_error *err);

// What a file is made of, part after part.
struct hearth_file_piece {
    const void *bytes;
    size_t n;
};
// Writes a small file of a cache, for this user alone: it appears at once and whole under `path`, in a folder
// that exists, unless there is one already; a writer that is killed leaves at most a temporary file, which
// hearth_folder_trim() removes. Nothing is brought to disk: after a loss of power the file may be short or
// have other bytes, which its reader must find out. HEARTH_E_IO, HEARTH_E_MEMORY. Thread-safe.
int hearth_cache_file_put(const char *path, const struct hearth_file_piece *parts, int n,
                          struct hearth_error *err);
// The file counts as used at that time, in nanoseconds since 1970. False: there is no such file.
bool hearth_cache_file_touch(const char *path, uint64_t ns);
void hearth_cache_file_remove(const char *path);
// Of the folder's files whose names end with `suffix`, removes the one that was not used for longest, and so
// on, until all have at most `most` bytes; *bytes becomes what they have then. Also removes what writers of
// such files that were killed left. Other files stay. HEARTH_E_IO, HEARTH_E_MEMORY.
int hearth_folder_trim(const char *path, const char *suffix, uint64_t most, uint64_t *bytes,
                       struct hearth_error *err);
// Whether nobody but this user (and the system's) can put files into the folder.
bool hearth_folder_is_own(const char *path);
// A number that changes when the file at `path` is replaced or written to; 0: there is none.
uint64_t hearth_file_stamp(const char *path);

// Bytes that the disk has room for at `path`, where neither the file nor its folder need exist; UINT64_MAX:
// not known.
uint64_t hearth_disk_free(const char *path);
// Makes the folder, and those that it is in, where they are missing; for this user alone.
int hearth_folder_make(const char *path, struct hearth_error *err);
// The number of the storage that holds the file or folder at `path`; 0: unknown.
uint64_t hearth_file_device(const char *path);

// ---- paths: UTF-8 on all systems; Windows takes slashes and backslashes
enum hearth_path_kind {
    HEARTH_PATH_NONE, // there is nothing
    HEARTH_PATH_FILE,
    HEARTH_PATH_FOLDER,
    HEARTH_PATH_PIPE,
    HEARTH_PATH_SOCKET,
    HEARTH_PATH_OTHER, // a terminal or another device
};
struct hearth_path {
    enum hearth_path_kind kind;
    uint64_t size;           // bytes of a file
    uint64_t device, number; // the same two numbers: the same file
    bool own;                // nobody but this user (and the system's) can write to it
};
// What is there; links are followed. False, and errno: nothing, or nobody may look.
bool hearth_path_look(const char *path, struct hearth_path *out);
// The same of a descriptor of this process, such as 0, standard input.
bool hearth_stream_look(int descriptor, struct hearth_path *out);
bool hearth_path_same(const char *a, const char *b); // both are there, and are one file
bool hearth_path_readable(const char *path);
bool hearth_folder_writable(const char *path);
// Removes a file, or a folder that is empty; false: it could not be removed.
bool hearth_path_remove(const char *path);
// What is behind the last separator, in the path itself.
const char *hearth_path_name(const char *path);
// Makes an empty file that is this user's alone. False: something is there, or it cannot be made.
bool hearth_path_make_own(const char *path);
// The same, unless there is a file already, which is left as it is. Links are followed. False, and errno: it cannot be.
bool hearth_path_ensure(const char *path);
// The name of a file of the folder that ends with `suffix`, if there is one.
bool hearth_folder_find(const char *path, const char *suffix, char *name, size_t size);
// As fopen(), for "rb" and "wb"; programs that this one starts do not inherit it.
FILE *hearth_file_stream(const char *path, const char *mode);
// A stream whose text is wanted once it has ended.
struct hearth_text_stream {
    FILE *to;
    char *text; // [n + 1], to be freed, once it has ended
    size_t n;
};
FILE *hearth_text_stream(struct hearth_text_stream *t); // NULL: no memory
bool hearth_text_stream_end(
    struct hearth_text_stream *t); // false: something could not be written; text may be NULL
// The folder for what programs keep of this user's for a time, "hearth" in it, and the one of his own files, where the
// system has one. False: not known, or longer than `size`.
bool hearth_user_cache_folder(char *out, size_t size);
bool hearth_user_folder(char *out, size_t size);

// ---- memory
// Memory at a multiple of `align`, a power of two, of which `size` is a multiple; NULL: there is none.
void *hearth_aligned_alloc(size_t align, size_t size);
void hearth_aligned_free(void *p);
void *hearth_os_map(size_t size); // zeroed anonymous pages or NULL
void hearth_os_unmap(void *p, size_t size);
void hearth_os_advise_huge(void *p, size_t size);
void hearth_os_advise_small(void *p, size_t size); // no huge pages here
// Whoever touches these whole pages ends the program: for tests.
void hearth_os_guard(void *p, size_t size);
// Gives memory that was freed back to the system, where the C library keeps any.
void hearth_memory_trim(void);
// Returns the whole pages among these bytes to the system; they then read as zeros. What shares a page with
// other bytes stays.
void hearth_os_discard(void *p, size_t size);
size_t hearth_os_page(void); // bytes of a page: 4 KiB, or 16 or 64 KiB on some systems with ARM processors

// ---- numbers, with points in them, whatever the locale that a program has set
double hearth_strtod(const char *text, char **end);
// snprintf() of x with the precision, in the form 'e', 'f' or 'g'.
int hearth_print_number(char *out, size_t size, char form, int precision, double x);

// ---- libraries of the system that the program does without where they are missing
void *hearth_os_library(const char *name);               // loads it for good; NULL: there is none
void *hearth_os_symbol(void *library, const char *name); // of such a one; NULL: it has none of that name

// ---- machine
uint64_t hearth_now_ns(void); // monotonic
uint64_t hearth_cpu_ns(void); // that all threads of the process have used
void hearth_sleep_ns(uint64_t ns);
// A point in time, in seconds since 1970, in the parts of a calendar: of this place, or of Greenwich. False: the system
// cannot.
struct tm;
bool hearth_calendar(int64_t seconds, bool here, struct tm *out);
uint64_t hearth_random_u64(void);
// Physical cores that this process may use (found by hwloc where built in), limited by the CPU
// quota of its control group; at least 1. Where there are fast and slow cores, the fast ones.
int hearth_cpu_count(void);
// Processors that this process may use and whose capacity is more than half of the greatest, as the files
// cpuN/cpu_capacity in `folder` have it; 0: not known. Slower ones would only be waited for.
int hearth_os_fast_processors(const char *folder);
uint64_t hearth_memory_total(void); // bytes of RAM
// Bytes of the largest caches that the processors have which this process may use, all of them together; 0: not known.
uint64_t hearth_cache_total(void);
// Nanoseconds that all processors of the system together were at work since it began, for whomever, and how
// many they are. False: not known.
bool hearth_system_busy(uint64_t *ns, int *n_processors);
uint64_t hearth_memory_peak(void); // peak resident set of this process, bytes
// Of the resident set, pages of files: the program's own and its libraries'; 0: unknown.
uint64_t hearth_memory_files(void);
// Private memory of this process now, in bytes. Where the system does not report it: the peak resident set.
uint64_t hearth_memory_private(void);
// Programs call this first. If standard input, output or error is closed, its number gets a
// descriptor on which reading (writing) fails. Otherwise the next opened file would get that
// number: a model would be read as a prompt, or messages would be written into a file.
void hearth_os_guard_standard_files(void);
// The program's arguments in UTF-8, which on some systems is not what main() gets. They live as long as the program.
void hearth_os_arguments(int *argc, char ***argv);
// "NAME=value" of all variables of the environment, ended by NULL.
char **hearth_os_environment(void);
// One of them; NULL: it is not set.
const char *hearth_os_variable(const char *name);
// What the system calls an error, in `out`. Thread-safe.
void hearth_os_error_text(int errno_value, char *out, size_t size);
bool hearth_os_permit_amx(void); // asks the kernel for AMX tile state; false: refused

#endif
