// SPDX-License-Identifier: MIT
// AMX: the model of the tiles against the definition of the instructions, the kernels on it against the C
// reference at the borders of their panels and groups (tests/checkkernels draws small shapes at random), in
// several threads, and in whole models; how they are let in. Where the CPU has AMX the same with real tiles.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(HEARTH_TILES_MODEL)

int main(void)
{
    puts("no AMX on this kind of CPU");
    return 77;
}

#else

#include "base/cpu.h"
#include "base/log.h"
#include "base/os.h"
#include "base/threads.h"
#include "engine/session.h"
#include "golden_models.h"
#include "kernels/variants.h"
#include "kernels/x86/tiles_amx.h"
#include "kernels/x86/variants_x86.h"

static uint32_t state = 1;

static uint32_t draw(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static const uint32_t types[] = {
    HEARTH_TYPE_Q4_0,    HEARTH_TYPE_Q4_1,   HEARTH_TYPE_Q5_0,  HEARTH_TYPE_Q5_1,    HEARTH_TYPE_Q8_0,
    HEARTH_TYPE_Q2_K,    HEARTH_TYPE_Q3_K,   HEARTH_TYPE_Q4_K,  HEARTH_TYPE_Q5_K,    HEARTH_TYPE_Q6_K,
    HEARTH_TYPE_IQ4_NL,  HEARTH_TYPE_IQ4_XS, HEARTH_TYPE_MXFP4, HEARTH_TYPE_IQ1_S,   HEARTH_TYPE_IQ1_M,
    HEARTH_TYPE_IQ2_XXS, HEARTH_TYPE_IQ2_XS, HEARTH_TYPE_IQ2_S, HEARTH_TYPE_IQ3_XXS, HEARTH_TYPE_IQ3_S,
    HEARTH_TYPE_TQ1_0,   HEARTH_TYPE_TQ2_0,  HEARTH_TYPE_Q1_0,  HEARTH_TYPE_Q2_0,    HEARTH_TYPE_NVFP4};
#define N_TYPES (sizeof types / sizeof types[0])

// ---- the model

// A whole number of BF16, times a power of two.
static uint16_t draw_bf16(int most, float scale)
{
    const float x = (float)((int)(draw() % (uint32_t)(2 * most + 1)) - most) * scale;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}
static double value_of(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

// C += A * B by its definition, element by element, of numbers whose sums are exact.
static void test_model_product(void **unused)
{
    (void)unused;
    for (int round = 0; round < 200; round++) {
        const int m = 1 + (int)(draw() % 16), k = 2 * (1 + (int)(draw() % 16)), n = 1 + (int)(draw() % 16);
        struct tile_shapes s = {.palette = 1};
        s.rows[2] = s.rows[5] = (uint8_t)m;
        s.row_bytes[2] = s.row_bytes[7] = (uint16_t)(4 * n);
        s.row_bytes[5] = (uint16_t)(2 * k);
        s.rows[7] = (uint8_t)(k / 2);
        uint16_t a[16][35], b[16][40];
        float c[16][20], want[16][16] = {{0}};
        for (int i = 0; i < 16; i++) {
            for (int j = 0; j < 35; j++)
                a[i][j] = draw_bf16(round % 2 ? 127 : 4, round % 2 ? 128.0f : 0x1p16f);
            for (int j = 0; j < 40; j++)
                b[i][j] = draw_bf16(31, round % 2 ? 1.0f : 0x1p-16f);
            for (int j = 0; j < 20; j++)
                c[i][j] = (float)(draw() % 1000);
        }
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                double sum = (double)c[i][j];
                for (int l = 0; l < k; l++)
                    sum += value_of(a[i][l]) * value_of(b[l / 2][2 * j + l % 2]);
                want[i][j] = (float)sum;
            }
        tiles_configure(&s);
        tile_load(2, c, sizeof c[0]);
        tile_load(5, a, sizeof a[0]);
        tile_load(7, b, sizeof b[0]);
        tile_dot(2, 5, 7);
        for (int row = 0; row < 16; row++) // beyond the product all is zero
            assert_memory_equal(tiles_model_row(2, row), want[row], 64);
        memset(c, 0x55, sizeof c);
        tile_store(2, c, sizeof c[0]);
        const float untouched = c[0][19];
        for (int row = 0; row < 16; row++)
            for (int j = 0; j < 20; j++)
                assert_memory_equal(&c[row][j], row < m && j < n ? &want[row][j] : &untouched,
                                    sizeof c[row][j]);
        tile_zero(2);
        for (int row = 0; row < 16; row++)
            for (int j = 0; j < 64; j++)
                assert_int_equal(tiles_model_row(2, row)[j], 0);
        assert_true(tiles_model_configured());
        tiles_release();
        assert_false(tiles_model_configured());
    }
}

// ---- products

struct level {
    const char *name;
    struct hearth_kernels k;
};

static struct level levels[3]; // the reference, the model, the real one where it is
static size_t n_levels;

static int find_levels(void **unused)
{
    (void)unused;
    unsigned flags;
    hearth_kernels_init(&levels[0].k, 0);
    levels[n_levels++].name = "c";
    if (hearth_cpu_limit("avx512", &flags)) {
        hearth_kernels_init(&levels[n_levels].k, flags);
        hearth_kernels_init_tiles_model(&levels[n_levels].k);
        levels[n_levels++].name = "amx (model)";
    }
#if defined(HEARTH_HAVE_AMX)
    if (hearth_cpu_limit("amx", &flags)) {
        hearth_kernels_init(&levels[n_levels].k, flags);
        hearth_kernels_init_tiles_amx(&levels[n_levels].k); // for all products, however small
        levels[n_levels++].name = "amx";
    }
#endif
    return 0;
}

static size_t room_for(size_t k)
{
    size_t most = 0;
    for (size_t i = 0; i < n_levels; i++) {
        const size_t need = hearth_kernels_scratch(&levels[i].k, k);
        most = need > most ? need : most;
    }
    return (most + 63) / 64 * 64;
}

static void draw_row(uint32_t type, uint8_t *row, size_t k)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    for (size_t b = 0; b < k / info->block_elems; b++, row += info->block_bytes) {
        float value[256], largest;
        do {
            for (size_t i = 0; i < info->block_bytes; i++)
                row[i] = (uint8_t)draw();
            info->decode(row, value, info->block_elems);
            largest = 0;
            for (size_t i = 0; i < info->block_elems; i++)
                largest = fabsf(value[i]) <= largest ? largest : fabsf(value[i]);
        } while (!(largest < 1e4f));
    }
}

struct product {
    uint32_t type;
    size_t k, rows, tokens, w_bytes, x_bytes;
    uint8_t *w, *x;
};

static struct product make_product(uint32_t type, size_t k, size_t rows, size_t tokens)
{
    const size_t stride = hearth_type_bytes(type, k), x_stride = hearth_acts_bytes(k);
    struct product p = {type, k, rows, tokens, rows * stride, tokens * x_stride, NULL, NULL};
    p.w = malloc(p.w_bytes); // so that reading beyond its end is noticed by a sanitizer
    p.x = hearth_aligned_alloc(64, p.x_bytes);
    float *x = malloc(k * sizeof *x);
    for (size_t r = 0; r < rows; r++)
        draw_row(type, p.w + r * stride, k);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t i = 0; i < k; i++)
            x[i] = (float)(int32_t)(draw() - (1u << 23)) * (t % 7 == 3 && i / 32 % 2 ? 1e-30f : 1e-6f);
        levels[0].k.quantize_acts(p.x + t * x_stride, x, k);
    }
    free(x);
    return p;
}

static float *run_product(const struct product *p, const struct hearth_kernels *k)
{
    float *out = malloc(p->tokens * p->rows * sizeof *out);
    void *scratch = hearth_aligned_alloc(64, room_for(p->k));
    memset(scratch, 0xff, room_for(p->k)); // whatever earlier calls leave there must not matter
    memset(out, 0xee, p->tokens * p->rows * sizeof *out);
    k->prompt[p->type](out, p->rows, p->w, p->w_bytes / p->rows, p->k, p->rows, p->x, p->x_bytes / p->tokens,
                       p->tokens, scratch);
    hearth_aligned_free(scratch);
    return out;
}

static void check_product(uint32_t type, size_t k, size_t rows, size_t tokens)
{
    struct product p = make_product(type, k, rows, tokens);
    float *want = run_product(&p, &levels[0].k);
    for (size_t l = 1; l < n_levels; l++) {
        const uint64_t before = tiles_model_products();
        float *got = run_product(&p, &levels[l].k);
        if (memcmp(got, want, tokens * rows * sizeof *got) != 0)
            fail_msg("%s: %s k %zu rows %zu tokens %zu differs", levels[l].name, hearth_type_info(type)->name,
                     k, rows, tokens);
        assert_false(tiles_model_configured()); // released, and the level that was meant ran
        assert_int_equal(tiles_model_products() != before, l == 1);
        free(got);
    }
    free(want);
    free(p.w);
    hearth_aligned_free(p.x);
}

// The borders of groups (256 and 512 elements), of panels (32 rows), of tiles (8 or 12 tokens) and of what
// shares a panel (264 or 512 tokens).
static void test_borders(void **unused)
{
    (void)unused;
    static const size_t tokens[] = {1, 7, 8, 9, 12, 13, 15, 16, 17, 31, 33, 63, 64, 65, 71, 80};
    static const size_t rows[] = {1, 15, 16, 17, 31, 32, 33, 49};
    static const size_t ks[] = {256, 512, 768, 1024, 1280, 2048, 2304};
    for (size_t i = 0; i < N_TYPES; i++) {
        for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t += SANITIZED ? 5 : 1)
            check_product(types[i], ks[(t + i) % 7], rows[(3 * t + i) % 8], tokens[t]);
        if (hearth_type_info(types[i])->block_elems == 32)
            for (size_t k = 32; k < 1200; k += 192)
                check_product(types[i], k, 18, 8 + k % 11);
    }
}

static void test_many_tokens(void **unused)
{
    (void)unused;
    check_product(HEARTH_TYPE_Q4_0, 544, 19, 513);
    check_product(HEARTH_TYPE_Q4_K, 256, 33, 530);
    if (SANITIZED) // the model of the tiles takes its time
        return;
    check_product(HEARTH_TYPE_Q6_K, 512, 3, 1030);
    check_product(HEARTH_TYPE_Q8_0, 1056, 17, 290);
    check_product(HEARTH_TYPE_Q5_K, 1280, 5, 270);
    check_product(HEARTH_TYPE_Q4_1, 256, 1100, 265);
    check_product(HEARTH_TYPE_Q4_0, 11008, 3, 9);
}

// The table that programs get uses tiles for large products alone: at the border of these.
static void test_choice(void **unused)
{
    (void)unused;
    unsigned flags;
    if (!hearth_cpu_limit("amx", &flags))
        skip();
    struct hearth_kernels k;
    hearth_kernels_init(&k, flags);
    for (size_t less = 0; less < 4; less++) {
        struct product p = make_product(HEARTH_TYPE_Q4_0, less == 1 ? 2016 : 2048, less == 2 ? 255 : 256,
                                        less == 3 ? 127 : 128);
        float *want = run_product(&p, &levels[0].k), *got = run_product(&p, &k);
        assert_memory_equal(got, want, p.tokens * p.rows * sizeof *got);
        free(got);
        free(want);
        free(p.w);
        hearth_aligned_free(p.x);
    }
}

// A NaN in a token's activations stays in that token.
static void test_nan(void **unused)
{
    (void)unused;
    if (n_levels > 1) {
        struct product p = make_product(HEARTH_TYPE_Q4_0, 1024, 20, 12);
        float x[1024] = {1.0f};
        x[700] = NAN;
        levels[0].k.quantize_acts(p.x + 5 * hearth_acts_bytes(1024), x, 1024);
        float *want = run_product(&p, &levels[0].k), *got = run_product(&p, &levels[1].k);
        for (size_t t = 0; t < 12; t++)
            for (size_t r = 0; r < 20; r++) {
                assert_int_equal(isnan(got[t * 20 + r]), t == 5);
                if (t != 5)
                    assert_memory_equal(&got[t * 20 + r], &want[t * 20 + r], sizeof *got);
            }
        free(got);
        free(want);
        free(p.w);
        hearth_aligned_free(p.x);
    }
}

// ---- threads: tiles belong to the thread that configured them

struct shared {
    struct product p;
    float *want;
    bool differs[12];
};

static void thread_task(void *arg, int task, int worker)
{
    (void)worker;
    struct shared *s = arg;
    float *got = run_product(&s->p, &levels[1].k);
    s->differs[task] = memcmp(got, s->want, s->p.tokens * s->p.rows * sizeof *got) != 0;
    free(got);
}

static void test_threads(void **unused)
{
    (void)unused;
    if (n_levels < 2)
        skip();
    struct hearth_pool *pool = NULL;
    CHECK(hearth_pool_open(&pool, 3, &check_error));
    struct shared s = {.p = make_product(HEARTH_TYPE_Q5_K, 768, 40, 21)};
    s.want = run_product(&s.p, &levels[0].k);
    hearth_pool_run(pool, thread_task, &s, 12);
    for (int i = 0; i < 12; i++)
        assert_false(s.differs[i]);
    hearth_pool_close(&pool);
    free(s.want);
    free(s.p.w);
    hearth_aligned_free(s.p.x);
}

// ---- letting them in

static int warnings;
static char warned[512];

static void count_warnings(void *arg, enum hearth_log_level level, const char *message)
{
    (void)arg;
    warnings += level == HEARTH_LOG_WARNING;
    snprintf(warned, sizeof warned, "%s", message);
}

static hearth_matmul_fn real_prompt;

static void wrong_in_one_bit(float *out, size_t out_stride, const void *w, size_t w_stride, size_t k,
                             size_t n_rows, const void *x, size_t x_stride, size_t n_tokens, void *scratch)
{
    real_prompt(out, out_stride, w, w_stride, k, n_rows, x, x_stride, n_tokens, scratch);
    uint32_t bits;
    float *last = out + (n_tokens - 1) * out_stride + n_rows - 1;
    memcpy(&bits, last, sizeof bits);
    bits ^= 1;
    memcpy(last, &bits, sizeof bits);
}

static void init_wrong(struct hearth_kernels *t)
{
    hearth_kernels_init_tiles_model(t);
    real_prompt = t->prompt[HEARTH_TYPE_Q6_K];
    t->prompt[HEARTH_TYPE_Q6_K] = wrong_in_one_bit;
}

static void test_adopt(void **unused)
{
    (void)unused;
    unsigned flags;
    if (!hearth_cpu_limit("avx512", &flags))
        skip();
    struct hearth_kernels before, table;
    hearth_kernels_init(&before, flags);
    table = before;
    hearth_log_set(count_warnings, NULL);
    assert_false(hearth_kernels_adopt(&table, init_wrong, "AMX"));
    assert_memory_equal(&table, &before, sizeof table);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warned, "AMX"));
    assert_non_null(strstr(warned, "Q6_K"));
    assert_true(hearth_kernels_adopt(&table, hearth_kernels_init_tiles_model, "AMX"));
    assert_int_equal(warnings, 1);
    for (size_t i = 0; i < N_TYPES; i++) {
        assert_ptr_equal(table.prompt[types[i]], levels[1].k.prompt[types[i]]);
        assert_ptr_equal(table.step[types[i]], levels[1].k.step[types[i]]);
    }
    assert_ptr_equal(table.prompt[HEARTH_TYPE_F16], before.prompt[HEARTH_TYPE_F16]);
    hearth_log_set(NULL, NULL);
}

// ---- whole models

static float *evaluate(struct hearth_model *m, const struct golden *g, bool prompt)
{
    const size_t bytes = g->n_vocab * sizeof(float);
    struct hearth_session *s = NULL;
    struct hearth_session_params params = hearth_session_params_default();
    params.max_seqs = 9;
    params.n_ctx = (int)g->n_tokens + 1;
    params.n_threads = 2;
    CHECK(hearth_session_open(&s, m, &params, &check_error));
    float *out = malloc(9 * bytes);
    int seqs[9];
    hearth_token tokens[9];
    for (int i = 0; i < 9; i++) { // nine sequences, so that a step has nine tokens
        CHECK(seqs[i] = hearth_seq_new(s, &check_error));
        tokens[i] = g->ids[(size_t)i % g->n_tokens];
    }
    CHECK(hearth_prompt(s, seqs[0], g->ids, (int)g->n_tokens, NULL, NULL, &check_error));
    memcpy(out, hearth_logits(s, 0), bytes);
    if (!prompt) {
        CHECK(hearth_step(s, seqs, tokens, 9, &check_error));
        for (int i = 0; i < 9; i++)
            memcpy(out + (size_t)i * g->n_vocab, hearth_logits(s, i), bytes);
    }
    hearth_session_close(&s);
    return out;
}

static void check_golden(const struct golden *g)
{
    static int n_seen;
    if (n_seen++ % 2 && !is_thorough()) // test_engine takes all levels, too
        return;
    struct hearth_model *m = NULL;
    struct hearth_model_params params = hearth_model_params_default();
    params.cpu = "c";
    CHECK(hearth_model_open(&m, g->path, &params, &check_error));
    const struct hearth_kernels reference = m->kernels;
    for (int prompt = 0; prompt < 2; prompt++) {
        m->kernels = reference;
        float *want = evaluate(m, g, prompt);
        for (size_t l = 1; l < n_levels; l++) {
            m->kernels = levels[l].k;
            float *got = evaluate(m, g, prompt);
            assert_memory_equal(got, want, (prompt ? 1 : 9) * g->n_vocab * sizeof *got);
            free(got);
        }
        free(want);
    }
    hearth_model_close(&m);
}

static void test_models(void **unused)
{
    (void)unused;
    if (SANITIZED) // test_engine takes them through all other levels
        skip();
    const uint64_t before = tiles_model_products();
    assert_true(golden_each(check_golden) > 5);
    assert_int_equal(tiles_model_products() > before, n_levels > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_product), cmocka_unit_test(test_borders),
        cmocka_unit_test(test_many_tokens),   cmocka_unit_test(test_choice),
        cmocka_unit_test(test_nan),           cmocka_unit_test(test_threads),
        cmocka_unit_test(test_adopt),         cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests(tests, find_levels, NULL);
}

#endif
