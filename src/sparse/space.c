// SPDX-License-Identifier: MIT
// Spaces of a model in memory.
#include "sparse/space.h"

static struct hearth_weight one_of(const struct hearth_weight *all, int expert)
{
    return all->data ? hearth_expert(all, expert) : *all;
}

struct hearth_space hearth_space_of(const struct hearth_hparams *hp, const struct hearth_layer *l, int expert)
{
    if (!hp->n_expert)
        return (struct hearth_space){l->ffn_gate, l->ffn_up, l->ffn_down_t, (size_t)hp->n_ff,
                                     (size_t)hp->n_ff};
    return (struct hearth_space){one_of(&l->ffn_gate_exps, expert), one_of(&l->ffn_up_exps, expert),
                                 one_of(&l->ffn_down_t_exps, expert), (size_t)hp->n_ff_exp,
                                 (size_t)hp->n_ff_exp};
}
