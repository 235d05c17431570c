// SPDX-License-Identifier: MIT
// What the text of an answer may look like: a request's grammar or JSON schema. Compiled grammars are kept
// for further requests that want the same, as they have worked out which of the model's tokens they allow.
#ifndef HEARTH_SERVE_CONSTRAINT_H
#define HEARTH_SERVE_CONSTRAINT_H

#include "hearth.h"

struct hearth_constraints;

// NULL: no memory.
struct hearth_constraints *hearth_constraints_open(const struct hearth_model *model);
void hearth_constraints_close(struct hearth_constraints **c); // when none of its grammars is in use

// The grammar with this text in GBNF, for somebody to use until hearth_constraints_drop(). Errors: those of
// hearth_grammar_open(). Threads: any.
int hearth_constraints_take(struct hearth_constraints *c, const char *gbnf, struct hearth_grammar **out,
                            struct hearth_error *err);
// Threads: any. NULL is fine.
void hearth_constraints_drop(struct hearth_constraints *c, struct hearth_grammar *grammar);

#endif
