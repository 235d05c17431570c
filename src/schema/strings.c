// SPDX-License-Identifier: MIT
// Strings: lengths, formats, patterns.
#include <string.h>

#include "schema/insides.h"

// Formats, without quotes. Rules of the same names make their parts (schema.c).
static const struct {
    const char *name, *body;
} formats[] = {
    {"date", "date"},
    {"time", "time"},
    {"date-time", "date \"T\" time"},
    {"duration", "duration"},
    {"uuid", "hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}"},
    {"email", "[a-z0-9A-Z] [a-z0-9A-Z_+-]{0,30} (\".\" [a-z0-9A-Z_+-]{1,20}){0,3} \"@\" hostname"},
    {"hostname", "hostname"},
    {"ipv4", "octet (\".\" octet){3}"},
    {"ipv6", "hex{1,4} (\":\" hex{1,4}){7}"},
    {"uri", "[a-z]{2,8} \"://\" hostname (\"/\" [a-z0-9A-Z._~-]{0,40}){0,8}"},
};

static int add_format(struct hearth_conversion *c, const char *name, struct hearth_text *out)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (!strcmp(formats[i].name, name)) {
            hearth_text_format(out, "\"\\\"\" %s \"\\\"\"", formats[i].body);
            return HEARTH_OK;
        }
    return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED, "format \"%.40s\" is not supported: leave it out",
                              name);
}

int hearth_schema_string(struct hearth_conversion *c, const json_t *schema, struct hearth_text *out)
{
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    long long min = 0, max = -1;
    int rc = hearth_schema_count(c, schema, "minLength", &min);
    if (!rc)
        rc = hearth_schema_count(c, schema, "maxLength", &max);
    if (rc)
        return rc;
    if ((pattern && !json_is_string(pattern)) || (format && !json_is_string(format)))
        return hearth_schema_fail(c, HEARTH_E_FORMAT, "pattern and format are strings");
    if ((pattern != NULL) + (format != NULL) + (min > 0 || max >= 0) > 1)
        return hearth_schema_fail(c, HEARTH_E_UNSUPPORTED,
                                  "only one of pattern, format and lengths can be at a place");
    if (format)
        return add_format(c, json_string_value(format), out);
    if (max >= 0 && max < min)
        return hearth_schema_fail(c, HEARTH_E_INVALID, "maxLength is less than minLength");
    if (!pattern && !min && max < 0) {
        hearth_text_add(out, "string");
        return HEARTH_OK;
    }
    hearth_text_add(out, "\"\\\"\" ");
    if (pattern)
        rc = hearth_schema_pattern(c, json_string_value(pattern), json_string_length(pattern), out);
    else if (max < 0)
        hearth_text_format(out, "char{%lld,}", min);
    else
        hearth_text_format(out, "char{%lld,%lld}", min, max);
    hearth_text_add(out, " \"\\\"\"");
    return rc;
}
