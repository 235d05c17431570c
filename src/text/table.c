// SPDX-License-Identifier: MIT
// Open addressing with linear probing, at most half full.
#include "text/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// An odd constant with well-spread bits (2^64 divided by the golden ratio).
#define SPREAD UINT64_C(0x9E3779B97F4A7C15)

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 32) * SPREAD;
    return h ^ h >> 29;
}

uint64_t hearth_text_hash(const char *s, size_t n, uint64_t seed)
{
    uint64_t h = seed ^ n * SPREAD, w;
    while (n > 8) {
        memcpy(&w, s, 8);
        h = mix(h ^ w);
        s += 8;
        n -= 8;
    }
    w = 0;
    memcpy(&w, s, n);
    h = mix(h ^ w);
    return mix(h + seed);
}

int32_t hearth_strtab_find(const struct hearth_strtab *t, const char *s, size_t n)
{
    if (!t->slots)
        return -1;
    uint64_t h = hearth_text_hash(s, n, t->seed);
    for (size_t i = h & t->mask;; i = (i + 1) & t->mask) {
        const struct hearth_strtab_slot *slot = &t->slots[i];
        if (slot->id < 0)
            return -1;
        const struct hearth_str *key = &t->keys[slot->id];
        if (slot->hash == (uint32_t)(h >> 32) && key->n == n && memcmp(key->s, s, n) == 0)
            return slot->id;
    }
}

static bool strtab_resize(struct hearth_strtab *t, size_t capacity)
{
    struct hearth_strtab_slot *slots = hearth_reallocarray(NULL, capacity, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < capacity; i++)
        slots[i].id = -1;
    for (size_t i = 0; t->slots && i <= t->mask; i++) {
        if (t->slots[i].id < 0)
            continue;
        const struct hearth_str *key = &t->keys[t->slots[i].id];
        size_t j = hearth_text_hash(key->s, key->n, t->seed) & (capacity - 1);
        while (slots[j].id >= 0)
            j = (j + 1) & (capacity - 1);
        slots[j] = t->slots[i];
    }
    free(t->slots);
    t->slots = slots;
    t->mask = capacity - 1;
    return true;
}

bool hearth_strtab_reserve(struct hearth_strtab *t, size_t n)
{
    size_t capacity = t->slots ? t->mask + 1 : 64;
    while (capacity / 2 < n) {
        if (capacity > SIZE_MAX / 2)
            return false;
        capacity *= 2;
    }
    return (t->slots && capacity == t->mask + 1) || strtab_resize(t, capacity);
}

bool hearth_strtab_insert(struct hearth_strtab *t, int32_t id)
{
    if (!hearth_strtab_reserve(t, t->n + 1))
        return false;
    const struct hearth_str *key = &t->keys[id];
    uint64_t h = hearth_text_hash(key->s, key->n, t->seed);
    size_t i = h & t->mask;
    for (; t->slots[i].id >= 0; i = (i + 1) & t->mask) {
        const struct hearth_str *other = &t->keys[t->slots[i].id];
        if (t->slots[i].hash == (uint32_t)(h >> 32) && other->n == key->n &&
            memcmp(other->s, key->s, key->n) == 0)
            return true;
    }
    t->slots[i] = (struct hearth_strtab_slot){(uint32_t)(h >> 32), id};
    t->n++;
    return true;
}

uint64_t hearth_strtab_memory(const struct hearth_strtab *t)
{
    return t->slots ? (t->mask + 1) * sizeof *t->slots : 0;
}

void hearth_strtab_free(struct hearth_strtab *t)
{
    free(t->slots);
    *t = (struct hearth_strtab){0};
}

static size_t pair_slot(const struct hearth_pairtab *t, int32_t left, int32_t right)
{
    return mix(((uint64_t)(uint32_t)left << 32 | (uint32_t)right) ^ t->seed) & t->mask;
}

const struct hearth_pairtab_slot *hearth_pairtab_find(const struct hearth_pairtab *t, int32_t left,
                                                      int32_t right)
{
    for (size_t i = pair_slot(t, left, right);; i = (i + 1) & t->mask) {
        const struct hearth_pairtab_slot *slot = &t->slots[i];
        if (slot->left == left && slot->right == right)
            return slot;
        if (slot->left < 0)
            return NULL;
    }
}

bool hearth_pairtab_reserve(struct hearth_pairtab *t, size_t n)
{
    size_t capacity = 64;
    while (capacity / 2 < n + 1) {
        if (capacity > SIZE_MAX / 4)
            return false;
        capacity *= 2;
    }
    t->slots = hearth_reallocarray(NULL, capacity, sizeof *t->slots);
    if (!t->slots)
        return false;
    for (size_t i = 0; i < capacity; i++)
        t->slots[i].left = -1;
    t->n = 0;
    t->mask = capacity - 1;
    return true;
}

void hearth_pairtab_insert(struct hearth_pairtab *t, int32_t left, int32_t right, uint32_t rank,
                           int32_t merged)
{
    if (hearth_pairtab_find(t, left, right))
        return;
    size_t i = pair_slot(t, left, right);
    while (t->slots[i].left >= 0)
        i = (i + 1) & t->mask;
    t->slots[i] = (struct hearth_pairtab_slot){left, right, rank, merged};
    t->n++;
}

uint64_t hearth_pairtab_memory(const struct hearth_pairtab *t)
{
    return t->slots ? (t->mask + 1) * sizeof *t->slots : 0;
}

void hearth_pairtab_free(struct hearth_pairtab *t)
{
    free(t->slots);
    *t = (struct hearth_pairtab){0};
}
