// SPDX-License-Identifier: MIT
// How large what is planted comes out: what layers add to the stream, and activations.
#include <math.h>

#include "synth/insides.h"

float hearth_synth_added(const struct hearth_synth *s, uint32_t layer)
{
    // Attention averages over tokens, so about half of its size is left.
    const float attention = 0.5f * s->gain * s->gain, ffn = s->gain * s->gain;
    const bool parallel = s->p->arch == HEARTH_SYNTH_FALCON;
    const uint32_t attentions = layer + (layer < s->p->n_layer && !parallel);
    return (float)attentions * attention + (s->params->drift ? 0.0f : (float)layer * ffn);
}

static double density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * acos(-1.0));
}

static double below(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

double hearth_synth_quantile(double p)
{
    double low = -10, high = 10;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        *(below(middle) < p ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

// E(max(0, mean + stddev * x)^2) of a standard normal x
static double positive_square(double mean, double stddev)
{
    const double z = mean / stddev;
    return (mean * mean + stddev * stddev) * below(z) + mean * stddev * density(z);
}

// E(activation^2) of a dReLU neuron in units of its standard deviations. gate is x + threshold;
// given x, up is normal.
static double drelu_square(const struct hearth_synth_planting *p, double threshold)
{
    const double step = 0.1, tie = (double)p->up_tie, rest = sqrt(1 - tie * tie);
    double sum = 0;
    for (double gate = step / 2; gate < threshold + 6; gate += step) {
        const double x = gate - threshold;
        sum += step * density(x) * gate * gate * positive_square((double)p->up_mean + tie * x, rest);
    }
    return sum;
}

// E(max(0, x + threshold))
static double positive_mean(double threshold)
{
    return threshold * below(threshold) + density(threshold);
}

// E(activation) of a dReLU neuron, as drelu_square().
static double drelu_mean(const struct hearth_synth_planting *p, double threshold)
{
    const double step = 0.1, tie = (double)p->up_tie, rest = sqrt(1 - tie * tie);
    double sum = 0;
    for (double gate = step / 2; gate < threshold + 6; gate += step) {
        const double x = gate - threshold;
        sum += step * density(x) * gate * rest * positive_mean(((double)p->up_mean + tie * x) / rest);
    }
    return sum;
}

double hearth_synth_activation(const struct hearth_synth *s, double threshold, int power)
{
    const bool gated = s->p->arch != HEARTH_SYNTH_OPT && s->p->arch != HEARTH_SYNTH_FALCON;
    if (hearth_synth_is_drelu(s))
        return power == 1 ? drelu_mean(s->p->planting, threshold) : drelu_square(s->p->planting, threshold);
    if (power == 2)
        return positive_square(threshold, 1);
    return gated ? 0 : positive_mean(threshold); // random ups have mean 0
}
