// SPDX-License-Identifier: MIT
// Grammars of calls: what they allow and refuse in every family, and that what a model writes under them is
// taken apart into calls with valid arguments.
#include "check.h"

#include <jansson.h>

#include "calls/answer.h"
#include "calls/grammar.h"
#include "calls_support.h"

static const char tools_text[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"a\":{\"$ref\":\"#/$defs/small\"}},\"required\":[\"a\"],\"additionalProperties\":false,\"$defs\":"
    "{\"small\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"text\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"t\":{\"type\":\"string\"},\"e\":{\"enum\":[\"x\",\"y\"]}},\"required\":[\"e\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"odd\",\"parameters\":{\"not\":{}}}}]";

static json_t *read_tools(const char *text)
{
    json_error_t where;
    json_t *tools = json_loads(text, 0, &where);
    if (!tools)
        fail_msg("%s", where.text);
    return tools;
}

static struct hearth_grammar *open_grammar(const struct hearth_call_grammar_params *params)
{
    char *gbnf;
    struct hearth_grammar *g;
    struct hearth_error err = {0};
    CHECK(hearth_call_grammar(&gbnf, params, &check_error));
    if (hearth_grammar_open(&g, params->model, gbnf, strlen(gbnf), &err))
        fail_msg("%s\n%s", err.message, gbnf);
    free(gbnf);
    return g;
}

// ---- what is allowed

enum { AUTO, REQUIRED, ONLY_G, PARALLEL }; // of auto; the others are not parallel

struct text_case {
    const char *format, *prompt;
    int how;
    const char *good[5], *bad[5];
};

static struct hearth_grammar *open_case(const struct text_case *c, const json_t *tools)
{
    const struct hearth_call_format f = find_format(c->format);
    const struct hearth_call_grammar_params params = {
        .format = &f,
        .tools = tools,
        .required = c->how == REQUIRED || c->how == ONLY_G,
        .only = c->how == ONLY_G ? "g" : NULL,
        .parallel = c->how == PARALLEL,
        .prompt = c->prompt,
        .n_prompt = c->prompt ? strlen(c->prompt) : 0,
    };
    return open_grammar(&params);
}

#define CALL(name, args)       "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " args "}\n</tool_call>"
#define FUNCTION(name, fields) "<tool_call>\n<function=" name ">" fields "\n</function>\n</tool_call>"
#define CHANNEL                "<|channel|>commentary"
#define Q                      "<|\"|>"
#define MARKED(name, fields)   "<|tool_call>call:" name "{" fields "}<tool_call|>"
static const struct text_case cases[] = {
    {"qwen3-tools",
     NULL,
     AUTO,
     {"", "Hello <tool> you", "<tool_", CALL("f", "{\"a\": 1}"), "So:\n" CALL("g", "{}")},
     {"<tool_call>", CALL("f", "{}"), CALL("f", "{\"a\": 10}"), CALL("h", "{}"),
      CALL("g", "{}") "\n" CALL("g", "{}")}},
    {"qwen3-tools",
     NULL,
     PARALLEL,
     {CALL("g", "{}") "\n" CALL("f", "{\"a\": 2}"), "<<tool<tool_" CALL("g", "{}")},
     {CALL("g", "{}") " and", CALL("g", "{}") "\n"}},
    {"qwen3-tools",
     NULL,
     REQUIRED,
     {CALL("odd", "{\"any\": [1]}"), "<think>\nI use <tool_call>.\n</think>\n\n" CALL("g", "{}")},
     {"", "So", "So " CALL("g", "{}"), "<think>", CALL("g", "{\"a\": 1}")}},
    {"qwen3-tools",
     "<think>\n",
     REQUIRED,
     {"Hm.</think>\n\n" CALL("g", "{}")},
     {CALL("g", "{}"), "Hm.</think>\n\nSo", "<think>Hm.</think>"}},
    {"qwen3-tools", NULL, ONLY_G, {CALL("g", "{}")}, {CALL("f", "{\"a\": 1}")}},
    {"llama31-tools",
     NULL,
     AUTO,
     {"", "Hello {", "{", "{\"name\": ", "{\"name\": \"f\", \"parameters\": {\"a\": 5}}"},
     {"{\"name\": \"", "{\"name\": \"Ada\"}", "{\"name\": \"f\", \"parameters\": {}}"}},
    {"llama31-tools", NULL, REQUIRED, {"{\"name\": \"g\", \"parameters\": {}}"}, {"", "Hello"}},
    {"mistral-tools",
     NULL,
     PARALLEL,
     {"[TOOL_CALLS] [{\"name\": \"g\", \"arguments\": {}, \"id\": \"abcDEF012\"}]", "[TOOL_CALL",
      "[TOOL_CALLS] [{\"name\": \"g\", \"arguments\": {}, \"id\": \"abcDEF012\"}, {\"name\": \"g\", "
      "\"arguments\": {}, \"id\": \"abcDEF013\"}]"},
     {"[TOOL_CALLS] [{\"name\": \"g\", \"arguments\": {}, \"id\": \"abcDEF012\"}",
      "[TOOL_CALLS] [{\"name\": \"g\", \"arguments\": {}, \"id\": \"\"}]"}},
    {"mistral-args",
     NULL,
     PARALLEL,
     {"Hm", "[TOOL_CALLS]f[ARGS]{\"a\":3}", "Hm[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]g[ARGS]{}"},
     {"[TOOL_CALLS]f[ARGS]{}", "[TOOL_CALLS]", "[TOOL_CALLS]g{}"}},
    {"deepseek-r1",
     "<think>\n",
     PARALLEL,
     {"Hm.\n</think>\n\nYes.", "Hm.\n</think>\n\n" DS_OPENING DS_BEGIN "g\n```json\n{}" DS_END "\n" DS_BEGIN
                               "f\n```json\n{\"a\": 1}" DS_END DS_CLOSING},
     {"Hm.", "Hm.\n</think>\n\n" DS_OPENING DS_BEGIN "g\n```json\n{}" DS_END,
      "Hm.\n</think>\n\n" DS_OPENING DS_BEGIN "f\n```json\n{}" DS_END DS_CLOSING}},
    {"harmony",
     NULL,
     AUTO,
     {"<|channel|>final<|message|>It rains.",
      "<|channel|>analysis<|message|>Hm <|x.<|end|><|start|>assistant" CHANNEL
      " to=functions.f <|constrain|>json<|message|>{\"a\": 1}",
      " to=functions.g" CHANNEL " json<|message|>{}"},
     {"It rains.", CHANNEL " to=functions.f<|message|>{}", "<|channel|>analysis<|message|>Hm"}},
    {"harmony",
     NULL,
     REQUIRED,
     {CHANNEL " to=functions.g<|message|>{}"},
     {"<|channel|>final<|message|>It rains."}},
    {"qwen-coder",
     NULL,
     PARALLEL,
     {FUNCTION("f", "\n<parameter=a>\n7\n</parameter>"), "So:\n" FUNCTION("g", "") "\n" FUNCTION("g", ""),
      FUNCTION("text", "\n<parameter=t>\n</param \n\n</parameter>\n<parameter=e>\ny\n</parameter>"),
      FUNCTION("text", "\n<parameter=e>\nx\n</parameter>")},
     {FUNCTION("f", ""), FUNCTION("f", "\n<parameter=a>\n10\n</parameter>"), FUNCTION("h", ""),
      FUNCTION("text", "\n<parameter=t>\n</parameter>"),
      FUNCTION("text", "\n<parameter=t>\n\n</parameter>\n<parameter=e>\nz\n</parameter>")}},
    {"glm",
     "<think>",
     REQUIRED,
     {"Hm.</think><tool_call>f<arg_key>a</arg_key><arg_value>7</arg_value></tool_call>",
      "</think>\n<tool_call>g</tool_call>"},
     {"<tool_call>g</tool_call>", "</think>So", "</think><tool_call>f</tool_call>"}},
    {"gemma4-tools",
     NULL,
     PARALLEL,
     {"", "Hello <|tool_", "So:" MARKED("f", "a:7"), MARKED("g", "") MARKED("f", "a:0"),
      MARKED("text", "e:" Q "x" Q ",t:" Q "}, <|\n" Q)},
     {MARKED("f", ""), MARKED("f", "a:10"), MARKED("h", ""), MARKED("text", "t:" Q "a" Q),
      MARKED("text", "e:" Q "z" Q)}},
    {"gemma4-tools",
     NULL,
     REQUIRED,
     {MARKED("odd", "any:[1,{b:" Q Q "}],c:null"), MARKED("text", "e:" Q "y" Q),
      "<|channel>thought\nHm.\n<channel|>" MARKED("g", "")},
     {"", "So", "<|channel>thought\n<channel|>", MARKED("text", "t:" Q Q ",e:" Q "y" Q), MARKED("g", "a:1")}},
    {"chatml", NULL, REQUIRED, {CALL("g", "{}")}, {"g"}},
};

static void test_texts(void **state)
{
    (void)state;
    json_t *tools = read_tools(tools_text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct text_case *c = &cases[i];
        struct hearth_grammar *g = open_case(c, tools);
        for (int k = 0; k < 5; k++) {
            if (c->good[k] && !hearth_grammar_matches(g, c->good[k], strlen(c->good[k])))
                fail_msg("%s, case %zu refuses %s", c->format, i, c->good[k]);
            if (c->bad[k] && hearth_grammar_matches(g, c->bad[k], strlen(c->bad[k])))
                fail_msg("%s, case %zu accepts %s", c->format, i, c->bad[k]);
        }
        hearth_grammar_close(&g);
    }
    json_decref(tools);
}

// A value under a schema comes behind thoughts that have begun, or in the final message.
static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *format, *prompt, *good[4], *bad[4];
    } forms[] = {
        {"qwen3-tools",
         "assistant\n",
         {"{\"a\": 7}"},
         {"", "Hm", "<think>\n</think>\n{\"a\": 7}", "{\"a\": 10}"}},
        {"qwen3-tools",
         "assistant\n<think>\n",
         {"Hm {\"a\": 10}.\n</think>\n\n{\"a\": 7}", "</think>{\"a\": 7}"},
         {"{\"a\": 7}", "Hm.</think>", "Hm.</think>So: {\"a\": 7}"}},
        {"harmony",
         "<|start|>assistant",
         {"<|channel|>final<|message|>{\"a\": 7}", "<|channel|>final <|constrain|>json<|message|>{\"a\": 7}",
          "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{\"a\": 7}"},
         {"{\"a\": 7}", "<|channel|>analysis<|message|>{\"a\": 7}", "<|channel|>final<|message|>Seven"}},
    };
    json_t *schema =
        json_loads("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\", \"maximum\": 9}},"
                   "\"required\": [\"a\"], \"additionalProperties\": false}",
                   0, NULL);
    assert_non_null(schema);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct hearth_call_format f = find_format(forms[i].format);
        const struct hearth_call_grammar_params params = {
            .format = &f, .prompt = forms[i].prompt, .n_prompt = strlen(forms[i].prompt)};
        char *gbnf;
        struct hearth_grammar *g;
        CHECK(hearth_form_grammar(&gbnf, &params, schema, &check_error));
        CHECK(hearth_grammar_open(&g, NULL, gbnf, strlen(gbnf), &check_error));
        for (int k = 0; k < 4; k++) {
            if (forms[i].good[k] && !hearth_grammar_matches(g, forms[i].good[k], strlen(forms[i].good[k])))
                fail_msg("form %zu refuses %s", i, forms[i].good[k]);
            if (forms[i].bad[k] && hearth_grammar_matches(g, forms[i].bad[k], strlen(forms[i].bad[k])))
                fail_msg("form %zu accepts %s", i, forms[i].bad[k]);
        }
        hearth_grammar_close(&g);
        free(gbnf);
    }
    json_decref(schema);
    schema = json_pack("{s:s}", "type", "nothing");
    const struct hearth_call_format f = find_format("chatml");
    const struct hearth_call_grammar_params params = {.format = &f};
    char *gbnf;
    struct hearth_error err = {0};
    assert_int_equal(hearth_form_grammar(&gbnf, &params, schema, &err), HEARTH_E_FORMAT);
    assert_null(gbnf);
    json_decref(schema);
}

// A tool whose schema becomes too large leaves room for those behind it (Gemma's own form of arguments).
static void test_large_schema(void **state)
{
    (void)state;
    json_t *tools = read_tools(
        "[{\"type\": \"function\", \"function\": {\"name\": \"find\", \"parameters\": {\"type\": \"object\", "
        "\"properties\": {\"node\": {\"$ref\": \"#/$defs/node\"}}, \"$defs\": {\"node\": {\"type\": \"object\", "
        "\"properties\": {\"and\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/node\"}}, \"or\": {\"type\": "
        "\"array\", \"items\": {\"$ref\": \"#/$defs/node\"}}}}}}}}, {\"type\": \"function\", \"function\": {\"name\": "
        "\"f\", \"strict\": true, \"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\", "
        "\"maximum\": 9, \"minimum\": 0}}, \"required\": [\"a\"]}}}]");
    const struct hearth_call_format f = find_format("gemma4-tools");
    const struct hearth_call_grammar_params params = {.format = &f, .tools = tools, .required = true};
    struct hearth_grammar *g = open_grammar(&params);
    const char *good = MARKED("f", "a:7"), *bad = MARKED("f", "a:10"), *any = MARKED("find", "node:{}");
    assert_true(hearth_grammar_matches(g, good, strlen(good)));
    assert_true(hearth_grammar_matches(g, any, strlen(any)));
    assert_false(hearth_grammar_matches(g, bad, strlen(bad)));
    hearth_grammar_close(&g);
    json_decref(tools);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *tools, *only;
        int code;
        const char *words;
    } refusals[] = {
        {"[]", NULL, HEARTH_E_INVALID, "no tools to be called"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", "g", HEARTH_E_INVALID, "no tool g"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]", NULL, HEARTH_E_INVALID,
         "a name has letters"},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"not\":{}}}}]",
         NULL, HEARTH_E_UNSUPPORTED, "the tool f: the schema, at #: not is not supported"},
    };
    const struct hearth_call_format f = find_format("chatml");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        json_t *tools = read_tools(refusals[i].tools);
        const struct hearth_call_grammar_params params = {
            .format = &f, .tools = tools, .required = true, .only = refusals[i].only};
        char *gbnf;
        REFUSED(hearth_call_grammar(&gbnf, &params, &check_error), refusals[i].code, refusals[i].words);
        assert_null(gbnf);
        json_decref(tools);
    }
}

// ---- a model

struct calls {
    int begun, ended;
    char arguments[4096];
    size_t n;
};

static void take(void *arg, const struct hearth_answer_part *part)
{
    struct calls *c = arg;
    if (part->kind == HEARTH_ANSWER_CALL) {
        c->begun++;
        c->n = 0;
    } else if (part->kind == HEARTH_ANSWER_ARGUMENTS) {
        assert_true(c->n + part->n < sizeof c->arguments);
        memcpy(c->arguments + c->n, part->text, part->n);
        c->n += part->n;
    } else if (part->kind == HEARTH_ANSWER_CALL_END) {
        json_error_t where;
        json_t *arguments = json_loadb(c->arguments, c->n, 0, &where);
        if (!json_is_object(arguments))
            fail_msg("arguments %.*s", (int)c->n, c->arguments);
        json_decref(arguments);
        c->ended++;
    } else {
        fail_msg("not a call: %.*s", (int)part->n, part->text);
    }
}

// Lets the model answer under the grammar; returns whether it came to an end.
static bool answer(struct hearth_session *session, const struct hearth_model *model, struct hearth_grammar *g,
                   struct hearth_answer *a, uint32_t seed)
{
    struct hearth_sampler_params p = hearth_sampler_params_default();
    struct hearth_sampler *s;
    struct hearth_error err;
    p.grammar = g;
    p.seed = seed;
    CHECK(hearth_sampler_open(&s, hearth_model_info(model)->n_vocab, &p, &check_error));
    hearth_token prompt[16];
    const int seq = hearth_seq_new(session, &err);
    const int64_t n = hearth_tokenize(model, "It was", 6, HEARTH_TOKENIZE_BOS, prompt, 16, &err);
    OK(hearth_prompt(session, seq, prompt, (int)n, NULL, NULL, &err));
    bool ended = false;
    for (int i = 0; i < 120 && !ended; i++) {
        char text[256];
        const hearth_token t = hearth_sample(s, hearth_logits(session, 0));
        assert_true(t >= 0);
        ended = hearth_token_is_eog(model, t);
        if (ended)
            break;
        CHECK(
            hearth_answer_push(a, text, hearth_token_bytes(model, t, true, text, sizeof text), &check_error));
        hearth_sampler_accept(s, t);
        OK(hearth_step(session, &seq, &t, 1, &err));
    }
    hearth_seq_free(session, seq);
    hearth_sampler_close(&s);
    return ended;
}

static void test_model(void **state)
{
    enum { N_ANSWERS = SANITIZED ? 7 : 14 };
    (void)state;
    static const char *const formats[] = {"qwen3-tools", "llama31-tools", "mistral-tools", "mistral-args",
                                          "deepseek-r1", "qwen-coder",    "gemma4-tools"};
    struct hearth_model *model;
    struct hearth_session *session;
    struct hearth_model_params mp = hearth_model_params_default();
    struct hearth_session_params sp = hearth_session_params_default();
    CHECK(hearth_model_open(&model, HEARTH_SOURCE_DIR "/models/hearth-novels-drelu-Q8_0.gguf", &mp,
                            &check_error));
    sp.n_ctx = 256;
    sp.n_threads = 1;
    CHECK(hearth_session_open(&session, model, &sp, &check_error));
    json_t *tools =
        read_tools("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
                   "\"object\",\"properties\":{\"a\":{\"enum\":[\"x\",\"y\",3]},\"b\":{\"type\":"
                   "\"boolean\"}},\"required\":[\"a\"],\"additionalProperties\":false}}}]");
    int ended = 0;
    for (uint32_t i = 0; i < N_ANSWERS; i++) {
        const struct hearth_call_format f = find_format(formats[i % 7]);
        const struct hearth_call_grammar_params params = {
            .format = &f, .model = model, .tools = tools, .required = true};
        const struct hearth_answer_params ap = {.format = &f, .calls = true};
        struct hearth_grammar *g = open_grammar(&params);
        struct hearth_answer *a;
        struct calls calls = {0};
        CHECK(hearth_answer_open(&a, &ap, take, &calls, &check_error));
        if (answer(session, model, g, a, i)) {
            hearth_answer_finish(a);
            assert_int_equal(calls.begun, 1);
            assert_int_equal(calls.ended, 1);
            ended++;
        }
        hearth_answer_close(&a);
        hearth_grammar_close(&g);
    }
    assert_true(ended >= N_ANSWERS - 2);
    json_decref(tools);
    hearth_session_close(&session);
    hearth_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),    cmocka_unit_test(test_forms), cmocka_unit_test(test_large_schema),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
