// SPDX-License-Identifier: MIT
// An evaluation and the sources: see sources.h.
#include "weights/sources.h"

// How often somebody who waits for others looks whether it is cancelled.
#define LOOK_NS 2000000

bool hearth_sources_take_turn(struct hearth_sources *s, struct hearth_fault *fault)
{
    while (s->turn && !hearth_lock_take_within(s->turn, LOOK_NS))
        if (hearth_fault_look(fault))
            return false;
    return true;
}

void hearth_sources_drop_turn(struct hearth_sources *s)
{
    if (s->turn)
        hearth_lock_drop(s->turn);
}

bool hearth_sources_begin(struct hearth_sources *s, const struct hearth_evaluation *now)
{
    if (!hearth_sources_take_turn(s, now->fault))
        return false;
    if (s->turn) {
        s->now = *now;
        hearth_sources_skip(s, NULL, false); // what another session's devices do, this one's do not
    }
    return true;
}

void hearth_sources_end(struct hearth_sources *s, enum hearth_phase phase)
{
    if (!s->turn)
        return;
    hearth_sources_count(s, phase);
    s->now = (struct hearth_evaluation){0}; // its session may be closed before the next one
    hearth_lock_drop(s->turn);
}

bool hearth_sources_acquire(struct hearth_sources *s, int stage)
{
    const struct hearth_source *from = &s->stages;
    struct hearth_error err = {0};
    if (!from->ops->acquire)
        return false;
    if (!hearth_fault_is_raised(s->now.fault) && from->ops->acquire(from->state, stage, &err))
        hearth_fault_stop(s->now.fault, &err);
    return hearth_fault_is_raised(s->now.fault);
}

void hearth_sources_release(struct hearth_sources *s, int stage)
{
    if (s->stages.ops->release)
        s->stages.ops->release(s->stages.state, stage);
}

void hearth_sources_skip(struct hearth_sources *s, const bool *layers, bool head)
{
    if (s->turn && s->stages.ops->skip)
        s->stages.ops->skip(s->stages.state, layers, head);
}

bool hearth_sources_has_stage(const struct hearth_sources *s, int stage)
{
    return !s->stages.ops->has_stage || s->stages.ops->has_stage(s->stages.state, stage);
}
