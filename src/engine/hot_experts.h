// SPDX-License-Identifier: MIT
// Hot experts on a device: of each layer those that tokens use most. The router is the CPU's. It hands the device the
// rows of experts that this has, computes the others meanwhile, from memory or as they come from the file, and adds up
// all of them in the same order as ever. So no bit depends on who computes an expert.
//
// Which ones are hot is counted while tokens are evaluated. Between evaluations the device gets a piece of an expert
// that has become hotter than one of its own.
#ifndef HEARTH_ENGINE_HOT_EXPERTS_H
#define HEARTH_ENGINE_HOT_EXPERTS_H

#include "engine/device_experts.h"
#include "engine/share.h"

struct hearth_session;

// Experts of n places.
struct hearth_hot_expert_layer {
    struct hearth_device_experts matrices;
    int n;
    int *held;     // [n] the expert in each place; -1: none now
    int *place_of; // [X] and the place of each expert, or -1
    float *shares; // [X] of recent tokens that used it
};

// The expert that is being brought.
struct hearth_hot_expert_move {
    int layer, place, expert; // layer -1: none is
    int part;                 // 0 gate, 1 up, 2 down,
    size_t at;                // and rows of it that are there
};

struct hearth_hot_experts {
    struct hearth_hot_experts *next; // another device's, of later layers; or NULL
    struct hearth_accel *a;
    const struct hearth_session *s;
    bool *works;                            // the device does
    bool resident;                          // all experts are always in the CPU's memory
    bool moves;                             // hot ones take the places of others
    int first, end;                         // layers [first, end) have some here
    int next_layer;                         // to be looked at for ones that are hotter
    struct hearth_hot_expert_layer *layers; // [end], those before `first` empty
    struct hearth_expert_rows rows[2];      // of prompts, of steps
    struct hearth_hot_expert_move move;
    uint8_t *piece;                // of it, on its way from the file; NULL: all experts are resident
    struct hearth_share shares[2]; // of prompts, of steps, where all experts are resident
    uint64_t n;                    // places in all
    uint64_t slots;                // rows of experts that were computed here
    uint64_t moved;                // experts that came since it was opened
};

// Of layers [first, end) of a session but those of `cpu`, the same number of each, as far as `room` bytes of the device's
// memory go; *out is NULL where there is no room, or no layer whose experts devices can compute. HEARTH_E_IO,
// HEARTH_E_MEMORY (of the host).
int hearth_hot_experts_open(struct hearth_hot_experts **out, const struct hearth_session *s,
                            struct hearth_accel *a, bool *works, int first, int end,
                            const struct hearth_cpu_experts *cpu, uint64_t room, struct hearth_error *err);
void hearth_hot_experts_close(struct hearth_hot_experts **hot); // this one alone

// Of those that are linked, the one whose layer this is; NULL: none.
static inline struct hearth_hot_experts *hearth_hot_experts_of(struct hearth_hot_experts *h, int layer)
{
    while (h && layer >= h->end)
        h = h->next;
    return h && layer >= h->first ? h : NULL;
}

// The place of an expert; -1: the device does not have it, or has failed.
static inline int hearth_hot_experts_place(const struct hearth_hot_experts *h, int layer, int expert)
{
    return h && *h->works && h->layers[layer].n ? h->layers[layer].place_of[expert] : -1;
}

// How many of n experts that a layer uses and the device has it computes, for n_rows of a class. Where the CPU would
// have to read them, all.
static inline uint32_t hearth_hot_experts_share(const struct hearth_hot_experts *h, enum hearth_phase phase,
                                                int n_rows, uint32_t n)
{
    const int share = hearth_share_of(&h->shares[phase == HEARTH_PHASE_STEP], n_rows);
    return h->resident ? (uint32_t)hearth_share_part(share, n) : n;
}

// Notes how many of n_tokens used each expert of a layer.
void hearth_hot_experts_count(struct hearth_hot_experts *h, int layer, const int *counts, int n_tokens);

// ---- a layer: add() for each expert, one behind the other, then begin() for each class, then end() once

// n slots of an expert of the class; at most rows[phase].cap together.
void hearth_hot_experts_add(struct hearth_hot_experts *h, int layer, enum hearth_phase phase, int expert,
                            int n);
// Has them computed; x [slots x E]: their inputs.
void hearth_hot_experts_begin(struct hearth_hot_experts *h, int layer, enum hearth_phase phase,
                              const float *x);
// Waits for all that has begun: rows[phase].got has the outputs [slots x E], without the biases of down. False: the
// device has failed.
bool hearth_hot_experts_end(struct hearth_hot_experts *h);

// Between evaluations, after one of n_tokens: brings a piece of an expert that is hotter than one here.
void hearth_hot_experts_turn(struct hearth_hot_experts *h, int n_tokens);

#endif
