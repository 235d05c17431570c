# SPDX-License-Identifier: MIT
# Shared by the oracle scripts: golden files, the two small vocabularies, and llama.cpp's number formats by ctypes.

import ctypes
import glob
import os
import struct
import sys

import numpy as np
import regex

MAGIC = b"HGLD"
VERSION = 1


# ---- golden logits -------------------------------------------------------------------------------------------


def write_logits(path, tokens, original, dequantised=None):
    """original, dequantised: float32 [n_tokens][n_vocab]."""
    n_tokens, n_vocab = original.shape
    assert len(tokens) == n_tokens
    with open(path, "wb") as f:
        f.write(MAGIC + struct.pack("<III", VERSION, n_tokens, n_vocab))
        f.write(np.asarray(tokens, "<i4").tobytes())
        f.write(np.ascontiguousarray(original, "<f4").tobytes())
        if dequantised is not None:
            assert dequantised.shape == original.shape
            f.write(np.ascontiguousarray(dequantised, "<f4").tobytes())


def read_logits(path):
    """Returns tokens, logits of the original, logits of the dequantised file (or None)."""
    data = open(path, "rb").read()
    version, n_tokens, n_vocab = struct.unpack_from("<III", data, 4)
    if data[:4] != MAGIC or version != VERSION:
        raise ValueError(f"{path}: not a golden logits file of version {VERSION}")
    tokens = np.frombuffer(data, "<i4", n_tokens, 16)
    rest = np.frombuffer(data, "<f4", -1, 16 + 4 * n_tokens)
    size = n_tokens * n_vocab
    if rest.size not in (size, 2 * size):
        raise ValueError(f"{path}: {rest.size} logits, expected {size} or {2 * size}")
    planes = rest.reshape(-1, n_tokens, n_vocab)
    return tokens, planes[0], planes[1] if len(planes) == 2 else None


def relative_l2(got, want):
    got = np.asarray(got, np.float64)
    want = np.asarray(want, np.float64)
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


# ---- vocabularies of 288 tokens ------------------------------------------------------------------------------

N_VOCAB = 288
SPM_SPACE = "\u2581"
# Best first; every longer piece is the join of two shorter ones or of characters.
SPM_PIECES = [
    "_t", "he", "_the", "_a", "in", "re", "er", "_s", "nd", "on", "_w", "at", "_and", "ou", "it", "is", "en", "_f",
    "ed", "_h", "_in", "_", "e", "t", "a", "o", "n", "i", "s",
]  # fmt: skip


class SpmVocab:
    """SentencePiece-style BPE with scores and byte fallback, as in Llama 2."""

    model, pre, bos, eos, unk = "llama", None, 1, 2, 0

    def __init__(self):
        pieces = [p.replace("_", SPM_SPACE) for p in SPM_PIECES]
        self.tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + pieces
        self.scores = [0.0] * 259 + [-float(i) for i in range(len(pieces))]
        self.types = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
        self.merges = None
        assert len(self.tokens) == N_VOCAB
        self.rank = {p: i for i, p in enumerate(pieces)}

    def encode(self, text):
        symbols = list((" " + text).replace(" ", SPM_SPACE))
        while True:
            pairs = [(self.rank.get(a + b, 1 << 30), i) for i, (a, b) in enumerate(zip(symbols, symbols[1:]))]
            best = min(pairs, default=(1 << 30, 0))
            if best[0] == 1 << 30:
                break
            i = best[1]
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        ids = [self.bos]
        for s in symbols:
            ids += [259 + self.rank[s]] if s in self.rank else [3 + b for b in s.encode()]
        return ids


def byte_characters():
    """The printable character that stands for each byte in byte-level BPE."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {}, 0
    for b in range(256):
        if b in kept:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


class BpeVocab:
    """Byte-level BPE with merges, as in Llama 3 (its pre-tokenizer)."""

    model, pre, bos, eos, unk = "gpt2", "llama-bpe", 284, 285, None
    MERGES = ("_ t|h e|_t he|_ a|i n|r e|e r|_ s|n d|o n|_ w|a t|_a nd|o u|i t|i s|e n|_ f|e d|_ h|_ in|in g|_ o|_o n|"
              "_t h|_h e|s t|_ b").split("|")  # fmt: skip
    SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
             r"\s+(?!\S)|\s+")  # fmt: skip

    def __init__(self):
        self.chars = byte_characters()
        space = self.chars[32]
        self.merges = [m.replace("_", space) for m in self.MERGES]
        joined = [m.replace(" ", "") for m in self.merges]
        special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|reserved_0|>"]
        self.tokens = [self.chars[b] for b in range(256)] + joined + special
        self.types = [1] * (256 + len(joined)) + [3] * len(special)
        self.scores = None
        assert len(self.tokens) == N_VOCAB and len(set(self.tokens)) == N_VOCAB
        self.rank = {tuple(m.split(" ")): i for i, m in enumerate(self.merges)}
        self.id = {t: i for i, t in enumerate(self.tokens)}

    def encode(self, text):
        ids = [self.bos]
        for word in regex.findall(self.SPLIT, text):
            symbols = [self.chars[b] for b in word.encode()]
            if "".join(symbols) in self.id:  # Llama 3 takes a whole word before any merge
                symbols = ["".join(symbols)]
            while True:
                pairs = [(self.rank.get(p, 1 << 30), i) for i, p in enumerate(zip(symbols, symbols[1:]))]
                best = min(pairs, default=(1 << 30, 0))
                if best[0] == 1 << 30:
                    break
                i = best[1]
                symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
            ids += [self.id[s] for s in symbols]
        return ids


# ---- llama.cpp's shared libraries ----------------------------------------------------------------------------


def llama_library_dir():
    """Folder of libggml-base.so and libllama*.so: $LLAMA_LIBS, or those of bench/peer's node_modules."""
    here = os.path.dirname(os.path.abspath(__file__))
    modules = os.path.join(here, "..", "..", "bench", "peer", "node_modules")
    where = os.environ.get("LLAMA_LIBS") or os.path.join(modules, "@node-llama-cpp", "linux-x64", "bins", "linux-x64")
    if not os.path.exists(os.path.join(where, "libggml-base.so")):
        raise SystemExit("llama.cpp's libraries not found: set LLAMA_LIBS to the folder of libggml-base.so "
                 "(see bench/peer/README.md)")  # fmt: skip
    return where


class GgmlBase:
    """ggml's quantisers and decoders: the definition of the formats that Python packages cannot write."""

    def __init__(self):
        self.lib = ctypes.CDLL(glob.glob(os.path.join(llama_library_dir(), "libggml-base*.so"))[0])
        self.lib.ggml_quantize_chunk.restype = ctypes.c_size_t
        self.lib.ggml_quantize_chunk.argtypes = [
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
            ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
        ]  # fmt: skip

    def quantize(self, x, qtype, block_elems, block_bytes):
        """x: float32 [rows][n]; returns uint8 [rows][bytes]. As `llama-quantize --pure` without an importance matrix."""
        x = np.ascontiguousarray(x, np.float32)
        rows, n = x.shape
        assert n % block_elems == 0
        out = np.zeros((rows, n // block_elems * block_bytes), np.uint8)
        self.lib.ggml_quantize_init(int(qtype))
        done = self.lib.ggml_quantize_chunk(int(qtype), x.ctypes.data, out.ctypes.data, 0, rows, n, None)
        assert done == out.nbytes
        return out

    def dequantize(self, raw, name, n):
        """raw: uint8 bytes of n elements; name as in dequantize_row_NAME."""
        raw = np.ascontiguousarray(raw, np.uint8)
        out = np.empty(n, np.float32)
        fn = getattr(self.lib, f"dequantize_row_{name}")
        fn.restype = None
        fn.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        fn(raw.ctypes.data, out.ctypes.data, n)
        return out
