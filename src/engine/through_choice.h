// SPDX-License-Identifier: MIT
// Whether a prompt's rows go through a device with layers whose weights are the CPU's: by what such rows took before, on
// either side. The CPU's time grows with the rows; the device's begins with copying all of the weights. So each class of
// numbers of rows has times of its own, which the first prompts measure.
#ifndef HEARTH_ENGINE_THROUGH_CHOICE_H
#define HEARTH_ENGINE_THROUGH_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

// Fewer rows are the CPU's.
#define HEARTH_THROUGH_ROWS 32
// Classes of rows: up to 32, 33 to 64, 65 to 128, and so on.
#define HEARTH_THROUGH_CLASSES 12

// Of one class: times of a layer, running means; 0: not known.
struct hearth_through_class {
    double cpu_ns;    // of a row
    double device_ns; // of all rows, with copies
    int patience;     // evaluations between two trials of the device, where the CPU is faster,
    int left;         // and until the next one
    int looked;       // evaluations on the device since the CPU's time was looked at
};

struct hearth_through_choice {
    struct hearth_through_class classes[HEARTH_THROUGH_CLASSES];
};

void hearth_through_choice_init(struct hearth_through_choice *c);

// The layer of `layers`, all of which are the CPU's, from which on the device computes n_rows rows: 0; 1, where the first
// layer is to tell the CPU's time; or `layers`, so that the CPU computes all of them.
int hearth_through_choice_of(struct hearth_through_choice *c, int n_rows, int layers);

// What so many layers of n_rows rows took: on the CPU, or through the device.
void hearth_through_choice_note(struct hearth_through_choice *c, int n_rows, bool device, int layers,
                                uint64_t ns);

#endif
