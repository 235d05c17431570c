// SPDX-License-Identifier: MIT
// Programs that use this library tell each other how much memory they are about to take: what one has chosen
// and not taken yet still looks free to the next. On Linux: os_linux_claims.c. Where the system
// has no such means, nobody claims anything.
#ifndef HEARTH_BASE_CLAIMS_H
#define HEARTH_BASE_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

// Whoever looks what is free and then claims some of it holds this meanwhile, so that two who start at once
// do not both take the same. Waits a second at most. To be given to hearth_claims_unlock(), whatever it is.
int hearth_claims_lock(void);
void hearth_claims_unlock(int lock);

// Claims `bytes` of private memory for this process, what it holds already included, until it is dropped or
// the process ends. Returns what is to be given to hearth_claim_drop().
int hearth_claim(uint64_t bytes);
void hearth_claim_drop(int claim);

// What processes of this user have claimed and not taken yet. `own`: this process, too; `root` as for
// hearth_free_memory(). *in_group: of it by those in the control groups of this process.
uint64_t hearth_claims_pending(const char *root, bool own, uint64_t *in_group);

#endif
