// SPDX-License-Identifier: MIT
// A line chart as a self-contained SVG file: shares of 0 to 100 % over shares, with a legend.
#ifndef HEARTH_PLAN_CHART_H
#define HEARTH_PLAN_CHART_H

#include <stdbool.h>

#include "base/error.h"

#define HEARTH_CHART_SERIES 12
#define HEARTH_CHART_POINTS 16

struct hearth_chart_series {
    const char *label;
    const double *y; // [n_points], 0..1
    bool dashed;
    bool strong; // drawn thicker
};

struct hearth_chart {
    const char *title, *subtitle, *x_label, *y_label; // UTF-8
    int n_points, n_series;
    const double *x; // [n_points] ascending, 0..1
    struct hearth_chart_series series[HEARTH_CHART_SERIES];
};

// Writes the file. The legend lists the series by their value at the middle point, highest first,
// in the order of the lines. Errors name the path.
int hearth_chart_write(const struct hearth_chart *chart, const char *path, struct hearth_error *err);

#endif
