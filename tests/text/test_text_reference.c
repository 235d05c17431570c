// SPDX-License-Identifier: MIT
// Tokenizers of published models against the ids their own tokenizers give. Needs outside data
// ($HEARTH_TEST_DATA): vocabularies, and files of test texts with their ids. tests/golden/text covers the
// same code without it.
#include "text_support.h"

#include <ctype.h>
#include <jansson.h>

#include "gguf/gguf.h"
#include "text/bytes.h"
#include "text/table.h"
#include "text/unicode.h"

#define SEPARATOR "\n__ggml_vocab_test__\n"

// Every case of NAME.inp (each text ends with a separator) against NAME.out (a line of ids each, no BOS).
static void check_pairs(const struct hearth_vocab *v, const char *name)
{
    char path[256];
    size_t inp_n, out_n;
    snprintf(path, sizeof path, "tokenizers/ggml-vocab-%s.gguf.inp", name);
    char *inp = read_file(data_path(path), &inp_n);
    snprintf(path, sizeof path, "tokenizers/ggml-vocab-%s.gguf.out", name);
    char *out = read_file(data_path(path), &out_n);
    assert_non_null(inp);
    assert_non_null(out);
    const char *text = inp, *line = out;
    int cases = 0, bad = 0;
    for (const char *end; (end = strstr(text, SEPARATOR)); text = end + strlen(SEPARATOR)) {
        size_t n = (size_t)(end - text);
        hearth_token want[1024];
        int64_t count = 0;
        const char *eol = strchr(line, '\n');
        assert_non_null(eol);
        for (const char *p = line; p < eol;) {
            while (p < eol && isspace((unsigned char)*p))
                p++;
            if (p == eol)
                break;
            char *next;
            assert_true(count < 1024);
            want[count++] = (hearth_token)strtol(p, &next, 10);
            p = next;
        }
        struct ids got = tokenize(v, text, n, 0);
        char *shown = strndup(text, n);
        bad += !same_ids(got, want, count, shown);
        free(shown);
        free(got.v);
        cases++;
        line = eol + 1;
    }
    assert_int_equal(text - inp, inp_n); // every text ends with a separator,
    assert_int_equal(line - out, out_n); // and has a line of ids
    assert_true(cases > 40);
    assert_int_equal(bad, 0);
    free(inp);
    free(out);
}

static void check_gguf(const char *name)
{
    char relative[256];
    snprintf(relative, sizeof relative, "tokenizers/ggml-vocab-%s.gguf", name);
    struct hearth_error err = {0};
    struct hearth_gguf *g = NULL;
    struct hearth_vocab *v = NULL;
    if (hearth_gguf_open(&g, data_path(relative), &err) != HEARTH_OK ||
        hearth_vocab_open(&v, g, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    check_pairs(v, name);
    hearth_vocab_close(&v);
    hearth_gguf_close(&g);
}

static void test_llama_spm(void **state)
{
    (void)state;
    check_gguf("llama-spm");
}

static void test_gpt2(void **state)
{
    (void)state;
    check_gguf("gpt-2");
}

static void test_falcon(void **state)
{
    (void)state;
    check_gguf("falcon");
}

static void test_deepseek_coder(void **state)
{
    (void)state;
    check_gguf("deepseek-coder");
}

// ---- Llama 3: tokens and merges from its JSON and BPE files

static void test_llama_bpe(void **state)
{
    (void)state;
    json_error_t error;
    json_t *encoder = json_load_file(data_path("tokenizers/llama3.2_encoder.json"), 0, &error);
    assert_non_null(encoder);
    size_t n;
    char *bpe = read_file(data_path("tokenizers/llama3.2_vocab.bpe"), &n);
    assert_non_null(bpe);

    struct hearth_vocab_spec spec = {
        .model = "gpt2", .pre = "llama-bpe", .bos = -1, .eos = -1, .eot = -1, .unk = -1, .pad = -1};
    spec.n_tokens = (uint32_t)json_object_size(encoder);
    struct hearth_str *tokens = calloc(spec.n_tokens, sizeof *tokens);
    const char *key;
    json_t *value;
    json_object_foreach(encoder, key, value)
    {
        json_int_t id = json_integer_value(value);
        assert_true(id >= 0 && id < spec.n_tokens);
        tokens[id] = str(key);
    }
    struct hearth_str *merges = calloc(n, sizeof *merges);
    for (char *line = bpe; *line;) {
        char *eol = line + strcspn(line, "\n");
        if (*line != '#' || memchr(line, ' ', (size_t)(eol - line)) != line + 9) // "#version: 0.2"
            merges[spec.n_merges++] = (struct hearth_str){line, (size_t)(eol - line)};
        line = *eol ? eol + 1 : eol;
    }
    spec.tokens = tokens;
    spec.merges = merges;
    struct hearth_error err = {0};
    struct hearth_vocab *v;
    if (hearth_vocab_create(&v, &spec, "llama-bpe", &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    check_pairs(v, "llama-bpe");
    hearth_vocab_close(&v);
    free(tokens);
    free(merges);
    free(bpe);
    json_decref(encoder);
}

// ---- Qwen 2: a list of byte strings by rank, from which merges follow

static size_t base64_decode(const char *s, size_t n, char *out)
{
    size_t written = 0;
    uint32_t bits = 0;
    int n_bits = 0;
    for (size_t i = 0; i < n && s[i] != '='; i++) {
        const char *alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *at = strchr(alphabet, s[i]);
        assert_non_null(at);
        bits = bits << 6 | (uint32_t)(at - alphabet);
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[written++] = (char)(bits >> n_bits & 0xFF);
        }
    }
    return written;
}

static size_t to_alphabet(struct hearth_str s, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += hearth_utf8_encode(hearth_byte_to_char((uint8_t)s.s[i]), out + n);
    return n;
}

// The two parts that merged last into token `rank`: BPE over its bytes with better-ranked tokens only.
static size_t last_merge(const struct hearth_strtab *t, struct hearth_str s, int32_t rank)
{
    size_t ends[512], n = 0;
    assert_true(s.n < 512);
    for (size_t i = 1; i <= s.n; i++)
        ends[n++] = i;
    while (n > 2) {
        size_t best = n;
        int32_t best_rank = rank;
        for (size_t i = 0; i + 1 < n; i++) {
            size_t start = i ? ends[i - 1] : 0;
            int32_t r = hearth_strtab_find(t, s.s + start, ends[i + 1] - start);
            if (r >= 0 && r < best_rank) {
                best_rank = r;
                best = i;
            }
        }
        assert_true(best < n);
        memmove(&ends[best], &ends[best + 1], (n - best - 1) * sizeof *ends);
        n--;
    }
    assert_int_equal(n, 2);
    return ends[0];
}

static void test_qwen2(void **state)
{
    (void)state;
    size_t n;
    char *file = read_file(data_path("tokenizers/qwen.tiktoken"), &n);
    assert_non_null(file);
    char *bytes = malloc(n), *b = bytes;
    struct hearth_str *raw = calloc(n / 4, sizeof *raw), *tokens = calloc(n / 4, sizeof *raw),
                      *merges = calloc(n / 4, sizeof *raw);
    struct hearth_vocab_spec spec = {
        .model = "gpt2", .pre = "qwen2", .bos = -1, .eos = -1, .eot = -1, .unk = -1, .pad = -1};
    for (char *line = file; *line;) {
        char *space = strchr(line, ' '), *eol = line + strcspn(line, "\n");
        assert_true(space && space < eol);
        assert_int_equal(strtol(space, NULL, 10), spec.n_tokens);
        size_t length = base64_decode(line, (size_t)(space - line), b);
        raw[spec.n_tokens++] = (struct hearth_str){b, length};
        b += length;
        line = *eol ? eol + 1 : eol;
    }
    struct hearth_strtab table = {.keys = raw};
    for (uint32_t i = 0; i < spec.n_tokens; i++)
        assert_true(hearth_strtab_insert(&table, (int32_t)i));
    char *encoded = malloc(n * 6), *e = encoded;
    for (uint32_t i = 0; i < spec.n_tokens; i++) {
        tokens[i] = (struct hearth_str){e, to_alphabet(raw[i], e)};
        e += tokens[i].n;
        if (raw[i].n < 2)
            continue;
        size_t left = last_merge(&table, raw[i], (int32_t)i);
        char *start = e;
        e += to_alphabet((struct hearth_str){raw[i].s, left}, e);
        *e++ = ' ';
        e += to_alphabet((struct hearth_str){raw[i].s + left, raw[i].n - left}, e);
        merges[spec.n_merges++] = (struct hearth_str){start, (size_t)(e - start)};
    }
    spec.tokens = tokens;
    spec.merges = merges;
    struct hearth_error err = {0};
    struct hearth_vocab *v;
    if (hearth_vocab_create(&v, &spec, "qwen2", &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    check_pairs(v, "qwen2");
    hearth_vocab_close(&v);
    hearth_strtab_free(&table);
    free(encoded);
    free(bytes);
    free(raw);
    free(tokens);
    free(merges);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_spm), cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_falcon),    cmocka_unit_test(test_deepseek_coder),
        cmocka_unit_test(test_llama_bpe), cmocka_unit_test(test_qwen2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
