// SPDX-License-Identifier: MIT
// Scales of whole matrices: see scales.h.
#include "model/scales.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/ffn.h"
#include "model/load.h"

#define LONGEST 96 // name of a matrix

// Matrices of a layer that may have scales: all of their products are the engine's own (engine/matmul.h).
static const char *const stems[] = {
    "attn_q",      "attn_k",        "attn_v",       "attn_output",    "attn_qkv",
    "attn_gate",   "ffn_gate",      "ffn_up",       "ffn_down",       "ffn_gate_exps",
    "ffn_up_exps", "ffn_down_exps", "ffn_up_shexp", "ffn_gate_shexp", "ffn_down_shexp",
    "ssm_in",      "ssm_out",       "ssm_alpha",    "ssm_beta",
};

// What a name says.
struct scale {
    char matrix[LONGEST];
    int layer;  // by its number in the file; -1: of none
    bool nextn; // what joins the token and the state before it, which is a layer's by name (model/nextn.h)
    bool of_inputs;
};

static bool is_stem(const char *s, size_t n)
{
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++)
        if (strlen(stems[i]) == n && !memcmp(stems[i], s, n))
            return true;
    return false;
}

static bool parse(struct scale *s, const char *name)
{
    const char *dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".scale") && strcmp(dot, ".input_scale")))
        return false;
    const size_t n = (size_t)(dot - name);
    s->of_inputs = dot[1] == 'i';
    s->layer = -1;
    s->nextn = false;
    if (n + sizeof ".weight" > sizeof s->matrix)
        return false;
    snprintf(s->matrix, sizeof s->matrix, "%.*s.weight", (int)n, name);
    if (n == 6 && !memcmp(name, "output", n))
        return true;
    int end = 0;
    if (sscanf(name, "blk.%4d.%n", &s->layer, &end) != 1 || !end || s->layer < 0)
        return false;
    s->nextn =
        n == (size_t)end + strlen("nextn.eh_proj") && !memcmp(name + end, "nextn.eh_proj", n - (size_t)end);
    return s->nextn || ((size_t)end < n && is_stem(name + end, n - (size_t)end));
}

// The weights among which the matrix is; NULL: the model has no such layer.
static struct hearth_weight *weights_of(struct hearth_model *m, const struct scale *s, size_t *n)
{
    const int layer = s->layer - m->first_layer;
    *n = HEARTH_GLOBAL_WEIGHTS;
    if (s->layer < 0 || (s->nextn && !layer))
        return hearth_global_weights(&m->weights);
    *n = HEARTH_LAYER_WEIGHTS;
    return layer >= 0 && layer < m->hp.n_layer ? hearth_layer_weights(&m->weights.layers[layer]) : NULL;
}

// Whether the weight is the tensor, or rows of it.
static bool is_of(const struct hearth_model *m, const struct hearth_weight *w,
                  const struct hearth_gguf_tensor *t)
{
    return hearth_has(w) && m->items[w->item].tensor == t && !m->items[w->item].bundle;
}

// The matrix that the scales belong to; NULL: there is none. With `scales`, its weights point to them.
static const struct hearth_gguf_tensor *matrix_of(struct hearth_model *m, const struct scale *s,
                                                  const float *scales)
{
    size_t n;
    struct hearth_weight *w = weights_of(m, s, &n);
    const struct hearth_gguf_tensor *t = w ? hearth_gguf_tensor(m->gguf, s->matrix) : NULL, *found = NULL;
    for (size_t i = 0; t && t->ne[1] * t->ne[2] > 1 && i < n; i++)
        if (is_of(m, &w[i], t)) {
            found = t;
            w[i].scales = scales ? scales : w[i].scales;
        }
    return found;
}

bool hearth_is_scale(struct hearth_model *m, const char *name)
{
    struct scale s;
    return parse(&s, name) && matrix_of(m, &s, NULL);
}

// Numbers that the matrix needs.
static size_t count_of(const struct hearth_model *m, const struct scale *s,
                       const struct hearth_gguf_tensor *matrix)
{
    return strstr(s->matrix, "_exps.") && m->hp.n_expert ? (size_t)matrix->ne[2] : 1;
}

static int check(const struct hearth_model *m, const struct scale *s, const struct hearth_gguf_tensor *t,
                 const struct hearth_gguf_tensor *matrix, struct hearth_error *err)
{
    const char *path = hearth_gguf_path(m->gguf);
    const size_t n = count_of(m, s, matrix);
    if (t->ne[0] != n || t->ne[1] * t->ne[2] * t->ne[3] != 1)
        return hearth_fail(
            err, HEARTH_E_FORMAT,
            "%s: tensor %s is %llu x %llu x %llu where its matrix needs %zu: the file is damaged or "
            "was converted wrongly",
            path, t->name.s, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
            (unsigned long long)t->ne[2], n);
    if (hearth_type_info(t->type)->unit_elems || !hearth_type_info(t->type)->decode)
        return hearth_fail(
            err, HEARTH_E_UNSUPPORTED,
            "%s: tensor %s has type %s; scales must have F32, F16 or BF16: convert the model again", path,
            t->name.s, hearth_type_info(t->type)->name);
    return HEARTH_OK;
}

static int read_scales(const struct hearth_model *m, const struct hearth_gguf_tensor *t, float *to, size_t n,
                       struct hearth_error *err)
{
    const struct hearth_type_info *info = hearth_type_info(t->type);
    void *raw = hearth_calloc(n, info->block_bytes);
    int rc = raw ? hearth_gguf_read(m->gguf, t, raw, 0, n * info->block_bytes, err)
                 : hearth_fail(err, HEARTH_E_MEMORY, "no memory for the scales of matrices");
    if (!rc)
        info->decode(raw, to, n);
    free(raw);
    for (size_t i = 0; i < n && !rc; i++)
        if (!isfinite(to[i]))
            rc = hearth_fail(err, HEARTH_E_FORMAT,
                             "%s: tensor %s has a scale that is no number: the file is damaged",
                             hearth_gguf_path(m->gguf), t->name.s);
    return rc;
}

// Neurons that are computed one by one would each need their matrix's scale.
static int check_layers(const struct hearth_model *m, struct hearth_error *err)
{
    for (int i = 0; i < m->hp.n_layer; i++) {
        const struct hearth_ffn f = hearth_ffn_of(&m->hp, &m->weights.layers[i]);
        if (hearth_has(f.down_t) && (f.gate->scales || f.up->scales))
            return hearth_fail(
                err, HEARTH_E_UNSUPPORTED,
                "%s: layer %d has both down by neuron (ffn_down_t) and scales of whole matrices, which "
                "is not supported: take the model with the usual ffn_down",
                hearth_gguf_path(m->gguf), i);
    }
    return HEARTH_OK;
}

// Tensors that are bound themselves are something else.
static bool is_bound(const struct hearth_model *m, const struct hearth_gguf_tensor *t)
{
    for (size_t i = 0; i < m->n_items; i++)
        if (m->items[i].tensor == t)
            return true;
    return false;
}

int hearth_scales_read(struct hearth_model *m, struct hearth_error *err)
{
    const uint64_t n = hearth_gguf_n_tensors(m->gguf);
    int rc = HEARTH_OK;
    float *to = NULL;
    for (int pass = 0; pass < 2 && !rc; pass++) { // to count, then to read
        for (uint64_t i = 0; i < n && !rc; i++) {
            const struct hearth_gguf_tensor *t = hearth_gguf_tensor_at(m->gguf, i);
            struct scale s;
            const struct hearth_gguf_tensor *matrix = parse(&s, t->name.s) ? matrix_of(m, &s, NULL) : NULL;
            if (!matrix || is_bound(m, t))
                continue;
            const size_t count = count_of(m, &s, matrix);
            if (!pass)
                rc = check(m, &s, t, matrix, err);
            if (s.of_inputs || rc)
                continue;
            if (!pass) {
                m->n_scales += count;
                continue;
            }
            rc = read_scales(m, t, to, count, err);
            matrix_of(m, &s, to);
            to += count;
        }
        if (!rc && !pass && m->n_scales) {
            m->scales = to = hearth_calloc(m->n_scales, sizeof *m->scales);
            if (!to)
                rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for the scales of matrices");
        }
        if (!m->n_scales)
            break;
    }
    return rc ? rc : check_layers(m, err);
}
