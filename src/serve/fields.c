// SPDX-License-Identifier: MIT
// Fields of requests.
#include "serve/fields.h"

#include <math.h>

json_t *hearth_request_field(const struct hearth_exchange *x, const char *name)
{
    json_t *value = json_object_get(x->body, name);
    return json_is_null(value) ? NULL : value;
}

bool hearth_request_int(struct hearth_exchange *x, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const json_t *value = hearth_request_field(x, name);
    if (!value)
        return true;
    const double number = json_number_value(value);
    if (!json_is_number(value) || number < (double)min || number > (double)max || number != floor(number)) {
        hearth_exchange_error(x, 400, name, "%s: an integer of %lld to %lld is wanted", name, (long long)min,
                              (long long)max);
        return false;
    }
    *out = json_is_integer(value) ? json_integer_value(value) : (int64_t)number;
    return true;
}

bool hearth_request_number(struct hearth_exchange *x, const char *name, double min, double max, double *out)
{
    const json_t *value = hearth_request_field(x, name);
    if (!value)
        return true;
    *out = json_number_value(value);
    if (json_is_number(value) && *out >= min && *out <= max)
        return true;
    hearth_exchange_error(x, 400, name, "%s: a number of %g to %g is wanted", name, min, max);
    return false;
}

bool hearth_request_bool(struct hearth_exchange *x, const char *name, bool *out)
{
    const json_t *value = hearth_request_field(x, name);
    if (!value)
        return true;
    *out = json_is_true(value);
    if (json_is_boolean(value))
        return true;
    hearth_exchange_error(x, 400, name, "%s: true or false is wanted", name);
    return false;
}
