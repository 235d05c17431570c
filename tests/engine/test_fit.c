// SPDX-License-Identifier: MIT
// What a budget would give is what it gives; budgets are never more than what is free; what they are changes
// no bit.
#include "check.h"

#include <sys/resource.h>

#include "base/free_memory.h"
#include "streaming_support.h"

static const struct hearth_weights_tests streams = {SMALL, .always = true}, usual = {SMALL};

static struct hearth_model *open_with(const char *path, uint64_t ram,
                                      const struct hearth_weights_tests *tests)
{
    struct hearth_model_params params = hearth_model_params_default();
    struct hearth_model *m = NULL;
    params.n_threads = 1;
    params.ram = ram;
    params.io = "pread";
    OK(hearth_model_open(&m, path, &params, &err));
    m->load.tests = tests;
    return m;
}

static struct hearth_session_params session_params(void)
{
    struct hearth_session_params params = hearth_session_params_default();
    params.n_ctx = N_CTX;
    params.max_seqs = N_SEQS;
    params.n_ubatch = UBATCH;
    params.n_threads = 2;
    return params;
}

static struct hearth_fit fit_of(const struct hearth_model *m, uint64_t ram)
{
    const struct hearth_session_params params = session_params();
    struct hearth_fit fit;
    OK(hearth_model_fit(m, &params, ram, &fit, sizeof fit, &err));
    assert_int_equal(fit.weight_bytes, m->image_bytes);
    assert_true(fit.free_bytes > 0 && fit.free_what && fit.kv_bytes && fit.workspace_bytes);
    assert_true((fit.kind == HEARTH_FIT_WHOLE) == (fit.ram >= fit.whole_bytes));
    return fit;
}

// A session with such a budget streams what was said, and gives these logits.
static void check_budget(const char *path, uint64_t ram, const struct hearth_fit *fit, const float *want)
{
    struct opened o = {.model = open_with(path, ram, &usual)};
    const struct hearth_session_params params = session_params();
    struct hearth_stats stats;
    struct hearth_streaming_stats streaming;
    o.n_vocab = hearth_model_info(o.model)->n_vocab;
    OK(hearth_session_open(&o.session, o.model, &params, &err));
    hearth_session_stats(o.session, &stats, sizeof stats);
    hearth_session_streaming_stats(o.session, &streaming, sizeof streaming);
    const struct hearth_streaming_stats *s = &streaming;
    assert_true((s->io == NULL) == (fit->kind == HEARTH_FIT_WHOLE));
    assert_true(s->planned_bytes <= fit->ram);
    assert_int_equal(stats.kv_bytes, o.session->kv.region.size);
    if (!s->neurons && !s->experts) // but for a row of the embedding
        assert_true(s->dense_read_bytes >= fit->token_bytes && s->dense_read_bytes - fit->token_bytes < 8192);
    float *got = evaluate(&o, NULL);
    assert_same(got, want, o.n_vocab, path);
    free(got);
    close_opened(&o);
}

static void check_preset_fits(const char *preset)
{
    char path[512];
    snprintf(path, sizeof path, "%s", make(preset));
    float *want = evaluate_in_memory(path, HEARTH_SPARSITY_AUTO);
    struct hearth_model *m = open_with(path, HEARTH_RAM_FIT, &usual);
    const struct hearth_fit none = fit_of(m, 1), own = fit_of(m, 0), now = fit_of(m, HEARTH_RAM_FIT);
    assert_int_equal(none.kind, HEARTH_FIT_NOT);
    assert_int_equal(own.kind, HEARTH_FIT_WHOLE); // all machines that run this have some MiB
    assert_int_equal(own.ram, m->load.ram);
    assert_int_equal(now.kind, HEARTH_FIT_WHOLE);
    assert_int_equal(fit_of(m, none.least_bytes - 1).kind, HEARTH_FIT_NOT);
    assert_int_equal(fit_of(m, none.whole_bytes).kind, HEARTH_FIT_WHOLE);
    // More memory: more of it in memory, less to read.
    uint64_t resident = 0, token = UINT64_MAX;
    for (uint64_t i = 0; i <= 8; i++) {
        const uint64_t ram = none.least_bytes + (none.whole_bytes - none.least_bytes) * i / 8;
        const struct hearth_fit fit = fit_of(m, ram);
        assert_int_equal(fit.ram, ram);
        assert_true(fit.kind != HEARTH_FIT_NOT && fit.least_bytes <= ram);
        assert_true(fit.resident_bytes >= resident && fit.token_bytes <= token);
        resident = fit.resident_bytes;
        token = fit.token_bytes;
        if (i % 4 == 0)
            check_budget(path, ram, &fit, want);
    }
    assert_int_equal(token, 0);
    // The smallest one need not be known.
    const struct hearth_fit least = fit_of(m, HEARTH_RAM_LEAST);
    assert_int_equal(least.ram, none.least_bytes);
    assert_int_not_equal(least.kind, HEARTH_FIT_NOT);
    check_budget(path, HEARTH_RAM_LEAST, &least, want);
    hearth_model_close(&m);
    m = open_with(path, HEARTH_RAM_LEAST, &usual);
    assert_int_equal(fit_of(m, 0).ram, none.least_bytes);
    hearth_model_close(&m);
    // A model that is in memory already can be asked, too. Its own sessions need no buffers to read with.
    m = open_with(path, 0, &usual);
    assert_int_equal(fit_of(m, 0).kind, HEARTH_FIT_WHOLE);
    const struct hearth_fit loaded = fit_of(m, 1);
    assert_int_equal(loaded.kind, HEARTH_FIT_NOT);
    assert_true(loaded.whole_bytes <= none.whole_bytes && loaded.least_bytes <= none.least_bytes);
    hearth_model_close(&m);
    free(want);
}

static void test_dense(void **state)
{
    (void)state;
    check_preset_fits("tiny-dense");
}

static void test_experts(void **state)
{
    (void)state;
    check_preset_fits("tiny-qwen3-moe");
}

static void test_packs(void **state)
{
    (void)state;
    check_preset_fits("tiny-turbosparse-pack");
}

// Only a sparse model that is no pack would gain by becoming one, and much.
static void test_packing(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-turbosparse", "tiny-turbosparse-pack", "tiny-dense"};
    for (int i = 0; i < 3; i++) {
        struct hearth_model *m = open_with(make(presets[i]), HEARTH_RAM_FIT, &usual);
        const struct hearth_fit none = fit_of(m, 1);
        const struct hearth_fit half =
            fit_of(m, none.least_bytes + (none.whole_bytes - none.least_bytes) / 2);
        assert_int_equal(half.kind, HEARTH_FIT_STREAMS);
        if (i)
            assert_int_equal(half.packed_token_bytes, 0);
        else
            assert_true(half.packed_token_bytes && half.packed_token_bytes < half.token_bytes / 3);
        hearth_model_close(&m);
    }
}

// ---- budgets and what is free

// What is free now, or was before: others take memory and give it back meanwhile.
static uint64_t free_now_or(uint64_t before)
{
    const uint64_t now = hearth_free_memory("", true).bytes;
    return now > before ? now : before;
}

static void test_budget_of_model(void **state)
{
    (void)state;
    const char *path = make("tiny-dense");
    struct hearth_model *m = open_with(path, 0, &usual);
    assert_true(m->load.ram == 0 && m->image.size); // no budget: all weights, at once
    hearth_model_close(&m);
    uint64_t free_then = free_now_or(0);
    m = open_with(path, HEARTH_RAM_FIT, &usual);
    free_then = free_now_or(free_then);
    assert_true(!m->image.size && m->load.ram && m->load.ram <= m->load.ram_most);
    assert_true(free_then == UINT64_MAX || m->load.ram < free_then);
    hearth_model_close(&m);
    m = open_with(path, 30 << 20, &usual);
    assert_int_equal(m->load.ram, 30 << 20);
    hearth_model_close(&m);
    free_then = free_now_or(0);
    m = open_with(path, UINT64_MAX - 1, &usual); // more than there can be
    free_then = free_now_or(free_then);
    assert_true(free_then == UINT64_MAX || m->load.ram < 2 * free_then);
    hearth_model_close(&m);
}

// Shadow memory of sanitizers is beyond all of them, and emulators set none.
#define LIMITS_WORK (!SANITIZED)

static int warnings;

static void count_warnings(void *arg, enum hearth_log_level level, const char *message)
{
    (void)arg;
    warnings += level == HEARTH_LOG_WARNING && strstr(message, "is more than there is");
}

// With little room a budget that is too large becomes smaller, and the model runs.
static void test_lowered(void **state)
{
    (void)state;
    const struct hearth_free_memory before = hearth_free_memory("", true);
    if (!LIMITS_WORK || before.bytes == UINT64_MAX)
        skip();
    const char *path = make("tiny-dense");
    float *want = evaluate_in_memory(path, HEARTH_SPARSITY_AUTO);
    struct rlimit old, limit;
    assert_int_equal(getrlimit(RLIMIT_DATA, &old), 0);
    limit = old;
    const uint64_t held = proc_bytes("status", "VmData:");
    limit.rlim_cur = (rlim_t)(held + (600u << 20));
    assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
    assert_string_equal(hearth_free_memory("", true).what, "ulimit -d");
    hearth_log_set(count_warnings, NULL);
    warnings = 0;
    struct opened o = {.model = open_with(path, (uint64_t)1 << 40, &streams)};
    const struct hearth_session_params params = session_params();
    o.n_vocab = hearth_model_info(o.model)->n_vocab;
    assert_true(o.model->load.ram < (uint64_t)600 << 20);
    OK(hearth_session_open(&o.session, o.model, &params, &err));
    assert_int_equal(warnings, 1);
    float *got = evaluate(&o, NULL);
    assert_same(got, want, o.n_vocab, "with a limit");
    hearth_log_set(NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_DATA, &old), 0);
    close_opened(&o);
    free(got);
    free(want);
}

// What is chosen grows to the limit where nothing less runs, and beyond that it is refused.
static void test_least(void **state)
{
    (void)state;
    const char *path = make("tiny-dense");
    struct hearth_model *m = open_with(path, HEARTH_RAM_FIT, &streams);
    const struct hearth_session_params params = session_params();
    struct hearth_session *s = NULL;
    const uint64_t least = fit_of(m, 1).least_bytes;
    m->load.ram = least / 2;
    OK(hearth_session_open(&s, m, &params, &err));
    assert_int_equal(s->sources->ram, s->sources->plan.floor.bytes);
    hearth_session_close(&s);
    m->load.ram_most = m->load.ram;
    REFUSED(hearth_session_open(&s, m, &params, &check_error), HEARTH_E_BUDGET, "there is too little memory");
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),           cmocka_unit_test(test_experts),
        cmocka_unit_test(test_packs),           cmocka_unit_test(test_packing),
        cmocka_unit_test(test_budget_of_model), cmocka_unit_test(test_lowered),
        cmocka_unit_test(test_least),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
