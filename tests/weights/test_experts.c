// SPDX-License-Identifier: MIT
// Experts of ordinary files that come one by one: the logits are those of the model in memory, bit by bit,
// and only experts that are chosen and absent are read.
#include "check.h"

#include "gguf/gguf.h"
#include "golden_models.h"
#include "made_models.h"
#include "streaming_support.h"

// ---- the same logits

static void test_presets(void **state)
{
    (void)state;
    check_preset("tiny-qwen3-moe", all_modes + 2, 1);
    check_preset("tiny-gpt-oss", all_modes + 2, 1);
    check_preset("tiny-glm-flash", all_modes + 2, 1);
    check_preset("tiny-qwen3.6", all_modes + 2, 1);
    check_preset("tiny-qwen3.8", all_modes + 2, 1);
    check_preset("tiny-glm-5", all_modes + 2, 1);
    check_preset("tiny-gemma-4-moe", all_modes + 2, 1);
}

// Experts of which steps compute only some neurons.
static void test_sparse(void **state)
{
    (void)state;
    check_preset("tiny-turbosparse-moe", all_modes, 3);
}

static void test_golden(void **state)
{
    (void)state;
    static const char *const names[] = {"mixtral.Q4_0",        "mixtral.F16",
                                        "qwen3moe.Q8_0",       "gpt-oss.MXFP4",
                                        "qwen3moe.NVFP4",      "granitemoe.Q8_0",
                                        "glm4moe.Q8_0",        "smallthinker.Q8_0",
                                        "deepseek-v2.Q8_0",    "deepseek-v2-joint.Q8_0",
                                        "deepseek-v3.Q8_0",    "ernie-moe.Q8_0",
                                        "minimax-m2.Q8_0",     "bailing2.Q8_0",
                                        "hy-v3.Q8_0",          "nemotron-h-moe.Q8_0",
                                        "nemotron-super.Q8_0", "granite-hybrid-moe.Q8_0",
                                        "step35.Q8_0",         "mimo2.Q8_0",
                                        "kimi-delta.Q8_0",     "ling3.Q8_0",
                                        "llama4.Q8_0",         "llama4-chunks.Q8_0",
                                        "deepseek32.Q8_0",     "glm-dsa.Q8_0",
                                        "minimax-m3.Q8_0",     "minimax-text.Q8_0",
                                        "hy-v4.Q8_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, GOLDEN_MODELS "%s.gguf", names[i]);
        check_model(path, HEARTH_SPARSITY_OFF);
    }
}

// A tensor per expert, as old files have them; down by neuron.
static void test_made(void **state)
{
    (void)state;
    static const struct made models[] = {
        {.arch = "llama", .experts = true},
        {.arch = "llama", .experts = true, .split_experts = true},
        {.arch = "qwen3moe", .experts = true, .by_neuron = true},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s", in_folder("made.gguf"));
        remove(path);
        made_write(path, &models[i]);
        check_model(path, HEARTH_SPARSITY_OFF);
    }
}

// ---- what is read

// With room for every expert each is read once, and only when it is chosen; with the smallest budget steps
// read what they use anew; and in between more budget never means more reads.
static void test_reads(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-qwen3-moe"));
    uint64_t least, most, last = UINT64_MAX;
    find_budgets(path, HEARTH_SPARSITY_OFF, 2, &least, &most);
    for (uint64_t i = 0; i <= 8; i += 2) {
        const struct way way = {.ram = least + (most - least) * i / 8,
                                .n_threads = 2,
                                .sparsity = HEARTH_SPARSITY_OFF,
                                .tests = {SMALL, .always = true}};
        struct opened o = open_way(path, &way);
        free(evaluate(&o, NULL));
        struct hearth_streaming_stats stats;
        hearth_session_streaming_stats(o.session, &stats, sizeof stats);
        const struct hearth_streaming_stats *t = &stats;
        const uint64_t asked = t->expert_hits + t->expert_misses;
        assert_int_equal(t->experts, 2 * 128);
        assert_true(t->experts_cached <= t->experts);
        // At least those of one sequence, at most those of all.
        assert_in_range(asked, 2 * 8 * (2 * N_STEPS + 1), 2 * 8 * (N_STEPS * (1 + N_SEQS) + 1));
        assert_true(t->expert_misses <= last);
        assert_true(t->experts_ahead_used <= t->experts_ahead);
        last = t->expert_misses;
        if (i == 0) { // only what contexts and prompts lend keeps any
            assert_true(t->experts_cached * (t->expert_bytes / t->experts) <= t->lent_bytes);
            assert_true(t->expert_hits < asked / 4);
        }
        if (i == 2) // all dense weights are in memory
            assert_true(t->experts_ahead_used > 0);
        if (i == 8) {
            assert_int_equal(t->experts_cached, t->experts);
            // A place takes a little more than its expert, for the storage's alignment.
            assert_true(t->prompt_read_bytes + t->step_read_bytes < t->expert_bytes * 3 / 2);
        }
        close_opened(&o);
    }
    assert_true(last < 2 * 8 * N_STEPS); // nearly all were there since the prompts
}

// ---- storage that fails

static void test_faults(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-qwen3-moe"));
    check_faults(path, HEARTH_SPARSITY_OFF);
    snprintf(path, sizeof path, "%s", make("tiny-turbosparse-moe"));
    check_faults(path, HEARTH_SPARSITY_PREDICT);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets), cmocka_unit_test(test_sparse), cmocka_unit_test(test_golden),
        cmocka_unit_test(test_made),    cmocka_unit_test(test_reads),  cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
