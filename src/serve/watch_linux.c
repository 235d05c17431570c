// SPDX-License-Identifier: MIT
// Linux: epoll.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "serve/watch.h"

#define MOST 64

struct hearth_watch {
    int epoll, event;
};

int hearth_watch_open(struct hearth_watch **out, struct hearth_error *err)
{
    struct hearth_watch *w = hearth_calloc(1, sizeof *w);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    *out = w;
    if (!w)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the server");
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll >= 0 && w->event >= 0 && !epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->event, &event))
        return 0;
    const int error = errno;
    hearth_watch_close(out);
    return hearth_fail_errno(err, error, "cannot watch connections");
}

void hearth_watch_close(struct hearth_watch **watch)
{
    struct hearth_watch *w = *watch;
    if (!w)
        return;
    if (w->epoll >= 0)
        close(w->epoll);
    if (w->event >= 0)
        close(w->event);
    free(w);
    *watch = NULL;
}

void hearth_watch_add(struct hearth_watch *w, hearth_socket socket, uint64_t number)
{
    struct epoll_event event = {.events = EPOLLRDHUP, .data.u64 = number};
    (void)epoll_ctl(w->epoll, EPOLL_CTL_ADD, (int)socket, &event);
}

void hearth_watch_less(struct hearth_watch *w, hearth_socket socket, uint64_t number)
{
    struct epoll_event event = {.events = 0, .data.u64 = number}; // EPOLLHUP and EPOLLERR come all the same
    (void)epoll_ctl(w->epoll, EPOLL_CTL_MOD, (int)socket, &event);
}

void hearth_watch_remove(struct hearth_watch *w, hearth_socket socket)
{
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, (int)socket, NULL);
}

int hearth_watch_wait(struct hearth_watch *w, struct hearth_watch_event *events, int most, int timeout_ms)
{
    struct epoll_event came[MOST];
    const int n = epoll_wait(w->epoll, came, most < MOST ? most : MOST, timeout_ms);
    int told = 0;
    for (int i = 0; i < n; i++) {
        uint64_t count;
        if (!came[i].data.u64)
            (void)!read(w->event, &count, sizeof count);
        else
            events[told++] = (struct hearth_watch_event){.number = came[i].data.u64,
                                                         .broken = came[i].events & (EPOLLHUP | EPOLLERR)};
    }
    return told;
}

void hearth_watch_wake(struct hearth_watch *w)
{
    const uint64_t one = 1;
    (void)!write(w->event, &one, sizeof one);
}

void hearth_watch_wake_ended(hearth_socket socket)
{
    struct pollfd fd = {.fd = (int)socket, .events = POLLRDHUP};
    if (poll(&fd, 1, 0) > 0 && fd.revents & POLLRDHUP)
        (void)shutdown((int)socket, SHUT_RD); // ends nothing that has not ended, and is an event
}
