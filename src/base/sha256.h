// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4): a name for content, of which nobody can make two alike.
#ifndef HEARTH_BASE_SHA256_H
#define HEARTH_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define HEARTH_SHA256_BYTES 32

struct hearth_sha256 {
    uint32_t state[8];
    uint64_t n;        // bytes so far
    uint8_t block[64]; // the last n % 64 of them
};

void hearth_sha256_begin(struct hearth_sha256 *h);
void hearth_sha256_add(struct hearth_sha256 *h, const void *bytes, size_t n);
void hearth_sha256_end(struct hearth_sha256 *h, uint8_t out[HEARTH_SHA256_BYTES]);

#endif
