// SPDX-License-Identifier: MIT
// Sessions whose weights need not fit into memory (`--ram`): what is kept there, and what is read from the
// file as it is needed. docs/streaming.md.
#ifndef HEARTH_ENGINE_STREAMING_H
#define HEARTH_ENGINE_STREAMING_H

#include "engine/expert_stream.h"
#include "engine/neurons.h"
#include "engine/runs.h"
#include "engine/session.h"
#include "plan/budget.h"

// What tests change, through the model's load options, so that models of a few MiB stream as large ones do.
struct hearth_streaming_tests {
    bool always;          // what all fits goes through runs and neurons none the less
    bool weights_only;    // the budget does not count what the process holds beside the session
    size_t piece_bytes;   // of prompts, 0: as ever
    uint32_t chunk_bytes; // of the neuron cache, 0: as ever
    uint32_t flights;     // of bundles, a power of two; 0: as ever
    const struct hearth_store_faults *faults; // of all reads; NULL: none
};

// Reads so far.
struct hearth_streaming_count {
    uint64_t reads, bytes, wait_ns, retries;
};

struct hearth_streaming {
    struct hearth_region image; // all weights, when they fit: then nothing else here is used
    struct hearth_budget_plan plan;
    struct hearth_region fixed;   // norms, biases, and all runs that are resident
    struct hearth_region buffers; // of the runs that are not
    struct hearth_runs runs;
    const struct hearth_item *embedding; // of which rows are read from the file; NULL: in memory
    struct hearth_neurons neurons;
    struct hearth_expert_stream experts;
    struct hearth_streaming_count counted, phases[2]; // until the last evaluation, and in those of each phase
};

// Brings the session's weights into memory as far as its model's budget goes. The session has all its other
// memory by now. HEARTH_E_BUDGET names the smallest budget that would do.
int hearth_streaming_open(struct hearth_session *s, struct hearth_error *err);
void hearth_streaming_close(struct hearth_session *s);

// Where the session's feed-forward parts have neurons that are not in memory; else NULL.
static inline struct hearth_neurons *hearth_streaming_neurons(const struct hearth_session *s)
{
    return s->streaming && s->streaming->neurons.on ? &s->streaming->neurons : NULL;
}

// Where the session's experts stream one by one; else NULL.
static inline struct hearth_expert_stream *hearth_streaming_experts(const struct hearth_session *s)
{
    return s->streaming && s->streaming->experts.on ? &s->streaming->experts : NULL;
}

// Before layer i of an evaluation, or the head (i = n_layer); true: the evaluation has failed and is to be
// given up. Nothing happens in sessions that do not stream.
bool hearth_streaming_begin(struct hearth_session *s, int i);
void hearth_streaming_end(struct hearth_session *s, int i); // after it

// The row of the embedding table that stands for a token, from the file; `worker` has scratch memory for it.
void hearth_streaming_embed(struct hearth_session *s, int token, int worker, float *out);

// ---- figures (streaming_stats.c)

// At the end of an evaluation: what was read since the last one.
void hearth_streaming_counted(struct hearth_session *s, enum hearth_phase phase);
void hearth_streaming_stats(const struct hearth_session *s, struct hearth_streaming_stats *out);
uint64_t hearth_streaming_memory(const struct hearth_session *s); // of weights and what reading them takes

#endif
