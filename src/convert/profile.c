// SPDX-License-Identifier: MIT
// Makes a profile. 32 parts of a text go through the model side by side, one token of each per step. So the
// tokens of a step have as little to do with each other as those of 32 users. A neuron's 32 bits of a step
// say for which parts it was active. For groups of 2, 4, ... the bits of a group are or-ed.
#include "convert/profile.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/context.h"
#include "gguf/checksums.h"
#include "model/arch.h"
#include "model/fingerprint.h"
#include "model/model.h"

#define SEQS        HEARTH_PROFILE_SEQS
#define BATCHES     HEARTH_PROFILE_BATCHES
#define DEFAULT_CTX 512
// Bins of magnitudes: 64 per power of two, cut from a float's bits.
#define BIN_SHIFT 17
#define BINS      (1u << (31 - BIN_SHIFT))

struct profiler {
    const struct hearth_model *model;
    struct hearth_session *session;
    const hearth_token *tokens;
    size_t seq_tokens;              // tokens of each sequence (part of the text)
    int n_ctx;                      // tokens of a window
    size_t n_layer, n_expert, n_ff; // n_expert at least 1

    // The layer being evaluated.
    int layer;         // -1: none yet
    uint32_t *masks;   // [n_expert][n_ff] bit i: active in sequence i
    uint32_t *visited; // [n_expert] bit i: used by sequence i

    // What a sequence had active when it last used a space, and which sequences have used it since their
    // window began.
    uint32_t *before; // [n_layer][n_expert][n_ff] bit i: in sequence i
    uint32_t *seen;   // [n_layer][n_expert]
    uint64_t again,
        compared; // active neurons of sequences that were seen before: that were active then, and all

    bool counting;
    int32_t *counts; // [n_layer][BATCHES][n_expert][n_ff] groups in which the neuron was active
    int32_t *visits; // [n_layer][BATCHES][n_expert] groups that used the space
    uint64_t counted;

    // Models outside the ReLU family.
    bool sizing;       // the first of two passes: only collect magnitudes
    int pass, passes;  // passes over the text
    uint64_t *sizes;   // [n_layer][BINS] activated gates by magnitude
    float *magnitudes; // [n_layer][HEARTH_MAGNITUDES]
    const struct hearth_profile_params *params;
    float done; // share of the text, all passes
    struct hearth_error *err;
};

// ---- counting

// The lowest bit of every group of 1 << batch sequences.
static uint32_t groups_of(int batch)
{
    static const uint32_t lowest[BATCHES] = {0xffffffffu, 0x55555555u, 0x11111111u,
                                             0x01010101u, 0x00010001u, 1};
    return lowest[batch];
}

static int32_t count_bits(uint32_t x)
{
    return (int32_t)__builtin_popcount(x);
}

// Counts the groups with a bit in `mask`, in counters that are `stride` apart.
static void add_groups(uint32_t mask, int32_t *counters, size_t stride)
{
    for (int batch = 0; batch < BATCHES; batch++) {
        counters[(size_t)batch * stride] += count_bits(mask & groups_of(batch));
        if (batch + 1 < BATCHES)
            mask |= mask >> (1u << batch);
    }
}

// Compares a space's active neurons with those of the same sequences' visits before.
static void compare_visits(struct profiler *p, size_t space, const uint32_t *masks, uint32_t visited)
{
    uint32_t *before = p->before + space * p->n_ff;
    const uint32_t seen = p->seen[space] & visited;
    for (size_t j = 0; j < p->n_ff; j++) {
        p->again += (uint64_t)count_bits(masks[j] & before[j] & seen);
        p->compared += (uint64_t)count_bits(masks[j] & seen);
        before[j] = (before[j] & ~visited) | masks[j];
    }
    p->seen[space] |= visited;
}

static void end_layer(struct profiler *p)
{
    const size_t spaces = p->n_expert, f = p->n_ff;
    for (size_t e = 0; p->layer >= 0 && e < spaces; e++) {
        if (!p->visited[e])
            continue;
        int32_t *counts = p->counts + ((size_t)p->layer * BATCHES * spaces + e) * f;
        uint32_t *masks = p->masks + e * f;
        add_groups(p->visited[e], p->visits + (size_t)p->layer * BATCHES * spaces + e, spaces);
        for (size_t j = 0; j < f; j++)
            if (masks[j])
                add_groups(masks[j], counts + j, spaces * f);
        compare_visits(p, (size_t)p->layer * spaces + e, masks, p->visited[e]);
        memset(masks, 0, f * sizeof *masks);
        p->visited[e] = 0;
    }
    p->layer = -1;
}

static void on_neurons(void *arg, int layer, int expert, struct hearth_row row, const float *act)
{
    struct profiler *p = arg;
    if (!p->counting || p->sizing)
        return;
    if (layer != p->layer) {
        end_layer(p);
        p->layer = layer;
    }
    uint32_t *masks = p->masks + (size_t)expert * p->n_ff;
    p->visited[expert] |= 1u << row.seq;
    for (size_t j = 0; j < p->n_ff; j++)
        masks[j] |= (uint32_t)(act[j] != 0.0f) << row.seq;
}

// ---- magnitudes

static void on_gates(void *arg, int layer, struct hearth_row row, const float *gates)
{
    (void)row;
    struct profiler *p = arg;
    uint64_t *sizes = p->sizes + (size_t)layer * BINS;
    for (size_t j = 0; p->counting && j < p->n_ff; j++) {
        uint32_t bits;
        memcpy(&bits, &gates[j], sizeof bits);
        sizes[(bits & INT32_MAX) >> BIN_SHIFT]++;
    }
}

// The upper end of a bin.
static float bin_end(uint32_t bin)
{
    const uint32_t bits = (bin + 1) << BIN_SHIFT;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x <= FLT_MAX ? x : FLT_MAX;
}

static void measure_layer(const uint64_t *sizes, float *percentiles)
{
    uint64_t all = 0, below = 0;
    for (uint32_t i = 0; i < BINS; i++)
        all += sizes[i];
    uint32_t bin = 0;
    percentiles[0] = 0;
    for (uint64_t k = 1; k < HEARTH_MAGNITUDES; k++) {
        while (bin < BINS && below * (HEARTH_MAGNITUDES - 1) < all * k)
            below += sizes[bin++];
        percentiles[k] = bin ? bin_end(bin - 1) : 0;
    }
}

static void measure(struct profiler *p)
{
    for (size_t i = 0; p->sizes && i < p->n_layer; i++)
        measure_layer(p->sizes + i * BINS, p->magnitudes + i * HEARTH_MAGNITUDES);
}

// ---- running the text

// Evaluates one token of every sequence: token `at` of its part of the text, or BOS.
static int step(struct profiler *p, const int *seqs, size_t at, bool bos, bool counting)
{
    hearth_token tokens[SEQS];
    for (size_t i = 0; i < SEQS; i++)
        tokens[i] = bos ? hearth_token_bos(p->model) : p->tokens[i * p->seq_tokens + at];
    p->counting = counting;
    int rc = hearth_step(p->session, seqs, tokens, SEQS, p->err);
    end_layer(p);
    p->counted += !rc && counting && !p->sizing ? SEQS : 0;
    return rc;
}

static int run_stretch(struct profiler *p, size_t from, const struct hearth_profile_params *params)
{
    const hearth_token bos = hearth_token_bos(p->model);
    const size_t room = (size_t)p->n_ctx - (bos >= 0);
    int seqs[SEQS], rc = HEARTH_OK;
    memset(p->seen, 0, p->n_layer * p->n_expert * sizeof *p->seen);
    for (int i = 0; i < SEQS && rc >= 0; i++)
        rc = seqs[i] = hearth_seq_new(p->session, p->err);
    if (rc < 0)
        return rc;
    rc = bos >= 0 ? step(p, seqs, 0, true, false) : HEARTH_OK;
    for (size_t i = 0; i < room && from + i < p->seq_tokens && !rc; i++) {
        // Without BOS, the first token has nothing before it either, so it is not counted.
        rc = step(p, seqs, from + i, false, bos >= 0 || i > 0);
        const double done = p->pass + (double)(from + i + 1) / (double)p->seq_tokens;
        p->done = (float)(done / p->passes);
        if (!rc && params->progress && !params->progress(params->progress_arg, p->done))
            rc = hearth_fail(p->err, HEARTH_E_INTERRUPTED, "stopped on request");
    }
    for (int i = 0; i < SEQS; i++)
        hearth_seq_free(p->session, seqs[i]);
    return rc;
}

static int run_text(struct profiler *p, const struct hearth_profile_params *params)
{
    const size_t room = (size_t)p->n_ctx - (hearth_token_bos(p->model) >= 0);
    int rc = HEARTH_OK;
    for (size_t from = 0; from < p->seq_tokens && !rc; from += room)
        rc = run_stretch(p, from, params);
    return rc;
}

// What counts in the second pass: what is not below a share of the magnitudes.
static int set_thresholds(struct profiler *p, float share)
{
    float *thresholds = hearth_calloc(p->n_layer, sizeof *thresholds);
    if (!thresholds)
        return hearth_fail(p->err, HEARTH_E_MEMORY, "no memory for a profile");
    for (size_t i = 0; i < p->n_layer; i++)
        thresholds[i] = hearth_magnitude_at(p->magnitudes + i * HEARTH_MAGNITUDES, (double)share);
    hearth_session_probes(p->session)->on_gates = NULL;
    const int rc = hearth_session_set_thresholds(p->session, thresholds, p->err);
    free(thresholds);
    return rc;
}

// Twice where a share decides what counts: first to learn what is below it.
static int run_passes(struct profiler *p, const struct hearth_profile_params *params)
{
    const float share = params->sparsity_share;
    int rc = HEARTH_OK;
    p->passes = share > 0 ? 2 : 1;
    if (share > 0) {
        p->sizing = true;
        rc = run_text(p, params);
        measure(p);
        if (!rc)
            rc = set_thresholds(p, share);
        p->sizing = false;
        p->pass = 1;
    }
    if (!rc)
        rc = run_text(p, params);
    if (hearth_session_probes(p->session)->on_gates)
        measure(p);
    return rc;
}

// ---- the file

static int put_metadata(const struct profiler *p, const struct hearth_profile_params *params,
                        struct hearth_gguf_writer *w)
{
    static const uint32_t batches[BATCHES] = {1, 2, 4, 8, 16, 32};
    const char *path = p->model->info.path, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *arch = p->model->arch->name;
    uint32_t crc = 0, norms = 0;
    int rc = hearth_gguf_header_crc(p->model->gguf, &crc, p->err);
    if (!rc)
        rc = hearth_norms_fingerprint(p->model->gguf, &norms, p->err);
    if (!rc)
        rc = hearth_gguf_put_str(w, "general.type", "profile", 7, p->err);
    if (!rc)
        rc = hearth_gguf_put_u32(w, "hearth.profile.version", HEARTH_PROFILE_VERSION, p->err);
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
    if (!rc && p->compared)
        rc = hearth_gguf_put_f32(w, "hearth.profile.repeats", (float)((double)p->again / (double)p->compared),
                                 p->err);
    if (!rc && p->magnitudes)
        rc = hearth_gguf_put_array(w, "hearth.profile.magnitudes", HEARTH_GGUF_F32, p->magnitudes,
                                   p->n_layer * HEARTH_MAGNITUDES, p->err);
    return rc ? rc
              : hearth_gguf_put_array(w, "hearth.profile.batches", HEARTH_GGUF_U32, batches, BATCHES, p->err);
}

static int put_layer(const struct profiler *p, struct hearth_gguf_writer *w, size_t layer)
{
    char name[64];
    const uint64_t counts[3] = {p->n_ff, p->n_expert, BATCHES}, visits[2] = {p->n_expert, BATCHES};
    snprintf(name, sizeof name, "blk.%zu.ffn_counts", layer);
    int rc = hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I32, 3, counts, p->err);
    snprintf(name, sizeof name, "blk.%zu.ffn_visits", layer);
    return rc ? rc : hearth_gguf_put_tensor(w, name, HEARTH_TYPE_I32, 2, visits, p->err);
}

static int write_file(const struct profiler *p, const struct hearth_profile_params *params, const char *out)
{
    const size_t spaces = BATCHES * p->n_expert;
    struct hearth_gguf_writer *w = NULL;
    int rc = hearth_gguf_writer_open(&w, out, p->err);
    if (!rc)
        rc = put_metadata(p, params, w);
    for (size_t i = 0; i < p->n_layer && !rc; i++)
        rc = put_layer(p, w, i);
    if (!rc)
        rc = hearth_gguf_put_checksums(w, p->err);
    for (size_t i = 0; i < p->n_layer && !rc; i++) {
        rc = hearth_gguf_write(w, p->counts + i * spaces * p->n_ff, spaces * p->n_ff * sizeof *p->counts,
                               p->err);
        if (!rc)
            rc = hearth_gguf_write(w, p->visits + i * spaces, spaces * sizeof *p->visits, p->err);
    }
    if (!rc)
        rc = hearth_gguf_finish(&w, p->err);
    hearth_gguf_writer_close(&w);
    return rc;
}

// Mean share of active neurons in visited spaces, for groups of this size.
static double mean_share(const struct profiler *p, int batch)
{
    double active = 0, all = 0;
    for (size_t layer = 0; layer < p->n_layer; layer++)
        for (size_t e = 0; e < p->n_expert; e++) {
            const size_t space = (layer * BATCHES + (size_t)batch) * p->n_expert + e;
            for (size_t j = 0; j < p->n_ff; j++)
                active += p->counts[space * p->n_ff + j];
            all += (double)p->visits[space] * (double)p->n_ff;
        }
    return all > 0 ? active / all : 0;
}

// ---- entry

static bool is_relu(const struct hearth_model *m)
{
    return m->hp.activation == HEARTH_ACT_RELU || m->hp.activation == HEARTH_ACT_DRELU;
}

static int check_request(struct profiler *p, size_t n_tokens, const struct hearth_profile_params *params)
{
    const struct hearth_model *m = p->model;
    if (!(params->sparsity_share >= 0 && params->sparsity_share < 1) ||
        (params->sparsity_share > 0 && is_relu(m)))
        return hearth_fail_param(
            p->err, HEARTH_E_INVALID, "sparsity_share",
            "%s: a share of neurons to leave out is below 100 %% and for models outside the ReLU "
            "family, whose activations say themselves what is left out",
            m->info.path);
    if (!is_relu(m) && !(params->sparsity_threshold > 0) && !(params->sparsity_share > 0))
        return hearth_fail_param(
            p->err, HEARTH_E_INVALID, "sparsity_share",
            "%s: with this model's activation every neuron is always active: say with "
            "sparsity_threshold or sparsity_share which ones are left out, for instance 40%%",
            m->info.path);
    if (m->pack)
        return hearth_fail(p->err, HEARTH_E_INVALID,
                           "%s: this is a pack; make the profile with the model that it was made of",
                           m->info.path);
    if (n_tokens < 2 * SEQS)
        return hearth_fail(
            p->err, HEARTH_E_INVALID,
            "the text has %zu tokens; a profile needs at least %d, and is good from some ten thousand on",
            n_tokens, 2 * SEQS);
    if (n_tokens > INT32_MAX)
        return hearth_fail(p->err, HEARTH_E_INVALID, "a text of %zu tokens is too long for one profile",
                           n_tokens);
    return HEARTH_OK;
}

// After each layer: a step of a large model takes long, and the user may want to stop.
static bool on_layer(void *arg, float share)
{
    const struct profiler *p = arg;
    (void)share;
    return p->params->progress(p->params->progress_arg, p->done);
}

static int open_session(struct profiler *p, const struct hearth_profile_params *params)
{
    struct hearth_session_params sp = hearth_session_params_default();
    sp.n_ctx = p->n_ctx;
    sp.max_seqs = SEQS;
    sp.n_ubatch = 1;
    sp.n_threads = params->n_threads;
    sp.sparsity = HEARTH_SPARSITY_EXACT;
    sp.progress = params->progress ? on_layer : NULL;
    sp.progress_arg = p;
    sp.sparsity_threshold = params->sparsity_share > 0 ? FLT_MIN : params->sparsity_threshold;
    int rc = hearth_session_open(&p->session, p->model, &sp, p->err);
    if (rc)
        return rc;
    struct hearth_probes *probes = hearth_session_probes(p->session);
    probes->on_neurons = on_neurons;
    probes->on_neurons_arg = p;
    probes->on_gates = p->sizes ? on_gates : NULL;
    probes->on_gates_arg = p;
    return HEARTH_OK;
}

static int take_memory(struct profiler *p)
{
    const size_t spaces = p->n_layer * BATCHES * p->n_expert;
    p->counts = hearth_calloc(spaces, p->n_ff * sizeof *p->counts);
    p->visits = hearth_calloc(spaces, sizeof *p->visits);
    p->masks = hearth_calloc(p->n_expert, p->n_ff * sizeof *p->masks);
    p->visited = hearth_calloc(p->n_expert, sizeof *p->visited);
    p->before = hearth_calloc(p->n_layer * p->n_expert, p->n_ff * sizeof *p->before);
    p->seen = hearth_calloc(p->n_layer * p->n_expert, sizeof *p->seen);
    const bool sized = !is_relu(p->model);
    if (sized) {
        p->sizes = hearth_calloc(p->n_layer, BINS * sizeof *p->sizes);
        p->magnitudes = hearth_calloc(p->n_layer, HEARTH_MAGNITUDES * sizeof *p->magnitudes);
    }
    return p->counts && p->visits && p->masks && p->visited && p->before && p->seen &&
                   (!sized || (p->sizes && p->magnitudes))
               ? HEARTH_OK
               : hearth_fail(p->err, HEARTH_E_MEMORY, "no memory for the counts of a profile");
}

int hearth_profile(const struct hearth_model *model, const hearth_token *tokens, size_t n_tokens,
                   const struct hearth_profile_params *params, const char *out,
                   struct hearth_profile_result *result, struct hearth_error *err)
{
    struct profiler p = {.model = model, .tokens = tokens, .layer = -1, .params = params, .err = err};
    int rc = check_request(&p, n_tokens, params);
    if (rc)
        return rc;
    const int most = model->hp.n_pos ? model->hp.n_pos : 1 << 26; // learned positions limit the context
    p.n_layer = (size_t)model->hp.n_layer;
    p.n_expert = (size_t)(model->hp.n_expert ? model->hp.n_expert : 1);
    p.n_ff = (size_t)(model->hp.n_expert ? model->hp.n_ff_exp : model->hp.n_ff);
    p.seq_tokens = n_tokens / SEQS;
    p.n_ctx = params->n_ctx > 1 ? params->n_ctx : DEFAULT_CTX;
    if ((size_t)p.n_ctx > p.seq_tokens + 1) // no window is longer
        p.n_ctx = (int)p.seq_tokens + 1;
    if (p.n_ctx > most)
        p.n_ctx = most;
    rc = take_memory(&p);
    if (!rc)
        rc = open_session(&p, params);
    if (!rc)
        rc = run_passes(&p, params);
    if (!rc)
        rc = write_file(&p, params, out);
    if (!rc && result)
        *result = (struct hearth_profile_result){p.counted, mean_share(&p, 0), mean_share(&p, BATCHES - 1)};
    hearth_session_close(&p.session);
    free(p.counts);
    free(p.visits);
    free(p.masks);
    free(p.visited);
    free(p.before);
    free(p.seen);
    free(p.sizes);
    free(p.magnitudes);
    return rc;
}
