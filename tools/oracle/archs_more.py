# SPDX-License-Identifier: MIT
# Golden models of further architectures, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import copy
import types

import gguf
import numpy as np
import torch
import transformers as tf
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.muse_glimmer import modeling_muse_glimmer as muse
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP

import make_models as mm
from archs_mamba import COMMON, TEXT
from archs_older import LLAMA, PLAIN, experts, rename


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


class Still(torch.nn.Module):
    """A rotation that turns nothing."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, position_ids, **_kwargs):
        ones = torch.ones(*position_ids.shape, self.dim, dtype=x.dtype)
        return ones, torch.zeros_like(ones)


class RefactForCausalLM(tf.LlamaForCausalLM):
    """Llama without rotation, with BLOOM's bias of scores, as transformers has no class for these."""

    def __init__(self, config):
        super().__init__(config)
        self.model.rotary_emb = Still(config.hidden_size // config.num_attention_heads)

    def forward(self, input_ids, **kwargs):
        n = input_ids.shape[1]
        bias = build_alibi_tensor(torch.ones(1, n), self.config.num_attention_heads, self.dtype)  # [heads, 1, n]
        mask = bias[None] + torch.full((n, n), float("-inf"), dtype=self.dtype).triu(1)
        return super().forward(input_ids, attention_mask=mask, **kwargs)


class MuseForCausalLM(torch.nn.Module):
    """The text part of Muse Glimmer with its head, as transformers has no class for that alone."""

    config_class = muse.MuseGlimmerTextConfig

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = muse.MuseGlimmerTextModel(config)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, **_kwargs):
        cap = self.config.final_logit_softcapping
        logits = self.lm_head(self.model(input_ids, use_cache=False).last_hidden_state) * self.config.output_multiplier
        return types.SimpleNamespace(logits=torch.tanh(logits / cap) * cap)


FULL, SLIDING = "full_attention", "sliding_attention"
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
ALIBI = dict(
    vocab_size=COMMON["vocab_size"], bos_token_id=None, eos_token_id=None, attn_implementation="eager", tie_word_embeddings=True,
)  # fmt: skip

# As in make_archs.py.
MODELS = {
    "bitnet": ("bitnet", tf.BitNetForCausalLM, dict(LLAMA, tie_word_embeddings=True), TEXT),
    "deci": (
        "deci", DeciForCausalLM,
        dict(LLAMA, num_hidden_layers=6, heads=[(4, 2), (0, 0), (4, 0), (4, 1), (0, 0), (4, 4)], neurons=[96, 64, 128, 0, 0, 96]),
        TEXT,
    ),
    "bloom": ("bloom", tf.BloomForCausalLM, dict(ALIBI, hidden_size=96, n_layer=2, n_head=6), TEXT * 2),
    "mpt": (
        "mpt", tf.MptForCausalLM,
        dict(ALIBI, d_model=64, n_layers=2, n_heads=4, max_seq_len=256, attn_config=dict(clip_qkv=1.5)),
        TEXT * 2,
    ),
    "mellum": (
        "mellum", tf.MellumForCausalLM,
        dict(LLAMA, head_dim=32, max_position_embeddings=256, moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3, sliding_window=20,
             layer_types=[SLIDING, FULL], rope_parameters={"full_attention": YARN, "sliding_attention": PLAIN}),
        TEXT * 2,
    ),
    "granite-swa": (
        "granite_swa", tf.GraniteSWAForCausalLM,
        dict(LLAMA, num_hidden_layers=3, max_position_embeddings=256, sliding_window=20, layer_types=[FULL, SLIDING, SLIDING],
             layer_rope_theta=[0.0, 10000.0, 10000.0], embedding_multiplier=2.5, attention_multiplier=0.3, residual_multiplier=0.6,
             logits_scaling=1.7, tie_word_embeddings=True),
        TEXT * 2,
    ),
    "muse-glimmer": (
        "muse-glimmer", MuseForCausalLM,
        dict({k: v for k, v in LLAMA.items() if k != "experts_implementation"}, num_hidden_layers=3, head_dim=32, max_position_embeddings=256,
             sliding_window=20, layer_types=[SLIDING, SLIDING, FULL], layer_rope_theta=[10000.0, 10000.0, 0.0], qk_scale_factor=2.0,
             output_multiplier=1.3, final_logit_softcapping=15.0),
        TEXT.replace("wife", "son") * 2,
    ),
    "refact": ("refact", RefactForCausalLM, dict(LLAMA, num_key_value_heads=1), TEXT),
}  # fmt: skip
ARCHS = {model[0] for model in MODELS.values()}

GLOBALS = {
    "token_embd": ("model.embed_tokens", "transformer.word_embeddings", "transformer.wte"), "token_embd_norm": ("transformer.word_embeddings_layernorm",),
    "output_norm": ("model.norm", "transformer.ln_f", "transformer.norm_f"), "output": ("lm_head",),
}  # fmt: skip
# GGUF's names, and what the architectures' classes call these tensors.
NAMES = {
    "attn_norm": ("input_layernorm", "norm_1"), "ffn_norm": ("post_attention_layernorm", "norm_2"), "attn_gate": ("self_attn.gate_proj",),
    "attn_qkv": ("self_attention.query_key_value", "attn.Wqkv"),
    "attn_q": ("self_attn.q_proj",), "attn_k": ("self_attn.k_proj",), "attn_v": ("self_attn.v_proj",), "attn_output": ("self_attn.o_proj", "self_attention.dense", "attn.out_proj"),
    "attn_sub_norm": ("self_attn.attn_sub_norm",), "ffn_sub_norm": ("mlp.ffn_sub_norm",),
    "attn_q_norm": ("self_attn.q_norm",), "attn_k_norm": ("self_attn.k_norm",), "ffn_gate_inp": ("mlp.gate",),
    "ffn_gate": ("mlp.gate_proj",), "ffn_up": ("mlp.up_proj", "mlp.dense_h_to_4h", "ffn.up_proj"),
    "ffn_down": ("mlp.down_proj", "mlp.dense_4h_to_h", "ffn.down_proj"),
}  # fmt: skip


def tensors(arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    out = {}
    rename(out, sd, "", "", {k: v for k, v in GLOBALS.items() if not (cfg.tie_word_embeddings and k == "output")})
    for i in range(cfg.num_hidden_layers):
        source = next(s for s in (f"model.layers.{i}.", f"transformer.h.{i}.", f"transformer.blocks.{i}.") if any(k.startswith(s) for k in sd))
        rename(out, sd, f"blk.{i}.", source, NAMES)
        for kind in ("weight", "bias") if arch == "bloom" else ():  # each head's queries, keys and values are side by side there
            name = f"blk.{i}.attn_qkv.{kind}"
            each = out[name].reshape(cfg.n_head, 3, -1, *out[name].shape[1:])
            out[name] = np.concatenate([each[:, part].reshape(-1, *out[name].shape[1:]) for part in range(3)])
        experts(out, sd, f"blk.{i}.", source, cfg)
        if source + "self_attn.sinks" in sd:
            out[f"blk.{i}.attn_sinks.weight"] = sd[source + "self_attn.sinks"]
        if arch == "muse-glimmer":
            for ours, theirs in (("post_attention_norm", "post_attention_layernorm"), ("ffn_norm", "pre_feedforward_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm")):
                out[f"blk.{i}.{ours}.weight"] = sd[f"{source}{theirs}.weight"]
        rows = (cfg.num_attention_heads, cfg.num_key_value_heads) if arch in ("granite_swa", "muse-glimmer") else cfg.heads[i] if arch == "deci" else ()
        for part, heads in zip("qk", rows):
            name = f"blk.{i}.attn_{part}.weight"
            if name in out:  # in the order of adjacent pairs
                out[name] = mm.interleave(out[name], heads)
    return out


def tables(arch, cfg):
    """Tensors that are no weights of the model in transformers: norms of heads, whose weights are numbers there."""
    return {
        f"blk.{i}.attn_{part}_norm.weight": np.full(cfg.head_dim, scale, np.float32)
        for i in range(cfg.num_hidden_layers if arch == "muse-glimmer" else 0) for part, scale in (("q", cfg.qk_scale_factor), ("k", 1.0))
    }  # fmt: skip


def add_hyper_parameters(w, arch, cfg):
    """Settings as metadata."""
    if arch in ("bloom", "mpt"):
        w.add_context_length(256)
        w.add_embedding_length(cfg.hidden_size)
        w.add_block_count(cfg.num_hidden_layers)
        w.add_feed_forward_length(4 * cfg.hidden_size)
        w.add_head_count(cfg.num_attention_heads)
        w.add_layer_norm_eps(1e-5)
        if arch == "bloom":
            w.add_head_count_kv(cfg.n_head)
        else:
            w.add_clamp_kqv(cfg.attn_config.clip_qkv)
            w.add_max_alibi_bias(cfg.attn_config.alibi_bias_max)
        return
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
    if arch in ("mellum", "granite_swa", "muse-glimmer"):
        w.add_sliding_window(cfg.sliding_window)
        w.add_sliding_window_pattern([t == SLIDING for t in cfg.layer_types])
    if arch == "granite_swa":
        w.add_embedding_scale(cfg.embedding_multiplier)
        w.add_attention_scale(cfg.attention_multiplier)
        w.add_residual_scale(cfg.residual_multiplier)
        w.add_logit_scale(cfg.logits_scaling)
        w.add_rope_pattern([theta != 0 for theta in cfg.layer_rope_theta])
        w.add_rope_dimension_count(cfg.hidden_size // cfg.num_attention_heads)
    if arch in ("mellum", "muse-glimmer"):
        w.add_key_length(cfg.head_dim)
        w.add_value_length(cfg.head_dim)
    if arch == "muse-glimmer":
        w.add_rope_dimension_count(cfg.head_dim)
        w.add_logit_scale(cfg.output_multiplier)
        w.add_final_logit_softcapping(cfg.final_logit_softcapping)
    if arch == "mellum":
        w.add_expert_count(cfg.num_local_experts)
        w.add_expert_used_count(cfg.num_experts_per_tok)
        w.add_expert_feed_forward_length(cfg.moe_intermediate_size)
        w.add_rope_freq_base(YARN["rope_theta"])
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(YARN["factor"])
        w.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])
    elif arch != "refact":
        w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
