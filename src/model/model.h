// SPDX-License-Identifier: MIT
// A model: hyper-parameters, weights bound by role, vocabulary. Architectures are small tables (arch_*.c):
// which tensors there are, and how the layers are wired. Nothing else in Hearth knows tensor names.
#ifndef HEARTH_MODEL_MODEL_H
#define HEARTH_MODEL_MODEL_H

#include "base/memory.h"
#include "base/storage.h"
#include "base/threads.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "text/vocab.h"

// A matrix of n rows of k elements (row r gives output r), or a vector (n == 1, always f32). The matrices of
// a layer's experts lie one behind the other and share one struct; hearth_expert() gives a single one.
struct hearth_weight {
    const void *data;                   // NULL: not in memory, or the model has none (hearth_has() tells)
    uint32_t type;                      // enum hearth_type
    size_t k;                           // elements of a row: the input dimension
    size_t n;                           // rows: the output dimension; 0: the model has no such tensor
    size_t stride;                      // bytes from row to row
    size_t apart;                       // bytes from an expert's matrix to the next one's; 0: no gaps
    int32_t item;                       // index of the item that holds it
    size_t at;                          // offset in the item's memory
    const struct hearth_change *change; // what adapters change of it; NULL: nothing
    const float *scales;                // products are multiplied by it, each expert's by its own; NULL: 1
};

// What an adapter changes of a matrix W (model/adapters.h): products W x become W x + scale * (B (A x)), one
// change after the other. Of the embedding table, row i gets scale * (B A_i) added.
struct hearth_change {
    const struct hearth_change *next; // NULL: there is no further one
    struct hearth_weight a, b;        // [R x k] [n x R], of all experts if W is; embeddings: [V x R] [E x R]
    float scale;
};

// Whether the model has this weight, in memory or not.
static inline bool hearth_has(const struct hearth_weight *w)
{
    return w->n != 0;
}

// Bytes from one expert's matrix to the next one's.
static inline size_t hearth_expert_stride(const struct hearth_weight *all)
{
    return all->apart ? all->apart : all->n * all->stride;
}

// The matrix of one expert.
static inline struct hearth_weight hearth_expert(const struct hearth_weight *all, int expert)
{
    struct hearth_weight w = *all;
    if (all->data)
        w.data = (const uint8_t *)all->data + (size_t)expert * hearth_expert_stride(all);
    if (all->scales)
        w.scales = all->scales + expert;
    return w;
}

// Letters in shapes: E embedding, F feed-forward, Q heads * head_dim, KV kv heads * head_dim, V vocabulary, X
// experts, D head_dim, S the shared expert's neurons. Biases (_b) are absent where the model has none. Of
// latent attention (struct hearth_latent): C rank, R n_rot, A q_rank, N still, O value.
struct hearth_layer {
    struct hearth_weight attn_norm, attn_norm_b;       // [E] before attention, or none: it reads the stream
    struct hearth_weight attn_q, attn_k, attn_v;       // [Q x E] [KV x E] [KV x E]
    struct hearth_weight attn_q_b, attn_k_b, attn_v_b; // [Q] [KV] [KV]
    struct hearth_weight attn_qkv, attn_qkv_b; // [Q + 2 KV x E] [Q + 2 KV] where the file has them fused:
                                               // the ones above are their rows
    // Norms of each head [D], or of each with weights of its own [heads x D] [KV heads x D] (kept as f32), or of all
    // together [Q] [KV].
    struct hearth_weight attn_q_norm, attn_k_norm;
    struct hearth_weight attn_sinks; // [heads] a score that takes part, of no value
    struct hearth_weight
        attn_gate; // [Q x E] [heads x E] what attention's output is multiplied by a function of, or none
    struct hearth_weight attn_q_a, attn_q_a_norm;   // [A x E] [A] queries in two steps, or none:
    struct hearth_weight attn_q_up;                 // [heads (N + R) x A]
    struct hearth_weight attn_kv_a, attn_kv_a_norm; // [C + R x E] [C] a position's latent vector and key
    struct hearth_weight attn_kv_up;                // [heads (N + O) x C] keys' and values' shares, or
    struct hearth_weight attn_k_up, attn_v_up;      // [heads C x N] the keys' turned, [heads O x C]
    struct hearth_weight attn_out, attn_out_b;      // [E x Q] [E]
    // What attention gives in two steps (struct hearth_narrow_out, G groups of heads, each to R elements): attn_out then is
    // [E x G R].
    struct hearth_weight attn_out_a;                    // [G R x Q / G]
    struct hearth_weight attn_post_norm, ffn_post_norm; // [E] RMSNorm of what the two parts add, or none
    struct hearth_weight attn_inner_norm,
        ffn_inner_norm;                              // [Q] [F] RMSNorm before attn_out and ffn_down, or none
    struct hearth_weight output_scale;               // [1] the layer's output is multiplied by this, or none
    struct hearth_weight ffn_norm, ffn_norm_b;       // [E] before the feed-forward part, or none
    struct hearth_weight ffn_gate, ffn_up, ffn_down; // [F x E] (or none) [F x E] [E x F]
    struct hearth_weight ffn_gate_b, ffn_up_b, ffn_down_b; // [F] [F] [E]
    struct hearth_weight ffn_gate_up;                      // [2 F x E] where the file has them fused
    struct hearth_weight ffn_router, ffn_router_b;         // [X x E] [X] scores the experts
    struct hearth_weight ffn_choice_b;                     // [X] counts in their choice, not in their weights
    struct hearth_weight ffn_by_token; // [V x U] I32: which U experts a token uses, or none
    struct hearth_weight ffn_gate_exps, ffn_up_exps, ffn_down_exps;       // X times [F x E] [F x E] [E x F]
    struct hearth_weight ffn_gate_exps_b, ffn_up_exps_b, ffn_down_exps_b; // X times [F] [F] [E]
    struct hearth_weight ffn_exps_in,
        ffn_exps_out;                      // [M x E] [E x M] around experts that read M elements, or none
    struct hearth_weight ffn_gate_up_exps; // X times [2 F x E] where the file has them fused
    struct hearth_weight ffn_gate_shared, ffn_up_shared, ffn_down_shared; // [S x E] [S x E] [E x S]
    struct hearth_weight ffn_router_shared; // [E] its product's sigmoid is the shared expert's weight
    // Norms of the stream for the router, and for experts, where these do not read what the shared one reads;
    // and norms of what the two give. Each [E], or none.
    struct hearth_weight ffn_router_norm, ffn_norm_exps, ffn_post_norm_exps, ffn_post_norm_shared;
    struct hearth_weight ffn_scale_exps; // [X] their weights are multiplied by this, or none

    // What a token gives each layer beside the stream (P elements): gate, projection, norm; or none.
    struct hearth_weight token_gate, token_out, token_post_norm; // [P x E] [E x P] [E]

    // With several streams (struct hearth_streams, G of them): what makes one input of theirs, before attention and
    // before the feed-forward part, and how much each gets of what that gives. Norms then are [G E].
    struct hearth_weight attn_mix_down, attn_mix_up, attn_inject; // [M x G E] [G E x M] [G x G E]
    struct hearth_weight ffn_mix_down, ffn_mix_up, ffn_inject;
    // The same where all streams weigh: norms then are [E].
    struct hearth_weight attn_mix, attn_mix_b,
        attn_mix_scale; // [(2 + G) G x G E] [(2 + G) G] [3], or 2 G and [2]
    struct hearth_weight ffn_mix, ffn_mix_b, ffn_mix_scale;
    // The same where layers compute one of them, and the others are predicted (predict.h): norm and scores of what is
    // computed; weights of predictions, and of corrections, as f32; a scale of what tokens' gates read; and what goes past
    // attention, in two steps, and its norm.
    struct hearth_weight predict_norm, predict_router; // [E] [G x E]
    struct hearth_weight predict_by, correct_by;       // [G G x G] [G x G]
    struct hearth_weight correct_scale;                // [E]
    struct hearth_weight past_in, past_out, past_norm; // [M x E] [E x M] [E]

    // What chooses the positions to attend to (struct hearth_chooser, H heads of C): norms are RMSNorm, or LayerNorm where
    // they have a bias; queries may be made of the first of two steps to those of latent attention.
    struct hearth_weight choose_q, choose_k;                            // [H C x E] or [H C x A], [C x E]
    struct hearth_weight choose_q_norm, choose_k_norm, choose_k_norm_b; // [C], or none
    struct hearth_weight choose_weigh;                                  // [H x E] weights of heads, or none

    // What blends blocks of positions to one (struct hearth_blender, B positions, D elements, twice as many where blocks
    // overlap): values, what weighs them, biases of that by position, a norm. The same of keys that are chosen by, heads of
    // C; the queries that choose are made of what queries are, and weighed by choose_weigh.
    struct hearth_weight blend_value, blend_gate, blend_bias, blend_norm; // [D x E] [D x E] [B x D] f32, [D]
    struct hearth_weight blend_choose_value, blend_choose_gate, blend_choose_bias, blend_choose_norm;

    // What n-grams of tokens add to the streams (struct hearth_grams, W elements of K taps), in one layer.
    struct hearth_weight gram_key, gram_value;                           // [G E x W] [E x W]
    struct hearth_weight gram_key_norm, gram_query_norm, gram_conv_norm; // [G E]
    struct hearth_weight gram_conv; // [G E x K] as f32, the last tap is the token's own

    // Recurrent layers (struct hearth_recurrence), with I rows that are projected, C channels of K taps, W
    // values in H heads of R, G groups of these. In their place the others have attn_q to attn_out.
    struct hearth_weight rec_in, rec_gate;    // [I x E] [W x E]
    struct hearth_weight rec_beta, rec_alpha; // [H x E] what is learned, and what is forgotten, of a token,
    struct hearth_weight rec_both;            // or [2 H x E]: those of heads that share keys side by side
    struct hearth_weight rec_conv;            // [C x K] as f32, the last tap is the token's own
    struct hearth_weight rec_decay, rec_decay_b; // [H] factor, below 0, and bias of what is forgotten
    struct hearth_weight rec_conv_b;             // [C] bias of the convolution
    struct hearth_weight rec_skip;               // [H x 1] how much of a value goes past the state
    // [R] RMSNorm of each head's output, or [G x W / G] of a group's
    struct hearth_weight rec_norm;
    struct hearth_weight rec_out; // [E x W]
    // Where each key fades at a rate of its own, what is projected has three parts, with taps of their own; and what is
    // forgotten, and gates, are projected in two steps, or rec_alpha is [W x E].
    struct hearth_weight rec_q, rec_k, rec_v;                // [W x E]
    struct hearth_weight rec_conv_q, rec_conv_k, rec_conv_v; // [W x K] as f32
    struct hearth_weight rec_fade_a, rec_fade_b;             // [R x E] [W x R]
    struct hearth_weight rec_gate_a, rec_gate_b;             // [R x E] [W x R]

    // Sparse models (docs/sparse.md): what is added to the output for the neurons that are left out, a product
    // of the part's input, or none; down by neuron, in place of ffn_down; and the predictor. R differs by layer.
    struct hearth_weight ffn_linear;                  // [E x E]
    struct hearth_weight ffn_down_t, ffn_down_t_exps; // [F x E], X times: row j is neuron j's
    // fc1 [R x E] and fc2 [F x R], or none; or [F x (E + R)]: then what fc1 looks at comes before what it gives.
    struct hearth_weight pred_fc1, pred_fc2;
    struct hearth_weight pred_fc1_exps, pred_fc2_exps;
};

#define HEARTH_LAYER_WEIGHTS (sizeof(struct hearth_layer) / sizeof(struct hearth_weight))
_Static_assert(sizeof(struct hearth_layer) % sizeof(struct hearth_weight) == 0, "a layer is made of weights");

// All weights of a layer in a row, HEARTH_LAYER_WEIGHTS of them.
static inline struct hearth_weight *hearth_layer_weights(struct hearth_layer *l)
{
    return (struct hearth_weight *)(void *)l;
}

// Whether adapters change a matrix of the layer.
static inline bool hearth_layer_is_changed(const struct hearth_layer *l)
{
    const struct hearth_weight *w = (const struct hearth_weight *)(const void *)l;
    for (size_t i = 0; i < HEARTH_LAYER_WEIGHTS; i++)
        if (w[i].change)
            return true;
    return false;
}

// All weights by role.
struct hearth_weights {
    struct hearth_weight token_embd;                 // [V x E]
    struct hearth_weight token_norm, token_norm_b;   // [E] of embeddings, or none
    struct hearth_weight position_embd;              // [n_pos + pos_offset x E], or none
    struct hearth_weight output_norm, output_norm_b; // [E]
    struct hearth_weight output;     // [V x E]; the same bytes as token_embd when the head is tied
    struct hearth_weight output_b;   // [V] is added to logits, or none
    struct hearth_weight rope_freqs; // [n_rot/2] divisors of the frequencies, or none
    struct hearth_weight rope_long;  // [n_rot/2] those of texts beyond n_ctx_orig, which are not computed
    // Tokens' embeddings for each layer: the table, of whose rows all layers have a part, a projection of the
    // embedding and its norm; or none.
    struct hearth_weight token_layers, token_layers_in, token_layers_norm; // [V x L P] [L P x E] [P]
    struct hearth_weight output_mix_down,
        output_mix_up; // before the head, as in struct hearth_layer; or none
    struct hearth_weight output_mix, output_mix_b, output_mix_scale; // [G x G E] [G] [1] the same, balanced
    struct hearth_weight streams_in,
        streams_out;                 // [(G - 1) E x E] of those that are predicted, first and last; or none
    struct hearth_weight gram_table; // [rows x elements] of n-grams, or none
    // Of a layer that guesses a token ahead (nextn.h): norms of the token's embedding and of the state before it, what
    // makes an input of both, and the norm behind the layer, where it is not the model's.
    struct hearth_weight nextn_embd_norm, nextn_state_norm, nextn_in, nextn_norm; // [E] [E] [E x 2 E] [E]
    struct hearth_layer *layers;                                                  // [n_layer]
};

#define HEARTH_GLOBAL_WEIGHTS (offsetof(struct hearth_weights, layers) / sizeof(struct hearth_weight))

// All weights that are of no layer in a row, HEARTH_GLOBAL_WEIGHTS of them.
static inline struct hearth_weight *hearth_global_weights(struct hearth_weights *w)
{
    return (struct hearth_weight *)(void *)w;
}

#define HEARTH_MAX_LAYERS 4096

// How the model encodes positions.
enum hearth_positions {
    HEARTH_POS_ROPE,      // rotation of the pairs (2i, 2i + 1)
    HEARTH_POS_ROPE_NEOX, // rotation of the pairs (i, i + n_rot/2)
    HEARTH_POS_LEARNED,   // a vector per position, added to the embedding
    HEARTH_POS_NONE       // neither: at most scores have a bias
};

// Latent attention ("DeepSeek-V2", arXiv 2405.04434, section 2.1): a position has one vector, of which all
// heads make keys and values, and one key that rotates. The cache holds these two. The matrices that would
// make keys of the vector are applied to the queries instead, those that make values to what attention gives;
// so it is attention with one key/value head, whose values are the first elements of its keys.
struct hearth_latent {
    int rank;   // of the vector; 0: the model has ordinary attention
    int q_rank; // of queries, which are made in two steps; 0: in one
    int still;  // elements of a head's query that do not rotate
    int value;  // elements of a head's value
    bool joint; // the file has both matrices in one
    float eps;  // of the vector's norm
};

// What a router's scores are made to before they weigh experts.
enum hearth_gating {
    HEARTH_GATING_SOFTMAX,
    HEARTH_GATING_SIGMOID,
    HEARTH_GATING_ROOT, // the root of the softplus
    HEARTH_GATING_NEAR  // a softmax of those that are close to it, for each of the chosen
};

// What layers without attention compute: of a sequence's tokens so far they know a state of a fixed size.
enum hearth_recurrence_kind {
    HEARTH_RECURRENCE_NONE,
    HEARTH_RECURRENCE_DELTA, // a short convolution, then the gated delta rule: arXiv 2412.06464
    HEARTH_RECURRENCE_CONV,  // a short convolution alone, with a gate before it and one behind it
    HEARTH_RECURRENCE_SCAN,  // a short convolution, then a scan whose states fade: arXiv 2405.21060 (Mamba-2)
    HEARTH_RECURRENCE_FIXED // a scan alone, whose states fade at rates that no token changes: arXiv 2501.08313
};

struct hearth_recurrence {
    enum hearth_recurrence_kind kind;
    int n_taps;          // of the convolution: the token and n_taps - 1 before it
    int n_in;            // elements that are projected: delta, the channels; conv, gate, gate, channels;
                         // scan, the gates of values, channels (values, keys, queries), a step for each head;
                         // fixed, each head's queries, keys and values
    int n_channels;      // of the convolution; 0: there is none
    int n_values;        // elements that go out: n_heads * dim, or the channels
    int n_keys, n_heads; // but of conv: heads of queries and keys, and of values: a multiple
    bool grouped;        // those of values that share one of keys lie side by side
    bool sigmoid;        // what gates heads' outputs; else SiLU
    bool each;           // delta: each key fades at a rate of its own; as many heads of keys as of values
    bool low;            // each: what is forgotten, and gates, are projected in two steps
    float floor;         // each: no key fades by more than e to this, below 0; 0: they may fade altogether
    int dim;             // elements of each head of values
    int state;           // and of each of keys: what a value has in a state
    bool beside;         // layers attend besides
    uint64_t layers[HEARTH_MAX_LAYERS / 64]; // a bit each: it is recurrent
    int n_layers;                            // how many are
};

// Several residual streams in place of one (hyper-connections: arXiv 2409.19606). What a layer's part reads is made of
// all of them; each gets what the part gives, times a weight of its own.
struct hearth_streams {
    int n;    // 0: there is one
    int rank; // of the matrices that mix them
    // What parts read and give back is weighed by all streams at once, normed together. rounds above 0: streams give one
    // another by balanced matrices, of so many rounds ("mHC", arXiv 2512.24880), else each is kept. See streams.h.
    bool joint;
    int rounds;
    float eps, back, back_eps;
    bool
        predicts; // layers compute one of them, and the others are predicted (AltUp, arXiv 2301.13310): predict.h
    int active; // which one
};

// Layers with a window that attend to what is before it, too: to blocks of neighbours, each blended to one position
// ("DeepSeek-V4"). Blocks of HEARTH_OVERLAPPING positions overlap, and the best of them are chosen by a small attention of
// its own.
#define HEARTH_OVERLAPPING 4
struct hearth_blender {
    uint8_t block[HEARTH_MAX_LAYERS]; // by layer: positions of one, a power of two up to 128; 0: it has none
    int n_layers;                     // that have some
};

// Which positions a layer without a window attends to: the best blocks of neighbours by a small attention of its own, and
// those behind the last whole block. Texts of at most so many blocks are attended to as a whole.
struct hearth_chooser {
    int block; // positions of one; 0: all are attended to
    int most;  // blocks that are chosen
    int n_heads, dim;
    int per_key; // positions that one key is of: a block, which divides a page, or one
    // So many blocks, up to that of the token itself, which may not be whole, are always among the chosen; 0: what is behind
    // the last whole block is attended to besides.
    int local;
    bool each; // each head of keys and values has a choice, by one head: a block scores as its best position
    bool halves; // of a head the pairs (i, i + n_rot/2) rotate, else (2i, 2i + 1)
    bool low;    // queries are made of what latent attention's queries are made of
    bool behind; // the last elements of a head rotate, else the first
    float eps;   // of keys' norm
    bool shared; // layers that do not choose attend to what the last one before them chose, else to all
    uint64_t layers[HEARTH_MAX_LAYERS / 64]; // a bit each: it chooses
};

#define HEARTH_GRAM_MOST  8  // tokens
#define HEARTH_GRAM_HEADS 64 // in all

// n-grams of 2 to `size` tokens, the current one last: for each a few rows of a large table, by hash. Tokens before the
// last `eos` count as that.
struct hearth_grams {
    int size;          // 0: the model has none
    int layer;         // that they feed
    int heads;         // rows of one, and
    int n;             // of all together
    int dim;           // elements of a row
    int n_taps, apart; // of the convolution over what they give, and positions from one to the next
    int eos;
    uint64_t by[HEARTH_GRAM_MOST]; // multipliers of tokens, the current one first
    uint32_t first[HEARTH_GRAM_HEADS], count[HEARTH_GRAM_HEADS]; // rows of each
    uint32_t rows;                                               // that the table has at least
};

// Extends rotary positions to a longer context than the model was first trained for: "YaRN: Efficient
// Context Window Extension of Large Language Models", arXiv 2309.00071, section 3.
struct hearth_yarn {
    float share;                // of the correction: 1, or 0 for none (plain linear scaling)
    float beta_fast, beta_slow; // rotations over n_ctx_orig above (below) which a frequency is kept (scaled)
    int n_ctx_orig;
    bool exact; // the ramp's ends are not rounded to whole pairs
};

// The input of a predictor.
enum hearth_predictor_input {
    HEARTH_PREDICTOR_NORMED,  // the input of the feed-forward part itself
    HEARTH_PREDICTOR_STREAM,  // the residual stream before the norm of the feed-forward part
    HEARTH_PREDICTOR_LAYER,   // the layer's input; in a parallel layer the same as the stream
    HEARTH_PREDICTOR_PREVIOUS // the input of the feed-forward part before; the first layer's its own
};

#define HEARTH_MAX_GROUPS 256 // of experts

struct hearth_hparams {
    int n_vocab, n_ctx_train, n_embd, n_layer, n_head, n_head_kv, head_dim;
    int n_head_window, n_head_kv_window, head_dim_window,
        n_rot_window;                // of layers with a window; mostly the same
    int value_dim, value_dim_window; // of a value in the cache; mostly the same as of a key
    int n_borrowing; // the last layers, which attend to keys and values of earlier ones: hearth_keys_of()
    struct hearth_latent latent;
    int n_extra;     // layers that the file has behind those, for guessing tokens ahead
    bool nextn;      // the only layer is one of these (nextn.h)
    int n_ff;        // of a dense part, the widest; 0 when all is in experts
    int n_ff_narrow; // of some layers; 0: all have n_ff
    uint64_t narrow[HEARTH_MAX_LAYERS / 64]; // by layer, a bit each: it is one of these
    // By layer, a bit each: no tokens meet in it; it has no feed-forward part; it has one matrix in attention's place.
    uint64_t unmixed[HEARTH_MAX_LAYERS / 64], unfed[HEARTH_MAX_LAYERS / 64], linear[HEARTH_MAX_LAYERS / 64];
    // Layers may lack parts, or attention, and have numbers of their own of neurons, of which those that lack them count as
    // the widest, and of heads of keys and values, of which n_head_kv is the most.
    bool uneven;
    int n_head_kv_least;
    int n_ff_by[HEARTH_MAX_LAYERS], n_head_kv_by[HEARTH_MAX_LAYERS]; // where `uneven`
    int n_embd_layer; // of what tokens give each layer beside the stream; 0: nothing

    int n_expert, n_expert_used, n_ff_exp; // 0 in a dense model
    int n_dense;                           // of a model with experts: the first layers, which have none
    int expert_step;                       // of so many layers the last one has experts; mostly 1
    int n_embd_exp;  // of what experts read and give, where that is made of the stream; 0: it is that
    int n_ff_shared; // of the expert that all tokens use; 0: there is none
    enum hearth_gating expert_gating;
    bool expert_renorm; // the chosen experts' weights are scaled to add up to 1
    float expert_scale; // and then multiplied by this
    float shared_scale; // what experts and the one that all tokens use give together is multiplied by this
    bool weigh_before;  // an expert's input is multiplied by its weight, not its output
    float router_scale; // the router's products are multiplied by this
    // In some layers activated gates are at most a limit, and what they multiply is within it: of experts, and of
    // parts that all tokens use. 0: no layer has one.
    float limit_exps, limit_shared;
    uint64_t limited_exps[HEARTH_MAX_LAYERS / 64],
        limited_shared[HEARTH_MAX_LAYERS / 64]; // by layer, a bit each
    bool limit_before;                          // gates are cut before they are activated
    // In some layers gates are less their mean and so many of their deviations, at least 0, before they are activated:
    // most are off. Such models' neurons are computed all.
    bool cuts_gates;
    float gate_cut;
    uint64_t cut[HEARTH_MAX_LAYERS / 64]; // by layer, a bit each
    bool early_router;                    // it reads the layer's input
    bool softmax_choice;       // a bias that counts in the choice is added to the softmax, not to scores
    int n_group, n_group_used; // experts of so many groups are considered, side by side; 0: all
    int n_by_token;            // of the first layers with experts a table says which ones a token uses

    enum hearth_positions positions;
    int n_rot;        // leading dimensions of a head that rotate; 0 without rotation
    float rope_theta; // base of the rotation frequencies
    float rope_scale; // linear scaling: positions are multiplied by this (1 / factor)
    float rope_attn;  // cosines and sines are multiplied by this
    struct hearth_yarn yarn;
    int pos_offset; // learned positions: row of position 0
    float
        alibi; // at most this much of a bias, by head and distance, is in scores of attention (ALiBi); 0: there is none
    int n_pos; // how many positions the model knows, where a table limits them; 0: no limit

    float embd_scale;     // embeddings are multiplied by this
    float attn_scale;     // products of queries and keys by this
    float residual_scale; // what attention and feed-forward part add by this
    float normed_scale;   // above 0: they add to what they read, normed, times this, in place of the stream
    float logit_scale;    // and logits by this
    float logit_cap;      // logits x become cap * tanh(x / cap); 0: they stay
    float score_cap;      // so do scaled scores of attention
    float value_scale;    // values are multiplied by this
    float
        qkv_limit; // elements of queries, keys and values are within it, before they rotate; 0: there is none
    bool value_norm; // values are normed as heads, without weights; where there are none they are keys

    int window; // a token attends to itself and window - 1 before it; 0: to all
    bool
        chunked; // windows do not move: a token attends to those before it since the last multiple of `window`
    uint64_t windowed[HEARTH_MAX_LAYERS / 64]; // by layer, a bit each: it has the window
    float rope_theta_window;                // its rotation's base there, unscaled; 0: the same as elsewhere
    bool rope_windowed;                     // only those layers rotate,
    bool rope_leading;                      // and the first ones, which have no experts
    uint64_t still[HEARTH_MAX_LAYERS / 64]; // by layer, a bit each: it does not rotate
    bool norm_behind;                       // queries and keys are normed after rotation, not before it
    // Queries at position p are multiplied by 1 + q_growth ln(1 + floor(p / q_growth_step)); q_growth 0: they are not.
    float q_growth;
    int q_growth_step;
    bool q_growth_still; // only where nothing rotates, and positions count from 1 there
    bool unit_heads;     // where queries and keys rotate, each head is normed after that, without weights

    bool layer_norm; // LayerNorm instead of RMSNorm, of heads, too
    bool unit_norms; // and no norm has weights
    struct hearth_recurrence recurrence;
    bool attn_gated;  // attention's output is multiplied by sigmoids, which come with the queries
    bool gates_apart; // the same by a function of another product, attn_gate, of each element or each head:
    bool gates_softplus; // softplus, or else the sigmoid
    // Values are keys: positions have one vector, of which the last elements rotate; what attention gives is rotated back.
    bool one_vector;
    int out_groups, out_rank; // of heads whose output is made narrow first, and how narrow; 0: it is not
    struct hearth_streams streams;
    struct hearth_blender blender;
    struct hearth_chooser chooser;
    struct hearth_grams grams;

    bool parallel;                 // attention and feed-forward both read the layer's input
    float norm_eps, post_norm_eps; // the latter of norms behind parts
    bool embd_unit;                // embeddings are normed without weights (RMSNorm)
    enum hearth_activation activation;

    // Sparse feed-forward parts, of which a token uses only some neurons: docs/sparse.md.
    bool has_predictors; // some layer has one
    bool has_linear;     // some layer has an ffn_linear
    enum hearth_predictor_input predictor_input;
    float predict_threshold; // from the file: neuron j is computed if the predictor gives p_j >= this

    int pooling; // enum hearth_pooling that the model was trained for; 0: the file does not say
};

// Of a layer; 0: a token attends to all before it.
static inline int hearth_window_of(const struct hearth_hparams *hp, int layer)
{
    return hp->windowed[layer / 64] >> (layer % 64) & 1 ? hp->window : 0;
}

// Whether a layer's gates are cut.
static inline bool hearth_cuts_gates(const struct hearth_hparams *hp, int layer)
{
    return hp->cut[layer / 64] >> (layer % 64) & 1;
}

// Whether any layer's queries and keys rotate, and whether a layer's do.
static inline bool hearth_has_rotation(const struct hearth_hparams *hp)
{
    return hp->positions == HEARTH_POS_ROPE || hp->positions == HEARTH_POS_ROPE_NEOX;
}
static inline bool hearth_rotates(const struct hearth_hparams *hp, int layer)
{
    return hearth_has_rotation(hp) && !(hp->still[layer / 64] >> (layer % 64) & 1) &&
           (!hp->rope_windowed || hearth_window_of(hp, layer) || (hp->rope_leading && layer < hp->n_dense));
}

// Of a layer: heads, elements of a head, heads of keys and values, leading elements of a head that rotate.
static inline int hearth_n_head_of(const struct hearth_hparams *hp, int layer)
{
    return hearth_window_of(hp, layer) ? hp->n_head_window : hp->n_head;
}
static inline int hearth_head_dim_of(const struct hearth_hparams *hp, int layer)
{
    return hearth_window_of(hp, layer) ? hp->head_dim_window : hp->head_dim;
}
static inline int hearth_n_head_kv_of(const struct hearth_hparams *hp, int layer)
{
    if (hp->uneven)
        return hp->n_head_kv_by[layer];
    return hearth_window_of(hp, layer) ? hp->n_head_kv_window : hp->n_head_kv;
}
static inline int hearth_n_rot_of(const struct hearth_hparams *hp, int layer)
{
    return hearth_window_of(hp, layer) ? hp->n_rot_window : hp->n_rot;
}
static inline int hearth_value_dim_of(const struct hearth_hparams *hp, int layer)
{
    return hearth_window_of(hp, layer) ? hp->value_dim_window : hp->value_dim;
}

// The most that a layer has: elements of a head, and of all queries, and of all keys.
static inline int hearth_head_dim_most(const struct hearth_hparams *hp)
{
    return hp->head_dim > hp->head_dim_window ? hp->head_dim : hp->head_dim_window;
}
static inline int hearth_n_head_most(const struct hearth_hparams *hp)
{
    return hp->n_head > hp->n_head_window ? hp->n_head : hp->n_head_window;
}
static inline int hearth_q_most(const struct hearth_hparams *hp)
{
    return hearth_n_head_most(hp) * hearth_head_dim_most(hp);
}
static inline int hearth_kv_most(const struct hearth_hparams *hp)
{
    const int full = hp->n_head_kv * hp->head_dim, window = hp->n_head_kv_window * hp->head_dim_window;
    return full > window ? full : window;
}

// Whether layers with a window have other heads than those without.
static inline bool hearth_heads_differ(const struct hearth_hparams *hp)
{
    return hp->n_head != hp->n_head_window || hp->head_dim != hp->head_dim_window ||
           hp->n_head_kv != hp->n_head_kv_window || hp->n_rot != hp->n_rot_window;
}

// The layer whose keys and values a layer attends to: its own, or those of the last layer of its kind, with a
// window or without one, that has some.
static inline int hearth_keys_of(const struct hearth_hparams *hp, int layer)
{
    const int end = hp->n_layer - hp->n_borrowing;
    if (layer < end)
        return layer;
    int i = end - 1;
    while (i > 0 && !hearth_window_of(hp, i) != !hearth_window_of(hp, layer))
        i--;
    return i;
}

// Whether the cache has no values of their own: they are keys, or beginnings of these.
static inline bool hearth_values_in_keys(const struct hearth_hparams *hp)
{
    return hp->latent.rank || hp->one_vector;
}

// Whether a layer rotates as layers with a window do, where these have a rotation of their own.
static inline bool hearth_rotates_apart(const struct hearth_hparams *hp, int layer)
{
    return hp->rope_theta_window > 0 && hearth_window_of(hp, layer) && !hp->blender.block[layer];
}

// Of a layer that blends positions: whether its blocks overlap and are chosen, elements of what a block becomes, and
// floats of a position's inputs and of a sequence's state.
static inline bool hearth_blend_overlaps(const struct hearth_hparams *hp, int layer)
{
    return hp->blender.block[layer] == HEARTH_OVERLAPPING;
}
static inline int hearth_blend_width(const struct hearth_hparams *hp, int layer)
{
    return hp->head_dim + (hearth_blend_overlaps(hp, layer) ? hp->chooser.dim : 0);
}
static inline int hearth_blend_inputs(const struct hearth_hparams *hp, int layer)
{
    return (hearth_blend_overlaps(hp, layer) ? 4 : 2) * hearth_blend_width(hp, layer);
}
static inline int hearth_blend_state(const struct hearth_hparams *hp, int layer)
{
    return hp->blender.block[layer]
               ? (hearth_blend_overlaps(hp, layer) ? 9 : 3) * hearth_blend_width(hp, layer)
               : 0;
}

// Whether sequences have states besides their part of the KV cache.
static inline bool hearth_has_states(const struct hearth_hparams *hp)
{
    return hp->recurrence.n_layers || hp->blender.n_layers;
}

// Elements of a token's residual streams, all together.
static inline int hearth_stream_width(const struct hearth_hparams *hp)
{
    return hp->n_embd * (hp->streams.n ? hp->streams.n : 1);
}

// Positions whose inputs the convolution over n-grams keeps.
static inline int hearth_grams_kept(const struct hearth_grams *g)
{
    return g->size ? (g->n_taps - 1) * g->apart : 0;
}

// Neurons of a layer's dense part.
static inline int hearth_n_ff_of(const struct hearth_hparams *hp, int layer)
{
    if (hp->uneven)
        return hp->n_ff_by[layer];
    return hp->narrow[layer / 64] >> (layer % 64) & 1 ? hp->n_ff_narrow : hp->n_ff;
}

// Whether some layers have fewer than others.
static inline bool hearth_widths_differ(const struct hearth_hparams *hp)
{
    return hp->n_ff_narrow || hp->uneven;
}

// The head of queries and keys that a head of values has.
static inline int hearth_key_head_of(const struct hearth_recurrence *r, int head)
{
    return r->grouped ? head / (r->n_heads / r->n_keys) : head % r->n_keys;
}

// Whether the layer has a feed-forward part, and whether anything before that, in which tokens meet.
static inline bool hearth_feeds(const struct hearth_hparams *hp, int layer)
{
    return !(hp->unfed[layer / 64] >> (layer % 64) & 1);
}
static inline bool hearth_mixes(const struct hearth_hparams *hp, int layer)
{
    return !(hp->unmixed[layer / 64] >> (layer % 64) & 1);
}

// Whether the layer has one matrix where others have attention: no tokens meet in it either.
static inline bool hearth_is_linear(const struct hearth_hparams *hp, int layer)
{
    return hp->linear[layer / 64] >> (layer % 64) & 1;
}

// Whether the layer is recurrent: unless it attends besides, it has no part in the KV cache.
static inline bool hearth_is_recurrent(const struct hearth_hparams *hp, int layer)
{
    return hp->recurrence.layers[layer / 64] >> (layer % 64) & 1;
}

static inline bool hearth_attends(const struct hearth_hparams *hp, int layer)
{
    return hearth_mixes(hp, layer) && !hearth_is_linear(hp, layer) &&
           (hp->recurrence.beside || !hearth_is_recurrent(hp, layer));
}

// Whether the layer chooses the positions that it attends to.
static inline bool hearth_chooses(const struct hearth_hparams *hp, int layer)
{
    return hp->chooser.layers[layer / 64] >> (layer % 64) & 1;
}

// Choices of a token.
static inline int hearth_choices(const struct hearth_chooser *c)
{
    return c->each ? c->n_heads : 1;
}

// Whether it attends to what was chosen, by itself or by a layer before it.
static inline bool hearth_is_chosen_for(const struct hearth_hparams *hp, int layer)
{
    return hearth_chooses(hp, layer) || hp->chooser.shared;
}

// How many of the layers before this one are recurrent.
static inline int hearth_recurrent_before(const struct hearth_hparams *hp, int layer)
{
    int n = 0;
    for (int i = 0; hp->recurrence.n_layers && i <= layer / 64; i++)
        n += __builtin_popcountll(hp->recurrence.layers[i] &
                                  (i < layer / 64 ? UINT64_MAX : (UINT64_C(1) << layer % 64) - 1));
    return n;
}

// Whether its activations are of the ReLU family: they say themselves which neurons are active.
static inline bool hearth_is_relu(const struct hearth_hparams *hp)
{
    return hearth_act_is_relu(hp->activation);
}

// Whether a table says which experts of the layer a token uses.
static inline bool hearth_is_by_token(const struct hearth_hparams *hp, int layer)
{
    return layer < hp->n_by_token;
}

// What gates are cut to.
struct hearth_limit {
    float at;    // 0: they are not
    bool before; // they are activated
};

// The limit of a layer's gates, of its experts or of what all tokens use.
static inline struct hearth_limit hearth_limit_of(const struct hearth_hparams *hp, int layer, bool experts)
{
    const uint64_t *limited = experts ? hp->limited_exps : hp->limited_shared;
    const bool has = limited[layer / 64] >> (layer % 64) & 1;
    return (struct hearth_limit){has ? (experts ? hp->limit_exps : hp->limit_shared) : 0.0f,
                                 hp->limit_before};
}

// Whether the layer has experts.
static inline bool hearth_has_experts(const struct hearth_hparams *hp, int layer)
{
    return hp->n_expert && layer >= hp->n_dense && (layer + 1) % hp->expert_step == 0 &&
           hearth_feeds(hp, layer);
}

// The first layer behind this one that has experts; n_layer: there is none.
static inline int hearth_experts_behind(const struct hearth_hparams *hp, int layer)
{
    for (layer++; layer < hp->n_layer && !hearth_has_experts(hp, layer);)
        layer++;
    return layer;
}

struct hearth_arch;
struct hearth_weights_tests;
struct hearth_sources;

// What the sessions of a model with a budget share.
struct hearth_shared {
    int claim;                      // of the memory that it takes (base/claims.h)
    struct hearth_lock *lock;       // protects the fields below
    struct hearth_sources *sources; // weights/sources.h; NULL while there is no session
};

// How the weights come into memory.
struct hearth_load_options {
    int n_threads; // 0: one per physical core
    bool (*progress)(void *arg, float share);
    void *progress_arg;
    // The budget, in bytes of private memory of the process: what was asked for, as in hearth_model_params;
    // what that came to when the model was opened (0: all weights are read at once, else sessions read
    // them); and what it may grow to where that is too little to run at all.
    uint64_t ram_asked, ram, ram_most;
    enum hearth_io io;
    bool throttled;
    struct hearth_throttle throttle; // where it is
    enum hearth_overlap overlap;
    uint32_t read_gap; // of the storage, as hearth_store_gap() says it where it was measured; 0: not known
    int max_sessions;  // at least 1
    uint64_t aside;    // that `ram` and `ram_most` were lowered by: hearth_model_set_aside()
    const struct hearth_weights_tests *tests; // for tests only (weights/tests.h)
};

struct hearth_adapters;

// "Deriving Activation Functions Using Integration", arXiv 2411.13010: up * (a up + b) above 0, else (exp(min(up, eps)) - 1
// - up) * n + b up.
struct hearth_xielu {
    float a, n, b, eps;
};

// Reads those of all layers, if the architecture has them, to m->xielu.
int hearth_xielu_read(struct hearth_model *m, struct hearth_error *err);

struct hearth_model {
    struct hearth_model_info info;
    const struct hearth_arch *arch;
    struct hearth_hparams hp;
    struct hearth_kernels kernels;
    struct hearth_vocab *vocab;
    struct hearth_gguf *gguf;
    struct hearth_adapters *adapters; // NULL: there are none
    struct hearth_pack *pack;         // the facts of a pack (model/pack.h); NULL: the file is no pack
    bool vocab_only;
    int first_layer; // the number of the first layer in the file

    // With a budget, weights have no data here: sessions read the bytes.
    struct hearth_weights weights;
    struct hearth_item *items; // [n_items] the tensors behind them (model/load.h)
    size_t n_items, image_bytes;
    struct hearth_load_options load;
    struct hearth_shared *shared; // NULL: without a budget

    // Indexed by space, layer * max(1, n_expert) + expert. NULL: not in the file.
    uint32_t *always;           // neurons [0, always) are computed without asking the predictor
    float *crossover;           // share of a space's neurons above which dense products are faster
    struct hearth_xielu *xielu; // [n_layer]; NULL: activations are those that hp says
    float *scales;              // [n_scales] of whole matrices (model/scales.h); NULL: none has one
    size_t n_scales;
    float *magnitudes; // [n_layer x HEARTH_MAGNITUDES], by layer; see hearth_magnitude_at()

    struct hearth_region image; // all weights; empty when they are streamed
    char *path, *type_text, *arch_text, *name_text;
    char *chat_template; // NULL: the file has none
};

// Before its first session opens: so much of a budget is for something else, in place of what was said before. At least a
// byte is left.
void hearth_model_set_aside(struct hearth_model *m, uint64_t bytes);

// Bytes that the model takes besides its weights, given by the file alone.
uint64_t hearth_model_memory(const struct hearth_model *m);

// A layer's magnitudes: percentiles 0 to 100 of |activated gate| over a text.
#define HEARTH_MAGNITUDES 101

// Whether a key holds the magnitudes of all layers: f32, finite, at least 0, not descending within a layer.
bool hearth_are_magnitudes(const struct hearth_gguf_kv *kv, int n_layer);

// The magnitude below which a share (0..1) of a layer's activations lies.
static inline float hearth_magnitude_at(const float *percentiles, double share)
{
    const double at = share * (HEARTH_MAGNITUDES - 1);
    const int i = at < HEARTH_MAGNITUDES - 1 ? (int)at : HEARTH_MAGNITUDES - 2;
    return percentiles[i] + (float)(at - i) * (percentiles[i + 1] - percentiles[i]);
}

#endif
