# SPDX-License-Identifier: MIT
# How well `hearth quantize` encodes beside llama.cpp's quantiser: for each tensor of an F32 model, the error of both files'
# decoded weights, plain and weighted by the squares of the weights, as ratios of ours to theirs.
#
#   LLAMA_LIBS=DIR python compare_errors.py HEARTH MODEL-F32.gguf ... [--recipe Q4_K_M ...] [--limit 1.02]

import argparse
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np

import llama_cpp

FILE_TYPES = {"Q4_K_M": 15, "Q5_K_M": 17, "Q4_K": 15, "Q5_K": 17, "Q6_K": 18, "Q3_K": 12, "Q2_K": 10}


def tensors(path):
    """{name: type, float32 array}"""
    return {t.name: (t.tensor_type.name, gguf.dequantize(t.data, t.tensor_type)) for t in gguf.GGUFReader(path).tensors}


def errors(x, y):
    """Root mean squared error, plain and weighted by the squares of x."""
    e2, w = (x.astype(np.float64) - y) ** 2, x.astype(np.float64) ** 2
    return np.sqrt(e2.mean()), np.sqrt((w * e2).sum() / w.sum())


def compare(hearth, path, recipe, folder):
    """Rows of (tensor, type, plain ratio, weighted ratio); the last for all tensors together."""
    ours, theirs = os.path.join(folder, "ours.gguf"), os.path.join(folder, "theirs.gguf")
    llama_cpp.quantize(path, theirs, FILE_TYPES[recipe], pure=not recipe.endswith("_M"))
    pure = [] if recipe.endswith("_M") else ["--pure"]
    subprocess.run([hearth, "quantize", path, ours, recipe, *pure], check=True, capture_output=True)
    source, a, b = tensors(path), tensors(ours), tensors(theirs)
    rows, sums = [], np.zeros((2, 2))
    for name, (_, x) in source.items():
        kind, y = a[name]
        assert kind == b[name][0], f"{name}: {kind}, llama.cpp {b[name][0]}"
        if kind == "F32":
            continue
        e, f = errors(x, y), errors(x, b[name][1])
        rows.append((name, kind, e[0] / f[0], e[1] / f[1]))
        for s, z in zip(sums, (y, b[name][1])):
            e2 = (x.astype(np.float64) - z) ** 2
            s += np.array([e2.sum(), (e2 * x.astype(np.float64) ** 2).sum()])
    whole = np.sqrt(sums[0] / sums[1])
    return rows + [("all", recipe, *whole)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("hearth")
    p.add_argument("models", nargs="+")
    p.add_argument("--recipe", nargs="+", default=["Q4_K_M", "Q5_K_M"], choices=FILE_TYPES)
    p.add_argument("--limit", type=float, default=1.02, help="largest weighted ratio of a tensor that passes")
    p.add_argument("-v", action="store_true", help="every tensor, not only the extremes of each format")
    a = p.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in a.models:
            for recipe in a.recipe:
                *rows, whole = compare(a.hearth, path, recipe, folder)
                print(f"{os.path.basename(path)} {recipe}: all tensors, plain {whole[2]:.4f}, weighted {whole[3]:.4f}")
                for row in rows if a.v else ():
                    print("  {} {}: {:.4f} {:.4f}".format(*row))
                for kind in sorted({r[1] for r in rows}):
                    plain, weighted = zip(*((r[2], r[3]) for r in rows if r[1] == kind))
                    print(f"  {kind}, {len(plain)} tensors: plain {min(plain):.4f} to {max(plain):.4f}, weighted "
                          f"{min(weighted):.4f} to {max(weighted):.4f}")  # fmt: skip
                bad += max(r[3] for r in rows) > a.limit
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
