# SPDX-License-Identifier: MIT
# Makes a dense chat model sparse: a copy of it with another activation learns its probabilities and its streams. Kill it
# whenever you like and run the same command again. See README.md.
import argparse
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
from fit_down import fit_down
from model import sparsity_of
HELD_OUT = 16  # windows of held-out text
FITTED = 120  # windows that down is fitted to: the last ones, so that training does not begin with them


def arguments():
    p = argparse.ArgumentParser(description="Distils a dense GGUF of architecture llama into a sparse copy; resumes.")
    p.add_argument("--model", required=True, help="the original, a GGUF")
    p.add_argument("--texts", action="append", default=[], help="text files; .jsonl: a text in JSON on each line")
    p.add_argument("--held-out", help="text file of which perplexity is told")
    p.add_argument("--hearth", default="build/hearth", help="the program, whose tokenizer is used")
    p.add_argument("--out", required=True, help="working folder: tokens and checkpoints")
    p.add_argument("--gguf", help="write the last checkpoint there, F16, and end")
    p.add_argument("--activation", choices=("relu", "drelu"), default="drelu", help="in place of SiLU (default drelu)")
    p.add_argument("--density", type=float, default=0.15, help="wanted share of active neurons per layer (default 0.15)")
    p.add_argument("--tokens", type=int, default=400_000, help="to train on (default 400,000)")
    p.add_argument("--context", type=int, default=256)
    p.add_argument("--rows", type=int, default=8, help="windows that are evaluated together (default 8)")
    p.add_argument("--accumulate", type=int, default=2, help="such batches a step (default 2)")
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--positions", type=float, default=0.5, help="share of positions whose logits count (default 0.5)")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--save-every", type=int, default=12, metavar="STEPS")
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
        self.student = gguf_model.load(args.model, args.context)[0].to(args.device)
        self.student.token_embd.weight.requires_grad_(False)
        self.student.cfg.activation = args.activation
        self.head = self.teacher.token_embd.weight.to(torch.bfloat16)
        self.order = np.random.default_rng(args.seed).permutation(len(windows))
        self.params = [p for p in self.student.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(self.params, lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        self.penalty = torch.full((self.teacher.cfg.layers,), 0.02, device=args.device)
        self.step, self.seconds, self.log = 0, 0.0, []
        self.steps = max(1, args.tokens // (args.rows * args.context * args.accumulate))
        if os.path.exists(self.path):
            self.load()
        else:
            print("fitting down to the new activation", flush=True)
            fit_down(self.teacher, self.student, self.batch(-FITTED, FITTED))

    def load(self):
        ck = torch.load(self.path, map_location=self.args.device, weights_only=True)
        if ck["activation"] != self.args.activation or ck["windows"] != len(self.windows):
            raise SystemExit(f"{self.path} was made with another activation or text; use another --out")
        self.student.load_state_dict(ck["model"])
        self.optimiser.load_state_dict(ck["optimiser"])
        self.penalty, self.step, self.seconds, self.log = ck["penalty"], ck["step"], ck["seconds"], ck["log"]
        print(f"resumed {self.path} at step {self.step}", flush=True)

    def save(self):
        torch.save({
            "activation": self.args.activation, "windows": len(self.windows), "model": self.student.state_dict(),
            "optimiser": self.optimiser.state_dict(), "penalty": self.penalty,
            "step": self.step, "seconds": self.seconds, "log": self.log,
        }, self.path + ".tmp")
        os.replace(self.path + ".tmp", self.path)

    def batch(self, first, n):
        at = [self.order[(first + i) % len(self.order)] for i in range(n)]
        return torch.from_numpy(self.windows[at]).to(self.args.device)

    def autocast(self):
        return torch.autocast(self.args.device.split(":")[0], torch.bfloat16)

    def logits(self, x):
        return F.log_softmax(F.linear(x.to(torch.bfloat16), self.head).float(), -1)

    def losses(self, ids):
        """Divergence from the original's probabilities, distance of the streams, densities, relative L1."""
        with self.autocast():
            with torch.no_grad():
                x, _, streams = self.teacher.hidden_states(ids)
            y, acts, own = self.student.hidden_states(ids)
            density, l1 = sparsity_of(acts)
        pick = torch.rand(ids.numel(), device=ids.device) < self.args.positions
        with torch.no_grad():
            target = self.logits(x.flatten(0, 1)[pick])
        kl = F.kl_div(self.logits(y.flatten(0, 1)[pick]), target, reduction="sum", log_target=True) / pick.sum()
        far = sum(((s - t).square().mean(-1) / (t.square().mean(-1) + 1e-6)).mean() for s, t in zip(own, streams))
        return kl, far / len(own), density, l1

    def train_step(self):
        a, start, kl_sum, far_sum, density_sum = self.args, time.perf_counter(), 0.0, 0.0, 0.0
        for i in range(a.accumulate):
            kl, far, density, l1 = self.losses(self.batch((self.step * a.accumulate + i) * a.rows, a.rows))
            ((kl + far + (self.penalty * l1).sum()) / a.accumulate).backward()
            kl_sum += kl.item() / a.accumulate
            far_sum += far.item() / a.accumulate
            density_sum = density_sum + density / a.accumulate
        done = self.step / self.steps
        for group in self.optimiser.param_groups:
            group["lr"] = a.lr * min(1.0, (self.step + 1) / 8) * min(1.0, 2 * (1 - done))
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        # Layers that are denser than wanted are pushed harder.
        self.penalty.mul_((0.05 * (density_sum / a.density).log().clamp(-1, 1)).exp()).clamp_(1e-5, 0.3)
        self.step += 1
        self.seconds += time.perf_counter() - start
        return kl_sum, far_sum, density_sum.mean().item()

    @torch.no_grad()
    def perplexity(self, windows):
        """Of the second halves of windows of held-out text, and the density per layer."""
        loss, density, half = 0.0, [], windows.shape[1] // 2
        for ids in windows.split(2):
            with self.autocast():
                x, acts, _ = self.student.hidden_states(ids)
            logits = self.logits(x[:, half - 1:-1].flatten(0, 1))
            loss += F.nll_loss(logits, ids[:, half:].flatten(), reduction="sum").item()
            density.append(sparsity_of(acts)[0])
        return math.exp(loss / (len(windows) * (windows.shape[1] - half))), torch.stack(density).mean(0)

    def report(self, held_out):
        self.save()
        if held_out is None:
            return
        perplexity, density = self.perplexity(held_out)
        self.log.append((self.step, self.seconds, perplexity, density.tolist()))
        print(f"         held-out perplexity {perplexity:.2f}, active {density.mean():.3f}", flush=True)

    def run(self, held_out):
        stop = []
        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, lambda *_: stop.append(True))
        while self.step < self.steps and not stop:
            kl, far, density = self.train_step()
            if not math.isfinite(kl):
                raise SystemExit(f"the loss is {kl} at step {self.step}: lower --lr")
            if self.step % 4 == 0:
                rate = self.step * self.args.rows * self.args.context * self.args.accumulate / self.seconds
                print(f"step {self.step} of {self.steps}  divergence {kl:.3f}  distance {far:.3f}  active {density:.3f}"
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
        gguf_model.write(args.gguf, distiller.reader, distiller.student.state_dict(),
                         {"llama.feed_forward.activation": args.activation})
        print(f"{args.gguf}: {os.path.getsize(args.gguf)} bytes, step {distiller.step} of {distiller.steps}")
        return
    held_out = None
    if args.held_out:
        ids = tokens_of(args, args.held_out)[: HELD_OUT * args.context]
        if len(ids) < HELD_OUT * args.context:
            raise SystemExit(f"{args.held_out}: {len(ids)} tokens are too few, {HELD_OUT * args.context} are needed")
        held_out = torch.from_numpy(ids.reshape(HELD_OUT, -1)).to(args.device)
    distiller.run(held_out)


if __name__ == "__main__":
    main()
