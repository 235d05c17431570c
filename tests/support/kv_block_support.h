// SPDX-License-Identifier: MIT
// Test support: files of blocks with edits that their checksums do not give away.
#ifndef HEARTH_TESTS_KV_BLOCK_SUPPORT_H
#define HEARTH_TESTS_KV_BLOCK_SUPPORT_H

#include "base/crc32c.h"
#include "base/numbers.h"

// Places in the header: docs/kv-file.md.
enum {
    KV_BLOCK_VERSION = 8,
    KV_BLOCK_TOKENS = 12,
    KV_BLOCK_BYTES = 16,
    KV_BLOCK_KEY = 24,
    KV_BLOCK_CRC = 56,
    KV_BLOCK_COST = 60,
    KV_BLOCK_SPARE = 64,
    KV_BLOCK_SUM = 124,
    KV_BLOCK_HEADER = 128
};

// Makes both checksums right.
static inline void kv_block_repair(uint8_t *bytes, size_t n)
{
    if (n < KV_BLOCK_HEADER)
        return;
    uint8_t *to = bytes + KV_BLOCK_CRC;
    hearth_put_number(&to, hearth_crc32c(0, bytes + KV_BLOCK_HEADER, n - KV_BLOCK_HEADER), 4);
    to = bytes + KV_BLOCK_SUM;
    hearth_put_number(&to, hearth_crc32c(0, bytes, KV_BLOCK_SUM), 4);
}

#endif
