# SPDX-License-Identifier: MIT
# The golden model of MiniMax-Text-01, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import numpy as np
import transformers as tf

from archs_mamba import COMMON, FULL, SCAN, TEXT

SCALE = 1.7  # of what parts add to
# As in make_archs.py. The reference computes 16 tokens at a time.
MODELS = {
    "minimax-text": (
        "minimax-01", tf.MiniMaxForCausalLM,
        dict(COMMON, num_hidden_layers=4, layer_types=[SCAN, FULL] * 2, head_dim=48, intermediate_size=32, num_local_experts=6,
             num_experts_per_tok=3, block_size=16, rms_norm_eps=1e-5, tie_word_embeddings=False,
             full_attn_alpha_factor=SCALE, linear_attn_alpha_factor=SCALE, mlp_alpha_factor=SCALE,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        TEXT.replace("sea", "fish"),
    ),
}  # fmt: skip
ARCHS = {"minimax-01"}
MIXERS = {
    FULL: {"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj"},
    SCAN: {"attn_qkv": "qkv_proj", "attn_gate": "output_gate", "attn_norm_2": "norm", "attn_output": "out_proj"},
}


def tensors(_arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    out = {"token_embd.weight": sd["model.embed_tokens.weight"], "output_norm.weight": sd["model.norm.weight"],
           "output.weight": sd["lm_head.weight"]}  # fmt: skip
    for i, kind in enumerate(cfg.layer_types):
        src, dst = f"model.layers.{i}.", f"blk.{i}."
        out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
        out[dst + "ffn_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
        for ours, theirs in MIXERS[kind].items():
            out[f"{dst}{ours}.weight"] = sd[f"{src}self_attn.{theirs}.weight"]
        out[dst + "ffn_gate_inp.weight"] = sd[src + "mlp.gate.weight"]
        both = sd[src + "mlp.experts.gate_up_proj"]
        out[dst + "ffn_gate_exps.weight"], out[dst + "ffn_up_exps.weight"] = np.split(both, 2, axis=1)
        out[dst + "ffn_down_exps.weight"] = sd[src + "mlp.experts.down_proj"]
    return out


def add_hyper_parameters(w, _arch, cfg):
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    w.add_head_count_kv(cfg.num_key_value_heads)
    w.add_key_length(cfg.head_dim)
    w.add_value_length(cfg.head_dim)
    w.add_rope_dimension_count(cfg.head_dim)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_expert_count(cfg.num_local_experts)
    w.add_expert_used_count(cfg.num_experts_per_tok)
    w.add_full_attention_interval(2)
    w.add_residual_scale(cfg.mlp_alpha_factor)
    w.add_suppress_tokens([270, 280])  # the converter's for tokens whose embeddings are zero
