// SPDX-License-Identifier: MIT
// Moves rows and columns of matrices into bundles, with a few MiB of buffers. Reads the source front to back.
#include "convert/pack_space.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define WINDOW ((size_t)4 << 20)
// A gap of up to this many bytes between two wanted rows is cheaper to read than to skip.
#define GAP ((size_t)64 << 10)
// Neurons that one task transposes.
#define NEURONS 256

// Makes the buffer at least `size` bytes large; it is kept for the next call.
static int need(uint8_t **buffer, size_t *have, size_t size, struct hearth_error *err)
{
    if (size <= *have)
        return HEARTH_OK;
    free(*buffer);
    *have = 0;
    *buffer = malloc(size);
    if (!*buffer)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for %zu bytes of rows", size);
    *have = size;
    return HEARTH_OK;
}

// The slot of a source neuron in this part of the space, or -1.
static int64_t slot_of(const struct hearth_pack_stretch *to, uint64_t neuron)
{
    const uint32_t slot = to->slots ? to->slots[neuron] : (uint32_t)neuron;
    return slot >= to->first && slot - to->first < to->n ? (int64_t)(slot - to->first) : -1;
}

// The first wanted neuron from `from` on; n: none.
static uint64_t next_wanted(const struct hearth_pack_stretch *to, uint64_t from, uint64_t n)
{
    while (from < n && slot_of(to, from) < 0)
        from++;
    return from;
}

// The end of the rows to read together with row `first`.
static uint64_t end_of_run(const struct hearth_pack_stretch *to, const struct hearth_pack_matrix *m,
                           uint64_t first, size_t max_rows)
{
    uint64_t end = first + 1;
    for (;;) {
        const uint64_t next = next_wanted(to, end, m->n);
        if (next == m->n || next - first >= max_rows || (next - end) * m->row_bytes > GAP)
            return end;
        end = next + 1;
    }
}

int hearth_pack_gather(struct hearth_pack_scratch *s, const struct hearth_pack_matrix *m,
                       const struct hearth_pack_stretch *to, size_t at, struct hearth_error *err)
{
    const size_t max_rows = WINDOW / m->row_bytes ? WINDOW / m->row_bytes : 1;
    int rc = need(&s->bytes, &s->size, max_rows * m->row_bytes, err);
    for (uint64_t first = next_wanted(to, 0, m->n); first < m->n && !rc;) {
        const uint64_t end = end_of_run(to, m, first, max_rows);
        rc = hearth_gguf_read(s->g, m->tensor, s->bytes, m->offset + first * m->row_bytes,
                              (size_t)(end - first) * m->row_bytes, err);
        for (uint64_t i = first; i < end && !rc; i++) {
            const int64_t slot = slot_of(to, i);
            if (slot >= 0)
                memcpy(to->rows + (size_t)slot * to->stride + at, s->bytes + (i - first) * m->row_bytes,
                       m->row_bytes);
        }
        first = next_wanted(to, end, m->n);
    }
    return rc;
}

// ---- transposing

// Some rows of the matrix, which become some elements of every neuron's row.
struct tile {
    const struct hearth_pack_matrix *m;
    const struct hearth_pack_stretch *to;
    const uint8_t *bytes;                // rows as in the file
    const struct hearth_type_info *from; // NULL: plain elements of `element` bytes, which keep their bits
    const struct hearth_type_info *type;
    size_t element;
    uint8_t *rows; // [n_rows][F] elements: f32, or as in the file
    size_t n_rows;
    size_t at;           // offset of the tile's elements in a bundle
    atomic_bool unsound; // a neuron has numbers that the new format cannot hold
};

static void decode_task(void *arg, int task, int worker)
{
    (void)worker;
    const struct tile *t = arg;
    const size_t k = (size_t)t->m->k;
    t->from->decode(t->bytes + (size_t)task * t->m->row_bytes, (float *)(void *)t->rows + (size_t)task * k,
                    k);
}

static void transpose_task(void *arg, int task, int worker)
{
    (void)worker;
    enum { MOST = 256 }; // most elements of a block
    struct tile *t = arg;
    float column[MOST];
    const size_t element = t->element, row = (size_t)t->m->k * element;
    const uint64_t first = (uint64_t)task * NEURONS, left = t->m->k - first;
    for (uint64_t i = first; i < first + (left < NEURONS ? left : NEURONS); i++) {
        const int64_t slot = slot_of(t->to, i);
        if (slot < 0)
            continue;
        uint8_t *dst = t->to->rows + (size_t)slot * t->to->stride + t->at;
        const uint8_t *src = t->rows + i * element;
        if (!t->from) {
            for (size_t r = 0; r < t->n_rows; r++)
                memcpy(dst + r * element, src + r * row, element);
            continue;
        }
        for (size_t r = 0; r < t->n_rows; r++)
            memcpy(&column[r], src + r * row, sizeof *column);
        if (!hearth_encode_checked(t->type, column, dst, t->n_rows))
            t->unsound = true;
    }
}

static int transpose_tile(struct hearth_pack_scratch *s, struct tile *t, uint64_t first,
                          struct hearth_error *err)
{
    int rc = hearth_gguf_read(s->g, t->m->tensor, s->bytes, t->m->offset + first * t->m->row_bytes,
                              t->n_rows * t->m->row_bytes, err);
    if (rc)
        return rc;
    if (t->from)
        hearth_pool_run(s->pool, decode_task, t, (int)t->n_rows);
    hearth_pool_run(s->pool, transpose_task, t, (int)((t->m->k + NEURONS - 1) / NEURONS));
    if (!t->unsound)
        return HEARTH_OK;
    return hearth_fail(err, HEARTH_E_FORMAT,
                       "%s: tensor %s has weights that are infinite, not a number, or too large for %s: take "
                       "another format for it (--down), or start from a sound file",
                       hearth_gguf_path(s->g), t->m->tensor->name.s, t->type->name);
}

int hearth_pack_transpose(struct hearth_pack_scratch *s, const struct hearth_pack_matrix *m, uint32_t type,
                          const struct hearth_pack_stretch *to, size_t at, struct hearth_error *err)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    struct tile t = {.m = m, .to = to, .type = info, .element = sizeof(float)};
    if (m->tensor->type == type && !info->unit_elems)
        t.element = info->block_bytes; // plain: a block is an element
    else
        t.from = hearth_type_info(m->tensor->type);
    const size_t rows = info->block_elems > 32 ? info->block_elems : 32;
    size_t row_bytes, tile_bytes, raw_bytes;
    if (!hearth_mul_size((size_t)m->k, t.element, &row_bytes) ||
        !hearth_mul_size(rows, row_bytes, &tile_bytes) || !hearth_mul_size(rows, m->row_bytes, &raw_bytes))
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: rows of tensor %s are too long", hearth_gguf_path(s->g),
                           m->tensor->name.s);
    int rc = need(&s->bytes, &s->size, raw_bytes, err);
    if (!rc && t.from)
        rc = need(&s->tile, &s->tile_size, tile_bytes, err);
    t.bytes = s->bytes;
    t.rows = t.from ? s->tile : s->bytes;
    for (uint64_t first = 0; first < m->n && !rc; first += rows) {
        t.n_rows = m->n - first < rows ? (size_t)(m->n - first) : rows;
        t.at = at + hearth_type_bytes(type, first);
        rc = transpose_tile(s, &t, first, err);
    }
    return rc;
}

void hearth_pack_scratch_free(struct hearth_pack_scratch *s)
{
    free(s->bytes);
    free(s->tile);
    *s = (struct hearth_pack_scratch){0};
}
