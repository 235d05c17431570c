// SPDX-License-Identifier: MIT
// Evaluations: a batch of rows goes through the layers, and sequences grow, or all stays as it was.
#include "base/os.h"
#include "engine/pooling.h"
#include "engine/session.h"
#include "engine/tail.h"
#include "engine/tracing.h"

// ---- one batch

// The layers. A trace is of steps.
static int compute(struct hearth_session *s, struct hearth_error *err)
{
    const int n_steps = s->tracing ? hearth_batch_count(&s->batch, HEARTH_PHASE_STEP) : 0;
    int rc = n_steps ? hearth_tracing_step(s->tracing, n_steps, err) : HEARTH_OK;
    if (!rc)
        rc = hearth_forward(s, err);
    if (!rc && s->tail)
        hearth_tail_add(s);
    if (!rc && n_steps)
        rc = hearth_tracing_end_step(s->tracing, err);
    return rc;
}

// Hidden states and logits of the rows that want them.
static int compute_wanted(struct hearth_session *s, struct hearth_error *err)
{
    const struct hearth_batch *b = &s->batch;
    if (b->n_wanted)
        hearth_forward_norm(s, b->wanted, b->n_wanted);
    if (!b->n_answer_classes)
        return HEARTH_OK;
    return hearth_forward_head(s, b->answers, b->n_answer_classes, err);
}

// All that the batch wants, but for the logits of a prompt's rows that go to a callback.
static int compute_all(struct hearth_session *s, bool to_callback, struct hearth_error *err)
{
    int rc = hearth_turn_begin(s, err);
    if (rc)
        return rc;
    rc = compute(s, err);
    if (!rc && !to_callback)
        rc = compute_wanted(s, err);
    if (rc && s->tracing && hearth_batch_count(&s->batch, HEARTH_PHASE_STEP))
        hearth_tracing_drop_step(s->tracing);
    hearth_turn_end(s);
    return rc;
}

// Ends the batch with what came of it. Of one with rows of both classes, time counts as a prompt's.
static int settle(struct hearth_session *s, int rc, uint64_t start)
{
    const int n_steps = hearth_batch_count(&s->batch, HEARTH_PHASE_STEP), n_prompt = s->batch.n - n_steps;
    *(n_prompt ? &s->stats.prompt_ns : &s->stats.step_ns) += hearth_now_ns() - start;
    if (rc) {
        hearth_batch_drop(&s->batch, &s->kv);
        return rc;
    }
    s->stats.prompt_tokens += (uint64_t)n_prompt;
    s->stats.step_tokens += (uint64_t)n_steps;
    s->stats.steps += n_steps > 0;
    hearth_batch_commit(&s->batch, &s->kv);
    return HEARTH_OK;
}

// The first n rows that the batch was given.
static int evaluate(struct hearth_session *s, int n, struct hearth_error *err)
{
    s->progress.before = 0;
    s->progress.rows = s->progress.all = n;
    int rc = hearth_replay(s, s->batch.from, n, err);
    const uint64_t start =
        hearth_now_ns(); // tokens that are evaluated again do not count, nor does their time
    if (!rc)
        rc = hearth_batch_take(&s->batch, &s->kv, &s->limits, n, err);
    return rc ? rc : settle(s, compute_all(s, false, err), start);
}

int hearth_evaluate(struct hearth_session *session, const struct hearth_batch_row *rows, int n,
                    size_t row_size, struct hearth_error *err)
{
    struct hearth_session *s = session;
    const int rc = hearth_batch_read(&s->batch, &s->limits, rows, n, row_size, err);
    return rc ? rc : evaluate(s, n, err);
}

// ---- prompts and steps

// What a call does with a prompt: it wants the logits of the last token, or of all, or hidden states.
struct prompt {
    int seq;
    const hearth_token *tokens;
    int n;
    hearth_row_fn rows; // or NULL
    void *arg;
    struct hearth_pooler *pooler; // or NULL
};

// Gives the caller the logits of all rows of the micro-batch that starts at token `base` of the prompt.
static int emit_rows(struct hearth_session *s, const struct prompt *p, int base, struct hearth_error *err)
{
    const size_t n_vocab = (size_t)s->model->hp.n_vocab;
    for (int first = 0; first < s->batch.n; first += s->limits.logit_rows) {
        const int left = s->batch.n - first, n = left < s->limits.logit_rows ? left : s->limits.logit_rows;
        const struct hearth_rows class = {0, n, HEARTH_PHASE_PROMPT};
        int rc = hearth_turn_begin(s, err);
        if (rc)
            return rc;
        hearth_forward_norm(s, s->batch.order + first, n);
        rc = hearth_forward_head(s, &class, 1, err);
        hearth_turn_end(s); // the caller may evaluate in another session
        if (rc)
            return rc;
        for (int i = 0; i < n; i++)
            if (!p->rows(p->arg, base + first + i, s->work.logits + (size_t)i * n_vocab))
                return hearth_fail(err, HEARTH_E_INTERRUPTED, "stopped on request");
    }
    return HEARTH_OK;
}

// Hidden states of the micro-batch that starts at token `base` of the prompt.
static void pool_rows(struct hearth_session *s, struct hearth_pooler *pooler, int base)
{
    for (int i = 0; i < s->batch.n; i++)
        if (s->batch.states_at[i] >= 0)
            hearth_pooler_add(pooler, base + i,
                              hearth_row_of(s->work.h, s->batch.states_at[i], s->model->hp.n_embd));
}

// Also takes the pages of the whole prompt, so that it does not fail half-way for want of them.
static int reserve_prompt(struct hearth_session *s, const struct prompt *p, struct hearth_error *err)
{
    if (p->n < 1)
        return hearth_fail(err, HEARTH_E_INVALID, "a prompt needs at least one token");
    if (!p->tokens)
        return hearth_fail(err, HEARTH_E_INVALID, "tokens is NULL, and the prompt has %d of them", p->n);
    int rc = hearth_kv_check_seq(&s->kv, p->seq, err);
    for (int i = 0; i < p->n && !rc; i++)
        if ((rc = hearth_batch_check_token(&s->limits, p->tokens[i], err)))
            hearth_fail_in(err, rc, "tokens[%d]", i);
    return rc ? rc : hearth_kv_reserve(&s->kv, &p->seq, &p->n, 1, err);
}

// Tokens [base, base + n) of a prompt, the sequence's next positions.
static int evaluate_micro_batch(struct hearth_session *s, const struct prompt *p, int base, int n,
                                struct hearth_error *err)
{
    const uint64_t start = hearth_now_ns();
    const bool answers = base + n == p->n && !p->rows && !p->pooler;
    for (int i = 0; i < n; i++)
        s->batch.from[i] = (struct hearth_batch_row){
            .seq = p->seq,
            .pos = -1,
            .token = p->tokens[base + i],
            .phase = HEARTH_PHASE_PROMPT,
            .wants_logits = answers && i == n - 1,
            .wants_embedding = p->pooler && hearth_pooler_wants(p->pooler, base + i)};
    int rc = hearth_batch_take(&s->batch, &s->kv, &s->limits, n, err);
    if (rc)
        return rc;
    s->progress.before = base;
    s->progress.rows = n;
    rc = compute_all(s, p->rows != NULL, err);
    if (!rc && p->rows)
        rc = emit_rows(s, p, base, err);
    if (!rc && p->pooler)
        pool_rows(s, p->pooler, base);
    if (answers)
        hearth_batch_answer_first(&s->batch, n - 1);
    return settle(s, rc, start);
}

static int evaluate_prompt(struct hearth_session *s, const struct prompt *p, struct hearth_error *err)
{
    const int length = hearth_seq_length(s, p->seq);
    s->batch.n_answered = 0;
    int rc = reserve_prompt(s, p, err);
    if (rc)
        return rc;
    s->progress.all = p->n;
    rc = hearth_replay(s, &(struct hearth_batch_row){.seq = p->seq}, 1, err);
    for (int base = 0; base < p->n && !rc; base += s->n_ubatch) {
        const int left = p->n - base;
        rc = evaluate_micro_batch(s, p, base, left < s->n_ubatch ? left : s->n_ubatch, err);
    }
    if (rc) { // so that it can be tried again
        s->batch.n_answered = 0;
        hearth_kv_seq_truncate(&s->kv, p->seq, length);
    }
    return rc;
}

int hearth_prompt(struct hearth_session *session, int seq, const hearth_token *tokens, int n,
                  hearth_row_fn rows, void *arg, struct hearth_error *err)
{
    const struct prompt p = {.seq = seq, .tokens = tokens, .n = n, .rows = rows, .arg = arg};
    return evaluate_prompt(session, &p, err);
}

int hearth_embed(struct hearth_session *session, int seq, const hearth_token *tokens, int n,
                 enum hearth_pooling pooling, int norm, float *out, struct hearth_error *err)
{
    struct hearth_pooler pooler = {.pooling = pooling,
                                   .n_embd = session->model->hp.n_embd,
                                   .n = n,
                                   .sum = session->work.pooled,
                                   .out = out};
    const struct prompt p = {.seq = seq, .tokens = tokens, .n = n, .pooler = &pooler};
    session->batch.n_answered = 0;
    if ((unsigned)pooling > HEARTH_POOLING_LAST)
        return hearth_fail(err, HEARTH_E_INVALID, "there is no pooling %d", (int)pooling);
    if (!out)
        return hearth_fail(err, HEARTH_E_INVALID, "out is NULL, and the embedding is to be written there");
    const int rc = evaluate_prompt(session, &p, err);
    if (!rc)
        hearth_pooler_end(&pooler, norm);
    session->batch.n_answered = 0; // the states of the last micro-batch are not the embedding
    return rc;
}

int hearth_step(struct hearth_session *session, const int *seqs, const hearth_token *tokens, int n,
                struct hearth_error *err)
{
    struct hearth_session *s = session;
    s->batch.n_answered = 0;
    if (n < 1 || n > s->limits.max_seqs)
        return hearth_fail(err, HEARTH_E_INVALID, "a step takes 1 to %d sequences, not %d",
                           s->limits.max_seqs, n);
    if (!seqs || !tokens)
        return hearth_fail(err, HEARTH_E_INVALID, "%s is NULL, and the step has %d of them",
                           seqs ? "tokens" : "seqs", n);
    const int rc = hearth_batch_check_seqs(&s->batch, &s->kv, seqs, n, err);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++)
        s->batch.from[i] = (struct hearth_batch_row){
            .seq = seqs[i], .pos = -1, .token = tokens[i], .phase = HEARTH_PHASE_STEP, .wants_logits = true};
    return evaluate(s, n, err);
}

void hearth_cancel(struct hearth_session *session)
{
    if (session)
        hearth_fault_cancel(&session->fault);
}

bool hearth_cancel_clear(struct hearth_session *session)
{
    return hearth_fault_forget(&session->fault);
}

const float *hearth_logits(const struct hearth_session *session, int row)
{
    const struct hearth_batch *b = &session->batch;
    if (row < 0 || row >= b->n_answered || b->logits_at[row] < 0)
        return NULL;
    return session->work.logits + (size_t)b->logits_at[row] * (size_t)session->model->hp.n_vocab;
}

const float *hearth_embedding(const struct hearth_session *session, int row)
{
    const struct hearth_batch *b = &session->batch;
    if (row < 0 || row >= b->n_answered || b->states_at[row] < 0)
        return NULL;
    return hearth_row_of(session->work.h, b->states_at[row], session->model->hp.n_embd);
}
