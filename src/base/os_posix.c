// SPDX-License-Identifier: MIT
// Linux and macOS: anonymous memory, clocks, numbers. Files are in os_posix_files.c, what each system has of its own is
// in os_linux.c and os_macos.c.
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
// ---- memory

void *hearth_aligned_alloc(size_t align, size_t size)
{
    return aligned_alloc(align, size);
}

void hearth_aligned_free(void *p)
{
    free(p);
}

void *hearth_os_map(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void hearth_os_unmap(void *p, size_t size)
{
    (void)munmap(p, size);
}

void hearth_os_guard(void *p, size_t size)
{
    (void)mprotect(p, size, PROT_NONE);
}

size_t hearth_os_page(void)
{
    const long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)page : 4096;
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

void hearth_sleep_ns(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

bool hearth_calendar(int64_t seconds, bool here, struct tm *out)
{
    const time_t time = (time_t)seconds;
    return here ? localtime_r(&time, out) : gmtime_r(&time, out);
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

// ---- numbers

static pthread_once_t plain_once = PTHREAD_ONCE_INIT;
static locale_t plain; // of the whole process: nobody frees it

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

// Returns the thread's locale, to be set again.
static locale_t use_plain(void)
{
    pthread_once(&plain_once, make_plain);
    return uselocale(plain); // (locale_t)0, if it cannot be had, changes nothing
}

double hearth_strtod(const char *text, char **end)
{
    const locale_t before = use_plain();
    const double x = strtod(text, end);
    uselocale(before);
    return x;
}

int hearth_print_number(char *out, size_t size, char form, int precision, double x)
{
    const locale_t before = use_plain();
    const int n = form == 'e'   ? snprintf(out, size, "%.*e", precision, x)
                  : form == 'f' ? snprintf(out, size, "%.*f", precision, x)
                                : snprintf(out, size, "%.*g", precision, x);
    uselocale(before);
    return n;
}

void hearth_os_guard_standard_files(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

void hearth_os_arguments(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
}

extern char **environ;

char **hearth_os_environment(void)
{
    return environ;
}

const char *hearth_os_variable(const char *name)
{
    return getenv(name);
}

void hearth_os_error_text(int errno_value, char *out, size_t size)
{
#if defined(__GLIBC__) // with _GNU_SOURCE it has another function of this name
    const char *text = strerror_r(errno_value, out, size);
    if (text != out)
        snprintf(out, size, "%s", text);
#else
    if (strerror_r(errno_value, out, size))
        snprintf(out, size, "error %d", errno_value);
#endif
}
