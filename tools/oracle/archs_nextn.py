# SPDX-License-Identifier: MIT
# Golden models with a layer that guesses a token ahead, for make_archs.py. transformers' MtpLayer is the reference.

import copy

import torch
from transformers.modeling_layers import MtpLayer

NAMES = ("qwen35-next", "glm-lite-next")


def add_to(model):
    """Gives the model such a layer, as model.mtp."""
    cfg, base = copy.deepcopy(model.config), model.get_decoder()
    cfg.num_hidden_layers, cfg.layer_types, cfg.mlp_layer_types, cfg.first_k_dense_replace = 1, ["full_attention"], ["sparse"], 0
    norm = type(base.norm)
    model.mtp = MtpLayer(cfg, type(base.layers[-1]), norm, 0)


def tensors(out, cfg, sd, layer):
    """Adds its tensors, where there is one. layer(out, sd, cfg, i): those of an ordinary layer."""
    if "mtp.eh_proj.weight" not in sd:
        return
    n = cfg.num_hidden_layers
    cfg = copy.deepcopy(cfg)
    if getattr(cfg, "layer_types", None):
        cfg.layer_types = [*cfg.layer_types, "full_attention"]
    layer(out, {k.replace("mtp.mtp_block.", f"model.layers.{n}."): v for k, v in sd.items()}, cfg, n)
    for ours, theirs in (("enorm", "enorm"), ("hnorm", "hnorm"), ("eh_proj", "eh_proj"), ("shared_head_norm", "post_norm")):
        out[f"blk.{n}.nextn.{ours}.weight"] = sd[f"mtp.{theirs}.weight"]


@torch.no_grad()
def logits_of(model, ids):
    """[tokens - 1, vocabulary]: what follows each token but the first, by the token and the model's state before it."""
    base, n = model.get_decoder(), len(ids) - 1
    states = base(torch.tensor([ids])).last_hidden_state[:, :-1]
    embeds, places = base.embed_tokens(torch.tensor([ids[1:]])), torch.arange(1, n + 1)[None]
    mask = torch.full((1, 1, n, n), float("-inf"), dtype=states.dtype).triu(1)
    out = model.mtp(
        embeds, states, position_embeddings=base.rotary_emb(embeds, position_ids=places), attention_mask=mask,
        position_ids=places, cache=None,
    )
    return model.lm_head(out)[0].numpy()
