// SPDX-License-Identifier: MIT
// A session's turn with the weights: what it uses of the memory that is set aside for it, and the end.
#include "engine/session.h"

// Says what the evaluation uses of the memory that is set aside for the session. What a prompt used goes back
// when a step comes without one.
static void settle_memory(struct hearth_session *s)
{
    const bool prompts = hearth_batch_count(&s->batch, HEARTH_PHASE_PROMPT) > 0;
    if (s->user.prompting && !prompts)
        hearth_arena_discard(&s->rows);
    if (hearth_kv_is_slack(&s->kv))
        hearth_kv_trim(&s->kv);
    hearth_sources_use(s->sources, &s->user, hearth_kv_memory(&s->kv), prompts);
}

int hearth_turn_begin(struct hearth_session *s, struct hearth_error *err)
{
    const struct hearth_evaluation now = {.pool = s->pool,
                                          .fault = &s->fault,
                                          .mixed = s->batch.n_classes > 1,
                                          .in_order = s->probes.on_marks != NULL};
    if (!hearth_sources_begin(s->sources, &now))
        return hearth_fault_take(&s->fault, err);
    if (s->sources->turn)
        settle_memory(s);
    return HEARTH_OK;
}

// Reads of a batch with rows of both classes count as a prompt's.
void hearth_turn_end(struct hearth_session *s)
{
    const int n_steps = hearth_batch_count(&s->batch, HEARTH_PHASE_STEP);
    if (s->deferred.fn)
        s->deferred.fn(s->deferred.arg);
    s->deferred.fn = NULL;
    hearth_sources_end(s->sources,
                       n_steps && n_steps == s->batch.n ? HEARTH_PHASE_STEP : HEARTH_PHASE_PROMPT);
}
