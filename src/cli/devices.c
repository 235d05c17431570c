// SPDX-License-Identifier: MIT
// Devices as the program's options name them: see devices.h.
#include "cli/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

#define ALL (-1)

// Layers of --gpu-layers; ALL where it is not given. False: it is no number.
static bool layers_of(const struct hearth_options *o, long *layers)
{
    char *end;
    *layers = ALL;
    if (!o->gpu_layers || !strcmp(o->gpu_layers, "all") || !strcmp(o->gpu_layers, "auto"))
        return true;
    *layers = strtol(o->gpu_layers, &end, 10);
    if (*layers < 0) // as in llama.cpp
        *layers = ALL;
    return *o->gpu_layers && !*end && *layers <= 1000000;
}

int hearth_cli_check_device(const struct hearth_options *o)
{
    long layers;
    if (!layers_of(o, &layers))
        return hearth_cli_usage(NULL, "--gpu-layers %s: give a number of layers, or all", o->gpu_layers);
    if (o->op_offload && o->no_op_offload)
        return hearth_cli_usage(NULL, "--op-offload and --no-op-offload exclude each other");
    if (o->device && !*o->device)
        return hearth_cli_usage(NULL,
                                "--device: give the number or name of a device; hearth devices lists them");
    return HEARTH_EXIT_OK;
}

// Number of the first device that computes on the CPU, or of the first one that does not; -1: there is none.
static int first_device(bool is_cpu)
{
    struct hearth_device d;
    const int n = hearth_device_at(-1, &d, sizeof d);
    for (int i = 0; i < n; i++)
        if (hearth_device_at(i, &d, sizeof d) > i && (bool)d.is_cpu == is_cpu)
            return i;
    return -1;
}

static void say_no_gpu(const char *option)
{
    char other[60] = "";
    const int cpu = first_device(true);
    if (cpu >= 0)
        snprintf(other, sizeof other, "; only one that computes on the CPU: --device %d", cpu);
    hearth_cli_info("without effect here: %s (there is no GPU with a driver of OpenCL or CUDA%s)", option,
                    other);
}

void hearth_cli_choose_device(const struct hearth_options *o, struct hearth_session_params *params)
{
    static char number[16];
    long layers;
    if (!layers_of(o, &layers) || layers == 0 || (o->device && !strcmp(o->device, "none")))
        return;
    if (!o->device && !o->gpu_layers && !o->vram)
        return;
    if (!o->device) {
        const int gpu = first_device(false);
        if (gpu < 0) {
            say_no_gpu(o->vram ? "--vram" : "--gpu-layers");
            return;
        }
        snprintf(number, sizeof number, "%d", gpu);
    }
    params->device = o->device ? o->device : number;
    params->vram = o->vram;
    params->device_layers = layers == ALL ? 0 : (int)layers;
    params->device_inexact = o->device_inexact;
    params->device_prompts = o->op_offload      ? HEARTH_DEVICE_PROMPTS_ALWAYS
                             : o->no_op_offload ? HEARTH_DEVICE_PROMPTS_NEVER
                                                : HEARTH_DEVICE_PROMPTS_AUTO;
}

static bool is_cpu(const char *name)
{
    struct hearth_device d;
    const int n = hearth_device_at(-1, &d, sizeof d);
    for (int i = 0; i < n; i++)
        if (hearth_device_at(i, &d, sizeof d) > i && !strcmp(d.name, name))
            return d.is_cpu;
    return false;
}

void hearth_cli_tell_device(const struct hearth_session *session)
{
    struct hearth_device_stats d;
    char bytes[32];
    hearth_session_device_stats(session, &d, sizeof d);
    if (!d.name)
        return;
    char hot[60] = "";
    if (d.neurons)
        snprintf(hot, sizeof hot, ", %llu hot neurons of the others", (unsigned long long)d.neurons);
    if (d.experts)
        snprintf(hot, sizeof hot, ", %llu hot experts", (unsigned long long)d.experts);
    hearth_cli_format_bytes(bytes, sizeof bytes, d.bytes);
    hearth_cli_info("%s: %d layer%s%s%s, %s", d.name, d.layers, d.layers == 1 ? "" : "s",
                    d.head ? " and the head" : "", hot, bytes);
    if (is_cpu(d.name))
        hearth_cli_info("%s computes on the CPU, and many times slower than hearth does without --device",
                        d.name);
}

void hearth_cli_print_devices(void)
{
    struct hearth_device d;
    const int n = hearth_device_at(-1, &d, sizeof d);
    printf("devices: ");
    for (int i = 0; i < n; i++)
        if (hearth_device_at(i, &d, sizeof d) > i)
            printf("%s%s, %s", i ? "; " : "", d.name, d.backend);
    printf(n ? "\n" : "none\n");
}
