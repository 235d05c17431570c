// SPDX-License-Identifier: MIT
// The ladder of kernel variants: the C reference fills the table, then each level of the processor's
// instructions overwrites the entries that it does faster. Nothing else in Hearth calls a variant directly.
//
// To add a processor: a folder here and one in base (as x86 has them), a line in CMakeLists.txt that chooses
// them, and one with compiler flags for each level. base/PROCESSOR/cpu_PROCESSOR.c has the levels' names and
// detects them, init_PROCESSOR.c here says what each of them fills the table with, FAMILY_LEVEL.c are the
// kernels (kernels.h lists the families). With a lanes16.h (instruction_set.h) it gets the families plain,
// axpy and vector from the templates.
#ifndef HEARTH_KERNELS_VARIANTS_H
#define HEARTH_KERNELS_VARIANTS_H

#include <stdatomic.h>

#include "kernels/kernels.h"

// ---- what a processor has

struct hearth_kernel_level {
    unsigned flag; // of base/cpu.h
    void (*init)(struct hearth_kernels *t);
};
// From the lowest level to the highest; one without a function ends the table.
extern const struct hearth_kernel_level hearth_kernel_levels[];

// ---- for those who fill the table

// All entries that the number formats allow.
void hearth_kernels_init_step_c(struct hearth_kernels *t);
void hearth_kernels_init_prompt_c(struct hearth_kernels *t);
void hearth_kernels_init_plain_c(struct hearth_kernels *t);
void hearth_kernels_init_axpy_c(struct hearth_kernels *t);
void hearth_kernels_init_vector_c(struct hearth_kernels *t);

// Makes hearth_kernels_scratch() at least need(k), bytes for rows of k elements.
void hearth_kernels_raise_scratch(struct hearth_kernels *t, size_t (*need)(size_t k));

// Lets `init` overwrite entries of the table if all its products of block formats then have the reference's
// bits (a few milliseconds); else leaves the table as it is and says so through the log, calling what is not
// used `level`. Returns whether they are used.
bool hearth_kernels_adopt(struct hearth_kernels *table, void (*init)(struct hearth_kernels *),
                          const char *level);
// Lets `use` overwrite entries once `check` was adopted, in this call or an earlier one of the process, which
// *proved remembers; else the CPU loses the flag. Thread-safe.
void hearth_kernels_adopt_once(struct hearth_kernels *table, void (*check)(struct hearth_kernels *),
                               void (*use)(struct hearth_kernels *), const char *level, unsigned flag,
                               atomic_bool *proved);

// The number formats that kernels know.
#define HEARTH_PLAIN_TYPES(X) X(F32) X(F16) X(BF16)
#define HEARTH_BLOCK_TYPES(X)                                                                                \
    X(Q4_0)                                                                                                  \
    X(Q4_1)                                                                                                  \
    X(Q5_0)                                                                                                  \
    X(Q5_1)                                                                                                  \
    X(Q8_0)                                                                                                  \
    X(Q2_K)                                                                                                  \
    X(Q3_K)                                                                                                  \
    X(Q4_K)                                                                                                  \
    X(Q5_K)                                                                                                  \
    X(Q6_K)                                                                                                  \
    X(IQ4_NL)                                                                                                \
    X(IQ4_XS)                                                                                                \
    X(MXFP4)                                                                                                 \
    X(IQ1_S)                                                                                                 \
    X(IQ1_M)                                                                                                 \
    X(IQ2_XXS)                                                                                               \
    X(IQ2_XS)                                                                                                \
    X(IQ2_S)                                                                                                 \
    X(IQ3_XXS)                                                                                               \
    X(IQ3_S)                                                                                                 \
    X(TQ1_0)                                                                                                 \
    X(TQ2_0)                                                                                                 \
    X(Q1_0)                                                                                                  \
    X(Q2_0)                                                                                                  \
    X(NVFP4)

// Enters the functions of a family that are named as the entries are.
#define HEARTH_ENTER_PLAIN_TYPE(t, type)                                                                     \
    (t)->step[HEARTH_TYPE_##type] = step_##type;                                                             \
    (t)->dot_rows[HEARTH_TYPE_##type] = dot_rows_##type;                                                     \
    (t)->prompt[HEARTH_TYPE_##type] = prompt_##type;
#define HEARTH_ENTER_PLAIN(t)                                                                                \
    HEARTH_ENTER_PLAIN_TYPE(t, F32)                                                                          \
    HEARTH_ENTER_PLAIN_TYPE(t, F16)                                                                          \
    HEARTH_ENTER_PLAIN_TYPE(t, BF16)
// All of them but rope().
#define HEARTH_ENTER_VECTOR(t)                                                                               \
    (t)->quantize_acts = quantize_acts;                                                                      \
    (t)->rms_norm = rms_norm;                                                                                \
    (t)->layer_norm = layer_norm;                                                                            \
    (t)->add = add;                                                                                          \
    (t)->glu = glu;                                                                                          \
    (t)->activate = activate;                                                                                \
    (t)->softmax_tile = softmax_tile;                                                                        \
    (t)->scale_add = scale_add;                                                                              \
    (t)->delta = delta;                                                                                      \
    (t)->delta_each = delta_each;                                                                            \
    (t)->scan = scan;

#endif
