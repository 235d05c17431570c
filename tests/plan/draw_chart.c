// SPDX-License-Identifier: MIT
// draw_chart FILE.svg: draws the chart that standard input describes as JSON, for scripts: title, subtitle, x_label, y_label,
// x (ascending, from 0 on), series of {label, y, strong, dashed}; y are numbers from 0 on.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/chart.h"

struct reading {
    const char *wrong; // what is, or NULL
    double x[HEARTH_CHART_POINTS], y[HEARTH_CHART_SERIES][HEARTH_CHART_POINTS];
};

static const char *text_of(struct reading *r, const json_t *from, const char *key)
{
    const char *text = json_string_value(json_object_get(from, key));
    if (!text)
        r->wrong = key;
    return text;
}

static int numbers_of(struct reading *r, const json_t *from, const char *key, double *out)
{
    const json_t *list = json_object_get(from, key);
    const size_t n = json_array_size(list);
    if (!n || n > HEARTH_CHART_POINTS) {
        r->wrong = key;
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_number(value) || json_number_value(value) < 0)
            r->wrong = key;
        out[i] = json_number_value(value);
    }
    return (int)n;
}

static void read_series(struct reading *r, const json_t *from, struct hearth_chart *c, int i)
{
    if (numbers_of(r, from, "y", r->y[i]) != c->n_points)
        r->wrong = "y";
    c->series[i] = (struct hearth_chart_series){.label = text_of(r, from, "label"),
                                                .y = r->y[i],
                                                .dashed = json_is_true(json_object_get(from, "dashed")),
                                                .strong = json_is_true(json_object_get(from, "strong"))};
    for (int k = 0; k < c->n_points; k++)
        c->y_most = r->y[i][k] > c->y_most ? r->y[i][k] : c->y_most;
}

static void read_chart(struct reading *r, const json_t *from, struct hearth_chart *c)
{
    const json_t *series = json_object_get(from, "series");
    *c = (struct hearth_chart){.title = text_of(r, from, "title"),
                               .subtitle = text_of(r, from, "subtitle"),
                               .x_label = text_of(r, from, "x_label"),
                               .y_label = text_of(r, from, "y_label"),
                               .n_points = numbers_of(r, from, "x", r->x),
                               .n_series = (int)json_array_size(series),
                               .x = r->x,
                               .numbers = true,
                               .y_scale = 1};
    for (int i = 1; i < c->n_points; i++)
        if (r->x[i] <= r->x[i - 1])
            r->wrong = "x";
    if (c->n_series < 1 || c->n_series > HEARTH_CHART_SERIES)
        r->wrong = "series";
    for (int i = 0; i < c->n_series && !r->wrong; i++)
        read_series(r, json_array_get(series, (size_t)i), c, i);
}

int main(int argc, char **argv)
{
    static struct reading r;
    struct hearth_chart chart;
    struct hearth_error err = {0};
    json_error_t json_err;
    if (argc != 2) {
        fprintf(stderr, "usage: draw_chart FILE.svg <CHART.json\n");
        return 2;
    }
    json_t *from = json_loadf(stdin, 0, &json_err);
    if (from)
        read_chart(&r, from, &chart);
    if (!from || r.wrong) {
        fprintf(stderr, "draw_chart: %s\n", from ? r.wrong : json_err.text);
        json_decref(from);
        return 1;
    }
    const int rc = hearth_chart_write(&chart, argv[1], &err);
    if (rc)
        fprintf(stderr, "draw_chart: %s\n", err.message);
    json_decref(from);
    return rc ? 1 : 0;
}
