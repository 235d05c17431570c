// SPDX-License-Identifier: MIT
// The pool of KV pages against a model of it that is plainly right: random operations on sequences in pools
// of several sizes; whatever is refused changes nothing. Then sessions: random operations, files among them,
// against logits computed anew from the tokens, bit for bit.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "engine/session.h"
#include "made_models.h"

static struct hearth_error err;

// Each test sets it anew: test_saved_beside draws as often as its other thread is slow, and what the next one
// plays must not hang on that.
static uint32_t state;

static int below(int n)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (uint32_t)n);
}

static void check_pool(const struct hearth_kv *kv)
{
    const char *wrong = hearth_kv_check(kv);
    if (wrong)
        fail_msg("%s", wrong);
}

// ---- the pool alone

enum { SEQS = 6, CTX = 300, MAX_PAGES = 5, ALL_PAGES = SEQS * MAX_PAGES };

// What a sequence should hold: a token, a phase and a number of its own for every position, and pages by
// name.
struct plain_seq {
    bool used;
    int length, n_pages;
    int tokens[CTX], pages[MAX_PAGES];
    enum hearth_phase phases[CTX];
    float values[CTX];
};

static struct plain {
    struct plain_seq seqs[SEQS];
    int next_page, n_pages;
} plain;

static int owners(const struct plain *p, int page)
{
    int n = 0;
    for (int i = 0; i < SEQS; i++)
        for (int k = 0; k < p->seqs[i].n_pages; k++)
            n += p->seqs[i].pages[k] == page;
    return n;
}

static int pages_in_use(const struct plain *p, int least_owners)
{
    int n = 0;
    for (int page = 0; page < p->next_page; page++)
        n += owners(p, page) >= least_owners;
    return n;
}

// One page more, if there is one: the pool's pages are those with an owner.
static bool plain_take(struct plain *p, int *page)
{
    if (pages_in_use(p, 1) == p->n_pages)
        return false;
    *page = p->next_page++;
    return true;
}

static bool plain_extend(struct plain *p, struct plain_seq *s, int n)
{
    const int first = s->length / HEARTH_KV_TILE;
    if (first < s->n_pages && owners(p, s->pages[first]) > 1) {
        int page = 0;
        if (!plain_take(p, &page))
            return false;
        s->pages[first] = page;
    }
    for (; s->n_pages * HEARTH_KV_TILE < s->length + n; s->n_pages++) {
        int page = 0;
        if (!plain_take(p, &page))
            return false;
        s->pages[s->n_pages] = page;
    }
    return true;
}

// Names of pages in use become the lowest ones again.
static void rename_pages(struct plain *p)
{
    int next = 0;
    for (int page = 0; page < p->next_page; page++) {
        if (!owners(p, page))
            continue;
        for (int i = 0; i < SEQS; i++)
            for (int k = 0; k < p->seqs[i].n_pages; k++)
                if (p->seqs[i].pages[k] == page)
                    p->seqs[i].pages[k] = next;
        next++;
    }
    p->next_page = next;
}

static float *at(struct hearth_kv *kv, int seq, int pos, bool value)
{
    const int page = kv->seqs[seq].pages[pos / HEARTH_KV_TILE], slot = pos % HEARTH_KV_TILE;
    uint8_t *bytes = hearth_kv_pin(kv, page);
    hearth_kv_unpin(kv, page);
    return (float *)(void *)(value ? hearth_kv_value(kv, bytes, 1, 1, slot)
                                   : hearth_kv_key(kv, bytes, 0, 0, slot));
}

static void check_plain(struct hearth_kv *kv)
{
    check_pool(kv);
    assert_int_equal(kv->n_pages - kv->n_free, pages_in_use(&plain, 1));
    assert_int_equal(kv->n_shared, pages_in_use(&plain, 2));
    for (int i = 0; i < SEQS; i++) {
        const struct plain_seq *s = &plain.seqs[i];
        assert_int_equal(hearth_kv_has(kv, i), s->used);
        if (!s->used)
            continue;
        assert_int_equal(kv->seqs[i].length, s->length);
        assert_int_equal(kv->seqs[i].n_pages, s->n_pages);
        for (int pos = 0; pos < s->length; pos++) {
            assert_int_equal(hearth_kv_token(kv, i, pos), s->tokens[pos]);
            assert_int_equal(hearth_kv_phase(kv, i, pos), s->phases[pos]);
            assert_true(*at(kv, i, pos, false) == s->values[pos]);
            assert_true(*at(kv, i, pos, true) == -s->values[pos]);
        }
    }
}

// Some sequences get some tokens each: together, or none of them.
static void try_extend(struct hearth_kv *kv, const int *seqs, const int *counts, int n)
{
    static struct plain before;
    before = plain;
    bool fits = true, context = true;
    for (int i = 0; i < n; i++)
        context &= plain.seqs[seqs[i]].length + counts[i] <= CTX;
    for (int i = 0; i < n && fits && context; i++)
        fits = plain_extend(&plain, &plain.seqs[seqs[i]], counts[i]);
    const int rc = hearth_kv_reserve(kv, seqs, counts, n, &err);
    assert_int_equal(rc, !context ? HEARTH_E_BUDGET : !fits ? HEARTH_E_KV_FULL : HEARTH_OK);
    if (rc) {
        plain = before;
        return;
    }
    static float number = 0;
    const bool given_up = below(10) == 0; // as after an evaluation that failed
    for (int i = 0; i < n; i++) {
        struct plain_seq *s = &plain.seqs[seqs[i]];
        const enum hearth_phase phase = (enum hearth_phase)below(2);
        for (int k = 0; k < counts[i] && !given_up; k++) {
            const int pos = s->length;
            s->tokens[pos] = below(1000);
            s->phases[pos] = phase;
            s->values[pos] = number += 1;
            *at(kv, seqs[i], pos, false) = number;
            *at(kv, seqs[i], pos, true) = -number;
            hearth_kv_seq_append(kv, seqs[i], &s->tokens[pos], 1, phase);
            s->length++;
        }
        if (given_up) {
            hearth_kv_seq_truncate(kv, seqs[i], s->length);
            while (s->n_pages * HEARTH_KV_TILE >= s->length + HEARTH_KV_TILE)
                s->n_pages--;
        }
    }
}

static void extend_some(struct hearth_kv *kv)
{
    int seqs[SEQS], counts[SEQS], n = 0;
    const int first = below(SEQS), most = below(3) ? 3 : 100;
    for (int i = 0; i < SEQS; i++) {
        const int seq = (first + i) % SEQS;
        if (plain.seqs[seq].used && below(2)) {
            seqs[n] = seq;
            counts[n++] = 1 + below(most);
        }
    }
    if (n)
        try_extend(kv, seqs, counts, n);
}

static void cut(struct hearth_kv *kv, int seq, int length)
{
    struct plain_seq *s = &plain.seqs[seq];
    hearth_kv_seq_truncate(kv, seq, length);
    s->length = length;
    s->n_pages = (length + HEARTH_KV_TILE - 1) / HEARTH_KV_TILE;
}

static void begin(struct hearth_kv *kv, int from)
{
    int free_one = 0;
    while (free_one < SEQS && plain.seqs[free_one].used)
        free_one++;
    const int length = from < 0 ? 0 : below(plain.seqs[from].length + 1);
    const int seq = from < 0 ? hearth_kv_seq_new(kv, &err) : hearth_kv_seq_fork(kv, from, length, &err);
    assert_int_equal(seq, free_one < SEQS ? free_one : HEARTH_E_BUDGET);
    if (seq < 0)
        return;
    plain.seqs[seq] = from < 0 ? (struct plain_seq){0} : plain.seqs[from];
    plain.seqs[seq].used = true;
    plain.seqs[seq].length = length;
    plain.seqs[seq].n_pages = (length + HEARTH_KV_TILE - 1) / HEARTH_KV_TILE;
}

static void change(struct hearth_kv *kv)
{
    const int seq = below(SEQS), what = below(100);
    const bool used = plain.seqs[seq].used;
    if (what < 60) {
        extend_some(kv);
    } else if (what < 70) {
        begin(kv, -1);
    } else if (what < 82 && used) {
        begin(kv, seq);
    } else if (what < 92 && used) {
        cut(kv, seq, below(plain.seqs[seq].length + 1));
    } else if (what < 97 && used) {
        hearth_kv_seq_free(kv, seq);
        plain.seqs[seq] = (struct plain_seq){0};
    } else {
        hearth_kv_trim(kv);
    }
}

// ---- its memory

static uint64_t told;
static bool refuses;

static int hear(void *arg, uint64_t bytes, struct hearth_error *e)
{
    (void)arg;
    told = bytes;
    return refuses ? hearth_fail(e, HEARTH_E_INTERRUPTED, "no memory now") : HEARTH_OK;
}

static void grow(struct hearth_kv *kv, int seq, int n, int rc)
{
    assert_int_equal(hearth_kv_reserve(kv, &seq, &n, 1, &err), rc);
    static const hearth_token tokens[CTX];
    if (!rc)
        hearth_kv_seq_append(kv, seq, tokens, n, HEARTH_PHASE_STEP);
    check_pool(kv);
}

// Who asked to be told hears of growth before it happens, and may refuse it; low pages come first, and
// trimming gives back what lies behind the last one that is held.
static void test_memory(void **unused)
{
    (void)unused;
    const struct hearth_hparams hp = {.n_layer = 2, .n_head_kv = 2, .head_dim = 64, .value_dim = 64};
    struct hearth_kv kv;
    OK(hearth_kv_open(
        &kv, &hp,
        &(struct hearth_kv_params){
            .n_ctx = CTX, .max_seqs = SEQS, .type_k = HEARTH_TYPE_F16, .type_v = HEARTH_TYPE_F16},
        &err));
    kv.on_growth = hear;
    assert_int_equal(hearth_kv_memory(&kv), 0);
    const int first = hearth_kv_seq_new(&kv, &err), second = hearth_kv_seq_new(&kv, &err);
    refuses = true;
    grow(&kv, first, 1, HEARTH_E_INTERRUPTED);
    assert_int_equal(hearth_kv_memory(&kv), 0);
    refuses = false;
    grow(&kv, first, HEARTH_KV_TILE, 0);
    assert_true(told >= kv.page_bytes && told == hearth_kv_memory(&kv));
    const uint64_t one = told;
    grow(&kv, second, 2 * HEARTH_KV_TILE, 0);
    assert_true(told >= 3 * kv.page_bytes && told == hearth_kv_memory(&kv));
    // A copy of a shared page grows, too; what is refused leaves it shared.
    refuses = true;
    const int fork = hearth_kv_seq_fork(&kv, first, 10, &err);
    grow(&kv, fork, 1, HEARTH_E_INTERRUPTED);
    assert_int_equal(kv.n_shared, 1);
    hearth_kv_seq_free(&kv, fork);
    // What was taken before is there: nobody is told.
    hearth_kv_seq_free(&kv, second);
    assert_true(hearth_kv_is_slack(&kv));
    grow(&kv, first, HEARTH_KV_TILE, 0);
    assert_false(hearth_kv_is_slack(&kv));
    hearth_kv_trim(&kv);
    check_pool(&kv);
    hearth_kv_seq_truncate(&kv, first, HEARTH_KV_TILE);
    hearth_kv_trim(&kv);
    assert_int_equal(hearth_kv_memory(&kv), one);
    hearth_kv_seq_free(&kv, first);
    hearth_kv_trim(&kv);
    assert_int_equal(hearth_kv_memory(&kv), 0);
    hearth_kv_close(&kv);
}

static void test_pool(void **unused)
{
    (void)unused;
    state = 1;
    const struct hearth_hparams hp = {.n_layer = 2, .n_head_kv = 2, .head_dim = 200, .value_dim = 200};
    static const int tokens[] = {0, 1, 500, 1000, 1500, 1000000};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        struct hearth_kv kv;
        const struct hearth_kv_params p = {.n_ctx = CTX,
                                           .max_seqs = SEQS,
                                           .n_tokens = tokens[i],
                                           .type_k = HEARTH_TYPE_F32,
                                           .type_v = HEARTH_TYPE_F32};
        assert_int_equal(hearth_kv_open(&kv, &hp, &p, &err), 0);
        const int asked = (tokens[i] + HEARTH_KV_TILE - 1) / HEARTH_KV_TILE;
        plain = (struct plain){.n_pages = asked && asked < ALL_PAGES ? asked : ALL_PAGES};
        assert_int_equal(kv.n_pages, plain.n_pages);
        for (int k = 0; k < (SANITIZED ? 400 : 4000); k++) {
            change(&kv);
            rename_pages(&plain);
            if (k % 8 == 0)
                check_plain(&kv);
        }
        for (int k = 0; k < SEQS; k++)
            if (plain.seqs[k].used)
                hearth_kv_seq_free(&kv, k);
        check_pool(&kv);
        assert_int_equal(kv.n_free, kv.n_pages);
        assert_int_equal(kv.n_shared, 0);
        hearth_kv_close(&kv);
    }
}

// The check notices what it is for.
static void test_check(void **unused)
{
    (void)unused;
    const struct hearth_hparams hp = {.n_layer = 1, .n_head_kv = 1, .head_dim = 8, .value_dim = 8};
    const struct hearth_kv_params p = {
        .n_ctx = CTX, .max_seqs = 2, .type_k = HEARTH_TYPE_F32, .type_v = HEARTH_TYPE_F32};
    struct hearth_kv kv;
    assert_int_equal(hearth_kv_open(&kv, &hp, &p, &err), 0);
    int seq = hearth_kv_seq_new(&kv, &err), n = 70;
    assert_int_equal(hearth_kv_reserve(&kv, &seq, &n, 1, &err), 0);
    check_pool(&kv);
    const int held = kv.seqs[seq].pages[0];
    kv.pages[held].refs++;
    assert_non_null(hearth_kv_check(&kv));
    kv.pages[held].refs--;
    kv.free_list[0] = held;
    assert_non_null(hearth_kv_check(&kv));
    kv.free_list[0] = kv.n_pages - 1;
    kv.n_free--;
    assert_non_null(hearth_kv_check(&kv));
    kv.n_free++;
    kv.n_shared = 1;
    assert_non_null(hearth_kv_check(&kv));
    kv.n_shared = 0;
    kv.pages[held].pins = 1;
    assert_non_null(hearth_kv_check(&kv));
    kv.pages[held].pins = 0;
    kv.seqs[seq].length = 200;
    assert_non_null(hearth_kv_check(&kv));
    kv.seqs[seq].length = 0;
    check_pool(&kv);
    hearth_kv_close(&kv);
}

// ---- sessions

// All random operations together; more with the environment variable HEARTH_OPERATIONS.
static int operations = SANITIZED ? 600 : 6000;

enum { S_SEQS = 5, S_CTX = 200, S_BATCH = 50, S_STEPS = 12 };

struct text {
    bool used;
    int n;
    hearth_token tokens[S_CTX];
    enum hearth_phase phases[S_CTX];
};

struct play {
    struct hearth_session *session, *reference;
    struct text texts[S_SEQS];
    int n_vocab, evaluated, refused, saved, cut;
    float *logits; // [n_vocab] of the reference
};

// The logits of a text's last token, computed from nothing in a session of its own.
static const float *recompute(struct play *p, const struct text *t)
{
    int seq = hearth_seq_new(p->reference, &err);
    assert_int_equal(seq, 0);
    for (int i = 0, n; i < t->n; i += n) {
        for (n = 1; i + n < t->n && t->phases[i + n] == t->phases[i]; n++)
            ;
        if (t->phases[i] == HEARTH_PHASE_PROMPT) {
            assert_int_equal(hearth_prompt(p->reference, seq, t->tokens + i, n, NULL, NULL, &err), 0);
            continue;
        }
        for (int k = i; k < i + n; k++)
            assert_int_equal(hearth_step(p->reference, &seq, &t->tokens[k], 1, &err), 0);
    }
    memcpy(p->logits, hearth_logits(p->reference, 0), (size_t)p->n_vocab * sizeof *p->logits);
    hearth_seq_free(p->reference, seq);
    return p->logits;
}

static void check_row(struct play *p, int seq, int row)
{
    if (below(SANITIZED ? 12 : 4))
        return;
    assert_memory_equal(hearth_logits(p->session, row), recompute(p, &p->texts[seq]),
                        (size_t)p->n_vocab * sizeof(float));
    p->evaluated++;
}

static void check_texts(struct play *p)
{
    hearth_token tokens[S_CTX];
    enum hearth_phase phases[S_CTX];
    check_pool(&p->session->kv);
    for (int i = 0; i < S_SEQS; i++) {
        const struct text *t = &p->texts[i];
        if (t->used) // what was reserved in vain has been given back
            assert_int_equal(p->session->kv.seqs[i].n_pages, (t->n + HEARTH_KV_TILE - 1) / HEARTH_KV_TILE);
        assert_int_equal(hearth_kv_has(&p->session->kv, i), t->used);
        assert_int_equal(hearth_seq_tokens(p->session, i, tokens, phases, S_CTX), t->n);
        assert_memory_equal(tokens, t->tokens, (size_t)t->n * sizeof *tokens);
        assert_memory_equal(phases, t->phases, (size_t)t->n * sizeof *phases);
    }
}

static void note(struct text *t, hearth_token token, enum hearth_phase phase)
{
    t->tokens[t->n] = token;
    t->phases[t->n++] = phase;
}

static void expect_refusal(struct play *p, int rc, bool context)
{
    if (rc != (context ? HEARTH_E_BUDGET : HEARTH_E_KV_FULL))
        fail_msg("%d: %s", rc, err.message);
    struct hearth_kv_stats stats;
    hearth_session_kv_stats(p->session, &stats, sizeof stats);
    assert_true(context || stats.pages - stats.pages_used < S_CTX / HEARTH_KV_TILE + 2);
    p->refused++;
}

static void play_prompt(struct play *p, int seq)
{
    hearth_token tokens[S_CTX];
    struct text *t = &p->texts[seq];
    const int n = 1 + below(below(2) ? 8 : 120);
    for (int i = 0; i < n; i++)
        tokens[i] = below(p->n_vocab);
    const int rc = hearth_prompt(p->session, seq, tokens, n, NULL, NULL, &err);
    if (rc) {
        expect_refusal(p, rc, t->n + n > S_CTX);
        return;
    }
    for (int i = 0; i < n; i++)
        note(t, tokens[i], HEARTH_PHASE_PROMPT);
    check_row(p, seq, 0);
}

static void play_steps(struct play *p)
{
    int seqs[S_SEQS], n = 0;
    hearth_token tokens[S_SEQS];
    bool context = false;
    for (int i = 0; i < S_SEQS; i++)
        if (p->texts[i].used && below(3)) {
            seqs[n] = i;
            tokens[n++] = below(p->n_vocab);
            context |= p->texts[i].n == S_CTX;
        }
    if (!n)
        return;
    const int rc = hearth_step(p->session, seqs, tokens, n, &err);
    if (rc) {
        expect_refusal(p, rc, context);
        return;
    }
    for (int i = 0; i < n; i++) {
        note(&p->texts[seqs[i]], tokens[i], HEARTH_PHASE_STEP);
        check_row(p, seqs[i], i);
    }
}

// Rows of several sequences, of either class, all at once: some of them more than one, some a few drafted
// ones.
static void play_batch(struct play *p)
{
    enum { MOST = S_BATCH + S_STEPS };
    struct hearth_batch_row rows[MOST];
    int added[S_SEQS] = {0}, n = 0, n_steps = 0, n_wanted = 0;
    bool context = false;
    for (int tries = below(MOST) + 1; tries > 0; tries--) {
        const int seq = below(S_SEQS), phase = n_steps < S_STEPS && below(2);
        if (!p->texts[seq].used)
            continue;
        rows[n++] = (struct hearth_batch_row){.seq = seq,
                                              .pos = below(2) ? p->texts[seq].n + added[seq] : -1,
                                              .token = below(p->n_vocab),
                                              .phase = (enum hearth_phase)phase,
                                              .wants_logits = !below(3) && n_wanted++ < 32};
        n_steps += phase;
        context |= p->texts[seq].n + ++added[seq] > S_CTX;
    }
    if (!n)
        return;
    const int rc = hearth_evaluate(p->session, rows, n, sizeof *rows, &err);
    if (rc) {
        expect_refusal(p, rc, context);
        return;
    }
    for (int i = 0; i < n; i++) {
        note(&p->texts[rows[i].seq], rows[i].token, rows[i].phase);
        if (rows[i].wants_logits)
            check_row(p, rows[i].seq, i);
        else
            assert_null(hearth_logits(p->session, i));
    }
}

static void play_end(struct play *p, int seq)
{
    hearth_seq_free(p->session, seq);
    p->texts[seq] = (struct text){0};
}

// A new sequence with the first tokens of another, and a step behind them; it stays, or not.
static void play_fork(struct play *p, int from, int length)
{
    const int seq = hearth_seq_fork(p->session, from, length, &err);
    const hearth_token next = below(p->n_vocab);
    if (seq < 0) {
        assert_int_equal(seq, HEARTH_E_BUDGET);
        return;
    }
    p->texts[seq] = p->texts[from];
    p->texts[seq].n = length;
    const int rc = hearth_step(p->session, &seq, &next, 1, &err);
    if (rc) {
        expect_refusal(p, rc, length == S_CTX);
    } else {
        note(&p->texts[seq], next, HEARTH_PHASE_STEP);
        check_row(p, seq, 0);
    }
    if (below(4))
        play_end(p, seq);
}

// Guesses behind a text's last token, of which some are taken back, and steps behind those that are left, or some of them.
static void play_drafts(struct play *p, int seq)
{
    struct hearth_batch_row rows[S_STEPS];
    struct text *t = &p->texts[seq];
    const int n = 2 + below(S_STEPS - 1), length = t->n, left = length + 1 + below(n);
    if (length + n >= S_CTX)
        return;
    for (int i = 0; i < n; i++)
        rows[i] = (struct hearth_batch_row){.seq = seq,
                                            .pos = -1,
                                            .token = below(p->n_vocab),
                                            .phase = HEARTH_PHASE_STEP,
                                            .wants_logits = i == n - 1};
    const int rc = hearth_evaluate(p->session, rows, n, sizeof *rows, &err);
    if (rc) {
        expect_refusal(p, rc, false);
        return;
    }
    for (int i = 0; i < n; i++)
        note(t, rows[i].token, rows[i].phase);
    check_row(p, seq, n - 1);
    t->n = left;
    OK(hearth_seq_truncate(p->session, seq, left, &err));
    const struct hearth_states *states = &p->session->kv.states;
    if (states->n_slots && left < length + n && hearth_states_top(states, seq) == length) {
        assert_int_equal(hearth_states_kept(states, seq, length, left),
                         0); // so no layers are asked but these
        p->cut++;
    }
    play_fork(p, seq, length + 1 + below(left - length));
    play_fork(p, seq, left);
}

// An evaluation that is cancelled before it begins: nothing is left of it.
static void play_cancelled(struct play *p, int seq)
{
    hearth_token tokens[60];
    const struct text *t = &p->texts[seq];
    const int n = 1 + below(60);
    for (int i = 0; i < n; i++)
        tokens[i] = below(p->n_vocab);
    hearth_cancel(p->session);
    const int rc = below(2) ? hearth_prompt(p->session, seq, tokens, n, NULL, NULL, &err)
                            : hearth_step(p->session, &seq, tokens, 1, &err);
    assert_true(rc == HEARTH_E_INTERRUPTED || rc == HEARTH_E_KV_FULL || rc == HEARTH_E_BUDGET);
    assert_int_equal(hearth_seq_length(p->session, seq), t->n);
    assert_null(hearth_logits(p->session, 0));
    hearth_cancel_clear(p->session); // where there was no room, nothing was there to be cancelled
}

static void play_begin(struct play *p, int from)
{
    const int length = from < 0 ? 0 : below(p->texts[from].n + 1);
    const int seq =
        from < 0 ? hearth_seq_new(p->session, &err) : hearth_seq_fork(p->session, from, length, &err);
    if (seq < 0) {
        assert_int_equal(seq, HEARTH_E_BUDGET);
        return;
    }
    assert_false(p->texts[seq].used);
    if (from >= 0)
        p->texts[seq] = p->texts[from];
    p->texts[seq].used = true;
    p->texts[seq].n = length;
}

// To a file and back, with or without the sequence still being there.
static void play_file(struct play *p, int seq)
{
    const char *path = in_folder("sequence.hkv");
    const struct text t = p->texts[seq];
    assert_int_equal(hearth_seq_save(p->session, seq, path, &err), 0);
    if (below(2))
        play_end(p, seq);
    const int copy = hearth_seq_load(p->session, path, &err);
    if (copy < 0) {
        assert_true(copy == HEARTH_E_BUDGET || copy == HEARTH_E_KV_FULL);
        return;
    }
    assert_false(p->texts[copy].used);
    p->texts[copy] = t;
    p->saved++;
}

static void play_one(struct play *p)
{
    const int seq = below(S_SEQS), what = below(100);
    const bool used = p->texts[seq].used;
    if (what < 25) {
        play_steps(p);
    } else if (what < 38) {
        play_batch(p);
    } else if (what < 45 && used) {
        play_drafts(p, seq);
    } else if (what < 57 && used) {
        play_prompt(p, seq);
    } else if (what < 60 && used) {
        play_cancelled(p, seq);
    } else if (what < 70) {
        play_begin(p, -1);
    } else if (what < 80 && used) {
        play_begin(p, seq);
    } else if (what < 90 && used) {
        p->texts[seq].n = below(p->texts[seq].n + 1);
        assert_int_equal(hearth_seq_truncate(p->session, seq, p->texts[seq].n, &err), 0);
    } else if (what < 95 && used) {
        play_end(p, seq);
    } else if (what < 99 && used) {
        play_file(p, seq);
    } else if (what == 99) {
        hearth_session_trim(p->session);
    }
}

// What all plays together did.
static struct {
    int operations, evaluated, refused, saved, cut;
} sum;

static void play(const struct made *made, int kv_tokens, int max_states, int share)
{
    const int n_operations = operations * share / 100;
    const char *path = in_folder("model.gguf");
    made_write(path, made);
    struct hearth_model *m = NULL;
    assert_int_equal(hearth_model_open(&m, path, NULL, &err), 0);
    struct hearth_session_params params = hearth_session_params_default();
    struct play p = {.n_vocab = hearth_model_info(m)->n_vocab};
    p.logits = malloc((size_t)p.n_vocab * sizeof *p.logits);
    params.n_ctx = S_CTX;
    params.n_threads = 1;
    assert_int_equal(hearth_session_open(&p.reference, m, &params, &err), 0);
    params.max_seqs = S_SEQS;
    params.kv_tokens = kv_tokens;
    params.n_ubatch = S_BATCH;
    params.max_steps = S_STEPS;
    params.n_threads = 2;
    params.max_states = max_states;
    assert_int_equal(hearth_session_open(&p.session, m, &params, &err), 0);
    for (int i = 0; i < n_operations; i++) {
        play_one(&p);
        check_texts(&p);
    }
    printf("%s: %d rows compared, %d evaluations refused, %d sequences from files\n", made->arch, p.evaluated,
           p.refused, p.saved);
    sum.operations += n_operations;
    sum.evaluated += p.evaluated;
    sum.refused += p.refused;
    sum.saved += p.saved;
    sum.cut += p.cut;
    hearth_session_close(&p.session);
    hearth_session_close(&p.reference);
    hearth_model_close(&m);
    free(p.logits);
    empty_folder();
}

static void test_sessions(void **unused)
{
    (void)unused;
    state = 1;
    play(&(struct made){.arch = "llama"}, 0, 0, 15);
    play(&(struct made){.arch = "llama"}, 500, 0, 25);
    play(&(struct made){.arch = "bamboo", .predictors = true}, 400, 0, 20);
    play(&(struct made){.arch = "llama", .set = {{"attention.sliding_window", 'u', 70, NULL}}}, 450, 0, 15);
    play(&(struct made){.arch = "qwen35"}, 500, 0, 10);
    play(&(struct made){.arch = "qwen35"}, 0, S_SEQS + 1, 10); // as few states as there may be
    play(&(struct made){.arch = "lfm2"}, 450, 0, 5);
    play(&(struct made){.arch = "bloom"}, 450, 0, 5);
    play(&(struct made){.arch = "deci", .two_widths = true}, 450, 0, 5);
    play(&(struct made){.arch = "granitehybrid"}, 450, 0, 5);
    play(&(struct made){.arch = "nemotron_h"}, 0, S_SEQS + 1, 5);
    play(&(struct made){.arch = "falcon-h1"}, 450, 0, 5);
    play(&(struct made){.arch = "kimi-linear", .experts = true}, 450, 0, 5);
    play(&(struct made){.arch = "bailingmoe3", .experts = true}, 450, 0, 5);
    play(&(struct made){.arch = "gemma3n", .borrows = true}, 300, 0, 10);
    play(&(struct made){.arch = "qwen4exp", .experts = true, .grams = true}, 500, 0, 10);
    play(&(struct made){.arch = "qwen4exp", .experts = true, .grams = true}, 0, S_SEQS + 1, 5);
    play(&(struct made){.arch = "deepseek32", .experts = true, .two_step_q = true}, 500, 0, 10);
    play(&(struct made){.arch = "glm-dsa", .experts = true, .two_step_q = true, .shares_choice = true}, 500,
         0, 10);
    play(&(struct made){.arch = "hy_v4", .experts = true, .two_step_q = true, .shares_choice = true}, 500, 0,
         10);
    play(&(struct made){.arch = "deepseek4", .experts = true, .by_token = true}, 500, 0, 10);
    play(&(struct made){.arch = "deepseek4", .experts = true, .blocks = {128, 4}}, 450, 0, 10);
    play(&(struct made){.arch = "deepseek4", .experts = true, .blocks = {64, 4}}, 0, S_SEQS + 1, 5);
    play(&(struct made){.arch = "minimax-m3", .experts = true}, 500, 0, 10);
    play(&(struct made){.arch = "minimax-01", .experts = true}, 500, 0, 10);
    play(&(struct made){.arch = "minimax-01", .experts = true}, 0, S_SEQS + 1, 5);
    assert_true(sum.evaluated > sum.operations / (SANITIZED ? 60 : 20));
    printf("%d cut\n", sum.cut);
    assert_true(sum.cut > 0);
    assert_true(sum.refused > 0 && sum.saved >= sum.operations / 200);
}

// A prompt and guesses in a new sequence; two of the guesses are left.
static int draft(struct hearth_session *s, int seed)
{
    enum { PROMPT = 20, GUESSES = 5 };
    struct hearth_batch_row rows[GUESSES];
    hearth_token tokens[PROMPT];
    const int seq = hearth_seq_new(s, &err);
    assert_int_equal(seq, 0);
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = seed + i;
    for (int i = 0; i < GUESSES; i++)
        rows[i] = (struct hearth_batch_row){
            .seq = seq, .pos = -1, .token = 2 * seed + i, .phase = HEARTH_PHASE_STEP};
    OK(hearth_prompt(s, seq, tokens, PROMPT, NULL, NULL, &err));
    OK(hearth_evaluate(s, rows, GUESSES, sizeof *rows, &err));
    OK(hearth_seq_truncate(s, seq, PROMPT + 2, &err));
    return seq;
}

// What is kept of a sequence is not taken for what came to its place from a file.
static void test_kept_of_another(void **unused)
{
    (void)unused;
    const char *path = in_folder("model.gguf"), *file = in_folder("sequence.hkv");
    made_write(path, &(struct made){.arch = "qwen35"});
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_session_params params = hearth_session_params_default();
    OK(hearth_model_open(&m, path, NULL, &err));
    const size_t bytes = (size_t)hearth_model_info(m)->n_vocab * sizeof(float);
    float *logits = malloc(bytes);
    assert_non_null(logits);
    params.n_ctx = S_CTX;
    params.max_steps = S_STEPS;
    params.n_threads = 1;
    OK(hearth_session_open(&s, m, &params, &err));
    const hearth_token next = 3;
    int seq = draft(s, 5);
    OK(hearth_seq_save(s, seq, file, &err));
    OK(hearth_step(s, &seq, &next, 1, &err));
    memcpy(logits, hearth_logits(s, 0), bytes);
    hearth_seq_free(s, seq);
    hearth_seq_free(s, draft(s, 6));
    seq = hearth_seq_load(s, file, &err);
    assert_int_equal(seq, 0);
    assert_true(hearth_states_top(&s->kv.states, seq) < hearth_seq_length(s, seq));
    OK(hearth_step(s, &seq, &next, 1, &err));
    assert_memory_equal(logits, hearth_logits(s, 0), bytes);
    free(logits);
    hearth_session_close(&s);
    hearth_model_close(&m);
    empty_folder();
}

// Texts that several sequences share at their ends, stepped all at once: there are states enough for it, unless fewer were
// asked for.
static void test_shared_states(void **unused)
{
    (void)unused;
    state = 1;
    const char *path = in_folder("model.gguf");
    made_write(path, &(struct made){.arch = "qwen35"});
    struct hearth_model *m = NULL;
    OK(hearth_model_open(&m, path, NULL, &err));
    for (int states = 0; states <= 8; states += 8) {
        struct hearth_session *s = NULL;
        struct hearth_session_params params = hearth_session_params_default();
        params.n_ctx = S_CTX;
        params.max_seqs = 6;
        params.n_threads = 1;
        params.max_states = states;
        OK(hearth_session_open(&s, m, &params, &err));
        int seqs[6];
        hearth_token tokens[20];
        for (int i = 0; i < 20; i++)
            tokens[i] = below(hearth_model_info(m)->n_vocab);
        for (int i = 0; i < 3; i++) {
            seqs[i] = hearth_seq_new(s, &err);
            OK(hearth_prompt(s, seqs[i], tokens + i, 17, NULL, NULL, &err));
            seqs[3 + i] = hearth_seq_fork(s, seqs[i], 17, &err);
            assert_true(seqs[3 + i] >= 0);
        }
        const int rc = hearth_step(s, seqs, tokens, 6, &err);
        assert_int_equal(rc, states ? HEARTH_E_BUDGET : HEARTH_OK);
        if (rc)
            assert_non_null(strstr(err.message, "12 always do (max_states)"));
        hearth_session_close(&s);
    }
    hearth_model_close(&m);
    empty_folder();
}

// ---- saved beside the session

enum { SAVES = 12 };

struct saver {
    pthread_t thread;
    struct hearth_session *session;
    int seq;
    atomic_int saves; // so far
    int failed;
};

static void *save_again_and_again(void *arg)
{
    struct saver *s = arg;
    char path[512];
    snprintf(path, sizeof path, "%s/beside", folder);
    for (int i = 0; i < SAVES; i++) {
        s->failed |= hearth_seq_save(s->session, s->seq, path, NULL);
        atomic_fetch_add(&s->saves, 1);
    }
    return NULL;
}

static size_t read_file(const char *path, uint8_t *bytes, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, size, f);
    fclose(f);
    return n;
}

// One thread writes a fork to a file while the session evaluates, cuts, forks and frees all that it shares
// pages with: each file is what it would have been before.
static void test_saved_beside(void **unused)
{
    (void)unused;
    state = 1;
    static uint8_t want[1 << 20], got[1 << 20];
    const char *model = in_folder("model.gguf"), *before = in_folder("before"), *beside = in_folder("beside");
    made_write(model, &(struct made){.arch = "llama"});
    struct hearth_model *m = NULL;
    struct hearth_session *s = NULL;
    struct hearth_session_params params = hearth_session_params_default();
    params.n_ctx = S_CTX;
    params.max_seqs = 4;
    params.n_threads = 2;
    OK(hearth_model_open(&m, model, NULL, &err));
    OK(hearth_session_open(&s, m, &params, &err));
    hearth_token tokens[100];
    for (int i = 0; i < 100; i++)
        tokens[i] = below(hearth_model_info(m)->n_vocab);
    int seq = hearth_seq_new(s, &err);
    OK(hearth_prompt(s, seq, tokens, 100, NULL, NULL, &err));
    OK(hearth_step(s, &seq, tokens, 1, &err));
    OK(hearth_seq_save(s, seq, before, &err));
    const size_t n = read_file(before, want, sizeof want);
    assert_in_range(n, 1000, sizeof want - 1);

    struct saver saver = {.session = s, .seq = hearth_seq_fork(s, seq, 101, &err)};
    assert_true(saver.seq > 0);
    assert_int_equal(pthread_create(&saver.thread, NULL, save_again_and_again, &saver), 0);
    while (atomic_load(&saver.saves) < SAVES) {
        for (int i = 0; i < 5; i++)
            OK(hearth_step(s, &seq, &tokens[i], 1, &err));
        OK(hearth_seq_truncate(s, seq, 30 + below(60), &err));
        const int fork = hearth_seq_fork(s, seq, 20, &err), loaded = hearth_seq_load(s, before, &err);
        assert_true(fork >= 0 && loaded >= 0);
        hearth_seq_free(s, seq);
        hearth_seq_free(s, fork);
        hearth_session_trim(s);
        seq = loaded;
    }
    pthread_join(saver.thread, NULL);
    assert_int_equal(saver.failed, 0);
    assert_int_equal(read_file(beside, got, sizeof got), n);
    assert_memory_equal(got, want, n);
    hearth_seq_free(s, saver.seq);
    check_pool(&s->kv);
    hearth_session_close(&s);
    hearth_model_close(&m);
    empty_folder();
}

int main(int argc, char **argv)
{
    const char *n = getenv("HEARTH_OPERATIONS");
    if (n)
        operations = atoi(n);
    else if (is_thorough())
        operations *= 2;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_check),
        cmocka_unit_test_setup_teardown(test_saved_beside, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_shared_states, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_kept_of_another, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_sessions, make_folder, remove_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
