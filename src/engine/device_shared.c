// SPDX-License-Identifier: MIT
// The expert that all tokens use on a device: see device_shared.h.
#include "engine/device_shared.h"

#include <string.h>

#include "base/log.h"

static void wait(struct hearth_device_shared *d, int class)
{
    hearth_accel_wait(d->a, d->events[class]);
    d->events[class] = NULL;
}

void hearth_device_shared_fetch(struct hearth_device_shared *d, int class,
                                const struct hearth_accel_memory *from, size_t at, size_t n)
{
    wait(d, class); // a part before this one's, which is there
    d->events[class] = hearth_accel_begin_read(d->a, from, 0, d->got + at, n * sizeof *d->got);
}

bool hearth_device_shared_end(struct hearth_device_shared *d, float *out, size_t n_rows, size_t n)
{
    struct hearth_error err = {0};
    d->layer = -1;
    for (int k = 0; k < 2; k++)
        wait(d, k);
    if (!*d->works) // since then, and said so
        return false;
    if (hearth_accel_take(d->a, &err)) {
        *d->works = false;
        hearth_log(HEARTH_LOG_WARNING, "%s; the CPU goes on with its layers", err.message);
        return false;
    }
    memcpy(out, d->got, n_rows * n * sizeof *out);
    d->rows += n_rows;
    return true;
}
