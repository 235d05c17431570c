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

MEASURED = 24  # windows that the first thresholds come from: the last ones, which are trained on last
CHUNK = 8192  # positions whose logits are computed at a time
TELL = 8  # seconds between lines


def arguments():
    p = argparse.ArgumentParser(description="Distils a dense GGUF of architecture llama into a sparse copy; resumes.")
    p.add_argument("--model", required=True, help="the original, a GGUF")
    p.add_argument("--texts", action="append", default=[], help="text files; .jsonl: a text in JSON on each line; "
                   ".npy: windows of token ids (write.py)")
    p.add_argument("--held-out", action="append", default=[], help="text files of which perplexity is told")
    p.add_argument("--held-out-windows", type=int, default=8, help="of each, the first ones (default 8)")
    p.add_argument("--hearth", default="build/hearth", help="the program, whose tokenizer is used")
    p.add_argument("--out", required=True, help="working folder: tokens and checkpoints")
    p.add_argument("--gguf", help="write the last checkpoint there, F16, and end")
    p.add_argument("--name", help="of the model, in that file (default: the original's)")
    p.add_argument("--density", type=float, default=0.15, help="share of active neurons at the end (default 0.15)")
    p.add_argument("--first-density", type=float, default=0.3, help="and at first (default 0.3)")
    p.add_argument("--rounded", action="store_true", help="train what four and five bits will hold of the matrices, "
                   "the embedding's too (README.md has the formats)")
    p.add_argument("--rounded-from", type=float, default=0.0, metavar="SHARE", help="of the time, from which --rounded "
                   "rounds (default 0)")
    p.add_argument("--minutes", type=float, default=60, help="to train for, over all runs; 0: not at all (default 60)")
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--rows", type=int, default=8, help="windows a step (default 8)")
    p.add_argument("--at-once", type=int, help="windows computed at a time (default: all of a step)")
    p.add_argument("--lr", type=float, default=2e-4)
    p.add_argument("--warm-up", type=int, default=10, metavar="STEPS")
    p.add_argument("--positions", type=float, default=0.25, help="share of positions whose logits count (default 0.25)")
    p.add_argument("--distance", type=float, default=1.0, help="weight of the streams' distance at the end, 1 at first "
                   "(default 1)")
    p.add_argument("--edge", action=argparse.BooleanOptionalAction, default=False, help="gradients see the step at a "
                   "neuron's threshold (jump.py)")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    p.add_argument("--save-every", type=float, default=300, metavar="SECONDS", help="(default 300)")
    p.add_argument("--measure-every", type=float, default=300, metavar="SECONDS", help="perplexity (default 300)")
    p.add_argument("--seed", type=int, default=5)
    args = p.parse_args()
    args.at_once = args.at_once or args.rows
    return args


def tokens_of(args, text):
    """Token ids of a text."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8", newline="") as f:
        f.write(text)
        f.flush()
        out = subprocess.run([args.hearth, "tokenize", args.model, "-f", f.name, "--ids", "-q"], check=True,
                             stdout=subprocess.PIPE).stdout
    return np.array(json.loads(out), np.int64)


def windows_of(args, path):
    """Windows [n, context] of a file's texts, one text after the other."""
    if path.endswith(".npy"):
        ids = np.load(path).reshape(-1)
    else:
        with open(path, encoding="utf-8") as f:
            ids = tokens_of(args, "".join(json.loads(line) for line in f) if path.endswith(".jsonl") else f.read())
    return ids[: len(ids) // args.context * args.context].reshape(-1, args.context).astype(np.int32)


def prepare(args):
    """Windows of training text [n, context], kept in the working folder."""
    path = os.path.join(args.out, "tokens.npy")
    if not os.path.exists(path):
        if not args.texts:
            raise SystemExit(f"{path} is not there yet: give --texts")
        known = {text: windows_of(args, text) for text in set(args.texts)}
        np.save(path, np.concatenate([known[text] for text in args.texts]))
    return np.load(path).reshape(-1, args.context)


def compared(y, head, x, other):
    """Divergence, summed, of the probabilities of states y from those of x, and its gradient by y's logits."""
    target = F.log_softmax(F.linear(x, other).float(), -1)
    own = F.log_softmax(F.linear(y, head).float(), -1)
    p = target.exp()
    return (p * (target - own)).sum(), (own.exp() - p).to(y.dtype)


def distance(s, t):
    return ((s - t).square().mean(-1) / (t.square().mean(-1) + 1e-6)).mean()


class Divergence(torch.autograd.Function):
    """Mean divergence of two models' probabilities, whose logits are never all in memory. The gradients are made on
    the way: those by states y and by their head."""

    @staticmethod
    def forward(ctx, compare, y, head, x, other):
        n, low = len(y), head.to(torch.bfloat16)
        total, by_y, by_head = 0.0, [], torch.zeros_like(head)
        for own, theirs in zip(y.to(torch.bfloat16).split(CHUNK), x.to(torch.bfloat16).split(CHUNK)):
            kl, grad = compare(own, low, theirs, other)
            total = total + kl
            by_y.append(grad @ low)
            if ctx.needs_input_grad[2]:
                by_head += grad.t() @ own
        ctx.save_for_backward(torch.cat(by_y).to(y.dtype) / n, by_head / n)
        return total / n

    @staticmethod
    def backward(ctx, by):
        by_y, by_head = ctx.saved_tensors
        return None, by * by_y, by * by_head if ctx.needs_input_grad[2] else None, None, None


class Distiller:
    def __init__(self, args, windows):
        torch.manual_seed(args.seed)
        self.args, self.windows = args, torch.from_numpy(windows).to(args.device)
        self.path = os.path.join(args.out, "student.pt")
        teacher, self.reader = gguf_model.load(args.model, args.context)
        self.teacher = teacher.to(args.device).requires_grad_(False)
        self.head = self.teacher.token_embd.weight.to(torch.bfloat16)
        for p in self.teacher.blk.parameters():
            if p.dim() == 2:
                p.data = p.data.to(torch.bfloat16)
        self.order = torch.from_numpy(np.random.default_rng(args.seed).permutation(len(windows))).to(args.device)
        self.student = jump.Student(gguf_model.load(args.model, args.context)[0], args.edge).to(args.device)
        self.student.model.token_embd.weight.requires_grad_(args.rounded)  # else as the original's
        self.step, self.seconds, self.log = 0, 0.0, []
        if not os.path.exists(self.path):
            print("measuring which neurons matter", flush=True)
            self.shares = self.student.begin(self.batch(-MEASURED, MEASURED), args.first_density)
        self.params = [p for p in self.student.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(self.params, lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        if os.path.exists(self.path):
            self.load()
        self.shares = self.shares.to(args.device)
        self.compare, self.distance = compared, distance
        if args.compile:
            self.compare, self.distance = (torch.compile(f, dynamic=False) for f in (compared, distance))
            self.student.compile_parts()
            for layer in self.teacher.blk:
                layer.compile(dynamic=False)

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
            "windows": len(self.windows), "rounded": self.args.rounded, "student": self.student.state_dict(),
            "optimiser": self.optimiser.state_dict(), "shares": self.shares, "step": self.step,
            "seconds": self.seconds, "log": self.log,
        }, self.path + ".tmp")
        os.replace(self.path + ".tmp", self.path)

    def done(self):
        return min(1.0, self.seconds / (60 * self.args.minutes)) if self.args.minutes else 1.0

    def batch(self, first, n):
        at = torch.arange(first, first + n, device=self.args.device) % len(self.order)
        return self.windows[self.order[at]].long()

    def autocast(self):
        return torch.autocast(self.args.device.split(":")[0], torch.bfloat16)

    def as_written(self):
        rounded = self.args.rounded and self.done() >= self.args.rounded_from
        return self.student.rounded() if rounded else contextlib.nullcontext()

    def losses(self, ids):
        """Divergence from the original's probabilities, distance of the streams, gates per layer."""
        with self.autocast():
            with torch.no_grad():
                x, _, streams = self.teacher.hidden_states(ids)
            y, gates, own = self.student.model.hidden_states(ids)
        x, y = x.flatten(0, 1), y.flatten(0, 1)
        if self.args.positions < 1:
            pick = torch.randperm(len(x), device=x.device)[: math.ceil(self.args.positions * len(x))]
            x, y = x[pick], y[pick]
        kl = Divergence.apply(self.compare, y, self.student.model.token_embd.weight, x, self.head)
        return kl, sum(map(self.distance, own, streams)) / len(own), gates

    def train_step(self):
        """Divergence, distance and density, as tensors: to look at them is to wait for the device."""
        a, done = self.args, self.done()
        weight = 1 + (a.distance - 1) * min(1.0, done / 0.6)
        told, gates = [], []
        with self.as_written():
            for ids in self.batch(self.step * a.rows, a.rows).split(a.at_once):
                share = len(ids) / a.rows
                kl, far, part = self.losses(ids)
                ((kl + weight * far) * share).backward()
                told.append(torch.stack((kl.detach(), far.detach())) * share)
                gates.append(jump.sample(part))
        for group in self.optimiser.param_groups:
            group["lr"] = a.lr * min(1.0, (self.step + 1) / a.warm_up) * min(1.0, 2 * (1 - done))
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        wanted = a.first_density * (a.density / a.first_density) ** min(1.0, done / 0.55)
        density = self.student.move_thresholds(torch.cat(gates, 1), wanted * self.shares)
        self.step += 1
        return torch.stack((*sum(told), density))

    @torch.no_grad()
    def perplexity(self, model, windows):
        """Of the second halves of windows of held-out text, and the density per layer."""
        loss, density, half = 0.0, [], windows.shape[1] // 2
        with self.as_written(), self.autocast(), torch.compiler.set_stance("force_eager"):
            for ids in windows.split(4):
                x, gates, _ = model.hidden_states(ids)
                logits = F.linear(x[:, half - 1:-1].flatten(0, 1), model.token_embd.weight).float()
                loss += F.cross_entropy(logits, ids[:, half:].flatten(), reduction="sum").item()
                density.append(torch.stack([(g > 0).float().mean() for g in gates]))
        return math.exp(loss / (len(windows) * (windows.shape[1] - half))), torch.stack(density).mean(0)

    def measure(self, held_out):
        for name, windows in held_out.items():
            perplexity, density = self.perplexity(self.student.model, windows)
            self.log.append((self.step, self.seconds, name, perplexity, density.tolist()))
            print(f"         {name}: perplexity {perplexity:.2f}, active {density.mean():.3f}", flush=True)

    def run(self, held_out):
        a, stop = self.args, []
        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, lambda *_: stop.append(True))
        for name, windows in held_out.items():
            original = self.perplexity(self.teacher, windows)[0]
            print(f"         {name}: perplexity of the original {original:.2f}", flush=True)
        self.measure(held_out)
        first, began = self.step, self.seconds
        told = saved = measured = began
        while self.done() < 1 and not stop:
            start = time.perf_counter()
            try:
                losses = self.train_step()
            except Exception as e:
                if not a.compile:
                    raise
                print(f"not compiled: {type(e).__name__}: {str(e)[:2000]}", flush=True)
                torch.compiler.set_stance("force_eager")
                a.compile, a.at_once = False, max(1, a.at_once // 2)
                self.optimiser.zero_grad(set_to_none=True)
                continue
            tell = self.seconds - told >= TELL or self.step == first + 1
            if tell:
                kl, far, density = losses.tolist()
            if self.step > first + 1 or not a.compile:  # the first step is mostly the compiler's
                self.seconds += time.perf_counter() - start
            if tell:
                if not math.isfinite(kl):
                    raise SystemExit(f"the loss is {kl} at step {self.step}: lower --lr")
                rate = (self.step - first - a.compile) * a.rows * a.context / max(self.seconds - began, 1e-9)
                print(f"step {self.step}, {self.done():.0%}  divergence {kl:.3f}  distance {far:.3f}"
                      f"  active {density:.3f}  {rate:.0f} tok/s", flush=True)
                told = self.seconds
            if self.seconds - saved >= a.save_every:
                self.save()
                saved = self.seconds
            if self.seconds - measured >= a.measure_every:
                self.measure(held_out)
                measured = self.seconds
        self.save()
        self.measure(held_out)
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
        windows = windows_of(args, path)[: args.held_out_windows]
        if len(windows) < args.held_out_windows:
            raise SystemExit(f"{path}: {len(windows)} windows are too few, {args.held_out_windows} are needed")
        held_out[os.path.basename(path)] = torch.from_numpy(windows).long().to(args.device)
    distiller.run(held_out)


if __name__ == "__main__":
    main()
