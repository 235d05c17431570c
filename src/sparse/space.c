// SPDX-License-Identifier: MIT
// Spaces of a model in memory.
#include "sparse/space.h"

#include "model/ffn.h"

struct hearth_space hearth_space_of(const struct hearth_hparams *hp, const struct hearth_layer *l, int expert)
{
    const struct hearth_ffn f = hearth_ffn_of(hp, l);
    const size_t n = f.up->n;
    return (struct hearth_space){hearth_expert(f.gate, expert), hearth_expert(f.up, expert),
                                 hearth_expert(f.down_t, expert), n, n};
}
