// SPDX-License-Identifier: MIT
// Steps of a model whose neurons are not all in memory. The thread that evaluates (worker 0) asks the cache
// for the neurons of one cluster after the other and submits the reads; meanwhile the other threads compute
// the clusters that are complete, and then it does so too, looking after the reads in between. So the storage
// works while present neurons are computed, and clusters are computed as their last bundle lands.
//
// When the cache has no room for all of a pass, it goes in waves: what was asked for is computed and let go,
// then the rest is asked for.
#include "engine/neurons.h"

#include "base/threads.h"
#include "sparse/cache.h"

// Reads submitted, and completions looked at, in one go.
#define BATCH 64

const uint8_t *hearth_neurons_bundle(const struct hearth_neurons *n, uint32_t space, uint32_t neuron)
{
    return hearth_cache_bundle(n->cache, space, neuron);
}

bool hearth_neurons_takes_hints(const struct hearth_neurons *n, int layer)
{
    return n->model->load.overlap == HEARTH_OVERLAP_ALL && n->runs->runs[layer].resident;
}

size_t hearth_neurons_absent(const struct hearth_neurons *n, uint32_t space, size_t first, size_t end,
                             uint32_t *ids)
{
    size_t count = 0;
    for (size_t j = first > n->resident[space] ? first : n->resident[space]; j < end; j++) {
        ids[count] = (uint32_t)j;
        count += hearth_cache_state(n->cache, space, (uint32_t)j) == HEARTH_CACHE_ABSENT;
    }
    return count;
}

void hearth_neurons_hint(struct hearth_neurons *n, uint32_t space, const uint32_t *ids, uint32_t count)
{
    n->ahead_space = space;
    n->ahead = ids;
    n->n_ahead = count;
}

static bool has_failed(const struct hearth_neurons *n)
{
    return hearth_fault_is_raised(n->c->fault);
}

// ---- reads

static uint32_t queue_length(const struct hearth_neurons *n)
{
    return n->queue_end - n->queue_first;
}

static uint32_t in_queue(const struct hearth_neurons *n, uint32_t at)
{
    return n->queue[at % n->n_flights];
}

static struct hearth_read read_of(const struct hearth_neurons *n, uint32_t flight)
{
    const struct hearth_cache_read *r = &n->flights[flight];
    return (struct hearth_read){
        .offset = r->offset, .dst = r->dst, .length = r->length, .need = r->need, .tag = flight};
}

// Gives the store as much of the queue as it takes.
static void submit(struct hearth_neurons *n)
{
    while (queue_length(n)) {
        struct hearth_read reads[BATCH];
        int count = 0;
        for (uint32_t at = n->queue_first; at != n->queue_end && count < BATCH; at++)
            reads[count++] = read_of(n, in_queue(n, at));
        const int taken = hearth_store_submit(n->store, reads, count);
        n->queue_first += (uint32_t)taken;
        if (taken < count)
            return;
    }
}

static void enqueue(struct hearth_neurons *n, const struct hearth_cache_read *reads, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t flight = n->free_flights[--n->n_free];
        n->flights[flight] = reads[i];
        n->queue[n->queue_end++ % n->n_flights] = flight;
    }
}

static void make_ready(struct hearth_neurons *n, uint32_t unit)
{
    const uint32_t at = atomic_load_explicit(&n->pass.n_ready, memory_order_relaxed);
    n->ready[at] = unit;
    atomic_store_explicit(&n->pass.n_ready, at + 1, memory_order_release);
}

// The unit of this wave that waits for the neuron, or -1.
static int64_t unit_waiting(const struct hearth_neurons *n, const struct hearth_cache_read *read)
{
    const struct hearth_neuron_pass *p = &n->pass;
    const int32_t first = n->unit_of_space[read->space];
    if (first < 0)
        return -1;
    const uint32_t size = (uint32_t)hearth_cluster_size(n->n_neurons);
    const uint32_t index = (uint32_t)first + read->neuron / size;
    if (index < p->wave || index >= p->frontier || !n->pending[index])
        return -1;
    const struct hearth_neuron_unit *u = &p->units[index];
    for (uint32_t t = 0; t < u->n_t; t++)
        if (u->mask[t * u->n + read->neuron - u->at])
            return index;
    return -1;
}

// A read that is needed could not be done.
static void fail(struct hearth_neurons *n)
{
    struct hearth_error err = {0};
    hearth_fail(&err, HEARTH_E_IO, "%s", hearth_store_error(n->store));
    hearth_fault_raise(n->c->fault, &err);
}

static void land(struct hearth_neurons *n, const struct hearth_read_done *done)
{
    const uint32_t flight = (uint32_t)done->tag;
    const struct hearth_cache_read read = n->flights[flight];
    n->free_flights[n->n_free++] = flight;
    const int64_t unit = unit_waiting(n, &read);
    if (done->code && unit >= 0) // what was read ahead in vain is tried again when it is needed
        fail(n);
    hearth_cache_done(n->cache, &read, !done->code);
    if (unit >= 0 && !--n->pending[unit])
        make_ready(n, (uint32_t)unit);
}

// Looks at all that has arrived; waits for at least `at_least` reads.
static void reap(struct hearth_neurons *n, int at_least)
{
    struct hearth_read_done done[BATCH];
    int count;
    do {
        count = hearth_store_reap(n->store, done, BATCH, at_least);
        for (int i = 0; i < count; i++)
            land(n, &done[i]);
        at_least = 0;
    } while (count == BATCH);
    submit(n);
}

static void wait_for_all(struct hearth_neurons *n)
{
    while (hearth_store_in_flight(n->store) || queue_length(n))
        reap(n, 1);
}

// Reads ahead for the next layer, as long as the store has room that nobody else wants.
static void read_ahead(struct hearth_neurons *n)
{
    struct hearth_cache_read reads[BATCH];
    const uint32_t keep_free = n->reserve / 2;
    while (n->ahead_at < n->n_ahead && !queue_length(n)) {
        const uint32_t room = hearth_store_depth(n->store) - (uint32_t)hearth_store_in_flight(n->store);
        uint32_t most = room < n->n_free ? room : n->n_free, left = n->n_ahead - n->ahead_at;
        most = most < BATCH ? most : BATCH;
        if (!most)
            return;
        left = left < most ? left : most;
        const uint32_t listed = hearth_cache_prefetch(n->cache, n->ahead_space, n->ahead + n->ahead_at, left,
                                                      keep_free, reads, most);
        n->ahead_at += left;
        enqueue(n, reads, listed);
        submit(n);
    }
}

// ---- asking for neurons

// Writes the neurons of a unit that any token names behind those of the units before.
static void list_ids(struct hearth_neurons *n, uint32_t index)
{
    const struct hearth_neuron_unit *u = &n->pass.units[index];
    uint32_t *ids = n->ids + n->first_id[index];
    uint32_t count = 0;
    for (uint32_t i = 0; i < u->n; i++) {
        uint8_t any = 0;
        for (uint32_t t = 0; t < u->n_t; t++)
            any |= u->mask[t * u->n + i];
        ids[count] = u->at + i;
        count += any;
    }
    n->first_id[index + 1] = n->first_id[index] + count;
}

// Asks for what the unit at the frontier still lacks. Returns false when the cache has no more room.
static bool ask(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    const uint32_t index = p->frontier, end = n->first_id[index + 1], first = n->first_id[index];
    while (first + p->asked < end) {
        struct hearth_cache_read reads[BATCH];
        if (!n->n_free) {
            submit(n);
            reap(n, 1);
            continue;
        }
        const uint32_t most = n->n_free < BATCH ? n->n_free : BATCH, left = end - first - p->asked;
        uint32_t listed = 0;
        const uint32_t dealt = hearth_cache_request(n->cache, p->units[index].space,
                                                    n->ids + first + p->asked, left, reads, most, &listed);
        enqueue(n, reads, listed);
        p->asked += dealt;
        if (dealt < left && listed < most)
            return false;
    }
    uint32_t loading = 0, lost = 0;
    const uint32_t resident = n->resident[p->units[index].space];
    for (uint32_t i = first; i < end; i++) {
        const enum hearth_cache_state state = hearth_cache_state(n->cache, p->units[index].space, n->ids[i]);
        loading += state == HEARTH_CACHE_LOADING;
        lost += state == HEARTH_CACHE_ABSENT && n->ids[i] >= resident;
    }
    if (lost) // reads that ended badly before all of the unit was asked for
        fail(n);
    n->pending[index] = loading;
    p->frontier++;
    p->asked = 0;
    if (!loading)
        make_ready(n, index);
    return true;
}

// Asks for as many units as there is room for.
static void ask_all(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    reap(n, 0);
    while (p->frontier < p->n_units && !has_failed(n)) {
        list_ids(n, p->frontier);
        if (!ask(n))
            break;
        if (queue_length(n) >= BATCH / 4)
            submit(n);
    }
    submit(n);
    atomic_store_explicit(&p->n_end, p->frontier - p->wave, memory_order_release);
}

// Lets go of what the wave has asked for, the unit that did not get all of its neurons included: a space at a
// time, because the policy chooses once a space's neurons are all let go.
static void release(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    const uint32_t end = p->frontier + (p->frontier < p->n_units && p->asked > 0);
    for (uint32_t i = p->wave, next; i < end; i = next) {
        const uint32_t space = p->units[i].space;
        for (next = i + 1; next < end && p->units[next].space == space;)
            next++;
        uint32_t *ids = n->ids + n->first_id[i];
        uint32_t count = next > p->frontier ? n->first_id[p->frontier] + p->asked : n->first_id[next];
        count -= n->first_id[i];
        if (has_failed(n)) { // a neuron whose read failed is not there, and not pinned
            uint32_t there = 0;
            for (uint32_t k = 0; k < count; k++)
                if (hearth_cache_state(n->cache, space, ids[k]) != HEARTH_CACHE_ABSENT)
                    ids[there++] = ids[k];
            count = there;
        }
        hearth_cache_scores(n->cache, space, n->scores + (size_t)space * n->n_neurons);
        hearth_cache_release(n->cache, space, ids, count);
    }
}

// The reserve is full of what was read ahead: it goes.
static void make_room(struct hearth_neurons *n)
{
    n->n_ahead = n->ahead_at = 0;
    wait_for_all(n);
    for (uint32_t i = 0; i < n->n_spaces; i++)
        hearth_cache_release(n->cache, i, NULL, 0);
}

// ---- a wave

// The next unit that is ready: true; false: none is now.
static bool take_unit(struct hearth_neurons *n, uint32_t *unit)
{
    struct hearth_neuron_pass *p = &n->pass;
    if (atomic_load_explicit(&p->held, memory_order_acquire))
        return false;
    uint32_t at = atomic_load_explicit(&p->n_taken, memory_order_relaxed);
    while (at < atomic_load_explicit(&p->n_ready, memory_order_acquire))
        if (atomic_compare_exchange_weak_explicit(&p->n_taken, &at, at + 1, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            *unit = n->ready[at];
            return true;
        }
    return false;
}

static bool take_first(struct hearth_neuron_pass *p, uint32_t *task)
{
    if (atomic_load_explicit(&p->n_first_taken, memory_order_relaxed) >= p->n_first)
        return false;
    *task = atomic_fetch_add_explicit(&p->n_first_taken, 1, memory_order_relaxed);
    return *task < p->n_first;
}

// Once it is known what the next layer will want: has it read, while the other threads compute.
static void look_ahead(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    if (p->looked || atomic_load_explicit(&p->n_first_done, memory_order_acquire) < p->n_first)
        return;
    p->looked = true;
    p->end_first(p->arg);
    read_ahead(n);
}

static bool is_over(const struct hearth_neurons *n)
{
    const struct hearth_neuron_pass *p = &n->pass;
    return atomic_load_explicit(&p->n_taken, memory_order_relaxed) ==
           atomic_load_explicit(&p->n_end, memory_order_acquire);
}

// What each thread does until the wave is computed.
static void work(void *arg, int task, int worker)
{
    (void)task;
    struct hearth_neurons *n = arg;
    struct hearth_neuron_pass *p = &n->pass;
    unsigned waits = 0;
    if (worker == 0 && atomic_load_explicit(&p->n_end, memory_order_relaxed) == UINT32_MAX)
        ask_all(n);
    if (worker == 0 && atomic_load_explicit(&p->held, memory_order_relaxed)) {
        wait_for_all(n);
        atomic_store_explicit(&p->held, false, memory_order_release);
    }
    for (;;) {
        uint32_t unit;
        if (take_first(p, &unit)) {
            p->first(p->arg, (int)unit, worker);
            atomic_fetch_add_explicit(&p->n_first_done, 1, memory_order_release);
        } else if (take_unit(n, &unit)) {
            if (!has_failed(n))
                p->compute(p->arg, (int)unit, worker);
        } else if (is_over(n)) {
            if (worker == 0)
                look_ahead(n);
            return;
        } else if (worker == 0) {
            reap(n, 1);
            continue;
        } else {
            hearth_pool_relax(&waits);
            continue;
        }
        waits = 0;
        if (worker == 0) {
            look_ahead(n);
            reap(n, 0);
        }
    }
}

// ---- a pass

void hearth_neurons_settle(struct hearth_neurons *n)
{
    if (!n->unsettled)
        return;
    n->unsettled = false;
    release(n);
    reap(n, 0);
    read_ahead(n);
}

static void settle(void *arg)
{
    hearth_neurons_settle(arg);
}

void hearth_neurons_run(struct hearth_neurons *n, const struct hearth_neuron_unit *units, uint32_t n_units,
                        void (*compute)(void *arg, int unit, int worker), uint32_t n_first,
                        void (*first)(void *arg, int task, int worker), void (*end_first)(void *arg),
                        void *arg)
{
    struct hearth_neuron_pass *p = &n->pass;
    hearth_neurons_settle(n);
    n->n_ahead = n->ahead_at = 0; // from here on the layer itself asks
    p->units = units;
    p->n_units = n_units;
    p->compute = compute;
    p->n_first = n_first;
    p->first = first;
    p->end_first = end_first;
    p->looked = n_first == 0;
    p->arg = arg;
    p->frontier = 0;
    n->first_id[0] = 0;
    atomic_store(&p->n_first_taken, 0);
    atomic_store(&p->n_first_done, 0);
    for (uint32_t i = n_units; i-- > 0;)
        n->unit_of_space[units[i].space] = (int32_t)i;
    hearth_cache_step(n->cache);
    n->reading.n = 0; // what a prompt had on its way was chosen by what the cache held then
    do {
        const uint32_t wave = p->frontier;
        p->wave = wave;
        p->asked = 0;
        atomic_store(&p->n_ready, 0);
        atomic_store(&p->n_taken, 0);
        atomic_store(&p->n_end, UINT32_MAX);
        atomic_store(&p->held, n->model->load.overlap == HEARTH_OVERLAP_NONE);
        // One task for each thread: while reads are awaited no task ends, so worker 0 gets one.
        hearth_parallel(n->c, work, n, hearth_pool_size(n->c->pool));
        if (p->frontier == n_units && !has_failed(n))
            break;
        release(n);
        if (p->frontier == wave)
            make_room(n);
    } while (!has_failed(n));
    for (uint32_t i = 0; i < n_units; i++)
        n->unit_of_space[units[i].space] = -1;
    if (has_failed(n))
        return;
    n->unsettled = true;
    *n->c->deferred = (struct hearth_deferred){settle, n};
}
