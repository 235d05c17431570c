// SPDX-License-Identifier: MIT
// Steps of a model whose neurons are not all in memory. The thread that evaluates (worker 0) asks the cache
// for the neurons of one want after the other and submits the reads; meanwhile the other threads compute the
// wants that are complete, and then it does so too, looking after the reads in between. So the storage works
// while present neurons are computed, and wants are computed as their last bundle lands.
//
// When the cache has no room for all of a request, it goes in waves: what was asked for is computed and let
// go, then the rest is asked for.
#include "weights/neuron_steps.h"

#include "weights/neuron_reads.h"
#include "weights/tests.h"

#include <assert.h>
#include <string.h>

// Reads listed, and completions looked at, in one go.
#define BATCH 64

static bool has_failed(const struct hearth_neurons *n)
{
    return hearth_fault_is_raised(n->setup.now->fault);
}

static void drop_hints(struct hearth_neurons *n)
{
    n->n_hints = n->hint_at = n->hinted = 0;
}

// ---- reads

static void make_ready(struct hearth_neurons *n, uint32_t want)
{
    const uint32_t at = atomic_load_explicit(&n->pass.n_ready, memory_order_relaxed);
    n->ready[at] = want;
    atomic_store_explicit(&n->pass.n_ready, at + 1, memory_order_release);
}

// Whether the want's ids have this one.
static bool has_id(const struct hearth_want *w, uint32_t id)
{
    uint32_t low = 0, high = w->n_ids;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (w->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->n_ids && w->ids[low] == id;
}

// The want of this wave that waits for the neuron, or -1.
static int64_t want_waiting(const struct hearth_neurons *n, const struct hearth_cache_read *read)
{
    const struct hearth_neuron_pass *p = &n->pass;
    const int32_t first = n->want_of_space[read->space];
    if (first < 0)
        return -1;
    const uint32_t size = (uint32_t)hearth_cluster_size(n->spaces[read->space].n_neurons);
    const uint32_t index = (uint32_t)first + read->neuron / size;
    if (index < p->wave || index >= p->frontier || !n->pending[index])
        return -1;
    return has_id(&p->wants[index], read->neuron) ? (int64_t)index : -1;
}

// A read that is needed could not be done.
static void fail(struct hearth_neurons *n)
{
    struct hearth_error err = {0};
    hearth_store_fail(n->store, &n->failed, &err);
    hearth_fault_raise(n->setup.now->fault, &err);
}

static void land(struct hearth_neurons *n, uint32_t flight, const struct hearth_read_done *done)
{
    const struct hearth_cache_read read = n->flights[flight];
    n->free_flights[n->n_free++] = flight;
    const int64_t want = want_waiting(n, &read);
    if (done->code)
        n->failed = *done;
    if (done->code && want >= 0) // what was read ahead in vain is tried again when it is needed
        fail(n);
    hearth_cache_done(n->cache, &read, !done->code);
    if (want >= 0 && !--n->pending[want])
        make_ready(n, (uint32_t)want);
}

// Looks at all that has arrived; waits for at least `at_least` reads.
static void reap(struct hearth_neurons *n, int at_least)
{
    struct hearth_read_done done[BATCH];
    uint32_t flights[HEARTH_READ_GROUP];
    int count;
    do {
        count = hearth_store_reap(n->store, done, BATCH, at_least);
        for (int i = 0; i < count; i++) {
            const uint32_t ended = hearth_neuron_reads_end(n, &done[i], flights);
            for (uint32_t k = 0; k < ended; k++)
                land(n, flights[k], &done[i]);
        }
        at_least = 0;
    } while (count == BATCH);
    hearth_neuron_reads_submit(n);
}

static void wait_for_all(struct hearth_neurons *n)
{
    while (hearth_store_in_flight(n->store) || hearth_neuron_reads_queued(n))
        reap(n, 1);
}

// Reads ahead for the next layer, as long as the store has room that nobody else wants.
static void read_ahead(struct hearth_neurons *n)
{
    struct hearth_cache_read reads[BATCH];
    const uint32_t keep_free = HEARTH_NEURON_KEEP_FREE(n);
    while (n->hint_at < n->n_hints && !hearth_neuron_reads_queued(n)) {
        const struct hearth_hint *h = &n->hints[n->hint_at];
        const uint32_t room = hearth_store_depth(n->store) - (uint32_t)hearth_store_in_flight(n->store);
        uint32_t most = room < n->n_free ? room : n->n_free, left = h->n - n->hinted;
        most = most < BATCH ? most : BATCH;
        if (!most)
            return;
        left = left < most ? left : most;
        const uint32_t listed =
            hearth_cache_prefetch(n->cache, h->space, h->ids + n->hinted, left, keep_free, reads, most);
        n->hinted += left;
        if (n->hinted == h->n) {
            n->hint_at++;
            n->hinted = 0;
        }
        hearth_neuron_reads_queue(n, reads, listed);
        hearth_neuron_reads_submit(n);
    }
}

// ---- asking for neurons

// Asks for what the want at the frontier still lacks. Returns false when the cache has no more room.
static bool ask(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    const uint32_t index = p->frontier;
    const struct hearth_want *w = &p->wants[index];
    while (p->asked < w->n_ids) {
        struct hearth_cache_read reads[BATCH];
        if (!n->n_free) {
            hearth_neuron_reads_submit(n);
            reap(n, 1);
            continue;
        }
        const uint32_t most = n->n_free < BATCH ? n->n_free : BATCH, left = w->n_ids - p->asked;
        uint32_t listed = 0;
        const uint32_t dealt =
            hearth_cache_request(n->cache, w->space, w->ids + p->asked, left, reads, most, &listed);
        hearth_neuron_reads_queue(n, reads, listed);
        p->asked += dealt;
        if (dealt < left && listed < most)
            return false;
    }
    uint32_t loading = 0, lost = 0;
    const uint32_t resident = n->resident[w->space];
    for (uint32_t i = 0; i < w->n_ids; i++) {
        const enum hearth_cache_state state = hearth_cache_state(n->cache, w->space, w->ids[i]);
        loading += state == HEARTH_CACHE_LOADING;
        lost += state == HEARTH_CACHE_ABSENT && w->ids[i] >= resident;
    }
    if (lost) // reads that ended badly before all of the want was asked for
        fail(n);
    n->pending[index] = loading;
    p->frontier++;
    p->asked = 0;
    if (!loading)
        make_ready(n, index);
    return true;
}

// Asks for as many wants as there is room for.
static void ask_all(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    reap(n, 0);
    while (p->frontier < p->n_wants && !has_failed(n)) {
        if (!ask(n))
            break;
        // While the storage has work, more of the queue can be read together.
        const uint32_t least = hearth_store_in_flight(n->store) ? BATCH : BATCH / 4;
        if (hearth_neuron_reads_queued(n) >= least)
            hearth_neuron_reads_submit(n);
    }
    hearth_neuron_reads_submit(n);
    atomic_store_explicit(&p->n_end, p->frontier - p->wave, memory_order_release);
}

// Lets go of what the wave has asked for, the want that did not get all of its neurons included: a space at a
// time, because the policy chooses once a space's neurons are all let go. A neuron whose read failed is not
// there, and not pinned.
static void release(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    const uint32_t end = p->frontier + (p->frontier < p->n_wants && p->asked > 0);
    const bool failed = has_failed(n);
    for (uint32_t i = p->wave; i < end;) {
        const uint32_t space = p->wants[i].space, resident = n->resident[space];
        uint32_t count = 0;
        for (; i < end && p->wants[i].space == space; i++) {
            const uint32_t asked = i < p->frontier ? p->wants[i].n_ids : p->asked;
            for (uint32_t k = 0; k < asked; k++) {
                const uint32_t id = p->wants[i].ids[k];
                n->let_go[count] = id;
                count += !failed || id < resident ||
                         hearth_cache_state(n->cache, space, id) != HEARTH_CACHE_ABSENT;
            }
        }
        hearth_cache_scores(n->cache, space, n->scores + (size_t)space * n->n_neurons);
        hearth_cache_release(n->cache, space, n->let_go, count);
    }
}

// The reserve is full of what was read ahead: it goes.
static void make_room(struct hearth_neurons *n)
{
    drop_hints(n);
    wait_for_all(n);
    for (uint32_t i = 0; i < n->n_spaces; i++)
        hearth_cache_release(n->cache, i, NULL, 0);
}

// ---- a wave

// The next want that is ready; NULL: none is now.
static struct hearth_want *take(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    if (atomic_load_explicit(&p->held, memory_order_acquire))
        return NULL;
    uint32_t at = atomic_load_explicit(&p->n_taken, memory_order_relaxed);
    while (at < atomic_load_explicit(&p->n_ready, memory_order_acquire))
        if (atomic_compare_exchange_weak_explicit(&p->n_taken, &at, at + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return &p->wants[n->ready[at]];
    return NULL;
}

static bool is_over(const struct hearth_neurons *n)
{
    const struct hearth_neuron_pass *p = &n->pass;
    return atomic_load_explicit(&p->n_taken, memory_order_relaxed) ==
           atomic_load_explicit(&p->n_end, memory_order_acquire);
}

// What only worker 0 does: asks, and looks after reads.
static void attend(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    if (atomic_load_explicit(&p->n_end, memory_order_relaxed) == UINT32_MAX)
        ask_all(n);
    else
        reap(n, 0);
    if (atomic_load_explicit(&p->held, memory_order_relaxed)) {
        wait_for_all(n);
        atomic_store_explicit(&p->held, false, memory_order_release);
    }
}

struct hearth_want *hearth_neuron_steps_next(struct hearth_neurons *n, int worker, uint32_t *count,
                                             bool *wait)
{
    if (worker == 0)
        attend(n);
    struct hearth_want *want = take(n);
    while (want && has_failed(n)) // what follows is not worth computing
        want = take(n);
    *count = want != NULL;
    *wait = !want && !is_over(n);
    if (*wait && worker == 0)
        reap(n, 1);
    return want;
}

static void begin_wave(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    p->wave = p->frontier;
    p->asked = 0;
    atomic_store(&p->n_ready, 0);
    atomic_store(&p->n_taken, 0);
    atomic_store(&p->n_end, UINT32_MAX);
    atomic_store(&p->held, n->setup.model->load.overlap == HEARTH_OVERLAP_NONE);
}

// ---- a request

void hearth_neuron_steps_request(struct hearth_neurons *n, const struct hearth_request *r)
{
    struct hearth_neuron_pass *p = &n->pass;
    hearth_neuron_steps_settle(n);
    p->wants = r->wants;
    p->n_wants = r->n;
    p->frontier = 0;
    for (uint32_t i = r->n; i-- > 0;)
        n->want_of_space[r->wants[i].space] = (int32_t)i;
    const bool alone = !n->setup.now->mixed;
    hearth_guessing_request(&n->guessing, r->layer, r->n_tokens, alone, hearth_now_ns());
    drop_hints(n); // from here on the layer itself asks
    hearth_cache_step(n->cache);
    begin_wave(n);
}

bool hearth_neuron_steps_more(struct hearth_neurons *n)
{
    struct hearth_neuron_pass *p = &n->pass;
    const bool failed = has_failed(n);
    if (p->frontier < p->n_wants || failed) {
        release(n);
        if (p->frontier == p->wave)
            make_room(n);
        if (!failed) {
            begin_wave(n);
            return true;
        }
    }
    for (uint32_t i = 0; i < p->n_wants; i++)
        n->want_of_space[p->wants[i].space] = -1;
    n->unsettled = !failed;
    return false;
}

void hearth_neuron_steps_settle(struct hearth_neurons *n)
{
    if (!n->unsettled)
        return;
    n->unsettled = false;
    release(n);
    reap(n, 0);
    read_ahead(n);
}

void hearth_neuron_steps_finish(struct hearth_neurons *n)
{
    drop_hints(n);
    hearth_neuron_steps_settle(n);
    wait_for_all(n);
}

void hearth_neuron_steps_hint(struct hearth_neurons *n, const struct hearth_hint *hints, uint32_t count)
{
    assert(count <= HEARTH_STEP_ROWS);
    drop_hints(n);
    memcpy(n->hints, hints, count * sizeof *hints);
    n->n_hints = count;
    read_ahead(n);
}

// ---- opening

void hearth_neuron_steps_begin(struct hearth_neurons *n)
{
    // What predictors that look at the layer before have named is no guess. Experts' neurons are guessed with
    // the router's guess, which is an early one.
    const struct hearth_hparams *hp = &n->setup.model->hp;
    const bool is_certain = hp->predictor_input == HEARTH_PREDICTOR_PREVIOUS && !hp->n_expert;
    const struct hearth_weights_tests *tests = n->setup.model->load.tests;
    const bool may = n->setup.model->load.overlap == HEARTH_OVERLAP_ALL;
    const bool try = may && !is_certain && !(tests && tests->early);
    hearth_guessing_begin(&n->guessing, may, try && !hp->n_expert, try || !may);
    for (uint32_t i = 0; i < n->n_spaces; i++)
        n->want_of_space[i] = -1;
}
