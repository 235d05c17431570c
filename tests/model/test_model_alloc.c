// SPDX-License-Identifier: MIT
// Running out of memory in the upper rooms: models, sessions, samplers, and everything that makes models.
// Whatever allocation fails, the call says so, leaks nothing, leaves no file, and works when it is tried
// again.
#include "failing_alloc.h"

#include <stdio.h>
#include <unistd.h>

#include "convert/profile.h"
#include "convert/quantize.h"
#include "synth/synth.h"
#include "made_models.h"
#include "sparse/cache.h"

static char in_path[512], out_path[512];
static struct hearth_model *model; // in_path, open

// A file must be there when, and only when, the call that writes it succeeded.
static int wrote(int rc)
{
    armed = false;
    assert_int_equal(access(out_path, F_OK), rc ? -1 : 0);
    unlink(out_path);
    return rc;
}

static int open_model(void)
{
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    struct hearth_model *m;
    int rc = hearth_model_open(&m, in_path, &params, &alloc_error);
    assert_true(!rc == !!m);
    hearth_model_close(&m);
    return rc;
}

static void use_session(struct hearth_session *s)
{
    const hearth_token tokens[] = {1, 5, 9, 20, 33};
    const int a = hearth_seq_new(s, &alloc_error);
    assert_int_equal(hearth_prompt(s, a, tokens, 5, NULL, NULL, &alloc_error), 0);
    const int seqs[] = {a, hearth_seq_fork(s, a, 3, &alloc_error)};
    assert_int_equal(hearth_step(s, seqs, tokens, 2, &alloc_error), 0);
}

// Once the session is open, nothing is allocated any more: evaluation and forks run with no memory left.
static int open_session(void)
{
    struct hearth_session_params params = hearth_session_params_default();
    params.n_ctx = 100;
    params.max_seqs = 3;
    params.n_ubatch = 4;
    params.n_threads = 1;
    params.predict_threshold = 0.0f;
    struct hearth_session *s;
    int rc = hearth_session_open(&s, model, &params, &alloc_error);
    assert_true(!rc == !!s);
    if (s) {
        const long before = failures;
        countdown = 0;
        forever = true;
        use_session(s);
        assert_int_equal(failures, before);
    }
    hearth_session_close(&s);
    return rc;
}

static int open_sampler(void)
{
    static const struct hearth_logit_bias biases[] = {{3, 1.0f}};
    struct hearth_sampler_params params = hearth_sampler_params_default();
    params.seed = 1;
    params.dry_multiplier = 1;
    params.model = model;
    params.n_ctx = 100;
    params.logit_biases = biases;
    params.n_logit_biases = 1;
    struct hearth_sampler *s;
    int rc = hearth_sampler_open(&s, MADE_VOCAB, &params, &alloc_error);
    assert_true(!rc == !!s);
    if (s) {
        static const float logits[MADE_VOCAB];
        const long before = failures;
        countdown = 0;
        forever = true;
        for (int i = 0; i < 50; i++)
            hearth_sampler_accept(s, hearth_sample(s, logits));
        assert_int_equal(failures, before);
    }
    hearth_sampler_close(&s);
    return rc;
}

static int open_stream(void)
{
    struct hearth_stream *s;
    int rc = hearth_stream_open(&s, model, true, false, &alloc_error);
    assert_true(!rc == !!s);
    hearth_stream_close(&s);
    return rc;
}

static int quantize(void)
{
    const struct hearth_quantize_params params = {.recipe = hearth_recipe_by_name("Q8_0"), .n_threads = 1};
    return wrote(hearth_quantize(in_path, out_path, &params, NULL, &alloc_error));
}

static int write_profile(void)
{
    static hearth_token tokens[96];
    for (int i = 0; i < 96; i++)
        tokens[i] = i;
    const struct hearth_profile_params params = {.n_ctx = 32, .n_threads = 1};
    return wrote(hearth_profile(model, tokens, 96, &params, out_path, NULL, &alloc_error));
}

static char profile_path[600];

static int read_profile(void)
{
    struct hearth_profile *p;
    int rc = hearth_profile_open(&p, profile_path, &alloc_error);
    assert_true(!rc == !!p);
    hearth_profile_close(&p);
    return rc;
}

static const char *preset;

static int synth(void)
{
    const struct hearth_synth_params params = {.seed = 1};
    return wrote(hearth_synth(preset, out_path, &params, &alloc_error));
}

static int open_cache(void)
{
    const struct hearth_cache_space_params spaces[] = {{.n_neurons = 100, .bundle_bytes = 512, .quota = 20},
                                                       {.n_neurons = 100, .bundle_bytes = 1024, .quota = 20}};
    const struct hearth_cache_params params = {.n_spaces = 2, .spaces = spaces, .align = 512, .reserve = 10};
    struct hearth_cache *c;
    int rc = hearth_cache_open(&c, &params, &alloc_error);
    assert_true(!rc == !!c);
    hearth_cache_close(&c);
    return rc;
}

// ---- tests

static void make_model(const struct made *made)
{
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    hearth_model_close(&model);
    made_write(in_path, made);
    if (hearth_model_open(&model, in_path, &params, &alloc_error))
        fail_msg("%s", alloc_error.message);
}

static void test_running(void **state)
{
    (void)state;
    static const struct made makes[] = {
        {.arch = "llama",
         .set = {{"feed_forward.activation", 's', 0, "relu"}},
         .predictors = true,
         .by_neuron = true},
        {.arch = "qwen3moe", .experts = true},
        {.arch = "llama", .experts = true, .split_experts = true, .optional = true, .type = HEARTH_TYPE_F16},
        {.arch = "opt", .optional = true},
    };
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        make_model(&makes[i]);
        assert_true(exhaust_memory(open_model) > 20);
        assert_true(exhaust_memory(open_session) > 5);
    }
    assert_true(exhaust_memory(open_sampler) > 5);
    assert_true(exhaust_memory(open_stream) > 2);
}

static void test_building(void **state)
{
    (void)state;
    make_model(&(struct made){.arch = "bamboo", .predictors = true});
    assert_true(exhaust_memory(quantize) > 20);
    assert_true(exhaust_memory(write_profile) > 10);
    snprintf(profile_path, sizeof profile_path, "%s/profile", folder);
    assert_int_equal(hearth_profile(model, (hearth_token[96]){0}, 96,
                                    &(struct hearth_profile_params){.n_threads = 1}, profile_path, NULL,
                                    &alloc_error),
                     0);
    assert_true(exhaust_memory(read_profile) > 5);
    unlink(profile_path);
}

static void test_synth(void **state)
{
    (void)state;
    preset = "tiny-dense";
    assert_true(exhaust_memory(synth) > 20);
}

static void test_cache(void **state)
{
    (void)state;
    assert_true(exhaust_memory(open_cache) > 3);
}

static int set_up(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(in_path, sizeof in_path, "%s", in_folder("in.gguf"));
    snprintf(out_path, sizeof out_path, "%s", in_folder("out.gguf"));
    return 0;
}

// Also a check that no temporary file was left behind.
static int tear_down(void **state)
{
    (void)state;
    hearth_model_close(&model);
    remove(in_path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_running),
        cmocka_unit_test(test_building),
        cmocka_unit_test(test_synth),
        cmocka_unit_test(test_cache),
    };
    return cmocka_run_group_tests_name("model_alloc", tests, set_up, tear_down);
}
