// SPDX-License-Identifier: MIT
// Hugging Face folders: tensors and keys against llama.cpp's converter, logits against transformers, ids against the
// tokenizers' own libraries; number formats; what is refused. tests/golden/README.md says what is in golden/hf.
#include "check.h"

#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#include "convert/convert.h"
#include "golden_models.h"
#include "model/pack.h"

#define HF HEARTH_SOURCE_DIR "/tests/golden/hf/"

// ---- folders: a model's files and its tokenizer's, by links

static void link_files(const char *from, const char *to)
{
    DIR *d = opendir(from);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char source[512], target[512];
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
    char path[512], kind[64];
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
    char predictors[512];
    snprintf(predictors, sizeof predictors, HF "%s/predictors", name);
    const struct hearth_convert_params params = {.recipe = hearth_recipe_by_name(type),
                                                 .predictors = access(predictors, F_OK) ? NULL : predictors,
                                                 .n_threads = 2};
    return hearth_convert(make_hf(name), out, &params, NULL, err);
}

static const char *const names[] = {"llama",     "llama-biases", "mistral", "mixtral",   "qwen2",  "qwen3",
                                    "qwen3moe",  "falcon-7b",    "opt",     "falcon-40b", "bamboo", "relullama",
                                    "turbosparse-mixtral"};
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
    char path[512], tensor[128], dims[64];
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
            fail_msg("%s: tensor %s is type %u, %s, where llama.cpp's is type %u, %s, or has other bytes", name,
                     tensor, t->type, has, type, dims);
        free(data);
    }
    fclose(f);
    if (n != hearth_gguf_n_tensors(g))
        fail_msg("%s: %llu tensors, llama.cpp writes %llu", name, (unsigned long long)hearth_gguf_n_tensors(g),
                 (unsigned long long)n);
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
        {"llama-biases", "tokenizer.ggml.scores"},    // llama.cpp gives all tokens one score
        {"mixtral", "tokenizer.ggml.scores"},         // the same
        {"llama-biases", "tokenizer.ggml.token_type"}, // <unk> is unknown, not control
        {"mixtral", "tokenizer.ggml.token_type"},
        {"falcon-7b", "falcon.context_length"}, // llama.cpp writes 2048 whatever config.json says
        {"falcon-40b", "falcon.context_length"},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (!strcmp(list[i][0], name) && !strcmp(list[i][1], key))
            return true;
    return !strcmp(key, "tokenizer.ggml.add_sep_token"); // of models that embed texts
}

static void check_keys(const struct hearth_gguf *g, const char *name)
{
    char path[512], key[128];
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
            fail_msg("%s: key %s is type %u with %llu elements, where llama.cpp's is type %u with %llu, or has another "
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
        char path[512];
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
    assert_int_equal(n, 9);
}

// ---- transformers

static void read_golden(struct golden *g, const char *name)
{
    char relative[128];
    snprintf(relative, sizeof relative, "../hf/%s/", name);
    // golden_read() looks for NAME.logits among the models.
    char path[512], link[512];
    snprintf(path, sizeof path, HF "%s/logits", name);
    snprintf(link, sizeof link, "%s/golden.logits", folder);
    unlink(link);
    assert_int_equal(symlink(path, link), 0);
    char name_from_models[600];
    snprintf(name_from_models, sizeof name_from_models, "../../../../../../../../../../..%s/golden", folder);
    assert_true(golden_read(g, name_from_models));
}

// Evaluates the ids as steps or as a prompt, and returns the distance from `want`.
static double distance(const char *path, const struct golden *g, const float *want, enum hearth_sparsity sparsity,
                       bool steps)
{
    struct hearth_model_params mp = hearth_model_params_default();
    struct hearth_model *model;
    struct hearth_session *session;
    CHECK(hearth_model_open(&model, path, &mp, &check_error));
    struct hearth_session_params sp = hearth_session_params_default();
    sp.n_ctx = 32;
    sp.n_threads = 2;
    sp.sparsity = sparsity;
    sp.type_k = sp.type_v = HEARTH_KV_F32;
    CHECK(hearth_session_open(&session, model, &sp, &check_error));
    float *got = malloc((size_t)g->n_tokens * g->n_vocab * sizeof *got);
    assert_non_null(got);
    hearth_seq seq;
    CHECK(seq = hearth_seq_open(session, &check_error));
    for (uint32_t i = 0; i < g->n_tokens; i++) {
        if (steps)
            CHECK(hearth_step(session, &seq, &g->ids[i], 1, got + (size_t)i * g->n_vocab, &check_error));
        else
            CHECK(hearth_prompt(session, seq, &g->ids[i], 1, got + (size_t)i * g->n_vocab, &check_error));
    }
    const double d = relative_l2(got, want, (size_t)g->n_tokens * g->n_vocab);
    free(got);
    hearth_session_close(&session);
    hearth_model_close(&model);
    return d;
}
