// SPDX-License-Identifier: MIT
// Where texts are in a grammar, and which tokens may come next. Several texts may follow a grammar at the same
// time, in different threads: what one of them has worked out serves all.
#ifndef HEARTH_GRAMMAR_GRAMMAR_H
#define HEARTH_GRAMMAR_GRAMMAR_H

#include "hearth.h"

// A place in a text. It must not move while it is attached.
struct hearth_grammar_cursor {
    struct hearth_grammar *grammar; // NULL: none, and then everything may come
    uint32_t state;
    bool lost; // there was no room to follow all that may come: some of it was left out
    struct hearth_grammar_cursor *next, *before; // of the same grammar
};

// Attaches a cursor at the start of the grammar, or where another one is. The grammar must stay open until it
// is detached; detaching twice, or what was never attached, does nothing. Threads: any, of one cursor one at
// a time; so for all that follows.
void hearth_grammar_attach(struct hearth_grammar_cursor *c, struct hearth_grammar *g);
void hearth_grammar_attach_at(struct hearth_grammar_cursor *c, const struct hearth_grammar_cursor *other);
void hearth_grammar_detach(struct hearth_grammar_cursor *c);
void hearth_grammar_restart(struct hearth_grammar_cursor *c);

int hearth_grammar_n_tokens(const struct hearth_grammar *g); // 0: it knows no vocabulary

// Between these two, the grammar is this thread's alone; hearth_grammar_allows(), _allowed() and _knows() want
// that.
void hearth_grammar_lock(struct hearth_grammar_cursor *c);
void hearth_grammar_unlock(struct hearth_grammar_cursor *c);
// Whether a token may come next.
bool hearth_grammar_allows(struct hearth_grammar_cursor *c, hearth_token token);
// A bit for each token: whether it may come next. Valid until hearth_grammar_unlock().
// The first call in a state takes a walk through the vocabulary, of up to a millisecond.
const uint64_t *hearth_grammar_allowed(struct hearth_grammar_cursor *c);

// Whether hearth_grammar_allowed() need not work it out.
bool hearth_grammar_knows(const struct hearth_grammar_cursor *c);

// Goes on behind a token. After one that may not come, nothing may come any more. One that ends a generation
// changes nothing where the grammar does not name it.
void hearth_grammar_advance(struct hearth_grammar_cursor *c, hearth_token token);
// Whether the text may end here.
bool hearth_grammar_may_end(struct hearth_grammar_cursor *c);

static inline bool hearth_has_bit(const uint64_t *set, hearth_token token)
{
    return set[(uint32_t)token / 64] >> ((uint32_t)token % 64) & 1;
}

static inline void hearth_set_bit(uint64_t *set, hearth_token token)
{
    set[(uint32_t)token / 64] |= UINT64_C(1) << ((uint32_t)token % 64);
}

#endif
