// SPDX-License-Identifier: MIT
// Which prompts the server evaluates first, while a text is being generated beside them: the scheduler's choice of rows
// (serve/batch.c), played without a model.
#include "check.h"

#include "serve/scheduler_state.h"

#define SLOTS 8

struct play {
    struct hearth_scheduler s;
    struct hearth_slot slots[SLOTS];
    struct hearth_job jobs[SLOTS];
    struct hearth_batch_row rows[1024];
    hearth_token tokens[4096];
    uint64_t evaluated; // rows of prompts
};

static void come(struct play *p, int slot, int n_prompt)
{
    p->jobs[slot] = (struct hearth_job){
        .tokens = p->tokens, .n_tokens = n_prompt, .n_prompt = n_prompt, .order = ++p->s.order};
    p->slots[slot] = (struct hearth_slot){.job = &p->jobs[slot], .seq = slot, .logits = -1};
}

// The first slot has a text that goes on for ever.
static struct play *begin(void)
{
    struct play *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->s = (struct hearth_scheduler){
        .n_slots = SLOTS, .slots = p->slots, .rows = p->rows, .max_rows = 512, .max_steps = SLOTS};
    come(p, 0, 1);
    p->slots[0].n_done = 1;
    p->jobs[0].n_tokens = 2;
    return p;
}

// An evaluation. Returns the slot whose prompt it ended; 0: none.
static int evaluate(struct play *p)
{
    int ended = 0;
    assert_true(hearth_batch_fill(&p->s));
    assert_int_equal(p->slots[0].rows, 1); // nobody keeps the text from its next token
    p->jobs[0].n_tokens++;
    p->evaluated += (uint64_t)p->s.n_prompt_rows;
    for (int i = 0; i < SLOTS; i++) {
        struct hearth_slot *slot = &p->slots[i];
        if (!slot->job)
            continue;
        slot->n_done += slot->rows;
        if (i && slot->n_done == slot->job->n_prompt) {
            assert_int_equal(ended, 0);
            ended = i;
            slot->job = NULL;
        }
    }
    return ended;
}

// Of prompts that come together the shortest ends first; others have an eighth of the evaluations before that.
static void test_together(void **state)
{
    (void)state;
    static const int lengths[] = {0, 900, 201, 1500, 403}, order[] = {2, 4, 1, 3};
    struct play *p = begin();
    for (int i = 1; i <= 4; i++)
        come(p, i, lengths[i]);
    for (int i = 0, all = 0; i < 4; i++) {
        int ended = 0;
        while (!ended)
            ended = evaluate(p);
        assert_int_equal(ended, order[i]);
        all += lengths[ended];
        assert_in_range(p->evaluated, all, all * 8 / 7 + 2 * 32); // evaluations of 32 rows
    }
    free(p);
}

// A short one that comes while a long one is evaluated does not wait for its end.
static void test_late(void **state)
{
    (void)state;
    struct play *p = begin();
    come(p, 1, 3000);
    for (int i = 0; i < 10; i++)
        evaluate(p);
    const uint64_t before = p->evaluated;
    come(p, 2, 100);
    int ended = 0;
    while (!ended)
        ended = evaluate(p);
    assert_int_equal(ended, 2);
    assert_true(p->evaluated - before <= 160);
    free(p);
}

// A long one ends although short ones come for ever, and these do not wait long for it.
static void test_stream_of_short_ones(void **state)
{
    (void)state;
    struct play *p = begin();
    uint64_t came = 0;
    come(p, 1, 1000);
    come(p, 2, 64);
    for (int ended = 0; ended != 1;) {
        ended = evaluate(p);
        assert_true(p->evaluated <= 1000 * 8 + 32);
        if (ended != 2)
            continue;
        assert_true(p->evaluated - came <= 64 + 2 * 32);
        came = p->evaluated;
        come(p, 2, 64);
    }
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_stream_of_short_ones),
    };
    return cmocka_run_group_tests_name("prompt_order", tests, NULL, NULL);
}
