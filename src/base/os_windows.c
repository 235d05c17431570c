// SPDX-License-Identifier: MIT
// Windows: memory, processors, clocks, numbers.
#include "base/os.h"
#include "base/os_windows.h"

#include <bcrypt.h>
#include <io.h>
#include <fcntl.h>
#include <locale.h>
#include <malloc.h>
#include <psapi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- memory

void *hearth_aligned_alloc(size_t align, size_t size)
{
    return _aligned_malloc(size, align);
}

void hearth_aligned_free(void *p)
{
    _aligned_free(p);
}

// No large pages: they take what they are made of at once, and what is lent or grows is to take nothing before it is used.
void *hearth_os_map(size_t size)
{
    return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void hearth_os_unmap(void *p, size_t size)
{
    (void)size;
    (void)VirtualFree(p, 0, MEM_RELEASE);
}

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

void hearth_memory_trim(void)
{
    (void)_heapmin();
}

void hearth_os_discard(void *p, size_t size)
{
    const size_t page = hearth_os_page(), skip = (size_t) - (uintptr_t)p & (page - 1);
    const size_t whole = size > skip ? (size - skip) & ~(page - 1) : 0;
    char *at = (char *)p + skip;
    if (!whole)
        return;
    // Where the system does not take it back, what is there must be zeros all the same.
    if (!VirtualFree(at, whole, MEM_DECOMMIT) || !VirtualAlloc(at, whole, MEM_COMMIT, PAGE_READWRITE))
        memset(at, 0, whole);
}

void hearth_os_guard(void *p, size_t size)
{
    DWORD before;
    (void)VirtualProtect(p, size, PAGE_NOACCESS, &before);
}

size_t hearth_os_page(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

// ---- clocks

uint64_t hearth_now_ns(void)
{
    LARGE_INTEGER now, rate;
    QueryPerformanceFrequency(&rate);
    QueryPerformanceCounter(&now);
    const uint64_t ticks = (uint64_t)now.QuadPart, second = (uint64_t)rate.QuadPart;
    return ticks / second * 1000000000u + ticks % second * 1000000000u / second;
}

static uint64_t ns_of(const FILETIME *t) // of 100 ns
{
    return ((uint64_t)t->dwHighDateTime << 32 | t->dwLowDateTime) * 100;
}

uint64_t hearth_cpu_ns(void)
{
    FILETIME began, ended, kernel, user;
    if (!GetProcessTimes(GetCurrentProcess(), &began, &ended, &kernel, &user))
        return 0;
    return ns_of(&kernel) + ns_of(&user);
}

// A timer is exact to half a millisecond, Sleep() to fifteen.
void hearth_sleep_ns(uint64_t ns)
{
    const DWORD high_resolution = 2; // CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, since 2018
    HANDLE timer = CreateWaitableTimerExW(NULL, NULL, high_resolution, TIMER_ALL_ACCESS);
    const LARGE_INTEGER due = {.QuadPart = -(LONGLONG)(ns / 100 ? ns / 100 : 1)};
    if (timer && SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE))
        WaitForSingleObject(timer, INFINITE);
    else
        Sleep((DWORD)((ns + 999999) / 1000000));
    if (timer)
        CloseHandle(timer);
}

bool hearth_calendar(int64_t seconds, bool here, struct tm *out)
{
    const __time64_t time = seconds;
    return !(here ? _localtime64_s(out, &time) : _gmtime64_s(out, &time));
}

uint64_t hearth_random_u64(void)
{
    uint64_t r = 0;
    if (BCryptGenRandom(NULL, (UCHAR *)&r, sizeof r, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0)
        return r;
    // Clock and address, mixed by the finaliser of splitmix64.
    r = hearth_now_ns() ^ (uint64_t)(uintptr_t)&r ^ (uint64_t)GetCurrentProcessId() << 32;
    r = (r ^ r >> 30) * 0xbf58476d1ce4e5b9u;
    r = (r ^ r >> 27) * 0x94d049bb133111ebu;
    return r ^ r >> 31;
}

// ---- processors

int hearth_os_fast_processors(const char *folder)
{
    (void)folder;
    return 0;
}

// Cores that this process may use, of the fastest kind that there is.
static int count_cores(const char *at, const char *end)
{
    DWORD_PTR process = 0, all = 0;
    int n = 0, best = -1;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &process, &all) || !process)
        process = (DWORD_PTR)-1; // on machines with several groups of processors
    while (at < end) {
        const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *x = (const void *)at;
        const PROCESSOR_RELATIONSHIP *core = &x->Processor;
        at += x->Size;
        if (core->GroupMask[0].Group == 0 && !(core->GroupMask[0].Mask & process))
            continue;
        n = core->EfficiencyClass > best ? 1 : n + (core->EfficiencyClass == best);
        best = core->EfficiencyClass > best ? core->EfficiencyClass : best;
    }
    return n;
}

int hearth_cpu_count(void)
{
    DWORD size = 0;
    (void)GetLogicalProcessorInformationEx(RelationProcessorCore, NULL, &size);
    char *info = size ? malloc(size) : NULL;
    int n = 0;
    if (info && GetLogicalProcessorInformationEx(RelationProcessorCore, (void *)info, &size))
        n = count_cores(info, info + size);
    free(info);
    if (n <= 0) {
        SYSTEM_INFO machine;
        GetSystemInfo(&machine);
        n = (int)machine.dwNumberOfProcessors;
    }
    return n > 0 ? n : 1;
}

uint64_t hearth_cache_total(void)
{
    DWORD size = 0;
    (void)GetLogicalProcessorInformationEx(RelationCache, NULL, &size);
    char *info = size ? malloc(size) : NULL;
    uint64_t bytes = 0;
    if (info && GetLogicalProcessorInformationEx(RelationCache, (void *)info, &size))
        for (const char *at = info; at < info + size;) {
            const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *x = (const void *)at;
            bytes += x->Cache.Level == 3 ? x->Cache.CacheSize : 0;
            at += x->Size;
        }
    free(info);
    return bytes;
}

bool hearth_system_busy(uint64_t *ns, int *n_processors)
{
    FILETIME idle, kernel, user; // kernel: with what is idle
    SYSTEM_INFO machine;
    *ns = 0;
    *n_processors = 0;
    if (!GetSystemTimes(&idle, &kernel, &user))
        return false;
    GetSystemInfo(&machine);
    *ns = ns_of(&kernel) + ns_of(&user) - ns_of(&idle);
    *n_processors = (int)machine.dwNumberOfProcessors;
    return *ns && *n_processors;
}

// ---- how much memory

uint64_t hearth_memory_total(void)
{
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

static PROCESS_MEMORY_COUNTERS counters(void)
{
    PROCESS_MEMORY_COUNTERS c = {.cb = sizeof c};
    if (!GetProcessMemoryInfo(GetCurrentProcess(), &c, sizeof c))
        c = (PROCESS_MEMORY_COUNTERS){0};
    return c;
}

uint64_t hearth_memory_peak(void)
{
    return counters().PeakWorkingSetSize;
}

// The system counts the program's own pages here, too.
uint64_t hearth_memory_private(void)
{
    return counters().WorkingSetSize;
}

uint64_t hearth_memory_files(void)
{
    return 0;
}

// ---- numbers

static pthread_once_t plain_once = PTHREAD_ONCE_INIT;
static _locale_t plain; // of the whole process: nobody frees it

static void make_plain(void)
{
    plain = _create_locale(LC_ALL, "C");
}

double hearth_strtod(const char *text, char **end)
{
    pthread_once(&plain_once, make_plain);
    return _strtod_l(text, end, plain);
}

static int print_plainly(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = _vscprintf_l(fmt, plain, args);
    va_end(args);
    va_start(args, fmt);
    if (size)
        (void)_vsnprintf_l(out, size - 1, fmt, plain, args);
    va_end(args);
    if (size)
        out[n >= 0 && (size_t)n < size ? (size_t)n : size - 1] = '\0';
    return n;
}

int hearth_print_number(char *out, size_t size, char form, int precision, double x)
{
    pthread_once(&plain_once, make_plain);
    return form == 'e'   ? print_plainly(out, size, "%.*e", precision, x)
           : form == 'f' ? print_plainly(out, size, "%.*f", precision, x)
                         : print_plainly(out, size, "%.*g", precision, x);
}

// ---- the program

// The C library would end the program where a function gets what it cannot do with, such as a format for dates.
static void go_on(const wchar_t *expression, const wchar_t *function, const wchar_t *file, unsigned line,
                  uintptr_t unused)
{
    (void)expression, (void)function, (void)file, (void)line, (void)unused;
}

// A stream that is closed gets a descriptor that neither can be read nor be written.
void hearth_os_guard_standard_files(void)
{
    (void)_set_invalid_parameter_handler(go_on);
    for (int fd = 0; fd <= 2; fd++)
        if (_get_osfhandle(fd) == -1)
            (void)_open("NUL", fd == 0 ? _O_WRONLY : _O_RDONLY);
}
