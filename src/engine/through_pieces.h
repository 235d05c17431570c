// SPDX-License-Identifier: MIT
// Bytes on their way to a device through pieces of the host's memory, several at a time: threads of the session convert
// rows of weights into a piece, which is then copied beside what the device computes (hearth_accel_begin_write()).
#ifndef HEARTH_ENGINE_THROUGH_PIECES_H
#define HEARTH_ENGINE_THROUGH_PIECES_H

#include "accel/operations.h"
#include "engine/context.h"

#define HEARTH_THROUGH_PIECES 4

struct hearth_through_piece {
    uint8_t *base;
    void *events[HEARTH_ACCEL_PUT_EVENTS]; // of the copies that have begun
};

struct hearth_through_pieces {
    struct hearth_accel *a;
    const struct hearth_context *c;
    struct hearth_through_piece pieces[HEARTH_THROUGH_PIECES];
    size_t bytes;       // of a piece
    int next;           // piece
    uint8_t **scratch;  // [workers] to convert with
    uint8_t *scratches; // all of them
};

// For weights whose longest row has `longest` elements, and whose largest takes `row` bytes on a device. HEARTH_E_MEMORY;
// close() follows in any case, before the device is closed.
int hearth_through_pieces_open(struct hearth_through_pieces *p, struct hearth_accel *a,
                               const struct hearth_context *c, size_t longest, size_t row,
                               struct hearth_error *err);
void hearth_through_pieces_close(struct hearth_through_pieces *p);

// Begin to bring all rows of w to rows [at, at + w->n) of *to, and n bytes to *to from byte `at` on; what they come from
// may change when they return.
void hearth_through_pieces_rows(struct hearth_through_pieces *p, const struct hearth_accel_weight *to,
                                size_t at, const struct hearth_weight *w);
void hearth_through_pieces_bytes(struct hearth_through_pieces *p, const struct hearth_accel_memory *to,
                                 size_t at, const void *from, size_t n);
// Returns when all of it is there, or the device has failed.
void hearth_through_pieces_wait(struct hearth_through_pieces *p);

#endif
