// SPDX-License-Identifier: MIT
// A session's trace: clusters mark the neurons that they need, layer by layer, and the marks become sets.
#include "engine/tracing.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/sparse.h"
#include "sparse/trace.h"

struct hearth_tracing {
    struct hearth_trace_writer *writer;
    size_t n_experts, n_neurons; // of each space
    uint32_t *spaces;            // [layers] the trace's first space of each layer
    uint8_t *marks;              // [n_experts x n_neurons]
    uint32_t *ids;               // [n_neurons]
    int rc;                      // of the step so far
    struct hearth_error err;
};

uint8_t *hearth_tracing_marks(struct hearth_tracing *t, int expert)
{
    return t->marks + (size_t)expert * t->n_neurons;
}

void hearth_tracing_write(struct hearth_tracing *t, int layer, int expert)
{
    uint8_t *marks = hearth_tracing_marks(t, expert);
    uint32_t n = 0;
    for (size_t j = 0; j < t->n_neurons; j++) {
        t->ids[n] = (uint32_t)j;
        n += marks[j];
    }
    memset(marks, 0, t->n_neurons);
    if (!t->rc)
        t->rc = hearth_trace_set(t->writer, t->spaces[layer] + (uint32_t)expert, t->ids, n, &t->err);
}

int hearth_tracing_step(struct hearth_tracing *t, int n, struct hearth_error *err)
{
    t->rc = HEARTH_OK;
    return hearth_trace_step(t->writer, (uint32_t)n, err);
}

int hearth_tracing_end_step(struct hearth_tracing *t, struct hearth_error *err)
{
    if (t->rc && err)
        *err = t->err;
    return t->rc;
}

void hearth_tracing_close(struct hearth_tracing **tracing)
{
    struct hearth_tracing *t = *tracing;
    if (!t)
        return;
    hearth_trace_writer_close(&t->writer);
    free(t->spaces);
    free(t->marks);
    free(t->ids);
    free(t);
    *tracing = NULL;
}

static uint32_t bundle_bytes(const struct hearth_space *space)
{
    const struct hearth_weight *rows[] = {&space->gate, &space->up, &space->down_t};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        bytes += rows[i]->data ? rows[i]->stride : 0;
    return bytes > UINT32_MAX ? 0 : (uint32_t)bytes;
}

// The spaces of all layers that go by neuron. Returns how many.
static uint32_t list_spaces(const struct hearth_session *s, struct hearth_tracing *t,
                            struct hearth_trace_space *spaces)
{
    uint32_t n = 0;
    for (int layer = 0; layer < s->model->hp.n_layer; layer++) {
        t->spaces[layer] = n;
        for (size_t e = 0; hearth_sparse_layer(s, layer) && e < t->n_experts; e++) {
            const struct hearth_sparse_part part = hearth_sparse_part_of(s, layer, (int)e);
            spaces[n++] = (struct hearth_trace_space){(uint32_t)layer, (uint32_t)e, (uint32_t)t->n_neurons,
                                                      bundle_bytes(&part.space)};
        }
    }
    return n;
}

static int open_writer(const struct hearth_session *s, struct hearth_tracing *t,
                       struct hearth_trace_space *spaces, const char *path, struct hearth_error *err)
{
    const char *name = s->model->info.name;
    const struct hearth_trace_info info = {.name = strlen(name) <= HEARTH_TRACE_MAX_NAME ? name : "",
                                           .active = s->sparsity != HEARTH_SPARSITY_PREDICT,
                                           .n_spaces = list_spaces(s, t, spaces),
                                           .spaces = spaces};
    if (!info.n_spaces)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%s: no step of this model goes by neuron, so there is nothing to trace: use a "
                           "model of the ReLU family or one with predictors, or set a sparsity threshold",
                           s->model->info.path);
    return hearth_trace_writer_open(&t->writer, path, &info, err);
}

int hearth_session_trace(struct hearth_session *s, const char *path, struct hearth_error *err)
{
    const struct hearth_hparams *hp = &s->model->hp;
    if (s->tracing)
        return hearth_fail(err, HEARTH_E_INVALID, "the session is being traced already");
    struct hearth_tracing *t = hearth_calloc(1, sizeof *t);
    if (!t)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a trace");
    t->n_experts = (size_t)(hp->n_expert ? hp->n_expert : 1);
    t->n_neurons = (size_t)(hp->n_expert ? hp->n_ff_exp : hp->n_ff);
    t->spaces = hearth_calloc((size_t)hp->n_layer, sizeof *t->spaces);
    t->marks = hearth_calloc(t->n_experts, t->n_neurons);
    t->ids = hearth_calloc(t->n_neurons, sizeof *t->ids);
    struct hearth_trace_space *spaces = hearth_calloc((size_t)hp->n_layer * t->n_experts, sizeof *spaces);
    int rc = t->spaces && t->marks && t->ids && spaces
                 ? open_writer(s, t, spaces, path, err)
                 : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a trace");
    free(spaces);
    if (rc)
        hearth_tracing_close(&t);
    s->tracing = t;
    return rc;
}

int hearth_session_trace_end(struct hearth_session *s, struct hearth_error *err)
{
    if (!s->tracing)
        return HEARTH_OK;
    int rc = hearth_trace_writer_commit(&s->tracing->writer, err);
    hearth_tracing_close(&s->tracing);
    return rc;
}
