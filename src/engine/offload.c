// SPDX-License-Identifier: MIT
// Evaluations on devices: rows go there, pass its layers, and come back, one device after the other. A prompt's keys and
// values come to the pages two layers behind, so that the device computes meanwhile; those of steps together, as copies
// between kernels take longer than these.
#include "engine/offload.h"

#include <string.h>

#include "base/log.h"
#include "base/os.h"
#include "engine/heads.h"
#include "engine/offload_latent.h"
#include "model/ffn.h"

// The last of as many layers of a step as this are a list of their own.
#define LAST_LAYERS 8

static void leave_layers(struct hearth_offload *o)
{
    memset(o->elsewhere + o->first, 0, (size_t)(o->end - o->first) * sizeof *o->elsewhere);
}

// The device has failed: says so, once, and leaves its layers to the CPU from now on.
static void give_up(struct hearth_offload *o)
{
    struct hearth_error err = {0};
    hearth_accel_take(o->a, &err);
    o->works = false;
    leave_layers(o);
    hearth_log(HEARTH_LOG_WARNING, "%s; the CPU goes on with its layers", err.message);
}

// ---- which batches go there

static bool is_watched(const struct hearth_probes *p)
{
    return p->on_experts || p->on_ffn || hearth_probes_see_neurons(p);
}

// The batch is about to overwrite positions of these pages, wherever it is computed: what the device has of them ends
// before.
static void forget_positions(struct hearth_offload *o)
{
    const struct hearth_session *s = o->s;
    for (int i = 0; i < s->batch.n; i++) {
        const struct hearth_row at = s->batch.rows[i];
        const int page = s->kv.seqs[at.seq].pages[at.pos / HEARTH_KV_TILE], slot = at.pos % HEARTH_KV_TILE;
        if (o->births[page] != s->kv.pages[page].birth) {
            o->births[page] = s->kv.pages[page].birth;
            o->known[page] = 0;
        }
        if (o->known[page] > slot)
            o->known[page] = slot;
    }
}

// Whether the batch goes there at once, or in parts of which each looks at no later one: steps go with the last part, so a
// sequence's steps must not stand before rows of a prompt.
static bool fits(const struct hearth_offload *o)
{
    const struct hearth_batch *b = &o->s->batch;
    const int prompts = hearth_batch_count(b, HEARTH_PHASE_PROMPT);
    for (int i = prompts; i < b->n && prompts > o->rows[0].cap; i++)
        for (int k = 0; k < prompts; k++)
            if (b->rows[k].seq == b->rows[i].seq && b->rows[k].pos > b->rows[i].pos)
                return false;
    return true;
}

// Rows of a prompt and no others; else 0.
static int rows_alone(const struct hearth_session *s)
{
    const struct hearth_batch *b = &s->batch;
    return b->n_classes == 1 && b->classes[0].phase == HEARTH_PHASE_PROMPT ? b->n : 0;
}

// Layers that are here whole, [this one, their end); attention alone is nothing of these.
static int first_whole(const struct hearth_offload *o)
{
    return o->attention ? o->s->context.hp->n_layer : o->first;
}

static int end_whole(const struct hearth_offload *o)
{
    return o->attention ? o->s->context.hp->n_layer : o->end;
}

// Whether the batch's rows pass through it with layers of which it has no weights, or of whole layers none.
static bool passes(const struct hearth_offload *o)
{
    return o->from < first_whole(o);
}

// Which layers the device takes the batch through.
static void begin_device(struct hearth_offload *o)
{
    const struct hearth_session *s = o->s;
    o->from = s->context.hp->n_layer;
    o->began_ns = 0;
    if (o->hot) // one that was given up may have left some
        o->hot->share.all_ns = o->hot->share.wait_ns = 0;
    for (int k = 0; o->experts && k < 2; k++)
        o->experts->shares[k].all_ns = o->experts->shares[k].wait_ns = 0;
    o->attends = false;
    if (o->passing)
        hearth_through_experts_begin(o->passing, is_watched(&s->probes) ? 0 : rows_alone(s));
    if (o->first == o->end && !o->through)
        return;
    forget_positions(o);
    if (!o->works || !fits(o) || is_watched(&s->probes) || s->batch.again)
        return;
    const int rows = o->through ? rows_alone(s) : 0; // for which layers that are the CPU's may pass
    o->from = rows ? hearth_through_from(o->through, rows) : first_whole(o);
    o->began_ns = rows ? hearth_now_ns() : 0;
    if (o->attention) { // what passes does so with its attention
        o->attends = !passes(o);
        o->part = -1;
        return;
    }
    for (int layer = o->first; layer < o->end; layer++)
        o->elsewhere[layer] = true;
}

const bool *hearth_offload_begin(struct hearth_offload *o)
{
    bool *elsewhere = o->elsewhere;
    memset(elsewhere, 0, (size_t)o->s->context.hp->n_layer * sizeof *elsewhere);
    for (; o; o = o->next)
        begin_device(o);
    return elsewhere;
}

// What layers of the batch took: those of the CPU, the first `layers`, until now; those that passed through the device.
static void note_cpu(struct hearth_offload *o, int layers)
{
    if (o->began_ns && layers)
        hearth_through_choice_note(&o->through->choice, o->s->batch.n, false, layers,
                                   hearth_now_ns() - o->began_ns);
    o->began_ns = 0;
}

static void note_through(struct hearth_offload *o)
{
    if (passes(o))
        hearth_through_choice_note(&o->through->choice, o->s->batch.n, true, first_whole(o) - o->from,
                                   o->passed_ns);
}

// ---- pages

// Brings to the device what it does not know of a page, of all its layers.
static void send_page(struct hearth_offload *o, int page, int needed)
{
    const struct hearth_kv *kv = &o->s->kv;
    if (o->births[page] == kv->pages[page].birth && o->known[page] >= needed)
        return;
    uint8_t *bytes = hearth_kv_pin(kv, page);
    for (int layer = o->first; layer < o->end; layer++) {
        if (!hearth_attends(kv->hp, layer))
            continue;
        const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, layer);
        const size_t size = (size_t)heads->n * heads->bytes;
        hearth_accel_write(o->a, &o->layers[layer - o->first].cache.pages, (size_t)page * size,
                           hearth_kv_key(kv, bytes, layer, 0, 0), size);
    }
    hearth_kv_unpin(kv, page);
    o->births[page] = kv->pages[page].birth;
    o->known[page] = needed;
}

// The pages of the batch's sequences, those before its rows as they are. at[seq] becomes where a sequence's numbers
// begin. Returns how many numbers there are.
static size_t send_pages(struct hearth_offload *o, int first, int n)
{
    const struct hearth_session *s = o->s;
    size_t count = 0;
    for (int k = 0; k < s->batch.n_seqs; k++) {
        const int seq = s->batch.seqs[k];
        int from = INT32_MAX, end = 0;
        for (int i = first; i < first + n; i++)
            if (s->batch.rows[i].seq == seq) {
                const int pos = s->batch.rows[i].pos;
                from = pos < from ? pos : from;
                end = pos + 1 > end ? pos + 1 : end;
            }
        const struct hearth_kv_seq *pages = &s->kv.seqs[seq];
        for (int p = 0; p * HEARTH_KV_TILE < end; p++) {
            const int before = from - p * HEARTH_KV_TILE;
            if (before > 0 && (!o->attention || o->attends))
                send_page(o, pages->pages[p], before < HEARTH_KV_TILE ? before : HEARTH_KV_TILE);
            if (before > 0 && passes(o))
                hearth_through_add_page(o->through, pages->pages[p]);
            o->page_numbers[count + (size_t)p] = pages->pages[p];
        }
        for (int i = first; i < first + n; i++)
            if (s->batch.rows[i].seq == seq)
                o->places[2 * (i - first) + 1] = (int32_t)count;
        count += (size_t)((end + HEARTH_KV_TILE - 1) / HEARTH_KV_TILE);
    }
    return count;
}

// ---- rows

// The rows of a part: classes with their first row and number. Where they stand goes to the device.
static void send_rows(struct hearth_offload *o, struct hearth_offload_rows *rows, int first, int n,
                      int part_first)
{
    const struct hearth_session *s = o->s;
    const struct hearth_hparams *hp = s->context.hp;
    const size_t count = (size_t)n, f32 = sizeof(float);
    rows->first = first;
    rows->n = n;
    hearth_offload_latent_begin(o, rows);
    rows->ranges = 1;
    for (int i = first; i < first + n; i++) {
        const size_t reach = (size_t)s->batch.rows[i].pos / (HEARTH_KV_TILE * HEARTH_ATTN_RANGE) + 1;
        rows->ranges = reach > rows->ranges ? reach : rows->ranges;
    }
    hearth_accel_write(o->a, &rows->places, 0, o->places + 2 * (first - part_first),
                       count * 2 * sizeof *o->places);
    for (int i = 0; hp->q_growth != 0.0f && i < n; i++)
        o->growth[i] = hearth_heads_growth(hp, s->batch.rows[first + i].pos);
    if (hp->q_growth != 0.0f)
        hearth_accel_write(o->a, &rows->growth, 0, o->growth, count * f32);
    if (!hearth_has_rotation(hp))
        return;
    hearth_accel_write(o->a, &rows->cos_sin, 0, hearth_row_of(s->work.cos_sin, first, hp->n_rot),
                       count * (size_t)hp->n_rot * f32);
    if (hp->rope_theta_window > 0)
        hearth_accel_write(o->a, &rows->cos_sin_window, 0,
                           hearth_row_of(s->work.cos_sin_window, first, hp->n_rot_window),
                           count * (size_t)hp->n_rot_window * f32);
}

// Their inputs.
static void send_x(struct hearth_offload *o)
{
    const int n_embd = o->s->context.hp->n_embd;
    for (int k = 0; k < 2; k++)
        if (o->rows[k].n)
            hearth_accel_write(o->a, &o->rows[k].x, 0, hearth_row_of(o->s->work.x, o->rows[k].first, n_embd),
                               (size_t)o->rows[k].n * (size_t)n_embd * sizeof(float));
}

// And outputs, to the same rows of work.h.
static void read_x(struct hearth_offload *o)
{
    const int n_embd = o->s->context.hp->n_embd;
    for (int k = 0; k < 2; k++)
        if (o->rows[k].n)
            hearth_accel_read(o->a, &o->rows[k].x, 0, hearth_row_of(o->s->work.h, o->rows[k].first, n_embd),
                              (size_t)o->rows[k].n * (size_t)n_embd * sizeof(float));
}

// Bytes of a row's keys and values in a layer; 0: it has none.
static size_t copied_row(const struct hearth_offload *o, int layer)
{
    const struct hearth_kv_heads *heads = hearth_kv_heads_of(&o->s->kv, layer);
    return hearth_attends(o->s->context.hp, layer) ? (size_t)heads->n * (heads->row_k + heads->row_v) : 0;
}

// Begins to fetch a layer's keys and values; events[k] is of class k.
static void fetch(struct hearth_offload *o, int layer, void *events[2])
{
    uint8_t *to = o->copy[layer % 2];
    const size_t row = copied_row(o, layer);
    for (int k = 0; k < 2; k++) {
        const size_t bytes = (size_t)o->rows[k].n * row;
        events[k] = bytes ? hearth_accel_begin_read(o->a, &o->rows[k].copy, 0, to, bytes) : NULL;
        to += bytes;
    }
}

// To the pages: those of a class's rows in a layer, which lie side by side.
static void put_rows(const struct hearth_offload *o, int layer, const struct hearth_offload_rows *rows,
                     const uint8_t *from)
{
    const struct hearth_kv *kv = &o->s->kv;
    const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, layer);
    for (int i = 0; i < rows->n; i++) {
        const struct hearth_row at = o->s->batch.rows[rows->first + i];
        const int page = kv->seqs[at.seq].pages[at.pos / HEARTH_KV_TILE], slot = at.pos % HEARTH_KV_TILE;
        uint8_t *bytes = hearth_kv_pin(kv, page);
        for (int g = 0; g < heads->n; g++, from += heads->row_k + heads->row_v) {
            memcpy(hearth_kv_key(kv, bytes, layer, g, slot), from, heads->row_k);
            memcpy(hearth_kv_value(kv, bytes, layer, g, slot), from + heads->row_k, heads->row_v);
        }
        hearth_kv_unpin(kv, page);
    }
}

// Waits for them; they go to the pages.
static void collect(struct hearth_offload *o, int layer, void *events[2])
{
    const uint8_t *from = o->copy[layer % 2];
    const size_t row = copied_row(o, layer);
    for (int k = 0; k < 2; k++) {
        hearth_accel_wait(o->a, events[k]);
        events[k] = NULL;
        if (row && !hearth_accel_has_failed(o->a))
            put_rows(o, layer, &o->rows[k], from);
        from += (size_t)o->rows[k].n * row;
    }
    if (layer == first_whole(o) - 1)
        o->passed_ns += hearth_now_ns() - o->part_ns;
}

// The device's pages now have these rows, too.
static void note_rows(struct hearth_offload *o, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        const struct hearth_row at = o->s->batch.rows[i];
        const int page = o->s->kv.seqs[at.seq].pages[at.pos / HEARTH_KV_TILE], slot = at.pos % HEARTH_KV_TILE;
        o->births[page] = o->s->kv.pages[page].birth;
        o->known[page] = slot + 1;
    }
}

// Bytes of what predictors of the next layer look at; 0: of nothing that lasts.
static size_t seen_bytes(const struct hearth_offload *o)
{
    return o->seen[0].size ? (size_t)o->rows[1].n * (size_t)o->s->context.hp->n_embd * sizeof(float) : 0;
}

// What predictors of the device's first layer look at is the host's.
static void send_seen(struct hearth_offload *o)
{
    const float *seen = hearth_ffn_previous(&o->s->work.ffn, o->first);
    if (seen)
        hearth_accel_write(o->a, &o->seen[(o->first - 1) % 2], 0, seen, seen_bytes(o));
}

// And what those of the layer behind its last one look at becomes the host's: the device gives it, and it is noted once
// nothing can fail any more.
static void fetch_seen(struct hearth_offload *o)
{
    if (o->end < o->s->context.hp->n_layer)
        hearth_accel_read(o->a, &o->seen[(o->end - 1) % 2], 0, o->seen_copy, seen_bytes(o));
}

static void note_seen(const struct hearth_offload *o)
{
    float *seen = hearth_ffn_previous(&o->s->work.ffn, o->end);
    const size_t bytes = seen_bytes(o);
    if (seen && bytes && o->end < o->s->context.hp->n_layer)
        memcpy(seen, o->seen_copy, bytes);
}

// Rows [first, first + n) of the batch become a part; all but their inputs goes to the device.
static void send_part(struct hearth_offload *o, int first, int n)
{
    const struct hearth_session *s = o->s;
    for (int i = 0; i < n; i++)
        o->places[2 * i] = s->batch.rows[first + i].pos;
    if (o->through)
        hearth_through_forget_pages(o->through);
    const size_t count = send_pages(o, first, n);
    hearth_accel_write(o->a, &o->pages, 0, o->page_numbers, count * sizeof *o->page_numbers);
    o->rows[0].n = o->rows[1].n = 0;
    for (int k = 0; k < s->batch.n_classes; k++) {
        const struct hearth_rows c = s->batch.classes[k];
        const int from = c.first > first ? c.first : first;
        const int end = c.first + c.n < first + n ? c.first + c.n : first + n;
        if (from < end)
            send_rows(o, &o->rows[c.phase == HEARTH_PHASE_STEP], from, end - from, first);
    }
}

static void compute_layer(struct hearth_offload *o, int layer)
{
    for (int k = 0; k < 2; k++)
        if (o->rows[k].n)
            hearth_offload_project(o, &o->rows[k], layer);
    for (int k = 0; k < 2; k++)
        if (o->rows[k].n)
            hearth_offload_finish(o, &o->rows[k], layer);
}

// The part through all layers, one by one. Returns whether it went through all of them: nothing needs it otherwise.
static bool run_layers(struct hearth_offload *o, int n)
{
    void *events[2][2] = {{NULL}};
    int layer = o->from;
    bool stop = false;
    for (; layer < end_whole(o) && !stop && !hearth_accel_has_failed(o->a); layer++) {
        if (layer - 2 >= o->from)
            collect(o, layer - 2, events[layer % 2]);
        if (layer < first_whole(o) && !hearth_through_bring(o->through, layer, n))
            break;
        compute_layer(o, layer);
        fetch(o, layer, events[layer % 2]);
        hearth_accel_flush(o->a);
        stop = hearth_fault_is_near(o->s->context.fault);
    }
    for (int i = layer - 2; i < layer; i++)
        if (i >= o->from)
            collect(o, i, events[i % 2]);
    return !stop && layer == end_whole(o);
}

// A part that has steps alone, through all layers, in two lists: what the first one brings goes to the pages while the
// device computes the second one, which is short.
static void run_steps(struct hearth_offload *o)
{
    struct hearth_offload_rows *rows = &o->rows[1];
    const int last = (o->end - o->first + LAST_LAYERS - 1) / LAST_LAYERS;
    const int ends[] = {o->end - last, o->end};
    void *events[2] = {NULL};
    size_t at = 0;
    for (int part = 0, layer = o->first; part < 2; part++) {
        const size_t begin = at;
        hearth_accel_begin_list(o->a);
        for (; layer < ends[part]; layer++) {
            rows->copy_at = at;
            compute_layer(o, layer);
            at += (size_t)rows->n * copied_row(o, layer);
        }
        hearth_accel_end_list(o->a);
        events[part] = hearth_accel_begin_read(o->a, &rows->copy, begin, o->step_copy + begin, at - begin);
        hearth_accel_flush(o->a);
    }
    rows->copy_at = at = 0;
    for (int part = 0, layer = o->first; part < 2; part++) {
        hearth_accel_wait(o->a, events[part]);
        for (; layer < ends[part] && !hearth_accel_has_failed(o->a); layer++) {
            const size_t row = copied_row(o, layer);
            if (row)
                put_rows(o, layer, rows, o->step_copy + at);
            at += (size_t)rows->n * row;
        }
    }
}

// Rows [first, first + n) of the batch through all layers; their outputs go to the same rows of work.h. Returns whether
// they are there.
static bool run_part(struct hearth_offload *o, int first, int n)
{
    o->part_ns = hearth_now_ns();
    send_part(o, first, n);
    send_x(o);
    send_seen(o);
    bool all = true;
    if (!o->rows[0].n && !passes(o))
        run_steps(o);
    else
        all = run_layers(o, n);
    if (all) {
        read_x(o);
        fetch_seen(o);
    }
    if (all && !hearth_accel_has_failed(o->a)) {
        if (!o->attention)
            note_rows(o, first, n);
        note_seen(o);
        o->tokens += first_whole(o) < end_whole(o) ? (uint64_t)n : 0;
        if (passes(o))
            o->through->tokens += (uint64_t)n;
    }
    return !hearth_accel_has_failed(o->a);
}

// How many rows the part that begins with this one has.
static int part_of(const struct hearth_offload *o, int first)
{
    const struct hearth_batch *b = &o->s->batch;
    const int cap = o->rows[0].cap;
    return hearth_batch_count(b, HEARTH_PHASE_PROMPT) - first > cap ? cap : b->n - first;
}

int hearth_offload_run(struct hearth_offload *o, int layer)
{
    const struct hearth_session *s = o->s;
    while (o->from != layer)
        o = o->next;
    if (!o->works) { // in an earlier layer of this evaluation, with hot neurons of it
        leave_layers(o);
        return layer;
    }
    note_cpu(o, o->from);
    o->passed_ns = 0;
    for (int first = 0, n; first < s->batch.n; first += n) {
        n = part_of(o, first);
        if (!run_part(o, first, n)) {
            give_up(o);
            return layer;
        }
        if (hearth_fault_look(s->context.fault))
            return layer;
    }
    memcpy(s->work.x, s->work.h, (size_t)s->batch.n * (size_t)s->context.hp->n_embd * sizeof *s->work.x);
    note_through(o);
    return end_whole(o);
}

// The expert that all tokens use, of these rows: it is on its way while the CPU goes on.
static void share_expert(struct hearth_offload *o, int layer)
{
    struct hearth_device_shared *d = o->shared;
    const size_t n_embd = (size_t)o->s->context.hp->n_embd;
    if (!HEARTH_OFFLOAD_WEIGHT(&o->layers[layer - o->first], ffn_down_shared)->n)
        return;
    d->a = o->a;
    d->works = &o->works;
    d->layer = layer;
    d->got = o->shared_copy;
    for (int k = 0; k < 2; k++) {
        if (!o->rows[k].n)
            continue;
        hearth_offload_share_expert(o, &o->rows[k], layer);
        hearth_device_shared_fetch(d, k, &o->rows[k].branch, (size_t)o->rows[k].first * n_embd,
                                   (size_t)o->rows[k].n * n_embd);
    }
    hearth_accel_flush(o->a);
}

// Attention of rows [first, first + n) of the batch, whose keys and values are in the pages in the end: the next layer may
// be the CPU's. Returns whether all is there.
static bool attend_part(struct hearth_offload *o, int layer, int first, int n)
{
    void *events[2] = {NULL};
    if (o->part != first)
        send_part(o, first, n);
    o->part = first;
    send_x(o);
    const bool again = !o->rows[0].n; // steps come again
    if (again)
        hearth_accel_begin_list(o->a);
    for (int k = 0; k < 2; k++)
        if (o->rows[k].n)
            hearth_offload_project(o, &o->rows[k], layer);
    for (int k = 0; k < 2; k++)
        if (o->rows[k].n)
            hearth_offload_add_attention(o, &o->rows[k], layer);
    if (again)
        hearth_accel_end_list(o->a);
    fetch(o, layer, events);
    read_x(o);
    share_expert(o, layer);
    collect(o, layer, events);
    if (layer == o->first && !hearth_accel_has_failed(o->a))
        note_rows(o, first, n);
    return !hearth_accel_has_failed(o->a);
}

bool hearth_offload_attend(struct hearth_offload *o, int layer)
{
    while (o && layer >= o->end)
        o = o->next;
    if (!o || layer < o->first || !o->attends || !o->works || o->s->by_layer)
        return false;
    const struct hearth_session *s = o->s;
    for (int first = 0, n; first < s->batch.n; first += n) {
        n = part_of(o, first);
        if (first && hearth_fault_is_near(s->context.fault)) // nobody uses what comes of it
            return true;
        if (!attend_part(o, layer, first, n)) {
            give_up(o);
            return false;
        }
    }
    memcpy(s->work.x, s->work.h, (size_t)s->batch.n * (size_t)s->context.hp->n_embd * sizeof *s->work.x);
    o->tokens += layer + 1 == o->end ? (uint64_t)s->batch.n : 0;
    return true;
}

// Of an evaluation of one class that nobody watched, and in which nothing passed through the device, what it took; of
// others, nothing is learnt.
static void note_share(struct hearth_offload *o, struct hearth_share *share, enum hearth_phase phase)
{
    const struct hearth_batch *b = &o->s->batch;
    const bool passes = o->passing && o->passing->from < o->passing->end;
    if (b->n_classes != 1 || b->classes[0].phase != phase || is_watched(&o->s->probes) || passes)
        share->all_ns = share->wait_ns = 0;
    hearth_share_note(share, b->n);
}

void hearth_offload_end(struct hearth_offload *o)
{
    for (; o; o = o->next) {
        note_cpu(o, o->end);
        if (o->hot)
            note_share(o, &o->hot->share, HEARTH_PHASE_STEP);
        for (int k = 0; o->experts && k < 2; k++)
            note_share(o, &o->experts->shares[k], k ? HEARTH_PHASE_STEP : HEARTH_PHASE_PROMPT);
        if (o->passing)
            hearth_through_experts_finish(o->passing, o->works);
        if (o->experts)
            hearth_hot_experts_turn(o->experts, o->s->batch.n);
    }
}

// ---- the head

bool hearth_offload_has_head(const struct hearth_offload *o)
{
    while (o && !(o->works && o->head))
        o = o->next;
    return o != NULL;
}

bool hearth_offload_head(struct hearth_offload *o, bool is_prompt, const float *h, float *logits, int n)
{
    while (o && !(o->works && o->head))
        o = o->next;
    if (!o)
        return false;
    const size_t k = o->output.k, vocab = o->output.n, f32 = sizeof(float);
    for (int at = 0; at < n; at += o->head_rows) {
        const size_t count = (size_t)(n - at < o->head_rows ? n - at : o->head_rows);
        hearth_accel_write(o->a, &o->head_h, 0, h + (size_t)at * k, count * k * f32);
        hearth_accel_quantize(o->a, &o->head_acts, &o->head_h, k, count);
        hearth_accel_product(o->a, is_prompt, &o->logits, &o->output,
                             (struct hearth_accel_input){&o->head_h, &o->head_acts}, count, NULL);
        hearth_accel_read(o->a, &o->logits, 0, logits + (size_t)at * vocab, count * vocab * f32);
    }
    if (hearth_accel_has_failed(o->a))
        give_up(o);
    return o->works;
}
