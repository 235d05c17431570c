// SPDX-License-Identifier: MIT
// Files that are being written: what is the same on all systems.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/os_out.h"
#include "base/temp_name.h"

#define OUT_BUFFER ((size_t)256 << 10)
// Bytes of a name in a folder, on every system that is known.
#define NAME_MOST 255

static int put(struct hearth_outfile *f, const char *src, size_t n, struct hearth_error *err)
{
    if (!n || hearth_os_out_put(f, src, n))
        return HEARTH_OK;
    f->failed = true;
    return hearth_os_out_fail(f, err, "cannot write");
}

static int flush(struct hearth_outfile *f, struct hearth_error *err)
{
    const size_t n = f->used;
    f->used = 0;
    return put(f, f->buffer, n, err);
}

int hearth_outfile_write(struct hearth_outfile *f, const void *src, size_t n, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    if (n > OUT_BUFFER - f->used)
        rc = flush(f, err);
    if (rc)
        return rc;
    if (n >= OUT_BUFFER) {
        rc = put(f, src, n, err);
    } else if (n > 0) {
        memcpy(f->buffer + f->used, src, n);
        f->used += n;
    }
    if (!rc)
        f->offset += n;
    return rc;
}

int hearth_outfile_skip(struct hearth_outfile *f, uint64_t n, struct hearth_error *err)
{
    const int rc = flush(f, err);
    if (rc)
        return rc;
    f->sparse |= n > 0;
    if (!hearth_os_out_end_at(f, f->offset + n)) {
        f->failed = true;
        return hearth_os_out_fail(f, err, "cannot leave a hole");
    }
    f->offset += n;
    return HEARTH_OK;
}

uint64_t hearth_outfile_offset(const struct hearth_outfile *f)
{
    return f->offset;
}

void hearth_outfile_cut(struct hearth_outfile *f, uint64_t offset)
{
    const uint64_t in_file = f->offset - f->used;
    if (offset >= in_file) {
        f->used = (size_t)(offset - in_file);
    } else {
        f->used = 0;
        f->failed |= !hearth_os_out_end_at(f, offset);
    }
    f->offset = offset;
}

// ---- opening and closing

// Checks the output path now, because commit would fail with the same error hours later.
static int check_name(const char *path, struct hearth_error *err)
{
    const char *name = hearth_path_name(path);
    struct hearth_path at;
    // The final rename would replace a device such as /dev/null with a file.
    if (hearth_path_look(path, &at) && at.kind != HEARTH_PATH_FILE)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: exists and is not a regular file; give another name",
                           path);
    if (!*name)
        return hearth_fail(err, HEARTH_E_INVALID, "\"%s\" is not the name of a file: give one to write",
                           path);
    if (strlen(name) + HEARTH_TEMP_SUFFIX > NAME_MOST)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: the name is too long, at most %d bytes will do", path,
                           NAME_MOST - HEARTH_TEMP_SUFFIX);
    return HEARTH_OK;
}

static int open_target(struct hearth_outfile **out, const char *path, struct hearth_error *err)
{
    int rc = check_name(path, err);
    if (rc)
        return rc;
    struct hearth_outfile *f = hearth_calloc(1, sizeof *f);
    if (f) {
        f->file = -1;
        f->path = hearth_strndup(path, strlen(path));
        f->temp = hearth_calloc(1, strlen(path) + HEARTH_TEMP_SUFFIX + 1);
        f->buffer = malloc(OUT_BUFFER);
    }
    if (!f || !f->path || !f->temp || !f->buffer)
        rc = hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
    if (!rc)
        rc = hearth_os_out_create(f, err);
    if (rc)
        hearth_outfile_close(&f);
    *out = f;
    return rc;
}

// A rename to a link would put the file in the link's place. What is wrong with what a link such as /dev/stdout leads
// to is told by the name that was given.
int hearth_outfile_open(struct hearth_outfile **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    int rc = check_name(path, err);
    if (rc)
        return rc;
    char *file = hearth_os_out_target(path);
    if (!file && errno == ENOMEM)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the file", path);
    if (!file)
        return hearth_fail_errno(err, errno, "%s: cannot write the file", path);
    rc = open_target(out, file, err);
    free(file);
    return rc;
}

int hearth_outfile_commit(struct hearth_outfile **file, struct hearth_error *err)
{
    struct hearth_outfile *f = *file;
    int rc = HEARTH_OK;
    if (f->failed)
        rc = hearth_fail(err, HEARTH_E_IO, "%s: not kept, because a write failed", f->path);
    if (!rc)
        rc = flush(f, err);
    if (!rc && !hearth_os_out_sync(f))
        rc = hearth_os_out_fail(f, err, "cannot bring the file to disk");
    if (!rc)
        rc = hearth_os_out_place(f, err);
    hearth_outfile_close(file);
    return rc;
}

int hearth_outfile_save(const char *path, const void *src, size_t n, struct hearth_error *err)
{
    struct hearth_outfile *f;
    int rc = hearth_outfile_open(&f, path, err);
    if (!rc)
        rc = hearth_outfile_write(f, src, n, err);
    if (!rc)
        rc = hearth_outfile_commit(&f, err);
    hearth_outfile_close(&f);
    return rc;
}

void hearth_outfile_close(struct hearth_outfile **file)
{
    struct hearth_outfile *f = *file;
    if (!f)
        return;
    if (f->temp)
        hearth_os_out_drop(f);
    free(f->path);
    free(f->temp);
    free(f->buffer);
    free(f);
    *file = NULL;
}
