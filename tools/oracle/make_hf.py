# SPDX-License-Identifier: MIT
# Makes tests/golden/hf: tiny random checkpoints as Hugging Face folders have them, the logits of transformers for
# them, and what llama.cpp's converter makes of them. Formats and how to set up are in tests/golden/README.md.
#
#   python make_hf.py --llama-cpp DIR [--out DIR] [NAME ...]
#
# DIR is a checkout of llama.cpp, whose converter is run (not needed where none of the names is in KNOWN_TO_LLAMA_CPP).
# With names, the tokenizers stay as they are.

import argparse
import copy
import json
import os
import shutil
import struct
import sys
import tempfile
import traceback
import zlib
from pathlib import Path

# llama.cpp's own gguf must come before the published one.
if "--llama-cpp" in sys.argv[:-1]:
    checkout = sys.argv[sys.argv.index("--llama-cpp") + 1]
    sys.path[:0] = [checkout, os.path.join(checkout, "gguf-py")]

import numpy as np
import torch
import transformers as tf
from safetensors.torch import save_file
from transformers import AutoTokenizer

from hf_tokenizers import TOKENIZERS, KimiTokenizer, make_tokenizer, write_json
from make_archs import fill
from oracle_common import N_VOCAB, write_logits

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "..", "tests", "golden", "hf")

# ---- models ------------------------------------------------------------------------------------------------------

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16}
COMMON = dict(vocab_size=N_VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
              attn_implementation="eager", experts_implementation="eager")  # fmt: skip
GROUPED = dict(COMMON, intermediate_size=32, num_key_value_heads=2, rope_parameters=PLAIN, rms_norm_eps=1e-6,
               tie_word_embeddings=False)  # fmt: skip
WIDE = dict(GROUPED, hidden_size=32, head_dim=8)
FALCON = dict(COMMON, ffn_hidden_size=64, parallel_attn=True, bias=False, alibi=False)

# name: (class, configuration, tokenizer, how it is stored, what to change)
MODELS = {
    "llama": (tf.LlamaForCausalLM, dict(WIDE, rope_parameters=LLAMA3_ROPE, rms_norm_eps=1e-5), "llama3", "sharded", {}),
    "llama-biases": (tf.LlamaForCausalLM, dict(GROUPED, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
                     "spm-json", "safetensors", {}),
    "mistral": (tf.MistralForCausalLM, dict(GROUPED, head_dim=8, sliding_window=4), "spm", "bfloat16", {}),
    "mixtral": (tf.MixtralForCausalLM, dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
                "spm-json", "float16", {}),
    "qwen2": (tf.Qwen2ForCausalLM, dict(GROUPED, rope_parameters=YARN, tie_word_embeddings=True), "qwen", "bfloat16", {}),
    "qwen3": (tf.Qwen3ForCausalLM, dict(GROUPED, head_dim=8, tie_word_embeddings=True), "qwen", "float16", {}),
    "qwen3moe": (
        tf.Qwen3MoeForCausalLM,
        dict(GROUPED, head_dim=8, moe_intermediate_size=16, num_experts=6, num_experts_per_tok=3, norm_topk_prob=True,
             decoder_sparse_step=1, mlp_only_layers=[]),
        "qwen", "bfloat16", {},
    ),
    "falcon-7b": (tf.FalconForCausalLM, dict(FALCON, multi_query=True, new_decoder_architecture=False,
                                             tie_word_embeddings=True), "falcon", "bin", {}),
    "falcon-40b": (tf.FalconForCausalLM, dict(FALCON, num_kv_heads=2, new_decoder_architecture=True,
                                              tie_word_embeddings=False), "falcon", "bfloat16", {}),
    "opt": (
        tf.OPTForCausalLM,
        dict(COMMON, ffn_dim=32, max_position_embeddings=62, word_embed_proj_dim=16, do_layer_norm_before=True,
             activation_function="relu", dropout=0.0, tie_word_embeddings=True),
        "gpt2", "bin", {},
    ),
    "relullama": (tf.LlamaForCausalLM, dict(GROUPED, hidden_act="relu", intermediate_size=64), "spm", "float16",
                  dict(ranks=(8, 12), beside=True, threshold=0.05)),
    "bamboo": (tf.LlamaForCausalLM, dict(GROUPED, hidden_act="relu", intermediate_size=64), "spm", "bfloat16",
               dict(arch="BambooForCausalLM", model_type="bamboo", drelu=True, ranks=(8, 12))),
    "turbosparse-mixtral": (
        tf.MixtralForCausalLM,
        dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=None, hidden_act="relu"),
        "spm", "bfloat16",
        dict(arch="TurboSparseMixtralForCausalLM", model_type="turbosparsemixtral", drelu=True, ranks=(8, 12), experts=4),
    ),
}  # fmt: skip
# Layers of two kinds. Of value heads two share a head of queries and keys.
KINDS = dict(GROUPED, num_hidden_layers=3, head_dim=8, tie_word_embeddings=True)
DELTA = dict(
    KINDS, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
    layer_types=["linear_attention", "linear_attention", "full_attention"],
    rope_parameters=dict(PLAIN, partial_rotary_factor=0.5, mrope_section=[1, 1, 0], mrope_interleaved=True),
)  # fmt: skip
CONV = dict(COMMON, num_hidden_layers=3, intermediate_size=48, num_key_value_heads=2, norm_eps=1e-6, conv_L_cache=3, conv_bias=False,
            layer_types=["conv", "full_attention", "conv"], rope_parameters=PLAIN, tie_word_embeddings=True)  # fmt: skip
MODELS |= {
    "gemma3": (
        tf.Gemma3ForCausalLM,
        dict(KINDS, query_pre_attn_scalar=8, sliding_window=4, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
             rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}),
        "spm", "bfloat16", {},
    ),
    "lfm2": (tf.Lfm2ForCausalLM, dict(CONV, block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.0, block_multiple_of=16),
             "llama3", "bfloat16", {}),
    "lfm2moe": (
        tf.Lfm2MoeForCausalLM,
        dict(CONV, moe_intermediate_size=16, num_dense_layers=1, num_experts=6, num_experts_per_tok=3, norm_topk_prob=True,
             use_expert_bias=True, routed_scaling_factor=1.0),
        "llama3", "safetensors", {},
    ),
    "qwen35": (tf.Qwen3_5ForCausalLM, DELTA, "qwen", "bfloat16", dict(images="Qwen3_5ForConditionalGeneration", mtp=3, config={"mtp_num_hidden_layers": 1})),
    "qwen35moe": (
        tf.Qwen3_5MoeForCausalLM,
        {k: v for k, v in DELTA.items() if k != "intermediate_size"}
        | dict(moe_intermediate_size=16, shared_expert_intermediate_size=32, num_experts=6, num_experts_per_tok=3,
               tie_word_embeddings=False),
        "qwen", "safetensors", {},
    ),
}  # fmt: skip
# Layers without a window have heads twice as large, and rotate a quarter of each.
GEMMA4 = dict(
    KINDS, global_head_dim=16, sliding_window=4, final_logit_softcapping=8.0, hidden_size_per_layer_input=0, pad_token_id=0,
    layer_types=["sliding_attention", "sliding_attention", "full_attention"],
    rope_parameters={"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
                     "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}},
)  # fmt: skip
MODELS |= {
    "gemma4": (tf.Gemma4ForCausalLM, dict(GEMMA4, attention_k_eq_v=True, num_global_key_value_heads=1), "gemma4", "bfloat16",
               dict(published=True)),
    "gemma4-e": (
        tf.Gemma4ForCausalLM,
        dict(GEMMA4, num_hidden_layers=4, num_kv_shared_layers=2, use_double_wide_mlp=True, hidden_size_per_layer_input=8,
             vocab_size_per_layer_input=N_VOCAB, layer_types=["sliding_attention", "full_attention"] * 2),
        "gemma4", "bfloat16", dict(published=True, images="Gemma4ForConditionalGeneration", spare=(2, 3)),
    ),
    "gemma4-moe": (
        tf.Gemma4ForCausalLM,
        dict(GEMMA4, attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True, num_experts=6, top_k_experts=3,
             moe_intermediate_size=16),
        "gemma4", "safetensors", dict(published=True),
    ),
    "gemma4-unified": (
        tf.Gemma4UnifiedForCausalLM,
        {k: v for k, v in GEMMA4.items() if k != "hidden_size_per_layer_input"}
        | dict(attention_k_eq_v=True, num_global_key_value_heads=1),
        "gemma4", "float16", {},
    ),
}  # fmt: skip
# Keys and values come of a latent vector. The first layer has no experts.
LATENT = dict(
    GROUPED, num_key_value_heads=4, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6, moe_intermediate_size=16,
    n_routed_experts=8, num_experts_per_tok=3,
)  # fmt: skip
SINKS = dict(GROUPED, head_dim=8, num_hidden_layers=2, sliding_window=4, num_local_experts=4, num_experts_per_tok=2,
             rope_parameters=dict(YARN, truncate=False, beta_fast=32.0, beta_slow=1.0))  # fmt: skip
MODELS |= {
    "deepseek-v2": (
        tf.DeepseekV2ForCausalLM,
        dict(LATENT, q_lora_rank=None, n_shared_experts=2, first_k_dense_replace=1, n_group=4, topk_group=2,
             topk_method="group_limited_greedy", routed_scaling_factor=1.5, norm_topk_prob=False,
             rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=0.7)),
        "qwen", "bfloat16", dict(config={"scoring_func": "softmax", "moe_layer_freq": 1}),
    ),
    "deepseek-v3": (
        tf.DeepseekV3ForCausalLM,
        dict(LATENT, q_lora_rank=8, n_shared_experts=1, first_k_dense_replace=1, n_group=4, topk_group=2, norm_topk_prob=True,
             routed_scaling_factor=2.5, rope_interleave=True, num_nextn_predict_layers=1,
             rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0, beta_fast=32.0, beta_slow=1.0)),
        "llama3", "bfloat16", dict(config={"scoring_func": "sigmoid", "num_nextn_predict_layers": 1}, ahead=2),
    ),
    "glm-lite": (
        tf.Glm4MoeLiteForCausalLM,
        dict(LATENT, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=8, v_head_dim=12, n_shared_experts=1, n_group=1,
             topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.8, rope_interleave=True),
        "llama3", "float16", dict(config={"first_k_dense_replace": 1}),
    ),
    "glm4-moe": (
        tf.Glm4MoeForCausalLM,
        dict(GROUPED, head_dim=8, num_hidden_layers=3, first_k_dense_replace=1, moe_intermediate_size=8, n_routed_experts=6,
             num_experts_per_tok=3, n_shared_experts=2, n_group=1, topk_group=1, norm_topk_prob=True, use_qk_norm=True,
             routed_scaling_factor=1.7, attention_bias=True, rope_parameters=dict(PLAIN, partial_rotary_factor=0.5)),
        "llama3", "bfloat16", dict(config={"num_nextn_predict_layers": 1}, guesses=3),
    ),
    "gpt-oss": (tf.GptOssForCausalLM, dict(SINKS, intermediate_size=32), "llama3", "bfloat16", {}),
    "gpt-oss-mxfp4": (tf.GptOssForCausalLM, dict(SINKS, hidden_size=64, intermediate_size=32), "llama3", "bfloat16", dict(mxfp4=True)),
}  # fmt: skip
# Matrices in F8_E4M3: with factors for blocks that do not divide them, and for rows, or one for all, of other names.
MODELS |= {
    "deepseek-v3-fp8": (
        tf.DeepseekV3ForCausalLM, MODELS["deepseek-v3"][1], "llama3", "bfloat16",
        dict(config={"scoring_func": "sigmoid"}, f8=(6, 5), f8_config={
            "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [6, 5]}),
    ),
    "qwen3-fp8": (
        tf.Qwen3ForCausalLM, dict(GROUPED, head_dim=8, intermediate_size=96, tie_word_embeddings=True), "qwen", "bfloat16",
        dict(f8=None, f8_config={
            "config_groups": {"group_0": {
                "input_activations": {"dynamic": True, "num_bits": 8, "strategy": "token", "type": "float"}, "targets": ["Linear"],
                "weights": {"block_structure": None, "group_size": None, "num_bits": 8, "strategy": "channel", "type": "float"}}},
            "format": "float-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors"}),
    ),
    "qwen35moe-fp8": ( # experts in one tensor
        tf.Qwen3_5MoeForCausalLM, MODELS["qwen35moe"][1], "qwen", "bfloat16",
        dict(images="Qwen3_5MoeForConditionalGeneration", mtp=3, fused=True, config={"mtp_num_hidden_layers": 1}, f8=(6, 5),
             f8_config={"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [6, 5]}),
    ),
}  # fmt: skip
# Matrices that stay in NVFP4, as ModelOpt (beside some in FP8) and compressed-tensors write them; integers of four bits.
EIGHTHS = dict(GROUPED, hidden_size=64, head_dim=16, intermediate_size=64, num_hidden_layers=1, tie_word_embeddings=True)
MODELS |= {
    "qwen3moe-nvfp4": (
        tf.Qwen3MoeForCausalLM,
        dict(EIGHTHS, moe_intermediate_size=64, num_experts=3, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=1,
             mlp_only_layers=[]),
        "qwen", "bfloat16",
        dict(packed="modelopt", file={"producer": {"name": "modelopt", "version": "0.37"}, "quantization": {
            "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": {
                "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
                "model.layers.0.self_attn.o_proj": {"quant_algo": "FP8"}}}}),
    ),
    "llama-nvfp4": (
        tf.LlamaForCausalLM, dict(EIGHTHS), "spm", "bfloat16",
        dict(packed="nvfp4", packed_config={
            "config_groups": {"group_0": {"format": "nvfp4-pack-quantized", "targets": ["Linear"],
                                          "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}}},
            "format": "nvfp4-pack-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors"}),
    ),
    "qwen35-nvfp4": ( # heads of values change their places, in rows and in columns
        tf.Qwen3_5ForCausalLM,
        dict(EIGHTHS, num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
             linear_num_value_heads=4, linear_key_head_dim=64, linear_value_head_dim=64, linear_conv_kernel_dim=4,
             rope_parameters=dict(PLAIN, partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True)),
        "qwen", "bfloat16", dict(packed="modelopt", packed_config={"quant_algo": "NVFP4", "quant_method": "modelopt"},
                                 images="Qwen3_5ForConditionalGeneration", mtp=2, config={"mtp_num_hidden_layers": 1}),
    ),
    "deepseek-v3-int4": ( # as Kimi K2 Thinking is published
        tf.DeepseekV3ForCausalLM, MODELS["deepseek-v3"][1], "tiktoken", "bfloat16",
        dict(config={"scoring_func": "sigmoid"}, packed="int4", packed_config={
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                "num_bits": 4, "type": "int", "strategy": "group", "group_size": 8, "symmetric": True}}},
            "format": "pack-quantized", "ignore": ["lm_head", "re:.*self_attn.*"], "quant_method": "compressed-tensors"}),
    ),
}  # fmt: skip
# Families of later years, most of them like others with a difference or two.
MODELS |= {
    "qwen2moe": (
        tf.Qwen2MoeForCausalLM,
        dict(GROUPED, moe_intermediate_size=16, shared_expert_intermediate_size=32, num_experts=6, num_experts_per_tok=3,
             norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[]),
        "qwen", "bfloat16", {},
    ),
    "qwen2vl": ( # as published: the text's settings beside those of images
        tf.Qwen2ForCausalLM, dict(GROUPED, tie_word_embeddings=True), "qwen", "bfloat16",
        dict(config={"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", "rope_theta": 10000.0,
                     "rope_parameters": None, "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 0]}, "layer_types": None,
                     "vision_config": {"depth": 1}}, visual="visual."),
    ),
    "qwen3vl": (
        tf.Qwen3ForCausalLM,
        dict(GROUPED, head_dim=8, tie_word_embeddings=True,
             rope_parameters=dict(PLAIN, mrope_section=[2, 1, 1], mrope_interleaved=True)),
        "qwen", "bfloat16", dict(images="Qwen3VLForConditionalGeneration", deepstack=[1, 2]),
    ),
    "smollm3": (tf.SmolLM3ForCausalLM, dict(GROUPED, num_hidden_layers=4, tie_word_embeddings=True, pad_token_id=None), "llama3", "bfloat16", {}),
    "granite": (
        tf.GraniteForCausalLM,
        dict(GROUPED, tie_word_embeddings=True, embedding_multiplier=12.0, attention_multiplier=0.3, residual_multiplier=0.22,
             logits_scaling=8.0),
        "llama3", "bfloat16", {},
    ),
    "granitemoe": (
        tf.GraniteMoeSharedForCausalLM,
        dict(GROUPED, num_local_experts=6, num_experts_per_tok=3, shared_intermediate_size=16, tie_word_embeddings=True,
             embedding_multiplier=12.0, attention_multiplier=0.3, residual_multiplier=0.22, logits_scaling=6.0),
        "llama3", "bfloat16", {},
    ),
    "seed-oss": (tf.SeedOssForCausalLM, dict(GROUPED, head_dim=8), "llama3", "bfloat16", {}),
    "olmo2": (tf.Olmo2ForCausalLM, dict(GROUPED), "llama3", "bfloat16", {}),
    "olmo3": (
        tf.Olmo3ForCausalLM,
        dict(GROUPED, num_hidden_layers=4, sliding_window=4,
             rope_parameters={"full_attention": dict(YARN, attention_factor=1.2), "sliding_attention": PLAIN}),
        "llama3", "bfloat16", {},
    ),
    "olmoe": (tf.OlmoeForCausalLM, dict(GROUPED, rms_norm_eps=1e-5, num_experts=6, num_experts_per_tok=3, norm_topk_prob=False),
              "llama3", "bfloat16", {}),
    "minimax-m2": (
        tf.MiniMaxM2ForCausalLM,
        dict(GROUPED, head_dim=8, num_local_experts=6, num_experts_per_tok=3, intermediate_size=16,
             rope_parameters=dict(PLAIN, partial_rotary_factor=0.5)),
        "llama3", "bfloat16", dict(config={"rotary_dim": 4, "scoring_func": "sigmoid"}),
    ),
}  # fmt: skip
MODELS |= {
    "phi3": (
        tf.Phi3ForCausalLM,
        dict(GROUPED, hidden_size=32, pad_token_id=None, original_max_position_embeddings=16,
             rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.5], "long_factor": [2.0, 4.5],
                              "partial_rotary_factor": 0.5, "original_max_position_embeddings": 16}),
        "spm", "bfloat16", {},
    ),
    "phi4": (tf.Phi3ForCausalLM, dict(GROUPED, pad_token_id=None, original_max_position_embeddings=64), "spm", "bfloat16", {}),
    "glm4": (tf.Glm4ForCausalLM, dict(GROUPED, head_dim=8, attention_bias=True, pad_token_id=None,
                                      rope_parameters=dict(PLAIN, partial_rotary_factor=0.5)), "llama3", "bfloat16", {}),
    "exaone4": (tf.Exaone4ForCausalLM, dict(GROUPED, num_hidden_layers=4, head_dim=8, sliding_window=4, sliding_window_pattern=4,
                                            rope_parameters=LLAMA3_ROPE), "llama3", "bfloat16", dict(config={"sliding_window_pattern": "LLLG"})),
    "cohere2": (
        tf.Cohere2ForCausalLM,
        {k: v for k, v in GROUPED.items() if k != "rms_norm_eps"}
        | dict(num_hidden_layers=4, layer_norm_eps=1e-5, sliding_window=4, logit_scale=0.25, tie_word_embeddings=True),
        "llama3", "bfloat16", dict(config={"rotary_pct": 1.0}),
    ),
    "ernie": (tf.Ernie4_5ForCausalLM, dict(GROUPED, head_dim=8, tie_word_embeddings=True), "spm", "bfloat16", {}),
    "gemma2": (
        tf.Gemma2ForCausalLM,
        dict(GROUPED, head_dim=8, query_pre_attn_scalar=8, sliding_window=4, final_logit_softcapping=8.0, attn_logit_softcapping=6.0,
             tie_word_embeddings=True),
        "spm", "bfloat16", {},
    ),
    "qwen3next": (
        tf.Qwen3NextForCausalLM,
        dict(DELTA, rope_parameters=dict(PLAIN, partial_rotary_factor=0.5), moe_intermediate_size=8, shared_expert_intermediate_size=16,
             num_experts=4, num_experts_per_tok=2, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True,
             tie_word_embeddings=False),
        "qwen", "bfloat16", dict(mtp=3),
    ),
    "gemma": (
        tf.GemmaForCausalLM,
        dict(GROUPED, head_dim=8, num_key_value_heads=1, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True),
        "spm", "bfloat16", {},
    ),
    "gemma3n": ( # rows of tokens that stand for images are missing
        tf.Gemma3nForCausalLM,
        dict(COMMON, hidden_size=32, num_hidden_layers=4, num_key_value_heads=2, rms_norm_eps=1e-6, tie_word_embeddings=True, head_dim=8,
             intermediate_size=64, sliding_window=4, hidden_size_per_layer_input=4, vocab_size_per_layer_input=280,
             num_kv_shared_layers=2, laurel_rank=8, activation_sparsity_pattern=[0.8, 0.0, 0.8, 0.0], altup_num_inputs=4,
             altup_active_idx=0, final_logit_softcapping=8.0, layer_types=["sliding_attention", "full_attention"] * 2,
             rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}),
        "spm", "bfloat16", dict(images="Gemma3nForConditionalGeneration", spare=(2, 3), config={"pad_token_id": None}),
    ),
    "qwen3vlmoe": ( # experts whose columns become rows
        tf.Qwen3MoeForCausalLM,
        dict(GROUPED, head_dim=8, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
             decoder_sparse_step=1, mlp_only_layers=[], rope_parameters=dict(PLAIN, mrope_section=[2, 1, 1], mrope_interleaved=True)),
        "qwen", "bfloat16", dict(images="Qwen3VLMoeForConditionalGeneration", deepstack=[1, 2], fused="turned", text="qwen3_vl_moe"),
    ),
    "llama4": (
        tf.Llama4ForCausalLM,
        dict(GROUPED, head_dim=8, num_hidden_layers=4, intermediate_size=16, intermediate_size_mlp=24, num_local_experts=4,
             num_experts_per_tok=1, interleave_moe_layer_step=2, use_qk_norm=True, rope_parameters=LLAMA3_ROPE,
             attention_chunk_size=8192, moe_layers=[1, 3]),
        "llama3", "bfloat16", dict(images="Llama4ForConditionalGeneration", outer="language_model."),
    ),
}  # fmt: skip
# Layers with scans (Mamba-2). Steps are not cut off from below, which transformers does in prompts alone.
SCAN, FULL = "linear_attention", "full_attention"
NEMOTRON = dict(
    COMMON, num_key_value_heads=2, head_dim=8, intermediate_size=32, mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=16, n_groups=2,
    conv_kernel=4, chunk_size=32, time_step_min=1e-30, tie_word_embeddings=False, n_routed_experts=4, num_experts_per_tok=2,
    moe_intermediate_size=16, moe_shared_expert_intermediate_size=24, routed_scaling_factor=1.6, norm_topk_prob=True,
)  # fmt: skip
del NEMOTRON["num_hidden_layers"]
GRANITE = dict(
    GROUPED, num_hidden_layers=3, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=16, mamba_n_groups=2, mamba_d_conv=4, mamba_expand=2,
    mamba_chunk_size=32, embedding_multiplier=2.5, attention_multiplier=0.3, residual_multiplier=0.6, logits_scaling=1.7,
    layer_types=[SCAN, FULL, SCAN], shared_intermediate_size=32,
)  # fmt: skip
MAMBA, ATTENTION = ["mamba", "attention", "mamba"], ["attention", "attention"]
MODELS |= {
    "nemotron-h": (
        tf.NemotronHForCausalLM, dict(NEMOTRON, layers_block_type=[SCAN, "mlp", SCAN, FULL, "mlp"]), "llama3", "bfloat16",
        dict(config={"hybrid_override_pattern": "M-M*-", "num_hidden_layers": 5, "num_experts_per_tok": ..., "n_routed_experts": ...,
                     "n_group": ..., "topk_group": ..., "layers_block_type": ...,
                     "layer_types": ...}),
    ),
    "nemotron-h-moe": (
        tf.NemotronHForCausalLM, dict(NEMOTRON, layers_block_type=[SCAN, "moe", FULL, "moe"], moe_latent_size=8), "llama3", "bfloat16", {},
    ),
    "granite-hybrid": (
        tf.GraniteMoeHybridForCausalLM, dict(GRANITE, num_local_experts=0, num_experts_per_tok=0, tie_word_embeddings=True), "llama3",
        "bfloat16", dict(config={"layer_types": MAMBA, "position_embedding_type": "nope"}),
    ),
    "granite-hybrid-moe": (
        tf.GraniteMoeHybridForCausalLM, dict(GRANITE, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2), "llama3",
        "bfloat16", dict(config={"layer_types": MAMBA, "position_embedding_type": "nope"}),
    ),
    "granite-attending": (
        tf.GraniteMoeHybridForCausalLM,
        dict(GRANITE, num_hidden_layers=2, layer_types=[FULL, FULL], num_local_experts=0, num_experts_per_tok=0, tie_word_embeddings=True,
             position_embedding_type="rope"),
        "llama3", "bfloat16", dict(config={"layer_types": ATTENTION}),
    ),
    "falcon-h1": (
        tf.FalconH1ForCausalLM,
        dict(GROUPED, head_dim=8, mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=16, mamba_d_conv=4,
             mamba_chunk_size=32, mamba_rms_norm=False, rope_parameters={"rope_type": "default", "rope_theta": 1e11},
             embedding_multiplier=5.65, lm_head_multiplier=0.13, attention_in_multiplier=0.9, attention_out_multiplier=0.8,
             key_multiplier=0.35, ssm_in_multiplier=1.4, ssm_out_multiplier=0.7, mlp_multipliers=[0.88, 0.6],
             ssm_multipliers=[0.35, 0.25, 0.18, 0.5, 0.35]),
        "llama3", "bfloat16", {},
    ),
}  # fmt: skip
MODELS |= {
    "hunyuan": (
        tf.HunYuanDenseV1ForCausalLM,
        dict(GROUPED, head_dim=8, tie_word_embeddings=True, max_position_embeddings=32768,
             rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 50.0, "factor": 1.0}),
        "llama3", "bfloat16", dict(config={"eod_token_id": 286}),
    ),
    "hunyuan-moe": (
        tf.HunYuanMoEV1ForCausalLM, dict(GROUPED, intermediate_size=16, head_dim=8, num_experts=4, moe_topk=2), "llama3", "bfloat16",
        dict(config={"moe_topk": [2, 2], "moe_intermediate_size": [16, 16], "num_shared_expert": [1, 1]}),
    ),
    "ernie-moe": (
        tf.Ernie4_5_MoeForCausalLM,
        dict(GROUPED, moe_num_experts=4, moe_k=2, moe_intermediate_size=8, moe_num_shared_experts=2, moe_layer_start_index=1,
             pad_token_id=None, tie_word_embeddings=True),
        "spm", "bfloat16", {},
    ),
    "dots1": (
        tf.Dots1ForCausalLM,
        dict(GROUPED, head_dim=8, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=8, n_group=1,
             topk_group=1, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.7, sliding_window=None),
        "qwen", "bfloat16", {},
    ),
    "ling2": ( # whose code is that of GLM-4.5 with queries, keys and values in one
        tf.Glm4MoeForCausalLM,
        dict(GROUPED, head_dim=8, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=8, n_group=4,
             topk_group=2, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, use_qk_norm=True,
             rope_parameters=dict(PLAIN, partial_rotary_factor=0.5)),
        "llama3", "bfloat16",
        dict(rename="ling2", config={
            "architectures": ["BailingMoeV2ForCausalLM"], "model_type": "bailing_moe", "num_experts": 8, "num_shared_experts": 1,
            "n_routed_experts": ..., "n_shared_experts": ..., "score_function": "sigmoid", "partial_rotary_factor": 0.5,
            "rope_theta": 10000.0, "rope_parameters": ..., "num_nextn_predict_layers": ...}),
    ),
    "starcoder2": (
        tf.Starcoder2ForCausalLM,
        {k: v for k, v in GROUPED.items() if k != "rms_norm_eps"} | dict(norm_epsilon=1e-5, use_bias=True, tie_word_embeddings=True, sliding_window=4),
        "qwen", "bfloat16", {},
    ),
    "internlm2": ( # llama with queries, keys and values of a group side by side
        tf.LlamaForCausalLM, dict(GROUPED), "spm", "bfloat16",
        dict(rename="internlm2", config={
            "architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2", "bias": False, "rope_theta": 10000.0,
            "rope_scaling": {"type": "dynamic", "factor": 2.0}, "rope_parameters": ..., "attention_bias": ..., "mlp_bias": ...}),
    ),
}  # fmt: skip
# Attention to chosen positions, fewer than the text has.
CHOOSING = dict(LATENT, q_lora_rank=8, n_shared_experts=1, first_k_dense_replace=1, norm_topk_prob=True, index_n_heads=4,
                index_head_dim=8, index_topk=4, pad_token_id=None)  # fmt: skip
MODELS |= {
    "deepseek-v32": (
        tf.DeepseekV32ForCausalLM,
        dict(CHOOSING, n_group=4, topk_group=2, routed_scaling_factor=2.5, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0)),
        "llama3", "bfloat16", dict(config={"scoring_func": "sigmoid"}),
    ),
    "glm-dsa": (
        tf.GlmMoeDsaForCausalLM,
        dict(CHOOSING, num_hidden_layers=4, indexer_types=["full", "shared", "full", "shared"], n_group=1, topk_group=1,
             routed_scaling_factor=1.8),
        "llama3", "bfloat16", dict(config={"scoring_func": "sigmoid"}),
    ),
}  # fmt: skip
MODELS |= {
    "kimi-linear": (
        tf.KimiLinearForCausalLM,
        dict(GROUPED, pad_token_id=None, num_key_value_heads=4, num_hidden_layers=3, layer_types=[SCAN, FULL, SCAN], mlp_layer_types=["dense", "sparse", "sparse"],
             moe_intermediate_size=8, num_local_experts=4, num_experts_per_tok=2, n_shared_experts=1, routed_scaling_factor=1.6, n_group=1,
             topk_group=1, norm_topk_prob=True, kv_lora_rank=8, q_lora_rank=None, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6,
             linear_head_dim=16, linear_num_heads=4, linear_conv_kernel_dim=4),
        "llama3", "bfloat16",
        dict(rename="kimi", config={
            "linear_attn_config": {"full_attn_layers": [2], "kda_layers": [1, 3], "head_dim": 16, "num_heads": 4, "short_conv_kernel_size": 4},
            "layer_types": ..., "mlp_layer_types": ..., "linear_head_dim": ..., "linear_num_heads": ..., "linear_conv_kernel_dim": ...,
            "num_experts": 4, "num_local_experts": ..., "num_experts_per_token": 2, "num_experts_per_tok": ..., "num_shared_experts": 1,
            "n_shared_experts": ..., "first_k_dense_replace": 1, "moe_renormalize": True, "norm_topk_prob": ..., "num_expert_group": 1,
            "n_group": ..., "moe_router_activation_func": "sigmoid", "mla_use_nope": True, "model_max_length": 64,
            "max_position_embeddings": ..., "rope_theta": 10000.0, "rope_parameters": ..., "head_dim": 4}),
    ),
}  # fmt: skip
MODELS |= {
    "minimax-01": ( # two tokens were never trained
        tf.MiniMaxForCausalLM,
        dict(GROUPED, num_hidden_layers=4, layer_types=[SCAN, FULL] * 2, head_dim=16, intermediate_size=16, num_local_experts=4,
             num_experts_per_tok=2, block_size=16, full_attn_alpha_factor=1.7, linear_attn_alpha_factor=1.7, mlp_alpha_factor=1.7),
        "llama3", "sharded",
        dict(rename="minimax", zero=(285, 287), config={
            "architectures": ["MiniMaxText01ForCausalLM"], "model_type": "minimax_text_01", "attn_type_list": [0, 1, 0, 1],
            "layer_types": ..., "block_size": ..., "rotary_dim": 16, "rope_theta": 10000.0, "rope_parameters": ..., "postnorm": True,
            "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid"}
            | {f"{kind}_{f}_factor": ... for kind in ("full_attn", "linear_attn", "mlp") for f in ("alpha", "beta")}
            | {f"layernorm_{kind}_{f}": v for kind in ("full_attention", "linear_attention", "mlp")
               for f, v in (("alpha", 1.7), ("beta", 1.0))}),
    ),
}  # fmt: skip
KNOWN_TO_LLAMA_CPP = {"minimax-01", "qwen35-nvfp4", "qwen3moe-nvfp4", "llama-nvfp4", "deepseek-v3-int4", "kimi-linear", "deepseek-v32", "glm-dsa", "hunyuan", "hunyuan-moe", "ernie-moe", "dots1", "ling2", "starcoder2", "internlm2", "nemotron-h", "nemotron-h-moe", "granite-hybrid", "granite-hybrid-moe", "granite-attending", "falcon-h1", "gemma", "gemma3n", "qwen3vlmoe", "llama4", "qwen3next",
                      "qwen35", "phi3", "phi4", "glm4", "exaone4", "cohere2", "ernie", "gemma2",
                      "qwen2moe", "qwen2vl", "qwen3vl", "smollm3", "granite", "granitemoe", "seed-oss", "olmo2", "olmo3", "olmoe", "minimax-m2",
                      "glm4-moe", "deepseek-v3-fp8", "qwen3-fp8", "llama", "llama-biases", "mistral", "mixtral", "qwen2", "qwen3", "qwen3moe", "falcon-7b", "falcon-40b",
                      "gemma4", "gemma4-e", "gemma4-moe", "deepseek-v2", "deepseek-v3", "glm-lite", "gpt-oss",
                      "gpt-oss-mxfp4"}  # fmt: skip
AS_THEY_ARE = (torch.uint8, torch.int32, torch.float8_e4m3fn)
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "bin": torch.float16, "sharded": torch.bfloat16}


def random_predictors(rng, cfg, extra):
    """{(layer, expert): (fc1, fc2)} as they are stored."""
    out = {}
    for i in range(cfg.num_hidden_layers):
        for x in range(extra.get("experts", 1)):
            r = extra["ranks"][i]
            fc1 = torch.from_numpy(rng.standard_normal((r, cfg.hidden_size)).astype(np.float32) / 4)
            fc2 = torch.from_numpy(rng.standard_normal((cfg.intermediate_size, r)).astype(np.float32) / 2)
            out[i, x] = (fc1.bfloat16(), fc2.bfloat16())
    return out


def gated(m, gate, up, drelu):
    h = torch.relu(gate)
    return h * (torch.relu(up) if drelu else up)


def patch(model, extra, predictors, threshold):
    """dReLU, and with predictors the mask that they give. The predictor of a dense layer looks at the stream."""
    for i, layer in enumerate(model.model.layers):
        stream = {}
        layer.post_attention_layernorm.register_forward_pre_hook(lambda m, a, s=stream: s.__setitem__("x", a[0]))

        def mask(x, which, i=i):
            if predictors is None:
                return 1
            fc1, fc2 = (w.to(x.dtype) for w in predictors[i, which])
            p = torch.relu(x @ fc1.T) @ fc2.T
            assert (p - threshold).abs().min() > 2e-5, "too close to call: take another seed"
            return (p >= threshold).to(x.dtype)

        if hasattr(layer.mlp, "gate_proj"):
            def forward(x, m=layer.mlp, s=stream, mask=mask):
                return m.down_proj(gated(m, m.gate_proj(x), m.up_proj(x), extra.get("drelu")) * mask(s["x"], 0))
            layer.mlp.forward = forward
        else:
            def forward(x, chosen, weights, m=layer.mlp.experts, mask=mask):
                out = torch.zeros_like(x)
                for t in range(x.shape[0]):
                    for e, w in zip(chosen[t].tolist(), weights[t]):
                        gate, up = (m.gate_up_proj[e] @ x[t]).chunk(2)
                        h = gated(m, gate, up, extra.get("drelu"))
                        k = mask(x[t], e)
                        out[t] += w * (m.down_proj[e] @ (h * k))
                return out
            layer.mlp.experts.forward = forward
    return model


def original_names(model):
    """The state dictionary under the names that published checkpoints have."""
    with tempfile.TemporaryDirectory() as tmp:
        model.save_pretrained(tmp)
        from safetensors.torch import load_file
        out = {}
        for name in os.listdir(tmp):
            if name.endswith(".safetensors"):
                out |= load_file(os.path.join(tmp, name))
        config = json.load(open(os.path.join(tmp, "config.json")))
    return out, config


def rename_ling2(tensors, _):
    """The names of Ling 2, and queries, keys and values in one."""
    out = {}
    for name, w in tensors.items():
        if name.endswith("q_proj.weight"):
            parts = [tensors[name.replace("q_proj", p + "_proj")] for p in "qkv"]
            out[name.replace("self_attn.q_proj", "attention.query_key_value")] = torch.cat(parts)
        elif not name.endswith(("k_proj.weight", "v_proj.weight")):
            for a, b in (("embed_tokens", "word_embeddings"), ("self_attn.o_proj", "attention.dense"),
                         ("self_attn.q_norm", "attention.query_layernorm"), ("self_attn.k_norm", "attention.key_layernorm"),
                         ("mlp.gate.e_score_correction_bias", "mlp.gate.expert_bias")):  # fmt: skip
                name = name.replace(a, b)
            out[name] = w
    return out


def rename_internlm2(tensors, cfg):
    """The names of InternLM 2; of each group of queries, their key and their value in one."""
    out, kv = {}, cfg.num_key_value_heads
    for name, w in tensors.items():
        if name.endswith("q_proj.weight"):
            parts = [tensors[name.replace("q_proj", p + "_proj")].unflatten(0, (kv, -1)) for p in "qkv"]
            out[name.replace("self_attn.q_proj", "attention.wqkv")] = torch.cat(parts, 1).flatten(0, 1)
        elif not name.endswith(("k_proj.weight", "v_proj.weight")):
            for a, b in (("embed_tokens", "tok_embeddings"), ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"),
                         ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"), ("input_layernorm", "attention_norm"),
                         ("post_attention_layernorm", "ffn_norm"), ("lm_head", "output")):  # fmt: skip
                name = name.replace(a, b)
            out[name] = w
    return out


def rename_kimi(tensors, _):
    """The first layer's dense part as published checkpoints name it."""
    return {name.replace("layers.0.block_sparse_moe.", "layers.0.mlp."): w for name, w in tensors.items()}


def rename_minimax(tensors, _):
    """Without tables that published checkpoints do not have."""
    return {name: w for name, w in tensors.items() if not name.endswith(("_decay", ".slope_rate"))}


RENAME = {"minimax": rename_minimax, "kimi": rename_kimi, "ling2": rename_ling2, "internlm2": rename_internlm2}
MXFP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def to_mxfp4(model, rng):
    """Gives experts random numbers in MXFP4. Returns what checkpoints have of them: blocks [expert][row][block][16], two
    neighbours in a byte, and scales [expert][row][block], where rows are the model's columns."""
    out = {}
    for name, p in model.named_parameters():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            n, inputs, rows = p.shape
            codes = torch.from_numpy(rng.randint(0, 16, (n, rows, inputs // 32, 32)).astype(np.uint8))
            scales = torch.from_numpy(rng.randint(121, 125, (n, rows, inputs // 32)).astype(np.uint8))
            values = MXFP4[codes.long()] * torch.exp2(scales.float() - 127).unsqueeze(-1)
            p.data = values.reshape(n, rows, inputs).transpose(1, 2).contiguous()
            out[name + "_blocks"] = codes[..., 0::2] | codes[..., 1::2] << 4
            out[name + "_scales"] = scales
    return out


def fuse_experts(tensors):
    """Experts of a layer in two tensors, as newer checkpoints have them."""
    out = dict(tensors)
    for name in tensors:
        if ".experts.0.gate_proj." in name:
            start = name.split("0.gate_proj")[0]
            n = sum(k.startswith(start) and k.endswith("gate_proj.weight") for k in tensors)
            gate, up, down = ([out.pop(f"{start}{e}.{part}_proj.weight") for e in range(n)] for part in ("gate", "up", "down"))
            out[start + "gate_up_proj"] = torch.stack([torch.cat(pair) for pair in zip(gate, up)])
            out[start + "down_proj"] = torch.stack(down)
    return out


def to_f8(tensors, blocks):
    """Matrices of layers in F8_E4M3 with their factors, and the same as plain numbers. blocks: (rows, columns) of a factor;
    None: it is a row's, or in outputs of attention the whole matrix's."""
    stored, plain = {}, {}
    for name, w in tensors.items():
        if w.ndim == 3 and ".experts." in name:
            each = [to_f8({name + "_proj.weight": m}, blocks) for m in w]
            stored[name] = torch.stack([s[name + "_proj.weight"].view(torch.uint8) for s, _ in each]).view(torch.float8_e4m3fn)
            stored[name + "_scale_inv"] = torch.stack([s[name + "_proj.weight_scale_inv"] for s, _ in each])
            plain[name] = torch.stack([p[name + "_proj.weight"] for _, p in each])
            continue
        if not name.endswith(("_proj.weight", "kv_a_proj_with_mqa.weight", "in_proj_qkv.weight", "in_proj_z.weight")):
            stored[name] = plain[name] = w
            continue
        rows, cols = w.shape
        r, c = blocks or ((rows if "o_proj" in name else 1), cols)
        padded = torch.zeros(-(-rows // r) * r, -(-cols // c) * c)
        padded[:rows, :cols] = w.float()
        largest = padded.reshape(padded.shape[0] // r, r, padded.shape[1] // c, c).abs().amax(dim=(1, 3))
        factors = largest / 448 if blocks else (largest / 448).bfloat16().float()
        wide = factors.repeat_interleave(r, 0).repeat_interleave(c, 1)[:rows, :cols]
        codes = (w.float() / wide).clamp(-448, 448).to(torch.float8_e4m3fn)
        stored[name] = codes
        plain[name] = codes.float() * wide
        if blocks:
            stored[name + "_scale_inv"] = factors
        else:
            stored[name + "_scale"] = (factors.reshape(1) if r == rows else factors).bfloat16()
    return stored, plain


E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def to_packed(tensors, how, rng):
    """Random matrices of layers in NVFP4 (how: "modelopt", "nvfp4", as compressed-tensors has it) or experts in integers of four
    bits ("int4"), as checkpoints have them, and the same as plain numbers."""
    stored, plain = {}, {}
    for name, w in tensors.items():
        if not name.endswith(("_proj.weight", "in_proj_qkv.weight", "in_proj_z.weight")) or (how == "int4" and ".experts." not in name):
            stored[name] = plain[name] = w
            continue
        rows, cols = w.shape
        codes = torch.from_numpy(rng.randint(0, 16, (rows, cols)).astype(np.uint8))
        base = name.removesuffix(".weight")
        if how == "int4":
            scales = torch.from_numpy(rng.uniform(0.02, 0.06, (rows, cols // 8)).astype(np.float32)).bfloat16()
            plain[name] = (codes.float() - 8) * scales.float().repeat_interleave(8, 1)
            shifted = codes.reshape(rows, -1, 8).long() << (4 * torch.arange(8))
            packed = shifted.sum(-1)
            stored[base + ".weight_packed"] = torch.where(packed >= 2**31, packed - 2**32, packed).int()
            stored[base + ".weight_scale"], stored[base + ".weight_shape"] = scales, torch.tensor([rows, cols], dtype=torch.int32)
            continue
        whole = torch.tensor(rng.uniform(0.01, 0.02), dtype=torch.float32)
        if how == "modelopt" and "o_proj" in name:
            codes = (w.float() / whole).clamp(-448, 448).to(torch.float8_e4m3fn)
            stored |= {name: codes, base + ".weight_scale": whole, base + ".input_scale": whole * 2}
            plain[name] = codes.float() * whole
            continue
        scales = torch.from_numpy(rng.uniform(1, 4, (rows, cols // 16)).astype(np.float32)).to(torch.float8_e4m3fn)
        bytes_of = codes[:, 0::2] | codes[:, 1::2] << 4
        if how == "modelopt":
            stored |= {name: bytes_of, base + ".weight_scale": scales, base + ".weight_scale_2": whole, base + ".input_scale": whole * 2}
        else:
            inverse = (1 / whole).reshape(1)
            whole = 1 / inverse
            stored |= {base + ".weight_packed": bytes_of, base + ".weight_scale": scales, base + ".weight_global_scale": inverse,
                       base + ".input_global_scale": inverse * 2}
        plain[name] = E2M1[codes.long()] * scales.float().repeat_interleave(16, 1) * whole
    return stored, plain


def with_weights(model, tensors, config):
    """The model with the weights of a checkpoint."""
    with tempfile.TemporaryDirectory() as tmp:
        write_json(tmp, "config.json", config)
        save_file({k: v.float().contiguous() for k, v in tensors.items()}, os.path.join(tmp, "model.safetensors"), metadata={"format": "pt"})
        how = dict(attn_implementation="eager", experts_implementation="eager")
        return type(model).from_pretrained(tmp, dtype=torch.float32, **how).eval()


def ahead_tensors(rng, cfg, layer):
    """Of a layer that guesses tokens ahead, which nothing uses."""
    names = ("eh_proj", "embed_tokens", "shared_head.head", "self_attn.o_proj")
    return {f"model.layers.{layer}.{n}.weight": torch.from_numpy(rng.standard_normal((4, cfg.hidden_size)).astype(np.float32))
            for n in names}  # fmt: skip


def guess_tensors(rng, tensors, layer):
    """Of a layer that guesses tokens ahead, which is like the last one: all that it has."""
    out = {}
    for name, w in tensors.items():
        if name.startswith(f"model.layers.{layer - 1}."):
            out[name.replace(f".{layer - 1}.", f".{layer}.", 1)] = torch.from_numpy(rng.standard_normal(w.shape).astype(np.float32) / 4)
    n, width = tensors["model.embed_tokens.weight"].shape
    shapes = {"eh_proj": (width, 2 * width), "enorm": (width,), "hnorm": (width,), "shared_head.norm": (width,),
              "embed_tokens": (n, width), "shared_head.head": (n, width)}  # fmt: skip
    for part, shape in shapes.items():
        out[f"model.layers.{layer}.{part}.weight"] = torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
    return out


def published_mtp(name, layer):
    """The name that Qwen 3.5 has for a tensor of such a layer."""
    start = f"model.layers.{layer}."
    parts = {"eh_proj.weight": "mtp.fc.weight", "enorm.weight": "mtp.pre_fc_norm_embedding.weight",
             "hnorm.weight": "mtp.pre_fc_norm_hidden.weight", "shared_head.norm.weight": "mtp.norm.weight"}  # fmt: skip
    return parts.get(name.removeprefix(start), name.replace(start, "mtp.layers.0."))


def store(folder, tensors, how):
    if how in DTYPES:
        tensors = {k: v if v.dtype in AS_THEY_ARE or "_scale" in k else v.to(DTYPES[how]) for k, v in tensors.items()}
    tensors = {k: v.contiguous() for k, v in tensors.items()}
    if how == "bin":
        torch.save(tensors, os.path.join(folder, "pytorch_model.bin"))
    elif how == "sharded":
        names = sorted(tensors)
        parts = [names[::2], names[1::2]]
        index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": {}}
        for i, part in enumerate(parts):
            shard = f"model-{i + 1:05}-of-00002.safetensors"
            save_file({n: tensors[n] for n in part}, os.path.join(folder, shard), metadata={"format": "pt"})
            index["weight_map"] |= {n: shard for n in part}
        write_json(folder, "model.safetensors.index.json", index)
    else:
        save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


# ---- what llama.cpp's converter makes of them ----------------------------------------------------------------------


def convert_with_llama_cpp(folder, pre):
    """Runs the converter, with the name of the pre-tokenizer given, as it knows that of published ones alone."""
    import gguf
    from conversion import ModelBase, get_model_class
    from conversion.base import TextModel, ModelType, get_model_architecture

    out = os.path.join(folder, "out.gguf")
    TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    load = ModelBase.load_hparams
    raw = json.load(open(os.path.join(folder, "config.json")))
    if raw.get("model_type", "").startswith(("gemma4", "deepseek", "glm4_moe", "glm_moe_dsa", "nemotron_h", "kimi_linear")):  # as it is: transformers would change what published files say
        ModelBase.load_hparams = staticmethod(lambda *_, **__: dict(raw))
    hparams = ModelBase.load_hparams(Path(folder), False)
    cls = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
    if raw.get("model_type") in ("hunyuan_v1_moe", "deepseek_v32", "glm_moe_dsa", "glm4_moe_lite", "glm4_moe", "glm4"):  # whose published vocabulary has tokens that this one lacks
        cls.set_vocab = cls._set_vocab_gpt2
    from_pretrained = AutoTokenizer.from_pretrained
    if pre == "kimi-k2":
        AutoTokenizer.from_pretrained = staticmethod(lambda *_, **__: KimiTokenizer())
    try:
        with torch.inference_mode():
            cls(Path(folder), gguf.LlamaFileType.MOSTLY_F16, Path(out)).write()
    finally:
        ModelBase.load_hparams = load
        AutoTokenizer.from_pretrained = from_pretrained
    return out


def raw_value(field):
    """Type, number of elements, and bytes of a key's value, as in the file but for the lengths of arrays."""
    import gguf
    V = gguf.GGUFValueType
    kinds = [int(t) for t in field.types]
    if kinds[0] == V.ARRAY:
        if kinds[1] == V.STRING:
            data = b"".join(struct.pack("<Q", len(field.parts[i])) + bytes(field.parts[i]) for i in field.data)
        else:
            data = b"".join(field.parts[i].tobytes() for i in field.data)
        return kinds[1], len(field.data), data
    value = bytes(field.parts[field.data[0]].tobytes())
    return kinds[0], 1, struct.pack("<Q", len(value)) + value if kinds[0] == V.STRING else value


def publish(config, settings):
    """As published files say what transformers writes for each layer."""
    del config["per_layer_config"]
    config["global_head_dim"] = settings["global_head_dim"]
    config["num_global_key_value_heads"] = settings.get("num_global_key_value_heads")


def spare_tensors(rng, cfg, layers):
    """Keys and values of layers that attend to those of earlier ones, which published files have, too, and nothing uses."""
    out = {}
    for i in layers:
        for part in ("k_proj", "v_proj"):
            out[f"model.layers.{i}.self_attn.{part}.weight"] = torch.from_numpy(rng.standard_normal((16, cfg.hidden_size)).astype(np.float32))
        out[f"model.layers.{i}.self_attn.k_norm.weight"] = torch.ones(8)
    return out


def describe(path, folder, name, spare):
    """tensors.txt: name, type, dimensions, CRC-32; keys.txt: key, type, elements, CRC-32."""
    import gguf
    reader = gguf.GGUFReader(path)
    with open(os.path.join(folder, "tensors.txt"), "w") as f:
        for t in sorted(reader.tensors, key=lambda t: t.name):
            if any(t.name.startswith(f"blk.{i}.attn_{p}.") for i in spare for p in ("k", "v", "k_norm")):
                continue  # left out by Hearth
            if t.name.endswith(".input_scale"):
                continue  # the same
            dims = "x".join(map(str, t.shape.tolist()))
            f.write(f"{t.name} {int(t.tensor_type)} {dims} {zlib.crc32(t.data.tobytes()):08x}\n")
    with open(os.path.join(folder, "keys.txt"), "w") as f:
        for key, field in sorted(reader.fields.items()):
            if key.startswith("GGUF.") or (key.startswith("general.") and key not in (
                    "general.architecture", "general.type", "general.file_type", "general.quantization_version")):
                continue
            kind, n, data = raw_value(field)
            f.write(f"{key} {kind} {n} {zlib.crc32(data):08x}\n")


# ---- all -----------------------------------------------------------------------------------------------------------


@torch.no_grad()
def make(name, out, with_llama_cpp):
    model_class, settings, kind, how, extra = MODELS[name]
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    torch.manual_seed(0)
    ids = dict(bos_token_id=1, eos_token_id=2) if kind.startswith("spm") or kind == "gpt2" else dict(bos_token_id=284, eos_token_id=285)
    if kind == "gemma4":
        ids = dict(bos_token_id=2, eos_token_id=1)
    model = model_class(model_class.config_class(**dict(settings, **ids))).eval()
    seed = 3 + sum(map(ord, name))
    fill(model, np.random.RandomState(seed))
    packed = to_mxfp4(model, np.random.RandomState(seed)) if extra.get("mxfp4") else {}
    if how in DTYPES:
        for p in model.parameters():
            p.data = p.data.to(DTYPES[how]).float()
        for name_of, b in model.named_buffers():
            if name_of.endswith("layer_scalar"):
                b.copy_(b.to(DTYPES[how]).float())
    for row in extra.get("zero", ()):
        model.model.embed_tokens.weight.data[row] = 0
    if model.config.tie_word_embeddings:
        model.tie_weights()
    tensors, config = original_names(model)
    if "rename" in extra:
        tensors = RENAME[extra["rename"]](tensors, model.config)
    config = {k: v for k, v in config.items() if k not in ("transformers_version", "use_cache", "dtype", "initializer_range")}
    if extra.get("published"):
        publish(config, settings)
    config = {k: v for k, v in (config | extra.get("config", {})).items() if v is not ...}
    if packed:
        tensors = {k: v for k, v in tensors.items() if k + "_blocks" not in packed} | packed
        config["quantization_config"] = {"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"}
    if extra.get("fused"):
        tensors = fuse_experts(tensors)
    if extra.get("fused") == "turned":
        tensors = {k: v.transpose(1, 2) if v.ndim == 3 else v for k, v in tensors.items()}
    guesses = {}
    if "guesses" in extra or "mtp" in extra:
        guesses = guess_tensors(np.random.RandomState(seed), tensors, extra.get("guesses", extra.get("mtp")))
    if "mtp" in extra:
        guesses = {published_mtp(k, extra["mtp"]): v for k, v in guesses.items()
                   if not k.endswith((".embed_tokens.weight", ".shared_head.head.weight"))}  # fmt: skip
    if "f8" in extra:
        tensors, plain = to_f8(tensors, extra["f8"])
        model = with_weights(model, plain, config)
        config["quantization_config"] = extra["f8_config"]
    if "packed" in extra:
        tensors, plain = to_packed(tensors, extra["packed"], np.random.RandomState(seed))
        model = with_weights(model, plain, config)
        if "packed_config" in extra:
            config["quantization_config"] = extra["packed_config"]
    if "file" in extra:
        write_json(folder, "hf_quant_config.json", extra["file"])
    if "ahead" in extra:
        tensors |= ahead_tensors(np.random.RandomState(seed), model.config, extra["ahead"])
    tensors |= guesses
    tensors |= spare_tensors(np.random.RandomState(seed), model.config, extra.get("spare", ()))
    if name == "falcon-7b": # llama.cpp's converter takes it as the number of KV heads; transformers does not look at it
        config["num_kv_heads"] = 1
    predictors = random_predictors(np.random.RandomState(seed), model.config, extra) if "ranks" in extra else None
    threshold = extra.get("threshold", 0.0)
    if "arch" in extra:
        config |= {"architectures": [extra["arch"]], "model_type": extra["model_type"]}
    if extra.get("beside"):
        os.makedirs(os.path.join(folder, "predictors"))
        for (i, _), (fc1, fc2) in predictors.items():
            torch.save({"fc1.weight": fc1, "fc2.weight": fc2}, os.path.join(folder, "predictors", f"model_{i}.pt"))
        write_json(os.path.join(folder, "predictors"), "config.json", {"sparse_threshold": threshold})
    elif predictors:
        for (i, x), pair in predictors.items():
            where = f"block_sparse_moe.experts.{x}" if "experts" in extra else "mlp"
            for part, w in zip(("fc1", "fc2"), pair):
                tensors[f"model.layers.{i}.{where}.predictor.{part}.weight"] = w
    if "visual" in extra:
        config = {k: v for k, v in config.items() if v is not None}
        tensors[extra["visual"] + "patch_embed.proj.weight"] = torch.zeros(4, 4)
    if "deepstack" in extra:
        config = {k: v for k, v in config.items() if k != "architectures"} | {"model_type": extra.get("text", "qwen3_vl") + "_text"}
    if "images" in extra: # as models that see images are published
        config = {"architectures": [extra["images"]]} | ({"model_type": extra.get("text", "qwen3_vl")} if "deepstack" in extra else {}) | {
                  "text_config": config,
                  "vision_config": {"depth": 1} | ({"deepstack_visual_indexes": extra["deepstack"]} if "deepstack" in extra else {}),
                  "tie_word_embeddings": config["tie_word_embeddings"]} | (
                      {"quantization_config": config.pop("quantization_config")} if "f8" in extra else {})  # fmt: skip
        tensors = {extra["outer"] + k if "outer" in extra else k.replace("model.", "model.language_model.", 1): v for k, v in tensors.items()}
        tensors["model.visual.patch_embed.proj.weight"] = torch.zeros(4, 4)
    write_json(folder, "config.json", config)
    store(folder, tensors, how)

    tokens = np.random.RandomState(seed + 1).randint(3, 280, 6).tolist()
    logits = []
    for p in (None, predictors)[: 2 if predictors else 1]:
        m = copy.deepcopy(model).double()
        if "ranks" in extra:
            m = patch(m, extra, p, threshold)
        logits.append(m(torch.tensor([tokens])).logits[0].float().numpy())
    write_logits(os.path.join(folder, "logits"), tokens, *logits)
    with open(os.path.join(folder, "tokenizer"), "w") as f:
        f.write(kind + "\n")
    if name in KNOWN_TO_LLAMA_CPP and with_llama_cpp:
        with tempfile.TemporaryDirectory() as tmp:
            for source in (folder, os.path.join(out, "tokenizers", kind)):
                for n in os.listdir(source):
                    if os.path.isfile(os.path.join(source, n)):
                        shutil.copy(os.path.join(source, n), tmp)
            describe(convert_with_llama_cpp(tmp, TOKENIZERS[kind][1]), folder, name, extra.get("spare", ()))
    print(f"{name}: logits' deviation {logits[0].std():.2f}, {sum(os.path.getsize(os.path.join(d, n)) for d, _, ns in os.walk(folder) for n in ns)} bytes")


def main():
    p = argparse.ArgumentParser(description="Make the golden Hugging Face folders.")
    p.add_argument("--out", default=OUT)
    p.add_argument("--llama-cpp", metavar="DIR", help="a checkout of llama.cpp; without it, names of families it need not know")
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)} (default: all)")
    args = p.parse_args()
    torch.set_num_threads(1)
    for kind in [n for n in args.names if n in TOKENIZERS and n not in MODELS] or (() if args.names else TOKENIZERS):
        make_tokenizer(kind, args.out)
    failed = []
    for name in [n for n in args.names if n in MODELS or n not in TOKENIZERS] if args.names else MODELS:
        try:
            make(name, args.out, args.llama_cpp is not None)
        except Exception: # the others may do
            traceback.print_exc()
            failed.append(name)
    if failed:
        raise SystemExit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
