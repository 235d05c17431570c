# SPDX-License-Identifier: MIT
# Makes the tiny random models of tests/golden/models and their golden logits and greedy continuations, with
# transformers as the reference. Deterministic: weights come from numpy's frozen RandomState.
#
#   python make_models.py [--out DIR] [NAME ...]
#
# K-quants and the files that llama.cpp writes need its libraries: see LLAMA_LIBS in oracle_common.py.

import argparse
import os
import tempfile

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from transformers import LlamaConfig, LlamaForCausalLM

import grids
import llama_cpp
import small_formats
from oracle_common import N_VOCAB, BpeVocab, GgmlBase, SpmVocab, write_logits

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
BASE = dict(
    hidden=64, layers=2, heads=4, kv_heads=4, head_dim=16, ffn=96, eps=1e-5, tied=False, act="silu", rope=ROPE,
    context=128, vocab=SpmVocab, arch="llama",
)  # fmt: skip
LONG = "The fisherman and his wife lived in a small hut on the shore, and every day he went out to sea"

# name: (differences from BASE, file types). A file "name.TYPE.gguf" each.
MODELS = {
    "llama-mha": (dict(text="Once upon a time the cat sat", seed=11), ["F32", "Q8_0", "Q4_0"]),
    "mistral-gqa": (
        dict(kv_heads=2, head_dim=32, eps=1e-6, tied=True, rope=dict(ROPE, rope_theta=1e6),
             text="It was a dark and stormy night", seed=11),
        ["BF16", "Q4_0"],
    ),
    "llama3-rope": (
        dict(
            heads=2, kv_heads=1, head_dim=32, tied=True, vocab=BpeVocab, text=LONG, seed=23,
            rope=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                      original_max_position_embeddings=32),
        ),
        ["F16"],
    ),
    "linear-rope": (
        dict(kv_heads=1, tied=True, text="An old soldier came marching", seed=2,
             rope=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
        ["BF16"],
    ),
    "relu": (dict(act="relu", kv_heads=2, ffn=128, text="The king had three sons", seed=26), ["Q8_0", "Q4_0"]),
    "drelu": (dict(act="drelu", kv_heads=2, ffn=128, text="There was once a miller", seed=24), ["Q8_0", "Q4_0"]),
    # What a layer of a model whose neurons were always active is made of, when some are off: docs/sparse.md.
    "jump": (dict(act="jump_relu", kv_heads=2, ffn=128, text="A tailor sat at his window", seed=25), ["Q8_0", "Q4_0"]),
    "tied": (dict(tied=True, kv_heads=2, layers=3, text="Far out in the ocean", seed=8), ["Q8_0"]),
    "k-mixed": (
        dict(hidden=256, heads=8, kv_heads=1, head_dim=32, ffn=256, tied=True,
             text="In the middle of a garden", seed=21),
        ["Q4_K_M"],
    ),
    "k-single": (
        dict(hidden=256, heads=8, kv_heads=1, head_dim=32, ffn=256, tied=True, layers=1,
             text="Down by the river there", seed=17),
        ["Q6_K"],
    ),
    # Written by llama.cpp's quantiser, mixtures and substitutes for rows that do not fit as it chooses them.
    "made-5": (
        dict(hidden=256, heads=4, kv_heads=1, head_dim=32, ffn=256, tied=True,
             text="At the edge of the forest", seed=42),
        ["Q5_K_M"],
    ),
    "made-4": (
        dict(hidden=256, heads=4, kv_heads=1, head_dim=32, ffn=256, tied=True, layers=1,
             text="Over the hills and far away", seed=58),
        ["IQ4_XS"],
    ),
    # Every format of grids in each layer.
    "grids": (
        dict(hidden=256, heads=4, kv_heads=2, head_dim=64, ffn=256, tied=True, text="Over the bridge and far away", seed=33),
        ["IQ2_M"],
    ),
    # Every format of one and two bits that has no grid, in each layer.
    "ternary": (
        dict(hidden=256, heads=4, kv_heads=2, head_dim=64, ffn=256, tied=True, text="Under the old oak tree", seed=34),
        ["TQ2_0"],
    ),
    "bamboo": (
        dict(arch="bamboo", act="drelu", kv_heads=2, ffn=128, text="Beside the old stone bridge", seed=49),
        ["Q8_0", "Q4_0"],
    ),
}  # fmt: skip

# A greedy continuation ends before the first step whose best two logits are nearer than this.
MARGIN = 0.15

FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18, "IQ2_M": 29, "IQ4_XS": 30, "BF16": 32, "TQ2_0": 37}
LLAMA_CPP = ("Q5_K_M", "IQ4_XS")  # files that llama.cpp's quantiser writes


def round_to(x, kind):
    """Weights of a file in F16 or BF16 are made so that the file holds them exactly."""
    if kind == "BF16":
        return gguf.dequantize(gguf.quantize(x, T.BF16), T.BF16)
    if kind == "F16":
        return x.astype(np.float16).astype(np.float32)
    return x


def make_weights(c):
    """Random weights by their transformers names. Spreads keep attention peaked and logits at a std of 1 to 5."""
    rng = np.random.RandomState(c["seed"])
    d, f = c["hidden"], c["ffn"]
    q, kv = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    in_std = 1.4 / np.sqrt(d)

    def normal(rows, cols, std):
        return (rng.standard_normal((rows, cols)) * std).astype(np.float32)

    # A direction all token embeddings share: with gates biased against it some neurons are hot and most are cold.
    shared = np.zeros(d)
    if c["act"] != "silu":
        shared = rng.choice([-1.0, 1.0], d)
    head_std = 4.0 / np.sqrt(d)
    embed = normal(N_VOCAB, d, head_std if c["tied"] else 1.0)
    w = {"model.embed_tokens.weight": (embed + shared).astype(np.float32)}
    for i in range(c["layers"]):
        p = f"model.layers.{i}."
        w[p + "input_layernorm.weight"] = rng.uniform(0.6, 1.4, d).astype(np.float32)
        w[p + "self_attn.q_proj.weight"] = normal(q, d, in_std)
        w[p + "self_attn.k_proj.weight"] = normal(kv, d, in_std)
        w[p + "self_attn.v_proj.weight"] = normal(kv, d, in_std)
        w[p + "self_attn.o_proj.weight"] = normal(d, q, 0.6 / np.sqrt(q))
        w[p + "post_attention_layernorm.weight"] = rng.uniform(0.6, 1.4, d).astype(np.float32)
        gate = normal(f, d, in_std)
        up = normal(f, d, in_std)
        if c["act"] != "silu":
            gate += (rng.normal(-1.8, 1.6, (f, 1)) * shared / d).astype(np.float32)
        if c["act"] == "jump_relu":
            w[p + "mlp.gate_proj.bias"] = rng.normal(-0.6, 0.5, f).astype(np.float32)
            w[p + "mlp.linear.weight"] = normal(d, d, 0.4 / np.sqrt(d))
        w[p + "mlp.gate_proj.weight"], w[p + "mlp.up_proj.weight"] = gate, up
        w[p + "mlp.down_proj.weight"] = normal(d, f, 1.0 / np.sqrt(f))
    w["model.norm.weight"] = rng.uniform(0.6, 1.4, d).astype(np.float32)
    if not c["tied"]:
        w["lm_head.weight"] = normal(N_VOCAB, d, head_std)
    return w


def reference(c, weights):
    """A transformers model in float64 holding these float32 weights."""
    config = LlamaConfig(
        vocab_size=N_VOCAB, hidden_size=c["hidden"], intermediate_size=c["ffn"], num_hidden_layers=c["layers"],
        num_attention_heads=c["heads"], num_key_value_heads=c["kv_heads"], head_dim=c["head_dim"],
        rms_norm_eps=c["eps"], tie_word_embeddings=c["tied"], rope_parameters=dict(c["rope"]),
        max_position_embeddings=c["context"], hidden_act="silu" if c["act"] == "silu" else "relu",
        attn_implementation="eager", bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    state = {k: torch.from_numpy(v.copy()) for k, v in weights.items()}
    if c["act"] == "jump_relu":
        for layer in model.model.layers:
            m = layer.mlp
            m.gate_proj.bias = torch.nn.Parameter(torch.zeros(c["ffn"]))
            m.linear = torch.nn.Linear(c["hidden"], c["hidden"], bias=False)
            m.forward = lambda x, m=m: m.down_proj(jump_relu(m.gate_proj(x)) * m.up_proj(x)) + m.linear(x)
    if c["tied"]:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    if c["act"] == "drelu":
        for layer in model.model.layers:
            m = layer.mlp
            m.forward = lambda x, m=m: m.down_proj(torch.relu(m.gate_proj(x)) * torch.relu(m.up_proj(x)))
    return model.double()


def jump_relu(x):
    return torch.where(x > 0, x + 1, torch.zeros_like(x))


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def greedy(model, tokens, n):
    """Continuation ids, and at each step how far the best token is ahead of the second."""
    ids, margins = list(tokens), []
    for _ in range(n):
        row = logits_of(model, ids)[-1]
        best = np.sort(row)[-2:]
        ids.append(int(row.argmax()))
        margins.append(float(best[1] - best[0]))
    return ids[len(tokens) :], margins


# ---- GGUF ----------------------------------------------------------------------------------------------------

GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.linear": "ffn_linear",
}  # fmt: skip


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, index, rest = stem.split(".", 3)
        return f"blk.{index}.{GGUF_NAMES[rest]}.{kind}"
    return f"{GGUF_NAMES[stem]}.{kind}"


def interleave(w, heads):
    """Rows of a head from (all first halves, all second halves), as transformers rotates, to GGUF's adjacent pairs."""
    n, d = w.shape
    return w.reshape(heads, 2, n // heads // 2, d).swapaxes(1, 2).reshape(n, d)


def deinterleave(w, heads):
    n, d = w.shape
    return w.reshape(heads, n // heads // 2, 2, d).swapaxes(1, 2).reshape(n, d)


def tensor_type(kind, name, c):
    if "norm" in name or name.endswith(".bias") or name == "rope_freqs.weight":
        return T.F32
    if kind == "Q4_K_M":  # some tensors get more bits, and layers differ, as in the files people have
        richer = name == "token_embd.weight" or name.startswith("blk.0.") and ("attn_v" in name or "ffn_down" in name)
        return T.Q6_K if richer else T.Q4_K
    if kind == "IQ2_M":
        return next((t for part, t in GRIDS.items() if part in name), T.Q8_0)
    if kind == "TQ2_0":
        return next((t for part, t in TERNARY.items() if part in name), T.Q8_0 if "token" in name else T.TQ2_0)
    return T[kind]


GRIDS = {
    "attn_q": T.IQ2_S, "attn_k": T.IQ1_M, "attn_v": T.IQ3_S, "attn_output": T.IQ3_XXS, "ffn_gate": T.IQ2_XXS,
    "ffn_up": T.IQ2_XS, "ffn_down": T.IQ1_S,
}  # fmt: skip


TERNARY = {"attn_q": T.TQ1_0, "attn_k": T.Q1_0, "attn_v": T.Q2_0, "ffn_gate": T.Q1_0, "ffn_down": T.Q2_0}


def encode(x, qtype):
    if qtype in small_formats.BY_GGML:
        return small_formats.encode(x, qtype)
    if qtype == T.F32:
        return x
    if qtype == T.F16:
        return x.astype(np.float16)
    if qtype in grids.FORMATS:
        return grids.encode(x, qtype)
    if qtype in (T.Q4_K, T.Q6_K):
        return GgmlBase().quantize(x, qtype, *gguf.GGML_QUANT_SIZES[qtype])
    return gguf.quantize(x, qtype)


def decode(data, qtype):
    if qtype in small_formats.BY_GGML:
        return small_formats.decode(data, qtype)
    if qtype in (T.F32, T.F16):
        return data.astype(np.float32)
    return gguf.dequantize(data, qtype)


def llama3_factors(c):
    r, half = c["rope"], c["head_dim"] // 2
    wavelength = 2 * np.pi * r["rope_theta"] ** (np.arange(half) / half)
    old = r["original_max_position_embeddings"]
    long, short = old / r["low_freq_factor"], old / r["high_freq_factor"]
    smooth = (old / wavelength - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"])
    between = 1 / ((1 - smooth) / r["factor"] + smooth)
    return np.where(wavelength < short, 1.0, np.where(wavelength > long, r["factor"], between)).astype(np.float32)


def heads_of(tensor, c):
    """Heads of a tensor whose rows GGUF orders by pairs; 0: rows are in place."""
    return c["heads"] if "attn_q" in tensor else c["kv_heads"] if "attn_k." in tensor else 0


def write_gguf(path, name, kind, c, weights):
    """Writes the file and returns the weights as a reader decodes them."""
    w = gguf.GGUFWriter(path, c["arch"])
    w.add_name(name)
    w.add_file_type(FILE_TYPES[kind])
    w.add_quantization_version(2)
    w.add_vocab_size(N_VOCAB)
    w.add_context_length(c["context"])
    w.add_embedding_length(c["hidden"])
    w.add_block_count(c["layers"])
    w.add_feed_forward_length(c["ffn"])
    w.add_head_count(c["heads"])
    w.add_head_count_kv(c["kv_heads"])
    w.add_layer_norm_rms_eps(c["eps"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_freq_base(c["rope"]["rope_theta"])
    if c["head_dim"] * c["heads"] != c["hidden"]:
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    if c["rope"]["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(c["rope"]["factor"])
    if c["act"] != "silu" and c["arch"] == "llama":
        w.add_string("llama.feed_forward.activation", c["act"])
    v = c["vocab"]()
    w.add_tokenizer_model(v.model)
    if v.pre:
        w.add_tokenizer_pre(v.pre)
    w.add_token_list(v.tokens)
    w.add_token_types(v.types)
    if v.scores:
        w.add_token_scores(v.scores)
    if v.merges:
        w.add_token_merges(v.merges)
    w.add_bos_token_id(v.bos)
    w.add_eos_token_id(v.eos)
    if v.unk is not None:
        w.add_unk_token_id(v.unk)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    decoded = {}
    if c["rope"]["rope_type"] == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(c))
    for hf, x in weights.items():
        to = gguf_name(hf)
        heads = heads_of(to, c)
        x = interleave(x, heads) if heads else x
        qtype = tensor_type(kind, to, c)
        data = np.ascontiguousarray(encode(x, qtype))
        w.add_tensor(to, data, raw_dtype=qtype)
        x = decode(data, qtype).astype(np.float32)
        decoded[hf] = np.ascontiguousarray(deinterleave(x, heads) if heads else x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return decoded


def write_by_llama_cpp(path, name, kind, c, weights):
    """The same, with an F32 file that llama.cpp's quantiser turns into the mixture `kind`."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source.gguf")
        write_gguf(source, name, "F32", c, weights)
        llama_cpp.quantize(source, path, FILE_TYPES[kind])
    file = {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}
    decoded = {}
    for hf, x in weights.items():
        to = gguf_name(hf)
        y, heads = file[to].reshape(x.shape), heads_of(to, c)
        decoded[hf] = np.ascontiguousarray(deinterleave(y, heads) if heads else y)
    return decoded


# ---- one model -----------------------------------------------------------------------------------------------


def ffn_density(model, tokens, act):
    """Share of neurons with a nonzero product, over layers and tokens."""
    shares = []

    def hook(m, args, _):
        g = torch.relu(m.gate_proj(args[0]))
        u = m.up_proj(args[0])
        shares.append(((g > 0) & ((u > 0) if act == "drelu" else (u != 0))).double().mean().item())

    handles = [layer.mlp.register_forward_hook(hook) for layer in model.model.layers]
    logits_of(model, tokens)
    for h in handles:
        h.remove()
    return float(np.mean(shares))


def make(name, out_dir, seed=None):
    """Writes a model's files; returns how many different tokens its shortest greedy continuation has."""
    changes, kinds = MODELS[name]
    c = dict(BASE, **changes)
    c["seed"] = seed or c["seed"]
    variety = []
    tokens = c["vocab"]().encode(c["text"])
    weights = {k: round_to(v, kinds[0]) for k, v in make_weights(c).items()}
    model = reference(c, weights)
    original = logits_of(model, tokens)
    density = f", FFN density {ffn_density(model, tokens, c['act']):.2f}" if c["act"] != "silu" else ""
    print(f"{name}: {len(tokens)} tokens, logits std {original.std():.2f}{density}")
    for kind in kinds:
        stem = os.path.join(out_dir, f"{name}.{kind}")
        write = write_by_llama_cpp if kind in LLAMA_CPP else write_gguf
        decoded = write(stem + ".gguf", f"{name} {kind}", kind, c, weights)
        lossless = all(np.array_equal(decoded[k], weights[k]) for k in weights)
        model = reference(c, decoded)
        dequantised = None if lossless else logits_of(model, tokens)
        write_logits(stem + ".logits", tokens, original, dequantised)
        ids, margins = greedy(model, tokens, 32)
        close = [i for i, m in enumerate(margins) if m < MARGIN]
        n = close[0] if close else len(ids)
        with open(stem + ".greedy", "w", encoding="utf-8") as f:
            f.write(c["text"] + "\n" + " ".join(map(str, tokens)) + "\n")
            f.write(" ".join(map(str, ids[:n])) + "\n" + f"{min(margins[:n], default=0):.4f}\n")
        variety.append(len(set(ids[:n])))
        change = 0 if lossless else np.linalg.norm(dequantised - original) / np.linalg.norm(original)
        print(f"  {kind}: {os.path.getsize(stem + '.gguf')} bytes, quantisation moves logits by {change:.4f}; "
              f"greedy {n} tokens, {len(set(ids[:n]))} different")  # fmt: skip
    return min(variety)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument("--out", default=os.path.join(here, "..", "..", "tests", "golden", "models"))
    p.add_argument("names", nargs="*", default=list(MODELS))
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    torch.set_num_threads(1)
    for name in a.names or MODELS:
        make(name, a.out)


if __name__ == "__main__":
    main()
