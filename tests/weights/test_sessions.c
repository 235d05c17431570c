// SPDX-License-Identifier: MIT
// Sessions of one model with a budget share its weights: they are in memory once, sessions in threads of
// their own give the logits of a model in memory bit by bit, and one that does not fit is refused.
#include "check.h"

#include <pthread.h>

#include "convert/pack.h"
#include "streaming_support.h"

enum { N_SESSIONS = 2 };

struct runner {
    struct hearth_model *model;
    struct hearth_session *session;
    int n_vocab;
    float *logits; // [N_PROMPT + N_STEPS][n_vocab]
    int rc;
};

static int open_sharing(struct hearth_session **out, struct hearth_model *m, enum hearth_sparsity sparsity)
{
    struct hearth_session_params params = hearth_session_params_default();
    params.n_ctx = N_CTX;
    params.n_ubatch = UBATCH;
    params.n_threads = 2;
    params.sparsity = sparsity;
    return hearth_session_open(out, m, &params, &err);
}

static struct hearth_model *open_shared_model(const char *path, uint64_t ram, int max_sessions)
{
    static const struct hearth_weights_tests tests = {SMALL, .always = true};
    return open_model_for(path, ram, max_sessions, &tests);
}

// A prompt, whose rows are kept, and steps. No asserts: it runs in threads.
static void *run(void *arg)
{
    struct runner *r = arg;
    struct rows rows = {r->logits, r->n_vocab};
    hearth_token tokens[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++)
        tokens[i] = token_at(r->n_vocab, 0, i);
    const int seq = hearth_seq_new(r->session, NULL);
    r->rc = seq < 0 ? seq : hearth_prompt(r->session, seq, tokens, N_PROMPT, take_row, &rows, NULL);
    for (int i = 0; i < N_STEPS && !r->rc; i++) {
        const hearth_token token = token_at(r->n_vocab, 0, 1000 + i);
        r->rc = hearth_step(r->session, &seq, &token, 1, NULL);
        if (!r->rc)
            take_row(&rows, 0, hearth_logits(r->session, 0));
    }
    return NULL;
}

static struct runner runner_of(struct hearth_model *m, enum hearth_sparsity sparsity)
{
    struct runner r = {.model = m, .n_vocab = hearth_model_info(m)->n_vocab};
    OK(open_sharing(&r.session, m, sparsity));
    r.logits = calloc((size_t)(N_PROMPT + N_STEPS) * (size_t)r.n_vocab, sizeof *r.logits);
    assert_non_null(r.logits);
    return r;
}

static void end_runner(struct runner *r)
{
    hearth_session_close(&r->session);
    free(r->logits);
}

static uint64_t least_budget(const char *path, enum hearth_sparsity sparsity, int max_sessions)
{
    struct hearth_model *m = open_shared_model(path, 1u << 30, max_sessions);
    struct hearth_session *s = NULL;
    OK(open_sharing(&s, m, sparsity));
    const uint64_t least = s->sources->plan.floor.bytes;
    hearth_session_close(&s);
    hearth_model_close(&m);
    return least;
}

// All at the same time, in threads of their own.
static void run_together(struct runner *runners, const struct runner *want)
{
    pthread_t threads[N_SESSIONS];
    for (int i = 0; i < N_SESSIONS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, &runners[i]), 0);
    for (int i = 0; i < N_SESSIONS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < N_SESSIONS; i++) {
        assert_int_equal(runners[i].rc, 0);
        assert_memory_equal(runners[i].logits, want->logits,
                            (size_t)(N_PROMPT + N_STEPS) * (size_t)want->n_vocab * sizeof *want->logits);
    }
}

static void check_sharing(const char *path, enum hearth_sparsity sparsity)
{
    struct hearth_model *memory = open_shared_model(path, 0, 0);
    struct runner want = runner_of(memory, sparsity);
    run(&want);
    assert_int_equal(want.rc, 0);

    struct hearth_model *m = open_shared_model(path, least_budget(path, sparsity, N_SESSIONS), N_SESSIONS);
    struct runner runners[N_SESSIONS];
    struct hearth_streaming_stats stats[N_SESSIONS];
    for (int i = 0; i < N_SESSIONS; i++) {
        runners[i] = runner_of(m, sparsity);
        hearth_session_streaming_stats(runners[i].session, &stats[i], sizeof stats[i]);
    }
    assert_ptr_equal(runners[0].session->sources, runners[1].session->sources);
    assert_int_equal(stats[0].planned_bytes, stats[1].planned_bytes);

    run_together(runners, &want);

    // A third one does not fit, before one of them goes.
    struct hearth_session *third = NULL;
    assert_int_equal(open_sharing(&third, m, sparsity), HEARTH_E_BUDGET);
    assert_null(third);
    assert_non_null(strstr(err.message, "max_sessions"));
    end_runner(&runners[0]);
    OK(open_sharing(&third, m, sparsity));
    hearth_session_close(&third);
    end_runner(&runners[1]);
    assert_null(m->shared->sources);
    hearth_model_close(&m);
    end_runner(&want);
    hearth_model_close(&memory);
}

// A budget with room for everything: nobody waits for anybody.
static void test_all_in_memory(void **state)
{
    (void)state;
    static const struct {
        const char *preset;
        enum hearth_sparsity sparsity;
    } models[] = {{"tiny-dense", HEARTH_SPARSITY_OFF},
                  {"tiny-turbosparse", HEARTH_SPARSITY_PREDICT},
                  {"tiny-turbosparse-moe", HEARTH_SPARSITY_OFF}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const char *path = make(models[i].preset);
        struct hearth_model *memory = open_shared_model(path, 0, 0),
                            *m = open_shared_model(path, 1u << 30, 2);
        m->load.tests = NULL;
        struct runner want = runner_of(memory, models[i].sparsity);
        run(&want);
        assert_int_equal(want.rc, 0);
        for (int times = 0; times < (SANITIZED ? 4 : 60); times++) {
            struct runner runners[N_SESSIONS];
            for (int k = 0; k < N_SESSIONS; k++)
                runners[k] = runner_of(m, models[i].sparsity);
            assert_ptr_equal(runners[0].session->sources, runners[1].session->sources);
            assert_null(runners[0].session->sources->turn);
            run_together(runners, &want);
            for (int k = 0; k < N_SESSIONS; k++)
                end_runner(&runners[k]);
        }
        hearth_model_close(&m);
        end_runner(&want);
        hearth_model_close(&memory);
    }
}

static void test_layers(void **state)
{
    (void)state;
    check_sharing(make("tiny-dense"), HEARTH_SPARSITY_OFF);
}

static void test_experts(void **state)
{
    (void)state;
    check_sharing(make("tiny-turbosparse-moe"), HEARTH_SPARSITY_PREDICT);
}

static void test_neurons(void **state)
{
    (void)state;
    char pack[512];
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    OK(hearth_pack_write(make("tiny-turbosparse"), pack, &(struct hearth_pack_params){0}, NULL, &err));
    check_sharing(pack, HEARTH_SPARSITY_PREDICT);
}

// What a session takes beside its buffers counts: threads, for one.
static void test_more_threads(void **state)
{
    (void)state;
    struct hearth_session_params many = hearth_session_params_default(), large = many;
    large.n_ctx = 4096;
    large.n_threads = 1;
    many.n_ctx = many.n_ubatch = 1;
    many.n_threads = 4;
    struct hearth_model *m = open_shared_model(make("tiny-dense"), 1u << 30, 2);
    struct hearth_session *first = NULL, *second = NULL;
    OK(hearth_session_open(&second, m, &many, &err));
    const uint64_t bytes = hearth_sources_session_bytes(&second->user);
    hearth_session_close(&second);
    OK(hearth_session_open(&first, m, &large, &err));
    assert_true(bytes < hearth_sources_session_bytes(&first->user));
    assert_int_equal(hearth_session_open(&second, m, &many, &err), HEARTH_E_BUDGET);
    assert_string_equal(err.param, "max_sessions");
    assert_null(second);
    many.n_threads = 1;
    OK(hearth_session_open(&second, m, &many, &err));
    hearth_session_close(&second);
    hearth_session_close(&first);
    hearth_model_close(&m);
}

// Weights that come by neuron are of no use to a session that computes all of them; the other way round they
// are shared.
static void test_mixed_modes(void **state)
{
    (void)state;
    char pack[512];
    struct hearth_session *first = NULL, *second = NULL;
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    remove(pack);
    OK(hearth_pack_write(make("tiny-turbosparse"), pack, &(struct hearth_pack_params){0}, NULL, &err));
    if (reads_large_blocks(pack))
        skip();
    struct hearth_model *m = open_shared_model(pack, least_budget(pack, HEARTH_SPARSITY_PREDICT, 2), 2);
    OK(open_sharing(&first, m, HEARTH_SPARSITY_PREDICT));
    assert_int_equal(open_sharing(&second, m, HEARTH_SPARSITY_OFF), HEARTH_E_INVALID);
    assert_null(second);
    assert_non_null(strstr(err.message, "same sparsity"));
    hearth_session_close(&first);
    hearth_model_close(&m);

    struct hearth_model *memory = open_shared_model(pack, 0, 0);
    struct runner want = runner_of(memory, HEARTH_SPARSITY_PREDICT);
    run(&want);
    // Room for a third, as one that predicts takes a little more than the first.
    m = open_shared_model(pack, least_budget(pack, HEARTH_SPARSITY_OFF, 3), 3);
    OK(open_sharing(&first, m, HEARTH_SPARSITY_OFF));
    struct runner shared = runner_of(m, HEARTH_SPARSITY_PREDICT);
    run(&shared);
    assert_int_equal(shared.rc, 0);
    assert_memory_equal(shared.logits, want.logits,
                        (size_t)(N_PROMPT + N_STEPS) * (size_t)want.n_vocab * sizeof *want.logits);
    end_runner(&shared);
    hearth_session_close(&first);
    hearth_model_close(&m);
    end_runner(&want);
    hearth_model_close(&memory);
}

int main(int argc, char **argv)
{
    if (argc > 1) // a pattern such as "test_m*"
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_in_memory), cmocka_unit_test(test_layers),
        cmocka_unit_test(test_experts),       cmocka_unit_test(test_neurons),
        cmocka_unit_test(test_mixed_modes),   cmocka_unit_test(test_more_threads)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
