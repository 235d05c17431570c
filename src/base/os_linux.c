// SPDX-License-Identifier: MIT
// Linux, and Android: memory, processors, and what /proc and /sys say of the machine and of this process.
#include "base/os.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#ifdef HEARTH_HAVE_HWLOC
#include <hwloc.h>
#endif

// ---- memory

void hearth_os_advise_huge(void *p, size_t size)
{
    (void)madvise(p, size, MADV_HUGEPAGE);
}

void hearth_os_advise_small(void *p, size_t size)
{
    (void)madvise(p, size, MADV_NOHUGEPAGE);
}

void hearth_memory_trim(void)
{
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}

void hearth_os_discard(void *p, size_t size)
{
    const size_t page = hearth_os_page(), skip = (size_t) - (uintptr_t)p & (page - 1);
    if (size > skip)
        (void)madvise((char *)p + skip, (size - skip) & ~(page - 1), MADV_DONTNEED);
}

// ---- processors

// Processors in the process's affinity mask.
static int count_allowed(void)
{
    cpu_set_t small;
    if (sched_getaffinity(0, sizeof small, &small) == 0)
        return CPU_COUNT(&small);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

#ifdef HEARTH_HAVE_HWLOC
static int load_cores(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return 0;
    // Only cores are needed. Filtering out caches and the rest makes loading several times faster.
    (void)hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    (void)hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    int n = 0;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (allowed && hwloc_topology_load(topology) == 0) {
        if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) != 0)
            hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(topology));
        for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core));)
            n += hwloc_bitmap_intersects(core->cpuset, allowed);
    }
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
    return n;
}

// Physical cores with at least one hardware thread that the process may use; 0 when hwloc cannot tell. That takes a
// millisecond and reads a hundred files, and a run asks thirty times: what was found is known until it may use others.
static int count_cores(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static cpu_set_t known;
    static int n = -1;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return load_cores();
    pthread_mutex_lock(&mutex);
    if (n < 0 || !CPU_EQUAL(&allowed, &known)) {
        n = load_cores();
        known = allowed;
    }
    const int cores = n;
    pthread_mutex_unlock(&mutex);
    return cores;
}

static uint64_t cache_total;

static void load_caches(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return;
    (void)hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    (void)hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(topology) == 0) {
        hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology);
        for (int depth = 0; depth < hwloc_topology_get_depth(topology) && !cache_total; depth++)
            for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_depth(topology, depth, o));)
                if (hwloc_obj_type_is_cache(o->type) && hwloc_bitmap_intersects(o->cpuset, allowed))
                    cache_total += o->attr->cache.size;
    }
    hwloc_topology_destroy(topology);
}

uint64_t hearth_cache_total(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_caches);
    return cache_total;
}
#else
static int count_cores(void)
{
    return 0;
}

uint64_t hearth_cache_total(void)
{
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (uint64_t)bytes : 0;
#else
    return 0;
#endif
}
#endif

// Whole processors that the CPU quota of the control group allows ("cpu.max" of cgroup v2: "max 100000" or
// "200000 100000"). More threads would only wait for each other. INT32_MAX without a quota.
static int count_quota(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    long long quota = 0, period = 0;
    int n = INT32_MAX;
    if (file && fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
        long long whole = (quota + period - 1) / period;
        n = whole < INT32_MAX ? (int)whole : INT32_MAX;
    }
    if (file)
        fclose(file);
    return n;
}

int hearth_os_fast_processors(const char *folder)
{
    int n = 0;
    unsigned capacity[CPU_SETSIZE] = {0}, most = 0;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[256];
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        snprintf(path, sizeof path, "%s/cpu%zu/cpu_capacity", folder, cpu);
        FILE *file = fopen(path, "re");
        const bool known = file && fscanf(file, "%u", &capacity[cpu]) == 1;
        if (file)
            fclose(file);
        if (!known)
            return 0;
        most = capacity[cpu] > most ? capacity[cpu] : most;
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        n += capacity[cpu] > most / 2;
    return n;
}

int hearth_cpu_count(void)
{
    int allowed = count_allowed(), cores = count_cores(), quota = count_quota();
    int n = cores > 0 && cores < allowed ? cores : allowed;
    const int fast = hearth_os_fast_processors("/sys/devices/system/cpu");
    if (fast > 0 && fast < n)
        n = fast;
    if (quota < n)
        n = quota;
    return n > 0 ? n : 1;
}

uint64_t hearth_memory_total(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

uint64_t hearth_memory_peak(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (uint64_t)usage.ru_maxrss * 1024;
}

// Bytes of a line of this process's status, such as "RssAnon"; 0: it has none.
static uint64_t status_bytes(const char *name)
{
    uint64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    const size_t n = strlen(name);
    char line[256];
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, n) && line[n] == ':')
            kib = strtoull(line + n + 1, NULL, 10);
    if (f)
        fclose(f);
    return kib * 1024;
}

uint64_t hearth_memory_private(void)
{
    const uint64_t bytes = status_bytes("RssAnon");
    return bytes ? bytes : hearth_memory_peak();
}

uint64_t hearth_memory_files(void)
{
    return status_bytes("RssFile");
}

bool hearth_system_busy(uint64_t *ns, int *n_processors)
{
    *ns = 0;
    *n_processors = 0;
    FILE *f = fopen("/proc/stat", "re");
    unsigned long long user, nice, kernel, idle, wait, irq, soft, stolen;
    char line[512];
    while (f && fgets(line, sizeof line, f) && !strncmp(line, "cpu", 3)) {
        *n_processors += line[3] != ' ';
        if (line[3] == ' ' && sscanf(line + 3, "%llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice,
                                     &kernel, &idle, &wait, &irq, &soft, &stolen) == 8)
            *ns = (user + nice + kernel + irq + soft + stolen) *
                  (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
    }
    if (f)
        fclose(f);
    return *ns && *n_processors;
}
