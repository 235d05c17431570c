// SPDX-License-Identifier: MIT
// A grammar ready to run: nodes that read bytes, call rules and return from them. It never changes.
#ifndef HEARTH_GRAMMAR_PROGRAM_H
#define HEARTH_GRAMMAR_PROGRAM_H

#include "grammar/gbnf.h"

enum hearth_node_kind {
    HEARTH_NODE_RETURN,   // the end of a rule: goes on behind the call
    HEARTH_NODE_BYTES,    // reads a byte: goes on along the edges that have it
    HEARTH_NODE_SPLIT,    // goes on along all edges
    HEARTH_NODE_CALL,     // goes on at `at`, and at `next` when that returns
    HEARTH_NODE_TOKEN,    // reads token `at`, goes on at `next`
    HEARTH_NODE_NOT_TOKEN // reads any other
};

// One node. Node 0 is the only HEARTH_NODE_RETURN.
struct hearth_node {
    uint32_t kind; // enum hearth_node_kind
    uint32_t at;   // BYTES, SPLIT: the first edge. CALL: the rule's first node. TOKEN: the token
    uint32_t n;    // BYTES, SPLIT: how many edges
    uint32_t next; // CALL, TOKEN: a node
};

struct hearth_edge {
    uint32_t next;  // a node
    uint8_t lo, hi; // bytes, both included
};

enum { HEARTH_PROGRAM_MAX_NODES = 1 << 19, HEARTH_PROGRAM_MAX_EDGES = 1 << 22 };

struct hearth_program {
    struct hearth_node *nodes;
    struct hearth_edge *edges;
    uint32_t n_nodes, n_edges;
    uint32_t start;          // the first node of rule root
    uint8_t byte_class[256]; // bytes that no edge tells apart have the same one
    int n_classes;
};

// Makes the program of a grammar. HEARTH_E_FORMAT (a rule calls itself before it has read anything, or there
// are too many nodes), HEARTH_E_MEMORY. Call hearth_program_close() in any case.
int hearth_program_open(struct hearth_program *p, const struct hearth_gbnf *g, struct hearth_error *err);
void hearth_program_close(struct hearth_program *p);

#endif
