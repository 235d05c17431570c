// SPDX-License-Identifier: MIT
// How far a model's probabilities are from another's over a text: the figures of llama-perplexity's --kl-divergence.
#ifndef HEARTH_CLI_DIVERGENCE_H
#define HEARTH_CLI_DIVERGENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

// Sums over tokens. Of a token: its negative log-probability by the model (nll) and by the base, the divergence of the
// model's probabilities of all tokens from the base's in nats (kld), the difference of its own probabilities (dp), and
// whether both have the same likeliest token.
struct hearth_divergence {
    size_t n, most; // tokens added; room
    float *klds;    // [most]
    float *dps;     // [most]
    size_t same_best;
    double nll, nll2, base, base2, both; // sums of nll, nll^2, of the base's, and of their products
    double kld, kld2, dp, dp2, dp4;
};

// A value and its standard error.
struct hearth_estimate {
    double value, error;
};

struct hearth_divergence_result {
    struct hearth_estimate ppl, ppl_base, log_ratio, ratio, difference; // ratio: ppl / ppl_base
    double correlation;                                                 // of nll and the base's
    struct hearth_estimate kld, dp, dp_rms, same_best;                  // same_best: a share
};

// Room for `most` tokens; false: no memory.
bool hearth_divergence_open(struct hearth_divergence *d, size_t most);
void hearth_divergence_close(struct hearth_divergence *d);
// Adds a token, which came after logits [n_vocab], where the base had `row` (logits_base.h).
void hearth_divergence_add(struct hearth_divergence *d, const float *logits, int n_vocab, const uint16_t *row,
                           hearth_token token);
// What came of them. Sorts klds and dps, ascending.
struct hearth_divergence_result hearth_divergence_result(struct hearth_divergence *d);
// The value that a share of n ascending values is below, between two of them in proportion.
double hearth_percentile(const float *ascending, size_t n, double share);

#endif
