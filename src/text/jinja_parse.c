// SPDX-License-Identifier: MIT
// Makes a tree of a template. The grammar is Jinja2's, without what needs other templates (include, import,
// extends, block), and with the tags break, continue and generation, as transformers has them.
#include <string.h>

#include "text/jinja_parse.h"

struct parser {
    struct jinja *j;
    const struct jinja_token *at;
    struct jinja_dict *interned;
    struct jinja_names names;
    struct jinja_node *macro; // whose body is being read
    int loops;                // that the place is within
};

typedef struct jinja_node node;
typedef struct jinja_nodes nodes;

static node *expression(struct parser *p);
static node *choice(struct parser *p);
static node *either(struct parser *p);
static node *primary(struct parser *p);
static nodes body(struct parser *p, const char *ends);

// ---- tokens

static const struct jinja_string *intern(struct parser *p, const char *s, size_t n)
{
    const struct jinja_value key = hearth_jinja_string(p->j, s, n, JINJA_TEMPLATE);
    const struct jinja_value *found = hearth_jinja_find(p->j, p->interned, key);
    if (found)
        return found->u.s;
    hearth_jinja_set(p->j, p->interned, key, key);
    return key.u.s;
}

static void next(struct parser *p)
{
    if (p->at->kind != JINJA_T_END)
        p->at++;
    p->j->line = p->at->line;
}

_Noreturn static void unexpected(struct parser *p, const char *wanted)
{
    const struct jinja_token *t = p->at;
    p->j->line = t->line;
    if (t->kind == JINJA_T_END)
        hearth_jinja_fail(p->j, "the template ends where %s is wanted", wanted);
    if (t->kind == JINJA_T_NAME)
        hearth_jinja_fail(p->j, "'%.*s' where %s is wanted", (int)(t->n < 60 ? t->n : 60), t->s, wanted);
    if (t->kind == JINJA_T_OPERATOR)
        hearth_jinja_fail(p->j, "'%s%c' where %s is wanted",
                          t->op > 0xFF ? (const char[2]){(char)(t->op >> 8), '\0'} : "", (char)(t->op & 0xFF),
                          wanted);
    hearth_jinja_fail(p->j, "%s where %s is wanted",
                      t->kind == JINJA_T_VALUE                                        ? "a string or a number"
                      : t->kind == JINJA_T_OUTPUT_END || t->kind == JINJA_T_BLOCK_END ? "the end of the tag"
                                                                                      : "text",
                      wanted);
}

static bool is_op(const struct parser *p, uint16_t op)
{
    return p->at->kind == JINJA_T_OPERATOR && p->at->op == op;
}

static bool take_op(struct parser *p, uint16_t op)
{
    if (!is_op(p, op))
        return false;
    next(p);
    return true;
}

static void want_op(struct parser *p, char op)
{
    const char name[] = {'\'', op, '\'', '\0'};
    if (!take_op(p, JINJA_OP((uint8_t)op)))
        unexpected(p, name);
}

static bool token_is(const struct jinja_token *t, const char *name)
{
    return t->kind == JINJA_T_NAME && t->n == strlen(name) && !memcmp(t->s, name, t->n);
}

static bool is_name(const struct parser *p, const char *name)
{
    return token_is(p->at, name);
}

static bool take_name(struct parser *p, const char *name)
{
    if (!is_name(p, name))
        return false;
    next(p);
    return true;
}

static const struct jinja_string *want_name(struct parser *p)
{
    if (p->at->kind != JINJA_T_NAME)
        unexpected(p, "a name");
    const struct jinja_string *name = intern(p, p->at->s, p->at->n);
    next(p);
    return name;
}

static void want_end(struct parser *p)
{
    if (p->at->kind != JINJA_T_BLOCK_END)
        unexpected(p, "'%}'");
    next(p);
}

// ---- nodes

static node *make(struct parser *p, enum jinja_node_kind kind)
{
    node *n = hearth_jinja_alloc(p->j, sizeof *n);
    memset(n, 0, sizeof *n);
    n->kind = (uint8_t)kind;
    n->line = p->at->line;
    return n;
}

static node *make_of(struct parser *p, enum jinja_node_kind kind, node *a, node *b)
{
    node *n = make(p, kind);
    n->a = a;
    n->b = b;
    n->line = a ? a->line : n->line;
    return n;
}

static void add(struct parser *p, nodes *list, node *n)
{
    if (list->n == list->cap) {
        const size_t cap = list->cap ? list->cap * 2 : 4;
        node **larger = hearth_jinja_array(p->j, cap, sizeof *larger);
        if (list->n)
            memcpy(larger, list->v, list->n * sizeof *larger);
        list->v = larger;
        list->cap = cap;
    }
    list->v[list->n++] = n;
}

static node *make_const(struct parser *p, struct jinja_value v)
{
    node *n = make(p, JINJA_N_CONST);
    n->value = v;
    return n;
}

// ---- values

static node *name_or_word(struct parser *p)
{
    if (is_name(p, "true") || is_name(p, "True") || is_name(p, "false") || is_name(p, "False")) {
        node *n = make_const(p, hearth_jinja_bool((p->at->s[0] | 32) == 't'));
        next(p);
        return n;
    }
    if (is_name(p, "none") || is_name(p, "None")) {
        node *n = make_const(p, hearth_jinja_none());
        next(p);
        return n;
    }
    node *n = make(p, JINJA_N_NAME);
    n->name = want_name(p);
    if (p->macro) {
        p->macro->uses_varargs |= n->name == p->names.varargs;
        p->macro->uses_kwargs |= n->name == p->names.kwargs;
    }
    return n;
}

// Strings side by side are one.
static node *value(struct parser *p)
{
    node *n = make_const(p, p->at->value);
    next(p);
    while (n->value.type == JINJA_STRING && p->at->kind == JINJA_T_VALUE &&
           p->at->value.type == JINJA_STRING) {
        n->value = hearth_jinja_operate(p->j, JINJA_ADD, &n->value, &p->at->value);
        next(p);
    }
    return n;
}

static bool ends_tuple(const struct parser *p, const char *word)
{
    return p->at->kind == JINJA_T_OUTPUT_END || p->at->kind == JINJA_T_BLOCK_END || is_op(p, ')') ||
           (word && is_name(p, word));
}

// One value, or several with commas between them. `word` ends them, too.
static node *tuple(struct parser *p, node *(*item)(struct parser *p), const char *word, bool may_be_empty)
{
    node *n = make(p, JINJA_N_TUPLE);
    bool many = false;
    while (!ends_tuple(p, word)) {
        add(p, &n->list, item(p));
        if (!take_op(p, ','))
            break;
        many = true;
    }
    if (!many && n->list.n)
        return n->list.v[0];
    if (!many && !may_be_empty)
        unexpected(p, "an expression");
    return n;
}

static node *list(struct parser *p)
{
    node *n = make(p, JINJA_N_LIST);
    next(p);
    while (!is_op(p, ']')) {
        add(p, &n->list, expression(p));
        if (!take_op(p, ','))
            break;
    }
    want_op(p, ']');
    return n;
}

static node *dict(struct parser *p)
{
    node *n = make(p, JINJA_N_DICT);
    next(p);
    while (!is_op(p, '}')) {
        add(p, &n->list, expression(p));
        want_op(p, ':');
        add(p, &n->list2, expression(p));
        if (!take_op(p, ','))
            break;
    }
    want_op(p, '}');
    return n;
}

static node *primary(struct parser *p)
{
    if (p->at->kind == JINJA_T_NAME)
        return name_or_word(p);
    if (p->at->kind == JINJA_T_VALUE)
        return value(p);
    if (is_op(p, '['))
        return list(p);
    if (is_op(p, '{'))
        return dict(p);
    if (!take_op(p, '('))
        unexpected(p, "a value");
    node *n = tuple(p, expression, NULL, true);
    want_op(p, ')');
    return n;
}

// ---- what follows a value

static bool at_keyword(const struct parser *p)
{
    return p->at->kind == JINJA_T_NAME && p->at[1].kind == JINJA_T_OPERATOR && p->at[1].op == '=';
}

static void arguments(struct parser *p, node *n)
{
    want_op(p, '(');
    while (!is_op(p, ')')) {
        if (take_op(p, JINJA_OP2('*', '*'))) {
            n->c = expression(p);
        } else if (take_op(p, '*')) {
            n->b = expression(p);
        } else if (at_keyword(p)) {
            node *keyword = make(p, JINJA_N_KEYWORD);
            keyword->name = want_name(p);
            next(p);
            keyword->a = expression(p);
            add(p, &n->list2, keyword);
        } else {
            if (n->list2.n || n->b || n->c)
                hearth_jinja_fail(p->j, "an argument without a name after one with a name");
            add(p, &n->list, expression(p));
        }
        if (!take_op(p, ','))
            break;
    }
    want_op(p, ')');
}

static node *call(struct parser *p, node *callee)
{
    node *n = make_of(p, JINJA_N_CALL, callee, NULL);
    n->line = p->at->line;
    arguments(p, n);
    return n;
}

// Between [ and ].
static node *subscript(struct parser *p, node *of)
{
    node *n = make_of(p, JINJA_N_SLICE, of, NULL);
    if (!is_op(p, ':'))
        n->b = expression(p);
    if (!take_op(p, ':')) {
        n->kind = JINJA_N_ITEM;
        return n;
    }
    if (!is_op(p, ':') && !is_op(p, ']'))
        n->c = expression(p);
    if (take_op(p, ':') && !is_op(p, ']'))
        n->d = expression(p);
    return n;
}

static node *attribute(struct parser *p, node *of)
{
    node *n = make_of(p, JINJA_N_ATTRIBUTE, of, NULL);
    if (p->at->kind == JINJA_T_VALUE && p->at->value.type == JINJA_INT) {
        n->kind = JINJA_N_ITEM;
        n->b = value(p);
    } else {
        n->name = want_name(p);
    }
    return n;
}

static node *postfix(struct parser *p, node *n)
{
    for (;;) {
        n->line = n->line ? n->line : p->at->line;
        if (take_op(p, '.')) {
            n = attribute(p, n);
        } else if (take_op(p, '[')) {
            n = subscript(p, n);
            if (is_op(p, ',')) { // a key that is a tuple
                node *key = make_of(p, JINJA_N_TUPLE, NULL, NULL);
                if (n->kind != JINJA_N_ITEM)
                    unexpected(p, "']'");
                add(p, &key->list, n->b);
                while (take_op(p, ',') && !is_op(p, ']'))
                    add(p, &key->list, expression(p));
                n->b = key;
            }
            want_op(p, ']');
        } else if (is_op(p, '(')) {
            n = call(p, n);
        } else {
            return n;
        }
    }
}

// Names such as a.b are one name.
static const struct jinja_string *dotted(struct parser *p)
{
    const struct jinja_string *name = want_name(p);
    while (take_op(p, '.')) {
        struct jinja_builder b = {.j = p->j};
        hearth_jinja_put_string(&b, name);
        hearth_jinja_put_literal(&b, ".");
        hearth_jinja_put_string(&b, want_name(p));
        name = intern(p, b.s, b.n);
    }
    return name;
}

static node *filter(struct parser *p, node *of)
{
    node *n = make_of(p, JINJA_N_FILTER, of, NULL);
    n->line = p->at->line;
    n->name = dotted(p);
    if (is_op(p, '('))
        arguments(p, n);
    return n;
}

static node *filters(struct parser *p, node *n)
{
    while (take_op(p, '|'))
        n = filter(p, n);
    return n;
}

static bool begins_operand(const struct parser *p)
{
    if (p->at->kind == JINJA_T_NAME)
        return !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and");
    return p->at->kind == JINJA_T_VALUE || is_op(p, '[') || is_op(p, '{');
}

static node *test(struct parser *p, node *of)
{
    const bool negated = take_name(p, "not");
    node *n = make_of(p, JINJA_N_TEST, of, NULL);
    n->line = p->at->line;
    n->name = dotted(p);
    if (is_op(p, '(')) {
        arguments(p, n);
    } else if (begins_operand(p)) {
        if (is_name(p, "is"))
            hearth_jinja_fail(p->j, "You cannot chain multiple tests with is");
        add(p, &n->list, postfix(p, primary(p)));
    }
    return negated ? make_of(p, JINJA_N_NOT, n, NULL) : n;
}

static node *filtered(struct parser *p, node *n)
{
    for (;;) {
        if (take_op(p, '|'))
            n = filter(p, n);
        else if (take_name(p, "is"))
            n = test(p, n);
        else if (is_op(p, '('))
            n = call(p, n);
        else
            return n;
    }
}

// ---- operators, the ones that bind most first

static node *sign(struct parser *p)
{
    node *n;
    hearth_jinja_enter(p->j);
    if (take_op(p, '-'))
        n = make_of(p, JINJA_N_NEGATE, sign(p), NULL);
    else if (take_op(p, '+'))
        n = make_of(p, JINJA_N_PLUS, sign(p), NULL);
    else
        n = primary(p);
    n = postfix(p, n);
    hearth_jinja_leave(p->j);
    return n;
}

static node *operate(struct parser *p, enum jinja_operator op, node *a, node *b)
{
    node *n = make_of(p, JINJA_N_OPERATE, a, b);
    n->op = (uint8_t)op;
    return n;
}

static node *power(struct parser *p)
{
    node *n = filtered(p, sign(p));
    while (take_op(p, JINJA_OP2('*', '*')))
        n = operate(p, JINJA_POWER, n, filtered(p, sign(p)));
    return n;
}

static node *product(struct parser *p)
{
    node *n = power(p);
    for (;;) {
        if (take_op(p, '*'))
            n = operate(p, JINJA_MULTIPLY, n, power(p));
        else if (take_op(p, '/'))
            n = operate(p, JINJA_DIVIDE, n, power(p));
        else if (take_op(p, JINJA_OP2('/', '/')))
            n = operate(p, JINJA_FLOOR_DIVIDE, n, power(p));
        else if (take_op(p, '%'))
            n = operate(p, JINJA_MODULO, n, power(p));
        else
            return n;
    }
}

static node *concatenation(struct parser *p)
{
    node *first = product(p);
    if (!is_op(p, '~'))
        return first;
    node *n = make(p, JINJA_N_CONCAT);
    add(p, &n->list, first);
    while (take_op(p, '~'))
        add(p, &n->list, product(p));
    return n;
}

static node *sum(struct parser *p)
{
    node *n = concatenation(p);
    for (;;) {
        if (take_op(p, '+'))
            n = operate(p, JINJA_ADD, n, concatenation(p));
        else if (take_op(p, '-'))
            n = operate(p, JINJA_SUBTRACT, n, concatenation(p));
        else
            return n;
    }
}

static bool take_comparison(struct parser *p, enum jinja_comparison *which)
{
    static const uint16_t ops[] = {JINJA_OP2('=', '='), JINJA_OP2('!', '='), '<', JINJA_OP2('<', '='), '>',
                                   JINJA_OP2('>', '=')};
    for (int i = 0; i < 6; i++)
        if (take_op(p, ops[i])) {
            *which = (enum jinja_comparison)i;
            return true;
        }
    *which = JINJA_IN;
    if (take_name(p, "in"))
        return true;
    *which = JINJA_NOT_IN;
    if (!is_name(p, "not") || !token_is(p->at + 1, "in"))
        return false;
    next(p);
    next(p);
    return true;
}

static node *comparison(struct parser *p)
{
    node *first = sum(p), *n = NULL;
    enum jinja_comparison which;
    while (take_comparison(p, &which)) {
        node *operand = make(p, JINJA_N_OPERAND);
        operand->op = (uint8_t)which;
        operand->a = sum(p);
        if (!n)
            n = make_of(p, JINJA_N_COMPARE, first, NULL);
        add(p, &n->list, operand);
    }
    return n ? n : first;
}

static node *negation(struct parser *p)
{
    if (!take_name(p, "not"))
        return comparison(p);
    hearth_jinja_enter(p->j);
    node *n = make_of(p, JINJA_N_NOT, negation(p), NULL);
    hearth_jinja_leave(p->j);
    return n;
}

static node *both(struct parser *p)
{
    node *n = negation(p);
    while (take_name(p, "and"))
        n = make_of(p, JINJA_N_AND, n, negation(p));
    return n;
}

static node *either(struct parser *p)
{
    node *n = both(p);
    while (take_name(p, "or"))
        n = make_of(p, JINJA_N_OR, n, both(p));
    return n;
}

static node *choice(struct parser *p)
{
    hearth_jinja_enter(p->j);
    node *n = either(p);
    while (take_name(p, "if")) {
        node *condition = either(p);
        n = make_of(p, JINJA_N_CHOOSE, n, condition);
        if (take_name(p, "else"))
            n->c = choice(p);
    }
    hearth_jinja_leave(p->j);
    return n;
}

static node *expression(struct parser *p)
{
    return choice(p);
}

// ---- targets of assignments

static node *target_item(struct parser *p)
{
    node *n = primary(p);
    if (n->kind == JINJA_N_NAME && take_op(p, '.')) {
        n->kind = JINJA_N_NAMESPACED;
        n->name2 = want_name(p);
    }
    return n;
}

static void check_target(struct parser *p, const node *n)
{
    if (n->kind == JINJA_N_TUPLE || n->kind == JINJA_N_LIST) {
        for (size_t i = 0; i < n->list.n; i++)
            check_target(p, n->list.v[i]);
    } else if (n->kind != JINJA_N_NAME && n->kind != JINJA_N_NAMESPACED) {
        hearth_jinja_fail(p->j, "this cannot be assigned to");
    }
}

static node *target(struct parser *p, const char *word)
{
    node *n = tuple(p, target_item, word, false);
    check_target(p, n);
    return n;
}

// ---- statements

static void end_tag(struct parser *p, const char *name)
{
    if (!take_name(p, name))
        unexpected(p, name);
}

static node *if_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_IF);
    for (bool more = true; more;) {
        node *branch = make(p, JINJA_N_BRANCH);
        branch->a = tuple(p, either, NULL, false);
        branch->body = body(p, "elif else endif");
        add(p, &n->list, branch);
        more = take_name(p, "elif");
    }
    if (take_name(p, "else")) {
        node *branch = make(p, JINJA_N_BRANCH);
        branch->body = body(p, "endif");
        add(p, &n->list, branch);
    }
    end_tag(p, "endif");
    return n;
}

static node *for_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_FOR);
    n->a = target(p, "in");
    end_tag(p, "in");
    n->b = tuple(p, either, "recursive", false);
    if (take_name(p, "if"))
        n->c = expression(p);
    if (is_name(p, "recursive"))
        hearth_jinja_fail(p->j, "loops that call themselves (recursive) are not supported");
    p->loops++;
    n->body = body(p, "endfor else");
    p->loops--;
    if (take_name(p, "else"))
        n->list = body(p, "endfor");
    end_tag(p, "endfor");
    return n;
}

static node *set_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_SET);
    n->a = target(p, NULL);
    if (take_op(p, '=')) {
        n->b = tuple(p, expression, NULL, false);
        return n;
    }
    n->kind = JINJA_N_SET_TEXT;
    n->b = filters(p, make(p, JINJA_N_INPUT));
    n->body = body(p, "endset");
    end_tag(p, "endset");
    return n;
}

// The parameters of a macro or a caller.
static void signature(struct parser *p, node *n)
{
    want_op(p, '(');
    while (!is_op(p, ')')) {
        node *name = make(p, JINJA_N_NAME);
        name->name = want_name(p);
        add(p, &n->list, name);
        if (take_op(p, '='))
            add(p, &n->list2, expression(p));
        else if (n->list2.n)
            hearth_jinja_fail(p->j, "non-default argument follows default argument");
        if (!take_op(p, ','))
            break;
    }
    want_op(p, ')');
}

// The body of a macro; break and continue do not reach beyond it.
static nodes macro_body(struct parser *p, node *n, const char *end)
{
    struct jinja_node *outer = p->macro;
    const int loops = p->loops;
    p->macro = n;
    p->loops = 0;
    const nodes statements = body(p, end);
    p->macro = outer;
    p->loops = loops;
    if (outer) { // what inner macros use is the outer one's to have
        outer->uses_varargs |= n->uses_varargs;
        outer->uses_kwargs |= n->uses_kwargs;
    }
    end_tag(p, end);
    return statements;
}

static node *macro_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_MACRO);
    n->name = want_name(p);
    signature(p, n);
    n->body = macro_body(p, n, "endmacro");
    return n;
}

static node *call_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_CALLER);
    n->name = p->names.caller;
    if (is_op(p, '('))
        signature(p, n);
    n->a = expression(p);
    if (n->a->kind != JINJA_N_CALL)
        hearth_jinja_fail(p->j, "{%% call %%} wants the call of a macro");
    n->body = macro_body(p, n, "endcall");
    return n;
}

static node *filter_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_FILTERED);
    n->a = filters(p, filter(p, make(p, JINJA_N_INPUT)));
    n->body = body(p, "endfilter");
    end_tag(p, "endfilter");
    return n;
}

static node *with_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_WITH);
    while (p->at->kind != JINJA_T_BLOCK_END) {
        node *name = target_item(p);
        check_target(p, name);
        add(p, &n->list, name);
        want_op(p, '=');
        add(p, &n->list2, expression(p));
        if (!take_op(p, ','))
            break;
    }
    n->body = body(p, "endwith");
    end_tag(p, "endwith");
    return n;
}

static node *generation_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_BODY);
    n->body = body(p, "endgeneration");
    end_tag(p, "endgeneration");
    return n;
}

static node *jump(struct parser *p, enum jinja_node_kind kind)
{
    if (!p->loops)
        hearth_jinja_fail(p->j, "break and continue belong into a loop");
    return make(p, kind);
}

static node *print_statement(struct parser *p)
{
    node *n = make(p, JINJA_N_OUTPUT);
    n->a = tuple(p, expression, NULL, false);
    return n;
}

static node *statement(struct parser *p)
{
    if (take_name(p, "if"))
        return if_statement(p);
    if (take_name(p, "for"))
        return for_statement(p);
    if (take_name(p, "set"))
        return set_statement(p);
    if (take_name(p, "macro"))
        return macro_statement(p);
    if (take_name(p, "call"))
        return call_statement(p);
    if (take_name(p, "filter"))
        return filter_statement(p);
    if (take_name(p, "with"))
        return with_statement(p);
    if (take_name(p, "generation"))
        return generation_statement(p);
    if (take_name(p, "print"))
        return print_statement(p);
    if (take_name(p, "break"))
        return jump(p, JINJA_N_BREAK);
    if (take_name(p, "continue"))
        return jump(p, JINJA_N_CONTINUE);
    unexpected(p, "the name of a tag");
}

static bool at_one_of(const struct parser *p, const char *words)
{
    while (*words) {
        const size_t n = strcspn(words, " ");
        if (p->at->kind == JINJA_T_NAME && p->at->n == n && !memcmp(p->at->s, words, n))
            return true;
        words += n + (words[n] == ' ');
    }
    return false;
}

// Statements up to a tag that `ends` names, which is not read beyond its "{%"; NULL: to the end of the
// template.
static nodes statements(struct parser *p, const char *ends)
{
    nodes out = {0};
    for (;;) {
        const struct jinja_token *t = p->at;
        p->j->line = t->line;
        if (t->kind == JINJA_T_END && ends)
            unexpected(p, ends);
        if (t->kind == JINJA_T_END)
            return out;
        if (t->kind == JINJA_T_TEXT) {
            node *n = make(p, JINJA_N_TEXT);
            n->value = hearth_jinja_string(p->j, t->s, t->n, JINJA_TEMPLATE);
            add(p, &out, n);
            next(p);
        } else if (t->kind == JINJA_T_OUTPUT) {
            next(p);
            add(p, &out, print_statement(p));
            if (p->at->kind != JINJA_T_OUTPUT_END)
                unexpected(p, "'}}'");
            next(p);
        } else {
            next(p);
            if (ends && at_one_of(p, ends))
                return out;
            add(p, &out, statement(p));
            want_end(p);
        }
    }
}

static nodes body(struct parser *p, const char *ends)
{
    hearth_jinja_enter(p->j);
    take_op(p, ':');
    want_end(p);
    const nodes out = statements(p, ends);
    hearth_jinja_leave(p->j);
    return out;
}

struct jinja_nodes hearth_jinja_parse(struct jinja *j, const char *text, size_t n, struct jinja_names *names)
{
    struct parser p = {.j = j};
    p.at = hearth_jinja_lex(j, text, n);
    p.interned = hearth_jinja_dict(j).u.dict;
    p.names.loop = intern(&p, "loop", 4);
    p.names.caller = intern(&p, "caller", 6);
    p.names.varargs = intern(&p, "varargs", 7);
    p.names.kwargs = intern(&p, "kwargs", 6);
    *names = p.names;
    return statements(&p, NULL);
}
