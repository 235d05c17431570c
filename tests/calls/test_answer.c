// SPDX-License-Identifier: MIT
// Formats of calls found from templates, and answers taken apart, at once and byte by byte.
#include "check.h"

#include <jansson.h>

#include "calls/answer.h"
#include "calls_support.h"

static void test_formats(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct hearth_call_format want;
    } cases[] = {
        {"hermes-tools",
         {.calls = true,
          .results = true,
          .parallel = true,
          .begin = "<tool_call>\n",
          .end = "\n</tool_call>",
          .separator = "\n",
          .arguments_key = "arguments",
          .trigger = "<tool_call>"}},
        {"qwen3-tools",
         {.calls = true,
          .tools = true,
          .results = true,
          .parallel = true,
          .begin = "<tool_call>\n",
          .end = "\n</tool_call>",
          .separator = "\n",
          .arguments_key = "arguments",
          .trigger = "<tool_call>"}},
        {"llama31-tools", {.calls = true, .tools = true, .results = true, .arguments_key = "parameters"}},
        {"mistral-tools",
         {.calls = true,
          .tools = true,
          .results = true,
          .parallel = true,
          .call_ids = true,
          .opening = "[TOOL_CALLS] [",
          .separator = ", ",
          .closing = "]",
          .arguments_key = "arguments",
          .trigger = "[TOOL_CALLS]"}},
        {"mistral-args",
         {.style = HEARTH_CALLS_NAMED,
          .calls = true,
          .tools = true,
          .results = true,
          .parallel = true,
          .begin = "[TOOL_CALLS]",
          .between = "[ARGS]",
          .trigger = "[TOOL_CALLS]"}},
        {"deepseek-r1",
         {.style = HEARTH_CALLS_NAMED,
          .calls = true,
          .results = true,
          .parallel = true,
          .opening = DS_OPENING,
          .begin = DS_BEGIN,
          .between = "\n```json\n",
          .end = DS_END,
          .separator = "\n",
          .closing = DS_CLOSING,
          .trigger = DS_OPENING}},
        {"qwen-coder",
         {.style = HEARTH_CALLS_FIELDS,
          .calls = true,
          .tools = true,
          .results = true,
          .parallel = true,
          .begin = "<tool_call>\n<function=",
          .between = ">",
          .field = "\n<parameter=",
          .field_middle = ">\n",
          .field_end = "\n</parameter>",
          .end = "\n</function>\n</tool_call>",
          .separator = "\n",
          .trigger = "<tool_call>"}},
        {"glm",
         {.style = HEARTH_CALLS_FIELDS,
          .calls = true,
          .tools = true,
          .results = true,
          .parallel = true,
          .begin = "<tool_call>",
          .field = "<arg_key>",
          .field_middle = "</arg_key><arg_value>",
          .field_end = "</arg_value>",
          .end = "</tool_call>",
          .trigger = "<tool_call>"}},
        {"gemma4-tools",
         {.style = HEARTH_CALLS_MARKED,
          .calls = true,
          .tools = true,
          .results = true,
          .parallel = true,
          .begin = "<|tool_call>call:",
          .mark = "<|\"|>",
          .end = "<tool_call|>",
          .trigger = "<|tool_call>"}},
        {"harmony", {.style = HEARTH_CALLS_HARMONY, .calls = true, .tools = true, .results = true}},
        {"gpt-oss", {.style = HEARTH_CALLS_HARMONY, .results = true}},
        {"chatml",
         {.results = true,
          .parallel = true,
          .begin = "<tool_call>\n",
          .end = "\n</tool_call>",
          .separator = "\n",
          .arguments_key = "arguments",
          .trigger = "<tool_call>"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct hearth_call_format got = find_format(cases[i].name), *want = &cases[i].want;
        print_message("%s\n", cases[i].name);
        assert_int_equal(got.style, want->style);
        assert_int_equal(got.calls, want->calls);
        assert_int_equal(got.tools, want->tools);
        assert_int_equal(got.results, want->results);
        assert_int_equal(got.parallel, want->parallel);
        assert_int_equal(got.call_ids, want->call_ids);
        assert_string_equal(got.opening, want->opening);
        assert_string_equal(got.begin, want->begin);
        assert_string_equal(got.between, want->between);
        assert_string_equal(got.field, want->field);
        assert_string_equal(got.field_middle, want->field_middle);
        assert_string_equal(got.field_end, want->field_end);
        assert_string_equal(got.mark, want->mark);
        assert_string_equal(got.end, want->end);
        assert_string_equal(got.separator, want->separator);
        assert_string_equal(got.closing, want->closing);
        assert_string_equal(got.arguments_key, want->arguments_key);
        assert_string_equal(got.trigger, want->trigger);
    }
}

// ---- answers

// What was handed out, as text: kinds in angle quotes, pieces of one kind joined.
struct record {
    char text[1 << 14];
    size_t n;
    int last;
};

static void put(struct record *r, const char *s, size_t n)
{
    assert_true(r->n + n < sizeof r->text);
    memcpy(r->text + r->n, s, n);
    r->n += n;
    r->text[r->n] = '\0';
}

static void take(void *arg, const struct hearth_answer_part *part)
{
    static const char *const kinds[] = {"{C}", "{R}", "{F}", "{A}", "{.}"};
    struct record *r = arg;
    if (r->last != (int)part->kind || part->kind == HEARTH_ANSWER_CALL)
        put(r, kinds[part->kind], 3);
    r->last = (int)part->kind;
    if (part->kind != HEARTH_ANSWER_CALL_END)
        assert_true(part->n);
    if (part->n)
        put(r, part->text, part->n);
}

static const char *take_apart(struct record *r, const struct hearth_answer_params *p, const char *text,
                              size_t step)
{
    struct hearth_answer *a;
    *r = (struct record){.last = -1};
    CHECK(hearth_answer_open(&a, p, take, r, &check_error));
    const size_t n = strlen(text);
    for (size_t at = 0; at < n; at += step)
        CHECK(hearth_answer_push(a, text + at, n - at < step ? n - at : step, &check_error));
    hearth_answer_finish(a);
    hearth_answer_close(&a);
    return r->text;
}

struct answer_case {
    const char *format, *prompt, *answer, *want;
};

static void check_answers(const struct answer_case *cases, size_t n, bool calls)
{
    static const char *const names[] = {"f", "get_weather"};
    static struct record whole, pieces;
    json_t *tools = json_pack("[{s:{s:s, s:{s:{s:{s:s}, s:{s:s}}}}}]", "function", "name", "f", "parameters",
                              "properties", "a", "type", "integer", "b", "type", "string");
    assert_non_null(tools);
    for (size_t i = 0; i < n; i++) {
        const struct hearth_call_format f = find_format(cases[i].format);
        const struct hearth_answer_params p = {
            &f,    calls, cases[i].prompt, cases[i].prompt ? strlen(cases[i].prompt) : 0,
            names, 2,     tools,           false};
        if (strcmp(take_apart(&whole, &p, cases[i].answer, 1 << 20), cases[i].want) != 0)
            fail_msg("%s: %s\n gives  %s\n not    %s", cases[i].format, cases[i].answer, whole.text,
                     cases[i].want);
        for (size_t step = 1; step < 8; step++)
            if (strcmp(take_apart(&pieces, &p, cases[i].answer, step), whole.text) != 0)
                fail_msg("%s: %s\n in pieces of %zu gives\n %s\n not\n %s", cases[i].format, cases[i].answer,
                         step, pieces.text, whole.text);
    }
    json_decref(tools);
}

#define CHECK_ANSWERS(cases, calls) check_answers(cases, sizeof cases / sizeof *(cases), calls)

static void test_tags(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"hermes-tools", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
         "{F}f{A}{\"a\": 1}{.}"},
        {"hermes-tools", NULL,
         "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}<\\\"\"}}\n</tool_call>\n"
         "<tool_call>{\"arguments\":{\"b\":[1,2]},\"name\":\"g\"}</tool_call>\n",
         "{C}I look.{F}f{A}{\"a\": \"}<\\\"\"}{.}{F}g{A}{\"b\":[1,2]}{.}"},
        {"hermes-tools", NULL,
         "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"\\\\n\\u00e9\\ud83d\\ude00\\\"}\"}"
         "</tool_call>",
         "{F}f{A}{\"a\": \"\\n\xC3\xA9\xF0\x9F\x98\x80\"}{.}"},
        {"hermes-tools", NULL, "<tool_call>{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": \"f\"}</tool_call>",
         "{F}f{A}{\"a\": 1}{.}"},
        {"hermes-tools", NULL, "a < b <tool> c <tool_call", "{C}a < b <tool> c <tool_call"},
        {"hermes-tools", NULL, "  Hello, \n\nyou. \n", "{C}Hello, \n\nyou. \n"},
        {"hermes-tools", NULL, "<tool_call>not JSON</tool_call>", "{C}not JSON</tool_call>"},
        {"hermes-tools", NULL, "<tool_call>{\"name\": \"f\"}</tool_call>", "{F}f{A}{}{.}"},
        {"hermes-tools", NULL, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", "{F}f{A}{\"a\": "},
        {"hermes-tools", NULL, "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "{F}f{A}{}{.}"},
        {"hermes-tools", NULL, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> Done.",
         "{F}f{A}{}{.}{C}Done."},
        {"qwen3-tools", NULL,
         "<think>\nIt says <tool_call>.\n</think>\n\nOne moment.\n\n<tool_call>\n{\"name\": \"f\", "
         "\"arguments\": {}}\n</tool_call>",
         "{R}It says <tool_call>.{C}One moment.{F}f{A}{}{.}"},
        {"qwen3-tools", "<|im_start|>assistant\n<think>\n", "Hm, </thin, yes.\n</think>\n\nNo.",
         "{R}Hm, </thin, yes.{C}No."},
        {"qwen3-tools", "assistant\n<think>\n\n</think>\n\n", "No.", "{C}No."},
        {"qwen3-tools", NULL, "<think>cut off", "{R}cut off"},
        {"qwen3-tools", NULL, "<think>\n\n</think>\n\nYes.", "{C}Yes."},
    };
    CHECK_ANSWERS(cases, true);
}

static void test_bare_objects(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"llama31-tools", NULL, "{\"name\": \"f\", \"parameters\": {}}; {<|python_tag|>\"a\": 3} x",
         "{F}f{A}{}{.}{C}{\"a\": 3} x"}, // a tag behind it hides no object
        {"llama31-tools", NULL, "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}",
         "{F}get_weather{A}{\"city\": \"Oslo\"}{.}"},
        {"llama31-tools", NULL, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "{F}f{A}{}{.}"},
        {"llama31-tools", NULL,
         "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"x\": {}}}}",
         "{F}f{A}{\"x\": {}}{.}"},
        {"llama31-tools", NULL, "{\"type\": \"function\", \"function\": \"f\", \"parameters\": {}}",
         "{F}f{A}{}{.}"},
        {"llama31-tools", NULL,
         "{\"name\": \"f\", \"parameters\": {\"x\": 1}}; {\"name\": \"f\", \"parameters\": {\"x\": 2}}",
         "{F}f{A}{\"x\": 1}{.}{F}f{A}{\"x\": 2}{.}"},
        {"llama31-tools", NULL, "{\"name\": \"Ada\", \"age\": 36}", "{C}{\"name\": \"Ada\", \"age\": 36}"},
        {"llama31-tools", NULL, "{\"name\": \"Ada\", \"parameters\": 36}",
         "{C}{\"name\": \"Ada\", \"parameters\": 36}"},
        {"llama31-tools", NULL, "{ is a bracket.", "{C}{ is a bracket."},
        {"llama31-tools", NULL, "So {\"name\": \"f\", \"parameters\": {}}",
         "{C}So {\"name\": \"f\", \"parameters\": {}}"},
    };
    CHECK_ANSWERS(cases, true);
}

static void test_lists_and_names(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"mistral-tools", NULL,
         "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": [\"]\"]}, \"id\": \"abcdefghi\"}, {\"name\": "
         "\"g\", \"arguments\": {}, \"id\": \"abcdefghj\"}]",
         "{F}f{A}{\"a\": [\"]\"]}{.}{F}g{A}{}{.}"},
        {"mistral-tools", NULL, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}]", "{F}f{A}{}{.}"},
        {"mistral-tools", NULL, " A list [1, 2].", "{C}A list [1, 2]."},
        {"mistral-args", NULL, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}",
         "{F}f{A}{\"a\": 1}{.}{F}g{A}{}{.}"},
        {"mistral-args", NULL, "Well: [TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}", "{C}Well:{F}f{A}{}{.}"},
        {"mistral-args", NULL, "[THINK]Hm.[/THINK]Yes.", "{R}Hm.{C}Yes."},
        {"deepseek-r1", "<think>\n",
         "Hm.\n</think>\n\n" DS_OPENING DS_BEGIN "f\n```json\n{\"a\": 1}" DS_END "\n" DS_BEGIN
         "g\n```json\n{}" DS_END DS_CLOSING,
         "{R}Hm.{F}f{A}{\"a\": 1}{.}{F}g{A}{}{.}"},
        {"deepseek-r1", NULL, "An \xEF\xBD\x9C and <\xEF\xBD\x9Ctool.",
         "{C}An \xEF\xBD\x9C and <\xEF\xBD\x9Ctool."},
    };
    CHECK_ANSWERS(cases, true);
}

static void test_fields(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"qwen-coder", NULL,
         "So:\n\n<tool_call>\n<function=f>\n<parameter=a>\n12\n</parameter>\n<parameter=b>\n \"x\"\n\n"
         "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
         "{C}So:{F}f{A}{\"a\": 12, \"b\": \" \\\"x\\\"\\n\"}{.}{F}g{A}{}{.}"},
        {"qwen-coder", NULL, "<tool_call>\n<function=g>\n<parameter=list>\n[0.1, {}]\n</parameter>\n",
         "{F}g{A}{\"list\": [0.1, {}]"},
        {"qwen-coder", NULL, "<tool_call>\nNothing", "{C}\nNothing"},
        // An end within a line is text, unless the call goes on behind it.
        {"qwen-coder", NULL,
         "<tool_call>\n<function=f>\n<parameter=b>\n<p><parameter n=\"x\">1</parameter></p>\n</parameter>\n"
         "</function>\n</tool_call>",
         "{F}f{A}{\"b\": \"<p><parameter n=\\\"x\\\">1</parameter></p>\"}{.}"},
        {"qwen-coder", NULL,
         "<tool_call>\n<function=f>\n<parameter=a>\n12</parameter>\n<parameter=b>\nx</parameter>\n</function>\n"
         "</tool_call>",
         "{F}f{A}{\"a\": 12, \"b\": \"x\"}{.}"},
        {"glm", "<think>",
         "Hm.</think><tool_call>f<arg_key>a</arg_key><arg_value>12</arg_value><arg_key>b</arg_key><arg_value>"
         "12</arg_value></tool_call><tool_call>g</tool_call>",
         "{R}Hm.{F}f{A}{\"a\": 12, \"b\": \"12\"}{.}{F}g{A}{}{.}"},
    };
    CHECK_ANSWERS(cases, true);
}

#define Q "<|\"|>"
static void test_marked(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"gemma4-tools", NULL, "<|tool_call>call:f{a:12,b:" Q "x \"y\" {},\\\n<|z" Q "}<tool_call|>",
         "{F}f{A}{\"a\":12,\"b\":\"x \\\"y\\\" {},\\\\\\u000a<|z\"}{.}"},
        {"gemma4-tools", NULL,
         "I look.<|tool_call>call:g{list:[" Q "a" Q ", -1.5e3 ,true,null],o:{k:{},l:[]}}<tool_call|>"
         "<|tool_call>call:f{}<tool_call|>",
         "{C}I look.{F}g{A}{\"list\":[\"a\",-1.5e3,true,null],\"o\":{\"k\":{},\"l\":[]}}{.}{F}f{A}{}{.}"},
        {"gemma4-tools", NULL, "<|tool_call>call:f{" Q "a" Q ":1,b:New \"Y\" ,c:\"Oslo\"}<tool_call|>",
         "{F}f{A}{\"a\":1,\"b\":\"New \\\"Y\\\"\",\"c\":\"Oslo\"}{.}"}, // keys in marks, a text without any
        {"gemma4-tools", NULL, "<|channel>thought\nHm, <chan.\n<channel|>Yes.", "{R}Hm, <chan.{C}Yes."},
        {"gemma4-tools", NULL, "<|tool_call>call:f{a:" Q "cut o", "{F}f{A}{\"a\":\"cut o"},
        {"gemma4-tools", NULL, "<|tool_call>call:f{a:1", "{F}f{A}{\"a\":"},
        {"gemma4-tools", NULL, "<|tool_call>call:f{a:1}", "{F}f{A}{\"a\":1}{.}"},
        {"gemma4-tools", NULL, "<|tool_call>say", "{C}say"},
        {"gemma4-tools", "<|turn>model\n<|channel>thought\n<channel|>", "No.", "{C}No."},
    };
    CHECK_ANSWERS(cases, true);
}

static void test_harmony(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"harmony", NULL,
         "<|channel|>analysis<|message|>I should look.<|end|><|start|>assistant<|channel|>commentary "
         "to=functions.f <|constrain|>json<|message|>{\"a\": \"<|\"}<|call|>",
         "{R}I should look.{F}f{A}{\"a\": \"<|\"}{.}"},
        {"harmony", NULL, " to=functions.f<|channel|>commentary json<|message|>{}", "{F}f{A}{}{.}"},
        {"harmony", NULL,
         "<|channel|>analysis<|message|>Hm <b>.<|end|><|start|>assistant<|channel|>commentary<|message|>I "
         "look.<|end|><|start|>assistant<|channel|>final<|message|>It rains. <",
         "{R}Hm <b>.{C}I look.It rains. <"},
        {"harmony", NULL, " to=functions.f<|channel|>commentary<|message|>{\"a\": ", "{F}f{A}{\"a\": "},
        {"gpt-oss", NULL, "<|channel|>final<|message|>Yes.<|return|>", "{C}Yes."},
        {"gpt-oss", NULL, "<|channel|>fin", ""},
    };
    CHECK_ANSWERS(cases, true);
}

static void test_without_tools(void **state)
{
    (void)state;
    static const struct answer_case cases[] = {
        {"qwen3-tools", NULL, "<think>\nHm.\n</think>\n\n<tool_call>{\"name\": \"f\"}</tool_call>",
         "{R}Hm.{C}<tool_call>{\"name\": \"f\"}</tool_call>"},
        {"llama31-tools", NULL, " {\"name\": \"f\", \"parameters\": {}}\n",
         "{C} {\"name\": \"f\", \"parameters\": {}}\n"},
    };
    CHECK_ANSWERS(cases, false);
}

// An answer that goes on in the middle of a message keeps its first blank.
static void test_continued(void **state)
{
    (void)state;
    static const char *const formats[] = {"qwen3-tools", "llama31-tools", "harmony"};
    static struct record got;
    for (int i = 0; i < 3; i++) {
        const struct hearth_call_format f = find_format(formats[i]);
        const struct hearth_answer_params p = {.format = &f, .calls = true, .continued = true};
        assert_string_equal(take_apart(&got, &p, " 42", 1), "{C} 42");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_continued),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_bare_objects),
        cmocka_unit_test(test_lists_and_names),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_harmony),
        cmocka_unit_test(test_marked),
        cmocka_unit_test(test_without_tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
