// SPDX-License-Identifier: MIT
// Where guesses come from: the text itself, or the small model where that knows more.
#include "base/os.h"
#include "draft/draft.h"

// What a text says itself is as good as what a model says, and costs nothing, if it comes true so often.
#define SURE 0.75

int hearth_draft_guess(struct hearth_draft *draft, struct hearth_pace *p,
                       const struct hearth_draft_text *text, int rows)
{
    hearth_draft_look_up(draft, text->tokens, text->n, text->most);
    if (!p->drafter || text->most < 1 || (draft->n && hearth_pace_chance(p, draft->kind[0]) >= SURE) ||
        !hearth_drafter_pays(p->drafter, p, rows))
        return 0;
    struct hearth_draft other;
    const uint64_t start = hearth_now_ns();
    hearth_drafter_guess(p->drafter, &other, p, text, rows);
    p->drafter_ns += hearth_now_ns() - start;
    if (other.n)
        *draft = other;
    return other.n;
}

void hearth_draft_settle(struct hearth_pace *p)
{
    if (p->drafter && p->last_ns)
        hearth_drafter_took(p->drafter, p->last_tokens, p->last_ns);
    p->last_ns = 0;
}
