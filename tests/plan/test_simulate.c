// SPDX-License-Identifier: MIT
// The cache simulator: Belady's optimum against trying everything, rates worked out by hand, what must hold
// on traces that look like real ones; the chart.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "made_traces.h"
#include "plan/belady.h"
#include "plan/chart.h"
#include "plan/simulate.h"

static uint32_t seed = 5;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(seed >> 8) * n >> 24);
}

// ---- Belady's optimum ----

static uint64_t min_misses(const uint32_t *ids, const uint64_t *starts, uint32_t n_visits, uint32_t n_items,
                           uint64_t capacity, uint32_t first)
{
    struct hearth_error err = {0};
    struct hearth_belady *b;
    assert_int_equal(hearth_belady_open(&b, ids, starts, n_visits, n_items, &err), 0);
    uint64_t misses = hearth_belady_misses(b, capacity, first);
    assert_int_equal(hearth_belady_misses(b, capacity, first), misses); // may be asked again
    hearth_belady_close(&b);
    return misses;
}

static void belady_by_hand(void **state)
{
    (void)state;
    // The textbook's 2 3 2 1 5 2 4 5 3 2 5 2 with three frames has six misses. Here what is read need not be
    // kept, which saves one: 3 stays when 4 passes.
    const uint32_t ids[] = {2, 3, 2, 1, 5, 2, 4, 5, 3, 2, 5, 2};
    uint64_t starts[13];
    for (uint64_t i = 0; i < 13; i++)
        starts[i] = i;
    assert_int_equal(min_misses(ids, starts, 12, 6, 3, 0), 5);
    // Without room, everything misses; with room for all, only what is new does.
    assert_int_equal(min_misses(ids, starts, 12, 6, 0, 0), 12);
    assert_int_equal(min_misses(ids, starts, 12, 6, 5, 0), 5);
    assert_int_equal(min_misses(ids, starts, 12, 6, 5, 4), 2); // 5 and 4 come after the first four visits
    // Sets: {0 1 2} {0 3} {1 0}, room for one: keep 0, then 0: misses 3 + 1 + 1.
    const uint32_t sets[] = {0, 1, 2, 0, 3, 1, 0};
    const uint64_t set_starts[] = {0, 3, 5, 7};
    assert_int_equal(min_misses(sets, set_starts, 3, 4, 1, 0), 5);
}

// Fewest misses over every choice of what to keep after each visit.
static uint32_t try_everything(const uint32_t *masks, uint32_t n_visits, uint32_t n_items, uint32_t capacity)
{
    uint32_t best[32], next[32], least = UINT32_MAX;
    memset(best, 0xFF, sizeof best);
    best[0] = 0;
    for (uint32_t v = 0; v < n_visits; v++) {
        memset(next, 0xFF, sizeof next);
        for (uint32_t held = 0; held < 1u << n_items; held++) {
            if (best[held] == UINT32_MAX)
                continue;
            uint32_t misses = best[held] + (uint32_t)__builtin_popcount(masks[v] & ~held),
                     all = held | masks[v];
            for (uint32_t keep = 0; keep < 1u << n_items; keep++)
                if (!(keep & ~all) && (uint32_t)__builtin_popcount(keep) <= capacity && misses < next[keep])
                    next[keep] = misses;
        }
        memcpy(best, next, sizeof best);
    }
    for (uint32_t held = 0; held < 32; held++)
        least = best[held] < least ? best[held] : least;
    return least;
}

static void belady_against_everything(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        uint32_t n_items = 2 + random_below(4), n_visits = 1 + random_below(9), masks[10], ids[50], n = 0;
        uint64_t starts[11] = {0};
        for (uint32_t v = 0; v < n_visits; v++) {
            masks[v] = 0;
            for (uint32_t i = 0; i < n_items; i++)
                if (random_below(10) < 2 + i) {
                    masks[v] |= 1u << i;
                    ids[n++] = i;
                }
            starts[v + 1] = n;
        }
        for (uint32_t capacity = 0; capacity <= n_items; capacity++)
            assert_int_equal(min_misses(ids, starts, n_visits, n_items, capacity, 0),
                             try_everything(masks, n_visits, n_items, capacity));
    }
}

// Hundreds of thousands of visits: all levels of the index of lists.
static void belady_long(void **state)
{
    (void)state;
    const uint32_t n_visits = 300000;
    uint32_t *ids = malloc(n_visits * sizeof *ids);
    uint64_t *starts = malloc((n_visits + 1) * sizeof *starts);
    assert_true(ids && starts);
    for (uint32_t v = 0; v < n_visits; v++) {
        ids[v] = v % 3;
        starts[v] = v;
    }
    starts[n_visits] = n_visits;
    // Of three in turn with room for two (one), two (one) stay for ever and the others always miss.
    assert_int_equal(min_misses(ids, starts, n_visits, 3, 1, 0), 1 + 200000);
    assert_int_equal(min_misses(ids, starts, n_visits, 3, 2, 0), 2 + 100000);
    assert_int_equal(min_misses(ids, starts, n_visits, 3, 3, 0), 3);
    free(ids);
    free(starts);
}

// ---- simulations ----

static char path[300];

static int make_path(void **state)
{
    if (make_folder(state))
        return -1;
    snprintf(path, sizeof path, "%s", in_folder("file"));
    return 0;
}

static const struct hearth_sim_row *row(const struct hearth_sim *s, const char *name)
{
    for (int i = 0; i < s->n_rows; i++)
        if (strcmp(s->rows[i].name, name) == 0)
            return &s->rows[i];
    fail_msg("no row %s", name);
    return NULL;
}

static struct hearth_sim simulate(const struct hearth_sim_params *params)
{
    struct hearth_error err = {0};
    struct hearth_trace *t;
    struct hearth_sim s;
    assert_int_equal(hearth_trace_open(&t, path, &err), 0);
    if (hearth_simulate(t, params, &s, &err))
        fail_msg("%s", err.message);
    hearth_trace_close(&t);
    return s;
}

// Steps of two spaces of four neurons, as strings of digits; "-": the space is not visited.
static void write_steps(const char *const steps[][2], int n)
{
    const struct hearth_trace_space spaces[] = {{0, 0, 4, 100}, {1, 0, 4, 200}};
    struct hearth_error err = {0};
    struct hearth_trace_writer *w;
    assert_int_equal(
        hearth_trace_writer_open(&w, path, &(struct hearth_trace_info){"hand", false, 2, spaces}, &err), 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(hearth_trace_step(w, 1, &err), 0);
        for (uint32_t s = 0; s < 2; s++) {
            uint32_t ids[4], n_ids = 0;
            if (steps[i][s][0] == '-')
                continue;
            for (const char *p = steps[i][s]; *p; p++)
                ids[n_ids++] = (uint32_t)(*p - '0');
            assert_int_equal(hearth_trace_set(w, s, ids, n_ids, &err), 0);
        }
    }
    assert_int_equal(hearth_trace_writer_commit(&w, &err), 0);
}

#define NEAR(x, y) assert_true(fabs((x) - (y)) < 1e-9)

static void rates_by_hand(void **state)
{
    (void)state;
    static const char *const steps[][2] = {{"01", "3"}, {"02", "-"}, {"01", "12"}, {"03", "3"}};
    write_steps(steps, 4);
    // Half of each space: two slots each. 12 uses; those that miss by LRU:
    // space 0: 0 1 | 2 (1 and 2 compete: 0 and 2 stay) | 1 | 3; space 1: 3 | 1 2 (1 and 2 stay) | 3.
    struct hearth_sim s = simulate(&(struct hearth_sim_params){.shares = {0.5, 1}, .n_shares = 2});
    assert_int_equal(s.n_tokens, 4);
    assert_int_equal(s.n_counted_tokens, 4);
    assert_int_equal(s.n_neurons, 8);
    assert_int_equal(s.n_bytes, 1200);
    assert_int_equal(s.slots[0], 4);
    assert_int_equal(s.bytes[0], 600);
    assert_int_equal(s.largest_step, 4);
    assert_int_equal(s.largest_set, 2);
    NEAR(s.density, (8 / 4.0 + 4 / 4.0) / 7);
    // Space 0: 01 02: 1/3, 02 01: 1/3, 01 03: 1/3; space 1: 3 12: 0, 12 3: 0.
    NEAR(s.overlap, 1.0 / 5);
    NEAR(row(&s, "lru")->hit[0], 1 - 9 / 12.0);
    NEAR(row(&s, "lru")->per_token[0], 9 / 4.0);
    NEAR(row(&s, "lru")->hit[1], 1 - 7 / 12.0); // seven neurons are used at all
    // One LRU of four: 0 1 | 3' | 2 (holds 0 2 1 3') | 0 1 hit | 1' 2' miss (1 0 1' 2') | 3 miss (0 3 1' 2')
    // | 3'
    NEAR(row(&s, "lru-global")->hit[0], 1 - 8 / 12.0);
    // The optimum keeps 0 and 1, and 3' and 1': only 3' is used again.
    NEAR(row(&s, "min")->hit[0], 1 - 7 / 12.0);
    NEAR(row(&s, "min-global")->hit[0], 1 - 7 / 12.0);
    // The profile of the first two steps: space 0: 0, then 1 and 2 (the lower id); space 1: 3, then 0.
    s = simulate(&(struct hearth_sim_params){.shares = {0.5}, .n_shares = 1, .warmup = 0.5});
    assert_int_equal(s.n_counted_tokens, 2);
    NEAR(row(&s, "fixed")->hit[0], 1 - 3 / 7.0); // 1', 2' and 3 miss
    NEAR(row(&s, "lru")->hit[0], 1 - 5 / 7.0);   // 1 1' 2' 3 3'
    NEAR(row(&s, "min")->hit[0], 1 - 3 / 7.0);   // 1' 2' 3
}

static void looks_real(const struct hearth_sim *s)
{
    assert_true(s->density > 0.05 && s->density < 0.35);
    assert_true(s->overlap > 0.3 && s->overlap < 0.45);
    assert_true(s->top_tenth > 0.25);
}

static void what_must_hold(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    struct hearth_sim s;
    // Short traces: most neurons of a large cache are not in their warm-up, and fixing them unseen must not
    // pay.
    for (uint32_t k = 1; k < 9; k++) {
        assert_int_equal(made_trace(path, 3, 400, 10 + 5 * k, k, &err), 0);
        s = simulate(&(struct hearth_sim_params){.warmup = 0.1 * (k % 4)});
        for (int r = 0; r < s.n_rows; r++)
            for (int i = 0; i < s.n_shares; i++)
                assert_true(s.rows[r].hit[i] <= row(&s, "min-global")->hit[i] + 1e-12);
    }
    assert_int_equal(made_trace(path, 3, 400, 200, 42, &err), 0);
    s = simulate(&(struct hearth_sim_params){.warmup = 0.25});
    looks_real(&s);
    assert_int_equal(s.n_shares, 10);
    assert_int_equal(s.n_counted_tokens, 150);
    for (int r = 0; r < s.n_rows; r++)
        for (int i = 0; i < s.n_shares; i++) {
            const struct hearth_sim_row *it = &s.rows[r];
            assert_true(it->hit[i] >= 0 && it->hit[i] <= 1);
            if (i) // a larger cache of these kinds is no worse here
                assert_true(it->hit[i] >= it->hit[i - 1] - 0.01);
            if (strcmp(it->name, "min-global") != 0 && strcmp(it->name, "lru-global") != 0)
                assert_true(it->hit[i] <= row(&s, "min")->hit[i] + 1e-12);
            assert_true(it->hit[i] <= row(&s, "min-global")->hit[i] + 1e-12);
        }
    // One LRU for all is worth nothing below what a step uses, and quotas per space are.
    assert_true(row(&s, "lru-global")->hit[0] < 0.01);
    assert_true(row(&s, "decayed")->hit[0] > 0.1);
    assert_true(row(&s, "lru")->hit[0] > 0.1);
}

// With a single space, one LRU for all spaces (a list) and the cache's (by score) are the same thing.
static void two_ways_to_lru(void **state)
{
    (void)state;
    struct hearth_error err = {0};
    assert_int_equal(made_trace(path, 1, 500, 120, 3, &err), 0);
    struct hearth_sim s = simulate(&(struct hearth_sim_params){.warmup = 0.1});
    looks_real(&s);
    for (int i = 0; i < s.n_shares; i++) {
        NEAR(row(&s, "lru")->hit[i], row(&s, "lru-global")->hit[i]);
        NEAR(row(&s, "min")->hit[i], row(&s, "min-global")->hit[i]);
    }
    // The half life matters to the decayed frequency and to nothing else.
    struct hearth_sim fast = simulate(&(struct hearth_sim_params){.warmup = 0.1, .half_life = 1});
    assert_true(fabs(row(&fast, "decayed")->hit[2] - row(&s, "decayed")->hit[2]) > 1e-4);
    NEAR(row(&fast, "lfru")->hit[2], row(&s, "lfru")->hit[2]);
}

static bool stop(void *arg, float share)
{
    assert_true(share > 0 && share <= 1);
    return --*(int *)arg > 0;
}

static void refusals(void **state)
{
    (void)state;
    static const char *const steps[][2] = {{"01", "3"}, {"-", "-"}};
    write_steps(steps, 2);
    struct hearth_error err = {0};
    struct hearth_trace *t;
    struct hearth_sim s;
    assert_int_equal(hearth_trace_open(&t, path, &err), 0);
    assert_int_equal(hearth_simulate(t, &(struct hearth_sim_params){.warmup = 0.5}, &s, &err),
                     HEARTH_E_INVALID);
    assert_int_equal(hearth_simulate(t, &(struct hearth_sim_params){.warmup = 1}, &s, &err),
                     HEARTH_E_INVALID);
    assert_int_equal(hearth_simulate(t, &(struct hearth_sim_params){.n_shares = 17}, &s, &err),
                     HEARTH_E_INVALID);
    assert_int_equal(
        hearth_simulate(t, &(struct hearth_sim_params){.n_shares = 1, .shares = {1.5}}, &s, &err),
        HEARTH_E_INVALID);
    int calls = 3;
    assert_int_equal(
        hearth_simulate(t, &(struct hearth_sim_params){.progress = stop, .arg = &calls}, &s, &err),
        HEARTH_E_INTERRUPTED);
    assert_int_equal(calls, 0);
    hearth_trace_close(&t);
    write_steps(steps, 0);
    assert_int_equal(hearth_trace_open(&t, path, &err), 0);
    assert_int_equal(hearth_simulate(t, &(struct hearth_sim_params){0}, &s, &err), HEARTH_E_INVALID);
    hearth_trace_close(&t);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

static char *chart_text(const struct hearth_chart *c)
{
    struct hearth_error err = {0};
    struct hearth_file *f;
    assert_int_equal(hearth_chart_write(c, path, &err), 0);
    assert_int_equal(hearth_file_open(&f, path, &err), 0);
    const size_t n = (size_t)hearth_file_size(f);
    char *text = calloc(1, n + 1);
    assert_non_null(text);
    assert_int_equal(hearth_file_read(f, text, n, 0, &err), 0);
    hearth_file_close(&f);
    return text;
}

static void chart(void **state)
{
    (void)state;
    const double x[] = {0.1, 0.5, 0.9}, low[] = {0, 0.2, 0.4}, high[] = {0.5, 0.9, 1};
    struct hearth_chart c = {
        .title = "A & B <C>",
        .subtitle = "",
        .x_label = "size",
        .y_label = "rate",
        .n_points = 3,
        .n_series = 2,
        .x = x,
        .series = {{.label = "low", .y = low, .strong = true}, {.label = "high", .y = high, .dashed = true}}};
    struct hearth_error err = {0};
    char *text = chart_text(&c);
    const size_t n = strlen(text);
    assert_int_equal(strncmp(text, "<svg xmlns=", 11), 0);
    assert_int_equal(strcmp(text + n - 7, "</svg>\n"), 0);
    assert_int_equal(count(text, "A &amp; B &lt;C>"), 2);
    assert_int_equal(count(text, "<C>"), 0);
    assert_int_equal(count(text, "<circle"), 3); // the dashed line has no points
    assert_int_equal(count(text, "<text"), count(text, "</text>"));
    assert_true(strstr(text, ">high<") < strstr(text, ">low<")); // as the lines lie
    free(text);
    c.numbers = true; // round ones on both axes
    c.y_scale = 1;
    c.y_most = 1.37;
    const double memory[] = {0.031, 0.047, 0.0915};
    c.x = memory;
    text = chart_text(&c);
    assert_non_null(strstr(text, ">0.00<"));
    assert_non_null(strstr(text, ">0.02<"));
    assert_non_null(strstr(text, ">0.08<"));
    assert_null(strstr(text, ">0.031<"));
    assert_non_null(strstr(text, ">1.5<"));
    assert_null(strstr(text, ">2.0<"));
    free(text);
    // Dots alone, a line over a point that is not there, a colour that was there before, the order given.
    const double apart[] = {0.5, NAN, 1}, dots[] = {NAN, 0.25, NAN};
    c.n_series = 3;
    c.series[0] = (struct hearth_chart_series){.label = "apart", .y = apart, .dashed = true};
    c.series[1] = (struct hearth_chart_series){.label = "dots", .y = dots, .dots = true, .like = 1};
    c.series[2] = (struct hearth_chart_series){.label = "high", .y = high};
    text = chart_text(&c);
    assert_null(strstr(text, "nan"));
    assert_int_equal(count(text, "<circle"), 1 + 1 + 3); // in the plot and in the legend; those of the line
    assert_int_equal(count(text, "fill=\"none\" stroke=\"#0072b2\""), 2);
    assert_int_equal(count(text, "\" fill=\"#0072b2\"/>"), 2);
    assert_int_equal(count(text, "#d55e00"), 0);
    assert_true(strstr(text, ">apart<") < strstr(text, ">dots<") &&
                strstr(text, ">dots<") < strstr(text, ">high<"));
    free(text);
    c.x = x;
    c.n_series = 0;
    assert_int_equal(hearth_chart_write(&c, path, &err), HEARTH_E_INVALID);
    c.n_series = 2;
    assert_int_equal(hearth_chart_write(&c, "/nonexistent/chart.svg", &err), HEARTH_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(belady_by_hand),
        cmocka_unit_test(belady_against_everything),
        cmocka_unit_test(belady_long),
        cmocka_unit_test_setup_teardown(rates_by_hand, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(what_must_hold, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(two_ways_to_lru, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(refusals, make_path, remove_folder),
        cmocka_unit_test_setup_teardown(chart, make_path, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
