// SPDX-License-Identifier: MIT
// Belady's optimum (MIN) for sequences of sets: all of a visit's items must be in memory together, and after
// the visit the cache may keep any `capacity` of what it had and got. Keeping those that are needed soonest
// is optimal.
#ifndef HEARTH_PLAN_BELADY_H
#define HEARTH_PLAN_BELADY_H

#include <stdint.h>

#include "base/error.h"

struct hearth_belady;

// Visits one after the other: ids[starts[v]..starts[v + 1]) without repetition within a visit, all below
// n_items. The arrays are borrowed. HEARTH_E_MEMORY.
int hearth_belady_open(struct hearth_belady **out, const uint32_t *ids, const uint64_t *starts,
                       uint32_t n_visits, uint32_t n_items, struct hearth_error *err);
// Misses of the visits from `first` on, with an empty cache before visit 0. No allocation; may be called
// again.
uint64_t hearth_belady_misses(struct hearth_belady *b, uint64_t capacity, uint32_t first);
void hearth_belady_close(struct hearth_belady **b);

#endif
