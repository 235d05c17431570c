// SPDX-License-Identifier: MIT
// Letting kernels in that this project has not seen run on every kind of CPU: only after they have given the
// reference's bits here, on small products of every block format.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/memory.h"
#include "kernels/variants.h"

// Enough for two B tiles, of which one has a single row, and for a lane of every unit; few enough that the
// reference takes a few milliseconds in all. Prompts take tokens in sweeps of several sizes: an odd number of them, and
// as many as have a sweep of their own.
#define K      512
#define ROWS   17
#define TOKENS 9
#define SWEEP  8

struct room {
    uint8_t *w, *x, *scratch;
    float *want, *got;
    void *base;
};

static uint32_t next_random(uint32_t *seed)
{
    return *seed = *seed * 1664525u + 1013904223u;
}

// Blocks of random bytes, redrawn until they stand for numbers of ordinary size.
static void draw_weights(const struct hearth_type_info *info, uint8_t *w, uint32_t *seed)
{
    for (size_t b = 0; b < ROWS * K / info->block_elems; b++, w += info->block_bytes) {
        float value[256], largest;
        do {
            for (size_t i = 0; i < info->block_bytes; i++)
                w[i] = (uint8_t)(next_random(seed) >> 24);
            info->decode(w, value, info->block_elems);
            largest = 0;
            for (size_t i = 0; i < info->block_elems; i++)
                largest = fabsf(value[i]) <= largest ? largest : fabsf(value[i]);
        } while (!(largest < 1e4f));
    }
}

static bool agree(const struct room *room, hearth_matmul_fn fn, hearth_matmul_fn reference, size_t stride,
                  size_t n_tokens)
{
    const size_t x_stride = hearth_acts_bytes(K);
    memset(room->got, 0, ROWS * n_tokens * sizeof *room->got);
    reference(room->want, ROWS, room->w, stride, K, ROWS, room->x, x_stride, n_tokens, room->scratch);
    fn(room->got, ROWS, room->w, stride, K, ROWS, room->x, x_stride, n_tokens, room->scratch);
    return !memcmp(room->got, room->want, ROWS * n_tokens * sizeof *room->got);
}

// The first format whose products differ, NULL when all agree.
static const char *first_to_differ(const struct hearth_kernels *t, const struct room *room)
{
    struct hearth_kernels reference = {0};
    hearth_kernels_init_step_c(&reference);
    hearth_kernels_init_prompt_c(&reference);
    hearth_kernels_init_vector_c(&reference);
    uint32_t seed = 1;
    float x[K];
    for (size_t i = 0; i < TOKENS; i++) {
        for (size_t j = 0; j < K; j++)
            x[j] = (float)(int32_t)next_random(&seed) * 1e-9f;
        reference.quantize_acts(room->x + i * hearth_acts_bytes(K), x, K);
    }
    for (uint32_t type = 0; type < HEARTH_TYPE_END; type++) {
        const struct hearth_type_info *info = hearth_type_info(type);
        if (!info || !info->unpack || !info->decode)
            continue;
        const size_t stride = hearth_type_bytes(type, K);
        draw_weights(info, room->w, &seed);
        if (!agree(room, t->step[type], reference.step[type], stride, TOKENS) ||
            !agree(room, t->prompt[type], reference.prompt[type], stride, TOKENS) ||
            !agree(room, t->prompt[type], reference.prompt[type], stride, SWEEP))
            return info->name;
    }
    return NULL;
}

static bool room_open(struct room *room, const struct hearth_kernels *t)
{
    const size_t x = TOKENS * hearth_acts_bytes(K), scratch = (hearth_kernels_scratch(t, K) + 63) / 64 * 64;
    const size_t out = (ROWS * TOKENS * sizeof(float) + 63) / 64 * 64, w = ROWS * K * sizeof(float);
    room->base = hearth_calloc(1, 64 + x + scratch + 2 * out + w);
    if (!room->base)
        return false;
    uint8_t *at = (uint8_t *)(((uintptr_t)room->base + 63) / 64 * 64);
    room->x = at;
    room->scratch = room->x + x;
    room->want = (float *)(void *)(room->scratch + scratch);
    room->got = (float *)(void *)(room->scratch + scratch + out);
    room->w = room->scratch + scratch + 2 * out;
    return true;
}

bool hearth_kernels_adopt(struct hearth_kernels *table, void (*init)(struct hearth_kernels *),
                          const char *level)
{
    struct hearth_kernels candidate = *table;
    struct room room;
    init(&candidate);
    const bool has_room = room_open(&room, &candidate);
    const char *differs = has_room ? first_to_differ(&candidate, &room) : NULL;
    if (has_room)
        free(room.base);
    if (!has_room)
        hearth_log(HEARTH_LOG_WARNING,
                   "no memory to check the %s instructions of this CPU: going on without them", level);
    else if (differs)
        hearth_log(
            HEARTH_LOG_WARNING,
            "the %s instructions of this CPU give other products of %s weights than the reference: going "
            "on without them",
            level, differs);
    if (!has_room || differs)
        return false;
    *table = candidate;
    return true;
}

void hearth_kernels_adopt_once(struct hearth_kernels *table, void (*check)(struct hearth_kernels *),
                               void (*use)(struct hearth_kernels *), const char *level, unsigned flag,
                               atomic_bool *proved)
{
    if (!atomic_load(proved) && !hearth_kernels_adopt(table, check, level)) {
        hearth_cpu_distrust(flag);
        table->cpu &= ~flag;
        return;
    }
    atomic_store(proved, true);
    use(table);
}
