// SPDX-License-Identifier: MIT
// Where jobs go and end.
#include "base/os.h"
#include "serve/job.h"
#include "serve/scheduler_state.h"

// Tokens for which it is worth to wait until another job has evaluated them.
#define WORTH_WAITING 64
// Positions that a job may take beyond its tokens: the rest of a page, and a copy of a page.
#define SPARE 128

// ---- room in the KV cache

static bool make_sequence_room(struct hearth_scheduler *s)
{
    return hearth_prefixes_drop(s->prefixes);
}

// Whether a job's tokens fit beside those of the jobs that are at work. Alone, it is always tried.
static bool fits(const struct hearth_scheduler *s, const struct hearth_job *job)
{
    int64_t taken = 0;
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].job)
            taken += s->slots[i].job->n_tokens + SPARE;
    return !taken || taken + job->n_tokens + SPARE <= hearth_session_kv_tokens(s->session);
}

struct hearth_slot_info hearth_slot_look(const struct hearth_slot *slot)
{
    const int generated = slot->n_done - slot->job->n_prompt;
    return (struct hearth_slot_info){.state = generated < 0 ? HEARTH_SLOT_PROMPT : HEARTH_SLOT_GENERATING,
                                     .order = slot->job->order,
                                     .n_prompt = slot->job->n_prompt,
                                     .n_done = slot->n_done,
                                     .n_generated = generated > 0 ? generated : 0};
}

// With the mutex held.
static void free_slot(struct hearth_scheduler *s, struct hearth_slot *slot)
{
    slot->last = hearth_slot_look(slot);
    slot->last.state = HEARTH_SLOT_IDLE;
    slot->last.n_generated = slot->job->stats.n_generated; // the last of them is not evaluated
    slot->job = NULL;
    slot->rows = slot->n_done = 0;
    slot->logits = -1;
    s->info.n_busy--;
}

// The youngest job waits again, as the first, and begins anew. What it generated is evaluated again, as
// steps, so it goes on with the same bits. At no moment is it neither at work nor waiting: others would take the server
// for idle, or a place for free.
static bool preempt(struct hearth_scheduler *s)
{
    struct hearth_slot *youngest = NULL;
    int busy = 0;
    for (int i = 0; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        busy += slot->job != NULL;
        if (slot->job && (!youngest || slot->job->order > youngest->job->order))
            youngest = slot;
    }
    if (busy < 2)
        return false;
    struct hearth_job *job = youngest->job;
    hearth_seq_free(s->session, youngest->seq);
    pthread_mutex_lock(&s->mutex);
    free_slot(s, youngest);
    job->next = s->first;
    if (!s->first)
        s->end = &job->next;
    s->first = job;
    s->n_waiting++;
    s->info.preempted++;
    pthread_mutex_unlock(&s->mutex);
    return true;
}

void hearth_slots_make_room(struct hearth_scheduler *s)
{
    if (s->files)
        hearth_prefix_files_interrupt(s->files); // it may hold what others let go of
    if (hearth_prefixes_drop(s->prefixes) || preempt(s))
        return;
    for (int i = 0; i < s->n_slots; i++) {
        const struct hearth_job *job = s->slots[i].job;
        if (job && job->pooler.out)
            hearth_slot_end(s, &s->slots[i], HEARTH_END_FAILED, "the KV cache has no room for the text");
        else if (job)
            hearth_slot_end(s, &s->slots[i], HEARTH_END_LENGTH, NULL);
    }
}

// ---- ends

static void count(struct hearth_scheduler *s, struct hearth_job *job)
{
    const uint64_t now = hearth_now_ns();
    if (job->first_ns) {
        job->stats.prompt_ns = job->first_ns - job->started_ns;
        job->stats.generate_ns = now - job->first_ns;
    }
    pthread_mutex_lock(&s->mutex);
    s->info.jobs++;
    s->info.generated_tokens += (uint64_t)job->stats.n_generated;
    s->info.prompt_ns += job->stats.prompt_ns;
    s->info.generate_ns += job->stats.generate_ns;
    pthread_mutex_unlock(&s->mutex);
}

static void end_job(struct hearth_scheduler *s, struct hearth_job *job, enum hearth_end end,
                    const char *message)
{
    struct hearth_task *task = job->task;
    count(s, job);
    hearth_job_end(job, end, message);
    hearth_task_drop(task);
}

void hearth_slot_end(struct hearth_scheduler *s, struct hearth_slot *slot, enum hearth_end end,
                     const char *message)
{
    struct hearth_job *job = slot->job;
    const int kept = slot->n_done < job->n_prompt ? slot->n_done : job->n_prompt;
    if (job->pooler.out) // so that it does not drive out what chats go on from
        hearth_seq_free(s->session, slot->seq);
    else
        hearth_prefixes_keep(s->prefixes, slot->seq, job->tokens, kept, slot->n_offered);
    if (!job->pooler.out)
        hearth_saved_note(s, (int)(slot - s->slots), job->tokens, kept);
    pthread_mutex_lock(&s->mutex);
    free_slot(s, slot);
    pthread_mutex_unlock(&s->mutex);
    end_job(s, job, end, message);
}

static bool unwanted(const struct hearth_scheduler *s, const struct hearth_job *job)
{
    return s->aborted || atomic_load(&job->task->cancelled);
}

// Whether a job that waits is to end: nobody wants it, or it came too late. One that has begun only made room
// for others, and goes on.
static bool must_end(const struct hearth_scheduler *s, const struct hearth_job *job)
{
    return unwanted(s, job) || (s->ending && !job->started_ns);
}

// Takes such a job out of the queue. NULL: there is none.
static struct hearth_job *take_unwanted(struct hearth_scheduler *s)
{
    struct hearth_job *found = NULL;
    pthread_mutex_lock(&s->mutex);
    struct hearth_job **at = &s->first;
    while (*at && !must_end(s, *at))
        at = &(*at)->next;
    if (*at)
        found = hearth_queue_take(s, at);
    pthread_mutex_unlock(&s->mutex);
    return found;
}

static void end_unwanted(struct hearth_scheduler *s, struct hearth_slot *slot, struct hearth_job *job)
{
    const bool cancelled = atomic_load(&job->task->cancelled);
    const enum hearth_end end = cancelled ? HEARTH_END_CANCELLED : HEARTH_END_FAILED;
    const char *message = cancelled ? NULL : "the server is shutting down";
    if (slot)
        hearth_slot_end(s, slot, end, message);
    else
        end_job(s, job, end, message);
}

void hearth_slots_end_unwanted(struct hearth_scheduler *s)
{
    struct hearth_job *job;
    pthread_mutex_lock(&s->mutex);
    const bool aborted = s->aborted;
    pthread_mutex_unlock(&s->mutex);
    while ((job = take_unwanted(s)))
        end_unwanted(s, NULL, job);
    for (int i = 0; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        if (slot->job && (aborted || atomic_load(&slot->job->task->cancelled)))
            end_unwanted(s, slot, slot->job);
    }
}

// ---- beginnings

// The job at work that has the most of these tokens, as parts of its prompt; NULL: none.
static struct hearth_slot *find_alike(struct hearth_scheduler *s, const struct hearth_job *job, int *common)
{
    struct hearth_slot *best = NULL;
    *common = 0;
    for (int i = 0; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        if (!slot->job)
            continue;
        const int n =
            hearth_common_prefix(slot->job->tokens, slot->job->n_prompt, job->tokens, job->n_prompt - 1);
        if (n > *common) {
            *common = n;
            best = slot;
        }
    }
    return best;
}

// The sequence that a job starts from, with some tokens of it. *restores: more come from disk.
static int start_sequence(struct hearth_scheduler *s, const struct hearth_job *job, bool *restores,
                          struct hearth_error *err)
{
    int entry, alike;
    *restores = false;
    if (job->pooler.out) // hidden states are wanted, which are not kept
        return hearth_seq_new(s->session, err);
    const int kept = hearth_prefixes_find(s->prefixes, job->tokens, job->n_prompt - 1, &entry);
    const struct hearth_slot *slot = find_alike(s, job, &alike);
    if (slot && alike > slot->n_done)
        alike = slot->n_done;
    const int there = slot && alike > kept ? alike : kept, whole = there - there % HEARTH_BLOCK_TOKENS;
    *restores = hearth_disk_goes_on(s, job, whole);
    const int taken = *restores ? whole : there;
    if (taken && there > kept)
        return hearth_seq_fork(s->session, slot->seq, taken, err);
    if (taken)
        return hearth_prefixes_take(s->prefixes, entry, taken, err);
    return hearth_seq_new(s->session, err);
}

// Whether a job at work is about to evaluate what this one begins with.
static bool should_wait(struct hearth_scheduler *s, const struct hearth_job *job)
{
    int entry, alike;
    const struct hearth_slot *slot = job->pooler.out ? NULL : find_alike(s, job, &alike);
    if (!slot || slot->n_done >= alike)
        return false;
    const int kept = hearth_prefixes_find(s->prefixes, job->tokens, job->n_prompt - 1, &entry);
    const int there = kept > slot->n_done ? kept : slot->n_done;
    return alike - there >= WORTH_WAITING;
}

static void start(struct hearth_scheduler *s, struct hearth_slot *slot, struct hearth_job *job)
{
    struct hearth_error err = {0};
    bool restores;
    int seq = start_sequence(s, job, &restores, &err);
    while (seq == HEARTH_E_BUDGET && make_sequence_room(s))
        seq = start_sequence(s, job, &restores, &err);
    if (seq < 0) {
        pthread_mutex_lock(&s->mutex);
        s->info.n_busy--;
        pthread_mutex_unlock(&s->mutex);
        end_job(s, job, HEARTH_END_FAILED, err.message);
        return;
    }
    const int done = hearth_seq_length(s->session, seq);
    pthread_mutex_lock(&s->mutex);
    *slot = (struct hearth_slot){
        .job = job, .seq = seq, .n_done = done, .logits = -1, .counts = !job->started_ns};
    if (!job->started_ns) {
        job->started_ns = hearth_now_ns();
        job->stats.n_prompt = job->n_prompt;
    }
    job->stats.slot = (int)(slot - s->slots);
    pthread_mutex_unlock(&s->mutex);
    if (restores)
        hearth_disk_begin(s, slot);
}

// A slot that nobody uses: number `wanted`, or any where that is negative. NULL: there is none.
static struct hearth_slot *find_free(struct hearth_scheduler *s, int wanted)
{
    for (int i = 0; i < s->n_slots; i++)
        if (!s->slots[i].job && (wanted < 0 || wanted == i))
            return &s->slots[i];
    return NULL;
}

// Takes the first waiting job that can begin, and finds its slot. NULL: none can.
static struct hearth_job *take_waiting(struct hearth_scheduler *s, struct hearth_slot **slot)
{
    struct hearth_job *found = NULL;
    if (!find_free(s, -1))
        return NULL;
    pthread_mutex_lock(&s->mutex);
    for (struct hearth_job **at = &s->first; *at; at = &(*at)->next) {
        *slot = find_free(s, (*at)->slot);
        if (!*slot || should_wait(s, *at))
            continue;
        if (!fits(s, *at))
            break;
        found = hearth_queue_take(s, at);
        s->info.n_busy++; // from this moment on, though its slot is still empty
        break;
    }
    pthread_mutex_unlock(&s->mutex);
    return found;
}

void hearth_slots_count_cached(struct hearth_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    for (int i = 0; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        if (!slot->job || !slot->counts || slot->restores)
            continue;
        slot->counts = false;
        slot->job->stats.n_cached = slot->n_done;
        s->info.cached_tokens += (uint64_t)slot->n_done;
        s->info.prompt_tokens += (uint64_t)(slot->job->n_prompt - slot->n_done);
    }
    pthread_mutex_unlock(&s->mutex);
}

void hearth_slots_fill(struct hearth_scheduler *s)
{
    struct hearth_slot *slot;
    for (struct hearth_job *job; (job = take_waiting(s, &slot));)
        start(s, slot, job);
}
