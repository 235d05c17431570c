// SPDX-License-Identifier: MIT
// Traces: which neurons' bundles each generated step needed, space by space. The engine writes them
// (`--trace`), the simulator and the profiler read them. The format is in docs/trace.md.
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
    uint32_t layer;     // from 0
    uint32_t expert;    // from 0; HEARTH_TRACE_SHARED: a shared expert, after the others
    uint32_t n_neurons; // F: ids in the space's sets are 0..F-1, in the order in which the file stores them
    uint32_t bundle_bytes; // of one neuron's gate, up and down rows together; 0: not known
};

struct hearth_trace_info {
    const char *name; // of the model; UTF-8, may be empty
    bool active;      // sets hold the neurons that were active; false: those that were computed (predicted)
    uint32_t n_spaces;
    const struct hearth_trace_space *spaces; // [n_spaces], ascending (layer, expert)
};

// ---- writing ----

struct hearth_trace_writer;

// Creates the file (it appears under `path` only after a commit) and writes the header. Nothing is allocated
// afterwards. Info is copied as far as it is needed.
int hearth_trace_writer_open(struct hearth_trace_writer **out, const char *path,
                             const struct hearth_trace_info *info, struct hearth_error *err);
// Begins a step of n_tokens (1..65535) tokens generated together.
int hearth_trace_step(struct hearth_trace_writer *w, uint32_t n_tokens, struct hearth_error *err);
// The union over the step's tokens of the neurons needed in one space: ids[n] ascending without repetition.
// Spaces come in ascending order within a step; those not visited are left out.
int hearth_trace_set(struct hearth_trace_writer *w, uint32_t space, const uint32_t *ids, uint32_t n,
                     struct hearth_error *err);
// Ends the file and makes it appear; always closes.
int hearth_trace_writer_commit(struct hearth_trace_writer **w, struct hearth_error *err);
// Closes without keeping the file; fine after commit.
void hearth_trace_writer_close(struct hearth_trace_writer **w);

// ---- reading ----

struct hearth_trace;

// Reads and checks the whole file; HEARTH_E_FORMAT when it is no trace or damaged. A trace that ends early (a
// copy that was cut off) is read up to its last complete step.
int hearth_trace_open(struct hearth_trace **out, const char *path, struct hearth_error *err);
// The same from memory, which is copied; `name` is for messages.
int hearth_trace_open_memory(struct hearth_trace **out, const void *data, size_t n, const char *name,
                             struct hearth_error *err);
void hearth_trace_close(struct hearth_trace **t);

const struct hearth_trace_info *hearth_trace_info(const struct hearth_trace *t);
bool hearth_trace_cut_off(const struct hearth_trace *t); // it ended early
uint32_t hearth_trace_n_steps(const struct hearth_trace *t);
uint64_t hearth_trace_n_sets(const struct hearth_trace *t);
uint64_t hearth_trace_n_tokens(const struct hearth_trace *t); // of all steps
uint64_t hearth_trace_n_ids(const struct hearth_trace *t);    // of all sets
// The step's sets are *first .. *first + *n - 1; returns its number of tokens.
uint32_t hearth_trace_step_at(const struct hearth_trace *t, uint32_t step, uint64_t *first, uint32_t *n);
// Space and size of a set.
uint32_t hearth_trace_set_at(const struct hearth_trace *t, uint64_t set, uint32_t *n);
// Writes the ids of a set, ascending, to ids[n] (room for its size).
void hearth_trace_ids(const struct hearth_trace *t, uint64_t set, uint32_t *ids);

#endif
