// SPDX-License-Identifier: MIT
// Networks of tests.
#ifndef HEARTH_TESTS_NET_SUPPORT_H
#define HEARTH_TESTS_NET_SUPPORT_H

#include "check.h"

#include "base/memory.h"
#include "convert/net.h"

// Threads and memory for a net whose sizes and kernels are set; the memory is for close_net_memory().
static inline void *open_net_memory(struct hearth_net *n, int n_threads)
{
    struct hearth_error err;
    assert_int_equal(hearth_pool_open(&n->pool, n_threads, &err), HEARTH_OK);
    struct hearth_arena measure = {0};
    hearth_net_lay_out(n, &measure);
    void *memory = hearth_aligned_alloc(64, hearth_round_up(measure.used, 64));
    assert_non_null(memory);
    struct hearth_arena assign = {.base = memory, .size = measure.used};
    hearth_net_lay_out(n, &assign);
    return memory;
}

static inline void close_net_memory(struct hearth_net *n, void *memory)
{
    hearth_pool_close(&n->pool);
    hearth_aligned_free(memory);
}

#endif
