// SPDX-License-Identifier: MIT
#include "engine/device_predictor.h"

// The inner layer: what it looks at, where its second matrix wants that, and then its first product.
static const struct hearth_accel_memory *inner_of(struct hearth_accel *a,
                                                  const struct hearth_device_predictor *p,
                                                  const struct hearth_accel_memory *seen, size_t n)
{
    const size_t r = p->fc1->n * sizeof(float), k = p->fc2->k * sizeof(float);
    if (r == k)
        return p->hidden;
    for (size_t i = 0; i < n; i++) {
        hearth_accel_copy(a, p->inner, i * k, seen, i * (k - r), k - r);
        hearth_accel_copy(a, p->inner, i * k + (k - r), p->hidden, i * r, r);
    }
    return p->inner;
}

static void product(struct hearth_accel *a, const struct hearth_device_predictor *p,
                    const struct hearth_accel_memory *out, const struct hearth_accel_weight *w,
                    const struct hearth_accel_memory *x, size_t n)
{
    hearth_accel_quantize(a, p->acts, x, w->k, n);
    hearth_accel_product(a, false, out, w, (struct hearth_accel_input){x, p->acts}, n, NULL);
}

void hearth_device_predict(struct hearth_accel *a, const struct hearth_device_predictor *p,
                           const struct hearth_accel_memory *seen, size_t n)
{
    product(a, p, p->hidden, p->fc1, seen, n);
    hearth_accel_activate(a, p->hidden, NULL, NULL, HEARTH_ACT_RELU, p->fc1->n, n);
    product(a, p, p->scores, p->fc2, inner_of(a, p, seen, n), n);
}
