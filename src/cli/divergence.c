// SPDX-License-Identifier: MIT
// How far a model's probabilities are from another's over a text.
#include "cli/divergence.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "cli/logits_base.h"

// Probabilities below e^-16 give nothing that could be seen; in the base's rows they are not told apart.
#define LEAST (-16.0)

struct softmax {
    double most, log_sum; // log p = logit - most - log_sum
    hearth_token best;
};

static struct softmax softmax_of(const float *logits, int n_vocab)
{
    struct softmax s = {.most = logits[0]};
    for (hearth_token i = 1; i < n_vocab; i++)
        if ((double)logits[i] > s.most) {
            s.most = logits[i];
            s.best = i;
        }
    double sum = 0;
    for (int i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - s.most);
    s.log_sum = log(sum);
    return s;
}

static double divergence_of(const float *logits, const struct softmax *s, int n_vocab, const uint16_t *row)
{
    double sum = 0;
    for (hearth_token i = 0; i < n_vocab; i++) {
        const double base = hearth_base_row_log_prob(row, i);
        if (base > LEAST)
            sum += exp(base) * (base - ((double)logits[i] - s->most - s->log_sum));
    }
    return sum;
}

void hearth_divergence_add(struct hearth_divergence *d, const float *logits, int n_vocab, const uint16_t *row,
                           hearth_token token)
{
    assert(d->n < d->most);
    const struct softmax s = softmax_of(logits, n_vocab);
    const double nll = s.most + s.log_sum - (double)logits[token],
                 base = -hearth_base_row_log_prob(row, token);
    const double kld = divergence_of(logits, &s, n_vocab, row), dp = exp(-nll) - exp(-base);
    d->nll += nll;
    d->nll2 += nll * nll;
    d->base += base;
    d->base2 += base * base;
    d->both += nll * base;
    d->kld += kld;
    d->kld2 += kld * kld;
    d->dp += dp;
    d->dp2 += dp * dp;
    d->dp4 += dp * dp * dp * dp;
    d->same_best += s.best == hearth_base_row_best(row, n_vocab);
    d->klds[d->n] = (float)kld;
    d->dps[d->n++] = (float)dp;
}

bool hearth_divergence_open(struct hearth_divergence *d, size_t most)
{
    *d = (struct hearth_divergence){.most = most};
    d->klds = hearth_reallocarray(NULL, most, sizeof *d->klds);
    d->dps = hearth_reallocarray(NULL, most, sizeof *d->dps);
    if (d->klds && d->dps)
        return true;
    hearth_divergence_close(d);
    return false;
}

void hearth_divergence_close(struct hearth_divergence *d)
{
    free(d->klds);
    free(d->dps);
    *d = (struct hearth_divergence){0};
}

// ---- what came of it

// Of n values' sum and the sum of their squares.
static struct hearth_estimate mean_of(double sum, double squares, double n)
{
    const double mean = sum / n, variance = squares / n - mean * mean;
    return (struct hearth_estimate){mean, n > 1 && variance > 0 ? sqrt(variance / (n - 1)) : 0};
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double hearth_percentile(const float *values, size_t n, double share)
{
    const double at = share * (double)(n - 1);
    const size_t i = (size_t)at;
    return i + 1 < n ? values[i] + (at - (double)i) * ((double)values[i + 1] - values[i]) : values[n - 1];
}

static double root(double x)
{
    return x > 0 ? sqrt(x) : 0;
}

// The errors of both perplexities hang together, which makes those of ratio and difference smaller.
static void compare(struct hearth_divergence_result *r, const struct hearth_divergence *d)
{
    const double n = (double)d->n;
    const struct hearth_estimate nll = mean_of(d->nll, d->nll2, n), base = mean_of(d->base, d->base2, n);
    const double both = n > 1 ? (d->both / n - nll.value * base.value) / (n - 1) : 0;
    r->ppl = (struct hearth_estimate){exp(nll.value), exp(nll.value) * nll.error};
    r->ppl_base = (struct hearth_estimate){exp(base.value), exp(base.value) * base.error};
    r->correlation = nll.error > 0 && base.error > 0 ? both / (nll.error * base.error) : 0;
    r->log_ratio.value = nll.value - base.value;
    r->log_ratio.error = root(nll.error * nll.error + base.error * base.error - 2 * both);
    r->ratio.value = exp(r->log_ratio.value);
    r->ratio.error = r->ratio.value * r->log_ratio.error;
    r->difference.value = r->ppl.value - r->ppl_base.value;
    r->difference.error = root(r->ppl.error * r->ppl.error + r->ppl_base.error * r->ppl_base.error -
                               2 * both * r->ppl.value * r->ppl_base.value);
}

struct hearth_divergence_result hearth_divergence_result(struct hearth_divergence *d)
{
    struct hearth_divergence_result r = {0};
    if (!d->n)
        return r;
    const double n = (double)d->n;
    compare(&r, d);
    r.kld = mean_of(d->kld, d->kld2, n);
    r.dp = mean_of(d->dp, d->dp2, n);
    const struct hearth_estimate square = mean_of(d->dp2, d->dp4, n);
    r.dp_rms.value = root(square.value);
    r.dp_rms.error = r.dp_rms.value > 0 ? 0.5 * square.error / r.dp_rms.value : 0;
    const double same = (double)d->same_best / n;
    r.same_best = (struct hearth_estimate){same, n > 1 ? sqrt(same * (1 - same) / (n - 1)) : 0};
    qsort(d->klds, d->n, sizeof *d->klds, ascending);
    qsort(d->dps, d->n, sizeof *d->dps, ascending);
    return r;
}
