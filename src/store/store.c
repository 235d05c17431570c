// SPDX-License-Identifier: MIT
// The store, above the backends: reads in flight, recovery from failures, throttling, faults for
// tests, and the choice of a backend.
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "store/backend.h"

#define DEFAULT_DEPTH 64
#define MAX_DEPTH     1024
// Most attempts at a read that ends with I/O errors, and at one that the system or a signal postpones.
#define MAX_ERRORS  4
#define MAX_PUT_OFF 1000
// Nanoseconds that a throttled store sleeps at a time.
#define MOST_SLEEP UINT64_C(20000000)

struct slot {
    struct hearth_read read;
    uint32_t done;       // bytes
    int errors, put_off; // attempts that ended with EIO; attempts that were postponed
    int code, why;       // of the read, once it has ended
    uint64_t due;        // when a throttled read may be reported, ns
};

struct hearth_store {
    char *path;
    struct hearth_io_file file;
    const struct hearth_io_backend *backend;
    void *state;
    unsigned depth;
    struct slot *slots;                   // [depth]
    uint32_t *free_slots;                 // [n_free]
    uint32_t *ended;                      // [n_ended] slots whose reads have ended and are not yet reported
    unsigned n_free, n_ended, n_running;  // free, ended, in flight
    struct hearth_attempt_done *attempts; // [depth]
    uint32_t gap;
    struct hearth_throttle throttle;
    atomic_bool hurried;
    uint64_t device_free; // when the emulated device has finished all its reads, ns
    uint64_t last_end;    // offset where the last read ended, to recognise sequential reads
    struct hearth_store_faults faults;
    uint64_t random;
    struct hearth_store_stats stats;
};

// ---- hot path

#ifndef NDEBUG
// Each slot is free, with the backend, or ended and not told.
static bool adds_up(const struct hearth_store *s)
{
    return s->n_free + s->n_running + s->n_ended == s->depth;
}
#endif

static void start(struct hearth_store *s, uint32_t slot)
{
    const struct slot *x = &s->slots[slot];
    const struct hearth_attempt a = {.offset = x->read.offset + x->done,
                                     .dst = (uint8_t *)x->read.dst + x->done,
                                     .length = x->read.length - x->done,
                                     .slot = slot};
    assert(x->done < x->read.length || x->read.length == 0);
    s->backend->start(s->state, &a);
    s->n_running++;
}

static bool is_throttled(const struct hearth_store *s)
{
    return (s->throttle.iops > 0 || s->throttle.mbps > 0) &&
           !atomic_load_explicit(&s->hurried, memory_order_relaxed);
}

// When the emulated device finishes this read, which it gets now.
static uint64_t throttled_end(struct hearth_store *s, const struct hearth_read *r)
{
    const bool goes_on = r->offset == s->last_end;
    double seconds = s->throttle.mbps > 0 ? r->length / (s->throttle.mbps * 1e6) : 0;
    if (!goes_on && s->throttle.iops > 0 && seconds < 1 / s->throttle.iops)
        seconds = 1 / s->throttle.iops;
    s->last_end = r->offset + r->length;
    const uint64_t now = hearth_now_ns();
    s->device_free = (s->device_free > now ? s->device_free : now) + (uint64_t)(seconds * 1e9);
    return s->device_free;
}

int hearth_store_submit(struct hearth_store *s, const struct hearth_read *reads, int n)
{
    int i = 0;
    for (; i < n && s->n_free; i++) {
        const uint32_t slot = s->free_slots[--s->n_free];
        s->slots[slot] = (struct slot){.read = reads[i]};
        if (is_throttled(s))
            s->slots[slot].due = throttled_end(s, &reads[i]);
        start(s, slot);
    }
    if (i)
        s->backend->flush(s->state);
    assert(adds_up(s));
    return i;
}

static void end(struct hearth_store *s, uint32_t slot, int code, int why)
{
    struct slot *x = &s->slots[slot];
    assert(s->n_ended < s->depth && x->done <= x->read.length);
    x->code = code;
    x->why = why;
    if (!s->file.direct && !code)
        hearth_io_file_forget(&s->file, x->read.offset, x->read.length);
    s->stats.reads++;
    s->stats.bytes += x->done;
    s->ended[s->n_ended++] = slot;
}

static bool chance(struct hearth_store *s, int of_1000)
{
    if (!of_1000)
        return false;
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((s->random >> 33) % 1000) < of_1000;
}

// The faulty storage of tests: returns another result in place of the real one.
static int64_t spoil(struct hearth_store *s, int64_t result)
{
    if (s->faults.on && !atomic_load_explicit(s->faults.on, memory_order_relaxed))
        return result;
    const int64_t unit = s->file.align;
    if (chance(s, s->faults.errors))
        return -EIO;
    if (chance(s, s->faults.retries))
        return chance(s, 500) ? -EINTR : -EAGAIN;
    const int64_t half = result / 2 / unit * unit;
    return half > 0 && chance(s, s->faults.shorts) ? half : result;
}

// Updates a read after one attempt. Returns whether another attempt is needed.
static bool settle(struct hearth_store *s, struct hearth_attempt_done done)
{
    struct slot *x = &s->slots[done.slot];
    const int64_t result = spoil(s, done.result);
    assert(result <= (int64_t)(x->read.length - x->done));
    if (result == -EINTR || result == -EAGAIN || result == -EBUSY || result == -ENOMEM) {
        if (++x->put_off < MAX_PUT_OFF)
            return true;
        end(s, done.slot, HEARTH_E_IO, (int)-result);
        return false;
    }
    if (result < 0) {
        // A device may recover from EIO; a bad address or file will not.
        if (result == -EIO && ++x->errors < MAX_ERRORS)
            return true;
        end(s, done.slot, HEARTH_E_IO, (int)-result);
        return false;
    }
    x->done += (uint32_t)result;
    if (x->done >= x->read.length || (x->done >= x->read.need && result == 0)) {
        end(s, done.slot, HEARTH_OK, 0);
        return false;
    }
    if (result == 0) {
        end(s, done.slot, HEARTH_E_IO, 0);
        return false;
    }
    // A direct read that ends between multiples of the alignment has reached the end of the file.
    if (x->done & (s->file.align - 1)) {
        if (x->done >= x->read.need)
            end(s, done.slot, HEARTH_OK, 0);
        else
            end(s, done.slot, HEARTH_E_IO, 0);
        return false;
    }
    return true;
}

static void collect(struct hearth_store *s, bool wait)
{
    const int n = s->backend->reap(s->state, s->attempts, (int)s->depth, wait);
    bool again = false;
    assert(n >= 0 && (unsigned)n <= s->n_running);
    for (int i = 0; i < n; i++) {
        s->n_running--;
        if (!settle(s, s->attempts[i]))
            continue;
        s->stats.retries++;
        start(s, s->attempts[i].slot);
        again = true;
    }
    if (again)
        s->backend->flush(s->state);
}

// Reports ended reads that are due, in the order of their end. Returns their number. *next: when
// the next one is due.
static int tell(struct hearth_store *s, struct hearth_read_done *done, int max, uint64_t *next)
{
    const uint64_t now = is_throttled(s) ? hearth_now_ns() : UINT64_MAX;
    unsigned kept = 0;
    int n = 0;
    *next = 0;
    for (unsigned i = 0; i < s->n_ended; i++) {
        const uint32_t slot = s->ended[i];
        const struct slot *x = &s->slots[slot];
        if (n == max || x->due > now) {
            if (!*next || x->due < *next)
                *next = x->due;
            s->ended[kept++] = slot;
            continue;
        }
        done[n++] = (struct hearth_read_done){x->read.tag, x->code, x->why, x->read.offset, x->read.length};
        s->free_slots[s->n_free++] = slot;
    }
    s->n_ended = kept;
    return n;
}

int hearth_store_reap(struct hearth_store *s, struct hearth_read_done *done, int max, int at_least)
{
    int n = 0;
    uint64_t started = 0;
    if (s->n_running)
        collect(s, false);
    for (;;) {
        uint64_t next;
        n += tell(s, done + n, max - n, &next);
        if (n >= at_least || n == max || (!s->n_running && !s->n_ended))
            break;
        if (!started)
            started = hearth_now_ns();
        if (s->n_ended) { // throttled: nothing is due before then
            const uint64_t now = hearth_now_ns();
            if (next > now) // it may be told to hurry meanwhile
                hearth_sleep_ns(next - now < MOST_SLEEP ? next - now : MOST_SLEEP);
            if (s->n_running)
                collect(s, false);
        } else {
            collect(s, true);
        }
    }
    if (started)
        s->stats.wait_ns += hearth_now_ns() - started;
    assert(adds_up(s));
    return n;
}

int hearth_store_in_flight(const struct hearth_store *s)
{
    return (int)(s->depth - s->n_free);
}

// ---- opening

static int open_backend(struct hearth_store *s, const struct hearth_io_backend *backend,
                        struct hearth_error *err)
{
    const int rc = backend->open(&s->state, &s->file, s->depth, err);
    if (!rc)
        s->backend = backend;
    return rc;
}

static void close_backend(struct hearth_store *s)
{
    if (s->backend)
        s->backend->close(s->state);
    s->backend = NULL;
    s->state = NULL;
}

#ifdef HEARTH_HAVE_LIBURING
// Nanoseconds that the open backend takes for some random reads of the file; UINT64_MAX when they fail.
static uint64_t probe(struct hearth_store *s, uint8_t *memory)
{
    enum { ROUNDS = 4, BYTES = 8192 };
    uint64_t random = 1;
    const uint64_t start = hearth_now_ns(), places = s->file.size / BYTES;
    for (int round = 0; round < ROUNDS; round++) {
        struct hearth_read read = {.dst = memory, .length = BYTES, .need = BYTES};
        for (unsigned i = 0; i < s->depth; i++, read.dst = (uint8_t *)read.dst + BYTES) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            read.offset = (random >> 16) % places * BYTES;
            hearth_store_submit(s, &read, 1);
        }
        // Collects all reads: none may be left in flight, because their memory is freed.
        struct hearth_read_done done;
        bool failed = false;
        while (hearth_store_reap(s, &done, 1, 1))
            failed |= done.code != HEARTH_OK;
        if (failed)
            return UINT64_MAX;
    }
    return hearth_now_ns() - start;
}

// Opens the backend that is faster for this file, or the one that works.
static int choose_backend(struct hearth_store *s, struct hearth_error *err)
{
    struct hearth_region memory = {0};
    uint64_t took[2] = {UINT64_MAX, UINT64_MAX};
    const struct hearth_io_backend *const backends[2] = {&hearth_io_uring, &hearth_io_pread};
    // If the file is too small to measure, or memory is short, any working backend will do.
    const bool measure =
        s->file.size >= (1 << 20) &&
        !hearth_region_open(&memory, ((size_t)s->depth * 8192 + ((size_t)2 << 20)), "a probe", NULL);
    for (int round = 0; measure && round < 2; round++)
        for (int i = 0; i < 2; i++) {
            if (open_backend(s, backends[i], NULL))
                continue;
            const uint64_t ns = probe(s, memory.base);
            took[i] = ns < took[i] ? ns : took[i];
            close_backend(s);
        }
    if (memory.base)
        hearth_region_close(&memory);
    s->stats = (struct hearth_store_stats){0};
    const bool pread_first = took[1] < took[0];
    return open_backend(s, backends[pread_first], NULL) ? open_backend(s, backends[!pread_first], err)
                                                        : HEARTH_OK;
}
#endif

static int open_io(struct hearth_store *s, enum hearth_io io, struct hearth_error *err)
{
#ifdef HEARTH_HAVE_LIBURING
    if (io == HEARTH_IO_URING)
        return open_backend(s, &hearth_io_uring, err);
    if (io == HEARTH_IO_AUTO)
        return choose_backend(s, err);
#else
    if (io == HEARTH_IO_URING)
        return hearth_fail_param(err, HEARTH_E_UNSUPPORTED, "io",
                                 "this build has no io_uring (liburing was not there): use io pread");
#endif
    return open_backend(s, &hearth_io_pread, err);
}

// Of emulated storage it is known what a request costs, and a byte.
static uint32_t gap_of(const struct hearth_throttle *t)
{
    if (!(t->iops > 0 || t->mbps > 0))
        return HEARTH_STORE_GAP;
    const double bytes = t->iops > 0 ? t->mbps > 0 ? t->mbps * 1e6 / t->iops : 1e9 : 1;
    return bytes < 1 ? 1 : bytes < 1e9 ? (uint32_t)bytes : 1000000000;
}

int hearth_store_open(struct hearth_store **out, const char *path, const struct hearth_store_params *params,
                      struct hearth_error *err)
{
    static const struct hearth_store_params defaults;
    const struct hearth_store_params *p = params ? params : &defaults;
    *out = NULL;
    struct hearth_store *s = hearth_calloc(1, sizeof *s);
    if (!s)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for reading", path);
    s->file.fd = -1;
    s->depth = !p->depth ? DEFAULT_DEPTH : p->depth < MAX_DEPTH ? p->depth : MAX_DEPTH;
    s->n_free = s->depth;
    s->path = hearth_strndup(path, strlen(path));
    s->slots = hearth_calloc(s->depth, sizeof *s->slots);
    s->free_slots = hearth_calloc(s->depth, sizeof *s->free_slots);
    s->ended = hearth_calloc(s->depth, sizeof *s->ended);
    s->attempts = hearth_calloc(s->depth, sizeof *s->attempts);
    int rc = s->path && s->slots && s->free_slots && s->ended && s->attempts
                 ? hearth_io_file_open(&s->file, path, p->buffered, err)
                 : hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for reading", path);
    for (uint32_t i = 0; !rc && i < s->depth; i++)
        s->free_slots[i] = s->depth - 1 - i;
    if (!rc)
        rc = open_io(s, p->io, err);
    if (rc) {
        hearth_store_close(&s);
        return rc;
    }
    if (p->throttle)
        s->throttle = *p->throttle;
    s->gap = p->gap ? p->gap : gap_of(&s->throttle);
    if (p->faults)
        s->faults = *p->faults;
    s->random = s->faults.seed + 1;
    *out = s;
    return HEARTH_OK;
}

void hearth_store_close(struct hearth_store **store)
{
    struct hearth_store *s = *store;
    if (!s)
        return;
    // The memory of reads must stay valid until they have ended.
    while (s->n_running) {
        const int n = s->backend->reap(s->state, s->attempts, (int)s->depth, true);
        s->n_running -= (unsigned)n;
    }
    close_backend(s);
    hearth_io_file_close(&s->file);
    free(s->attempts);
    free(s->ended);
    free(s->free_slots);
    free(s->slots);
    free(s->path);
    free(s);
    *store = NULL;
}

void hearth_store_hurry(struct hearth_store *s)
{
    atomic_store(&s->hurried, true);
}

void hearth_store_register(struct hearth_store *s, void *base, size_t size)
{
    s->backend->add_memory(s->state, base, size);
}

uint64_t hearth_store_size(const struct hearth_store *s)
{
    return s->file.size;
}

uint32_t hearth_store_align(const struct hearth_store *s)
{
    return s->file.align;
}

unsigned hearth_store_depth(const struct hearth_store *s)
{
    return s->depth;
}

uint32_t hearth_store_gap(const struct hearth_store *s)
{
    return s->gap;
}

bool hearth_store_is_direct(const struct hearth_store *s)
{
    return s->file.direct;
}

const char *hearth_store_io_name(const struct hearth_store *s)
{
    return s->backend->name;
}

int hearth_store_fail(const struct hearth_store *s, const struct hearth_read_done *done,
                      struct hearth_error *err)
{
    return hearth_fail(err, done->code, "%s: %u bytes at %llu cannot be read: %s", s->path,
                       (unsigned)done->length, (unsigned long long)done->offset,
                       done->why ? strerror(done->why) : "the file ends before");
}

struct hearth_store_stats hearth_store_stats(const struct hearth_store *s)
{
    return s->stats;
}
