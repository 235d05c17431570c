// SPDX-License-Identifier: MIT
// Checksums of a GGUF's bytes, stored in the file itself: the I32 tensor "hearth.checksums", the
// last of the file. Element 0 is the CRC-32C of everything before the data section. Element 1 + i
// is the CRC-32C of block i. Blocks are 1 MiB each, from the start of the data section up to this
// tensor; the last block may be shorter. docs/formats.md, "Checksums".
#ifndef HEARTH_GGUF_CHECKSUMS_H
#define HEARTH_GGUF_CHECKSUMS_H

#include "gguf/gguf.h"

#define HEARTH_CHECKSUMS_NAME  "hearth.checksums"
#define HEARTH_CHECKSUMS_BLOCK ((size_t)1 << 20)

struct hearth_checksums;

// Reads the checksums of a file that is not split. *out stays NULL if it has none. `g` must outlive *out,
// which is the caller's to close. HEARTH_E_FORMAT, HEARTH_E_IO, HEARTH_E_MEMORY.
int hearth_checksums_open(struct hearth_checksums **out, const struct hearth_gguf *g,
                          struct hearth_error *err);
void hearth_checksums_close(struct hearth_checksums **c);

// Number of blocks, the header included.
uint64_t hearth_checksums_n(const struct hearth_checksums *c);
// Range of block i in the file; block 0 is the header.
void hearth_checksums_range(const struct hearth_checksums *c, uint64_t i, uint64_t *offset, uint64_t *n);
// Checks block i, given all of its bytes: for data that was read for another purpose.
// HEARTH_E_FORMAT. Thread-safe.
int hearth_checksums_check(const struct hearth_checksums *c, uint64_t i, const void *bytes,
                           struct hearth_error *err);

// Reads the whole file with n_threads threads (0: one per physical core) and checks every block.
// HEARTH_E_FORMAT: the message names the first damaged place. progress may be NULL; if it returns
// false, the check stops with HEARTH_E_INTERRUPTED.
int hearth_checksums_verify(const struct hearth_checksums *c, int n_threads,
                            bool (*progress)(void *arg, float share), void *progress_arg,
                            struct hearth_error *err);

// CRC-32C of a file's bytes before its data section. It distinguishes two models without reading
// their weights.
int hearth_gguf_header_crc(const struct hearth_gguf *g, uint32_t *crc, struct hearth_error *err);

#endif
