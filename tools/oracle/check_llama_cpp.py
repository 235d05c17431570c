# SPDX-License-Identifier: MIT
# Holds the model goldens against llama.cpp: every file loads, its text tokenizes to the golden's ids, and for the
# activations llama.cpp knows, logits agree and the best ten tokens overlap. Fails (exit 1) when something is off.
#
#   LLAMA_LIBS=DIR python check_llama_cpp.py [MODELS_DIR]

import glob
import os
import sys

import numpy as np

import llama_cpp
from oracle_common import read_logits, relative_l2

# llama.cpp rounds activations to 8 bits where weights are quantised; to F16 or BF16 beside such weights.
LIMIT = {"F32": 2e-4, "F16": 5e-3, "BF16": 3e-2}
LIMIT_QUANTISED = 6e-2


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..", "tests", "golden", "models")
    bad = 0
    for path in sorted(glob.glob(os.path.join(folder, "*.gguf"))):
        stem = path.removesuffix(".gguf")
        name, kind = os.path.basename(stem).split(".")
        tokens, original, dequantised = read_logits(stem + ".logits")
        want = original if dequantised is None else dequantised
        text, _, continuation, _ = open(stem + ".greedy", encoding="utf-8").read().splitlines()
        continuation = [int(t) for t in continuation.split()]
        model = llama_cpp.Model(path, kv=0, flash=0)
        same_ids = model.tokenize(text) == list(tokens)
        if name in ("relu", "drelu"):
            print(f"{name}.{kind}: loads; ids {'agree' if same_ids else 'DIFFER'}; its activation is not llama.cpp's")
            bad += not same_ids
            model.close()
            continue
        errors, overlap = [], []
        for step in (False, True):
            got = model.logits(tokens, step)
            errors.append(relative_l2(got, want))
            tops = zip(np.argsort(-got)[:, :10], np.argsort(-want)[:, :10])
            overlap.append(np.mean([len(set(a) & set(b)) / 10 for a, b in tops]))
        ids = list(tokens)
        for _ in continuation:
            ids.append(int(model.logits(ids, True)[-1].argmax()))
        same_greedy = ids[len(tokens) :] == continuation
        ok = same_ids and same_greedy and max(errors) < LIMIT.get(kind, LIMIT_QUANTISED) and min(overlap) > 0.85
        bad += not ok
        print(f"{name}.{kind}: relative L2 prompt {errors[0]:.2e} step {errors[1]:.2e}; top-10 overlap "
              f"{overlap[0]:.3f} {overlap[1]:.3f}; ids {same_ids}; greedy {same_greedy}{'' if ok else '  <-- BAD'}")  # fmt: skip
        model.close()
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
