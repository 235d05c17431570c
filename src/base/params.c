// SPDX-License-Identifier: MIT
// Structs that can grow: see params.h.
#include "base/params.h"

#include <stdalign.h>
#include <string.h>

// No struct of parameters will ever be as large: more is a size that nobody set.
#define LARGEST ((size_t)1 << 16)

#define STR2(x) #x
#define STR(x)  STR2(x)

const char *hearth_version(void)
{
    return STR(HEARTH_VERSION_MAJOR) "." STR(HEARTH_VERSION_MINOR) "." STR(HEARTH_VERSION_PATCH);
}

void hearth_params_init(void *params, size_t size, const void *defaults, size_t known)
{
    if (size < sizeof size)
        return;
    memset(params, 0, size);
    memcpy(params, defaults, size < known ? size : known);
    memcpy(params, &size, sizeof size);
}

static int check_newer(size_t size, size_t known, const char *type, struct hearth_error *err)
{
    if (size <= known)
        return HEARTH_OK;
    return hearth_fail(err, HEARTH_E_INVALID,
                       "struct %s has %zu bytes but this library, version %s, knows %zu: the program was "
                       "compiled with a newer hearth.h and needs a newer library",
                       type, size, hearth_version(), known);
}

int hearth_params_read(void *out, size_t known, const void *params, const char *type,
                       struct hearth_error *err)
{
    size_t size;
    if (!params)
        return HEARTH_OK;
    memcpy(&size, params, sizeof size);
    if (size < sizeof size || size % alignof(size_t) || size > LARGEST)
        return hearth_fail(
            err, HEARTH_E_INVALID,
            "struct %s says that it has %zu bytes: begin with the defaults, which %s_default() gives, "
            "or %s_init() outside C",
            type, size, type, type);
    const int rc = check_newer(size, known, type, err);
    if (rc)
        return rc;
    memcpy(out, params, size);
    memcpy(out, &known, sizeof known);
    return HEARTH_OK;
}

int hearth_params_check_size(size_t size, size_t least, size_t known, const char *type,
                             struct hearth_error *err)
{
    if (size < least || size % alignof(int) || size > LARGEST)
        return hearth_fail(err, HEARTH_E_INVALID, "struct %s cannot have %zu bytes: pass its sizeof", type,
                           size);
    return check_newer(size, known, type, err);
}

void hearth_params_write(void *out, size_t size, const void *from, size_t known)
{
    const size_t n = size < known ? size : known;
    memcpy(out, from, n);
    memset((char *)out + n, 0, size - n);
}
