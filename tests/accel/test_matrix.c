// SPDX-License-Identifier: MIT
// Prompts' products by a GPU's matrix units beside the C reference, without a GPU: the kernels' text is compiled for the
// CPU, an item is a context of this thread, and the units' instructions are modelled (matrix_model.h).
#include "check.h"

#include <math.h>
#include <setjmp.h>
#include <ucontext.h>

#include "accel/operations.h"
#include "accel/weight.h"
#include "matrix_model.h"

#define ITEMS  256
#define ROWS   128
#define TOKENS 64
#define STACK  262144

#define MATRIX float *, const uint32_t *, const uint8_t *, const uint8_t *, int
#define KERNEL(name)                                                                                         \
    void matrix_##name(MATRIX, MATRIX, MATRIX, const uint8_t *, int, int, int, int, int, int, int,           \
                       const uint8_t *, int, const int32_t *, int, int);
KERNEL(4_32h)
KERNEL(8_32h)
KERNEL(4_32)
KERNEL(8_32)
KERNEL(4_16)
KERNEL(8_16)

// A product, and what there is of a group.
static struct {
    uint32_t type;
    float *out, *again;
    const uint8_t *q, *scales, *minima, *acts;
    int k, n_rows, n_tokens, adds, n_tiles;
    int32_t tiles[3 * 8];
} job;
static unsigned group[2];
static int item, n_finished;
static bool begun[ITEMS], finished[ITEMS];
static ucontext_t items[ITEMS];
// Where they go on. (swapcontext() asks the system for signals each time, which takes longer than all else.)
static jmp_buf scheduler, goes_on[ITEMS];
static char *stacks;
static struct {
    unsigned a[4], b[2];
} held[ITEMS];

// ---- what a kernel sees

unsigned __nvvm_read_ptx_sreg_ctaid_x(void)
{
    return group[0];
}

unsigned __nvvm_read_ptx_sreg_ctaid_y(void)
{
    return group[1];
}

unsigned __nvvm_read_ptx_sreg_ctaid_z(void)
{
    return 0;
}

unsigned __nvvm_read_ptx_sreg_tid_x(void)
{
    return (unsigned)item;
}

// Items take turns. Some of them wait for one another: each goes on when all of those are there.
struct meeting {
    int there, turn;
};
static struct meeting group_meeting, warp_meetings[ITEMS / 32];

static void meet(struct meeting *m, int n)
{
    const int turn = m->turn;
    if (++m->there == n) {
        m->there = 0;
        m->turn++;
    }
    while (m->turn == turn)
        if (!_setjmp(goes_on[item]))
            _longjmp(scheduler, 1);
}

void __syncthreads(void)
{
    meet(&group_meeting, ITEMS);
}

float __nvvm_sqrt_rn_f(float x)
{
    return sqrtf(x);
}

float __nvvm_div_rn_f(float x, float y)
{
    return x / y;
}

float model_half(unsigned short h)
{
    return hearth_f16_to_f32(h);
}

static int byte_of(unsigned word, int i)
{
    return (int8_t)(word >> 8 * i);
}

int model_dot4(unsigned a, unsigned b, int to)
{
    for (int i = 0; i < 4; i++)
        to += byte_of(a, i) * byte_of(b, i);
    return to;
}

void model_multiply(int *d, const unsigned *a, const unsigned *b, int k)
{
    memcpy(held[item].a, a, (size_t)k / 8 * sizeof *a);
    memcpy(held[item].b, b, (size_t)k / 16 * sizeof *b);
    meet(&warp_meetings[item / 32], 32);
    const int warp = item / 32 * 32, lane = item % 32;
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
        for (int at = 0; at < k; at++) {
            const unsigned x = held[warp + row % 8 * 4 + at % 16 / 4].a[at / 16 * 2 + row / 8];
            const unsigned y = held[warp + column * 4 + at % 16 / 4].b[at / 16];
            d[i] += byte_of(x, at % 4) * byte_of(y, at % 4);
        }
    }
    meet(&warp_meetings[item / 32], 32);
}

// ---- running it

static void run_item(void)
{
    const struct hearth_accel_form f = hearth_accel_form_of(job.type);
    void (*const kernels[])(MATRIX, MATRIX, MATRIX, const uint8_t *, int, int, int, int, int, int, int,
                            const uint8_t *, int, const int32_t *, int, int) = {
        matrix_4_32h, matrix_4_32, matrix_4_16, matrix_8_32h, matrix_8_32, matrix_8_16};
    const int number = (f.bits == 8 ? 3 : 0) + (f.unit == 16 ? 2 : f.scales_half ? 0 : 1);
    const uint32_t *q = (const uint32_t *)(const void *)job.q;
    // Twice the same matrix, as the first one and as the third.
    kernels[number](job.out, q, job.scales, job.minima, job.n_rows, NULL, NULL, NULL, NULL, 0, job.again, q,
                    job.scales, job.minima, job.n_rows, job.acts, (int)hearth_acts_padded((size_t)job.k),
                    (int)hearth_acts_bytes((size_t)job.k), job.k / (int)f.unit, job.n_tokens, f.has_min,
                    f.base, hearth_prompt_planes(job.type), NULL, 0, job.tiles, job.n_tiles != 0, job.adds);
    finished[item] = true;
    n_finished++;
    _longjmp(scheduler, 1);
}

static void resume_item(void)
{
    if (_setjmp(scheduler))
        return;
    if (begun[item])
        _longjmp(goes_on[item], 1);
    begun[item] = true;
    setcontext(&items[item]);
}

static void run_group(void)
{
    n_finished = 0;
    for (int i = 0; i < ITEMS; i++) {
        begun[i] = finished[i] = false;
        getcontext(&items[i]);
        items[i].uc_stack.ss_sp = stacks + (size_t)i * STACK;
        items[i].uc_stack.ss_size = STACK;
        makecontext(&items[i], run_item, 0);
    }
    while (n_finished < ITEMS)
        for (item = 0; item < ITEMS; item++)
            if (!finished[item])
                resume_item();
}

static float number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

// Tokens [first, end) go through a matrix, in tiles of 64 at most.
static void add_tiles(int first, int end, int matrix)
{
    for (; first < end; first += TOKENS) {
        const int32_t tile[3] = {first, end - first < TOKENS ? end - first : TOKENS, matrix};
        memcpy(job.tiles + (ptrdiff_t)3 * job.n_tiles++, tile, sizeof tile);
    }
}

// With two matrices, a third of the tokens goes through the second one and the rest through the first.
static void check_type(uint32_t type, int k, int n_rows, int n_tokens, int matrices)
{
    const int all_rows = n_rows * matrices, second = matrices > 1 ? n_tokens / 3 : 0;
    const size_t row = hearth_type_bytes(type, (size_t)k), acts_bytes = hearth_acts_bytes((size_t)k);
    const size_t count = (size_t)n_rows * (size_t)n_tokens;
    uint32_t seed = type + (uint32_t)k;
    struct hearth_kernels c;
    hearth_kernels_init(&c, 0);
    float *x = malloc((size_t)k * sizeof *x), *right = malloc(count * sizeof *right),
          *got = malloc(2 * count * sizeof *got);
    uint8_t *rows = malloc(row * (size_t)all_rows), *acts = aligned_alloc(64, acts_bytes * (size_t)n_tokens);
    void *scratch = aligned_alloc(
        64, (hearth_kernels_scratch(&c, (size_t)k) + hearth_accel_convert_scratch((size_t)k) + 63) / 64 * 64);
    size_t bytes[HEARTH_ACCEL_WEIGHT_PARTS];
    assert_true(hearth_accel_weight_parts(type, (size_t)k, (size_t)all_rows, bytes));
    uint8_t *piece = aligned_alloc(64, (bytes[0] + bytes[1] + bytes[2] + 63) / 64 * 64);
    for (int r = 0; r < all_rows; r++) {
        for (int i = 0; i < k; i++)
            x[i] = number(&seed);
        hearth_type_info(type)->encode(x, rows + (size_t)r * row, (size_t)k);
        hearth_accel_weight_convert(type, (size_t)k, piece, (size_t)all_rows, (size_t)r,
                                    rows + (size_t)r * row, scratch);
    }
    for (int t = 0; t < n_tokens; t++) {
        for (int i = 0; i < k; i++)
            x[i] = 3.0f * number(&seed);
        c.quantize_acts(acts + (size_t)t * acts_bytes, x, (size_t)k);
    }
    c.prompt[type](right, (size_t)n_rows, rows + row * (size_t)(matrices - 1) * (size_t)n_rows, row,
                   (size_t)k, (size_t)n_rows, acts, acts_bytes, (size_t)second, scratch);
    c.prompt[type](right + second * n_rows, (size_t)n_rows, rows, row, (size_t)k, (size_t)n_rows,
                   acts + (size_t)second * acts_bytes, acts_bytes, (size_t)(n_tokens - second), scratch);
    job.n_tiles = 0;
    if (matrices > 1) {
        add_tiles(0, second, 1);
        add_tiles(second, n_tokens, 0);
        memset(job.tiles + (ptrdiff_t)3 * job.n_tiles++, 0, 3 * sizeof *job.tiles); // one that is empty
    }
    const unsigned n_groups =
        job.n_tiles ? (unsigned)job.n_tiles : (unsigned)(n_tokens + TOKENS - 1) / TOKENS;
    job.type = type;
    job.out = got;
    job.again = got + count;
    job.q = piece;
    job.scales = piece + bytes[0];
    job.minima = piece + bytes[0] + bytes[1];
    job.acts = acts;
    job.k = k;
    job.n_rows = n_rows;
    job.n_tokens = n_tokens;
    for (job.adds = 0; job.adds < 2; job.adds++) {
        for (group[0] = 0; group[0] < 2 * (unsigned)((n_rows + ROWS - 1) / ROWS); group[0]++)
            for (group[1] = 0; group[1] < n_groups; group[1]++)
                run_group();
        for (size_t i = 0; i < 2 * count; i++) {
            const float one = right[i % count], want = job.adds ? one + one : one;
            if (memcmp(&got[i], &want, sizeof want) != 0)
                fail_msg("%s, %d elements, %d rows, %d tokens: %a where %a is right (number %zu)",
                         hearth_type_info(type)->name, k, n_rows, n_tokens, (double)got[i], (double)want, i);
        }
    }
    free(x);
    free(right);
    free(got);
    free(rows);
    free(acts);
    free(scratch);
    free(piece);
}

// Whether a kernel is given nothing by this type that a type before it has not given, but for the numbers themselves.
static bool is_as_before(uint32_t type)
{
    const struct hearth_accel_form f = hearth_accel_form_of(type);
    bool found = false;
    for (uint32_t t = 0; t < type && !found; t++) {
        const struct hearth_type_info *info = hearth_type_info(t);
        const struct hearth_accel_form g = hearth_accel_form_of(t);
        found = info && info->encode && g.bits == f.bits && g.unit == f.unit && g.base == f.base &&
                g.scales_half == f.scales_half && g.has_min == f.has_min &&
                info->block_elems == hearth_type_info(type)->block_elems &&
                hearth_prompt_planes(t) == hearth_prompt_planes(type);
    }
    return found;
}

static void test_types(void **state)
{
    (void)state;
    stacks = malloc((size_t)ITEMS * STACK);
    int forms = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const struct hearth_type_info *info = hearth_type_info(type);
        if (!info || !info->encode || !hearth_accel_form_of(type).bits)
            continue;
        check_type(type, 256, 5, 3, 1);
        if (is_as_before(type)) // to a kernel
            continue;
        forms++;
        check_type(type, 768, 130, 66, 1);
        check_type(type, 256, 130, 120, 2);
        if (info->block_elems == 32) // stages that are not full
            check_type(type, 416, 129, 9, 1);
    }
    assert_true(forms >= 6);
    free(stacks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
