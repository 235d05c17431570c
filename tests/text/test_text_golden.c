// SPDX-License-Identifier: MIT
// Tokenizing against tests/golden/text: ids that Hugging Face's tokenizers and SentencePiece give to awkward
// texts, for every kind of pre-tokenizer (tools/oracle/make_text_goldens.py).
#include "text_support.h"

#include <jansson.h>

#include "gguf/gguf.h"

// A vocabulary of the golden folder, and its parts for making others with the same tokens.
struct golden {
    struct hearth_gguf *gguf;
    struct hearth_vocab *vocab;
    json_t *cases;
};

static void golden_open(struct golden *g, const char *name)
{
    struct hearth_error err = {0};
    json_error_t error;
    char file[64];
    snprintf(file, sizeof file, "%s.gguf", name);
    if (hearth_gguf_open(&g->gguf, golden_path(file), &err) != HEARTH_OK ||
        hearth_vocab_open(&g->vocab, g->gguf, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    snprintf(file, sizeof file, "%s.json", name);
    g->cases = json_load_file(golden_path(file), JSON_ALLOW_NUL, &error);
    if (!g->cases)
        fail_msg("%s:%d: %s", file, error.line, error.text);
}

static void golden_close(struct golden *g)
{
    json_decref(g->cases);
    hearth_vocab_close(&g->vocab);
    hearth_gguf_close(&g->gguf);
}

// All texts against the ids listed under `key`; returns how many there were.
static size_t check(const struct hearth_vocab *v, const json_t *cases, const char *key)
{
    const json_t *texts = json_object_get(cases, "texts");
    const json_t *rows = json_object_get(json_object_get(cases, "ids"), key);
    size_t n = json_array_size(texts), bad = 0;
    assert_int_equal(json_array_size(rows), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(texts, i), *row = json_array_get(rows, i);
        hearth_token want[1024];
        size_t count = json_array_size(row);
        assert_true(count <= 1024);
        for (size_t k = 0; k < count; k++)
            want[k] = (hearth_token)json_integer_value(json_array_get(row, k));
        struct ids got = tokenize(v, json_string_value(text), json_string_length(text), 0);
        bad += !same_ids(got, want, (int64_t)count, json_string_value(text));
        free(got.v);
    }
    if (bad)
        fail_msg("%s: %zu of %zu texts differ", key, bad, n);
    return n;
}

static void test_bpe(void **state)
{
    (void)state;
    struct golden g;
    golden_open(&g, "bpe");
    assert_string_equal(hearth_vocab_model(g.vocab), "gpt2");
    assert_string_equal(hearth_vocab_pre(g.vocab), "gpt-2");
    const struct hearth_gguf_kv *tokens = hearth_gguf_find(g.gguf, "tokenizer.ggml.tokens");
    const struct hearth_gguf_kv *merges = hearth_gguf_find(g.gguf, "tokenizer.ggml.merges");
    const char *pre;
    json_t *rows;
    size_t pres = 0;
    json_object_foreach(json_object_get(g.cases, "ids"), pre, rows)
    {
        struct hearth_vocab_spec spec = {.model = "gpt2",
                                         .pre = pre,
                                         .n_tokens = (uint32_t)tokens->count,
                                         .tokens = tokens->strings,
                                         .n_merges = (uint32_t)merges->count,
                                         .merges = merges->strings,
                                         .bos = -1,
                                         .eos = -1,
                                         .eot = -1,
                                         .unk = -1,
                                         .pad = -1};
        struct hearth_error err = {0};
        struct hearth_vocab *v;
        if (hearth_vocab_create(&v, &spec, "golden", &err) != HEARTH_OK)
            fail_msg("%s", err.message);
        assert_true(check(v, g.cases, pre) > 50);
        hearth_vocab_close(&v);
        pres++;
    }
    assert_true(pres > 20);
    check(g.vocab, g.cases, "gpt-2");
    golden_close(&g);
}

static void test_spm(void **state)
{
    (void)state;
    struct golden g;
    golden_open(&g, "spm");
    assert_string_equal(hearth_vocab_model(g.vocab), "llama");
    assert_true(check(g.vocab, g.cases, "spm") > 70);
    golden_close(&g);
}

static void test_spm_plain(void **state)
{
    (void)state;
    struct golden g;
    golden_open(&g, "spm-plain");
    assert_true(check(g.vocab, g.cases, "spm-plain") > 70);
    golden_close(&g);
}

// A list of merges in place of scores; BOS is added, although the file says no.
static void test_merges(void **state)
{
    (void)state;
    struct golden g;
    golden_open(&g, "merges");
    assert_string_equal(hearth_vocab_model(g.vocab), "gemma4");
    assert_true(check(g.vocab, g.cases, "merges") > 80);
    struct ids ids = tokenize(g.vocab, "<|turn>a<turn|>", 15, HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL);
    assert_int_equal(ids.n, 4);
    assert_int_equal(ids.v[0], hearth_vocab_bos(g.vocab));
    assert_true(hearth_vocab_is_eog(g.vocab, ids.v[3]) && hearth_vocab_eot(g.vocab) == ids.v[3]);
    free(ids.v);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe),
        cmocka_unit_test(test_spm),
        cmocka_unit_test(test_spm_plain),
        cmocka_unit_test(test_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
