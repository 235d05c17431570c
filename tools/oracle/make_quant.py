# SPDX-License-Identifier: MIT
# Makes tests/golden/quant: for each GGML block format raw blocks (random and hostile) with what the reference decodes
# them to, and for formats Hearth writes float inputs with what the reference encodes them to. The reference is ggml's
# plain C in llama.cpp's libggml-base; gguf-py must agree with it bit for bit, or the difference is printed.
#
#   LLAMA_LIBS=DIR python make_quant.py [--out DIR]

import argparse
import os
import struct
import warnings

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

from oracle_common import GgmlBase

VERSION = 1
# Byte offsets of the F16 numbers of a block: scale, then minimum where there is one.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "IQ2_XXS": [0], "IQ2_XS": [0],
    "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": None, "TQ1_0": [52], "TQ2_0": [64],
    "MXFP4": [], "NVFP4": [], "Q1_0": [0], "Q2_0": [0],
}  # fmt: skip
# F16 bits: zeros, least and greatest subnormal, least normal, one, largest, some ordinary scales.
SCALES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x2E66, 0x9C01, 0x1234]
ODD_SCALES = [0x7C00, 0xFC00, 0x7E00]
FILLS = [0x00, 0xFF, 0x55, 0xAA, 0x0F, 0xF0, 0x80, 0x7F, 0x01]


def put_half(block, name, at, bits):
    if at is None:  # IQ1_M keeps its scale in the high nibbles of four 16-bit words at the end
        words = block[48:56].view("<u2")
        words &= 0x0FFF
        words |= np.array([(bits >> (4 * i) & 15) << 12 for i in range(4)], np.uint16)
    else:
        block[at : at + 2] = np.frombuffer(struct.pack("<H", bits), np.uint8)


def finite_half(rng):
    """A plausible scale: any sign, magnitudes from 2^-14 to 2."""
    return int(np.float16(rng.choice([-1, 1]) * 2.0 ** rng.uniform(-14, 1)).view(np.uint16))


def raw_blocks(name, size, n, n_odd, rng):
    blocks = []
    places = HALVES[name] if HALVES[name] is not None else [None]
    for i in range(n + n_odd):
        if i < len(FILLS):
            b = np.full(size, FILLS[i], np.uint8)
        elif i == len(FILLS):
            b = (np.arange(size) * 37 + 11).astype(np.uint8)
        else:
            b = rng.randint(0, 256, size).astype(np.uint8)
        for j, at in enumerate(places):
            if i >= n:
                bits = ODD_SCALES[(i - n + j) % 3]
            elif i < 3 * len(SCALES):
                bits = SCALES[(i * (1 + 4 * j)) % len(SCALES)]
            else:
                bits = finite_half(rng)
            put_half(b, name, at, bits)
        if name == "MXFP4":  # a power of two in one byte: every value in turn
            b[0] = [0, 1, 2, 3, 126, 127, 128, 129, 251, 252][i] if i < 10 else 100 + i % 50
            if i >= n:
                b[0] = 253 + i % 3  # times 12 beyond float32
        blocks.append(b)
    return np.stack(blocks)


def same(a, b):
    """Bit for bit; any NaN equals any NaN."""
    return np.array_equal(np.where(np.isnan(a), 0, a.view(np.uint32)), np.where(np.isnan(b), 0, b.view(np.uint32)))


def write(path, magic, name, elems, size, n, n_odd, first, second):
    with open(path, "wb") as f:
        f.write(magic + struct.pack("<IIIIII", VERSION, int(T[name]), elems, size, n, n_odd))
        f.write(np.ascontiguousarray(first).tobytes())
        f.write(np.ascontiguousarray(second).tobytes())


def decode_goldens(out, ggml):
    for k, name in enumerate(HALVES):
        rng = np.random.RandomState(1000 + k)
        elems, size = gguf.GGML_QUANT_SIZES[T[name]]
        n, n_odd = (144, 12) if elems == 32 else (44, 4)
        raw = raw_blocks(name, size, n, n_odd, rng)
        function = "q" + name[1:] if name.endswith("_K") else name.lower()
        want = ggml.dequantize(raw, function, len(raw) * elems)
        assert np.isfinite(want[: n * elems]).all(), name
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = gguf.dequantize(raw, T[name]).reshape(-1)
            for label, s in (("", slice(0, n * elems)), (" odd section", slice(n * elems, None))):
                if not same(other[s], want[s]):
                    d = np.nonzero(other[s].view(np.uint32) != want[s].view(np.uint32))[0]
                    print(f"{name}{label}: gguf-py differs in {len(d)} of {len(want[s])} numbers, e.g. "
                          f"{other[s][d[0]]!r} for {want[s][d[0]]!r}")  # fmt: skip
        except NotImplementedError:
            print(f"{name}: gguf-py cannot decode it")
        write(os.path.join(out, name + ".decode"), b"HGLQ", name, elems, size, n, n_odd, raw, want)
    # Plain 16-bit numbers: a spread of bit patterns with all exponents, then infinities and NaNs.
    rng = np.random.RandomState(1)
    ends = np.array([e << 10 | m for e in range(31) for m in (0, 1, 2, 0x1FF, 0x200, 0x201, 0x3FE, 0x3FF)], np.uint16)
    some = np.array([b for b in rng.randint(0, 65536, 1600) if b & 0x7C00 != 0x7C00], np.uint16)
    f16 = np.concatenate([ends, ends | 0x8000, some])
    odd = np.array([0x7C00, 0xFC00, 0x7E00, 0x7C01, 0xFE00, 0xFFFF], np.uint16)
    raw = np.concatenate([f16, odd])
    write(os.path.join(out, "F16.decode"), b"HGLQ", "F16", 1, 2, len(f16), len(odd), raw,
          raw.view(np.float16).astype(np.float32))  # fmt: skip
    ends = np.array([e << 7 | m for e in range(255) for m in (0, 1, 0x7F)], np.uint16)
    bf = np.concatenate([ends, ends | 0x8000])
    odd = np.array([0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFC0, 0xFFFF], np.uint16)
    raw = np.concatenate([bf, odd])
    write(os.path.join(out, "BF16.decode"), b"HGLQ", "BF16", 1, 2, len(bf), len(odd), raw,
          (raw.astype(np.uint32) << 16).view(np.float32))  # fmt: skip


# ---- encoding ------------------------------------------------------------------------------------------------


def plain_inputs(rng):
    """Inputs for F16 and BF16: both ranges' ends, exact ties and their neighbours, subnormals of all kinds."""
    x = []
    for bits in (*range(0, 12), *range(0x3FC, 0x404), 0x3BFF, 0x3C00, 0x3C01, 0x7BFE, 0x7BFF):
        h = float(np.uint16(bits).view(np.float16))
        up = float(np.uint16(bits + 1).view(np.float16)) if bits < 0x7BFF else 65536.0
        tie = np.float32((h + up) / 2)
        x += [h, tie, np.nextafter(tie, np.float32(0)), np.nextafter(tie, np.float32(1e9))]
    for bits in (0, 1, 2, 3, 0x7F, 0x80, 0x81, 0x3F7F, 0x3F80, 0x3F81, 0x7F7E, 0x7F7F):
        low = bits << 16
        words = np.array([low, low | 0x7FFF, low | 0x8000, low | 0x8001, low | 0xFFFF], np.uint32)
        x += list(words.view(np.float32))
    x = np.array(x, np.float32)
    wide = rng.choice([-1, 1], 900) * 2.0 ** rng.uniform(-149, 127.9, 900)
    near = rng.standard_normal(600) * 2.0 ** rng.uniform(-26, 16, 600)
    return np.concatenate([x, -x, wide.astype(np.float32), near.astype(np.float32)])


def block_inputs(rng):
    """Blocks of 32 for the plain block formats. The last n_odd have a scale beyond F16."""
    b = [np.zeros(32), -np.zeros(32), np.ones(32), -np.ones(32)]
    ties = np.arange(32) - 15.5
    b += [np.r_[127.0, ties[1:]], np.r_[-127.0, ties[1:]]]  # scale exactly 1 for Q8_0: halves are ties
    ties4 = np.tile(np.arange(16) - 7.5, 2)
    b += [np.r_[-8.0, ties4[1:]], np.r_[8.0, ties4[1:]], np.r_[ties4[1:], -8.0]]  # the same for Q4_0
    b += [np.r_[np.zeros(31), 1.0], np.r_[np.zeros(31), -1e-7], np.r_[1.0, np.full(31, 1e-40)]]
    b += [np.r_[3.0, -3.0, np.linspace(-3, 3, 30)], np.r_[-3.0, 3.0, np.linspace(-3, 3, 30)]]  # which of two extremes
    for power in (-120, -60, -30, -24, -20, -14, -8, 0, 8, 15):
        b.append(rng.standard_normal(32) * 2.0**power)
    b += [np.linspace(0, 1, 32), np.linspace(5, 6, 32), np.r_[60000.0 * 8, rng.standard_normal(31) * 4e5]]
    b += [rng.standard_normal(32) for _ in range(48)] + [rng.standard_t(2, 32) for _ in range(16)]
    odd = [rng.standard_normal(32) * 1e8, np.r_[3e38, rng.standard_normal(31) * 1e38], np.r_[-1e30, np.zeros(31)]]
    return np.array(b, np.float32), np.array(odd, np.float32)


def k_inputs(rng):
    """Blocks of 256 as found in weights, and some that are not."""
    b = [np.zeros(256), np.ones(256), -np.ones(256), np.full(256, 0.3), np.linspace(-1, 1, 256), np.linspace(3, 4, 256)]
    b += [np.r_[1.0, np.zeros(255)], np.r_[-1.0, np.full(255, 1e-3)], np.tile(np.r_[np.zeros(32), np.ones(32)], 4)]
    b += [rng.standard_normal(256) * 2.0**p for p in (-20, -12, -6, 0, 6)]
    b += [rng.standard_normal(256) * 0.02 for _ in range(10)] + [rng.standard_t(3, 256) * 0.02 for _ in range(4)]
    b += [np.abs(rng.standard_normal(256)), -np.abs(rng.standard_normal(256)), rng.standard_normal(256) * 0.1 + 2]
    b += [rng.standard_normal(256) * np.repeat(2.0 ** rng.uniform(-8, 0, 8), 32) for _ in range(4)]
    return np.array(b, np.float32)


def encode_goldens(out, ggml):
    rng = np.random.RandomState(7)
    x = plain_inputs(rng)
    odd = np.array([np.inf, -np.inf, np.nan, -np.nan], np.float32)
    both = np.concatenate([x, odd])
    for name in ("F16", "BF16"):
        raw = ggml.quantize(both[None], T[name], 1, 2).view(np.uint16)[0]
        if name == "F16":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = both.astype(np.float16).view(np.uint16)
        else:
            other = gguf.quantize(both[None], T.BF16).view(np.uint16)[0]
        d = np.nonzero(other[: len(x)] != raw[: len(x)])[0]
        if len(d):
            print(f"{name} encode: numpy or gguf-py differs in {len(d)} of {len(x)}, e.g. {x[d[0]]!r}: "
                  f"{other[d[0]]:#06x} for {raw[d[0]]:#06x}")  # fmt: skip
        write(os.path.join(out, name + ".encode"), b"HGLE", name, 1, 2, len(x), len(odd), both, raw)
    x, odd = block_inputs(rng)
    both = np.concatenate([x, odd])
    for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        elems, size = gguf.GGML_QUANT_SIZES[T[name]]
        raw = ggml.quantize(both, T[name], elems, size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = gguf.quantize(both, T[name])
        d = np.nonzero((other[: len(x)] != raw[: len(x)]).any(1))[0]
        if len(d):
            print(f"{name} encode: gguf-py differs in {len(d)} of {len(x)} blocks: {d[:10]}")
        write(os.path.join(out, name + ".encode"), b"HGLE", name, elems, size, len(x), len(odd), both, raw)
    x = k_inputs(rng)
    for name in ("Q4_K", "Q5_K", "Q6_K"):
        elems, size = gguf.GGML_QUANT_SIZES[T[name]]
        raw = ggml.quantize(x, T[name], elems, size)
        back = gguf.dequantize(raw, T[name])
        print(f"{name} encode: relative RMSE {np.linalg.norm(back - x) / np.linalg.norm(x):.5f}")
        write(os.path.join(out, name + ".encode"), b"HGLE", name, elems, size, len(x), 0, x, raw)
    x = np.concatenate([x[::2], np.array([np.where(rng.rand(256) < 0.3, 0, s * rng.choice([-1, 1], 256)) for s in (
        0.01, 1.0, 3.0)], np.float32), [np.tile([0.5, -0.5, 0.49, 1.0], 64)]]).astype(np.float32)  # fmt: skip
    for name in ("TQ1_0", "TQ2_0", "Q1_0", "Q2_0"):
        elems, size = gguf.GGML_QUANT_SIZES[T[name]]
        blocks = x.reshape(-1, elems)
        raw = ggml.quantize(blocks, T[name], elems, size)
        try:
            d = np.nonzero((gguf.quantize(blocks, T[name]) != raw).any(1))[0]
            if len(d):
                print(f"{name} encode: gguf-py differs in {len(d)} of {len(blocks)} blocks: {d[:10]}")
        except NotImplementedError:
            print(f"{name}: gguf-py cannot encode it")
        write(os.path.join(out, name + ".encode"), b"HGLE", name, elems, size, len(blocks), 0, blocks, raw)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser()
    p.add_argument("--out", default=os.path.join(here, "..", "..", "tests", "golden", "quant"))
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    ggml = GgmlBase()
    decode_goldens(a.out, ggml)
    encode_goldens(a.out, ggml)


if __name__ == "__main__":
    main()
