// SPDX-License-Identifier: MIT
// CRC-32C (Castagnoli; polynomial 0x1EDC6F41, reflected, as in iSCSI, RFC 3720 appendix B.4): the checksum of
// bytes on disk.
#ifndef HEARTH_BASE_CRC32C_H
#define HEARTH_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

// The checksum of n bytes that follow bytes whose checksum is `crc` (0 at the start):
// hearth_crc32c(hearth_crc32c(0, a), b) is that of a and b together. With the CPU's own instruction where it
// has one. Thread-safe.
uint32_t hearth_crc32c(uint32_t crc, const void *p, size_t n);

// The same from a table, on any CPU: what the other is tested against.
uint32_t hearth_crc32c_table(uint32_t crc, const void *p, size_t n);

#endif
