// SPDX-License-Identifier: MIT
// macOS on x86-64 has no AMX.
#include "base/os.h"

bool hearth_os_permit_amx(void)
{
    return false;
}
