// SPDX-License-Identifier: MIT
// Spending a memory budget: the floor is exact, no plan takes more than its budget, more memory never keeps
// less.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/budget.h"

#define LAYERS 6
#define SPACES 8
#define F      900

static const uint64_t dense[LAYERS] = {700000, 700000, 900000, 700000, 700000, 800000};
static float shares[SPACES][F];

// Falling shares, hotter in later spaces; spaces 6 and 7 are experts that few tokens visit.
static struct hearth_budget_space spaces[SPACES];

static struct hearth_budget_params params(bool profiled)
{
    for (uint32_t i = 0; i < SPACES; i++) {
        for (uint32_t j = 0; j < F; j++)
            shares[i][j] = 1.0f / (1.0f + 0.02f * (float)j * (float)(SPACES - i));
        spaces[i] = (struct hearth_budget_space){.n_neurons = F,
                                                 .bundle_bytes = i < 4 ? 7168 : 9216,
                                                 .row_bytes = i < 4 ? 6912 : 9000,
                                                 .file_offset = 4096 + (uint64_t)i * F * 9216,
                                                 .visit = i < 6 ? 1 : 0.25f,
                                                 .share = profiled ? shares[i] : NULL};
    }
    return (struct hearth_budget_params){.kv = 3000000,
                                         .workspace = 500000,
                                         .io = 262144,
                                         .norms = 10000,
                                         .embedding = 4000000,
                                         .head = 5000000,
                                         .embedding_by_row = true,
                                         .n_layers = LAYERS,
                                         .dense = dense,
                                         .n_spaces = SPACES,
                                         .spaces = spaces,
                                         .batch = 1,
                                         .align = 512,
                                         .slab_bytes = 65536};
}

struct planned {
    struct hearth_budget_plan plan;
    uint32_t resident[SPACES], quota[SPACES];
};

static int plan(const struct hearth_budget_params *p, uint64_t budget, struct planned *out,
                struct hearth_error *err)
{
    return hearth_budget_plan(p, budget, &out->plan, out->resident, out->quota, err);
}

// What the engine would take for it, counted anew.
static uint64_t bytes_of(const struct hearth_budget_params *p, const struct planned *m)
{
    uint64_t bytes = p->kv + p->workspace + p->io + p->norms;
    bytes += m->plan.embedding_in_memory ? p->embedding : 0;
    bytes += m->plan.head_in_memory ? p->head : 0;
    for (uint32_t i = 0; i < m->plan.dense_layers; i++)
        bytes += p->dense[i];
    bytes += m->plan.layer_buffers;
    struct hearth_cache_space_params s[SPACES];
    for (uint32_t i = 0; i < SPACES; i++) {
        bytes += (uint64_t)m->resident[i] * p->spaces[i].row_bytes;
        s[i] = (struct hearth_cache_space_params){.n_neurons = F,
                                                  .bundle_bytes = p->spaces[i].bundle_bytes,
                                                  .file_offset = p->spaces[i].file_offset,
                                                  .resident = m->resident[i],
                                                  .quota = m->quota[i]};
    }
    if (m->plan.all_resident)
        return bytes;
    struct hearth_error err = {0};
    struct hearth_cache *c;
    assert_int_equal(hearth_cache_open(&c,
                                       &(struct hearth_cache_params){.n_spaces = SPACES,
                                                                     .spaces = s,
                                                                     .align = p->align,
                                                                     .reserve = m->plan.reserve,
                                                                     .slab_bytes = p->slab_bytes},
                                       &err),
                     0);
    bytes += hearth_cache_bytes(c) + hearth_cache_table_bytes(c);
    hearth_cache_close(&c);
    return bytes;
}

static void the_floor_is_exact(void **state)
{
    (void)state;
    for (int profiled = 0; profiled < 2; profiled++) {
        struct hearth_budget_params p = params(profiled);
        struct hearth_error err = {0};
        struct hearth_budget_floor f;
        struct planned m;
        assert_int_equal(hearth_budget_floor(&p, &f, &err), 0);
        assert_int_equal(f.kv, 3000000);
        assert_int_equal(f.always, 500000 + 262144 + 10000 + 5000000); // the embedding by row
        assert_int_equal(f.layer_buffers, 2 * 900000);
        assert_int_equal(f.bytes, f.always + f.kv + f.layer_buffers + f.working_set);
        assert_int_equal(plan(&p, f.bytes, &m, &err), 0);
        assert_int_equal(m.plan.bytes, f.bytes);
        assert_int_equal(m.plan.dense_layers, 0);
        assert_false(m.plan.embedding_in_memory);
        double working_set = 0;
        for (uint32_t i = 0; i < SPACES; i++) {
            double sum = 0;
            for (uint32_t j = 0; j < F; j++)
                sum += profiled ? (double)shares[i][j] : HEARTH_BUDGET_DENSITY;
            assert_true(m.resident[i] + m.quota[i] >= sum * (double)spaces[i].visit);
            working_set += sum * (double)spaces[i].visit;
        }
        assert_true((double)(m.plan.resident_neurons + m.plan.cold_neurons) < 1.2 * working_set + 100);
        assert_int_equal(plan(&p, f.bytes - 1, &m, &err), HEARTH_E_BUDGET);
        char smallest[40];
        snprintf(smallest, sizeof smallest, "at least %llu bytes", (unsigned long long)f.bytes);
        assert_non_null(strstr(err.message, smallest));
        assert_int_equal(plan(&p, 0, &m, &err), HEARTH_E_BUDGET);
    }
}

static uint64_t kept(const struct planned *m)
{
    return m->plan.resident_neurons + m->plan.cold_neurons;
}

static void more_is_never_less(void **state)
{
    (void)state;
    for (int profiled = 0; profiled < 2; profiled++) {
        struct hearth_budget_params p = params(profiled);
        struct hearth_error err = {0};
        struct hearth_budget_floor f;
        struct planned m, last = {0};
        assert_int_equal(hearth_budget_floor(&p, &f, &err), 0);
        uint64_t all = UINT64_C(100) << 20;
        for (uint64_t budget = f.bytes; budget < all; budget += 333333) {
            assert_int_equal(plan(&p, budget, &m, &err), 0);
            assert_true(m.plan.bytes <= budget);
            assert_true(bytes_of(&p, &m) <= m.plan.bytes);
            assert_true(bytes_of(&p, &m) + 64 * 3 * SPACES >= m.plan.bytes); // cache lines of matrices
            assert_true(m.plan.dense_layers >= last.plan.dense_layers);
            assert_true(m.plan.embedding_in_memory >= last.plan.embedding_in_memory);
            // What is left over between two layers goes to neurons until it makes another layer.
            for (uint32_t i = 0; i < SPACES && m.plan.dense_layers == last.plan.dense_layers; i++)
                assert_true(m.resident[i] + m.quota[i] >= last.resident[i] + last.quota[i]);
            // Little is left over before all is in memory: less than a slab a size, and a neuron.
            if (!m.plan.all_resident)
                assert_true(budget - m.plan.bytes < 3 * 65536 + SPACES * 9216);
            last = m;
        }
        assert_true(m.plan.all_resident && m.plan.embedding_in_memory && !m.plan.layer_buffers);
        assert_int_equal(kept(&m), SPACES * F);
        assert_int_equal(m.plan.region_bytes, 0);
    }
}

// Dense weights come before neurons beyond one token's, and neurons before the embedding.
static void the_order(void **state)
{
    (void)state;
    struct hearth_budget_params p = params(true);
    struct hearth_error err = {0};
    struct hearth_budget_floor f;
    struct planned m, least;
    assert_int_equal(hearth_budget_floor(&p, &f, &err), 0);
    assert_int_equal(plan(&p, f.bytes, &least, &err), 0);
    assert_int_equal(plan(&p, f.bytes + 1500000, &m, &err), 0);
    assert_int_equal(m.plan.dense_layers, 2);
    assert_int_equal(m.plan.layer_buffers, 1800000);
    assert_in_range(kept(&m), kept(&least), kept(&least) + 100000 / 6912);
    // All six layers take 4.5 million, of which the buffers were 1.8.
    assert_int_equal(plan(&p, f.bytes + 2700000, &m, &err), 0);
    assert_int_equal(m.plan.dense_layers, 6);
    assert_int_equal(m.plan.layer_buffers, 0);
    // Of the neurons, the hottest per byte; leading ones of half of all tokens or more are resident.
    assert_int_equal(plan(&p, f.bytes + 15000000, &m, &err), 0);
    for (uint32_t i = 0; i < SPACES; i++) {
        uint32_t hot = 0;
        while (hot < F && shares[i][hot] * spaces[i].visit >= HEARTH_BUDGET_HOT)
            hot++;
        assert_int_equal(m.resident[i], hot);
    }
    for (uint32_t i = 1; i < 6; i++) // hotter in later spaces, but bundles of the last four cost more
        if (i != 4)
            assert_true(m.resident[i] + m.quota[i] > m.resident[i - 1] + m.quota[i - 1]);
    assert_true(m.resident[7] + m.quota[7] < m.resident[5] + m.quota[5]); // an expert
    assert_false(m.plan.embedding_in_memory);
}

// The neuron cache can keep more while memory is lent to it: never less than its quotas, and no more than
// fits.
static void lending(void **state)
{
    (void)state;
    for (int profiled = 0; profiled < 2; profiled++) {
        struct hearth_budget_params p = params(profiled);
        struct hearth_error err = {0};
        struct hearth_budget_floor f;
        struct planned m;
        p.lendable = 3000000;
        assert_int_equal(hearth_budget_floor(&p, &f, &err), 0);
        for (uint64_t budget = f.bytes; budget < f.bytes + 30000000; budget += 7000000) {
            uint32_t most[SPACES], last[SPACES];
            assert_int_equal(plan(&p, budget, &m, &err), 0);
            assert_true(m.plan.bytes <= budget);
            memcpy(last, m.quota, sizeof last);
            for (uint64_t lent = 0; lent <= p.lendable; lent += 500000) {
                struct hearth_budget_params q = p;
                q.lendable = lent;
                assert_int_equal(hearth_budget_lend(&q, &m.plan, m.resident, m.quota, most, &err), 0);
                struct planned with = m;
                memcpy(with.quota, most, sizeof most);
                assert_true(bytes_of(&p, &with) <= m.plan.bytes + lent + 3 * SPACES * 64 + 65536);
                for (uint32_t i = 0; i < SPACES; i++)
                    assert_true(most[i] >= last[i] && most[i] <= F - m.resident[i]);
                memcpy(last, most, sizeof last);
            }
            assert_true(memcmp(last, m.quota, sizeof last) != 0);
        }
    }
}

// Without a profile all neurons are alike: spaces of one size and visit get the same.
static void no_profile(void **state)
{
    (void)state;
    struct hearth_budget_params p = params(false);
    struct hearth_error err = {0};
    struct planned m;
    assert_int_equal(plan(&p, UINT64_C(36) << 20, &m, &err), 0);
    for (uint32_t i = 0; i < SPACES; i++)
        assert_int_equal(m.resident[i], 0);
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(m.quota[i], m.quota[0]);
    assert_int_equal(m.quota[5], m.quota[4]);
    assert_true(m.quota[0] > F / 5 && m.quota[0] <= F);
}

// A head that can stream goes through the buffers until the layers are in memory; a tied embedding cannot.
static void heads(void **state)
{
    (void)state;
    struct hearth_budget_params p = params(true);
    struct hearth_error err = {0};
    struct hearth_budget_floor whole, by_part, tied;
    assert_int_equal(hearth_budget_floor(&p, &whole, &err), 0);
    p.head_by_part = true;
    assert_int_equal(hearth_budget_floor(&p, &by_part, &err), 0);
    assert_int_equal(whole.bytes - by_part.bytes, 5000000);
    struct planned m;
    assert_int_equal(plan(&p, by_part.bytes + 7699999, &m, &err), 0);
    assert_false(m.plan.head_in_memory);
    assert_int_equal(m.plan.dense_layers, 6);
    assert_int_equal(plan(&p, by_part.bytes + 7700000, &m, &err), 0);
    assert_true(m.plan.head_in_memory);
    assert_int_equal(m.plan.layer_buffers, 0);
    p.head_first = true; // as soon as it has room, then layers
    assert_int_equal(plan(&p, by_part.bytes + 4999999, &m, &err), 0);
    assert_false(m.plan.head_in_memory);
    assert_true(m.plan.dense_layers > 0);
    assert_int_equal(plan(&p, by_part.bytes + 5000000, &m, &err), 0);
    assert_true(m.plan.head_in_memory && m.plan.dense_streams);
    assert_int_equal(m.plan.dense_layers, 0);
    assert_int_equal(plan(&p, by_part.bytes + 7700000, &m, &err), 0);
    assert_true(m.plan.head_in_memory);
    assert_int_equal(m.plan.layer_buffers, 0);
    p = params(true);
    p.head = 0;
    assert_int_equal(hearth_budget_floor(&p, &tied, &err), 0);
    assert_int_equal(whole.bytes - tied.bytes, 1000000); // 5 of the head against 4 of the embedding
    assert_int_equal(plan(&p, tied.bytes, &m, &err), 0);
    assert_true(m.plan.embedding_in_memory);
    assert_true(m.plan.bytes <= tied.bytes);
}

// Experts: the floor has one token's of the largest layer; dense layers come first, then every layer gets as
// many places, up to all of its experts, when the common ones go.
static void experts(void **state)
{
    (void)state;
    enum { N = 16, COMMON = 5 };
    static const uint64_t bytes[LAYERS] = {90000, 90000, 110000, 90000, 90000, 90000};
    const uint64_t each = 5 * 90000 + 110000;
    struct hearth_budget_params p = params(false);
    p.n_spaces = 0;
    p.head_by_part = true;
    p.n_experts = N;
    p.common_experts = COMMON;
    p.expert_bytes = bytes;
    struct hearth_error err = {0};
    struct hearth_budget_floor f;
    struct hearth_budget_plan plan, last = {0};
    assert_int_equal(hearth_budget_floor(&p, &f, &err), 0);
    assert_int_equal(f.working_set, COMMON * 110000);
    assert_int_equal(hearth_budget_plan(&p, f.bytes - 1, &plan, NULL, NULL, &err), HEARTH_E_BUDGET);
    for (uint64_t budget = f.bytes; budget < f.bytes + (30 << 20); budget += 33333) {
        assert_int_equal(hearth_budget_plan(&p, budget, &plan, NULL, NULL, &err), 0);
        assert_true(plan.bytes <= budget);
        uint64_t dense_bytes = plan.head_in_memory ? p.head : 0, experts = 0;
        for (uint32_t i = 0; i < LAYERS; i++) {
            dense_bytes += i < plan.dense_layers ? dense[i] : 0;
            experts += (plan.layer_experts + (i < plan.more_experts)) * bytes[i];
        }
        experts += plan.common_experts * UINT64_C(110000);
        assert_int_equal(plan.expert_bytes, experts);
        assert_true(p.kv + p.workspace + p.io + p.norms + dense_bytes + experts + plan.layer_buffers <=
                    plan.bytes);
        assert_true(plan.layer_experts < N ? plan.more_experts < LAYERS && plan.common_experts == COMMON
                                           : !plan.more_experts && !plan.common_experts);
        if (plan.dense_layers == last.dense_layers && plan.head_in_memory == last.head_in_memory) {
            assert_true(plan.layer_experts >= last.layer_experts);
            assert_true(plan.layer_experts > last.layer_experts || plan.more_experts >= last.more_experts);
        }
        if (plan.layer_experts < N && plan.head_in_memory && !plan.layer_buffers) // little is left over
            assert_true(budget - plan.bytes < 110000 || budget - plan.bytes + plan.expert_bytes < N * each);
        last = plan;
    }
    assert_int_equal(plan.expert_bytes, N * each);
    assert_true(plan.embedding_in_memory);
    p.common_experts = 0;
    assert_int_equal(hearth_budget_floor(&p, &f, &err), HEARTH_E_INVALID);
}

// A wider batch needs a larger reserve; nothing but dense layers is fine too; nonsense is refused.
static void others(void **state)
{
    (void)state;
    struct hearth_budget_params p = params(true);
    struct hearth_error err = {0};
    struct hearth_budget_floor one, eight;
    struct planned m;
    assert_int_equal(hearth_budget_floor(&p, &one, &err), 0);
    p.batch = 8;
    assert_int_equal(hearth_budget_floor(&p, &eight, &err), 0);
    assert_true(eight.working_set > one.working_set);
    p = params(true);
    p.n_spaces = 0;
    assert_int_equal(hearth_budget_floor(&p, &one, &err), 0);
    assert_int_equal(one.working_set, 0);
    assert_int_equal(plan(&p, UINT64_C(1) << 30, &m, &err), 0);
    assert_int_equal(m.plan.dense_layers, 6);
    assert_true(m.plan.embedding_in_memory);
    p = params(true);
    spaces[3].visit = 1.5f;
    assert_int_equal(hearth_budget_floor(&p, &one, &err), HEARTH_E_INVALID);
    p = params(true);
    p.kv = UINT64_MAX;
    assert_int_equal(plan(&p, UINT64_MAX, &m, &err), HEARTH_E_INVALID);
    p = params(true);
    p.batch = 0;
    assert_int_equal(plan(&p, UINT64_MAX, &m, &err), HEARTH_E_INVALID);
}

// What a device computes takes no memory but that for streaming it, should the device fail; all others have what it
// leaves.
static void elsewhere(void **state)
{
    (void)state;
    struct hearth_budget_params p = params(true);
    struct hearth_budget_floor with, without;
    struct hearth_error err = {0};
    struct planned m;
    p.n_spaces = 0;
    p.head_by_part = true;
    assert_int_equal(hearth_budget_floor(&p, &without, &err), 0);
    p.n_elsewhere = 2;
    assert_int_equal(hearth_budget_floor(&p, &with, &err), 0);
    assert_int_equal(with.bytes, without.bytes);
    const uint64_t here = 3 * 700000 + 900000; // of the other layers
    assert_int_equal(plan(&p, with.bytes + here - 1, &m, &err), 0);
    assert_int_equal(m.plan.dense_layers, 3);
    assert_true(m.plan.dense_streams);
    assert_int_equal(hearth_budget_token_bytes(&p, &m.plan, m.resident, m.quota), 700000 + 5000000);
    for (int head = 0; head < 2; head++) {
        p.head_elsewhere = head;
        const uint64_t needed = with.bytes + here + (head ? 0 : 5000000);
        assert_int_equal(plan(&p, needed - 1, &m, &err), 0);
        assert_true(m.plan.dense_streams);
        assert_int_equal(plan(&p, needed, &m, &err), 0);
        assert_int_equal(m.plan.dense_layers, 4);
        assert_false(m.plan.dense_streams);
        assert_int_equal(m.plan.head_in_memory, !head);
        assert_int_equal(m.plan.layer_buffers, 2 * 900000);
        assert_int_equal(m.plan.bytes, needed);
        assert_int_equal(hearth_budget_token_bytes(&p, &m.plan, m.resident, m.quota), 0);
        assert_int_equal(hearth_budget_lend_dense(&p, &m.plan, UINT64_C(1) << 30), 0);
        // All that more memory can bring is the embedding.
        assert_int_equal(plan(&p, UINT64_C(1) << 30, &m, &err), 0);
        assert_true(m.plan.embedding_in_memory);
        assert_int_equal(m.plan.bytes, needed + 4000000);
    }
    p.embedding = 0; // it is the head
    assert_int_equal(plan(&p, with.bytes + here + 5000000, &m, &err), 0);
    assert_true(m.plan.head_in_memory);
    assert_int_equal(m.plan.bytes, with.bytes + here + 5000000);
    assert_int_equal(plan(&p, with.bytes + here, &m, &err), 0);
    assert_false(m.plan.head_in_memory || m.plan.dense_streams);
    p.n_elsewhere = LAYERS;
    assert_int_equal(plan(&p, with.bytes, &m, &err), 0);
    assert_int_equal(m.plan.dense_layers, 0);
    assert_false(m.plan.dense_streams);
    p.n_elsewhere = LAYERS + 1;
    assert_int_equal(plan(&p, with.bytes, &m, &err), HEARTH_E_INVALID);
}

// Neither do its layers' experts; but a token's have room, should the device fail.
static void experts_elsewhere(void **state)
{
    (void)state;
    enum { N = 16, COMMON = 5 };
    static const uint64_t bytes[LAYERS] = {90000, 90000, 110000, 90000, 90000, 90000};
    struct hearth_budget_params p = params(false);
    struct hearth_error err = {0};
    struct hearth_budget_floor f;
    struct hearth_budget_plan plan;
    p.n_spaces = 0;
    p.head_by_part = true;
    p.n_experts = N;
    p.common_experts = COMMON;
    p.expert_bytes = bytes;
    for (p.n_elsewhere = 1; p.n_elsewhere <= LAYERS; p.n_elsewhere++) {
        const uint32_t here = LAYERS - p.n_elsewhere;
        uint64_t each = 0;
        for (uint32_t i = 0; i < here; i++)
            each += bytes[i];
        assert_int_equal(hearth_budget_floor(&p, &f, &err), 0);
        assert_int_equal(f.working_set, COMMON * 110000);
        for (uint64_t budget = f.bytes; budget < f.bytes + (30 << 20); budget += 77777) {
            assert_int_equal(hearth_budget_plan(&p, budget, &plan, NULL, NULL, &err), 0);
            uint64_t experts = COMMON * UINT64_C(110000);
            for (uint32_t i = 0; i < here; i++)
                experts += (plan.layer_experts + (i < plan.more_experts)) * bytes[i];
            assert_int_equal(plan.expert_bytes, experts);
            assert_true(plan.bytes <= budget && plan.common_experts == COMMON);
            assert_true(plan.more_experts <= here && (plan.layer_experts < N || !plan.more_experts));
        }
        assert_int_equal(plan.layer_experts, N);
        assert_true(plan.embedding_in_memory && plan.head_in_memory);
        assert_int_equal(plan.expert_bytes, COMMON * UINT64_C(110000) + N * each);
        assert_int_equal(hearth_budget_token_bytes(&p, &plan, NULL, NULL), 0);
    }
}

// Neither do its spaces.
static void spaces_elsewhere(void **state)
{
    (void)state;
    for (int profiled = 0; profiled < 2; profiled++) {
        struct hearth_budget_params p = params(profiled);
        struct hearth_budget_floor with, without;
        struct hearth_error err = {0};
        struct planned m;
        assert_int_equal(hearth_budget_floor(&p, &without, &err), 0);
        spaces[4].elsewhere = spaces[7].elsewhere = true;
        p.n_elsewhere = 2;
        assert_int_equal(hearth_budget_floor(&p, &with, &err), 0);
        assert_true(with.working_set < without.working_set);
        for (uint64_t more = 0; more < UINT64_C(1) << 27; more = more * 2 + 1000000) {
            assert_int_equal(plan(&p, with.bytes + more, &m, &err), 0);
            assert_int_equal(m.resident[4] + m.quota[4] + m.resident[7] + m.quota[7], 0);
            assert_false(m.plan.all_resident);
            assert_true(m.plan.reserve > 0 && m.plan.bytes <= with.bytes + more);
            assert_true(bytes_of(&p, &m) <= m.plan.bytes);
            assert_true(bytes_of(&p, &m) + 64 * 3 * SPACES >= m.plan.bytes); // cache lines of matrices
        }
        for (uint32_t i = 0; i < SPACES; i++)
            assert_int_equal(m.resident[i] + m.quota[i], spaces[i].elsewhere ? 0 : F);
        assert_int_equal(hearth_budget_token_bytes(&p, &m.plan, m.resident, m.quota), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_floor_is_exact),
        cmocka_unit_test(more_is_never_less),
        cmocka_unit_test(the_order),
        cmocka_unit_test(lending),
        cmocka_unit_test(no_profile),
        cmocka_unit_test(heads),
        cmocka_unit_test(experts),
        cmocka_unit_test(others),
        cmocka_unit_test(elsewhere),
        cmocka_unit_test(experts_elsewhere),
        cmocka_unit_test(spaces_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
