// SPDX-License-Identifier: MIT
// Steps of the source of neurons: requests with ids. Functions are those of source.h.
#ifndef HEARTH_WEIGHTS_NEURON_STEPS_H
#define HEARTH_WEIGHTS_NEURON_STEPS_H

#include "weights/neuron_state.h"

void hearth_neuron_steps_begin(struct hearth_neurons *n); // once, before all others
void hearth_neuron_steps_request(struct hearth_neurons *n, const struct hearth_request *r);
struct hearth_want *hearth_neuron_steps_next(struct hearth_neurons *n, int worker, uint32_t *count,
                                             bool *wait);
bool hearth_neuron_steps_more(struct hearth_neurons *n);
void hearth_neuron_steps_settle(struct hearth_neurons *n);
// Between evaluations: nothing is on its way, or will be.
void hearth_neuron_steps_finish(struct hearth_neurons *n);
void hearth_neuron_steps_hint(struct hearth_neurons *n, const struct hearth_hint *hints, uint32_t count);

#endif
