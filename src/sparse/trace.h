// SPDX-License-Identifier: MIT
// Traces record the neurons whose bundles each generated step needed, space by space. The engine writes them
// (`--trace`), the simulator and the profiler read them. docs/trace.md describes the format.
#ifndef HEARTH_SPARSE_TRACE_H
#define HEARTH_SPARSE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define HEARTH_TRACE_SHARED      UINT32_MAX          // hearth_trace_space.expert of a shared expert
#define HEARTH_TRACE_MAX_SPACES  (1u << 20)          // spaces in a trace
#define HEARTH_TRACE_MAX_NEURONS (1u << 20)          // neurons in a space
#define HEARTH_TRACE_MAX_NAME    256                 // bytes of a model's name
#define HEARTH_TRACE_MAX_TOKENS  65535               // tokens in a step
#define HEARTH_TRACE_MAX_TOTAL   (UINT32_C(1) << 30) // neurons of all spaces together

struct hearth_trace_space {
    uint32_t layer;        // from 0
    uint32_t expert;       // from 0; HEARTH_TRACE_SHARED: a shared expert, after the others
    uint32_t n_neurons;    // F: ids in the space's sets are 0..F-1, in the file's order of neurons
    uint32_t bundle_bytes; // bytes of one neuron's gate, up and down rows together; 0: unknown
};

struct hearth_trace_info {
    const char *name; // the model's name; UTF-8, may be empty
    bool active;      // true: sets hold active neurons; false: computed (predicted) ones
    uint32_t n_spaces;
    const struct hearth_trace_space *spaces; // [n_spaces], ascending (layer, expert)
};

// ---- writing

struct hearth_trace_writer;

// Creates a trace and writes its header. The file appears under `path` only after a commit. Nothing is
// allocated afterwards. Copies what it needs of info. Errors name the path.
int hearth_trace_writer_open(struct hearth_trace_writer **out, const char *path,
                             const struct hearth_trace_info *info, struct hearth_error *err);
// Begins a step of n_tokens (1..65535) tokens that are generated together.
int hearth_trace_step(struct hearth_trace_writer *w, uint32_t n_tokens, struct hearth_error *err);
// Takes back the step that was begun last, with its sets.
void hearth_trace_drop_step(struct hearth_trace_writer *w);
// Adds a set: the union over the step's tokens of the neurons needed in one space, ids[n] ascending without
// repetition. The spaces of a step come in ascending order; those not visited are left out.
int hearth_trace_set(struct hearth_trace_writer *w, uint32_t space, const uint32_t *ids, uint32_t n,
                     struct hearth_error *err);
// Completes the file and makes it appear. Always closes the writer.
int hearth_trace_writer_commit(struct hearth_trace_writer **w, struct hearth_error *err);
// Closes without keeping the file. Does nothing after a commit.
void hearth_trace_writer_close(struct hearth_trace_writer **w);

// ---- reading

struct hearth_trace;

// Reads and checks the whole file. HEARTH_E_FORMAT: it is not a trace, or is damaged. A trace
// without its end (a copy that was cut off) is read up to its last complete step. The trace is
// the caller's to close and never changes.
int hearth_trace_open(struct hearth_trace **out, const char *path, struct hearth_error *err);
// The same from memory, which is copied. `name` is for messages.
int hearth_trace_open_memory(struct hearth_trace **out, const void *data, size_t n, const char *name,
                             struct hearth_error *err);
void hearth_trace_close(struct hearth_trace **t);

const struct hearth_trace_info *hearth_trace_info(const struct hearth_trace *t);
bool hearth_trace_cut_off(const struct hearth_trace *t); // the file lacks its end
uint32_t hearth_trace_n_steps(const struct hearth_trace *t);
uint64_t hearth_trace_n_sets(const struct hearth_trace *t);
uint64_t hearth_trace_n_tokens(const struct hearth_trace *t); // of all steps
uint64_t hearth_trace_n_ids(const struct hearth_trace *t);    // of all sets
// The sets of a step are *first .. *first + *n - 1. Returns the step's number of tokens.
uint32_t hearth_trace_step_at(const struct hearth_trace *t, uint32_t step, uint64_t *first, uint32_t *n);
// Returns the space of a set; *n becomes its size.
uint32_t hearth_trace_set_at(const struct hearth_trace *t, uint64_t set, uint32_t *n);
// Writes the ids of a set, ascending, to ids[], which has room for its size.
void hearth_trace_ids(const struct hearth_trace *t, uint64_t set, uint32_t *ids);

#endif
