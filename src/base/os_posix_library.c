// SPDX-License-Identifier: MIT
// Libraries that are looked for while the program runs: see os.h.
#include <dlfcn.h>

#include "base/os.h"

void *hearth_os_library(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void *hearth_os_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}
