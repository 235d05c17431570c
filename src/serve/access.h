// SPDX-License-Identifier: MIT
// Who may use the server: keys, web pages, names of this machine.
#ifndef HEARTH_SERVE_ACCESS_H
#define HEARTH_SERVE_ACCESS_H

#include <stdbool.h>

#include "serve/serve.h"

// Whether one of the headers has one of the keys, or there are none. Takes as long whatever they have in
// common.
bool hearth_access_key(const struct hearth_server_params *params, const char *authorization,
                       const char *x_api_key);
// The origin of a web page if it may read answers, else NULL. "*" if all may.
const char *hearth_access_origin(const struct hearth_server_params *params, const char *origin);
// Whether a request may do something: it comes from no web page (`origin` NULL), from one that may read
// answers, or from the server's own, whose origin has the name in `host`.
bool hearth_access_page(const struct hearth_server_params *params, const char *origin, const char *host);
// Whether a request that came to an address of this machine alone names it: a web page that has its own name
// point here is told apart by that.
bool hearth_access_host(bool local, const char *host);

#endif
