# SPDX-License-Identifier: MIT
# Architectures whose latent attention goes to chosen positions, for make_archs.py: settings of their golden models, names of
# the chooser's tensors and keys in a GGUF.

import torch
import transformers as tf

ARCHS = ("deepseek32", "glm-dsa")
# Of some hundred, with which no choice is close: where one flips, a row of logits is another one.
SEEDS = {"deepseek32": 258, "glm-dsa": 282}


def models(latent, yarn, text):
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
    }  # fmt: skip


NAMES = {"attn_q_b.weight": "wq_b.weight", "attn_k.weight": "wk.weight", "proj.weight": "weights_proj.weight",
         "k_norm.weight": "k_norm.weight", "k_norm.bias": "k_norm.bias"}  # fmt: skip


def layer(out, sd, i):
    """What a layer has beside those of deepseek2."""
    for ours, theirs in NAMES.items():
        name = f"model.layers.{i}.self_attn.indexer.{theirs}"
        if name in sd:
            out[f"blk.{i}.indexer.{ours}"] = sd[name]


def watch(model, gaps):
    """Hooks that add how far each row's last chosen score is above the best of the others, over its scores' deviation: a
    seed is to be such that no rounding changes a choice."""

    def hook(module, inputs, chosen):
        hidden, low, (cos, sin) = inputs[:3]
        n, rot = hidden.shape[1], cos.shape[-1]
        q, k = module.wq_b(low).view(n, module.n_heads, -1), module.k_norm(module.wk(hidden)).view(n, 1, -1)
        turn = tf.models.deepseek_v32.modeling_deepseek_v32
        turn = turn.apply_rotary_pos_emb_interleave if model.config.model_type == "glm_moe_dsa" else turn.apply_rotary_pos_emb
        q_rot, k_rot = turn(q[None, ..., :rot], k[None, ..., :rot], cos, sin, unsqueeze_dim=2)
        q, k = torch.cat([q_rot[0], q[..., rot:]], -1), torch.cat([k_rot[0], k[..., rot:]], -1)[:, 0]
        scores = torch.einsum("sht,sh->st", (q @ k.T).relu(), module.weights_proj(hidden)[0])
        most = model.config.index_topk
        for i in range(most, n):
            row = scores[i, : i + 1]
            best = row.topk(most + 1)
            assert set(best.indices[:most].tolist()) == set(chosen[0, i].tolist())
            gaps.append(float((best.values[-2] - best.values[-1]) / row.std()))

    return [m.register_forward_hook(hook) for n, m in model.named_modules() if n.endswith("self_attn.indexer")]


def add_keys(w, arch, cfg):
    for key, number in (("head_count", cfg.index_n_heads), ("key_length", cfg.index_head_dim), ("top_k", cfg.index_topk)):
        w.add_uint32(f"{arch}.attention.indexer.{key}", number)
    if arch == "glm-dsa":  # whose last layer guesses tokens ahead
        w.add_array(f"{arch}.attention.indexer.types", [kind == "full" for kind in cfg.indexer_types])
        w.add_nextn_predict_layers(1)


def tables(arch, cfg):
    """Tensors of a layer behind the model's."""
    return {f"blk.{cfg.num_hidden_layers}.nextn.enorm.weight": [1.0] * cfg.hidden_size} if arch == "glm-dsa" else {}
