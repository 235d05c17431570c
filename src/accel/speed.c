// SPDX-License-Identifier: MIT
// How fast a device is, and which kernels of its are faster: a product, timed.
#include <math.h>

#include "accel/insides.h"
#include "accel/operations.h"
#include "base/os.h"

// 18 MiB of weights, which few caches of devices hold beside other things, and long enough to be seen beside a launch.
#define ROWS  8192
#define WIDTH 4096
// Products in a row: as many as about so much time has, that of one being known.
#define TRIAL_NS 2e6
#define MOST     16

// The time of n products.
static double time_of(struct hearth_accel *a, const struct hearth_accel_weight *w,
                      const struct hearth_accel_memory *out, struct hearth_accel_input in, int n)
{
    float first;
    const uint64_t began = hearth_now_ns();
    for (int i = 0; i < n; i++)
        hearth_accel_product(a, false, out, w, in, 1, NULL);
    hearth_accel_read(a, out, 0, &first, sizeof first); // waits
    return (double)(hearth_now_ns() - began) + 1;
}

double hearth_accel_speed(struct hearth_accel *a)
{
    static const uint8_t zeros[WIDTH]; // of a row, and of the input
    struct hearth_accel_weight w = {0};
    struct hearth_error err;
    const size_t bytes = hearth_accel_weight_bytes(HEARTH_TYPE_Q4_0, WIDTH, ROWS);
    struct hearth_accel_memory x = hearth_accel_alloc(a, WIDTH * sizeof(float)),
                               acts = hearth_accel_alloc(a, hearth_acts_bytes(WIDTH)),
                               out = hearth_accel_alloc(a, ROWS * sizeof(float));
    const struct hearth_accel_input in = {&x, &acts};
    double speed = 0;
    for (size_t part = 0; part < sizeof(float); part++)
        hearth_accel_write(a, &x, part * WIDTH, zeros, WIDTH);
    hearth_accel_quantize(a, &acts, &x, WIDTH, 1);
    if (!hearth_accel_weight_begin(a, &w, HEARTH_TYPE_Q4_0, WIDTH, ROWS, &err) &&
        !hearth_accel_weight_put(a, &w, 0, ROWS, zeros, 0, &err)) {
        time_of(a, &w, &out, in, 1); // its first run may take longer
        const double one = time_of(a, &w, &out, in, 1), fit = TRIAL_NS / one;
        const int n = fit < 1 ? 1 : fit > MOST ? MOST : (int)fit;
        speed = (double)n * (double)bytes / time_of(a, &w, &out, in, n) * 1e9;
    }
    hearth_accel_weight_close(a, &w);
    hearth_accel_free(a, &x);
    hearth_accel_free(a, &acts);
    hearth_accel_free(a, &out);
    return hearth_accel_has_failed(a) ? 0 : speed;
}

// ---- which kernels steps of one token have

// Of weights, more than most caches have, where the device has much memory.
#define COMPARED    ((uint64_t)72 << 20)
#define OF_MEMORY   256
#define COMPARISONS 4

void hearth_accel_compare_one(struct hearth_accel *a)
{
    const uint64_t most = a->info.memory / OF_MEMORY < COMPARED ? a->info.memory / OF_MEMORY : COMPARED;
    const size_t rows = (size_t)(most / hearth_accel_weight_bytes(HEARTH_TYPE_Q4_0, WIDTH, 1)) + 1;
    struct hearth_accel_weight w = {0};
    struct hearth_error err;
    struct hearth_accel_memory acts = hearth_accel_alloc(a, hearth_acts_bytes(WIDTH)),
                               out = hearth_accel_alloc(a, rows * sizeof(float));
    double best[2] = {HUGE_VAL, HUGE_VAL};
    // Whatever numbers lie there: they take as long as others.
    if (!hearth_accel_weight_begin(a, &w, HEARTH_TYPE_Q4_0, WIDTH, rows, &err))
        for (int i = 0; i < 2 * COMPARISONS; i++) {
            a->info.has_one = i % 2;
            const double ns = time_of(a, &w, &out, (struct hearth_accel_input){&acts, &acts}, 1);
            best[i % 2] = i >= 2 && ns < best[i % 2] ? ns : best[i % 2]; // its first run may take longer
        }
    hearth_accel_weight_close(a, &w);
    hearth_accel_free(a, &acts);
    hearth_accel_free(a, &out);
    a->info.has_one = !hearth_accel_take(a, NULL) && best[1] < best[0];
}
