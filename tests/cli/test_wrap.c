// SPDX-License-Identifier: MIT
// Text in lines: none is too long unless one of its words is, no word is lost or cut, and lines are as full as
// they can be.
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "cli/wrap.h"

static void wraps(const char *text, size_t width, size_t indent, size_t at, const char *want)
{
    char *got = hearth_wrap(text, width, indent, at);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void test_lines(void **state)
{
    (void)state;
    wraps("", 10, 2, 0, "");
    wraps("one two three", 13, 2, 0, "one two three");
    wraps("one two three", 12, 2, 0, "one two\n  three");
    wraps("one two three four", 10, 0, 0, "one two\nthree four");
    wraps("one two", 10, 4, 4, "one\n    two"); // something precedes it
    wraps("one  two", 7, 0, 0, "one\ntwo");
    wraps("one  two", 8, 0, 0, "one  two");
}

// A path is to be copied whole.
static void test_long_words(void **state)
{
    (void)state;
    wraps("a /very/long/path is", 8, 2, 0, "a /very/long/path\n  is");
    wraps("/very/long/path", 4, 2, 2, "/very/long/path");
}

static void test_newlines(void **state)
{
    (void)state;
    wraps("one\ntwo three\n\nfour", 7, 2, 0, "one\n  two\n  three\n\n  four");
    wraps("one\n", 6, 2, 0, "one\n");
}

static void test_characters(void **state)
{
    (void)state;
    wraps("äöü äöü", 7, 0, 0, "äöü äöü");
    wraps("äöü äöü", 6, 0, 0, "äöü\näöü");
}

// All widths: the words are those of the text, and no line but one of a single word is too wide.
static void test_all_widths(void **state)
{
    (void)state;
    const char *text =
        "the file has 3000000 bytes, and tensor token_embd.weight needs 1114112 of them at 2540736";
    for (size_t width = 1; width < 120; width++) {
        char *got = hearth_wrap(text, width, 3, 0), *save = NULL;
        char words[200] = "";
        assert_non_null(got);
        for (char *line = strtok_r(got, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            const char *start = line + strspn(line, " ");
            if (strlen(line) > width)
                assert_true(!strchr(start, ' ') || strcspn(start, " ") + 3 > width ||
                            strlen(strrchr(start, ' ')) + 2 > width);
            strcat(strcat(words, *words ? " " : ""), start);
        }
        assert_string_equal(words, text);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_long_words),
                                       cmocka_unit_test(test_newlines), cmocka_unit_test(test_characters),
                                       cmocka_unit_test(test_all_widths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
