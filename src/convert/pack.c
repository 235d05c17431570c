// SPDX-License-Identifier: MIT
// Writes a pack. The source's header and the profile decide first what goes where. Then the file is written
// front to back, some of a layer's bundles at a time (pack_space.c).
#include "convert/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/threads.h"
#include "convert/pack_order.h"
#include "convert/pack_space.h"
#include "convert/profile.h"
#include "gguf/checksums.h"
#include "model/arch.h"
#include "model/ffn.h"
#include "model/fingerprint.h"

#define DEFAULT_MEMORY ((size_t)256 << 20)
#define COPY_BYTES     ((size_t)4 << 20)
#define MIB            (1024.0 * 1024)

enum what { COPY, REORDER, BUNDLES, ORDER, COUNTS, VISITS };

// One tensor of the pack.
struct step {
    enum what what;
    uint32_t layer;
    const struct hearth_gguf_tensor *tensor; // source tensor of COPY and REORDER
};

struct packer {
    const struct hearth_pack_params *params;
    struct hearth_gguf *in;
    struct hearth_gguf_writer *out;
    struct hearth_profile *profile; // or NULL
    struct hearth_gguf *index;      // PowerInfer's, in its place; or NULL
    const struct hearth_arch *arch;
    struct hearth_hparams hp;
    uint32_t n_layer, n_expert, n_ff, n_embd; // n_expert at least 1; n_ff: of the widest layer
    struct hearth_bundle *layers;             // [n_layer]
    uint32_t *down_from;                      // [n_layer]
    bool transposed;                          // some layer's down is transposed
    bool predictors;
    uint32_t *always; // [n_layer * n_expert]
    int32_t *orders;  // [n_layer][n_expert][n_ff] stored -> source, F of each layer; NULL: the identity
    uint32_t *slots;  // [n_ff] the inverse of the order of one space
    int32_t *counts, *visits; // of one layer of the profile
    struct step *steps;
    size_t n_steps;
    struct hearth_pack_scratch scratch;
    uint8_t *buffer;
    size_t buffer_size;
    struct hearth_pack_result result;
    uint64_t done; // bytes written
    struct hearth_error *err;
};

static int no_memory(struct packer *p)
{
    return hearth_fail(p->err, HEARTH_E_MEMORY, "%s: no memory for packing", hearth_gguf_path(p->in));
}

// Neurons of a space of the layer.
static uint32_t ff_of(const struct packer *p, uint32_t layer)
{
    return (uint32_t)hearth_ffn_neurons_of(&p->hp, (int)layer);
}

static int32_t *order_of(const struct packer *p, uint32_t layer, uint32_t expert)
{
    return p->orders + ((size_t)layer * p->n_expert + expert) * p->n_ff;
}

// ---- matrices of the source

// Finds the matrix "ffn_up" etc. of a space, if the source has it.
static int find_matrix(struct packer *p, uint32_t layer, const char *stem, uint32_t expert, uint64_t k,
                       uint64_t n, struct hearth_pack_matrix *m)
{
    char name[96];
    const bool experts = p->hp.n_expert > 0;
    uint64_t joint = experts ? p->n_expert : 1;
    snprintf(name, sizeof name, "blk.%u.%s%s.weight", layer, stem, experts ? "_exps" : "");
    *m = (struct hearth_pack_matrix){.k = k, .n = n};
    m->tensor = hearth_gguf_tensor(p->in, name);
    if (!m->tensor && experts) {
        snprintf(name, sizeof name, "blk.%u.%s.%u.weight", layer, stem, expert);
        m->tensor = hearth_gguf_tensor(p->in, name);
        joint = 1;
    }
    const struct hearth_gguf_tensor *t = m->tensor;
    if (!t)
        return HEARTH_OK;
    if (t->ne[0] != k || t->ne[1] != n || t->ne[2] != joint || t->ne[3] != 1)
        return hearth_fail(
            p->err, HEARTH_E_FORMAT,
            "%s: tensor %s is %llu x %llu x %llu where the hyper-parameters say %llu x %llu x %llu",
            hearth_gguf_path(p->in), name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
            (unsigned long long)t->ne[2], (unsigned long long)k, (unsigned long long)n,
            (unsigned long long)joint);
    if (!hearth_type_info(t->type)->decode)
        return hearth_fail(p->err, HEARTH_E_UNSUPPORTED, "%s: tensor %s has type %s, which is not supported",
                           hearth_gguf_path(p->in), name, hearth_type_info(t->type)->name);
    m->row_bytes = hearth_type_bytes(t->type, k);
    m->offset = joint > 1 ? expert * n * m->row_bytes : 0;
    return HEARTH_OK;
}

struct space {
    struct hearth_pack_matrix gate, up, down; // gate.tensor may be NULL
    bool by_neuron;                           // the rows of down are neurons
};

// What holds gate and up of a layer in one matrix; NULL: each has its own.
static const char *both_stem(const struct packer *p, uint32_t layer)
{
    char name[96];
    snprintf(name, sizeof name, "blk.%u.ffn_gate_up_exps.weight", layer);
    if (hearth_arch_has_field(p->arch, offsetof(struct hearth_layer, ffn_gate_up)))
        return "ffn_up";
    return p->hp.n_expert && hearth_gguf_tensor(p->in, name) ? "ffn_gate_up" : NULL;
}

static int find_gate_and_up(struct packer *p, uint32_t layer, uint32_t expert, struct space *s)
{
    const char *both = both_stem(p, layer);
    const uint32_t n_ff = ff_of(p, layer);
    if (!both) {
        const int rc = find_matrix(p, layer, "ffn_gate", expert, p->n_embd, n_ff, &s->gate);
        return rc ? rc : find_matrix(p, layer, "ffn_up", expert, p->n_embd, n_ff, &s->up);
    }
    const int rc = find_matrix(p, layer, both, expert, p->n_embd, 2 * (uint64_t)n_ff, &s->gate);
    s->gate.n = n_ff;
    s->up = s->gate;
    s->up.offset += n_ff * s->up.row_bytes;
    return rc;
}

static int find_space(struct packer *p, uint32_t layer, uint32_t expert, struct space *s)
{
    struct hearth_pack_matrix plain = {0};
    int rc = find_gate_and_up(p, layer, expert, s);
    if (!rc)
        rc = find_matrix(p, layer, "ffn_down_t", expert, p->n_embd, ff_of(p, layer), &s->down);
    if (!rc)
        rc = find_matrix(p, layer, "ffn_down", expert, ff_of(p, layer), p->n_embd, &plain);
    if (rc)
        return rc;
    s->by_neuron = s->down.tensor != NULL;
    if (s->by_neuron && plain.tensor)
        return hearth_fail(p->err, HEARTH_E_UNSUPPORTED,
                           "%s: layer %u has both ffn_down and the same by neuron (ffn_down_t); one must go",
                           hearth_gguf_path(p->in), layer);
    if (!s->by_neuron)
        s->down = plain;
    if (s->up.tensor && s->down.tensor)
        return HEARTH_OK;
    return hearth_fail(p->err, HEARTH_E_FORMAT, "%s: tensor blk.%u.%s is missing: the file is incomplete",
                       hearth_gguf_path(p->in), layer, s->up.tensor ? "ffn_down.weight" : "ffn_up.weight");
}

// What was asked for. Else plain numbers keep their type. Blocks are along the rows of down and would have to
// be along its columns, so these are quantised again, in the finest format.
static uint32_t down_type(const struct packer *p, const struct space *s)
{
    const uint32_t type = s->down.tensor->type;
    if (s->by_neuron)
        return type;
    if (p->params->down)
        return (uint32_t)hearth_type_by_name(p->params->down);
    if (!hearth_type_info(type)->unit_elems)
        return type;
    return p->n_embd % hearth_type_info(HEARTH_TYPE_Q8_0)->block_elems ? HEARTH_TYPE_F16 : HEARTH_TYPE_Q8_0;
}

// Whether down can be written as it was asked for.
static int check_down(const struct packer *p, const struct space *s, uint32_t layer)
{
    if (!p->params->down)
        return HEARTH_OK;
    const int type = hearth_type_by_name(p->params->down);
    const struct hearth_type_info *info = type >= 0 ? hearth_type_info((uint32_t)type) : NULL;
    if (!info || !info->encode || !info->decode)
        return hearth_fail_param(p->err, HEARTH_E_INVALID, "down",
                                 "there is no number format \"%.40s\" to write", p->params->down);
    if (s->by_neuron)
        return hearth_fail_param(p->err, HEARTH_E_INVALID, "down",
                                 "%s: layer %u has down by neuron (ffn_down_t), which keeps its format",
                                 hearth_gguf_path(p->in), layer);
    if (p->n_embd % info->block_elems)
        return hearth_fail_param(p->err, HEARTH_E_INVALID, "down",
                                 "%s: rows of %u numbers are no whole blocks of %s", hearth_gguf_path(p->in),
                                 (unsigned)p->n_embd, info->name);
    return HEARTH_OK;
}

// All experts of a layer must have one layout.
static int lay_out_layer(struct packer *p, uint32_t layer)
{
    struct space first;
    int rc = find_space(p, layer, 0, &first);
    for (uint32_t e = 1; e < p->n_expert && !rc; e++) {
        struct space s;
        rc = find_space(p, layer, e, &s);
        if (!rc &&
            (!first.gate.tensor != !s.gate.tensor || first.by_neuron != s.by_neuron ||
             (s.gate.tensor && s.gate.tensor->type != first.gate.tensor->type) ||
             s.up.tensor->type != first.up.tensor->type || s.down.tensor->type != first.down.tensor->type))
            rc = hearth_fail(
                p->err, HEARTH_E_UNSUPPORTED,
                "%s: expert %u of layer %u has other number formats than expert 0, which is not supported",
                hearth_gguf_path(p->in), e, layer);
    }
    if (!rc)
        rc = check_down(p, &first, layer);
    if (rc)
        return rc;
    p->down_from[layer] = first.down.tensor->type;
    p->result.down = down_type(p, &first);
    if (!first.by_neuron) {
        p->transposed = true;
        p->result.n_transposed++;
        p->result.n_requantised += first.down.tensor->type != p->result.down ||
                                   hearth_type_info(first.down.tensor->type)->unit_elems;
    }
    const bool apart = p->params->gates_apart;
    if (apart && (p->hp.n_expert || !first.gate.tensor || both_stem(p, layer)))
        return hearth_fail(
            p->err, HEARTH_E_UNSUPPORTED,
            "%s: the model has %s, so its gates cannot be apart: pack it without --gates-apart",
            hearth_gguf_path(p->in),
            p->hp.n_expert      ? "experts"
            : first.gate.tensor ? "gate and up in one matrix"
                                : "no gates");
    rc = hearth_bundle_lay_out(&p->layers[layer], p->n_embd,
                               first.gate.tensor && !apart ? first.gate.tensor->type : HEARTH_TYPE_END,
                               first.up.tensor->type, down_type(p, &first), p->err);
    p->layers[layer].n = ff_of(p, layer);
    return rc;
}

static int lay_out(struct packer *p)
{
    p->layers = hearth_calloc(p->n_layer, sizeof *p->layers);
    p->down_from = hearth_calloc(p->n_layer, sizeof *p->down_from);
    p->slots = hearth_calloc(p->n_ff, sizeof *p->slots);
    if (!p->layers || !p->down_from || !p->slots)
        return no_memory(p);
    int rc = HEARTH_OK;
    for (uint32_t i = 0; i < p->n_layer && !rc; i++)
        rc = lay_out_layer(p, i);
    for (uint32_t i = 1; i < p->n_layer && !rc; i++)
        if (!p->layers[i].bytes[HEARTH_PART_GATE] != !p->layers[0].bytes[HEARTH_PART_GATE])
            rc = hearth_fail(p->err, HEARTH_E_UNSUPPORTED, "%s: some layers have a gate and others have none",
                             hearth_gguf_path(p->in));
    return rc;
}

// ---- the order

static int order_layer(struct packer *p, uint32_t layer, uint64_t *keys)
{
    const uint32_t n_ff = ff_of(p, layer);
    const int rc = hearth_profile_read(p->profile, layer, p->counts, p->visits, p->err);
    for (uint32_t e = 0; e < p->n_expert && !rc; e++)
        p->always[(size_t)layer * p->n_expert + e] = hearth_pack_by_counts(
            p->counts + (size_t)e * n_ff, p->visits[e], n_ff, keys, order_of(p, layer, e));
    return rc;
}

// A profile of another model of the same shape would order neurons by nothing.
static int check_profile_of_model(struct packer *p)
{
    const struct hearth_gguf *profile = p->profile->g;
    struct hearth_str name = {"another model", 13};
    uint32_t wanted = 0, norms = 0;
    if (!hearth_gguf_find(profile, "hearth.profile.source.norms_crc32c"))
        return HEARTH_OK; // of an older version
    int rc = hearth_gguf_u32(profile, "hearth.profile.source.norms_crc32c", true, &wanted, p->err);
    if (!rc)
        rc = hearth_gguf_str(profile, "hearth.profile.source.name", false, &name, p->err);
    if (!rc)
        rc = hearth_norms_fingerprint(p->in, &norms, p->err);
    if (rc || norms == wanted)
        return rc;
    return hearth_fail(p->err, HEARTH_E_INVALID,
                       "%s: the profile is of another model, %.*s, not of %s: make one of this model",
                       hearth_gguf_path(profile), (int)(name.n > 200 ? 200 : name.n), name.s,
                       hearth_gguf_path(p->in));
}

static int order_by_index(struct packer *p)
{
    if (p->n_expert > 1)
        return hearth_fail(p->err, HEARTH_E_INVALID,
                           "%s: such an index is of a model without experts, %s has some",
                           hearth_gguf_path(p->index), hearth_gguf_path(p->in));
    p->orders = hearth_calloc(p->n_layer, p->n_ff * sizeof *p->orders);
    p->always = hearth_calloc(p->n_layer, sizeof *p->always); // nothing says how often they are active
    int rc = p->orders && p->always ? HEARTH_OK : no_memory(p);
    for (uint32_t i = 0; i < p->n_layer && !rc; i++)
        rc = hearth_gpu_index_order(p->index, i, ff_of(p, i), order_of(p, i, 0), p->err);
    return rc;
}

static int order_all(struct packer *p)
{
    const struct hearth_profile *profile = p->profile;
    if (p->index)
        return order_by_index(p);
    if (!profile)
        return HEARTH_OK;
    bool fits = profile->n_layer == p->n_layer && profile->n_expert == p->n_expert;
    for (uint32_t i = 0; i < p->n_layer && fits; i++)
        fits = hearth_profile_neurons(profile, i) == ff_of(p, i);
    if (!fits)
        return hearth_fail(
            p->err, HEARTH_E_INVALID,
            "%s: the profile is of a model with %u layers, %u experts and %u neurons, %s has %u, %u and "
            "%u: make one of this model",
            hearth_gguf_path(profile->g), profile->n_layer, profile->n_expert, profile->n_ff,
            hearth_gguf_path(p->in), p->n_layer, p->n_expert, p->n_ff);
    const size_t n_spaces = (size_t)p->n_layer * p->n_expert, batches = profile->n_batches;
    uint64_t *keys = hearth_calloc(p->n_ff, sizeof *keys);
    p->orders = hearth_calloc(n_spaces, p->n_ff * sizeof *p->orders);
    p->always = hearth_calloc(n_spaces, sizeof *p->always);
    p->counts = hearth_calloc(batches * p->n_expert, p->n_ff * sizeof *p->counts);
    p->visits = hearth_calloc(batches, p->n_expert * sizeof *p->visits);
    int rc =
        keys && p->orders && p->always && p->counts && p->visits ? check_profile_of_model(p) : no_memory(p);
    for (uint32_t i = 0; i < p->n_layer && !rc; i++)
        rc = order_layer(p, i, keys);
    free(keys);
    return rc;
}

// The inverse of the space's order; NULL: the identity.
static const uint32_t *slots_of(struct packer *p, uint32_t layer, uint32_t expert)
{
    if (!p->orders)
        return NULL;
    const int32_t *order = order_of(p, layer, expert);
    for (uint32_t i = 0; i < ff_of(p, layer); i++)
        p->slots[order[i]] = i;
    return p->slots;
}

// ---- tensors of the pack

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

// Splits "blk.7.ffn_up.weight" into 7 and *rest, "ffn_up.weight". -1: the tensor belongs to no layer.
static long layer_of(const char *name, const char **rest)
{
    if (strncmp(name, "blk.", 4) != 0)
        return -1;
    char *end;
    const long layer = strtol(name + 4, &end, 10);
    *rest = end + 1;
    return end > name + 4 && *end == '.' && layer >= 0 ? layer : -1;
}

// Whether this tensor of a layer becomes part of the bundles.
static bool in_bundles(const struct packer *p, const char *rest)
{
    static const char *const stems[] = {"ffn_gate", "ffn_up", "ffn_gate_up", "ffn_down", "ffn_down_t"};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        const size_t n = strlen(stems[i]);
        if (strncmp(rest, stems[i], n) != 0)
            continue;
        const char *tail = rest + n;
        if (i == 0 && p->params->gates_apart)
            continue;
        if (p->hp.n_expert == 0 ? is(tail, ".weight") : is(tail, "_exps.weight"))
            return true;
        if (p->hp.n_expert > 0 && tail[0] == '.' && is(tail + 1 + strspn(tail + 1, "0123456789"), ".weight"))
            return true;
    }
    return false;
}

static bool is_predictor(const char *rest)
{
    return is(rest, "fc2.weight") || is(rest, "fc2_exps.weight");
}

static bool is_by_neuron(const struct packer *p, const char *rest)
{
    // Of packs with gates apart, these reach here, too; beside experts they are another part's.
    return is_predictor(rest) || is(rest, "ffn_gate.bias") || is(rest, "ffn_up.bias") ||
           (!p->hp.n_expert && is(rest, "ffn_gate.weight"));
}

static void add_step(struct packer *p, enum what what, uint32_t layer, const struct hearth_gguf_tensor *t)
{
    p->steps[p->n_steps++] = (struct step){what, layer, t};
}

static int list_steps(struct packer *p)
{
    const uint64_t n = hearth_gguf_n_tensors(p->in);
    bool *seen = hearth_calloc(p->n_layer, sizeof *seen);
    p->steps = hearth_calloc((size_t)n + 4 * (size_t)p->n_layer, sizeof *p->steps);
    if (!seen || !p->steps) {
        free(seen);
        return no_memory(p);
    }
    for (uint64_t i = 0; i < n; i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(p->in, i);
        const char *rest = "";
        const long layer = layer_of(t->name.s, &rest);
        const bool ours = layer >= 0 && layer < (long)p->n_layer;
        if (is(t->name.s, HEARTH_CHECKSUMS_NAME))
            continue;
        p->result.bytes_in += t->bytes;
        p->predictors |= ours && is_predictor(rest);
        if (!ours || !in_bundles(p, rest)) {
            add_step(p, ours && p->orders && is_by_neuron(p, rest) ? REORDER : COPY,
                     ours ? (uint32_t)layer : 0, t);
            continue;
        }
        if (seen[layer])
            continue;
        seen[layer] = true;
        add_step(p, BUNDLES, (uint32_t)layer, NULL);
        if (p->orders)
            add_step(p, ORDER, (uint32_t)layer, NULL);
        if (p->profile) {
            add_step(p, COUNTS, (uint32_t)layer, NULL);
            add_step(p, VISITS, (uint32_t)layer, NULL);
        }
    }
    free(seen);
    return HEARTH_OK;
}

// ---- the header

// Keys of the source that describe its layout, or that are written anew.
static bool is_left_out(const struct packer *p, struct hearth_str key)
{
    char activation[128];
    snprintf(activation, sizeof activation, "%s.feed_forward.activation", p->arch->name);
    return hearth_gguf_is_layout_key(key) || hearth_str_begins(key, "hearth.pack.") ||
           is(key.s, "hearth.sparse_threshold") || is(key.s, "powerinfer.sparse_threshold") ||
           is(key.s, activation);
}

// In PowerInfer's files the activation follows from the first four bytes, which a pack does not
// keep. So a pack always names it.
static int put_activation(struct packer *p)
{
    char key[128];
    const char *name = hearth_activation_name(p->hp.activation);
    snprintf(key, sizeof key, "%s.feed_forward.activation", p->arch->name);
    return hearth_gguf_put_str(p->out, key, name, strlen(name), p->err);
}

// Records the source, so that a change of it can be noticed.
static int put_source(struct packer *p)
{
    const char *name = hearth_path_name(hearth_gguf_path(p->in));
    const uint64_t bytes = hearth_gguf_file_bytes(p->in);
    uint32_t crc = 0;
    int rc = hearth_gguf_header_crc(p->in, &crc, p->err);
    if (!rc)
        rc = hearth_gguf_put_str(p->out, "hearth.pack.source.name", name, strlen(name), p->err);
    if (!rc)
        rc = hearth_gguf_put_u64(p->out, "hearth.pack.source.bytes", bytes, p->err);
    if (!rc)
        rc = hearth_gguf_put_u32(p->out, "hearth.pack.source.crc32c", crc, p->err);
    const struct hearth_pack_source *source = p->params->source;
    if (!rc && source)
        rc = hearth_gguf_put_u64(p->out, "hearth.pack.source.fingerprint", source->fingerprint, p->err);
    return rc;
}

static int put_profile(struct packer *p)
{
    if (!p->profile)
        return HEARTH_OK;
    int rc = hearth_gguf_put_array(p->out, "hearth.pack.batches", HEARTH_GGUF_U32, p->profile->batches,
                                   p->profile->n_batches, p->err);
    if (!rc)
        rc = hearth_gguf_put_u64(p->out, "hearth.pack.profile_tokens", p->profile->tokens, p->err);
    if (!rc && p->profile->repeats > 0)
        rc = hearth_gguf_put_f32(p->out, "hearth.pack.repeats", p->profile->repeats, p->err);
    const struct hearth_gguf_kv *sizes = p->profile->magnitudes;
    if (rc || !sizes)
        return rc;
    float *values = hearth_calloc((size_t)sizes->count, sizeof *values);
    if (!values)
        return hearth_fail(p->err, HEARTH_E_MEMORY, "no memory for a pack's header");
    for (uint64_t i = 0; i < sizes->count; i++)
        values[i] = (float)hearth_gguf_kv_f64(sizes, i);
    rc = hearth_gguf_put_array(p->out, "hearth.pack.magnitudes", HEARTH_GGUF_F32, values, sizes->count,
                               p->err);
    free(values);
    return rc;
}

static int put_metadata(struct packer *p)
{
    static const char *const inputs[] = {[HEARTH_PREDICTOR_NORMED] = "normed",
                                         [HEARTH_PREDICTOR_STREAM] = "stream",
                                         [HEARTH_PREDICTOR_LAYER] = "layer",
                                         [HEARTH_PREDICTOR_PREVIOUS] = "previous"};
    const struct hearth_pack_facts facts = {
        .n_layer = p->n_layer,
        .n_expert = p->n_expert,
        .layers = p->layers,
        .gates_apart = p->params->gates_apart,
        .down_from = p->transposed ? p->down_from : NULL,
        .always = p->always,
        .predictor_input = p->predictors ? inputs[p->hp.predictor_input] : NULL,
        .sparse_threshold = p->hp.predict_threshold,
    };
    int rc = HEARTH_OK;
    for (uint64_t i = 0; i < hearth_gguf_n_kv(p->in) && !rc; i++) {
        const struct hearth_gguf_kv *kv = hearth_gguf_kv_at(p->in, i);
        if (!is_left_out(p, kv->key))
            rc = hearth_gguf_put_kv(p->out, kv, p->err);
    }
    if (!rc)
        rc = put_activation(p);
    if (!rc)
        rc = hearth_pack_put_keys(p->out, &facts, p->err);
    if (!rc)
        rc = put_source(p);
    return rc ? rc : put_profile(p);
}

static int declare(struct packer *p, const struct step *s)
{
    char name[64];
    const uint64_t f = ff_of(p, s->layer), x = p->n_expert, b = p->profile ? p->profile->n_batches : 0;
    switch (s->what) {
    case COPY:
    case REORDER:
        return hearth_gguf_put_tensor(p->out, s->tensor->name.s, s->tensor->type, s->tensor->n_dims,
                                      s->tensor->ne, p->err);
    case BUNDLES:
        return hearth_pack_put_bundles(p->out, s->layer, &p->layers[s->layer], p->n_expert, p->err);
    case ORDER:
        snprintf(name, sizeof name, "blk.%u.ffn_order", s->layer);
        return hearth_gguf_put_tensor(p->out, name, HEARTH_TYPE_I32, 2, (uint64_t[]){f, x}, p->err);
    case COUNTS:
        snprintf(name, sizeof name, "blk.%u.ffn_counts", s->layer);
        return hearth_gguf_put_tensor(p->out, name, HEARTH_TYPE_I32, 3, (uint64_t[]){f, x, b}, p->err);
    case VISITS:
        break;
    }
    snprintf(name, sizeof name, "blk.%u.ffn_visits", s->layer);
    return hearth_gguf_put_tensor(p->out, name, HEARTH_TYPE_I32, 2, (uint64_t[]){x, b}, p->err);
}

// ---- the data

static int put(struct packer *p, const void *bytes, size_t n)
{
    int rc = hearth_gguf_write(p->out, bytes, n, p->err);
    p->done += n;
    const struct hearth_pack_params *params = p->params;
    const float share = (float)((double)p->done / (double)p->result.bytes_out);
    if (!rc && params->progress && !params->progress(params->progress_arg, share < 1 ? share : 1))
        rc = hearth_fail(p->err, HEARTH_E_INTERRUPTED, "stopped on request");
    return rc;
}

// Allocates a buffer of whole pieces for as much of `total` as may be worked on at a time.
static int take_buffer(struct packer *p, size_t piece, uint64_t total)
{
    size_t size = p->params->memory ? p->params->memory : DEFAULT_MEMORY;
    size = size < piece ? piece : size / piece * piece;
    size = size < total ? size : (size_t)total;
    if (size > p->buffer_size) {
        free(p->buffer);
        p->buffer = malloc(size);
        p->buffer_size = p->buffer ? size : 0;
    }
    return p->buffer ? HEARTH_OK : no_memory(p);
}

static int fill_stretch(struct packer *p, const struct space *s, const struct hearth_bundle *b,
                        const struct hearth_pack_stretch *to)
{
    int rc = b->bytes[HEARTH_PART_GATE]
                 ? hearth_pack_gather(&p->scratch, &s->gate, to, b->at[HEARTH_PART_GATE], p->err)
                 : HEARTH_OK;
    if (!rc)
        rc = hearth_pack_gather(&p->scratch, &s->up, to, b->at[HEARTH_PART_UP], p->err);
    if (rc)
        return rc;
    if (s->by_neuron)
        return hearth_pack_gather(&p->scratch, &s->down, to, b->at[HEARTH_PART_DOWN], p->err);
    return hearth_pack_transpose(&p->scratch, &s->down, b->type[HEARTH_PART_DOWN], to,
                                 b->at[HEARTH_PART_DOWN], p->err);
}

static int write_bundles(struct packer *p, uint32_t layer)
{
    const struct hearth_bundle *b = &p->layers[layer];
    int rc = take_buffer(p, b->stride, (uint64_t)b->stride * b->n);
    if (!rc) // gaps between bundles
        memset(p->buffer, 0, p->buffer_size);
    for (uint32_t e = 0; e < p->n_expert && !rc; e++) {
        struct space s;
        struct hearth_pack_stretch to = {p->buffer, b->stride, 0, 0, slots_of(p, layer, e)};
        rc = find_space(p, layer, e, &s);
        for (; to.first < b->n && !rc; to.first += to.n) {
            const size_t fit = p->buffer_size / b->stride, left = b->n - to.first;
            to.n = (uint32_t)(fit < left ? fit : left);
            rc = fill_stretch(p, &s, b, &to);
            if (!rc)
                rc = put(p, p->buffer, to.n * b->stride);
        }
    }
    return rc;
}

static int copy(struct packer *p, const struct hearth_gguf_tensor *t)
{
    int rc = take_buffer(p, 1, t->bytes < COPY_BYTES ? t->bytes : COPY_BYTES);
    for (uint64_t at = 0; at < t->bytes && !rc;) {
        const size_t n = t->bytes - at < p->buffer_size ? (size_t)(t->bytes - at) : p->buffer_size;
        rc = hearth_gguf_read(p->in, t, p->buffer, at, n, p->err);
        if (!rc)
            rc = put(p, p->buffer, n);
        at += n;
    }
    return rc;
}

// Writes a tensor with a row, or a number, per neuron in stored order.
static int reorder(struct packer *p, const struct step *step)
{
    const struct hearth_gguf_tensor *t = step->tensor;
    const uint32_t n_ff = ff_of(p, step->layer);
    const bool vector = t->ne[0] == n_ff && t->ne[1] == 1;
    struct hearth_pack_matrix m = {t, 0, 0, vector ? 1 : t->ne[0], n_ff};
    m.row_bytes = hearth_type_bytes(t->type, m.k);
    if (!m.row_bytes || t->bytes != m.row_bytes * n_ff * (vector ? 1 : p->n_expert) ||
        (!vector && t->ne[1] != n_ff))
        return hearth_fail(p->err, HEARTH_E_FORMAT, "%s: tensor %s does not have a row for each neuron",
                           hearth_gguf_path(p->in), t->name.s);
    int rc = take_buffer(p, m.row_bytes, (uint64_t)m.row_bytes * n_ff);
    for (uint32_t e = 0; e < (vector ? 1 : p->n_expert) && !rc; e++) {
        struct hearth_pack_stretch to = {p->buffer, m.row_bytes, 0, 0, slots_of(p, step->layer, e)};
        m.offset = (uint64_t)e * n_ff * m.row_bytes;
        for (; to.first < n_ff && !rc; to.first += to.n) {
            const size_t fit = p->buffer_size / m.row_bytes, left = n_ff - to.first;
            to.n = (uint32_t)(fit < left ? fit : left);
            rc = hearth_pack_gather(&p->scratch, &m, &to, 0, p->err);
            if (!rc)
                rc = put(p, p->buffer, to.n * m.row_bytes);
        }
    }
    return rc;
}

// Writes the counts in stored order.
static int write_counts(struct packer *p, uint32_t layer)
{
    const uint32_t n_ff = ff_of(p, layer);
    int rc = hearth_profile_read(p->profile, layer, p->counts, p->visits, p->err);
    if (!rc)
        rc = take_buffer(p, n_ff * sizeof *p->counts, (uint64_t)n_ff * sizeof *p->counts);
    for (uint32_t batch = 0; batch < p->profile->n_batches; batch++)
        for (uint32_t e = 0; e < p->n_expert && !rc; e++) {
            const int32_t *order = order_of(p, layer, e);
            const int32_t *counts = p->counts + ((size_t)batch * p->n_expert + e) * n_ff;
            for (uint32_t i = 0; i < n_ff; i++)
                memcpy(p->buffer + i * sizeof *counts, &counts[order[i]], sizeof *counts);
            rc = put(p, p->buffer, n_ff * sizeof *counts);
        }
    return rc;
}

static int write_order(struct packer *p, uint32_t layer)
{
    int rc = HEARTH_OK;
    for (uint32_t e = 0; e < p->n_expert && !rc; e++)
        rc = put(p, order_of(p, layer, e), ff_of(p, layer) * sizeof *p->orders);
    return rc;
}

static int write_step(struct packer *p, const struct step *s)
{
    int rc;
    switch (s->what) {
    case COPY:
        return copy(p, s->tensor);
    case REORDER:
        return reorder(p, s);
    case BUNDLES:
        return write_bundles(p, s->layer);
    case ORDER:
        return write_order(p, s->layer);
    case COUNTS:
        return write_counts(p, s->layer);
    case VISITS:
        break;
    }
    rc = hearth_profile_read(p->profile, s->layer, p->counts, p->visits, p->err);
    return rc ? rc : put(p, p->visits, (size_t)p->profile->n_batches * p->n_expert * sizeof *p->visits);
}

// ---- entry

// Whether the architecture has a tensor of this name in a layer.
static bool is_known(const struct packer *p, const char *name)
{
    for (const struct hearth_binding *b = p->arch->layer; b->name; b++)
        if (!strcmp(b->name, name))
            return true;
    return false;
}

// The scale of a matrix (NVFP4) that would go into bundles; NULL: there is none.
static const struct hearth_gguf_tensor *scaled_matrix(const struct packer *p)
{
    static const char *const ends[] = {".ffn_gate.scale",      ".ffn_up.scale",      ".ffn_down.scale",
                                       ".ffn_gate_exps.scale", ".ffn_up_exps.scale", ".ffn_down_exps.scale"};
    for (uint64_t i = 0; i < hearth_gguf_n_tensors(p->in); i++) {
        const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(p->in, i);
        const char *dot = strstr(t->name.s, ".ffn_");
        for (size_t k = 0; dot && k < sizeof ends / sizeof ends[0]; k++)
            if (!strcmp(dot, ends[k]) && !is_known(p, dot + 1))
                return t;
    }
    return NULL;
}

// What bundles cannot hold is refused by name.
static int check_kind(const struct packer *p)
{
    const char *const in = hearth_gguf_path(p->in);
    if (hearth_arch_has_need(p->arch, HEARTH_EACH_VECTOR))
        return hearth_fail(p->err, HEARTH_E_UNSUPPORTED,
                           "%s: packs of models whose experts have biases are not supported; --ram streams "
                           "their experts without a pack",
                           in);
    if (p->hp.n_dense || p->hp.expert_step > 1)
        return hearth_fail(p->err, HEARTH_E_UNSUPPORTED,
                           "%s: packs of models whose first layers have no experts are not supported; --ram "
                           "streams the experts of the others without a pack",
                           in);
    if (!hearth_arch_packs(p->arch))
        return hearth_fail(
            p->err, HEARTH_E_UNSUPPORTED,
            "%s: packs of architecture %s are not supported; --ram streams such models without "
            "a pack",
            in, p->arch->name);
    const struct hearth_gguf_tensor *scale = scaled_matrix(p);
    return scale ? hearth_fail(
                       p->err, HEARTH_E_UNSUPPORTED,
                       "%s: packs of matrices with scales beside them (%s) are not supported; take a file "
                       "of the model in another format, or run it without a pack",
                       in, scale->name.s)
                 : HEARTH_OK;
}

static int open_source(struct packer *p, const char *in)
{
    struct hearth_str name = {"", 0};
    int rc = hearth_gguf_open(&p->in, in, p->err);
    if (!rc && hearth_gguf_is_pack(p->in))
        rc = hearth_fail(p->err, HEARTH_E_INVALID,
                         "%s: this is a pack already; pack the model that it was made of", in);
    if (!rc)
        rc = hearth_gguf_str(p->in, "general.architecture", true, &name, p->err);
    if (rc)
        return rc;
    p->arch = hearth_arch_find(name);
    char known[HEARTH_ARCH_NAMES];
    hearth_arch_names(known, sizeof known);
    if (!p->arch)
        return hearth_fail(
            p->err, HEARTH_E_UNSUPPORTED,
            "%s: architecture \"%.*s\" is not supported; supported are %s (docs/architectures.md)", in,
            (int)(name.n > 60 ? 60 : name.n), name.s, known);
    rc = hearth_hparams_read(&p->hp, p->arch, p->in, p->err);
    if (!rc)
        rc = check_kind(p);
    p->n_layer = (uint32_t)p->hp.n_layer;
    p->n_embd = (uint32_t)p->hp.n_embd;
    p->n_expert = p->hp.n_expert ? (uint32_t)p->hp.n_expert : 1;
    p->n_ff = (uint32_t)hearth_ffn_neurons(&p->hp);
    return rc;
}

static int decide(struct packer *p)
{
    const char *profile = p->params->profile;
    int rc = profile ? hearth_gpu_index_open(&p->index, profile, p->n_layer, p->err) : HEARTH_OK;
    if (!rc && profile && !p->index)
        rc = hearth_profile_open(&p->profile, profile, p->err);
    if (!rc)
        rc = lay_out(p);
    if (!rc)
        rc = order_all(p);
    return rc ? rc : list_steps(p);
}

static bool has_gates(const struct packer *p)
{
    return p->hp.n_expert || hearth_arch_has_field(p->arch, offsetof(struct hearth_layer, ffn_gate)) ||
           hearth_arch_has_field(p->arch, offsetof(struct hearth_layer, ffn_gate_up));
}

static void sum_up(struct packer *p)
{
    struct hearth_pack_result *r = &p->result;
    r->n_spaces = (uint64_t)p->n_layer * p->n_expert;
    for (uint32_t i = 0; i < p->n_layer; i++)
        r->n_neurons += (uint64_t)p->n_expert * ff_of(p, i);
    r->ordered = p->orders != NULL;
    r->indexed = p->index != NULL;
    const bool may_have_shares = has_gates(p) && !hearth_is_relu(&p->hp);
    const bool knows_magnitudes = p->profile && p->profile->magnitudes;
    r->no_shares = may_have_shares && !knows_magnitudes;
    r->shares = may_have_shares && knows_magnitudes && !p->predictors;
    for (size_t i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        const uint64_t f = ff_of(p, s->layer);
        const uint64_t batches = p->profile ? p->profile->n_batches : 0;
        r->bytes_out += s->tensor            ? s->tensor->bytes
                        : s->what == BUNDLES ? p->layers[s->layer].stride * f * p->n_expert
                        : s->what == ORDER   ? 4 * f * p->n_expert
                        : s->what == COUNTS  ? 4 * f * p->n_expert * batches
                                             : 4 * p->n_expert * batches;
    }
}

double hearth_pack_share_named(const struct hearth_gguf *g)
{
    const struct hearth_gguf_kv *kv = hearth_gguf_find(g, "hearth.predictors.chosen");
    double sum = 0;
    if (!kv || kv->type != HEARTH_GGUF_ARRAY || kv->element != HEARTH_GGUF_F32 || !kv->count)
        return 0;
    for (uint64_t i = 0; i < kv->count; i++)
        sum += hearth_gguf_kv_f64(kv, i);
    return sum / (double)kv->count;
}

static bool can_part_gates(const struct packer *p)
{
    return hearth_is_relu(&p->hp) && !p->hp.n_expert &&
           hearth_arch_has_field(p->arch, offsetof(struct hearth_layer, ffn_gate)) &&
           !hearth_arch_has_field(p->arch, offsetof(struct hearth_layer, ffn_gate_up));
}

static uint64_t bundle_bytes(const struct packer *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_layer; i++)
        bytes += (uint64_t)p->layers[i].stride * ff_of(p, i) * p->n_expert;
    return bytes;
}

// Predictors name nearly all neurons: their bundles, some of which are larger than what they were made of, are
// against the model's whole matrices.
static void warn_of_loss(const struct packer *p, const char *in, double named)
{
    const struct hearth_pack_result *r = &p->result;
    const double bundles = (double)bundle_bytes(p),
                 own = (double)r->bytes_in - ((double)r->bytes_out - bundles),
                 more = own > 0 ? 100 * (named * bundles / own - 1) : 0;
    hearth_log(
        HEARTH_LOG_WARNING,
        "%s: its predictors name %.0f %% of the neurons for a token: where memory is too small, the pack "
        "reads %.0f %% %s of the feed-forward parts than the model itself, in small pieces, and %s slower",
        in, 100 * named, more < 0 ? -more : more, more < 0 ? "less" : "more", more < 0 ? "may be" : "is");
}

// A pack without predictors is for models in memory: before it is written is the time to say so.
static void warn_of_streaming(const struct packer *p, const char *in)
{
    const double named = p->predictors ? hearth_pack_share_named(p->in) : 0;
    if (named > HEARTH_NEARLY_ALL)
        warn_of_loss(p, in, named);
    if (p->predictors || (p->params->gates_apart && hearth_is_relu(&p->hp)))
        return;
    if (p->params->gates_apart)
        hearth_log(HEARTH_LOG_WARNING,
                   "%s: gates say which neurons to read in models of the ReLU family; of this one, the pack "
                   "streams whole layers unless it runs with --sparsity-threshold",
                   in);
    else
        hearth_log(
            HEARTH_LOG_WARNING,
            "%s has no predictors, so nothing says which neurons to read: where memory is too small, the pack "
            "streams whole layers, and %s is faster; %shearth train-predictors makes some",
            in, p->n_expert > 1 ? "the model itself, expert by expert," : "the model itself",
            can_part_gates(p) ? "--gates-apart lets the gates say it, exactly and without training; " : "");
}

// Before anything is written. The header is about as long as the source's; tensors begin at pages.
static int check_room(const struct packer *p, const char *out)
{
    const uint64_t files = hearth_gguf_file_bytes(p->in), tensors = p->result.bytes_in;
    const uint64_t header = files > tensors ? files - tensors : 0;
    const uint64_t needed = header + p->result.bytes_out + p->n_steps * HEARTH_PACK_ALIGNMENT;
    const uint64_t room = hearth_disk_free(out);
    if (needed <= room)
        return HEARTH_OK;
    return hearth_fail(p->err, HEARTH_E_IO,
                       "%s: No space left on the disk: the pack takes %.1f MiB, and there is room for %.1f",
                       out, (double)needed / MIB, (double)room / MIB);
}

static int write_header(struct packer *p, const char *out)
{
    int rc = hearth_gguf_writer_open(&p->out, out, p->err);
    if (!rc)
        rc = put_metadata(p);
    for (size_t i = 0; i < p->n_steps && !rc; i++)
        rc = declare(p, &p->steps[i]);
    return rc ? rc : hearth_gguf_put_checksums(p->out, p->err);
}

static int write_hollow(struct packer *p, const char *out)
{
    const int rc = write_header(p, out);
    return rc ? rc : hearth_gguf_finish_hollow(&p->out, p->err);
}

static int write_all(struct packer *p, const char *out)
{
    const int n_threads = hearth_pool_threads(p->params->n_threads);
    int rc = check_room(p, out);
    if (!rc)
        rc = hearth_pool_open(&p->scratch.pool, n_threads, p->err);
    if (!rc)
        rc = write_header(p, out);
    for (size_t i = 0; i < p->n_steps && !rc; i++)
        rc = write_step(p, &p->steps[i]);
    return rc ? rc : hearth_gguf_finish(&p->out, p->err);
}

// Opens the source, and decides what goes where.
static int begin(struct packer *p, const char *in)
{
    int rc = open_source(p, in);
    if (!rc)
        rc = decide(p);
    if (!rc)
        sum_up(p);
    return rc;
}

static void end(struct packer *p)
{
    hearth_gguf_writer_close(&p->out);
    hearth_pool_close(&p->scratch.pool);
    hearth_pack_scratch_free(&p->scratch);
    hearth_profile_close(&p->profile);
    hearth_gguf_close(&p->index);
    hearth_gguf_close(&p->in);
    free(p->layers);
    free(p->down_from);
    free(p->slots);
    free(p->always);
    free(p->orders);
    free(p->counts);
    free(p->visits);
    free(p->steps);
    free(p->buffer);
}

int hearth_pack_write(const char *in, const char *out, const struct hearth_pack_params *params,
                      struct hearth_pack_result *result, struct hearth_error *err)
{
    struct packer p = {.params = params, .err = err};
    int rc = begin(&p, in);
    if (!rc) {
        p.scratch.g = p.in;
        if (!params->hollow)
            warn_of_streaming(&p, in);
        rc = (params->hollow ? write_hollow : write_all)(&p, out);
    }
    if (!rc && result)
        *result = p.result;
    end(&p);
    return rc;
}
