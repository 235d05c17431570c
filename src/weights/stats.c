// SPDX-License-Identifier: MIT
// Figures of sessions whose weights are not all in memory.
#include "weights/sources.h"

static struct hearth_reads reads_now(const struct hearth_sources *s)
{
    struct hearth_store_stats sum = hearth_reader_stats(s->reader);
    for (int i = 0; i < s->n; i++)
        if (s->all[i].ops->reads)
            s->all[i].ops->reads(s->all[i].state, &sum);
    return (struct hearth_reads){sum.reads, sum.bytes, sum.wait_ns, sum.retries};
}

void hearth_sources_count(struct hearth_sources *s, enum hearth_phase phase)
{
    if (!s->reader)
        return;
    const struct hearth_reads now = reads_now(s);
    struct hearth_reads *sum = &s->phases[phase];
    sum->reads += now.reads - s->counted.reads;
    sum->bytes += now.bytes - s->counted.bytes;
    sum->wait_ns += now.wait_ns - s->counted.wait_ns;
    sum->retries += now.retries - s->counted.retries;
    s->counted = now;
}

void hearth_sources_stats(const struct hearth_sources *s, struct hearth_streaming_stats *out)
{
    *out = (struct hearth_streaming_stats){0};
    if (!s->reader)
        return;
    hearth_lock_take(s->turn); // another session may be evaluating
    const struct hearth_reads *prompt = &s->phases[HEARTH_PHASE_PROMPT],
                              *step = &s->phases[HEARTH_PHASE_STEP];
    out->io = hearth_reader_io_name(s->reader);
    out->direct = hearth_reader_is_direct(s->reader);
    out->planned_bytes = s->plan.bytes;
    out->dense_bytes = s->plan.dense_bytes;
    out->prompt_reads = prompt->reads;
    out->prompt_read_bytes = prompt->bytes;
    out->prompt_wait_ns = prompt->wait_ns;
    out->step_reads = step->reads;
    out->step_read_bytes = step->bytes;
    out->step_wait_ns = step->wait_ns;
    out->read_retries = prompt->retries + step->retries;
    for (int i = 0; i < s->n; i++)
        if (s->all[i].ops->stats)
            s->all[i].ops->stats(s->all[i].state, out);
    hearth_lock_drop(s->turn);
}

uint64_t hearth_sources_memory(const struct hearth_sources *s)
{
    uint64_t bytes = 0;
    for (int i = 0; i < s->n; i++)
        if (s->all[i].ops->memory)
            bytes += s->all[i].ops->memory(s->all[i].state);
    return bytes;
}
