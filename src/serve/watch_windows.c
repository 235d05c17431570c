// SPDX-License-Identifier: MIT
// Windows: WSAPoll().
#include <winsock2.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/os.h"
#include "serve/watch.h"

#define SOCKET_OF_POLL   SOCKET
#define POLL(fds, n, ms) WSAPoll(fds, (ULONG)(n), ms)
#undef POLLIN
#define POLLIN POLLRDNORM

// Sockets of the server never wait.
static int peek(SOCKET socket)
{
    char byte;
    return recv(socket, &byte, 1, MSG_PEEK);
}
#define PEEK peek

#include "serve/watch_tmpl.h"
