# SPDX-License-Identifier: MIT
# Golden models of further architectures, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import copy

import torch
import transformers as tf
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP

import make_models as mm
from archs_mamba import TEXT
from archs_older import LLAMA, rename


class Nothing(torch.nn.Module):
    """A part that a layer lacks."""

    def forward(self, x=None, hidden_states=None, **_kwargs):
        x = hidden_states if x is None else x
        return torch.zeros_like(x) if hidden_states is None else (torch.zeros_like(x), None)


class Matrix(torch.nn.Module):
    """One matrix in attention's place."""

    def __init__(self, size):
        super().__init__()
        self.o_proj = torch.nn.Linear(size, size, bias=False)

    def forward(self, hidden_states, **_kwargs):
        return self.o_proj(hidden_states), None


class DeciConfig(tf.LlamaConfig):
    model_type = "deci_golden"
    heads: list | None = None  # of each layer: of queries, of keys and values
    neurons: list | None = None  # of each layer


class DeciForCausalLM(tf.LlamaForCausalLM):
    """Llama's layers, made smaller one by one, as transformers has no class for these."""

    config_class = DeciConfig

    def __init__(self, config):
        super().__init__(config)
        for i, (layer, (q, kv), neurons) in enumerate(zip(self.model.layers, config.heads, config.neurons)):
            own = copy.deepcopy(config)
            own.num_key_value_heads, own.intermediate_size = kv or q, neurons
            layer.self_attn = LlamaAttention(own, i) if kv else Matrix(config.hidden_size) if q else Nothing()
            layer.mlp = LlamaMLP(own) if neurons else Nothing()
            if not q:
                layer.input_layernorm = torch.nn.Identity()
            if not neurons:
                layer.post_attention_layernorm = torch.nn.Identity()


# As in make_archs.py.
MODELS = {
    "bitnet": ("bitnet", tf.BitNetForCausalLM, dict(LLAMA, tie_word_embeddings=True), TEXT),
    "deci": (
        "deci", DeciForCausalLM,
        dict(LLAMA, num_hidden_layers=6, heads=[(4, 2), (0, 0), (4, 0), (4, 1), (0, 0), (4, 4)], neurons=[96, 64, 128, 0, 0, 96]),
        TEXT,
    ),
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
        for part, heads in zip("qk", cfg.heads[i] if arch == "deci" else ()):
            name = f"blk.{i}.attn_{part}.weight"
            if name in out:  # in the order of adjacent pairs
                out[name] = mm.interleave(out[name], heads)
    return out


def add_hyper_parameters(w, arch, cfg):
    """Settings as metadata."""
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    deci = arch == "deci"
    w.add_feed_forward_length(cfg.neurons if deci else cfg.intermediate_size)
    w.add_head_count([q for q, _ in cfg.heads] if deci else cfg.num_attention_heads)
    w.add_head_count_kv([kv for _, kv in cfg.heads] if deci else cfg.num_key_value_heads)
    if deci:
        w.add_key_length(cfg.hidden_size // cfg.num_attention_heads)
        w.add_value_length(cfg.hidden_size // cfg.num_attention_heads)
        w.add_rope_dimension_count(cfg.hidden_size // cfg.num_attention_heads)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
