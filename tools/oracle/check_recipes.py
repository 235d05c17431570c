# SPDX-License-Identifier: MIT
# Holds `hearth quantize` in its mixed recipes against llama.cpp's quantiser: the same type for every tensor, and the same
# general.file_type, for models of many shapes (zeros, a few rows a matrix) and for files that are given.
#
#   LLAMA_LIBS=DIR python check_recipes.py HEARTH [MODEL.gguf ...]

import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np

import llama_cpp

FILE_TYPES = {
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q2_K": 10,
    "Q3_K_S": 11,
    "Q3_K_M": 12,
    "Q3_K_L": 13,
    "Q4_K_S": 14,
    "Q4_K_M": 15,
    "Q5_K_S": 16,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "IQ4_NL": 25,
    "TQ1_0": 36,
    "TQ2_0": 37,
    "Q1_0": 40,
    "Q2_0": 41,
}
ROWS = 4

# name: architecture, layers, width, feed-forward width, heads, KV heads, experts, an own head, order of layers
SHAPES = {
    f"llama-{n}": ("llama", n, 256, 512, 4, 2, 0, True, 1) for n in (1, 2, 7, 8, 9, 16, 22, 24, 31, 32, 33, 40, 48, 80)
} | {
    "llama-80-mha": ("llama", 80, 256, 512, 4, 4, 0, True, 1),
    "qwen2-80": ("qwen2", 80, 256, 512, 4, 2, 0, True, 1),
    "qwen3-80": ("qwen3", 80, 256, 512, 4, 2, 0, True, 1),
    "tied": ("llama", 32, 256, 512, 4, 2, 0, False, 1),
    "backwards": ("llama", 32, 256, 512, 4, 2, 0, True, -1),
    "width-288": ("llama", 32, 288, 512, 4, 2, 0, True, 1),
    "width-288-tied": ("llama", 16, 288, 512, 4, 2, 0, False, 1),
    "width-200": ("llama", 16, 200, 512, 4, 2, 0, True, 1),
    "ffn-96": ("llama", 32, 256, 96, 4, 2, 0, True, 1),
    "ffn-100": ("llama", 32, 256, 100, 4, 2, 0, True, 1),
    "mixtral-8": ("llama", 32, 256, 512, 4, 2, 8, True, 1),
    "mixtral-4": ("llama", 32, 256, 512, 4, 2, 4, True, 1),
    "mixtral-8-288": ("llama", 8, 288, 96, 4, 2, 8, True, 1),
    "falcon-32": ("falcon", 32, 256, 512, 4, 1, 0, True, 1),
    "falcon-60": ("falcon", 60, 256, 512, 4, 1, 0, False, 1),
    "falcon-7": ("falcon", 7, 288, 512, 4, 1, 0, True, 1),
    "qwen2-28": ("qwen2", 28, 256, 512, 4, 2, 0, False, 1),
    "qwen3-36": ("qwen3", 36, 256, 512, 4, 2, 0, True, 1),
    "qwen3moe-48": ("qwen3moe", 48, 256, 512, 4, 2, 128, True, 1),
    "qwen3moe-8": ("qwen3moe", 24, 256, 512, 4, 2, 8, True, 1),
    "split-experts": ("llama", 32, 256, 512, 4, 2, 8, True, 1),
}  # fmt: skip


def layer_tensors(name, arch, width, ffn, experts):
    """{name: shape as numpy has it} of a layer; rows are few, as only the type matters."""
    t = {"attn_norm.weight": (width,), "attn_output.weight": (ROWS, width)}
    if arch == "falcon":
        t["attn_qkv.weight"] = (ROWS, width)
    else:
        t |= {f"attn_{p}.weight": (ROWS, width) for p in "qkv"}
    if arch.startswith("qwen3"):
        t |= {"attn_q_norm.weight": (64,), "attn_k_norm.weight": (64,)}
    if name == "split-experts":
        t["ffn_gate_inp.weight"] = (experts, width)
        for e in range(experts):
            t |= {f"ffn_{p}.{e}.weight": (ROWS, ffn if p == "down" else width) for p in ("gate", "up", "down")}
    elif experts:
        t["ffn_gate_inp.weight"] = (experts, width)
        t |= {f"ffn_{p}_exps.weight": (experts, ROWS, ffn if p == "down" else width) for p in ("gate", "up", "down")}
    else:
        t |= {f"ffn_{p}.weight": (ROWS, ffn if p == "down" else width) for p in ("gate", "up", "down")}
        if arch == "falcon":
            del t["ffn_gate.weight"]
    return t


def write_model(path, name):
    arch, layers, width, ffn, heads, kv_heads, experts, own_head, order = SHAPES[name]
    w = gguf.GGUFWriter(path, arch)
    w.add_context_length(64)
    w.add_embedding_length(width)
    w.add_block_count(layers)
    w.add_feed_forward_length(ffn)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_layer_norm_eps(1e-5)
    w.add_vocab_size(ROWS)
    if experts:
        w.add_expert_count(experts)
        w.add_expert_used_count(2)
        w.add_expert_feed_forward_length(ffn)
    w.add_tensor("token_embd.weight", np.zeros((ROWS, width), np.float32))
    for i in range(layers)[::order]:
        for tensor, shape in layer_tensors(name, arch, width, ffn, experts).items():
            w.add_tensor(f"blk.{i}.{tensor}", np.zeros(shape, np.float32))
    w.add_tensor("output_norm.weight", np.zeros(width, np.float32))
    if own_head:
        w.add_tensor("output.weight", np.zeros((ROWS, width), np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def types(path):
    r = gguf.GGUFReader(path)
    number = r.get_field("general.file_type")
    return int(number.parts[-1][0]), {t.name: t.tensor_type.name for t in r.tensors}


def check(hearth, path, label, folder):
    bad = 0
    for recipe, number in FILE_TYPES.items():
        ours, theirs = os.path.join(folder, "ours.gguf"), os.path.join(folder, "theirs.gguf")
        llama_cpp.quantize(path, theirs, number, requantize=True)
        subprocess.run([hearth, "quantize", path, ours, recipe], check=True, capture_output=True)
        (our_number, a), (their_number, b) = types(ours), types(theirs)
        different = [f"{k}: {a.get(k)}, llama.cpp {b.get(k)}" for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
        if our_number != their_number:
            different.append(f"general.file_type {our_number}, llama.cpp {their_number}")
        kinds = {kind: list(a.values()).count(kind) for kind in sorted(set(a.values()))}
        print(f"{label} {recipe}: {'DIFFERS' if different else 'same'} {kinds}", *different, sep="\n  ")
        bad += bool(different)
    return bad


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: check_recipes.py HEARTH [MODEL.gguf ...]")
    hearth, files = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source.gguf")
        bad = 0
        for name in SHAPES if not files else ():
            write_model(source, name)
            bad += check(hearth, source, name, folder)
        for path in files:
            bad += check(hearth, path, os.path.basename(path), folder)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
