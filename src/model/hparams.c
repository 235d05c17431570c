// SPDX-License-Identifier: MIT
// Hyper-parameters: read from the metadata under "<arch>.", and checked so that sizes computed from them fit.
#include "model/hparams.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static int cut(struct hearth_str s)
{
    return (int)(s.n > 40 ? 40 : s.n);
}

// ---- parts

// Latent attention. Older files say what heads have (keys of N + R, values of O), newer ones what the cache
// has, and the heads' under names of their own.
static int read_latent(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    struct hearth_latent *l = &hp->latent;
    int key = 0, value = 0, cache_key = 0, cache_value = 0, rot = 0;
    if (!arch->q_growth && hearth_gguf_find(r->g, key_of(r, "attention.temperature_scale").text))
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: %s: queries that are scaled by their position are not supported",
                           hearth_gguf_path(r->g), key_of(r, "attention.temperature_scale").text);
    l->joint = !hearth_gguf_find(r->g, key_of(r, "attention.key_length_mla").text);
    int rc = read_range(r, "attention.kv_lora_rank", true, 1, 1 << 16, &l->rank);
    if (!rc)
        rc = read_range(r, "attention.q_lora_rank", false, 0, MAX_DIM, &l->q_rank);
    if (!rc)
        rc = read_range(r, "rope.dimension_count", true, 2, 4096, &rot);
    if (!rc)
        rc = read_range(r, "attention.key_length", true, 1, 1 << 17, &cache_key);
    cache_value = arch->value_unsaid ? hp->n_embd / hp->n_head : 0;
    if (!rc)
        rc = read_range(r, "attention.value_length", !arch->rec_each && !arch->value_unsaid, 1, 1 << 17,
                        &cache_value);
    if (arch->rec_each) // such files have something else there, or nothing
        cache_value = l->rank;
    key = cache_key, value = cache_value;
    if (!rc && !l->joint)
        rc = read_range(r, "attention.key_length_mla", true, 1, 4096, &key);
    if (!rc && !l->joint)
        rc = read_range(r, "attention.value_length_mla", true, 1, 4096, &value);
    if (rc)
        return rc;
    if (key <= rot || key > 4096 || value > 4096 ||
        (!l->joint && (cache_key != l->rank + rot || cache_value != l->rank)))
        return hearth_fail(r->err, HEARTH_E_FORMAT,
                           "%s: latent attention of rank %d with %d rotating elements, keys of %d (%d) and "
                           "values of %d (%d) makes no sense: the file is damaged or was converted wrongly",
                           hearth_gguf_path(r->g), l->rank, rot, key, cache_key, value, cache_value);
    l->still = key - rot;
    l->value = value;
    hp->n_rot = rot;
    hp->n_head_kv = 1;
    hp->head_dim = l->rank + rot;
    hp->value_dim = l->rank;
    return HEARTH_OK;
}

// Heads of queries: where layers with a window may have others, the most of all, for now.
static int read_heads(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    const struct hearth_gguf_kv *kv = NULL;
    if (!arch->window_heads && !arch->uneven)
        return read_size(r, "attention.head_count", MAX_HEADS, &hp->n_head);
    int rc = find_of_layers(r, "attention.head_count", hp, &kv);
    if (!rc && !kv)
        return read_size(r, "attention.head_count", MAX_HEADS, &hp->n_head);
    const int least = arch->uneven ? 0 : 1;
    for (int i = 0; i < hp->n_layer && !rc; i++) {
        const int64_t own = number_of(kv, i);
        if (own < least || own > MAX_HEADS)
            rc = hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is %lld in layer %d, must be %d to %d",
                             hearth_gguf_path(r->g), key_of(r, "attention.head_count").text, (long long)own,
                             i, least, MAX_HEADS);
        hp->n_head = own > hp->n_head ? (int)own : hp->n_head;
    }
    if (!rc && !hp->n_head)
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED, "%s: no layer has attention, which is not supported",
                         hearth_gguf_path(r->g));
    return rc;
}

static int read_sizes(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    int rc = read_size(r, "context_length", INT_MAX, &hp->n_ctx_train);
    if (!rc)
        rc = read_size(r, "embedding_length", MAX_DIM, &hp->n_embd);
    if (!rc)
        rc = read_size(r, "block_count", HEARTH_MAX_LAYERS, &hp->n_layer);
    if (!rc)
        rc = arch->extra_layers
                 ? read_range(r, "nextn_predict_layers", false, 0, hp->n_layer - 1, &hp->n_extra)
                 : HEARTH_OK;
    hp->n_layer -= hp->n_extra;
    if (!rc)
        rc = read_heads(r, arch, hp);
    if (rc)
        return rc;
    if (arch->rec_each)
        rc = hearth_kv_heads_read(r, arch, hp);
    if (rc)
        return rc;
    if (arch->latent)
        return read_latent(r, arch, hp);
    hp->n_head_kv = hp->n_head;
    hp->head_dim = hp->n_embd / hp->n_head;
    if (hp->head_dim < 1)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: embedding_length %d is less than head_count %d",
                           hearth_gguf_path(r->g), hp->n_embd, hp->n_head);
    rc = hearth_kv_heads_read(r, arch, hp);
    if (!rc)
        rc = read_range(r, "attention.key_length", false, 1, 4096, &hp->head_dim);
    int value_dim = hp->head_dim;
    if (!rc)
        rc = read_range(r, "attention.value_length", false, 1, 4096, &value_dim);
    if (rc)
        return rc;
    if (hp->n_head % hp->n_head_kv)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %d attention heads cannot share %d key/value heads",
                           hearth_gguf_path(r->g), hp->n_head, hp->n_head_kv);
    if (value_dim > hp->head_dim || (value_dim != hp->head_dim && !arch->narrow_values))
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: keys of %d and values of %d dimensions are not supported, they must be equal",
                           hearth_gguf_path(r->g), hp->head_dim, value_dim);
    hp->value_dim = value_dim;
    return arch->uneven ? hearth_linear_check(r, hp) : HEARTH_OK;
}

// Which layers have the window: all, or all but each period's last; or the file says so of each.
static int read_windows(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    const struct key key = key_of(r, "attention.sliding_window_pattern");
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, key.text);
    int period = arch->window_period;
    hp->window = arch->window_unsaid;
    hp->chunked = arch->chunked;
    int rc = read_range(r, "attention.sliding_window", false, 0, INT_MAX, &hp->window);
    if (!rc && kv && !arch->window_period)
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                         "%s: sliding windows that differ by layer are not supported for architecture %s",
                         hearth_gguf_path(r->g), arch->name);
    const bool listed = kv && kv->type == HEARTH_GGUF_ARRAY;
    if (!rc && kv && !listed)
        rc = read_range(r, "attention.sliding_window_pattern", false, 1, HEARTH_MAX_LAYERS, &period);
    if (!rc && listed && (kv->strings || kv->count < (uint64_t)hp->n_layer))
        rc = hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s must say it of each layer", hearth_gguf_path(r->g),
                         key.text);
    for (int i = 0; i < hp->n_layer && !rc; i++) {
        const int full = arch->window_first ? 0 : period - 1;
        const bool is = listed ? hearth_gguf_kv_i64(kv, (uint64_t)i) != 0 : !period || i % period != full;
        hp->windowed[i / 64] |= (uint64_t)is << (i % 64);
    }
    return rc;
}

// Heads of layers with a window, and those that the others have; all may be the same.
static int read_window_heads(const struct reader *r, const struct hearth_arch *arch,
                             struct hearth_hparams *hp)
{
    const struct hearth_gguf_kv *kv = NULL, *q = NULL;
    struct {
        int64_t q, kv;
    } of[2] = {0}; // without and with a window
    hp->n_head_window = hp->n_head;
    hp->n_head_kv_window = hp->n_head_kv;
    hp->head_dim_window = hp->head_dim;
    hp->value_dim_window = hp->value_dim;
    if (!arch->window_heads)
        return HEARTH_OK;
    int rc = read_range(r, "attention.key_length_swa", false, 1, 4096, &hp->head_dim_window);
    int value = hp->head_dim_window != hp->head_dim ? hp->head_dim_window : hp->value_dim;
    if (!rc)
        rc = read_range(r, "attention.value_length_swa", false, 1, 4096, &value);
    if (!rc && (value > hp->head_dim_window || (value != hp->head_dim_window && !arch->narrow_values)))
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                         "%s: keys of %d and values of %d dimensions in layers with a window are not "
                         "supported, they must be equal",
                         hearth_gguf_path(r->g), hp->head_dim_window, value);
    hp->value_dim_window = value;
    if (!rc)
        rc = find_of_layers(r, "attention.head_count_kv", hp, &kv);
    if (!rc)
        rc = find_of_layers(r, "attention.head_count", hp, &q);
    for (int i = 0; i < hp->n_layer && !rc; i++) {
        const int windowed = hearth_window_of(hp, i) != 0;
        const int64_t own_q = q ? number_of(q, i) : hp->n_head, own = kv ? number_of(kv, i) : own_q;
        if (own < 1 || own > own_q || own_q % own)
            rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                             "%s: %lld attention heads cannot share %lld key/value heads (layer %d)",
                             hearth_gguf_path(r->g), (long long)own_q, (long long)own, i);
        else if (of[windowed].kv && (of[windowed].kv != own || of[windowed].q != own_q))
            rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                             "%s: %lld heads and %lld of keys and values in layer %d, and %lld and %lld in "
                             "others of its kind, are not supported",
                             hearth_gguf_path(r->g), (long long)own_q, (long long)own, i,
                             (long long)of[windowed].q, (long long)of[windowed].kv);
        of[windowed].q = own_q;
        of[windowed].kv = own;
    }
    if (rc)
        return rc;
    const int full = of[0].kv == 0, window = of[1].kv != 0; // those of the other kind, where one has no layer
    hp->n_head = (int)of[full].q;
    hp->n_head_kv = (int)of[full].kv;
    hp->n_head_window = (int)of[window].q;
    hp->n_head_kv_window = (int)of[window].kv;
    return HEARTH_OK;
}

// The last layers may have no keys and values: of each kind there must be one before that has.
static int read_borrowing(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    int rc = HEARTH_OK;
    if (arch->borrows)
        rc = read_range(r, "attention.shared_kv_layers", false, 0, hp->n_layer - 1, &hp->n_borrowing);
    for (int i = hp->n_layer - hp->n_borrowing; i < hp->n_layer && !rc; i++)
        if (!hearth_window_of(hp, i) != !hearth_window_of(hp, hearth_keys_of(hp, i)))
            rc =
                hearth_fail(r->err, HEARTH_E_FORMAT,
                            "%s: layer %d has no keys and values, and neither has an earlier one of its kind",
                            hearth_gguf_path(r->g), i);
    return rc;
}

// What the model multiplies by.
static int read_scales(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    hp->embd_scale = arch->embd_sqrt ? sqrtf((float)hp->n_embd) : 1.0f;
    const int dim = arch->narrow_scale_layers == hp->n_layer ? hp->n_embd / hp->n_head
                    : arch->latent                           ? hp->latent.still + hp->n_rot
                                                             : hp->head_dim;
    hp->attn_scale = arch->attn_scale > 0 ? arch->attn_scale : 1.0f / sqrtf((float)dim);
    hp->router_scale = arch->router_root ? 1.0f / sqrtf((float)hp->n_embd) : 1.0f;
    hp->residual_scale = hp->logit_scale = hp->value_scale = 1.0f;
    float logits = 1.0f;
    if (arch->qkv_limited) {
        const int rc = read_float(r, "attention.clamp_kqv", false, 0.0f, 1e6f, &hp->qkv_limit);
        if (rc)
            return rc;
    }
    if (arch->narrow_values)
        return read_float(r, "attention.value_scale", false, 1e-6f, 1e6f, &hp->value_scale);
    if (arch->normed_stream)
        return read_float(r, "residual_scale", true, 1e-6f, 1e6f, &hp->normed_scale);
    if (!arch->scales)
        return HEARTH_OK;
    if (arch->scale_base) {
        hp->embd_scale = 12.0f;
        hp->residual_scale = 1.4f / sqrtf((float)hp->n_layer);
        logits = (float)hp->n_embd / (float)arch->scale_base;
    }
    int rc = read_float(r, "embedding_scale", false, 1e-6f, 1e6f, &hp->embd_scale);
    if (!rc)
        rc = read_float(r, "attention.scale", false, 1e-6f, 1e6f, &hp->attn_scale);
    if (!rc)
        rc = read_float(r, "residual_scale", false, 1e-6f, 1e6f, &hp->residual_scale);
    if (!rc)
        rc = read_float(r, "logit_scale", false, 1e-6f, 1e6f, &logits);
    hp->logit_scale = arch->logit_factor ? logits : 1.0f / logits;
    return rc;
}

static bool has_dense(const struct hearth_arch *arch)
{
    for (const struct hearth_binding *b = arch->layer; b->name; b++)
        if (b->n == HEARTH_DIM_FF || b->n == HEARTH_DIM_FF_TWICE)
            return true;
    return false;
}

// Groups of experts, of which the best few are considered.
static int read_groups(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    int groups = 1, used = 0;
    int rc = read_range(r, "expert_group_count", false, 0, HEARTH_MAX_GROUPS, &groups);
    if (rc || groups <= 1)
        return rc;
    if (!arch->groups)
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: groups of experts are not supported for architecture %s",
                           hearth_gguf_path(r->g), arch->name);
    rc = read_range(r, "expert_group_used_count", true, 1, groups, &used);
    if (!rc && (hp->n_expert % groups || hp->n_expert_used > hp->n_expert / groups * used))
        rc = hearth_fail(
            r->err, HEARTH_E_FORMAT,
            "%s: %d of %d groups of %d experts in all do not have the %d experts that a token uses",
            hearth_gguf_path(r->g), used, groups, hp->n_expert, hp->n_expert_used);
    if (used < groups) {
        hp->n_group = groups;
        hp->n_group_used = used;
    }
    return rc;
}

// How scores become weights.
static int read_gating(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    enum { SOFTMAX = 1, SIGMOID, SOFTMAX_OF_CHOSEN, ROOT };
    static const int usuals[] = {[HEARTH_GATING_SOFTMAX] = SOFTMAX,
                                 [HEARTH_GATING_SIGMOID] = SIGMOID,
                                 [HEARTH_GATING_ROOT] = ROOT,
                                 [HEARTH_GATING_NEAR] = 0}; // which files do not say
    int gating = usuals[arch->expert_gating];
    hp->expert_renorm = arch->expert_renorm;
    hp->expert_scale = 1.0f;
    hp->shared_scale = arch->expert_mean ? 0.5f : 1.0f;
    const int usual = gating;
    int rc = hearth_gguf_bool(r->g, key_of(r, "expert_weights_norm").text, false, &hp->expert_renorm, r->err);
    if (!rc)
        rc = read_float(r, "expert_weights_scale", false, 0.0f, 1e6f, &hp->expert_scale);
    if (hp->expert_scale <= 0.0f) // not said
        hp->expert_scale = 1.0f;
    if (!rc)
        rc = read_range(r, "expert_gating_func", false, 0, INT_MAX, &gating);
    if (gating == 0) // not said
        gating = usual;
    if (!rc && gating > ROOT)
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                         "%s: experts chosen by function %d are not supported (softmax, 1 and 3, sigmoid, 2, "
                         "and the root of softplus, 4, are)",
                         hearth_gguf_path(r->g), gating);
    const bool each = gating == SIGMOID || gating == ROOT; // scores do not depend on one another
    hp->softmax_choice = arch->softmax_choice && !each;
    if (!rc)
        rc = read_groups(r, arch, hp);
    hp->expert_gating = gating == SIGMOID ? HEARTH_GATING_SIGMOID
                        : gating == ROOT  ? HEARTH_GATING_ROOT
                        : gating          ? HEARTH_GATING_SOFTMAX
                                          : HEARTH_GATING_NEAR;
    hp->expert_renorm |= gating == SOFTMAX_OF_CHOSEN;
    return rc;
}

// The expert that all tokens use: its neurons, or how many experts it is as large as.
static int read_shared(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    int count = arch->shared_usual;
    if (!hearth_arch_has_need(arch, HEARTH_SHARED))
        return HEARTH_OK;
    int rc = read_range(r, "expert_shared_count", false, 0, HEARTH_MAX_EXPERTS, &count);
    if (!rc && hp->n_ff_exp > 0 && count > 4 * MAX_DIM / hp->n_ff_exp)
        count = 4 * MAX_DIM / hp->n_ff_exp;
    hp->n_ff_shared = count * hp->n_ff_exp;
    if (!rc)
        rc = read_range(r, "expert_shared_feed_forward_length", false, 0, 4 * MAX_DIM, &hp->n_ff_shared);
    return rc;
}

// Of layers, the ones whose activated gates have a limit: the file says it of each, 0 where there is none.
static int read_limit(const struct reader *r, const char *name, const struct hearth_hparams *hp, float *limit,
                      uint64_t *limited)
{
    const struct hearth_gguf_kv *kv;
    int rc = find_of_layers(r, name, hp, &kv);
    for (int i = 0; i < hp->n_layer && kv && !rc; i++) {
        const double own = hearth_gguf_kv_f64(kv, kv->type == HEARTH_GGUF_ARRAY ? (uint64_t)i : 0);
        if (!(own >= 0 && own <= 1e6))
            rc = hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is %g in layer %d, must be from 0 to 1e6",
                             hearth_gguf_path(r->g), key_of(r, name).text, own, i);
        else if (own > 0 && *limit > 0 && (float)own != *limit)
            rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED, "%s: %s has more than one limit",
                             hearth_gguf_path(r->g), key_of(r, name).text);
        else if (own > 0) {
            *limit = (float)own;
            limited[i / 64] |= UINT64_C(1) << (i % 64);
        }
    }
    return rc;
}

// Layers whose gates are cut: the file says of each by how many deviations above the mean, below all numbers where it is
// not done.
static int read_cuts(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    static const char name[] = "activation_sparsity_scale";
    const struct hearth_gguf_kv *kv = NULL;
    int rc = arch->cuts_gates ? find_of_layers(r, name, hp, &kv) : HEARTH_OK;
    if (!rc && arch->cuts_gates && !kv)
        rc = hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is missing: the file is incomplete",
                         hearth_gguf_path(r->g), key_of(r, name).text);
    for (int i = 0; i < hp->n_layer && kv && !rc; i++) {
        const double own = hearth_gguf_kv_f64(kv, kv->type == HEARTH_GGUF_ARRAY ? (uint64_t)i : 0);
        if (own < 0.0 && isinf(own))
            continue;
        if (!(fabs(own) <= 100.0))
            return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is %g in layer %d, must be from -100 to 100",
                               hearth_gguf_path(r->g), key_of(r, name).text, own, i);
        if (hp->cuts_gates && (float)own != hp->gate_cut)
            return hearth_fail(r->err, HEARTH_E_UNSUPPORTED, "%s: %s has more than one cut",
                               hearth_gguf_path(r->g), key_of(r, name).text);
        hp->cuts_gates = true;
        hp->gate_cut = (float)own;
        hp->cut[i / 64] |= UINT64_C(1) << (i % 64);
    }
    return rc;
}

static int read_limits(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    if (!arch->limits)
        return HEARTH_OK;
    hp->limit_before = arch->limit_before;
    const int rc = read_limit(r, "swiglu_clamp_exp", hp, &hp->limit_exps, hp->limited_exps);
    if (!rc && arch->limit_before && !arch->limit_experts &&
        !hearth_gguf_find(r->g, key_of(r, "swiglu_clamp_shexp").text)) {
        hp->limit_shared = hp->limit_exps; // where it is not said, all parts have the same
        memcpy(hp->limited_shared, hp->limited_exps, sizeof hp->limited_shared);
    }
    return rc ? rc : read_limit(r, "swiglu_clamp_shexp", hp, &hp->limit_shared, hp->limited_shared);
}

// How many of the first layers have no router in the file.
static int count_dense(const struct reader *r, const struct hearth_hparams *hp)
{
    char name[64];
    int n = 0;
    for (; n < hp->n_layer - 1; n++) {
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", n);
        if (hearth_gguf_tensor(r->g, name))
            break;
    }
    return n;
}

static int read_experts(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    hp->expert_step = 1;
    hp->n_ff_exp = hp->n_ff;
    hp->weigh_before = arch->weigh_before;
    hp->early_router = arch->early_router;
    int rc = read_range(r, "expert_used_count", true, 1, hp->n_expert, &hp->n_expert_used);
    if (!rc) // without it, the other key is required
        rc = read_range(r, "expert_feed_forward_length", hp->n_ff_exp == 0, 1, 4 * MAX_DIM, &hp->n_ff_exp);
    if (arch->dense_by_tensors)
        hp->n_dense = count_dense(r, hp);
    if (!rc && hearth_arch_has_need(arch, HEARTH_LEADING))
        rc = read_range(r, "leading_dense_block_count", false, 0, hp->n_layer - 1, &hp->n_dense);
    if (!rc)
        rc = read_range(r, "interleave_moe_layer_step", false, 1, hp->n_layer, &hp->expert_step);
    if (!rc && hp->expert_step != 1 && !arch->expert_steps)
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                         "%s: experts in one of %d layers (interleave_moe_layer_step) are not supported",
                         hearth_gguf_path(r->g), hp->expert_step);
    if (!rc && hp->expert_step != 1 && hearth_experts_behind(hp, -1) == hp->n_layer)
        rc = hearth_fail(r->err, HEARTH_E_FORMAT, "%s: no layer has experts", hearth_gguf_path(r->g));
    if (!rc && hearth_arch_has_need(arch, HEARTH_SMALL_EXPERTS))
        rc = read_range(r, "moe_latent_size", false, 0, MAX_DIM, &hp->n_embd_exp);
    const bool all = !hp->n_dense && hp->expert_step == 1; // layers have experts
    if (!rc && !all && !hp->n_ff)
        rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                         "%s: feed_forward_length is missing for layers without experts",
                         hearth_gguf_path(r->g));
    if (arch->dense_beside)
        hp->n_ff_shared = hp->n_ff;
    if (all)
        hp->n_ff = 0;
    if (!rc && !arch->dense_beside)
        rc = read_shared(r, arch, hp);
    return rc ? rc : read_gating(r, arch, hp);
}

// Neurons of the dense parts where layers have one of two numbers.
static int read_widths(const struct reader *r, struct hearth_hparams *hp)
{
    const struct hearth_gguf_kv *kv;
    int64_t most = 0, least = INT64_MAX;
    const int rc = find_of_layers(r, "feed_forward_length", hp, &kv);
    for (int i = 0; i < hp->n_layer && kv && !rc; i++) {
        const int64_t own = number_of(kv, i);
        most = own > most ? own : most;
        least = own < least ? own : least;
    }
    if (rc || !kv || most == least)
        return rc ? rc : read_range(r, "feed_forward_length", true, 1, 4 * MAX_DIM, &hp->n_ff);
    if (least < 1 || most > 4 * MAX_DIM)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s goes from %lld to %lld, must be 1 to %d",
                           hearth_gguf_path(r->g), key_of(r, "feed_forward_length").text, (long long)least,
                           (long long)most, 4 * MAX_DIM);
    hp->n_ff = (int)most;
    hp->n_ff_narrow = (int)least;
    for (int i = 0; i < hp->n_layer; i++) {
        const int64_t own = number_of(kv, i);
        hp->narrow[i / 64] |= (uint64_t)(own == least) << (i % 64);
        if (own != least && own != most)
            return hearth_fail(r->err, HEARTH_E_UNSUPPORTED, "%s: %s has more than two different numbers",
                               hearth_gguf_path(r->g), key_of(r, "feed_forward_length").text);
    }
    return HEARTH_OK;
}

// Neurons of feed-forward parts where other layers have 0 of them.
static int read_some_ff(const struct reader *r, struct hearth_hparams *hp)
{
    const struct hearth_gguf_kv *kv;
    const int rc = find_of_layers(r, "feed_forward_length", hp, &kv);
    for (int i = 0; i < hp->n_layer && kv && !rc; i++) {
        const int64_t own = number_of(kv, i);
        if (!own)
            continue;
        if (own < 1 || own > 4 * MAX_DIM || (hp->n_ff && own != hp->n_ff))
            return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                               "%s: %s is %lld in layer %d, where it must be 0 or the same in all layers",
                               hearth_gguf_path(r->g), key_of(r, "feed_forward_length").text, (long long)own,
                               i);
        hp->n_ff = (int)own;
    }
    if (!rc && !hp->n_ff)
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: no layer has a feed-forward part, which is not supported",
                           hearth_gguf_path(r->g));
    return rc;
}

static int read_ffn(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    int rc = read_range(r, "expert_count", false, 0, HEARTH_MAX_EXPERTS, &hp->n_expert);
    if (!rc && arch->token_gives)
        rc = read_range(r, "embedding_length_per_layer_input", false, 0, 4096, &hp->n_embd_layer);
    if (!rc && arch->one_part)
        rc = read_some_ff(r, hp);
    else if (!rc && arch->uneven)
        rc = hearth_uneven_ff_read(r, hp);
    else if (!rc && arch->borrows && !hp->n_expert)
        rc = read_widths(r, hp);
    else if (!rc)
        rc = read_range(r, "feed_forward_length", !hp->n_expert, !hp->n_expert, 4 * MAX_DIM, &hp->n_ff);
    if (!rc && arch->ff_both && hp->n_ff % 2)
        rc = hearth_fail(
            r->err, HEARTH_E_FORMAT,
            "%s: feed_forward_length %d is not even: the file is damaged or was converted wrongly",
            hearth_gguf_path(r->g), hp->n_ff);
    if (rc)
        return rc;
    if (arch->ff_both)
        hp->n_ff /= 2;
    if (hp->n_expert ? !hearth_arch_has_need(arch, HEARTH_EACH_EXPERT) : !has_dense(arch))
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: expert_count %d is not supported for architecture %s", hearth_gguf_path(r->g),
                           hp->n_expert, arch->name);
    if (hp->n_expert)
        rc = read_experts(r, arch, hp);
    if (!rc)
        rc = read_cuts(r, arch, hp);
    return rc ? rc : read_limits(r, arch, hp);
}

static int read_yarn(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp,
                     float factor)
{
    struct hearth_yarn *y = &hp->yarn;
    *y = (struct hearth_yarn){.share = 1.0f,
                              .exact = arch->yarn_exact,
                              .beta_fast = 32.0f,
                              .beta_slow = 1.0f,
                              .n_ctx_orig = hp->n_ctx_train};
    int rc = read_range(r, "rope.scaling.original_context_length", false, 1, INT_MAX, &y->n_ctx_orig);
    if (!rc)
        rc = read_float(r, "rope.scaling.yarn_ext_factor", false, 0.0f, 1.0f, &y->share);
    if (!rc)
        rc = read_float(r, "rope.scaling.yarn_beta_fast", false, 1e-6f, 1e6f, &y->beta_fast);
    if (!rc)
        rc = read_float(r, "rope.scaling.yarn_beta_slow", false, 1e-6f, 1e6f, &y->beta_slow);
    // Where a file says what cosines and sines are multiplied by, that is all of it: transformers' attention_factor, which
    // converters write as it is, once under the other name.
    const bool given = hearth_gguf_find(r->g, key_of(r, "rope.scaling.yarn_attn_factor").text) ||
                       hearth_gguf_find(r->g, key_of(r, "rope.scaling.attn_factor").text);
    if (!rc)
        rc = read_float(r, "rope.scaling.yarn_attn_factor", false, 1e-6f, 1e6f, &hp->rope_attn);
    if (y->share <= 0 || factor <= 1.0f)
        return rc;
    // What the paper multiplies cosines and sines by, models with latent attention multiply scores by, and
    // say how much: a tenth of the mscale_all_dim that they were trained with. Those whose queries grow say
    // the whole of it, and divide by it.
    float by_log = 0.0f;
    if (!rc && (arch->latent || arch->q_growth))
        rc = read_float(r, "rope.scaling.yarn_log_multiplier", false, 0.0f, 1e3f, &by_log);
    const float scale = 1.0f + by_log * logf(factor);
    const double usual = 1.0 + 0.1 * log((double)factor);
    if (by_log > 0 && arch->latent)
        hp->attn_scale *= scale * scale;
    else if (!given)
        hp->rope_attn *= (float)(usual / (1.0 + 0.1 * (double)by_log * log((double)factor)));
    return rc;
}

// The layers that do not rotate, where the file says it of each.
static int read_listed_rotation(const struct reader *r, struct hearth_hparams *hp)
{
    const struct key key = key_of(r, "attention.rope_pattern");
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, key.text);
    if (kv && (kv->type != HEARTH_GGUF_ARRAY || kv->strings || kv->count < (uint64_t)hp->n_layer))
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s must say it of each layer",
                           hearth_gguf_path(r->g), key.text);
    for (int i = 0; i < hp->n_layer && kv; i++)
        hp->still[i / 64] |= (uint64_t)(hearth_gguf_kv_i64(kv, (uint64_t)i) == 0) << (i % 64);
    return HEARTH_OK;
}

// Which layers do not rotate, and how queries grow with their position.
static int read_rotation_of_layers(const struct reader *r, const struct hearth_arch *arch,
                                   struct hearth_hparams *hp)
{
    bool turns = true;
    if (arch->may_be_still) {
        const int rc =
            hearth_gguf_bool(r->g, key_of(r, "rope.scaling.finetuned").text, false, &turns, r->err);
        if (rc)
            return rc;
    }
    const int listed = arch->rope_listed ? read_listed_rotation(r, hp) : HEARTH_OK;
    if (listed)
        return listed;
    const int period = turns ? arch->still_period : 1;
    for (int i = 0; period && i < hp->n_layer; i++)
        hp->still[i / 64] |= (uint64_t)((i + 1) % period == 0) << (i % 64);
    hp->norm_behind = arch->norm_behind;
    hp->unit_heads = arch->unit_heads && hp->n_expert != 128; // which files do not say
    hp->q_growth_step = arch->q_growth_step ? arch->q_growth_step : hp->yarn.n_ctx_orig;
    hp->q_growth = arch->q_growth_usual;
    hp->q_growth_still = arch->q_growth_usual > 0;
    if (arch->q_growth_step || arch->q_growth) {
        const int rc = read_range(r, "attention.temperature_length", false, 1, INT_MAX, &hp->q_growth_step);
        if (rc)
            return rc;
    }
    return arch->q_growth || arch->q_growth_usual > 0
               ? read_float(r, "attention.temperature_scale", false, 0.0f, 1e3f, &hp->q_growth)
               : HEARTH_OK;
}

static int read_rope_scaling(const struct reader *r, const struct hearth_arch *arch,
                             struct hearth_hparams *hp)
{
    struct hearth_str type = {"", 0};
    int rc = hearth_gguf_str(r->g, key_of(r, "rope.scaling.type").text, false, &type, r->err);
    // Older files, without rope.scaling.*, have only the linear factor.
    float factor = 1.0f;
    if (!rc)
        rc = read_float(r, "rope.scale_linear", false, 1e-6f, 1e6f, &factor);
    if (!rc) // without a type it is linear, as in llama.cpp
        rc = read_float(r, "rope.scaling.factor",
                        type.n && !hearth_str_is(type, "none") && !hearth_str_is(type, "longrope"), 1e-6f,
                        1e6f, &factor);
    hp->rope_attn = 1.0f;
    if (!rc)
        rc = read_float(r, "rope.scaling.attn_factor", false, 1e-6f, 1e6f, &hp->rope_attn);
    if (rc)
        return rc;
    hp->rope_scale = hearth_str_is(type, "none") ? 1.0f : 1.0f / factor;
    if (!type.n || hearth_str_is(type, "none") || hearth_str_is(type, "linear"))
        return HEARTH_OK;
    if (hearth_str_is(type, "longrope") && arch->rope_long) {
        hp->rope_scale = 1.0f;
        return HEARTH_OK;
    }
    if (hearth_str_is(type, "yarn"))
        return read_yarn(r, arch, hp, factor);
    return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                       "%s: RoPE scaling of type \"%.*s\" is not supported (none, linear, yarn and the "
                       "llama3 frequency table are)",
                       hearth_gguf_path(r->g), cut(type), type.s);
}

// What scores of attention are at most biased by, unless the file says something else.
#define ALIBI 8.0f

static int read_positions(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    static const char alibi[] = "attention.max_alibi_bias";
    hp->positions = arch->positions;
    hp->pos_offset = arch->pos_offset;
    if (arch->alibi_layers == hp->n_layer) { // files do not say it
        hp->positions = HEARTH_POS_NONE;
        hp->alibi = ALIBI;
    } else if (arch->positions == HEARTH_POS_NONE) {
        hp->alibi = arch->alibi_said ? 0.0f : ALIBI;
        const int rc = read_float(r, alibi, false, 0.0f, 1e3f, &hp->alibi);
        if (rc)
            return rc;
        if (arch->alibi_said && hearth_gguf_tensor(r->g, "position_embd.weight"))
            hp->positions = HEARTH_POS_LEARNED;
    } else if (hearth_gguf_find(r->g, key_of(r, alibi).text)) {
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: positions by attention bias (ALiBi) are not supported for architecture %s",
                           hearth_gguf_path(r->g), arch->name);
    }
    if (!hearth_has_rotation(hp))
        return HEARTH_OK;
    // Where positions have several parts, rows are in the other order.
    const struct hearth_gguf_kv *parts = hearth_gguf_find(r->g, key_of(r, "rope.dimension_sections").text);
    if (hp->positions == HEARTH_POS_ROPE && parts && parts->count && hearth_gguf_kv_i64(parts, 0) > 0)
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED, "%s: positions of several parts are not supported",
                           hearth_gguf_path(r->g));
    hp->n_rot = hp->head_dim;
    hp->rope_theta = 10000.0f;
    int rc = read_range(r, "rope.dimension_count", false, 1, 4096, &hp->n_rot);
    if (!rc)
        rc = read_float(r, "rope.freq_base", false, 1e-6f, 1e30f, &hp->rope_theta);
    float alpha = 0.0f; // the base is multiplied by a power of it
    if (!rc && arch->rope_alpha)
        rc = read_float(r, "rope.scaling.alpha", false, 0.0f, 1e9f, &alpha);
    if (alpha > 0 && hp->head_dim > 2)
        hp->rope_theta *= powf(alpha, (float)hp->head_dim / (float)(hp->head_dim - 2));
    hp->rope_theta_window = arch->window_rotation && hp->window ? hp->rope_theta : arch->rope_theta_window;
    if (!rc && hp->rope_theta_window > 0)
        rc = read_float(r, "rope.freq_base_swa", false, 1e-6f, 1e30f, &hp->rope_theta_window);
    hp->n_rot_window = hp->head_dim_window != hp->head_dim ? hp->head_dim_window : hp->n_rot;
    if (arch->rot_half)
        hp->n_rot /= 2;
    if (!rc && (hp->n_rot < 1 || hp->n_rot > hp->head_dim || hp->n_rot % 2))
        rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                         "%s: rope.dimension_count %d must be even and at most the head size %d",
                         hearth_gguf_path(r->g), hp->n_rot, hp->head_dim);
    if (!rc && arch->window_heads)
        rc = read_range(r, "rope.dimension_count_swa", false, 1, 4096, &hp->n_rot_window);
    if (!rc && (hp->n_rot_window > hp->head_dim_window || hp->n_rot_window % 2))
        rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                         "%s: rope.dimension_count_swa %d must be even and at most the head size %d",
                         hearth_gguf_path(r->g), hp->n_rot_window, hp->head_dim_window);
    hp->rope_windowed = arch->rope_windowed && hp->window > 0;
    hp->rope_leading = arch->rope_leading;
    hp->yarn.n_ctx_orig = hp->n_ctx_train;
    if (!rc && arch->rope_long)
        rc = read_range(r, "rope.scaling.original_context_length", false, 1, INT_MAX, &hp->yarn.n_ctx_orig);
    if (!rc)
        rc = read_rope_scaling(r, arch, hp);
    return rc ? rc : read_rotation_of_layers(r, arch, hp);
}

static int read_norm(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    const char *own = "attention.layer_norm_epsilon", *rms = "attention.layer_norm_rms_epsilon";
    const bool has_rms = hearth_gguf_find(r->g, key_of(r, rms).text);
    hp->layer_norm = arch->layer_norm && !(arch->norm_said && has_rms);
    hp->unit_norms = arch->unit_norms;
    hp->norm_eps = 1e-5f;
    const bool other =
        arch->any_eps && !(hp->layer_norm ? hearth_gguf_find(r->g, key_of(r, own).text) != NULL : has_rms);
    const int rc =
        read_float(r, hp->layer_norm != other ? own : rms, !hp->layer_norm, 0.0f, 1.0f, &hp->norm_eps);
    hp->post_norm_eps = arch->post_eps > 0 ? arch->post_eps : hp->norm_eps;
    hp->embd_unit = arch->embd_unit;
    hp->latent.eps = arch->latent_eps > 0 ? arch->latent_eps : hp->norm_eps;
    return rc;
}

static const char *const activation_names[] = {
    [HEARTH_ACT_SILU] = "silu",           [HEARTH_ACT_RELU] = "relu",
    [HEARTH_ACT_DRELU] = "drelu",         [HEARTH_ACT_GELU] = "gelu",
    [HEARTH_ACT_GELU_TANH] = "gelu_tanh", [HEARTH_ACT_SWIGLU_CLAMPED] = "swiglu_clamped",
    [HEARTH_ACT_JUMP_RELU] = "jump_relu", [HEARTH_ACT_RELU_SQUARED] = "relu_squared"};

const char *hearth_activation_name(enum hearth_activation activation)
{
    return activation_names[activation];
}

int hearth_activation_read(enum hearth_activation *out, const struct hearth_arch *arch,
                           const struct hearth_gguf *g, struct hearth_error *err)
{
    const struct reader r = {g, arch->name, err};
    struct key key = key_of(&r, "feed_forward.activation");
    struct hearth_str text = {"", 0};
    *out = arch->activation;
    if (arch->grouped_squared) {
        uint32_t heads = 0, kv = 0;
        int rc = hearth_gguf_u32(g, key_of(&r, "attention.head_count").text, false, &heads, err);
        if (!rc) {
            kv = heads;
            rc = hearth_gguf_u32(g, key_of(&r, "attention.head_count_kv").text, false, &kv, err);
        }
        if (rc)
            return rc;
        *out = kv < heads ? HEARTH_ACT_RELU_SQUARED : *out;
    }
    // PowerInfer's sparse files keep the architecture's name, but their models all use ReLU.
    if (hearth_gguf_is_pwri(g) && *out != HEARTH_ACT_DRELU)
        *out = HEARTH_ACT_RELU;
    int rc = hearth_gguf_str(g, key.text, false, &text, err);
    if (rc || !text.n)
        return rc;
    for (size_t i = 0; i < sizeof activation_names / sizeof activation_names[0]; i++)
        if (activation_names[i] && hearth_str_is(text, activation_names[i])) {
            *out = (enum hearth_activation)i;
            return HEARTH_OK;
        }
    return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                       "%s: %s is \"%.*s\"; supported are silu, relu, drelu, gelu, gelu_tanh, "
                       "swiglu_clamped, jump_relu and relu_squared",
                       hearth_gguf_path(g), key.text, cut(text), text.s);
}

// Predictors: their input, and the threshold of their output. PowerInfer's files have at most the threshold.
static int read_predictors(const struct reader *r, struct hearth_hparams *hp)
{
    static const char *const names[] = {"normed", "stream", "layer", "previous"};
    static const char input_key[] = "hearth.pack.predictor_input";
    struct hearth_str text = {"", 0};
    hp->predictor_input = !hearth_gguf_is_pwri(r->g) ? HEARTH_PREDICTOR_NORMED
                          : hp->parallel             ? HEARTH_PREDICTOR_LAYER
                                                     : HEARTH_PREDICTOR_STREAM;
    int rc = hearth_gguf_f32(r->g, "powerinfer.sparse_threshold", false, &hp->predict_threshold, r->err);
    if (!rc)
        rc = hearth_gguf_f32(r->g, "hearth.sparse_threshold", false, &hp->predict_threshold, r->err);
    if (!rc && !isfinite(hp->predict_threshold))
        rc = hearth_fail(r->err, HEARTH_E_FORMAT, "%s: the sparse threshold is not a number",
                         hearth_gguf_path(r->g));
    if (!rc)
        rc = hearth_gguf_str(r->g, input_key, false, &text, r->err);
    if (rc || !text.n)
        return rc;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (hearth_str_is(text, names[i])) {
            hp->predictor_input = (enum hearth_predictor_input)i;
            if (i == HEARTH_PREDICTOR_LAYER && !hp->parallel)
                break;
            return HEARTH_OK;
        }
    return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                       "%s: %s is \"%.*s\"; supported are normed, stream, previous, and layer where "
                       "attention and feed-forward are side by side",
                       hearth_gguf_path(r->g), input_key, cut(text), text.s);
}

// Functions of scores and logits: of the latter, if the architecture has one; else they are not computed.
static int read_caps(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    static const char *const keys[] = {"attn_logit_softcapping", "router_logit_softcapping",
                                       "final_logit_softcapping"};
    const size_t n = sizeof keys / sizeof *keys - arch->logit_cap;
    hp->logit_cap = arch->logit_cap_unsaid;
    hp->score_cap = arch->score_cap_unsaid;
    int rc = HEARTH_OK;
    if (arch->logit_cap)
        rc = read_float(r, keys[2], false, 0.0f, 1e6f, &hp->logit_cap);
    if (!rc && arch->score_cap_unsaid > 0)
        rc = read_float(r, keys[0], false, 0.0f, 1e6f, &hp->score_cap);
    for (size_t i = arch->score_cap_unsaid > 0; i < n && !rc; i++) {
        float cap = 0;
        rc = read_float(r, keys[i], false, 0.0f, 1e9f, &cap);
        if (!rc && cap > 0)
            rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED, "%s: %s is not supported", hearth_gguf_path(r->g),
                             key_of(r, keys[i]).text);
    }
    return rc;
}

// Whether attention and feed-forward part both read the layer's input.
static int read_wiring(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    const bool one_norm = !hearth_gguf_tensor(r->g, "blk.0.ffn_norm.weight") &&
                          !hearth_gguf_tensor(r->g, "blk.0.ffn_norm.bias");
    hp->parallel = arch->parallel || (arch->parallel_one_norm && one_norm);
    hp->value_norm = arch->value_norm;
    return arch->parallel_said
               ? hearth_gguf_bool(r->g, key_of(r, "use_parallel_residual").text, true, &hp->parallel, r->err)
               : HEARTH_OK;
}

// What embeddings need. Tokens attend to those before them alone; models for embeddings may do otherwise.
static int read_pooling(const struct reader *r, struct hearth_hparams *hp)
{
    const struct key key = key_of(r, "attention.causal");
    uint32_t pooling = 0;
    bool causal = true;
    int rc = hearth_gguf_bool(r->g, key.text, false, &causal, r->err);
    if (!rc && !causal)
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                         "%s: %s is false: attention to later tokens is not supported",
                         hearth_gguf_path(r->g), key.text);
    if (!rc)
        rc = hearth_gguf_u32(r->g, key_of(r, "pooling_type").text, false, &pooling, r->err);
    hp->pooling = pooling <= HEARTH_POOLING_LAST ? (int)pooling : 0;
    return rc;
}

int hearth_hparams_read(struct hearth_hparams *hp, const struct hearth_arch *arch,
                        const struct hearth_gguf *g, struct hearth_error *err)
{
    const struct reader r = {g, arch->name, err};
    int rc = read_wiring(&r, arch, hp);
    if (!rc)
        rc = read_sizes(&r, arch, hp);
    if (!rc)
        rc = read_windows(&r, arch, hp);
    if (!rc)
        rc = read_window_heads(&r, arch, hp);
    if (!rc)
        rc = read_borrowing(&r, arch, hp);
    if (!rc)
        rc = read_scales(&r, arch, hp);
    if (!rc)
        rc = read_ffn(&r, arch, hp);
    if (!rc)
        rc = hearth_recurrence_read(&r, arch, hp);
    if (!rc)
        rc = read_positions(&r, arch, hp);
    if (!rc)
        rc = hearth_streams_read(&r, arch, hp);
    if (!rc)
        rc = hearth_blender_read(&r, arch, hp);
    if (!rc)
        rc = read_norm(&r, arch, hp);
    if (!rc)
        rc = hearth_chooser_read(&r, arch, hp);
    if (!rc)
        rc = read_caps(&r, arch, hp);
    if (!rc)
        rc = read_predictors(&r, hp);
    if (!rc)
        rc = read_pooling(&r, hp);
    return rc ? rc : hearth_activation_read(&hp->activation, arch, g, err);
}
