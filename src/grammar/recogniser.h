// SPDX-License-Identifier: MIT
// Follows a grammar byte by byte. Where a text is in the grammar is a set of places, each with the calls to
// return to. Such a set is a state: it is worked out once, kept under a number, and so are the ways from it.
// The memory for states is taken once. When it is full, all states but those in use are forgotten.
#ifndef HEARTH_GRAMMAR_RECOGNISER_H
#define HEARTH_GRAMMAR_RECOGNISER_H

#include "grammar/program.h"

enum {
    HEARTH_STATE_DEAD = 0,  // nothing leads on from here
    HEARTH_STATE_START = 1, // nothing is read yet
    // Calls in calls that are followed. What nests deeper is refused.
    HEARTH_RECOGNISER_DEPTH = 1024,
    // Places that are followed at the same time while a byte is read. Others are given up.
    HEARTH_RECOGNISER_PLACES = 1 << 13
};

#define HEARTH_NO_MASK UINT32_MAX

struct hearth_place {
    uint32_t node;
    uint32_t calls; // where to return to, a number of `calls`; 0: nowhere
};

struct hearth_state {
    uint32_t first, n; // places[first..first+n), ascending
    uint32_t chain;    // the next state of the same hash
    uint32_t mask;     // a number of the caller's; HEARTH_NO_MASK: none
    bool ends;         // the text may end here
    bool has_tokens;   // some places read whole tokens
    bool kept;         // for hearth_recogniser_forget()
};

struct hearth_recogniser {
    const struct hearth_program *program;

    struct hearth_state *states;
    uint32_t n_states, cap_states;
    struct hearth_place *places;
    uint32_t n_places, cap_places;
    struct hearth_call {
        uint32_t node, below, depth, chain;
    } * calls; // 0 is the bottom; `below` comes before
    uint32_t n_calls, cap_calls;
    uint32_t *moves;       // [cap_states][n_classes]
    uint32_t *state_table; // by hash
    uint32_t *call_table;  // by hash
    uint32_t *renumbered;  // [cap_calls], for hearth_recogniser_forget()

    // The places that a byte leads to, and a table of them.
    struct hearth_place *seen;
    uint32_t n_seen;
    struct {
        uint32_t turn, at;
    } * seen_table;
    uint32_t turn;
    struct hearth_place *found; // those that read something
    uint32_t n_found;

    // There was no room: HEARTH_STATE_DEAD may mean that. The caller forgets states and tries again.
    bool full;
};

// HEARTH_E_MEMORY. Call hearth_recogniser_close() in any case.
int hearth_recogniser_open(struct hearth_recogniser *r, const struct hearth_program *p,
                           struct hearth_error *err);
void hearth_recogniser_close(struct hearth_recogniser *r);

// The state after a byte. The way there is worked out if it is not known.
uint32_t hearth_recogniser_find(struct hearth_recogniser *r, uint32_t state, uint8_t byte);
static inline uint32_t hearth_recogniser_step(struct hearth_recogniser *r, uint32_t state, uint8_t byte)
{
    const struct hearth_program *p = r->program;
    const uint32_t next = r->moves[state * (uint32_t)p->n_classes + p->byte_class[byte]];
    return next != UINT32_MAX ? next : hearth_recogniser_find(r, state, byte);
}

// Whether some place of the state reads this token whole; whether one does that names it.
bool hearth_recogniser_reads(const struct hearth_recogniser *r, uint32_t state, hearth_token token);
bool hearth_recogniser_names(const struct hearth_recogniser *r, uint32_t state, hearth_token token);
// The state after a token that is read whole where the state has a place for that, or has led to state
// `by_bytes` as text.
uint32_t hearth_recogniser_token(struct hearth_recogniser *r, uint32_t state, uint32_t by_bytes,
                                 hearth_token token);

// Forgets all states but the start and those with `kept` set, clears `full`, and puts the numbers that they
// have now into new_state[old number], which has room for cap_states.
void hearth_recogniser_forget(struct hearth_recogniser *r, uint32_t *new_state);

#endif
