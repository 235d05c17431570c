// SPDX-License-Identifier: MIT
// The cache simulator. A replay feeds the trace's sets, step by step, to the engine's own cache
// (without memory).
#include "plan/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/belady.h"
#include "sparse/cache.h"

#define BUNDLE 512 // bytes; sizes do not matter without memory
#define SLAB   65536

struct sim {
    const struct hearth_trace *t;
    const struct hearth_trace_info *info;
    struct hearth_sim *out;
    const struct hearth_sim_params *params;
    uint32_t n_steps, first_step; // steps from first_step on are counted
    uint32_t *base;               // [n_spaces + 1] number of a space's first neuron, counted over all spaces
    uint32_t *rank;               // [all neurons] rank in the space by falling use in the warm-up
    bool *read;                   // [all neurons] by rank: a fixed neuron that has been asked for before
    uint32_t *ids;                // [largest set]
    struct hearth_cache_read *reads;
    struct hearth_cache_space_params *spaces;
    uint64_t asked;       // neurons requested in counted steps
    uint32_t done, to_do; // replays, for progress
};

static uint32_t slots_of(const struct sim *s, uint32_t space, double share)
{
    return (uint32_t)lrint(share * s->info->spaces[space].n_neurons);
}

// ---- properties of the trace

static uint32_t bit_count(const uint64_t *bits, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < (n + 63) / 64; i++)
        sum += (uint32_t)__builtin_popcountll(bits[i]);
    return sum;
}

// Size of the union of two sets; `last` becomes the new set.
static uint32_t unite(uint64_t *last, const uint32_t *ids, uint32_t n, uint32_t n_neurons)
{
    for (uint32_t i = 0; i < n; i++)
        last[ids[i] / 64] |= UINT64_C(1) << ids[i] % 64;
    uint32_t sum = bit_count(last, n_neurons);
    memset(last, 0, (n_neurons + 63u) / 64 * sizeof *last);
    for (uint32_t i = 0; i < n; i++)
        last[ids[i] / 64] |= UINT64_C(1) << ids[i] % 64;
    return sum;
}

struct facts {
    uint64_t visits, pairs, in_step;
    double density, overlap;
    uint64_t **last; // [n_spaces] bits of the last set
    uint32_t *n_last;
};

static void take_set_in(struct sim *s, struct facts *f, uint64_t set)
{
    uint32_t n, space = hearth_trace_set_at(s->t, set, &n), n_neurons = s->info->spaces[space].n_neurons;
    hearth_trace_ids(s->t, set, s->ids);
    f->visits++;
    f->density += (double)n / n_neurons;
    f->in_step += n;
    if (n > s->out->largest_set)
        s->out->largest_set = n;
    bool seen = f->n_last[space] != HEARTH_TRACE_MAX_NEURONS + 1;
    uint32_t before = seen ? f->n_last[space] : 0;
    uint32_t either = unite(f->last[space], s->ids, n, n_neurons);
    if (seen && either) {
        f->pairs++;
        f->overlap += (double)(n + before - either) / either;
    }
    f->n_last[space] = n;
}

static bool open_facts(const struct sim *s, struct facts *f)
{
    f->last = hearth_calloc(s->info->n_spaces, sizeof *f->last);
    f->n_last = hearth_calloc(s->info->n_spaces, sizeof *f->n_last);
    bool ok = f->last && f->n_last;
    for (uint32_t i = 0; ok && i < s->info->n_spaces; i++) {
        f->last[i] = hearth_calloc((s->info->spaces[i].n_neurons + 63u) / 64, sizeof **f->last);
        f->n_last[i] = HEARTH_TRACE_MAX_NEURONS + 1;
        ok = f->last[i] != NULL;
    }
    return ok;
}

static void close_facts(const struct sim *s, struct facts *f)
{
    for (uint32_t i = 0; f->last && i < s->info->n_spaces; i++)
        free(f->last[i]);
    free(f->last);
    free(f->n_last);
}

static int by_count(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

// Ranks all neurons by their counts in the warm-up, and computes the share of uses of the hottest
// ones. counts[]: of the warm-up; all[]: of the whole trace.
static bool rank_neurons(struct sim *s, const uint32_t *counts, const uint32_t *all)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < s->info->n_spaces; i++)
        widest = s->info->spaces[i].n_neurons > widest ? s->info->spaces[i].n_neurons : widest;
    uint64_t *keys = hearth_calloc(widest, sizeof *keys);
    if (!keys)
        return false;
    uint64_t uses = 0, top = 0;
    for (uint32_t i = 0; i < s->info->n_spaces; i++) {
        uint32_t n = s->info->spaces[i].n_neurons, base = s->base[i];
        for (uint32_t j = 0; j < n; j++)
            keys[j] = (uint64_t)counts[base + j] << 32 | (uint32_t)~j; // of equal ones the lower id first
        qsort(keys, n, sizeof *keys, by_count);
        for (uint32_t j = 0; j < n; j++)
            s->rank[base + ~(uint32_t)keys[j]] = j;
        for (uint32_t j = 0; j < n; j++)
            keys[j] = all[base + j];
        qsort(keys, n, sizeof *keys, by_count);
        for (uint32_t j = 0; j < n; j++) {
            uses += keys[j];
            top += j < (n + 9) / 10 ? keys[j] : 0;
        }
    }
    free(keys);
    s->out->top_tenth = uses ? (double)top / (double)uses : 0;
    return true;
}

static void walk_facts(struct sim *s, struct facts *f, uint32_t *counts, uint32_t *all)
{
    for (uint32_t step = 0; step < s->n_steps; step++) {
        uint64_t first;
        uint32_t n, n_ids;
        uint32_t tokens = hearth_trace_step_at(s->t, step, &first, &n);
        f->in_step = 0;
        for (uint32_t j = 0; j < n; j++) {
            take_set_in(s, f, first + j);
            uint32_t base = s->base[hearth_trace_set_at(s->t, first + j, &n_ids)];
            for (uint32_t k = 0; k < n_ids; k++) {
                all[base + s->ids[k]]++;
                counts[base + s->ids[k]] += step < s->first_step;
            }
            s->asked += step >= s->first_step ? n_ids : 0;
        }
        s->out->n_counted_tokens += step >= s->first_step ? tokens : 0;
        if (f->in_step > s->out->largest_step)
            s->out->largest_step = f->in_step;
    }
}

static int gather_facts(struct sim *s, struct hearth_error *err)
{
    struct facts f = {0};
    size_t total = s->base[s->info->n_spaces];
    uint32_t *counts = hearth_calloc(total, sizeof *counts), *all = hearth_calloc(total, sizeof *all);
    bool ok = counts && all && open_facts(s, &f);
    if (ok) {
        walk_facts(s, &f, counts, all);
        ok = rank_neurons(s, counts, all);
        s->out->density = f.visits ? f.density / (double)f.visits : 0;
        s->out->overlap = f.pairs ? f.overlap / (double)f.pairs : 0;
    }
    close_facts(s, &f);
    free(counts);
    free(all);
    return ok ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory to simulate");
}

// ---- replay through the engine's cache

static int tell(struct sim *s, struct hearth_error *err)
{
    s->done++;
    if (s->params->progress && !s->params->progress(s->params->arg, (float)s->done / (float)s->to_do))
        return hearth_fail(err, HEARTH_E_INTERRUPTED, "stopped");
    return HEARTH_OK;
}

// Of the ids (ranks), those that are fixed and asked for the first time. They were read like all others:
// without that, knowing what will be used would look better than the optimum.
static uint64_t first_reads(struct sim *s, uint32_t space, uint32_t n)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool *read = &s->read[s->base[space] + s->ids[i]];
        count += s->ids[i] < s->spaces[space].resident && !*read;
        *read = true;
    }
    return count;
}

// Returns how many fixed neurons were asked for the first time.
static uint64_t replay_set(struct sim *s, struct hearth_cache *c, uint64_t set, bool ranked)
{
    uint32_t n, n_reads, space = hearth_trace_set_at(s->t, set, &n);
    hearth_trace_ids(s->t, set, s->ids);
    for (uint32_t i = 0; ranked && i < n; i++)
        s->ids[i] = s->rank[s->base[space] + s->ids[i]];
    // Slots and reads suffice for the largest set, so one request handles it.
    hearth_cache_request(c, space, s->ids, n, s->reads, s->out->largest_set, &n_reads);
    for (uint32_t i = 0; i < n_reads; i++)
        hearth_cache_done(c, &s->reads[i], true);
    hearth_cache_release(c, space, s->ids, n);
    return ranked ? first_reads(s, space, n) : 0;
}

// Counts the misses of the counted steps. A share `fixed` of the slots holds the hottest neurons
// of the warm-up.
static int replay(struct sim *s, const char *policy, double share, double fixed, uint64_t *misses,
                  struct hearth_error *err)
{
    for (uint32_t i = 0; i < s->info->n_spaces; i++) {
        uint32_t slots = slots_of(s, i, share), resident = (uint32_t)lrint(fixed * slots);
        s->spaces[i] = (struct hearth_cache_space_params){.n_neurons = s->info->spaces[i].n_neurons,
                                                          .bundle_bytes = BUNDLE,
                                                          .resident = resident,
                                                          .quota = slots - resident};
    }
    struct hearth_cache *c;
    int rc = hearth_cache_open(&c,
                               &(struct hearth_cache_params){.policy = hearth_cache_policy_find(policy),
                                                             .half_life = s->params->half_life,
                                                             .n_spaces = s->info->n_spaces,
                                                             .spaces = s->spaces,
                                                             .align = 1,
                                                             .reserve = s->out->largest_set,
                                                             .slab_bytes = SLAB,
                                                             .no_memory = true},
                               err);
    if (rc)
        return rc;
    uint64_t before = 0, first = 0;
    memset(s->read, 0, s->base[s->info->n_spaces] * sizeof *s->read);
    for (uint32_t step = 0; step < s->n_steps; step++) {
        uint64_t set;
        uint32_t n;
        hearth_trace_step_at(s->t, step, &set, &n);
        if (step == s->first_step) {
            before = hearth_cache_stats(c).misses;
            first = 0;
        }
        hearth_cache_step(c);
        for (uint32_t j = 0; j < n; j++)
            first += replay_set(s, c, set + j, fixed > 0);
    }
    *misses = hearth_cache_stats(c).misses - before + first;
    hearth_cache_close(&c);
    return tell(s, err);
}

// ---- one LRU over all spaces

struct lru {
    uint32_t *prev, *next; // [all neurons + 1]; the last entry is both ends of the list
    bool *held;
    uint32_t end;
    uint64_t n;
};

static void lru_unlink(struct lru *l, uint32_t i)
{
    l->next[l->prev[i]] = l->next[i];
    l->prev[l->next[i]] = l->prev[i];
}

static void lru_push(struct lru *l, uint32_t i)
{
    l->prev[i] = l->end;
    l->next[i] = l->next[l->end];
    l->prev[l->next[i]] = i;
    l->next[l->end] = i;
}

static uint64_t lru_visit(struct lru *l, const uint32_t *ids, uint32_t n, uint32_t base, uint64_t capacity)
{
    uint64_t misses = 0;
    for (uint32_t k = n; k-- > 0;) { // backwards, so that of one visit the highest id is evicted
                                     // first, as in the cache
        uint32_t i = base + ids[k];
        if (l->held[i])
            lru_unlink(l, i);
        else
            misses++, l->n++;
        l->held[i] = true;
        lru_push(l, i);
    }
    for (; l->n > capacity; l->n--) {
        uint32_t last = l->prev[l->end];
        lru_unlink(l, last);
        l->held[last] = false;
    }
    return misses;
}

static int replay_global(struct sim *s, uint64_t capacity, uint64_t *misses, struct hearth_error *err)
{
    size_t total = s->base[s->info->n_spaces];
    struct lru l = {.prev = hearth_calloc(total + 1, sizeof *l.prev),
                    .next = hearth_calloc(total + 1, sizeof *l.next),
                    .held = hearth_calloc(total, sizeof *l.held),
                    .end = (uint32_t)total};
    bool ok = l.prev && l.next && l.held;
    if (ok)
        l.prev[total] = l.next[total] = l.end;
    *misses = 0;
    for (uint32_t step = 0; ok && step < s->n_steps; step++) {
        uint64_t first;
        uint32_t n, n_ids;
        hearth_trace_step_at(s->t, step, &first, &n);
        for (uint32_t j = 0; j < n; j++) {
            uint32_t space = hearth_trace_set_at(s->t, first + j, &n_ids);
            hearth_trace_ids(s->t, first + j, s->ids);
            uint64_t missed = lru_visit(&l, s->ids, n_ids, s->base[space], capacity);
            *misses += step >= s->first_step ? missed : 0;
        }
    }
    free(l.prev);
    free(l.next);
    free(l.held);
    return ok ? tell(s, err) : hearth_fail(err, HEARTH_E_MEMORY, "no memory to simulate");
}

// ---- the optimum

// The visits of one space, or of all (space == n_spaces), one after the other.
struct stream {
    uint32_t *ids;
    uint64_t *starts;
    uint32_t n_visits, first; // visits before `first` belong to the warm-up
};

static bool in_stream(const struct sim *s, uint64_t set, uint32_t space, uint32_t *n)
{
    return hearth_trace_set_at(s->t, set, n) == space || space == s->info->n_spaces;
}

static bool open_stream(const struct sim *s, uint32_t space, struct stream *out)
{
    uint64_t n_ids = 0, n_visits = 0, first_counted;
    uint32_t n;
    hearth_trace_step_at(s->t, s->first_step, &first_counted, &n);
    for (uint64_t i = 0; i < hearth_trace_n_sets(s->t); i++)
        if (in_stream(s, i, space, &n)) {
            n_ids += n;
            n_visits++;
        }
    *out = (struct stream){0};
    if (n_visits > UINT32_MAX - 1)
        return false;
    out->ids = hearth_calloc(n_ids, sizeof *out->ids);
    out->starts = hearth_calloc(n_visits + 1, sizeof *out->starts);
    if (!out->ids || !out->starts)
        return false;
    uint64_t at = 0;
    for (uint64_t i = 0; i < hearth_trace_n_sets(s->t); i++) {
        if (!in_stream(s, i, space, &n))
            continue;
        hearth_trace_ids(s->t, i, out->ids + at);
        uint32_t base = space == s->info->n_spaces ? s->base[hearth_trace_set_at(s->t, i, &n)] : 0;
        for (uint32_t k = 0; k < n; k++)
            out->ids[at + k] += base;
        at += n;
        out->first += i < first_counted;
        out->starts[++out->n_visits] = at;
    }
    return true;
}

// Adds the misses of a space, or of all spaces together, to misses[n_shares].
static int optimum(struct sim *s, uint32_t space, uint64_t *misses, struct hearth_error *err)
{
    struct stream stream;
    struct hearth_belady *b = NULL;
    bool all = space == s->info->n_spaces;
    uint32_t n_items = all ? s->base[space] : s->info->spaces[space].n_neurons;
    int rc = HEARTH_OK;
    if (!open_stream(s, space, &stream))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory to simulate");
    if (!rc)
        rc = hearth_belady_open(&b, stream.ids, stream.starts, stream.n_visits, n_items, err);
    for (int i = 0; !rc && i < s->out->n_shares; i++) {
        uint64_t capacity = all ? s->out->slots[i] : slots_of(s, space, s->out->shares[i]);
        misses[i] += hearth_belady_misses(b, capacity, stream.first);
        if (all)
            rc = tell(s, err);
    }
    hearth_belady_close(&b);
    free(stream.ids);
    free(stream.starts);
    return rc;
}

// ---- rows

enum { GLOBAL_LRU, POLICY, OPTIMUM, GLOBAL_OPTIMUM };

static const struct {
    int kind;
    const char *name, *label, *policy;
    double fixed; // share of the slots that is fixed
} rows[] = {
    {GLOBAL_LRU, "lru-global", "LRU, one for all spaces", NULL, 0},
    {POLICY, "lru", "LRU per space", "lru", 0},
    {POLICY, "s3fifo", "S3-FIFO per space", "s3fifo", 0},
    {POLICY, "lfru", "LFRU per space", "lfru", 0},
    {POLICY, "fixed", "fixed by profile", "decayed", 1},
    {POLICY, "half-fixed", "half fixed, half two speeds", "twospeed", 0.5},
    {POLICY, "decayed", "decayed frequency per space", "decayed", 0},
    {POLICY, "twospeed", "two speeds per space", "twospeed", 0},
    {OPTIMUM, "min", "Belady's optimum per space", NULL, 0},
    {GLOBAL_OPTIMUM, "min-global", "Belady's optimum, all spaces", NULL, 0},
};
#define N_ROWS (int)(sizeof rows / sizeof *rows)
_Static_assert(sizeof rows / sizeof *rows <= HEARTH_SIM_ROWS, "HEARTH_SIM_ROWS");

static int run_row(struct sim *s, int row, uint64_t *misses, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    memset(misses, 0, HEARTH_SIM_SIZES * sizeof *misses);
    if (rows[row].kind == GLOBAL_OPTIMUM)
        return optimum(s, s->info->n_spaces, misses, err);
    if (rows[row].kind == OPTIMUM) {
        for (uint32_t i = 0; !rc && i < s->info->n_spaces; i++)
            rc = optimum(s, i, misses, err);
        for (int i = 0; !rc && i < s->out->n_shares; i++)
            rc = tell(s, err);
        return rc;
    }
    for (int i = 0; !rc && i < s->out->n_shares; i++)
        rc = rows[row].kind == GLOBAL_LRU
                 ? replay_global(s, s->out->slots[i], &misses[i], err)
                 : replay(s, rows[row].policy, s->out->shares[i], rows[row].fixed, &misses[i], err);
    return rc;
}

static int run_rows(struct sim *s, struct hearth_error *err)
{
    s->to_do = (uint32_t)(N_ROWS * s->out->n_shares);
    s->out->n_rows = N_ROWS;
    for (int r = 0; r < N_ROWS; r++) {
        uint64_t misses[HEARTH_SIM_SIZES];
        int rc = run_row(s, r, misses, err);
        if (rc)
            return rc;
        struct hearth_sim_row *row = &s->out->rows[r];
        row->name = rows[r].name;
        row->label = rows[r].label;
        row->optimum = rows[r].kind == OPTIMUM || rows[r].kind == GLOBAL_OPTIMUM;
        for (int i = 0; i < s->out->n_shares; i++) {
            row->hit[i] = 1 - (double)misses[i] / (double)s->asked;
            row->per_token[i] = (double)misses[i] / (double)s->out->n_counted_tokens;
        }
    }
    return HEARTH_OK;
}

// ---- entry

static void settle_sizes(struct sim *s)
{
    static const double usual[] = {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
    struct hearth_sim *o = s->out;
    o->n_shares = s->params->n_shares ? s->params->n_shares : (int)(sizeof usual / sizeof *usual);
    memcpy(o->shares, s->params->n_shares ? s->params->shares : usual,
           (size_t)o->n_shares * sizeof *o->shares);
    bool known = true;
    for (uint32_t i = 0; i < s->info->n_spaces; i++) {
        const struct hearth_trace_space *space = &s->info->spaces[i];
        known = known && space->bundle_bytes;
        o->n_neurons += space->n_neurons;
        o->n_bytes += (uint64_t)space->n_neurons * space->bundle_bytes;
        s->base[i + 1] = s->base[i] + space->n_neurons;
        for (int k = 0; k < o->n_shares; k++) {
            o->slots[k] += slots_of(s, i, o->shares[k]);
            o->bytes[k] += (uint64_t)slots_of(s, i, o->shares[k]) * space->bundle_bytes;
        }
    }
    if (!known) {
        o->n_bytes = 0;
        memset(o->bytes, 0, sizeof o->bytes);
    }
}

static int simulate(struct sim *s, struct hearth_error *err)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < s->info->n_spaces; i++)
        widest = s->info->spaces[i].n_neurons > widest ? s->info->spaces[i].n_neurons : widest;
    s->base = hearth_calloc((size_t)s->info->n_spaces + 1, sizeof *s->base);
    s->ids = hearth_calloc(widest, sizeof *s->ids);
    s->spaces = hearth_calloc(s->info->n_spaces, sizeof *s->spaces);
    if (!s->base || !s->ids || !s->spaces)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to simulate");
    settle_sizes(s);
    s->rank = hearth_calloc(s->base[s->info->n_spaces], sizeof *s->rank);
    s->read = hearth_calloc(s->base[s->info->n_spaces], sizeof *s->read);
    if (!s->rank || !s->read)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to simulate");
    int rc = gather_facts(s, err);
    if (rc)
        return rc;
    if (!s->asked)
        return hearth_fail(
            err, HEARTH_E_INVALID,
            "the trace has %u steps and no neuron in those after the warm-up; trace more tokens", s->n_steps);
    s->reads = hearth_calloc(s->out->largest_set, sizeof *s->reads);
    if (!s->reads)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory to simulate");
    return run_rows(s, err);
}

int hearth_simulate(const struct hearth_trace *t, const struct hearth_sim_params *params,
                    struct hearth_sim *out, struct hearth_error *err)
{
    *out = (struct hearth_sim){.n_tokens = hearth_trace_n_tokens(t)};
    struct sim s = {.t = t,
                    .info = hearth_trace_info(t),
                    .out = out,
                    .params = params,
                    .n_steps = hearth_trace_n_steps(t)};
    if (params->n_shares < 0 || params->n_shares > HEARTH_SIM_SIZES ||
        !(params->warmup >= 0 && params->warmup < 1))
        return hearth_fail(err, HEARTH_E_INVALID, "at most %d cache sizes, and a warm-up below 1",
                           HEARTH_SIM_SIZES);
    for (int i = 0; i < params->n_shares; i++)
        if (!(params->shares[i] > 0 && params->shares[i] <= 1))
            return hearth_fail(err, HEARTH_E_INVALID, "a cache size must be above 0 and at most 100 %%");
    s.first_step = (uint32_t)(params->warmup * s.n_steps);
    out->n_counted_steps = s.n_steps - s.first_step;
    out->half_life = params->half_life ? params->half_life : HEARTH_CACHE_HALF_LIFE;
    int rc = simulate(&s, err);
    free(s.base);
    free(s.rank);
    free(s.read);
    free(s.ids);
    free(s.reads);
    free(s.spaces);
    return rc;
}
