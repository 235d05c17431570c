// SPDX-License-Identifier: MIT
// Templates of Jinja as trees, and how texts become them.
#ifndef HEARTH_TEXT_JINJA_PARSE_H
#define HEARTH_TEXT_JINJA_PARSE_H

#include "text/jinja.h"

// ---- tokens

enum jinja_token_kind {
    JINJA_T_TEXT,
    JINJA_T_OUTPUT, // {{
    JINJA_T_OUTPUT_END,
    JINJA_T_BLOCK, // {%
    JINJA_T_BLOCK_END,
    JINJA_T_NAME,
    JINJA_T_VALUE, // a string or a number
    JINJA_T_OPERATOR,
    JINJA_T_END
};

struct jinja_token {
    uint8_t kind;
    uint16_t op; // JINJA_T_OPERATOR: its characters, see JINJA_OP()
    int line;
    const char *s; // JINJA_T_TEXT, JINJA_T_NAME
    size_t n;
    struct jinja_value value; // JINJA_T_VALUE
};

// An operator of one character or two.
#define JINJA_OP(c)     ((uint16_t)(c))
#define JINJA_OP2(c, d) ((uint16_t)((c) << 8 | (d)))

// The tokens of a template, the last one being JINJA_T_END. White space is cut as by Jinja2 with trim_blocks
// and lstrip_blocks.
struct jinja_token *hearth_jinja_lex(struct jinja *j, const char *text, size_t n);

// ---- trees

enum jinja_node_kind {
    JINJA_N_CONST, // value
    JINJA_N_NAME,  // name
    JINJA_N_INPUT, // what a block of text came to, for the filters after {% set x | ... %} and {% filter ... %}
    JINJA_N_LIST,       // list
    JINJA_N_TUPLE,      // list
    JINJA_N_DICT,       // list: keys, list2: values
    JINJA_N_NOT,        // a
    JINJA_N_NEGATE,     // a
    JINJA_N_PLUS,       // a
    JINJA_N_AND,        // a, b
    JINJA_N_OR,         // a, b
    JINJA_N_OPERATE,    // op: enum jinja_operator; a, b
    JINJA_N_CONCAT,     // list
    JINJA_N_COMPARE,    // a, then list of JINJA_N_OPERAND
    JINJA_N_OPERAND,    // op: enum jinja_comparison; a
    JINJA_N_CHOOSE,     // a if b else c (NULL: undefined)
    JINJA_N_ATTRIBUTE,  // a.name
    JINJA_N_ITEM,       // a[b]
    JINJA_N_SLICE,      // a[b:c:d]; each may be NULL
    JINJA_N_CALL,       // a(list, list2 of JINJA_N_KEYWORD, *b, **c)
    JINJA_N_FILTER,     // a|name(...)
    JINJA_N_TEST,       // a is name(...)
    JINJA_N_KEYWORD,    // name=a
    JINJA_N_NAMESPACED, // as a target: name.name2

    JINJA_N_TEXT,     // value
    JINJA_N_OUTPUT,   // {{ a }}
    JINJA_N_IF,       // list of JINJA_N_BRANCH
    JINJA_N_BRANCH,   // a (NULL: else), body
    JINJA_N_FOR,      // a in b if c, body; list: else
    JINJA_N_SET,      // a = b
    JINJA_N_SET_TEXT, // a = body, through the filters b, which may be NULL
    JINJA_N_MACRO,    // name, list: parameters, list2: defaults of the last of them, body
    JINJA_N_CALLER,   // {% call %}: a, list, list2, body as of a macro
    JINJA_N_FILTERED, // {% filter %}: a, body
    JINJA_N_WITH,     // list: targets, list2: values, body
    JINJA_N_BREAK,
    JINJA_N_CONTINUE,
    JINJA_N_BODY // {% generation %}: body
};

enum jinja_comparison { JINJA_EQ, JINJA_NE, JINJA_LT, JINJA_LE, JINJA_GT, JINJA_GE, JINJA_IN, JINJA_NOT_IN };

struct jinja_node;
struct jinja_nodes {
    struct jinja_node **v;
    size_t n, cap;
};

// Names are interned: of equal ones there is one string.
struct jinja_node {
    uint8_t kind, op;
    bool uses_varargs, uses_kwargs; // JINJA_N_MACRO, JINJA_N_CALLER: names in the body
    int line;
    const struct jinja_string *name, *name2;
    struct jinja_value value;
    struct jinja_node *a, *b, *c, *d;
    struct jinja_nodes list, list2, body;
};

// The names that the language itself gives a meaning, interned.
struct jinja_names {
    const struct jinja_string *loop, *caller, *varargs, *kwargs;
};

// The statements of a template.
struct jinja_nodes hearth_jinja_parse(struct jinja *j, const char *text, size_t n, struct jinja_names *names);

#endif
