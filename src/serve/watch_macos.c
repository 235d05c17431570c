// SPDX-License-Identifier: MIT
// macOS: poll().
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/os.h"
#include "serve/watch.h"

#define SOCKET_OF_POLL   int
#define POLL(fds, n, ms) poll(fds, (nfds_t)(n), ms)

static ssize_t peek(int socket)
{
    char byte;
    return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}
#define PEEK peek

#include "serve/watch_tmpl.h"
