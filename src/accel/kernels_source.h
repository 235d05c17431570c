// SPDX-License-Identifier: MIT
// The texts of kernels that the program carries (cmake/accel_kernels.cmake).
#ifndef HEARTH_ACCEL_KERNELS_SOURCE_H
#define HEARTH_ACCEL_KERNELS_SOURCE_H

extern const char hearth_accel_kernels_cl[]; // kernels.cl, as OpenCL C
extern const char
    hearth_accel_kernels_ptx[]; // the same for NVIDIA's drivers; "": the build had no compiler for it

#endif
