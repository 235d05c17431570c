# SPDX-License-Identifier: MIT
# Golden models of older architectures, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import gguf
import numpy as np
import transformers as tf

import make_models as mm
from archs_mamba import COMMON, TEXT

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LLAMA = dict(COMMON, num_hidden_layers=2, intermediate_size=96, num_key_value_heads=2, rope_parameters=PLAIN, rms_norm_eps=1e-5, pad_token_id=None, tie_word_embeddings=False)
# As in phi3-long of make_archs.py; what multiplies cosines and sines is what files say.
LONG = {
    "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 128, "short_mscale": 1.2, "long_mscale": 1.2,
    "short_factor": [1.0 + 0.2 * i for i in range(8)], "long_factor": [3.0 + i for i in range(8)],
}  # fmt: skip

LEARNED = dict(
    vocab_size=COMMON["vocab_size"], n_positions=126, n_embd=64, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None,
    attn_implementation="eager", tie_word_embeddings=True,
)  # fmt: skip

# As in make_archs.py.
MODELS = {
    "phimoe": (
        "phimoe", tf.PhimoeForCausalLM,
        dict(LLAMA, intermediate_size=32, num_local_experts=12, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True,
             max_position_embeddings=256, rope_parameters=LONG),
        TEXT.replace("small", "little"),
    ),
    "dbrx": (
        "dbrx", tf.DbrxForCausalLM,
        dict(vocab_size=COMMON["vocab_size"], d_model=64, n_heads=4, n_layers=2, max_seq_len=128, rope_parameters=PLAIN, num_experts_per_tok=3,
             attn_config=dict(kv_n_heads=2, clip_qkv=1.5, rope_theta=10000.0),
             ffn_config=dict(ffn_hidden_size=32, moe_num_experts=8, moe_top_k=3),
             attn_implementation="eager", experts_implementation="eager"),
        TEXT.replace("wife", "cat"),
    ),
    "cohere2moe": (
        "cohere2moe", tf.Cohere2MoeForCausalLM,
        {k: v for k, v in LLAMA.items() if k != "rms_norm_eps"}
        | dict(num_hidden_layers=3, head_dim=16, intermediate_size=32, prefix_dense_intermediate_size=96, num_experts=8, num_experts_per_tok=3,
               num_shared_experts=2, expert_selection_fn="sigmoid", logit_scale=0.8, sliding_window=20, max_position_embeddings=256,
               layer_types=["full_attention", "sliding_attention", "full_attention"], mlp_layer_types=["dense", "sparse", "sparse"],
               tie_word_embeddings=True),
        TEXT.replace("shore", "hill") * 2,
    ),
    "olmo": ("olmo", tf.OlmoForCausalLM, {k: v for k, v in LLAMA.items() if k != "rms_norm_eps"} | dict(clip_qkv=1.5), TEXT.replace("shore", "hill")),
    # Qwen 1 is Qwen 2 with fused matrices.
    "qwen": ("qwen", tf.Qwen2ForCausalLM, dict(LLAMA, num_key_value_heads=4, use_sliding_window=False), TEXT.replace("wife", "son")),
    "chatglm": ("chatglm", tf.GlmForCausalLM, dict(LLAMA, head_dim=16, attention_bias=True, rope_parameters=dict(PLAIN, partial_rotary_factor=0.5)), TEXT.replace("wife", "son")),
    "gpt2": ("gpt2", tf.GPT2LMHeadModel, LEARNED, TEXT),
    "starcoder": ("starcoder", tf.GPTBigCodeForCausalLM, dict(LEARNED, multi_query=True, activation_function="gelu_pytorch_tanh"), TEXT),
}  # fmt: skip
ARCHS = {model[0] for model in MODELS.values()}
LEARN = ("gpt2", "starcoder")  # positions

GLOBALS = {"token_embd": ("model.embed_tokens", "transformer.wte"), "position_embd": ("transformer.wpe",), "output_norm": ("model.norm", "transformer.norm_f", "transformer.ln_f"), "output": ("lm_head",)}
# GGUF's names, and what the architectures' classes call these tensors.
NAMES = {
    "attn_norm": ("input_layernorm", "norm_attn_norm.norm_1", "ln_1"), "attn_output_norm": ("norm_attn_norm.norm_2",), "ffn_norm": ("post_attention_layernorm", "ln_2"),
    "attn_q": ("self_attn.q_proj",), "attn_k": ("self_attn.k_proj",), "attn_v": ("self_attn.v_proj",), "attn_qkv": ("norm_attn_norm.attn.Wqkv", "attn.c_attn"),
    "attn_output": ("self_attn.o_proj", "norm_attn_norm.attn.out_proj", "attn.c_proj"),
    "ffn_gate": ("mlp.gate_proj",), "ffn_up": ("mlp.up_proj", "mlp.gate_up_proj", "mlp.c_fc"), "ffn_down": ("mlp.down_proj", "mlp.c_proj"),
    "ffn_gate_shexp": ("mlp.shared_experts.gate_proj",), "ffn_up_shexp": ("mlp.shared_experts.up_proj",), "ffn_down_shexp": ("mlp.shared_experts.down_proj",),
    "ffn_gate_inp": ("mlp.router", "mlp.gate", "ffn.router.layer"),
}  # fmt: skip


def rename(out, sd, to, source, names):
    for ours, all_theirs in names.items():
        for theirs in all_theirs:
            for kind in ("weight", "bias"):
                if f"{source}{theirs}.{kind}" in sd:
                    out[f"{to}{ours}.{kind}"] = sd[f"{source}{theirs}.{kind}"]


def experts(out, sd, to, source, cfg):
    if source + "mlp.experts.gate_up_proj" in sd:
        out[to + "ffn_gate_exps.weight"], out[to + "ffn_up_exps.weight"] = np.split(sd[source + "mlp.experts.gate_up_proj"], 2, axis=1)
        out[to + "ffn_down_exps.weight"] = sd[source + "mlp.experts.down_proj"]
    for ours, theirs in (("gate", "w1"), ("up", "v1"), ("down", "w2")):
        name = f"{source}ffn.experts.mlp.{theirs}"
        if name in sd:
            each = sd[name].reshape(cfg.ffn_config.moe_num_experts, -1, cfg.d_model)
            out[f"{to}ffn_{ours}_exps.weight"] = each.transpose(0, 2, 1) if ours == "down" else each


def arrange(out, arch, cfg, to):
    """What files have in another order, or in one tensor."""
    if arch == "gpt2":  # whose matrices have a row for each input
        for name in ("attn_qkv", "attn_output", "ffn_up", "ffn_down"):
            out[f"{to}{name}.weight"] = out[f"{to}{name}.weight"].T
    if arch == "olmo":
        for part, heads in (("q", cfg.num_attention_heads), ("k", cfg.num_key_value_heads)):
            out[f"{to}attn_{part}.weight"] = mm.interleave(out[f"{to}attn_{part}.weight"], heads)
    for kind in ("weight", "bias"):
        if arch in ("qwen", "chatglm"):
            out[f"{to}attn_qkv.{kind}"] = np.concatenate([out.pop(f"{to}attn_{part}.{kind}") for part in "qkv"])


def tensors(arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    out = {}
    rename(out, sd, "", "", {k: v for k, v in GLOBALS.items() if not (cfg.tie_word_embeddings and k == "output")})
    for i in range(cfg.num_hidden_layers):
        source = next(s for s in (f"model.layers.{i}.", f"transformer.blocks.{i}.", f"transformer.h.{i}.") if any(k.startswith(s) for k in sd))
        rename(out, sd, f"blk.{i}.", source, NAMES)
        arrange(out, arch, cfg, f"blk.{i}.")
        experts(out, sd, f"blk.{i}.", source, cfg)
    return out


def tables(arch, cfg):
    """Tensors that are no weights of the model in transformers."""
    if arch != "phimoe":
        return {}
    return {f"rope_factors_{kind}.weight": cfg.rope_parameters[kind + "_factor"] for kind in ("short", "long")}


def add_hyper_parameters(w, arch, cfg):
    """Settings as metadata."""
    ffn = getattr(cfg, "ffn_config", None)
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    length = ffn.ffn_hidden_size if ffn else 4 * cfg.hidden_size if arch in LEARN else cfg.intermediate_size
    if arch == "cohere2moe":
        length = cfg.prefix_dense_intermediate_size
        w.add_logit_scale(cfg.logit_scale)
        w.add_sliding_window(cfg.sliding_window)
        w.add_sliding_window_pattern([t == "sliding_attention" for t in cfg.layer_types])
        w.add_expert_feed_forward_length(cfg.intermediate_size)
        w.add_leading_dense_block_count(cfg.mlp_layer_types.index("sparse"))
        w.add_expert_count(cfg.num_experts)
        w.add_expert_used_count(cfg.num_experts_per_tok)
        w.add_expert_weights_norm(cfg.norm_topk_prob)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        w.add_expert_shared_count(cfg.num_shared_experts)
        w.add_expert_shared_feed_forward_length(cfg.intermediate_size * cfg.num_shared_experts)
        w.add_rope_dimension_count(cfg.head_dim)
        w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    w.add_feed_forward_length(length * (2 if arch == "qwen" else 1))
    w.add_head_count(cfg.num_attention_heads)
    if arch not in ("gpt2", "qwen"):  # whose files do not say it
        w.add_head_count_kv(cfg.num_key_value_heads)
    if arch not in LEARN:
        w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
    if arch == "chatglm":
        w.add_rope_dimension_count(cfg.head_dim // 2)
    if arch in ("phimoe", "dbrx"):
        w.add_expert_count(ffn.moe_num_experts if ffn else cfg.num_local_experts)
        w.add_expert_used_count(cfg.num_experts_per_tok)
    if arch in ("dbrx", "olmo"):
        w.add_clamp_kqv(cfg.attn_config.clip_qkv if arch == "dbrx" else cfg.clip_qkv)
    if arch in ("dbrx", "olmo", "cohere2moe", *LEARN):
        w.add_layer_norm_eps(1e-5)
    else:
        w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    if arch == "phimoe":
        w.add_rope_dimension_count(cfg.hidden_size // cfg.num_attention_heads)
        w.add_rope_scaling_orig_ctx_len(LONG["original_max_position_embeddings"])
        w.add_rope_scaling_attn_factors(LONG["short_mscale"])
