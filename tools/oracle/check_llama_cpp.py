# SPDX-License-Identifier: MIT
# Holds the model goldens against llama.cpp: every file loads, its text tokenizes to the golden's ids, and for the
# activations llama.cpp knows, logits agree, the best ten tokens overlap and greedy continuations are the same. Fails (exit 1) when something is off.
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
# Where llama.cpp computes something else.
OTHERWISE = {
    "window": "llama.cpp ignores the sliding windows of llama files",
    "gemma3n": "llama.cpp cuts gates of the first ten layers, and shares keys behind the first twenty, whatever the file says",
    "exaone4-hybrid": "llama.cpp has windows in models of 64 layers only",
    "llama4-chunks": "llama.cpp has chunks of 8192 whatever the file says",
    "deepseek32.Q8_0": "llama.cpp's rounding of activations to 8 bits changes choices of positions",
    "glm-dsa.Q8_0": "llama.cpp's rounding of activations to 8 bits changes choices of positions",
    "hy-v4.Q8_0": "llama.cpp's rounding of activations to 8 bits changes choices of positions; an F32 file of it agrees to 5e-6",
    "deepseek-v4": "llama.cpp has blocks of 4 and of 128 positions only",
    "deepseek-v4-wide": "llama.cpp has blocks of 4 and of 128 positions only",
    "ling3.Q8_0": "llama.cpp's rounding of activations to 8 bits is 0.07 here; an F32 file of it agrees to 2e-6",
    "phimoe": "llama.cpp has RMSNorm and a softmax where the model's own code has LayerNorm and weighs experts against near ones",
    "minimax-m3": "llama.cpp attends to all positions without flash attention, whose sums are of F16",
    "deci": "llama.cpp leaves out attention of layers that have no feed-forward part, which no published model has",
    "bitnet": "llama.cpp has SiLU where the model has squared ReLU",
    "command-r-plus": "llama.cpp norms heads in models of 64 layers only",
}


def follow(model, ids, continuation):
    """How many tokens of a continuation are llama.cpp's best too, and how far behind its best the others are at most."""
    same, behind = 0, 0.0
    for token in continuation:
        row = model.logits(ids, True)[-1]
        same += int(row.argmax()) == token
        behind = max(behind, float(row.max() - row[token]))
        ids.append(token)
    return same, behind


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
        if name in ("opt", "bamboo"):
            print(f"{name}.{kind}: an architecture that llama.cpp does not know")
            continue
        otherwise = OTHERWISE.get(name) or OTHERWISE.get(f"{name}.{kind}")
        if otherwise:
            print(f"{name}.{kind}: {otherwise}")
            continue
        model = llama_cpp.Model(path, kv=0, flash=0, repack=not name.startswith(("kimi", "mistral4")))  # it fails with its layouts of these
        same_ids = model.tokenize(text) == list(tokens)
        if name in ("relu", "drelu"):
            print(f"{name}.{kind}: loads; ids {'agree' if same_ids else 'DIFFER'}; its activation is not llama.cpp's")
            bad += not same_ids
            model.close()
            continue
        errors, overlap = [], []
        # Prompts of qwen4exp whose rows all want logits come out wrong there, but for the last rows.
        for step in (name.startswith("qwen4exp"), True):
            got = model.logits(tokens, step)
            errors.append(relative_l2(got, want))
            tops = zip(np.argsort(-got)[:, :10], np.argsort(-want)[:, :10])
            overlap.append(np.mean([len(set(a) & set(b)) / 10 for a, b in tops]))
        same, behind = follow(model, list(tokens), continuation)
        limit = LIMIT.get(kind, LIMIT_QUANTISED)
        # Logits have a deviation near 4: a token may be behind by what an error of `limit` can do to two of them.
        ok = same_ids and max(errors) < limit and min(overlap) > 0.85 and behind < 8 * limit
        bad += not ok
        greedy = f"{same} of {len(continuation)}" + (f" (behind by {behind:.2f})" if behind else "")
        print(f"{name}.{kind}: relative L2 prompt {errors[0]:.2e} step {errors[1]:.2e}; top-10 overlap "
              f"{overlap[0]:.3f} {overlap[1]:.3f}; ids {same_ids}; greedy {greedy}{'' if ok else '  <-- BAD'}")  # fmt: skip
        model.close()
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
