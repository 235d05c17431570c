// SPDX-License-Identifier: MIT
// Rendering templates of Jinja.
#ifndef HEARTH_TEXT_JINJA_RUN_H
#define HEARTH_TEXT_JINJA_RUN_H

#include "text/jinja_parse.h"

// ---- jinja_evaluate.c

struct jinja_value hearth_jinja_evaluate(struct jinja *j, const struct jinja_node *n);
// Sets a variable of the innermost frame.
void hearth_jinja_assign_name(struct jinja *j, const struct jinja_string *name, struct jinja_value v);
void hearth_jinja_assign(struct jinja *j, const struct jinja_node *target, struct jinja_value v);

// ---- jinja_run.c

struct hearth_jinja;

// Reads a template; its text need not stay. HEARTH_E_INVALID (a message names the line), HEARTH_E_MEMORY.
int hearth_jinja_open(struct hearth_jinja **out, const char *text, size_t n, struct hearth_error *err);
void hearth_jinja_close(struct hearth_jinja **t);

// Adds variables to a dict. May fail by hearth_jinja_fail().
typedef void (*hearth_jinja_fill)(struct jinja *j, struct jinja_dict *variables, void *arg);

// Renders into *out, which lives in `j`: set j->now, j->limit and, if it is to be other than usual,
// j->max_steps, and the rest to zero; hearth_jinja_free() ends it, even after a failure. Any number of
// threads may render a template at once.
int hearth_jinja_render(struct jinja *j, const struct hearth_jinja *t, hearth_jinja_fill fill, void *arg,
                        const struct jinja_string **out, struct hearth_error *err);

#endif
