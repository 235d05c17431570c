// SPDX-License-Identifier: MIT
// How storage is to be read, as users say it.
#ifndef HEARTH_BASE_STORAGE_H
#define HEARTH_BASE_STORAGE_H

#include "base/error.h"

enum hearth_io { HEARTH_IO_AUTO, HEARTH_IO_URING, HEARTH_IO_PREAD };
// Parses "auto", "uring" or "pread". HEARTH_E_INVALID.
int hearth_io_parse(enum hearth_io *out, const char *text, struct hearth_error *err);

// Emulates other storage: completions are delayed as on a device with these limits. A read that continues
// where the last one ended costs only its bytes. Any other read costs at least 1 / iops seconds.
struct hearth_throttle {
    double iops; // random reads a second; 0: no limit
    double mbps; // million bytes a second; 0: no limit
};
// Parses "ufs4", "ufs3", "nvme" or "IOPS,MBPS" (either may be 0). HEARTH_E_INVALID: the message
// says what is allowed.
int hearth_throttle_parse(struct hearth_throttle *out, const char *text, struct hearth_error *err);

#endif
