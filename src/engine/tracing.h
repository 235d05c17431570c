// SPDX-License-Identifier: MIT
// Writing down which neurons each step needs (docs/trace.md).
#ifndef HEARTH_ENGINE_TRACING_H
#define HEARTH_ENGINE_TRACING_H

#include <stdint.h>

#include "engine/session.h"

struct hearth_tracing;

// Begins a step of n tokens. Not NULL: the session's trace.
int hearth_tracing_step(struct hearth_tracing *t, int n, struct hearth_error *err);

// What a layer's step needs of an expert's space: bytes [F], to be set to 1. Clusters may be marked by
// different threads.
uint8_t *hearth_tracing_marks(struct hearth_tracing *t, int expert);

// Writes down the marks of an expert (ascending within a layer) and clears them. What goes wrong is told by
// the end of the step.
void hearth_tracing_write(struct hearth_tracing *t, int layer, int expert);

// What went wrong within the step, if anything.
int hearth_tracing_end_step(struct hearth_tracing *t, struct hearth_error *err);

// Closes without keeping the file. *t may be NULL.
void hearth_tracing_close(struct hearth_tracing **t);

#endif
