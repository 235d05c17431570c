// SPDX-License-Identifier: MIT
// The memory roof.
#include "plan/roof.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/os.h"

#define MIN_BYTES   ((size_t)1 << 20) // at least one task
#define PASSES      5
#define USUAL       64  // passes, at most
#define UNDISTURBED 0.9 // of a pass's time, at least
#define LANES       8   // independent sums: enough to hide the additions, few enough to stay in registers
// Bytes of a task. Threads that read neighbouring parts of one range reach a much higher speed
// than threads that each read a half of their own.
#define TASK ((size_t)1 << 20)
// Streams of a task on CPUs that read several faster than one, and how many bytes ahead of the sums these ask. Four,
// whose beginnings are a power of two apart, are slower.
#define STREAMS 3
#define AHEAD   ((size_t)2048)

// What caches do not hold: some times of what they have, in virtual machines of what they seem to have. Of machines
// with little memory not too much.
#define LEAST_BYTES ((size_t)256 << 20)
#define CACHES      2
#define MOST        8 // a part of all memory

struct stream_job {
    const uint64_t *data;
    size_t words; // of one task
    bool several; // streams a task
    uint64_t *sums;
};

// The sum of the words, in so many streams (a constant after inlining): a part of them each.
static inline uint64_t sum_of(const uint64_t *p, size_t words, size_t streams)
{
    const size_t part = words / streams / LANES * LANES;
    uint64_t lanes[LANES] = {0};
    for (size_t i = 0; i < part; i += LANES)
        for (size_t s = 0; s < streams; s++) {
            if (streams > 1)
                __builtin_prefetch(p + s * part + i + AHEAD / sizeof *p);
            for (size_t k = 0; k < LANES; k++)
                lanes[k] += p[s * part + i + k];
        }
    uint64_t sum = 0;
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

// Adds up one task's share. The sum is kept, so that the compiler cannot remove the reads.
static void read_share(void *arg, int task, int worker)
{
    (void)worker;
    const struct stream_job *job = arg;
    const uint64_t *p = job->data + (size_t)task * job->words;
    job->sums[task] = job->several ? sum_of(p, job->words, STREAMS) : sum_of(p, job->words, 1);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double hearth_median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Reads all of the memory. Returns the nanoseconds.
static uint64_t pass(struct hearth_roof *r)
{
    struct stream_job job = {r->data, TASK / sizeof(uint64_t), r->several, r->sums};
    const uint64_t start = hearth_now_ns();
    hearth_pool_run(r->pool, read_share, &job, r->n_tasks);
    const uint64_t ns = hearth_now_ns() - start;
    return ns ? ns : 1;
}

static double speed(const struct hearth_roof *r, uint64_t ns)
{
    return (double)TASK * r->n_tasks / (double)ns;
}

void hearth_roof_measure(struct hearth_roof *r)
{
    double passes[PASSES];
    if (r->n == r->room)
        return;
    for (int i = 0; i < PASSES; i++)
        passes[i] = speed(r, pass(r));
    r->samples[r->n++] = hearth_median(passes, PASSES);
}

double hearth_roof_usual(struct hearth_roof *r, uint64_t ns, double *share)
{
    const double threads = hearth_pool_size(r->pool);
    double speeds[USUAL], best = 0;
    size_t n = 0;
    *share = 0;
    for (uint64_t i = 0, spent = 0; n < USUAL && (i < PASSES || spent < ns); i++) {
        const uint64_t cpu = hearth_cpu_ns(), took = pass(r);
        const double ran = (double)(hearth_cpu_ns() - cpu) / ((double)took * threads);
        spent += took;
        best = speed(r, took) > best ? speed(r, took) : best;
        *share = ran > *share ? ran : *share;
        if (ran >= UNDISTURBED)
            speeds[n++] = speed(r, took);
    }
    *share = *share < 1 ? *share : 1;
    return n ? hearth_median(speeds, n) : best;
}

double hearth_roof_since(const struct hearth_roof *r, size_t first)
{
    double *sorted = r->samples + r->room; // the second half of the array is for this
    if (first >= r->n)
        return 0;
    memcpy(sorted, r->samples + first, (r->n - first) * sizeof *sorted);
    return hearth_median(sorted, r->n - first);
}

size_t hearth_roof_bytes(void)
{
    const uint64_t most = hearth_memory_total() / MOST, caches = CACHES * hearth_cache_total();
    const uint64_t bytes = caches < most ? caches : most;
    return bytes > LEAST_BYTES ? (size_t)bytes / TASK * TASK : LEAST_BYTES;
}

int hearth_roof_open_over(struct hearth_roof *r, const struct hearth_region *memory, int n_threads,
                          size_t n_samples, struct hearth_error *err)
{
    *r = (struct hearth_roof){.data = memory->base, .n_tasks = (int)(memory->size / TASK), .room = n_samples};
    r->several = hearth_cpu_reads_streams();
    r->sums = hearth_calloc((size_t)r->n_tasks, sizeof *r->sums);
    r->samples = hearth_calloc(n_samples, 2 * sizeof *r->samples);
    int rc = HEARTH_OK;
    if (!r->sums || !r->samples)
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for measuring the memory roof");
    if (!rc)
        rc = hearth_pool_open(&r->pool, n_threads, err);
    if (rc)
        hearth_roof_close(r);
    return rc;
}

int hearth_roof_open(struct hearth_roof *r, size_t bytes, int n_threads, size_t n_samples,
                     struct hearth_error *err)
{
    struct hearth_region region = {0};
    *r = (struct hearth_roof){0};
    int rc =
        hearth_region_open(&region, bytes < MIN_BYTES ? MIN_BYTES : bytes, "measuring the memory roof", err);
    if (rc)
        return rc;
    memset(region.base, 1, region.size); // untouched pages would all be the same page of zeros
    rc = hearth_roof_open_over(r, &region, n_threads, n_samples, err);
    if (rc)
        hearth_region_close(&region);
    else
        r->region = region;
    return rc;
}

void hearth_roof_stop(struct hearth_roof *r)
{
    hearth_pool_close(&r->pool);
    hearth_region_close(&r->region);
}

void hearth_roof_close(struct hearth_roof *r)
{
    hearth_roof_stop(r);
    free(r->sums);
    free(r->samples);
    *r = (struct hearth_roof){0};
}
