# SPDX-License-Identifier: MIT
# Golden models of further architectures, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import transformers as tf

from archs_mamba import TEXT
from archs_older import LLAMA, rename

# As in make_archs.py.
MODELS = {
    "bitnet": ("bitnet", tf.BitNetForCausalLM, dict(LLAMA, tie_word_embeddings=True), TEXT),
}  # fmt: skip
ARCHS = {model[0] for model in MODELS.values()}

GLOBALS = {"token_embd": ("model.embed_tokens",), "output_norm": ("model.norm",), "output": ("lm_head",)}
# GGUF's names, and what the architectures' classes call these tensors.
NAMES = {
    "attn_norm": ("input_layernorm",), "ffn_norm": ("post_attention_layernorm",),
    "attn_q": ("self_attn.q_proj",), "attn_k": ("self_attn.k_proj",), "attn_v": ("self_attn.v_proj",), "attn_output": ("self_attn.o_proj",),
    "attn_sub_norm": ("self_attn.attn_sub_norm",), "ffn_sub_norm": ("mlp.ffn_sub_norm",),
    "ffn_gate": ("mlp.gate_proj",), "ffn_up": ("mlp.up_proj",), "ffn_down": ("mlp.down_proj",),
}  # fmt: skip


def tensors(arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    out = {}
    rename(out, sd, "", "", {k: v for k, v in GLOBALS.items() if not (cfg.tie_word_embeddings and k == "output")})
    for i in range(cfg.num_hidden_layers):
        rename(out, sd, f"blk.{i}.", f"model.layers.{i}.", NAMES)
    return out


def add_hyper_parameters(w, arch, cfg):
    """Settings as metadata."""
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    w.add_head_count_kv(cfg.num_key_value_heads)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
