// SPDX-License-Identifier: MIT
// Formats of 1 to 3 bits a weight: their grids, and decoding. Bytes are as in a little-endian machine, which all
// that Hearth runs on are.
//
// No rule gives the points of these grids, which their author chose by how often they occur in models. So
// which ones there are is listed, in as few bits as that takes: one for each possible point, in the order of
// its number, the sum of digit_i * base^i, where digit_i says which of the values element i has. Where all
// points of a grid have an even sum of digits, the others are not counted. The grid has its points in that
// order, too.
#include "quant/grids.h"

#include <stdatomic.h>
#include <string.h>

#include "quant/formats.h"

struct hearth_grids hearth_grids;

// ---- the grids

static const uint64_t iq1_points[] = {
    0x514202a085142555, 0xa28a2086a8314508, 0x14508514202a081a, 0xa005152545442082, 0x8208001888208202,
    0x0aaabb88a02a03a0, 0xaa0a0022000baa90, 0x4508514008a0828c, 0x0851421450808821, 0x2a8008a09808308a,
    0x4248208514214508, 0x20a0c22c01450855, 0xa2aaa8242a00268a, 0x0028280808afe208, 0xa82028aa284202a0,
    0xa8bab9089b0a2080, 0x3aaaaea289aeca20, 0xb80e82bbbaeaeb7c, 0x2202920ed3caba22, 0x820aba8aa8202200,
    0x3ba2e04a2a000802, 0x81408100a22b2022, 0x8514012208288aaa, 0x5421450920821550, 0x203aa8230208a085,
    0xa208514254208284, 0x082a021450950820, 0x200248a08082a8b8, 0xab2802a268a28208, 0x083082082085082a,
    0xa085142145004045, 0x8229014500514200, 0x1430a1082a828a00, 0x2145082882145005, 0x2aaa200202208514,
    0xa828ae8ab1122000, 0x0a820070a8aaa1ba, 0x8200840222280208, 0xaa2ab0eaa0804800, 0xa7daea22ba8b20c2,
    0xaa2ab092a86e8b8b, 0x48202a0c448a8b72, 0x20aa082a8a284084, 0xa09aafa222a2ccc8, 0xa82a00020002a8e8,
    0xa2a28ba080200088, 0xba0a328280a0ba28, 0x2ba0a2ebfebab8be, 0x00a2ea280a8a08a2, 0xdeeaa4fa0c0232a1,
    0xeb7ebe8d2ea82bef, 0xdeba7de6bf7ff7fa, 0x12fa26bfff27fb69, 0x0ebeaa10228ae1e9, 0xae820ba8b208aa84,
    0x62048083e924baff, 0x002ba40aa8f2682c, 0x0012aae208082a02, 0x82c920a60a2a8202, 0x8c00a20028829089,
    0x6c00080882001380, 0x8abea602bbaaaa8a, 0xd02e976b8002caa0, 0xdeaa2e108210e9b2, 0x820a0004a5d11528,
    0x20a1010820828a00, 0xa0843222ba39aa82, 0x0262a28a00188009, 0xac21450051441481, 0x20aa085142145082,
    0x45082a120a87aa28, 0x08514208a0051421, 0x22a240a002200145, 0x8a6a08a208008800, 0x0a200080aaaab86e,
    0x5044082122c8e282, 0x8515208a09514214, 0x2a2aaa080a861450, 0x21450851420a0080, 0xe2085142145000a8,
    0x082a82180a828820, 0x0a028bb08aaaa2aa, 0x0aaa80822820aa2a, 0x220288a900280828, 0xba8a08b8280bbea0,
    0xaef8a4baffaeb24b, 0x30a0b668285220aa, 0x6a220828020a80e6, 0x2baaaa020a208062, 0x0808a2a0a9a2eaaa,
    0x0e8200228aa02010, 0x400aa08514214500, 0x4a0006a921450851, 0x440d1000a50802aa, 0x0514214508288214,
    0x0020f2ac82820800, 0x20ba0a280aaa0000, 0x280948820002a2ea, 0x0051454b110014e9, 0x5142145002a80145,
    0x400a288808248808, 0x02a0051401450008, 0x0000000145085140};
static const uint64_t iq2_xxs_points[] = {
    0x0040a62099a4f67f, 0x4c00200008060820, 0x3004082c82610598, 0x826900800100c004, 0x0000020020020066,
    0x0442600000000420, 0x0001088041205208, 0x0082824000002100, 0x4080004000400002, 0x0800201300000000,
    0x0000100000000500, 0x0031010026000008, 0x00000c0000044000, 0x0800008100980000, 0x0000000000080200,
    0x0000200000208008, 0x0000100000000000, 0x008040261449a4c0, 0x8001088008800a20, 0x0004200404000104,
    0x2600000000010000, 0x2140000200000140, 0x0ca4020002000000, 0x0000020010012000, 0x0000000800000001,
    0x2000000001001800, 0x2000242000010000, 0x0200000008000000, 0x0100100900000000, 0x0080000008000080,
    0x0000000005000040, 0x0000000020000060, 0x0000000100000000, 0x0000000000000000, 0x0820008002009800,
    0x0000000200000002, 0x2000200008040a60, 0x8000100802004000, 0x0000010000000000, 0x1200000000100000,
    0x0800008010000024, 0x0802000001000000, 0x0000100000000001, 0x0000000000000000, 0x0000000010000040,
    0x0040002000000000, 0x0020000000010002, 0x0000002000000000, 0x0000000000000000, 0x0000020000000000,
    0x0000000000000002, 0x0000000000000000};
static const uint64_t iq2_xs_points[] = {
    0x9bcffe1b79bfdfff, 0xfc01102984de0134, 0x221309bc0261779b, 0x53f8008003409800, 0x0480020138804126,
    0xbcdfe14000012010, 0xc0c100984de01389, 0x41b09bc000100805, 0x2080000010098002, 0x2008203300000100,
    0x0000000200000500, 0x20100984ff000008, 0x001004000404804c, 0x08000001809a0020, 0x0000101040004200,
    0x0002040100219400, 0x1a00004100104000, 0x309bc02653f9bfc0, 0x8000001819880a01, 0x00241301040261b7,
    0x2600000480110800, 0x0809004200011140, 0x49bc000000000800, 0x0000030298002013, 0x0221380000040008,
    0x0004800000910084, 0x0088082200400040, 0x0000000018400100, 0x1044100980080000, 0x04000000000000c0,
    0x0000000081010002, 0x0000004000014020, 0x0000100000040000, 0x0440002000000020, 0x017c00c027137800,
    0x0180002010000242, 0x1000200808040e69, 0x4001000020080000, 0x0000022006100202, 0x1342240002000000,
    0x0100040100101020, 0x000a008020000000, 0x0600004000000049, 0x2000000000010000, 0x0000001000020000,
    0x000221b000040004, 0x0168000480000100, 0x8000080002010004, 0x0000000000000000, 0x4800000b08020080,
    0x0030000030000002, 0x0000000000010100};
static const uint64_t iq2_s_points[] = {
    0xfbcdff537fbfdfff, 0xfc45502fc4de6736, 0xe6ff6ffcdbe7fffb, 0x5f7804c26d02f84d, 0x0884da2f38114dff,
    0xbddfe08000434610, 0xc06f37fbffe6d77f, 0x6ff6fbc026032996, 0x36804c26f37f84de, 0x184de2df80040261,
    0x4024200404c26f00, 0x051239d7de000020, 0x12d04402613389ce, 0x6804c26f36fa0300, 0x0202013000502613,
    0x027008004c065000, 0x1820008200400000, 0xf3fbcda67ffbffc0, 0x800c26d27984de6f, 0x4de6ff09bcdfefff,
    0xf6400804c26f009c, 0x100984de01209bcd, 0x7fbc000000804c08, 0x04c26f37f80de6ff, 0xde6ff00060261368,
    0x6000804c26f00984, 0x08984de000000502, 0x404000000804c001, 0x4826d37ba0080000, 0x2012040402613780,
    0x000804c26d100010, 0x0000020204044026, 0x04100400004c0400, 0x0002000000000080, 0x6fb01945e65b7880,
    0x00004c07580980de, 0x984de01309bc5fe0, 0x4000000c04c01100, 0x8010018800013019, 0xfb10083002000000,
    0x0044c06500984de4, 0x84de800000402600, 0x500000804c081009, 0x0140980004040004, 0x00000050000c0000,
    0x004e455008000000, 0x8240002004001200, 0x10000804d01a0006, 0x0000000000004048, 0x1000000808000002,
    0x0016180020080000, 0x0000000000010040};
static const uint64_t iq3_xxs_points[] = {
    0x10413533600213b7, 0x100004394090b317, 0x0020200960848020, 0x010200d004004000, 0x0000031300187333,
    0x0808110320001133, 0x1008050000100005, 0x0001020000000004, 0x1a00113700021b33, 0x5000005100418393,
    0x4001080200204000, 0x0004008300000000, 0x000c110324100331, 0x0000201020200413, 0x0040020920081000,
    0x0100200002008040, 0x4000000000a0c084, 0x0004000809018100, 0x1002040004100004, 0x0000103400000000,
    0x0040080910010020, 0x0020000220002040, 0x0000100220000a10, 0x0002040000100000, 0x01000100040c0400,
    0x0000900004000080, 0x0020000400040000, 0x0000010200002000, 0x000108000020201e, 0x0100204100240020,
    0x0000040300010100, 0x0000000000001000};
static const uint64_t iq3_s_points[] = {
    0x92050aa5082357a7, 0x0422001022892317, 0x09000aa4112249a3, 0x228005104a052208, 0x0100020904128801,
    0x084000a208450014, 0x0200040002000a40, 0x0000110008450015, 0x040250005205ab17, 0x410005020902114b,
    0x040120090411a401, 0x0104000211820992, 0x000011440a001428, 0x0000020005020902, 0x0000005000910000,
    0x010400022002050a, 0x2980052a058a55ab, 0x0000020412248905, 0x12008802810a0092, 0x004001040a140225,
    0x2400000224090082, 0x0100080180040210, 0x0002200000020085, 0x0000010801400220, 0x020802942a04aa04,
    0x44010001000a102a, 0x0000010014010401, 0x0800208a018a1102, 0x0011040002044208, 0x0800401004200502,
    0x0000000200004000, 0x000000002005000a, 0x0100010204910411, 0x0000220821040a84, 0x010480010802210a,
    0x0000000022050a10, 0x0200000180100005, 0x00040000000200a0, 0x0001000010000800, 0x0000020801002100,
    0x1040049100041104, 0x040000000402042a, 0x0000080041080201, 0x0820021000800184, 0x0000004004010012,
    0x00000a0000400400, 0x0000000400000000, 0x0000000000040014, 0x000100000a002a00, 0x0010000000810001,
    0x0104200410000400, 0x0000000100021001, 0x0004000800200000, 0x0001000010000009, 0x0000000100000020,
    0x0000000000000a00, 0x0004100140050091, 0x0000002800100204, 0x0000020001024112, 0x0000080024000004,
    0x0000010000010822, 0x0000000400040000, 0x0000000002000004, 0x0000000000000001};

struct grid {
    const uint64_t *points;
    int digits, base;
    bool even;
    uint8_t values[8];
};

static const struct grid iq1 = {iq1_points, 8, 3, false, {0, 8, 16}};
static const struct grid iq2_xxs = {iq2_xxs_points, 8, 3, true, {8, 25, 43}};
static const struct grid iq2_xs = {iq2_xs_points, 8, 3, true, {8, 25, 43}};
static const struct grid iq2_s = {iq2_s_points, 8, 3, true, {8, 25, 43}};
static const struct grid iq3_xxs = {iq3_xxs_points, 4, 8, true, {4, 12, 20, 28, 36, 44, 52, 62}};
static const struct grid iq3_s = {iq3_s_points, 4, 8, false, {1, 3, 5, 7, 9, 11, 13, 15}};

// Lists a grid's points, to one of the two, and if `digits` is given their digits: n bytes for the first halves, then
// n for the second ones.
static void list_points(const struct grid *g, uint64_t *eight, uint32_t *four, uint8_t *digits, int n)
{
    const int half = g->digits / 2, bits = g->base == 3 ? 2 : 3;
    int digit[8] = {0}, counted = 0;
    for (int i = 0; i < g->digits;) {
        int sum = 0;
        uint64_t point = 0;
        for (i = 0; i < g->digits; i++) {
            sum += digit[i];
            point |= (uint64_t)g->values[digit[i]] << 8 * i;
        }
        const bool counts = !g->even || sum % 2 == 0;
        const bool is = counts && g->points[counted / 64] >> counted % 64 & 1;
        counted += counts;
        if (is && digits) {
            for (i = 0; i < g->digits; i++)
                digits[i / half * n] |= (uint8_t)(digit[i] << bits * (i % half));
            digits++;
        }
        if (is && eight)
            *eight++ = point;
        else if (is)
            *four++ = (uint32_t)point;
        for (i = 0; i < g->digits && ++digit[i] == g->base; i++)
            digit[i] = 0;
    }
}

static void fill(void)
{
    struct hearth_grids *g = &hearth_grids;
    list_points(&iq1, g->iq1, NULL, NULL, 0);
    list_points(&iq2_xxs, g->iq2_xxs, NULL, g->iq2_xxs_digits[0], 256);
    list_points(&iq2_xs, g->iq2_xs, NULL, NULL, 0);
    list_points(&iq2_s, g->iq2_s, NULL, NULL, 0);
    list_points(&iq3_xxs, NULL, g->iq3_xxs, g->iq3_xxs_digits[0], 256);
    list_points(&iq3_s, NULL, g->iq3_s, g->iq3_s_digits[0], 512);
    for (int i = 0; i < 256; i++)
        for (int bit = 0; bit < 8; bit++)
            g->signs[i] |= (uint64_t)(i >> bit & 1 ? 255 : 0) << 8 * bit;
}

void hearth_grids_fill(void)
{
    enum { EMPTY, BEING_FILLED, FULL };
    static atomic_int state = EMPTY;
    int was = atomic_load_explicit(&state, memory_order_acquire);
    if (was == EMPTY && atomic_compare_exchange_strong(&state, &was, BEING_FILLED)) {
        fill();
        atomic_store_explicit(&state, FULL, memory_order_release);
    }
    while (was == BEING_FILLED) // a tenth of a millisecond
        was = atomic_load_explicit(&state, memory_order_acquire);
}

// ---- numbers of a point

// Eight numbers, none of which is 0, negated where the signs say so.
static inline void put_signed(int8_t *q, uint64_t point, uint8_t signs)
{
    const uint64_t mask = hearth_grids.signs[signs];
    const uint64_t v = (point ^ mask) + (mask & 0x0101010101010101);
    memcpy(q, &v, sizeof v);
}

// Seven signs in as many bits; the eighth makes the number of minuses even.
static inline uint8_t even_signs(uint32_t seven)
{
    seven &= 127;
    return (uint8_t)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

// Eight numbers of IQ1, shifted by an eighth up or down; all times 8.
static inline void put_shifted(int8_t *q, uint64_t point, bool down)
{
    const uint64_t v =
        (((point + (down ? 0 : 0x0202020202020202)) | 0x8080808080808080) - 0x0909090909090909) ^
        0x8080808080808080;
    memcpy(q, &v, sizeof v);
}

// ---- the units of a block: q [256], scale [256 / unit]

// f16 d; for each unit of 32: 4 bytes that are points, 28 bits of signs, 4 of its scale: d * (s + 1/2) / 4 *
// q.
static void iq2_xxs_units(const uint8_t *b, int8_t *q, float *scale)
{
    const float d = hearth_load_f16(b);
    for (size_t u = 0; u < 8; u++, q += 32) {
        const uint8_t *src = b + 2 + 8 * u;
        const uint32_t rest = hearth_load_u32(src + 4);
        scale[u] = d * (0.5f + (float)(rest >> 28)) * 0.25f;
        for (size_t i = 0; i < 4; i++)
            put_signed(q + 8 * i, hearth_grids.iq2_xxs[src[i]], even_signs(rest >> 7 * i));
    }
}

// f16 d, 32 times 9 bits of a point and 7 of signs, 8 bytes of 4-bit scales of units of 16: as IQ2_XXS.
static void iq2_xs_units(const uint8_t *b, int8_t *q, float *scale)
{
    const float d = hearth_load_f16(b);
    for (size_t u = 0; u < 16; u++, q += 16) {
        scale[u] = d * (0.5f + (float)(b[66 + u / 2] >> 4 * (u % 2) & 15)) * 0.25f;
        for (size_t i = 0; i < 2; i++) {
            const uint32_t v = hearth_load_u16(b + 2 + 4 * u + 2 * i);
            put_signed(q + 8 * i, hearth_grids.iq2_xs[v & 511], even_signs(v >> 9));
        }
    }
}

// f16 d, 32 low bytes of points, 32 bytes of signs, 8 of upper bit pairs of points, 8 of 4-bit scales of
// units of 16: as IQ2_XXS.
static void iq2_s_units(const uint8_t *b, int8_t *q, float *scale)
{
    const float d = hearth_load_f16(b);
    for (size_t u = 0; u < 16; u++, q += 16) {
        scale[u] = d * (0.5f + (float)(b[74 + u / 2] >> 4 * (u % 2) & 15)) * 0.25f;
        for (size_t i = 0; i < 2; i++) {
            const size_t g = 2 * u + i;
            const unsigned point = b[2 + g] | (unsigned)(b[66 + g / 4] >> 2 * (g % 4) & 3) << 8;
            put_signed(q + 8 * i, hearth_grids.iq2_s[point], b[34 + g]);
        }
    }
}

// f16 d, 64 bytes that are points of four, for each unit of 32 28 bits of signs and 4 of its scale:
// d * (s + 1/2) / 2 * q.
static void iq3_xxs_units(const uint8_t *b, int8_t *q, float *scale)
{
    const float d = hearth_load_f16(b);
    const uint32_t *grid = hearth_grids.iq3_xxs;
    for (size_t u = 0; u < 8; u++, q += 32) {
        const uint8_t *src = b + 2 + 8 * u;
        const uint32_t rest = hearth_load_u32(b + 66 + 4 * u);
        scale[u] = d * (0.5f + (float)(rest >> 28)) * 0.5f;
        for (size_t i = 0; i < 4; i++)
            put_signed(q + 8 * i, hearth_two_points(grid[src[2 * i]], grid[src[2 * i + 1]]),
                       even_signs(rest >> 7 * i));
    }
}

// f16 d, 64 low bytes of points of four, 8 bytes of their ninth bits, 32 of signs, 4 of 4-bit scales of units
// of 32: d * (2 s + 1) * q.
static void iq3_s_units(const uint8_t *b, int8_t *q, float *scale)
{
    const float d = hearth_load_f16(b);
    const uint32_t *grid = hearth_grids.iq3_s;
    for (size_t u = 0; u < 8; u++, q += 32) {
        const uint8_t *src = b + 2 + 8 * u;
        const unsigned high = b[66 + u];
        scale[u] = d * (float)(2 * (b[106 + u / 2] >> 4 * (u % 2) & 15) + 1);
        for (size_t i = 0; i < 4; i++)
            put_signed(q + 8 * i,
                       hearth_two_points(grid[src[2 * i] | (high >> 2 * i & 1) << 8],
                                         grid[src[2 * i + 1] | (high >> (2 * i + 1) & 1) << 8]),
                       b[74 + 4 * u + i]);
    }
}

// f16 d, 32 low bytes of points, for each unit of 32: four times 3 upper bits, 3 of its scale, whether it is
// shifted down: d * (2 s + 1) * (number +- 1/8).
static void iq1_s_units(const uint8_t *b, int8_t *q, float *scale)
{
    const float d = hearth_load_f16(b);
    for (size_t u = 0; u < 8; u++, q += 32) {
        const uint8_t *src = b + 2 + 4 * u;
        const uint32_t high = hearth_load_u16(b + 34 + 2 * u);
        scale[u] = d * (float)(2 * (high >> 12 & 7) + 1) * 0.125f;
        for (size_t i = 0; i < 4; i++)
            put_shifted(q + 8 * i, hearth_grids.iq1[src[i] | (high >> 3 * i & 7) << 8], high >> 15);
    }
}

// 32 low bytes of points, 32 halves of bytes with 3 upper bits and whether it is shifted down, four u16 of
// 3-bit scales of units of 16, in whose upper four bits are those of d: as IQ1_S.
static void iq1_m_units(const uint8_t *b, int8_t *q, float *scale)
{
    uint32_t half = 0;
    for (size_t i = 0; i < 4; i++)
        half |= (uint32_t)(b[49 + 2 * i] >> 4) << 4 * i;
    const float d = hearth_f16_to_f32((uint16_t)half);
    for (size_t u = 0; u < 16; u++, q += 16) {
        const uint32_t s = (uint32_t)hearth_load_u16(b + 48 + u / 4 * 2) >> 3 * (u % 4) & 7;
        scale[u] = d * (float)(2 * s + 1) * 0.125f;
        for (size_t i = 0; i < 2; i++) {
            const uint32_t high = (uint32_t)b[32 + u] >> 4 * i;
            put_shifted(q + 8 * i, hearth_grids.iq1[b[2 * u + i] | (high & 7) << 8], high & 8);
        }
    }
}

// ---- the formats

#define DEFINE(f, bytes, unit)                                                                               \
    static void f##_block(const uint8_t *b, int8_t *q, float *scale, float *min)                             \
    {                                                                                                        \
        (void)min;                                                                                           \
        f##_units(b, q, scale);                                                                              \
    }                                                                                                        \
    void hearth_##f##_decode(const void *src, float *dst, size_t n)                                          \
    {                                                                                                        \
        hearth_grids_fill();                                                                                 \
        hearth_decode_blocks(f##_block, 256, bytes, unit, 0, src, dst, n);                                   \
    }                                                                                                        \
    void hearth_##f##_unpack(const void *src, int8_t *q, float *scale, float *min, size_t n)                 \
    {                                                                                                        \
        hearth_grids_fill();                                                                                 \
        hearth_unpack_blocks(f##_block, 256, bytes, unit, 0, src, q, scale, min, n);                         \
    }

DEFINE(iq1_s, 50, 32)
DEFINE(iq1_m, 56, 16)
DEFINE(iq2_xxs, 66, 32)
DEFINE(iq2_xs, 74, 16)
DEFINE(iq2_s, 82, 16)
DEFINE(iq3_xxs, 98, 32)
DEFINE(iq3_s, 110, 32)
