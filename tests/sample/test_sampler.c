// SPDX-License-Identifier: MIT
// Samplers: what each one keeps, that draws follow the probabilities, that seeds repeat.
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"

enum { N = 8 };
// softmax: 0.42, 0.25, 0.15, 0.09, 0.06, 0.02, 0.004, 0.001 roughly, out of order on purpose
static const float logits[N] = {1.0f, 3.0f, 2.5f, 0.0f, 2.0f, 1.5f, -2.0f, -3.0f};

static struct hearth_sampler *open_sampler(struct hearth_sampler_params p)
{
    struct hearth_sampler *s = NULL;
    struct hearth_error err = {0};
    if (hearth_sampler_open(&s, N, &p, &err))
        fail_msg("%s", err.message);
    return s;
}

// No truncation, no penalties.
static struct hearth_sampler_params plain(uint32_t seed)
{
    struct hearth_sampler_params p = hearth_sampler_params_default();
    p.seed = seed;
    p.temp = 1.0f;
    p.top_k = 0;
    p.top_p = 1.0f;
    p.min_p = 0.0f;
    return p;
}

static void count(struct hearth_sampler_params p, int draws, int counts[N])
{
    struct hearth_sampler *s = open_sampler(p);
    memset(counts, 0, N * sizeof *counts);
    for (int i = 0; i < draws; i++)
        counts[hearth_sample(s, logits)]++;
    hearth_sampler_close(&s);
    assert_null(s);
}

// Draws agree with softmax(logits / temp) over the kept tokens (a chi-square test with a generous bound).
static void check_distribution(struct hearth_sampler_params p, const int *kept, int n_kept)
{
    enum { DRAWS = 40000 };
    int counts[N];
    count(p, DRAWS, counts);
    double sum = 0, chi2 = 0;
    for (int i = 0; i < n_kept; i++)
        sum += exp((double)(logits[kept[i]] / p.temp));
    for (int i = 0; i < n_kept; i++) {
        double want = (int)DRAWS * exp((double)(logits[kept[i]] / p.temp)) / sum;
        chi2 += (counts[kept[i]] - want) * (counts[kept[i]] - want) / want;
        counts[kept[i]] = 0;
    }
    assert_true(chi2 < 35); // 7 degrees of freedom: exceeded once in 100,000 runs, and the seed is fixed
    for (int i = 0; i < N; i++)
        assert_int_equal(counts[i], 0);
}

static void test_plain(void **state)
{
    (void)state;
    check_distribution(plain(1), (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    struct hearth_sampler_params p = plain(2);
    p.temp = 0.5f;
    check_distribution(p, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    p.temp = 3.0f;
    check_distribution(p, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
}

static void test_truncation(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(3);
    p.top_k = 3;
    check_distribution(p, (int[]){1, 2, 4}, 3);
    p.top_k = 1;
    check_distribution(p, (int[]){1}, 1);

    p = plain(4);
    p.top_p = 0.6f; // 0.39 + 0.24 reach 0.63
    check_distribution(p, (int[]){1, 2}, 2);
    p.top_p = 0.0f; // always at least one
    check_distribution(p, (int[]){1}, 1);

    p = plain(5);
    p.min_p = 0.2f; // e^-1.5 = 0.223 stays, e^-2 = 0.135 goes
    check_distribution(p, (int[]){1, 2, 4, 5}, 4);

    // Truncation looks at the probabilities before the temperature.
    p.temp = 10.0f;
    check_distribution(p, (int[]){1, 2, 4, 5}, 4);

    p = plain(6); // top-p acts on what top-k left: 0.51, 0.31, 0.19
    p.top_k = 3;
    p.top_p = 0.8f;
    check_distribution(p, (int[]){1, 2}, 2);
}

static void test_greedy(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(7);
    p.temp = 0;
    struct hearth_sampler *s = open_sampler(p);
    assert_int_equal(hearth_sample(s, logits), 1);
    const float ties[N] = {1, 2, 2, 2, 0, 0, 0, 0};
    assert_int_equal(hearth_sample(s, ties), 1);
    const float nans[N] = {NAN, -5, NAN, -4, NAN, NAN, NAN, NAN};
    assert_int_equal(hearth_sample(s, nans), 3);
    hearth_sampler_close(&s);
}

static void test_penalties(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(8);
    p.temp = 0;
    p.repeat_penalty = 1.25f; // 3.0 -> 2.4, below 2.5
    p.repeat_last_n = 2;
    struct hearth_sampler *s = open_sampler(p);
    assert_int_equal(hearth_sample(s, logits), 1);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, logits), 2);
    hearth_sampler_accept(s, 2); // now 2.4 and 2.0: token 1 leads again
    assert_int_equal(hearth_sample(s, logits), 1);
    hearth_sampler_accept(s, 7);
    hearth_sampler_accept(s, 7); // both have left the window
    assert_int_equal(hearth_sample(s, logits), 1);
    hearth_sampler_close(&s);

    p.repeat_penalty = 1.0f;
    p.frequency_penalty = 0.3f; // two occurrences: 3.0 - 0.6 = 2.4
    p.repeat_last_n = -1;
    s = open_sampler(p);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, logits), 1);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, logits), 2);
    hearth_sampler_close(&s);

    p.frequency_penalty = 0;
    p.presence_penalty = 0.6f;
    s = open_sampler(p);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, logits), 2);
    hearth_sampler_close(&s);

    // A negative logit is pushed down by the repeat penalty, not up.
    const float negative[N] = {-9, -1, -1.1f, -9, -9, -9, -9, -9};
    p.presence_penalty = 0;
    p.repeat_penalty = 1.5f;
    s = open_sampler(p);
    hearth_sampler_accept(s, 1);
    assert_int_equal(hearth_sample(s, negative), 2);
    hearth_sampler_close(&s);
}

// Which tokens ever come out, over many draws.
static unsigned support(struct hearth_sampler_params p)
{
    int counts[N];
    unsigned set = 0;
    count(p, 20000, counts);
    for (int i = 0; i < N; i++)
        set |= counts[i] ? 1u << i : 0;
    return set;
}

static void test_typical(void **state)
{
    (void)state;
    // By definition, in double precision: distance of each surprise from the entropy, nearest first, until p
    // is reached.
    double p[N], sum = 0, entropy = 0;
    for (int i = 0; i < N; i++)
        sum += p[i] = exp((double)logits[i]);
    for (int i = 0; i < N; i++) {
        p[i] /= sum;
        entropy -= p[i] * log(p[i]);
    }
    for (float limit = 0.05f; limit < 1.0f; limit += 0.1f) {
        unsigned want = 0;
        for (double reached = 0; reached <= (double)limit;) {
            int best = -1;
            for (int i = 0; i < N; i++)
                if (!(want >> i & 1) &&
                    (best < 0 || fabs(-log(p[i]) - entropy) < fabs(-log(p[best]) - entropy)))
                    best = i;
            want |= 1u << best;
            reached += p[best];
        }
        struct hearth_sampler_params sp = plain(11);
        sp.typ_p = limit;
        assert_int_equal(support(sp), want);
    }
}

static void test_top_n_sigma(void **state)
{
    (void)state;
    double mean = 0, var = 0;
    for (int i = 0; i < N; i++)
        mean += (double)logits[i] / (int)N;
    for (int i = 0; i < N; i++)
        var += ((double)logits[i] - mean) * ((double)logits[i] - mean) / (int)N;
    for (float n = 0; n < 3; n += 0.25f) {
        unsigned want = 0;
        for (int i = 0; i < N; i++)
            want |= (double)logits[i] >= 3.0 - (double)n * sqrt(var) ? 1u << i : 0;
        struct hearth_sampler_params p = plain(12);
        p.top_n_sigma = n;
        p.temp = 2.0f; // after the cut, so that all of the kept ones do come out
        assert_int_equal(support(p), want);
    }
}

static void test_xtc(void **state)
{
    (void)state;
    // Probabilities are 0.39, 0.24, 0.14, 0.087, 0.053, ... for tokens 1, 2, 4, 5, 0, ...
    struct hearth_sampler_params p = plain(13);
    p.xtc_probability = 1.0f;
    p.xtc_threshold = 0.1f; // 1, 2, 4 are top choices: only 4 of them stays
    check_distribution(p, (int[]){4, 5, 0, 3, 6, 7}, 6);
    p.xtc_threshold = 0.3f; // a single top choice is never dropped
    check_distribution(p, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    p.xtc_threshold = 0.6f; // off
    check_distribution(p, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);

    // With probability a half, token 1 comes out half as often as without.
    int counts[N];
    p.xtc_threshold = 0.1f;
    p.xtc_probability = 0.5f;
    count(p, 40000, counts);
    double p1 = 0, sum = 0;
    for (int i = 0; i < N; i++)
        sum += exp((double)logits[i]);
    p1 = exp(3.0) / sum;
    assert_true(fabs(counts[1] / 40000.0 - p1 / 2) < 0.01);
}

static void test_dynamic_temperature(void **state)
{
    (void)state;
    double p[N], sum = 0, entropy = 0;
    for (int i = 0; i < N; i++)
        sum += p[i] = exp((double)logits[i]);
    for (int i = 0; i < N; i++) {
        p[i] /= sum;
        entropy -= p[i] * log(p[i]);
    }
    struct hearth_sampler_params sp = plain(14);
    sp.temp = 1.0f;
    sp.dynatemp_range = 0.6f;
    sp.dynatemp_exponent = 2.0f;
    double temp = 0.4 + 1.2 * pow(entropy / log(N), 2.0);
    int counts[N];
    count(sp, 40000, counts);
    double scaled = 0;
    for (int i = 0; i < N; i++)
        scaled += exp((double)logits[i] / temp);
    for (int i = 0; i < N; i++)
        assert_true(fabs(counts[i] / 40000.0 - exp((double)logits[i] / temp) / scaled) < 0.01);
}

static void test_logit_bias(void **state)
{
    (void)state;
    const struct hearth_logit_bias biases[] = {{1, -INFINITY}, {6, 10.0f}, {6, -3.0f}};
    struct hearth_sampler_params p = plain(15);
    p.temp = 0;
    p.logit_biases = biases;
    p.n_logit_biases = 1;
    struct hearth_sampler *s = open_sampler(p);
    assert_int_equal(hearth_sample(s, logits), 2);
    hearth_sampler_close(&s);
    p.n_logit_biases = 3; // they add up: -2 + 10 - 3 = 5
    s = open_sampler(p);
    assert_int_equal(hearth_sample(s, logits), 6);
    hearth_sampler_close(&s);
    p.temp = 1;
    assert_int_equal(support(p) >> 1 & 1, 0);

    // Even when nothing is left that could be chosen, something is.
    struct hearth_logit_bias all[N];
    for (int i = 0; i < N; i++)
        all[i] = (struct hearth_logit_bias){i, -INFINITY};
    p.logit_biases = all;
    p.n_logit_biases = N;
    s = open_sampler(p);
    hearth_token t = hearth_sample(s, logits);
    assert_in_range(t, 0, N - 1);
    hearth_sampler_close(&s);

    struct hearth_error err = {0};
    const struct hearth_logit_bias outside = {N, 1.0f};
    p.logit_biases = &outside;
    p.n_logit_biases = 1;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
}

// DRY by its definition: for each token, the longest suffix of the history that, followed by this token,
// occurred before; penalty = multiplier * base^(length - allowed) when it is at least as long as allowed.
static void test_dry(void **state)
{
    (void)state;
    enum { STEPS = 120 };
    const float flat[N] = {0};
    struct hearth_sampler_params p = plain(16);
    p.temp = 0;
    p.dry_multiplier = 1.0f;
    p.dry_base = 1.5f;
    p.dry_allowed_length = 2;
    p.n_dry_breakers = 0;
    p.dry_penalty_last_n = 40;
    struct hearth_sampler *s = open_sampler(p);
    hearth_token history[STEPS];
    uint32_t random = 7;
    for (int n = 0; n < STEPS; n++) {
        double want[N];
        int first = n > 40 ? n - 40 : 0, best = 0;
        for (int t = 0; t < N; t++) {
            int longest = 0;
            for (int at = first + 1; at < n; at++) {
                int length = 0;
                while (at - 1 - length >= first && history[at - 1 - length] == history[n - 1 - length])
                    length++;
                if (history[at] == t && length > longest)
                    longest = length;
            }
            want[t] = longest >= 2 ? -pow(1.5, longest - 2) : 0;
            if (want[t] > want[best])
                best = t;
        }
        assert_int_equal(hearth_sample(s, flat), best);
        // Few different tokens, so that repeats are frequent and long.
        random = random * 1664525u + 1013904223u;
        history[n] = n % 17 < 9 && n > 20 ? history[n - 12] : (hearth_token)(random >> 24) % 3;
        hearth_sampler_accept(s, history[n]);
    }
    hearth_sampler_close(&s);

    struct hearth_error err = {0};
    const char *const breaker = "x";
    p.dry_breakers = &breaker;
    p.n_dry_breakers = 1; // needs token texts
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    p.n_dry_breakers = 0;
    p.dry_allowed_length = 0;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
}

// Breakers as texts of a real vocabulary: what lies before one is not repeated by what comes after.
static void test_dry_breakers(void **state)
{
    (void)state;
    struct hearth_model *m = NULL;
    struct hearth_error err = {0};
    struct hearth_model_params mp = hearth_model_params_default();
    mp.vocab_only = true;
    if (hearth_model_open(&m, HEARTH_SOURCE_DIR "/tests/golden/models/llama-mha.F32.gguf", &mp, &err))
        fail_msg("%s", err.message);
    const int n_vocab = hearth_model_info(m)->n_vocab;
    float *flat = calloc((size_t)n_vocab, sizeof *flat);
    hearth_token text[64];
    const char *passage = "the cat sat the cat";
    int n = (int)hearth_tokenize(m, passage, strlen(passage), 0, text, 64, &err);
    assert_true(n > 4);
    // The token that followed " the cat" the first time.
    hearth_token next = -1;
    for (int i = 1; i < n && next < 0; i++)
        if (text[i - 1] == text[n - 1])
            next = text[i];
    assert_true(next >= 0);
    flat[next] = 0.5f; // the favourite, unless penalised

    const char *const breakers[] = {"cat", "the", "sat"};
    for (int with = 0; with < 2; with++) {
        struct hearth_sampler_params p = plain(17);
        p.temp = 0;
        p.dry_multiplier = 1.0f;
        p.dry_allowed_length = 1;
        p.dry_breakers = breakers;
        p.n_dry_breakers = with ? 3 : 0;
        p.model = m;
        struct hearth_sampler *s = NULL;
        if (hearth_sampler_open(&s, n_vocab, &p, &err))
            fail_msg("%s", err.message);
        for (int i = 0; i < n; i++)
            hearth_sampler_accept(s, text[i]);
        // "cat" ends the history: as a breaker it leaves nothing that could be repeated.
        assert_true((hearth_sample(s, flat) == next) == (with == 1));
        hearth_sampler_close(&s);
    }
    free(flat);
    hearth_model_close(&m);
}

static void test_mirostat(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(18);
    p.mirostat = 2;
    p.mirostat_eta = 0.1f;
    const float targets[] = {0.8f, 1.2f, 1.6f}; // bits; the distribution's entropy is about 2.2
    double probability[N], sum = 0;
    for (int i = 0; i < N; i++)
        sum += exp((double)logits[i]);
    for (int i = 0; i < N; i++)
        probability[i] = exp((double)logits[i]) / sum;
    for (int k = 0; k < 3; k++) {
        p.mirostat_tau = targets[k];
        struct hearth_sampler *s = open_sampler(p);
        double surprise = 0;
        int counts[N] = {0};
        for (int i = 0; i < 20000; i++)
            counts[hearth_sample(s, logits)]++;
        // Surprise is measured within what was kept, so the average is compared through a fresh normalisation
        // of the kept set only in the limit; the order of the targets must show all the same.
        for (int i = 0; i < N; i++)
            surprise -= counts[i] / 20000.0 * log2(probability[i]);
        assert_true(surprise > (double)targets[k] && surprise < (double)targets[k] + 1.1);
        hearth_sampler_close(&s);
    }
    p.mirostat = 3;
    struct hearth_sampler *s = NULL;
    struct hearth_error err = {0};
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
}

// Mirostat 1 by its paper: the exponent of Zipf's law from neighbouring ranks, then the k whose surprise is
// mu.
static void test_mirostat_1(void **state)
{
    (void)state;
    float sorted[N];
    memcpy(sorted, logits, sizeof sorted);
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++)
            if (sorted[j] > sorted[i]) {
                float swap = sorted[i];
                sorted[i] = sorted[j];
                sorted[j] = swap;
            }
    double tb = 0, tt = 0;
    for (int i = 0; i + 1 < N; i++) {
        double t = log((i + 2.0) / (i + 1.0));
        tb += t * ((double)sorted[i] - (double)sorted[i + 1]);
        tt += t * t;
    }
    const double s_hat = tb / tt, epsilon = s_hat - 1;
    struct hearth_sampler_params p = plain(21);
    p.mirostat = 1;
    p.mirostat_eta = 0; // mu stays 2 tau
    int different = 0, last = 0;
    for (float tau = 0.05f; tau < 3; tau += 0.05f) {
        p.mirostat_tau = tau;
        double k = pow(epsilon * pow(2, 2 * (double)tau) / (1 - pow(N, -epsilon)), 1 / s_hat);
        int want = k < 1 ? 1 : k > (int)N ? (int)N : (int)k, kept = 0;
        if (fabs(k - round(k)) < 1e-3)
            continue; // either side of a whole number is right
        for (unsigned bits = support(p); bits; bits &= bits - 1)
            kept++;
        assert_int_equal(kept, want);
        different += kept != last;
        last = kept;
    }
    assert_true(different >= 5);

    // With a learning rate the average surprise, within what was kept, comes to tau.
    p.mirostat_eta = 0.05f;
    p.mirostat_tau = 1.0f;
    struct hearth_sampler *s = open_sampler(p);
    int counts[N] = {0};
    for (int i = 0; i < 20000; i++)
        counts[hearth_sample(s, logits)]++;
    hearth_sampler_close(&s);
    int used = 0;
    for (int i = 0; i < N; i++)
        used += counts[i] > 0;
    assert_in_range(used, 2, N - 1);

    // Two alike, and all alike: no exponent, everything stays. One token of finite logit: it is drawn.
    const float alike[N] = {0};
    float one[N];
    for (int i = 0; i < N; i++)
        one[i] = i == 3 ? 0.0f : -INFINITY;
    s = open_sampler(p);
    unsigned seen = 0;
    for (int i = 0; i < 500; i++)
        seen |= 1u << hearth_sample(s, alike);
    assert_int_equal(seen, (1u << N) - 1);
    for (int i = 0; i < 20; i++)
        assert_int_equal(hearth_sample(s, one), 3);
    hearth_sampler_close(&s);
}

// At temperature 0 the cuts that may drop the best token still do; Mirostat leaves the best.
static void test_greedy_cuts(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(22);
    p.temp = 0;
    const unsigned best = support(p);
    assert_true(best && !(best & (best - 1)));
    p.xtc_probability = 1;
    p.xtc_threshold = 0.1f;
    assert_int_not_equal(support(p), best);
    p.samplers = "temperature;xtc"; // too late to drop it
    assert_int_equal(support(p), best);
    p.samplers = "top_k";
    assert_int_equal(support(p), best);
    for (p.mirostat = 1; p.mirostat < 3; p.mirostat++)
        assert_int_equal(support(p), best);
}

static void test_names(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(23);
    p.top_k = 2;
    const char *const spellings[] = {"top_k", "top-k", "topk", "TOP_K"};
    p.samplers = "min_p";
    const unsigned all = support(p);
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        p.samplers = spellings[i];
        unsigned two = support(p);
        assert_int_not_equal(two, all);
        assert_true(two & (two - 1));
    }
    p.top_p = 0.1f;
    p.samplers = "nucleus";
    unsigned one = support(p);
    assert_true(!(one & (one - 1)));
    p.samplers = "typ;temp;Top-N-Sigma;minp";
    support(p);
    struct hearth_sampler *s = NULL;
    struct hearth_error err = {0};
    const char *const wrong[] = {"top", "top_kk", "top k", ";;", "infill"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        p.samplers = wrong[i];
        assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    }
}

static void test_chain(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(19);
    p.top_k = 3;
    p.samplers = "temperature"; // top_k is not named: off
    check_distribution(p, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    p.samplers = "top_k";
    p.temp = 0.5f; // not named: no scaling
    int counts[N];
    count(p, 40000, counts);
    double sum = exp(3.0) + exp(2.5) + exp(2.0);
    assert_true(fabs(counts[1] / 40000.0 - exp(3.0) / sum) < 0.01);

    // min-p after a high temperature keeps more than before it.
    p = plain(20);
    p.min_p = 0.2f;
    p.temp = 10.0f;
    p.samplers = "min_p;temperature";
    assert_int_equal(support(p), 1u << 1 | 1u << 2 | 1u << 4 | 1u << 5);
    p.samplers = "temperature;min_p";
    assert_int_equal(support(p), 0xff);

    struct hearth_sampler *s = NULL;
    struct hearth_error err = {0};
    p.samplers = "top_k;nonsense";
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    assert_non_null(strstr(err.message, "nonsense"));
    assert_non_null(strstr(err.message, "top_n_sigma"));
}

static void test_seeds(void **state)
{
    (void)state;
    struct hearth_sampler *a = open_sampler(plain(42)), *b = open_sampler(plain(42)),
                          *c = open_sampler(plain(43)), *d = open_sampler(plain(UINT32_MAX));
    int same_c = 0;
    for (int i = 0; i < 200; i++) {
        hearth_token t = hearth_sample(a, logits);
        assert_int_equal(hearth_sample(b, logits), t);
        same_c += hearth_sample(c, logits) == t;
    }
    assert_true(same_c < 120); // sum of squared probabilities is 0.25
    assert_int_equal(hearth_sampler_seed(a), 42);
    assert_true(hearth_sampler_seed(d) != UINT32_MAX);
    hearth_sampler_close(&a);
    hearth_sampler_close(&b);
    hearth_sampler_close(&c);
    hearth_sampler_close(&d);
}

// A whole vocabulary is sorted otherwise than what a cut has left; draws tell if the order differs anywhere. The
// last token cannot be drawn, so that a cut before it changes nothing.
static void test_whole_vocabulary(void **state)
{
    (void)state;
    enum { MANY = 5000, DRAWS = 3000 };
    static float many[MANY];
    // -6 to 6 in steps of 1/4, both zeros among them, some that cannot be drawn.
    for (int i = 0; i < MANY; i++)
        many[i] = i % 97 == 0 ? -INFINITY : (i * 31 % 2 ? 1.0f : -1.0f) * (float)(i * 7919 % 25) / 4;
    many[MANY - 1] = -INFINITY;
    struct hearth_sampler_params p = plain(11);
    struct hearth_sampler *whole = NULL, *cut = NULL;
    struct hearth_error err = {0};
    assert_int_equal(hearth_sampler_open(&whole, MANY, &p, &err), HEARTH_OK);
    p.top_k = MANY - 1;
    assert_int_equal(hearth_sampler_open(&cut, MANY, &p, &err), HEARTH_OK);
    for (int i = 0; i < DRAWS; i++)
        assert_int_equal(hearth_sample(whole, many), hearth_sample(cut, many));
    hearth_sampler_close(&cut);
    hearth_sampler_close(&whole);
}

// Where the k best logits decide, no other is looked at; with a bias of 0, which says nothing, all are. Of
// the logits many are equal, infinite or NaN.
static void check_best(struct hearth_sampler_params p, int n_vocab, uint32_t random)
{
    static float row[300];
    static const float odd[] = {NAN, -INFINITY, INFINITY, 0.0f, -0.0f};
    const struct hearth_logit_bias nothing = {.token = n_vocab - 1, .bias = 0.0f};
    struct hearth_sampler *best = NULL, *all = NULL;
    struct hearth_error err = {0};
    if (hearth_sampler_open(&best, n_vocab, &p, &err))
        fail_msg("%s", err.message);
    p.logit_biases = &nothing;
    p.n_logit_biases = 1;
    assert_int_equal(hearth_sampler_open(&all, n_vocab, &p, &err), HEARTH_OK);
    for (int draw = 0; draw < 12; draw++) {
        for (int i = 0; i < n_vocab; i++) {
            random = random * 1664525u + 1013904223u;
            const uint32_t kind = random >> 24 & 63;
            // The last one is a number: a bias makes -INFINITY of NaN.
            row[i] = kind < 5 && draw % 2 && i < n_vocab - 1 ? odd[kind] : (float)(random >> 16 & 31) / 4;
        }
        const hearth_token token = hearth_sample(all, row);
        assert_int_equal(hearth_sample(best, row), token);
        hearth_sampler_accept(best, token);
        hearth_sampler_accept(all, token);
    }
    hearth_sampler_close(&best);
    hearth_sampler_close(&all);
}

static void test_best(void **state)
{
    (void)state;
    static const int vocabularies[] = {2, 15, 16, 17, 40, 41, 57, 300};
    static const int32_t ks[] = {1, 2, 15, 40, 299};
    static const char *const chains[] = {
        "top_k;temperature",       "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
        "temperature;top_k",       "typ_p;top_k;temperature",
        "temperature;penalties",   "dry;top_k",
        "top_n_sigma;temperature", ""};
    for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++)
        for (size_t k = 0; k < sizeof ks / sizeof *ks; k++)
            for (size_t c = 0; c < sizeof chains / sizeof *chains; c++)
                for (unsigned set = 0; set < 32; set++) {
                    struct hearth_sampler_params p = plain((uint32_t)(v + k + c + set));
                    p.samplers = chains[c];
                    p.top_k = ks[k];
                    p.temp = set & 1 ? 0.0f : 0.7f;
                    p.repeat_penalty = set & 2 ? 1.5f : 1.0f;
                    p.dry_multiplier = set & 4 ? 1.0f : 0.0f;
                    p.n_dry_breakers = 0;
                    p.dry_allowed_length = 1;
                    p.dry_penalty_last_n = 40;
                    p.typ_p = set & 8 ? 0.7f : 1.0f;
                    p.min_p = set & 16 ? 0.2f : 0.0f;
                    check_best(p, vocabularies[v], (uint32_t)(1 + v * 1000 + k * 100 + c * 10 + set));
                }
}

static void test_bad_params(void **state)
{
    (void)state;
    struct hearth_sampler *s = NULL;
    struct hearth_error err = {0};
    struct hearth_sampler_params p = plain(1);
    p.repeat_penalty = 0;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    p = plain(1);
    p.temp = NAN;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    p = plain(1);
    p.repeat_last_n = -2;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    assert_int_equal(hearth_sampler_open(&s, 0, NULL, &err), HEARTH_E_INVALID);
    p = plain(1);
    p.dynatemp_exponent = -1;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    p = plain(1);
    p.n_logit_biases = -1;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    p = plain(1);
    p.dry_multiplier = 1;
    p.n_dry_breakers = -1;
    assert_int_equal(hearth_sampler_open(&s, N, &p, &err), HEARTH_E_INVALID);
    assert_null(s);
}

// Whatever a damaged model gives, some token comes out, in every chain, and a forbidden one never does.
static void test_odd_logits(void **state)
{
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 0.0f, 1e-45f, -NAN};
    static const struct hearth_logit_bias biases[] = {{3, -INFINITY}, {4, INFINITY}, {3, INFINITY}};
    for (int chain = 0; chain < 9; chain++) {
        struct hearth_sampler_params p = plain(1);
        p.logit_biases = biases;
        p.n_logit_biases = 3;
        p.repeat_penalty = chain == 1 ? 100.0f : 1.0f;
        p.typ_p = chain == 2 ? 0.5f : 1.0f;
        p.top_n_sigma = chain == 3 ? 1.0f : -1.0f;
        p.dynatemp_range = chain == 4 ? 0.5f : 0.0f;
        p.xtc_probability = chain == 5 ? 1.0f : 0.0f;
        p.mirostat = chain == 6 ? 2 : 0;
        p.min_p = chain == 7 ? 0.1f : 0.0f;
        p.temp = chain == 8 ? 0.0f : 1.0f;
        struct hearth_sampler *s = open_sampler(p);
        uint32_t random = 1;
        for (int i = 0; i < 2000; i++) {
            float row[N];
            for (int k = 0; k < N; k++) {
                random = random * 1664525u + 1013904223u;
                row[k] = odd[random >> 29];
            }
            hearth_token t = hearth_sample(s, row);
            assert_in_range(t, 0, N - 1);
            assert_int_not_equal(t, 3);
            hearth_sampler_accept(s, t);
        }
        hearth_sampler_close(&s);
    }
}

// "As far as the context" may be any number.
static void test_huge_context(void **state)
{
    (void)state;
    struct hearth_sampler_params p = plain(1);
    p.dry_multiplier = 1;
    p.n_dry_breakers = 0;
    p.n_ctx = INT32_MAX;
    struct hearth_sampler *s = open_sampler(p);
    for (int i = 0; i < 10; i++)
        hearth_sampler_accept(s, hearth_sample(s, logits));
    hearth_sampler_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_typical),
        cmocka_unit_test(test_top_n_sigma),
        cmocka_unit_test(test_xtc),
        cmocka_unit_test(test_dynamic_temperature),
        cmocka_unit_test(test_logit_bias),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_dry_breakers),
        cmocka_unit_test(test_mirostat),
        cmocka_unit_test(test_mirostat_1),
        cmocka_unit_test(test_greedy_cuts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_odd_logits),
        cmocka_unit_test(test_huge_context),
        cmocka_unit_test(test_bad_params),
        cmocka_unit_test(test_whole_vocabulary),
        cmocka_unit_test(test_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
