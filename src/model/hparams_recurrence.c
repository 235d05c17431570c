// SPDX-License-Identifier: MIT
// Hyper-parameters of layers that do not attend: which these are, and the sizes of their states.
#include "model/hparams.h"

// Whether the number of key/value heads says which layers attend.
static bool says_who_attends(const struct hearth_arch *arch, const struct hearth_gguf_kv *kv)
{
    const bool may = arch->recurrence == HEARTH_RECURRENCE_CONV || arch->rec_each ||
                     (arch->recurrence == HEARTH_RECURRENCE_SCAN && !arch->rec_beside);
    return may && kv && kv->type == HEARTH_GGUF_ARRAY && !kv->strings;
}

// Notes what a layer without key/value heads is instead.
static void note_other(struct hearth_hparams *hp, int layer, bool feeds)
{
    struct hearth_recurrence *rec = &hp->recurrence;
    uint64_t *set = feeds ? hp->unmixed : rec->layers;
    set[layer / 64] |= UINT64_C(1) << (layer % 64);
    rec->n_layers += !feeds;
}

int hearth_kv_heads_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    if (arch->window_heads) // read_window_heads() does
        return HEARTH_OK;
    if (arch->uneven)
        return hearth_uneven_heads_read(r, hp);
    const struct key key = key_of(r, "attention.head_count_kv");
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, key.text), *neurons = NULL;
    int64_t heads = 0;
    if (!says_who_attends(arch, kv) && !arch->one_part && !arch->rec_each)
        return read_range(r, "attention.head_count_kv", false, 1, MAX_HEADS, &hp->n_head_kv);
    if (!says_who_attends(arch, kv) || kv->count < (uint64_t)hp->n_layer)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s must say it of each layer",
                           hearth_gguf_path(r->g), key.text);
    const int rc = arch->one_part ? find_of_layers(r, "feed_forward_length", hp, &neurons) : HEARTH_OK;
    for (int i = 0; i < hp->n_layer && !rc; i++) {
        const int64_t own = hearth_gguf_kv_i64(kv, (uint64_t)i);
        const bool feeds = neurons && number_of(neurons, i) != 0;
        if (own < 0 || own > MAX_HEADS || (own && heads && own != heads))
            return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                               "%s: %s is %lld in layer %d, where it must be 0 or the same in all layers",
                               hearth_gguf_path(r->g), key.text, (long long)own, i);
        if (own && feeds)
            return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                               "%s: layer %d has attention and a feed-forward part, which is not supported "
                               "for architecture %s",
                               hearth_gguf_path(r->g), i, arch->name);
        if (!own)
            note_other(hp, i, feeds);
        if (arch->one_part && !feeds)
            hp->unfed[i / 64] |= UINT64_C(1) << (i % 64);
        heads = own ? own : heads;
    }
    hp->n_head_kv = heads ? (int)heads : hp->n_head_kv;
    return rc;
}

// The layers that attend: every n-th, or those that the file says.
static int read_recurrent_layers(const struct reader *r, const struct hearth_arch *arch,
                                 struct hearth_hparams *hp)
{
    const struct key key = key_of(r, "attention.recurrent_layers");
    const struct hearth_gguf_kv *kv = hearth_gguf_find(r->g, key.text);
    struct hearth_recurrence *rec = &hp->recurrence;
    int interval = arch->rec_interval ? arch->rec_interval : 4;
    if (kv && (kv->type != HEARTH_GGUF_ARRAY || kv->strings || kv->count < (uint64_t)hp->n_layer))
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s must say it of each layer",
                           hearth_gguf_path(r->g), key.text);
    const int rc = read_range(r, "full_attention_interval", false, 1, HEARTH_MAX_LAYERS, &interval);
    for (int i = 0; i < hp->n_layer && !rc; i++) {
        const bool is = kv ? hearth_gguf_kv_i64(kv, (uint64_t)i) != 0 : (i + 1) % interval != 0;
        rec->layers[i / 64] |= (uint64_t)is << (i % 64);
        rec->n_layers += is;
    }
    return rc;
}

// The sizes that the state of a gated delta rule has.
static int read_delta(const struct reader *r, struct hearth_hparams *hp)
{
    struct hearth_recurrence *rec = &hp->recurrence;
    int inner = 0;
    int rc = read_range(r, "ssm.conv_kernel", true, 2, 16, &rec->n_taps);
    if (!rc)
        rc = read_size(r, "ssm.state_size", 1024, &rec->dim);
    if (!rc)
        rc = read_size(r, "ssm.group_count", MAX_HEADS, &rec->n_keys);
    if (!rc)
        rc = read_size(r, "ssm.time_step_rank", MAX_HEADS, &rec->n_heads);
    if (!rc)
        rc = read_size(r, "ssm.inner_size", MAX_DIM, &inner);
    if (rc)
        return rc;
    if (rec->n_heads % rec->n_keys || inner != rec->n_heads * rec->dim)
        return hearth_fail(r->err, HEARTH_E_FORMAT,
                           "%s: recurrent layers of %d values cannot have %d heads of %d, for %d of keys",
                           hearth_gguf_path(r->g), inner, rec->n_heads, rec->dim, rec->n_keys);
    if (rec->dim % 16)
        return hearth_fail(
            r->err, HEARTH_E_UNSUPPORTED,
            "%s: heads of %d elements (ssm.state_size) are not supported, only multiples of 16",
            hearth_gguf_path(r->g), rec->dim);
    rec->n_in = rec->n_channels = (2 * rec->n_keys + rec->n_heads) * rec->dim;
    rec->n_values = rec->n_heads * rec->dim;
    rec->state = rec->dim;
    return HEARTH_OK;
}

// What no key fades below. Files may say that there is no such floor.
static int read_floor(const struct reader *r, const struct hearth_arch *arch, struct hearth_recurrence *rec)
{
    const struct key safe = key_of(r, "kda.safe_gate");
    bool is_safe = arch->rec_floor;
    int rc = hearth_gguf_bool(r->g, safe.text, false, &is_safe, r->err);
    if (!rc && is_safe != arch->rec_floor)
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: %s is %s, which is not supported for architecture %s", hearth_gguf_path(r->g),
                           safe.text, is_safe ? "true" : "false", arch->name);
    if (!rc && is_safe)
        rc = read_float(r, "kda.gate_lower_bound", true, -80.0f, -1e-6f, &rec->floor);
    return rc;
}

// The same where each key fades at a rate of its own: heads are as many as those of attention.
static int read_delta_each(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    struct hearth_recurrence *rec = &hp->recurrence;
    int rc = read_range(r, "ssm.conv_kernel", true, 2, 16, &rec->n_taps);
    if (!rc)
        rc = read_size(r, "kda.head_dim", 1024, &rec->dim);
    if (!rc)
        rc = read_floor(r, arch, rec);
    if (rc)
        return rc;
    if (rec->dim % 16)
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                           "%s: heads of %d elements (kda.head_dim) are not supported, only multiples of 16",
                           hearth_gguf_path(r->g), rec->dim);
    rec->each = true;
    rec->low = hearth_arch_has_field(arch, offsetof(struct hearth_layer, rec_fade_a));
    rec->state = rec->dim;
    rec->n_keys = rec->n_heads = hp->n_head;
    rec->n_values = rec->n_heads * rec->dim;
    rec->n_in = rec->n_channels = 3 * rec->n_values;
    return HEARTH_OK;
}

// The sizes of a short convolution. Which layers have one, the heads of keys have said.
static int read_conv(const struct reader *r, struct hearth_hparams *hp)
{
    struct hearth_recurrence *rec = &hp->recurrence;
    rec->n_in = 3 * hp->n_embd;
    rec->n_channels = rec->n_values = hp->n_embd;
    return read_range(r, "shortconv.l_cache", true, 2, 16, &rec->n_taps);
}

// The sizes of a scan alone: heads are those of attention.
static int read_fixed(const struct reader *r, struct hearth_hparams *hp)
{
    struct hearth_recurrence *rec = &hp->recurrence;
    if (hp->head_dim % 16)
        return hearth_fail(
            r->err, HEARTH_E_UNSUPPORTED,
            "%s: heads of %d elements (attention.key_length) are not supported, only multiples of 16",
            hearth_gguf_path(r->g), hp->head_dim);
    rec->n_taps = 1;
    rec->dim = rec->state = hp->head_dim;
    rec->n_keys = rec->n_heads = hp->n_head;
    rec->n_values = rec->n_heads * rec->dim;
    rec->n_in = 3 * rec->n_values;
    return HEARTH_OK;
}

// The sizes of a scan. Which layers have one, the heads of keys have said.
static int read_scan(const struct reader *r, struct hearth_hparams *hp)
{
    struct hearth_recurrence *rec = &hp->recurrence;
    int rc = read_range(r, "ssm.conv_kernel", true, 2, 16, &rec->n_taps);
    if (!rc)
        rc = read_size(r, "ssm.state_size", 1024, &rec->state);
    if (!rc)
        rc = read_size(r, "ssm.group_count", MAX_HEADS, &rec->n_keys);
    if (!rc)
        rc = read_size(r, "ssm.time_step_rank", MAX_HEADS, &rec->n_heads);
    if (!rc)
        rc = read_size(r, "ssm.inner_size", MAX_DIM, &rec->n_values);
    if (rc)
        return rc;
    if (rec->n_heads % rec->n_keys || rec->n_values % rec->n_heads)
        return hearth_fail(r->err, HEARTH_E_FORMAT,
                           "%s: recurrent layers of %d values cannot have %d heads in %d groups",
                           hearth_gguf_path(r->g), rec->n_values, rec->n_heads, rec->n_keys);
    if (rec->state % 16)
        return hearth_fail(
            r->err, HEARTH_E_UNSUPPORTED,
            "%s: states of %d elements (ssm.state_size) are not supported, only multiples of 16",
            hearth_gguf_path(r->g), rec->state);
    rec->grouped = true;
    rec->dim = rec->n_values / rec->n_heads;
    rec->n_channels = rec->n_values + 2 * rec->n_keys * rec->state;
    rec->n_in = rec->n_values + rec->n_channels + rec->n_heads;
    return HEARTH_OK;
}

int hearth_recurrence_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    const enum hearth_recurrence_kind kind = arch->recurrence;
    hp->recurrence.kind = kind;
    hp->recurrence.grouped = arch->rec_grouped;
    hp->recurrence.sigmoid = arch->rec_sigmoid;
    hp->attn_gated = arch->attn_gated;
    hp->gates_apart = hearth_arch_has_field(arch, offsetof(struct hearth_layer, attn_gate));
    hp->gates_softplus = arch->gates_softplus;
    if (kind == HEARTH_RECURRENCE_NONE)
        return HEARTH_OK;
    const bool by_interval =
        kind == HEARTH_RECURRENCE_FIXED || (kind == HEARTH_RECURRENCE_DELTA && !arch->rec_each);
    const int rc = by_interval ? read_recurrent_layers(r, arch, hp) : HEARTH_OK;
    hp->recurrence.beside = arch->rec_beside;
    for (int i = 0; i < hp->n_layer && arch->rec_beside; i++, hp->recurrence.n_layers++)
        hp->recurrence.layers[i / 64] |= UINT64_C(1) << (i % 64);
    bool any = false;
    for (int i = 0; i < hp->n_layer; i++)
        any |= hearth_attends(hp, i);
    if (!rc && !any)
        return hearth_fail(r->err, HEARTH_E_UNSUPPORTED, "%s: no layer has attention, which is not supported",
                           hearth_gguf_path(r->g));
    if (rc)
        return rc;
    return arch->rec_each                    ? read_delta_each(r, arch, hp)
           : kind == HEARTH_RECURRENCE_DELTA ? read_delta(r, hp)
           : kind == HEARTH_RECURRENCE_SCAN  ? read_scan(r, hp)
           : kind == HEARTH_RECURRENCE_FIXED ? read_fixed(r, hp)
                                             : read_conv(r, hp);
}
