// SPDX-License-Identifier: MIT
// Windows: libraries that are looked for while the program runs, see os.h.
#include "base/os_windows.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"

void *hearth_os_library(const char *name)
{
    wchar_t *wide = hearth_wide(name);
    HMODULE library = wide ? LoadLibraryW(wide) : NULL;
    free(wide);
    return library;
}

void *hearth_os_symbol(void *library, const char *name)
{
    void *symbol;
    const FARPROC found = GetProcAddress(library, name);
    // C has no conversion between pointers to functions and to data; here they look alike.
    _Static_assert(sizeof symbol == sizeof found, "a function's address fits into a pointer");
    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}
