// SPDX-License-Identifier: MIT
// The stack machine of pickles (protocols 2 to 5), as far as torch.save() uses it. Source of the operations:
// Python's pickletools.
#include "convert/pickle.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// Values are numbered. Their limit keeps hostile pickles, of which each byte may be one, from taking memory: a tensor
// takes about twenty.
#define MAX_VALUES (UINT32_C(1) << 22)
enum kind { MARK, PLAIN, INTEGER, TEXT, TUPLE, DICT, GLOBAL, STORAGE, TENSOR };

// What a pickle may name.
enum callable { ORDERED_DICT, REBUILD_TENSOR, REBUILD_PARAMETER, STORAGE_TYPE };

struct storage_type {
    const char *name;
    uint32_t type, element_bytes;
};

static const struct storage_type storage_types[] = {
    {"FloatStorage", HEARTH_TYPE_F32, 4},     {"HalfStorage", HEARTH_TYPE_F16, 2},
    {"BFloat16Storage", HEARTH_TYPE_BF16, 2}, {"DoubleStorage", HEARTH_TYPE_END, 8},
    {"LongStorage", HEARTH_TYPE_END, 8},      {"IntStorage", HEARTH_TYPE_END, 4},
    {"ShortStorage", HEARTH_TYPE_END, 2},     {"CharStorage", HEARTH_TYPE_END, 1},
    {"ByteStorage", HEARTH_TYPE_END, 1},      {"BoolStorage", HEARTH_TYPE_END, 1},
};

struct value {
    enum kind kind;
    enum callable callable;          // GLOBAL
    const struct storage_type *type; // GLOBAL of a storage type, STORAGE, TENSOR
    int64_t integer;
    struct hearth_str text; // TEXT; STORAGE, TENSOR: the key
    // TUPLE: its items are links[first..first + n); DICT: a chain of n pairs from link `first` to link
    // `last`; TENSOR: dims are links of integers
    uint32_t first, last, n;
    uint64_t at; // TENSOR: first element
};

struct link {
    uint32_t key, value, next;
};

struct machine {
    const char *path;
    const uint8_t *data;
    size_t n, at;
    struct value *values;
    uint32_t n_values, cap_values;
    struct link *links;
    uint32_t n_links, cap_links;
    uint32_t *stack, *memo;
    uint32_t n_stack, cap_stack, n_memo, cap_memo;
    struct hearth_error *err;
};

static int damaged(const struct machine *m)
{
    return hearth_fail(m->err, HEARTH_E_FORMAT, "%s: its pickle is damaged at byte %zu", m->path, m->at);
}

static int no_memory(const struct machine *m)
{
    return hearth_fail(m->err, HEARTH_E_MEMORY, "%s: no memory for its pickle", m->path);
}

// ---- memory

static bool grow(void **array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    const uint32_t wanted = *cap ? 2 * *cap : 256;
    void *larger = wanted > *cap ? hearth_reallocarray(*array, wanted, size) : NULL;
    if (!larger)
        return false;
    *array = larger;
    *cap = wanted;
    return true;
}

static int push(struct machine *m, uint32_t value)
{
    if (!grow((void **)&m->stack, m->n_stack, &m->cap_stack, sizeof *m->stack))
        return no_memory(m);
    m->stack[m->n_stack++] = value;
    return HEARTH_OK;
}

static int push_new(struct machine *m, struct value v)
{
    if (m->n_values == MAX_VALUES)
        return hearth_fail(m->err, HEARTH_E_FORMAT, "%s: its pickle has more than %u values", m->path,
                           MAX_VALUES);
    if (!grow((void **)&m->values, m->n_values, &m->cap_values, sizeof *m->values))
        return no_memory(m);
    m->values[m->n_values] = v;
    return push(m, m->n_values++);
}

static int add_link(struct machine *m, struct link l)
{
    if (!grow((void **)&m->links, m->n_links, &m->cap_links, sizeof *m->links))
        return no_memory(m);
    m->links[m->n_links++] = l;
    return HEARTH_OK;
}

// The value `depth` below the top; NULL: the stack is not that deep.
static struct value *peek(const struct machine *m, uint32_t depth)
{
    return depth < m->n_stack ? &m->values[m->stack[m->n_stack - 1 - depth]] : NULL;
}

// Values above the last mark; UINT32_MAX: there is none.
static uint32_t count_to_mark(const struct machine *m)
{
    for (uint32_t i = 0; i < m->n_stack; i++)
        if (peek(m, i)->kind == MARK)
            return i;
    return UINT32_MAX;
}

// ---- reading

static bool take(struct machine *m, size_t n, const uint8_t **out)
{
    if (m->n - m->at < n)
        return false;
    *out = m->data + m->at;
    m->at += n;
    return true;
}

static bool take_number(struct machine *m, size_t n, uint64_t *out)
{
    const uint8_t *bytes;
    if (!take(m, n, &bytes))
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out |= (uint64_t)bytes[i] << (8 * i);
    return true;
}

// A text up to the end of its line.
static bool take_line(struct machine *m, struct hearth_str *out)
{
    const uint8_t *end = m->at < m->n ? memchr(m->data + m->at, '\n', m->n - m->at) : NULL;
    if (!end)
        return false;
    *out = (struct hearth_str){(const char *)m->data + m->at, (size_t)(end - m->data) - m->at};
    m->at += out->n + 1;
    return true;
}

// ---- operations

static int push_integer(struct machine *m, size_t n, bool is_signed)
{
    uint64_t v;
    if (!take_number(m, n, &v))
        return damaged(m);
    if (is_signed)
        v = (uint64_t)(int64_t)(int32_t)(uint32_t)v;
    return push_new(m, (struct value){.kind = INTEGER, .integer = (int64_t)v});
}

// A little-endian integer of any length; more than 8 bytes are no size of anything.
static int push_long(struct machine *m)
{
    uint64_t n, v = 0;
    if (!take_number(m, 1, &n) || n > 8 || !take_number(m, (size_t)n, &v))
        return damaged(m);
    if (n > 0 && n < 8 && v >> (8 * n - 1))
        v |= UINT64_MAX << (8 * n);
    return push_new(m, (struct value){.kind = INTEGER, .integer = (int64_t)v});
}

static int push_text(struct machine *m, size_t length_bytes)
{
    uint64_t n;
    const uint8_t *s;
    if (!take_number(m, length_bytes, &n) || n > m->n || !take(m, (size_t)n, &s))
        return damaged(m);
    return push_new(m, (struct value){.kind = TEXT, .text = {(const char *)s, (size_t)n}});
}

static int skip_plain(struct machine *m, size_t n)
{
    const uint8_t *s;
    return take(m, n, &s) ? push_new(m, (struct value){.kind = PLAIN}) : damaged(m);
}

static int name_global(struct machine *m, struct hearth_str module, struct hearth_str name)
{
    struct value v = {.kind = GLOBAL};
    if (hearth_str_is(module, "collections") && hearth_str_is(name, "OrderedDict")) {
        v.callable = ORDERED_DICT;
        return push_new(m, v);
    }
    if (hearth_str_is(module, "torch._utils") &&
        (hearth_str_is(name, "_rebuild_tensor_v2") || hearth_str_is(name, "_rebuild_parameter"))) {
        v.callable = hearth_str_is(name, "_rebuild_parameter") ? REBUILD_PARAMETER : REBUILD_TENSOR;
        return push_new(m, v);
    }
    v.callable = STORAGE_TYPE;
    for (size_t i = 0; hearth_str_is(module, "torch") && i < sizeof storage_types / sizeof storage_types[0];
         i++)
        if (hearth_str_is(name, storage_types[i].name)) {
            v.type = &storage_types[i];
            return push_new(m, v);
        }
    return hearth_fail(
        m->err, HEARTH_E_UNSUPPORTED,
        "%s: it wants to call %.*s.%.*s, which no plain file of tensors does: it is refused, and "
        "nothing of it was run; save a dictionary of tensors with torch.save()",
        m->path, (int)(module.n > 80 ? 80 : module.n), module.s, (int)(name.n > 80 ? 80 : name.n), name.s);
}

static int push_global(struct machine *m)
{
    struct hearth_str module, name;
    if (!take_line(m, &module) || !take_line(m, &name))
        return damaged(m);
    return name_global(m, module, name);
}

static int push_stack_global(struct machine *m)
{
    const struct value *name = peek(m, 0), *module = peek(m, 1);
    if (!name || !module || name->kind != TEXT || module->kind != TEXT)
        return damaged(m);
    m->n_stack -= 2;
    return name_global(m, module->text, name->text);
}

static int push_tuple(struct machine *m, uint32_t n, bool marked)
{
    if (n == UINT32_MAX || n > m->n_stack)
        return damaged(m);
    struct value v = {.kind = TUPLE, .first = m->n_links, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        const int rc = add_link(m, (struct link){.value = m->stack[m->n_stack - n + i]});
        if (rc)
            return rc;
    }
    m->n_stack -= n + (marked ? 1 : 0);
    return push_new(m, v);
}

// Item i of a tuple.
static struct value *item(const struct machine *m, const struct value *tuple, uint32_t i)
{
    return &m->values[m->links[tuple->first + i].value];
}

// Adds the n / 2 pairs on top of the stack to the dictionary below them (and below a mark).
static int set_items(struct machine *m, uint32_t n, bool marked)
{
    const uint32_t below = n + (marked ? 1 : 0);
    if (n == UINT32_MAX || n % 2 || below >= m->n_stack || peek(m, below)->kind != DICT)
        return damaged(m);
    struct value *dict = peek(m, below);
    for (uint32_t i = 0; i < n; i += 2) {
        const uint32_t *pair = &m->stack[m->n_stack - n + i];
        const int rc = add_link(m, (struct link){.key = pair[0], .value = pair[1], .next = UINT32_MAX});
        if (rc)
            return rc;
        if (dict->n)
            m->links[dict->last].next = m->n_links - 1;
        else
            dict->first = m->n_links - 1;
        dict->last = m->n_links - 1;
        dict->n++;
    }
    m->n_stack -= below;
    return HEARTH_OK;
}

// A storage by ('storage', type, key, place, number of elements).
static int load_persistent(struct machine *m)
{
    const struct value *id = peek(m, 0);
    if (!id || id->kind != TUPLE || id->n != 5 || item(m, id, 0)->kind != TEXT ||
        !hearth_str_is(item(m, id, 0)->text, "storage") || item(m, id, 1)->kind != GLOBAL ||
        item(m, id, 1)->callable != STORAGE_TYPE || item(m, id, 2)->kind != TEXT)
        return damaged(m);
    struct value v = {.kind = STORAGE, .type = item(m, id, 1)->type, .text = item(m, id, 2)->text};
    m->n_stack--;
    return push_new(m, v);
}

static bool is_integers(const struct machine *m, const struct value *v)
{
    if (v->kind != TUPLE)
        return false;
    for (uint32_t i = 0; i < v->n; i++)
        if (item(m, v, i)->kind != INTEGER || item(m, v, i)->integer < 0)
            return false;
    return true;
}

// Whether a tensor's elements lie one after the other, in the order of its indices.
static bool is_contiguous(const struct machine *m, const struct value *size, const struct value *stride)
{
    uint64_t step = 1;
    for (uint32_t i = size->n; i-- > 0;) {
        const uint64_t n = (uint64_t)item(m, size, i)->integer;
        if (n > 1 && (uint64_t)item(m, stride, i)->integer != step)
            return false;
        if (__builtin_mul_overflow(step, n ? n : 1, &step))
            return false;
    }
    return true;
}

static int rebuild_tensor(struct machine *m, const struct value *args)
{
    if (args->n < 4 || item(m, args, 0)->kind != STORAGE || item(m, args, 1)->kind != INTEGER ||
        item(m, args, 1)->integer < 0 || !is_integers(m, item(m, args, 2)) ||
        !is_integers(m, item(m, args, 3)) || item(m, args, 2)->n != item(m, args, 3)->n)
        return damaged(m);
    const struct value *storage = item(m, args, 0), *size = item(m, args, 2);
    if (size->n > HEARTH_SOURCE_DIMS || !is_contiguous(m, size, item(m, args, 3)))
        return hearth_fail(
            m->err, HEARTH_E_UNSUPPORTED,
            "%s: a tensor does not lie in one piece, or has more than %d dimensions; save it after "
            ".contiguous()",
            m->path, HEARTH_SOURCE_DIMS);
    struct value v = {.kind = TENSOR,
                      .type = storage->type,
                      .text = storage->text,
                      .first = size->first,
                      .n = size->n,
                      .at = (uint64_t)item(m, args, 1)->integer};
    m->n_stack -= 2;
    return push_new(m, v);
}

static int reduce(struct machine *m)
{
    const struct value *args = peek(m, 0), *fn = peek(m, 1);
    if (!args || !fn || args->kind != TUPLE || fn->kind != GLOBAL)
        return damaged(m);
    if (fn->callable == ORDERED_DICT && args->n == 0) {
        m->n_stack -= 2;
        return push_new(m, (struct value){.kind = DICT});
    }
    if (fn->callable == REBUILD_TENSOR)
        return rebuild_tensor(m, args);
    if (fn->callable == REBUILD_PARAMETER && args->n > 0 && item(m, args, 0)->kind == TENSOR) {
        const uint32_t tensor = m->links[args->first].value;
        m->n_stack -= 2;
        return push(m, tensor);
    }
    return damaged(m);
}

// The state of an ordered dictionary is metadata about versions.
static int build(struct machine *m)
{
    const struct value *object = peek(m, 1);
    if (!object || object->kind != DICT)
        return damaged(m);
    m->n_stack--;
    return HEARTH_OK;
}

static int append_items(struct machine *m, uint32_t n, bool marked)
{
    const uint32_t below = n + (marked ? 1 : 0);
    if (n == UINT32_MAX || below >= m->n_stack || peek(m, below)->kind != PLAIN)
        return damaged(m);
    m->n_stack -= below;
    return HEARTH_OK;
}

static int put_memo(struct machine *m, uint64_t i)
{
    if (!m->n_stack || i > m->n_memo)
        return damaged(m);
    if (i == m->n_memo) {
        if (!grow((void **)&m->memo, m->n_memo, &m->cap_memo, sizeof *m->memo))
            return no_memory(m);
        m->n_memo++;
    }
    m->memo[i] = m->stack[m->n_stack - 1];
    return HEARTH_OK;
}

static int put_memo_at(struct machine *m, size_t bytes)
{
    uint64_t i;
    return take_number(m, bytes, &i) ? put_memo(m, i) : damaged(m);
}

static int get_memo(struct machine *m, size_t bytes)
{
    uint64_t i;
    return take_number(m, bytes, &i) && i < m->n_memo ? push(m, m->memo[i]) : damaged(m);
}

static int step(struct machine *m, uint8_t op)
{
    const uint8_t *skipped;
    switch (op) {
    case 0x80: // PROTO
        return take(m, 1, &skipped) ? HEARTH_OK : damaged(m);
    case 0x95: // FRAME
        return take(m, 8, &skipped) ? HEARTH_OK : damaged(m);
    case '(':
        return push_new(m, (struct value){.kind = MARK});
    case '}':
        return push_new(m, (struct value){.kind = DICT});
    case ']': // lists are not tensors: what they hold is dropped
    case 'N':
    case 0x88: // NEWTRUE
    case 0x89: // NEWFALSE
        return push_new(m, (struct value){.kind = PLAIN});
    case 'G': // BINFLOAT
        return skip_plain(m, 8);
    case 'K':
        return push_integer(m, 1, false);
    case 'M':
        return push_integer(m, 2, false);
    case 'J':
        return push_integer(m, 4, true);
    case 0x8A: // LONG1
        return push_long(m);
    case 'X':
        return push_text(m, 4);
    case 0x8C: // SHORT_BINUNICODE
        return push_text(m, 1);
    case 'c':
        return push_global(m);
    case 0x93: // STACK_GLOBAL
        return push_stack_global(m);
    case ')':
        return push_tuple(m, 0, false);
    case 't':
        return push_tuple(m, count_to_mark(m), true);
    case 0x85: // TUPLE1
    case 0x86:
    case 0x87: // TUPLE3
        return push_tuple(m, op - 0x84u, false);
    case 's':
        return set_items(m, 2, false);
    case 'u':
        return set_items(m, count_to_mark(m), true);
    case 'a':
        return append_items(m, 1, false);
    case 'e':
        return append_items(m, count_to_mark(m), true);
    case 'Q':
        return load_persistent(m);
    case 'R':
        return reduce(m);
    case 'b':
        return build(m);
    case 'q':
        return put_memo_at(m, 1);
    case 'r':
        return put_memo_at(m, 4);
    case 0x94: // MEMOIZE
        return put_memo(m, m->n_memo);
    case 'h':
        return get_memo(m, 1);
    case 'j':
        return get_memo(m, 4);
    default:
        return hearth_fail(
            m->err, HEARTH_E_UNSUPPORTED,
            "%s: its pickle has the operation 0x%02X at byte %zu, which no file of tensors needs", m->path,
            op, m->at - 1);
    }
}

static int run(struct machine *m)
{
    int rc = HEARTH_OK;
    while (!rc) {
        if (m->at >= m->n)
            return damaged(m);
        const uint8_t op = m->data[m->at++];
        if (op == '.')
            return HEARTH_OK;
        rc = step(m, op);
    }
    return rc;
}

// ---- the result

#define MAX_DEPTH   4
#define MAX_TENSORS 1000000

struct visit {
    const struct machine *m;
    int (*fn)(void *arg, const struct hearth_pickle_tensor *t, struct hearth_error *err);
    void *arg;
    char name[1024];
    uint32_t left; // links that may still be looked at
};

static int give(struct visit *v, const struct value *tensor, size_t n_name)
{
    struct hearth_pickle_tensor t = {.name = v->name,
                                     .n_name = n_name,
                                     .type_name = tensor->type->name,
                                     .type = tensor->type->type,
                                     .element_bytes = tensor->type->element_bytes,
                                     .key = tensor->text,
                                     .first = tensor->at,
                                     .n_dims = tensor->n};
    for (uint32_t i = 0; i < tensor->n; i++)
        t.dims[i] = (uint64_t)item(v->m, tensor, i)->integer;
    return v->fn(v->arg, &t, v->m->err);
}

static int walk(struct visit *v, const struct value *dict, size_t n_name, int depth)
{
    int rc = HEARTH_OK;
    uint32_t at = dict->first;
    for (uint32_t i = 0; i < dict->n && !rc; i++, at = v->m->links[at].next) {
        const struct value *key = &v->m->values[v->m->links[at].key];
        const struct value *value = &v->m->values[v->m->links[at].value];
        if (v->left-- == 0)
            return hearth_fail(v->m->err, HEARTH_E_FORMAT, "%s: too many tensors", v->m->path);
        if (value->kind != TENSOR && value->kind != DICT)
            continue;
        const size_t room =
            sizeof v->name - n_name; // at least 1; a dot or an end follows, and an end at last
        if (key->kind != TEXT || room < 2 || key->text.n > room - 2 || memchr(key->text.s, 0, key->text.n))
            return hearth_fail(v->m->err, HEARTH_E_FORMAT, "%s: a tensor's name is no text, or too long",
                               v->m->path);
        memcpy(v->name + n_name, key->text.s, key->text.n);
        const size_t end = n_name + key->text.n;
        v->name[end] = '\0';
        if (value->kind == TENSOR) {
            rc = give(v, value, end);
        } else if (depth < MAX_DEPTH) {
            v->name[end] = '.';
            rc = walk(v, value, end + 1, depth + 1);
        } else {
            rc = hearth_fail(v->m->err, HEARTH_E_FORMAT, "%s: dictionaries in dictionaries in dictionaries",
                             v->m->path);
        }
    }
    return rc;
}

int hearth_pickle_read(const char *path, const uint8_t *data, size_t n,
                       int (*fn)(void *arg, const struct hearth_pickle_tensor *t, struct hearth_error *err),
                       void *arg, struct hearth_error *err)
{
    struct machine m = {.path = path, .data = data, .n = n, .err = err};
    struct visit v = {.m = &m, .fn = fn, .arg = arg, .left = MAX_TENSORS};
    int rc = run(&m);
    const struct value *top = rc ? NULL : peek(&m, 0);
    if (!rc && (!top || top->kind != DICT))
        rc = hearth_fail(err, HEARTH_E_UNSUPPORTED, "%s: it holds no dictionary of tensors", path);
    if (!rc)
        rc = walk(&v, top, 0, 0);
    free(m.values);
    free(m.links);
    free(m.stack);
    free(m.memo);
    return rc;
}
