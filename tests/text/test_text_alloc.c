// SPDX-License-Identifier: MIT
// Running out of memory while a vocabulary is made and used, and while a chat template is.
#include "failing_alloc.h"
#include "text_support.h"

#include "gguf/gguf.h"
#include "text/stream.h"

static struct hearth_gguf *gguf;
static char text[20000];
static hearth_token ids[20000], expected[20000];
static int64_t n_expected;

// A vocabulary, a text through it, a stream: HEARTH_OK or the code of what failed first.
static int make_and_use(void)
{
    struct hearth_vocab *v;
    struct hearth_utf8_stream *s = NULL;
    int rc = hearth_vocab_open(&v, gguf, &alloc_error);
    if (rc != HEARTH_OK) {
        assert_null(v);
        return rc;
    }
    int64_t n =
        hearth_vocab_tokenize(v, text, sizeof text, HEARTH_TOKENIZE_SPECIAL, ids, 20000, &alloc_error);
    rc = n < 0 ? (int)n : hearth_utf8_stream_open(&s, v, false, false, &alloc_error);
    // An allocation that may fail (the cache of words) must not change the tokens.
    if (n >= 0 && n_expected) {
        assert_int_equal(n, n_expected);
        assert_memory_equal(ids, expected, (size_t)n * sizeof *ids);
    }
    if (n >= 0 && !n_expected) {
        n_expected = n;
        memcpy(expected, ids, (size_t)n * sizeof *ids);
    }
    hearth_utf8_stream_close(&s);
    hearth_vocab_close(&v);
    return rc;
}

static void exhaust(const char *name)
{
    if (hearth_gguf_open(&gguf, golden_path(name), &alloc_error) != HEARTH_OK)
        fail_msg("%s", alloc_error.message);
    for (size_t i = 0; i < sizeof text; i++) // words, special tokens, and a long run
        text[i] = i < 16000 ? "the <|im_end|> ab</s> 12\n"[i % 25] : 'a';
    n_expected = 0;
    assert_int_equal(make_and_use(), HEARTH_OK);
    int n_failed = 0;
    for (int mode = 0; mode < 2; mode++) {
        for (long n = 0;; n++) {
            assert_true(n < 10000);
            alloc_error = (struct hearth_error){0};
            failures = 0;
            countdown = n;
            forever = mode == 1;
            armed = true;
            int rc = make_and_use();
            armed = false;
            if (failures == 0)
                break;
            if (rc != HEARTH_OK) {
                assert_int_equal(rc, HEARTH_E_MEMORY);
                assert_int_equal(alloc_error.code, HEARTH_E_MEMORY);
                n_failed++;
            }
        }
    }
    assert_true(n_failed > 20);
    hearth_gguf_close(&gguf);
}

static void test_bpe(void **state)
{
    (void)state;
    exhaust("bpe.gguf");
}

static void test_spm(void **state)
{
    (void)state;
    exhaust("spm.gguf");
}

// What a template makes of a message with parts, which it does not know: the same, or no memory.
static int render(void)
{
    struct hearth_chat_template *t;
    struct hearth_chat_text *out = NULL;
    struct hearth_chat_params params = hearth_chat_params_default();
    params.messages = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"some\"}]}]";
    int rc = hearth_chat_template_open(&t, NULL, "{{ messages[0].content + '!' }}{{ 'ab' * 20000 }}",
                                       &alloc_error);
    if (!rc)
        rc = hearth_chat_render(&out, t, &params, &alloc_error);
    if (!rc) {
        size_t n;
        assert_memory_equal(hearth_chat_text_bytes(out, &n), "some!abab", 9);
        assert_int_equal(n, 40005);
    }
    hearth_chat_text_close(&out);
    hearth_chat_template_close(&t);
    return rc;
}

static void test_chat(void **state)
{
    (void)state;
    for (long n = 0; n < 10000; n++) {
        alloc_error = (struct hearth_error){0};
        failures = 0;
        countdown = n;
        forever = false;
        armed = true;
        const int rc = render();
        armed = false;
        assert_int_equal(rc, failures ? HEARTH_E_MEMORY : HEARTH_OK);
        if (!failures) {
            assert_true(n > 10);
            return;
        }
        assert_true(alloc_error.message[0]);
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bpe), cmocka_unit_test(test_spm),
                                       cmocka_unit_test(test_chat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
