# SPDX-License-Identifier: MIT
# The golden models of DeepSeek V4, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import gguf
import numpy as np
import transformers as tf
from gguf import GGUFValueType

from archs_mamba import TEXT
from oracle_common import N_VOCAB

WINDOW, BEST, ALL = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
# Texts of 100 tokens have 25 blocks of 4, of which 7 are chosen, and 12 of 8. Files say the latter's size as they do 128.
BLOCKS = {WINDOW: 0, BEST: 4, ALL: 8}
PLAIN = dict(
    vocab_size=N_VOCAB, hidden_size=64, num_attention_heads=4, num_key_value_heads=1, head_dim=64, q_lora_rank=32,
    max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None, attn_implementation="eager",
    experts_implementation="eager", partial_rotary_factor=0.25, moe_intermediate_size=32, n_routed_experts=8,
    num_experts_per_tok=3, n_shared_experts=1, routed_scaling_factor=1.5, sliding_window=16, o_groups=2, o_lora_rank=32,
    index_n_heads=8, index_head_dim=32, index_topk=7, hc_mult=4, hc_sinkhorn_iters=20, hc_eps=1e-6, rms_norm_eps=1e-6,
    swiglu_limit=1.5, compress_rates={BEST: BLOCKS[BEST], ALL: BLOCKS[ALL]}, rope_theta=10000.0, compress_rope_theta=160000.0,
    tie_word_embeddings=False,
)  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0}

# As in make_archs.py.
MODELS = {
    "deepseek-v4": (
        "deepseek4", tf.DeepseekV4ForCausalLM,
        dict(PLAIN, num_hidden_layers=4, layer_types=[WINDOW, BEST, ALL, BEST], rope_parameters=YARN,
             mlp_layer_types=["hash_moe", "hash_moe", "moe", "moe"]),
        TEXT * 2,
    ),
    # Two streams, one group, no stretched rotation; the window is longer than a page.
    "deepseek-v4-wide": (
        "deepseek4", tf.DeepseekV4ForCausalLM,
        dict(PLAIN, num_hidden_layers=2, layer_types=[ALL, BEST], mlp_layer_types=["moe", "moe"], sliding_window=70, hc_mult=2,
             hc_sinkhorn_iters=3, o_groups=1, index_topk=100),
        TEXT.replace("wife", "son") * 2,
    ),
}  # fmt: skip
ARCHS = {"deepseek4"}
SEEDS = {"deepseek-v4": 2}  # so that no choice of blocks or experts is close


def spread(model, name, inputs):
    """The deviation of a weight's elements; None: as others."""
    if not isinstance(model, (tf.DeepseekV4ForCausalLM, tf.HYV4ForCausalLM)):
        return None
    if name.endswith(("_hc.base", "hc_base", "_hc.scale", "hc_scale", "position_bias")):
        return 0.8
    if name.endswith(("indexer.q_b_proj.weight", "indexer.kv_proj.weight")):
        return 2.0 / inputs
    return None


def fill_tables(model, rng):
    """Which experts a token uses."""
    for name, table in model.named_buffers():
        if name.endswith("tid2eid"):
            n, used = table.shape
            for token in range(n):
                table[token] = table.new_tensor(rng.permutation(model.config.n_routed_experts)[:used])


ATTENTION = {
    "attn_q_a.weight": "q_a_proj.weight", "attn_q_a_norm.weight": "q_a_norm.weight", "attn_q_b.weight": "q_b_proj.weight",
    "attn_kv.weight": "kv_proj.weight", "attn_kv_a_norm.weight": "kv_norm.weight", "attn_sinks.weight": "sinks",
    "attn_output_a.weight": "o_a_proj.weight", "attn_output_b.weight": "o_b_proj.weight",
}  # fmt: skip
BLEND = {"kv.weight": "kv_proj.weight", "gate.weight": "gate_proj.weight", "ape.weight": "position_bias",
         "norm.weight": "kv_norm.weight"}  # fmt: skip


def tensors(_arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    out = {"token_embd.weight": sd["model.embed_tokens.weight"], "output_norm.weight": sd["model.norm.weight"],
           "output.weight": sd["lm_head.weight"]}  # fmt: skip
    for part in ("fn", "base", "scale"):
        out[f"output_hc_{part}.weight"] = sd[f"model.hc_head.hc_{part}"]
    for i, kind in enumerate(cfg.layer_types):
        src, dst = f"model.layers.{i}.", f"blk.{i}."
        out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
        out[dst + "ffn_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
        for place in ("attn", "ffn"):
            for part in ("fn", "base", "scale"):
                out[f"{dst}hc_{place}_{part}.weight"] = sd[f"{src}{place}_hc.{part}"]
        out |= {dst + ours: sd[f"{src}self_attn.{theirs}"] for ours, theirs in ATTENTION.items()}
        for ours, theirs in BLEND.items():
            if kind != WINDOW:
                out[f"{dst}attn_compressor_{ours}"] = sd[f"{src}self_attn.compressor.{theirs}"]
            if kind == BEST:
                out[f"{dst}indexer_compressor_{ours}"] = sd[f"{src}self_attn.compressor.indexer.{theirs}"]
        if kind == BEST:
            out[dst + "indexer.attn_q_b.weight"] = sd[src + "self_attn.compressor.indexer.q_b_proj.weight"]
            out[dst + "indexer.proj.weight"] = sd[src + "self_attn.compressor.indexer.scorer.weights_proj.weight"]
        for part in ("gate", "up", "down"):
            out[f"{dst}ffn_{part}_shexp.weight"] = sd[f"{src}mlp.shared_experts.{part}_proj.weight"]
        out[dst + "ffn_gate_inp.weight"] = sd[src + "mlp.gate.weight"]
        if cfg.mlp_layer_types[i] == "moe":
            out[dst + "exp_probs_b.bias"] = sd[src + "mlp.gate.e_score_correction_bias"]
        both = sd[src + "mlp.experts.gate_up_proj"]
        out[dst + "ffn_gate_exps.weight"], out[dst + "ffn_up_exps.weight"] = np.split(both, 2, axis=1)
        out[dst + "ffn_down_exps.weight"] = sd[src + "mlp.experts.down_proj"]
    return out


def tables(model):
    """{GGUF name: array of whole numbers}"""
    if not isinstance(model, tf.DeepseekV4ForCausalLM):
        return {}
    return {f"blk.{name.split('.')[2]}.ffn_gate_tid2eid.weight": table.numpy().astype(np.int32)
            for name, table in model.named_buffers() if name.endswith("tid2eid")}  # fmt: skip


def add_hyper_parameters(w, arch, cfg):
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_head_count(cfg.num_attention_heads)
    w.add_head_count_kv(1)
    w.add_key_length(cfg.head_dim)
    w.add_value_length(cfg.head_dim)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_rope_dimension_count(cfg.qk_rope_head_dim)
    w.add_rope_freq_base(cfg.rope_theta)
    w.add_q_lora_rank(cfg.q_lora_rank)
    w.add_sliding_window(cfg.sliding_window)
    w.add_expert_count(cfg.n_routed_experts)
    w.add_expert_used_count(cfg.num_experts_per_tok)
    w.add_expert_feed_forward_length(cfg.moe_intermediate_size)
    w.add_expert_shared_count(cfg.n_shared_experts)
    w.add_expert_weights_scale(cfg.routed_scaling_factor)
    w.add_expert_weights_norm(True)
    w.add_uint32(f"{arch}.expert_gating_func", 4)  # the root of softplus
    for kind in ("exp", "shexp"):
        w.add_key_value(f"{arch}.swiglu_clamp_{kind}", [cfg.swiglu_limit] * cfg.num_hidden_layers, GGUFValueType.ARRAY,
                        GGUFValueType.FLOAT32)  # fmt: skip
    w.add_uint32(f"{arch}.attention.indexer.head_count", cfg.index_n_heads)
    w.add_uint32(f"{arch}.attention.indexer.key_length", cfg.index_head_dim)
    w.add_uint32(f"{arch}.attention.indexer.top_k", cfg.index_topk)
    w.add_uint32(f"{arch}.attention.output_group_count", cfg.o_groups)
    w.add_uint32(f"{arch}.attention.output_lora_rank", cfg.o_lora_rank)
    w.add_array(f"{arch}.attention.compress_ratios", [BLOCKS[kind] for kind in cfg.layer_types])
    w.add_float32(f"{arch}.attention.compress_rope_freq_base", cfg.compress_rope_theta)
    w.add_uint32(f"{arch}.hyper_connection.count", cfg.hc_mult)
    w.add_uint32(f"{arch}.hyper_connection.sinkhorn_iterations", cfg.hc_sinkhorn_iters)
    w.add_float32(f"{arch}.hyper_connection.epsilon", cfg.hc_eps)
    w.add_uint32(f"{arch}.hash_layer_count", cfg.mlp_layer_types.count("hash_moe"))
    if cfg.rope_parameters["compress"]["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(YARN["factor"])
        w.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])
