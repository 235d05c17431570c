# SPDX-License-Identifier: MIT
# Makes tiny sparse models as PowerInfer writes them (first bytes "PWRI") and their golden logits, with a forward pass
# of its own in numpy and float64: once with all neurons, once with those that the predictors name. Formats and how to
# set up are in tests/golden/README.md.
#
#   python make_pwri.py [--out DIR] [NAME ...]

import argparse
import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

from oracle_common import N_VOCAB, SpmVocab, write_logits

EPS = 1e-5
TEXT = "The king had three sons"

# R differs by layer. threshold None: the key is left out, and 0 is meant. experts: (all, used).
BASE = dict(e=32, heads=4, kv=2, layers=2, experts=None, threshold=None, context=128)
MODELS = {
    "llama": dict(BASE, arch="llama", act="relu", f=1056, ranks=(32, 64), threshold=0.2),  # clusters 272, 272, 272, 240
    "bamboo": dict(BASE, arch="bamboo", act="drelu", e=64, f=352, ranks=(64, 32)),  # one cluster of 448 at most
    "falcon": dict(BASE, arch="falcon", act="relu", e=64, kv=1, f=320, ranks=(32, 96)),
    "opt": dict(BASE, arch="opt", act="relu", kv=4, f=928, ranks=(32, 64), threshold=-0.1),  # 240, 240, 240, 208
    # Not PowerInfer's: the same tensors per expert in a GGUF, predictors that look at the normed input.
    "experts": dict(BASE, arch="llama", act="drelu", f=480, ranks=(32, 64), experts=(4, 2), threshold=0.1),
}
FILE_TYPES = {"F16": 1, "Q4_0": 2}
# A neuron's p keeps this far from the threshold, so that rounding does not change who is computed.
MARGIN = {"F16": 2e-5, "Q4_0": 2e-4}


# ---- weights under GGUF's names --------------------------------------------------------------------------------


def make_weights(c, seed):
    rng = np.random.RandomState(seed)
    e, f, layered = c["e"], c["f"], {}
    head = e // c["heads"]
    kv = c["kv"] * head
    norms = c["arch"] in ("falcon", "opt")

    def normal(rows, cols, gain):
        return (rng.standard_normal((rows, cols)) * gain / np.sqrt(cols)).astype(np.float32)

    def norm(name):
        layered[name + ".weight"] = rng.uniform(0.6, 1.4, e).astype(np.float32)
        if norms:
            layered[name + ".bias"] = (rng.standard_normal(e) * 0.1).astype(np.float32)

    def bias(name, n):
        if c["arch"] == "opt":
            layered[name + ".bias"] = (rng.standard_normal(n) * 0.3).astype(np.float32)

    # A direction that all embeddings share; gates biased against it leave most neurons idle.
    shared = rng.choice([-1.0, 1.0], e)
    layered["token_embd.weight"] = (normal(N_VOCAB, e, np.sqrt(e)) + shared).astype(np.float32)
    if c["arch"] == "opt":
        layered["position_embd.weight"] = normal(c["context"] + 2, e, 0.5 * np.sqrt(e))
    else:
        layered["output.weight"] = normal(N_VOCAB, e, 4.0)
    norm("output_norm")
    for i in range(c["layers"]):
        p, r = f"blk.{i}.", c["ranks"][i]
        norm(p + "attn_norm")
        if c["arch"] == "falcon":
            norm(p + "attn_norm_2")
            layered[p + "attn_qkv.weight"] = normal(e + 2 * kv, e, 1.4)
        else:
            norm(p + "ffn_norm")
            for part, n in (("q", e), ("k", kv), ("v", kv)):
                layered[p + f"attn_{part}.weight"] = normal(n, e, 1.4)
                bias(p + f"attn_{part}", n)
        layered[p + "attn_output.weight"] = normal(e, e, 0.6)
        bias(p + "attn_output", e)
        x = c["experts"][0] if c["experts"] else 1
        tensors = {}
        for _ in range(x):
            one = {}
            first = normal(f, e, 1.4) + (rng.normal(-1.0, 1.0, (f, 1)) * shared / e).astype(np.float32)
            if norms:
                one["ffn_up"] = first
            else:
                one["ffn_gate"], one["ffn_up"] = first, normal(f, e, 1.4)
            one["ffn_down_t"] = (rng.standard_normal((f, e)) * 2.0 / np.sqrt(f)).astype(np.float32)
            one["fc1"], one["fc2"] = normal(r, e, 1.0), normal(f, r, 1.0)
            for name, w in one.items():
                tensors.setdefault(name, []).append(w)
        for name, ws in tensors.items():
            layered[p + name + ("_exps.weight" if c["experts"] else ".weight")] = (
                np.stack(ws) if c["experts"] else ws[0]
            )
        if c["experts"]:
            layered[p + "ffn_gate_inp.weight"] = normal(x, e, 2.0)
        bias(p + "ffn_up", f)
        bias(p + "ffn_down_t", e)
    return layered


# ---- the forward pass ------------------------------------------------------------------------------------------


def normalise(x, w, name):
    if name + ".bias" in w:
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + EPS) * w[name + ".weight"] + w[name + ".bias"]
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w[name + ".weight"]


def linear(x, w, name):
    y = x @ w[name + ".weight"].T
    return y + w[name + ".bias"] if name + ".bias" in w else y


def rotate(x, neox):
    """x: [tokens][heads][dim]."""
    n, _, dim = x.shape
    angle = (np.arange(n)[:, None] * 10000.0 ** (-np.arange(dim // 2) * 2.0 / dim))[:, None, :]
    a, b = (x[..., : dim // 2], x[..., dim // 2 :]) if neox else (x[..., 0::2], x[..., 1::2])
    ra, rb = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    return np.concatenate([ra, rb], -1) if neox else np.stack([ra, rb], -1).reshape(x.shape)


def attention(x, w, p, c):
    n, e = x.shape
    head = e // c["heads"]
    if c["arch"] == "falcon":
        q, k, v = np.split(linear(x, w, p + "attn_qkv"), [e, e + c["kv"] * head], axis=1)
    else:
        q, k, v = (linear(x, w, p + "attn_" + part) for part in "qkv")
    q, k, v = (t.reshape(n, -1, head) for t in (q, k, v))
    if c["arch"] != "opt":
        q, k = rotate(q, c["arch"] == "falcon"), rotate(k, c["arch"] == "falcon")
    k, v = (np.repeat(t, c["heads"] // c["kv"], axis=1) for t in (k, v))
    s = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(head)
    s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    return linear(np.einsum("hqk,khd->qhd", s, v).reshape(n, e), w, p + "attn_output")


def space(x, seen, t, act, threshold, near):
    """One space's output and its tensors t. threshold None: all neurons. near collects how close p comes to it."""
    relu = lambda a: np.maximum(a, 0.0)  # noqa: E731
    up = x @ t["ffn_up"].T + t.get("bias", 0.0)
    if "ffn_gate" in t:
        h = relu(x @ t["ffn_gate"].T) * (relu(up) if act == "drelu" else up)
    else:
        h = relu(up)
    if threshold is not None:
        p = relu(seen @ t["fc1"].T) @ t["fc2"].T
        near.append(np.abs(p - threshold).min())
        h = np.where(p < threshold, 0.0, h)
    return h @ t["ffn_down_t"]


def feed_forward(x, seen, w, p, c, threshold, near):
    names = [n for n in ("ffn_gate", "ffn_up", "ffn_down_t", "fc1", "fc2")]
    if not c["experts"]:
        t = {n: w[p + n + ".weight"] for n in names if p + n + ".weight" in w}
        if p + "ffn_up.bias" in w:
            t["bias"] = w[p + "ffn_up.bias"]
        return space(x, seen, t, c["act"], threshold, near) + w.get(p + "ffn_down_t.bias", 0.0)
    scores = x @ w[p + "ffn_gate_inp.weight"].T
    out = np.zeros_like(x)
    for row in range(len(x)):
        used = np.sort(np.argsort(-scores[row], kind="stable")[: c["experts"][1]])
        share = np.exp(scores[row][used] - scores[row].max())
        for expert, s in zip(used, share / share.sum()):
            t = {n: w[p + n + "_exps.weight"][expert] for n in names}
            out[row] += s * space(x[row : row + 1], seen[row : row + 1], t, c["act"], threshold, near)[0]
    return out


def forward(c, w, ids, threshold):
    """Logits [tokens][vocabulary]; and how near a predictor's value came to the threshold."""
    w = {k: v.astype(np.float64) for k, v in w.items()}
    x, near = w["token_embd.weight"][ids], [np.inf]
    if c["arch"] == "opt":
        x = x + w["position_embd.weight"][np.arange(len(ids)) + 2]
    for i in range(c["layers"]):
        p = f"blk.{i}."
        if c["arch"] == "falcon":  # side by side; "attn_norm" is the feed-forward one's
            h = normalise(x, w, p + "attn_norm")
            x = x + attention(normalise(x, w, p + "attn_norm_2"), w, p, c) + feed_forward(h, x, w, p, c, threshold, near)
            continue
        x = x + attention(normalise(x, w, p + "attn_norm"), w, p, c)
        h = normalise(x, w, p + "ffn_norm")
        x = x + feed_forward(h, h if c["experts"] else x, w, p, c, threshold, near)
    x = normalise(x, w, "output_norm")
    return x @ w.get("output.weight", w["token_embd.weight"]).T, min(near)


# ---- files -----------------------------------------------------------------------------------------------------


def encode(x, kind):
    """(stored array, its type or None, as a reader decodes it)"""
    if x.ndim == 1:
        return x, None, x
    if kind == "F16":
        half = x.astype(np.float16)
        return half, None, half.astype(np.float32)
    raw = gguf.quantize(x, T.Q4_0)
    return raw, T.Q4_0, gguf.dequantize(raw, T.Q4_0)


def add_vocabulary(w):
    v = SpmVocab()
    w.add_tokenizer_model(v.model)
    w.add_token_list(v.tokens)
    w.add_token_scores(v.scores)
    w.add_token_types(v.types)
    w.add_bos_token_id(v.bos)
    w.add_eos_token_id(v.eos)
    w.add_unk_token_id(v.unk)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)


def write(path, c, kind, stored):
    w = gguf.GGUFWriter(path, c["arch"])
    w.add_file_type(FILE_TYPES[kind])
    w.add_context_length(c["context"])
    w.add_embedding_length(c["e"])
    w.add_block_count(c["layers"])
    w.add_feed_forward_length(c["f"])
    w.add_head_count(c["heads"])
    w.add_head_count_kv(c["kv"])
    if c["arch"] in ("falcon", "opt"):
        w.add_layer_norm_eps(EPS)
    else:
        w.add_layer_norm_rms_eps(EPS)
        w.add_rope_dimension_count(c["e"] // c["heads"])
    if c["experts"]:
        w.add_expert_count(c["experts"][0])
        w.add_expert_used_count(c["experts"][1])
        w.add_string("llama.feed_forward.activation", c["act"])
        w.add_float32("hearth.sparse_threshold", c["threshold"])
    elif c["threshold"] is not None:
        w.add_float32("powerinfer.sparse_threshold", c["threshold"])
    add_vocabulary(w)
    for name, (data, qtype, _) in stored.items():
        w.add_tensor(name, data, raw_dtype=qtype)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    if not c["experts"]:  # the converter of PowerInfer writes a GGUF and then overwrites its first bytes
        with open(path, "r+b") as f:
            f.write(b"PWRI")


def make(name, folder):
    c, ids = MODELS[name], SpmVocab().encode(TEXT)[:12]
    threshold = 0.0 if c["threshold"] is None else float(np.float32(c["threshold"]))
    for kind in ("Q4_0",) if c["experts"] else FILE_TYPES:
        for seed in range(5000):
            stored = {k: encode(v, kind) for k, v in make_weights(c, seed).items()}
            decoded = {k: v[2] for k, v in stored.items()}
            predicted, near = forward(c, decoded, ids, threshold)
            if near > MARGIN[kind]:
                break
        else:
            raise SystemExit(f"{name}: no seed keeps predictors away from the threshold")
        dense, _ = forward(c, decoded, ids, None)
        stem = os.path.join(folder, f"{name}.{kind}")
        write(stem + ".gguf", c, kind, stored)
        write_logits(stem + ".dense.logits", ids, dense)
        write_logits(stem + ".predict.logits", ids, predicted)
        apart = np.linalg.norm(dense - predicted) / np.linalg.norm(dense)
        print(f"{name} {kind}: seed {seed}, margin {near:.1e}, deviation {dense.std():.2f}, predicted is {apart:.2f} apart")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description="Make the golden sparse models.")
    p.add_argument("--out", default=os.path.join(here, "..", "..", "tests", "golden", "pwri"))
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)} (default: all)")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name in args.names or MODELS:
        make(name, args.out)


if __name__ == "__main__":
    main()
