// SPDX-License-Identifier: MIT
// draw_chart FILE.svg: draws the chart that standard input describes as JSON, for scripts: title, subtitle, x_label, y_label,
// x (ascending, from 0 on), series of {label, y, strong, dashed, dots, like}; y are numbers from 0 on, or null where a series has
// no point, and like is the place of a series before, counted from 0, whose colour it has.
#include <jansson.h>
#include <math.h>
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

// null becomes NaN where that may be.
static int numbers_of(struct reading *r, const json_t *from, const char *key, bool may_lack, double *out)
{
    const json_t *list = json_object_get(from, key);
    const size_t n = json_array_size(list);
    if (!n || n > HEARTH_CHART_POINTS) {
        r->wrong = key;
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        const bool lacks = may_lack && json_is_null(value);
        if (!lacks && (!json_is_number(value) || json_number_value(value) < 0))
            r->wrong = key;
        out[i] = lacks ? (double)NAN : json_number_value(value);
    }
    return (int)n;
}

static void read_series(struct reading *r, const json_t *from, struct hearth_chart *c, int i)
{
    const json_t *like = json_object_get(from, "like");
    if (numbers_of(r, from, "y", true, r->y[i]) != c->n_points)
        r->wrong = "y";
    if (like && (!json_is_integer(like) || json_integer_value(like) < 0 || json_integer_value(like) >= i))
        r->wrong = "like";
    c->series[i] = (struct hearth_chart_series){.label = text_of(r, from, "label"),
                                                .y = r->y[i],
                                                .dashed = json_is_true(json_object_get(from, "dashed")),
                                                .strong = json_is_true(json_object_get(from, "strong")),
                                                .dots = json_is_true(json_object_get(from, "dots")),
                                                .like = like ? (int)json_integer_value(like) + 1 : 0};
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
                               .n_points = numbers_of(r, from, "x", false, r->x),
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
