// SPDX-License-Identifier: MIT
// From rules to nodes. An item is compiled with the node that comes after it, from the last to the first, so a
// repetition is just its item compiled again. Characters become the bytes of their UTF-8 form: the recogniser
// may then stop between any two bytes.
#include "grammar/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "grammar/left.h"
#include "text/unicode.h"

// Nothing is a node: the compiler has failed.
#define FAILED UINT32_MAX
// Items compiled, with repetitions: those of nothing make no nodes, but take time.
#define MAX_WORK (1u << 22)

struct compiler {
    struct hearth_program *p;
    const struct hearth_gbnf *g;
    uint32_t cap_nodes, cap_edges, work;
    bool no_memory;
    uint32_t *starts; // [n_rules] a HEARTH_NODE_SPLIT with one edge to the rule
};

static uint32_t add_node(struct compiler *c, struct hearth_node node)
{
    struct hearth_program *p = c->p;
    if (p->n_nodes == HEARTH_PROGRAM_MAX_NODES)
        return FAILED;
    if (p->n_nodes == c->cap_nodes) {
        const uint32_t larger = c->cap_nodes ? c->cap_nodes * 2 : 256;
        struct hearth_node *nodes = hearth_reallocarray(p->nodes, larger, sizeof *nodes);
        if (!nodes) {
            c->no_memory = true;
            return FAILED;
        }
        p->nodes = nodes;
        c->cap_nodes = larger;
    }
    p->nodes[p->n_nodes] = node;
    return p->n_nodes++;
}

// Takes n edges; FAILED: no memory, or too many.
static uint32_t take_edges(struct compiler *c, uint32_t n)
{
    struct hearth_program *p = c->p;
    if (p->n_edges + n > HEARTH_PROGRAM_MAX_EDGES)
        return FAILED;
    while (p->n_edges + n > c->cap_edges) {
        const uint32_t larger = c->cap_edges ? c->cap_edges * 2 : 256;
        struct hearth_edge *edges = hearth_reallocarray(p->edges, larger, sizeof *edges);
        if (!edges) {
            c->no_memory = true;
            return FAILED;
        }
        p->edges = edges;
        c->cap_edges = larger;
    }
    p->n_edges += n;
    return p->n_edges - n;
}

// A node that reads one byte of lo to hi.
static uint32_t add_byte_node(struct compiler *c, uint8_t lo, uint8_t hi, uint32_t next)
{
    const uint32_t edge = take_edges(c, 1);
    if (edge == FAILED)
        return FAILED;
    c->p->edges[edge] = (struct hearth_edge){next, lo, hi};
    return add_node(c, (struct hearth_node){HEARTH_NODE_BYTES, edge, 1, 0});
}

// ---- classes of characters

// What a class needs: nodes for the bytes after the first, which characters share, and the first bytes.
struct class_nodes {
    uint32_t next;
    struct later {
        uint32_t next, node;
        uint8_t lo, hi;
    } later[64];
    uint32_t n_later;
    struct hearth_edge *first;
    uint32_t n_first, cap_first;
    bool failed;
};

static uint32_t later_byte(struct compiler *c, struct class_nodes *k, uint8_t lo, uint8_t hi, uint32_t next)
{
    for (uint32_t i = 0; i < k->n_later; i++)
        if (k->later[i].next == next && k->later[i].lo == lo && k->later[i].hi == hi)
            return k->later[i].node;
    const uint32_t node = add_byte_node(c, lo, hi, next);
    if (k->n_later < sizeof k->later / sizeof k->later[0])
        k->later[k->n_later++] = (struct later){next, node, lo, hi};
    return node;
}

// Characters whose UTF-8 forms have the same length and are all combinations of the bytes between those of lo
// and those of hi.
static void add_block(struct compiler *c, struct class_nodes *k, uint32_t lo, uint32_t hi)
{
    char from[4], to[4];
    const size_t n = hearth_utf8_encode(lo, from);
    (void)hearth_utf8_encode(hi, to);
    uint32_t next = k->next;
    for (size_t i = n - 1; i > 0; i--) {
        next = later_byte(c, k, (uint8_t)from[i], (uint8_t)to[i], next);
        if (next == FAILED) {
            k->failed = true;
            return;
        }
    }
    if (k->n_first == k->cap_first) {
        k->cap_first = k->cap_first ? k->cap_first * 2 : 16;
        struct hearth_edge *first = hearth_reallocarray(k->first, k->cap_first, sizeof *first);
        if (!first) {
            c->no_memory = k->failed = true;
            return;
        }
        k->first = first;
    }
    k->first[k->n_first++] = (struct hearth_edge){next, (uint8_t)from[0], (uint8_t)to[0]};
}

// Cuts a range of characters into blocks.
static void add_range(struct compiler *c, struct class_nodes *k, uint32_t lo, uint32_t hi)
{
    static const uint32_t last_of_length[3] = {0x7F, 0x7FF, 0xFFFF};
    while (lo <= hi && !k->failed) {
        uint32_t end = hi;
        if (lo < 0xD800 && end >= 0xD800)
            end = 0xD7FF;
        for (int i = 0; i < 3; i++)
            if (lo <= last_of_length[i] && end > last_of_length[i])
                end = last_of_length[i];
        // With 6 bits a byte: either the low bytes go through all their values, or they are of one high part.
        for (int bits = 6; lo > 0x7F && bits <= 18; bits += 6) {
            const uint32_t low = (1u << bits) - 1;
            if ((lo & ~low) == (end & ~low))
                break;
            if (lo & low)
                end = lo | low;
            else if ((end & low) != low)
                end = (end & ~low) - 1;
        }
        if (lo >= 0xD800 && lo <= 0xDFFF)
            end = hi < 0xDFFF ? hi : 0xDFFF;
        else
            add_block(c, k, lo, end);
        lo = end + 1;
    }
}

static uint32_t compile_class(struct compiler *c, const struct hearth_gbnf_item *item, uint32_t next)
{
    struct class_nodes k = {.next = next};
    for (uint32_t i = 0; i < item->n; i++)
        add_range(c, &k, c->g->ranges[item->first + i].lo, c->g->ranges[item->first + i].hi);
    uint32_t node = FAILED;
    const uint32_t edges = k.failed ? FAILED : take_edges(c, k.n_first);
    if (edges != FAILED) {
        if (k.n_first)
            memcpy(c->p->edges + edges, k.first, k.n_first * sizeof *k.first);
        node = add_node(c, (struct hearth_node){HEARTH_NODE_BYTES, edges, k.n_first, 0});
    }
    free(k.first);
    return node;
}

// ---- items

static uint32_t compile(struct compiler *c, uint32_t item, uint32_t next);

static uint32_t compile_text(struct compiler *c, const struct hearth_gbnf_item *item, uint32_t next)
{
    for (uint32_t i = item->n; i-- > 0 && next != FAILED;) {
        const uint8_t byte = (uint8_t)c->g->bytes[item->first + i];
        next = add_byte_node(c, byte, byte, next);
    }
    return next;
}

static uint32_t compile_sequence(struct compiler *c, uint32_t last, uint32_t next)
{
    for (uint32_t child = last; child && next != FAILED; child = c->g->items[child].prev)
        next = compile(c, child, next);
    return next;
}

static uint32_t compile_alternatives(struct compiler *c, uint32_t first, uint32_t next)
{
    uint32_t n = 0;
    for (uint32_t child = first; child; child = c->g->items[child].next)
        n++;
    if (n == 1)
        return compile(c, first, next);
    const uint32_t edges = take_edges(c, n);
    if (edges == FAILED)
        return FAILED;
    uint32_t i = 0;
    for (uint32_t child = first; child; child = c->g->items[child].next, i++) {
        const uint32_t node = compile(c, child, next);
        if (node == FAILED)
            return FAILED;
        c->p->edges[edges + i] = (struct hearth_edge){node, 0, 0};
    }
    return add_node(c, (struct hearth_node){HEARTH_NODE_SPLIT, edges, n, 0});
}

// A split with an edge to `next` and one that is the caller's to fill in.
static uint32_t add_choice(struct compiler *c, uint32_t next, uint32_t *open_edge)
{
    const uint32_t edges = take_edges(c, 2);
    if (edges == FAILED)
        return FAILED;
    c->p->edges[edges] = (struct hearth_edge){next, 0, 0};
    c->p->edges[edges + 1] = (struct hearth_edge){next, 0, 0};
    *open_edge = edges + 1;
    return add_node(c, (struct hearth_node){HEARTH_NODE_SPLIT, edges, 2, 0});
}

static uint32_t compile_repeat(struct compiler *c, const struct hearth_gbnf_item *repeat, uint32_t next)
{
    const struct hearth_gbnf_item item = *repeat;
    uint32_t end = next, edge;
    if (item.max == HEARTH_GBNF_NO_MAX) {
        const uint32_t loop = add_choice(c, next, &edge);
        const uint32_t body = loop == FAILED ? FAILED : compile(c, item.first, loop);
        if (body == FAILED)
            return FAILED;
        c->p->edges[edge].next = body;
        next = loop;
    } else {
        // One that is left out leaves out all that come after it.
        for (uint32_t i = item.n; i < item.max && next != FAILED; i++) {
            const uint32_t body = compile(c, item.first, next);
            const uint32_t choice = body == FAILED ? FAILED : add_choice(c, end, &edge);
            if (choice == FAILED)
                return FAILED;
            c->p->edges[edge].next = body;
            next = choice;
        }
    }
    for (uint32_t i = 0; i < item.n && next != FAILED; i++)
        next = compile(c, item.first, next);
    return next;
}

// Returns the node where the item begins.
static uint32_t compile(struct compiler *c, uint32_t index, uint32_t next)
{
    const struct hearth_gbnf_item *item = &c->g->items[index];
    if (next == FAILED || ++c->work > MAX_WORK)
        return FAILED;
    switch (item->kind) {
    case HEARTH_GBNF_SEQUENCE:
        return compile_sequence(c, item->n, next);
    case HEARTH_GBNF_ALTERNATIVES:
        return compile_alternatives(c, item->first, next);
    case HEARTH_GBNF_REPEAT:
        return compile_repeat(c, item, next);
    case HEARTH_GBNF_RULE:
        return add_node(c, (struct hearth_node){HEARTH_NODE_CALL, c->starts[item->first], 0, next});
    case HEARTH_GBNF_TEXT:
        return compile_text(c, item, next);
    case HEARTH_GBNF_CLASS:
        return compile_class(c, item, next);
    case HEARTH_GBNF_TOKEN:
        return add_node(c, (struct hearth_node){HEARTH_NODE_TOKEN, item->first, 0, next});
    case HEARTH_GBNF_NOT_TOKEN:
        return add_node(c, (struct hearth_node){HEARTH_NODE_NOT_TOKEN, item->first, 0, next});
    }
    return FAILED;
}

// ---- the program

// Rules may call those that come later: each begins with a node that is there before all others.
static bool make_starts(struct compiler *c)
{
    for (uint32_t i = 0; i < c->g->n_rules; i++) {
        const uint32_t edge = take_edges(c, 1);
        c->starts[i] =
            edge == FAILED ? FAILED : add_node(c, (struct hearth_node){HEARTH_NODE_SPLIT, edge, 1, 0});
        if (c->starts[i] == FAILED)
            return false;
    }
    return true;
}

static bool compile_rules(struct compiler *c)
{
    if (add_node(c, (struct hearth_node){HEARTH_NODE_RETURN, 0, 0, 0}) || !make_starts(c))
        return false;
    for (uint32_t i = 0; i < c->g->n_rules; i++) {
        const uint32_t body = compile(c, c->g->rules[i].body, 0);
        if (body == FAILED)
            return false;
        c->p->edges[c->p->nodes[c->starts[i]].at] = (struct hearth_edge){body, 0, 0};
    }
    c->p->start = c->starts[c->g->root];
    return true;
}

static void find_byte_classes(struct hearth_program *p)
{
    bool starts[257] = {true};
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t e = 0; p->nodes[i].kind == HEARTH_NODE_BYTES && e < p->nodes[i].n; e++) {
            const struct hearth_edge *edge = &p->edges[p->nodes[i].at + e];
            starts[edge->lo] = starts[edge->hi + 1] = true;
        }
    for (int b = 0; b < 256; b++) {
        p->n_classes += starts[b];
        p->byte_class[b] = (uint8_t)(p->n_classes - 1);
    }
}

int hearth_program_open(struct hearth_program *p, const struct hearth_gbnf *g, struct hearth_error *err)
{
    *p = (struct hearth_program){0};
    int rc = hearth_gbnf_check_left(g, err);
    if (rc)
        return rc;
    struct compiler c = {.p = p, .g = g};
    c.starts = hearth_calloc(g->n_rules, sizeof *c.starts);
    if (!c.starts || (!compile_rules(&c) && c.no_memory))
        rc = hearth_fail(err, HEARTH_E_MEMORY, "no memory for a grammar of %u rules", g->n_rules);
    else if (!p->start)
        rc = hearth_fail(
            err, HEARTH_E_FORMAT,
            "the grammar becomes too large (more than %d nodes): fewer or smaller repetitions {m,n}",
            HEARTH_PROGRAM_MAX_NODES);
    else
        find_byte_classes(p);
    free(c.starts);
    return rc;
}

void hearth_program_close(struct hearth_program *p)
{
    free(p->nodes);
    free(p->edges);
    *p = (struct hearth_program){0};
}
