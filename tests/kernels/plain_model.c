// SPDX-License-Identifier: MIT
// Products of plain numbers over lanes in C (lanes_model.h).
#include "lanes_model.h"

#include "kernels/plain_tmpl.h"

void init_plain_model(struct hearth_kernels *t)
{
    init_plain(t);
}
