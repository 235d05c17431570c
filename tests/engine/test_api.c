// SPDX-License-Identifier: MIT
// The public API as a program sees it: parameter structs of other versions of the header, names of errors,
// the log.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "hearth.h"

static const char *const model_path = HEARTH_SOURCE_DIR "/models/hearth-novels-drelu-Q8_0.gguf";

static struct hearth_model *open_model(const struct hearth_model_params *params)
{
    struct hearth_model *m = NULL;
    struct hearth_error err = {0};
    if (hearth_model_open(&m, model_path, params, &err))
        fail_msg("%s", err.message);
    return m;
}

static struct hearth_session *open_session(const struct hearth_model *m,
                                           const struct hearth_session_params *params)
{
    struct hearth_session *s = NULL;
    struct hearth_error err = {0};
    if (hearth_session_open(&s, m, params, &err))
        fail_msg("%s", err.message);
    return s;
}

// ---- parameter structs

// A header of the future: one field more.
struct newer_model_params {
    struct hearth_model_params known;
    uint64_t more;
};

static void test_default_sizes(void **state)
{
    (void)state;
    assert_int_equal(hearth_model_params_default().size, sizeof(struct hearth_model_params));
    assert_int_equal(hearth_session_params_default().size, sizeof(struct hearth_session_params));
    assert_int_equal(hearth_sampler_params_default().size, sizeof(struct hearth_sampler_params));
    assert_int_equal(hearth_session_params_default().max_seqs, 1);
    assert_true(hearth_session_params_default().predict_threshold !=
                hearth_session_params_default().predict_threshold);
    assert_int_equal(hearth_sampler_params_default().top_k, 40);
}

// What an older header does not have takes its default, whatever lies behind the struct.
static void test_older_header(void **state)
{
    (void)state;
    struct hearth_model_params mp;
    memset(&mp, 0xff, sizeof mp);
    hearth_model_params_init(&mp, offsetof(struct hearth_model_params, ram));
    assert_int_equal(mp.ram, UINT64_MAX); // not ours to write
    mp.cpu = "c";
    struct hearth_model *m = open_model(&mp);

    struct hearth_session_params sp;
    memset(&sp, 0xff, sizeof sp);
    hearth_session_params_init(&sp, offsetof(struct hearth_session_params, n_ubatch));
    sp.n_ctx = 50;
    assert_int_equal(sp.max_seqs, 1);
    assert_int_equal(sp.n_ubatch, -1);
    struct hearth_session *s = open_session(m, &sp);
    assert_int_equal(hearth_session_n_ctx(s), 50);
    assert_int_equal(hearth_seq_new(s, NULL), 0);
    assert_int_equal(hearth_seq_new(s, NULL), HEARTH_E_BUDGET);
    hearth_session_close(&s);

    struct hearth_sampler_params pp;
    memset(&pp, 0xff, sizeof pp);
    hearth_sampler_params_init(&pp, offsetof(struct hearth_sampler_params, min_p));
    pp.seed = 5;
    struct hearth_sampler *sampler = NULL;
    assert_int_equal(hearth_sampler_open(&sampler, hearth_model_info(m)->n_vocab, &pp, NULL), 0);
    assert_int_equal(hearth_sampler_seed(sampler), 5);
    hearth_sampler_close(&sampler);
    hearth_model_close(&m);
}

static void test_newer_header(void **state)
{
    (void)state;
    struct newer_model_params p;
    memset(&p, 0xff, sizeof p);
    hearth_model_params_init(&p.known, sizeof p);
    assert_int_equal(p.known.size, sizeof p);
    assert_int_equal(p.more, 0);
    struct hearth_model *m = (void *)&p;
    struct hearth_error err = {0};
    assert_int_equal(hearth_model_open(&m, model_path, &p.known, &err), HEARTH_E_INVALID);
    assert_null(m);
    assert_non_null(strstr(err.message, "newer hearth.h"));
    assert_non_null(strstr(err.message, "hearth_model_params"));
}

static void test_nonsense_sizes(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 4, 20, (size_t)1 << 17, SIZE_MAX - 7};
    struct hearth_model *m = open_model(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct hearth_error err = {0};
        struct hearth_model_params mp = hearth_model_params_default();
        struct hearth_session_params sp = hearth_session_params_default();
        struct hearth_sampler_params pp = hearth_sampler_params_default();
        mp.size = sp.size = pp.size = sizes[i];
        struct hearth_model *other = NULL;
        assert_int_equal(hearth_model_open(&other, model_path, &mp, &err), HEARTH_E_INVALID);
        assert_non_null(strstr(err.message, "begin with the defaults, which hearth_model_params_default()"));
        struct hearth_session *s = NULL;
        assert_int_equal(hearth_session_open(&s, m, &sp, &err), HEARTH_E_INVALID);
        assert_non_null(
            strstr(err.message, "begin with the defaults, which hearth_session_params_default()"));
        struct hearth_sampler *sampler = NULL;
        assert_int_equal(hearth_sampler_open(&sampler, 10, &pp, &err), HEARTH_E_INVALID);
        assert_non_null(
            strstr(err.message, "begin with the defaults, which hearth_sampler_params_default()"));
        assert_true(!other && !s && !sampler);
    }
    hearth_model_close(&m);
}

// No parameters at all: every default.
static void test_no_params(void **state)
{
    (void)state;
    struct hearth_model *m = open_model(NULL);
    struct hearth_session *s = open_session(m, NULL);
    struct hearth_sampler *sampler = NULL;
    assert_int_equal(hearth_sampler_open(&sampler, hearth_model_info(m)->n_vocab, NULL, NULL), 0);
    hearth_sampler_close(&sampler);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- structs that the library fills

// Programs compiled with an older header have less room, those with a newer one get zeros.
static void test_stats_sizes(void **state)
{
    (void)state;
    struct hearth_model *m = open_model(NULL);
    struct hearth_session *s = open_session(m, NULL);
    struct {
        struct hearth_stats known;
        uint64_t more;
    } stats;
    struct {
        struct hearth_kv_stats known;
        uint64_t more;
    } kv;
    struct {
        struct hearth_streaming_stats known;
        uint64_t more;
    } streaming;
    memset(&stats, 0xff, sizeof stats);
    memset(&kv, 0xff, sizeof kv);
    memset(&streaming, 0xff, sizeof streaming);
    hearth_session_stats(s, &stats.known, offsetof(struct hearth_stats, kv_bytes));
    hearth_session_kv_stats(s, &kv.known, offsetof(struct hearth_kv_stats, pages_shared));
    hearth_session_streaming_stats(s, &streaming.known, offsetof(struct hearth_streaming_stats, io));
    assert_true(stats.known.memory_bytes > 0 && stats.known.memory_bytes != UINT64_MAX);
    assert_true(stats.known.kv_bytes == UINT64_MAX); // not ours to write
    assert_int_equal(kv.known.pages_used, 0);
    assert_true(kv.known.pages_shared == UINT64_MAX);
    assert_non_null(streaming.known.io);
    hearth_session_stats(s, &stats.known, sizeof stats);
    hearth_session_kv_stats(s, &kv.known, sizeof kv);
    hearth_session_streaming_stats(s, &streaming.known, sizeof streaming);
    assert_true(stats.known.kv_bytes > 0 && stats.known.kv_bytes < stats.known.memory_bytes);
    assert_true(stats.more == 0 && kv.more == 0 && streaming.more == 0);
    assert_int_equal(kv.known.pages_shared, 0);
    assert_null(streaming.known.io);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- limits

static void test_limits(void **state)
{
    (void)state;
    struct hearth_model *m = open_model(NULL);
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = 100;
    p.max_seqs = 3;
    p.max_steps = 40;
    p.n_ubatch = 20;
    p.kv_tokens = 250;
    struct hearth_session *s = open_session(m, &p);
    assert_int_equal(hearth_session_n_ctx(s), 100);
    assert_int_equal(hearth_session_max_seqs(s), 3);
    assert_int_equal(hearth_session_max_steps(s), 40);
    assert_int_equal(hearth_session_max_rows(s), 60);
    assert_int_equal(hearth_session_max_logits(s), 43);
    assert_int_equal(hearth_session_kv_tokens(s), 256);
    assert_int_equal(hearth_session_kv_free(s), 256);
    const hearth_token token = 20;
    const int seq = hearth_seq_new(s, NULL);
    assert_int_equal(hearth_prompt(s, seq, &token, 1, NULL, NULL, NULL), 0);
    assert_int_equal(hearth_session_kv_free(s), 192);
    hearth_seq_free(s, seq);
    assert_int_equal(hearth_session_kv_free(s), 256);
    hearth_session_close(&s);
    s = open_session(m, NULL);
    assert_int_equal(hearth_session_max_steps(s), 1);
    assert_int_equal(hearth_session_max_logits(s), 32);
    assert_int_equal(hearth_session_kv_tokens(s), hearth_session_n_ctx(s));
    hearth_session_close(&s);
    hearth_model_close(&m);
}

// ---- errors and log

static void test_error_names(void **state)
{
    (void)state;
    assert_string_equal(hearth_error_name(HEARTH_OK), "HEARTH_OK");
    assert_string_equal(hearth_error_name(HEARTH_E_INVALID), "HEARTH_E_INVALID");
    assert_string_equal(hearth_error_name(HEARTH_E_BUDGET), "HEARTH_E_BUDGET");
    assert_string_equal(hearth_error_name(HEARTH_E_INTERRUPTED), "HEARTH_E_INTERRUPTED");
    assert_string_equal(hearth_error_name(HEARTH_E_KV_FULL), "HEARTH_E_KV_FULL");
    assert_string_equal(hearth_error_name(HEARTH_E_KV_FULL - 1), "unknown code");
    assert_string_equal(hearth_error_name(1), "unknown code");
    assert_string_equal(hearth_error_name(INT32_MIN), "unknown code");
}

struct heard {
    int n;
    enum hearth_log_level level;
    char last[500];
};

static void listen(void *arg, enum hearth_log_level level, const char *message)
{
    struct heard *h = arg;
    h->n++;
    h->level = level;
    snprintf(h->last, sizeof h->last, "%s", message);
}

// A session beyond the context that the model was trained for is worth a warning.
static void test_log(void **state)
{
    (void)state;
    struct heard h = {0}, other = {0};
    struct hearth_model *m = open_model(NULL);
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = hearth_model_info(m)->n_ctx_train + 1;
    hearth_log_set(listen, &h);
    struct hearth_session *s = open_session(m, &p);
    hearth_session_close(&s);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.level, HEARTH_LOG_WARNING);
    assert_non_null(strstr(h.last, "context"));
    assert_non_null(strstr(h.last, " MiB)")); // what it takes
    hearth_log_set(listen, &other);
    s = open_session(m, &p);
    hearth_session_close(&s);
    hearth_log_set(NULL, NULL);
    s = open_session(m, &p);
    hearth_session_close(&s);
    assert_int_equal(h.n, 1);
    assert_int_equal(other.n, 1);
    hearth_model_close(&m);
}

// ---- a failed prompt leaves the sequence as it was

static bool stop_at_five(void *arg, int index, const float *logits)
{
    (void)arg;
    (void)logits;
    return index < 5;
}

static void test_failed_prompt(void **state)
{
    (void)state;
    enum { N = 12 };
    hearth_token tokens[2 * N];
    for (int i = 0; i < 2 * N; i++)
        tokens[i] = 20 + i;
    struct hearth_model *m = open_model(NULL);
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ubatch = 3;
    p.n_ctx = 2 * N;
    struct hearth_session *s = open_session(m, &p);
    const int seq = hearth_seq_new(s, NULL);
    assert_int_equal(hearth_prompt(s, seq, tokens, 2, NULL, NULL, NULL), 0);
    assert_int_equal(hearth_prompt(s, seq, tokens, N, stop_at_five, NULL, NULL), HEARTH_E_INTERRUPTED);
    assert_int_equal(hearth_seq_length(s, seq), 2);
    assert_null(hearth_logits(s, 0));
    assert_int_equal(hearth_prompt(s, seq, tokens, 2 * N, NULL, NULL, NULL), HEARTH_E_BUDGET);
    assert_int_equal(hearth_seq_length(s, seq), 2);
    assert_int_equal(hearth_prompt(s, -1, tokens, 1, NULL, NULL, NULL), HEARTH_E_INVALID);
    assert_int_equal(hearth_prompt(s, seq, tokens, 2 * N - 2, NULL, NULL, NULL), 0);
    hearth_session_close(&s);
    hearth_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_sizes), cmocka_unit_test(test_older_header),
        cmocka_unit_test(test_newer_header),  cmocka_unit_test(test_nonsense_sizes),
        cmocka_unit_test(test_no_params),     cmocka_unit_test(test_error_names),
        cmocka_unit_test(test_log),           cmocka_unit_test(test_failed_prompt),
        cmocka_unit_test(test_stats_sizes),   cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
