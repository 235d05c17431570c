// SPDX-License-Identifier: MIT
// States of recurrent layers: all that these layers know of a sequence's tokens up to some position. A pool of
// slots of one size, each with reference counts, as pages of the KV cache have them.
//
// A sequence has marks: positions whose state is kept, in rising order. It goes on from its last mark, the
// top. Where that is not at its end, because it was cut or forked, or because its state made room for
// another's, the tokens in between are evaluated again before the next ones (replay.c). So a state is never
// needed for a result, only for the time that it takes. The state at position 0 is all zeros and takes no
// slot.
//
// An evaluation writes over its sequence's top, or leaves that as a mark and takes another slot: where the
// text may come back to it, and no state that is worth more has to go. A state with another owner is never
// written.
//
// Where a session keeps what its steps put into recurrent layers (recurrent.h), a step of several tokens of a sequence
// always leaves the top as a mark: cut between these tokens, the sequence's state comes of that mark and of what is
// kept.
//
// The lock is for hearth_seq_save(), which may read a sequence's top while another thread uses the session.
#ifndef HEARTH_ENGINE_STATES_H
#define HEARTH_ENGINE_STATES_H

#include "base/threads.h"
#include "model/model.h"

struct hearth_kv;

struct hearth_state_mark {
    int pos, slot;
};

struct hearth_state_seq {
    int n;
    struct hearth_state_mark *marks; // [n_slots] n of them, pos rising, none 0
    bool needed;                     // other evaluations leave its top alone
    int from, to;                    // slots of the evaluation that is going on; from -1: zeros
    // Inputs of recurrent layers that the last evaluation kept: of positions [pos, pos + n), in its steps from `row` on.
    struct {
        int pos, n, row;
    } kept;
};

struct hearth_states {
    int n_slots; // 0: the model has no recurrent layers
    int max_seqs;
    bool keeps; // the session keeps inputs of steps
    // Of a layer's part: inputs of the convolution, [n_taps - 1][n_channels], oldest first; with the heads' states
    // behind them, [n_heads][dim][state], a row for each value.
    size_t conv_bytes, layer_bytes;
    size_t grams_at; // behind all layers' parts: inputs of the convolution over n-grams, oldest first
    size_t blend_at; // and behind that what blends positions (blend.h), layer by layer
    const struct hearth_hparams *hp;
    size_t slot_bytes;
    struct hearth_region region;
    int *refs;                     // [n_slots] marks, and evaluations that write it; 0: free
    int *readers;                  // [n_slots] who saves it to a file
    bool *busy;                    // [n_slots] while slots are being taken: this evaluation needs it
    double *worth;                 // [n_slots] while one is being chosen to go
    struct hearth_state_seq *seqs; // [max_seqs]
    struct hearth_state_mark *marks;
    struct hearth_lock *lock;
};

// Slots of a session that says no number.
int hearth_states_usual(int max_seqs);

// n_slots 0: hearth_states_usual(). Sizes alone, region.size among them: hearth_states_open() takes memory.
int hearth_states_measure(struct hearth_states *s, const struct hearth_hparams *hp, int n_slots, int max_seqs,
                          struct hearth_error *err);
int hearth_states_open(struct hearth_states *s, const struct hearth_hparams *hp, int n_slots, int max_seqs,
                       struct hearth_error *err);
void hearth_states_close(struct hearth_states *s);
uint64_t hearth_states_table_bytes(const struct hearth_states *s);
// Gives the memory of free slots back to the system.
void hearth_states_trim(struct hearth_states *s);

// A new sequence gets the first marks of another one, or loses those behind `length`.
void hearth_states_fork(struct hearth_states *s, int from, int to, int length);
void hearth_states_truncate(struct hearth_states *s, int seq, int length);

// The position that the sequence goes on from.
int hearth_states_top(const struct hearth_states *s, int seq);
// Looks for a state closer to the sequence's end: other sequences that begin with the same tokens, in the
// same phases, may have one.
void hearth_states_adopt(struct hearth_states *s, const struct hearth_kv *kv, int seq);

// Until it is told otherwise, evaluations of other sequences leave the top of this one where it is.
void hearth_states_need(struct hearth_states *s, int seq, bool needed);

// What an evaluation is about to add to a sequence: tokens behind `pos`, its top.
struct hearth_state_change {
    int seq, pos, n_prompt, n_steps;
    bool over; // the top before is not worth keeping
};
// Chooses where n of them go. All or nothing; HEARTH_E_BUDGET: there are too few slots.
int hearth_states_reserve(struct hearth_states *s, const struct hearth_kv *kv,
                          const struct hearth_state_change *changes, int n, struct hearth_error *err);
// The evaluation has succeeded, or failed.
void hearth_states_commit(struct hearth_states *s, const struct hearth_state_change *changes, int n);
void hearth_states_drop(struct hearth_states *s, const struct hearth_state_change *changes, int n);

// The evaluation has kept the inputs of its steps, one sequence's behind the other's in the order of `changes`.
void hearth_states_keep(struct hearth_states *s, const struct hearth_state_change *changes, int n);
// Nothing is kept any more.
void hearth_states_forget(struct hearth_states *s);
// The step that has the inputs of a sequence's position `pos`, with those of all positions up to `end` behind it; -1:
// none has.
int hearth_states_kept(const struct hearth_states *s, int seq, int pos, int end);

// A recurrent layer's part of a slot; `index` counts recurrent layers.
static inline float *hearth_state_conv(const struct hearth_states *s, int slot, int index)
{
    return (float *)(void *)((uint8_t *)s->region.base + (size_t)slot * s->slot_bytes +
                             (size_t)index * s->layer_bytes);
}
static inline float *hearth_state_heads(const struct hearth_states *s, int slot, int index)
{
    return (float *)(void *)((uint8_t *)(void *)hearth_state_conv(s, slot, index) + s->conv_bytes);
}

// The part that is of n-grams, [hearth_grams_kept()][G E].
static inline float *hearth_state_grams(const struct hearth_states *s, int slot)
{
    return (float *)(void *)((uint8_t *)s->region.base + (size_t)slot * s->slot_bytes + s->grams_at);
}

// The part of a layer that blends positions.
static inline float *hearth_state_blend(const struct hearth_states *s, int slot, int layer)
{
    size_t before = 0;
    for (int i = 0; i < layer; i++)
        before += (size_t)hearth_blend_state(s->hp, i);
    return (float *)(void *)((uint8_t *)s->region.base + (size_t)slot * s->slot_bytes + s->blend_at) + before;
}

// For a sequence's file: its last marks, at most `most`, rising, whose slots stay as they are until they are
// let go. Returns how many.
int hearth_states_hold(struct hearth_states *s, int seq, struct hearth_state_mark *marks, int most);
void hearth_states_let_go(struct hearth_states *s, const struct hearth_state_mark *marks, int n);
// The other way: a slot to be filled and then entered as the sequence's top, or given back. -1: there is
// none.
int hearth_states_take(struct hearth_states *s, const struct hearth_kv *kv);
void hearth_states_enter(struct hearth_states *s, int seq, int pos, int slot);
void hearth_states_give_back(struct hearth_states *s, int slot);

// For tests: what is wrong with the pool, or NULL.
const char *hearth_states_check(const struct hearth_states *s, const struct hearth_kv *kv);

#endif
