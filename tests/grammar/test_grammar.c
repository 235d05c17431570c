// SPDX-License-Identifier: MIT
// Grammars: the language, what is refused with which words, tokens, sampling.
#include "check.h"

#include <math.h>

#include "grammar/grammar.h"
#include "hearth.h"

static struct hearth_model *model;
static int n_vocab;

static int open_model(void **state)
{
    (void)state;
    struct hearth_model_params p = hearth_model_params_default();
    CHECK(hearth_model_open(&model, HEARTH_SOURCE_DIR "/models/hearth-novels-drelu-Q8_0.gguf", &p,
                            &check_error));
    n_vocab = hearth_model_info(model)->n_vocab;
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    hearth_model_close(&model);
    return 0;
}

static struct hearth_grammar *compile(const char *text, bool with_model)
{
    struct hearth_grammar *g = NULL;
    CHECK(hearth_grammar_open(&g, with_model ? model : NULL, text, strlen(text), &check_error));
    return g;
}

// ---- the language

// Texts are separated by '\1'; NULL: none.
static void check_texts(const char *grammar, const char *good, const char *bad)
{
    struct hearth_grammar *g = compile(grammar, false);
    for (int want = 0; want < 2; want++)
        for (const char *at = want ? good : bad; at;) {
            const size_t n = strcspn(at, "\1");
            if (hearth_grammar_matches(g, at, n) != want)
                fail_msg("%s: \"%.*s\" is %s", grammar, (int)n, at, want ? "refused" : "accepted");
            at = at[n] ? at + n + 1 : NULL;
        }
    hearth_grammar_close(&g);
    assert_null(g);
}

static void test_language(void **state)
{
    (void)state;
    check_texts("root ::= \"yes\" | \"no\"", "yes\1no", "\1y\1yesno\1yes \1maybe");
    check_texts("root ::= \"a\"* \"b\"+ \"c\"?", "b\1abbc\1aab", "\1a\1bcc\1ba");
    check_texts("root ::= \"ab\"{2}", "abab", "ab\1ababab\1abb");
    check_texts("root ::= [a-c]{2,}", "ab\1abcabc", "a\1abd");
    check_texts("root ::= [a-c] {1 , 3} \"!\"", "a!\1abc!", "!\1abca!");
    check_texts("root ::= \"x\"{0,2}", "\1x\1xx", "xxx");
    check_texts("root ::= \"x\"{0} \"y\"", "y", "xy");
    check_texts("root ::= (\"a\"?){3} ((\"\")*)* \"b\"", "b\1ab\1aaab", "aaaab");
    check_texts("root ::= [^a-y\\n]", "z\1A\1\xC3\xA9\1\xF0\x9F\x98\x80", "a\1\n\1zz\1\xC3\1\xFF");
    check_texts("root ::= [\\x41\\u00e9\\U0001F600\\]\\\\-]", "A\1\xC3\xA9\1\xF0\x9F\x98\x80\1]\1\\\1-",
                "B\1^");
    check_texts("root ::= \"\\x41\\u00e9\\t\\\"\"", "A\xC3\xA9\t\"", "A\xC3\xA9\t");
    check_texts("root ::= .", "a\1\n\1\xE2\x82\xAC\1\xF4\x8F\xBF\xBF",
                "\1ab\1\x80\1\xC0\x80\1\xED\xA0\x80\1\xF4\x90\x80\x80\1\xE0\x80\x80");
    check_texts("# about\nroot ::= # begins\n  item (\n \",\" item # more\n)*\n\nitem ::= [0-9] |\n  \"-\"\n",
                "1\1-\1"
                "1,-,3",
                ",\1"
                "1,");
    check_texts("root ::= \"(\" root \")\" | \"\"", "\1()\1((()))", "(\1(()\1())");
    check_texts("root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"\"", "abba\1aabbaa", "ab\1aba");
    check_texts("root ::= e\ne ::= t (\"+\" t)*\nt ::= [0-9]+ | \"(\" e \")\"", "1+2\1(1+(2+3))+44",
                "1+\1(1");
}

static void test_characters(void **state)
{
    (void)state;
    // Every character is in a class or in what the class leaves out, never in both.
    struct hearth_grammar
        *in = compile("root ::= [\\x05-~\\u00e9-\\u0830\\u3041-\\ue003\\U00010123-\\U00050000]", false),
        *out = compile("root ::= [^\\x05-~\\u00e9-\\u0830\\u3041-\\ue003\\U00010123-\\U00050000]", false);
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp += cp % 64 == 5 && cp > 0x3000 ? 29 : 1) {
        char s[4];
        size_t n = 1;
        if (cp < 0x80)
            s[0] = (char)cp;
        else {
            n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
            uint32_t rest = cp;
            for (size_t i = n; i-- > 1; rest >>= 6)
                s[i] = (char)(0x80 | (rest & 0x3F));
            s[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | rest);
        }
        const bool surrogate = cp >= 0xD800 && cp <= 0xDFFF;
        const bool is_in = (cp >= 5 && cp <= '~') || (cp >= 0xE9 && cp <= 0x830) ||
                           (cp >= 0x3041 && cp <= 0xE003) || (cp >= 0x10123 && cp <= 0x50000);
        if (hearth_grammar_matches(in, s, n) != (is_in && !surrogate) ||
            hearth_grammar_matches(out, s, n) != (!is_in && !surrogate))
            fail_msg("U+%04X", cp);
    }
    hearth_grammar_close(&in);
    hearth_grammar_close(&out);
}

// Alternatives that cannot all be followed are not left out without a word.
static void check_many_ways(int n, bool works)
{
    struct hearth_grammar *g;
    struct hearth_error err = {0};
    char *text = malloc((size_t)n * 16 + 32), *at = text;
    assert_non_null(text);
    at += sprintf(at, "root ::= ");
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s\"w%d\"", i ? " | " : "", 100000 + i);
    const int rc = hearth_grammar_open(&g, NULL, text, strlen(text), &err);
    assert_int_equal(rc, works ? HEARTH_OK : HEARTH_E_FORMAT);
    if (works)
        assert_true(hearth_grammar_matches(g, "w108000", 7));
    else
        assert_non_null(strstr(err.message, "in more ways than can be followed"));
    if (works)
        hearth_grammar_close(&g);
    free(text);
}

static void test_many_ways(void **state)
{
    (void)state;
    check_many_ways(8100, true);
    check_many_ways(9000, false);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *words;
    } cases[] = {
        {"", "no rule root"},
        {"a ::= \"x\"", "no rule root"},
        {"root ::= a", "line 1, column 10: there is no rule a"},
        {"root ::= \"x\"\nroot ::= \"y\"", "line 2, column 1: this rule is there already: root"},
        {"root ::= \"x", "line 1, column 10: this text has no closing quote"},
        {"root ::= [a", "no closing bracket"},
        {"root ::= []", "no character is in this class"},
        {"root ::= [z-a]", "end comes before its start: z-a"},
        {"root ::= \"\\q\"", "column 11: unknown escape: \\q"},
        {"root ::= \"\\uD800\"", "no such character"},
        {"root ::= \"\\x4\"", "2 hexadecimal digits"},
        {"root ::= (\"a\"", "this parenthesis is not closed"},
        {"root ::= \"a\")", "no symbol of a grammar"},
        {"root = \"a\"", "::= was to come"},
        {"root ::= \"a\"{3,2}", "most is less than its least"},
        {"root ::= \"a\"{x}", "{m}, {m,} or {m,n}"},
        {"root ::= \"a\"{100001}", "more than 100000"},
        {"root ::= ((\"ab\"{1000}){1000}){1000}", "too large"},
        {"root ::= (((\"\"{100000}){100000}){100000}){100000}", "too large"},
        {"root ::= \"\xFF\"", "column 11: this is not UTF-8"},
        {"root ::= root \"a\" | \"b\"",
         "line 1, column 1: this rule calls itself before it has read anything (left recursion): root"},
        {"root ::= \"x\" a\na ::= \" \"? b\nb ::= a \"y\"", "(left recursion): "},
        {"root ::= !a", "! wants a token"},
        {"root ::= <[3]>", "no vocabulary"},
        {"root ::= <[3", "no closing >"},
    };
    struct hearth_grammar *g;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].grammar;
        REFUSED(hearth_grammar_open(&g, NULL, text, strlen(text), &check_error), HEARTH_E_FORMAT,
                cases[i].words);
        assert_null(g);
    }
    REFUSED(hearth_grammar_open(&g, model, "root ::= <[999999]>", 19, &check_error), HEARTH_E_FORMAT,
            "no such token");
    REFUSED(hearth_grammar_open(&g, model, "root ::= <nothing>", 18, &check_error), HEARTH_E_FORMAT,
            "no such token");
    char deep[400] = "root ::= ";
    memset(deep + 9, '(', 300);
    REFUSED(hearth_grammar_open(&g, NULL, deep, 309, &check_error), HEARTH_E_FORMAT, "too many parentheses");
}

// What nests deeper than is followed is refused, and nothing else happens.
static void test_depth(void **state)
{
    (void)state;
    struct hearth_grammar *g = compile("root ::= \"(\" root \")\" | \"\"", false);
    static char text[4000];
    for (int n = 1000; n <= 1200; n += 200) {
        memset(text, '(', (size_t)n);
        memset(text + n, ')', (size_t)n);
        assert_int_equal(hearth_grammar_matches(g, text, (size_t)n * 2), n == 1000);
    }
    hearth_grammar_close(&g);
    // A rule that ends in a call of itself nests nothing.
    g = compile("root ::= [a-z] root | \".\"", false);
    static char line[100000];
    memset(line, 'q', sizeof line);
    line[sizeof line - 1] = '.';
    assert_true(hearth_grammar_matches(g, line, sizeof line));
    hearth_grammar_close(&g);
}

// More states than there is room for: old ones are forgotten, and the answers stay right.
static void test_forgetting(void **state)
{
    (void)state;
    struct hearth_grammar *g =
        compile("root ::= item{0,30000} \"!\"\nitem ::= [a-c] | \"(\" item \")\"", false);
    static char text[30002];
    for (size_t i = 0; i < 30001; i++)
        text[i] = (char)('a' + i % 3);
    assert_false(hearth_grammar_matches(g, text, 30001));
    text[30000] = '!';
    assert_true(hearth_grammar_matches(g, text, 30001));
    text[29999] = '!';
    assert_false(hearth_grammar_matches(g, text, 30001));
    assert_true(hearth_grammar_matches(g, text, 30000));
    hearth_grammar_close(&g);
}

// ---- tokens

static uint32_t random_state = 1;
static uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    return random_state ^= random_state << 5;
}

static const char *const grammars[] = {
    "root ::= .*",
    "root ::= [a-z ]+ \".\"",
    "root ::= \"{\" [^\\\"}]{1,12} \"}\"",
    "root ::= (\"It was \" | \"It is \" [a-z]+) \"!\"",
    "root ::= [^\\x00-~]{3}",
    "root ::= v\nv ::= [0-9]{1,3} | \"[\" (v (\", \" v)*)? \"]\" | \"\\\"\" [^\\\"\\\\]{0,20} \"\\\"\"",
};
enum { N_GRAMMARS = sizeof grammars / sizeof grammars[0] };

// The set of allowed tokens is that of those whose bytes can be read, one by one; and what comes of them.
static void test_sets(void **state)
{
    (void)state;
    for (int i = 0; i < N_GRAMMARS; i++) {
        struct hearth_grammar *g = compile(grammars[i], true);
        struct hearth_grammar_cursor c, probe;
        hearth_grammar_attach(&c, g);
        for (int step = 0; step < 12; step++) {
            uint64_t set[64] = {0};
            assert_true(n_vocab <= 4096);
            hearth_token all[4096];
            int n = 0;
            hearth_grammar_attach_at(&probe, &c);
            hearth_grammar_lock(&probe);
            for (hearth_token t = 0; t < n_vocab; t++)
                if (hearth_grammar_allows(&probe, t))
                    hearth_set_bit(set, t);
            const uint64_t *allowed = hearth_grammar_allowed(&probe);
            for (hearth_token t = 0; t < n_vocab; t++) {
                if (hearth_has_bit(allowed, t) != hearth_has_bit(set, t) ||
                    hearth_has_bit(allowed, t) != hearth_grammar_allows(&probe, t))
                    fail_msg("%s: token %d", grammars[i], t);
                if (hearth_has_bit(set, t))
                    all[n++] = t;
            }
            hearth_grammar_unlock(&probe);
            hearth_grammar_detach(&probe);
            if (!n)
                break;
            const hearth_token chosen = all[random_u32() % (uint32_t)n];
            if (hearth_token_is_eog(model, chosen)) {
                assert_true(hearth_grammar_may_end(&c));
                break;
            }
            assert_true(hearth_token_bytes(model, chosen, false, NULL, 0) > 0);
            hearth_grammar_advance(&c, chosen);
        }
        hearth_grammar_detach(&c);
        hearth_grammar_close(&g);
    }
}

static void test_named_tokens(void **state)
{
    (void)state;
    char text[64];
    const hearth_token eos = hearth_token_eos(model), bos = hearth_token_bos(model);
    assert_true(eos >= 0 && bos >= 0);
    snprintf(text, sizeof text, "root ::= <[%d]> [a-z] !<[%d]>", bos, bos);
    struct hearth_grammar *g = compile(text, true);
    struct hearth_grammar_cursor c;
    hearth_grammar_attach(&c, g);
    hearth_token letter = -1;
    hearth_grammar_lock(&c);
    assert_true(hearth_grammar_allows(&c, bos));
    int n = 0;
    for (hearth_token t = 0; t < n_vocab; t++) {
        char byte;
        n += hearth_has_bit(hearth_grammar_allowed(&c), t);
        if (hearth_token_bytes(model, t, false, &byte, 1) == 1 && byte == 'q')
            letter = t;
    }
    assert_int_equal(n, 1);
    hearth_grammar_unlock(&c);
    hearth_grammar_advance(&c, bos);
    hearth_grammar_advance(&c, letter);
    assert_false(hearth_grammar_may_end(&c));
    hearth_grammar_lock(&c);
    assert_true(hearth_grammar_allows(&c, letter));
    assert_false(hearth_grammar_allows(&c, bos));
    assert_false(hearth_grammar_allows(&c, eos));
    hearth_grammar_unlock(&c);
    hearth_grammar_advance(&c, letter);
    assert_true(hearth_grammar_may_end(&c));
    hearth_grammar_detach(&c);
    hearth_grammar_close(&g);
}

// ---- sampling

static void fill_logits(float *logits)
{
    for (int i = 0; i < n_vocab; i++)
        logits[i] = (float)(random_u32() % 20000) / 1000.0f - 10.0f;
}

// A sampler with a grammar chooses what one without it chooses of logits in which all other tokens are
// impossible: the grammar comes before all samplers, whatever short cuts it takes.
static void check_draws(struct hearth_sampler_params p, const char *text)
{
    struct hearth_grammar *g = compile(text, true);
    struct hearth_sampler *plain, *constrained;
    struct hearth_grammar_cursor c;
    float *logits = calloc((size_t)n_vocab, sizeof *logits),
          *masked = calloc((size_t)n_vocab, sizeof *masked);
    p.seed = random_u32() >> 1;
    p.model = model;
    CHECK(hearth_sampler_open(&plain, n_vocab, &p, &check_error));
    p.grammar = g;
    CHECK(hearth_sampler_open(&constrained, n_vocab, &p, &check_error));
    hearth_grammar_attach(&c, g);
    for (int i = 0; i < (SANITIZED ? 10 : 40); i++) {
        fill_logits(logits);
        hearth_grammar_lock(&c);
        const uint64_t *allowed = hearth_grammar_allowed(&c);
        int n = 0;
        for (hearth_token t = 0; t < n_vocab; t++) {
            n += hearth_has_bit(allowed, t);
            masked[t] = hearth_has_bit(allowed, t) ? logits[t] : -INFINITY;
        }
        hearth_grammar_unlock(&c);
        const hearth_token got = hearth_sample(constrained, logits);
        if (!n) {
            assert_int_equal(got, -1);
            break;
        }
        const hearth_token want = hearth_sample(plain, masked);
        if (got != want)
            fail_msg("%s: token %d where %d was to come", text, got, want);
        if (hearth_token_is_eog(model, got))
            break;
        hearth_sampler_accept(plain, got);
        hearth_sampler_accept(constrained, got);
        hearth_grammar_advance(&c, got);
    }
    hearth_grammar_detach(&c);
    hearth_sampler_close(&plain);
    hearth_sampler_close(&constrained);
    hearth_grammar_close(&g);
    free(logits);
    free(masked);
}

static void test_draws(void **state)
{
    (void)state;
    for (int i = 0; i < N_GRAMMARS; i++) {
        struct hearth_sampler_params p = hearth_sampler_params_default();
        check_draws(p, grammars[i]);
        p.temp = 0;
        check_draws(p, grammars[i]);
        p.repeat_penalty = 1.3f;
        check_draws(p, grammars[i]);
        p.temp = 1.2f;
        p.dry_multiplier = 0.8f;
        check_draws(p, grammars[i]);
        p.top_k = 5;
        p.xtc_probability = 0.5f;
        check_draws(p, grammars[i]);
        p.top_k = 0;
        check_draws(p, grammars[i]);
        p.samplers = "min_p;top_k;penalties;temperature";
        check_draws(p, grammars[i]);
        p.samplers = "temperature";
        check_draws(p, grammars[i]);
        p.mirostat = 2;
        check_draws(p, grammars[i]);
    }
}

static void test_sampler(void **state)
{
    (void)state;
    struct hearth_grammar *g = compile("root ::= [a-z]{4} \".\"", true);
    struct hearth_sampler_params p = hearth_sampler_params_default();
    p.grammar = g;
    p.seed = 7;
    p.model = model;
    p.repeat_penalty = 1.2f;
    p.dry_multiplier = 1;
    struct hearth_sampler *a, *b;
    REFUSED(hearth_sampler_open(&a, n_vocab + 1, &p, &check_error), HEARTH_E_INVALID,
            "grammar was opened for");
    CHECK(hearth_sampler_open(&a, n_vocab, &p, &check_error));
    float *logits = calloc((size_t)n_vocab, sizeof *logits);
    hearth_token first[16], t;
    int n = 0;
    for (int round = 0; round < 3; round++) {
        int i = 0;
        random_state = 77;
        hearth_sampler_accept_prompt(a, 5); // not what the grammar is about
        for (;; i++) {
            fill_logits(logits);
            t = hearth_sample(a, logits);
            if (i == 1) { // a clone goes on in the same way
                CHECK(hearth_sampler_clone(&b, a, &check_error));
                assert_int_equal(hearth_sample(b, logits), t);
                hearth_sampler_accept(b, t);
                hearth_sampler_close(&b);
            }
            if (hearth_token_is_eog(model, t))
                break;
            assert_false(hearth_sampler_may_end(a));
            assert_true(i < 16 && t >= 0);
            if (round)
                assert_int_equal(t, first[i]);
            first[i] = t;
            hearth_sampler_accept(a, t);
        }
        assert_true(hearth_sampler_may_end(a));
        assert_true(!round || i == n);
        n = i;
        hearth_sampler_reset(a);
    }
    // Nothing may follow a token that is not allowed.
    hearth_sampler_accept(a, hearth_token_bos(model));
    const bool ends = hearth_token_is_eog(model, hearth_token_bos(model));
    assert_true(ends || hearth_sample(a, logits) == -1);
    hearth_sampler_close(&a);
    hearth_grammar_close(&g);
    free(logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_language),  cmocka_unit_test(test_characters),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_depth),
        cmocka_unit_test(test_many_ways), cmocka_unit_test(test_forgetting),
        cmocka_unit_test(test_sets),      cmocka_unit_test(test_named_tokens),
        cmocka_unit_test(test_draws),     cmocka_unit_test(test_sampler),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
