# SPDX-License-Identifier: MIT
# Encodes and decodes formats that gguf-py cannot: NVFP4 with the scales of whole matrices, as ModelOpt makes them, and
# formats of one and two bits by ggml.

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import NVFP4

from oracle_common import GgmlBase

BY_GGML = (T.TQ1_0, T.TQ2_0, T.Q1_0, T.Q2_0)
# Matrices that checkpoints have in NVFP4.
MATRICES = ("attn_q.", "attn_k.", "attn_v.", "attn_output.", "attn_qkv.", "ffn_gate.", "ffn_up.", "ffn_down.",
            "ffn_gate_exps.", "ffn_up_exps.", "ffn_down_exps.")  # fmt: skip
UNSCALED = ("blk.0.attn_v.weight",)  # files leave out scales of 1
VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def has_nvfp4(tensor):
    return any("." + part in tensor for part in MATRICES)


def encode_nvfp4(x, name):
    """Matrices [..., n, k] to bytes [..., n, bytes], and scales [matrices] or None."""
    most = np.abs(x).reshape(-1, x.shape[-2] * x.shape[-1]).max(1)
    scales = (most / (6 * 448)).astype(np.float32)
    # Few bits, so that the product with a weight is exact in float32.
    scales = (scales.view(np.uint32) + 0x8000 & 0xFFFF0000).astype(np.uint32).view(np.float32)
    if name in UNSCALED:
        scales[:] = 1
    units = x.reshape(len(scales), -1, 16) / scales[:, None, None]
    d = NVFP4.fp32_to_ue4m3(np.abs(units).max(2) / 6)
    by = 2 * NVFP4.ue4m3_to_fp32(d)
    y = units / np.where(by == 0, 1, by)[..., None]
    q = np.abs(np.abs(y)[..., None] - VALUES).argmin(-1).astype(np.uint8) | np.where(y < 0, 8, 0).astype(np.uint8)
    bytes_ = (q[..., :8] | q[..., 8:] << 4).reshape(-1, 32)
    raw = np.concatenate([d.reshape(-1, 4), bytes_], 1)
    return raw.reshape(*x.shape[:-1], x.shape[-1] // 64 * 36), None if name in UNSCALED else scales


def decode_nvfp4(raw, scales):
    x = gguf.dequantize(raw, T.NVFP4)
    return x if scales is None else (x.reshape(len(scales), -1) * scales[:, None]).reshape(x.shape)


def encode(x, qtype):
    return GgmlBase().quantize(x, qtype, *gguf.GGML_QUANT_SIZES[qtype])


def decode(raw, qtype):
    elems, size = gguf.GGML_QUANT_SIZES[qtype]
    return GgmlBase().dequantize(raw, qtype.name.lower(), raw.size // size * elems).reshape(len(raw), -1)
