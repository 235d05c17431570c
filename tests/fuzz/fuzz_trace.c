// SPDX-License-Identifier: MIT
// Fuzz target: any bytes as a trace. Opening them must end in an error or in a trace whose promises all hold.
#include <stdio.h>
#include <stdlib.h>

#include "sparse/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static void use_set(const struct hearth_trace *t, uint64_t set, uint32_t space, uint32_t *ids)
{
    uint32_t n;
    CHECK(hearth_trace_set_at(t, set, &n) == space);
    uint32_t n_neurons = hearth_trace_info(t)->spaces[space].n_neurons;
    CHECK(n <= n_neurons);
    hearth_trace_ids(t, set, ids);
    for (uint32_t i = 0; i < n; i++)
        CHECK(ids[i] < n_neurons && (!i || ids[i] > ids[i - 1]));
}

static void use(const struct hearth_trace *t)
{
    static uint32_t ids[HEARTH_TRACE_MAX_NEURONS];
    uint64_t sets = 0, tokens = 0, total = 0;
    for (uint32_t i = 0; i < hearth_trace_n_steps(t); i++) {
        uint64_t first;
        uint32_t n, n_ids, last = 0;
        uint32_t n_tokens = hearth_trace_step_at(t, i, &first, &n);
        CHECK(first == sets && n_tokens >= 1);
        tokens += n_tokens;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t space = hearth_trace_set_at(t, first + j, &n_ids);
            CHECK(space < hearth_trace_info(t)->n_spaces && (!j || space > last));
            last = space;
            use_set(t, first + j, space, ids);
            total += n_ids;
        }
        sets += n;
    }
    CHECK(sets == hearth_trace_n_sets(t));
    CHECK(tokens == hearth_trace_n_tokens(t));
    CHECK(total == hearth_trace_n_ids(t));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hearth_error err = {0};
    struct hearth_trace *t;
    int rc = hearth_trace_open_memory(&t, data, size, "input", &err);
    if (rc) {
        CHECK(!t && err.message[0]);
        return 0;
    }
    use(t);
    hearth_trace_close(&t);
    return 0;
}
