# SPDX-License-Identifier: MIT
# A trained model made larger that gives the same text: twice as wide (every position of the stream, neuron and head is
# there twice), and with further layers that add nothing yet. What is there twice differs in how its inputs and outputs are
# divided between the copies, so that training makes them different (Net2Net, arXiv 1511.05641).
import dataclasses

import torch

APART = 0.5  # how different the copies' parts are, relative to the weights


def larger(cfg, layers, context):
    """The shape with twice the width and so many layers."""
    return dataclasses.replace(cfg, hidden=2 * cfg.hidden, ffn=2 * cfg.ffn, heads=2 * cfg.heads,
                               kv_heads=2 * cfg.kv_heads, layers=layers, context=context)


def divided(w, rng):
    """[rows, 2 columns]: two matrices that give w together, for inputs that are there twice."""
    noise = torch.randn(w.shape, generator=rng) * w.square().mean().sqrt() * APART / 2
    return torch.cat((w / 2 + noise, w / 2 - noise), 1)


def doubled(w, rng):
    """The same outputs twice, too: [2 rows, 2 columns]."""
    return torch.cat((divided(w, rng), divided(w, rng)))


def grow(state, cfg, layers, seed=1):
    """State of a model of shape larger(cfg, layers, ...), which computes what the one with `state` does.

    A layer that is new is a copy of the one before it whose outputs are nothing.
    """
    rng = torch.Generator().manual_seed(seed)
    out = {"token_embd.weight": state["token_embd.weight"].repeat(1, 2),
           "output_norm.weight": state["output_norm.weight"].repeat(2) / 2}  # the head meets each position twice
    for i in range(layers):
        source = i * cfg.layers // layers
        new = i > 0 and source == (i - 1) * cfg.layers // layers
        for name, w in ((k.split(".", 2)[2], w) for k, w in state.items() if k.startswith(f"blk.{source}.")):
            nothing = new and name in ("attn_output.weight", "ffn_down.weight")
            big = w.repeat(2) if w.ndim == 1 else doubled(w, rng)
            out[f"blk.{i}.{name}"] = torch.zeros_like(big) if nothing else big
    return out
