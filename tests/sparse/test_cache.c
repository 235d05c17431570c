// SPDX-License-Identifier: MIT
// The neuron cache: choices of each policy worked out by hand or by a naive model, bytes that stay right
// whatever moves, quotas and sizes that change, waves, failures, the warm start.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sparse/cache.h"

#define MAX_READS 512

static uint32_t seed = 1;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * n >> 24);
}

// ---- a pretended file: every byte follows from its offset ----

static uint8_t file_byte(uint64_t offset)
{
    return (uint8_t)((offset * 0x9E3779B97F4A7C15u) >> 56);
}

static void file_read(const struct hearth_cache_read *r)
{
    for (uint32_t i = 0; i < r->length; i++)
        ((uint8_t *)r->dst)[i] = file_byte(r->offset + i);
}

static void assert_bundle(const struct hearth_cache *c, const struct hearth_cache_space_params *s,
                          uint32_t space, uint32_t neuron)
{
    const uint8_t *p = hearth_cache_bundle(c, space, neuron);
    assert_non_null(p);
    for (uint32_t i = 0; i < s[space].bundle_bytes; i++)
        if (p[i] != file_byte(s[space].file_offset + (uint64_t)neuron * s[space].bundle_bytes + i))
            fail_msg("space %u neuron %u: byte %u is wrong", space, neuron, i);
}

static void assert_all_bundles(const struct hearth_cache *c, const struct hearth_cache_space_params *s,
                               uint32_t n_spaces)
{
    for (uint32_t i = 0; i < n_spaces; i++)
        for (uint32_t j = 0; j < s[i].n_neurons; j++)
            if (hearth_cache_state(c, i, j) == HEARTH_CACHE_PRESENT)
                assert_bundle(c, s, i, j);
}

static struct hearth_cache *open_cache(const struct hearth_cache_params *p)
{
    struct hearth_error err = {0};
    struct hearth_cache *c;
    if (hearth_cache_open(&c, p, &err))
        fail_msg("%s", err.message);
    return c;
}

// One space without memory.
static struct hearth_cache *open_one(const char *policy, uint32_t n_neurons, uint32_t quota)
{
    struct hearth_cache_space_params s = {.n_neurons = n_neurons, .bundle_bytes = 512, .quota = quota};
    return open_cache(&(struct hearth_cache_params){.policy = hearth_cache_policy_find(policy),
                                                    .n_spaces = 1,
                                                    .spaces = &s,
                                                    .align = 1,
                                                    .reserve = n_neurons,
                                                    .slab_bytes = 65536,
                                                    .no_memory = true});
}

// A whole step in one space: request, reads, release. Returns the number of misses.
static uint32_t use(struct hearth_cache *c, uint32_t space, const uint32_t *ids, uint32_t n)
{
    static struct hearth_cache_read reads[MAX_READS];
    uint32_t misses = 0;
    hearth_cache_step(c);
    while (n) {
        uint32_t n_reads, done = hearth_cache_request(c, space, ids, n, reads, MAX_READS, &n_reads);
        assert_true(done > 0);
        for (uint32_t i = 0; i < n_reads; i++) {
            if (reads[i].dst)
                file_read(&reads[i]);
            hearth_cache_done(c, &reads[i], true);
        }
        hearth_cache_release(c, space, ids, done);
        misses += n_reads;
        ids += done;
        n -= done;
    }
    return misses;
}

#define USE(c, ...)                                                                                          \
    use(c, 0, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

// What space 0 holds, as letters: 0 is a.
static const char *held(const struct hearth_cache *c, uint32_t n_neurons)
{
    static char text[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_neurons; i++)
        if (hearth_cache_state(c, 0, i) == HEARTH_CACHE_PRESENT)
            text[n++] = (char)('a' + i);
    text[n] = '\0';
    return text;
}

// ---- policies by hand ----

static void lru_by_hand(void **state)
{
    (void)state;
    struct hearth_cache *c = open_one("lru", 8, 3);
    assert_int_equal(USE(c, 0, 1), 2);
    assert_int_equal(USE(c, 2), 1);
    assert_string_equal(held(c, 8), "abc");
    assert_int_equal(USE(c, 0), 0);
    assert_int_equal(USE(c, 3), 1); // b is the oldest
    assert_string_equal(held(c, 8), "acd");
    assert_int_equal(USE(c, 4, 5, 6, 7), 4); // of one age: the highest id goes
    assert_string_equal(held(c, 8), "efg");
    struct hearth_cache_stats s = hearth_cache_stats(c);
    assert_int_equal(s.hits, 1);
    assert_int_equal(s.misses, 8);
    assert_int_equal(s.evictions, 5);
    hearth_cache_close(&c);
}

static void lfru_by_hand(void **state)
{
    (void)state;
    struct hearth_cache *c = open_one("lfru", 8, 2);
    USE(c, 0);
    USE(c, 0);
    USE(c, 0);
    USE(c, 1);
    USE(c, 2); // uses / (visits since + 1): a 3/3, b 1/2, c 1/1; of a and c as equals b is lowest
    assert_string_equal(held(c, 8), "ac");
    USE(c, 3); // a 3/4, c 1/2, d 1
    assert_string_equal(held(c, 8), "ad");
    USE(c, 4); // a 3/5, d 1/2, e 1
    assert_string_equal(held(c, 8), "ae");
    USE(c, 5); // a 3/6, e 1/2: equal, the higher id goes
    assert_string_equal(held(c, 8), "af");
    USE(c, 5); // nothing comes in
    USE(c, 6); // a 3/8, f 2/2, g 1
    assert_string_equal(held(c, 8), "fg");
    USE(c, 0); // uses count from 1 again: a 1, f 2/3, g 1/2
    assert_string_equal(held(c, 8), "af");
    hearth_cache_close(&c);
}

static void decayed_by_hand(void **state)
{
    (void)state;
    struct hearth_cache_space_params s = {.n_neurons = 8, .bundle_bytes = 512, .quota = 2};
    struct hearth_cache *c =
        open_cache(&(struct hearth_cache_params){.policy = hearth_cache_policy_find("decayed"),
                                                 .half_life = 2,
                                                 .n_spaces = 1,
                                                 .spaces = &s,
                                                 .align = 1,
                                                 .reserve = 8,
                                                 .slab_bytes = 65536,
                                                 .no_memory = true});
    USE(c, 0, 1);
    USE(c, 0); // a 1 + 0.71, b 0.71
    USE(c, 2); // a 1.21, b 0.5, c 1
    assert_string_equal(held(c, 8), "ac");
    USE(c, 3); // a 0.85, c 0.71, d 1
    assert_string_equal(held(c, 8), "ad");
    USE(c, 1); // b, which was forgotten by memory but not by the policy: 1 + 0.25 ; a 0.60, d 0.71
    assert_string_equal(held(c, 8), "bd");
    USE(c, 0); // a 1 + 0.43, b 0.88, d 0.5
    assert_string_equal(held(c, 8), "ab");
    USE(c, 4, 5); // a 1.01, b 0.63, e 1, f 1
    assert_string_equal(held(c, 8), "ae");
    hearth_cache_close(&c);
}

// By hand: half lives 32 and 2. One use now is worth 0.0214 + 0.3 * 0.293 = 0.109, of which the second part
// halves in two visits; a neuron used in each of 16 visits is worth 0.29 + 0.3 at once, and 0.27 + 0.02 eight
// visits later.
static void two_speeds_by_hand(void **state)
{
    (void)state;
    struct hearth_cache *c = open_one("twospeed", 12, 2);
    assert_string_equal(hearth_cache_policy_name(hearth_cache_policy_at(0)), "twospeed");
    for (int i = 0; i < 16; i++)
        USE(c, 0);
    USE(c, 1);
    USE(c, 2); // b, one visit old, is worth less than c
    assert_string_equal(held(c, 12), "ac");
    for (uint32_t i = 3; i < 9; i++)
        USE(c, i); // a stays through all of them
    assert_string_equal(held(c, 12), "ai");
    USE(c, 9, 10, 11); // equal but for a: the lowest id
    assert_string_equal(held(c, 12), "aj");
    hearth_cache_close(&c);
}

// What was hot for longer than a word can count the time of makes room for what is hot now.
static void after_millions_of_visits(void **state)
{
    (void)state;
    static const char *const names[] = {"twospeed", "decayed"};
    for (int i = 0; i < 2; i++) {
        struct hearth_cache *c = open_one(names[i], 12, 2);
        for (int k = 0; k < 8500000; k++)
            USE(c, 0);
        for (int k = 0; k < 400; k++)
            USE(c, 1);
        assert_string_equal(held(c, 12), "ab");
        USE(c, 2);
        assert_string_equal(held(c, 12), "bc");
        hearth_cache_close(&c);
    }
}

static void s3fifo_by_hand(void **state)
{
    (void)state;
    struct hearth_cache *c = open_one("s3fifo", 12, 4); // a small queue of 0: what exceeds it leaves first
    USE(c, 0, 1, 2, 3);
    USE(c, 0, 1);
    USE(c, 0);
    USE(c, 4); // small: a (2 uses) goes to main, b (1 use) is evicted
    assert_string_equal(held(c, 12), "acde");
    USE(c, 1); // b comes back from the ghosts into main; small: c is evicted
    assert_string_equal(held(c, 12), "abde");
    USE(c, 5); // d
    assert_string_equal(held(c, 12), "abef");
    USE(c, 3); // d into main; e
    assert_string_equal(held(c, 12), "abdf");
    USE(c, 4); // e into main; f. Main: a, b, d, e
    assert_string_equal(held(c, 12), "abde");
    USE(c, 0);
    USE(c, 5); // f into main; small is empty, a was used and goes round, b is evicted
    assert_string_equal(held(c, 12), "adef");
    hearth_cache_close(&c);
}

// ---- policies against a naive model ----

#define N 64

// Which ids to use: skewed, and about a third as the step before.
static uint32_t skewed_ids(uint32_t *ids, bool *last)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t share = 4 + 600 / (i + 4); // of 1000
        if (last[i])
            share += 300;
        last[i] = random_below(1000) < share;
        if (last[i])
            ids[n++] = i;
    }
    return n;
}

static void lru_against_a_list(void **state)
{
    (void)state;
    uint32_t quota = 20, ids[N], order[2 * N], n_order = 0; // order: the most recent first
    bool last[N] = {false};
    struct hearth_cache *c = open_one("lru", N, quota);
    for (int step = 0; step < 500; step++) {
        uint32_t n = skewed_ids(ids, last), misses = 0, kept = n;
        uint32_t next[2 * N];
        memcpy(next, ids, n * sizeof *ids);
        for (uint32_t i = 0; i < n; i++) {
            bool hit = false;
            for (uint32_t j = 0; j < n_order; j++)
                hit |= order[j] == ids[i];
            misses += !hit;
        }
        for (uint32_t j = 0; j < n_order; j++)
            if (!last[order[j]])
                next[kept++] = order[j];
        n_order = kept < quota ? kept : quota;
        memcpy(order, next, n_order * sizeof *order);
        assert_int_equal(use(c, 0, ids, n), misses);
        assert_int_equal(hearth_cache_n_cached(c, 0), n_order);
        for (uint32_t j = 0; j < n_order; j++)
            assert_int_equal(hearth_cache_state(c, 0, order[j]), HEARTH_CACHE_PRESENT);
    }
    hearth_cache_close(&c);
}

// Nothing is kept that is worth clearly less, by the definition in real numbers, than something that was
// dropped.
static void against_real_numbers(const char *policy, double fast_weight)
{
    uint32_t quota = 20, ids[N];
    bool last[N] = {false}, was[N] = {false};
    double slow[N] = {0}, fast[N] = {0}, worth[N];
    double decay = exp2(-1.0 / HEARTH_CACHE_HALF_LIFE), fast_decay = exp2(-1.0 / 2);
    struct hearth_cache *c = open_one(policy, N, quota);
    for (int step = 0; step < 5000; step++) {
        uint32_t n = skewed_ids(ids, last);
        if (n == 0)
            continue; // no visit
        for (uint32_t i = 0; i < N; i++) {
            slow[i] = slow[i] * decay + last[i];
            fast[i] = fast[i] * fast_decay + last[i];
            worth[i] = slow[i] * (1 - decay) + fast_weight * fast[i] * (1 - fast_decay);
            was[i] = hearth_cache_state(c, 0, i) == HEARTH_CACHE_PRESENT;
        }
        use(c, 0, ids, n);
        double dropped = 0, kept = 1e9;
        for (uint32_t i = 0; i < N; i++) {
            bool is = hearth_cache_state(c, 0, i) == HEARTH_CACHE_PRESENT;
            if (is && worth[i] < kept)
                kept = worth[i];
            if (!is && (was[i] || last[i]) && worth[i] > dropped)
                dropped = worth[i];
        }
        if (dropped > kept * 1.02)
            fail_msg("%s, step %d: kept %.4f, dropped %.4f", policy, step, kept, dropped);
    }
    hearth_cache_close(&c);
}

static void decayed_against_real_numbers(void **state)
{
    (void)state;
    against_real_numbers("decayed", 0);
    against_real_numbers("twospeed", 0.3);
}

static void quotas_hold(void **state)
{
    (void)state;
    const struct hearth_cache_policy *p;
    for (int k = 0; (p = hearth_cache_policy_at(k)) != NULL; k++) {
        uint32_t ids[N];
        bool last[N] = {false};
        struct hearth_cache *c = open_one(hearth_cache_policy_name(p), N, 20);
        uint64_t asked = 0, misses = 0;
        for (int step = 0; step < 1000; step++) {
            uint32_t n = skewed_ids(ids, last);
            asked += n;
            misses += use(c, 0, ids, n);
            assert_true(hearth_cache_n_cached(c, 0) <= 20);
        }
        struct hearth_cache_stats s = hearth_cache_stats(c);
        assert_int_equal(s.hits + s.misses, asked);
        assert_int_equal(s.misses, misses);
        assert_int_equal(s.evictions, misses - hearth_cache_n_cached(c, 0));
        // A cache of 20 of 64 neurons does far better than 20/64 here, whatever the policy.
        assert_true((double)s.hits > 0.45 * (double)asked);
        hearth_cache_close(&c);
    }
    assert_null(hearth_cache_policy_find("belady"));
}

// ---- bytes ----

static const struct hearth_cache_space_params mixed[] = {
    {.n_neurons = 200, .bundle_bytes = 7168, .file_offset = 4096, .quota = 40},
    {.n_neurons = 100, .bundle_bytes = 512, .file_offset = 4096 + 200 * 7168, .quota = 30},
    {.n_neurons = 150, .bundle_bytes = 8192, .file_offset = UINT64_C(1) << 33, .quota = 20, .resident = 10},
};

static struct hearth_cache_params mixed_params(uint32_t align)
{
    return (struct hearth_cache_params){
        .n_spaces = 3, .spaces = mixed, .align = align, .reserve = 24, .slab_bytes = 65536};
}

// Slots hold what an aligned read of their bundle spans at worst.
static void slot_sizes(void **state)
{
    (void)state;
    assert_int_equal(hearth_cache_slot_bytes(7168, 4096, 512), 7168);
    assert_int_equal(hearth_cache_slot_bytes(7168, 4096, 1), 7168);
    assert_int_equal(hearth_cache_slot_bytes(7168, 4096, 4096), 12288); // from 3072 into a block
    assert_int_equal(hearth_cache_slot_bytes(8192, 4096, 4096), 8192);
    assert_int_equal(hearth_cache_slot_bytes(8192, 512, 4096), 12288);
    assert_int_equal(hearth_cache_slot_bytes(100, 0, 1), 128);
    for (uint32_t align = 128; align <= 4096; align *= 2)
        for (uint32_t stride = 64; stride < 20000; stride += 64)
            for (uint64_t neuron = 0; neuron < 64; neuron++) {
                uint64_t first = 192 + neuron * stride, end = first + stride;
                first &= ~(uint64_t)(align - 1);
                end = (end + align - 1) & ~(uint64_t)(align - 1);
                assert_true(end - first <= hearth_cache_slot_bytes(stride, 192, align));
            }
}

static void bytes_are_right(void **state)
{
    (void)state;
    for (uint32_t align = 1; align <= 4096; align = align == 1 ? 512 : align * 8) {
        struct hearth_cache_params p = mixed_params(align);
        struct hearth_cache *c = open_cache(&p);
        for (int step = 0; step < 60; step++)
            for (uint32_t space = 0; space < 3; space++) {
                uint32_t ids[8], n = 0;
                for (uint32_t id = random_below(20); id < mixed[space].n_neurons && n < 8;
                     id += 1 + random_below(30))
                    ids[n++] = id;
                struct hearth_cache_read reads[8];
                uint32_t n_reads;
                hearth_cache_step(c);
                assert_int_equal(hearth_cache_request(c, space, ids, n, reads, 8, &n_reads), n);
                for (uint32_t i = 0; i < n_reads; i++) {
                    assert_int_equal(reads[i].offset % align, 0);
                    assert_int_equal(reads[i].length % align, 0);
                    assert_int_equal((uintptr_t)reads[i].dst % align, 0);
                    uint64_t end = mixed[space].file_offset +
                                   (reads[i].neuron + UINT64_C(1)) * mixed[space].bundle_bytes;
                    assert_int_equal(reads[i].offset + reads[i].need, end);
                    size_t size;
                    uint8_t *base = hearth_cache_region(c, &size), *dst = reads[i].dst;
                    assert_true(dst >= base && dst + reads[i].length <= base + size);
                    file_read(&reads[i]);
                    hearth_cache_done(c, &reads[i], true);
                }
                for (uint32_t i = 0; i < n; i++)
                    if (ids[i] >= mixed[space].resident)
                        assert_bundle(c, mixed, space, ids[i]);
                hearth_cache_release(c, space, ids, n);
            }
        assert_all_bundles(c, mixed, 3);
        struct hearth_cache_stats s = hearth_cache_stats(c);
        assert_true(s.resident > 0 && s.hits > 0 && s.misses > 0);
        hearth_cache_close(&c);
    }
}

static void pinned_and_loading_stay(void **state)
{
    (void)state;
    struct hearth_cache *c = open_one("lru", 8, 1);
    struct hearth_cache_read reads[8], more[8];
    uint32_t n_reads, n_more;
    const uint32_t first[] = {0, 1}, second[] = {2, 3};
    hearth_cache_step(c);
    assert_int_equal(hearth_cache_request(c, 0, first, 2, reads, 8, &n_reads), 2);
    assert_int_equal(n_reads, 2);
    hearth_cache_done(c, &reads[0], true);
    // Both halves of a step: a is pinned, b loading, whatever the other half lets go.
    assert_int_equal(hearth_cache_request(c, 0, second, 2, more, 8, &n_more), 2);
    hearth_cache_done(c, &more[0], true);
    hearth_cache_done(c, &more[1], true);
    hearth_cache_release(c, 0, second, 2);
    assert_string_equal(held(c, 8), "a");
    assert_int_equal(hearth_cache_state(c, 0, 1), HEARTH_CACHE_LOADING);
    // A second request for what is loading waits for the same read.
    assert_int_equal(hearth_cache_request(c, 0, first, 2, more, 8, &n_more), 2);
    assert_int_equal(n_more, 0);
    assert_int_equal(hearth_cache_stats(c).late_hits, 1);
    hearth_cache_done(c, &reads[1], true);
    hearth_cache_release(c, 0, first, 2);
    assert_string_equal(held(c, 8), "ab"); // still pinned by the first request
    hearth_cache_release(c, 0, first, 2);
    assert_string_equal(held(c, 8), "a");
    hearth_cache_close(&c);
}

static void failed_read(void **state)
{
    (void)state;
    const struct hearth_cache_policy *p;
    for (int k = 0; (p = hearth_cache_policy_at(k)) != NULL; k++) {
        struct hearth_cache *c = open_one(hearth_cache_policy_name(p), 8, 4);
        struct hearth_cache_read reads[8];
        uint32_t n_reads;
        const uint32_t ids[] = {0, 1, 2};
        USE(c, 3, 4);
        hearth_cache_step(c);
        hearth_cache_request(c, 0, ids, 3, reads, 8, &n_reads);
        hearth_cache_done(c, &reads[0], true);
        hearth_cache_done(c, &reads[1], false);
        hearth_cache_done(c, &reads[2], true);
        assert_int_equal(hearth_cache_state(c, 0, 1), HEARTH_CACHE_ABSENT);
        assert_null(hearth_cache_bundle(c, 0, 1));
        hearth_cache_release(c, 0, (const uint32_t[]){0, 2}, 2);
        assert_int_equal(hearth_cache_n_cached(c, 0), 4);
        assert_int_equal(USE(c, 1), 1);
        assert_int_equal(USE(c, 1), 0);
        hearth_cache_close(&c);
    }
}

// A reserve far smaller than what a step needs: it is dealt with in waves, and hits of the same step survive.
static void waves(void **state)
{
    (void)state;
    const struct hearth_cache_policy *p;
    for (int k = 0; (p = hearth_cache_policy_at(k)) != NULL; k++) {
        struct hearth_cache_space_params s = {.n_neurons = 300, .bundle_bytes = 65536 / 2, .quota = 6};
        struct hearth_cache *c = open_cache(&(struct hearth_cache_params){
            .policy = p, .n_spaces = 1, .spaces = &s, .align = 512, .reserve = 4, .slab_bytes = 65536});
        uint32_t ids[100];
        for (uint32_t i = 0; i < 100; i++)
            ids[i] = 3 * i;
        assert_int_equal(use(c, 0, ids, 100), 100);
        assert_true(hearth_cache_n_cached(c, 0) <= 6);
        assert_int_equal(hearth_cache_bytes(c), 5 * 65536);
        for (int round = 0; round < 20; round++)
            use(c, 0, (const uint32_t[]){0, 3, 6, 9, 12, 15}, 6);
        // Ten slots: six hits are pinned, so only four of these fit at once.
        const uint32_t mixed_ids[] = {100, 101, 102, 103, 104, 0, 3, 6, 9, 12, 15};
        struct hearth_cache_read reads[16];
        uint32_t n_reads;
        hearth_cache_step(c);
        assert_int_equal(hearth_cache_request(c, 0, mixed_ids, 11, reads, 16, &n_reads), 4);
        for (uint32_t i = 0; i < n_reads; i++)
            hearth_cache_done(c, &reads[i], true);
        hearth_cache_release(c, 0, mixed_ids, 4);
        // And reads[] may be short as well.
        assert_int_equal(hearth_cache_request(c, 0, mixed_ids + 4, 1, reads, 0, &n_reads), 0);
        hearth_cache_close(&c);
    }
}

static void prefetched(void **state)
{
    (void)state;
    struct hearth_cache_params p = mixed_params(512);
    struct hearth_cache *c = open_cache(&p);
    struct hearth_cache_read reads[64], more[64];
    uint32_t ids[64], n_reads;
    for (uint32_t i = 0; i < 64; i++)
        ids[i] = i + 5;
    uint32_t n = hearth_cache_prefetch(c, 2, ids, 64, 14, reads, 64);
    // Quota 20 + reserve 24 = 44 slots of 8 KiB in 6 slabs of 8: 48, of which 14 stay free, save slab
    // rounding; ids 5 to 9 are resident. Other sizes' slabs are not taken before they are needed.
    assert_true(n >= 30 && n <= 59);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(reads[i].neuron, 10 + i);
    hearth_cache_step(c);
    assert_int_equal(hearth_cache_request(c, 2, ids, 10, more, 64, &n_reads), 10);
    assert_int_equal(n_reads, 0);
    assert_int_equal(hearth_cache_stats(c).late_hits, 5);
    for (uint32_t i = 0; i < n; i++) {
        file_read(&reads[i]);
        hearth_cache_done(c, &reads[i], true);
    }
    hearth_cache_release(c, 2, ids, 10);
    assert_int_equal(hearth_cache_n_cached(c, 2), 20);
    for (uint32_t i = 10; i < 15; i++)
        assert_bundle(c, mixed, 2, i); // those that were used are the ones that stay
    hearth_cache_close(&c);
}

// ---- changes between steps ----

static void budget(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    struct hearth_cache_params p = mixed_params(512);
    struct hearth_cache_sizes sizes;
    assert_int_equal(hearth_cache_measure(&p, &sizes, &err), 0);
    // Slabs of 64 KiB: 9 slots of 7168, 128 of 512, 8 of 8192; each class needs quota + 24.
    assert_int_equal(sizes.region_bytes, (8 + 1 + 6) * 65536);
    struct hearth_cache *c = open_cache(&p);
    assert_int_equal(hearth_cache_bytes(c), sizes.region_bytes);
    assert_int_equal(hearth_cache_table_bytes(c), sizes.table_bytes);
    assert_int_equal(hearth_cache_set_quota(c, 2, 24, &err), 0); // 48 slots: still six slabs
    assert_int_equal(hearth_cache_set_quota(c, 2, 25, &err), HEARTH_E_BUDGET);
    assert_int_equal(hearth_cache_quota(c, 2), 24);
    assert_int_equal(hearth_cache_set_bytes(c, sizes.region_bytes - 1, &err), HEARTH_E_BUDGET);
    assert_int_equal(hearth_cache_set_bytes(c, sizes.region_bytes + 65536, &err), HEARTH_E_INVALID);
    hearth_cache_close(&c);
    p.bytes = sizes.region_bytes - 1;
    assert_int_equal(hearth_cache_open(&c, &p, &err), HEARTH_E_BUDGET);
    assert_null(c);
    assert_non_null(strstr(err.message, "983040"));
    p = mixed_params(3);
    assert_int_equal(hearth_cache_open(&c, &p, &err), HEARTH_E_INVALID);
    p = mixed_params(512);
    p.slab_bytes = 100000;
    assert_int_equal(hearth_cache_open(&c, &p, &err), HEARTH_E_INVALID);
    struct hearth_cache_space_params bad = {.n_neurons = 4, .bundle_bytes = 65537};
    p = (struct hearth_cache_params){.n_spaces = 1, .spaces = &bad, .align = 1, .slab_bytes = 65536};
    assert_int_equal(hearth_cache_open(&c, &p, &err), HEARTH_E_INVALID);
    bad = (struct hearth_cache_space_params){.n_neurons = 4, .bundle_bytes = 512, .resident = 5};
    assert_int_equal(hearth_cache_open(&c, &p, &err), HEARTH_E_INVALID);
}

static void random_step(struct hearth_cache *c, uint32_t space, uint32_t n_neurons)
{
    uint32_t ids[16], n = 0;
    for (uint32_t id = random_below(8); id < n_neurons && n < 16; id += 1 + random_below(id / 4 + 4))
        ids[n++] = id;
    use(c, space, ids, n);
}

// Quotas and the region's size wander; every bundle that is present has its bytes, and quotas
// hold.
static void everything_changes(void **state)
{
    (void)state;
    for (int k = 0; hearth_cache_policy_at(k); k++) {
        struct hearth_cache_params p = mixed_params(512);
        p.policy = hearth_cache_policy_at(k);
        p.max_bytes = 40 * 65536;
        struct hearth_cache *c = open_cache(&p);
        struct hearth_error err = {0};
        uint64_t settled = 0, refused = 0;
        for (int round = 0; round < 1500; round++) {
            uint32_t space = random_below(3);
            switch (random_below(6)) {
            case 0:
                refused += hearth_cache_set_quota(c, space, random_below(60), &err) != 0;
                break;
            case 1:
                refused += hearth_cache_set_bytes(c, random_below(41) * 65536, &err) != 0;
                break;
            case 2:
                settled += hearth_cache_settle(c, random_below(20)) == 0;
                break;
            default:
                random_step(c, space, mixed[space].n_neurons);
                assert_true(hearth_cache_n_cached(c, space) <= hearth_cache_quota(c, space));
            }
            if (round % 8 == 0)
                assert_all_bundles(c, mixed, 3);
        }
        assert_true(settled > 0 && refused > 0);
        // Down to nothing but what the reserve takes, and all of it back.
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(hearth_cache_set_quota(c, i, 0, &err), 0);
        assert_int_equal(hearth_cache_set_bytes(c, 8 * 65536, &err), 0);
        int calls = 1;
        while (hearth_cache_settle(c, 5))
            assert_true(++calls < 200);
        assert_int_equal(hearth_cache_bytes(c), 8 * 65536);
        for (uint32_t i = 0; i < 3; i++)
            random_step(c, i, mixed[i].n_neurons);
        hearth_cache_close(&c);
    }
}

// A size whose quotas shrink leaves its slabs to one whose quotas grow; what can move, moves.
static void slabs_change_size(void **state)
{
    (void)state;
    const struct hearth_cache_space_params two[] = {
        {.n_neurons = 100, .bundle_bytes = 8192, .file_offset = 0, .quota = 56},
        {.n_neurons = 100, .bundle_bytes = 16384, .file_offset = 1 << 20, .quota = 0},
    };
    struct hearth_cache *c = open_cache(&(struct hearth_cache_params){
        .n_spaces = 2, .spaces = two, .align = 512, .reserve = 8, .slab_bytes = 65536});
    struct hearth_error err = {0};
    uint32_t ids[64];
    for (uint32_t i = 0; i < 64; i++)
        ids[i] = i;
    assert_int_equal(hearth_cache_bytes(c), (8 + 2) * 65536);
    use(c, 0, ids, 56);
    assert_int_equal(hearth_cache_n_cached(c, 0), 56);
    assert_int_equal(hearth_cache_set_quota(c, 0, 40, &err), 0); // 6 slabs
    assert_int_equal(hearth_cache_set_quota(c, 1, 8, &err), 0);  // 4 slabs
    assert_int_equal(hearth_cache_set_quota(c, 1, 9, &err), HEARTH_E_BUDGET);
    use(c, 1, ids, 8); // finds its two slabs at once
    assert_int_equal(hearth_cache_n_cached(c, 1), 8);
    assert_int_equal(use(c, 1, ids, 16), 8); // and two more when it needs them
    hearth_cache_settle(c, 1000);
    assert_int_equal(hearth_cache_n_cached(c, 0), 40);
    assert_all_bundles(c, two, 2);
    hearth_cache_close(&c);
}

static void resident_prefix(void **state)
{
    (void)state;
    struct hearth_cache_params p = mixed_params(512);
    struct hearth_cache *c = open_cache(&p);
    uint32_t ids[20];
    for (uint32_t i = 0; i < 20; i++)
        ids[i] = i;
    assert_int_equal(use(c, 2, ids, 20), 10);
    assert_int_equal(hearth_cache_stats(c).resident, 10);
    assert_int_equal(hearth_cache_n_cached(c, 2), 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(hearth_cache_state(c, 2, i), HEARTH_CACHE_ABSENT);
    hearth_cache_close(&c);
}

// ---- start ----

static void load_range(struct hearth_cache *c, const struct hearth_cache_range *r)
{
    const struct hearth_cache_space_params *s = &mixed[r->space];
    assert_int_equal(r->offset, s->file_offset + (uint64_t)r->first * s->bundle_bytes);
    assert_int_equal(r->length, (uint64_t)r->n * s->bundle_bytes);
    for (uint32_t j = r->first; j < r->first + r->n; j++) {
        if (hearth_cache_state(c, r->space, j) != HEARTH_CACHE_LOADING)
            continue;
        uint8_t *to = hearth_cache_bundle(c, r->space, j);
        for (uint32_t b = 0; b < s->bundle_bytes; b++)
            to[b] = file_byte(r->offset + (uint64_t)(j - r->first) * s->bundle_bytes + b);
        hearth_cache_done(c, &(struct hearth_cache_read){.space = r->space, .neuron = j}, true);
    }
}

static void warm_start(void **state)
{
    (void)state;
    struct hearth_cache_params p = mixed_params(512);
    struct hearth_error err = {0};
    struct hearth_cache_range *ranges;
    size_t n;
    // Without a profile: the lowest ids, one piece a space, the resident prefix with it.
    struct hearth_cache *c = open_cache(&p);
    assert_int_equal(hearth_cache_warm_start(c, NULL, true, 1 << 20, 0, &ranges, &n, &err), 0);
    assert_int_equal(n, 3);
    const uint32_t ends[] = {40, 30, 30};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ranges[i].space, i);
        assert_int_equal(ranges[i].first, 0);
        assert_int_equal(ranges[i].n, ends[i]);
        load_range(c, &ranges[i]);
    }
    free(ranges);
    assert_all_bundles(c, mixed, 3);
    const uint32_t ids[] = {0, 10, 29};
    assert_int_equal(use(c, 2, ids, 3), 0);
    hearth_cache_close(&c);
    // With one: space 1 has its hot neurons apart.
    float share[100] = {0};
    for (uint32_t i = 0; i < 100; i++)
        share[i] = i % 10 < 2 ? 0.9f : i == 55 || i == 57 ? 0.5f : 0.01f;
    const float *shares[] = {NULL, share, NULL};
    for (uint32_t gap = 0; gap < 2; gap++) {
        c = open_cache(&p);
        assert_int_equal(hearth_cache_warm_start(c, shares, false, 16384, gap * 512, &ranges, &n, &err), 0);
        uint64_t at = 0;
        uint32_t wanted = 0, listed = 0;
        for (size_t i = 0; i < n; i++) {
            assert_true(ranges[i].offset >= at && ranges[i].length <= 16384);
            at = ranges[i].offset + ranges[i].length;
            listed += ranges[i].n;
            for (uint32_t j = ranges[i].first; j < ranges[i].first + ranges[i].n; j++)
                wanted += hearth_cache_state(c, ranges[i].space, j) == HEARTH_CACHE_LOADING;
            load_range(c, &ranges[i]);
        }
        free(ranges);
        assert_int_equal(wanted, 40 + 30 + 20);
        // The gap: 55 and 57, and of the rest the lowest ids: 2 to 9.
        assert_int_equal(listed, wanted + gap);
        for (uint32_t i = 0; i < 100; i++)
            assert_int_equal(hearth_cache_state(c, 1, i),
                             share[i] > 0.1f || i < 10 ? HEARTH_CACHE_PRESENT : HEARTH_CACHE_ABSENT);
        assert_all_bundles(c, mixed, 3);
        hearth_cache_close(&c);
    }
}

static void seeded(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct hearth_cache *c = open_one(k ? "twospeed" : "decayed", 8, 3);
        const float share[8] = {0, 0.9f, 0.001f, 0.5f, 0.8f, 0.01f, -1, 7};
        hearth_cache_seed(c, 0, share);
        USE(c, 0, 1, 2, 3, 4, 5, 6, 7);
        assert_string_equal(held(c, 8), "beh");
        hearth_cache_close(&c);
    }
}

// The same calls, the same choices.
static void deterministic(void **state)
{
    (void)state;
    for (int k = 0; hearth_cache_policy_at(k); k++) {
        uint64_t sums[2];
        for (int run = 0; run < 2; run++) {
            seed = 99;
            struct hearth_cache_params p = mixed_params(512);
            p.policy = hearth_cache_policy_at(k);
            struct hearth_cache *c = open_cache(&p);
            uint64_t sum = 0;
            for (int step = 0; step < 300; step++) {
                uint32_t space = random_below(3), n_reads, ids[4];
                struct hearth_cache_read reads[4];
                for (uint32_t i = 0; i < 4; i++)
                    ids[i] = i * 25 + random_below(25);
                hearth_cache_step(c);
                assert_int_equal(hearth_cache_request(c, space, ids, 4, reads, 4, &n_reads), 4);
                for (uint32_t i = 0; i < n_reads; i++) {
                    const uint8_t *start = hearth_cache_bundle(c, space, reads[0].neuron);
                    sum = sum * 31 + reads[i].offset + (uint64_t)((uint8_t *)reads[i].dst - start);
                    hearth_cache_done(c, &reads[i], true);
                }
                hearth_cache_release(c, space, ids, 4);
            }
            sums[run] = sum;
            hearth_cache_close(&c);
        }
        assert_true(sums[0] == sums[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lru_by_hand),
        cmocka_unit_test(lfru_by_hand),
        cmocka_unit_test(decayed_by_hand),
        cmocka_unit_test(two_speeds_by_hand),
        cmocka_unit_test(after_millions_of_visits),
        cmocka_unit_test(s3fifo_by_hand),
        cmocka_unit_test(lru_against_a_list),
        cmocka_unit_test(decayed_against_real_numbers),
        cmocka_unit_test(quotas_hold),
        cmocka_unit_test(slot_sizes),
        cmocka_unit_test(bytes_are_right),
        cmocka_unit_test(pinned_and_loading_stay),
        cmocka_unit_test(failed_read),
        cmocka_unit_test(waves),
        cmocka_unit_test(prefetched),
        cmocka_unit_test(budget),
        cmocka_unit_test(everything_changes),
        cmocka_unit_test(slabs_change_size),
        cmocka_unit_test(resident_prefix),
        cmocka_unit_test(warm_start),
        cmocka_unit_test(seeded),
        cmocka_unit_test(deterministic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
