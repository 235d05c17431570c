// SPDX-License-Identifier: MIT
// The rows of an evaluation: a step of each text that is being generated, and parts of prompts.
#include <math.h>

#include "serve/scheduler_state.h"

// What prompts may add to an evaluation that others wait for: as long as a step takes, and this at least.
#define PROMPT_NS 250e6
// Fewer rows of a prompt at a time are not worth their overhead.
#define LEAST_CHUNK 32
// Of so many evaluations with parts of prompts one begins with the oldest prompt, whatever its length.
#define OLDEST_EACH 8

static bool in_prompt(const struct hearth_slot *slot)
{
    return slot->job && slot->n_done < slot->job->n_prompt;
}

static void add_rows(struct hearth_scheduler *s, struct hearth_slot *slot, int n)
{
    const struct hearth_job *job = slot->job;
    const enum hearth_phase phase = in_prompt(slot) ? HEARTH_PHASE_PROMPT : HEARTH_PHASE_STEP;
    const bool embeds = job->pooler.out != NULL;
    slot->first_row = s->n_rows;
    for (int i = 0; i < n; i++) {
        const int pos = slot->n_done + i;
        const bool last = pos + 1 == job->n_tokens && !embeds;
        if (last)
            slot->logits = s->n_rows;
        s->rows[s->n_rows++] =
            (struct hearth_batch_row){.seq = slot->seq,
                                      .pos = pos,
                                      .token = job->tokens[pos],
                                      .phase = phase,
                                      .wants_logits = last,
                                      .wants_embedding = embeds && hearth_pooler_wants(&job->pooler, pos)};
    }
    for (int i = 0; i < slot->draft.used; i++)
        s->rows[s->n_rows++] = (struct hearth_batch_row){.seq = slot->seq,
                                                         .pos = slot->n_done + n + i,
                                                         .token = slot->draft.tokens[i],
                                                         .phase = phase,
                                                         .wants_logits = true};
    slot->rows = n + slot->draft.used;
    if (phase == HEARTH_PHASE_PROMPT)
        s->n_prompt_rows += n;
}

// Whether the slot's next step has the text's last token alone.
static bool takes_guesses(const struct hearth_slot *slot)
{
    const struct hearth_job *job = slot->job;
    return job && !in_prompt(slot) && job->n_tokens == slot->n_done + 1 && !job->pooler.out;
}

// Guesses at what follows the text: no more than it may have. Returns how many a small model made.
static int guess(struct hearth_scheduler *s, struct hearth_slot *slot, int rows)
{
    const struct hearth_job *job = slot->job;
    int most = s->n_guesses < s->room - job->n_tokens ? s->n_guesses : s->room - job->n_tokens;
    if (job->n_predict >= 0 && job->n_predict - job->stats.n_generated - 1 < most)
        most = job->n_predict - job->stats.n_generated - 1;
    const int left = (s->max_steps < HEARTH_DRAFT_ROWS ? s->max_steps : HEARTH_DRAFT_ROWS) - rows;
    if (left < most)
        most = left;
    const struct hearth_draft_text text = {.which = (int)(slot - s->slots),
                                           .seq = slot->seq,
                                           .tokens = job->tokens,
                                           .n = job->n_tokens,
                                           .most = most,
                                           .sampler = job->sampler};
    return hearth_draft_guess(&slot->draft, &s->pace, &text, rows);
}

// Guesses for all texts, as many as are worth it. Beside prompts there are none: their rows take the time.
static void add_guesses(struct hearth_scheduler *s)
{
    struct hearth_draft *drafts[HEARTH_DRAFT_ROWS];
    int n = 0, rows = 0, guessed = 0;
    const bool wait = s->guesses_wait;
    hearth_draft_settle(&s->pace);
    s->guesses_wait = false;
    for (int i = 0; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        if (slot->job && in_prompt(slot))
            return;
        rows += slot->job ? slot->job->n_tokens - slot->n_done : 0;
    }
    if (wait || !s->n_guesses || rows >= HEARTH_DRAFT_ROWS)
        return;
    for (int i = 0; i < s->n_slots; i++)
        if (takes_guesses(&s->slots[i])) {
            guessed += guess(s, &s->slots[i], rows + guessed);
            drafts[n++] = &s->slots[i].draft;
        }
    hearth_pace_choose(&s->pace, drafts, n, rows, s->max_steps);
}

// The next token of each text. A job that had to make room before has several: those that it had generated.
static int add_steps(struct hearth_scheduler *s)
{
    int left = s->max_steps, generating = 0;
    for (int i = 0; i < s->n_slots; i++)
        generating += s->slots[i].job && !in_prompt(&s->slots[i]);
    for (int i = 0, rest = generating; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        if (!slot->job || in_prompt(slot))
            continue;
        const int pending = slot->job->n_tokens - slot->n_done, most = left - --rest - slot->draft.used;
        add_rows(s, slot, pending < most ? pending : most);
        left -= slot->rows;
    }
    return generating;
}

// Rows of prompts in this evaluation. A choice of speed alone: no text depends on it.
static int prompt_rows(const struct hearth_scheduler *s, bool others_wait)
{
    const int most = s->max_rows - s->max_steps;
    if (!others_wait || s->prompt_token_ns <= 0)
        return others_wait && most > LEAST_CHUNK ? LEAST_CHUNK : most;
    const double fit = fmax(PROMPT_NS, s->step_ns) / s->prompt_token_ns;
    const int chunk = fit > most ? most : (int)fit;
    return chunk > LEAST_CHUNK ? chunk : most < LEAST_CHUNK ? most : LEAST_CHUNK;
}

// The prompt that ends soonest, which makes the mean wait shortest; or the oldest one, lest long ones wait for ever.
static struct hearth_slot *next_prompt(struct hearth_scheduler *s, bool oldest)
{
    struct hearth_slot *best = NULL;
    int best_left = 0;
    for (int i = 0; i < s->n_slots; i++) {
        struct hearth_slot *slot = &s->slots[i];
        if (!in_prompt(slot) || slot->rows || slot->restores)
            continue;
        const int left = oldest ? 0 : slot->job->n_prompt - slot->n_done;
        if (!best || left < best_left || (left == best_left && slot->job->order < best->job->order)) {
            best = slot;
            best_left = left;
        }
    }
    return best;
}

static void add_prompts(struct hearth_scheduler *s, int left)
{
    bool oldest = s->n_turns % OLDEST_EACH == OLDEST_EACH - 1;
    struct hearth_slot *slot;
    while (left > 0 && (slot = next_prompt(s, oldest))) {
        const int pending = slot->job->n_prompt - slot->n_done;
        add_rows(s, slot, pending < left ? pending : left);
        left -= slot->rows;
        oldest = false;
    }
    s->n_turns += s->n_prompt_rows > 0;
}

bool hearth_batch_fill(struct hearth_scheduler *s)
{
    s->n_rows = s->n_prompt_rows = 0;
    for (int i = 0; i < s->n_slots; i++) {
        s->slots[i].rows = 0;
        s->slots[i].logits = -1;
        s->slots[i].draft.n = s->slots[i].draft.used = 0;
    }
    add_guesses(s);
    const int generating = add_steps(s);
    add_prompts(s, prompt_rows(s, generating > 0));
    return s->n_rows > 0;
}

bool hearth_batch_guesses(const struct hearth_scheduler *s)
{
    int used = 0;
    for (int i = 0; i < s->n_slots; i++)
        used += s->slots[i].draft.used;
    return used > 0;
}

void hearth_batch_took(struct hearth_scheduler *s, uint64_t ns)
{
    const bool steps = s->n_rows > s->n_prompt_rows;
    if (!s->n_prompt_rows)
        hearth_pace_took(&s->pace, s->n_rows, ns);
    if (!s->n_prompt_rows)
        hearth_average(&s->step_ns, (double)ns);
    else if (s->n_prompt_rows >= LEAST_CHUNK)
        hearth_average(&s->prompt_token_ns,
                       fmax(1000, (double)ns - (steps ? s->step_ns : 0)) / s->n_prompt_rows);
}
