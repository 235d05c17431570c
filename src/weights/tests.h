// SPDX-License-Identifier: MIT
// What tests change, through the model's load options, so that models of a few MiB stream as large ones do.
#ifndef HEARTH_WEIGHTS_TESTS_H
#define HEARTH_WEIGHTS_TESTS_H

#include "store/store.h"

struct hearth_weights_tests {
    bool always;         // what all fits streams none the less
    bool early;          // neurons are always guessed early, whatever is fastest
    bool weights_only;   // the budget does not count what the process holds beside the session
    size_t piece_bytes;  // of prompts, 0: as ever
    uint32_t slab_bytes; // of the neuron cache, 0: as ever
    uint32_t flights;    // of bundles, a power of two; 0: as ever
    const struct hearth_store_faults *faults; // of all reads; NULL: none
};

#endif
