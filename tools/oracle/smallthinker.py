# SPDX-License-Identifier: MIT
# SmallThinker's forward pass in torch, with transformers' names of modules and weights: transformers has no code for
# it. The router reads the layer's input before its norm; of four layers the first one has neither window nor rotation.

from types import SimpleNamespace

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def rotate(x, theta):
    """x: [heads, tokens, dim]; pairs lie half a head apart."""
    half = x.shape[-1] // 2
    frequencies = theta ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = (torch.arange(x.shape[1], dtype=torch.float32)[:, None] * frequencies).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


class Attention(nn.Module):
    def __init__(self, c, windowed):
        super().__init__()
        self.c, self.windowed = c, windowed
        q, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
        self.q_proj, self.k_proj = nn.Linear(c.hidden_size, q, bias=False), nn.Linear(c.hidden_size, kv, bias=False)
        self.v_proj, self.o_proj = nn.Linear(c.hidden_size, kv, bias=False), nn.Linear(q, c.hidden_size, bias=False)

    def forward(self, x):
        c, n = self.c, len(x)
        q, k, v = (p(x).view(n, -1, c.head_dim).transpose(0, 1) for p in (self.q_proj, self.k_proj, self.v_proj))
        if self.windowed:
            q, k = rotate(q, c.rope_theta), rotate(k, c.rope_theta)
        group = c.num_attention_heads // c.num_key_value_heads
        k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        back = torch.arange(n)[:, None] - torch.arange(n)[None]
        hidden = (back < 0) | (back >= c.sliding_window if self.windowed else back < 0)
        scores = (q @ k.transpose(1, 2) * c.head_dim**-0.5).masked_fill(hidden, float("-inf"))
        return self.o_proj((scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1))


class Router(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.weight = c, nn.Parameter(torch.empty(c.num_experts, c.hidden_size))

    def forward(self, x):
        scores = x @ self.weight.T
        scores = scores.softmax(-1) if self.c.softmax_router else scores.sigmoid()
        weights, ids = scores.topk(self.c.num_experts_per_tok, -1)
        return scores, weights / weights.sum(-1, keepdim=True), ids


class Experts(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(c.num_experts, 2 * c.moe_intermediate_size, c.hidden_size))
        self.down_proj = nn.Parameter(torch.empty(c.num_experts, c.hidden_size, c.moe_intermediate_size))

    def forward(self, x, weights, ids):
        rows = []
        for row, by, chosen in zip(x, weights, ids):
            gate, up = (self.gate_up_proj[chosen] @ row).chunk(2, -1)
            rows.append(((self.down_proj[chosen] @ (gate.relu() * up)[..., None])[..., 0] * by[:, None]).sum(0))
        return torch.stack(rows)


class Layer(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        self.input_layernorm = Norm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = Norm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c, i % 4 != 0)
        self.mlp = nn.Module()
        self.mlp.gate, self.mlp.experts = Router(c), Experts(c)

    def forward(self, x):
        _, weights, ids = self.mlp.gate(x)
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp.experts(self.post_attention_layernorm(x), weights, ids)


class SmallThinkerForCausalLM(nn.Module):
    @staticmethod
    def config_class(**settings):
        return SimpleNamespace(**settings)

    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, nn.Module()
        self.model.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.model.layers = nn.ModuleList(Layer(config, i) for i in range(config.num_hidden_layers))
        self.model.norm = Norm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens[0])
        for layer in self.model.layers:
            x = layer(x)
        return SimpleNamespace(logits=self.lm_head(self.model.norm(x))[None])
