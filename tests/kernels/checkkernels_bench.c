// SPDX-License-Identifier: MIT
// checkkernels --bench: matrix products at every level, beside the memory roof and the peak of the
// arithmetic.
#include "checkkernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/threads.h"
#include "plan/roof.h"

#define K      4096
#define LONG_K 14336 // of a 7B model's last matrix of a layer; its activations fill the L1 cache
#define CHUNK  64    // rows of a task; many tokens get eight times as many
#define RUNS   5

static size_t weight_bytes; // far beyond any cache

struct bench {
    hearth_matmul_fn fn;
    const uint8_t *w;
    size_t stride, rows, k, tokens, x_stride;
    const void *x;
    float *out;
    void *scratch[64];
    volatile uint64_t sink;
};

static size_t chunk_of(size_t tokens)
{
    return tokens < 3 ? CHUNK : 8 * CHUNK;
}

static void task(void *arg, int i, int worker)
{
    struct bench *b = arg;
    const size_t chunk = chunk_of(b->tokens), first = (size_t)i * chunk;
    const size_t n = b->rows - first < chunk ? b->rows - first : chunk;
    b->fn(b->out + first, b->rows, b->w + first * b->stride, b->stride, b->k, n, b->x, b->x_stride, b->tokens,
          b->scratch[worker]);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// GB/s of threads that only read.
static double memory_roof(int threads)
{
    struct hearth_roof roof;
    if (hearth_roof_open(&roof, weight_bytes, threads, 1, NULL)) {
        puts("no memory for the benchmark");
        exit(1);
    }
    hearth_roof_measure(&roof);
    const double gbs = roof.samples[0];
    hearth_roof_close(&roof);
    return gbs;
}

// Median seconds of a task list.
static double seconds(struct hearth_pool *pool, hearth_task_fn fn, struct bench *b, int tasks)
{
    double took[RUNS];
    hearth_pool_run(pool, fn, b, tasks);
    for (int r = 0; r < RUNS; r++) {
        uint64_t start = hearth_now_ns();
        hearth_pool_run(pool, fn, b, tasks);
        took[r] = (double)(hearth_now_ns() - start) / 1e9;
    }
    qsort(took, RUNS, sizeof *took, compare);
    return took[RUNS / 2];
}

// ---- picked rows: one in eight of a cluster's 448, as matrices of their own or bundles of gate, up, down

enum picked_kind { PICKED_DOT, PICKED_AXPY, PICKED_BUNDLES };

struct picked {
    struct bench *b;
    const struct hearth_kernels *k;
    uint32_t type;
    enum picked_kind kind;
};

#define CLUSTER 448

static void picked_task(void *arg, int task, int worker)
{
    const struct picked *p = arg;
    struct bench *b = p->b;
    const void *rows[CLUSTER], *up[CLUSTER], *down[CLUSTER];
    float weights[CLUSTER], out[K] = {0};
    const size_t unit = b->stride * (p->kind == PICKED_BUNDLES ? 3 : 1);
    size_t n = 0;
    for (uint32_t i = 0; i < CLUSTER; i++)
        if ((((uint32_t)task * CLUSTER + i) * 2654435761u) >> 29 == 0) {
            rows[n] = b->w + ((size_t)task * CLUSTER + i) * unit;
            up[n] = (const uint8_t *)rows[n] + b->stride;
            down[n] = (const uint8_t *)rows[n] + 2 * b->stride;
            weights[n++] = 0.001f * (float)(i + 1);
        }
    if (p->kind != PICKED_AXPY)
        p->k->dot_rows[p->type](out, rows, n, K, b->x, b->x_stride, 1, b->scratch[worker]);
    if (p->kind == PICKED_BUNDLES)
        p->k->dot_rows[p->type](out, up, n, K, b->x, b->x_stride, 1, b->scratch[worker]);
    memset(out, 0, sizeof out);
    if (p->kind != PICKED_DOT)
        p->k->axpy_rows[p->type](out, p->kind == PICKED_AXPY ? rows : down, n, K, weights);
    b->sink = n;
}

static double picked_seconds(struct hearth_pool *pool, struct picked *p, int tasks)
{
    double took[RUNS];
    for (int r = 0; r < RUNS; r++) {
        uint64_t start = hearth_now_ns();
        hearth_pool_run(pool, picked_task, p, tasks);
        took[r] = (double)(hearth_now_ns() - start) / 1e9;
    }
    qsort(took, RUNS, sizeof *took, compare);
    return took[RUNS / 2];
}

static void bench_picked(struct hearth_pool *pool, struct bench *b, const char *filter, double roof,
                         const void *acts, const void *plain)
{
    static const uint32_t types[] = {HEARTH_TYPE_F16, HEARTH_TYPE_Q8_0, HEARTH_TYPE_Q4_0, HEARTH_TYPE_Q4_K};
    static const char *const names[] = {"dot_rows", "axpy_rows", "bundles"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (int l = 1; l < check_n_levels; l++)
            for (int kind = 0; kind < 3; kind++) {
                const struct hearth_type_info *info = hearth_type_info(types[i]);
                char name[48];
                snprintf(name, sizeof name, "%s %s", names[kind], info->name);
                if (filter && !strstr(name, filter))
                    continue;
                struct picked p = {b, &check_levels[l].k, types[i], (enum picked_kind)kind};
                const size_t rows = kind == PICKED_BUNDLES ? 3 : 1;
                b->stride = hearth_type_bytes(types[i], K);
                b->x = info->unit_elems ? acts : plain;
                b->x_stride = info->unit_elems ? hearth_acts_bytes(K) : K * sizeof(float);
                const int tasks = (int)(weight_bytes / (b->stride * rows * CLUSTER));
                size_t n = 0;
                for (uint32_t j = 0; j < (uint32_t)tasks * CLUSTER; j++)
                    n += (j * 2654435761u) >> 29 == 0;
                const double gbs = (double)(n * b->stride * rows) / picked_seconds(pool, &p, tasks) / 1e9;
                bench_report(name, check_levels[l].name, 1, gbs, roof, gbs / (double)b->stride * K, 1, 0);
            }
}

// ---- attention of steps: ranges of sixteen tiles, which lie scattered as pages do

struct attention {
    struct bench *b;
    const struct hearth_kernels *k;
    uint32_t type;
    size_t dim, queries, row, tile_bytes, n_tasks;
};

#define RANGE 16

static void attention_task(void *arg, int task, int worker)
{
    const struct attention *a = arg;
    float s[HEARTH_ATTEND_ROWS * HEARTH_ATTEND_QUERIES], tile_max[HEARTH_ATTEND_QUERIES];
    float max[HEARTH_ATTEND_QUERIES], sum[HEARTH_ATTEND_QUERIES], out[HEARTH_ATTEND_QUERIES * 256];
    const bool blocks = hearth_type_info(a->type)->unit_elems != 0;
    (void)worker;
    for (size_t i = 0; i < RANGE; i++) {
        const uint8_t *at = a->b->w + ((size_t)task + i * a->n_tasks) * a->tile_bytes;
        const uint8_t *next = i + 1 < RANGE ? at + a->n_tasks * a->tile_bytes : NULL;
        const size_t values = HEARTH_ATTEND_ROWS * a->row;
        const struct hearth_tile k = {at, a->row, HEARTH_ATTEND_ROWS, a->dim, at + values};
        const struct hearth_tile v = {at + values, a->row, HEARTH_ATTEND_ROWS, a->dim, next};
        a->k->attend_scores[a->type](s, tile_max, &k, a->b->x,
                                     blocks ? hearth_acts_bytes(a->dim) : a->dim * sizeof(float), a->queries,
                                     0.001f);
        a->k->attend_values[a->type](out, max, sum, i == 0, s, tile_max, &v, a->queries);
    }
    a->b->sink = (uint64_t)(out[0] > 0);
}

static void bench_attention(struct hearth_pool *pool, struct bench *b, const char *filter, double roof,
                            const float *plain)
{
    static const uint32_t types[] = {HEARTH_TYPE_F16, HEARTH_TYPE_Q8_0};
    static const size_t shapes[][2] = {{64, 8}, {128, 8}, {128, 4}, {128, 1}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (int l = 1; l < check_n_levels; l++)
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
                struct attention a = {b, &check_levels[l].k, types[i], shapes[s][0], shapes[s][1], 0, 0, 0};
                char name[48];
                snprintf(name, sizeof name, "attention %s %zu", hearth_type_info(a.type)->name, a.dim);
                if ((filter && !strstr(name, filter)) || !a.k->attend_scores[a.type])
                    continue;
                uint8_t *acts = hearth_aligned_alloc(64, hearth_acts_bytes(a.dim) * a.queries);
                for (size_t q = 0; q < a.queries; q++)
                    a.k->quantize_acts(acts + q * hearth_acts_bytes(a.dim), plain + q * a.dim, a.dim);
                b->x = hearth_type_info(a.type)->unit_elems ? acts : (const void *)plain;
                a.row = hearth_type_bytes(a.type, a.dim);
                a.tile_bytes = 2 * HEARTH_ATTEND_ROWS * a.row;
                a.n_tasks = weight_bytes / a.tile_bytes / RANGE;
                double took[RUNS];
                for (int r = 0; r < RUNS; r++) {
                    uint64_t start = hearth_now_ns();
                    hearth_pool_run(pool, attention_task, &a, (int)a.n_tasks);
                    took[r] = (double)(hearth_now_ns() - start) / 1e9;
                }
                qsort(took, RUNS, sizeof *took, compare);
                const double gbs = (double)(a.n_tasks * RANGE * a.tile_bytes) / took[RUNS / 2] / 1e9;
                // Keys in blocks are multiplied as bytes, values as floats: no one peak.
                const bool plain_type = !hearth_type_info(a.type)->unit_elems;
                bench_report(name, check_levels[l].name, a.queries, gbs, roof,
                             gbs / (double)a.row * (double)(a.dim * a.queries), 1,
                             plain_type ? bench_peak(pool, a.k->cpu, false) : 0);
                hearth_aligned_free(acts);
            }
}

// Scales as real ones are: some CPUs take a hundred cycles for a number that is not normal.
static void fill_weights(uint8_t *to, uint32_t type)
{
    for (size_t i = 0; i < weight_bytes; i += 2) {
        uint16_t word = (uint16_t)(check_random() & 0x3fff); // as half precision: small and finite
        memcpy(to + i, &word, 2);
    }
    const size_t block = hearth_type_info(HEARTH_TYPE_MXFP4)->block_bytes;
    for (size_t i = 0; type == HEARTH_TYPE_MXFP4 && i < weight_bytes; i += block)
        to[i] = (uint8_t)(112 + check_random() % 16); // an exponent, 127 for 1
}

void bench_kernels(const char *filter, const char *json)
{
    static const uint32_t types[] = {
        HEARTH_TYPE_F16,     HEARTH_TYPE_BF16,  HEARTH_TYPE_Q8_0,    HEARTH_TYPE_Q4_0,  HEARTH_TYPE_Q4_K,
        HEARTH_TYPE_Q5_K,    HEARTH_TYPE_Q6_K,  HEARTH_TYPE_Q3_K,    HEARTH_TYPE_Q2_K,  HEARTH_TYPE_IQ4_XS,
        HEARTH_TYPE_MXFP4,   HEARTH_TYPE_IQ3_S, HEARTH_TYPE_IQ3_XXS, HEARTH_TYPE_IQ2_S, HEARTH_TYPE_IQ2_XS,
        HEARTH_TYPE_IQ2_XXS, HEARTH_TYPE_IQ1_M, HEARTH_TYPE_IQ1_S,   HEARTH_TYPE_NVFP4, HEARTH_TYPE_Q2_0,
        HEARTH_TYPE_TQ2_0,   HEARTH_TYPE_TQ1_0, HEARTH_TYPE_Q1_0};
    static const struct {
        size_t tokens, k;
    } cases[] = {{1, K}, {1, LONG_K}, {4, K}, {8, K}, {16, K}, {32, K}, {512, K}};
    struct hearth_pool *pool = NULL;
    struct hearth_region weights = {0}, acts = {0}, long_acts = {0};
    struct bench b = {.sink = 0};
    const int threads = hearth_cpu_count() < 64 ? hearth_cpu_count() : 64;
    weight_bytes = hearth_roof_bytes();
    if (hearth_pool_open(&pool, threads, NULL) ||
        hearth_region_open(&weights, weight_bytes, "weights", NULL) ||
        hearth_region_open(&acts, 512 * hearth_acts_bytes(K), "activations", NULL) ||
        hearth_region_open(&long_acts, hearth_acts_bytes(LONG_K), "activations", NULL)) {
        puts("no memory for the benchmark");
        exit(1);
    }
    fill_weights(weights.base, types[0]);
    float *x = malloc(LONG_K * sizeof *x);
    for (size_t t = 0; t < 512; t++) {
        check_fill(x, K);
        check_levels[0].k.quantize_acts((uint8_t *)acts.base + t * hearth_acts_bytes(K), x, K);
    }
    check_fill(x, LONG_K);
    check_levels[0].k.quantize_acts(long_acts.base, x, LONG_K);
    float *plain = hearth_aligned_alloc(64, 512 * K * sizeof *plain);
    memset(plain, 0, 512 * K * sizeof *plain);
    for (int i = 0; i < threads; i++)
        b.scratch[i] = hearth_aligned_alloc(64, check_scratch(LONG_K));
    b.w = weights.base;
    const double roof = memory_roof(threads);
    double peaks[8][2];
    for (int l = 0; l < check_n_levels; l++)
        for (int bytes = 0; bytes < 2; bytes++)
            peaks[l][bytes] = bench_peak(pool, check_levels[l].k.cpu, bytes);
    bench_report_open(json, threads, roof);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i] == HEARTH_TYPE_MXFP4 || (i && types[i - 1] == HEARTH_TYPE_MXFP4))
            fill_weights(weights.base, types[i]);
        for (int l = 1; l < check_n_levels; l++)
            for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
                const struct hearth_type_info *info = hearth_type_info(types[i]);
                const size_t tokens = cases[t].tokens, k = cases[t].k;
                const bool step = tokens < 512;
                char name[48];
                snprintf(name, sizeof name, "%s %s%s", step ? "step" : "prompt", info->name,
                         k == LONG_K ? ", long rows" : "");
                if (filter && !strstr(name, filter))
                    continue;
                b.k = k;
                b.stride = hearth_type_bytes(types[i], k);
                // Arithmetic takes long enough on a part of the weights.
                b.rows = tokens < 3 ? weight_bytes / b.stride : 32 * CHUNK * 8;
                b.tokens = tokens;
                b.x = !info->unit_elems ? (const void *)plain : k == LONG_K ? long_acts.base : acts.base;
                b.x_stride = info->unit_elems ? hearth_acts_bytes(k) : k * sizeof(float);
                b.fn = (step ? check_levels[l].k.step : check_levels[l].k.prompt)[types[i]];
                b.out = malloc(b.rows * b.tokens * sizeof *b.out);
                double s =
                    seconds(pool, task, &b, (int)((b.rows + chunk_of(b.tokens) - 1) / chunk_of(b.tokens)));
                double gbs = (double)(b.rows * b.stride) / s / 1e9;
                // Two planes of activations are two products of bytes.
                const int planes = !info->unit_elems ? 1 : step ? 2 : hearth_prompt_planes(types[i]);
                bench_report(name, check_levels[l].name, tokens, gbs, roof,
                             (double)(b.rows * k * b.tokens) / s / 1e9, planes,
                             peaks[l][info->unit_elems != 0]);
                free(b.out);
            }
    }
    bench_picked(pool, &b, filter, roof, acts.base, plain);
    for (size_t i = 0; i < 512 * K; i++)
        plain[i] = (float)(check_random() >> 8) / 16777216.0f - 0.5f;
    bench_attention(pool, &b, filter, roof, plain);
    bench_report_close();
    free(x);
    hearth_aligned_free(plain);
    for (int i = 0; i < threads; i++)
        hearth_aligned_free(b.scratch[i]);
    hearth_region_close(&weights);
    hearth_region_close(&acts);
    hearth_region_close(&long_acts);
    hearth_pool_close(&pool);
}
