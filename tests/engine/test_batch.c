// SPDX-License-Identifier: MIT
// Evaluations whose rows are of several sequences and of both classes (hearth_evaluate): every row gets the
// logits that its sequence gets alone, byte for byte, whatever goes through the layers beside it.
#include "convert/pack.h"
#include "golden_models.h"
#include "streaming_support.h"

enum { N_DECODING = 4, N_ROUNDS = 6, N_CHUNK = 11, N_LONG = N_ROUNDS * N_CHUNK, N_DRAFT = 8, N_START = 21 };

// ---- sessions

static struct hearth_session *open_session(const struct hearth_model *m, int n_threads,
                                           enum hearth_sparsity sparsity)
{
    struct hearth_session_params p = hearth_session_params_default();
    struct hearth_session *s = NULL;
    p.n_ctx = 100;
    p.max_seqs = N_DECODING + 1;
    p.n_ubatch = N_CHUNK;
    p.max_steps = N_DRAFT;
    p.n_threads = n_threads;
    p.sparsity = sparsity;
    OK(hearth_session_open(&s, m, &p, &err));
    return s;
}

static void start(struct hearth_session *s, int n_vocab, int seq, int n)
{
    hearth_token tokens[N_LONG];
    for (int i = 0; i < n; i++)
        tokens[i] = token_at(n_vocab, seq, i);
    assert_int_equal(hearth_seq_new(s, &err), seq);
    if (n)
        OK(hearth_prompt(s, seq, tokens, n, NULL, NULL, &err));
}

static void keep(float **at, const float *logits, int n_vocab)
{
    assert_non_null(logits);
    memcpy(*at, logits, (size_t)n_vocab * sizeof **at);
    *at += n_vocab;
}

static float *rows_of_floats(int n, int n_vocab)
{
    float *p = calloc((size_t)n * (size_t)n_vocab, sizeof *p);
    assert_non_null(p);
    return p;
}

static void assert_rows(const float *got, const float *want, int n, int n_vocab, const char *what)
{
    for (int i = 0; i < n; i++)
        if (memcmp(got + (size_t)i * (size_t)n_vocab, want + (size_t)i * (size_t)n_vocab,
                   (size_t)n_vocab * sizeof *got))
            fail_msg("%s: row %d of %d is another", what, i, n);
}

// ---- a prompt enters while others decode

static bool keep_row(void *arg, int index, const float *logits)
{
    (void)index;
    struct rows *r = arg;
    keep(&r->at, logits, r->n_vocab);
    return true;
}

// The rows that both runs below give, in one order: each round's steps, then the chunk's last row.
enum { N_MIXED = N_ROUNDS * (N_DECODING + 1) };

static float *run_apart(struct hearth_session *s, int n_vocab)
{
    float *out = rows_of_floats(N_MIXED, n_vocab);
    for (int k = 0; k < N_DECODING; k++) {
        start(s, n_vocab, k, N_START + k);
        for (int i = 0; i < N_ROUNDS; i++) {
            const hearth_token token = token_at(n_vocab, k, 1000 + i);
            OK(hearth_step(s, &k, &token, 1, &err));
            float *at = out + (size_t)(i * (N_DECODING + 1) + k) * (size_t)n_vocab;
            keep(&at, hearth_logits(s, 0), n_vocab);
        }
    }
    start(s, n_vocab, N_DECODING, 0);
    hearth_token tokens[N_LONG];
    for (int i = 0; i < N_LONG; i++)
        tokens[i] = token_at(n_vocab, N_DECODING, i);
    float *all = rows_of_floats(N_LONG, n_vocab);
    struct rows r = {all, n_vocab};
    OK(hearth_prompt(s, N_DECODING, tokens, N_LONG, keep_row, &r, &err));
    for (int i = 0; i < N_ROUNDS; i++) {
        float *at = out + (size_t)(i * (N_DECODING + 1) + N_DECODING) * (size_t)n_vocab;
        keep(&at, all + (size_t)((i + 1) * N_CHUNK - 1) * (size_t)n_vocab, n_vocab);
    }
    free(all);
    return out;
}

// ---- cancelled on the way

// Cancels where rows of one class reach a layer's feed-forward part.
struct watch {
    struct hearth_session *session;
    enum hearth_phase phase;
    int layer;
};

static void cancel_there(void *arg, enum hearth_phase phase, int layer, struct hearth_row row,
                         const float *normed, const float *stream)
{
    (void)row;
    (void)normed;
    (void)stream;
    const struct watch *w = arg;
    if (phase == w->phase && layer == w->layer)
        hearth_cancel(w->session);
}

// The batch is given up in every layer, by either class: no sequence grows and nothing is left to read.
static void cancel_everywhere(struct hearth_session *s, const struct hearth_batch_row *rows, int n)
{
    struct hearth_probes *probes = hearth_session_probes(s);
    struct watch w = {.session = s};
    int lengths[N_DECODING + 1];
    for (int k = 0; k <= N_DECODING; k++)
        lengths[k] = hearth_seq_length(s, k);
    probes->on_ffn = cancel_there;
    probes->on_ffn_arg = &w;
    for (w.layer = 0; w.layer < s->model->hp.n_layer; w.layer++)
        for (int phase = 0; phase < 2 && hearth_feeds(&s->model->hp, w.layer); phase++) {
            w.phase = (enum hearth_phase)phase;
            REFUSED(hearth_evaluate(s, rows, n, sizeof *rows, &check_error), HEARTH_E_INTERRUPTED, "stopped");
            for (int k = 0; k <= N_DECODING; k++)
                assert_int_equal(hearth_seq_length(s, k), lengths[k]);
            assert_null(hearth_kv_check(&s->kv));
            for (int i = 0; i < n; i++)
                assert_null(hearth_logits(s, i));
        }
    probes->on_ffn = NULL;
}

// ---- both classes at once

// Steps and the rows of a chunk in turn, so that nothing can depend on their order. Some rounds are cancelled
// many times before they pass.
static float *run_mixed(struct hearth_session *s, int n_vocab)
{
    float *out = rows_of_floats(N_MIXED, n_vocab), *at = out;
    for (int k = 0; k < N_DECODING; k++)
        start(s, n_vocab, k, N_START + k);
    start(s, n_vocab, N_DECODING, 0);
    for (int i = 0; i < N_ROUNDS; i++) {
        struct hearth_batch_row rows[N_DECODING + N_CHUNK];
        int n = 0, step_at[N_DECODING];
        for (int j = 0; j < N_CHUNK || j < N_DECODING; j++) {
            if (j < N_CHUNK)
                rows[n++] = (struct hearth_batch_row){.seq = N_DECODING,
                                                      .pos = i * N_CHUNK + j,
                                                      .token = token_at(n_vocab, N_DECODING, i * N_CHUNK + j),
                                                      .phase = HEARTH_PHASE_PROMPT,
                                                      .wants_logits = j == N_CHUNK - 1};
            if (j >= N_DECODING)
                continue;
            step_at[j] = n;
            rows[n++] = (struct hearth_batch_row){.seq = j,
                                                  .pos = N_START + j + i,
                                                  .token = token_at(n_vocab, j, 1000 + i),
                                                  .phase = HEARTH_PHASE_STEP,
                                                  .wants_logits = true};
        }
        if (i % 3 == 1)
            cancel_everywhere(s, rows, n);
        OK(hearth_evaluate(s, rows, n, sizeof *rows, &err));
        for (int k = 0; k < N_DECODING; k++)
            keep(&at, hearth_logits(s, step_at[k]), n_vocab);
        assert_null(hearth_logits(s, 0));
        keep(&at, hearth_logits(s, n - 1), n_vocab);
        assert_null(hearth_logits(s, n));
    }
    assert_int_equal(hearth_seq_length(s, N_DECODING), N_LONG);
    return out;
}

// ---- several rows of one sequence in one step, as for drafted tokens

static float *run_one_by_one(struct hearth_session *s, int n_vocab)
{
    float *out = rows_of_floats(2 * N_DRAFT, n_vocab), *at = out;
    for (int k = 0; k < 2; k++) {
        start(s, n_vocab, k, N_START);
        for (int i = 0; i < N_DRAFT; i++) {
            const hearth_token token = token_at(n_vocab, k, 1000 + i);
            OK(hearth_step(s, &k, &token, 1, &err));
            keep(&at, hearth_logits(s, 0), n_vocab);
        }
    }
    return out;
}

// All drafts of the first sequence at once; those of the second in two halves, beside it.
static float *run_drafted(struct hearth_session *s, int n_vocab)
{
    float *out = rows_of_floats(2 * N_DRAFT, n_vocab), *at = out;
    for (int k = 0; k < 2; k++)
        start(s, n_vocab, k, N_START);
    for (int k = 0; k < 2; k++)
        for (int first = 0; first < N_DRAFT; first += k ? N_DRAFT / 2 : N_DRAFT) {
            struct hearth_batch_row rows[N_DRAFT];
            const int n = k ? N_DRAFT / 2 : N_DRAFT;
            for (int i = 0; i < n; i++)
                rows[i] = (struct hearth_batch_row){.seq = k,
                                                    .pos = N_START + first + i,
                                                    .token = token_at(n_vocab, k, 1000 + first + i),
                                                    .phase = HEARTH_PHASE_STEP,
                                                    .wants_logits = true};
            OK(hearth_evaluate(s, rows, n, sizeof *rows, &err));
            for (int i = 0; i < n; i++)
                keep(&at, hearth_logits(s, i), n_vocab);
        }
    return out;
}

// ---- every architecture

struct wanted {
    float *mixed, *drafted;
};

static struct wanted evaluate_apart(const struct hearth_model *m, enum hearth_sparsity sparsity)
{
    const int n_vocab = hearth_model_info(m)->n_vocab;
    struct wanted w;
    struct hearth_session *s = open_session(m, 2, sparsity);
    w.mixed = run_apart(s, n_vocab);
    hearth_session_close(&s);
    s = open_session(m, 2, sparsity);
    w.drafted = run_one_by_one(s, n_vocab);
    hearth_session_close(&s);
    return w;
}

static void check_together(const struct hearth_model *m, int n_threads, enum hearth_sparsity sparsity,
                           const struct wanted *want, const char *what)
{
    const int n_vocab = hearth_model_info(m)->n_vocab;
    struct hearth_session *s = open_session(m, n_threads, sparsity);
    float *got = run_mixed(s, n_vocab);
    assert_rows(got, want->mixed, N_MIXED, n_vocab, what);
    hearth_session_close(&s);
    free(got);
    s = open_session(m, n_threads, sparsity);
    got = run_drafted(s, n_vocab);
    assert_rows(got, want->drafted, 2 * N_DRAFT, n_vocab, what);
    hearth_session_close(&s);
    free(got);
}

static void free_wanted(struct wanted *w)
{
    free(w->mixed);
    free(w->drafted);
}

static void check_golden(const struct golden *g)
{
    static int n;
    if (SANITIZED && n++ % 7) // the logits of all are compared in other builds
        return;
    struct hearth_model *m = NULL;
    OK(hearth_model_open(&m, g->path, NULL, &err));
    struct wanted w = evaluate_apart(m, HEARTH_SPARSITY_AUTO);
    for (int n_threads = 1 + SANITIZED; n_threads <= 3; n_threads += 2)
        check_together(m, n_threads, HEARTH_SPARSITY_AUTO, &w, g->name);
    free_wanted(&w);
    hearth_model_close(&m);
}

static void test_architectures(void **state)
{
    (void)state;
    assert_true(golden_each(check_golden) >= 14);
}

// ---- streamed

static void check_streamed(const char *path, enum hearth_sparsity sparsity)
{
    uint64_t least, most;
    struct hearth_model *m = NULL;
    OK(hearth_model_open(&m, path, NULL, &err));
    struct wanted w = evaluate_apart(m, sparsity);
    check_together(m, 2, sparsity, &w, path);
    hearth_model_close(&m);
    find_budgets(path, sparsity, 3, &least, &most);
    for (int i = SANITIZED; i < 3; i += 1 + SANITIZED) {
        // Buffers here are larger than those that find_budgets() opens its session with.
        struct way way = {.ram = least + (most - least) * (uint64_t)i / 2 + (16u << 20),
                          .io = "pread",
                          .tests = {SMALL, .always = true}};
        struct opened o;
        open_model_of(&o, path, &way);
        check_together(o.model, 1 + i, sparsity, &w, path);
        close_opened(&o);
    }
    free_wanted(&w);
}

static void test_streamed(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-dense", "tiny-relullama", "tiny-opt", "tiny-turbosparse",
                                          "tiny-turbosparse-moe"};
    char model[512], pack[512];
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i += SANITIZED ? 5 : 1) {
        snprintf(model, sizeof model, "%s", make(presets[i]));
        check_streamed(model, HEARTH_SPARSITY_AUTO);
    }
    for (size_t i = SANITIZED ? 4 : 3; i < sizeof presets / sizeof *presets; i++) {
        snprintf(model, sizeof model, "%s", make(presets[i]));
        snprintf(pack, sizeof pack, "%s", in_folder("pack.gguf"));
        remove(pack);
        OK(hearth_pack_write(model, pack, &(struct hearth_pack_params){0}, NULL, &err));
        check_streamed(pack, HEARTH_SPARSITY_PREDICT);
    }
}

// ---- refusals leave everything as it was

struct refusal {
    struct hearth_batch_row rows[3];
    int n;
    const char *says;
};

static void test_refusals(void **state)
{
    (void)state;
    struct hearth_model *m = NULL;
    OK(hearth_model_open(&m, GOLDEN_MODELS "llama-mha.Q8_0.gguf", NULL, &err));
    const int n_vocab = hearth_model_info(m)->n_vocab;
    struct hearth_session *s = open_session(m, 1, HEARTH_SPARSITY_AUTO);
    start(s, n_vocab, 0, 5);
    start(s, n_vocab, 1, 3);
    const enum hearth_phase step = HEARTH_PHASE_STEP, prompt_phase = HEARTH_PHASE_PROMPT;
    const struct refusal refusals[] = {
        {{{.seq = 0, .pos = 6, .phase = step}}, 1, "row 0, sequence 0: the next position is 5, not 6"},
        {{{.seq = 0, .pos = 4, .phase = step}}, 1, "row 0, sequence 0: the next position is 5, not 4"},
        {{{.seq = 0, .pos = 5, .phase = step}, {.seq = 0, .pos = 5, .phase = step}},
         2,
         "row 1, sequence 0: the next position is 6, not 5"},
        {{{.seq = 0, .pos = 6, .phase = step}, {.seq = 0, .pos = 5, .phase = step}},
         2,
         "row 0, sequence 0: the next position is 5, not 6"},
        {{{.seq = 1, .pos = -1, .phase = step}, {.seq = 0, .pos = -2, .phase = step}},
         2,
         "row 1, sequence 0: the next position is 5, not -2"},
        {{{.seq = 2, .pos = 0, .phase = step}}, 1, "row 0, sequence 2: there is no sequence 2"},
        {{{.seq = -1, .pos = -1, .phase = step}}, 1, "row 0, sequence -1: there is no sequence -1"},
        {{{.seq = 1, .pos = 3, .phase = prompt_phase}, {.seq = 0, .pos = 5, .token = n_vocab}},
         2,
         "row 1, sequence 0: token"},
        {{{.seq = 1, .pos = 3, .phase = (enum hearth_phase)2}}, 1, "row 0, sequence 1: there is no phase 2"},
        {{{0}}, 0, "rows"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_int_equal(
            hearth_evaluate(s, refusals[i].rows, refusals[i].n, sizeof(struct hearth_batch_row), &err),
            HEARTH_E_INVALID);
        if (!strstr(err.message, refusals[i].says))
            fail_msg("refusal %zu says: %s", i, err.message);
        assert_int_equal(hearth_seq_length(s, 0), 5);
        assert_int_equal(hearth_seq_length(s, 1), 3);
    }
    // More rows than there is room for, of either class.
    const int most = hearth_session_max_rows(s);
    assert_int_equal(most, N_CHUNK + N_DRAFT);
    struct hearth_batch_row *rows = calloc((size_t)most + 1, sizeof *rows);
    assert_non_null(rows);
    for (int i = 0; i <= most; i++)
        rows[i] = (struct hearth_batch_row){
            .seq = 0, .pos = i % 2 ? -1 : 5 + i, .phase = i < N_DRAFT ? step : prompt_phase};
    assert_int_equal(hearth_evaluate(s, rows, most + 1, sizeof *rows, &err), HEARTH_E_INVALID);
    rows[N_DRAFT].phase = step;
    assert_int_equal(hearth_evaluate(s, rows, N_DRAFT + 1, sizeof *rows, &err), HEARTH_E_INVALID);
    rows[N_DRAFT].phase = prompt_phase;
    OK(hearth_evaluate(s, rows, most, sizeof *rows, &err)); // a sequence may even change its class on the way
    assert_int_equal(hearth_seq_length(s, 0), 5 + most);
    free(rows);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// A row beyond the context is named, whether or not it says its position.
static void test_full_context(void **state)
{
    (void)state;
    enum { CTX = 100 };
    struct hearth_model *m = NULL;
    OK(hearth_model_open(&m, GOLDEN_MODELS "llama-mha.Q8_0.gguf", NULL, &err));
    struct hearth_session *s = open_session(m, 1, HEARTH_SPARSITY_AUTO);
    start(s, hearth_model_info(m)->n_vocab, 0, N_LONG);
    start(s, hearth_model_info(m)->n_vocab, 1, 2);
    start(s, hearth_model_info(m)->n_vocab, 2, 0);
    struct hearth_batch_row rows[N_CHUNK];
    for (int i = 0; i < N_CHUNK; i++)
        rows[i] = (struct hearth_batch_row){.seq = 0, .pos = -1};
    for (int i = N_LONG; i + N_CHUNK <= CTX; i += N_CHUNK)
        OK(hearth_evaluate(s, rows, N_CHUNK, sizeof *rows, &err));
    assert_int_equal(hearth_seq_length(s, 0), 99);
    rows[0].seq = 1;
    REFUSED(hearth_evaluate(s, rows, 3, sizeof *rows, &check_error), HEARTH_E_BUDGET,
            "row 2, sequence 0: the context of 100 tokens is full");
    assert_int_equal(hearth_seq_length(s, 0), 99);
    assert_int_equal(hearth_seq_length(s, 1), 2);
    OK(hearth_evaluate(s, rows, 2, sizeof *rows, &err));
    assert_int_equal(hearth_seq_length(s, 0), CTX);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// A program that was compiled with another header.
static void test_row_sizes(void **state)
{
    (void)state;
    struct hearth_model *m = NULL;
    OK(hearth_model_open(&m, GOLDEN_MODELS "llama-mha.Q8_0.gguf", NULL, &err));
    struct hearth_session *s = open_session(m, 1, HEARTH_SPARSITY_AUTO);
    const struct hearth_batch_row rows[2] = {{.seq = hearth_seq_new(s, &err), .pos = -1}};
    static const size_t sizes[] = {0, 16, 21, 1 << 17, SIZE_MAX - 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        REFUSED(hearth_evaluate(s, rows, 1, sizes[i], &check_error), HEARTH_E_INVALID, "pass its sizeof");
    REFUSED(hearth_evaluate(s, rows, 1, sizeof *rows + 4, &check_error), HEARTH_E_INVALID, "newer hearth.h");
    OK(hearth_evaluate(s, rows, 1, 20, &err)); // of the first release
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// Logits of as many rows as promised, and of no more.
static void test_logit_rows(void **state)
{
    (void)state;
    enum { MOST = 32, N = 40 };
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    struct hearth_batch_row rows[N];
    p.n_ubatch = N;
    p.n_ctx = 2 * N;
    OK(hearth_model_open(&m, GOLDEN_MODELS "llama-mha.Q8_0.gguf", NULL, &err));
    OK(hearth_session_open(&s, m, &p, &err));
    const int seq = hearth_seq_new(s, &err);
    for (int i = 0; i < N; i++)
        rows[i] = (struct hearth_batch_row){.seq = seq, .pos = i, .token = 7, .wants_logits = i <= MOST};
    REFUSED(hearth_evaluate(s, rows, N, sizeof *rows, &check_error), HEARTH_E_INVALID,
            "32 rows that want logits");
    assert_int_equal(hearth_seq_length(s, seq), 0);
    rows[5].wants_logits = false;
    OK(hearth_evaluate(s, rows, N, sizeof *rows, &err));
    for (int i = -1; i <= N; i++)
        assert_true((hearth_logits(s, i) != NULL) == (i >= 0 && i <= MOST && i != 5));
    // After what is refused nothing is left to read.
    assert_int_equal(hearth_evaluate(s, rows, 0, sizeof *rows, &err), HEARTH_E_INVALID);
    assert_null(hearth_logits(s, 0));
    hearth_session_close(&s);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_architectures),
        cmocka_unit_test_setup_teardown(test_streamed, make_folder, remove_folder),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_full_context),
        cmocka_unit_test(test_row_sizes),
        cmocka_unit_test(test_logit_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
