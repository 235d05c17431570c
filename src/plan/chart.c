// SPDX-License-Identifier: MIT
// Line charts as SVG.
#include "plan/chart.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"

#define WIDTH  940
#define HEIGHT 520
#define LEFT   76
#define RIGHT  650 // right border of the plot; the legend is beside it
#define TOP    84
#define BOTTOM 446
#define LEGEND 680

// Okabe and Ito's colours, which colour-blind people can tell apart, and two greys.
static const char *const colours[HEARTH_CHART_SERIES] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                         "#e69f00", "#56b4e9", "#7a5195", "#444444",
                                                         "#8c6d31", "#999999", "#b30000", "#2f4b7c"};

struct svg {
    struct hearth_outfile *file;
    int rc;
    struct hearth_error *err;
};

static void put(struct svg *s, const char *fmt, ...) HEARTH_PRINTF(2, 3);

static void put(struct svg *s, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!s->rc && n > 0)
        s->rc = hearth_outfile_write(s->file, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1,
                                     s->err);
}

static void put_escaped(struct svg *s, const char *text)
{
    for (; *text; text++) {
        if (*text == '&')
            put(s, "&amp;");
        else if (*text == '<')
            put(s, "&lt;");
        else if ((unsigned char)*text >= 0x20)
            put(s, "%c", *text);
    }
}

static void put_text(struct svg *s, double x, double y, const char *attributes, const char *text)
{
    put(s, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    put_escaped(s, text);
    put(s, "</text>\n");
}

static double x_of(const struct hearth_chart *c, double x)
{
    double most = c->x[c->n_points - 1];
    return LEFT + (RIGHT - LEFT) * (most > 0 ? x / most : 0);
}

// ---- axes

// Between two marks: a round number, so that at most `n` of them reach `most`.
static double step_of(double most, int n)
{
    static const double steps[] = {1, 2, 2.5, 5, 10};
    const double least = most > 0 ? most / n : 1, power = pow(10, floor(log10(least)));
    size_t i = 0;
    while (i + 1 < sizeof steps / sizeof *steps && steps[i] * power < least * 0.999999)
        i++;
    return steps[i] * power;
}

// With as many digits behind the point as all multiples of `step` need.
static void label_of(char *out, size_t size, double value, double step)
{
    int digits = 0;
    for (double s = step; digits < 6 && fabs(s - round(s)) > 1e-6 * s; s *= 10)
        digits++;
    snprintf(out, size, "%.*f", digits, value);
}

#define Y_MARKS 5

static double y_step(const struct hearth_chart *c)
{
    return c->numbers ? step_of(c->y_most * c->y_scale, Y_MARKS) / c->y_scale : 1.0 / Y_MARKS;
}

// What the top of the plot stands for.
static double y_top(const struct hearth_chart *c)
{
    return c->numbers ? y_step(c) * ceil(c->y_most / y_step(c) - 1e-6) : 1;
}

static double y_of(const struct hearth_chart *c, double y)
{
    const double share = y / y_top(c);
    return BOTTOM - (BOTTOM - TOP) * (share < 0 ? 0 : share > 1 ? 1 : share);
}

static void put_y_mark(struct svg *s, const struct hearth_chart *c, int i)
{
    char label[32];
    const double value = i * y_step(c), y = y_of(c, value);
    put(s, "<path d=\"M%d %.1fH%d\" stroke=\"%s\"/>\n", LEFT, y, RIGHT, i ? "#e4e4e4" : "#555555");
    if (c->numbers)
        label_of(label, sizeof label, c->y_scale * value, c->y_scale * y_step(c));
    else
        snprintf(label, sizeof label, "%d %%", i * 100 / Y_MARKS);
    put_text(s, LEFT - 10, y + 4, "text-anchor=\"end\" class=\"tick\"", label);
}

static void put_x_mark(struct svg *s, double x, const char *label)
{
    put(s, "<path d=\"M%.1f %dv5\" stroke=\"#555555\"/>\n", x, BOTTOM);
    if (label)
        put_text(s, x, BOTTOM + 21, "text-anchor=\"middle\" class=\"tick\"", label);
}

static void put_x_shares(struct svg *s, const struct hearth_chart *c)
{
    char label[32];
    double last = -1e9;
    for (int i = 0; i < c->n_points; i++) {
        const double x = x_of(c, c->x[i]);
        const bool room = x - last >= 30; // else it would touch the one before
        snprintf(label, sizeof label, "%.3g %%", 100 * c->x[i]);
        put_x_mark(s, x, room ? label : NULL);
        last = room ? x : last;
    }
}

static void put_axes(struct svg *s, const struct hearth_chart *c)
{
    const double most = c->x[c->n_points - 1], step = step_of(most, 8);
    char label[32];
    for (int i = 0; i * y_step(c) < y_top(c) * 1.000001; i++)
        put_y_mark(s, c, i);
    if (!c->numbers)
        put_x_shares(s, c);
    for (int i = 0; c->numbers && i * step <= most * 1.000001; i++) {
        label_of(label, sizeof label, i * step, step);
        put_x_mark(s, x_of(c, i * step), label);
    }
    put_text(s, (LEFT + RIGHT) / 2.0, BOTTOM + 50, "text-anchor=\"middle\" class=\"axis\"", c->x_label);
    put(s, "<g transform=\"translate(22 %d) rotate(-90)\">", (TOP + BOTTOM) / 2);
    put_text(s, 0, 0, "text-anchor=\"middle\" class=\"axis\"", c->y_label);
    put(s, "</g>\n");
}

// ---- lines

static const char *colour_of(const struct hearth_chart *c, int i)
{
    const int like = c->series[i].like;
    return colours[like > 0 && like <= c->n_series ? like - 1 : i];
}

static void put_line_style(struct svg *s, const struct hearth_chart *c, int i)
{
    put(s, "fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s stroke-linejoin=\"round\"", colour_of(c, i),
        c->series[i].strong ? "3.2" : "1.8", c->series[i].dashed ? " stroke-dasharray=\"6 4\"" : "");
}

static void put_dot(struct svg *s, const struct hearth_chart *c, int i, double x, double y)
{
    put(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\"/>\n", x, y,
        c->series[i].strong ? "3.6" : "2.6", colour_of(c, i));
}

// A line goes on over points that the series lacks.
static void put_line(struct svg *s, const struct hearth_chart *c, int i)
{
    bool begun = false;
    put(s, "<path d=\"");
    for (int k = 0; k < c->n_points; k++) {
        const double y = c->series[i].y[k];
        if (isnan(y))
            continue;
        put(s, "%s%.1f %.1f", begun ? "L" : "M", x_of(c, c->x[k]), y_of(c, y));
        begun = true;
    }
    put(s, "\" ");
    put_line_style(s, c, i);
    put(s, "/>\n");
}

static void put_series(struct svg *s, const struct hearth_chart *c, int i)
{
    const struct hearth_chart_series *series = &c->series[i];
    if (!series->dots)
        put_line(s, c, i);
    for (int k = 0; k < c->n_points && (series->dots || !series->dashed); k++)
        if (!isnan(series->y[k]))
            put_dot(s, c, i, x_of(c, c->x[k]), y_of(c, series->y[k]));
}

static void put_mark(struct svg *s, const struct hearth_chart *c)
{
    if (!c->mark_label)
        return;
    const double x = x_of(c, c->x[c->mark]), y = y_of(c, c->series[0].y[c->mark]);
    put(s,
        "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"7\" fill=\"none\" stroke=\"#d55e00\" stroke-width=\"2.4\"/>\n",
        x, y);
    put_text(s, x + 12, y + 20, "class=\"strong\"", c->mark_label);
}

// The highest of the series that are not listed yet at point `at`, or the first where one of them has none there.
static int next_of(const struct hearth_chart *c, const bool *listed, int at)
{
    int first = -1, best = -1;
    for (int i = c->n_series - 1; i >= 0; i--)
        if (!listed[i])
            first = i;
    for (int i = 0; i < c->n_series; i++) {
        if (isnan(c->series[i].y[at]))
            return first;
        if (!listed[i] && (best < 0 || c->series[i].y[at] > c->series[best].y[at]))
            best = i;
    }
    return best;
}

static void put_legend(struct svg *s, const struct hearth_chart *c)
{
    bool listed[HEARTH_CHART_SERIES] = {false};
    for (int row = 0; row < c->n_series; row++) {
        const int i = next_of(c, listed, c->n_points / 2);
        const double y = TOP + 14 + 30.0 * row;
        listed[i] = true;
        if (c->series[i].dots) {
            put_dot(s, c, i, LEGEND + 15, y);
        } else {
            put(s, "<path d=\"M%d %.1fh30\" ", LEGEND, y);
            put_line_style(s, c, i);
            put(s, "/>\n");
        }
        put_text(s, LEGEND + 40, y + 4.5, c->series[i].strong ? "class=\"strong\"" : "class=\"legend\"",
                 c->series[i].label);
    }
}

static void put_chart(struct svg *s, const struct hearth_chart *c)
{
    put(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" ",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    put(s,
        "role=\"img\" font-family=\"-apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif\">\n<title>");
    put_escaped(s, c->title);
    put(s, "</title>\n<style>.tick{font-size:12px;fill:#444444}.axis{font-size:13px;fill:#222222}"
           ".legend{font-size:12.5px;fill:#222222}.strong{font-size:12.5px;fill:#222222;font-weight:bold}"
           "</style>\n");
    put(s, "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\"/>\n", WIDTH, HEIGHT);
    put_text(s, LEFT, 36, "font-size=\"18\" font-weight=\"bold\" fill=\"#111111\"", c->title);
    put_text(s, LEFT, 58, "font-size=\"12.5\" fill=\"#555555\"", c->subtitle);
    put_axes(s, c);
    for (int i = 0; i < c->n_series; i++)
        if (!c->series[i].strong)
            put_series(s, c, i);
    for (int i = 0; i < c->n_series; i++)
        if (c->series[i].strong)
            put_series(s, c, i);
    put_mark(s, c);
    put_legend(s, c);
    put(s, "</svg>\n");
}

int hearth_chart_write(const struct hearth_chart *chart, const char *path, struct hearth_error *err)
{
    if (chart->n_points < 1 || chart->n_points > HEARTH_CHART_POINTS || chart->n_series < 1 ||
        chart->n_series > HEARTH_CHART_SERIES)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: a chart of %d lines with %d points", path,
                           chart->n_series, chart->n_points);
    struct svg s = {.err = err};
    s.rc = hearth_outfile_open(&s.file, path, err);
    if (s.rc)
        return s.rc;
    put_chart(&s, chart);
    if (s.rc) {
        hearth_outfile_close(&s.file);
        return s.rc;
    }
    return hearth_outfile_commit(&s.file, err);
}
