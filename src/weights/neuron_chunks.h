// SPDX-License-Identifier: MIT
// Prompts of the source of neurons: requests without ids. Functions are those of source.h.
#ifndef HEARTH_WEIGHTS_NEURON_CHUNKS_H
#define HEARTH_WEIGHTS_NEURON_CHUNKS_H

#include "weights/neuron_state.h"

void hearth_neuron_chunks_begin(struct hearth_neurons *n); // once, before all others
void hearth_neuron_chunks_request(struct hearth_neurons *n, const struct hearth_request *r);
struct hearth_want *hearth_neuron_chunks_next(struct hearth_neurons *n, uint32_t *count);
// A step comes between two requests: the chunk that was handed out last is done with.
void hearth_neuron_chunks_end(struct hearth_neurons *n);
// Between evaluations: nothing is on its way to the buffers.
void hearth_neuron_chunks_finish(struct hearth_neurons *n);
// Ids of a space that a step of the same evaluation will probably want after the prompt has gone through the
// space: they are kept as they come along. They stay the caller's until that step's request.
void hearth_neuron_chunks_hint(struct hearth_neurons *n, uint32_t space, const uint32_t *ids, uint32_t count);
// Reads ranges one ahead of calling keep() for each, with its bundles.
int hearth_neuron_chunks_read(struct hearth_neurons *n, const struct hearth_cache_range *ranges,
                              size_t n_ranges,
                              void (*keep)(struct hearth_neurons *n, const struct hearth_cache_range *range,
                                           const uint8_t *bundles),
                              struct hearth_error *err);

#endif
