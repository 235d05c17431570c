# SPDX-License-Identifier: MIT
# Compares a `hearth ... --logits-out` file (f32, a row per token, no header) with a golden .logits file.
#
#   python compare_logits.py OUT GOLDEN [--limit X] [--skip N]
#
# Prints relative L2 over all rows, the worst row, and how often the best token agrees. Exit 1 above the limit.

import argparse
import sys

import numpy as np

from oracle_common import read_logits, relative_l2


def report(got, want, label):
    rows = [relative_l2(g, w) for g, w in zip(got, want)]
    worst = int(np.argmax(rows))
    best = float(np.mean(got.argmax(1) == want.argmax(1)))
    whole = relative_l2(got, want)
    print(f"{label}: relative L2 {whole:.3e}, worst row {worst} {rows[worst]:.3e}, largest difference "
          f"{np.abs(got - want).max():.3e}, best token agrees {best:.1%} of {len(rows)}")  # fmt: skip
    return whole


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("golden")
    p.add_argument("--limit", type=float, default=3e-2, help="largest relative L2 that passes")
    p.add_argument("--skip", type=int, default=0, help="the file's first row is the golden's row N")
    a = p.parse_args()
    _, original, dequantised = read_logits(a.golden)
    got = np.fromfile(a.out, "<f4")
    n_vocab = original.shape[1]
    if got.size == 0 or got.size % n_vocab:
        sys.exit(f"{a.out}: {got.size} numbers are not whole rows of {n_vocab}")
    got = got.reshape(-1, n_vocab)
    n = min(len(got), len(original) - a.skip)  # rows beyond the golden's tokens belong to a continuation
    if n <= 0:
        sys.exit(f"nothing to compare: the golden has {len(original)} rows")
    if not np.isfinite(got[:n]).all():
        sys.exit(f"{a.out}: not all numbers are finite")
    rows = slice(a.skip, a.skip + n)
    error = report(got[:n], original[rows], "original")
    if dequantised is not None:
        error = report(got[:n], dequantised[rows], "as decoded from the file")
    sys.exit(error > a.limit)


if __name__ == "__main__":
    main()
