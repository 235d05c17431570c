// SPDX-License-Identifier: MIT
// Reading one ahead: see ahead.h.
#include "weights/ahead.h"

// On its way, but wanted no more.
#define STALE (HEARTH_AHEAD_NONE - 1)

static int buffer_of(const struct hearth_ahead *a, uint64_t key)
{
    return a->held[0] == key ? 0 : a->held[1] == key ? 1 : -1;
}

static void start(struct hearth_ahead *a, int buffer, uint64_t key)
{
    a->jobs[buffer] = (struct hearth_reader_job){0};
    a->list(a->arg, key, buffer, &a->jobs[buffer]);
    a->held[buffer] = key;
    hearth_reader_start(a->reader, &a->jobs[buffer]);
}

static int wait(struct hearth_ahead *a, int buffer, struct hearth_error *err)
{
    return hearth_reader_wait_or_stop(a->reader, &a->jobs[buffer], a->stop, err);
}

// Reads a part to the buffer, once what is on its way there has come, in whatever state.
static int fetch(struct hearth_ahead *a, int buffer, uint64_t key, struct hearth_error *err)
{
    if (a->held[buffer] != HEARTH_AHEAD_NONE && wait(a, buffer, err) == HEARTH_E_INTERRUPTED)
        return HEARTH_E_INTERRUPTED;
    start(a, buffer, key);
    return HEARTH_OK;
}

int hearth_ahead_get(struct hearth_ahead *a, uint64_t key, uint64_t next, int *buffer,
                     struct hearth_error *err)
{
    int b = buffer_of(a, key);
    const bool ahead = b >= 0;
    if (!ahead) {
        b = a->busy[0] ? 1 : 0;
        if (fetch(a, b, key, err))
            return HEARTH_E_INTERRUPTED;
    }
    a->busy[b] = true;
    if (next != key)
        hearth_ahead_start(a, next);
    int rc = wait(a, b, err);
    if (rc && rc != HEARTH_E_INTERRUPTED && ahead) { // what was read ahead in vain is tried again now
        start(a, b, key);
        rc = wait(a, b, err);
    }
    if (rc)
        a->busy[b] = false;
    if (rc && rc != HEARTH_E_INTERRUPTED) // what it holds is worth nothing
        a->held[b] = HEARTH_AHEAD_NONE;
    *buffer = b;
    return rc;
}

void hearth_ahead_release(struct hearth_ahead *a, uint64_t key)
{
    const int buffer = buffer_of(a, key);
    if (buffer >= 0)
        a->busy[buffer] = false;
}

void hearth_ahead_start(struct hearth_ahead *a, uint64_t key)
{
    const int buffer = a->busy[0] ? 1 : 0;
    if (key == HEARTH_AHEAD_NONE || a->busy[buffer] || buffer_of(a, key) >= 0)
        return;
    if (a->held[buffer] == HEARTH_AHEAD_NONE || hearth_reader_is_over(a->reader, &a->jobs[buffer]))
        start(a, buffer, key);
}

const struct hearth_reader_job *hearth_ahead_job(const struct hearth_ahead *a, uint64_t key)
{
    const int buffer = buffer_of(a, key);
    return buffer < 0 ? NULL : &a->jobs[buffer];
}

void hearth_ahead_drop(struct hearth_ahead *a, uint64_t key)
{
    const int buffer = buffer_of(a, key);
    if (buffer >= 0 && !a->busy[buffer])
        a->held[buffer] = STALE;
}

void hearth_ahead_finish(struct hearth_ahead *a)
{
    for (int buffer = 0; buffer < 2; buffer++) {
        if (a->held[buffer] != HEARTH_AHEAD_NONE)
            hearth_reader_wait(a->reader, &a->jobs[buffer], NULL);
        a->held[buffer] = HEARTH_AHEAD_NONE;
        a->busy[buffer] = false;
    }
}

void hearth_ahead_begin(struct hearth_ahead *a, struct hearth_reader *reader, hearth_ahead_list_fn list,
                        bool (*stop)(void *arg), void *arg)
{
    *a = (struct hearth_ahead){.reader = reader, .list = list, .stop = {stop, arg}, .arg = arg};
    a->held[0] = a->held[1] = HEARTH_AHEAD_NONE;
}
