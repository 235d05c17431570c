// SPDX-License-Identifier: MIT
// Checks a GGUF against its own checksums.
#include "gguf/checksums.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "base/threads.h"
#include "gguf/internal.h"

#define BLOCK HEARTH_CHECKSUMS_BLOCK

struct hearth_checksums {
    const struct hearth_gguf *g;
    uint64_t start, end; // range of the bytes after the header that are covered
    uint64_t n;          // number of elements
    uint8_t *sums;       // [4 n] as in the file
};

uint64_t hearth_checksums_n(const struct hearth_checksums *c)
{
    return c->n;
}

void hearth_checksums_range(const struct hearth_checksums *c, uint64_t i, uint64_t *offset, uint64_t *n)
{
    *offset = i ? c->start + (i - 1) * BLOCK : 0;
    *n = !i ? c->start : c->end - *offset < BLOCK ? c->end - *offset : BLOCK;
}

static uint32_t sum_at(const struct hearth_checksums *c, uint64_t i)
{
    const uint8_t *p = c->sums + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// Names the tensor at an offset of the file, for messages.
static const char *name_at(const struct hearth_gguf *g, uint64_t from, uint64_t to)
{
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct hearth_gguf_tensor *t = &g->tensors[i];
        if (t->offset < to && from < t->offset + t->bytes)
            return t->name.s;
    }
    return "padding";
}

static int compare(const struct hearth_checksums *c, uint64_t i, uint32_t crc, struct hearth_error *err)
{
    if (crc == sum_at(c, i))
        return HEARTH_OK;
    uint64_t from, n;
    hearth_checksums_range(c, i, &from, &n);
    return hearth_fail(err, HEARTH_E_FORMAT,
                       "%s: bytes %llu to %llu (%s%s) are not what was written, by their checksum: the file "
                       "is damaged; make "
                       "or copy it again",
                       hearth_gguf_path(c->g), (unsigned long long)from, (unsigned long long)(from + n),
                       i ? "from " : "", i ? name_at(c->g, from, from + n) : "metadata");
}

int hearth_checksums_check(const struct hearth_checksums *c, uint64_t i, const void *bytes,
                           struct hearth_error *err)
{
    uint64_t from, n;
    hearth_checksums_range(c, i, &from, &n);
    return compare(c, i, hearth_crc32c(0, bytes, (size_t)n), err);
}

static int crc_of_header(const struct hearth_gguf *g, uint32_t *crc, struct hearth_error *err)
{
    const size_t size = (size_t)256 << 10;
    uint64_t left = g->shards[0].data_start, at = 0;
    uint8_t *buffer = malloc(size);
    int rc = buffer ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for a checksum", g->path);
    for (*crc = 0; !rc && left > 0;) {
        const size_t n = left < size ? (size_t)left : size;
        rc = hearth_file_read(g->shards[0].file, buffer, n, at, err);
        if (!rc)
            *crc = hearth_crc32c(*crc, buffer, n);
        at += n;
        left -= n;
    }
    free(buffer);
    return rc;
}

int hearth_gguf_header_crc(const struct hearth_gguf *g, uint32_t *crc, struct hearth_error *err)
{
    return crc_of_header(g, crc, err);
}

// ---- the whole file

struct job {
    const struct hearth_checksums *c;
    uint64_t first;              // block of task 0
    uint8_t *buffers;            // [workers][BLOCK]
    struct hearth_error *errors; // [tasks]
};

static void verify_task(void *arg, int task, int worker)
{
    const struct job *j = arg;
    const struct hearth_checksums *c = j->c;
    const uint64_t i = j->first + (uint64_t)task;
    struct hearth_error *err = &j->errors[task];
    uint8_t *buffer = j->buffers + (size_t)worker * BLOCK;
    uint64_t from, n;
    uint32_t crc;
    if (i == 0) {
        if (!crc_of_header(c->g, &crc, err))
            compare(c, 0, crc, err);
        return;
    }
    hearth_checksums_range(c, i, &from, &n);
    if (!hearth_file_read_direct(c->g->shards[0].file, buffer, (size_t)n, from, err))
        hearth_checksums_check(c, i, buffer, err);
}

int hearth_checksums_verify(const struct hearth_checksums *c, int n_threads,
                            bool (*progress)(void *arg, float share), void *progress_arg,
                            struct hearth_error *err)
{
    enum { ROUND = 64 }; // blocks between two progress reports
    n_threads = hearth_pool_threads(n_threads);
    struct hearth_pool *pool = NULL;
    // One page more, to start on a page boundary.
    uint8_t *memory = hearth_calloc((size_t)n_threads + 1, BLOCK);
    struct hearth_error *errors = hearth_calloc(ROUND, sizeof *errors);
    struct job j = {.c = c, .errors = errors};
    int rc = memory && errors ? HEARTH_OK
                              : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for checksums", c->g->path);
    if (!rc) {
        j.buffers = memory + (-(uintptr_t)memory & 4095);
        rc = hearth_pool_open(&pool, n_threads, err);
    }
    for (; !rc && j.first < c->n; j.first += ROUND) {
        const int n = c->n - j.first < ROUND ? (int)(c->n - j.first) : ROUND;
        hearth_pool_run(pool, verify_task, &j, n);
        for (int i = 0; i < n && !rc; i++)
            if (errors[i].code)
                rc = hearth_fail(err, errors[i].code, "%s", errors[i].message);
        const float share = (float)((double)(j.first + (uint64_t)n) / (double)c->n);
        if (!rc && progress && !progress(progress_arg, share))
            rc = hearth_fail(err, HEARTH_E_INTERRUPTED, "checking was interrupted");
    }
    hearth_pool_close(&pool);
    free(errors);
    free(memory);
    return rc;
}

// ---- opening

static int read_sums(struct hearth_checksums *c, const struct hearth_gguf_tensor *t, struct hearth_error *err)
{
    const struct hearth_gguf *g = c->g;
    c->start = g->shards[0].data_start;
    c->end = t->offset;
    bool last = t->offset >= c->start;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        last = last && (g->tensors[i].offset <= t->offset);
    const uint64_t blocks = last ? (c->end - c->start + BLOCK - 1) / BLOCK : 0;
    if (!last || t->type != HEARTH_TYPE_I32 || t->ne[0] != blocks + 1 || t->bytes != 4 * (blocks + 1))
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: tensor %s does not belong to this file: the file was changed after its "
                           "checksums were taken",
                           g->path, t->name.s);
    c->n = blocks + 1;
    c->sums = malloc((size_t)t->bytes);
    if (!c->sums)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for checksums", g->path);
    return hearth_gguf_read(g, t, c->sums, 0, (size_t)t->bytes, err);
}

int hearth_checksums_open(struct hearth_checksums **out, const struct hearth_gguf *g,
                          struct hearth_error *err)
{
    *out = NULL;
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(g, HEARTH_CHECKSUMS_NAME);
    if (!t)
        return HEARTH_OK;
    if (g->n_shards != 1)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: a split file with checksums is not supported",
                           g->path);
    struct hearth_checksums *c = hearth_calloc(1, sizeof *c);
    if (!c)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for checksums", g->path);
    c->g = g;
    int rc = read_sums(c, t, err);
    if (rc)
        hearth_checksums_close(&c);
    *out = c;
    return rc;
}

void hearth_checksums_close(struct hearth_checksums **checksums)
{
    if (!*checksums)
        return;
    free((*checksums)->sums);
    free(*checksums);
    *checksums = NULL;
}
