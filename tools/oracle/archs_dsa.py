# SPDX-License-Identifier: MIT
# Architectures whose attention goes to chosen positions, for make_archs.py: settings of their golden models, names of tensors
# and keys in a GGUF.

import numpy as np
import torch
import transformers as tf
from gguf import ExpertGatingFuncType, GGUFValueType

LATENT = ("deepseek32", "glm-dsa", "hy_v4")
ARCHS = LATENT + ("minimax-m3",)
# Of some hundred, with which no choice is close: where one flips, a row of logits is another one.
SEEDS = {"deepseek32": 258, "glm-dsa": 282, "hy-v4": 149, "minimax-m3": 130}


def models(latent, grouped, yarn, half, text):
    """name: (GGUF architecture, class of transformers, its configuration, text). Far fewer positions are chosen than texts have."""
    base = latent | dict(
        q_lora_rank=32, index_n_heads=8, index_head_dim=64, index_topk=5, num_hidden_layers=2, first_k_dense_replace=1, norm_topk_prob=True,
        max_position_embeddings=256, pad_token_id=None,
    )  # fmt: skip
    return {
        "deepseek32": (
            "deepseek32", tf.DeepseekV32ForCausalLM,
            base | dict(n_group=4, topk_group=2, routed_scaling_factor=2.5,
                        rope_parameters=dict(yarn, mscale=1.0, mscale_all_dim=1.0)),
            text,
        ),
        "glm-dsa": (
            "glm-dsa", tf.GlmMoeDsaForCausalLM,
            base | dict(num_hidden_layers=4, indexer_types=["full", "shared", "full", "shared"], n_shared_experts=1, n_group=1,
                        topk_group=1, routed_scaling_factor=1.8, rms_norm_eps=1e-5),
            text,
        ),
        "hy-v4": (
            "hy_v4", tf.HYV4ForCausalLM,
            {k: v for k, v in base.items() if k != "first_k_dense_replace"} | dict(
                num_hidden_layers=3, mlp_layer_types=["dense", "sparse", "sparse"], indexer_types=["full", "shared", "shared"],
                n_shared_experts=1, n_group=1, topk_group=1, routed_scaling_factor=1.8, rms_norm_eps=1e-5, hc_mult=3,
                hc_magnitude=1.6, hc_eps=1e-3, swiglu_limit=1.5,
            ),
            text,
        ),
        "minimax-m3": (
            "minimax-m3", tf.MiniMaxM3VLForCausalLM,
            grouped | dict(
                num_hidden_layers=3, head_dim=32, rotary_dim=16, rope_parameters=half, intermediate_size=32,
                dense_intermediate_size=96, shared_intermediate_size=32, num_local_experts=8, num_experts_per_tok=3,
                routed_scaling_factor=1.6, mlp_layer_types=["dense", "sparse", "sparse"],
                layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"], index_n_heads=2, index_head_dim=32,
                index_block_size=8, index_topk_blocks=5, index_local_blocks=2, max_position_embeddings=256,
                tie_word_embeddings=False,
            ),
            text,
        ),
    }  # fmt: skip


NAMES = {"attn_q_b.weight": "wq_b.weight", "attn_k.weight": "wk.weight", "proj.weight": "weights_proj.weight",
         "k_norm.weight": "k_norm.weight", "k_norm.bias": "k_norm.bias"}  # fmt: skip


MINIMAX = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_output": "self_attn.o_proj",
    "ffn_gate_inp": "mlp.gate", "ffn_down": "mlp.down_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj",
} | {f"attn_{p}": f"self_attn.{p}_proj" for p in "qkv"} | {
    f"{ours}{p}_norm": f"self_attn.{theirs}{p}_norm" for p in "qk" for ours, theirs in (("attn_", ""), ("indexer.", "indexer."))
} | {f"indexer.{p}_proj": f"self_attn.indexer.{p}_proj" for p in "qk"}  # fmt: skip


def minimax_layer(out, sd, i):
    src, dst = f"model.layers.{i}.", f"blk.{i}."
    for ours, theirs in MINIMAX.items():
        if f"{src}{theirs}.weight" in sd:
            out[f"{dst}{ours}.weight"] = sd[f"{src}{theirs}.weight"]
    for ours, theirs, axis in (("", "gate_up_proj.weight", 0), ("_shexp", "shared_experts.gate_up_proj.weight", 0),
                               ("_exps", "experts.gate_up_proj", 1)):  # fmt: skip
        if f"{src}mlp.{theirs}" in sd:
            for part, w in zip(("gate", "up"), np.split(sd[f"{src}mlp.{theirs}"], 2, axis)):
                out[f"{dst}ffn_{part}{ours}.weight"] = w
    if src + "mlp.experts.down_proj" in sd:
        out[dst + "ffn_down_exps.weight"] = sd[src + "mlp.experts.down_proj"]
        out[dst + "exp_probs_b.bias"] = sd[src + "mlp.gate.e_score_correction_bias"]


HY = {"attn_sinks": "self_attn.sinks", "attn_gate": "self_attn.gate_proj.weight"} | {
    f"hc_{place}_{part}": f"{place}_hc.{part}" for place in ("attn", "ffn") for part in ("fn", "base", "scale")
}  # fmt: skip


def paired(x, heads, rot):
    """Rows of heads, of which the last `rot` rotate by halves, with those as adjacent pairs."""
    x = x.reshape(heads, -1, *x.shape[1:]).copy()
    x[:, -rot:] = x[:, -rot:].reshape(heads, 2, rot // 2, *x.shape[2:]).swapaxes(1, 2).reshape(heads, rot, *x.shape[2:])
    return x.reshape(-1, *x.shape[2:])


def as_pairs(cfg, sd):
    """hy_v4's weights as in files, where adjacent elements rotate."""
    sd = dict(sd)
    for name in sd:
        heads = (cfg.num_attention_heads if name.endswith("q_b_proj.weight") else
                 cfg.index_n_heads if name.endswith("indexer.wq_b.weight") else
                 1 if name.endswith("kv_a_proj_with_mqa.weight") or ".indexer.wk." in name or ".indexer.k_norm." in name else 0)  # fmt: skip
        if heads:
            sd[name] = paired(sd[name], heads, cfg.qk_rope_head_dim)
    return sd


def hy_head(out, sd):
    for part in ("fn", "base", "scale"):
        out[f"output_hc_{part}.weight"] = sd[f"model.hc_head.hc_{part}"]


def layer(out, sd, i):
    """What a layer has beside those of deepseek2."""
    for ours, theirs in HY.items():
        if f"model.layers.{i}.{theirs}" in sd:
            out[f"blk.{i}.{ours}.weight"] = sd[f"model.layers.{i}.{theirs}"]
    for ours, theirs in NAMES.items():
        name = f"model.layers.{i}.self_attn.indexer.{theirs}"
        if name in sd:
            out[f"blk.{i}.indexer.{ours}"] = sd[name]


def watch(model, gaps):
    """Hooks that add how far each row's last chosen score is above the best of the others, over its scores' deviation: a
    seed is to be such that no rounding changes a choice."""

    def gap(row, most, chosen):
        best = row.topk(most + 1)
        assert set(best.indices[:most].tolist()) == set(chosen)
        gaps.append(float((best.values[-2] - best.values[-1]) / row.std()))

    def hook_of_blocks(module, inputs, chosen):
        hidden, (cos, sin) = inputs[:2]
        n, size, most, local = hidden.shape[1], module.block_size, module.topk_blocks, module.local_blocks
        q = module.q_norm(module.q_proj(hidden).view(1, n, module.num_heads, -1)).transpose(1, 2)
        k = module.k_norm(module.k_proj(hidden).view(1, n, 1, -1)).transpose(1, 2)
        q, k = tf.models.minimax_m3_vl.modeling_minimax_m3_vl.apply_rotary_pos_emb(q, k, cos, sin)
        scores = q[0] @ k[0].transpose(-1, -2)
        for head in range(module.num_heads):
            for i in range(most * size, n):
                free = i // size + 1 - local
                row = torch.stack([scores[head, i, b * size : (b + 1) * size].max() for b in range(free)])
                gap(row, most - local, [b for b in chosen[0, head, i].tolist() if 0 <= b < free])

    def hook(module, inputs, chosen):
        if hasattr(module, "block_size"):
            hook_of_blocks(module, inputs, chosen)
            return
        hidden, low, (cos, sin) = inputs[:3]
        n, rot = hidden.shape[1], cos.shape[-1]
        q, k = module.wq_b(low).view(n, module.n_heads, -1), module.k_norm(module.wk(hidden)).view(n, 1, -1)
        behind = model.config.model_type == "hy_v4"
        turn = tf.models.deepseek_v32.modeling_deepseek_v32
        turn = turn.apply_rotary_pos_emb_interleave if model.config.model_type == "glm_moe_dsa" else turn.apply_rotary_pos_emb
        q, k = (x.roll(rot, -1) if behind else x for x in (q, k))  # the order of elements does not count
        q_rot, k_rot = turn(q[None, ..., :rot], k[None, ..., :rot], cos, sin, unsqueeze_dim=2)
        q, k = torch.cat([q_rot[0], q[..., rot:]], -1), torch.cat([k_rot[0], k[..., rot:]], -1)[:, 0]
        scores = torch.einsum("sht,sh->st", (q @ k.T).relu(), module.weights_proj(hidden)[0])
        most = model.config.index_topk
        for i in range(most, n):
            gap(scores[i, : i + 1], most, chosen[0, i].tolist())

    return [m.register_forward_hook(hook) for n, m in model.named_modules() if n.endswith("self_attn.indexer")]


def add_minimax_keys(w, cfg):
    w.add_expert_feed_forward_length(cfg.intermediate_size)
    w.add_expert_shared_count(cfg.shared_intermediate_size // cfg.intermediate_size)
    w.add_expert_weights_scale(cfg.routed_scaling_factor)
    w.add_expert_weights_norm(True)
    w.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
    w.add_leading_dense_block_count(cfg.mlp_layer_types.index("sparse"))
    w.add_rope_dimension_count(cfg.rotary_dim)
    for key, number in (("head_count", cfg.index_n_heads), ("key_length", cfg.index_head_dim), ("top_k", cfg.index_topk_blocks),
                        ("block_size", cfg.index_block_size), ("local_blocks", cfg.index_local_blocks)):  # fmt: skip
        w.add_uint32(f"minimax-m3.attention.indexer.{key}", number)


def add_keys(w, arch, cfg):
    if arch == "minimax-m3":
        add_minimax_keys(w, cfg)
        return
    for key, number in (("head_count", cfg.index_n_heads), ("key_length", cfg.index_head_dim), ("top_k", cfg.index_topk)):
        w.add_uint32(f"{arch}.attention.indexer.{key}", number)
    if arch == "hy_v4":
        w.add_array("hy_v4.attention.indexer.types", [kind == "full" for kind in cfg.indexer_types])
        w.add_uint32("hy_v4.hyper_connection.count", cfg.hc_mult)
        w.add_float32("hy_v4.hyper_connection.epsilon", cfg.hc_eps)
        w.add_float32("hy_v4.hyper_connection.magnitude", cfg.hc_magnitude)
        w.add_key_value("hy_v4.swiglu_clamp_exp", [cfg.swiglu_limit] * cfg.num_hidden_layers, GGUFValueType.ARRAY,
                        GGUFValueType.FLOAT32)  # fmt: skip
    if arch == "glm-dsa":  # whose last layer guesses tokens ahead
        w.add_array(f"{arch}.attention.indexer.types", [kind == "full" for kind in cfg.indexer_types])
        w.add_nextn_predict_layers(1)


def tables(arch, cfg):
    """Tensors of a layer behind the model's."""
    return {f"blk.{cfg.num_hidden_layers}.nextn.enorm.weight": [1.0] * cfg.hidden_size} if arch == "glm-dsa" else {}
