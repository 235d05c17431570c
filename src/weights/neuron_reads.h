// SPDX-License-Identifier: MIT
// Reads of the source of neurons: a queue of bundles to be read, which go to the store one by one or, where
// they are near each other in the file, several together. The thread that evaluates calls.
#ifndef HEARTH_WEIGHTS_NEURON_READS_H
#define HEARTH_WEIGHTS_NEURON_READS_H

#include "weights/neuron_state.h"

// How much is in the queue, and not yet submitted.
static inline uint32_t hearth_neuron_reads_queued(const struct hearth_neurons *n)
{
    return n->queue_end - n->queue_first;
}

// Queues reads that the cache has listed: at most n->n_free.
void hearth_neuron_reads_queue(struct hearth_neurons *n, const struct hearth_cache_read *reads,
                               uint32_t count);
// Gives the store as much of the queue as it takes.
void hearth_neuron_reads_submit(struct hearth_neurons *n);
// Of a read that the store has ended: the flights[HEARTH_READ_GROUP] that have ended with it. Returns how
// many; 0: several were read together, in vain, and are in the queue again, to be read one by one. Whoever
// takes care of a flight puts it to n->free_flights.
uint32_t hearth_neuron_reads_end(struct hearth_neurons *n, const struct hearth_read_done *done,
                                 uint32_t *flights);

void hearth_neuron_reads_begin(struct hearth_neurons *n); // once, before all others

#endif
