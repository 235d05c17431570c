// SPDX-License-Identifier: MIT
// Test support: small random models of any architecture, written from the architecture's own tables, with
// single facts changed as a test likes.
#ifndef HEARTH_TESTS_MADE_MODELS_H
#define HEARTH_TESTS_MADE_MODELS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/arch.h"

enum {
    MADE_E = 32,
    MADE_HEADS = 4,
    MADE_KV_HEADS = 2,
    MADE_F = 48,
    MADE_F_EXP = 16,
    MADE_F_SHARED = 24,
    MADE_LAYERS = 2,
    MADE_PARTS = 3 // layers where each is one part: a scan, attention, a feed-forward part
};
// Latent attention.
enum { MADE_LATENT = 32, MADE_ROT = 8, MADE_STILL = 12, MADE_VALUE = 16, MADE_Q_RANK = 20 };
enum { MADE_GIVEN = 56 }; // more than the width, and than neurons
enum { MADE_REC_TAPS = 4, MADE_REC_KEYS = 1, MADE_REC_HEADS = 2, MADE_REC_DIM = 16, MADE_REC_STATE = 32 };
enum { MADE_SMALL = 20 }; // of experts that do not read the stream itself
// Several streams, chosen positions, n-grams: of 2 and 3 tokens, two rows each.
enum {
    MADE_STREAMS = 3,
    MADE_MIX_RANK = 20,
    MADE_CHOOSER = 12,
    MADE_CHOOSER_HEADS = 2,
    MADE_BLOCK = 4,
    MADE_CHOSEN = 16
};
enum { MADE_GRAM = 20, MADE_GRAMS = 3, MADE_GRAM_HEADS = 2, MADE_GRAM_TAPS = 3, MADE_GRAM_ROWS = 90 };
// Balanced streams, positions of one vector, which blocks blend: heads of attention's output in groups.
enum { MADE_GROUPS = 2, MADE_OUT_RANK = 12, MADE_TURNING = 4, MADE_BLEND_WINDOW = 20, MADE_BEST = 3 };
enum { MADE_VOCAB = 272, MADE_EXPERTS = 6, MADE_USED = 2, MADE_CTX = 256, MADE_RANK = 24 };

// One metadata entry: a number ('u', 'f'), a bool ('b'), text ('s'), or a number for each layer,
// always the same ('a'), one more each ('d') or MADE_F more each ('w'). `key` is without "<arch>.", which only
// keys that begin with "hearth." or "xielu." lack in the file, too.
struct made_kv {
    const char *key;
    char kind;
    double number;
    const char *text;
};

struct made {
    const char *arch;
    bool experts;
    bool optional;      // with optional tensors, but for rope_freqs and the second norm of a parallel layer
    bool split_experts; // a tensor per expert
    bool small;         // experts read a projection of the stream
    bool shared;        // with an expert that all tokens use
    bool two_step_q;    // latent attention: queries are made in two steps
    bool joint;         // keys' and values' matrices are one
    bool leading;       // the first layer has no experts
    bool fused;         // experts have gate and up in one tensor; queries, keys and values are in one
    bool one_norm;      // both parts of a layer are behind one norm
    bool gives;         // tokens give each layer something
    bool grams;         // n-grams of tokens feed the first layer
    bool borrows;       // the last layer attends to keys and values of the first
    bool no_choice;     // nothing chooses positions
    bool shares_choice; // the last layer attends to the positions that the first chose
    bool two_widths;    // the last layer has more neurons
    bool by_neuron;     // down stored by neuron
    bool predictors;    // and these,
    bool wide;          // which see besides what they look at
    uint32_t blocks[MADE_LAYERS]; // positions that are blended to one; none: 4 and 8
    bool by_token;                // a table says which experts tokens use in the first layer,
    uint32_t bad_token;           // of this one that there is no such expert; 0: of none
    bool jump;                    // with a linear part, and biases of gates
    bool zero_router;             // all experts score the same
    bool plain_norms;             // norms only scale: their weights are 1
    uint32_t ff;                  // neurons of a dense part; 0: MADE_F
    uint32_t vocab;               // rows of embedding and head, at least MADE_VOCAB; 0: MADE_VOCAB
    const char *without;          // a tensor or key to leave out
    const char *reshape;          // a tensor to give one row, or element, more
    const char *extra;            // a tensor to add
    uint64_t extra_n;             // its elements; 0: MADE_E
    uint32_t type;                // of all tensors: F32, F16, BF16, or one whose data then is zeros
    // Another value than the usual one for an element of a tensor; NULL: the usual ones.
    float (*value)(const char *tensor, uint64_t row, uint64_t column, float usual);
    // Added to an element, or NULL.
    float (*add)(const char *tensor, uint64_t matrix, uint64_t row, uint64_t column);
    struct made_kv set[8];
};

static inline enum hearth_recurrence_kind made_recurrence(const struct made *made)
{
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    return arch ? arch->recurrence : HEARTH_RECURRENCE_NONE;
}

static inline bool made_is_conv(const struct made *made)
{
    return made_recurrence(made) == HEARTH_RECURRENCE_CONV;
}

// Whether each key of the delta rule fades at a rate of its own.
static inline bool made_is_each(const struct made *made)
{
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    return arch && arch->rec_each;
}

// Whether all layers are recurrent and attend besides.
static inline bool made_is_beside(const struct made *made)
{
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    return arch && arch->rec_beside;
}

// Whether heads' states fade at rates that no token changes. Heads of all layers are as large then.
static inline bool made_is_fixed(const struct made *made)
{
    return made_recurrence(made) == HEARTH_RECURRENCE_FIXED;
}

static inline bool made_is_scan(const struct made *made)
{
    return made_recurrence(made) == HEARTH_RECURRENCE_SCAN;
}

// Whether a layer is one part only.
static inline bool made_is_one_part(const struct made *made)
{
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    return arch && arch->one_part;
}

// Whether positions have one vector, and layers blend these; and how many at a time.
static inline bool made_blends(const struct made *made)
{
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    return arch && arch->blends;
}
static inline uint32_t made_block(const struct made *made, int layer)
{
    const bool usual = !made->blocks[0] && !made->blocks[1];
    return usual ? 4u << layer : made->blocks[layer];
}

// Whether each head of keys and values has a choice, in layers with experts.
static inline bool made_chooses_each(const struct made *made)
{
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    return arch && arch->choosing == HEARTH_CHOOSING_EACH;
}

static inline int made_layers(const struct made *made)
{
    return made_is_one_part(made) ? MADE_PARTS : MADE_LAYERS;
}

static inline bool made_feeds(const struct made *made, int layer)
{
    return !made_is_one_part(made) || layer == MADE_PARTS - 1;
}

// Of a scan.
static inline uint64_t made_channels(void)
{
    return MADE_REC_HEADS * MADE_REC_DIM + 2 * MADE_REC_KEYS * MADE_REC_STATE;
}

static inline bool made_is_gemma4(const struct made *made)
{
    return !strcmp(made->arch, "gemma4");
}

// layer: -1 for tensors of no layer. gemma4's second layer has a window, half as large heads, and one more of keys and
// values; unless it borrows those of the first.
static inline uint64_t made_dim(const struct made *made, enum hearth_dim dim, int layer)
{
    const bool two_kinds = made_is_gemma4(made) && !made->borrows, windowed = two_kinds && layer > 0;
    const uint64_t head = (uint64_t)(made_is_fixed(made) ? MADE_REC_DIM
                                     : windowed          ? MADE_E / MADE_HEADS / 2
                                                         : MADE_E / MADE_HEADS);
    const bool fewer = (two_kinds && !windowed) || made_blends(made);
    const uint64_t kv_heads = (uint64_t)(fewer ? MADE_KV_HEADS - 1 : MADE_KV_HEADS);
    switch (dim) {
    case HEARTH_DIM_NONE:
    case HEARTH_DIM_ONE:
        return 1;
    case HEARTH_DIM_EMBD:
        return MADE_E;
    case HEARTH_DIM_EMBD_TWICE:
        return 2 * MADE_E;
    case HEARTH_DIM_Q:
        return MADE_HEADS * head;
    case HEARTH_DIM_EMBD_LAYER:
        return (uint64_t)MADE_GIVEN;
    case HEARTH_DIM_EMBD_LAYERS:
        return MADE_GIVEN * MADE_LAYERS;
    case HEARTH_DIM_FF:
        return (made->ff ? made->ff : MADE_F) + (made->two_widths && layer > 0 ? MADE_F : 0);
    case HEARTH_DIM_FF_EXP_TWICE:
        return 2 * MADE_F_EXP;
    case HEARTH_DIM_FF_EXP:
        return MADE_F_EXP;
    case HEARTH_DIM_FF_TWICE:
        return 2 * (made->ff ? made->ff : MADE_F);
    case HEARTH_DIM_FF_SHARED:
        return made_is_gemma4(made) ? MADE_F : MADE_F_SHARED;
    case HEARTH_DIM_HEADS:
    case HEARTH_DIM_HEADS_OR_Q:
        return MADE_HEADS;
    case HEARTH_DIM_HEADS_KV:
        return MADE_KV_HEADS;
    case HEARTH_DIM_KV:
        return kv_heads * head;
    case HEARTH_DIM_V: // half as large
        return kv_heads * head / 2;
    case HEARTH_DIM_O:
        return MADE_HEADS * head / 2;
    case HEARTH_DIM_QKV:
        return MADE_E + 2 * kv_heads * head;
    case HEARTH_DIM_HEAD:
        return head;
    case HEARTH_DIM_VOCAB:
        return made->vocab ? made->vocab : MADE_VOCAB;
    case HEARTH_DIM_ROT2:
    case HEARTH_DIM_HEAD2:
        return head / 2;
    case HEARTH_DIM_EXPERTS:
        return MADE_EXPERTS;
    case HEARTH_DIM_POS:
        return MADE_CTX + 2;
    case HEARTH_DIM_Q_TWICE:
        return 2 * MADE_E;
    case HEARTH_DIM_REC_IN:
        if (made_is_fixed(made))
            return 3 * MADE_HEADS * MADE_REC_DIM;
        if (made_is_scan(made))
            return MADE_REC_HEADS * MADE_REC_DIM + made_channels() + MADE_REC_HEADS;
        return made_is_conv(made) ? 3 * MADE_E : (2 * MADE_REC_KEYS + MADE_REC_HEADS) * MADE_REC_DIM;
    case HEARTH_DIM_REC_CHANNELS:
        if (made_is_scan(made))
            return made_channels();
        return made_is_conv(made) ? MADE_E : (2 * MADE_REC_KEYS + MADE_REC_HEADS) * MADE_REC_DIM;
    case HEARTH_DIM_REC_TAPS:
        return MADE_REC_TAPS;
    case HEARTH_DIM_REC_VALUES:
        if (made_is_each(made) || made_is_fixed(made))
            return MADE_HEADS * MADE_REC_DIM;
        return made_is_conv(made) ? MADE_E : MADE_REC_HEADS * MADE_REC_DIM;
    case HEARTH_DIM_REC_HEADS:
        return made_is_each(made) ? MADE_HEADS : MADE_REC_HEADS;
    case HEARTH_DIM_REC_HEADS_TWICE:
        return 2 * MADE_REC_HEADS;
    case HEARTH_DIM_REC_HEAD:
        return MADE_REC_DIM;
    case HEARTH_DIM_REC_GROUPS:
        return MADE_REC_KEYS;
    case HEARTH_DIM_REC_GROUP:
        return MADE_REC_HEADS * MADE_REC_DIM / MADE_REC_KEYS;
    case HEARTH_DIM_EMBD_EXP:
        return made->small ? MADE_SMALL : MADE_E;
    case HEARTH_DIM_RANK:
        return MADE_RANK;
    case HEARTH_DIM_Q_RANK:
        return MADE_Q_RANK;
    case HEARTH_DIM_LATENT:
        return MADE_LATENT;
    case HEARTH_DIM_LATENT_KEY:
        return MADE_LATENT + MADE_ROT;
    case HEARTH_DIM_STILL:
        return MADE_STILL;
    case HEARTH_DIM_HEADS_QUERY:
        return MADE_HEADS * (MADE_STILL + MADE_ROT);
    case HEARTH_DIM_HEADS_BOTH:
        return MADE_HEADS * (MADE_STILL + MADE_VALUE);
    case HEARTH_DIM_HEADS_VALUE:
        return MADE_HEADS * MADE_VALUE;
    case HEARTH_DIM_VALUE:
        return MADE_VALUE;
    case HEARTH_DIM_STREAMS:
        return MADE_STREAMS * MADE_E;
    case HEARTH_DIM_STREAM_COUNT:
        return MADE_STREAMS;
    case HEARTH_DIM_STREAM_SQUARE:
        return MADE_STREAMS * MADE_STREAMS;
    case HEARTH_DIM_MIX_RANK:
        return MADE_MIX_RANK;
    case HEARTH_DIM_CHOOSER:
        return MADE_CHOOSER;
    case HEARTH_DIM_CHOOSER_Q:
        return MADE_CHOOSER * MADE_CHOOSER_HEADS;
    case HEARTH_DIM_CHOOSER_HEADS:
        return MADE_CHOOSER_HEADS;
    case HEARTH_DIM_MIX:
        return (2 + (made_blends(made) ? MADE_STREAMS : 0)) * MADE_STREAMS;
    case HEARTH_DIM_MIX_KINDS:
        return made_blends(made) ? 3 : 2;
    case HEARTH_DIM_OUT_GROUP:
        return MADE_HEADS * head / MADE_GROUPS;
    case HEARTH_DIM_OUT_LOW:
        return MADE_GROUPS * MADE_OUT_RANK;
    case HEARTH_DIM_BLEND:
        return made_block(made, layer) == HEARTH_OVERLAPPING ? 2 * head : head;
    case HEARTH_DIM_BLOCK:
        return made_block(made, layer);
    case HEARTH_DIM_CHOOSER_TWICE:
        return 2 * MADE_CHOOSER;
    case HEARTH_DIM_EXPERTS_USED:
        return MADE_USED;
    case HEARTH_DIM_GRAM:
        return MADE_GRAM;
    case HEARTH_DIM_GRAMS:
        return MADE_GRAM * MADE_GRAM_HEADS * (MADE_GRAMS - 1);
    case HEARTH_DIM_GRAM_ROWS:
        return MADE_GRAM_ROWS;
    case HEARTH_DIM_GRAM_TAPS:
        return MADE_GRAM_TAPS;
    }
    return 0;
}

struct made_tensor {
    char name[96];
    uint64_t ne[3];
    bool zero;
    bool whole; // numbers of experts
    uint32_t seed;
};

struct made_list {
    const struct made *made;
    struct made_tensor *tensors;
    size_t n;
};

static inline void made_add(struct made_list *l, const char *name, uint64_t k, uint64_t n, uint64_t m,
                            bool zero, uint32_t seed)
{
    const struct made *made = l->made;
    if (made->without && !strcmp(made->without, name))
        return;
    struct made_tensor *t = &l->tensors[l->n++];
    snprintf(t->name, sizeof t->name, "%s", name);
    const bool wrong = made->reshape && !strcmp(made->reshape, name);
    t->ne[0] = k + (wrong && n == 1);
    t->ne[1] = n + (wrong && n > 1);
    t->ne[2] = m;
    t->zero = zero;
    t->whole = strstr(name, "tid2eid") != NULL;
    t->seed = seed;
}

// Whether it is a part of queries, keys and values, which are in one tensor.
static inline bool made_is_part(const struct made *made, const struct hearth_binding *b)
{
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    return made->fused && arch && hearth_arch_has_need(arch, HEARTH_FUSED) &&
           (!strncmp(b->name, "attn_q.", 7) || !strncmp(b->name, "attn_k.", 7) ||
            !strncmp(b->name, "attn_v.", 7));
}

static inline void made_bind(struct made_list *l, const struct hearth_binding *b, const char *prefix)
{
    const struct made *made = l->made;
    const int at = *prefix ? atoi(prefix + 4) : -1;
    const bool feeds = at < 0 || made_feeds(made, at), mixes = at < 0 || !made_is_one_part(made) || !feeds;
    const bool experts = made->experts && feeds && !(made->leading && at == 0);
    const bool predictor = b->k == HEARTH_DIM_RANK || b->n == HEARTH_DIM_RANK;
    const bool maybe = b->need == HEARTH_MAYBE_DENSE || b->need == HEARTH_MAYBE_EACH;
    const bool jump = b->field == offsetof(struct hearth_layer, ffn_linear) ||
                      b->field == offsetof(struct hearth_layer, ffn_gate_b);
    const bool wanted = predictor ? made->predictors : jump ? made->jump : made->by_neuron;
    if (b->n == HEARTH_DIM_FF_EXP_TWICE ? !made->fused : maybe && !wanted)
        return;
    if (made->fused && b->need == HEARTH_EACH_EXPERT && b->n == HEARTH_DIM_FF_EXP)
        return;
    if (made_is_part(made, b))
        return;
    if (made->by_neuron && !maybe && !strncmp(b->name, "ffn_down", 8) && b->n != HEARTH_DIM_NONE &&
        b->need != HEARTH_SHARED)
        return;
    if ((!mixes && (b->need == HEARTH_MIXES || b->need == HEARTH_ATTENDS)) ||
        (!feeds && (b->need == HEARTH_FEEDS || b->need == HEARTH_DENSE || b->need == HEARTH_LEADING)) ||
        (b->need == HEARTH_SMALL_EXPERTS && !(experts && made->small)) ||
        (b->need == HEARTH_RECURS_TAPS && at != 0) ||
        (made_is_each(made) && at == 0 &&
         (b->need == HEARTH_WHOLE_Q || b->need == HEARTH_TWO_STEP_Q || b->need == HEARTH_JOINT ||
          b->need == HEARTH_EACH_HEAD)))
        return;
    if (((b->need == HEARTH_DENSE || b->need == HEARTH_MAYBE_DENSE) && made->experts) ||
        (b->need == HEARTH_LEADING && experts) || (b->need == HEARTH_SHARED && !(experts && made->shared)) ||
        ((b->need == HEARTH_EXPERTS || b->need == HEARTH_EACH_VECTOR || hearth_need_is_each(b->need)) &&
         !experts) ||
        (b->need == HEARTH_WHOLE_Q && made->two_step_q) || (b->need == HEARTH_FUSED && !made->fused) ||
        (b->need == HEARTH_MAYBE_FUSED && !made->fused) || (b->need == HEARTH_SERIES && made->one_norm) ||
        (b->need == HEARTH_OPTIONAL_F32 && !made->optional) ||
        (b->need == HEARTH_TWO_STEP_Q && !made->two_step_q) || (b->need == HEARTH_JOINT && !made->joint) ||
        (b->need == HEARTH_EACH_HEAD && made->joint) ||
        (b->need == HEARTH_ATTENDS && !strcmp(prefix, "blk.0.")) || // the first layer is recurrent
        ((b->need == HEARTH_RECURS || b->need == HEARTH_RECURS_F32) && strcmp(prefix, "blk.0.") != 0 &&
         !made_is_beside(made)) ||
        (b->need == HEARTH_RECURS_MAYBE && !made->optional) ||
        (b->need == HEARTH_CHOOSES && made->no_choice) ||
        (b->need == HEARTH_CHOOSES &&
         (made->shares_choice ? at > 0 : made->leading && at == 0 && made_chooses_each(made))) ||
        ((b->need == HEARTH_GRAMS || b->need == HEARTH_GRAMS_F32) &&
         !(made->grams && (!*prefix || !strcmp(prefix, "blk.0.")))) ||
        (b->need == HEARTH_TOKEN_GIVES && !made->gives) ||
        ((b->need == HEARTH_BLENDS || b->need == HEARTH_BLENDS_F32) && !made_block(made, at)) ||
        ((b->need == HEARTH_BLENDS_BEST || b->need == HEARTH_BLENDS_BEST_F32) &&
         made_block(made, at) != HEARTH_OVERLAPPING) ||
        (b->need == HEARTH_BY_TOKEN && !(made->by_token && at == 0)) ||
        (b->need == HEARTH_BY_SCORE && made->by_token && at == 0) ||
        ((b->need == HEARTH_OWN_KEYS || b->need == HEARTH_OWN_VALUES) && made->borrows &&
         strcmp(prefix, "blk.0.") != 0) ||
        (b->need == HEARTH_OWN_VALUES && !made->optional && !made->borrows && !strcmp(prefix, "blk.0.")) ||
        (b->field == offsetof(struct hearth_layer, ffn_scale_exps) && *prefix && !experts) ||
        (b->need == HEARTH_OPTIONAL && (!made->optional || strstr(b->name, "rope_freqs"))) ||
        (made->experts && b->n == HEARTH_DIM_NONE && b->k == HEARTH_DIM_FF))
        return;
    char name[96];
    const int layer = *prefix ? atoi(prefix + 4) : -1;
    const bool wide = made->wide && b->k == HEARTH_DIM_RANK;
    const uint64_t k = made_dim(made, b->k, layer) + (wide ? MADE_E : 0), n = made_dim(made, b->n, layer);
    uint32_t seed = 1;
    snprintf(name, sizeof name, "%s%s", prefix, b->name);
    for (const char *c = name; *c; c++)
        seed = seed * 31 + (uint8_t)*c;
    seed *= 1000;
    if (b->need != HEARTH_EACH_EXPERT || !made->split_experts) {
        made_add(l, name, k, n,
                 hearth_need_is_each(b->need)    ? MADE_EXPERTS
                 : b->need == HEARTH_EACH_HEAD   ? MADE_HEADS
                 : b->need == HEARTH_EACH_STREAM ? MADE_STREAMS - 1
                                                 : 1,
                 made->zero_router && b->k == HEARTH_DIM_EMBD && b->n == HEARTH_DIM_EXPERTS, seed);
        return;
    }
    for (int e = 0; e < MADE_EXPERTS; e++) {
        snprintf(name, sizeof name, "%s%.*s.%d.weight", prefix, (int)(strstr(b->name, "_exps") - b->name),
                 b->name, e);
        made_add(l, name, k, n, 1, false,
                 seed + (uint32_t)e); // matrix e of the joint tensor has the same seed
    }
}

static inline void made_list_tensors(struct made_list *l, const struct hearth_arch *arch)
{
    for (const struct hearth_binding *b = arch->globals; b->name; b++)
        made_bind(l, b, "");
    for (int i = 0; i < made_layers(l->made); i++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "blk.%d.", i);
        for (const struct hearth_binding *b = arch->layer; b->name; b++)
            made_bind(l, b, prefix);
    }
    if (l->made->extra)
        made_add(l, l->made->extra, l->made->extra_n ? l->made->extra_n : MADE_E, 1, 1, false, 1);
}

#define MADE_OK(call)                                                                                        \
    do {                                                                                                     \
        if (call) {                                                                                          \
            printf("%s: %s\n", #call, err.message);                                                          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static inline void made_put_kv(struct hearth_gguf_writer *w, const struct made *made, struct made_kv kv)
{
    struct hearth_error err;
    char key[128];
    if (made->without && !strcmp(made->without, kv.key))
        return;
    const bool own = !strncmp(kv.key, "hearth.", 7) || !strncmp(kv.key, "xielu.", 6);
    snprintf(key, sizeof key, "%s%s%s", own ? "" : made->arch, own ? "" : ".", kv.key);
    if (kv.kind == 'u')
        MADE_OK(hearth_gguf_put_u32(w, key, (uint32_t)kv.number, &err));
    else if (kv.kind == 'f')
        MADE_OK(hearth_gguf_put_f32(w, key, (float)kv.number, &err));
    else if (kv.kind == 'a' || kv.kind == 'd' || kv.kind == 'w') { // an array, of equal or different numbers
        uint32_t numbers[MADE_LAYERS];
        for (uint32_t i = 0; i < MADE_LAYERS; i++)
            numbers[i] = (uint32_t)kv.number + (kv.kind == 'd' ? i : kv.kind == 'w' ? MADE_F * i : 0);
        MADE_OK(hearth_gguf_put_array(w, key, HEARTH_GGUF_U32, numbers, MADE_LAYERS, &err));
    } else if (kv.kind == 'b')
        MADE_OK(hearth_gguf_put_bool(w, key, kv.number != 0, &err));
    else
        MADE_OK(hearth_gguf_put_str(w, key, kv.text, strlen(kv.text), &err));
}

// Whether the test has a value of its own.
static inline bool made_sets(const struct made *made, const char *key)
{
    for (const struct made_kv *kv = made->set; kv->key; kv++)
        if (!strcmp(kv->key, key))
            return true;
    return false;
}

// What says how n-grams become rows of a table.
static inline void made_put_grams(struct hearth_gguf_writer *w, const struct made *made)
{
    const struct made_kv numbers[] = {{"ple.ngram_size", 'u', MADE_GRAMS, NULL},
                                      {"ple.heads_per_ngram", 'u', MADE_GRAM_HEADS, NULL},
                                      {"ple.conv_kernel", 'u', MADE_GRAM_TAPS, NULL},
                                      {"ple.eos_token_id", 'u', 21, NULL},
                                      {"embedding_length_per_layer_input", 'u', MADE_GRAM, NULL}};
    const uint64_t layers[] = {0}, by[] = {UINT64_C(81985529216486895), 12345678901, 987654321987},
                   first[] = {0, 19, 42, 71}, count[] = {19, 23, 29, 17};
    const struct {
        const char *key;
        const uint64_t *numbers;
        uint64_t n;
    } arrays[] = {{"ple.layers", layers, 1},
                  {"ple.layer_multipliers", by, MADE_GRAMS},
                  {"ple.head_offsets", first, 4},
                  {"ple.head_vocab_sizes", count, 4}};
    struct hearth_error err;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!made_sets(made, numbers[i].key))
            made_put_kv(w, made, numbers[i]);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", made->arch, arrays[i].key);
        if (!made_sets(made, arrays[i].key) && !(made->without && !strcmp(made->without, arrays[i].key)))
            MADE_OK(hearth_gguf_put_array(w, key, HEARTH_GGUF_U64, arrays[i].numbers, arrays[i].n, &err));
    }
}

// What says how positions are blended.
static inline void made_put_blender(struct hearth_gguf_writer *w, const struct made *made)
{
    const struct made_kv numbers[] = {{"attention.head_count_kv", 'u', 1, NULL},
                                      {"attention.sliding_window", 'u', MADE_BLEND_WINDOW, NULL},
                                      {"attention.q_lora_rank", 'u', MADE_Q_RANK, NULL},
                                      {"rope.dimension_count", 'u', MADE_TURNING, NULL},
                                      {"attention.output_group_count", 'u', MADE_GROUPS, NULL},
                                      {"attention.output_lora_rank", 'u', MADE_OUT_RANK, NULL},
                                      {"attention.compress_rope_freq_base", 'f', 500, NULL},
                                      {"attention.indexer.head_count", 'u', MADE_CHOOSER_HEADS, NULL},
                                      {"attention.indexer.key_length", 'u', MADE_CHOOSER, NULL},
                                      {"attention.indexer.top_k", 'u', MADE_BEST, NULL},
                                      {"hyper_connection.count", 'u', MADE_STREAMS, NULL},
                                      {"hyper_connection.sinkhorn_iterations", 'u', 5, NULL},
                                      {"hyper_connection.epsilon", 'f', 1e-6, NULL},
                                      {"expert_gating_func", 'u', 4, NULL},
                                      {"expert_shared_count", 'u', made->shared, NULL},
                                      {"swiglu_clamp_exp", 'f', 1, NULL},
                                      {"swiglu_clamp_shexp", 'f', 1, NULL},
                                      {"hash_layer_count", 'u', made->by_token, NULL}};
    const uint32_t blocks[MADE_LAYERS] = {made_block(made, 0), made_block(made, 1)};
    struct hearth_error err;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!made_sets(made, numbers[i].key))
            made_put_kv(w, made, numbers[i]);
    if (!made_sets(made, "attention.compress_ratios"))
        MADE_OK(hearth_gguf_put_array(w, "deepseek4.attention.compress_ratios", HEARTH_GGUF_U32, blocks,
                                      MADE_LAYERS, &err));
}

static inline void made_put_metadata(struct hearth_gguf_writer *w, const struct made *made,
                                     const struct hearth_arch *arch)
{
    const struct made_kv usual[] = {
        {"context_length", 'u', MADE_CTX, NULL},
        {"embedding_length", 'u', MADE_E, NULL},
        {"block_count", 'u', made_layers(made), NULL},
        {"feed_forward_length", 'u', (made->ff ? made->ff : MADE_F) * (arch && arch->ff_both ? 2 : 1), NULL},
        {"attention.head_count", 'u', MADE_HEADS, NULL},
        {"attention.head_count_kv", 'u', MADE_KV_HEADS, NULL},
        {arch && arch->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 'f',
         1e-5, NULL},
        {"expert_count", 'u', MADE_EXPERTS, NULL},
        {"expert_used_count", 'u', MADE_USED, NULL},
        {"expert_feed_forward_length", 'u', MADE_F_EXP, NULL},
    };
    const struct made_kv latent[] = {
        {"attention.kv_lora_rank", 'u', MADE_LATENT, NULL},
        {"attention.q_lora_rank", 'u', made->two_step_q ? MADE_Q_RANK : 0, NULL},
        {"rope.dimension_count", 'u', MADE_ROT, NULL},
        {"attention.key_length", 'u', MADE_ROT + (made->joint ? MADE_STILL : MADE_LATENT), NULL},
        {"attention.value_length", 'u', made->joint ? MADE_VALUE : MADE_LATENT, NULL},
        {"attention.key_length_mla", 'u', MADE_ROT + MADE_STILL, NULL},
        {"attention.value_length_mla", 'u', MADE_VALUE, NULL},
    };
    const size_t n_latent =
        arch && arch->latent ? sizeof latent / sizeof latent[0] - (made->joint ? 2 : 0) : 0;
    const size_t n_usual = sizeof usual / sizeof usual[0] - (made->experts ? 0 : 3);
    struct hearth_error err;
    MADE_OK(hearth_gguf_put_str(w, "general.architecture", made->arch, strlen(made->arch), &err));
    for (size_t i = 0; i < n_usual; i++) {
        if (made_sets(made, usual[i].key) ||
            (made_blends(made) && !strcmp(usual[i].key, "attention.head_count_kv")))
            continue;
        const bool heads = !strcmp(usual[i].key, "attention.head_count_kv"),
                   width = !strcmp(usual[i].key, "feed_forward_length");
        const bool says = (arch && arch->uneven) || made_is_conv(made) ||
                          (made_is_scan(made) && !made_is_beside(made)) || made_is_each(made);
        if ((says && heads) || (made_is_one_part(made) && width)) {
            char key[64];
            snprintf(key, sizeof key, "%s.%s", made->arch, usual[i].key);
            const uint32_t numbers[2][MADE_PARTS] = {{0, 0, MADE_F}, {0, MADE_KV_HEADS, 0}};
            MADE_OK(hearth_gguf_put_array(w, key, HEARTH_GGUF_U32, numbers[heads],
                                          (uint64_t)made_layers(made), &err));
            continue;
        }
        if (made_is_gemma4(made) && !made->borrows && !strcmp(usual[i].key, "attention.head_count_kv"))
            made_put_kv(w, made, (struct made_kv){usual[i].key, 'd', MADE_KV_HEADS - 1, NULL});
        else if (made->two_widths && !strcmp(usual[i].key, "feed_forward_length"))
            made_put_kv(w, made, (struct made_kv){usual[i].key, 'w', usual[i].number, NULL});
        else
            made_put_kv(w, made, usual[i]);
    }
    for (size_t i = 0; i < n_latent; i++) {
        bool replaced = false;
        for (const struct made_kv *kv = made->set; kv->key; kv++)
            replaced |= !strcmp(kv->key, latent[i].key);
        if (!replaced)
            made_put_kv(w, made, latent[i]);
    }
    const struct made_kv delta[] = {{"full_attention_interval", 'u', 2, NULL},
                                    {"ssm.conv_kernel", 'u', MADE_REC_TAPS, NULL},
                                    {"ssm.state_size", 'u', MADE_REC_DIM, NULL},
                                    {"ssm.group_count", 'u', MADE_REC_KEYS, NULL},
                                    {"ssm.time_step_rank", 'u', MADE_REC_HEADS, NULL},
                                    {"ssm.inner_size", 'u', MADE_REC_HEADS * MADE_REC_DIM, NULL}};
    const uint32_t head = MADE_E / MADE_HEADS, other = made->borrows ? head : head / 2;
    const struct made_kv gemma4[] = {
        {"attention.sliding_window", 'u', 20, NULL},
        {"attention.sliding_window_pattern", made->borrows ? 'a' : 'd', made->borrows, NULL},
        {"attention.key_length", 'u', head, NULL},
        {"attention.value_length", 'u', head, NULL},
        {"attention.key_length_swa", 'u', other, NULL},
        {"attention.value_length_swa", 'u', other, NULL},
        {"rope.dimension_count", 'u', head, NULL},
        {"rope.dimension_count_swa", 'u', other, NULL},
        {"rope.freq_base", 'f', 1e6, NULL},
        {"attention.shared_kv_layers", 'u', made->borrows, NULL},
        {"embedding_length_per_layer_input", 'u', made->gives ? MADE_GIVEN : 0, NULL},
        {"final_logit_softcapping", 'f', 4, NULL}};
    for (size_t i = 0; i < sizeof gemma4 / sizeof *gemma4 && made_is_gemma4(made); i++)
        if (!made_sets(made, gemma4[i].key))
            made_put_kv(w, made, gemma4[i]);
    const struct made_kv predicts[] = {
        {"altup.num_inputs", 'u', MADE_STREAMS, NULL},
        {"altup.active_idx", 'u', 0, NULL},
        {"activation_sparsity_scale", 'f', 0.5, NULL},
        {"embedding_length_per_layer_input", 'u', MADE_GIVEN, NULL},
        {"attention.shared_kv_layers", 'u', made->borrows, NULL},
        {"attention.sliding_window", 'u', 20, NULL},
        {"attention.sliding_window_pattern", made->borrows ? 'a' : 'd', made->borrows, NULL}};
    for (size_t i = 0; i < sizeof predicts / sizeof *predicts && arch && arch->predicts; i++)
        if (!made_sets(made, predicts[i].key))
            made_put_kv(w, made, predicts[i]);
    const struct made_kv chooser[] = {{"attention.indexer.head_count", 'u', MADE_CHOOSER_HEADS, NULL},
                                      {"attention.indexer.key_length", 'u', MADE_CHOOSER, NULL},
                                      {"attention.indexer.top_k", 'u', MADE_CHOSEN, NULL}};
    for (size_t i = 0; i < sizeof chooser / sizeof *chooser && arch && arch->choosing && !made->no_choice;
         i++)
        if (!made_sets(made, chooser[i].key))
            made_put_kv(w, made, chooser[i]);
    const struct made_kv each[] = {{"attention.indexer.block_size", 'u', MADE_BLOCK, NULL},
                                   {"attention.indexer.local_blocks", 'u', 1, NULL}};
    for (size_t i = 0; i < sizeof each / sizeof *each && arch && arch->choosing == HEARTH_CHOOSING_EACH; i++)
        if (!made_sets(made, each[i].key))
            made_put_kv(w, made, each[i]);
    const struct made_kv streams[] = {{"hyper_connection.count", 'u', MADE_STREAMS, NULL},
                                      {"hyper_connection.low_rank", 'u', MADE_MIX_RANK, NULL},
                                      {"attention.compress_ratios", 'a', MADE_BLOCK, NULL}};
    for (size_t i = 0; i < sizeof streams / sizeof *streams && arch && arch->streams; i++)
        if (!made_sets(made, streams[i].key))
            made_put_kv(w, made, streams[i]);
    const struct made_kv kept[] = {{"hyper_connection.count", 'u', MADE_STREAMS, NULL},
                                   {"hyper_connection.epsilon", 'f', 1e-6, NULL},
                                   {"hyper_connection.magnitude", 'f', 1.5, NULL}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept && arch && arch->kept; i++)
        if (!made_sets(made, kept[i].key))
            made_put_kv(w, made, kept[i]);
    if (made->grams)
        made_put_grams(w, made);
    if (made_blends(made))
        made_put_blender(w, made);
    const struct made_kv conv = {"shortconv.l_cache", 'u', MADE_REC_TAPS, NULL};
    for (size_t i = 0; i < sizeof delta / sizeof *delta && made_recurrence(made) == HEARTH_RECURRENCE_DELTA;
         i++)
        if (!made_sets(made, delta[i].key) && !made_is_each(made))
            made_put_kv(w, made, delta[i]);
    const struct made_kv fixed[] = {{"full_attention_interval", 'u', 2, NULL},
                                    {"residual_scale", 'f', 1.5, NULL},
                                    {"attention.key_length", 'u', MADE_REC_DIM, NULL},
                                    {"attention.value_length", 'u', MADE_REC_DIM, NULL}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed && made_is_fixed(made); i++)
        if (!made_sets(made, fixed[i].key))
            made_put_kv(w, made, fixed[i]);
    const struct made_kv fades[] = {{"ssm.conv_kernel", 'u', MADE_REC_TAPS, NULL},
                                    {"kda.head_dim", 'u', MADE_REC_DIM, NULL}};
    for (size_t i = 0; i < sizeof fades / sizeof *fades && made_is_each(made); i++)
        if (!made_sets(made, fades[i].key))
            made_put_kv(w, made, fades[i]);
    const struct made_kv floor = {"kda.gate_lower_bound", 'f', -0.7, NULL};
    if (arch && arch->rec_floor && !made_sets(made, floor.key))
        made_put_kv(w, made, floor);
    if (made_is_conv(made))
        made_put_kv(w, made, conv);
    const struct made_kv scan[] = {{"ssm.conv_kernel", 'u', MADE_REC_TAPS, NULL},
                                   {"ssm.state_size", 'u', MADE_REC_STATE, NULL},
                                   {"ssm.group_count", 'u', MADE_REC_KEYS, NULL},
                                   {"ssm.time_step_rank", 'u', MADE_REC_HEADS, NULL},
                                   {"ssm.inner_size", 'u', MADE_REC_HEADS * MADE_REC_DIM, NULL},
                                   {"moe_latent_size", 'u', made->small ? MADE_SMALL : 0, NULL}};
    for (size_t i = 0; i < sizeof scan / sizeof *scan && made_is_scan(made); i++)
        if (!made_sets(made, scan[i].key))
            made_put_kv(w, made, scan[i]);
    for (const struct made_kv *kv = made->set; kv->key; kv++)
        made_put_kv(w, made, *kv);
}

static inline void made_put_vocabulary(struct hearth_gguf_writer *w)
{
    static char text[MADE_VOCAB][16];
    struct hearth_str tokens[MADE_VOCAB];
    float scores[MADE_VOCAB] = {0};
    int32_t types[MADE_VOCAB];
    struct hearth_error err;
    for (int i = 0; i < MADE_VOCAB; i++) {
        types[i] = i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1;
        if (i < 3)
            snprintf(text[i], sizeof *text, "%s", (const char *[]){"<unk>", "<s>", "</s>"}[i]);
        else if (i < 259)
            snprintf(text[i], sizeof *text, "<0x%02X>", i - 3);
        else
            snprintf(text[i], sizeof *text, "%c", 'a' + i - 259);
        tokens[i] = (struct hearth_str){text[i], strlen(text[i])};
    }
    MADE_OK(hearth_gguf_put_str(w, "tokenizer.ggml.model", "llama", 5, &err));
    MADE_OK(hearth_gguf_put_strings(w, "tokenizer.ggml.tokens", tokens, MADE_VOCAB, &err));
    MADE_OK(hearth_gguf_put_array(w, "tokenizer.ggml.scores", HEARTH_GGUF_F32, scores, MADE_VOCAB, &err));
    MADE_OK(hearth_gguf_put_array(w, "tokenizer.ggml.token_type", HEARTH_GGUF_I32, types, MADE_VOCAB, &err));
    MADE_OK(hearth_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 1, &err));
    MADE_OK(hearth_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2, &err));
    MADE_OK(hearth_gguf_put_u32(w, "tokenizer.ggml.unknown_token_id", 0, &err));
}

static inline void made_write_tensor(struct hearth_gguf_writer *w, const struct made *made,
                                     const struct made_tensor *t)
{
    struct hearth_error err;
    if (t->whole) {
        for (uint32_t row = 0; row < t->ne[1]; row++)
            for (uint32_t i = 0; i < t->ne[0]; i++) {
                const bool bad = made->bad_token && row == made->bad_token;
                const int32_t id = bad ? MADE_EXPERTS : (int32_t)((row * 7 + i) % MADE_EXPERTS);
                MADE_OK(hearth_gguf_write(w, &id, sizeof id, &err));
            }
        return;
    }
    const struct hearth_type_info *type = hearth_type_info(made->type);
    if (type->block_elems > 1 || !type->encode) {
        const uint64_t bytes = hearth_type_bytes(made->type, t->ne[0]) * t->ne[1] * t->ne[2];
        void *zeros = calloc(1, bytes);
        MADE_OK(hearth_gguf_write(w, zeros, bytes, &err));
        free(zeros);
        return;
    }
    const uint64_t n = t->ne[0] * t->ne[1];
    float *data = malloc(n * sizeof *data);
    void *encoded = malloc(n * sizeof *data);
    const bool norm = strstr(t->name, "norm.weight") || strstr(t->name, "norm_2.weight") ||
                      strstr(t->name, "norm_1.weight") || strstr(t->name, "scale");
    for (uint64_t m = 0; m < t->ne[2]; m++) {
        uint32_t state = t->seed + (uint32_t)m;
        for (int i = 0; i < 3; i++) // neighbouring seeds drift apart
            state = state * 1664525u + 1013904223u;
        for (uint64_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            float unit = (float)(state >> 8) / 8388608.0f - 1.0f;
            data[i] = t->zero ? 0.0f
                      : norm  ? 1.0f + (made->plain_norms ? 0.0f : 0.3f * unit)
                              : unit * (t->ne[1] == 1 ? 0.3f : 2.0f / sqrtf((float)t->ne[0]));
        }
        for (uint64_t i = 0; i < n && strstr(t->name, "ssm_a") && !strstr(t->name, "alpha"); i++)
            data[i] = -fabsf(data[i]); // states fade
        for (uint64_t i = 0; i < n && !strcmp(t->name, "rope_freqs.weight"); i++)
            data[i] = 1.0f + (float)i;
        for (uint64_t i = 0; i < n && made->value; i++)
            data[i] = made->value(t->name, i / t->ne[0], i % t->ne[0], data[i]);
        for (uint64_t i = 0; i < n && made->add; i++)
            data[i] += made->add(t->name, m, i / t->ne[0], i % t->ne[0]);
        if (made->type != HEARTH_TYPE_F32)
            type->encode(data, encoded, n);
        MADE_OK(hearth_gguf_write(w, made->type != HEARTH_TYPE_F32 ? encoded : (void *)data,
                                  n * type->block_bytes, &err));
    }
    free(encoded);
    free(data);
}

// Writes the model to `path`, replacing what is there.
static inline void made_write(const char *path, const struct made *made)
{
    struct hearth_error err;
    const struct hearth_arch *arch = hearth_arch_find((struct hearth_str){made->arch, strlen(made->arch)});
    const struct hearth_arch *tables = arch ? arch : &hearth_arch_llama;
    static struct made_tensor tensors[256];
    struct made_list list = {made, tensors, 0};
    struct hearth_gguf_writer *w = NULL;
    unlink(path);
    MADE_OK(hearth_gguf_writer_open(&w, path, &err));
    made_put_metadata(w, made, arch);
    made_put_vocabulary(w);
    made_list_tensors(&list, tables);
    for (size_t i = 0; i < list.n; i++) {
        const uint64_t *ne = list.tensors[i].ne;
        MADE_OK(hearth_gguf_put_tensor(w, list.tensors[i].name,
                                       list.tensors[i].whole ? HEARTH_TYPE_I32 : made->type,
                                       ne[2] > 1   ? 3
                                       : ne[1] > 1 ? 2
                                                   : 1,
                                       ne, &err));
    }
    for (size_t i = 0; i < list.n; i++)
        made_write_tensor(w, made, &list.tensors[i]);
    MADE_OK(hearth_gguf_finish(&w, &err));
}

#endif
