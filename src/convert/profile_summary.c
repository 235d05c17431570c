// SPDX-License-Identifier: MIT
// What a profile says of a layer.
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "convert/profile.h"

static int falling(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x < y) - (x > y);
}

// counts[n] in any order, which changes.
static void cover(int32_t *counts, size_t n, struct hearth_profile_layer *out)
{
    static const double goals[HEARTH_PROFILE_COVERAGES] = {0.5, 0.8, 0.95, 0.99};
    double all = 0, sum = 0;
    size_t at = 0, never = 0;
    for (size_t j = 0; j < n; j++) {
        all += counts[j];
        never += counts[j] == 0;
    }
    qsort(counts, n, sizeof *counts, falling);
    for (int i = 0; i < HEARTH_PROFILE_COVERAGES; i++) {
        while (at < n && sum < goals[i] * all)
            sum += counts[at++];
        out->coverage[i] = (double)at / (double)n;
    }
    out->never = (double)never / (double)n;
}

static double share_of(const int32_t *counts, const int32_t *visits, size_t n_expert, size_t n_ff)
{
    double active = 0, all = 0;
    for (size_t j = 0; j < n_expert * n_ff; j++)
        active += counts[j];
    for (size_t e = 0; e < n_expert; e++)
        all += (double)visits[e] * (double)n_ff;
    return all > 0 ? active / all : 0;
}

// The mean magnitude, where the profile has them.
static int read_mean(const struct hearth_profile *p, uint32_t layer, const int32_t *counts,
                     struct hearth_profile_layer *out, struct hearth_error *err)
{
    const size_t n = (size_t)p->n_expert * hearth_profile_neurons(p, layer);
    char name[64];
    snprintf(name, sizeof name, "blk.%u.ffn_means", layer);
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(p->g, name);
    if (!t || t->type != HEARTH_TYPE_F32 || t->bytes != n * sizeof(float))
        return HEARTH_OK;
    float *means = hearth_calloc(n, sizeof *means);
    if (!means)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a profile");
    const int rc = hearth_gguf_read(p->g, t, means, 0, n * sizeof *means, err);
    double sum = 0, all = 0;
    for (size_t j = 0; j < n; j++) {
        sum += (double)means[j] * counts[j];
        all += counts[j];
    }
    free(means);
    out->mean = !rc && all > 0 ? sum / all : 0;
    return rc;
}

int hearth_profile_summarise(const struct hearth_profile *p, uint32_t layer, struct hearth_profile_layer *out,
                             struct hearth_error *err)
{
    const size_t n_ff = hearth_profile_neurons(p, layer), n = p->n_expert * n_ff;
    int32_t *counts = hearth_calloc(p->n_batches * n, sizeof *counts);
    int32_t *visits = hearth_calloc((size_t)p->n_batches * p->n_expert, sizeof *visits);
    *out = (struct hearth_profile_layer){.layer = layer};
    int rc = counts && visits ? hearth_profile_read(p, layer, counts, visits, err)
                              : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a profile");
    for (uint32_t b = 0; b < p->n_batches && b < HEARTH_PROFILE_BATCHES && !rc; b++)
        out->active[b] = share_of(counts + b * n, visits + (size_t)b * p->n_expert, p->n_expert, n_ff);
    if (!rc)
        rc = read_mean(p, layer, counts, out, err);
    if (!rc) {
        for (uint32_t e = 0; e < p->n_expert; e++)
            out->used |= visits[e] > 0;
        cover(counts, n, out);
        out->repeats = p->layer_repeats ? hearth_gguf_kv_f64(p->layer_repeats, layer) : 0;
    }
    free(counts);
    free(visits);
    return rc;
}
