// SPDX-License-Identifier: MIT
// A session's trace: clusters mark the neurons that they need, layer by layer, and the marks become sets.
#include "engine/tracing.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/ffn.h"
#include "model/pack.h"
#include "sparse/space.h"
#include "sparse/trace.h"

struct hearth_tracing {
    struct hearth_trace_writer *writer;
    struct hearth_probes *probes;
    size_t n_experts, n_neurons; // of the largest space
    const struct hearth_hparams *hp;
    uint32_t *spaces; // [layers] the trace's first space of each layer
    uint8_t *marks;   // [n_experts x n_neurons]
    uint32_t *ids;    // [n_neurons]
    int rc;           // of the step so far
    struct hearth_error err;
};

static void on_marks(void *arg, int layer, int expert, uint8_t *marks)
{
    struct hearth_tracing *t = arg;
    uint32_t n = 0;
    const size_t neurons = (size_t)hearth_ffn_neurons_of(t->hp, layer);
    for (size_t j = 0; j < neurons; j++) {
        t->ids[n] = (uint32_t)j;
        n += marks[j];
    }
    memset(marks, 0, neurons);
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

void hearth_tracing_drop_step(struct hearth_tracing *t)
{
    memset(t->marks, 0, t->n_experts * t->n_neurons); // the layer it failed in may have left some
    hearth_trace_drop_step(t->writer);
}

// ---- opening

static uint32_t bundle_bytes(const struct hearth_space *space)
{
    const struct hearth_weight *rows[] = {&space->gate, &space->up, &space->down_t};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        bytes += hearth_has(rows[i]) ? rows[i]->stride : 0;
    return bytes > UINT32_MAX ? 0 : (uint32_t)bytes;
}

// The spaces of all layers that go by neuron. Returns how many.
static uint32_t list_spaces(const struct hearth_model *m, const struct hearth_sparse_mode *mode,
                            struct hearth_tracing *t, struct hearth_trace_space *spaces)
{
    uint32_t n = 0;
    for (int layer = 0; layer < m->hp.n_layer; layer++) {
        const struct hearth_layer *l = &m->weights.layers[layer];
        t->spaces[layer] = n;
        for (size_t e = 0; hearth_sparse_mode_layer(mode, &m->hp, l) && e < t->n_experts; e++) {
            const struct hearth_space space = hearth_space_of(&m->hp, l, (int)e);
            spaces[n++] = (struct hearth_trace_space){(uint32_t)layer, (uint32_t)e, (uint32_t)space.n,
                                                      bundle_bytes(&space)};
        }
    }
    return n;
}

static int open_writer(struct hearth_tracing *t, const struct hearth_model *m,
                       const struct hearth_sparse_mode *mode, struct hearth_trace_space *spaces,
                       const char *path, struct hearth_error *err)
{
    const char *name = m->info.name;
    const struct hearth_trace_info info = {.name = strlen(name) <= HEARTH_TRACE_MAX_NAME ? name : "",
                                           .active = mode->sparsity != HEARTH_SPARSITY_PREDICT &&
                                                     !(m->pack && m->pack->gates_apart),
                                           .n_spaces = list_spaces(m, mode, t, spaces),
                                           .spaces = spaces};
    if (!info.n_spaces)
        return hearth_fail(err, HEARTH_E_INVALID,
                           "%s: no step of this model goes by neuron, so there is nothing to trace: use a "
                           "model of the ReLU family or one with predictors, or set a sparsity threshold",
                           m->info.path);
    return hearth_trace_writer_open(&t->writer, path, &info, err);
}

int hearth_tracing_open(struct hearth_tracing **out, const struct hearth_model *m,
                        const struct hearth_sparse_mode *mode, struct hearth_probes *probes, const char *path,
                        struct hearth_error *err)
{
    *out = NULL;
    struct hearth_tracing *t = hearth_calloc(1, sizeof *t);
    if (!t)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a trace");
    t->hp = &m->hp;
    t->n_experts = (size_t)hearth_ffn_experts(&m->hp);
    t->n_neurons = (size_t)hearth_ffn_neurons(&m->hp);
    t->spaces = hearth_calloc((size_t)m->hp.n_layer, sizeof *t->spaces);
    t->marks = hearth_calloc(t->n_experts, t->n_neurons);
    t->ids = hearth_calloc(t->n_neurons, sizeof *t->ids);
    struct hearth_trace_space *spaces = hearth_calloc((size_t)m->hp.n_layer * t->n_experts, sizeof *spaces);
    int rc = t->spaces && t->marks && t->ids && spaces
                 ? open_writer(t, m, mode, spaces, path, err)
                 : hearth_fail(err, HEARTH_E_MEMORY, "no memory for a trace");
    free(spaces);
    if (rc) {
        hearth_tracing_close(&t);
        return rc;
    }
    t->probes = probes;
    probes->marks = t->marks;
    probes->on_marks = on_marks;
    probes->on_marks_arg = t;
    *out = t;
    return HEARTH_OK;
}

int hearth_tracing_commit(struct hearth_tracing *t, struct hearth_error *err)
{
    return hearth_trace_writer_commit(&t->writer, err);
}

void hearth_tracing_close(struct hearth_tracing **tracing)
{
    struct hearth_tracing *t = *tracing;
    if (!t)
        return;
    if (t->probes) {
        t->probes->marks = NULL;
        t->probes->on_marks = NULL;
    }
    hearth_trace_writer_close(&t->writer);
    free(t->spaces);
    free(t->marks);
    free(t->ids);
    free(t);
    *tracing = NULL;
}
