// SPDX-License-Identifier: MIT
// Sockets that listen.
#ifndef HEARTH_SERVE_LISTEN_H
#define HEARTH_SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

// Listens on the host's address, or on the socket at its path, which must end with ".sock". Writes where it
// can be reached to `address`, and to *local whether it is a port that only this machine can reach. The file of
// a socket is for its owner and group. Returns the descriptor or a
// negative code.
int hearth_listen(const char *host, int port, char *address, size_t size, bool *local,
                  struct hearth_error *err);
// Removes the file of such a socket; other hosts have none.
void hearth_listen_clean(const char *host);

#endif
