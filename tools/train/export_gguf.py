# SPDX-License-Identifier: MIT
# Write the last checkpoint of train.py as a GGUF file: Q8_0 matrices, F32 norms, the tokenizer inside.
import argparse
import json
import os

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, TokenType

import data
from model import Config


def arguments():
    p = argparse.ArgumentParser(description="Export train.py's last checkpoint as GGUF.")
    p.add_argument("--out", required=True, help="train.py's working folder")
    p.add_argument("--activation", required=True, help="which of its models")
    p.add_argument("--gguf", required=True, help="file to write")
    p.add_argument("--type", choices=("Q8_0", "F16", "F32"), default="Q8_0", help="type of the 2-D tensors")
    p.add_argument("--name", default="", help="general.name")
    return p.parse_args()


def add_header(w, cfg, name, file_type):
    w.add_type("model")
    w.add_name(name)
    w.add_license("mit")
    w.add_languages(["en"])
    w.add_description("Tiny language model of public-domain English novels, for tests and demonstrations")
    w.add_file_type(file_type)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_context_length(cfg.context)
    w.add_embedding_length(cfg.hidden)
    w.add_block_count(cfg.layers)
    w.add_feed_forward_length(cfg.ffn)
    w.add_head_count(cfg.heads)
    w.add_head_count_kv(cfg.kv_heads)
    w.add_layer_norm_rms_eps(cfg.rms_eps)
    w.add_rope_dimension_count(cfg.head_dim)
    w.add_rope_freq_base(cfg.rope_base)
    w.add_vocab_size(cfg.vocab)
    w.add_string("llama.feed_forward.activation", cfg.activation)


def add_tokenizer(w, path, cfg):
    """The vocabulary in GPT-2's byte alphabet; the one special token begins and ends every text."""
    with open(path, encoding="utf-8") as f:
        model = json.load(f)["model"]
    tokens = [None] * cfg.vocab
    for text, i in model["vocab"].items():
        tokens[i] = text
    if None in tokens:
        raise SystemExit(f"{path}: the vocabulary has holes")
    end = tokens.index(data.END)
    kinds = [TokenType.CONTROL if i == end else TokenType.NORMAL for i in range(cfg.vocab)]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges(merges)
    w.add_bos_token_id(end)
    w.add_eos_token_id(end)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)


def add_tensor(w, name, value, kind):
    value = np.ascontiguousarray(value.float().numpy())
    if value.ndim == 1 or kind == GGMLQuantizationType.F32:
        w.add_tensor(name, value)
    else:
        w.add_tensor(name, gguf.quants.quantize(value, kind), raw_dtype=kind)


def main():
    args = arguments()
    ck = torch.load(os.path.join(args.out, f"{args.activation}.pt"), map_location="cpu", weights_only=True)
    cfg = Config(**ck["config"])
    kind = GGMLQuantizationType[args.type]
    file_type = {"Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "F16": gguf.LlamaFileType.MOSTLY_F16,
                 "F32": gguf.LlamaFileType.ALL_F32}[args.type]
    w = gguf.GGUFWriter(args.gguf + ".tmp", "llama")
    name = args.name or f"Hearth Novels {'SwiGLU' if cfg.activation == 'silu' else 'dReLU'}"
    add_header(w, cfg, name, file_type)
    add_tokenizer(w, os.path.join(args.out, "data", "tokenizer.json"), cfg)
    # The module tree is named after GGUF's tensors, so the state's names are the file's names.
    for tensor, value in ck["model"].items():
        add_tensor(w, tensor, value, kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.replace(args.gguf + ".tmp", args.gguf)
    state = "finished" if ck["done"] else "unfinished"
    print(f"{args.gguf}: {os.path.getsize(args.gguf)} bytes, step {ck['step']}, training {state}")


if __name__ == "__main__":
    main()
