// SPDX-License-Identifier: MIT
// Small vector operations over lanes in C (lanes_model.h).
#include "lanes_model.h"

#include "kernels/vector_tmpl.h"

void init_vector_model(struct hearth_kernels *t)
{
    init_vector(t);
}
