// SPDX-License-Identifier: MIT
// KV pages: allocation, sharing, copy on write.
#include "engine/kv.h"

#include <stdlib.h>
#include <string.h>

static int pages_for(int length)
{
    return (length + HEARTH_KV_TILE - 1) / HEARTH_KV_TILE;
}

static void release(struct hearth_kv *kv, int page)
{
    if (--kv->refs[page] == 0)
        kv->free_list[kv->n_free++] = page;
}

// There is always one: every sequence has pages_per_seq of its own to fill, and sharing only saves.
static int take(struct hearth_kv *kv)
{
    int page = kv->free_list[--kv->n_free];
    kv->refs[page] = 1;
    return page;
}

static int check_type(const struct hearth_hparams *hp, uint32_t type, struct hearth_error *err)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    if ((uint32_t)hp->head_dim % info->block_elems)
        return hearth_fail(
            err, HEARTH_E_INVALID,
            "a KV cache of type %s needs heads of a multiple of %u dimensions, this model's have %d; "
            "use f16",
            info->name, info->block_elems, hp->head_dim);
    return HEARTH_OK;
}

int hearth_kv_open(struct hearth_kv *kv, const struct hearth_hparams *hp, int n_ctx, int max_seqs,
                   uint32_t type_k, uint32_t type_v, struct hearth_error *err)
{
    *kv = (struct hearth_kv){0};
    int rc = check_type(hp, type_k, err);
    if (!rc)
        rc = check_type(hp, type_v, err);
    if (rc)
        return rc;
    kv->n_layer = hp->n_layer;
    kv->n_head_kv = hp->n_head_kv;
    kv->head_dim = hp->head_dim;
    kv->type_k = type_k;
    kv->type_v = type_v;
    kv->row_k = hearth_type_bytes(type_k, (uint64_t)hp->head_dim);
    kv->row_v = hearth_type_bytes(type_v, (uint64_t)hp->head_dim);
    kv->head_bytes = hearth_round_up(HEARTH_KV_TILE * (kv->row_k + kv->row_v), 64);
    kv->n_ctx = n_ctx;
    kv->max_seqs = max_seqs;
    kv->pages_per_seq = pages_for(n_ctx);

    size_t bytes, n_pages;
    if (!hearth_mul_size((size_t)max_seqs, (size_t)kv->pages_per_seq, &n_pages) || n_pages > INT32_MAX ||
        !hearth_mul_size(kv->head_bytes, (size_t)kv->n_layer * (size_t)kv->n_head_kv, &kv->page_bytes) ||
        !hearth_mul_size(kv->page_bytes, n_pages, &bytes))
        return hearth_fail(err, HEARTH_E_BUDGET,
                           "a KV cache of %d sequences of %d positions is too large: use a smaller -c or -np",
                           max_seqs, n_ctx);
    kv->n_pages = (int)n_pages;
    kv->refs = hearth_calloc(n_pages, sizeof *kv->refs);
    kv->free_list = hearth_calloc(n_pages, sizeof *kv->free_list);
    kv->page_table = hearth_calloc(n_pages, sizeof *kv->page_table);
    kv->seqs = hearth_calloc((size_t)max_seqs, sizeof *kv->seqs);
    if (!kv->refs || !kv->free_list || !kv->page_table || !kv->seqs)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the KV page table");
    rc = hearth_region_open(&kv->region, bytes, "the KV cache", err);
    if (rc)
        return rc;
    for (int i = 0; i < kv->n_pages; i++) // popped from the end: low pages first
        kv->free_list[kv->n_free++] = kv->n_pages - 1 - i;
    for (int i = 0; i < max_seqs; i++)
        kv->seqs[i].pages = kv->page_table + (size_t)i * (size_t)kv->pages_per_seq;
    return HEARTH_OK;
}

void hearth_kv_close(struct hearth_kv *kv)
{
    hearth_region_close(&kv->region);
    free(kv->refs);
    free(kv->free_list);
    free(kv->page_table);
    free(kv->seqs);
    *kv = (struct hearth_kv){0};
}

int hearth_kv_seq_new(struct hearth_kv *kv, struct hearth_error *err)
{
    for (int i = 0; i < kv->max_seqs; i++) {
        struct hearth_kv_seq *s = &kv->seqs[i];
        if (s->used)
            continue;
        s->used = true;
        s->length = 0;
        s->n_pages = 0;
        return i;
    }
    return hearth_fail(err, HEARTH_E_BUDGET, "all %d sequences of the session are in use", kv->max_seqs);
}

int hearth_kv_seq_fork(struct hearth_kv *kv, int seq, int length, struct hearth_error *err)
{
    const struct hearth_kv_seq *from = &kv->seqs[seq];
    int copy = hearth_kv_seq_new(kv, err);
    if (copy < 0)
        return copy;
    struct hearth_kv_seq *to = &kv->seqs[copy];
    to->length = length;
    to->n_pages = pages_for(length);
    for (int i = 0; i < to->n_pages; i++) {
        to->pages[i] = from->pages[i];
        kv->refs[to->pages[i]]++;
    }
    return copy;
}

void hearth_kv_seq_free(struct hearth_kv *kv, int seq)
{
    hearth_kv_seq_truncate(kv, seq, 0);
    kv->seqs[seq].used = false;
}

void hearth_kv_seq_truncate(struct hearth_kv *kv, int seq, int length)
{
    struct hearth_kv_seq *s = &kv->seqs[seq];
    while (s->n_pages > pages_for(length))
        release(kv, s->pages[--s->n_pages]);
    if (s->length > length)
        s->length = length;
}

int hearth_kv_seq_reserve(struct hearth_kv *kv, int seq, int n, struct hearth_error *err)
{
    struct hearth_kv_seq *s = &kv->seqs[seq];
    if (n > kv->n_ctx - s->length)
        return hearth_fail(err, HEARTH_E_BUDGET,
                           "the context of %d tokens is full (%d stored, %d more asked for): use a larger -c",
                           kv->n_ctx, s->length, n);
    int first = s->length / HEARTH_KV_TILE;
    if (first < s->n_pages && kv->refs[s->pages[first]] > 1) {
        int page = take(kv);
        memcpy(hearth_kv_keys(kv, page, 0, 0), hearth_kv_keys(kv, s->pages[first], 0, 0), kv->page_bytes);
        release(kv, s->pages[first]);
        s->pages[first] = page;
    }
    while (s->n_pages < pages_for(s->length + n))
        s->pages[s->n_pages++] = take(kv);
    return HEARTH_OK;
}

void hearth_kv_seq_advance(struct hearth_kv *kv, int seq, int n)
{
    kv->seqs[seq].length += n;
}
