// SPDX-License-Identifier: MIT
// Running out of memory while formats are found, grammars made, answers taken apart.
#include "failing_alloc.h"

#include <jansson.h>

#include "base/error.h"
#include "calls/answer.h"
#include "calls/grammar.h"
#include "calls/history.h"
#include "calls_support.h"

static struct hearth_chat_template *template;
static struct hearth_call_format format;
static json_t *tools;

static int find_it(void)
{
    struct hearth_call_format f;
    return hearth_call_format_find(&f, template, &alloc_error);
}

static int make_grammar(void)
{
    char *gbnf;
    const struct hearth_call_grammar_params p = {.format = &format, .tools = tools, .parallel = true};
    const int rc = hearth_call_grammar(&gbnf, &p, &alloc_error);
    assert_true(!rc == (gbnf != NULL));
    free(gbnf);
    return rc;
}

static void ignore(void *arg, const struct hearth_answer_part *part)
{
    (void)arg;
    (void)part;
}

static int take_apart(void)
{
    static const char text[3000] = "<think>";
    const struct hearth_answer_params p = {.format = &format, .calls = true};
    struct hearth_answer *a;
    int rc = hearth_answer_open(&a, &p, ignore, NULL, &alloc_error);
    if (!rc)
        rc = hearth_answer_push(a, text, sizeof text, &alloc_error);
    if (!rc)
        hearth_answer_finish(a);
    hearth_answer_close(&a);
    return rc;
}

static int write_history(void)
{
    struct hearth_call_format f = format;
    json_t *messages =
        json_pack("[{s:s, s:[{s:{s:s, s:{}}}]}, {s:s, s:s}]", "role", "assistant", "tool_calls", "function",
                  "name", "f", "arguments", "role", "tool", "content", "yes");
    f.calls = f.tools = false;
    json_t *out = hearth_call_messages(&f, messages, tools);
    json_decref(messages);
    json_decref(out);
    return out ? 0 : hearth_fail(&alloc_error, HEARTH_E_MEMORY, "no memory for messages");
}

static void check_all(const char *name)
{
    template = open_template(name);
    format = find_format(name);
    tools = json_pack("[{s:{s:s, s:{s:s, s:{s:{s:s}}}}}]", "function", "name", "f", "parameters", "type",
                      "object", "properties", "a", "pattern", "^[a-z]{3}$");
    assert_non_null(tools);
    assert_true(exhaust_memory(find_it) > 10);
    assert_true(exhaust_memory(make_grammar) > 3);
    assert_true(exhaust_memory(take_apart) > 1);
    assert_true(exhaust_memory(write_history) > 1);
    json_decref(tools);
    hearth_chat_template_close(&template);
}

static void test_all(void **state)
{
    (void)state;
    check_all("qwen3-tools");
    check_all("gemma4-tools");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
