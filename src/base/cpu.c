// SPDX-License-Identifier: MIT
// CPU features: levels of instructions, from the table of the processor that this was built for.
#include "base/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/cpu_levels.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint detected;
static char brand[64] = "unknown";

static void detect(void)
{
    unsigned flags = 0;
    for (size_t i = 0; hearth_cpu_levels[i].name; i++) {
        const struct hearth_cpu_level *level = &hearth_cpu_levels[i];
        if (!(level->needs & ~flags) && level->detect())
            flags |= 1u << i;
    }
    atomic_store(&detected, flags);
    hearth_cpu_read_brand(brand, sizeof brand);
}

unsigned hearth_cpu_flags(void)
{
    pthread_once(&once, detect);
    return atomic_load(&detected);
}

void hearth_cpu_distrust(unsigned flags)
{
    pthread_once(&once, detect);
    atomic_fetch_and(&detected, ~flags);
}

const char *hearth_cpu_brand(void)
{
    pthread_once(&once, detect);
    return brand;
}

const char *hearth_cpu_level(size_t i)
{
    return i == 0 ? "c" : hearth_cpu_levels[i - 1].name;
}

bool hearth_cpu_limit(const char *level, unsigned *flags)
{
    const unsigned have = hearth_cpu_flags();
    if (!level) {
        *flags = have;
        return true;
    }
    for (size_t i = 0; hearth_cpu_level(i); i++) {
        const unsigned up_to = (1u << i) - 1; // levels 1 to i have bits 0 to i - 1
        if (strcmp(level, hearth_cpu_level(i)) != 0)
            continue;
        if (i > 0 && !(have & 1u << (i - 1)))
            return false;
        *flags = have & up_to;
        return true;
    }
    return false;
}

const char *hearth_cpu_level_name(unsigned flags)
{
    const char *name = "c";
    for (size_t i = 1; hearth_cpu_level(i); i++)
        if (flags & 1u << (i - 1))
            name = hearth_cpu_level(i);
    return name;
}
