# SPDX-License-Identifier: MIT
# Encodes the formats whose numbers are points of grids (IQ1_S to IQ3_S), well enough for tests: scales from the
# largest number of a unit, then the nearest points. gguf-py has the grids, and decodes what comes out.

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

# unit, elements of a point, what scales count in (d * (step * s + start)), scales' bits, largest number
FORMATS = {
    T.IQ1_S: (32, 8, 2.0, 1.0, 3, 1.0), T.IQ1_M: (16, 8, 2.0, 1.0, 3, 1.0), T.IQ2_XXS: (32, 8, 0.25, 0.125, 4, 43.0),
    T.IQ2_XS: (16, 8, 0.25, 0.125, 4, 43.0), T.IQ2_S: (16, 8, 0.25, 0.125, 4, 43.0),
    T.IQ3_XXS: (32, 4, 0.5, 0.25, 4, 62.0), T.IQ3_S: (32, 4, 2.0, 1.0, 4, 15.0),
}  # fmt: skip


def grid_of(qtype):
    c = quants._type_traits[T.IQ1_S if qtype == T.IQ1_M else qtype]
    c.init_grid()
    return np.array(c.grid, np.float32).reshape(c.grid_shape)


def nearest(x, grid):
    """Indices of the points nearest to the rows of x."""
    return np.argmin((grid**2).sum(1) - 2 * x @ grid.T, axis=1).astype(np.uint32)


def nibbles(s):
    return (s[:, 0::2] | s[:, 1::2] << 4).astype(np.uint8)


def encode(x, qtype):
    """Rows of numbers to rows of bytes."""
    unit, points, step, start, bits, largest = FORMATS[qtype]
    b = x.reshape(-1, 256).astype(np.float32)
    n = len(b)
    want = np.abs(b).reshape(n, -1, unit).max(2) / largest
    d = (want.max(1) / (step * (2**bits - 1) + start)).astype(np.float16)
    s = np.clip(np.rint((want / np.maximum(d[:, None].astype(np.float32), 1e-30) - start) / step), 0, 2**bits - 1).astype(np.uint32)
    scale = d[:, None].astype(np.float32) * (step * s + start)
    y = b / np.maximum(np.repeat(scale, unit, axis=1), 1e-30)
    minus = (y < 0).reshape(n, -1, 8)
    if qtype in (T.IQ2_XXS, T.IQ2_XS, T.IQ3_XXS):  # an even number of minuses: the least number gives in
        odd = minus.sum(2) % 2 == 1
        least = np.abs(y).reshape(n, -1, 8).argmin(2)
        np.put_along_axis(minus, least[..., None], np.take_along_axis(minus, least[..., None], 2) ^ odd[..., None], 2)
    signs = np.packbits(minus, axis=2, bitorder="little").reshape(n, -1).astype(np.uint32)
    one = qtype in (T.IQ1_S, T.IQ1_M)
    down = (y.reshape(n, -1, unit if qtype == T.IQ1_S else 8).mean(2) < 0).astype(np.uint32)
    shift = np.repeat(np.where(down == 1, -0.125, 0.125), 256 // down.shape[1], axis=1)
    q = nearest((y - shift if one else np.abs(y)).reshape(-1, points).astype(np.float32), grid_of(qtype)).reshape(n, -1)
    low, high = (q & 255).astype(np.uint8), q >> 8
    head = d.view(np.uint8).reshape(n, 2)
    if qtype in (T.IQ2_XXS, T.IQ3_XXS):
        g = (signs & 127).reshape(n, 8, 4)
        words = g[..., 0] | g[..., 1] << 7 | g[..., 2] << 14 | g[..., 3] << 21 | s << 28
        words = words.astype("<u4").view(np.uint8).reshape(n, 8, 4)
        parts = [head, np.concatenate([low.reshape(n, 8, 4), words], 2).reshape(n, -1)] if qtype == T.IQ2_XXS else [head, low, words.reshape(n, -1)]
    elif qtype == T.IQ2_XS:
        parts = [head, (q | (signs & 127) << 9).astype("<u2").view(np.uint8).reshape(n, -1), nibbles(s)]
    elif qtype == T.IQ2_S:
        h = high.reshape(n, 8, 4)
        parts = [head, low, signs.astype(np.uint8), (h[..., 0] | h[..., 1] << 2 | h[..., 2] << 4 | h[..., 3] << 6).astype(np.uint8), nibbles(s)]
    elif qtype == T.IQ3_S:
        parts = [head, low, np.packbits(high.astype(np.uint8).reshape(n, 8, 8), axis=2, bitorder="little").reshape(n, 8), signs.astype(np.uint8), nibbles(s)]
    elif qtype == T.IQ1_S:
        h = high.reshape(n, 8, 4)
        words = h[..., 0] | h[..., 1] << 3 | h[..., 2] << 6 | h[..., 3] << 9 | s << 12 | down << 15
        parts = [head, low, words.astype("<u2").view(np.uint8).reshape(n, -1)]
    else:
        t = s.reshape(n, 4, 4)
        whole = d.view(np.uint16).astype(np.uint32)[:, None] >> np.array([0, 4, 8, 12], np.uint32) & 15
        words = t[..., 0] | t[..., 1] << 3 | t[..., 2] << 6 | t[..., 3] << 9 | whole << 12
        parts = [low, nibbles(high | down << 3), words.astype("<u2").view(np.uint8).reshape(n, -1)]
    return np.concatenate(parts, 1).reshape(len(x), -1)
