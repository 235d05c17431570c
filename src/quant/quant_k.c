// SPDX-License-Identifier: MIT
// Formats with 256 elements in a block: the K-quants and IQ4_XS. Each unit of 16 or 32 elements has a small
// integer scale (and minimum). One or two f16 factors of the block multiply them, which is exact in f32.
#include "quant/formats.h"

// f16 d, f16 dmin, 12 bytes of 6-bit scales and minima, 128 bytes: d * sc * q - dmin * m.
// Scales and minima of Q4_K and Q5_K: bytes 0..3 hold scales 0..3 and bytes 4..7 minima 0..3 in their low 6
// bits; bytes 8..11 hold the low 4 bits of scales 4..7 (low half) and minima 4..7 (high half), whose upper 2
// bits are the top bits of bytes 0..3 and 4..7.
static inline void scales_k4(const uint8_t *b, float *scale, float *min)
{
    float d = hearth_load_f16(b), dmin = hearth_load_f16(b + 2);
    const uint8_t *s = b + 4;
    for (int j = 0; j < 4; j++) {
        scale[j] = d * (float)(s[j] & 63);
        min[j] = dmin * (float)(s[j + 4] & 63);
        scale[j + 4] = d * (float)((s[j + 8] & 15) | s[j] >> 6 << 4);
        min[j + 4] = dmin * (float)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

// 32 bytes carry 64 elements: their low halves the first 32, their high halves the next.
static void hearth_q4_k_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    scales_k4(b, scale, min);
    const uint8_t *qs = b + 16;
    for (int j = 0; j < 4; j++, qs += 32, q += 64)
        for (int l = 0; l < 32; l++) {
            q[l] = (int8_t)(qs[l] & 15);
            q[l + 32] = (int8_t)(qs[l] >> 4);
        }
}
HEARTH_DEFINE_BLOCKS(hearth_q4_k, 256, 144, 32, 1)

// As Q4_K, with 32 bytes of fifth bits before the 128: bit u of byte l belongs to element l of unit u.
static void hearth_q5_k_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    scales_k4(b, scale, min);
    const uint8_t *qh = b + 16, *qs = b + 48;
    for (int j = 0; j < 4; j++, qs += 32, q += 64)
        for (int l = 0; l < 32; l++) {
            q[l] = (int8_t)((qs[l] & 15) | (qh[l] >> (2 * j) & 1) << 4);
            q[l + 32] = (int8_t)(qs[l] >> 4 | (qh[l] >> (2 * j + 1) & 1) << 4);
        }
}
HEARTH_DEFINE_BLOCKS(hearth_q5_k, 256, 176, 32, 1)

// 128 bytes of low halves, 64 bytes of upper bit pairs, 16 signed scales, f16 d: d * sc * (q - 32).
// Each half of the block (128 elements) has 64 + 32 of those bytes.
static void hearth_q6_k_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    float d = hearth_load_f16(b + 208);
    for (int u = 0; u < 16; u++)
        scale[u] = d * (float)(int8_t)b[192 + u];
    const uint8_t *ql = b, *qh = b + 128;
    for (int half = 0; half < 2; half++, ql += 64, qh += 32, q += 128)
        for (int l = 0; l < 32; l++) {
            q[l] = (int8_t)(((ql[l] & 15) | (qh[l] & 3) << 4) - 32);
            q[l + 32] = (int8_t)(((ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4) - 32);
            q[l + 64] = (int8_t)((ql[l] >> 4 | (qh[l] >> 4 & 3) << 4) - 32);
            q[l + 96] = (int8_t)((ql[l + 32] >> 4 | qh[l] >> 6 << 4) - 32);
        }
}
HEARTH_DEFINE_BLOCKS(hearth_q6_k, 256, 210, 16, 0)

// 16 bytes (low half scale, high half minimum), 64 bytes, f16 d, f16 dmin: d * sc * q - dmin * m.
// 32 bytes carry 128 elements: bit pair j of byte l is element 32 * j + l.
static void hearth_q2_k_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    float d = hearth_load_f16(b + 80), dmin = hearth_load_f16(b + 82);
    for (int u = 0; u < 16; u++) {
        scale[u] = d * (float)(b[u] & 15);
        min[u] = dmin * (float)(b[u] >> 4);
    }
    const uint8_t *qs = b + 16;
    for (int half = 0; half < 2; half++, qs += 32)
        for (int j = 0; j < 4; j++, q += 32)
            for (int l = 0; l < 32; l++)
                q[l] = (int8_t)(qs[l] >> (2 * j) & 3);
}
HEARTH_DEFINE_BLOCKS(hearth_q2_k, 256, 84, 16, 1)

// 32 bytes of third bits, 64 bytes of bit pairs (as in Q2_K), 12 bytes of 6-bit scales, f16 d: d * (sc - 32)
// * (q - 4). Scale u: its low 4 bits are a half of byte u mod 8, its upper 2 bits a pair of byte 8 + u mod 4.
static void hearth_q3_k_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    float d = hearth_load_f16(b + 108);
    const uint8_t *qh = b, *qs = b + 32, *s = b + 96;
    for (int u = 0; u < 16; u++) {
        int low = u < 8 ? s[u] & 15 : s[u - 8] >> 4;
        int high = s[8 + u % 4] >> (2 * (u / 4)) & 3;
        scale[u] = d * (float)((low | high << 4) - 32);
    }
    for (int j = 0; j < 8; j++, q += 32)
        for (int l = 0; l < 32; l++)
            q[l] = (int8_t)((qs[32 * (j / 4) + l] >> (2 * (j % 4)) & 3) + (qh[l] >> j & 1) * 4 - 4);
}
HEARTH_DEFINE_BLOCKS(hearth_q3_k, 256, 110, 16, 0)

// f16 d, u16 upper bit pairs and 4 bytes of low halves of the 6-bit scales, 128 bytes: d * (sc - 32) *
// values[q].
static void hearth_iq4_xs_block(const uint8_t *b, int8_t *q, float *scale, float *min)
{
    (void)min;
    float d = hearth_load_f16(b);
    unsigned high = hearth_load_u16(b + 2);
    const uint8_t *low = b + 4, *qs = b + 8;
    for (int u = 0; u < 8; u++, qs += 16, q += 32) {
        int sc = (low[u / 2] >> (4 * (u % 2)) & 15) | (int)(high >> (2 * u) & 3) << 4;
        scale[u] = d * (float)(sc - 32);
        for (int j = 0; j < 16; j++) {
            q[j] = hearth_iq4_values[qs[j] & 15];
            q[j + 16] = hearth_iq4_values[qs[j] >> 4];
        }
    }
}
HEARTH_DEFINE_BLOCKS(hearth_iq4_xs, 256, 136, 32, 0)
