// SPDX-License-Identifier: MIT
// checkkernels: proves every kernel variant that this CPU can run equal to the C reference, and the reference
// right.
//
//   checkkernels [--rounds N] [--seed N] [--list]     the check; rounds of random shapes per kernel;
//                                                     with one round, a third of the numbers of tokens
//   checkkernels --bench [FILTER] [--json FILE]       speeds beside the machine's limits
#include "checkkernels.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/os.h"
#include "lanes_model.h"
#if defined(HEARTH_TILES_MODEL)
#include "tiles_model.h"
#endif

struct level check_levels[8];
int check_n_levels;
int check_failures;

static uint64_t seed = 1;

uint32_t check_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

void check_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (++check_failures <= 20) {
        vprintf(fmt, args);
        putchar('\n');
    }
    va_end(args);
}

bool check_same(const char *what, const char *level, const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0) {
            check_fail("%s: %s gives %.9g at %zu of %zu, the reference %.9g", what, level, (double)got[i], i,
                       n, (double)want[i]);
            return false;
        }
    return true;
}

// ---- guarded memory

#define PAGE page_size()

static size_t page_size(void)
{
    static size_t page;
    return page ? page : (page = hearth_os_page());
}

static struct guarded {
    uint8_t *map, *data;
    size_t mapped, n;
} blocks[128];
static int n_blocks;

// Mappings that are not in use, by their number of pages: new ones cost more than most kernels that run on them.
enum { KEPT_PAGES = 64, KEPT = 8 };
static uint8_t *kept[KEPT_PAGES][KEPT];
static int n_kept[KEPT_PAGES];

static uint8_t *map_guarded(size_t inner)
{
    const size_t pages = inner / PAGE;
    if (pages < KEPT_PAGES && n_kept[pages])
        return kept[pages][--n_kept[pages]];
    uint8_t *map = hearth_os_map(inner + 2 * PAGE);
    if (map) {
        hearth_os_guard(map, PAGE);
        hearth_os_guard(map + PAGE + inner, PAGE);
    }
    return map;
}

static void unmap_guarded(uint8_t *map, size_t inner)
{
    const size_t pages = inner / PAGE;
    if (pages < KEPT_PAGES && n_kept[pages] < KEPT)
        kept[pages][n_kept[pages]++] = map;
    else
        hearth_os_unmap(map, inner + 2 * PAGE);
}

void *check_guarded(size_t n, bool at_start)
{
    struct guarded *g = &blocks[n_blocks++];
    size_t inner = (n + PAGE - 1) / PAGE * PAGE + PAGE;
    g->mapped = inner + 2 * PAGE;
    g->map = map_guarded(inner);
    if (!g->map || n_blocks == 128) {
        puts("no memory for guarded blocks");
        exit(1);
    }
    memset(g->map + PAGE, CHECK_CANARY, inner);
    g->n = n;
    g->data = at_start ? g->map + PAGE : g->map + PAGE + inner - n;
    return g->data;
}

// The first byte of p[n] that is not as it was; NULL: there is none.
static const uint8_t *find_written(const uint8_t *p, size_t n)
{
    if (!n || (*p == CHECK_CANARY && !memcmp(p, p + 1, n - 1)))
        return NULL;
    while (*p == CHECK_CANARY)
        p++;
    return p;
}

void check_free_all(void)
{
    while (n_blocks) {
        const struct guarded *g = &blocks[--n_blocks];
        const uint8_t *begin = g->map + PAGE, *end = g->map + g->mapped - PAGE, *after = g->data + g->n;
        const uint8_t *p = find_written(begin, (size_t)(g->data - begin));
        p = p ? p : find_written(after, (size_t)(end - after));
        if (p)
            check_fail("a kernel wrote %td bytes from a block of %zu", p - g->data, g->n);
        unmap_guarded(g->map, (size_t)(end - begin));
    }
}

size_t check_scratch(size_t k)
{
    size_t most = 0;
    for (int i = 0; i < check_n_levels; i++) {
        const size_t need = hearth_kernels_scratch(&check_levels[i].k, k);
        most = need > most ? need : most;
    }
    return (most + 63) / 64 * 64;
}

// ---- inputs

// Roughly normal, standard deviation 1.
static float normal(void)
{
    float sum = 0;
    for (int i = 0; i < 6; i++)
        sum += (float)(check_random() >> 8) / 16777216.0f - 0.5f;
    return sum * 1.41f;
}

void check_fill(float *x, size_t n)
{
    const size_t kind = check_below(10);
    for (size_t i = 0; i < n; i++) {
        float v = normal();
        switch (kind) {
        case 0: // like activations after a ReLU
            v = v > 1.0f ? v : 0.0f;
            break;
        case 1:
            v *= 1e-39f; // denormal
            break;
        case 2:
            v *= 1e15f;
            break;
        case 3: // one spike in a unit
            v = check_below(32) ? v * 1e-4f : 1000.0f;
            break;
        case 4:
            v = 0.0f;
            break;
        case 5:
            v = check_below(2) ? -0.0f : 0.0f;
            break;
        case 6: // everything at the largest magnitude
            v = check_below(2) ? 3.0f : -3.0f;
            break;
        default:
            break;
        }
        x[i] = v;
    }
}

static bool tame(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) < 1e4f))
            return false;
    return true;
}

void check_fill_weights(uint32_t type, uint8_t *w, size_t stride, size_t k, size_t n_rows)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const size_t kind = check_below(4); // 1: bytes of all ones, 2: of zeros, else random
    for (size_t r = 0; r < n_rows; r++)
        for (size_t b = 0; b < k / info->block_elems; b++) {
            uint8_t *block = w + r * stride + b * info->block_bytes;
            float value[256];
            // Scales lie at either end of a block; those of all ones are NaN, then random ones are tried.
            for (int tries = 0; !tries || !tame(value, info->block_elems); tries++) {
                for (size_t i = 0; i < info->block_bytes; i++) {
                    const bool inner = i > 3 && i + 20 < info->block_bytes;
                    block[i] = kind == 1 && inner ? 0xff : kind == 2 && inner ? 0 : (uint8_t)check_random();
                }
                info->decode(block, value, info->block_elems);
            }
        }
}

// ---- main

static void find_levels(void)
{
    unsigned flags;
    for (size_t i = 0; hearth_cpu_level(i) && hearth_cpu_limit(hearth_cpu_level(i), &flags); i++) {
        struct level *l = &check_levels[check_n_levels++];
        l->name = hearth_cpu_level(i);
        hearth_kernels_init(&l->k, flags);
        if (l->k.cpu != flags) // kernels/self_check.c has found what the checks below would find
            check_fail("%s is not used, as its products differ from the reference's", l->name);
    }
}

// The kernels that all processors share, over lanes in C.
static void add_lanes_model(void)
{
    struct level *l = &check_levels[check_n_levels++];
    l->name = "lanes (model)";
    hearth_kernels_init(&l->k, 0);
    init_plain_model(&l->k);
    init_axpy_model(&l->k);
    init_vector_model(&l->k);
}

// The AMX kernels as they are, on tiles that are a model in C.
static void add_tiles_model(void)
{
#if defined(HEARTH_TILES_MODEL)
    unsigned flags;
    if (!hearth_cpu_limit("avx512", &flags))
        return;
    struct level *l = &check_levels[check_n_levels++];
    l->name = "amx (model)";
    hearth_kernels_init(&l->k, flags);
    hearth_kernels_init_tiles_model(&l->k);
#endif
}

int main(int argc, char **argv)
{
    int rounds = 150;
    const char *filter = NULL, *json = NULL;
    bool bench = false;
    find_levels();
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            bench = true;
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--list"))
            return puts("exp matmul axpy sparse attend vector") < 0;
        else if (bench && !strcmp(argv[i], "--json") && i + 1 < argc)
            json = argv[++i];
        else if (bench && argv[i][0] != '-')
            filter = argv[i];
        else
            return puts("usage: checkkernels [--rounds N] [--seed N] [--list] | --bench [FILTER] [--json "
                        "FILE]"),
                   2;
    }
    if (!bench) {
        add_lanes_model();
        add_tiles_model();
    }
    printf("levels:");
    for (int i = 0; i < check_n_levels; i++)
        printf(" %s", check_levels[i].name);
    printf("; seed %llu\n", (unsigned long long)seed);
    if (bench) {
        bench_kernels(filter, json);
        return 0;
    }
    check_exp();
    check_matmul(rounds);
    check_axpy(rounds);
    check_sparse(rounds);
    check_attend(rounds);
    check_vector(rounds * 4);
    printf("%s: %d failures\n", check_failures ? "FAILED" : "passed", check_failures);
    return check_failures != 0;
}
