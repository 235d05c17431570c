// SPDX-License-Identifier: MIT
// Whole layers with experts on a device, router and all experts with them: the logits of the CPU alone, byte
// by byte, of all golden models with experts and of such that stream, in batches and parts; sequences that
// are cut, forked, saved and continued; a device that is small, or fails at any place; budgets without these
// layers. Skipped where there is no device (PoCL is one).
#include "check.h"

#include <dirent.h>

#include "accel/insides.h"
#include "device_support.h"

// Tokens that evaluate() has in all.
enum { N_TOKENS = N_PROMPT + 5 + 21 + N_STEPS * (1 + N_SEQS) + 1 };

// A session with a device, which is used in all of its evaluations. Returns how many whole layers are there.
static int check_there(const char *path, const struct way *way, const float *want)
{
    char what[700];
    struct opened o = open_way(path, way);
    const struct hearth_device_stats before = device_stats_of(&o);
    snprintf(what, sizeof what, "%s with %d layers on a device of %llu bytes", path, before.layers,
             (unsigned long long)way->vram);
    assert_true(!before.layers || !before.attention);
    assert_true(!way->vram || before.bytes <= way->vram);
    check_logits(&o, want, what);
    const struct hearth_device_stats after = device_stats_of(&o);
    assert_int_equal(after.works, 1);
    assert_int_equal(after.tokens, before.layers || before.attention ? N_TOKENS : 0);
    close_opened(&o);
    return before.layers;
}

// Whether devices know all layers of the model.
static bool is_known(const char *path)
{
    struct opened o = open_way(path, &(struct way){.n_threads = 1, .sparsity = HEARTH_SPARSITY_OFF});
    bool is = true;
    for (int i = 0; i < o.model->hp.n_layer; i++)
        is &= hearth_offload_knows_experts(o.session, i);
    close_opened(&o);
    return is;
}

static int n_layers(const char *path)
{
    struct opened o;
    open_model_of(&o, path, &(struct way){0});
    const int n = o.model->hp.n_layer;
    hearth_model_close(&o.model);
    return n;
}

// Models of which devices know all, and such of which they do not: recurrent layers, attention of other
// kinds, limits.
static void test_golden(void **state)
{
    (void)state;
    need_device();
    static const char *const unknown[] = {"qwen3next",  "deepseek32", "deepseek-v4",  "glm-dsa", "laguna",
                                          "qwen35moe",  "minimax-m3", "minimax-text", "kimi",    "qwen4",
                                          "granite-hy", "lfm2moe",    "nemotron",     "step35",  "ling3",
                                          "hy-v4",      "cohere2moe"};
    DIR *models = opendir(HEARTH_SOURCE_DIR "/tests/golden/models");
    assert_non_null(models);
    int i = 0, known = 0;
    for (const struct dirent *e; (e = readdir(models));) {
        const char *end = strstr(e->d_name, ".experts");
        if (!end || (i++ % 4 && SANITIZED))
            continue;
        char name[300];
        snprintf(name, sizeof name, "models/%.*s", (int)(end - e->d_name), e->d_name);
        const char *path = golden(name);
        struct way way = {.n_threads = 1 + i % 2, .sparsity = HEARTH_SPARSITY_OFF};
        float *want = evaluate_alone(path, &way);
        way.device = "0";
        const bool is = is_known(path);
        bool may_be_unknown = false;
        for (size_t k = 0; k < sizeof unknown / sizeof *unknown; k++)
            may_be_unknown |= strncmp(e->d_name, unknown[k], strlen(unknown[k])) == 0;
        if (!is && !may_be_unknown)
            fail_msg("%s is not known", path);
        assert_int_equal(check_there(path, &way, want), is ? n_layers(path) : 0);
        known += is;
        free(want);
    }
    closedir(models);
    assert_true(known >= (SANITIZED ? 5 : 36));
}

// A number of layers, alone and with hot experts of the others; how hot ones are divided is said: no whole
// layers.
static void test_layers(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/gpt-oss.MXFP4", "models/qwen3moe.Q4_0",
                                        "models/glm4moe.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        const int n = n_layers(path);
        struct way way = {.n_threads = 1 + (int)i % 2};
        float *want = evaluate_alone(path, &way);
        way.device = "0";
        for (way.device_layers = 1; way.device_layers <= n + 1; way.device_layers++) {
            assert_int_equal(check_there(path, &way, want), way.device_layers < n ? way.device_layers : n);
            way.vram = 64 << 20;
            assert_int_equal(check_there(path, &way, want), way.device_layers < n ? way.device_layers : n);
            struct opened o = open_way(path, &way);
            assert_int_equal(device_stats_of(&o).head, way.device_layers > n);
            const int dense = o.model->hp.n_dense; // which have no experts
            assert_int_equal(
                device_stats_of(&o).experts,
                way.device_layers < n - dense ? (n - dense - way.device_layers) * o.model->hp.n_expert : 0);
            close_opened(&o);
            way.vram = 0;
        }
        way.device_layers = 0;
        for (way.hot_percent = -1; way.hot_percent < 100; way.hot_percent += 51)
            assert_int_equal(check_there(path, &way, want), way.hot_percent ? 0 : n);
        free(want);
    }
}

static void test_caches(void **state)
{
    (void)state;
    need_device();
    const char *path = golden("models/gpt-oss.Q8_0");
    static const enum hearth_kv_type types[][2] = {
        {HEARTH_KV_F32, HEARTH_KV_F16}, {HEARTH_KV_F16, HEARTH_KV_F32}, {HEARTH_KV_Q8_0, HEARTH_KV_Q8_0}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct way way = {.n_threads = 1, .type_k = types[i][0], .type_v = types[i][1]};
        float *want = evaluate_alone(path, &way);
        way.device = "0";
        assert_int_equal(check_there(path, &way, want), n_layers(path));
        free(want);
    }
}

// Steps by neuron within experts are the CPU's.
static void test_by_neuron(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/smallthinker.Q4_0", "pwri/experts.Q4_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        struct way way = {.n_threads = 1, .sparsity = i ? HEARTH_SPARSITY_PREDICT : HEARTH_SPARSITY_EXACT};
        float *want = evaluate_alone(path, &way);
        way.device = "0";
        assert_int_equal(check_there(path, &way, want), 0);
        free(want);
    }
}

// Device memory that grows: attention and hot experts, then all layers whole, from some size on. Prompts then
// have fewer rows together at first.
static void test_sizes(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-qwen3-moe"));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    const int n = n_layers(path);
    uint64_t low = 1 << 14, high = (uint64_t)1 << 28;
    way.device = "0";
    while (high - low > 4096) { // bisects
        way.vram = (low + high) / 2;
        struct opened o = open_way(path, &way);
        const int there = device_stats_of(&o).layers;
        assert_true(there == 0 || there == n);
        assert_true(device_stats_of(&o).bytes <= way.vram);
        *(there ? &high : &low) = way.vram;
        close_opened(&o);
    }
    const uint64_t sizes[] = {1 << 14, low / 2, low, high, high + high / 8, high * 4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        way.vram = sizes[i];
        assert_int_equal(check_there(path, &way, want), i < 3 ? 0 : n);
        struct opened o = open_way(path, &way);
        assert_true(i < 3 || device_stats_of(&o).head);
        close_opened(&o);
    }
    free(want);
}

// Prompts of more rows than there is room for together: fewer go there at a time, but not too few.
static void test_rows(void **state)
{
    (void)state;
    need_device();
    struct way way = {.n_threads = 1, .device = "0"};
    struct opened o;
    open_model_of(&o, keep(make("tiny-qwen3-moe")), &way);
    struct hearth_session_params p = session_params_of(&way);
    p.n_ctx = p.n_ubatch = 2000;
    int fewest = INT32_MAX, most = 0;
    for (p.vram = 4 << 20; p.vram < (uint64_t)1 << 30; p.vram += p.vram / 3) {
        OK(hearth_session_open(&o.session, o.model, &p, &err));
        const int rows = o.session->offload->rows[0].cap;
        assert_true(device_stats_of(&o).bytes <= p.vram);
        if (device_stats_of(&o).layers) {
            fewest = rows < fewest ? rows : fewest;
            most = rows > most ? rows : most;
        }
        hearth_session_close(&o.session);
    }
    printf("%d to %d rows together\n", fewest, most);
    assert_true(fewest >= 32 && fewest < 500 && most >= 2000);
    hearth_model_close(&o.model);
}

// A device that fails at its n-th call: the CPU goes on, and no logit is another. Resident and streamed, at
// once and in parts.
static void check_failing(const char *path)
{
    struct way way = {.n_threads = 2};
    float *want = evaluate_alone(path, &way);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            let_stream(path, &way);
        way.device = "0";
        const long step = is_thorough() ? 1 : i < 2 ? 2 : 5;
        for (long n = 1; n < 3000; n = SANITIZED ? n * 9 : n < 80 ? n + step : n + n / 2) {
            struct opened o = open_way(path, &way);
            assert_int_equal(device_stats_of(&o).layers, o.model->hp.n_layer);
            if (i == 1)
                o.session->offload->rows[0].cap = 5;
            check_failing_at(&o, n, want);
        }
        way.device = NULL;
    }
    free(want);
}

static void test_failing(void **state)
{
    (void)state;
    need_device();
    check_failing(keep(make("tiny-gpt-oss")));
    check_failing(golden("models/glm4moe.Q8_0")); // layers without experts, an expert that all tokens use
}

// While it is opened: it has fewer.
static void test_failing_open(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    int fewest = INT32_MAX, most = 0;
    for (int streams = 0; streams < 2; streams++) {
        if (streams)
            let_stream(path, &way);
        for (long n = 1; n < 3000; n = n * 2 + 1) {
            struct opened o = open_way(path, &way);
            struct hearth_offload_params params = {.device = {.device = "0", .inexact = true, .fail_at = n},
                                                   .layers = HEARTH_OFFLOAD_ALL};
            OK(hearth_offload_open(&o.session->offload, o.session, &params, &err));
            o.session->work.ffn.experts = o.session->offload->experts;
            const int n_there = device_stats_of(&o).layers;
            fewest = n_there < fewest ? n_there : fewest;
            most = n_there > most ? n_there : most;
            check_logits(&o, want, "a device that fails at first");
            close_opened(&o);
        }
    }
    assert_true(fewest == 0 && most == n_layers(path));
    free(want);
}

// Batches that are larger than what the device takes at a time.
static void test_parts(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/gpt-oss.Q8_0", "models/glm4moe.Q8_0",
                                        "models/smallthinker.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        struct way way = {.n_threads = 1, .sparsity = HEARTH_SPARSITY_OFF};
        float *want = evaluate_alone(path, &way);
        way.device = "0";
        struct opened o = open_way(path, &way);
        o.session->offload->rows[0].cap = 3;
        check_logits(&o, want, "in parts");
        assert_int_equal(device_stats_of(&o).tokens, N_TOKENS);
        close_opened(&o);
        free(want);
        if (i < 2)
            check_mixed_parts(path);
    }
}

static void test_sequences(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    check_sequences(path);
    check_watched(path);
}

// Two devices that divide the layers; the first or the second fails.
static void check_several(const char *path)
{
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    set_devices(&way, 2);
    check_two(path, &way, want, N_TOKENS);
    // The second has too little for its share: the first has the rest. Neither has enough: attention and hot
    // experts.
    struct opened o = open_way(path, &way);
    const uint64_t each = device_stats_at(&o, 1).bytes;
    close_opened(&o);
    way.n_vrams = 2;
    for (int i = 0; i < 2; i++) {
        way.vrams = i ? (const uint64_t[]){each / 3, each / 3} : (const uint64_t[]){8 * each, each / 3};
        o = open_way(path, &way);
        assert_int_equal(device_stats_at(&o, 0).layers + device_stats_at(&o, 1).layers,
                         i ? 0 : o.model->hp.n_layer);
        assert_true(i || device_stats_at(&o, 0).layers > device_stats_at(&o, 1).layers);
        check_logits(&o, want, "two devices with little memory");
        close_opened(&o);
    }
    free(want);
}

static void test_several(void **state)
{
    (void)state;
    need_device();
    check_several(keep(make("tiny-gpt-oss")));
    check_several(golden("models/granitemoe.Q8_0"));
}

// Budgets: the least one has all that the device has not, and nothing is read of its layers. The device
// fails.
static void test_streams(void **state)
{
    (void)state;
    need_device();
    static const char *const presets[] = {"tiny-qwen3-moe", "tiny-gpt-oss"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const char *path = keep(make(presets[i]));
        struct way way = {.n_threads = 1 + (int)i % 2};
        float *want = evaluate_alone(path, &way);
        let_stream(path, &way);
        way.device = "0";
        way.vram = 64 << 20; // how much of it there is, is known before weights are in memory
        for (int layers = 0; layers < 3; layers++)
            for (long fail_at = 0; fail_at < 400; fail_at = fail_at * 4 + 30) {
                way.device_layers = layers;
                struct opened o = open_way(path, &way);
                const struct hearth_budget_plan *plan = &o.session->sources->plan;
                const int n_layer = o.model->hp.n_layer, there = layers ? layers : n_layer;
                assert_int_equal(device_stats_of(&o).layers, there);
                assert_int_equal(o.session->user.layers_elsewhere, there);
                assert_true(plan->bytes <= way.ram && plan->common_experts > 0);
                hearth_accel_fail_at(o.session->offload->a, fail_at);
                check_logits(&o, want, "a budget without the device's experts");
                struct hearth_streaming_stats stats;
                hearth_session_streaming_stats(o.session, &stats, sizeof stats);
                if (!layers)
                    assert_int_equal(stats.expert_hits + stats.expert_misses != 0, fail_at != 0);
                close_opened(&o);
            }
        free(want);
    }
}

// Memory that has room for all but the device's layers holds all of that: fewer bytes than without the
// device.
static void test_budgets(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    uint64_t least[3], most[3];
    for (int i = 0; i < 3; i++) {
        struct way way = {.n_threads = 1, .device = i ? "0" : NULL, .vram = i ? 64 << 20 : 0};
        way.device_layers = i == 1 ? 2 : 0;
        find_budgets_of(path, way, &least[i], &most[i]);
        way.ram = most[i];
        way.tests = (struct hearth_weights_tests){SMALL, .always = true};
        struct opened o = open_way(path, &way);
        const struct hearth_budget_plan *plan = &o.session->sources->plan;
        assert_int_equal(plan->layer_experts, o.model->hp.n_expert);
        assert_int_equal(o.session->user.layers_elsewhere, i == 0 ? 0 : i == 1 ? 2 : o.model->hp.n_layer);
        close_opened(&o);
    }
    assert_true(most[2] < most[1] && most[1] < most[0]);
}

// What a step of one row tells the device, and how often it waits: whole, and with attention and experts
// apart.
static void test_waits(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-qwen3-moe"));
    uint64_t waits[2], runs[2], bytes[2];
    for (int apart = 0; apart < 2; apart++) {
        const struct way way = {.n_threads = 1, .device = "0", .hot_percent = apart ? 100 : 0};
        struct opened o = open_way(path, &way);
        hearth_token tokens[4] = {1, 2, 3, 4};
        const int seq = hearth_seq_new(o.session, &err);
        OK(hearth_prompt(o.session, seq, tokens, 4, NULL, NULL, &err));
        OK(hearth_step(o.session, &seq, tokens, 1, &err));
        const struct hearth_accel_stats before = hearth_accel_stats(o.session->offload->a);
        OK(hearth_step(o.session, &seq, tokens, 1, &err));
        const struct hearth_accel_stats after = hearth_accel_stats(o.session->offload->a);
        waits[apart] = after.waits - before.waits;
        runs[apart] = after.runs - before.runs;
        bytes[apart] = after.bytes_up - before.bytes_up;
        printf("%s: a step of %d layers has %llu waits, %llu kernels, %llu bytes up\n",
               apart ? "attention and experts" : "whole", o.model->hp.n_layer,
               (unsigned long long)waits[apart], (unsigned long long)runs[apart],
               (unsigned long long)bytes[apart]);
        if (!apart) // for keys and values of two lists, for the row, for logits
            assert_int_equal(waits[0], 4);
        close_opened(&o);
    }
    assert_true(waits[0] < waits[1] && bytes[0] < bytes[1]);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_layers),    cmocka_unit_test(test_caches),
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_by_neuron), cmocka_unit_test(test_failing),
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_sequences), cmocka_unit_test(test_failing_open),
        cmocka_unit_test(test_several), cmocka_unit_test(test_streams),   cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_waits),   cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
