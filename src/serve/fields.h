// SPDX-License-Identifier: MIT
// Fields of requests.
#ifndef HEARTH_SERVE_FIELDS_H
#define HEARTH_SERVE_FIELDS_H

#include "serve/exchange.h"

// A field of the request; NULL where there is none, or null.
json_t *hearth_request_field(const struct hearth_exchange *x, const char *name);
// Its value. Each function writes an error to the exchange and returns false if the field is there, not null,
// and of another type or out of its range; without the field *out stays.
bool hearth_request_int(struct hearth_exchange *x, const char *name, int64_t min, int64_t max, int64_t *out);
bool hearth_request_number(struct hearth_exchange *x, const char *name, double min, double max, double *out);
bool hearth_request_bool(struct hearth_exchange *x, const char *name, bool *out);

#endif
