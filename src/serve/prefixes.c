// SPDX-License-Identifier: MIT
// What is kept of former prompts.
#include "serve/prefixes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/kv_block.h"

struct entry {
    int seq, n;
    hearth_token *tokens;
    uint64_t used;
    int n_offered; // blocks
};

struct hearth_prefixes {
    struct hearth_session *session;
    struct entry *entries;
    int n, cap;
    uint64_t clock;
};

struct hearth_prefixes *hearth_prefixes_open(struct hearth_session *session, int cap)
{
    struct hearth_prefixes *p = hearth_calloc(1, sizeof *p);
    struct entry *entries = p ? hearth_calloc((size_t)cap + 1, sizeof *entries) : NULL;
    if (!entries) {
        free(p);
        return NULL;
    }
    *p = (struct hearth_prefixes){.session = session, .entries = entries, .cap = cap};
    return p;
}

// The last entry takes the place of one that goes.
static void forget(struct hearth_prefixes *p, int i)
{
    free(p->entries[i].tokens);
    p->entries[i] = p->entries[--p->n];
}

void hearth_prefixes_close(struct hearth_prefixes **p)
{
    if (!*p)
        return;
    while (hearth_prefixes_drop(*p))
        ;
    free((*p)->entries);
    free(*p);
    *p = NULL;
}

int hearth_common_prefix(const hearth_token *a, int na, const hearth_token *b, int nb)
{
    const int n = na < nb ? na : nb;
    int i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

int hearth_prefixes_find(const struct hearth_prefixes *p, const hearth_token *tokens, int n, int *entry)
{
    int best = 0;
    *entry = -1;
    for (int i = 0; i < p->n; i++) {
        const int common = hearth_common_prefix(p->entries[i].tokens, p->entries[i].n, tokens, n);
        if (common > best) {
            best = common;
            *entry = i;
        }
    }
    return best;
}

int hearth_prefixes_take(struct hearth_prefixes *p, int entry, int n, struct hearth_error *err)
{
    struct entry *e = &p->entries[entry];
    e->used = ++p->clock;
    if (n < e->n)
        return hearth_seq_fork(p->session, e->seq, n, err);
    const int seq = e->seq;
    forget(p, entry);
    return seq;
}

int hearth_prefixes_fork(struct hearth_prefixes *p, int entry, int n, struct hearth_error *err)
{
    struct entry *e = &p->entries[entry];
    e->used = ++p->clock;
    return hearth_seq_fork(p->session, e->seq, n, err);
}

bool hearth_prefixes_drop(struct hearth_prefixes *p)
{
    int oldest = 0;
    for (int i = 1; i < p->n; i++)
        if (p->entries[i].used < p->entries[oldest].used)
            oldest = i;
    if (!p->n)
        return false;
    hearth_seq_free(p->session, p->entries[oldest].seq);
    forget(p, oldest);
    return true;
}

int hearth_prefixes_erase(struct hearth_prefixes *p, const hearth_token *tokens, int n)
{
    int most = 0;
    for (int i = p->n - 1; i >= 0; i--) {
        const struct entry *e = &p->entries[i];
        if (hearth_common_prefix(e->tokens, e->n, tokens, n) < e->n)
            continue;
        most = e->n > most ? e->n : most;
        hearth_seq_free(p->session, e->seq);
        forget(p, i);
    }
    return most;
}

void hearth_prefixes_keep(struct hearth_prefixes *p, int seq, const hearth_token *tokens, int n,
                          int n_offered)
{
    struct hearth_error err;
    hearth_token *copy = n > 0 && p->cap ? hearth_calloc((size_t)n, sizeof *copy) : NULL;
    if (!copy || hearth_seq_truncate(p->session, seq, n, &err)) {
        free(copy);
        hearth_seq_free(p->session, seq);
        return;
    }
    memcpy(copy, tokens, (size_t)n * sizeof *copy);
    hearth_prefixes_erase(p, tokens, n); // they have nothing that the new one lacks
    if (p->n == p->cap)
        hearth_prefixes_drop(p);
    p->entries[p->n++] = (struct entry){seq, n, copy, ++p->clock, n_offered};
}

bool hearth_prefixes_offer(struct hearth_prefixes *p, struct hearth_prefix_offer *offer)
{
    struct entry *last = NULL;
    for (int i = 0; i < p->n; i++) {
        struct entry *e = &p->entries[i];
        if (e->n / HEARTH_BLOCK_TOKENS > e->n_offered && (!last || e->used > last->used))
            last = e;
    }
    if (!last)
        return false;
    *offer = (struct hearth_prefix_offer){last->seq, last->n / HEARTH_BLOCK_TOKENS, last->tokens};
    last->n_offered = offer->n;
    return true;
}

int hearth_prefixes_count(const struct hearth_prefixes *p)
{
    return p->n;
}
