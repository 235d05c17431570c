// SPDX-License-Identifier: MIT
// Rows of the tables of families: from the names of transformers to those of GGUF. Sources: the models' own code in
// transformers; for Bamboo and TurboSparse the code that their repositories carry.
#ifndef HEARTH_CONVERT_HF_ROWS_H
#define HEARTH_CONVERT_HF_ROWS_H

#include "convert/hf_readers.h"

#define SAME(from, to)                                                                                       \
    {                                                                                                        \
        from, to, HEARTH_HF_REQUIRED, HEARTH_HF_SAME                                                         \
    }
#define MAYBE(from, to)                                                                                      \
    {                                                                                                        \
        from, to, HEARTH_HF_OPTIONAL, HEARTH_HF_SAME                                                         \
    }

#define PREDICTORS(from)                                                                                     \
    {from ".fc1.weight", "fc1.weight", HEARTH_HF_PREDICTOR, HEARTH_HF_SAME},                                 \
    {                                                                                                        \
        from ".fc2.weight", "fc2.weight", HEARTH_HF_PREDICTOR, HEARTH_HF_SAME                                \
    }

#define NORMS                                                                                                \
    SAME("input_layernorm.weight", "attn_norm.weight"),                                                      \
        SAME("post_attention_layernorm.weight", "ffn_norm.weight")

#define GATED                                                                                                \
    SAME("mlp.gate_proj.weight", "ffn_gate.weight"), SAME("mlp.up_proj.weight", "ffn_up.weight"),            \
        SAME("mlp.down_proj.weight", "ffn_down.weight"), PREDICTORS("mlp.predictor")

#define OUTPUT SAME("self_attn.o_proj.weight", "attn_output.weight")

// Rows as llama rotates them: adjacent pairs.
#define LLAMA_QKV                                                                                            \
    {"self_attn.q_proj.weight", "attn_q.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ROTARY_Q},                    \
        {"self_attn.k_proj.weight", "attn_k.weight", HEARTH_HF_REQUIRED, HEARTH_HF_ROTARY_K},                \
        SAME("self_attn.v_proj.weight", "attn_v.weight"), OUTPUT

// Experts of a layer, each with tensors of its own, or all of them in two tensors.
#define EXPERTS(each, all, gate, up, down)                                                                   \
    {each "#." gate ".weight", "ffn_gate_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},                    \
        {all "gate_up_proj", "ffn_gate_exps.weight", HEARTH_HF_EXPERTS, HEARTH_HF_FIRST_HALF},               \
        {each "#." up ".weight", "ffn_up_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},                    \
        {all "gate_up_proj", "ffn_up_exps.weight", HEARTH_HF_EXPERTS, HEARTH_HF_SECOND_HALF},                \
        {each "#." down ".weight", "ffn_down_exps.weight", HEARTH_HF_EITHER, HEARTH_HF_SAME},                \
    {                                                                                                        \
        all "down_proj", "ffn_down_exps.weight", HEARTH_HF_EXPERTS, HEARTH_HF_SAME                           \
    }

#define PLAIN_QKV                                                                                            \
    SAME("self_attn.q_proj.weight", "attn_q.weight"), SAME("self_attn.k_proj.weight", "attn_k.weight"),      \
        SAME("self_attn.v_proj.weight", "attn_v.weight"), OUTPUT

#define BOTH(from, to) SAME(from ".weight", to ".weight"), SAME(from ".bias", to ".bias")

#define HEAD_NORMS                                                                                           \
    SAME("self_attn.q_norm.weight", "attn_q_norm.weight"),                                                   \
        SAME("self_attn.k_norm.weight", "attn_k_norm.weight")

// Norms whose numbers are less by 1 than what they multiply by.
#define NORM(from, to)                                                                                       \
    {                                                                                                        \
        from, to, HEARTH_HF_REQUIRED, HEARTH_HF_ONE_MORE                                                     \
    }

#define OF_EXPERTS(from, to, order)                                                                          \
    {                                                                                                        \
        from, to, HEARTH_HF_EXPERTS, order                                                                   \
    }

// Many small experts, and one that all tokens use.
#define MANY_EXPERTS                                                                                         \
    SAME("mlp.gate.weight", "ffn_gate_inp.weight"),                                                          \
        EXPERTS("mlp.experts.", "mlp.experts.", "gate_proj", "up_proj", "down_proj"),                        \
        SAME("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"),                                  \
        SAME("mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"),                                 \
        SAME("mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"),                                     \
        SAME("mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight")

// The part of attention that keeps rows as they are, with biases of queries, keys and values where there are any.
#define QKV_BIASES(need)                                                                                     \
    {"self_attn.q_proj.bias", "attn_q.bias", need, HEARTH_HF_SAME},                                          \
        {"self_attn.k_proj.bias", "attn_k.bias", need, HEARTH_HF_SAME},                                      \
    {                                                                                                        \
        "self_attn.v_proj.bias", "attn_v.bias", need, HEARTH_HF_SAME                                         \
    }

#define OF_SHARED(from, to, order)                                                                           \
    {                                                                                                        \
        from, to, HEARTH_HF_SHARED, order                                                                    \
    }

#define GRANITE_EXPERTS                                                                                      \
    SAME("block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight"),                                     \
        {"block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight", HEARTH_HF_REQUIRED,                 \
         HEARTH_HF_FIRST_HALF},                                                                              \
        {"block_sparse_moe.input_linear.weight", "ffn_up_exps.weight", HEARTH_HF_REQUIRED,                   \
         HEARTH_HF_SECOND_HALF},                                                                             \
        SAME("block_sparse_moe.output_linear.weight", "ffn_down_exps.weight"),                               \
        OF_SHARED("shared_mlp.input_linear.weight", "ffn_gate_shexp.weight", HEARTH_HF_FIRST_HALF),          \
        OF_SHARED("shared_mlp.input_linear.weight", "ffn_up_shexp.weight", HEARTH_HF_SECOND_HALF),           \
        OF_SHARED("shared_mlp.output_linear.weight", "ffn_down_shexp.weight", HEARTH_HF_SAME)

// Norms of heads behind the rotation.
#define HUNYUAN_NORMS                                                                                        \
    SAME("self_attn.query_layernorm.weight", "attn_q_norm.weight"),                                          \
        SAME("self_attn.key_layernorm.weight", "attn_k_norm.weight")

// Tables that families of several kinds share.
extern const struct hearth_hf_map hearth_hf_rms_globals[];
extern const struct hearth_hf_map hearth_hf_one_more_globals[];

// The families of a kind; the last one has no name.
extern const struct hearth_hf_family hearth_hf_families_plain[];
extern const struct hearth_hf_family hearth_hf_families_gemma[];
extern const struct hearth_hf_family hearth_hf_families_experts[];
extern const struct hearth_hf_family hearth_hf_families_recurrent[];

#endif
