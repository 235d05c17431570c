// SPDX-License-Identifier: MIT
// Which side is faster: see through_choice.h.
#include "engine/through_choice.h"

// Evaluations between two trials, at least and at most.
#define LEAST_PATIENCE 2
#define MOST_PATIENCE  128
// What trials may cost, as a share of all time, and the most evaluations that are waited for its sake.
#define COST      0.01
#define MOST_REST 1000000
// Evaluations between two looks at the CPU's time, at least; they take a layer each.
#define LOOK 64
// Weight of the newest evaluation in a mean.
#define NEWEST 0.25

static int class_of(int n_rows)
{
    int class = 0;
    while (class < HEARTH_THROUGH_CLASSES - 1 && HEARTH_THROUGH_ROWS << class < n_rows)
        class ++;
    return class;
}

void hearth_through_choice_init(struct hearth_through_choice *c)
{
    *c = (struct hearth_through_choice){0};
    for (int i = 0; i < HEARTH_THROUGH_CLASSES; i++)
        c->classes[i].patience = c->classes[i].left = LEAST_PATIENCE;
}

// The CPU's time for a row: of the class, or of the nearest one that knows it; 0: nobody does.
static double cpu_ns(const struct hearth_through_choice *c, int class)
{
    for (int d = 0; d < HEARTH_THROUGH_CLASSES; d++) {
        const int below = class - d, above = class + d;
        if (below >= 0 && c->classes[below].cpu_ns > 0)
            return c->classes[below].cpu_ns;
        if (above < HEARTH_THROUGH_CLASSES && c->classes[above].cpu_ns > 0)
            return c->classes[above].cpu_ns;
    }
    return 0;
}

// What the device needs at least: the time of the class, or of fewer rows; 0: not known.
static double device_ns(const struct hearth_through_choice *c, int class)
{
    while (class > 0 && c->classes[class].device_ns == 0)
        class --;
    return c->classes[class].device_ns;
}

int hearth_through_choice_of(struct hearth_through_choice *c, int n_rows, int layers)
{
    const int class = class_of(n_rows);
    struct hearth_through_class *k = &c->classes[class];
    if (n_rows < HEARTH_THROUGH_ROWS || layers < 1)
        return layers;
    const double cpu = cpu_ns(c, class) * n_rows, device = device_ns(c, class);
    if (cpu > 0 && device >= cpu)
        return k->device_ns > 0 && --k->left <= 0 ? 0 : layers; // times change
    if (k->cpu_ns == 0) // one layer tells; where there is but one, it is the whole of the CPU's part
        return layers > 1 ? 1 : layers;
    if (k->looked++ < LOOK || k->looked * COST * device * layers < cpu)
        return 0;
    k->looked = 0;
    return layers > 1 ? 1 : layers;
}

// After an evaluation on the device: when the next one follows, if that was the slower side.
static void plan_trial(struct hearth_through_class *k, int n_rows)
{
    const double cpu = k->cpu_ns * n_rows, rest = cpu > 0 ? (k->device_ns / cpu - 1) / COST : 0;
    if (k->device_ns < cpu)
        k->patience = LEAST_PATIENCE;
    else if (k->patience < MOST_PATIENCE)
        k->patience *= 2;
    k->left = rest > MOST_REST ? MOST_REST : rest > k->patience ? (int)rest : k->patience;
}

void hearth_through_choice_note(struct hearth_through_choice *c, int n_rows, bool device, int layers,
                                uint64_t ns)
{
    struct hearth_through_class *k = &c->classes[class_of(n_rows)];
    if (layers < 1 || n_rows < HEARTH_THROUGH_ROWS)
        return;
    const double each = (double)ns / layers;
    double *mean = device ? &k->device_ns : &k->cpu_ns;
    const double now = device ? each : each / n_rows;
    // What went faster once can do so: what is slower may have had bad luck, and the first one has.
    *mean = *mean == 0 || now < *mean ? now : *mean + (now - *mean) * NEWEST;
    if (device)
        plan_trial(k, n_rows);
}
