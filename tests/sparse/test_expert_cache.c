// SPDX-License-Identifier: MIT
// The expert cache: slots are never given twice, what is worth most stays, and nothing ever waits in vain.
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "sparse/expert_cache.h"

enum { LAYERS = 3, EXPERTS = 16, USED = 4 };

static struct hearth_expert_cache *open_cache(const uint32_t *quota, uint32_t n_common)
{
    struct hearth_error err = {0};
    struct hearth_expert_cache *c = NULL;
    if (hearth_expert_cache_open(
            &c,
            &(struct hearth_expert_cache_params){
                .n_layers = LAYERS, .n_experts = EXPERTS, .quota = quota, .n_common = n_common},
            &err))
        fail_msg("%s", err.message);
    return c;
}

// A visit of one token that uses the experts; returns how many were absent.
static int visit(struct hearth_expert_cache *c, uint32_t layer, const int *ids, int n)
{
    int counts[EXPERTS] = {0}, absent = 0;
    for (int i = 0; i < n; i++)
        counts[ids[i]]++;
    hearth_expert_cache_visit(c, layer, counts, 1);
    for (int i = 0; i < n; i++) {
        struct hearth_expert_slot slot;
        const enum hearth_expert_request got = hearth_expert_cache_request(c, layer, (uint32_t)ids[i], &slot);
        assert_int_not_equal(got, HEARTH_EXPERT_NO_ROOM);
        absent += got == HEARTH_EXPERT_ABSENT;
    }
    for (int i = 0; i < n; i++)
        hearth_expert_cache_release(c, layer, (uint32_t)ids[i], true);
    return absent;
}

// What is used stays, if it is used more than others: newcomers go through common slots.
static void the_best_stay(void **state)
{
    (void)state;
    static const uint32_t quota[LAYERS] = {4, 4, 4};
    struct hearth_expert_cache *c = open_cache(quota, USED + 1);
    static const int often[] = {1, 5, 9, 13}, seldom[] = {1, 5, 2, 3};
    assert_int_equal(visit(c, 0, often, 4), 4);
    for (int i = 0; i < 20; i++)
        assert_int_equal(visit(c, 0, often, 4), 0);
    assert_int_equal(visit(c, 0, seldom, 4), 2);
    for (int i = 0; i < 4; i++)
        assert_true(hearth_expert_cache_has(c, 0, (uint32_t)often[i]));
    assert_false(hearth_expert_cache_has(c, 0, 2));
    assert_int_equal(visit(c, 0, often, 4), 0);
    // When the text turns to others, they come in, and what is not used any more goes.
    static const int new[] = {0, 2, 4, 6};
    int absent = 0, first = visit(c, 0, new, 4);
    for (int i = 0; i < 60; i++)
        absent = visit(c, 0, new, 4);
    assert_int_equal(first, 4);
    assert_int_equal(absent, 0);
    assert_true(hearth_expert_cache_worth(c, 0, 0) > hearth_expert_cache_worth(c, 0, 1));
    assert_false(hearth_expert_cache_has(c, 0, 13));
    assert_int_equal(hearth_expert_cache_n_cached(c, 0), 4);
    // Other layers have nothing to do with it.
    assert_int_equal(hearth_expert_cache_n_cached(c, 1), 0);
    hearth_expert_cache_close(&c);
}

// Without slots of their own all experts go through the common ones, and wait for one another.
static void waiting_for_room(void **state)
{
    (void)state;
    static const uint32_t quota[LAYERS] = {0};
    struct hearth_expert_cache *c = open_cache(quota, 2);
    struct hearth_expert_slot slot[3];
    int counts[EXPERTS] = {1, 1, 1};
    hearth_expert_cache_visit(c, 2, counts, 1);
    assert_int_equal(hearth_expert_cache_request(c, 2, 0, &slot[0]), HEARTH_EXPERT_ABSENT);
    assert_int_equal(hearth_expert_cache_request(c, 2, 1, &slot[1]), HEARTH_EXPERT_ABSENT);
    assert_true(slot[0].common && slot[1].common && slot[0].number != slot[1].number);
    assert_int_equal(hearth_expert_cache_request(c, 2, 2, &slot[2]), HEARTH_EXPERT_NO_ROOM);
    hearth_expert_cache_release(c, 2, 0, true);
    assert_int_equal(hearth_expert_cache_request(c, 2, 2, &slot[2]), HEARTH_EXPERT_ABSENT);
    assert_int_equal(slot[2].number, slot[0].number);
    hearth_expert_cache_release(c, 2, 1, true);
    hearth_expert_cache_release(c, 2, 2, true);
    for (uint32_t e = 0; e < 3; e++)
        assert_false(hearth_expert_cache_has(c, 2, e));
    hearth_expert_cache_close(&c);
}

// What will probably be used is let in as if it had been, stays until its layer's visit, and is not asked for
// twice; where nothing may go for it, it takes what is free.
static void asked_ahead(void **state)
{
    (void)state;
    static const uint32_t quota[LAYERS] = {2, 2, 2};
    struct hearth_expert_cache *c = open_cache(quota, 2);
    struct hearth_expert_slot first, second, third, again;
    assert_int_equal(hearth_expert_cache_ask_ahead(c, 1, 3, false, &first), HEARTH_EXPERT_ABSENT);
    assert_int_equal(hearth_expert_cache_ask_ahead(c, 1, 3, false, &again), HEARTH_EXPERT_PRESENT);
    assert_false(first.common);
    int counts[EXPERTS] = {0};
    counts[3] = 1;
    hearth_expert_cache_visit(c, 1, counts, 1);
    assert_int_equal(hearth_expert_cache_request(c, 1, 3, &again), HEARTH_EXPERT_PRESENT);
    assert_true(!again.common && again.number == first.number);
    hearth_expert_cache_release(c, 1, 3, true);
    // Both own slots are taken: 3 was used, 4 came in vain.
    assert_int_equal(hearth_expert_cache_ask_ahead(c, 1, 4, true, &second), HEARTH_EXPERT_ABSENT);
    hearth_expert_cache_release(c, 1, 4, true);
    assert_true(!second.common && hearth_expert_cache_has(c, 1, 4));
    assert_int_equal(hearth_expert_cache_ask_ahead(c, 1, 5, false, &third), HEARTH_EXPERT_ABSENT);
    assert_true(third.common);
    hearth_expert_cache_release(c, 1, 5, true);
    assert_false(hearth_expert_cache_has(c, 1, 5));
    assert_int_equal(hearth_expert_cache_ask_ahead(c, 1, 6, true, &third), HEARTH_EXPERT_ABSENT);
    assert_false(third.common || hearth_expert_cache_has(c, 1, 4));
    // What is asked for does not go, nor does what was used as much, and when common slots run out there is
    // no room.
    for (uint32_t e = 7; e < 9; e++)
        assert_int_equal(hearth_expert_cache_ask_ahead(c, 1, e, true, &third), HEARTH_EXPERT_ABSENT);
    assert_int_equal(hearth_expert_cache_ask_ahead(c, 1, 9, true, &third), HEARTH_EXPERT_NO_ROOM);
    assert_true(hearth_expert_cache_has(c, 1, 3) && hearth_expert_cache_has(c, 1, 6));
    for (uint32_t e = 6; e < 9; e++)
        hearth_expert_cache_release(c, 1, e, true);
    assert_int_equal(hearth_expert_cache_n_cached(c, 1), 2);
    hearth_expert_cache_close(&c);
}

// A layer's slots come and go at the end; what is worth most stays, whichever slot it was in.
static void slots_come_and_go(void **state)
{
    (void)state;
    static const uint32_t quota[LAYERS] = {2, 1, 1};
    struct hearth_expert_cache *c = open_cache(quota, USED);
    static const int all[] = {1, 5, 9, 13}, some[] = {5, 9, 13};
    visit(c, 0, all, 4);
    assert_int_equal(hearth_expert_cache_n_cached(c, 0), 2);
    hearth_expert_cache_add_slot(c, 0);
    hearth_expert_cache_add_slot(c, 0);
    assert_int_equal(hearth_expert_cache_quota(c, 0), 4);
    visit(c, 0, all, 4);
    for (int i = 0; i < 5; i++)
        assert_int_equal(visit(c, 0, some, 3), 0);
    assert_int_equal(hearth_expert_cache_n_cached(c, 0), 4);
    // Expert 1 is worth least and came first: another one goes where it was.
    uint32_t to = EXPERTS;
    assert_true(hearth_expert_cache_drop_slot(c, 0, &to));
    assert_true(to < 3 && !hearth_expert_cache_has(c, 0, 1));
    struct hearth_expert_slot slot;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hearth_expert_cache_request(c, 0, (uint32_t)some[i], &slot), HEARTH_EXPERT_PRESENT);
        assert_true(!slot.common && slot.number < 3);
        hearth_expert_cache_release(c, 0, (uint32_t)some[i], true);
    }
    assert_false(hearth_expert_cache_drop_slot(c, 0, &to)); // all are worth the same: it just goes
    assert_int_equal(hearth_expert_cache_n_cached(c, 0), 2);
    assert_false(hearth_expert_cache_drop_slot(c, 1, &to)); // nothing is there
    assert_int_equal(hearth_expert_cache_quota(c, 1), 0);
    assert_int_equal(visit(c, 1, all, 4), 4);
    hearth_expert_cache_close(&c);
}

// A read that failed leaves the expert absent and its slot free.
static void failed_reads(void **state)
{
    (void)state;
    static const uint32_t quota[LAYERS] = {1, 1, 1};
    struct hearth_expert_cache *c = open_cache(quota, 1);
    struct hearth_expert_slot slot;
    int counts[EXPERTS] = {1};
    hearth_expert_cache_visit(c, 1, counts, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hearth_expert_cache_request(c, 1, 0, &slot), HEARTH_EXPERT_ABSENT);
        assert_false(slot.common);
        hearth_expert_cache_release(c, 1, 0, false);
        assert_int_equal(hearth_expert_cache_n_cached(c, 1), 0);
    }
    assert_int_equal(hearth_expert_cache_request(c, 1, 0, &slot), HEARTH_EXPERT_ABSENT);
    hearth_expert_cache_release(c, 1, 0, true);
    assert_int_equal(hearth_expert_cache_request(c, 1, 0, &slot), HEARTH_EXPERT_PRESENT);
    hearth_expert_cache_release(c, 1, 0, true);
    hearth_expert_cache_close(&c);
}

// Random visits of all layers with different quotas: slots asked for at once differ, hold what was read into
// them for as long as the cache says so, and what there is room for is found again.
static void random_visits(void **state)
{
    (void)state;
    static const uint32_t quota[LAYERS] = {3, EXPERTS, 0};
    enum { COMMON_PLACES = 3 };
    struct hearth_expert_cache *c = open_cache(quota, COMMON_PLACES);
    int held[LAYERS][EXPERTS], common[COMMON_PLACES], seen[EXPERTS] = {0}, hits = 0;
    memset(held, 0xFF, sizeof held);
    memset(common, 0xFF, sizeof common);
    uint32_t random = 7;
    for (int round = 0; round < 3000; round++) {
        const uint32_t layer = (uint32_t)round % LAYERS;
        int counts[EXPERTS] = {0}, order[EXPERTS], *where[EXPERTS], n = 0;
        for (int t = 0; t < 1 + round % 5; t++) {
            random = random * 1664525u + 1013904223u;
            counts[(random >> 16) * (random >> 24) % (EXPERTS * 256) / 256 % EXPERTS]++;
        }
        for (int e = 0; e < EXPERTS; e++)
            if (counts[e])
                order[n++] = e;
        hearth_expert_cache_visit(c, layer, counts, 1 + round % 5);
        for (int asked = 0, done = 0; done < n;) {
            struct hearth_expert_slot slot;
            const uint32_t e = asked < n ? (uint32_t)order[asked] : 0;
            const bool has = hearth_expert_cache_has(c, layer, e);
            const enum hearth_expert_request got =
                asked < n ? hearth_expert_cache_request(c, layer, e, &slot) : HEARTH_EXPERT_NO_ROOM;
            if (got == HEARTH_EXPERT_NO_ROOM) {
                assert_true(done < asked);
                hearth_expert_cache_release(c, layer, (uint32_t)order[done++], true);
                continue;
            }
            assert_int_equal(has, got == HEARTH_EXPERT_PRESENT);
            assert_true(slot.number < (slot.common ? COMMON_PLACES : quota[layer]));
            int *at = slot.common ? &common[slot.number] : &held[layer][slot.number];
            for (int k = done; k < asked; k++)
                assert_ptr_not_equal(at, where[k]);
            where[asked] = at;
            if (got == HEARTH_EXPERT_PRESENT)
                assert_int_equal(*at, (int)e + (int)layer * 100);
            *at = (int)e + (int)layer * 100;
            hits += got == HEARTH_EXPERT_PRESENT;
            if (layer == 1)
                assert_int_equal(got == HEARTH_EXPERT_PRESENT, seen[e]++ > 0);
            asked++;
        }
        assert_true(hearth_expert_cache_n_cached(c, layer) <= quota[layer]);
    }
    assert_int_equal(hearth_expert_cache_n_cached(c, 0), 3);
    assert_true(hits > 1000);
    hearth_expert_cache_close(&c);
}

static void what_makes_no_sense(void **state)
{
    (void)state;
    static const uint32_t some[LAYERS] = {EXPERTS, EXPERTS - 1, EXPERTS},
                          all[LAYERS] = {EXPERTS, EXPERTS, EXPERTS}, many[LAYERS] = {EXPERTS + 1, 0, 0};
    const struct hearth_expert_cache_params wrong[] = {
        {.n_layers = LAYERS, .n_experts = EXPERTS, .quota = some},
        {.n_layers = LAYERS, .n_experts = EXPERTS, .quota = many, .n_common = 5},
        {.n_layers = 0, .n_experts = EXPERTS, .quota = all, .n_common = 5},
        {.n_layers = LAYERS, .n_experts = 0, .quota = all, .n_common = 5},
        {.n_layers = 1u << 20, .n_experts = 1u << 20, .quota = all, .n_common = 5},
    };
    struct hearth_expert_cache *c = NULL;
    struct hearth_error err = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(hearth_expert_cache_open(&c, &wrong[i], &err), HEARTH_E_INVALID);
        assert_null(c);
    }
    c = open_cache(all, 0);
    for (int e = 0; e < EXPERTS; e++)
        assert_int_equal(visit(c, 0, &e, 1), 1);
    for (int e = 0; e < EXPERTS; e++)
        assert_int_equal(visit(c, 0, &e, 1), 0);
    hearth_expert_cache_close(&c);
    hearth_expert_cache_close(&c);
    assert_true(hearth_expert_cache_table_bytes(48, 128) < 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_stay),       cmocka_unit_test(waiting_for_room),
        cmocka_unit_test(failed_reads),        cmocka_unit_test(asked_ahead),
        cmocka_unit_test(slots_come_and_go),   cmocka_unit_test(random_visits),
        cmocka_unit_test(what_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
