// SPDX-License-Identifier: MIT
// The formats of bench's results but for the Markdown table.
#include "cli/bench_output.h"

#include <string.h>

#include "cli/common.h"

static const char table_name[] = "hearth_bench"; // not llama-bench's, whose columns are others

static int fail(void)
{
    return hearth_cli_error("cannot write the results: out of memory or disk full");
}

// Columns are what has one value. bytes_per_step has several, or none.
static bool is_column(const char *key, const json_t *value)
{
    return !json_is_array(value) && !json_is_object(value) && strcmp(key, "bytes_per_step") != 0;
}

// Text between quotes of this kind, which are doubled inside.
static void put_quoted(const char *text, char quote)
{
    putchar(quote);
    for (; *text; text++) {
        if (*text == quote)
            putchar(quote);
        putchar(*text);
    }
    putchar(quote);
}

static void put_value(const json_t *value, char quote, const char *null)
{
    if (json_is_string(value))
        put_quoted(json_string_value(value), quote);
    else if (json_is_integer(value))
        printf("%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        printf("%.9g", json_real_value(value));
    else
        fputs(null, stdout);
}

// What SQLite and others call the kind of a column.
static const char *type_of(const char *key, const json_t *value)
{
    const bool is_real =
        json_is_real(value) || json_is_null(value) || strstr(key, "_ts") || strstr(key, "_ns");
    return is_real ? "REAL" : json_is_integer(value) ? "INTEGER" : "TEXT";
}

static void put_names(json_t *row, bool with_types)
{
    const char *key, *comma = "";
    json_t *value;
    json_object_foreach(row, key, value)
    {
        if (!is_column(key, value))
            continue;
        printf("%s%s%s%s", comma, key, with_types ? " " : "", with_types ? type_of(key, value) : "");
        comma = with_types ? ", " : ",";
    }
}

static void put_values(json_t *row, char quote, const char *null)
{
    const char *key, *comma = "";
    json_t *value;
    json_object_foreach(row, key, value)
    {
        if (!is_column(key, value))
            continue;
        fputs(comma, stdout);
        put_value(value, quote, null);
        comma = ",";
    }
}

static void put_csv(struct hearth_bench_output *o, json_t *row)
{
    if (!o->begun) {
        put_names(row, false);
        putchar('\n');
    }
    put_values(row, '"', "");
    putchar('\n');
}

static void put_sql(struct hearth_bench_output *o, json_t *row)
{
    if (!o->begun) {
        printf("CREATE TABLE IF NOT EXISTS %s (", table_name);
        put_names(row, true);
        puts(");");
    }
    printf("INSERT INTO %s (", table_name);
    put_names(row, false);
    printf(") VALUES (");
    put_values(row, '\'', "NULL");
    puts(");");
}

int hearth_bench_output_add(struct hearth_bench_output *o, json_t *row)
{
    bool printed = true;
    if (!row)
        return fail();
    if (o->format == HEARTH_OUTPUT_JSON) {
        if (!o->results)
            o->results = json_array();
        return json_array_append_new(o->results, row) ? fail() : HEARTH_EXIT_OK;
    }
    if (o->format == HEARTH_OUTPUT_JSONL) {
        printed = hearth_json_print(json_incref(row), stdout, false);
    } else if (o->format == HEARTH_OUTPUT_CSV) {
        put_csv(o, row);
    } else {
        put_sql(o, row);
    }
    o->begun = true;
    json_decref(row);
    return printed && fflush(stdout) == 0 ? HEARTH_EXIT_OK : fail();
}

void hearth_bench_output_roof(struct hearth_bench_output *o, int n_threads, double gb_per_second)
{
    int i = 0;
    while (i < o->n_roofs && o->roofs[i].n_threads != n_threads)
        i++;
    if (i == HEARTH_INT_LIST_MAX || gb_per_second <= 0)
        return;
    struct hearth_bench_roof *roof = &o->roofs[i];
    if (i == o->n_roofs)
        o->roofs[o->n_roofs++] = (struct hearth_bench_roof){n_threads, gb_per_second, gb_per_second};
    roof->least = gb_per_second < roof->least ? gb_per_second : roof->least;
    roof->most = gb_per_second > roof->most ? gb_per_second : roof->most;
}

// Where it varied: no row's share is of one number.
static void print_roof(const struct hearth_bench_roof *r)
{
    char least[32], most[32];
    const char *threads = r->n_threads > 1 ? "threads" : "thread";
    snprintf(least, sizeof least, "%.2f", r->least);
    snprintf(most, sizeof most, "%.2f", r->most);
    if (!strcmp(least, most))
        printf("Memory roof: %s GB/s with %d %s.\n", least, r->n_threads, threads);
    else
        printf("Memory roof, measured beside each row: %s to %s GB/s with %d %s.\n", least, most,
               r->n_threads, threads);
}

int hearth_bench_output_end(struct hearth_bench_output *o)
{
    if (o->n_roofs && o->format == HEARTH_OUTPUT_MD)
        putchar('\n');
    for (int i = 0; i < o->n_roofs && o->format == HEARTH_OUTPUT_MD; i++)
        print_roof(&o->roofs[i]);
    if (o->results && !hearth_json_print(json_incref(o->results), stdout, true))
        return fail();
    return HEARTH_EXIT_OK;
}

void hearth_bench_output_free(struct hearth_bench_output *o)
{
    json_decref(o->results);
    o->results = NULL;
}
