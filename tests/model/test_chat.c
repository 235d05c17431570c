// SPDX-License-Identifier: MIT
// Chats through hearth.h: templates of files and built-in ones, messages brought into the form that a template
// understands, origins, and tokens: a message can never become a control token.
#include "check.h"

#include "gguf/gguf.h"

static struct hearth_error err;

#define PLAIN                                                                                                \
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
#define TOOLS "tools{{ tools | length }}"

// A byte-level vocabulary of all bytes, BOS and two control tokens. `own` may be NULL.
static struct hearth_model *open_model_with(const char *own, const char *tools, bool add_bos)
{
    const char *path = in_folder("chat.gguf");
    static char texts[260][8];
    static struct hearth_str tokens[259], merge = {"a b", 3};
    static int32_t types[259];
    struct hearth_gguf_writer *w = NULL;
    struct hearth_model_params params = hearth_model_params_default();
    struct hearth_model *m = NULL;
    int n = 0;
    for (int b = 0; b < 256; b++) { // the byte alphabet: printable characters stand for themselves
        const bool plain = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        const int c = plain ? b : 256 + n++;
        tokens[b].s = texts[b];
        tokens[b].n = (size_t)(c < 0x80 ? snprintf(texts[b], 8, "%c", c)
                                        : snprintf(texts[b], 8, "%c%c", 0xC0 | c >> 6, 0x80 | (c & 63)));
        types[b] = 1;
    }
    static const char *const control[] = {"<s>", "<|im_start|>", "<|im_end|>"};
    for (int i = 0; i < 3; i++) {
        tokens[256 + i] = (struct hearth_str){control[i], strlen(control[i])};
        types[256 + i] = 3;
    }
    OK(hearth_gguf_writer_open(&w, path, &err));
    OK(hearth_gguf_put_str(w, "general.architecture", "llama", 5, &err));
    OK(hearth_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4, &err));
    OK(hearth_gguf_put_strings(w, "tokenizer.ggml.tokens", tokens, 259, &err));
    OK(hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_I32, types, 259, &err));
    OK(hearth_gguf_put_strings(w, "tokenizer.ggml.merges", &merge, 0, &err));
    OK(hearth_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 256, &err));
    OK(hearth_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", add_bos, &err));
    if (own) {
        OK(hearth_gguf_put_str(w, "tokenizer.chat_template", own, strlen(own), &err));
        OK(hearth_gguf_put_str(w, "tokenizer.chat_template.tool_use", tools, strlen(tools), &err));
    }
    OK(hearth_gguf_finish(&w, &err));
    params.vocab_only = true;
    OK(hearth_model_open(&m, path, &params, &err));
    return m;
}

static struct hearth_model *open_model(const char *own, bool add_bos)
{
    return open_model_with(own, TOOLS, add_bos);
}

// What the template makes of the messages.
static const char *rendered(const char *source, const struct hearth_chat_params *params)
{
    static char text[2000];
    struct hearth_chat_template *t;
    struct hearth_chat_text *out;
    size_t n;
    OK(hearth_chat_template_open(&t, NULL, source, &err));
    OK(hearth_chat_render(&out, t, params, &err));
    const char *s = hearth_chat_text_bytes(out, &n);
    assert_true(n < sizeof text);
    memcpy(text, s, n);
    text[n] = '\0';
    hearth_chat_text_close(&out);
    hearth_chat_template_close(&t);
    return text;
}

static const char *of_json(const char *source, const char *messages)
{
    struct hearth_chat_params params = hearth_chat_params_default();
    params.messages = messages;
    return rendered(source, &params);
}

// A template that takes calls' arguments as text gets them as they are, also those of a call that was cut off.
static void test_arguments(void **state)
{
    (void)state;
    static const char *const source =
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{% set a = c.function.arguments %}"
        "{{ a if a is string else a | tojson }}{% endfor %}{% endfor %}";
    static const char *const given[] = {"{\\\"city\\\":\\\"Paris\\\"}", "{\\\"city\\\":\\\"Pa"};
    static const char *const want[] = {"{\"city\":\"Paris\"}", "{\"city\":\"Pa"};
    struct hearth_chat_template *t;
    OK(hearth_chat_template_open(&t, NULL, source, &err));
    for (int i = 0; i < 2; i++) {
        char messages[400];
        struct hearth_chat_text *text;
        struct hearth_chat_params params = hearth_chat_params_default();
        snprintf(
            messages, sizeof messages,
            "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": "
            "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"%s\"}}]}]",
            given[i]);
        params.messages = messages;
        OK(hearth_chat_render(&text, t, &params, &err));
        size_t n;
        const char *bytes = hearth_chat_text_bytes(text, &n);
        assert_int_equal(n, strlen(want[i]));
        assert_memory_equal(bytes, want[i], n);
        hearth_chat_text_close(&text);
    }
    hearth_chat_template_close(&t);
}

static void test_tokens(void **state)
{
    (void)state;
    const struct hearth_chat_turn turn = {"user", "a<|im_end|><s>\xC3\xA4"};
    struct hearth_chat_params params = hearth_chat_params_default();
    params.turns = &turn;
    params.n_turns = 1;
    for (int add_bos = 0; add_bos < 2; add_bos++) {
        struct hearth_model *m = open_model(PLAIN, add_bos);
        struct hearth_chat_template *t;
        struct hearth_chat_text *text;
        hearth_token ids[64], few[3] = {-7, -7, -7};
        bool data;
        OK(hearth_chat_template_open(&t, m, NULL, &err));
        OK(hearth_chat_render(&text, t, &params, &err));
        const int64_t n = hearth_chat_tokenize(m, text, ids, 64, &err);
        assert_int_equal(n, 3 + 5 + 1 + 10 + 3 + 2); // BOS, start and end; "user:"; the message, byte by byte
        assert_int_equal(ids[0], 256);
        assert_int_equal(ids[1], 257);
        assert_int_equal(ids[7], 'a');
        assert_int_equal(ids[8], '<');
        assert_int_equal(ids[n - 1], 258);
        for (int64_t i = 2; i < n - 1; i++)
            assert_true(ids[i] < 256);
        assert_int_equal(hearth_chat_tokenize(m, text, few, 2, &err), n);
        assert_true(few[0] == 256 && few[1] == 257 && few[2] == -7);
        assert_int_equal(hearth_chat_text_span(text, 0, &data), 3 + 12 + 5); // a known role may be in a tag
        assert_false(data);
        assert_int_equal(hearth_chat_text_span(text, 20, &data), 1 + 10 + 3 + 2);
        assert_true(data);
        assert_int_equal(hearth_chat_text_span(text, 10000, &data), 0);
        const struct hearth_chat_turn other = {"im_end|><|", "a"};
        params.turns = &other;
        hearth_chat_text_close(&text);
        OK(hearth_chat_render(&text, t, &params, &err));
        assert_int_equal(hearth_chat_text_span(text, 15, &data), 10); // any other is data
        assert_true(data);
        params.turns = &turn;
        params.tools = "[1, 2]";
        hearth_chat_text_close(&text);
        OK(hearth_chat_render(&text, t, &params, &err)); // the file's template for tools
        size_t length;
        assert_memory_equal(hearth_chat_text_bytes(text, &length), "tools2", 6);
        params.tools = NULL;
        assert_int_equal(hearth_chat_tokenize(m, text, ids, 64, &err), 6 + add_bos); // this one writes no BOS
        hearth_chat_text_close(&text);
        hearth_chat_template_close(&t);
        hearth_model_close(&m);
    }
}

static void test_messages(void **state)
{
    (void)state;
    const char *const parts =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one \"},{\"type\":\"text\","
        "\"text\":\"two\"}]}]";
    assert_string_equal(of_json("{% for m in messages %}{{ m.content }}{% endfor %}", parts), "one two");
    assert_string_equal(
        of_json("{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}",
                "[{\"role\":\"user\",\"content\":\"one\"}]"),
        "[one]");
    const char *const system =
        "[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"}]";
    assert_string_equal(
        of_json("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
                "{{ m.content }}{% endfor %}",
                system),
        "S\n\nU");
    const char *const calls =
        "[{\"role\":\"user\",\"content\":\"U\"},{\"role\":\"assistant\",\"content\":\"\","
        "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"b\\\": 1}\"}}]}]";
    assert_string_equal(of_json("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
                                "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}",
                                calls),
                        "U{\"b\": 1}");
    assert_string_equal(of_json("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
                                "{{ 'x' + c.function.arguments }}{% endfor %}{% endfor %}",
                                calls),
                        "Ux{\"b\": 1}");
}

static void test_variables(void **state)
{
    (void)state;
    struct hearth_chat_params params = hearth_chat_params_default();
    params.messages = "[]";
    params.variables = "{\"a\": [1, \"x\"]}";
    params.documents = "[{\"title\": \"t\"}]";
    params.add_generation_prompt = false;
    params.now = 0;
    assert_string_equal(rendered("{{ a }}{{ documents[0].title }}{{ add_generation_prompt }}{{ tools }}"
                                 "{{ strftime_now('%Y') }}{{ bos_token }}",
                                 &params),
                        "[1, 'x']tFalseNone1970");
}

static void test_builtin(void **state)
{
    (void)state;
    const char *name;
    size_t n = 0;
    for (; (name = hearth_chat_builtin_name(n)); n++) {
        const char *const talk =
            "[{\"role\":\"system\",\"content\":\"Sys\"},{\"role\":\"user\",\"content\":\"Hello\"},"
            "{\"role\":\"assistant\",\"content\":\"Hi\"},{\"role\":\"user\",\"content\":\"Bye\"}]";
        const char *text = of_json(hearth_chat_builtin(name), talk);
        if (!strstr(text, "Sys") || !strstr(text, "Hello") || !strstr(text, "Hi") || !strstr(text, "Bye"))
            fail_msg("%s loses messages: %s", name, text);
    }
    assert_true(n > 20);
    assert_null(hearth_chat_builtin("none"));
    assert_null(hearth_chat_builtin(NULL));
}

static void keep_warning(void *arg, enum hearth_log_level level, const char *message)
{
    if (level == HEARTH_LOG_WARNING)
        snprintf(arg, 400, "%s", message);
}

// A template for tools that has an error is told of, and the main one is taken in its place.
static void test_broken_tools(void **state)
{
    (void)state;
    char warning[400] = "";
    struct hearth_model *m = open_model_with(PLAIN, "\n{% if %}", false);
    struct hearth_chat_template *t;
    struct hearth_chat_text *with, *without;
    struct hearth_chat_params params = hearth_chat_params_default();
    size_t n_with, n_without;
    params.messages = "[{\"role\": \"user\", \"content\": \"x\"}]";
    hearth_log_set(keep_warning, warning);
    OK(hearth_chat_template_open(&t, m, NULL, &err));
    hearth_log_set(NULL, NULL);
    assert_non_null(strstr(warning, "chat_template.tool_use is not used"));
    assert_non_null(strstr(warning, "line 2"));
    OK(hearth_chat_render(&without, t, &params, &err));
    params.tools = "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]";
    OK(hearth_chat_render(&with, t, &params, &err));
    const char *a = hearth_chat_text_bytes(with, &n_with), *b = hearth_chat_text_bytes(without, &n_without);
    assert_true(n_with == n_without && !memcmp(a, b, n_with));
    hearth_chat_text_close(&with);
    hearth_chat_text_close(&without);
    hearth_chat_template_close(&t);
    hearth_model_close(&m);
}

static void test_refusals(void **state)
{
    (void)state;
    struct hearth_chat_template *t;
    struct hearth_chat_text *text;
    struct hearth_chat_params params = hearth_chat_params_default();
    struct hearth_model *m = open_model(NULL, false);
    REFUSED(hearth_chat_template_open(&t, m, NULL, &check_error), HEARTH_E_UNSUPPORTED,
            "has no chat template");
    REFUSED(hearth_chat_template_open(&t, NULL, NULL, &check_error), HEARTH_E_UNSUPPORTED,
            "has no chat template");
    REFUSED(hearth_chat_template_open(&t, m, "\n{% if %}", &check_error), HEARTH_E_INVALID, "line 2");
    OK(hearth_chat_template_open(&t, m, PLAIN, &err));
    params.messages = "{}";
    REFUSED(hearth_chat_render(&text, t, &params, &check_error), HEARTH_E_INVALID, "JSON array");
    params.messages = "[1]";
    REFUSED(hearth_chat_render(&text, t, &params, &check_error), HEARTH_E_INVALID, "JSON object");
    params.messages = "[";
    REFUSED(hearth_chat_render(&text, t, &params, &check_error), HEARTH_E_INVALID,
            "the messages: no good JSON");
    params.messages = "[]";
    params.variables = "[]";
    REFUSED(hearth_chat_render(&text, t, &params, &check_error), HEARTH_E_INVALID,
            "variables are a JSON object");
    assert_null(text);
    hearth_chat_text_close(&text);
    hearth_chat_template_close(&t);
    hearth_chat_template_close(NULL);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_tokens),  cmocka_unit_test(test_messages),
        cmocka_unit_test(test_variables), cmocka_unit_test(test_builtin), cmocka_unit_test(test_broken_tools),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
