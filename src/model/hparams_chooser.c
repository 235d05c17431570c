// SPDX-License-Identifier: MIT
// Hyper-parameters of what chooses the positions that layers attend to.
#include "model/hparams.h"

// Positions of a block: layers that attend, which all must have the same, say it; 0: positions are not chosen.
static int read_block(const struct reader *r, struct hearth_hparams *hp)
{
    const struct hearth_gguf_kv *kv;
    int64_t block = -1;
    int rc = find_of_layers(r, "attention.compress_ratios", hp, &kv);
    for (int i = 0; i < hp->n_layer && kv && !rc; i++) {
        const int64_t own = number_of(kv, i);
        if (hearth_is_recurrent(hp, i))
            continue;
        if (own < 0 || own > 64 || (own && 64 % own) || (block >= 0 && own != block))
            rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                             "%s: %s is %lld in layer %d, where it must divide 64 and be the same in all "
                             "layers that attend",
                             hearth_gguf_path(r->g), key_of(r, "attention.compress_ratios").text,
                             (long long)own, i);
        block = own;
    }
    hp->chooser.block = block > 0 ? (int)block : 0;
    return rc;
}

// How many of the best a token attends to, which files say in positions: they must be whole blocks.
static int read_most(const struct reader *r, struct hearth_chooser *c)
{
    int most = 0;
    const int rc = read_size(r, "attention.indexer.top_k", 1 << 24, &most);
    if (rc || !c->block)
        return rc;
    c->most = most / c->block;
    if (most % c->block)
        return hearth_fail(
            r->err, HEARTH_E_UNSUPPORTED,
            "%s: attention to %d positions (attention.indexer.top_k), which are no whole blocks "
            "of %d, is not supported",
            hearth_gguf_path(r->g), most, c->block);
    return HEARTH_OK;
}

#define LARGEST 1024 // block

// Where each head of keys and values has a choice: blocks, how many of them, and how many of the last ones.
static int read_blocks_of_heads(const struct reader *r, const struct hearth_hparams *hp,
                                struct hearth_chooser *c)
{
    int rc = read_size(r, "attention.indexer.block_size", LARGEST, &c->block);
    if (!rc && LARGEST % c->block)
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                         "%s: attention.indexer.block_size is %d, where it must divide %d",
                         hearth_gguf_path(r->g), c->block, LARGEST);
    if (!rc)
        rc = read_size(r, "attention.indexer.top_k", 1 << 16, &c->most);
    if (!rc)
        rc = read_range(r, "attention.indexer.local_blocks", true, 1, c->most, &c->local);
    if (!rc && c->n_heads != hp->n_head_kv)
        rc = hearth_fail(
            r->err, HEARTH_E_UNSUPPORTED,
            "%s: %d heads that choose positions (attention.indexer.head_count) for %d heads of keys and "
            "values are not supported, there must be as many",
            hearth_gguf_path(r->g), c->n_heads, hp->n_head_kv);
    return rc;
}

// Whether the file has something of it, of a layer.
static bool has_indexer(const struct reader *r, int layer)
{
    static const char *const names[] = {"attn_q_b", "attn_k"};
    char name[64];
    bool has = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !has; i++) {
        snprintf(name, sizeof name, "blk.%d.indexer.%s.weight", layer, names[i]);
        has = hearth_gguf_tensor(r->g, name);
    }
    return has;
}

// Which layers choose, of those that attend: all, or those that the file says, or else those with what they choose by.
static int read_choosing_layers(const struct reader *r, struct hearth_hparams *hp)
{
    struct hearth_chooser *c = &hp->chooser;
    const struct hearth_gguf_kv *kv = NULL;
    const int rc = c->shared ? find_of_layers(r, "attention.indexer.types", hp, &kv) : HEARTH_OK;
    for (int i = 0; i < hp->n_layer && c->block && !rc; i++) {
        const bool own =
            c->each ? i >= hp->n_dense : !c->shared || (kv ? number_of(kv, i) != 0 : has_indexer(r, i));
        c->layers[i / 64] |= (uint64_t)(own && hearth_attends(hp, i)) << (i % 64);
    }
    if (!rc && c->shared && !hearth_chooses(hp, 0))
        return hearth_fail(
            r->err, HEARTH_E_FORMAT,
            "%s: the first layer has no indexer (blk.0.indexer.attn_k.weight), and none before it whose choice it could "
            "share: the file is incomplete",
            hearth_gguf_path(r->g));
    return rc;
}

int hearth_chooser_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    struct hearth_chooser *c = &hp->chooser;
    if (arch->choosing == HEARTH_CHOOSING_NONE ||
        (arch->choice_said && !hearth_gguf_find(r->g, key_of(r, "attention.indexer.top_k").text)))
        return HEARTH_OK;
    c->block = 1;
    c->low = arch->choosing == HEARTH_CHOOSING_SINGLE;
    c->each = arch->choosing == HEARTH_CHOOSING_EACH;
    c->shared = arch->choice_shared;
    c->halves = c->low ? arch->choice_halves : hp->positions == HEARTH_POS_ROPE_NEOX;
    c->behind = arch->choice_behind;
    c->eps = c->low && !arch->choice_eps_usual ? 1e-6f : hp->norm_eps; // which such files do not say
    int rc = arch->choosing == HEARTH_CHOOSING_MEANS ? read_block(r, hp) : HEARTH_OK;
    c->per_key = c->block;
    if (!rc)
        rc = read_size(r, "attention.indexer.head_count", 256, &c->n_heads);
    if (!rc)
        rc = read_size(r, "attention.indexer.key_length", 1024, &c->dim);
    if (!rc)
        rc = c->each ? read_blocks_of_heads(r, hp, c) : read_most(r, c);
    if (!rc && c->low && !hp->latent.q_rank)
        rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                         "%s: attention.q_lora_rank is missing, of which queries of the indexer are made",
                         hearth_gguf_path(r->g));
    if (!rc && hp->n_rot > c->dim)
        rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                         "%s: heads of %d elements (attention.indexer.key_length) cannot rotate %d",
                         hearth_gguf_path(r->g), c->dim, hp->n_rot);
    return rc ? rc : read_choosing_layers(r, hp);
}
