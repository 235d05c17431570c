// SPDX-License-Identifier: MIT
// Divergences against their definitions, worked out plainly; rows of log-probabilities give back what went in; damaged
// files of them are refused.
#include "check.h"

#include <math.h>

#include "base/os.h"
#include "cli/divergence.h"
#include "cli/logits_base.h"

#define VOCAB 37
#define N     50

static uint32_t state_of_noise = 12345;

// From -1 to 1.
static float noise(void)
{
    state_of_noise = state_of_noise * 1664525u + 1013904223u;
    return (float)(state_of_noise >> 8) / (float)(1 << 23) - 1;
}

static void probabilities(double *p, const float *logits)
{
    double sum = 0;
    for (int i = 0; i < VOCAB; i++)
        sum += exp((double)logits[i]);
    for (int i = 0; i < VOCAB; i++)
        p[i] = exp((double)logits[i]) / sum;
}

static void near(double value, double wanted, double tolerance)
{
    if (!(fabs(value - wanted) <= tolerance))
        fail_msg("%.9f where %.9f was to come", value, wanted);
}

static void test_rows(void **state)
{
    (void)state;
    float logits[VOCAB];
    double p[VOCAB];
    uint16_t row[2 * VOCAB];
    assert_int_equal(hearth_base_row_size(VOCAB), 4 + VOCAB + 1);
    assert_int_equal(hearth_base_row_size(VOCAB + 1), 4 + VOCAB + 1);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = 5 * noise();
    logits[7] = 9;
    logits[8] = -90; // which counts as 16 below the largest
    hearth_base_row_encode(row, logits, VOCAB);
    probabilities(p, logits);
    for (int i = 0; i < VOCAB; i++)
        near(hearth_base_row_log_prob(row, i), i == 8 ? log(p[7]) - 16 : log(p[i]), 16.0 / 65535);
    assert_int_equal(hearth_base_row_best(row, VOCAB), 7);
    // All the same: no steps at all.
    for (int i = 0; i < VOCAB; i++)
        logits[i] = 3;
    hearth_base_row_encode(row, logits, VOCAB);
    near(hearth_base_row_log_prob(row, 11), -log(VOCAB), 1e-6);
    assert_int_equal(hearth_base_row_best(row, VOCAB), 0);
}

struct plain {
    double nll[N], base[N], kld[N], dp[N], same[N];
};

static double mean(const double *v)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += v[i];
    return sum / N;
}

// Of the products of two series' distances from their means, divided by N (N - 1): of one series twice, the square
// of its mean's standard error.
static double covariance(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += (a[i] - mean(a)) * (b[i] - mean(b));
    return sum / N / (N - 1);
}

static void test_figures(void **state)
{
    (void)state;
    struct plain t;
    struct hearth_divergence d;
    assert_true(hearth_divergence_open(&d, N));
    for (int k = 0; k < N; k++) {
        float base[VOCAB], logits[VOCAB];
        double p[VOCAB], q[VOCAB];
        uint16_t row[2 * VOCAB];
        for (int i = 0; i < VOCAB; i++) {
            base[i] = 4 * noise();
            logits[i] = base[i] + 0.5f * noise();
        }
        const int token = k % VOCAB;
        hearth_base_row_encode(row, base, VOCAB);
        hearth_divergence_add(&d, logits, VOCAB, row, token);
        probabilities(p, base);
        probabilities(q, logits);
        int best_p = 0, best_q = 0;
        t.kld[k] = 0;
        for (int i = 0; i < VOCAB; i++) {
            t.kld[k] += p[i] * log(p[i] / q[i]);
            best_p = p[i] > p[best_p] ? i : best_p;
            best_q = q[i] > q[best_q] ? i : best_q;
        }
        t.nll[k] = -log(q[token]);
        t.base[k] = -log(p[token]);
        t.dp[k] = q[token] - p[token];
        t.same[k] = best_p == best_q;
    }
    const struct hearth_divergence_result r = hearth_divergence_result(&d);
    const double ppl = exp(mean(t.nll)), ppl_base = exp(mean(t.base));
    const double var_q = covariance(t.nll, t.nll), var_p = covariance(t.base, t.base),
                 both = covariance(t.nll, t.base);
    near(r.ppl.value, ppl, 1e-3 * ppl);
    near(r.ppl.error, ppl * sqrt(var_q), 1e-3);
    near(r.ppl_base.value, ppl_base, 1e-3 * ppl_base);
    near(r.ppl_base.error, ppl_base * sqrt(var_p), 1e-2);
    near(r.correlation, both / sqrt(var_q * var_p), 1e-3);
    near(r.log_ratio.value, mean(t.nll) - mean(t.base), 1e-4);
    near(r.log_ratio.error, sqrt(var_q + var_p - 2 * both), 1e-4);
    near(r.ratio.value, ppl / ppl_base, 1e-3);
    near(r.ratio.error, ppl / ppl_base * sqrt(var_q + var_p - 2 * both), 1e-3);
    near(r.difference.value, ppl - ppl_base, 1e-2);
    near(r.difference.error,
         sqrt(ppl * ppl * var_q + ppl_base * ppl_base * var_p - 2 * both * ppl * ppl_base), 1e-2);
    near(r.kld.value, mean(t.kld), 1e-4);
    near(r.kld.error, sqrt(covariance(t.kld, t.kld)), 1e-4);
    near(r.dp.value, mean(t.dp), 1e-4);
    near(r.dp.error, sqrt(covariance(t.dp, t.dp)), 1e-4);
    double squares[N];
    for (int k = 0; k < N; k++)
        squares[k] = t.dp[k] * t.dp[k];
    near(r.dp_rms.value, sqrt(mean(squares)), 1e-4);
    near(r.dp_rms.error, 0.5 * sqrt(covariance(squares, squares) / mean(squares)), 1e-4);
    near(r.same_best.value, mean(t.same), 1e-9);
    near(r.same_best.error, sqrt(covariance(t.same, t.same)), 1e-9);
    assert_true(r.same_best.value > 0.3 && r.same_best.value < 1); // something to count
    for (int k = 1; k < N; k++)
        assert_true(d.klds[k - 1] <= d.klds[k] && d.dps[k - 1] <= d.dps[k]);
    hearth_divergence_close(&d);
}

static void test_percentiles(void **state)
{
    (void)state;
    const float values[] = {1, 2, 4, 8};
    near(hearth_percentile(values, 4, 0), 1, 0);
    near(hearth_percentile(values, 4, 1), 8, 0);
    near(hearth_percentile(values, 4, 0.5), 3, 1e-12);
    near(hearth_percentile(values, 4, 0.9), 6.8, 1e-6);
    near(hearth_percentile(values, 1, 0.3), 1, 0);
}

// Two chunks of six tokens, so two rows each.
static void write_file(const char *path, int32_t token, size_t cut)
{
    struct hearth_outfile *out;
    hearth_token tokens[12] = {0};
    float logits[VOCAB] = {0};
    uint16_t row[2 * VOCAB];
    tokens[9] = token;
    CHECK(hearth_outfile_open(&out, path, &check_error));
    CHECK(hearth_base_file_begin(out, 6, VOCAB, 2, tokens, &check_error));
    for (int i = 0; i < 4; i++) {
        logits[i] = 1;
        hearth_base_row_encode(row, logits, VOCAB);
        CHECK(hearth_outfile_write(out, row, hearth_base_row_size(VOCAB) * sizeof *row, &check_error));
    }
    if (cut)
        hearth_outfile_cut(out, hearth_outfile_offset(out) - cut);
    CHECK(hearth_outfile_commit(&out, &check_error));
}

static void refused(const char *path, const char *words)
{
    struct hearth_base_file b;
    REFUSED(hearth_base_file_open(&b, path, &check_error), HEARTH_E_FORMAT, words);
}

static void set_bytes(const char *path, long at, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void test_files(void **state)
{
    (void)state;
    const char *path = in_folder("base.kld");
    struct hearth_error err;
    struct hearth_base_file b;
    uint16_t row[2 * VOCAB];
    write_file(path, 5, 0);
    OK(hearth_base_file_open(&b, path, &err));
    assert_true(b.n_ctx == 6 && b.n_vocab == VOCAB && b.n_chunks == 2 && b.tokens[9] == 5);
    assert_int_equal(hearth_base_rows(6), 2);
    for (int i = 0; i < 4; i++) {
        OK(hearth_base_file_row(&b, row, &err));
        near(hearth_base_row_log_prob(row, i), 1 - log((i + 1) * exp(1) + VOCAB - i - 1), 1e-4);
    }
    REFUSED(hearth_base_file_row(&b, row, &check_error), HEARTH_E_FORMAT, "ends too early");
    hearth_base_file_close(&b);

    // Scale and least value of the first row that no model gives: deeper than the format, above 1, below all being equal.
    const float wrong[][2] = {{3e38f, -3}, {18.f / 65535, -18},    {-1e-4f, -1}, {1.f / 65535, -0.99f},
                              {0, -3.7f},  {16.f / 65535, -3e38f}, {NAN, -3},    {1.f / 65535, -INFINITY}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_file(path, 5, 0);
        set_bytes(path, 20 + 12 * 4, wrong[i], sizeof wrong[i]);
        OK(hearth_base_file_open(&b, path, &err));
        REFUSED(hearth_base_file_row(&b, row, &check_error), HEARTH_E_FORMAT, "damaged");
        hearth_base_file_close(&b);
    }
    // As sharp as a row can be, and as flat.
    const float right[][2] = {{16.f / 65535, -16}, {0, -3.6109f}};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        set_bytes(path, 20 + 12 * 4, right[i], sizeof right[i]);
        OK(hearth_base_file_open(&b, path, &err));
        OK(hearth_base_file_row(&b, row, &err));
        hearth_base_file_close(&b);
    }

    write_file(path, VOCAB, 0);
    refused(path, "damaged");
    write_file(path, -1, 0);
    refused(path, "damaged");
    write_file(path, 5, 1);
    refused(path, "ends too early");
    const int32_t many[3] = {67108864, INT32_MAX, INT32_MAX}, none = 0, less = -1;
    write_file(path, 5, 0);
    set_bytes(path, 8, many, sizeof many);
    refused(path, "ends too early");
    for (long at = 8; at <= 16; at += 4) {
        write_file(path, 5, 0);
        set_bytes(path, at, &none, sizeof none);
        refused(path, "damaged");
        set_bytes(path, at, &less, sizeof less);
        refused(path, "damaged");
    }
    set_bytes(path, 0, "GGUF", 4);
    refused(path, "--kl-divergence-base");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_percentiles),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
