// SPDX-License-Identifier: MIT
// KV pages: allocation, sharing, copy on write.
#include "engine/kv.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "base/poison.h"

static int pages_for(int length)
{
    return (int)(((int64_t)length + HEARTH_KV_TILE - 1) / HEARTH_KV_TILE);
}

// ---- pages

static void *bytes_of(const struct hearth_kv *kv, int page)
{
    return (uint8_t *)kv->region.base + (size_t)page * kv->page_bytes;
}

// There is a free one.
static int take(struct hearth_kv *kv)
{
    assert(kv->n_free > 0);
    const int page = kv->free_list[--kv->n_free];
    if (kv->n_warm <= page)
        kv->n_warm = page + 1;
    struct hearth_kv_page *p = &kv->pages[page];
    assert(p->state == HEARTH_KV_FREE && p->refs == 0);
    p->refs = 1;
    p->state = HEARTH_KV_HERE;
    p->steps = 0;
    p->birth = ++kv->births;
    HEARTH_UNPOISON(bytes_of(kv, page), kv->page_bytes);
    return page;
}

static void hold(struct hearth_kv *kv, int page)
{
    assert(kv->pages[page].refs > 0);
    if (++kv->pages[page].refs == 2)
        kv->n_shared++;
}

static void release(struct hearth_kv *kv, int page)
{
    struct hearth_kv_page *p = &kv->pages[page];
    assert(p->refs > 0 && p->state == HEARTH_KV_HERE);
    if (--p->refs == 1)
        kv->n_shared--;
    if (p->refs)
        return;
    assert(p->pins == 0);
    p->state = HEARTH_KV_FREE;
    kv->free_list[kv->n_free++] = page;
    HEARTH_POISON(bytes_of(kv, page), kv->page_bytes);
}

static int copy_of(struct hearth_kv *kv, int page)
{
    const int copy = take(kv);
    memcpy(hearth_kv_pin(kv, copy), bytes_of(kv, page), kv->page_bytes);
    hearth_kv_unpin(kv, copy);
    kv->pages[copy].steps = kv->pages[page].steps;
    memcpy(kv->pages[copy].tokens, kv->pages[page].tokens, sizeof kv->pages[copy].tokens);
    return copy;
}

// ---- room for what comes next

static int check_context(const struct hearth_kv *kv, const struct hearth_kv_seq *s, int n,
                         struct hearth_error *err)
{
    if (n <= kv->n_ctx - s->length)
        return HEARTH_OK;
    return hearth_fail_param(
        err, HEARTH_E_BUDGET, "n_ctx",
        "the context of %d tokens is full (sequence %d has %d, %d more asked for): use a larger n_ctx",
        kv->n_ctx, (int)(s - kv->seqs), s->length, n);
}

// Pages that a sequence takes for n more positions. If its last page is shared it lets go of it, so that the
// others of this evaluation see who is left: the last of them needs no copy.
static int count_pages(struct hearth_kv *kv, struct hearth_kv_seq *s, int n)
{
    const int first = s->length / HEARTH_KV_TILE, more = pages_for(s->length + n) - s->n_pages;
    assert(n > 0 && !s->copies);
    s->copies = first < s->n_pages && kv->pages[s->pages[first]].refs > 1;
    if (s->copies)
        release(kv, s->pages[first]);
    return s->copies + (more > 0 ? more : 0);
}

static void take_pages(struct hearth_kv *kv, struct hearth_kv_seq *s, int n)
{
    int *last = &s->pages[s->length / HEARTH_KV_TILE];
    if (s->copies)
        *last = copy_of(kv, *last);
    s->copies = false;
    while (s->n_pages < pages_for(s->length + n))
        s->pages[s->n_pages++] = take(kv);
}

// Whether there are so many free pages, and memory for them.
static int check_pool(const struct hearth_kv *kv, int64_t wanted, struct hearth_error *err)
{
    if (wanted > kv->n_free)
        return hearth_fail_param(
            err, HEARTH_E_KV_FULL, "kv_tokens",
            "the KV cache is full: pages of %d tokens needed: %lld, free: %d of %d; fewer or shorter "
            "sequences fit, or use a larger kv_tokens",
            HEARTH_KV_TILE, (long long)wanted, kv->n_free, kv->n_pages);
    int warm = kv->n_warm;
    for (int i = kv->n_free - (int)wanted; i < kv->n_free; i++)
        warm = kv->free_list[i] < warm ? warm : kv->free_list[i] + 1;
    if (warm == kv->n_warm || !kv->on_growth)
        return HEARTH_OK;
    return kv->on_growth(kv->on_growth_arg,
                         hearth_region_bytes_of(&kv->region, (size_t)warm * kv->page_bytes), err);
}

int hearth_kv_reserve(struct hearth_kv *kv, const int *seqs, const int *counts, int n,
                      struct hearth_error *err)
{
    int64_t wanted = 0;
    for (int i = 0; i < n; i++) {
        const int rc = check_context(kv, &kv->seqs[seqs[i]], counts[i], err);
        if (rc)
            return rc;
    }
    for (int i = 0; i < n; i++)
        wanted += count_pages(kv, &kv->seqs[seqs[i]], counts[i]);
    const int rc = check_pool(kv, wanted, err);
    for (int i = 0; i < n && !rc; i++)
        take_pages(kv, &kv->seqs[seqs[i]], counts[i]);
    for (int i = 0; i < n && rc; i++) {
        struct hearth_kv_seq *s = &kv->seqs[seqs[i]];
        if (s->copies)
            hold(kv, s->pages[s->length / HEARTH_KV_TILE]);
        s->copies = false;
    }
    return rc;
}

void hearth_kv_seq_append(struct hearth_kv *kv, int seq, const hearth_token *tokens, int n,
                          enum hearth_phase phase)
{
    struct hearth_kv_seq *s = &kv->seqs[seq];
    assert(s->length + n <= s->n_pages * HEARTH_KV_TILE);
    for (int i = 0; i < n; i++, s->length++) {
        struct hearth_kv_page *p = &kv->pages[s->pages[s->length / HEARTH_KV_TILE]];
        const int slot = s->length % HEARTH_KV_TILE;
        assert(p->refs == 1);
        p->tokens[slot] = tokens[i];
        p->steps = (p->steps & ~(UINT64_C(1) << slot)) | (uint64_t)(phase == HEARTH_PHASE_STEP) << slot;
    }
}

// ---- sequences

int hearth_kv_check_seq(const struct hearth_kv *kv, int seq, struct hearth_error *err)
{
    return hearth_kv_has(kv, seq) ? HEARTH_OK
                                  : hearth_fail(err, HEARTH_E_INVALID, "there is no sequence %d", seq);
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
    return hearth_fail_param(err, HEARTH_E_BUDGET, "max_seqs",
                             "all %d sequences of the session (max_seqs) are in use", kv->max_seqs);
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
    hearth_states_fork(&kv->states, seq, copy, length);
    for (int i = 0; i < to->n_pages; i++) {
        to->pages[i] = from->pages[i];
        hold(kv, to->pages[i]);
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
    hearth_states_truncate(&kv->states, seq, length);
}

void hearth_kv_seq_rewind(struct hearth_kv *kv, int seq)
{
    kv->seqs[seq].length = 0;
    hearth_states_truncate(&kv->states, seq, 0);
}

// ---- the pool

// Lists the free pages anew; they are popped from the end: low pages first.
static void list_free(struct hearth_kv *kv)
{
    kv->n_free = 0;
    for (int i = kv->n_pages; i-- > 0;)
        if (kv->pages[i].state == HEARTH_KV_FREE)
            kv->free_list[kv->n_free++] = i;
}

static int check_type(const struct hearth_hparams *hp, uint32_t type, const char *param,
                      struct hearth_error *err)
{
    const struct hearth_type_info *info = hearth_type_info(type);
    const int dims[] = {hp->head_dim, hp->value_dim, hp->head_dim_window, hp->value_dim_window};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        if ((uint32_t)dims[i] % info->block_elems)
            return hearth_fail_param(
                err, HEARTH_E_INVALID, param,
                "a KV cache of type %s needs heads of a multiple of %u dimensions, this model's have %d; "
                "use f16",
                info->name, info->block_elems, dims[i]);
    return HEARTH_OK;
}

// Sizes of one kind of layers.
static struct hearth_kv_heads heads_of(const struct hearth_kv *kv, int n, int dim, int value)
{
    struct hearth_kv_heads h = {.n = n, .dim = dim, .value = value};
    h.row_k = hearth_type_bytes(kv->type_k, (uint64_t)dim);
    h.row_v = kv->latent ? 0 : hearth_type_bytes(kv->type_v, (uint64_t)value);
    h.stride_v = kv->latent ? h.row_k : h.row_v;
    h.bytes = hearth_round_up(HEARTH_KV_TILE * (h.row_k + h.row_v), 64);
    return h;
}

static int blocks_per_page(const struct hearth_hparams *hp, int layer)
{
    const int block = hp->blender.block[layer];
    return !block ? 0 : block < HEARTH_KV_TILE ? HEARTH_KV_TILE / block : 1;
}

// Of a layer's blocks of positions in a page: their vectors, then keys to choose them by.
static size_t blocks_bytes(const struct hearth_kv *kv, int layer)
{
    const size_t n = (size_t)blocks_per_page(kv->hp, layer),
                 keys =
                     hearth_blend_overlaps(kv->hp, layer) ? (size_t)kv->hp->chooser.dim * sizeof(float) : 0;
    return hearth_round_up(n * kv->heads[hearth_window_of(kv->hp, layer) != 0].row_k, 64) +
           hearth_round_up(n * keys, 64);
}

// Bytes of a page, and where the layers' parts begin, unless `layers` is NULL. false: too many.
static bool lay_out_page(const struct hearth_kv *kv, struct hearth_kv_layer *layers, size_t *bytes)
{
    const struct hearth_hparams *hp = kv->hp;
    *bytes = 0;
    for (int i = 0; i < hp->n_layer; i++) {
        struct hearth_kv_heads heads = kv->heads[hearth_window_of(hp, i) != 0];
        const size_t at = *bytes;
        size_t own;
        heads.n = hearth_n_head_kv_of(hp, i);
        if (hearth_kv_has_own(hp, i) &&
            (!hearth_mul_size(heads.bytes, (size_t)heads.n, &own) ||
             !hearth_add_size(own, HEARTH_KV_TILE * hearth_kv_row_choice(kv, i), &own) ||
             !hearth_add_size(own, blocks_bytes(kv, i), &own) || !hearth_add_size(at, own, bytes)))
            return false;
        if (layers)
            layers[i] = hearth_keys_of(hp, i) == i
                            ? (struct hearth_kv_layer){at, heads, (uint8_t)blocks_per_page(hp, i),
                                                       hearth_blend_overlaps(hp, i)}
                            : layers[hearth_keys_of(hp, i)];
    }
    return true;
}

// Sizes of everything; *bytes becomes that of all pages.
static int measure(struct hearth_kv *kv, const struct hearth_hparams *hp, const struct hearth_kv_params *p,
                   size_t *bytes, struct hearth_error *err)
{
    kv->hp = hp;
    kv->n_layer = 0;
    for (int i = 0; i < hp->n_layer; i++)
        kv->n_layer += hearth_kv_has_own(hp, i);
    kv->latent = hearth_values_in_keys(hp);
    kv->type_k = p->type_k;
    kv->type_v = kv->latent ? p->type_k : p->type_v;
    kv->heads[false] = heads_of(kv, hp->n_head_kv, hp->head_dim, hp->value_dim);
    kv->heads[true] = heads_of(kv, hp->n_head_kv_window, hp->head_dim_window, hp->value_dim_window);
    kv->row_choice = (size_t)hp->chooser.dim * sizeof(float);
    kv->n_ctx = p->n_ctx;
    kv->max_seqs = p->max_seqs;
    kv->pages_per_seq = pages_for(p->n_ctx);

    // More than what all sequences can hold would never be used.
    size_t most;
    const bool fits = hearth_mul_size((size_t)p->max_seqs, (size_t)kv->pages_per_seq, &most);
    const size_t asked = (size_t)pages_for(p->n_tokens), n = asked && (!fits || asked < most) ? asked : most;
    if (!fits || most > INT32_MAX || !lay_out_page(kv, NULL, &kv->page_bytes) ||
        !hearth_mul_size(kv->page_bytes, n, bytes))
        return hearth_fail_param(
            err, HEARTH_E_BUDGET, "n_ctx",
            "a KV cache of %d sequences of %d positions is too large: use fewer sequences or a smaller n_ctx",
            p->max_seqs, p->n_ctx);
    kv->n_pages = (int)n;
    return HEARTH_OK;
}

int hearth_kv_open(struct hearth_kv *kv, const struct hearth_hparams *hp, const struct hearth_kv_params *p,
                   struct hearth_error *err)
{
    *kv = (struct hearth_kv){0};
    size_t bytes = 0;
    int rc = check_type(hp, p->type_k, "type_k", err);
    if (!rc)
        rc = check_type(hp, p->type_v, "type_v", err);
    if (!rc)
        rc = measure(kv, hp, p, &bytes, err);
    if (!rc && p->sizes_only) {
        kv->region.size = bytes;
        rc = hearth_states_measure(&kv->states, hp, p->n_states, p->max_seqs, err);
    }
    if (rc || p->sizes_only)
        return rc;
    kv->pages = hearth_calloc((size_t)kv->n_pages, sizeof *kv->pages);
    kv->free_list = hearth_calloc((size_t)kv->n_pages, sizeof *kv->free_list);
    kv->page_table = hearth_calloc((size_t)p->max_seqs * (size_t)kv->pages_per_seq, sizeof *kv->page_table);
    kv->seqs = hearth_calloc((size_t)p->max_seqs, sizeof *kv->seqs);
    kv->layers = hearth_calloc((size_t)hp->n_layer, sizeof *kv->layers);
    if (!kv->pages || !kv->free_list || !kv->page_table || !kv->seqs || !kv->layers)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the KV page table");
    lay_out_page(kv, kv->layers, &kv->page_bytes);
    rc = hearth_region_open(&kv->region, bytes, "the KV cache", err);
    if (!rc)
        rc = hearth_states_open(&kv->states, hp, p->n_states, p->max_seqs, err);
    if (rc)
        return rc;
    kv->states.keeps = p->keeps_steps && kv->states.n_slots;
    HEARTH_POISON(kv->region.base, kv->region.size);
    list_free(kv);
    for (int i = 0; i < p->max_seqs; i++)
        kv->seqs[i].pages = kv->page_table + (size_t)i * (size_t)kv->pages_per_seq;
    return HEARTH_OK;
}

uint64_t hearth_kv_table_bytes(const struct hearth_kv *kv)
{
    const uint64_t pages = (uint64_t)kv->n_pages, seqs = (uint64_t)kv->max_seqs;
    return pages * (sizeof *kv->pages + sizeof *kv->free_list) +
           seqs * (sizeof *kv->seqs + (uint64_t)kv->pages_per_seq * sizeof *kv->page_table) +
           (uint64_t)kv->hp->n_layer * sizeof *kv->layers + hearth_states_table_bytes(&kv->states);
}

void hearth_kv_close(struct hearth_kv *kv)
{
    if (kv->region.base)
        HEARTH_UNPOISON(kv->region.base, kv->region.size);
    hearth_region_close(&kv->region);
    hearth_states_close(&kv->states);
    free(kv->pages);
    free(kv->free_list);
    free(kv->page_table);
    free(kv->seqs);
    free(kv->layers);
    *kv = (struct hearth_kv){0};
}

uint64_t hearth_kv_memory(const struct hearth_kv *kv)
{
    return hearth_region_bytes_of(&kv->region, (size_t)kv->n_warm * kv->page_bytes);
}

// Pages up to the highest one that is held.
static int held_pages(const struct hearth_kv *kv)
{
    int n = kv->n_warm;
    while (n && kv->pages[n - 1].state == HEARTH_KV_FREE)
        n--;
    return n;
}

bool hearth_kv_is_slack(const struct hearth_kv *kv)
{
    return kv->n_warm > 2 * held_pages(kv);
}

// Free pages among those that are held: what lies between their neighbours' memory.
static void discard_page(const struct hearth_kv *kv, int page)
{
    hearth_discard_inside(bytes_of(kv, page), kv->page_bytes);
}

void hearth_kv_trim(struct hearth_kv *kv)
{
    const uint64_t before = hearth_kv_memory(kv);
    kv->n_warm = held_pages(kv);
    const uint64_t now = hearth_kv_memory(kv);
    if (now < before)
        hearth_os_discard((uint8_t *)kv->region.base + now, (size_t)(before - now));
    for (int i = 0; i < kv->n_warm; i++)
        if (kv->pages[i].state == HEARTH_KV_FREE)
            discard_page(kv, i);
    list_free(kv);
    hearth_states_trim(&kv->states);
}

// ---- for tests

static const char *check_seq(const struct hearth_kv *kv, const struct hearth_kv_seq *s, int *refs)
{
    if (s->copies)
        return "a sequence still wants a copy of a page";
    if (!s->used)
        return s->n_pages ? "a sequence that is not in use holds pages" : NULL;
    if (s->length < 0 || s->length > kv->n_ctx || s->n_pages > kv->pages_per_seq)
        return "a sequence is longer than its context";
    if (s->n_pages < pages_for(s->length))
        return "a sequence has fewer pages than positions";
    for (int i = 0; i < s->n_pages; i++) {
        if (s->pages[i] < 0 || s->pages[i] >= kv->n_pages)
            return "a sequence holds a page that does not exist";
        refs[s->pages[i]]++;
    }
    return NULL;
}

// refs: how many sequences hold each page; free pages are marked with -1 on the way.
static const char *check_pages(const struct hearth_kv *kv, int *refs)
{
    int shared = 0;
    if (kv->n_free < 0 || kv->n_free > kv->n_pages)
        return "the free list's length is out of range";
    for (int i = 0; i < kv->n_free; i++) {
        const int page = kv->free_list[i];
        if (page < 0 || page >= kv->n_pages || refs[page])
            return "the free list has a page twice, or one that is held";
        refs[page] = -1;
    }
    for (int i = 0; i < kv->n_pages; i++) {
        const struct hearth_kv_page *p = &kv->pages[i];
        if (refs[i] == 0)
            return "a page belongs to nobody and is not free";
        if ((refs[i] < 0) != (p->state == HEARTH_KV_FREE) || p->refs != (refs[i] < 0 ? 0 : refs[i]))
            return "a page's owners are miscounted";
        if (p->pins)
            return "a page is still pinned";
        if (p->refs && i >= kv->n_warm)
            return "a page is held that should have no memory";
        shared += refs[i] > 1;
    }
    return shared == kv->n_shared ? NULL : "shared pages are miscounted";
}

const char *hearth_kv_check(const struct hearth_kv *kv)
{
    int *refs = hearth_calloc((size_t)kv->n_pages, sizeof *refs);
    const char *wrong = refs ? NULL : "no memory to check the pool";
    for (int i = 0; i < kv->max_seqs && !wrong; i++)
        wrong = check_seq(kv, &kv->seqs[i], refs);
    if (!wrong)
        wrong = check_pages(kv, refs);
    if (!wrong)
        wrong = hearth_states_check(&kv->states, kv);
    free(refs);
    return wrong;
}
