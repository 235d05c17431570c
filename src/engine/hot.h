// SPDX-License-Identifier: MIT
// Hot neurons on a device: the first clusters of the spaces of layers that are the CPU's otherwise. In steps that go by
// neuron the device computes these while the CPU computes the others, and the CPU adds up all of them in ascending
// order. In a pack the first neurons are those that are active most often. Predictors are there, too, where there is room
// for those of all these layers: all their bytes are read in each step, which few neurons' are.
#ifndef HEARTH_ENGINE_HOT_H
#define HEARTH_ENGINE_HOT_H

#include "accel/operations.h"
#include "engine/share.h"
#include "model/model.h"

struct hearth_session;

// Rows of its gates, ups and downs.
struct hearth_hot_layer {
    size_t clusters, neurons;
    struct hearth_accel_weight gate, up, down, gate_b, up_b;
    struct hearth_accel_weight fc1, fc2; // the predictor, or none
};

struct hearth_hot {
    struct hearth_hot *next; // another device's, of later layers; or NULL
    struct hearth_accel *a;
    const struct hearth_session *s;
    bool *works;                     // the device does
    int first, end;                  // layers [first, end) have some here
    struct hearth_hot_layer *layers; // [end], those before `first` empty
    struct hearth_accel_memory x, acts, mask, gate, up, parts, out;
    struct hearth_accel_memory seen, hidden, inner, scores, first_scores; // of predictors
    uint8_t *masks;     // [rows x neurons] of the pass: what each row computes
    float *sum;         // [rows x E] what comes of it
    float *host_scores; // [rows x F] of predictors; NULL: none is here
    void *event, *scores_event;
    uint64_t neurons;          // in all
    struct hearth_share share; // of them, where the CPU has all neurons in memory, too
};

// Layers [first, end) of a session, as far as `room` bytes of the device's memory go; *out is NULL where there is no
// room, or no such layer. HEARTH_E_IO, HEARTH_E_MEMORY (of the host).
int hearth_hot_open(struct hearth_hot **out, const struct hearth_session *s, struct hearth_accel *a,
                    bool *works, int first, int end, uint64_t room, struct hearth_error *err);
void hearth_hot_close(struct hearth_hot **hot); // this one alone
// Whether all layers have neurons for a device.
bool hearth_hot_knows(const struct hearth_session *s);
// How many neurons these would be, of layers [0, end).
uint64_t hearth_hot_count(const struct hearth_session *s, int end, uint64_t room);

// Of those that are linked, the one whose layer this is; NULL: none.
static inline struct hearth_hot *hearth_hot_of(struct hearth_hot *h, int layer)
{
    while (h && layer >= h->end)
        h = h->next;
    return h && layer >= h->first ? h : NULL;
}

// Clusters of the layer, which is one of its own, that the device has: the first ones.
static inline size_t hearth_hot_clusters(const struct hearth_hot *h, int layer)
{
    return h && *h->works ? h->layers[layer].clusters : 0;
}

// Those that it takes in a step of n_rows where the CPU could compute all.
static inline size_t hearth_hot_share(const struct hearth_hot *h, int layer, int n_rows)
{
    const size_t n = hearth_hot_clusters(h, layer);
    return n ? hearth_share_part(hearth_share_of(&h->share, n_rows), n) : 0;
}

// Has the first `clusters` of them computed for n_rows rows of x [n_rows x E], at most HEARTH_STEP_ROWS, with h->masks
// [n_rows x neurons of these].
void hearth_hot_begin(struct hearth_hot *h, int layer, size_t clusters, const float *x, int n_rows);
// Whether the device has the layer's predictor, too.
static inline bool hearth_hot_asks(const struct hearth_hot *h, int layer)
{
    return h && *h->works && h->layers[layer].fc1.n;
}

// hearth_hot_begin() of neurons that the layer's predictor names, which the device asks; it gets the rows of `seen`, which
// may be x. The scores of all neurons of the layer come to h->host_scores [n_rows x F].
void hearth_hot_ask(struct hearth_hot *h, int layer, size_t clusters, const float *x, const float *seen,
                    int n_rows);
// Waits for these. False: the device has failed, and hearth_hot_end() is not called.
bool hearth_hot_scores(struct hearth_hot *h);
// Waits for that: h->sum is the sum of the clusters' contributions, in ascending order. False: the device has failed.
bool hearth_hot_end(struct hearth_hot *h);

#endif
