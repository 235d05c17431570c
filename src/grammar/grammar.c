// SPDX-License-Identifier: MIT
// Grammars over a model's tokens: sets of the tokens that may come next, kept by state, and cursors.
#include "grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "grammar/pieces.h"
#include "grammar/recogniser.h"

// Sets of tokens that are kept at the same time.
enum { SETS = 64 };

struct hearth_grammar {
    struct hearth_program program;
    struct hearth_recogniser recogniser;
    struct hearth_pieces pieces; // n_tokens 0: there is no vocabulary
    struct hearth_lock *lock;    // for all below and the recogniser
    struct hearth_grammar_cursor *cursors;

    uint64_t *sets;        // [SETS][pieces.n_words]
    uint32_t set_of[SETS]; // the state that a set is of; HEARTH_STATE_DEAD: of none
    uint32_t next_set;     // the one to be given up next
    uint32_t *path;        // [pieces.longest + 1] states on the way through the tree
    uint32_t *new_state;   // [recogniser.cap_states]
    bool last_attempt;     // of WITH_ROOM
};

// ---- room for states

// Forgets states that no cursor is in, and says so to the cursors and the sets.
static void make_room(struct hearth_grammar *g)
{
    struct hearth_recogniser *r = &g->recogniser;
    for (struct hearth_grammar_cursor *c = g->cursors; c; c = c->next)
        r->states[c->state].kept = c->state != HEARTH_STATE_DEAD;
    hearth_recogniser_forget(r, g->new_state);
    for (struct hearth_grammar_cursor *c = g->cursors; c; c = c->next)
        c->state = g->new_state[c->state];
    for (uint32_t i = 0; i < SETS; i++)
        g->set_of[i] = g->new_state[g->set_of[i]];
}

// Runs `attempt` again after making room, if there was too little of it. What still has no room then is not
// followed: fewer tokens may come, but never a wrong one. Which ones depends on the other cursors, so the
// cursor is told.
#define WITH_ROOM(g, cursor, attempt)                                                                        \
    do {                                                                                                     \
        (g)->recogniser.full = (g)->last_attempt = false;                                                    \
        attempt;                                                                                             \
        if ((g)->recogniser.full) {                                                                          \
            make_room(g);                                                                                    \
            (g)->last_attempt = true;                                                                        \
            attempt;                                                                                         \
            (cursor)->lost |= (g)->recogniser.full;                                                          \
        }                                                                                                    \
    } while (0)

// ---- which tokens may come

static uint32_t read_bytes(struct hearth_recogniser *r, uint32_t state, const char *s, size_t n)
{
    for (size_t i = 0; i < n && state; i++)
        state = hearth_recogniser_step(r, state, (uint8_t)s[i]);
    return state;
}

// The state after a token's text; HEARTH_STATE_DEAD for a token without text.
static uint32_t read_piece(struct hearth_grammar *g, uint32_t state, hearth_token token)
{
    const uint32_t from = g->pieces.first[token], to = g->pieces.first[token + 1];
    return to > from ? read_bytes(&g->recogniser, state, g->pieces.bytes + from, to - from)
                     : HEARTH_STATE_DEAD;
}

bool hearth_grammar_allows(struct hearth_grammar_cursor *c, hearth_token token)
{
    struct hearth_grammar *g = c->grammar;
    const struct hearth_state *s = &g->recogniser.states[c->state];
    if (s->mask != HEARTH_NO_MASK)
        return hearth_has_bit(g->sets + (size_t)s->mask * g->pieces.n_words, token);
    if (hearth_has_bit(g->pieces.ends, token))
        return s->ends || hearth_recogniser_names(&g->recogniser, c->state, token);
    if (hearth_recogniser_reads(&g->recogniser, c->state, token))
        return true;
    uint32_t next;
    WITH_ROOM(g, c, next = read_piece(g, c->state, token));
    return next != HEARTH_STATE_DEAD;
}

// Adds the tokens whose text can be read. All texts that begin with bytes that cannot be are left out at once.
static void add_texts(struct hearth_grammar *g, uint32_t state, uint64_t *set)
{
    const struct hearth_piece_node *nodes = g->pieces.nodes;
    g->path[0] = state;
    for (uint32_t i = 0; i < g->pieces.n_nodes;) {
        const struct hearth_piece_node *node = &nodes[i];
        const uint32_t next = hearth_recogniser_step(&g->recogniser, g->path[node->depth], node->byte);
        if (!next && g->recogniser.full && !g->last_attempt)
            return;
        if (!next) {
            i = node->end;
            continue;
        }
        g->path[node->depth + 1] = next;
        for (hearth_token t = node->token; t >= 0; t = g->pieces.same[t])
            hearth_set_bit(set, t);
        i++;
    }
}

bool hearth_grammar_knows(const struct hearth_grammar_cursor *c)
{
    return c->grammar->recogniser.states[c->state].mask != HEARTH_NO_MASK;
}

static void fill_set(struct hearth_grammar *g, uint32_t state, uint64_t *set)
{
    const struct hearth_state *s = &g->recogniser.states[state];
    memset(set, 0, g->pieces.n_words * sizeof *set);
    for (uint32_t w = 0; s->ends && w < g->pieces.n_words; w++)
        set[w] = g->pieces.ends[w];
    for (hearth_token t = 0; s->has_tokens && t < g->pieces.n_tokens; t++)
        if (hearth_has_bit(g->pieces.ends, t) ? hearth_recogniser_names(&g->recogniser, state, t)
                                              : hearth_recogniser_reads(&g->recogniser, state, t))
            hearth_set_bit(set, t);
    add_texts(g, state, set);
}

const uint64_t *hearth_grammar_allowed(struct hearth_grammar_cursor *c)
{
    struct hearth_grammar *g = c->grammar;
    struct hearth_recogniser *r = &g->recogniser;
    if (r->states[c->state].mask != HEARTH_NO_MASK)
        return g->sets + (size_t)r->states[c->state].mask * g->pieces.n_words;
    const uint32_t at = g->next_set;
    uint64_t *set = g->sets + (size_t)at * g->pieces.n_words;
    g->next_set = (at + 1) % SETS;
    r->states[g->set_of[at]].mask = HEARTH_NO_MASK;
    g->set_of[at] = HEARTH_STATE_DEAD;
    WITH_ROOM(g, c, fill_set(g, c->state, set));
    if (c->state != HEARTH_STATE_DEAD && !r->full) { // a set that lacks some is nobody else's
        r->states[c->state].mask = at;
        g->set_of[at] = c->state;
    }
    return set;
}

static uint32_t read_token(struct hearth_grammar *g, uint32_t state, hearth_token token)
{
    const uint32_t by_text = read_piece(g, state, token);
    return hearth_recogniser_token(&g->recogniser, state, by_text, token);
}

void hearth_grammar_advance(struct hearth_grammar_cursor *c, hearth_token token)
{
    struct hearth_grammar *g = c->grammar;
    if (!g || token < 0 || token >= g->pieces.n_tokens)
        return;
    hearth_lock_take(g->lock);
    if (!hearth_has_bit(g->pieces.ends, token) || hearth_recogniser_names(&g->recogniser, c->state, token)) {
        uint32_t next;
        WITH_ROOM(g, c, next = read_token(g, c->state, token));
        c->state = next;
    }
    hearth_lock_drop(g->lock);
}

bool hearth_grammar_may_end(struct hearth_grammar_cursor *c)
{
    struct hearth_grammar *g = c->grammar;
    if (!g)
        return true;
    hearth_lock_take(g->lock);
    const bool ends = g->recogniser.states[c->state].ends;
    hearth_lock_drop(g->lock);
    return ends;
}

bool hearth_grammar_matches(struct hearth_grammar *grammar, const char *text, size_t len)
{
    struct hearth_grammar *g = grammar;
    struct hearth_grammar_cursor c = {0};
    hearth_grammar_attach(&c, g);
    hearth_lock_take(g->lock);
    for (size_t i = 0; i < len && c.state; i++) {
        uint32_t next;
        WITH_ROOM(g, &c, next = hearth_recogniser_step(&g->recogniser, c.state, (uint8_t)text[i]));
        c.state = next;
    }
    const bool ends = g->recogniser.states[c.state].ends;
    hearth_lock_drop(g->lock);
    hearth_grammar_detach(&c);
    return ends;
}

// ---- cursors

static void attach(struct hearth_grammar_cursor *c, struct hearth_grammar *g,
                   const struct hearth_grammar_cursor *other)
{
    *c = (struct hearth_grammar_cursor){.grammar = g};
    if (!g)
        return;
    hearth_lock_take(g->lock);
    c->state = other ? other->state : HEARTH_STATE_START;
    c->lost = other && other->lost;
    c->next = g->cursors;
    if (c->next)
        c->next->before = c;
    g->cursors = c;
    hearth_lock_drop(g->lock);
}

void hearth_grammar_attach(struct hearth_grammar_cursor *c, struct hearth_grammar *g)
{
    attach(c, g, NULL);
}

void hearth_grammar_attach_at(struct hearth_grammar_cursor *c, const struct hearth_grammar_cursor *other)
{
    attach(c, other->grammar, other);
}

void hearth_grammar_detach(struct hearth_grammar_cursor *c)
{
    struct hearth_grammar *g = c->grammar;
    if (!g)
        return;
    hearth_lock_take(g->lock);
    *(c->before ? &c->before->next : &g->cursors) = c->next;
    if (c->next)
        c->next->before = c->before;
    hearth_lock_drop(g->lock);
    *c = (struct hearth_grammar_cursor){0};
}

void hearth_grammar_restart(struct hearth_grammar_cursor *c)
{
    if (!c->grammar)
        return;
    hearth_grammar_lock(c);
    c->state = HEARTH_STATE_START;
    c->lost = false;
    hearth_grammar_unlock(c);
}

void hearth_grammar_lock(struct hearth_grammar_cursor *c)
{
    hearth_lock_take(c->grammar->lock);
}

void hearth_grammar_unlock(struct hearth_grammar_cursor *c)
{
    hearth_lock_drop(c->grammar->lock);
}

int hearth_grammar_n_tokens(const struct hearth_grammar *g)
{
    return g->pieces.n_tokens;
}

// ---- opening

static hearth_token find_token(const void *arg, const char *text, size_t n)
{
    hearth_token token[2];
    const int64_t found = hearth_tokenize(arg, text, n, HEARTH_TOKENIZE_SPECIAL, token, 2, NULL);
    return found == 1 ? token[0] : found < 0 ? HEARTH_GBNF_FAILED : -1;
}

static int open_sets(struct hearth_grammar *g, const struct hearth_model *model, struct hearth_error *err)
{
    const int rc = hearth_pieces_open(&g->pieces, model, err);
    if (rc)
        return rc;
    g->sets = hearth_calloc(SETS * (size_t)g->pieces.n_words, sizeof *g->sets);
    g->path = hearth_calloc((size_t)g->pieces.longest + 1, sizeof *g->path);
    return g->sets && g->path ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for sets of tokens");
}

static int compile(struct hearth_grammar *g, const struct hearth_model *model, const char *text, size_t len,
                   struct hearth_error *err)
{
    struct hearth_gbnf gbnf;
    int rc = hearth_gbnf_read(&gbnf, text, len, model ? find_token : NULL, model,
                              model ? hearth_model_info(model)->n_vocab : 0, err);
    if (!rc)
        rc = hearth_program_open(&g->program, &gbnf, err);
    hearth_gbnf_close(&gbnf);
    return rc;
}

static int open_parts(struct hearth_grammar *g, const struct hearth_model *model, const char *text,
                      size_t len, struct hearth_error *err)
{
    int rc = compile(g, model, text, len, err);
    if (!rc)
        rc = hearth_recogniser_open(&g->recogniser, &g->program, err);
    if (!rc && model)
        rc = open_sets(g, model, err);
    if (rc)
        return rc;
    g->lock = hearth_lock_open();
    g->new_state = hearth_calloc(g->recogniser.cap_states, sizeof *g->new_state);
    return g->lock && g->new_state ? HEARTH_OK : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a grammar");
}

int hearth_grammar_open(struct hearth_grammar **out, const struct hearth_model *model, const char *text,
                        size_t len, struct hearth_error *err)
{
    *out = NULL;
    struct hearth_grammar *g = hearth_calloc(1, sizeof *g);
    if (!g)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a grammar");
    const int rc = open_parts(g, model, text, len, err);
    if (rc)
        hearth_grammar_close(&g);
    else
        *out = g;
    return rc;
}

void hearth_grammar_close(struct hearth_grammar **grammar)
{
    struct hearth_grammar *g = *grammar;
    if (!g)
        return;
    hearth_recogniser_close(&g->recogniser);
    hearth_program_close(&g->program);
    hearth_pieces_close(&g->pieces);
    if (g->lock)
        hearth_lock_close(&g->lock);
    free(g->sets);
    free(g->path);
    free(g->new_state);
    free(g);
    *grammar = NULL;
}
