// SPDX-License-Identifier: MIT
// The lowest room: errors, memory, the worker pool, the CPU. Built with ThreadSanitizer, the pool's
// tests are also a proof of its synchronisation.
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/os_threads.h"
#include "base/poison.h"
#include "base/threads.h"

static struct hearth_error err;

// ---- checksums

static void test_crc32c(void **state)
{
    (void)state;
    // The check value of the catalogues, and RFC 3720, appendix B.4.
    uint8_t bytes[300];
    assert_int_equal(hearth_crc32c(0, "123456789", 9), 0xe3069283u);
    memset(bytes, 0, 32);
    assert_int_equal(hearth_crc32c(0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(hearth_crc32c(0, bytes, 32), 0x62a8ab43u);
    for (size_t i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(hearth_crc32c(0, bytes, 32), 0x46dd794eu);

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i * 31 + i / 7);
    for (size_t from = 0; from < 9; from++)
        for (size_t n = 0; n + from <= sizeof bytes; n++) {
            const uint32_t whole = hearth_crc32c_table(0, bytes + from, n);
            assert_int_equal(hearth_crc32c(0, bytes + from, n), whole);
            const size_t half = n / 3;
            assert_int_equal(
                hearth_crc32c(hearth_crc32c(0, bytes + from, half), bytes + from + half, n - half), whole);
        }
}

// ---- errors and log

static void test_errors(void **state)
{
    (void)state;
    assert_int_equal(hearth_fail(&err, HEARTH_E_BUDGET, "%s needs %d", "x", 7), HEARTH_E_BUDGET);
    assert_int_equal(err.code, HEARTH_E_BUDGET);
    assert_string_equal(err.message, "x needs 7");
    assert_int_equal(hearth_fail(NULL, HEARTH_E_IO, "nobody listens"), HEARTH_E_IO);
    assert_int_equal(hearth_fail_errno(&err, ENOENT, "%s", "file"), HEARTH_E_IO);
    assert_string_equal(err.message, "file: No such file or directory");
    char longer[2000];
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    hearth_fail_errno(&err, ENOENT, "%s", longer);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_int_equal(hearth_fail_param(&err, HEARTH_E_BUDGET, "n_ctx", "n_ctx is %d", 7), HEARTH_E_BUDGET);
    assert_string_equal(err.param, "n_ctx");
    assert_int_equal(hearth_fail_in(&err, HEARTH_E_BUDGET, "row %d", 3), HEARTH_E_BUDGET);
    assert_string_equal(err.message, "row 3: n_ctx is 7");
    assert_string_equal(err.param, "n_ctx");
    hearth_fail(&err, HEARTH_E_FORMAT, "%s", longer);
    assert_null(err.param);
    hearth_fail_in(&err, HEARTH_E_FORMAT, "%s", longer);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_memory_equal(err.message + 99, ": ", 2);
    assert_int_equal(hearth_fail_in(NULL, HEARTH_E_IO, "nobody listens"), HEARTH_E_IO);
}

// What messages quote comes from files: it must not steer a terminal, and stays valid UTF-8 when it is cut.
static void test_messages_are_printable(void **state)
{
    (void)state;
    hearth_fail(&err, HEARTH_E_FORMAT, "%s", "a\x1b[31m\x7f\r\nb\xC2\x9B\xC3\xA9\xE2\x82\xAC");
    assert_string_equal(err.message, "a?[31m???b??\xC3\xA9\xE2\x82\xAC");
    hearth_fail_errno(&err, ENOENT, "a\nb");
    assert_string_equal(err.message, "a?b: No such file or directory");
    hearth_fail(&err, HEARTH_E_FORMAT, "%s", "");
    assert_string_equal(err.message, "");
    hearth_fail(&err, HEARTH_E_FORMAT, "\xA0");
    assert_string_equal(err.message, "\xA0");
    for (size_t back = 1; back <= 3; back++) {
        char longer[600];
        const size_t cut = sizeof err.message - 1 - back;
        memset(longer, 'y', sizeof longer);
        memcpy(longer + cut, "\xF0\x9F\x94\xA5", 5);
        hearth_fail(&err, HEARTH_E_FORMAT, "%s", longer);
        assert_int_equal(strlen(err.message), cut);
    }
}

static void count_message(void *arg, enum hearth_log_level level, const char *message)
{
    *(int *)arg += level == HEARTH_LOG_WARNING && strcmp(message, "careful 5") == 0;
}

static void test_log(void **state)
{
    (void)state;
    int n = 0;
    hearth_log(HEARTH_LOG_WARNING, "dropped");
    hearth_log_set(count_message, &n);
    hearth_log(HEARTH_LOG_WARNING, "careful %d", 5);
    hearth_log_set(NULL, NULL);
    hearth_log(HEARTH_LOG_WARNING, "careful %d", 5);
    assert_int_equal(n, 1);
}

// ---- memory

static void test_checked_sizes(void **state)
{
    (void)state;
    size_t out = 7;
    assert_false(hearth_mul_size(SIZE_MAX / 2, 3, &out));
    assert_false(hearth_add_size(SIZE_MAX, 1, &out));
    assert_true(hearth_mul_size(SIZE_MAX, 1, &out) && out == SIZE_MAX);
    assert_int_equal(hearth_round_up(0, 64), 0);
    assert_int_equal(hearth_round_up(1, 64), 64);
    assert_int_equal(hearth_round_up(64, 64), 64);
    assert_null(hearth_reallocarray(NULL, SIZE_MAX / 2, 3));
    assert_null(hearth_strndup("x", SIZE_MAX));
    void *p = hearth_calloc(0, 0);
    assert_non_null(p);
    free(p);
    char *s = hearth_strndup("abcdef", 3);
    assert_string_equal(s, "abc");
    free(s);
}

// Of arrays of rows the first ones stay when the memory of the others goes back.
static void test_arena_of_rows(void **state)
{
    (void)state;
    enum { ROWS = 100, OFTEN = 3, BYTES = 5000 };
    struct hearth_arena_rows rows = {0};
    struct hearth_arena measure = {.rows = &rows};
    struct hearth_region region;
    for (int i = 0; i < 2; i++)
        assert_null(hearth_arena_take_rows(&measure, ROWS, OFTEN, BYTES));
    assert_null(hearth_arena_take_rows(&measure, OFTEN, OFTEN, BYTES));
    assert_int_equal(measure.used, 0);
    assert_true(rows.rare_bytes > (ROWS - OFTEN) * BYTES && rows.rare_bytes < 2 * (ROWS - OFTEN) * BYTES);
    assert_int_equal(hearth_region_open(&region, rows.arena.used, "rows", NULL), 0);
    rows = (struct hearth_arena_rows){.arena = {.base = region.base, .size = region.size}};
    struct hearth_arena a = {.rows = &rows};
    for (int i = 0; i < 3; i++) {
        uint8_t *p = hearth_arena_take_rows(&a, i < 2 ? ROWS : OFTEN, OFTEN, BYTES);
        assert_true(p >= (uint8_t *)region.base);
        memset(p, 7, (i < 2 ? ROWS : OFTEN) * BYTES);
    }
    assert_int_equal(rows.n, 2);
    hearth_arena_discard(&rows);
    size_t gone = 0;
    for (int i = 0; i < rows.n; i++) {
        for (int k = 1; k <= OFTEN * BYTES; k++)
            assert_int_equal(rows.rare[i].at[-k], 7);
        for (size_t k = 0; k < rows.rare[i].size; k++)
            gone += rows.rare[i].at[k] == 0;
    }
    assert_true(gone >= rows.rare_bytes);
    hearth_region_close(&region);
    // Too many are refused; without an arena for rows they come from the arena itself.
    struct hearth_arena_rows none = {0};
    struct hearth_arena huge = {.rows = &none}, plain = {0};
    assert_null(hearth_arena_take_rows(&huge, SIZE_MAX / 2, 1, 3));
    assert_true(huge.used == SIZE_MAX);
    assert_null(hearth_arena_take_rows(&plain, 10, 1, 64));
    assert_int_equal(plain.used, 640 + HEARTH_RED_ZONE);
}

// More arrays of rows than are listed: what is behind stays, which both passes know.
static void test_many_arrays_of_rows(void **state)
{
    (void)state;
    enum { ROWS = 100, OFTEN = 3, BYTES = 5000 };
    struct hearth_region region = {0};
    size_t rare_bytes = 0;
    for (int pass = 0; pass < 2; pass++) {
        struct hearth_arena_rows rows = {.arena = {.base = region.base, .size = region.size}};
        struct hearth_arena a = {.rows = &rows};
        for (int i = 0; i < 2 * HEARTH_ARENA_ROWS; i++)
            assert_int_equal(hearth_arena_take_rows(&a, ROWS, OFTEN, BYTES) != NULL, pass);
        assert_int_equal(rows.n, HEARTH_ARENA_ROWS);
        if (!pass) {
            rare_bytes = rows.rare_bytes;
            assert_int_equal(hearth_region_open(&region, rows.arena.used, "rows", NULL), 0);
        }
        assert_int_equal(rows.rare_bytes, rare_bytes);
    }
    hearth_region_close(&region);
}

static void test_arena(void **state)
{
    (void)state;
    struct hearth_arena measure = {0};
    assert_null(hearth_arena_take(&measure, 3, 5));
    assert_null(hearth_arena_take(&measure, 100, 1));
    assert_int_equal(measure.used, 64 + 128 + 2 * HEARTH_RED_ZONE);

    _Alignas(64) static uint8_t memory[192 + 2 * HEARTH_RED_ZONE];
    struct hearth_arena a = {.base = memory, .size = sizeof memory};
    assert_ptr_equal(hearth_arena_take(&a, 3, 5), memory);
    assert_ptr_equal(hearth_arena_take(&a, 100, 1), memory + 64 + HEARTH_RED_ZONE);
    assert_int_equal(a.used, measure.used);
    assert_null(hearth_arena_take(&a, 1, 1)); // full
    assert_true(a.used > a.size);             // and that can be seen

    struct hearth_arena overflow = {0};
    assert_null(hearth_arena_take(&overflow, SIZE_MAX / 2, 3));
    assert_true(overflow.used == SIZE_MAX);
    assert_null(hearth_arena_take(&overflow, 1, 1));
    assert_true(overflow.used == SIZE_MAX);
}

static void test_region(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, ((size_t)2 << 20) - 1, (size_t)2 << 20, ((size_t)5 << 20) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct hearth_region r;
        assert_int_equal(hearth_region_open(&r, sizes[i], "test", &err), 0);
        assert_int_equal((size_t)r.base % (sizes[i] >= (size_t)2 << 20 ? (size_t)2 << 20 : 4096), 0);
        uint8_t *p = r.base;
        for (size_t j = 0; j < sizes[i]; j += 1000)
            assert_int_equal(p[j], 0);
        memset(p, 0xaa, sizes[i]);
        hearth_region_close(&r);
        assert_null(r.base);
        hearth_region_close(&r); // twice is fine
    }
    struct hearth_region r;
    assert_int_equal(hearth_region_open(&r, SIZE_MAX, "the sky", &err), HEARTH_E_MEMORY);
    assert_non_null(strstr(err.message, "the sky"));
    assert_int_equal(hearth_region_open(&r, SIZE_MAX / 4, "the sea", &err), HEARTH_E_MEMORY);
    assert_non_null(strstr(err.message, "the sea"));
    hearth_region_close(&r);
}

// ---- threads

enum { MAX_TASKS = 1000 };

struct job {
    int runs[MAX_TASKS]; // plain on purpose: the pool's synchronisation is what makes this safe
    atomic_int busy[16]; // by worker
    atomic_int wrong;
    int n_tasks, n_workers, sleep_us;
    int last; // written by the owner between lists
};

static void sleep_us(int us)
{
    struct timespec ts = {us / 1000000, us % 1000000 * 1000L};
    nanosleep(&ts, NULL);
}

static void do_task(void *arg, int task, int worker)
{
    struct job *j = arg;
    if (task < 0 || task >= j->n_tasks || worker < 0 || worker >= j->n_workers || j->last != j->n_tasks) {
        atomic_fetch_add(&j->wrong, 1);
        return;
    }
    if (atomic_fetch_add(&j->busy[worker], 1) != 0) // two tasks at once under one worker's number
        atomic_fetch_add(&j->wrong, 1);
    j->runs[task]++;
    if (j->sleep_us && task % 3 == 0)
        sleep_us(j->sleep_us);
    atomic_fetch_sub(&j->busy[worker], 1);
}

static void run_job(struct hearth_pool *pool, struct job *j, int n_tasks)
{
    memset(j->runs, 0, sizeof j->runs);
    j->n_tasks = j->last = n_tasks;
    hearth_pool_run(pool, do_task, j, n_tasks);
    for (int i = 0; i < MAX_TASKS; i++)
        if (j->runs[i] != (i < n_tasks))
            fail_msg("task %d of %d ran %d times", i, n_tasks, j->runs[i]);
    assert_int_equal(atomic_load(&j->wrong), 0);
}

static void test_pool_runs_each_task_once(void **state)
{
    (void)state;
    static const int counts[] = {0, 1, 2, 3, 7, 8, 64, 1000};
    static struct job j;
    for (int n = 1; n <= 8; n++) {
        struct hearth_pool *pool;
        assert_int_equal(hearth_pool_open(&pool, n, &err), 0);
        assert_int_equal(hearth_pool_size(pool), n);
        j.n_workers = n;
        for (int round = 0; round < 100; round++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                run_job(pool, &j, counts[c]);
        hearth_pool_close(&pool);
        assert_null(pool);
        hearth_pool_close(&pool);
    }
}

// Gaps and tasks around the time that threads watch before they sleep: both kinds of sleeper are woken.
static void test_pool_wakes_sleepers(void **state)
{
    (void)state;
    static const int gaps[] = {0, 20, 45, 50, 55, 70, 200, 2000};
    static struct job j;
    for (int n = 2; n <= 4; n++) {
        struct hearth_pool *pool;
        assert_int_equal(hearth_pool_open(&pool, n, &err), 0);
        j.n_workers = n;
        for (int round = 0; round < 160; round++) {
            int gap = gaps[round % 8];
            j.sleep_us = gaps[round / 8 % 8];
            run_job(pool, &j, 2 + round % 7);
            if (gap)
                sleep_us(gap);
        }
        hearth_pool_close(&pool);
    }
    j.sleep_us = 0;
}

// Tasks that only end when all have begun: each needs a thread of its own, so every sleeper must have been
// woken.
static void meet(void *arg, int task, int worker)
{
    (void)task;
    (void)worker;
    atomic_int *present = arg;
    atomic_fetch_add(present, 1);
    for (int i = 0; i < 120000 && atomic_load(present) < 4; i++)
        sleep_us(500);
}

static void test_pool_uses_all_threads(void **state)
{
    (void)state;
    struct hearth_pool *pool;
    assert_int_equal(hearth_pool_open(&pool, 4, &err), 0);
    for (int i = 0; i < 20; i++) {
        atomic_int present = 0;
        hearth_pool_run(pool, meet, &present, 4);
        assert_int_equal(atomic_load(&present), 4);
        sleep_us(i % 2 ? 5000 : 40); // asleep, or about to be
    }
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20 && best > 1000000000u; i++) { // the machine may stand still once
        const uint64_t start = hearth_now_ns();
        atomic_int present = 0;
        hearth_pool_run(pool, meet, &present, 4);
        const uint64_t ns = hearth_now_ns() - start;
        best = ns < best ? ns : best;
    }
    assert_true(best < 5000000000u); // nobody was waited for in vain
    hearth_pool_close(&pool);
}

static void test_pools_side_by_side(void **state)
{
    (void)state;
    static struct job a, b;
    struct hearth_pool *p, *q;
    assert_int_equal(hearth_pool_open(&p, 2, &err), 0);
    assert_int_equal(hearth_pool_open(&q, 3, &err), 0);
    a.n_workers = 2;
    b.n_workers = 3;
    for (int i = 0; i < 300; i++) {
        run_job(p, &a, i % 20);
        run_job(q, &b, i % 31);
    }
    hearth_pool_close(&p);
    run_job(q, &b, 50);
    hearth_pool_close(&q);
}

static void test_pool_open_and_close(void **state)
{
    (void)state;
    struct hearth_pool *pool;
    assert_int_equal(hearth_pool_open(&pool, 0, &err), HEARTH_E_INVALID);
    assert_null(pool);
    assert_int_equal(hearth_pool_open(&pool, 257, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_pool_open(&pool, -1, &err), HEARTH_E_INVALID);
    for (int i = 0; i < 50; i++) { // closed while the workers are starting, watching or asleep
        assert_int_equal(hearth_pool_open(&pool, 1 + i % 5, &err), 0);
        sleep_us(i * 3);
        hearth_pool_close(&pool);
    }
}

// ---- machine

// ---- locks

struct taker {
    struct hearth_lock *lock;
    atomic_int turns;
    atomic_bool stop;
};

// Takes the lock again as soon as it has dropped it.
static void *take_again(void *arg)
{
    struct taker *t = arg;
    while (!atomic_load(&t->stop)) {
        hearth_lock_take(t->lock);
        atomic_fetch_add(&t->turns, 1);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        hearth_lock_drop(t->lock);
    }
    return NULL;
}

// How often of 20 times the lock comes before the other thread, which has it, has had it again.
static int count_soon(struct taker *t)
{
    int n_soon = 0, seen = atomic_load(&t->turns) - 1;
    for (int i = 0; i < 20; i++) {
        while (atomic_load(&t->turns) == seen) // then the other thread has it, for two milliseconds
            sched_yield();
        const int before = atomic_load(&t->turns);
        if (i % 2)
            hearth_lock_take(t->lock);
        else
            while (!hearth_lock_take_within(t->lock, 1000000000))
                ;
        seen = atomic_load(&t->turns);
        n_soon += seen == before;
        hearth_lock_drop(t->lock);
    }
    return n_soon;
}

static void test_lock(void **state)
{
    (void)state;
    struct taker t = {.lock = hearth_lock_open()};
    pthread_t thread;
    assert_non_null(t.lock);
    hearth_lock_take(t.lock);
    assert_int_equal(pthread_create(&thread, NULL, take_again, &t), 0);
    assert_false(hearth_lock_take_within(t.lock, 3000000)); // it is taken
    hearth_lock_drop(t.lock);
    while (!atomic_load(&t.turns))
        sched_yield();
    int most = 0;
    for (int i = 0; i < 10 && most < 10; i++) { // on a busy machine a thread may be on its way for long
        const int n_soon = count_soon(&t);
        most = n_soon > most ? n_soon : most;
    }
    assert_true(most >= 10);
    atomic_store(&t.stop, true);
    pthread_join(thread, NULL);
    assert_true(hearth_lock_take_within(t.lock, 0));
    hearth_lock_drop(t.lock);
    hearth_lock_close(&t.lock);
    assert_null(t.lock);
}

static void test_cpu(void **state)
{
    (void)state;
    unsigned all = hearth_cpu_flags(), flags = 99;
    assert_true(hearth_cpu_limit(NULL, &flags) && flags == all);
    assert_true(hearth_cpu_limit("c", &flags) && flags == 0);
    assert_string_equal(hearth_cpu_level_name(0), "c");
    flags = 99;
    assert_false(hearth_cpu_limit("sse9", &flags));
    assert_false(hearth_cpu_limit("", &flags));
    assert_int_equal(flags, 99);
    for (size_t i = 0; hearth_cpu_level(i); i++)
        if (hearth_cpu_limit(hearth_cpu_level(i), &flags)) {
            assert_int_equal(flags & ~all, 0);
            assert_string_equal(hearth_cpu_level_name(flags), hearth_cpu_level(i));
        }
    assert_true(hearth_cpu_limit(hearth_cpu_level_name(all), &flags) && flags == all);
#if defined(__x86_64__)
    if (all & HEARTH_CPU_AVX512)
        assert_true(hearth_cpu_limit("avx2", &flags) && flags == HEARTH_CPU_AVX2);
    if (all & HEARTH_CPU_AVXVNNI)
        assert_true(hearth_cpu_limit("avxvnni", &flags) && flags == (HEARTH_CPU_AVX2 | HEARTH_CPU_AVXVNNI));
#elif defined(__aarch64__)
    assert_true(all & HEARTH_CPU_NEON);
    if (all & HEARTH_CPU_I8MM)
        assert_true(hearth_cpu_limit("dotprod", &flags) && flags == (HEARTH_CPU_NEON | HEARTH_CPU_DOTPROD));
#endif
    assert_true(strlen(hearth_cpu_brand()) > 0);
    assert_ptr_equal(hearth_cpu_brand(), hearth_cpu_brand());
}

static void test_machine(void **state)
{
    (void)state;
    assert_true(hearth_memory_total() > (uint64_t)64 << 20);
    uint64_t peak = hearth_memory_peak();
    assert_true(peak > 100000);
    const uint64_t used = hearth_cpu_ns();
    assert_true(used > 0 && hearth_cpu_ns() >= used);
    uint64_t a = hearth_now_ns();
    sleep_us(2000);
    assert_in_range(hearth_now_ns() - a, 1000000, 60u * 1000000000u);
    assert_true(hearth_random_u64() != hearth_random_u64());
}

// As sched_getattr(2) has it.
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void *become_prompt(void *arg)
{
    struct scheduling *s = arg;
    const int tid = (int)syscall(SYS_gettid);
    assert_int_equal(setpriority(PRIO_PROCESS, (id_t)tid, 5), 0);
    assert_int_equal(syscall(SYS_sched_getattr, 0, &s[0], sizeof s[0], 0), 0);
    hearth_thread_wake_soon();
    assert_int_equal(syscall(SYS_sched_getattr, 0, &s[1], sizeof s[1], 0), 0);
    return NULL;
}

// A shorter slice of the same priority, where the kernel has such.
static void test_a_thread_that_wakes_soon_has_a_short_slice(void **state)
{
    (void)state;
    struct utsname system;
    struct scheduling s[2] = {{0}};
    int major = 0, minor = 0;
    pthread_t thread;
    assert_int_equal(hearth_thread_start(&thread, (size_t)1 << 18, become_prompt, s), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s[1].policy, s[0].policy);
    assert_int_equal(s[1].nice, 5);
    assert_int_equal(uname(&system), 0);
    if (sscanf(system.release, "%d.%d", &major, &minor) != 2 || major < 6 || (major == 6 && minor < 12))
        skip();
    assert_in_range(s[1].runtime, 1, 200000);
    assert_true(s[0].runtime == 0 || s[1].runtime < s[0].runtime);
}

static void test_cpu_count_follows_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    size_t first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    // A process that counts on one processor first (this test comes before all others) has all of them later.
    const pid_t child = fork();
    if (!child) {
        (void)sched_setaffinity(0, sizeof one, &one);
        const int then = hearth_cpu_count();
        (void)sched_setaffinity(0, sizeof before, &before);
        _exit(then == 1 ? hearth_cpu_count() : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    int n = hearth_cpu_count();
    assert_in_range(n, 1, CPU_COUNT(&before));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), n % 256);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(hearth_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(hearth_cpu_count(), n);
}

// The first line of a file of cache `index` of a processor. False: there is none.
static bool cache_says(size_t cpu, int index, const char *what, char *line, int size)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/cache/index%d/%s", cpu, index, what);
    FILE *f = fopen(path, "r");
    const bool ok = f && fgets(line, size, f);
    if (f)
        fclose(f);
    return ok;
}

// The largest caches, each once though several processors share it: as the kernel lists them.
static void test_cache_total(void **state)
{
    (void)state;
    static char seen[CPU_SETSIZE][64];
    size_t n_seen = 0;
    uint64_t total = 0;
    int largest = 0;
    char level[64], size[64], shared[64];
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        for (int i = 0; i < 8 && cache_says(cpu, i, "level", level, sizeof level); i++)
            largest = atoi(level) > largest ? atoi(level) : largest;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        for (int i = 0; i < 8 && cache_says(cpu, i, "level", level, sizeof level); i++) {
            bool known = atoi(level) != largest || !cache_says(cpu, i, "size", size, sizeof size) ||
                         !cache_says(cpu, i, "shared_cpu_list", shared, sizeof shared);
            for (size_t k = 0; k < n_seen && !known; k++)
                known = strcmp(seen[k], shared) == 0;
            if (known)
                continue;
            memcpy(seen[n_seen++], shared, sizeof shared);
            total += strtoull(size, NULL, 10) << (strchr(size, 'M') ? 20 : 10);
        }
    if (!hearth_cache_total() || !total)
        skip();
    assert_true(hearth_cache_total() <= total); // not all of them may be this process's
    assert_true(hearth_cache_total() >= total / n_seen);
}

static void write_capacity(const char *made, size_t cpu, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/cpu%zu", made, cpu);
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    strcat(path, "/cpu_capacity");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_fast_processors(void **state)
{
    (void)state;
    cpu_set_t allowed;
    char made[300];
    snprintf(made, sizeof made, "%s", in_folder("capacity"));
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    assert_int_equal(mkdir(made, 0700), 0);
    assert_int_equal(hearth_os_fast_processors(made), 0); // there are no files
    int fast = 0, seen = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        const bool mine = CPU_ISSET(cpu, &allowed);
        if (!mine && cpu > 64)
            continue;
        // Those that this process may not use do not count, however fast they are.
        write_capacity(made, cpu, !mine ? "4096\n" : seen == 0 ? "1024\n" : seen % 2 ? "512\n" : "800\n");
        fast += mine && seen % 2 == 0;
        seen += mine;
    }
    assert_int_equal(hearth_os_fast_processors(made), fast);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed)) {
            write_capacity(made, cpu, "fast");
            break;
        }
    assert_int_equal(hearth_os_fast_processors(made), 0); // one is not known
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[512];
        snprintf(path, sizeof path, "%s/cpu%zu/cpu_capacity", made, cpu);
        if (remove(path) == 0) {
            *strrchr(path, '/') = '\0';
            assert_int_equal(rmdir(path), 0);
        }
    }
    assert_int_equal(rmdir(made), 0);
}

static void test_discard(void **state)
{
    (void)state;
    const size_t page = hearth_os_page(), n = 4 * page;
    assert_true(page >= 4096 && (page & (page - 1)) == 0);
    uint8_t *p = hearth_os_map(n);
    assert_non_null(p);
    memset(p, 1, n);
    hearth_os_discard(p + 1, page); // no whole page
    hearth_os_discard(p + page + 1, 2 * page);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], i / page != 2);
    hearth_os_discard(p, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], 0);
    hearth_os_unmap(p, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_count_follows_affinity),
        cmocka_unit_test(test_cache_total),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_messages_are_printable),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_checked_sizes),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_of_rows),
        cmocka_unit_test(test_many_arrays_of_rows),
        cmocka_unit_test(test_region),
        cmocka_unit_test(test_crc32c),
        cmocka_unit_test(test_pool_runs_each_task_once),
        cmocka_unit_test(test_pool_wakes_sleepers),
        cmocka_unit_test(test_a_thread_that_wakes_soon_has_a_short_slice),
        cmocka_unit_test(test_pool_uses_all_threads),
        cmocka_unit_test(test_pools_side_by_side),
        cmocka_unit_test(test_pool_open_and_close),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_fast_processors),
        cmocka_unit_test(test_discard),
    };
    return cmocka_run_group_tests_name("base", tests, make_folder, remove_folder);
}
