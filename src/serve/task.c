// SPDX-License-Identifier: MIT
// Tasks: pieces on their way from the scheduler to those who answer.
#include "serve/task.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/constraint.h"

struct inner {
    struct hearth_task task;
    pthread_mutex_t mutex;
    int holders, n_ended;
    bool lost; // a piece, for want of memory
    struct hearth_piece *first, **end;
    void (*wake)(void *arg); // of a sleeper; NULL: nobody sleeps
    void *arg;
};

static struct inner *inside(struct hearth_task *task)
{
    return (struct inner *)task;
}

// ---- opening

struct hearth_task *hearth_task_open(int n_jobs)
{
    struct inner *t = hearth_calloc(1, sizeof *t);
    struct hearth_job *jobs = t ? hearth_calloc((size_t)n_jobs, sizeof *jobs) : NULL;
    if (!jobs || pthread_mutex_init(&t->mutex, NULL)) {
        free(jobs);
        free(t);
        return NULL;
    }
    for (int i = 0; i < n_jobs; i++) {
        jobs[i].task = &t->task;
        jobs[i].index = i;
        jobs[i].slot = -1;
        jobs[i].n_probs = -1;
        jobs[i].n_predict = -1;
    }
    t->task.jobs = jobs;
    t->task.n_jobs = n_jobs;
    t->holders = 1;
    t->end = &t->first;
    return &t->task;
}

static void free_task(struct inner *t)
{
    for (int i = 0; i < t->task.n_jobs; i++) {
        struct hearth_job *job = &t->task.jobs[i];
        free(job->tokens);
        hearth_out_free(&job->held);
        hearth_sampler_close(&job->sampler);
        hearth_stream_close(&job->stream);
        free(job->pooler.sum);
        free(job->pooler.out);
    }
    hearth_constraints_drop(t->task.constraints, t->task.grammar);
    for (int i = 0; i < t->task.n_stops; i++)
        free(t->task.stops[i]);
    free(t->task.stops);
    while (t->first) {
        struct hearth_piece *piece = t->first;
        t->first = piece->next;
        free(piece);
    }
    free(t->task.jobs);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

void hearth_task_hold(struct hearth_task *task)
{
    struct inner *t = inside(task);
    pthread_mutex_lock(&t->mutex);
    t->holders++;
    pthread_mutex_unlock(&t->mutex);
}

void hearth_task_drop(struct hearth_task *task)
{
    struct inner *t = inside(task);
    if (!task)
        return;
    pthread_mutex_lock(&t->mutex);
    const bool last = --t->holders == 0;
    pthread_mutex_unlock(&t->mutex);
    if (last)
        free_task(t);
}

// ---- pieces

void hearth_piece_free(struct hearth_piece *piece)
{
    free(piece);
}

// A piece with all that it points to behind it.
static struct hearth_piece *copy(const struct hearth_piece *p)
{
    const size_t probs = (size_t)p->n_probs * sizeof *p->probs;
    const size_t n_message = p->message ? strlen(p->message) + 1 : 0;
    char *at = malloc(sizeof *p + probs + p->n_text + n_message + 1);
    struct hearth_piece *c = (struct hearth_piece *)(void *)at;
    if (!c)
        return NULL;
    *c = *p;
    c->next = NULL;
    at += sizeof *p;
    c->probs = p->probs ? (struct hearth_prob *)(void *)at : NULL;
    if (probs)
        memcpy(at, p->probs, probs);
    at += probs;
    c->text = at;
    if (p->n_text)
        memcpy(at, p->text, p->n_text);
    at[p->n_text] = 0;
    at += p->n_text + 1;
    c->message = n_message ? memcpy(at, p->message, n_message) : NULL;
    return c;
}

static void wake(struct inner *t)
{
    if (t->wake)
        t->wake(t->arg);
    t->wake = NULL;
}

void hearth_task_put(struct hearth_task *task, const struct hearth_piece *piece)
{
    struct inner *t = inside(task);
    struct hearth_piece *c = copy(piece);
    pthread_mutex_lock(&t->mutex);
    if (c) {
        *t->end = c;
        t->end = &c->next;
    } else {
        t->lost = true;
    }
    t->n_ended += piece->end != HEARTH_END_NONE;
    if (task->streams || t->n_ended == task->n_jobs)
        wake(t);
    pthread_mutex_unlock(&t->mutex);
}

struct hearth_piece *hearth_task_take(struct hearth_task *task, bool *ended)
{
    struct inner *t = inside(task);
    pthread_mutex_lock(&t->mutex);
    struct hearth_piece *piece = t->first;
    if (piece && !(t->first = piece->next))
        t->end = &t->first;
    *ended = !piece && t->n_ended == task->n_jobs;
    if (piece && piece->end && t->lost) {
        piece->end = HEARTH_END_FAILED;
        piece->message = "out of memory";
    }
    pthread_mutex_unlock(&t->mutex);
    return piece;
}

bool hearth_task_sleep(struct hearth_task *task, void (*sleep)(void *arg), void (*wake_up)(void *arg),
                       void *arg)
{
    struct inner *t = inside(task);
    pthread_mutex_lock(&t->mutex);
    const bool sleeps = t->n_ended < task->n_jobs && (!task->streams || !t->first);
    if (sleeps) {
        t->wake = wake_up;
        t->arg = arg;
        sleep(arg);
    }
    pthread_mutex_unlock(&t->mutex);
    return sleeps;
}

void hearth_task_nudge(struct hearth_task *task)
{
    struct inner *t = inside(task);
    pthread_mutex_lock(&t->mutex);
    wake(t);
    pthread_mutex_unlock(&t->mutex);
}

void hearth_task_forget(struct hearth_task *task)
{
    struct inner *t = inside(task);
    pthread_mutex_lock(&t->mutex);
    t->wake = NULL;
    pthread_mutex_unlock(&t->mutex);
}
