// SPDX-License-Identifier: MIT
// The falcon-h1 architecture: Falcon-H1. In each layer attention and a scan whose states fade (Mamba-2) read the same input,
// and both are added; the scan's output may have no norm.
#include "model/arch.h"

static const struct hearth_binding globals[] = {
    HEARTH_GLOBALS,
    {0},
};

static const struct hearth_binding layer[] = {
    HEARTH_LAYER("attn_norm.weight", attn_norm, EMBD, NONE, ALWAYS),
    HEARTH_LAYER_QKV,
    HEARTH_LAYER("attn_output.weight", attn_out, Q, EMBD, ALWAYS),
    HEARTH_LAYER_SCAN,
    HEARTH_LAYER_SCAN_NORM(RECURS_MAYBE),
    HEARTH_LAYER("ffn_norm", ffn_norm, EMBD, NONE, ALWAYS), // its name in these files
    HEARTH_LAYER_GATED(ALWAYS),
    HEARTH_LAYER_SPARSE,
    HEARTH_LAYER_JUMP,
    {0},
};

const struct hearth_arch hearth_arch_falcon_h1 = {
    .name = "falcon-h1",
    .positions = HEARTH_POS_ROPE_NEOX,
    .activation = HEARTH_ACT_SILU,
    .recurrence = HEARTH_RECURRENCE_SCAN,
    .rec_beside = true,
    .globals = globals,
    .layer = layer,
};
