// SPDX-License-Identifier: MIT
// The numbers of xIELU, by layer.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "model/arch.h"

// A number for each layer, or one for all; its magnitude is at most 1e4.
static int read_numbers(const struct hearth_model *m, const char *name, float *out, struct hearth_error *err)
{
    char key[32];
    snprintf(key, sizeof key, "xielu.%s", name); // without the architecture's name
    const struct hearth_gguf_kv *kv = hearth_gguf_find(m->gguf, key);
    const bool array = kv && kv->type == HEARTH_GGUF_ARRAY;
    bool fits = kv && !kv->strings && kv->type != HEARTH_GGUF_STRING &&
                (!array || kv->count >= (uint64_t)m->hp.n_layer);
    for (int i = 0; i < m->hp.n_layer && fits; i++) {
        out[i] = (float)hearth_gguf_kv_f64(kv, array ? (uint64_t)i : 0);
        fits = fabsf(out[i]) <= 1e4f;
    }
    return fits ? HEARTH_OK
                : hearth_fail(err, HEARTH_E_FORMAT,
                              "%s: %s must be a number from -10000 to 10000 for each layer",
                              hearth_gguf_path(m->gguf), key);
}

// ln(1 + e^x)
static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

int hearth_xielu_read(struct hearth_model *m, struct hearth_error *err)
{
    static const char *const names[] = {"alpha_p", "alpha_n", "beta", "eps"};
    const size_t n = (size_t)m->hp.n_layer;
    if (!m->arch->xielu)
        return HEARTH_OK;
    m->xielu = hearth_calloc(n, sizeof *m->xielu);
    float *numbers = hearth_calloc(n * 4, sizeof *numbers);
    int rc = m->xielu && numbers ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for activations");
    for (size_t i = 0; i < 4 && !rc; i++)
        rc = read_numbers(m, names[i], numbers + i * n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        const double b = (double)numbers[2 * n + i];
        m->xielu[i] = (struct hearth_xielu){.a = (float)softplus((double)numbers[i]),
                                            .n = (float)(b + softplus((double)numbers[n + i])),
                                            .b = numbers[2 * n + i],
                                            .eps = numbers[3 * n + i]};
    }
    free(numbers);
    return rc;
}
