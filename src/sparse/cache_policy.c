// SPDX-License-Identifier: MIT
// The policies of the neuron cache: by score (decayed frequency at one or two speeds, LRU, LFRU),
// and S3-FIFO.
//
// Bundles are evicted in batches, when a step releases a space. For a policy by score this is one
// pass over the space and a selection, which costs less than keeping an order at every use. Of
// equal neurons the higher id goes first: in a pack it is the colder one.
#include <math.h>
#include <string.h>

#include "sparse/cache_internal.h"

#define BUCKETS 1024 // for counting scores

// ---- selection

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t t = *a;
    *a = *b;
    *b = t;
}

static uint64_t median(uint64_t a, uint64_t b, uint64_t c)
{
    if (a > b)
        swap(&a, &b);
    if (b > c)
        swap(&b, &c);
    return a > b ? a : b;
}

// Moves the k smallest of v[n] (all different) to the front, in no particular order.
static void select_smallest(uint64_t *v, uint32_t n, uint32_t k)
{
    uint32_t lo = 0, hi = n; // the k-th border lies in [lo, hi]
    while (lo < k && k < hi) {
        uint64_t pivot = median(v[lo], v[lo + (hi - lo) / 2], v[hi - 1]);
        uint32_t i = lo, j = hi;
        while (i < j) {
            while (v[i] < pivot)
                i++;
            while (v[j - 1] > pivot)
                j--;
            if (i >= j - 1) // stopped at the pivot, which occurs once
                break;
            swap(&v[i], &v[j - 1]);
        }
        // [lo, i) < pivot, v[i] == pivot, [i + 1, hi) > pivot
        if (k <= i)
            hi = i;
        else
            lo = i + 1;
    }
}

// ---- policies by score

// These policies keep no list of members: a pass over the marks finds them, in the order of their histories.
static void no_bookkeeping(struct hearth_cache_space *s, uint32_t neuron)
{
    (void)s;
    (void)neuron;
}

// Evicts the n neurons of the lowest scores. `candidates` holds score << 32 | ~id of the neurons that may go,
// with scores from `low` to `high`. Counting by score first leaves only one narrow range to sort.
static void evict_lowest(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t n_candidates,
                         uint32_t n, uint32_t low, uint32_t high)
{
    uint32_t counts[BUCKETS] = {0}, shift = 0, below = 0, bucket = 0, n_bucket = 0;
    if (n > n_candidates)
        n = n_candidates;
    if (n == 0)
        return;
    while ((high - low) >> shift >= BUCKETS)
        shift++;
    for (uint32_t i = 0; i < n_candidates; i++)
        counts[((uint32_t)(c->scratch[i] >> 32) - low) >> shift]++;
    while (below + counts[bucket] < n)
        below += counts[bucket++];
    for (uint32_t i = 0; i < n_candidates; i++) {
        uint64_t candidate = c->scratch[i];
        uint32_t its = ((uint32_t)(candidate >> 32) - low) >> shift;
        if (its < bucket)
            hearth_cache_evict(c, s, ~(uint32_t)candidate);
        else if (its == bucket)
            c->scratch[n_bucket++] = candidate;
    }
    select_smallest(c->scratch, n_bucket, n - below);
    for (uint32_t i = 0; i < n - below; i++)
        hearth_cache_evict(c, s, ~(uint32_t)c->scratch[i]);
}

// Lists the evictable ids in scratch[] and returns their number. Which neurons are cached is hard
// to predict, so no branch depends on it; but eight marks without any bit set are skipped at
// once. Zeros follow the marks up to a multiple of 64, and scratch has room for as many.
static uint32_t list_evictable(struct hearth_cache *c, const struct hearth_cache_space *s)
{
    uint32_t n = 0;
    for (uint32_t first = 0; first < s->n_neurons; first += 8) {
        uint64_t marks;
        memcpy(&marks, s->mark + first, sizeof marks);
        for (uint32_t id = first; marks && id < first + 8; id++) {
            c->scratch[n] = id;
            n += hearth_cache_evictable(s, id);
        }
    }
    return n;
}

// One loop for each policy, so that the score is inlined.
#define TRIM_BY(score)                                                                                       \
    do {                                                                                                     \
        uint32_t n_candidates = list_evictable(c, s), low = UINT32_MAX, high = 0;                            \
        for (uint32_t i = 0; i < n_candidates; i++) {                                                        \
            uint32_t id = (uint32_t)c->scratch[i], its = score;                                              \
            low = its < low ? its : low;                                                                     \
            high = its > high ? its : high;                                                                  \
            c->scratch[i] = (uint64_t)its << 32 | (uint32_t)~id;                                             \
        }                                                                                                    \
        evict_lowest(c, s, n_candidates, n, low, high);                                                      \
    } while (0)

// ---- LRU: one word, the last visit that used the neuron

static void lru_touch(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    (void)c;
    s->history[neuron] = s->now;
}

static void lru_trim(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t n)
{
    TRIM_BY(s->history[id]);
}

// ---- LFRU: uses since the neuron came in, and the last visit that used it

static void lfru_touch(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    (void)c;
    uint32_t *h = &s->history[2 * (size_t)neuron];
    h[0] += h[0] < UINT32_MAX;
    h[1] = s->now;
}

static void lfru_insert(struct hearth_cache_space *s, uint32_t neuron)
{
    s->history[2 * (size_t)neuron] = 0;
}

static uint32_t lfru_score(const struct hearth_cache_space *s, uint32_t id)
{
    const uint32_t *h = &s->history[2 * (size_t)id];
    uint64_t score = ((uint64_t)h[0] << 12) / (s->now - h[1] + 1u);
    return score < UINT32_MAX ? (uint32_t)score : UINT32_MAX;
}

static void lfru_trim(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t n)
{
    TRIM_BY(lfru_score(s, id));
}

// ---- decayed frequency
//
// A neuron's worth is C = sum over its uses of 2^(-age / half life). All worths decay alike, so only uses
// change their order. The word log2 C + now / half life, in 1/1024, keeps the same order as time goes on; once
// in a million visits that much time is taken off all words, which would not hold more. A use adds 1 to C,
// which is the logarithm of a sum, from a table. 0 means never used.

#define ORIGIN   (64u * HEARTH_CACHE_LOG_UNITS) // keeps the logarithm of small worths above 0
#define NO_WORTH 1e-12

static uint32_t units_of(uint32_t visits, uint32_t half_life)
{
    return (uint32_t)((uint64_t)visits * HEARTH_CACHE_LOG_UNITS / half_life);
}

static uint32_t time_of(const struct hearth_cache_space *s, uint32_t half_life)
{
    return ORIGIN + units_of(s->now, half_life);
}

// Takes the time of so many visits off the words at `first`, first + step, ... What becomes less than 0 is as if never
// used.
static void take_off(struct hearth_cache_space *s, uint32_t first, uint32_t step, uint32_t half_life,
                     uint32_t visits)
{
    const uint32_t off = units_of(s->now, half_life) - units_of(s->now - visits, half_life);
    for (size_t i = 0; i < s->n_neurons; i++) {
        uint32_t *word = &s->history[first + i * step];
        *word = *word > off ? *word - off : 0;
    }
}

// log2(2^a + 2^b) in 1/1024.
static uint32_t add_logs(const struct hearth_cache *c, uint32_t a, uint32_t b)
{
    uint32_t more = a > b ? a : b, less = a > b ? b : a;
    uint32_t d = (more - less + HEARTH_CACHE_LOG_STEP / 2) / HEARTH_CACHE_LOG_STEP;
    return more + (d < HEARTH_CACHE_LOG_TABLE ? c->log_table[d] : 0);
}

static void decayed_touch(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    s->history[neuron] = add_logs(c, s->history[neuron], time_of(s, c->half_life));
}

static void decayed_age(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t visits)
{
    take_off(s, 0, 1, c->half_life, visits);
    s->now -= visits;
}

static void decayed_trim(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t n)
{
    TRIM_BY(s->history[id]);
}

// The long-run worth of a neuron with this share of activity: share / (1 - 2^(-1 / half life)).
static uint32_t seed_of(const struct hearth_cache_space *s, uint32_t half_life, float share)
{
    double worth = (share > 0 ? share < 1 ? (double)share : 1.0 : 0.0) / (1 - exp2(-1.0 / half_life));
    double log_now = time_of(s, half_life);
    return worth > NO_WORTH ? (uint32_t)lrint(log_now + HEARTH_CACHE_LOG_UNITS * log2(worth)) : 0;
}

static void decayed_seed(const struct hearth_cache *c, struct hearth_cache_space *s, const float *share)
{
    for (uint32_t i = 0; i < s->n_neurons; i++)
        s->history[i] = seed_of(s, c->half_life, share[i]);
}

// ---- decayed frequency at two speeds
//
// Frequent use and recent use both count: a slow worth and a fast one, in which a single use
// counts as much as a few slow ones. The history has two words, slow first. The two decay
// differently, so they are added when they are needed.

#define FAST_HALF_LIFE 2
#define FAST_WEIGHT    0.3 // weight in shares of visits; times the factor that turns sums of uses into shares

static void two_speed_touch(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    uint32_t *h = &s->history[2 * (size_t)neuron];
    h[0] = add_logs(c, h[0], time_of(s, c->half_life));
    h[1] = add_logs(c, h[1], time_of(s, FAST_HALF_LIFE));
}

static void two_speed_age(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t visits)
{
    take_off(s, 0, 2, c->half_life, visits);
    take_off(s, 1, 2, FAST_HALF_LIFE, visits);
    s->now -= visits;
}

// The logarithm of a worth at time now, with ORIGIN for 1.
static uint32_t left_of(uint32_t word, uint32_t now)
{
    return word + ORIGIN > now ? word + ORIGIN - now : 0;
}

// Uses say what a neuron did. A predictor's score says how near it is to doing it again: of two neurons that
// were not named, the one that was nearly named comes first. Scores are divided by the usual score of the
// space, so that their unit does not matter, and count up to SCORE_LIMIT times that.
#define SCORE_LIMIT  3.0f
#define SCORE_WEIGHT 2.0f // doublings of worth for a usual score

static float usual_score(const struct hearth_cache_space *s)
{
    float lanes[16] = {0}, sum = 0;
    const uint32_t whole = s->n_neurons / 16 * 16;
    for (uint32_t i = 0; i < whole; i += 16)
        for (uint32_t k = 0; k < 16; k++)
            lanes[k] += fabsf(s->scores[i + k]);
    for (uint32_t k = 0; k < 16; k++)
        sum += lanes[k];
    return whole ? sum / (float)whole : 0;
}

static uint32_t score_worth(const struct hearth_cache_space *s, uint32_t id, float scale)
{
    float score = s->scores[id] * scale;
    score = score > -SCORE_LIMIT ? score < SCORE_LIMIT ? score : SCORE_LIMIT : -SCORE_LIMIT; // NaN becomes
                                                                                             // the least
    return (uint32_t)((score + SCORE_LIMIT) * SCORE_WEIGHT * HEARTH_CACHE_LOG_UNITS);
}

static void two_speed_trim(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t n)
{
    double slow_visits = 1 / (1 - exp2(-1.0 / c->half_life)),
           fast_visits = 1 / (1 - exp2(-1.0 / FAST_HALF_LIFE));
    double weight = log2(FAST_WEIGHT * slow_visits / fast_visits); // in uses: near 2 by default
    uint32_t slow = time_of(s, c->half_life);
    uint32_t fast = time_of(s, FAST_HALF_LIFE) - (uint32_t)(int32_t)lrint(weight * HEARTH_CACHE_LOG_UNITS);
#define WORTH                                                                                                \
    add_logs(c, left_of(s->history[2 * (size_t)id], slow), left_of(s->history[2 * (size_t)id + 1], fast))
    const float usual = s->scores ? usual_score(s) : 0;
    const float scale = usual > 0 && usual < INFINITY ? 1 / usual : 0;
    if (scale > 0)
        TRIM_BY(WORTH + score_worth(s, id, scale));
    else
        TRIM_BY(WORTH);
#undef WORTH
}

static void two_speed_seed(const struct hearth_cache *c, struct hearth_cache_space *s, const float *share)
{
    for (uint32_t i = 0; i < s->n_neurons; i++) {
        s->history[2 * (size_t)i] = seed_of(s, c->half_life, share[i]);
        s->history[2 * (size_t)i + 1] = seed_of(s, FAST_HALF_LIFE, share[i]);
    }
}

// ---- S3-FIFO
//
// Three queues, as rings of F entries. A neuron's words hold its queue, its number of uses (0..3), and its
// own ring position, because the ghost ring keeps entries of neurons that have come back.

enum { SMALL, MAIN, GHOST, NOWHERE };
#define S3_USES(word)        ((word) >> 2)
#define S3_WORD(queue, uses) ((uint32_t)(uses) << 2 | (uint32_t)((queue) + 1) % 4)

static uint32_t s3_queue(uint32_t word) // a word of 0 is NOWHERE
{
    return (word + 3) % 4;
}

static uint32_t *ring_at(struct hearth_cache_space *s, uint32_t queue, uint32_t position)
{
    return &s->queue[(size_t)queue * s->n_neurons + position % s->n_neurons];
}

static uint32_t s3_size(const struct hearth_cache_space *s, uint32_t queue)
{
    return s->tail[queue] - s->head[queue];
}

static void s3_push(struct hearth_cache_space *s, uint32_t queue, uint32_t neuron, uint32_t uses)
{
    s->history[2 * (size_t)neuron] = S3_WORD(queue, uses);
    s->history[2 * (size_t)neuron + 1] = s->tail[queue];
    *ring_at(s, queue, s->tail[queue]++) = neuron;
}

static void s3_touch(const struct hearth_cache *c, struct hearth_cache_space *s, uint32_t neuron)
{
    (void)c;
    // The use that brings a neuron in does not count.
    uint32_t *word = &s->history[2 * (size_t)neuron];
    if ((s->mark[neuron] & HEARTH_CACHE_STATE_BITS) == HEARTH_CACHE_PRESENT && S3_USES(*word) < 3)
        *word += 4;
}

static void s3_insert(struct hearth_cache_space *s, uint32_t neuron)
{
    bool ghost = s3_queue(s->history[2 * (size_t)neuron]) == GHOST;
    s3_push(s, ghost ? MAIN : SMALL, neuron, 0);
}

static void s3_remove(struct hearth_cache_space *s, uint32_t neuron)
{
    uint32_t queue = s3_queue(s->history[2 * (size_t)neuron]);
    s->history[2 * (size_t)neuron] = 0;
    uint32_t i = s->history[2 * (size_t)neuron + 1];
    for (; i + 1 != s->tail[queue]; i++) {
        uint32_t moved = *ring_at(s, queue, i) = *ring_at(s, queue, i + 1);
        s->history[2 * (size_t)moved + 1] = i;
    }
    s->tail[queue]--;
}

// Adds an evicted neuron to the ghost queue. The ghost queue holds as many as the main queue may
// have; beyond that it forgets the oldest.
static void s3_remember(struct hearth_cache_space *s, uint32_t neuron)
{
    uint32_t most = s->quota - s->quota / 10;
    while (s3_size(s, GHOST) && s3_size(s, GHOST) >= most) {
        uint32_t position = s->head[GHOST]++, old = *ring_at(s, GHOST, position);
        uint32_t *h = &s->history[2 * (size_t)old];
        if (s3_queue(h[0]) == GHOST && h[1] == position)
            h[0] = 0;
    }
    s3_push(s, GHOST, neuron, 0);
}

// Takes the oldest neuron of a queue: evicts it, or gives it another round. True: it was evicted.
static bool s3_take(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t queue)
{
    uint32_t neuron = *ring_at(s, queue, s->head[queue]++);
    uint32_t uses = S3_USES(s->history[2 * (size_t)neuron]);
    if (!hearth_cache_evictable(s, neuron)) {
        s3_push(s, queue, neuron, uses);
    } else if (queue == SMALL && uses > 1) {
        s3_push(s, MAIN, neuron, 0);
    } else if (queue == MAIN && uses > 0) {
        s3_push(s, MAIN, neuron, uses - 1);
    } else {
        hearth_cache_evict(c, s, neuron);
        s->history[2 * (size_t)neuron] = 0;
        if (queue == SMALL)
            s3_remember(s, neuron);
        return true;
    }
    return false;
}

static void s3_trim(struct hearth_cache *c, struct hearth_cache_space *s, uint32_t n)
{
    uint32_t evictable[2] = {0, 0}; // evictable neurons of SMALL and MAIN
    for (uint32_t q = SMALL; q <= MAIN; q++)
        for (uint32_t i = s->head[q]; i != s->tail[q]; i++)
            evictable[q] += hearth_cache_evictable(s, *ring_at(s, q, i));
    // Every neuron leaves after a few rounds, so this ends.
    while (n && evictable[SMALL] + evictable[MAIN]) {
        bool small = evictable[SMALL] && (s3_size(s, SMALL) > s->quota / 10 || !evictable[MAIN]);
        uint32_t in_main = s3_size(s, MAIN);
        bool evicted = s3_take(c, s, small ? SMALL : MAIN);
        n -= evicted;
        evictable[small ? SMALL : MAIN] -= evicted;
        if (small && s3_size(s, MAIN) > in_main) {
            evictable[SMALL]--;
            evictable[MAIN]++;
        }
    }
}

// ---- the table

static const struct hearth_cache_policy policies[] = {
    {"twospeed", 2, 0, two_speed_touch, no_bookkeeping, no_bookkeeping, two_speed_trim, two_speed_seed,
     two_speed_age},
    {"decayed", 1, 0, decayed_touch, no_bookkeeping, no_bookkeeping, decayed_trim, decayed_seed, decayed_age},
    {"lru", 1, 0, lru_touch, no_bookkeeping, no_bookkeeping, lru_trim, NULL, NULL},
    {"lfru", 2, 0, lfru_touch, lfru_insert, no_bookkeeping, lfru_trim, NULL, NULL},
    {"s3fifo", 2, 3, s3_touch, s3_insert, s3_remove, s3_trim, NULL, NULL},
};

const struct hearth_cache_policy *hearth_cache_policy_at(int i)
{
    return i >= 0 && i < (int)(sizeof policies / sizeof *policies) ? &policies[i] : NULL;
}

const struct hearth_cache_policy *hearth_cache_policy_find(const char *name)
{
    const struct hearth_cache_policy *p;
    for (int i = 0; (p = hearth_cache_policy_at(i)) != NULL; i++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

const char *hearth_cache_policy_name(const struct hearth_cache_policy *p)
{
    return p->name;
}
