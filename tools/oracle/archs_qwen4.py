# SPDX-License-Identifier: MIT
# The architecture qwen4exp for make_archs.py: settings of its golden models, spreads of their weights, names of tensors and
# keys in a GGUF.

import numpy as np
import transformers as tf
from gguf import GGUFValueType

AND = 271  # "_and" in the vocabulary of the golden models: what ends n-grams there, so that texts have some ends

# Four streams. The text is shorter than what is chosen of it, or much longer: 4 blocks of 4 tokens, or 3 of 8.
PLAIN = dict(
    hc_count=4, hc_lowrank=32, indexer_n_heads=4, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=128,
    indexer_compress_ratio=4, output_gate_type="sigmoid", moe_intermediate_size=32, shared_expert_intermediate_size=64,
    num_experts=8, num_experts_per_tok=3, norm_topk_prob=True, pad_token_id=None, tie_word_embeddings=False,
)
GRAMS = dict(
    ple_layer_ids=[2], ple_embed_dim=64, ple_conv_kernel_size=4, ngram_size=3, heads_per_ngram=1, ngram_vocab_size_base=100,
    eos_token_id=AND, split_ngram_parts=1,
)


def models(delta, short):
    """name: (GGUF architecture, class of transformers, its configuration, text)"""
    base = {k: v for k, v in delta.items() if k != "intermediate_size"} | PLAIN
    two = dict(num_hidden_layers=2, layer_types=["linear_attention", "full_attention"])
    chosen = base | GRAMS | dict(indexer_budget=16)
    other = dict(
        hc_count=2, indexer_n_heads=8, indexer_budget=24, indexer_compress_ratio=8, ngram_size=2, heads_per_ngram=2,
        ple_conv_kernel_size=3, ple_layer_ids=[1], tie_word_embeddings=True,
    )  # fmt: skip
    return {
        "qwen4exp": ("qwen4exp", tf.Qwen4ExpForCausalLM, chosen, 2 * short),
        "qwen4exp-tied": ("qwen4exp", tf.Qwen4ExpForCausalLM, chosen | other | two, 2 * short),
        "qwen4exp-whole": ("qwen4exp", tf.Qwen4ExpForCausalLM, base | two, short),
    }


def spread(model, name, inputs):
    """The deviation of a weight's elements; None: as others."""
    if not isinstance(model, tf.Qwen4ExpForCausalLM):
        return None
    if name.endswith("lm_head.weight" if not model.config.tie_word_embeddings else "embed_tokens.weight"):
        return 1.2
    if name.endswith(("input_mix_weight_down.weight", "input_mix_weight_up.weight", "block_inject_weight.weight")):
        return 5.0 / inputs
    if name.endswith("ngram_embedding.weight"):
        return 1.0
    if name.endswith("index_qk_proj.weight"):
        return 2.0 / inputs
    return None


MIXERS = {"norm": "hc_norm", "down": "input_mix_weight_down", "up": "input_mix_weight_up", "inject": "block_inject_weight"}
GRAM_NAMES = {"key": "key_proj", "value": "value_proj", "norm_key": "norm_key", "norm_query": "norm_query",
              "norm_conv": "norm_conv", "conv1d": "conv1d"}  # fmt: skip


def tensors(cfg, sd, qwen35_layer):
    """{GGUF name: array}. qwen35_layer: the same of a layer of qwen35moe, whose norms take the mixers' places."""
    out = {"token_embd.weight": sd["model.embed_tokens.weight"]}
    if not cfg.tie_word_embeddings:
        out["output.weight"] = sd["lm_head.weight"]
    for part in ("norm", "down", "up"):
        out[f"output_hc_{part}.weight"] = sd[f"model.hyper_connection_mixer.{MIXERS[part]}.weight"]
    for i in range(cfg.num_hidden_layers):
        src, dst = f"model.layers.{i}.", f"blk.{i}."
        norms = {src + name + "_layernorm.weight": None for name in ("input", "post_attention")}
        qwen35_layer(out, sd | norms, cfg, i)
        del out[dst + "attn_norm.weight"], out[dst + "post_attention_norm.weight"]
        for ours, theirs in (("attn", "attn"), ("ffn", "mlp")):
            for part, name in MIXERS.items():
                out[f"{dst}hc_{ours}_{part}.weight"] = sd[f"{src}{theirs}_hyper_connection.{name}.weight"]
        if cfg.layer_types[i] != "linear_attention":
            indexer = src + "self_attn.indexer."
            both, n = sd[indexer + "index_qk_proj.weight"], cfg.indexer_n_heads * cfg.indexer_head_dim
            out[dst + "indexer.q_proj.weight"], out[dst + "indexer.k_proj.weight"] = both[:n], both[n:]
            for part in "qk":
                out[f"{dst}indexer.{part}_norm.weight"] = sd[f"{indexer}{part}_layernorm.weight"]
        if i + 1 in cfg.ple_layer_ids:
            for ours, theirs in GRAM_NAMES.items():
                w = sd[f"{src}ple.{theirs}.weight"]
                out[f"{dst}ple_{ours}.weight"] = w.reshape(w.shape[0], -1) if ours == "conv1d" else w
            out["per_layer_token_embd.weight"] = sd[src + "ple.ple_embedding.ngram_embedding.weight"]
    return out


def add_keys(w, cfg, model):
    arch = "qwen4exp."
    layers = [t != "linear_attention" for t in cfg.layer_types]
    w.add_uint32(arch + "hyper_connection.count", cfg.hc_count)
    w.add_uint32(arch + "hyper_connection.low_rank", cfg.hc_lowrank)
    w.add_uint32(arch + "attention.indexer.head_count", cfg.indexer_n_heads)
    w.add_uint32(arch + "attention.indexer.key_length", cfg.indexer_head_dim)
    w.add_uint32(arch + "attention.indexer.top_k", cfg.indexer_budget)
    w.add_array(arch + "attention.compress_ratios", [cfg.indexer_compress_ratio * full for full in layers])
    w.add_full_attention_interval(cfg.num_hidden_layers)
    if not cfg.ple_layer_ids:
        return
    grams = model.model.layers[cfg.ple_layer_ids[0] - 1].ple.ple_embedding
    w.add_array(arch + "ple.layers", [i - 1 for i in cfg.ple_layer_ids])
    w.add_uint32(arch + "ple.ngram_size", cfg.ngram_size)
    w.add_uint32(arch + "ple.heads_per_ngram", cfg.heads_per_ngram)
    w.add_uint32(arch + "ple.conv_kernel", cfg.ple_conv_kernel_size)
    w.add_uint32(arch + "ple.eos_token_id", cfg.eos_token_id)
    w.add_uint32(arch + "embedding_length_per_layer_input", cfg.ple_embed_dim // grams.ngram_heads)
    for key, numbers in (("layer_multipliers", grams.layer_multipliers), ("head_offsets", grams.ngram_heads_offsets),
                         ("head_vocab_sizes", grams.ngram_heads_vocab_sizes)):  # fmt: skip
        w.add_key_value(f"{arch}ple.{key}", [int(x) for x in numbers], GGUFValueType.ARRAY, GGUFValueType.UINT64)
