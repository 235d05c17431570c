// SPDX-License-Identifier: MIT
// Finds left recursion: which rules can be empty, then a circle among the calls that come before any character.
#include "grammar/left.h"

#include <stdlib.h>

#include "base/memory.h"

struct search {
    const struct hearth_gbnf *g;
    bool *empty;    // [n_rules] can read nothing
    uint8_t *state; // [n_rules] of the search for circles
    struct visit {
        uint32_t rule, call; // its calls from `call` on are still to be looked at
    } * stack;               // [n_rules]
    uint32_t n_stack;
    uint32_t *calls;      // of all rules, before any character
    uint32_t *first_call; // [n_rules + 1]
    uint32_t n_calls, cap_calls;
};

enum { UNSEEN, OPEN, DONE };

static bool can_be_empty(const struct search *s, uint32_t item)
{
    const struct hearth_gbnf_item *i = &s->g->items[item];
    switch (i->kind) {
    case HEARTH_GBNF_SEQUENCE:
        for (uint32_t c = i->first; c; c = s->g->items[c].next)
            if (!can_be_empty(s, c))
                return false;
        return true;
    case HEARTH_GBNF_ALTERNATIVES:
        for (uint32_t c = i->first; c; c = s->g->items[c].next)
            if (can_be_empty(s, c))
                return true;
        return false;
    case HEARTH_GBNF_REPEAT:
        return i->n == 0 || can_be_empty(s, i->first);
    case HEARTH_GBNF_RULE:
        return s->empty[i->first];
    case HEARTH_GBNF_TEXT:
        return i->n == 0;
    case HEARTH_GBNF_CLASS:
    case HEARTH_GBNF_TOKEN:
    case HEARTH_GBNF_NOT_TOKEN:
        break;
    }
    return false;
}

// Rounds of all rules, in both directions in turn, until no rule is found to be empty any more.
static void find_empty(struct search *s)
{
    const uint32_t n = s->g->n_rules;
    bool backwards = false;
    for (bool found = true; found; backwards = !backwards) {
        found = false;
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t i = backwards ? n - 1 - k : k;
            if (!s->empty[i] && can_be_empty(s, s->g->rules[i].body))
                found = s->empty[i] = true;
        }
    }
}

static bool add_call(struct search *s, uint32_t rule)
{
    if (s->n_calls == s->cap_calls) {
        const uint32_t larger = s->cap_calls ? s->cap_calls * 2 : 256;
        uint32_t *calls = hearth_reallocarray(s->calls, larger, sizeof *calls);
        if (!calls)
            return false;
        s->calls = calls;
        s->cap_calls = larger;
    }
    s->calls[s->n_calls++] = rule;
    return true;
}

// Collects the rules that an item may call before it has read a character.
static bool collect(struct search *s, uint32_t item)
{
    const struct hearth_gbnf_item *i = &s->g->items[item];
    switch (i->kind) {
    case HEARTH_GBNF_SEQUENCE:
        for (uint32_t c = i->first; c; c = s->g->items[c].next) {
            if (!collect(s, c))
                return false;
            if (!can_be_empty(s, c))
                break;
        }
        return true;
    case HEARTH_GBNF_ALTERNATIVES:
        for (uint32_t c = i->first; c; c = s->g->items[c].next)
            if (!collect(s, c))
                return false;
        return true;
    case HEARTH_GBNF_REPEAT:
        return i->max == 0 || collect(s, i->first);
    case HEARTH_GBNF_RULE:
        return add_call(s, i->first);
    case HEARTH_GBNF_TEXT:
    case HEARTH_GBNF_CLASS:
    case HEARTH_GBNF_TOKEN:
    case HEARTH_GBNF_NOT_TOKEN:
        break;
    }
    return true;
}

static bool collect_all(struct search *s)
{
    for (uint32_t i = 0; i < s->g->n_rules; i++) {
        s->first_call[i] = s->n_calls;
        if (!collect(s, s->g->rules[i].body))
            return false;
    }
    s->first_call[s->g->n_rules] = s->n_calls;
    return true;
}

static void enter(struct search *s, uint32_t rule)
{
    s->state[rule] = OPEN;
    s->stack[s->n_stack++] = (struct visit){rule, s->first_call[rule]};
}

// A rule that reaches itself from `start`; -1: there is none.
static int64_t find_circle(struct search *s, uint32_t start)
{
    if (s->state[start] == UNSEEN)
        enter(s, start);
    while (s->n_stack) {
        struct visit *top = &s->stack[s->n_stack - 1];
        if (top->call == s->first_call[top->rule + 1]) {
            s->state[top->rule] = DONE;
            s->n_stack--;
            continue;
        }
        const uint32_t called = s->calls[top->call++];
        if (s->state[called] == OPEN)
            return called;
        if (s->state[called] == UNSEEN)
            enter(s, called);
    }
    return -1;
}

int hearth_gbnf_check_left(const struct hearth_gbnf *g, struct hearth_error *err)
{
    struct search s = {.g = g};
    s.empty = hearth_calloc(g->n_rules, sizeof *s.empty);
    s.state = hearth_calloc(g->n_rules, sizeof *s.state);
    s.stack = hearth_calloc(g->n_rules, sizeof *s.stack);
    s.first_call = hearth_calloc((size_t)g->n_rules + 1, sizeof *s.first_call);
    int rc = HEARTH_OK;
    if (s.empty && s.state && s.stack && s.first_call)
        find_empty(&s);
    if (!s.empty || !s.state || !s.stack || !s.first_call || !collect_all(&s))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for a grammar of %u rules", g->n_rules);
    for (uint32_t i = 0; i < g->n_rules && !rc; i++) {
        const int64_t rule = find_circle(&s, i);
        if (rule >= 0)
            rc = hearth_gbnf_fail(
                g, g->rules[rule].at,
                "this rule calls itself before it has read anything (left recursion): ", g->names[rule], err);
    }
    free(s.empty);
    free(s.state);
    free(s.stack);
    free(s.calls);
    free(s.first_call);
    return rc;
}
