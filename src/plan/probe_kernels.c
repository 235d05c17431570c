// SPDX-License-Identifier: MIT
// Measuring kernels: from the cache, where arithmetic is the limit, and over more memory than caches hold, where
// arithmetic and memory are the limit together. Some milliseconds for each.
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "plan/probe.h"
#include "plan/roof.h"

// ---- from the cache

// A product of some rows that fit into the cache.
#define K      4096
#define ROWS   64
#define TOKENS 8
#define SPELL  UINT64_C(1000000) // nanoseconds of a product
// Times of a product that count, at least and at most: half of them are shorter than what is taken.
#define LEAST_ROUNDS 5
#define ROUNDS       255

// What a thread computes with.
struct lane {
    uint8_t *weights, *acts, *scratch; // acts: of TOKENS tokens, as the format wants them
    float *out;
    double took[ROUNDS]; // nanoseconds
    double usual;        // of these
};

struct bench {
    struct hearth_kernels kernels;
    struct hearth_region memory;
    const struct hearth_region *stream;
    struct hearth_pool *pool;
    struct lane *lanes; // [threads]
    float *ones;        // [K]
    int n_threads;
    _Atomic uint32_t next; // piece of the stream: each spell goes on where the one before it ended
};

// One product on all threads at once. Threads that share a core are slower together than one by itself.
struct product {
    const struct bench *bench;
    hearth_matmul_fn fn;
    size_t row, x, n_tokens; // row: of weights; x: of a token; bytes
    _Atomic int n_ready;
};

static void time_lane(void *arg, int task, int worker)
{
    (void)worker;
    struct product *p = arg;
    struct lane *l = &p->bench->lanes[task];
    unsigned turns = 0;
    atomic_fetch_add(&p->n_ready, 1);
    while (atomic_load(&p->n_ready) < p->bench->n_threads)
        hearth_pool_relax(&turns);
    size_t n = 0;
    for (uint64_t spent = 0; n < LEAST_ROUNDS || (n < ROUNDS && spent < SPELL); n++) {
        const uint64_t start = hearth_now_ns();
        p->fn(l->out, ROWS, l->weights, p->row, K, ROWS, l->acts, p->x, p->n_tokens, l->scratch);
        const uint64_t took = hearth_now_ns() - start;
        l->took[n] = took ? (double)took : 1;
        spent += took ? took : 1;
    }
    l->usual = hearth_median(l->took, n);
}

// Of a token's activations, as products with the format want them.
static size_t token_bytes(uint32_t type)
{
    return hearth_type_info(type)->unit_elems ? hearth_acts_bytes(K) : K * sizeof(float);
}

// Returns how many of these products a thread makes in a nanosecond.
static double product_rate(const struct bench *b, hearth_matmul_fn fn, uint32_t type, size_t n_tokens)
{
    struct product p = {.bench = b, .fn = fn, .n_tokens = n_tokens};
    p.row = hearth_type_bytes(type, K);
    p.x = token_bytes(type);
    hearth_pool_run(b->pool, time_lane, &p, b->n_threads);
    double sum = 0;
    for (int i = 0; i < b->n_threads; i++)
        sum += 1 / b->lanes[i].usual;
    return sum / b->n_threads;
}

// ---- from memory

// More than caches hold, in pieces. Of rows that are picked, one in PICK is, others each time.
#define PIECE    ((size_t)1 << 20)
#define PICK     7
#define SPELLS   3
#define SPELL_NS UINT64_C(5000000)

// All threads take one piece after the other until the time is over.
struct spell {
    struct bench *bench;
    uint32_t type;
    size_t row, x; // as in struct product
    bool picked;
    uint64_t end_ns;
    _Atomic uint64_t bytes;
};

static size_t use_whole(const struct spell *s, struct lane *l, const uint8_t *piece)
{
    const size_t n_rows = PIECE / s->row;
    for (size_t row = 0, n; row < n_rows; row += n) {
        n = n_rows - row < ROWS ? n_rows - row : ROWS;
        s->bench->kernels.step[s->type](l->out, n, piece + row * s->row, s->row, K, n, l->acts, s->x, 1,
                                        l->scratch);
    }
    return n_rows * s->row;
}

// Of a neuron there are rows of gate and up, and then one of down.
static size_t use_picked(const struct spell *s, struct lane *l, const uint8_t *piece, uint32_t number)
{
    const void *rows[ROWS];
    uint32_t random = number * 2654435761u;
    size_t n = 0;
    for (size_t i = 0; i < PIECE / s->row && n < ROWS; i++) {
        random = random * 1664525u + 1013904223u;
        if ((random >> 8) % PICK == 0)
            rows[n++] = piece + i * s->row;
    }
    if (number % 3 == 2)
        s->bench->kernels.axpy_rows[s->type](l->out, rows, n, K, s->bench->ones);
    else
        s->bench->kernels.dot_rows[s->type](l->out, rows, n, K, l->acts, s->x, 1, l->scratch);
    return n * s->row;
}

static void stream(void *arg, int task, int worker)
{
    (void)worker;
    struct spell *s = arg;
    struct lane *l = &s->bench->lanes[task];
    const size_t n_pieces = s->bench->stream->size / PIECE;
    uint64_t bytes = 0;
    do {
        const uint32_t number = atomic_fetch_add(&s->bench->next, 1);
        const uint8_t *piece = (const uint8_t *)s->bench->stream->base + number % n_pieces * PIECE;
        bytes += s->picked ? use_picked(s, l, piece, number) : use_whole(s, l, piece);
    } while (hearth_now_ns() < s->end_ns);
    atomic_fetch_add(&s->bytes, bytes);
}

// Returns the GB of weights a second that all threads together take of the memory, in the usual spell.
static double stream_rate(struct bench *b, uint32_t type, bool picked)
{
    struct spell s = {.bench = b, .type = type, .picked = picked, .row = hearth_type_bytes(type, K)};
    s.x = token_bytes(type);
    double rates[SPELLS];
    for (int i = 0; i < SPELLS; i++) {
        atomic_store(&s.bytes, 0);
        const uint64_t start = hearth_now_ns();
        s.end_ns = start + SPELL_NS;
        hearth_pool_run(b->pool, stream, &s, b->n_threads);
        const uint64_t took = hearth_now_ns() - start;
        rates[i] = (double)atomic_load(&s.bytes) / (double)(took ? took : 1);
    }
    return hearth_median(rates, SPELLS);
}

// ---- all of them

static void measure_kernel(struct bench *b, uint32_t type, struct hearth_probe_kernel *out)
{
    const double macs = (double)K * ROWS, bytes = (double)hearth_type_bytes(type, K) * ROWS;
    hearth_matmul_fn step = b->kernels.step[type], prompt = b->kernels.prompt[type];
    if (!step || !prompt)
        return;
    out->gb_s = bytes * product_rate(b, step, type, 1);
    out->gmac_s = macs * TOKENS * product_rate(b, step, type, TOKENS);
    out->prompt_gmac_s = macs * TOKENS * product_rate(b, prompt, type, TOKENS);
    out->memory_gb_s = stream_rate(b, type, false);
    out->rows_gb_s = stream_rate(b, type, true);
}

static void lay_out_lanes(struct bench *b, struct hearth_arena *a)
{
    b->lanes = hearth_arena_take(a, (size_t)b->n_threads, sizeof *b->lanes);
    b->ones = hearth_arena_take(a, K, sizeof *b->ones);
    for (int i = 0; i < b->n_threads; i++) {
        uint8_t *weights = hearth_arena_take(a, K * sizeof(float), ROWS),
                *acts = hearth_arena_take(a, hearth_acts_bytes(K) + K * sizeof(float), TOKENS),
                *scratch = hearth_arena_take(a, hearth_kernels_scratch(&b->kernels, K), 1);
        float *out = hearth_arena_take(a, K > ROWS * TOKENS ? K : ROWS * TOKENS, sizeof *out);
        if (b->lanes) {
            b->lanes[i].weights = weights;
            b->lanes[i].acts = acts;
            b->lanes[i].scratch = scratch;
            b->lanes[i].out = out;
        }
    }
}

static int open_bench(struct bench *b, unsigned cpu_flags, int n_threads, struct hearth_error *err)
{
    struct hearth_arena a = {0};
    b->n_threads = n_threads;
    hearth_kernels_init(&b->kernels, cpu_flags);
    lay_out_lanes(b, &a); // measures
    int rc = hearth_region_open(&b->memory, a.used, "measuring the kernels", err);
    if (rc)
        return rc;
    memset(b->memory.base, 0, b->memory.size);
    a = (struct hearth_arena){.base = b->memory.base, .size = b->memory.size};
    lay_out_lanes(b, &a);
    for (size_t i = 0; i < K; i++)
        b->ones[i] = 1;
    return hearth_pool_open(&b->pool, n_threads, err);
}

int hearth_probe_measure_kernels(struct hearth_probe *p, unsigned cpu_flags,
                                 const struct hearth_region *memory, struct hearth_error *err)
{
    struct bench b = {.stream = memory};
    const int rc = open_bench(&b, cpu_flags, p->cores, err);
    for (uint32_t type = 0; type < HEARTH_TYPE_END && !rc; type++)
        if (hearth_type_info(type) && hearth_type_bytes(type, K) <= K * sizeof(float))
            measure_kernel(&b, type, &p->kernel[type]);
    // A format without kernels of its own is not run; whoever asks gets a usual one.
    p->any = p->kernel[HEARTH_TYPE_Q4_0];
    hearth_pool_close(&b.pool);
    hearth_region_close(&b.memory);
    return rc;
}
