# SPDX-License-Identifier: MIT
# Text that a chat model writes itself, thousands of texts at a time: what converse.py asks of a server, for a GPU. Half
# of them are conversations, of which the model writes both sides; the others begin with nothing, or with one word. What
# it writes are windows of token ids for distill.py --texts. See README.md.
import argparse
import math
import os
import re
import time

import numpy as np
import torch
import torch.nn.functional as F

import gguf_model
from converse import ASSISTANT, BEGIN, END, START, USER
from distill import tokens_of
from model import rotate

WORD = re.compile("Ġ?[A-Z][a-z]+")  # a token that a text may begin with


def arguments():
    p = argparse.ArgumentParser(description="Lets a chat model (ChatML, a GGUF of architecture llama) write text.")
    p.add_argument("--model", required=True, help="a GGUF")
    p.add_argument("--hearth", default="build/hearth", help="the program, whose tokenizer is used")
    p.add_argument("--out", required=True, help="file of token ids, .npy: a window in each row")
    p.add_argument("--seconds", type=float, default=60, help="to write for (default 60)")
    p.add_argument("--parallel", type=int, default=4096, help="texts at a time (default 4096)")
    p.add_argument("--context", type=int, default=512, help="tokens of each (default 512)")
    p.add_argument("--free", type=float, default=0.5, help="share of texts that are no conversation (default 0.5)")
    p.add_argument("--least", type=float, default=2e-4, help="tokens less probable are not drawn (default 0.0002)")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


class Writer:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        model, reader = gguf_model.load(args.model, args.context)
        self.model = model.to(args.device, torch.bfloat16)
        self.model.cos, self.model.sin = model.cos.float(), model.sin.float()
        words = reader.fields["tokenizer.ggml.tokens"].contents()
        self.words = self.ids([i for i, word in enumerate(words) if WORD.fullmatch(word)])
        turns = [tokens_of(args, END.removeprefix("<|im_end|>") + role).tolist() for role in (USER, ASSISTANT)]
        self.lengths = self.ids([*map(len, turns), 0])  # of what begins a turn of each kind
        self.turns = self.ids([turn + [0] * (max(map(len, turns)) - len(turn)) for turn in (*turns, [])])
        self.opening, self.begin = self.ids(tokens_of(args, START + USER)), tokens_of(args, BEGIN)[0].item()
        self.end = tokens_of(args, "<|im_end|>")[0].item()

    def ids(self, x):
        return torch.as_tensor(np.asarray(x, np.int64), device=self.args.device)

    def openings(self):
        """What the texts begin with [parallel, n], -1 where the model goes on, and of which kind they are: 0 the user's
        turn (1 is the assistant's), 2 a free text."""
        n = self.args.parallel
        free = round(n * self.args.free)
        out = torch.full((n, len(self.opening)), -1, device=self.args.device)
        out[free:] = self.opening
        out[:free, 0] = self.begin
        worded = 3 * free // 4
        out[:worded, 1] = self.words[torch.randint(len(self.words), (worded,), device=self.args.device)]
        return out, torch.where(torch.arange(n, device=self.args.device) < free, 2, 0)

    def logits(self, ids, t, cache):
        """Of what follows tokens [n] at position t. The queries of a group stand where positions do: all of them look
        at the same keys."""
        m, c, n = self.model, self.model.cfg, len(ids)
        cos, sin = m.cos[t:t + 1], m.sin[t:t + 1]
        x = m.token_embd(ids).float()
        for layer, (keys, values) in zip(m.blk, cache):
            h = layer.attn_norm(x).bfloat16()
            q = rotate(layer.attn_q(h).view(n, 1, c.heads, c.head_dim), cos, sin)
            keys[:, :, t] = rotate(layer.attn_k(h).view(n, 1, c.kv_heads, c.head_dim), cos, sin)[:, 0]
            values[:, :, t] = layer.attn_v(h).view(n, c.kv_heads, c.head_dim)
            y = F.scaled_dot_product_attention(q.view(n, c.kv_heads, -1, c.head_dim), keys[:, :, :t + 1],
                                               values[:, :, :t + 1])
            x = x + layer.attn_output(y.reshape(n, c.hidden))
            h = layer.ffn_norm(x).bfloat16()
            x = x + layer.ffn_down(F.silu(layer.ffn_gate(h)) * layer.ffn_up(h))
        return F.linear(m.output_norm(x).bfloat16(), m.token_embd.weight).float()

    def drawn(self, logits):
        """A token of each row, from the probabilities without the least ones."""
        floor = logits.logsumexp(-1, keepdim=True) + math.log(self.args.least)
        floor = torch.minimum(floor, logits.amax(-1, keepdim=True))
        noise = torch.empty_like(logits).exponential_().log_()
        return torch.where(logits < floor, -torch.inf, logits - noise).argmax(-1)

    @torch.no_grad()
    def write(self, cache):
        """Windows [parallel, context]."""
        begin, kind = self.openings()
        begin = F.pad(begin, (0, self.args.context - begin.shape[1]), value=-1)
        out, left = begin.clone(), torch.zeros_like(kind)
        for t in range(self.args.context - 1):
            token = self.drawn(self.logits(out[:, t], t, cache))
            at = (self.lengths[kind] - left).clamp_max(self.turns.shape[1] - 1)
            token = torch.where(left > 0, self.turns[kind, at], token)
            given = begin[:, t + 1] >= 0
            ended = ~given & (left == 0) & ((token == self.end) | (token == self.begin))
            token = torch.where(ended, torch.where(kind == 2, self.begin, self.end), token)
            out[:, t + 1] = torch.where(given, begin[:, t + 1], token)
            kind = torch.where(ended & (kind < 2), 1 - kind, kind)
            left = torch.where(ended, self.lengths[kind], (left - 1).clamp_min(0))
        return out


def main():
    args = arguments()
    writer = Writer(args)
    c = writer.model.cfg
    shape = (args.parallel, c.kv_heads, args.context, c.head_dim)
    cache = [[torch.empty(shape, dtype=torch.bfloat16, device=args.device) for _ in range(2)] for _ in range(c.layers)]
    start, windows, last = time.perf_counter(), [], 0.0
    while not windows or time.perf_counter() - start + last < args.seconds:
        since = time.perf_counter()
        windows.append(writer.write(cache).cpu().numpy().astype(np.uint16))
        last = time.perf_counter() - since
        print(f"{sum(w.size for w in windows)} tokens, {windows[-1].size / last:.0f} a second", flush=True)
    np.save(args.out + ".tmp.npy", np.concatenate(windows))
    os.replace(args.out + ".tmp.npy", args.out)


if __name__ == "__main__":
    main()
