# SPDX-License-Identifier: MIT
# Golden models with Mamba-2 layers, for make_archs.py: settings, tensors under GGUF's names, hyper-parameters.

import numpy as np
import transformers as tf

import make_models as mm
from oracle_common import N_VOCAB

TEXT = "The fisherman and his wife lived in a small hut on the shore, and every day he went out to sea"
SCAN, FULL, DENSE, EXPERTS = "linear_attention", "full_attention", "mlp", "moe"
COMMON = dict(
    vocab_size=N_VOCAB, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
    bos_token_id=None, eos_token_id=None, pad_token_id=None, attn_implementation="eager", experts_implementation="eager",
)  # fmt: skip
# Three heads share keys; steps are not cut off from below, which transformers does in prompts alone.
NEMOTRON = dict(
    COMMON, head_dim=32, intermediate_size=96, mamba_num_heads=6, mamba_head_dim=16, ssm_state_size=32, n_groups=2,
    conv_kernel=4, chunk_size=32, time_step_min=1e-30, tie_word_embeddings=False, n_routed_experts=8, num_experts_per_tok=3,
    moe_intermediate_size=32, moe_shared_expert_intermediate_size=64, routed_scaling_factor=1.6, norm_topk_prob=True,
)  # fmt: skip
GRANITE = dict(
    COMMON, num_hidden_layers=3, layer_types=[SCAN, FULL, SCAN], mamba_n_heads=4, mamba_d_head=32, mamba_d_state=32,
    mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=32, rms_norm_eps=1e-6,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    embedding_multiplier=2.5, attention_multiplier=0.3, residual_multiplier=0.6, logits_scaling=1.7,
)  # fmt: skip

# As in make_archs.py.
MODELS = {
    "nemotron-h": (
        "nemotron_h", tf.NemotronHForCausalLM, dict(NEMOTRON, layers_block_type=[SCAN, DENSE, SCAN, FULL, DENSE]), TEXT * 2,
    ),
    "nemotron-h-moe": (
        "nemotron_h_moe", tf.NemotronHForCausalLM, dict(NEMOTRON, layers_block_type=[SCAN, EXPERTS, SCAN, FULL, EXPERTS]), TEXT,
    ),
    "nemotron-super": (
        "nemotron_h_moe", tf.NemotronHForCausalLM,
        dict(NEMOTRON, layers_block_type=[EXPERTS, SCAN, FULL, EXPERTS], hidden_size=96, moe_latent_size=64), TEXT,
    ),
    "granite-hybrid": (
        "granitehybrid", tf.GraniteMoeHybridForCausalLM,
        dict(GRANITE, intermediate_size=96, shared_intermediate_size=96, num_local_experts=0, position_embedding_type="rope",
             tie_word_embeddings=True),
        TEXT * 2,
    ),
    "granite-hybrid-moe": (
        "granitehybrid", tf.GraniteMoeHybridForCausalLM,
        dict(GRANITE, intermediate_size=32, shared_intermediate_size=64, num_local_experts=8, num_experts_per_tok=3,
             tie_word_embeddings=False),
        TEXT,
    ),
    # Multipliers of checkpoints are in the weights of files.
    "falcon-h": (
        "falcon-h1", tf.FalconH1ForCausalLM,
        dict(COMMON, num_hidden_layers=2, head_dim=32, intermediate_size=96, mamba_d_ssm=96, mamba_n_heads=6, mamba_d_head=16,
             mamba_n_groups=2, mamba_d_state=32, mamba_d_conv=4, mamba_chunk_size=32, mamba_rms_norm=False, rms_norm_eps=1e-5,
             rope_parameters={"rope_type": "default", "rope_theta": 1e11}, tie_word_embeddings=False),
        TEXT,
    ),
}  # fmt: skip
ARCHS = {arch for arch, *_ in MODELS.values()}


def deviation(name, inputs):
    """Of a random tensor, where it is not what make_archs.py has for such names."""
    if name == "model.embeddings.weight":
        return 1.0
    if name.endswith(".D"):
        return 0.7
    if name.endswith("mixer.gate.weight"):
        return 2.0 / inputs
    return None


def expert_layers(cfg):
    """The layers that have experts."""
    kinds = getattr(cfg, "layers_block_type", [])
    return [i for i, kind in enumerate(kinds) if kind == EXPERTS] if isinstance(cfg, tf.NemotronHConfig) else None


# ---- tensors


def scan(out, sd, src, dst, groups):
    for ours, theirs in (("ssm_in.weight", "in_proj.weight"), ("ssm_out.weight", "out_proj.weight"),
                         ("ssm_conv1d.bias", "conv1d.bias"), ("ssm_dt.bias", "dt_bias")):  # fmt: skip
        out[dst + ours] = sd[src + theirs]
    conv = sd[src + "conv1d.weight"]
    out[dst + "ssm_conv1d.weight"] = conv.reshape(conv.shape[0], conv.shape[-1])
    out[dst + "ssm_a"] = sd[src + "A_log"].reshape(-1, 1)
    out[dst + "ssm_d"] = sd[src + "D"].reshape(-1, 1)
    if src + "norm.weight" in sd:
        out[dst + "ssm_norm.weight"] = sd[src + "norm.weight"].reshape(groups, -1)


def attention(out, sd, cfg, src, dst, adjacent):
    for part, heads in (("q", cfg.num_attention_heads), ("k", cfg.num_key_value_heads)):
        w = sd[f"{src}{part}_proj.weight"]
        out[f"{dst}attn_{part}.weight"] = mm.interleave(w, heads) if adjacent else w
    out[dst + "attn_v.weight"] = sd[src + "v_proj.weight"]
    out[dst + "attn_output.weight"] = sd[src + "o_proj.weight"]


def nemotron_layer(out, sd, cfg, i):
    src, dst, kind = f"model.layers.{i}.", f"blk.{i}.", cfg.layers_block_type[i]
    out[dst + "attn_norm.weight"] = sd[src + "norm.weight"]
    src += "mixer."
    if kind == SCAN:
        scan(out, sd, src, dst, cfg.n_groups)
    elif kind == FULL:
        attention(out, sd, cfg, src, dst, False)
    elif kind == DENSE:
        for part in ("up", "down"):
            out[f"{dst}ffn_{part}.weight"] = sd[f"{src}{part}_proj.weight"]
    else:
        out[dst + "ffn_gate_inp.weight"] = sd[src + "gate.weight"]
        out[dst + "exp_probs_b.bias"] = sd[src + "gate.e_score_correction_bias"]
        for part in ("up", "down"):
            out[f"{dst}ffn_{part}_exps.weight"] = sd[f"{src}experts.{part}_proj"]
            out[f"{dst}ffn_{part}_shexp.weight"] = sd[f"{src}shared_experts.{part}_proj.weight"]
        if cfg.moe_latent_size:
            out[dst + "ffn_latent_down.weight"] = sd[src + "fc1_latent_proj.weight"]
            out[dst + "ffn_latent_up.weight"] = sd[src + "fc2_latent_proj.weight"]


def granite_layer(out, sd, cfg, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
    out[dst + "ffn_norm.weight"] = sd[src + "post_attention_layernorm.weight"]
    if cfg.layers_block_type[i] == SCAN:
        scan(out, sd, src + "mamba.", dst, cfg.mamba_n_groups)
    else:
        attention(out, sd, cfg, src + "self_attn.", dst, True)
    both, behind = sd[src + "shared_mlp.input_linear.weight"], "_shexp" if cfg.num_local_experts else ""
    out[f"{dst}ffn_gate{behind}.weight"], out[f"{dst}ffn_up{behind}.weight"] = np.split(both, 2)
    out[f"{dst}ffn_down{behind}.weight"] = sd[src + "shared_mlp.output_linear.weight"]
    if cfg.num_local_experts:
        experts = src + "block_sparse_moe.experts."
        out[dst + "ffn_gate_inp.weight"] = sd[src + "block_sparse_moe.router.weight"]
        out[dst + "ffn_gate_exps.weight"], out[dst + "ffn_up_exps.weight"] = np.split(sd[experts + "gate_up_proj"], 2, axis=1)
        out[dst + "ffn_down_exps.weight"] = sd[experts + "down_proj"]


def falcon_layer(out, sd, cfg, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    out[dst + "attn_norm.weight"] = sd[src + "input_layernorm.weight"]
    out[dst + "ffn_norm"] = sd[src + "pre_ff_layernorm.weight"]
    scan(out, sd, src + "mamba.", dst, cfg.mamba_n_groups)
    attention(out, sd, cfg, src + "self_attn.", dst, False)
    for part in ("gate", "up", "down"):
        out[f"{dst}ffn_{part}.weight"] = sd[f"{src}feed_forward.{part}_proj.weight"]


# What the classes call embeddings and the last norm; the layers' tensors.
KINDS = {"nemotron_h": ("embeddings", "norm_f", nemotron_layer), "nemotron_h_moe": ("embeddings", "norm_f", nemotron_layer),
         "granitehybrid": ("embed_tokens", "norm", granite_layer), "falcon-h1": ("embed_tokens", "final_layernorm", falcon_layer)}  # fmt: skip


def tensors(arch, cfg, sd):
    """{GGUF name: array} from a state dictionary of arrays."""
    embeddings, norm, layer = KINDS[arch]
    out = {"token_embd.weight": sd[f"model.{embeddings}.weight"], "output_norm.weight": sd[f"model.{norm}.weight"]}
    if not cfg.tie_word_embeddings:
        out["output.weight"] = sd["lm_head.weight"]
    for i in range(cfg.num_hidden_layers):
        layer(out, sd, cfg, i)
    return out


# ---- hyper-parameters


def add_nemotron(w, arch, cfg):
    kinds = cfg.layers_block_type
    w.add_layer_norm_eps(cfg.layer_norm_epsilon)
    if arch == "nemotron_h":  # files of models with experts have the other key alone
        w.add_layer_norm_rms_eps(cfg.layer_norm_epsilon)
    w.add_key_length(cfg.head_dim)
    w.add_value_length(cfg.head_dim)
    width = cfg.moe_intermediate_size if EXPERTS in kinds else cfg.intermediate_size
    w.add_feed_forward_length([width if kind in (DENSE, EXPERTS) else 0 for kind in kinds])
    w.add_ssm_conv_kernel(cfg.conv_kernel)
    w.add_ssm_state_size(cfg.ssm_state_size)
    w.add_ssm_group_count(cfg.n_groups)
    w.add_ssm_time_step_rank(cfg.mamba_num_heads)
    w.add_ssm_inner_size(cfg.mamba_num_heads * cfg.mamba_head_dim)
    w.add_rope_scaling_finetuned(False)
    if arch == "nemotron_h":
        return
    w.add_expert_count(cfg.n_routed_experts)
    w.add_expert_used_count(cfg.num_experts_per_tok)
    w.add_expert_feed_forward_length(cfg.moe_intermediate_size)
    w.add_expert_shared_count(1)
    w.add_expert_shared_feed_forward_length(cfg.moe_shared_expert_intermediate_size)
    w.add_expert_weights_norm(cfg.norm_topk_prob)
    w.add_expert_weights_scale(cfg.routed_scaling_factor)
    w.add_expert_group_count(cfg.n_group)
    if cfg.moe_latent_size:
        w.add_moe_latent_size(cfg.moe_latent_size)


def add_granite(w, cfg):
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_ssm_conv_kernel(cfg.mamba_d_conv)
    w.add_ssm_state_size(cfg.mamba_d_state)
    w.add_ssm_group_count(cfg.mamba_n_groups)
    w.add_ssm_time_step_rank(cfg.mamba_n_heads)
    w.add_ssm_inner_size(cfg.mamba_n_heads * cfg.mamba_d_head)
    w.add_rope_scaling_finetuned(cfg.position_embedding_type == "rope")
    w.add_rope_dimension_count(cfg.hidden_size // cfg.num_attention_heads)
    w.add_embedding_scale(cfg.embedding_multiplier)
    w.add_attention_scale(cfg.attention_multiplier)
    w.add_residual_scale(cfg.residual_multiplier)
    w.add_logit_scale(cfg.logits_scaling)
    w.add_expert_shared_feed_forward_length(cfg.shared_intermediate_size)
    if cfg.num_local_experts:
        w.add_expert_count(cfg.num_local_experts)
        w.add_expert_used_count(cfg.num_experts_per_tok)


def add_falcon(w, cfg):
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count_kv(cfg.num_key_value_heads)
    w.add_key_length(cfg.head_dim)
    w.add_value_length(cfg.head_dim)
    w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
    w.add_ssm_conv_kernel(cfg.mamba_d_conv)
    w.add_ssm_state_size(cfg.mamba_d_state)
    w.add_ssm_group_count(cfg.mamba_n_groups)
    w.add_ssm_time_step_rank(cfg.mamba_n_heads)
    w.add_ssm_inner_size(cfg.mamba_d_ssm)


def add_hyper_parameters(w, arch, cfg):
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_head_count(cfg.num_attention_heads)
    if arch == "falcon-h1":
        add_falcon(w, cfg)
        return
    w.add_head_count_kv([cfg.num_key_value_heads if kind == FULL else 0 for kind in cfg.layers_block_type])
    if arch == "granitehybrid":
        add_granite(w, cfg)
    else:
        add_nemotron(w, arch, cfg)
