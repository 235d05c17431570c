// SPDX-License-Identifier: MIT
// The number of the numeric law: of all arithmetic that defines logits.
//
// The law is what kernels/kernels.h says of products, sums and activations, how quant/ decodes, and what the
// engine does in a fixed order: tiles of attention and their ranges (attention.c, HEARTH_KV_TILE), clusters
// of neurons (sparse/space.h), experts (moe.c), recurrent layers (recurrent.c), streams, choices and n-grams
// (streams.c, choose.c, grams.c), the frequencies of the rotation (rope.c). A change that is meant to change any bit of any logit of a model that ran before raises
// the number, and records tests/golden/bits.txt anew. What was computed under another law must not go on
// under this one: saved sequences have its number.
#ifndef HEARTH_ENGINE_LAW_H
#define HEARTH_ENGINE_LAW_H

#include <stdint.h>

#define HEARTH_NUMERIC_LAW 3
// Beside the number, in files of sessions with a device that may have other numbers than the law's.
#define HEARTH_LAW_INEXACT (UINT32_C(1) << 31)

#endif
