// SPDX-License-Identifier: MIT
// The KV cache: a pool of fixed-size pages with reference counts, so that sequences share the pages of a
// common prefix.
//
// A page holds HEARTH_KV_TILE consecutive positions of all layers that have keys and values. Within a page, for
// layer l and key/value head g, the keys are HEARTH_KV_TILE rows of a head's elements and so are the values: an
// attention tile is two contiguous blocks. Layers with a window may have other heads than those without. With
// latent attention, or positions of one vector, there are no values beside the keys: they are these' first elements. A
// layer that chooses positions has a row for each position behind its last head (choose.h), one that blends them a few for
// blocks (blend.h). A page with more than one owner is never written: who appends to it gets a copy
// first, which takes a page of the pool. The pool has a size of its own: sequences take pages as they grow,
// and together they may want more than there are.
//
// Nothing here locks: one thread changes the pool, and while it does another may look only at a sequence that
// it leaves alone, and at its pages (kv_file.c writes such a one to a file). These do not change: who appends
// to a page that others hold, too, gets a copy, and who lets go of one only counts down its owners.
#ifndef HEARTH_ENGINE_KV_H
#define HEARTH_ENGINE_KV_H

#include <assert.h>
#include <stdatomic.h>

#include "engine/states.h"
#include "model/model.h"

// Positions of a page and of an attention tile. Part of the definition of the results (softmax is merged tile
// by tile), so it is the same for every model and machine.
#define HEARTH_KV_TILE 64

// Where a page's bytes are. There is room for a third state, in a file: hearth_kv_reserve() would then bring
// the pages of an evaluation's sequences here, which hearth_kv_pin() takes for granted.
enum hearth_kv_state {
    HEARTH_KV_FREE, // nowhere: it belongs to nobody
    HEARTH_KV_HERE  // in memory
};

// What is known of a page beside its bytes.
struct hearth_kv_page {
    atomic_int refs; // sequences that hold it; 0: free
    enum hearth_kv_state state;
    atomic_int pins; // where asserts are on: who looks at its bytes now
    uint64_t steps;  // bit i: position i was evaluated as a step, else as a prompt
    uint64_t birth;  // a number that no page had before it was last taken
    hearth_token tokens[HEARTH_KV_TILE];
};

struct hearth_kv_seq {
    bool used;
    bool copies; // while pages are being reserved: its last page is to be copied
    int length;  // positions stored
    int n_pages; // pages held: at least those that hold `length` positions
    int *pages;  // [pages_per_seq]
};

// Keys and values of one kind of layers.
struct hearth_kv_heads {
    int n, dim, value;   // heads, and elements of a key and of a value
    size_t row_k, row_v; // bytes of one position of one head; row_v is 0 where latent
    size_t stride_v;     // bytes from value to value
    size_t bytes;        // of one (layer, head) of a page: keys, then values
};

// Where a layer's keys and values are in a page: those that it attends to, its own or another's.
struct hearth_kv_layer {
    size_t at;
    struct hearth_kv_heads heads;
    uint8_t per_page; // blocks of positions that have become one; one where a block is two pages
    bool chosen;      // which have keys to choose them by
};

struct hearth_kv {
    int n_layer; // layers that have keys and values of their own
    const struct hearth_hparams *hp;
    bool latent;                     // values are the beginnings of keys
    uint32_t type_k, type_v;         // enum hearth_type; the same where latent
    size_t row_choice;               // bytes of a row of what chooses positions, in layers that do
    struct hearth_kv_heads heads[2]; // of layers without a window, the most of these, and of those with one
    struct hearth_kv_layer *layers;  // [hp->n_layer]
    size_t page_bytes;
    int n_ctx, max_seqs, pages_per_seq, n_pages;
    struct hearth_region region;
    struct hearth_kv_page *pages; // [n_pages]
    int *free_list;               // [n_pages]
    int n_free;
    int n_warm;                  // pages from this one on have no memory behind them
    int n_shared;                // pages with more than one owner
    uint64_t births;             // pages that were taken so far
    struct hearth_kv_seq *seqs;  // [max_seqs]
    int *page_table;             // [max_seqs * pages_per_seq], the seqs' `pages`
    struct hearth_states states; // of the layers that do not attend
    // Called before the pool takes more memory than ever since it was last trimmed: with bytes of all that it
    // has then. Where it fails, so does hearth_kv_reserve(). May be NULL.
    int (*on_growth)(void *arg, uint64_t bytes, struct hearth_error *err);
    void *on_growth_arg;
};

// What a pool is to hold. Each sequence may have n_ctx positions, if the pool has pages for them.
struct hearth_kv_params {
    int n_ctx, max_seqs;
    int n_tokens; // of the pool, rounded up to whole pages; 0: n_ctx for each of max_seqs sequences
    int n_states; // hearth_states_open()
    uint32_t type_k, type_v;
    bool keeps_steps; // as in struct hearth_states
    bool sizes_only;  // no memory is taken: the pool is asked about, and not used
};

// Memory is touched only as positions are stored.
int hearth_kv_open(struct hearth_kv *kv, const struct hearth_hparams *hp, const struct hearth_kv_params *p,
                   struct hearth_error *err);
void hearth_kv_close(struct hearth_kv *kv);
uint64_t hearth_kv_table_bytes(const struct hearth_kv *kv); // of memory beside the region

int hearth_kv_seq_new(struct hearth_kv *kv, struct hearth_error *err);
int hearth_kv_seq_fork(struct hearth_kv *kv, int seq, int length, struct hearth_error *err);
void hearth_kv_seq_free(struct hearth_kv *kv, int seq);
// Gives back all pages beyond those that hold `length` positions, reserved ones too.
void hearth_kv_seq_truncate(struct hearth_kv *kv, int seq, int length);

// It is empty again, and keeps its pages, which nobody else holds.
void hearth_kv_seq_rewind(struct hearth_kv *kv, int seq);

// Makes the next counts[i] (at least 1) positions of sequence seqs[i] writable, for n different sequences.
// All or nothing: HEARTH_E_BUDGET where one's context is full, HEARTH_E_KV_FULL where the pool is, errors of
// on_growth(), and then nothing has changed. The lengths move only with hearth_kv_seq_append(), after the
// evaluation succeeded; hearth_kv_seq_truncate() to the length gives back what was not used.
int hearth_kv_reserve(struct hearth_kv *kv, const int *seqs, const int *counts, int n,
                      struct hearth_error *err);
// Notes that tokens[0..n) are stored at the sequence's next positions, which were reserved.
void hearth_kv_seq_append(struct hearth_kv *kv, int seq, const hearth_token *tokens, int n,
                          enum hearth_phase phase);

// Whether there is such a sequence.
static inline bool hearth_kv_has(const struct hearth_kv *kv, int seq)
{
    return seq >= 0 && seq < kv->max_seqs && kv->seqs[seq].used;
}
// HEARTH_E_INVALID when there is not.
int hearth_kv_check_seq(const struct hearth_kv *kv, int seq, struct hearth_error *err);

// The token at a stored position, and its phase.
static inline hearth_token hearth_kv_token(const struct hearth_kv *kv, int seq, int pos)
{
    assert(pos >= 0 && pos < kv->seqs[seq].length);
    return kv->pages[kv->seqs[seq].pages[pos / HEARTH_KV_TILE]].tokens[pos % HEARTH_KV_TILE];
}
static inline enum hearth_phase hearth_kv_phase(const struct hearth_kv *kv, int seq, int pos)
{
    assert(pos >= 0 && pos < kv->seqs[seq].length);
    const uint64_t steps = kv->pages[kv->seqs[seq].pages[pos / HEARTH_KV_TILE]].steps;
    return steps >> pos % HEARTH_KV_TILE & 1 ? HEARTH_PHASE_STEP : HEARTH_PHASE_PROMPT;
}

// Bytes of memory that the pool has: low pages are taken first, and it has that of all pages up to the
// highest one that was taken since it was last trimmed.
uint64_t hearth_kv_memory(const struct hearth_kv *kv);
// Gives the memory behind free pages back to the system.
void hearth_kv_trim(struct hearth_kv *kv);
// Whether that would leave less than half of it.
bool hearth_kv_is_slack(const struct hearth_kv *kv);

// For tests: looks at the whole pool and returns what is wrong with it, or NULL. Static storage.
const char *hearth_kv_check(const struct hearth_kv *kv);

// ---- bytes of a page

// The page's bytes, which stay where they are until it is unpinned. Any number of threads may hold a page.
static inline uint8_t *hearth_kv_pin(const struct hearth_kv *kv, int page)
{
    assert(page >= 0 && page < kv->n_pages);
    assert(kv->pages[page].state == HEARTH_KV_HERE && kv->pages[page].refs > 0);
#ifndef NDEBUG
    atomic_fetch_add_explicit(&kv->pages[page].pins, 1, memory_order_relaxed);
#endif
    return (uint8_t *)kv->region.base + (size_t)page * kv->page_bytes;
}

static inline void hearth_kv_unpin(const struct hearth_kv *kv, int page)
{
#ifndef NDEBUG
    const int pins = atomic_fetch_sub_explicit(&kv->pages[page].pins, 1, memory_order_relaxed);
    assert(pins > 0);
#endif
    (void)kv;
    (void)page;
}

// Where blocks of so many positions lie in a page: the one that has this position.
static inline int hearth_kv_block_slot(int block, int pos)
{
    return pos % HEARTH_KV_TILE / block;
}

// Whether the layer has keys and values of its own.
static inline bool hearth_kv_has_own(const struct hearth_hparams *hp, int layer)
{
    return hearth_attends(hp, layer) && layer < hp->n_layer - hp->n_borrowing;
}

// The keys and values that a layer attends to; it does attend.
static inline const struct hearth_kv_heads *hearth_kv_heads_of(const struct hearth_kv *kv, int layer)
{
    return &kv->layers[layer].heads;
}
// Bytes of a layer's row of what chooses positions; 0: it has none.
static inline size_t hearth_kv_row_choice(const struct hearth_kv *kv, int layer)
{
    return hearth_chooses(kv->hp, layer) ? kv->row_choice : 0;
}
// Bytes of all keys and values of a position, and of what chooses positions.
static inline size_t hearth_kv_row_bytes(const struct hearth_kv *kv)
{
    size_t bytes = 0;
    for (int i = 0; i < kv->hp->n_layer; i++) {
        const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, i);
        bytes += hearth_kv_has_own(kv->hp, i)
                     ? (size_t)heads->n * (heads->row_k + heads->row_v) + hearth_kv_row_choice(kv, i)
                     : 0;
    }
    return bytes;
}
// Bytes of a layer's block of positions, and how many there are in a page with n positions; those of all layers together.
static inline size_t hearth_kv_block_bytes(const struct hearth_kv *kv, int layer)
{
    return hearth_kv_heads_of(kv, layer)->row_k +
           (kv->layers[layer].chosen ? (size_t)kv->hp->chooser.dim * sizeof(float) : 0);
}
static inline int hearth_kv_blocks_in(const struct hearth_kv *kv, int layer, int n)
{
    return n * kv->layers[layer].per_page / HEARTH_KV_TILE;
}
static inline size_t hearth_kv_blocks_bytes(const struct hearth_kv *kv, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < kv->hp->n_layer; i++)
        bytes += (size_t)hearth_kv_blocks_in(kv, i, n) * hearth_kv_block_bytes(kv, i);
    return bytes;
}
// Key (value) of a pinned page's position `slot` in one layer and head; those of the next slots follow, row_k
// (stride_v) bytes each. 64 keys of a head, then its values.
static inline uint8_t *hearth_kv_key(const struct hearth_kv *kv, uint8_t *bytes, int layer, int head,
                                     int slot)
{
    const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, layer);
    return bytes + kv->layers[layer].at + (size_t)head * heads->bytes + (size_t)slot * heads->row_k;
}
static inline uint8_t *hearth_kv_value(const struct hearth_kv *kv, uint8_t *bytes, int layer, int head,
                                       int slot)
{
    const struct hearth_kv_heads *heads = hearth_kv_heads_of(kv, layer);
    return hearth_kv_key(kv, bytes, layer, head, 0) + (kv->latent ? 0 : HEARTH_KV_TILE * heads->row_k) +
           (size_t)slot * heads->stride_v;
}
// The row of what chooses positions; those of the next slots follow, row_choice bytes each.
static inline float *hearth_kv_choice(const struct hearth_kv *kv, uint8_t *bytes, int layer, int slot)
{
    return (float *)(void *)(hearth_kv_key(kv, bytes, layer, hearth_kv_heads_of(kv, layer)->n, 0) +
                             (size_t)slot * kv->row_choice);
}

// A block of positions that has become one; those of the next slots follow, row_k bytes each, behind what chooses positions.
static inline uint8_t *hearth_kv_block(const struct hearth_kv *kv, uint8_t *bytes, int layer, int slot)
{
    return hearth_kv_key(kv, bytes, layer, hearth_kv_heads_of(kv, layer)->n, 0) +
           HEARTH_KV_TILE * hearth_kv_row_choice(kv, layer) +
           (size_t)slot * hearth_kv_heads_of(kv, layer)->row_k;
}
// The key to choose it by; those of the next slots follow.
static inline float *hearth_kv_block_key(const struct hearth_kv *kv, uint8_t *bytes, int layer, int slot)
{
    const size_t at = hearth_round_up(kv->layers[layer].per_page * hearth_kv_heads_of(kv, layer)->row_k, 64);
    return (float *)(void *)(hearth_kv_block(kv, bytes, layer, 0) + at) +
           (size_t)slot * (size_t)kv->hp->chooser.dim;
}

#endif
