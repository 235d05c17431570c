// SPDX-License-Identifier: MIT
// Goes before the text of kernels for NVIDIA's matrix units, which is compiled for the CPU: items are threads
// (test_matrix.c), and its instructions are functions. How items of a warp hold matrices is written in the PTX ISA,
// "Matrix fragments for mma.m16n8k16" and "mma.m16n8k32" with integers.
unsigned __nvvm_read_ptx_sreg_ctaid_x(void);
unsigned __nvvm_read_ptx_sreg_ctaid_y(void);
unsigned __nvvm_read_ptx_sreg_ctaid_z(void);
unsigned __nvvm_read_ptx_sreg_tid_x(void);
void __syncthreads(void);
float __nvvm_sqrt_rn_f(float x);
float __nvvm_div_rn_f(float x, float y);
float model_half(unsigned short h);
int model_dot4(unsigned a, unsigned b, int to);
void model_multiply(int *d, const unsigned *a, const unsigned *b, int k);

#define HALF_TO_FLOAT(f, h)  ((f) = model_half(h))
#define DOT4(sum, a, b, to)  ((sum) = model_dot4(a, b, to))
#define MULTIPLY_32(d, a, b) model_multiply(d, a, b, 32)
#define MULTIPLY_16(d, a, b) model_multiply(d, a, b, 16)
