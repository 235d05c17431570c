// SPDX-License-Identifier: MIT
// Attention of layers with experts on a device, with the cache: the logits of the CPU alone, byte by byte, with some or
// all layers' there, beside the head, hot experts and experts that pass; resident and streamed, in batches and parts;
// sequences that are cut, forked, saved and continued; a device that is small, or fails at any place. Skipped where there
// is no device (PoCL is one).
#include "check.h"

#include "accel/insides.h"
#include "device_support.h"

// Tokens that evaluate() has in all.
enum { N_TOKENS = N_PROMPT + 5 + 21 + N_STEPS * (1 + N_SEQS) + 1 };

// Layers from this one on that attend.
static int n_attending(const struct opened *o, int first)
{
    int n = 0;
    for (int layer = first; layer < o->model->hp.n_layer; layer++)
        n += hearth_attends(&o->model->hp, layer);
    return n;
}

// Rows of experts that all tokens use, in the layers that are there.
static uint64_t shared_rows(const struct opened *o, const struct hearth_device_stats *d)
{
    const struct hearth_hparams *hp = &o->model->hp;
    uint64_t rows = 0;
    for (int layer = d->first_layer; layer < hp->n_layer; layer++) {
        const struct hearth_layer *l = &o->model->weights.layers[layer];
        const bool is_weighed = hearth_has(&l->ffn_router_shared),
                   has_gates = hearth_has(&l->ffn_gate_shared);
        if (hp->limit_shared > 0)
            return 0;
        rows += hearth_attends(hp, layer) && has_gates && !is_weighed ? N_TOKENS : 0;
    }
    return rows;
}

static uint64_t all_shared; // such rows of all tests

// A session with a device, which is used in all of its evaluations. Returns how many layers' attention is there.
static int check_there(const char *path, const struct way *way, const float *want)
{
    char what[700];
    struct opened o = open_way(path, way);
    const struct hearth_device_stats before = device_stats_of(&o);
    snprintf(what, sizeof what, "%s with attention of %d layers on a device of %llu bytes", path,
             before.attention, (unsigned long long)way->vram);
    assert_true(before.layers == 0 && before.attention <= o.model->hp.n_layer);
    assert_int_equal(before.attention, n_attending(&o, before.first_layer));
    assert_true(!way->vram || before.bytes <= way->vram);
    check_logits(&o, want, what);
    const struct hearth_device_stats after = device_stats_of(&o);
    assert_int_equal(after.works, 1);
    assert_int_equal(after.tokens, before.attention ? N_TOKENS : 0);
    assert_int_equal(o.session->offload->shared->rows, before.attention ? shared_rows(&o, &before) : 0);
    all_shared += o.session->offload->shared->rows;
    close_opened(&o);
    return before.attention;
}

static int n_layers(const char *path)
{
    struct opened o;
    open_model_of(&o, path, &(struct way){0});
    const int n = n_attending(&o, 0);
    hearth_model_close(&o.model);
    return n;
}

// All, and one alone.
static void check_file(const char *path, struct way way)
{
    struct way alone = way;
    alone.ram = 0;
    float *want = evaluate_alone(path, &alone);
    way.device = "0";
    assert_int_equal(check_there(path, &way, want), n_layers(path));
    way.device_layers = 1;
    assert_int_equal(check_there(path, &way, want), 1);
    way.vram = 64 << 20; // with experts besides
    assert_int_equal(check_there(path, &way, want), 1);
    free(want);
}

static void test_golden(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/mixtral.F16",
                                        "models/gpt-oss.MXFP4",
                                        "models/qwen3moe.Q4_0",
                                        "models/smallthinker.Q4_0",
                                        "models/granitemoe.Q8_0",
                                        "models/glm4moe.Q8_0",
                                        "models/olmoe.Q8_0",
                                        "models/bailing2.Q8_0",
                                        "models/exaone-moe.Q8_0",
                                        "models/ernie-moe.Q8_0",
                                        "models/hunyuan-moe.Q8_0",
                                        "models/phimoe.Q8_0",
                                        "models/qwen3moe.NVFP4",
                                        "models/dbrx.Q8_0",
                                        "models/gemma4-moe.Q4_0",
                                        "models/afmoe.Q8_0",
                                        "models/step35.Q8_0",
                                        "models/mellum.Q8_0",
                                        "models/mimo2.Q8_0",
                                        "models/llama4.Q8_0",
                                        "models/llama4-chunks.Q8_0",
                                        "models/deepseek-v2.Q8_0",
                                        "models/deepseek-v2-joint.Q4_0",
                                        "models/deepseek-v3.Q8_0",
                                        "models/glm-lite.Q8_0",
                                        "models/mistral4.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        check_file(path, (struct way){.n_threads = 1 + (int)i % 2, .sparsity = HEARTH_SPARSITY_OFF});
    }
    assert_true(all_shared > 0);
}

// Models of which only some layers attend: the others are the CPU's.
static void test_some_attend(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/qwen35moe.Q8_0",      "models/qwen3next.Q8_0",
                                        "models/lfm2moe.Q8_0",        "models/granite-hybrid-moe.Q8_0",
                                        "models/nemotron-super.Q8_0", "models/nemotron-h-moe.Q8_0",
                                        "models/kimi-delta.Q8_0",     "models/ling3.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        struct way way = {.n_threads = 1 + (int)i % 2, .sparsity = HEARTH_SPARSITY_OFF};
        float *want = evaluate_alone(path, &way);
        way.device = "0";
        const int all = check_there(path, &way, want);
        assert_int_equal(all, n_layers(path));
        int before = 0;
        for (way.device_layers = 1; before < all; way.device_layers++) {
            const int n = check_there(path, &way, want);
            assert_true(n == before || n == before + 1);
            before = n;
        }
        free(want);
    }
}

static void test_caches(void **state)
{
    (void)state;
    need_device();
    const char *path = golden("models/gpt-oss.Q8_0");
    check_file(path, (struct way){.n_threads = 1, .type_k = HEARTH_KV_F32});
    check_file(path, (struct way){.n_threads = 2, .type_v = HEARTH_KV_F32});
    check_file(path, (struct way){.n_threads = 2, .type_k = HEARTH_KV_Q8_0, .type_v = HEARTH_KV_Q8_0});
    path = keep(make("tiny-glm-flash")); // values are the beginnings of keys
    check_file(path, (struct way){.n_threads = 1, .type_k = HEARTH_KV_F32});
    check_file(path, (struct way){.n_threads = 2, .type_k = HEARTH_KV_Q8_0});
}

// Steps by neuron within experts: gates that decide, predictors.
static void test_by_neuron(void **state)
{
    (void)state;
    need_device();
    check_file(golden("models/smallthinker.Q4_0"),
               (struct way){.n_threads = 1, .sparsity = HEARTH_SPARSITY_EXACT});
    check_file(golden("pwri/experts.Q4_0"),
               (struct way){.n_threads = 1, .sparsity = HEARTH_SPARSITY_PREDICT});
}

// Attention that devices do not know, and caches.
static void test_others(void **state)
{
    (void)state;
    need_device();
    static const char *const names[] = {"models/deepseek32.Q8_0", "models/laguna.Q8_0",
                                        "models/cohere2moe.Q8_0", "models/gpt-oss.Q8_0",
                                        "models/qwen4exp.Q8_0",   "models/minimax-m3.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = golden(names[i]);
        struct way way = {.n_threads = 1, .no_layers = i == 3};
        float *want = evaluate_alone(path, &way);
        way.device = "0";
        assert_int_equal(check_there(path, &way, want), 0);
        free(want);
    }
}

// Weights that stream.
static void test_streams(void **state)
{
    (void)state;
    need_device();
    static const char *const presets[] = {"tiny-qwen3-moe", "tiny-gpt-oss", "tiny-turbosparse-moe",
                                          "tiny-glm-flash"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const char *path = keep(make(presets[i]));
        struct way way = {.n_threads = 1 + (int)i % 2};
        let_stream(path, &way);
        check_file(path, way);
    }
}

// Device memory that grows until nothing more would go there: none, some, all, never fewer. What the device has besides
// is there first: as much of it with attention as without, but for hot experts.
static void check_sizes(const char *path, enum hearth_device_prompts prompts)
{
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    const int n_layer = n_layers(path);
    int before = 0, some = 0, passing = 0, with_head = 0, with_experts = 0;
    way.device = "0";
    way.device_prompts = prompts;
    way.vram = (uint64_t)1 << 28;
    struct opened largest = open_way(path, &way);
    const uint64_t all = device_stats_of(&largest).bytes;
    close_opened(&largest);
    bool is_all = false;
    for (way.vram = 1 << 14; !is_all; way.vram += way.vram / (SANITIZED ? 2 : is_thorough() ? 6 : 4)) {
        assert_true(way.vram < (uint64_t)1 << 28);
        const struct way other = {
            .n_threads = 1, .device = "0", .vram = way.vram, .device_prompts = prompts, .no_layers = true};
        struct opened o = open_way(path, &way), without = open_way(path, &other);
        const struct hearth_device_stats stats = device_stats_of(&o), base = device_stats_of(&without);
        const bool passes = o.session->offload->passing != NULL;
        assert_int_equal(base.attention, 0);
        assert_int_equal(stats.head, base.head);
        assert_true(passes || !without.session->offload->passing);
        assert_true(stats.experts <= base.experts && (stats.attention || stats.experts == base.experts));
        close_opened(&o);
        close_opened(&without);
        is_all = stats.bytes == all;
        const bool more = stats.attention != before;
        passing += passes && stats.attention;
        with_head += stats.head && stats.attention;
        with_experts += stats.experts && stats.attention;
        before = stats.attention;
        some += before > 0 && before < n_layer;
        if (more)
            assert_int_equal(check_there(path, &way, want), before);
    }
    assert_true(before == n_layer && some && with_head && with_experts);
    assert_int_equal(passing != 0, prompts != HEARTH_DEVICE_PROMPTS_NEVER);
    free(want);
}

static void test_sizes(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-qwen3-moe"));
    check_sizes(path, HEARTH_DEVICE_PROMPTS_AUTO);
    check_sizes(path, HEARTH_DEVICE_PROMPTS_NEVER);
}

// A device that fails at its n-th call: the CPU goes on, and no logit is another. Resident and streamed, at once and in
// parts, with experts there and without.
static void check_failing(const char *path, bool streams)
{
    struct way way = {.n_threads = 2};
    float *want = evaluate_alone(path, &way);
    for (int i = 0; i < (streams ? 4 : 2); i++) {
        if (i == 2)
            let_stream(path, &way);
        way.device = "0";
        way.device_layers = i % 2 ? 0 : 2;
        way.vram = 0;
        // Each call of a layer, where weights are in memory; what streams differs after that.
        const long step = (i < 2 ? 1 : 3) * (is_thorough() ? 1 : 2);
        for (long n = 1; n < 2000; n = SANITIZED ? n * 9 : n < 40 ? n + step : n + n / 2) {
            struct opened o = open_way(path, &way);
            assert_true(device_stats_of(&o).attention >= 2);
            assert_int_equal(device_stats_of(&o).experts != 0, i % 2);
            if (i == 2)
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
    check_failing(keep(make("tiny-gpt-oss")), true);
    check_failing(golden("models/glm4moe.Q8_0"), false); // with an expert that all tokens use
    check_failing(golden("models/deepseek-v3.Q8_0"), false);
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
    for (long n = 1; n < 2000; n = n * 2 + 1) {
        struct opened o = open_way(path, &way);
        struct hearth_offload_params params = {.device = {.device = "0", .inexact = true, .fail_at = n},
                                               .layers = HEARTH_OFFLOAD_ALL,
                                               .hot_percent = 100};
        OK(hearth_offload_open(&o.session->offload, o.session, &params, &err));
        const int n_there = device_stats_of(&o).attention;
        fewest = n_there < fewest ? n_there : fewest;
        most = n_there > most ? n_there : most;
        check_logits(&o, want, "a device that fails at first");
        close_opened(&o);
    }
    assert_true(fewest == 0 && most == n_layers(path));
    free(want);
}

// Batches that are larger than what the device takes at a time.
static void test_parts(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    way.device = "0";
    struct opened o = open_way(path, &way);
    o.session->offload->rows[0].cap = 3;
    check_logits(&o, want, "in parts");
    assert_int_equal(device_stats_of(&o).tokens, N_TOKENS);
    close_opened(&o);
    free(want);
    check_mixed_parts(path);
    check_mixed_parts(golden("models/glm4moe.Q8_0"));
    check_mixed_parts(golden("models/deepseek-v3.Q8_0"));
}

// What the device knows of the cache does not go there again: a step sends its row to each layer, and little more.
static void test_bytes(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    const struct way way = {.n_threads = 1, .device = "0", .device_layers = 2};
    struct opened o = open_way(path, &way);
    const struct hearth_hparams *hp = &o.model->hp;
    hearth_token tokens[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++)
        tokens[i] = token_at(o.n_vocab, 0, i);
    const int seq = hearth_seq_new(o.session, &err);
    for (int i = 0; i < 3; i++) {
        const struct hearth_device_stats before = device_stats_of(&o);
        const uint64_t row = (uint64_t)hp->n_layer * (uint64_t)hp->n_embd * sizeof(float);
        if (i)
            OK(hearth_step(o.session, &seq, tokens, 1, &err));
        else
            OK(hearth_prompt(o.session, seq, tokens, N_PROMPT, NULL, NULL, &err));
        const uint64_t sent = device_stats_of(&o).bytes_up - before.bytes_up;
        assert_true(sent >= (i ? 1 : N_PROMPT) * row && sent < (i ? 1 : N_PROMPT) * row * 3 / 2);
        assert_int_equal(device_stats_of(&o).attention, 2);
    }
    close_opened(&o);
}

static void test_sequences(void **state)
{
    (void)state;
    need_device();
    const char *path = keep(make("tiny-gpt-oss"));
    check_sequences(path);
    check_watched(path);
    check_sequences(keep(make("tiny-glm-flash")));
}

// Two devices that divide the layers; the first or the second fails.
static void check_several(const char *path)
{
    struct way way = {.n_threads = 1};
    float *want = evaluate_alone(path, &way);
    set_devices(&way, 2);
    check_two(path, &way, want, N_TOKENS);
    free(want);
}

static void test_several(void **state)
{
    (void)state;
    need_device();
    check_several(keep(make("tiny-gpt-oss")));
    check_several(golden("models/granitemoe.Q8_0"));
}

// Cancels when a part's rows are read: what reads them is the back end's.
static struct hearth_accel_backend cancelling;
static int (*read_device)(void *state, void *from, size_t at, void *to, size_t n, void **event,
                          struct hearth_error *err);
static struct hearth_session *to_cancel;
static int reads_left;

static int read_and_cancel(void *state, void *from, size_t at, void *to, size_t n, void **event,
                           struct hearth_error *e)
{
    if (!event && --reads_left == 0)
        hearth_cancel(to_cancel);
    return read_device(state, from, at, to, n, event, e);
}

// Cancelled before, and while the device has a part of a layer: the others are not begun, and the next evaluation is as
// ever.
static void test_cancel(void **state)
{
    (void)state;
    need_device();
    enum { CAP = 2, PARTS = (N_CANCEL + CAP - 1) / CAP };
    struct hearth_session_params p = hearth_session_params_default();
    struct stoppable o;
    p.device = "0";
    p.device_hot_percent = 100;
    open_stoppable(&o, keep(make("tiny-gpt-oss")), p);
    struct hearth_offload *of = o.session->offload;
    const int seq = check_stops(&o), n_layer = o.model->hp.n_layer;
    assert_true(of->first == 0 && of->tokens == N_CANCEL);
    of->rows[0].cap = CAP;
    OK(hearth_seq_truncate(o.session, seq, 0, &err));
    cancelling = *of->a->backend;
    read_device = cancelling.read;
    cancelling.read = read_and_cancel;
    of->a->backend = &cancelling;
    to_cancel = o.session;
    float *want = malloc((size_t)o.model->hp.n_vocab * sizeof *want);
    memcpy(want, hearth_logits(o.session, 0), (size_t)o.model->hp.n_vocab * sizeof *want);
    for (int left = 1; left <= n_layer * PARTS; left++) {
        reads_left = left;
        assert_int_equal(prompt_stoppable(&o, seq), HEARTH_E_INTERRUPTED);
        assert_int_equal(reads_left, 0); // none came after it
        assert_int_equal(hearth_seq_length(o.session, seq), 0);
    }
    OK(prompt_stoppable(&o, seq));
    assert_memory_equal(hearth_logits(o.session, 0), want, (size_t)o.model->hp.n_vocab * sizeof *want);
    free(want);
    close_stoppable(&o);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    parts_alone = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_some_attend),
        cmocka_unit_test(test_caches),  cmocka_unit_test(test_by_neuron),
        cmocka_unit_test(test_others),  cmocka_unit_test(test_streams),
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_failing),
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_failing_open),
        cmocka_unit_test(test_bytes),   cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_several), cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_devices);
}
