// SPDX-License-Identifier: MIT
// Prompts that come from disk, and go there.
#include <math.h>

#include "base/log.h"
#include "base/os.h"
#include "serve/job.h"
#include "serve/scheduler_state.h"

// Reading goes on for so long before others have their turn.
#define TURN_NS 100000000u
// Of a prompt that is not all evaluated yet, so many blocks are handed over at least, and this part of those
// that were before, which count as used again.
#define LEAST_BLOCKS 4
#define PART         8
// How long the end waits for what is not written yet.
#define LAST_NS 3000000000u
// Reading that was slower than computing is tried again as often as this makes it seem fast enough.
#define FORGETS 0.9

#define TOKENS HEARTH_BLOCK_TOKENS

// ---- from disk

// What computing a block takes, in nanoseconds; 0: not known yet.
static double computing_ns(const struct hearth_scheduler *s)
{
    return s->prompt_token_ns > 0 ? s->prompt_token_ns * TOKENS : s->block_cost_ns;
}

static bool is_worth_reading(struct hearth_scheduler *s)
{
    const double computing = computing_ns(s);
    if (computing <= 0 || s->block_read_ns < computing)
        return true;
    s->block_read_ns *= FORGETS;
    return false;
}

// The prompt's last token is always evaluated, for its logits.
static bool has_block(const struct hearth_job *job, int done)
{
    return done + TOKENS < job->n_prompt;
}

bool hearth_disk_goes_on(struct hearth_scheduler *s, const struct hearth_job *job, int done)
{
    if (!s->files || !has_block(job, done) || !is_worth_reading(s))
        return false;
    struct hearth_block_key key = hearth_prefix_files_root(s->files);
    for (int i = 0; i <= done; i += TOKENS)
        hearth_block_next(&key, job->tokens + i);
    return hearth_prefix_files_has(s->files, &key);
}

void hearth_disk_begin(struct hearth_scheduler *s, struct hearth_slot *slot)
{
    slot->restores = true;
    slot->key = hearth_prefix_files_root(s->files);
    for (int i = 0; i < slot->n_done; i += TOKENS)
        hearth_block_next(&slot->key, slot->job->tokens + i);
}

// The slot's next block. False: there is none.
static bool restore_block(struct hearth_scheduler *s, struct hearth_slot *slot)
{
    const hearth_token *tokens = slot->job->tokens + slot->n_done;
    uint32_t cost_us = 0;
    if (!has_block(slot->job, slot->n_done))
        return false;
    struct hearth_block_key key = slot->key;
    hearth_block_next(&key, tokens);
    const uint64_t start = hearth_now_ns();
    int rc = hearth_prefix_files_load(s->files, slot->seq, &key, tokens, &cost_us);
    while (rc == HEARTH_E_KV_FULL && hearth_prefixes_drop(s->prefixes))
        rc = hearth_prefix_files_load(s->files, slot->seq, &key, tokens, &cost_us);
    if (rc)
        return false;
    hearth_average(&s->block_read_ns, (double)(hearth_now_ns() - start));
    if (cost_us)
        s->block_cost_ns = 1e3 * cost_us;
    slot->key = key;
    pthread_mutex_lock(&s->mutex);
    slot->n_done += TOKENS;
    s->info.restored_tokens += TOKENS;
    pthread_mutex_unlock(&s->mutex);
    return true;
}

void hearth_disk_restore(struct hearth_scheduler *s)
{
    const uint64_t end = hearth_now_ns() + TURN_NS;
    for (int i = 0; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        while (slot->job && slot->restores && hearth_now_ns() < end)
            slot->restores = restore_block(s, slot) && is_worth_reading(s);
    }
}

// ---- to disk

static bool hand_over(struct hearth_scheduler *s, int seq, const hearth_token *tokens, int n)
{
    struct hearth_error err;
    const int fork = hearth_seq_fork(s->session, seq, n * TOKENS, &err);
    if (fork < 0)
        return false;
    const double cost_us = s->prompt_token_ns * TOKENS / 1e3;
    hearth_prefix_files_write(s->files, fork, tokens, n, cost_us < 4e9 ? (uint32_t)cost_us : 0);
    return true;
}

static bool hand_over_slot(struct hearth_scheduler *s, struct hearth_slot *slot)
{
    if (!slot->job || slot->restores || slot->job->pooler.out) // embeddings keep nothing
        return false;
    const bool whole = slot->n_done >= slot->job->n_prompt;
    const int n = (whole ? slot->job->n_prompt : slot->n_done) / TOKENS;
    if (n - slot->n_offered < (whole ? 1 : LEAST_BLOCKS + slot->n_offered / PART))
        return false;
    slot->n_offered = n;
    return hand_over(s, slot->seq, slot->job->tokens, n);
}

void hearth_disk_offer(struct hearth_scheduler *s)
{
    struct hearth_prefix_offer offer;
    if (!s->files || !hearth_prefix_files_idle(s->files))
        return;
    for (int i = 0; i < s->n_slots; i++)
        if (hand_over_slot(s, &s->slots[i]))
            return;
    while (hearth_prefixes_offer(s->prefixes, &offer))
        if (hand_over(s, offer.seq, offer.tokens, offer.n))
            return;
}

void hearth_disk_finish(struct hearth_scheduler *s)
{
    const uint64_t end = hearth_now_ns() + LAST_NS;
    for (uint64_t now; s->files && (now = hearth_now_ns()) < end;) {
        hearth_prefix_files_await(s->files, end - now);
        if (!hearth_prefix_files_idle(s->files))
            return;
        hearth_disk_offer(s);
        if (hearth_prefix_files_idle(s->files)) // there was nothing more
            return;
    }
}

// ---- opening

static void wake(void *arg)
{
    struct hearth_scheduler *s = arg;
    pthread_mutex_lock(&s->mutex);
    s->written = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->mutex);
}

void hearth_disk_open(struct hearth_scheduler *s, const char *folder, uint64_t most)
{
    struct hearth_error err = {0};
    const struct hearth_prefix_files_params params = {
        .folder = folder, .most = most, .session = s->session, .wake = wake, .arg = s};
    if (folder && !hearth_block_helps(s->session))
        hearth_log(
            HEARTH_LOG_WARNING,
            "prompts are not kept on disk: this model has recurrent layers, and a file would need the state of "
            "each of them");
    else if (folder && hearth_prefix_files_open(&s->files, &params, &err))
        hearth_log(HEARTH_LOG_WARNING, "%s: prompts are not kept on disk", err.message);
}
