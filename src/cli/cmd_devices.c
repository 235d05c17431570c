// SPDX-License-Identifier: MIT
// hearth devices.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/json.h"
#include "hearth.h"

static json_t *device_json(int i, const struct hearth_device *d)
{
    return json_pack("{s:i, s:o, s:s, s:o, s:I, s:i, s:b, s:b}", "number", i, "name",
                     hearth_json_string(d->name, strlen(d->name)), "backend", d->backend, "driver",
                     hearth_json_string(d->driver, strlen(d->driver)), "memory_bytes",
                     (json_int_t)d->memory_bytes, "units", (int)d->units, "is_cpu", d->is_cpu, "exact",
                     d->exact);
}

int hearth_cmd_devices(const struct hearth_options *o)
{
    struct hearth_device d;
    const int n = hearth_device_at(-1, &d, sizeof d);
    json_t *list = o->json ? json_array() : NULL;
    for (int i = 0; i < n; i++) {
        char bytes[32];
        if (hearth_device_at(i, &d, sizeof d) <= i)
            break;
        hearth_cli_format_bytes(bytes, sizeof bytes, d.memory_bytes);
        if (o->json)
            json_array_append_new(list, device_json(i, &d));
        else
            printf("%d  %s: %s, %s, %u compute units%s%s\n", i, d.name, d.backend, bytes, d.units,
                   d.is_cpu ? ", computes on the CPU" : "",
                   d.exact ? "" : "; other bits than the CPU: --device-inexact");
    }
    if (o->json)
        return hearth_json_answer(list);
    if (!n)
        hearth_cli_info("there is no device: no driver of OpenCL or CUDA names one");
    return HEARTH_EXIT_OK;
}
