// SPDX-License-Identifier: MIT
// Text: UTF-8, the byte alphabet, special tokens, ends of a generation, streaming, and vocabularies from
// files.
#include "text_support.h"

#include <unistd.h>

#include "gguf/gguf.h"
#include "text/bytes.h"
#include "text/stream.h"
#include "text/unicode.h"
#include "text/vocab_impl.h"

// ---- UTF-8 and bytes

static void test_utf8_all_characters(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x110000; c++) {
        char s[4];
        uint32_t back;
        size_t n = hearth_utf8_encode(c, s);
        if ((c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        assert_int_equal(hearth_utf8_decode(s, n, &back), n);
        assert_int_equal(back, c);
        assert_int_equal(hearth_utf8_span(s, n), n);
        assert_int_equal(hearth_utf8_pending(s, n), 0);
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(hearth_utf8_decode(s, cut, NULL), 0);
            assert_int_equal(hearth_utf8_span(s, cut), 0);
            assert_int_equal(hearth_utf8_pending(s, cut), cut);
        }
    }
}

static void test_utf8_ill_formed(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",
        "\xBF",
        "\xC0\x80",
        "\xC1\xBF",
        "\xC3(",
        "\xE0\x80\x80",
        "\xE0\x9F\xBF",
        "\xED\xA0\x80",
        "\xED\xBF\xBF",
        "\xE2\x82(",
        "\xE2(\xA1",
        "\xF0\x80\x80\x80",
        "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80",
        "\xF8\x88\x80\x80",
        "\xFE",
        "\xFF",
        "\xF0\x9F\x98(",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(hearth_utf8_decode(bad[i], strlen(bad[i]), NULL), 0);
    assert_int_equal(hearth_utf8_decode("", 0, NULL), 0);
    assert_int_equal(hearth_utf8_span("eight by\xC3\xA9\xFFte", 13), 10);
    // What can never become a character does not wait.
    assert_int_equal(hearth_utf8_pending("\xED\xA0", 2), 0);
    assert_int_equal(hearth_utf8_pending("\xF4\x90", 2), 0);
    assert_int_equal(hearth_utf8_pending("a\xF0\x9F\x98", 4), 3);
    assert_int_equal(hearth_utf8_pending("\x80\x80\x80\x80", 4), 0);
    assert_int_equal(hearth_utf8_pending("\xC3\xA9\xA9", 3), 0);
}

static void test_byte_alphabet(void **state)
{
    (void)state;
    bool seen[0x144] = {0};
    for (int b = 0; b < 256; b++) {
        uint32_t c = hearth_byte_to_char((uint8_t)b);
        assert_true(c >= 0x21 && c <= 0x143 && !seen[c]);
        seen[c] = true;
        char s[4], back[4];
        size_t n = hearth_utf8_encode(c, s);
        assert_int_equal(hearth_bytes_decode(s, n, back), 1);
        assert_int_equal((uint8_t)back[0], b);
    }
    // Spot values from the GPT-2 release.
    assert_int_equal(hearth_byte_to_char(' '), 0x120);
    assert_int_equal(hearth_byte_to_char('\n'), 0x10A);
    assert_int_equal(hearth_byte_to_char(0x7F), 0x121);
    assert_int_equal(hearth_byte_to_char(0xA0), 0x142);
    assert_int_equal(hearth_byte_to_char(0xAD), 0x143);
    assert_int_equal(hearth_byte_to_char('a'), 'a');
    char out[8];
    assert_int_equal(hearth_bytes_decode("a b", 3, out), -1);
    assert_int_equal(hearth_bytes_decode("\xE2\x96\x81", 3, out), -1);
    assert_int_equal(hearth_bytes_decode("\xC4", 1, out), -1);
}

// ---- small vocabularies

struct token {
    const char *text;
    int32_t type;
    float score;
};

static struct hearth_vocab_spec spec_of(const char *model, const char *pre, const struct token *t, uint32_t n)
{
    static struct hearth_str texts[1024];
    static float scores[1024];
    static int32_t types[1024];
    for (uint32_t i = 0; i < n; i++) {
        texts[i] = str(t[i].text);
        types[i] = t[i].type;
        scores[i] = t[i].score;
    }
    return (struct hearth_vocab_spec){.model = model,
                                      .pre = pre,
                                      .n_tokens = n,
                                      .tokens = texts,
                                      .scores = scores,
                                      .types = types,
                                      .bos = -1,
                                      .eos = -1,
                                      .eot = -1,
                                      .unk = -1,
                                      .pad = -1};
}

static struct hearth_vocab *create(const struct hearth_vocab_spec *spec)
{
    struct hearth_error err = {0};
    struct hearth_vocab *v;
    if (hearth_vocab_create(&v, spec, "test", &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return v;
}

#define N(a) ((uint32_t)(sizeof(a) / sizeof *(a)))

static void expect(const struct hearth_vocab *v, const char *text, int flags, const char *want)
{
    struct ids got = tokenize(v, text, strlen(text), flags);
    char line[1024] = "";
    size_t n = 0;
    for (int64_t i = 0; i < got.n; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, "%s%d", i ? " " : "", got.v[i]);
    free(got.v);
    assert_string_equal(line, want);
}

static const struct token spm_tokens[] = {
    {"<unk>", 2, 0},
    {"<s>", 3, 0},
    {"</s>", 3, 0},
    {"\xE2\x96\x81", 1, -9},
    {"a", 1, -10},
    {"b", 1, -11},
    {"ab", 1, -1},
    {"\xE2\x96\x81"
     "ab",
     1, -2},
    {"<", 1, -20},
    {"s", 1, -21},
    {">", 1, -22},
    {"<s", 1, -3},
    {"<tool>", 4, 0},
    {"<0x61>", 6, 0},
    {"<0xC3>", 6, 0},
    {"<0xA9>", 6, 0},
    {"ba", 1, -1},
};

static struct hearth_vocab *spm_vocab(void)
{
    struct hearth_vocab_spec spec = spec_of("llama", NULL, spm_tokens, N(spm_tokens));
    spec.bos = 1;
    spec.eos = 2;
    spec.unk = 0;
    spec.add_bos = true;
    spec.add_space_prefix = true;
    return create(&spec);
}

static void test_spm_rules(void **state)
{
    (void)state;
    struct hearth_vocab *v = spm_vocab();
    expect(v, "", 0, "");
    expect(v, "", HEARTH_TOKENIZE_BOS, "1");
    expect(v, "ab", 0, "7");
    expect(v, " ab", 0, "3 7");
    expect(v,
           "ab\xE2\x96\x81"
           "ab",
           0, "7 7");                    // the mark is a space
    expect(v, "aba", 0, "7 4");          // equal scores: the leftmost pair first
    expect(v, "\xC3\xA9", 0, "3 14 15"); // spelled in bytes
    expect(v, "x", 0, "3 0");            // no such byte: unknown,
    expect(v, "xyz", 0, "3 0");          // and a run of them is one
    expect(v, "xaxx", 0, "3 0 4 0");
    expect(v, "ab", HEARTH_TOKENIZE_BOS, "1 7");
    // Text never becomes a control token by merging, whatever the pieces.
    expect(v, "<s>", 0, "3 11 10");
    expect(v, "<s>", HEARTH_TOKENIZE_SPECIAL, "1");
    expect(v, "<s>ab</s>ab", HEARTH_TOKENIZE_SPECIAL, "1 7 2 7"); // a space again after each special token
    expect(v, "<tool>ab", 0, "12 7");                             // user-defined: always
    char bytes[8];
    assert_int_equal(hearth_vocab_bytes(v, 13, false, bytes, 8), 1);
    assert_int_equal(bytes[0], 'a');
    assert_int_equal(hearth_vocab_bytes(v, 7, false, bytes, 8), 3);
    assert_memory_equal(bytes, " ab", 3);
    assert_int_equal(hearth_vocab_bytes(v, 7, false, bytes, 1), 3); // all of it is counted, one byte written
    assert_int_equal(hearth_vocab_bytes(v, 1, false, bytes, 8), 0);
    assert_int_equal(hearth_vocab_bytes(v, 1, true, bytes, 8), 3);
    assert_int_equal(hearth_vocab_bytes(v, 0, false, bytes, 8), 0);
    assert_int_equal(hearth_vocab_bytes(v, -1, true, bytes, 8), 0);
    assert_int_equal(hearth_vocab_bytes(v, 999, true, bytes, 8), 0);
    assert_int_equal(hearth_vocab_size(v), N(spm_tokens));
    assert_int_equal(hearth_vocab_bos(v), 1);
    assert_int_equal(hearth_vocab_eos(v), 2);
    assert_int_equal(hearth_vocab_type(v, 12), HEARTH_TOKEN_USER);
    assert_int_equal(hearth_vocab_text(v, 7).n, 5);
    assert_int_equal(hearth_vocab_text(v, 99).n, 0);
    hearth_vocab_close(&v);
    assert_null(v);
    hearth_vocab_close(&v);
}

static const struct token bpe_tokens[] = {
    {"a", 1, 0},
    {"b", 1, 0},
    {"c", 1, 0},
    {"\xC4\xA0", 1, 0},
    {"ab", 1, 0},
    {"\xC4\xA0"
     "ab",
     1, 0},
    {"bc", 1, 0},
    {"<|x|>", 3, 0},
    {"<|xy|>", 3, 0},
    {"  ", 4, 0},
    {"<", 1, 0},
    {"|", 1, 0},
    {"x", 1, 0},
    {">", 1, 0},
    {"cab", 1, 0},
    {"\xC4\xAC", 1, 0}, // byte 0x8A
};

static void test_bpe_rules(void **state)
{
    (void)state;
    // "cc" is no token: what merges to it comes out as bytes.
    struct hearth_str merges[] = {str("a b"), str("\xC4\xA0 ab"), str("b c"), str("c c"), str("a b")};
    struct hearth_vocab_spec spec = spec_of("gpt2", "gpt-2", bpe_tokens, N(bpe_tokens));
    spec.merges = merges;
    spec.n_merges = N(merges);
    struct hearth_vocab *v = create(&spec);
    expect(v, "abc", 0, "4 2"); // the better-ranked merge first, though both could
    expect(v, "ab ab", 0, "4 5");
    expect(v, "bcc", 0, "6 2");
    expect(v, "ccc", 0, "2 2 2");
    expect(v, "cab", 0, "2 4");    // a token, but no merges lead to it
    expect(v, "\x8A", 0, "15");    // ill-formed UTF-8 is bytes
    expect(v, "d", 0, "");         // no token for this byte, and no unknown token
    expect(v, "a  b", 0, "0 9 1"); // user-defined
    v->unk = 7; // nor does an unknown token get into a text, which often is the one that ends texts
    expect(v, "dad", 0, "0");
    expect(v, "\xFF", 0, "");
    v->unk = -1;
    expect(v, "<|x|>", HEARTH_TOKENIZE_SPECIAL, "7");
    expect(v, "<|x|>", 0, "10 11 12 11 13");
    expect(v, "a<|xy|>b", HEARTH_TOKENIZE_SPECIAL, "0 8 1");
    hearth_vocab_close(&v);

    spec.pre = "llama-bpe"; // takes whole words
    v = create(&spec);
    expect(v, "cab", 0, "14");
    hearth_vocab_close(&v);
}

static void test_refused_specs(void **state)
{
    (void)state;
    struct hearth_error err;
    struct hearth_vocab *v;
    struct hearth_str merge = str("ab");
    struct hearth_vocab_spec spec = spec_of("bert", NULL, bpe_tokens, N(bpe_tokens));
    assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "bert"));
    assert_null(v);
    spec.model = NULL;
    assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_E_UNSUPPORTED);
    spec.model = "gpt2";
    spec.pre = "no-such";
    assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no-such"));
    assert_non_null(strstr(err.message, "m.gguf"));
    spec.pre = "";
    const char *const bad_merges[] = {"ab", " ", "a ", " b", "", "a"};
    for (size_t i = 0; i < N(bad_merges); i++) {
        merge = str(bad_merges[i]);
        spec.merges = &merge;
        spec.n_merges = 1;
        assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_E_FORMAT);
    }
    spec.n_merges = 0;
    spec.bos = N(bpe_tokens);
    assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_E_FORMAT);
    spec.bos = -2;
    assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_E_FORMAT);
    spec.bos = -1;
    int32_t types[N(bpe_tokens)] = {0, 7};
    spec.types = types;
    assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_E_FORMAT);
    types[1] = 0;
    assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_OK);
    assert_string_equal(hearth_vocab_pre(v), "");
    hearth_vocab_close(&v);
    spec.n_tokens = 0;
    assert_int_equal(hearth_vocab_create(&v, &spec, "m.gguf", &err), HEARTH_E_FORMAT);
}

// In marked text neither control tokens nor user-defined ones that look like tags are matched.
static void test_marked(void **state)
{
    (void)state;
    static const struct token t[] = {{"<", 1, 0},     {"|", 1, 0},  {">", 1, 0}, {"a", 1, 0},
                                     {"<|a|>", 4, 0}, {"aa", 4, 0}, {"b", 1, 0}, {"<|b|>", 3, 0}};
    struct hearth_vocab_spec spec = spec_of("gpt2", "qwen2", t, N(t));
    spec.eos = 7;
    struct hearth_vocab *v = create(&spec);
    static const char text[] = "<|a|>aa<|b|><|a|><|b|>";
    static const hearth_token plain[] = {4, 5, 7, 4, 7}, marked[] = {4, 5, 7, 0, 1, 3, 1, 2, 0, 1, 6, 1, 2};
    uint8_t marks[sizeof text - 1] = {0};
    hearth_token got[40];
    struct hearth_error err = {0};
    for (int with = 0; with < 2; with++) {
        const size_t n = with ? N(marked) : N(plain);
        const int64_t n_got = hearth_vocab_tokenize_marked(v, text, sizeof text - 1, with ? marks : NULL,
                                                           HEARTH_TOKENIZE_SPECIAL, got, N(got), &err);
        assert_int_equal(n_got, n);
        assert_memory_equal(got, with ? marked : plain, n * sizeof *got);
        memset(marks + 12, 1, sizeof marks - 12);
    }
    hearth_vocab_close(&v);
}

// ---- ends of a generation

static void test_ends(void **state)
{
    (void)state;
    static const struct token t[] = {
        {"a", 1, 0},
        {"<|im_end|>", 1, 0},
        {"<|eot_id|>", 3, 0},
        {"<|endoftext|>", 4, 0},
        {"<end_of_turn>", 3, 0},
        {"<|im_start|>", 3, 0},
        {"</s>", 1, 0},
        {"<fim_pad>", 3, 0},
        {"<PAD>", 3, 0},
        {"x", 1, 0},
        {"y", 1, 0},
        {"<|start|>", 3, 0},
    };
    struct hearth_vocab_spec spec = spec_of("gpt2", "qwen2", t, N(t));
    spec.eos = 9;
    spec.eot = 10;
    struct hearth_vocab *v = create(&spec);
    static const bool want[N(t)] = {0, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0};
    for (uint32_t i = 0; i < N(t); i++)
        assert_int_equal(hearth_vocab_is_eog(v, (hearth_token)i), want[i]);
    assert_false(hearth_vocab_is_eog(v, -1));
    assert_false(hearth_vocab_is_eog(v, 1000));
    assert_int_equal(hearth_vocab_type(v, 1), HEARTH_TOKEN_CONTROL); // mended
    assert_int_equal(hearth_vocab_type(v, 11), HEARTH_TOKEN_USER);   // always shown
    hearth_vocab_close(&v);

    // Fill-in-the-middle markers are control tokens, whatever their type in the file; only some end a
    // generation.
    static const struct token fim[] = {{"<|fim_prefix|>", 1, 0}, {"<fim_suffix>", 1, 0}, {"<MID>", 4, 0},
                                       {"<|fim_pad|>", 1, 0},    {"<|file_sep|>", 1, 0}, {"x", 1, 0}};
    spec = spec_of("gpt2", "qwen2", fim, N(fim));
    v = create(&spec);
    for (hearth_token i = 0; i < 6; i++) {
        assert_int_equal(hearth_vocab_type(v, i), i < 5 ? HEARTH_TOKEN_CONTROL : HEARTH_TOKEN_NORMAL);
        assert_int_equal(hearth_vocab_is_eog(v, i), i == 3 || i == 4);
    }
    hearth_vocab_close(&v);

    // In harmony "<|end|>" separates messages.
    static const struct token harmony[] = {{"<|end|>", 3, 0}, {"<|return|>", 3, 0}, {"<|call|>", 3, 0}};
    spec = spec_of("gpt2", "gpt-4o", harmony, 2);
    v = create(&spec);
    assert_true(hearth_vocab_is_eog(v, 0));
    hearth_vocab_close(&v);
    spec = spec_of("gpt2", "gpt-4o", harmony, 3);
    v = create(&spec);
    assert_false(hearth_vocab_is_eog(v, 0));
    assert_true(hearth_vocab_is_eog(v, 1) && hearth_vocab_is_eog(v, 2));
    hearth_vocab_close(&v);
}

// ---- special tokens

static uint32_t seed = 1;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 4) * n >> 28);
}

// Whether the rule forbids a token there, because of marks.
static bool is_forbidden(const struct hearth_vocab *v, hearth_token t, const uint8_t *marks, size_t at)
{
    const struct hearth_str *s = &v->text[t];
    const char first = s->s[0], last = s->s[s->n - 1];
    const bool tag = s->n > 2 && ((first == '<' && last == '>') || (first == '[' && last == ']'));
    if (!marks || !memchr(marks + at, 1, s->n))
        return false;
    return v->type[t] != HEARTH_TOKEN_USER || tag;
}

// The rule, plainly: for each length from the longest, every piece of raw text is searched from the left, and
// a match splits it.
static size_t split_plainly(const struct hearth_vocab *v, const char *text, size_t n, bool control,
                            const uint8_t *marks, struct hearth_fragment *f)
{
    size_t count = n > 0;
    f[0] = (struct hearth_fragment){0, n, -1};
    for (size_t length = 8; length > 0; length--) {
        for (size_t i = 0; i < count; i++) {
            if (f[i].token >= 0)
                continue;
            for (size_t at = f[i].start; at + length <= f[i].start + f[i].length; at++) {
                hearth_token hit = -1;
                for (uint32_t t = 0; t < v->n_tokens && hit < 0; t++) {
                    bool on =
                        v->type[t] == HEARTH_TOKEN_USER || (control && v->type[t] == HEARTH_TOKEN_CONTROL);
                    if (on && v->text[t].n == length && memcmp(v->text[t].s, text + at, length) == 0 &&
                        !is_forbidden(v, (hearth_token)t, marks, at))
                        hit = (hearth_token)t;
                }
                if (hit < 0)
                    continue;
                size_t left = f[i].start, left_end = at, right = at + length, end = f[i].start + f[i].length;
                while ((v->flags[hit] & HEARTH_TOKEN_LSTRIP) && left_end > left && text[left_end - 1] == ' ')
                    left_end--;
                while ((v->flags[hit] & HEARTH_TOKEN_RSTRIP) && right < end && text[right] == ' ')
                    right++;
                struct hearth_fragment parts[3];
                size_t n_parts = 0;
                if (left_end > left)
                    parts[n_parts++] = (struct hearth_fragment){left, left_end - left, -1};
                size_t hit_at = n_parts;
                parts[n_parts++] = (struct hearth_fragment){at, length, hit};
                if (right < end)
                    parts[n_parts++] = (struct hearth_fragment){right, end - right, -1};
                memmove(&f[i + n_parts], &f[i + 1], (count - i - 1) * sizeof *f);
                memcpy(&f[i], parts, n_parts * sizeof *f);
                count += n_parts - 1;
                i += hit_at;
                break;
            }
        }
    }
    return count;
}

static void test_special_against_plain_search(void **state)
{
    (void)state;
    for (int round = 0; round < 400; round++) {
        char texts[24][9];
        struct token t[24] = {{"zz", 1, 0}};
        uint32_t n = 1 + random_below(23);
        for (uint32_t i = 1; i < n; i++) {
            size_t length = 1 + random_below(random_below(2) ? 4 : 8);
            for (size_t k = 0; k < length; k++)
                texts[i][k] = "ab <>"[random_below(5)];
            texts[i][length] = '\0';
            bool twice = false;
            for (uint32_t k = 1; k < i; k++)
                twice |= strcmp(texts[k], texts[i]) == 0;
            t[i] = (struct token){twice ? "zz" : texts[i], (int32_t)(random_below(2) ? 3 : 4), 0};
            if (twice)
                t[i].type = 1;
        }
        struct hearth_vocab_spec spec = spec_of("llama", NULL, t, n);
        struct hearth_vocab *v = create(&spec);
        for (uint32_t i = 0; i < n; i++)
            v->flags[i] |= (uint8_t)(random_below(4) == 0 ? HEARTH_TOKEN_LSTRIP : 0) |
                           (uint8_t)(random_below(4) == 0 ? HEARTH_TOKEN_RSTRIP : 0);
        for (int k = 0; k < 20; k++) {
            char text[64];
            size_t length = random_below(60);
            for (size_t i = 0; i < length; i++)
                text[i] = "ab <>"[random_below(5)];
            uint8_t marks[64], *marked = random_below(2) ? marks : NULL;
            for (size_t i = 0; i < length; i++)
                marks[i] = random_below(8) == 0;
            struct hearth_fragment want[128], *got;
            size_t count;
            bool control = random_below(2);
            size_t want_n = split_plainly(v, text, length, control, marked, want);
            assert_int_equal(hearth_special_split(v, text, length, control, marked, &got, &count, NULL),
                             HEARTH_OK);
            assert_int_equal(count, want_n);
            for (size_t i = 0; i < count; i++) {
                assert_int_equal(got[i].start, want[i].start);
                assert_int_equal(got[i].length, want[i].length);
                assert_int_equal(got[i].token, want[i].token);
            }
            free(got);
        }
        hearth_vocab_close(&v);
    }
}

// ---- streaming

static void test_stream(void **state)
{
    (void)state;
    static char names[256][8];
    static struct token t[260];
    for (int b = 0; b < 256; b++) {
        snprintf(names[b], sizeof names[b], "<0x%02X>", (unsigned)b);
        t[b] = (struct token){names[b], 6, 0};
    }
    t[256] = (struct token){"\xE2\x96\x81Hi", 1, 0};
    t[257] = (struct token){"<s>", 3, 0};
    t[258] = (struct token){"\xE2\x96\x81", 1, 0};
    struct hearth_vocab_spec spec = spec_of("llama", NULL, t, 259);
    spec.bos = 257;
    spec.add_space_prefix = true;
    struct hearth_vocab *v = create(&spec);
    struct hearth_utf8_stream *s;
    const char *text;

    // A character appears with its last byte, never before.
    assert_int_equal(hearth_utf8_stream_open(&s, v, false, true, NULL), HEARTH_OK);
    static const char sample[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x94\xA5z";
    char all[64];
    size_t n = 0;
    for (size_t i = 0; i < sizeof sample - 1; i++) {
        size_t got = hearth_utf8_stream_push(s, (hearth_token)(uint8_t)sample[i], &text);
        assert_int_equal(hearth_utf8_span(text, got), got);
        memcpy(all + n, text, got);
        n += got;
        assert_int_equal(n, i + 1 - hearth_utf8_pending(sample, i + 1));
    }
    assert_int_equal(n, sizeof sample - 1);
    assert_memory_equal(all, sample, n);
    assert_int_equal(hearth_utf8_stream_flush(s, &text), 0);

    // Bytes that cannot become a character do not wait; the rest comes out at the end.
    assert_int_equal(hearth_utf8_stream_push(s, 0xE2, &text), 0);
    assert_int_equal(hearth_utf8_stream_push(s, 0xFF, &text), 2);
    assert_memory_equal(text, "\xE2\xFF", 2);
    assert_int_equal(hearth_utf8_stream_push(s, 0xF0, &text), 0);
    assert_int_equal(hearth_utf8_stream_push(s, 0x9F, &text), 0);
    assert_int_equal(hearth_utf8_stream_flush(s, &text), 2);
    assert_memory_equal(text, "\xF0\x9F", 2);
    assert_int_equal(hearth_utf8_stream_flush(s, &text), 0);
    assert_int_equal(hearth_utf8_stream_push(s, -5, &text), 0);
    assert_int_equal(hearth_utf8_stream_push(s, 256, &text), 3);
    assert_memory_equal(text, " Hi", 3);
    hearth_utf8_stream_close(&s);
    assert_null(s);

    // From the start of a text: one space is dropped, once, and tokens without text do not count.
    assert_int_equal(hearth_utf8_stream_open(&s, v, false, false, NULL), HEARTH_OK);
    assert_int_equal(hearth_utf8_stream_push(s, 257, &text), 0);
    assert_int_equal(hearth_utf8_stream_push(s, 256, &text), 2);
    assert_memory_equal(text, "Hi", 2);
    assert_int_equal(hearth_utf8_stream_push(s, 256, &text), 3);
    hearth_utf8_stream_close(&s);
    assert_int_equal(hearth_utf8_stream_open(&s, v, true, false, NULL), HEARTH_OK);
    assert_int_equal(hearth_utf8_stream_push(s, 257, &text), 3);
    assert_memory_equal(text, "<s>", 3);
    assert_int_equal(hearth_utf8_stream_push(s, 256, &text), 3);
    hearth_utf8_stream_close(&s);
    assert_int_equal(hearth_utf8_stream_open(&s, v, true, false, NULL), HEARTH_OK);
    assert_int_equal(hearth_utf8_stream_push(s, 258, &text), 0);
    assert_int_equal(hearth_utf8_stream_push(s, 258, &text), 1);
    hearth_utf8_stream_close(&s);
    hearth_utf8_stream_close(&s);
    hearth_vocab_close(&v);
}

// ---- from files

static char gguf_path[64];

// A GGUF with the given tokenizer model and three tokens, to which `more` adds keys.
static int open_written(struct hearth_vocab **v, const char *model, const char *pre,
                        void (*more)(struct hearth_gguf_writer *), struct hearth_error *err)
{
    struct hearth_gguf_writer *w;
    struct hearth_str tokens[] = {str("a"), str("<s>"), str("b"), str("c\xE2\x96\x81")};
    assert_int_equal(hearth_gguf_writer_open(&w, gguf_path, err), HEARTH_OK);
    if (model)
        assert_int_equal(hearth_gguf_put_str(w, "tokenizer.ggml.model", model, strlen(model), err),
                         HEARTH_OK);
    if (pre)
        assert_int_equal(hearth_gguf_put_str(w, "tokenizer.ggml.pre", pre, strlen(pre), err), HEARTH_OK);
    assert_int_equal(hearth_gguf_put_strings(w, "tokenizer.ggml.tokens", tokens, 4, err), HEARTH_OK);
    if (more)
        more(w);
    if (hearth_gguf_finish(&w, err) != HEARTH_OK)
        fail_msg("%s", err->message);
    struct hearth_gguf *g;
    if (hearth_gguf_open(&g, gguf_path, err) != HEARTH_OK)
        fail_msg("%s", err->message);
    int rc = hearth_vocab_open(v, g, err);
    hearth_gguf_close(&g);
    return rc;
}

static void put_merges(struct hearth_gguf_writer *w)
{
    struct hearth_str merges[] = {str("a b")};
    assert_int_equal(hearth_gguf_put_strings(w, "tokenizer.ggml.merges", merges, 1, NULL), HEARTH_OK);
}

static void put_ids(struct hearth_gguf_writer *w)
{
    put_merges(w);
    assert_int_equal(hearth_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1, NULL), HEARTH_OK);
    assert_int_equal(hearth_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 99, NULL), HEARTH_OK); // ignored
    assert_int_equal(hearth_gguf_put_u32(w, "tokenizer.ggml.eot_token_id", 2, NULL), HEARTH_OK);
    assert_int_equal(hearth_gguf_put_u32(w, "tokenizer.ggml.eom_token_id", 3, NULL), HEARTH_OK);
    assert_int_equal(hearth_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true, NULL), HEARTH_OK);
}

static void put_few_scores(struct hearth_gguf_writer *w)
{
    float scores[3] = {0};
    assert_int_equal(hearth_gguf_put_array(w, "tokenizer.ggml.scores", HEARTH_GGUF_F32, scores, 3, NULL),
                     HEARTH_OK);
}

static void put_bad_types(struct hearth_gguf_writer *w)
{
    int32_t types[4] = {1, 3, 1, 70};
    assert_int_equal(hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_I32, types, 4, NULL),
                     HEARTH_OK);
}

static void put_float_types(struct hearth_gguf_writer *w)
{
    float types[4] = {1, 1, 1, 1};
    assert_int_equal(hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_F32, types, 4, NULL),
                     HEARTH_OK);
}

static void put_wrong_merges(struct hearth_gguf_writer *w)
{
    assert_int_equal(hearth_gguf_put_u32(w, "tokenizer.ggml.merges", 1, NULL), HEARTH_OK);
}

static void put_phi3(struct hearth_gguf_writer *w)
{
    int32_t types[4] = {1, 1, 3, 1};
    assert_int_equal(hearth_gguf_put_str(w, "general.name", "Phi-3 mini", 10, NULL), HEARTH_OK);
    assert_int_equal(hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_I32, types, 4, NULL),
                     HEARTH_OK);
}

static void count_warnings(void *arg, enum hearth_log_level level, const char *message)
{
    *(int *)arg += level == HEARTH_LOG_WARNING && strstr(message, "tokenizer.ggml.pre is missing");
}

static void test_open(void **state)
{
    (void)state;
    strcpy(gguf_path, "/tmp/hearth-test-text-XXXXXX");
    int fd = mkstemp(gguf_path);
    assert_true(fd >= 0);
    close(fd);
    struct hearth_error err = {0};
    struct hearth_vocab *v;

    assert_int_equal(open_written(&v, "llama", NULL, NULL, &err), HEARTH_OK); // all defaults
    assert_int_equal(hearth_vocab_bos(v), 1);
    assert_int_equal(hearth_vocab_eos(v), 2);
    assert_true(hearth_vocab_is_eog(v, 2));
    expect(v, "a", HEARTH_TOKENIZE_BOS, "1 0 0"); // BOS and a space by default, and unknown is token 0
    hearth_vocab_close(&v);

    int warnings = 0;
    hearth_log_set(count_warnings, &warnings);
    assert_int_equal(open_written(&v, "gpt2", "gpt-2", put_merges, &err), HEARTH_OK);
    hearth_vocab_close(&v);
    assert_int_equal(warnings, 0);
    assert_int_equal(open_written(&v, "gpt2", NULL, put_merges, &err), HEARTH_OK);
    hearth_log_set(NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_int_equal(hearth_vocab_bos(v), -1); // the default, 11, is beyond this vocabulary
    expect(v, "ab", HEARTH_TOKENIZE_BOS, "0 2");
    hearth_vocab_close(&v);

    assert_int_equal(open_written(&v, "gpt2", "qwen2", put_ids, &err), HEARTH_OK);
    assert_string_equal(hearth_vocab_pre(v), "qwen2");
    assert_int_equal(hearth_vocab_bos(v), 1);
    assert_int_equal(hearth_vocab_eos(v), -1);
    assert_true(hearth_vocab_is_eog(v, 2) && hearth_vocab_is_eog(v, 3) && !hearth_vocab_is_eog(v, 0));
    expect(v, "a", HEARTH_TOKENIZE_BOS, "1 0");
    hearth_vocab_close(&v);

    assert_int_equal(open_written(&v, "llama", NULL, put_phi3, &err), HEARTH_OK);
    expect(v, "b  b  ", HEARTH_TOKENIZE_SPECIAL, "2 2"); // a control token swallows the spaces after it
    hearth_vocab_close(&v);

    static const struct {
        const char *model, *pre;
        void (*more)(struct hearth_gguf_writer *);
        int code;
        const char *says;
    } bad[] = {
        {NULL, NULL, NULL, HEARTH_E_FORMAT, "tokenizer.ggml.model"},
        {"t5", NULL, NULL, HEARTH_E_UNSUPPORTED, "t5"},
        {"gpt2", NULL, NULL, HEARTH_E_FORMAT, "tokenizer.ggml.merges"},
        {"gpt2", NULL, put_wrong_merges, HEARTH_E_FORMAT, "tokenizer.ggml.merges"},
        {"gpt2", "nothing-like-it", put_merges, HEARTH_E_UNSUPPORTED, "nothing-like-it"},
        {"llama", NULL, put_few_scores, HEARTH_E_FORMAT, "tokenizer.ggml.scores"},
        {"llama", NULL, put_bad_types, HEARTH_E_FORMAT, "token 3"},
        {"llama", NULL, put_float_types, HEARTH_E_FORMAT, "token_type"},
    };
    for (size_t i = 0; i < N(bad); i++) {
        assert_int_equal(open_written(&v, bad[i].model, bad[i].pre, bad[i].more, &err), bad[i].code);
        assert_null(v);
        assert_non_null(strstr(err.message, gguf_path));
        assert_non_null(strstr(err.message, bad[i].says));
    }
    unlink(gguf_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marked),
        cmocka_unit_test(test_utf8_all_characters),
        cmocka_unit_test(test_utf8_ill_formed),
        cmocka_unit_test(test_byte_alphabet),
        cmocka_unit_test(test_spm_rules),
        cmocka_unit_test(test_bpe_rules),
        cmocka_unit_test(test_refused_specs),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_special_against_plain_search),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
