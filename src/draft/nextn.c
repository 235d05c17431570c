// SPDX-License-Identifier: MIT
// Guesses of the layer that a model's own file has for them. Its first guess begins with the model's state at the text's
// end, the others with its own. What it knows of a text begins where the model's states are still there: so it needs no
// prompt.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "draft/drafter.h"
#include "engine/nextn.h"
#include "engine/tail.h"

#define MOST HEARTH_DRAFTER_TAIL
#define MANY HEARTH_DRAFTER_UBATCH

// ---- guessing

// Appends tokens, at most MANY, with the states before them, to one of its sequences; the last one's state becomes d->state.
static int append(struct hearth_drafter *d, int seq, const hearth_token *tokens, int n,
                  struct hearth_error *err)
{
    struct hearth_batch_row rows[MANY];
    const enum hearth_phase phase = n > HEARTH_DRAFTER_STEPS ? HEARTH_PHASE_PROMPT : HEARTH_PHASE_STEP;
    int rc = hearth_nextn_embed(d->main, tokens, n, d->embds, err);
    for (int i = 0; i < n; i++)
        rows[i] = (struct hearth_batch_row){
            .seq = seq, .pos = -1, .token = tokens[i], .phase = phase, .wants_embedding = i + 1 == n};
    if (!rc)
        rc = hearth_nextn_evaluate(d->session, rows, n, d->embds, d->states, err);
    if (!rc)
        memcpy(d->state, hearth_embedding(d->session, n - 1), (size_t)d->n_embd * sizeof *d->state);
    return rc;
}

// The first token of the text that is followed by no other whose state before it is lost; at most MOST from its end.
static int first_known(const struct hearth_drafter *d, const struct hearth_draft_text *text)
{
    int first = text->n;
    while (first > 1 && text->n - first < MOST && hearth_tail_state(d->main, text->seq, first - 2))
        first--;
    return first;
}

// Tokens that its sequence and the text have in common, as far as they are sure; the text's last one not.
static int count_kept(const struct hearth_drafter *d, const struct hearth_draft_text *text)
{
    const int has = hearth_seq_tokens(d->session, d->seqs[text->which], d->tokens, NULL,
                                      hearth_session_n_ctx(d->session));
    const int from = d->from[text->which], sure = d->sure[text->which];
    int kept = 0;
    while (kept < has && kept < sure && from + kept + 1 < text->n &&
           d->tokens[kept] == text->tokens[from + kept])
        kept++;
    return kept;
}

int hearth_nextn_catch_up(struct hearth_drafter *d, const struct hearth_draft_text *text,
                          const float **logits, struct hearth_error *err)
{
    int *seq = &d->seqs[text->which], *from = &d->from[text->which];
    const int first = first_known(d, text);
    *logits = NULL;
    if (first == text->n)
        return HEARTH_OK;
    if (*seq < 0) {
        *seq = hearth_seq_new(d->session, err);
        d->sure[text->which] = 0;
    }
    if (*seq < 0)
        return err->code;
    int kept = count_kept(d, text);
    if (*from + kept < first || text->n + HEARTH_DRAFT_MOST - *from > hearth_session_n_ctx(d->session))
        kept = 0;
    if (!kept)
        *from = first;
    int rc = hearth_seq_truncate(d->session, *seq, kept, err);
    if (rc)
        return rc;
    for (int at = *from + kept, n; at < text->n && !rc; at += n) {
        n = text->n - at < MANY ? text->n - at : MANY;
        for (int i = 0; i < n; i++)
            d->states[i] = hearth_tail_state(d->main, text->seq, at + i - 1);
        rc = append(d, *seq, text->tokens + at, n, err);
    }
    d->sure[text->which] = text->n - *from;
    return rc ? rc : hearth_nextn_head(d->main, d->state, logits, err);
}

int hearth_nextn_append(struct hearth_drafter *d, int seq, hearth_token token, const float **logits,
                        struct hearth_error *err)
{
    d->states[0] = d->state;
    const int rc = append(d, seq, &token, 1, err);
    return rc ? rc : hearth_nextn_head(d->main, d->state, logits, err);
}

// ---- opening

uint64_t hearth_drafter_nextn_bytes(const struct hearth_session *session, int n_embd, int n_texts)
{
    return hearth_tail_bytes(n_embd, n_texts, MOST) + (MANY + 1) * (uint64_t)n_embd * sizeof(float) +
           (uint64_t)hearth_session_n_ctx(session) * sizeof(hearth_token);
}

int hearth_nextn_begin(struct hearth_drafter *d, struct hearth_session *main, int n_embd, int n_texts,
                       struct hearth_error *err)
{
    d->n_embd = n_embd;
    d->from = hearth_calloc((size_t)n_texts, sizeof *d->from);
    d->sure = hearth_calloc((size_t)n_texts, sizeof *d->sure);
    d->embds = hearth_calloc((size_t)MANY * (size_t)n_embd, sizeof *d->embds);
    d->states = hearth_calloc(MANY, sizeof *d->states);
    d->state = hearth_calloc((size_t)n_embd, sizeof *d->state);
    if (!d->from || !d->sure || !d->embds || !d->states || !d->state)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for drafts of %d texts", n_texts);
    d->main = main;
    return hearth_tail_open(main, n_texts, MOST, err);
}

void hearth_nextn_end(struct hearth_drafter *d)
{
    free(d->from);
    free(d->sure);
    free(d->embds);
    free(d->states);
    free(d->state);
}
