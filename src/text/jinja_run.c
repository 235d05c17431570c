// SPDX-License-Identifier: MIT
// Statements of Jinja, macros, and templates from reading to rendering.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/jinja_run.h"

typedef struct jinja_value value;
typedef struct jinja_node node;

// Of a template alone, whatever it renders. A template that is larger is none.
#define MAX_TEMPLATE    ((size_t)4 << 20)
#define TEMPLATE_MEMORY ((size_t)256 << 20)
#define MAX_STEPS       50000000

struct hearth_jinja {
    struct jinja j; // has the memory of the tree
    struct jinja_nodes body;
    struct jinja_names names;
};

enum flow { GO_ON, BREAK, CONTINUE };

static enum flow run(struct jinja *j, const struct jinja_nodes *body, struct jinja_builder *out);

// ---- frames

static struct jinja_frame *push(struct jinja *j, struct jinja_frame *parent)
{
    struct jinja_frame *f = hearth_jinja_alloc(j, sizeof *f);
    *f = (struct jinja_frame){.parent = parent};
    j->frame = f;
    return f;
}

// A frame for the next round of a loop.
static struct jinja_frame *renew(struct jinja *j, struct jinja_frame *f, struct jinja_frame *parent)
{
    if (!f || f->kept)
        return push(j, parent);
    f->n = 0;
    j->frame = f;
    return f;
}

static enum flow run_in_frame(struct jinja *j, const struct jinja_nodes *body, struct jinja_builder *out)
{
    struct jinja_frame *outer = j->frame;
    push(j, outer);
    const enum flow flow = run(j, body, out);
    j->frame = outer;
    return flow;
}

// ---- loops

// The items for which the condition holds.
static struct jinja_list *filtered(struct jinja *j, const node *n, struct jinja_list *items)
{
    struct jinja_frame *outer = j->frame, *f = NULL;
    struct jinja_list *kept = hearth_jinja_list(j, JINJA_PLAIN).u.list;
    for (size_t i = 0; i < items->n; i++) {
        f = renew(j, f, outer);
        hearth_jinja_assign(j, n->a, items->v[i]);
        const value condition = hearth_jinja_evaluate(j, n->c);
        if (hearth_jinja_true(&condition))
            hearth_jinja_append(j, kept, items->v[i]);
    }
    j->frame = outer;
    return kept;
}

static enum flow run_for(struct jinja *j, const node *n, struct jinja_builder *out)
{
    const value over = hearth_jinja_evaluate(j, n->b);
    struct jinja_frame *outer = j->frame, *f = NULL;
    struct jinja_loop *loop = hearth_jinja_alloc(j, sizeof *loop);
    struct jinja_list *items = hearth_jinja_items(j, &over);
    if (n->c)
        items = filtered(j, n, items);
    *loop = (struct jinja_loop){.items = items, .changed = hearth_jinja_missing()};
    bool ended = false; // a round, without break and continue: Jinja2 goes by that, too
    for (; loop->index < items->n; loop->index++) {
        f = renew(j, f, outer);
        hearth_jinja_work(j, 1);
        hearth_jinja_assign_name(j, j->names->loop, (value){.type = JINJA_LOOP, .u.loop = loop});
        hearth_jinja_assign(j, n->a, items->v[loop->index]);
        const enum flow flow = run(j, &n->body, out);
        ended |= flow == GO_ON;
        if (flow == BREAK)
            break;
    }
    j->frame = outer;
    return ended ? GO_ON : run_in_frame(j, &n->list, out); // there, break and continue are of an outer loop
}

// ---- blocks

static enum flow run_if(struct jinja *j, const node *n, struct jinja_builder *out)
{
    for (size_t i = 0; i < n->list.n; i++) {
        const node *branch = n->list.v[i];
        const value condition = branch->a ? hearth_jinja_evaluate(j, branch->a) : hearth_jinja_bool(true);
        if (hearth_jinja_true(&condition))
            return run(j, &branch->body, out);
    }
    return GO_ON;
}

// What the body comes to, through filters.
static enum flow capture(struct jinja *j, const node *n, const node *filters, value *text)
{
    struct jinja_builder b = {.j = j};
    const value outer = j->input;
    const enum flow flow = run_in_frame(j, &n->body, &b);
    j->input = hearth_jinja_built(&b);
    *text = filters ? hearth_jinja_evaluate(j, filters) : j->input;
    j->input = outer;
    return flow;
}

static enum flow run_with(struct jinja *j, const node *n, struct jinja_builder *out)
{
    struct jinja_frame *outer = j->frame;
    value *values = hearth_jinja_array(j, n->list2.n, sizeof *values);
    for (size_t i = 0; i < n->list2.n; i++)
        values[i] = hearth_jinja_evaluate(j, n->list2.v[i]);
    push(j, outer);
    for (size_t i = 0; i < n->list.n; i++)
        hearth_jinja_assign(j, n->list.v[i], values[i]);
    const enum flow flow = run(j, &n->body, out);
    j->frame = outer;
    return flow;
}

// ---- macros

static value make_macro(struct jinja *j, const node *n)
{
    struct jinja_macro *macro = hearth_jinja_alloc(j, sizeof *macro);
    *macro = (struct jinja_macro){n, j->frame};
    for (struct jinja_frame *f = j->frame; f && !f->kept; f = f->parent)
        f->kept = true;
    return (value){.type = JINJA_MACRO, .u.macro = macro};
}

static bool same_name(const struct jinja_string *a, const struct jinja_string *b)
{
    return a == b || (a->n == b->n && !memcmp(a->s, b->s, a->n));
}

static const value *keyword(const struct jinja_args *args, const struct jinja_string *name)
{
    for (size_t i = 0; i < args->n_kw; i++)
        if (same_name(args->names[i], name))
            return &args->kw[i];
    return NULL;
}

static bool is_parameter(const node *n, const struct jinja_string *name)
{
    for (size_t i = 0; i < n->list.n; i++)
        if (same_name(n->list.v[i]->name, name))
            return true;
    return false;
}

// The arguments beyond the parameters. A macro that does not ask for them by name takes none.
static void bind_rest(struct jinja *j, const node *n, const struct jinja_args *args)
{
    const value varargs = hearth_jinja_list(j, JINJA_TUPLE), kwargs = hearth_jinja_dict(j);
    const value *caller = keyword(args, j->names->caller);
    for (size_t i = n->list.n; i < args->n; i++)
        hearth_jinja_append(j, varargs.u.list, args->v[i]);
    for (size_t i = 0; i < args->n_kw; i++)
        if (!is_parameter(n, args->names[i]) && !same_name(args->names[i], j->names->caller))
            hearth_jinja_set(j, kwargs.u.dict, (value){.type = JINJA_STRING, .u.s = args->names[i]},
                             args->kw[i]);
    if (varargs.u.list->n && !n->uses_varargs)
        hearth_jinja_fail(j, "macro '%.*s' takes not more than %zu argument(s)", (int)n->name->n, n->name->s,
                          n->list.n);
    if (kwargs.u.dict->n && !n->uses_kwargs)
        hearth_jinja_fail(j, "macro '%.*s' takes no keyword argument '%.*s'", (int)n->name->n, n->name->s,
                          (int)kwargs.u.dict->v[0].key.u.s->n, kwargs.u.dict->v[0].key.u.s->s);
    if (n->uses_varargs)
        hearth_jinja_assign_name(j, j->names->varargs, varargs);
    if (n->uses_kwargs)
        hearth_jinja_assign_name(j, j->names->kwargs, kwargs);
    if (!is_parameter(n, j->names->caller) && (caller || n->kind == JINJA_N_MACRO))
        hearth_jinja_assign_name(j, j->names->caller,
                                 caller ? *caller : hearth_jinja_undefined(j->names->caller, JINJA_MISSING));
}

static void bind_parameters(struct jinja *j, const node *n, const struct jinja_args *args)
{
    const size_t first_default = n->list.n - n->list2.n;
    for (size_t i = 0; i < n->list.n; i++) {
        const struct jinja_string *name = n->list.v[i]->name;
        const value *given = i < args->n ? &args->v[i] : keyword(args, name);
        value v = given ? *given : hearth_jinja_undefined(name, JINJA_MISSING);
        if (!given && i >= first_default)
            v = hearth_jinja_evaluate(j, n->list2.v[i - first_default]);
        hearth_jinja_assign_name(j, name, v);
    }
}

static value call_macro(struct jinja *j, const struct jinja_macro *macro, const struct jinja_args *args)
{
    struct jinja_frame *outer = j->frame;
    const int line = j->line;
    struct jinja_builder b = {.j = j};
    push(j, macro->frame);
    bind_rest(j, macro->node, args);
    bind_parameters(j, macro->node, args);
    run(j, &macro->node->body, &b);
    j->frame = outer;
    j->line = line;
    return hearth_jinja_built(&b);
}

static value call_joiner(struct jinja *j, struct jinja_cycler *joiner)
{
    return joiner->at++ ? joiner->items : hearth_jinja_literal(j, "");
}

static value call(struct jinja *j, value callee, const struct jinja_args *args)
{
    if (callee.type == JINJA_FUNCTION)
        return callee.u.function->fn(j, &callee.u.function->self, args);
    if (callee.type == JINJA_MACRO)
        return call_macro(j, callee.u.macro, args);
    if (callee.type == JINJA_JOINER)
        return call_joiner(j, callee.u.cycler);
    if (callee.type == JINJA_UNDEFINED)
        hearth_jinja_fail_undefined(j, &callee);
    hearth_jinja_fail(j, "'%s' object is not callable", hearth_jinja_type(&callee));
}

// {% call %}: calls a macro with another that renders the block.
static value call_with_block(struct jinja *j, const node *n)
{
    const value outer = j->input;
    j->input = make_macro(j, n);
    const value text = hearth_jinja_evaluate(j, n);
    j->input = outer;
    return text;
}

// ---- filters and tests by name

static value apply_filter(struct jinja *j, const struct jinja_string *name, value v,
                          const struct jinja_args *args)
{
    jinja_fn fn = hearth_jinja_filter(name);
    if (!fn)
        fn = hearth_jinja_list_filter(name);
    if (!fn)
        hearth_jinja_fail(j, "No filter named '%.*s'", (int)(name->n < 60 ? name->n : 60), name->s);
    return fn(j, &v, args);
}

static bool apply_test(struct jinja *j, const struct jinja_string *name, value v,
                       const struct jinja_args *args)
{
    const jinja_fn fn = hearth_jinja_test(name);
    if (!fn)
        hearth_jinja_fail(j, "No test named '%.*s'", (int)(name->n < 60 ? name->n : 60), name->s);
    return fn(j, &v, args).u.b;
}

// ---- statements

static enum flow run_one(struct jinja *j, const node *n, struct jinja_builder *out)
{
    value v;
    enum flow flow = GO_ON;
    switch (n->kind) {
    case JINJA_N_TEXT:
        hearth_jinja_put_string(out, n->value.u.s);
        break;
    case JINJA_N_OUTPUT:
        v = hearth_jinja_evaluate(j, n->a);
        hearth_jinja_print(out, &v);
        break;
    case JINJA_N_IF:
        return run_if(j, n, out);
    case JINJA_N_FOR:
        return run_for(j, n, out);
    case JINJA_N_SET:
        hearth_jinja_assign(j, n->a, hearth_jinja_evaluate(j, n->b));
        break;
    case JINJA_N_SET_TEXT:
        flow = capture(j, n, n->b, &v);
        hearth_jinja_assign(j, n->a, v);
        break;
    case JINJA_N_MACRO:
        hearth_jinja_assign_name(j, n->name, make_macro(j, n));
        break;
    case JINJA_N_CALLER:
        v = call_with_block(j, n);
        hearth_jinja_print(out, &v);
        break;
    case JINJA_N_FILTERED:
        flow = capture(j, n, n->a, &v);
        hearth_jinja_print(out, &v);
        break;
    case JINJA_N_WITH:
        return run_with(j, n, out);
    case JINJA_N_BREAK:
        return BREAK;
    case JINJA_N_CONTINUE:
        return CONTINUE;
    default:
        return run_in_frame(j, &n->body, out);
    }
    return flow;
}

static enum flow run(struct jinja *j, const struct jinja_nodes *body, struct jinja_builder *out)
{
    enum flow flow = GO_ON;
    hearth_jinja_enter(j);
    for (size_t i = 0; i < body->n && flow == GO_ON; i++) {
        j->line = body->v[i]->line;
        flow = run_one(j, body->v[i], out);
    }
    hearth_jinja_leave(j);
    return flow;
}

// ---- from reading to rendering

static const struct jinja_calls calls = {apply_filter, apply_test, call, hearth_jinja_method};

struct work {
    struct jinja *j;
    struct hearth_jinja *made; // reading
    const char *text;
    size_t n;
    const struct hearth_jinja *t; // rendering
    hearth_jinja_fill fill;
    void *arg;
    const struct jinja_string **out;
};

static void read_template(const struct work *w)
{
    w->made->body = hearth_jinja_parse(w->j, w->text, w->n, &w->made->names);
}

static void render(const struct work *w)
{
    struct jinja *j = w->j;
    struct jinja_builder b = {.j = j};
    j->variables = hearth_jinja_dict(j).u.dict;
    j->names = &w->t->names;
    w->fill(j, j->variables, w->arg);
    push(j, NULL);
    run(j, &w->t->body, &b);
    *w->out = hearth_jinja_built(&b).u.s;
}

// Failures come back here. The code of the failure, or 0.
static int guarded(void (*fn)(const struct work *w), const struct work *w)
{
    if (setjmp(w->j->failed))
        return w->j->code;
    fn(w);
    return HEARTH_OK;
}

int hearth_jinja_open(struct hearth_jinja **out, const char *text, size_t n, struct hearth_error *err)
{
    *out = NULL;
    if (n > MAX_TEMPLATE)
        return hearth_fail(err, HEARTH_E_INVALID, "a chat template of %zu bytes is too long", n);
    struct hearth_jinja *t = hearth_calloc(1, sizeof *t);
    if (!t)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for a chat template");
    t->j = (struct jinja){.limit = TEMPLATE_MEMORY, .max_steps = MAX_STEPS, .err = err, .calls = &calls};
    const struct work w = {.j = &t->j, .made = t, .text = text, .n = n};
    const int rc = guarded(read_template, &w);
    if (rc)
        hearth_jinja_close(&t);
    *out = t;
    return rc;
}

void hearth_jinja_close(struct hearth_jinja **t)
{
    if (!*t)
        return;
    hearth_jinja_free(&(*t)->j);
    free(*t);
    *t = NULL;
}

int hearth_jinja_render(struct jinja *j, const struct hearth_jinja *t, hearth_jinja_fill fill, void *arg,
                        const struct jinja_string **out, struct hearth_error *err)
{
    *out = NULL;
    j->max_steps = j->max_steps ? j->max_steps : MAX_STEPS;
    j->err = err;
    j->calls = &calls;
    const struct work w = {.j = j, .t = t, .fill = fill, .arg = arg, .out = out};
    return guarded(render, &w);
}
