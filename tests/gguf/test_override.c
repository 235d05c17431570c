// SPDX-License-Identifier: MIT
// Overrides of metadata: values of each type, keys that are there and keys that are not; what does not fit is
// refused and changes nothing; models open with them.
#include "check.h"

#include "gguf/gguf.h"
#include "made_models.h"

static struct hearth_error err;

static struct hearth_gguf *open_made(void)
{
    struct hearth_gguf *g = NULL;
    const char *path = in_folder("model.gguf");
    made_write(path, &(struct made){.arch = "llama"});
    OK(hearth_gguf_open(&g, path, &err));
    return g;
}

static void test_values(void **state)
{
    (void)state;
    struct hearth_gguf *g = open_made();
    const uint64_t n = hearth_gguf_n_kv(g);
    uint32_t number = 0;
    float real = 0;
    bool flag = false;
    struct hearth_str text;
    assert_int_equal(hearth_gguf_overrides_crc(g), 0);
    OK(hearth_gguf_override(g, "llama.context_length=int:77", &err));
    OK(hearth_gguf_u32(g, "llama.context_length", true, &number, &err));
    assert_int_equal(number, 77);
    assert_int_equal(hearth_gguf_find(g, "llama.context_length")->type, HEARTH_GGUF_U32);
    OK(hearth_gguf_override(g, "llama.attention.layer_norm_rms_epsilon=float:0.25", &err));
    OK(hearth_gguf_f32(g, "llama.attention.layer_norm_rms_epsilon", true, &real, &err));
    assert_true(real == 0.25f);
    OK(hearth_gguf_override(g, "general.architecture=str:a=b:c,d", &err));
    OK(hearth_gguf_str(g, "general.architecture", true, &text, &err));
    assert_int_equal(text.n, 7);
    assert_memory_equal(text.s, "a=b:c,d", 7);
    assert_int_equal(hearth_gguf_n_kv(g), n);

    // Keys that are not there: first, last, in between; the last override of a key counts.
    OK(hearth_gguf_override(g, "zz.flag=bool:true", &err));
    OK(hearth_gguf_override(g, "a=int:-5", &err));
    OK(hearth_gguf_override(g, "llama.new=str:", &err));
    OK(hearth_gguf_override(g, "a=int:9000000000", &err));
    assert_int_equal(hearth_gguf_n_kv(g), n + 3);
    OK(hearth_gguf_bool(g, "zz.flag", true, &flag, &err));
    assert_true(flag);
    assert_int_equal(hearth_gguf_kv_i64(hearth_gguf_find(g, "a"), 0), 9000000000);
    OK(hearth_gguf_str(g, "llama.new", true, &text, &err));
    assert_int_equal(text.n, 0);
    OK(hearth_gguf_u32(g, "llama.context_length", true, &number, &err));
    assert_int_equal(number, 77);
    assert_true(hearth_gguf_overrides_crc(g) != 0);
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g); i++) { // all others are found, too
        char key[200];
        const struct hearth_gguf_kv *kv = hearth_gguf_kv_at(g, i);
        snprintf(key, sizeof key, "%.*s", (int)kv->key.n, kv->key.s);
        assert_ptr_equal(hearth_gguf_find(g, key), kv);
    }
    hearth_gguf_close(&g);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "has no key"},
        {"=int:1", "has no key"},
        {"key", "has no key"},
        {"key=1", "has no type"},
        {"key=u32:1", "has no type"},
        {"key=int:", "no integer"},
        {"key=int:1.5", "no integer"},
        {"key=int:99999999999999999999", "no integer"},
        {"llama.context_length=int:-1", "no integer that the key can hold"},
        {"llama.context_length=int:4294967296", "no integer that the key can hold"},
        {"llama.context_length=float:1", "another type"},
        {"llama.context_length=str:1", "another type"},
        {"general.architecture=int:1", "another type"},
        {"tokenizer.ggml.scores=float:1", "another type"},
        {"llama.attention.layer_norm_rms_epsilon=float:x", "no finite number"},
        {"llama.attention.layer_norm_rms_epsilon=float:nan", "no finite number"},
        {"llama.attention.layer_norm_rms_epsilon=float:1e99", "no finite number"},
        {"key=bool:1", "neither true nor false"},
    };
    struct hearth_gguf *g = open_made();
    const uint64_t n = hearth_gguf_n_kv(g);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(hearth_gguf_override(g, bad[i].text, &check_error), HEARTH_E_INVALID, bad[i].words);
    assert_int_equal(hearth_gguf_n_kv(g), n);
    assert_int_equal(hearth_gguf_overrides_crc(g), 0);
    hearth_gguf_close(&g);
}

// A model opens with them, and its saved sequences are of such a model.
static void test_models(void **state)
{
    (void)state;
    const char *overrides[] = {"llama.context_length=int:40", "llama.rope.freq_base=float:500"};
    struct hearth_model_params p = hearth_model_params_default();
    struct hearth_model *m = NULL;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("model.gguf"));
    made_write(path, &(struct made){.arch = "llama"});
    p.overrides = overrides;
    p.n_overrides = 2;
    OK(hearth_model_open(&m, path, &p, &err));
    assert_int_equal(hearth_model_info(m)->n_ctx_train, 40);
    assert_true(m->hp.rope_theta == 500.0f);
    hearth_model_close(&m);
    overrides[1] = NULL;
    REFUSED(hearth_model_open(&m, path, &p, &check_error), HEARTH_E_INVALID, "override 1 is NULL");
    overrides[1] = "llama.block_count=int:3";
    REFUSED(hearth_model_open(&m, path, &p, &check_error), HEARTH_E_FORMAT, "blk.2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_models)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
