// SPDX-License-Identifier: MIT
// How work that both can do is shared between a device and the CPU, which compute at the same time: by what steps of so
// many rows took before. More of it for one side makes that side's time longer and the other's shorter, so the best
// share lies where neither waits, or at an end; it is looked for from the share in use, a step beside it at a time.
#ifndef HEARTH_ENGINE_SHARE_H
#define HEARTH_ENGINE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Shares are so many of these parts.
#define HEARTH_SHARE_ALL     16
#define HEARTH_SHARE_BY_TIME (-1)
// Classes of rows: 1, 2, 3 and 4, 5 to 8, and so on.
#define HEARTH_SHARE_CLASSES 16

// Of one class of rows.
struct hearth_share_class {
    bool known;
    int best, tried;    // shares; tried: the one that is being tried, or best
    int stride;         // how far away the next one is
    int patience, left; // evaluations between two trials, and until the next one
    int n_tried;        // evaluations of this trial
    float trial_ns;     // and their time
    float best_ns;      // of an evaluation with the best share, a running mean
    float wait;         // of that: how much the CPU waits, a share
    float part_ns;      // the CPU's time for one part of the work
};

struct hearth_share {
    struct hearth_share_class classes[HEARTH_SHARE_CLASSES];
    int last;  // class of the last evaluation
    int fixed; // see hearth_share_fix()
    // Of the evaluation that is going on.
    uint64_t all_ns, wait_ns;
};

// All is the device's at first.
void hearth_share_init(struct hearth_share *s);
// The device has this share of all evaluations from now on. HEARTH_SHARE_BY_TIME: the best one is looked for.
void hearth_share_fix(struct hearth_share *s, int share);
// The device's part of an evaluation of n_rows.
int hearth_share_of(const struct hearth_share *s, int n_rows);
// An evaluation is over, which spent all_ns on shared work, wait_ns of it waiting for the device, with that share.
void hearth_share_note(struct hearth_share *s, int n_rows);

// So much of n.
static inline size_t hearth_share_part(int share, size_t n)
{
    return (n * (size_t)share + HEARTH_SHARE_ALL / 2) / HEARTH_SHARE_ALL;
}

#endif
