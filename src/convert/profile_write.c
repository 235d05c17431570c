// SPDX-License-Identifier: MIT
// Writes a profile.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "convert/profiler.h"
#include "gguf/checksums.h"
#include "model/arch.h"
#include "model/ffn.h"
#include "model/fingerprint.h"

#define BATCHES HEARTH_PROFILE_BATCHES
#define SAMPLE  HEARTH_PROFILE_SAMPLE

static int put_metadata(const struct hearth_profiler *p, const struct hearth_profile_params *params,
                        struct hearth_gguf_writer *w)
{
    static const uint32_t batches[BATCHES] = {1, 2, 4, 8, 16, 32};
    const char *name = hearth_path_name(p->model->info.path);
    const char *arch = p->model->arch->name;
    uint32_t crc = 0, norms = 0;
    int rc = hearth_gguf_header_crc(p->model->gguf, &crc, p->err);
    if (!rc)
        rc = hearth_norms_fingerprint(p->model->gguf, &norms, p->err);
    if (!rc)
        rc = hearth_gguf_put_str(w, "general.type", "profile", 7, p->err);
    if (!rc)
        rc = hearth_gguf_put_u32(
            w, "hearth.profile.version",
            hearth_widths_differ(&p->model->hp) ? HEARTH_PROFILE_WIDTHS : HEARTH_PROFILE_VERSION, p->err);
    if (!rc)
        rc = hearth_gguf_put_str(w, "hearth.profile.architecture", arch, strlen(arch), p->err);
    if (!rc)
        rc = hearth_gguf_put_str(w, "hearth.profile.source.name", name, strlen(name), p->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "hearth.profile.source.crc32c", crc, p->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "hearth.profile.source.norms_crc32c", norms, p->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "hearth.profile.layers", (uint32_t)p->n_layer, p->err);
    if (!rc)
        rc = hearth_gguf_put_u64(w, "hearth.profile.tokens", p->counted, p->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, "hearth.profile.threshold", params->sparsity_threshold, p->err);
    if (!rc)
        rc = hearth_gguf_put_f32(w, "hearth.profile.share", params->sparsity_share, p->err);
    if (!rc && p->all_compared)
        rc = hearth_gguf_put_f32(w, "hearth.profile.repeats",
                                 (float)((double)p->all_again / (double)p->all_compared), p->err);
    if (!rc && p->all_compared)
        rc = hearth_gguf_put_array(w, "hearth.profile.layer_repeats", HEARTH_GGUF_F32, p->repeats, p->n_layer,
                                   p->err);
    if (!rc && p->magnitudes)
        rc = hearth_gguf_put_array(w, "hearth.profile.magnitudes", HEARTH_GGUF_F32, p->magnitudes,
                                   p->n_layer * HEARTH_MAGNITUDES, p->err);
    return rc ? rc
              : hearth_gguf_put_array(w, "hearth.profile.batches", HEARTH_GGUF_U32, batches, BATCHES, p->err);
}

static size_t neurons_of(const struct hearth_profiler *p, size_t layer)
{
    return (size_t)hearth_ffn_neurons_of(&p->model->hp, (int)layer);
}

static int put_layer(const struct hearth_profiler *p, struct hearth_gguf_writer *w, size_t layer)
{
    char name[64];
    const uint64_t n = neurons_of(p, layer), counts[3] = {n, p->n_expert, BATCHES};
    const uint64_t visits[2] = {p->n_expert, BATCHES}, sample[3] = {(n + 7) / 8, SAMPLE, p->n_expert};
    snprintf(name, sizeof name, "blk.%zu.ffn_counts", layer);
    int rc = hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I32, 3, counts, p->err);
    snprintf(name, sizeof name, "blk.%zu.ffn_visits", layer);
    if (!rc)
        rc = hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I32, 2, visits, p->err);
    snprintf(name, sizeof name, "blk.%zu.ffn_means", layer);
    if (!rc)
        rc = hearth_gguf_put_tensor(w, name, HEARTH_TYPE_F32, 2, counts, p->err);
    snprintf(name, sizeof name, "blk.%zu.ffn_sample", layer);
    return rc ? rc : hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I8, 3, sample, p->err);
}

// A layer's sample, space by space.
static int write_sample(struct hearth_profiler *p, struct hearth_gguf_writer *w, size_t layer)
{
    const size_t bytes = (neurons_of(p, layer) + 7) / 8;
    int rc = HEARTH_OK;
    for (size_t e = 0; e < p->n_expert && !rc; e++) {
        rc =
            hearth_row_store_read(&p->samples, (layer * p->n_expert + e) * SAMPLE, SAMPLE, p->sample, p->err);
        for (size_t i = 1; i < SAMPLE; i++) // rows of narrower layers come closer
            memmove(p->sample + i * bytes, p->sample + i * p->sample_bytes, bytes);
        if (!rc)
            rc = hearth_gguf_write(w, p->sample, SAMPLE * bytes, p->err);
    }
    return rc;
}

// Rows with a number for each neuron of the largest space, as many as the layer's have.
static int write_rows(struct hearth_profiler *p, struct hearth_gguf_writer *w, const void *rows, size_t n,
                      size_t layer)
{
    int rc = HEARTH_OK;
    for (size_t i = 0; i < n && !rc; i++)
        rc = hearth_gguf_write(w, (const uint8_t *)rows + i * p->n_ff * 4, neurons_of(p, layer) * 4, p->err);
    return rc;
}

int hearth_profiler_write(struct hearth_profiler *p, const char *out)
{
    const size_t spaces = BATCHES * p->n_expert;
    struct hearth_gguf_writer *w = NULL;
    int rc = hearth_gguf_writer_open(&w, out, p->err);
    if (!rc)
        rc = put_metadata(p, p->params, w);
    for (size_t i = 0; i < p->n_layer && !rc; i++)
        rc = put_layer(p, w, i);
    if (!rc)
        rc = hearth_gguf_put_checksums(w, p->err);
    for (size_t i = 0; i < p->n_layer && !rc; i++) {
        rc = write_rows(p, w, p->counts + i * spaces * p->n_ff, spaces, i);
        if (!rc)
            rc = hearth_gguf_write(w, p->visits + i * spaces, spaces * sizeof *p->visits, p->err);
        if (!rc)
            rc = write_rows(p, w, p->means + i * p->n_expert * p->n_ff, p->n_expert, i);
        if (!rc)
            rc = write_sample(p, w, i);
    }
    if (!rc)
        rc = hearth_gguf_finish(&w, p->err);
    hearth_gguf_writer_close(&w);
    return rc;
}
