// SPDX-License-Identifier: MIT
// Steps of more rows than are computed at once, with little memory: their passes follow one another in a layer, and what
// one lets go of is not what the next one asked for. Neurons that nobody lets go of fill the cache, step by step.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert/pack.h"
#include "streaming_support.h"

enum { MANY = 20, STEPS = 70, ROWS = MANY * STEPS };

static float *step_many(struct opened *o)
{
    float *logits = calloc((size_t)ROWS * (size_t)o->n_vocab, sizeof *logits);
    struct rows r = {logits, o->n_vocab};
    int seqs[MANY];
    assert_non_null(logits);
    for (int k = 0; k < MANY; k++) {
        const hearth_token first = token_at(o->n_vocab, k, 0);
        seqs[k] = hearth_seq_new(o->session, &err);
        assert_int_equal(seqs[k], k);
        OK(hearth_prompt(o->session, k, &first, 1, NULL, NULL, &err));
    }
    for (int i = 0; i < STEPS; i++) {
        hearth_token tokens[MANY];
        for (int k = 0; k < MANY; k++)
            tokens[k] = token_at(o->n_vocab, k, 1000 + i);
        OK(hearth_step(o->session, seqs, tokens, MANY, &err));
        for (int k = 0; k < MANY; k++)
            take_row(&r, k, hearth_logits(o->session, k));
    }
    return logits;
}

static float *steps_of(const char *path, struct way *way)
{
    struct opened o = open_way(path, way);
    float *logits = step_many(&o);
    close_opened(&o);
    return logits;
}

static void check(const char *path, enum hearth_sparsity sparsity)
{
    struct way way = {.n_threads = 2, .n_seqs = MANY, .sparsity = sparsity};
    uint64_t least, most;
    struct opened o = open_way(path, &way);
    const size_t bytes = (size_t)ROWS * (size_t)o.n_vocab * sizeof(float);
    close_opened(&o);
    float *want = steps_of(path, &way);
    find_budgets_of(path, way, &least, &most);
    way.tests = (struct hearth_weights_tests){SMALL, .always = true};
    for (int i = 0; i < 2; i++) {
        way.ram = least + (most - least) * (uint64_t)i / 2;
        float *got = steps_of(path, &way);
        if (memcmp(got, want, bytes))
            fail_msg("%s: other logits with %llu bytes", path, (unsigned long long)way.ram);
        free(got);
    }
    free(want);
}

// Nothing is asked between two passes where gates say which neurons a step needs.
static void test_gates_apart(void **state)
{
    (void)state;
    char pack[512];
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    remove(pack);
    OK(hearth_pack_write(make("tiny-turbosparse"), pack, &(struct hearth_pack_params){.gates_apart = true},
                         NULL, &err));
    check(pack, HEARTH_SPARSITY_EXACT);
}

// Nor in the last layer where predictors look at the layer before.
static void test_early_predictors(void **state)
{
    (void)state;
    char pack[512];
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    remove(pack);
    OK(hearth_pack_write(make_with("tiny-turbosparse", true), pack, &(struct hearth_pack_params){0}, NULL,
                         &err));
    check(pack, HEARTH_SPARSITY_PREDICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gates_apart),
        cmocka_unit_test(test_early_predictors),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
