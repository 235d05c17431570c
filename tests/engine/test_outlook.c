// SPDX-License-Identifier: MIT
// What an outlook plans is what a session does with the same budget; more memory is never slower; the same
// question has the same answer; the smallest budget for a speed reaches it.
#include "check.h"

#include <math.h>

#include "engine/outlook.h"
#include "streaming_support.h"

static const struct hearth_weights_tests streams = {SMALL, .always = true};

// Computing takes no time and reading takes long: what is read decides.
static const struct hearth_probe probe = {.name = "made",
                                          .cores = 1,
                                          .memory_gb_s = 1000,
                                          .core_gb_s = 1000,
                                          .any = {.gb_s = 1000, .gmac_s = 1000, .prompt_gmac_s = 1000},
                                          .request_us = 1,
                                          .byte_ns = 1,
                                          .sequential_gb_s = 1,
                                          .depth = 1,
                                          .align = 512};

static struct hearth_model *open_streaming(const char *path, uint64_t ram)
{
    struct hearth_model_params params = hearth_model_params_default();
    struct hearth_model *m = NULL;
    params.n_threads = 1;
    params.ram = ram;
    params.io = "pread";
    OK(hearth_model_open(&m, path, &params, &err));
    m->load.tests = &streams;
    return m;
}

static struct hearth_session_params session_params(void)
{
    struct hearth_session_params params = hearth_session_params_default();
    params.n_ctx = N_CTX;
    params.n_ubatch = UBATCH;
    params.n_threads = 1;
    return params;
}

static struct hearth_outlook *look(const struct hearth_model *m, bool keep_ubatch)
{
    const struct hearth_outlook_params params = {
        .session = session_params(), .probe = &probe, .keep_ubatch = keep_ubatch};
    struct hearth_outlook *o;
    OK(hearth_outlook_open(&o, m, &params, &err));
    return o;
}

// Fills the context, so that weights have no more than is forecast.
static void fill_context(struct opened *o)
{
    hearth_token tokens[N_CTX];
    const int n = N_CTX - 1, seq = hearth_seq_new(o->session, &err);
    for (int i = 0; i < n; i++)
        tokens[i] = token_at(hearth_model_info(o->model)->n_vocab, 0, i);
    OK(hearth_prompt(o->session, seq, tokens, n, NULL, NULL, &err));
    OK(hearth_step(o->session, &seq, tokens, 1, &err));
}

// A session with the same budget has the same plan; of layers and the head it reads what was forecast.
static void check_session(const char *path, const struct hearth_prospect *p)
{
    struct opened o = {.model = open_streaming(path, p->ram)};
    const struct hearth_session_params params = session_params();
    OK(hearth_session_open(&o.session, o.model, &params, &err));
    const struct hearth_budget_plan *plan = &o.session->sources->plan;
    assert_int_equal(plan->dense_layers, p->plan.dense_layers);
    assert_int_equal(plan->bytes, p->plan.bytes);
    assert_int_equal(plan->resident_neurons, p->plan.resident_neurons);
    assert_int_equal(plan->cold_neurons, p->plan.cold_neurons);
    assert_int_equal(plan->layer_experts, p->plan.layer_experts);
    assert_int_equal(plan->more_experts, p->plan.more_experts);
    struct hearth_streaming_stats stats;
    fill_context(&o);
    hearth_session_streaming_stats(o.session, &stats, sizeof stats);
    if (!stats.neurons && !stats.experts)
        assert_true(fabs((double)stats.dense_read_bytes - p->forecast.read_bytes) < 8192);
    close_opened(&o);
}

static void check_preset_looks(const char *preset)
{
    char path[512];
    snprintf(path, sizeof path, "%s", make(preset));
    struct hearth_model *m = open_streaming(path, HEARTH_RAM_FIT);
    struct hearth_outlook *o = look(m, true);
    const uint64_t least = hearth_outlook_least(o), whole = hearth_outlook_whole(o);
    struct hearth_prospect p, again, last = {.kind = HEARTH_FIT_NOT};
    assert_true(least < whole);
    OK(hearth_outlook_at(o, least - 1, &p, &err));
    assert_int_equal(p.kind, HEARTH_FIT_NOT);
    OK(hearth_outlook_at(o, whole, &p, &err));
    assert_int_equal(p.kind, HEARTH_FIT_WHOLE);
    assert_true(p.forecast.reads == 0 && p.forecast.read_bytes == 0);
    for (uint64_t i = 0; i < 8; i++) {
        OK(hearth_outlook_at(o, least + (whole - least) * i / 8, &p, &err));
        OK(hearth_outlook_at(o, least + (whole - least) * i / 8, &again, &err));
        assert_memory_equal(&p.forecast, &again.forecast, sizeof p.forecast);
        assert_int_equal(p.kind, HEARTH_FIT_STREAMS);
        assert_int_equal(p.n_ubatch, UBATCH);
        if (last.kind != HEARTH_FIT_NOT) {
            assert_true(p.forecast.read_bytes <= last.forecast.read_bytes);
            assert_true(p.forecast.tokens_per_second >= last.forecast.tokens_per_second);
        }
        last = p;
        if (i % 3 == 0)
            check_session(path, &p);
    }
    hearth_outlook_close(&o);
    hearth_model_close(&m);
}

static void test_layers(void **state)
{
    (void)state;
    check_preset_looks("tiny-dense");
}

static void test_experts(void **state)
{
    (void)state;
    check_preset_looks("tiny-qwen3-moe");
}

static void test_neurons(void **state)
{
    (void)state;
    check_preset_looks("tiny-turbosparse-pack");
}

// Memory counts for as many threads as the machine that is described has cores, unless a number is asked for.
static void test_threads(void **state)
{
    (void)state;
    struct hearth_model *m = open_streaming(make("tiny-dense"), HEARTH_RAM_FIT);
    uint64_t least[4];
    for (int i = 0; i < 4; i++) {
        struct hearth_probe machine = probe;
        machine.cores = i == 2 ? 1024 : 7;
        struct hearth_outlook_params params = {.session = session_params(), .probe = &machine};
        params.session.n_threads = i == 0 ? 0 : i == 1 ? 7 : i == 2 ? 0 : 256;
        struct hearth_outlook *o;
        OK(hearth_outlook_open(&o, m, &params, &err));
        least[i] = hearth_outlook_least(o);
        hearth_outlook_close(&o);
    }
    assert_int_equal(least[0], least[1]);
    assert_int_equal(least[2], least[3]); // the most that there are
    assert_true(least[2] > least[0]);
    hearth_model_close(&m);
}

// With micro-batches to choose from, no budget is slower, and smaller ones are possible.
static void test_search(void **state)
{
    (void)state;
    struct hearth_model *m = open_streaming(make("tiny-turbosparse-pack"), HEARTH_RAM_FIT);
    struct hearth_outlook *kept = look(m, true), *free_ = look(m, false);
    const uint64_t least = hearth_outlook_least(kept), whole = hearth_outlook_whole(kept);
    struct hearth_prospect a, b;
    assert_true(hearth_outlook_least(free_) <= least);
    for (uint64_t i = 0; i < 8; i++) {
        OK(hearth_outlook_at(kept, least + (whole - least) * i / 8, &a, &err));
        OK(hearth_outlook_at(free_, least + (whole - least) * i / 8, &b, &err));
        assert_true(b.n_ubatch <= UBATCH && b.n_ubatch >= 8);
        assert_true(b.forecast.tokens_per_second >= 0.99 * a.forecast.tokens_per_second);
    }
    OK(hearth_outlook_at(free_, least + (whole - least) / 2, &a, &err));
    OK(hearth_outlook_least_for(free_, a.forecast.tokens_per_second, &b, &err));
    assert_true(b.kind != HEARTH_FIT_NOT && b.ram <= a.ram + (1 << 20));
    assert_true(b.forecast.tokens_per_second >= a.forecast.tokens_per_second);
    OK(hearth_outlook_least_for(free_, 1e12, &b, &err));
    assert_int_equal(b.kind, HEARTH_FIT_NOT);
    hearth_outlook_close(&kept);
    hearth_outlook_close(&free_);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers), cmocka_unit_test(test_experts),
                                       cmocka_unit_test(test_neurons), cmocka_unit_test(test_search),
                                       cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests_name("outlook", tests, make_folder, remove_folder);
}
