// SPDX-License-Identifier: MIT
// JSON schemas: documents that another program found valid or invalid, refusals, text that a model generates.
#include "check.h"

#include <jansson.h>

#include "hearth.h"
#include "schema/schema.h"

static json_t *cases;

static int load(void **state)
{
    (void)state;
    json_error_t where;
    cases = json_load_file(HEARTH_SOURCE_DIR "/tests/golden/grammar/schemas.json", JSON_DECODE_ANY, &where);
    if (!cases)
        fprintf(stderr, "schemas.json: line %d: %s\n", where.line, where.text);
    return cases ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(cases);
    return 0;
}

static struct hearth_grammar *open_schema(const json_t *schema, const struct hearth_model *model)
{
    char *json = json_dumps(schema, JSON_ENCODE_ANY), *gbnf = NULL;
    struct hearth_grammar *g = NULL;
    struct hearth_error err = {0};
    if (hearth_schema_to_gbnf(&gbnf, json, strlen(json), &err) ||
        hearth_grammar_open(&g, model, gbnf, strlen(gbnf), &err))
        fail_msg("%s: %s", json, err.message);
    free(json);
    free(gbnf);
    return g;
}

// Returns how many documents of a list are not what they should be, and says which.
static int count_wrong(struct hearth_grammar *g, const json_t *schema, const json_t *documents, bool valid)
{
    int wrong = 0;
    for (size_t i = 0; i < json_array_size(documents); i++) {
        const json_t *d = json_array_get(documents, i);
        if (hearth_grammar_matches(g, json_string_value(d), json_string_length(d)) == valid)
            continue;
        char *json = json_dumps(schema, JSON_ENCODE_ANY);
        fprintf(stderr, "%s: %s is %s\n", json, json_string_value(d), valid ? "refused" : "accepted");
        free(json);
        wrong++;
    }
    return wrong;
}

static void test_documents(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i += SANITIZED ? 5 : 1) {
        const json_t *c = json_array_get(cases, i), *schema = json_object_get(c, "schema");
        struct hearth_grammar *g = open_schema(schema, NULL);
        wrong += count_wrong(g, schema, json_object_get(c, "valid"), true);
        wrong += count_wrong(g, schema, json_object_get(c, "invalid"), false);
        hearth_grammar_close(&g);
    }
    assert_int_equal(wrong, 0);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        int code;
        const char *words;
    } refusals[] = {
        {"{\"type\":", HEARTH_E_FORMAT, "the schema is no JSON: line 1"},
        {"3", HEARTH_E_FORMAT, "a schema is an object"},
        {"{\"type\":\"float\"}", HEARTH_E_FORMAT, "there is no type \"float\": string, number"},
        {"{\"type\":3}", HEARTH_E_FORMAT, "a type is a name"},
        {"false", HEARTH_E_INVALID, "nothing is valid here"},
        {"{\"not\":{}}", HEARTH_E_UNSUPPORTED, "at #: not is not supported: leave it out"},
        {"{\"properties\":{\"a\":{\"multipleOf\":2}}}", HEARTH_E_UNSUPPORTED,
         "at #/properties/a: multipleOf is not supported"},
        {"{\"properties\":{\"a/b~c\":{\"type\":\"any\"}}}", HEARTH_E_FORMAT,
         "at #/properties/a~1b~0c: there is no type"},
        {"{\"required\":\"a\"}", HEARTH_E_FORMAT, "at #: required must be a list of names"},
        {"{\"prefixItems\":[{},{\"enum\":1}]}", HEARTH_E_FORMAT, "at #/prefixItems/1: enum must be a list"},
        {"{\"items\":{\"if\":{}}}", HEARTH_E_UNSUPPORTED, "at #/items: if is not supported"},
        {"{\"patternProperties\":{}}", HEARTH_E_UNSUPPORTED, "patternProperties is not supported"},
        {"{\"uniqueItems\":true}", HEARTH_E_UNSUPPORTED, "uniqueItems is not supported"},
        {"{\"minProperties\":1}", HEARTH_E_UNSUPPORTED, "minProperties is not supported"},
        {"{\"type\":\"string\",\"format\":\"regex\"}", HEARTH_E_UNSUPPORTED,
         "format \"regex\" is not supported"},
        {"{\"pattern\":\"(?=a)\"}", HEARTH_E_UNSUPPORTED, "looking ahead"},
        {"{\"pattern\":\"a\\\\bc\"}", HEARTH_E_UNSUPPORTED, "an escape that is not supported"},
        {"{\"pattern\":\"(a)\\\\1\"}", HEARTH_E_UNSUPPORTED, "an escape that is not supported"},
        {"{\"pattern\":\"(a\"}", HEARTH_E_UNSUPPORTED, "a parenthesis is not closed"},
        {"{\"pattern\":\"a\",\"minLength\":2}", HEARTH_E_UNSUPPORTED,
         "only one of pattern, format and lengths"},
        {"{\"type\":\"number\",\"minimum\":0.5}", HEARTH_E_UNSUPPORTED, "must be whole numbers"},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", HEARTH_E_INVALID, "no number is between"},
        {"{\"type\":\"integer\",\"minimum\":3.1,\"maximum\":3.9}", HEARTH_E_INVALID, "no number is between"},
        {"{\"minLength\":3,\"maxLength\":2}", HEARTH_E_INVALID, "maxLength is less"},
        {"{\"minItems\":3,\"maxItems\":2}", HEARTH_E_INVALID, "no array is as long"},
        {"{\"enum\":[]}", HEARTH_E_INVALID, "none of the values"},
        {"{\"type\":\"string\",\"enum\":[1]}", HEARTH_E_INVALID, "none of the values"},
        {"{\"enum\":[1],\"minimum\":0}", HEARTH_E_UNSUPPORTED, "minimum beside enum"},
        {"{\"$ref\":\"#/nowhere\"}", HEARTH_E_FORMAT, "there is no such place"},
        {"{\"$ref\":\"http://example.com/\"}", HEARTH_E_UNSUPPORTED, "only places in the schema itself"},
        {"{\"required\":[\"a\"],\"additionalProperties\":false}", HEARTH_E_INVALID,
         "\"a\" is required, but may not be there"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", HEARTH_E_INVALID,
         "no type is possible"},
        {"{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}", HEARTH_E_UNSUPPORTED,
         "two different values of pattern"},
        {"{\"$defs\":{\"a\":{\"type\":\"object\",\"$ref\":\"#/$defs/a\"}},\"$ref\":\"#/$defs/a\"}",
         HEARTH_E_UNSUPPORTED, "without an end"},
        {"{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}", HEARTH_E_UNSUPPORTED, "has no end"},
    };
    char *gbnf;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        REFUSED(hearth_schema_to_gbnf(&gbnf, refusals[i].schema, strlen(refusals[i].schema), &check_error),
                refusals[i].code, refusals[i].words);
        assert_null(gbnf);
    }
    // A schema that is itself and nothing else becomes a grammar that cannot be followed.
    static const char loop[] = "{\"$ref\":\"#\"}";
    struct hearth_grammar *g;
    CHECK(hearth_schema_to_gbnf(&gbnf, loop, sizeof loop - 1, &check_error));
    REFUSED(hearth_grammar_open(&g, NULL, gbnf, strlen(gbnf), &check_error), HEARTH_E_FORMAT,
            "left recursion");
    free(gbnf);
}

// Schemas that would take the stack, or hours.
static void test_large(void **state)
{
    (void)state;
    enum { NAME = 60000, VALUES = 5000 };
    char *gbnf, *text = malloc(NAME + 200 + (size_t)VALUES * 2 * 8);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "{\"type\":\"object\",\"properties\":{\"");
    memset(text + n, 'a', NAME);
    n += NAME;
    n += (size_t)sprintf(text + n, "\":{}},\"additionalProperties\":true}");
    REFUSED(hearth_schema_to_gbnf(&gbnf, text, n, &check_error), HEARTH_E_UNSUPPORTED,
            "name of more than 1000 bytes");
    n = (size_t)sprintf(text, "{\"allOf\":[{\"enum\":[0");
    for (int i = 1; i < 2 * VALUES; i++)
        n += (size_t)sprintf(text + n, i == VALUES ? "]},{\"enum\":[%d" : ",%d", i);
    n += (size_t)sprintf(text + n, "]}]}");
    REFUSED(hearth_schema_to_gbnf(&gbnf, text, n, &check_error), HEARTH_E_UNSUPPORTED,
            "too much in it that must all hold");
    // The same in small parts: many alternatives, each of which must hold beside a long list.
    n = (size_t)sprintf(text, "{\"$defs\":{\"a\":{\"enum\":[0");
    for (int i = 1; i < 1000; i++)
        n += (size_t)sprintf(text + n, ",%d", i);
    n += (size_t)sprintf(text + n, "]}},\"enum\":[-1");
    for (int i = 2; i < 1000; i++)
        n += (size_t)sprintf(text + n, ",-%d", i);
    n += (size_t)sprintf(text + n, "],\"anyOf\":[{\"const\":5}");
    for (int i = 0; i < 900; i++)
        n += (size_t)sprintf(text + n, ",{\"$ref\":\"#/$defs/a\"}");
    n += (size_t)sprintf(text + n, "]}");
    REFUSED(hearth_schema_to_gbnf(&gbnf, text, n, &check_error), HEARTH_E_UNSUPPORTED,
            "too much in it that must all hold");
    // Names of types for each of many values.
    n = (size_t)sprintf(text, "{\"type\":[\"string\"");
    for (int i = 0; i < 100; i++)
        n += (size_t)sprintf(text + n, ",\"string\"");
    n += (size_t)sprintf(text + n, "],\"enum\":[1]}");
    REFUSED(hearth_schema_to_gbnf(&gbnf, text, n, &check_error), HEARTH_E_UNSUPPORTED,
            "type has more than 100 names");
    // Names that are looked for with each property.
    n = (size_t)sprintf(text, "{\"properties\":{\"a\":{}},\"required\":[\"a\"");
    for (int i = 0; i < 12000; i++)
        n += (size_t)sprintf(text + n, ",\"a\"");
    n += (size_t)sprintf(text + n, "]}");
    REFUSED(hearth_schema_to_gbnf(&gbnf, text, n, &check_error), HEARTH_E_UNSUPPORTED,
            "required has more than 12000 names");
    // Names that one side requires and the other has not: those that have rules do no harm.
    n = (size_t)sprintf(text, "{\"allOf\":[{\"required\":[\"x\"]},{\"required\":[\"0\"");
    for (int i = 1; i < 3500; i++)
        n += (size_t)sprintf(text + n, ",\"%d\"", i);
    n += (size_t)sprintf(text + n, "]}]}");
    CHECK(hearth_schema_to_gbnf(&gbnf, text, n, &check_error));
    free(gbnf);
    free(text);
}

static void test_any_object(void **state)
{
    (void)state;
    char *gbnf;
    struct hearth_grammar *g;
    CHECK(hearth_schema_to_gbnf(&gbnf, HEARTH_SCHEMA_ANY_OBJECT, strlen(HEARTH_SCHEMA_ANY_OBJECT),
                                &check_error));
    CHECK(hearth_grammar_open(&g, NULL, gbnf, strlen(gbnf), &check_error));
    free(gbnf);
    static const char good[] = "{\"a\": [1, {\"b\": null}], \"c\": \"\\ud83d\\ude00\"}";
    assert_true(hearth_grammar_matches(g, good, sizeof good - 1));
    assert_true(hearth_grammar_matches(g, "{}", 2));
    assert_false(hearth_grammar_matches(g, "[]", 2));
    assert_false(hearth_grammar_matches(g, "{\"a\": \"\\ud83d\"}", 15));
    hearth_grammar_close(&g);
}

// Documents with a blank wherever one may be.
static const struct {
    const char *schema, *document;
} blanks[] = {
    {"{}", "{ \"a\" : [ 1 , 2 ] , \"b\" : { } }"},
    {"{}", "3"},
    {"{\"type\":\"object\"}", "{ }"},
    {"{\"properties\":{\"a\":{\"items\":{}}},\"required\":[\"a\"]}", "{ \"a\" : [ 1 , [ ] ] }"},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"null\"}}", "{ \"b\" : null }"},
    {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{ \"a\" : 1 , \"b\" : 2 }"},
    {"{\"prefixItems\":[{},{}],\"items\":{\"type\":\"null\"}}", "[ 1 , 2 , null ]"},
    {"{\"items\":{\"type\":\"null\"},\"minItems\":2}", "[ null , null , null ]"},
    {"{\"type\":[\"string\",\"null\"]}", "\"a\""},
    {"{\"type\":\"integer\",\"nullable\":true}", "null"},
    {"{\"anyOf\":[{\"type\":\"boolean\"},{\"const\":{\"a\":[1,\"b\"]}}]}", "{ \"a\" : [ 1 , \"b\" ] }"},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"enum\":[1,2]}}}", "2"},
};

static void want_match(struct hearth_grammar *g, size_t i, const char *text, bool wanted)
{
    if (hearth_grammar_matches(g, text, strlen(text)) != wanted)
        fail_msg("%s: \"%s\" is %s", blanks[i].schema, text, wanted ? "refused" : "accepted");
}

// A document ends with its last character: models like to go on with blanks.
static void test_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        json_t *schema = json_loads(blanks[i].schema, JSON_DECODE_ANY, NULL);
        struct hearth_grammar *g = open_schema(schema, NULL);
        char text[64];
        for (int blank = 0; blank < 3; blank++) {
            snprintf(text, sizeof text, "%s%s", blanks[i].document, (const char *[]){"", " ", "\n"}[blank]);
            want_match(g, i, text, !blank);
        }
        hearth_grammar_close(&g);
        json_decref(schema);
    }
}

// Puts another text in the place of blank number `which`, or of all (-1). False: there is no such blank.
static bool replace_blank(char *out, size_t size, const char *document, int which, const char *with)
{
    bool any = false;
    size_t n = 0;
    for (int blank = 0; *document && n < size; document++) {
        const bool here = *document == ' ' && (which < 0 || which == blank);
        blank += *document == ' ';
        any |= here;
        n +=
            (size_t)snprintf(out + n, size - n, "%.*s", here ? (int)strlen(with) : 1, here ? with : document);
    }
    return any;
}

// Between parts of a document there may be a new line and its indentation, but no line is empty.
static void test_blanks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool allowed;
    } kinds[] = {{"", true},    {"\n", true},      {"\n    ", true},  {"\n\t\t", true}, {"\n\n", false},
                 {"  ", false}, {"\n\n  ", false}, {"\n  \n", false}, {" \n", false},   {"\r\n", false}};
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        json_t *schema = json_loads(blanks[i].schema, JSON_DECODE_ANY, NULL);
        struct hearth_grammar *g = open_schema(schema, NULL);
        char text[256];
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (int which = -1; replace_blank(text, sizeof text, blanks[i].document, which, kinds[k].text);
                 which++)
                want_match(g, i, text, kinds[k].allowed);
        hearth_grammar_close(&g);
        json_decref(schema);
    }
}

// ---- generating

struct generator {
    struct hearth_model *model;
    struct hearth_session *session;
    int n_vocab;
    bool *closes; // [n_vocab] tokens that begin with a quote or a bracket that closes
    float *logits;
    FILE *out; // for make check-schemas, with all of them
};

// Appends a token's text. Returns whether the text goes on.
static bool take(const struct generator *m, hearth_token t, char *text, size_t *n, size_t cap)
{
    if (t < 0 || hearth_token_is_eog(m->model, t))
        return false;
    *n += hearth_token_bytes(m->model, t, false, text + *n, cap - *n);
    return *n < cap - 64;
}

// What the model says under a grammar. After some tokens, it is made to close what is open. Returns whether
// it came to an end.
static bool generate(struct generator *m, struct hearth_grammar *g, bool greedy, uint32_t seed, char *text,
                     size_t cap)
{
    struct hearth_sampler_params p = hearth_sampler_params_default();
    struct hearth_sampler *s;
    p.grammar = g;
    p.seed = seed;
    p.temp = greedy ? 0 : 1.0f;
    CHECK(hearth_sampler_open(&s, m->n_vocab, &p, &check_error));
    struct hearth_error err;
    const int seq = hearth_seq_new(m->session, &err);
    assert_true(seq >= 0);
    hearth_token prompt[16];
    const int64_t n_prompt = hearth_tokenize(m->model, "It was", 6, HEARTH_TOKENIZE_BOS, prompt, 16, &err);
    OK(hearth_prompt(m->session, seq, prompt, (int)n_prompt, NULL, NULL, &err));
    size_t n = 0;
    bool ended = false;
    for (int i = 0; i < 110 && !ended; i++) {
        memcpy(m->logits, hearth_logits(m->session, 0), (size_t)m->n_vocab * sizeof *m->logits);
        for (hearth_token t = 0; t < m->n_vocab; t++)
            m->logits[t] +=
                i > 12 ? (m->closes[t] ? 20.0f : 0.0f) + (hearth_token_is_eog(m->model, t) ? 40.0f : 0.0f)
                       : 0.0f;
        const hearth_token t = hearth_sample(s, m->logits);
        if (!take(m, t, text, &n, cap)) {
            ended = t >= 0 && hearth_token_is_eog(m->model, t);
            break;
        }
        hearth_sampler_accept(s, t);
        OK(hearth_step(m->session, &seq, &t, 1, &err));
    }
    if (ended && !hearth_sampler_may_end(s))
        fail_msg("an end where there may be none: %.*s", (int)n, text);
    text[n] = '\0';
    hearth_seq_free(m->session, seq);
    hearth_sampler_close(&s);
    return ended;
}

// The document on one line, behind the number of its schema.
static void write_down(const struct generator *m, size_t schema, const json_t *document)
{
    char *line = json_dumps(document, JSON_ENCODE_ANY | JSON_COMPACT);
    if (m->out)
        fprintf(m->out, "%zu %s\n", schema, line);
    free(line);
}

static void generate_all(struct generator *m)
{
    enum { CAP = 8192 };
    static char text[CAP];
    int ended = 0, all = 0;
    for (size_t i = 0; i < json_array_size(cases); i += m->out ? 1 : SANITIZED ? 40 : 6) {
        const json_t *schema = json_object_get(json_array_get(cases, i), "schema");
        struct hearth_grammar *g = open_schema(schema, m->model);
        for (int greedy = 0; greedy < 2; greedy++) {
            all++;
            if (!generate(m, g, greedy, (uint32_t)i, text, CAP))
                continue;
            json_error_t where;
            json_t *document = json_loads(text, JSON_DECODE_ANY, &where);
            if (!document || !hearth_grammar_matches(g, text, strlen(text)))
                fail_msg("schema %zu gave %s", i, text);
            write_down(m, i, document);
            json_decref(document);
            ended++;
        }
        hearth_grammar_close(&g);
    }
    print_message("%d of %d texts came to an end\n", ended, all);
    assert_true(ended > all * 3 / 4);
}

static void test_generation(void **state)
{
    (void)state;
    struct generator m = {0};
    struct hearth_model_params mp = hearth_model_params_default();
    struct hearth_session_params sp = hearth_session_params_default();
    CHECK(hearth_model_open(&m.model, HEARTH_SOURCE_DIR "/models/hearth-novels-drelu-Q8_0.gguf", &mp,
                            &check_error));
    sp.n_ctx = 256;
    sp.n_threads = 1;
    CHECK(hearth_session_open(&m.session, m.model, &sp, &check_error));
    m.n_vocab = hearth_model_info(m.model)->n_vocab;
    m.closes = calloc((size_t)m.n_vocab, sizeof *m.closes);
    m.logits = calloc((size_t)m.n_vocab, sizeof *m.logits);
    for (hearth_token t = 0; t < m.n_vocab; t++) {
        char first = 0;
        m.closes[t] = hearth_token_bytes(m.model, t, false, &first, 1) && strchr("\"}]", first);
    }
    const char *path = getenv("HEARTH_GENERATED");
    m.out = path ? fopen(path, "w") : NULL;
    generate_all(&m);
    if (m.out)
        fclose(m.out);
    free(m.closes);
    free(m.logits);
    hearth_session_close(&m.session);
    hearth_model_close(&m.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents),  cmocka_unit_test(test_refusals), cmocka_unit_test(test_large),
        cmocka_unit_test(test_any_object), cmocka_unit_test(test_ends),     cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_generation),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
