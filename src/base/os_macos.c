// SPDX-License-Identifier: MIT
// macOS: memory, processors, and what the mach kernel says of the machine and of this process.
#include <mach/mach.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include "base/claims.h"
#include "base/free_memory.h"
#include "base/os.h"

// The value under this name; 0: there is none.
static uint64_t value_of(const char *name)
{
    uint64_t value = 0; // the system writes four bytes or eight, the lowest first
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) ? 0 : value;
}

// ---- memory

// The system makes large pages where it sees fit.
void hearth_os_advise_huge(void *p, size_t size)
{
    (void)p;
    (void)size;
}

void hearth_os_advise_small(void *p, size_t size)
{
    (void)p;
    (void)size;
}

void hearth_memory_trim(void) {}

// MADV_DONTNEED promises no zeros here, new pages do.
void hearth_os_discard(void *p, size_t size)
{
    const size_t page = hearth_os_page(), skip = (size_t) - (uintptr_t)p & (page - 1);
    const size_t whole = size > skip ? (size - skip) & ~(page - 1) : 0;
    if (whole)
        (void)mmap((char *)p + skip, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0);
}

// ---- processors

int hearth_os_fast_processors(const char *folder)
{
    (void)folder;
    return 0;
}

// The fast cores of processors that have two kinds.
int hearth_cpu_count(void)
{
    uint64_t n = value_of("hw.perflevel0.physicalcpu");
    n = n ? n : value_of("hw.physicalcpu");
    return n > 0 && n < INT32_MAX ? (int)n : 1;
}

uint64_t hearth_cache_total(void)
{
    return value_of("hw.l3cachesize");
}

bool hearth_system_busy(uint64_t *ns, int *n_processors)
{
    natural_t n = 0;
    processor_info_array_t info = NULL;
    mach_msg_type_number_t n_info = 0;
    *ns = 0;
    *n_processors = 0;
    if (host_processor_info(mach_host_self(), PROCESSOR_CPU_LOAD_INFO, &n, &info, &n_info))
        return false;
    const long tick = sysconf(_SC_CLK_TCK);
    uint64_t ticks = 0;
    for (natural_t i = 0; i < n; i++) {
        const integer_t *of = info + i * CPU_STATE_MAX;
        ticks += (uint32_t)of[CPU_STATE_USER] + (uint64_t)(uint32_t)of[CPU_STATE_SYSTEM] +
                 (uint32_t)of[CPU_STATE_NICE];
    }
    (void)vm_deallocate(mach_task_self(), (vm_address_t)info, n_info * sizeof *info);
    *ns = ticks * (UINT64_C(1000000000) / (uint64_t)(tick > 0 ? tick : 100));
    *n_processors = (int)n;
    return *ns && n;
}

// ---- how much memory

uint64_t hearth_memory_total(void)
{
    return value_of("hw.memsize");
}

uint64_t hearth_memory_peak(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss; // in bytes here
}

// What the system holds against this process, and what of it belongs to files.
static bool look_at_task(task_vm_info_data_t *info)
{
    mach_msg_type_number_t n = TASK_VM_INFO_COUNT;
    return !task_info(mach_task_self(), TASK_VM_INFO, (task_info_t)info, &n);
}

uint64_t hearth_memory_private(void)
{
    task_vm_info_data_t info;
    return look_at_task(&info) ? info.phys_footprint : hearth_memory_peak();
}

uint64_t hearth_memory_files(void)
{
    task_vm_info_data_t info;
    return look_at_task(&info) ? info.external : 0;
}

// Free pages, and those that the system can take back without writing anything.
struct hearth_free_memory hearth_free_memory(const char *root, bool own)
{
    struct hearth_free_memory f = {UINT64_MAX, "memory"};
    vm_statistics64_data_t vm;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    (void)root;
    (void)own;
    if (!host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&vm, &n))
        f.bytes = ((uint64_t)vm.free_count + vm.external_page_count + vm.purgeable_count) * hearth_os_page();
    return f;
}

uint64_t hearth_memory_limit(const char *root)
{
    (void)root;
    return hearth_memory_total();
}

#include "base/os_no_claims_tmpl.h"
