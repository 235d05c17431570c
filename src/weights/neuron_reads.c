// SPDX-License-Identifier: MIT
// Merged reads. A request costs the storage as much as some tens of kilobytes, so bundles with small gaps
// between them are read together, gaps included, to a staging buffer, and copied from there to their slots. A
// bundle that is alone goes straight to its slot. What is read together is chosen as reads are submitted,
// among what the queue has then, so nothing waits to be joined by others.
#include "weights/neuron_reads.h"

#include <assert.h>
#include <string.h>

// Reads submitted in one go.
#define BATCH 64
// In the tag of a read of several bundles: the rest is the group's number.
#define OF_GROUP (UINT64_C(1) << 32)

static uint32_t in_queue(const struct hearth_neurons *n, uint32_t at)
{
    return n->queue[at % n->n_flights];
}

static uint8_t *staging_of(const struct hearth_neurons *n, uint32_t group)
{
    return (uint8_t *)n->staging.base + (size_t)group * n->group_bytes;
}

// How many reads of the queue, from `at` on, can be one: they ascend in the file, with gaps that cost less
// than another request, and fit a staging buffer.
static uint32_t count_neighbours(const struct hearth_neurons *n, uint32_t at)
{
    const struct hearth_cache_read *first = &n->flights[in_queue(n, at)], *last = first;
    uint32_t count = 1;
    if (!n->n_free_groups || n->alone[in_queue(n, at)])
        return 1;
    while (at + count != n->queue_end && count < HEARTH_READ_GROUP) {
        const uint32_t flight = in_queue(n, at + count);
        const struct hearth_cache_read *next = &n->flights[flight];
        if (n->alone[flight] || next->offset <= last->offset ||
            next->offset > last->offset + last->length + n->gap ||
            next->offset + next->length - first->offset > n->group_bytes)
            break;
        last = next;
        count++;
    }
    return count;
}

static struct hearth_read read_alone(const struct hearth_neurons *n, uint32_t flight)
{
    const struct hearth_cache_read *r = &n->flights[flight];
    return (struct hearth_read){
        .offset = r->offset, .dst = r->dst, .length = r->length, .need = r->need, .tag = flight};
}

// The read of `count` bundles of the queue, from `at` on, in a group.
static struct hearth_read read_together(struct hearth_neurons *n, uint32_t at, uint32_t count)
{
    const uint32_t number = n->free_groups[--n->n_free_groups];
    struct hearth_neuron_group *g = &n->groups[number];
    g->n = count;
    for (uint32_t i = 0; i < count; i++)
        g->flights[i] = in_queue(n, at + i);
    const struct hearth_cache_read *first = &n->flights[g->flights[0]],
                                   *last = &n->flights[g->flights[count - 1]];
    const uint64_t before = last->offset - first->offset;
    return (struct hearth_read){.offset = first->offset,
                                .dst = staging_of(n, number),
                                .length = (uint32_t)(before + last->length),
                                .need = (uint32_t)(before + last->need),
                                .tag = OF_GROUP | number};
}

static void free_group(struct hearth_neurons *n, uint32_t number)
{
    n->free_groups[n->n_free_groups++] = number;
}

void hearth_neuron_reads_submit(struct hearth_neurons *n)
{
    while (hearth_neuron_reads_queued(n)) {
        struct hearth_read reads[BATCH];
        uint32_t bundles[BATCH];
        int count = 0;
        for (uint32_t at = n->queue_first; at != n->queue_end && count < BATCH; at += bundles[count++]) {
            bundles[count] = count_neighbours(n, at);
            reads[count] =
                bundles[count] > 1 ? read_together(n, at, bundles[count]) : read_alone(n, in_queue(n, at));
        }
        const int taken = hearth_store_submit(n->store, reads, count);
        for (int i = 0; i < taken; i++)
            n->queue_first += bundles[i];
        for (int i = taken; i < count; i++) // they are put together anew when there is room
            if (reads[i].tag & OF_GROUP)
                free_group(n, (uint32_t)reads[i].tag);
        if (taken < count)
            return;
    }
}

static void put_to_queue(struct hearth_neurons *n, uint32_t flight, bool alone)
{
    n->alone[flight] = alone;
    n->queue[n->queue_end++ % n->n_flights] = flight;
}

void hearth_neuron_reads_queue(struct hearth_neurons *n, const struct hearth_cache_read *reads,
                               uint32_t count)
{
    assert(count <= n->n_free);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t flight = n->free_flights[--n->n_free];
        n->flights[flight] = reads[i];
        put_to_queue(n, flight, false);
    }
}

uint32_t hearth_neuron_reads_end(struct hearth_neurons *n, const struct hearth_read_done *done,
                                 uint32_t *flights)
{
    if (!(done->tag & OF_GROUP)) {
        flights[0] = (uint32_t)done->tag;
        return 1;
    }
    const uint32_t number = (uint32_t)done->tag;
    const struct hearth_neuron_group *g = &n->groups[number];
    const uint64_t origin = n->flights[g->flights[0]].offset;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct hearth_cache_read *r = &n->flights[g->flights[i]];
        flights[i] = g->flights[i];
        if (done->code) // perhaps one of them can be read, or a gap cannot
            put_to_queue(n, g->flights[i], true);
        else
            memcpy(r->dst, staging_of(n, number) + (r->offset - origin), r->need);
    }
    free_group(n, number);
    return done->code ? 0 : g->n;
}

// ---- opening

void hearth_neuron_reads_begin(struct hearth_neurons *n)
{
    for (uint32_t i = 0; i < n->n_flights; i++)
        n->free_flights[i] = i;
    n->n_free = n->n_flights;
    n->n_free_groups = 0;
    for (uint32_t i = 0; i < HEARTH_NEURON_GROUPS; i++)
        free_group(n, i);
}
