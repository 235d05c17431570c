// SPDX-License-Identifier: MIT
// checkkernels --bench: what the arithmetic can reach at each level, measured by loops of nothing else, and
// the report.
#include "checkkernels.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/os.h"

#define TURNS ((size_t)2000000)
#define RUNS  5

// Multiplications that one task made.
typedef double (*loop_fn)(void);

#if defined(__x86_64__)
#include <immintrin.h>

// Registers in turn: more than an instruction's latency takes.
#define CHAINS 12
#define EACH   _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)

__attribute__((target("avx512f,avx512vnni"))) static double dots_avx512(void)
{
    __m512i acc[CHAINS], w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(5);
    EACH acc[i] = _mm512_setzero_si512();
    for (size_t t = 0; t < TURNS; t++)
        EACH
        {
            acc[i] = _mm512_dpbusd_epi32(acc[i], w, x);
            __asm__ volatile("" : "+v"(acc[i])); // or the compiler finds a shorter way
        }
    return (double)TURNS * CHAINS * 64;
}

__attribute__((target("avx512f"))) static double products_avx512(void)
{
    __m512 acc[CHAINS], w = _mm512_set1_ps(3), x = _mm512_set1_ps(5);
    EACH acc[i] = _mm512_setzero_ps();
    for (size_t t = 0; t < TURNS; t++)
        EACH
        {
            acc[i] = _mm512_fmadd_ps(w, x, acc[i]);
            __asm__ volatile("" : "+v"(acc[i]));
        }
    return (double)TURNS * CHAINS * 16;
}

// Without VNNI an int8 dot product is three instructions.
__attribute__((target("avx2"))) static double dots_avx2(void)
{
    __m256i acc[CHAINS], w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5);
    const __m256i ones = _mm256_set1_epi16(1);
    EACH acc[i] = _mm256_setzero_si256();
    for (size_t t = 0; t < TURNS; t++) {
        EACH
        {
            __m256i pairs = _mm256_maddubs_epi16(w, x);
            __asm__ volatile("" : "+x"(pairs));
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(pairs, ones));
            __asm__ volatile("" : "+x"(acc[i]));
        }
    }
    return (double)TURNS * CHAINS * 32;
}

__attribute__((target("avx2,fma"))) static double products_avx2(void)
{
    __m256 acc[CHAINS], w = _mm256_set1_ps(3), x = _mm256_set1_ps(5);
    EACH acc[i] = _mm256_setzero_ps();
    for (size_t t = 0; t < TURNS; t++)
        EACH
        {
            acc[i] = _mm256_fmadd_ps(w, x, acc[i]);
            __asm__ volatile("" : "+x"(acc[i]));
        }
    return (double)TURNS * CHAINS * 8;
}
#endif

// NULL where the level has no such loop: C, matrix units, other CPUs.
static loop_fn loop_of(unsigned flags, bool bytes)
{
#if defined(__x86_64__)
    if (flags & HEARTH_CPU_AMX && bytes)
        return NULL;
    if (flags & HEARTH_CPU_AVX512)
        return bytes ? dots_avx512 : products_avx512;
    if (flags & HEARTH_CPU_AVX2)
        return bytes ? dots_avx2 : products_avx2;
#endif
    (void)flags;
    (void)bytes;
    return NULL;
}

struct peak {
    loop_fn loop;
    double made[64]; // by task
};

static void peak_task(void *arg, int task, int worker)
{
    (void)worker;
    struct peak *p = arg;
    p->made[task] = p->loop();
}

double bench_peak(struct hearth_pool *pool, unsigned flags, bool bytes)
{
    struct peak p = {.loop = loop_of(flags, bytes)};
    const int threads = hearth_pool_size(pool);
    double best = 0;
    for (int r = 0; r < RUNS && p.loop; r++) {
        double made = 0;
        const uint64_t start = hearth_now_ns();
        hearth_pool_run(pool, peak_task, &p, threads);
        const double ns = (double)(hearth_now_ns() - start);
        for (int i = 0; i < threads; i++)
            made += p.made[i];
        best = made / ns > best ? made / ns : best;
    }
    return best;
}

// ---- the report

static FILE *json;
static const char *separator = "";

void bench_report_open(const char *path, int threads, double roof)
{
    printf("%s, %d threads: memory roof %.1f GB/s\n\n", hearth_cpu_brand(), threads, roof);
    puts("| kernel | level | tokens | GB/s | of roof | GMAC/s | of peak |\n"
         "| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    if (!path)
        return;
    json = fopen(path, "w");
    if (!json) {
        printf("cannot write %s\n", path);
        exit(1);
    }
    fprintf(json, "{\"cpu\": \"%s\", \"threads\": %d, \"roof_gb_per_second\": %.2f, \"kernels\": [",
            hearth_cpu_brand(), threads, roof);
}

void bench_report(const char *kernel, const char *level, size_t tokens, double gbs, double roof, double gmacs,
                  double per_mac, double peak)
{
    printf("| %s | %s | %zu | %.1f | %.0f %% | %.0f |", kernel, level, tokens, gbs, 100 * gbs / roof, gmacs);
    if (peak > 0)
        printf(" %.0f %% |\n", 100 * gmacs * per_mac / peak);
    else
        puts(" |");
    fflush(stdout);
    if (!json)
        return;
    fprintf(json,
            "%s\n {\"kernel\": \"%s\", \"level\": \"%s\", \"tokens\": %zu, \"gb_per_second\": %.2f, "
            "\"of_roof\": %.3f, \"gmac_per_second\": %.1f",
            separator, kernel, level, tokens, gbs, gbs / roof, gmacs);
    if (peak > 0)
        fprintf(json, ", \"peak_gmac_per_second\": %.1f, \"of_peak\": %.3f", peak / per_mac,
                gmacs * per_mac / peak);
    fputc('}', json);
    separator = ",";
}

void bench_report_close(void)
{
    if (!json)
        return;
    fputs("\n]}\n", json);
    const bool failed = ferror(json) != 0;
    if (fclose(json) || failed) {
        puts("cannot write the JSON file");
        exit(1);
    }
}
