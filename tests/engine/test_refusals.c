// SPDX-License-Identifier: MIT
// What sessions refuse, through hearth.h alone: the code and the words say what was wrong, and the session
// goes on as if nobody had asked.
#include "check.h"

#define MODEL HEARTH_SOURCE_DIR "/tests/golden/models/llama-mha.F32.gguf"

enum { MAX_SEQS = 2 };

static struct hearth_model *open_model(bool vocab_only)
{
    struct hearth_model *m = NULL;
    struct hearth_model_params p = hearth_model_params_default();
    p.vocab_only = vocab_only;
    CHECK(hearth_model_open(&m, MODEL, &p, &check_error));
    return m;
}

// The error names the parameter, too.
static void refuse_param(const struct hearth_model *m, struct hearth_session_params p, const char *param,
                         const char *words)
{
    struct hearth_session *s = (void *)&s;
    struct hearth_error refusal = {0};
    REFUSED(hearth_session_open(&s, m, &p, &check_error), HEARTH_E_INVALID, words);
    hearth_session_open(&s, m, &p, &refusal);
    assert_null(s);
    if (param)
        assert_string_equal(refusal.param, param);
    else
        assert_null(refusal.param);
}

static void refuse_session(const struct hearth_model *m, struct hearth_session_params p, const char *words)
{
    refuse_param(m, p, NULL, words);
}

static void test_params(void **state)
{
    (void)state;
    struct hearth_model *m = open_model(false);
    const struct hearth_session_params usual = hearth_session_params_default();
    struct hearth_session_params p = usual;
    p.n_ctx = -1;
    refuse_param(m, p, "n_ctx", "a context of -1 tokens");
    p.n_ctx = (1 << 26) + 1;
    refuse_param(m, p, "n_ctx", "out of range");
    p = usual;
    p.max_seqs = 0;
    refuse_param(m, p, "max_seqs", "0 sequences");
    p.max_seqs = 4097;
    refuse_param(m, p, "max_seqs", "4097 sequences");
    p = usual;
    p.type_k = (enum hearth_kv_type)(HEARTH_KV_Q8_0 + 1);
    refuse_param(m, p, "type_k", "no such type");
    p = usual;
    p.type_v = (enum hearth_kv_type) - 1;
    refuse_param(m, p, "type_v", "no such type");
    p = usual;
    p.sparsity = (enum hearth_sparsity)(HEARTH_SPARSITY_PREDICT + 1);
    refuse_param(m, p, "sparsity", "no sparsity");
    p = usual;
    p.max_steps = 65536;
    refuse_param(m, p, "max_steps", "65536 rows of steps (max_steps) are out of range (0 to 65535)");
    p = usual;
    p.n_ubatch = -1;
    refuse_param(m, p, "n_ubatch", "a micro-batch of -1 tokens");
    p.n_ubatch = (1 << 16) + 1;
    refuse_param(m, p, "n_ubatch", "out of range");
    p = usual;
    p.n_threads = 1 << 20;
    refuse_param(m, p, "n_threads", "n_threads is 1048576");
    hearth_model_close(&m);
}

static void refuse_model(struct hearth_model_params p, const char *param, const char *words)
{
    struct hearth_model *m = (void *)&m;
    struct hearth_error refusal = {0};
    REFUSED(hearth_model_open(&m, MODEL, &p, &check_error), HEARTH_E_INVALID, words);
    hearth_model_open(&m, MODEL, &p, &refusal);
    assert_null(m);
    assert_string_equal(refusal.param, param);
}

// Names are checked when the model opens, whether or not anything is read by them later.
static void test_model_params(void **state)
{
    (void)state;
    struct hearth_model_params p = hearth_model_params_default();
    p.io = "floppy";
    refuse_model(p, "io", "there is no io \"floppy\": use auto, uring or pread");
    p.io = "pread";
    p.throttle = "ufs5";
    refuse_model(p, "throttle", "\"ufs5\" is no kind of storage");
    p.throttle = NULL;
    p.max_sessions = 257;
    refuse_model(p, "max_sessions", "not 257");
}

// Zeros in place of the defaults, and nothing in place of a path or a model.
static void test_nothing(void **state)
{
    (void)state;
    struct hearth_model *m = (void *)&m;
    struct hearth_model_params p = {0};
    struct hearth_session *s = (void *)&s;
    REFUSED(hearth_model_open(&m, NULL, NULL, &check_error), HEARTH_E_INVALID, "there is no path");
    REFUSED(hearth_model_open(&m, MODEL, &p, &check_error), HEARTH_E_INVALID,
            "begin with the defaults, which hearth_model_params_default() gives");
    assert_null(m);
    REFUSED(hearth_session_open(&s, NULL, NULL, &check_error), HEARTH_E_INVALID, "there is no model");
    assert_null(s);
    m = open_model(false);
    refuse_session(m, (struct hearth_session_params){0},
                   "begin with the defaults, which hearth_session_params_default() gives");
    CHECK(hearth_session_open(&s, m, NULL, &check_error));
    const int seq = hearth_seq_new(s, NULL);
    REFUSED(hearth_seq_save(s, seq, NULL, &check_error), HEARTH_E_INVALID, "there is no path");
    REFUSED(hearth_seq_load(s, NULL, &check_error), HEARTH_E_INVALID, "there is no path");
    REFUSED(hearth_session_trace(s, NULL, &check_error), HEARTH_E_INVALID, "there is no path");
    hearth_session_close(&s);
    hearth_model_close(&m);
}

static void test_vocab_only(void **state)
{
    (void)state;
    struct hearth_model *m = open_model(true);
    refuse_session(m, hearth_session_params_default(), "opened for its vocabulary only");
    hearth_model_close(&m);
}

// Logits of a prompt of three tokens, kept before and looked at after what is refused.
static float *prompt(struct hearth_session *s, int seq, int n_vocab)
{
    const hearth_token tokens[] = {1, 40, 41};
    float *logits = malloc((size_t)n_vocab * sizeof *logits);
    CHECK(hearth_prompt(s, seq, tokens, 3, NULL, NULL, &check_error));
    memcpy(logits, hearth_logits(s, 0), (size_t)n_vocab * sizeof *logits);
    return logits;
}

static void test_steps(void **state)
{
    (void)state;
    struct hearth_model *m = open_model(false);
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    p.max_seqs = MAX_SEQS;
    p.n_threads = 1;
    CHECK(hearth_session_open(&s, m, &p, &check_error));
    const int n_vocab = hearth_model_info(m)->n_vocab, a = hearth_seq_new(s, NULL),
              b = hearth_seq_new(s, NULL);
    float *before = prompt(s, a, n_vocab);

    const hearth_token tokens[MAX_SEQS + 1] = {7, 8, 9};
    REFUSED(hearth_step(s, &b, tokens, 0, &check_error), HEARTH_E_INVALID, "1 to 2 sequences, not 0");
    REFUSED(hearth_step(s, &b, tokens, -1, &check_error), HEARTH_E_INVALID, "not -1");
    REFUSED(hearth_step(s, (int[]){a, b, a}, tokens, MAX_SEQS + 1, &check_error), HEARTH_E_INVALID, "not 3");
    REFUSED(hearth_step(s, (int[]){b, b}, tokens, 2, &check_error), HEARTH_E_INVALID,
            "row 1, sequence 1: it is in row 0 already, and twice in one step");
    REFUSED(hearth_step(s, (int[]){b, 2}, tokens, 2, &check_error), HEARTH_E_INVALID,
            "row 1, sequence 2: there is no sequence 2");
    REFUSED(hearth_step(s, &b, &n_vocab, 1, &check_error), HEARTH_E_INVALID, "row 0, sequence 1: token");
    const hearth_token outside[] = {7, 8, -1};
    REFUSED(hearth_prompt(s, b, outside, 3, NULL, NULL, &check_error), HEARTH_E_INVALID,
            "tokens[2]: token -1 is outside the vocabulary");
    REFUSED(hearth_prompt(s, b, tokens, 0, NULL, NULL, &check_error), HEARTH_E_INVALID, "at least one token");
    REFUSED(hearth_prompt(s, b, NULL, 3, NULL, NULL, &check_error), HEARTH_E_INVALID,
            "tokens is NULL, and the prompt has 3 of them");
    REFUSED(hearth_step(s, &b, NULL, 1, &check_error), HEARTH_E_INVALID, "tokens is NULL");
    REFUSED(hearth_step(s, NULL, tokens, 2, &check_error), HEARTH_E_INVALID,
            "seqs is NULL, and the step has 2 of them");
    REFUSED(hearth_evaluate(s, NULL, 2, sizeof(struct hearth_batch_row), &check_error), HEARTH_E_INVALID,
            "rows is NULL, and 2 of them are to be evaluated");
    assert_null(hearth_logits(s, 0));
    assert_int_equal(hearth_seq_length(s, a), 3);
    assert_int_equal(hearth_seq_length(s, b), 0);

    float *after = prompt(s, b, n_vocab);
    assert_memory_equal(after, before, (size_t)n_vocab * sizeof *after);
    free(after);
    free(before);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params),  cmocka_unit_test(test_model_params),
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_vocab_only),
        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
