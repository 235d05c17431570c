// SPDX-License-Identifier: MIT
// Devices as the program's options name them: see devices.h.
#include "cli/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/cpu_experts.h"

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

static bool is_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && !strncmp(text, word, n);
}

// How many devices --device names; 0: that is known where they are listed. -1: it is no list of them.
static int count_devices(const char *text)
{
    static const char *const alone[] = {"auto", "all", "none"};
    int n = 0;
    for (size_t length;; text += length + 1) {
        length = strcspn(text, ",");
        const bool single = !n && !text[length];
        for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
            if (is_word(text, length, alone[i]))
                return single ? (i == 0 ? 1 : 0) : -1;
        if (!length || n++ == HEARTH_DEVICES_MOST)
            return -1;
        if (!text[length])
            return n;
    }
}

// Whether there is one number, or one for each device.
static int check_count(const char *option, const char *what, int given, int devices)
{
    if (!devices || !given || given == devices)
        return HEARTH_EXIT_OK;
    return hearth_cli_usage(NULL, "%s has %d %s%s, and --device %d device%s", option, given, what,
                            given == 1 ? "" : "s", devices, devices == 1 ? "" : "s");
}

// Whether the options ask for one, which may not be there.
static bool wants_device(const struct hearth_options *o, long layers)
{
    return layers != 0 && (!o->device || strcmp(o->device, "none") != 0) &&
           (o->device || o->gpu_layers || o->vram.n || o->tensor_split.n);
}

int hearth_cli_check_device(const struct hearth_options *o)
{
    long layers;
    float shares = 0;
    if (!layers_of(o, &layers))
        return hearth_cli_usage(NULL, "--gpu-layers %s: give a number of layers, or all", o->gpu_layers);
    if (o->op_offload && o->no_op_offload)
        return hearth_cli_usage(NULL, "--op-offload and --no-op-offload exclude each other");
    if (o->device && !*o->device)
        return hearth_cli_usage(NULL,
                                "--device: give the number or name of a device; hearth devices lists them");
    const int n = o->device ? count_devices(o->device) : 0;
    if (n < 0)
        return hearth_cli_usage(NULL,
                                "--device %s: give numbers or names of at most %d devices, separated by "
                                "commas; or auto, all or none alone",
                                o->device, HEARTH_DEVICES_MOST);
    for (int i = 0; i < o->tensor_split.n; i++)
        shares += o->tensor_split.values[i];
    if (o->tensor_split.n && shares <= 0)
        return hearth_cli_usage(NULL, "--tensor-split: one of its numbers must be more than 0");
    const int status = check_count("--vram", "size", o->vram.n > 1 ? o->vram.n : 0, n);
    if (status || check_count("--tensor-split", "number", o->tensor_split.n, n))
        return HEARTH_EXIT_USAGE;
    return hearth_cli_check_cpu_experts(o, wants_device(o, layers));
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
    if (!layers_of(o, &layers) || !wants_device(o, layers))
        return;
    if (!o->device) {
        const int gpu = first_device(false);
        if (gpu < 0) {
            say_no_gpu(o->vram.n ? "--vram" : o->tensor_split.n ? "--tensor-split" : "--gpu-layers");
            return;
        }
        snprintf(number, sizeof number, o->vram.n > 1 || o->tensor_split.n ? "all" : "%d", gpu);
    }
    params->device = o->device ? o->device : number;
    params->vram = o->vram.n == 1 ? o->vram.values[0] : 0;
    params->vrams = o->vram.values;
    params->n_vrams = o->vram.n > 1 ? o->vram.n : 0;
    params->device_shares = o->tensor_split.values;
    params->n_device_shares = o->tensor_split.n;
    params->device_layers = layers == ALL ? 0 : (int)layers;
    params->device_hot_percent = o->device_hot < 0 ? 0 : o->device_hot == 0 ? -1 : (int)o->device_hot;
    params->device_inexact = o->device_inexact;
    params->cpu_experts = hearth_cli_cpu_experts(o, &params->n_cpu_experts);
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

// What a device has, behind its name; returns how much of `out` is written.
static size_t tell_one(const struct hearth_device_stats *d, char *out, size_t size)
{
    char bytes[32], hot[60] = "";
    if (d->neurons)
        snprintf(hot, sizeof hot, ", %llu hot neurons of %s", (unsigned long long)d->neurons,
                 d->attention ? "these" : "the others");
    if (d->experts)
        snprintf(hot, sizeof hot, ", %llu hot experts", (unsigned long long)d->experts);
    hearth_cli_format_bytes(bytes, sizeof bytes, d->bytes);
    const int layers = d->layers + d->attention; // one of them is 0
    const int n =
        snprintf(out, size, "%s: %s%d layer%s%s%s, %s", d->name, d->attention ? "attention of " : "", layers,
                 layers == 1 ? "" : "s", d->head ? " and the head" : "", hot, bytes);
    return (size_t)n < size ? (size_t)n : size - 1;
}

void hearth_cli_tell_device(const struct hearth_session *session, const struct hearth_session_params *params)
{
    struct hearth_device_stats d;
    char line[HEARTH_DEVICES_MOST * 320];
    const char *slow = NULL; // the name of one that computes on the CPU
    size_t used = 0;
    const int n = hearth_session_device_stats_at(session, 0, &d, sizeof d);
    for (int i = 0; i < n; i++) {
        hearth_session_device_stats_at(session, i, &d, sizeof d);
        if (i)
            used += (size_t)snprintf(line + used, sizeof line - used, "; ");
        used += tell_one(&d, line + used, sizeof line - used);
        slow = !slow && is_cpu(d.name) ? d.name : slow;
    }
    if (n)
        hearth_cli_info("%s", line);
    if (n > 1 && params->device_prompts == HEARTH_DEVICE_PROMPTS_ALWAYS)
        hearth_cli_info(
            "without effect here: --op-offload (prompts pass through a device where it is the only one)");
    if (slow)
        hearth_cli_info("%s computes on the CPU, and many times slower than hearth does without --device",
                        slow);
}

void hearth_cli_backends(const struct hearth_session *session, char *out, size_t size)
{
    struct hearth_device_stats d;
    const int n = hearth_session_device_stats_at(session, 0, &d, sizeof d);
    size_t used = 0;
    snprintf(out, size, "CPU");
    for (int i = 0; i < n && used < size; i++) {
        hearth_session_device_stats_at(session, i, &d, sizeof d);
        if (!used || !strstr(out, d.backend))
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "", d.backend);
    }
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
