// SPDX-License-Identifier: MIT
// Rules that call themselves before they have read anything: no recogniser of this kind could follow them.
#ifndef HEARTH_GRAMMAR_LEFT_H
#define HEARTH_GRAMMAR_LEFT_H

#include "grammar/gbnf.h"

// HEARTH_E_FORMAT (there is such a rule), HEARTH_E_MEMORY.
int hearth_gbnf_check_left(const struct hearth_gbnf *g, struct hearth_error *err);

#endif
