// SPDX-License-Identifier: MIT
// Texts of a session that grow by drafts.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "draft/draft.h"

#define MOST_TEXTS 256

// Rows of a step: texts without guesses, or these with as many as are worth it.
static int lay_out(struct hearth_drafted *const *texts, int n, struct hearth_batch_row *rows)
{
    int n_rows = 0;
    for (int i = 0; i < n; i++) {
        struct hearth_drafted *t = texts[i];
        t->row = n_rows;
        t->had = t->n - 1;
        for (int k = 0; k <= t->draft.used; k++)
            rows[n_rows++] =
                (struct hearth_batch_row){.seq = t->seq,
                                          .pos = -1,
                                          .token = k ? t->draft.tokens[k - 1] : t->tokens[t->n - 1],
                                          .phase = HEARTH_PHASE_STEP,
                                          .wants_logits = true};
    }
    return n_rows;
}

static void guess(struct hearth_session *session, struct hearth_pace *pace,
                  struct hearth_drafted *const *texts, int n)
{
    struct hearth_draft *drafts[MOST_TEXTS];
    const int max_steps = hearth_session_max_steps(session);
    int left = (max_steps < HEARTH_DRAFT_ROWS ? max_steps : HEARTH_DRAFT_ROWS) - n, rows = n;
    hearth_draft_settle(pace);
    for (int i = 0; i < n; i++) {
        const struct hearth_drafted *t = texts[i];
        const struct hearth_draft_text text = {.which = t->which,
                                               .seq = t->seq,
                                               .tokens = t->tokens,
                                               .n = t->n,
                                               .most = t->room - 1 < left ? t->room - 1 : left,
                                               .sampler = t->sampler};
        drafts[i] = &texts[i]->draft;
        const int guessed = hearth_draft_guess(drafts[i], pace, &text, rows);
        left -= guessed;
        rows += guessed;
    }
    hearth_pace_choose(pace, drafts, n, n, max_steps);
}

int hearth_drafted_step(struct hearth_session *session, struct hearth_pace *pace,
                        struct hearth_drafted *const *texts, int n, struct hearth_error *err)
{
    struct hearth_batch_row rows[MOST_TEXTS + HEARTH_DRAFT_ROWS];
    guess(session, pace, texts, n);
    int n_rows = lay_out(texts, n, rows);
    const uint64_t start = hearth_now_ns();
    int rc = hearth_evaluate(session, rows, n_rows, sizeof *rows, err);
    if (rc == HEARTH_E_KV_FULL && n_rows > n) { // there may be room without guesses
        for (int i = 0; i < n; i++)
            texts[i]->draft.used = 0;
        pace->guesses -= (uint64_t)(n_rows - n);
        pace->steps--;
        n_rows = lay_out(texts, n, rows);
        rc = hearth_evaluate(session, rows, n_rows, sizeof *rows, err);
    }
    if (rc)
        return rc;
    hearth_pace_took(pace, n_rows, hearth_now_ns() - start);
    return rc;
}

bool hearth_drafted_take(struct hearth_drafted *text, struct hearth_pace *pace, int at, hearth_token token,
                         bool *more)
{
    *more = hearth_pace_compare(pace, &text->draft, at, token) && at < text->draft.used;
    return hearth_drafted_add(text, &token, 1);
}

int hearth_drafted_end(struct hearth_session *session, struct hearth_drafted *text, int rows,
                       struct hearth_error *err)
{
    return text->draft.used ? hearth_seq_truncate(session, text->seq, text->had + rows, err) : HEARTH_OK;
}

bool hearth_drafted_add(struct hearth_drafted *text, const hearth_token *tokens, int n)
{
    if (n > text->cap - text->n) {
        const int cap = text->n + n + text->cap / 2 + 256;
        hearth_token *grown = hearth_reallocarray(text->tokens, (size_t)cap, sizeof *grown);
        if (!grown)
            return false;
        text->tokens = grown;
        text->cap = cap;
    }
    memcpy(text->tokens + text->n, tokens, (size_t)n * sizeof *tokens);
    text->n += n;
    return true;
}

void hearth_drafted_free(struct hearth_drafted *text)
{
    free(text->tokens);
    *text = (struct hearth_drafted){0};
}
