# SPDX-License-Identifier: MIT
# Train one tiny Llama-shaped model on a folder or archive of books, on a CPU or a GPU. One command; kill it whenever
# you like and run the same command again: it goes on from its last checkpoint. See README.md.
import argparse
import contextlib
import json
import math
import os
import signal
import sys
import time

import torch

import data
from model import ACTIVATIONS, Config, Model
from optim import Muon


def arguments():
    p = argparse.ArgumentParser(description="Train a tiny dReLU or SwiGLU language model; resumes where it stopped.")
    p.add_argument("--corpus", help="folder or tar archive of .txt books (needed for the first run only)")
    p.add_argument("--out", required=True, help="working folder: prepared data and checkpoints")
    p.add_argument("--activation", choices=ACTIVATIONS, default="drelu")
    for name in ("hidden", "ffn", "layers", "heads", "kv-heads"):
        size = getattr(Config, name.replace("-", "_"))
        p.add_argument(f"--{name}", type=int, default=size, metavar="N", help=f"shape of the model (default {size})")
    p.add_argument("--hold-out", action="append", metavar="FILE.txt", help="book kept for validation (repeatable)")
    p.add_argument("--minutes", type=float, default=30, help="training time, summed over resumptions (default 30)")
    p.add_argument("--steps", type=int, default=0, help="stop after so many steps, if that comes first")
    p.add_argument("--batch", type=int, default=16, help="rows of one context each per step (default 16)")
    p.add_argument("--lr", type=float, default=0.02, help="Muon's learning rate (default 0.02)")
    p.add_argument("--adam-lr", type=float, default=0.004, help="AdamW's, for embedding and norms (default 0.004)")
    p.add_argument("--weight-decay", type=float, default=0.05)
    p.add_argument("--density", type=float, default=0.15,
                   help="wanted share of active FFN neurons per layer, relu and drelu only; 0: let it be (default 0.15)")
    p.add_argument("--precision", choices=("auto", "f32", "bf16"), default="auto", help="auto times both")
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="torch.compile")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--threads", type=int, default=0, help="CPU threads (default: PyTorch's)")
    p.add_argument("--save-every", type=float, default=60, metavar="SECONDS")
    p.add_argument("--seed", type=int, default=1234)
    return p.parse_args()


class Trainer:
    """A model, its optimisers, and everything a checkpoint must hold to go on exactly where it stopped."""

    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.args = args
        self.path = os.path.join(args.out, f"{args.activation}.pt")
        self.cfg = Config(hidden=args.hidden, ffn=args.ffn, layers=args.layers, heads=args.heads, kv_heads=args.kv_heads,
                          activation=args.activation)
        self.model = Model(self.cfg).to(args.device)
        self.make_optimisers(torch.bfloat16 if args.precision == "bf16" else torch.float32)
        self.batches = data.Batches(os.path.join(args.out, "data"), self.cfg.context, args.batch, args.seed)
        self.val = torch.from_numpy(data.val_rows(os.path.join(args.out, "data"), self.cfg.context))
        self.step, self.seconds, self.cpu_seconds, self.log = 0, 0.0, 0.0, []
        self.penalty = torch.full((self.cfg.layers,), 1e-3, device=args.device)
        self.precision = None
        if os.path.exists(self.path):
            self.load()

    def make_optimisers(self, dtype):
        args, inner = self.args, [p for p in self.model.blk.parameters() if p.ndim == 2]
        outer = [p for p in self.model.parameters() if p.ndim == 1]
        groups = [{"params": [self.model.token_embd.weight], "weight_decay": 0.01}, {"params": outer, "weight_decay": 0.0}]
        self.optimisers = [
            (Muon(inner, weight_decay=args.weight_decay, dtype=dtype), args.lr),
            (torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True), args.adam_lr),
        ]

    def load(self):
        ck = torch.load(self.path, map_location=self.args.device, weights_only=True)
        if ck["config"] != self.cfg.as_dict() or ck["batch"] != self.args.batch or ck["seed"] != self.args.seed:
            raise SystemExit(f"{self.path} was made with another shape, batch or seed; use another --out")
        self.model.load_state_dict(ck["model"])
        for (opt, _), state in zip(self.optimisers, ck["optimisers"]):
            opt.load_state_dict(state)
        self.step, self.seconds, self.cpu_seconds = ck["step"], ck["seconds"], ck["cpu_seconds"]
        self.log, self.penalty, self.precision = ck["log"], ck["penalty"], ck["precision"]
        print(f"resumed {self.path} at step {self.step}, {self.seconds / 60:.1f} min trained", flush=True)

    def save(self):
        """Replace the checkpoint in one rename, so that a kill leaves either the old one or the new one."""
        ck = {
            "config": self.cfg.as_dict(), "batch": self.args.batch, "seed": self.args.seed,
            "model": self.model.state_dict(), "optimisers": [o.state_dict() for o, _ in self.optimisers],
            "step": self.step, "seconds": self.seconds, "cpu_seconds": self.cpu_seconds, "log": self.log,
            "penalty": self.penalty, "precision": self.precision, "done": self.progress() >= 1,
        }
        torch.save(ck, self.path + ".tmp")
        os.replace(self.path + ".tmp", self.path)

    def progress(self):
        """Share of the run that is over, 0..1: by time, or by steps if that is further."""
        by_steps = self.step / self.args.steps if self.args.steps else 0.0
        return min(1.0, max(by_steps, self.seconds / (60 * self.args.minutes)))

    def autocast(self):
        if self.precision == "bf16":
            return torch.autocast(self.args.device.split(":")[0], torch.bfloat16)
        return contextlib.nullcontext()

    def wants_sparsity(self):
        return self.cfg.activation != "silu" and self.args.density > 0

    def forward_backward(self, ids, targets):
        with self.autocast():
            ce, density, l1 = self.compiled(ids, targets)
        loss = ce + (self.penalty * l1).sum() if self.wants_sparsity() else ce
        loss.backward()
        return ce.detach(), density

    def fetch(self, step):
        return [torch.from_numpy(x).to(self.args.device) for x in self.batches(step)]

    def choose_precision(self):
        """Time both precisions and keep the faster; a checkpoint remembers the choice.

        They take turns and the best of each counts, because on a shared machine the load changes between steps.
        """
        self.compiled = torch.compile(self.model.losses) if self.args.compile else self.model.losses
        if self.precision is None and self.args.precision != "auto":
            self.precision = self.args.precision
        if self.precision is not None:
            return
        ids, targets = self.fetch(0)
        took = {}
        for self.precision in ("f32", "bf16") * 5:
            start = time.perf_counter()
            self.forward_backward(ids, targets)
            if self.args.device != "cpu":
                torch.cuda.synchronize()
            took[self.precision] = min(took.get(self.precision, math.inf), time.perf_counter() - start)
            self.model.zero_grad(set_to_none=True)
        self.precision = min(took, key=took.get)
        print("precision: " + ", ".join(f"{k} {v * 1000:.0f} ms a step" for k, v in took.items())
              + f"; using {self.precision}", flush=True)

    def steer_density(self, density):
        """Raise a layer's penalty while it is denser than wanted, lower it while sparser."""
        if self.wants_sparsity():
            error = (density / self.args.density).log().clamp(-1, 1)
            self.penalty.mul_((0.02 * error).exp()).clamp_(1e-5, 0.1)

    def train_step(self):
        start, cpu = time.perf_counter(), time.process_time()
        done = self.progress()
        # Warm up briefly, then fall linearly to zero: the best schedule known for runs of few tokens.
        factor = min(1.0, (self.step + 1) / 40) * (1 - done)
        ids, targets = self.fetch(self.step)
        ce, density = self.forward_backward(ids, targets)
        for opt, lr in self.optimisers:
            for group in opt.param_groups:
                group["lr"] = lr * factor
            opt.step()
            opt.zero_grad(set_to_none=True)
        self.steer_density(density)
        self.step += 1
        ce = ce.item()
        self.seconds += time.perf_counter() - start
        self.cpu_seconds += time.process_time() - cpu
        if not math.isfinite(ce):
            raise SystemExit(f"the loss is {ce} at step {self.step}: lower --lr")
        return ce, density

    @torch.no_grad()
    def validate(self, rows):
        """Mean loss per token and density per layer over the first so many held-out windows."""
        total, dens, n = 0.0, 0, 0
        for part in self.val[:rows].split(self.args.batch):
            ids = part.to(self.args.device)
            ce, density, _ = self.model.losses(ids[:, :-1], ids[:, 1:])
            total, dens, n = total + ce.item() * len(part), dens + density.cpu() * len(part), n + len(part)
        return total / n, (dens / n).tolist()

    def run(self):
        stop = []
        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, lambda *_: stop.append(True))
        self.choose_precision()
        saved, smooth, said = time.monotonic(), None, (self.step, self.seconds)
        while self.progress() < 1 and not stop:
            ce, density = self.train_step()
            smooth = ce if smooth is None else 0.95 * smooth + 0.05 * ce
            if self.step % 20 == 0:
                tokens = (self.step - said[0]) * self.args.batch * self.cfg.context
                rate = tokens / (self.seconds - said[1])
                said = (self.step, self.seconds)
                print(f"{self.progress() * 100:5.1f} %  step {self.step}  {self.seconds / 60:.1f} min  loss {smooth:.3f}"
                      f"  active {' '.join(f'{d:.2f}' for d in density.tolist())}  {rate:.0f} tok/s", flush=True)
            if self.step % 200 == 0:
                loss, _ = self.validate(32)
                self.log.append((self.step, self.seconds, smooth, loss))
                print(f"         held-out loss {loss:.4f}", flush=True)
            if time.monotonic() - saved > self.args.save_every:
                self.save()
                saved = time.monotonic()
        self.save()
        if stop:
            print(f"stopped at step {self.step}; run the same command to go on", flush=True)
            return
        self.report()

    def report(self):
        with open(os.path.join(self.args.out, "data", "data.json")) as f:
            meta = json.load(f)
        loss, density = self.validate(len(self.val))
        tokens = self.step * self.args.batch * self.cfg.context
        report = {
            "activation": self.cfg.activation, "steps": self.step, "tokens_seen": tokens,
            "epochs": tokens / meta["train_tokens"], "minutes": self.seconds / 60, "precision": self.precision,
            "cpu_minutes": self.cpu_seconds / 60, "tokens_per_second": tokens / max(self.seconds, 1e-9),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "val_loss_per_token": loss, "val_perplexity_per_token": math.exp(loss),
            "val_bits_per_byte": loss * meta["val_tokens"] / meta["val_bytes"] / math.log(2),
            "val_perplexity_per_byte": math.exp(loss * meta["val_tokens"] / meta["val_bytes"]),
            "density_per_layer": density,
        }
        with open(os.path.join(self.args.out, f"{self.cfg.activation}.report.json"), "w") as f:
            json.dump(report, f, indent=1)
        print(json.dumps(report, indent=1))


def main():
    args = arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    data.prepare(args.corpus, os.path.join(args.out, "data"), Config(), args.hold_out, args.seed)
    Trainer(args).run()


if __name__ == "__main__":
    sys.exit(main())
