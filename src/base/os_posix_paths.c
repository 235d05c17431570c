// SPDX-License-Identifier: MIT
// Linux and macOS: paths.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"

static bool describe(int failed, const struct stat *st, struct hearth_path *out)
{
    *out = (struct hearth_path){0};
    if (failed)
        return false;
    out->kind = S_ISREG(st->st_mode)    ? HEARTH_PATH_FILE
                : S_ISDIR(st->st_mode)  ? HEARTH_PATH_FOLDER
                : S_ISFIFO(st->st_mode) ? HEARTH_PATH_PIPE
                : S_ISSOCK(st->st_mode) ? HEARTH_PATH_SOCKET
                                        : HEARTH_PATH_OTHER;
    out->size = (uint64_t)st->st_size;
    out->device = (uint64_t)st->st_dev;
    out->number = (uint64_t)st->st_ino;
    out->own = (st->st_uid == geteuid() || st->st_uid == 0) && !(st->st_mode & (S_IWGRP | S_IWOTH));
    return true;
}

bool hearth_path_look(const char *path, struct hearth_path *out)
{
    struct stat st;
    return describe(stat(path, &st), &st, out);
}

bool hearth_stream_look(int descriptor, struct hearth_path *out)
{
    struct stat st;
    return describe(fstat(descriptor, &st), &st, out);
}

bool hearth_path_same(const char *a, const char *b)
{
    struct hearth_path at, bt;
    return hearth_path_look(a, &at) && hearth_path_look(b, &bt) && at.device == bt.device &&
           at.number == bt.number;
}

bool hearth_path_readable(const char *path)
{
    return !access(path, R_OK);
}

bool hearth_folder_writable(const char *path)
{
    return !access(path, W_OK);
}

bool hearth_path_remove(const char *path)
{
    return !remove(path);
}

const char *hearth_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool hearth_path_make_own(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool hearth_path_ensure(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool hearth_folder_find(const char *path, const char *suffix, char *name, size_t size)
{
    DIR *d = opendir(path);
    const size_t k = strlen(suffix);
    bool found = false;
    for (const struct dirent *e; d && !found && (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        found = n > k && n < size && !strcmp(e->d_name + n - k, suffix);
        if (found)
            memcpy(name, e->d_name, n + 1);
    }
    if (d)
        closedir(d);
    return found;
}

FILE *hearth_file_stream(const char *path, const char *mode)
{
    const bool writes = mode[0] == 'w';
    const int fd = open(path, writes ? O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    FILE *f = fdopen(fd, mode);
    if (!f) {
        const int error = errno;
        close(fd);
        errno = error;
    }
    return f;
}

FILE *hearth_text_stream(struct hearth_text_stream *t)
{
    *t = (struct hearth_text_stream){0};
    return t->to = open_memstream(&t->text, &t->n);
}

bool hearth_text_stream_end(struct hearth_text_stream *t)
{
    return !fclose(t->to);
}

bool hearth_user_folder(char *out, size_t size)
{
    const char *home = getenv("HOME");
    const int n = home && *home ? snprintf(out, size, "%s", home) : -1;
    return n > 0 && (size_t)n < size;
}

bool hearth_user_cache_folder(char *out, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && *cache == '/') // others are to be ignored, says the XDG base directory specification
        n = snprintf(out, size, "%s/hearth", cache);
    else if (home && *home)
        n = snprintf(out, size, "%s/.cache/hearth", home);
    return n > 0 && (size_t)n < size;
}
