# SPDX-License-Identifier: MIT
# Makes LoRA adapters for golden models, in the layout of llama.cpp, with logits of transformers in float64: A and B beside
# the linear layers and the embedding, merged into the matrices of experts. Formats: tests/golden/README.md.
#
#   python make_adapters.py [--out DIR]

import argparse
import os

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T

import make_archs as ma
import make_models as mm
from oracle_common import SpmVocab, write_logits

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "..", "tests", "golden")

# file: (golden model, seed, rank, alpha or None, what is changed, scale)
ADAPTERS = {
    "qwen3-all": ("qwen3", 1, 4, 8.0, ("token_embd", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"), 0.75),
    "qwen3-some": ("qwen3", 2, 3, None, ("attn_q", "attn_v", "ffn_down"), 0.5),
    "qwen3moe": ("qwen3moe", 3, 4, 16.0, ("attn_q", "attn_output", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "output"), 0.5),
}  # fmt: skip
# golden: the adapters that it has
GOLDENS = {"qwen3": ("qwen3-all", "qwen3-some"), "qwen3moe": ("qwen3moe",)}

NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate",
}  # fmt: skip


def read(name):
    """Shapes as numpy has them, and the weights as decoded from the file."""
    reader = gguf.GGUFReader(os.path.join(GOLDEN, "models", f"{name}.Q8_0.gguf"))
    return {
        t.name: np.ascontiguousarray(gguf.dequantize(t.data, t.tensor_type).astype(np.float32)).reshape([int(n) for n in reversed(t.shape)])
        for t in reader.tensors
    }


def pairs_of(adapter, tensors):
    """{tensor: (A, B)} with numbers that F16 holds."""
    _, seed, rank, _, parts, _ = ADAPTERS[adapter]
    rng = np.random.RandomState(seed)
    out = {}
    for name, w in tensors.items():
        if name.split(".")[-2] not in parts or not name.endswith(".weight"):
            continue
        experts, (n, k) = w.shape[:-2], w.shape[-2:]
        a_shape, b_shape = ((n, rank), (k, rank)) if name == "token_embd.weight" else ((rank, k), (n, rank))
        a = rng.standard_normal(experts + a_shape) / np.sqrt(k if name != "token_embd.weight" else 1)
        b = rng.standard_normal(experts + b_shape) * 0.25
        out[name] = tuple(x.astype(np.float16).astype(np.float32) for x in (a, b))
    return out


def write(adapter, pairs, out):
    name, _, _, alpha, _, _ = ADAPTERS[adapter]
    w = gguf.GGUFWriter(os.path.join(out, adapter + ".gguf"), ma.MODELS[name][0])
    w.add_type(gguf.GGUFType.ADAPTER)
    w.add_string(gguf.Keys.Adapter.TYPE, "lora")
    if alpha is not None:
        w.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    for tensor, (a, b) in pairs.items():
        w.add_tensor(tensor + ".lora_a", a.astype(np.float16), raw_dtype=T.F16)
        w.add_tensor(tensor + ".lora_b", b, raw_dtype=T.F32)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class Beside(torch.nn.Module):
    """A linear layer, or an embedding, with A and B beside it."""

    def __init__(self, inner, a, b, scale):
        super().__init__()
        self.inner, self.scale = inner, scale
        self.a, self.b = torch.from_numpy(a).double(), torch.from_numpy(b).double()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x):
        low = self.a[x] if not torch.is_floating_point(x) else x @ self.a.T
        return self.inner(x) + self.scale * (low @ self.b.T)


def change(model, tensor, a, b, scale):
    if tensor in ("token_embd.weight", "output.weight"):
        where, part = (model.model, "embed_tokens") if tensor.startswith("token") else (model, "lm_head")
        setattr(where, part, Beside(getattr(where, part), a, b, scale))
        return
    _, layer, part, _ = tensor.split(".")
    layer = model.model.layers[int(layer)]
    if part.endswith("_exps"):
        delta = scale * torch.from_numpy(b).double() @ torch.from_numpy(a).double()
        experts = layer.mlp.experts
        half = experts.gate_up_proj.shape[1] // 2
        if part == "ffn_down_exps":
            experts.down_proj.data += delta
        else:
            experts.gate_up_proj.data[:, slice(0, half) if part == "ffn_gate_exps" else slice(half, None)] += delta
        return
    if part == "ffn_gate_inp":  # no linear layer: merged, too
        layer.mlp.gate.weight.data += scale * torch.from_numpy(b).double() @ torch.from_numpy(a).double()
        return
    *path, last = NAMES[part].split(".")
    where = layer
    for p in path:
        where = getattr(where, p)
    setattr(where, last, Beside(getattr(where, last), a, b, scale))


@torch.no_grad()
def make(name, out):
    arch, model_class, settings, _ = ma.MODELS[name]
    tensors = read(name)
    model = model_class(model_class.config_class(**settings)).eval()
    if model.config.tie_word_embeddings:
        model.tie_weights()
    model = ma.with_weights(model, arch, tensors).double()
    ids = SpmVocab().encode(ma.SHORT_TEXT)
    plain = mm.logits_of(model, ids)
    for adapter in GOLDENS[name]:
        _, _, rank, alpha, _, scale = ADAPTERS[adapter]
        pairs = pairs_of(adapter, tensors)
        write(adapter, pairs, out)
        for tensor, (a, b) in pairs.items():
            change(model, tensor, a, b, scale * alpha / rank if alpha is not None else scale)
    logits = mm.logits_of(model, ids)
    write_logits(os.path.join(out, name + ".logits"), ids, logits)
    print(f"{name}: {len(ids)} tokens, changed by {np.linalg.norm(logits - plain) / np.linalg.norm(plain):.2f}")


def main():
    p = argparse.ArgumentParser(description="Make adapters for golden models.")
    p.add_argument("--out", default=os.path.join(GOLDEN, "adapters"))
    args = p.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    for name in GOLDENS:
        make(name, args.out)


if __name__ == "__main__":
    main()
