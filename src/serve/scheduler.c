// SPDX-License-Identifier: MIT
// The scheduler's thread and its queue.
#include "serve/scheduler.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/os.h"
#include "serve/job.h"
#include "serve/scheduler_state.h"

// ---- the thread

// Hidden states of the rows, which are the prompt's from token `at` on. Sums take twice the memory of what comes of them, so
// only texts that are at work have one.
static enum hearth_end take_states(struct hearth_scheduler *s, struct hearth_slot *slot, int at)
{
    struct hearth_pooler *pooler = &slot->job->pooler;
    if (!pooler->sum)
        pooler->sum = hearth_calloc((size_t)pooler->n_embd, sizeof *pooler->sum);
    if (!pooler->sum)
        return HEARTH_END_FAILED;
    for (int i = 0; i < slot->rows; i++)
        if (hearth_pooler_wants(pooler, at + i))
            hearth_pooler_add(pooler, at + i, hearth_embedding(s->session, slot->first_row + i));
    if (slot->n_done < slot->job->n_prompt)
        return HEARTH_END_NONE;
    slot->job->first_ns = hearth_now_ns();
    hearth_pooler_end(pooler, -1);
    free(pooler->sum);
    pooler->sum = NULL;
    return HEARTH_END_EMBEDDED;
}

// Tokens that a slot's rows gave: one, and another for each guess that came true.
static enum hearth_end take_tokens(struct hearth_scheduler *s, struct hearth_slot *slot)
{
    struct hearth_job *job = slot->job;
    const int used = slot->draft.used;
    enum hearth_end end = HEARTH_END_NONE;
    bool more = true;
    job->stats.n_guessed += used;
    for (int at = 0; more && !end; at++) {
        end = hearth_job_choose(job, s->model, hearth_logits(s->session, slot->logits + at), s->room);
        more = !end && hearth_pace_compare(&s->pace, &slot->draft, at, job->tokens[job->n_tokens - 1]) &&
               at < used;
        job->stats.n_came_true += more;
        pthread_mutex_lock(&s->mutex);
        slot->n_done += more;
        pthread_mutex_unlock(&s->mutex);
    }
    return end;
}

// Takes what the rows gave: texts grow.
static void take_results(struct hearth_scheduler *s)
{
    for (int i = 0; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        if (!slot->rows)
            continue;
        pthread_mutex_lock(&s->mutex);
        slot->n_done += slot->rows - slot->draft.used;
        pthread_mutex_unlock(&s->mutex);
        if (slot->job->pooler.out) {
            const enum hearth_end end = take_states(s, slot, slot->n_done - slot->rows);
            if (end)
                hearth_slot_end(s, slot, end, end == HEARTH_END_FAILED ? "out of memory" : NULL);
        }
        if (!slot->job || slot->logits < 0)
            continue;
        if (!slot->job->first_ns)
            slot->job->first_ns = hearth_now_ns();
        const enum hearth_end end = slot->job->n_predict == 0
                                        ? HEARTH_END_LENGTH // only the prompt was wanted
                                        : take_tokens(s, slot);
        if (slot->draft.used) // none of the guesses that did not come true stays
            hearth_seq_truncate(s->session, slot->seq, slot->n_done, NULL);
        if (end)
            hearth_slot_end(s, slot, end, NULL);
    }
}

static void fail_all(struct hearth_scheduler *s, const char *message)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].job && s->slots[i].rows)
            hearth_slot_end(s, &s->slots[i], HEARTH_END_FAILED, message);
}

static int evaluate(struct hearth_scheduler *s, struct hearth_error *err)
{
    pthread_mutex_lock(&s->mutex);
    s->evaluating = !s->aborted;
    s->info.evaluations++;
    s->info.busy_sum += (uint64_t)s->info.n_busy;
    pthread_mutex_unlock(&s->mutex);
    if (!s->evaluating)
        return HEARTH_E_INTERRUPTED;
    const uint64_t start = hearth_now_ns();
    const int rc = hearth_evaluate(s->session, s->rows, s->n_rows, sizeof *s->rows, err);
    if (!rc)
        hearth_batch_took(s, hearth_now_ns() - start);
    pthread_mutex_lock(&s->mutex);
    s->evaluating = false;
    hearth_cancel_clear(s->session); // what it was meant for is over
    s->info.n_prefixes = hearth_prefixes_count(s->prefixes);
    hearth_session_streaming_stats(s->session, &s->info.streaming, sizeof s->info.streaming);
    hearth_session_kv_stats(s->session, &s->info.kv, sizeof s->info.kv);
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

// Waits until there is something to do. False: it is the end.
static bool await_work(struct hearth_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    while (!s->first && !s->info.n_busy && !s->ending && !s->written && !s->errands) {
        pthread_cond_broadcast(&s->idle);
        pthread_cond_wait(&s->work, &s->mutex);
    }
    const bool more = s->first || s->info.n_busy || s->errands || !s->ending;
    s->written = false;
    if (!more)
        pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->mutex);
    return more;
}

static void *work(void *arg)
{
    struct hearth_scheduler *s = arg;
    struct hearth_error err = {0};
    for (;;) {
        hearth_disk_offer(s);
        if (!await_work(s))
            return NULL;
        hearth_saved_act(s);
        hearth_slots_end_unwanted(s);
        hearth_slots_fill(s);
        hearth_disk_restore(s);
        hearth_slots_count_cached(s);
        if (!hearth_batch_fill(s))
            continue;
        const int rc = evaluate(s, &err);
        if (!rc)
            take_results(s);
        else if (rc == HEARTH_E_KV_FULL && hearth_batch_guesses(s))
            s->guesses_wait = true;
        else if (rc == HEARTH_E_KV_FULL)
            hearth_slots_make_room(s);
        else if (rc != HEARTH_E_INTERRUPTED)
            fail_all(s, err.message);
    }
}

// ---- for other threads

int hearth_scheduler_most_jobs(const struct hearth_scheduler *s)
{
    return s->n_slots + s->max_waiting;
}

// With the mutex held.
static bool has_room(const struct hearth_scheduler *s, int n_jobs)
{
    return s->n_waiting + n_jobs <= s->n_slots - s->info.n_busy + s->max_waiting;
}

bool hearth_scheduler_has_room(struct hearth_scheduler *s, int n_jobs)
{
    pthread_mutex_lock(&s->mutex);
    const bool yes = has_room(s, n_jobs);
    pthread_mutex_unlock(&s->mutex);
    return yes;
}

enum hearth_submission hearth_scheduler_submit(struct hearth_scheduler *s, struct hearth_task *task)
{
    enum hearth_submission result = HEARTH_SUBMITTED;
    const int n = task->one_by_one ? 1 : task->n_jobs;
    pthread_mutex_lock(&s->mutex);
    if (s->ending)
        result = HEARTH_SUBMISSION_ENDING;
    else if (!has_room(s, n))
        result = HEARTH_SUBMISSION_FULL;
    for (int i = 0; i < n && !result; i++)
        hearth_queue_next(s, task);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->mutex);
    return result;
}

// Whether ending the evaluation that runs saves more than it costs: others' rows are evaluated again.
static bool is_worth_ending(const struct hearth_scheduler *s, const struct hearth_task *task)
{
    int rows = 0;
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].job && s->slots[i].job->task == task)
            rows += s->slots[i].rows;
    return rows * 2 > s->n_rows;
}

void hearth_scheduler_cancel(struct hearth_scheduler *s, struct hearth_task *task)
{
    pthread_mutex_lock(&s->mutex);
    atomic_store(&task->cancelled, true);
    if (s->evaluating && is_worth_ending(s, task))
        hearth_cancel(s->session);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->mutex);
}

int hearth_scheduler_room(const struct hearth_scheduler *s)
{
    return s->room;
}

static void copy_slots(const struct hearth_scheduler *s, struct hearth_slot_info *out)
{
    for (int i = 0; i < s->n_slots; i++) {
        const struct hearth_slot *slot = &s->slots[i];
        out[i] = slot->job ? hearth_slot_look(slot) : slot->last;
    }
}

void hearth_scheduler_look(struct hearth_scheduler *s, struct hearth_scheduler_info *info,
                           struct hearth_slot_info *slots)
{
    pthread_mutex_lock(&s->mutex);
    *info = s->info;
    info->n_slots = s->n_slots;
    info->n_waiting = s->n_waiting;
    info->written_blocks = s->files ? hearth_prefix_files_written(s->files) : 0;
    if (slots)
        copy_slots(s, slots);
    pthread_mutex_unlock(&s->mutex);
}

// ---- opening and closing

int hearth_scheduler_sequences(int n_slots, bool on_disk, bool saves_slots)
{
    const int kept = n_slots + 8;
    return n_slots + kept + on_disk + saves_slots;
}

static int take_memory(struct hearth_scheduler *s, const struct hearth_scheduler_params *p)
{
    const int n_ctx = hearth_session_n_ctx(p->session);
    const int64_t kv = hearth_session_kv_tokens(p->session);
    s->model = p->model;
    s->session = p->session;
    s->n_slots = p->n_slots;
    s->max_waiting = p->max_waiting;
    s->room = kv < n_ctx ? (int)kv : n_ctx;
    s->max_rows = hearth_session_max_rows(p->session);
    s->max_steps = hearth_session_max_steps(p->session);
    s->n_guesses = p->n_guesses;
    hearth_pace_begin(&s->pace, hearth_draft_each(p->model, p->session));
    s->pace.drafter = p->drafter;
    s->end = &s->first;
    s->slots = hearth_calloc((size_t)p->n_slots, sizeof *s->slots);
    s->rows = hearth_calloc((size_t)s->max_rows, sizeof *s->rows);
    s->lasts = p->saves_slots ? hearth_calloc((size_t)p->n_slots, sizeof *s->lasts) : NULL;
    s->prefixes = hearth_prefixes_open(p->session, hearth_session_max_seqs(p->session) - p->n_slots -
                                                       (p->prefix_folder != NULL) - p->saves_slots);
    return s->slots && s->rows && s->prefixes && (s->lasts || !p->saves_slots) ? 0 : -1;
}

static void free_all(struct hearth_scheduler *s)
{
    hearth_prefix_files_close(&s->files);
    if (s->prefixes)
        hearth_prefixes_close(&s->prefixes);
    hearth_saved_close(s);
    free(s->slots);
    free(s->rows);
    free(s);
}

int hearth_scheduler_open(struct hearth_scheduler **out, const struct hearth_scheduler_params *params,
                          struct hearth_error *err)
{
    struct hearth_scheduler *s = hearth_calloc(1, sizeof *s);
    *out = NULL;
    if (!s || take_memory(s, params)) {
        if (s)
            free_all(s);
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for %d slots", params->n_slots);
    }
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->idle, NULL);
    pthread_cond_init(&s->acted, NULL);
    hearth_disk_open(s, params->prefix_folder, params->prefix_bytes);
    const int failed = pthread_create(&s->thread, NULL, work, s);
    if (failed) {
        free_all(s);
        return hearth_fail_errno(err, failed, "cannot start a thread");
    }
    *out = s;
    return 0;
}

static struct timespec deadline(uint64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    ns += (uint64_t)t.tv_nsec;
    t.tv_sec += (time_t)(ns / 1000000000u);
    t.tv_nsec = (long)(ns % 1000000000u);
    return t;
}

void hearth_scheduler_refuse(struct hearth_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    s->ending = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->mutex);
}

bool hearth_scheduler_await(struct hearth_scheduler *s, uint64_t ns)
{
    const struct timespec until = deadline(ns);
    int late = 0;
    pthread_mutex_lock(&s->mutex);
    while ((s->first || s->info.n_busy) && !late)
        late = pthread_cond_timedwait(&s->idle, &s->mutex, &until);
    pthread_mutex_unlock(&s->mutex);
    return !late;
}

void hearth_scheduler_end(struct hearth_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    s->ending = s->aborted = true;
    if (s->evaluating)
        hearth_cancel(s->session);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->mutex);
    if (s->joined)
        return;
    pthread_join(s->thread, NULL);
    s->joined = true;
    hearth_disk_finish(s);
}

void hearth_scheduler_close(struct hearth_scheduler **s)
{
    if (!*s)
        return;
    hearth_scheduler_end(*s);
    hearth_prefix_files_close(&(*s)->files); // it wakes
    pthread_mutex_destroy(&(*s)->mutex);
    pthread_cond_destroy(&(*s)->work);
    pthread_cond_destroy(&(*s)->idle);
    pthread_cond_destroy(&(*s)->acted);
    free_all(*s);
    *s = NULL;
}
