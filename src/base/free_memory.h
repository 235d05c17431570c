// SPDX-License-Identifier: MIT
// How much memory this process can still take: what the machine has free, and the limits of control groups
// and of the process. Each system has its own, such as os_linux_free_memory.c.
#ifndef HEARTH_BASE_FREE_MEMORY_H
#define HEARTH_BASE_FREE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct hearth_free_memory {
    uint64_t bytes;   // that the process can take beyond what it holds; UINT64_MAX: nobody says
    const char *what; // bounds it: "memory", "control group", "ulimit -v", "ulimit -d"
};

// Looks now. Memory counts as free when the system can give it without swapping: page cache that it can drop
// is free, in control groups, too. What others have claimed (base/claims.h) is not, nor, with `own`, what
// this process has. `root` goes before the paths of all files that are read: "" for this machine, a folder in
// tests.
struct hearth_free_memory hearth_free_memory(const char *root, bool own);

// What the machine has in all, or control groups allow this process in all, if that is less. `root` as above.
// 0: nobody says.
uint64_t hearth_memory_limit(const char *root);

// What of free memory a program takes, so that something stays free for the system, page tables and page
// cache: of what it chooses by itself an eighth, 32 MiB to 2 GiB; of what somebody `asked` for a sixteenth,
// 16 to 512 MiB; never more than half. Whole MiB; UINT64_MAX: nobody says.
uint64_t hearth_free_memory_to_take(const struct hearth_free_memory *f, bool asked);

#endif
