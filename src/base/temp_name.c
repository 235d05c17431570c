// SPDX-License-Identifier: MIT
// Names of temporary files.
#include "base/temp_name.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"

void hearth_temp_name(char *temp, const char *path)
{
    snprintf(temp, strlen(path) + HEARTH_TEMP_SUFFIX + 1, "%s.%08x.part", path,
             (unsigned)hearth_random_u64());
}

size_t hearth_temp_name_length(const char *name)
{
    const size_t length = strlen(name), n = length > HEARTH_TEMP_SUFFIX ? length - HEARTH_TEMP_SUFFIX : 0;
    const char *end = name + n;
    return n && *end == '.' && strspn(end + 1, "0123456789abcdef") == 8 && !strcmp(end + 9, ".part") ? n : 0;
}

bool hearth_name_ends_with(const char *name, size_t n, const char *end)
{
    const size_t k = strlen(end);
    return n > k && !memcmp(name + n - k, end, k);
}
