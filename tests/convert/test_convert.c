// SPDX-License-Identifier: MIT
// Hugging Face folders: tensors and keys against llama.cpp's converter, logits against transformers, ids against the
// tokenizers' own libraries; number formats; what is refused. tests/golden/README.md says what is in golden/hf.
#include "check.h"

#include <jansson.h>
#include <sys/stat.h>

#include "convert/convert.h"
#include "convert/hf_model.h"
#include "golden_models.h"

#define HF HEARTH_SOURCE_DIR "/tests/golden/hf/"

// ---- folders: a model's files and its tokenizer's, by links

static void link_files(const char *from, const char *to)
{
    DIR *d = opendir(from);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char source[1024], target[1024];
        snprintf(source, sizeof source, "%s/%s", from, e->d_name);
        snprintf(target, sizeof target, "%s/%s", to, e->d_name);
        if (e->d_name[0] != '.')
            assert_int_equal(symlink(source, target), 0);
    }
    closedir(d);
}

static void read_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(out, (int)size, f));
    out[strcspn(out, "\n")] = '\0';
    fclose(f);
}

static char hf_folder[300];

static void empty_hf_folder(void)
{
    DIR *d = opendir(hf_folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(hf_folder);
}

// The folder of a golden model.
static const char *make_hf(const char *name)
{
    char path[700], kind[64];
    snprintf(hf_folder, sizeof hf_folder, "%s-hf", folder);
    empty_hf_folder();
    assert_int_equal(mkdir(hf_folder, 0700), 0);
    snprintf(path, sizeof path, HF "%s", name);
    link_files(path, hf_folder);
    snprintf(path, sizeof path, HF "%s/tokenizer", name);
    read_line(path, kind, sizeof kind);
    snprintf(path, sizeof path, HF "tokenizers/%s", kind);
    link_files(path, hf_folder);
    return hf_folder;
}

static int convert(const char *name, const char *type, const char *out, struct hearth_error *err)
{
    char predictors[700];
    snprintf(predictors, sizeof predictors, HF "%s/predictors", name);
    const struct hearth_convert_params params = {.recipe = hearth_recipe_by_name(type),
                                                 .predictors = access(predictors, F_OK) ? NULL : predictors,
                                                 .n_threads = 2};
    return hearth_convert(make_hf(name), out, &params, NULL, err);
}

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
                                    "glm-lite",
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
        if (t->type != type || strcmp(has, dims) != 0 || crc32_of(data, t->bytes, 0) != crc)
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
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (!strcmp(list[i][0], name) && !strcmp(list[i][1], key))
            return true;
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
    assert_int_equal(n, 17);
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
        const bool rounds = strstr(names[i], "mxfp4");
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

// The same file comes of converting at once and of converting to F32 first.
static void test_types(void **state)
{
    (void)state;
    static const char *const types[] = {"F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K"};
    static const char *const models[] = {"llama", "opt", "mixtral"};
    for (size_t m = 0; m < 3; m++) {
        CHECK(convert(models[m], "F32", in_folder("f32.gguf"), &check_error));
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            const struct hearth_quantize_params params = {.recipe = hearth_recipe_by_name(types[i]),
                                                          .n_threads = 1};
            struct hearth_gguf *a, *b;
            CHECK(hearth_quantize(in_folder("f32.gguf"), in_folder("two.gguf"), &params, NULL, &check_error));
            CHECK(convert(models[m], types[i], in_folder("one.gguf"), &check_error));
            CHECK(hearth_gguf_open(&a, in_folder("one.gguf"), &check_error));
            CHECK(hearth_gguf_open(&b, in_folder("two.gguf"), &check_error));
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
    }
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
    static const char *const models[][2] = {
        {"llama", "llama3"},     {"qwen2", "qwen"}, {"falcon-7b", "falcon"}, {"mistral", "spm"},
        {"mixtral", "spm-json"}, {"opt", "gpt2"},   {"gemma4", "gemma4"}};
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

// ---- folders that are changed

// Replaces a text in a file of the folder.
static void change(const char *file, const char *from, const char *to)
{
    char path[700], text[65536];
    snprintf(path, sizeof path, "%s/%s", hf_folder, file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    char *at = strstr(text, from);
    if (!at)
        fail_msg("%s does not have %s", path, from);
    unlink(path); // a link
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
}

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*n);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *n, f), *n);
    fclose(f);
    return data;
}

// Gives the last bytes of a file of the folder other values.
static void change_end(const char *file, const uint8_t *bytes, size_t n)
{
    char path[700];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", hf_folder, file);
    uint8_t *all = (uint8_t *)read_all(path, &size);
    memcpy(all + size - n, bytes, n);
    unlink(path); // a link
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(all, 1, size, f), size);
    fclose(f);
    free(all);
}

static void drop(const char *file)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", hf_folder, file);
    assert_int_equal(unlink(path), 0);
}

static int convert_changed(const struct hearth_convert_params *given, struct hearth_error *err)
{
    struct hearth_convert_params params = *given;
    params.recipe = hearth_recipe_by_name("F16");
    params.n_threads = 1;
    return hearth_convert(hf_folder, in_folder("out.gguf"), &params, NULL, err);
}

#define REFUSED_CHANGE(model, file, from, to, code, words)                                                   \
    do {                                                                                                     \
        make_hf(model);                                                                                      \
        change(file, from, to);                                                                              \
        REFUSED(convert_changed(&(struct hearth_convert_params){0}, &check_error), code, words);             \
        assert_int_equal(count_files(), 0);                                                                  \
    } while (0)

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
    REFUSED_CHANGE("deepseek-v3", config, "{", "{\"quantization_config\":{\"quant_method\":\"fp8\"},",
                   HEARTH_E_UNSUPPORTED, "quantised already");
    REFUSED_CHANGE("glm-lite", config, "\"mlp_layer_types\":[\"dense\",\"sparse\"]",
                   "\"mlp_layer_types\":[\"sparse\",\"dense\"]", HEARTH_E_UNSUPPORTED, "behind others");
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

// ---- configs that leave out what transformers takes by default

static void write_config(const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/config.json", hf_folder);
    unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
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
    expect_same("qwen35",
                "{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],\"text_config\":{" QWEN35_SAID
                ",\"hidden_act\":\"silu\",\"linear_conv_kernel_dim\":4,\"rms_norm_eps\":1e-6,"
                "\"layer_types\":[\"linear_attention\",\"linear_attention\",\"full_attention\"],"
                "\"rope_parameters\":{\"partial_rotary_factor\":0.25,\"rope_theta\":1e4},"
                "\"tie_word_embeddings\":true}}",
                "{\"architectures\":[\"Qwen3_5ForConditionalGeneration\"],\"tie_word_embeddings\":true,"
                "\"text_config\":{" QWEN35_SAID ",\"full_attention_interval\":3}}");
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

static int end(void **state)
{
    empty_hf_folder();
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_cpp),      cmocka_unit_test(test_logits),
        cmocka_unit_test(test_types),          cmocka_unit_test(test_tokenizers),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_code),
        cmocka_unit_test(test_large_weights),  cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_activations),    cmocka_unit_test(test_token_types),
        cmocka_unit_test(test_added_tokens),   cmocka_unit_test(test_pretokenizers),
        cmocka_unit_test(test_silent_configs), cmocka_unit_test(test_published_configs),
        cmocka_unit_test(test_outer_configs),  cmocka_unit_test(test_templates),
    };
    return cmocka_run_group_tests(tests, make_folder, end);
}
