// SPDX-License-Identifier: MIT
// Conversations with calls, brought into a form that templates without them render.
#include "check.h"

#include <jansson.h>

#include "calls/history.h"
#include "calls_support.h"

static json_t *read_json(const char *text)
{
    json_error_t where;
    json_t *v = json_loads(text, 0, &where);
    if (!v)
        fail_msg("%s", where.text);
    return v;
}

#define TOOLS "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}]"
#define ASK   "{\"role\":\"user\",\"content\":\"Rain?\"}"
#define CALLS                                                                                                     \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{" \
    "\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}},{\"id\":\"2\",\"type\":\"function\",\"function\":{"        \
    "\"name\":\"g\",\"arguments\":{\"b\":2}}}]}"
#define RESULT(id, text) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" text "\"}"

// What the template makes of the messages; the caller frees it.
static char *render(const char *name, const char *messages, const char *tools)
{
    const struct hearth_call_format f = find_format(name);
    struct hearth_chat_template *t = open_template(name);
    json_t *given = read_json(messages), *listed = tools ? read_json(tools) : NULL,
           *adapted = hearth_call_messages(&f, given, listed);
    assert_non_null(adapted);
    struct hearth_chat_params params = hearth_chat_params_default();
    struct hearth_chat_text *text;
    char *dumped = json_dumps(adapted, 0);
    size_t n;
    params.messages = dumped;
    params.tools = tools;
    CHECK(hearth_chat_render(&text, t, &params, &check_error));
    const char *bytes = hearth_chat_text_bytes(text, &n);
    char *copy = strndup(bytes, n);
    hearth_chat_text_close(&text);
    hearth_chat_template_close(&t);
    free(dumped);
    json_decref(given);
    json_decref(listed);
    json_decref(adapted);
    return copy;
}

static void check_rendering(const char *name, const char *messages, const char *tools, const char *want)
{
    char *got = render(name, messages, tools);
    assert_string_equal(got, want);
    free(got);
}

static void test_without_calls(void **state)
{
    (void)state;
    static const char instructions[] =
        "You can call functions. These are there, with JSON schemas of their arguments:\n"
        "{\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}\n"
        "To call one, answer in this form, and with nothing behind it:\n"
        "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {ARGUMENTS}}\n</tool_call>";
    char want[2048];
    snprintf(
        want, sizeof want,
        "<|im_start|>system\n%s<|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant\n"
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": "
        "\"g\", \"arguments\": {\"b\": 2}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nno"
        "\n</tool_response>\n<tool_response>\nyes\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
        instructions);
    check_rendering("chatml", "[" ASK "," CALLS "," RESULT("1", "no") "," RESULT("2", "yes") "]", TOOLS,
                    want);
    snprintf(want, sizeof want,
             "<|im_start|>system\nBe brief.\n\n%s<|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n"
             "<|im_start|>assistant\n",
             instructions);
    check_rendering(
        "chatml", "[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"Be brief.\"}]}," ASK "]",
        TOOLS, want);
    // Without tools there is nothing to tell.
    check_rendering("chatml", "[" ASK "]", "[]",
                    "<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant\n");
}

// A template that knows calls and tools gets the messages as they are.
static void test_with_calls(void **state)
{
    (void)state;
    const struct hearth_call_format f = find_format("qwen3-tools");
    json_t *messages = read_json("[" ASK "," CALLS "," RESULT("1", "no") "]"), *tools = read_json(TOOLS),
           *adapted = hearth_call_messages(&f, messages, tools);
    assert_true(json_equal(messages, adapted));
    json_decref(adapted);
    json_decref(messages);
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_calls),
        cmocka_unit_test(test_with_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
