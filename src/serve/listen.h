// SPDX-License-Identifier: MIT
// Sockets that listen: listen_posix.c and listen_windows.c.
#ifndef HEARTH_SERVE_LISTEN_H
#define HEARTH_SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// A socket as the system numbers it; negative: none.
typedef intptr_t hearth_socket;

// Listens on the host's address, or on the socket at its path, which must end with ".sock". Writes where it
// can be reached to `address`, and to *local whether it is a port that only this machine can reach. The file of
// a socket is for its owner and group. Returns the socket or a negative code.
hearth_socket hearth_listen(const char *host, int port, char *address, size_t size, bool *local,
                            struct hearth_error *err);
void hearth_listen_close(hearth_socket socket);
// Removes the file of such a socket; other hosts have none.
void hearth_listen_clean(const char *host);

#endif
