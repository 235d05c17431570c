// SPDX-License-Identifier: MIT
// Slots of states: see states.h.
#include "engine/states.h"

#include <stdlib.h>

#include "base/os.h"
#include "engine/kv.h"

// Slots beyond one for each sequence, unless the session says another number: two, and one for each two sequences that
// may share a state, which both then leave while it is read.
int hearth_states_usual(int max_seqs)
{
    return max_seqs + (max_seqs / 2 > 2 ? max_seqs / 2 : 2);
}

// A prompt of fewer rows goes over its top: the text seldom comes back to where it was.
#define LEAST_ROWS 16
// How far a sequence's next tokens are thought to reach, for what its top is worth; and how much more often
// than to other places a text comes back to where a prompt ended and steps began.
#define REACH 4096
#define TURNS 64

// ---- slots

static void release(struct hearth_states *s, int slot)
{
    assert(s->refs[slot] > 0);
    s->refs[slot]--;
}

static int find_free(const struct hearth_states *s)
{
    for (int i = 0; i < s->n_slots; i++)
        if (!s->refs[i] && !s->readers[i])
            return i;
    return -1;
}

static int top_slot(const struct hearth_state_seq *q)
{
    return q->n ? q->marks[q->n - 1].slot : -1;
}

// Whether steps follow a prompt there.
static bool is_turn(const struct hearth_kv *kv, int seq, int pos)
{
    return pos < kv->seqs[seq].length && hearth_kv_phase(kv, seq, pos) == HEARTH_PHASE_STEP &&
           hearth_kv_phase(kv, seq, pos - 1) == HEARTH_PHASE_PROMPT;
}

// About what losing a mark costs: the tokens to be evaluated again, times those positions that the text would
// come back to it for. A top's text is about to go on for `next` tokens.
static double worth(const struct hearth_states *s, const struct hearth_kv *kv, int seq, int i, int next)
{
    const struct hearth_state_seq *q = &s->seqs[seq];
    const int pos = q->marks[i].pos, before = i ? q->marks[i - 1].pos : 0;
    const double reach = i + 1 < q->n ? q->marks[i + 1].pos - pos : next;
    return (double)(pos - before) * reach * (is_turn(kv, seq, pos) ? TURNS : 1);
}

// The slot that nobody needs now and whose marks are worth least; -1: none. A slot of several sequences is
// worth as much as to the one that it is worth most to.
static int find_least(struct hearth_states *s, const struct hearth_kv *kv)
{
    int least = -1;
    for (int i = 0; i < s->n_slots; i++)
        s->worth[i] = -1;
    for (int seq = 0; seq < s->max_seqs; seq++)
        for (int i = 0; i < s->seqs[seq].n; i++) {
            double *of = &s->worth[s->seqs[seq].marks[i].slot];
            const double own = worth(s, kv, seq, i, REACH);
            *of = own > *of ? own : *of;
        }
    for (int i = 0; i < s->n_slots; i++)
        if (s->worth[i] >= 0 && !s->busy[i] && !s->readers[i] && (least < 0 || s->worth[i] < s->worth[least]))
            least = i;
    return least;
}

static void remove_mark(struct hearth_states *s, struct hearth_state_seq *q, int i)
{
    release(s, q->marks[i].slot);
    for (q->n--; i < q->n; i++)
        q->marks[i] = q->marks[i + 1];
}

// All sequences let go of a slot.
static void evict(struct hearth_states *s, int slot)
{
    for (int seq = 0; seq < s->max_seqs; seq++)
        for (int i = s->seqs[seq].n - 1; i >= 0; i--)
            if (s->seqs[seq].marks[i].slot == slot)
                remove_mark(s, &s->seqs[seq], i);
    assert(!s->refs[slot]);
}

// A slot for an evaluation to write, at the expense of marks that are worth less than `most`; -1: none.
static int take_slot(struct hearth_states *s, const struct hearth_kv *kv, double most)
{
    int slot = find_free(s);
    if (slot < 0) {
        slot = find_least(s, kv);
        if (slot < 0 || s->worth[slot] >= most)
            return -1;
        evict(s, slot);
    }
    s->refs[slot] = 1;
    s->busy[slot] = true;
    return slot;
}

static void clear_busy(struct hearth_states *s)
{
    memset(s->busy, 0, (size_t)s->n_slots * sizeof *s->busy);
    for (int seq = 0; seq < s->max_seqs; seq++)
        if (s->seqs[seq].needed && s->seqs[seq].n)
            s->busy[top_slot(&s->seqs[seq])] = true;
}

void hearth_states_need(struct hearth_states *s, int seq, bool needed)
{
    s->seqs[seq].needed = needed;
}

// ---- evaluations

// Whether a sequence's next state cannot go over its top.
static bool needs_slot(const struct hearth_states *s, const struct hearth_state_change *c)
{
    const int top = s->seqs[c->seq].from;
    return top < 0 || s->refs[top] > 1 || s->readers[top];
}

// Where the next state of a sequence goes that does not need a slot: over its top, which then is lost, or
// not.
static int choose(struct hearth_states *s, const struct hearth_kv *kv, const struct hearth_state_change *c)
{
    const struct hearth_state_seq *q = &s->seqs[c->seq];
    const int rows = c->n_prompt + c->n_steps;
    const bool turn = c->n_steps && hearth_kv_phase(kv, c->seq, c->pos - 1) == HEARTH_PHASE_PROMPT;
    const bool cut = c->n_steps > 1 && s->keeps; // may be, between these
    int slot = -1;
    if (!c->over && (turn || c->n_steps > 1 || c->n_prompt >= LEAST_ROWS))
        slot = take_slot(s, kv, turn || cut ? 1e300 : worth(s, kv, c->seq, q->n - 1, rows));
    return slot < 0 ? q->from : slot;
}

static bool is_read(const struct hearth_states *s)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->readers[i])
            return true;
    return false;
}

// Slots for those that need one. HEARTH_E_BUDGET.
static int take_needed(struct hearth_states *s, const struct hearth_kv *kv,
                       const struct hearth_state_change *changes, int n, struct hearth_error *err)
{
    unsigned turns = 0;
    for (int i = 0; i < n; i++)
        while (needs_slot(s, &changes[i])) {
            struct hearth_state_seq *q = &s->seqs[changes[i].seq];
            if ((q->to = take_slot(s, kv, 1e300)) >= 0)
                break;
            if (!is_read(s))
                return hearth_fail_param(err, HEARTH_E_BUDGET, "max_states",
                                         "%d states of recurrent layers are too few for an evaluation of %d "
                                         "sequences: %d always do (max_states)",
                                         s->n_slots, n, 2 * n);
            hearth_lock_drop(s->lock); // until it is written
            hearth_pool_relax(&turns);
            hearth_lock_take(s->lock);
        }
    return HEARTH_OK;
}

static void undo(struct hearth_states *s, const struct hearth_state_change *changes, int n)
{
    for (int i = 0; i < n; i++) {
        struct hearth_state_seq *q = &s->seqs[changes[i].seq];
        if (q->to >= 0 && q->to != q->from)
            release(s, q->to);
        q->to = q->from = -1;
    }
}

int hearth_states_reserve(struct hearth_states *s, const struct hearth_kv *kv,
                          const struct hearth_state_change *changes, int n, struct hearth_error *err)
{
    if (!s->n_slots)
        return HEARTH_OK;
    hearth_lock_take(s->lock);
    clear_busy(s);
    for (int i = 0; i < n; i++) {
        struct hearth_state_seq *q = &s->seqs[changes[i].seq];
        assert(hearth_states_top(s, changes[i].seq) == changes[i].pos);
        q->from = top_slot(q);
        q->to = -1;
        if (q->from >= 0)
            s->busy[q->from] = true;
    }
    const int rc = take_needed(s, kv, changes, n, err);
    for (int i = 0; i < n && !rc; i++)
        if (s->seqs[changes[i].seq].to < 0)
            s->seqs[changes[i].seq].to = choose(s, kv, &changes[i]);
    if (rc)
        undo(s, changes, n);
    hearth_lock_drop(s->lock);
    return rc;
}

void hearth_states_commit(struct hearth_states *s, const struct hearth_state_change *changes, int n)
{
    if (!s->n_slots)
        return;
    hearth_lock_take(s->lock);
    for (int i = 0; i < n; i++) {
        struct hearth_state_seq *q = &s->seqs[changes[i].seq];
        if (q->to != q->from)
            q->marks[q->n++].slot = q->to;
        q->marks[q->n - 1].pos = changes[i].pos + changes[i].n_prompt + changes[i].n_steps;
        q->to = q->from = -1;
    }
    hearth_lock_drop(s->lock);
}

// A top that was being written is lost.
void hearth_states_drop(struct hearth_states *s, const struct hearth_state_change *changes, int n)
{
    if (!s->n_slots)
        return;
    hearth_lock_take(s->lock);
    for (int i = 0; i < n; i++) {
        struct hearth_state_seq *q = &s->seqs[changes[i].seq];
        if (q->to >= 0 && q->to == q->from)
            remove_mark(s, q, q->n - 1);
    }
    undo(s, changes, n);
    hearth_lock_drop(s->lock);
}

// ---- inputs that are kept

void hearth_states_forget(struct hearth_states *s)
{
    for (int seq = 0; s->keeps && seq < s->max_seqs; seq++)
        s->seqs[seq].kept.n = 0;
}

void hearth_states_keep(struct hearth_states *s, const struct hearth_state_change *changes, int n)
{
    int row = 0;
    for (int i = 0; s->keeps && i < n; i++) {
        struct hearth_state_seq *q = &s->seqs[changes[i].seq];
        q->kept.pos = changes[i].pos;
        q->kept.n = changes[i].n_prompt ? 0 : changes[i].n_steps; // else they may lie apart
        q->kept.row = row;
        row += changes[i].n_steps;
    }
}

int hearth_states_kept(const struct hearth_states *s, int seq, int pos, int end)
{
    const struct hearth_state_seq *q = &s->seqs[seq];
    const bool has = pos >= q->kept.pos && end <= q->kept.pos + q->kept.n;
    return has ? q->kept.row + pos - q->kept.pos : -1;
}

// ---- sequences

void hearth_states_fork(struct hearth_states *s, int from, int to, int length)
{
    if (!s->n_slots)
        return;
    hearth_lock_take(s->lock);
    const struct hearth_state_seq *a = &s->seqs[from];
    struct hearth_state_seq *b = &s->seqs[to];
    for (b->n = 0; b->n < a->n && a->marks[b->n].pos <= length; b->n++) {
        b->marks[b->n] = a->marks[b->n];
        s->refs[b->marks[b->n].slot]++;
    }
    b->kept = a->kept;
    hearth_lock_drop(s->lock);
}

void hearth_states_truncate(struct hearth_states *s, int seq, int length)
{
    if (!s->n_slots)
        return;
    hearth_lock_take(s->lock);
    struct hearth_state_seq *q = &s->seqs[seq];
    while (q->n && q->marks[q->n - 1].pos > length)
        remove_mark(s, q, q->n - 1);
    if (length <= q->kept.pos) // another text may come here
        q->kept.n = 0;
    hearth_lock_drop(s->lock);
}

int hearth_states_top(const struct hearth_states *s, int seq)
{
    const struct hearth_state_seq *q = &s->seqs[seq];
    return q->n ? q->marks[q->n - 1].pos : 0;
}

// How many tokens two sequences have in common at their beginnings, in the same phases.
static int common(const struct hearth_kv *kv, int a, int b)
{
    const int n = kv->seqs[a].length < kv->seqs[b].length ? kv->seqs[a].length : kv->seqs[b].length;
    int i = 0;
    while (i < n) {
        const int page = i / HEARTH_KV_TILE;
        if (i % HEARTH_KV_TILE == 0 && kv->seqs[a].pages[page] == kv->seqs[b].pages[page])
            i += HEARTH_KV_TILE;
        else if (hearth_kv_token(kv, a, i) == hearth_kv_token(kv, b, i) &&
                 hearth_kv_phase(kv, a, i) == hearth_kv_phase(kv, b, i))
            i++;
        else
            break;
    }
    return i < n ? i : n;
}

void hearth_states_adopt(struct hearth_states *s, const struct hearth_kv *kv, int seq)
{
    struct hearth_state_seq *own = &s->seqs[seq];
    for (int other = 0; other < s->max_seqs; other++) {
        const struct hearth_state_seq *q = &s->seqs[other];
        const int top = hearth_states_top(s, seq);
        if (other == seq || hearth_states_top(s, other) <= top)
            continue;
        const int alike = common(kv, seq, other);
        int i = q->n - 1;
        while (i >= 0 && q->marks[i].pos > alike)
            i--;
        if (i < 0 || q->marks[i].pos <= top)
            continue;
        hearth_lock_take(s->lock);
        assert(own->n < s->n_slots); // this slot is not among them, and each has but one mark
        own->marks[own->n++] = q->marks[i];
        s->refs[q->marks[i].slot]++;
        hearth_lock_drop(s->lock);
    }
}

// ---- files

int hearth_states_hold(struct hearth_states *s, int seq, struct hearth_state_mark *marks, int most)
{
    if (!s->n_slots)
        return 0;
    hearth_lock_take(s->lock);
    const struct hearth_state_seq *q = &s->seqs[seq];
    const int n = q->n < most ? q->n : most;
    for (int i = 0; i < n; i++) {
        marks[i] = q->marks[q->n - n + i];
        s->readers[marks[i].slot]++;
    }
    hearth_lock_drop(s->lock);
    return n;
}

void hearth_states_let_go(struct hearth_states *s, const struct hearth_state_mark *marks, int n)
{
    if (!n)
        return;
    hearth_lock_take(s->lock);
    for (int i = 0; i < n; i++) {
        assert(s->readers[marks[i].slot] > 0);
        s->readers[marks[i].slot]--;
    }
    hearth_lock_drop(s->lock);
}

int hearth_states_take(struct hearth_states *s, const struct hearth_kv *kv)
{
    hearth_lock_take(s->lock);
    clear_busy(s);
    const int slot = take_slot(s, kv, 1e300);
    hearth_lock_drop(s->lock);
    return slot;
}

void hearth_states_enter(struct hearth_states *s, int seq, int pos, int slot)
{
    hearth_lock_take(s->lock);
    struct hearth_state_seq *q = &s->seqs[seq];
    assert(q->n < s->n_slots && hearth_states_top(s, seq) < pos);
    q->marks[q->n++] = (struct hearth_state_mark){pos, slot};
    hearth_lock_drop(s->lock);
}

void hearth_states_give_back(struct hearth_states *s, int slot)
{
    hearth_lock_take(s->lock);
    release(s, slot);
    hearth_lock_drop(s->lock);
}

// ---- the pool

static int check_size(const struct hearth_states *s, size_t *bytes, struct hearth_error *err)
{
    size_t marks;
    if (hearth_mul_size(s->slot_bytes, (size_t)s->n_slots, bytes) &&
        hearth_mul_size((size_t)s->n_slots, (size_t)s->max_seqs, &marks) && marks <= INT32_MAX)
        return HEARTH_OK;
    return hearth_fail_param(err, HEARTH_E_BUDGET, "max_states",
                             "%d states of recurrent layers are too many: use fewer sequences or a smaller "
                             "max_states",
                             s->n_slots);
}

int hearth_states_measure(struct hearth_states *s, const struct hearth_hparams *hp, int n_slots, int max_seqs,
                          struct hearth_error *err)
{
    const struct hearth_recurrence *r = &hp->recurrence;
    *s = (struct hearth_states){0};
    s->hp = hp;
    if (!hearth_has_states(hp))
        return HEARTH_OK;
    s->n_slots = n_slots ? n_slots : hearth_states_usual(max_seqs);
    s->max_seqs = max_seqs;
    const size_t taps = (size_t)(r->n_layers ? r->n_taps - 1 : 0);
    s->conv_bytes = hearth_round_up(taps * (size_t)r->n_channels * sizeof(float), 64);
    s->layer_bytes = s->conv_bytes + (size_t)r->n_values * (size_t)r->state * sizeof(float);
    s->grams_at = s->layer_bytes * (size_t)r->n_layers;
    s->blend_at = s->grams_at + hearth_round_up((size_t)hearth_grams_kept(&hp->grams) *
                                                    (size_t)hearth_stream_width(hp) * sizeof(float),
                                                64);
    size_t blend = 0;
    for (int i = 0; i < hp->n_layer; i++)
        blend += (size_t)hearth_blend_state(hp, i) * sizeof(float);
    s->slot_bytes = s->blend_at + hearth_round_up(blend, 64);
    return check_size(s, &s->region.size, err);
}

int hearth_states_open(struct hearth_states *s, const struct hearth_hparams *hp, int n_slots, int max_seqs,
                       struct hearth_error *err)
{
    const int rc = hearth_states_measure(s, hp, n_slots, max_seqs, err);
    if (rc || !s->n_slots)
        return rc;
    s->refs = hearth_calloc((size_t)s->n_slots, sizeof *s->refs);
    s->readers = hearth_calloc((size_t)s->n_slots, sizeof *s->readers);
    s->busy = hearth_calloc((size_t)s->n_slots, sizeof *s->busy);
    s->worth = hearth_calloc((size_t)s->n_slots, sizeof *s->worth);
    s->seqs = hearth_calloc((size_t)max_seqs, sizeof *s->seqs);
    s->marks = hearth_calloc((size_t)max_seqs * (size_t)s->n_slots, sizeof *s->marks);
    s->lock = hearth_lock_open();
    if (!s->refs || !s->readers || !s->busy || !s->worth || !s->seqs || !s->marks || !s->lock)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the table of recurrent states");
    for (int i = 0; i < max_seqs; i++)
        s->seqs[i] = (struct hearth_state_seq){
            .marks = s->marks + (size_t)i * (size_t)s->n_slots, .from = -1, .to = -1};
    return hearth_region_open(&s->region, s->region.size, "the states of recurrent layers", err);
}

void hearth_states_close(struct hearth_states *s)
{
    hearth_region_close(&s->region);
    hearth_lock_close(&s->lock);
    free(s->refs);
    free(s->readers);
    free(s->busy);
    free(s->worth);
    free(s->seqs);
    free(s->marks);
    *s = (struct hearth_states){0};
}

uint64_t hearth_states_table_bytes(const struct hearth_states *s)
{
    const uint64_t slots = (uint64_t)s->n_slots, seqs = (uint64_t)s->max_seqs;
    return slots * (sizeof *s->refs + sizeof *s->readers + sizeof *s->busy + sizeof *s->worth) +
           seqs * (sizeof *s->seqs + slots * sizeof *s->marks);
}

void hearth_states_trim(struct hearth_states *s)
{
    if (!s->n_slots)
        return;
    hearth_lock_take(s->lock);
    for (int i = 0; i < s->n_slots; i++)
        if (!s->refs[i] && !s->readers[i])
            hearth_discard_inside((uint8_t *)s->region.base + (size_t)i * s->slot_bytes, s->slot_bytes);
    hearth_lock_drop(s->lock);
}

const char *hearth_states_check(const struct hearth_states *s, const struct hearth_kv *kv)
{
    int *refs = hearth_calloc((size_t)s->n_slots + 1, sizeof *refs);
    const char *wrong = refs ? NULL : "no memory to check the states";
    for (int seq = 0; seq < s->max_seqs && s->n_slots && !wrong; seq++) {
        const struct hearth_state_seq *q = &s->seqs[seq];
        for (int i = 0; i < q->n && !wrong; i++) {
            const struct hearth_state_mark m = q->marks[i];
            if (m.pos <= (i ? q->marks[i - 1].pos : 0) || m.pos > kv->seqs[seq].length)
                wrong = "a state's mark is out of place";
            else if (m.slot < 0 || m.slot >= s->n_slots)
                wrong = "a mark has a slot that does not exist";
            else
                refs[m.slot]++;
        }
        if (q->from != -1 || q->to != -1)
            wrong = "a state is still being written";
    }
    for (int i = 0; i < s->n_slots && !wrong; i++)
        if (refs[i] != s->refs[i] || s->readers[i])
            wrong = "a state's owners are miscounted";
    free(refs);
    return wrong;
}
