// SPDX-License-Identifier: MIT
// Looks after sockets whose clients wait for an answer: which of them have gone. watch_linux.c asks epoll,
// watch_macos.c and watch_windows.c ask for all of them in turn (watch_tmpl.h).
#ifndef HEARTH_SERVE_WATCH_H
#define HEARTH_SERVE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "serve/listen.h"

struct hearth_watch;
struct hearth_watch_event {
    uint64_t number; // of the socket, as it was added
    bool broken;     // nothing can be sent any more; else its side has only sent its end
};

int hearth_watch_open(struct hearth_watch **out, struct hearth_error *err);
void hearth_watch_close(struct hearth_watch **watch);
// All that follow may be called from any thread. `number` is not 0, and no other socket's. What fails is not watched.
void hearth_watch_add(struct hearth_watch *w, hearth_socket socket, uint64_t number);
// From now on only whether it breaks is told.
void hearth_watch_less(struct hearth_watch *w, hearth_socket socket, uint64_t number);
void hearth_watch_remove(struct hearth_watch *w, hearth_socket socket);
// Waits until there are events, hearth_watch_wake() was called, or so much time has gone. Returns how many events. A
// socket that was removed meanwhile may still be among them.
int hearth_watch_wait(struct hearth_watch *w, struct hearth_watch_event *events, int most, int timeout_ms);
void hearth_watch_wake(struct hearth_watch *w); // for signal handlers, too
// Where a client's side has sent its end: whoever waits for an edge at this socket learns of it once more.
void hearth_watch_wake_ended(hearth_socket socket);

#endif
