// SPDX-License-Identifier: MIT
// Reads by a pool of threads that call pread. Works everywhere.
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "store/backend.h"

#define MAX_THREADS 16

// Both queues are rings of `cap` entries, a power of two.
struct pool {
    int fd;
    unsigned cap;
    struct hearth_attempt *todo;                     // [cap]
    struct hearth_attempt_done *done;                // [cap]
    unsigned todo_from, todo_to, done_from, done_to; // running numbers; the entry is number % cap
    unsigned given; // entries of todo before this number may start; the others wait for flush
    bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work, result;
    pthread_t threads[MAX_THREADS];
    int n_threads;
};

static void *reader(void *arg)
{
    struct pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->todo_from == p->given && !p->stop)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->todo_from == p->given)
            break;
        const struct hearth_attempt a = p->todo[p->todo_from++ % p->cap];
        pthread_mutex_unlock(&p->lock);
        const ssize_t n = pread(p->fd, a.dst, a.length, (off_t)a.offset);
        const int64_t result = n < 0 ? -errno : n;
        pthread_mutex_lock(&p->lock);
        assert(p->done_to - p->done_from < p->cap);
        p->done[p->done_to++ % p->cap] = (struct hearth_attempt_done){a.slot, result};
        pthread_cond_signal(&p->result);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void pool_close(void *state)
{
    struct pool *p = state;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->result);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->todo);
    free(p->done);
    free(p);
}

static int pool_open(void **state, const struct hearth_io_file *file, unsigned depth,
                     struct hearth_error *err)
{
    struct pool *p = hearth_calloc(1, sizeof *p);
    if (!p)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for reading");
    p->fd = (int)file->fd;
    for (p->cap = 1; p->cap < depth;)
        p->cap *= 2;
    p->todo = hearth_calloc(p->cap, sizeof *p->todo);
    p->done = hearth_calloc(p->cap, sizeof *p->done);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->result, NULL);
    const int want = depth < MAX_THREADS ? (int)depth : MAX_THREADS;
    if (p->todo && p->done)
        while (p->n_threads < want && !pthread_create(&p->threads[p->n_threads], NULL, reader, p))
            p->n_threads++;
    if (!p->n_threads) {
        pool_close(p);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for threads that read");
    }
    *state = p;
    return HEARTH_OK;
}

static void pool_add_memory(void *state, void *base, size_t size)
{
    (void)state, (void)base, (void)size;
}

static void pool_start(void *state, const struct hearth_attempt *attempt)
{
    struct pool *p = state;
    pthread_mutex_lock(&p->lock);
    assert(p->todo_to - p->todo_from < p->cap);
    p->todo[p->todo_to++ % p->cap] = *attempt;
    pthread_mutex_unlock(&p->lock);
}

static void pool_flush(void *state)
{
    struct pool *p = state;
    pthread_mutex_lock(&p->lock);
    const unsigned n = p->todo_to - p->given;
    p->given = p->todo_to;
    if (n == 1)
        pthread_cond_signal(&p->work);
    else if (n)
        pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}

static int pool_reap(void *state, struct hearth_attempt_done *done, int max, bool wait)
{
    struct pool *p = state;
    int n = 0;
    pthread_mutex_lock(&p->lock);
    while (wait && p->done_from == p->done_to)
        pthread_cond_wait(&p->result, &p->lock);
    while (n < max && p->done_from != p->done_to)
        done[n++] = p->done[p->done_from++ % p->cap];
    pthread_mutex_unlock(&p->lock);
    return n;
}

const struct hearth_io_backend hearth_io_pread = {
    "pread", pool_open, pool_close, pool_add_memory, pool_start, pool_flush, pool_reap,
};
