// SPDX-License-Identifier: MIT
// Windows: reads that overlap, whose ends are collected from a completion port. No threads.
#include "base/os_windows.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/backend.h"

#define MOST_AT_ONCE 64

// The system writes to it while the read is in flight.
struct flight {
    OVERLAPPED at; // the first member: a pointer to it is one to the flight
    uint32_t slot;
    struct flight *next; // among those that are free
};

struct port {
    HANDLE file, port;
    struct flight *flights, *free;      // [depth]
    struct hearth_attempt_done *failed; // [n_failed] what the system did not accept
    unsigned depth, n_failed, n_running;
};

static int64_t result_of(DWORD error, DWORD bytes)
{
    switch (error) {
    case ERROR_SUCCESS:
        return bytes;
    case ERROR_HANDLE_EOF:
        return 0;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_NO_SYSTEM_RESOURCES:
    case ERROR_WORKING_SET_QUOTA:
        return -EAGAIN;
    case ERROR_INVALID_PARAMETER:
        return -EINVAL;
    default:
        return -EIO;
    }
}

// Nothing is in flight any more.
static void port_close(void *state)
{
    struct port *p = state;
    assert(!p->n_running);
    if (p->port)
        CloseHandle(p->port);
    free(p->flights);
    free(p->failed);
    free(p);
}

static int port_open(void **state, const struct hearth_io_file *file, unsigned depth,
                     struct hearth_error *err)
{
    struct port *p = hearth_calloc(1, sizeof *p);
    if (!p)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for reading");
    p->file = (HANDLE)file->fd;
    p->depth = depth;
    p->flights = hearth_calloc(depth, sizeof *p->flights);
    p->failed = hearth_calloc(depth, sizeof *p->failed);
    if (!p->flights || !p->failed) {
        port_close(p);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for reading");
    }
    for (unsigned i = 0; i < depth; i++) {
        p->flights[i].next = p->free;
        p->free = &p->flights[i];
    }
    p->port = CreateIoCompletionPort(p->file, NULL, 0, 1);
    if (!p->port) {
        const DWORD error = GetLastError();
        port_close(p);
        return hearth_fail_windows(err, error, "no completion port for reading");
    }
    *state = p;
    return HEARTH_OK;
}

static void port_add_memory(void *state, void *base, size_t size)
{
    (void)state, (void)base, (void)size;
}

// What ends at once comes through the port, too.
static void port_start(void *state, const struct hearth_attempt *attempt)
{
    struct port *p = state;
    struct flight *f = p->free;
    assert(f);
    p->free = f->next;
    *f = (struct flight){.at = hearth_windows_at(attempt->offset), .slot = attempt->slot};
    if (ReadFile(p->file, attempt->dst, attempt->length, NULL, &f->at) ||
        GetLastError() == ERROR_IO_PENDING) {
        p->n_running++;
        return;
    }
    assert(p->n_failed < p->depth);
    p->failed[p->n_failed++] = (struct hearth_attempt_done){attempt->slot, result_of(GetLastError(), 0)};
    f->next = p->free;
    p->free = f;
}

static void port_flush(void *state)
{
    (void)state;
}

static int port_reap(void *state, struct hearth_attempt_done *done, int max, bool wait)
{
    struct port *p = state;
    OVERLAPPED_ENTRY ended[MOST_AT_ONCE];
    ULONG n_ended = 0;
    int n = 0;
    while (n < max && p->n_failed)
        done[n++] = p->failed[--p->n_failed];
    const ULONG room = max - n < MOST_AT_ONCE ? (ULONG)(max - n) : MOST_AT_ONCE;
    if (!room || !p->n_running ||
        !GetQueuedCompletionStatusEx(p->port, ended, room, &n_ended, wait && !n ? INFINITE : 0, FALSE))
        return n;
    for (ULONG i = 0; i < n_ended; i++) {
        struct flight *f = (struct flight *)(void *)ended[i].lpOverlapped;
        DWORD bytes = 0;
        const DWORD error =
            GetOverlappedResult(p->file, &f->at, &bytes, FALSE) ? ERROR_SUCCESS : GetLastError();
        done[n++] = (struct hearth_attempt_done){f->slot, result_of(error, bytes)};
        f->next = p->free;
        p->free = f;
        p->n_running--;
    }
    return n;
}

const struct hearth_io_backend hearth_io_pread = {
    "overlapped", port_open, port_close, port_add_memory, port_start, port_flush, port_reap,
};
