# SPDX-License-Identifier: MIT
# Random weights of golden models, for make_archs.py.

import numpy as np
import torch
import transformers as tf

import archs_deepseek4
import archs_dense
import archs_experts
import archs_gemma3n
import archs_mamba
import archs_more
import archs_qwen4


def has_ones(model, name):
    """Whether 1 is added to the weights of a norm."""
    if isinstance(model, archs_more.MuseForCausalLM):
        return "layernorm" in name
    if isinstance(model, archs_dense.ONES_CLASSES):
        return name.endswith("weight")
    qwen = isinstance(model, (tf.Qwen3_5ForCausalLM, tf.Qwen3_5MoeForCausalLM, tf.Qwen3NextForCausalLM, tf.Qwen4ExpForCausalLM))
    return isinstance(model, (tf.Gemma3ForCausalLM, tf.MiniMaxM3VLForCausalLM, archs_experts.StepForCausalLM)) or (qwen and "linear_attn.norm" not in name)


def fill(model, rng):
    """Random weights, spread so that attention is peaked, routers decide and logits differ."""
    tied = model.config.tie_word_embeddings
    for name, p in model.named_parameters():
        shape, name = tuple(p.shape), name.replace("norm_attn_norm.", "")
        if "norm" in name or ".ln_" in name:
            value = rng.uniform(0.6, 1.4, shape) if name.endswith("weight") else rng.standard_normal(shape) * 0.1
            value -= has_ones(model, name)
        elif name.endswith("A_log"):
            value = np.log(rng.uniform(0.02, 1.0, shape))
        elif "conv1d" in name or "conv.conv" in name:
            value = rng.standard_normal(shape) * 0.7
        elif archs_mamba.deviation(name, np.sqrt(shape[-1])):
            value = rng.standard_normal(shape) * archs_mamba.deviation(name, np.sqrt(shape[-1]))
        else:
            inputs = np.sqrt(shape[-1])
            if name.endswith("moe_statics.e_score_correction_bias"):
                std = 0.05
            elif name.endswith("bias"):
                std = 0.3
            elif name.endswith(("router.scale", "per_expert_scale")):
                std = 0.3
            elif name.endswith("router.proj.weight"):
                std = 2.0
            elif "embed_tokens_per_layer" in name:
                std = 0.2
            elif any(part in name for part in ("embed_tokens", "word_embeddings", "embed_in", ".wte.")):
                std = 0.5 if tied else 1.0
            elif "embed_positions" in name or ".wpe." in name or "lm_head" in name or "embed_out" in name:
                std = 0.5
            elif any(part in name for part in ("down_proj", "out_proj", "feed_forward.w2", "o_proj", "fc2", ".dense.", "4h_to_h")):
                std = 0.8 / inputs
            elif name.endswith("sinks"):
                std = 1.5
            elif "gate_up_proj" in name and isinstance(model, (tf.GptOssForCausalLM, tf.MiniMaxM3VLForCausalLM)):
                std = 4.0 / inputs  # some beyond the clamps
            elif "kv_b_proj" in name or "q_b_proj" in name:
                std = 2.0 / inputs
            elif name.endswith(("mlp.gate.weight", "gate.wg.weight", "router.weight", "feed_forward.gate.weight", "router.layer.weight")):
                std = 2.0 / inputs
            else:
                std = 1.4 / inputs
            std = archs_qwen4.spread(model, name, inputs) or archs_deepseek4.spread(model, name, inputs) or archs_gemma3n.spread(model, name, inputs) or std
            value = rng.standard_normal(shape) * std + name.endswith(("router.scale", "per_expert_scale"))
        p.data = torch.from_numpy(value.astype(np.float32))
    for name, b in model.named_buffers():
        if name.endswith("layer_scalar"):
            b.fill_(rng.uniform(0.7, 1.3))
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            b.copy_(torch.from_numpy(rng.standard_normal(tuple(b.shape)) * 0.2))


# ---- transformers' tensors under GGUF's names ------------------------------------------------------------------
