// SPDX-License-Identifier: MIT
// Belady's optimum (MIN) for sequences of sets. All items of a visit must be in memory together.
// After the visit the cache may keep any `capacity` of the items it had and got. It is optimal to
// keep those that are needed soonest.
#ifndef HEARTH_PLAN_BELADY_H
#define HEARTH_PLAN_BELADY_H

#include <stdint.h>

#include "base/error.h"

struct hearth_belady;

// Opens a sequence of visits. Visit v is ids[starts[v]..starts[v + 1]), without repetition, all below
// n_items. The arrays are borrowed. HEARTH_E_MEMORY. The result is the caller's to close.
int hearth_belady_open(struct hearth_belady **out, const uint32_t *ids, const uint64_t *starts,
                       uint32_t n_visits, uint32_t n_items, struct hearth_error *err);
// Number of misses from visit `first` (at most n_visits) on. Before it the cache holds whatever of the
// earlier visits' items is best, so no cache that reads what it is asked for has fewer misses from there on.
// Allocates nothing; may be called again.
uint64_t hearth_belady_misses(struct hearth_belady *b, uint64_t capacity, uint32_t first);
void hearth_belady_close(struct hearth_belady **b);

#endif
