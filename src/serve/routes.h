// SPDX-License-Identifier: MIT
// The paths that the server knows.
#ifndef HEARTH_SERVE_ROUTES_H
#define HEARTH_SERVE_ROUTES_H

#include "serve/exchange.h"

// NULL: there is none; *allow is then the method that the path wants, or NULL if it is unknown.
const struct hearth_route *hearth_route_find(const char *path, const char *method, const char **allow);
// Whose form errors about a path have, whether there is such a route or not.
enum hearth_api hearth_route_api(const char *path);

#endif
