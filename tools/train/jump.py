# SPDX-License-Identifier: MIT
# A SwiGLU model as one whose neurons are mostly off, without training. A neuron gives silu(gate) * up. Where its gate
# is small, silu(gate) is nearly a constant c of that neuron, so that what it gives is c * up, which is linear in the
# part's input. All those linear shares together are one matrix,
#     down diag(c) up,
# beside the neurons. What is left, (silu(gate) - c) * up, is nothing where the gate is small, and a line of the gate
# where it is not: gate + bias is above 0 then, and q * (gate + bias) + p is what silu(gate) - c is. With the gate's
# row times q / p and up's times p that is (gate + 1) * up, or nothing: the activation "jump_relu" (docs/sparse.md).
import contextlib

import torch
import torch.nn.functional as F
from torch import nn

ROUNDS = 6  # which gates are small depends on c, which is of those that are
LEAST = 0.02  # p stays above
EMA = 0.1  # of a threshold's way to where it gives the wanted density, a step
SAMPLE = 211  # of so many gates one is looked at
MANY = 1 << 17  # more are looked at in no layer
VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)  # of IQ4_NL
PLACES = (-127, 113, -120, 106, -113, 100, -134, 120)  # where a block's largest element may go among them
FIVE_BITS = ("token_embd", "attn_v", "attn_output")  # matrices that are rounded to Q5_0


def threshold(x, density):
    """Above which that share of x lies."""
    return torch.quantile(x.flatten()[::SAMPLE].float(), 1 - min(1.0, density))


def sample(gates):
    """Some of the gates of each layer [layers, n]."""
    every = SAMPLE
    while gates[0].numel() // every > MANY or every % 2 == 0 or every % 3 == 0:  # all neurons' turn comes
        every += 1
    return torch.stack([g.flatten()[::every] for g in gates])


def silu_inverse(y):
    """The x right of SiLU's lowest point that gives y."""
    low, high = torch.full_like(y, -1.278), torch.full_like(y, 30.0)
    for _ in range(40):
        middle = (low + high) / 2
        less = F.silu(middle) < y
        low, high = torch.where(less, middle, low), torch.where(less, high, middle)
    return high


def constants(gate, weight, density):
    """Of gates [n, neurons] with weights: c of each neuron, and the height above c from which it is on."""
    z = F.silu(gate)
    c = (z * weight).sum(0) / weight.sum(0)
    for _ in range(ROUNDS):
        height = threshold(z - c, density)
        off = weight * (z - c <= height)
        c = (z * off).sum(0) / off.sum(0).clamp_min(1e-30)
    return c, height


def lines(gate, weight, c, height):
    """bias, q and p of each neuron: by least squares, over the gates that are on."""
    z, bias = F.silu(gate) - c, -silu_inverse(c + height)
    x = gate + bias
    on = weight * (x > 0)
    total = on.sum(0).clamp_min(1e-30)
    x_mean, z_mean = (on * x).sum(0) / total, (on * z).sum(0) / total
    variance = (on * x * x).sum(0) / total - x_mean * x_mean
    covariance = (on * x * z).sum(0) / total - x_mean * z_mean
    q = ((covariance + 1e-3 * 0.9) / (variance + 1e-3)).clamp(0.2, 1.5)
    p = (z_mean - q * x_mean).clamp_min(LEAST)
    few = (on > 0).sum(0) < 20
    return bias, torch.where(few, torch.full_like(q, 0.9), q), torch.where(few, height.clamp_min(LEAST).expand_as(p), p)


def extremes(x):
    """x [rows, n] in blocks of 32 along n, and of each the element of largest magnitude (1 if all are 0)."""
    blocks = x.float().reshape(-1, 32)
    low, high = blocks.amin(1, keepdim=True), blocks.amax(1, keepdim=True)
    largest = torch.where(high > -low, high, low)
    return blocks, torch.where(largest == 0, 1.0, largest)


def rounded_steps(x, bits):
    """x as Q4_0 or Q5_0 holds it: the largest element of a block is the last of its steps below 0."""
    blocks, largest = extremes(x)
    half = 1 << (bits - 1)
    step = largest / -half
    whole = (blocks / step + half + 0.5).floor().clamp(0, 2 * half - 1) - half
    return (whole * step.half().float()).reshape(x.shape)


def nearest_value(x):
    """Of the values of IQ4_NL."""
    values = torch.tensor(VALUES, dtype=torch.float32, device=x.device)
    return values[torch.bucketize(x, (values[1:] + values[:-1]) / 2)]


def rounded_iq4_nl(x):
    """x as `hearth quantize` writes it in IQ4_NL (src/quant/encode_32.c has the same places)."""
    blocks, largest = extremes(x)
    weight = blocks.square() + blocks.square().mean(1, keepdim=True)
    best, scale = torch.full_like(largest, -1.0), torch.zeros_like(largest)
    for place in PLACES:
        value = nearest_value(blocks * (place / largest))
        product = (weight * value * blocks).sum(1, keepdim=True)
        square = (weight * value * value).sum(1, keepdim=True)
        better = product * product / square > best
        best = torch.where(better, product * product / square, best)
        scale = torch.where(better, product / square, scale)
    scale = scale.half().float()
    return (nearest_value(blocks / torch.where(scale == 0, 1.0, scale)) * scale).reshape(x.shape)


class JumpLayer(nn.Module):
    """A layer of model.Model whose forward() gives the gates in place of what goes down."""

    def __init__(self, dense, edge):
        super().__init__()
        self.dense, self.edge = dense, edge
        hidden, ffn = dense.cfg.hidden, dense.cfg.ffn
        self.bias, self.p = nn.Parameter(torch.zeros(ffn)), nn.Parameter(torch.ones(ffn))
        self.register_buffer("q", torch.ones(ffn))
        self.linear = nn.Linear(hidden, hidden, bias=False)

    def begin(self, n, density):
        """Takes what the layer needs from inputs [.., hidden] of its feed-forward part."""
        d = self.dense
        gate, up = d.ffn_gate(n).flatten(0, 1), d.ffn_up(n).flatten(0, 1)
        c, height = constants(gate, up.square(), density)
        bias, q, p = lines(gate, up.square(), c, height)
        self.bias.copy_(bias)
        self.q.copy_(q)
        self.p.copy_(p)
        self.linear.weight.copy_((d.ffn_down.weight * c) @ d.ffn_up.weight)

    def raise_threshold(self, by):
        """Neurons that stay on give what they gave."""
        self.bias -= by
        self.p += self.q * by

    def forward(self, x, cos, sin):
        d = self.dense
        x = x + d.attention(d.attn_norm(x), cos, sin)
        n = d.ffn_norm(x)
        gate = d.ffn_gate(n).float() + self.bias
        z = torch.where(gate > 0, self.q * gate + self.p, 0.0)
        if self.edge:  # gradients see the step from 0 to p as a slope, as steep as the line
            wide = (self.p / (2 * self.q)).detach()
            slope = self.q * torch.clamp(gate, -wide, wide)
            z = z + (slope - slope.detach())
        return x + d.ffn_down(z * d.ffn_up(n)) + self.linear(n), gate.detach()


class Student(nn.Module):
    def __init__(self, model, edge=False):
        super().__init__()
        self.model = model
        model.blk = nn.ModuleList(JumpLayer(layer, edge) for layer in model.blk)
        self.in_steps, self.in_iq4_nl = rounded_steps, rounded_iq4_nl

    def compile_parts(self):
        for layer in self.model.blk:
            layer.compile(dynamic=False)
        self.in_steps, self.in_iq4_nl = (torch.compile(f, dynamic=False) for f in (rounded_steps, rounded_iq4_nl))
        try:
            with self.rounded():
                pass
        except Exception as e:
            print(f"rounding is not compiled: {type(e).__name__}: {str(e)[:1000]}", flush=True)
            self.in_steps, self.in_iq4_nl = rounded_steps, rounded_iq4_nl

    @torch.no_grad()
    def begin(self, ids, density):
        """The sparse copy that needs no training, from text [n, positions]. Returns each layer's share of neurons,
        relative to the mean: layers whose neurons matter more for the probabilities have more."""
        shares = torch.ones(len(self.model.blk))
        self._take(ids, density * shares)
        shares = self._shares(ids[:3], density)
        self._take(ids, density * shares)
        return shares

    @contextlib.contextmanager
    def rounded(self):
        """Meanwhile the neurons are what Q4_0 holds of them, down by neuron, what rounding costs most is in Q5_0, and the
        other matrices in IQ4_NL. Gradients that are taken there are the matrices' own."""
        own = [(name, p, p.data) for name, p in self.named_parameters() if p.dim() == 2]
        with torch.no_grad():
            five = [o for o in own if any(part in o[0] for part in FIVE_BITS)]
            four = [o for o in own if "ffn_" in o[0]]
            done = {name for name, _, _ in five + four}
            rest = [o for o in own if o[0] not in done]
            self._round(five, lambda x: self.in_steps(x, 5))
            self._round(four, lambda x: self.in_steps(x, 4))
            self._round(rest, self.in_iq4_nl)
        try:
            yield
        finally:
            for _, p, x in own:
                p.data = x

    def _round(self, own, rounding):
        """Matrices that have one format, together."""
        turned = [x.t() if "ffn_down" in name else x for name, _, x in own]
        blocks = rounding(torch.cat([x.reshape(-1, 32) for x in turned]))
        for (name, p, _), x, part in zip(own, turned, blocks.split([x.numel() // 32 for x in turned])):
            part = part.reshape(x.shape)
            p.data = part.t().contiguous() if "ffn_down" in name else part  # gradients take its strides

    def _take(self, ids, densities):
        m, t = self.model, ids.shape[1]
        x = m.token_embd(ids)
        for layer, density in zip(m.blk, densities):
            d = layer.dense
            x = x + d.attention(d.attn_norm(x), m.cos[:t], m.sin[:t])
            n = d.ffn_norm(x)
            layer.begin(n, density.item())
            x = x + d.ffn_down(F.silu(d.ffn_gate(n)) * d.ffn_up(n))

    def _shares(self, ids, density):
        """By how much more the probabilities change when one layer has 0.4 of the density, not 1.5 times it."""
        m = self.model

        def probabilities():
            return F.log_softmax(F.linear(m.hidden_states(ids)[0], m.token_embd.weight).float(), -1)

        target, gates = probabilities(), m.hidden_states(ids)[1]
        cost = []
        for layer, g in zip(m.blk, gates):
            both = []
            for of in (0.4, 1.5):
                by = threshold(g, of * density)
                layer.raise_threshold(by)
                both.append(F.kl_div(probabilities(), target, reduction="sum", log_target=True).item() / ids.numel())
                layer.raise_threshold(-by)
            cost.append(max(both[0] - both[1], 1e-4))
        cost = torch.tensor(cost)
        shares = ((cost / cost.mean()) ** 0.35).clamp(0.5, 1.7)
        return shares / shares.mean()

    @torch.no_grad()
    def move_thresholds(self, gates, densities):
        """A part of the way to the wanted densities, by samples of the gates [layers, n]. Returns the density."""
        place = ((1 - densities.clamp(0, 1)) * (gates.shape[1] - 1)).long()
        by = EMA * gates.sort(1).values.gather(1, place[:, None])
        for layer, b in zip(self.model.blk, by):
            layer.raise_threshold(b)
            layer.p.clamp_(min=LEAST)
        return (gates > 0).float().mean()

    def folded(self):
        """Tensors of the GGUF by name; down by neuron, as it is read when few neurons are active."""
        m = self.model
        out = {"token_embd.weight": m.token_embd.weight, "output_norm.weight": m.output_norm.weight}
        for i, layer in enumerate(m.blk):
            by = layer.q / layer.p
            for name, x in layer.dense.state_dict().items():
                scale = {"ffn_gate.weight": by[:, None], "ffn_up.weight": layer.p[:, None]}.get(name, 1)
                out[f"blk.{i}.{name}"] = x * scale
            out[f"blk.{i}.ffn_down_t.weight"] = out.pop(f"blk.{i}.ffn_down.weight").t()
            out[f"blk.{i}.ffn_gate.bias"] = layer.bias * by
            out[f"blk.{i}.ffn_linear.weight"] = layer.linear.weight
        return {name: x.detach() for name, x in out.items()}
