# SPDX-License-Identifier: MIT
# Lowers the thresholds of a sparse model's neurons (jump_relu, gate and up in Q4_0) in its GGUF: more of them are active,
# and those give what their line has there, so nothing else changes. See README.md.
import argparse
import shutil

import gguf
import numpy as np

BLOCK = 18  # bytes of a Q4_0 block, of which the scale comes first


def arguments():
    p = argparse.ArgumentParser(description="Lowers the thresholds of neurons in a GGUF with the activation jump_relu.")
    p.add_argument("model", help="a GGUF whose gate and up are in Q4_0")
    p.add_argument("out", help="the file to write")
    p.add_argument("--by", action="append", required=True, metavar="FIRST-LAST:SHARE", help="layers, and how far, in "
                   "parts of the step at the threshold (0.25: neurons begin at three quarters of it)")
    return p.parse_args()


def scale(tensor, factor):
    """A matrix in Q4_0 times a number, but for the rounding of its scales."""
    if tensor.tensor_type != gguf.GGMLQuantizationType.Q4_0:
        raise SystemExit(f"{tensor.name} is not in Q4_0")
    blocks = tensor.data.reshape(-1, BLOCK)
    scales = blocks[:, :2].copy().view(np.float16).astype(np.float32) * factor
    blocks[:, :2] = scales.astype(np.float16).view(np.uint8)


def main():
    args = arguments()
    shutil.copy(args.model, args.out)
    tensors = {t.name: t for t in gguf.GGUFReader(args.out, "r+").tensors}
    for which in args.by:
        layers, share = which.split(":")
        first, last = map(int, layers.split("-"))
        d = float(share)
        for i in range(first, last + 1):
            # up * (gate + 1) where gate > 0 becomes up (1 - d) * ((gate + d) / (1 - d) + 1) where gate > -d: the same line
            bias = tensors[f"blk.{i}.ffn_gate.bias"].data
            bias[:] = (bias + d) / (1 - d)
            scale(tensors[f"blk.{i}.ffn_gate.weight"], 1 / (1 - d))
            scale(tensors[f"blk.{i}.ffn_up.weight"], 1 - d)


if __name__ == "__main__":
    main()
