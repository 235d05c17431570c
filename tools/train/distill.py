# SPDX-License-Identifier: MIT
# Makes a dense chat model sparse: a copy of it whose neurons are mostly off learns its probabilities and its streams.
# Kill it whenever you like and run the same command again. See README.md.
import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

import gguf_model
import jump

HELD_OUT = 8  # windows of held-out text
MEASURED = 24  # windows that the first thresholds come from: the last ones, which are trained on last


def arguments():
    p = argparse.ArgumentParser(description="Distils a dense GGUF of architecture llama into a sparse copy; resumes.")
    p.add_argument("--model", required=True, help="the original, a GGUF")
    p.add_argument("--texts", action="append", default=[], help="text files; .jsonl: a text in JSON on each line")
    p.add_argument("--held-out", action="append", default=[], help="text files of which perplexity is told")
    p.add_argument("--hearth", default="build/hearth", help="the program, whose tokenizer is used")
    p.add_argument("--out", required=True, help="working folder: tokens and checkpoints")
    p.add_argument("--gguf", help="write the last checkpoint there, F16, and end")
    p.add_argument("--name", help="of the model, in that file (default: the original's)")
    p.add_argument("--density", type=float, default=0.15, help="share of active neurons at the end (default 0.15)")
    p.add_argument("--first-density", type=float, default=0.3, help="and at first (default 0.3)")
    p.add_argument("--rounded", action="store_true", help="train what four and five bits will hold of the matrices, the "
                   "embedding's too (README.md has the formats)")
    p.add_argument("--minutes", type=float, default=60, help="to train for, over all runs; 0: not at all (default 60)")
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--rows", type=int, default=8, help="windows a step (default 8)")
    p.add_argument("--lr", type=float, default=2e-4)
    p.add_argument("--positions", type=float, default=0.25, help="share of positions whose logits count (default 0.25)")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--save-every", type=int, default=20, metavar="STEPS")
    p.add_argument("--seed", type=int, default=5)
    return p.parse_args()


def tokens_of(args, path):
    """Token ids of a file's texts, one after the other."""
    with open(path, encoding="utf-8") as f:
        text = "".join(json.loads(line) for line in f) if path.endswith(".jsonl") else f.read()
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        out = subprocess.run([args.hearth, "tokenize", args.model, "-f", f.name, "--ids", "-q"], check=True,
                             stdout=subprocess.PIPE).stdout
    return np.array(json.loads(out), np.int64)


def prepare(args):
    """Windows of training text [n, context], kept in the working folder."""
    path = os.path.join(args.out, "tokens.npy")
    if not os.path.exists(path):
        if not args.texts:
            raise SystemExit(f"{path} is not there yet: give --texts")
        ids = np.concatenate([tokens_of(args, text) for text in args.texts])
        np.save(path, ids[: len(ids) // args.context * args.context])
    return np.load(path).reshape(-1, args.context)


class Distiller:
    def __init__(self, args, windows):
        torch.manual_seed(args.seed)
        self.args, self.windows = args, windows
        self.path = os.path.join(args.out, "student.pt")
        teacher, self.reader = gguf_model.load(args.model, args.context)
        self.teacher = teacher.to(args.device).requires_grad_(False)
        self.head = self.teacher.token_embd.weight.to(torch.bfloat16)
        self.order = np.random.default_rng(args.seed).permutation(len(windows))
        self.student = jump.Student(gguf_model.load(args.model, args.context)[0]).to(args.device)
        self.student.model.token_embd.weight.requires_grad_(args.rounded)  # else as the original's
        self.step, self.seconds, self.log = 0, 0.0, []
        if not os.path.exists(self.path):
            print("measuring which neurons matter", flush=True)
            self.shares = self.student.begin(self.batch(-MEASURED, MEASURED), args.first_density)
        self.params = [p for p in self.student.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(self.params, lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        if os.path.exists(self.path):
            self.load()

    def load(self):
        ck = torch.load(self.path, map_location=self.args.device, weights_only=True)
        if ck["windows"] != len(self.windows):
            raise SystemExit(f"{self.path} was made with other text; use another --out")
        self.student.load_state_dict(ck["student"])
        if ck["rounded"] == self.args.rounded:
            self.optimiser.load_state_dict(ck["optimiser"])
        elif not self.args.gguf:  # which trains nothing
            print("--rounded is new: what the optimiser knew of earlier steps is dropped", flush=True)
        self.shares, self.step, self.seconds, self.log = ck["shares"], ck["step"], ck["seconds"], ck["log"]
        print(f"resumed {self.path} at step {self.step}", flush=True)

    def save(self):
        torch.save({
            "windows": len(self.windows), "rounded": self.args.rounded, "student": self.student.state_dict(), "optimiser": self.optimiser.state_dict(),
            "shares": self.shares, "step": self.step, "seconds": self.seconds, "log": self.log,
        }, self.path + ".tmp")
        os.replace(self.path + ".tmp", self.path)

    def done(self):
        return min(1.0, self.seconds / (60 * self.args.minutes)) if self.args.minutes else 1.0

    def batch(self, first, n):
        at = [self.order[(first + i) % len(self.order)] for i in range(n)]
        return torch.from_numpy(self.windows[at]).to(self.args.device)

    def autocast(self):
        return torch.autocast(self.args.device.split(":")[0], torch.bfloat16)

    def logits(self, x, head):
        return F.log_softmax(F.linear(x.to(torch.bfloat16), head.to(torch.bfloat16)).float(), -1)

    def as_written(self):
        return self.student.rounded() if self.args.rounded else contextlib.nullcontext()

    def losses(self, ids):
        """Divergence from the original's probabilities, distance of the streams, gates per layer."""
        with self.autocast():
            with torch.no_grad():
                x, _, streams = self.teacher.hidden_states(ids)
            y, gates, own = self.student.model.hidden_states(ids)
        pick = torch.rand(ids.numel(), device=ids.device) < self.args.positions
        with torch.no_grad():
            target = self.logits(x.flatten(0, 1)[pick], self.head)
        own_logits = self.logits(y.flatten(0, 1)[pick], self.student.model.token_embd.weight)
        kl = F.kl_div(own_logits, target, reduction="sum", log_target=True) / pick.sum()
        far = sum(((s - t).square().mean(-1) / (t.square().mean(-1) + 1e-6)).mean() for s, t in zip(own, streams))
        return kl, far / len(own), gates

    def train_step(self):
        a, start, done = self.args, time.perf_counter(), self.done()
        with self.as_written():
            kl, far, gates = self.losses(self.batch(self.step * a.rows, a.rows))
            (kl + far).backward()
        for group in self.optimiser.param_groups:
            group["lr"] = a.lr * min(1.0, (self.step + 1) / 10) * min(1.0, 2 * (1 - done))
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        wanted = a.first_density * (a.density / a.first_density) ** min(1.0, done / 0.55)
        density = self.student.move_thresholds(gates, wanted * self.shares)
        self.step += 1
        self.seconds += time.perf_counter() - start
        return kl.item(), far.item(), density

    @torch.no_grad()
    def perplexity(self, windows):
        """Of the second halves of windows of held-out text, and the density per layer."""
        loss, density, half = 0.0, [], windows.shape[1] // 2
        for ids in windows.split(4):
            with self.as_written(), self.autocast():
                x, gates, _ = self.student.model.hidden_states(ids)
                logits = self.logits(x[:, half - 1:-1].flatten(0, 1), self.student.model.token_embd.weight)
            loss += F.nll_loss(logits, ids[:, half:].flatten(), reduction="sum").item()
            density.append(torch.stack([(g > 0).float().mean() for g in gates]))
        return math.exp(loss / (len(windows) * (windows.shape[1] - half))), torch.stack(density).mean(0)

    def report(self, held_out):
        self.save()
        for name, windows in held_out.items():
            perplexity, density = self.perplexity(windows)
            self.log.append((self.step, self.seconds, name, perplexity, density.tolist()))
            print(f"         {name}: perplexity {perplexity:.2f}, active {density.mean():.3f}", flush=True)

    def run(self, held_out):
        stop = []
        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, lambda *_: stop.append(True))
        self.report(held_out)
        while self.done() < 1 and not stop:
            kl, far, density = self.train_step()
            if not math.isfinite(kl):
                raise SystemExit(f"the loss is {kl} at step {self.step}: lower --lr")
            if self.step % 5 == 0:
                rate = self.step * self.args.rows * self.args.context / self.seconds
                print(f"step {self.step}, {self.done():.0%}  divergence {kl:.3f}  distance {far:.3f}  active {density:.3f}"
                      f"  {rate:.0f} tok/s", flush=True)
            if self.step % self.args.save_every == 0:
                self.report(held_out)
        self.report(held_out)
        print("stopped: the same command goes on" if stop else "done", flush=True)


def main():
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    distiller = Distiller(args, prepare(args))
    if args.gguf:
        changed = {"llama.feed_forward.activation": "jump_relu"}
        if args.name:
            changed["general.name"] = args.name
        gguf_model.write(args.gguf, distiller.reader, distiller.student.folded(), changed)
        print(f"{args.gguf}: {os.path.getsize(args.gguf)} bytes, step {distiller.step}")
        return
    held_out = {}
    for path in args.held_out:
        ids = tokens_of(args, path)[: HELD_OUT * args.context]
        if len(ids) < HELD_OUT * args.context:
            raise SystemExit(f"{path}: {len(ids)} tokens are too few, {HELD_OUT * args.context} are needed")
        held_out[os.path.basename(path)] = torch.from_numpy(ids.reshape(HELD_OUT, -1)).to(args.device)
    distiller.run(held_out)


if __name__ == "__main__":
    main()
