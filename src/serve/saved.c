// SPDX-License-Identifier: MIT
// Slots' last prompts in files, as llama.cpp's server has them: in the scheduler's thread, between two
// evaluations.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "serve/scheduler_state.h"

// Errands that wait at most: each holds a thread that could read requests.
#define MOST_ERRANDS 8

// ---- last prompts

void hearth_saved_note(struct hearth_scheduler *s, int slot, const hearth_token *tokens, int n)
{
    if (!s->lasts || n < 1)
        return;
    struct hearth_last *last = &s->lasts[slot];
    hearth_token *copy = hearth_calloc((size_t)n, sizeof *copy);
    free(last->tokens);
    if (copy)
        memcpy(copy, tokens, (size_t)n * sizeof *copy);
    *last = (struct hearth_last){copy, copy ? n : 0};
}

static void forget(struct hearth_last *last)
{
    free(last->tokens);
    *last = (struct hearth_last){0};
}

void hearth_saved_close(struct hearth_scheduler *s)
{
    for (int i = 0; s->lasts && i < s->n_slots; i++)
        forget(&s->lasts[i]);
    free(s->lasts);
}

// ---- actions

static int file_size(const char *path, uint64_t *bytes, struct hearth_error *err)
{
    struct hearth_path at;
    // Whoever put something else there may have it wait for ever.
    if (!hearth_path_look(path, &at) || at.kind != HEARTH_PATH_FILE)
        return hearth_fail(err, HEARTH_E_IO, "%s: there is no such file", path);
    *bytes = at.size;
    return 0;
}

static int save(struct hearth_scheduler *s, struct hearth_slot_errand *e, struct hearth_error *err)
{
    const struct hearth_last *last = &s->lasts[e->slot];
    int entry;
    e->n_tokens = hearth_prefixes_find(s->prefixes, last->tokens, last->n, &entry);
    if (!e->n_tokens)
        return hearth_fail(err, HEARTH_E_INVALID, "slot %d has no prompt that is kept", e->slot);
    const int seq = hearth_prefixes_fork(s->prefixes, entry, e->n_tokens, err);
    if (seq < 0)
        return seq;
    int rc = hearth_seq_save(s->session, seq, e->path, err);
    hearth_seq_free(s->session, seq);
    if (!rc)
        rc = file_size(e->path, &e->n_bytes, err);
    return rc;
}

// The sequence's tokens, as far as they are a prompt's: nothing else is kept (prefixes.h).
static int prompt_tokens(const struct hearth_scheduler *s, int seq, hearth_token **tokens,
                         struct hearth_error *err)
{
    const int n = hearth_seq_length(s->session, seq);
    hearth_token *all = hearth_calloc((size_t)n + 1, sizeof *all);
    enum hearth_phase *phases = hearth_calloc((size_t)n + 1, sizeof *phases);
    int kept = 0;
    if (all && phases)
        hearth_seq_tokens(s->session, seq, all, phases, n);
    while (all && phases && kept < n && phases[kept] == HEARTH_PHASE_PROMPT)
        kept++;
    const bool failed = !all || !phases;
    free(phases);
    *tokens = all;
    if (failed)
        return hearth_fail(err, HEARTH_E_MEMORY, "no memory for %d tokens", n);
    return kept ? kept : hearth_fail(err, HEARTH_E_INVALID, "the file has no prompt");
}

static int restore(struct hearth_scheduler *s, struct hearth_slot_errand *e, struct hearth_error *err)
{
    hearth_token *tokens = NULL;
    int rc = file_size(e->path, &e->n_bytes, err);
    if (rc)
        return rc;
    if (s->files)
        hearth_prefix_files_interrupt(s->files); // it may hold what the sequence needs
    int seq = hearth_seq_load(s->session, e->path, err);
    while (seq == HEARTH_E_KV_FULL && hearth_prefixes_drop(s->prefixes))
        seq = hearth_seq_load(s->session, e->path, err);
    if (seq < 0)
        return seq;
    rc = prompt_tokens(s, seq, &tokens, err);
    if (rc > 0) {
        e->n_tokens = rc;
        hearth_saved_note(s, e->slot, tokens, rc);
        hearth_prefixes_keep(s->prefixes, seq, tokens, rc, 0);
    } else {
        hearth_seq_free(s->session, seq);
    }
    free(tokens);
    return rc < 0 ? rc : 0;
}

static int erase(struct hearth_scheduler *s, struct hearth_slot_errand *e)
{
    struct hearth_last *last = &s->lasts[e->slot];
    e->n_tokens = hearth_prefixes_erase(s->prefixes, last->tokens, last->n);
    forget(last);
    return 0;
}

static int act(struct hearth_scheduler *s, struct hearth_slot_errand *e, struct hearth_error *err)
{
    switch (e->action) {
    case HEARTH_SLOT_SAVE:
        return save(s, e, err);
    case HEARTH_SLOT_RESTORE:
        return restore(s, e, err);
    default:
        return erase(s, e);
    }
}

void hearth_saved_act(struct hearth_scheduler *s)
{
    pthread_mutex_lock(&s->mutex);
    struct hearth_slot_errand *e = s->errands;
    s->errands = NULL;
    pthread_mutex_unlock(&s->mutex);
    while (e) {
        struct hearth_slot_errand *next = e->next;
        const uint64_t start = hearth_now_ns();
        const bool busy = s->slots[e->slot].job != NULL;
        const int rc = busy ? 0 : act(s, e, e->err);
        pthread_mutex_lock(&s->mutex);
        e->ns = hearth_now_ns() - start;
        s->n_errands--;
        e->outcome = busy ? HEARTH_SLOT_BUSY : rc ? HEARTH_SLOT_FAILED : HEARTH_SLOT_DONE;
        s->info.n_prefixes = hearth_prefixes_count(s->prefixes);
        hearth_session_kv_stats(s->session, &s->info.kv, sizeof s->info.kv);
        pthread_cond_broadcast(&s->acted); // from here on the errand may be gone
        pthread_mutex_unlock(&s->mutex);
        e = next;
    }
}

// ---- for other threads

enum hearth_slot_outcome hearth_scheduler_act(struct hearth_scheduler *s, struct hearth_slot_errand *e,
                                              struct hearth_error *err)
{
    e->err = err;
    e->outcome = HEARTH_SLOT_WAITS;
    pthread_mutex_lock(&s->mutex);
    if (s->ending || s->n_errands == MOST_ERRANDS) {
        e->outcome = HEARTH_SLOT_BUSY;
    } else {
        e->next = s->errands;
        s->errands = e;
        s->n_errands++;
        pthread_cond_signal(&s->work);
    }
    while (e->outcome == HEARTH_SLOT_WAITS)
        pthread_cond_wait(&s->acted, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
    return e->outcome;
}
