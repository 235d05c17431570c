// SPDX-License-Identifier: MIT
// What a file says of itself, through hearth.h: keys, values as text, special tokens, the chat template.
#include "check.h"

#include "gguf/gguf.h"

static struct hearth_error err;

// A vocabulary of seven tokens, with values of all types beside it.
struct file {
    const char *tokens[7];
    const char *chat_template;
    int eot; // -1: not named
};

static const struct file usual = {
    {"<unk>", "<s>", "</s>", "a", "b", "<|im_end|>", "<turn>"}, "{{ messages }}\n", -1};

static void put_values(struct hearth_gguf_writer *w)
{
    static const int8_t small[] = {-128, 0, 127};
    static const uint64_t large[] = {UINT64_MAX, 0};
    static const double exact[] = {0.1, -1e300};
    static const struct hearth_str texts[] = {{"one", 3}, {"", 0}, {"a\0b", 3}};
    OK(hearth_gguf_put_u32(w, "x.number", 4000000000u, &err));
    OK(hearth_gguf_put_f32(w, "x.float", 0.1f, &err));
    OK(hearth_gguf_put_bool(w, "x.bool", true, &err));
    OK(hearth_gguf_put_array(w, "x.small", HEARTH_GGUF_I8, small, 3, &err));
    OK(hearth_gguf_put_array(w, "x.large", HEARTH_GGUF_U64, large, 2, &err));
    OK(hearth_gguf_put_array(w, "x.exact", HEARTH_GGUF_F64, exact, 2, &err));
    OK(hearth_gguf_put_strings(w, "x.texts", texts, 3, &err));
    OK(hearth_gguf_put_strings(w, "x.nothing", NULL, 0, &err));
    static const int32_t never[] = {6, -1, 3, 7};
    OK(hearth_gguf_put_array(w, "tokenizer.ggml.suppress_tokens", HEARTH_GGUF_I32, never, 4, &err));
}

static struct hearth_model *open_file(const struct file *f)
{
    const char *path = in_folder("vocabulary.gguf");
    struct hearth_gguf_writer *w = NULL;
    struct hearth_str tokens[7];
    static const int32_t types[] = {2, 3, 3, 1, 1, 3, 1};
    static const float scores[] = {0, 0, 0, -1, -2, 0, -3};
    for (int i = 0; i < 7; i++)
        tokens[i] = (struct hearth_str){f->tokens[i], strlen(f->tokens[i])};
    OK(hearth_gguf_writer_open(&w, path, &err));
    OK(hearth_gguf_put_str(w, "general.architecture", "llama", 5, &err));
    OK(hearth_gguf_put_str(w, "tokenizer.ggml.model", "llama", 5, &err));
    OK(hearth_gguf_put_strings(w, "tokenizer.ggml.tokens", tokens, 7, &err));
    OK(hearth_gguf_put_array(w, "tokenizer.ggml.scores", HEARTH_GGUF_F32, scores, 7, &err));
    OK(hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_I32, types, 7, &err));
    if (f->eot >= 0)
        OK(hearth_gguf_put_u32(w, "tokenizer.ggml.eot_token_id", (uint32_t)f->eot, &err));
    if (f->chat_template)
        OK(hearth_gguf_put_str(w, "tokenizer.chat_template", f->chat_template, strlen(f->chat_template),
                               &err));
    put_values(w);
    OK(hearth_gguf_finish(&w, &err));
    struct hearth_model *m = NULL;
    struct hearth_model_params p = hearth_model_params_default();
    p.vocab_only = true;
    OK(hearth_model_open(&m, path, &p, &err));
    return m;
}

static void expect(const struct hearth_model *m, const char *key, int64_t i, const char *want)
{
    char text[100];
    const int64_t n = hearth_model_meta_text(m, key, i, text, sizeof text);
    if (n != (int64_t)strlen(want) || strcmp(text, want) != 0)
        fail_msg("%s [%d] is \"%s\" in place of \"%s\"", key, (int)i, text, want);
}

static void test_values(void **state)
{
    (void)state;
    struct hearth_model *m = open_file(&usual);
    expect(m, "general.architecture", 0, "llama");
    expect(m, "x.number", 0, "4000000000");
    expect(m, "x.float", 0, "0.100000001");
    expect(m, "x.bool", 0, "true");
    expect(m, "x.small", 0, "-128");
    expect(m, "x.small", 2, "127");
    expect(m, "x.large", 0, "18446744073709551615");
    expect(m, "x.exact", 0, "0.10000000000000001");
    expect(m, "x.exact", 1, "-1.0000000000000001e+300");
    expect(m, "x.texts", 1, "");
    expect(m, "tokenizer.ggml.tokens", 5, "<|im_end|>");
    assert_int_equal(hearth_model_meta_length(m, "x.number"), 1);
    assert_int_equal(hearth_model_meta_length(m, "x.small"), 3);
    assert_int_equal(hearth_model_meta_length(m, "x.nothing"), 0);
    assert_int_equal(hearth_model_meta_length(m, "x.absent"), -1);
    static const struct {
        const char *key;
        int64_t i;
    } absent[] = {
        {"x.absent", 0}, {"x.nothing", 0}, {"x.number", 1}, {"x.small", -1}, {"x.texts", INT64_MAX}};
    for (size_t k = 0; k < sizeof absent / sizeof *absent; k++)
        assert_int_equal(hearth_model_meta_text(m, absent[k].key, absent[k].i, NULL, 0), -1);
    hearth_model_close(&m);
}

// Texts longer than their room, and with zeros in them.
static void test_room(void **state)
{
    (void)state;
    struct hearth_model *m = open_file(&usual);
    char text[4] = "zzz";
    assert_int_equal(hearth_model_meta_text(m, "x.number", 0, NULL, 0), 10);
    assert_int_equal(hearth_model_meta_text(m, "x.number", 0, text, 1), 10);
    assert_memory_equal(text, "\0zz", 4);
    assert_int_equal(hearth_model_meta_text(m, "x.number", 0, text, 4), 10);
    assert_string_equal(text, "400");
    assert_int_equal(hearth_model_meta_text(m, "x.texts", 2, text, 4), 3);
    assert_memory_equal(text, "a\0b", 4);
    hearth_model_close(&m);
}

static void test_keys(void **state)
{
    (void)state;
    struct hearth_model *m = open_file(&usual);
    char key[40];
    assert_int_equal(hearth_model_meta_count(m), 15);
    for (int64_t i = 0; i < 15; i++) {
        assert_in_range(hearth_model_meta_key(m, i, key, sizeof key), 6, sizeof key - 1);
        assert_true(hearth_model_meta_length(m, key) >= 0);
    }
    assert_string_equal(key, "tokenizer.ggml.suppress_tokens");
    assert_int_equal(hearth_model_meta_key(m, 0, key, 8), strlen("general.architecture"));
    assert_string_equal(key, "general");
    assert_int_equal(hearth_model_meta_key(m, 15, key, sizeof key), -1);
    assert_int_equal(hearth_model_meta_key(m, -1, key, sizeof key), -1);
    hearth_model_close(&m);
}

static void test_special(void **state)
{
    (void)state;
    struct hearth_model *m = open_file(&usual);
    assert_int_equal(hearth_token_bos(m), 1);
    assert_int_equal(hearth_token_eos(m), 2);
    assert_int_equal(hearth_token_eot(m), 5); // by name
    assert_string_equal(hearth_model_chat_template(m), "{{ messages }}\n");
    for (hearth_token t = -1; t < 9; t++)
        assert_int_equal(hearth_token_is_suppressed(m, t), t == 3 || t == 6);
    hearth_model_close(&m);

    struct file other = usual;
    other.eot = 6;
    other.chat_template = NULL;
    m = open_file(&other);
    assert_int_equal(hearth_token_eot(m), 6);
    assert_true(hearth_token_is_eog(m, 6));
    assert_null(hearth_model_chat_template(m));
    hearth_model_close(&m);

    other = usual;
    other.tokens[5] = "c";
    m = open_file(&other);
    assert_int_equal(hearth_token_eot(m), -1);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_special),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
