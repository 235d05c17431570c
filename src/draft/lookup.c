// SPDX-License-Identifier: MIT
// Guesses from the text itself ("prompt lookup"): its last tokens stood somewhere before, and what followed there may
// follow here. Of all such places that with the most tokens alike counts, of several the last.
#include "draft/draft.h"

// Tokens before `place` that are also the text's last ones.
static int alike(const hearth_token *text, int n, int place)
{
    int k = 0;
    while (k < HEARTH_DRAFT_LONGEST && k < place && text[place - 1 - k] == text[n - 1 - k])
        k++;
    return k;
}

// The place to go on from; *match: tokens alike there. -1: there is none.
static int find(const hearth_token *text, int n, int *match)
{
    int best = -1;
    *match = 0;
    for (int place = n - 1; place > 0 && *match < HEARTH_DRAFT_LONGEST; place--) {
        if (text[place - 1] != text[n - 1])
            continue;
        const int k = alike(text, n, place);
        if (k > *match) {
            *match = k;
            best = place;
        }
    }
    return best;
}

void hearth_draft_look_up(struct hearth_draft *draft, const hearth_token *text, int n, int most)
{
    int match = 0;
    const int place = most > 0 && n > 1 ? find(text, n, &match) : -1;
    draft->n = draft->used = 0;
    for (int i = 0; place >= 0 && i < most && i < HEARTH_DRAFT_MOST; i++) {
        draft->tokens[i] = place + i < n ? text[place + i] : draft->tokens[place + i - n];
        draft->kind[i] = hearth_draft_kind_of_match(match + i);
        draft->n++;
    }
}
