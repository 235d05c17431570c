// SPDX-License-Identifier: MIT
// A processor whose instructions Hearth does not know: the C reference is all there is.
#include "kernels/variants.h"

const struct hearth_kernel_level hearth_kernel_levels[] = {{0, NULL}};
