# SPDX-License-Identifier: MIT
# Golden models of further architectures with experts: their settings, their tensors under GGUF's names, and their
# hyper-parameters. make_archs.py makes them with the others.


import gguf
import numpy as np
import transformers as tf
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe

import make_models as mm

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


def models(text, grouped, plain):
    """{name: (GGUF architecture, class, settings, text)} from what others have in common. A word is another one where the text
    led to words that were nearly as likely as others."""
    routed = dict(moe_intermediate_size=32, num_experts_per_tok=3, tie_word_embeddings=False)
    sliding = ["sliding_attention", "full_attention"]
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
    }  # fmt: skip


ARCHS = ("deepseek", "bailingmoe", "bailingmoe2", "exaone-moe", "hy_v3")
ADJACENT = ("deepseek", "bailingmoe")  # rows of queries and keys in the order of adjacent pairs


def is_own(arch, cfg):
    return arch in ARCHS or isinstance(cfg, tf.SolarOpenConfig)


def layer(out, arch, cfg, i):
    """From what other recent architectures' tensors are called to this one's names."""
    dst = f"blk.{i}."
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
    if arch in ADJACENT:
        w.add_expert_shared_count(shared)
        w.add_expert_weights_norm(cfg.norm_topk_prob)
    else:
        w.add_expert_shared_feed_forward_length(shared * cfg.moe_intermediate_size)
        w.add_expert_shared_count(shared if arch == "glm4moe" else 1)
        w.add_expert_gating_func(SIGMOID)
        w.add_expert_weights_norm(True)
        w.add_expert_weights_scale(getattr(cfg, "routed_scaling_factor", None) or cfg.router_scaling_factor)
    if arch != "hy_v3":  # whose files do not say it
        w.add_leading_dense_block_count(leading)
    if arch == "bailingmoe2":
        w.add_rope_dimension_count(cfg.head_dim // 2)
        w.add_expert_group_count(cfg.n_group)
        w.add_expert_group_used_count(cfg.topk_group)
    if arch == "exaone-moe":
        w.add_array("exaone-moe.attention.sliding_window_pattern", [t == "sliding_attention" for t in cfg.layer_types])
