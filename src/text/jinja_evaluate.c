// SPDX-License-Identifier: MIT
// Expressions of Jinja, and assignments.
#include <string.h>

#include "text/jinja_run.h"

typedef struct jinja_value value;
typedef struct jinja_node node;

// ---- work

// Before a value is looked at, which takes time for strings. So no operation need count it.
static void look(struct jinja *j, const value *v)
{
    if (v->type == JINJA_STRING)
        hearth_jinja_work_on(j, v->u.s->n, 1);
}

static void look_at_all(struct jinja *j, const value *v, const struct jinja_args *args)
{
    look(j, v);
    for (size_t i = 0; i < args->n; i++)
        look(j, &args->v[i]);
    for (size_t i = 0; i < args->n_kw; i++)
        look(j, &args->kw[i]);
}

// ---- variables

static value lookup(struct jinja *j, const struct jinja_string *name)
{
    for (const struct jinja_frame *f = j->frame; f; f = f->parent) {
        hearth_jinja_work_on(j, f->n, 1);
        for (size_t i = f->n; i-- > 0;)
            if (f->v[i].name == name)
                return f->v[i].value;
    }
    const value *given = hearth_jinja_find(j, j->variables, (value){.type = JINJA_STRING, .u.s = name});
    if (given)
        return *given;
    size_t n;
    const struct jinja_named *globals = hearth_jinja_globals(&n);
    for (size_t i = 0; i < n; i++)
        if (hearth_jinja_is_text(name, globals[i].name))
            return hearth_jinja_function(j, globals[i].name, globals[i].fn, NULL);
    return hearth_jinja_undefined(name, JINJA_MISSING);
}

void hearth_jinja_assign_name(struct jinja *j, const struct jinja_string *name, value v)
{
    struct jinja_frame *f = j->frame;
    hearth_jinja_work_on(j, f->n, 1);
    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].name == name) {
            f->v[i].value = v;
            return;
        }
    if (f->n == f->cap) {
        const size_t cap = f->cap ? f->cap * 2 : 4;
        struct jinja_variable *larger = hearth_jinja_array(j, cap, sizeof *larger);
        if (f->n)
            memcpy(larger, f->v, f->n * sizeof *larger);
        f->v = larger;
        f->cap = cap;
    }
    f->v[f->n++] = (struct jinja_variable){name, v};
}

static void assign_many(struct jinja *j, const node *target, value v)
{
    const struct jinja_list *items = hearth_jinja_items(j, &v);
    if (items->n != target->list.n)
        hearth_jinja_fail(j, "%s values to unpack (expected %zu, got %zu)",
                          items->n < target->list.n ? "not enough" : "too many", target->list.n, items->n);
    for (size_t i = 0; i < items->n; i++)
        hearth_jinja_assign(j, target->list.v[i], items->v[i]);
}

void hearth_jinja_assign(struct jinja *j, const node *target, value v)
{
    hearth_jinja_enter(j);
    if (target->kind == JINJA_N_NAME) {
        hearth_jinja_assign_name(j, target->name, v);
    } else if (target->kind == JINJA_N_NAMESPACED) {
        const value ns = lookup(j, target->name);
        if (ns.type != JINJA_NAMESPACE)
            hearth_jinja_fail(j, "cannot assign attribute on non-namespace object");
        hearth_jinja_set(j, ns.u.dict, (value){.type = JINJA_STRING, .u.s = target->name2}, v);
    } else {
        assign_many(j, target, v);
    }
    hearth_jinja_leave(j);
}

// ---- calls

// The positional arguments of a call, a filter or a test.
static void add_positional(struct jinja *j, const node *n, struct jinja_args *args)
{
    const value starred = n->b ? hearth_jinja_evaluate(j, n->b) : hearth_jinja_missing();
    const struct jinja_list *more = n->b ? hearth_jinja_items(j, &starred) : NULL;
    const size_t n_more = more ? more->n : 0;
    if (!(n->list.n + n_more))
        return;
    value *v = hearth_jinja_array(j, n->list.n + n_more, sizeof *v);
    for (size_t i = 0; i < n->list.n; i++)
        v[i] = hearth_jinja_evaluate(j, n->list.v[i]);
    for (size_t i = 0; i < n_more; i++)
        v[n->list.n + i] = more->v[i];
    args->v = v;
    args->n = n->list.n + n_more;
}

// The keyword arguments, and the macro that stands for a block, which may be NULL.
static void add_keywords(struct jinja *j, const node *n, const value *caller, struct jinja_args *args)
{
    const value more = n->c ? hearth_jinja_evaluate(j, n->c) : hearth_jinja_missing();
    if (n->c && more.type != JINJA_DICT)
        hearth_jinja_fail(j, "argument after ** must be a mapping, not %s", hearth_jinja_type(&more));
    const size_t n_more = n->c ? more.u.dict->n : 0, all = n->list2.n + n_more + (caller != NULL);
    if (!all)
        return;
    const struct jinja_string **names = hearth_jinja_array(j, all, sizeof *names);
    value *kw = hearth_jinja_array(j, all, sizeof *kw);
    for (size_t i = 0; i < n->list2.n; i++) {
        names[i] = n->list2.v[i]->name;
        kw[i] = hearth_jinja_evaluate(j, n->list2.v[i]->a);
    }
    for (size_t i = 0; i < n_more; i++) {
        names[n->list2.n + i] = hearth_jinja_string_of(j, &more.u.dict->v[i].key);
        kw[n->list2.n + i] = more.u.dict->v[i].value;
    }
    if (caller) {
        names[all - 1] = j->names->caller;
        kw[all - 1] = *caller;
    }
    args->names = names;
    args->kw = kw;
    args->n_kw = all;
}

static struct jinja_args arguments(struct jinja *j, const node *n, const value *caller)
{
    struct jinja_args args = {0};
    add_positional(j, n, &args);
    add_keywords(j, n, caller, &args);
    return args;
}

static value call(struct jinja *j, const node *n, const value *caller)
{
    const value callee = hearth_jinja_evaluate(j, n->a);
    const struct jinja_args args = arguments(j, n, caller);
    j->line = n->line;
    look_at_all(j, callee.type == JINJA_FUNCTION ? &callee.u.function->self : &callee, &args);
    return j->calls->call(j, callee, &args);
}

static value filter(struct jinja *j, const node *n)
{
    const value v = hearth_jinja_evaluate(j, n->a);
    const struct jinja_args args = arguments(j, n, NULL);
    j->line = n->line;
    look_at_all(j, &v, &args);
    return j->calls->filter(j, n->name, v, &args);
}

static value test(struct jinja *j, const node *n)
{
    const value v = hearth_jinja_evaluate(j, n->a);
    const struct jinja_args args = arguments(j, n, NULL);
    j->line = n->line;
    look_at_all(j, &v, &args);
    return hearth_jinja_bool(j->calls->test(j, n->name, v, &args));
}

// ---- operators

static bool compare(struct jinja *j, enum jinja_comparison op, const value *a, const value *b)
{
    int c;
    switch (op) {
    case JINJA_EQ:
        return hearth_jinja_equal(j, a, b);
    case JINJA_NE:
        return !hearth_jinja_equal(j, a, b);
    case JINJA_LT:
        return hearth_jinja_compare(j, a, b, "<") == -1;
    case JINJA_LE:
        c = hearth_jinja_compare(j, a, b, "<=");
        return c == -1 || c == 0;
    case JINJA_GT:
        return hearth_jinja_compare(j, a, b, ">") == 1;
    case JINJA_GE:
        c = hearth_jinja_compare(j, a, b, ">=");
        return c == 0 || c == 1;
    case JINJA_IN:
        return hearth_jinja_contains(j, b, a);
    default:
        return !hearth_jinja_contains(j, b, a);
    }
}

static value comparison(struct jinja *j, const node *n)
{
    value left = hearth_jinja_evaluate(j, n->a);
    for (size_t i = 0; i < n->list.n; i++) {
        const node *operand = n->list.v[i];
        const value right = hearth_jinja_evaluate(j, operand->a);
        j->line = operand->line;
        look(j, &left);
        look(j, &right);
        if (!compare(j, (enum jinja_comparison)operand->op, &left, &right))
            return hearth_jinja_bool(false);
        left = right;
    }
    return hearth_jinja_bool(true);
}

static value concatenation(struct jinja *j, const node *n)
{
    struct jinja_builder b = {.j = j};
    for (size_t i = 0; i < n->list.n; i++) {
        const value v = hearth_jinja_evaluate(j, n->list.v[i]);
        hearth_jinja_print(&b, &v);
    }
    return hearth_jinja_built(&b);
}

static value operation(struct jinja *j, const node *n)
{
    const value a = hearth_jinja_evaluate(j, n->a), b = hearth_jinja_evaluate(j, n->b);
    j->line = n->line;
    look(j, &a);
    look(j, &b);
    return hearth_jinja_operate(j, (enum jinja_operator)n->op, &a, &b);
}

static value sequence(struct jinja *j, const node *n)
{
    const value list = hearth_jinja_list(j, n->kind == JINJA_N_TUPLE ? JINJA_TUPLE : JINJA_PLAIN);
    for (size_t i = 0; i < n->list.n; i++)
        hearth_jinja_append(j, list.u.list, hearth_jinja_evaluate(j, n->list.v[i]));
    return list;
}

static value mapping(struct jinja *j, const node *n)
{
    const value dict = hearth_jinja_dict(j);
    for (size_t i = 0; i < n->list.n; i++) {
        const value key = hearth_jinja_evaluate(j, n->list.v[i]);
        hearth_jinja_set(j, dict.u.dict, key, hearth_jinja_evaluate(j, n->list2.v[i]));
    }
    return dict;
}

static value part_or_none(struct jinja *j, const node *n)
{
    return n ? hearth_jinja_evaluate(j, n) : hearth_jinja_none();
}

static value access(struct jinja *j, const node *n)
{
    const value of = hearth_jinja_evaluate(j, n->a);
    if (n->kind == JINJA_N_ATTRIBUTE) {
        j->line = n->line;
        return hearth_jinja_attribute(j, &of, n->name);
    }
    const value b = part_or_none(j, n->b), c = part_or_none(j, n->c), d = part_or_none(j, n->d);
    look(j, &of);
    look(j, &b);
    j->line = n->line;
    return n->kind == JINJA_N_ITEM ? hearth_jinja_item(j, &of, &b) : hearth_jinja_slice(j, &of, &b, &c, &d);
}

static value unary(struct jinja *j, const node *n)
{
    const value v = hearth_jinja_evaluate(j, n->a);
    j->line = n->line;
    if (n->kind == JINJA_N_NOT)
        return hearth_jinja_bool(!hearth_jinja_true(&v));
    const value negative = hearth_jinja_negate(j, &v);
    return n->kind == JINJA_N_NEGATE ? negative : hearth_jinja_negate(j, &negative);
}

static value logic(struct jinja *j, const node *n)
{
    const value a = hearth_jinja_evaluate(j, n->a);
    return hearth_jinja_true(&a) == (n->kind == JINJA_N_OR) ? a : hearth_jinja_evaluate(j, n->b);
}

static value choice(struct jinja *j, const node *n)
{
    const value condition = hearth_jinja_evaluate(j, n->b);
    if (hearth_jinja_true(&condition))
        return hearth_jinja_evaluate(j, n->a);
    return n->c ? hearth_jinja_evaluate(j, n->c) : hearth_jinja_undefined(NULL, JINJA_MISSING);
}

static value evaluate(struct jinja *j, const node *n)
{
    switch (n->kind) {
    case JINJA_N_CONST:
        return n->value;
    case JINJA_N_NAME:
        return lookup(j, n->name);
    case JINJA_N_INPUT:
        return j->input;
    case JINJA_N_LIST:
    case JINJA_N_TUPLE:
        return sequence(j, n);
    case JINJA_N_DICT:
        return mapping(j, n);
    case JINJA_N_NOT:
    case JINJA_N_NEGATE:
    case JINJA_N_PLUS:
        return unary(j, n);
    case JINJA_N_AND:
    case JINJA_N_OR:
        return logic(j, n);
    case JINJA_N_OPERATE:
        return operation(j, n);
    case JINJA_N_CONCAT:
        return concatenation(j, n);
    case JINJA_N_COMPARE:
        return comparison(j, n);
    case JINJA_N_CHOOSE:
        return choice(j, n);
    case JINJA_N_ATTRIBUTE:
    case JINJA_N_ITEM:
    case JINJA_N_SLICE:
        return access(j, n);
    case JINJA_N_CALL:
        return call(j, n, NULL);
    case JINJA_N_CALLER:
        return call(j, n->a, &j->input); // the macro that stands for the block
    case JINJA_N_FILTER:
        return filter(j, n);
    case JINJA_N_TEST:
        return test(j, n);
    default:
        hearth_jinja_fail(j, "this cannot stand here");
    }
}

value hearth_jinja_evaluate(struct jinja *j, const node *n)
{
    hearth_jinja_enter(j);
    if (n->line)
        j->line = n->line;
    const value v = evaluate(j, n);
    hearth_jinja_leave(j);
    return v;
}
