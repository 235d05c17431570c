// SPDX-License-Identifier: MIT
// Memory that nobody may touch for now, in builds with the address sanitizer: it reports whoever does. In
// other builds nothing happens. Poison lies on whole units of 8 bytes; what was poisoned is to be made good
// again before it goes back to the operating system.
#ifndef HEARTH_BASE_POISON_H
#define HEARTH_BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define HEARTH_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEARTH_POISONS 1
#endif
#endif

#ifdef HEARTH_POISONS
#include <sanitizer/asan_interface.h>
#define HEARTH_POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define HEARTH_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#define HEARTH_RED_ZONE       64 // bytes behind each piece of an arena
#else
#define HEARTH_POISON(p, n)   ((void)sizeof(p), (void)sizeof(n))
#define HEARTH_UNPOISON(p, n) ((void)sizeof(p), (void)sizeof(n))
#define HEARTH_RED_ZONE       0
#endif

#endif
