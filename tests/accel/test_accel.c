// SPDX-License-Identifier: MIT
// Devices: every kernel beside the C reference, all formats and many shapes; choosing, failing, two of them at once.
// Skipped where there is no device (PoCL is one).
#include "check.h"

#include <math.h>

#include "accel/insides.h"
#include "accel/kernels_source.h"
#include "accel/operations_check.h"

static struct hearth_accel *open_device(void)
{
    struct hearth_accel *a = NULL;
    struct hearth_accel_info first;
    const char *backend = getenv("HEARTH_TEST_BACKEND"); // that is meant, if any
    if (!hearth_accel_list(&first, 1) || (backend && strcmp(first.backend, backend) != 0))
        skip();
    const struct hearth_accel_params params = {.device = "0"};
    CHECK(hearth_accel_open(&a, &params, &check_error));
    return a;
}

static void finish(struct hearth_check *c)
{
    struct hearth_accel *a = c->a;
    CHECK(hearth_check_end(c, &check_error));
    assert_int_equal(hearth_accel_stats(a).bytes, 0);
    hearth_accel_close(&a);
    free(c);
}

static struct hearth_check *begin(uint32_t seed)
{
    struct hearth_accel *a = open_device();
    struct hearth_check *c = malloc(sizeof *c);
    hearth_check_begin(c, a, seed);
    return c;
}

static void test_products(void **state)
{
    (void)state;
    struct hearth_check *c = begin(2);
    int n = 0;
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        if (!hearth_accel_weight_bytes(type, 512, 1))
            continue;
        n++;
        for (int is_prompt = 0; is_prompt < 2; is_prompt++) {
            hearth_check_product(c, type, 256, 1, 1, is_prompt);
            hearth_check_product(c, type, 2304, 67, 11, is_prompt);
            if (is_prompt)
                hearth_check_product(c, type, 768, 140, 71, true); // more than one tile of matrix units
            if (c->differs[0])
                fail_msg("%s", c->differs);
        }
    }
    assert_true(n >= 20);
    hearth_check_product(c, HEARTH_TYPE_Q8_0, 96, 9, 3, false); // fewer units than lanes
    hearth_check_product(c, HEARTH_TYPE_Q4_0, 32, 130, 17, true);
    hearth_check_product(c, HEARTH_TYPE_Q8_0, 416, 129, 65, true); // units that fill no stage
    // At once: all of a form, in pairs, none; rows that fill groups and such that do not.
    static const uint32_t together[][CHECK_PRODUCTS] = {
        {HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_0},
        {HEARTH_TYPE_Q4_K, HEARTH_TYPE_Q4_K, HEARTH_TYPE_Q6_K, HEARTH_TYPE_Q6_K},
        {HEARTH_TYPE_F16, HEARTH_TYPE_Q8_0, HEARTH_TYPE_F16, HEARTH_TYPE_Q5_0}};
    for (size_t i = 0; i < sizeof together / sizeof *together; i++)
        for (int is_prompt = 0; is_prompt < 2; is_prompt++) {
            hearth_check_products(c, together[i], 512, (const size_t[]){130, 8, 67, 1}, is_prompt ? 66 : 5,
                                  is_prompt);
            hearth_check_products(c, together[i], 256, (const size_t[]){128, 64, 1, 200}, 1, is_prompt);
        }
    static const uint32_t plain[] = {HEARTH_TYPE_F32, HEARTH_TYPE_F16, HEARTH_TYPE_BF16};
    static const size_t ranks[][2] = {{1, 2}, {16, 5}, {64, 100}};
    for (int i = 0; i < 9; i++)
        for (int is_prompt = 0; is_prompt < 2; is_prompt++)
            hearth_check_changes(c, plain[i % 3], i % 2 ? 96 : 37, ranks[i / 3], 5 + 70 * (size_t)(i % 3),
                                 1 + 8 * (size_t)(i % 4), is_prompt);
    hearth_check_product(c, HEARTH_TYPE_F32, 37, 5, 4, false);
    hearth_check_product(c, HEARTH_TYPE_BF16, 37, 70, 9, true);
    finish(c);
}

// Steps with one token by kernels of their own: more units than local memory has of a token, and fewer than lanes.
static void test_one(void **state)
{
    (void)state;
    struct hearth_check *c = begin(8);
    c->a->info.has_one = true;
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        if (!hearth_accel_weight_bytes(type, 512, 1))
            continue;
        hearth_check_product(c, type, 256, 1, 1, false);
        hearth_check_product(c, type, 2304, 67, 1, false);
        hearth_check_product(c, type, 17152, 17, 1, false);
        if (c->differs[0])
            fail_msg("%s", c->differs);
    }
    hearth_check_product(c, HEARTH_TYPE_Q8_0, 96, 9, 1, false);
    hearth_check_product(c, HEARTH_TYPE_Q4_0, 8192 + 32, 9, 1, false);
    hearth_check_product(c, HEARTH_TYPE_Q4_0, 2080, 9, 3, false); // more tokens: the other kernels
    hearth_check_products(
        c, (const uint32_t[]){HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q8_0}, 512,
        (const size_t[]){130, 8, 67, 1}, 1, false);
    finish(c);
}

// Experts: tokens of several matrices together, more of one than a group takes.
static void test_products_of(void **state)
{
    (void)state;
    struct hearth_check *c = begin(6);
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++)
        for (int is_prompt = 0; is_prompt < 2 && hearth_accel_weight_bytes(type, 512, 1); is_prompt++) {
            hearth_check_products_of(c, type, 256, 67, is_prompt ? 31 : 17, is_prompt);
            if (c->differs[0])
                fail_msg("%s", c->differs);
        }
    hearth_check_products_of(c, HEARTH_TYPE_F32, 37, 5, 4, false);
    hearth_check_products_of(c, HEARTH_TYPE_Q8_0, 96, 9, 3, true);
    finish(c);
}

static void test_down(void **state)
{
    (void)state;
    struct hearth_check *c = begin(3);
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        if (!hearth_accel_weight_bytes(type, 512, 1))
            continue;
        hearth_check_down(c, type, 100, 512, 32, 3);
        if (c->differs[0])
            fail_msg("%s", c->differs);
    }
    finish(c);
}

// Rows that come there piece by piece, beside the queue, lie as those that come at once.
static void test_pieces(void **state)
{
    (void)state;
    enum { K = 512, N = 21, ROWS = 8 };
    struct hearth_accel *a = open_device();
    static float x[N * K];
    void *scratch = malloc(hearth_accel_convert_scratch(K));
    for (int i = 0; i < N * K; i++)
        x[i] = (float)((i * 7919) % 1009) / 500.0f - 1.0f;
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const struct hearth_type_info *info = hearth_type_info(type);
        const size_t row = hearth_accel_weight_bytes(type, K, 1);
        size_t parts[HEARTH_ACCEL_WEIGHT_PARTS];
        if (!row || !info->encode)
            continue;
        const size_t stride = hearth_type_bytes(type, K);
        uint8_t *data = malloc(N * stride), *piece = malloc(ROWS * row);
        struct hearth_accel_weight whole, w;
        for (size_t r = 0; r < N; r++)
            info->encode(x + r * K, data + r * stride, K);
        CHECK(hearth_accel_weight_open(a, &whole, type, K, N, data, stride, &check_error));
        CHECK(hearth_accel_weight_begin(a, &w, type, K, N, &check_error));
        for (size_t first = 0; first < N; first += ROWS) {
            const size_t n = N - first < ROWS ? N - first : ROWS;
            void *events[HEARTH_ACCEL_PUT_EVENTS];
            for (size_t r = n; r-- > 0;)
                hearth_accel_weight_convert(type, K, piece, ROWS, r, data + (first + r) * stride, scratch);
            hearth_accel_weight_begin_put(a, &w, first, n, piece, ROWS, events);
            for (int i = 0; i < HEARTH_ACCEL_PUT_EVENTS; i++)
                hearth_accel_wait(a, events[i]);
        }
        assert_true(hearth_accel_weight_parts(type, K, N, parts));
        assert_int_equal(parts[0] + parts[1] + parts[2], N * row);
        const struct hearth_accel_memory *const want[] = {&whole.q, &whole.scales, &whole.minima},
                                                *const got[] = {&w.q, &w.scales, &w.minima};
        for (int i = 0; i < HEARTH_ACCEL_WEIGHT_PARTS; i++) {
            uint8_t *left = malloc(parts[i] + 1), *right = malloc(parts[i] + 1);
            hearth_accel_read(a, want[i], 0, left, parts[i]);
            hearth_accel_read(a, got[i], 0, right, parts[i]);
            CHECK(hearth_accel_take(a, &check_error));
            assert_memory_equal(left, right, parts[i]);
            free(left);
            free(right);
        }
        hearth_accel_weight_close(a, &whole);
        hearth_accel_weight_close(a, &w);
        free(data);
        free(piece);
    }
    free(scratch);
    hearth_accel_close(&a);
}

static void test_rows(void **state)
{
    (void)state;
    struct hearth_check *c = begin(4);
    static const size_t sizes[] = {1, 15, 16, 33, 64, 576, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        hearth_check_rows(c, sizes[i], 1 + i);
    hearth_check_heads(c, 3, 96, 5);
    hearth_check_heads(c, 1, 20, 1);
    hearth_check_rope(c, 3, 64, 64, false, 2);
    hearth_check_rope(c, 2, 256, 192, true, 3);
    hearth_check_activations(c, 130, 3);
    finish(c);
}

static void test_attention(void **state)
{
    (void)state;
    struct hearth_check *c = begin(5);
    static const size_t dims[] = {16, 40, 64, 80, 128, 256, 512};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int kind = 0; kind < 4; kind++) {
            const struct hearth_check_attention x = {.type_k = kind & 1 ? HEARTH_TYPE_F32 : HEARTH_TYPE_F16,
                                                     .type_v = kind & 2 ? HEARTH_TYPE_F32 : HEARTH_TYPE_F16,
                                                     .n_heads = 4,
                                                     .n_heads_kv = kind ? 2 : 4,
                                                     .dim = dims[i],
                                                     .window = kind == 3 ? 50 : 0,
                                                     .n_rows = 1 + 2 * i,
                                                     .pos = 60 * kind,
                                                     .sinks = kind == 2};
            hearth_check_attend(c, &x);
        }
    // Heads that share keys and values: more than a group has, such that do not fill it, many rows.
    static const size_t shared[][2] = {{16, 1}, {20, 1}, {6, 2}, {5, 1}, {40, 2}};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        hearth_check_attend(c, &(struct hearth_check_attention){.type_k = HEARTH_TYPE_F16,
                                                                .type_v = HEARTH_TYPE_F16,
                                                                .n_heads = shared[i][0],
                                                                .n_heads_kv = shared[i][1],
                                                                .dim = 64,
                                                                .window = i % 2 ? 37 : 0,
                                                                .n_rows = 19,
                                                                .pos = 55,
                                                                .sinks = i == 2});
    // Several ranges: at once and apart, with windows that begin in the first, the second, the last one.
    static const size_t windows[] = {0, 100, 1024, 2000};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (int split = 0; split < 2; split++)
            hearth_check_attend(c, &(struct hearth_check_attention){.type_k = HEARTH_TYPE_F16,
                                                                    .type_v = HEARTH_TYPE_F16,
                                                                    .n_heads = 2,
                                                                    .n_heads_kv = 1,
                                                                    .dim = 32,
                                                                    .window = windows[i],
                                                                    .n_rows = 2,
                                                                    .pos = 2175,
                                                                    .sinks = i == 1,
                                                                    .split = split});
    // In blocks: both, keys, values.
    static const uint32_t blocks[][2] = {{HEARTH_TYPE_Q8_0, HEARTH_TYPE_Q8_0},
                                         {HEARTH_TYPE_Q8_0, HEARTH_TYPE_F16},
                                         {HEARTH_TYPE_F32, HEARTH_TYPE_Q8_0}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (size_t kind = is_thorough() ? 0 : i % 3; kind < 3 && dims[i] % 32 == 0;
             kind += is_thorough() ? 1 : 3)
            hearth_check_attend(c, &(struct hearth_check_attention){.type_k = blocks[kind][0],
                                                                    .type_v = blocks[kind][1],
                                                                    .n_heads = 4,
                                                                    .n_heads_kv = 2,
                                                                    .dim = dims[i],
                                                                    .window = kind == 2 ? 50 : 0,
                                                                    .n_rows = 1 + i,
                                                                    .pos = kind ? 1100 : 70,
                                                                    .split = kind == 1,
                                                                    .sinks = kind == 2,
                                                                    .n_rot = i ? 32 : 0});
    // Formats of which a prompt's queries have pages together, too: heads that share keys and values, windows, caps, values
    // of another length, several ranges.
    static const uint32_t formats[] = {HEARTH_TYPE_F32, HEARTH_TYPE_F16, HEARTH_TYPE_Q8_0};
    static const size_t lengths[] = {32, 64, 96, 128};
    for (int i = 0; i < 9 * (is_thorough() ? 8 : 1); i++)
        hearth_check_attend(c, &(struct hearth_check_attention){.type_k = formats[i % 3],
                                                                .type_v = formats[i / 3 % 3],
                                                                .n_heads = shared[i % 5][0],
                                                                .n_heads_kv = shared[i % 5][1],
                                                                .dim = lengths[(i + i / 9) % 4],
                                                                .dim_v = i % 2 ? lengths[i / 2 % 4] : 0,
                                                                .window = i % 4 == 1 ? 70 : 0,
                                                                .chunked = i % 8 == 1,
                                                                .cap = i % 7 == 3 ? 2.5f : 0.0f,
                                                                .n_rows = 1 + (size_t)i % 5 * 9,
                                                                .pos = i % 10 == 7 ? 1000 : 40 * (i % 4),
                                                                .sinks = i % 6 == 2});
    // Values that are shorter or longer than keys, windows that do not move, scores with a cap; at once and apart.
    for (int i = 0; i < 8; i++)
        hearth_check_attend(c, &(struct hearth_check_attention){.type_k = HEARTH_TYPE_F16,
                                                                .type_v = HEARTH_TYPE_F16,
                                                                .n_heads = 4,
                                                                .n_heads_kv = 2,
                                                                .dim = 64,
                                                                .dim_v = i == 0   ? 48
                                                                         : i == 1 ? 128
                                                                                  : 0,
                                                                .window = i & 4 ? 100 : 0,
                                                                .chunked = i & 4,
                                                                .cap = i & 2 ? 2.5f : 0.0f,
                                                                .n_rows = 21,
                                                                .pos = i & 1 ? 1190 : 90,
                                                                .split = i & 1});
    // Scores that fall with the distance: together, one by one, in blocks, over several ranges.
    for (int i = 0; i < 6; i++)
        hearth_check_attend(
            c, &(struct hearth_check_attention){.type_k = i % 3 == 2   ? HEARTH_TYPE_Q8_0
                                                          : i % 3 == 1 ? HEARTH_TYPE_F32
                                                                       : HEARTH_TYPE_F16,
                                                .type_v = i % 3 == 1 ? HEARTH_TYPE_Q8_0 : HEARTH_TYPE_F16,
                                                .n_heads = 6,
                                                .n_heads_kv = i < 3 ? 6 : 2,
                                                .dim = 64,
                                                .n_rows = 5,
                                                .pos = i & 1 ? 1190 : 90,
                                                .split = i & 1,
                                                .sinks = i == 4,
                                                .bent = true});
    finish(c);
}

// Routers of all kinds: many experts and few, equal scores, such that are no numbers.
static void test_routers(void **state)
{
    (void)state;
    struct hearth_check *c = begin(8);
    static const size_t sizes[][2] = {{1, 1},  {2, 1},  {8, 2},   {16, 16},
                                      {60, 4}, {64, 6}, {160, 8}, {1024, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 24; kind++) {
            const enum hearth_accel_gating gating = (enum hearth_accel_gating)(kind % 3);
            const size_t n = sizes[i][0], used = sizes[i][1];
            const bool has_groups = kind & 8 && n % 4 == 0 && n / 2 >= used;
            hearth_check_router(c, &(struct hearth_check_router){
                                       .n = n,
                                       .n_used = used,
                                       .n_rows = 1 + (size_t)kind % 9,
                                       .gating = gating,
                                       .by = kind & 2 ? 1.0f : 0.7f,
                                       .scale = kind & 4 ? 1.0f : 2.5f,
                                       .bias = kind & 1,
                                       .choice = kind & 4,
                                       .scales = kind & 16,
                                       .softmax_choice = gating == HEARTH_ACCEL_OF_SOFTMAX && kind & 4,
                                       .normalises = gating != HEARTH_ACCEL_OF_NEAR && kind & 2,
                                       .n_groups = has_groups ? 4 : 0,
                                       .n_groups_used = has_groups ? 2 : 0,
                                       .odd = kind >= 12});
            if (c->differs[0])
                fail_msg("%zu experts, kind %d: %s", n, kind, c->differs);
        }
    finish(c);
}

// Lists of all sizes: tiles that are full and not, experts that no row uses, more ids than are counted at once.
static void test_experts(void **state)
{
    (void)state;
    struct hearth_check *c = begin(9);
    static const size_t sizes[][3] = {{1, 1, 1}, {2, 2, 5}, {8, 2, 1}, {8, 2, 70}, {16, 4, 33}, {100, 8, 75}};
    static const uint32_t types[] = {HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q6_K, HEARTH_TYPE_F32, HEARTH_TYPE_MXFP4,
                                     HEARTH_TYPE_BF16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 4; kind++)
            for (int is_prompt = 0; is_prompt < 2; is_prompt++) {
                hearth_check_experts(c, types[(i + (size_t)kind) % 5], 256, kind & 1 ? 33 : 140, sizes[i][0],
                                     sizes[i][1], sizes[i][2], is_prompt, kind);
                if (c->differs[0])
                    fail_msg("%zu experts, kind %d: %s", sizes[i][0], kind, c->differs);
            }
    c->a->info.has_one = true; // one row: kernels for one token
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        hearth_check_experts(c, types[i], 768, 67, 16, 4, 1, false, (int)i % 4);
    finish(c);
}

// Latent attention: values that are the beginnings of keys, and what each head's matrices make of queries and values.
static void test_latent(void **state)
{
    (void)state;
    struct hearth_check *c = begin(8);
    static const size_t dims[][2] = {{40, 32}, {96, 64}, {288, 256}, {576, 512}};
    static const uint32_t caches[] = {HEARTH_TYPE_F16, HEARTH_TYPE_F32, HEARTH_TYPE_Q8_0};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (size_t kind = 0; kind < 3; kind++)
            for (int split = 0; split < 2 && !(kind == 2 && dims[i][0] % 32); split++)
                hearth_check_attend(c, &(struct hearth_check_attention){.type_k = caches[kind],
                                                                        .type_v = caches[kind],
                                                                        .n_heads = 2 + i,
                                                                        .n_heads_kv = 1,
                                                                        .dim = dims[i][0],
                                                                        .dim_v = dims[i][1],
                                                                        .in_keys = true,
                                                                        .n_rows = 3 + i,
                                                                        .pos = split ? 1100 : 70,
                                                                        .split = split,
                                                                        .sinks = kind == 1});
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++)
        for (int kind = 0; kind < 4 && hearth_accel_weight_bytes(type, 512, 1); kind++) {
            const struct hearth_check_latent x = {.type = type,
                                                  .n_heads = 3,
                                                  .rank = 256,
                                                  .still = kind & 1 ? 40 : 256,
                                                  .n_rot = 24,
                                                  .value = 33,
                                                  .n_rows = kind & 2 ? 67 : 6,
                                                  .joint = kind & 1,
                                                  .neox = kind & 1,
                                                  .is_prompt = kind & 2};
            hearth_check_latent(c, &x);
            if (c->differs[0])
                fail_msg("%s", c->differs);
        }
    hearth_check_latent(c, &(struct hearth_check_latent){.type = HEARTH_TYPE_Q8_0,
                                                         .n_heads = 16,
                                                         .rank = 512,
                                                         .still = 128,
                                                         .n_rot = 64,
                                                         .value = 128,
                                                         .n_rows = 1});
    hearth_check_latent(c, &(struct hearth_check_latent){.type = HEARTH_TYPE_F16,
                                                         .n_heads = 2,
                                                         .rank = 37,
                                                         .still = 13,
                                                         .n_rot = 6,
                                                         .value = 5,
                                                         .n_rows = 3});
    finish(c);
}

static void test_choosing(void **state)
{
    (void)state;
    struct hearth_accel *a = open_device(), *b = NULL;
    // Two at once, the second one by its name.
    const struct hearth_accel_params again = {.device = hearth_accel_describe(a)->name};
    CHECK(hearth_accel_open(&b, &again, &check_error));
    REFUSED(hearth_accel_open(&(struct hearth_accel *){NULL},
                              &(struct hearth_accel_params){.device = "no such thing"}, &check_error),
            HEARTH_E_INVALID, "hearth devices");
    REFUSED(hearth_accel_open(&(struct hearth_accel *){NULL}, &(struct hearth_accel_params){.device = "99"},
                              &check_error),
            HEARTH_E_INVALID, "\"99\"");
    REFUSED(hearth_accel_open(&(struct hearth_accel *){NULL}, &(struct hearth_accel_params){.device = ""},
                              &check_error),
            HEARTH_E_INVALID, "\"\"");
    REFUSED(hearth_accel_open(&(struct hearth_accel *){NULL},
                              &(struct hearth_accel_params){.device = "0", .broken = true}, &check_error),
            HEARTH_E_UNSUPPORTED, "cannot build");
    // Nobody gets a CPU who has not named it.
    struct hearth_accel_info list[64];
    const int n = hearth_accel_list(list, 64);
    bool has_gpu = false;
    for (int i = 0; i < n && i < 64; i++) {
        has_gpu |= !list[i].is_cpu;
        assert_true(list[i].shares_memory || !list[i].is_cpu);
    }
    if (!has_gpu)
        REFUSED(
            hearth_accel_open(&(struct hearth_accel *){NULL}, &(struct hearth_accel_params){0}, &check_error),
            HEARTH_E_INVALID, "must be named");
    const uint64_t unused = hearth_accel_free_memory(a), all = hearth_accel_describe(a)->memory;
    assert_true(unused && unused <= all);
    const bool is_fake = strstr(hearth_accel_describe(a)->name, "a GPU that is none"); // fake_cuda.c
    if (is_fake)
        assert_true(unused == (uint64_t)600 << 20 && all == (uint64_t)1 << 30);
    hearth_accel_close(&b);
    // Matrix units that are wrong are not used, and the rest of the device is.
    if (is_fake) {
        assert_true(hearth_accel_describe(a)->has_matrix_units);
        setenv("FAKE_CUDA_NO_MATRIX", "1", 1);
        CHECK(hearth_accel_open(&b, &(struct hearth_accel_params){.device = "0"}, &check_error));
        unsetenv("FAKE_CUDA_NO_MATRIX");
        assert_false(hearth_accel_describe(b)->has_matrix_units);
        hearth_accel_close(&b);
    }
    hearth_accel_close(&a);
}

// Lists that come again give what one by one does, in any order among others.
static void test_lists(void **state)
{
    (void)state;
    enum { N = 90, SIZES = 12, TIMES = 40 };
    struct hearth_accel *a = open_device();
    const uint64_t before = hearth_accel_stats(a).replays;
    float x[N], y[N], got[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = (float)(i % 7);
    }
    struct hearth_accel_memory there = hearth_accel_alloc(a, sizeof x),
                               other = hearth_accel_alloc(a, sizeof y);
    hearth_accel_write(a, &there, 0, x, sizeof x);
    hearth_accel_write(a, &other, 0, y, sizeof y);
    for (int time = 0; time < TIMES; time++) {
        const int n = N - (time % 5 ? time % 3 : time % SIZES);
        hearth_accel_begin_list(a);
        hearth_accel_add(a, &there, &other, (size_t)n, 1);
        hearth_accel_add_scaled(a, &other, &there, 0.25f, (size_t)n, 1);
        hearth_accel_copy(a, &other, 0, &there, 8, 4);
        hearth_accel_end_list(a);
        for (int i = 0; i < n; i++)
            x[i] += y[i];
        for (int i = 0; i < n; i++)
            y[i] = fmaf(x[i], 0.25f, y[i]);
        y[0] = x[2];
        hearth_accel_read(a, &there, 0, got, sizeof got);
        assert_memory_equal(got, x, sizeof x);
        hearth_accel_read(a, &other, 0, got, sizeof got);
        assert_memory_equal(got, y, sizeof y);
    }
    CHECK(hearth_accel_take(a, &check_error));
    const bool is_cuda = !strcmp(hearth_accel_describe(a)->backend, "CUDA");
    assert_true(is_cuda ? hearth_accel_stats(a).replays > before + 10 : !hearth_accel_stats(a).replays);
    // One that fails within is not done at all.
    hearth_accel_fail_at(a, 2);
    hearth_accel_begin_list(a);
    hearth_accel_add(a, &there, &other, N, 1);
    hearth_accel_add(a, &there, &other, N, 1);
    hearth_accel_end_list(a);
    REFUSED(hearth_accel_take(a, &check_error), HEARTH_E_UNSUPPORTED, "fails");
    hearth_accel_free(a, &there);
    hearth_accel_free(a, &other);
    hearth_accel_close(&a);
}

// More lists than are remembered, each often enough to be recorded.
static void test_many_lists(void **state)
{
    (void)state;
    enum { LISTS = HEARTH_ACCEL_LISTS * HEARTH_ACCEL_LISTS_WAYS * 3 / 2, TIMES = 5 };
    struct hearth_accel *a = open_device();
    const bool is_cuda = !strcmp(hearth_accel_describe(a)->backend, "CUDA");
    const uint64_t before = hearth_accel_stats(a).replays;
    float x = 0.0f, got;
    struct hearth_accel_memory there = hearth_accel_alloc(a, sizeof x), one = hearth_accel_alloc(a, sizeof x);
    hearth_accel_write(a, &there, 0, &x, sizeof x);
    hearth_accel_write(a, &one, 0, &(float){1.0f}, sizeof x);
    for (int i = 0; i < (is_cuda ? LISTS : 10); i++)
        for (int time = 0; time < TIMES; time++) {
            hearth_accel_begin_list(a);
            hearth_accel_add_scaled(a, &there, &one, (float)(i % 1000), 1, 1);
            hearth_accel_scale(a, &there, i / 1000 % 2 ? -0.5f : 0.5f, 1, 1);
            hearth_accel_end_list(a);
            x = fmaf(1.0f, (float)(i % 1000), x) * (i / 1000 % 2 ? -0.5f : 0.5f);
        }
    hearth_accel_read(a, &there, 0, &got, sizeof got);
    assert_memory_equal(&got, &x, sizeof got);
    assert_int_equal(hearth_accel_stats(a).replays - before, is_cuda ? 2 * LISTS : 0);
    hearth_accel_free(a, &there);
    hearth_accel_free(a, &one);
    hearth_accel_close(&a);
}

// More rows than grids have groups in their other dimensions: queries of many heads, as activations.
static void test_many_rows(void **state)
{
    (void)state;
    enum { N = 32, ROWS = 65536 + 5 };
    struct hearth_check *c = begin(9);
    struct hearth_accel *a = c->a;
    const size_t bytes = hearth_acts_bytes(N);
    float *x = malloc(ROWS * N * sizeof *x);
    uint8_t *want = malloc(ROWS * bytes), *got = malloc(ROWS * bytes);
    for (int i = 0; i < ROWS * N; i++)
        x[i] = (float)(i % 1999 - 1000);
    for (int i = 0; i < ROWS; i++)
        c->c.quantize_acts(want + (size_t)i * bytes, x + i * N, N);
    struct hearth_accel_memory there = hearth_accel_alloc(a, ROWS * N * sizeof *x),
                               acts = hearth_accel_alloc(a, ROWS * bytes);
    hearth_accel_write(a, &there, 0, x, ROWS * N * sizeof *x);
    hearth_accel_quantize(a, &acts, &there, N, ROWS);
    hearth_accel_read(a, &acts, 0, got, ROWS * bytes);
    assert_memory_equal(got, want, ROWS * bytes);
    hearth_accel_free(a, &there);
    hearth_accel_free(a, &acts);
    free(x);
    free(want);
    free(got);
    finish(c);
}

// A driver whose graphs are none, or wrong: the device does without.
static void test_no_lists(void **state)
{
    (void)state;
    static const char *const faults[] = {"none", "not made", "wrong", "fail"};
    struct hearth_accel *a = open_device();
    const bool is_fake = strstr(hearth_accel_describe(a)->name, "a GPU that is none"); // fake_cuda.c
    hearth_accel_close(&a);
    for (size_t i = 0; is_fake && i < sizeof faults / sizeof *faults; i++) {
        setenv("FAKE_CUDA_GRAPHS", faults[i], 1);
        CHECK(hearth_accel_open(&a, &(struct hearth_accel_params){.device = "0"}, &check_error));
        struct hearth_check *c = malloc(sizeof *c);
        assert_true(a->lists.refused);
        assert_int_equal(hearth_accel_stats(a).replays > 0,
                         !strcmp(faults[i], "wrong")); // when it was opened
        hearth_check_begin(c, a, 7);
        hearth_check_rows(c, 33, 2);
        finish(c);
    }
    unsetenv("FAKE_CUDA_GRAPHS");
}

// What several have in common outlives the first of them, and comes again after the last.
static void test_common(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct hearth_accel *first = open_device(), *b = NULL;
        CHECK(hearth_accel_open(&b, &(struct hearth_accel_params){.device = "0", .inexact = true},
                                &check_error));
        struct hearth_check *c = malloc(sizeof *c);
        hearth_check_begin(c, b, 7);
        hearth_check_rows(c, 33, 2);
        hearth_accel_close(&first);
        hearth_check_product(c, HEARTH_TYPE_Q4_0, 256, 9, 3, false);
        finish(c);
    }
}

// "all", of lists of devices: those that two back ends name alike are counted, so that none is lost or comes twice.
static void check_all(const char *const *devices, const int *want, int n_want)
{
    static const char backends[2][8] = {"CUDA", "OpenCL"};
    struct hearth_accel_info list[8] = {{0}};
    int numbers[HEARTH_ACCEL_MOST], n = 0;
    for (; devices[n]; n++) { // "C" or "O", what it is called
        list[n].backend = backends[devices[n][0] == 'O'];
        list[n].is_cpu = devices[n][1] == 'p';
        list[n].exact = devices[n][1] != 'x';
        snprintf(list[n].name, sizeof list[n].name, "%s", devices[n] + 1);
    }
    assert_int_equal(hearth_accel_all(numbers, list, n), n_want);
    for (int i = 0; i < n_want; i++)
        assert_int_equal(numbers[i], want[i]);
}

// The same of devices whose places are known: of one place once, but for what one driver lists there.
static void test_places(void **state)
{
    (void)state;
    static const char *const opencl = "OpenCL", *const cuda = "CUDA";
    const uint64_t a = hearth_accel_place(0, 3, 0, 0), b = hearth_accel_place(0, 4, 0, 0);
    const struct hearth_accel_info list[] = {
        {.backend = cuda, .name = "big", .driver = "13.0", .exact = true, .place = a},
        {.backend = opencl, .name = "big", .driver = "580", .exact = true, .place = b}, // another one
        {.backend = opencl, .name = "BIG", .driver = "580", .exact = true, .place = a},
        {.backend = opencl, .name = "Mesa big", .driver = "25.1", .exact = true, .place = b},
        {.backend = opencl, .name = "tile", .driver = "24", .exact = true, .place = 99},
        {.backend = opencl, .name = "tile", .driver = "24", .exact = true, .place = 99}, // its other half
    };
    int numbers[HEARTH_ACCEL_MOST];
    assert_int_equal(hearth_accel_all(numbers, list, 6), 4);
    static const int want[] = {0, 1, 4, 5};
    assert_memory_equal(numbers, want, sizeof want);
}

// The kernels' PTX as far as we can read it: an entry for each kernel, and nothing but directives before its body. Drivers
// refuse the whole text otherwise.
static void check_ptx(const char *text, bool matrix)
{
    static const char *const names[] = {
#define NAME(name) #name,
        HEARTH_ACCEL_KERNELS(NAME)
#undef NAME
    };
    for (size_t i = 0; i < HEARTH_ACCEL_KERNELS_END; i++) {
        char entry[96];
        snprintf(entry, sizeof entry, ".visible .entry %s(", names[i]);
        const char *at = strstr(text, entry);
        if (!strncmp(names[i], "matrix_", 7) != matrix) {
            assert_null(at);
            continue;
        }
        assert_non_null(at);
        at = strchr(at, ')');
        assert_non_null(at);
        for (at++; *at == '\n' && at[1] != '{'; at += 1 + strcspn(at + 1, "\n"))
            assert_int_equal(at[1], '.');
        assert_int_equal(*at, '\n');
    }
}

static void test_ptx(void **state)
{
    (void)state;
    if (*hearth_accel_kernels_ptx)
        check_ptx(hearth_accel_kernels_ptx, false);
    if (*hearth_accel_kernels_ptx_80)
        check_ptx(hearth_accel_kernels_ptx_80, true);
}

static void test_all(void **state)
{
    (void)state;
    check_all((const char *const[]){"Ca", "Ob", "Oa", "Opc", NULL}, (const int[]){0, 1}, 2);
    check_all((const char *const[]){"Ca", "Oa", "Oa", NULL}, (const int[]){0, 2}, 2);
    check_all((const char *const[]){"Ca", "Ca", "Oa", "Oa", NULL}, (const int[]){0, 1}, 2);
    check_all((const char *const[]){"Ca", "Ca", "Oa", NULL}, (const int[]){0, 1}, 2);
    check_all((const char *const[]){"Oa", "Oa", NULL}, (const int[]){0, 1}, 2);
    check_all((const char *const[]){"Opc", NULL}, NULL, 0);
    // Inexact ones come where there are no others.
    check_all((const char *const[]){"Oxa", "Ob", "Oxc", NULL}, (const int[]){1}, 1);
    check_all((const char *const[]){"Oxa", "Opb", NULL}, (const int[]){0}, 1);
}

static void test_failures(void **state)
{
    (void)state;
    struct hearth_accel *a = open_device();
    const float x[4] = {1, 2, 3, 4};
    float y[4] = {0};
    // Too much memory, and what comes afterwards, does nothing until the error is taken.
    struct hearth_accel_memory m = hearth_accel_alloc(a, SIZE_MAX / 2);
    assert_null(m.handle);
    assert_true(hearth_accel_has_failed(a));
    struct hearth_accel_memory none = hearth_accel_alloc(a, 16);
    assert_null(none.handle);
    REFUSED(hearth_accel_take(a, &check_error), HEARTH_E_MEMORY, "memory");
    m = hearth_accel_alloc(a, sizeof x);
    hearth_accel_write(a, &m, 0, x, sizeof x);
    hearth_accel_fail_at(a, 2);
    void *event = hearth_accel_begin_read(a, &m, 0, y, sizeof y);
    hearth_accel_write(a, &m, 0, y, sizeof y);
    hearth_accel_wait(a, event);
    assert_memory_equal(x, y, sizeof x);
    REFUSED(hearth_accel_take(a, &check_error), HEARTH_E_UNSUPPORTED, "fails");
    struct hearth_accel_memory copy = hearth_accel_alloc(a, 8);
    hearth_accel_copy(a, &copy, 0, &m, 8, 8);
    hearth_accel_read(a, &copy, 0, y, 8);
    CHECK(hearth_accel_take(a, &check_error));
    assert_true(y[0] == 3.0f && y[1] == 4.0f);
    hearth_accel_free(a, &m);
    hearth_accel_free(a, &copy);
    assert_int_equal(hearth_accel_stats(a).bytes, 0);
    hearth_accel_close(&a);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),  cmocka_unit_test(test_one),      cmocka_unit_test(test_products_of),
        cmocka_unit_test(test_down),      cmocka_unit_test(test_rows),     cmocka_unit_test(test_attention),
        cmocka_unit_test(test_common),    cmocka_unit_test(test_choosing), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_pieces),    cmocka_unit_test(test_places),   cmocka_unit_test(test_all),
        cmocka_unit_test(test_lists),     cmocka_unit_test(test_no_lists), cmocka_unit_test(test_many_lists),
        cmocka_unit_test(test_many_rows), cmocka_unit_test(test_ptx),      cmocka_unit_test(test_routers),
        cmocka_unit_test(test_experts),   cmocka_unit_test(test_latent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
