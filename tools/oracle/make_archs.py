# SPDX-License-Identifier: MIT
# Makes the golden models of architectures other than plain llama: tiny random ones of transformers, written as
# Q8_0 and, smaller ones with a shorter text, as F16 and Q4_0, with golden logits, greedy continuations and, where there are experts, the chosen ones. Formats and how to set
# up are in tests/golden/README.md.
#
#   python make_archs.py [--out DIR] [NAME ...]

import argparse
import copy
import itertools
import os

import gguf
import numpy as np
import torch
import transformers as tf
from gguf import GGMLQuantizationType as T

import archs_deepseek4
import archs_dense
import archs_dsa
import archs_experts
import archs_gemma3n
import archs_kimi
import archs_mamba
import archs_minimax
import archs_more
import archs_nextn
import archs_older
import archs_qwen4
import archs_vision
import make_models as mm
import small_formats
from oracle_common import N_VOCAB, SpmVocab, write_logits
from smallthinker import SmallThinkerForCausalLM
from spread import fill

TEXT = "The fisherman and his wife lived in a small hut on the shore, and every day he went out to sea"
OTHER = TEXT.replace("lived", "dwelt")  # where TEXT leads to words that are nearly as likely as others
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
COMMON = dict(
    vocab_size=N_VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
    bos_token_id=None, eos_token_id=None, attn_implementation="eager", experts_implementation="eager",
)
GROUPED = dict(COMMON, intermediate_size=96, num_key_value_heads=2, rope_parameters=PLAIN, rms_norm_eps=1e-6)
WINDOWS = dict(GROUPED, max_position_embeddings=256, sliding_window=20, head_dim=32)
LATENT = dict(
    GROUPED, num_key_value_heads=4, num_hidden_layers=3, kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=32,
    v_head_dim=32, moe_intermediate_size=32, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
    tie_word_embeddings=False,
)
LATENT_YARN = dict(YARN, mscale=0.7, mscale_all_dim=0.7)
# Of three layers two are recurrent. Two heads of values share one of queries and keys.
DELTA = dict(
    GROUPED, num_hidden_layers=3, max_position_embeddings=256, head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4,
    linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
    layer_types=["linear_attention", "linear_attention", "full_attention"],
    rope_parameters=dict(PLAIN, partial_rotary_factor=0.25, mrope_section=[2, 1, 1]),
)
CONV = dict(
    COMMON, num_hidden_layers=3, intermediate_size=96, num_key_value_heads=2, norm_eps=1e-6, conv_L_cache=3, conv_bias=False,
    max_position_embeddings=256, layer_types=["conv", "full_attention", "conv"], rope_parameters=PLAIN, pad_token_id=None,
)
EXPERTS = dict(moe_intermediate_size=32, num_experts_per_tok=3)
HALF = dict(PLAIN, partial_rotary_factor=0.5)
SCALES = dict(embedding_multiplier=2.5, attention_multiplier=0.3, residual_multiplier=0.6, logits_scaling=1.7)
FALCON = dict(COMMON, ffn_hidden_size=256, parallel_attn=True, bias=False, alibi=False)

# Layers without a window have one head of keys and values, and heads twice as large; they rotate a quarter of it.
GEMMA4 = dict(
    WINDOWS, global_head_dim=64, final_logit_softcapping=8.0, hidden_size_per_layer_input=0, tie_word_embeddings=True,
    pad_token_id=None,
    rope_parameters={"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
                     "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
)
SLIDING, FULL = "sliding_attention", "full_attention"

# name: (GGUF architecture, class of transformers, its configuration, text)
MODELS = {
    "qwen2": ("qwen2", tf.Qwen2ForCausalLM, dict(GROUPED, tie_word_embeddings=False), TEXT),
    "qwen2-yarn": (
        "qwen2", tf.Qwen2ForCausalLM, dict(GROUPED, rope_parameters=YARN, tie_word_embeddings=False), TEXT,
    ),
    "qwen3": ("qwen3", tf.Qwen3ForCausalLM, dict(GROUPED, head_dim=32, tie_word_embeddings=True), TEXT),
    "qwen3moe": (
        "qwen3moe", tf.Qwen3MoeForCausalLM,
        dict(GROUPED, head_dim=32, moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True,
             decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False),
        TEXT,
    ),
    "mixtral": (
        "llama", tf.MixtralForCausalLM,
        dict(GROUPED, rms_norm_eps=1e-5, num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
             tie_word_embeddings=False),
        TEXT,
    ),
    "window": (
        "llama", tf.MistralForCausalLM,
        dict(GROUPED, rms_norm_eps=1e-5, max_position_embeddings=256, sliding_window=20, tie_word_embeddings=False),
        TEXT * 2,
    ),
    "falcon-7b": (
        "falcon", tf.FalconForCausalLM,
        dict(FALCON, multi_query=True, new_decoder_architecture=False, tie_word_embeddings=True), TEXT,
    ),
    "falcon-40b": (
        "falcon", tf.FalconForCausalLM,
        dict(FALCON, num_kv_heads=2, new_decoder_architecture=True, tie_word_embeddings=False), TEXT,
    ),
    "opt": (
        "opt", tf.OPTForCausalLM,
        dict(COMMON, ffn_dim=96, max_position_embeddings=126, word_embed_proj_dim=64, do_layer_norm_before=True,
             activation_function="relu", dropout=0.0, pad_token_id=None, tie_word_embeddings=True),
        TEXT,
    ),
    "gemma3": (
        "gemma3", tf.Gemma3ForCausalLM,
        dict(WINDOWS, query_pre_attn_scalar=32, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
             num_hidden_layers=3, tie_word_embeddings=True,
             rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
        TEXT * 2,
    ),
    "gemma4": (
        "gemma4", tf.Gemma4ForCausalLM,
        dict(GEMMA4, num_hidden_layers=4, layer_types=[SLIDING, FULL, SLIDING, FULL], attention_k_eq_v=True,
             num_global_key_value_heads=1),
        TEXT * 2,
    ),
    "gemma4-e": (
        "gemma4", tf.Gemma4ForCausalLM,
        dict(GEMMA4, num_hidden_layers=5, layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL], num_kv_shared_layers=3,
             use_double_wide_mlp=True, hidden_size_per_layer_input=32, vocab_size_per_layer_input=N_VOCAB),
        TEXT * 2,
    ),
    "gemma4-moe": (
        "gemma4", tf.Gemma4ForCausalLM,
        dict(GEMMA4, layer_types=[SLIDING, FULL], attention_k_eq_v=True, num_global_key_value_heads=1,
             enable_moe_block=True, num_experts=8, top_k_experts=3, moe_intermediate_size=32),
        TEXT * 2,
    ),
    "gpt-oss": (
        "gpt-oss", tf.GptOssForCausalLM,
        dict(WINDOWS, intermediate_size=32, num_local_experts=8, num_experts_per_tok=4, tie_word_embeddings=False,
             rope_parameters=dict(YARN, truncate=False)),
        TEXT * 2,
    ),
    "granitemoe": (
        "granitemoe", tf.GraniteMoeSharedForCausalLM,
        dict(GROUPED, intermediate_size=32, shared_intermediate_size=64, num_local_experts=8, num_experts_per_tok=3,
             pad_token_id=None, tie_word_embeddings=False, **SCALES),
        TEXT,
    ),
    "phi3": (
        "phi3", tf.Phi3ForCausalLM,
        dict(GROUPED, max_position_embeddings=256, num_attention_heads=2, num_key_value_heads=1, sliding_window=20,
             rope_parameters=dict(PLAIN, partial_rotary_factor=0.75), pad_token_id=None, tie_word_embeddings=False),
        TEXT * 2,
    ),
    "phi3-long": (
        "phi3", tf.Phi3ForCausalLM,
        dict(GROUPED, max_position_embeddings=256, original_max_position_embeddings=128, pad_token_id=None,
             tie_word_embeddings=False,
             rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 128,
                              "short_factor": [1.0 + 0.2 * i for i in range(8)], "long_factor": [3.0 + i for i in range(8)]}),
        TEXT,
    ),
    "glm4moe": (
        "glm4moe", tf.Glm4MoeForCausalLM,
        dict(GROUPED, head_dim=32, num_hidden_layers=3, first_k_dense_replace=1, moe_intermediate_size=32, n_routed_experts=8,
             num_experts_per_tok=3, n_shared_experts=2, n_group=1, topk_group=1, norm_topk_prob=True, use_qk_norm=True,
             routed_scaling_factor=1.7, attention_bias=True, rope_parameters=dict(PLAIN, partial_rotary_factor=0.5),
             tie_word_embeddings=False),
        TEXT,
    ),
    "deepseek-v2": (
        "deepseek2", tf.DeepseekV2ForCausalLM,
        dict(LATENT, q_lora_rank=None, first_k_dense_replace=1, n_group=4, topk_group=2, topk_method="group_limited_greedy",
             routed_scaling_factor=1.5, norm_topk_prob=False, rope_parameters=LATENT_YARN, head_dim=16),
        TEXT,
    ),
    "deepseek-v2-joint": (
        "deepseek2", tf.DeepseekV2ForCausalLM,
        dict(LATENT, q_lora_rank=None, num_hidden_layers=2, first_k_dense_replace=1, n_group=1, topk_group=1,
             topk_method="greedy", routed_scaling_factor=1.0, norm_topk_prob=False, head_dim=16),
        TEXT,
    ),
    "deepseek-v3": (
        "deepseek2", tf.DeepseekV3ForCausalLM,
        dict(LATENT, q_lora_rank=32, first_k_dense_replace=1, n_group=4, topk_group=2, norm_topk_prob=True,
             routed_scaling_factor=2.5, rope_interleave=True, rope_parameters=dict(LATENT_YARN, mscale=1.0, mscale_all_dim=1.0)),
        TEXT,
    ),
    "glm-lite": (
        "deepseek2", tf.Glm4MoeLiteForCausalLM,
        dict(LATENT, num_attention_heads=10, num_key_value_heads=10, q_lora_rank=32, v_head_dim=64, num_hidden_layers=2,
             n_shared_experts=1, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.8, rope_interleave=True),
        TEXT,
    ),
    "qwen35-next": ("qwen35", tf.Qwen3_5ForCausalLM, dict(DELTA, tie_word_embeddings=True), OTHER),
    "glm-lite-next": (
        "deepseek2", tf.Glm4MoeLiteForCausalLM,
        dict(LATENT, q_lora_rank=32, num_hidden_layers=2, n_shared_experts=1, n_group=1, topk_group=1, norm_topk_prob=True,
             routed_scaling_factor=1.8, rope_interleave=True),
        OTHER,
    ),
    "qwen35": ("qwen35", tf.Qwen3_5ForCausalLM, dict(DELTA, tie_word_embeddings=True), TEXT * 2),
    "qwen35moe": (
        "qwen35moe", tf.Qwen3_5MoeForCausalLM,
        {k: v for k, v in DELTA.items() if k != "intermediate_size"}
        | dict(moe_intermediate_size=32, shared_expert_intermediate_size=64, num_experts=8, num_experts_per_tok=3,
               tie_word_embeddings=False),
        TEXT * 2,
    ),
    "qwen3next": (
        "qwen3next", tf.Qwen3NextForCausalLM,
        {k: v for k, v in DELTA.items() if k != "rope_parameters"}
        | dict(rope_parameters=dict(PLAIN, partial_rotary_factor=0.25), moe_intermediate_size=32,
               shared_expert_intermediate_size=64, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True,
               decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False),
        TEXT * 2,
    ),
    "lfm2": ("lfm2", tf.Lfm2ForCausalLM, dict(CONV, block_auto_adjust_ff_dim=False, tie_word_embeddings=True), TEXT * 2),
    "lfm2moe": (
        "lfm2moe", tf.Lfm2MoeForCausalLM,
        dict(CONV, moe_intermediate_size=32, num_dense_layers=1, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True,
             use_expert_bias=True, routed_scaling_factor=1.0, tie_word_embeddings=True),
        TEXT * 2,
    ),
    "granite": ("granite", tf.GraniteForCausalLM, dict(GROUPED, **SCALES, pad_token_id=None, tie_word_embeddings=False), OTHER),
    "qwen2moe": (
        "qwen2moe", tf.Qwen2MoeForCausalLM,
        dict(GROUPED, **EXPERTS, shared_expert_intermediate_size=64, num_experts=8, norm_topk_prob=False, decoder_sparse_step=1,
             mlp_only_layers=[], qkv_bias=True, tie_word_embeddings=False),
        TEXT,
    ),
    "seed-oss": (
        "seed_oss", tf.SeedOssForCausalLM,
        dict(GROUPED, head_dim=32, attention_bias=True, attention_out_bias=False, attention_dropout=0.0, residual_dropout=0.0,
             pad_token_id=None, tie_word_embeddings=False),
        TEXT,
    ),
    "dots1": (
        "dots1", tf.Dots1ForCausalLM,
        dict(GROUPED | EXPERTS | {"num_key_value_heads": 4}, num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=8, n_shared_experts=2, n_group=1,
             topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.7, tie_word_embeddings=False),
        TEXT,
    ),
    "glm4": (
        "glm4", tf.Glm4ForCausalLM,
        dict(GROUPED, head_dim=32, attention_bias=True, rope_parameters=HALF, pad_token_id=None, tie_word_embeddings=False), TEXT,
    ),
    "ernie": ("ernie4_5", tf.Ernie4_5ForCausalLM, dict(GROUPED, head_dim=32, pad_token_id=None, tie_word_embeddings=True), OTHER),
    "ernie-moe": (
        "ernie4_5-moe", tf.Ernie4_5_MoeForCausalLM,
        dict(GROUPED, moe_intermediate_size=32, moe_k=3, moe_num_experts=8, moe_num_shared_experts=2, moe_layer_start_index=1,
             num_hidden_layers=3, pad_token_id=None, tie_word_embeddings=False),
        TEXT,
    ),
    "olmoe": (
        "olmoe", tf.OlmoeForCausalLM,
        dict(GROUPED | {"num_key_value_heads": 4}, intermediate_size=32, num_experts=8, num_experts_per_tok=3, norm_topk_prob=False, pad_token_id=None,
             tie_word_embeddings=False),
        TEXT,
    ),
    "minimax-m2": (
        "minimax-m2", tf.MiniMaxM2ForCausalLM,
        dict(GROUPED, head_dim=32, intermediate_size=32, num_local_experts=8, num_experts_per_tok=3, rope_parameters=HALF,
             tie_word_embeddings=False),
        TEXT,
    ),
    "smollm3": ("smollm3", tf.SmolLM3ForCausalLM, dict(GROUPED, num_hidden_layers=4, pad_token_id=None, tie_word_embeddings=True), TEXT),
    "hunyuan": (
        "hunyuan-dense", tf.HunYuanDenseV1ForCausalLM, dict(GROUPED, head_dim=32, pad_token_id=None, tie_word_embeddings=True), OTHER,
    ),
    "hunyuan-moe": (
        "hunyuan-moe", tf.HunYuanMoEV1ForCausalLM,
        dict(GROUPED, head_dim=32, intermediate_size=32, num_experts=8, moe_topk=3, pad_token_id=None, tie_word_embeddings=False),
        TEXT,
    ),
    "mistral3": (
        "mistral3", tf.Ministral3ForCausalLM,
        dict(GROUPED, head_dim=32, pad_token_id=None, tie_word_embeddings=False,
             rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)),
        OTHER,
    ),
    "smallthinker": (
        "smallthinker", SmallThinkerForCausalLM,
        dict(WINDOWS, rope_theta=10000.0, softmax_router=False, num_experts=8, num_experts_per_tok=3,
             moe_intermediate_size=32, tie_word_embeddings=False),
        TEXT * 2,
    ),
}  # fmt: skip

MODELS |= {"mistral4": (
    "mistral4", tf.Mistral4ForCausalLM,
    dict(LATENT, q_lora_rank=32, num_hidden_layers=2, first_k_dense_replace=0, n_group=1, topk_group=1, norm_topk_prob=True,
         routed_scaling_factor=1.0, pad_token_id=None, rope_interleave=True,
         rope_parameters=dict(LATENT_YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)),
    OTHER,
)}  # fmt: skip
MODELS |= archs_dsa.models(LATENT, GROUPED, YARN, HALF, 2 * TEXT)
MODELS |= archs_experts.models(TEXT, GROUPED, PLAIN)
MODELS |= archs_mamba.MODELS | archs_kimi.MODELS | archs_minimax.MODELS | archs_deepseek4.MODELS | archs_gemma3n.MODELS | archs_qwen4.models(DELTA, TEXT) | archs_older.MODELS | archs_more.MODELS
HYBRIDS = {arch: module for module in (archs_mamba, archs_kimi, archs_minimax, archs_deepseek4, archs_gemma3n, archs_older, archs_more) for arch in module.ARCHS}
MODELS |= archs_vision.models(TEXT, GROUPED, PLAIN)
MODELS |= archs_dense.models(TEXT, OTHER, GROUPED, WINDOWS, PLAIN, YARN)

# Types beside Q8_0. F16 models have one layer, and weights that the file holds exactly.
MORE_TYPES = {"deepseek-v2-joint": ("Q4_0",)} | {name: ("F16", "Q4_0") for name in ("qwen2", "qwen3", "mixtral", "falcon-7b", "opt")} | {name: ("Q4_0",) for name in ("qwen3moe", "gemma3", "gemma4", "gemma4-moe", "granitemoe", "phi3", "smallthinker")} | {"gpt-oss": ("MXFP4",)}
MORE_TYPES = MORE_TYPES | {name: (*MORE_TYPES.get(name, ()), "NVFP4") for name in ("qwen3", "qwen3moe")}
SHORT_TEXT = "The old woman and the hen went on"


def gated_layer(out, sd, arch, cfg, i):
    """A layer of llama, qwen2, qwen3, qwen3moe."""
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
    out[dst + "ffn_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
    for part, heads in zip("qkv", (cfg.num_attention_heads, cfg.num_key_value_heads, cfg.num_key_value_heads)):
        w = sd[src + f"self_attn.{part}_proj.weight"]
        out[dst + f"attn_{part}.weight"] = mm.interleave(w, heads) if arch == "llama" and part != "v" else w
        for ours, theirs in ((f"attn_{part}.bias", f"{part}_proj.bias"), (f"attn_{part}_norm.weight", f"{part}_norm.weight")):
            if src + "self_attn." + theirs in sd:
                out[dst + ours] = sd[src + "self_attn." + theirs]
    out[dst + "attn_output.weight"] = sd[src + "self_attn.o_proj.weight"]
    if src + "mlp.gate_proj.weight" in sd:
        for part in ("gate", "up", "down"):
            out[dst + f"ffn_{part}.weight"] = sd[src + f"mlp.{part}_proj.weight"]
        return
    experts_of(out, sd, dst, src + "mlp.experts.", src + "mlp.gate.weight")


def experts_of(out, sd, dst, experts, router):
    out[dst + "ffn_gate_inp.weight"] = sd[router]
    out[dst + "ffn_gate_exps.weight"], out[dst + "ffn_up_exps.weight"] = np.split(sd[experts + "gate_up_proj"], 2, axis=1)
    out[dst + "ffn_down_exps.weight"] = sd[experts + "down_proj"]


# Whose rows of queries and keys GGUF has in the order of adjacent pairs; the other architectures keep those of transformers.
ADJACENT = ("granite", "mistral3", "smollm3")
# GGUF's names, and what the architectures' classes call these tensors.
RECENT = {
    "ffn_gate": ("mlp.gate_proj",), "ffn_up": ("mlp.up_proj", "mlp.gate_up_proj"), "ffn_down": ("mlp.down_proj",),
    "ffn_gate_shexp": ("mlp.shared_expert.gate_proj", "mlp.shared_experts.gate_proj", "mlp.shared_mlp.gate_proj"),
    "ffn_up_shexp": ("mlp.shared_expert.up_proj", "mlp.shared_experts.up_proj", "mlp.shared_mlp.up_proj"),
    "ffn_down_shexp": ("mlp.shared_expert.down_proj", "mlp.shared_experts.down_proj", "mlp.shared_mlp.down_proj"),
    "attn_q_norm": ("self_attn.q_norm", "self_attn.query_layernorm"), "attn_k_norm": ("self_attn.k_norm", "self_attn.key_layernorm"),
    "attn_q": ("self_attn.q_proj",), "attn_k": ("self_attn.k_proj",), "attn_v": ("self_attn.v_proj",), "attn_output": ("self_attn.o_proj",),
}  # fmt: skip


def recent_layer(out, sd, arch, cfg, i):
    """A layer of one of RECENT_ARCHS."""
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
    behind = "post_attention_norm" if arch == "seed_oss" else "ffn_norm"
    out[f"{dst}{behind}.weight"] = sd[src + "post_attention_layernorm.weight"]
    if arch == "glm4":
        out[dst + "post_attention_norm.weight"] = sd[src + "post_self_attn_layernorm.weight"]
        out[dst + "post_ffw_norm.weight"] = sd[src + "post_mlp_layernorm.weight"]
    for ours, all_theirs in RECENT.items():
        for theirs, kind in itertools.product(all_theirs, ("weight", "bias")):
            if f"{src}{theirs}.{kind}" in sd:
                out[f"{dst}{ours}.{kind}"] = sd[f"{src}{theirs}.{kind}"]
    for part, heads in (("q", cfg.num_attention_heads), ("k", cfg.num_key_value_heads)):
        if arch in ADJACENT:
            out[f"{dst}attn_{part}.weight"] = mm.interleave(out[f"{dst}attn_{part}.weight"], heads)
    if src + "mlp.experts.down_proj" not in sd:
        return
    router = "mlp.gate.wg.weight" if arch == "hunyuan-moe" else "mlp.gate.weight"
    experts_of(out, sd, dst, src + "mlp.experts.", src + router)
    if src + "mlp.shared_expert_gate.weight" in sd:
        out[dst + "ffn_gate_inp_shexp.weight"] = sd[src + "mlp.shared_expert_gate.weight"].reshape(-1)
    for theirs in ("mlp.gate.", "mlp.gate.moe_statics.", "mlp."):
        if src + theirs + "e_score_correction_bias" in sd:
            out[dst + "exp_probs_b.bias"] = sd[src + theirs + "e_score_correction_bias"].reshape(-1)


RECENT_ARCHS = ADJACENT + ("qwen2moe", "seed_oss", "dots1", "glm4", "ernie4_5", "ernie4_5-moe", "olmoe", "minimax-m2", "hunyuan-dense", "hunyuan-moe") + archs_vision.ARCHS


def falcon_layer(out, sd, cfg, i):
    src, dst = f"transformer.h.{i}.", f"blk.{i}."
    norms = {"attn_norm": "ln_mlp", "attn_norm_2": "ln_attn"} if cfg.new_decoder_architecture else {"attn_norm": "input_layernorm"}
    for ours, theirs in norms.items():
        for kind in ("weight", "bias"):
            out[f"{dst}{ours}.{kind}"] = sd[f"{src}{theirs}.{kind}"]
    # transformers keeps each group's queries beside its key and value; GGUF has all queries first.
    kv = kv_heads(cfg)
    group = cfg.num_attention_heads // kv
    fused = sd[src + "self_attention.query_key_value.weight"].reshape(kv, group + 2, -1, cfg.hidden_size)
    parts = (fused[:, :-2], fused[:, -2], fused[:, -1])
    out[dst + "attn_qkv.weight"] = np.concatenate([p.reshape(-1, cfg.hidden_size) for p in parts])
    out[dst + "attn_output.weight"] = sd[src + "self_attention.dense.weight"]
    out[dst + "ffn_up.weight"] = sd[src + "mlp.dense_h_to_4h.weight"]
    out[dst + "ffn_down.weight"] = sd[src + "mlp.dense_4h_to_h.weight"]


def opt_layer(out, sd, i):
    src, dst = f"model.decoder.layers.{i}.", f"blk.{i}."
    names = {"attn_norm": "self_attn_layer_norm", "ffn_norm": "final_layer_norm", "attn_output": "self_attn.out_proj",
             "ffn_up": "fc1", "ffn_down": "fc2"} | {f"attn_{p}": f"self_attn.{p}_proj" for p in "qkv"}  # fmt: skip
    for ours, theirs in names.items():
        for kind in ("weight", "bias"):
            out[f"{dst}{ours}.{kind}"] = sd[f"{src}{theirs}.{kind}"]


def gemma3_layer(out, sd, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    names = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
             "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
             "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_output": "self_attn.o_proj"}
    names |= {f"attn_{p}": f"self_attn.{p}_proj" for p in "qkv"} | {f"ffn_{p}": f"mlp.{p}_proj" for p in ("gate", "up", "down")}  # fmt: skip
    for ours, theirs in names.items():
        out[f"{dst}{ours}.weight"] = sd[f"{src}{theirs}.weight"]


def gemma4_layer(out, sd, cfg, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    names = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
             "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
             "pre_ffw_norm_2": "pre_feedforward_layernorm_2", "post_ffw_norm_1": "post_feedforward_layernorm_1",
             "post_ffw_norm_2": "post_feedforward_layernorm_2", "ffn_gate_inp": "router.proj",
             "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_output": "self_attn.o_proj",
             "inp_gate": "per_layer_input_gate", "proj": "per_layer_projection", "post_norm": "post_per_layer_input_norm"}
    names |= {f"attn_{p}": f"self_attn.{p}_proj" for p in "qkv"} | {f"ffn_{p}": f"mlp.{p}_proj" for p in ("gate", "up", "down")}  # fmt: skip
    names = {ours + ".weight": theirs + ".weight" for ours, theirs in names.items()}
    names |= {"layer_output_scale.weight": "layer_scalar", "ffn_gate_inp.scale": "router.scale",
              "ffn_down_exps.scale": "router.per_expert_scale", "ffn_down_exps.weight": "experts.down_proj",
              "ffn_gate_up_exps.weight": "experts.gate_up_proj"}  # fmt: skip
    out |= {dst + ours: sd[src + theirs] for ours, theirs in names.items() if src + theirs in sd}
    both = dst + "ffn_gate_up_exps.weight"
    if both in out and cfg.split_experts:
        out[dst + "ffn_gate_exps.weight"], out[dst + "ffn_up_exps.weight"] = np.split(out.pop(both), 2, axis=1)


def gpt_oss_layer(out, sd, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
    out[dst + "post_attention_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
    out[dst + "attn_sinks.weight"] = sd[src + "self_attn.sinks"]
    for kind in ("weight", "bias"):
        for ours, theirs in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("output", "o_proj")):
            out[f"{dst}attn_{ours}.{kind}"] = sd[f"{src}self_attn.{theirs}.{kind}"]
        out[f"{dst}ffn_gate_inp.{kind}"] = sd[f"{src}mlp.router.{kind}"]
    both, bias = sd[src + "mlp.experts.gate_up_proj"], sd[src + "mlp.experts.gate_up_proj_bias"]
    for first, part in enumerate(("gate", "up")):  # side by side, inputs first
        out[f"{dst}ffn_{part}_exps.weight"] = both[:, :, first::2].transpose(0, 2, 1)
        out[f"{dst}ffn_{part}_exps.bias"] = bias[:, first::2]
    out[dst + "ffn_down_exps.weight"] = sd[src + "mlp.experts.down_proj"].transpose(0, 2, 1)
    out[dst + "ffn_down_exps.bias"] = sd[src + "mlp.experts.down_proj_bias"]


def granitemoe_layer(out, sd, cfg, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
    out[dst + "ffn_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
    for part, heads in (("q", cfg.num_attention_heads), ("k", cfg.num_key_value_heads)):
        out[f"{dst}attn_{part}.weight"] = mm.interleave(sd[f"{src}self_attn.{part}_proj.weight"], heads)
    out[dst + "attn_v.weight"] = sd[src + "self_attn.v_proj.weight"]
    out[dst + "attn_output.weight"] = sd[src + "self_attn.o_proj.weight"]
    experts_of(out, sd, dst, src + "block_sparse_moe.experts.", src + "block_sparse_moe.router.weight")
    both = sd[src + "shared_mlp.input_linear.weight"]
    out[dst + "ffn_gate_shexp.weight"], out[dst + "ffn_up_shexp.weight"] = np.split(both, 2)
    out[dst + "ffn_down_shexp.weight"] = sd[src + "shared_mlp.output_linear.weight"]


def phi3_layer(out, sd, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_qkv": "self_attn.qkv_proj",
             "attn_output": "self_attn.o_proj", "ffn_up": "mlp.gate_up_proj", "ffn_down": "mlp.down_proj"}  # fmt: skip
    for ours, theirs in names.items():
        out[f"{dst}{ours}.weight"] = sd[f"{src}{theirs}.weight"]


def glm4moe_layer(out, sd, cfg, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
    out[dst + "post_attention_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
    for part in "qkv":
        for kind in ("weight", "bias"):
            out[f"{dst}attn_{part}.{kind}"] = sd[f"{src}self_attn.{part}_proj.{kind}"]
    for part in "qk":
        out[f"{dst}attn_{part}_norm.weight"] = sd[f"{src}self_attn.{part}_norm.weight"]
    out[dst + "attn_output.weight"] = sd[src + "self_attn.o_proj.weight"]
    experts = i >= cfg.first_k_dense_replace
    for part in ("gate", "up", "down"):
        dense = f"{src}mlp.shared_experts.{part}_proj.weight" if experts else f"{src}mlp.{part}_proj.weight"
        out[f"{dst}ffn_{part}{'_shexp' if experts else ''}.weight"] = sd[dense]
    if experts:
        experts_of(out, sd, dst, src + "mlp.experts.", src + "mlp.gate.weight")
        out[dst + "exp_probs_b.bias"] = sd[src + "mlp.gate.e_score_correction_bias"]


def deepseek2_layer(out, sd, cfg, i, joint):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_output": "self_attn.o_proj",
             "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm"}  # fmt: skip
    names |= {"attn_q_a": "self_attn.q_a_proj", "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj"} if cfg.q_lora_rank else {"attn_q": "self_attn.q_proj"}
    for ours, theirs in names.items():
        out[f"{dst}{ours}.weight"] = sd[f"{src}{theirs}.weight"]
    both = sd[src + "self_attn.kv_b_proj.weight"]
    if joint:
        out[dst + "attn_kv_b.weight"] = both
    else:  # a matrix per head, that of keys turned
        heads = both.reshape(cfg.num_attention_heads, -1, cfg.kv_lora_rank)
        out[dst + "attn_k_b.weight"] = heads[:, : cfg.qk_nope_head_dim].transpose(0, 2, 1)
        out[dst + "attn_v_b.weight"] = heads[:, cfg.qk_nope_head_dim :]
    experts = i >= leading_layers(cfg)
    for part in ("gate", "up", "down"):
        dense = f"{src}mlp.shared_experts.{part}_proj.weight" if experts else f"{src}mlp.{part}_proj.weight"
        out[f"{dst}ffn_{part}{'_shexp' if experts else ''}.weight"] = sd[dense]
    if experts:
        experts_of(out, sd, dst, src + "mlp.experts.", src + "mlp.gate.weight")
        if src + "mlp.gate.e_score_correction_bias" in sd:
            out[dst + "exp_probs_b.bias"] = sd[src + "mlp.gate.e_score_correction_bias"]


def leading_layers(cfg):
    """Layers without experts in front of those that have some."""
    kinds = getattr(cfg, "mlp_layer_types", None)
    if hasattr(cfg, "moe_layer_start_index"):
        return cfg.moe_layer_start_index
    return kinds.index("sparse") if kinds and "sparse" in kinds else getattr(cfg, "first_k_dense_replace", getattr(cfg, "num_dense_layers", 0))
def tiled(cfg, x, dim, axis=0):
    """Value heads in GGUF's order: those of the same place in their groups side by side."""
    keys, heads = cfg.linear_num_key_heads, cfg.linear_num_value_heads
    x = np.moveaxis(x, axis, 0)
    rest = x.shape[1:]
    x = x.reshape(keys, heads // keys, dim, *rest).swapaxes(0, 1).reshape(heads * dim, *rest)
    return np.moveaxis(x, 0, axis)


def qwen35_layer(out, sd, cfg, i, tiled=tiled):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
    out[dst + "post_attention_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
    if cfg.layer_types[i] != "linear_attention":
        for ours, theirs in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("output", "o_proj"), ("q_norm", "q_norm"), ("k_norm", "k_norm")):
            out[f"{dst}attn_{ours}.weight"] = sd[f"{src}self_attn.{theirs}.weight"]
    else:
        part, dim = src + "linear_attn.", cfg.linear_value_head_dim
        keys = 2 * cfg.linear_num_key_heads * cfg.linear_key_head_dim
        for ours, theirs in (("attn_qkv", "in_proj_qkv"), ("ssm_conv1d", "conv1d")):
            w = sd[f"{part}{theirs}.weight"]
            w = w.reshape(w.shape[0], w.shape[-1])
            out[f"{dst}{ours}.weight"] = np.concatenate([w[:keys], tiled(cfg, w[keys:], dim)])
        out[dst + "attn_gate.weight"] = tiled(cfg, sd[part + "in_proj_z.weight"], dim)
        if part + "in_proj_ba.weight" in sd:
            out[dst + "ssm_ba.weight"] = sd[part + "in_proj_ba.weight"]
        else:
            out[dst + "ssm_beta.weight"] = tiled(cfg, sd[part + "in_proj_b.weight"], 1)
            out[dst + "ssm_alpha.weight"] = tiled(cfg, sd[part + "in_proj_a.weight"], 1)
        out[dst + "ssm_a"] = tiled(cfg, sd[part + "A_log"], 1)
        out[dst + "ssm_dt.bias"] = tiled(cfg, sd[part + "dt_bias"], 1)
        out[dst + "ssm_norm.weight"] = sd[part + "norm.weight"]
        out[dst + "ssm_out.weight"] = tiled(cfg, sd[part + "out_proj.weight"], dim, 1)
    experts = hasattr(cfg, "num_experts")
    for part in ("gate", "up", "down"):
        own = f"{src}mlp.{'shared_expert.' if experts else ''}{part}_proj.weight"
        out[f"{dst}ffn_{part}{'_shexp' if experts else ''}.weight"] = sd[own]
    if experts:
        out[dst + "ffn_gate_inp_shexp.weight"] = sd[src + "mlp.shared_expert_gate.weight"].reshape(-1)
        experts_of(out, sd, dst, src + "mlp.experts.", src + "mlp.gate.weight")


def qwen3next_layer(out, sd, cfg, i):
    """Queries, keys and values are apart in a GGUF; what is learned and forgotten stays as it is."""
    src, part = f"model.layers.{i}.", f"model.layers.{i}.linear_attn."
    sd = dict(sd)
    if cfg.layer_types[i] != "full_attention":
        keys, heads, dim = cfg.linear_num_key_heads, cfg.linear_num_value_heads, cfg.linear_value_head_dim
        both = sd[part + "in_proj_qkvz.weight"].reshape(keys, -1, cfg.hidden_size)
        q, k, v, z = np.split(both, np.cumsum([dim, dim, heads // keys * dim]), axis=1)
        sd[part + "in_proj_qkv.weight"] = np.concatenate([x.reshape(-1, cfg.hidden_size) for x in (q, k, v)])
        sd[part + "in_proj_z.weight"] = z.reshape(-1, cfg.hidden_size)
    out_of = {}
    qwen35_layer(out_of, sd, cfg, i, lambda _cfg, x, _dim, _axis=0: x)
    out.update(out_of)


def lfm2_layer(out, sd, cfg, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "operator_norm.weight"]
    out[dst + "ffn_norm.weight"] = sd[src + "ffn_norm.weight"]
    if cfg.layer_types[i] == "conv":
        conv = sd[src + "conv.conv.weight"]
        out[dst + "shortconv.conv.weight"] = conv.reshape(conv.shape[0], conv.shape[-1])
        for part in ("in_proj", "out_proj"):
            out[f"{dst}shortconv.{part}.weight"] = sd[f"{src}conv.{part}.weight"]
    else:
        for ours, theirs in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("output", "out_proj"), ("q_norm", "q_layernorm"), ("k_norm", "k_layernorm")):
            out[f"{dst}attn_{ours}.weight"] = sd[f"{src}self_attn.{theirs}.weight"]
    if src + "feed_forward.w1.weight" in sd:
        for ours, theirs in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
            out[f"{dst}ffn_{ours}.weight"] = sd[f"{src}feed_forward.{theirs}.weight"]
    else:
        experts_of(out, sd, dst, src + "feed_forward.experts.", src + "feed_forward.gate.weight")
        out[dst + "exp_probs_b.bias"] = sd[src + "feed_forward.expert_bias"]


def gguf_tensors(arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    if arch in HYBRIDS:
        return HYBRIDS[arch].tensors(arch, cfg, sd)
    out = {}
    if arch == "qwen4exp":
        return archs_qwen4.tensors(cfg, sd, qwen35_layer)
    if arch in archs_dense.ARCHS:
        return archs_dense.tensors(arch, cfg, sd)
    if arch == "falcon":
        out["token_embd.weight"] = sd["transformer.word_embeddings.weight"]
        out["output_norm.weight"], out["output_norm.bias"] = sd["transformer.ln_f.weight"], sd["transformer.ln_f.bias"]
    elif arch == "opt":
        out["token_embd.weight"] = sd["model.decoder.embed_tokens.weight"]
        out["position_embd.weight"] = sd["model.decoder.embed_positions.weight"]
        for kind in ("weight", "bias"):
            out[f"output_norm.{kind}"] = sd[f"model.decoder.final_layer_norm.{kind}"]
    elif arch in ("lfm2", "lfm2moe"):
        out["token_embd.weight"], out["token_embd_norm.weight"] = sd["model.embed_tokens.weight"], sd["model.embedding_norm.weight"]
    else:
        out["token_embd.weight"], out["output_norm.weight"] = sd["model.embed_tokens.weight"], sd["model.norm.weight"]
    if arch == "gemma4" and cfg.hidden_size_per_layer_input:
        out["per_layer_token_embd.weight"] = sd["model.embed_tokens_per_layer.weight"]
        out["per_layer_model_proj.weight"] = sd["model.per_layer_model_projection.weight"]
        out["per_layer_proj_norm.weight"] = sd["model.per_layer_projection_norm.weight"]
    if not cfg.tie_word_embeddings:
        out["output.weight"] = sd["lm_head.weight"]
    for i in range(cfg.num_hidden_layers):
        if arch == "falcon":
            falcon_layer(out, sd, cfg, i)
        elif arch == "opt":
            opt_layer(out, sd, i)
        elif arch == "gemma3":
            gemma3_layer(out, sd, i)
        elif arch == "gemma4":
            gemma4_layer(out, sd, cfg, i)
        elif arch == "gpt-oss":
            gpt_oss_layer(out, sd, i)
        elif arch == "granitemoe":
            granitemoe_layer(out, sd, cfg, i)
        elif arch == "phi3":
            phi3_layer(out, sd, i)
        elif archs_experts.is_own(arch, cfg):
            recent_layer(out, archs_experts.as_others(arch, sd), arch, cfg, i)
            archs_experts.layer(out, sd, arch, cfg, i)
        elif arch == "glm4moe":
            glm4moe_layer(out, sd, cfg, i)
        elif arch == "minimax-m3":
            archs_dsa.minimax_layer(out, sd, i)
        elif arch in ("deepseek2", "mistral4") + archs_dsa.LATENT:
            sd = archs_dsa.as_pairs(cfg, sd) if arch == "hy_v4" and not i else sd
            deepseek2_layer(out, sd, cfg, i, is_joint(cfg))
            archs_dsa.layer(out, sd, i)
            if arch == "mistral4":
                both = [out.pop(f"blk.{i}.ffn_{part}_exps.weight") for part in ("gate", "up")]
                out[f"blk.{i}.ffn_gate_up_exps.weight"] = np.concatenate(both, 1)
        elif arch in ("qwen35", "qwen35moe"):
            qwen35_layer(out, sd, cfg, i)
        elif arch == "qwen3next":
            qwen3next_layer(out, sd, cfg, i)
        elif arch in ("lfm2", "lfm2moe"):
            lfm2_layer(out, sd, cfg, i)
        elif arch in RECENT_ARCHS:
            recent_layer(out, sd, arch, cfg, i)
            archs_vision.fuse(out, arch, i)
        else:
            gated_layer(out, sd, arch, cfg, i)
    if arch == "hy_v4":
        archs_dsa.hy_head(out, sd)
    archs_nextn.tensors(out, cfg, sd, qwen35_layer if arch == "qwen35" else lambda out, sd, cfg, i: deepseek2_layer(out, sd, cfg, i, False))
    return out


def is_joint(cfg):
    """Whether the file is one of before latent caches."""
    return cfg.num_hidden_layers == 2 and not cfg.q_lora_rank


def kv_heads(cfg):
    if hasattr(cfg, "kv_lora_rank"):
        return cfg.num_attention_heads if is_joint(cfg) else 1
    if isinstance(cfg, tf.FalconConfig):
        return cfg.num_kv_heads if cfg.new_decoder_architecture else 1
    return getattr(cfg, "num_key_value_heads", None) or cfg.num_attention_heads


# ---- writing ---------------------------------------------------------------------------------------------------


def add_hyper_parameters(w, name, arch, cfg):
    if arch in HYBRIDS:
        HYBRIDS[arch].add_hyper_parameters(w, arch, cfg)
        return
    if arch in archs_dense.ARCHS:
        archs_dense.add(w, name, arch, cfg)
        return
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers + (name in ("glm4moe", "glm-dsa", *archs_nextn.NAMES)))  # whose last one guesses tokens ahead
    if arch == "gemma4":
        add_gemma4(w, cfg)
    elif arch not in ("qwen35moe", "qwen3next", "qwen4exp"):
        w.add_feed_forward_length(getattr(cfg, "dense_intermediate_size", None) or getattr(cfg, "intermediate_size", None) or getattr(cfg, "ffn_hidden_size", None) or getattr(cfg, "ffn_dim", 96))
    w.add_head_count(cfg.num_attention_heads)
    conv = arch in ("lfm2", "lfm2moe")
    if arch != "gemma4":
        w.add_head_count_kv([0 if t == "conv" else kv_heads(cfg) for t in cfg.layer_types] if conv else kv_heads(cfg))
    if conv:
        w.add_shortconv_l_cache(cfg.conv_L_cache)
    if arch in ("deepseek2", "mistral4") + archs_dsa.LATENT:
        add_latent(w, cfg)
    elif arch not in ("falcon", "gemma4") and getattr(cfg, "head_dim", None):
        w.add_key_length(cfg.head_dim)
        w.add_value_length(cfg.head_dim)
    if arch in ("falcon", "opt"):
        w.add_layer_norm_eps(1e-5)
    else:
        w.add_layer_norm_rms_eps(cfg.norm_eps if conv else cfg.rms_norm_eps)
    if arch in RECENT_ARCHS:
        add_recent(w, arch, cfg)
    if arch in archs_vision.ARCHS:
        archs_vision.add(w, arch, cfg)
    if hasattr(cfg, "num_experts_per_tok"):
        w.add_expert_count(getattr(cfg, "n_routed_experts", None) or getattr(cfg, "num_local_experts", None) or cfg.num_experts)
        w.add_expert_used_count(cfg.num_experts_per_tok)
    if getattr(cfg, "moe_intermediate_size", None):
        w.add_expert_feed_forward_length(cfg.moe_intermediate_size)
    if name in ("window", "phi3") or hasattr(cfg, "layer_types") and "sliding_attention" in cfg.layer_types:
        w.add_sliding_window(cfg.sliding_window)
    if arch == "gemma3":
        w.add_uint32("gemma3.attention.sliding_window_pattern", 3)
        w.add_rope_freq_base(1e6)
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(8.0)
    if arch == "gpt-oss":
        w.add_expert_feed_forward_length(cfg.intermediate_size)
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(YARN["factor"])
        w.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])
    if arch == "granitemoe":
        w.add_expert_shared_feed_forward_length(cfg.shared_intermediate_size)
    if arch in ("granite", "granitemoe"):
        w.add_embedding_scale(cfg.embedding_multiplier)
        w.add_attention_scale(cfg.attention_multiplier)
        w.add_residual_scale(cfg.residual_multiplier)
        w.add_logit_scale(cfg.logits_scaling)
    if name == "phi3":
        w.add_rope_dimension_count(24)
    if name == "phi3-long":
        original = cfg.rope_parameters["original_max_position_embeddings"]
        w.add_rope_scaling_orig_ctx_len(original)
        factor = cfg.max_position_embeddings / original
        w.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(factor) / np.log(original))))
    if arch == "smallthinker":
        w.add_sliding_window(cfg.sliding_window)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if archs_experts.is_own(arch, cfg):
        archs_experts.hyper_parameters(w, arch, cfg, leading_layers(cfg))
    if name == "glm4moe":
        w.add_rope_dimension_count(16)
        w.add_leading_dense_block_count(cfg.first_k_dense_replace)
        w.add_expert_shared_count(cfg.n_shared_experts)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        w.add_expert_weights_scale(cfg.routed_scaling_factor)
        w.add_expert_weights_norm(True)
    if name == "glm4moe" or name in archs_nextn.NAMES:
        w.add_nextn_predict_layers(1)
    if arch in ("qwen35", "qwen35moe", "qwen3next", "qwen4exp"):
        w.add_rope_dimension_count(8)
        if arch != "qwen3next":
            w.add_rope_dimension_sections([2, 1, 1, 0])
        if arch != "qwen4exp":
            w.add_full_attention_interval(3)
        w.add_ssm_conv_kernel(cfg.linear_conv_kernel_dim)
        w.add_ssm_state_size(cfg.linear_key_head_dim)
        w.add_ssm_group_count(cfg.linear_num_key_heads)
        w.add_ssm_time_step_rank(cfg.linear_num_value_heads)
        w.add_ssm_inner_size(cfg.linear_num_value_heads * cfg.linear_value_head_dim)
    if arch == "lfm2moe":
        w.add_leading_dense_block_count(cfg.num_dense_layers)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch in ("qwen35moe", "qwen3next", "qwen4exp"):
        w.add_expert_shared_feed_forward_length(cfg.shared_expert_intermediate_size)
    if name == "qwen2-yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(YARN["factor"])
        w.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])


def add_recent(w, arch, cfg):
    if arch in ("glm4", "minimax-m2"):
        w.add_rope_dimension_count(cfg.head_dim // 2)
    if arch in ("minimax-m2", "hunyuan-moe"):
        w.add_expert_feed_forward_length(cfg.intermediate_size)
    if arch in ("dots1", "minimax-m2"):
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch == "hunyuan-moe":
        w.add_expert_shared_feed_forward_length(cfg.intermediate_size)
    if arch == "qwen2moe":
        w.add_expert_shared_feed_forward_length(cfg.shared_expert_intermediate_size)
    if arch in ("dots1", "ernie4_5-moe"):
        w.add_leading_dense_block_count(leading_layers(cfg))
    if arch == "dots1":
        w.add_expert_shared_count(cfg.n_shared_experts)
        w.add_expert_weights_scale(cfg.routed_scaling_factor)
        w.add_expert_weights_norm(True)
    if arch == "ernie4_5-moe":
        w.add_expert_shared_count(cfg.moe_num_shared_experts)
        w.add_expert_shared_feed_forward_length(cfg.moe_intermediate_size * cfg.moe_num_shared_experts)
        w.add_interleave_moe_layer_step(1)
    if arch == "mistral3":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(YARN["factor"])
        w.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])
        w.add_rope_scaling_yarn_log_mul(cfg.rope_parameters["mscale_all_dim"])
        w.add_attn_temperature_scale(cfg.rope_parameters["llama_4_scaling_beta"])


def add_gemma4(w, cfg):
    windows, heads = [t == SLIDING for t in cfg.layer_types], [WINDOWS["num_key_value_heads"]] * 2
    if cfg.attention_k_eq_v:
        heads[0] = 1
    own = cfg.num_hidden_layers - cfg.num_kv_shared_layers
    wide = 2 if cfg.use_double_wide_mlp else 1
    widths = [cfg.intermediate_size * (1 if i < own else wide) for i in range(cfg.num_hidden_layers)]
    w.add_feed_forward_length(widths if wide > 1 else cfg.intermediate_size)
    w.add_head_count_kv([heads[x] for x in windows] if cfg.attention_k_eq_v else heads[0])
    w.add_array("gemma4.attention.sliding_window_pattern", windows)
    for kind, dim in (("", GEMMA4["global_head_dim"]), ("_swa", WINDOWS["head_dim"])):
        w.add_uint32(f"gemma4.attention.key_length{kind}", dim)
        w.add_uint32(f"gemma4.attention.value_length{kind}", dim)
        w.add_uint32(f"gemma4.rope.dimension_count{kind}", dim)
    w.add_rope_freq_base(1e6)
    w.add_float32("gemma4.rope.freq_base_swa", 10000.0)
    w.add_uint32("gemma4.attention.shared_kv_layers", cfg.num_kv_shared_layers)
    w.add_uint32("gemma4.embedding_length_per_layer_input", cfg.hidden_size_per_layer_input)
    w.add_float32("gemma4.final_logit_softcapping", cfg.final_logit_softcapping)
    if cfg.enable_moe_block:
        w.add_expert_count(cfg.num_experts)
        w.add_expert_used_count(cfg.top_k_experts)


def add_latent(w, cfg):
    key, joint = cfg.qk_nope_head_dim + cfg.qk_rope_head_dim, is_joint(cfg)
    w.add_rope_dimension_count(cfg.qk_rope_head_dim)
    w.add_kv_lora_rank(cfg.kv_lora_rank)
    if cfg.q_lora_rank:
        w.add_q_lora_rank(cfg.q_lora_rank)
    w.add_key_length(key if joint else cfg.kv_lora_rank + cfg.qk_rope_head_dim)
    w.add_value_length(cfg.v_head_dim if joint else cfg.kv_lora_rank)
    if not joint:
        w.add_key_length_mla(key)
        w.add_value_length_mla(cfg.v_head_dim)
    w.add_leading_dense_block_count(leading_layers(cfg))
    w.add_expert_shared_count(cfg.n_shared_experts)
    w.add_expert_weights_scale(cfg.routed_scaling_factor)
    w.add_expert_weights_norm(bool(cfg.norm_topk_prob))
    if not isinstance(cfg, (tf.DeepseekV2Config, tf.Mistral4Config)):
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    elif not joint:  # older files do not say it
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SOFTMAX)
    if isinstance(cfg, tf.Mistral4Config):
        w.add_attn_temperature_scale(cfg.rope_parameters["llama_4_scaling_beta"])
        w.add_uint32("mistral4.attention.temperature_length", YARN["original_max_position_embeddings"])
    if cfg.n_group > 1:
        w.add_expert_group_count(cfg.n_group)
        w.add_expert_group_used_count(cfg.topk_group)
    if cfg.rope_parameters["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(YARN["factor"])
        w.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])
        w.add_rope_scaling_yarn_log_mul(0.1 * cfg.rope_parameters["mscale_all_dim"])


def add_vocabulary(w, vocab):
    w.add_tokenizer_model(vocab.model)
    w.add_token_list(vocab.tokens)
    w.add_token_types(vocab.types)
    w.add_token_scores(vocab.scores)
    w.add_bos_token_id(vocab.bos)
    w.add_eos_token_id(vocab.eos)
    w.add_unk_token_id(vocab.unk)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)


def write_gguf(path, name, arch, model, tensors, kind):
    """Writes the file; returns the tensors as decoded from it."""
    cfg, w = model.config, gguf.GGUFWriter(path, arch)
    add_hyper_parameters(w, name, arch, cfg)
    if arch == "qwen4exp":
        archs_qwen4.add_keys(w, cfg, model)
    if arch in archs_dsa.ARCHS:
        archs_dsa.add_keys(w, arch, cfg)
    add_vocabulary(w, SpmVocab())
    decoded = {}
    for tensor, value in tensors.items():
        value = archs_kimi.sign(arch) * np.exp(value) if tensor.endswith("ssm_a") else value + ones_of(arch, tensor)
        plain = value.ndim < 2 or any(part in tensor for part in ("norm", "gate_inp", "position", "bias", "conv1d", "shortconv.conv", "indexer.proj", "altup_router", "_coef")) or tensor.endswith(("ssm_a", "ssm_d", "_ape.weight", "hc_attn_fn.weight", "hc_ffn_fn.weight", "output_hc_fn.weight"))
        own = T.F32 if plain else T.Q8_0 if kind == "MXFP4" and "_exps" not in tensor else T[kind]
        if kind == "NVFP4" and small_formats.has_nvfp4(tensor):
            data, scales = small_formats.encode_nvfp4(value, tensor)
            w.add_tensor(tensor, data, raw_dtype=T.NVFP4)
            decoded[tensor] = small_formats.decode_nvfp4(data, scales)
            if scales is not None:
                w.add_tensor(tensor.replace(".weight", ".scale"), scales)
                w.add_tensor(tensor.replace(".weight", ".input_scale"), np.full_like(scales, 0.125))
            continue
        own = T.Q8_0 if own == T.NVFP4 else own
        data = np.ascontiguousarray(mm.encode(np.ascontiguousarray(value), own))
        w.add_tensor(tensor, data, raw_dtype=own)
        decoded[tensor] = np.ascontiguousarray(mm.decode(data, own).astype(np.float32)).reshape(value.shape)
    for tensor, value in (tables_of(name, cfg) | archs_dsa.tables(arch, cfg) | archs_experts.tables(arch, cfg, model) | archs_gemma3n.tables(arch, cfg)).items():
        w.add_tensor(tensor, np.asarray(value, np.float32))
    for tensor, value in archs_deepseek4.tables(model).items():
        w.add_tensor(tensor, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return decoded


def tables_of(name, cfg):
    """Tensors that are no weights of the model in transformers."""
    if name == "minicpm3":
        return archs_dense.tables(name, cfg)
    if name == "muse-glimmer":
        return archs_more.tables(name, cfg)
    if name == "phimoe":
        return archs_older.tables(name, cfg)
    if name == "phi3-long":
        return {f"rope_factors_{kind}.weight": cfg.rope_parameters[kind + "_factor"] for kind in ("short", "long")}
    if name.startswith("gemma4"):
        return {"rope_freqs.weight": [1.0] * 8 + [1e30] * 24}
    if name in ("glm4moe", "ling3"):
        return {f"blk.{cfg.num_hidden_layers}.nextn.enorm.weight": np.ones(cfg.hidden_size)}
    return {}


def ones_of(arch, tensor):
    """What GGUF's tensor has more than the model's."""
    if arch == "muse-glimmer":
        return np.float32(tensor.startswith("blk.") and tensor.endswith("norm.weight"))
    if arch in archs_dense.ONES:
        return np.float32(tensor.endswith("norm.weight"))
    return np.float32("norm" in tensor and (arch in ("gemma3", "step35", "minimax-m3") or (arch.startswith(("qwen35", "qwen3next", "qwen4exp")) and "ssm_norm" not in tensor)))


def with_weights(model, arch, decoded):
    """A copy of the model with the decoded weights. gguf_tensors() run over positions says where each one belongs."""
    model = copy.deepcopy(model)
    sd = {k: v for k, v in model.state_dict().items() if v.is_floating_point() and not (model.config.tie_word_embeddings and k == "lm_head.weight")}
    positions, at = {}, 0
    for key, value in sd.items():
        positions[key] = np.arange(at, at + value.numel()).reshape(value.shape)
        at += value.numel()
    flat = torch.cat([v.reshape(-1) for v in sd.values()])
    for tensor, where in gguf_tensors(arch, model.config, positions).items():
        value = decoded[tensor].reshape(-1)
        value = np.log(archs_kimi.sign(arch) * value) if tensor.endswith("ssm_a") else value - ones_of(arch, tensor)
        flat[torch.from_numpy(where.reshape(-1))] = torch.from_numpy(value)
    for key, value in sd.items():
        value.copy_(flat[: value.numel()].reshape(value.shape))
        flat = flat[value.numel() :]
    return model


def record_experts(model, chosen):
    """Hooks that add each router's choice [tokens, used] to `chosen`, in the order of layers."""
    used = getattr(model.config, "num_experts_per_tok", None) or getattr(model.config, "top_k_experts", 0)

    def hook(_module, _inputs, output):
        if isinstance(output, tuple) and len(output) == 3:
            ids = output[2]
        else:
            ids = torch.topk(output[0] if isinstance(output, tuple) else output, used, dim=-1).indices
        chosen.append(ids.sort(-1).values.tolist())

    routers = ("mlp.gate", "feed_forward.gate", "mixer.gate", ".router")
    return [m.register_forward_hook(hook) for n, m in model.named_modules() if n.endswith(routers)]


@torch.no_grad()
def make(name, folder, kind="Q8_0"):
    arch, model_class, settings, text = MODELS[name]
    text = text if kind in ("Q8_0", "MXFP4", "NVFP4") else SHORT_TEXT
    settings = dict(settings, num_hidden_layers=1) if kind == "F16" else settings
    if kind == "NVFP4":  # rows of whole blocks
        sizes = dict(intermediate_size=128, moe_intermediate_size=64)
        settings = settings | {key: n for key, n in sizes.items() if key in settings}
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**settings)).eval()
    if name in archs_nextn.NAMES:
        archs_nextn.add_to(model)
    rng = np.random.RandomState((archs_dsa.SEEDS | archs_deepseek4.SEEDS).get(name, 5 + sum(map(ord, name))))
    fill(model, rng)
    archs_deepseek4.fill_tables(model, rng)
    if kind == "F16":
        for p in model.parameters():
            p.data = p.data.half().float()
    if model.config.tie_word_embeddings:
        model.tie_weights()
    model.config.split_experts = kind == "Q4_0"  # of gemma4: older files have gate and up apart
    ids = SpmVocab().encode(text)
    stem = os.path.join(folder, f"{name}.{kind}")
    sd = {k: v.numpy() for k, v in model.state_dict().items()}
    decoded = write_gguf(stem + ".gguf", name, arch, model, gguf_tensors(arch, model.config, sd), kind)
    reference = with_weights(model, arch, decoded).double()
    chosen, gaps = [], []
    hooks = record_experts(reference, chosen) + archs_dsa.watch(reference, gaps)
    logits = mm.logits_of(reference, ids)
    for hook in hooks:
        hook.remove()
    original = mm.logits_of(copy.deepcopy(model).double(), ids)
    if name in archs_nextn.NAMES:
        write_logits(stem + ".nextn", ids[1:], archs_nextn.logits_of(copy.deepcopy(model).double(), ids), archs_nextn.logits_of(reference, ids))
    write_logits(stem + ".logits", ids, original, None if np.array_equal(original, logits) else logits)
    if chosen:
        with open(stem + ".experts", "w") as f:
            layers = archs_mamba.expert_layers(model.config) or getattr(model.config, "moe_layers", None) or range(leading_layers(model.config), model.config.num_hidden_layers)
            for layer, rows in zip(layers, chosen):
                f.writelines(f"{layer} {place} {' '.join(map(str, row))}\n" for place, row in enumerate(rows))
    more, leads = mm.greedy(reference, ids, 24)
    close = [i for i, lead in enumerate(leads) if lead < 0.15]
    n = close[0] if close else len(more)
    more, lead = more[:n], min(leads[:n], default=0)
    with open(stem + ".greedy", "w") as f:
        f.write(f"{text}\n{' '.join(map(str, ids))}\n{' '.join(map(str, more))}\n{lead:.4f}\n")
    print(f"{name}.{kind}: {len(ids)} tokens, logits' deviation {original.std():.2f}, greedy {len(more)}" + (f", choices {min(gaps):.1e} apart" if gaps else ""))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description="Make the golden models of architectures other than plain llama.")
    p.add_argument("--out", default=os.path.join(here, "..", "..", "tests", "golden", "models"))
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)} (default: all)")
    args = p.parse_args()
    torch.set_num_threads(1)
    for name in args.names or MODELS:
        for kind in ("Q8_0", *MORE_TYPES.get(name, ())):
            make(name, args.out, kind)


if __name__ == "__main__":
    main()
