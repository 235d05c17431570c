// SPDX-License-Identifier: MIT
// Regular expressions of names: they find what PCRE2 finds, patterns at random and those that people write for tensors;
// what cannot be used is refused with a reason.
#include "check.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/pattern.h"

// Whether PCRE2 finds it; -1: it is no pattern.
static int finds(const char *pattern, const char *text)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *p = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                  PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL, &code, &at, NULL);
    if (!p)
        return -1;
    pcre2_match_data *m = pcre2_match_data_create_from_pattern(p, NULL);
    const int n = pcre2_match(p, (PCRE2_SPTR)text, strlen(text), 0, 0, m, NULL);
    pcre2_match_data_free(m);
    pcre2_code_free(p);
    return n < -1 ? -1 : n >= 0; // -1: nothing is found; else it is too complicated
}

// How often the pattern is in a text, of which -1 is refused.
static int check(const char *pattern, const char *const *texts, size_t n)
{
    const char *why = NULL;
    struct hearth_pattern *p = hearth_pattern_open(pattern, strlen(pattern), &why);
    int found = 0;
    if (!p) {
        assert_non_null(why);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        const int want = finds(pattern, texts[i]);
        const bool is = hearth_pattern_is_in(p, texts[i]);
        if (want >= 0 && want != is)
            fail_msg("/%s/ is %sin \"%s\"", pattern, is ? "" : "not ", texts[i]);
        found += is;
    }
    hearth_pattern_close(p);
    return found;
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.ffn_gate_exps.weight",  "blk.3.ffn_up_exps.weight",
                                        "blk.12.ffn_down_exps.weight", "blk.29.ffn_down_shexp.weight",
                                        "blk.7.attn_q.weight",         "token_embd.weight"};
    static const struct {
        const char *pattern;
        int found;
    } cases[] = {{"exps", 3},
                 {"\\.ffn_.*_exps\\.", 3},
                 {".ffn_.*_exps.", 3},
                 {"\\.ffn_(up|down|gate|gate_up)_(ch|)exps", 3},
                 {"blk\\.(1[0-9]|2[0-9])\\.ffn_.*_exps", 1},
                 {"blk\\.\\d\\.", 3},
                 {"blk\\.\\d{2,}\\.", 2},
                 {"^blk\\.(?:[0-2]|12)\\b", 2},
                 {"weight$", 6},
                 {"^weight", 0},
                 {"ffn_(gate|up)_exps", 2},
                 {"[^a-z_.0-9]", 0},
                 {"", 6},
                 {"(a|b|)*c*?d+w", 0},
                 {"blk\\.[5-9]|embd", 2},
                 {"b{1}l{0}k", 0},
                 {"b{1,3}lk", 5},
                 {"(f){2}n", 4},
                 {"\\w+\\.\\d+\\.\\S+", 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (check(cases[i].pattern, names, 6) != cases[i].found)
            fail_msg("/%s/: %d", cases[i].pattern, check(cases[i].pattern, names, 6));
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *why;
    } cases[] = {{"(", "a ( has no )"},
                 {")", "a ) has no ("},
                 {"a|b)", "a ) has no ("},
                 {"[a", "a [ has no ]"},
                 {"[b-a]", "a range of [] ends before it begins"},
                 {"*a", "nothing is there to be repeated"},
                 {"a|+", "nothing is there to be repeated"},
                 {"(?!a)b", "there is no look-ahead"},
                 {"(a)\\1", "what is behind a backslash is not known"},
                 {"a\\", "nothing is behind a backslash"},
                 {"[\\", "what is behind a backslash is not known"},
                 {"a{", "{} has no number"},
                 {"a{2,1}", "{} has a larger number before a smaller one"},
                 {"a{2", "a { has no }"},
                 {"(((a{99}){99}){99})", "it is too long"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = NULL;
        assert_null(hearth_pattern_open(cases[i].pattern, strlen(cases[i].pattern), &why));
        assert_string_equal(why, cases[i].why);
    }
    char deep[200];
    const char *why = NULL;
    memset(deep, '(', sizeof deep);
    assert_null(hearth_pattern_open(deep, sizeof deep, &why));
    assert_string_equal(why, "its groups are too deep");
    hearth_pattern_close(NULL);
}

// Time does not explode where backtracking does.
static void test_time(void **state)
{
    (void)state;
    char text[3000];
    const char *why;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    struct hearth_pattern *p = hearth_pattern_open("((a*)*)*b", 9, &why);
    assert_non_null(p);
    assert_false(hearth_pattern_is_in(p, text));
    hearth_pattern_close(p);
}

static void test_random(void **state)
{
    (void)state;
    static const char *const parts[] = {"a", "b",   ".",   "[ab]", "[^a]", "(",    "(?:",   ")",
                                        "|", "*",   "+",   "?",    "{2}",  "{1,}", "{0,2}", "^",
                                        "$", "\\b", "\\.", "\\d",  "\\W",  "c"};
    static const char letters[] = "abc.1 ";
    unsigned seed = 1;
    int known = 0;
    for (int round = 0; round < 30000; round++) {
        char pattern[100] = "", texts[4][12];
        const char *list[4];
        for (int i = 0, n = 1 + (int)((seed = seed * 1664525 + 1013904223) >> 29); i < n; i++) {
            seed = seed * 1664525 + 1013904223;
            strcat(pattern, parts[(seed >> 16) % (sizeof parts / sizeof *parts)]);
        }
        for (int k = 0; k < 4; k++) {
            int n = 0;
            for (; n < 3 * k; n++) {
                seed = seed * 1664525 + 1013904223;
                texts[k][n] = letters[(seed >> 16) % (sizeof letters - 1)];
            }
            texts[k][n] = 0;
            list[k] = texts[k];
        }
        known += check(pattern, list, 4) >= 0 && finds(pattern, "") >= 0;
    }
    printf("%d patterns\n", known);
    assert_true(known > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_time), cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
