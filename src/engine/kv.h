// SPDX-License-Identifier: MIT
// The KV cache: fixed-size pages with reference counts, so that sequences share the pages of a common prefix.
//
// A page holds HEARTH_KV_TILE consecutive positions of all layers. Within a page, for layer l and key/value
// head g, the keys are HEARTH_KV_TILE rows of head_dim elements and so are the values: an attention tile is
// two contiguous blocks. A page with more than one owner is never written: who appends to it gets a copy
// first.
#ifndef HEARTH_ENGINE_KV_H
#define HEARTH_ENGINE_KV_H

#include "model/model.h"

// Positions of a page and of an attention tile. Part of the definition of the results (softmax is merged tile
// by tile), so it is the same for every model and machine.
#define HEARTH_KV_TILE 64

struct hearth_kv_seq {
    bool used;
    int length;  // positions stored
    int n_pages; // pages held: at least those that hold `length` positions
    int *pages;  // [pages_per_seq]
};

struct hearth_kv {
    int n_layer, n_head_kv, head_dim;
    uint32_t type_k, type_v; // enum hearth_type
    size_t row_k, row_v;     // bytes of one position of one head
    size_t head_bytes;       // of one (layer, head) of a page: keys, then values
    size_t page_bytes;
    int n_ctx, max_seqs, pages_per_seq, n_pages;
    struct hearth_region region;
    int *refs;      // [n_pages] owners
    int *free_list; // [n_pages]
    int n_free;
    struct hearth_kv_seq *seqs; // [max_seqs]
    int *page_table;            // [max_seqs * pages_per_seq], the seqs' `pages`
};

// n_ctx positions for each of max_seqs sequences. Memory is touched only as positions are stored.
int hearth_kv_open(struct hearth_kv *kv, const struct hearth_hparams *hp, int n_ctx, int max_seqs,
                   uint32_t type_k, uint32_t type_v, struct hearth_error *err);
void hearth_kv_close(struct hearth_kv *kv);

int hearth_kv_seq_new(struct hearth_kv *kv, struct hearth_error *err);
int hearth_kv_seq_fork(struct hearth_kv *kv, int seq, int length, struct hearth_error *err);
void hearth_kv_seq_free(struct hearth_kv *kv, int seq);
void hearth_kv_seq_truncate(struct hearth_kv *kv, int seq, int length);

// Makes positions [length, length + n) of the sequence writable. The length itself moves only with
// hearth_kv_seq_advance(), after the evaluation succeeded.
int hearth_kv_seq_reserve(struct hearth_kv *kv, int seq, int n, struct hearth_error *err);
void hearth_kv_seq_advance(struct hearth_kv *kv, int seq, int n);

// First byte of the keys (values) of a tile, for one layer and head.
static inline uint8_t *hearth_kv_keys(const struct hearth_kv *kv, int page, int layer, int head)
{
    return (uint8_t *)kv->region.base + (size_t)page * kv->page_bytes +
           ((size_t)layer * (size_t)kv->n_head_kv + (size_t)head) * kv->head_bytes;
}
static inline uint8_t *hearth_kv_values(const struct hearth_kv *kv, int page, int layer, int head)
{
    return hearth_kv_keys(kv, page, layer, head) + HEARTH_KV_TILE * kv->row_k;
}

#endif
