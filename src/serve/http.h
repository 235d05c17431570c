// SPDX-License-Identifier: MIT
// HTTP: reads requests, finds their routes, sends answers and streams. libmicrohttpd does the protocol, in
// threads of its own.
#ifndef HEARTH_SERVE_HTTP_H
#define HEARTH_SERVE_HTTP_H

#include "serve/exchange.h"

struct hearth_http;

// Listens and answers by the server's routes. Errors: see hearth_server_open().
int hearth_http_open(struct hearth_http **out, struct hearth_serving *server, struct hearth_error *err);
const char *hearth_http_address(const struct hearth_http *http);

// Looks after clients for so many milliseconds at most, or until hearth_http_wake(): work for those that are
// gone ends, silent streams get a comment.
void hearth_http_watch(struct hearth_http *http, int timeout_ms);
// Threads: any; signal handlers too.
void hearth_http_wake(struct hearth_http *http);

// Takes no further connections.
void hearth_http_quiesce(struct hearth_http *http);
// Exchanges whose answers are being generated or sent. Threads: any.
int hearth_http_busy(struct hearth_http *http);
// Closes it, when there are no jobs any more.
void hearth_http_close(struct hearth_http **http);

#endif
