// SPDX-License-Identifier: MIT
// Experts that pass through a device in prompts: of layers whose experts are the CPU's, those that enough of a
// micro-batch's tokens use come to the device, some at a time, while it computes the ones before. Router, attention and
// what all tokens go through are the CPU's, and it adds the experts up in the same order as ever; it computes those of few
// tokens itself, and hot_experts.h has those that always are on the device. No bit depends on it.
//
// There are two stages with places for experts: while the device computes one, threads convert the weights of the other's.
#ifndef HEARTH_ENGINE_THROUGH_EXPERTS_H
#define HEARTH_ENGINE_THROUGH_EXPERTS_H

#include "engine/device_experts.h"
#include "engine/through_choice.h"
#include "engine/through_pieces.h"
#include "weights/source.h"

struct hearth_session;

// An expert in a place.
struct hearth_through_expert {
    struct hearth_want want; // what the CPU asks for where the device fails
    float *rows;             // [want.n_rows x E] the caller's: inputs, later outputs
};

struct hearth_through_experts_stage {
    struct hearth_device_experts matrices; // of as many places as there are
    struct hearth_expert_rows rows;
    struct hearth_through_expert *experts; // [places]
    int n;                                 // places that are taken
    bool runs;                             // the device has begun with them
};

// What layers of an evaluation took.
struct hearth_through_time {
    int layers;
    uint64_t ns;
};

struct hearth_through_experts {
    struct hearth_accel *a;
    const struct hearth_session *s;
    bool *works;    // the device does
    bool always;    // whatever it takes
    int first, end; // layers with experts
    bool *passes;   // [end] whether the layer's experts may pass
    int places;     // of a stage
    struct hearth_through_pieces pieces;
    struct hearth_through_experts_stage stages[2];
    int stage;                  // that takes the next expert
    struct hearth_want *failed; // [2 places] of this layer,
    uint32_t n_failed;          // which the CPU has to compute
    struct hearth_through_choice choice;
    uint64_t tokens, rows; // of prompts that had experts pass, and rows of these

    // Of the evaluation.
    int from; // layers [from, end) have experts pass
    int n_rows;
    bool passed;                            // some did
    struct hearth_through_time cpu, device; // layers that had none pass, and others
};

// Bytes of a device's memory that it takes, of `room` that it shares with hot experts and `others`, of so many bytes; 0:
// there is no room for it, or no need, or the device cannot compute all layers' experts. Layers of `cpu` have none pass,
// and count as if there were none. always: if there is room at all,
// and not for all experts; else it takes half of it at most, and the device is not to have room for three fourths of them
// beside the others. largest: as of one piece of the memory. *places: of a stage; *cap: rows of it.
uint64_t hearth_through_experts_bytes(const struct hearth_session *s, bool always,
                                      const struct hearth_cpu_experts *cpu, uint64_t room, uint64_t others,
                                      uint64_t largest, int *places, size_t *cap);

// *out is NULL where there is no room, as above, or the device has failed. HEARTH_E_MEMORY (of the host).
int hearth_through_experts_open(struct hearth_through_experts **out, const struct hearth_session *s,
                                struct hearth_accel *a, bool *works, bool always,
                                const struct hearth_cpu_experts *cpu, uint64_t room, uint64_t others,
                                struct hearth_error *err);
void hearth_through_experts_close(struct hearth_through_experts **through);

// ---- evaluations

// Of n_rows rows of a prompt; 0: of others, in which no expert passes.
void hearth_through_experts_begin(struct hearth_through_experts *t, int n_rows);
// Whether experts of the layer pass. t may be NULL.
bool hearth_through_experts_is_on(const struct hearth_through_experts *t, int layer);
// What the experts of a layer took, in all.
void hearth_through_experts_note(struct hearth_through_experts *t, int layer, uint64_t ns);
// The evaluation is over, and every layer of it was computed, if it is `whole`.
void hearth_through_experts_finish(struct hearth_through_experts *t, bool whole);

// ---- a layer: add() for each expert that takes() says yes to, begin() now and then, then end()

// Whether an expert that so many rows use is to pass.
bool hearth_through_experts_takes(const struct hearth_through_experts *t, int layer, int n_rows);
// An expert, all of whose neurons are in memory; rows [want->n_rows x E] get its outputs in the end, without the bias of
// down. False: the device has failed, and nothing has become of this one.
bool hearth_through_experts_add(struct hearth_through_experts *t, int layer, const struct hearth_want *want,
                                float *rows);
// Has the device begin with what was added.
void hearth_through_experts_run(struct hearth_through_experts *t);
// Waits for all that was added. Returns how many of those the CPU has to compute, as the device has failed:
// *wants, which are to be asked for anew.
uint32_t hearth_through_experts_end(struct hearth_through_experts *t, struct hearth_want **wants);

#endif
