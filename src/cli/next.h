// SPDX-License-Identifier: MIT
// What comes next after a command that writes a file: "hearth: next: hearth run OUT ...", on standard error and
// not with --quiet. The command is in one piece, to be copied. What it writes goes where OUT went.
#ifndef HEARTH_CLI_NEXT_H
#define HEARTH_CLI_NEXT_H

#include "cli/options.h"

// A model to be run: with a chat where it has a template for one.
void hearth_next_run(const char *model);
// A pack: what memory makes of it.
void hearth_next_of_pack(const char *pack);
// A profile of o->model: predictors for the model, or where it needs none, a pack: `gates_say`, which neurons are
// to be computed.
void hearth_next_of_profile(const struct hearth_options *o, bool has_predictors, bool gates_say);
// Predictors of o->model that were trained: recall is of single layers, and what a text loses adds up over all of
// them, so the two commands that measure that are named.
void hearth_next_measure(const struct hearth_options *o);
// The sparse model o->out, made of o->model: how what was lost is measured, and how it is run.
void hearth_next_of_sparsify(const struct hearth_options *o);
// The pack o->out, which leaves neurons out with a threshold alone: how that is done, and measured.
void hearth_next_of_shares(const struct hearth_options *o);
// o->model with predictors: its profile, or where there is one in the folder of o->out or beside it, a pack.
void hearth_next_of_training(const struct hearth_options *o);

#endif
