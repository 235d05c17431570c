// SPDX-License-Identifier: MIT
// A program may have set any locale: numbers in files, templates and parameters have points all the same. Skipped where no
// German locale can be made.
#include "check.h"

#include <locale.h>

#include "base/os.h"
#include "base/storage.h"
#include "hearth.h"
#include "plan/probe.h"

// Compiles a locale whose numbers have commas into the test's folder, and sets it.
static bool speak_german(void)
{
    char command[600];
    const char *locales = in_folder("locales");
    snprintf(command, sizeof command,
             "mkdir -p %s && localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", locales, locales);
    if (system(command) != 0)
        return false;
    setenv("LOCPATH", locales, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") && localeconv()->decimal_point[0] == ',';
}

static void test_numbers(void **state)
{
    (void)state;
    char *end, text[40];
    const char *number = "0.5x";
    assert_true(strtod(number, NULL) == 0); // else the locale shows nothing
    assert_true(hearth_strtod(number, &end) == 0.5 && *end == 'x');
    hearth_print_number(text, sizeof text, 'f', 2, 1.25);
    assert_string_equal(text, "1.25");
    hearth_print_number(text, sizeof text, 'g', 9, 1.25);
    assert_string_equal(text, "1.25");
    snprintf(text, sizeof text, "%.2f", 1.25);
    assert_string_equal(text, "1,25"); // the program's own locale is as it was
}

static void test_parameters(void **state)
{
    (void)state;
    struct hearth_throttle throttle;
    CHECK(hearth_throttle_parse(&throttle, "0.5,40.25", &check_error));
    assert_true(throttle.iops == 0.5 && throttle.mbps == 40.25);
    static const char least[] =
        "name = a\ncores = 2\nmemory_gb_s = 43.9\ncore_gb_s = 15.5\nrequest_us = 3.7\n"
        "byte_ns = 0.27\nsequential_gb_s = 4\nkernel.any.gb_s = 10\n"
        "kernel.any.gmac_s = 20\nkernel.any.prompt_gmac_s = 30\n";
    struct hearth_probe p, q;
    char text[HEARTH_PROBE_TEXT];
    CHECK(hearth_probe_parse(&p, least, sizeof least - 1, &check_error));
    assert_true(p.memory_gb_s > 43.8 && p.byte_ns > 0.26);
    hearth_probe_print(&p, text);
    assert_non_null(strstr(text, "byte_ns = 0.27\n"));
    CHECK(hearth_probe_parse(&q, text, strlen(text), &check_error));
    assert_true(q.memory_gb_s == p.memory_gb_s);
}

static void test_template(void **state)
{
    (void)state;
    static const char source[] = "{{ 0.5 + x }} {{ x | round(1) }} {{ '2.75' | float }} {{ x | tojson }}";
    struct hearth_chat_template *t;
    struct hearth_chat_text *out;
    struct hearth_chat_params params = hearth_chat_params_default();
    size_t n;
    params.messages = "[]";
    params.variables = "{\"x\": 1.25}";
    CHECK(hearth_chat_template_open(&t, NULL, source, &check_error));
    CHECK(hearth_chat_render(&out, t, &params, &check_error));
    const char *s = hearth_chat_text_bytes(out, &n);
    if (n != 18 || strncmp(s, "1.75 1.2 2.75 1.25", n) != 0)
        fail_msg("%.*s", (int)n, s);
    hearth_chat_text_close(&out);
    hearth_chat_template_close(&t);
}

static void test_model(void **state)
{
    (void)state;
    struct hearth_model *m;
    char text[64];
    CHECK(hearth_model_open(&m, HEARTH_SOURCE_DIR "/tests/golden/models/granitemoe.Q8_0.gguf", NULL,
                            &check_error));
    assert_true(hearth_model_meta_text(m, "granitemoe.embedding_scale", 0, text, sizeof text) > 0);
    assert_string_equal(text, "2.5");
    hearth_model_close(&m);
}

static int stop(void **state)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s", in_folder("locales"));
    return system(command) ? -1 : remove_folder(state);
}

static int start(void **state)
{
    const int rc = make_folder(state);
    if (rc || speak_german())
        return rc;
    fprintf(stderr, "skipped: no German locale can be made\n");
    stop(state);
    exit(77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_parameters),
                                       cmocka_unit_test(test_template), cmocka_unit_test(test_model)};
    return cmocka_run_group_tests(tests, start, stop);
}
