// SPDX-License-Identifier: MIT
// Collects the tokens' texts, sorts them, and makes the tree in one pass.
#include "grammar/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "grammar/grammar.h"

struct piece {
    const char *s;
    uint32_t n;
    hearth_token token;
};

static int by_text(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    const int order = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);
    if (order)
        return order;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

// Pieces of 64 KiB and more have no place in the tree, nor do they in any vocabulary.
static size_t length_of(const struct hearth_model *model, hearth_token t)
{
    const size_t n = hearth_token_is_eog(model, t) ? 0 : hearth_token_bytes(model, t, false, NULL, 0);
    return n < UINT16_MAX ? n : 0;
}

static bool copy_texts(struct hearth_pieces *p, const struct hearth_model *model)
{
    size_t total = 0;
    for (hearth_token t = 0; t < p->n_tokens; t++) {
        const size_t n = length_of(model, t);
        if (total + n > UINT32_MAX / 2)
            return false;
        p->first[t] = (uint32_t)total;
        total += n;
        p->longest = n > p->longest ? (uint32_t)n : p->longest;
        if (hearth_token_is_eog(model, t))
            hearth_set_bit(p->ends, t);
    }
    p->first[p->n_tokens] = (uint32_t)total;
    p->bytes = hearth_calloc(total + 1, 1);
    for (hearth_token t = 0; p->bytes && t < p->n_tokens; t++)
        (void)hearth_token_bytes(model, t, false, p->bytes + p->first[t], p->first[t + 1] - p->first[t]);
    return p->bytes != NULL;
}

static uint32_t sort_texts(const struct hearth_pieces *p, struct piece *sorted)
{
    uint32_t n = 0;
    for (hearth_token t = 0; t < p->n_tokens; t++)
        if (p->first[t + 1] > p->first[t])
            sorted[n++] = (struct piece){p->bytes + p->first[t], p->first[t + 1] - p->first[t], t};
    if (n)
        qsort(sorted, n, sizeof *sorted, by_text);
    return n;
}

static uint32_t in_common(const struct piece *a, const struct piece *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->s[n] == b->s[n])
        n++;
    return n;
}

// path[d]: the node at depth d that is still open.
static void make_tree(struct hearth_pieces *p, const struct piece *sorted, uint32_t n, uint32_t *path)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct piece *piece = &sorted[i];
        const uint32_t common = i ? in_common(piece - 1, piece) : 0;
        while (open > common)
            p->nodes[path[--open]].end = p->n_nodes;
        for (; open < piece->n; open++) {
            path[open] = p->n_nodes;
            p->nodes[p->n_nodes++] =
                (struct hearth_piece_node){0, -1, (uint16_t)open, (uint8_t)piece->s[open]};
        }
        struct hearth_piece_node *last = &p->nodes[path[piece->n - 1]];
        p->same[piece->token] = last->token;
        last->token = piece->token;
    }
    while (open > 0)
        p->nodes[path[--open]].end = p->n_nodes;
}

static bool build(struct hearth_pieces *p)
{
    struct piece *sorted = hearth_calloc((size_t)p->n_tokens, sizeof *sorted);
    uint32_t *path = hearth_calloc((size_t)p->longest + 1, sizeof *path);
    if (sorted && path) {
        const uint32_t n = sort_texts(p, sorted);
        size_t nodes = 1;
        for (uint32_t i = 0; i < n; i++)
            nodes += sorted[i].n - (i ? in_common(&sorted[i - 1], &sorted[i]) : 0);
        p->nodes = hearth_calloc(nodes, sizeof *p->nodes);
        if (p->nodes)
            make_tree(p, sorted, n, path);
    }
    free(sorted);
    free(path);
    return p->nodes != NULL;
}

int hearth_pieces_open(struct hearth_pieces *p, const struct hearth_model *model, struct hearth_error *err)
{
    *p = (struct hearth_pieces){.n_tokens = hearth_model_info(model)->n_vocab};
    p->n_words = ((uint32_t)p->n_tokens + 63) / 64;
    p->first = hearth_calloc((size_t)p->n_tokens + 1, sizeof *p->first);
    p->same = hearth_calloc((size_t)p->n_tokens, sizeof *p->same);
    p->ends = hearth_calloc(p->n_words, sizeof *p->ends);
    if (!p->first || !p->same || !p->ends || !copy_texts(p, model) || !build(p))
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for the texts of %d tokens", p->n_tokens);
    return HEARTH_OK;
}

void hearth_pieces_close(struct hearth_pieces *p)
{
    free(p->first);
    free(p->bytes);
    free(p->same);
    free(p->ends);
    free(p->nodes);
    *p = (struct hearth_pieces){0};
}
