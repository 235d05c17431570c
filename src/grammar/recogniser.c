// SPDX-License-Identifier: MIT
// States and the ways between them, made when they are first needed.
#include "grammar/recogniser.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    CALLS = 1 << 15,
    PLACES = 1 << 16,
    MOVES = 1 << 18,
    LEAST_STATES = 1 << 10,
    MOST_STATES = 1 << 12,
    SEEN_TABLE = 2 * HEARTH_RECOGNISER_PLACES
};

static uint32_t hash_of(uint32_t a, uint32_t b)
{
    uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

// ---- calls

static uint32_t push_call(struct hearth_recogniser *r, uint32_t node, uint32_t below, bool *refused)
{
    uint32_t *bucket = &r->call_table[hash_of(node, below) & (r->cap_calls - 1)];
    for (uint32_t at = *bucket; at; at = r->calls[at].chain)
        if (r->calls[at].node == node && r->calls[at].below == below)
            return at;
    if (r->calls[below].depth == HEARTH_RECOGNISER_DEPTH || r->n_calls == r->cap_calls) {
        r->full |= r->n_calls == r->cap_calls;
        *refused = true;
        return 0;
    }
    r->calls[r->n_calls] = (struct hearth_call){node, below, r->calls[below].depth + 1, *bucket};
    return *bucket = r->n_calls++;
}

// ---- the places that can be reached without reading

static void begin(struct hearth_recogniser *r)
{
    r->n_seen = r->n_found = 0;
    if (++r->turn == 0) {
        memset(r->seen_table, 0, SEEN_TABLE * sizeof *r->seen_table);
        r->turn = 1;
    }
}

static void see(struct hearth_recogniser *r, uint32_t node, uint32_t calls)
{
    uint32_t i = hash_of(node, calls) & (SEEN_TABLE - 1);
    for (; r->seen_table[i].turn == r->turn; i = (i + 1) & (SEEN_TABLE - 1)) {
        const struct hearth_place *known = &r->seen[r->seen_table[i].at];
        if (known->node == node && known->calls == calls)
            return;
    }
    if (r->n_seen == HEARTH_RECOGNISER_PLACES) {
        r->full = true;
        return;
    }
    r->seen_table[i].turn = r->turn;
    r->seen_table[i].at = r->n_seen;
    r->seen[r->n_seen++] = (struct hearth_place){node, calls};
}

// Goes on from every place that was seen to those that read something.
static void follow(struct hearth_recogniser *r)
{
    const struct hearth_program *p = r->program;
    for (uint32_t i = 0; i < r->n_seen; i++) {
        const struct hearth_place place = r->seen[i];
        const struct hearth_node *node = &p->nodes[place.node];
        switch ((enum hearth_node_kind)node->kind) {
        case HEARTH_NODE_RETURN:
            if (place.calls)
                see(r, r->calls[place.calls].node, r->calls[place.calls].below);
            else
                r->found[r->n_found++] = place;
            break;
        case HEARTH_NODE_SPLIT:
            for (uint32_t e = 0; e < node->n; e++)
                see(r, p->edges[node->at + e].next, place.calls);
            break;
        case HEARTH_NODE_CALL: {
            bool refused = false;
            // A call at the end of a rule has nothing to return to but what the rule has.
            const uint32_t calls = node->next ? push_call(r, node->next, place.calls, &refused) : place.calls;
            if (!refused)
                see(r, node->at, calls);
            break;
        }
        case HEARTH_NODE_BYTES:
        case HEARTH_NODE_TOKEN:
        case HEARTH_NODE_NOT_TOKEN:
            r->found[r->n_found++] = place;
            break;
        }
    }
}

// ---- states

static int by_number(const void *a, const void *b)
{
    const struct hearth_place *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->calls > y->calls) - (x->calls < y->calls);
}

static uint32_t hash_places(const struct hearth_place *place, uint32_t n)
{
    uint32_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = hash_of(h ^ place[i].node, place[i].calls);
    return h;
}

static void describe(struct hearth_recogniser *r, struct hearth_state *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t kind = r->program->nodes[r->places[s->first + i].node].kind;
        s->ends |= kind == HEARTH_NODE_RETURN;
        s->has_tokens |= kind == HEARTH_NODE_TOKEN || kind == HEARTH_NODE_NOT_TOKEN;
    }
}

static void forget_moves(struct hearth_recogniser *r, uint32_t state)
{
    const size_t n = (size_t)r->program->n_classes;
    memset(r->moves + state * n, 0xFF, n * sizeof *r->moves);
}

// The state of the places that were found.
static uint32_t settle(struct hearth_recogniser *r)
{
    follow(r);
    if (!r->n_found)
        return HEARTH_STATE_DEAD;
    qsort(r->found, r->n_found, sizeof *r->found, by_number);
    uint32_t *bucket = &r->state_table[hash_places(r->found, r->n_found) & (MOST_STATES - 1)];
    for (uint32_t at = *bucket; at; at = r->states[at].chain)
        if (r->states[at].n == r->n_found &&
            !memcmp(r->places + r->states[at].first, r->found, r->n_found * sizeof *r->found))
            return at;
    if (r->n_states == r->cap_states || r->n_found > r->cap_places - r->n_places) {
        r->full = true;
        return HEARTH_STATE_DEAD;
    }
    const uint32_t made = r->n_states++;
    memcpy(r->places + r->n_places, r->found, r->n_found * sizeof *r->found);
    r->states[made] = (struct hearth_state){
        .first = r->n_places, .n = r->n_found, .chain = *bucket, .mask = HEARTH_NO_MASK};
    r->n_places += r->n_found;
    describe(r, &r->states[made]);
    forget_moves(r, made);
    return *bucket = made;
}

uint32_t hearth_recogniser_find(struct hearth_recogniser *r, uint32_t state, uint8_t byte)
{
    const struct hearth_program *p = r->program;
    const struct hearth_state *s = &r->states[state];
    const bool was_full = r->full;
    r->full = false;
    begin(r);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct hearth_place place = r->places[s->first + i];
        const struct hearth_node *node = &p->nodes[place.node];
        if (node->kind != HEARTH_NODE_BYTES)
            continue;
        for (uint32_t e = node->at; e < node->at + node->n; e++)
            if (byte >= p->edges[e].lo && byte <= p->edges[e].hi)
                see(r, p->edges[e].next, place.calls);
    }
    const uint32_t next = settle(r);
    if (!r->full) // else it may be another once there is room
        r->moves[state * (uint32_t)p->n_classes + p->byte_class[byte]] = next;
    r->full |= was_full;
    return next;
}

// ---- tokens

static bool reads(const struct hearth_node *node, hearth_token token)
{
    return (node->kind == HEARTH_NODE_TOKEN && node->at == (uint32_t)token) ||
           (node->kind == HEARTH_NODE_NOT_TOKEN && node->at != (uint32_t)token);
}

bool hearth_recogniser_reads(const struct hearth_recogniser *r, uint32_t state, hearth_token token)
{
    const struct hearth_state *s = &r->states[state];
    for (uint32_t i = 0; s->has_tokens && i < s->n; i++)
        if (reads(&r->program->nodes[r->places[s->first + i].node], token))
            return true;
    return false;
}

bool hearth_recogniser_names(const struct hearth_recogniser *r, uint32_t state, hearth_token token)
{
    const struct hearth_state *s = &r->states[state];
    for (uint32_t i = 0; s->has_tokens && i < s->n; i++) {
        const struct hearth_node *node = &r->program->nodes[r->places[s->first + i].node];
        if (node->kind == HEARTH_NODE_TOKEN && node->at == (uint32_t)token)
            return true;
    }
    return false;
}

uint32_t hearth_recogniser_token(struct hearth_recogniser *r, uint32_t state, uint32_t by_bytes,
                                 hearth_token token)
{
    const struct hearth_state *s = &r->states[state], *bytes = &r->states[by_bytes];
    if (!s->has_tokens)
        return by_bytes;
    begin(r);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct hearth_place place = r->places[s->first + i];
        const struct hearth_node *node = &r->program->nodes[place.node];
        if (reads(node, token))
            see(r, node->next, place.calls);
    }
    for (uint32_t i = 0; i < bytes->n; i++)
        see(r, r->places[bytes->first + i].node, r->places[bytes->first + i].calls);
    return settle(r);
}

// ---- forgetting

// Keeps the calls that places of kept states need, and moves them together. What is below a call comes before
// it, so its number is known already.
static void keep_calls(struct hearth_recogniser *r)
{
    uint32_t *to = r->renumbered;
    memset(to, 0, r->n_calls * sizeof *to);
    for (uint32_t i = 0; i < r->n_states; i++)
        for (uint32_t k = 0; r->states[i].kept && k < r->states[i].n; k++)
            for (uint32_t at = r->places[r->states[i].first + k].calls; at && !to[at];
                 at = r->calls[at].below)
                to[at] = 1;
    memset(r->call_table, 0, r->cap_calls * sizeof *r->call_table);
    uint32_t n = 1;
    for (uint32_t at = 1; at < r->n_calls; at++) {
        if (!to[at])
            continue;
        struct hearth_call call = r->calls[at];
        call.below = to[call.below];
        uint32_t *bucket = &r->call_table[hash_of(call.node, call.below) & (r->cap_calls - 1)];
        call.chain = *bucket;
        r->calls[n] = call;
        *bucket = to[at] = n++;
    }
    r->n_calls = n;
}

static void keep_state(struct hearth_recogniser *r, uint32_t from)
{
    struct hearth_state s = r->states[from];
    struct hearth_place *place = r->places + r->n_places;
    memmove(place, r->places + s.first, s.n * sizeof *place);
    for (uint32_t k = 0; k < s.n; k++)
        place[k].calls = r->renumbered[place[k].calls];
    s.first = r->n_places;
    r->n_places += s.n;
    uint32_t *bucket = &r->state_table[hash_places(place, s.n) & (MOST_STATES - 1)];
    s.chain = *bucket;
    s.kept = false;
    *bucket = r->n_states;
    forget_moves(r, r->n_states);
    r->states[r->n_states++] = s;
}

void hearth_recogniser_forget(struct hearth_recogniser *r, uint32_t *new_state)
{
    const uint32_t n = r->n_states;
    r->states[HEARTH_STATE_START].kept = true;
    keep_calls(r);
    memset(r->state_table, 0, MOST_STATES * sizeof *r->state_table);
    r->n_states = HEARTH_STATE_START;
    r->n_places = 0;
    new_state[HEARTH_STATE_DEAD] = HEARTH_STATE_DEAD;
    for (uint32_t i = HEARTH_STATE_START; i < n; i++) {
        new_state[i] = r->states[i].kept ? r->n_states : HEARTH_STATE_DEAD;
        if (r->states[i].kept)
            keep_state(r, i);
    }
    r->full = false;
}

// ---- opening

int hearth_recogniser_open(struct hearth_recogniser *r, const struct hearth_program *p,
                           struct hearth_error *err)
{
    const uint32_t states = (uint32_t)(MOVES / p->n_classes);
    *r = (struct hearth_recogniser){.program = p, .cap_places = PLACES, .cap_calls = CALLS};
    r->cap_states = states < LEAST_STATES ? LEAST_STATES : states > MOST_STATES ? MOST_STATES : states;
    r->states = hearth_calloc(r->cap_states, sizeof *r->states);
    r->places = hearth_calloc(r->cap_places, sizeof *r->places);
    r->calls = hearth_calloc(r->cap_calls, sizeof *r->calls);
    r->moves = hearth_calloc((size_t)r->cap_states * (size_t)p->n_classes, sizeof *r->moves);
    r->state_table = hearth_calloc(MOST_STATES, sizeof *r->state_table);
    r->call_table = hearth_calloc(r->cap_calls, sizeof *r->call_table);
    r->renumbered = hearth_calloc(r->cap_calls, sizeof *r->renumbered);
    r->seen = hearth_calloc(HEARTH_RECOGNISER_PLACES, sizeof *r->seen);
    r->seen_table = hearth_calloc(SEEN_TABLE, sizeof *r->seen_table);
    r->found = hearth_calloc(HEARTH_RECOGNISER_PLACES, sizeof *r->found);
    if (!r->states || !r->places || !r->calls || !r->moves || !r->state_table || !r->call_table ||
        !r->renumbered || !r->seen || !r->seen_table || !r->found)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a grammar's states");
    r->n_calls = r->n_states = 1; // the bottom, and the dead state, whose moves all lead to itself
    r->states[HEARTH_STATE_DEAD].mask = HEARTH_NO_MASK;
    begin(r);
    see(r, p->start, 0);
    const uint32_t start = settle(r);
    assert(start == HEARTH_STATE_START || start == HEARTH_STATE_DEAD);
    if (start != HEARTH_STATE_START || r->full)
        return hearth_fail(err, HEARTH_E_FORMAT, "the grammar begins in more ways than can be followed");
    return HEARTH_OK;
}

void hearth_recogniser_close(struct hearth_recogniser *r)
{
    free(r->states);
    free(r->places);
    free(r->calls);
    free(r->moves);
    free(r->state_table);
    free(r->call_table);
    free(r->renumbered);
    free(r->seen);
    free(r->seen_table);
    free(r->found);
    *r = (struct hearth_recogniser){0};
}
