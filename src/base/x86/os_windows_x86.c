// SPDX-License-Identifier: MIT
// Windows gives tiles to whoever uses them, where it saves their registers, which cpu_x86.c asks the processor.
#include "base/os.h"

bool hearth_os_permit_amx(void)
{
    return true;
}
