// SPDX-License-Identifier: MIT
// Two hash tables: strings to ids, and pairs of ids to merges. Built once, then read by any number of
// threads.
#ifndef HEARTH_TEXT_TABLE_H
#define HEARTH_TEXT_TABLE_H

#include "gguf/gguf.h"

// Hash of any bytes. The seed differs from run to run, so that no file can force collisions; no
// result depends on it.
uint64_t hearth_text_hash(const char *s, size_t n, uint64_t seed);

// Strings to ids. The table keeps ids only. The strings are `keys[id]`, owned by the caller, who
// may move the array and must then update `keys`.
struct hearth_strtab {
    const struct hearth_str *keys;
    struct hearth_strtab_slot {
        uint32_t hash;
        int32_t id; // -1: free
    } * slots;
    size_t n, mask; // entries; slots - 1 (slots are a power of two), 0 before the first insertion
    uint64_t seed;
};

// The id of s[0..n), or -1. Thread-safe while nobody inserts.
int32_t hearth_strtab_find(const struct hearth_strtab *t, const char *s, size_t n);
// Makes room for n strings in all, so that inserting them moves nothing. False: no memory.
bool hearth_strtab_reserve(struct hearth_strtab *t, size_t n);
// Inserts keys[id], unless an equal string is there. False: no memory.
bool hearth_strtab_insert(struct hearth_strtab *t, int32_t id);
void hearth_strtab_free(struct hearth_strtab *t);
uint64_t hearth_strtab_memory(const struct hearth_strtab *t);

// Pairs of ids to {rank, merged id}.
struct hearth_pairtab {
    struct hearth_pairtab_slot {
        int32_t left, right; // left -1: free
        uint32_t rank;
        int32_t merged;
    } * slots;
    size_t n, mask;
    uint64_t seed;
};

// The entry of a pair; NULL: the pair does not merge. Thread-safe while nobody inserts.
const struct hearth_pairtab_slot *hearth_pairtab_find(const struct hearth_pairtab *t, int32_t left,
                                                      int32_t right);
// Sizes an empty table for n pairs. False: no memory.
bool hearth_pairtab_reserve(struct hearth_pairtab *t, size_t n);
// Inserts a pair, unless it is there (its first rank counts). Never more pairs than were reserved.
void hearth_pairtab_insert(struct hearth_pairtab *t, int32_t left, int32_t right, uint32_t rank,
                           int32_t merged);
void hearth_pairtab_free(struct hearth_pairtab *t);
uint64_t hearth_pairtab_memory(const struct hearth_pairtab *t);

#endif
