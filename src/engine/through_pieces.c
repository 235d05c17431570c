// SPDX-License-Identifier: MIT
// Bytes on their way to a device: see through_pieces.h.
#include "engine/through_pieces.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// Bytes of a piece, at least: enough for copies to run at full speed.
#define PIECE ((size_t)4 << 20)
// Tasks for each thread, about.
#define SHARES 4

// One that is free.
static struct hearth_through_piece *take_piece(struct hearth_through_pieces *p)
{
    struct hearth_through_piece *piece = &p->pieces[p->next];
    p->next = (p->next + 1) % HEARTH_THROUGH_PIECES;
    for (int i = 0; i < HEARTH_ACCEL_PUT_EVENTS; i++) {
        hearth_accel_wait(p->a, piece->events[i]);
        piece->events[i] = NULL;
    }
    return piece;
}

void hearth_through_pieces_wait(struct hearth_through_pieces *p)
{
    for (int i = 0; i < HEARTH_THROUGH_PIECES; i++)
        take_piece(p);
}

struct convert_job {
    const struct hearth_through_pieces *p;
    const struct hearth_weight *w;
    uint8_t *piece;
    size_t rows, first, n, each; // of the piece; of the weight: rows [first, first + n), `each` in a task
};

static void convert_task(void *arg, int task, int worker)
{
    const struct convert_job *j = arg;
    const size_t from = (size_t)task * j->each, end = from + j->each < j->n ? from + j->each : j->n;
    for (size_t i = from; i < end; i++)
        hearth_accel_weight_convert(j->w->type, j->w->k, j->piece, j->rows, i,
                                    (const uint8_t *)j->w->data + (j->first + i) * j->w->stride,
                                    j->p->scratch[worker]);
}

void hearth_through_pieces_rows(struct hearth_through_pieces *p, const struct hearth_accel_weight *to,
                                size_t at, const struct hearth_weight *w)
{
    const size_t fit = p->bytes / hearth_accel_weight_bytes(w->type, w->k, 1);
    assert(fit);
    const size_t shares = (size_t)hearth_pool_size(p->c->pool) * SHARES;
    for (size_t first = 0; first < w->n && !hearth_accel_has_failed(p->a); first += fit) {
        const size_t n = w->n - first < fit ? w->n - first : fit, each = (n + shares - 1) / shares;
        struct hearth_through_piece *piece = take_piece(p);
        struct convert_job j = {p, w, piece->base, n, first, n, each};
        hearth_parallel(p->c, convert_task, &j, (int)((n + each - 1) / each));
        hearth_accel_weight_begin_put(p->a, to, at + first, n, piece->base, n, piece->events);
    }
}

void hearth_through_pieces_bytes(struct hearth_through_pieces *p, const struct hearth_accel_memory *to,
                                 size_t at, const void *from, size_t n)
{
    for (size_t i = 0; i < n && !hearth_accel_has_failed(p->a); i += p->bytes) {
        const size_t count = n - i < p->bytes ? n - i : p->bytes;
        struct hearth_through_piece *piece = take_piece(p);
        memcpy(piece->base, (const uint8_t *)from + i, count);
        piece->events[0] = hearth_accel_begin_write(p->a, to, at + i, piece->base, count);
    }
}

// ---- opening

int hearth_through_pieces_open(struct hearth_through_pieces *p, struct hearth_accel *a,
                               const struct hearth_context *c, size_t longest, size_t row,
                               struct hearth_error *err)
{
    const size_t workers = (size_t)hearth_pool_size(c->pool);
    const size_t each = hearth_round_up(hearth_accel_convert_scratch(longest), 64);
    *p = (struct hearth_through_pieces){.a = a, .c = c, .bytes = row > PIECE ? row : PIECE};
    p->scratch = hearth_calloc(workers, sizeof *p->scratch);
    p->scratches = hearth_calloc(workers, each);
    bool there = p->scratch && p->scratches;
    for (size_t i = 0; i < workers && there; i++)
        p->scratch[i] = p->scratches + i * each;
    for (int i = 0; i < HEARTH_THROUGH_PIECES && there; i++)
        there = (p->pieces[i].base = hearth_accel_alloc_host(a, p->bytes)) != NULL;
    return there ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for prompts through a device");
}

void hearth_through_pieces_close(struct hearth_through_pieces *p)
{
    for (int i = 0; i < HEARTH_THROUGH_PIECES && p->a; i++)
        hearth_accel_free_host(p->a, p->pieces[i].base);
    free(p->scratch);
    free(p->scratches);
    *p = (struct hearth_through_pieces){0};
}
