// SPDX-License-Identifier: MIT
// The paths that the server knows.
#ifndef HEARTH_SERVE_ROUTES_H
#define HEARTH_SERVE_ROUTES_H

#include "serve/exchange.h"

// NULL: there is none.
const struct hearth_route *hearth_route_find(const char *path, const char *method);
// The methods that a path takes, separated by commas, as a text of up to `size` bytes; "" if there is no such path.
void hearth_route_methods(const char *path, char *list, size_t size);
// The path that does here what another server's path, such as ollama's, does there; NULL: unknown.
const char *hearth_route_instead(const char *path);
// Whose form errors about a path have, whether there is such a route or not.
enum hearth_api hearth_route_api(const char *path);

#endif
