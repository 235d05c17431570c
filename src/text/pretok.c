// SPDX-License-Identifier: MIT
// Pre-tokenizing with PCRE2: just-in-time compiled where the system allows it, else interpreted, with the
// same result. Reaching a limit is an error, never a different cut.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretok.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/pretok_table.h"
#include "text/unicode.h"

// The machine stack gives compiled expressions 32 KiB. The few expressions that repeat groups can
// need more for long words.
#define JIT_STACK_MIN ((size_t)64 << 10)
#define JIT_STACK_MAX ((size_t)256 << 20)
// The interpreter's memory, in KiB.
#define HEAP_LIMIT ((uint32_t)1 << 20)

struct stage {
    pcre2_code *code;
    bool jit;
    bool threes;
};

struct hearth_pretok {
    struct stage stages[MAX_STAGES];
    size_t n_stages;
    pcre2_match_context *limits;
};

struct hearth_pretok_state {
    pcre2_match_data *match;
    pcre2_match_context *roomy; // with a JIT stack of its own; made when the small one was not enough
    pcre2_jit_stack *stack;
};

// The state of one split, passed along the recursion over stages.
struct split {
    const struct hearth_pretok *pretok;
    struct hearth_pretok_state *state;
    hearth_word_fn word;
    void *arg;
    struct hearth_error *err;
};

static bool make_roomy(struct hearth_pretok_state *state, const struct hearth_pretok *p)
{
    if (state->roomy)
        return true;
    if (!state->stack)
        state->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
    state->roomy = state->stack ? pcre2_match_context_copy(p->limits) : NULL;
    if (state->roomy)
        pcre2_jit_stack_assign(state->roomy, NULL, state->stack);
    return state->roomy != NULL;
}

static int match_at(struct split *x, const struct stage *st, const char *s, size_t n, size_t from)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)s;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (st->jit) {
        pcre2_match_context *context = x->state->roomy ? x->state->roomy : x->pretok->limits;
        rc = pcre2_jit_match(st->code, subject, n, from, PCRE2_NO_UTF_CHECK, x->state->match, context);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !x->state->roomy && make_roomy(x->state, x->pretok))
            rc = pcre2_jit_match(st->code, subject, n, from, PCRE2_NO_UTF_CHECK, x->state->match,
                                 x->state->roomy);
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(st->code, subject, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, x->state->match,
                         x->pretok->limits);
    return rc;
}

static int match_failed(struct split *x, int rc, size_t n)
{
    char reason[120] = "";
    pcre2_get_error_message(rc, (PCRE2_UCHAR *)reason, sizeof reason);
    return hearth_fail(x->err, rc == PCRE2_ERROR_NOMEMORY ? HEARTH_E_MEMORY : HEARTH_E_UNSUPPORTED,
                       "the pre-tokenizer gave up on %zu bytes (%s): break the text into lines", n, reason);
}

static int split_stage(struct split *x, size_t k, const char *s, size_t n);

// Cuts s[0..n) into groups of three characters, counted from the end; the first may be shorter.
static int split_threes(struct split *x, size_t k, const char *s, size_t n)
{
    size_t chars = 0;
    for (size_t i = 0; i < n; i++)
        chars += ((uint8_t)s[i] & 0xC0) != 0x80;
    size_t start = 0;
    while (start < n) {
        size_t group = chars % 3 ? chars % 3 : 3, end = start;
        for (size_t c = 0; c < group; c++)
            end += hearth_utf8_decode(s + end, n - end, NULL);
        int rc = split_stage(x, k, s + start, end - start);
        if (rc != HEARTH_OK)
            return rc;
        chars -= group;
        start = end;
    }
    return HEARTH_OK;
}

// Passes s[0..n) on to stage k or, after the last stage, out as a word.
static int split_stage(struct split *x, size_t k, const char *s, size_t n)
{
    if (k == x->pretok->n_stages)
        return x->word(x->arg, s, n, x->err);
    const struct stage *st = &x->pretok->stages[k];
    size_t done = 0, from = 0;
    while (from < n) {
        int rc = match_at(x, st, s, n, from);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0)
            return match_failed(x, rc, n);
        const size_t *ends = pcre2_get_ovector_pointer(x->state->match);
        size_t start = ends[0], end = ends[1];
        if (end <= start)
            return match_failed(x, PCRE2_ERROR_INTERNAL, n); // none of our expressions matches the empty
                                                             // string
        if (start > done && (rc = split_stage(x, k + 1, s + done, start - done)) != HEARTH_OK)
            return rc;
        rc = st->threes ? split_threes(x, k + 1, s + start, end - start)
                        : split_stage(x, k + 1, s + start, end - start);
        if (rc != HEARTH_OK)
            return rc;
        done = from = end;
    }
    return done < n ? split_stage(x, k + 1, s + done, n - done) : HEARTH_OK;
}

int hearth_pretok_split(const struct hearth_pretok *p, struct hearth_pretok_state **state, const char *s,
                        size_t n, hearth_word_fn word, void *arg, struct hearth_error *err)
{
    if (!*state)
        *state = hearth_calloc(1, sizeof **state);
    if (*state && !(*state)->match)
        (*state)->match = pcre2_match_data_create(1, NULL);
    if (!*state || !(*state)->match)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for tokenizing a text of %zu bytes", n);
    struct split x = {p, *state, word, arg, err};
    return split_stage(&x, 0, s, n);
}

void hearth_pretok_state_free(struct hearth_pretok_state *state)
{
    if (!state)
        return;
    pcre2_match_data_free(state->match);
    pcre2_match_context_free(state->roomy);
    pcre2_jit_stack_free(state->stack);
    free(state);
}

// ---- building

static int find_name(const char *pre)
{
    if (!pre || !*pre)
        return 0; // "default"
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, pre) == 0)
            return (int)i;
    }
    return -1;
}

const char *hearth_pretok_name(size_t i)
{
    return i < sizeof names / sizeof *names ? names[i].name : NULL;
}

bool hearth_pretok_traits(const char *pre, struct hearth_pretok_traits *out)
{
    int i = find_name(pre);
    *out = (struct hearth_pretok_traits){0};
    if (i < 0)
        return false;
    out->ignore_merges = names[i].traits & IGNORE_MERGES;
    out->add_bos = names[i].traits & ADD_BOS;
    out->no_bos = names[i].traits & NO_BOS;
    return true;
}

static int compile(struct stage *st, const struct stage_source *source, const char *name,
                   struct hearth_error *err)
{
    int code = 0;
    size_t at = 0;
    st->threes = source->threes;
    st->code =
        pcre2_compile((PCRE2_SPTR)source->regex, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE, &code, &at, NULL);
    if (!st->code && code == PCRE2_ERROR_HEAP_FAILED)
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the pre-tokenizer", name);
    if (!st->code) {
        char reason[120] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
        return hearth_fail(err, HEARTH_E_UNSUPPORTED,
                           "%s: this PCRE2 does not compile the pre-tokenizer (%s at %zu)", name, reason, at);
    }
    st->jit = pcre2_jit_compile(st->code, PCRE2_JIT_COMPLETE) == 0;
    return HEARTH_OK;
}

int hearth_pretok_open(struct hearth_pretok **out, const char *pre, const char *name,
                       struct hearth_error *err)
{
    *out = NULL;
    int i = find_name(pre);
    if (i < 0)
        return hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: the pre-tokenizer \"%s\" is not known", name, pre);
    struct hearth_pretok *p = hearth_calloc(1, sizeof *p);
    if (p)
        p->limits = pcre2_match_context_create(NULL);
    if (!p || !p->limits) {
        hearth_pretok_close(&p);
        return hearth_fail(err, HEARTH_E_MEMORY, "%s: no memory for the pre-tokenizer", name);
    }
    // No limit on steps: the expressions take time proportional to the text (except jais-2 on
    // endless white space), and refusing a long line helps nobody.
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    pcre2_set_depth_limit(p->limits, UINT32_MAX);
    pcre2_set_heap_limit(p->limits, HEAP_LIMIT);
    const struct stage_source *source = names[i].recipe->stages;
    int rc = HEARTH_OK;
    while (rc == HEARTH_OK && p->n_stages < MAX_STAGES && source[p->n_stages].regex) {
        rc = compile(&p->stages[p->n_stages], &source[p->n_stages], name, err);
        if (rc == HEARTH_OK)
            p->n_stages++;
    }
    if (rc != HEARTH_OK)
        hearth_pretok_close(&p);
    *out = p;
    return rc;
}

void hearth_pretok_interpret(struct hearth_pretok *p)
{
    for (size_t i = 0; i < p->n_stages; i++)
        p->stages[i].jit = false;
}

void hearth_pretok_close(struct hearth_pretok **p)
{
    if (!*p)
        return;
    for (size_t i = 0; i < (*p)->n_stages; i++)
        pcre2_code_free((*p)->stages[i].code);
    pcre2_match_context_free((*p)->limits);
    free(*p);
    *p = NULL;
}
