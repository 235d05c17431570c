// SPDX-License-Identifier: MIT
// What a device will have is known before: what was foreseen is what is placed there, with any memory. So no memory of a
// budget is spent on it, and where the device fails its weights come from the file, with the bits of the CPU alone.
// Skipped where there is no device (PoCL is one).
#include "check.h"

#include "engine/offload.h"
#include "made_models.h"

#include "device_support.h"

static struct hearth_placement foresee(const struct opened *o, const struct way *way)
{
    const struct hearth_session_params p = session_params_of(way);
    struct hearth_placement got;
    OK(hearth_session_foresee(&got, o->model, &p, &err));
    return got;
}

// With memory that grows until all is there. Returns with how many sizes of it experts pass through the device.
static int check_foreseen(const char *path, struct way way)
{
    int passing = 0;
    way.device = "0";
    way.vram = (uint64_t)1 << 28;
    struct opened largest = open_way(path, &way);
    const uint64_t all = device_stats_of(&largest).bytes;
    close_opened(&largest);
    bool is_all = false;
    for (way.vram = 1 << 12; !is_all; way.vram += way.vram / (SANITIZED ? 1 : 3)) {
        assert_true(way.vram < (uint64_t)1 << 28);
        struct opened o = open_way(path, &way);
        const struct hearth_device_stats stats = device_stats_of(&o);
        const struct hearth_placement got = foresee(&o, &way);
        assert_string_equal(got.device, stats.name);
        assert_int_equal(got.vram, way.vram);
        assert_int_equal(got.layers, stats.layers);
        assert_int_equal(got.attention, stats.attention);
        assert_int_equal(got.head, stats.head);
        assert_int_equal(got.through,
                         o.session->offload->through != NULL || o.session->offload->passing != NULL);
        passing += o.session->offload->passing != NULL;
        assert_int_equal(got.neurons, stats.neurons);
        if (!stats.neurons && !stats.experts)
            assert_int_equal(got.bytes, stats.bytes);
        assert_true(got.bytes <= stats.bytes);
        is_all = stats.bytes == all;
        close_opened(&o);
    }
    return passing;
}

static void test_foreseen(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    check_foreseen(path, (struct way){.n_threads = 1});
    check_foreseen(path, (struct way){.n_threads = 1, .device_layers = 2});
    check_foreseen(path, (struct way){.n_threads = 1, .device_prompts = HEARTH_DEVICE_PROMPTS_NEVER});
    check_foreseen(path, (struct way){.n_threads = 1, .no_layers = true});
    check_foreseen(path, (struct way){.n_threads = 1, .type_k = HEARTH_KV_Q8_0});
    path = keep(make_pack(true));
    check_foreseen(path, (struct way){.n_threads = 1, .sparsity = HEARTH_SPARSITY_PREDICT});
    const char *experts = HEARTH_SOURCE_DIR "/tests/golden/models/gpt-oss.Q8_0.gguf";
    check_foreseen(experts, (struct way){.n_threads = 1});
    check_foreseen(experts, (struct way){.n_threads = 1, .device_layers = 1});
    check_foreseen(experts, (struct way){.n_threads = 1, .no_layers = true});
    assert_true(check_foreseen(experts, (struct way){.n_threads = 1,
                                                     .device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS}) > 0);
}

// A budget for the CPU's layers alone has all of these in memory, and nothing else; the device fails at n-th calls.
static void check_budget(const char *path, enum hearth_sparsity sparsity, int layers)
{
    struct way way = {.n_threads = 1, .sparsity = sparsity};
    float *want = evaluate_alone(path, &way);
    uint64_t least, most;
    find_budgets(path, sparsity, 1, &least, &most);
    way.device = "0";
    way.device_layers = layers;
    way.vram = 64 << 20;
    way.io = "pread";
    way.tests = (struct hearth_weights_tests){SMALL, .always = true};
    for (int k = 0; k < 2; k++) {
        way.ram = k ? least + most : least;
        for (long fail_at = 0; fail_at < 300; fail_at = fail_at * (SANITIZED ? 30 : 9) + 20) {
            struct opened o = open_way(path, &way);
            const struct hearth_budget_plan *plan = &o.session->sources->plan;
            const int n_layer = o.model->hp.n_layer;
            assert_int_equal(device_stats_of(&o).layers, layers < n_layer ? layers : n_layer);
            assert_int_equal(o.session->user.layers_elsewhere, device_stats_of(&o).layers);
            assert_int_equal(o.session->user.head_elsewhere, device_stats_of(&o).head);
            assert_true(plan->dense_layers <= (uint32_t)(n_layer - o.session->user.layers_elsewhere));
            for (int i = 0; i < n_layer; i++)
                if (i >= n_layer - o.session->user.layers_elsewhere)
                    assert_false(hearth_sources_has_stage(o.session->sources, i));
                else if (k)
                    assert_true(hearth_sources_has_stage(o.session->sources, i));
            assert_true(plan->layer_buffers > 0 && plan->bytes <= way.ram);
            if (k)
                assert_true(plan->bytes < most + plan->layer_buffers && !plan->dense_streams);
            hearth_accel_fail_at(o.session->offload->a, fail_at);
            check_logits(&o, want, "a budget without the device's weights");
            assert_int_equal(device_stats_of(&o).works, !fail_at);
            struct hearth_streaming_stats stats;
            hearth_session_streaming_stats(o.session, &stats, sizeof stats);
            if (k && layers >= n_layer) // only rows of the embedding
                assert_int_equal(stats.dense_read_bytes > o.model->weights.token_embd.stride, fail_at != 0);
            close_opened(&o);
        }
    }
    free(want);
}

static void test_budgets(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_with("tiny-dense", false));
    check_budget(path, HEARTH_SPARSITY_OFF, 2);
    check_budget(path, HEARTH_SPARSITY_OFF, 1000); // the head, too
    path = keep(make_pack(true));
    check_budget(path, HEARTH_SPARSITY_PREDICT, 2);
    check_budget(path, HEARTH_SPARSITY_PREDICT, 1000);
    check_budget(path, HEARTH_SPARSITY_OFF, 2);
}

// Sessions that share a budget's weights may have no device: it is spent as if none had.
static void test_shared(void **state)
{
    (void)state;
    need_device();
    uint64_t least, most;
    const char *path = keep(make_with("tiny-dense", false));
    find_budgets(path, HEARTH_SPARSITY_OFF, 1, &least, &most);
    const struct hearth_weights_tests tests = {SMALL, .always = true};
    struct way way = {.n_threads = 1, .n_seqs = 1, .device = "0", .vram = 64 << 20};
    struct opened o = {.model = open_model_for(path, 2 * most, 2, &tests)};
    OK(open_session_of(&o, &way));
    assert_int_equal(device_stats_of(&o).layers, o.model->hp.n_layer);
    assert_int_equal(o.session->user.layers_elsewhere, 0);
    assert_true(hearth_sources_has_stage(o.session->sources, 0));
    close_opened(&o);
}

// A session with a device closes: another one of the model tells of itself without it.
static void test_closed(void **state)
{
    (void)state;
    need_device();
    uint64_t least, most;
    const char *path = keep(make_with("tiny-dense", false));
    find_budgets(path, HEARTH_SPARSITY_OFF, 1, &least, &most);
    const struct hearth_weights_tests tests = {SMALL, .always = true};
    struct way way = {.n_threads = 1, .device = "0", .vram = 64 << 20};
    struct opened first = {.model = open_model_for(path, 2 * least, 2, &tests)};
    first.n_vocab = hearth_model_info(first.model)->n_vocab;
    struct opened second = first;
    struct hearth_streaming_stats stats;
    OK(open_session_of(&first, &way));
    way.device = NULL;
    OK(open_session_of(&second, &way));
    free(evaluate(&first, NULL));
    hearth_session_close(&first.session);
    hearth_session_streaming_stats(second.session, &stats, sizeof stats);
    free(evaluate(&second, NULL));
    const uint64_t without = stats.dense_read_bytes;
    hearth_session_streaming_stats(second.session, &stats, sizeof stats);
    assert_true(without > 0 && stats.dense_read_bytes > without);
    close_opened(&second);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreseen),
        cmocka_unit_test(test_budgets),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_closed),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
