// SPDX-License-Identifier: MIT
// Reads by io_uring: one system call for many reads, no threads. The file and, where the caller
// names it, memory are registered, so that the kernel need not look them up for each read.
// Features that a kernel lacks are left out.
#include "store/backend.h"

#ifdef HEARTH_HAVE_LIBURING

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// The kernel accepts at most 1 GiB per registered buffer.
#define PIECE      ((size_t)1 << 30)
#define MAX_PIECES 64

struct ring {
    struct io_uring uring;
    int fd;
    bool fixed_file;
    struct iovec pieces[MAX_PIECES];
    unsigned n_pieces;
    unsigned queued;                    // attempts since the last submission
    unsigned lost;                      // attempts that the kernel did not accept: see submit()
    struct hearth_attempt_done *failed; // [depth] those attempts, to be collected
    unsigned depth;
};

static void ring_close(void *state)
{
    struct ring *r = state;
    io_uring_queue_exit(&r->uring);
    free(r->failed);
    free(r);
}

static int ring_open(void **state, const struct hearth_io_file *file, unsigned depth,
                     struct hearth_error *err)
{
    struct ring *r = hearth_calloc(1, sizeof *r);
    struct hearth_attempt_done *failed = hearth_calloc(depth, sizeof *failed);
    if (!r || !failed) {
        free(r);
        free(failed);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for reading");
    }
    // Not single-issuer: a session may move from thread to thread, and such a ring would refuse the second
    // thread. Completions wait until this thread asks for them; otherwise each one interrupts it.
    int rc = io_uring_queue_init(depth, &r->uring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
    if (rc == -EINVAL) // an older kernel
        rc = io_uring_queue_init(depth, &r->uring, 0);
    if (rc) {
        free(r);
        free(failed);
        return hearth_fail_param(err, HEARTH_E_UNSUPPORTED, "io",
                                 "io_uring cannot be used here (%s): use io pread", strerror(-rc));
    }
    r->fd = (int)file->fd;
    r->failed = failed;
    r->depth = depth;
    r->fixed_file = io_uring_register_files(&r->uring, &r->fd, 1) == 0;
    *state = r;
    return HEARTH_OK;
}

static void ring_add_memory(void *state, void *base, size_t size)
{
    struct ring *r = state;
    const unsigned before = r->n_pieces;
    for (size_t at = 0; at < size; at += PIECE) {
        if (r->n_pieces == MAX_PIECES)
            break;
        r->pieces[r->n_pieces++] = (struct iovec){(char *)base + at, size - at < PIECE ? size - at : PIECE};
    }
    // Registration replaces the buffers registered before. Without permission for it, reads do without.
    if (before)
        io_uring_unregister_buffers(&r->uring);
    if (io_uring_register_buffers(&r->uring, r->pieces, r->n_pieces))
        r->n_pieces = 0;
}

// The registered buffer that holds this memory, or -1.
static int piece_of(const struct ring *r, const void *dst, size_t length)
{
    for (unsigned i = 0; i < r->n_pieces; i++) {
        const char *base = r->pieces[i].iov_base, *p = dst;
        if (p >= base && p + length <= base + r->pieces[i].iov_len)
            return (int)i;
    }
    return -1;
}

static void submit(struct ring *r)
{
    while (r->queued) {
        const int n = io_uring_submit(&r->uring);
        if (n > 0) {
            r->queued -= (unsigned)n < r->queued ? (unsigned)n : r->queued;
            continue;
        }
        // No room for completions, or a signal: collect what is there first, then try again.
        break;
    }
}

static void ring_start(void *state, const struct hearth_attempt *a)
{
    struct ring *r = state;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->uring);
    if (!sqe) {
        submit(r);
        sqe = io_uring_get_sqe(&r->uring);
    }
    if (!sqe) { // the kernel accepts nothing now: the store tries again
        assert(r->lost < r->depth);
        r->failed[r->lost++] = (struct hearth_attempt_done){a->slot, -EAGAIN};
        return;
    }
    const int piece = piece_of(r, a->dst, a->length);
    if (piece >= 0)
        io_uring_prep_read_fixed(sqe, r->fixed_file ? 0 : r->fd, a->dst, a->length, a->offset, piece);
    else
        io_uring_prep_read(sqe, r->fixed_file ? 0 : r->fd, a->dst, a->length, a->offset);
    if (r->fixed_file)
        sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, a->slot);
    r->queued++;
}

static void ring_flush(void *state)
{
    submit(state);
}

static int ring_reap(void *state, struct hearth_attempt_done *done, int max, bool wait)
{
    struct ring *r = state;
    int n = 0;
    while (n < max && r->lost)
        done[n++] = r->failed[--r->lost];
    if (r->queued)
        submit(r);
    for (;;) {
        struct io_uring_cqe *cqe = NULL;
        io_uring_peek_cqe(&r->uring, &cqe);
        while (cqe && n < max) {
            done[n++] = (struct hearth_attempt_done){(uint32_t)io_uring_cqe_get_data64(cqe), cqe->res};
            io_uring_cqe_seen(&r->uring, cqe);
            cqe = NULL;
            io_uring_peek_cqe(&r->uring, &cqe);
        }
        if (n || !wait)
            return n;
        if (io_uring_submit_and_wait(&r->uring, 1) >= 0)
            r->queued = 0;
    }
}

const struct hearth_io_backend hearth_io_uring = {
    "io_uring", ring_open, ring_close, ring_add_memory, ring_start, ring_flush, ring_reap,
};

#endif
