// SPDX-License-Identifier: MIT
// The worker pool. One atomic store publishes a task list. A worker that is late or asleep delays nobody: a
// list is over when its tasks are done, not when every worker has seen it.
//
// `ticket` holds the list's number in its upper half and the count of tasks not yet taken in its lower half.
// A compare-and-swap takes a task and counts down. While a taken task is unfinished, the owner cannot leave
// hearth_pool_run(). So fn, arg and n_tasks are stable for every thread that has taken a task, and need not
// be atomic.
#include "base/threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/os_threads.h"

// How long an idle thread spins before it sleeps: longer than the gaps between the task lists of
// one layer, too short for a user to notice.
#define SPIN_NS    50000
#define STACK_SIZE ((size_t)1 << 20)
#define LINE       64

struct hearth_pool {
    // Every thread that takes or ends a task writes these: each has a cache line of its own.
    _Alignas(LINE) _Atomic uint64_t ticket;
    _Alignas(LINE) _Atomic uint32_t done; // tasks of this list that are finished

    _Alignas(LINE) hearth_task_fn fn;
    void *arg;
    uint32_t n_tasks;
    uint32_t list; // number of the last list

    _Alignas(LINE) _Atomic uint32_t sleepers; // workers asleep, or about to be
    _Atomic bool owner_sleeps;
    _Atomic bool quit;
    pthread_mutex_t mutex;
    pthread_cond_t news, finished;
    int n_threads, n_started;
    struct worker *workers; // [n_threads - 1]
};

struct worker {
    struct hearth_pool *pool;
    pthread_t thread;
    int index;
};

static uint32_t list_of(uint64_t ticket)
{
    return (uint32_t)(ticket >> 32);
}

static uint32_t left_of(uint64_t ticket)
{
    return (uint32_t)ticket;
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Takes tasks of the current list until none are left. Returns how many this thread ran.
static uint32_t work(struct hearth_pool *p, int index)
{
    uint32_t n = 0;
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    while (left_of(t) > 0) {
        if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t - 1, memory_order_acquire,
                                                   memory_order_acquire))
            continue;
        p->fn(p->arg, (int)(p->n_tasks - left_of(t)), index);
        n++;
        t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    }
    return n;
}

void hearth_pool_run(struct hearth_pool *p, hearth_task_fn fn, void *arg, int n_tasks)
{
    if (n_tasks <= 1 || p->n_threads == 1) {
        for (int i = 0; i < n_tasks; i++)
            fn(arg, i, 0);
        return;
    }
    assert(left_of(atomic_load(&p->ticket)) == 0); // a task may not start a list of the same pool
    p->fn = fn;
    p->arg = arg;
    p->n_tasks = (uint32_t)n_tasks;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    // Sequentially consistent on both sides: either this thread sees the sleeper, or the sleeper
    // sees the new list.
    atomic_store(&p->ticket, (uint64_t)++p->list << 32 | p->n_tasks);
    if (atomic_load(&p->sleepers) > 0) {
        pthread_mutex_lock(&p->mutex);
        pthread_cond_broadcast(&p->news);
        pthread_mutex_unlock(&p->mutex);
    }
    uint32_t mine = work(p, 0);
    assert(mine <= p->n_tasks);
    uint32_t others = p->n_tasks - mine;

    uint64_t start = 0;
    for (unsigned i = 1; atomic_load_explicit(&p->done, memory_order_acquire) != others; i++) {
        pause_cpu();
        if (i % 64 != 0)
            continue;
        uint64_t now = hearth_now_ns();
        if (!start)
            start = now;
        if (now - start < SPIN_NS)
            continue;
        pthread_mutex_lock(&p->mutex);
        atomic_store(&p->owner_sleeps, true);
        while (atomic_load(&p->done) != others)
            pthread_cond_wait(&p->finished, &p->mutex);
        atomic_store(&p->owner_sleeps, false);
        pthread_mutex_unlock(&p->mutex);
    }
    assert(left_of(atomic_load(&p->ticket)) == 0);
}

void hearth_pool_relax(unsigned *turns)
{
    if (++*turns < 4096)
        pause_cpu();
    else
        hearth_sleep_ns(20000);
}

// Waits for a list other than `seen`: first spinning, then asleep. False when the pool closes.
static bool wait_for_news(struct hearth_pool *p, uint32_t seen)
{
    uint64_t start = 0;
    for (unsigned i = 1;; i++) {
        if (list_of(atomic_load_explicit(&p->ticket, memory_order_relaxed)) != seen)
            return true;
        if (atomic_load_explicit(&p->quit, memory_order_relaxed))
            return false;
        pause_cpu();
        if (i % 64 != 0)
            continue;
        uint64_t now = hearth_now_ns();
        if (!start)
            start = now;
        if (now - start >= SPIN_NS)
            break;
    }
    pthread_mutex_lock(&p->mutex);
    atomic_fetch_add(&p->sleepers, 1);
    while (list_of(atomic_load(&p->ticket)) == seen && !atomic_load(&p->quit))
        pthread_cond_wait(&p->news, &p->mutex);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->mutex);
    return !atomic_load(&p->quit);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct hearth_pool *p = w->pool;
    uint32_t seen = 0; // lists count from 1
    while (wait_for_news(p, seen)) {
        seen = list_of(atomic_load(&p->ticket));
        uint32_t n = work(p, w->index);
        if (n == 0)
            continue;
        // After this the owner may publish another list. Only the pool itself may still be touched.
        atomic_fetch_add(&p->done, n);
        if (atomic_load(&p->owner_sleeps)) {
            pthread_mutex_lock(&p->mutex);
            pthread_cond_signal(&p->finished);
            pthread_mutex_unlock(&p->mutex);
        }
    }
    return NULL;
}

static int start_workers(struct hearth_pool *p)
{
    int rc = 0;
    for (int i = 1; i < p->n_threads && !rc; i++) {
        struct worker *w = &p->workers[i - 1];
        w->pool = p;
        w->index = i;
        rc = hearth_thread_start(&w->thread, STACK_SIZE, worker_main, w);
        if (!rc)
            p->n_started++;
    }
    return rc;
}

int hearth_pool_open(struct hearth_pool **out, int n_threads, struct hearth_error *err)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > HEARTH_POOL_MOST)
        return hearth_fail_param(err, HEARTH_E_INVALID, "n_threads", "n_threads is %d: it must be 1 to %d",
                                 n_threads, HEARTH_POOL_MOST);
    struct hearth_pool *p = hearth_aligned_alloc(LINE, hearth_round_up(sizeof *p, LINE));
    struct worker *workers = hearth_calloc((size_t)n_threads, sizeof *workers);
    if (!p || !workers) {
        hearth_aligned_free(p);
        free(workers);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for %d threads", n_threads);
    }
    *p = (struct hearth_pool){.n_threads = n_threads, .workers = workers};
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->news, NULL);
    pthread_cond_init(&p->finished, NULL);
    int rc = start_workers(p);
    if (rc) {
        hearth_pool_close(&p);
        hearth_fail_errno(err, rc, "cannot start %d threads, a smaller n_threads may do", n_threads);
        if (err)
            err->param = "n_threads";
        return HEARTH_E_IO;
    }
    *out = p;
    return HEARTH_OK;
}

void hearth_pool_close(struct hearth_pool **pool)
{
    struct hearth_pool *p = *pool;
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    atomic_store(&p->quit, true);
    pthread_cond_broadcast(&p->news);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < p->n_started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->news);
    pthread_cond_destroy(&p->finished);
    pthread_mutex_destroy(&p->mutex);
    free(p->workers);
    hearth_aligned_free(p);
    *pool = NULL;
}

int hearth_pool_size(const struct hearth_pool *p)
{
    return p->n_threads;
}

// ---- locks

// Who drops it hands it to somebody who waits: a thread that takes it again at once would keep others out.
struct hearth_lock {
    pthread_mutex_t mutex; // protects the fields below
    pthread_cond_t handed;
    bool taken, given; // `given`: to one of those who wait, who has not noticed yet
    int n_waiting;
};

struct hearth_lock *hearth_lock_open(void)
{
    struct hearth_lock *lock = hearth_calloc(1, sizeof *lock);
    if (!lock)
        return NULL;
    pthread_mutex_init(&lock->mutex, NULL);
    hearth_condition_open(&lock->handed);
    return lock;
}

void hearth_lock_close(struct hearth_lock **lock)
{
    if (!*lock)
        return;
    pthread_cond_destroy(&(*lock)->handed);
    pthread_mutex_destroy(&(*lock)->mutex);
    free(*lock);
    *lock = NULL;
}

// `until` 0: however long it takes.
static bool take_until(struct hearth_lock *lock, uint64_t until)
{
    pthread_mutex_lock(&lock->mutex);
    bool mine = !lock->taken;
    if (!mine) {
        bool late = false;
        lock->n_waiting++;
        do // whoever it has been given to, it is not this thread
            if (until)
                late = !hearth_condition_wait_until(&lock->handed, &lock->mutex, until);
            else
                pthread_cond_wait(&lock->handed, &lock->mutex);
        while (!lock->given && !late);
        lock->n_waiting--;
        mine = lock->given;
        lock->given = false;
    }
    lock->taken |= mine;
    pthread_mutex_unlock(&lock->mutex);
    return mine;
}

void hearth_lock_take(struct hearth_lock *lock)
{
    take_until(lock, 0);
}

bool hearth_lock_take_within(struct hearth_lock *lock, uint64_t ns)
{
    return take_until(lock, hearth_now_ns() + ns);
}

void hearth_lock_drop(struct hearth_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    lock->given = lock->taken = lock->n_waiting > 0;
    if (lock->given)
        pthread_cond_signal(&lock->handed);
    pthread_mutex_unlock(&lock->mutex);
}

static pthread_mutex_t process_mutex = PTHREAD_MUTEX_INITIALIZER;

void hearth_process_lock_take(void)
{
    pthread_mutex_lock(&process_mutex);
}

void hearth_process_lock_drop(void)
{
    pthread_mutex_unlock(&process_mutex);
}

int hearth_pool_threads_of(int asked, int cores)
{
    return asked > 0 ? asked : cores < HEARTH_POOL_MOST ? cores : HEARTH_POOL_MOST;
}

int hearth_pool_threads(int asked)
{
    return asked > 0 ? asked : hearth_pool_threads_of(asked, hearth_cpu_count());
}
