// SPDX-License-Identifier: MIT
// Damaged model files, end to end: truncated ones are always refused with a message that names the file;
// files with flipped bits are refused or run (weights carry no checksum), and never crash or touch memory
// that is not theirs.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/gguf.h"
#include "hearth.h"
#include "made_models.h"

struct bytes {
    uint8_t *p;
    size_t n;
};

static struct bytes read_file(const char *path)
{
    struct bytes b = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    b.n = (size_t)ftell(f);
    rewind(f);
    b.p = malloc(b.n);
    assert_non_null(b.p);
    assert_int_equal(fread(b.p, 1, b.n, f), b.n);
    fclose(f);
    return b;
}

static uint32_t random_state = 12345;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * n >> 32);
}

// Opens and runs a file of these bytes. Returns the failing code, or 0; the message must name the file or the
// fix.
static int try_bytes(const uint8_t *p, size_t n)
{
    static char path[300];
    snprintf(path, sizeof path, "%s", in_folder("damaged.gguf"));
    unlink(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);

    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_error err = {0};
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    int rc = hearth_model_open(&m, path, &params, &err);
    if (rc) {
        assert_null(m);
        assert_int_equal(err.code, rc);
        assert_non_null(strstr(err.message, path));
    } else {
        struct hearth_session_params sp = hearth_session_params_default();
        sp.n_ctx = 80;
        sp.n_ubatch = 16;
        sp.n_threads = 1;
        rc = hearth_session_open(&s, m, &sp, &err);
        int seq = rc ? -1 : hearth_seq_new(s, &err);
        const hearth_token tokens[] = {1, 5, 9};
        if (!rc)
            rc = hearth_prompt(s, seq, tokens, 3, NULL, NULL, &err);
        for (int i = 0; i < 3 && !rc; i++)
            rc = hearth_step(s, &seq, tokens, 1, &err);
        char text[64];
        hearth_token back[16];
        if (!rc) {
            hearth_token_bytes(m, 5, true, text, sizeof text);
            hearth_tokenize(m, "a b", 3, HEARTH_TOKENIZE_BOS, back, 16, NULL);
        }
        assert_true(!rc || strlen(err.message) > 10);
    }
    hearth_session_close(&s);
    hearth_model_close(&m);
    unlink(path);
    return rc;
}

// Bytes before the first tensor: from the largest file position that a truncation makes unreadable as a
// header.
static size_t header_size(const struct bytes *b)
{
    // Metadata and the tensor table of these small files end well before half of the file; the border itself
    // does not matter, flips behind it only change weights.
    return b->n / 3 < 60000 ? b->n / 3 : 60000;
}

static void damage(const char *path)
{
    struct bytes b = read_file(path);
    assert_int_equal(try_bytes(b.p, b.n), 0);

    for (int i = 0; i < 100; i++) {
        size_t n = i < 50 ? (size_t)i * header_size(&b) / 50 : random_below((uint32_t)b.n);
        assert_true(try_bytes(b.p, n) < 0);
    }

    int refused = 0;
    for (int i = 0; i < 200; i++) {
        size_t at =
            i < 150 ? random_below((uint32_t)(i < 50 ? 600 : header_size(&b))) : random_below((uint32_t)b.n);
        uint8_t bit = (uint8_t)(1u << random_below(8));
        b.p[at] ^= bit;
        refused += try_bytes(b.p, b.n) != 0;
        b.p[at] ^= bit;
    }
    printf("%s: %d of 200 bit flips refused, the others ran\n", strrchr(path, '/') + 1, refused);
    assert_true(refused > 5);

    // Several at once, and whole words set to extremes, where counts and offsets live.
    for (int i = 0; i < 60; i++) {
        uint8_t saved[8];
        size_t at = random_below((uint32_t)header_size(&b) - 8);
        memcpy(saved, b.p + at, 8);
        memset(b.p + at, i % 2 ? 0xff : 0x7f, i % 3 ? 4 : 8);
        try_bytes(b.p, b.n);
        memcpy(b.p + at, saved, 8);
    }
    free(b.p);
}

// ---- alignment

static size_t size_of_kv(const struct hearth_gguf_kv *kv)
{
    size_t n = 8 + kv->key.n + 4 + (kv->type == HEARTH_GGUF_ARRAY ? 12 : 0);
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (uint64_t i = 0; i < kv->count; i++)
        n += kv->strings ? 8 + kv->strings[i].n : sizes[kv->element];
    return n;
}

static size_t end_of_header(const char *path)
{
    struct hearth_gguf *g;
    size_t n = 24;
    assert_int_equal(hearth_gguf_open(&g, path, NULL), 0);
    for (uint64_t i = 0; i < hearth_gguf_n_kv(g); i++)
        n += size_of_kv(hearth_gguf_kv_at(g, i));
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(g); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(g, i);
        n += 8 + t->name.n + 4 + 8 * t->n_dims + 4 + 8;
    }
    hearth_gguf_close(&g);
    return n;
}

static void last_logits(const char *path, const char *cpu, float *out, int n)
{
    struct hearth_model *m;
    struct hearth_session *s;
    struct hearth_error err = {0};
    struct hearth_model_params params = hearth_model_params_default();
    params.cpu = cpu;
    params.n_threads = 1;
    assert_int_equal(hearth_model_open(&m, path, &params, &err), 0);
    assert_int_equal(hearth_model_info(m)->n_vocab, n);
    assert_int_equal(hearth_session_open(&s, m, NULL, &err), 0);
    int seq = hearth_seq_new(s, &err);
    const hearth_token tokens[] = {1, 5, 9};
    assert_int_equal(hearth_prompt(s, seq, tokens, 3, NULL, NULL, &err), 0);
    assert_int_equal(hearth_step(s, &seq, tokens, 1, &err), 0);
    memcpy(out, hearth_logits(s, 0), (size_t)n * sizeof *out);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// A file whose tensors begin at odd places, which general.alignment allows: no read of it may be unaligned.
static void test_unaligned(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-mha.F32", "llama3-rope.F16", "mistral-gqa.BF16", "drelu.Q4_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512], odd[300];
        snprintf(path, sizeof path, "%s/tests/golden/models/%s.gguf", HEARTH_SOURCE_DIR, names[i]);
        snprintf(odd, sizeof odd, "%s", in_folder("odd.gguf"));
        struct bytes b = read_file(path);
        const size_t end = end_of_header(path), data = (end + 31) / 32 * 32;
        uint8_t key[] = "\21\0\0\0\0\0\0\0general.alignment\4\0\0\0\1\0\0";
        b.p[16]++; // one key more; the last byte of `key` is its terminating zero
        FILE *f = fopen(odd, "wb");
        assert_non_null(f);
        size_t put = fwrite(b.p, 1, 24, f) + fwrite(key, 1, sizeof key, f) + fwrite(b.p + 24, 1, end - 24, f);
        assert_true(put % 4 != 0);
        put += fwrite(b.p + data, 1, b.n - data, f);
        assert_int_equal(fclose(f), 0);
        for (int c = 0; c < 2; c++) {
            float a[288], o[288];
            last_logits(path, c ? "c" : NULL, a, 288);
            last_logits(odd, c ? "c" : NULL, o, 288);
            assert_memory_equal(a, o, sizeof a);
        }
        unlink(odd);
        free(b.p);
    }
}

static void test_golden(void **state)
{
    (void)state;
    damage(HEARTH_SOURCE_DIR "/tests/golden/models/drelu.Q8_0.gguf");
    damage(HEARTH_SOURCE_DIR "/tests/golden/models/llama3-rope.F16.gguf");
}

// Experts, learned positions, fused and biased attention.
static void test_made(void **state)
{
    (void)state;
    const struct made models[] = {{.arch = "qwen3moe", .experts = true},
                                  {.arch = "llama", .experts = true, .split_experts = true, .optional = true},
                                  {.arch = "opt"},
                                  {.arch = "falcon", .optional = true}};
    char path[300];
    snprintf(path, sizeof path, "%s", in_folder("made.gguf"));
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        made_write(path, &models[i]);
        damage(path);
    }
    unlink(path);
}

static void test_stories(void **state)
{
    (void)state;
    damage(data_path("stories260K.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unaligned), cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_made), cmocka_unit_test(test_stories)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
