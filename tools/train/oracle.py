# SPDX-License-Identifier: MIT
# What a GGUF written by export_gguf.py should compute: reads the file back, dequantises every tensor to F32, and runs
# it in PyTorch. Writes reference logits for engines to compare with, and measures held-out loss and density.
import argparse
import json
import math
import os

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import data
import gguf_model


def arguments():
    p = argparse.ArgumentParser(description="Reference logits and held-out loss of an exported GGUF.")
    p.add_argument("gguf")
    p.add_argument("--npz", help="write token ids and logits of two short prompts there")
    p.add_argument("--json", help="write tokenised sentences, logits, a greedy continuation there, for check_llama_cpp.mjs")
    p.add_argument("--data", help="train.py's data folder: measure held-out loss and density")
    p.add_argument("--prompt", help="continue this greedily and print ids and text")
    p.add_argument("-n", type=int, default=48, help="tokens to continue with")
    return p.parse_args()


def load(path):
    """(model, tokenizer) from the file alone."""
    model, reader = gguf_model.load(path)
    tokens = gguf_model.value_of(reader, "tokenizer.ggml.tokens")
    vocab = {text: i for i, text in enumerate(tokens)}
    merges = [tuple(m.split(" ")) for m in gguf_model.value_of(reader, "tokenizer.ggml.merges")]
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    return model, tok, gguf_model.value_of(reader, "tokenizer.ggml.bos_token_id")


PROMPTS = ("The old man looked at the fire and said", '"My dear Watson," said Holmes, "it was a dark night')


@torch.no_grad()
def write_npz(path, name, model, tok, bos):
    out = {"gguf": np.array(name)}
    for i, prompt in enumerate(PROMPTS):
        ids = [bos, *tok.encode(prompt, add_special_tokens=False).ids]
        out[f"text{i}"], out[f"ids{i}"] = np.array(prompt), np.array(ids, np.int32)
        out[f"logits{i}"] = model(torch.tensor([ids]))[0].float().numpy()
    np.savez(path, **out)


SENTENCES = (
    "It was the best of times, it was the worst of times.",
    "  Two spaces,\ttab, and\n\nparagraphs\n with  odd   spacing ",
    "Don't you think they'll say we've 1,234 pounds & 56 pence?!",
    "na\u00efve caf\u00e9 \u2014 \u00a35 \u201cquoted\u201d \u4e2d\u6587 \U0001f600",
    "She said: `x += y[3];` (twice)...",
)


@torch.no_grad()
def write_json(path, folder, model, tok, bos):
    """The same facts for a program that has no NumPy; 16 held-out windows when folder is given."""
    ids = [bos, *tok.encode(PROMPTS[0], add_special_tokens=False).ids]
    out = {
        "sentences": [{"text": s, "ids": tok.encode(s, add_special_tokens=False).ids} for s in SENTENCES],
        "prompt": ids, "logits": model(torch.tensor([ids]))[0].tolist(),
        "greedy": continue_greedily(model, ids, 32)[len(ids):],
    }
    if folder:
        rows = torch.from_numpy(data.val_rows(folder, model.cfg.context))[:16]
        logits = model(rows[:, :-1])
        out["rows"] = rows.tolist()
        out["loss"] = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()
    with open(path, "w") as f:
        json.dump(out, f)


@torch.no_grad()
def measure(folder, model):
    """Held-out loss, and what share of each layer's neurons gives 80 % of its activations (hot ones exist or not)."""
    with open(os.path.join(folder, "data.json")) as f:
        meta = json.load(f)
    rows = torch.from_numpy(data.val_rows(folder, model.cfg.context))
    total, counts, tokens = 0.0, torch.zeros(model.cfg.layers, model.cfg.ffn), 0
    for part in rows.split(8):
        x, acts, _ = model.hidden_states(part[:, :-1])
        logits = torch.nn.functional.linear(x, model.token_embd.weight)
        total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
        counts += torch.stack([(h != 0).flatten(0, 1).sum(0).float() for h in acts])
        tokens += part[:, 1:].numel()
    loss = total / tokens
    frequency = counts / tokens
    share = []
    for c in counts.sort(-1, descending=True).values:
        share.append(int((c.cumsum(0) < 0.8 * c.sum()).sum() + 1) / model.cfg.ffn)
    return {
        "tokens": tokens, "loss_per_token": loss, "perplexity_per_token": math.exp(loss),
        "bits_per_byte": loss * tokens / meta["val_bytes"] / math.log(2),
        "perplexity_per_byte": math.exp(loss * tokens / meta["val_bytes"]),
        "density_per_layer": frequency.mean(-1).tolist(),
        "never_active_per_layer": (frequency == 0).float().mean(-1).tolist(),
        "share_of_neurons_giving_80_percent": share,
    }


@torch.no_grad()
def continue_greedily(model, ids, n):
    ids = list(ids)
    for _ in range(n):
        ids.append(int(model(torch.tensor([ids[-model.cfg.context:]]))[0, -1].argmax()))
    return ids


def main():
    args = arguments()
    model, tok, bos = load(args.gguf)
    if args.npz:
        write_npz(args.npz, os.path.basename(args.gguf), model, tok, bos)
    if args.json:
        write_json(args.json, args.data, model, tok, bos)
    if args.data:
        print(json.dumps(measure(args.data, model), indent=1))
    if args.prompt is not None:
        ids = continue_greedily(model, [bos, *tok.encode(args.prompt, add_special_tokens=False).ids], args.n)
        print(json.dumps({"ids": ids, "text": tok.decode(ids[1:])}))


if __name__ == "__main__":
    main()
