// SPDX-License-Identifier: MIT
// Pooling: see pooling.h.
#include "engine/pooling.h"

#include <math.h>
#include <string.h>

void hearth_pooler_add(struct hearth_pooler *p, int index, const float *state)
{
    const size_t width = (size_t)p->n_embd;
    if (p->pooling != HEARTH_POOLING_MEAN) {
        const size_t row = p->pooling == HEARTH_POOLING_NONE ? (size_t)index : 0;
        memcpy(p->out + row * width, state, width * sizeof *state);
        return;
    }
    for (size_t i = 0; i < width; i++)
        p->sum[i] = (index ? p->sum[i] : 0) + (double)state[i];
}

void hearth_pooler_end(struct hearth_pooler *p, int norm)
{
    const int rows = p->pooling == HEARTH_POOLING_NONE ? p->n : 1;
    for (int i = 0; i < p->n_embd && p->pooling == HEARTH_POOLING_MEAN; i++)
        p->out[i] = (float)(p->sum[i] / p->n);
    for (int i = 0; i < rows; i++)
        hearth_embedding_normalize(p->out + (size_t)i * (size_t)p->n_embd, p->n_embd, norm);
}

// ---- norms

// Largest magnitude of integers of 16 bits, with some room, as llama.cpp has it.
#define LARGEST_INT 32760.0

static double largest(const float *x, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) { // gcc 12 for ARM does not survive fmax() here
        const double size = fabs((double)x[i]);
        most = size > most ? size : most;
    }
    return most;
}

static double p_norm(const float *x, int n, int p)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += p == 1   ? fabs((double)x[i])
               : p == 2 ? (double)x[i] * (double)x[i]
                        : pow(fabs((double)x[i]), p);
    return p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1.0 / p);
}

void hearth_embedding_normalize(float *x, int n, int norm)
{
    if (norm < 0)
        return;
    const double length = norm ? p_norm(x, n, norm) : largest(x, n) / LARGEST_INT;
    for (int i = 0; i < n && length > 0; i++)
        x[i] = (float)((double)x[i] / length);
}
