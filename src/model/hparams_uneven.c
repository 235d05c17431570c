// SPDX-License-Identifier: MIT
// Hyper-parameters of models that were made smaller layer by layer: each has its own number of heads of keys and values,
// and of neurons, and may lack attention, the feed-forward part, or both.
#include "model/hparams.h"

static void set_bit(uint64_t *set, int layer)
{
    set[layer / 64] |= UINT64_C(1) << (layer % 64);
}

int hearth_uneven_heads_read(const struct reader *r, struct hearth_hparams *hp)
{
    const struct hearth_gguf_kv *of_q = NULL, *of_kv = NULL;
    int most = 0, least = MAX_HEADS;
    int rc = find_of_layers(r, "attention.head_count", hp, &of_q);
    if (!rc)
        rc = find_of_layers(r, "attention.head_count_kv", hp, &of_kv);
    for (int i = 0; i < hp->n_layer && !rc; i++) {
        const int64_t q = number_of(of_q, i), kv = of_kv ? number_of(of_kv, i) : q;
        if (q && q != hp->n_head)
            rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                             "%s: %s is %lld in layer %d, where it must be 0 or the same in all layers",
                             hearth_gguf_path(r->g), key_of(r, "attention.head_count").text, (long long)q, i);
        else if (kv < 0 || kv > q || (kv && q % kv))
            rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                             "%s: %lld attention heads cannot share %lld key/value heads (layer %d)",
                             hearth_gguf_path(r->g), (long long)q, (long long)kv, i);
        if (rc)
            break;
        if (!q)
            set_bit(hp->unmixed, i);
        else if (!kv)
            set_bit(hp->linear, i);
        hp->n_head_kv_by[i] = (int)kv;
        most = kv > most ? (int)kv : most;
        least = kv && kv < least ? (int)kv : least;
    }
    if (!rc && !most)
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED, "%s: no layer has attention, which is not supported",
                         hearth_gguf_path(r->g));
    hp->uneven = true;
    hp->n_head_kv = most;
    hp->n_head_kv_least = least;
    return rc;
}

int hearth_linear_check(const struct reader *r, const struct hearth_hparams *hp)
{
    for (int i = 0; i < hp->n_layer; i++)
        if (hearth_is_linear(hp, i) && hp->n_head * hp->head_dim != hp->n_embd)
            return hearth_fail(
                r->err, HEARTH_E_UNSUPPORTED,
                "%s: layer %d has one matrix in attention's place, which is supported where heads "
                "together have embedding_length %d elements, not %d of %d",
                hearth_gguf_path(r->g), i, hp->n_embd, hp->n_head, hp->head_dim);
    return HEARTH_OK;
}

int hearth_uneven_ff_read(const struct reader *r, struct hearth_hparams *hp)
{
    const struct hearth_gguf_kv *kv = NULL;
    const struct key key = key_of(r, "feed_forward_length");
    const int rc = find_of_layers(r, "feed_forward_length", hp, &kv);
    if (!rc && !kv)
        return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is missing: the file is incomplete",
                           hearth_gguf_path(r->g), key.text);
    for (int i = 0; i < hp->n_layer && !rc; i++) {
        const int64_t own = number_of(kv, i);
        if (own < 0 || own > 4 * MAX_DIM)
            return hearth_fail(r->err, HEARTH_E_FORMAT, "%s: %s is %lld in layer %d, must be 0 to %d",
                               hearth_gguf_path(r->g), key.text, (long long)own, i, 4 * MAX_DIM);
        if (!own)
            set_bit(hp->unfed, i);
        hp->n_ff_by[i] = (int)own;
        hp->n_ff = own > hp->n_ff ? (int)own : hp->n_ff;
    }
    for (int i = 0; i < hp->n_layer; i++)
        hp->n_ff_by[i] = hp->n_ff_by[i] ? hp->n_ff_by[i] : hp->n_ff;
    return rc || hp->n_ff ? rc
                          : hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                                        "%s: no layer has a feed-forward part, which is not supported",
                                        hearth_gguf_path(r->g));
}
