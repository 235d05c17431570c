# SPDX-License-Identifier: MIT
# Golden models of the text parts of models that see: their settings, what differs in their tensors, and their
# hyper-parameters. make_archs.py makes them with the others. In a text all parts of a position are the same.

from types import SimpleNamespace

import numpy as np
import transformers as tf
from torch import nn


class TextPart(nn.Module):
    """The text part of a model, with a head."""

    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, self.part(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def tie_weights(self):
        self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, tokens):
        return SimpleNamespace(logits=self.lm_head(self.model(tokens, use_cache=False).last_hidden_state))


class Qwen2VL(TextPart):
    config_class, part = tf.Qwen2VLTextConfig, tf.Qwen2VLTextModel


class Qwen3VL(TextPart):
    config_class, part = tf.Qwen3VLTextConfig, tf.Qwen3VLTextModel


class Qwen3VLMoe(TextPart):
    config_class, part = tf.Qwen3VLMoeTextConfig, tf.Qwen3VLMoeTextModel


class HunYuanVL(TextPart):
    config_class, part = tf.HunYuanVLTextConfig, tf.HunYuanVLTextModel


ARCHS = ("qwen2vl", "qwen3vl", "qwen3vlmoe", "hunyuan_vl")
SECTIONS = [4, 2, 2]  # of the pairs of a head that rotate


def models(text, grouped, plain):
    """{name: (GGUF architecture, class, settings, text)} from what others have in common."""
    parts = dict(plain, mrope_section=SECTIONS)
    grouped = dict(grouped, rope_parameters=parts, pad_token_id=None)
    wide = dict(grouped, head_dim=32, rope_parameters=dict(parts, mrope_section=[6, 5, 5]))
    return {
        "qwen2vl": ("qwen2vl", Qwen2VL, dict(grouped, use_sliding_window=False, tie_word_embeddings=False), text),
        "qwen3vl": ("qwen3vl", Qwen3VL, dict(wide, tie_word_embeddings=True), text),
        "qwen3vlmoe": (
            "qwen3vlmoe", Qwen3VLMoe,
            dict(wide, moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3, decoder_sparse_step=1, mlp_only_layers=[],
                 tie_word_embeddings=False),
            text,
        ),
        "hunyuan-vl": (
            "hunyuan_vl", HunYuanVL,
            dict(wide, tie_word_embeddings=True, rope_parameters=dict(parts, rope_type="dynamic", alpha=50.0, factor=1.0, mrope_section=[4] * 4)),
            text,
        ),
    }  # fmt: skip


def fuse(out, arch, i):
    """What the converter's --fuse-qkv makes of a layer."""
    to = f"blk.{i}."
    for kind in ("weight", "bias"):
        if arch in ("qwen2vl", "qwen3vlmoe") and f"{to}attn_q.{kind}" in out:
            out[f"{to}attn_qkv.{kind}"] = np.concatenate([out.pop(f"{to}attn_{part}.{kind}") for part in "qkv"])


def add(w, arch, cfg):
    sections = cfg.rope_parameters["mrope_section"]
    w.add_rope_dimension_sections(sections + [0] * (4 - len(sections)))
    if arch.startswith("qwen3vl"):
        w.add_uint32(f"{arch}.n_deepstack_layers", 3)
    if arch == "hunyuan_vl":
        w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
        w.add_float32("hunyuan_vl.rope.scaling.alpha", cfg.rope_parameters["alpha"])
        w.add_string("hunyuan_vl.rope.scaling.type", "none")
        w.add_rope_scaling_factor(1.0)
