// SPDX-License-Identifier: MIT
// Reading one ahead: parts of the file that are used one after the other go through two buffers, and while
// one is used the next is read to the other.
#ifndef HEARTH_WEIGHTS_AHEAD_H
#define HEARTH_WEIGHTS_AHEAD_H

#include "store/reader.h"

#define HEARTH_AHEAD_NONE UINT64_MAX

// Lists what the part numbered `key` needs when it goes to this buffer (0 or 1): sets the job's extents,
// which are the caller's.
typedef void (*hearth_ahead_list_fn)(void *arg, uint64_t key, int buffer, struct hearth_reader_job *job);

struct hearth_ahead {
    struct hearth_reader *reader;
    hearth_ahead_list_fn list;
    struct hearth_reader_stop stop;
    void *arg;

    struct hearth_reader_job jobs[2];
    uint64_t held[2]; // the part in a buffer, or on its way there
    bool busy[2];     // it is in use
};

// `stop` has `arg`, too: whether hearth_ahead_get() is to stop waiting.
void hearth_ahead_begin(struct hearth_ahead *a, struct hearth_reader *reader, hearth_ahead_list_fn list,
                        bool (*stop)(void *arg), void *arg);

// Waits until a part is in memory, and says in which buffer: it is in use from here on. If nothing else is
// there, begins to read `next` to the other one (HEARTH_AHEAD_NONE: nothing). What was read ahead in vain is
// tried again now. HEARTH_E_IO. HEARTH_E_INTERRUPTED: told to stop; what is on its way to the buffers stays
// so, and is waited for when a buffer is needed.
int hearth_ahead_get(struct hearth_ahead *a, uint64_t key, uint64_t next, int *buffer,
                     struct hearth_error *err);
void hearth_ahead_release(struct hearth_ahead *a, uint64_t key); // its buffer may be overwritten
// Begins to read a part, unless it is there, or both buffers are in use or have something on its way.
void hearth_ahead_start(struct hearth_ahead *a, uint64_t key);
// The job that read, or reads, a part; NULL: it is in no buffer.
const struct hearth_reader_job *hearth_ahead_job(const struct hearth_ahead *a, uint64_t key);
// The part is to be read anew, if it is in a buffer that is not in use, or on its way there.
void hearth_ahead_drop(struct hearth_ahead *a, uint64_t key);
// Waits until nothing is on its way; the buffers are empty.
void hearth_ahead_finish(struct hearth_ahead *a);

#endif
