// SPDX-License-Identifier: MIT
// Fuzz target: a grammar, then, behind a zero byte, a text. Compiling must end in an error with a message or in
// a grammar; reading the text whole and reading it in two samplers' steps must agree.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/gbnf.h"
#include "grammar/program.h"
#include "grammar/recogniser.h"
#include "hearth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                             \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "broken promise: %s\n", #x);                                                     \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

// The same with states forgotten after every byte; `matches` where there are more ways than can be followed.
static bool matches_forgetting(const char *grammar, size_t n, const char *text, size_t n_text, bool matches)
{
    struct hearth_gbnf g;
    struct hearth_program p;
    struct hearth_recogniser r;
    CHECK(!hearth_gbnf_read(&g, grammar, n, NULL, NULL, 0, NULL));
    CHECK(!hearth_program_open(&p, &g, NULL) && !hearth_recogniser_open(&r, &p, NULL));
    uint32_t *moved = calloc(r.cap_states, sizeof *moved), state = HEARTH_STATE_START;
    CHECK(moved);
    for (size_t i = 0; i < n_text && state && !r.full; i++) {
        state = hearth_recogniser_step(&r, state, (uint8_t)text[i]);
        if (i < 64 && !r.full) {
            r.states[state].kept = state != HEARTH_STATE_DEAD;
            hearth_recogniser_forget(&r, moved);
            state = moved[state];
        }
    }
    const bool ends = r.full ? matches : r.states[state].ends;
    free(moved);
    hearth_recogniser_close(&r);
    hearth_program_close(&p);
    hearth_gbnf_close(&g);
    return ends;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *grammar = (const char *)data;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size, n_text = zero ? size - n - 1 : 0;
    struct hearth_error err = {0};
    struct hearth_grammar *g;
    if (hearth_grammar_open(&g, NULL, grammar, n, &err)) {
        CHECK(!g && err.message[0]);
        return 0;
    }
    const char *text = zero ? grammar + n + 1 : "";
    const bool matches = hearth_grammar_matches(g, text, n_text);
    CHECK(matches == hearth_grammar_matches(g, text, n_text));
    if (n_text < 512)
        CHECK(matches == matches_forgetting(grammar, n, text, n_text, matches));
    hearth_grammar_close(&g);
    return 0;
}
