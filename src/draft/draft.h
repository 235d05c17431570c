// SPDX-License-Identifier: MIT
// Drafts: guesses at what follows in a text. A step with several rows of one text tells what the model chooses
// behind each of them, so that guesses which come true are tokens that cost no step of their own. Each row's logits
// are what it would get alone, and the text is sampled from these: no guess changes it.
//
// Guesses come from the text itself (lookup.c): what followed where its last tokens stood before; or from a small model
// with the same vocabulary, or from a layer for guesses that the model's own file has (drafter.c, nextn.c). pace.c says how
// many of them are worth their time.
#ifndef HEARTH_DRAFT_DRAFT_H
#define HEARTH_DRAFT_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "hearth.h"

// Guesses of a draft, at most.
#define HEARTH_DRAFT_MOST 15
// Tokens that are compared to find a place that is alike, at most.
#define HEARTH_DRAFT_LONGEST 32
// Rows of a step with drafts in it, at most.
#define HEARTH_DRAFT_ROWS 64

struct hearth_draft {
    int n;                                  // guesses
    int used;                               // of them, in the next step: the first ones
    hearth_token tokens[HEARTH_DRAFT_MOST]; // what follows the text
    int kind[HEARTH_DRAFT_MOST];            // how sure each is, in HEARTH_DRAFT_KINDS
};

// Guesses of a kind come true about equally often: those of a text itself by how many tokens are alike, then those of a
// model by their probability.
#define HEARTH_DRAFT_LOOKUPS 8
#define HEARTH_DRAFT_KINDS   (2 * HEARTH_DRAFT_LOOKUPS)
// Of a guess before which so many tokens, the guesses before it included, stood before that place, too.
int hearth_draft_kind_of_match(int match);
// Of a model's guess.
int hearth_draft_kind_of_probability(double p);

// What a further row of a session's steps takes of the time of one, before anything is measured.
double hearth_draft_each(const struct hearth_model *model, const struct hearth_session *session);

// Guesses at most `most` tokens behind text[0..n) from the text itself. None where its last token is new to it.
void hearth_draft_look_up(struct hearth_draft *draft, const hearth_token *text, int n, int most);

struct hearth_drafter;

// What does not pay is tried again after some steps, and after twice as many each time that it did not pay then either.
struct hearth_retry {
    int idle, patience; // steps without it; so many of them
};
#define HEARTH_PATIENCE      64
#define HEARTH_PATIENCE_MOST 1024
// It pays.
static inline void hearth_retry_begin(struct hearth_retry *r)
{
    *r = (struct hearth_retry){.patience = HEARTH_PATIENCE};
}
// Another step without it; false: without it, still.
static inline bool hearth_retry_is_due(struct hearth_retry *r)
{
    if (++r->idle < r->patience)
        return false;
    r->idle = 0;
    r->patience = r->patience < HEARTH_PATIENCE_MOST ? 2 * r->patience : HEARTH_PATIENCE_MOST;
    return true;
}

// What guesses must gain by what is known, since that is never exact.
#define HEARTH_DRAFT_LEAST_GAIN 1.03

// What was measured: what steps cost, and how often guesses came true. One for all texts of a session.
struct hearth_pace {
    double each;                      // of the time of one row what a further one takes, until that is known
    double ns[HEARTH_DRAFT_ROWS + 1]; // of a step with so many rows; 0: unknown
    int seen[HEARTH_DRAFT_ROWS + 1];  // so many of them
    double tries[HEARTH_DRAFT_KINDS]; // guesses that were compared with what was chosen
    double hits[HEARTH_DRAFT_KINDS];  // of them, those that came true
    int busy;                         // steps with guesses since one without
    struct hearth_retry retry;        // since guesses were last used, although they might pay
    uint64_t steps, guesses, hits_in_step; // with guesses in them; these; those that came true
    uint64_t last_ns;                      // of the last step; 0: what came of it is counted
    int last_tokens;                       // that came of it
    struct hearth_drafter *drafter;        // NULL: guesses come from texts alone
    uint64_t drafter_ns;                   // its time
};

// each: see there. With weights that all rows share little, that others of a sparse model or a model with experts do
// not, much.
void hearth_pace_begin(struct hearth_pace *pace, double each);

// What is known so far of a step of so many rows, in nanoseconds, 0: nothing; and how often such guesses come true.
double hearth_pace_cost(const struct hearth_pace *pace, int rows);
double hearth_pace_chance(const struct hearth_pace *pace, int kind);

// Before the guesses of a step: what came of the last one is known by now.
void hearth_draft_settle(struct hearth_pace *pace);

// A text to guess at.
struct hearth_draft_text {
    int which; // number among the session's texts
    int seq;   // its sequence, which has all tokens but the last
    const hearth_token *tokens;
    int n, most;                          // tokens so far; guesses at most
    const struct hearth_sampler *sampler; // that chooses what follows; NULL: the likeliest does
};

// Guesses at what follows a text, where a step has `rows` rows without guesses. Returns how many the small model made, which
// took time.
int hearth_draft_guess(struct hearth_draft *draft, struct hearth_pace *pace,
                       const struct hearth_draft_text *text, int rows);

// Says of drafts[0..n), one for each text with a step, how many guesses are used in the next one, which has `rows` rows
// without them and may have `most`.
void hearth_pace_choose(struct hearth_pace *pace, struct hearth_draft *const *drafts, int n, int rows,
                        int most);

// Compares a draft with a token that was chosen behind `at` of its guesses, which came true. Returns whether the next
// one did.
bool hearth_pace_compare(struct hearth_pace *pace, const struct hearth_draft *draft, int at,
                         hearth_token token);

// A step of so many rows took so long.
void hearth_pace_took(struct hearth_pace *pace, int rows, uint64_t ns);

// ---- a small model that guesses: drafter.c

// Steps that its session has in an evaluation, at least.
#define HEARTH_DRAFTER_STEPS 16
// Positions of a text whose states a layer that guesses ahead begins with, at most, and how many of them it takes in one
// evaluation: its session's micro-batch.
#define HEARTH_DRAFTER_TAIL   512
#define HEARTH_DRAFTER_UBATCH 64

// For texts 0..n_texts-1 of one session. The model and the session, with so many sequences, stay the caller's, and are for
// nothing else until it is closed.
// Errors: HEARTH_E_MEMORY, HEARTH_E_INVALID (the model has another vocabulary than `main`, or recurrent layers).
int hearth_drafter_open(struct hearth_drafter **out, const struct hearth_model *model,
                        struct hearth_session *session, const struct hearth_model *main, int n_texts,
                        struct hearth_error *err);
// The same with the layer of `main`'s own file that guesses ahead (model/nextn.h), and a session of it with a micro-batch of
// HEARTH_DRAFTER_UBATCH. Errors: HEARTH_E_MEMORY, HEARTH_E_INVALID (hearth_tail_open()).
// Bytes that it takes besides the layer and its session.
uint64_t hearth_drafter_nextn_bytes(const struct hearth_session *session, int n_embd, int n_texts);
int hearth_drafter_open_nextn(struct hearth_drafter **out, const struct hearth_model *layer,
                              struct hearth_session *session, struct hearth_session *main, int n_texts,
                              struct hearth_error *err);
void hearth_drafter_close(struct hearth_drafter **drafter);

// Whether its guesses have been worth their time lately, or are to be tried again.
bool hearth_drafter_pays(struct hearth_drafter *drafter, const struct hearth_pace *pace, int rows);
// As hearth_draft_guess(). There are none where the text is longer than the session's context, while much of it is new, which
// is evaluated bit by bit, and where the model fails.
void hearth_drafter_guess(struct hearth_drafter *drafter, struct hearth_draft *draft,
                          const struct hearth_pace *pace, const struct hearth_draft_text *text, int rows);
// What came of its guesses: so many tokens of a step that took so long.
void hearth_drafter_took(struct hearth_drafter *drafter, int tokens, uint64_t ns);

// ---- texts of a session that grow by drafts: step.c

struct hearth_drafted {
    int seq;              // its sequence in the session, which has all tokens but the last
    hearth_token *tokens; // of the prompt, and those that were chosen; malloc'd
    int n, cap;
    const struct hearth_sampler *sampler; // that chooses its tokens, borrowed; NULL: the likeliest are
    struct hearth_draft draft;
    int which; // number among the session's texts
    int room;  // tokens that the next step may give at most, 1 or more
    int row;   // its first row in the last step; draft.used more follow
    int had;   // tokens that its sequence had before
};

// Adds tokens to the text. False: no memory.
bool hearth_drafted_add(struct hearth_drafted *text, const hearth_token *tokens, int n);
void hearth_drafted_free(struct hearth_drafted *text);

// One step of all texts: the last token of each, and guesses behind it. Afterwards hearth_logits() has for each text
// rows text->row to text->row + text->draft.used. Errors: as of hearth_evaluate().
int hearth_drafted_step(struct hearth_session *session, struct hearth_pace *pace,
                        struct hearth_drafted *const *texts, int n, struct hearth_error *err);

// A token was chosen by row text->row + at: adds it to the text. *more: it was guessed, and the next row tells what
// follows it. False: no memory.
bool hearth_drafted_take(struct hearth_drafted *text, struct hearth_pace *pace, int at, hearth_token token,
                         bool *more);

// Something came of so many of a text's rows: forgets the guesses behind them.
int hearth_drafted_end(struct hearth_session *session, struct hearth_drafted *text, int rows,
                       struct hearth_error *err);

#endif
