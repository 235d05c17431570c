// SPDX-License-Identifier: MIT
// Linux and other POSIX systems: anonymous memory, properties of the machine. Files are in os_posix_files.c.
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#if defined(__linux__)
#include <sys/syscall.h>
#endif
#ifdef HEARTH_HAVE_HWLOC
#include <hwloc.h>
#endif

// ---- memory

void *hearth_os_map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void hearth_os_unmap(void *p, size_t size)
{
    (void)munmap(p, size);
}

void hearth_os_advise_huge(void *p, size_t size)
{
#ifdef MADV_HUGEPAGE
    (void)madvise(p, size, MADV_HUGEPAGE);
#else
    (void)p;
    (void)size;
#endif
}

void hearth_os_advise_small(void *p, size_t size)
{
#ifdef MADV_NOHUGEPAGE
    (void)madvise(p, size, MADV_NOHUGEPAGE);
#else
    (void)p;
    (void)size;
#endif
}

void hearth_memory_trim(void)
{
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}

void hearth_os_discard(void *p, size_t size)
{
    (void)madvise(p, size, MADV_DONTNEED);
}

// ---- machine

uint64_t hearth_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t hearth_cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t hearth_random_u64(void)
{
    uint64_t r;
    if (getentropy(&r, sizeof r) == 0)
        return r;
    // Fallback without the system's generator: clock and address, mixed by the finaliser of splitmix64.
    r = hearth_now_ns() ^ (uint64_t)(uintptr_t)&r ^ (uint64_t)getpid() << 32;
    r = (r ^ r >> 30) * 0xbf58476d1ce4e5b9u;
    r = (r ^ r >> 27) * 0x94d049bb133111ebu;
    return r ^ r >> 31;
}

// Processors in the process's affinity mask.
static int count_allowed(void)
{
#if defined(__linux__)
    cpu_set_t small;
    if (sched_getaffinity(0, sizeof small, &small) == 0)
        return CPU_COUNT(&small);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

#ifdef HEARTH_HAVE_HWLOC
// Physical cores with at least one hardware thread that the process may use; 0 when hwloc cannot tell.
static int count_cores(void)
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
#else
static int count_cores(void)
{
    return 0;
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

int hearth_cpu_count(void)
{
    int allowed = count_allowed(), cores = count_cores(), quota = count_quota();
    int n = cores > 0 && cores < allowed ? cores : allowed;
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
#if defined(__APPLE__)
    return (uint64_t)usage.ru_maxrss;
#else
    return (uint64_t)usage.ru_maxrss * 1024;
#endif
}

uint64_t hearth_memory_private(void)
{
    uint64_t kib = 0;
#if defined(__linux__)
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long value;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %llu", &value) == 1)
            kib = value;
    if (f)
        fclose(f);
#endif
    return kib ? kib * 1024 : hearth_memory_peak();
}

void hearth_os_guard_standard_files(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

bool hearth_os_permit_amx(void)
{
#if defined(__linux__) && defined(__x86_64__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_TILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILEDATA) == 0;
#else
    return false;
#endif
}
