// SPDX-License-Identifier: MIT
// Frequencies of rotary positions, stretched as the model asks for.
#include "engine/rope.h"

#include <math.h>

// The dimension (as a real number) whose pair turns `rotations` times over the original context.
static double dimension_of(const struct hearth_hparams *hp, double rotations)
{
    return hp->n_rot * log(hp->yarn.n_ctx_orig / (rotations * 6.283185307179586)) /
           (2.0 * log((double)hp->rope_theta));
}

// YaRN's ramp: 0 where a pair turns so fast that it is kept as trained, 1 where it is so slow that it is
// scaled.
static double scaled_share(const struct hearth_hparams *hp, int pair)
{
    const struct hearth_yarn *y = &hp->yarn;
    double low = dimension_of(hp, (double)y->beta_fast), high = dimension_of(hp, (double)y->beta_slow);
    low = fmax(y->exact ? low : floor(low), 0);
    high = fmin(y->exact ? high : ceil(high), hp->n_rot - 1);
    if (high - low < 0.001)
        high = low + 0.001;
    double ramp = fmin(fmax((pair - low) / (high - low), 0), 1);
    return 1 - (1 - ramp) * (double)y->share;
}

void hearth_rope_frequencies(const struct hearth_hparams *hp, const float *factors, float *out)
{
    for (int i = 0; i < hp->n_rot / 2; i++) {
        double freq = pow((double)hp->rope_theta, -2.0 * i / hp->n_rot);
        if (factors)
            freq /= (double)factors[i];
        double share = hp->yarn.share > 0 ? scaled_share(hp, i) : 1;
        out[i] = (float)(freq * (double)hp->rope_scale * share + freq * (1 - share));
    }
}

void hearth_rope_window_frequencies(const struct hearth_hparams *hp, float *out)
{
    struct hearth_hparams own = *hp;
    own.rope_theta = hp->rope_theta_window;
    own.n_rot = hp->n_rot_window;
    own.rope_scale = 1.0f;
    own.yarn.share = 0.0f;
    hearth_rope_frequencies(&own, NULL, out);
}

void hearth_rope_turn(float *cos_sin, const float *inv_freq, int n_rot, int pos, float by)
{
    for (int i = 0; i < n_rot / 2; i++) {
        float angle = (float)pos * inv_freq[i];
        cos_sin[i] = (float)cos((double)angle) * by;
        cos_sin[n_rot / 2 + i] = (float)sin((double)angle) * by;
    }
}
