# SPDX-License-Identifier: MIT
# Golden models of further architectures with experts: their settings, their tensors under GGUF's names, and their
# hyper-parameters. make_archs.py makes them with the others.


from types import SimpleNamespace

import gguf
import numpy as np
import transformers as tf
from torch import nn
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe
from transformers.models.step3p7 import configuration_step3p7, modeling_step3p7

import make_models as mm

SLIDING = "sliding_attention"
SIGMOID = gguf.ExpertGatingFuncType.SIGMOID


class SharedBlock(qwen3_moe.Qwen3MoeSparseMoeBlock):
    """Experts chosen by softmax, and one that all tokens use."""

    def __init__(self, config):
        super().__init__(config)
        self.shared_experts = qwen3_moe.Qwen3MoeMLP(config, config.moe_intermediate_size * config.num_shared_experts)

    def forward(self, hidden_states):
        return super().forward(hidden_states) + self.shared_experts(hidden_states)


class LlamaWithExperts(tf.LlamaForCausalLM):
    """DeepSeek's first model with experts, and Ling's, which transformers does not have: Llama with other feed-forward parts."""

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers[config.first_k_dense_replace :]:
            layer.mlp = SharedBlock(config)


class StepForCausalLM(nn.Module):
    """Step 3.5: the text part of what transformers has for Step 3.7."""

    config_class = configuration_step3p7.Step3p7TextConfig

    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, modeling_step3p7.Step3p7TextModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        config.allow_global_per_layer_attribute_access = True

    def forward(self, tokens):
        return SimpleNamespace(logits=self.lm_head(self.model(tokens, use_cache=False).last_hidden_state))


def models(text, grouped, plain):
    """{name: (GGUF architecture, class, settings, text)} from what others have in common. A word is another one where the text
    led to words that were nearly as likely as others."""
    routed = dict(moe_intermediate_size=32, num_experts_per_tok=3, tie_word_embeddings=False)
    sliding = ["sliding_attention", "full_attention"]
    windows = dict(grouped, **routed, head_dim=32, num_experts=8, max_position_embeddings=256, sliding_window=20, pad_token_id=None)
    llama4 = dict(
        grouped, head_dim=32, intermediate_size=64, intermediate_size_mlp=96, num_local_experts=4, max_position_embeddings=256,
        pad_token_id=None, tie_word_embeddings=False, attention_bias=False,
    )
    deepseek = dict(grouped, **routed, num_experts=8, num_shared_experts=2, norm_topk_prob=False, first_k_dense_replace=1)
    glm = dict(
        grouped, **routed, head_dim=32, n_routed_experts=8, n_shared_experts=2, norm_topk_prob=True, routed_scaling_factor=1.7,
        first_k_dense_replace=1, num_hidden_layers=3,
    )  # fmt: skip
    return {
        "deepseek": ("deepseek", LlamaWithExperts, dict(deepseek, num_key_value_heads=4), text),
        "bailing": ("bailingmoe", LlamaWithExperts, dict(deepseek, norm_topk_prob=True, first_k_dense_replace=0), text),
        # Ling 2's code is that of GLM-4.5 with its matrices of queries, keys and values in one.
        "bailing2": (
            "bailingmoe2", tf.Glm4MoeForCausalLM,
            dict(glm, head_dim=16, n_group=4, topk_group=2, use_qk_norm=True, attention_bias=False,
                 rope_parameters=dict(plain, partial_rotary_factor=0.5)),
            text.replace("small", "little"),
        ),
        "solar-open": (
            "glm4moe", tf.SolarOpenForCausalLM,
            {k: v for k, v in glm.items() if k not in ("intermediate_size", "first_k_dense_replace")}
            | dict(num_hidden_layers=2, n_group=1, topk_group=1),
            text.replace("shore", "hill"),
        ),
        "exaone-moe": (
            "exaone-moe", tf.ExaoneMoeForCausalLM,
            dict(grouped, **routed, head_dim=32, num_experts=8, num_shared_experts=2, norm_topk_prob=True, n_group=1, topk_group=1,
                 routed_scaling_factor=1.7, max_position_embeddings=256, sliding_window=20, pad_token_id=None,
                 layer_types=sliding, mlp_layer_types=["dense", "sparse"]),
            text.replace("sea", "fish") * 2,
        ),
        "hy-v3": (
            "hy_v3", tf.HYV3ForCausalLM,
            dict(grouped, **routed, head_dim=32, num_experts=8, num_shared_experts=2, router_scaling_factor=1.7),
            text.replace("small", "little"),
        ),
        "afmoe": (
            "afmoe", tf.AfmoeForCausalLM,
            dict(windows, num_shared_experts=2, num_dense_layers=1, route_scale=1.7, mup_enabled=True, num_hidden_layers=4,
                 layer_types=[SLIDING] * 3 + ["full_attention"]),
            text * 2,
        ),
        "laguna": (
            "laguna", tf.LagunaForCausalLM,
            dict(windows, shared_expert_intermediate_size=64, moe_routed_scaling_factor=1.7, layer_types=sliding[::-1],
                 mlp_layer_types=["dense", "sparse"], num_attention_heads_per_layer=[4, 6], gating=True, attention_bias=False,
                 rope_parameters={"full_attention": dict(YARN, partial_rotary_factor=0.5), "sliding_attention": dict(plain, rope_theta=5000.0)}),
            text * 2,
        ),
        "laguna-m": (
            "laguna", tf.LagunaForCausalLM,
            dict(windows, shared_expert_intermediate_size=64, moe_routed_scaling_factor=1.7, layer_types=["full_attention"] * 2,
                 mlp_layer_types=["dense", "sparse"], gating="per-element", attention_bias=False,
                 rope_parameters={"full_attention": dict(YARN, partial_rotary_factor=0.5), "sliding_attention": plain}),
            text.replace("shore", "hill"),
        ),
        "step35": (
            "step35", StepForCausalLM,
            {k: v for k, v in windows.items() if k not in ("num_experts", "rope_parameters")}
            | dict(n_routed_experts=8, share_expert_dim=64, num_hidden_layers=3, layer_types=["full_attention", *sliding],
                   mlp_layer_types=["dense", "sparse", "sparse"], moe_router_scaling_factor=1.7, swiglu_limits=[0.0, 0.0, 0.8],
                   num_sliding_attention_heads=6, swiglu_limits_shared=[0.0, 0.6, 0.0], pad_token_id=0,
                   rope_parameters={"full_attention": dict(LLAMA3, partial_rotary_factor=0.5),
                                    "sliding_attention": dict(plain, rope_theta=5000.0)}),
            text.replace("shore", "hill") * 2,
        ),
        "llama4": (
            "llama4", tf.Llama4ForCausalLM,
            dict(llama4, num_hidden_layers=4, interleave_moe_layer_step=2, num_experts_per_tok=1),
            text,
        ),
        # What files do not say of models: chunks and growth as short as the text.
        "llama4-chunks": (
            "llama4", tf.Llama4ForCausalLM, dict(llama4, no_rope_layer_interval=2, attention_chunk_size=20, floor_scale=16, num_experts_per_tok=2),
            text * 2,
        ),
        "mimo2": (
            "mimo2", tf.MiMoV2FlashForCausalLM,
            {k: v for k, v in windows.items() if k not in ("num_experts", "rope_parameters")}
            | dict(n_routed_experts=8, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.0, head_dim=64, v_head_dim=32,
                   num_key_value_heads=1, layer_types=sliding[::-1], mlp_layer_types=["dense", "sparse"], attention_value_scale=0.7,
                   rope_parameters={"full_attention": dict(plain, partial_rotary_factor=0.5),
                                    "sliding_attention": dict(plain, rope_theta=5000.0, partial_rotary_factor=0.5)}),
            text.replace("every", "each") * 2,
        ),
    }  # fmt: skip


# Of a text that is longer than the one the model was first trained with.
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = dict(YARN, rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0)
ARCHS = ("deepseek", "bailingmoe", "bailingmoe2", "exaone-moe", "hy_v3", "afmoe", "laguna", "step35", "mimo2", "llama4")
ADJACENT = ("deepseek", "bailingmoe")  # rows of queries and keys in the order of adjacent pairs


def is_own(arch, cfg):
    return arch in ARCHS or isinstance(cfg, tf.SolarOpenConfig)


def as_others(arch, sd):
    """The state dictionary under the names that other recent architectures have."""
    if arch == "llama4":
        sd = {k.replace("feed_forward.router.", "mlp.gate.").replace("feed_forward.", "mlp."): v for k, v in sd.items()}
        return {k: v.transpose(0, 2, 1) if ".experts." in k else v for k, v in sd.items()}  # inputs first
    if arch != "afmoe":
        return sd
    pairs = (("mlp.router.gate.", "mlp.gate."), ("mlp.expert_bias", "mlp.e_score_correction_bias"))
    for theirs, ours in pairs:
        sd = {k.replace(theirs, ours): v for k, v in sd.items()}
    return sd


def layer(out, sd, arch, cfg, i):
    """From what other recent architectures' tensors are called to this one's names."""
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    for name in ("gate_proj", "g_proj"):
        if f"{src}self_attn.{name}.weight" in sd:
            out[dst + "attn_gate.weight"] = sd[f"{src}self_attn.{name}.weight"]
    if src + "self_attn.sinks" in sd:
        out[dst + "attn_sinks.weight"] = sd[src + "self_attn.sinks"]
    if arch == "mimo2" and i == 1:  # newer files have all layers so
        out[dst + "attn_qkv.weight"] = np.concatenate([out.pop(f"{dst}attn_{part}.weight") for part in "qkv"])
    if arch == "afmoe":
        out[dst + "post_attention_norm.weight"] = out[dst + "ffn_norm.weight"]
        out[dst + "ffn_norm.weight"] = sd[src + "pre_mlp_layernorm.weight"]
        out[dst + "post_ffw_norm.weight"] = sd[src + "post_mlp_layernorm.weight"]
    for part, heads in (("q", cfg.num_attention_heads), ("k", cfg.num_key_value_heads)):
        if arch in ADJACENT:
            out[f"{dst}attn_{part}.weight"] = mm.interleave(out[f"{dst}attn_{part}.weight"], heads)
    if arch == "bailingmoe2":
        out[dst + "attn_qkv.weight"] = np.concatenate([out.pop(f"{dst}attn_{part}.weight") for part in "qkv"])
    if arch == "glm4moe":
        out[dst + "post_attention_norm.weight"] = out.pop(dst + "ffn_norm.weight")
    if arch == "hy_v3" and dst + "exp_probs_b.bias" in out:
        out[dst + "exp_probs_b"] = out.pop(dst + "exp_probs_b.bias")


def hyper_parameters(w, arch, cfg, leading):
    """What is not said as others say it."""
    shared = getattr(cfg, "n_shared_experts", None) or getattr(cfg, "num_shared_experts", 0)
    length = getattr(cfg, "shared_expert_intermediate_size", None) or getattr(cfg, "share_expert_dim", None)
    scales = ("routed_scaling_factor", "router_scaling_factor", "route_scale", "moe_routed_scaling_factor", "moe_router_scaling_factor")
    if arch in ADJACENT:
        w.add_expert_shared_count(shared)
        w.add_expert_weights_norm(cfg.norm_topk_prob)
    elif arch not in ("mimo2", "llama4"):
        w.add_expert_shared_feed_forward_length(length or shared * cfg.moe_intermediate_size)
        w.add_expert_shared_count(shared if arch in ("glm4moe", "afmoe") else 1)
        w.add_expert_gating_func(SIGMOID)
        w.add_expert_weights_norm(True)
        w.add_expert_weights_scale(next(getattr(cfg, s) for s in scales if getattr(cfg, s, None)))
    if arch not in ("hy_v3", "mimo2", "llama4"):  # whose files do not say it
        w.add_leading_dense_block_count(leading)
    if arch == "bailingmoe2":
        w.add_rope_dimension_count(cfg.head_dim // 2)
        w.add_expert_group_count(cfg.n_group)
        w.add_expert_group_used_count(cfg.topk_group)
    if arch in ("exaone-moe", "step35", "mimo2"):
        w.add_array(f"{arch}.attention.sliding_window_pattern", [t == SLIDING for t in cfg.layer_types])
    if arch in ("laguna", "step35", "mimo2"):
        own_rotations(w, arch, cfg)
    if arch == "laguna":
        w.add_head_count(cfg.num_attention_heads_per_layer)
        w.add_rope_dimension_count(cfg.head_dim // 2)
    if arch == "llama4":
        w.add_feed_forward_length(cfg.intermediate_size_mlp)
        w.add_expert_feed_forward_length(cfg.intermediate_size)
        w.add_interleave_moe_layer_step(cfg.interleave_moe_layer_step)
    if arch == "llama4" and cfg.attention_chunk_size < 8192:
        w.add_sliding_window(cfg.attention_chunk_size)
        w.add_uint32("llama4.attention.sliding_window_pattern", cfg.no_rope_layer_interval)
        w.add_uint32("llama4.attention.temperature_length", cfg.floor_scale)
    if arch == "mimo2":
        w.add_head_count_kv([2 if t == SLIDING else 1 for t in cfg.layer_types])
        w.add_value_length(cfg.v_head_dim)
        w.add_rope_dimension_count(cfg.head_dim // 2)
        w.add_float32("mimo2.attention.value_scale", cfg.attention_value_scale)
    if arch == "step35":
        w.add_head_count([6 if t == SLIDING else 4 for t in cfg.layer_types])
        w.add_array("step35.swiglu_clamp_exp", cfg.swiglu_limits)
        w.add_array("step35.swiglu_clamp_shexp", cfg.swiglu_limits_shared)


def own_rotations(w, arch, cfg):
    """Of layers with a window, and of those without."""
    full = cfg.rope_parameters["full_attention"]
    if full["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(full["factor"])
        w.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
    if SLIDING in cfg.layer_types:
        w.add_float32(f"{arch}.rope.freq_base_swa", cfg.rope_parameters[SLIDING]["rope_theta"])
    if SLIDING in cfg.layer_types and arch == "laguna":
        w.add_uint32("laguna.rope.dimension_count_swa", cfg.head_dim)


def tables(arch, cfg, model):
    """Tensors that are no weights of the model in transformers."""
    if arch != "step35":
        return {}
    plain = 10000.0 ** (-np.arange(cfg.head_dim // 4) / (cfg.head_dim // 4))
    own = model.model.rotary_emb.full_attention_inv_freq.numpy()
    return {"rope_freqs.weight": np.concatenate([plain / own, np.ones(cfg.head_dim // 4)])}
