// SPDX-License-Identifier: MIT
// Logits of two models beside one another: byte by byte, or as far apart as sums in another order are.
#ifndef HEARTH_PACK_COMPARE_H
#define HEARTH_PACK_COMPARE_H

#include <math.h>

#include "engine/session.h"
#include "made_models.h"

enum { N_TOKENS = 40 };

static inline hearth_token token_at(int i)
{
    return i ? (i * 37 + 11) % MADE_VOCAB : 1;
}

static inline bool keep_row(void *arg, int index, const float *logits)
{
    memcpy((float *)arg + (size_t)index * MADE_VOCAB, logits, MADE_VOCAB * sizeof *logits);
    return true;
}

// Logits of N_TOKENS tokens, malloc'ed; NULL when the model cannot do this.
static inline float *run(const struct hearth_model *m, enum hearth_phase phase, enum hearth_sparsity sparsity)
{
    float *out = malloc(N_TOKENS * MADE_VOCAB * sizeof *out);
    struct hearth_session *s = NULL;
    struct hearth_session_params params = hearth_session_params_default();
    struct hearth_error err = {0};
    hearth_token tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = token_at(i);
    params.n_threads = 2;
    params.type_k = params.type_v = HEARTH_KV_F32;
    params.sparsity = sparsity;
    if (hearth_session_open(&s, m, &params, &err))
        fail_msg("%s", err.message);
    int seq = hearth_seq_new(s, NULL);
    if (phase == HEARTH_PHASE_PROMPT)
        MADE_OK(hearth_prompt(s, seq, tokens, N_TOKENS, keep_row, out, &err));
    else
        for (int i = 0; i < N_TOKENS; i++) {
            MADE_OK(hearth_step(s, &seq, &tokens[i], 1, &err));
            keep_row(out, i, hearth_logits(s, 0));
        }
    hearth_session_close(&s);
    return out;
}

// Relative distance of two rows of logits, the largest of all rows.
static inline double distance(const float *a, const float *b)
{
    double worst = 0;
    for (int i = 0; i < N_TOKENS; i++) {
        double diff = 0, norm = 0;
        for (int j = 0; j < MADE_VOCAB; j++) {
            const double x = a[i * MADE_VOCAB + j], y = b[i * MADE_VOCAB + j];
            diff += (x - y) * (x - y);
            norm += y * y;
        }
        worst = diff / norm > worst ? diff / norm : worst;
    }
    return sqrt(worst);
}

static inline void compare_models(const char *label, const struct hearth_model *a,
                                  const struct hearth_model *b, double most)
{
    for (int phase = 0; phase < 2; phase++)
        for (int sparsity = HEARTH_SPARSITY_OFF; sparsity <= HEARTH_SPARSITY_PREDICT; sparsity++) {
            if (sparsity == HEARTH_SPARSITY_PREDICT && (!a->hp.has_predictors || most > 0))
                continue;
            float *x = run(a, (enum hearth_phase)phase, (enum hearth_sparsity)sparsity);
            float *y = run(b, (enum hearth_phase)phase, (enum hearth_sparsity)sparsity);
            const double d = distance(x, y);
            if (most > 0 ? !(d <= most) : memcmp(x, y, N_TOKENS * MADE_VOCAB * sizeof *x) != 0)
                fail_msg("%s: phase %d, sparsity %d: logits are %g apart", label, phase, sparsity, d);
            free(x);
            free(y);
        }
}

#endif
