// SPDX-License-Identifier: MIT
// Layer by layer: see by_layer.h. One turn with the weights, as of one evaluation that takes very long.
#include "engine/by_layer.h"

#include <string.h>

#include "engine/session.h"

// The rows, at their places in the batch, which are those that they came in: all are prompts' and those of a
// sequence lie side by side.
static int take_batch(struct hearth_session *s, const struct hearth_by_layer_row *rows, int n,
                      struct hearth_error *err)
{
    for (int i = 0; i < n; i++)
        s->batch.from[i] = (struct hearth_batch_row){
            .seq = rows[i].seq, .pos = -1, .token = rows[i].token, .phase = HEARTH_PHASE_PROMPT};
    return hearth_batch_take(&s->batch, &s->kv, &s->limits, n, err);
}

size_t hearth_by_layer_width(const struct hearth_hparams *hp, int length)
{
    const size_t stream = (size_t)hearth_stream_width(hp);
    return hp->chooser.shared && length > hp->chooser.most * hp->chooser.block
               ? stream + hearth_choose_kept(hp)
               : stream;
}

// What is known of the first n rows of the batch comes from x, or goes there.
static void move_rows(struct hearth_session *s, float *x, int n, bool out)
{
    const size_t width = s->by_layer_width, stream = (size_t)hearth_stream_width(&s->model->hp);
    for (int i = 0; i < n; i++) {
        float *own = s->work.x + (size_t)i * stream, *kept = x + (size_t)i * width;
        memcpy(out ? kept : own, out ? own : kept, stream * sizeof *x);
        if (width > stream)
            hearth_choose_move(&s->work.choose, i, (int *)(void *)(kept + stream), out);
    }
}

int hearth_by_layer_pass(struct hearth_session *s, int layer, const struct hearth_by_layer_row *rows, int n,
                         float *x, struct hearth_error *err)
{
    assert(n > 0 && n <= s->n_ubatch);
    int rc = take_batch(s, rows, n, err);
    if (rc)
        return rc;
    // What tokens give the layers is not kept between them.
    if (layer == 0 || s->model->hp.n_embd_layer)
        hearth_forward_embed(s);
    if (layer)
        move_rows(s, x, n, false);
    hearth_forward_place(s);
    s->context.looks_after = true;
    hearth_forward_layer(s, layer);
    s->context.looks_after = false;
    hearth_fault_look(&s->fault);
    rc = hearth_fault_take(&s->fault, err);
    if (rc) {
        hearth_batch_drop(&s->batch, &s->kv);
        return rc;
    }
    move_rows(s, x, n, true);
    hearth_batch_commit(&s->batch, &s->kv);
    return HEARTH_OK;
}

void hearth_by_layer_rewind(struct hearth_session *s)
{
    for (int i = 0; i < s->kv.max_seqs; i++)
        if (s->kv.seqs[i].used)
            hearth_kv_seq_rewind(&s->kv, i);
}

int hearth_by_layer_enter(struct hearth_session *s, int layer, struct hearth_error *err)
{
    hearth_by_layer_rewind(s);
    if (!hearth_fault_look(&s->fault))
        hearth_sources_acquire(s->sources, layer);
    return hearth_fault_take(&s->fault, err);
}

void hearth_by_layer_leave(struct hearth_session *s, int layer)
{
    hearth_sources_release(s->sources, layer);
}

// All pages before the turn: while it lasts, nothing grows.
static int reserve(struct hearth_session *s, int n, int length, struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (int i = 0; i < n && rc >= 0; i++) {
        rc = hearth_kv_seq_new(&s->kv, err);
        assert(rc < 0 || rc == i);
        if (rc >= 0)
            rc = hearth_kv_reserve(&s->kv, &i, &length, 1, err);
    }
    return rc < 0 ? rc : HEARTH_OK;
}

int hearth_by_layer_begin(struct hearth_session *s, int n, int length, struct hearth_error *err)
{
    int rc = reserve(s, n, length, err);
    if (rc)
        return rc;
    // One row of a prompt, so that memory for prompts is there.
    s->batch.n_classes = 1;
    s->batch.n = 1;
    s->batch.classes[0] = (struct hearth_rows){0, 1, HEARTH_PHASE_PROMPT};
    rc = hearth_turn_begin(s, err);
    s->batch.n = s->batch.n_classes = 0;
    s->by_layer = !rc;
    s->by_layer_width = hearth_by_layer_width(&s->model->hp, length);
    return rc;
}

void hearth_by_layer_end(struct hearth_session *s)
{
    if (s->by_layer)
        hearth_turn_end(s);
    s->by_layer = false;
    for (int i = 0; i < s->kv.max_seqs; i++)
        if (s->kv.seqs[i].used)
            hearth_kv_seq_free(&s->kv, i);
}
