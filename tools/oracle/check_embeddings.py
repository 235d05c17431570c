# SPDX-License-Identifier: MIT
# Holds what hearth embed prints against llama.cpp: every pooling, no norm, KV cache in F32. Fails (exit 1) when a mean of
# cosines is below the limit (single tokens of models with experts may choose another one). With weights in F32 or F16 both agree to the last digits; where they are quantised, llama.cpp rounds
# activations to 8 bits, and so does Hearth beside weights of 5 bits and fewer.
#
#   LLAMA_LIBS=DIR python check_embeddings.py HEARTH TEXTS MODEL...        (TEXTS: a file, one text a line)

import ctypes as C
import json
import os
import subprocess
import sys

import numpy as np

import llama_cpp

LIMIT = 0.99
POOLINGS = ["none", "mean", "cls", "last"]


def run(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


class Embedder:
    """A model and one context, which embeds with one of the poolings."""

    def __init__(self, path, pooling, n_ctx=512):
        self.lib = lib = llama_cpp.library()
        floats = C.POINTER(C.c_float)
        lib.llama_get_embeddings_seq.restype, lib.llama_get_embeddings_seq.argtypes = floats, [C.c_void_p, C.c_int32]
        lib.llama_get_embeddings_ith.restype, lib.llama_get_embeddings_ith.argtypes = floats, [C.c_void_p, C.c_int32]
        lib.llama_model_n_embd.restype, lib.llama_model_n_embd.argtypes = C.c_int32, [C.c_void_p]
        m = lib.llama_model_default_params()
        m.n_gpu_layers = 0
        self.model = lib.llama_model_load_from_file(path.encode(), m)
        c = lib.llama_context_default_params()
        c.n_ctx = c.n_batch = c.n_ubatch = n_ctx
        c.n_seq_max = c.n_threads = c.n_threads_batch = 1
        c.type_k = c.type_v = c.flash_attn_type = 0
        c.embeddings, c.pooling_type = True, pooling
        self.pooling = pooling
        self.ctx = lib.llama_init_from_model(self.model, c)
        self.width = lib.llama_model_n_embd(self.model)

    def rows(self, ids):
        lib = self.lib
        lib.llama_memory_clear(lib.llama_get_memory(self.ctx), True)
        batch = lib.llama_batch_init(len(ids), 0, 1)
        pos, n_seq = C.cast(batch.pos, C.POINTER(C.c_int32)), C.cast(batch.n_seq_id, C.POINTER(C.c_int32))
        seq = C.cast(batch.seq_id, C.POINTER(C.POINTER(C.c_int32)))
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], pos[i], n_seq[i], seq[i][0], batch.logits[i] = token, i, 1, 0, 1
        if lib.llama_decode(self.ctx, batch):
            raise RuntimeError("llama_decode failed")
        lib.llama_batch_free(batch)
        if self.pooling:
            found = [lib.llama_get_embeddings_seq(self.ctx, 0)]
        else:
            found = [lib.llama_get_embeddings_ith(self.ctx, i) for i in range(len(ids))]
        return [np.ctypeslib.as_array(row, (self.width,)).astype(np.float64) for row in found]

    def close(self):
        self.lib.llama_free(self.ctx)
        self.lib.llama_model_free(self.model)


def check(hearth, texts, path):
    lines = open(texts, encoding="utf-8").read().removesuffix("\n").split("\n")
    ids = [run(hearth, "tokenize", path, "-q", "--no-escape", "-p", line).split() for line in lines]
    worst = 1.0
    for pooling, name in enumerate(POOLINGS):
        embedder = Embedder(path, pooling)
        want = np.array([row for tokens in ids for row in embedder.rows([int(t) for t in tokens])])
        embedder.close()
        got = np.array(json.loads(run(hearth, "embed", path, "-q", "-f", texts, "--pooling", name, "--embd-normalize", "-1",
                                      "-ctk", "f32", "-ctv", "f32", "--embd-output-format", "array")))  # fmt: skip
        cosines = (got * want).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(want, axis=1)
        error = np.linalg.norm(got - want) / np.linalg.norm(want)
        print(f"{os.path.basename(path)} {name}: {len(got)} rows, cosine {cosines.mean():.7f}, at least {cosines.min():.7f}; relative L2 {error:.1e}")
        worst = min(worst, cosines.mean())
    return worst


def main():
    hearth, texts, *models = sys.argv[1:]
    sys.exit(min([check(hearth, texts, model) for model in models]) < LIMIT)


if __name__ == "__main__":
    main()
