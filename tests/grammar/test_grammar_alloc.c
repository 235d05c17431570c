// SPDX-License-Identifier: MIT
// Running out of memory while grammars and their samplers are opened; none is needed afterwards.
#include "failing_alloc.h"

#include "hearth.h"

static struct hearth_model *model;
static char gbnf[512];
static float *logits;

static void use(struct hearth_sampler *s)
{
    const bool was_armed = armed;
    const long were = failures, left = countdown;
    armed = true;
    countdown = 0;
    hearth_sampler_reset(s);
    for (int i = 0; i < 8; i++) {
        const hearth_token t = hearth_sample(s, logits);
        assert_true(t >= 0);
        hearth_sampler_accept(s, t);
    }
    armed = was_armed;
    countdown = left;
    assert_int_equal(failures, were);
}

static int open_and_use(void)
{
    struct hearth_grammar *g;
    struct hearth_sampler *s = NULL, *copy = NULL;
    int rc = hearth_grammar_open(&g, model, gbnf, strlen(gbnf), &alloc_error);
    if (rc) {
        assert_null(g);
        return rc;
    }
    struct hearth_sampler_params p = hearth_sampler_params_default();
    p.grammar = g;
    p.model = model;
    p.dry_multiplier = 1;
    rc = hearth_sampler_open(&s, hearth_model_info(model)->n_vocab, &p, &alloc_error);
    if (!rc)
        rc = hearth_sampler_clone(&copy, s, &alloc_error);
    if (!rc)
        use(copy);
    hearth_sampler_close(&copy);
    hearth_sampler_close(&s);
    hearth_grammar_close(&g);
    return rc;
}

static void test_opening(void **state)
{
    (void)state;
    struct hearth_model_params mp = hearth_model_params_default();
    CHECK(hearth_model_open(&model, HEARTH_SOURCE_DIR "/models/hearth-novels-drelu-Q8_0.gguf", &mp,
                            &check_error));
    logits = calloc((size_t)hearth_model_info(model)->n_vocab, sizeof *logits);
    char name[64];
    const size_t n = hearth_token_bytes(model, hearth_token_bos(model), true, name, sizeof name);
    assert_true(n > 2 && n < sizeof name && name[0] == '<' && name[n - 1] == '>');
    snprintf(gbnf, sizeof gbnf,
             "root ::= %.*s? (word [ ,.\\n])*\nword ::= [a-zé-ü]{1,40} | \"(\" root \")\" | [^\\x00-~]\n",
             (int)n, name);
    assert_true(exhaust_memory(open_and_use) > 20);
    free(logits);
    hearth_model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_opening)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
