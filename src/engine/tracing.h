// SPDX-License-Identifier: MIT
// Writing down which neurons each step needs (docs/trace.md).
#ifndef HEARTH_ENGINE_TRACING_H
#define HEARTH_ENGINE_TRACING_H

#include <stdint.h>

#include "engine/context.h"
#include "engine/sparse_mode.h"

struct hearth_tracing;

// Opens a trace and has the probes bring it the neurons of each step. HEARTH_E_INVALID where no step goes by
// neuron.
int hearth_tracing_open(struct hearth_tracing **out, const struct hearth_model *m,
                        const struct hearth_sparse_mode *mode, struct hearth_probes *probes, const char *path,
                        struct hearth_error *err);
// Gives the file its name.
int hearth_tracing_commit(struct hearth_tracing *t, struct hearth_error *err);
// Closes; without a commit the file is not kept. *t may be NULL.
void hearth_tracing_close(struct hearth_tracing **t);

// Begins a step of n tokens.
int hearth_tracing_step(struct hearth_tracing *t, int n, struct hearth_error *err);
// What went wrong within the step, if anything.
int hearth_tracing_end_step(struct hearth_tracing *t, struct hearth_error *err);
// In place of the end: the step failed, and the trace is as it was before.
void hearth_tracing_drop_step(struct hearth_tracing *t);

#endif
