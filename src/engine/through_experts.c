// SPDX-License-Identifier: MIT
// Experts that pass through a device in prompts: see through_experts.h.
#include "engine/through_experts.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "engine/session.h"
#include "model/ffn.h"

// Bytes of a stage's weights, about: enough experts for the device to compute together.
#define STAGE ((uint64_t)32 << 20)
// Rows of a stage, where they pass whatever that takes.
#define LEAST_ROWS 8
// Experts pass where the device has no room for one of so many, or more.
#define LEAST_SHARE 4

enum { PARTS = 3 };

static const struct hearth_weight *part_of(const struct hearth_session *s, int layer, int part)
{
    const struct hearth_layer *l = &s->model->weights.layers[layer];
    return part == 0 ? &l->ffn_gate_exps : part == 1 ? &l->ffn_up_exps : &l->ffn_down_exps;
}

// ---- evaluations

void hearth_through_experts_begin(struct hearth_through_experts *t, int n_rows)
{
    t->from = t->end;
    t->n_rows = n_rows;
    t->passed = false;
    t->cpu = t->device = (struct hearth_through_time){0};
    if (n_rows && *t->works)
        t->from =
            t->first + (t->always ? 0 : hearth_through_choice_of(&t->choice, n_rows, t->end - t->first));
}

bool hearth_through_experts_is_on(const struct hearth_through_experts *t, int layer)
{
    return t && layer >= t->from && layer < t->end && t->passes[layer] && *t->works;
}

void hearth_through_experts_note(struct hearth_through_experts *t, int layer, uint64_t ns)
{
    struct hearth_through_time *time = layer < t->from || !t->passes[layer] ? &t->cpu : &t->device;
    time->layers++;
    time->ns += ns;
}

void hearth_through_experts_finish(struct hearth_through_experts *t, bool whole)
{
    if (whole && t->n_rows) {
        hearth_through_choice_note(&t->choice, t->n_rows, false, t->cpu.layers, t->cpu.ns);
        hearth_through_choice_note(&t->choice, t->n_rows, true, t->device.layers, t->device.ns);
    }
    t->tokens += t->passed ? (uint64_t)t->n_rows : 0;
    t->from = t->end;
}

// ---- a layer

bool hearth_through_experts_takes(const struct hearth_through_experts *t, int layer, int n_rows)
{
    return hearth_through_experts_is_on(t, layer) && !hearth_accel_has_failed(t->a) &&
           (t->always || n_rows >= HEARTH_THROUGH_ROWS) && (size_t)n_rows <= t->stages[0].rows.cap;
}

// The stage's weights become ones like the layer's; their memory has room for any layer's.
static void prepare(const struct hearth_through_experts *t, struct hearth_device_experts *m, int layer)
{
    const struct hearth_layer *l = &t->s->model->weights.layers[layer];
    struct hearth_accel_weight *const to[PARTS] = {&m->gate, &m->up, &m->down};
    const size_t places = (size_t)t->places;
    for (int i = 0; i < PARTS; i++) {
        const struct hearth_weight *from = part_of(t->s, layer, i);
        to[i]->type = from->type;
        to[i]->k = from->k;
        to[i]->n = hearth_has(from) ? from->n * places : 0;
    }
    m->gate_b.n = hearth_has(&l->ffn_gate_exps_b) ? places : 0;
    m->up_b.n = hearth_has(&l->ffn_up_exps_b) ? places : 0;
}

static void bring_matrix(struct hearth_through_experts *t, const struct hearth_accel_weight *to, int place,
                         const struct hearth_weight *w)
{
    if (to->n)
        hearth_through_pieces_rows(&t->pieces, to, (size_t)place * w->n, w);
}

static void bring_bias(struct hearth_through_experts *t, const struct hearth_accel_weight *to, int place,
                       const struct hearth_weight *biases, int expert)
{
    const size_t bytes = to->k * sizeof(float);
    if (to->n)
        hearth_through_pieces_bytes(&t->pieces, &to->q, (size_t)place * bytes, hearth_bias_of(biases, expert),
                                    bytes);
}

void hearth_through_experts_run(struct hearth_through_experts *t)
{
    struct hearth_through_experts_stage *st = &t->stages[t->stage];
    struct hearth_expert_rows *r = &st->rows;
    if (!st->n || st->runs)
        return;
    hearth_through_pieces_bytes(&t->pieces, &r->tiles, 0, r->tile_list, r->n_tiles * sizeof *r->tile_list);
    hearth_through_pieces_bytes(&t->pieces, &r->which, 0, r->which_list, r->n * sizeof *r->which_list);
    for (int i = 0; i < HEARTH_EXPERT_FACTORS && r->factor_lists[i]; i++)
        hearth_through_pieces_bytes(&t->pieces, &r->factors[i], 0, r->factor_lists[i],
                                    r->n * sizeof *r->factor_lists[i]);
    hearth_through_pieces_wait(&t->pieces);
    hearth_expert_rows_begin(r, t->a, &t->s->model->hp, &st->matrices, true);
    st->runs = true;
}

// Waits for a stage; its outputs go where they belong, and its places are free.
static void collect(struct hearth_through_experts *t, struct hearth_through_experts_stage *st)
{
    const size_t width = (size_t)t->s->model->hp.n_embd;
    const float *from = st->rows.got;
    hearth_accel_wait(t->a, st->rows.event);
    const bool there = st->runs && *t->works && !hearth_accel_has_failed(t->a);
    for (int i = 0; i < st->n; i++) {
        const struct hearth_through_expert *e = &st->experts[i];
        const size_t count = (size_t)e->want.n_rows * width;
        if (there)
            memcpy(e->rows, from, count * sizeof *from);
        else
            t->failed[t->n_failed++] = e->want;
        from += count;
    }
    t->rows += there ? st->rows.n : 0;
    t->passed |= there && st->n;
    st->rows.event = NULL;
    st->rows.n = st->rows.n_tiles = 0;
    st->n = 0;
    st->runs = false;
}

// The stage that has room for so many rows of one more expert.
static struct hearth_through_experts_stage *stage_for(struct hearth_through_experts *t, int n_rows)
{
    const struct hearth_through_experts_stage *st = &t->stages[t->stage];
    if (st->runs || st->n == t->places || st->rows.n + (size_t)n_rows > st->rows.cap) {
        hearth_through_experts_run(t);
        t->stage = !t->stage;
        collect(t, &t->stages[t->stage]);
    }
    return &t->stages[t->stage];
}

bool hearth_through_experts_add(struct hearth_through_experts *t, int layer, const struct hearth_want *want,
                                float *rows)
{
    const struct hearth_layer *now = &t->s->context.weights->layers[layer];
    const size_t embd = (size_t)t->s->model->hp.n_embd * sizeof *rows;
    const int expert = (int)want->space % t->s->model->hp.n_expert;
    struct hearth_through_experts_stage *st = stage_for(t, want->n_rows);
    struct hearth_device_experts *m = &st->matrices;
    prepare(t, m, layer);
    bring_matrix(t, &m->gate, st->n, &want->gate);
    bring_matrix(t, &m->up, st->n, &want->up);
    bring_matrix(t, &m->down, st->n, &want->down);
    bring_bias(t, &m->gate_b, st->n, &now->ffn_gate_exps_b, expert);
    bring_bias(t, &m->up_b, st->n, &now->ffn_up_exps_b, expert);
    hearth_through_pieces_bytes(&t->pieces, &st->rows.x, st->rows.n * embd, rows,
                                (size_t)want->n_rows * embd);
    if (hearth_accel_has_failed(t->a))
        return false;
    hearth_expert_rows_add(&st->rows, true, st->n, want->n_rows, &t->s->model->weights.layers[layer], expert);
    st->experts[st->n++] = (struct hearth_through_expert){*want, rows};
    return true;
}

uint32_t hearth_through_experts_end(struct hearth_through_experts *t, struct hearth_want **wants)
{
    struct hearth_error err = {0};
    hearth_through_experts_run(t);
    for (int i = 0; i < 2; i++) { // the one that began before first
        t->stage = !t->stage;
        collect(t, &t->stages[t->stage]);
    }
    hearth_through_pieces_wait(&t->pieces);
    if (hearth_accel_take(t->a, &err)) {
        *t->works = false;
        hearth_log(HEARTH_LOG_WARNING, "%s; the CPU goes on with its experts", err.message);
    }
    const uint32_t n = t->n_failed;
    *wants = t->failed;
    t->n_failed = 0;
    return n;
}

// ---- opening

// The most that so many experts of a layer have of integers, scales and minima of the matrix.
static void most_of_part(const struct hearth_session *s, int first, int part, int places,
                         size_t most[HEARTH_ACCEL_WEIGHT_PARTS])
{
    memset(most, 0, HEARTH_ACCEL_WEIGHT_PARTS * sizeof *most);
    for (int layer = first; layer < s->model->hp.n_layer; layer++) {
        const struct hearth_weight *w = part_of(s, layer, part);
        size_t bytes[HEARTH_ACCEL_WEIGHT_PARTS] = {0};
        if (hearth_has(w))
            hearth_accel_weight_parts(w->type, w->k, w->n * (size_t)places, bytes);
        for (int i = 0; i < HEARTH_ACCEL_WEIGHT_PARTS; i++)
            most[i] = bytes[i] > most[i] ? bytes[i] : most[i];
    }
}

// The first layer with experts.
static int first_layer(const struct hearth_session *s)
{
    return hearth_experts_behind(&s->model->hp, -1);
}

// Of both stages; 0: a piece of it is larger than `largest`.
static uint64_t bytes_of(const struct hearth_session *s, int first, uint64_t largest, int places, size_t cap)
{
    const struct hearth_hparams *hp = &s->model->hp;
    uint64_t bytes =
        cap * hearth_expert_rows_bytes(s) + 2 * (uint64_t)places * (uint64_t)hp->n_ff_exp * sizeof(float);
    for (int part = 0; part < PARTS; part++) {
        size_t most[HEARTH_ACCEL_WEIGHT_PARTS];
        most_of_part(s, first, part, places, most);
        for (int i = 0; i < HEARTH_ACCEL_WEIGHT_PARTS; i++) {
            if (most[i] > largest)
                return 0;
            bytes += most[i];
        }
    }
    return 2 * bytes;
}

uint64_t hearth_through_experts_bytes(const struct hearth_session *s, bool always,
                                      const struct hearth_cpu_experts *cpu, uint64_t room, uint64_t others,
                                      uint64_t largest, int *places, size_t *cap)
{
    const struct hearth_hparams *hp = &s->model->hp;
    const int first = first_layer(s);
    uint64_t all = 0, most = 0, ignored = 0;
    for (int layer = first; layer < hp->n_layer; layer++) {
        if (hearth_are_cpu_experts(cpu, layer))
            continue;
        const uint64_t own = hearth_device_experts_bytes(s, layer, &ignored);
        if (!own && hearth_has_experts(hp, layer))
            return 0;
        all += own * (uint64_t)hp->n_expert;
        most = own > most ? own : most;
    }
    if (!all || room - others >= (always ? all : all - all / LEAST_SHARE))
        return 0;
    const int rows = s->limits.max_rows;
    *cap = (size_t)(rows < HEARTH_EXPERT_ROWS_MOST ? rows : HEARTH_EXPERT_ROWS_MOST);
    *places = most > STAGE ? 1 : (int)(STAGE / most);
    *places = *places < hp->n_expert ? *places : hp->n_expert;
    for (;;) {
        const uint64_t bytes = bytes_of(s, first, largest, *places, *cap);
        if (bytes && bytes <= (always ? room : room / 2))
            return bytes;
        if (*places > 1)
            *places /= 2;
        else if (*cap > (always ? LEAST_ROWS : 2 * HEARTH_THROUGH_ROWS))
            *cap /= 2;
        else
            return 0;
    }
}

static void take_stage(struct hearth_through_experts *t, struct hearth_device_experts *m)
{
    struct hearth_accel_weight *const parts[] = {&m->gate, &m->up, &m->down};
    struct hearth_accel_weight *const biases[] = {&m->gate_b, &m->up_b};
    for (int part = 0; part < PARTS; part++) {
        struct hearth_accel_weight *w = parts[part];
        struct hearth_accel_memory *const memory[] = {&w->q, &w->scales, &w->minima};
        size_t most[HEARTH_ACCEL_WEIGHT_PARTS];
        most_of_part(t->s, t->first, part, t->places, most);
        for (int i = 0; i < HEARTH_ACCEL_WEIGHT_PARTS; i++)
            if (most[i])
                *memory[i] = hearth_accel_alloc(t->a, most[i]);
    }
    for (int i = 0; i < 2; i++) {
        biases[i]->type = HEARTH_TYPE_F32;
        biases[i]->k = (size_t)t->s->model->hp.n_ff_exp;
        biases[i]->q = hearth_accel_alloc(t->a, (size_t)t->places * biases[i]->k * sizeof(float));
    }
}

// Pieces for the longest row, and the one with the most bytes.
static int take_pieces(struct hearth_through_experts *t, struct hearth_error *err)
{
    size_t longest = 0, most = 0;
    for (int layer = t->first; layer < t->end; layer++)
        for (int part = 0; part < PARTS; part++) {
            const struct hearth_weight *w = part_of(t->s, layer, part);
            const size_t row = hearth_has(w) ? hearth_accel_weight_bytes(w->type, w->k, 1) : 0;
            longest = row && w->k > longest ? w->k : longest;
            most = row > most ? row : most;
        }
    return hearth_through_pieces_open(&t->pieces, t->a, &t->s->context, longest, most, err);
}

static int take_all(struct hearth_through_experts *t, const struct hearth_cpu_experts *cpu, size_t cap,
                    struct hearth_error *err)
{
    const size_t places = (size_t)t->places;
    bool there = (t->failed = hearth_calloc(2 * places, sizeof *t->failed)) != NULL;
    there &= (t->passes = hearth_calloc((size_t)t->end, sizeof *t->passes)) != NULL;
    for (int layer = t->first; layer < t->end && t->passes; layer++)
        t->passes[layer] = !hearth_are_cpu_experts(cpu, layer);
    for (int i = 0; i < 2; i++)
        there &= (t->stages[i].experts = hearth_calloc(places, sizeof *t->stages[i].experts)) != NULL;
    int rc = there ? take_pieces(t, err)
                   : hearth_fail(err, HEARTH_E_MEMORY, "no memory for experts that pass through a device");
    for (int i = 0; i < 2 && !rc; i++) {
        t->stages[i].rows.cap = cap;
        rc = hearth_expert_rows_open(&t->stages[i].rows, t->a, t->s, err);
        take_stage(t, &t->stages[i].matrices);
    }
    return rc;
}

int hearth_through_experts_open(struct hearth_through_experts **out, const struct hearth_session *s,
                                struct hearth_accel *a, bool *works, bool always,
                                const struct hearth_cpu_experts *cpu, uint64_t room, uint64_t others,
                                struct hearth_error *err)
{
    int places;
    size_t cap;
    *out = NULL;
    if (!hearth_through_experts_bytes(s, always, cpu, room, others, hearth_accel_describe(a)->largest,
                                      &places, &cap))
        return HEARTH_OK;
    struct hearth_through_experts *t = *out = hearth_calloc(1, sizeof *t);
    if (!t)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for experts that pass through a device");
    *t = (struct hearth_through_experts){.a = a,
                                         .s = s,
                                         .works = works,
                                         .always = always,
                                         .first = first_layer(s),
                                         .end = s->model->hp.n_layer,
                                         .from = s->model->hp.n_layer,
                                         .places = places};
    hearth_through_choice_init(&t->choice);
    const int rc = take_all(t, cpu, cap, err);
    if (rc || hearth_accel_has_failed(a)) // its memory is full
        hearth_through_experts_close(out);
    return rc;
}

void hearth_through_experts_close(struct hearth_through_experts **through)
{
    struct hearth_through_experts *t = *through;
    *through = NULL;
    if (!t)
        return;
    for (int i = 0; i < 2; i++) {
        hearth_device_experts_close(t->a, &t->stages[i].matrices);
        hearth_expert_rows_close(&t->stages[i].rows, t->a);
        free(t->stages[i].experts);
    }
    hearth_through_pieces_close(&t->pieces);
    free(t->failed);
    free(t->passes);
    free(t);
}
