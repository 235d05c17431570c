// SPDX-License-Identifier: MIT
// STEP products of block formats, AVX-512 VNNI, by rows of a list (step_avx512.h says how). Rows may lie
// anywhere. While one is multiplied, those a few places later in the list are fetched.
#include "kernels/x86/step_ends_avx512.h"
#include "kernels/x86/variants_x86.h"

// Rows that one set of tokens goes through before the next set has its turn.
#define LIST_ROWS 16
// How many bytes ahead of the arithmetic a list is prefetched: left to itself the CPU reads too few lines at
// a time.
#define LIST_AHEAD 8192
// Rows from which on their ends are worth being put together.
#define ENDS_FROM 4

struct list {
    const void *const *rows;
    size_t n, ahead; // rows, and how many places later to fetch
    size_t group_bytes, full, tail_bytes, row_bytes;
};

// `rows` rows from place `at` on.
INLINE struct strand list_strand(const void *list, size_t at, int rows)
{
    const struct list *l = list;
    struct strand strand = {.ahead_step = l->group_bytes,
                            .group_bytes = l->group_bytes,
                            .n_groups = l->full,
                            .tail_bytes = l->tail_bytes};
    for (int r = 0; r < rows; r++) {
        const size_t place = at + (size_t)r, later = place + l->ahead;
        strand.row[r] = l->rows[place];
        strand.ahead[r] = l->rows[later < l->n ? later : l->n - 1];
        strand.ahead_tail[r] = strand.ahead[r] + l->full * l->group_bytes;
        prefetch_line(strand.ahead[r] + l->row_bytes - 1);
    }
    return strand;
}

INLINE size_t list_row(const void *list, size_t place)
{
    (void)list;
    return place;
}

// So many (a constant after inlining).
INLINE void list_rows(float *out, size_t out_stride, const struct list *l, size_t at,
                      const struct prepared *x, size_t x_groups, int rows, int n, unpack_fn unpack,
                      const struct shape *s)
{
    const struct strand strand = list_strand(l, at, rows);
    strand_tokens(out + at, out_stride, &strand, x, x_groups, rows, n, true, unpack, NULL, s);
}

INLINE void list_tokens(float *out, size_t out_stride, const struct list *l, size_t first, size_t count,
                        const struct prepared *x, size_t x_groups, int n, unpack_fn unpack,
                        const struct shape *s)
{
    const int together = n == 1 ? ROWS_TOGETHER : 1;
    size_t r = first;
    for (; r + (size_t)together <= first + count; r += (size_t)together)
        list_rows(out, out_stride, l, r, x, x_groups, together, n, unpack, s);
    for (; together > 1 && r < first + count; r++)
        list_rows(out, out_stride, l, r, x, x_groups, 1, n, unpack, s);
}

static size_t places_ahead(size_t row_bytes)
{
    const size_t places = LIST_AHEAD / (row_bytes + 1) + 1;
    return places > 16 ? 16 : places;
}

INLINE void dot_rows(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x,
                     size_t x_stride, size_t n_tokens, void *scratch, uint32_t type, unpack_fn unpack,
                     const struct shape *s)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t elements = (size_t)s->unit * LANES, all = (k + elements - 1) / elements;
    const size_t row_bytes = k / info->block_elems * info->block_bytes;
    struct list l = {.rows = rows, .n = n_rows, .ahead = places_ahead(row_bytes), .row_bytes = row_bytes};
    l.group_bytes = elements / info->block_elems * info->block_bytes;
    l.full = k / elements;
    l.tail_bytes = row_bytes - l.full * l.group_bytes;
    struct prepared *prepared = scratch;
    struct ends ends = {
        .bytes = l.tail_bytes,
        .together = n_tokens == 1 && n_rows >= ENDS_FROM ? ends_together(k - l.full * elements, s) : 1};

    for (size_t r = 0; r < l.ahead && r < n_rows; r++)
        prefetch_end(rows[r], row_bytes);
    if (ends.together > 1) {
        prepare(prepared, x, k, all, s);
        prepare_ends(&ends, prepared + all, x, k, l.full, l.group_bytes, s);
        rows_with_ends(out, n_rows, &l, list_strand, list_row, prepared, &ends, unpack, s);
        return;
    }
    for (size_t first = 0; first < n_tokens; first += MAX_PREPARED) {
        const size_t count = n_tokens - first < MAX_PREPARED ? n_tokens - first : MAX_PREPARED;
        for (size_t t = 0; t < count; t++)
            prepare(prepared + t * all, (const uint8_t *)x + (first + t) * x_stride, k, all, s);
        for (size_t r = 0; r < n_rows; r += LIST_ROWS) {
            const size_t some = n_rows - r < LIST_ROWS ? n_rows - r : LIST_ROWS;
            float *to = out + first * n_rows;
            size_t t = 0;
            for (; t + 4 <= count; t += 4)
                list_tokens(to + t * n_rows, n_rows, &l, r, some, prepared + t * all, all, 4, unpack, s);
            for (; t < count; t++)
                list_tokens(to + t * n_rows, n_rows, &l, r, some, prepared + t * all, all, 1, unpack, s);
        }
    }
}

// ---- formats

#define DOT_ROWS(type, unpack, shape)                                                                        \
    static void dot_rows_##type(float *out, const void *const *rows, size_t n_rows, size_t k, const void *x, \
                                size_t x_stride, size_t n_tokens, void *scratch)                             \
    {                                                                                                        \
        dot_rows(out, rows, n_rows, k, x, x_stride, n_tokens, scratch, HEARTH_TYPE_##type, unpack, &shape);  \
    }

HEARTH_UNITS_AVX512(DOT_ROWS)

void hearth_kernels_init_step_rows_avx512(struct hearth_kernels *t)
{
#define ENTER(type, unpack, shape) t->dot_rows[HEARTH_TYPE_##type] = dot_rows_##type;
    HEARTH_UNITS_AVX512(ENTER)
#undef ENTER
    hearth_kernels_raise_scratch(t, step_scratch_bytes);
}
