// SPDX-License-Identifier: MIT
// How much of a device's memory may be used.
#include "base/free_memory.h"
#include "engine/offload.h"

uint64_t hearth_offload_vram(const struct hearth_accel_info *device, uint64_t unused, uint64_t ram)
{
    const uint64_t bytes = unused / 10 * 9;
    return device->shares_memory && ram / 2 < bytes ? ram / 2 : bytes;
}

uint64_t hearth_offload_given_vram(const struct hearth_offload_params *p, int i)
{
    return p->n_vrams ? p->vrams[i] : p->vram;
}

void hearth_offload_choose_vram(struct hearth_offload *first, const struct hearth_offload_params *p)
{
    uint64_t sharing = 0;
    for (struct hearth_offload *o = first; o; o = o->next)
        sharing += hearth_accel_describe(o->a)->shares_memory;
    int i = 0;
    for (struct hearth_offload *o = first; o; o = o->next, i++) {
        const struct hearth_accel_info *info = hearth_accel_describe(o->a);
        const uint64_t given = hearth_offload_given_vram(p, i);
        uint64_t same = 0;
        for (const struct hearth_offload *k = first; k; k = k->next)
            same += hearth_accel_describe(k->a)->backend == info->backend &&
                    hearth_accel_describe(k->a)->index == info->index;
        const uint64_t chosen =
            hearth_offload_vram(info, hearth_accel_free_memory(o->a) / same,
                                hearth_free_memory("", true).bytes / (sharing ? sharing : 1));
        o->vram = given ? given : chosen;
        o->vram = o->vram < info->memory ? o->vram : info->memory;
    }
}
