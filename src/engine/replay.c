// SPDX-License-Identifier: MIT
// Tokens that are evaluated again, for the sake of the states of recurrent layers. Their keys and values are
// there, and would come out the same; nobody else sees any of it. Where what they put into recurrent layers is kept,
// these alone have work to do.
#include "engine/session.h"

// Tokens [pos, pos + result) of a sequence fit into one evaluation.
static int count_tokens(const struct hearth_session *s, int seq, int pos)
{
    int n_steps = 0, n_prompt = 0;
    while (pos + n_steps + n_prompt < s->kv.seqs[seq].length) {
        const bool step = hearth_kv_phase(&s->kv, seq, pos + n_steps + n_prompt) == HEARTH_PHASE_STEP;
        if (step ? n_steps == s->limits.max_steps : n_prompt == s->n_ubatch)
            break;
        n_steps += step;
        n_prompt += !step;
    }
    return n_steps + n_prompt;
}

// The next of them, through the layers.
static int evaluate_again(struct hearth_session *s, int seq, int pos, struct hearth_error *err)
{
    const int length = s->kv.seqs[seq].length, kept = hearth_states_kept(&s->kv.states, seq, pos, length);
    int rc = hearth_batch_take_again(&s->batch, &s->kv, seq, pos,
                                     kept < 0 ? count_tokens(s, seq, pos) : length - pos, kept, err);
    if (rc)
        return rc;
    rc = hearth_turn_begin(s, err);
    if (!rc) {
        rc = kept < 0 ? hearth_forward(s, err) : hearth_forward_states(s, err);
        hearth_turn_end(s);
    }
    if (rc)
        hearth_batch_drop(&s->batch, &s->kv);
    else
        hearth_batch_commit(&s->batch, &s->kv);
    return rc;
}

static int replay(struct hearth_session *s, int seq, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    if (hearth_states_top(&s->kv.states, seq) < s->kv.seqs[seq].length)
        hearth_states_adopt(&s->kv.states, &s->kv, seq);
    for (int pos; !rc && (pos = hearth_states_top(&s->kv.states, seq)) < s->kv.seqs[seq].length;)
        rc = evaluate_again(s, seq, pos, err);
    return rc;
}

static void need(struct hearth_session *s, const struct hearth_batch_row *rows, int n, bool needed)
{
    for (int i = 0; i < n; i++)
        if (hearth_kv_has(&s->kv, rows[i].seq))
            hearth_states_need(&s->kv.states, rows[i].seq, needed);
}

static void swap_batches(struct hearth_session *s)
{
    const struct hearth_batch batch = s->batch;
    s->batch = s->again;
    s->again = batch;
    s->context.rows = s->batch.rows;
    s->context.tokens = s->batch.tokens;
}

int hearth_replay(struct hearth_session *s, const struct hearth_batch_row *rows, int n,
                  struct hearth_error *err)
{
    int rc = HEARTH_OK;
    if (!s->kv.states.n_slots)
        return rc;
    // Callbacks and traces have seen these tokens, and progress is of others.
    const struct hearth_probes probes = s->probes;
    const struct hearth_session_progress progress = s->progress;
    s->probes = (struct hearth_probes){0};
    s->progress.fn = NULL;
    swap_batches(s);
    need(s, rows, n, true);
    for (int i = 0; i < n && !rc; i++)
        if (hearth_kv_has(&s->kv, rows[i].seq)) // else it is refused later
            rc = replay(s, rows[i].seq, err);
    need(s, rows, n, false);
    swap_batches(s);
    s->probes = probes;
    s->progress = progress;
    return rc;
}
