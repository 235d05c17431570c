// SPDX-License-Identifier: MIT
// Figures of sessions whose weights are not all in memory.
#include "engine/streaming.h"
#include "sparse/cache.h"

static struct hearth_streaming_count count_now(const struct hearth_streaming *f)
{
    struct hearth_streaming_count c = {0};
    if (f->runs.reader) {
        const struct hearth_store_stats r = hearth_reader_stats(f->runs.reader);
        c = (struct hearth_streaming_count){r.reads, r.bytes, r.wait_ns, r.retries};
    }
    if (f->neurons.store) {
        const struct hearth_store_stats n = hearth_store_stats(f->neurons.store);
        c.reads += n.reads;
        c.bytes += n.bytes;
        c.wait_ns += n.wait_ns;
        c.retries += n.retries;
    }
    return c;
}

void hearth_streaming_counted(struct hearth_streaming *f, enum hearth_phase phase)
{
    if (!f || !f->runs.reader)
        return;
    const struct hearth_streaming_count now = count_now(f);
    struct hearth_streaming_count *sum = &f->phases[phase];
    sum->reads += now.reads - f->counted.reads;
    sum->bytes += now.bytes - f->counted.bytes;
    sum->wait_ns += now.wait_ns - f->counted.wait_ns;
    sum->retries += now.retries - f->counted.retries;
    f->counted = now;
}

// Of the weights that each step reads: those of runs, and a row of the embedding.
static uint64_t dense_read_bytes(const struct hearth_streaming *f)
{
    const struct hearth_runs *r = &f->runs;
    uint64_t bytes = f->embedding ? f->setup.weights->token_embd.stride : 0;
    for (int i = 0; i < r->n; i++)
        bytes += r->runs[i].resident ? 0 : r->runs[i].bytes;
    return bytes;
}

static void neuron_stats(const struct hearth_neurons *n, const struct hearth_budget_plan *plan,
                         struct hearth_streaming_stats *out)
{
    for (uint32_t i = 0; i < n->n_spaces; i++)
        out->neuron_bytes += (uint64_t)n->spaces[i].n_neurons * n->spaces[i].bundle_bytes;
    out->neurons = (uint64_t)n->n_spaces * n->n_neurons;
    out->neurons_resident = plan->resident_neurons;
    out->neurons_cached = plan->cold_neurons;
    out->resident_bytes = n->matrices.size;
    if (!n->cache)
        return;
    const struct hearth_cache_stats c = hearth_cache_stats(n->cache);
    out->cache_bytes = hearth_cache_bytes(n->cache) + hearth_cache_table_bytes(n->cache);
    out->neuron_resident_hits = c.resident;
    out->neuron_hits = c.hits;
    out->neuron_late_hits = c.late_hits;
    out->neuron_misses = c.misses;
}

static void expert_stats(const struct hearth_expert_stream *x, const struct hearth_budget_plan *plan,
                         struct hearth_streaming_stats *out)
{
    for (uint32_t i = 0; x->on && i < x->n_layers; i++) {
        for (int part = 0; part < HEARTH_EXPERT_PARTS; part++)
            out->expert_bytes += x->n_experts * x->layers[i].parts[part].bytes;
        out->experts_cached += x->quota[i];
    }
    out->experts = (uint64_t)x->n_layers * x->n_experts;
    out->cache_bytes += x->on ? plan->expert_bytes : 0;
    out->expert_hits = x->asked_cached;
    out->expert_misses = x->asked_read;
    out->experts_ahead = x->read_ahead;
    out->experts_ahead_used = x->ahead_used;
}

void hearth_streaming_stats(const struct hearth_streaming *f, struct hearth_streaming_stats *out)
{
    *out = (struct hearth_streaming_stats){0};
    if (!f || !f->runs.reader)
        return;
    const struct hearth_streaming_count *prompt = &f->phases[HEARTH_PHASE_PROMPT],
                                        *step = &f->phases[HEARTH_PHASE_STEP];
    out->io = hearth_reader_io_name(f->runs.reader);
    out->direct = hearth_reader_is_direct(f->runs.reader);
    out->planned_bytes = f->plan.bytes;
    out->dense_bytes = f->plan.dense_bytes;
    out->dense_read_bytes = dense_read_bytes(f);
    out->prompt_reads = prompt->reads;
    out->prompt_read_bytes = prompt->bytes;
    out->prompt_wait_ns = prompt->wait_ns;
    out->step_reads = step->reads;
    out->step_read_bytes = step->bytes;
    out->step_wait_ns = step->wait_ns;
    out->read_retries = prompt->retries + step->retries;
    neuron_stats(&f->neurons, &f->plan, out);
    expert_stats(&f->experts, &f->plan, out);
}

uint64_t hearth_streaming_memory(const struct hearth_streaming *f)
{
    if (!f)
        return 0;
    const struct hearth_neurons *n = &f->neurons;
    return f->image.size + f->fixed.size + f->buffers.size + n->matrices.size + n->pieces.size +
           f->experts.region.size +
           (n->cache ? hearth_cache_bytes(n->cache) + hearth_cache_table_bytes(n->cache) : 0);
}
