// SPDX-License-Identifier: MIT
// The web page, which the build makes a C file of: cmake/web_page.cmake.
#ifndef HEARTH_SERVE_PAGE_H
#define HEARTH_SERVE_PAGE_H

#include <stddef.h>

extern const char hearth_web_page[];
extern const size_t hearth_web_page_bytes;
extern const char hearth_web_page_policy[]; // its Content-Security-Policy

#endif
