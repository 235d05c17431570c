# SPDX-License-Identifier: MIT
# A small Llama-shaped language model in PyTorch, laid out the way GGUF's "llama" architecture stores it:
# RMSNorm, rotary embedding over interleaved pairs (2i, 2i+1), grouped-query attention, gated FFN, head tied to
# the token embedding. Training in that layout means that no row has to be permuted on export.
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = ("drelu", "silu", "relu")


@dataclass
class Config:
    """Shape of a model; every field ends up in the GGUF header."""

    vocab: int = 4096
    hidden: int = 256
    ffn: int = 768
    layers: int = 6
    heads: int = 8
    kv_heads: int = 2
    context: int = 512
    rms_eps: float = 1e-5
    rope_base: float = 10000.0
    activation: str = "drelu"

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {self.activation!r}")
        if self.hidden % self.heads or self.heads % self.kv_heads:
            raise ValueError("hidden must be a multiple of heads, and heads of kv_heads")

    @property
    def head_dim(self):
        return self.hidden // self.heads

    def as_dict(self):
        return asdict(self)


def gate(g, u, activation):
    """The gated hidden activations [.., ffn] from the gate and up projections."""
    if activation == "drelu":
        return F.relu(g) * F.relu(u)
    if activation == "relu":
        return F.relu(g) * u
    return F.silu(g) * u


def sparsity_of(acts):
    """Per layer the density and the relative L1 of its FFN activations, [layers] each.

    The relative L1 is mean|h| over a detached root mean square, so it asks for fewer active neurons and not for
    smaller ones.
    """
    density, l1 = [], []
    for h in acts:
        h = h.float()
        density.append((h != 0).float().mean().detach())
        l1.append(h.abs().mean() / (h.pow(2).mean().detach() + 1e-12).sqrt())
    return torch.stack(density), torch.stack(l1)


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope_table(cfg):
    """cos and sin [context, head_dim / 2] of position * base^(-2i / head_dim)."""
    inv = cfg.rope_base ** (-torch.arange(0, cfg.head_dim, 2, dtype=torch.float64) / cfg.head_dim)
    angle = torch.outer(torch.arange(cfg.context, dtype=torch.float64), inv)
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """Rotate the pairs (2i, 2i+1) of x [batch, position, head, head_dim]."""
    x0, x1 = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = cos[:, None, :], sin[:, None, :]
    return torch.stack((x0 * c - x1 * s, x0 * s + x1 * c), -1).flatten(-2).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        kv = cfg.kv_heads * cfg.head_dim
        self.attn_norm = RMSNorm(cfg.hidden, cfg.rms_eps)
        self.attn_q = nn.Linear(cfg.hidden, cfg.hidden, bias=False)
        self.attn_k = nn.Linear(cfg.hidden, kv, bias=False)
        self.attn_v = nn.Linear(cfg.hidden, kv, bias=False)
        self.attn_output = nn.Linear(cfg.hidden, cfg.hidden, bias=False)
        self.ffn_norm = RMSNorm(cfg.hidden, cfg.rms_eps)
        self.ffn_gate = nn.Linear(cfg.hidden, cfg.ffn, bias=False)
        self.ffn_up = nn.Linear(cfg.hidden, cfg.ffn, bias=False)
        self.ffn_down = nn.Linear(cfg.ffn, cfg.hidden, bias=False)

    def attention(self, x, cos, sin):
        cfg, (b, t, _) = self.cfg, x.shape
        q = rotate(self.attn_q(x).view(b, t, cfg.heads, cfg.head_dim), cos, sin)
        k = rotate(self.attn_k(x).view(b, t, cfg.kv_heads, cfg.head_dim), cos, sin)
        v = self.attn_v(x).view(b, t, cfg.kv_heads, cfg.head_dim)
        group = cfg.heads // cfg.kv_heads
        q = q.transpose(1, 2)
        k = k.transpose(1, 2).repeat_interleave(group, 1)
        v = v.transpose(1, 2).repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn_output(y.transpose(1, 2).reshape(b, t, cfg.hidden))

    def forward(self, x, cos, sin):
        """The residual stream after this layer, and the FFN's hidden activations [batch, position, ffn]."""
        x = x + self.attention(self.attn_norm(x), cos, sin)
        n = self.ffn_norm(x)
        h = gate(self.ffn_gate(n), self.ffn_up(n), self.cfg.activation)
        return x + self.ffn_down(h), h


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.token_embd = nn.Embedding(cfg.vocab, cfg.hidden)
        self.blk = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.output_norm = RMSNorm(cfg.hidden, cfg.rms_eps)
        cos, sin = rope_table(cfg)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.reset()

    def reset(self):
        """Small embedding, orthogonal-scale projections, and outputs into the residual stream that start at zero."""
        nn.init.normal_(self.token_embd.weight, std=0.02)
        for layer in self.blk:
            for m in (layer.attn_q, layer.attn_k, layer.attn_v, layer.ffn_gate, layer.ffn_up):
                nn.init.normal_(m.weight, std=self.cfg.hidden**-0.5)
            nn.init.zeros_(layer.attn_output.weight)
            nn.init.zeros_(layer.ffn_down.weight)

    def hidden_states(self, ids):
        """Normed final states [batch, position, hidden], and per layer the FFN activations and the stream behind it."""
        t = ids.shape[1]
        x, acts, streams = self.token_embd(ids), [], []
        for layer in self.blk:
            x, h = layer(x, self.cos[:t], self.sin[:t])
            acts.append(h)
            streams.append(x)
        return self.output_norm(x), acts, streams

    def forward(self, ids):
        """Logits [batch, position, vocab]."""
        return F.linear(self.hidden_states(ids)[0], self.token_embd.weight)

    def losses(self, ids, targets):
        """Mean cross-entropy, and sparsity_of() the FFN activations."""
        x, acts, _ = self.hidden_states(ids)
        logits = F.linear(x, self.token_embd.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()), *sparsity_of(acts)
