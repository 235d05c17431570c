// SPDX-License-Identifier: MIT
// The memory roof.
#include "cli/roof.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/threads.h"

#define MIN_BYTES ((size_t)1 << 20)
#define PASSES    5
#define LANES     32 // independent sums, enough to keep the loads and not the additions busy

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
    uint64_t sums[256] = {0};
    if (bytes < MIN_BYTES)
        bytes = MIN_BYTES;
    int rc = hearth_region_open(&region, bytes, "measuring the memory roof", err);
    if (!rc)
        rc = hearth_pool_open(&pool, n_threads, err);
    if (!rc) {
        // Written once: untouched pages would all be the one page of zeros.
        memset(region.base, 1, region.size);
        struct stream_job job = {region.base,
                                 region.size / sizeof(uint64_t) / (size_t)n_threads / LANES * LANES, sums};
        *gb_per_second = best_pass(pool, &job, n_threads);
    }
    hearth_pool_close(&pool);
    hearth_region_close(&region);
    return rc;
}
