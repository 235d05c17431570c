// SPDX-License-Identifier: MIT
// Whole layers on devices: the last ones of the model with their part of the KV cache, and the head. The bits are those
// of the CPU (accel/operations.h), so nobody can tell where a layer was computed. Of several devices each has layers
// that follow one another; a batch comes to the host between two of them. Of a model with experts that have no room
// there, or of divided layers, a layer's attention alone is, with its part of the cache: the batch comes to the host behind
// it, for the rest.
//
// What a device stores in its cache comes to the session's pages, too. So forks, files and failures need not know of
// it: when it fails, the CPU computes its layers from the first one on, with all that it needs.
#ifndef HEARTH_ENGINE_OFFLOAD_H
#define HEARTH_ENGINE_OFFLOAD_H

#include "accel/operations.h"
#include "engine/device_shared.h"
#include "engine/hot.h"
#include "engine/hot_experts.h"
#include "engine/offload_moe.h"
#include "engine/offload_through.h"
#include "engine/offload_weights.h"
#include "engine/placement.h"
#include "engine/session.h"
#include "engine/through_experts.h"

#define HEARTH_OFFLOAD_ALL (-1) // layers: as many as there is memory for

struct hearth_offload_params {
    struct hearth_accel_params device; // or several, as hearth_accel_choose() takes them
    uint64_t vram;                     // bytes of each device's memory; 0: hearth_offload_vram()
    const uint64_t *vrams;             // [n_vrams] of each of them, as above; n_vrams 0: `vram` of all
    const float *shares; // [n_shares] of the layers, of each device; n_shares 0: by speed and room
    int n_vrams, n_shares;
    int layers;      // of all devices; the head is one behind the last; or HEARTH_OFFLOAD_ALL
    int hot_percent; // of hot neurons and experts: device_hot_percent of struct hearth_session_params
    struct hearth_cpu_experts cpu_experts; // layers none of whose experts go to a device
    int fail_device;                       // for tests: which one device.fail_at is of
    enum hearth_device_prompts prompts;    // of a session with one device; with several never
};

// A layer's weights as struct hearth_layer has them, and its part of the cache.
struct hearth_offload_layer {
    struct hearth_accel_weight w[HEARTH_LAYER_WEIGHTS];       // of experts all of them, side by side
    struct hearth_accel_memory scales[HEARTH_EXPERT_FACTORS]; // [X] of experts' gate, up and down, or none
    struct hearth_accel_cache cache;
};
#define HEARTH_OFFLOAD_WEIGHT(l, role)                                                                       \
    (&(l)->w[offsetof(struct hearth_layer, role) / sizeof(struct hearth_weight)])

// Rows of one class: what lasts from layer to layer, [rows x ...] of numbers.
struct hearth_offload_rows {
    struct hearth_accel_memory x, q, branch, cos_sin, cos_sin_window, places, copy;
    struct hearth_accel_memory both, gate; // queries with what gates the output; gates that are apart
    struct hearth_accel_memory growth;     // of queries
    struct hearth_accel_memory scores, ids, weights; // of all experts; of those that are chosen
    struct hearth_accel_memory tiles; // of heads, each with a matrix of its own (offload_latent.c),
    size_t n_tiles;                   // how many there are,
    int tiled;                        // and of how many rows
    int cap, n;                       // rows that there is room for, and that there are
    int first;                        // row of the batch
    size_t copy_at;                   // where a layer's keys and values begin in copy
    size_t ranges;                    // of the longest row's positions
    bool is_prompt;
};

// A device of a session.
struct hearth_offload {
    struct hearth_offload *next;         // with later layers; or NULL
    struct hearth_device_shared *shared; // of all devices: the first one's
    struct hearth_device_shared own_shared;
    bool *elsewhere; // [n_layer] layers that devices compute in this evaluation; the first device owns it
    struct hearth_accel *a;
    const struct hearth_session *s;
    uint64_t largest;                    // bytes of one piece of its memory
    uint64_t vram;                       // bytes of its memory that may be used,
    uint64_t reserved;                   // and of these what is kept free of the workspace
    double speed;                        // hearth_accel_speed(); 0: it was not measured
    int first, end;                      // layers [first, end) are here,
    bool attention;                      // or their attention alone
    bool head;                           // the head is
    bool works;                          // false: it has failed, and the CPU goes on
    struct hearth_offload_layer *layers; // [end - first]
    struct hearth_accel_weight output;
    struct hearth_through *through;     // of prompts, the other layers, where it is the only device; or NULL
    struct hearth_hot *hot;             // of layers that are the CPU's; or NULL
    struct hearth_hot_experts *experts; // or NULL
    struct hearth_through_experts
        *passing; // of layers with experts, in prompts, where it is the only device; or NULL
    struct hearth_offload_rows rows[2]; // of prompts, of steps

    // What a class uses while a part of a layer is computed; all that is used after one another.
    struct hearth_accel_memory h, acts, k, v, out, gate, up, mask, fc1, inner, parts, shares, pages;
    struct hearth_accel_memory q_acts; // queries as activations, where keys are in blocks
    struct hearth_accel_memory ones;   // weights of norms that have none
    struct hearth_accel_memory latent_low, latent_heads, latent_by_head; // as offload_latent.c has them
    struct hearth_accel_memory slopes;    // of heads' scores, where these fall with the distance
    struct hearth_accel_memory low, high; // what comes of adapters' A, and of B
    struct hearth_offload_moe moe;        // of experts, where layers are whole
    struct hearth_accel_memory
        seen[2]; // steps' inputs of two feed-forward parts, where predictors look at them
    struct hearth_accel_memory head_h, head_acts, logits;
    int head_rows; // that the head takes together

    uint8_t *copy[2];   // keys and values of two layers on their way to the pages
    uint8_t *step_copy; // those of steps in all layers; NULL where only attention is here
    float *seen_copy;   // [max_steps x E] what predictors behind its layers look at, on its way; or NULL
    float *shared_copy; // [T x E] experts that all tokens use, on their way; or NULL
    size_t copy_row;    // bytes of a row and layer, at most
    float *growth;      // [rows] on its way
    struct hearth_accel_tile *latent_tiles; // of either class, on their way; or NULL
    int32_t *places; // [2 x cap] and page numbers of all sequences, on their way to the device
    int32_t *page_numbers;
    size_t max_pages;
    uint64_t *births; // [pages] when the device got its copy of a page,
    int *known;       // [pages] and how many positions of it
    uint64_t tokens;  // rows that went through layers here

    // Of the batch: the layer with which it comes here, n_layer: never; and when the CPU began with the layers before.
    int from;
    uint64_t began_ns; // 0: nobody wants to know
    bool attends;      // its layers' attention is computed here,
    int part;          // and the part whose first row this is has its tables here; -1: none has
    // When a part of it came here, and what all parts took to pass the layers that are not here.
    uint64_t part_ns, passed_ns;
};

// Opens the devices: *out is the first of them. HEARTH_E_INVALID, HEARTH_E_UNSUPPORTED, HEARTH_E_MEMORY (of the host).
int hearth_offload_find(struct hearth_offload **out, const struct hearth_session *s,
                        const struct hearth_offload_params *params, struct hearth_error *err);
// What would fit there, but for hot experts. False: there are several devices, or how much of its memory may be used is
// not known before the session has its weights.
bool hearth_offload_foresee(const struct hearth_offload *o, const struct hearth_offload_params *params,
                            struct hearth_placement *out);
// The same of a device that is not open, with all of its memory free. False also where there is no such device.
bool hearth_offload_guess(struct hearth_placement *out, const struct hearth_session *s,
                          const struct hearth_offload_params *params);
// Brings there what fits. The session has its weights. HEARTH_E_IO, HEARTH_E_MEMORY (of the host); a device with too
// little memory has fewer layers, or none.
int hearth_offload_place(struct hearth_offload *o, const struct hearth_offload_params *params,
                         struct hearth_error *err);
// find() and place().
int hearth_offload_open(struct hearth_offload **out, const struct hearth_session *s,
                        const struct hearth_offload_params *params, struct hearth_error *err);
void hearth_offload_close(struct hearth_offload **offload); // all of them

// Bytes that are taken of a device's memory where nobody says how many: nine tenths of what is unused there; of a
// device that shares the system's memory at most half of `ram`, which others can still take of that.
uint64_t hearth_offload_vram(const struct hearth_accel_info *device, uint64_t unused, uint64_t ram);
// What may be used of device i's memory, where somebody says; else 0.
uint64_t hearth_offload_given_vram(const struct hearth_offload_params *params, int i);
// Of each device's memory, to its `vram`. The session's budget is claimed by now. Two that are one device share what is
// unused there, and those that share the system's memory what is free of that.
void hearth_offload_choose_vram(struct hearth_offload *first, const struct hearth_offload_params *params);

// ---- evaluations (offload.c); o: the first device

// Which layers [n_layer] devices compute, so that their weights are not needed; where one fails, its layers are the CPU's
// in this table from then on. And the layer with which a device takes the batch becomes its `from`: where layers of the
// CPU pass through it, this comes before its own ones. To be called for each batch before its first layer.
const bool *hearth_offload_begin(struct hearth_offload *o);
bool hearth_offload_has_head(const struct hearth_offload *o);
// Takes the rows of work.x through the layers of the device that takes the batch with this one. Returns the layer behind
// them, or this one: nothing has changed, as the device has failed and the CPU is to go on, or the evaluation is given up,
// and its fault is raised.
int hearth_offload_run(struct hearth_offload *o, int layer);
// The attention of a layer whose other part is the CPU's: work.x becomes what comes to its feed-forward part. False: nothing
// has changed, and it is the CPU's, as no device has it, or one has failed. o may be NULL.
bool hearth_offload_attend(struct hearth_offload *o, int layer);
// After the batch's last layer, wherever it was computed: time for what needs some, while nobody waits for a layer.
void hearth_offload_end(struct hearth_offload *o);
// The head of n rows of work.h of one class, to logits. False: as above.
bool hearth_offload_head(struct hearth_offload *o, bool is_prompt, const float *h, float *logits, int n);

// ---- layers

// Whether a device may have the layer, or, with experts, whether there is attention of it that it could have.
bool hearth_offload_knows(const struct hearth_session *s, int layer);
// A layer's part of the cache, without its pages, and what these take.
struct hearth_accel_cache hearth_offload_cache(const struct hearth_session *s, int layer);
uint64_t hearth_offload_cache_bytes(const struct hearth_session *s, int layer);
// Layers whose attention alone is on a device.
int hearth_offload_attention(const struct hearth_offload *o);

// Whether layers of a dense model are divided: attention of all of them is here, and hot neurons.
static inline bool hearth_offload_is_divided(const struct hearth_offload *o)
{
    return o->attention && !o->s->model->hp.n_expert;
}

// Hot neurons and experts of all devices: the first of those that are linked; or NULL.
static inline struct hearth_hot *hearth_offload_hot(const struct hearth_offload *o)
{
    while (o && !o->hot)
        o = o->next;
    return o ? o->hot : NULL;
}

static inline struct hearth_hot_experts *hearth_offload_experts(const struct hearth_offload *o)
{
    while (o && !o->experts)
        o = o->next;
    return o ? o->experts : NULL;
}

// ---- a layer (offload_layer.c)

// Queries, keys and values of the rows; these are stored.
void hearth_offload_project(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer);
// Their attention, added to them: the first part of the rest of a layer whose parts follow one another.
void hearth_offload_add_attention(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer);
// Of their sum, the expert that all tokens use, to rows->branch.
void hearth_offload_share_expert(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer);
// The rest of the layer.
void hearth_offload_finish(struct hearth_offload *o, struct hearth_offload_rows *rows, int layer);

#endif
