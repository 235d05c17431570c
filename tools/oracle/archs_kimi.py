# SPDX-License-Identifier: MIT
# The golden models of Kimi Linear and Ling 3, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import gguf
import numpy as np
import transformers as tf

from archs_mamba import COMMON, FULL, SCAN, TEXT

# As in make_archs.py.
MODELS = {
    "kimi-delta": (
        "kimi-linear", tf.KimiLinearForCausalLM,
        dict(COMMON, num_key_value_heads=4, num_hidden_layers=3, layer_types=[SCAN, FULL, SCAN],
             mlp_layer_types=["dense", "sparse", "sparse"], intermediate_size=96, moe_intermediate_size=32,
             num_local_experts=8, num_experts_per_tok=3, n_shared_experts=1, routed_scaling_factor=1.6, n_group=1, topk_group=1,
             norm_topk_prob=True, kv_lora_rank=32, q_lora_rank=None, qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=32,
             linear_head_dim=32, linear_num_heads=4, linear_conv_kernel_dim=4, rms_norm_eps=1e-5, tie_word_embeddings=False),
        TEXT * 2,
    ),
    "ling3": (
        "bailingmoe3", tf.BailingHybridForCausalLM,
        dict(COMMON, num_key_value_heads=4, num_hidden_layers=3, layer_types=[SCAN, FULL, SCAN],
             mlp_layer_types=["dense", "sparse", "sparse"], intermediate_size=96, moe_intermediate_size=32,
             num_local_experts=8, num_experts_per_tok=3, n_shared_experts=1, routed_scaling_factor=1.6, n_group=4, topk_group=2,
             norm_topk_prob=True, kv_lora_rank=32, q_lora_rank=None, qk_rope_head_dim=16, qk_nope_head_dim=32, v_head_dim=32,
             head_dim=32, short_conv_kernel_size=4, kda_lower_bound=-0.7, rms_norm_eps=1e-5, tie_word_embeddings=False,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        TEXT,
    ),
}  # fmt: skip
ARCHS = {"kimi-linear", "bailingmoe3"}


def is_ling(cfg):
    """Whether there is a floor, one step to what is forgotten, a gate of each head, and a layer that guesses tokens."""
    return isinstance(cfg, tf.BailingHybridConfig)


def sign(arch):
    """Of how fast heads fade, in files."""
    return 1 if arch == "bailingmoe3" else -1


def recurrent(out, sd, cfg, src, dst):
    values = cfg.linear_num_heads * cfg.linear_head_dim
    conv = sd[src + "conv1d.weight"]
    for at, part in enumerate("qkv"):
        out[f"{dst}attn_{part}.weight"] = sd[f"{src}{part}_proj.weight"]
        out[f"{dst}ssm_conv1d_{part}.weight"] = conv[at * values : (at + 1) * values].reshape(values, 1, -1)
    names = {"ssm_f_a.weight": "forget_gate.f_a_proj.weight", "ssm_f_b.weight": "forget_gate.f_b_proj.weight",
             "ssm_g_a.weight": "g_a_proj.weight", "ssm_g_b.weight": "g_b_proj.weight"}  # fmt: skip
    if is_ling(cfg):
        names = {"ssm_f_a.weight": "forget_gate.f_proj.weight", "ssm_g_a.weight": "g_proj.weight"}
    names |= {"ssm_beta.weight": "b_proj.weight",
             "ssm_dt.bias": "forget_gate.dt_bias", "ssm_norm.weight": "o_norm.weight", "attn_output.weight": "o_proj.weight"}  # fmt: skip
    out |= {dst + ours: sd[src + theirs] for ours, theirs in names.items()}
    out[dst + "ssm_a"] = sd[src + "forget_gate.A_log"].reshape(-1, 1)


def latent(out, sd, cfg, src, dst):
    names = {"attn_q": "q_proj", "attn_kv_a_mqa": "kv_a_proj_with_mqa", "attn_kv_a_norm": "kv_a_layernorm", "attn_output": "o_proj"}
    if is_ling(cfg):
        names["attn_gate"] = "g_proj"
    out |= {f"{dst}{ours}.weight": sd[f"{src}{theirs}.weight"] for ours, theirs in names.items()}
    heads = sd[src + "kv_b_proj.weight"].reshape(cfg.num_attention_heads, -1, cfg.kv_lora_rank)
    out[dst + "attn_k_b.weight"] = heads[:, : cfg.qk_nope_head_dim].transpose(0, 2, 1)
    out[dst + "attn_v_b.weight"] = heads[:, cfg.qk_nope_head_dim :]


def tensors(_arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    out = {"token_embd.weight": sd["model.embed_tokens.weight"], "output_norm.weight": sd["model.norm.weight"],
           "output.weight": sd["lm_head.weight"]}  # fmt: skip
    for i, kind in enumerate(cfg.layer_types):
        src, dst = f"model.layers.{i}.", f"blk.{i}."
        out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
        out[dst + "ffn_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
        (latent if kind == FULL else recurrent)(out, sd, cfg, src + "self_attn.", dst)
        experts = cfg.mlp_layer_types[i] == "sparse"
        for part in ("gate", "up", "down"):
            own = f"{src}mlp.{'shared_experts.' if experts else ''}{part}_proj.weight"
            out[f"{dst}ffn_{part}{'_shexp' if experts else ''}.weight"] = sd[own]
        if experts:
            out[dst + "ffn_gate_inp.weight"] = sd[src + "mlp.gate.weight"]
            out[dst + "exp_probs_b.bias"] = sd[src + "mlp.gate.e_score_correction_bias"]
            both = sd[src + "mlp.experts.gate_up_proj"]
            out[dst + "ffn_gate_exps.weight"], out[dst + "ffn_up_exps.weight"] = np.split(both, 2, axis=1)
            out[dst + "ffn_down_exps.weight"] = sd[src + "mlp.experts.down_proj"]
    return out


def add_hyper_parameters(w, arch, cfg):
    extra = is_ling(cfg)
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers + extra)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    w.add_head_count_kv([1 if kind == FULL else 0 for kind in cfg.layer_types] + [1] * extra)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_ssm_conv_kernel(cfg.linear_conv_kernel_dim)
    w.add_uint32(f"{arch}.kda.head_dim", cfg.linear_head_dim)
    w.add_kv_lora_rank(cfg.kv_lora_rank)
    w.add_rope_dimension_count(cfg.qk_rope_head_dim)
    w.add_key_length(cfg.kv_lora_rank + cfg.qk_rope_head_dim)
    w.add_value_length(cfg.hidden_size // cfg.num_attention_heads)  # as converted files have it: nothing reads it
    w.add_key_length_mla(cfg.qk_nope_head_dim + cfg.qk_rope_head_dim)
    w.add_value_length_mla(cfg.v_head_dim)
    w.add_leading_dense_block_count(cfg.mlp_layer_types.index("sparse"))
    w.add_expert_count(cfg.num_local_experts)
    w.add_expert_used_count(cfg.num_experts_per_tok)
    w.add_expert_shared_count(cfg.n_shared_experts)
    w.add_expert_feed_forward_length(cfg.moe_intermediate_size)
    w.add_expert_weights_scale(cfg.routed_scaling_factor)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if is_ling(cfg):
        w.add_bool(f"{arch}.kda.safe_gate", True)
        w.add_float32(f"{arch}.kda.gate_lower_bound", cfg.kda_lower_bound)
        w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
        w.add_expert_weights_norm(cfg.norm_topk_prob)
        w.add_expert_group_count(cfg.n_group)
        w.add_expert_group_used_count(cfg.topk_group)
        w.add_nextn_predict_layers(1)
