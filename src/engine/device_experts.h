// SPDX-License-Identifier: MIT
// Experts on a device: their matrices side by side, rows of their inputs, and what they make of these.
#ifndef HEARTH_ENGINE_DEVICE_EXPERTS_H
#define HEARTH_ENGINE_DEVICE_EXPERTS_H

#include "accel/operations.h"
#include "model/model.h"

struct hearth_session;

// Rows of a prompt together, at most: a dimension of grids.
#define HEARTH_EXPERT_ROWS_MOST 16384

// The matrices of some places, side by side; of biases a row each.
struct hearth_device_experts {
    struct hearth_accel_weight gate, up, down, gate_b, up_b;
};

// Scales of matrices, of a row: of its expert's gate, up and down.
#define HEARTH_EXPERT_FACTORS 3

// Rows of experts' inputs and outputs, those of one expert side by side.
struct hearth_expert_rows {
    struct hearth_accel_memory x, acts, gate, up, out, tiles, which;
    size_t cap;                          // rows that there is room for
    size_t n, n_tiles;                   // that there are now
    struct hearth_accel_tile *tile_list; // [cap] for the device's `tiles`,
    int32_t *which_list;                 // [cap] and `which`: each row's place
    struct hearth_accel_memory factors[HEARTH_EXPERT_FACTORS];
    float *factor_lists[HEARTH_EXPERT_FACTORS]; // [cap] for these; NULL: no matrix has a scale
    float *got;                                 // [cap x E] what comes back
    void *event;                                // of that; NULL: nothing is on its way
};

// Layers whose experts are the CPU's, whatever room devices have: `is` [n], not 0; the others, and all layers behind, may
// have some there. Borrowed.
struct hearth_cpu_experts {
    const unsigned char *is;
    int n;
};

static inline bool hearth_are_cpu_experts(const struct hearth_cpu_experts *c, int layer)
{
    return layer < c->n && c->is[layer];
}

// Bytes that an expert of the layer takes, *largest becoming those of its largest matrix if that is more; 0: devices do
// not compute its experts.
uint64_t hearth_device_experts_bytes(const struct hearth_session *s, int layer, uint64_t *largest);
void hearth_device_experts_close(struct hearth_accel *a, struct hearth_device_experts *x);

// Bytes of a device's memory for a row.
uint64_t hearth_expert_rows_bytes(const struct hearth_session *s);
// Takes r->cap of them. HEARTH_E_MEMORY (of the host); close() follows in any case.
int hearth_expert_rows_open(struct hearth_expert_rows *r, struct hearth_accel *a,
                            const struct hearth_session *s, struct hearth_error *err);
void hearth_expert_rows_close(struct hearth_expert_rows *r, struct hearth_accel *a);

// n rows of the layer's expert, which is in a place, in the lists.
void hearth_expert_rows_add(struct hearth_expert_rows *r, bool is_prompt, int place, int n,
                            const struct hearth_layer *l, int expert);
// Has the device compute all rows, whose inputs and lists are there, to r->got: outputs [n x E], without the biases of
// down. They are there after hearth_accel_wait() for the event.
void hearth_expert_rows_begin(struct hearth_expert_rows *r, struct hearth_accel *a,
                              const struct hearth_hparams *hp, const struct hearth_device_experts *x,
                              bool is_prompt);

#endif
