// SPDX-License-Identifier: MIT
// Several devices in a session: the logits of the CPU alone, byte by byte, however the layers are divided, in all modes,
// resident and streamed; hot neurons and experts on several; one device that fails while another goes on. Skipped where
// there is no device. One device counts as two where it is named twice; HEARTH_TEST_DEVICES names others.
#include "check.h"

#include "accel/insides.h"
#include "base/free_memory.h"
#include "engine/offload.h"
#include "engine/offload_divide.h"
#include "device_support.h"

static const float halves[] = {1, 1}, thirds[] = {1, 2};

static const char *two_devices(void)
{
    const char *named = getenv("HEARTH_TEST_DEVICES");
    struct hearth_device d;
    need_device();
    if (!named)
        return "0,0";
    if (hearth_device_at(1, &d, sizeof d) < 2)
        skip();
    keep_device(1);
    return named;
}

static struct way with_halves(struct way way)
{
    way.device = two_devices();
    way.shares = halves;
    way.n_shares = 2;
    return way;
}

// Layers lie side by side up to the end, those of no device before them. Returns how many devices have some.
static int check_layers(const struct opened *o, int n)
{
    int end = o->model->hp.n_layer, having = 0;
    for (int i = n; i-- > 0;) {
        const struct hearth_device_stats stats = device_stats_at(o, i);
        assert_non_null(stats.name);
        assert_int_equal(stats.first_layer + stats.layers, end);
        end = stats.first_layer;
        having += stats.layers > 0;
    }
    struct hearth_device_stats none;
    assert_int_equal(hearth_session_device_stats_at(o->session, n, &none, sizeof none), n);
    assert_null(none.name);
    return having;
}

static void check_way_of_two(const char *path, const struct way *way, const float *want)
{
    struct opened o = open_way(path, way);
    char what[700];
    assert_int_equal(check_layers(&o, 2), 2);
    snprintf(what, sizeof what, "%s on two devices, sparsity %d, %llu bytes", path, (int)way->sparsity,
             (unsigned long long)way->ram);
    check_logits(&o, want, what);
    for (int i = 0; i < 2; i++)
        assert_true(device_stats_at(&o, i).works && device_stats_at(&o, i).tokens > 0);
    close_opened(&o);
}

// ---- how layers are divided

static void test_divide(void **state)
{
    (void)state;
    struct hearth_offload_side s[3] = {{.room = 100, .speed = 10}, {.room = 30, .speed = 10}};
    // As fast as each other: the last one first, all that there is.
    assert_int_equal(hearth_offload_from(s, 2, 1, 0, 12, 12, 10), 0);
    assert_int_equal(hearth_offload_from(s, 2, 0, 0, 12, 9, 10), 0); // which had room for three
    // A faster one before has its fill first.
    s[0].speed = 30;
    assert_int_equal(hearth_offload_from(s, 2, 1, 0, 12, 12, 10), 10);
    assert_int_equal(hearth_offload_from(s, 2, 1, 4, 12, 12, 10), 12); // all of these fit there
    assert_int_equal(hearth_offload_from(s, 2, 0, 4, 12, 12, 10), 4);
    // A slower one before does not; nor one that is hardly faster, or whose speed nobody knows.
    s[0].speed = 3;
    assert_int_equal(hearth_offload_from(s, 2, 1, 0, 12, 12, 10), 0);
    s[0].speed = 12;
    assert_int_equal(hearth_offload_from(s, 2, 1, 0, 12, 12, 10), 0);
    s[0].speed = 30;
    s[1].speed = 0;
    assert_int_equal(hearth_offload_from(s, 2, 1, 0, 12, 12, 10), 0);
    // Shares.
    s[0].share = 1;
    s[1].share = 2;
    s[2].share = 0;
    assert_int_equal(hearth_offload_from(s, 3, 2, 0, 12, 12, 10), 12);
    assert_int_equal(hearth_offload_from(s, 3, 1, 0, 12, 12, 10), 4);
    assert_int_equal(hearth_offload_from(s, 3, 0, 0, 12, 4, 10), 0);
    assert_int_equal(hearth_offload_from(s, 3, 1, 6, 12, 12, 10), 8); // of six
    assert_int_equal(hearth_offload_from(s, 3, 1, 0, 12, 3, 10), 3);  // none is left of its own
}

// ---- the same logits

static void test_golden(void **state)
{
    (void)state;
    static const char *const names[] = {"models/drelu.Q4_0", "models/falcon-40b.Q8_0", "models/gemma3.Q4_0",
                                        "models/phi3.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        struct way way = {.n_threads = 1, .sparsity = HEARTH_SPARSITY_AUTO};
        float *want = evaluate_alone(path, &way);
        way = with_halves(way);
        check_way_of_two(path, &way, want);
        free(want);
    }
}

static const enum hearth_sparsity modes[] = {HEARTH_SPARSITY_OFF, HEARTH_SPARSITY_EXACT,
                                             HEARTH_SPARSITY_PREDICT};

static void test_sparse(void **state)
{
    (void)state;
    static const char *const names[] = {"pwri/llama.Q4_0", "pwri/bamboo.F16", "pwri/opt.Q4_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int mode = 0; mode < 3; mode++) {
            const char *path = golden(names[i]);
            struct way way = {.n_threads = 1, .sparsity = modes[mode]};
            float *want = evaluate_alone(path, &way);
            way = with_halves(way);
            check_way_of_two(path, &way, want);
            free(want);
        }
}

// Which of four models; the last two are packs.
static const char *make_one(int i)
{
    return i == 0   ? make_with("tiny-dense", false)
           : i == 1 ? make_with("tiny-turbosparse", true)
                    : make_pack(i == 3);
}

static void test_streams(void **state)
{
    (void)state;
    two_devices();
    for (int i = 0; i < 4; i++) {
        const char *path = keep(make_one(i));
        struct way way = {.n_threads = 1, .sparsity = i ? HEARTH_SPARSITY_PREDICT : HEARTH_SPARSITY_OFF};
        float *want = evaluate_alone(path, &way);
        let_stream(path, &way);
        way = with_halves(way);
        check_way_of_two(path, &way, want); // all
        way.device_layers = 3;              // of which the CPU has the first ones
        way.shares = thirds;
        check_way_of_two(path, &way, want);
        free(want);
    }
}

// All pairs of some sizes of memory: none, hot neurons alone, some layers, all.
static void test_rooms(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 300 << 10, 1 << 20, 3 << 20, 60 << 20};
    enum { N = sizeof sizes / sizeof *sizes };
    const char *path = keep(make_with("tiny-turbosparse", false));
    struct way way = {.n_threads = 1, .sparsity = HEARTH_SPARSITY_EXACT};
    float *want = evaluate_alone(path, &way);
    way.device = two_devices();
    int both = 0, neither = 0, partly = 0;
    for (int i = 0; i < N * N; i++) {
        const uint64_t vrams[] = {sizes[i / N], sizes[i % N]};
        way.vrams = vrams;
        way.n_vrams = 2;
        struct opened o = open_way(path, &way);
        const int having = check_layers(&o, 2),
                  n = device_stats_at(&o, 0).layers + device_stats_at(&o, 1).layers;
        both += having == 2;
        neither += having == 0;
        partly += n > 0 && n < o.model->hp.n_layer;
        for (int k = 0; k < 2; k++)
            assert_true(device_stats_at(&o, k).bytes <= vrams[k]);
        assert_true(!(device_stats_at(&o, 0).head && device_stats_at(&o, 1).head));
        if (vrams[1] == sizes[N - 1]) // which has all; the other need not have any
            assert_true(device_stats_at(&o, 1).layers == o.model->hp.n_layer && device_stats_at(&o, 1).head);
        if (i % (SANITIZED ? 3 : 2) == 0) // each size of each device, with some of the other's
            check_logits(&o, want, "two devices of these sizes");
        close_opened(&o);
    }
    assert_true(both > 0 && neither > 0 && partly > 0);
    free(want);
}

// The last one's room for the head is the head's, where the layers before have room elsewhere.
static void test_head(void **state)
{
    (void)state;
    const char *path = keep(make_with("tiny-dense", false));
    struct way way = {.n_threads = 1, .device = two_devices(), .vram = 60 << 20};
    float *want = evaluate_alone(path, &(struct way){.n_threads = 1});
    struct opened o = open_way(path, &way);
    const int n_layer = o.model->hp.n_layer;
    const uint64_t all = device_stats_at(&o, 1).bytes;
    assert_true(device_stats_at(&o, 1).head && device_stats_at(&o, 1).layers == n_layer);
    close_opened(&o);
    const uint64_t vrams[] = {60 << 20, all - 1};
    way.vrams = vrams;
    way.n_vrams = 2;
    o = open_way(path, &way);
    assert_int_equal(check_layers(&o, 2), 2);
    assert_true(device_stats_at(&o, 1).head && device_stats_at(&o, 0).first_layer == 0);
    check_logits(&o, want, "a layer less for the head");
    close_opened(&o);
    // Models whose layers devices do not know: the head is the last one's that has room.
    way.no_layers = true;
    way.vrams = (const uint64_t[]){60 << 20, 1};
    free(want);
    want = evaluate_alone(path, &(struct way){.n_threads = 1});
    for (int i = 0; i < 2; i++) {
        o = open_way(path, &way);
        assert_int_equal(check_layers(&o, 2), 0);
        assert_true(device_stats_at(&o, i).head && !device_stats_at(&o, 1 - i).head);
        check_logits(&o, want, "the head alone");
        close_opened(&o);
        way.n_vrams = 0;
    }
    free(want);
}

static void test_three(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make_pack(true));
    struct way way = {.n_threads = 1, .sparsity = HEARTH_SPARSITY_PREDICT};
    float *want = evaluate_alone(path, &way);
    way.device = "0,0,0";
    way.shares = (const float[]){1, 1, 1};
    way.n_shares = 3;
    struct opened o = open_way(path, &way);
    assert_int_equal(check_layers(&o, 3), 3);
    check_logits(&o, want, "three devices");
    close_opened(&o);
    // Those of one device share what is free of its memory; of the system's memory, half is left.
    way.n_shares = 0;
    o = open_way(path, &way);
    uint64_t sum = 0;
    for (const struct hearth_offload *at = o.session->offload; at; at = at->next)
        sum += at->vram;
    assert_true(sum <= hearth_accel_free_memory(o.session->offload->a));
    if (hearth_accel_describe(o.session->offload->a)->shares_memory)
        assert_true(sum / 4 * 3 <= hearth_free_memory("", true).bytes);
    close_opened(&o);
    free(want);
}

// Of a device that was measured, which takes no memory in the end.
static void test_speed(void **state)
{
    (void)state;
    need_device();
    struct hearth_accel *a = NULL;
    OK(hearth_accel_open(&a, &(struct hearth_accel_params){.device = "0", .inexact = true}, &err));
    const double speed = hearth_accel_speed(a);
    assert_true(speed > 1e6 && speed < 1e14);
    assert_int_equal(hearth_accel_stats(a).bytes, 0);
    for (long n = 1; n < 20; n += 3) {
        hearth_accel_fail_at(a, n);
        assert_true(hearth_accel_speed(a) <= 0);
        assert_int_equal(hearth_accel_take(a, &err), HEARTH_E_UNSUPPORTED);
        assert_int_equal(hearth_accel_stats(a).bytes, 0);
    }
    hearth_accel_close(&a);
}

// ---- a device that fails

static struct hearth_accel *device_of(const struct opened *o, int index)
{
    return index ? o->session->offload->next->a : o->session->offload->a;
}

static int n_warnings;

static void count_warning(void *arg, enum hearth_log_level level, const char *message)
{
    (void)arg;
    (void)message;
    n_warnings += level == HEARTH_LOG_WARNING;
}

// At its n-th call, for many n: no logit is another, and the other device goes on with its layers.
static void test_failing(void **state)
{
    (void)state;
    two_devices();
    hearth_log_set(count_warning, NULL);
    for (int i = 0; i < 4; i += 3) {
        const char *path = keep(make_one(i));
        struct way way = {.n_threads = 1, .sparsity = i ? HEARTH_SPARSITY_PREDICT : HEARTH_SPARSITY_OFF};
        float *want = evaluate_alone(path, &way);
        if (i)
            let_stream(path, &way);
        way = with_halves(way);
        struct opened o = open_way(path, &way);
        check_logits(&o, want, "none fails");
        const uint64_t tokens = device_stats_at(&o, 1).tokens;
        close_opened(&o);
        for (long n = 1; n < 600; n = n * (SANITIZED ? 20 : 5) + 3)
            for (int which = 0; which < 2; which++) {
                o = open_way(path, &way);
                n_warnings = 0;
                hearth_accel_fail_at(device_of(&o, which), n);
                check_logits(&o, want, "one of two devices fails");
                assert_false(device_stats_at(&o, which).works);
                assert_true(device_stats_at(&o, which).tokens < tokens);
                assert_true(device_stats_at(&o, 1 - which).works);
                assert_int_equal(device_stats_at(&o, 1 - which).tokens, tokens);
                assert_int_equal(n_warnings, 1);
                close_opened(&o);
            }
        // And both, one after the other.
        o = open_way(path, &way);
        hearth_accel_fail_at(device_of(&o, 0), 300);
        hearth_accel_fail_at(device_of(&o, 1), 200);
        check_logits(&o, want, "both devices fail");
        assert_true(!device_stats_at(&o, 0).works && !device_stats_at(&o, 1).works);
        close_opened(&o);
        free(want);
    }
    hearth_log_set(NULL, NULL);
}

// While layers are brought there: the device has fewer, and the one before has those instead.
static void test_failing_open(void **state)
{
    (void)state;
    const char *device = two_devices();
    const char *path = keep(make_with("tiny-dense", false));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    int fewer = 0;
    for (int which = 0; which < 2; which++)
        for (long n = 1; n < 300; n = n * 2 + 20) {
            struct opened o = open_way(path, &way);
            struct hearth_offload_params params = {
                .device = {.device = device, .inexact = true, .fail_at = n},
                .vram = 60 << 20,
                .shares = halves,
                .n_shares = 2,
                .layers = HEARTH_OFFLOAD_ALL,
                .fail_device = which};
            OK(hearth_offload_open(&o.session->offload, o.session, &params, &err));
            check_layers(&o, 2);
            const int n_layer = o.model->hp.n_layer, own = device_stats_at(&o, which).layers;
            fewer += own < n_layer / 2;
            if (which == 1)
                assert_int_equal(device_stats_at(&o, 0).first_layer, 0);
            check_logits(&o, want, "a device that fails at first");
            close_opened(&o);
        }
    assert_true(fewer > 2);
    free(want);
}

// ---- hot neurons and experts

static void check_hot(const char *path, struct way way, bool streams)
{
    float *want = evaluate_alone(path, &way);
    if (streams)
        let_stream(path, &way);
    way.device = two_devices();
    way.vrams = (const uint64_t[]){60 << 20, 60 << 20};
    way.n_vrams = 2;
    way.device_layers = 1;
    for (int fails = 0; fails < 3; fails++) {
        struct opened o = open_way(path, &way);
        for (int i = 0; i < 2; i++)
            assert_true(device_stats_at(&o, i).neurons > 0);
        assert_int_equal(device_stats_at(&o, 1).layers, 1);
        if (fails)
            hearth_accel_fail_at(device_of(&o, fails - 1), 40);
        check_logits(&o, want, "hot neurons on two devices");
        for (int i = 0; i < 2; i++)
            assert_int_equal(device_stats_at(&o, i).works, i != fails - 1);
        close_opened(&o);
    }
    free(want);
}

static void test_hot(void **state)
{
    (void)state;
    two_devices();
    for (int mode = 0; mode < 3; mode += SANITIZED ? 2 : 1) {
        const char *path = keep(make_with("tiny-turbosparse", mode == 2));
        check_hot(path, (struct way){.n_threads = 2, .sparsity = modes[mode]}, false);
    }
    check_hot(keep(make_pack(true)), (struct way){.n_threads = 2, .sparsity = HEARTH_SPARSITY_PREDICT}, true);
}

static void test_experts(void **state)
{
    (void)state;
    const char *device = two_devices();
    for (int streams = 0; streams < 2; streams++) {
        const char *path = keep(make(streams ? "tiny-qwen3-moe" : "tiny-gpt-oss"));
        struct way way = {.n_threads = 2};
        float *want = evaluate_alone(path, &way);
        if (streams)
            let_stream(path, &way);
        way.device = device;
        way.hot_percent = 100;
        way.vrams = (const uint64_t[]){60 << 20, 30 << 20};
        way.n_vrams = 2;
        for (int fails = 0; fails < 3; fails++) {
            struct opened o = open_way(path, &way);
            const uint64_t n = (uint64_t)o.model->hp.n_expert;
            uint64_t sum = 0;
            for (int i = 0; i < 2; i++) {
                assert_true(device_stats_at(&o, i).experts > 0);
                sum += device_stats_at(&o, i).experts;
            }
            assert_int_equal(sum, n * (uint64_t)(o.model->hp.n_layer - o.model->hp.n_dense));
            assert_true(device_stats_at(&o, 0).experts >= device_stats_at(&o, 1).experts);
            if (fails)
                hearth_accel_fail_at(device_of(&o, fails - 1), 70);
            check_logits(&o, want, "experts on two devices");
            for (int i = 0; i < 2; i++) {
                assert_int_equal(device_stats_at(&o, i).works, i != fails - 1);
                assert_true(device_stats_at(&o, i).expert_rows > 0);
            }
            close_opened(&o);
        }
        free(want);
    }
}

// ---- what is refused, what is given up

static void test_refusals(void **state)
{
    (void)state;
    need_device();
    static const char *const texts[] = {"0,,0",   ",0",    "0,",
                                        ",",      "0,99",  "0,no such device",
                                        "0,auto", "all,0", "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"};
    const char *path = golden("models/drelu.Q8_0");
    struct opened o;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct way way = {.n_threads = 1, .device = texts[i]};
        assert_int_equal(try_open(&o, path, &way), HEARTH_E_INVALID);
        assert_non_null(strstr(err.message, "device"));
        close_opened(&o);
    }
    static const uint64_t vrams[] = {1 << 20, 1 << 20, 1 << 20};
    static const float none[] = {0, 0}, wrong[] = {1, -1};
    const struct way ways[] = {
        {.n_vrams = 3, .vrams = vrams},
        {.n_vrams = 1, .vrams = vrams},
        {.n_vrams = 2},
        {.n_shares = 1, .shares = halves},
        {.n_shares = 2, .shares = none},
        {.n_shares = 2, .shares = wrong},
        {.n_shares = 2},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct way way = ways[i];
        way.n_threads = 1;
        way.device = "0,0";
        assert_int_equal(try_open(&o, path, &way), HEARTH_E_INVALID);
        close_opened(&o);
    }
    int numbers[HEARTH_ACCEL_MOST];
    struct hearth_device d;
    bool gpu = false;
    for (int i = 0; hearth_device_at(i, &d, sizeof d) > i; i++)
        gpu |= !d.is_cpu;
    assert_int_equal(hearth_accel_choose(numbers, "0,0", &err), 2);
    assert_true(numbers[0] == 0 && numbers[1] == 0);
    assert_true(gpu ? hearth_accel_choose(numbers, "all", &err) > 0
                    : hearth_accel_choose(numbers, "all", &err) == HEARTH_E_INVALID);
}

// Between the two devices: the sequence is as it was, and what comes after is the same.
static void test_cancel(void **state)
{
    (void)state;
    struct hearth_session_params p = hearth_session_params_default();
    struct stoppable o;
    p.device = two_devices();
    p.device_shares = halves;
    p.n_device_shares = 2;
    open_stoppable(&o, make_with("tiny-dense", false), p);
    const size_t bytes = (size_t)o.model->hp.n_vocab * sizeof(float);
    const int seq = hearth_seq_new(o.session, &err);
    assert_int_equal(prompt_stoppable(&o, seq), HEARTH_E_INTERRUPTED);
    assert_int_equal(hearth_seq_length(o.session, seq), 0);
    const struct hearth_offload *first = o.session->offload;
    assert_true(first->tokens == N_CANCEL && first->next->tokens == 0);
    o.left = 1000;
    OK(prompt_stoppable(&o, seq));
    float *got = malloc(bytes);
    memcpy(got, hearth_logits(o.session, 0), bytes);
    close_stoppable(&o);
    p.device = NULL;
    open_stoppable(&o, in_folder("model.gguf"), p);
    o.left = 1000;
    OK(prompt_stoppable(&o, hearth_seq_new(o.session, &err)));
    assert_memory_equal(got, hearth_logits(o.session, 0), bytes);
    free(got);
    close_stoppable(&o);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divide),   cmocka_unit_test(test_golden),       cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_streams),  cmocka_unit_test(test_rooms),        cmocka_unit_test(test_head),
        cmocka_unit_test(test_three),    cmocka_unit_test(test_speed),        cmocka_unit_test(test_failing),
        cmocka_unit_test(test_hot),      cmocka_unit_test(test_failing_open), cmocka_unit_test(test_experts),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
