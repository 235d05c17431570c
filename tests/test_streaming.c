// SPDX-License-Identifier: MIT
// Models that are not all in memory give the logits of those that are, bit by bit: at all budgets, with any
// backend and number of threads, several sequences at once; and storage that fails leaves a session usable.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "build/pack.h"
#include "build/profile.h"
#include "build/synth.h"
#include "engine/streaming.h"
#include "pack_support.h"

enum { N_PROMPT = 37, N_STEPS = 6, N_SEQS = 3, N_CTX = 128, UBATCH = 16 };

static struct hearth_error err;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        err = (struct hearth_error){0};                                                                      \
        if (call)                                                                                            \
            fail_msg("%s: %s", #call, err.message);                                                          \
    } while (0)

// ---- what is evaluated
// ----------------------------------------------------------------------------------------------

// How a session is opened.
struct way {
    uint64_t ram; // 0: all in memory
    const char *io;
    int n_threads;
    enum hearth_sparsity sparsity;
    struct hearth_streaming_tests tests;
};

struct opened {
    struct hearth_model *model;
    struct hearth_session *session;
    int n_vocab;
};

static int try_open(struct opened *o, const char *path, const struct way *way)
{
    struct hearth_model_params params = hearth_model_params_default();
    params.n_threads = 1;
    params.ram = way->ram;
    params.io = way->io;
    *o = (struct opened){0};
    OK(hearth_model_open(&o->model, path, &params, &err));
    o->model->load.tests = &way->tests;
    o->n_vocab = hearth_model_info(o->model)->n_vocab;
    struct hearth_session_params session = hearth_session_params_default();
    session.n_ctx = N_CTX;
    session.max_seqs = N_SEQS;
    session.n_ubatch = UBATCH;
    session.n_threads = way->n_threads;
    session.sparsity = way->sparsity;
    return hearth_session_open(&o->session, o->model, &session, &err);
}

static void close_opened(struct opened *o)
{
    hearth_session_close(&o->session);
    hearth_model_close(&o->model);
}

static struct opened open_way(const char *path, const struct way *way)
{
    struct opened o;
    if (try_open(&o, path, way))
        fail_msg("%s with %llu bytes: %s", path, (unsigned long long)way->ram, err.message);
    return o;
}

static hearth_token token_at(int n_vocab, int seq, int i)
{
    return (hearth_token)((uint32_t)(seq * 7919 + i * 104729 + 13) % (uint32_t)n_vocab);
}

struct rows {
    float *at;
    int n_vocab;
};

static bool take_row(void *arg, int index, const float *logits)
{
    (void)index;
    struct rows *r = arg;
    memcpy(r->at, logits, (size_t)r->n_vocab * sizeof *logits);
    r->at += r->n_vocab;
    return true;
}

// Rows of logits that evaluate() gives.
enum { N_ROWS = N_PROMPT + 2 + N_STEPS * (1 + N_SEQS) + 1 };

// Called before each evaluation, and again when it failed: returns whether to try once more. Or NULL.
typedef bool (*retry_fn)(int rc);

static void prompt(struct opened *o, int seq, int n, struct rows *r, bool all, retry_fn retry)
{
    hearth_token tokens[N_PROMPT];
    for (int i = 0; i < n; i++)
        tokens[i] = token_at(o->n_vocab, seq, i);
    const struct rows begin = *r;
    int rc = HEARTH_OK;
    if (retry)
        retry(HEARTH_OK);
    do {
        *r = begin;
        rc = hearth_prompt(o->session, seq, tokens, n, all ? take_row : NULL, r, &err);
    } while (rc && retry && retry(rc));
    if (rc)
        fail_msg("prompt: %s", err.message);
    assert_int_equal(hearth_seq_length(o->session, seq), n);
    if (!all)
        take_row(r, 0, hearth_logits(o->session, 0));
}

static void step(struct opened *o, const int *seqs, int n, int i, struct rows *r, retry_fn retry)
{
    hearth_token tokens[N_SEQS];
    for (int k = 0; k < n; k++)
        tokens[k] = token_at(o->n_vocab, seqs[k], 1000 + i);
    int rc = HEARTH_OK;
    if (retry)
        retry(HEARTH_OK);
    do
        rc = hearth_step(o->session, seqs, tokens, n, &err);
    while (rc && retry && retry(rc));
    if (rc)
        fail_msg("step: %s", err.message);
    for (int k = 0; k < n; k++)
        take_row(r, k, hearth_logits(o->session, k));
}

// A prompt of three micro-batches, steps of one sequence, two more prompts, steps of three sequences, and a
// last one alone.
static float *evaluate(struct opened *o, retry_fn retry)
{
    static const int seqs[] = {0, 1, 2}, one[] = {1};
    float *logits = calloc((size_t)N_ROWS * (size_t)o->n_vocab, sizeof *logits);
    struct rows r = {logits, o->n_vocab};
    assert_non_null(logits);
    for (int i = 0; i < N_SEQS; i++)
        assert_int_equal(hearth_seq_new(o->session, &err), i);
    prompt(o, 0, N_PROMPT, &r, true, retry);
    for (int i = 0; i < N_STEPS; i++)
        step(o, seqs, 1, i, &r, retry);
    prompt(o, 1, 5, &r, false, retry);
    prompt(o, 2, 21, &r, false, retry);
    for (int i = 0; i < N_STEPS; i++)
        step(o, seqs, N_SEQS, N_STEPS + i, &r, retry);
    step(o, one, 1, 2 * N_STEPS, &r, retry);
    assert_int_equal(r.at - logits, (ptrdiff_t)N_ROWS * o->n_vocab);
    return logits;
}

static void assert_same(const float *got, const float *want, int n_vocab, const char *what)
{
    for (int i = 0; i < N_ROWS; i++) {
        const size_t at = (size_t)i * (size_t)n_vocab;
        if (memcmp(got + at, want + at, (size_t)n_vocab * sizeof *got))
            fail_msg("%s: row %d of the logits is another", what, i);
    }
}

static float *evaluate_in_memory(const char *path, enum hearth_sparsity sparsity)
{
    struct opened o = open_way(path, &(struct way){.n_threads = 2, .sparsity = sparsity});
    assert_null(o.session->streaming);
    float *logits = evaluate(&o, NULL);
    close_opened(&o);
    return logits;
}

// ---- budgets
// ----------------------------------------------------------------------------------------------

// Small enough that a model of few MiB goes through several pieces and chunks.
#define SMALL .weights_only = true, .piece_bytes = 100000, .chunk_bytes = 65536

// The smallest budget and the one that holds all.
static void find_budgets(const char *path, enum hearth_sparsity sparsity, int n_threads, uint64_t *least,
                         uint64_t *most)
{
    const struct way way = {
        .ram = 1u << 30, .n_threads = n_threads, .sparsity = sparsity, .tests = {SMALL, .always = true}};
    struct opened o = open_way(path, &way);
    const struct hearth_budget_plan *plan = &o.session->streaming->plan;
    *least = plan->floor.bytes;
    *most = plan->bytes;
    assert_true(!plan->layer_buffers && plan->all_resident == !plan->region_bytes);
    assert_true(*least < *most);
    close_opened(&o);
}

static void check_way(const char *path, const struct way *way, const float *want)
{
    struct opened o = open_way(path, way);
    char what[700];
    snprintf(what, sizeof what, "%s, %llu bytes, %s, %d threads, sparsity %d", path,
             (unsigned long long)way->ram, way->io ? way->io : "auto", way->n_threads, (int)way->sparsity);
    assert_true(o.session->streaming->plan.bytes <= way->ram);
    float *got = evaluate(&o, NULL);
    assert_same(got, want, o.n_vocab, what);
    free(got);
    close_opened(&o);
}

static bool have_uring(const char *path)
{
    struct hearth_store *store = NULL;
    const bool yes =
        !hearth_store_open(&store, path, &(struct hearth_store_params){.io = HEARTH_IO_URING}, &err);
    hearth_store_close(&store);
    return yes;
}

// Too little is refused, and the budget named then will do: the floor, or what all weights take if that is
// less.
static void check_refusal(const char *path, enum hearth_sparsity sparsity, uint64_t least, const float *want)
{
    struct way way = {.ram = 1, .n_threads = 1, .sparsity = sparsity, .tests = {SMALL}};
    struct opened o;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try_open(&o, path, &way), HEARTH_E_BUDGET);
        assert_null(o.session);
        close_opened(&o);
        const char *at = strstr(err.message, "at least ");
        assert_non_null(at);
        const uint64_t named = strtoull(at + 9, NULL, 10);
        assert_true(named <= least);
        assert_true(named == least || strstr(err.message, "all of its weights"));
        way.ram = named - 1;
    }
    way.ram++;
    check_way(path, &way, want);
}

// The floor with both backends, and five more budgets up to all, with different numbers of threads.
static void check_model(const char *path, enum hearth_sparsity sparsity)
{
    uint64_t least, most;
    float *want = evaluate_in_memory(path, sparsity);
    const char *const io[] = {have_uring(path) ? "uring" : "pread", "pread"};
    struct way way = {.sparsity = sparsity, .tests = {SMALL, .always = true}};
    for (int n_threads = 3; n_threads >= 1; n_threads--) {
        find_budgets(path, sparsity, n_threads, &least, &most);
        way.n_threads = n_threads;
        for (int i = 0; i <= 5; i++) {
            static const uint64_t eighths[] = {0, 1, 3, 5, 7, 8};
            way.ram = least + (most - least) * eighths[i] / 8;
            way.io = io[(i + n_threads) % 2];
            if (i == 0 || i % 3 == n_threads % 3)
                check_way(path, &way, want);
        }
    }
    // As users have it: all fits.
    way = (struct way){.ram = 1u << 30, .n_threads = 2, .sparsity = sparsity};
    check_way(path, &way, want);

    check_refusal(path, sparsity, least, want);
    free(want);
}

// ---- models
// ----------------------------------------------------------------------------------------------

static const char *make(const char *preset)
{
    const char *path = in_folder("model.gguf");
    remove(path);
    OK(hearth_synth(preset, path, &(struct hearth_synth_params){.seed = 5, .n_threads = 2}, &err));
    return path;
}

static void check_preset(const char *preset, const enum hearth_sparsity *modes, int n)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", make(preset));
    for (int i = 0; i < n; i++)
        check_model(path, modes[i]);
}

static const enum hearth_sparsity all_modes[] = {HEARTH_SPARSITY_PREDICT, HEARTH_SPARSITY_EXACT,
                                                 HEARTH_SPARSITY_OFF};

static void test_dense(void **state)
{
    (void)state;
    check_preset("tiny-dense", all_modes + 2, 1);
}

static void test_experts(void **state)
{
    (void)state;
    check_preset("tiny-qwen3-moe", all_modes + 2, 1);
}

static void test_relu(void **state)
{
    (void)state;
    check_preset("tiny-relullama", all_modes, 3);
    check_preset("tiny-opt", all_modes, 3);
    check_preset("tiny-falcon", all_modes, 3);
}

static void test_drelu(void **state)
{
    (void)state;
    check_preset("tiny-turbosparse", all_modes, 3);
    check_preset("tiny-turbosparse-moe", all_modes, 2);
}

// Packs: without a profile, and with one.

static void make_profile(const char *model, const char *profile)
{
    struct hearth_model *m;
    OK(hearth_model_open(&m, model, NULL, &err));
    hearth_token tokens[1000];
    for (int i = 0; i < 1000; i++)
        tokens[i] = token_at(hearth_model_info(m)->n_vocab, 3, i);
    OK(hearth_profile(m, tokens, 1000, &(struct hearth_profile_params){.n_threads = 2}, profile, NULL, &err));
    hearth_model_close(&m);
}

static void check_packs(const char *preset, const enum hearth_sparsity *modes, int n)
{
    char model[512], pack[512], profile[512];
    snprintf(model, sizeof model, "%s", make(preset));
    snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
    snprintf(profile, sizeof profile, "%s", in_folder("profile"));
    make_profile(model, profile);
    for (int with = 0; with < 2; with++) {
        remove(pack);
        OK(hearth_pack_write(model, pack, &(struct hearth_pack_params){.profile = with ? profile : NULL},
                             NULL, &err));
        for (int i = 0; i < n; i++)
            check_model(pack, modes[i]);
    }
    remove(profile);
}

static void test_packs(void **state)
{
    (void)state;
    check_packs("tiny-turbosparse", all_modes, 3);
}

static void test_relu_packs(void **state)
{
    (void)state;
    check_packs("tiny-relullama", all_modes, 1);
    check_packs("tiny-opt", all_modes, 1);
    check_packs("tiny-falcon", all_modes, 1);
}

static void test_expert_packs(void **state)
{
    (void)state;
    check_packs("tiny-turbosparse-moe", all_modes, 2);
    check_preset("tiny-turbosparse-pack", all_modes, 3);
}

// ---- storage that fails
// ----------------------------------------------------------------------------------------------

static atomic_bool spoiled;
static int n_failed;

// Storage fails until an evaluation has, and works in its second attempt.
static bool spoil_then_mend(int rc)
{
    if (!rc) {
        atomic_store(&spoiled, true);
        return true;
    }
    assert_int_equal(rc, HEARTH_E_IO);
    assert_non_null(strstr(err.message, pack_folder));
    assert_true(atomic_load(&spoiled));
    atomic_store(&spoiled, false);
    n_failed++;
    return true;
}

static void check_faults(const char *path, enum hearth_sparsity sparsity)
{
    // Hiccups that nobody sees; errors now and then; a device that is gone.
    static const struct hearth_store_faults kinds[] = {
        {.seed = 1, .shorts = 300, .retries = 300, .errors = 3},
        {.seed = 2, .shorts = 100, .retries = 100, .errors = 800},
        {.seed = 3, .errors = 1000},
    };
    uint64_t least, most;
    float *want = evaluate_in_memory(path, sparsity);
    const char *const io[] = {have_uring(path) ? "uring" : "pread", "pread"};
    for (int i = 0; i < 6; i++) {
        struct hearth_store_faults faults = kinds[i / 2];
        faults.on = &spoiled;
        struct way way = {.io = io[i % 2],
                          .n_threads = 1 + i % 3,
                          .sparsity = sparsity,
                          .tests = {SMALL, .always = true, .faults = &faults}};
        find_budgets(path, sparsity, way.n_threads, &least, &most);
        way.ram = least + (most - least) * (uint64_t)(i % 2) / 3;
        atomic_store(&spoiled, false);
        struct opened o = open_way(path, &way);
        n_failed = 0;
        float *got = evaluate(&o, spoil_then_mend);
        assert_same(got, want, o.n_vocab, path);
        if (i / 2 == 0)
            assert_int_equal(n_failed, 0);
        // With the smallest budget every evaluation reads.
        struct hearth_stats stats;
        hearth_session_stats(o.session, &stats);
        if (i % 2 == 0) {
            assert_true(stats.streaming.read_retries > 0);
            assert_true(n_failed > 0 || i / 2 == 0);
        }
        free(got);
        close_opened(&o);
    }
    // Storage that fails from the start: a session does not open, and says why.
    const struct hearth_store_faults gone = {.errors = 1000};
    struct way way = {
        .ram = most, .n_threads = 2, .sparsity = sparsity, .tests = {SMALL, .always = true, .faults = &gone}};
    struct opened o;
    assert_int_equal(try_open(&o, path, &way), HEARTH_E_IO);
    assert_non_null(strstr(err.message, pack_folder));
    assert_null(o.session);
    close_opened(&o);
    free(want);
}

static void test_faults(void **state)
{
    (void)state;
    static char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-dense"));
    check_faults(path, HEARTH_SPARSITY_OFF);
    snprintf(path, sizeof path, "%s", make("tiny-turbosparse-pack"));
    check_faults(path, HEARTH_SPARSITY_PREDICT);
    check_faults(path, HEARTH_SPARSITY_EXACT);
    char model[512];
    snprintf(model, sizeof model, "%s", make("tiny-turbosparse"));
    snprintf(path, sizeof path, "%s", in_folder("pack.gguf"));
    remove(path);
    OK(hearth_pack_write(model, path, &(struct hearth_pack_params){0}, NULL, &err));
    check_faults(path, HEARTH_SPARSITY_PREDICT);
}

// A pack that loses its end while it runs: an error, and nothing worse.
static void test_cut_short(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", make("tiny-turbosparse-pack"));
    uint64_t least, most;
    find_budgets(path, HEARTH_SPARSITY_PREDICT, 2, &least, &most);
    const struct way way = {
        .ram = least, .n_threads = 2, .sparsity = HEARTH_SPARSITY_PREDICT, .tests = {SMALL, .always = true}};
    struct opened o = open_way(path, &way);
    hearth_token tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(hearth_seq_new(o.session, &err), 0);
    OK(hearth_prompt(o.session, 0, tokens, 8, NULL, NULL, &err));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2), 0);
    int rc = HEARTH_OK;
    for (int i = 0; i < 20 && !rc; i++)
        rc = hearth_prompt(o.session, 0, tokens, 4, NULL, NULL, &err);
    assert_int_equal(rc, HEARTH_E_IO);
    assert_non_null(strstr(err.message, "the file ends before"));
    assert_int_equal(hearth_step(o.session, (int[]){0}, tokens, 1, &err), HEARTH_E_IO);
    close_opened(&o);
    // And it does not open any more.
    struct hearth_model *m = NULL;
    assert_int_equal(try_model(path, false, &m, &err), HEARTH_E_FORMAT);
}

int main(int argc, char **argv)
{
    if (argc > 1) // a pattern such as "test_*packs"
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_relu),         cmocka_unit_test(test_drelu),
        cmocka_unit_test(test_packs),        cmocka_unit_test(test_relu_packs),
        cmocka_unit_test(test_expert_packs), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_cut_short),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
