// SPDX-License-Identifier: MIT
// Hugging Face folders: tensors and keys against llama.cpp's converter, logits against transformers, ids against the
// tokenizers' own libraries; number formats; what is refused. tests/golden/README.md says what is in golden/hf.
#include "golden_models.h"
#include "hf_support.h"

static const char *const names[] = {"llama",
                                    "llama-biases",
                                    "mistral",
                                    "mixtral",
                                    "qwen2",
                                    "qwen3",
                                    "qwen3moe",
                                    "falcon-7b",
                                    "opt",
                                    "falcon-40b",
                                    "bamboo",
                                    "relullama",
                                    "turbosparse-mixtral",
                                    "gemma3",
                                    "gemma4",
                                    "gemma4-e",
                                    "gemma4-moe",
                                    "gemma4-unified",
                                    "lfm2",
                                    "lfm2moe",
                                    "qwen35",
                                    "qwen35moe",
                                    "deepseek-v2",
                                    "deepseek-v3",
                                    "deepseek-v3-fp8",
                                    "glm4-moe",
                                    "qwen3-fp8",
                                    "qwen35moe-fp8",
                                    "glm-lite",
                                    "qwen2moe",
                                    "qwen2vl",
                                    "qwen3vl",
                                    "smollm3",
                                    "granite",
                                    "granitemoe",
                                    "seed-oss",
                                    "olmo2",
                                    "olmo3",
                                    "olmoe",
                                    "minimax-m2",
                                    "qwen3next",
                                    "qwen3moe-nvfp4",
                                    "llama-nvfp4",
                                    "qwen35-nvfp4",
                                    "deepseek-v3-int4",
                                    "kimi-linear",
                                    "minimax-01",
                                    "deepseek-v32",
                                    "glm-dsa",
                                    "hunyuan",
                                    "hunyuan-moe",
                                    "ernie-moe",
                                    "dots1",
                                    "ling2",
                                    "starcoder2",
                                    "internlm2",
                                    "nemotron-h",
                                    "nemotron-h-moe",
                                    "granite-hybrid",
                                    "granite-hybrid-moe",
                                    "granite-attending",
                                    "falcon-h1",
                                    "gemma",
                                    "gemma3n",
                                    "qwen3vlmoe",
                                    "llama4",
                                    "phi3",
                                    "phi4",
                                    "glm4",
                                    "exaone4",
                                    "cohere2",
                                    "ernie",
                                    "gemma2",
                                    "gpt-oss",
                                    "gpt-oss-mxfp4"};
enum { N_NAMES = sizeof names / sizeof names[0] };

// ---- llama.cpp's converter

static uint32_t crc32_of(const uint8_t *data, size_t n, uint32_t crc)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static void check_tensors(const struct hearth_gguf *g, const char *name)
{
    char path[700], tensor[128], dims[64];
    unsigned type, crc;
    uint64_t n = 0;
    snprintf(path, sizeof path, HF "%s/tensors.txt", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (; fscanf(f, "%127s %u %63s %x", tensor, &type, dims, &crc) == 4; n++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor(g, tensor);
        if (!t)
            fail_msg("%s: tensor %s is missing", name, tensor);
        char has[64] = "";
        for (uint32_t i = 0; i < t->n_dims; i++)
            snprintf(has + strlen(has), sizeof has - strlen(has), "%s%llu", i ? "x" : "",
                     (unsigned long long)t->ne[i]);
        uint8_t *data = malloc(t->bytes);
        assert_non_null(data);
        CHECK(hearth_gguf_read(g, t, data, 0, t->bytes, &check_error));
        const bool rounds = strstr(tensor, ".ssm_a"); // exponentials, which libraries round differently
        if (t->type != type || strcmp(has, dims) != 0 || (!rounds && crc32_of(data, t->bytes, 0) != crc))
            fail_msg("%s: tensor %s is type %u, %s, where llama.cpp's is type %u, %s, or has other bytes",
                     name, tensor, t->type, has, type, dims);
        free(data);
    }
    fclose(f);
    if (n != hearth_gguf_n_tensors(g))
        fail_msg("%s: %llu tensors, llama.cpp writes %llu", name,
                 (unsigned long long)hearth_gguf_n_tensors(g), (unsigned long long)n);
}

static uint32_t crc32_of_value(const struct hearth_gguf_kv *kv)
{
    if (!kv->strings) {
        static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        return crc32_of(kv->data, sizes[kv->element] * kv->count, 0);
    }
    uint32_t crc = 0;
    for (uint64_t i = 0; i < kv->count; i++) {
        const uint64_t n = kv->strings[i].n;
        crc = crc32_of((const uint8_t *)&n, sizeof n, crc);
        crc = crc32_of((const uint8_t *)kv->strings[i].s, n, crc);
    }
    return crc;
}

// Keys whose values are others on purpose; docs/convert.md says why.
static bool differs(const char *name, const char *key)
{
    static const char *const list[][2] = {
        {"llama-biases", "tokenizer.ggml.scores"},     // llama.cpp gives all tokens one score
        {"mixtral", "tokenizer.ggml.scores"},          // the same
        {"llama-biases", "tokenizer.ggml.token_type"}, // <unk> is unknown, not control
        {"mixtral", "tokenizer.ggml.token_type"},
        {"falcon-7b", "falcon.context_length"}, // llama.cpp writes 2048 whatever config.json says
        {"falcon-40b", "falcon.context_length"},
        {"gemma4",
         "tokenizer.ggml.token_type"}, // as above, and marks that are not special are defined by users
        {"gemma4-e", "tokenizer.ggml.token_type"},
        {"gemma4-moe", "tokenizer.ggml.token_type"},
        {"gemma", "tokenizer.ggml.add_space_prefix"},          // as below
        {"minimax-01", "tokenizer.chat_template"},             // llama.cpp has one of its own
        {"kimi-linear", "kimi-linear.attention.value_length"}, // which nothing reads
        {"hunyuan", "tokenizer.ggml.eot_token_id"},         // the first end that generation_config.json names
        {"internlm2", "tokenizer.ggml.add_space_prefix"},   // as below
        {"gemma", "tokenizer.ggml.eot_token_id"},           // known by its name
        {"gemma3n", "tokenizer.ggml.add_space_prefix"},     // as below
        {"gemma2", "tokenizer.ggml.add_space_prefix"},      // whatever the vocabulary says
        {"qwen35-nvfp4", "qwen35.full_attention_interval"}, // as below
        {"qwen3next", "qwen3next.full_attention_interval"}, // as below
        {"qwen35",
         "qwen35.full_attention_interval"}, // llama.cpp writes 4 where only the list of layers says it
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (!strcmp(list[i][0], name) && !strcmp(list[i][1], key))
            return true;
    if (!strcmp(name, "granite-attending")) // which speaks of layers that it has not
        return strstr(key, ".ssm.") || strstr(key, ".expert_") || strstr(key, "head_count_kv") ||
               strstr(key, "rope.scaling.finetuned") || strstr(key, "add_sep_token");
    return !strcmp(key, "tokenizer.ggml.add_sep_token"); // of models that embed texts
}

static void check_keys(const struct hearth_gguf *g, const char *name)
{
    char path[700], key[128];
    unsigned type, crc;
    unsigned long long n;
    snprintf(path, sizeof path, HF "%s/keys.txt", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fscanf(f, "%127s %u %llu %x", key, &type, &n, &crc) == 4) {
        const struct hearth_gguf_kv *kv = hearth_gguf_find(g, key);
        if (!kv && !differs(name, key))
            fail_msg("%s: key %s is missing", name, key);
        if (kv && !differs(name, key) && (kv->element != type || kv->count != n || crc32_of_value(kv) != crc))
            fail_msg(
                "%s: key %s is type %u with %llu elements, where llama.cpp's is type %u with %llu, or has another "
                "value",
                name, key, kv->element, (unsigned long long)kv->count, type, n);
    }
    fclose(f);
}

static void test_llama_cpp(void **state)
{
    (void)state;
    int n = 0;
    for (size_t i = 0; i < N_NAMES; i++) {
        char path[700];
        snprintf(path, sizeof path, HF "%s/tensors.txt", names[i]);
        if (access(path, F_OK))
            continue; // a family that llama.cpp does not know
        struct hearth_gguf *g;
        CHECK(convert(names[i], "F16", in_folder("out.gguf"), &check_error));
        CHECK(hearth_gguf_open(&g, in_folder("out.gguf"), &check_error));
        check_tensors(g, names[i]);
        check_keys(g, names[i]);
        hearth_gguf_close(&g);
        n++;
    }
    assert_int_equal(n, 65);
}

// ---- transformers

static void keep_row(const struct golden *g, float *rows, uint32_t i, const float *logits)
{
    memcpy(rows + (size_t)i * g->n_vocab, logits, g->n_vocab * sizeof *rows);
}

struct rows {
    const struct golden *g;
    float *data;
};

static bool keep(void *arg, int index, const float *logits)
{
    const struct rows *r = arg;
    keep_row(r->g, r->data, (uint32_t)index, logits);
    return true;
}

// Evaluates the ids as a prompt or as steps, and returns how far the logits are from `want`.
static double distance(const char *path, const struct golden *g, const float *want,
                       enum hearth_sparsity sparsity, bool steps)
{
    struct hearth_model_params mp = hearth_model_params_default();
    struct hearth_session_params sp = hearth_session_params_default();
    struct hearth_model *model;
    struct hearth_session *session;
    sp.n_threads = 2;
    sp.sparsity = sparsity;
    sp.type_k = sp.type_v = HEARTH_KV_F32;
    CHECK(hearth_model_open(&model, path, &mp, &check_error));
    CHECK(hearth_session_open(&session, model, &sp, &check_error));
    const size_t n = (size_t)g->n_tokens * g->n_vocab;
    struct rows rows = {g, malloc(n * sizeof(float))};
    assert_non_null(rows.data);
    const int seq = hearth_seq_new(session, NULL);
    if (!steps)
        CHECK(hearth_prompt(session, seq, g->ids, (int)g->n_tokens, keep, &rows, &check_error));
    for (uint32_t i = 0; steps && i < g->n_tokens; i++) {
        CHECK(hearth_step(session, &seq, &g->ids[i], 1, &check_error));
        keep_row(g, rows.data, i, hearth_logits(session, 0));
    }
    const double d = relative_l2(rows.data, want, n);
    free(rows.data);
    hearth_session_close(&session);
    hearth_model_close(&model);
    return d;
}

static void expect(const char *name, const char *what, double d, double limit)
{
    if (!(d < limit))
        fail_msg("%s: %s: the logits are %g away from transformers'", name, what, d);
}

// In F32 nothing is lost, so the logits are transformers' but for rounding. With predictors, the second logits of the
// golden are those of the neurons that these name. Experts in MXFP4 stay in it, which rounds activations: in prompts to
// eight bits, in steps to 15.
static void test_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NAMES; i++) {
        char path[700];
        struct golden g = {0};
        snprintf(path, sizeof path, HF "%s/logits", names[i]);
        assert_true(golden_read_logits(&g, path));
        CHECK(convert(names[i], "F32", in_folder("out.gguf"), &check_error));
        path[0] = '\0';
        snprintf(path, sizeof path, "%s", in_folder("out.gguf"));
        const bool rounds = strstr(names[i], "mxfp4") || strstr(names[i], "nvfp4");
        expect(names[i], "prompt", distance(path, &g, g.original, HEARTH_SPARSITY_OFF, false),
               rounds ? 3e-2 : 2e-6);
        expect(names[i], "steps", distance(path, &g, g.original, HEARTH_SPARSITY_OFF, true),
               rounds ? 2e-4 : 2e-6);
        if (g.decoded != g.original)
            expect(names[i], "steps with predictors",
                   distance(path, &g, g.decoded, HEARTH_SPARSITY_PREDICT, true), 2e-6);
        golden_free(&g);
    }
}

// ---- number formats

static void expect_same_data(const char *one, const char *two)
{
    struct hearth_gguf *a, *b;
    CHECK(hearth_gguf_open(&a, one, &check_error));
    CHECK(hearth_gguf_open(&b, two, &check_error));
    assert_int_equal(hearth_gguf_n_tensors(a), hearth_gguf_n_tensors(b));
    for (uint64_t k = 0; k < hearth_gguf_n_tensors(a); k++) {
        const struct hearth_gguf_tensor *s = hearth_gguf_tensor_at(a, k);
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor(b, s->name.s);
        assert_non_null(t);
        assert_int_equal(s->type, t->type);
        assert_int_equal(s->bytes, t->bytes);
        uint8_t *x = malloc(s->bytes), *y = malloc(s->bytes);
        CHECK(hearth_gguf_read(a, s, x, 0, s->bytes, &check_error));
        CHECK(hearth_gguf_read(b, t, y, 0, s->bytes, &check_error));
        assert_memory_equal(x, y, s->bytes);
        free(x);
        free(y);
    }
    hearth_gguf_close(&a);
    hearth_gguf_close(&b);
}

// The same file comes of converting at once and of converting to F32 first.
static void expect_same_way(const char *hf, const char *type)
{
    const struct hearth_recipe *recipe = hearth_recipe_by_name(type);
    const struct hearth_convert_params params = {.recipe = recipe, .n_threads = 1};
    const struct hearth_quantize_params quantize = {.recipe = recipe, .n_threads = 1};
    char one[300], two[300], f32[300];
    snprintf(one, sizeof one, "%s", in_folder("one.gguf"));
    snprintf(two, sizeof two, "%s", in_folder("two.gguf"));
    snprintf(f32, sizeof f32, "%s", in_folder("f32.gguf"));
    CHECK(hearth_quantize(f32, two, &quantize, NULL, &check_error));
    CHECK(hearth_convert(hf, one, &params, NULL, &check_error));
    expect_same_data(one, two);
}

static void test_types(void **state)
{
    (void)state;
    static const char *const types[] = {"F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K"};
    static const char *const models[] = {"llama", "opt", "mixtral"};
    for (size_t m = 0; m < 3; m++) {
        CHECK(convert(models[m], "F32", in_folder("f32.gguf"), &check_error));
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
            expect_same_way(make_hf(models[m]), types[i]);
    }
}

// Wide enough for blocks.
static json_int_t wide(json_int_t n)
{
    return n == 4 || n == 8 ? 16 : n == 32 ? 96 : n == 16 || n == 48 ? 4 * n : n;
}

// Recipes go by the first layer's heads, which are none where it does not attend.
static void test_first_layer(void **state)
{
    (void)state;
    char path[300];
    struct hearth_gguf *g;
    make_hf("lfm2");
    change("config.json", "\"hidden_size\":16", "\"hidden_size\":64");
    change("config.json", "\"intermediate_size\":48", "\"intermediate_size\":144");
    change("config.json", "\"num_key_value_heads\":2", "\"num_key_value_heads\":1");
    resize_weights(wide);
    const struct hearth_convert_params params = {.recipe = hearth_recipe_by_name("F32"), .n_threads = 1};
    CHECK(hearth_convert(hf_folder, in_folder("f32.gguf"), &params, NULL, &check_error));
    expect_same_way(hf_folder, "Q2_K");
    snprintf(path, sizeof path, "%s", in_folder("one.gguf"));
    CHECK(hearth_gguf_open(&g, path, &check_error));
    assert_int_equal(hearth_gguf_tensor(g, "blk.1.attn_v.weight")->type, HEARTH_TYPE_Q4_0); // for Q3_K
    hearth_gguf_close(&g);
}

// ---- tokenizers

static void check_ids(const struct hearth_model *model, const char *kind)
{
    char path[700];
    snprintf(path, sizeof path, HF "tokenizers/%s/ids.json", kind);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    const json_t *texts = json_object_get(root, "texts"), *ids = json_object_get(root, "ids");
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        const json_t *want = json_array_get(ids, i);
        hearth_token got[256];
        struct hearth_error err = {0};
        const int64_t n = hearth_tokenize(model, text, strlen(text),
                                          HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL, got, 256, &err);
        if (n != (int64_t)json_array_size(want))
            fail_msg("%s: \"%s\" gives %lld tokens, not %zu", kind, text, (long long)n,
                     json_array_size(want));
        for (size_t k = 0; k < json_array_size(want); k++)
            if (got[k] != json_integer_value(json_array_get(want, k)))
                fail_msg("%s: \"%s\": token %zu is %d", kind, text, k, got[k]);
    }
    json_decref(root);
}

static void test_tokenizers(void **state)
{
    (void)state;
    static const char *const models[][2] = {{"llama", "llama3"},     {"qwen2", "qwen"},
                                            {"falcon-7b", "falcon"}, {"mistral", "spm"},
                                            {"mixtral", "spm-json"}, {"opt", "gpt2"},
                                            {"gemma4", "gemma4"},    {"deepseek-v3-int4", "tiktoken"}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct hearth_model_params mp = hearth_model_params_default();
        struct hearth_model *model;
        mp.vocab_only = true;
        CHECK(convert(models[i][0], "F32", in_folder("out.gguf"), &check_error));
        CHECK(hearth_model_open(&model, in_folder("out.gguf"), &mp, &check_error));
        check_ids(model, models[i][1]);
        hearth_model_close(&model);
    }
}

// ---- refusals

static void test_refusals(void **state)
{
    (void)state;
    empty_folder();
    const char *config = "config.json";
    REFUSED_CHANGE("qwen2", config, "Qwen2ForCausalLM", "GPTNeoXForCausalLM", HEARTH_E_UNSUPPORTED,
                   "GPTNeoXForCausalLM cannot be converted");
    REFUSED_CHANGE("gemma3", config, "\"query_pre_attn_scalar\":8", "\"query_pre_attn_scalar\":9",
                   HEARTH_E_UNSUPPORTED, "\"query_pre_attn_scalar\": 9 is not supported, 8 is");
    REFUSED_CHANGE("gemma3", config, "\"final_logit_softcapping\":null", "\"final_logit_softcapping\":30.0",
                   HEARTH_E_UNSUPPORTED, "\"final_logit_softcapping\" is not supported");
    REFUSED_CHANGE("gemma3", config, "\"sliding_attention\",\"sliding_attention\",\"full_attention\"",
                   "\"full_attention\",\"sliding_attention\",\"sliding_attention\"", HEARTH_E_UNSUPPORTED,
                   "windows in another order");
    REFUSED_CHANGE("gemma4", config, "\"proportional\"", "\"linear\"", HEARTH_E_UNSUPPORTED,
                   "neither default nor proportional");
    REFUSED_CHANGE("gemma4", config, "\"partial_rotary_factor\":0.25", "\"partial_rotary_factor\":1.5",
                   HEARTH_E_UNSUPPORTED, "more than a whole head");
    REFUSED_CHANGE("gemma4", config, "\"layer_types\":[\"sliding_attention\",",
                   "\"layer_types\":[\"chunked_attention\",", HEARTH_E_UNSUPPORTED,
                   "layer 0 is \"chunked_attention\"");
    REFUSED_CHANGE("gemma4", config, "\"global_head_dim\":16", "\"global_head_dim\":32", HEARTH_E_FORMAT,
                   "q_proj.weight has shape [64, 16], where [128, 16]");
    REFUSED_CHANGE("gemma4", config, "\"attention_k_eq_v\":true", "\"attention_k_eq_v\":false",
                   HEARTH_E_FORMAT, "k_proj.weight has shape [16, 16], where [32, 16]");
    REFUSED_CHANGE("gemma4", config, "\"use_bidirectional_attention\":null",
                   "\"use_bidirectional_attention\":\"all\"", HEARTH_E_UNSUPPORTED, "both ways");
    REFUSED_CHANGE("gemma4-e", config, "\"num_kv_shared_layers\":2", "\"num_kv_shared_layers\":3",
                   HEARTH_E_FORMAT, "leaves no layer of each kind");
    REFUSED_CHANGE("gemma4-e", config, "\"use_double_wide_mlp\":true", "\"use_double_wide_mlp\":false",
                   HEARTH_E_FORMAT, "layers.2.mlp.gate_proj.weight has shape [64, 16], where [32, 16]");
    REFUSED_CHANGE("gemma4-e", config, "\"hidden_size_per_layer_input\":8",
                   "\"hidden_size_per_layer_input\":0", HEARTH_E_UNSUPPORTED,
                   "has no place in a model of class Gemma4ForCausalLM");
    REFUSED_CHANGE("gemma4-moe", config, "\"enable_moe_block\":true", "\"enable_moe_block\":false",
                   HEARTH_E_UNSUPPORTED, "has no place in a model of class Gemma4ForCausalLM");
    REFUSED_CHANGE("gemma4-unified", config, "\"head_dim\":16", "\"head_dim\":32", HEARTH_E_FORMAT,
                   "q_proj.weight has shape [64, 16], where [128, 16]");
    REFUSED_CHANGE("lfm2", config, "\"conv_L_cache\":3", "\"conv_L_cache\":4", HEARTH_E_FORMAT,
                   "has shape [16, 1, 3], where [16, 4]");
    REFUSED_CHANGE("lfm2", config, "\"conv\",\"full_attention\"", "\"conv\",\"conv\"", HEARTH_E_FORMAT,
                   "tensor model.layers.1.conv.in_proj.weight is missing");
    REFUSED_CHANGE("lfm2", config, "\"conv\",\"full_attention\"", "\"conv\",\"sliding_attention\"",
                   HEARTH_E_UNSUPPORTED, "layer 1 is \"sliding_attention\"");
    REFUSED_CHANGE("lfm2", config, "\"block_multiple_of\":16", "\"block_multiple_of\":64", HEARTH_E_FORMAT,
                   "has shape [32, 16], where [64, 16]");
    REFUSED_CHANGE("lfm2moe", config, "\"num_dense_layers\":1", "\"num_dense_layers\":2", HEARTH_E_FORMAT,
                   "tensor model.layers.1.feed_forward.w1.weight is missing");
    REFUSED_CHANGE("qwen35", config, "\"linear_num_value_heads\":4", "\"linear_num_value_heads\":3",
                   HEARTH_E_UNSUPPORTED, "3 heads of 16 values with 2 heads of 16 keys");
    REFUSED_CHANGE("qwen35", config, "\"partial_rotary_factor\":0.5", "\"partial_rotary_factor\":1.5",
                   HEARTH_E_FORMAT, "\"partial_rotary_factor\" 1.5");
    // Too large for an integer, so it must be checked before it is one: -fsanitize=float-cast-overflow sees it.
    REFUSED_CHANGE("qwen35", config, "\"partial_rotary_factor\":0.5", "\"partial_rotary_factor\":1e300",
                   HEARTH_E_FORMAT, "\"partial_rotary_factor\" 1e+300");
    REFUSED_CHANGE("qwen35", config, "\"partial_rotary_factor\":0.5", "\"partial_rotary_factor\":-1e300",
                   HEARTH_E_FORMAT, "\"partial_rotary_factor\" -1e+300");
    REFUSED_CHANGE("qwen35moe", config, "\"num_experts\":6", "\"num_experts\":7", HEARTH_E_FORMAT,
                   "where [7, 16]");
    REFUSED_CHANGE("deepseek-v2", config, "\"v_head_dim\":6", "\"v_head_dim\":8", HEARTH_E_FORMAT,
                   "has shape [56, 8], where [64, 8]");
    REFUSED_CHANGE("deepseek-v2", config, "\"mscale\":0.7", "\"mscale\":1.0", HEARTH_E_UNSUPPORTED,
                   "mscale is not its mscale_all_dim");
    REFUSED_CHANGE("deepseek-v2", config, "\"scoring_func\":\"softmax\"", "\"scoring_func\":\"sigmoid\"",
                   HEARTH_E_UNSUPPORTED, "\"scoring_func\": \"sigmoid\" is not supported, softmax is");
    REFUSED_CHANGE("deepseek-v2", config, "\"n_shared_experts\":2", "\"n_shared_experts\":null",
                   HEARTH_E_UNSUPPORTED, "mlp.shared_experts.down_proj.weight has no place");
    REFUSED_CHANGE("deepseek-v3", config, "\"n_group\":4", "\"n_group\":3", HEARTH_E_FORMAT,
                   "8 experts in 3 groups");
    REFUSED_CHANGE("deepseek-v3", config, "\"num_nextn_predict_layers\":1", "\"num_nextn_predict_layers\":0",
                   HEARTH_E_UNSUPPORTED, "tensor model.layers.2.");
    REFUSED_CHANGE("deepseek-v3", config, "\"q_lora_rank\":8", "\"q_lora_rank\":null", HEARTH_E_FORMAT,
                   "self_attn.q_proj.weight is missing");
    REFUSED_CHANGE("deepseek-v3", config, "{", "{\"quantization_config\":{\"quant_method\":\"awq\"},",
                   HEARTH_E_UNSUPPORTED, "quantised already");
    REFUSED_CHANGE("deepseek-v3-fp8", config, "\"e4m3\"", "\"e5m2\"", HEARTH_E_UNSUPPORTED,
                   "other than e4m3");
    REFUSED_CHANGE("deepseek-v3-fp8", config, "\"fp8\"", "\"fbgemm_fp8\"", HEARTH_E_UNSUPPORTED,
                   "quantised already");
    REFUSED_CHANGE("deepseek-v3-fp8", config, "[6,5]", "[6,4]", HEARTH_E_FORMAT,
                   "_scale_inv has not the shape of the factors");
    REFUSED_CHANGE("deepseek-v3-fp8", config, "[6,5]", "null", HEARTH_E_FORMAT, "has not the shape");
    REFUSED_CHANGE("deepseek-v3-fp8", config, "[6,5]", "[6,0]", HEARTH_E_FORMAT, "two numbers from 1 to");
    REFUSED_CHANGE("deepseek-v3-fp8", config, "[6,5]", "[6,5,1]", HEARTH_E_FORMAT, "two numbers from 1 to");
    REFUSED_CHANGE("deepseek-v3-fp8", config, "\"quantization_config\"", "\"other\"", HEARTH_E_UNSUPPORTED,
                   "is in FP8, and config.json has no \"quantization_config\"");
    REFUSED_CHANGE("qwen3-fp8", config, "\"float-quantized\"", "\"pack-quantized\"", HEARTH_E_UNSUPPORTED,
                   "of compressed-tensors only");
    REFUSED_CHANGE("qwen3-fp8", config, "\"block_structure\":null", "\"block_structure\":[8,8]",
                   HEARTH_E_FORMAT, "has not the shape");
    REFUSED_CHANGE("qwen3-fp8", config, "\"compressed-tensors\"", "\"fp8\"", HEARTH_E_FORMAT,
                   "_scale_inv is missing");
    REFUSED_CHANGE("glm-lite", config, "\"mlp_layer_types\":[\"dense\",\"sparse\"]",
                   "\"mlp_layer_types\":[\"sparse\",\"dense\"]", HEARTH_E_UNSUPPORTED, "behind others");
    REFUSED_CHANGE("glm4-moe", config, "\"n_group\":1", "\"n_group\":2", HEARTH_E_UNSUPPORTED,
                   "\"n_group\": 2 is not supported, 1 is");
    REFUSED_CHANGE("glm4-moe", config, "\"num_nextn_predict_layers\":1", "\"num_nextn_predict_layers\":2",
                   HEARTH_E_FORMAT, "tensor model.layers.4.input_layernorm.weight is missing");
    REFUSED_CHANGE("glm4-moe", config, "\"num_nextn_predict_layers\":1", "\"num_nextn_predict_layers\":0",
                   HEARTH_E_UNSUPPORTED, "tensor model.layers.3.");
    REFUSED_CHANGE("qwen35", config, "\"mtp_num_hidden_layers\":1", "\"mtp_num_hidden_layers\":2",
                   HEARTH_E_UNSUPPORTED, "\"mtp_num_hidden_layers\": 2 is not supported, 1 is");
    REFUSED_CHANGE("qwen35", config, "\"mtp_num_hidden_layers\":1", "\"mtp_num_hidden_layers\":0",
                   HEARTH_E_UNSUPPORTED, "tensor mtp.");
    // Where there is no layer for guesses behind these, config.json does not make one.
    REFUSED_CHANGE("glm4-moe", config, "\"num_hidden_layers\":3", "\"num_hidden_layers\":4",
                   HEARTH_E_UNSUPPORTED, "tensor model.layers.3.e");
    REFUSED_CHANGE("smollm3", config, "\"no_rope_layers\":[1,1,1,0]", "\"no_rope_layers\":[1,1,0,1]",
                   HEARTH_E_UNSUPPORTED, "other than every fourth layer");
    REFUSED_CHANGE("granite", config, "\"residual_multiplier\":0.22", "\"residual_multiplier\":-1",
                   HEARTH_E_FORMAT, "\"residual_multiplier\" -1 must be positive");
    REFUSED_CHANGE("granitemoe", config, "\"shared_intermediate_size\":16", "\"shared_intermediate_size\":0",
                   HEARTH_E_UNSUPPORTED, "shared_mlp.input_linear.weight has no place");
    REFUSED_CHANGE("olmoe", config, "\"clip_qkv\":null", "\"clip_qkv\":8.0", HEARTH_E_UNSUPPORTED,
                   "\"clip_qkv\" is not supported");
    REFUSED_CHANGE("olmo3", config, "[\"sliding_attention\",\"sliding_attention\"",
                   "[\"full_attention\",\"sliding_attention\"", HEARTH_E_UNSUPPORTED,
                   "windows in another order");
    REFUSED_CHANGE("qwen2moe", config, "\"shared_expert_intermediate_size\":32",
                   "\"shared_expert_intermediate_size\":16", HEARTH_E_FORMAT, "has shape [");
    REFUSED_CHANGE("minimax-m2", config, "\"rotary_dim\":4", "\"rotary_dim\":10", HEARTH_E_FORMAT,
                   "\"rotary_dim\" 10 of 8 dimensions");
    REFUSED_CHANGE("minimax-m2", config, "\"sigmoid\"", "\"softmax\"", HEARTH_E_UNSUPPORTED,
                   "\"scoring_func\": \"softmax\" is not supported");
    REFUSED_CHANGE("phi3", config, "\"short_factor\":[1.0,1.5]", "\"short_factor\":[1.0]", HEARTH_E_FORMAT,
                   "\"short_factor\" must be 2 positive numbers");
    REFUSED_CHANGE("phi3", config, "\"long_factor\":[2.0,4.5]", "\"long_factor\":[2.0,-4.5]", HEARTH_E_FORMAT,
                   "\"long_factor\" must be 2 positive numbers");
    REFUSED_CHANGE("gemma2", config, "\"query_pre_attn_scalar\":8", "\"query_pre_attn_scalar\":9",
                   HEARTH_E_UNSUPPORTED, "\"query_pre_attn_scalar\": 9 is not supported, 8 is");
    REFUSED_CHANGE("cohere2", config, "\"rotary_pct\":1.0", "\"rotary_pct\":0.5", HEARTH_E_UNSUPPORTED,
                   "\"rotary_pct\": 0.5 is not supported");
    REFUSED_CHANGE("ernie", config, "\"use_bias\":false", "\"use_bias\":true", HEARTH_E_UNSUPPORTED,
                   "\"use_bias\": true is not supported");
    REFUSED_CHANGE("exaone4", config, "[\"sliding_attention\",\"sliding_attention\"",
                   "[\"full_attention\",\"sliding_attention\"", HEARTH_E_UNSUPPORTED,
                   "windows in another order");
    REFUSED_CHANGE("gpt-oss", config, "\"truncate\":false", "\"truncate\":true", HEARTH_E_UNSUPPORTED,
                   "with truncation");
    REFUSED_CHANGE("gpt-oss", config, "\"rope_type\":\"yarn\"", "\"rope_type\":\"linear\"",
                   HEARTH_E_UNSUPPORTED, "must be there, and YaRN");
    REFUSED_CHANGE("gpt-oss", config, "\"swiglu_limit\":7.0", "\"swiglu_limit\":8.0", HEARTH_E_UNSUPPORTED,
                   "\"swiglu_limit\": 8 is not supported, 7 is");
    REFUSED_CHANGE("gpt-oss-mxfp4", config, "\"intermediate_size\":32", "\"intermediate_size\":64",
                   HEARTH_E_FORMAT, "4 matrices [128, 64] in MXFP4");
    REFUSED_CHANGE("gpt-oss-mxfp4", config, "\"mxfp4\"", "\"fp8\"", HEARTH_E_UNSUPPORTED,
                   "quantised already");
    REFUSED_CHANGE("qwen3next", config, "\"decoder_sparse_step\":1", "\"decoder_sparse_step\":2",
                   HEARTH_E_UNSUPPORTED, "layers without experts");
    REFUSED_CHANGE("qwen3next", config, "\"linear_num_value_heads\":4", "\"linear_num_value_heads\":2",
                   HEARTH_E_FORMAT, "conv1d.weight has shape [");
    REFUSED_CHANGE("deepseek-v3-int4", "tokenizer_config.json", "TikTokenTokenizer", "OtherTokenizer",
                   HEARTH_E_UNSUPPORTED, "only Kimi's vocabularies of this form are known");
    REFUSED_CHANGE("deepseek-v3-int4", "tiktoken.model", "AA== 0", "A!== 0", HEARTH_E_FORMAT,
                   "tiktoken.model: line 1 is no token in base64");
    REFUSED_CHANGE("deepseek-v3-int4", "tiktoken.model", "AA== 0", "AA== 1", HEARTH_E_FORMAT,
                   "rank 1 is there twice");
    REFUSED_CHANGE("deepseek-v3-int4", "tiktoken.model", "AA== 0", "AA== 999", HEARTH_E_FORMAT,
                   "a rank below 288");
    REFUSED_CHANGE("deepseek-v3-int4", "tiktoken.model", "AA== 0", "AA== 287", HEARTH_E_FORMAT,
                   "rank 0 is missing");
    REFUSED_CHANGE("deepseek-v3-int4", "tiktoken.model", "AA== 0", "AQ== 0", HEARTH_E_FORMAT,
                   "ranks 0 and 1 are one token");
    REFUSED_CHANGE("qwen3moe-nvfp4", "hf_quant_config.json", "\"MIXED_PRECISION\"", "\"INT4_AWQ\"",
                   HEARTH_E_UNSUPPORTED, "\"quant_algo\" \"INT4_AWQ\" of ModelOpt cannot be converted");
    REFUSED_CHANGE("qwen3moe-nvfp4", "hf_quant_config.json", "\"MIXED_PRECISION\"", "\"FP8\"",
                   HEARTH_E_FORMAT, "has shape [64, 32], where [64, 64]");
    REFUSED_CHANGE("qwen3moe-nvfp4", "hf_quant_config.json", "{", "[", HEARTH_E_FORMAT, "not valid JSON");
    REFUSED_CHANGE("llama-nvfp4", config, "\"group_size\":16", "\"group_size\":32", HEARTH_E_UNSUPPORTED,
                   "of compressed-tensors only");
    REFUSED_CHANGE("llama-nvfp4", config, "\"num_attention_heads\":4", "\"num_attention_heads\":2",
                   HEARTH_E_FORMAT, "q_proj.weight_packed has shape [64, 64], where [32, 64]");
    REFUSED_CHANGE("deepseek-v3-int4", config, "\"group_size\":8", "\"group_size\":16", HEARTH_E_FORMAT,
                   "weight_scale has not the shape of the factors");
    REFUSED_CHANGE("deepseek-v3-int4", config, "\"symmetric\":true", "\"symmetric\":false",
                   HEARTH_E_UNSUPPORTED, "of compressed-tensors only");
    REFUSED_CHANGE("deepseek-v3-int4", config, "\"num_bits\":4", "\"num_bits\":8", HEARTH_E_UNSUPPORTED,
                   "of compressed-tensors only");
    REFUSED_CHANGE("minimax-01", config, "[0,1,0,1]", "[1,0,0,1]", HEARTH_E_UNSUPPORTED,
                   "only each n-th layer may attend");
    REFUSED_CHANGE("minimax-01", config, "[0,1,0,1]", "[0,1,0]", HEARTH_E_FORMAT,
                   "\"attn_type_list\" must say of each layer");
    REFUSED_CHANGE("minimax-01", config, "\"layernorm_mlp_alpha\":1.7", "\"layernorm_mlp_alpha\":1.8",
                   HEARTH_E_UNSUPPORTED, "\"layernorm_mlp_alpha\": 1.8 is not supported, 1.7");
    REFUSED_CHANGE("minimax-01", config, "\"rotary_dim\":16", "\"rotary_dim\":32", HEARTH_E_FORMAT,
                   "\"rotary_dim\" 32 of 16 dimensions");
    REFUSED_CHANGE("kimi-linear", config, "\"full_attn_layers\":[2]", "\"full_attn_layers\":[4]",
                   HEARTH_E_FORMAT, "\"full_attn_layers\" must be numbers of layers");
    REFUSED_CHANGE("kimi-linear", config, "\"full_attn_layers\":[2]", "\"full_attn_layers\":[3]",
                   HEARTH_E_FORMAT, "layers.1.self_attn.o_proj.weight has shape [");
    REFUSED_CHANGE("kimi-linear", config, "\"short_conv_kernel_size\":4", "\"short_conv_kernel_size\":3",
                   HEARTH_E_FORMAT, "q_conv1d.weight has shape [");
    REFUSED_CHANGE("kimi-linear", config, "\"num_heads\":4", "\"num_heads\":2", HEARTH_E_UNSUPPORTED,
                   "2 heads of recurrent layers beside 4");
    REFUSED_CHANGE("kimi-linear", config, "\"moe_renormalize\":true", "\"moe_renormalize\":false",
                   HEARTH_E_UNSUPPORTED, "\"moe_renormalize\": false");
    REFUSED_CHANGE("deepseek-v32", config, "\"index_topk\":4", "\"index_topk\":0", HEARTH_E_FORMAT,
                   "4 heads of 8 dimensions cannot choose 0 positions");
    REFUSED_CHANGE("deepseek-v32", config, "\"index_n_heads\":4", "\"index_n_heads\":2", HEARTH_E_FORMAT,
                   "indexer.wq_b.weight has shape [32, 8], where [16, 8]");
    REFUSED_CHANGE("glm-dsa", config, "[\"full\",\"shared\",\"full\"", "[\"shared\",\"full\",\"full\"",
                   HEARTH_E_FORMAT, "of the first that it is full");
    REFUSED_CHANGE("glm-dsa", config, "[\"full\",\"shared\",\"full\"", "[\"full\",\"shared\",\"shared\"",
                   HEARTH_E_UNSUPPORTED, "layers.2.self_attn.indexer.");
    REFUSED_CHANGE("hunyuan", config, "\"alpha\":50.0", "\"alpha\":-50.0", HEARTH_E_FORMAT,
                   "the \"alpha\" of the rotation must be positive");
    REFUSED_CHANGE("hunyuan", config, "\"alpha\":50.0", "\"beta\":50.0", HEARTH_E_FORMAT, "\"alpha\"");
    REFUSED_CHANGE("hunyuan-moe", config, "\"moe_topk\":[2,2]", "\"moe_topk\":[2,1]", HEARTH_E_UNSUPPORTED,
                   "\"moe_topk\": layers that differ are not supported");
    REFUSED_CHANGE("hunyuan-moe", config, "\"num_shared_expert\":[1,1]", "\"num_shared_expert\":[2,2]",
                   HEARTH_E_UNSUPPORTED, "\"num_shared_expert\": 2 is not supported");
    REFUSED_CHANGE("ernie-moe", config, "\"moe_layer_end_index\":1", "\"moe_layer_end_index\":0",
                   HEARTH_E_UNSUPPORTED, "layers without experts behind others");
    REFUSED_CHANGE("ernie-moe", config, "\"moe_layer_interval\":1", "\"moe_layer_interval\":2",
                   HEARTH_E_UNSUPPORTED, "\"moe_layer_interval\": 2 is not supported");
    REFUSED_CHANGE("dots1", config, "\"n_group\":1", "\"n_group\":2", HEARTH_E_UNSUPPORTED,
                   "\"n_group\": 2 is not supported");
    REFUSED_CHANGE("ling2", config, "\"score_function\":\"sigmoid\"", "\"score_function\":\"softmax\"",
                   HEARTH_E_UNSUPPORTED, "\"score_function\": \"softmax\" is not supported");
    REFUSED_CHANGE("ling2", config, "\"n_group\":4", "\"n_group\":3", HEARTH_E_FORMAT,
                   "8 experts in 3 groups");
    REFUSED_CHANGE("starcoder2", config, "\"use_bias\":true", "\"use_bias\":false", HEARTH_E_UNSUPPORTED,
                   "\"use_bias\": false is not supported");
    REFUSED_CHANGE("internlm2", config, "\"num_key_value_heads\":2", "\"num_key_value_heads\":1",
                   HEARTH_E_FORMAT, "wqkv.weight has shape [32, 16], where [24, 16]");
    REFUSED_CHANGE("internlm2", config, "\"dynamic\"", "\"longrope\"", HEARTH_E_UNSUPPORTED,
                   "type \"longrope\"");
    REFUSED_CHANGE("nemotron-h", config, "M-M*-", "M-ME-", HEARTH_E_UNSUPPORTED,
                   "layers without experts beside others");
    REFUSED_CHANGE("nemotron-h", config, "M-M*-", "M-MX-", HEARTH_E_UNSUPPORTED, "layer 3 is \"X\"");
    REFUSED_CHANGE("nemotron-h", config, "M-M*-", "M-M*", HEARTH_E_FORMAT,
                   "\"hybrid_override_pattern\" must say of each layer");
    REFUSED_CHANGE("nemotron-h", config, "M-M*-", "M-MM-", HEARTH_E_FORMAT,
                   "backbone.layers.3.mixer.in_proj.weight is missing");
    REFUSED_CHANGE("nemotron-h", config, "\"n_groups\":2", "\"n_groups\":3", HEARTH_E_FORMAT,
                   "in 3 groups, behind 4 taps, cannot be");
    REFUSED_CHANGE("nemotron-h-moe", config, "\"moe_latent_size\":8", "\"moe_latent_size\":0",
                   HEARTH_E_FORMAT, "up_proj.weight has shape [16, 8], where [16, 16]");
    REFUSED_CHANGE("granite-hybrid", config, "\"mamba\",\"attention\"", "\"mamba\",\"window\"",
                   HEARTH_E_UNSUPPORTED, "layer 1 is \"window\"");
    REFUSED_CHANGE("granite-hybrid", config, "\"nope\"", "\"rope\"", HEARTH_E_UNSUPPORTED,
                   "rotation beside recurrent layers");
    REFUSED_CHANGE("granite-hybrid", config, "\"mamba_d_head\":8", "\"mamba_d_head\":16", HEARTH_E_FORMAT,
                   "4 heads of 16 values are not 32 together");
    REFUSED_CHANGE("granite-attending", config, "\"rope\",\"r", "\"nope\",\"r", HEARTH_E_UNSUPPORTED,
                   "attention alone that does not rotate");
    REFUSED_CHANGE("falcon-h1", config, "\"ssm_multipliers\":[0.35,", "\"ssm_multipliers\":[",
                   HEARTH_E_FORMAT, "\"ssm_multipliers\" must be 5 numbers");
    REFUSED_CHANGE("falcon-h1", config, "\"tie_word_embeddings\":false", "\"tie_word_embeddings\":true",
                   HEARTH_E_UNSUPPORTED, "has another multiplier");
    REFUSED_CHANGE("gemma3n", config, "[0.8,0.0,0.8,", "[0.8,0.0,0.7,", HEARTH_E_UNSUPPORTED,
                   "only one share below 1 is supported");
    REFUSED_CHANGE("gemma3n", config, "\"altup_num_inputs\":4", "\"altup_num_inputs\":5",
                   HEARTH_E_UNSUPPORTED, "\"altup_num_inputs\": 5 with stream 0");
    REFUSED_CHANGE("gemma3n", config, "\"intermediate_size\":[64,", "\"intermediate_size\":[96,",
                   HEARTH_E_UNSUPPORTED, "layers with other numbers of neurons");
    REFUSED_CHANGE("gemma3n", config, "\"sliding_window\":4", "\"sliding_window\":null", HEARTH_E_UNSUPPORTED,
                   "\"sliding_window\": none");
    REFUSED_CHANGE("qwen3vlmoe", config, "\"moe_intermediate_size\":16", "\"moe_intermediate_size\":8",
                   HEARTH_E_FORMAT, "gate_up_proj has shape [4, 16, 32], where [16, 16]");
    REFUSED_CHANGE("llama4", config, "\"attention_chunk_size\":8192", "\"attention_chunk_size\":4096",
                   HEARTH_E_UNSUPPORTED, "\"attention_chunk_size\": 4096 is not supported");
    REFUSED_CHANGE("llama4", config, "\"moe_layers\":[1,3]", "\"moe_layers\":[0,3]", HEARTH_E_UNSUPPORTED,
                   "other than each n-th layer");
    REFUSED_CHANGE("llama4", config, "\"use_qk_norm\":true", "\"use_qk_norm\":false", HEARTH_E_UNSUPPORTED,
                   "\"use_qk_norm\": false");
    REFUSED_CHANGE("qwen2", config, "\"silu\"", "\"tanh\"", HEARTH_E_UNSUPPORTED, "activation \"tanh\"");
    REFUSED_CHANGE("qwen2", config, "\"yarn\"", "\"longrope\"", HEARTH_E_UNSUPPORTED, "type \"longrope\"");
    REFUSED_CHANGE("qwen2", config, "\"vocab_size\":288", "\"vocab_size\":300", HEARTH_E_FORMAT,
                   "has shape [288, 16], where [300, 16]");
    REFUSED_CHANGE("qwen2", config, "\"num_hidden_layers\":2", "\"num_hidden_layers\":3", HEARTH_E_FORMAT,
                   "tensor model.layers.2.input_layernorm.weight is missing");
    REFUSED_CHANGE("qwen2", config, "\"num_hidden_layers\":2", "\"num_hidden_layers\":1",
                   HEARTH_E_UNSUPPORTED, "tensor model.layers.1.");
    REFUSED_CHANGE("qwen2", config, "\"hidden_size\":16", "\"hidden_size\":\"16\"", HEARTH_E_FORMAT,
                   "\"hidden_size\" should be a whole number");
    REFUSED_CHANGE("qwen2", config, "{", "{\"vocab_size\":288,", HEARTH_E_FORMAT, "not valid JSON");
    REFUSED_CHANGE("qwen2", config, "{", "{\"quantization_config\":{},", HEARTH_E_UNSUPPORTED,
                   "quantised already");
    REFUSED_CHANGE("falcon-7b", config, "\"alibi\":false", "\"alibi\":true", HEARTH_E_UNSUPPORTED, "alibi");
    REFUSED_CHANGE("opt", config, "\"do_layer_norm_before\":true", "\"do_layer_norm_before\":false",
                   HEARTH_E_UNSUPPORTED, "do_layer_norm_before");
    REFUSED_CHANGE("qwen3moe", config, "\"decoder_sparse_step\":1", "\"decoder_sparse_step\":2",
                   HEARTH_E_UNSUPPORTED, "layers without experts");
    REFUSED_CHANGE("llama", "model.safetensors.index.json", "\"model-00001", "\"../model-00001",
                   HEARTH_E_FORMAT, "is no name of a file here");
    REFUSED_CHANGE("llama", "model.safetensors.index.json", "\"model-00001", "\"..\\\\model-00001",
                   HEARTH_E_FORMAT, "is no name of a file here"); // on every system
    REFUSED_CHANGE("llama", "model.safetensors.index.json", "\"model-00001", "\"model-00003", HEARTH_E_IO,
                   "model-00003-of-00002.safetensors is missing");
    REFUSED_CHANGE("llama", "tokenizer.json", "{1,3}", "{1,4}", HEARTH_E_UNSUPPORTED,
                   "this way to cut a text into words is not known");
    REFUSED_CHANGE("llama", "tokenizer.json", "\"type\":\"BPE\"",
                   "\"type\":\"Unigram\",\"merges\":0,\"m\":\"\"", HEARTH_E_FORMAT, "not valid JSON");
    make_hf("llama");
    drop("tokenizer.json");
    REFUSED(convert_changed(&(struct hearth_convert_params){0}, &check_error), HEARTH_E_INVALID,
            "no tokenizer here");
    make_hf("qwen2");
    drop("model.safetensors");
    REFUSED(convert_changed(&(struct hearth_convert_params){0}, &check_error), HEARTH_E_INVALID,
            "no weights here");
    drop("config.json");
    REFUSED(convert_changed(&(struct hearth_convert_params){0}, &check_error), HEARTH_E_IO, "config.json");
    assert_int_equal(count_files(), 0);
}

// A predictor that would run a program: it is refused by name, and nothing happens.
static void test_code(void **state)
{
    (void)state;
    const char *from = HEARTH_SOURCE_DIR "/tests/fuzz/corpus/checkpoint/pt-code";
    char to[700], data[65536];
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    const size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    make_hf("relullama");
    drop("predictors");
    snprintf(to, sizeof to, "%s/model_0.pt", hf_folder);
    f = fopen(to, "wb");
    assert_non_null(f);
    fwrite(data + 1, 1, n - 1, f); // without the byte that says what it is
    fclose(f);
    REFUSED(convert_changed(&(struct hearth_convert_params){.predictors = hf_folder}, &check_error),
            HEARTH_E_UNSUPPORTED, "it wants to call posix.system");
    drop("model_0.pt");
    REFUSED(convert_changed(&(struct hearth_convert_params){.predictors = hf_folder}, &check_error),
            HEARTH_E_IO, "model_0.pt is missing");
}

// A weight of 65,536, which F16 has not, and one that is infinite.
static void test_large_weights(void **state)
{
    (void)state;
    static const uint8_t large[] = {0x80, 0x47}, infinite[] = {0x80, 0x7f};
    static const char *const shard = "model-00002-of-00002.safetensors";
    struct hearth_convert_params params = {.recipe = hearth_recipe_by_name("F16"), .n_threads = 1};
    empty_folder();
    make_hf("llama");
    change_end(shard, large, sizeof large);
    REFUSED(
        hearth_convert(hf_folder, in_folder("out.gguf"), &params, NULL, &check_error), HEARTH_E_FORMAT,
        "model-00002-of-00002.safetensors: tensor model.layers.1.self_attn.v_proj.weight has weights that are "
        "infinite, not a number, or too large for F16: convert to BF16");
    assert_int_equal(count_files(), 0);
    params.recipe = hearth_recipe_by_name("Q8_0");
    CHECK(hearth_convert(hf_folder, in_folder("out.gguf"), &params, NULL, &check_error));
    make_hf("llama");
    change_end(shard, infinite, sizeof infinite);
    REFUSED(hearth_convert(hf_folder, in_folder("out.gguf"), &params, NULL, &check_error), HEARTH_E_FORMAT,
            "too large for Q8_0");
    params.recipe = hearth_recipe_by_name("BF16"); // stays as it is
    CHECK(hearth_convert(hf_folder, in_folder("out.gguf"), &params, NULL, &check_error));
}

static bool stop(void *arg, float share)
{
    (void)arg;
    return share < 0.5f;
}

static void test_stopped(void **state)
{
    (void)state;
    empty_folder();
    make_hf("llama");
    REFUSED(convert_changed(&(struct hearth_convert_params){.progress = stop}, &check_error),
            HEARTH_E_INTERRUPTED, "stopped on request");
    assert_int_equal(count_files(), 0);
}

static void expect_activation(const char *key, const char *want)
{
    struct hearth_gguf *g;
    struct hearth_str text = {"", 0};
    CHECK(hearth_gguf_open(&g, in_folder("out.gguf"), &check_error));
    CHECK(hearth_gguf_str(g, key, true, &text, &check_error));
    assert_int_equal(text.n, strlen(want));
    assert_memory_equal(text.s, want, text.n);
    hearth_gguf_close(&g);
}

// How words are cut has a name, whatever the model.
static void test_words(void **state)
{
    (void)state;
    static const char ling[] = "'(?i:[sdmt]|ll|ve|re)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?+\\\\p{L}+|\\\\p{N}| "
                               "?[^\\\\s\\\\p{L}\\\\p{N}]++[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]|\\\\s+(?!\\\\S)|"
                               "\\\\s+";
    static const char qwen[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s"
        "\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+";
    const char *const words[][2] = {{ling, "bailingmoe"}, {qwen, "qwen2"}};
    for (size_t i = 0; i < 2; i++) {
        make_hf("qwen2");
        change("tokenizer.json", qwen, words[i][0]);
        CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
        expect_activation("tokenizer.ggml.pre", words[i][1]);
    }
}

static void test_activations(void **state)
{
    (void)state;
    make_hf("qwen2");
    CHECK(convert_changed(&(struct hearth_convert_params){.activation = "relu"}, &check_error));
    expect_activation("qwen2.feed_forward.activation", "relu");
    change("config.json", "Qwen2ForCausalLM", "SparseQwen2ForCausalLM");
    CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
    expect_activation("qwen2.feed_forward.activation", "drelu");
    make_hf("mistral");
    change("config.json", "\"silu\"", "\"fatrelu\"");
    CHECK(convert_changed(&(struct hearth_convert_params){0}, &check_error));
    expect_activation("llama.feed_forward.activation", "relu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_cpp),  cmocka_unit_test(test_logits),
        cmocka_unit_test(test_types),      cmocka_unit_test(test_first_layer),
        cmocka_unit_test(test_tokenizers), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_code),       cmocka_unit_test(test_large_weights),
        cmocka_unit_test(test_stopped),    cmocka_unit_test(test_activations),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_hf_folders);
}
