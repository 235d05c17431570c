// SPDX-License-Identifier: MIT
// llama.cpp's /lora-adapters: those that the server was started with. Their scales stay as they are, since what
// is kept of prompts depends on them.
#include "serve/adapters.h"

#include <string.h>

#include "serve/api.h"
#include "schema/json_string.h"
#include "serve/fields.h"

void hearth_api_adapters(struct hearth_exchange *x)
{
    const struct hearth_served *served = &x->server->served;
    json_t *all = json_array();
    for (size_t i = 0; i < served->n_adapters; i++)
        json_array_append_new(
            all, json_pack("{s:I, s:o, s:f}", "id", (json_int_t)i, "path",
                           hearth_json_string(served->adapters[i].path, strlen(served->adapters[i].path)),
                           "scale", (double)served->adapters[i].scale));
    hearth_exchange_json(x, 200, all);
}

// The scale that a list of {"id", "scale"} gives an adapter: those that are not in it are off. False: it is no
// such list.
static bool scale_in(const json_t *list, size_t n_adapters, size_t adapter, double *scale)
{
    *scale = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i), *id = json_object_get(one, "id"),
                     *value = json_object_get(one, "scale");
        if (!json_is_integer(id) || !json_is_number(value) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= (json_int_t)n_adapters)
            return false;
        if (json_integer_value(id) == (json_int_t)adapter)
            *scale = json_number_value(value);
    }
    return json_is_array(list);
}

static bool check(struct hearth_exchange *x, const json_t *list, const char *field)
{
    const struct hearth_served *served = &x->server->served;
    double scale;
    if (!scale_in(list, served->n_adapters, 0, &scale)) {
        hearth_exchange_error(x, 400, field,
                              "lora: a list of objects with id and scale is wanted; there are %zu adapters",
                              served->n_adapters);
        return false;
    }
    for (size_t i = 0; i < served->n_adapters; i++)
        if (!scale_in(list, served->n_adapters, i, &scale) || (float)scale != served->adapters[i].scale) {
            hearth_exchange_error(
                x, 400, field,
                "lora: adapter %zu has scale %g, and scales do not change while the server runs: start it "
                "with --lora-scaled FILE:SCALE",
                i, (double)served->adapters[i].scale);
            return false;
        }
    return true;
}

void hearth_api_set_adapters(struct hearth_exchange *x)
{
    if (check(x, x->body, NULL))
        hearth_exchange_json(x, 200, json_pack("{s:b}", "success", 1));
}

bool hearth_request_adapters(struct hearth_exchange *x)
{
    const json_t *list = hearth_request_field(x, "lora");
    return !list || check(x, list, "lora");
}
