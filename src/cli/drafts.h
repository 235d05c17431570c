// SPDX-License-Identifier: MIT
// Drafted tokens: --draft-max, and the small model of -md.
#ifndef HEARTH_CLI_DRAFTS_H
#define HEARTH_CLI_DRAFTS_H

#include "cli/options.h"
#include "draft/draft.h"

// Tokens that are guessed ahead for each text, at most.
int hearth_cli_drafts(const struct hearth_options *o);

// Tokens that the next step may give a text: as its context and -n allow, of which it has `generated`, and so many guesses.
int hearth_cli_step_room(const struct hearth_drafted *text, const struct hearth_session *session,
                         const struct hearth_options *o, int64_t generated, int n_guesses);

struct hearth_cli_drafter {
    struct hearth_model *model; // NULL: there is none
    struct hearth_session *session;
    struct hearth_drafter *drafter;
    bool nextn;     // the model is the layer of the model's own file that guesses ahead
    uint64_t aside; // then what it takes besides its weights
};

// Opens the model of -md, or the layer that guesses ahead if the model's file has one and there is room, with a session for
// n_texts, all in memory: to be called before the model that it drafts for opens. Sets o->aside to what that is to leave it.
// Prints a failure and returns an exit status, as the next ones.
int hearth_cli_open_drafter(struct hearth_cli_drafter *d, struct hearth_options *o, int n_texts);
// From now on its guesses are for texts of this model.
int hearth_cli_attach_drafter(struct hearth_cli_drafter *d, const struct hearth_model *main, int n_texts);
// And of this session; or nothing is to be guessed, of which -md is told. Then d->drafter is ready.
int hearth_cli_use_drafter(struct hearth_cli_drafter *d, struct hearth_session *session, int n_texts,
                           bool guesses);
void hearth_cli_close_drafter(struct hearth_cli_drafter *d);

#endif
