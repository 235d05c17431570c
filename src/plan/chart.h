// SPDX-License-Identifier: MIT
// A line chart as a self-contained SVG file, with a legend: shares of 0 to 100 % over shares, or other
// numbers.
#ifndef HEARTH_PLAN_CHART_H
#define HEARTH_PLAN_CHART_H

#include <stdbool.h>

#include "base/error.h"

#define HEARTH_CHART_SERIES 12
#define HEARTH_CHART_POINTS 48

struct hearth_chart_series {
    const char *label;
    const double *y; // [n_points], 0 to y_most; NaN where the series has no point
    bool dashed;
    bool strong; // drawn thicker
    bool dots;   // points alone, no line
    int like;    // n > 0: the colour of series n - 1
};

struct hearth_chart {
    const char *title, *subtitle, *x_label, *y_label; // UTF-8
    int n_points, n_series;
    const double *x; // [n_points] ascending, from 0 on
    // Numbers: both axes have round numbers, y times y_scale from 0 to y_most, or a round number above
    // y_most. Else both are shares, shown in percent, and each point has its own.
    bool numbers;
    double y_scale, y_most;
    int mark; // a point of the first line that is marked with mark_label, if that is not NULL
    const char *mark_label;
    struct hearth_chart_series series[HEARTH_CHART_SERIES];
};

// Writes the file. The legend lists the series by their value at the middle point, highest first,
// in the order of the lines; where one has none there, as they are given. Errors name the path.
int hearth_chart_write(const struct hearth_chart *chart, const char *path, struct hearth_error *err);

#endif
