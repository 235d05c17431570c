// SPDX-License-Identifier: MIT
// Free memory on Windows: what is there, what may be promised beside it, and the limits of jobs.
#include "base/claims.h"
#include "base/free_memory.h"
#include "base/os.h"
#include "base/os_windows.h"

static void bound(struct hearth_free_memory *f, uint64_t limit, uint64_t used, const char *what)
{
    const uint64_t left = limit > used ? limit - used : 0;
    if (left < f->bytes)
        *f = (struct hearth_free_memory){left, what};
}

static void look_at_job(struct hearth_free_memory *f, bool only_limit)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION job = {0};
    if (!QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL))
        return;
    const uint64_t used = only_limit ? 0 : hearth_memory_private();
    if (job.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_PROCESS_MEMORY)
        bound(f, job.ProcessMemoryLimit, used, "job");
    if (job.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_JOB_MEMORY)
        bound(f, job.JobMemoryLimit, used, "job");
}

struct hearth_free_memory hearth_free_memory(const char *root, bool own)
{
    struct hearth_free_memory f = {UINT64_MAX, "memory"};
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    (void)root;
    (void)own;
    if (GlobalMemoryStatusEx(&status)) {
        bound(&f, status.ullAvailPhys, 0, "memory");
        bound(&f, status.ullAvailPageFile, 0, "commit limit");
    }
    look_at_job(&f, false);
    return f;
}

uint64_t hearth_memory_limit(const char *root)
{
    struct hearth_free_memory f = {UINT64_MAX, "memory"};
    (void)root;
    if (hearth_memory_total())
        f.bytes = hearth_memory_total();
    look_at_job(&f, true);
    return f.bytes == UINT64_MAX ? 0 : f.bytes;
}

#include "base/os_no_claims_tmpl.h"
