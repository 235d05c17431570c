// SPDX-License-Identifier: MIT
// Measuring a machine: some hundred milliseconds each for memory, kernels (probe_kernels.c) and storage.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/os.h"
#include "base/threads.h"
#include "plan/probe.h"
#include "plan/roof.h"
#include "store/store.h"

#define MSEC    UINT64_C(1000000)
#define ROOF_NS (150 * MSEC)

// ---- memory

// Raises *gb_s to the usual speed. *share: of the time, what the threads got.
static int measure_memory(const struct hearth_region *memory, int n_threads, double *gb_s, double *share,
                          struct hearth_error *err)
{
    struct hearth_roof roof;
    int rc = hearth_roof_open_over(&roof, memory, n_threads, 1, err);
    if (rc)
        return rc;
    const double usual = hearth_roof_usual(&roof, ROOF_NS, share);
    *gb_s = usual > *gb_s ? usual : *gb_s;
    hearth_roof_close(&roof);
    return HEARTH_OK;
}

// ---- storage

#define SMALL   8192  // of the reads whose cost is measured
#define LARGE   65536 // bytes
#define LONG    ((uint32_t)1 << 20)
#define BATCH   32 // reads that are submitted together
#define DEPTH   128
#define LONGS   16 // long reads in flight
#define SPAN    (20 * MSEC)
#define SPANS   4
#define TRIES   3   // of all spans, where what they say makes no sense
#define USELESS 1.1 // so little more speed is not worth more depth

struct storage {
    struct hearth_store *store;
    // What is read goes to this in turn, as in runs: the storage is quicker where it fits into caches.
    const struct hearth_region *memory;
    uint64_t random;
    uint64_t next;  // of reads in order
    uint64_t count; // of all reads
};

static uint64_t draw(struct storage *s, uint64_t n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (s->random >> 16) % n;
}

// One more read of `bytes`. Buffer number `slot` of so many has room for some reads, which go there in turn.
static struct hearth_read make_read(struct storage *s, uint32_t bytes, unsigned slots, bool in_order,
                                    uint64_t slot)
{
    const uint64_t room = s->memory->size / slots / bytes;
    const uint64_t places = hearth_store_size(s->store) / bytes;
    const uint64_t place = in_order ? s->next++ % places : draw(s, places);
    return (struct hearth_read){.offset = place * bytes,
                                .dst = (uint8_t *)s->memory->base + (slot * room + s->count++ % room) * bytes,
                                .length = bytes,
                                .need = bytes,
                                .tag = slot};
}

// Reads for about SPAN, with so many in flight. Returns the nanoseconds that a read takes the storage; *cpu:
// a core. Time counts from the first reads that end, since until then the storage has all of them yet to do.
static int time_reads(struct storage *s, uint32_t bytes, unsigned depth, bool in_order, double *ns,
                      double *cpu, struct hearth_error *err)
{
    struct hearth_read batch[BATCH];
    struct hearth_read_done done[BATCH];
    const int quarter = (int)(depth + 3) / 4, most = quarter < BATCH ? quarter : BATCH;
    uint64_t slots[DEPTH], n_free = depth, ended = 0, start = 0, cpu_start = 0;
    for (uint64_t i = 0; i < depth; i++)
        slots[i] = i;
    struct hearth_read_done failed = {.code = HEARTH_OK};
    while (!failed.code && (!start || hearth_now_ns() - start < SPAN)) {
        while (n_free >= (uint64_t)most) {
            for (int i = 0; i < most; i++)
                batch[i] = make_read(s, bytes, depth, in_order, slots[--n_free]);
            hearth_store_submit(s->store, batch, most);
        }
        const int n = hearth_store_reap(s->store, done, BATCH, most);
        for (int i = 0; i < n; i++) {
            slots[n_free++] = done[i].tag;
            failed = done[i].code ? done[i] : failed;
        }
        if (start) {
            ended += (uint64_t)n;
        } else {
            start = hearth_now_ns();
            cpu_start = hearth_cpu_ns();
        }
    }
    *ns = ended ? (double)(hearth_now_ns() - start) / (double)ended : 0;
    *cpu = ended ? (double)(hearth_cpu_ns() - cpu_start) / (double)ended : 0;
    for (int n; (n = hearth_store_reap(s->store, done, BATCH, 1)) > 0;) // none may be left: its memory goes
        for (int i = 0; i < n; i++)
            failed = done[i].code ? done[i] : failed;
    return failed.code ? hearth_store_fail(s->store, &failed, err) : HEARTH_OK;
}

// The best of some spans and of *ns, where it is more than 0: on a busy machine others read meanwhile.
static int best_reads(struct storage *s, uint32_t bytes, unsigned depth, bool in_order, double *ns,
                      double *cpu, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (int i = 0; i < SPANS && !rc; i++) {
        double took = 0, used = 0;
        rc = time_reads(s, bytes, depth, in_order, &took, &used, err);
        if (*ns <= 0 || took < *ns) {
            *ns = took;
            *cpu = used;
        }
    }
    return rc;
}

// The depth from which more is of no use.
static int find_depth(struct storage *s, double best_ns, int *depth, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    *depth = DEPTH;
    for (unsigned d = 1; d < DEPTH && !rc; d *= 4) {
        double ns, cpu;
        rc = time_reads(s, SMALL, d, false, &ns, &cpu, err);
        if (!rc && ns <= best_ns * USELESS) {
            *depth = (int)d;
            break;
        }
    }
    return rc;
}

// Of a small read, what its request costs at least.
#define LEAST_REQUEST 0.0625

void hearth_probe_fit_reads(struct hearth_probe *p, double small_ns, double large_ns)
{
    const double slope = (large_ns - small_ns) / (LARGE - SMALL), least = small_ns * LEAST_REQUEST;
    // Where the larger one is no slower, all of it is the request.
    p->byte_ns = slope > 0 ? slope : 0;
    double request = small_ns - p->byte_ns * SMALL;
    if (request < least) { // the larger one was in somebody's way: then only the smaller one tells
        request = least;
        p->byte_ns = (small_ns - least) / SMALL;
    }
    p->request_us = request / 1e3;
}

// No request is for nothing: a large read takes less than as many small ones.
static bool makes_sense(double small_ns, double large_ns)
{
    return large_ns < small_ns * LARGE / SMALL;
}

static int measure_reads(struct hearth_probe *p, struct storage *s, struct hearth_error *err)
{
    double small = 0, large = 0, lengthy = 0, cpu = 0, ignored;
    int rc = best_reads(s, SMALL, DEPTH, false, &small, &cpu, err);
    for (int i = 0; !rc && i < TRIES && (i == 0 || !makes_sense(small, large)); i++)
        rc = best_reads(s, LARGE, DEPTH, false, &large, &ignored, err);
    if (!rc)
        rc = best_reads(s, LONG, LONGS, true, &lengthy, &ignored, err);
    if (!rc)
        rc = find_depth(s, small, &p->depth, err);
    if (rc)
        return rc;
    hearth_probe_fit_reads(p, small, large);
    p->sequential_gb_s = lengthy > 0 ? LONG / lengthy : 0;
    p->request_cpu_us = cpu / 1e3;
    p->align = hearth_store_align(s->store);
    return HEARTH_OK;
}

// Before anything is measured, which takes a while.
static int check_size(const char *path, struct hearth_error *err)
{
    struct hearth_file *file = NULL;
    int rc = hearth_file_open(&file, path, err);
    if (!rc && hearth_file_size(file) < LONG)
        rc = hearth_fail(
            err, HEARTH_E_INVALID,
            "%s: too small to measure its storage with: it takes 1 MiB; give a larger model there", path);
    hearth_file_close(&file);
    return rc;
}

static int measure_storage(struct hearth_probe *p, const char *path, const struct hearth_region *memory,
                           struct hearth_error *err)
{
    struct storage s = {.random = 1, .memory = memory};
    int rc = hearth_store_open(&s.store, path, &(struct hearth_store_params){.depth = DEPTH}, err);
    if (!rc)
        rc = measure_reads(p, &s, err);
    hearth_store_close(&s.store);
    return rc;
}

// ---- all of it

int hearth_probe_identify(struct hearth_probe *out, const char *path, unsigned cpu_flags,
                          struct hearth_error *err)
{
    const uint64_t device = hearth_file_device(path);
    *out = (struct hearth_probe){.cores = hearth_pool_threads(0), .depth = 1, .align = 1};
    if (!device)
        return hearth_fail(err, HEARTH_E_IO, "%s: cannot say what storage it is on", path);
    snprintf(out->name, sizeof out->name, "%.96s, %s", hearth_cpu_brand(), hearth_cpu_level_name(cpu_flags));
    snprintf(out->device, sizeof out->device, "device %llu", (unsigned long long)device);
    return HEARTH_OK;
}

// The moment that a measurement began: what others do meanwhile is seen at its end.
struct beginning {
    uint64_t now, own, system;
    int n_processors;
    bool known;
};

static struct beginning begin(void)
{
    struct beginning b = {.now = hearth_now_ns(), .own = hearth_cpu_ns()};
    b.known = hearth_system_busy(&b.system, &b.n_processors);
    return b;
}

// Of all processors' time since then, what others left; 1 where that is not known. They may slow memory,
// storage or the other half of a core down without taking any of the time that the threads here want.
static double left_by_others(const struct beginning *b)
{
    const struct beginning e = begin();
    if (!b->known || !e.known || e.now <= b->now)
        return 1;
    const double others = (double)(e.system - b->system) - (double)(e.own - b->own),
                 all = (double)(e.now - b->now) * e.n_processors;
    return others <= 0 ? 1 : others < 0.99 * all ? 1 - others / all : 0.01;
}

#define BESIDE ((uint64_t)16 << 20) // the kernels' weights, activations and code

uint64_t hearth_probe_memory(void)
{
    return hearth_region_bytes(hearth_roof_bytes()) + BESIDE;
}

int hearth_probe_measure(struct hearth_probe *out, const char *path, unsigned cpu_flags,
                         struct hearth_error *err)
{
    double before = 0, after = 0, ignored;
    struct hearth_region memory = {0};
    const struct beginning beginning = begin();
    int rc = hearth_probe_identify(out, path, cpu_flags, err);
    out->ram = hearth_memory_total();
    if (!rc)
        rc = check_size(path, err);
    if (!rc)
        rc = hearth_region_open(&memory, hearth_roof_bytes(), "measuring the machine", err);
    if (!rc) {
        memset(memory.base, 1, memory.size); // untouched pages would all be the same page of zeros
        rc = measure_memory(&memory, out->cores, &out->memory_gb_s, &before, err);
    }
    if (!rc)
        rc = measure_memory(&memory, 1, &out->core_gb_s, &ignored, err);
    if (!rc)
        rc = hearth_probe_measure_kernels(out, cpu_flags, &memory, err);
    if (!rc)
        rc = measure_storage(out, path, &memory, err);
    if (!rc) // how busy the machine was in between shows at both ends
        rc = measure_memory(&memory, out->cores, &out->memory_gb_s, &after, err);
    hearth_region_close(&memory);
    const double got = before < after ? before : after, left = left_by_others(&beginning);
    out->cpu_share = got < left ? got : left;
    return rc;
}
