// SPDX-License-Identifier: MIT
// Test support: saved sequences with edits that their checksums do not give away.
#ifndef HEARTH_TESTS_KV_FILE_SUPPORT_H
#define HEARTH_TESTS_KV_FILE_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/crc32c.h"

// Places in the header: docs/kv-file.md.
enum {
    KV_FILE_VERSION = 8,
    KV_FILE_PAGE_TOKENS = 12,
    KV_FILE_MODEL = 16,
    KV_FILE_TYPE_K = 24,
    KV_FILE_N_LAYER = 32,
    KV_FILE_N_TOKENS = 44,
    KV_FILE_STEPS = 48,
    KV_FILE_LAW = 52,
    KV_FILE_NAME = 56,
    KV_FILE_HEADER = 128
};

static inline bool kv_file_section(uint8_t *bytes, size_t n, size_t *at, size_t length, uint32_t *crc)
{
    if (length > n - *at || n - *at - length < 4)
        return false;
    *crc = hearth_crc32c(*crc, bytes + *at, length);
    for (size_t i = 0; i < 4; i++)
        bytes[*at + length + i] = (uint8_t)(*crc >> (8 * i));
    *at += length + 4;
    return true;
}

// Makes all checksums right that lie where the number of tokens in the header says. token_bytes: of one
// token's keys and values.
static inline void kv_file_repair(uint8_t *bytes, size_t n, size_t token_bytes)
{
    size_t at = 0;
    uint32_t crc = 0, tokens = 0;
    bool found = kv_file_section(bytes, n, &at, KV_FILE_HEADER - 4, &crc);
    for (size_t i = 0; i < 4 && found; i++)
        tokens |= (uint32_t)bytes[KV_FILE_N_TOKENS + i] << (8 * i);
    found = found && tokens <= n &&
            kv_file_section(bytes, n, &at, 4 * (size_t)tokens + ((size_t)tokens + 63) / 64 * 8, &crc);
    for (size_t left = tokens; found && left;) {
        const size_t part = left < 64 ? left : 64;
        found = kv_file_section(bytes, n, &at, part * token_bytes, &crc);
        left -= part;
    }
}

#endif
