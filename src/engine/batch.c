// SPDX-License-Identifier: MIT
// Batches: see batch.h.
#include "engine/batch.h"

#include <string.h>

#include "base/params.h"

// Bytes of a row in the first release.
#define LEAST_ROW 20
_Static_assert(sizeof(struct hearth_batch_row) >= LEAST_ROW, "rows grow");

int hearth_batch_check_token(const struct hearth_batch_limits *limits, hearth_token token,
                             struct hearth_error *err)
{
    if (token >= 0 && token < limits->n_vocab)
        return HEARTH_OK;
    return hearth_fail(err, HEARTH_E_INVALID, "token %d is outside the vocabulary of %d", token,
                       limits->n_vocab);
}

// The row's position is the sequence's next one, or becomes it.
static int place_row(const struct hearth_batch *b, const struct hearth_kv *kv, struct hearth_batch_row *row,
                     struct hearth_error *err)
{
    const int index = b->index[row->seq];
    const int pos = kv->seqs[row->seq].length + (index < 0 ? 0 : b->counts[index]);
    if (pos >= kv->n_ctx)
        return hearth_fail_param(err, HEARTH_E_BUDGET, "n_ctx",
                                 "the context of %d tokens is full: use a larger n_ctx", kv->n_ctx);
    if (row->pos != -1 && row->pos != pos)
        return hearth_fail(err, HEARTH_E_INVALID, "the next position is %d, not %d", pos, row->pos);
    row->pos = pos;
    return HEARTH_OK;
}

static int check_row(const struct hearth_batch *b, const struct hearth_kv *kv,
                     const struct hearth_batch_limits *limits, struct hearth_batch_row *row,
                     struct hearth_error *err)
{
    int rc = hearth_kv_check_seq(kv, row->seq, err);
    if (!rc)
        rc = hearth_batch_check_token(limits, row->token, err);
    if (!rc && row->phase != HEARTH_PHASE_PROMPT && row->phase != HEARTH_PHASE_STEP)
        rc = hearth_fail(err, HEARTH_E_INVALID, "there is no phase %d", (int)row->phase);
    return rc ? rc : place_row(b, kv, row, err);
}

// Notes the row's sequence and counts the sequence's rows: all in `counts`, those of each class in `next`.
static void count_row(struct hearth_batch *b, const struct hearth_batch_row *row)
{
    int *index = &b->index[row->seq];
    if (*index < 0) {
        *index = b->n_seqs++;
        b->seqs[*index] = row->seq;
        b->counts[*index] = b->next[2 * *index] = b->next[2 * *index + 1] = 0;
    }
    b->counts[*index]++;
    b->next[2 * *index + (int)row->phase]++;
}

static int check_count(int n, int most, const char *param, const char *what, struct hearth_error *err)
{
    if (n <= most)
        return HEARTH_OK;
    return hearth_fail_param(err, HEARTH_E_INVALID, param, "an evaluation takes at most %d %s, not %d", most,
                             what, n);
}

static int count_rows(struct hearth_batch *b, const struct hearth_kv *kv,
                      const struct hearth_batch_limits *limits, int n, struct hearth_error *err)
{
    int n_steps = 0, n_wanted = 0;
    for (int i = 0; i < n; i++) {
        const int rc = check_row(b, kv, limits, &b->from[i], err);
        if (rc)
            return hearth_fail_in(err, rc, "row %d, sequence %d", i, b->from[i].seq);
        count_row(b, &b->from[i]);
        n_steps += b->from[i].phase == HEARTH_PHASE_STEP;
        n_wanted += b->from[i].wants_logits;
    }
    int rc = check_count(n_steps, limits->max_steps, "max_steps", "rows of the step class (max_steps)", err);
    if (!rc)
        rc = check_count(n_wanted, limits->logit_rows, "max_steps", "rows that want logits", err);
    return rc;
}

// Turns the counts in `next` into places, class by class.
static void lay_out_classes(struct hearth_batch *b)
{
    int at = 0;
    b->n_classes = 0;
    for (int phase = 0; phase < 2; phase++) {
        const int first = at;
        for (int i = 0; i < b->n_seqs; i++) {
            const int count = b->next[2 * i + phase];
            b->next[2 * i + phase] = at;
            at += count;
        }
        if (at > first)
            b->classes[b->n_classes++] = (struct hearth_rows){first, at - first, (enum hearth_phase)phase};
    }
}

static void put_in_order(struct hearth_batch *b)
{
    for (int i = 0; i < b->n; i++) {
        const struct hearth_batch_row *row = &b->from[i];
        const int at = b->next[2 * b->index[row->seq] + (int)row->phase]++;
        b->order[i] = at;
        b->tokens[at] = row->token;
        b->rows[at] = (struct hearth_row){row->seq, row->pos};
        b->logits_at[i] = b->states_at[i] = -1;
    }
}

static void sort_by_position(struct hearth_batch *b)
{
    b->firsts[0] = 0;
    for (int i = 0; i < b->n_seqs; i++)
        b->firsts[i + 1] = b->firsts[i] + b->counts[i];
    for (int row = 0; row < b->n; row++) {
        const int seq = b->index[b->rows[row].seq];
        b->sorted[b->firsts[seq] + b->rows[row].pos - b->changes[seq].pos] = row;
    }
}

// Rows that want logits, class by class, each class in the caller's order.
static void list_wanted(struct hearth_batch *b)
{
    int at = 0;
    b->n_answer_classes = 0;
    for (int phase = 0; phase < 2; phase++) {
        const int first = at;
        for (int i = 0; i < b->n; i++)
            if (b->from[i].wants_logits && (int)b->from[i].phase == phase) {
                b->logits_at[i] = at;
                b->wanted[at++] = b->order[i];
            }
        if (at > first)
            b->answers[b->n_answer_classes++] =
                (struct hearth_rows){first, at - first, (enum hearth_phase)phase};
    }
    b->n_wanted = at;
}

// Rows that want their hidden state: those that want logits, too, have one already.
static void list_states(struct hearth_batch *b)
{
    for (int i = 0; i < b->n; i++) {
        if (!b->from[i].wants_embedding)
            continue;
        b->states_at[i] = b->logits_at[i] >= 0 ? b->logits_at[i] : b->n_wanted;
        if (b->states_at[i] == b->n_wanted)
            b->wanted[b->n_wanted++] = b->order[i];
    }
}

static void forget(struct hearth_batch *b)
{
    for (int i = 0; i < b->n_seqs; i++)
        b->index[b->seqs[i]] = -1;
    b->n = b->n_seqs = b->n_classes = 0;
}

// Sequences change from `pos` on; -1: from their ends.
static int reserve_states(struct hearth_batch *b, struct hearth_kv *kv, int pos, bool over,
                          struct hearth_error *err)
{
    for (int i = 0; i < b->n_seqs; i++)
        b->changes[i] = (struct hearth_state_change){.seq = b->seqs[i],
                                                     .pos = pos < 0 ? kv->seqs[b->seqs[i]].length : pos,
                                                     .n_prompt = b->next[2 * i],
                                                     .n_steps = b->next[2 * i + 1],
                                                     .over = over};
    return hearth_states_reserve(&kv->states, kv, b->changes, b->n_seqs, err);
}

static void give_back_pages(struct hearth_batch *b, struct hearth_kv *kv)
{
    for (int i = 0; i < b->n_seqs; i++)
        hearth_kv_seq_truncate(kv, b->seqs[i], kv->seqs[b->seqs[i]].length);
}

int hearth_batch_take_again(struct hearth_batch *b, struct hearth_kv *kv, int seq, int pos, int n, int kept,
                            struct hearth_error *err)
{
    b->n_answered = 0;
    for (int i = 0; i < n; i++) {
        b->from[i] = (struct hearth_batch_row){.seq = seq,
                                               .pos = pos + i,
                                               .token = hearth_kv_token(kv, seq, pos + i),
                                               .phase = hearth_kv_phase(kv, seq, pos + i)};
        count_row(b, &b->from[i]);
    }
    const int rc = reserve_states(b, kv, pos, kept >= 0, err);
    if (rc) {
        forget(b);
        return rc;
    }
    b->n = n;
    b->keeps = false;
    b->again = true;
    b->kept = kept;
    lay_out_classes(b);
    put_in_order(b);
    sort_by_position(b);
    list_wanted(b);
    return HEARTH_OK;
}

// A sequence with one step is not cut before another evaluation.
static bool keeps_steps(const struct hearth_batch *b, const struct hearth_kv *kv)
{
    bool several = false;
    for (int i = 0; i < b->n_seqs; i++)
        several = several || b->changes[i].n_steps > 1;
    return several && kv->states.keeps;
}

int hearth_batch_take(struct hearth_batch *b, struct hearth_kv *kv, const struct hearth_batch_limits *limits,
                      int n, struct hearth_error *err)
{
    assert(n > 0 && n <= limits->max_rows);
    b->n_answered = 0;
    int rc = count_rows(b, kv, limits, n, err);
    if (!rc)
        rc = hearth_kv_reserve(kv, b->seqs, b->counts, b->n_seqs, err);
    if (!rc && (rc = reserve_states(b, kv, -1, false, err)))
        give_back_pages(b, kv);
    if (rc) {
        forget(b);
        return rc;
    }
    b->n = n;
    b->keeps = keeps_steps(b, kv);
    b->again = false;
    b->kept = -1;
    hearth_states_forget(&kv->states);
    lay_out_classes(b);
    put_in_order(b);
    sort_by_position(b);
    list_wanted(b);
    list_states(b);
    return HEARTH_OK;
}

int hearth_batch_read(struct hearth_batch *b, const struct hearth_batch_limits *limits,
                      const struct hearth_batch_row *rows, int n, size_t row_size, struct hearth_error *err)
{
    b->n_answered = 0;
    if (n < 1)
        return hearth_fail(err, HEARTH_E_INVALID, "an evaluation takes at least one row, not %d rows", n);
    if (!rows)
        return hearth_fail(err, HEARTH_E_INVALID, "rows is NULL, and %d of them are to be evaluated", n);
    int rc = hearth_params_check_size(row_size, LEAST_ROW, sizeof *rows, "hearth_batch_row", err);
    if (!rc)
        rc = check_count(n, limits->max_rows, "n_ubatch", "rows (n_ubatch and max_steps together)", err);
    for (int i = 0; i < n && !rc; i++) {
        b->from[i] = (struct hearth_batch_row){0};
        memcpy(&b->from[i], (const char *)rows + (size_t)i * row_size, row_size);
    }
    return rc;
}

int hearth_batch_check_seqs(struct hearth_batch *b, const struct hearth_kv *kv, const int *seqs, int n,
                            struct hearth_error *err)
{
    int rc = HEARTH_OK, seen = 0;
    for (; seen < n; seen++) {
        rc = hearth_kv_check_seq(kv, seqs[seen], err);
        if (!rc && b->index[seqs[seen]] >= 0)
            rc = hearth_fail(err, HEARTH_E_INVALID, "it is in row %d already, and twice in one step",
                             b->index[seqs[seen]]);
        if (rc) {
            hearth_fail_in(err, rc, "row %d, sequence %d", seen, seqs[seen]);
            break;
        }
        b->index[seqs[seen]] = seen;
    }
    for (int i = 0; i < seen; i++)
        b->index[seqs[i]] = -1;
    return rc;
}

void hearth_batch_commit(struct hearth_batch *b, struct hearth_kv *kv)
{
    hearth_states_commit(&kv->states, b->changes, b->n_seqs);
    if (b->keeps)
        hearth_states_keep(&kv->states, b->changes, b->n_seqs);
    for (int i = 0; i < b->n && !b->again; i++)
        hearth_kv_seq_append(kv, b->from[i].seq, &b->from[i].token, 1, b->from[i].phase);
    b->n_answered = b->n;
    forget(b);
}

void hearth_batch_drop(struct hearth_batch *b, struct hearth_kv *kv)
{
    hearth_states_drop(&kv->states, b->changes, b->n_seqs);
    if (!b->again)
        give_back_pages(b, kv);
    forget(b);
}

// ---- opening

void hearth_batch_lay_out(struct hearth_batch *b, const struct hearth_batch_limits *limits,
                          struct hearth_arena *a)
{
    const size_t t = (size_t)limits->max_rows, s = (size_t)limits->max_seqs;
    b->tokens = hearth_arena_take(a, t, sizeof *b->tokens);
    b->rows = hearth_arena_take(a, t, sizeof *b->rows);
    b->from = hearth_arena_take(a, t, sizeof *b->from);
    b->order = hearth_arena_take(a, t, sizeof *b->order);
    b->sorted = hearth_arena_take(a, t, sizeof *b->sorted);
    b->firsts = hearth_arena_take(a, s + 1, sizeof *b->firsts);
    b->seqs = hearth_arena_take(a, s, sizeof *b->seqs);
    b->counts = hearth_arena_take(a, s, sizeof *b->counts);
    b->changes = hearth_arena_take(a, s, sizeof *b->changes);
    b->index = hearth_arena_take(a, s, sizeof *b->index);
    b->next = hearth_arena_take(a, 2 * s, sizeof *b->next);
    b->wanted = hearth_arena_take(a, t, sizeof *b->wanted);
    b->logits_at = hearth_arena_take(a, t, sizeof *b->logits_at);
    b->states_at = hearth_arena_take(a, t, sizeof *b->states_at);
}

void hearth_batch_init(struct hearth_batch *b, const struct hearth_batch_limits *limits)
{
    for (int i = 0; i < limits->max_seqs; i++)
        b->index[i] = -1;
}
