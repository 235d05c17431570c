// SPDX-License-Identifier: MIT
// Number formats of tensors: sizes, decoding to f32, encoding from f32. Plain C, compiled without contraction
// of multiply and add. Kernels are tested against these functions.
//
// Layouts follow the GGUF block formats of the ggml family; all are little-endian. A row of n elements is
// n / block_elems consecutive blocks.
#ifndef HEARTH_QUANT_QUANT_H
#define HEARTH_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Numbers as stored in GGUF files.
enum hearth_type {
    HEARTH_TYPE_F32 = 0,
    HEARTH_TYPE_F16 = 1,
    HEARTH_TYPE_Q4_0 = 2,
    HEARTH_TYPE_Q4_1 = 3,
    HEARTH_TYPE_Q5_0 = 6,
    HEARTH_TYPE_Q5_1 = 7,
    HEARTH_TYPE_Q8_0 = 8,
    HEARTH_TYPE_Q8_1 = 9,
    HEARTH_TYPE_Q2_K = 10,
    HEARTH_TYPE_Q3_K = 11,
    HEARTH_TYPE_Q4_K = 12,
    HEARTH_TYPE_Q5_K = 13,
    HEARTH_TYPE_Q6_K = 14,
    HEARTH_TYPE_Q8_K = 15,
    HEARTH_TYPE_IQ2_XXS = 16,
    HEARTH_TYPE_IQ2_XS = 17,
    HEARTH_TYPE_IQ3_XXS = 18,
    HEARTH_TYPE_IQ1_S = 19,
    HEARTH_TYPE_IQ4_NL = 20,
    HEARTH_TYPE_IQ3_S = 21,
    HEARTH_TYPE_IQ2_S = 22,
    HEARTH_TYPE_IQ4_XS = 23,
    HEARTH_TYPE_I8 = 24,
    HEARTH_TYPE_I16 = 25,
    HEARTH_TYPE_I32 = 26,
    HEARTH_TYPE_I64 = 27,
    HEARTH_TYPE_F64 = 28,
    HEARTH_TYPE_IQ1_M = 29,
    HEARTH_TYPE_BF16 = 30,
    HEARTH_TYPE_TQ1_0 = 34,
    HEARTH_TYPE_TQ2_0 = 35,
    HEARTH_TYPE_MXFP4 = 39,
    HEARTH_TYPE_NVFP4 = 40,
    HEARTH_TYPE_Q1_0 = 41,
    HEARTH_TYPE_Q2_0 = 42,
    HEARTH_TYPE_END = 43
};

// n is a multiple of block_elems; src needs no alignment.
typedef void (*hearth_decode_fn)(const void *src, float *dst, size_t n);
typedef void (*hearth_encode_fn)(const float *src, void *dst, size_t n);
// Unpacks n elements to integers q and a scale for each unit of `unit_elems` elements: element = scale * q -
// min (the decoded value up to rounding; |q| <= 128). min is written only for types with has_min. Integer dot
// products work on this form.
typedef void (*hearth_unpack_fn)(const void *src, int8_t *q, float *scale, float *min, size_t n);

struct hearth_type_info {
    const char *name;     // "Q4_0"
    uint32_t block_elems; // 1 for plain numbers
    uint32_t block_bytes;
    uint32_t unit_elems;     // 16 or 32: elements that share a scale; 0 for plain numbers
    uint8_t has_min;         // units have a minimum too
    hearth_decode_fn decode; // NULL: only the size of the format is known
    hearth_encode_fn encode; // NULL: the format cannot be written
    hearth_unpack_fn unpack; // NULL for plain numbers
};

// NULL: an unknown type.
const struct hearth_type_info *hearth_type_info(uint32_t type);
// The type of a name, case-insensitive ("q4_0"); -1: unknown.
int hearth_type_by_name(const char *name);
// Bytes of n elements; 0: n is not a whole number of blocks, or the type is unknown; SIZE_MAX: overflow.
size_t hearth_type_bytes(uint32_t type, uint64_t n);
// Encodes n elements as to->encode does. False: an element is infinite or not a number, or too large for the format.
// x is changed.
bool hearth_encode_checked(const struct hearth_type_info *to, float *x, void *dst, size_t n);

// IEEE half and bfloat16, round to nearest even; NaN stays NaN.
float hearth_f16_to_f32(uint16_t h);
uint16_t hearth_f32_to_f16(float f);
float hearth_bf16_to_f32(uint16_t h);
uint16_t hearth_f32_to_bf16(float f);

#endif
