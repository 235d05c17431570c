// SPDX-License-Identifier: MIT
// Running out of the host's memory at every allocation: sessions with devices do not open and say so, or open and
// evaluate, for which they take none; lists of devices; outlooks. What needs a device is skipped where there is none.
#include "check.h"

#include "failing_alloc.h"

#include "device_support.h"
#include "engine/outlook.h"

static struct way starved_way;
static struct opened starved;

// Opens a session, and evaluates without any more memory.
static int open_starved(void)
{
    const int rc = open_session_of(&starved, &starved_way);
    alloc_error = err;
    assert_true(!rc == !!starved.session);
    if (!rc) {
        const long before = failures;
        enum { N = UBATCH + 5 };
        hearth_token tokens[N];
        for (int i = 0; i < N; i++)
            tokens[i] = token_at(starved.n_vocab, 0, i);
        countdown = 0;
        forever = true;
        assert_int_equal(hearth_seq_new(starved.session, &err), 0);
        OK(hearth_prompt(starved.session, 0, tokens, N, NULL, NULL, &err));
        for (int i = 0; i < 2; i++)
            OK(hearth_step(starved.session, (int[]){0}, tokens + i, 1, &err));
        assert_int_equal(failures, before);
        struct hearth_device_stats d = {0};
        hearth_session_device_stats_at(starved.session, 0, &d, sizeof d);
        assert_true((d.through > 0) == (starved_way.device_prompts == HEARTH_DEVICE_PROMPTS_ALWAYS));
    }
    hearth_session_close(&starved.session);
    return rc;
}

// io: how weights stream; NULL: they are in memory.
static void check_way_starved(const char *path, struct way way, const char *io)
{
    way.n_threads = 2;
    if (io)
        let_stream(path, &way);
    way.io = io;
    starved_way = way;
    open_model_of(&starved, path, &starved_way);
    const int n = exhaust_memory_by(open_starved, 7); // each takes a while
    printf("%d sessions did not open\n", n);
    assert_true(n > 20);
    close_opened(&starved);
}

static void test_layers(void **state)
{
    (void)state;
    need_device();
    check_way_starved(make("tiny-dense"), (struct way){.device = "0"}, NULL);
}

static void test_through(void **state)
{
    (void)state;
    need_device();
    check_way_starved(
        make("tiny-dense"),
        (struct way){.device = "0", .device_layers = 1, .device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS},
        "auto");
}

static void test_hot(void **state)
{
    (void)state;
    need_device();
    check_way_starved(
        make_pack(true),
        (struct way){
            .device = "0", .device_layers = 1, .vram = 64 << 20, .sparsity = HEARTH_SPARSITY_PREDICT},
        "pread");
}

static void test_experts(void **state)
{
    (void)state;
    need_device();
    check_way_starved(make("tiny-gpt-oss"), (struct way){.device = "0", .vram = 2 << 20, .hot_percent = 100},
                      "pread");
}

static void test_whole_experts(void **state)
{
    (void)state;
    need_device();
    check_way_starved(make("tiny-gpt-oss"), (struct way){.device = "0", .vram = 64 << 20}, "pread");
}

static void test_through_experts(void **state)
{
    (void)state;
    need_device();
    check_way_starved(
        make("tiny-gpt-oss"),
        (struct way){.device = "0", .vram = 256 << 10, .device_prompts = HEARTH_DEVICE_PROMPTS_ALWAYS},
        "pread");
}

static void test_several(void **state)
{
    (void)state;
    need_device();
    static const float halves[] = {1, 1};
    static const uint64_t sizes[] = {60 << 20, 60 << 20};
    check_way_starved(
        make("tiny-dense"),
        (struct way){.device = "0,0", .vrams = sizes, .n_vrams = 2, .shares = halves, .n_shares = 2}, NULL);
}

// One that nobody else has open.
static int open_alone(void)
{
    struct hearth_accel *a;
    const int rc =
        hearth_accel_open(&a, &(struct hearth_accel_params){.device = "0", .inexact = true}, &alloc_error);
    assert_true(!rc == !!a);
    hearth_accel_close(&a);
    return rc;
}

static void test_open(void **state)
{
    (void)state;
    need_device();
    hearth_accel_close(&kept_devices[0]);
    assert_true(exhaust_memory(open_alone) > 5);
}

// A device that is said to be there is told of.
static int list_devices(void)
{
    struct hearth_device d = {.name = ""};
    const int n = hearth_device_at(0, &d, sizeof d);
    assert_true((n > 0) == (*d.name != '\0'));
    return n > 0 ? HEARTH_OK : hearth_fail(&alloc_error, HEARTH_E_MEMORY, "no list of devices");
}

static void test_list(void **state)
{
    (void)state;
    need_device();
    assert_true(exhaust_memory(list_devices) > 0);
}

// ---- outlooks

static int open_outlook(void)
{
    static const struct hearth_probe probe = {.name = "made",
                                              .cores = 2,
                                              .memory_gb_s = 10,
                                              .core_gb_s = 10,
                                              .any = {.gb_s = 10, .gmac_s = 10, .prompt_gmac_s = 10},
                                              .request_us = 1,
                                              .byte_ns = 1,
                                              .sequential_gb_s = 1,
                                              .depth = 1,
                                              .align = 512};
    struct hearth_outlook_params params = {.session = hearth_session_params_default(), .probe = &probe};
    struct hearth_outlook *o;
    struct hearth_prospect p;
    params.session.n_ctx = N_CTX;
    params.session.n_ubatch = UBATCH;
    params.session.n_threads = 1;
    int rc = hearth_outlook_open(&o, starved.model, &params, &alloc_error);
    assert_true(!rc == !!o);
    if (!rc)
        rc = hearth_outlook_at(o, hearth_outlook_least(o), &p, &alloc_error);
    hearth_outlook_close(&o);
    return rc;
}

static void test_outlook(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-dense", "tiny-qwen3-moe", "tiny-turbosparse-pack"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        starved_way = (struct way){
            .ram = HEARTH_RAM_FIT, .io = "pread", .n_threads = 1, .tests = {SMALL, .always = true}};
        open_model_of(&starved, make(presets[i]), &starved_way);
        assert_true(exhaust_memory_by(open_outlook, 3) > 10);
        close_opened(&starved);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),        cmocka_unit_test(test_through),
        cmocka_unit_test(test_hot),           cmocka_unit_test(test_experts),
        cmocka_unit_test(test_whole_experts), cmocka_unit_test(test_through_experts),
        cmocka_unit_test(test_several),       cmocka_unit_test(test_open),
        cmocka_unit_test(test_list),          cmocka_unit_test(test_outlook),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
