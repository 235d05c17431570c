// SPDX-License-Identifier: MIT
// Which clients have gone, on systems that ask poll() (serve/watch_tmpl.h): what poll() and recv() say comes from here, as
// Linux, macOS and Windows say it.
#include "check.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "base/os.h"
#include "serve/watch.h"

static short revents; // of the one socket
static int received;  // what recv() says of the socket
static int n_polls;

static int fake_poll(struct pollfd *fds, size_t n, int ms)
{
    (void)ms;
    n_polls++;
    assert_int_equal(n, 1);
    fds[0].revents = (short)(revents & (fds[0].events | POLLHUP | POLLERR | POLLNVAL));
    return fds[0].revents != 0;
}

static int fake_peek(int socket)
{
    assert_int_equal(socket, 7);
    return received;
}

#define SOCKET_OF_POLL   int
#define POLL(fds, n, ms) fake_poll(fds, n, ms)
#define PEEK             fake_peek
#include "serve/watch_tmpl.h"

// How many events there are; the first in *event.
static int look(struct hearth_watch *w, struct hearth_watch_event *event)
{
    struct hearth_watch_event events[4];
    const int n = hearth_watch_wait(w, events, 4, 3 * TURN_MS);
    if (n)
        *event = events[0];
    return n;
}

static struct hearth_watch *begin(void)
{
    struct hearth_watch *w;
    CHECK(hearth_watch_open(&w, &check_error));
    hearth_watch_add(w, 7, 1);
    revents = 0;
    received = -1;
    n_polls = 0;
    return w;
}

// A client sends its end and reads on: it is told once, as no break, and then costs nothing, also where POLLHUP stays. A
// break that follows is told where the system shows it.
static void ends(short said)
{
    struct hearth_watch_event event = {0};
    struct hearth_watch *w = begin();
    assert_int_equal(look(w, &event), 0);
    revents = said;
    received = 0;
    assert_int_equal(look(w, &event), 1);
    assert_int_equal(event.number, 1);
    assert_false(event.broken);
    hearth_watch_less(w, 7, 1);
    n_polls = 0;
    assert_int_equal(look(w, &event), 0);
    assert_true(n_polls <= 3);
    if (!(said & POLLHUP)) {
        revents = POLLIN | POLLHUP | POLLERR;
        received = -1;
        assert_int_equal(look(w, &event), 1);
        assert_true(event.broken);
    } else {
        n_polls = 0;
        assert_int_equal(look(w, &event), 0);
        assert_int_equal(n_polls, 0); // it would come back at once, for ever
    }
    hearth_watch_close(&w);
}

static void test_ends(void **state)
{
    (void)state;
    ends(POLLIN);
    ends(POLLIN | POLLHUP);
    ends(POLLHUP);
}

static void test_breaks(void **state)
{
    (void)state;
    static const short said[] = {POLLERR, POLLIN | POLLHUP, POLLHUP, POLLNVAL};
    struct hearth_watch_event event = {0};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        struct hearth_watch *w = begin();
        revents = said[i];
        assert_int_equal(look(w, &event), 1);
        assert_true(event.broken);
        hearth_watch_close(&w);
    }
}

// A client that sends more before its answer is there has not gone.
static void test_unread(void **state)
{
    (void)state;
    struct hearth_watch_event event = {0};
    struct hearth_watch *w = begin();
    revents = POLLIN;
    received = 1;
    assert_int_equal(look(w, &event), 0);
    n_polls = 0;
    revents = POLLIN | POLLHUP;
    assert_int_equal(look(w, &event), 0);
    assert_int_equal(n_polls, 1);
    hearth_watch_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_breaks),
        cmocka_unit_test(test_unread),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
