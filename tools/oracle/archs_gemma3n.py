# SPDX-License-Identifier: MIT
# The golden model of Gemma 3n, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import gguf
import numpy as np
import torch
import transformers as tf

from archs_mamba import TEXT
from oracle_common import N_VOCAB

SLIDING, FULL = "sliding_attention", "full_attention"
# Five layers: gates are cut in the first two, the last three attend to keys and values of those.
MODELS = {
    "gemma3n": (
        "gemma3n", tf.Gemma3nForCausalLM,
        dict(vocab_size=N_VOCAB, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=32, intermediate_size=96,
             num_hidden_layers=5, layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL], sliding_window=20, num_kv_shared_layers=3,
             max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None, attn_implementation="eager",
             hidden_size_per_layer_input=32, vocab_size_per_layer_input=N_VOCAB, laurel_rank=32,
             activation_sparsity_pattern=[0.8, 0.8, 0.0, 0.0, 0.0], final_logit_softcapping=30.0, tie_word_embeddings=True),
        TEXT * 2,
    ),
}  # fmt: skip
ARCHS = {"gemma3n"}

LAYER = {
    "attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection", "post_norm": "post_per_layer_input_norm", "laurel_l": "laurel.linear_left",
    "laurel_r": "laurel.linear_right", "laurel_post_norm": "laurel.post_laurel_norm", "altup_router": "altup.modality_router",
    "altup_router_norm": "altup.router_norm", "altup_predict_coef": "altup.prediction_coefs",
    "altup_correct_coef": "altup.correction_coefs",
}  # fmt: skip


def spread(model, name, inputs):
    """The deviation of a weight's elements; None: as others."""
    if not isinstance(model, tf.Gemma3nForCausalLM):
        return None
    if name.endswith("modality_router.weight"):
        return 4.0 * inputs  # scores are divided by the width
    if name.endswith("_coefs.weight"):
        return 0.25
    if name.endswith("correct_output_scale"):
        return 1.0
    return None


def tensors(_arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    others = range(cfg.altup_num_inputs - 1)
    out = {
        "token_embd.weight": sd["model.embed_tokens.weight"], "output_norm.weight": sd["model.norm.weight"],
        "per_layer_token_embd.weight": sd["model.embed_tokens_per_layer.weight"],
        "per_layer_model_proj.weight": sd["model.per_layer_model_projection.weight"],
        "per_layer_proj_norm.weight": sd["model.per_layer_projection_norm.weight"],
        "altup_proj.weight": np.stack([sd[f"model.altup_projections.{i}.weight"] for i in others]),
        "altup_unembd_proj.weight": np.stack([sd[f"model.altup_unembed_projections.{i}.weight"] for i in others]),
    }  # fmt: skip
    for i in range(cfg.num_hidden_layers):
        src, dst = f"model.layers.{i}.", f"blk.{i}."
        out |= {f"{dst}{ours}.weight": sd[f"{src}{theirs}.weight"] for ours, theirs in LAYER.items() if f"{src}{theirs}.weight" in sd}
        out[dst + "altup_correct_scale.weight"] = sd[src + "altup.correct_output_scale"]
    return out


def tables(arch, cfg):
    """Keys and values of layers that attend to others', which converters write all the same, and nobody reads."""
    if arch not in ARCHS:
        return {}
    at, kv = f"blk.{cfg.num_hidden_layers - 1}.", cfg.num_key_value_heads * cfg.head_dim
    return {at + "attn_k.weight": np.zeros((kv, cfg.hidden_size)), at + "attn_v.weight": np.zeros((kv, cfg.hidden_size)),
            at + "attn_k_norm.weight": np.ones(cfg.head_dim)}  # fmt: skip


def add_hyper_parameters(w, arch, cfg):
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    w.add_head_count_kv(cfg.num_key_value_heads)
    w.add_key_length(cfg.head_dim)
    w.add_value_length(cfg.head_dim)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_rope_freq_base(1e6)
    w.add_sliding_window(cfg.sliding_window)
    w.add_sliding_window_pattern([t == SLIDING for t in cfg.layer_types])
    w.add_shared_kv_layers(cfg.num_kv_shared_layers)
    w.add_final_logit_softcapping(cfg.final_logit_softcapping)
    w.add_embedding_length_per_layer_input(cfg.hidden_size_per_layer_input)
    w.add_altup_active_idx(cfg.altup_active_idx)
    w.add_altup_num_inputs(cfg.altup_num_inputs)
    normal = torch.distributions.normal.Normal(0, 1)
    w.add_activation_sparsity_scale([normal.icdf(torch.tensor(s)).item() for s in cfg.activation_sparsity_pattern])
