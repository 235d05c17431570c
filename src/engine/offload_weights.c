// SPDX-License-Identifier: MIT
// Weights on their way to a device: from memory where they always are there, else from the file, piece by piece.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/offload_weights.h"
#include "model/load.h"

// Bytes that are read at a time, about.
#define PIECE ((size_t)1 << 20)

// Rows [first, first + n) of a weight that is not in memory, `stride` bytes apart, to out.
static int read_rows(const struct hearth_model *m, const struct hearth_weight *w, size_t first, size_t n,
                     uint8_t *out, uint8_t *bundles, struct hearth_error *err)
{
    const struct hearth_item *item = hearth_item_of(m, w);
    const struct hearth_bundle *b = item->bundle;
    if (!b)
        return hearth_gguf_read(m->gguf, item->tensor, out, w->at + first * w->stride, n * w->stride, err);
    int part = 0;
    while (part < HEARTH_PARTS - 1 && (!b->bytes[part] || item->parts[part] != w->at))
        part++;
    const int rc = hearth_gguf_read(m->gguf, item->tensor, bundles, first * b->stride, n * b->stride, err);
    for (size_t i = 0; i < n && !rc; i++)
        memcpy(out + i * w->stride, bundles + i * b->stride + b->at[part], b->bytes[part]);
    return rc;
}

static int put_from_file(struct hearth_accel *a, const struct hearth_model *m,
                         const struct hearth_accel_weight *to, const struct hearth_weight *w,
                         struct hearth_error *err)
{
    const struct hearth_bundle *b = hearth_item_of(m, w)->bundle;
    const size_t row = b ? b->stride : w->stride, rows = row < PIECE ? PIECE / row : 1;
    uint8_t *out = hearth_calloc(rows, w->stride), *bundles = b ? hearth_calloc(rows, b->stride) : NULL;
    int rc = out && (bundles || !b)
                 ? HEARTH_OK
                 : hearth_fail(err, HEARTH_E_MEMORY, "no memory to read weights for a device");
    for (size_t at = 0; at < to->n && !rc && !hearth_accel_has_failed(a); at += rows) {
        const size_t n = to->n - at < rows ? to->n - at : rows;
        rc = read_rows(m, w, at, n, out, bundles, err);
        if (!rc)
            rc = hearth_accel_weight_put(a, to, at, n, out, w->stride, err);
    }
    free(out);
    free(bundles);
    return rc;
}

int hearth_offload_send(struct hearth_accel *a, const struct hearth_model *m, struct hearth_accel_weight *to,
                        const struct hearth_weight *w, const struct hearth_weight *now, size_t n,
                        struct hearth_error *err)
{
    const bool is_here = !m->load.ram || hearth_item_of(m, w)->vector;
    const int rc = hearth_accel_weight_begin(a, to, w->type, w->k, n, err);
    to->scale = w->scales;
    if (rc)
        return rc;
    if (is_here)
        return hearth_accel_weight_put(a, to, 0, n, now->data, w->stride, err);
    return put_from_file(a, m, to, w, err);
}

int hearth_offload_send_expert(struct hearth_accel *a, const struct hearth_model *m,
                               const struct hearth_accel_weight *to, int place, const struct hearth_weight *w,
                               const struct hearth_weight *now, uint8_t *rows, int expert, size_t first,
                               size_t n, struct hearth_error *err)
{
    const size_t at = (size_t)place * w->n + first;
    if (now) {
        const struct hearth_weight own = hearth_expert(now, expert);
        return hearth_accel_weight_put(a, to, at, n, (const uint8_t *)own.data + first * w->stride, w->stride,
                                       err);
    }
    const int rc = hearth_expert_rows_read(m, w, expert, first, n, rows, err);
    return rc ? rc : hearth_accel_weight_put(a, to, at, n, rows, w->stride, err);
}
