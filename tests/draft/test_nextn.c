// SPDX-License-Identifier: MIT
// The layer of a model's own file that guesses a token ahead: its logits are the reference's, and guesses are its best
// tokens, however a text grew. That no text depends on them: test_draft.
#include <math.h>

#include "check.h"
#include "draft/draft.h"
#include "engine/nextn.h"
#include "engine/tail.h"
#include "golden_models.h"
#include "model/nextn.h"

static struct hearth_error err;

static uint64_t seed = 1;

static int roll(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint32_t)n);
}

#define N_CTX 128

struct both {
    struct golden g, next; // the model's logits, and the layer's
    struct hearth_model *model, *layer;
    struct hearth_session *session, *ahead;
    int n_embd, n_vocab;
};

static struct hearth_session *open_session(const struct hearth_model *model, int n_seqs)
{
    struct hearth_session *s = NULL;
    struct hearth_session_params p = hearth_session_params_default();
    p.n_ctx = N_CTX;
    p.type_k = p.type_v = HEARTH_KV_F32;
    p.max_seqs = n_seqs;
    p.max_steps = n_seqs + HEARTH_DRAFT_MOST;
    p.n_threads = 2;
    OK(hearth_session_open(&s, model, &p, &err));
    return s;
}

// ram: of the model, 0: all in memory.
static void open_both(struct both *b, const char *name, uint64_t ram, int n_seqs)
{
    char path[600];
    *b = (struct both){0};
    assert_true(golden_read(&b->g, name));
    snprintf(path, sizeof path, GOLDEN_MODELS "%s.nextn", name);
    assert_true(golden_read_logits(&b->next, path));
    struct hearth_model_params p = hearth_model_params_default();
    p.ram = ram;
    OK(hearth_model_open(&b->model, b->g.path, &p, &err));
    OK(hearth_nextn_open(&b->layer, b->g.path, NULL, UINT64_MAX, &err));
    assert_non_null(b->layer);
    b->n_embd = hearth_model_info(b->model)->n_embd;
    b->n_vocab = hearth_model_info(b->model)->n_vocab;
    b->session = open_session(b->model, n_seqs);
    b->ahead = open_session(b->layer, n_seqs);
}

static void close_both(struct both *b)
{
    hearth_session_close(&b->ahead);
    hearth_session_close(&b->session);
    hearth_model_close(&b->layer);
    hearth_model_close(&b->model);
    golden_free(&b->g);
    golden_free(&b->next);
}

// Of differences, and of what is expected.
struct squares {
    double sum, all;
};

static void add_squares(struct squares *to, const float *x, const float *y, int n)
{
    for (int i = 0; i < n; i++) {
        to->sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        to->all += (double)y[i] * (double)y[i];
    }
}

// ---- logits

// Tokens 1 to n - 1 of a text behind the model's states, n_each at a time. Returns the distance to the
// reference, relative L2.
static double compare_logits(struct both *b, int seq, enum hearth_phase phase, int n_each)
{
    const int n = (int)b->g.n_tokens;
    float *embds = calloc((size_t)n * (size_t)b->n_embd, sizeof *embds);
    const float *states[N_CTX];
    struct hearth_batch_row rows[N_CTX];
    struct squares squares = {0};
    assert_non_null(embds);
    const int own = hearth_seq_new(b->ahead, &err);
    for (int at = 1; at < n; at += n_each) {
        const int some = n - at < n_each ? n - at : n_each;
        for (int i = 0; i < some; i++) {
            rows[i] = (struct hearth_batch_row){
                .seq = own, .pos = -1, .token = b->g.ids[at + i], .phase = phase, .wants_embedding = true};
            states[i] = hearth_tail_state(b->session, seq, at + i - 1);
            assert_non_null(states[i]);
        }
        OK(hearth_nextn_embed(b->session, b->g.ids + at, some, embds, &err));
        OK(hearth_nextn_evaluate(b->ahead, rows, some, embds, states, &err));
        for (int i = 0; i < some; i++) {
            const float *logits;
            OK(hearth_nextn_head(b->session, hearth_embedding(b->ahead, i), &logits, &err));
            add_squares(&squares, logits, b->next.decoded + (size_t)(at + i - 1) * (size_t)b->n_vocab,
                        b->n_vocab);
        }
    }
    hearth_seq_free(b->ahead, own);
    free(embds);
    return sqrt(squares.sum / squares.all);
}

static const char *const names[] = {"qwen35-next.Q8_0", "glm-lite-next.Q8_0"};
#define N_NAMES (sizeof names / sizeof names[0])

static void test_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NAMES; i++) {
        struct both b;
        open_both(&b, names[i], i ? HEARTH_RAM_LEAST : 0, 1);
        const int n = (int)b.g.n_tokens, seq = hearth_seq_new(b.session, &err);
        OK(hearth_tail_open(b.session, 1, N_CTX, &err));
        OK(hearth_prompt(b.session, seq, b.g.ids, n, NULL, NULL, &err));
        assert_int_equal(b.next.n_tokens, n - 1);
        const double prompt = compare_logits(&b, seq, HEARTH_PHASE_PROMPT, n),
                     steps = compare_logits(&b, seq, HEARTH_PHASE_STEP, 7);
        print_message("%s: relative L2 of logits %.1e as a prompt, %.1e as steps\n", names[i], prompt, steps);
        assert_true(prompt < 1e-3 && steps < 1e-3);
        close_both(&b);
    }
}

// ---- states

static void test_states(void **state)
{
    (void)state;
    struct both b;
    open_both(&b, names[0], 0, 3);
    const size_t bytes = (size_t)b.n_embd * sizeof(float);
    OK(hearth_tail_open(b.session, 2, 8, &err));
    const int seq = hearth_seq_new(b.session, &err);
    assert_null(hearth_tail_state(b.session, seq, 0));
    OK(hearth_prompt(b.session, seq, b.g.ids, 20, NULL, NULL, &err));
    for (int pos = -1; pos < 25; pos++)
        assert_int_equal(hearth_tail_state(b.session, seq, pos) != NULL, pos >= 12 && pos < 20);
    OK(hearth_seq_truncate(b.session, seq, 15, &err));
    assert_non_null(hearth_tail_state(b.session, seq, 14));
    assert_null(hearth_tail_state(b.session, seq, 15));
    OK(hearth_prompt(b.session, seq, b.g.ids + 15, 5, NULL, NULL, &err));
    // They are what the last norm gives.
    float *own = malloc(bytes);
    assert_non_null(own);
    memcpy(own, hearth_tail_state(b.session, seq, 19), bytes);
    const float *logits;
    float *want = malloc((size_t)b.n_vocab * sizeof *want);
    assert_non_null(want);
    OK(hearth_prompt(b.session, hearth_seq_new(b.session, &err), b.g.ids, 19, NULL, NULL, &err));
    OK(hearth_seq_truncate(b.session, seq, 19, &err));
    OK(hearth_step(b.session, &seq, &b.g.ids[19], 1, &err));
    memcpy(want, hearth_logits(b.session, 0), (size_t)b.n_vocab * sizeof *want);
    OK(hearth_nextn_head(b.session, hearth_tail_state(b.session, seq, 19), &logits, &err));
    assert_memory_equal(logits, want, (size_t)b.n_vocab * sizeof *want);
    assert_null(hearth_logits(b.session, 0)); // another's logits are there now
    // A third sequence takes the place of the one that had no rows for longest; a fork, and what takes a free number, begin
    // without.
    const int third = hearth_seq_new(b.session, &err);
    OK(hearth_prompt(b.session, third, b.g.ids, 5, NULL, NULL, &err));
    assert_non_null(hearth_tail_state(b.session, third, 4));
    assert_non_null(hearth_tail_state(b.session, seq, 19));
    assert_null(hearth_tail_state(b.session, 1, 18));
    hearth_seq_free(b.session, third);
    assert_int_equal(hearth_seq_fork(b.session, seq, 10, &err), third);
    assert_null(hearth_tail_state(b.session, third, 4));
    hearth_seq_free(b.session, seq);
    assert_int_equal(hearth_seq_new(b.session, &err), seq);
    assert_null(hearth_tail_state(b.session, seq, 19));
    free(own);
    free(want);
    close_both(&b);
}

// A cancel that comes while something is guessed is of what is evaluated next.
static void test_cancel(void **state)
{
    (void)state;
    struct both b;
    open_both(&b, names[0], HEARTH_RAM_LEAST, 1);
    OK(hearth_tail_open(b.session, 1, 8, &err));
    int seq = hearth_seq_new(b.session, &err);
    float embd[64];
    const float *logits;
    OK(hearth_prompt(b.session, seq, b.g.ids, 20, NULL, NULL, &err));
    hearth_cancel(b.session);
    OK(hearth_nextn_embed(b.session, b.g.ids, 1, embd, &err)); // which is short
    assert_int_equal(hearth_nextn_head(b.session, hearth_tail_state(b.session, seq, 19), &logits, &err),
                     HEARTH_E_INTERRUPTED);
    assert_int_equal(hearth_step(b.session, &seq, b.g.ids + 20, 1, &err), HEARTH_E_INTERRUPTED);
    OK(hearth_step(b.session, &seq, b.g.ids + 20, 1, &err));
    close_both(&b);
}

// ---- guesses

static hearth_token likeliest(const float *logits, int n_vocab)
{
    int best = 0;
    for (int i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

// The first guess behind each beginning of the reference's text is the reference's best token.
static void test_first_guesses(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_NAMES; k++) {
        struct both b;
        struct hearth_drafter *drafter = NULL;
        struct hearth_pace pace;
        open_both(&b, names[k], 0, 1);
        hearth_pace_begin(&pace, 0.1);
        OK(hearth_drafter_open_nextn(&drafter, b.layer, b.ahead, b.session, 1, &err));
        const int n = (int)b.g.n_tokens, seq = hearth_seq_new(b.session, &err);
        int same = 0;
        for (int i = 1; i < n; i++) {
            struct hearth_draft d;
            OK(hearth_prompt(b.session, seq, b.g.ids + i - 1, 1, NULL, NULL, &err));
            const struct hearth_draft_text x = {.seq = seq, .tokens = b.g.ids, .n = i + 1, .most = 1};
            hearth_drafter_guess(drafter, &d, &pace, &x, 1);
            assert_int_equal(d.n, 1);
            same += d.tokens[0] == likeliest(b.next.decoded + (size_t)(i - 1) * (size_t)b.n_vocab, b.n_vocab);
        }
        assert_true(same >= n - 2); // two may be as likely as each other
        hearth_drafter_close(&drafter);
        close_both(&b);
    }
}

// What the layer guesses behind a text whose states the session has, evaluated anew, as steps. Ends where two guesses are
// nearly as likely as each other, as a prompt has other bits; returns how many there are.
static int guess_slowly(struct both *b, int seq, const hearth_token *text, int n, hearth_token *out,
                        int n_out)
{
    float embds[N_CTX * 64], own[64];
    const float *states[N_CTX], *logits;
    struct hearth_batch_row rows[N_CTX];
    struct hearth_session *s = open_session(b->layer, 1);
    const int at = hearth_seq_new(s, &err);
    assert_int_equal(b->n_embd, 64);
    for (int i = 1; i < n + n_out; i++) {
        const hearth_token token = i < n ? text[i] : out[i - n];
        rows[0] = (struct hearth_batch_row){
            .seq = at, .pos = -1, .token = token, .phase = HEARTH_PHASE_STEP, .wants_embedding = true};
        states[0] = i < n ? hearth_tail_state(b->session, seq, i - 1) : own;
        assert_non_null(states[0]);
        OK(hearth_nextn_embed(b->session, &token, 1, embds, &err));
        OK(hearth_nextn_evaluate(s, rows, 1, embds, states, &err));
        memcpy(own, hearth_embedding(s, 0), sizeof own);
        OK(hearth_nextn_head(b->session, own, &logits, &err));
        if (i < n - 1)
            continue;
        const hearth_token best = out[i - n + 1] = likeliest(logits, b->n_vocab);
        for (int k = 0; k < b->n_vocab; k++)
            if (k != best && logits[k] > logits[best] - 0.1f)
                n_out = i - n + 1;
    }
    hearth_session_close(&s);
    return n_out;
}

// Texts that grow by what was guessed, by something else, are cut, or are others at once.
static void test_play(void **state)
{
    (void)state;
    struct both b;
    struct hearth_drafter *drafter = NULL;
    struct hearth_pace pace;
    open_both(&b, names[0], 0, 2);
    hearth_pace_begin(&pace, 0.1);
    OK(hearth_drafter_open_nextn(&drafter, b.layer, b.ahead, b.session, 2, &err));
    for (int r = 1; r <= HEARTH_DRAFT_ROWS; r++)
        pace.ns[r] = 1e12; // a step takes long, and no longer with more rows
    for (int kind = 0; kind < HEARTH_DRAFT_KINDS; kind++)
        pace.hits[kind] = pace.tries[kind] = 100;
    hearth_token texts[2][N_CTX];
    int n[2] = {0, 0}, seqs[2], guessed = 0;
    for (int i = 0; i < 2; i++)
        seqs[i] = hearth_seq_new(b.session, &err);
    for (int round = 0; round < 60; round++) {
        const int which = roll(2), seq = seqs[which];
        hearth_token *text = texts[which];
        int kept = hearth_seq_length(b.session, seq);
        if (n[which] < 4 || n[which] > 80 || !roll(5)) {
            kept = n[which] > 4 && roll(2) ? 3 : 0; // as a text that shares its beginning
            n[which] = 5 + roll(30);
            for (int i = kept; i < n[which]; i++)
                text[i] = roll(b.n_vocab);
            OK(hearth_seq_truncate(b.session, seq, kept, &err));
        }
        if (n[which] - 1 > kept)
            OK(hearth_prompt(b.session, seq, text + kept, n[which] - 1 - kept, NULL, NULL, &err));
        struct hearth_draft d;
        hearth_token want[HEARTH_DRAFT_MOST + 1];
        const struct hearth_draft_text x = {
            .which = which, .seq = seq, .tokens = text, .n = n[which], .most = 1 + roll(HEARTH_DRAFT_MOST)};
        hearth_drafter_guess(drafter, &d, &pace, &x, 1);
        assert_true(d.n > 0 && d.n <= x.most);
        const int sure = guess_slowly(&b, seq, text, n[which], want, d.n);
        assert_memory_equal(d.tokens, want, (size_t)sure * sizeof *want);
        guessed += sure;
        for (int i = 0; i < d.n && roll(6); i++)
            text[n[which]++] = d.tokens[i];
        text[n[which]++] = roll(b.n_vocab);
    }
    assert_true(guessed > 200);
    hearth_drafter_close(&drafter);
    close_both(&b);
}

// ---- what has none

static void test_none(void **state)
{
    (void)state;
    struct hearth_model *layer = NULL;
    // Without such a layer, or without its tensors, or without the memory for it.
    OK(hearth_nextn_open(&layer, GOLDEN_MODELS "qwen35.Q8_0.gguf", NULL, UINT64_MAX, &err));
    assert_null(layer);
    OK(hearth_nextn_open(&layer, GOLDEN_MODELS "glm4moe.Q8_0.gguf", NULL, UINT64_MAX, &err));
    assert_null(layer);
    OK(hearth_nextn_open(&layer, GOLDEN_MODELS "qwen35-next.Q8_0.gguf", NULL, 50000, &err));
    assert_null(layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),        cmocka_unit_test(test_states), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_first_guesses), cmocka_unit_test(test_play),   cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
