// SPDX-License-Identifier: MIT
// The list of devices for programs: hearth_device_at().
#include <stdlib.h>
#include <string.h>

#include "accel/accel.h"
#include "base/memory.h"
#include "base/params.h"

int hearth_device_at(int index, struct hearth_device *out, size_t size)
{
    struct hearth_device device = {0};
    int n = hearth_accel_list(NULL, 0);
    if (index < 0 || index >= n)
        return n;
    struct hearth_accel_info *list = hearth_calloc((size_t)n, sizeof *list);
    const int found = list ? hearth_accel_list(list, n) : 0;
    n = found < n ? found : n;
    if (index < n) {
        const struct hearth_accel_info *at = &list[index];
        memcpy(device.name, at->name, sizeof device.name);
        memcpy(device.driver, at->driver, sizeof device.driver);
        memcpy(device.backend, at->backend, strlen(at->backend) + 1);
        device.memory_bytes = at->memory;
        device.units = at->units;
        device.is_cpu = at->is_cpu;
        device.exact = at->exact;
        hearth_params_write(out, size, &device, sizeof device);
    }
    free(list);
    return n;
}
