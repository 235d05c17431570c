// SPDX-License-Identifier: MIT
// The reader's thread. No other thread uses the stores. Jobs are cut into pieces. The pieces of a job follow
// those of the previous job without a pause, unless the file changes.
#include "store/reader.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/os_threads.h"

// Disks reach their full speed with reads of this size.
#define PIECE      ((size_t)512 << 10)
#define DEPTH      16
#define STACK_SIZE ((size_t)256 << 10)
// How often who waits is asked whether to stop.
#define LOOK_NS 20000000

struct hearth_reader {
    struct hearth_store **stores; // [n_stores]; once it runs, only the thread has them read
    uint32_t n_stores, align;
    pthread_t thread;
    bool has_thread, has_lock;
    pthread_mutex_t lock; // protects all that follows
    pthread_cond_t news, over;
    struct hearth_reader_job *first, *last; // jobs with pieces to submit
    bool stop;
    struct hearth_store_stats stats;
};

// ---- the thread

// The thread's progress.
struct work {
    struct hearth_reader_job *job; // the job whose pieces are being submitted
    uint32_t file;                 // the file of the pieces in flight
    bool stop;
};

static bool has_ended(const struct hearth_reader_job *job)
{
    return job->extent == job->n && !job->in_flight;
}

static void end_job(struct hearth_reader *r, struct hearth_reader_job *job)
{
    pthread_mutex_lock(&r->lock);
    assert(job->running && has_ended(job));
    job->running = false;
    pthread_cond_broadcast(&r->over);
    pthread_mutex_unlock(&r->lock);
}

// Takes the next job. Waits for one if nothing else is to do.
static void take_job(struct hearth_reader *r, struct work *w, bool idle)
{
    pthread_mutex_lock(&r->lock);
    while (idle && !r->first && !r->stop)
        pthread_cond_wait(&r->news, &r->lock);
    w->stop = r->stop;
    w->job = r->first;
    if (r->first)
        r->first = r->first->next;
    pthread_mutex_unlock(&r->lock);
}

// Submits pieces of the job until the store has no room. A failed job gets no further reads.
static void submit(struct hearth_reader *r, struct work *w)
{
    struct hearth_reader_job *job = w->job;
    if (job->code)
        job->extent = job->n;
    while (job->extent < job->n) {
        const struct hearth_extent *e = &job->extents[job->extent];
        struct hearth_store *store = r->stores[e->file];
        if (e->file != w->file && hearth_store_in_flight(r->stores[w->file]))
            return;
        w->file = e->file;
        const size_t left = e->length - job->at, n = left < PIECE ? left : PIECE;
        const size_t need = e->need > job->at ? e->need - job->at : 0;
        const struct hearth_read read = {.offset = e->offset + job->at,
                                         .dst = (uint8_t *)e->dst + job->at,
                                         .length = (uint32_t)n,
                                         .need = (uint32_t)(need < n ? need : n),
                                         .tag = (uint64_t)(uintptr_t)job};
        if (n && !hearth_store_submit(store, &read, 1))
            return;
        job->in_flight += n > 0;
        job->at += n;
        if (job->at == e->length) {
            job->extent++;
            job->at = 0;
        }
    }
}

static void reap(struct hearth_reader *r, struct work *w)
{
    struct hearth_read_done done[DEPTH];
    struct hearth_store *store = r->stores[w->file];
    const int n = hearth_store_reap(store, done, DEPTH, 1);
    for (int i = 0; i < n; i++) {
        struct hearth_reader_job *job = (void *)(uintptr_t)done[i].tag;
        assert(job->in_flight > 0);
        job->in_flight--;
        if (done[i].code && !job->code) {
            pthread_mutex_lock(&r->lock);
            job->code = done[i].code;
            job->failed = done[i];
            job->failed_file = w->file;
            pthread_mutex_unlock(&r->lock);
        }
        if (job != w->job && has_ended(job))
            end_job(r, job);
    }
    struct hearth_store_stats sum = {0};
    for (uint32_t i = 0; i < r->n_stores; i++) {
        const struct hearth_store_stats stats = hearth_store_stats(r->stores[i]);
        sum.bytes += stats.bytes;
        sum.reads += stats.reads;
        sum.retries += stats.retries;
    }
    pthread_mutex_lock(&r->lock);
    sum.wait_ns = r->stats.wait_ns;
    r->stats = sum;
    w->stop = r->stop;
    pthread_mutex_unlock(&r->lock);
}

static void *run(void *arg)
{
    struct hearth_reader *r = arg;
    struct work w = {0};
    hearth_thread_wake_soon(); // reads that begin late are not hidden behind computing
    for (;;) {
        const bool idle = !hearth_store_in_flight(r->stores[w.file]);
        if (!w.job)
            take_job(r, &w, idle);
        if (w.stop) // what is in flight ends before its store is closed
            return NULL;
        if (w.job) {
            submit(r, &w);
            if (has_ended(w.job)) {
                end_job(r, w.job);
                w.job = NULL;
                continue;
            }
            if (w.job->extent == w.job->n) { // all of it is submitted
                w.job = NULL;
                take_job(r, &w, false);
                if (w.job)
                    continue;
            }
        }
        if (hearth_store_in_flight(r->stores[w.file]))
            reap(r, &w);
    }
}

// ---- the caller's side

void hearth_reader_start(struct hearth_reader *r, struct hearth_reader_job *job)
{
    job->next = NULL;
    job->extent = job->at = job->in_flight = 0;
    job->code = HEARTH_OK;
    pthread_mutex_lock(&r->lock);
    assert(!job->running);
    job->running = true;
    if (r->first)
        r->last->next = job;
    else
        r->first = job;
    r->last = job;
    pthread_cond_signal(&r->news);
    pthread_mutex_unlock(&r->lock);
}

// Whether who waits is to stop. He may take his time to say so.
static bool is_to_stop(struct hearth_reader *r, struct hearth_reader_stop stop)
{
    pthread_mutex_unlock(&r->lock);
    const bool wanted = stop.wanted(stop.arg);
    pthread_mutex_lock(&r->lock);
    return wanted;
}

// Waits until a job is over, a look is due, or for no reason.
static void wait_a_while(struct hearth_reader *r)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&r->over, &r->lock, &until);
}

int hearth_reader_wait_or_stop(struct hearth_reader *r, struct hearth_reader_job *job,
                               struct hearth_reader_stop stop, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    pthread_mutex_lock(&r->lock);
    const uint64_t start = job->running ? hearth_now_ns() : 0;
    while (job->running && !rc) {
        if (!stop.wanted)
            pthread_cond_wait(&r->over, &r->lock);
        else if (is_to_stop(r, stop)) // lets go of the lock, so the job may have ended
            rc = job->running ? hearth_fail(err, HEARTH_E_INTERRUPTED, "stopped on request") : HEARTH_OK;
        else if (job->running)
            wait_a_while(r);
    }
    r->stats.wait_ns += start ? hearth_now_ns() - start : 0;
    if (!rc && job->code)
        rc = hearth_store_fail(r->stores[job->failed_file], &job->failed, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int hearth_reader_wait(struct hearth_reader *r, struct hearth_reader_job *job, struct hearth_error *err)
{
    return hearth_reader_wait_or_stop(r, job, (struct hearth_reader_stop){0}, err);
}

bool hearth_reader_is_over(struct hearth_reader *r, const struct hearth_reader_job *job)
{
    pthread_mutex_lock(&r->lock);
    const bool over = !job->running;
    pthread_mutex_unlock(&r->lock);
    return over;
}

struct hearth_store_stats hearth_reader_stats(struct hearth_reader *r)
{
    pthread_mutex_lock(&r->lock);
    const struct hearth_store_stats stats = r->stats;
    pthread_mutex_unlock(&r->lock);
    return stats;
}

uint32_t hearth_reader_align(const struct hearth_reader *r)
{
    return r->align;
}

const char *hearth_reader_io_name(const struct hearth_reader *r)
{
    return hearth_store_io_name(r->stores[0]);
}

bool hearth_reader_is_direct(const struct hearth_reader *r)
{
    bool direct = true;
    for (uint32_t i = 0; i < r->n_stores; i++)
        direct &= hearth_store_is_direct(r->stores[i]);
    return direct;
}

// ---- opening

static int start_thread(struct hearth_reader *r)
{
    const int rc = hearth_thread_start(&r->thread, STACK_SIZE, run, r);
    r->has_thread = !rc;
    return rc;
}

static int open_lock(struct hearth_reader *r)
{
    if (pthread_mutex_init(&r->lock, NULL))
        return -1;
    if (pthread_cond_init(&r->news, NULL)) {
        pthread_mutex_destroy(&r->lock);
        return -1;
    }
    if (pthread_cond_init(&r->over, NULL)) {
        pthread_cond_destroy(&r->news);
        pthread_mutex_destroy(&r->lock);
        return -1;
    }
    r->has_lock = true;
    return 0;
}

int hearth_reader_open(struct hearth_reader **out, const char *const *paths, uint32_t n_paths,
                       const struct hearth_store_params *params, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_reader *r = hearth_calloc(1, sizeof *r);
    if (!r)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for reading");
    struct hearth_store_params p = params ? *params : (struct hearth_store_params){0};
    p.depth = DEPTH;
    r->align = 1;
    r->stores = hearth_calloc(n_paths, sizeof *r->stores);
    int rc = r->stores ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for reading");
    for (uint32_t i = 0; i < n_paths && !rc; i++) {
        rc = hearth_store_open(&r->stores[i], paths[i], &p, err);
        if (rc)
            break;
        r->n_stores++;
        const uint32_t align = hearth_store_align(r->stores[i]);
        r->align = align > r->align ? align : r->align;
    }
    if (!rc && (open_lock(r) || start_thread(r)))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no thread to be had for reading");
    if (rc) {
        hearth_reader_close(&r);
        return rc;
    }
    *out = r;
    return HEARTH_OK;
}

void hearth_reader_close(struct hearth_reader **reader)
{
    struct hearth_reader *r = *reader;
    if (!r)
        return;
    if (r->has_thread) {
        pthread_mutex_lock(&r->lock);
        r->stop = true;
        for (uint32_t i = 0; i < r->n_stores; i++)
            hearth_store_hurry(r->stores[i]);
        pthread_cond_signal(&r->news);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->thread, NULL);
    }
    if (r->has_lock) {
        pthread_cond_destroy(&r->over);
        pthread_cond_destroy(&r->news);
        pthread_mutex_destroy(&r->lock);
    }
    for (uint32_t i = 0; i < r->n_stores; i++)
        hearth_store_close(&r->stores[i]);
    free(r->stores);
    free(r);
    *reader = NULL;
}
