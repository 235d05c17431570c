// SPDX-License-Identifier: MIT
// Experts on a device: the logits of the CPU alone, byte by byte, with some or all experts there, of all kinds of
// routers, resident and streamed; hot ones that take the places of others; a device that fails. Skipped where there is
// no device.
#include "check.h"

#include "accel/insides.h"
#include "device_support.h"
#include "engine/offload.h"

// The device's share of its experts is this one from now on, whatever steps take.
static void hold_share(struct opened *o, int part)
{
    struct hearth_hot_experts *hot = o->session->offload->experts;
    for (int i = 0; hot && i < 2; i++)
        hearth_share_fix(&hot->shares[i], HEARTH_SHARE_BY_TIME);
    for (int i = 0; hot && i < 2 * HEARTH_SHARE_CLASSES; i++)
        hot->shares[i / HEARTH_SHARE_CLASSES].classes[i % HEARTH_SHARE_CLASSES] = (struct hearth_share_class){
            .known = true, .best = part, .tried = part, .left = 1000, .patience = 1000};
}

static uint64_t moe_layers(const struct hearth_model *m)
{
    uint64_t n = 0;
    for (int i = 0; i < m->hp.n_layer; i++)
        n += hearth_has_experts(&m->hp, i);
    return n;
}

// Rows of experts that evaluate() has in all.
static uint64_t all_rows(const struct hearth_model *m)
{
    const int tokens = N_PROMPT + 5 + 21 + N_STEPS * (1 + N_SEQS) + 1;
    return moe_layers(m) * (uint64_t)tokens * (uint64_t)m->hp.n_expert_used;
}

static uint64_t all_experts(const struct hearth_model *m)
{
    return moe_layers(m) * (uint64_t)m->hp.n_expert;
}

#define LARGE ((uint64_t)1 << 30)

// One size of the device's memory. Returns how many experts it has.
static uint64_t check_size(const char *path, struct way way, const float *want, uint64_t vram)
{
    way.device = "0";
    way.vram = vram;
    struct opened o = open_way(path, &way);
    const uint64_t n = device_stats_of(&o).experts, all = all_experts(o.model);
    assert_true(n <= all && device_stats_of(&o).bytes <= vram);
    hold_share(&o, HEARTH_SHARE_ALL);
    float *got = evaluate(&o, NULL);
    char what[700];
    snprintf(what, sizeof what, "%s with %llu experts on a device", path, (unsigned long long)n);
    assert_same(got, want, o.n_vocab, what);
    assert_true(device_stats_of(&o).works);
    if (vram == LARGE &&
        device_stats_of(&o).expert_rows != all_rows(o.model)) // else long prompts may lack room
        fail_msg("%s: %llu rows on the device", path, (unsigned long long)device_stats_of(&o).expert_rows);
    if (n < all)
        assert_true(device_stats_of(&o).expert_rows < all_rows(o.model) &&
                    (n != 0) == (device_stats_of(&o).expert_rows != 0));
    free(got);
    close_opened(&o);
    return n;
}

// How many experts a device has with so much memory.
static uint64_t experts_with(const char *path, struct way way, uint64_t vram)
{
    way.device = "0";
    way.vram = vram;
    struct opened o = open_way(path, &way);
    const uint64_t n = device_stats_of(&o).experts;
    close_opened(&o);
    return n;
}

// None, some, all.
static void check_file(const char *path, struct way way)
{
    struct way alone = way;
    alone.ram = 0;
    float *want = evaluate_alone(path, &alone);
    assert_int_equal(check_size(path, way, want, 1), 0);
    struct opened o = open_way(path, &way);
    const uint64_t all = all_experts(o.model);
    close_opened(&o);
    assert_int_equal(check_size(path, way, want, LARGE), all);
    uint64_t n = all, vram = LARGE;
    for (uint64_t half = LARGE / 2; half > 512 && (n == 0 || n == all); half /= 2) { // bisects
        vram = n == 0 ? vram + half : vram - half;
        n = experts_with(path, way, vram);
    }
    assert_int_equal(check_size(path, way, want, vram), n);
    assert_true(n > 0 && n < all);
    free(want);
}

static void test_golden(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/qwen3moe.NVFP4",      "models/gpt-oss.MXFP4",
                                        "models/gpt-oss.Q8_0",        "models/deepseek-v2-joint.Q4_0",
                                        "models/deepseek-v3.Q8_0",    "models/gemma4-moe.Q4_0",
                                        "models/mixtral.F16",         "models/qwen35moe.Q8_0",
                                        "models/smallthinker.Q4_0",   "models/granitemoe.Q8_0",
                                        "models/ernie-moe.Q8_0",      "models/bailing2.Q8_0",
                                        "models/nemotron-h-moe.Q8_0", "models/granite-hybrid-moe.Q8_0",
                                        "models/afmoe.Q8_0",          "models/kimi-delta.Q8_0",
                                        "models/qwen4exp.Q8_0",       "models/llama4.Q8_0",
                                        "models/ling3.Q8_0",          "models/minimax-m3.Q8_0",
                                        "models/glm-dsa.Q8_0",        "models/minimax-text.Q8_0",
                                        "models/dbrx.Q8_0",           "models/cohere2moe.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i += SANITIZED ? 3 : 1) {
        const char *path = golden(names[i]);
        check_file(path, (struct way){.n_threads = 1 + (int)i % 2, .sparsity = HEARTH_SPARSITY_OFF});
    }
}

// Experts whose neurons are picked are the CPU's.
static void test_by_neuron(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/smallthinker.Q4_0", "pwri/experts.Q4_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        struct way way = {.n_threads = 1, .sparsity = HEARTH_SPARSITY_EXACT, .device = "0"};
        struct opened o = open_way(path, &way);
        assert_true(device_stats_of(&o).experts == 0 && device_stats_of(&o).head);
        close_opened(&o);
    }
}

// A budget with few experts in the CPU's memory: nothing is read of those that the device has.
static void test_streams(void **state)
{
    (void)state;
    need_device();
    static const char *const presets[] = {"tiny-qwen3-moe", "tiny-gpt-oss", "tiny-glm-flash"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const char *path = keep(make(presets[i]));
        struct way way = {.n_threads = 1 + (int)i % 2};
        float *want = evaluate_alone(path, &way);
        let_stream(path, &way);
        check_file(path, way);
        way.device = "0";
        struct opened o = open_way(path, &way);
        assert_int_equal(device_stats_of(&o).experts, all_experts(o.model));
        float *got = evaluate(&o, NULL);
        struct hearth_streaming_stats streaming;
        hearth_session_streaming_stats(o.session, &streaming, sizeof streaming);
        assert_int_equal(streaming.expert_hits + streaming.expert_misses, 0);
        free(got);
        free(want);
        close_opened(&o);
    }
}

// Experts that are hotter take the places of others, and no logit is another: from memory, from the file.
static void test_moves(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-qwen3-moe"));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    for (int streams = 0; streams < 2; streams++) {
        if (streams)
            let_stream(path, &way);
        way.device = "0";
        way.vram = 6 << 20;
        struct opened o = open_way(path, &way);
        const struct hearth_hot_experts *hot = o.session->offload->experts;
        assert_true(hot && hot->n && hot->n < all_experts(o.model));
        hold_share(&o, HEARTH_SHARE_ALL);
        uint64_t rows[2] = {0};
        for (int round = 0; round < 3; round++) {
            check_logits(&o, want, "experts that come and go");
            rows[round != 0] = device_stats_of(&o).expert_rows - rows[0];
            free_sequences(&o);
        }
        assert_true(hot->moved > 0 && hot->moves);
        printf("%llu experts have moved, %llu rows then %llu\n", (unsigned long long)hot->moved,
               (unsigned long long)rows[0], (unsigned long long)rows[1] / 2);
        assert_true(rows[1] / 2 > rows[0]); // of the same tokens
        close_opened(&o);
    }
    free(want);
}

// A device that fails at its n-th call, for many n: in a layer's middle, while an expert is brought.
static void test_failing(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct way way = {.n_threads = 2};
    float *want = evaluate_alone(path, &way);
    for (int streams = 0; streams < 2; streams++) {
        if (streams)
            let_stream(path, &way);
        way.device = "0";
        way.vram = streams ? 2 << 20 : 0;
        for (long n = 1; n < 1000; n = SANITIZED ? n * 9 : n < 24 ? n + 1 : n * 3) {
            struct opened o = open_way(path, &way);
            assert_true(device_stats_of(&o).experts > 0);
            check_failing_at(&o, n, want);
        }
        way.device = NULL;
    }
    free(want);
}

// While it is opened: fewer layers have experts there.
static void test_failing_open(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    uint64_t before = 0;
    for (long n = 1; n < 2000; n = n * 3 + 1) {
        struct opened o = open_way(path, &way);
        struct hearth_offload_params params = {.device = {.device = "0", .inexact = true, .fail_at = n},
                                               .layers = HEARTH_OFFLOAD_ALL,
                                               .hot_percent = 100};
        OK(hearth_offload_open(&o.session->offload, o.session, &params, &err));
        o.session->work.ffn.experts = o.session->offload->experts;
        assert_true(device_stats_of(&o).experts >= before);
        before = device_stats_of(&o).experts;
        check_logits(&o, want, "a device that fails at first");
        close_opened(&o);
    }
    assert_true(before > 0);
    free(want);
}

// Prompts with more rows than there is room for: what does not fit is the CPU's.
static void test_room(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-qwen3-moe"));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    way.device = "0";
    struct opened o = open_way(path, &way);
    o.session->offload->experts->rows[0].cap = 7;
    o.session->offload->experts->rows[1].cap = 5;
    check_logits(&o, want, "little room");
    assert_true(device_stats_of(&o).expert_rows > 0);
    free(want);
    close_opened(&o);
}

// Whatever share of its experts it computes.
static void test_shares(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct way way = {.n_threads = 2};
    float *want = evaluate_alone(path, &way);
    way.device = "0";
    struct opened o = open_way(path, &way);
    uint64_t before = 0, least = 0;
    for (int part = 0; part <= HEARTH_SHARE_ALL; part += SANITIZED ? 8 : 4) {
        hold_share(&o, part);
        check_logits(&o, want, "a share of the hot experts");
        const uint64_t rows = device_stats_of(&o).expert_rows - before;
        assert_true(part ? rows > least : rows == 0);
        before += rows;
        least = rows;
        free_sequences(&o);
    }
    assert_int_equal(least, all_rows(o.model));
    free(want);
    close_opened(&o);
}

// Layers whose experts are to be the CPU's have none there, nor does anything pass for them; others have.
static void test_cpu_experts(void **state)
{
    (void)state;
    need_device();
    static const unsigned char some[] = {1, 0};
    unsigned char all[64];
    memset(all, 1, sizeof all);
    const char *path = keep(make("tiny-qwen3-moe"));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    way.device = "0";
    for (int prompts = HEARTH_DEVICE_PROMPTS_AUTO; prompts <= HEARTH_DEVICE_PROMPTS_NEVER; prompts++) {
        way.device_prompts = (enum hearth_device_prompts)prompts;
        for (int room = 0; room < 3; room++) {
            way.vram = room == 0 ? 0 : room == 1 ? 3 << 20 : 6 << 20;
            way.cpu_experts = some;
            way.n_cpu_experts = 2;
            struct opened o = open_way(path, &way);
            const struct hearth_offload *d = o.session->offload;
            for (int i = 0; d->experts && i < d->experts->end; i++)
                assert_int_equal(d->experts->layers[i].n != 0, i != 0);
            for (int i = 0; d->passing && i < d->passing->end; i++)
                assert_int_equal(d->passing->passes[i], i != 0);
            assert_true(d->experts || d->passing);
            if (d->experts)
                hold_share(&o, HEARTH_SHARE_ALL);
            check_logits(&o, want, "a layer's experts are the CPU's");
            assert_true(device_stats_of(&o).works);
            const uint64_t rows = device_stats_of(&o).expert_rows, most = all_rows(o.model);
            assert_true(rows < most);
            if (way.vram == 0)
                assert_int_equal(rows, most / moe_layers(o.model) * (moe_layers(o.model) - 1));
            close_opened(&o);

            way.cpu_experts = all;
            way.n_cpu_experts = 64;
            o = open_way(path, &way);
            assert_true(!o.session->offload->experts && !o.session->offload->passing);
            assert_true(device_stats_of(&o).attention > 0 && device_stats_of(&o).head);
            check_logits(&o, want, "all experts are the CPU's");
            assert_int_equal(device_stats_of(&o).expert_rows, 0);
            close_opened(&o);
        }
    }
    struct hearth_session_params params = session_params_of(&way);
    params.cpu_experts = NULL;
    struct opened o;
    open_model_of(&o, path, &way);
    assert_int_equal(hearth_session_open(&o.session, o.model, &params, &err), HEARTH_E_INVALID);
    hearth_model_close(&o.model);
    free(want);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    parts_alone = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_streams),
        cmocka_unit_test(test_moves),        cmocka_unit_test(test_failing),
        cmocka_unit_test(test_failing_open), cmocka_unit_test(test_room),
        cmocka_unit_test(test_by_neuron),    cmocka_unit_test(test_shares),
        cmocka_unit_test(test_cpu_experts),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
