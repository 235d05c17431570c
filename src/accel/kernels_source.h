// SPDX-License-Identifier: MIT
// The texts of kernels that the program carries (cmake/accel_kernels.cmake).
#ifndef HEARTH_ACCEL_KERNELS_SOURCE_H
#define HEARTH_ACCEL_KERNELS_SOURCE_H

extern const char hearth_accel_kernels_cl[]; // kernels/ as OpenCL C
// For NVIDIA's drivers; "": the build had no compiler for it. All but those for matrix units, of compute capability 6.1
// on, and these, of 8.0 on.
extern const char hearth_accel_kernels_ptx[], hearth_accel_kernels_ptx_80[];

#endif
