// SPDX-License-Identifier: MIT
// Opening and closing models, and the public functions about a model and its tokens.
#include "model/model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/claims.h"
#include "base/cpu.h"
#include "base/free_memory.h"
#include "base/log.h"
#include "base/os.h"
#include "base/params.h"
#include "gguf/checksums.h"
#include "model/adapters.h"
#include "model/ffn.h"
#include "model/load.h"
#include "model/nextn.h"
#include "model/pack.h"
#include "model/scales.h"
#include "text/stream.h"

static const struct hearth_model_params default_params = {.size = sizeof default_params};

void hearth_model_params_init(struct hearth_model_params *params, size_t size)
{
    hearth_params_init(params, size, &default_params, sizeof default_params);
}

// What the file calls itself, by which people tell files apart; else the format of most weights.
static const char *main_type_name(const struct hearth_model *m)
{
    const char *named = hearth_gguf_file_type(m->gguf);
    if (named)
        return named;
    uint64_t bytes[HEARTH_TYPE_END] = {0};
    uint32_t best = 0;
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(m->gguf); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(m->gguf, i);
        if (!m->pack || !hearth_pack_owns(t))
            bytes[t->type] += t->bytes;
    }
    for (uint32_t i = 0; m->pack && i < m->pack->n_layer; i++) {
        const struct hearth_bundle *b = &m->pack->layers[i];
        for (int part = 0; part < HEARTH_PARTS; part++)
            if (b->bytes[part])
                bytes[b->type[part]] += (uint64_t)b->bytes[part] * b->n * m->pack->n_expert;
    }
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++)
        if (bytes[type] > bytes[best])
            best = type;
    return hearth_type_info(best)->name;
}

static char *describe(const struct hearth_model *m, const char *arch, uint64_t n_params)
{
    char text[128];
    double n = (double)n_params;
    const char *unit = n >= 1e9 ? "B" : n >= 1e6 ? "M" : "K";
    n /= n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : 1e3;
    snprintf(text, sizeof text, "%s %.*f%s %s", arch, n < 10 ? 1 : 0, n, unit, main_type_name(m));
    return hearth_strndup(text, strlen(text));
}

static int fill_info(struct hearth_model *m, const char *path, struct hearth_error *err)
{
    struct hearth_model_info *info = &m->info;
    struct hearth_str name = {"", 0}, arch = {"", 0};
    int rc = hearth_gguf_str(m->gguf, "general.name", false, &name, err);
    if (!rc)
        rc = hearth_gguf_str(m->gguf, "general.architecture", false, &arch, err);
    if (rc)
        return rc;
    uint64_t n_params = 0;
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(m->gguf); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(m->gguf, i);
        info->n_bytes += t->bytes;
        n_params += hearth_pack_elements(m->pack, t);
    }
    if (!info->n_params)
        info->n_params = n_params;
    m->path = hearth_strndup(path, strlen(path));
    m->name_text = hearth_strndup(name.s, name.n);
    m->arch_text = hearth_strndup(arch.s, arch.n);
    m->type_text = m->arch_text ? describe(m, m->arch_text, info->n_params) : NULL;
    if (!m->path || !m->name_text || !m->arch_text || !m->type_text)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the model's description");
    info->path = m->path;
    info->name = m->name_text;
    info->architecture = m->arch_text;
    info->type = m->type_text;
    info->n_vocab = m->vocab_only ? (int)hearth_vocab_size(m->vocab) : m->hp.n_vocab;
    info->n_ctx_train = m->hp.n_ctx_train;
    info->n_embd = m->hp.n_embd;
    info->n_layer = m->hp.n_layer;
    info->n_head = m->hp.n_head;
    info->n_head_kv = m->hp.n_head_kv;
    info->n_ff = m->hp.n_expert ? m->hp.n_ff_exp : m->hp.n_ff;
    info->pooling = m->hp.pooling ? (enum hearth_pooling)m->hp.pooling : HEARTH_POOLING_MEAN;
    return HEARTH_OK;
}

static int copy_chat_template(struct hearth_model *m, struct hearth_error *err)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(m->gguf, "tokenizer.chat_template");
    if (!kv || kv->type != HEARTH_GGUF_STRING)
        return HEARTH_OK;
    m->chat_template = hearth_strndup(kv->strings[0].s, kv->strings[0].n);
    return m->chat_template ? HEARTH_OK
                            : hearth_fail(err, HEARTH_E_MEMORY, "no memory for the model's chat template");
}

static int find_arch(struct hearth_model *m, struct hearth_error *err)
{
    struct hearth_str name = {"", 0};
    int rc = hearth_gguf_str(m->gguf, "general.architecture", true, &name, err);
    if (rc)
        return rc;
    m->arch = hearth_arch_find(name);
    char known[HEARTH_ARCH_NAMES];
    hearth_arch_names(known, sizeof known);
    if (!m->arch)
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: architecture \"%.*s\" is not supported; supported are %s (docs/architectures.md)",
            hearth_gguf_path(m->gguf), (int)(name.n > 60 ? 60 : name.n), name.s, known);
    return HEARTH_OK;
}

// The embedding table gives the number of tokens. A vocabulary may have fewer (padding), never more.
static int set_n_vocab(struct hearth_model *m, struct hearth_error *err)
{
    const struct hearth_gguf_tensor *embd = hearth_gguf_tensor(m->gguf, "token_embd.weight");
    if (!embd)
        return hearth_fail(
            err, HEARTH_E_FORMAT,
            "%s: there is no tensor token_embd.weight: this file holds a vocabulary but no weights",
            hearth_gguf_path(m->gguf));
    if (embd->ne[1] > INT_MAX / 4 || (m->vocab && embd->ne[1] < hearth_vocab_size(m->vocab)))
        return hearth_fail(
            err, HEARTH_E_FORMAT, "%s: %u tokens in the vocabulary but %llu rows in token_embd.weight",
            hearth_gguf_path(m->gguf), hearth_vocab_size(m->vocab), (unsigned long long)embd->ne[1]);
    m->hp.n_vocab = (int)embd->ne[1];
    return HEARTH_OK;
}

// The table gives the number of learned positions, which limits the context. So does a second table of
// frequencies, which no text shall reach: a token's logits would depend on those behind it.
static int set_n_pos(struct hearth_model *m, struct hearth_error *err)
{
    struct hearth_hparams *hp = &m->hp;
    const struct hearth_gguf_tensor *t = hearth_gguf_tensor(m->gguf, "position_embd.weight");
    if (m->arch->rope_long && hearth_gguf_tensor(m->gguf, "rope_factors_long.weight")) {
        hp->n_pos = hp->yarn.n_ctx_orig;
        if (hp->n_ctx_train > hp->n_pos)
            hp->n_ctx_train = hp->n_pos;
        return HEARTH_OK;
    }
    if (hp->positions != HEARTH_POS_LEARNED || !t)
        return HEARTH_OK; // without the tensor, binding fails
    if (t->ne[1] <= (uint64_t)hp->pos_offset || t->ne[1] > INT_MAX / 4)
        return hearth_fail(err, HEARTH_E_FORMAT,
                           "%s: position_embd.weight has %llu rows, at least %d are needed",
                           hearth_gguf_path(m->gguf), (unsigned long long)t->ne[1], hp->pos_offset + 1);
    hp->n_pos = (int)t->ne[1] - hp->pos_offset;
    if (hp->n_ctx_train > hp->n_pos)
        hp->n_ctx_train = hp->n_pos;
    return HEARTH_OK;
}

#define MAX_SESSIONS 256
#define MAX_READ_GAP (UINT64_C(1) << 30)

// Copies the load options from params.
static int set_load_options(struct hearth_model *m, const struct hearth_model_params *params,
                            struct hearth_error *err)
{
    struct hearth_load_options *o = &m->load;
    o->n_threads = params->n_threads;
    o->progress = params->progress;
    o->progress_arg = params->progress_arg;
    o->ram_asked = o->ram = o->ram_most = params->ram;
    int rc = hearth_io_parse(&o->io, params->io ? params->io : "auto", err);
    o->throttled = params->throttle && *params->throttle;
    if (!rc && o->throttled)
        rc = hearth_throttle_parse(&o->throttle, params->throttle, err);
    if (rc)
        return rc;
    if (params->max_sessions < 0 || params->max_sessions > MAX_SESSIONS)
        return hearth_fail_param(err, HEARTH_E_INVALID, "max_sessions",
                                 "there may be 1 to %d sessions on a model, not %d", MAX_SESSIONS,
                                 params->max_sessions);
    if (params->overlap < HEARTH_OVERLAP_ALL || params->overlap > HEARTH_OVERLAP_NONE)
        return hearth_fail_param(err, HEARTH_E_INVALID, "overlap", "there is no overlap %d",
                                 (int)params->overlap);
    if (params->read_gap > MAX_READ_GAP)
        return hearth_fail_param(err, HEARTH_E_INVALID, "read_gap",
                                 "read_gap is %llu bytes, and at most 1 GiB makes sense",
                                 (unsigned long long)params->read_gap);
    o->overlap = params->overlap;
    o->read_gap = (uint32_t)params->read_gap;
    o->max_sessions = params->max_sessions > 0 ? params->max_sessions : 1;
    return HEARTH_OK;
}

// Checks the file against its checksums, if it has any.
static int verify(struct hearth_model *m, const struct hearth_model_params *params, struct hearth_error *err)
{
    struct hearth_checksums *c = NULL;
    int rc = hearth_checksums_open(&c, m->gguf, err);
    if (!rc && !c)
        hearth_log(HEARTH_LOG_WARNING, "%s has no checksums: there is nothing to verify it against",
                   hearth_gguf_path(m->gguf));
    if (!rc && c)
        rc = hearth_checksums_verify(c, params->n_threads, params->progress, params->progress_arg, err);
    hearth_checksums_close(&c);
    return rc;
}

// A budget is not more than what is there. What the process holds already is part of it.
static void bound_budget(struct hearth_load_options *o, uint64_t held)
{
    const struct hearth_free_memory f = hearth_free_memory("", true);
    if (f.bytes == UINT64_MAX)
        return;
    const uint64_t most = held + hearth_free_memory_to_take(&f, true);
    o->ram_most = o->ram_asked < most ? o->ram_asked : most;
    o->ram = o->ram_asked == HEARTH_RAM_FIT ? held + hearth_free_memory_to_take(&f, false) : o->ram_most;
}

// Claims what the weights will take at most. Sessions know better.
static void choose_budget(struct hearth_model *m)
{
    const uint64_t held = hearth_memory_private();
    const int lock = hearth_claims_lock();
    bound_budget(&m->load, held);
    const uint64_t all = held + m->image_bytes;
    m->shared->claim = hearth_claim(all < m->load.ram ? all : m->load.ram);
    hearth_claims_unlock(lock);
}

static int open_shared(struct hearth_model *m, struct hearth_error *err)
{
    m->shared = hearth_calloc(1, sizeof *m->shared);
    if (m->shared) {
        m->shared->claim = -1;
        m->shared->lock = hearth_lock_open();
    }
    return m->shared && m->shared->lock ? HEARTH_OK
                                        : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a model");
}

static uint64_t less(uint64_t ram, uint64_t bytes)
{
    return ram > bytes ? ram - bytes : 1;
}

void hearth_model_set_aside(struct hearth_model *m, uint64_t bytes)
{
    struct hearth_load_options *o = &m->load;
    if (!o->ram)
        return;
    o->ram = less(o->ram + o->aside, bytes);
    o->ram_most = less(o->ram_most + o->aside, bytes);
    o->aside = bytes;
}

// most: not 0: of the layer that guesses a token ahead alone, if its weights take so many bytes at most; else *fits is false.
static int open_weights(struct hearth_model *m, const struct hearth_model_params *params, uint64_t most,
                        bool *fits, struct hearth_error *err)
{
    int rc = hearth_hparams_read(&m->hp, m->arch, m->gguf, err);
    if (!rc)
        rc = set_n_vocab(m, err);
    if (!rc)
        rc = set_n_pos(m, err);
    if (rc)
        return rc;
    if (most)
        hearth_nextn_become(m);
    m->weights.layers = hearth_calloc((size_t)m->hp.n_layer, sizeof *m->weights.layers);
    if (!m->weights.layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for %d layers", m->hp.n_layer);
    rc = hearth_model_bind(m, err);
    *fits = !most || m->image_bytes <= most;
    if (!rc && !*fits)
        return HEARTH_OK;
    if (!rc)
        rc = hearth_scales_read(m, err);
    if (!rc)
        rc = hearth_xielu_read(m, err);
    if (!rc && params->n_adapters)
        rc = hearth_adapters_open(m, params->adapters, params->n_adapters, err);
    if (!rc && m->load.ram)
        rc = open_shared(m, err);
    if (!rc && m->load.ram)
        choose_budget(m);
    return rc || m->load.ram ? rc : hearth_image_load(m, &m->image, &m->weights, err);
}

// The file's model; or, where `most` is not 0, the layer that guesses a token ahead alone, if there is one, and its weights
// take so many bytes at most.
static int open_model(struct hearth_model **out, const char *path, const struct hearth_model_params *params,
                      uint64_t most, struct hearth_error *err)
{
    *out = NULL;
    bool fits = true;
    struct hearth_model_params p = default_params;
    int rc = hearth_params_read(&p, sizeof p, params, "hearth_model_params", err);
    if (!rc && !path)
        rc = hearth_fail(err, HEARTH_E_INVALID, "there is no path: name the GGUF file to open");
    if (rc)
        return rc;
    unsigned flags;
    if (!hearth_cpu_limit(p.cpu, &flags))
        return hearth_fail_param(err, HEARTH_E_INVALID, "cpu",
                                 "CPU level \"%s\" is unknown or not available on this CPU (it has %s)",
                                 p.cpu, hearth_cpu_level_name(hearth_cpu_flags()));

    struct hearth_model *m = hearth_calloc(1, sizeof *m);
    if (!m)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a model");
    hearth_kernels_init(&m->kernels, flags);
    m->vocab_only = p.vocab_only;

    if (most) {
        p.ram = 0;
        p.n_adapters = 0;
        p.verify = false;
    }
    rc = set_load_options(m, &p, err);
    if (!rc)
        rc = hearth_gguf_open(&m->gguf, path, err);
    if (!rc && p.verify)
        rc = verify(m, &p, err);
    for (size_t i = 0; i < p.n_overrides && !rc; i++)
        rc = p.overrides && p.overrides[i]
                 ? hearth_gguf_override(m->gguf, p.overrides[i], err)
                 : hearth_fail_param(err, HEARTH_E_INVALID, "overrides", "override %zu is NULL", i);
    if (!rc && hearth_gguf_is_pack(m->gguf))
        rc = hearth_pack_open(&m->pack, m->gguf, err);
    if (!rc && !m->vocab_only) // before the vocabulary, whose kind says less about what the file is
        rc = find_arch(m, err);
    fits = !most || (!rc && hearth_nextn_is_in(m));
    if (!rc && !most)
        rc = hearth_vocab_open(&m->vocab, m->gguf, err);
    if (!rc && fits && !m->vocab_only)
        rc = open_weights(m, &p, most, &fits, err);
    if (!rc && !fits) {
        hearth_model_close(&m);
        return HEARTH_OK;
    }
    if (!rc)
        rc = fill_info(m, path, err);
    if (!rc)
        rc = copy_chat_template(m, err);
    if (rc) {
        hearth_model_close(&m);
        return rc;
    }
    *out = m;
    return HEARTH_OK;
}

int hearth_model_open(struct hearth_model **out, const char *path, const struct hearth_model_params *params,
                      struct hearth_error *err)
{
    return open_model(out, path, params, 0, err);
}

int hearth_nextn_open(struct hearth_model **out, const char *path, const struct hearth_model_params *params,
                      uint64_t most, struct hearth_error *err)
{
    return open_model(out, path, params, most ? most : 1, err);
}

uint64_t hearth_model_memory(const struct hearth_model *m)
{
    const uint64_t layers = (uint64_t)m->hp.n_layer, spaces = layers * (uint64_t)hearth_ffn_experts(&m->hp);
    return sizeof *m + hearth_gguf_memory(m->gguf) + (m->vocab ? hearth_vocab_memory(m->vocab) : 0) +
           m->n_items * sizeof *m->items + layers * sizeof *m->weights.layers +
           (m->always ? spaces * sizeof *m->always : 0) + (m->crossover ? spaces * sizeof *m->crossover : 0) +
           (m->xielu ? layers * sizeof *m->xielu : 0) + m->n_scales * sizeof *m->scales +
           (m->magnitudes ? layers * HEARTH_MAGNITUDES * sizeof *m->magnitudes : 0) +
           (m->pack ? layers * sizeof *m->pack->layers : 0) + hearth_adapters_memory(m->adapters);
}

void hearth_model_close(struct hearth_model **model)
{
    struct hearth_model *m = *model;
    if (!m)
        return;
    hearth_region_close(&m->image);
    hearth_adapters_close(&m->adapters);
    hearth_vocab_close(&m->vocab);
    hearth_pack_close(&m->pack);
    hearth_gguf_close(&m->gguf);
    if (m->shared) {
        hearth_claim_drop(m->shared->claim);
        hearth_lock_close(&m->shared->lock);
    }
    free(m->shared);
    free(m->weights.layers);
    free(m->items);
    free(m->always);
    free(m->crossover);
    free(m->magnitudes);
    free(m->xielu);
    free(m->scales);
    free(m->path);
    free(m->name_text);
    free(m->arch_text);
    free(m->type_text);
    free(m->chat_template);
    free(m);
    *model = NULL;
}

const struct hearth_model_info *hearth_model_info(const struct hearth_model *model)
{
    return &model->info;
}

int64_t hearth_tokenize(const struct hearth_model *model, const char *text, size_t len, int flags,
                        hearth_token *out, size_t cap, struct hearth_error *err)
{
    return hearth_vocab_tokenize(model->vocab, text, len, flags, out, cap, err);
}

size_t hearth_token_bytes(const struct hearth_model *model, hearth_token token, bool special, char *out,
                          size_t cap)
{
    return hearth_vocab_bytes(model->vocab, token, special, out, cap);
}

hearth_token hearth_token_bos(const struct hearth_model *model)
{
    return hearth_vocab_bos(model->vocab);
}

hearth_token hearth_token_eos(const struct hearth_model *model)
{
    return hearth_vocab_eos(model->vocab);
}

hearth_token hearth_token_eot(const struct hearth_model *model)
{
    return hearth_vocab_eot(model->vocab);
}

bool hearth_token_is_eog(const struct hearth_model *model, hearth_token token)
{
    return hearth_vocab_is_eog(model->vocab, token);
}

bool hearth_token_is_suppressed(const struct hearth_model *model, hearth_token token)
{
    return hearth_vocab_is_suppressed(model->vocab, token);
}

struct hearth_stream {
    struct hearth_utf8_stream *utf8;
};

int hearth_stream_open(struct hearth_stream **out, const struct hearth_model *model, bool special,
                       bool mid_text, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_stream *s = hearth_calloc(1, sizeof *s);
    if (!s)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a text stream");
    int rc = hearth_utf8_stream_open(&s->utf8, model->vocab, special, mid_text, err);
    if (rc) {
        free(s);
        return rc;
    }
    *out = s;
    return HEARTH_OK;
}

void hearth_stream_close(struct hearth_stream **stream)
{
    if (!*stream)
        return;
    hearth_utf8_stream_close(&(*stream)->utf8);
    free(*stream);
    *stream = NULL;
}

size_t hearth_stream_push(struct hearth_stream *stream, hearth_token token, const char **text)
{
    return hearth_utf8_stream_push(stream->utf8, token, text);
}

size_t hearth_stream_flush(struct hearth_stream *stream, const char **text)
{
    return hearth_utf8_stream_flush(stream->utf8, text);
}
