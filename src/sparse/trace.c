// SPDX-License-Identifier: MIT
// Traces: the writer that the engine calls, and the reader, which checks everything.
#include "sparse/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"

#define MAGIC        "HEARTHTR"
#define VERSION      1
#define HEADER_BYTES 24
#define SPACE_BYTES  16
#define FLAG_ACTIVE  1u

enum { RECORD_END = 0, RECORD_STEP = 1, RECORD_DELTA = 2, RECORD_BITMAP = 3 };

// ---- writer

struct hearth_trace_writer {
    struct hearth_outfile *file;
    uint32_t n_spaces;
    uint32_t *n_neurons; // [n_spaces]
    uint64_t next_space; // the lowest space that may still follow in this step
    bool in_step;
    uint64_t step_at; // where the step begins in the file
    uint8_t *buffer;  // one record in either form
};

static size_t put_varint(uint8_t *out, uint32_t v)
{
    size_t n = 0;
    while (v >= 0x80) {
        out[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    out[n++] = (uint8_t)v;
    return n;
}

static size_t varint_bytes(uint32_t v)
{
    return v < 1u << 7 ? 1 : v < 1u << 14 ? 2 : v < 1u << 21 ? 3 : v < 1u << 28 ? 4 : 5;
}

static size_t delta_bytes(const uint32_t *ids, uint32_t n)
{
    size_t bytes = n ? varint_bytes(ids[0]) : 0;
    for (uint32_t i = 1; i < n; i++)
        bytes += varint_bytes(ids[i] - ids[i - 1] - 1);
    return bytes;
}

static bool ascending(const uint32_t *ids, uint32_t n, uint32_t n_neurons)
{
    for (uint32_t i = 1; i < n; i++)
        if (ids[i] <= ids[i - 1])
            return false;
    return n == 0 || ids[n - 1] < n_neurons;
}

int hearth_trace_step(struct hearth_trace_writer *w, uint32_t n_tokens, struct hearth_error *err)
{
    if (n_tokens < 1 || n_tokens > HEARTH_TRACE_MAX_TOKENS)
        return hearth_fail(err, HEARTH_E_INVALID, "trace: a step of %u tokens", n_tokens);
    uint8_t record[8] = {RECORD_STEP};
    w->in_step = true;
    w->next_space = 0;
    w->step_at = hearth_outfile_offset(w->file);
    return hearth_outfile_write(w->file, record, 1 + put_varint(record + 1, n_tokens), err);
}

void hearth_trace_drop_step(struct hearth_trace_writer *w)
{
    if (w->in_step)
        hearth_outfile_cut(w->file, w->step_at);
    w->in_step = false;
}

int hearth_trace_set(struct hearth_trace_writer *w, uint32_t space, const uint32_t *ids, uint32_t n,
                     struct hearth_error *err)
{
    if (!w->in_step || space < w->next_space || space >= w->n_spaces)
        return hearth_fail(err, HEARTH_E_INVALID, "trace: space %u comes out of order", space);
    uint32_t n_neurons = w->n_neurons[space];
    if (!ascending(ids, n, n_neurons))
        return hearth_fail(err, HEARTH_E_INVALID, "trace: the neurons of space %u are not ascending", space);
    w->next_space = (uint64_t)space + 1;
    size_t bitmap = (n_neurons + 7u) / 8;
    bool dense = delta_bytes(ids, n) > bitmap;
    uint8_t *p = w->buffer;
    *p++ = dense ? RECORD_BITMAP : RECORD_DELTA;
    p += put_varint(p, space);
    p += put_varint(p, n);
    if (dense) {
        memset(p, 0, bitmap);
        for (uint32_t i = 0; i < n; i++)
            p[ids[i] / 8] |= (uint8_t)(1u << ids[i] % 8);
        p += bitmap;
    } else {
        for (uint32_t i = 0; i < n; i++)
            p += put_varint(p, i ? ids[i] - ids[i - 1] - 1 : ids[0]);
    }
    return hearth_outfile_write(w->file, w->buffer, (size_t)(p - w->buffer), err);
}

static void put_u32(uint8_t *out, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(v >> 8 * i);
}

static bool spaces_in_order(const struct hearth_trace_space *a, const struct hearth_trace_space *b)
{
    return a->layer < b->layer || (a->layer == b->layer && a->expert < b->expert);
}

// NULL: info is valid. Else what is wrong with it.
static const char *check_info(const struct hearth_trace_info *info)
{
    if (info->n_spaces < 1 || info->n_spaces > HEARTH_TRACE_MAX_SPACES)
        return "its number of spaces is out of range";
    uint64_t total = 0;
    for (uint32_t i = 0; i < info->n_spaces; i++) {
        uint32_t n = info->spaces[i].n_neurons;
        if (n < 1 || n > HEARTH_TRACE_MAX_NEURONS)
            return "a space's number of neurons is out of range";
        if (i && !spaces_in_order(&info->spaces[i - 1], &info->spaces[i]))
            return "its spaces are not ascending";
        total += n;
    }
    return total > HEARTH_TRACE_MAX_TOTAL ? "it has too many neurons" : NULL;
}

static int write_header(struct hearth_trace_writer *w, const struct hearth_trace_info *info, size_t n_name,
                        struct hearth_error *err)
{
    uint8_t header[HEADER_BYTES] = MAGIC;
    put_u32(header + 8, VERSION);
    put_u32(header + 12, info->n_spaces);
    put_u32(header + 16, info->active ? FLAG_ACTIVE : 0);
    put_u32(header + 20, (uint32_t)n_name);
    int rc = hearth_outfile_write(w->file, header, sizeof header, err);
    if (!rc)
        rc = hearth_outfile_write(w->file, info->name ? info->name : "", n_name, err);
    for (uint32_t i = 0; !rc && i < info->n_spaces; i++) {
        const struct hearth_trace_space *s = &info->spaces[i];
        uint8_t row[SPACE_BYTES];
        put_u32(row, s->layer);
        put_u32(row + 4, s->expert);
        put_u32(row + 8, s->n_neurons);
        put_u32(row + 12, s->bundle_bytes);
        rc = hearth_outfile_write(w->file, row, sizeof row, err);
        w->n_neurons[i] = s->n_neurons;
    }
    return rc;
}

int hearth_trace_writer_open(struct hearth_trace_writer **out, const char *path,
                             const struct hearth_trace_info *info, struct hearth_error *err)
{
    *out = NULL;
    const char *wrong = check_info(info);
    size_t n_name = info->name ? strnlen(info->name, HEARTH_TRACE_MAX_NAME) : 0;
    if (wrong)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: cannot write the trace: %s", path, wrong);
    uint32_t widest = 0;
    for (uint32_t i = 0; i < info->n_spaces; i++)
        widest = info->spaces[i].n_neurons > widest ? info->spaces[i].n_neurons : widest;
    struct hearth_trace_writer *w = hearth_calloc(1, sizeof *w);
    if (w) {
        w->n_spaces = info->n_spaces;
        w->n_neurons = hearth_calloc(info->n_spaces, sizeof *w->n_neurons);
        w->buffer =
            hearth_calloc(1, 16 + (widest + 7u) / 8); // the chosen form is never longer than the bitmap
    }
    int rc = HEARTH_OK;
    if (!w || !w->n_neurons || !w->buffer)
        rc = hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to write the trace", path);
    if (!rc)
        rc = hearth_outfile_open(&w->file, path, err);
    if (!rc)
        rc = write_header(w, info, n_name, err);
    if (rc)
        hearth_trace_writer_close(&w);
    *out = w;
    return rc;
}

int hearth_trace_writer_commit(struct hearth_trace_writer **writer, struct hearth_error *err)
{
    uint8_t end = RECORD_END;
    int rc = hearth_outfile_write((*writer)->file, &end, 1, err);
    if (!rc)
        rc = hearth_outfile_commit(&(*writer)->file, err);
    hearth_trace_writer_close(writer);
    return rc;
}

void hearth_trace_writer_close(struct hearth_trace_writer **writer)
{
    struct hearth_trace_writer *w = *writer;
    *writer = NULL;
    if (!w)
        return;
    hearth_outfile_close(&w->file);
    free(w->n_neurons);
    free(w->buffer);
    free(w);
}

// ---- reader

struct step {
    uint64_t first; // number of its first set
    uint32_t n_tokens;
};

struct set {
    uint64_t offset; // of the ids in data
    uint32_t space, n;
    bool bitmap;
};

struct hearth_trace {
    struct hearth_trace_info info;
    struct hearth_trace_space *spaces;
    char name[HEARTH_TRACE_MAX_NAME + 1];
    uint8_t *data; // the file
    size_t n_data;
    struct step *steps; // [n_steps + 1], the last one marks the end
    struct set *sets;   // [n_sets]
    uint32_t n_steps;
    uint64_t n_sets, n_tokens, n_ids;
    bool cut_off;
};

// A position in the data. Running out of bytes is not damage: the file was cut off there.
struct cursor {
    const uint8_t *p, *end;
    bool short_of; // ran out of bytes
    const char *wrong;
};

static uint32_t take_varint(struct cursor *c)
{
    uint32_t v = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (c->p == c->end) {
            c->short_of = true;
            return 0;
        }
        uint32_t byte = *c->p++;
        if (shift == 28 && byte > 0x0F)
            break;
        v |= (byte & 0x7F) << shift;
        if (byte < 0x80)
            return v;
    }
    c->wrong = "a number is too large";
    return 0;
}

static bool sound(const struct cursor *c)
{
    return !c->short_of && !c->wrong;
}

static void check_delta(struct cursor *c, uint32_t n, uint32_t n_neurons)
{
    uint64_t next = 0; // the lowest id that may follow
    for (uint32_t i = 0; i < n && sound(c); i++) {
        next += (uint64_t)take_varint(c) + 1;
        if (sound(c) && next > n_neurons)
            c->wrong = "a neuron's id is out of range";
    }
}

static void check_bitmap(struct cursor *c, uint32_t n, uint32_t n_neurons)
{
    size_t bytes = (n_neurons + 7u) / 8;
    if ((size_t)(c->end - c->p) < bytes) {
        c->short_of = true;
        return;
    }
    uint32_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += (uint32_t)__builtin_popcount(c->p[i]);
    if (n_neurons % 8 && c->p[bytes - 1] >> n_neurons % 8)
        c->wrong = "a neuron's id is out of range";
    else if (count != n)
        c->wrong = "a bitmap does not have the bits it claims";
    c->p += bytes;
}

static struct set take_set(const struct hearth_trace *t, struct cursor *c, bool bitmap, uint64_t next_space)
{
    struct set s = {.bitmap = bitmap, .space = take_varint(c)};
    if (sound(c) && (s.space < next_space || s.space >= t->info.n_spaces))
        c->wrong = "a space comes out of order";
    if (sound(c))
        s.n = take_varint(c);
    if (!sound(c))
        return s;
    uint32_t n_neurons = t->spaces[s.space].n_neurons;
    s.offset = (uint64_t)(c->p - t->data);
    if (s.n > n_neurons)
        c->wrong = "a set is larger than its space";
    else if (bitmap)
        check_bitmap(c, s.n, n_neurons);
    else
        check_delta(c, s.n, n_neurons);
    return s;
}

// Walks all records. While steps and sets are not allocated it counts them, then it fills them in. A step
// counts once the next step, or the end, shows that it is complete.
static const char *walk(struct hearth_trace *t, size_t start)
{
    struct cursor c = {.p = t->data + start, .end = t->data + t->n_data};
    uint64_t n_sets = 0, next_space = 0, tokens = 0, ids = 0, step_ids = 0;
    uint32_t n_steps = 0, step_tokens = 0;
    bool ended = false;
    t->n_steps = 0;
    t->n_sets = 0;
    while (!ended && c.p < c.end) {
        uint8_t kind = *c.p++;
        if (kind == RECORD_STEP || kind == RECORD_END) {
            // All steps before this one are complete.
            t->n_steps = n_steps;
            t->n_sets = n_sets;
            t->n_tokens = tokens += step_tokens;
            t->n_ids = ids += step_ids;
            step_tokens = 0;
            step_ids = 0;
            next_space = 0;
        }
        if (kind == RECORD_END) {
            ended = true;
        } else if (kind == RECORD_STEP) {
            step_tokens = take_varint(&c);
            if (sound(&c) && (step_tokens < 1 || step_tokens > HEARTH_TRACE_MAX_TOKENS))
                c.wrong = "a step's number of tokens is out of range";
            if (n_steps == UINT32_MAX - 1)
                c.wrong = "it has too many steps";
            if (sound(&c) && t->steps)
                t->steps[n_steps] = (struct step){n_sets, step_tokens};
            n_steps++;
        } else if (kind == RECORD_DELTA || kind == RECORD_BITMAP) {
            struct set s = take_set(t, &c, kind == RECORD_BITMAP, next_space);
            if (n_steps == 0)
                c.wrong = "a set comes before the first step";
            next_space = (uint64_t)s.space + 1;
            step_ids += s.n;
            if (sound(&c) && t->sets)
                t->sets[n_sets] = s;
            n_sets++;
        } else {
            c.wrong = "a record is of no known kind";
        }
        if (c.wrong)
            return c.wrong;
        if (c.short_of)
            break;
    }
    if (ended && c.p != c.end)
        return "bytes follow its end";
    t->cut_off = !ended;
    if (t->steps)
        t->steps[t->n_steps] = (struct step){t->n_sets, 0};
    return NULL;
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// Reads header and table of spaces; *start becomes the offset of the records.
static int read_header(struct hearth_trace *t, const char *path, size_t *start, struct hearth_error *err)
{
    const uint8_t *p = t->data;
    if (t->n_data < HEADER_BYTES || memcmp(p, MAGIC, 8) != 0)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: not a trace that hearth_session_trace() wrote", path);
    if (get_u32(p + 8) != VERSION)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: a trace of version %u, but this build knows version %u only", path,
                           get_u32(p + 8), (unsigned)VERSION);
    uint32_t n_spaces = get_u32(p + 12), n_name = get_u32(p + 20);
    t->info.active = get_u32(p + 16) & FLAG_ACTIVE;
    if (n_name > HEARTH_TRACE_MAX_NAME || n_spaces > HEARTH_TRACE_MAX_SPACES ||
        t->n_data - HEADER_BYTES < n_name + (size_t)n_spaces * SPACE_BYTES)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: the trace ends within its header", path);
    memcpy(t->name, p + HEADER_BYTES, n_name);
    t->spaces = hearth_calloc(n_spaces, sizeof *t->spaces);
    if (!t->spaces)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to read the trace", path);
    p += HEADER_BYTES + n_name;
    for (uint32_t i = 0; i < n_spaces; i++, p += SPACE_BYTES)
        t->spaces[i] =
            (struct hearth_trace_space){get_u32(p), get_u32(p + 4), get_u32(p + 8), get_u32(p + 12)};
    t->info.name = t->name;
    t->info.n_spaces = n_spaces;
    t->info.spaces = t->spaces;
    const char *wrong = check_info(&t->info);
    if (wrong)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: the trace is damaged: %s", path, wrong);
    *start = (size_t)(p - t->data);
    return HEARTH_OK;
}

static int parse(struct hearth_trace *t, const char *path, struct hearth_error *err)
{
    size_t start = 0;
    int rc = read_header(t, path, &start, err);
    if (rc)
        return rc;
    // Counting reads all of it, so memory stays in proportion to the file (a few dozen bytes per record). The
    // incomplete last step is counted too, because it is read again below.
    const char *wrong = walk(t, start);
    if (wrong)
        return hearth_fail(err, HEARTH_E_FORMAT, "%s: the trace is damaged: %s", path, wrong);
    uint64_t most_sets = t->n_sets + (t->cut_off ? t->info.n_spaces : 0);
    t->steps = hearth_calloc((size_t)t->n_steps + 2, sizeof *t->steps);
    t->sets = most_sets < SIZE_MAX ? hearth_calloc((size_t)most_sets, sizeof *t->sets) : NULL;
    if (!t->steps || !t->sets)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to read the trace", path);
    walk(t, start);
    return HEARTH_OK;
}

static int open_failed(struct hearth_trace **t, int rc)
{
    hearth_trace_close(t);
    return rc;
}

int hearth_trace_open_memory(struct hearth_trace **out, const void *data, size_t n, const char *name,
                             struct hearth_error *err)
{
    *out = NULL;
    struct hearth_trace *t = hearth_calloc(1, sizeof *t);
    if (t)
        t->data = hearth_calloc(1, n);
    if (!t || !t->data)
        return open_failed(&t, hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to read the trace", name));
    if (n)
        memcpy(t->data, data, n);
    t->n_data = n;
    int rc = parse(t, name, err);
    if (rc)
        return open_failed(&t, rc);
    *out = t;
    return HEARTH_OK;
}

int hearth_trace_open(struct hearth_trace **out, const char *path, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_file *file;
    int rc = hearth_file_open(&file, path, err);
    if (rc)
        return rc;
    struct hearth_trace *t = hearth_calloc(1, sizeof *t);
    uint64_t n = hearth_file_size(file);
    if (t && n < SIZE_MAX)
        t->data = hearth_calloc(1, (size_t)n);
    if (!t || !t->data) {
        rc = hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory to read the trace", path);
    } else {
        t->n_data = (size_t)n;
        rc = hearth_file_read(file, t->data, t->n_data, 0, err);
    }
    hearth_file_close(&file);
    if (!rc)
        rc = parse(t, path, err);
    if (rc)
        return open_failed(&t, rc);
    *out = t;
    return HEARTH_OK;
}

void hearth_trace_close(struct hearth_trace **trace)
{
    struct hearth_trace *t = *trace;
    *trace = NULL;
    if (!t)
        return;
    free(t->spaces);
    free(t->steps);
    free(t->sets);
    free(t->data);
    free(t);
}

const struct hearth_trace_info *hearth_trace_info(const struct hearth_trace *t)
{
    return &t->info;
}

bool hearth_trace_cut_off(const struct hearth_trace *t)
{
    return t->cut_off;
}

uint32_t hearth_trace_n_steps(const struct hearth_trace *t)
{
    return t->n_steps;
}

uint64_t hearth_trace_n_sets(const struct hearth_trace *t)
{
    return t->n_sets;
}

uint64_t hearth_trace_n_tokens(const struct hearth_trace *t)
{
    return t->n_tokens;
}

uint64_t hearth_trace_n_ids(const struct hearth_trace *t)
{
    return t->n_ids;
}

uint32_t hearth_trace_step_at(const struct hearth_trace *t, uint32_t step, uint64_t *first, uint32_t *n)
{
    *first = t->steps[step].first;
    *n = (uint32_t)(t->steps[step + 1].first - *first);
    return t->steps[step].n_tokens;
}

uint32_t hearth_trace_set_at(const struct hearth_trace *t, uint64_t set, uint32_t *n)
{
    *n = t->sets[set].n;
    return t->sets[set].space;
}

void hearth_trace_ids(const struct hearth_trace *t, uint64_t set, uint32_t *ids)
{
    const struct set *s = &t->sets[set];
    if (s->bitmap) {
        const uint8_t *bits = t->data + s->offset;
        for (uint32_t i = 0, byte = 0; i < s->n; byte++)
            for (unsigned rest = bits[byte]; rest; rest &= rest - 1)
                ids[i++] = byte * 8 + (uint32_t)__builtin_ctz(rest);
        return;
    }
    struct cursor c = {.p = t->data + s->offset, .end = t->data + t->n_data};
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        ids[i] = next + take_varint(&c);
        next = ids[i] + 1;
    }
}
