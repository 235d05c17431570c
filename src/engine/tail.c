// SPDX-License-Identifier: MIT
// See tail.h.
#include "engine/tail.h"

#include <stdlib.h>

#include "base/memory.h"

// S sequences of R positions: a position's state is row pos % R of its sequence's.
struct hearth_tail {
    int n_seqs, n_rows;
    float *states; // [S x R x E]
    int *pos;      // [S x R] whose state it is; -1: none
    int *seq;      // [S] whose positions; -1: nobody's
    uint64_t *at;  // [S] the evaluation that it had rows in last
    uint64_t now;
    int *of; // [max_seqs] which of these a sequence of the batch has
};

static int find(const struct hearth_tail *t, int seq)
{
    for (int i = 0; i < t->n_seqs; i++)
        if (t->seq[i] == seq)
            return i;
    return -1;
}

void hearth_tail_forget(struct hearth_session *s, int seq)
{
    const int i = s->tail && seq >= 0 ? find(s->tail, seq) : -1;
    if (i < 0)
        return;
    s->tail->seq[i] = -1;
    s->tail->at[i] = 0;
}

void hearth_tail_cut(struct hearth_session *s, int seq, int n)
{
    struct hearth_tail *t = s->tail;
    const int i = t ? find(t, seq) : -1;
    for (int k = 0; i >= 0 && k < t->n_rows; k++)
        if (t->pos[i * t->n_rows + k] >= n)
            t->pos[i * t->n_rows + k] = -1;
}

// A sequence's place, if need be that of the one which had no rows for longest.
static int take(struct hearth_tail *t, int seq)
{
    int i = find(t, seq);
    if (i < 0) {
        i = 0;
        for (int k = 1; k < t->n_seqs; k++)
            i = t->at[k] < t->at[i] ? k : i;
        t->seq[i] = seq;
        for (int k = 0; k < t->n_rows; k++)
            t->pos[i * t->n_rows + k] = -1;
    }
    t->at[i] = t->now;
    return i;
}

struct keep_job {
    struct hearth_session *s;
};

// The state of one row, if it is of the last ones of its sequence.
static void keep_task(void *arg, int task, int worker)
{
    (void)worker;
    struct hearth_session *s = ((struct keep_job *)arg)->s;
    const struct hearth_hparams *hp = &s->model->hp;
    const struct hearth_weights *w = s->context.weights;
    const struct hearth_batch *b = &s->batch;
    struct hearth_tail *t = s->tail;
    const struct hearth_row at = b->rows[task];
    const int i = b->index[at.seq];
    if (t->of[i] < 0 || at.pos < b->changes[i].pos + b->counts[i] - t->n_rows)
        return;
    const int row = t->of[i] * t->n_rows + at.pos % t->n_rows;
    float *state = hearth_row_of(t->states, row, hp->n_embd);
    const float *x = hearth_row_of(s->work.x, task, hp->n_embd);
    if (hp->layer_norm)
        s->context.kernels->layer_norm(state, x, hearth_vector_of(&w->output_norm),
                                       hearth_vector_of(&w->output_norm_b), (size_t)hp->n_embd, hp->norm_eps);
    else
        s->context.kernels->rms_norm(state, x, hearth_vector_of(&w->output_norm), (size_t)hp->n_embd,
                                     hp->norm_eps);
    t->pos[row] = at.pos;
}

void hearth_tail_add(struct hearth_session *s)
{
    struct hearth_tail *t = s->tail;
    struct keep_job j = {s};
    t->now++;
    for (int i = 0; i < s->batch.n_seqs; i++)
        t->of[i] = -1;
    for (int i = 0; i < s->batch.n_seqs && i < t->n_seqs; i++)
        t->of[i] = take(t, s->batch.seqs[i]);
    hearth_parallel(&s->context, keep_task, &j, s->batch.n);
}

const float *hearth_tail_state(const struct hearth_session *s, int seq, int pos)
{
    const struct hearth_tail *t = s->tail;
    const int i = t && pos >= 0 ? find(t, seq) : -1;
    if (i < 0 || t->pos[i * t->n_rows + pos % t->n_rows] != pos)
        return NULL;
    return hearth_row_of(t->states, i * t->n_rows + pos % t->n_rows, s->model->hp.n_embd);
}

// ---- opening

uint64_t hearth_tail_bytes(int n_embd, int n_seqs, int n_rows)
{
    return (uint64_t)n_seqs * (uint64_t)n_rows * ((uint64_t)n_embd * sizeof(float) + sizeof(int));
}

int hearth_tail_open(struct hearth_session *s, int n_seqs, int n_rows, struct hearth_error *err)
{
    if (s->model->hp.streams.n || s->offload)
        return hearth_fail(err, HEARTH_E_INVALID, "%s: states are not kept with %s", s->model->info.path,
                           s->offload ? "a device" : "several residual streams");
    struct hearth_tail *t = s->tail = hearth_calloc(1, sizeof *t);
    const size_t n = (size_t)n_seqs * (size_t)n_rows, e = (size_t)s->model->hp.n_embd;
    if (t) {
        t->n_seqs = n_seqs;
        t->n_rows = n_rows;
        t->states = n <= SIZE_MAX / sizeof(float) / e ? hearth_calloc(n * e, sizeof *t->states) : NULL;
        t->pos = hearth_calloc(n, sizeof *t->pos);
        t->seq = hearth_calloc((size_t)n_seqs, sizeof *t->seq);
        t->at = hearth_calloc((size_t)n_seqs, sizeof *t->at);
        t->of = hearth_calloc((size_t)s->limits.max_seqs, sizeof *t->of);
    }
    if (!t || !t->states || !t->pos || !t->seq || !t->at || !t->of) {
        hearth_tail_close(s);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the states of %d x %d positions", n_seqs,
                           n_rows);
    }
    for (int i = 0; i < n_seqs; i++)
        t->seq[i] = -1;
    return HEARTH_OK;
}

void hearth_tail_close(struct hearth_session *s)
{
    struct hearth_tail *t = s->tail;
    if (!t)
        return;
    free(t->states);
    free(t->pos);
    free(t->seq);
    free(t->at);
    free(t->of);
    free(t);
    s->tail = NULL;
}
