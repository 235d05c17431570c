// SPDX-License-Identifier: MIT
// What few architectures have: latent attention, several streams, chosen and blended positions, routers of several kinds.
// Their hyper-parameters and tensors are read, and impossible ones refused with a message that says what is wrong.
#include "check.h"

#include "engine/session.h"
#include "made_checks.h"

static void test_latent(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        struct made_kv set[2];
    } bad[] = {{"makes no sense", {{"attention.kv_lora_rank", 'u', MADE_LATENT + 1, NULL}}},
               {"makes no sense", {{"attention.key_length_mla", 'u', MADE_ROT, NULL}}},
               {"makes no sense", {{"attention.value_length", 'u', MADE_LATENT - 1, NULL}}},
               {"attn_q.weight", {{"attention.key_length_mla", 'u', MADE_ROT + MADE_STILL + 1, NULL}}},
               {"attn_v_b.weight", {{"attention.value_length_mla", 'u', MADE_VALUE + 1, NULL}}},
               {"makes no sense", {{"rope.dimension_count", 'u', 7, NULL}}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct made made = {.arch = "deepseek2"};
        memcpy(made.set, bad[i].set, sizeof bad[i].set);
        made_write(path, &made);
        struct hearth_model *m = NULL;
        struct hearth_error err = {0};
        assert_true(hearth_model_open(&m, path, NULL, &err) < 0);
        if (!strstr(err.message, bad[i].says))
            fail_msg("%s: %s", bad[i].says, err.message);
    }
    refused(&(struct made){.arch = "deepseek32",
                           .two_step_q = true,
                           .experts = true,
                           .set = {{"attention.temperature_scale", 'f', 0.1, NULL}}},
            HEARTH_E_UNSUPPORTED, "attention.temperature_scale");
    refused(&(struct made){.arch = "deepseek2", .without = "attention.kv_lora_rank"}, HEARTH_E_FORMAT,
            "kv_lora_rank");
    refused(&(struct made){.arch = "deepseek2", .joint = true, .without = "blk.1.attn_kv_b.weight"},
            HEARTH_E_FORMAT, "attn_kv_b");
    // Some files have the joint matrix and its parts.
    struct made twice = {.arch = "deepseek2", .joint = true, .extra = "blk.0.attn_k_b.weight"};
    struct hearth_model *m = open_made(&twice, NULL);
    hearth_model_close(&m);
    twice.joint = false;
    twice.extra = "blk.0.attn_kv_b.weight";
    m = open_made(&twice, NULL);
    hearth_model_close(&m);
    // The cache has a latent vector and a key for all heads.
    m = open_made(&(struct made){.arch = "deepseek2"}, NULL);
    struct hearth_session *s = NULL;
    const struct hearth_session_params p = {.size = sizeof p,
                                            .n_ctx = 64,
                                            .max_seqs = 1,
                                            .n_threads = 1,
                                            .type_k = HEARTH_KV_F32,
                                            .type_v = HEARTH_KV_F16};
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    assert_int_equal(s->kv.page_bytes, (size_t)MADE_LAYERS * HEARTH_KV_TILE * (MADE_LATENT + MADE_ROT) * 4);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// Several streams, chosen positions, n-grams.
static void test_streams(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *says;
        struct made_kv set[3];
    } bad[] = {
        {HEARTH_E_FORMAT, "hyper_connection.count", {{"hyper_connection.count", 'u', 1, NULL}}},
        {HEARTH_E_FORMAT, "hyper_connection.count", {{"hyper_connection.count", 'u', 1e9, NULL}}},
        {HEARTH_E_FORMAT, "hc_norm", {{"hyper_connection.count", 'u', 4, NULL}}},
        {HEARTH_E_FORMAT, "low_rank", {{"hyper_connection.low_rank", 'u', 0, NULL}}},
        {HEARTH_E_UNSUPPORTED, "compress_ratios", {{"attention.compress_ratios", 'a', 3, NULL}}},
        {HEARTH_E_UNSUPPORTED, "compress_ratios", {{"attention.compress_ratios", 'a', 128, NULL}}},
        {HEARTH_E_FORMAT, "compress_ratios", {{"attention.compress_ratios", 's', 0, "4"}}},
        {HEARTH_E_UNSUPPORTED, "no whole blocks", {{"attention.indexer.top_k", 'u', 18, NULL}}},
        {HEARTH_E_FORMAT, "top_k", {{"attention.indexer.top_k", 'u', 4294967295., NULL}}},
        {HEARTH_E_FORMAT, "head_count", {{"attention.indexer.head_count", 'u', 0, NULL}}},
        {HEARTH_E_FORMAT, "cannot rotate", {{"attention.indexer.key_length", 'u', 6, NULL}}},
        {HEARTH_E_FORMAT, "indexer.q_proj", {{"attention.indexer.head_count", 'u', 3, NULL}}},
        {HEARTH_E_UNSUPPORTED, "must name one layer", {{"ple.layers", 'a', 0, NULL}}},
        {HEARTH_E_UNSUPPORTED, "must name one layer", {{"ple.layers", 'u', 5, NULL}}},
        {HEARTH_E_FORMAT, "ngram_size", {{"ple.ngram_size", 'u', 9, NULL}}},
        {HEARTH_E_FORMAT, "heads_per_ngram", {{"ple.heads_per_ngram", 'u', 33, NULL}}},
        {HEARTH_E_FORMAT, "conv_kernel", {{"ple.conv_kernel", 'u', 0, NULL}}},
        {HEARTH_E_FORMAT, "head_offsets", {{"ple.head_offsets", 'a', 0, NULL}}},
        {HEARTH_E_FORMAT, "layer_multipliers", {{"ple.layer_multipliers", 's', 0, "3"}}},
        {HEARTH_E_FORMAT, "per_layer_token_embd", {{"embedding_length_per_layer_input", 'u', 21, NULL}}},
        {HEARTH_E_FORMAT,
         "makes no sense",
         {{"ple.heads_per_ngram", 'u', 1, NULL}, {"ple.head_vocab_sizes", 'a', 0, NULL}}},
        {HEARTH_E_FORMAT,
         "makes no sense",
         {{"ple.heads_per_ngram", 'u', 1, NULL}, {"ple.head_offsets", 'a', 2147483647, NULL}}},
        {HEARTH_E_FORMAT,
         "per_layer_token_embd",
         {{"ple.heads_per_ngram", 'u', 1, NULL}, {"ple.head_vocab_sizes", 'a', 91, NULL}}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct made made = {.arch = "qwen4exp", .experts = true, .grams = true};
        memcpy(made.set, bad[i].set, sizeof bad[i].set);
        refused(&made, bad[i].code, bad[i].says);
    }
    refused(&(struct made){.arch = "qwen4exp", .experts = true, .grams = true, .without = "ple.head_offsets"},
            HEARTH_E_FORMAT, "ple.head_offsets");
    const struct made lightning = {.arch = "deepseek32", .experts = true, .two_step_q = true};
    struct made made = lightning;
    made.two_step_q = false;
    refused(&made, HEARTH_E_FORMAT, "attention.q_lora_rank is missing");
    made = lightning;
    made.set[0] = (struct made_kv){"attention.indexer.key_length", 'u', MADE_ROT - 1, NULL};
    refused(&made, HEARTH_E_FORMAT, "cannot rotate");
    made.set[0] = (struct made_kv){"attention.indexer.head_count", 'u', MADE_CHOOSER_HEADS + 1, NULL};
    refused(&made, HEARTH_E_FORMAT, "indexer.attn_q_b.weight");
    made.set[0] = (struct made_kv){0};
    made.without = "blk.1.indexer.k_norm.bias";
    refused(&made, HEARTH_E_FORMAT, "indexer.k_norm.bias is missing");
    struct made blocks = {.arch = "minimax-m3", .experts = true};
    static const struct {
        const char *says;
        struct made_kv set;
    } bad_blocks[] = {{"must divide 1024", {"attention.indexer.block_size", 'u', 48, NULL}},
                      {"must be 1 to 1024", {"attention.indexer.block_size", 'u', 2048, NULL}},
                      {"must be 1 to 16", {"attention.indexer.local_blocks", 'u', 17, NULL}},
                      {"must be 1 to 16", {"attention.indexer.local_blocks", 'u', 0, NULL}},
                      {"there must be as many", {"attention.indexer.head_count", 'u', 1, NULL}}};
    for (size_t i = 0; i < sizeof bad_blocks / sizeof *bad_blocks; i++) {
        blocks.set[0] = bad_blocks[i].set;
        refused(&blocks, i == 0 || i == 4 ? HEARTH_E_UNSUPPORTED : HEARTH_E_FORMAT, bad_blocks[i].says);
    }
    // Which layers choose: the first must.
    struct made shares = {.arch = "glm-dsa", .experts = true, .two_step_q = true, .shares_choice = true};
    struct hearth_model *m = open_made(&shares, NULL);
    assert_true(hearth_chooses(&m->hp, 0) && !hearth_chooses(&m->hp, 1));
    assert_true(hearth_is_chosen_for(&m->hp, 1));
    struct hearth_session *s = NULL;
    const struct hearth_session_params p = {.size = sizeof p,
                                            .n_ctx = 64,
                                            .max_seqs = 1,
                                            .n_threads = 1,
                                            .type_k = HEARTH_KV_F32,
                                            .type_v = HEARTH_KV_F32};
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    assert_int_equal(s->kv.page_bytes,
                     HEARTH_KV_TILE * (MADE_LAYERS * (MADE_LATENT + MADE_ROT) + MADE_CHOOSER) * 4);
    assert_int_equal(s->kv.page_bytes, HEARTH_KV_TILE * hearth_kv_row_bytes(&s->kv));
    hearth_session_close(&s);
    hearth_model_close(&m);
    shares.set[0] = (struct made_kv){"attention.indexer.types", 'a', 0, NULL};
    refused(&shares, HEARTH_E_FORMAT, "the first layer has no indexer");
    shares.set[0].number = 1;
    refused(&shares, HEARTH_E_FORMAT, "blk.1.indexer.attn_q_b.weight is missing");
    shares.set[0] = (struct made_kv){0};
    shares.without = "blk.0.indexer.attn_k.weight";
    refused(&shares, HEARTH_E_FORMAT, "blk.0.indexer.attn_k.weight is missing");
    // Of a table without a layer that it feeds nothing is known.
    refused(&(struct made){.arch = "qwen4exp", .experts = true, .extra = "per_layer_token_embd.weight"},
            HEARTH_E_UNSUPPORTED, "per_layer_token_embd.weight is not known");
}

// Streams that are kept, beside a choice that layers share, which files may lack; limits of chosen experts alone.
static void test_kept(void **state)
{
    (void)state;
    struct made made = {.arch = "hy_v4",
                        .experts = true,
                        .two_step_q = true,
                        .shares_choice = true,
                        .set = {{"swiglu_clamp_exp", 'f', 3, NULL}}};
    struct hearth_model *m = open_made(&made, NULL);
    assert_true(m->hp.streams.joint && !m->hp.streams.rounds && m->hp.streams.n == MADE_STREAMS);
    assert_true(m->hp.streams.back == 1.5f && m->hp.streams.back_eps == 1e-6f);
    assert_true(m->hp.chooser.behind && hearth_chooses(&m->hp, 0) && !hearth_chooses(&m->hp, 1));
    assert_true(hearth_limit_of(&m->hp, 1, true).at == 3 && hearth_limit_of(&m->hp, 1, false).at == 0);
    hearth_model_close(&m);
    made.without = "attention.indexer.top_k";
    refused(&made, HEARTH_E_UNSUPPORTED, "blk.0.indexer.attn_q_b.weight is not known");
    made.no_choice = true;
    m = open_made(&made, NULL);
    assert_true(!m->hp.chooser.block && !hearth_is_chosen_for(&m->hp, 1));
    hearth_model_close(&m);
    made.without = NULL;
    made.no_choice = false;
    static const struct {
        int code;
        const char *says;
        struct made_kv set;
    } bad[] = {
        {HEARTH_E_FORMAT, "hyper_connection.count", {"hyper_connection.count", 'u', 1, NULL}},
        {HEARTH_E_FORMAT, "hc_fn", {"hyper_connection.count", 'u', 5, NULL}},
        {HEARTH_E_FORMAT, "hyper_connection.epsilon", {"hyper_connection.epsilon", 'f', NAN, NULL}},
        {HEARTH_E_FORMAT, "hyper_connection.magnitude", {"hyper_connection.magnitude", 'f', -1, NULL}},
        {HEARTH_E_FORMAT, "indexer.top_k", {"attention.indexer.top_k", 'u', 0, NULL}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made.set[1] = bad[i].set;
        refused(&made, bad[i].code, bad[i].says);
    }
    made.set[1] = (struct made_kv){0};
    static const char *const needed[] = {"output_hc_base.weight", "blk.1.attn_sinks.weight",
                                         "blk.0.attn_gate.weight", "blk.1.hc_ffn_scale.weight",
                                         "blk.0.indexer.k_norm.bias"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        made.without = needed[i];
        refused(&made, HEARTH_E_FORMAT, needed[i]);
    }
}

// Blocks of positions, balanced streams, experts by token.
static void test_blends(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *says;
        struct made_kv set[2];
    } bad[] = {
        {HEARTH_E_FORMAT, "hyper_connection.count", {{"hyper_connection.count", 'u', 1, NULL}}},
        {HEARTH_E_FORMAT, "sinkhorn_iterations", {{"hyper_connection.sinkhorn_iterations", 'u', 0, NULL}}},
        {HEARTH_E_FORMAT, "hyper_connection.epsilon", {{"hyper_connection.epsilon", 'f', NAN, NULL}}},
        {HEARTH_E_FORMAT, "output_group_count", {{"attention.output_group_count", 'u', 0, NULL}}},
        {HEARTH_E_FORMAT, "cannot be in 3 groups", {{"attention.output_group_count", 'u', 3, NULL}}},
        {HEARTH_E_FORMAT, "output_lora_rank", {{"attention.output_lora_rank", 'u', 0, NULL}}},
        {HEARTH_E_FORMAT, "q_lora_rank", {{"attention.q_lora_rank", 'u', 0, NULL}}},
        {HEARTH_E_UNSUPPORTED, "compress_ratios is 12", {{"attention.compress_ratios", 'a', 12, NULL}}},
        {HEARTH_E_UNSUPPORTED, "compress_ratios is 256", {{"attention.compress_ratios", 'a', 256, NULL}}},
        {HEARTH_E_UNSUPPORTED, "compress_ratios is 1 ", {{"attention.compress_ratios", 'a', 1, NULL}}},
        {HEARTH_E_FORMAT, "cannot rotate 4", {{"attention.indexer.key_length", 'u', 2, NULL}}},
        {HEARTH_E_FORMAT, "indexer.top_k", {{"attention.indexer.top_k", 'u', 0, NULL}}},
        {HEARTH_E_FORMAT, "compress_rope_freq_base", {{"attention.compress_rope_freq_base", 'f', 0, NULL}}},
        {HEARTH_E_FORMAT, "hash_layer_count", {{"hash_layer_count", 'u', MADE_LAYERS + 1, NULL}}},
        {HEARTH_E_UNSUPPORTED, "a window of 0", {{"attention.sliding_window", 'u', 0, NULL}}},
        {HEARTH_E_UNSUPPORTED, "2 heads of keys", {{"attention.head_count_kv", 'u', 2, NULL}}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct made made = {.arch = "deepseek4", .experts = true, .by_token = true};
        memcpy(made.set, bad[i].set, sizeof bad[i].set);
        refused(&made, bad[i].code, bad[i].says);
    }
    refused(&(struct made){.arch = "deepseek4", .experts = true, .extra = "blk.1.ffn_gate_tid2eid.weight"},
            HEARTH_E_UNSUPPORTED, "blk.1.ffn_gate_tid2eid.weight is not known");
    // A table that names an expert that there is not fails evaluations of its tokens alone.
    const struct made made = {.arch = "deepseek4", .experts = true, .by_token = true, .bad_token = 7};
    struct hearth_model *m = open_made(&made, NULL);
    struct hearth_session_params p = hearth_session_params_default();
    struct hearth_session *s = NULL;
    struct hearth_error err = {0};
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    const hearth_token tokens[] = {1, 2, 3, 7};
    int seq = hearth_seq_new(s, NULL);
    CHECK(hearth_prompt(s, seq, tokens, 3, NULL, NULL, &check_error));
    assert_int_equal(hearth_prompt(s, seq, tokens, 4, NULL, NULL, &err), HEARTH_E_FORMAT);
    assert_non_null(strstr(err.message, "ffn_gate_tid2eid.weight names expert 6 of 6 for token 7"));
    assert_ptr_equal(strstr(err.message, path), err.message);
    CHECK(hearth_step(s, &seq, tokens, 1, &check_error));
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// How experts are chosen where a bias takes part: by sigmoids, also where the file does not say so.
static void test_gating(void **state)
{
    (void)state;
    struct made made = {.arch = "glm4moe",
                        .experts = true,
                        .leading = true,
                        .set = {{"leading_dense_block_count", 'u', 1, NULL},
                                {"rope.dimension_count", 'u', 4, NULL},
                                {"expert_gating_func", 'u', 0, NULL}}};
    struct hearth_model *m = open_made(&made, NULL);
    assert_int_equal(m->hp.expert_gating, HEARTH_GATING_SIGMOID);
    hearth_model_close(&m);
    made.set[2].number = 1;
    refused(&made, HEARTH_E_UNSUPPORTED, "by a bias and softmax");
    made.set[2].number = 3;
    refused(&made, HEARTH_E_UNSUPPORTED, "by a bias and softmax");
    refused(&(struct made){.arch = "hy_v3", .experts = true, .set = {{"expert_gating_func", 'u', 1, NULL}}},
            HEARTH_E_UNSUPPORTED, "by a bias and softmax");
}

// Of 6 experts, 2 are used.
static void test_groups(void **state)
{
    (void)state;
    struct made made = {
        .arch = "deepseek2",
        .experts = true,
        .set = {{"expert_group_count", 'u', 3, NULL}, {"expert_group_used_count", 'u', 3, NULL}}};
    struct hearth_model *m = open_made(&made, NULL);
    assert_int_equal(m->hp.n_group, 0); // all of them are all experts
    hearth_model_close(&m);
    made.set[1].number = 4;
    refused(&made, HEARTH_E_FORMAT, "expert_group_used_count");
    made.set[1].number = 1;
    made.set[0].number = 4;
    refused(&made, HEARTH_E_FORMAT, "1 of 4 groups of 6 experts");
    made.set[0].number = 6;
    refused(&made, HEARTH_E_FORMAT, "1 of 6 groups of 6 experts");
    made.set[1].number = 2;
    m = open_made(&made, NULL);
    assert_int_equal(m->hp.n_group_used, 2);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latent), cmocka_unit_test(test_streams), cmocka_unit_test(test_kept),
        cmocka_unit_test(test_blends), cmocka_unit_test(test_gating),  cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, name_file, remove_folder);
}
