// SPDX-License-Identifier: MIT
// CRC-32C, the checksum of bytes on disk (Castagnoli; polynomial 0x1EDC6F41, reflected, as in
// iSCSI, RFC 3720 appendix B.4).
#ifndef HEARTH_BASE_CRC32C_H
#define HEARTH_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

// The checksum of n more bytes after bytes whose checksum is `crc` (0 at the start). So
// hearth_crc32c(hearth_crc32c(0, a), b) is the checksum of a and b together. Uses the CPU's
// instruction where it has one. Thread-safe.
uint32_t hearth_crc32c(uint32_t crc, const void *p, size_t n);

// The same result from a table, on any CPU. Tests compare the two.
uint32_t hearth_crc32c_table(uint32_t crc, const void *p, size_t n);

#endif
