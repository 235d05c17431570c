// SPDX-License-Identifier: MIT
// Threads that prepare requests, and put answers together.
#include "serve/crew.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"

struct hearth_crew {
    pthread_mutex_t mutex; // for all below
    pthread_cond_t news;
    struct hearth_errand *first, **end; // that wait
    int most, n_threads, n_idle, n_waiting, n_large;
    bool ending;
    pthread_t threads[];
};

// The first errand whose turn it is, out of the queue. NULL: there is none.
static struct hearth_errand *take(struct hearth_crew *c)
{
    struct hearth_errand **at = &c->first;
    while (*at && (*at)->large && c->n_large >= (c->most + 1) / 2)
        at = &(*at)->next;
    struct hearth_errand *e = *at;
    if (!e)
        return NULL;
    *at = e->next;
    if (!*at)
        c->end = at;
    c->n_waiting--;
    return e;
}

static void *work(void *arg)
{
    struct hearth_crew *c = arg;
    pthread_mutex_lock(&c->mutex);
    for (;;) {
        struct hearth_errand *e = take(c);
        if (!e && c->ending && !c->first)
            break;
        if (!e) {
            c->n_idle++;
            pthread_cond_wait(&c->news, &c->mutex);
            c->n_idle--;
            continue;
        }
        const bool large = e->large; // the errand is gone once it is done
        c->n_large += large;
        pthread_mutex_unlock(&c->mutex);
        e->fn(e->arg);
        pthread_mutex_lock(&c->mutex);
        c->n_large -= large;
        if (large)
            pthread_cond_broadcast(&c->news); // another may go
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

// With the mutex held: whether somebody will take what is in the queue.
static bool have_thread(struct hearth_crew *c)
{
    if (c->n_waiting >= c->n_idle && c->n_threads < c->most &&
        !pthread_create(&c->threads[c->n_threads], NULL, work, c))
        c->n_threads++;
    return c->n_threads > 0;
}

void hearth_crew_run(struct hearth_crew *c, struct hearth_errand *errand)
{
    pthread_mutex_lock(&c->mutex);
    const bool queued = !c->ending && have_thread(c);
    if (queued) {
        errand->next = NULL;
        *c->end = errand;
        c->end = &errand->next;
        c->n_waiting++;
        pthread_cond_signal(&c->news);
    }
    pthread_mutex_unlock(&c->mutex);
    if (!queued)
        errand->fn(errand->arg);
}

void hearth_crew_end(struct hearth_crew *c)
{
    pthread_mutex_lock(&c->mutex);
    c->ending = true;
    pthread_cond_broadcast(&c->news);
    pthread_mutex_unlock(&c->mutex);
    for (; c->n_threads; c->n_threads--) // nobody starts threads any more
        pthread_join(c->threads[c->n_threads - 1], NULL);
}

struct hearth_crew *hearth_crew_open(int most)
{
    struct hearth_crew *c = hearth_calloc(1, sizeof *c + (size_t)most * sizeof c->threads[0]);
    if (!c)
        return NULL;
    c->most = most;
    c->end = &c->first;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->news, NULL);
    return c;
}

void hearth_crew_close(struct hearth_crew **c)
{
    if (!*c)
        return;
    hearth_crew_end(*c);
    pthread_mutex_destroy(&(*c)->mutex);
    pthread_cond_destroy(&(*c)->news);
    free(*c);
    *c = NULL;
}
