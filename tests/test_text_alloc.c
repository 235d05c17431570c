// SPDX-License-Identifier: MIT
// Running out of memory while a vocabulary is made and used. The linker sends the library's allocations
// through the functions below (--wrap), which fail the n-th one, alone or with all after it, for every n
// until nothing fails. Leaks on the way are LeakSanitizer's business.
#include "text_support.h"

#include "gguf/gguf.h"
#include "text/stream.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static bool armed, forever;
static long countdown; // allocations that still succeed
static long failures;

static bool fails(void)
{
    if (!armed || countdown-- > 0)
        return false;
    if (countdown < -1 && !forever)
        return false;
    failures++;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(align, n);
}

static struct hearth_gguf *gguf;
static char text[20000];
static hearth_token ids[20000], expected[20000];
static int64_t n_expected;
static struct hearth_error err;

// A vocabulary, a text through it, a stream: HEARTH_OK or the code of what failed first.
static int make_and_use(void)
{
    struct hearth_vocab *v;
    struct hearth_utf8_stream *s = NULL;
    int rc = hearth_vocab_open(&v, gguf, &err);
    if (rc != HEARTH_OK) {
        assert_null(v);
        return rc;
    }
    int64_t n = hearth_vocab_tokenize(v, text, sizeof text, HEARTH_TOKENIZE_SPECIAL, ids, 20000, &err);
    rc = n < 0 ? (int)n : hearth_utf8_stream_open(&s, v, false, false, &err);
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
    if (hearth_gguf_open(&gguf, golden_path(name), &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof text; i++) // words, special tokens, and a long run
        text[i] = i < 16000 ? "the <|im_end|> ab</s> 12\n"[i % 25] : 'a';
    n_expected = 0;
    assert_int_equal(make_and_use(), HEARTH_OK);
    int n_failed = 0;
    for (int mode = 0; mode < 2; mode++) {
        for (long n = 0;; n++) {
            assert_true(n < 10000);
            err = (struct hearth_error){0};
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
                assert_int_equal(err.code, HEARTH_E_MEMORY);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bpe), cmocka_unit_test(test_spm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
