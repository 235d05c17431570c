// SPDX-License-Identifier: MIT
// Lending. The plan sets memory aside for what sessions may need at most: whole KV caches, and workspaces for
// prompts. Most of the time most of it is not in use. Until it is, weights have it: layers that would stream,
// the head, and then the cache of neurons or experts:
//
//   set aside = used by sessions + kept for sessions that are not open yet + lent
//
// A session says what it uses before it touches memory, so the caches give back first; and what it has no
// more use for goes back to the system first, then the caches get it. So the process never has more than the
// plan's sum. All of this happens between evaluations, in the turn of the session whose use changes.
#include <assert.h>

#include "weights/sources.h"

uint64_t hearth_sources_session_bytes(const struct hearth_sources_user *u)
{
    return hearth_region_bytes(u->kv_bytes) + u->workspace_bytes;
}

uint64_t hearth_sources_lendable_bytes(const struct hearth_sources_user *u)
{
    return hearth_region_bytes(u->kv_bytes) + u->prompt_bytes;
}

static uint64_t lent_now(const struct hearth_sources *s)
{
    const int missing = s->model->load.max_sessions - s->n_active;
    const uint64_t taken = s->used + (missing > 0 ? (uint64_t)missing * s->kept : 0);
    return s->aside > taken ? s->aside - taken : 0;
}

static void note(struct hearth_sources *s, struct hearth_sources_user *u, uint64_t used, bool prompting)
{
    s->n_active += (used > 0) - (u->used > 0);
    s->used += used - u->used;
    s->n_prompting += (int)prompting - (int)u->prompting;
    u->used = used;
    u->prompting = prompting;
    assert(s->n_prompting >= 0 && s->n_prompting <= s->n_active);
}

// Stages come first, as every token reads them whole; who gets less goes first.
static void share_out(struct hearth_sources *s, uint64_t lent, bool prompting)
{
    const struct hearth_source *stages = &s->stages, *ffn = &s->ffn;
    const uint64_t before = s->to_stages, now = stages->ops->takes(stages->state, lent);
    s->to_stages = now;
    if (now < before)
        stages->ops->lend(stages->state, now, prompting);
    if (ffn->ops->lend)
        ffn->ops->lend(ffn->state, lent - now, prompting);
    if (now >= before)
        stages->ops->lend(stages->state, now, prompting);
}

void hearth_sources_use(struct hearth_sources *s, struct hearth_sources_user *u, uint64_t kv_bytes,
                        bool prompts)
{
    if (!s->turn)
        return;
    const uint64_t kept = u->workspace_bytes - u->prompt_bytes;
    assert(kept && kv_bytes <= hearth_region_bytes(u->kv_bytes));
    hearth_lock_take(s->account);
    note(s, u, kept + kv_bytes + (prompts ? u->prompt_bytes : 0), prompts);
    const uint64_t lent = lent_now(s);
    const bool prompting = s->n_prompting > 0;
    hearth_lock_drop(s->account);
    share_out(s, lent, prompting);
}

// The caches get it when somebody evaluates next.
void hearth_sources_use_nothing(struct hearth_sources *s, struct hearth_sources_user *u)
{
    if (!s->turn)
        return;
    hearth_lock_take(s->account);
    note(s, u, 0, false);
    hearth_lock_drop(s->account);
}
