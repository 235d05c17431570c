// SPDX-License-Identifier: MIT
// Hyper-parameters of balanced streams, of positions that have one vector, and of what blends these.
#include "model/hparams.h"

// The largest block of positions that become one: two pages.
#define MOST 128

#define MOST_GROUPS 256 // of heads

// Positions of each layer's blocks; 0: it has its window alone.
static int read_blocks(const struct reader *r, struct hearth_hparams *hp)
{
    const struct hearth_gguf_kv *kv;
    int rc = find_of_layers(r, "attention.compress_ratios", hp, &kv);
    for (int i = 0; i < hp->n_layer && kv && !rc; i++) {
        const int64_t own = number_of(kv, i);
        if (own < 0 || own == 1 || own > MOST || (own & (own - 1)))
            rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                             "%s: %s is %lld in layer %d, where it must be 0 or a power of two from 2 to %d",
                             hearth_gguf_path(r->g), key_of(r, "attention.compress_ratios").text,
                             (long long)own, i, MOST);
        else if (own) {
            hp->blender.block[i] = (uint8_t)own;
            hp->blender.n_layers++;
        }
    }
    return rc;
}

static bool any_overlaps(const struct hearth_hparams *hp)
{
    bool any = false;
    for (int i = 0; i < hp->n_layer; i++)
        any = any || hearth_blend_overlaps(hp, i);
    return any;
}

// What chooses blocks where these overlap.
static int read_chooser(const struct reader *r, struct hearth_hparams *hp)
{
    struct hearth_chooser *b = &hp->chooser;
    if (!any_overlaps(hp))
        return HEARTH_OK;
    int rc = read_size(r, "attention.indexer.head_count", 256, &b->n_heads);
    if (!rc)
        rc = read_size(r, "attention.indexer.key_length", 1024, &b->dim);
    if (!rc)
        rc = read_size(r, "attention.indexer.top_k", 1 << 24, &b->most);
    if (!rc && hp->n_rot > b->dim)
        rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                         "%s: heads of %d elements (attention.indexer.key_length) cannot rotate %d",
                         hearth_gguf_path(r->g), b->dim, hp->n_rot);
    return rc;
}

// Layers that blend rotate by a base of their own, stretched as the file says; the others are not stretched. Cosines and
// sines are not multiplied by what YaRN says, in the models' own code.
static int read_rotation(const struct reader *r, struct hearth_hparams *hp)
{
    hp->rope_theta_window = hp->rope_theta;
    hp->rope_attn = 1.0f;
    return read_float(r, "attention.compress_rope_freq_base", hp->blender.n_layers != 0, 1e-6f, 1e30f,
                      &hp->rope_theta);
}

// How attention's output is made narrow.
static int read_output(const struct reader *r, struct hearth_hparams *hp)
{
    int rc = read_size(r, "attention.output_group_count", MOST_GROUPS, &hp->out_groups);
    if (!rc)
        rc = read_size(r, "attention.output_lora_rank", 1 << 16, &hp->out_rank);
    if (!rc && hp->n_head % hp->out_groups)
        rc = hearth_fail(r->err, HEARTH_E_FORMAT,
                         "%s: %d attention heads cannot be in %d groups (attention.output_group_count)",
                         hearth_gguf_path(r->g), hp->n_head, hp->out_groups);
    return rc;
}

int hearth_blender_read(const struct reader *r, const struct hearth_arch *arch, struct hearth_hparams *hp)
{
    if (!arch->blends)
        return HEARTH_OK;
    hp->one_vector = hp->streams.joint = true;
    hp->streams.back = 2.0f;
    int rc = read_range(r, "hyper_connection.count", true, 2, 16, &hp->streams.n);
    if (!rc)
        rc = read_size(r, "hyper_connection.sinkhorn_iterations", 1000, &hp->streams.rounds);
    if (!rc)
        rc = read_float(r, "hyper_connection.epsilon", true, 0.0f, 1.0f, &hp->streams.eps);
    if (!rc)
        rc = read_size(r, "attention.q_lora_rank", MAX_DIM, &hp->latent.q_rank);
    if (!rc)
        rc = read_range(r, "hash_layer_count", false, 0, hp->n_layer, &hp->n_by_token);
    if (!rc)
        rc = read_output(r, hp);
    if (!rc)
        rc = read_blocks(r, hp);
    if (!rc)
        rc = read_chooser(r, hp);
    if (!rc)
        rc = read_rotation(r, hp);
    if (!rc && (!hp->window || hp->n_head_kv != 1 || !hp->n_expert))
        rc = hearth_fail(r->err, HEARTH_E_UNSUPPORTED,
                         "%s: a window of %d, %d heads of keys and %d experts are not supported for "
                         "architecture %s, which has all of them, and one head of keys",
                         hearth_gguf_path(r->g), hp->window, hp->n_head_kv, hp->n_expert, arch->name);
    return rc;
}
