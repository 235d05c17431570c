// SPDX-License-Identifier: MIT
// Prompts through a device, whose weights pass through its memory: the logits of the CPU alone, byte by byte, resident and
// streamed, in micro-batches and parts, over several pages; a device that has no room for it, or fails at any place; a
// prompt that is cancelled. Skipped where there is no device (PoCL is one).
#include "check.h"

#include "engine/offload.h"
#include "made_models.h"

#include "device_support.h"

// Tokens of prompts in evaluate().
enum { N_PROMPTED = N_PROMPT + 5 + 21 };

static struct hearth_through *through_of(const struct opened *o)
{
    assert_non_null(o->session->offload->through);
    return o->session->offload->through;
}

static void check_way_through(const char *path, struct way way, const float *want)
{
    way.device = "0";
    way.device_layers = 1;
    way.device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS;
    struct opened o = open_way(path, &way);
    if (!o.session->offload->through)
        fail_msg("%s", path);
    assert_int_equal(through_of(&o)->n_layers, o.model->hp.n_layer - 1);
    through_of(&o)->pieces.bytes = 16384; // so that weights take several
    check_logits(&o, want, path);
    assert_int_equal(device_stats_of(&o).through, N_PROMPTED);
    assert_int_equal(device_stats_of(&o).works, 1);
    close_opened(&o);
}

static void check_file(const char *path, struct way way)
{
    float *want = evaluate_alone(path, &way);
    check_way_through(path, way, want);
    free(want);
}

static void test_golden(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {
        "models/drelu.Q4_0",  "pwri/falcon.Q4_0",     "models/falcon-40b.Q8_0",   "models/gemma3.Q4_0",
        "models/qwen3.Q8_0",  "models/phi3.Q8_0",     "pwri/bamboo.F16",          "pwri/opt.Q4_0",
        "models/gemma4.Q8_0", "models/mistral3.Q8_0", "models/stablelm-12b.Q8_0", "models/qwen3.NVFP4",
        "models/bitnet.Q8_0", "models/bloom.Q8_0",    "models/apertus.Q8_0",      "models/minicpm3.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        check_file(path, (struct way){.n_threads = 2});
    }
    const char *path = golden("models/drelu.Q8_0");
    check_file(path, (struct way){.n_threads = 1, .type_k = HEARTH_KV_F32});
    path = golden("models/gemma4.Q8_0"); // whose heads differ by layer
    check_file(path, (struct way){.n_threads = 1, .type_k = HEARTH_KV_Q8_0, .type_v = HEARTH_KV_Q8_0});
}

// Weights that stream by layer, by neuron; with predictors; with one thread and several.
static void test_streams(void **state)
{
    (void)state;
    need_device();
    for (int i = 0; i < 3; i++) {
        const enum hearth_sparsity sparsity = i ? HEARTH_SPARSITY_PREDICT : HEARTH_SPARSITY_OFF;
        const char *path =
            keep(i == 2 ? make_pack(true) : make_with(i ? "tiny-turbosparse" : "tiny-dense", false));
        uint64_t least, most;
        find_budgets(path, sparsity, 3, &least, &most);
        float *want = evaluate_in_memory(path, sparsity);
        for (int k = 0; k < 3; k++)
            check_way_through(path,
                              (struct way){.ram = k ? least + (most - least) / 2 * (uint64_t)(k - 1) : 0,
                                           .n_threads = 1 + k,
                                           .sparsity = sparsity,
                                           .tests = {SMALL, .always = true}},
                              want);
        free(want);
    }
}

// A device that fails at its n-th call, wherever the batch is: the CPU goes on, and no logit is another.
static void test_failing(void **state)
{
    (void)state;
    need_device();
    for (int i = 0; i < 2; i++) {
        const char *path = keep(make_with(i ? "tiny-turbosparse" : "tiny-dense", false));
        struct way way = {.n_threads = 1, .sparsity = i ? HEARTH_SPARSITY_PREDICT : HEARTH_SPARSITY_OFF};
        float *want = evaluate_alone(path, &way);
        if (i)
            let_stream(path, &way);
        way.device = "0";
        way.device_layers = 1;
        way.device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS;
        for (long n = 1; n < 600; n = n * (SANITIZED ? 12 : 4) / 3 + 3) {
            struct opened o = open_way(path, &way);
            through_of(&o);
            hearth_accel_fail_at(o.session->offload->a, n);
            check_logits(&o, want, "a device that fails");
            assert_int_equal(device_stats_of(&o).works, 0);
            close_opened(&o);
        }
        free(want);
    }
}

// All layers' prompts through a device whose memory grows: first it has no room for it, in the end no need.
static void test_small(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    struct way way = {.n_threads = 1, .device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS};
    float *want = evaluate_alone(path, &way);
    int with = 0, alone = 0, all = 0, none = 0;
    way.device = "0";
    for (uint64_t vram = 1 << 16; vram < (uint64_t)1 << 30; vram += vram / 3) {
        way.vram = vram;
        struct opened o = open_way(path, &way);
        const struct hearth_device_stats stats = device_stats_of(&o);
        const bool passes = o.session->offload->through != NULL;
        assert_true(stats.bytes <= vram);
        if (passes && (!with++ || !stats.layers)) {
            check_logits(&o, want, "a small device");
            assert_int_equal(device_stats_of(&o).through, N_PROMPTED);
            assert_int_equal(device_stats_of(&o).tokens > 0, stats.layers > 0);
        }
        alone += passes && !stats.layers;
        assert_true(!passes || stats.layers < o.model->hp.n_layer);
        all += stats.layers == o.model->hp.n_layer;
        none += stats.layers == 0;
        close_opened(&o);
    }
    assert_true(with > alone && alone && all && none > alone);
    // Layers that are asked for come first.
    way.device_layers = 1;
    int one = 0;
    for (uint64_t vram = 1 << 16; vram < (uint64_t)1 << 30; vram += vram / 5) {
        way.vram = vram;
        struct opened o = open_way(path, &way);
        const struct hearth_device_stats stats = device_stats_of(&o);
        assert_true(stats.bytes <= vram);
        one += stats.layers && !o.session->offload->through;
        assert_true(stats.layers || !o.session->offload->through);
        close_opened(&o);
    }
    assert_true(one > 0);
    way.device_prompts = HEARTH_DEVICE_PROMPTS_NEVER;
    struct opened o = open_way(path, &way);
    assert_null(o.session->offload->through);
    close_opened(&o);
    free(want);
}

// Batches that are larger than the device's workspace pass in parts.
static void test_parts(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    struct way way = {.n_threads = 1, .device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS};
    float *want = evaluate_alone(path, &way);
    way.device = "0";
    way.device_layers = 1;
    struct opened o = open_way(path, &way);
    o.session->offload->rows[0].cap = 5;
    check_logits(&o, want, "in parts");
    assert_int_equal(device_stats_of(&o).through, N_PROMPTED);
    close_opened(&o);
    free(want);
}

// Texts of several pages, of which sequences share some; the CPU evaluates between.
static void test_pages(void **state)
{
    (void)state;
    need_device();
    enum { LONG = 150, MORE = 40 };
    const char *path = keep(make_with("tiny-dense", false));
    float *got[2];
    int n_vocab = 0;
    for (int with = 0; with < 2; with++) {
        struct hearth_model *m = NULL;
        struct hearth_session *s = NULL;
        struct hearth_session_params p = hearth_session_params_default();
        hearth_token tokens[LONG];
        OK(hearth_model_open(&m, path, NULL, &err));
        n_vocab = hearth_model_info(m)->n_vocab;
        for (int i = 0; i < LONG; i++)
            tokens[i] = token_at(n_vocab, 0, i);
        p.n_ctx = 256;
        p.max_seqs = 3;
        p.n_ubatch = 50;
        p.n_threads = 1;
        p.device = with ? "0" : NULL;
        p.device_inexact = 1;
        p.device_layers = 1;
        p.device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS;
        OK(hearth_session_open(&s, m, &p, &err));
        got[with] = malloc((size_t)n_vocab * 4 * sizeof(float));
        struct rows r = {got[with], n_vocab};
        assert_int_equal(hearth_seq_new(s, &err), 0);
        OK(hearth_prompt(s, 0, tokens, LONG, NULL, NULL, &err));
        take_row(&r, 0, hearth_logits(s, 0));
        assert_int_equal(hearth_seq_fork(s, 0, 100, &err), 1); // in the middle of a page
        assert_int_equal(hearth_seq_fork(s, 0, 128, &err), 2);
        for (int seq = 1; seq < 3; seq++) {
            OK(hearth_prompt(s, seq, tokens + seq, MORE, NULL, NULL, &err));
            take_row(&r, 0, hearth_logits(s, 0));
        }
        OK(hearth_step(s, (const int[]){0}, tokens, 1, &err));
        OK(hearth_prompt(s, 0, tokens + 3, MORE, NULL, NULL, &err));
        take_row(&r, 0, hearth_logits(s, 0));
        struct hearth_device_stats stats;
        hearth_session_device_stats(s, &stats, sizeof stats);
        assert_int_equal(stats.through, with ? LONG + 3 * MORE : 0);
        hearth_session_close(&s);
        hearth_model_close(&m);
    }
    assert_memory_equal(got[0], got[1], (size_t)n_vocab * 4 * sizeof(float));
    free(got[0]);
    free(got[1]);
}

// By the time that it takes: the first prompts that are long enough try it, and PoCL is slower than the CPU itself. Short
// ones never do.
static void test_auto(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    hearth_token tokens[64];
    struct hearth_device_stats stats;
    OK(hearth_model_open(&m, path, NULL, &err));
    for (int i = 0; i < 64; i++)
        tokens[i] = token_at(hearth_model_info(m)->n_vocab, 0, i);
    p.n_ctx = 64;
    p.n_threads = 1;
    p.device = "0";
    p.device_inexact = 1;
    p.device_layers = 1;
    OK(hearth_session_open(&s, m, &p, &err));
    const int seq = hearth_seq_new(s, &err);
    OK(hearth_prompt(s, seq, tokens, 31, NULL, NULL, &err));
    hearth_session_device_stats(s, &stats, sizeof stats);
    assert_int_equal(stats.through, 0);
    OK(hearth_seq_truncate(s, seq, 0, &err));
    OK(hearth_prompt(s, seq, tokens, 64, NULL, NULL, &err));
    hearth_session_device_stats(s, &stats, sizeof stats);
    assert_int_equal(stats.through, 64);
    const struct hearth_through_class *c = &s->offload->through->choice.classes[1];
    assert_true(c->cpu_ns > 0 && c->device_ns > 0);
    // Where the CPU is known to be faster, it computes them; its time is noted, too.
    struct hearth_through_choice *choice = &s->offload->through->choice;
    choice->classes[1] =
        (struct hearth_through_class){.cpu_ns = 1, .device_ns = 1e15, .patience = 100, .left = 100};
    OK(hearth_seq_truncate(s, seq, 0, &err));
    OK(hearth_prompt(s, seq, tokens, 64, NULL, NULL, &err));
    hearth_session_device_stats(s, &stats, sizeof stats);
    assert_int_equal(stats.through, 64);
    assert_true(c->cpu_ns > 1);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- what ends an evaluation

static bool read_fails;

// Reads that fail while weights pass: the evaluation fails as it does on the CPU, and the next one is as ever.
static int fail_some(void *state, int stage, struct hearth_error *e);
static int (*acquire_stage)(void *state, int stage, struct hearth_error *err);

static int fail_some(void *state, int stage, struct hearth_error *e)
{
    if (read_fails && stage == 1)
        return hearth_fail(e, HEARTH_E_IO, "a read fails, as a test wants it to");
    return acquire_stage(state, stage, e);
}

static void test_read_errors(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    let_stream(path, &way);
    way.device = "0";
    way.device_layers = 1;
    way.device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS;
    struct opened o = open_way(path, &way);
    struct hearth_source *stages = &o.session->sources->stages;
    struct hearth_source_ops failing = *stages->ops;
    acquire_stage = failing.acquire;
    failing.acquire = fail_some;
    stages->ops = &failing;
    const hearth_token tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const int seq = hearth_seq_new(o.session, &err);
    read_fails = true;
    assert_int_equal(hearth_prompt(o.session, seq, tokens, 9, NULL, NULL, &err), HEARTH_E_IO);
    assert_int_equal(hearth_seq_length(o.session, seq), 0);
    assert_int_equal(device_stats_of(&o).works, 1);
    read_fails = false;
    hearth_seq_free(o.session, seq);
    check_logits(&o, want, "after a read that failed");
    assert_int_equal(device_stats_of(&o).through, N_PROMPTED);
    close_opened(&o);
    free(want);
}

static void test_cancel(void **state)
{
    (void)state;
    need_device();
    struct hearth_session_params p = hearth_session_params_default();
    struct stoppable o;
    p.device = "0";
    p.device_layers = 1;
    p.device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS;
    open_stoppable(&o, make_with("tiny-dense", false), p);
    check_stops(&o);
    close_stoppable(&o);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_streams), cmocka_unit_test(test_failing),
        cmocka_unit_test(test_small),  cmocka_unit_test(test_parts),   cmocka_unit_test(test_pages),
        cmocka_unit_test(test_auto),   cmocka_unit_test(test_cancel),  cmocka_unit_test(test_read_errors),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
