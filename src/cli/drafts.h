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

// Opens the model of -md, if it is given, with a session for n_texts, all in memory: to be called before the model that it
// drafts for opens. Sets o->aside to what that is to leave it. Prints a failure and returns an exit status, as the next one.
int hearth_cli_open_drafter(struct hearth_cli_drafter *d, struct hearth_options *o, int n_texts);
// From now on its guesses are for texts of this model.
int hearth_cli_attach_drafter(struct hearth_cli_drafter *d, const struct hearth_model *main, int n_texts);
// Without -md: opens the layer that guesses ahead, if the model's file has one, for a session that would have these
// parameters and this fit, which changes to what it is beside the layer; unless the model would then no longer be in memory
// as a whole, or not run. Nothing else changes, and nothing fails, where there is no layer or no room.
void hearth_cli_fit_drafter(struct hearth_cli_drafter *d, struct hearth_model *model,
                            const struct hearth_options *o, const struct hearth_session_params *params,
                            int n_texts, struct hearth_fit *fit);
// The session is there; or nothing is to be guessed, of which -md is told. Then d->drafter is ready, or NULL.
void hearth_cli_use_drafter(struct hearth_cli_drafter *d, struct hearth_session *session, int n_texts,
                            bool guesses);
void hearth_cli_close_drafter(struct hearth_cli_drafter *d);

#endif
