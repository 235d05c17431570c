// SPDX-License-Identifier: MIT
// The memory roof.
#include "cli/roof.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/threads.h"

#define MIN_BYTES ((size_t)1 << 20) // at least one task
#define PASSES    5
#define LANES     8 // independent sums: enough to hide the additions, few enough to stay in registers
// Bytes of a task. Threads that walk near each other through one stretch of memory reach far more than
// threads that each walk through a half of their own.
#define TASK ((size_t)1 << 20)

struct stream_job {
    const uint64_t *data;
    size_t words; // of one task
    uint64_t *sums;
};

// Adds up one task's share. The sum is kept, so that the reads cannot be left out.
static void read_share(void *arg, int task, int worker)
{
    (void)worker;
    const struct stream_job *job = arg;
    const uint64_t *p = job->data + (size_t)task * job->words;
    uint64_t lanes[LANES] = {0};
    for (size_t i = 0; i < job->words; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += p[i + k];
    uint64_t sum = 0;
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    job->sums[task] = sum;
}

static double best_pass(struct hearth_pool *pool, struct stream_job *job, int n_tasks)
{
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t start = hearth_now_ns();
        hearth_pool_run(pool, read_share, job, n_tasks);
        uint64_t ns = hearth_now_ns() - start;
        double rate = ns ? (double)job->words * sizeof(uint64_t) * n_tasks / (double)ns : 0;
        if (rate > best)
            best = rate;
    }
    return best;
}

int hearth_roof_measure(size_t bytes, int n_threads, double *gb_per_second, struct hearth_error *err)
{
    struct hearth_region region;
    struct hearth_pool *pool = NULL;
    if (bytes < MIN_BYTES)
        bytes = MIN_BYTES;
    const size_t n_tasks = bytes / TASK;
    uint64_t *sums = hearth_calloc(n_tasks, sizeof *sums);
    if (!sums)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for measuring the memory roof");
    int rc = hearth_region_open(&region, bytes, "measuring the memory roof", err);
    if (!rc)
        rc = hearth_pool_open(&pool, n_threads, err);
    if (!rc) {
        // Written once: untouched pages would all be the one page of zeros.
        memset(region.base, 1, region.size);
        struct stream_job job = {region.base, TASK / sizeof(uint64_t), sums};
        *gb_per_second = best_pass(pool, &job, (int)n_tasks);
    }
    hearth_pool_close(&pool);
    hearth_region_close(&region);
    free(sums);
    return rc;
}
