// SPDX-License-Identifier: MIT
// All weights in memory: the model's, or what all of a budget has room for. Feed-forward parts are where the
// weights point to, whoever pointed them there.
#include <stdlib.h>

#include "model/ffn.h"
#include "model/load.h"
#include "weights/source.h"

struct memory_state {
    struct hearth_source_setup setup;
    struct hearth_region image; // all weights, where they are not the model's
};

// Sessions that share the source ask at the same time: nothing is noted.
static void request(void *state, const struct hearth_request *r)
{
    const struct memory_state *m = state;
    const struct hearth_hparams *hp = &m->setup.model->hp;
    const struct hearth_ffn f = hearth_ffn_of(hp, &m->setup.weights->layers[r->layer]);
    for (uint32_t i = 0; i < r->n; i++) {
        struct hearth_want *w = &r->wants[i];
        const int expert = (int)w->space % hearth_ffn_experts(hp);
        w->from = w->at;
        w->count = w->n;
        w->gate = hearth_expert(f.gate, expert);
        w->up = hearth_expert(f.up, expert);
        w->down = hearth_expert(hearth_has(f.down_t) ? f.down_t : f.down, expert);
    }
}

// ---- opening

static int open_memory(void **state, const struct hearth_source_setup *setup, struct hearth_error *err)
{
    struct memory_state *m = *state = hearth_calloc(1, sizeof *m);
    if (!m)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a session");
    m->setup = *setup;
    return HEARTH_OK;
}

// Without a plan, everything is read.
static int fill(void *state, const struct hearth_budget_plan *plan, struct hearth_error *err)
{
    struct memory_state *m = state;
    return plan ? HEARTH_OK : hearth_image_load(m->setup.model, &m->image, m->setup.weights, err);
}

static void close_memory(void **state)
{
    struct memory_state *m = *state;
    if (m)
        hearth_region_close(&m->image);
    free(m);
    *state = NULL;
}

static uint64_t memory(const void *state)
{
    const struct memory_state *m = state;
    return m->image.size;
}

const struct hearth_source_ops hearth_memory_source = {.name = "memory",
                                                       .open = open_memory,
                                                       .fill = fill,
                                                       .close = close_memory,
                                                       .request = request,
                                                       .memory = memory};
