// SPDX-License-Identifier: MIT
// What the operating system says of a 64-bit ARM processor. Programs cannot ask the processor itself.
#ifndef HEARTH_BASE_ARM_OS_ARM_H
#define HEARTH_BASE_ARM_OS_ARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool hearth_os_arm_has_dotprod(void); // SDOT, UDOT
bool hearth_os_arm_has_i8mm(void);    // SMMLA, USDOT

// The main ID register (MIDR_EL1) of the fastest processor; 0: not known.
uint64_t hearth_os_arm_midr(void);
// Puts the name that the system has for the processor into to[n], or leaves it as it is.
void hearth_os_arm_brand(char *to, size_t n);

#endif
