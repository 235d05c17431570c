// SPDX-License-Identifier: MIT
// The text of a grammar, read: rules made of items. The language is llama.cpp's GBNF (docs/grammar.md).
#ifndef HEARTH_GRAMMAR_GBNF_H
#define HEARTH_GRAMMAR_GBNF_H

#include "gguf/gguf.h"
#include "text/table.h"

enum hearth_gbnf_kind {
    HEARTH_GBNF_SEQUENCE,     // children one after the other; `n` is the last of them
    HEARTH_GBNF_ALTERNATIVES, // one of the children
    HEARTH_GBNF_REPEAT,       // the child, `n` to `max` times
    HEARTH_GBNF_RULE,         // what rule `first` says
    HEARTH_GBNF_TEXT,         // bytes[first..first+n)
    HEARTH_GBNF_CLASS,        // one character of ranges[first..first+n)
    HEARTH_GBNF_TOKEN,        // token `first`, whole
    HEARTH_GBNF_NOT_TOKEN     // any other token
};

#define HEARTH_GBNF_NO_MAX UINT32_MAX

// An item of a rule. Items are numbered from 1; 0 is none.
struct hearth_gbnf_item {
    enum hearth_gbnf_kind kind;
    uint32_t next, prev; // the parent's children
    uint32_t first;      // first child, or as above
    uint32_t n, max;
};

struct hearth_gbnf_range {
    uint32_t lo, hi; // code points, both included
};

struct hearth_gbnf_rule {
    uint32_t body;  // an item; 0: not defined (yet)
    const char *at; // its definition in the text; its first use, until there is one
};

enum {
    HEARTH_GBNF_MAX_TEXT = 1 << 20,  // bytes of a grammar
    HEARTH_GBNF_MAX_DEPTH = 100,     // parentheses in parentheses
    HEARTH_GBNF_MAX_RULES = 1 << 14, // rules
    HEARTH_GBNF_MAX_AGAIN = 8,       // repetitions of repetitions
    HEARTH_GBNF_MAX_REPEAT = 100000  // numbers in {m,n}
};

struct hearth_gbnf {
    const char *text;
    size_t n_text;
    struct hearth_gbnf_item *items;   // [n_items], from 1
    struct hearth_gbnf_range *ranges; // [n_ranges], of each class ascending and apart
    struct hearth_gbnf_rule *rules;   // [n_rules]
    struct hearth_str *names;         // [n_rules], in `text`
    char *bytes;                      // [n_bytes]
    uint32_t n_items, n_ranges, n_rules, n_bytes;
    uint32_t cap_items, cap_ranges, cap_rules, cap_names, cap_bytes;
    uint32_t root; // a rule
    struct hearth_strtab by_name;
};

#define HEARTH_GBNF_FAILED (-2)

// The token of exactly this text; -1: there is none; HEARTH_GBNF_FAILED: there is no memory to find out.
typedef hearth_token (*hearth_gbnf_token_fn)(const void *arg, const char *text, size_t n);

// Reads text[0..n), which is borrowed while *g is open. `token` NULL: there are no tokens; else ids below
// n_tokens are good. Messages begin with line and column. HEARTH_E_FORMAT, HEARTH_E_MEMORY. Call
// hearth_gbnf_close() in any case.
int hearth_gbnf_read(struct hearth_gbnf *g, const char *text, size_t n, hearth_gbnf_token_fn token,
                     const void *arg, int n_tokens, struct hearth_error *err);
void hearth_gbnf_close(struct hearth_gbnf *g);

// Says what is wrong at a place of the text, with its line and column, about a name; returns
// HEARTH_E_FORMAT.
int hearth_gbnf_fail(const struct hearth_gbnf *g, const char *at, const char *what, struct hearth_str name,
                     struct hearth_error *err);

#endif
