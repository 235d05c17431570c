// SPDX-License-Identifier: MIT
// See nextn.h.
#include "engine/nextn.h"

#include <string.h>

// A cancel is of what is evaluated next: guesses alone end here.
static int pass_on(struct hearth_session *s, int rc)
{
    if (rc == HEARTH_E_INTERRUPTED)
        hearth_fault_cancel(&s->fault);
    return rc;
}

struct embed_job {
    struct hearth_session *s;
    const hearth_token *tokens;
    float *out;
};

static void embed_task(void *arg, int task, int worker)
{
    const struct embed_job *j = arg;
    hearth_forward_embed_token(j->s, j->tokens[task], worker,
                               hearth_row_of(j->out, task, j->s->model->hp.n_embd));
}

int hearth_nextn_embed(struct hearth_session *s, const hearth_token *tokens, int n, float *out,
                       struct hearth_error *err)
{
    struct embed_job j = {s, tokens, out};
    int rc = hearth_turn_begin(s, err);
    if (rc)
        return pass_on(s, rc);
    hearth_parallel(&s->context, embed_task, &j, n);
    rc = hearth_fault_take(&s->fault, err);
    hearth_turn_end(s);
    return pass_on(s, rc);
}

int hearth_nextn_head(struct hearth_session *s, const float *state, const float **logits,
                      struct hearth_error *err)
{
    const struct hearth_rows one = {0, 1, HEARTH_PHASE_STEP};
    s->batch.n_answered = 0;
    int rc = hearth_turn_begin(s, err);
    if (rc)
        return pass_on(s, rc);
    memcpy(s->work.h, state, (size_t)s->model->hp.n_embd * sizeof *state);
    rc = hearth_forward_head(s, &one, 1, err);
    hearth_turn_end(s);
    *logits = s->work.logits;
    return pass_on(s, rc);
}

int hearth_nextn_evaluate(struct hearth_session *s, const struct hearth_batch_row *rows, int n,
                          const float *embds, const float *const *states, struct hearth_error *err)
{
    s->nextn = (struct hearth_nextn){embds, states};
    const int rc = hearth_evaluate(s, rows, n, sizeof *rows, err);
    s->nextn = (struct hearth_nextn){0};
    return rc;
}
