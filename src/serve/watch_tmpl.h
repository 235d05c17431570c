// SPDX-License-Identifier: MIT
// Watching sockets with poll(), where the system has nothing better: sockets that are added while somebody waits are
// looked at a moment later. The file that includes this defines POLL(fds, n, ms), with struct pollfd and its bits, and
// PEEK(socket), which is recv() of one byte that stays, without waiting: 0 at the end of what the client sends.

// How long a change may go unnoticed.
#define TURN_MS 50

struct watched {
    hearth_socket socket;
    uint64_t number;
    bool less;   // only whether it breaks counts
    bool unread; // its client has sent more: the end cannot be seen
    bool deaf;   // there is nothing more to learn: it would say the same for ever
};

struct hearth_watch {
    pthread_mutex_t mutex;
    struct watched *list; // [cap]
    size_t n, cap;
    atomic_bool woken;
    struct pollfd *fds; // [fds_cap], and the numbers of what they are: for whoever waits
    uint64_t *numbers;
    size_t fds_cap;
};

int hearth_watch_open(struct hearth_watch **out, struct hearth_error *err)
{
    struct hearth_watch *w = hearth_calloc(1, sizeof *w);
    *out = w;
    if (!w)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the server");
    pthread_mutex_init(&w->mutex, NULL);
    return 0;
}

void hearth_watch_close(struct hearth_watch **watch)
{
    struct hearth_watch *w = *watch;
    if (!w)
        return;
    pthread_mutex_destroy(&w->mutex);
    free(w->list);
    free(w->fds);
    free(w->numbers);
    free(w);
    *watch = NULL;
}

void hearth_watch_add(struct hearth_watch *w, hearth_socket socket, uint64_t number)
{
    pthread_mutex_lock(&w->mutex);
    if (w->n == w->cap) {
        const size_t cap = w->cap ? 2 * w->cap : 16;
        struct watched *grown = hearth_reallocarray(w->list, cap, sizeof *grown);
        if (grown) {
            w->list = grown;
            w->cap = cap;
        }
    }
    if (w->n < w->cap)
        w->list[w->n++] = (struct watched){.socket = socket, .number = number};
    pthread_mutex_unlock(&w->mutex);
}

void hearth_watch_less(struct hearth_watch *w, hearth_socket socket, uint64_t number)
{
    (void)socket;
    pthread_mutex_lock(&w->mutex);
    for (size_t i = 0; i < w->n; i++)
        if (w->list[i].number == number)
            w->list[i].less = true;
    pthread_mutex_unlock(&w->mutex);
}

void hearth_watch_remove(struct hearth_watch *w, hearth_socket socket)
{
    pthread_mutex_lock(&w->mutex);
    for (size_t i = 0; i < w->n; i++)
        if (w->list[i].socket == socket)
            w->list[i--] = w->list[--w->n];
    pthread_mutex_unlock(&w->mutex);
}

// Puts what is to be looked at into fds. Returns how many.
static size_t gather(struct hearth_watch *w)
{
    size_t n = 0;
    pthread_mutex_lock(&w->mutex);
    if (w->fds_cap < w->n) {
        struct pollfd *fds = hearth_reallocarray(w->fds, w->n, sizeof *fds);
        w->fds = fds ? fds : w->fds;
        uint64_t *numbers = hearth_reallocarray(w->numbers, w->n, sizeof *numbers);
        w->numbers = numbers ? numbers : w->numbers;
        w->fds_cap = fds && numbers ? w->n : w->fds_cap;
    }
    for (size_t i = 0; i < w->n && n < w->fds_cap; i++) {
        const struct watched *x = &w->list[i];
        if (x->deaf)
            continue;
        w->fds[n] = (struct pollfd){.fd = (SOCKET_OF_POLL)x->socket,
                                    .events = (short)(x->less || x->unread ? 0 : POLLIN)};
        w->numbers[n++] = x->number;
    }
    pthread_mutex_unlock(&w->mutex);
    return n;
}

// Whether there is something to tell of what poll() found, and what. Some systems say POLLHUP when the client has only sent
// its end, and go on saying it.
static bool tells(struct hearth_watch *w, const struct pollfd *fd, uint64_t number, bool *broken)
{
    const bool ended = (fd->revents & POLLHUP) != 0;
    const int left = (int)PEEK(fd->fd);
    bool tell = left <= 0;
    *broken = (fd->revents & (POLLERR | POLLNVAL)) != 0 || (ended && left < 0);
    if (*broken)
        return true;
    pthread_mutex_lock(&w->mutex);
    for (size_t i = 0; i < w->n; i++) {
        struct watched *x = &w->list[i];
        if (x->number != number)
            continue;
        tell = tell && !x->less; // it was told before
        x->unread = left > 0;    // in place of its end
        x->deaf = ended && !tell;
    }
    pthread_mutex_unlock(&w->mutex);
    return tell;
}

int hearth_watch_wait(struct hearth_watch *w, struct hearth_watch_event *events, int most, int timeout_ms)
{
    int told = 0;
    for (int left = timeout_ms; !told && !atomic_exchange(&w->woken, false) && left > 0; left -= TURN_MS) {
        const size_t n = gather(w);
        const int turn = left < TURN_MS ? left : TURN_MS;
        if (!n)
            hearth_sleep_ns((uint64_t)turn * 1000000u);
        else if (POLL(w->fds, n, turn) > 0)
            for (size_t i = 0; i < n && told < most; i++) {
                bool broken;
                if (w->fds[i].revents && tells(w, &w->fds[i], w->numbers[i], &broken))
                    events[told++] = (struct hearth_watch_event){w->numbers[i], broken};
            }
    }
    return told;
}

void hearth_watch_wake(struct hearth_watch *w)
{
    atomic_store(&w->woken, true);
}

void hearth_watch_wake_ended(hearth_socket socket)
{
    (void)socket; // nobody waits for edges here
}
