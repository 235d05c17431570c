// SPDX-License-Identifier: MIT
// What Linux must be asked for on x86-64.
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os.h"

bool hearth_os_permit_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_TILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILEDATA) == 0;
}
