// SPDX-License-Identifier: MIT
// Architectures: a name, the wiring of the layers, and tables of the tensors. Each has a file (arch_NAME.c);
// the list is in arch.c.
#ifndef HEARTH_MODEL_ARCH_H
#define HEARTH_MODEL_ARCH_H

#include "model/model.h"

// Symbolic dimensions, so that the binder can check every shape.
enum hearth_dim {
    HEARTH_DIM_NONE, // no second dimension: a vector, kept as f32
    HEARTH_DIM_EMBD,
    HEARTH_DIM_EMBD_TWICE,
    HEARTH_DIM_FF,
    HEARTH_DIM_FF_EXP,
    HEARTH_DIM_FF_EXP_TWICE,
    HEARTH_DIM_FF_TWICE,
    HEARTH_DIM_FF_SHARED,
    HEARTH_DIM_Q,
    HEARTH_DIM_KV,
    HEARTH_DIM_V, // all values of a position, and what attention gives, where values may be smaller than keys
    HEARTH_DIM_O,
    HEARTH_DIM_QKV,
    HEARTH_DIM_HEAD,
    HEARTH_DIM_HEADS,
    HEARTH_DIM_HEADS_OR_Q, // one or the other: the tensor decides
    HEARTH_DIM_HEADS_KV,
    HEARTH_DIM_VOCAB,
    HEARTH_DIM_ROT2,
    HEARTH_DIM_HEAD2, // half a head
    HEARTH_DIM_EXPERTS,
    HEARTH_DIM_POS,
    HEARTH_DIM_Q_TWICE, // queries, and a gate for each of their elements
    HEARTH_DIM_ONE,
    HEARTH_DIM_EMBD_LAYER,  // what a token gives a layer beside the stream,
    HEARTH_DIM_EMBD_LAYERS, // and all layers
    // Of recurrent layers: what is projected, channels and taps of the convolution, all values, their heads,
    // and what a head has.
    HEARTH_DIM_REC_IN,
    HEARTH_DIM_REC_CHANNELS,
    HEARTH_DIM_REC_TAPS,
    HEARTH_DIM_REC_VALUES,
    HEARTH_DIM_REC_HEADS,
    HEARTH_DIM_REC_HEADS_TWICE,
    HEARTH_DIM_REC_HEAD,
    HEARTH_DIM_REC_GROUPS,    // of heads that share keys,
    HEARTH_DIM_REC_GROUP,     // and the values of one
    HEARTH_DIM_EMBD_EXP,      // M as in struct hearth_layer
    HEARTH_DIM_STREAMS,       // all streams' elements,
    HEARTH_DIM_STREAM_COUNT,  // and how many there are,
    HEARTH_DIM_STREAM_SQUARE, // and times as many
    HEARTH_DIM_MIX_RANK,
    HEARTH_DIM_MIX,       // (2 + streams) streams, or 2 streams where they give one another nothing:
    HEARTH_DIM_MIX_KINDS, // weights of three kinds, or two
    HEARTH_DIM_OUT_GROUP, // what a group of heads gives,
    HEARTH_DIM_OUT_LOW,   // and all of them when it is narrow
    HEARTH_DIM_BLEND,     // inputs of a block's vector,
    HEARTH_DIM_BLOCK,     // positions of one
    HEARTH_DIM_EXPERTS_USED,
    HEARTH_DIM_CHOOSER, // a head of what chooses positions,
    HEARTH_DIM_CHOOSER_TWICE,
    HEARTH_DIM_CHOOSER_Q,
    HEARTH_DIM_CHOOSER_HEADS,
    HEARTH_DIM_GRAM,      // a row of the table of n-grams,
    HEARTH_DIM_GRAMS,     // all rows of a token,
    HEARTH_DIM_GRAM_ROWS, // the table's: as many or more
    HEARTH_DIM_GRAM_TAPS,
    HEARTH_DIM_RANK, // rank of a predictor: the tensor decides
    HEARTH_DIM_Q_RANK,
    HEARTH_DIM_LATENT,      // C as in struct hearth_layer
    HEARTH_DIM_LATENT_KEY,  // C + R
    HEARTH_DIM_STILL,       // N
    HEARTH_DIM_HEADS_QUERY, // heads (N + R)
    HEARTH_DIM_HEADS_BOTH,  // heads (N + O)
    HEARTH_DIM_HEADS_VALUE, // heads O
    HEARTH_DIM_VALUE        // O
};

enum hearth_need {
    HEARTH_ALWAYS,
    HEARTH_OPTIONAL,
    HEARTH_ALWAYS_F32,   // a matrix that is kept as f32,
    HEARTH_OPTIONAL_F32, // and an optional one
    HEARTH_FUSED,        // required where the layer has attn_qkv,
    HEARTH_MAYBE_FUSED,  // or optional there
    HEARTH_SERIES,       // required where the feed-forward part comes behind attention
    HEARTH_DENSE,        // required in models without experts
    HEARTH_LEADING,      // the same, and in the first layers of one with experts that have none
    HEARTH_EXPERTS,      // required in models with experts
    HEARTH_SHARED,       // required in models with an expert that all tokens use
    HEARTH_EACH_VECTOR,  // required in models with experts, a vector per expert: [k, experts], kept as f32
    HEARTH_EACH_EXPERT,  // same, a matrix per expert: [k, n, experts] in one tensor, or a tensor each
    HEARTH_WHOLE_Q,      // required where queries are made in one step,
    HEARTH_TWO_STEP_Q,   // or in two
    HEARTH_JOINT,        // required where latent attention has one matrix for keys and values,
    HEARTH_EACH_HEAD,    // or two, which have a matrix per head: [k, n, heads]
    HEARTH_ATTENDS,      // required in layers with attention, where others are recurrent or do not mix tokens
    HEARTH_CHOOSES,      // required in layers that choose the positions to attend to
    HEARTH_MIXES,        // required in both, where others are feed-forward parts,
    HEARTH_FEEDS,        // and required in these
    HEARTH_SMALL_EXPERTS, // required in layers with experts that do not read the stream itself
    HEARTH_RECURS,        // required in recurrent layers
    HEARTH_RECURS_F32,    // same, a matrix that is kept as f32
    HEARTH_RECURS_MAYBE,  // optional in recurrent layers, a matrix that is kept as f32
    HEARTH_RECURS_TAPS,   // required in them: same, and the file has a dimension of 1 in between: [k, 1, n]
    HEARTH_OWN_KEYS,      // required in layers with keys and values of their own,
    HEARTH_OWN_VALUES,    // and optional there without a window, where values may be keys
    HEARTH_GRAMS,         // required where n-grams feed the layer; of no layer, where they feed one
    HEARTH_GRAMS_F32,     // same, a matrix that is kept as f32
    HEARTH_BLENDS,        // required in layers that blend positions,
    HEARTH_BLENDS_F32,    // same, a matrix that is kept as f32
    HEARTH_BLENDS_BEST,   // and in those of them whose blocks are chosen
    HEARTH_BLENDS_BEST_F32,
    HEARTH_BY_TOKEN,    // required where a table says which experts a token uses, whole numbers,
    HEARTH_BY_SCORE,    // or where it does not, in other layers with experts
    HEARTH_TOKEN_GIVES, // required where tokens give each layer something beside the stream
    HEARTH_MAYBE_DENSE, // optional in models without experts
    HEARTH_MAYBE_EACH,  // optional in models with experts: [k, n, experts] in one tensor
    HEARTH_EACH_STREAM  // required, a matrix for each stream but one: [k, n, streams - 1]
};

// Whether a binding's tensor holds a matrix per expert.
static inline bool hearth_need_is_each(enum hearth_need need)
{
    return need == HEARTH_EACH_EXPERT || need == HEARTH_MAYBE_EACH;
}

#define HEARTH_MAX_EXPERTS 4096 // of a layer

struct hearth_binding {
    const char *name;  // "attn_q.weight", without the "blk.N." of a layer's tensors
    size_t field;      // offset of the struct hearth_weight in struct hearth_weights or struct hearth_layer
    enum hearth_dim k; // ne[0]
    enum hearth_dim n; // ne[1]
    enum hearth_need need;
};

// Rows of the tables.
#define HEARTH_GLOBAL(name, field, k, n, need)                                                               \
    {                                                                                                        \
        name, offsetof(struct hearth_weights, field), HEARTH_DIM_##k, HEARTH_DIM_##n, HEARTH_##need          \
    }
#define HEARTH_LAYER(name, field, k, n, need)                                                                \
    {                                                                                                        \
        name, offsetof(struct hearth_layer, field), HEARTH_DIM_##k, HEARTH_DIM_##n, HEARTH_##need            \
    }

// What most architectures have: embedding, last norm and head; projections of attention, and their biases, which some
// files have in one tensor; a dense part with a gate; experts with gates, which may be in one tensor with up; and the
// expert that all tokens use.
#define HEARTH_GLOBALS                                                                                       \
    HEARTH_GLOBAL("token_embd.weight", token_embd, EMBD, VOCAB, ALWAYS),                                     \
        HEARTH_GLOBAL("output_norm.weight", output_norm, EMBD, NONE, ALWAYS),                                \
        HEARTH_GLOBAL("output.weight", output, EMBD, VOCAB, OPTIONAL)
#define HEARTH_LAYER_QKV                                                                                     \
    HEARTH_LAYER("attn_qkv.weight", attn_qkv, EMBD, QKV, FUSED),                                             \
        HEARTH_LAYER("attn_q.weight", attn_q, EMBD, Q, ALWAYS),                                              \
        HEARTH_LAYER("attn_k.weight", attn_k, EMBD, KV, ALWAYS),                                             \
        HEARTH_LAYER("attn_v.weight", attn_v, EMBD, KV, ALWAYS)
#define HEARTH_LAYER_QKV_BIASES(need)                                                                        \
    HEARTH_LAYER("attn_qkv.bias", attn_qkv_b, QKV, NONE, MAYBE_FUSED),                                       \
        HEARTH_LAYER("attn_q.bias", attn_q_b, Q, NONE, need),                                                \
        HEARTH_LAYER("attn_k.bias", attn_k_b, KV, NONE, need),                                               \
        HEARTH_LAYER("attn_v.bias", attn_v_b, KV, NONE, need)
#define HEARTH_LAYER_GATED(need)                                                                             \
    HEARTH_LAYER("ffn_gate.weight", ffn_gate, EMBD, FF, need),                                               \
        HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, need),                                               \
        HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, need)
#define HEARTH_LAYER_EXPERTS                                                                                 \
    HEARTH_LAYER("ffn_gate_up_exps.weight", ffn_gate_up_exps, EMBD, FF_EXP_TWICE, MAYBE_EACH),               \
        HEARTH_LAYER("ffn_gate_exps.weight", ffn_gate_exps, EMBD, FF_EXP, EACH_EXPERT),                      \
        HEARTH_LAYER("ffn_up_exps.weight", ffn_up_exps, EMBD, FF_EXP, EACH_EXPERT),                          \
        HEARTH_LAYER("ffn_down_exps.weight", ffn_down_exps, FF_EXP, EMBD, EACH_EXPERT)
#define HEARTH_LAYER_SHARED                                                                                  \
    HEARTH_LAYER("ffn_gate_shexp.weight", ffn_gate_shared, EMBD, FF_SHARED, SHARED),                         \
        HEARTH_LAYER("ffn_up_shexp.weight", ffn_up_shared, EMBD, FF_SHARED, SHARED),                         \
        HEARTH_LAYER("ffn_down_shexp.weight", ffn_down_shared, FF_SHARED, EMBD, SHARED)

// Attention with a norm before it, and the norm before the feed-forward part: without biases, or with such as a file may
// have.
#define HEARTH_LAYER_ATTENTION                                                                               \
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS), HEARTH_LAYER_QKV,                       \
        HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),                                       \
        HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS)
#define HEARTH_LAYER_ATTENTION_BIASED                                                                        \
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS), HEARTH_LAYER_QKV,                       \
        HEARTH_LAYER_QKV_BIASES(OPTIONAL), HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),    \
        HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, OPTIONAL),                                  \
        HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS)

// All of a layer with LayerNorm, and a feed-forward part without a gate.
#define HEARTH_LAYER_UNGATED_BIASED                                                                          \
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),                                         \
        HEARTH_LAYER("attn_norm.bias", attn_norm_b, EMBD, NONE, ALWAYS), HEARTH_LAYER_QKV,                   \
        HEARTH_LAYER_QKV_BIASES(OPTIONAL), HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),    \
        HEARTH_LAYER("attn_output.bias", attn_out_b, EMBD, NONE, OPTIONAL),                                  \
        HEARTH_LAYER("ffn_norm.weight", ffn_norm, EMBD, NONE, ALWAYS),                                       \
        HEARTH_LAYER("ffn_norm.bias", ffn_norm_b, EMBD, NONE, ALWAYS),                                       \
        HEARTH_LAYER("ffn_up.weight", ffn_up, EMBD, FF, ALWAYS),                                             \
        HEARTH_LAYER("ffn_up.bias", ffn_up_b, FF, NONE, OPTIONAL),                                           \
        HEARTH_LAYER("ffn_down.weight", ffn_down, FF, EMBD, ALWAYS),                                         \
        HEARTH_LAYER("ffn_down.bias", ffn_down_b, EMBD, NONE, OPTIONAL)

// A scan (Mamba-2).
#define HEARTH_LAYER_SCAN                                                                                    \
    HEARTH_LAYER("ssm_in.weight", rec_in, EMBD, REC_IN, RECURS),                                             \
        HEARTH_LAYER("ssm_conv1d.weight", rec_conv, REC_TAPS, REC_CHANNELS, RECURS_F32),                     \
        HEARTH_LAYER("ssm_conv1d.bias", rec_conv_b, REC_CHANNELS, NONE, RECURS),                             \
        HEARTH_LAYER("ssm_dt.bias", rec_decay_b, REC_HEADS, NONE, RECURS),                                   \
        HEARTH_LAYER("ssm_a", rec_decay, ONE, REC_HEADS, RECURS_F32),                                        \
        HEARTH_LAYER("ssm_d", rec_skip, ONE, REC_HEADS, RECURS_F32),                                         \
        HEARTH_LAYER("ssm_out.weight", rec_out, REC_VALUES, EMBD, RECURS)
#define HEARTH_LAYER_SCAN_NORM(need) HEARTH_LAYER("ssm_norm.weight", rec_norm, REC_GROUP, REC_GROUPS, need)

// Tensors that sparse models of any architecture may have (docs/sparse.md). ffn_down_t replaces ffn_down.
#define HEARTH_LAYER_BY_NEURON HEARTH_LAYER("ffn_down_t.weight", ffn_down_t, EMBD, FF, MAYBE_DENSE)
#define HEARTH_LAYER_BY_NEURON_EXPERTS                                                                       \
    HEARTH_LAYER("ffn_down_t_exps.weight", ffn_down_t_exps, EMBD, FF_EXP, MAYBE_EACH)
#define HEARTH_LAYER_SPARSE                                                                                  \
    HEARTH_LAYER_BY_NEURON, HEARTH_LAYER("fc1.weight", pred_fc1, EMBD, RANK, MAYBE_DENSE),                   \
        HEARTH_LAYER("fc2.weight", pred_fc2, RANK, FF, MAYBE_DENSE)
#define HEARTH_LAYER_SPARSE_EXPERTS                                                                          \
    HEARTH_LAYER_BY_NEURON_EXPERTS, HEARTH_LAYER("fc1_exps.weight", pred_fc1_exps, EMBD, RANK, MAYBE_EACH),  \
        HEARTH_LAYER("fc2_exps.weight", pred_fc2_exps, RANK, FF_EXP, MAYBE_EACH)

// What sparsified models have beside that: what the neurons that are off are replaced by, and thresholds of gates.
#define HEARTH_LAYER_LINEAR HEARTH_LAYER("ffn_linear.weight", ffn_linear, EMBD, EMBD, MAYBE_DENSE)
#define HEARTH_LAYER_JUMP                                                                                    \
    HEARTH_LAYER("ffn_gate.bias", ffn_gate_b, FF, NONE, MAYBE_DENSE), HEARTH_LAYER_LINEAR

// What layers attend to (struct hearth_chooser).
enum hearth_choosing {
    HEARTH_CHOOSING_NONE,   // all positions
    HEARTH_CHOOSING_MEANS,  // the best blocks by the means of their keys
    HEARTH_CHOOSING_SINGLE, // the best positions
    HEARTH_CHOOSING_EACH // each head of keys and values, in layers with experts: the blocks of the best positions
};

struct hearth_arch {
    const char *name; // general.architecture
    enum hearth_positions positions;
    int pos_offset;   // as in struct hearth_hparams
    int alibi_layers; // models of so many layers have none, but a bias of scores
    bool
        alibi_said; // with HEARTH_POS_NONE: the file says whether scores have a bias, and may have learned positions
    bool layer_norm, parallel;         // same
    bool unit_norms;                   // same, with layer_norm alone
    bool norm_said;                    // RMSNorm where the file says that one's epsilon
    bool expert_mean;                  // of experts and the one that all tokens use the mean counts
    bool ff_both;                      // feed_forward_length is that of gate and up together
    bool parallel_said;                // parallel where the file says so,
    bool parallel_one_norm;            // or where it has no norm for the feed-forward part
    enum hearth_activation activation; // unless the file names another
    bool grouped_squared;              // squared ReLU where heads share keys, unless the file names another
    enum hearth_gating expert_gating;  // same, unless the file names another
    bool expert_renorm, early_router;  // same
    bool groups;                       // experts may be in groups, of which some are considered
    bool latent;                       // latent attention,
    bool value_unsaid;                 // whose values are width / heads where the file does not say it,
    bool scales;                       // the file says what embeddings and others are multiplied by
    bool logit_factor;                 // and logits are multiplied by logit_scale, not divided
    // Where it does not say it: MiniCPM's, whose logits are divided by width / this. 0: 1 each.
    int scale_base;
    bool embd_unit;          // as in struct hearth_hparams
    float post_eps;          // of norms behind parts; 0: that of all norms
    bool embd_sqrt;          // embeddings are multiplied by the root of their width
    int narrow_scale_layers; // models of so many layers scale queries as if heads had width / heads elements
    int window_period;       // of so many layers the last one has no window; 0: all layers are alike
    int window_unsaid;       // how wide windows are where the file does not say it
    bool window_first;       // it is the first one that has none
    bool window_heads;       // layers with a window have heads of another size and number
    bool borrows;            // the last layers may attend to keys and values of earlier ones
    bool value_norm;         // as in struct hearth_hparams
    bool qkv_limited;        // elements of queries, keys and values may have a limit
    bool logit_cap;          // same: the file says how large,
    float logit_cap_unsaid, score_cap_unsaid; // or else it is this; score_cap_unsaid 0: there is no score_cap
    float attn_scale;                         // same; 0: 1 over the root of a head's elements
    bool xielu;              // activations are xIELU, whose numbers the file says (struct hearth_xielu)
    bool dense_beside;       // feed_forward_length is that of a part that all tokens use, beside experts
    bool router_root;        // the router's products are divided by the root of the width
    bool token_gives;        // tokens may give each layer something beside the stream
    float rope_theta_window; // as in struct hearth_hparams, unless the file has another
    bool window_rotation;    // layers with a window have a rotation of their own: the file says its base
    bool narrow_values;      // values may be smaller than keys, and have a scale
    bool normed_stream;      // residual_scale is normed_scale as in struct hearth_hparams: files must say it
    bool rot_half;           // without a window half as many elements rotate as the file says
    bool gates_softplus;     // as in struct hearth_hparams
    bool limits;             // activated gates may have limits,
    bool limit_before;       // which cut them before they are activated,
    bool limit_experts;      // those of experts that not all tokens use
    bool rope_windowed, yarn_exact;   // same
    bool rope_leading;                // as in struct hearth_hparams
    bool may_be_still;                // rope.scaling.finetuned may say that none rotates
    bool rope_listed;                 // the file may say of each layer whether it rotates
    int still_period;                 // of so many layers the last one does not rotate; 0: all do
    bool norm_behind, softmax_choice; // as in struct hearth_hparams
    bool q_growth;                    // same: the file may say how much
    float q_growth_usual;             // or how much it is unless the file says it, and in steps of so many
    int q_growth_step;                // positions; only where nothing rotates
    bool unit_heads;                  // as in struct hearth_hparams, but for models of 128 experts
    bool chunked, weigh_before;       // same
    bool expert_steps;                // experts may be in every n-th layer alone
    int shared_usual;                 // experts that all tokens use, unless the file has another number
    bool rope_alpha;                  // the base of the rotation may have a factor for long texts
    bool rope_long;                   // there may be a second table of frequencies, for longer texts
    enum hearth_recurrence_kind recurrence; // of the layers that do not attend
    bool rec_grouped, rec_each, rec_beside; // as in struct hearth_recurrence
    bool rec_sigmoid, rec_floor;            // same; of the latter the file says the number
    int rec_interval; // of so many layers the last one attends, where the file does not say it; 0: of 4
    float latent_eps; // as in struct hearth_latent; 0: that of all norms
    bool attn_gated;  // as in struct hearth_hparams
    bool one_part;    // layers mix tokens, or are a feed-forward part
    bool uneven;      // as in struct hearth_hparams
    bool streams;     // there are several, positions are chosen, and n-grams may feed a layer
    bool kept;        // there are several, all of which weigh, and each is kept (struct hearth_streams)
    bool predicts;    // there are several, of which layers compute one (predict.h)
    bool cuts_gates;  // gates of some layers are cut, as struct hearth_hparams says
    bool any_eps;     // files may have the epsilon of the other kind of norms alone
    enum hearth_choosing choosing; // which positions are attended to
    bool choice_halves,
        choice_shared;     // as in struct hearth_chooser; of the latter files say which layers choose
    bool choice_behind;    // same,
    bool choice_eps_usual; // whose norm has the epsilon of all norms;
    bool choice_said;      // and there may be none
    bool extra_layers;     // nextn_predict_layers of block_count guess tokens ahead,
    bool nextn;            // and one of them is as those before, but for its input: it may be used (nextn.h)
    bool blends;           // streams are balanced; positions have one vector, and layers may blend these
    bool
        dense_by_tensors; // first layers without a router have no experts, where the file does not count them
    const struct hearth_binding *globals, *layer; // each ends with a NULL name
};

extern const struct hearth_arch hearth_arch_afmoe, hearth_arch_apertus, hearth_arch_arcee,
    hearth_arch_baichuan, hearth_arch_bailingmoe, hearth_arch_bailingmoe2, hearth_arch_bailingmoe3,
    hearth_arch_bamboo, hearth_arch_bitnet, hearth_arch_bloom, hearth_arch_chatglm, hearth_arch_cohere2,
    hearth_arch_cohere2moe, hearth_arch_command_r, hearth_arch_dbrx, hearth_arch_deci, hearth_arch_deepseek,
    hearth_arch_deepseek2, hearth_arch_deepseek32, hearth_arch_deepseek4, hearth_arch_dots1,
    hearth_arch_ernie, hearth_arch_ernie_moe, hearth_arch_exaone, hearth_arch_exaone_moe, hearth_arch_exaone4,
    hearth_arch_falcon, hearth_arch_falcon_h1, hearth_arch_gemma, hearth_arch_gemma2, hearth_arch_gemma3,
    hearth_arch_gemma3n, hearth_arch_gemma4, hearth_arch_glm_dsa, hearth_arch_glm4, hearth_arch_glm4moe,
    hearth_arch_gptoss, hearth_arch_gpt2, hearth_arch_gptneox, hearth_arch_granite, hearth_arch_granite_swa,
    hearth_arch_granitehybrid, hearth_arch_granitemoe, hearth_arch_hunyuan_dense, hearth_arch_hunyuan_moe,
    hearth_arch_hunyuan_vl, hearth_arch_hy_v3, hearth_arch_hy_v4, hearth_arch_internlm2, hearth_arch_jais2,
    hearth_arch_kimi_linear, hearth_arch_laguna, hearth_arch_lfm2, hearth_arch_lfm2moe, hearth_arch_llama,
    hearth_arch_llama4, hearth_arch_maincoder, hearth_arch_mellum, hearth_arch_mimo2, hearth_arch_minicpm,
    hearth_arch_minicpm3, hearth_arch_minimax_01, hearth_arch_minimax_m2, hearth_arch_minimax_m3,
    hearth_arch_mistral3, hearth_arch_mistral4, hearth_arch_mpt, hearth_arch_muse_glimmer,
    hearth_arch_nemotron, hearth_arch_nemotron_h, hearth_arch_nemotron_h_moe, hearth_arch_olmo,
    hearth_arch_olmo2, hearth_arch_olmoe, hearth_arch_opt, hearth_arch_orion, hearth_arch_pangu_embedded,
    hearth_arch_phi2, hearth_arch_phi3, hearth_arch_phimoe, hearth_arch_qwen, hearth_arch_qwen2,
    hearth_arch_qwen2moe, hearth_arch_qwen2vl, hearth_arch_qwen3, hearth_arch_qwen35, hearth_arch_qwen35moe,
    hearth_arch_qwen3moe, hearth_arch_qwen3next, hearth_arch_qwen3vl, hearth_arch_qwen3vlmoe,
    hearth_arch_qwen4exp, hearth_arch_refact, hearth_arch_seed_oss, hearth_arch_smallthinker,
    hearth_arch_smollm3, hearth_arch_stablelm, hearth_arch_starcoder, hearth_arch_starcoder2,
    hearth_arch_step35, hearth_arch_xverse;

// NULL when unknown.
const struct hearth_arch *hearth_arch_find(struct hearth_str name);

// Whether layers have tensors of this need, or one for this field: an offset in struct hearth_layer.
bool hearth_arch_has_need(const struct hearth_arch *arch, enum hearth_need need);
bool hearth_arch_has_field(const struct hearth_arch *arch, size_t field);

// Whether packs of such models can be made: their neurons may be stored one by one.
bool hearth_arch_packs(const struct hearth_arch *arch);

// The i-th of all, by name; NULL where there is none.
const struct hearth_arch *hearth_arch_at(size_t i);

#define HEARTH_ARCH_NAMES 300 // bytes for names in a message

// Names, "bamboo, falcon, ...", as many as fit into `size` bytes; where some do not, "..." ends the list.
void hearth_arch_names(char *out, size_t size);

// Fills hp from the metadata under "<arch>." and the architecture's table, all but n_vocab. Sizes that are
// computed from accepted values fit their types.
int hearth_hparams_read(struct hearth_hparams *hp, const struct hearth_arch *arch,
                        const struct hearth_gguf *g, struct hearth_error *err);

// The activation alone: the file's, or else the architecture's.
int hearth_activation_read(enum hearth_activation *out, const struct hearth_arch *arch,
                           const struct hearth_gguf *g, struct hearth_error *err);
// As files call it: "silu".
const char *hearth_activation_name(enum hearth_activation activation);

#endif
