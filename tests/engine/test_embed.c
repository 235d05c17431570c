// SPDX-License-Identifier: MIT
// Hidden states and embeddings: times the head, they are the golden logits; nothing else changes a bit of them,
// and they change no bit of any logit.
#include "engine/pooling.h"
#include "golden_models.h"
#include "streaming_support.h"

enum { N_TEXT = 41, MOST_EMBD = 256 };

static struct hearth_session *open_session(const struct hearth_model *m, int n_ubatch, int n_threads)
{
    struct hearth_session_params p = hearth_session_params_default();
    struct hearth_session *s = NULL;
    p.n_ctx = 126;
    p.max_seqs = 3;
    p.n_ubatch = n_ubatch;
    p.n_threads = n_threads;
    p.type_k = p.type_v = HEARTH_KV_F32;
    OK(hearth_session_open(&s, m, &p, &err));
    return s;
}

static int width_of(const struct hearth_model *m)
{
    return hearth_model_info(m)->n_embd;
}

static float *floats(size_t n)
{
    float *p = calloc(n, sizeof *p);
    assert_non_null(p);
    return p;
}

static void text(const struct hearth_model *m, hearth_token tokens[N_TEXT])
{
    for (int i = 0; i < N_TEXT; i++)
        tokens[i] = token_at(hearth_model_info(m)->n_vocab, 1, i);
}

// The embedding of a text in a sequence of its own.
static void embed(struct hearth_session *s, const hearth_token *tokens, int n, enum hearth_pooling pooling,
                  int norm, float *out)
{
    const int seq = hearth_seq_new(s, &err);
    OK(hearth_embed(s, seq, tokens, n, pooling, norm, out, &err));
    assert_int_equal(hearth_seq_length(s, seq), n);
    assert_null(hearth_embedding(s, 0));
    assert_null(hearth_logits(s, 0));
    hearth_seq_free(s, seq);
}

// ---- against the reference

// One element of what the head makes of a state, in double precision.
static double head_row(const struct hearth_model *m, int token, const float *state)
{
    const struct hearth_weight *w = &m->weights.output;
    float row[MOST_EMBD];
    double sum = 0;
    assert_true(w->k <= MOST_EMBD);
    hearth_type_info(w->type)->decode((const uint8_t *)w->data + (size_t)token * w->stride, row, w->k);
    for (size_t i = 0; i < w->k; i++)
        sum += (double)row[i] * (double)state[i];
    const float *bias = m->weights.output_b.data;
    sum += bias ? (double)bias[token] : 0;
    const double logit = sum * (double)m->hp.logit_scale, cap = (double)m->hp.logit_cap;
    return cap > 0 ? cap * tanh(logit / cap) : logit;
}

static void check_golden(const struct golden *g)
{
    static int n_seen;
    struct hearth_model *m = NULL;
    if (SANITIZED && n_seen++ % 10)
        return;
    OK(hearth_model_open(&m, g->path, NULL, &err));
    struct hearth_session *s = open_session(m, 50, 2);
    const size_t n = (size_t)g->n_tokens * g->n_vocab;
    float *states = floats(g->n_tokens * (size_t)width_of(m)), *logits = floats(n);
    embed(s, g->ids, (int)g->n_tokens, HEARTH_POOLING_NONE, -1, states);
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)head_row(m, (int)(i % g->n_vocab), states + i / g->n_vocab * (size_t)width_of(m));
    const double error = relative_l2(logits, g->decoded, n);
    printf("%-20s relative L2 %.2e\n", g->name, error);
    const char *type = strchr(g->name, '.');
    assert_true(error < (strchr(type, '4') || strstr(type, "IQ") || strstr(type, "TQ")
                             ? 4e-2
                             : 1e-3)); // as test_engine allows
    free(states);
    free(logits);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

static void test_golden(void **state)
{
    (void)state;
    assert_true(golden_each(check_golden) > 30);
}

// ---- nothing changes a bit

// Each token's state in prompts that hearth_evaluate() takes beside steps of another sequence.
static void embed_mixed(struct hearth_session *s, const struct hearth_model *m, const hearth_token *tokens,
                        float *states, float *logits)
{
    const int n_vocab = hearth_model_info(m)->n_vocab, width = width_of(m);
    const int other = hearth_seq_new(s, &err), seq = hearth_seq_new(s, &err);
    const hearth_token first = 3;
    OK(hearth_prompt(s, other, &first, 1, NULL, NULL, &err));
    for (int at = 0; at < N_TEXT;) {
        struct hearth_batch_row rows[6] = {{.seq = other,
                                            .pos = -1,
                                            .token = token_at(n_vocab, 2, at),
                                            .phase = HEARTH_PHASE_STEP,
                                            .wants_logits = true}};
        int n = 1;
        for (; n < 6 && at < N_TEXT; at++)
            rows[n++] = (struct hearth_batch_row){.seq = seq,
                                                  .pos = at,
                                                  .token = tokens[at],
                                                  .wants_logits = at % 4 == 2 || at + 1 == N_TEXT,
                                                  .wants_embedding = at % 3 != 1};
        OK(hearth_evaluate(s, rows, n, sizeof *rows, &err));
        assert_null(hearth_embedding(s, 0));
        assert_non_null(hearth_logits(s, 0));
        for (int i = 1; i < n; i++) {
            assert_true((hearth_embedding(s, i) != NULL) == (rows[i].wants_embedding != 0));
            assert_true((hearth_logits(s, i) != NULL) == rows[i].wants_logits);
            if (rows[i].wants_embedding)
                memcpy(states + rows[i].pos * width, hearth_embedding(s, i), (size_t)width * sizeof *states);
            if (rows[i].wants_logits)
                memcpy(logits, hearth_logits(s, i), (size_t)n_vocab * sizeof *logits);
        }
        assert_null(hearth_embedding(s, n));
        assert_null(hearth_embedding(s, -1));
    }
    hearth_seq_free(s, other);
    hearth_seq_free(s, seq);
}

static void check_mixed(const struct hearth_model *m, const float *want, const float *want_logits)
{
    const int width = width_of(m), n_vocab = hearth_model_info(m)->n_vocab;
    hearth_token tokens[N_TEXT];
    float *got = floats((size_t)(N_TEXT * width)), *logits = floats((size_t)n_vocab);
    struct hearth_session *s = open_session(m, 16, 2);
    text(m, tokens);
    embed_mixed(s, m, tokens, got, logits);
    for (int i = 0; i < N_TEXT; i++)
        if (i % 3 != 1)
            assert_memory_equal(got + i * width, want + i * width, (size_t)width * sizeof *got);
    assert_memory_equal(logits, want_logits, (size_t)n_vocab * sizeof *logits);
    free(got);
    free(logits);
    hearth_session_close(&s);
}

// The states of all tokens and the last token's logits, as a prompt gives them that wants no state.
static void find_wanted(const struct hearth_model *m, float **states, float **logits)
{
    const size_t n_vocab = (size_t)hearth_model_info(m)->n_vocab;
    hearth_token tokens[N_TEXT];
    struct hearth_session *s = open_session(m, 64, 1);
    text(m, tokens);
    *states = floats((size_t)(N_TEXT * width_of(m)));
    *logits = floats(n_vocab);
    embed(s, tokens, N_TEXT, HEARTH_POOLING_NONE, -1, *states);
    OK(hearth_prompt(s, hearth_seq_new(s, &err), tokens, N_TEXT, NULL, NULL, &err));
    memcpy(*logits, hearth_logits(s, 0), n_vocab * sizeof **logits);
    hearth_session_close(&s);
}

static void check_poolings(struct hearth_session *s, const struct hearth_model *m, const float *states)
{
    const int width = width_of(m);
    hearth_token tokens[N_TEXT];
    float got[MOST_EMBD], *all = floats((size_t)(N_TEXT * width));
    text(m, tokens);
    embed(s, tokens, N_TEXT, HEARTH_POOLING_NONE, -1, all);
    assert_memory_equal(all, states, (size_t)(N_TEXT * width) * sizeof *all);
    embed(s, tokens, N_TEXT, HEARTH_POOLING_CLS, -1, got);
    assert_memory_equal(got, states, (size_t)width * sizeof *got);
    embed(s, tokens, N_TEXT, HEARTH_POOLING_LAST, -1, got);
    assert_memory_equal(got, states + (N_TEXT - 1) * width, (size_t)width * sizeof *got);
    embed(s, tokens, N_TEXT, HEARTH_POOLING_MEAN, -1, got);
    for (int i = 0; i < width; i++) {
        double sum = 0;
        for (int k = 0; k < N_TEXT; k++)
            sum += (double)states[k * width + i];
        assert_true(got[i] == (float)(sum / (int)N_TEXT));
    }
    free(all);
}

static void test_bits(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-mha.Q4_0", "gemma3.Q8_0", "falcon-40b.Q8_0",
                                        "qwen3moe.Q8_0",  "opt.Q8_0",    "granitemoe.Q4_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i += SANITIZED ? 3 : 1) {
        struct golden g;
        struct hearth_model *m = NULL;
        float *states, *logits;
        assert_true(golden_read(&g, names[i]));
        OK(hearth_model_open(&m, g.path, NULL, &err));
        find_wanted(m, &states, &logits);
        for (int n_ubatch = 1; n_ubatch < 64; n_ubatch += 13) {
            struct hearth_session *s = open_session(m, n_ubatch, 1 + n_ubatch % 3);
            check_poolings(s, m, states);
            hearth_session_close(&s);
        }
        check_mixed(m, states, logits);
        free(states);
        free(logits);
        golden_free(&g);
        hearth_model_close(&m);
    }
}

// With the smallest budget: dense weights, neurons and experts that stream.
static void test_streamed(void **state)
{
    (void)state;
    static const char *const presets[] = {"tiny-dense", "tiny-turbosparse", "tiny-qwen3-moe"};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        uint64_t least, most;
        const char *path = make(presets[i]);
        hearth_token tokens[N_TEXT];
        float *want = NULL, *got = NULL;
        for (int streams = 0; streams < 2; streams++) {
            struct way way = {.n_threads = 2};
            if (streams) {
                find_budgets(path, way.sparsity, way.n_threads, &least, &most);
                way = (struct way){
                    .ram = least, .io = "pread", .n_threads = 2, .tests = {SMALL, .always = true}};
            }
            struct opened o = open_way(path, &way);
            const size_t n = (size_t)(N_TEXT * width_of(o.model));
            assert_true((o.session->sources->reader != NULL) == streams);
            text(o.model, tokens);
            want = streams ? want : floats(n);
            got = streams ? floats(n) : want;
            embed(o.session, tokens, N_TEXT, HEARTH_POOLING_NONE, -1, got);
            assert_memory_equal(got, want, n * sizeof *got);
            close_opened(&o);
        }
        free(got);
        free(want);
    }
}

// ---- what is not computed, and what is refused

static void test_no_head(void **state)
{
    (void)state;
    struct hearth_model *m = NULL;
    OK(hearth_model_open(&m, GOLDEN_MODELS "llama-mha.Q8_0.gguf", NULL, &err));
    struct hearth_session *s = open_session(m, 16, 1);
    hearth_token tokens[N_TEXT];
    float out[MOST_EMBD];
    text(m, tokens);
    s->work.logits[0] = 12345.0f;
    embed(s, tokens, N_TEXT, HEARTH_POOLING_MEAN, 2, out);
    const struct hearth_batch_row row = {.seq = hearth_seq_new(s, &err), .pos = -1, .wants_embedding = 1};
    OK(hearth_evaluate(s, &row, 1, sizeof row, &err));
    assert_non_null(hearth_embedding(s, 0));
    assert_true(s->work.logits[0] == 12345.0f);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

static bool refuse_late(void *arg, float share)
{
    (void)arg;
    return share < 0.8f;
}

static void test_refusals(void **state)
{
    (void)state;
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    hearth_token tokens[N_TEXT];
    float out[MOST_EMBD], again[MOST_EMBD];
    OK(hearth_model_open(&m, GOLDEN_MODELS "llama-mha.Q8_0.gguf", NULL, &err));
    p.n_ctx = N_TEXT + 5;
    p.n_ubatch = 16;
    p.progress = refuse_late;
    text(m, tokens);
    OK(hearth_session_open(&s, m, &p, &err));
    const int seq = hearth_seq_new(s, &err);
    const enum hearth_pooling mean = HEARTH_POOLING_MEAN;
    REFUSED(hearth_embed(s, seq, tokens, N_TEXT, (enum hearth_pooling)4, 2, out, &check_error),
            HEARTH_E_INVALID, "there is no pooling 4");
    REFUSED(hearth_embed(s, seq, tokens, N_TEXT, mean, 2, NULL, &check_error), HEARTH_E_INVALID,
            "out is NULL");
    REFUSED(hearth_embed(s, seq, NULL, N_TEXT, mean, 2, out, &check_error), HEARTH_E_INVALID,
            "tokens is NULL");
    REFUSED(hearth_embed(s, seq, tokens, 0, mean, 2, out, &check_error), HEARTH_E_INVALID, "at least one");
    REFUSED(hearth_embed(s, 7, tokens, N_TEXT, mean, 2, out, &check_error), HEARTH_E_INVALID, "sequence");
    REFUSED(hearth_embed(s, seq, tokens, N_TEXT, mean, 2, out, &check_error), HEARTH_E_INTERRUPTED,
            "stopped");
    assert_int_equal(hearth_seq_length(s, seq), 0);
    s->progress.fn = NULL;
    OK(hearth_embed(s, seq, tokens, N_TEXT, mean, 2, out, &err));
    REFUSED(hearth_embed(s, seq, tokens, 6, mean, 2, again, &check_error), HEARTH_E_BUDGET, "n_ctx");
    assert_int_equal(hearth_seq_length(s, seq), N_TEXT);
    // After what failed half-way, the same as ever.
    OK(hearth_seq_truncate(s, seq, 0, &err));
    OK(hearth_embed(s, seq, tokens, N_TEXT, mean, 2, again, &err));
    assert_memory_equal(again, out, (size_t)width_of(m) * sizeof *out);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- norms

static void check_norm(int norm, const float want[3])
{
    float x[3] = {3, -4, 0}, zeros[3] = {0};
    hearth_embedding_normalize(x, 3, norm);
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)x[i] - (double)want[i]) <= 1e-6 * fabs((double)want[i]));
    hearth_embedding_normalize(zeros, 3, norm);
    assert_true(zeros[0] == 0 && zeros[1] == 0 && zeros[2] == 0);
}

static void test_norms(void **state)
{
    (void)state;
    check_norm(-1, (const float[]){3, -4, 0});
    check_norm(0, (const float[]){24570, -32760, 0});
    check_norm(1, (const float[]){3.0f / 7, -4.0f / 7, 0});
    check_norm(2, (const float[]){0.6f, -0.8f, 0});
    check_norm(3, (const float[]){0.666972f, -0.889296f, 0}); // by the cube root of 91
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_bits),
        cmocka_unit_test_setup_teardown(test_streamed, make_folder, remove_folder),
        cmocka_unit_test(test_no_head),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
