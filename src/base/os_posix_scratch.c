// SPDX-License-Identifier: MIT
// Scratch files: see os.h.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/os_posix.h"

struct hearth_scratch {
    int fd;
    char *folder;
};

static int fail(const struct hearth_scratch *s, const char *what, struct hearth_error *err)
{
    if (errno == ENOENT)
        return hearth_fail(err, HEARTH_E_IO, "%s: there is no such folder", s->folder);
    return hearth_fail(err, HEARTH_E_IO, "%s: cannot %s a scratch file: %s", s->folder, what,
                       strerror(errno));
}

static int open_unnamed(const char *folder)
{
    int fd = -1;
#ifdef O_TMPFILE
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#endif
    if (fd >= 0)
        return fd;
    char name[4096];
    const int n = snprintf(name, sizeof name, "%s/.hearth-scratch-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkstemp(name);
    if (fd >= 0)
        unlink(name);
    return fd;
}

int hearth_scratch_open(struct hearth_scratch **out, const char *beside, struct hearth_error *err)
{
    struct hearth_scratch *s = hearth_calloc(1, sizeof *s);
    *out = s;
    if (s) {
        s->fd = -1;
        s->folder = hearth_posix_folder(beside);
    }
    if (!s || !s->folder) {
        hearth_scratch_close(out);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a scratch file");
    }
    s->fd = open_unnamed(s->folder);
    if (s->fd >= 0)
        return HEARTH_OK;
    const int rc = fail(s, "make", err);
    hearth_scratch_close(out);
    return rc;
}

void hearth_scratch_close(struct hearth_scratch **scratch)
{
    struct hearth_scratch *s = *scratch;
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->folder);
    free(s);
    *scratch = NULL;
}

int hearth_scratch_write(struct hearth_scratch *s, const void *src, size_t n, uint64_t offset,
                         struct hearth_error *err)
{
    for (const char *from = src; n;) {
        const ssize_t done = pwrite(s->fd, from, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail(s, "write to", err);
        from += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return HEARTH_OK;
}

int hearth_scratch_read(struct hearth_scratch *s, void *dst, size_t n, uint64_t offset,
                        struct hearth_error *err)
{
    for (char *to = dst; n;) {
        const ssize_t done = pread(s->fd, to, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return fail(s, "read", err);
        if (done == 0) { // never written
            memset(to, 0, n);
            return HEARTH_OK;
        }
        to += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return HEARTH_OK;
}
