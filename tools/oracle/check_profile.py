#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts active neurons in float64 with numpy, and compares with a profile of hearth.

    check_profile.py HEARTH MODEL TEXT [CTX]

MODEL is a dense GGUF of architecture llama whose activation is relu or drelu, such as the shipped
hearth-novels-drelu-Q8_0.gguf. The text is tokenized by HEARTH; the rest is done here: windows, layers,
counts for groups of 1 to 32, what is active again at the next token, mean magnitudes. A neuron whose input to
down is nearly nothing may fall to either side of zero, as HEARTH rounds activations to 15 bits; so counts may
differ by a few. Exit status 1: more than that.
"""
import subprocess
import sys
import tempfile

import gguf
import numpy as np

SEQS, BATCHES = 32, [1, 2, 4, 8, 16, 32]


def tensors_of(path):
    reader = gguf.GGUFReader(path)
    fields = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("tokenizer.ggml.tokens")}
    return fields, {t.name: t for t in reader.tensors}


def dense(t):
    x = gguf.quants.dequantize(t.data, t.tensor_type) if t.tensor_type > 1 else t.data
    return np.asarray(x, dtype=np.float64)


class Model:
    def __init__(self, path):
        kv, tensors = tensors_of(path)
        arch = kv["general.architecture"]
        self.w = {name: dense(t) for name, t in tensors.items()}
        self.layers = kv[arch + ".block_count"]
        self.heads = kv[arch + ".attention.head_count"]
        self.kv_heads = kv[arch + ".attention.head_count_kv"]
        self.eps = kv[arch + ".attention.layer_norm_rms_epsilon"]
        self.base = kv.get(arch + ".rope.freq_base", 10000.0)
        self.drelu = kv.get(arch + ".feed_forward.activation") == "drelu"
        self.bos = kv["tokenizer.ggml.bos_token_id"]

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.w[name]

    def rotate(self, x):
        t, _, d = x.shape
        angle = np.arange(t)[:, None] * self.base ** (-np.arange(0, d, 2) / d)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
        out[..., 1::2] = x[..., 1::2] * c + x[..., 0::2] * s
        return out

    def attention(self, x, p):
        t, e = x.shape
        d = e // self.heads
        h = self.norm(x, p + "attn_norm.weight")
        q = self.rotate((h @ self.w[p + "attn_q.weight"].T).reshape(t, self.heads, d))
        k = self.rotate((h @ self.w[p + "attn_k.weight"].T).reshape(t, self.kv_heads, d))
        v = (h @ self.w[p + "attn_v.weight"].T).reshape(t, self.kv_heads, d)
        k, v = (np.repeat(a, self.heads // self.kv_heads, 1) for a in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(d)
        scores[:, np.triu(np.ones((t, t), bool), 1)] = -np.inf
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return np.einsum("hij,jhd->ihd", scores, v).reshape(t, e) @ self.w[p + "attn_output.weight"].T

    def activations(self, tokens):
        """What goes down in each layer: [layers][tokens, neurons]."""
        x, out = self.w["token_embd.weight"][tokens], []
        for i in range(self.layers):
            p = f"blk.{i}."
            x = x + self.attention(x, p)
            h = self.norm(x, p + "ffn_norm.weight")
            gate, up = (h @ self.w[p + f"ffn_{m}.weight"].T for m in ("gate", "up"))
            act = np.maximum(gate, 0) * (np.maximum(up, 0) if self.drelu else up)
            out.append(act)
            x = x + act @ self.w[p + "ffn_down.weight"].T
        return out


def count(model, tokens, ctx):
    part = len(tokens) // SEQS
    room = min(ctx, part + 1) - 1
    f = model.w["blk.0.ffn_up.weight"].shape[0]
    counts = np.zeros((model.layers, len(BATCHES), f), np.int64)
    sums, again, before = np.zeros((model.layers, f)), np.zeros(model.layers), np.zeros(model.layers)
    for at in range(0, part, room):
        active = []
        for seq in range(SEQS):
            window = tokens[seq * part + at:seq * part + min(at + room, part)]
            acts = np.stack([a[1:] for a in model.activations(np.array([model.bos, *window]))])
            sums += np.abs(acts).sum(1)
            on = acts != 0
            again += (on[:, 1:] & on[:, :-1]).sum((1, 2))
            before += on[:, 1:].sum((1, 2))
            active.append(on)
        active = np.stack(active)  # [seqs, layers, positions, neurons]
        for b, size in enumerate(BATCHES):
            groups = active.reshape(SEQS // size, size, *active.shape[1:]).any(1)
            counts[:, b] += groups.sum((0, 2))
    return counts, sums, again / before


def main():
    hearth, path, text = sys.argv[1:4]
    ctx = int(sys.argv[4]) if len(sys.argv) > 4 else 512
    with tempfile.TemporaryDirectory() as folder:
        out = folder + "/profile"
        subprocess.run([hearth, "profile", path, "-f", text, "-o", out, "-c", str(ctx), "-q"], check=True)
        tokenize = [hearth, "tokenize", path, "-f", text, "--no-bos", "--no-parse-special"]
        ids = subprocess.run(tokenize, check=True, capture_output=True)
        kv, tensors = tensors_of(out)
        tokens = [int(i) for i in ids.stdout.split()]
        model = Model(path)
        counts, sums, repeats = count(model, tokens, ctx)
        worst = 0.0
        for i in range(model.layers):
            got = np.array(tensors[f"blk.{i}.ffn_counts"].data).reshape(len(BATCHES), -1)
            means = np.array(tensors[f"blk.{i}.ffn_means"].data).reshape(-1)
            off = np.abs(got - counts[i]).sum(1) / counts[i].sum(1)
            mass = abs((means * got[0]).sum() / sums[i].sum() - 1)
            again = abs(kv["hearth.profile.layer_repeats"][i] - repeats[i])
            print(f"layer {i}: counts differ by {', '.join(f'{x:.4%}' for x in off)}; "
                  f"magnitudes by {mass:.4%}, repeats by {again:.5f}")
            worst = max(worst, off.max(), mass, again)
    print(f"{len(tokens)} tokens, worst {worst:.4%}")
    return worst > 0.01


if __name__ == "__main__":
    sys.exit(main())
