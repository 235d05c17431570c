// SPDX-License-Identifier: MIT
// What latent attention does beside attention (struct hearth_latent, engine/latent.h), on a device: with the bits of the
// C reference. Rows lie side by side; failures are kept by the device.
#ifndef HEARTH_ACCEL_LATENT_H
#define HEARTH_ACCEL_LATENT_H

#include "accel/operations.h"

// Heads, and elements of a position's vector, of a head's query that do not rotate and that do, and of its value. joint:
// a matrix has both shares of each head, still + value rows.
struct hearth_accel_latent {
    size_t n_heads, rank, still, n_rot, value;
    bool joint;
    float eps; // of the vector's norm
};

// Workspace for n_rows rows: `plain` of n_heads * max(still, rank) floats for each of them, where matrices are plain
// numbers; `acts` of n_heads * hearth_acts_bytes(max(still, rank)), where they are not; `by_head` of n_heads *
// hearth_accel_latent_by_head() floats; and the heads' tiles.
struct hearth_accel_latent_work {
    const struct hearth_accel_memory *plain, *acts, *by_head, *tiles;
    size_t n_tiles;
};
size_t hearth_accel_latent_by_head(const struct hearth_accel_latent *l);

// The tiles of n_rows rows: returns how many there are, and writes them to `tiles` unless it is NULL.
size_t hearth_accel_latent_tiles(struct hearth_accel_tile *tiles, bool is_prompt, size_t n_heads,
                                 size_t n_rows);

// Norms the rank elements of keys k [n_rows x (rank + n_rot)], and rotates what rotates of them and of queries
// q [n_rows x heads x (still + n_rot)].
void hearth_accel_latent_place(struct hearth_accel *a, const struct hearth_accel_latent *l,
                               const struct hearth_accel_memory *k, const struct hearth_accel_memory *q,
                               const struct hearth_accel_weight *norm, struct hearth_accel_rotation rotation,
                               size_t n_rows);
// Queries as they meet the vectors, out [n_rows x heads x (rank + n_rot)], of q as above. w: keys' shares turned,
// [heads rank x still], or both shares.
void hearth_accel_latent_queries(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_latent *l,
                                 const struct hearth_accel_memory *out, const struct hearth_accel_memory *q,
                                 const struct hearth_accel_weight *w,
                                 const struct hearth_accel_latent_work *work, size_t n_rows);
// Values, out [n_rows x heads x value], of what attention gave, x [n_rows x heads x rank]. w: values' shares,
// [heads value x rank], or both.
void hearth_accel_latent_values(struct hearth_accel *a, bool is_prompt, const struct hearth_accel_latent *l,
                                const struct hearth_accel_memory *out, const struct hearth_accel_memory *x,
                                const struct hearth_accel_weight *w,
                                const struct hearth_accel_latent_work *work, size_t n_rows);

#endif
