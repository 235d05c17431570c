// SPDX-License-Identifier: MIT
// What the files beside a Hugging Face folder's weights say: configurations, also those that leave out what transformers
// takes by default, tokenizers, chat templates.
#include <math.h>
#include <sys/resource.h>

#include "convert/hf_model.h"
#include "hf_support.h"

// ---- configs that leave out what transformers takes by default

static void write_file(const char *name, const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", hf_folder, name);
    unlink(path); // a link
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void write_config(const char *text)
{
    write_file("config.json", text);
}

// The golden model's folder gives one file, byte by byte, with a config that says all and one that does not.
static void expect_same(const char *model, const char *full, const char *trimmed)
{
    size_t n[2];
    char *data[2];
    make_hf(model);
    for (int i = 0; i < 2; i++) {
        write_config(i ? trimmed : full);
        CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
        data[i] = read_all(in_folder("out.gguf"), &n[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(data[0], data[1], n[0]);
    free(data[0]);
    free(data[1]);
}

#define GEMMA3_SAID                                                                                          \
    "\"hidden_size\":16,\"intermediate_size\":32,\"max_position_embeddings\":64,\"num_attention_heads\":4,"  \
    "\"num_hidden_layers\":3,\"num_key_value_heads\":2,\"head_dim\":8,\"query_pre_attn_scalar\":8,"          \
    "\"sliding_window\":4,\"vocab_size\":288,"                                                               \
    "\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"full_attention\"]"
#define GEMMA4_SAID                                                                                          \
    "\"hidden_size\":16,\"intermediate_size\":32,\"max_position_embeddings\":64,\"num_attention_heads\":4,"  \
    "\"num_hidden_layers\":3,\"num_key_value_heads\":2,\"head_dim\":8,\"hidden_size_per_layer_input\":0,"    \
    "\"sliding_window\":4,\"vocab_size\":288,\"attention_k_eq_v\":true,\"bos_token_id\":2,\"eos_token_id\":1,"
#define GEMMA4_KINDS "\"sliding_attention\",\"sliding_attention\""
#define LFM2_SAID                                                                                            \
    "\"block_multiple_of\":16,\"bos_token_id\":284,\"eos_token_id\":285,\"hidden_size\":16,"                 \
    "\"max_position_embeddings\":64,\"num_attention_heads\":4,\"num_hidden_layers\":3,"                      \
    "\"num_key_value_heads\":2,\"vocab_size\":288"
#define LFM2_MEANT                                                                                           \
    "\"norm_eps\":1e-5,\"conv_L_cache\":3,\"rope_parameters\":{\"rope_theta\":1e6,\"rope_type\":\"default\"},"
#define QWEN35_SAID                                                                                          \
    "\"bos_token_id\":284,\"eos_token_id\":285,\"head_dim\":8,\"hidden_size\":16,\"intermediate_size\":32,"  \
    "\"linear_key_head_dim\":16,\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"                    \
    "\"linear_value_head_dim\":16,\"max_position_embeddings\":64,\"num_attention_heads\":4,"                 \
    "\"num_hidden_layers\":3,\"num_key_value_heads\":2,\"vocab_size\":288"

static void test_silent_configs(void **state)
{
    (void)state;
    expect_same("gemma3",
                "{\"architectures\":[\"Gemma3ForCausalLM\"]," GEMMA3_SAID
                ",\"hidden_activation\":\"gelu_pytorch_tanh\",\"rms_norm_eps\":1e-6,"
                "\"tie_word_embeddings\":true,\"rope_theta\":1e6,\"rope_local_base_freq\":10000,"
                "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"}}",
                "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"text_config\":{" GEMMA3_SAID
                ",\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"}}}");
    // What layers have of their own, and all that is the same in every model of the family.
    expect_same("gemma4",
                "{\"architectures\":[\"Gemma4ForCausalLM\"]," GEMMA4_SAID "\"layer_types\":[" GEMMA4_KINDS
                ",\"full_attention\"],\"global_head_dim\":16,"
                "\"num_global_key_value_heads\":1,\"hidden_activation\":\"gelu_pytorch_tanh\","
                "\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":true,\"rope_parameters\":{"
                "\"full_attention\":{\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.25,"
                "\"rope_theta\":1e6},\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}}",
                "{\"architectures\":[\"Gemma4ForConditionalGeneration\"],\"text_config\":{" GEMMA4_SAID
                "\"layer_types\":[" GEMMA4_KINDS ","
                "\"sliding_attention\"]," // the last one never has a window
                "\"per_layer_config\":{\"2\":{\"head_dim\":16,\"num_key_value_heads\":1}}}}");
    expect_same("lfm2",
                "{\"architectures\":[\"Lfm2ForCausalLM\"]," LFM2_SAID "," LFM2_MEANT
                "\"tie_word_embeddings\":true,\"intermediate_size\":48,"
                "\"layer_types\":[\"conv\",\"full_attention\",\"conv\"]}",
                "{\"architectures\":[\"Lfm2ForCausalLM\"]," LFM2_SAID
                ",\"tie_embedding\":true,\"block_ff_dim\":48,\"full_attn_idxs\":[1]}");
    expect_same("lfm2moe",
                "{\"architectures\":[\"Lfm2MoeForCausalLM\"]," LFM2_SAID "," LFM2_MEANT
                "\"tie_word_embeddings\":true,\"intermediate_size\":48,\"moe_intermediate_size\":16,"
                "\"num_dense_layers\":1,\"num_experts\":6,\"num_experts_per_tok\":4,"
                "\"layer_types\":[\"conv\",\"full_attention\",\"conv\"]}",
                "{\"architectures\":[\"Lfm2MoeForCausalLM\"]," LFM2_SAID
                ",\"intermediate_size\":48,\"moe_intermediate_size\":16,\"num_dense_layers\":1,"
                "\"num_experts\":6,\"layer_types\":[\"conv\",\"full_attention\",\"conv\"]}");
    expect_same(
        "qwen35",
        "{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],\"text_config\":{\"mtp_num_hidden_layers\":1," QWEN35_SAID
        ",\"hidden_act\":\"silu\",\"linear_conv_kernel_dim\":4,\"rms_norm_eps\":1e-6,"
        "\"layer_types\":[\"linear_attention\",\"linear_attention\",\"full_attention\"],"
        "\"rope_parameters\":{\"partial_rotary_factor\":0.25,\"rope_theta\":1e4},"
        "\"tie_word_embeddings\":true}}",
        "{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],\"tie_word_embeddings\":true,"
        "\"text_config\":{\"mtp_num_hidden_layers\":1," QWEN35_SAID ",\"full_attention_interval\":3}}");
}

// Of Qwen's models the layers from a certain one on have a window, as transformers reads it.
static void test_window_layers(void **state)
{
    (void)state;
    static const struct {
        const char *class, *says;
        int window; // -1: refused, as layers differ
    } cases[] = {{"Qwen2ForCausalLM", "\"sliding_window\":512,\"max_window_layers\":0", 512},
                 {"Qwen2ForCausalLM", "\"sliding_window\":512,\"max_window_layers\":21", -1},
                 {"Qwen2ForCausalLM", "\"sliding_window\":512,\"max_window_layers\":35", -1},
                 {"Qwen2ForCausalLM", "\"sliding_window\":512,\"max_window_layers\":36", 0},
                 {"Qwen2ForCausalLM", "\"sliding_window\":512,\"max_window_layers\":70", 0},
                 {"Qwen2ForCausalLM", "\"sliding_window\":512", -1}, // from layer 28 on
                 {"Qwen2ForCausalLM", "\"max_window_layers\":0", 4096},
                 {"Qwen2ForCausalLM", "\"sliding_window\":null,\"max_window_layers\":0", 0},
                 {"Qwen3ForCausalLM", "\"sliding_window\":512,\"max_window_layers\":36", 0},
                 {"Qwen3MoeForCausalLM", "\"sliding_window\":512", 512}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hearth_hf_model m;
        char config[1024];
        make_hf("qwen2");
        snprintf(config, sizeof config,
                 "{\"architectures\":[\"%s\"],\"hidden_size\":2048,\"intermediate_size\":11008,"
                 "\"num_attention_heads\":16,\"num_hidden_layers\":36,\"num_key_value_heads\":2,"
                 "\"max_position_embeddings\":32768,\"rms_norm_eps\":1e-6,\"vocab_size\":151936,"
                 "\"hidden_act\":\"silu\",\"num_experts\":8,\"num_experts_per_tok\":2,"
                 "\"moe_intermediate_size\":768,\"use_sliding_window\":true,%s}",
                 cases[i].class, cases[i].says);
        write_config(config);
        if (cases[i].window < 0) {
            REFUSED(hearth_hf_model_open(&m, hf_folder, NULL, &check_error), HEARTH_E_UNSUPPORTED,
                    "windows that differ by layer");
        } else {
            CHECK(hearth_hf_model_open(&m, hf_folder, NULL, &check_error));
            assert_int_equal(m.window, cases[i].window);
        }
        hearth_hf_model_close(&m);
    }
}

// Configs as they are published.
static void test_published_configs(void **state)
{
    (void)state;
    struct hearth_hf_model m;
    make_hf("gemma3");
    write_config("{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"text_config\":{"
                 "\"hidden_size\":2560,\"intermediate_size\":10240,\"model_type\":\"gemma3_text\","
                 "\"num_hidden_layers\":34,\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},"
                 "\"sliding_window\":1024}}");
    CHECK(hearth_hf_model_open(&m, hf_folder, NULL, &check_error));
    assert_int_equal(m.n_vocab, 262208);
    assert_int_equal(m.n_ctx, 131072);
    assert_int_equal(m.n_head, 8);
    assert_int_equal(m.n_head_kv, 4);
    assert_int_equal(m.head_dim, 256);
    assert_int_equal(m.window, 1024);
    assert_int_equal(m.window_period, 6);
    assert_true(m.tied && m.rope_theta == 1e6 && m.rope_theta_window == 10000 && m.rope_factor == 8);
    assert_string_equal(m.activation, "gelu_tanh");
    hearth_hf_model_close(&m);

    write_config("{\"architectures\":[\"Gemma4ForConditionalGeneration\"],\"text_config\":{"
                 "\"attention_k_eq_v\":true,\"enable_moe_block\":true,\"final_logit_softcapping\":30.0,"
                 "\"global_head_dim\":512,\"hidden_size\":2816,\"hidden_size_per_layer_input\":0,"
                 "\"intermediate_size\":2112,\"moe_intermediate_size\":704,\"num_attention_heads\":16,"
                 "\"num_experts\":128,\"num_global_key_value_heads\":2,\"num_key_value_heads\":8,"
                 "\"sliding_window\":1024,\"top_k_experts\":8}}");
    CHECK(hearth_hf_model_open(&m, hf_folder, NULL, &check_error));
    assert_int_equal(m.n_layer, 30);
    assert_int_equal(m.windowed[0], 0x1F7DF7DF);
    assert_int_equal(m.head_dim, 256);
    assert_int_equal(m.full_head_dim, 512);
    assert_int_equal(m.full_head_kv, 2);
    assert_int_equal(m.n_expert_used, 8);
    assert_int_equal(m.n_ff_exp, 704);
    assert_true(m.rope_share == 0.25 && m.logit_cap == 30 && m.rope_theta == 1e6 && m.keys_are_values);
    hearth_hf_model_close(&m);

    write_config("{\"architectures\":[\"Lfm2ForCausalLM\"],\"block_auto_adjust_ff_dim\":true,"
                 "\"block_ff_dim\":12288,\"block_ffn_dim_multiplier\":1.0,\"block_multiple_of\":256,"
                 "\"full_attn_idxs\":[2,5,8,10,12,14],\"hidden_size\":2048,\"num_attention_heads\":32,"
                 "\"num_hidden_layers\":16,\"num_key_value_heads\":8,\"vocab_size\":65536}");
    CHECK(hearth_hf_model_open(&m, hf_folder, NULL, &check_error));
    assert_int_equal(m.n_ff, 8192);
    assert_int_equal(m.recurrent[0], 0xFFFF & ~0x5524);
    assert_true(m.tied && m.rope_theta == 1e6);
    hearth_hf_model_close(&m);

    write_config(
        "{\"architectures\":[\"Qwen3_5ForCausalLM\"],\"hidden_size\":1024,\"num_attention_heads\":8}");
    CHECK(hearth_hf_model_open(&m, hf_folder, NULL, &check_error));
    assert_int_equal(m.head_dim, 256);
    assert_int_equal(m.n_rot, 64);
    assert_int_equal(m.full_interval, 4);
    hearth_hf_model_close(&m);

    write_config("{\"architectures\":[\"DeepseekV2ForCausalLM\"],\"first_k_dense_replace\":1,"
                 "\"hidden_size\":2048,\"intermediate_size\":10944,\"kv_lora_rank\":512,"
                 "\"max_position_embeddings\":163840,\"model_type\":\"deepseek_v2\","
                 "\"moe_intermediate_size\":1408,\"moe_layer_freq\":1,\"n_group\":1,\"n_routed_experts\":64,"
                 "\"n_shared_experts\":2,\"norm_topk_prob\":false,\"num_attention_heads\":16,"
                 "\"num_experts_per_tok\":6,\"num_hidden_layers\":27,\"num_key_value_heads\":16,"
                 "\"q_lora_rank\":null,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"rope_scaling\":{"
                 "\"beta_fast\":32,\"beta_slow\":1,\"factor\":40,\"mscale\":0.707,\"mscale_all_dim\":0.707,"
                 "\"original_max_position_embeddings\":4096,\"type\":\"yarn\"},\"rope_theta\":10000,"
                 "\"routed_scaling_factor\":1.0,\"scoring_func\":\"softmax\",\"topk_group\":1,"
                 "\"topk_method\":\"greedy\",\"v_head_dim\":128,\"vocab_size\":102400}");
    CHECK(hearth_hf_model_open(&m, hf_folder, NULL, &check_error));
    assert_int_equal(m.q_rank, 0);
    assert_int_equal(m.rank, 512);
    assert_int_equal(m.n_rot, 64);
    assert_int_equal(m.n_dense, 1);
    assert_int_equal(m.n_ff_shared, 2816);
    assert_int_equal(m.n_head_kv, 1);
    assert_int_equal(m.gating, 1);
    assert_true(!m.renorm && m.rope_factor == 40 && fabs(m.yarn_log - 0.0707) < 1e-12);
    hearth_hf_model_close(&m);

    write_config("{\"architectures\":[\"GptOssForCausalLM\"],\"experts_per_token\":4,\"head_dim\":64,"
                 "\"hidden_size\":2880,\"initial_context_length\":4096,\"intermediate_size\":2880,"
                 "\"max_position_embeddings\":131072,\"num_attention_heads\":64,\"num_experts_per_tok\":4,"
                 "\"num_hidden_layers\":24,\"num_key_value_heads\":8,\"num_local_experts\":32,"
                 "\"quantization_config\":{\"quant_method\":\"mxfp4\"},\"rms_norm_eps\":1e-05,"
                 "\"rope_scaling\":{\"beta_fast\":32.0,\"beta_slow\":1.0,\"factor\":32.0,"
                 "\"original_max_position_embeddings\":4096,\"rope_type\":\"yarn\",\"truncate\":false},"
                 "\"rope_theta\":150000,\"sliding_window\":128,\"swiglu_limit\":7.0,\"vocab_size\":201088}");
    CHECK(hearth_hf_model_open(&m, hf_folder, NULL, &check_error));
    assert_int_equal(m.window, 128);
    assert_int_equal(m.window_period, 2);
    assert_int_equal(m.n_expert, 32);
    assert_int_equal(m.n_ctx_orig, 4096);
    assert_true(m.rope == HEARTH_HF_ROPE_YARN && m.rope_theta == 150000);
    hearth_hf_model_close(&m);

    write_config("{\"architectures\":[\"Lfm2ForCausalLM\"],\"num_hidden_layers\":3,\"full_attn_idxs\":[3]}");
    REFUSED(hearth_hf_model_open(&m, hf_folder, NULL, &check_error), HEARTH_E_FORMAT, "numbers of layers");
    hearth_hf_model_close(&m);
}

// What stands outside of the text's part counts, too; and a tensor is an image's only where those of the text say
// that they are.
static void test_outer_configs(void **state)
{
    (void)state;
    empty_folder();
    make_hf("gemma3");
    write_config("{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"tie_word_embeddings\":false,"
                 "\"text_config\":{" GEMMA3_SAID "}}");
    REFUSED(convert_changed(&(struct hearth_convert_params){0}, &check_error), HEARTH_E_FORMAT,
            "tensor lm_head.weight is missing");
    make_hf("gemma3");
    change("config.json", "\"num_hidden_layers\":3", "\"num_hidden_layers\":2");
    change("config.json", ",\"full_attention\"]", "]");
    change("config.json", "\"architectures\"", "\"text_config\":{\"architectures\"");
    change("config.json", "\"vocab_size\":288",
           "\"vocab_size\":288},\"architectures\":[\"Gemma3ForConditionalGeneration\"]");
    REFUSED(convert_changed(&(struct hearth_convert_params){0}, &check_error), HEARTH_E_UNSUPPORTED,
            "has no place in a model of class");
    assert_int_equal(count_files(), 0);
}

// Ids in config.json say which tokens are special, and change no token's type.
static void test_token_types(void **state)
{
    (void)state;
    struct hearth_gguf *g;
    make_hf("qwen2");
    change("config.json", "\"bos_token_id\":284", "\"bos_token_id\":5");
    CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
    CHECK(hearth_gguf_open(&g, in_folder("out.gguf"), &check_error));
    const struct hearth_gguf_kv *types = hearth_gguf_find(g, "tokenizer.ggml.token_type");
    uint32_t bos = 0;
    CHECK(hearth_gguf_u32(g, "tokenizer.ggml.bos_token_id", true, &bos, &check_error));
    assert_int_equal(bos, 5);
    assert_int_equal(hearth_gguf_kv_i64(types, 5), 1);   // normal
    assert_int_equal(hearth_gguf_kv_i64(types, 284), 3); // control
    assert_int_equal(hearth_gguf_kv_i64(types, 286), 4); // defined by a user
    assert_int_equal(hearth_gguf_kv_i64(types, 287), 5); // unused
    hearth_gguf_close(&g);
}

// Pieces of a tokenizer.model that users define are usual ones, unless tokenizer_config.json adds them.
static void test_user_pieces(void **state)
{
    (void)state;
    struct hearth_gguf *g;
    make_hf("mistral");
    change_bytes("tokenizer.model", "\x02he\x15\0\0\x80\xbf\x18\x01", "\x02he\x15\0\0\x80\xbf\x18\x04", 10);
    change_bytes("tokenizer.model", "\x02in\x15\0\0\x80\xc0\x18\x01", "\x02in\x15\0\0\x80\xc0\x18\x04", 10);
    change("tokenizer_config.json", "\"added_tokens_decoder\":{",
           "\"added_tokens_decoder\":{\"263\":{\"content\":\"in\"},");
    CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
    CHECK(hearth_gguf_open(&g, in_folder("out.gguf"), &check_error));
    const struct hearth_gguf_kv *types = hearth_gguf_find(g, "tokenizer.ggml.token_type");
    const struct hearth_gguf_kv *scores = hearth_gguf_find(g, "tokenizer.ggml.scores");
    assert_int_equal(hearth_gguf_kv_i64(types, 260), 1);
    assert_true(hearth_gguf_kv_f64(scores, 260) == -1);
    assert_int_equal(hearth_gguf_kv_i64(types, 263), 4);
    hearth_gguf_close(&g);
}

static json_int_t code_llama(json_int_t n)
{
    return n == 288 ? 32016 : n;
}

static void expect_u32(const struct hearth_gguf *g, const char *key, uint32_t want)
{
    uint32_t value = 0;
    CHECK(hearth_gguf_u32(g, key, true, &value, &check_error));
    assert_int_equal(value, want);
}

// Code Llama is known by the size of its vocabulary, and its tokens around a gap by their ids; files may say others.
static void test_code_llama(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        struct hearth_gguf *g;
        make_hf("relullama");
        resize_weights(code_llama);
        change("config.json", "\"vocab_size\":288", "\"vocab_size\":32016");
        if (other)
            change("config.json", "{", "{\"middle_token_id\":7,");
        change("tokenizer_config.json", "\"added_tokens_decoder\":{",
               "\"added_tokens_decoder\":{\"32010\":{\"content\":\"<EOT>\",\"special\":true},");
        write_file("generation_config.json", "{\"eos_token_id\":[2,32010,9]}");
        CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
        CHECK(hearth_gguf_open(&g, in_folder("out.gguf"), &check_error));
        expect_u32(g, "tokenizer.ggml.prefix_token_id", 32007);
        expect_u32(g, "tokenizer.ggml.suffix_token_id", 32008);
        expect_u32(g, "tokenizer.ggml.middle_token_id", other ? 7 : 32009);
        expect_u32(g, "tokenizer.ggml.eot_token_id", 32010);
        expect_u32(g, "tokenizer.ggml.eom_token_id", 9);
        hearth_gguf_close(&g);
    }
}

#define SPLIT(regex)                                                                                         \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false},"
#define MARKED_WORD(lines)                                                                                   \
    "[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|[^" lines                             \
    "\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| ?[\\\\p{P}\\\\p{S}]+[" lines "]*|\\\\s*[" lines          \
    "]+|\\\\s+(?!\\\\S)|\\\\s+"
#define QWEN2                                                                                                      \
    SPLIT(                                                                                                         \
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]" \
        "+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+")

// Ways to cut a text into words, as published tokenizers have them, and their names.
static void test_pretokenizers(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}| "
               "?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"),
         "qwen35"},
        {SPLIT("\\\\p{N}{1,3}") SPLIT("[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+")
             SPLIT(MARKED_WORD("\\r\\n")),
         "deepseek-v3"},
        {SPLIT("\\\\p{N}{1,3}") SPLIT("[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+")
             SPLIT(MARKED_WORD("\\\\r\\\\n")),
         "deepseek-v3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hearth_gguf *g;
        struct hearth_str name;
        make_hf("qwen2");
        change("tokenizer.json", QWEN2, cases[i][0]);
        CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
        CHECK(hearth_gguf_open(&g, in_folder("out.gguf"), &check_error));
        CHECK(hearth_gguf_str(g, "tokenizer.ggml.pre", true, &name, &check_error));
        assert_int_equal(name.n, strlen(cases[i][1]));
        assert_memory_equal(name.s, cases[i][1], name.n);
        hearth_gguf_close(&g);
    }
}

// Tokens that were added to vocab.json by files beside it.
static void test_added_tokens(void **state)
{
    (void)state;
    struct hearth_model_params mp = hearth_model_params_default();
    struct hearth_model *model;
    char path[700];
    make_hf("opt");
    snprintf(path, sizeof path, "%s/added_tokens.json", hf_folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"<|im_start|>\": 286}");
    fclose(f);
    change("tokenizer_config.json", "{",
           "{\"added_tokens_decoder\":{\"287\":{\"content\":\"<|im_end|>\",\"special\":true}},");
    mp.vocab_only = true;
    CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
    CHECK(hearth_model_open(&model, in_folder("out.gguf"), &mp, &check_error));
    hearth_token got[8];
    static const char text[] = "<|im_end|><|im_start|>";
    CHECK(hearth_tokenize(model, text, strlen(text), HEARTH_TOKENIZE_SPECIAL, got, 8, &check_error));
    assert_int_equal(got[0], 287);
    assert_int_equal(got[1], 286);
    hearth_model_close(&model);
}

// Of templates whose names become the same key the first one counts.
// Most memory that the program has had, in MiB.
static long most_memory(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
#ifdef __APPLE__ // bytes there, KiB elsewhere
    usage.ru_maxrss /= 1024;
#endif
    return usage.ru_maxrss / 1024;
}

// A merge of many spaces takes memory for what becomes of them, and no more.
static void test_spaces_in_merges(void **state)
{
    (void)state;
    enum { N = 12000 };
    static char merges[N + 64];
    make_hf("llama");
    snprintf(merges, sizeof merges, "\"merges\":[[\"%*s\",\"x\"],", N, "");
    change("tokenizer.json", "\"merges\":[", merges);
    const long before = most_memory();
    struct hearth_error err;
    (void)convert_changed(&(struct hearth_convert_params){0}, &err);
    assert_in_range(most_memory() - before, 0, 99);
}

static void test_templates(void **state)
{
    (void)state;
    struct hearth_gguf *g;
    make_hf("opt");
    change(
        "tokenizer_config.json", "{",
        "{\"chat_template\":[{\"name\":\"default\",\"template\":\"a\"},{\"name\":\"tool_use\",\"template\":\"b\"},"
        "{\"name\":\"tool-use\",\"template\":\"c\"},{\"name\":\"default\",\"template\":\"d\"}],");
    CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
    CHECK(hearth_gguf_open(&g, in_folder("out.gguf"), &check_error));
    static const struct {
        const char *key, *text;
    } wanted[] = {{"tokenizer.chat_template", "a"}, {"tokenizer.chat_template.tool_use", "b"}};
    for (size_t i = 0; i < 2; i++) {
        struct hearth_str text;
        CHECK(hearth_gguf_str(g, wanted[i].key, true, &text, &check_error));
        assert_int_equal(text.n, 1);
        assert_int_equal(text.s[0], wanted[i].text[0]);
    }
    hearth_gguf_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_configs),    cmocka_unit_test(test_window_layers),
        cmocka_unit_test(test_published_configs), cmocka_unit_test(test_outer_configs),
        cmocka_unit_test(test_token_types),       cmocka_unit_test(test_user_pieces),
        cmocka_unit_test(test_added_tokens),      cmocka_unit_test(test_pretokenizers),
        cmocka_unit_test(test_templates),         cmocka_unit_test(test_spaces_in_merges),
        cmocka_unit_test(test_code_llama),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_hf_folders);
}
