// SPDX-License-Identifier: MIT
// Lists of kernels and copies that come again, as a step's layers do with each token. Where the back end can, a list that
// has come some times is recorded, and from then on begun at once; all others are done one by one.
#include <stdlib.h>
#include <string.h>

#include "accel/insides.h"
#include "base/memory.h"

// Times that a list comes before it is recorded: recording takes longer than doing it so often one by one.
#define TIMES 4
#define COPY                                                                                                 \
    HEARTH_ACCEL_KERNELS_END // in the place of a kernel; numbers: where to, from where, how many bytes

// A command, and its arguments behind it. There is no padding, so equal commands are equal bytes.
struct command {
    int32_t kernel, n_args;
    uint64_t numbers[3];
};
struct value {
    uint64_t bits; // a handle, or a number
    uint64_t is_memory;
};

// ---- doing what a list says

static int do_kernel(struct hearth_accel *a, const struct command *c, const struct value *values)
{
    struct hearth_accel_memory memories[HEARTH_ACCEL_MOST_ARGS] = {{NULL, 0}};
    struct hearth_accel_arg args[HEARTH_ACCEL_MOST_ARGS] = {{NULL, {0}}};
    for (int i = 0; i < c->n_args; i++) {
        memories[i].handle = (void *)(uintptr_t)values[i].bits;
        args[i].memory = values[i].is_memory ? &memories[i] : NULL;
        args[i].number.i = (int32_t)(uint32_t)values[i].bits;
    }
    const size_t groups[3] = {(size_t)c->numbers[0], (size_t)c->numbers[1], (size_t)c->numbers[2]};
    return a->backend->run(a->state, (enum hearth_accel_kernel)c->kernel, args, c->n_args, groups, &a->error);
}

static int do_copy(struct hearth_accel *a, const struct command *c, const struct value *values)
{
    return a->backend->copy(a->state, (void *)(uintptr_t)values[0].bits, (size_t)c->numbers[0],
                            (void *)(uintptr_t)values[1].bits, (size_t)c->numbers[1], (size_t)c->numbers[2],
                            &a->error);
}

static int do_one_by_one(struct hearth_accel *a, const struct hearth_accel_list *l)
{
    int rc = HEARTH_OK;
    for (size_t at = 0; at < l->bytes && !rc;) {
        const struct command *c = (const struct command *)(const void *)(l->data + at);
        const struct value *values = (const struct value *)(const void *)(c + 1);
        rc = c->kernel == COPY ? do_copy(a, c, values) : do_kernel(a, c, values);
        at += sizeof *c + (size_t)c->n_args * sizeof *values;
    }
    return rc;
}

// ---- lists that were there before

static uint64_t hash_of(const struct hearth_accel_list *l)
{
    uint64_t hash = l->bytes, word;
    for (size_t i = 0; i < l->bytes; i += sizeof word) {
        memcpy(&word, l->data + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

// Where a list is, if it is known.
static struct hearth_accel_list *places_of(struct hearth_accel *a, const struct hearth_accel_list *l)
{
    return a->lists.known[l->hash % HEARTH_ACCEL_LISTS];
}

static struct hearth_accel_list *find(struct hearth_accel *a, const struct hearth_accel_list *now)
{
    struct hearth_accel_list *l = places_of(a, now);
    for (int i = 0; i < HEARTH_ACCEL_LISTS_WAYS; i++, l++)
        if (l->bytes == now->bytes && l->hash == now->hash && !memcmp(l->data, now->data, now->bytes))
            return l;
    return NULL;
}

static void forget_record(struct hearth_accel *a, struct hearth_accel_list *l)
{
    if (l->record)
        a->backend->forget(a->state, l->record);
    l->record = NULL;
}

// The list becomes a known one, in the place of the one there that came last the longest ago, whose memory is the next
// list's.
static void remember(struct hearth_accel *a)
{
    struct hearth_accel_list *oldest = places_of(a, &a->lists.now);
    for (struct hearth_accel_list *l = oldest, *end = l + HEARTH_ACCEL_LISTS_WAYS; l < end; l++)
        if (l->used < oldest->used)
            oldest = l;
    forget_record(a, oldest);
    const struct hearth_accel_list was = *oldest;
    *oldest = a->lists.now;
    oldest->used = a->lists.clock;
    oldest->times = 1;
    a->lists.now = (struct hearth_accel_list){.data = was.data, .cap = was.cap};
}

// A device that cannot record one list is not asked again. What its driver says of that is nobody's error.
static void record(struct hearth_accel *a, struct hearth_accel_list *l)
{
    struct hearth_error error = a->error;
    if (a->backend->begin_record(a->state)) {
        a->lists.refused = true;
        return;
    }
    const bool done = do_one_by_one(a, l) == HEARTH_OK;
    if (a->backend->end_record(a->state, &l->record) || !done) {
        forget_record(a, l);
        a->lists.refused = true;
    }
    a->error = error;
}

// Begins a list that was recorded. False: it could not, and the device goes on without lists. (A graph takes memory when
// it is first begun.) Where one that has been begun before cannot, the device has failed.
static bool replay(struct hearth_accel *a, struct hearth_accel_list *l)
{
    struct hearth_error error = a->error;
    a->rc = a->backend->replay(a->state, l->record, &a->error);
    if (a->rc && !l->was_begun) {
        a->rc = HEARTH_OK;
        a->error = error;
        a->lists.refused = true;
        return false;
    }
    a->stats.replays++;
    l->was_begun = true;
    return true;
}

static void do_list(struct hearth_accel *a)
{
    struct hearth_accel_list *now = &a->lists.now, *known;
    now->hash = hash_of(now);
    a->lists.clock++;
    known = find(a, now);
    if (known) {
        known->used = a->lists.clock;
        if (!known->record && ++known->times >= TIMES)
            record(a, known);
        if (known->record && replay(a, known))
            return;
    }
    a->rc = do_one_by_one(a, now);
    if (!known && !a->rc)
        remember(a);
}

// ---- writing a list

void hearth_accel_begin_list(struct hearth_accel *a)
{
    a->lists.is_open = a->backend->begin_record && !a->lists.refused;
    a->lists.now.bytes = 0;
}

void hearth_accel_end_list(struct hearth_accel *a)
{
    if (a->lists.is_open && !a->rc && a->lists.now.bytes)
        do_list(a);
    a->lists.is_open = false;
}

static bool make_room(struct hearth_accel_list *l, size_t bytes)
{
    if (l->cap - l->bytes >= bytes)
        return true;
    const size_t cap = 2 * l->cap + bytes;
    uint8_t *data = hearth_reallocarray(l->data, cap, 1);
    if (!data)
        return false;
    l->data = data;
    l->cap = cap;
    return true;
}

// Room for a command; NULL: there is none. Then what the list has is done now, and the rest as it comes.
static struct command *add(struct hearth_accel *a, int kernel, int n_args)
{
    struct hearth_accel_list *l = &a->lists.now;
    const size_t bytes = sizeof(struct command) + (size_t)n_args * sizeof(struct value);
    if (!a->lists.is_open)
        return NULL;
    if (n_args > HEARTH_ACCEL_MOST_ARGS || !make_room(l, bytes)) {
        a->lists.is_open = false;
        a->rc = do_one_by_one(a, l);
        return NULL;
    }
    struct command *c = (struct command *)(void *)(l->data + l->bytes);
    l->bytes += bytes;
    *c = (struct command){.kernel = kernel, .n_args = n_args};
    return c;
}

bool hearth_accel_list_run(struct hearth_accel *a, enum hearth_accel_kernel kernel,
                           const struct hearth_accel_arg *args, int n_args, const size_t groups[3])
{
    struct command *c = add(a, (int)kernel, n_args);
    if (!c)
        return false;
    struct value *values = (struct value *)(void *)(c + 1);
    for (int i = 0; i < 3; i++)
        c->numbers[i] = groups[i];
    for (int i = 0; i < n_args; i++) {
        const struct hearth_accel_memory *m = args[i].memory;
        values[i].bits = m ? (uint64_t)(uintptr_t)m->handle : (uint64_t)(uint32_t)args[i].number.i;
        values[i].is_memory = m != NULL;
    }
    return true;
}

bool hearth_accel_list_copy(struct hearth_accel *a, void *to, size_t to_at, void *from, size_t from_at,
                            size_t n)
{
    struct command *c = add(a, COPY, 2);
    if (!c)
        return false;
    struct value *values = (struct value *)(void *)(c + 1);
    c->numbers[0] = to_at;
    c->numbers[1] = from_at;
    c->numbers[2] = n;
    values[0] = (struct value){(uint64_t)(uintptr_t)to, true};
    values[1] = (struct value){(uint64_t)(uintptr_t)from, true};
    return true;
}

void hearth_accel_forget_lists(struct hearth_accel *a)
{
    for (size_t i = 0; i < HEARTH_ACCEL_LISTS; i++)
        for (size_t way = 0; way < HEARTH_ACCEL_LISTS_WAYS; way++) {
            forget_record(a, &a->lists.known[i][way]);
            free(a->lists.known[i][way].data);
        }
    free(a->lists.now.data);
    a->lists = (struct hearth_accel_lists){.refused = a->lists.refused};
}
