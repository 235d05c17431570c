// SPDX-License-Identifier: MIT
// Compiled grammars that are kept.
#include "serve/constraint.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

// Grammars that are kept though nobody uses them.
#define KEPT 8

struct kept {
    struct kept *next;
    struct hearth_grammar *grammar;
    char *gbnf;
    int users;
};

struct hearth_constraints {
    const struct hearth_model *model;
    pthread_mutex_t mutex;
    struct kept *first; // the one that was taken last
};

struct hearth_constraints *hearth_constraints_open(const struct hearth_model *model)
{
    struct hearth_constraints *c = hearth_calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->model = model;
    pthread_mutex_init(&c->mutex, NULL);
    return c;
}

static void free_kept(struct kept *k)
{
    hearth_grammar_close(&k->grammar);
    free(k->gbnf);
    free(k);
}

void hearth_constraints_close(struct hearth_constraints **c)
{
    if (!*c)
        return;
    while ((*c)->first) {
        struct kept *k = (*c)->first;
        (*c)->first = k->next;
        free_kept(k);
    }
    pthread_mutex_destroy(&(*c)->mutex);
    free(*c);
    *c = NULL;
}

// With the mutex held.
static struct hearth_grammar *find(struct hearth_constraints *c, const char *gbnf)
{
    struct kept **at = &c->first;
    while (*at && strcmp((*at)->gbnf, gbnf) != 0)
        at = &(*at)->next;
    struct kept *k = *at;
    if (!k)
        return NULL;
    *at = k->next;
    k->next = c->first;
    c->first = k;
    k->users++;
    return k->grammar;
}

static void drop_surplus(struct hearth_constraints *c)
{
    int idle = 0;
    for (struct kept **at = &c->first; *at;) {
        struct kept *k = *at;
        if (k->users || ++idle <= KEPT) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        free_kept(k);
    }
}

static int make(struct hearth_constraints *c, const char *gbnf, struct kept **out, struct hearth_error *err)
{
    const size_t n = strlen(gbnf);
    struct kept *k = hearth_calloc(1, sizeof *k);
    char *copy = hearth_strndup(gbnf, n);
    int rc = k && copy ? 0 : hearth_fail(err, HEARTH_E_MEMORY, "no memory for the grammar");
    if (!rc)
        rc = hearth_grammar_open(&k->grammar, c->model, gbnf, n, err);
    if (rc) {
        free(copy);
        free(k);
        return rc;
    }
    k->gbnf = copy;
    k->users = 1;
    *out = k;
    return 0;
}

int hearth_constraints_take(struct hearth_constraints *c, const char *gbnf, struct hearth_grammar **out,
                            struct hearth_error *err)
{
    struct kept *made;
    pthread_mutex_lock(&c->mutex);
    *out = find(c, gbnf);
    pthread_mutex_unlock(&c->mutex);
    if (*out)
        return 0;
    const int rc = make(c, gbnf, &made, err); // takes its time: others need not wait
    if (rc)
        return rc;
    *out = made->grammar;
    pthread_mutex_lock(&c->mutex);
    made->next = c->first;
    c->first = made;
    pthread_mutex_unlock(&c->mutex);
    return 0;
}

void hearth_constraints_drop(struct hearth_constraints *c, struct hearth_grammar *grammar)
{
    if (!grammar)
        return;
    pthread_mutex_lock(&c->mutex);
    for (struct kept *k = c->first; k; k = k->next)
        k->users -= k->grammar == grammar;
    drop_surplus(c);
    pthread_mutex_unlock(&c->mutex);
}
