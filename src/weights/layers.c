// SPDX-License-Identifier: MIT
// Stages: the dense weights of a layer, or some rows of the head, which every token reads whole. Some are
// resident; the others are read from the file into two buffers in turn, one stage ahead of its use. What is
// small (norms, biases) or of which a token needs little (tables) is here, too.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "model/load.h"
#include "model/nextn.h"
#include "weights/ahead.h"
#include "weights/source.h"

struct stage {
    struct hearth_extent *extents; // [n_extents] parts of the file that hold the stage
    size_t *extent_at;             // [n_extents] where each goes in memory
    size_t n_extents;
    size_t bytes; // of memory
    // Where each weight of the layer begins in memory; SIZE_MAX: it is not of the stage. A head's is at[0].
    size_t at[HEARTH_LAYER_WEIGHTS];
    size_t first_row, n_rows; // of the head
    bool resident;
    uint8_t *base; // of a stage that is resident, or has a place in memory that is lent; else NULL
    bool here;     // its bytes are in that place
};

struct layers_state {
    struct hearth_source_setup setup;
    int n, n_layer;    // layers, then the chunks of the head
    bool *skips;       // [n_layer] layers that devices compute
    bool skips_head;   // and the head
    bool head_streams; // its chunks are no larger than the largest layer; else it is one, and in memory
    struct stage *stages;
    // [n] layers as they become resident while the budget grows, so that those that stream are spread; then the
    // head's chunks.
    int *order;
    int n_elsewhere;              // the last ones of the layers are a device's, and never get places
    bool has_elsewhere;           // these, or the head, are
    uint64_t *dense;              // [n_layer] bytes, in this order
    struct hearth_region fixed;   // norms, biases, and all stages that are resident
    struct hearth_region buffers; // of the stages that are not
    size_t buffer_bytes;          // of one
    struct hearth_region more; // places that are lent, one behind the other: of those in `order` behind the
    int n_fixed;               // n_fixed resident layers
    int n_lent, most_lent;     // the first n_lent; of so many at most
    uint64_t lendable;
    struct hearth_ahead ahead;
    float loaded;                     // share of the stages that were loaded
    struct hearth_extent *extents[2]; // [max_extents] with the addresses of this time
    size_t max_extents;
    const struct hearth_item *embedding; // of which rows are read from the file; NULL: in memory
    bool embedding_by_row;               // so it is
};

// ---- hot path

// Points the weights of a stage into memory at `base`: the layer's, or the head, which then has the stage's
// rows only.
static void point(const struct layers_state *r, int i, uint8_t *base)
{
    const struct stage *stage = &r->stages[i];
    struct hearth_weights *weights = r->setup.weights;
    if (i >= r->n_layer) {
        weights->output.data = base + stage->at[0];
        weights->output.n = stage->n_rows;
        return;
    }
    struct hearth_weight *of_layer = hearth_layer_weights(&weights->layers[i]);
    for (size_t k = 0; k < HEARTH_LAYER_WEIGHTS; k++)
        if (stage->at[k] != SIZE_MAX)
            of_layer[k].data = base + stage->at[k];
}

// Whether a device computes the stage.
static bool is_skipped(const struct layers_state *r, int i)
{
    return i < r->n_layer ? r->skips[i] : r->skips_head;
}

// The stage that streams next after i, going round; i itself when it is the only one.
static int next_streamed(const struct layers_state *r, int i)
{
    for (int k = 1; k < r->n; k++) {
        const int next = (i + k) % r->n;
        if (!r->stages[next].here && !is_skipped(r, next))
            return next;
    }
    return i;
}

static void skip(void *state, const bool *layers, bool head)
{
    struct layers_state *r = state;
    for (int i = 0; i < r->n_layer; i++)
        r->skips[i] = layers && layers[i];
    r->skips_head = head;
}

// A stage with memory of its own is read as others are, but to there.
static void list_extents(void *arg, uint64_t key, int buffer, struct hearth_reader_job *job)
{
    const struct layers_state *r = arg;
    const struct stage *stage = &r->stages[key];
    assert(stage->base || stage->bytes <= r->buffer_bytes);
    uint8_t *base = stage->base ? stage->base : (uint8_t *)r->buffers.base + (size_t)buffer * r->buffer_bytes;
    for (size_t k = 0; k < stage->n_extents; k++) {
        r->extents[buffer][k] = stage->extents[k];
        r->extents[buffer][k].dst = base + stage->extent_at[k];
    }
    job->extents = r->extents[buffer];
    job->n = stage->n_extents;
}

static bool is_to_stop(void *arg)
{
    const struct layers_state *r = arg;
    return hearth_source_is_to_stop(&r->setup, r->loaded);
}

static int acquire(void *state, int i, struct hearth_error *err)
{
    struct layers_state *r = state;
    struct stage *stage = &r->stages[i];
    if (stage->here) {
        if (i >= r->n_layer)
            point(r, i, stage->base);
        return HEARTH_OK;
    }
    int buffer;
    const int rc = hearth_ahead_get(&r->ahead, (uint64_t)i, (uint64_t)next_streamed(r, i), &buffer, err);
    if (!rc)
        point(r, i,
              stage->base ? stage->base : (uint8_t *)r->buffers.base + (size_t)buffer * r->buffer_bytes);
    stage->here = !rc && stage->base;
    return rc;
}

static void release(void *state, int i)
{
    struct layers_state *r = state;
    hearth_ahead_release(&r->ahead, (uint64_t)i);
}

static bool has_stage(const void *state, int i)
{
    const struct layers_state *r = state;
    return r->stages[i].here;
}

static bool embeds(const void *state)
{
    const struct layers_state *r = state;
    return r->embedding_by_row;
}

static void embed(const void *state, const struct hearth_weight *w, int token, uint8_t *scratch, float *out)
{
    const struct layers_state *r = state;
    const struct hearth_model *m = r->setup.model;
    struct hearth_error err = {0};
    if (hearth_gguf_read(m->gguf, hearth_item_of(m, w)->tensor, scratch, (uint64_t)token * w->stride,
                         w->stride, &err))
        hearth_fault_raise(r->setup.now->fault, &err);
    else
        hearth_type_info(w->type)->decode(scratch, out, w->k);
}

// ---- lending

// Memory of the first n places.
static uint64_t bytes_of_places(const struct layers_state *r, int n)
{
    size_t bytes = 0;
    for (int k = 0; k < n; k++)
        bytes += r->stages[r->order[r->n_fixed + k]].bytes;
    return hearth_region_bytes_of(&r->more, bytes);
}

static int places_within(const struct layers_state *r, uint64_t bytes)
{
    int n = 0;
    while (n < r->most_lent && bytes_of_places(r, n + 1) <= bytes)
        n++;
    return n;
}

static uint64_t takes(const void *state, uint64_t bytes)
{
    const struct layers_state *r = state;
    return bytes_of_places(r, places_within(r, bytes));
}

// A stage with a place is read there when it is needed, and stays.
static void lend(void *state, uint64_t bytes, bool prompts)
{
    (void)prompts;
    struct layers_state *r = state;
    const int n = places_within(r, bytes);
    const uint64_t before = bytes_of_places(r, r->n_lent), now = bytes_of_places(r, n);
    if (n == r->n_lent)
        return;
    hearth_ahead_finish(&r->ahead); // what is on its way goes elsewhere now
    uint8_t *at = r->more.base;
    for (int k = 0; k < r->most_lent; k++) {
        struct stage *stage = &r->stages[r->order[r->n_fixed + k]];
        stage->base = k < n ? at : NULL;
        stage->here &= k < n;
        at += stage->bytes;
    }
    if (now < before)
        hearth_os_discard((uint8_t *)r->more.base + now, (size_t)(before - now));
    r->n_lent = n;
}

// Where layers that stream would go, and then the head's chunks.
static int open_places(struct layers_state *r, const struct hearth_budget_plan *plan,
                       struct hearth_error *err)
{
    const int end = r->has_elsewhere ? r->n_layer - r->n_elsewhere : plan->head_in_memory ? r->n_layer : r->n;
    size_t bytes = 0;
    r->n_fixed = (int)plan->dense_layers;
    while (r->n_fixed + r->most_lent < end) {
        const size_t more = r->stages[r->order[r->n_fixed + r->most_lent]].bytes;
        if (bytes + more > r->lendable)
            break;
        bytes += more;
        r->most_lent++;
    }
    return hearth_region_open(&r->more, bytes, "weights that stay for a while", err);
}

// ---- opening

// A part of the file that a stage needs, and the image place its first byte stands for.
struct file_part {
    const struct hearth_item *item;
    uint64_t offset, bytes;
};

static int by_place(const void *a, const void *b)
{
    const struct file_part *x = a, *y = b;
    const uint32_t fx = x->item->tensor->shard, fy = y->item->tensor->shard;
    if (fx != fy)
        return fx < fy ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// The items of the stage, in the order of the file. Vectors are always in memory, elsewhere.
static size_t list_parts(const struct hearth_model *m, int layer, bool whole, struct file_part *out)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_items; i++) {
        const struct hearth_item *item = &m->items[i];
        if (item->layer == layer && !item->vector && (whole || !(item->bundle || item->of_experts)))
            out[n++] = (struct file_part){item, item->tensor->offset, item->tensor->bytes};
    }
    qsort(out, n, sizeof *out, by_place);
    return n;
}

static bool holds(const struct hearth_extent *e, const struct hearth_item *item)
{
    const uint64_t at = item->tensor->offset;
    return e->file == item->tensor->shard && at >= e->offset && at < e->offset + e->length;
}

// Where the bytes of an item are in the stage's memory. Every item of a stage lies in one of its extents.
static size_t place_of(const struct stage *stage, const struct hearth_item *item)
{
    size_t i = 0;
    while (!holds(&stage->extents[i], item)) {
        i++;
        assert(i < stage->n_extents);
    }
    return stage->extent_at[i] + (size_t)(item->tensor->offset - stage->extents[i].offset);
}

static int lay_out_extents(struct stage *stage, const struct file_part *parts, size_t n, uint32_t align,
                           struct hearth_error *err)
{
    stage->extents = hearth_calloc(n, sizeof *stage->extents);
    stage->extent_at = hearth_calloc(n, sizeof *stage->extent_at);
    if (!stage->extents || !stage->extent_at)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of layers");
    const uint64_t page = align > HEARTH_IMAGE_PAGE ? align : HEARTH_IMAGE_PAGE;
    for (size_t i = 0; i < n; i++) {
        struct hearth_extent *last = stage->n_extents ? &stage->extents[stage->n_extents - 1] : NULL;
        const uint64_t end = parts[i].offset + parts[i].bytes;
        if (!last || last->file != parts[i].item->tensor->shard ||
            parts[i].offset > last->offset + last->length + HEARTH_READER_GAP) {
            last = &stage->extents[stage->n_extents++];
            *last =
                hearth_extent_of(parts[i].item->tensor->shard, parts[i].offset, parts[i].bytes, page, NULL);
        }
        if (end - last->offset > last->need)
            hearth_extent_reach(last, end, page);
    }
    for (size_t i = 0; i < stage->n_extents; i++) {
        stage->extent_at[i] = stage->bytes;
        stage->bytes += stage->extents[i].length;
    }
    return HEARTH_OK;
}

// Where the weight, which is a part of an item, begins in the stage's memory; SIZE_MAX: it is of none.
static size_t find_weight(const struct stage *stage, const struct hearth_model *m,
                          const struct file_part *parts, size_t n, const struct hearth_weight *w)
{
    const struct hearth_item *item = hearth_item_of(m, w);
    size_t i = 0;
    while (i < n && parts[i].item != item)
        i++;
    if (!hearth_has(w) || i == n)
        return SIZE_MAX;
    if (!item->bundle)
        return place_of(stage, item) + w->at;
    int part = 0;
    while (part < HEARTH_PARTS && (!item->bundle->bytes[part] || item->parts[part] != w->at))
        part++;
    return place_of(stage, item) + item->bundle->at[part];
}

static int lay_out_layer(struct layers_state *r, const struct hearth_model *m, int i, bool whole,
                         uint32_t align, struct file_part *parts, struct hearth_error *err)
{
    struct stage *stage = &r->stages[i];
    const size_t n = list_parts(m, i, whole, parts);
    int rc = lay_out_extents(stage, parts, n, align, err);
    if (rc)
        return rc;
    const struct hearth_weight *of_layer = hearth_layer_weights(&m->weights.layers[i]);
    for (size_t k = 0; k < HEARTH_LAYER_WEIGHTS; k++)
        stage->at[k] = find_weight(stage, m, parts, n, &of_layer[k]);
    r->max_extents = stage->n_extents > r->max_extents ? stage->n_extents : r->max_extents;
    return HEARTH_OK;
}

static int lay_out_head(struct stage *stage, const struct hearth_model *m, size_t first, size_t n_rows,
                        uint32_t align, struct hearth_error *err)
{
    const struct hearth_weight *w = &m->weights.output;
    const struct hearth_item *item = hearth_item_of(m, w);
    const struct file_part part = {item, item->tensor->offset + first * w->stride, n_rows * w->stride};
    stage->first_row = first;
    stage->n_rows = n_rows;
    int rc = lay_out_extents(stage, &part, 1, align, err);
    if (!rc)
        stage->at[0] = (size_t)(part.offset - stage->extents[0].offset);
    return rc;
}

// Numbers 0..n-1 by their mirrored bits: any first few of them lie evenly in the whole.
static void spread(int *order, int n)
{
    int bits = 0, count = 0;
    while (1 << bits < n)
        bits++;
    for (int i = 0; i < 1 << bits; i++) {
        int mirrored = 0;
        for (int b = 0; b < bits; b++)
            mirrored |= (i >> b & 1) << (bits - 1 - b);
        if (mirrored < n)
            order[count++] = mirrored;
    }
}

// Those of a device come last.
static void fill_order(struct layers_state *r)
{
    const int here = r->n_layer - r->n_elsewhere;
    spread(r->order, here);
    for (int i = here; i < r->n; i++)
        r->order[i] = i;
}

static int open_order(struct layers_state *r, struct hearth_error *err)
{
    r->order = hearth_calloc((size_t)r->n, sizeof *r->order);
    if (!r->order)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of layers");
    fill_order(r);
    return HEARTH_OK;
}

// A head of more chunks than this is not streamed: layers are tiny beside it.
#define HEAD_CHUNKS 1024

// Rows of the head in a chunk that fits where a layer does; 0: not even one.
static size_t rows_of_chunk(const struct layers_state *r, const struct hearth_model *m, uint32_t align)
{
    const struct hearth_weight *w = &m->weights.output;
    const size_t edges = 2 * (align > HEARTH_IMAGE_PAGE ? align : HEARTH_IMAGE_PAGE);
    size_t room = 0;
    for (int i = 0; i < r->n_layer; i++)
        room = r->stages[i].bytes > room ? r->stages[i].bytes : room;
    const size_t rows = room > edges ? (room - edges) / w->stride : 0;
    return rows < w->n ? rows : w->n;
}

static int open_head(struct layers_state *r, const struct hearth_model *m, uint32_t align,
                     struct hearth_error *err)
{
    const size_t n = m->weights.output.n;
    size_t rows = rows_of_chunk(r, m, align);
    r->head_streams = rows && (n + rows - 1) / rows <= HEAD_CHUNKS;
    rows = r->head_streams ? rows : n;
    const size_t chunks = (n + rows - 1) / rows;
    struct stage *more = hearth_reallocarray(r->stages, (size_t)r->n_layer + chunks, sizeof *more);
    if (!more)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of layers");
    r->stages = more;
    memset(r->stages + r->n_layer, 0, chunks * sizeof *more);
    int rc = HEARTH_OK;
    for (size_t first = 0; first < n && !rc; first += rows) {
        struct stage *stage = &r->stages[r->n++];
        rc = lay_out_head(stage, m, first, n - first < rows ? n - first : rows, align, err);
    }
    return rc;
}

static int open_layers(void **state, const struct hearth_source_setup *setup, struct hearth_error *err)
{
    const struct hearth_model *m = setup->model;
    const uint32_t align = hearth_reader_align(setup->reader);
    struct layers_state *r = *state = hearth_calloc(1, sizeof *r);
    if (!r)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of layers");
    *r = (struct layers_state){
        .setup = *setup, .n = m->hp.n_layer, .n_layer = m->hp.n_layer, .max_extents = 1};
    hearth_ahead_begin(&r->ahead, setup->reader, list_extents, is_to_stop, r);
    r->embedding = hearth_item_of(m, &m->weights.token_embd);
    r->stages = hearth_calloc((size_t)r->n, sizeof *r->stages);
    r->skips = hearth_calloc((size_t)r->n, sizeof *r->skips);
    r->dense = hearth_calloc((size_t)r->n, sizeof *r->dense);
    struct file_part *parts = hearth_calloc(m->n_items, sizeof *parts);
    int rc = r->stages && r->skips && r->dense && parts
                 ? HEARTH_OK
                 : hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of layers");
    for (int i = 0; i < r->n_layer && !rc; i++)
        rc = lay_out_layer(r, m, i, setup->whole, align, parts, err);
    free(parts);
    if (!rc)
        rc = open_head(r, m, align, err);
    for (int k = 0; k < 2 && !rc; k++) {
        r->extents[k] = hearth_calloc(r->max_extents, sizeof *r->extents[k]);
        if (!r->extents[k])
            rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of layers");
    }
    if (!rc)
        rc = open_order(r, err);
    return rc;
}

// ---- planning

static bool is_item_of(const struct hearth_model *m, const struct hearth_item *item,
                       const struct hearth_weight *w)
{
    return hearth_has(w) && item == hearth_item_of(m, w);
}

// Whether the item is in memory whatever the budget: norms, biases, tables of positions, the projection of what
// tokens give layers, what makes streams and mixes them before the head. The table of what tokens give is not, nor is that of n-grams.
static bool is_fixed(const struct hearth_model *m, const struct hearth_item *item)
{
    return item->vector || is_item_of(m, item, &m->weights.position_embd) ||
           is_item_of(m, item, &m->weights.token_layers_in) ||
           is_item_of(m, item, &m->weights.output_mix_down) ||
           is_item_of(m, item, &m->weights.output_mix_up) || is_item_of(m, item, &m->weights.output_mix) ||
           is_item_of(m, item, &m->weights.streams_in) || is_item_of(m, item, &m->weights.streams_out);
}

static bool is_tied(const struct hearth_model *m)
{
    return m->weights.output.item == m->weights.token_embd.item;
}

static uint64_t fixed_bytes(const struct hearth_model *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n_items; i++)
        if (is_fixed(m, &m->items[i]))
            bytes += hearth_round_up(m->items[i].bytes, 64) + 64;
    return bytes;
}

static uint64_t head_bytes(const struct layers_state *r)
{
    uint64_t bytes = 0;
    for (int i = r->n_layer; i < r->n; i++)
        bytes += r->stages[i].bytes;
    return bytes;
}

static int need(void *state, struct hearth_source_need *n, struct hearth_error *err)
{
    (void)err;
    struct layers_state *r = state;
    const struct hearth_model *m = r->setup.model;
    r->n_elsewhere = (int)n->params.n_elsewhere;
    r->has_elsewhere = r->n_elsewhere || n->params.head_elsewhere;
    fill_order(r);
    for (int i = 0; i < r->n_layer; i++)
        r->dense[i] = r->stages[r->order[i]].bytes;
    n->order = r->order;
    n->params.norms += fixed_bytes(m);
    n->params.embedding = is_tied(m) ? 0 : r->embedding->bytes;
    n->params.head = head_bytes(r);
    n->params.embedding_by_row = true;
    n->params.head_by_part = r->head_streams;
    n->params.head_part = r->stages[r->n_layer].bytes;
    n->params.head_first = hearth_nextn_is_in(m); // which makes guesses with it
    r->lendable = n->params.lendable;
    n->params.n_layers = (uint32_t)r->n_layer;
    n->params.dense = r->dense;
    return HEARTH_OK;
}

// ---- filling

// Points those of n weights that the item holds to where it is.
static void point_weights(const struct hearth_model *m, struct hearth_weight *w, size_t n,
                          const struct hearth_target *target)
{
    for (size_t k = 0; k < n; k++)
        if (hearth_has(&w[k]) && hearth_item_of(m, &w[k]) == target->item)
            w[k].data = target->to + w[k].at;
}

static void point_item(const struct hearth_model *m, struct hearth_weights *w,
                       const struct hearth_target *target)
{
    const int layer = target->item->layer;
    if (layer < 0)
        point_weights(m, hearth_global_weights(w), HEARTH_GLOBAL_WEIGHTS, target);
    else
        point_weights(m, hearth_layer_weights(&w->layers[layer]), HEARTH_LAYER_WEIGHTS, target);
}

static uint8_t *take(struct hearth_region *region, size_t *used, size_t bytes, size_t align)
{
    *used = hearth_round_up(*used, align);
    uint8_t *p = (uint8_t *)region->base + *used;
    *used += bytes;
    return p;
}

// Which stages stay in memory. Returns their bytes.
static size_t choose_resident(struct layers_state *r, const struct hearth_budget_plan *plan)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < plan->dense_layers; i++)
        r->stages[r->order[i]].resident = true;
    for (int i = r->n_layer; i < r->n; i++)
        r->stages[i].resident = plan->head_in_memory;
    for (int i = 0; i < r->n; i++)
        bytes += r->stages[i].resident ? r->stages[i].bytes : 0;
    return bytes;
}

// What is read in one pass: what is always in memory and, if it is to be, the embedding.
static int read_fixed(struct layers_state *r, bool table, size_t used, struct hearth_error *err)
{
    const struct hearth_model *m = r->setup.model;
    struct hearth_target *targets = hearth_calloc(m->n_items, sizeof *targets);
    size_t n = 0;
    if (!targets)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the list of layers");
    if (table) { // in step with the file's pages, so that direct reads need no copy
        used = hearth_round_up(used, HEARTH_IMAGE_PAGE) + r->embedding->tensor->offset % HEARTH_IMAGE_PAGE;
        targets[n++] = (struct hearth_target){.item = r->embedding,
                                              .to = take(&r->fixed, &used, r->embedding->bytes, 1)};
    }
    for (size_t i = 0; i < m->n_items; i++)
        if (is_fixed(m, &m->items[i]))
            targets[n++] = (struct hearth_target){.item = &m->items[i],
                                                  .to = take(&r->fixed, &used, m->items[i].bytes, 64)};
    for (size_t i = 0; i < n; i++)
        point_item(m, r->setup.weights, &targets[i]);
    const int rc = hearth_targets_read(m, targets, n, err);
    free(targets);
    return rc;
}

// The resident stage behind stage i, or HEARTH_AHEAD_NONE.
static uint64_t next_resident(const struct layers_state *r, int i)
{
    while (++i < r->n)
        if (r->stages[i].resident)
            return (uint64_t)i;
    return HEARTH_AHEAD_NONE;
}

static int read_resident(struct layers_state *r, struct hearth_error *err)
{
    const struct hearth_load_options *load = &r->setup.model->load;
    int rc = HEARTH_OK, buffer;
    for (uint64_t i = next_resident(r, -1); i != HEARTH_AHEAD_NONE && !rc; i = next_resident(r, (int)i)) {
        rc = hearth_ahead_get(&r->ahead, i, next_resident(r, (int)i), &buffer, err);
        hearth_ahead_release(&r->ahead, i);
        point(r, (int)i, r->stages[i].base);
        r->stages[i].here = true;
        r->loaded = (float)(i + 1) / (float)r->n;
        if (!rc && load->progress && !load->progress(load->progress_arg, r->loaded))
            rc = hearth_fail(err, HEARTH_E_INTERRUPTED, "loading was interrupted");
    }
    if (rc != HEARTH_E_INTERRUPTED) // else all is closed, which ends reads sooner
        hearth_ahead_finish(&r->ahead);
    return rc;
}

static int fill(void *state, const struct hearth_budget_plan *plan, struct hearth_error *err)
{
    struct layers_state *r = state;
    const struct hearth_model *m = r->setup.model;
    const size_t page = HEARTH_IMAGE_PAGE, resident = choose_resident(r, plan);
    // A tied head serves for both, if it is in one piece.
    const bool head_is_embedding = is_tied(m) && plan->head_in_memory && r->n == r->n_layer + 1;
    const bool table = plan->embedding_in_memory && !is_tied(m);
    r->embedding_by_row = !table && !head_is_embedding;
    int rc = hearth_region_open(
        &r->fixed, resident + (size_t)fixed_bytes(m) + (table ? r->embedding->bytes + 2 * page : 0) + page,
        "the weights that stay in memory", err);
    if (!rc && plan->layer_buffers)
        rc = hearth_region_open(&r->buffers, (size_t)plan->layer_buffers, "the weights of two layers", err);
    if (!rc)
        rc = open_places(r, plan, err);
    if (rc)
        return rc;
    r->buffer_bytes = (size_t)plan->layer_buffers / 2;
    size_t used = 0;
    for (int i = 0; i < r->n; i++)
        if (r->stages[i].resident)
            r->stages[i].base = take(&r->fixed, &used, r->stages[i].bytes, page);
    rc = read_fixed(r, table, used, err);
    if (!rc)
        rc = read_resident(r, err);
    if (!rc && head_is_embedding)
        r->setup.weights->token_embd.data = r->setup.weights->output.data;
    return rc;
}

static void close_layers(void **state)
{
    struct layers_state *r = *state;
    for (int i = 0; r && i < r->n && r->stages; i++) {
        free(r->stages[i].extents);
        free(r->stages[i].extent_at);
    }
    if (r) {
        for (int k = 0; k < 2; k++)
            free(r->extents[k]);
        free(r->stages);
        free(r->order);
        free(r->skips);
        free(r->dense);
        hearth_region_close(&r->fixed);
        hearth_region_close(&r->buffers);
        hearth_region_close(&r->more);
    }
    free(r);
    *state = NULL;
}

// ---- figures

// Of the weights that each step reads: those of stages, and a row of the embedding.
static void stats(const void *state, struct hearth_streaming_stats *out)
{
    const struct layers_state *r = state;
    out->dense_read_bytes += r->embedding_by_row ? r->setup.weights->token_embd.stride : 0;
    out->dense_read_bytes += r->setup.weights->token_layers.stride;
    out->dense_read_bytes += r->setup.weights->gram_table.stride * (uint64_t)r->setup.model->hp.grams.n;
    for (int i = 0; i < r->n; i++)
        out->dense_read_bytes += r->stages[i].here || is_skipped(r, i) ? 0 : r->stages[i].bytes;
    out->lent_bytes += bytes_of_places(r, r->n_lent);
}

static uint64_t memory(const void *state)
{
    const struct layers_state *r = state;
    return r->fixed.size + r->buffers.size;
}

const struct hearth_source_ops hearth_layers_source = {.name = "layers",
                                                       .open = open_layers,
                                                       .need = need,
                                                       .fill = fill,
                                                       .close = close_layers,
                                                       .acquire = acquire,
                                                       .release = release,
                                                       .has_stage = has_stage,
                                                       .skip = skip,
                                                       .embeds = embeds,
                                                       .embed = embed,
                                                       .takes = takes,
                                                       .lend = lend,
                                                       .stats = stats,
                                                       .memory = memory};
