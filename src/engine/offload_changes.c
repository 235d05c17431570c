// SPDX-License-Identifier: MIT
// What adapters change of weights that a device has: see offload_changes.h.
#include "engine/offload_changes.h"

#include <stdlib.h>

#include "base/memory.h"

bool hearth_offload_changes_bytes(const struct hearth_weight *w, uint64_t *bytes, uint64_t *largest)
{
    *bytes = 0;
    for (const struct hearth_change *c = w->change; c; c = c->next) {
        const uint64_t a = hearth_accel_weight_bytes(c->a.type, c->a.k, c->a.n),
                       b = hearth_accel_weight_bytes(c->b.type, c->b.k, c->b.n);
        if (!a || !b)
            return false;
        *bytes += a + b;
        *largest = a > *largest ? a : *largest;
        *largest = b > *largest ? b : *largest;
    }
    return true;
}

// A or B, which are always in memory.
static int send_half(struct hearth_accel *a, struct hearth_accel_weight *to, const struct hearth_weight *w,
                     struct hearth_error *err)
{
    const int rc = hearth_accel_weight_begin(a, to, w->type, w->k, w->n, err);
    return rc ? rc : hearth_accel_weight_put(a, to, 0, w->n, w->data, w->stride, err);
}

int hearth_offload_changes_send(struct hearth_accel *a, struct hearth_accel_weight *to,
                                const struct hearth_weight *w, struct hearth_error *err)
{
    struct hearth_accel_change **at = &to->change;
    int rc = HEARTH_OK;
    for (const struct hearth_change *c = w->change; c && !rc && !hearth_accel_has_failed(a); c = c->next) {
        struct hearth_accel_change *own = *at = hearth_calloc(1, sizeof *own);
        if (!own)
            return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a device's adapters");
        at = &own->next;
        own->by = c->scale;
        rc = send_half(a, &own->a, &c->a, err);
        if (!rc)
            rc = send_half(a, &own->b, &c->b, err);
    }
    return rc;
}

void hearth_offload_changes_close(struct hearth_accel *a, struct hearth_accel_weight *w)
{
    while (w->change) {
        struct hearth_accel_change *next = w->change->next;
        hearth_accel_weight_close(a, &w->change->a);
        hearth_accel_weight_close(a, &w->change->b);
        free(w->change);
        w->change = next;
    }
}

void hearth_offload_changes_rows(const struct hearth_model *m, uint64_t *low, uint64_t *high)
{
    *low = *high = 0;
    for (int layer = 0; layer < m->hp.n_layer && m->adapters; layer++) {
        const struct hearth_weight *w = hearth_layer_weights(&m->weights.layers[layer]);
        for (size_t i = 0; i < HEARTH_LAYER_WEIGHTS; i++)
            for (const struct hearth_change *c = w[i].change; c; c = c->next) {
                *low = c->a.n > *low ? c->a.n : *low;
                *high = c->b.n > *high ? c->b.n : *high;
            }
    }
}
