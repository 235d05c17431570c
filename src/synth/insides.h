// SPDX-License-Identifier: MIT
// Internals of synthetic models, shared by src/synth/. docs/synth.md explains the planting of statistics.
#ifndef HEARTH_SYNTH_INSIDES_H
#define HEARTH_SYNTH_INSIDES_H

#include "base/threads.h"
#include "synth/synth.h"
#include "synth/random.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "model/pack.h"

enum hearth_synth_arch {
    HEARTH_SYNTH_LLAMA,
    HEARTH_SYNTH_BAMBOO,
    HEARTH_SYNTH_OPT,
    HEARTH_SYNTH_FALCON,
    HEARTH_SYNTH_QWEN3MOE,
    HEARTH_SYNTH_GPTOSS,
    HEARTH_SYNTH_QWEN35MOE,
    HEARTH_SYNTH_DEEPSEEK2,
    HEARTH_SYNTH_GEMMA4,
    HEARTH_SYNTH_QWEN4EXP,
    HEARTH_SYNTH_DEEPSEEK32,
    HEARTH_SYNTH_GLM_DSA
};

// Some of a space's neurons and how often they are active. The probabilities rise evenly on a
// logarithmic scale.
struct hearth_synth_level {
    float share;     // share of the space's neurons
    float low, high; // probability that the gate is positive
};

struct hearth_synth_planting {
    struct hearth_synth_level levels[3]; // by falling probability; the shares add up to 1; all zero: no
                                         // neurons are planted
    // Share of the variance of the gates (of the routers) that comes from the slow half of the stream.
    float gate_slow, router_slow;
    float drift_turning, drift_fresh; // the same of a stream that drifts: from the turning part, and from
                                      // what the layer before has just written
    float popularity;                 // spread of the experts' mean scores, in standard deviations of a score
    float up_mean, up_tie;            // dReLU: mean of up and its correlation with gate, in units of its
                                      // standard deviation
};

// Latent attention and what comes with it (struct hearth_latent in model/model.h has the words).
struct hearth_synth_latent {
    uint32_t rank, q_rank, n_rot, still, value; // q_rank 0: queries in one step
    uint32_t n_ff_dense;                        // of the first layers, which have no experts
    uint32_t n_shared;                          // experts in one that all tokens use
    bool sigmoid;                               // experts chosen by sigmoids and a bias
    uint32_t n_dense;                           // layers without experts; 0: one, where it has neurons
    uint32_t choosers, chooser,
        chosen;        // heads that choose positions, their size, positions; 0: all are attended to
    uint32_t choosing; // the first three layers choose, and behind them every so many; 0: all do
};

// Layers of two kinds, with and without a window, and what comes with them (Gemma 4).
struct hearth_synth_kinds {
    uint32_t interval;            // of so many layers the last one has no window; 0: no such model
    uint32_t head_dim, n_head_kv; // of layers without a window
    bool keys_are_values;         // in these
    uint32_t borrowing;           // of so many last layers keys and values are those of earlier ones
    bool wide;                    // which have twice the neurons
    uint32_t n_embd_layer;        // of what a token gives each layer; 0: nothing
    uint32_t n_ff_dense;          // of the dense part beside experts
};

// Several residual streams and what comes with them (struct hearth_streams in model/model.h has the words).
struct hearth_synth_streams {
    uint32_t n, rank;                          // n 0: there is one
    uint32_t block, chosen, choosers, chooser; // positions; heads that choose, and their size
    uint32_t gram_heads, gram_dim,
        gram_rows; // rows for n-grams of each size, elements of one, rows of the table
};

struct hearth_synth_preset {
    const char *name, *what;
    enum hearth_synth_arch arch;
    uint32_t n_vocab, n_ctx, n_embd, n_ff, n_layer, n_head, n_head_kv, head_dim;
    float rope_theta;
    uint32_t n_expert, n_used;
    struct hearth_synth_latent latent;
    struct hearth_synth_kinds kinds;
    struct hearth_synth_streams streams;
    uint32_t n_shared;                     // neurons of the expert that all tokens use; 0: there is none
    uint32_t n_rot;                        // dimensions of a head that rotate; 0: all
    uint32_t attends;                      // every so many layers attend, others are recurrent; 0: all
    uint32_t rec_keys, rec_heads, rec_dim; // of recurrent layers: heads of keys, of values, elements of each
    uint32_t window;                       // of every other layer, or as `kinds` says; 0: none
    uint32_t n_ctx_orig;                   // extended 32-fold by YaRN; 0: not extended
    const char *activation; // feed_forward.activation: "relu", "drelu", or NULL: the architecture's
    bool pwri;              // written in PowerInfer's variant of the container
    bool pack;              // written as a pack, with neurons by falling probability
    uint32_t rank;          // rank of the predictors, a multiple of 32; 0: no predictors
    bool rank_varies;       // three of eight layers have 32 more, a mean of 12 more
    const struct hearth_synth_planting *planting; // NULL: all weights are random
};

// Whether it has gated attention between recurrent layers.
static inline bool hearth_synth_is_qwen35(const struct hearth_synth_preset *p)
{
    return p->arch == HEARTH_SYNTH_QWEN35MOE || p->arch == HEARTH_SYNTH_QWEN4EXP;
}

// Whether a layer has what chooses positions for latent attention.
static inline bool hearth_synth_chooses(const struct hearth_synth_latent *l, uint32_t layer)
{
    return l->choosers && (!l->choosing || layer < 3 || (layer - 2) % l->choosing == 0);
}

// Layers without experts, of a preset whose others have some.
static inline uint32_t hearth_synth_dense(const struct hearth_synth_latent *l)
{
    return l->n_ff_dense && !l->n_dense ? 1 : l->n_dense;
}

// Preset i; NULL after the last.
const struct hearth_synth_preset *hearth_synth_preset_at(int i);

static inline bool hearth_synth_is_windowed(const struct hearth_synth_preset *p, uint32_t layer)
{
    return (layer + 1) % p->kinds.interval != 0;
}

// Whether a layer attends to keys and values of an earlier one.
static inline bool hearth_synth_borrows(const struct hearth_synth_preset *p, uint32_t layer)
{
    return layer + p->kinds.borrowing >= p->n_layer;
}

// Neurons of a layer's dense part, where layers are of two kinds.
static inline uint32_t hearth_synth_neurons(const struct hearth_synth_preset *p, uint32_t layer)
{
    const uint32_t n = p->n_expert ? p->kinds.n_ff_dense : p->n_ff;
    return p->kinds.wide && hearth_synth_borrows(p, layer) ? 2 * n : n;
}

// Rank of the predictors of a layer; 0: none.
uint32_t hearth_synth_rank(const struct hearth_synth_preset *p, uint32_t layer);

// The source of a tensor's numbers. Planted tensors have F rows or, in a predictor, R rows for each expert.
enum hearth_synth_fill {
    HEARTH_SYNTH_ONES,
    HEARTH_SYNTH_ZEROS,
    HEARTH_SYNTH_DECAYS, // of recurrent layers: how fast states fade
    HEARTH_SYNTH_TAPS,   // of their convolutions
    HEARTH_SYNTH_SAME,   // each element is `stddev`
    HEARTH_SYNTH_TURNS,  // factors of frequencies: of each head a quarter rotates
    HEARTH_SYNTH_RANDOM,
    HEARTH_SYNTH_EMBEDDING,
    HEARTH_SYNTH_HEAD,
    HEARTH_SYNTH_ROUTER,
    HEARTH_SYNTH_PLANTED_GATE,
    HEARTH_SYNTH_PLANTED_UP,
    HEARTH_SYNTH_PLANTED_BIAS,
    HEARTH_SYNTH_PLANTED_FC1,
    HEARTH_SYNTH_PLANTED_FC2,
    HEARTH_SYNTH_PLANTED_DOWN,
    HEARTH_SYNTH_BUNDLES,
    HEARTH_SYNTH_FILLS
};

struct hearth_synth_tensor {
    char name[80];
    enum hearth_synth_fill fill;
    uint64_t k, n, x; // x matrices of n rows of k elements; n == 0: vectors
    uint32_t layer;
    float stddev; // of RANDOM; of SAME the value itself
};

// A stream that drifts, as one layer's feed-forward part sees it. Products are with the stream before the
// norm.
struct hearth_synth_view {
    float *weight;   // [E] standard deviations of a random row whose product with the stream has variance 1
    float *variance; // [E] of the stream's elements
    float *expected; // [E] their means
    float *detect;   // [E] a row whose product with the means is 1
    float *code, *code_detect; // [E] weight and detect of rows that see a token's code alone, 0 elsewhere
    float size;                // root mean square of the stream
};

// A model that is being made.
struct hearth_synth {
    const struct hearth_synth_preset *p;
    const struct hearth_synth_params *params;
    struct hearth_gguf_writer *w;
    struct hearth_pool *pool;
    struct hearth_kernels kernels;
    uint8_t *buffer;         // [HEARTH_SYNTH_BUFFER]
    uint64_t written, total; // bytes of tensor data
    struct hearth_error *err;

    // The planted stream; absent if nothing is planted. E: embedding width, F: neurons of a space.
    float *last_code; // [E] code of the last token, set when the embedding has been written
    float *constant;  // [E] the part that all tokens share: +1 and -1
    // [F] thresholds of a standard normal gate, falling: P(x + threshold > 0) is the probability
    // of the neuron.
    float *threshold;
    // Root mean square of the output of one layer's attention, and of its feed-forward part.
    float gain;
    float down_stddev;             // of the down matrices
    struct hearth_synth_view view; // of a stream that drifts
    struct hearth_bundle bundle;   // of a pack
};

#define HEARTH_SYNTH_BUFFER    ((size_t)4 << 20)
#define HEARTH_SYNTH_TAP_COUNT 4 // of convolutions
// n-grams of 2 to so many tokens, which feed this layer.
#define HEARTH_SYNTH_GRAM_SIZE  3
#define HEARTH_SYNTH_GRAM_LAYER 1

// A token's stream at the model's input is constant * CONSTANT + code * sqrt(1 - CONSTANT^2), with mean
// square 1. Codes have mean square 1 in each half, and each half is orthogonal to the constant.
#define HEARTH_SYNTH_CONSTANT 0.45f
#define HEARTH_SYNTH_CODE     0.893f
// What an element of the stream belongs to.
enum hearth_synth_kind {
    HEARTH_SYNTH_SLOW,    // part of a code that hardly changes from token to token
    HEARTH_SYNTH_FAST,    // part of a code that is new in each token
    HEARTH_SYNTH_TURNING, // part of a code that turns round from token to token; where the stream drifts
    HEARTH_SYNTH_WRITTEN, // nothing of the code: what a layer writes; where the stream drifts
    HEARTH_SYNTH_KINDS
};
// The kinds take turns in blocks of 32.
static inline enum hearth_synth_kind hearth_synth_kind_of(bool drift, size_t i)
{
    const size_t block = i / 32;
    if (!drift)
        return block % 2 ? HEARTH_SYNTH_FAST : HEARTH_SYNTH_SLOW;
    if (block % 2)
        return HEARTH_SYNTH_WRITTEN;
    return block % 8 == 0 ? HEARTH_SYNTH_SLOW : block % 8 == 4 ? HEARTH_SYNTH_TURNING : HEARTH_SYNTH_FAST;
}
static inline bool hearth_synth_is_slow(size_t i)
{
    return hearth_synth_kind_of(false, i) == HEARTH_SYNTH_SLOW;
}

// First part of the numbers of random streams; a tensor's own number is below 2^32.
#define HEARTH_SYNTH_STREAM_SPACE  ((uint64_t)1 << 32) // + layer * n_expert + expert
#define HEARTH_SYNTH_STREAM_CODE   ((uint64_t)2 << 32)
#define HEARTH_SYNTH_STREAM_COMMON ((uint64_t)3 << 32)
#define HEARTH_SYNTH_STREAM_DOWN   ((uint64_t)4 << 32) // + layer * n_expert + expert

// ---- tensors.c
// Whether the preset's neurons are planted, not only its stream and routers.
bool hearth_synth_has_neurons(const struct hearth_synth_preset *p);
// Lists the model's tensors, in the order in which they are written; NULL: only counts them. Returns their
// number. s has its preset, and its stream where the preset has one.
size_t hearth_synth_list(const struct hearth_synth *s, struct hearth_synth_tensor *tensors);
uint64_t hearth_synth_bytes(const struct hearth_synth_tensor *t); // of the tensor's data
// Adds the tensor to the file's directory and its bytes to s->total.
int hearth_synth_declare(struct hearth_synth *s, const struct hearth_synth_tensor *t);
// Writes the next n bytes of tensor data and reports progress.
int hearth_synth_write(struct hearth_synth *s, const void *src, size_t n);

// ---- vocab.c
// Adds all tokenizer keys.
int hearth_synth_put_vocabulary(struct hearth_synth *s);
#define HEARTH_SYNTH_FIRST_WORD 259 // tokens before it are special, or single bytes

// ---- stream.c: the planted stream
// Fills constant, threshold, gain and down_stddev. hearth_synth_free_stream() frees them.
int hearth_synth_open_stream(struct hearth_synth *s);
void hearth_synth_free_stream(struct hearth_synth *s);
// Write the embedding [V x E], and the head [V x E] that follows the codes from token to token.
int hearth_synth_write_embedding(struct hearth_synth *s);
int hearth_synth_write_head(struct hearth_synth *s);
// Writes a layer's router [X x E], f32.
int hearth_synth_write_router(struct hearth_synth *s, uint32_t layer);

// ---- sizes.c: how large what is planted comes out
// Mean square that layers have added to the stream (attention alone, if the stream drifts) before the
// feed-forward part of `layer` (before the head if layer is n_layer).
float hearth_synth_added(const struct hearth_synth *s, uint32_t layer);
// The quantile of a standard normal number: it is below the result with probability p.
double hearth_synth_quantile(double p);
// Whether planted neurons are dReLU's, whose gates and ups go together.
static inline bool hearth_synth_is_drelu(const struct hearth_synth *s)
{
    return s->p->planting->up_tie != 0.0f;
}
// E(activation^power), power 1 or 2, of a planted neuron with this threshold, where gates and ups have
// variance 1.
double hearth_synth_activation(const struct hearth_synth *s, double threshold, int power);

// ---- drift.c: a stream that changes from layer to layer
// Allocates s->view. hearth_synth_free_view() frees it.
int hearth_synth_open_view(struct hearth_synth *s);
void hearth_synth_free_view(struct hearth_synth *s);
// Elements of a kind in the stream.
size_t hearth_synth_count(const struct hearth_synth *s, enum hearth_synth_kind kind);
// Fills s->view for the feed-forward part of `layer` (for the head if layer is n_layer, without weights).
void hearth_synth_look(struct hearth_synth *s, uint32_t layer);
// How a layer's down matrix writes: neuron by neuron the same, but for the signs.
struct hearth_synth_writing {
    size_t first, n_blocks; // of the stream it writes to every second block of 32 elements, from `first` on
    uint32_t n_neurons;     // so many of the most active ones write more than a constant
    float stddev;           // of the elements there
    float constant;         // multiple of the stream's constant that is added to them
};
struct hearth_synth_writing hearth_synth_writing_of(struct hearth_synth *s, uint32_t layer);

// ---- space.c: planted neurons
// The matrices of one space, in Q4_0. R: rank, F: neurons, E: embedding width.
struct hearth_synth_space {
    uint8_t *gate, *up; // [F x E]; gate is NULL if up is the gate
    float *bias;        // [F]; NULL: the thresholds are in the matrix
    uint8_t *fc1, *fc2; // [R x E] [F x R]
    uint8_t *down;      // [F x E]; NULL: random, and made elsewhere
};

// Scratch memory for making spaces, sized for the largest rank.
struct hearth_synth_maker;
int hearth_synth_maker_open(struct hearth_synth_maker **out, struct hearth_synth *s);
void hearth_synth_maker_close(struct hearth_synth_maker **m);
// Makes the space of (layer, expert). `sorted`: neurons by falling probability, else in random order.
void hearth_synth_make_space(struct hearth_synth_maker *m, uint32_t layer, uint32_t expert, bool sorted,
                             const struct hearth_synth_space *out);

// ---- planted.c: tensors that consist of spaces
struct hearth_synth_planted;
// Allocates buffers for the planted ones of these n tensors.
int hearth_synth_planted_open(struct hearth_synth_planted **out, struct hearth_synth *s,
                              const struct hearth_synth_tensor *tensors, size_t n);
void hearth_synth_planted_close(struct hearth_synth_planted **p);
// Writes such a tensor, number `stream` of the model. A layer's tensors come in the order of the
// fills above; in a pack, bundles come first.
int hearth_synth_planted_write(struct hearth_synth_planted *p, const struct hearth_synth_tensor *t,
                               uint64_t stream);
// Adds a pack's keys.
int hearth_synth_put_pack_keys(struct hearth_synth *s);

#endif
