// SPDX-License-Identifier: MIT
// Models that are not all in memory give the logits of those that are, bit by bit: at all budgets, with any
// backend and number of threads, several sequences at once. When things go wrong:
// test_streaming_faults.c.
#include "check.h"

#include "convert/pack.h"
#include "convert/profile.h"
#include "made_models.h"
#include "streaming_support.h"

static void test_dense(void **state)
{
    (void)state;
    check_preset("tiny-dense", all_modes + 2, 1);
    check_preset("tiny-gemma-4-e", all_modes + 2, 1);
}

// The head is also the embedding table: in memory it is there once, and rows of it are read when it is not.
static void test_tied(void **state)
{
    (void)state;
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/tied.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/gemma3.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/gemma3n.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/phi3.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/nemotron-h.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/granite-hybrid.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/deci.Q8_0.gguf", HEARTH_SPARSITY_OFF);
}

// Layers of two kinds, experts beside a dense part; of a table of what tokens give layers, rows are read, whatever the
// budget.
static void test_gemma4(void **state)
{
    (void)state;
    static const char *const paths[] = {HEARTH_SOURCE_DIR "/tests/golden/models/gemma4-e.Q8_0.gguf",
                                        HEARTH_SOURCE_DIR "/tests/golden/models/gemma4-moe.Q8_0.gguf",
                                        HEARTH_SOURCE_DIR "/tests/golden/models/gemma4-moe.Q4_0.gguf"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        check_model(paths[i], HEARTH_SPARSITY_OFF);
    const struct way way = {.ram = (uint64_t)1 << 30,
                            .n_threads = 1,
                            .sparsity = HEARTH_SPARSITY_OFF,
                            .tests = {.always = true, .weights_only = true}};
    struct opened o = open_way(paths[0], &way);
    const struct hearth_weights *w = &o.session->sources->weights;
    assert_true(hearth_has(&w->token_layers) && !w->token_layers.data);
    assert_non_null(w->token_layers_in.data);
    close_opened(&o);
}

// Several streams, chosen positions; of a table of n-grams, rows are read, whatever the budget.
static void test_qwen4(void **state)
{
    (void)state;
    const char *path = HEARTH_SOURCE_DIR "/tests/golden/models/qwen4exp.Q8_0.gguf";
    check_model(path, HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/qwen4exp-tied.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    const struct way way = {.ram = (uint64_t)1 << 30,
                            .n_threads = 1,
                            .sparsity = HEARTH_SPARSITY_OFF,
                            .tests = {.always = true, .weights_only = true}};
    struct opened o = open_way(path, &way);
    const struct hearth_weights *w = &o.session->sources->weights;
    assert_true(hearth_has(&w->gram_table) && !w->gram_table.data);
    assert_non_null(w->output_mix_down.data);
    close_opened(&o);
}

// Balanced streams, and such as are kept; experts that a table chooses.
static void test_deepseek4(void **state)
{
    (void)state;
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/deepseek-v4.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/deepseek-v4-wide.Q8_0.gguf", HEARTH_SPARSITY_OFF);
    check_model(HEARTH_SOURCE_DIR "/tests/golden/models/hy-v4.Q8_0.gguf", HEARTH_SPARSITY_OFF);
}

// A head that is larger than all layers together streams in parts that fit where a layer does.
static void test_large_head(void **state)
{
    (void)state;
    static const struct made models[] = {{.arch = "llama", .optional = true, .vocab = 4000},
                                         {.arch = "llama", .vocab = 4000}}; // the head is the embedding
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s", in_folder("model.gguf"));
        made_write(path, &models[i]);
        uint64_t least, most;
        find_budgets(path, HEARTH_SPARSITY_OFF, 1, &least, &most);
        const struct way way = {
            .ram = least, .n_threads = 1, .sparsity = HEARTH_SPARSITY_OFF, .tests = {SMALL, .always = true}};
        struct opened o = open_way(path, &way);
        const struct hearth_budget_plan *plan = &o.session->sources->plan;
        assert_true(!plan->head_in_memory && plan->layer_buffers > 0);
        assert_true(plan->layer_buffers < (uint64_t)4000 * MADE_E * sizeof(float) / 2);
        close_opened(&o);
        check_model(path, HEARTH_SPARSITY_OFF);
    }
}

static void test_relu(void **state)
{
    (void)state;
    check_preset("tiny-relullama", all_modes, 3);
    check_preset("tiny-opt", all_modes, 3);
    check_preset("tiny-falcon", all_modes, 3);
}

static void test_drelu(void **state)
{
    (void)state;
    check_preset("tiny-turbosparse", all_modes, 3);
    check_preset("tiny-turbosparse-moe", all_modes, 2);
}

// Packs: without a profile, and with one.

static void make_profile(const char *model, const char *profile)
{
    struct hearth_model *m;
    OK(hearth_model_open(&m, model, NULL, &err));
    hearth_token tokens[1000];
    for (int i = 0; i < 1000; i++)
        tokens[i] = token_at(hearth_model_info(m)->n_vocab, 3, i);
    OK(hearth_profile(m, tokens, 1000, &(struct hearth_profile_params){.n_threads = 2}, profile, NULL, &err));
    hearth_model_close(&m);
}

static void check_packs_with(const char *preset, bool early, const enum hearth_sparsity *modes, int n)
{
    char model[512], pack[512], profile[512];
    snprintf(model, sizeof model, "%s", make_with(preset, early));
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    snprintf(profile, sizeof profile, "%s", in_folder("profile"));
    make_profile(model, profile);
    for (int with = FIRST_PACK; with < 2; with++) {
        remove(pack);
        OK(hearth_pack_write(model, pack, &(struct hearth_pack_params){.profile = with ? profile : NULL},
                             NULL, &err));
        for (int i = 0; i < n; i += NEXT_MODE)
            check_model(pack, modes[i]);
    }
    remove(profile);
}

static void check_packs(const char *preset, const enum hearth_sparsity *modes, int n)
{
    check_packs_with(preset, false, modes, n);
}

static void test_packs(void **state)
{
    (void)state;
    check_packs("tiny-turbosparse", all_modes, 3);
}

static void test_relu_packs(void **state)
{
    (void)state;
    check_packs("tiny-relullama", all_modes, 1);
    check_packs("tiny-opt", all_modes, 1);
    check_packs("tiny-falcon", all_modes, 1);
}

// Layers that differ in width, each with several clusters: gates in the bundles, and apart, where they say which
// neurons a step needs.
static void test_packs_of_two_widths(void **state)
{
    (void)state;
    char model[512], pack[512], profile[512];
    struct made made = {.arch = "gemma4",
                        .gives = true,
                        .borrows = true,
                        .two_widths = true,
                        .by_neuron = true,
                        .ff = 1000,
                        .set = {{"feed_forward.activation", 's', 0, "relu"}}};
    snprintf(model, sizeof model, "%s", in_folder("model.gguf"));
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    snprintf(profile, sizeof profile, "%s", in_folder("profile"));
    for (int kind = 0; kind < 4; kind++) {
        const struct hearth_pack_params params = {.profile = kind < 2 ? profile : NULL,
                                                  .gates_apart = kind > 0};
        if (kind == 0 || kind == 3) {
            made.ff = kind ? 896 : 1000; // 896: the narrower layers have the larger clusters
            remove(model);
            made_write(model, &made);
            make_profile(model, profile);
        }
        remove(pack);
        OK(hearth_pack_write(model, pack, &params, NULL, &err));
        check_model(pack, HEARTH_SPARSITY_EXACT);
        check_model(pack, HEARTH_SPARSITY_OFF);
    }
    remove(profile);
}

static void test_expert_packs(void **state)
{
    (void)state;
    check_packs("tiny-turbosparse-moe", all_modes, 2);
    check_preset("tiny-turbosparse-pack", all_modes, 3);
}

// Packs of models whose gate and up are one matrix, whose layers are of two kinds, or that have experts beside a dense
// part.
static void test_packs_of_others(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool apart;
    } cases[] = {
        {"phi3.Q8_0", false}, {"gemma4.Q8_0", false}, {"gemma4.Q8_0", true}, {"gemma4-moe.Q8_0", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char model[512], pack[512];
        snprintf(model, sizeof model, HEARTH_SOURCE_DIR "/tests/golden/models/%s.gguf", cases[i].name);
        snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
        remove(pack);
        OK(hearth_pack_write(model, pack, &(struct hearth_pack_params){.gates_apart = cases[i].apart}, NULL,
                             &err));
        check_model(pack, HEARTH_SPARSITY_OFF);
    }
}

// Predictors that look at the layer before.
static void test_early_packs(void **state)
{
    (void)state;
    check_packs_with("tiny-turbosparse", true, all_modes, 1);
    check_packs_with("tiny-falcon", true, all_modes, 1);
    check_packs_with("tiny-turbosparse-moe", true, all_modes, 1);
}

// Gates apart from the bundles say which neurons a step reads, without any predictor.

static void pack_gates_apart(const char *model, const char *pack, const char *profile)
{
    remove(pack);
    OK(hearth_pack_write(model, pack, &(struct hearth_pack_params){.profile = profile, .gates_apart = true},
                         NULL, &err));
}

// Bytes that the steps of an evaluation read, with little memory.
static uint64_t bytes_of_steps(const char *pack, uint64_t ram)
{
    const struct way way = {
        .ram = ram, .n_threads = 1, .sparsity = HEARTH_SPARSITY_EXACT, .tests = {SMALL, .always = true}};
    struct opened o = open_way(pack, &way);
    float *logits = evaluate(&o, NULL);
    struct hearth_streaming_stats stats;
    hearth_session_streaming_stats(o.session, &stats, sizeof stats);
    const uint64_t bytes = stats.step_read_bytes;
    free(logits);
    close_opened(&o);
    return bytes;
}

static void test_gates_apart(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-turbosparse", "tiny-relullama"};
    char model[512], plain[512], apart[512], profile[512];
    snprintf(plain, sizeof plain, "%s", in_folder("plain.gguf"));
    snprintf(apart, sizeof apart, "%s", in_folder("apart.gguf"));
    snprintf(profile, sizeof profile, "%s", in_folder("profile"));
    for (int i = 0; i < 2; i++) {
        snprintf(model, sizeof model, "%s", make(presets[i]));
        make_profile(model, profile);
        remove(plain);
        OK(hearth_pack_write(model, plain, &(struct hearth_pack_params){.profile = profile}, NULL, &err));
        pack_gates_apart(model, apart, profile);
        float *want = evaluate_in_memory(plain, HEARTH_SPARSITY_EXACT);
        check_way(apart, &(struct way){.n_threads = 2, .sparsity = HEARTH_SPARSITY_EXACT}, want);
        free(want);
        for (int k = i; k < (i ? 2 : 3); k++)
            check_model(apart, all_modes[k]);
        remove(profile);
    }
}

// They are worth it: steps read less than whole layers.
static void test_gates_apart_bytes(void **state)
{
    (void)state;
    if (SANITIZED) // the same numbers, in a minute
        skip();
    uint64_t least, most;
    char plain[512], apart[512];
    snprintf(plain, sizeof plain, "%s", in_folder("plain.gguf"));
    snprintf(apart, sizeof apart, "%s", in_folder("apart.gguf"));
    const char *model = make("small-turbosparse");
    remove(plain);
    OK(hearth_pack_write(model, plain, &(struct hearth_pack_params){.n_threads = 2}, NULL, &err));
    pack_gates_apart(model, apart, NULL);
    find_budgets(apart, HEARTH_SPARSITY_EXACT, 1, &least, &most);
    const uint64_t few = bytes_of_steps(apart, least), all = bytes_of_steps(plain, least);
    assert_true(few < all * 3 / 4); // of steps of up to three sequences, from empty caches
}

// The same with thresholds on the size of activated gates, in a model that is not of the ReLU family.
static void test_gates_apart_threshold(void **state)
{
    (void)state;
    struct way way = {.n_threads = 2, .sparsity = HEARTH_SPARSITY_EXACT, .magnitude = 0.1f};
    uint64_t least, most;
    char apart[512];
    snprintf(apart, sizeof apart, "%s", in_folder("apart.gguf"));
    pack_gates_apart(HEARTH_SOURCE_DIR "/models/hearth-novels-swiglu-Q8_0.gguf", apart, NULL);
    struct opened o = open_way(apart, &way);
    float *want = evaluate(&o, NULL);
    close_opened(&o);
    way.n_seqs = N_SEQS;
    find_budgets_of(apart, way, &least, &most);
    way.tests = (struct hearth_weights_tests){SMALL, .always = true};
    for (int i = 0; i < 3; i++) {
        way.ram = least + (most - least) * (uint64_t)i / 3;
        check_way(apart, &way, want);
    }
    free(want);
}

int main(int argc, char **argv)
{
    if (argc > 1) // a pattern such as "test_*packs"
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_relu),
        cmocka_unit_test(test_drelu),
        cmocka_unit_test(test_packs),
        cmocka_unit_test(test_relu_packs),
        cmocka_unit_test(test_packs_of_two_widths),
        cmocka_unit_test(test_expert_packs),
        cmocka_unit_test(test_packs_of_others),
        cmocka_unit_test(test_early_packs),
        cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_qwen4),
        cmocka_unit_test(test_deepseek4),
        cmocka_unit_test(test_large_head),
        cmocka_unit_test(test_gates_apart),
        cmocka_unit_test(test_gates_apart_bytes),
        cmocka_unit_test(test_gates_apart_threshold),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
