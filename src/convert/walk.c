// SPDX-License-Identifier: MIT
// Walks: see walk.h.
#include "convert/walk.h"

#include <stdlib.h>

#include "engine/by_layer.h"
#include "engine/kv.h"
#include "model/model.h"

#define DEFAULT_UBATCH 512

bool hearth_walk_row(const struct hearth_walk *w, struct hearth_row row, struct hearth_walk_place *place)
{
    *place = (struct hearth_walk_place){w->first + (size_t)row.seq, row.pos - (w->bos ? 1 : 0)};
    return row.pos > 0;
}

static int rows_of(const struct hearth_walk *w, size_t window)
{
    return w->windows[window].n + (w->bos ? 1 : 0);
}

static hearth_token token_of(const struct hearth_walk *w, size_t window, int row)
{
    if (w->bos && row == 0)
        return hearth_token_bos(w->model);
    return w->tokens[w->windows[window].first + (uint64_t)(row - (w->bos ? 1 : 0))];
}

// A micro-batch: n rows, whose streams lie one after the other from `at` on.
static int pass_rows(struct hearth_walk *w, int layer, int n, uint64_t at, bool keep,
                     struct hearth_error *err)
{
    int rc = layer ? hearth_row_store_read(&w->states, at, (uint64_t)n, w->x, err) : HEARTH_OK;
    if (!rc)
        rc = hearth_by_layer_pass(w->s, layer, w->rows, n, w->x, err);
    if (!rc && keep)
        rc = hearth_row_store_write(&w->states, at, (uint64_t)n, w->x, err);
    return rc;
}

// Windows that pass together: [first, end), at most w->group.
static int pass_group(struct hearth_walk *w, int layer, size_t first, size_t end, bool keep,
                      struct hearth_error *err)
{
    uint64_t at = w->at[first];
    int n = 0, rc = HEARTH_OK;
    w->first = first;
    hearth_by_layer_rewind(w->s);
    for (size_t i = first; i < end && !rc; i++)
        for (int row = 0; row < rows_of(w, i) && !rc; row++) {
            w->rows[n++] = (struct hearth_by_layer_row){(int)(i - first), token_of(w, i, row)};
            if (n < w->n_ubatch && (i + 1 < end || row + 1 < rows_of(w, i)))
                continue;
            rc = pass_rows(w, layer, n, at, keep, err);
            at += (uint64_t)n;
            n = 0;
        }
    return rc;
}

int hearth_walk_pass(struct hearth_walk *w, int layer, size_t first, size_t end, bool keep,
                     struct hearth_error *err)
{
    int rc = HEARTH_OK;
    for (size_t at = first; at < end && !rc; at += w->group) {
        const size_t to = end - at < w->group ? end : at + w->group;
        rc = pass_group(w, layer, at, to, keep, err);
        if (!rc && w->progress && !w->progress(w->progress_arg, layer, (float)to / (float)w->n_windows))
            rc = hearth_fail(err, HEARTH_E_INTERRUPTED, "stopped on request");
    }
    return rc;
}

int hearth_walk_enter(struct hearth_walk *w, int layer, struct hearth_error *err)
{
    return hearth_by_layer_enter(w->s, layer, err);
}

void hearth_walk_leave(struct hearth_walk *w, int layer)
{
    hearth_by_layer_leave(w->s, layer);
}

static int take_memory(struct hearth_walk *w, struct hearth_error *err)
{
    const size_t width = hearth_by_layer_width(&w->model->hp, w->n_ctx);
    uint64_t rows = 0;
    w->at = hearth_calloc(w->n_windows, sizeof *w->at);
    w->x = hearth_calloc((size_t)w->n_ubatch * width, sizeof *w->x);
    w->rows = hearth_calloc((size_t)w->n_ubatch, sizeof *w->rows);
    if (!w->at || !w->x || !w->rows)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the rows of a text");
    for (size_t i = 0; i < w->n_windows; i++) {
        w->at[i] = rows;
        rows += (uint64_t)rows_of(w, i);
    }
    return hearth_row_store_open(&w->states, width * sizeof(float), rows, w->state_bytes, w->beside, err);
}

// No more rows than the model knows positions, or was trained with, unless a window is longer.
static int limit_ubatch(const struct hearth_walk *w)
{
    const struct hearth_hparams *hp = &w->model->hp;
    const int most = hp->n_pos ? hp->n_pos : hp->n_ctx_train > w->n_ctx ? hp->n_ctx_train : w->n_ctx;
    return w->n_ubatch < most ? w->n_ubatch : most;
}

int hearth_walk_open(struct hearth_walk *w, struct hearth_error *err)
{
    w->bos = hearth_token_bos(w->model) >= 0;
    if (!w->n_ubatch)
        w->n_ubatch = DEFAULT_UBATCH;
    w->n_ubatch = limit_ubatch(w);
    w->group = (size_t)(w->n_ubatch > w->n_ctx ? w->n_ubatch / w->n_ctx : 1);
    w->group = w->group < w->n_windows ? w->group : w->n_windows;
    int rc = take_memory(w, err);
    if (rc)
        return rc;
    struct hearth_session_params sp = w->params;
    sp.n_ctx = w->n_ctx > w->n_ubatch ? w->n_ctx : w->n_ubatch; // a micro-batch is at most a context
    sp.max_seqs = (int)w->group;
    sp.kv_tokens = (int)hearth_round_up((size_t)w->n_ctx, HEARTH_KV_TILE) * (int)w->group;
    sp.max_steps = 0;
    sp.n_ubatch = w->n_ubatch;
    sp.n_threads = w->n_threads;
    rc = hearth_session_open(&w->s, w->model, &sp, err);
    return rc ? rc : hearth_by_layer_begin(w->s, (int)w->group, w->n_ctx, err);
}

void hearth_walk_close(struct hearth_walk *w)
{
    if (w->s)
        hearth_by_layer_end(w->s);
    hearth_session_close(&w->s);
    hearth_row_store_close(&w->states);
    free(w->at);
    free(w->x);
    free(w->rows);
    w->at = NULL;
    w->x = NULL;
    w->rows = NULL;
}
